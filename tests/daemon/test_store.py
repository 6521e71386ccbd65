#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a long-lived sandbox keeps from a stop to the next start, and what hostile code can make of that."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import daemon  # noqa: E402
from daemon_store import again, is_gone  # noqa: E402
from harness import PATIENCE, descendants, files_as_root, main, scratch, state, test, uid, wait_until, workspace  # noqa: E402

WAIT = 10 * PATIENCE
NOTE = "for p in ~ /tmp /var/tmp /dev/shm .; do echo kept > $p/note; done"
READ = "for p in ~ /tmp /var/tmp /dev/shm .; do cat $p/note 2>/dev/null || echo gone; done"


def boxes():
    return state() / "brig/daemon/sandboxes"


def sh(d, box, line):
    r = d.exec(box, "sh", "-c", line)
    return r["stdout"].split()


def keeps(spec):
    with daemon() as d:
        box = d.create(spec=spec)["id"]
        sh(d, box, NOTE + "; sleep 600 >/dev/null 2>&1 &")
        assert sh(d, box, READ) == ["kept"] * 5
        d.do(box, "stop", {"grace": "0s"})
        assert "sleep" not in descendants(d.process.pid).values()
        assert d.call("GET", f"/v1/sandboxes/{box}").json["store"] is True
        d.do(box, "resume")
        # Below /dev/shm is memory, which is not kept.
        assert sh(d, box, READ) == ["kept", "kept", "kept", "gone", "kept"], sh(d, box, READ)
        is_gone(d, box)


@test
def a_stop_keeps_files_and_drops_processes_and_memory():
    keeps({"backend": "native"})


@test
def a_stop_keeps_files_on_bwrap_too():
    keeps({"backend": "bwrap"})


@test
def a_folder_of_the_host_may_be_mounted_into_what_is_kept():
    shown = scratch() / "shown"
    shown.mkdir(exist_ok=True)
    (shown / "note").write_text("host\n")
    with daemon() as d:
        box = d.create(spec={"backend": "native", "mounts": [{"source": str(shown), "target": "/tmp/a/b"}]})["id"]
        assert sh(d, box, "echo kept > /tmp/note; cat /tmp/a/b/note") == ["host"]
        again(d, box)
        assert sh(d, box, "cat /tmp/note /tmp/a/b/note") == ["kept", "host"]


@test
def what_a_killed_monitor_leaves_is_found_again():
    with daemon() as d:
        box = d.create(spec={"backend": "native"})["id"]
        sh(d, box, "echo kept > ~/note")
        with files_as_root():
            for pid, name in descendants(d.process.pid).items():
                if name == "brig-monitor":
                    os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: d.call("GET", f"/v1/sandboxes/{box}").json["state"] == "stopped", WAIT)
        assert wait_until(lambda: d.call("POST", f"/v1/sandboxes/{box}/resume?wait=true").status == 200, WAIT)
        assert sh(d, box, "cat ~/note") == ["kept"]


@test
def a_writable_layer_is_kept_and_so_is_what_was_removed_from_it():
    with daemon() as d:
        box = d.create(spec={"backend": "native", "read_only_root": False})["id"]
        sh(d, box, "echo kept > /usr/local/note; mkdir /usr/local/sbin/more; rm -rf /usr/local/share")
        again(d, box)
        assert sh(d, box, "cat /usr/local/note; ls -d /usr/local/sbin/more /usr/local/share; ls -a / | grep layer") == ["kept", "/usr/local/sbin/more"]
        is_gone(d, box)
    assert pathlib.Path("/usr/local/share").exists() and not pathlib.Path("/usr/local/note").exists()


LINKS = """
ln -s {victim} ~/link; ln -s {victim} /tmp/link; ln -s {victim} /var/tmp/link; ln -s {victim}/file ~/.profile
cd /tmp; for n in $(seq 300); do mkdir d; cd d; done; ln -s {victim} link; mkfifo pipe
cd /; mkdir -p ~/closed/in; chmod 0 ~/closed/in ~/closed
chmod 0 ~ /tmp /var/tmp; echo done
"""


@test
def links_and_closed_folders_in_what_is_kept_lead_nowhere():
    victim = scratch() / "victim"
    victim.mkdir(exist_ok=True)
    (victim / "file").write_text("safe\n")
    with daemon() as d:
        box = d.create(spec={"backend": "native"})["id"]
        r = d.exec(box, "sh", "-c", LINKS.format(victim=victim))
        assert r["stdout"].split() == ["done"], r
        with files_as_root():
            # The control: a host that follows one gets there.
            assert (boxes() / box / "store/home/link").resolve() == victim.resolve()
        d.do(box, "stop", {"grace": "0s"})
        # 300 folders in one another are no program's: the start is refused, by name, and nothing else happens.
        a = d.call("POST", f"/v1/sandboxes/{box}/resume?wait=true")
        assert a.status != 200 and "home_size" in a.body.decode(), a
        is_gone(d, box)
        box = d.create(spec={"backend": "native"})["id"]
        assert sh(d, box, LINKS.replace("300", "30").format(victim=victim)) == ["done"]
        again(d, box)  # brig has looked through it, and opened what was closed to its owner
        assert sh(d, box, "stat -c %a ~ /tmp /var/tmp; ls ~/closed") == ["700", "1777", "1777", "in"]
        is_gone(d, box)
    assert (victim / "file").read_text() == "safe\n" and os.listdir(victim) == ["file"]


