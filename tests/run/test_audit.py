#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The record of runs: there on every path, with nothing secret in it, and no run without it."""

import collections
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
import record  # noqa: E402
from harness import PATIENCE, brig_environment, main, scratch, test, uid, workspace  # noqa: E402

TOKEN = "gh" + "p_" + "0123456789abcdefghijABCDEFGHIJ012345"
KILLS = int(os.environ.get("KILLS", "64"))  # 2000 takes a minute
FORCED = ("--policy", "full_access", "--backend", "none", "--i-know-this-is-not-a-sandbox")


def settings(env):
    return {"XDG_CONFIG_HOME": str(scratch() / "config"), **(env or {})}


def brig(*args, env=None, **more):
    return harness.brig(*args, env=settings(env), **more)


def start_brig(*args, env=None, **more):
    return harness.start_brig(*args, env=settings(env), **more)


def state():
    return pathlib.Path(brig_environment()["XDG_STATE_HOME"])


def log():
    return record.folder(state())


def of_type(kind, where=None):
    return [r for r in record.verified(where or log()) if r["type"] == kind]


def config(text):
    path = scratch() / "config" / "brig" / "config.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@test
def every_way_to_end_is_on_the_record():
    ways = [(("--", "true"), "exited", 0),
            (("--", "sh", "-c", "exit 7"), "exited", 7),
            (("--", "sh", "-c", "kill -9 $$"), "signalled", 137),
            (("--timeout", "300ms", "--", "sleep", "60"), "timeout", 124),
            (("--memory", "32m", "--", "tail", "/dev/zero"), "oom", 137),
            (("--", "no-such-command"), "refused", 127),
            (("--", "/etc/passwd"), "refused", 126),
            ((*FORCED, "--", "true"), "exited", 0)]
    for options, outcome, status in ways:
        before = len(record.records(log())) if log().exists() else 0
        done = brig("run", *options)
        assert done.status == status, done
        new = record.verified(log())[before:]
        assert [r["type"] for r in new if not r["type"].startswith("limit")] == ["sandbox.create", "sandbox.exec"], new
        create, end = new[0], new[-1]
        assert (end["outcome"], end["rc"]) == (outcome, status), end
        assert create["run"] == end["run"] and len(end["run"]) == 32
        assert create["policy"] == end["policy"] and len(end["policy"]) == 16
        assert end["argv0"] == options[options.index("--") + 1] and "argv" not in end
        assert end["backend"] == ("none" if options[0] == "--policy" else "native")
        assert end["principal"].split()[0] == f"uid:{uid()}", end
        assert end["duration_ms"] >= 0
    limits = [r["limit"] for r in of_type("limit.hit")]
    assert limits == ["timeout", "memory"], limits


@test
def a_cancelled_run_is_on_the_record():
    p = start_brig("run", "--", "sh", "-c", "echo up; sleep 60")
    assert p.stdout.readline() == b"up\n"
    assert [r["type"] for r in record.records(log())] == ["sandbox.create"]  # before the command could do a thing
    p.send_signal(signal.SIGTERM)
    assert p.wait(20 * PATIENCE) == 143
    end = of_type("sandbox.exec")
    assert [(r["outcome"], r["rc"], r["signal"]) for r in end] == [("cancelled", 143, 15)], end


@test
def a_killed_brig_is_found_by_the_next():
    p = start_brig("run", "--", "sh", "-c", "echo up; sleep 60")
    assert p.stdout.readline() == b"up\n"
    other = start_brig("run", "--", "sh", "-c", "echo up; read x", stdin=subprocess.PIPE)
    assert other.stdout.readline() == b"up\n"
    p.kill()
    p.wait()
    assert of_type("sandbox.exec") == []
    assert brig("run", "--", "true").status == 0
    ends = of_type("sandbox.exec")
    first = of_type("sandbox.create")[0]
    assert [r["outcome"] for r in ends] == ["crashed", "exited"], ends
    assert ends[0]["run"] == first["run"] and ends[0]["policy"] == first["policy"]
    assert (ends[0]["backend"], ends[0]["argv0"], ends[0]["rc"]) == ("native", "sh", 125)
    other.communicate(b"\n")  # who still lives is nobody's dead
    assert brig("run", "--", "true").status == 0
    assert [r["outcome"] for r in of_type("sandbox.exec")] == ["crashed", "exited", "exited", "exited"]


