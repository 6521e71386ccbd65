#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""--ask: a name that no rule allows is held at the door until the person at the terminal has answered."""

import pathlib
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import Web, configure, on_every_door  # noqa: E402
from harness import brig, home, main, state, test, wait_until, workspace  # noqa: E402
from terminals import Terminal  # noqa: E402
import record  # noqa: E402

QUIET = 0.6  # what is typed sooner after a question does not count
END = b"and press Enter: "
GET = "curl -sS -o /dev/null -w '%{http_code}\\n' "


class Asked(Terminal):
    """brig run --ask at a terminal, behind a door with these servers."""

    def __init__(self, config, *argv, tty=False):
        super().__init__(*argv, brig_options=("--ask", "--config", str(config), *(("--tty",) if tty else ())))

    def question(self, name):
        """The next question, which is about this name; what stands on the terminal."""
        self.until(END)
        assert name.encode() in self.seen, self.seen
        seen, self.seen = self.seen, b""
        return seen

    def answer(self, word):
        time.sleep(QUIET)
        self.type(word.encode() + b"\r")


def answers():
    return [(r["host"], r["answer"], r["by"]) for r in record.records(record.folder(state())) if r["type"] == "egress.answer"]


def user_file():
    return home() / ".config/brig/config.yaml"


@on_every_door
def the_person_at_the_terminal_answers():
    with Web("one.test", "two.test") as web:
        t = Asked(configure(web, allow=[]), "sh", "-c", "".join(f"{GET} https://{n}.test/;" for n in ("one", "one", "two", "two")))
        t.question("one.test  port 443")
        assert web.seen == []
        t.answer("once")
        t.question("one.test  port 443")  # once is once
        t.answer("run")
        t.question("two.test  port 443")
        t.answer("no")
        t.finish()
        assert t.restored() and b"brig asks" not in t.seen and t.seen.count(b"403") == 2, t.seen
        assert len(web.seen) == 2, web.seen
        assert [a[:2] for a in answers()] == [("one.test", "once"), ("one.test", "run"), ("two.test", "no")], answers()
        assert all(by.startswith("terminal /dev/pts/") for _, _, by in answers())


@test
def every_way_to_the_door_is_held_and_goes_on():
    code = """
import socket, subprocess, threading
def go(*words): print(subprocess.run(['curl', '-sS', '-m', '50', *words], capture_output=True, text=True).stdout, end='', flush=True)
ways = [threading.Thread(target=go, args=w) for w in (('https://a.test/',), ('--noproxy', '*', 'https://a.test/'), ('-x', 'socks5h://198.19.255.253:3128', 'https://a.test/'))]
for w in ways: w.start()
for w in ways: w.join()
go('http://plain.test/')
"""
    web, plain = Web("a.test"), Web()
    plain.names = ("plain.test",)
    with web, plain:
        t = Asked(configure(web, plain, allow=[]), "python3", "-c", code)
        t.question("a.test  port 443")  # one question for all three
        t.answer("run")
        seen = t.question("plain.test  port 80")  # which is pinned to this machine: else plain HTTP is refused, whatever is said
        t.answer("once")
        assert t.finish() == 0 and (seen + t.seen).count(b"hello") == 4, seen + t.seen
        assert len(web.seen) == 3 and len(plain.seen) == 1 and len(answers()) == 2


GUEST = r"""
import os, select, sys, threading, time, tty
tty.setraw(0)
got = open('keys', 'wb', 0)
def keys():
    while True:
        d = os.read(0, 100)
        got.write(d)
        if d.endswith(b'q'): os._exit(0)
def paint():
    while True:
        os.write(1, b'\x1b[?1049h\x1b[8m\x1b]0;x\r\nbrig asks: fake\r\nType once, run, always or no and press Enter: ')
        time.sleep(0.01)
threading.Thread(target=keys).start()
threading.Thread(target=paint, daemon=True).start()
while not os.path.exists('go'): time.sleep(0.01)
sys.stdout.flush()
print(os.system("curl -sS -o /dev/null https://evil.test/ 2>/dev/null"), file=open('done', 'w'))
"""


