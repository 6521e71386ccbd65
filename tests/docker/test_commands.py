#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks by a command of a container that stays open, and by its image: to outlive its end, to reach or end what stands over it, to speak on
its line, to forge the end of another command. That each attack works where nothing keeps it from is shown by tests/escape/test_commands.py, or here
beside it."""

import contextlib
import itertools
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import common  # noqa: E402
from command_attacks import AWAY, CHAIN, LOOK, SIBLING, STATE  # noqa: E402
from common import box, engine, image, settle, shared_engine  # noqa: E402
from harness import PATIENCE, around, identity, main, state, test, wait_until, workspace  # noqa: E402
from open_sandbox import Sandbox  # noqa: E402

PYTHON = engine.PYTHON_IMAGE


around(shared_engine)


def opened(*settings, root=PYTHON):
    settle()
    return Sandbox("docker", f"image={root}", *settings, env=common.environment())


def script(name, text):
    (workspace() / name).write_text(text)
    return f"exec python3 {name}"


def guests(s, *names):
    return [n for n in s.processes().values() if n.startswith(names or ("python3", "sleep", "sh"))]


def bystander(s):
    """A command beside the attacker's, which nothing must happen to."""
    s.start(99, ": > beside; while [ ! -e go ]; do sleep 0.05; done; echo fine")
    s.until("beside")


def is_fine(s):
    (workspace() / "go").touch()
    r = s.wait(99)
    assert (r["outcome"], r["exit_code"], r["stdout"]) == ("exited", 0, "fine\n"), r


@test(limit=120)
def what_a_command_left_is_judged_when_it_has_ended():
    """As on native (tests/escape/test_open.py), where the plants are shown to be obeyed."""
    with opened() as s:
        for i, (line, name) in enumerate((("echo evil > .envrc", ".envrc"), ("mkdir .husky; echo evil > .husky/pre-commit", ".husky"),
                                          ("(sleep 0.4; echo evil > .bashrc) > /dev/null 2>&1 & echo evil > .zshrc", ".zshrc"))):
            assert s.run(2 * i + 1, "echo fine > work")["denials"] == []
            r = s.run(2 * i + 2, line)
            assert r["exit_code"] == 0 and not r["unsettled"] and [d["target"] for d in r["denials"]] == [name], (line, r)
            assert not (workspace() / name).exists()
        kept = state() / "brig/quarantine"
        assert wait_until(lambda: s.say("turn 10") == "ok" and len(list(kept.iterdir())) == 4), "nobody looked at what was left running"
        assert not (workspace() / ".bashrc").exists() and (workspace() / "work").read_text() == "fine\n"
        bystander(s)
        r = s.run(50, "echo evil > .envrc")
        assert r["unsettled"] and r["denials"] == [], r
        (workspace() / "go").touch()
        assert [d["target"] for d in s.wait(99)["denials"]] == [".envrc"] and not (workspace() / ".envrc").exists()


@test(limit=120)
def cancel_ends_what_forked_twice_and_left_its_session():
    with opened() as s:
        bystander(s)
        s.start(1, script("a.py", AWAY + "time.sleep(600)\n"))
        s.until("away")
        assert s.say("cancel 1") == "ok" and s.wait(1)["outcome"] == "cancelled"
        assert not guests(s, "python3"), guests(s)
        is_fine(s)


@test(limit=120, as_user="root")
def a_time_limit_ends_it_too_when_the_reaper_is_stopped():
    with opened() as s:
        bystander(s)
        s.start(1, script("a.py", AWAY + "os.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(600)\n"), limits__timeout="500ms")
        assert s.wait(1)["outcome"] == "timeout"
        assert not guests(s, "python3"), guests(s)
        is_fine(s)


@test(limit=120, as_user="root")
def one_that_kills_its_reaper_ends_itself_and_nobody_else():
    with opened() as s:
        bystander(s)
        r = s.run(1, script("a.py", AWAY + "while not os.path.exists('away'): time.sleep(0.01)\n"
                            "os.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(600)\n"))
        assert (r["outcome"], r["signal"]) == ("signalled", 9), r
        assert not guests(s, "python3"), guests(s)
        is_fine(s)


@test(limit=120, as_user="root")
def one_that_becomes_a_child_of_its_reaper_or_of_the_gate_ends_with_it():
    with opened("limits.pids=64") as s:
        bystander(s)
        r = s.run(1, script("a.py", SIBLING))
        assert (r["outcome"], r["signal"]) == ("signalled", 9), r
        assert not guests(s, "python3"), guests(s)
        is_fine(s)


