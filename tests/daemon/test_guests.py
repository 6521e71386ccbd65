#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A guest that knows how the daemon works: it floods, fills, forks and fights, and looks for the monitor that owns it."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import daemon  # noqa: E402
from harness import PATIENCE, brig_argv, brig_environment, descendants, files_as_root, main, state, test, wait_until, workspace  # noqa: E402

MIB = 1 << 20
BOXES = int(os.environ.get("BRIG_BOXES", "5"))
WAIT = 10 * PATIENCE

# Says whether whoever listens there speaks to it.
KNOCK = """
import os, socket, sys
os.chdir(sys.argv[1])
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.settimeout(10)
try:
    s.connect(sys.argv[2])
    print("heard" if s.recv(4096) else "refused")
except OSError as e:
    print("refused", e)
"""


def here():
    return {"workspace": {"path": str(workspace())}}


def folder(box):
    return state() / "brig/daemon/sandboxes" / box


def sockets():
    return state() / "brig/daemon/sockets"


def kept(box):
    """Bytes in the folder of its commands."""
    with files_as_root():
        return sum(p.stat().st_size for p in (folder(box) / "execs").iterdir())


def start(d, box, line, **more):
    a = d.call("POST", f"/v1/sandboxes/{box}/exec", {"command": line, "detach": True, **more})
    assert a.status in (200, 201, 202), a
    return a.json.get("exec") or a.json["id"]


def result(d, box, run):
    def ended():
        return d.call("GET", f"/v1/sandboxes/{box}/execs/{run}").json["state"] == "ended"

    assert wait_until(ended, WAIT)
    return d.call("GET", f"/v1/sandboxes/{box}/execs/{run}").json["result"]


def resident(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@test
def a_flood_is_cut_and_nobody_grows():
    with daemon() as d:
        box = d.create()["id"]
        before = resident(d.process.pid)
        runs = [start(d, box, "yes flood", timeout="700ms", output_limit="64k") for _ in range(4)]
        for run in runs:
            r = result(d, box, run)
            assert r["outcome"] == "timeout" and r["stdout_truncated"] and r["stdout_bytes"] > 64 * 1024, r
        assert kept(box) < 1 * MIB, kept(box)
        assert resident(d.process.pid) < before + 8 * MIB
        assert d.exec(box, "echo", "well")["stdout"] == "well\n"


@test(alone=True, as_user="user")
def commands_cannot_fill_the_disk_with_what_is_kept():
    with daemon() as d:
        box = d.create()["id"]
        for _ in range(11):
            run = start(d, box, "head -c 8388608 /dev/zero | tr '\\0' x", output_limit="8m")
            assert result(d, box, run)["stdout_bytes"] == 8 * MIB
        assert kept(box) <= 64 * MIB + MIB, kept(box)
        assert d.exec(box, "echo", "well")["stdout"] == "well\n"


@test
def forks_do_not_outrun_a_cancel():
    with daemon() as d:
        box = d.create(spec={"limits": {"pids": 60}})["id"]
        bomb = "f() { (setsid sh -c 'while :; do (sleep 31 &) ; done' &) ; }; f; f; f; echo up; while :; do (sleep 31 &); done"
        run = start(d, box, bomb)

        def grown():
            return d.call("GET", f"/v1/sandboxes/{box}/execs/{run}").json["state"] == "running"

        assert wait_until(grown)
        a = d.call("POST", f"/v1/sandboxes/{box}/execs/{run}/cancel")
        assert a.status < 300, a
        assert result(d, box, run)["outcome"] == "cancelled"

        def quiet():
            got = d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["sh", "-c", "ps -e | grep -c sleep"]})
            return got.status == 200 and got.json["stdout"] == "0\n"

        assert wait_until(quiet, WAIT)


# Numbers of processes are given in turn: it stops the next ones, if it can before they have started anything.
STOP_STARTERS = """
import os, signal
kill, stop = os.kill, signal.SIGSTOP
next = os.fork() or os._exit(0)
os.wait()
open("ready", "w").close()
while True:
    for number in range(next + 1, next + 65):
        try:
            kill(number, stop)
            next = number
        except ProcessLookupError:
            pass
"""