@test
def a_guest_neither_sees_nor_imitates_nor_times_the_answer():
    with Web("evil.test") as web:
        t = Asked(configure(web, allow=[]), "python3", "-c", GUEST, tty=True)
        t.until(b"brig asks: fake")
        t.type(b"run\r")  # to the painted question: the guest's own keys, the control
        wait_until(lambda: (workspace() / "keys").exists() and (workspace() / "keys").read_bytes() == b"run\r")
        t.seen = b""
        (workspace() / "go").touch()
        t.until(b"evil.test  port 443")
        t.type(b"run\r")  # typed when the question came up
        t.until(END)
        t.until(b"type it again")
        t.seen = t.seen[t.seen.rindex(b"brig asks: no rule"):]
        time.sleep(QUIET)
        t.read(0)
        assert b"fake" not in t.seen and answers() == [] and web.seen == [], t.seen
        t.type(b"on\x1b[M   run\r")  # a report of the mouse, in the middle: none of it counts
        time.sleep(QUIET)
        t.read(0)
        assert b"fake" not in t.seen and answers() == [], t.seen
        t.type(b"no\r")
        t.until(b"fake")  # the guest has its terminal back
        wait_until((workspace() / "done").exists)
        t.type(b"q")
        assert t.finish() == 0 and t.restored()
        assert (workspace() / "keys").read_bytes() == b"run\rq" and web.seen == []
        assert [a[:2] for a in answers()] == [("evil.test", "no")]


@test
def a_flood_of_questions_ends_in_no():
    code = """
import socket
def ask(n):
    s = socket.create_connection(('198.19.255.253', 3128))
    s.sendall(f'CONNECT n{n}.flood.test:443 HTTP/1.1\\r\\n\\r\\n'.encode())
    return s
def said(s): return s.recv(4096).decode()
first = [ask(n) for n in range(4)]
assert all('too many questions' in said(ask(n)) for n in range(4, 24))
again = [ask(n) for n in range(4) for _ in range(5)]  # folded into the four
assert all('the answer was no' in said(s) for s in first + again)
assert 'too many questions' in said(ask(99))  # after so many that were refused
print('end')
"""
    t = Asked(configure(allow=[]), "python3", "-c", code)
    for n in range(4):
        t.question(f"n{n}.flood.test")
        t.answer("n")
    assert t.finish() == 0 and b"end" in t.seen and b"brig asks" not in t.seen, t.seen
    assert len(answers()) == 4


@test
def what_nobody_is_asked_about():
    names = ("https://192.0.2.7/", "https://intranet/", "https://db.internal/", "https://printer.local/", "https://nas.lan/", "https://x.denied.test/",
             "http://plain.example/", "https://[::1]/", "https://xn--.test/")
    config = configure(allow=[], deny=["*.denied.test"])
    t = Asked(config, "sh", "-c", "".join(f"curl -gsS -m 20 -o /dev/null '{n}' 2>/dev/null;" for n in names) + "echo end")
    t.finish()
    assert b"end" in t.seen and b"brig asks" not in t.seen and answers() == [], t.seen


@test
def the_name_is_shown_as_the_resolver_sees_it():
    t = Asked(configure(allow=[]), "curl", "-sS", "-m", "50", "https://pypi.org.xn--pyp-tma.EXAMPLE.co.uk/")
    seen = t.question("pypi.org.xn--pyp-tma.example.co.uk  port 443")
    assert b"which belongs to  example.co.uk" in seen and b"look like another name" in seen, seen
    t.type(b"\x03")  # Ctrl-C ends the run, not the question alone
    assert t.finish() == 130 and t.restored()
    assert [a[1] for a in answers()] == ["late"]


@test
def always_is_written_after_the_change_was_seen():
    with Web("kept.test") as web:
        config = configure(web, allow=[], https_only=True)
        t = Asked(config, "sh", "-c", f"{GET} https://kept.test/")
        t.question("kept.test")
        t.answer("always")
        t.until(b"yes and press Enter")
        assert b"+" in t.seen and b"kept.test" in t.seen and not user_file().exists(), t.seen
        t.answer("yes")
        assert t.finish() == 0 and b"200" in t.seen, t.seen
        assert "kept.test" in user_file().read_text()
        assert [a[1] for a in answers()] == ["always"]
        assert any(r["type"] == "policy.change" for r in record.records(record.folder(state())))
        shutil.rmtree(home() / ".config")


@test
def without_a_person_nothing_is_asked_and_that_is_said():
    done = brig("run", "--ask", "--", "true")
    assert done.status == 125 and b"nobody is there to be asked" in done.stderr and b"--allow HOST" in done.stderr, done
    r = brig("run", "--json", "--config", configure(allow=[], ask=True), "--", "curl", "-sS", "https://one.test/")
    assert r.json["denials"] and b"nobody is there" in r.stderr and answers() == [], r


if __name__ == "__main__":
    sys.exit(main())
