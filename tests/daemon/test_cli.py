#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""brig daemon and brig sandbox, as people type them."""

import contextlib
import fcntl
import io
import json
import os
import pathlib
import pty
import select
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import daemon, daemon_with_tokens  # noqa: E402
from harness import (PATIENCE, brig, brig_argv, brig_environment, brig_path, descendants, files_as_root, main, runtime, scratch, shown_on, start_brig, state, test, uid,  # noqa: E402
                     wait_until, workspace)


@contextlib.contextmanager
def client(*args, **more):
    """A daemon, and a function that calls `brig sandbox` as its client."""
    with daemon(*args, **more) as d:
        def sandbox(*words, **how):
            return brig("sandbox", *words, env={"BRIG_HOST": f"unix://{d.path}"}, **how)
        yield d, sandbox


@test
def a_strangers_project_reaches_no_kept_folder_of_trusted_runs():
    """What is sent does not say who wrote it. The control is the same file once it is trusted."""
    with client() as (_, sandbox):
        assert brig("run", "--volume", "d:/data", "--", "sh", "-c", "echo mine > /data/word").status == 0
        (workspace() / ".brig.yaml").write_text("limits: {pids: 100}\n")
        for words in (("--volume", "d:/data"), ("--cache", "npm"), ("--home", "keep")):
            done = sandbox("create", *words)
            assert done.status == 125 and words[0] in done.errors and "brig allow" in done.errors, done.errors
        assert sandbox("create").status == 0  # nothing else is kept from it
        assert brig("allow").status == 0
        box = sandbox("create", "--volume", "d:/data").text.strip()
        assert sandbox("exec", box, "--", "cat", "/data/word").text == "mine\n"
        assert sandbox("delete", box).status == 0 and brig("volume", "rm", "d").status == 0


@test
def a_list_keeps_its_columns_apart_and_says_how_old_and_why():
    with client() as (d, sandbox):
        long = "a" + "very-" * 12 + "zz"
        assert sandbox("create", "--name", long, "--label", "team=red", "--label", "x=y").status == 0
        assert sandbox("create", "--name", "b").status == 0 and sandbox("stop", "--grace", "0s", "b").status == 0
        head, *rows = (line.split() for line in sandbox("list").text.splitlines())
        assert head == ["ID", "NAME", "STATE", "BACKEND", "RUNNING", "AGE", "FOLDER", "LABELS"], head
        rows = {row[1]: row for row in rows}
        assert rows[long][2:5] == ["ready", "native", "0"] and rows[long][5][-1] == "s" and rows[long][6] == str(workspace()) and sorted(rows[long][7:]) == ["team=red", "x=y"], rows
        assert rows["b"][2:5] == ["stopped", "native", "0"] and rows["b"][5][-1] == "s", rows  # its reason says the same
        lines = sandbox("list").text.splitlines()
        assert len({line.index(word) for line, word in zip(lines, ("STATE", "ready", "stopped") if "ready" in lines[1] else ("STATE", "stopped", "ready"))}) == 1, lines
        assert json.loads(sandbox("get", long).text)["name"] == long  # into a pipe
        shown = dict(line.split(None, 1) for line in on_a_terminal(d, "get", "--quiet", long).decode().splitlines())
        assert shown["name"] == long and shown["state"] == "ready" and shown["backend"] == "native" and "ago)" in shown["created"], shown


@test
def the_list_of_runs_says_which_sandbox_is_which():
    (scratch() / "own.yaml").write_text("brig: 1\ncompanions: {db: {command: [sleep, '60']}}\n")
    with client() as (_, sandbox):
        made = [sandbox("create", *words).text.split()[0] for words in (("--name", "mine"), (), ("--name", "beside", "--config", scratch() / "own.yaml"))]
        assert sandbox("exec", "mine", "--", "true").status == 0
        assert sandbox("stop", "--grace", "0s", "mine").status == 0 and sandbox("update", "mine", "--name", "yours").status == 0 and sandbox("resume", "yours").status == 0
        names = {r["name"] for r in brig("audit", "runs", "--json").json}
        assert names == {"mine", "yours", made[1], "beside", "beside/db"}, (names, made)


@test
def how_long_it_may_idle_is_taken_from_a_file_and_an_option_wins():
    with client() as (d, sandbox):
        (scratch() / "own.yaml").write_text("brig: 1\nidle_ttl: 2h\n")
        for name, words, ms in (("file", (), 7200000), ("option", ("--idle-ttl", "3h"), 10800000)):
            made = sandbox("create", "--name", name, "--config", scratch() / "own.yaml", *words)
            assert made.status == 0, made.errors
            assert d.call("GET", f"/v1/sandboxes/{made.text.strip()}").json["idle_ttl_ms"] == ms


