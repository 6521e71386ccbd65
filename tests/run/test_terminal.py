#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""--tty: a terminal of the command's own, at whatever the caller has. Attacks on terminals are in tests/escape."""

import fcntl
import hashlib
import os
import pathlib
import platform
import re
import shlex
import signal
import subprocess
import sys
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import record  # noqa: E402
from harness import brig, brig_argv, brig_environment, descendants, main, scratch, seconds, start_brig, state, test, tree, wait_until, workspace  # noqa: E402
from terminals import Terminal  # noqa: E402

ASKED = "import os; print([os.isatty(i) for i in range(3)])"


def python(code):
    return ("python3", "-c", code)


# ---- what the command sees ----


@test
def all_three_streams_are_a_terminal():
    t = Terminal(*python("import os; print([os.isatty(i) for i in range(3)], os.ttyname(0), os.ttyname(2))"))
    assert t.finish() == 0
    assert b"[True, True, True] /dev/pts/0 /dev/pts/0" in t.seen, t.seen


@test
def without_tty_there_is_no_terminal_inside_even_at_one():
    for options in ((), ("--no-tty",), ("--tty=false",)):
        t = Terminal(*python(ASKED + "; os.open('/dev/tty', os.O_RDWR)"), brig_options=options)
        assert t.finish() != 0
        assert b"[False, False, False]" in t.seen and b"OSError" in t.seen, t.seen


@test(as_user="user")
def a_shell_at_a_terminal_has_one_without_being_asked():
    for argv, shell in ((("sh",), b"/bin/sh"), (("/bin/bash", "-i"), b"/usr/bin/bash")):
        t = Terminal(*argv, brig_options=())
        t.type(b"[ -t 0 ] && [ -t 1 ] && echo 'ha''s one'\" $SHELL\"; exit 3\n")
        assert t.finish() == 3 and b"has one " + shell in t.seen, t.seen
    for argv, options in ((("sh", "-c", "[ -t 0 ] || echo 'no''ne'"), ()), (("sh",), ("--no-tty",))):  # a script has none, and who says so
        t = Terminal(*argv, brig_options=options)
        t.type(b"[ -t 0 ] || echo 'no''ne'\n\x04")
        assert t.finish() == 0 and b"none" in t.seen, t.seen


PAINTER = ("import socket, sys, termios, tty; mode = termios.tcgetattr(0); {}\n"
           "try: socket.getaddrinfo('x.example', 80)\nexcept OSError: pass\n"
           "print('asked', flush=True); sys.stdin.read(1); termios.tcsetattr(0, termios.TCSADRAIN, mode); print('restored', flush=True)")


@test(as_user="user")
def notes_wait_while_a_command_paints_the_screen():
    said = b"brig: note: it asks for 'x.example'"
    for how, waits in (("tty.setraw(0)", True), ("0", False)):
        t = Terminal(*python(PAINTER.format(how)))
        t.until(b"asked")
        if not waits:
            t.until(said)
        t.type(b"x\n")
        assert t.finish() == 0, t.seen
        assert t.seen.count(said) == 1 and (t.seen.index(said) > t.seen.index(b"restored")) == waits, t.seen


@test
def letters_say_what_words_say():
    (scratch() / "seen").touch()
    t = Terminal(*python(ASKED + "; print(os.environ['A'], os.listdir('/data'))"), brig_options=("-it", "-e", "A=b", "-v", f"{scratch()}:/data", "-w", str(workspace())))
    assert t.finish() == 0 and b"[True, True, True]" in t.seen and b"b ['seen']" in t.seen, t.seen
    assert brig("run", "-eA=c", "--", "sh", "-c", "echo $A").text == "c\n"
    for wrong in (["-x"], ["-tx"], ["-e"]):
        done = brig("run", *wrong)
        assert done.status == 125 and "brig:" in done.errors, (wrong, done.errors)


