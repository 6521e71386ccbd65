#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks by one command of an open sandbox: to outlive its end, to end or reach what stands over it, to use up its places."""

import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import as_identity, signal  # noqa: E402
from harness import FACTOR, brig, descendants, main, test, wait_until, workspace  # noqa: E402
from open_sandbox import Sandbox  # noqa: E402

OPEN = ("native", "bwrap")
ALL = (*OPEN, "none")  # which keeps nobody in, but ends what it has started

# Away from its group, its session and its parent, deaf to every signal that can be ignored.
AWAY = ("import os, signal, time\n"
        "for s in range(1, 65):\n  try: signal.signal(s, signal.SIG_IGN)\n  except (OSError, ValueError): pass\n"
        "def away(n):\n  if os.fork() == 0:\n    os.setsid()\n    if n: away(n - 1)\n    else:\n      open('away', 'w').close()\n"
        "      time.sleep(600)\n    os._exit(0)\n"
        "away(3)\n")


def here():
    return os.environ["BRIG_BACKEND"]


def script(name, text):
    (workspace() / name).write_text(text)
    return f"exec python3 {name}"


def guests():
    """Processes of the guest's, seen from the host."""
    return [n for n in descendants().values() if n.startswith(("python3", "sleep", "sh"))]


def bystander(s):
    """A command beside the attacker's, which nothing must happen to."""
    s.start(99, ": > beside; while [ ! -e go ]; do sleep 0.05; done; echo fine")
    s.until("beside")
    return len([n for n in guests() if n.startswith("sh")])


def is_fine(s):
    (workspace() / "go").touch()
    r = s.wait(99)
    assert (r["outcome"], r["exit_code"], r["stdout"]) == ("exited", 0, "fine\n"), r


@test(alone=True)
def control_such_a_process_outlives_its_group():
    p = subprocess.Popen(as_identity(["/usr/bin/python3", "-c", AWAY + "time.sleep(600)"]), stdin=subprocess.DEVNULL, cwd=workspace(),
                         start_new_session=True)
    assert wait_until((workspace() / "away").exists)
    os.killpg(p.pid, signal.SIGKILL)
    p.wait()
    left = [pid for pid, n in descendants().items() if n.startswith("python3")]
    assert left, "the control proves nothing"
    for pid in left:
        os.kill(pid, signal.SIGKILL)


@test(alone=True, backends=ALL)
def cancel_ends_what_forked_twice_and_left_its_session():
    with Sandbox(here()) as s:
        bystander(s)
        s.start(1, script("a.py", AWAY + "time.sleep(600)\n"))
        s.until("away")
        assert s.say("cancel 1") == "ok" and s.wait(1)["outcome"] == "cancelled"
        assert not any(n.startswith("python3") for n in guests()), guests()
        is_fine(s)


@test(alone=True, backends=ALL)
def cancel_ends_what_a_command_that_obeys_has_left():
    """Its first process leaves at the first word, and with it nobody must forget the others."""
    with Sandbox(here()) as s:
        bystander(s)
        s.start(1, script("a.py", AWAY + "signal.signal(signal.SIGTERM, signal.SIG_DFL)\nopen('ready', 'w').close()\ntime.sleep(600)\n"))
        s.until("away")
        s.until("ready")
        assert s.say("cancel 1") == "ok" and s.wait(1)["outcome"] == "cancelled"
        assert wait_until(lambda: not any(n.startswith("python3") for n in guests())), guests()
        is_fine(s)


@test(alone=True, backends=ALL)
def a_time_limit_ends_it_too_when_the_reaper_is_stopped():
    with Sandbox(here()) as s:
        bystander(s)
        s.start(1, script("a.py", AWAY + "os.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(600)\n"), limits__timeout="500ms")
        assert s.wait(1)["outcome"] == "timeout"
        assert not any(n.startswith("python3") for n in guests()), guests()
        is_fine(s)


@test(alone=True, backends=ALL)
def one_that_kills_its_reaper_ends_itself_and_nobody_else():
    with Sandbox(here()) as s:
        bystander(s)
        r = s.run(1, script("a.py", AWAY + "while not os.path.exists('away'): time.sleep(0.01)\n"
                            "os.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(600)\n"))
        assert (r["outcome"], r["signal"]) == ("signalled", 9), r
        assert not any(n.startswith("python3") for n in guests()), guests()
        is_fine(s)


@test(alone=True, backends=OPEN)
def one_that_becomes_a_child_of_its_reaper_or_of_init_ends_with_it():
    """CLONE_PARENT makes a sibling; after the reaper's death a sibling is a child of process 1."""
    sibling = ("import ctypes, os, platform, signal, time\n"
               "nr = 220 if platform.machine() == 'aarch64' else 56\n"
               "def sibling():\n  return ctypes.CDLL(None).syscall(nr, 0x8000 | 17, 0, 0, 0, 0)\n"
               "up = os.getppid()\n"
               "if sibling() == 0:\n  os.setsid()\n  open('away', 'w').close()\n"
               "  while True:\n    if sibling() == 0: time.sleep(600)\n    time.sleep(0.005)\n"
               "while not os.path.exists('away'): time.sleep(0.01)\n"
               "os.kill(up, signal.SIGKILL)\ntime.sleep(600)\n")
    with Sandbox(here(), "limits.pids=64") as s:
        bystander(s)
        r = s.run(1, script("a.py", sibling))
        assert (r["outcome"], r["signal"]) == ("signalled", 9), r
        assert not any(n.startswith("python3") for n in guests()), guests()
        is_fine(s)


