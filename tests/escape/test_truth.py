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
import resource
import signal
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import record  # noqa: E402
from harness import FACTOR, brig, descendants, main, scratch, start_brig, state, test, uid, wait_until, workspace  # noqa: E402

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
    assert "evil.test" in {r["host"] for r in written} and len(written) < 64, len(written)


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
    assert not (workspace() / ".bashrc").exists() and not list((workspace() / ".git").glob("hooks/h*"))
    assert len(many.errors.splitlines()) < 200, len(many.errors.splitlines())


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
        p.communicate(timeout=20 * FACTOR)


@test(as_user="user", alone=True)
def descriptors_on_their_way_stop_no_other_run_and_no_lie_comes_of_it():
    assert another_program_can_send(1024)
    with holding("--set", "limits.files=4096") as sent:
        assert sent > 1024 and not another_program_can_send(1024), sent  # the control: asked for, they are used up
        p = limited("run", "--json", "--", "sh", "-c", "echo ran > marker", soft=1024, hard=8192)
        out, err = p.communicate(timeout=20 * FACTOR)
        assert p.returncode == 0 and (workspace() / "marker").read_text() == "ran\n", (out, err)
        (workspace() / "marker").unlink()
        # Where there is no more to be had the run fails before it begins, and says so.
        p = limited("run", "--json", "--", "sh", "-c", "echo ran > marker", soft=1024, hard=1024)
        out, err = p.communicate(timeout=20 * FACTOR)
        assert p.returncode == 125 and json.loads(out)["outcome"] == "failed", (out, err)
        assert "descriptors" in json.loads(out)["error"]["what"], out
    assert not (workspace() / "marker").exists()
    ends = {r["run"]: r["started"] for r in record.verified(log()) if r["type"] == "sandbox.exec"}
    assert ends[json.loads(out)["id"]] is False and list(ends.values()).count(True) == len(ends) - 1, ends


@test(as_user="user", alone=True)
def what_a_run_has_on_its_way_leaves_room_for_the_users_other_programs():
    with holding() as sent:
        assert 0 < sent <= 1024 and another_program_can_send(1024), sent
        with holding() as more:  # it is one count for all of them
            assert more <= 256 and another_program_can_send(1024), (sent, more)


@contextlib.contextmanager
def leased(path):
    """Whoever executes the file waits, and we are told that somebody does; yields how to wait for that."""
    fd = os.open(path, os.O_RDWR)
    signal.signal(signal.SIGIO, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield lambda: signal.sigtimedwait([signal.SIGIO], 20 * FACTOR)
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
    out, err = p.communicate(timeout=20 * FACTOR)
    said = json.loads(out)
    assert (said["outcome"], p.returncode) == ("failed", 125) and said["error"], (out, err)
    assert the_end(said["id"])["started"] is True and "pid_ns" in the_end(said["id"])["layers"], the_end()


@test
def a_run_given_up_with_the_command_on_its_way_has_run():
    with leased(slow_command()) as somebody_executes:
        p = start_brig("run", "--json", "--", "./slow")
        assert somebody_executes()
        p.send_signal(signal.SIGTERM)
        out, err = p.communicate(timeout=20 * FACTOR)
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
    out, err = p.communicate(timeout=20 * FACTOR)
    said = json.loads(out)
    assert (said["outcome"], p.returncode) == ("refused", 127), (out, err)
    assert not (workspace() / ".bashrc").exists()
    assert [d["target"] for d in said["denials"]] == [".bashrc"] and b".bashrc" in err, (out, err)
    assert [r["target"] for r in record.verified(log()) if r["type"] == "access.deny"] == [".bashrc"]


FORCED = ("--policy", "full_access", "--backend", "none", "--i-know-this-is-not-a-sandbox")
WARDENS = """
import os, signal, sys, time
lower = os.getppid()
upper = int(open('/proc/%d/stat' % lower).read().rpartition(')')[2].split()[1])
"""


@test
def a_command_that_kills_its_wardens_does_not_choose_how_it_ended():
    """Without a sandbox it may; the result does not say that the command ended by itself."""
    ways = {"upper": "os.kill(upper, 9)", "lower": "os.kill(lower, 9)", "lower, asked": "os.kill(lower, 15)", "upper, asked": "os.kill(upper, 15)",
            "upper, the lower stopped": "os.kill(lower, 19); os.kill(upper, 9)",
            "lower, asked twice": "os.kill(lower, 1); os.kill(lower, 2)", "both": "os.kill(lower, 19); os.kill(upper, 9); os.kill(lower, 9)"}
    control = brig("run", *FORCED, "--json", "--", "python3", "-c", WARDENS + "os.kill(os.getpid(), 9)")
    assert (control.json["outcome"], control.status) == ("signalled", 137), control.json
    for name, way in ways.items():
        done = brig("run", *FORCED, "--json", "--", "python3", "-c", WARDENS + way + "\ntime.sleep(20)", str(workspace()))
        assert (done.json["outcome"], done.status, done.json["signal"]) == ("failed", 125, None), (name, done.json)
        assert "warden" in done.json["error"]["what"], (name, done.json["error"])
        assert the_end(done.json["id"])["started"] is True, name
        assert name == "both" or not [pid for pid, line in commands().items() if str(workspace()).encode() in line], name


def commands():
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found[entry.parent.name] = entry.read_bytes()
    return found


if __name__ == "__main__":
    main()