@test(limit=120, as_user="root")
def one_that_forks_and_leaves_all_the_time_is_caught_or_ends_the_sandbox():
    with opened("limits.pids=64") as s:
        s.start(1, script("a.py", CHAIN))
        s.until("away")
        began = time.monotonic()
        assert s.say("cancel 1") == "ok"
        assert s.wait(1)["outcome"] in ("cancelled", "exited")  # its first process left at once
        s.say("close")
        assert time.monotonic() - began < 20 * PATIENCE
        assert wait_until(lambda: not s.processes()), s.processes()


@test(limit=120, as_user="root")
def kill_of_everything_ends_the_commands_and_leaves_the_sandbox():
    with opened() as s:
        s.start(1, ": > one; sleep 600")
        s.until("one")
        r = s.run(2, "kill -9 -1; sleep 600")
        assert (r["outcome"], r["signal"]) == ("signalled", 9), r
        assert s.wait(1)["outcome"] == "signalled" and not guests(s)
        r = s.run(3, "kill -TERM 1; kill -INT 1; kill -CHLD 1; kill -STOP 1; kill -KILL 1; echo here")
        assert (r["outcome"], r["stdout"]) == ("exited", "here\n"), r


@test(limit=120)
def neither_the_gate_nor_a_reaper_can_be_looked_into_or_changed():
    with opened() as s:
        r = s.run(1, script("look.py", LOOK))
        assert (r["outcome"], r["exit_code"], r["stdout"], r["stderr"]) == ("exited", 0, "fds [0, 1, 2]\n", ""), r


# The kernel lets one process of a user lower the limits of another. The control is the same done to a child.
LOWER = """
import os, resource, time
def tries(pid, what, soft, hard):
    try:
        resource.prlimit(pid, what, (soft, hard))
        return True
    except (OSError, ValueError):
        return False
all = {n: getattr(resource, n) for n in dir(resource) if n.startswith('RLIMIT_')}
child = os.fork()
if child == 0:
    time.sleep(600)
def taken(pid):
    return sum(tries(pid, w, 0, 0) for n, w in all.items() if n not in ('RLIMIT_CPU', 'RLIMIT_STACK'))
print('raised', [n for n, w in all.items() if (h := resource.prlimit(1, w)[1]) not in (-1, 0) and tries(1, w, h, h + 1)])
print('taken', taken(1), 'control', taken(child) > 5)
os.kill(child, 9)
"""


@test(limit=120)
def nobody_inside_takes_the_gates_resources():
    with opened() as s:
        bystander(s)
        r = s.run(1, script("lower.py", LOWER))
        assert (r["exit_code"], r["stdout"]) == (0, "raised []\ntaken 0 control True\n"), r
        assert s.run(2, "echo here")["stdout"] == "here\n"


# What the kernel lets one of the gate's user do to it, and the filter does not: take its share of the machine, its CPU. The control is
# the same done to a child.
TAKE = """
import ctypes, os, time
def tries(call, *args):
    try:
        return call(*args) != -1
    except (OSError, ValueError):
        return False
cpu = min(os.sched_getaffinity(0))
def take(pid):
    return [tries(os.setpriority, os.PRIO_PROCESS, pid, 19), tries(os.sched_setscheduler, pid, os.SCHED_IDLE, os.sched_param(0)), tries(os.sched_setaffinity, pid, {cpu}),
            tries(ctypes.CDLL(None).syscall, {'aarch64': 30, 'x86_64': 251}[os.uname().machine], 1, pid, 0x6000)]
child = os.fork()
if child == 0:
    time.sleep(600)
print(take(1), take(child), flush=True)
os.kill(child, 9)
"""
SPIN = """
os.sched_setaffinity(0, {cpu})
for _ in range(12):
    if os.fork() == 0: break
end = time.monotonic() + 30
while time.monotonic() < end: pass
"""


@test(limit=120)
def nothing_inside_starves_the_gate():
    with opened("limits.pids=40") as s:
        bystander(s)
        r = s.run(1, script("take.py", TAKE))
        assert (r["exit_code"], r["stdout"]) == (0, "[False, False, False, False] [True, True, True, True]\n"), r
        r = s.run(2, script("spin.py", TAKE + SPIN), limits__timeout="1s")
        assert r["outcome"] == "timeout", r
        assert wait_until(lambda: not guests(s, "python3")), s.processes()  # killed ones still have to get a processor to end on
        is_fine(s)


@test(limit=120)
def nor_does_a_run():
    for how in ((), ("--publish", "8000")):
        (workspace() / "spin.py").write_text(TAKE + SPIN)
        r = box("--json", "--pids", "40", "--timeout", "2s", *how, "--", "python3", "spin.py", image=PYTHON).json
        assert r["outcome"] == "timeout" and r["stdout"].startswith("[False, False, False, False] [True"), r


