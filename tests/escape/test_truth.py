#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A command that lies about itself: denials it wants to hide, a start that it wants to deny, words it wants unread.

What the guest can make up without end (names, hosts, methods, escapes) must not decide what the result, the record and
the terminal say of it. The oracles are the result, the record read by a reader of its own, and bytes on a terminal."""

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import re
import resource
import signal
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import record  # noqa: E402
from harness import PATIENCE, brig, descendants, main, scratch, shown_on, start_brig, state, test, uid, wait_until, workspace  # noqa: E402

PLANT = """
open('.bashrc', 'w').write('evil')
open('.envrc', 'w').write('evil')
"""
ASK = """
import socket
def ask(host, method='GET', more=b''):
    s = socket.create_connection(('198.19.255.253', 3128), timeout=20)
    s.sendall(b'%s http://%s/ HTTP/1.1\\r\\nHost: %s\\r\\n%s\\r\\n' % (method.encode(), host.encode(), host.encode(), more))
    s.recv(100)
    s.close()
"""


def log():
    return record.folder(state())


def door(**egress):
    path = scratch() / "door.yaml"
    path.write_text(json.dumps({"brig": 1, "network": "proxy", "egress": {"allow": ["api.test"], **egress}}))
    return path


def behind(code, **egress):
    done = brig("run", "--json", "--config", door(**egress), "--", "python3", "-c", ASK + code)
    assert done.json["outcome"] == "exited" and done.json["exit_code"] == 0, done
    return done


def listed(result, kind):
    return [d for d in result["denials"] if d["kind"] == kind]


def planted(done):
    """Both planted files are told of in the result, on stderr and on the record; and moved away."""
    names = {".bashrc", ".envrc"}
    assert {d["target"] for d in listed(done.json, "protected-path")} >= names, done.json["denials"][-5:]
    told = [r for r in record.verified(log()) if r["type"] == "access.deny" and r["run"] == done.json["id"]]
    assert {r["target"] for r in told} >= names, told[-5:]
    for name in names:
        assert name in done.errors, done.errors[-2000:]
        assert not (workspace() / name).exists()


# ---- denials that are to be hidden behind others ----


@test
def many_refused_hosts_hide_no_planted_file():
    few = behind("for n in range(3): ask('h%d.test' % n)\n" + PLANT)  # the control: nothing to hide behind
    planted(few)
    assert len(listed(few.json, "network")) == 3 and few.json["denials_dropped"] == {}
    many = behind("for n in range(300): ask('h%d.test' % n)\n" + PLANT)
    planted(many)
    assert len(listed(many.json, "network")) == 256 and many.json["denials_dropped"] == {"network": 44}
    assert many.json["egress"]["denied"] == 300


@test
def many_refused_requests_hide_no_leak():
    token = "gh" + "p_" + "0123456789abcdefghijABCDEFGHIJ012345"
    flood = "for n in range(300): ask('h%d.test' % n)\n"
    leak = f"ask('api.test', more=b'X-Note: {token}\\r\\n')\n"
    done = behind(flood + leak, allow=["api.test:80"], https_only=False, resolve={"api.test": "127.0.0.1:9"})
    assert [d["target"] for d in listed(done.json, "network") if d["reason"].startswith("leak")] == ["api.test:80"], done.json["denials"][-2:]
    assert [r["host"] for r in record.verified(log()) if r["type"] == "leak.block"] == ["api.test"]
    assert token not in done.text + done.errors


@test
def invented_methods_hide_no_other_host():
    done = behind("for n in range(300): ask('closed.test', 'M%d' % n)\nask('evil.test')\n" + PLANT)
    planted(done)
    network = listed(done.json, "network")
    assert "evil.test:80" in {d["target"] for d in network}, network
    counted = sum(d.get("count", 1) for d in network) + done.json["denials_dropped"].get("network", 0)
    assert counted == 301 and len(network) < 16, (counted, len(network))
    written = [r for r in record.verified(log()) if r["type"] == "egress.deny"]
    assert "evil.test" in {r["host"] for r in written} and len(written) <= 260, len(written)


@test
def the_same_refusal_a_thousand_times_is_one_with_a_count():
    done = behind("for n in range(1000): ask('closed.test')\n" + PLANT)
    planted(done)
    (one,) = listed(done.json, "network")
    assert (one["target"], one["count"]) == ("closed.test:80", 1000), one
    records = [r for r in record.verified(log()) if r["type"] in ("egress.deny", "log.summary")]
    assert len(records) < 50, len(records)
    assert sum(r.get("count", 1) for r in records) == 1000, records


@test
def a_thousand_planted_names_hide_no_other():
    """Names of the same kind: each up to a thousand, then by folder, and the record has them all."""
    many = brig("run", "--json", "--", "python3", "-c", """
