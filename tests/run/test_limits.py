#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Each limit, its enforcer by name and its typed outcome. What gets around limits is tried in tests/escape."""

import os
import pathlib
import resource
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import FACTOR, PATIENCE, brig, brig_argv, brig_environment, files_as_root, identity, main, scratch, seconds, start_brig, test, tree, uid, wait_until, workspace  # noqa: E402

ENFORCERS = {"cgroup", "watch", "watch (partial)", "rlimit", "affinity", "nice", "tmpfs", "monitor", "kubelet", "none"}
COUNTED = tuple(map(int, os.uname().release.split(".")[:2])) >= (5, 14)  # processes, for each user namespace
SLACK = 1 << 20  # the file system of the private folders has room for brig's own small files


def sh(script, *options, **more):
    return brig("run", *options, "--", "sh", "-c", script, **more)


def python(code, *options, **more):
    return brig("run", *options, "--", "python3", "-c", code, **more)


def has_cgroup(*options):
    """Whether runs of this identity get a control group: root does, a user only by delegation, or, with options that
    ask for it, from the user's service manager."""
    got = brig("run", "--json", *options, "--", "true").json["isolation"]
    assert identity() == "user" or got["cgroup"] != "none", "root has no control group here"
    return got["limits"]["memory"] == "cgroup"


def can_ask():
    return has_cgroup("--memory", "1g")


def enforcer(name, *options):
    done = brig("run", "--json", *options, "--", "true")
    assert done.status == 0, done.errors
    return done.json["isolation"]["limits"][name]


def refused(*options, words=(), hint=False):
    done = brig("run", "--json", *options, "--", "touch", "started")
    assert done.status == 125 and done.json["outcome"] == "refused", f"{options}: status {done.status}"
    assert not (workspace() / "started").exists()
    for word in words:
        assert word in done.json["error"]["what"], f"'{word}' is not named: {done.json['error']}"
    assert not hint or done.json["error"]["hint"]
    return done


def limited(done, outcome, name, status=137):
    """Ended by that limit, with all that says so."""
    r = done.json
    assert (done.status, r["outcome"], r["limits_hit"]) == (status, outcome, [name]), (done.status, r["outcome"], r["limits_hit"])
    assert r["exit_code"] == status


# ---- enforcers ----


@test
def the_report_names_an_enforcer_for_every_limit():
    for options in ((), ("--memory", "64m", "--pids", "30", "--cpus", "1", "--cpu-shares", "512", "--disk", "8m",
                         "--timeout", "5s", "--output-limit", "1k", "--set", "limits.tmp=4m", "--set", "limits.files=64")):
        limits = brig("run", "--json", *options, "--", "true").json["isolation"]["limits"]
        assert set(limits) == {"memory", "cpus", "cpu_shares", "pids", "tmp", "disk", "files", "output", "timeout", "gpus"}
        assert set(limits.values()) <= ENFORCERS, limits
        assert not options or "none" not in (by for name, by in limits.items() if name != "gpus"), limits
        assert (limits["tmp"], limits["files"], limits["output"], limits["timeout"]) == ("tmpfs", "rlimit", "monitor", "monitor")
        assert limits["disk"] == ("watch" if options else "none")


@test
def memory_and_processes_are_the_control_groups_or_else_watched_and_counted():
    for name, value, otherwise in (("memory", "100m", "watch (partial)"), ("pids", "20", "rlimit" if COUNTED else "watch")):
        best, written = ("cgroup" if has else otherwise for has in (has_cgroup(), can_ask()))
        assert (enforcer(name), enforcer(name, f"--{name}", value)) == (best, written), name


@test
def strict_takes_no_memory_limit_that_is_only_watched():
    done = brig("run", "--profile", "strict", "--memory", "100m", "--", "true")
    if can_ask():
        assert done.status == 0, done.errors
    else:
        assert done.status == 125 and "memory under --profile strict cannot be limited here" in done.errors and "hint: " in done.errors, done.errors
    assert brig("run", "--profile", "strict", "--", "true").status == 0, "the default is no demand"