@test
def a_guest_that_keeps_commands_from_starting_blocks_nobody_else():
    with daemon() as d:
        box = d.create(spec=here())["id"]
        start(d, box, f"exec python3 -c '{STOP_STARTERS}'")
        assert wait_until((workspace() / "ready").exists, WAIT)

        def runs_still(run):
            return d.call("GET", f"/v1/sandboxes/{box}/execs/{run}").json["state"] == "running"

        # The control: one of them is stopped in time, and then does not begin, however long it takes.
        for _ in range(40):
            runs = [start(d, box, "true") for _ in range(20)]
            if not wait_until(lambda: not any(map(runs_still, runs)), 0.5):
                break
        stuck = next(run for run in runs if runs_still(run))
        assert d.call("POST", f"/v1/sandboxes/{box}/execs/{stuck}/cancel").status == 204
        assert result(d, box, stuck)["outcome"] == "cancelled"
        assert d.call("PATCH", f"/v1/sandboxes/{box}", {"labels": {"a": "b"}}).status == 200
        a = d.call("POST", f"/v1/sandboxes/{box}/stop", {"grace": "0s"})
        assert a.status == 200 and a.json["state"] == "stopped", a


@test
def a_signal_that_comes_before_the_command_runs_is_not_lost():
    with daemon() as d:
        box = d.create()["id"]
        for _ in range(10):
            run = start(d, box, "exec sleep 600")
            assert d.call("POST", f"/v1/sandboxes/{box}/execs/{run}/signal", {"signal": "TERM"}).status == 204
            assert result(d, box, run)["signal"] == 15


@test
def those_who_keep_one_another_running_cannot_confuse_a_pause():
    with daemon() as d:
        box = d.create(spec={"limits": {"pids": 40}})["id"]
        start(d, box, "for i in 1 2 3 4; do (while :; do kill -CONT -1 2> /dev/null; done) & done; wait")
        for _ in range(3):
            a = d.call("POST", f"/v1/sandboxes/{box}/pause")
            now = d.call("GET", f"/v1/sandboxes/{box}").json["state"]
            assert (a.status == 200 and now == "paused") or (a.status >= 400 and now == "ready"), (a, now)
            assert d.call("POST", f"/v1/sandboxes/{box}/resume").status < 300
            assert wait_until(lambda: d.call("GET", f"/v1/sandboxes/{box}").json["state"] == "ready", WAIT)
        assert d.exec(box, "echo", "well")["stdout"] == "well\n"


@test
def a_guest_finds_neither_the_monitor_nor_its_folder():
    with daemon() as d:
        box = d.create(spec=here())["id"]
        (workspace() / "knock.py").write_text(KNOCK)
        place = str(folder(box))
        got = d.exec(box, "python3", "knock.py", str(sockets()), box)
        assert got["exit_code"] != 0 and "heard" not in got["stdout"], got
        got = d.exec(box, "sh", "-c", f"ls -a {place} {place}/.. /proc/1/fd /proc/1/root 2> /dev/null; cat /proc/net/unix | grep -c sb_")
        assert got["stdout"].strip() == "0", got
        got = d.exec(box, "sh", "-c", "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2> /dev/null; done | grep -c brig-monitor")
        assert got["stdout"].strip() == "0" or box not in got["stdout"], got
        (workspace() / "knock.py").unlink()


@test
def a_monitor_hears_none_of_another_namespace():
    with daemon() as d:
        box = d.create()["id"]
        with files_as_root():
            argv = [w for w in brig_argv() if not w.endswith("/brig")]
            knock = ["/usr/bin/python3", "-c", KNOCK, str(sockets()), box]

            def tried(*prefix):
                done = subprocess.run([*argv, *prefix, *knock], capture_output=True, env=brig_environment(), timeout=30)
                return done.stdout.decode().split()

            assert tried()[:1] == ["heard"], tried()
            assert tried("/usr/bin/unshare", "-Ur")[:1] == ["refused"]
        assert d.exec(box, "true")["exit_code"] == 0


