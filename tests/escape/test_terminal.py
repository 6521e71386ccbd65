#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""2.7 of the attack corpus: terminal and output."""

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import select
import shutil
import socket
import subprocess
import sys
import termios
import time
import tty

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import INSIDE, as_identity, inside, mount, program  # noqa: E402
from harness import (IS_ROOT, PATIENCE, brig, brig_argv, brig_environment, descendants, main, start_brig, test, wait_until, workspace)  # noqa: E402

PATHS = ("/dev/tty", "/dev/console", "/dev/tty0", "/dev/tty1", "/dev/vcs", "/dev/vcsa1", "/dev/ttyS0", "/dev/hvc0")


def on_terminal(argv, seconds=20):
    """Run argv on a terminal of its own; returns (status, what it printed, what was typed into the terminal).

    A shell holds the session, as the user's would: with the death of a session's leader all input is lost."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    told, tell = os.pipe()
    wait, go = os.pipe()

    def claim():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    line = f'"$@"; echo $? >&{tell}; read x <&{wait}'
    p = subprocess.Popen(["bash", "-c", line, "bash", *argv], stdin=slave, stdout=slave, stderr=slave, cwd=workspace(), env=brig_environment(),
                         preexec_fn=claim, pass_fds=(tell, wait))
    os.close(tell)
    printed, status, end = b"", b"", time.monotonic() + seconds * PATIENCE
    while time.monotonic() < end:
        ready = select.select([master, told], [], [], 0.02 if status else 1)[0]
        if master in ready:
            printed += os.read(master, 65536)
        elif told in ready and not status:
            status = os.read(told, 16)
        elif status:
            break
    os.set_blocking(slave, False)
    typed = b""
    with contextlib.suppress(OSError):
        termios.tcsetattr(slave, termios.TCSANOW, raw(slave))
        typed = os.read(slave, 4096)
    os.close(go)
    if not status:
        p.kill()
    p.wait()
    for fd in (master, slave, told, wait):
        os.close(fd)
    assert status, f"it never ended: {printed[-300:]!r}"
    return int(status), printed, typed


def raw(fd):
    """Its settings, without line editing: what was typed can be read without a newline."""
    mode = termios.tcgetattr(fd)
    mode[3] &= ~(termios.ICANON | termios.ECHO)
    return mode


@test
def a075_nothing_is_typed_into_the_callers_terminal():
    if IS_ROOT:  # with CAP_SYS_ADMIN it works whatever dev.tty.legacy_tiocsti says
        assert b"PWNED" in on_terminal([str(program("terminal")), "type"])[2], "the control proves nothing"
    for options in (("--tty",), ()):
        status, printed, typed = on_terminal(brig_argv("run", *options, *mount("terminal"), "--", INSIDE, "type", "/dev/tty"))
        assert typed == b"", f"typed: {typed!r}"
        assert b"+ fd" not in printed and b"- fd0 " in printed, printed
        assert status == (0 if options else 1) or b"+ open:/dev/tty" in printed, (status, printed)
        assert b"+ type:" not in printed, printed


@test
def a076_no_terminal_of_the_host_can_be_opened():
    master, slave = pty.openpty()
    theirs = os.ttyname(slave)
    os.chmod(theirs, 0o666) if IS_ROOT else None
    control = subprocess.run(as_identity([program("terminal"), "type", theirs]), capture_output=True, check=False)
    assert b"+ open:" + theirs.encode() in control.stdout, "the control proves nothing"
    inside("terminal", "type", *PATHS, *(f"/dev/pts/{n}" for n in range(64)), theirs).must_fail("open:/dev/tty", "open:/dev/console")
    printed = on_terminal(brig_argv("run", *mount("terminal"), "--", INSIDE, "type", *PATHS))[1]
    assert b"+ " not in printed and b"- open:/dev/tty " in printed, "without --tty there is no controlling terminal"
    printed = on_terminal(brig_argv("run", "--tty", "--", "sh", "-c", "ls /dev/pts; tty"))[1]
    assert set(printed.split()) == {b"0", b"ptmx", b"/dev/pts/0"}, printed
    os.close(master)
    os.close(slave)


EVIL = {
    "clipboard": "\033]52;c;UFdORUQ=\007", "clipboard-st": "\033]52;c;UFdORUQ=\033\\", "title": "\033]0;PWNED\007", "link": "\033]8;;http://x/\033\\t\033]8;;\033\\",
    "report": "\033[6n", "device": "\033[c", "device2": "\033[>c", "status": "\033[5n", "title-report": "\033[21t", "answer": "\005", "dcs": "\033P$qm\033\\",
    "decrqss": "\033P+q544e\033\\", "paste-end": "\033[201~", "mouse": "\033[?1000h", "alt": "\033[?1049h", "reset": "\033c", "charset": "\033(0",
    "keypad": "\033=", "c1-csi": "\u009b6n", "c1-osc": "\u009d52;c;UFdORUQ=\u009c", "apc": "\033_x\033\\", "pm": "\033^x\033\\", "sos": "\033Xx\033\\",
    "kitty": "\033_Ga=T;x\033\\", "iterm": "\033]1337;File=:x\007", "print": "\033[5i", "bidi": "a\u202eb\u2066c\u2069", "split": "\033", "bracket": "\033[?2004h",
}


@test
def a077_on_a_terminal_the_output_is_text_and_colour_only():
    data = "".join(f"<{name}>{seq}</{name}>\n" for name, seq in EVIL.items())
    (workspace() / "evil").write_bytes(data.encode() + b"\x9b6n\x9d52;c;x\x9c\n\x1b]52;c;unfinished")
    raw = on_terminal(["cat", str(workspace() / "evil")])[1]
    assert b"\033]52" in raw and b"\033[6n" in raw, "the control proves nothing"
    for script in ("cat evil", "cat evil >&2", "cat evil & cat evil >&2; wait", "python3 -c \"import os,time\nfor b in open('evil','rb').read(): os.write(1, bytes([b]))\""):
        printed = on_terminal(brig_argv("run", "--", "sh", "-c", script))[1]
        assert b"<clipboard>" in printed and b"</bracket>" in printed
        for bad in (b"\033]", b"\033P", b"\033_", b"\033^", b"\033X", b"\033c", b"\033(", b"\033=", b"\x9b", b"\x9d", b"\x90", b"\005", b"\033[6n", b"\033[c",
                    b"\033[>c", b"\033[5n", b"\033[21t", b"\033[201~", b"\033[?1000h", b"\033[?2004h", b"\033[5i", "\u202e".encode(), "\u2066".encode()):
            assert bad not in printed, (script, bad, printed)


@test
def a077_json_escapes_every_control_character():
    (workspace() / "evil").write_bytes("".join(EVIL.values()).encode() + bytes(range(32)) + b"\x7f\xff")
    done = brig("run", "--json", "--", "cat", "evil")
    assert not [b for b in done.stdout if b < 32 and b != 10] and b"\x7f" not in done.stdout.replace(b"\\u007f", b"")
    assert json.loads(done.stdout)["stdout"].startswith(EVIL["clipboard"])


@test
def a077_names_in_brigs_own_messages_are_harmless():
    """A hostile command or file name reaches the terminal by an error text or a denial."""
    name = "x\033]52;c;UFdORUQ=\007y"
    _, printed, _ = on_terminal(brig_argv("run", "--", name))
    assert b"\033]52" not in printed, printed
    (workspace() / name).mkdir()
    _, printed, _ = on_terminal(brig_argv("run", "--workdir", workspace() / name, "--", "true"))
    assert b"\033]52" not in printed, printed
    _, printed, _ = on_terminal(brig_argv("run", "--mount", f"/nowhere/{name}:/data", "--", "true"))
    assert b"\033]52" not in printed, printed
    _, printed, _ = on_terminal(brig_argv("run", "--", "sh", "-c", "git init -q . && touch \".git/hooks/$(printf 'a\\033]52;c;UFdORUQ=\\007')\""))
    for p in (workspace().parent / "state/brig/quarantine").glob("*"):
        shutil.rmtree(p)
    assert b"\033]52" not in printed, printed


@test
def a078_any_bytes_make_valid_json():
    code = ("import os\nos.write(1, bytes(range(256)) * 3 + b'\\xed\\xa0\\x80\\xed\\xbf\\xbf\\xf4\\x90\\x80\\x80\\xc0\\x80' + b'a\\rb\\rc' + 'é'.encode()[:1])\n"
            "os.write(2, b'\\0' * 5000 + b'\\n')")
    done = brig("run", "--json", "--", "python3", "-c", code)
    r = json.loads(done.stdout.decode("utf-8", errors="strict"))
    assert r["stdout_bytes"] == 768 + 12 + 5 + 1
    assert r["stderr"] == "\0" * 5000 + "\n" and "a\rb\rc" in r["stdout"]


@test
def a078_a_long_line_passes_whole():
    done = brig("run", "--", "python3", "-c", "print('x' * (10 << 20), end='')")
    assert done.stdout == b"x" * (10 << 20)


@test
def a080_endless_output_is_cut_and_costs_little_memory():
    p = start_brig("run", "--json", "--timeout", "1s", "--output-limit", "16k", "--", "sh", "-c", "yes & yes >&2")
    most = 0
    while p.poll() is None:
        with contextlib.suppress(OSError, IndexError):
            text = pathlib.Path(f"/proc/{p.pid}/status").read_text()
            most = max(most, int(text.split("VmHWM:")[1].split()[0]))
        time.sleep(0.05)
        if select.select([p.stdout], [], [], 0)[0]:
            break
    out, _ = p.communicate(timeout=20 * PATIENCE)
    r = json.loads(out)
    assert (p.returncode, r["outcome"]) == (124, "timeout") and r["stdout_truncated"] and r["stderr_truncated"]
    assert len(r["stdout"]) <= 16384 and r["stdout_bytes"] > 1 << 20 and "output" in r["limits_hit"]
    assert most < 64 << 10 or "asan" in os.environ.get("BRIG", ""), f"{most} KiB"


def check_stopped(stdout, *options):
    """At 1 s everything inside must be dead, whether or not brig itself can deliver what it holds."""
    p = subprocess.Popen(brig_argv("run", "--timeout", "1s", *options, "--", "sh", "-c", "touch began; while :; do echo xxxxxxxxxxxxxxxxxxxxxxxx; done"),
                         stdout=stdout, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=brig_environment(), cwd=workspace())
    try:
        assert wait_until(lambda: (workspace() / "began").exists())
        assert wait_until(lambda: not [n for n in descendants(p.pid).values() if n not in ("brig", "setpriv")], 3), "the time limit did not fire: it still runs"
        p.terminate()
        wait_until(lambda: p.poll() is not None, 1)
        p.terminate()  # the first may have come while the run was ending
        assert wait_until(lambda: p.poll() is not None, 2), "brig cannot be ended"
    finally:
        if p.poll() is None:
            p.kill()
            p.wait()


@test
def a081_a_reader_that_stops_does_not_stop_the_clock_of_a_pipe():
    r, w = os.pipe()
    check_stopped(w)
    os.close(r)


@test
def a081_a_reader_that_stops_does_not_stop_the_clock_with_an_output_limit():
    r, w = os.pipe()
    check_stopped(w, "--output-limit", "100m")
    os.close(r)


@test
def a081_a_reader_that_stops_does_not_stop_the_clock_of_a_socket():
    a, b = socket.socketpair()
    check_stopped(b.fileno())
    a.close()
    b.close()


@test
def a081_a_reader_that_stops_does_not_stop_the_clock_of_a_terminal():
    master, slave = pty.openpty()
    check_stopped(slave)
    os.close(master)


@test
def a081_a_stopped_reader_costs_no_memory():
    r, w = os.pipe()
    p = subprocess.Popen(brig_argv("run", "--timeout", "5s", "--", "yes"), stdout=w, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=brig_environment(), cwd=workspace())
    time.sleep(0.5)
    size = int(pathlib.Path(f"/proc/{p.pid}/status").read_text().split("VmHWM:")[1].split()[0])
    p.kill()
    p.wait()
    os.close(r)
    os.close(w)
    assert brig("run", "--", "true").status == 0
    assert size < 64 << 10 or "asan" in os.environ.get("BRIG", ""), f"{size} KiB"


@test
def a082_interleaved_streams_lose_nothing():
    code = ("import os\nfor n in range(20):\n  if os.fork() == 0:\n    for i in range(100):\n      os.write(1 + n % 2, b'%02d:%03d\\n' % (n, i))\n    os._exit(0)\n"
            "while True:\n  try: os.wait()\n  except ChildProcessError: break\n")
    done = brig("run", "--", "python3", "-c", code)
    for stream, mine in ((done.stdout, 0), (done.stderr, 1)):
        lines = stream.decode().split()
        assert len(lines) == 1000
        for n in range(mine, 20, 2):
            assert [int(s[3:]) for s in lines if s.startswith(f"{n:02}:")] == list(range(100))


if __name__ == "__main__":
    sys.exit(main())