@test
def a_shell_is_one_word():
    t = Terminal("exit", brig_options=())  # only for its terminal
    t.finish()
    t.process = start_brig("shell", stdin=t.slave, stdout=t.slave, stderr=t.slave, start_new_session=True,
                           preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 1))
    t.type(b"echo in-$((6 * 7)); exit 5\n")
    assert t.finish() == 5 and b"in-42" in t.seen, t.seen
    assert brig("shell", input=b"echo piped\n").text == "piped\n"
    assert brig("shell", "ls").status == 125


@test
def a_command_line_in_one_word_is_sent_to_exec():
    done = brig("run", "echo hi | wc")
    assert done.status == 127 and "brig exec" in done.errors, done.errors
    assert "brig image" not in brig("make").errors


@test
def dev_tty_inside_is_the_private_terminal():
    """What is written to it comes out through brig, and its settings are not the caller's."""
    t = Terminal("sh", "-c", "echo to the terminal > /dev/tty; stty rows 7 cols 9 < /dev/tty; stty size; stty -F /dev/tty -echo")
    assert t.finish() == 0
    assert b"to the terminal" in t.seen and b"7 9" in t.seen
    assert t.size() == (24, 80) and t.restored()


@test
def the_command_leads_a_session_of_its_own_on_that_terminal():
    code = "import os; print('leads', os.getsid(0) == os.getpid(), os.tcgetpgrp(0) == os.getpgrp(), os.tcgetpgrp(os.open('/dev/tty', os.O_RDWR)) == os.getpgrp())"
    t = Terminal(*python(code))
    assert t.finish() == 0 and b"leads True True True" in t.seen, t.seen


@test
def the_callers_terminal_cannot_be_named_inside():
    t = Terminal("ls", "/dev/pts")
    assert t.finish() == 0
    assert set(t.seen.split()) == {b"0", b"ptmx"}, t.seen


@test
def term_is_passed_on():
    t = Terminal("sh", "-c", "echo TERM=$TERM", env={"TERM": "xterm-256color"})
    assert t.finish() == 0 and b"TERM=xterm-256color" in t.seen


# ---- size ----


@test
def the_size_is_the_callers_from_the_start():
    for rows, cols in ((24, 80), (50, 132), (1, 1)):
        t = Terminal("stty", "size", rows=rows, cols=cols)
        assert t.finish() == 0 and t.seen.split() == [b"%d" % rows, b"%d" % cols], t.seen


@test
def a_resize_is_passed_on_with_its_signal():
    t = Terminal("sh", "-c", "trap 'echo now $(stty size)' WINCH; echo ready; while :; do sleep 0.02; done")
    t.until(b"ready")
    t.size(33, 99)
    t.until(b"now 33 99")
    t.size(10, 20)
    t.until(b"now 10 20")
    t.process.terminate()
    assert t.finish() == 143


# ---- keys ----


@test
def ctrl_c_reaches_the_command_and_not_brig():
    t = Terminal("sh", "-c", "trap 'echo interrupted; exit 7' INT; echo ready; while :; do sleep 0.02; done")
    t.until(b"ready")
    t.type(b"\x03")
    assert t.finish() == 7 and b"interrupted" in t.seen and t.restored()


@test
def a_command_that_dies_of_ctrl_c_gives_130():
    t = Terminal("sh", "-c", "echo ready; exec sleep 60")
    t.until(b"ready")
    t.type(b"\x03")
    assert t.finish() == 130 and t.restored()


@test
def ctrl_c_can_be_survived():
    t = Terminal("sh", "-c", "trap 'echo no' INT; echo ready; read line; echo got $line; exit 4")
    t.until(b"ready")
    for _ in range(3):
        t.type(b"\x03")
        time.sleep(0.05)
    t.until(b"no")
    t.type(b"word\r")
    assert t.finish() == 4 and b"got" in t.seen


@test
def ctrl_backslash_reaches_the_command():
    t = Terminal("sh", "-c", "trap 'echo quit; exit 8' QUIT; echo ready; while :; do sleep 0.02; done")
    t.until(b"ready")
    t.type(b"\x1c")
    assert t.finish() == 8