@test
def a_brig_of_low_priority_can_lower_the_weight_too():
    argv = brig_argv("run", "--cpu-shares", "512", "--", "nice")
    done = subprocess.run(["nice", "-n", "9", *argv], capture_output=True, text=True, env=brig_environment(), cwd=workspace(),
                          stdin=subprocess.DEVNULL, timeout=60, check=False)
    lowered = min(19, os.nice(0) + 9)  # of what started the tests, which may be above the ordinary
    assert done.returncode == 0 and int(done.stdout) == max(lowered, 0 if can_ask() else 3), (done.stdout, done.stderr)


@test
def the_list_of_cpus_inside_has_those_the_caller_may_use():
    mine = os.sched_getaffinity(0)
    for cpus in (mine, {max(mine)}):
        argv = brig_argv("run", "--", "cat", "/sys/devices/system/cpu/online")
        done = subprocess.run(["taskset", "-c", ",".join(map(str, cpus)), *argv], capture_output=True, text=True, env=brig_environment(),
                              cwd=workspace(), stdin=subprocess.DEVNULL, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        parts = [[int(n) for n in part.split("-")] for part in done.stdout.strip().split(",")]
        assert {cpu for part in parts for cpu in range(part[0], part[-1] + 1)} == cpus, done.stdout


@test
def the_command_may_run_on_every_cpu_of_the_caller():
    for _ in range(10):
        done = brig("run", "--", "python3", "-c", "import os; print(sorted(os.sched_getaffinity(0)))")
        assert done.text.strip() == str(sorted(os.sched_getaffinity(0))), done.text


@test
def cpus_are_the_control_groups_or_else_whole():
    cgroup = has_cgroup()
    assert enforcer("cpus", "--cpus", "1") == ("cgroup" if cgroup else "affinity")
    assert enforcer("cpu_shares", "--cpu-shares", "100") == ("cgroup" if cgroup else "nice")
    assert enforcer("cpus") == "none"


@test
def what_was_not_asked_for_is_not_called_enforced():
    limits = brig("run", "--json", "--tty", "--", "true")
    assert limits.status == 125
    assert enforcer("disk") == "none" and enforcer("timeout") == "monitor"


@test(as_user="user")
def a_limit_that_cannot_be_enforced_is_refused():
    if can_ask():
        return  # a control group takes all of them
    refused("--cpus", "0.5", words=("CPU",), hint=True)
    refused("--cpus", "1.5", words=("CPU",), hint=True)
    refused("--cpu-shares", "2048", words=("CPU",), hint=True)


# ---- memory ----


@test
def a_program_within_its_memory_is_left_alone():
    done = python("x = bytearray(24 << 20); x[::4096] = b'1' * len(x[::4096]); print('fine')", "--json", "--memory", "64m")
    assert (done.status, done.json["stdout"], done.json["limits_hit"]) == (0, "fine\n", [])


@test(by_root=True)
def sockets_are_listed_only_where_they_could_matter():
    """A list is a walk through tables of the whole machine. By the questions that the monitor sends in a second; the control has little memory, and connections."""
    code = "import socket, sys, time\nl = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(64)\n" \
           "s = [socket.create_connection(l.getsockname()) for _ in range({})] + [socket.socketpair() for _ in range(5)]\nprint('there', flush=True); time.sleep(60)"
    if has_cgroup("--memory", "4g"):
        return  # the kernel counts
    for memory, connections, asks in (("4g", 2, False), ("64m", 12, True)):
        p = start_brig("run", "--memory", memory, "--", "python3", "-c", code.format(connections))
        try:
            assert p.stdout.readline() == b"there\n"
            with files_as_root():
                said = subprocess.run(["timeout", "1", "strace", "-e", "trace=sendto", "-p", str(p.pid)], capture_output=True, text=True, check=False).stderr
            assert "attached" in said and ("sendto(" in said) == asks, (memory, said)
        finally:
            p.terminate()
            p.wait()


@test
def a_threaded_program_is_one_sum():
    code = """
import threading, time
def work(kept=[]):
    for _ in range(10):
        x = bytearray(1 << 20)
        for i in range(0, len(x), 4096): x[i] = 1
        kept.append(x)
    time.sleep(10)
for _ in range(16): threading.Thread(target=work, daemon=True).start()
time.sleep(10)
"""
    limited(python(code, "--json", "--memory", "64m", "--timeout", seconds(20)), "oom", "memory")


@test
def many_small_processes_are_one_sum():
    code = """
import os, time
for _ in range(30):
    if os.fork() == 0:
        x = bytearray(6 << 20)
        for i in range(0, len(x), 4096): x[i] = 1
        time.sleep(15); os._exit(0)
time.sleep(15)
"""
    limited(python(code, "--json", "--memory", "64m", "--timeout", seconds(20)), "oom", "memory")


@test
def processes_that_share_memory_are_not_counted_twice():
    code = """
import os, time
x = bytearray(24 << 20)
for i in range(0, len(x), 4096): x[i] = 1
children = []
for _ in range(8):
    pid = os.fork()
    if pid == 0:
        time.sleep(0.4); os._exit(0)
    children.append(pid)
for pid in children: os.waitpid(pid, 0)
print('fine')
"""
    done = python(code, "--json", "--memory", "96m")
    assert (done.status, done.json["stdout"]) == (0, "fine\n"), done.json["outcome"]


@test
def files_in_private_folders_count_as_memory():
    for place in ("/tmp", "$HOME", "/dev/shm"):
        done = sh(f"head -c 200m /dev/zero > {place}/x; sleep 10", "--json", "--memory", "48m", "--timeout", seconds(20))
        limited(done, "oom", "memory")


@test
def a_program_told_of_a_lack_of_memory_says_what_to_do():
    done = python("x = bytearray(300 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nimport time; time.sleep(10)", "--memory", "64m")
    assert done.status == 137 and "out of memory" in done.errors and "64m" in done.errors and "--memory" in done.errors


@test
def the_limit_can_be_seen_inside():
    done = sh("cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/pids.max", "--memory", "100m", "--pids", "33")
    assert done.stdout.split() == [b"%d" % (100 << 20), b"33"], done.text + done.errors


# ---- processes ----


@test
def too_many_processes_are_a_limit_that_was_hit():
    done = sh(f"i=0; while [ $i -lt 40 ]; do sleep {seconds(3)} & i=$((i+1)); sleep 0.005; done; sleep 3", "--json", "--pids", "12",
              "--timeout", seconds(10))
    r = done.json
    assert r["limits_hit"] == ["pids"], r
    if r["isolation"]["limits"]["pids"] == "watch":
        assert (done.status, r["outcome"]) == (137, "limit")
    else:  # the kernel refuses the fork, and the shell says so
        assert done.status != 0 and r["outcome"] == "exited" and "fork" in r["stderr"].lower()


@test
def threads_count_as_processes():
    code = f"""
import sys, threading, time
try:
    for _ in range(40):
        threading.Thread(target=time.sleep, args=({6 * FACTOR},), daemon=True).start()
        time.sleep(0.005)  # time for a watch to look, before process limits as the backstop end it untyped
except RuntimeError:  # the kernel refused: the threads stay until the watch, which alone can tell of them, has looked
    time.sleep({2 * FACTOR})
    sys.exit(1)
time.sleep(3)
"""
    done = python(code, "--json", "--pids", "12", "--timeout", seconds(10))
    assert done.status != 0 and done.json["limits_hit"] == ["pids"]


@test
def as_many_processes_as_allowed_are_allowed():
    assert sh("for i in 1 2 3 4 5 6 7 8; do sleep 0.2 & done; wait; echo fine", "--pids", "9").stdout == b"fine\n"
    assert brig("run", "--pids", "2", "--", "true").status == 0


@test
def the_number_of_processes_is_exact_and_fork_fails():
    code = ("import os, time\nn = 1\ntry:\n  while n < 60:\n    if not os.fork():\n      time.sleep(9)\n    n += 1\n"
            "except BlockingIOError:\n  print(n, 'EAGAIN', flush=True)\ntime.sleep(0.2)")
    for backend in ("native", "bwrap"):
        r = python(code, "--json", "--backend", backend, "--pids", "20", "--timeout", seconds(10)).json
        if r["isolation"]["limits"]["pids"] != "watch":
            assert (r["stdout"], r["outcome"], r["limits_hit"]) == ("20 EAGAIN\n", "exited", ["pids"]), (backend, r)


@test
def many_processes_one_after_the_other_are_no_matter():
    done = sh("i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done; echo fine", "--json", "--pids", "4")
    assert (done.json["stdout"], done.json["limits_hit"]) == ("fine\n", [])


# ---- CPU ----

BUSY = """
import os, time
def burn(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end: pass
began = time.monotonic()
pids = []
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        burn(1.5); os._exit(0)
    pids.append(pid)
for pid in pids: os.waitpid(pid, 0)
t = os.times()
print((t.children_user + t.children_system) / (time.monotonic() - began))
"""


@test(as_user="root", alone=True)
def a_fraction_of_a_cpu_is_a_quota():
    for cpus in (0.5, 0.2):
        done = python(BUSY, "--cpus", str(cpus))
        assert float(done.text) <= 1.3 * cpus, done.text
    assert enforcer("cpus", "--cpus", "0.5") == "cgroup"


@test(alone=True)
def one_cpu_is_one_cpu():
    done = python(BUSY, "--json", "--cpus", "1")
    assert float(done.json["stdout"]) <= 1.3, done.json["stdout"]
    if done.json["isolation"]["limits"]["cpus"] == "affinity":
        inside = sh("nproc; taskset -p -c 0-7 $$ 2>&1; nproc", "--cpus", "1").text.split("\n")
        assert inside[0] == "1" and inside[-2] == "1", inside


@test
def more_cpus_than_there_are_is_no_limit_less():
    assert sh("nproc", "--cpus", "1000").text == f"{len(os.sched_getaffinity(0))}\n"


@test
def a_small_weight_is_taken():
    done = sh("nice", "--json", "--cpu-shares", "100")
    assert done.status == 0
    if done.json["isolation"]["limits"]["cpu_shares"] == "nice":
        assert int(done.json["stdout"]) > 0
    assert brig("run", "--cpu-shares", "1024", "--", "true").status == 0


@test(as_user="root", alone=True)
def weights_share_a_busy_cpu():
    """Two runs on one CPU, one with a tenth of the other's weight: the heavy one gets most of it."""
    code = ("import os, sys, time\nprint('ready', flush=True)\nsys.stdin.readline()\nhad = sum(os.times()[:2])\n"
            "end = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass\nprint(sum(os.times()[:2]) - had)")
    mask = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(mask)})
    runs = [start_brig("run", "--cpu-shares", n, "--", "python3", "-c", code, stdin=subprocess.PIPE) for n in ("100", "1000")]
    for p in runs:
        assert p.stdout.readline() == b"ready\n"
    for p in runs:
        p.stdin.write(b"\n")
        p.stdin.flush()
    light, heavy = (float(p.communicate(timeout=30 * PATIENCE)[0]) for p in runs)
    os.sched_setaffinity(0, mask)
    assert heavy > 2 * light, (light, heavy)