@test
def a_sandbox_is_made_used_and_deleted():
    with client() as (d, sandbox):
        (workspace() / "file").write_text("seen\n")
        made = sandbox("create", "--name", "one", "--label", "a=b", "--memory", "128m")
        assert made.status == 0 and made.text.startswith("sb_"), made.errors
        assert sandbox("exec", "one", "--", "cat", "file").text == "seen\n"
        assert sandbox("exec", "one", "cat", input=b"typed").text == "typed"
        wrote = sandbox("exec", "one", "--", "sh", "-c", "echo out; echo err >&2; exit 9")
        assert (wrote.status, wrote.text, wrote.errors) == (9, "out\n", "err\n")
        assert sandbox("exec", "one", "--", "sh", "-c", "kill -9 $$").status == 137
        missing = sandbox("exec", "one", "--", "no-such-program")
        assert missing.status == 127 and "hint: " in missing.errors, missing.errors
        assert sandbox("exec", "one", "--", "/etc").status == 126
        late = sandbox("exec", "one", "--timeout", "100ms", "--", "sleep", "60")
        assert late.status == 124 and "timed out" in late.errors, late.errors
        assert sandbox("exec", "one", "-e", "A=b c", "--cwd", "/tmp", "--", "sh", "-c", "echo $A; pwd").text == "b c\n/tmp\n"
        done = sandbox("exec", "one", "--json", "--", "sh", "-c", "echo x; exit 3")
        assert done.status == 3 and done.json["stdout"] == "x\n" and done.json["exit_code"] == 3, done.text
        shown = json.loads(sandbox("get", "one").text)
        assert shown["spec"]["limits"]["memory"] == "128m" and shown["labels"] == {"a": "b"}, shown
        assert "one" in sandbox("list").text and sandbox("list", "--json").json["sandboxes"][0]["name"] == "one"
        assert "seen" in sandbox("logs", "one").text
        happened = [json.loads(line) for line in sandbox("events", "one").text.splitlines()]
        assert [e["seq"] for e in happened] == list(range(1, len(happened) + 1)) and happened[2]["type"] == "sandbox.ready"
        assert sandbox("update", "one", "--name", "two").status == 0 and sandbox("exec", "two", "true").status == 0
        assert sandbox("stop", "two").status == 0
        refused = sandbox("exec", "two", "true")
        assert refused.status == 125 and refused.errors.startswith("brig: ") and "resume" in refused.errors, refused.errors
        assert sandbox("prune", "--dry-run").text == made.text and sandbox("prune").text == made.text
        assert sandbox("list").text == ""
        gone = sandbox("get", "two")
        assert gone.status == 125 and "two" in gone.errors, gone.errors



@test
def what_a_stop_drops_is_said_when_the_sandbox_is_made():
    with client() as (_d, sandbox):
        made = sandbox("create", "--name", "n", "--set", "limits.tmp=64m")
        assert made.status == 0 and made.text.startswith("sb_") and "brig: note: limits.tmp is set: HOME and /tmp are in memory" in made.errors, made
        assert "so is what was in memory: HOME and /tmp" in sandbox("stop", "n").errors
        for word in ("--quiet", "--json"):
            made = sandbox("create", word, "--set", "limits.tmp=64m")
            assert made.status == 0 and not made.errors, made.errors


def copied_slowly(d, box, watch, pieces):
    """Copies an archive piece by piece until `watch` sees something, at most so many; what was on stderr, and how many pieces it took."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        entry = tarfile.TarInfo("zeros")
        entry.size = 4 << 20
        tar.addfile(entry, io.BytesIO(bytes(entry.size)))
    left = archive.getvalue()
    reads, writes = pty.openpty() if watch else os.pipe()
    p = start_brig("sandbox", "cp", "-", f"{box}:/tmp", env={"BRIG_HOST": f"unix://{d.path}"}, stdin=subprocess.PIPE, stderr=writes)
    os.close(writes)
    os.set_blocking(reads, False)
    said, took = b"", 0
    while took < pieces and b"copying" not in said:
        p.stdin.write(left[:4096])
        p.stdin.flush()
        left, took = left[4096:], took + 1
        select.select([reads], [], [], 0.05)
        with contextlib.suppress(BlockingIOError):
            said += os.read(reads, 4096)
    p.stdin.write(left)
    p.stdin.close()
    os.set_blocking(reads, True)
    with contextlib.suppress(OSError):
        while piece := os.read(reads, 4096):
            said += piece
    os.close(reads)
    assert p.wait() == 0, said
    return said, took


@test
def a_long_copy_says_how_far_it_is_on_a_terminal_and_nowhere_else():
    with client() as (d, sandbox):
        box = sandbox("create").text.strip()
        said, took = copied_slowly(d, box, True, 1000)
        assert b"\r\x1b[Kcopying: 0." in said and said.endswith(b"\r\x1b[K"), said
        assert copied_slowly(d, box, False, took + 2) == (b"", took + 2)


@test
def a_command_is_told_what_its_door_denied():
    with client() as (_, sandbox):
        assert sandbox("create", "--name", "one", "--allow", "one.example").status == 0
        ask = ["--", "curl", "-s", "-m", "30", "https://other.example/"]
        for _ in range(2):  # the second time it is no news to the sandbox
            denied = sandbox("exec", "one", "--json", *ask).json["denials"]
            assert [d["target"] for d in denied] == ["other.example:443"] and "--allow" in denied[0]["reason"], denied
        done = sandbox("exec", "one", "--json", "--", "true")
        assert done.json["denials"] == [] and not done.errors, done.errors
        # People see it, too, as brig run says it.
        said = sandbox("exec", "one", *ask).errors
        assert "brig: refused: other.example:443 (--allow other.example)" in said, said
        assert sandbox("exec", "one", "--quiet", *ask).errors == ""
        # The door is the sandbox's, and so is the record of what it decided: the command's leads there.
        ran = sandbox("exec", "one", "--json", *ask).json["id"]
        of = sandbox("get", "one", "--json").json["run"]
        told = brig("audit", "show", ran).text
        assert f"sandbox     {of}, where" in told and "denials     0, besides those of its sandbox\n" in told, told
        told = brig("audit", "show", of).text
        assert "DENIED" in told and "other.example:443" in told and "besides" not in told, told
        assert sandbox("create", "--name", "none").status == 0
        said = sandbox("exec", "none", *ask).errors
        assert "it had no network: " in said and "(other.example)" in said and "--allow HOST" in said and said.count("other.example") == 1, said
        assert sandbox("stop", "none").status == 0
        said = sandbox("exec", "none", "--", "true").errors
        assert "is stopped" in said and "hint: brig sandbox resume" in said, said


@test
def a_command_is_told_why_it_may_have_failed_as_by_a_run():
    subprocess.run(["git", "init", "-q", workspace()], check=True)
    lines = ("echo x >> .git/config", "python3 -c \"open('.git/hooks/x', 'w')\"", "ping -c1 127.0.0.1 || { echo 'ping: socket: x' >&2; exit 2; }",
             "echo fine", "echo 'Too many open files' >&2; exit 1", "echo x > /usr/x")
    with client() as (_, sandbox):
        assert sandbox("create", "--name", "one").status == 0
        for line in lines:
            run, there = brig("run", "--", "sh", "-c", line), sandbox("exec", "one", "--", "sh", "-c", line)
            of = [[x for x in done.errors.splitlines() if x.startswith(("brig", "hint"))] for done in (run, there)]
            assert of[0] == of[1] and bool(of[0]) == (line != "echo fine"), (line, of)
            told = sandbox("exec", "one", "--json", "--", "sh", "-c", line).json
            assert told["hints"] == brig("run", "--json", "--", "sh", "-c", line).json["hints"], (line, told)
            assert [f"hint: {h}" for h in told["hints"]] == [x for x in of[1] if x.startswith("hint")], (line, told)
            assert sandbox("exec", "one", "--quiet", "--", "sh", "-c", line).errors.count("hint:") == 0


@test
def files_that_commands_make_can_be_read_as_those_of_a_run():
    """The daemon keeps its own files to itself (umask 077); what is made in the workspace is the user's."""
    with client() as (d, sandbox):
        for backend in ("native", "bwrap"):
            assert sandbox("create", "--name", backend, "--backend", backend).status == 0
            done = sandbox("exec", backend, "--", "sh", "-c", f"umask; touch {backend}; mkdir {backend}.d")
            assert done.text == "0022\n", (backend, done)
            modes = [stat.S_IMODE((workspace() / name).stat().st_mode) for name in (backend, f"{backend}.d")]
            assert modes == [0o644, 0o755], (backend, [oct(m) for m in modes])
            assert sandbox("stop", backend).status == 0 and sandbox("resume", backend).status == 0
            assert sandbox("exec", backend, "--", "sh", "-c", "umask").text == "0022\n", backend
        with files_as_root():
            ours = {p: p.lstat().st_mode & 0o077 for p in (state() / "brig/daemon").rglob("*") if "store" not in p.relative_to(state()).parts}
        assert len(ours) > 4 and not any(ours.values()), ours