@test
def lines_are_typed_echoed_and_ended_by_ctrl_d():
    t = Terminal("cat")
    t.type("grüße\r".encode())
    t.until("grüße\r\ngrüße\r\n".encode())
    t.type(b"\x04")
    assert t.finish() == 0 and t.restored()


@test
def a_program_that_switches_echo_off_is_obeyed():
    t = Terminal("sh", "-c", "stty -echo; echo ready; read secret; stty echo; echo length ${#secret}")
    t.until(b"ready")
    t.type(b"hunter2\r")
    t.until(b"length 7")
    assert t.finish() == 0 and b"hunter2" not in t.seen


@test
def raw_keys_reach_a_full_screen_program_to_the_byte():
    code = """
import os, sys, tty
tty.setraw(0)
os.write(1, b'ready')
got = b''
while not got.endswith(b'!'): got += os.read(0, 100)
os.write(1, repr(got).encode())
"""
    t = Terminal(*python(code))
    t.until(b"ready")
    keys = b"\x03\x04\x1a\x1b[A\x1bOP\x7f\t\r\n\xc3\xa9\x00!"
    t.type(keys)
    t.until(repr(keys).encode())
    assert t.finish() == 0 and t.restored()


# ---- the end ----


@test
def the_exit_status_is_the_commands_own():
    assert Terminal("sh", "-c", "exit 9").finish() == 9
    assert Terminal("sh", "-c", "kill -9 $$").finish() == 137
    t = Terminal("no-such-command")
    assert t.finish() == 127 and b"no-such-command" in t.seen


@test
def settings_are_restored_however_it_ends():
    def kill(t):
        t.process.send_signal(signal.SIGTERM)

    for command, end, status in (("stty raw -echo; exit 3", None, 3), ("stty raw -echo; touch a; sleep 60", kill, 143),
                                 ("kill -9 $$", None, 137)):
        t = Terminal("sh", "-c", command)
        if end:
            assert wait_until(lambda: (workspace() / "a").exists())
            assert termios.tcgetattr(t.slave)[3] & termios.ECHO == 0, "not raw while it runs"
            end(t)
        assert t.finish() == status
        assert t.restored(), command


@test
def settings_are_restored_after_a_time_limit():
    t = Terminal("sleep", "60", brig_options=("--tty", "--timeout", "500ms"))
    assert t.finish() == 124 and t.restored() and b"timed out" in t.seen


@test
def settings_are_restored_after_a_refusal():
    t = Terminal("true", brig_options=("--tty", "--mount", "/nowhere:/data"))
    assert t.finish() == 125 and t.restored()


@test
def messages_of_brig_stand_on_lines_of_their_own():
    t = Terminal("sh", "-c", "printf 'no end of line'; sleep 60", brig_options=("--tty", "--timeout", "300ms"))
    assert t.finish() == 124
    assert re.search(rb"brig: [^\n]*timed out[^\n]*\r\nhint: [^\n]*\r\n", t.seen), t.seen


@test
def a_large_output_arrives_whole():
    t = Terminal("sh", "-c", "stty -opost; head -c 1000000 /dev/zero | tr '\\0' a; echo END")
    t.until(b"END\n", 30)
    assert t.finish() == 0 and t.seen.count(b"a") == 1000000


@test
def detached_processes_end_with_the_command():
    t = Terminal("sh", "-c", "setsid sleep 1000 & (trap '' HUP; sleep 1000) & exit 3")
    assert t.finish() == 3
    assert wait_until(lambda: not descendants())


@test
def the_terminal_works_on_after_brig():
    """The caller's own process group is in the foreground, and its keys make signals again."""
    t = Terminal("true")
    assert t.finish() == 0
    assert termios.tcgetattr(t.slave)[3] & (termios.ISIG | termios.ICANON | termios.ECHO) == \
        (termios.ISIG | termios.ICANON | termios.ECHO)


# ---- with something else than a terminal ----


@test
def with_pipes_the_command_still_has_a_terminal():
    done = brig("run", "--tty", "--", "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && echo yes; exit 3", timeout=10)
    assert (done.status, done.stdout) == (3, b"yes\r\n"), done.stdout