# ---- time ----


@test
def times_are_written_in_many_forms():
    for form, most in {"300ms": 0.3, "0.3s": 0.3, "0.3": 0.3, "1": 1, "1s": 1}.items():
        done = sh("sleep 60", "--json", "--timeout", form)
        limited(done, "timeout", "timeout", status=124)
        assert most * 1000 <= done.json["duration_ms"] < most * 1000 + 1500 * PATIENCE, form
    for form in ("1m", "2h", "1h30m", "1m30s", "1d", "90s", "120000ms"):
        assert brig("run", "--timeout", form, "--", "true").status == 0, form


@test
def the_clock_runs_while_nobody_works():
    began = time.monotonic()
    limited(python("import signal; signal.pause()", "--json", "--timeout", "500ms"), "timeout", "timeout", status=124)
    assert time.monotonic() - began < 5 * PATIENCE


@test
def a_stopped_command_meets_its_time_limit():
    limited(sh("kill -STOP $$", "--json", "--timeout", "500ms"), "timeout", "timeout", status=124)


# ---- disk, private folders, files ----


@test
def bytes_written_to_the_workspace_are_limited():
    done = sh("dd if=/dev/zero of=big bs=64k count=1600 conv=fsync 2>/dev/null; sleep 10", "--json", "--disk", "8m",
              "--timeout", seconds(20))
    limited(done, "limit", "disk")
    assert done.json["isolation"]["limits"]["disk"] == "watch"