import os
os.system('git init -q . && rm -rf .git/hooks && mkdir .git/hooks')
for n in range(1100):
    open('.git/hooks/h%d' % n, 'w').write('#!/bin/sh\\n')
""" + PLANT)
    assert many.json["outcome"] == "exited", many
    targets = {d["target"] for d in listed(many.json, "protected-path")}
    told = [r for r in record.verified(log()) if r["run"] == many.json["id"] and r["type"] == "access.deny"]
    assert {r["target"] for r in told} == targets, (len(told), len(targets))
    assert ".bashrc" in targets or "./" in targets, sorted(targets)[:5]
    counted = sum(d.get("count", 1) for d in many.json["denials"]) + sum(many.json["denials_dropped"].values())
    assert counted > 1100 or {".git", ".git/hooks"} & targets, counted  # each, or all of them as one
    assert not (workspace() / ".bashrc").exists() and not list((workspace() / ".git").glob("hooks/h*"))
    assert len(many.errors.splitlines()) < 200, len(many.errors.splitlines())


@test
def a_thousand_changed_files_hide_no_other_kind():
    """Of each kind some are named; packages of npm's own folder are not, or every installation would name hundreds."""
    done = brig("run", "--json", "--", "python3", "-c", """
import os
for i in range(300):
    os.makedirs(f'node_modules/p{i}'); open(f'node_modules/p{i}/package.json', 'w').write('{}')
    os.makedirs(f'd{i}'); open(f'd{i}/package.json', 'w').write('{}'); open(f'd{i}/.npmrc', 'w').write('')
os.makedirs('z'); open('z/AGENTS.md', 'w').write('x'); open('z/tasks.code-workspace', 'w').write('{}')
""")
    paths = [c["path"] for c in done.json["changed_trust"]]
    assert {"z/AGENTS.md", "z/tasks.code-workspace"} <= set(paths) and not [p for p in paths if "node_modules" in p], paths
    assert sum(p.endswith("package.json") for p in paths) == sum(p.endswith(".npmrc") for p in paths) == 16, paths
    assert done.json["changed_trust_more"] == 2 * (300 - 16), done.json["changed_trust_more"]
    assert "z/AGENTS.md" in done.errors and "z/tasks.code-workspace" in done.errors, done.errors


@test
def names_with_controls_are_cleaned_wherever_they_are_told():
    evil = ".envrc"  # and below it names that would paint, move and reverse
    done = brig("run", "--json", "--", "python3", "-c", f"""
import os
os.makedirs('{evil}')
os.system('git init -q .')
os.makedirs('.git/hooks', exist_ok=True)
for name in ('a\\x1b[8mb', 'a\\x1b]0;t\\x07b', 'a\\u202eb', 'a\\u009b8mb', 'a\\nbrig: all is well', 'a\\rb', 'a\\x7fb'):
    open('.git/hooks/' + name, 'w').write('x')
""")
    run = done.json["id"]
    said = [done.errors, brig("audit", "show", run).text, brig("audit", "list").text, brig("audit", "show", run, "--json").text,
            brig("audit", "list", "--json").text, brig("doctor").text]
    assert "hooks" in said[0] and "hooks" in said[2], said
    for text in said:
        bad = [c for c in text if (ord(c) < 32 and c != "\n") or 0x7f <= ord(c) < 0xa0 or 0x202a <= ord(c) <= 0x202e or 0x2066 <= ord(c) <= 0x2069]
        assert not bad, (bad, text)
        assert "\nbrig: all is well" not in text



