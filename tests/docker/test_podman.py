#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The same through Podman's compatible socket: root's service for root, a rootless one for the ordinary user."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from common import box, container_of, engine, gone, ours, podmans, settle, shared_podmans, start_box, token  # noqa: E402
from daemon import daemon  # noqa: E402
from daemon_commands import has_terminals, pauses, uses  # noqa: E402
from daemon_store import keeps, mounts_into  # noqa: E402
from harness import around, compile_c, identity, main, test, uid, wait_until, workspace  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent

around(shared_podmans)


def here():
    return podmans[identity()]


def pod(*argv, **more):
    return box(*argv, host=here().host, **more)


@test(limit=120)
def a_run_is_a_run():
    done = pod("--", "sh", "-c", "echo out; echo err >&2; touch made; id -u; exit 7")
    me = 1000 if identity() == "root" else uid()
    assert (done.status, done.text.split(), done.errors) == (7, ["out", str(me)], "err\n"), (done.text, done.errors)
    assert (workspace() / "made").stat().st_uid == me
    data = os.urandom(300000)
    assert pod("--", "cat", input=data).stdout == data
    done = pod("--", "no-such-command")
    assert done.status == 127 and "command not found" in done.errors and "catatonit" not in done.errors, done.errors


@test(limit=120)
def a_writable_root_is_the_users_inside_or_it_is_told():
    done = pod("--set", "read_only_root=false", "--", "sh", "-c", "touch /x /usr/y && mkdir /etc/new && echo made; true")
    told = "the image's own files belong to root" in done.errors
    assert (done.text == "made\n") != told and told == (identity() == "user"), (done.text, done.errors)


@test(limit=120)
def it_is_held_as_on_docker():
    (workspace() / "probe").write_bytes(compile_c(HERE / "probe.c").read_bytes())
    (workspace() / "probe").chmod(0o755)
    r = pod("--json", "--", "sh", "-c", "./probe; grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status; touch /x; true").json
    found = dict(line.replace(":", "").split()[:2] for line in r["stdout"].splitlines())
    for name in ("chmod_setuid", "unshare_user", "mount", "socket_packet", "ioctl_tiocsti", "bpf", "keyctl", "mknod_device"):
        assert found[name] in ("EPERM", "ENOSYS", "EAFNOSUPPORT"), (name, found)
    assert found["chmod_plain"] == found["socket_tcp"] == "0" and found["CapEff"] == found["CapBnd"] == "0" * 16, found
    assert found["NoNewPrivs"] == "1" and found["Seccomp"] == "2" and "Read-only" in r["stderr"], r["stderr"]
    assert r["isolation"]["user_ns"] == (identity() == "user"), r["isolation"]


@test(limit=120)
def limits_hold_or_are_refused():
    r = pod("--json", "--memory", "64m", "--", "true").json
    if identity() == "root":
        assert r["outcome"] == "exited" and r["isolation"]["limits"]["memory"] == "cgroup", r
    elif r["outcome"] == "refused":  # rootless on control groups v1: nobody could enforce it
        assert "cannot enforce the limit on memory" in r["error"]["what"], r
        r = pod("--json", "--", "true").json
        assert r["outcome"] == "exited" and r["isolation"]["limits"]["memory"] == "none", r
    r = pod("--json", "--disk", "8m", "--", "sh", "-c", "dd if=/dev/zero of=big bs=64k count=1600 conv=fsync 2>/dev/null; sleep 10").json
    assert (r["outcome"], r["limits_hit"], r["isolation"]["limits"]["disk"]) == ("limit", ["disk"], "watch"), r
    r = pod("--json", "--timeout", "1s", "--", "sleep", "50").json
    assert r["outcome"] == "timeout" and gone(r["id"], here()), r


@test(limit=120)
def a_killed_brig_leaves_no_container():
    word = token()
    p = start_box("--", "sh", "-c", f"sleep 100; : {word}", host=here().host)
    name = container_of(word, here(), running=True)
    p.kill()
    p.wait()
    assert wait_until(lambda: name not in ours(here()), 30, 0.1), ours(here())


@test(limit=120)
def a_stop_of_a_long_lived_sandbox_keeps_its_files():
    with daemon(env={"DOCKER_HOST": here().host}) as d:
        keeps(d, engine.IMAGE)
        mounts_into(d, engine.IMAGE)


@test(limit=180)
def what_a_container_uses_is_seen():
    with daemon(env={"DOCKER_HOST": here().host}) as d:
        uses(d, engine.IMAGE)


@test(limit=120)
def a_long_lived_sandbox_has_terminals_and_can_be_paused():
    settle()
    with daemon(env={"DOCKER_HOST": here().host}) as d:
        has_terminals(d, d.create(spec={"backend": "docker", "image": engine.IMAGE})["id"])
        pauses(d, engine.IMAGE, able=identity() == "root" or os.path.exists("/sys/fs/cgroup/cgroup.controllers"))


if __name__ == "__main__":
    sys.exit(main())
