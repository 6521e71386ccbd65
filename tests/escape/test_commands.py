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
from command_attacks import AWAY, CHAIN, LOOK, SIBLING, STATE  # noqa: E402
from harness import PATIENCE, brig, descendants, main, test, wait_until, workspace  # noqa: E402
from open_sandbox import Sandbox  # noqa: E402

OPEN = ("native", "bwrap")
ALL = (*OPEN, "none")  # which keeps nobody in, but ends what it has started


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
    with Sandbox(here(), "limits.pids=64") as s:
        bystander(s)
        r = s.run(1, script("a.py", SIBLING))
        assert (r["outcome"], r["signal"]) == ("signalled", 9), r
        assert not any(n.startswith("python3") for n in guests()), guests()
        is_fine(s)


@test(alone=True, backends=ALL)
def one_that_forks_and_leaves_all_the_time_is_caught_or_ends_the_sandbox():
    with Sandbox(here(), *(["limits.pids=64"] if here() in OPEN else [])) as s:
        s.start(1, script("a.py", CHAIN))
        s.until("away")
        began = time.monotonic()
        assert s.say("cancel 1") == "ok"
        assert s.wait(1)["outcome"] in ("cancelled", "exited")  # its first process left at once
        s.start(2, "true")
        s.wait(2)
        s.say("close")
        assert time.monotonic() - began < 20 * PATIENCE
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


@test(backends=OPEN)
def neither_init_nor_a_reaper_can_be_looked_into_or_changed():
    with Sandbox(here()) as s:
        r = s.run(1, script("look.py", LOOK))
        assert (r["outcome"], r["exit_code"], r["stdout"], r["stderr"]) == ("exited", 0, "fds [0, 1, 2]\n", ""), r


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
    with Sandbox(here(), "limits.pids=600") as s:
        for number in range(1, 257):
            r = s.run(number, "sleep 600 > /dev/null 2>&1 &")
            assert r["outcome"] == "exited", r
        for number in (257, 258, 259):
            r = s.run(number, "true")
            assert r["outcome"] == "refused" and "at most 256 commands" in r["error"]["what"], r
        s.say("turn 50")
        assert len([n for n in guests() if n.startswith("sleep")]) == 256
        pid = next(pid for pid, n in descendants().items() if n.startswith("sleep"))
        os.kill(pid, signal.SIGKILL)
        s.say("turn 200")
        r = s.run(270, "echo room")
        assert (r["outcome"], r["stdout"]) == ("exited", "room\n"), r
        assert s.say("close")["outcome"] == "exited" and not guests()


if __name__ == "__main__":
    sys.exit(main())