@test
def what_failed_prints_no_name_and_an_empty_list_says_so():
    with client() as (d, sandbox):
        failed = sandbox("create", "--backend", "docker", "--image", "no/such:image", "--set", "docker.host=unix:///no/such/socket")
        assert failed.status == 125 and failed.text == "" and failed.errors.startswith("brig: "), (failed.text, failed.errors)
        shown = sandbox("list", "--json").json["sandboxes"]
        assert all(s["id"] in failed.errors for s in shown), (shown, failed.errors)
        for s in shown:
            assert sandbox("delete", s["id"]).status == 0
        assert sandbox("list").text == "" and b"there are none" in on_a_terminal(d, "list")


@test
def words_that_make_no_sense_are_refused_with_a_next_step():
    with client() as (d, sandbox):
        for words, said in ((("creat",), "create"), (("show", "x"), "brig sandbox get"), (("rm", "x"), "brig sandbox delete"), ((), "brig sandbox --help"), (("get",), "usage: "), (("get", "a/b"), "neither an id nor a name"),
                            (("list", "--nmae", "x"), "does not accept"), (("exec", "x"), "usage: "), (("create", "--label", "x"), "KEY=VALUE"),
                            (("create", "--", "true"), "takes no command"), (("create", "--memry", "1g"), "--memory"), (("delete",), "ID"),
                            (("delete", "x", "--label", "a=b"), "not both"), (("exec", "none", "true"), "none")):
            refused = sandbox(*words)
            assert refused.status == 125 and said in refused.errors, (words, refused.errors)
        failed = sandbox("create", "--backend", "ssh")
        assert failed.status == 125, failed.errors
        assert not brig("sandbox", "--help").errors and "create" in brig("sandbox", "--help").text


@test
def what_failed_says_all_that_is_known_and_keeps_it():
    with client() as (d, sandbox):
        (scratch() / "c.yaml").write_text('brig: 1\ncompanions:\n  db:\n    command: [sh, -c, "echo first; echo cannot bind >&2; exit 3"]\n'
                                         '    healthcheck: {test: [CMD, "false"], interval: 100ms, retries: 100}\n')  # else it may be ready before it ends
        made = sandbox("create", "--name", "db", "--config", scratch() / "c.yaml")
        assert made.status == 125 and "last words of its command: first" in made.errors, made.errors
        assert made.errors.count("is not ready") == 1 and "hint: brig sandbox logs" in made.errors, made.errors
        kept = sandbox("logs", "db")
        assert kept.status == 0 and kept.text == "" and "last words of its command: first" in kept.errors and "is not ready" in kept.errors, kept.errors
        (log,) = (state() / "brig/daemon/sandboxes").glob("*/log")
        with log.open("a") as f:
            f.writelines(f"word {i} {'x' * 90}\n" for i in range(2400))  # nearly as much as a monitor writes
        kept = sandbox("logs", "db")
        assert kept.errors.count("brig: note: word ") == 2400 and "is not ready" in kept.errors, kept.errors[-300:]
        again = sandbox("create", "--name", "db")
        assert again.status == 125 and "brig sandbox delete db" in again.errors, again.errors