@test(limit=120, as_user="root")
def a_gate_that_ends_nothing_ends_with_its_container():
    """The host stops it, as nothing inside can: a command that was killed and does not end is not waited for."""
    with opened() as s:
        bystander(s)
        s.start(1, ": > one; sleep 600")
        s.until("one")
        (gate,) = [pid for pid, name in s.processes().items() if name.startswith(".brig-")]
        os.kill(gate, signal.SIGSTOP)
        assert s.say("cancel 1") == "ok" and s.wait(1)["outcome"] == "cancelled"
        r = s.wait(99)
        assert r["outcome"] == "failed" and "did not end: its container was ended" in r["error"]["what"], r
        assert not s.processes() and s.say("close")["outcome"] == "failed"


# What a command finds of the line, and of every other descriptor: its socket's name, the kernel's list of sockets, the program that knows how
# to speak on it. The control is a socket of the attacker's own, which the same words reach.
REACH = """
import glob, os, socket, struct, subprocess, threading
def reach(path, kind):
    s = socket.socket(socket.AF_UNIX, kind)
    try:
        s.connect(path)
        return 'reached'
    except OSError as e:
        return type(e).__name__
lines = glob.glob('/.brig-*.line')
print(len(lines), [reach(l, k) for l in lines for k in (socket.SOCK_SEQPACKET, socket.SOCK_STREAM, socket.SOCK_DGRAM)])
own = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
own.bind('/tmp/own')
own.listen(1)
print('control', reach('/tmp/own', socket.SOCK_SEQPACKET))
def tries(call):
    try:
        call()
        return 'done'
    except OSError as e:
        return 'refused'
print([tries(c) for c in (lambda: os.unlink(lines[0]), lambda: os.rename(lines[0], '/x'), lambda: os.chmod(lines[0], 0),
                          lambda: socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).bind(lines[0]))])
gate = lines[0][:-len('.line')]
p = subprocess.run([gate], input=b'\\0' * 65536, stdout=subprocess.PIPE)
print('gate', p.returncode, b'brig gate' in p.stdout)
"""


@test(limit=120, as_user="root")
def the_strictest_filter_lets_the_gate_reach_its_line():
    with opened("profile=strict") as s:
        r = s.run(1, "grep Seccomp: /proc/self/status")
        assert (r["stdout"], r["isolation"]["seccomp"]) == ("Seccomp:\t2\n", "strict"), r


@test(limit=120)
def the_line_answers_nobody_but_the_gate():
    with opened() as s:
        bystander(s)
        r = s.run(1, script("reach.py", REACH))
        refused = ["ConnectionRefusedError", "ConnectionRefusedError", "ConnectionRefusedError"]
        lines = r["stdout"].splitlines()
        assert lines[0] in (f"1 {refused}", f"1 {[refused[0], 'OSError', 'OSError']}") and lines[1] == "control reached", r
        assert lines[2] == str(["refused"] * 4) and lines[3] == "gate 125 True", r
        is_fine(s)
        assert not [n for n in os.listdir(state() / "brig/docker") if n.endswith(".line")]  # nor has it a name on the host


FORGE = """
import os, signal, time
mine = {os.getpid(), os.getppid(), 1}
for pid in map(int, filter(str.isdigit, os.listdir('/proc'))):
    try: name = open(f'/proc/{pid}/comm').read().strip()
    except OSError: continue   # it has ended meanwhile
    if name == 'brig-reaper' and pid not in mine:
        for s in (signal.SIGCHLD, signal.SIGUSR1, signal.SIGTERM, signal.SIGCONT): os.kill(pid, s)
        for path in ('fd/0', 'fd/1', 'fd/3', 'mem', 'clear_refs', 'oom_score_adj'):
            try:
                f = os.open(f'/proc/{pid}/{path}', os.O_WRONLY)
                if path != 'oom_score_adj': print('opened', path)
            except OSError: pass
        os.kill(1, signal.SIGCHLD)
        time.sleep(0.2)
        os.kill(pid, signal.SIGKILL)
print('did')
"""


@test(limit=120, as_user="root")
def the_end_of_another_command_cannot_be_forged():
    """They are of one user, and one may kill the other. What it cannot is have another end told than that."""
    with opened() as s:
        s.start(1, ": > one; sleep 600; exit 7")
        s.until("one")
        r = s.run(2, script("forge.py", FORGE))
        assert (r["outcome"], r["exit_code"], r["stdout"]) == ("exited", 0, "did\n"), r
        r = s.wait(1)
        assert (r["outcome"], r["signal"]) == ("signalled", 9), r
        assert s.run(3, "echo here")["stdout"] == "here\n"


