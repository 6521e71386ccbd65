#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""--ssh-agent: what a command gets of the user's agent by the socket that it is shown, and of brig.

The control of each attack is the same code on the agent itself, outside; the oracle is the agent: what it was asked for, and its keys."""

import os
import pathlib
import signal
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import WAIT, alive, held, status_of  # noqa: E402
from agents import CLIENT, Agent, Scribe  # noqa: E402
from open_sandbox import Sandbox  # noqa: E402
from harness import IS_ROOT, brig, descendants, files_as_root, main, scratch, test, uid, wait_until, workspace  # noqa: E402

# Requests that change an agent, or open a way around it. 17 adds a key that anybody can make, 27 is where extensions are.
CHANGES = r"""
key = string(b'ssh-ed25519') + string(b'p' * 32) + string(b's' * 64) + string(b'mine')
tries = {1: b'', 3: b'', 7: b'', 9: b'', 17: key, 18: string(keys()[0]), 19: b'', 20: string(b'/lib/x.so') + string(b''), 21: string(b'x') + string(b''),
         22: string(b'pass'), 23: string(b'pass'), 25: key + b'\2', 26: string(b'/lib/x.so') + string(b'') + b'\2',
         27: string(b'session-bind@openssh.com') + string(b'k') + string(b'i') + string(b's') + b'\1', 200: b'x', 0: b'', 255: b'', 12: b'', 14: b''}
print(sorted({(n, kind(call(bytes([n]) + body))) for n, body in tries.items()}))
"""

# What is neither git's nor a login, to the byte.
OTHERS = r"""
k = keys()[0]
cert = string(b'ssh-ed25519-cert-v01@openssh.com') + string(b'n' * 32) + string(b'p' * 32) + bytes(8) + b'\0\0\0\1' + string(b'id') + string(string(b'root'))
others = [b'anything', signed(b'file'), signed(b'gi'), signed(b'gitx'), signed(b'git\0'), signed(b'Git'), signed(b''), signed(reserved=b'x'), signed(algorithm=b'sha1'),
          signed(algorithm=b'sha512', digest=b'd' * 32), signed(algorithm=b'sha256', digest=b'd' * 64), signed(digest=b''), signed(tail=b'x'), signed()[:-1], b'x' + signed(),
          signed()[1:], b'SSHSIG', string(signed()), signed() + signed(), signed().lower(), cert, login(k, service=b'ssh-userauth'), login(k, method=b'password'),
          login(k, session=b's' * 15), login(k, session=b's' * 65), login(k, user=b''), login(k, more=b'x'), login(k, more=string(b'host')), login(b'another key'),
          login(k).replace(b'\x32', b'\x33', 1), login(k)[:-1], b'\0' * 200]