@test
def a_link_in_place_of_a_mount_point_refuses_the_start():
    shown, victim = scratch() / "shown", scratch() / "victim"
    for f in (shown, victim):
        f.mkdir(exist_ok=True)
    with daemon() as d:
        spec = {"backend": "native", "mounts": [f"{shown}:/tmp/a/b:rw"]}
        for line in ("mv /tmp/a /tmp/old; ln -s /usr /tmp/a", f"mv /tmp/a /tmp/old; mkdir /tmp/a; ln -s {victim} /tmp/a/b", "mv /tmp/a /tmp/old; touch /tmp/a"):
            box = d.create(spec=spec)["id"]
            # A mount point cannot be moved away by who is inside while it is mounted; what is above it can.
            sh(d, box, line)
            d.do(box, "stop", {"grace": "0s"})
            a = d.call("POST", f"/v1/sandboxes/{box}/resume?wait=true")
            assert a.status != 200, (line, a)
            is_gone(d, box)
    assert os.listdir(victim) == [] and os.listdir(shown) == []


@test
def a_link_on_the_way_to_a_worktrees_repository_leads_bwrap_nowhere():
    repository, tree, victim = scratch() / "repository", scratch() / "tree", scratch() / "victim"
    top = pathlib.Path(*scratch().parts[:4])
    assert top.parent in (pathlib.Path("/tmp"), pathlib.Path("/var/tmp")), top
    victim.mkdir(exist_ok=True)
    git = ("git", "-c", "safe.directory=*", "-c", "user.name=a", "-c", "user.email=a@example")
    with files_as_root():
        subprocess.run([*git, "init", "-q", repository], check=True)
        subprocess.run([*git, "-C", repository, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
        subprocess.run([*git, "-C", repository, "worktree", "add", "-q", tree], check=True, capture_output=True)
        subprocess.run(["chown", "-R", f"{uid()}:{uid()}", repository, tree, victim], check=True)
    with daemon() as d:
        box = d.create(spec={"backend": "bwrap", "workspace": {"path": str(tree), "target": "/workspace"}})["id"]
        assert sh(d, box, f"test -d {repository}/.git && echo shown") == ["shown"]
        sh(d, box, f"mv {top} {top.parent}/away; ln -s /oldroot{victim} {top}")
        again(d, box)
        assert sh(d, box, f"test -d {repository}/.git && echo shown") == ["shown"]
        is_gone(d, box)
    assert os.listdir(victim) == []
    with files_as_root():
        shutil.rmtree(repository)
        shutil.rmtree(tree)


@test
def what_is_kept_is_nobodys_but_the_owners():
    with daemon() as d:
        box = d.create(spec={"backend": "native"})["id"]
        sh(d, box, "echo 1 > ~/note; chmod 4755 ~/note; cp /bin/true ~/tool; chmod 6755 ~/tool")
        top = boxes() / box / "store"
        with files_as_root():
            assert os.stat(top).st_mode & 0o777 == 0o700 and os.stat(top).st_uid == os.stat(boxes()).st_uid
            for f in ("home/note", "home/tool"):
                st = os.stat(top / f)
                assert st.st_uid == os.stat(boxes()).st_uid and not st.st_mode & 0o6000, (f, oct(st.st_mode))
        # Nor is it shown by way of another sandbox.
        a = d.call("POST", "/v1/sandboxes?wait=true", {"spec": {"read": [str(top)]}}).json
        assert a["state"] == "failed", a


@test
def more_than_home_size_is_not_kept():
    with daemon() as d:
        box = d.create(spec={"backend": "native", "home_size": "1m"})["id"]
        sh(d, box, "head -c 3000000 /dev/zero > /tmp/large")
        d.do(box, "stop", {"grace": "0s"})
        a = d.call("POST", f"/v1/sandboxes/{box}/resume?wait=true")
        assert a.status != 200 and "home_size" in a.body.decode(), a
        is_gone(d, box)


@test
def a_sandbox_that_fills_the_disk_is_stopped():
    with daemon() as d:
        box = d.create(spec={"backend": "native", "home_size": "16m"})["id"]
        d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["sh", "-c", "head -c 200000000 /dev/zero > ~/large; sleep 600"], "detach": True})
        assert wait_until(lambda: d.call("GET", f"/v1/sandboxes/{box}").json["state"] == "stopped", WAIT)
        assert d.call("GET", f"/v1/sandboxes/{box}").json["reason"] == "disk"
        is_gone(d, box)


@test
def the_limit_of_the_disk_counts_what_is_kept():
    with daemon() as d:
        box = d.create(spec={"backend": "native", "limits": {"disk": "16m"}})["id"]
        d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["sh", "-c", "head -c 30000000 /dev/zero > ~/large; sync ~/large; sleep 600"], "detach": True})
        assert wait_until(lambda: d.call("GET", f"/v1/sandboxes/{box}").json["state"] == "stopped", WAIT)
        is_gone(d, box)


@test
def a_limit_for_tmp_keeps_it_in_memory_and_says_so():
    with daemon() as d:
        box = d.create(spec={"backend": "native", "workspace": {"path": str(workspace())}, "limits": {"tmp": "64m"}})["id"]
        sh(d, box, "echo kept > ~/note; echo kept > note")
        assert "limits.tmp" in d.call("GET", f"/v1/sandboxes/{box}/logs").body.decode()
        again(d, box)
        assert sh(d, box, "cat note; cat ~/note || echo gone") == ["kept", "gone"]
        assert d.call("GET", f"/v1/sandboxes/{box}").json["store"] is False
        (workspace() / "note").unlink()


if __name__ == "__main__":
    sys.exit(main())
