# SPDX-License-Identifier: Apache-2.0
"""A sandbox that a brig on the other side of ssh keeps open: who may speak with it, and what ends it. test_two.py has what it must do."""

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import resource
import signal
import struct
import subprocess
import sys
import termios
import time

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "lib")]

import sshd
from backends import kill_sshd
from daemon import daemon
from daemon_commands import works
from harness import PATIENCE, brig, brig_argv, brig_environment, brig_path, descendants, files_as_root, main, scratch, start_brig, state, test, wait_until, workspace
from open_sandbox import Sandbox

PLAIN = {"BRIG_BACKEND": None}


def settings(host, *more):
    return ["ssh.host=box", f"ssh.config_file={host.config}", "ssh.control_persist=30s", f"ssh.remote_cwd={workspace()}", "ssh.remote=brig", *more]


@contextlib.contextmanager
def held(*more):
    """A host, and a sandbox that is kept open there."""
    with sshd.Sshd() as host:
        with Sandbox("ssh", *settings(host, *more), folder=False, env=PLAIN) as s:
            s.host = host
            yield s
        nothing_is_left()


def holds():
    return [pid for pid, name in descendants().items() if name == "brig-far"]


def there():
    """What runs of it on the other side."""
    return [n for n in descendants().values() if n in ("brig-far", "brig-init", "brig-reaper", "sleep", "python3.13", "python3.11")]


def nothing_is_left():
    assert wait_until(lambda: not there()), there()
    assert not (state() / "brig/hold").exists()  # no socket, and no folder for one


def ended(r):
    return r["outcome"], r["exit_code"]


def as_caller(*argv):
    """A program of this test's identity on the other side, beside the sandbox."""
    line = brig_argv()
    line = [*line[:line.index(str(brig_path()))], *argv]
    with files_as_root():
        return subprocess.run(line, env=brig_environment(PLAIN), capture_output=True, text=True, timeout=30 * PATIENCE, check=False)


KINDS = {"data": 1, "end": 2, "credit": 4, "said": 11, "ready": 19, "report": 20, "began": 21, "ended": 22}


def frame(kind, payload=b"", command=0, channel=0):
    """As src/far/frames.h has it."""
    return struct.pack("=IIBBH", len(payload), command, KINDS[kind], channel, 0) + payload


REACH = """
import os
found = []
for pid in filter(str.isdigit, os.listdir('/proc')):
    try:
        if open(f'/proc/{pid}/comm').read() == 'brig-far\\n':
            found.append(bool(os.readlink(f'/proc/{pid}/fd/0')))
    except OSError:
        pass
print(found, [n for n in os.environ if n.startswith(('BRIG_RUN', '_b'))])
"""


@test
def nothing_inside_reaches_the_one_who_keeps_the_sandbox():
    (workspace() / "reach.py").write_text(REACH)
    with held() as s:
        assert s.run(1, "python3 reach.py")["stdout"] == "[] []\n"
        # The control: whoever is that user over there finds it, and the line it speaks by.
        done = as_caller(sys.executable, workspace() / "reach.py")
        assert "True" in done.stdout, done
        assert ended(s.run(2, "true")) == ("exited", 0)


@test
def a_command_forges_no_end_and_no_report():
    """Its output is no line of anybody's: neither a word of the wrapper's nor a frame."""
    lie = json.dumps({"schema": 1, "outcome": "exited", "exit_code": 0, "denials": [], "isolation": {"landlock_abi": 77}})
    frames = b"".join(frame("report", lie.encode(), n) + frame("ended", b"", n) for n in (0, 1, 2))
    (workspace() / "frames").write_bytes(frames)
    with held() as s:
        (workspace() / "lie.py").write_text(
            "import os, sys\n"
            "numbers = ['0' * 32, 'f' * 32, '']\n"
            "frames = open('frames', 'rb').read()\n"
            "for fd in [1, 2, *range(3, 64)]:\n"
            "    for number in numbers:\n"
            "        for word in ('S 7', 'E 0', 'J ' + sys.argv[1]):\n"
            "            try: os.write(fd, ('\\x1e%s %s\\n' % (number, word)).encode())\n"
            "            except OSError: pass\n"
            "    try: os.write(fd, frames)\n"
            "    except OSError: pass\n"
            "os._exit(7)\n")
        r = s.run(1, f"python3 lie.py '{lie}'")
        assert ended(r) == ("exited", 7) and r["isolation"]["landlock_abi"] != 77, r
        assert r["stderr"].count("\x1e") == r["stdout"].count("\x1e") == 9, r  # all of it is output
        assert r["stdout"].count(lie) == 3 + 3, r
        assert ended(s.run(2, "exit 3")) == ("exited", 3)
        r = s.say("close")
        assert r["outcome"] == "exited" and r["isolation"]["landlock_abi"] != 77, r