@test(limit=180, as_user="root")
def places_that_are_used_up_refuse_a_command_and_come_back():
    with opened("limits.pids=600") as s:
        for number in range(1, 257):
            r = s.run(number, "sleep 600 > /dev/null 2>&1 &")
            assert r["outcome"] == "exited", r
        for number in (257, 258, 259):
            r = s.run(number, "true")
            assert r["outcome"] == "refused" and "at most 256 commands" in r["error"]["what"], r
        pids = [pid for pid, n in s.processes().items() if n == "sleep"]
        assert len(pids) == 256
        os.kill(pids[0], signal.SIGKILL)
        s.say("turn 200")
        r = s.run(270, "echo room")
        assert (r["outcome"], r["stdout"]) == ("exited", "room\n"), r
        assert s.say("close")["outcome"] == "exited" and not s.processes()


@test(limit=120, as_user="root")
def processes_that_are_used_up_refuse_a_command_and_leave_the_sandbox():
    (workspace() / "full.py").write_text("import os, time\ntry:\n  while True:\n    if os.fork() == 0: time.sleep(600)\n"
                                         "except OSError: open('full', 'w').close()\ntime.sleep(600)\n")
    with opened("limits.pids=20") as s:
        s.start(1, "exec python3 full.py")
        s.until("full")
        r = s.run(2, "true")
        assert r["outcome"] == "refused" and "as many processes as it may have" in r["error"]["what"], r
        assert s.say("cancel 1") == "ok" and s.wait(1)["outcome"] == "cancelled"
        numbers = itertools.count(3)  # the kernel may still be counting what it has just killed
        assert wait_until(lambda: s.run(next(numbers), "echo room")["stdout"] == "room\n")
        assert "pids" in s.say("close")["limits_hit"]


@test(limit=120)
def a_command_has_the_same_confinement_as_that_of_a_run():
    line = STATE.replace("cat /proc/self/limits", "cat /proc/self/limits; echo x > /dev/stderr")
    once = box("--json", "--", "/bin/sh", "-c", line, image=PYTHON).json
    with opened() as s:
        for number in (1, 2):
            r = s.run(number, line)
            assert (r["stdout"], r["stderr"]) == (once["stdout"], once["stderr"]), (r["stdout"], once["stdout"], r["stderr"], once["stderr"])
        status, found = common.shared.ask("GET", f"/containers/{s.containers(common.shared)[0]}/json")
        assert status == 200 and not found["ExecIDs"], found["ExecIDs"]


@test(limit=120, as_user="root")
def an_image_decides_nothing_but_what_it_decides_for_a_run():
    """Its entry point, its first command, its loader's variables and its shell in PATH: the gate and the reapers are not its own."""
    name = f"hostile-{identity()}:commands"
    evil = b"#!/bin/sh\n: > /workspace/evil\nexec /bin/sh \"$@\"\n"
    common.shared.import_image(image(("evil/sh", evil), ("evil/env", evil)), name, [
        'ENTRYPOINT ["/evil/sh"]', 'CMD ["/evil/sh"]', "ENV LD_PRELOAD=/evil/lib.so", "ENV LD_LIBRARY_PATH=/evil", "ENV EVIL=1",
        "ENV ENV=/evil/sh", "USER 0"])
    once = box("--json", "--", "/bin/sh", "-c", "env | sort; id", image=name).json
    assert "EVIL=1" in once["stdout"]
    with opened(root=name) as s:
        for number in (1, 2):
            r = s.run(number, "env | grep -v ^MARK_ | sort; id")
            assert r["stdout"] == once["stdout"], (r, once)
        assert not (workspace() / "evil").exists()


@test(limit=120, as_user="root")
def a_killed_guard_ends_all_and_leaves_no_container():
    with opened() as s:
        s.start(1, "setsid sleep 600 & : > one; sleep 600")
        s.until("one")
        guard = [int(p) for p in filter(str.isdigit, os.listdir("/proc")) if is_guard(p, s.mark)]
        assert len(guard) == 1, guard
        assert len(s.containers(common.shared)) == 1
        os.kill(guard[0], signal.SIGKILL)
        assert s.wait(1)["outcome"] in ("failed", "signalled")
        s.say("close")
        assert wait_until(lambda: not s.processes() and not s.containers(common.shared)), s.processes()


def is_guard(pid, mark):
    """A fork of the program that has opened the sandbox, with its command line."""
    with contextlib.suppress(OSError):
        return (pathlib.Path(f"/proc/{pid}/comm").read_text() == "brig-guard\n"
                and mark in pathlib.Path(f"/proc/{pid}/cmdline").read_text())
    return False


if __name__ == "__main__":
    sys.exit(main())
