#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Questions for names where there is no network: what reads them, and what comes of hostile ones."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import WAIT, held, signal, status_of  # noqa: E402
from harness import brig, descendants, main, test, uid, wait_until  # noqa: E402

# ask(b"\3www\7example\0") and what came back, None after a while.
ASK = r"""
import os, socket, struct, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.connect(('::1', 53))
def send(packet):
    try: s.send(packet)
    except OSError: pass
def question(name, kind=1):
    return os.urandom(2) + b'\1\0\0\1\0\0\0\0\0\0' + name + struct.pack('>HH', kind, 1)
def ask(name, kind=1, wait=5):
    packet = question(name, kind)
    send(packet)
    s.settimeout(wait)
    try:
        while (got := s.recv(4096))[:2] != packet[:2]: pass
        return got
    except OSError:
        return None
def labels(*words):
    return b''.join(bytes([len(w)]) + w for w in words) + b'\0'
"""


def guest(code, *options, **more):
    return brig("run", *options, "--", "python3", "-c", ASK + code, **more)


def readers(p):
    return [pid for pid, name in descendants(p.pid).items() if name == "brig-egress"]


@test(backends=("native", "bwrap"))
def who_asks_for_nothing_has_no_reader():
    with held("run", "--", "sh", "-c", WAIT) as h:
        assert readers(h.process) == []
    with held("run", "--", "sh", "-c", "getent hosts x.example; " + WAIT) as h:
        assert wait_until(lambda: len(readers(h.process)) == 1), "the control: who asks has one"
        status = status_of(readers(h.process)[0])
        assert status["Seccomp"].strip() == "2" and status["NoNewPrivs"].strip() == "1" and int(status["CapPrm"], 16) == 0, status
        assert int(status["Uid"].split()[0]) == (uid() or 65534), "root's reader is nobody"
        pid = readers(h.process)[0]
        assert {n for n in map(int, _fds(pid)) if n > 2} == {3, 4}, _fds(pid)


def _fds(pid):
    try:
        return [p.name for p in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
    except PermissionError:  # it cannot be looked into, and this is not root
        return ["3", "4"]


@test
def a_hostile_name_is_never_said():
    done = guest(r"""
for name in (labels(b'\33]0;owned\7', b'example'), labels(b'$(id)', b'example'), labels(b"'; id #", b'example'), labels(b'a\nb', b'example'),
             labels(b'\xe2\x80\xae', b'example'), labels(b'x' * 63, b'y' * 63, b'z' * 63, b'w' * 61), labels(b'a.b', b'example'), labels(b'1', b'2', b'3', b'4'),
             labels(b'--i-know', b'example'), b'\xc0\x0c', b'\x3fabc', b''):
    ask(name, wait=0.2)
print(ask(labels(b'www', b'example'))[3] & 15)
""")
    assert done.text == "5\n", (done.text, done.errors)  # refused, and still there
    assert "it asks for 'www.example'" in done.errors or f"it asks for '{'x' * 63}" in done.errors, done.errors
    for bad in ("owned", "\33", "$(", "id #", "1.2.3.4", "--i-know", "\u202e"):
        assert bad not in done.errors, (bad, done.errors)


@test
def a_name_that_the_command_chose_is_never_offered_as_an_option():
    assert "--allow @git opens one" in guest("ask(labels(b'raw', b'githubusercontent', b'com'))").errors, "the control: one of a shipped group is"
    for name in ("raw.githubusercontent.com.evil.example", "raw.githubusercontent.com-cdn.example", "evil-github.com", "pypi.org.example", "xn--gthub-cta.com", "github.co"):
        done = guest(f"ask(labels(*{name.encode().split(b'.')!r}))")
        assert f"it asks for '{name}'" in done.errors and "--allow HOST opens one" in done.errors, done.errors
        assert f"--allow {name}" not in done.errors and "--allow @" not in done.errors, done.errors


@test
def a_flood_of_questions_is_told_once_and_counted():
    done = guest("""
for i in range(3000):
    send(question(labels(b'n%d' % i, b'example')))
ask(labels(b'last', b'example'), wait=20)
""", "--json")
    r = done.json["unresolved"]
    assert done.errors.count("it asks for") == 1 and len(done.errors) < 2000, done.errors
    assert len(r["names"]) == 32 and 32 <= r["questions"] <= 3001, (len(r["names"]), r["questions"])


@test(backends=("native", "bwrap"))
def garbage_ends_nothing():
    done = guest("""
import random
random.seed(7)
for i in range(2000):
    packet = bytearray(question(labels(b'www', b'example'), random.choice((1, 28, 12, 255))))
    for _ in range(random.randrange(8)):
        packet[random.randrange(len(packet))] = random.randrange(256)
    send(bytes(packet[:random.randrange(len(packet) + 1)]))
send(bytes(9000))
answers = [ask(labels(b'www', b'example'), wait=3) for _ in range(5)]
print(any(answers))
""", "--json")
    assert done.json["stdout"] == "True\n", done.json


@test
def a_reader_that_is_killed_takes_nothing_along():
    with held("run", "--", "sh", "-c", "getent hosts x.example; " + WAIT + "; getent hosts y.example; echo done") as h:
        assert wait_until(lambda: readers(h.process))
        os.kill(readers(h.process)[0], signal.SIGKILL)
    assert h.process.result.status == 0 and b"done" in h.process.result.stdout, h.process.result.stderr


@test
def a_server_of_names_of_its_own_still_works_inside():
    done = brig("run", "--", "python3", "-c", """
import socket, threading
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(('0.0.0.0', 53))
def serve():
    while True:
        q, who = server.recvfrom(512)
        end = q.index(b'\\0', 12) + 5
        a = b'\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\1\\0\\4\\x0a\\1\\2\\3' if q[end - 3] == 1 else b''
        server.sendto(q[:2] + b'\\x81\\x80\\0\\1\\0' + (b'\\1' if a else b'\\0') + b'\\0\\0\\0\\0' + q[12:end] + a, who)
threading.Thread(target=serve, daemon=True).start()
print(socket.gethostbyname('own.example'))
""")
    assert done.text == "10.1.2.3\n", (done.text, done.errors)


if __name__ == "__main__":
    sys.exit(main())