CONTROLS = re.compile("[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069]")


@test
def what_a_hostile_file_says_is_cleaned_wherever_it_is_quoted():
    """The words of a project's file, told by the command line, the doctor and the checker."""
    said = []
    for text in ('brig: 1\n"a\\x1b[8mb": 1\n', 'brig: 1\npolicy: "x\\e]0;t\\a"\n', 'brig: 1\nread: ["/no/\\u009b8m\\u202e"]\n',
                 'brig: 1\n"limits\\n\\nbrig: all is well": 1\n', 'brig: 1\nbackend: "\\x7f\\x0d"\n'):
        (workspace() / ".brig.yaml").write_text(text)
        for args in (("run", "--", "true"), ("doctor",), ("config", "check", ".brig.yaml"), ("allow",)):
            done = brig(*args)
            said.append((text, args, done.text + done.errors))
    (workspace() / ".brig.yaml").unlink()
    named = workspace() / "a\u202e.yaml"
    named.write_text("brig: 1\n")
    said.append((named.name, "config check", brig("config", "check", named.name).text))
    assert "ok" in said[-1][2], said[-1]
    assert sum("x?]0;t?" in words for _, _, words in said) >= 2, said  # it is quoted at all
    for text, args, words in said:
        assert not CONTROLS.search(words) and "\nbrig: all is well" not in words, (text, args, words)


# ---- a run that ran says so ----

IN_FLIGHT = """
import array, os, socket, sys, time
fd, keep, sent = os.open('/dev/null', os.O_RDONLY), [], 0
try:
    while sent < 6000:
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        keep.append((a, b))
        try:
            for _ in range(8):
                a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [fd] * 250))], socket.MSG_DONTWAIT)
                sent += 250
        except BlockingIOError:
            pass
except OSError as e:
    print('stopped', e.errno, end=' ')
print('sent', sent, flush=True)
time.sleep(float(sys.argv[1]))
"""
SEND = """
import array, socket
a, b = socket.socketpair()
a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0]))])
print('sent')
"""


def limited(*args, soft, hard):
    """brig as a login of such limits has it."""
    return start_brig(*args, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))


def another_program_can_send(soft):
    """One of the same user's, on the host."""
    done = subprocess.run(["setpriv", f"--reuid={uid()}", f"--regid={uid()}", "--clear-groups", "--inh-caps=-all", "--", sys.executable, "-c", SEND],
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, soft)), capture_output=True, text=True, check=False)
    assert done.stdout == "sent\n" or "Too many references" in done.stderr, done
    return done.stdout == "sent\n"


@contextlib.contextmanager
def holding(*options):
    """A run that keeps as many descriptors on their way as it can; how many."""
    p = limited("run", *options, "--pids", "20", "--", "python3", "-c", IN_FLIGHT, "60", soft=1024, hard=8192)
    try:
        line = p.stdout.readline().decode().split()
        assert line[-2:-1] == ["sent"], (line, p.stderr.read() if not line else "")
        yield int(line[-1])
    finally:
        p.terminate()
        p.communicate(timeout=20 * PATIENCE)


@test(as_user="user", alone=True)
def descriptors_on_their_way_stop_no_other_run_and_no_lie_comes_of_it():
    assert another_program_can_send(1024)
    with holding() as sent:
        assert sent > 1024 and not another_program_can_send(1024), sent  # the control: asked for, they are used up
        p = limited("run", "--json", "--", "sh", "-c", "echo ran > marker", soft=1024, hard=8192)
        out, err = p.communicate(timeout=20 * PATIENCE)
        assert p.returncode == 0 and (workspace() / "marker").read_text() == "ran\n", (out, err)
        (workspace() / "marker").unlink()
        # Where there is no more to be had the run fails before it begins, and says so.
        p = limited("run", "--json", "--", "sh", "-c", "echo ran > marker", soft=1024, hard=1024)
        out, err = p.communicate(timeout=20 * PATIENCE)
        assert p.returncode == 125 and json.loads(out)["outcome"] == "failed", (out, err)
        assert "descriptors" in json.loads(out)["error"]["what"], out
    assert not (workspace() / "marker").exists()
    ends = {r["run"]: r["started"] for r in record.verified(log()) if r["type"] == "sandbox.exec"}
    assert ends[json.loads(out)["id"]] is False and list(ends.values()).count(True) == len(ends) - 1, ends