AWAY = """
import os, signal, time
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError): pass
for _ in range(2):
    if os.fork(): os._exit(0)
    os.setsid()
for i in range(10 ** 9):
    with open('beat', 'w') as f: f.write(str(i))
    time.sleep(0.02)
"""


@test
def what_a_command_left_running_does_not_outlive_the_close():
    (workspace() / "away.py").write_text(AWAY)
    beats = lambda: (workspace() / "beat").read_text() if (workspace() / "beat").exists() else ""
    with held() as s:
        assert ended(s.run(1, "exec python3 away.py < /dev/null > /dev/null 2>&1")) == ("exited", 0)
        first = wait_until(beats)
        assert first and wait_until(lambda: beats() not in ("", first)), "the control: it lives on behind its command"
        assert s.say("close")["outcome"] == "exited"
        assert wait_until(lambda: not there()), there()
        last = beats()
        assert not wait_until(lambda: beats() != last, 0.05)


@test
def output_that_nobody_reads_holds_up_neither_another_command_nor_the_close():
    with held() as s:
        s.start(1, ": > one; exec yes")  # is turned only now and then
        assert wait_until((workspace() / "one").exists)
        time.sleep(0.3)
        assert s.run(2, "echo beside")["stdout"] == "beside\n"
        r = s.say("close")
        assert r["outcome"] == "exited" and not r["denials"], r  # one says that it took too long
        assert s.wait(1)["outcome"] == "cancelled"


@test
def one_session_has_all_of_it():
    """Commands, signals and what they print: no further login, no further process over there."""
    with held() as s:
        logins = lambda: sorted(pid for pid, name in descendants(s.host.process.pid).items() if name.startswith("sshd"))
        before = logins()
        s.start(1, "trap 'echo got; exit 4' TERM; : > one; while :; do sleep 0.05; done")
        s.start(2, ": > two; exec sleep 100")
        s.until("one")
        s.until("two")
        assert logins() == before and len(holds()) == 1, (before, logins())
        s.say("cancel 1")
        assert s.wait(1)["outcome"] == "cancelled" and logins() == before
        assert ended(s.run(3, "echo beside")) == ("exited", 0)


def ticks(pid):
    """Of the processor, which a process has used."""
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(words[11]) + int(words[12])


@test
def at_the_close_last_words_reach_a_late_reader_and_nothing_spins():
    """The reader here takes nothing until the close has begun, and then all there is."""
    size = 60000  # what the reader's pipe has room for
    with held() as s:
        s.start(1, f"head -c {size} /dev/zero; : > said; exec sleep 100")
        assert wait_until((workspace() / "said").exists), "the control: all of it is on the way"
        (hold,) = holds()
        before = ticks(hold)
        time.sleep(0.3)
        used = (ticks(hold) - before) / os.sysconf("SC_CLK_TCK")
        assert used < 0.15, used
        assert s.say("close")["outcome"] == "exited"
        assert len(s.wait(1)["stdout"]) == size