def listed():
    """Of this network, as every start of a run reads them: numbers, and the names that are files."""
    lines = [line.split() for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]]
    return {w[6] for w in lines}, {w[7] for w in lines if len(w) > 7}


def on_the_list(name):
    """So many of the sockets of all processes of that name."""
    found = set()
    with files_as_root():
        for pid, called in descendants().items():
            for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir() if called == name else ():
                with contextlib.suppress(OSError):
                    found |= set(re.findall(r"^socket:\[(\d+)\]$", os.readlink(entry)))
    assert found, f"the control proves nothing: {name} has no socket"
    return len(found & listed()[0])


@test
def many_sandboxes_add_no_socket_to_the_hosts_list():
    """A start of a run lists the sockets of the host: a thousand sandboxes would be thousands more."""
    with daemon() as d:
        boxes, names = [d.create()["id"]], listed()[1]
        wait_until(lambda: on_the_list("brigd") == 1, 0.2)  # the connection of the last call may still be there
        before = on_the_list("brigd")
        assert before and str(d.path) in names, "the control proves nothing"
        boxes += [d.create()["id"] for _ in range(3)]
        assert wait_until(lambda: on_the_list("brigd") <= before)
        assert on_the_list("brig-monitor") == on_the_list("brig-init") == 0
        with files_as_root():
            assert set(os.listdir(sockets())) == set(boxes)
        assert not any(pathlib.Path(n).name in boxes for n in listed()[1]), names
        d.stop(signal.SIGKILL)
        d.start()
        assert wait_until(lambda: on_the_list("brigd") <= before)
        for box in boxes:
            assert d.exec(box, "true")["exit_code"] == 0
            assert d.call("DELETE", f"/v1/sandboxes/{box}").status < 300
        with files_as_root():
            assert wait_until(lambda: not os.listdir(sockets()), WAIT), os.listdir(sockets())


@test
def the_daemons_folders_cannot_be_shown():
    with daemon() as d:
        box = d.create()["id"]
        for path in (state() / "brig/daemon", folder(box), state() / "brig"):
            a = d.call("POST", "/v1/sandboxes?wait=true", {"spec": {"workspace": {"path": str(path)}}})
            assert a.status >= 400 or a.json["state"] == "failed", a
        link = workspace() / "way"
        with contextlib.suppress(FileExistsError):
            link.symlink_to(folder(box))
        a = d.call("POST", "/v1/sandboxes?wait=true", {"spec": {"workspace": {"path": str(link)}}})
        assert a.status >= 400 or a.json["state"] == "failed", a
        link.unlink()
        a = d.call("POST", "/v1/sandboxes?wait=true", {"spec": here()})
        assert a.status == 201 and a.json["state"] == "ready", a


@test(limit=60 + 6 * BOXES)
def many_commands_at_once_are_all_answered():
    """BRIG_BOXES sandboxes with 20 commands each, all of which run at the same time (make soak: 50)."""
    with daemon() as d:
        boxes = [d.create(idle_ttl="0s")["id"] for _ in range(BOXES)]
        for box in boxes:
            assert d.exec(box, "mkfifo", "/tmp/go")["exit_code"] == 0
        runs = [(box, start(d, box, f": < /tmp/go; echo {n}")) for n in range(20) for box in boxes]  # it waits for who writes
        for box in boxes:
            assert d.call("GET", f"/v1/sandboxes/{box}").json["execs_running"] == 20
        for box in boxes:
            start(d, box, "exec sleep 600 3<> /tmp/go")
        for i, (box, run) in enumerate(runs):
            r = result(d, box, run)
            assert r["exit_code"] == 0, (i, r, d.call("GET", f"/v1/sandboxes/{box}").json["reason"])


if __name__ == "__main__":
    sys.exit(main())