@test(as_user="user", alone=True)
def what_a_run_has_on_its_way_leaves_room_for_the_users_other_programs():
    """Under the strict profile; by default for brig alone."""
    with holding("--profile", "strict") as sent:
        assert 0 < sent <= 1024 and another_program_can_send(1024), sent
        with holding("--profile", "strict") as more:  # it is one count for all of them
            assert more <= 256 and another_program_can_send(1024), (sent, more)


@contextlib.contextmanager
def leased(path):
    """Whoever executes the file waits, and we are told that somebody does; yields how to wait for that."""
    fd = os.open(path, os.O_RDWR)
    signal.signal(signal.SIGIO, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield lambda: signal.sigtimedwait([signal.SIGIO], 20 * PATIENCE)
    finally:
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        os.close(fd)


def slow_command():
    """A program of its own, so that nobody else waits for it."""
    path = workspace() / "slow"
    path.write_bytes(pathlib.Path("/bin/true").read_bytes())
    path.chmod(0o755)
    return path


def the_end(run=None):
    ends = [r for r in record.verified(log()) if r["type"] == "sandbox.exec" and run in (None, r["run"])]
    return ends[-1]


@test
def a_sandbox_that_dies_with_the_command_on_its_way_has_run():
    """Killed between the last word before the command and the first after it."""
    with leased(slow_command()) as somebody_executes:
        p = start_brig("run", "--json", "--", "./slow")
        assert somebody_executes()
        (init,) = [pid for pid, name in descendants(p.pid).items() if name == "brig-init"][:1]
        os.kill(init, signal.SIGKILL)
    out, err = p.communicate(timeout=20 * PATIENCE)
    said = json.loads(out)
    assert (said["outcome"], p.returncode) == ("failed", 125) and said["error"], (out, err)
    assert the_end(said["id"])["started"] is True and "pid_ns" in the_end(said["id"])["layers"], the_end()


@test
def a_run_given_up_with_the_command_on_its_way_has_run():
    with leased(slow_command()) as somebody_executes:
        p = start_brig("run", "--json", "--", "./slow")
        assert somebody_executes()
        p.send_signal(signal.SIGTERM)
        out, err = p.communicate(timeout=20 * PATIENCE)
    said = json.loads(out)
    assert (said["outcome"], p.returncode) == ("cancelled", 143), (out, err)
    assert the_end(said["id"])["started"] is True, the_end()


@test
def a_command_that_was_not_there_has_not_run():
    for name, status in (("no-such-command", 127), ("/etc/passwd", 126)):
        done = brig("run", "--json", "--", name)
        assert (done.json["outcome"], done.status) == ("refused", status), done.json
        assert the_end(done.json["id"])["started"] is False


@test
def what_a_failed_start_denied_is_kept():
    """Somebody plants a file while the sandbox waits for its record, and then there is no command to run."""
    assert brig("run", "--", "true").status == 0  # makes the record
    head = os.open(log() / "head", os.O_RDWR)
    whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    fcntl.fcntl(head, fcntl.F_OFD_SETLK, whole)
    p = start_brig("run", "--json", "--", "no-such-command")
    wait_until(lambda: "brig-init" in descendants(p.pid).values())
    assert p.poll() is None
    (workspace() / ".bashrc").write_text("evil")
    os.close(head)
    out, err = p.communicate(timeout=20 * PATIENCE)
    said = json.loads(out)
    assert (said["outcome"], p.returncode) == ("refused", 127), (out, err)
    assert not (workspace() / ".bashrc").exists()
    assert [d["target"] for d in said["denials"]] == [".bashrc"] and b".bashrc" in err, (out, err)
    assert [r["target"] for r in record.verified(log()) if r["type"] == "access.deny"] == [".bashrc"]


FORCED = ("--policy", "full_access", "--backend", "none", "--i-know-this-is-not-a-sandbox")
GUARDS = """
import os, signal, sys, time
lower = os.getppid()
upper = int(open('/proc/%d/stat' % lower).read().rpartition(')')[2].split()[1])
"""


@test
def a_command_that_kills_its_guards_does_not_choose_how_it_ended():
    """Without a sandbox it may; the result does not say that the command ended by itself."""
    ways = {"upper": "os.kill(upper, 9)", "lower": "os.kill(lower, 9)", "lower, asked": "os.kill(lower, 15)", "upper, asked": "os.kill(upper, 15)",
            "upper, the lower stopped": "os.kill(lower, 19); os.kill(upper, 9)",
            "lower, asked twice": "os.kill(lower, 1); os.kill(lower, 2)", "both": "os.kill(lower, 19); os.kill(upper, 9); os.kill(lower, 9)"}
    control = brig("run", *FORCED, "--json", "--", "python3", "-c", GUARDS + "os.kill(os.getpid(), 9)")
    assert (control.json["outcome"], control.status) == ("signalled", 137), control.json
    for name, way in ways.items():
        done = brig("run", *FORCED, "--json", "--", "python3", "-c", GUARDS + way + "\ntime.sleep(20)", str(workspace()))
        assert (done.json["outcome"], done.status, done.json["signal"]) == ("failed", 125, None), (name, done.json)
        assert "guard" in done.json["error"]["what"], (name, done.json["error"])
        assert the_end(done.json["id"])["started"] is True, name
        assert name == "both" or not [pid for pid, line in commands().items() if str(workspace()).encode() in line], name


def commands():
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it may be gone, as any process of the machine
            found[pid] = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    return found



# ---- brig's own words, on a terminal that the command has painted ----

HIDE = {
    "concealed": "\\033[8m\\033[30;40m",
    "black on black": "\\033[38;2;0;0;0;48;2;0;0;0m",
    "no cursor": "\\033[?25l\\033[2m",
    "reset and concealed in one": "\\033[0;8m",
    "an unfinished colour": "\\033[8m\\033[0",
    "an unfinished title": "\\033[8m\\033]0;",
    "half a character": "\\033[8m\\342\\234",
    "somewhere else": "\\033[8m\\033[H",
}
STEER = {
    "concealed": "\\033[8m",
    "a title that swallows what follows": "\\033]0;",
    "a device string": "\\033P",
    "the other screen": "\\033[?1049h",
    "line drawing": "\\033(0\\016",
    "a scrolling region of one line": "\\033[1;1r",
    "updates held back": "\\033[?2026h",
    "letters in the background's colour": "\\033]10;#000000\\033\\134\\033]4;7;#000000\\033\\134",
    "mouse and keypad": "\\033[?1003h\\033[?1006h\\033[?2004h\\033=\\033[?1h",
    "no wrapping, origin, insert": "\\033[?7l\\033[?6h\\033[4h",
}
MODES_OFF = (1000, 1002, 1003, 1006, 1004, 2004, 2026, 5, 1)
HOMING = (6, 69)  # origin mode and margins, which move the cursor to the upper left, on and off


class Screen:
    """What of a terminal's state decides whether a letter can be read, from the bytes that reached it."""

    def __init__(self):
        self.painted = self.hidden = self.drawing = self.region = self.other = self.keypad = self.insert = False
        self.palette, self.modes, self.wraps, self.text = set(), set(), True, ""
        self.home, self.saved = False, (False, set())  # is the cursor where a reset has sent it, and what of it was saved

    def escape(self, kind, words):
        if kind == "7":
            self.saved = self.home, self.modes & {6}
        elif kind == "8":
            self.home, origin = self.saved
            self.modes = self.modes - {6} | origin
        if kind in "78":
            return
        self.drawing = words != "B" if kind == "(" else self.drawing
        self.keypad = kind == "=" if kind in "=>" else self.keypad

    def control(self, words, final):
        numbers = [int(x) for x in re.findall("[0-9]+", words)]
        if final == "m" and not words.startswith(">"):
            self.painted = any(numbers)
        elif final == "r":
            self.region = bool(numbers)
            self.home = True
        elif final in "hl":
            on = final == "h"
            for n in numbers:
                self.home |= words.startswith("?") and n in HOMING
                if not words.startswith("?"):
                    self.insert = on if n == 4 else self.insert
                elif n == 25:
                    self.hidden = not on
                elif n == 7:
                    self.wraps = on
                elif n in (47, 1047, 1049):
                    self.other = on
                elif on:
                    self.modes.add(n)
                else:
                    self.modes.discard(n)

    def command(self, text):
        number = text.split(";")[0]
        if number in ("4", "10", "11"):
            self.palette.add(number)
        elif number in ("104", "110", "111"):
            self.palette.discard({"104": "4"}.get(number, number[1:]))

    def feed(self, data):
        text = data.decode(errors="replace")
        part = re.compile(r"\x1b\[([0-9;:?>=!]*)([@-~])|\x1b\]([^\x07\x1b]*)(\x07|\x1b\\|$)|\x1b[P_^X][^\x1b]*(?:\x1b\\|$)|\x1b([()])(.)|\x1b([78=>])|\x1b|(.)", re.S)
        for m in part.finditer(text):
            if m[2]:
                self.control(m[1], m[2])
            elif m[3] is not None:
                self.command(m[3])
            elif m[5]:
                self.escape(m[5], m[6])
            elif m[7]:
                self.escape(m[7], "")
            elif m[8]:
                self.text += m[8]

    def readable(self):
        return not (self.painted or self.hidden or self.drawing or self.region or self.other or self.palette or self.insert or self.keypad
                    or self.modes & set(MODES_OFF)) and self.wraps


def on_terminal(*options, escape, plant=True):
    """What reaches the terminal of a run that paints, and plants a file that brig will speak of."""
    master, slave = pty.openpty()
    code = f"printf 'text{escape}'" + ("; echo evil > .bashrc" if plant else "")
    p = start_brig("run", *options, "--", "sh", "-c", code, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    data = shown_on(master)
    assert p.wait(20 * PATIENCE) == 0, data
    return data


def before_brigs_words(data):
    seen, words, _ = data.partition(b"brig: protected-path")
    assert words, data
    return seen


@test
def brigs_words_are_not_in_the_commands_colours():
    for name, escape in HIDE.items():
        seen = before_brigs_words(on_terminal(escape=escape))
        control, screen = Screen(), Screen()
        control.feed(seen[:seen.rindex(b"\x1b[0m")] if b"\x1b[0m" in seen else seen)
        assert control.painted or control.hidden, (name, seen)  # the control: without the end of it nothing could be read
        screen.feed(seen)
        assert screen.readable() and screen.text.endswith("\n"), (name, seen)
    plain = on_terminal(escape="", plant=False)
    assert plain == b"text", plain  # nothing is added to what needs nothing


@test
def brigs_words_reach_a_terminal_that_the_command_had_for_itself():
    for name, escape in STEER.items():
        seen = before_brigs_words(on_terminal("--tty", escape=escape))
        control, screen = Screen(), Screen()
        control.feed(seen[:seen.index(b"\x1b\\\x1b7")])
        screen.feed(seen)
        assert not control.readable() or "string" in name or "swallows" in name, (name, seen)
        assert screen.readable() and screen.text.endswith("\n"), (name, seen)
        assert screen.home == control.home, (name, seen)  # it goes on where the command was
    assert on_terminal("--tty", escape="", plant=False) == b"text"


@test
def a_terminal_is_given_back_also_when_nobody_speaks_and_when_a_run_is_cut_short():
    screen = Screen()
    screen.feed(on_terminal(escape="\\033[8m\\033[?25l", plant=False))
    assert screen.readable()
    master, slave = pty.openpty()
    p = start_brig("run", "--timeout", "500ms", "--", "sh", "-c", "printf '\\033[8m'; sleep 60", stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    data = shown_on(master)
    assert p.wait(20 * PATIENCE) == 124
    screen = Screen()
    screen.feed(data.partition(b"brig: ")[0])
    assert screen.readable(), data


if __name__ == "__main__":
    sys.exit(main())