@test(as_user="root")
def without_descriptors_a_command_is_refused_and_the_sandbox_stays():
    with held() as s:
        (hold,) = holds()
        was = resource.prlimit(hold, resource.RLIMIT_NOFILE)
        resource.prlimit(hold, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{hold}/fd")), was[1]))
        r = s.run(1, "true")
        assert r["outcome"] == "refused" and "Too many open files" in r["error"]["what"], r
        resource.prlimit(hold, resource.RLIMIT_NOFILE, was)
        assert ended(s.run(2, "true")) == ("exited", 0)


@test
def the_loss_of_the_connection_ends_the_sandbox():
    with sshd.Sshd() as host:
        s = Sandbox("ssh", *settings(host), folder=False, env=PLAIN)
        assert s.opened == "ok", s.opened
        s.start(1, "setsid sleep 100 & : > one; sleep 100")
        s.until("one")
        kill_sshd(host)
        assert wait_until(lambda: not there()), there()
        assert s.wait(1)["outcome"] == "failed"
        r = s.say("close")
        assert r["outcome"] == "failed" and "connection to 'box' was lost" in r["error"]["what"], r
        s.process.stdin.close()
        assert s.process.wait(20 * PATIENCE) == 0
        nothing_is_left()


@test
def one_that_was_killed_ends_all():
    with sshd.Sshd() as host:
        s = Sandbox("ssh", *settings(host), folder=False, env=PLAIN)
        assert s.opened == "ok", s.opened
        s.start(1, ": > one; sleep 100")
        s.until("one")
        [pid] = holds()
        os.kill(pid, signal.SIGKILL)
        r = s.wait(1)
        assert r["outcome"] in ("failed", "refused") and r["error"]["what"], r
        assert wait_until(lambda: not there()), there()
        r = s.say("close")
        assert r["outcome"] == "failed" and "ended without a report" in r["error"]["what"], r
        s.process.stdin.close()
        assert s.process.wait(20 * PATIENCE) == 0
        with Sandbox("ssh", *settings(host), folder=False, env=PLAIN) as s:  # tidies up behind it
            assert ended(s.run(1, "true")) == ("exited", 0)
        nothing_is_left()


LIES = (
    ("exit 125", b"", "is too old to keep a sandbox open"),
    ("exec 1>&-; exit 3", b"", "is too old"),
    ("sleep 100", b"nonsense, and no frames\n", "does not say what the sandbox is like"),
    ("sleep 100", frame("ready", b"{}") + frame("report", b"{}") + frame("began"), "does not say what the sandbox is like"),
    ("sleep 100", frame("report", b"x" * 16384) * 2500, "does not say what the sandbox is like"),  # more than is kept
    ("sleep 100", frame("said", b"x" * 16), "does not say what the sandbox is like"),  # a word of another line's
    ("sleep 100", frame("ended"), "was not opened"),
    ("sleep 100", frame("report", b'{"outcome":"refused","error":{"code":"policy","what":"not today"}}') + frame("ended"), "on 'box': not today"),
)


@test
def a_brig_that_is_too_old_or_lies_is_refused_by_name():
    other = scratch() / "bin"
    other.mkdir()
    version = subprocess.run([brig_path(), "version"], capture_output=True, text=True, check=True).stdout.strip()
    with sshd.Sshd() as host:
        text = (host.folder / "server").read_text()
        host.stop()
        (host.folder / "server").write_text("\n".join(f"SetEnv PATH={other}:{sshd.PATH}" if line.startswith("SetEnv") else line for line in text.splitlines()) + "\n")
        host.start()
        for lie, said, words in LIES:
            (other / "said").write_bytes(said)
            (other / "brig").write_text(f"#!/bin/sh\n[ \"$1\" != version ] || {{ echo '{version}'; exit; }}\n[ \"$1\" = _far ] || exit 9\ncat {other}/said\n{lie}\n")
            (other / "brig").chmod(0o755)
            s = Sandbox("ssh", *settings(host), folder=False, env=PLAIN)
            assert s.opened.startswith("error ") and words in s.opened, (lie, s.opened)
            s.process.stdin.close()
            assert s.process.wait(20 * PATIENCE) == 1
        assert wait_until(lambda: "sleep" not in there()), there()


# ---- through the daemon ----


def spec(host):
    return {"host": "box", "config_file": str(host.config), "control_persist": "30s", "remote_cwd": str(workspace()), "remote": "brig"}


@test
def the_daemon_has_such_sandboxes_too():
    with sshd.Sshd() as host, daemon() as d:
        works(d, "ssh", lambda name: [n for n in descendants(host.process.pid).values() if n == name], ssh=spec(host))
        box = d.create(spec={"backend": "ssh", "ssh": spec(host)})["id"]
        a = d.call("POST", f"/v1/sandboxes/{box}/pause")
        assert a.status == 501 and "backend 'ssh' cannot be paused" in a.body.decode(), a
        assert d.call("DELETE", f"/v1/sandboxes/{box}").status == 204
        nothing_is_left()


@test
def a_terminal_there_has_a_size_that_follows_and_takes_keys():
    with sshd.Sshd() as host, daemon() as d:
        made = brig("sandbox", "create", "--name", "far", *host.options("--set", "ssh.remote=brig", "--set", f"ssh.remote_cwd={workspace()}"), env=d.environment)
        assert made.status == 0, made.errors
        box = "far"
        here, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        line = "test -t 0 && test -t 1 && test -t 2 && stty size; while [ \"$(stty size)\" = '30 100' ]; do sleep 0.05; done; stty size; read x; echo got $x; exec tail -f /dev/null"
        p = start_brig("sandbox", "exec", "-t", box, "--", "sh", "-c", line, env=d.environment, stdin=other, stdout=other, stderr=other)
        got = b""

        def until(word):
            nonlocal got
            while word not in got:
                got += os.read(here, 4096)

        until(b"30 100")
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        p.send_signal(signal.SIGWINCH)
        until(b"40 120")
        os.write(here, b"hello\r")
        until(b"got hello")
        assert wait_until(lambda: "tail" in descendants().values())  # a shell that is about to start it may lose the key
        os.write(here, b"\x03")
        assert p.wait(20 * PATIENCE) == 130, got
        os.close(other)
        os.close(here)
        assert brig("sandbox", "delete", box, env=d.environment).status == 0
        nothing_is_left()


if __name__ == "__main__":
    sys.exit(main())
