#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The same on a rootless dockerd of the ordinary user's."""

import contextlib
import os
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "egress")]
from common import box, container_of, engine, gone, ours, sh, start_box, token  # noqa: E402
from door import Web, configure  # noqa: E402
from harness import around, brig, compile_c, main, runtime, test, uid, wait_until, workspace  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
here = None  # the engine, once it runs


@contextlib.contextmanager
def rootless_engine(folder):
    global here
    with engine.RootlessDockerd(folder) as e:
        e.import_image(engine.busybox_tar())
        e.import_image(engine.curl_tar(), engine.CURL_IMAGE)
        here = e
        yield


around(rootless_engine)


@test(as_user="user", limit=60)
def a_run_is_a_run():
    """Root inside is the caller outside."""
    done = sh("echo out; echo err >&2; touch made; id -u; exit 7", host=here.host)
    assert (done.status, done.text.split(), done.errors) == (7, ["out", "0"], "err\n"), (done.text, done.errors)
    assert (workspace() / "made").stat().st_uid == uid()
    data = os.urandom(300000)
    assert box("--", "cat", input=data, host=here.host).stdout == data
    done = box("--", "no-such-command", host=here.host)
    assert done.status == 127 and "command not found" in done.errors, done.errors


@test(as_user="user", limit=60)
def it_is_found_in_the_users_run_folder():
    os.symlink(here.socket, runtime() / "docker.sock")
    try:
        r = brig("run", "--backend", "docker", "--image", engine.IMAGE, "--json", "--", "echo", "found").json
        assert r["stdout"] == "found\n" and r["isolation"]["user_ns"] and r["isolation"]["uid_inside"] == 0, r
        assert gone(r["id"], here)
    finally:
        os.unlink(runtime() / "docker.sock")


@test(as_user="user", limit=60)
def it_is_held_as_on_docker():
    (workspace() / "probe").write_bytes(compile_c(HERE / "probe.c").read_bytes())
    (workspace() / "probe").chmod(0o755)
    r = sh("./probe; grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status; touch /x; true", "--json", host=here.host).json
    found = dict(line.replace(":", "").split()[:2] for line in r["stdout"].splitlines())
    for name in ("chmod_setuid", "unshare_user", "mount", "socket_packet", "ioctl_tiocsti", "bpf", "keyctl", "mknod_device"):
        assert found[name] in ("EPERM", "ENOSYS", "EAFNOSUPPORT"), (name, found)
    assert found["chmod_plain"] == found["socket_tcp"] == "0" and found["CapEff"] == found["CapBnd"] == "0" * 16, found
    assert found["NoNewPrivs"] == "1" and found["Seccomp"] == "2" and "Read-only" in r["stderr"], r["stderr"]


@test(as_user="user", limit=60)
def limits_hold_or_are_refused():
    """Control groups that the engine does not have are not claimed: it takes a limit, and keeps none."""
    r = box("--json", "--memory", "64m", "--", "true", host=here.host).json
    if r["outcome"] == "refused":  # without control groups of version 2 nobody could enforce it
        assert "cannot enforce the limit on memory" in r["error"]["what"] and r["error"]["hint"], r
        r = box("--json", "--", "true", host=here.host).json
        kept = r["isolation"]["limits"]
        assert r["outcome"] == "exited" and (kept["memory"], kept["pids"], kept["cpu_shares"]) == ("none", "none", "none"), r
    else:
        assert r["outcome"] == "exited" and r["isolation"]["limits"]["memory"] == "cgroup", r
        assert sh("head -c 200m /dev/zero | tail", "--json", "--memory", "64m", host=here.host).json["outcome"] == "oom"
    r = sh("dd if=/dev/zero of=big bs=64k count=1600 conv=fsync 2>/dev/null; sleep 10", "--json", "--disk", "8m", host=here.host).json
    assert (r["outcome"], r["limits_hit"]) == ("limit", ["disk"]), r
    r = box("--json", "--timeout", "1s", "--", "sleep", "50", host=here.host).json
    assert r["outcome"] == "timeout" and gone(r["id"], here), r


@test(as_user="user", limit=60)
def its_door_is_the_only_way_out():
    with Web("api.test") as web:
        r = box("--json", "--config", configure(web), "--", "sh", "-c", "curl -sS https://api.test/; curl -sS https://other.test/",
                image=engine.CURL_IMAGE, host=here.host).json
        assert web.seen and r["egress"]["allowed"] == 1 and r["egress"]["denied"] >= 1, r
        assert gone(r["id"], here)


@test(as_user="user", limit=60)
def a_bridge_is_refused_because_nobody_sees_where_it_leads():
    done = box("--network", "bridge", "--", "touch", "ran", host=here.host)
    assert done.status == 125 and "rootless Docker" in done.errors and "proxy" in done.errors, done.errors
    assert not (workspace() / "ran").exists() and not here.networks()


@test(as_user="user", limit=60)
def a_killed_brig_leaves_no_container():
    word = token()
    p = start_box("--", "sh", "-c", f"sleep 100; : {word}", host=here.host)
    name = container_of(word, here, running=True)
    p.kill()
    p.wait()
    assert wait_until(lambda: name not in ours(here), 30, 0.1), ours(here)


if __name__ == "__main__":
    sys.exit(main())
