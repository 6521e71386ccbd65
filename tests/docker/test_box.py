#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a container of brig's can see, do and reach, compared with what the engine says it made."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import common  # noqa: E402
from common import engine  # noqa: E402
from common import box, container_of, environment, options, ours, settle, sh, shared_engine, start_box, token  # noqa: E402
from harness import (PATIENCE, around, brig, brig_environment, compile_c, descendants, home, identity, main, scratch, start_brig, state, test, tree, uid,  # noqa: E402
                     wait_until, workspace)

around(shared_engine)
HERE = pathlib.Path(__file__).resolve().parent


def inside():
    """The uid that the command has in the container."""
    return 1000 if identity() == "root" else uid()


# ---- files ----


@test
def files_keep_their_owner_and_a_read_only_policy_holds():
    assert sh("echo made > new; mkdir -p a/b; id -u; id -un").text.split() == [str(inside()), "brig"]
    assert (workspace() / "new").stat().st_uid == inside() and (workspace() / "new").read_text() == "made\n"
    done = sh("cat new; echo x > new", "--policy", "readonly")
    assert done.status != 0 and done.text == "made\n" and "Read-only" in done.errors, done.errors
    assert (workspace() / "new").read_text() == "made\n"


@test(as_user="root")
def a_workspace_the_user_inside_cannot_write_is_said_before():
    # The engine has a view of its own and does not see what brig mounts here.
    (workspace() / "kept").write_text("mine\n")
    done = box("--", "touch", "x", settled=False)
    assert done.status == 125 and "Permission denied" in done.errors and f"chown -R 1000:1000 '{workspace()}'" in done.errors, done.errors
    assert box("--policy", "readonly", "--", "true", settled=False).status == 0
    assert os.listdir(workspace()) == ["kept"] and wait_until(lambda: not tree(state() / "brig/docker"))


@test(as_user="root", limit=180)
def a_workspace_of_roots_is_shown_as_the_commands_own():
    where = pathlib.Path(f"/tmp/{os.getpid()}-d")
    (workspace() / "secret").write_text("mine\n")
    (workspace() / "secret").chmod(0o600)
    (workspace() / ".git").mkdir()
    (workspace() / ".git/config").write_text("")
    with engine.Dockerd(where) as e:
        try:
            e.import_image(engine.busybox_tar())
            r = box("--json", "--", "sh", "-c", "id -u; cat secret; stat -c %u secret; echo x > made; mkdir d; echo y > .git/config; id -u > d/id",
                    host=e.host, settled=False).json
            assert r["stdout"].splitlines() == ["1000", "mine", "1000"] and "Read-only" in r["stderr"], r
            made = {p.name: (p.stat().st_uid, p.stat().st_gid) for p in (workspace() / "made", workspace() / "d", workspace() / "d/id")}
            assert set(made.values()) == {(0, 0)} and (workspace() / "d/id").read_text() == "1000\n", made
            # Nothing stays mounted: after an end, and after a guard that was killed.
            mounts = lambda: [line for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines() if ".work" in line]  # noqa: E731
            assert wait_until(lambda: not mounts() and not tree(state() / "brig/docker"), 10), mounts()
            word = token()
            p = start_brig(*options(), "--", "sh", "-c", f"sleep 100; : {word}", env=environment(e.host))
            container_of(word, e, running=True)
            assert mounts()
            for pid, name in descendants().items():
                if name == "brig-guard":
                    os.kill(pid, signal.SIGKILL)
            assert p.wait(30 * PATIENCE) != 0
            assert box("--", "true", host=e.host, settled=False).status == 0
            assert wait_until(lambda: not mounts() and not tree(state() / "brig/docker") and not ours(e), 20), (mounts(), ours(e))
            assert sorted(os.listdir(workspace())) == [".git", "d", "made", "secret"]
        finally:
            e.stop()
            shutil.rmtree(where, ignore_errors=True)


