#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a process writes about itself in /proc, names of its threads and memory, and that all the rest is closed."""

import contextlib
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import WAIT, Attempt, canary, held, inner_pid, inside, on_host, outside, program  # noqa: E402
from harness import IS_ROOT, brig, main, skip, test, uid, workspace  # noqa: E402
from open_sandbox import Sandbox  # noqa: E402

BACKENDS = ("native", "bwrap")
# Whose owner the command is, so that modes alone would let it.
OWNED = ["oom_score_adj", "oom_adj", "clear_refs", "coredump_filter", "uid_map", "gid_map", "projid_map"]
# ... as far as the kernel was built with them, or lets anybody at all.
SOME = ["setgroups", "timens_offsets", "autogroup", "timerslack_ns", "sched", "loginuid", "make-it-fail", "fail-nth", "latency", "attr/current", "attr/exec", "attr/fscreate",
        "attr/keycreate", "attr/sockcreate", "attr/apparmor/current", "attr/apparmor/exec", "attr/smack/current"]
MACHINE = ["/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/ns_last_pid", "/proc/sys/user/max_user_namespaces", "/proc/sysrq-trigger",
           "/proc/irq/default_smp_affinity", "/proc/mtrr", "/proc/timer_stats"]
# Ways to something else that look like one of the two.
DISGUISED = ["/proc/self/comm/../oom_score_adj", "/proc/self/task/../oom_score_adj", "/proc/self/../self/oom_score_adj", "/proc/self/mem/../clear_refs", "/proc/../proc/self/clear_refs",
             "/proc/self/task/1/comm", "/proc/self/task/1/mem", "/proc/1/task/1/comm", "/proc/0/comm", "/proc/4194305/comm", "/proc/99999999/mem", "/proc//comm", "/proc/comm",
             "/proc/self/comm/", "/proc/selfcomm", "/proc/self/task//comm", "/proc/self/root/proc/self/oom_score_adj"]


def within(backend, *args, **more):
    return inside("selfwrite", *args, options=("--backend", backend), **more)


@test
def a_process_names_its_threads_and_writes_its_own_memory():
    """As CUDA does at its start, and debuggers do. The strict profile, which has no ptrace, has names alone."""
    wanted = {"pthread_setname_np", "comm", "thread-comm", "numbers-comm", "mem"}
    for attempt in (outside("selfwrite", "own"), *(within(b, "own") for b in BACKENDS)):
        assert set(attempt.worked) == wanted and not attempt.denied and attempt.facts["fixed"] == "43", (attempt.worked, attempt.denied, attempt.stderr)
    strict = inside("selfwrite", "own", options=("--profile", "strict"))
    assert set(strict.worked) == wanted - {"mem"} and set(strict.denied) == {"mem"} and strict.facts["fixed"] == "42", (strict.worked, strict.denied)
    name = "import threading, time; t = threading.Thread(target=time.sleep, args=(9,), daemon=True); t.start(); " \
           "f = open(f'/proc/self/task/{t.native_id}/comm', 'r+b', 0); f.write(b'seen-outside'); open('ready', 'w').close()\n" \
           "import pathlib\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)"
    with held("run", "--", "python3", "-c", name) as h:
        names = {p.read_text() for pid in h.guests() for p in pathlib.Path(f"/proc/{pid}/task").glob("*/comm")}
        assert "seen-outside\n" in names, names


@test
def everything_else_of_proc_is_as_closed_as_ever():
    owned = [f"/proc/{who}/{name}" for who in ("self", "thread-self") for name in OWNED + SOME]
    control = outside("procfs", "open-write", *owned).must_work(*(f"/proc/self/{name}" for name in OWNED))
    if IS_ROOT and uid() == 0:
        there = [path for path in MACHINE if pathlib.Path(path).exists()]
        outside("procfs", "open-write", *there, user=0).must_work("/proc/sys/kernel/core_pattern", *(set(there) & {"/proc/sysrq-trigger"}))
    for backend in BACKENDS:
        attempt = inside("procfs", "open-write", *owned, *MACHINE, *DISGUISED, options=("--backend", backend)).must_fail(*control.worked, *MACHINE, *DISGUISED)
        assert {attempt.denied[path] for path in control.worked} <= {"EROFS", "EACCES"}, attempt.denied
        script = f"for f in /proc/*/oom_score_adj /proc/*/task/*/oom_score_adj; do echo 0 1<>$f >&1; done 2>/dev/null; {WAIT}"
        with held("run", "--backend", backend, "--", "sh", "-c", script) as h:
            found = {pathlib.Path(f"/proc/{p}/oom_score_adj").read_text() for p in h.pids() if inner_pid(p)}
            assert found == {"1000\n"}, found