"""


def guest(code, agent, *options, word="--ssh-agent", **more):
    return brig("run", word, *options, "--", "python3", "-c", CLIENT + code, env=agent.env, **more)


def readers(p):
    return [pid for pid, name in descendants(p.pid).items() if name == "brig-egress"]


@test(backends=("native", "bwrap"))
def nothing_but_lists_and_signatures_reaches_the_agent():
    with Scribe() as scribe:
        scribe.client(CHANGES)
        assert {17, 18, 19, 22, 25, 27} <= set(scribe.types()), "the control proves nothing"
        scribe.log.write_text("")
        done = guest(CHANGES, scribe)
        answers = dict(eval(done.text))
        assert len(answers) == 19 and set(answers.values()) == {5}, (done.text, done.errors)
        assert set(scribe.types()) == {11}, scribe.types()


@test
def a_real_agent_keeps_its_keys_and_stays_open():
    with Agent() as agent:
        before = agent.fingerprints()
        done = guest(CHANGES, agent)
        assert set(dict(eval(done.text)).values()) == {5} and agent.fingerprints() == before, done.errors
        assert agent.client("print(kind(call(b'\\x16' + string(b'p'))), kind(call(b'\\x17' + string(b'p'))), kind(call(b'\\x13')))") == "6 6 6\n", "the control: it can be locked and emptied"
        assert agent.client("print(len(keys()))") == "0\n"


@test
def what_git_does_not_sign_is_not_signed():
    show = "print([i for i, d in enumerate(others) if kind(sign(k, d)) != 5], len(others))"
    with Agent() as agent:
        control = agent.client(OTHERS + show)
        assert control.startswith("[0, 1, 2"), "the control: an agent signs anything; " + control
        for word in ("--ssh-agent", "--ssh-agent=auth"):
            assert guest(OTHERS + show, agent, word=word).text == "[] 32\n", word
        assert guest("k = keys()[0]\nprint(kind(sign(k, login(k))))", agent).text == "5\n"
        good = "k = keys()[0]\nprint([kind(sign(k, d)) for d in (signed(), signed(algorithm=b'sha256', digest=b'd' * 32), login(k), login(k, method=b'publickey-hostbound-v00@openssh.com', more=string(b'host')))])"
        assert guest(good, agent, word="--ssh-agent=auth").text == "[14, 14, 14, 14]\n"
    with Scribe() as scribe:  # and the agent is not even asked
        guest(OTHERS + show, scribe, word="--ssh-agent=auth")
        assert set(scribe.types()) == {11}, scribe.types()


@test
def a_key_that_the_agent_has_not_named_is_not_sent_to_it():
    code = "k = keys()[0]\nprint([kind(sign(x, signed(), f)) for x, f in ((k, 0), (k[:-1], 0), (k + b'x', 0), (b'A' * 8192, 0), (b'A' * 8193, 0), (b'', 0), (k, 1), (k, 6), (k, 2**31))])"
    with Scribe() as scribe:
        assert guest(code, scribe).text == "[14, 5, 5, 5, 5, 5, 5, 5, 5]\n"
        assert scribe.types().count(13) == 1, scribe.types()


@test
def nothing_is_signed_with_sha1():
    """Two texts can be made with one SHA-1: the one would be a login, and the other anything."""
    code = "k = [k for k in keys() if b'ssh-rsa' in k][0]\nprint([kind(sign(k, d, f)) for d in (signed(), login(k)) for f in (0, 2, 4)])"
    with Agent() as agent:
        agent.ssh("ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", scratch() / "rsa")
        agent.ssh("ssh-add", "-q", scratch() / "rsa")
        assert agent.client(code) == f"{[14] * 6}\n", "the control: an agent does"
        done = guest(code, agent, word="--ssh-agent=auth")
        assert done.text == f"{[5, 14, 14] * 2}\n" and "SHA-512 alone" in done.errors, (done.text, done.errors)
        for name in ("rsa", "rsa.pub"):
            (scratch() / name).unlink()


@test(backends=("native", "bwrap"))
def half_a_message_and_one_too_long_keep_nobody_waiting():
    code = r"""
gone = []
for head in (b'\xff\xff\xff\xff', b'\0\0\0\0', b'\0\0\x50\1', b'\x7f\xff\xff\xff' + b'x' * 100000):
    s = dial()
    try:
        s.sendall(head)
        gone.append(read(s) is None)
    except OSError:
        gone.append(True)
largest = call(b'\x11' + b'x' * (20 * 1024 - 1))
half = [dial() for _ in range(15)]
for i, s in enumerate(half):
    s.sendall((b'\0\0\0\1', b'\0', b'\0\0\x10\0x')[i % 3])
print(all(gone), kind(largest), len(keys()))
for s in half: s.close()
one = dial()
for byte in string(b'\x0b'):
    one.sendall(bytes([byte]))
print(kind(read(one)), kind(call(b'\x0b', one)), kind(call(b'\x13', one)), kind(call(b'\x0b', one)))
both = dial()
both.sendall(string(b'\x0b') + string(b'\x13') + string(b'\x0b'))
print([kind(read(both)) for _ in range(3)])
"""
    with Scribe() as scribe:
        done = guest(code, scribe)
        assert done.text == "True 5 1\n12 12 5 12\n[12, 5, 12]\n", (done.text, done.errors)


@test
def a_flood_of_connections_is_one_process_and_bounded():
    code = r"""
import threading
held = []
try:
    for _ in range(400):
        s = socket.socket(socket.AF_UNIX); s.setblocking(False); s.connect(os.environ['SSH_AUTH_SOCK']); held.append(s)
except BlockingIOError:
    pass