@test
def bytes_written_anywhere_else_on_the_disk_are_limited_too():
    """Without a workspace: --write is all there is. The control has no limit; the oracle is what lies on the disk."""
    place = scratch() / "elsewhere"
    place.mkdir()
    os.chown(place, uid(), uid())
    fill = f"for i in $(seq 24); do head -c 1m /dev/urandom > {place}/f$i; sync {place}/f$i; sleep 0.03; done"

    def filled(*options):
        done = brig("run", "--json", "--write", place, *options, "--", "sh", "-c", fill, cwd="/")
        size = sum(f.stat().st_size for f in place.iterdir())
        for f in place.iterdir():
            f.unlink()
        return done, size >> 20
    done, size = filled()
    assert (done.status, size) == (0, 24), (done.errors, "the control proves nothing")
    for backend in ("native", "bwrap"):
        done, size = filled("--disk", "4m", "--backend", backend)
        limited(done, "limit", "disk")
        assert size < 12, (backend, size)
    place.rmdir()


@test
def a_short_run_over_its_disk_is_told_by_its_limit_too():
    for _ in range(4):  # mostly over before the first look
        done = sh("head -c 5m /dev/zero > big", "--json", "--disk", "1m")
        limited(done, "limit", "disk")
        (workspace() / "big").unlink()