@test
def with_pipes_both_streams_arrive_at_stdout():
    done = brig("run", "--tty", "--", "sh", "-c", "echo out; echo err >&2", timeout=10)
    assert done.stdout == b"out\r\nerr\r\n"


@test
def with_pipes_input_is_typed_in():
    done = brig("run", "--tty", "--timeout", "10s", "--", "sh", "-c", "read x; echo got $x", input=b"line\n", timeout=15)
    assert done.status == 0 and b"got line" in done.stdout


@test
def with_pipes_the_end_of_input_is_typed_in_too():
    """A terminal has no closed end: the end is ctrl-D, or `echo line | brig run --tty -- cat` never ends."""
    done = brig("run", "--tty", "--timeout", "3s", "--", "cat", input=b"line\n", timeout=15)
    assert done.status == 0, f"status {done.status}"


@test
def the_end_of_input_is_typed_again_for_those_who_read_keys():
    """A shell with an editor of lines switches the terminal over, and what was typed before is no end to it."""
    for program in (("bash",), ("bash", "-i"), ("python3", "-q"), ("sh", "-i"), ("sh", "-c", "stty -icanon; echo ready; head -c 1 | od -c")):
        done = brig("run", "--tty", "--timeout", seconds(20), "--", *program, timeout=40)
        assert done.status == 0, (program, done.status, done.stdout)


@test
def a_terminal_where_nobody_types_has_a_time_limit_and_says_so():
    done = brig("run", "--tty", "--timeout", "500ms", "--", "sleep", "60")
    assert done.status == 124 and "leave --tty out" in done.errors, done.errors
    t = Terminal("sleep", "60", brig_options=("--tty", "--timeout", "500ms"))
    assert t.finish() == 124 and b"leave --tty out" not in t.seen, t.seen
    assert brig("run", "--tty", "--", "true").status == 0 and Terminal("true").finish() == 0
    limits = [r.get("timeout_ms") for r in record.verified(record.folder(state())) if r["type"] == "sandbox.create"]
    assert limits == [500, 500, 600000, None], limits
    assert Terminal("true", brig_options=()).finish() == 0  # somebody is there, though the command has no terminal
    assert [r.get("timeout_ms") for r in record.verified(record.folder(state())) if r["type"] == "sandbox.create"][4:] == [None]


# ---- options ----


@test
def tty_and_json_are_refused_together():
    done = brig("run", "--tty", "--json", "--", "touch", "started")
    assert done.status == 125 and "--tty" in done.errors and "--json" in done.errors
    assert tree(workspace()) == {} and done.json["outcome"] == "refused"


@test
def there_is_no_default_time_limit_with_tty_and_a_written_one_holds():
    help_text = " ".join(brig("run", "--help=all").text.split())
    assert "with --tty at a terminal there is no limit unless given" in help_text
    assert brig("run", "--tty", "--timeout", "300ms", "--", "sleep", "60").status == 124


def waits_without_end(pid):
    """Whether a process is found in a poll without a time limit. aarch64 has ppoll alone, where the third argument is NULL; poll's is -1."""
    number, endless = {"aarch64": ("73", 0), "x86_64": ("7", 0xFFFFFFFF)}[platform.machine()]
    calls = []
    for _ in range(20):
        time.sleep(0.01)
        calls.append(pathlib.Path(f"/proc/{pid}/syscall").read_text().split())
    return {int(c[3], 16) & 0xFFFFFFFF == endless for c in calls if c[0] == number}


@test
def without_a_time_limit_brig_sleeps_until_something_happens():
    """Seen from outside: no timer in its poll. Its wait has an end by default, also with a terminal where nobody types."""
    seen = {}
    for options in ((), ("--tty",), ("--tty", "--timeout", "none")):
        p = start_brig("run", *options, "--", "sh", "-c", "touch ready; sleep 60")
        assert wait_until(lambda: (workspace() / "ready").exists())
        seen[options] = waits_without_end(p.pid)
        (workspace() / "ready").unlink()
        p.terminate()
        p.wait()
    assert list(seen.values()) == [{False}, {False}, {True}], seen