@test
def the_doctors_attacks_are_held():
    (scratch() / "image.yaml").write_text(f"image: {engine.IMAGE}\n")
    done = brig("doctor", "--attack", "--backend", "docker", "--config", scratch() / "image.yaml",
                env=environment(env={"TMPDIR": str(scratch())}))  # a folder that the engine sees, too
    assert done.status == 0 and done.text.count("[pass] docker ") > 18 and "[fail]" not in done.text, done.text


@test
def the_record_is_not_shown_with_the_folder_it_lies_in():
    state = pathlib.Path(brig_environment()["XDG_STATE_HOME"])
    state.chmod(0o755)
    (state / "other").write_text("shown\n")
    assert sh("true").status == 0  # now there is a record
    audit = state / "brig/audit"
    assert (audit / "key").exists()
    done = sh(f"cat {state}/other; ls -A {audit}; cat {audit}/key", "--read", state)
    (state / "other").unlink()
    assert done.text == "shown\n" and done.status != 0, (done.text, done.errors)


@test
def shown_trees_appear_where_they_were_asked_for():
    for name in ("r", "w", "m"):
        (scratch() / name).mkdir()
        (scratch() / name / "f").write_text(name)
    if identity() == "root":
        os.chown(scratch() / "w", 1000, 1000)
    r, w, m = (scratch() / n for n in "rwm")
    done = sh(f"cat {r}/f {w}/f /data/f; echo new > {w}/g; echo x > {r}/f; echo x > /data/f; true",
              "--read", str(r), "--write", str(w), "--mount", f"{m}:/data")
    assert done.text == "rwm" and done.errors.count("Read-only") == 2, done.errors
    assert (w / "g").read_text() == "new\n" and (r / "f").read_text() == "r"


@test
def a_path_that_json_cannot_say_is_refused_and_no_other_is_shown():
    """An engine would read the bytes as U+FFFD, which is the name of another folder."""
    asked, other = os.fsencode(scratch()) + b"/d\xff", os.fsencode(scratch()) + "/d\ufffd".encode()
    for folder in (asked, other):
        os.mkdir(folder)
        pathlib.Path(os.fsdecode(folder), "file").write_text("asked\n" if folder == asked else "another\n")
    found = sh(f"cat {scratch()}/d*/file", "--read", os.fsdecode(other))
    assert found.text == "another\n", found.errors  # the control: such a name is no obstacle
    for option in ("--read", "--write", "--workdir"):
        done = sh(f"cat {scratch()}/d*/file file", option, os.fsdecode(asked))
        assert done.status == 125 and done.text == "" and "paths that are not UTF-8" in done.errors, (option, done.text, done.errors)
    done = sh("cat /data/file", "--mount", f"{os.fsdecode(asked)}:/data")
    assert done.status == 125 and "paths that are not UTF-8" in done.errors, done.errors


