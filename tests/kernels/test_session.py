#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A login session under systemd, to which no cgroup is delegated: a written limit gets a scope of the user's service manager."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import brig, brig_argv, cgroups, descendants, main, seconds, start_brig, test, wait_until  # noqa: E402

FACTOR = float(os.environ.get("TIME_FACTOR", "1"))
BOTH = ("native", "bwrap")
CGROUPS = pathlib.Path("/sys/fs/cgroup")
UID = os.getuid()
HOG = "x = bytearray(300 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nimport time; time.sleep(20)"


def own_cgroup(pid="self"):
    return pathlib.Path(f"/proc/{pid}/cgroup").read_text().strip().removeprefix("0::")


def manager():
    """The process that is this user's service manager."""
    procs = CGROUPS / f"user.slice/user-{UID}.slice/user@{UID}.service/init.scope/cgroup.procs"
    return int(procs.read_text().split()[0])


def folders():
    return {os.path.basename(p) for p in cgroups() if p.endswith(".scope")}


def scopes():
    """Folders and units of ours that the manager has."""
    listed = subprocess.run(["systemctl", "--user", "list-units", "--all", "--plain", "--no-legend", "brig-*"], capture_output=True,
                            text=True, check=True, env={**os.environ, "XDG_RUNTIME_DIR": f"/run/user/{UID}"}, timeout=30 * FACTOR)
    return folders() | {line.split()[0] for line in listed.stdout.splitlines()}


def no_scope_is_left():
    return wait_until(lambda: not scopes(), 3, 0.2)


@contextlib.contextmanager
def stopped_manager():
    """A manager that hangs, and goes on afterwards whatever happens."""
    pid = manager()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def long_run(*options):
    """A run that has begun, the pid of its command, and the command's cgroup."""
    p = start_brig("run", *options, "--", "sh", "-c", "echo ready; exec sleep 60")
    assert p.stdout.readline() == b"ready\n", p.stderr.read()
    try:
        inside = [pid for pid, name in descendants(p.pid).items() if name == "sleep"]
        assert len(inside) == 1, descendants(p.pid)
        yield p, inside[0], own_cgroup(inside[0])
    finally:
        p.kill()
        p.communicate()


@test
def this_is_a_login_session_and_nothing_in_it_is_ours():
    """What all the rest stands on: a guest that is not so would prove nothing."""
    own = CGROUPS / own_cgroup().lstrip("/")
    assert own.name.startswith("session-") and own.parent.name == f"user-{UID}.slice", own
    for folder in (own, own.parent):
        assert not os.access(folder, os.W_OK) and not os.access(folder / "cgroup.procs", os.W_OK), folder
    assert os.stat(f"/run/user/{UID}/systemd/private").st_uid == UID
    assert os.readlink(f"/proc/{manager()}/cwd") and own_cgroup(manager()).endswith(f"user@{UID}.service/init.scope")


@test(alone=True, backends=BOTH)
def a_default_is_watched_and_the_manager_is_left_alone():
    with stopped_manager():
        r = brig("run", "--json", "--", "true").json
        assert r["duration_ms"] + r["setup_ms"] < 2500 * FACTOR, r
    assert (r["isolation"]["cgroup"], r["isolation"]["limits"]["memory"], r["isolation"]["limits"]["pids"]) == ("none", "watch (partial)", "rlimit"), r
    r = brig("run", "--json", "--cpus", "1", "--cpu-shares", "512", "--", "true").json["isolation"]
    assert (r["cgroup"], r["limits"]["cpus"], r["limits"]["cpu_shares"]) == ("none", "affinity", "nice"), r


@test(alone=True, backends=BOTH)
def a_written_limit_is_the_control_groups():
    for options in (("--memory", "100m"), ("--pids", "20"), ("--cpus", "0.5"), ("--cpu-shares", "2048")):
        done = brig("run", "--json", *options, "--", "true")
        assert done.status == 0 and not done.errors, (options, done.errors)
        got = done.json["isolation"]
        assert got["cgroup"] == "v2" and got["limits"]["memory"] == got["limits"]["pids"] == "cgroup", (options, got)
        assert got["limits"]["cpus"] == ("cgroup" if options[0] == "--cpus" else "none"), (options, got)
        assert got["limits"]["cpu_shares"] == "cgroup", (options, got)
    assert no_scope_is_left(), scopes()


@test(alone=True, backends=BOTH)
def the_limits_stand_where_the_command_is():
    with long_run("--memory", "100m", "--pids", "20", "--cpus", "0.5", "--cpu-shares", "2048") as (p, _, where):
        leaf = CGROUPS / where.lstrip("/")
        assert leaf.parent.suffix == ".scope" and leaf.parent.stem == leaf.name and leaf.name.startswith("brig-"), where
        values = {name: (leaf / name).read_text().strip() for name in ("memory.max", "memory.swap.max", "cpu.max", "cpu.weight")}
        assert values == {"memory.max": str(100 << 20), "memory.swap.max": "0", "cpu.max": "50000 100000", "cpu.weight": "200"}, values
        assert 20 < int((leaf / "pids.max").read_text()) <= 23
        assert own_cgroup(p.pid) == own_cgroup(), "brig itself has left its session"
        assert f"{leaf.name}.scope" in scopes()
    assert no_scope_is_left(), scopes()