@test(limit=60 + KILLS / 4)
def a_brig_killed_anywhere_leaves_a_sound_record():
    left, dice, living, acknowledged, killed = KILLS, random.Random(1), [], set(), 0
    while left or living:
        while left and len(living) < 32:
            living.append((start_brig("run", "--json", "--", "true", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL),
                           time.monotonic() + (dice.uniform(0, dice.choice((0.008, 0.05, 0.4))) if left % 8 else 60)))  # a run takes so long, here or there
            left -= 1
        for p, end in living[:]:
            if p.poll() is None and time.monotonic() > end:
                p.kill()
            if p.poll() is None:
                continue
            living.remove((p, end))
            told = p.communicate()[0]
            killed += p.returncode == -signal.SIGKILL
            if p.returncode == 0:
                acknowledged.add(json.loads(told)["id"])
        time.sleep(0.001)
    assert brig("run", "--", "true").status == 0  # finds who died
    runs = record.verified(log())
    begun = {r["run"] for r in runs if r["type"] == "sandbox.create"}
    ends = [(r["run"], r["outcome"]) for r in runs if r["type"] == "sandbox.exec"]
    assert len({run for run, _ in ends}) == len(ends), "no run ends twice"
    assert begun <= {run for run, _ in ends}, [r for r in runs if r["run"] in begun - {run for run, _ in ends}]
    odd = [r for r in runs if r["type"] == "sandbox.exec" and r["run"] not in begun]
    assert all(r["outcome"] in ("refused", "failed") and not r["started"] for r in odd), odd
    assert acknowledged <= {run for run, outcome in ends if outcome == "exited"}
    assert brig("audit", "verify").status == 0
    print(f"{killed} killed, {len(acknowledged)} acknowledged, {len(ends)} on the record,"
          f" {sum(outcome == 'crashed' for _, outcome in ends)} of them crashed")
    assert killed and acknowledged, (killed, acknowledged)


@test
def a_refused_request_is_on_the_record():
    assert brig("run", "--policy", "full_access", "--", "true").status == 125
    assert brig("run", "--mount", "/etc:/etc:rw", "--", "true").status == 125
    config("limits:\n  memory: lots\n")
    assert brig("exec", "true").status == 125
    refused = of_type("config.refused")
    assert [(r["command"], r["error"]) for r in refused] == [("run", "policy"), ("exec", "config")], refused
    assert [(r["backend"], r["outcome"], r["error"], r["started"]) for r in of_type("sandbox.exec")] == [("auto", "refused", "policy", False)]
    assert all(r["reason"] for r in refused)


@test
def trusting_a_file_is_on_the_record():
    file = workspace() / ".brig.yaml"
    file.write_text("limits:\n  memory: 4g\n")
    assert brig("allow", str(file)).status == 0
    assert brig("allow", "--revoke", str(file)).status == 0
    changes = of_type("policy.change")
    assert [(r["action"], r["file"]) for r in changes] == [("allow", str(file)), ("revoke", str(file))], changes
    assert len(changes[0]["digest"]) == 64


def hits(secret, done):
    found = [path for path in state().rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    return found + [s for s in (done.stdout, done.stderr) if secret.encode() in s]


@test
def a217_no_secret_reaches_the_record():
    secret = "correct-horse-battery"
    for options in (("--env", f"PASSWORD={secret}", "--", "true"),
                    ("--", "true", secret, f"--password={secret}", f"https://user:{secret}@host/?token={secret}"),
                    ("--", "sh", "-c", f": {secret}"),
                    ("--", "sh", "-c", f"echo {secret} >/dev/null; exit 3")):
        done = brig("run", *options, env={"API_KEY": secret, "BRIG_AUDIT_KEY": None})
        assert done.status in (0, 3), done
        assert not hits(secret, done), (options, hits(secret, done))
    done = brig("run", f"--{secret}", "--", "true")
    assert [p for p in hits(secret, done) if isinstance(p, pathlib.Path)] == [], "a mistyped option"
    config("audit:\n  argv: true\n")
    done = brig("run", "--", "true", TOKEN, f"--password={secret}", "Authorization: Bearer abcdef0123456789", "plain")
    assert not hits(TOKEN, done) and not hits(secret, done)
    assert not hits("abcdef0123456789", done)
    argv = of_type("sandbox.exec")[-1]["argv"]
    assert argv[0] == "true" and argv[1].startswith("[redacted:github:") and argv[-1] == "plain", argv


@test
def a218_names_forge_nothing():
    names = ["x\n{\"seq\":99,\"type\":\"sandbox.exec\"}", "a\"b\\c", "\x1b[2J\x1b]0;t\x07", "\u202etxt.exe", "\u2066a\u2069",
             "tab\there", "\u200bzero", "e\u0301"]
    for name in names:
        before = len(record.records(log())) if log().exists() else 0
        assert brig("run", "--", name).status == 127
        new = record.verified(log())[before:]
        assert [r["type"] for r in new] == ["sandbox.create", "sandbox.exec"], new
        assert [r["argv0"] for r in new] == [name, name]
    raw = b"".join(path.read_bytes() for path in record.segments(log()))
    assert not [b for b in raw if (b < 0x20 and b != 0x0a) or b == 0x7f]
    assert "\u202e".encode() not in raw and "\u2066".encode() not in raw


def small_disk(size="256k"):
    """A file system of its own for the record, with a balloon to fill it."""
    disk = scratch() / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700,uid={uid()},gid={uid()}", "tmpfs", str(disk)],
                   check=True)
    return disk