@test
def a_companion_that_is_looked_for_is_no_missing_network():
    with client() as (d, sandbox):
        (scratch() / "c.yaml").write_text('brig: 1\ncompanions: {db: {command: [sleep, "1000"]}}\n')
        assert sandbox("create", "--name", "one", "--config", scratch() / "c.yaml").status == 0
        found = sandbox("exec", "one", "--", "getent", "hosts", "db")  # asks for an address of IPv6 first
        assert found.text.split() == ["198.19.254.2", "db"] and found.errors == "", found.errors
        other = sandbox("exec", "one", "--", "getent", "hosts", "db.example.org")
        assert other.status == 2 and other.text == "", (other.text, other.errors)  # its resolver knows members alone, and says so


@test
def a_client_whose_daemon_is_killed_says_where_its_command_is():
    with client() as (d, sandbox):
        assert sandbox("create", "--name", "one").status == 0
        p = start_brig("sandbox", "exec", "one", "--", "sh", "-c", "echo up; sleep 2; echo done", env={"BRIG_HOST": f"unix://{d.path}"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert p.stdout.readline() == b"up\n"
        d.stop(signal.SIGKILL)
        errors = p.communicate(timeout=60)[1].decode()
        assert p.returncode == 125 and "hint: the command goes on: brig sandbox logs -f one ex_" in errors, errors
        d.start()
        line = errors.split("brig sandbox ")[1].split()
        assert sandbox(*line).text == "up\ndone\n"


COUNTS = "i=0; while [ $i -lt 50 ]; do i=$((i+1)); echo out $i; echo err $i >&2; sleep 0.05; done; exit 7"
# Two commands run at a time: the first to end is told that it was not judged yet.
LATER = "brig: what it left in the workspace is looked at when the last command in the sandbox has ended\n"
COUNTED = tuple("".join(f"{word} {i + 1}\n" for i in range(50)) for word in ("out", "err"))


@test
def what_a_client_follows_goes_on_with_the_next_daemon():
    with client() as (d, sandbox):
        env = {"BRIG_HOST": f"unix://{d.path}"}
        box = sandbox("create", "--name", "one").text.strip()
        made = json.loads(sandbox("events").text.splitlines()[-1])["seq"]
        events = start_brig("sandbox", "events", "-f", "--since", str(made), "one", env=env)
        plain = start_brig("sandbox", "exec", "one", "--", "sh", "-c", COUNTS, env=env, bufsize=0)
        first = plain.stdout.readline()
        exec_id = sandbox("execs", "--json", "one").json["execs"][0]["id"]
        followed = start_brig("sandbox", "logs", "-f", "one", exec_id, env=env, bufsize=0)
        result = start_brig("sandbox", "exec", "--json", "one", "--", "sh", "-c", COUNTS, env=env)
        assert followed.stdout.readline() == b"out 1\n"
        wait_until(lambda: sandbox("get", "--json", "one").json["execs_running"] == 2)
        for _ in range(3):  # no byte is lost, and none comes twice
            d.restart(signal.SIGKILL)
        out, errors = plain.communicate(timeout=60)
        assert ((first + out).decode(), errors.decode().removesuffix(LATER), plain.returncode) == (*COUNTED, 7), (plain.returncode, first + out, errors)
        out, errors = followed.communicate(timeout=60)
        assert ("out 1\n" + out.decode(), errors.decode(), followed.returncode) == (*COUNTED, 0), (followed.returncode, out, errors)
        out = json.loads(result.communicate(timeout=60)[0])
        assert (out["stdout"], out["stderr"], result.returncode) == (*COUNTED, 7), out
        assert sandbox("delete", "one").status == 0
        lines = []
        while not lines or lines[-1]["type"] != "sandbox.deleted":
            lines.append(json.loads(events.stdout.readline()))
        events.kill()
        events.communicate()
        kept = [json.loads(line) for line in sandbox("events").text.splitlines()]
        kept = [e for e in kept if e["sandbox"] == box and e["seq"] > made]
        assert lines == kept and [e["type"] for e in lines].count("exec.finished") == 2, (lines, kept)


@test
def input_goes_on_with_the_next_daemon_or_is_said_to_be_lost():
    with client() as (d, sandbox):
        env = {"BRIG_HOST": f"unix://{d.path}"}
        assert sandbox("create", "--name", "one").status == 0
        cat = start_brig("sandbox", "exec", "one", "--", "sh", "-c", "cat; exit 3", env=env, stdin=subprocess.PIPE)
        for word in (b"before\n", b"behind\n", b"again\n"):
            cat.stdin.write(word)
            cat.stdin.flush()
            assert cat.stdout.readline() == word
            d.restart(signal.SIGKILL)
        out, errors = cat.communicate(timeout=60)
        assert (out, errors, cat.returncode) == (b"", b"", 3), (out, errors, cat.returncode)

        cat = start_brig("sandbox", "exec", "one", "--", "cat", env=env, stdin=subprocess.PIPE)
        cat.stdin.write(b"known\n")
        cat.stdin.flush()
        assert cat.stdout.readline() == b"known\n"
        d.process.send_signal(signal.SIGSTOP)  # it takes the next, and never says so
        cat.stdin.write(b"unknown\n")
        cat.stdin.flush()
        wait_until(lambda: is_empty(cat.stdin))
        d.restart(signal.SIGKILL)
        out, errors = cat.communicate(timeout=60)
        assert cat.returncode == 125 and b"nobody knows whether 8 bytes of it have reached the command" in errors, errors
        line = errors.decode().split("brig sandbox ")[1].split()[:3]
        assert line[0] == "cancel" and sandbox(*line).status == 0, line
        wait_until(lambda: sandbox("get", "--json", "one").json["execs_running"] == 0)


def is_empty(pipe):
    return fcntl.ioctl(pipe, termios.FIONREAD, b"\0\0\0\0") == b"\0\0\0\0"


@test
def a_client_starts_a_daemon_in_place_of_one_that_was_killed_but_not_of_one_that_was_stopped():
    def sandbox(*words):
        return brig("sandbox", *words)

    def pid():
        return brig("daemon", "status", "--json").json["pid"]
    assert sandbox("create", "--name", "one").status == 0
    p = start_brig("sandbox", "exec", "one", "--", "sh", "-c", COUNTS)
    assert p.stdout.readline() == b"out 1\n"
    first = pid()
    with files_as_root():
        os.kill(first, signal.SIGKILL)
    out, errors = p.communicate(timeout=60)
    assert ("out 1\n" + out.decode(), errors.decode(), p.returncode) == (*COUNTED, 7), (p.returncode, out, errors)
    assert pid() != first
    p = start_brig("sandbox", "exec", "one", "--", "sh", "-c", "echo up; sleep 100")
    assert p.stdout.readline() == b"up\n"
    assert brig("daemon", "stop").status == 0
    errors = p.communicate(timeout=60)[1].decode()
    assert p.returncode == 125 and "hint: the command goes on: brig sandbox logs -f one ex_" in errors, errors
    gone = brig("daemon", "status")
    assert gone.status == 125 and "no daemon runs" in gone.errors, gone.errors
    assert sandbox("delete", "one").status == 0 and brig("daemon", "stop").status == 0


@test(by_root=True)
def a_full_disk_is_not_a_sandbox_that_was_lost():
    disk = scratch() / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=16m,mode=700,uid={uid()},gid={uid()}", "tmpfs", str(disk)], check=True)
    try:
        with client(env={"XDG_STATE_HOME": str(disk)}) as (d, sandbox):
            box = sandbox("create", "--name", "one").text.strip()
            assert sandbox("exec", "one", "--", "echo", "control").text == "control\n"
            with open(disk / "balloon", "wb", buffering=0) as f, contextlib.suppress(OSError):
                while f.write(b"x" * 4096):
                    pass
            full = sandbox("exec", "one", "--", "echo", "seen")
            assert full.status == 125 and "has ended with status 0" in full.errors and "disk full" in full.errors, full.errors
            assert d.call("GET", f"/v1/sandboxes/{box}").json["state"] == "ready"
            refused = sandbox("create", "--name", "two")
            assert refused.status == 125 and "No space left" in refused.errors, refused.errors
            (disk / "balloon").unlink()
            assert sandbox("exec", "one", "--", "echo", "again").text == "again\n"
            assert [b["id"] for b in d.call("GET", "/v1/sandboxes").json["sandboxes"]] == [box]
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@test
def the_commands_of_a_sandbox_are_listed_signalled_and_cancelled():
    with client() as (d, sandbox):
        sandbox("create", "--name", "one")
        first = sandbox("exec", "-d", "one", "--", "sh", "-c", "trap 'echo told' USR1; echo up; setsid sleep 98765 & while :; do sleep .05; done").text.strip()
        assert wait_until(lambda: "up" in sandbox("logs", "one", first).text, 30)
        assert sandbox("exec", "one", "--", "sh", "-c", "exit 3").status == 3
        rows = sandbox("execs", "one").text.splitlines()
        assert rows[0].split() == ["EXEC", "STATE", "STATUS", "COMMAND"] and [r.split()[1:4] for r in rows[1:]] == [["running", "-", "sh"], ["ended", "3", "sh"]], rows
        assert len(json.loads(sandbox("execs", "one", "--json").text)["execs"]) == 2
        assert sandbox("cancel", "one", first, "--signal", "USR1").status == 0
        assert wait_until(lambda: "told" in sandbox("logs", "one", first).text, 30)
        assert sandbox("exec", "one", "--", "pgrep", "-f", "sleep 98765").status == 0
        some = sandbox("cancel", "one", "ex_no", first, "ex_none")
        assert some.status == 125 and some.text == f"{first}\n" and "'ex_no'" in some.errors and "'ex_none'" in some.errors, some.errors
        assert wait_until(lambda: "cancelled" in sandbox("execs", "one").text, 30)
        assert sandbox("exec", "one", "--", "pgrep", "-f", "sleep 98765").status == 1
        for words in (("cancel", "one", "ex_no"), ("cancel", "one", "../../one"), ("logs", "one", "ex_no"), ("cancel", "one", first, "--signal", "NONE")):
            a = sandbox(*words)
            assert a.status == 125 and a.text == "" and "there is no " in a.errors, (words, a.errors)


@test
def one_that_is_wrong_keeps_none_of_the_others_and_labels_that_are_not_named_stay():
    with client() as (d, sandbox):
        for name in ("one", "two"):
            assert sandbox("create", "--name", name, "--label", "team=red", "--label", "old=1").status == 0
        assert sandbox("update", "one", "--label", "new=2", "--label", "old=").status == 0
        assert d.call("GET", "/v1/sandboxes/one").json["labels"] == {"team": "red", "new": "2"}
        assert sandbox("update", "one").status == 125
        none = sandbox("delete", "--label", "team=blue")
        assert none.status == 0 and none.text == "" and "nothing was deleted" in none.errors, none.errors
        a = sandbox("pause", "no-such", "one", "nor-this", "two")
        assert a.status == 125 and a.text.split() == ["one", "two"] and "'no-such'" in a.errors and "'nor-this'" in a.errors, (a.text, a.errors)
        a = sandbox("delete", "no-such", "one", "nor-this", "two")
        assert a.status == 0 and a.text.split() == ["one", "two"] and "'no-such': nothing was deleted" in a.errors, "what is not there is as it should be"
        assert d.call("GET", "/v1/sandboxes").json["sandboxes"] == []


@test
def what_is_wrong_with_a_path_is_said_with_the_next_step():
    with client() as (d, sandbox):
        sandbox("create", "--name", "one")
        (scratch() / "file").write_text("x")
        for words in (("cp", scratch() / "file", "one:/tmp/no/such/file"), ("files", "mkdir", "one:/tmp/no/such"), ("cp", "-", "one:/tmp/no")):
            a = sandbox(*words, input=b"")
            assert a.status == 125 and "files mkdir -r" in a.errors, (words, a.errors)
        assert sandbox("files", "mkdir", "-r", "one:/tmp/a/b").status == 0
        assert "hint: -r" in sandbox("files", "remove", "one:/tmp/a").errors
        assert sandbox("cp", scratch() / "file", "one:/tmp/file").status == 0
        assert "--force" in sandbox("files", "move", "one:/tmp/file", "/tmp/a").errors
        late = sandbox("exec", "one", "--timeout", "1x", "--", "true")
        assert late.status == 125 and "hint: such as 500ms" in late.errors, late.errors


@test
def a_terminal_is_passed_on_and_ends_with_the_command():
    with client() as (d, sandbox):
        assert sandbox("create", "--name", "t").status == 0
        main_end, other = pty.openpty()
        p = start_brig("sandbox", "exec", "-t", "t", "--", "sh", "-c", "tty; stty size; read x; echo got $x",
                       env={"BRIG_HOST": f"unix://{d.path}"}, stdin=other, stdout=other, stderr=other)
        os.close(other)
        got = b""
        while b"\n" not in got.partition(b"/dev/")[2].partition(b"\n")[2]:
            got += os.read(main_end, 4096)
        os.write(main_end, b"hello\r")
        got += shown_on(main_end)
        assert p.wait(20 * PATIENCE) == 0 and b"got hello" in got and b"/dev/pts" in got, got


@test
def a_shell_at_a_terminal_is_named_by_shell():
    with client() as (d, sandbox):
        assert sandbox("create", "--name", "t").status == 0
        for words, shell in ((("bash",), b"[/bin/bash]"), (("--env", "SHELL=/bin/x", "--", "bash"), b"[/bin/x]"), (("--", "/usr/bin/bash"), b"[/usr/bin/bash]"), (("sh",), b"[/bin/sh]")):
            main_end, other = pty.openpty()
            words = words if "--" in words else ("--", *words)
            p = start_brig("sandbox", "exec", "-t", "t", *words, "-c", 'echo "[$SHELL]"', env={"BRIG_HOST": f"unix://{d.path}"}, stdin=other, stdout=other, stderr=other)
            os.close(other)
            got = shown_on(main_end)
            assert p.wait(20 * PATIENCE) == 0 and shell in got, (words, got)


def on_a_terminal(d, *args):
    """What a terminal gets of it."""
    main_end, other = pty.openpty()
    p = start_brig("sandbox", *args, env={"BRIG_HOST": f"unix://{d.path}"}, stdin=subprocess.DEVNULL, stdout=other, stderr=other)
    os.close(other)
    got = shown_on(main_end)
    p.wait(20 * PATIENCE)
    return got


@test
def a_command_cannot_steer_the_terminal_of_who_looks_at_it():
    evil = r"\033]52;c;ZXZpbA==\007\033]0;title\007\033[6n\033[5i\033[31mred\033[0m\302\2332J"
    with client() as (d, sandbox):
        assert sandbox("create", "--name", "v").status == 0
        seen = [on_a_terminal(d, "exec", "v", "--", "sh", "-c", f"printf '{evil}'; printf '{evil}' >&2"), on_a_terminal(d, "logs", "v")]
        for got in seen:
            assert got.count(b"\033[31mred") == 2, got
            for word in (b"\033]", b"\033[6n", b"\033[5i", b"\302\233"):
                assert word not in got, (word, got)
        # Into a file it is what the command wrote.
        assert "\033]52;c;" in sandbox("logs", "v").text


LISTEN = """
import socket
import stat
s = socket.socket(socket.AF_UNIX)
s.bind("brig.sock")
s.listen()
print("up", flush=True)
c, _ = s.accept()
got = c.recv(65536)
print(len(got), flush=True)
c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: 16\\r\\n\\r\\n" + b'{"sandboxes":[]}')
"""


@test
def a_guest_cannot_play_the_daemon():
    env = {"BRIG_HOST": f"unix://{workspace() / 'brig.sock'}"}
    become = [w for w in brig_argv() if not w.endswith("/brig")]
    # "where it could": an old kernel does not tell that the number of who listens there is another's by now.
    for guest in (None, "a guest", "where it could"):
        with start_brig("run", "--", "python3", "-c", LISTEN) if guest == "a guest" else subprocess.Popen(
                [*become, "/usr/bin/python3", "-c", LISTEN], stdout=subprocess.PIPE, cwd=workspace()) as p:
            assert p.stdout.readline() == b"up\n"
            done = brig("sandbox", "list", env=env)
            told = int(p.stdout.readline())
            p.wait(20 * PATIENCE)
            (workspace() / "brig.sock").unlink()
        if guest:
            why = "not a daemon" if guest == "a guest" else "commands in sandboxes may have written"
            assert done.status == 125 and why in done.errors and told == 0, (done.errors, told)
        else:
            assert done.status == 0 and told > 0, (done.errors, told)


@test
def a_signal_to_the_client_reaches_the_command():
    with client() as (d, sandbox):
        assert sandbox("create", "--name", "s").status == 0
        p = start_brig("sandbox", "exec", "s", "--", "sh", "-c", "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.05; done",
                       env={"BRIG_HOST": f"unix://{d.path}"})
        assert p.stdout.readline() == b"ready\n"
        p.send_signal(signal.SIGTERM)
        out, err = p.communicate(timeout=20 * PATIENCE)
        assert (p.returncode, out) == (5, b"caught\n"), (out, err)


@test
def bytes_pass_unchanged_both_ways_and_in_great_number():
    with client() as (d, sandbox):
        assert sandbox("create", "--name", "b", "--output-limit", "64m").status == 0
        data = bytes(range(256)) * 12000
        done = sandbox("exec", "b", "--", "cat", input=data, timeout=60)
        assert done.status == 0 and done.stdout == data, (done.status, len(done.stdout), done.errors)


@test(as_user="user")
def a_daemon_is_started_when_there_is_none_and_has_nothing_of_the_callers():
    assert brig("daemon", "status").status == 125
    made = brig("sandbox", "create", "--name", "x", env={"SECRET": "hidden"})
    assert made.status == 0, made.errors
    try:
        info = brig("daemon", "status", "--json").json
        here = pathlib.Path(f"/proc/{info['pid']}")
        assert os.readlink(here / "cwd") == "/" and {os.readlink(here / f"fd/{i}") for i in range(3)} == {"/dev/null"}
        assert b"hidden" not in (here / "environ").read_bytes() and (here / "comm").read_text() == "brigd\n"
        fields = (here / "stat").read_text().rsplit(")", 1)[1].split()
        assert int(fields[3]) == info["pid"], "it has no session of its own"
        sock = runtime() / "brig/brig.sock"
        assert sock.is_socket() and sock.stat().st_mode & 0o777 == 0o700 and sock.parent.stat().st_mode & 0o777 == 0o700
        # A second one for the same state folder is refused.
        second = brig("daemon", env={"BRIG_HOST": f"unix://{runtime()}/second.sock"})
        assert second.status == 125 and "runs already" in second.errors, second.errors
        assert brig("sandbox", "exec", "x", "echo", "hi").text == "hi\n"
        assert brig("daemon", "stop").status == 0 and brig("daemon", "status").status == 125
        assert descendants(), "the sandbox has ended with its daemon"
        assert brig("sandbox", "exec", "x", "echo", "again").text == "again\n"
        assert brig("daemon", "stop", "--all").status == 0
        assert brig("sandbox", "list", "--state", "stopped", "--json").json["sandboxes"][0]["name"] == "x"
    finally:
        brig("sandbox", "delete", "x")
        brig("daemon", "stop")
        for left in (runtime() / "brig").iterdir():
            left.unlink()
        with contextlib.suppress(OSError):
            (runtime() / "brig").rmdir()


@test(as_user="user")
def clients_that_come_at_once_share_one_daemon():
    started = [start_brig("sandbox", "list", "--json") for _ in range(8)]
    for p in started:
        out, err = p.communicate(timeout=30 * PATIENCE)
        assert p.returncode == 0 and json.loads(out) == {"sandboxes": []}, err
    assert len([name for name in descendants().values() if name == "brigd"]) == 1
    assert brig("daemon", "stop").status == 0
    for left in (runtime() / "brig").iterdir():
        left.unlink()
    (runtime() / "brig").rmdir()


@test
def a_service_manager_hands_over_the_socket_and_hears_that_it_is_ready():
    path, notify = scratch() / "s", scratch() / "n"
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen(8)
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(str(notify))
    os.chmod(notify, 0o777)
    told.settimeout(20 * PATIENCE)
    # The manager sets LISTEN_PID between fork and exec.
    starter = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ['LISTEN_PID'] = str(os.getpid()); os.execv(sys.argv[2], sys.argv[2:])"
    argv = brig_argv("daemon")
    at = argv.index(str(brig_path()))
    p = subprocess.Popen([*argv[:at], "/usr/bin/python3", "-c", starter, str(listening.fileno()), *argv[at:]], pass_fds=[listening.fileno()],
                         env=brig_environment({"LISTEN_FDS": "1", "NOTIFY_SOCKET": str(notify)}), stderr=subprocess.PIPE, cwd=workspace())
    try:
        assert told.recv(100) == b"READY=1", p.stderr.read()
        os.chmod(path, 0o777)
        status = brig("daemon", "status", "--json", env={"BRIG_HOST": f"unix://{path}"})
        assert status.json["pid"] == p.pid, status.errors
    finally:
        p.terminate()
        assert p.wait(20 * PATIENCE) == 0
        assert told.recv(100) == b"STOPPING=1" and path.exists(), "a socket that was handed over is not ours to remove"
        p.stderr.close()
        listening.close()
        told.close()
        path.unlink()
        notify.unlink()


@test
def the_other_name_of_brig_means_its_daemon():
    link = scratch() / "brigd"
    link.symlink_to(brig_path())
    argv = brig_argv("--help")
    argv[argv.index(str(brig_path()))] = str(link)
    said = subprocess.run(argv, capture_output=True, text=True, env=brig_environment(), check=False)
    assert said.returncode == 0 and said.stdout.startswith("usage: brig daemon "), said


@test
def tokens_are_listed_and_removed_and_a_daemon_heeds_it():
    with daemon_with_tokens(a="run", b="admin") as d:
        def tokens(*words, **more):
            return brig("daemon", "token", *words, "--token-file", d.token_file, **more)
        with open(d.token_file, "a") as f:
            f.write("\n# a word to myself\n")
        second = tokens("add", "a", "--scope", "read").text.strip()
        listed = tokens("list")
        assert [line.split() for line in listed.text.splitlines()] == [["NAME", "SCOPE", "CEILING"], ["a", "run", "-"], ["b", "admin", "-"], ["a", "read", "-"]], listed.text
        assert tokens("list", "--json").json == {"tokens": [{"name": n, "scope": s, "ceiling": None} for n, s in (("a", "run"), ("b", "admin"), ("a", "read"))]}
        assert not any(t in listed.text for t in (d.tokens["a"], second))
        box = d.create(token=d.tokens["a"], name="kept")["id"]
        events = d.stream("GET", "/v1/events?follow=true", token=d.tokens["a"])
        other = d.stream("GET", "/v1/events?follow=true", token=d.tokens["b"])
        idle = d.connection(tcp=True)  # has been answered, and is kept open
        idle.request("GET", "/v1/sandboxes", headers={"Authorization": f"Bearer {second}"})
        assert (got := idle.getresponse()).status == 200 and got.read()
        gone = tokens("remove", "a")
        assert gone.status == 0 and gone.text == "a\n" and "within a second" in gone.errors, gone
        began = time.monotonic()
        idle.request("GET", "/v1/sandboxes", headers={"Authorization": f"Bearer {second}"})
        assert idle.getresponse().status == 401
        for key in (d.tokens["a"], second):
            assert d.call("GET", "/v1/sandboxes", token=key).status == 401
        list(events)  # to its end, which comes
        assert time.monotonic() - began < 5 * PATIENCE
        assert d.call("GET", "/v1/sandboxes", token=d.tokens["b"]).status == 200 and other.connection.sock is not None
        text = d.token_file.read_text()
        assert "# a word to myself\n" in text and text.count("b admin ") == 1 and "a run" not in text and "a read" not in text, text
        assert stat.S_IMODE(d.token_file.stat().st_mode) == 0o600 and [p for p in d.token_file.parent.iterdir() if p.name.startswith(".brig")] == []
        again = tokens("add", "a").text.strip()  # whose sandbox is still there
        assert d.call("GET", f"/v1/sandboxes/{box}", token=again).json["name"] == "kept"
        assert d.call("DELETE", f"/v1/sandboxes/{box}", token=again).status == 204
        for words, said in ((("remove", "nobody"), "there is no token 'nobody'"), (("remove",), "a token has a name"), (("list", "x"), "'x'")):
            refused = tokens(*words)
            assert refused.status == 125 and said in refused.errors and "hint: " in refused.errors, (words, refused.errors)
        d.token_file.chmod(0o644)
        assert "chmod 600" in tokens("remove", "b").errors and "b admin" in d.token_file.read_text()
        d.token_file.chmod(0o600)


@test
def tokens_that_come_and_go_at_the_same_time_do_not_lose_one_another():
    file = scratch() / "tokens"
    assert brig("daemon", "token", "add", "stays", "--token-file", file).status == 0
    for name in ("x0", "x1", "x2", "x3"):
        assert brig("daemon", "token", "add", name, "--token-file", file).status == 0
    running = [start_brig("daemon", "token", *words, "--token-file", file) for i in range(4)
               for words in (("add", f"new{i}"), ("remove", f"x{i}"), ("add", f"more{i}"))]
    for p in running:
        errors = p.communicate(timeout=60)[1]
        assert p.returncode == 0, errors
    found = sorted(t["name"] for t in brig("daemon", "token", "list", "--json", "--token-file", file).json["tokens"])
    assert found == sorted(["stays", *(f"{w}{i}" for w in ("new", "more") for i in range(4))]), found
    file.unlink()


@test
def a_client_with_a_token_speaks_to_another_daemon():
    with daemon_with_tokens(a="run", r="read") as d:
        there = {"BRIG_HOST": f"http://127.0.0.1:{d.port}", "BRIG_TOKEN": d.tokens["a"]}
        made = brig("sandbox", "create", "--name", "far", "--memory", "64m", env=there)
        assert made.status == 0, made.errors
        assert brig("sandbox", "exec", "far", "--", "sh", "-c", "cat; exit 4", input=b"x", env=there).status == 4
        refused = brig("sandbox", "create", "--network", "host", env=there)
        assert refused.status == 125 and "network" in refused.errors and "hint" in refused.errors, refused.errors
        assert brig("sandbox", "list", env={**there, "BRIG_TOKEN": "wrong"}).status == 125
        assert "loopback" in brig("sandbox", "list", env={"BRIG_HOST": "http://192.0.2.1:1"}).errors
        assert brig("sandbox", "delete", "far", env={**there, "BRIG_TOKEN": d.tokens["r"]}).status == 125
        assert brig("sandbox", "delete", "far", env=there).status == 0


@test
def a_term_ends_the_daemon_alone():
    with client() as (d, sandbox):
        assert sandbox("create", "--name", "k").status == 0
        d.stop(signal.SIGTERM)
        assert d.process.returncode == 0 and not d.path.exists()
        assert any(name == "brig-monitor" for name in descendants().values()), descendants()
        d.start()
        assert sandbox("exec", "k", "echo", "alive").text == "alive\n"


if __name__ == "__main__":
    sys.exit(main())