@test(alone=True, backends=BOTH)
def too_much_memory_is_the_kernels_to_end():
    done = brig("run", "--json", "--memory", "64m", "--timeout", seconds(60), "--", "python3", "-c", HOG)
    r = done.json
    assert (done.status, r["outcome"], r["limits_hit"]) == (137, "oom", ["memory"]), r
    assert r["isolation"]["limits"]["memory"] == "cgroup"
    assert no_scope_is_left(), scopes()


@test(alone=True, backends=BOTH)
def a_killed_brig_leaves_no_scope_and_no_process():
    with long_run("--memory", "100m") as (p, command, _):
        below = [command, *descendants(p.pid)]
        p.kill()
        p.wait()
        assert wait_until(lambda: not set(below) & set(descendants()), 5), below
        assert no_scope_is_left(), scopes()


@test(alone=True)
def a_brig_killed_as_it_starts_leaves_nothing():
    for ms in range(0, 400, 25):
        p = start_brig("run", "--memory", "100m", "--", "sleep", "60")
        time.sleep(ms / 1000 * FACTOR / 4)
        p.kill()
        p.communicate()
    assert wait_until(lambda: not descendants(), 5), descendants()
    assert no_scope_is_left(), scopes()


@test(alone=True, backends=BOTH)
def a_scope_ended_by_the_manager_is_told():
    with long_run("--memory", "100m") as (p, _, where):
        unit = pathlib.Path(where).parent.name
        subprocess.run(["systemctl", "--user", "kill", "--signal=KILL", unit], check=True, timeout=30 * FACTOR,
                       env={**os.environ, "XDG_RUNTIME_DIR": f"/run/user/{UID}"})
        p.wait(30 * FACTOR)
        assert p.returncode not in (0, None), p.returncode
    assert no_scope_is_left(), scopes()


@test(alone=True, backends=BOTH)
def a_manager_that_hangs_is_given_up_and_told_of():
    with stopped_manager():
        began = time.monotonic()
        done = brig("run", "--json", "--memory", "64m", "--timeout", seconds(60), "--", "python3", "-c", HOG)
        r = done.json
        assert (done.status, r["outcome"], r["isolation"]["limits"]["memory"]) == (137, "oom", "watch (partial)"), r
        assert time.monotonic() - began < 8 * FACTOR
        assert "service manager" in done.errors and "does not answer" in done.errors, done.errors
        refused = brig("run", "--json", "--cpus", "0.5", "--", "true")
        assert (refused.status, refused.json["outcome"]) == (125, "refused") and "CPU" in refused.json["error"]["what"], refused.json
    assert no_scope_is_left(), scopes()
    assert brig("run", "--json", "--memory", "64m", "--", "true").json["isolation"]["limits"]["memory"] == "cgroup"


@test(alone=True)
def runs_side_by_side_have_a_scope_each():
    runs = [start_brig("run", "--memory", "64m", "--", "sh", "-c", f"head -c {size}m /dev/zero > /tmp/x; sleep 1; exit 3")
            for size in (20, 20, 20, 200)]
    seen = wait_until(lambda: len(folders()) >= 2, 20)
    assert wait_until(lambda: all(p.poll() is not None for p in runs), 30)
    assert [p.wait() for p in runs] == [3, 3, 3, 137] and seen
    for p in runs:
        p.communicate()
    assert no_scope_is_left(), scopes()


@test
def doctor_says_who_makes_the_groups():
    line = next(line for line in brig("doctor").text.splitlines() if " cgroups: " in line)
    assert line.startswith("[pass]") and "service manager" in line and "memory by cgroup" in line, line


@test(alone=True)
def the_price_is_shown():
    """By the guest's init, which prints it; it fails only where waiting would be felt."""
    def best(*argv):
        took = []
        for _ in range(20):
            began = time.monotonic()
            subprocess.run(argv, check=True, capture_output=True, timeout=60 * FACTOR,
                           env={**os.environ, "XDG_RUNTIME_DIR": f"/run/user/{UID}"})
            took.append((time.monotonic() - began) * 1000)
        return min(took)
    plain, asked = (best(*brig_argv("run", *options, "--", "true")) for options in ((), ("--memory", "1g")))
    theirs = best("systemd-run", "--user", "--scope", "-q", "-p", "Delegate=yes", "true")
    line = f"price: run {plain:.0f} ms, with a written limit {asked:.0f} ms; systemd-run --user --scope true {theirs:.0f} ms"
    pathlib.Path("/var/tmp/price").write_text(line + "\n", encoding="utf-8")
    assert asked - plain < 2 * theirs + 100, line


if __name__ == "__main__":
    sys.exit(main())