print(16 < len(held) < 60 or len(held))
open('ready', 'w').close()
while not os.path.exists('go'): pass
for s in held: s.close()
import time
for _ in range(400):  # the queue empties in its own time
    try: print(len(keys())); break
    except BlockingIOError: time.sleep(0.05)
"""
    with Scribe() as scribe, held("run", "--ssh-agent", "--", "python3", "-c", CLIENT + code, env=scribe.env) as h:
        assert wait_until(lambda: len(readers(h.process)) == 1)
        pid = readers(h.process)[0]
        status = status_of(pid)
        assert int(status["VmRSS"].split()[0]) < 64 * 1024, status["VmRSS"]
        assert IS_ROOT is False or len(os.listdir(f"/proc/{pid}/fd")) <= 3 + 3 + 16, os.listdir(f"/proc/{pid}/fd")
    assert h.process.result.stdout == b"True\n1\n", h.process.result.stdout + h.process.result.stderr


@test
def signatures_without_end_come_to_an_end_and_lists_are_paced():
    code = r"""
k, s, n = keys()[0], dial(), 0
import time
began = time.monotonic()
for _ in range(600): call(b'\x0b', s)
print(time.monotonic() - began > 0.9)
while n < 1200 and kind(call(b'\x0d' + string(k) + string(signed(data=b'%d' % n)) + bytes(4), s)) == 14: n += 1
print(n)
"""
    with Scribe() as scribe:
        done = guest(code, scribe, "--json", timeout=60)
        assert done.json["stdout"] == "True\n1000\n" and done.json["signatures"] == 1000, done.json["stdout"]
        assert scribe.types().count(13) == 1000 and done.errors.count("signed for git") == 1, done.errors


@test
def who_says_no_is_not_asked_without_end():
    """ssh-add -c asks the owner each time, and a command that is told no can ask again at once."""
    code = "k = keys()[0]\nprint({kind(sign(k, signed(data=b'%d' % i))) for i in range(60)})"
    with Scribe(_13=b"\0\0\0\1\5") as scribe:
        assert scribe.client(code) == "{5}\n" and scribe.types().count(13) == 60, "the control: the agent is asked each time"
        scribe.log.write_text("")
        done = guest(code, scribe, "--json")
        assert done.json["stdout"] == "{5}\n" and scribe.types().count(13) == 16, (scribe.types(), done.errors)
        assert {"did not sign" in d["reason"] for d in done.json["denials"] if d["kind"] == "ssh-agent"} == {True, False}, done.json["denials"]


@test
def who_reads_the_messages_can_do_nothing_else():
    with Scribe() as scribe:
        with held("run", "--ssh-agent", "--", "sh", "-c", WAIT, env=scribe.env) as h:
            assert readers(h.process) == [], "nobody is there before somebody asks"
        with held("run", "--ssh-agent", "--", "python3", "-c", CLIENT + f"keys()\nimport subprocess\nsubprocess.call(['sh', '-c', {WAIT!r}])", env=scribe.env) as h:
            assert wait_until(lambda: len(readers(h.process)) == 1)
            pid = readers(h.process)[0]
            status = status_of(pid)
            assert status["Seccomp"].strip() == "2" and status["NoNewPrivs"].strip() == "1" and int(status["CapPrm"], 16) == 0, status
            assert int(status["Uid"].split()[0]) == (uid() or 65534), "root's is nobody"
            if IS_ROOT:
                assert {int(n) for n in os.listdir(f"/proc/{pid}/fd") if int(n) > 2} == {3, 4, 5}, os.listdir(f"/proc/{pid}/fd")
            os.kill(pid, signal.SIGKILL)
            assert wait_until(lambda: not readers(h.process))
        assert h.process.result.status == 0, "and the run goes on without it"


@test(backends=("native", "bwrap"))
def no_socket_of_the_hosts_is_shown():
    code = r"""
import subprocess
found = subprocess.run(['find', '/', '-xdev', '-type', 's'], capture_output=True, text=True).stdout.split() + subprocess.run(['find', '/dev', '/tmp', '/run', '-type', 's'], capture_output=True, text=True).stdout.split()
print(sorted(set(found)), os.environ['SSH_AUTH_SOCK'], os.stat('/dev/shm').st_dev == os.stat(os.environ['SSH_AUTH_SOCK']).st_dev)
"""
    with Agent() as agent:
        done = guest(code, agent)
        assert done.text == "['/dev/shm/brig-ssh-agent'] /dev/shm/brig-ssh-agent True\n", (done.text, done.errors)


@test
def descriptors_sent_along_are_not_kept():
    code = r"""