HIDING = """
import ctypes, os, time
prctl = ctypes.CDLL(None).prctl
def write(name):
    with open(name, "wb") as f:
        f.write(bytes(900_000))
        f.flush()
        os.fsync(f.fileno())
    time.sleep(0.02)
def orphans(i):      # init has them, and nobody else
    if os.fork() == 0:
        if os.fork() == 0:
            time.sleep(0.05)
            write(f"f{i}")
        os._exit(0)
    os.wait()
    time.sleep(0.1)
def zombies(i):      # nobody has them
    if os.fork() == 0:
        write(f"f{i}")
        time.sleep(0.15)
        os._exit(0)
    time.sleep(0.2)
def undumpable(i):   # not to be read
    prctl(4, 0, 0, 0, 0)
    write(f"f{i}")
for i in range(40):
    %s(i)
"""


@test(limit=120)
def writers_cannot_hide_from_the_disk_limit():
    """Orphans, zombies that are not reaped, and processes that forbid to be read."""
    for way in ("orphans", "zombies", "undumpable"):
        done = brig("run", "--json", "--disk", "4m", "--", "python3", "-c", HIDING % way)
        limited(done, "limit", "disk")
        made = list(workspace().glob("f*"))
        assert made and sum(p.stat().st_size for p in made) < 20 << 20, (way, len(made))  # of 36 MB
        for path in made:
            path.unlink()


@test
def within_its_disk_a_run_is_left_alone():
    done = sh("dd if=/dev/zero of=small bs=64k count=32 conv=fsync 2>/dev/null; sleep 0.2", "--json", "--disk", "8m")
    assert (done.status, done.json["limits_hit"]) == (0, []), done.json["outcome"]
    assert (workspace() / "small").stat().st_size == 2 << 20


@test
def the_disk_limit_caps_private_folders_too():
    done = sh("head -c 8m /dev/zero > /tmp/x; stat -c %s /tmp/x", "--json", "--disk", "1m")
    assert int(done.json["stdout"]) <= (1 << 20) + SLACK and "No space" in done.json["stderr"], done.json


@test
def private_folders_have_one_size_together():
    done = sh("head -c 3m /dev/zero > /tmp/a && head -c 3m /dev/zero > $HOME/b; ls /tmp; stat -c %s $HOME/b",
              "--json", "--set", "limits.tmp=4m")
    assert done.json["stdout"].split()[0] == "a" and int(done.json["stdout"].split()[1]) <= (1 << 20) + SLACK
    assert "No space" in done.json["stderr"] and done.json["outcome"] == "exited"