@test
def protected_names_stay_as_they_are():
    (workspace() / ".git/hooks").mkdir(parents=True)
    (workspace() / ".git/objects").mkdir()
    (workspace() / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (workspace() / ".git/config").write_text("[core]\n")
    if identity() == "root":
        for path in workspace().rglob("*"):
            os.chown(path, 1000, 1000)
    before = tree(workspace())
    done = sh("for n in .git/hooks/pre-commit .git/config .vscode/tasks.json .mcp.json; do echo evil > $n; done 2>/dev/null; "
              "mv .git old; rm -rf .git/hooks; echo work > file; true")
    assert done.status == 0, done.errors
    (workspace() / "file").unlink()
    assert tree(workspace()) == before


@test
def the_root_is_read_only_and_the_private_folders_have_sizes():
    done = sh("touch /x /etc/x /bin/x 2>&1 | grep -c Read-only; "
              "cp /bin/busybox /tmp/b && /tmp/b true; echo tmp=$?; cp /bin/busybox ~/true && ~/true; echo home=$?; "
              "df -k /tmp | tail -1; env | grep -E 'CARGO_HOME|XDG_CACHE_HOME|GOPATH|BRIG_SANDBOX'; "
              "head -c 80m /dev/zero > /tmp/big; echo big=$?")
    assert "3\n" in done.text and "home=0" in done.text and "tmp=126" in done.text and "big=1" in done.text, done.text
    assert "65536" in done.text and "BRIG_SANDBOX=docker" in done.text and "CARGO_HOME=/home/brig/.cargo" in done.text, done.text


@test
def an_engines_socket_is_never_shown():
    link = scratch() / "link"
    link.symlink_to(common.shared.socket)
    for option, value in (("--read", str(common.shared.socket)), ("--read", str(common.shared.folder)),
                          ("--mount", f"{common.shared.folder}:/x"), ("--mount", f"{link}:/x"), ("--write", str(common.shared.socket)),
                          ("--env", "DOCKER_HOST=tcp://10.0.0.1:2375")):
        done = box(option, value, "--", "true")
        assert done.status == 125, (option, value, done.errors)
    done = box("--read", str(common.shared.folder), "--", "true")
    assert "engine's socket" in done.errors, done.errors
    # Without the rule it would be reachable: the tree itself can be shown.
    (scratch() / "plain").mkdir()
    assert box("--read", str(scratch() / "plain"), "--", "true").status == 0


@test
def a_host_service_in_a_shown_folder_is_out_of_reach():
    path = workspace() / "service"
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()
    os.chmod(path, 0o777)
    assert stat.S_ISSOCK(path.stat().st_mode)
    done = sh("test -S service && echo socket; test -e service && echo something")
    assert done.text == "something\n", done.text
    server.close()
    path.unlink()


# ---- what the engine made ----


@test
def the_engine_made_what_was_asked_for():
    word = token()
    p = start_box("--pids", "77", "--memory", "64m", "--cpus", "0.5", "--", "sh", "-c", f": {word}; sleep 30")
    name = container_of(word, running=True)
    _, c = common.shared.ask("GET", f"/containers/{name}/json")
    p.terminate()
    p.wait(20 * PATIENCE)
    h = c["HostConfig"]
    assert h["CapDrop"] == ["ALL"] and not h["CapAdd"] and not h["Privileged"] and h["ReadonlyRootfs"] and not h["Init"], h
    assert c["Config"]["Entrypoint"][0].startswith("/.brig-") and len(c["Config"]["Entrypoint"][0]) == 39, c["Config"]["Entrypoint"]
    assert "no-new-privileges" in h["SecurityOpt"] and any(o.startswith("seccomp={") for o in h["SecurityOpt"]), h["SecurityOpt"][:1]
    assert h["NetworkMode"] == "none" and h["IpcMode"] == "private" and not h["PidMode"] and not h["UsernsMode"] and not h["Devices"], h
    assert (h["Memory"], h["MemorySwap"], h["NanoCpus"], h["PidsLimit"]) == (64 << 20, 64 << 20, 500000000, 78), h
    assert h["LogConfig"]["Type"] == "none" and not h["AutoRemove"] and h["RestartPolicy"]["Name"] in ("", "no"), h
    assert c["Config"]["Labels"]["brig.run"] == name.removeprefix("brig-") and len(c["Config"]["Labels"]["brig.nonce"]) == 32
    assert not any("docker.sock" in m["Source"] for m in c["Mounts"])


ROLE = """apiVersion: initrunner/v1
kind: Agent
metadata: {name: t}
spec: {role: x}
security:
  sandbox:
    backend: docker
    docker:
      image: brig-test:1
      extra_args: %s
"""


@test
def extra_args_reach_their_api_fields():
    word = token()
    path = scratch() / "role.yaml"
    path.write_text(ROLE % json.dumps(["--pids-limit=100", "--ulimit=nofile=1024", "--label", "team=x", "--shm-size=16m", "--hostname=there"]))
    settle()
    from harness import start_brig
    p = start_brig("run", "--config", str(path), "--", "sh", "-c", f": {word}; sleep 30", env=environment())
    try:
        name = container_of(word, running=True)
        _, c = common.shared.ask("GET", f"/containers/{name}/json")
    finally:
        p.terminate()
        out, err = p.communicate(timeout=20 * PATIENCE)
    h = c["HostConfig"]
    assert h["PidsLimit"] == 100 and h["ShmSize"] == 16 << 20, (h["PidsLimit"], err)
    assert {"Name": "nofile", "Soft": 1024, "Hard": 1024} in h["Ulimits"], h["Ulimits"]
    assert c["Config"]["Labels"]["team"] == "x" and c["Config"]["Hostname"] == "there"
    assert c["Config"]["WorkingDir"] == "/work" and h["Memory"] == 256 << 20 and h["Tmpfs"]["/tmp"].startswith("rw,noexec,nosuid")
    for bad in ("--privileged", "--cap-add=ALL", "-v/:/x", "--pids-limit=-1", "--security-opt=seccomp=unconfined", "other/image"):
        path.write_text(ROLE % json.dumps([bad]))
        done = brig("run", "--config", str(path), "--", "true", env=environment())
        assert done.status == 125 and "blocked by sandbox policy" in done.errors, (bad, done.errors)


@test(limit=120)
def every_allowed_flag_is_found_in_what_the_engine_made():
    """One container with all of them; those that exclude each other, in a second and a third."""
    cases = {  # value, what stands in its field
        "--memory-reservation": ("64m", 64 << 20), "--memory-swap": ("256m", 256 << 20), "--memory-swappiness": ("10", 10),
        "--cpu-shares": ("512", 512), "--cpus": ("0.5", 500000000), "--cpu-period": ("50000", 50000), "--cpu-quota": ("25000", 25000),
        "--cpuset-cpus": ("0", "0"), "--cpuset-mems": ("0", "0"), "--pids-limit": ("100", 100), "--shm-size": ("16m", 16 << 20),
        "--oom-score-adj": ("500", 500), "--stop-signal": ("SIGINT", "SIGINT"), "--stop-timeout": ("3", 3),
        "--hostname": ("there", "there"), "--label": ("team=x", {"team": "x"}), "--read-only": (None, True),
        "--ulimit": ("nofile=1024", [{"Name": "nofile", "Soft": 1024, "Hard": 1024}]),
        "--tmpfs": ("/scratch:size=1m", {"/scratch": "size=1m,noexec,nosuid,nodev"}),
        "--gpus": ("all", None),
    }
    source = (HERE.parents[1] / "src/model/dialect/extra_args_table.c").read_text()
    rows = dict(re.findall(r'^\t\{ "(--[a-z-]+)", "([\w.]+)"', source, re.M))
    assert set(rows) == set(cases), set(rows) ^ set(cases)

    def holds(found, wanted):
        if isinstance(wanted, dict):
            return wanted.items() <= found.items()
        return all(w in found for w in wanted) if isinstance(wanted, list) else found == wanted

    groups = ({"--cpus"}, {"--memory-swappiness"}, {"--gpus"})
    for flags in (set(cases).difference(*groups), *groups):
        words = [w for f in sorted(flags) for w in (f, cases[f][0]) if w is not None]
        if flags == {"--gpus"}:  # no such device here: the body alone
            assert '"DeviceRequests"' in json.dumps(plan_with(words)), words
            continue
        found = inspect_with(words)
        for f in flags:
            at = found if rows[f].startswith("HostConfig.") else found["Config"]
            for part in rows[f].split("."):
                at = at[part]
            assert holds(at, cases[f][1]), (f, at, cases[f][1])


def plan_with(extra_args):
    path = scratch() / "role.yaml"
    path.write_text(ROLE % json.dumps(extra_args))
    return brig("plan", "--config", str(path), "--", "true", env=environment()).json


def inspect_with(extra_args):
    """What the engine says of a container that runs with these."""
    word = token()
    path = scratch() / "role.yaml"
    path.write_text(ROLE % json.dumps(extra_args))
    settle()
    p = start_brig("run", "--config", str(path), "--", "sh", "-c", f": {word}; sleep 30", env=environment())
    try:
        name = container_of(word, running=True)
        return common.shared.ask("GET", f"/containers/{name}/json")[1]
    finally:
        p.terminate()
        print(extra_args, p.communicate(timeout=20 * PATIENCE))


@test
def an_images_own_wishes_do_not_count():
    name = f"hostile-{identity()}:1"
    common.shared.import_image(engine.busybox_tar(), name, (
        'ENTRYPOINT ["/bin/echo","entrypoint"]', "USER root", "WORKDIR /etc", "VOLUME /data", "ENV LD_PRELOAD=/x.so",
        'HEALTHCHECK CMD ["/bin/true"]', "ENV BRIG_SANDBOX=none"))
    try:
        done = sh("id -u; pwd; echo $BRIG_SANDBOX; grep ' /data ' /proc/mounts | cut -d' ' -f1; echo end", image=name)
        assert done.text.split() == [str(inside()), str(workspace()), "docker", "tmpfs", "end"], (done.text, done.errors)
        _, volumes = common.shared.ask("GET", "/volumes")
        assert not volumes["Volumes"], volumes
    finally:
        common.shared.ask("DELETE", f"/images/{name}?force=1")


@test
def a_volume_of_the_image_is_no_way_to_the_hosts_disk():
    """Neither a place without a limit, by a path that has to be cleaned first, nor a folder of root's left in the workspace."""
    name = f"volumes-{identity()}:1"
    before = os.listdir(workspace())
    try:
        common.shared.import_image(engine.busybox_tar(), name, ('VOLUME ["/a/../data", "/b/./c/"]',))
        _, image = common.shared.ask("GET", f"/images/{name}/json")
        assert "/a/../data" in image["Config"]["Volumes"], "the control proves nothing"
        done = sh("for d in /data /b/c; do grep \" $d \" /proc/mounts | cut -d' ' -f1; done; head -c 100m /dev/zero > /data/x; stat -c %s /data/x", image=name)
        assert done.text.split()[:2] == ["tmpfs", "tmpfs"] and int(done.text.split()[2]) <= 64 << 20, (done.text, done.errors)
        _, volumes = common.shared.ask("GET", "/volumes")
        assert not volumes["Volumes"], volumes
        for path in ("/workspace/new", "/workspace/./x/../new/deep"):
            common.shared.import_image(engine.busybox_tar(), name, (f'VOLUME ["{path}"]',))
            done = sh("true", "--set", "workspace.target=/workspace", image=name)
            assert done.status == 125 and "has a volume at '/workspace/new" in done.errors, done.errors
            assert os.listdir(workspace()) == before, os.listdir(workspace())
        assert sh("true", "--set", "workspace.target=/work", image=name).status == 0
    finally:
        common.shared.ask("DELETE", f"/images/{name}?force=1")


# ---- attacks ----

REFUSED = ("chmod_setuid", "create_setuid", "unshare_user", "mount", "socket_packet", "socket_raw", "socket_mptcp", "socket_vsock",
           "ioctl_tiocsti", "ioctl_tiocsti_high", "io_uring", "bpf", "keyctl", "prctl_set_mm", "mknod_device", "personality_odd",
           "setuid_root")
ALLOWED = ("chmod_plain", "socket_tcp", "socket_unix", "prctl_name", "core_to_zero", "core_asked", "mknod_fifo")


def probe_lines(text):
    return dict(line.split() for line in text.splitlines())


@test
def arguments_that_harm_neighbours_are_refused_as_on_native():
    """The controls, outside of a container, are those of tests/escape/test_syscalls.py."""
    attacks = HERE.parent / "escape/attacks/neighbours.c"
    (workspace() / "attack").write_bytes(compile_c(attacks, "-pthread").read_bytes())
    (workspace() / "attack").chmod(0o755)
    (workspace() / "file").write_text("x")
    each = {"leases file .": {"EINVAL"}, "aio": {"ENOSYS"}, "huge": {"EINVAL"}, "whiteout .": {"EINVAL", "EPERM"},
            "filters": {"EPERM", "EINVAL"}, "descriptors": {"EPERM"}}
    done = sh("; ".join(f"./attack {what}; echo status $?" for what in each))
    parts = done.text.split("status 1\n")
    assert len(parts) == len(each) + 1 and not parts[-1], done.text
    for part, (what, answers) in zip(parts, each.items()):
        assert {line.split()[-1] for line in part.splitlines() if line.startswith("- ")} == answers, (what, part)


@test
def strict_sees_nobody_open_anything_in_a_container_either():
    """With inotify on a folder of the host's a command would see what is opened there."""
    attacks = HERE.parent / "escape/attacks/neighbours.c"
    (workspace() / "attack").write_bytes(compile_c(attacks, "-pthread").read_bytes())
    (workspace() / "attack").chmod(0o755)
    assert "+ inotify " in sh("./attack spy").text, "the control proves nothing"
    done = sh("./attack spy", "--profile", "strict")
    tried = {line.split()[1] for line in done.text.splitlines() if line.startswith("- ")}
    assert done.status == 1 and {"inotify", "inotify-high", "inotify-thread", "watch-none", "fanotify", "notify"} <= tried, done.text


@test
def system_calls_are_those_of_the_table():
    probe = compile_c(HERE / "probe.c")
    (workspace() / "probe").write_bytes(probe.read_bytes())
    (workspace() / "probe").chmod(0o755)
    for more in ((), ("--runtime", "crooked-bootless")):  # the second cannot be told from one in a virtual machine
        found = probe_lines(box(*more, "--", "./probe").text)
        for name in REFUSED:
            # Root's id is none inside: a user namespace with one id.
            assert found[name] in ("EPERM", "ENOSYS", "EAFNOSUPPORT", "EPROTONOSUPPORT") or (name, found[name]) == ("setuid_root", "EINVAL"), (more, name, found[name])
        for name in ALLOWED:
            assert found[name] == "0", (more, name, found[name])
        assert found["clone3"] == "ENOSYS" and found["core_is"] == "1", (more, found)
        for name in set(os.listdir(workspace())) - {"probe"}:
            (workspace() / name).unlink()
    assert box("--json", *more, "--", "cat", "/proc/sys/kernel/random/boot_id").json["stdout"] == "", "the control proves nothing"
    # The same calls on the host, as the control: what is refused there too proves nothing.
    with subprocess.Popen([probe], cwd=scratch(), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as p:
        free = probe_lines(p.stdout.read())
    open_outside = [n for n in REFUSED if free[n] not in ("EPERM", "ENOSYS")]
    assert len(open_outside) >= (12 if identity() == "root" else 5), free
    for path in scratch().iterdir():
        path.unlink()


@test
def nothing_of_the_host_is_in_sight():
    done = sh("grep -E 'Cap(Eff|Bnd|Prm)|NoNewPrivs|Seccomp:' /proc/self/status; ls /proc | grep -c '^[0-9]'; ip -o link | wc -l; "
              "cat /proc/1/cmdline | tr '\\0' ' '; ls -a /root /run 2>/dev/null; echo > /proc/sys/kernel/core_pattern; wget -T 2 -q -O - http://169.254.169.254/")
    words = done.text.split()
    assert "CapEff: 0000000000000000" in " ".join(words) and "CapBnd: 0000000000000000" in " ".join(words), done.text
    assert "NoNewPrivs: 1" in " ".join(words) and "Seccomp: 2" in " ".join(words), done.text
    assert "/.brig-" in done.text and done.status != 0


# ---- runtimes ----


@test(limit=120)
def gvisor_really_runs_and_other_runtimes_are_asked_for():
    version = pathlib.Path("/proc/version").read_text()
    r = box("--json", "--runtime", "runsc", "--", "sh", "-c", "cat /proc/version; dmesg; echo made > f; exit 4").json
    assert r["exit_code"] == 4 and "Linux" in r["stdout"] and r["isolation"]["runtime"] == "runsc", r
    assert version not in r["stdout"] and version in sh("cat /proc/version").text, r
    assert (workspace() / "f").read_text() == "made\n"
    # Its own rules have no such call closed: the filter is brig's, loaded inside.
    assert "klogctl: Operation not permitted" in r["stderr"] and r["isolation"]["seccomp"] == "default", r
    with socket.socket(socket.AF_UNIX) as s:  # gVisor cannot cover it: refused, with a way out
        s.bind(str(workspace() / "s"))
        done = box("--runtime", "runsc", "--", "true")
        assert done.status == 125 and f"move '{workspace()}/s' away" in done.errors, done.errors
    (workspace() / "s").unlink()
    done = box("--runtime", "kata-qemu", "--", "true")
    assert done.status == 125 and "'kata-qemu' is not registered" in done.errors and "kata-runtime" in done.errors, done.errors


# ---- engines that are not there, and engines that lie ----


@test
def absent_down_and_forbidden_are_three_things():
    settle()
    done = box("--", "true", host=f"unix://{scratch()}/none")
    assert done.status == 125 and "Docker is not available: there is no socket" in done.errors and "install" in done.errors, done.errors
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(scratch() / "down"))
    done = box("--", "true", host=f"unix://{scratch()}/down")
    assert done.status == 125 and "daemon is down" in done.errors and "systemctl start docker" in done.errors, done.errors
    s.close()
    if identity() == "user":
        s = socket.socket(socket.AF_UNIX)
        s.bind(str(scratch() / "forbidden"))
        s.listen()
        os.chmod(scratch() / "forbidden", 0)
        done = box("--", "true", host=f"unix://{scratch()}/forbidden")
        assert done.status == 125 and "you may not use its socket" in done.errors and "usermod" in done.errors, done.errors
        s.close()
    done = box("--", "true", host="tcp://127.0.0.1:2375")
    assert done.status == 125 and "not a Unix socket" in done.errors, done.errors
    assert '"code": "unavailable"' in box("--json", "--", "true", host=f"unix://{scratch()}/none").text


@test
def a_context_names_the_engine():
    import hashlib
    settle()
    folder = home() / ".docker/contexts/meta" / hashlib.sha256(b"mine").hexdigest()
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text(json.dumps({"Name": "mine", "Endpoints": {"docker": {"Host": common.shared.host}}}))
    (home() / ".docker/config.json").write_text(json.dumps({"currentContext": "mine"}))
    done = brig(*options(), "--", "echo", "by context", env={"DOCKER_HOST": None})
    assert done.text == "by context\n", done.errors
    (home() / ".docker/config.json").write_text(json.dumps({"currentContext": "other"}))
    done = brig(*options(), "--", "true", env={"DOCKER_HOST": None})
    assert done.status == 125 and "context 'other' is not known" in done.errors, done.errors
    import shutil
    shutil.rmtree(home() / ".docker")


PING = b"HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: 2\r\n\r\nOK"
LIES = {
    "garbage": [b"\x00\xff garbage\r\n\r\n"],
    "silence": [b""],
    "endless head": [b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20000],
    "smuggled": [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\nApi-Version: 1.41\r\n\r\nOK"],
    "old": [PING.replace(b"1.41", b"1.12")],
    "no json": [PING, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{{{{{"],
    "cut": [PING, b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"],
    "huge": [PING, b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 9000000],
}


@test(limit=120)
def an_engine_that_lies_is_not_believed_and_not_waited_for():
    settle()
    for name, answers in LIES.items():
        path = scratch() / "liar"
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
        os.chmod(path, 0o777)
        server.listen()

        def serve(server=server, answers=answers):
            with server.accept()[0] as c:
                for a in answers:
                    try:
                        c.recv(65536)
                        c.sendall(a)
                    except OSError:
                        return
                time.sleep(0.2 if a else 4)

        t = threading.Thread(target=serve, daemon=True)
        t.start()
        began = time.monotonic()
        done = box("--", "true", host=f"unix://{path}")
        assert done.status == 125 and done.errors.startswith("brig: "), (name, done.status, done.errors)
        assert time.monotonic() - began < 20, name
        server.close()
        path.unlink()
        t.join(10)


if __name__ == "__main__":
    sys.exit(main())