import array
r, w = os.pipe()
for _ in range(40):
    s = dial()
    s.sendmsg([string(b'\x0b')], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [w] * 50))])
    assert kind(read(s)) == 12
    s.close()
os.close(w)
print(os.read(r, 1))  # the end: nobody else has it
"""
    with Scribe() as scribe:
        assert guest(code, scribe).text == "b''\n"


# A connection with sockets in it of which the first, when it is closed, waits for what it has sent to be taken: nobody will, as long as the others are open.
SLOW = r"""
import array, sys
l = socket.create_server(('127.0.0.1', 0))
a = socket.create_connection(l.getsockname())
b = l.accept()[0]
a.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, int(sys.argv[1])))
a.setblocking(False)
try:
    while True: a.send(bytes(65536))
except BlockingIOError:
    pass
def leave_slow():
    s = dial()
    s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [a.fileno(), b.fileno(), l.fileno()]))])
    os._exit(0)
"""


@test
def a_socket_that_is_slow_to_close_does_not_hold_brig_up():
    """A connection that nobody has accepted yet goes with the listening socket, and its descriptors with it: whoever closes that waits for them."""
    control = r"""
import time
own = socket.socket(socket.AF_UNIX)
own.bind('listener')
own.listen(1)
os.environ['SSH_AUTH_SOCK'] = 'listener'
if os.fork() == 0:
""" + "".join(f"    {line}\n" for line in SLOW.splitlines()) + r"""
    leave_slow()