@test
def open_files_are_limited():
    done = sh("ulimit -n; ulimit -Hn; ulimit -n 5000 2>/dev/null || echo no", "--set", "limits.files=64")
    assert done.text.split() == ["64", "64", "no"], done.text
    code = "import os\nn = 0\ntry:\n  while True: os.open('/dev/null', 0); n += 1\nexcept OSError as e: print(e.errno)"
    assert python(code, "--set", "limits.files=64").text == "24\n"
    assert sh("ulimit -n").text == "4096\n"
    for profile, hard, want in ((), 8192, "4096\n"), ((), 2048, "1792\n"), (("--profile", "strict"), 8192, "768\n"):
        p = start_brig("run", *profile, "--", "sh", "-c", "ulimit -n", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard)))  # noqa: B023
        out = p.communicate(timeout=20 * PATIENCE)[0].decode()
        assert out == (want if uid() else "2048\n" if hard == 2048 else "4096\n"), (profile, hard, out)


@test
def too_many_open_files_are_explained_by_what_can_be_had():
    line = ("sh", "-c", "echo 'Too many open files' >&2; exit 1")
    for hard, more, said in ((20000, (), "--set limits.files=20000 allows more"), (1024, (), "no more than 1024 open files"),
                             (1024, ("--set", "limits.files=20000"), "no more than 1024 open files"),
                             (20000, ("--set", "limits.files=16"), "--set limits.files=20000 allows more")):
        p = start_brig("run", *more, "--", *line, stderr=subprocess.PIPE,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard)))  # noqa: B023
        told = p.communicate(timeout=20 * PATIENCE)[1].decode()
        assert said in told and told.count("hint:") == 1, (hard, more, told)
        assert ("limits.conf" in told) == (hard == 1024), (hard, more, told)


@test
def an_output_limit_is_named_when_hit_and_ends_nothing():
    done = sh("head -c 5000 /dev/zero; exit 3", "--json", "--output-limit", "1k")
    r = done.json
    assert (done.status, r["outcome"], r["limits_hit"], r["stdout_bytes"]) == (3, "exited", ["output"], 5000)
    quiet = sh("head -c 5000 /dev/zero", "--output-limit", "1k")
    assert len(quiet.stdout) == 1024 and quiet.status == 0


# ---- values ----


@test
def sizes_are_written_in_many_forms():
    for form, size in {"64m": 64 << 20, "64M": 64 << 20, "64mb": 64 << 20, "64MiB": 64 << 20, "65536k": 64 << 20, "67108864": 64 << 20,
                       "0.5g": 512 << 20, "1g": 1 << 30}.items():
        done = sh("cat /sys/fs/cgroup/memory.max", "--memory", form)
        assert done.text == f"{size}\n", f"{form}: {done.text}{done.errors}"


@test
def absurd_values_are_refused_by_name():
    for key, values in {"limits.tmp": ("-1", "0", "99999999999999g", "much"), "limits.files": ("-1", "0", "many", "99999999999"),
                        "limits.memory": ("18446744073709551616", "1e400", "0x10", "5%"), "limits.pids": ("1.5", "0"),
                        "limits.timeout": ("1e400", "18446744073709551616s", "1y2q", "1m-5s")}.items():
        for value in values:
            refused("--set", f"{key}={value}", words=(key.split(".")[1],))
    for flag, values in {"--cpus": ("inf", "-0", "0.0000001", "1,5", "0x1"), "--cpu-shares": ("1", "1000000000", "1.5"),
                         "--disk": ("1e", "99999999999999g"), "--timeout": ("", " ", "1 s x"), "--memory": ("", "g")}.items():
        for value in values:
            refused(flag, value)
    assert tree(workspace()) == {}


@test
def two_values_of_one_limit_the_last_counts():
    assert sh("cat /sys/fs/cgroup/pids.max", "--pids", "10", "--pids", "20").text == "20\n"


@test
def limits_hold_in_a_run_with_other_mounts_too():
    done = sh("head -c 200m /dev/zero > /tmp/x; sleep 10", "--json", "--memory", "48m", "--timeout", seconds(20), "--policy", "readonly",
              "--mount", f"{scratch()}:/data", "--network", "host")
    limited(done, "oom", "memory")


@test
def runs_side_by_side_have_their_own_limits():
    runs = [start_brig("run", "--memory", "64m", "--", "sh", "-c", f"head -c {size}m /dev/zero > /tmp/x; sleep 0.5; exit 3")
            for size in (20, 20, 20, 200)]
    assert wait_until(lambda: all(p.poll() is not None for p in runs), 15)
    assert [p.returncode for p in runs] == [3, 3, 3, 137]


if __name__ == "__main__":
    sys.exit(main())
