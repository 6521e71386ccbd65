# SPDX-License-Identifier: Apache-2.0
"""A sandbox that a brig on the other side of ssh keeps open: who may speak with it, and what ends it. test_two.py has what it must do."""

import concurrent.futures
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import resource
import signal
import socket
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
    return [pid for pid, name in descendants().items() if name == "brig-hold"]


def there():
    """What runs of it on the other side."""
    return [n for n in descendants().values() if n in ("brig-hold", "brig-attach", "brig-init", "brig-reaper", "sleep", "python3.13", "python3.11")]


def sockets():
    return list((state() / "brig/hold").iterdir())


def nothing_is_left():
    assert wait_until(lambda: not there()), there()
    assert not sockets(), sockets()


def ended(r):
    return r["outcome"], r["exit_code"]


def as_caller(*argv, before=(), **more):
    """A program of this test's identity on the other side, beside the sandbox."""
    line = brig_argv()
    line = [*line[:line.index(str(brig_path()))], *before, *argv]
    with files_as_root():
        return subprocess.run(line, env=brig_environment(PLAIN), capture_output=True, timeout=30 * PATIENCE, check=False, **more)


def attach(name, number, *argv, before=()):
    """What a command's session runs; its report."""
    report = scratch() / "report"
    done = as_caller("/bin/sh", "-c", 'exec 3> "$0"; exec "$@"', report, brig_path(), "_attach", name, str(number), "exec", "0", "0", "0", "", "0", *argv,
                     before=before)
    assert report.exists() and report.read_text(), done
    return done.stdout.decode(), json.loads(report.read_text())


REACH = """
import os, socket, sys
path, found = sys.argv[1], []
for at in (path, '/proc/1/root' + path, '/proc/self/cwd/' + os.path.relpath(path)):
    for kind in (socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
        s = socket.socket(socket.AF_UNIX, kind)
        try:
            s.connect(at)
            found.append(at)
        except OSError:
            pass
for line in open('/proc/net/unix'):
    if 'hold' in line:
        found.append(line)
print(found, [n for n in os.environ if n.startswith(('BRIG_RUN', '_b'))])
"""


@test
def nothing_inside_reaches_the_one_who_keeps_the_sandbox():
    (workspace() / "reach.py").write_text(REACH)
    with held() as s:
        [at] = sockets()
        assert s.run(1, f"python3 reach.py {at}")["stdout"] == "[] []\n"
        # The control: whoever may log in there speaks with it by the same name.
        out, report = attach(at.name, 2000, "/bin/echo", "reached")
        assert (out, report["outcome"]) == ("reached\n", "exited"), (out, report)
        assert oct(at.parent.stat().st_mode & 0o777) == "0o700"
        assert ended(s.run(2, "true")) == ("exited", 0)


@test(as_user="root")
def who_lives_in_another_namespace_is_not_listened_to():
    """As if the socket had been shown inside."""
    with held() as s:
        [at] = sockets()
        for before in (["unshare", "--pid", "--fork"], ["unshare", "--user", "--map-root-user"]):
            out, report = attach(at.name, 2000, "/bin/sh", "-c", ": > reached", before=before)
            assert report["outcome"] == "refused" and not (workspace() / "reached").exists(), (before, report)
        assert attach(at.name, 2000, "/bin/sh", "-c", ": > reached")[1]["outcome"] == "exited"  # the control
        assert (workspace() / "reached").exists() and ended(s.run(1, "true")) == ("exited", 0)


@test
def a_command_forges_no_end_and_no_report():
    """It has no number of any session, and its output is no session's own."""
    lie = json.dumps({"schema": 1, "outcome": "exited", "exit_code": 0, "denials": [], "isolation": {"landlock_abi": 77}})
    with held() as s:
        name = sockets()[0].name
        (workspace() / "lie.py").write_text(
            "import os, sys\n"
            f"numbers = [{name!r}, '0' * 32, '']\n"
            "for fd in [1, 2, *range(3, 64)]:\n"
            "    for number in numbers:\n"
            "        for word in ('S 7', 'E 0', 'J ' + sys.argv[1]):\n"
            "            try: os.write(fd, ('\\x1e%s %s\\n' % (number, word)).encode())\n"
            "            except OSError: pass\n"
            "os._exit(7)\n")
        r = s.run(1, f"python3 lie.py '{lie}'")
        assert ended(r) == ("exited", 7) and r["isolation"]["landlock_abi"] != 77, r
        assert r["stderr"].count("\x1e") == r["stdout"].count("\x1e") == 9, r  # all of it is output
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
        assert attach(sockets()[0].name, 2000, "/bin/echo", "beside")[0] == "beside\n"
        r = s.say("close")
        assert r["outcome"] == "exited" and not r["denials"], r  # one says that it took too long
        assert s.wait(1)["outcome"] == "cancelled"