os.wait()
began = time.monotonic()
own.close()
print(time.monotonic() - began > 1)
"""
    done = brig("run", "--", "python3", "-c", CLIENT + control, "2")
    assert done.text == "True\n", ("the control proves nothing", done.text, done.errors)
    code = CLIENT + SLOW + "open('ready', 'w').close()\nimport time\nwhile not os.path.exists('go'): time.sleep(0.02)\nleave_slow()\n"
    with Scribe() as scribe, held("run", "--ssh-agent", "--", "python3", "-c", code, "3600", env=scribe.env) as h:
        guests = h.guests()
        os.kill(h.process.pid, signal.SIGSTOP)  # so that it learns of the connection and of the end at once
        h.release()
        ended = wait_until(lambda: not alive(guests))
        os.kill(h.process.pid, signal.SIGCONT)
        assert guests and ended, guests
    assert h.process.result.status == 0, h.process.result


@test
def an_agents_odd_answers_are_a_failure_inside():
    for odd in (b"\0\0\0\1\6", b"\0\0\0\5\x0c\0\0\0\1", b"\0\0\0\5\x0c\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\5\x0c\0\0\0\0x", b"\0\1\0\1" + b"\x0c" * 100):
        with Scribe(_11=odd) as scribe:
            done = guest("print(kind(call(b'\\x0b')))", scribe, timeout=20)
            assert done.text == "5\n", (odd[:8], done.text)
    for odd in (b"\0\0\0\1\6", b"\0\0\0\1\5", b"\0\0\0\6\x0e\0\0\0\2x", b"\0\0\0\5\x0e\0\0\0\0"):
        with Scribe(_13=odd) as scribe:
            done = guest("print(kind(sign(keys()[0], signed())))", scribe, "--json", timeout=20)
            assert done.json["stdout"] == "5\n" and done.json["signatures"] == 0, (odd, done.json)


@test(by_root=True)
def another_users_agent_is_refused():
    """By its owner, and by who answers: a socket can be given away, and a link can lead anywhere."""
    with Agent() as agent:
        assert brig("run", "--ssh-agent", "--", "true", env=agent.env).status == 0, "the control: one's own"
        link = scratch() / "link"
        link.symlink_to(agent.socket)
        done = brig("run", "--ssh-agent", "--", "true", env={"SSH_AUTH_SOCK": str(link)})
        assert done.status == 125 and "is a link" in done.errors and "realpath" in done.errors, done.errors
        link.unlink()
        os.link(agent.socket, link)  # a command's socket with a second name elsewhere looks the same
        done = brig("run", "--ssh-agent", "--", "true", env={"SSH_AUTH_SOCK": str(link)})
        assert done.status == 125 and "has a second name" in done.errors, done.errors
        link.unlink()
        assert brig("run", "--ssh-agent", "--", "true", env=agent.env).status == 0
    with files_as_root(), socket.socket(socket.AF_UNIX) as other:
        path = workspace().parent / "other"
        other.bind(str(path))
        other.listen(4)
        for owner, words in (((4343, "belongs to another user"),) if not uid() else ((0, "belongs to another user"), (uid(), "is another user's agent"))):
            os.chown(path, owner, owner)
            os.chmod(path, 0o777)
            done = brig("run", "--ssh-agent", "--", "true", env={"SSH_AUTH_SOCK": str(path)})
            assert done.status == 125 and words in done.errors and "of your own" in done.errors, done.errors
        path.unlink()
        (scratch() / "dead").unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(scratch() / "dead"))
        os.chown(scratch() / "dead", uid(), uid())
        done = brig("run", "--ssh-agent", "--", "true", env={"SSH_AUTH_SOCK": str(scratch() / "dead")})
        assert done.status == 125 and "has no agent behind it" in done.errors, done.errors
        (scratch() / "dead").unlink()


@test
def a_name_that_changes_hands_leads_nowhere_else():
    """The agent is held from the start: what its name means later does not count."""
    with Agent() as agent, Scribe() as scribe:
        code = CLIENT + f"import subprocess\nsubprocess.call(['sh', '-c', {WAIT!r}])\nprint(kind(sign(keys()[0], signed())))"
        with held("run", "--ssh-agent", "--", "python3", "-c", code, env=agent.env) as h:
            os.rename(agent.socket, f"{agent.socket}.old")
            os.link(scribe.socket, agent.socket)
        assert h.process.result.stdout == b"14\n" and scribe.types() == [], (h.process.result, scribe.types())
        os.unlink(agent.socket)
        os.rename(f"{agent.socket}.old", agent.socket)


@test
def the_commands_of_an_open_sandbox_share_what_it_gets():
    """One socket, one count of failures, one record: a command more does not begin anew."""
    folder = workspace()
    (folder / "sign.py").write_text(CLIENT + "k = keys()[0]\nprint([kind(sign(k, d)) for d in [login(k), signed(b'file')] + [signed()] * 10], kind(call(b'\\x13')))\n")
    with Scribe(_13=b"\0\0\0\1\5") as scribe:
        with Sandbox("native", "ssh_agent=git", env=scribe.env) as s:
            said = [s.run(number, "/usr/bin/python3 sign.py")["stdout"] for number in (1, 2, 3)]
        assert said == [f"{[5] * 12} 5\n"] * 3, said
        assert scribe.types().count(13) == 16 and set(scribe.types()) == {11, 13}, scribe.types()
    with Scribe() as scribe, Sandbox("native", "ssh_agent=git", env=scribe.env) as s:
        assert s.run(1, "/usr/bin/python3 sign.py")["stdout"] == f"{[5, 5] + [14] * 10} 5\n"


@test
def a_project_file_cannot_switch_it_on():
    with Agent() as agent:
        for text in ("ssh_agent: git\n", "ssh_agent: auth\n"):
            (workspace() / ".brig.yaml").write_text(text)
            done = brig("run", "--", "true", env=agent.env)
            assert done.status == 125 and "ssh_agent: an untrusted project file may only tighten" in done.errors, done.errors
        (workspace() / ".brig.yaml").write_text("ssh_agent: none\n")
        done = brig("run", "--", "sh", "-c", "echo ${SSH_AUTH_SOCK-none}", env=agent.env)
        assert done.text == "none\n", done.errors
        (workspace() / ".brig.yaml").write_text("ssh_agent: git\n")
        assert brig("allow", env=agent.env).status == 0
        assert guest("print(len(keys()))", agent, word="--json").json["stdout"] == "1\n", "the control: who trusts it has it"


if __name__ == "__main__":
    sys.exit(main())