# ---- beside a shell ----


@test(limit=30)
def a_run_in_the_background_leaves_what_is_typed_to_the_shell():
    """A server with `&`: brig is not stopped by the next line. In the foreground it has the input."""
    shell = ["bash", "--norc", "--noprofile", "-i"]
    t = Terminal(words=("version",))
    assert t.finish() == 0
    line = shlex.join(brig_argv("run", "--", "sh", "-c", "echo up-$((40 + 2)); while [ ! -e go ]; do sleep 0.05; done; echo ready-$((40 + 2)); read word; echo got-$word"))
    env = brig_environment({"PS1": "$ ", "HISTFILE": "/dev/null"})
    t.process = subprocess.Popen(shell, stdin=t.slave, stdout=t.slave, stderr=t.slave, cwd=workspace(), env=env,
                                 start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    t.type(line.encode() + b" &\n")
    t.until(b"up-42")
    t.type(b"echo sh''ell\n")
    t.until(b"shell\r\n")
    time.sleep(0.5)  # what is to be seen is that nothing happens
    t.type(b"jobs; touch go\n")
    t.until(b"ready-42")
    assert b"Running" in t.seen and b"Stopped" not in t.seen, t.seen
    t.type(b"fg\n")
    time.sleep(0.3)
    t.type(b"typed\n")
    t.until(b"got-typed\r\n$ ")  # as long as the run is in the foreground what is typed is its input
    t.type(b"exit\n")
    assert t.finish() == 0, t.seen


# ---- the way out ----


DEAF = """
import os, signal, sys, termios, time, tty
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
how = sys.argv[1]
if how == "raw": tty.setraw(0)
print("deaf" + "\\x1b[>31u" * (how == "sequences"), flush=True)
if how == "gone":
    os.setsid() if os.getsid(0) != os.getpid() else None
    for fd in range(3): os.close(fd)
while True: time.sleep(1)
"""


@test
def a_command_that_hears_nothing_can_be_left():
    """It ignores every signal, takes the keys for its own, has the terminal send them as sequences, or lets go of the terminal."""
    for how, keys in (("signals", b"\x1c"), ("raw", b"\x1c"), ("sequences", b"\x1b[92;5u\x1b[92;5:3u"), ("gone", b"\x1c")):
        t = Terminal(*python(DEAF), how)
        t.until(b"deaf")
        for key in (b"\x03", b"\x03", b"\x03", b"\x1a", b"\x04", keys, keys):
            t.type(key)
            t.read(0.01)
        assert t.process.poll() is None, ("the control proves nothing", how)
        t.type(keys)
        assert t.finish() == 131 and t.restored(), (how, t.seen)
    assert not descendants()


@test
def a_command_that_reads_nothing_can_be_left():
    """What is typed, or what the terminal was made to answer, fills its input; the way out is behind it."""
    t = Terminal(*python(DEAF), "raw")
    t.until(b"deaf")
    for _ in range(40):
        t.type(b"x" * 4000)
        t.read(0.01)
    t.type(b"\x1c\x1c\x1c")
    assert t.finish() == 131 and t.restored(), t.seen


@test
def what_is_typed_faster_than_it_is_read_arrives_whole():
    t = Terminal(*python("import hashlib, os, sys, time, tty; tty.setraw(0); print('ready', flush=True); time.sleep(0.5); d = b''\n"
                         "while len(d) < 300000: d += os.read(0, 65536)\nprint('sum', hashlib.sha256(d).hexdigest(), flush=True)"))
    t.until(b"ready")
    data = bytes(97 + i * i % 23 for i in range(300000))
    for at in range(0, len(data), 4000):
        t.type(data[at:at + 4000])
        t.read(0)
    t.until(b"sum " + hashlib.sha256(data).hexdigest().encode(), 20)
    assert t.finish() == 0


if __name__ == "__main__":
    sys.exit(main())