def ticks(pid):
    """Of the processor, which a process has used."""
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(words[11]) + int(words[12])


@test
def at_the_close_last_words_reach_a_late_reader_and_nothing_spins():
    """One second is theirs. The reader here takes nothing until the close has begun, and then all there is."""
    size = 100000  # more than the reader's pipe has room for, less than that and the command's have
    with held() as s:
        line = brig_argv()
        line = [*line[:line.index(str(brig_path()))], "/bin/sh", "-c", 'exec 3> /dev/null; exec "$@"', "sh", brig_path(), "_attach", sockets()[0].name, "2000",
                "exec", "0", "0", "0", "", "0", "/bin/sh", "-c", f"head -c {size} /dev/zero; : > said; exec sleep 100"]
        with files_as_root():
            p = subprocess.Popen(line, env=brig_environment(PLAIN), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert wait_until((workspace() / "said").exists), "the control: all of it is on the way"
        (hold,) = holds()
        before = ticks(hold)
        s.process.stdin.write(b"close\n")
        s.process.stdin.flush()
        time.sleep(0.3)
        used = (ticks(hold) - before) / os.sysconf("SC_CLK_TCK")
        got = len(p.stdout.read())
        p.wait(20 * PATIENCE)
        assert got == size, (got, size)
        assert used < 0.15, used
        assert json.loads(s.process.stdout.read(int(s.process.stdout.readline())))["outcome"] == "exited"


@test(as_user="root")
def without_descriptors_a_caller_waits_and_nothing_spins():
    with held() as s:
        (hold,) = holds()
        was = resource.prlimit(hold, resource.RLIMIT_NOFILE)
        resource.prlimit(hold, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{hold}/fd")), was[1]))
        with concurrent.futures.ThreadPoolExecutor() as beside:
            answer = beside.submit(attach, sockets()[0].name, 2000, "/bin/echo", "later")
            time.sleep(0.1)
            before = ticks(hold)
            time.sleep(0.4)
            used = (ticks(hold) - before) / os.sysconf("SC_CLK_TCK")
            assert not answer.done(), "the control: it has to wait"
            resource.prlimit(hold, resource.RLIMIT_NOFILE, was)
            assert answer.result()[0] == "later\n"
        assert used < 0.15, used
        assert ended(s.run(1, "true")) == ("exited", 0)


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
        assert not sockets()


@test
def one_that_was_killed_ends_all_and_the_next_removes_its_socket():
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
        assert s.say("close")["outcome"] in ("failed", "exited") and len(sockets()) == 1  # whichever was heard of first
        s.process.stdin.close()
        assert s.process.wait(20 * PATIENCE) == 0
        with Sandbox("ssh", *settings(host), folder=False, env=PLAIN) as s:
            assert len(sockets()) == 1 and ended(s.run(1, "true")) == ("exited", 0)
        nothing_is_left()


@test
def one_that_hears_nobody_holds_no_other_up():
    """A newcomer looks for sockets of the dead: at one that is alive and takes no call it does not wait."""
    with held() as s:
        path = str(sockets()[0].parent / "0123")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as deaf, contextlib.ExitStack() as calls:
            deaf.bind(path)
            deaf.listen(0)
            with contextlib.suppress(BlockingIOError):
                while True:
                    c = calls.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK))
                    c.connect(path)
            with Sandbox("ssh", *settings(s.host), folder=False, env=PLAIN) as second:
                assert ended(second.run(1, "exit 3")) == ("exited", 3)
            assert os.path.exists(path), "it is alive"
        os.unlink(path)


LIES = {
    "exit 125": "is too old to keep a sandbox open",
    "echo '{}'; sleep 100": "does not say what the sandbox is like",
    "echo nonsense; sleep 100": "does not say what the sandbox is like",
    "while :; do printf '%65536s' x; done": "says more of its sandbox than is read",
    "echo '{\"outcome\":\"refused\",\"error\":{\"code\":\"policy\",\"what\":\"not today\"}}' >&3": "on 'box': not today",
    "exec 1>&-; exit 3": "is too old",
}


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
        for lie, words in LIES.items():
            (other / "brig").write_text(f"#!/bin/sh\n[ \"$1\" != version ] || {{ echo '{version}'; exit; }}\n[ \"$1\" = _hold ] || exit 9\n{lie}\n")
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