def fill(disk):
    with open(disk / "balloon", "wb", buffering=0) as f:
        try:
            while f.write(b"x" * 4096):
                pass
        except OSError:
            pass


def empty(disk):
    (disk / "balloon").unlink()


@test(by_root=True)
def a221_no_run_without_a_record():
    disk = small_disk()
    config(f"audit:\n  dir: {disk}/log\n")
    try:
        fill(disk)
        for _ in range(3):
            done = brig("run", "--", "touch", "ran")
            assert done.status == 125 and str(disk).encode() in done.stderr and b"hint:" in done.stderr, done
        assert not (workspace() / "ran").exists()
        told = json.loads(brig("run", "--json", "--", "touch", "ran").stdout)
        assert (told["outcome"], told["error"]["code"]) == ("refused", "unavailable"), told
        empty(disk)
        assert brig("run", "--", "touch", "ran").status == 0  # the control
        assert (workspace() / "ran").exists()
        record.verified(disk / "log")
        os.chmod(disk / "log", 0o777)
        done = brig("run", "--", "rm", "ran")
        assert done.status == 125 and b"written by others" in done.stderr, done
        assert (workspace() / "ran").exists()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def during(disk, on_error, script):
    config(f"audit:\n  dir: {disk}/log\n  on_error: {on_error}\n  argv: true\n")
    words = ["x" * 400] * 20  # so that the end of the run needs a page that is not there
    p = start_brig("run", "--", "sh", "-c", script, *words, stdin=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    fill(disk)
    return p


@test(by_root=True)
def a221_a_disk_that_fills_during_a_run():
    disk = small_disk()
    try:
        p = during(disk, "refuse", "echo up; read x; touch went-on")
        _, err = p.communicate(b"\n", 30 * PATIENCE)
        assert p.returncode == 125 and b"record" in err, (p.returncode, err)
        assert (workspace() / "went-on").exists()
        empty(disk)
        assert brig("run", "--", "true").status == 0
        assert [r["outcome"] for r in of_type("sandbox.exec", disk / "log")] == ["crashed", "exited"]
        p = during(disk, "end", "echo up; sleep 60; touch never")
        begun = time.monotonic()
        _, err = p.communicate(timeout=30 * PATIENCE)  # nobody lets it go on
        assert p.returncode == 125 and b"no room left" in err, (p.returncode, err)
        assert time.monotonic() - begun < 10 * PATIENCE
        assert not (workspace() / "never").exists()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@test
def a224_the_record_is_nothing_to_reach_from_inside():
    beside = state() / "beside"
    beside.mkdir()
    (beside / "seen").write_text("control\n")
    os.chmod(state(), 0o755)
    os.chmod(beside, 0o755)
    assert brig("run", "--", "true").status == 0
    look = f"cat {beside}/seen; ls -A {log()}; cat {log()}/key {log()}/head {log()}/000001.jsonl; true"
    done = brig("run", "--read", str(state()), "--", "sh", "-c", look)
    assert done.stdout == b"control\n", done
    done = brig("run", "--", "sh", "-c", f"ls -A {log()}; ls /proc/self/fd; true")
    assert done.stdout.split() == [b"0", b"1", b"2", b"3"], done  # 3 is the folder being listed
    assert brig("run", "--read", str(log() / "key"), "--", "cat", str(log() / "key")).status == 125
    assert brig("run", "--write", str(log()), "--", "true").status == 125
    config(f"audit:\n  dir: {workspace()}/log\n")
    done = brig("run", "--", "touch", "log/x")
    assert done.status == 125 and b"record" in done.stderr, done
    record.verified(log())
    shutil.rmtree(beside)


@test
def only_who_is_trusted_turns_it_off():
    assert brig("run", "--no-audit", "--", "true").status == 0
    assert not log().exists()
    assert brig("run", "--", "true", env={"BRIG_AUDIT_ENABLED": "false", "BRIG_NO_AUDIT": "1"}).status == 0
    assert len(record.verified(log())) == 2
    (workspace() / ".brig.yaml").write_text("audit:\n  enabled: false\n")
    assert brig("run", "--", "true").status == 125
    assert of_type("config.refused")
    (workspace() / ".brig.yaml").unlink()
    before = len(record.verified(log()))
    config("audit:\n  enabled: false\n")
    assert brig("run", "--", "true").status == 0
    assert len(record.verified(log())) == before


@test
def the_head_goes_to_its_anchors():
    anchor = scratch() / "anchor"
    config(f"audit:\n  anchor: [{anchor}]\n")
    for _ in range(3):
        assert brig("run", "--", "true").status == 0
    key = bytes.fromhex((log() / "key").read_text().strip())
    lines = anchor.read_text().splitlines()
    assert len(lines) == 6 and all(line.startswith("brig-head 1 ") for line in lines), lines
    assert int(lines[-1].split()[3]) == record.head(log(), key)[0] == 6
    config(f"audit:\n  anchor: [{scratch()}/missing/anchor]\n")
    done = brig("run", "--", "touch", "ran")
    assert done.status == 125 and b"audit.anchor" in done.stderr, done
    assert not (workspace() / "ran").exists()
    config("audit:\n  anchor: [ftp://x]\n")
    assert brig("run", "--", "true").status == 125


@test(alone=True, by_root=True)
def the_head_goes_to_the_system_log():
    path = "/dev/log"
    config("audit:\n  anchor: [syslog]\n")
    if os.path.exists(path):  # a real one takes it
        assert brig("run", "--", "true").status == 0
        return
    done = brig("run", "--", "true")
    assert done.status == 125 and b"/dev/log" in done.stderr, done
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(path)
        os.chmod(path, 0o666)
        try:
            assert brig("run", "--", "true").status == 0
            s.settimeout(5 * PATIENCE)
            assert s.recv(512).startswith(b"<110>brig: brig-head 1 ")
        finally:
            os.unlink(path)


@test
def a_key_from_the_environment_stays_there():
    key = "00112233445566778899aabbccddeeff" * 2
    done = brig("run", "--", "env", env={"BRIG_AUDIT_KEY": key})
    assert done.status == 0 and key.encode() not in done.stdout, done
    assert not (log() / "key").exists()
    record.verified(log(), key)
    done = brig("run", "--", "true")  # without it: another key, which cannot go on
    assert done.status == 125 and b"another key" in done.stderr, done
    assert brig("run", "--", "true", env={"BRIG_AUDIT_KEY": key}).status == 0
    record.verified(log(), key)


@test
def many_at_once_make_one_order():
    runs = [start_brig("run", "--", "true") for _ in range(24)]
    codes = [p.wait(60 * PATIENCE) for p in runs]
    said = {p.stderr.read() for p in runs} - {b""}
    for p in runs:
        p.stdout.close()
        p.stderr.close()
    assert codes == [0] * 24, (codes, said)
    done = record.verified(log())
    kinds = collections.Counter(r["type"] for r in done)
    assert len(done) == 48 and len({r["run"] for r in done}) == 24, kinds


@test
def the_same_policy_has_the_same_name():
    assert brig("run", "--", "true").status == 0
    assert brig("run", "--env", "A=1", "--", "false").status == 1
    assert brig("run", "--env", "A=2", "--", "true").status == 0
    assert brig("run", "--memory", "64m", "--", "true").status == 0
    names = [r["policy"] for r in of_type("sandbox.exec")]
    assert names[1] == names[2] and len(set(names)) == 3, names


@test(as_user="root")
def who_came_by_sudo_is_named():
    assert brig("run", "--", "true", env={"SUDO_UID": "1000"}).status == 0
    assert of_type("sandbox.exec")[0]["principal"] == "uid:0 sudo:1000"


@test
def old_records_go_by_themselves():
    key = "0f" * 32
    old = time.time() - 100 * 86400
    log().mkdir(parents=True, mode=0o700)
    record.forge(log(), key, 999, old)
    os.chown(log().parent, uid(), -1)
    for path in (log(), *log().iterdir()):
        os.chown(path, uid(), -1)
    assert len(record.verified(log(), key)) == 999
    assert brig("run", "--", "true", env={"BRIG_AUDIT_KEY": key}).status == 0  # writes the thousandth
    left = record.records(log())
    assert [r["type"] for r in left] == ["sandbox.create", "sandbox.exec", "log.prune"], left[:5]
    assert (left[0]["seq"], left[2]["last"], left[2]["count"], left[2]["reason"]) == (1000, 999, 999, "age"), left[2]
    assert (log() / "base").read_text().split()[3] == "999"


if __name__ == "__main__":
    sys.exit(main())