@test(alone=True, backends=ALL)
def one_that_forks_and_leaves_all_the_time_is_caught_or_ends_the_sandbox():
    chain = "import os\nopen('away', 'w').close()\nwhile True:\n  if os.fork(): os._exit(0)\n  os.setsid()\n"
    with Sandbox(here(), *(["limits.pids=64"] if here() in OPEN else [])) as s:
        s.start(1, script("a.py", chain))
        s.until("away")
        began = time.monotonic()
        assert s.say("cancel 1") == "ok"
        assert s.wait(1)["outcome"] in ("cancelled", "exited")  # its first process left at once
        s.start(2, "true")
        s.wait(2)
        s.say("close")
        assert time.monotonic() - began < 20 * FACTOR
        assert wait_until(lambda: not guests()), guests()


@test(alone=True, backends=OPEN)
def kill_of_everything_ends_the_commands_and_leaves_the_sandbox():
    with Sandbox(here()) as s:
        s.start(1, ": > one; sleep 600")
        s.until("one")
        r = s.run(2, "kill -9 -1; sleep 600")
        assert (r["outcome"], r["signal"]) == ("signalled", 9), r
        assert s.wait(1)["outcome"] == "signalled" and not guests()
        r = s.run(3, "echo here")
        assert (r["outcome"], r["stdout"]) == ("exited", "here\n"), r


LOOK = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
def fails(what, call):
    try:
        got = call()
    except OSError as e:
        return
    if isinstance(got, int) and got < 0:
        return
    print(what, got)
for pid in (1, os.getppid()):
    for name in ('mem', 'environ', 'maps', 'auxv', 'io', 'syscall', 'stack'):
        fails(f'{pid}/{name}', lambda: open(f'/proc/{pid}/{name}', 'rb').read(1) or None)
    for name in ('fd', 'map_files', 'ns', 'task'):
        if name != 'task':
            fails(f'{pid}/{name}', lambda: os.listdir(f'/proc/{pid}/{name}'))
    for name in ('cwd', 'root', 'exe', 'fd/3', 'ns/pid'):
        fails(f'{pid}/{name}', lambda: os.readlink(f'/proc/{pid}/{name}'))
    fails(f'{pid} attach', lambda: libc.ptrace(16, pid, 0, 0))
    fails(f'{pid} seize', lambda: libc.ptrace(0x4206, pid, 0, 0))
    buf = ctypes.create_string_buffer(8)
    class iov(ctypes.Structure): _fields_ = [('p', ctypes.c_void_p), ('n', ctypes.c_size_t)]
    here, there = iov(ctypes.addressof(buf), 8), iov(id(buf), 8)
    fails(f'{pid} vm_readv', lambda: libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0))
    fd = libc.syscall(434, pid, 0)
    if fd >= 0:
        for n in range(3, 40):
            fails(f'{pid} getfd {n}', lambda: libc.syscall(438, fd, n, 0))
        os.close(fd)
    if pid == 1:  # a reaper only waits: whoever slows his own down gains nothing by it
        fails(f'{pid} prlimit', lambda: __import__('resource').prlimit(pid, 7, (0, 0)))
        fails(f'{pid} nice', lambda: libc.setpriority(0, pid, 19))
print('fds', [n for n in range(256) if libc.fcntl(n, 1) >= 0])
"""


@test(backends=OPEN)
def neither_init_nor_a_reaper_can_be_looked_into_or_changed():
    with Sandbox(here()) as s:
        r = s.run(1, script("look.py", LOOK))
        assert (r["outcome"], r["exit_code"], r["stdout"], r["stderr"]) == ("exited", 0, "fds [0, 1, 2]\n", ""), r


STATE = "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp|Seccomp_filters|Sig(Blk|Ign|Cgt))' /proc/self/status; cat /proc/self/limits; " \
        "cat /proc/self/oom_score_adj; nice; pwd; readlink /proc/self/ns/user | wc -c; cat /proc/self/attr/current 2>/dev/null; env | sort; " \
        "touch /etc/x /usr/x /x 2>&1; unshare -U true 2>&1; echo > /proc/sys/kernel/hostname; ls /proc/self/fd | wc -l; " \
        "grep -v NPROC /dev/null; mount -t tmpfs x /mnt 2>&1"


@test(backends=OPEN)
def a_command_has_the_same_confinement_as_that_of_a_run():
    line = STATE.replace("cat /proc/self/limits", "grep -v processes /proc/self/limits")
    once = brig("run", "--json", "--", "/bin/sh", "-c", line).json
    with Sandbox(here()) as s:
        for number in (1, 2):
            r = s.run(number, line)
            assert (r["stdout"], r["stderr"]) == (once["stdout"], once["stderr"]), (r, once)


@test(alone=True, backends=OPEN)
def places_that_are_used_up_refuse_a_command_and_come_back():
    with Sandbox(here(), "limits.pids=200") as s:
        for number in range(1, 65):
            r = s.run(number, "sleep 600 > /dev/null 2>&1 &")
            assert r["outcome"] == "exited", r
        for number in (65, 66, 67):
            r = s.run(number, "true")
            assert r["outcome"] == "refused" and "at most 64 commands" in r["error"]["what"], r
        s.say("turn 50")
        assert len([n for n in guests() if n.startswith("sleep")]) == 64
        pid = next(pid for pid, n in descendants().items() if n.startswith("sleep"))
        os.kill(pid, signal.SIGKILL)
        s.say("turn 200")
        r = s.run(70, "echo room")
        assert (r["outcome"], r["stdout"]) == ("exited", "room\n"), r
        assert s.say("close")["outcome"] == "exited" and not guests()


if __name__ == "__main__":
    sys.exit(main())
