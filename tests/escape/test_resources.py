#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""2.8 of the attack corpus: resource exhaustion. Everything is small and short: the machine is shared."""

import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import (INSIDE, SCRATCH_PIDS, UNSHARED, WAIT, attackers_uid, canary, held, inner_pid, inside, mount, on_host,  # noqa: E402
                    outside, program, timed)
from harness import PATIENCE, brig, descendants, main, scratch, seconds, start_brig, test, uid, wait_until, workspace  # noqa: E402


def fact(done, name):
    for line in done.stdout.decode(errors="replace").splitlines():
        if line.startswith(f"= {name} "):
            return line.split(" ", 2)[2]
    return None


def cpu_ticks(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def enforcer(name):
    return brig("run", "--json", "--", "true").json["isolation"]["limits"][name]


@test
def a083_processes_and_threads_are_capped():
    for what in ("children", "threads"):
        control = on_host(*SCRATCH_PIDS, "prlimit", "--nproc=2000", program("resources"), what, "100", timeout=20)
        assert fact(control, what) == "100", "the control proves nothing"
        done = brig("run", "--json", "--pids", "32", "--timeout", seconds(10), *mount("resources"), "--", INSIDE, what, "100")
        r = done.json
        made = [s for s in r["stdout"].splitlines() if s.startswith(f"= {what}")]
        if enforcer("pids") != "watch":
            assert int(made[0].split()[2]) == 31, made
        else:
            assert r["outcome"] == "limit" and "pids" in r["limits_hit"], r


@test(limit=90)
def a083_a_fork_bomb_goes_off_inside():
    with canary():
        p = start_brig("run", "--json", "--pids", "32", "--memory", "128m", "--timeout", "2s", *mount("resources"), "--", INSIDE, "bomb")
        began, most = time.monotonic(), 0
        while p.poll() is None and time.monotonic() < began + 15 * PATIENCE:
            most = max(most, len(descendants(p.pid)))
            took, _ = timed(on_host, "true")
            assert took < 3, "the host cannot start a process"
        out, _ = p.communicate(timeout=10 * PATIENCE)
        assert p.returncode in (124, 137, 1) or b'"limit"' in out, out[-400:]
        assert most <= 80, f"{most} processes"
        assert wait_until(lambda: not [n for n in descendants().values() if n.startswith("resources")], 2), "some are left"


@test
def a084_memory_is_capped_in_every_form():
    assert outside("resources", "memory", "160").worked, "the control proves nothing"
    with canary(attackers_uid()):
        for args in (("memory", "160"), ("memory-files", "160"), ("memory-files", "160", "/dev/shm/x"), ("memory-files", "160", "/tmp/x")):
            r = brig("run", "--json", "--memory", "64m", "--timeout", seconds(20), *mount("resources"), "--", INSIDE, *args).json
            assert (r["outcome"], r["exit_code"], r["limits_hit"]) == ("oom", 137, ["memory"]), (args, r["outcome"], r["limits_hit"], r["stdout"])


# Segments and queues of System V, anonymous files, page tables, socket buffers, and what a process has whose first thread has ended.
UNMAPPED = ("segments", "semaphores", "queues", "small-messages", "memfds", "one-memfd", "children-memfds", "sealed-memfds", "reserved-memfds",
            "tables", "headless", "streams", "packets", "datagrams")
INET = ("tcp", "udp", "udp6")  # a control group has them wait, or drops packets


@test(limit=120, backends=("native", "bwrap"))
def a084_memory_that_no_process_maps_counts():
    refused = enforcer("memory") == "cgroup"
    for how in (*UNMAPPED, *INET):
        control = on_host(*UNSHARED, program("unmapped"), "hold", how, "24", "at-once")
        assert fact(control, "held") == "24", f"{how}: the control proves nothing: {control.stdout} {control.stderr}"
        run = ("--memory", "64m", "--timeout", seconds(20), *mount("unmapped"), "--", INSIDE, "hold", how)
        done = brig("run", "--json", *run, "160")
        if refused and how in INET and done.json["outcome"] == "exited":
            assert int(done.json["stdout"].split()[2]) <= 64, (how, done.json["stdout"])
        else:
            assert (done.json["outcome"], done.json["limits_hit"]) == ("oom", ["memory"]), (how, done.json["outcome"], done.json["stdout"])
    assert fact(brig("run", *run, "6"), "held") == "6"


@test(backends=("native", "bwrap"))
def a084_what_the_kernel_bounds_for_a_user_is_bounded_for_all_processes_together():
    """Each as the table in docs/design/limits.md says. Of what is under way between sockets the kernel looks first and counts then: each process may be one over."""
    soft = int(pathlib.Path("/proc/sys/fs/pipe-user-pages-soft").read_text()) * 4
    most_areas = int(pathlib.Path("/proc/sys/vm/max_map_count").read_text())
    n, files = 4, 256
    for what, wanted, bound in (("posix-queues", 20, 800 // 64), ("signals", 5000, 4096), ("timers", 5000, 4096), ("events", 5000, n * files),
                                ("flying", 5000, files + n), ("pipes", 1000, soft + n * files // 2 * 8), ("locked", 16 << 10, n * 8 << 10),
                                ("areas", 100000, n * most_areas)):
        r = brig("run", "--json", "--pids", "16", "--memory", "256m", "--set", f"limits.files={files}", *mount("unmapped"), "--",
                 INSIDE, "take", what, str(wanted), str(n)).json
        said = dict(line.split()[1:] for line in r["stdout"].splitlines())
        least = 0 if what == "posix-queues" else 1  # they are files of a file system that Landlock lets nobody write
        assert said["processes"] == str(n) and least <= int(said["taken"]) <= bound, (what, bound, r["stdout"], r["stderr"])


@test
def a084_many_small_processes_count_together():
    code = "import os,time\nfor i in range(8):\n  if os.fork() == 0:\n    x = bytearray(16 << 20)\n    time.sleep(3)\n    os._exit(0)\ntime.sleep(4)"
    r = brig("run", "--json", "--memory", "64m", "--timeout", seconds(20), "--", "python3", "-c", code).json
    assert r["outcome"] == "oom", r


@test
def a086_cpus_are_capped():
    def spin(*options):
        """CPUs used, as the host counts them."""
        p = start_brig("run", "--timeout", seconds(10), *options, *mount("resources"), "--", INSIDE, "spin", "4", "8")
        try:
            pid = wait_until(lambda: next((i for i, n in descendants(p.pid).items() if n == "attack"), None))
            began, ticks = time.monotonic(), cpu_ticks(pid)
            time.sleep(1)
            return (cpu_ticks(pid) - ticks) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - began)
        finally:
            p.terminate()
            p.wait()

    if enforcer("memory") == "cgroup":
        free, capped = spin(), spin("--cpus", "0.05")  # less than a busy machine has for anybody
        assert capped < 0.1 and free > capped, (free, capped)
        return
    with held("run", "--cpus", "1", *mount("resources"), "--", INSIDE, "affinity", "/workspace") as h:
        assert all(len(os.sched_getaffinity(p)) == 1 for p in h.guests())
    assert h.process.result.denied == {"sched_setaffinity": "EPERM"}


@test
def a087_private_folders_are_sized_together():
    assert fact(on_host(program("resources"), "fill", scratch(), "24"), "filled") == "24"
    for how in ("write", "fallocate"):
        total = 0
        line = "; ".join(f"{INSIDE} fill {d} 64 {how}" for d in ("/tmp", "$HOME", "/dev/shm", "/var/tmp"))
        done = brig("run", "--set", "limits.tmp=8m", *mount("resources"), "--", "sh", "-c", line)
        total = sum(int(s.split()[2]) for s in done.text.splitlines() if s.startswith("= filled"))
        assert total <= 10 and "= stopped ENOSPC" in done.text, (how, done.text)


@test
def a087_a_sparse_file_cannot_be_filled_later():
    done = brig("run", "--set", "limits.tmp=8m", "--", "sh", "-c", "truncate -s 1g /tmp/x && dd if=/dev/zero of=/tmp/x bs=1M count=64 conv=notrunc; du -m /tmp/x")
    assert int(done.text.split()[0]) <= 10, done.text


def size_of(folder):
    return sum(p.stat().st_blocks * 512 for p in pathlib.Path(folder).rglob("fill-*"))


@test
def a087_the_workspace_is_limited_by_disk():
    r = brig("run", "--json", "--disk", "8m", "--timeout", seconds(10), *mount("resources"), "--", "sh", "-c", f"{INSIDE} fill /workspace 128; sleep 3").json
    assert r["outcome"] == "limit" and "disk" in r["limits_hit"], r
    assert size_of(workspace()) < 64 << 20, size_of(workspace())


@test
def a087_what_orphans_write_counts_too():
    """Nobody but init waits for them, and the kernel hands their count to whoever waits."""
    control = on_host(program("resources"), "strangers", scratch(), "24")
    assert fact(control, "written") == "24" and wait_until(lambda: size_of(scratch()) >= 24 << 20)
    for backend in ("native", "bwrap"):
        r = brig("run", "--json", "--backend", backend, "--disk", "8m", "--timeout", seconds(30), *mount("resources"), "--",
                 INSIDE, "strangers", "/workspace", "128").json
        assert r["outcome"] == "limit" and "disk" in r["limits_hit"], r
        assert size_of(workspace()) < 64 << 20, size_of(workspace())
        for p in workspace().glob("fill-*"):
            p.unlink()


@test(limit=120)
def a087_writers_whose_count_nobody_gets_are_counted():
    """Children that the kernel reaps by itself, and threads whose process has lost its first one."""
    ways = ("ignore", "nocldwait", "slow", "masked", "headless", "turnover")
    for n, way in enumerate(ways):
        if n == 0:
            control = on_host(program("resources"), "unwaited", scratch(), "24", way)
            assert fact(control, "written") == "24" and wait_until(lambda: size_of(scratch()) >= 24 << 20)
        r = brig("run", "--json", "--backend", "bwrap" if n == 1 else "native", "--disk", "8m", "--timeout", seconds(30), *mount("resources"), "--",
                 INSIDE, "unwaited", "/workspace", "128", way).json
        assert r["outcome"] == "limit" and "disk" in r["limits_hit"], (way, r)
        assert size_of(workspace()) < 64 << 20, (way, size_of(workspace()))
        for p in workspace().glob("fill-*"):
            p.unlink()


@test
def a087_children_that_are_waited_for_count_once():
    code = ("import os, time\nfor i in range(8):\n  if not os.fork():\n    if not os.fork():\n      f = open(f'fill-{i}', 'wb')\n"
            "      f.write(bytes(1 << 20))\n      f.close()\n      time.sleep(0.1)\n      os._exit(0)\n    os.wait()\n    os._exit(0)\n  os.wait()")
    r = brig("run", "--json", "--disk", "12m", "--", "python3", "-c", code).json  # 16 if they counted twice
    assert (r["outcome"], r["exit_code"], r["limits_hit"]) == ("exited", 0, []), r
    assert size_of(workspace()) >= 8 << 20


@test(by_root=True)
def a087_where_the_workspace_is_a_file_system_of_its_own_its_loss_counts():
    """On a tmpfs the kernel counts nothing as written to disk; what somebody else does elsewhere is no matter."""
    own = scratch() / "own"
    own.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=256m,mode=755,uid={uid()}", "own", own], check=True)
    try:
        run = ("run", "--json", "--workdir", own, "--disk", "8m", "--timeout", seconds(10), *mount("resources"), "--")
        r = brig(*run, "sh", "-c", f"{INSIDE} fill /workspace 64; sleep 5").json
        assert r["outcome"] == "limit" and "disk" in r["limits_hit"], r
        assert size_of(own) < 80 << 20
        for p in own.glob("fill-*"):
            p.unlink()
        subprocess.run(["mount", "--bind", own, scratch() / "own"], check=True)  # now there are two of it: not alone
        try:
            assert brig(*run, INSIDE, "fill", "/workspace", "16").json["outcome"] == "exited"
        finally:
            subprocess.run(["umount", own], check=True)
    finally:
        subprocess.run(["umount", own], check=True)


@test
def a019_init_keeps_its_limits():
    """Without descriptors it could neither listen to the monitor nor count; without seconds it would be killed."""
    control = on_host(*SCRATCH_PIDS, "sh", "-c", f"{program('resources')} limit-init; true")
    assert b"+ descriptors" in control.stdout, control.stdout
    for backend in ("native", "bwrap"):
        inside("resources", "limit-init", options=("--backend", backend)).must_fail("descriptors", "seconds")


@test
def a087_no_other_place_is_writable():
    done = brig("run", "--", "sh", "-c", "find / -type d -writable -not -path '/proc/*' 2>/dev/null")
    above = {str(p) for p in workspace().parents if p.is_relative_to("/var/tmp")}  # empty folders of the private one
    assert set(done.text.split()) <= {"/tmp", "/var/tmp", "/home/brig", "/dev/shm", str(workspace()), *above}, done.text


@test
def a088_empty_files_are_limited_too():
    """Each takes about a KiB of the kernel's memory, and no block."""
    p = start_brig("run", "--json", "--memory", "64m", "--set", "limits.tmp=8m", "--timeout", seconds(20), *mount("resources"), "--", INSIDE, "files", "/tmp", "200000")
    out, _ = p.communicate(timeout=40 * PATIENCE)
    text = out.decode()
    took, _ = timed(brig, "run", "--", "true")
    assert took < 3
    assert '"oom"' in text or "= stopped" in text, f"200,000 files in a folder of 8 MiB: {text[:300]}"


@test
def a088_deep_folders_and_long_names_do_not_slow_the_end():
    done = brig("run", "--timeout", seconds(30), *mount("resources"), "--", INSIDE, "deep", "/tmp", "4000")
    assert fact(done, "folders") == "4000"
    took, _ = timed(brig, "run", "--json", "--timeout", seconds(30), *mount("resources"), "--", INSIDE, "files", "/tmp", "20000")
    assert took < 5, took


def host_still_works():
    """The host's user, as whom brig was started, still gets what it needs."""
    code = ("import ctypes, os, signal, subprocess, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n"
            "fd = libc.inotify_init1(0)\nassert fd >= 0, 'inotify: ' + os.strerror(ctypes.get_errno())\n"
            "m, s = os.openpty()\nos.pipe()\nassert subprocess.run(['true']).returncode == 0\n"
            "signal.pthread_sigmask(signal.SIG_BLOCK, [40])\nlibc.sigqueue(os.getpid(), 40, None)\nassert 40 in signal.sigpending(), 'signals'\n")
    return on_host("/usr/bin/python3", "-c", code)


@test(alone=True)
def a090_and_a091_kernel_objects_run_out_for_the_sandbox_only():
    before = host_still_works()
    assert before.returncode == 0, f"the control proves nothing: {before.stderr.decode()}"
    with held("run", "--timeout", seconds(20), *mount("resources"), "--", INSIDE, "objects", "/workspace", "3000") as h:
        after = host_still_works()
    print(h.process.result.facts)
    assert after.returncode == 0, after.stderr.decode().strip().splitlines()[-1]


@test(alone=True)
def a091_the_hosts_user_can_still_start_processes():
    with held("run", "--pids", "32", "--timeout", seconds(10), *mount("resources"), "--", INSIDE, "children", "28", "/workspace") as h:
        assert on_host("sh", "-c", "for i in 1 2 3 4 5; do true & done; wait").returncode == 0
        assert len(h.guests()) <= 32


@test(alone=True)
def inotify_watches_run_out_for_the_sandbox_only():
    """The host's user pays for a guest's watches; three quarters of what it may have stay its own."""
    most = int(pathlib.Path("/proc/sys/fs/inotify/max_user_watches").read_text())
    watch = ("/usr/bin/python3", "-c", "import ctypes, os\nc = ctypes.CDLL(None)\nassert c.inotify_add_watch(c.inotify_init1(0), b'/', 512) > 0")
    (scratch() / "go").touch()
    control = on_host(program("resources"), "watches", scratch(), str(most // 4 + 1))
    assert int(fact(control, "watches")) > most // 4, "the control proves nothing"
    for way in ("plain", "children", "thread", "files", "everything", "once"):
        with held("run", "--backend", "native", "--set", "limits.files=8192", "--timeout", seconds(20), *mount("resources"), "--",
                  INSIDE, "watches", "/workspace", "0", way) as h:
            done = on_host(*watch, user=attackers_uid())
            assert done.returncode == 0, (way, done.stderr)
        # Of those that go by themselves the kernel gives some back while the rest are made.
        room = 256 if way == "once" else 0
        assert 0 < int(h.process.result.facts["watches"]) <= most // 4 + room, (way, h.process.result.facts)


# take N: so many pipes, each as large as it can be; then waits for the end of its input.  look: how large a new one is.
PIPES = """
import fcntl, os, sys
if sys.argv[1] == "look":
    print(fcntl.fcntl(os.pipe()[1], 1032))
    sys.exit()
keep, size, most = [], 1 << 20, 0
for _ in range(int(sys.argv[2])):
    keep += os.pipe()
    while size > 65536:
        try:
            most = max(most, fcntl.fcntl(keep[-1], 1031, size))
            break
        except PermissionError:
            size //= 2
print(most or fcntl.fcntl(keep[-1], 1032), fcntl.fcntl(keep[-1], 1031, 4096), flush=True)
sys.stdin.read()
"""


@test(alone=True)
def pages_of_pipes_run_out_for_the_sandbox_only():
    """The kernel counts them for the user, whichever namespace they are in."""
    user = attackers_uid()

    def look():
        return int(on_host("/usr/bin/python3", "-c", PIPES, "look", user=user).stdout)

    def taken(process):
        with process:
            size = process.stdout.readline().split()
            seen = look()
            process.stdin.close()
        return [*map(int, size)], seen

    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    assert look() == 65536, "too many of them are in use already"
    control = subprocess.Popen(["setpriv", f"--reuid={user}", "--clear-groups", "--inh-caps=-all", "/usr/bin/python3", "-c", PIPES, "take", "90"], **pipes)
    assert taken(control) == ([1 << 20, 4096], 8192), "the control proves nothing"
    for backend in ("native", "bwrap"):
        assert taken(start_brig("run", "--backend", backend, "--", "/usr/bin/python3", "-c", PIPES, "take", "90", **pipes)) == ([65536, 4096], 65536), backend


@test
def the_number_of_watches_is_not_the_guests_to_set():
    """Nor the number of instances, by whichever name of the file."""
    names = ("user/max_inotify_watches", "user/max_inotify_instances", "fs/inotify/max_user_watches", "fs/inotify/max_user_instances",
             "fs/inotify/max_queued_events", "user/max_fanotify_marks", "fs/epoll/max_user_watches")
    files = [f"/proc/{top}sys/{name}" for top in ("", "self/task/../../", "1/../") for name in names]
    outside("procfs", "open-write", "/proc/sys/user/max_inotify_watches", within=UNSHARED).must_work()
    for backend in ("native", "bwrap"):
        inside("procfs", "open-write", *files, options=("--backend", backend)).must_fail("/proc/sys/user/max_inotify_watches")


@test
def nothing_inside_leaves_the_first_to_be_killed():
    """When the machine runs out of memory the kernel takes the guest; the host reads the files it goes by."""
    files = [f"/proc/{p}/{n}" for p in ("self", "thread-self", "self/task/self/..", "1") for n in ("oom_score_adj", "oom_adj")]
    files += ["/proc/self/autogroup", "/proc/self/timerslack_ns", "/proc/self/coredump_filter", "/proc/self/clear_refs"]
    outside("procfs", "open-write", "/proc/self/oom_score_adj").must_work()
    for backend in ("native", "bwrap"):
        attempt = inside("procfs", "open-write", *files, options=("--backend", backend)).must_fail("/proc/self/oom_score_adj")
        assert attempt.denied["/proc/self/clear_refs"] == "EROFS", attempt.denied
        script = "for f in /proc/*/oom_score_adj; do echo 0 > $f; done 2>/dev/null; " + WAIT
        with held("run", "--backend", backend, "--", "sh", "-c", script) as h:
            found = {pathlib.Path(f"/proc/{p}/oom_score_adj").read_text() for p in h.pids() if inner_pid(p)}
            assert found == {"1000\n"}, found
    assert brig("run", "--", "sh", "-c", "echo out > /dev/stderr; exec 3<>/dev/null; echo x > /dev/fd/3").status == 0 or uid() == 0


@test
def a092_a_huge_sparse_file_costs_nothing():
    took, done = timed(brig, "run", "--json", "--", "sh", "-c", "truncate -s 8E big; truncate -s 4E /tmp/big; ls")
    assert took < 5 and done.json["outcome"] == "exited"
    assert size_of(workspace()) == 0


@test
def a096_is_not_provided_and_says_so():
    """I/O bandwidth: no limit, and none is claimed."""
    limits = brig("run", "--json", "--", "true").json["isolation"]["limits"]
    assert "io" not in limits or limits["io"] in (None, "none"), limits


if __name__ == "__main__":
    sys.exit(main())