@test
def memory_is_written_by_its_tracer_and_by_nobody_else():
    """A parent could write its child's elsewhere; here it traces it first, and the kernel decides about that."""
    outside("selfwrite", "child", "just so").must_work("mem", "task-mem", "comm")
    control = outside("selfwrite", "child", "traced").must_work("mem", "task-mem")
    assert control.facts["there"] == "43", control.facts
    for backend in BACKENDS:
        within(backend, "child", "just so").must_fail("mem", "task-mem", "comm")
        traced = within(backend, "child", "traced").must_work("mem", "task-mem")
        assert traced.facts["there"] == "43" and not traced.denied, (traced.facts, traced.denied)


@test
def nobody_elses_memory_is_reached():
    """Init's, its parent's, a process of the machine's; also where brig's own processes stand between init and a command."""
    with canary() as host:
        outside("procfs", "reach", str(host.pid)).must_work("mem")
        for backend in BACKENDS:
            within(backend, "strangers", "64").must_fail("1/mem", "1/comm", "parent/mem")
            inside("procfs", "open-write", f"/proc/{host.pid}/mem", f"/proc/{host.pid}/comm", f"/proc/{host.pid}/task/{host.pid}/mem",
                   options=("--backend", backend)).must_fail()
    at = workspace() / "attack"
    shutil.copy(program("selfwrite"), at)
    at.chmod(0o755)
    for backend in BACKENDS:
        with Sandbox(backend) as s:
            s.start(1, "exec sleep 600")
            r = s.run(2, "./attack strangers 64")
            Attempt(r["exit_code"], r["stdout"].encode(), b"").must_fail("1/mem", "parent/mem")
            r = s.run(3, "./attack own")  # the control: it is no other reason
            assert "mem" in Attempt(r["exit_code"], r["stdout"].encode(), b"").worked, r
    at.unlink()


@test
def a_path_that_changes_while_it_is_looked_at_gains_nothing():
    control = outside("selfwrite", "swap", "1000000").must_work("swap")  # until both were met
    assert int(control.facts["names"]) > 0, control.facts
    for backend in BACKENDS:
        attempt = within(backend, "swap", "150").must_fail("swap")
        assert int(attempt.facts["names"]) > 0, attempt.facts


@test
def a_crowd_that_asks_is_answered_and_ends():
    for backend in BACKENDS:
        within(backend, "crowd").must_work("crowd")
    with held("run", "--", "sh", "-c", "touch ready; while :; do : 3<>/dev/null; done") as h:  # who asks for ever is ended all the same
        pids = h.pids()
        h.process.terminate()
        h.process.wait(20)
        assert not any(pathlib.Path(f"/proc/{p}").exists() for p in pids)


@test
def the_proc_that_only_init_has_is_behind_a_closed_door():
    """On bwrap it is a mount; on native it has no name any more."""
    paths = ["/.brig/proc/self/oom_score_adj", "/.brig/proc/self/clear_refs", "/.brig", "/.brig/proc", "/proc/1/cwd/.brig/proc/self/clear_refs"]
    inside("procfs", "open-write", *paths, options=("--backend", "bwrap")).must_fail(*paths)
    script = "chmod 700 /.brig; ls /.brig/proc; cd /.brig; mv /.brig /x; rmdir /.brig; mount --bind / /mnt; cat /.brig/proc/self/status; " \
             "for f in /proc/self/fd/*; do ls $f/self/oom_score_adj; done; true"
    for backend in BACKENDS:
        done = brig("run", "--backend", backend, "--", "sh", "-c", script)
        assert done.status == 0 and not done.text.strip(), done.text
    outside("procfs", "open-write", "/proc/self/oom_score_adj").must_work()
    with held("run", "--", "sh", "-c", WAIT) as h, contextlib.suppress(PermissionError):
        procs = [line for line in pathlib.Path(f"/proc/{h.guests()[0]}/mountinfo").read_text().splitlines() if " - proc " in line]
        assert [line.split()[5].split(",")[0] for line in procs] == ["ro"], procs


@test
def a_debugger_sets_a_breakpoint_through_its_server():
    if not shutil.which("gdbserver"):
        skip("gdbserver is not installed")
    (workspace() / "h.c").write_text("int main(void) { return 0; }\n")
    on_host("gcc", "-g", "-o", "h", "h.c").check_returncode()
    done = brig("run", "--", "gdb", "-q", "-batch", "-ex", "target remote | gdbserver - ./h", "-ex", "break main", "-ex", "continue", "-ex", "bt", "./h")
    assert "#0  main" in done.text, (done.text, done.errors)


if __name__ == "__main__":
    sys.exit(main())
