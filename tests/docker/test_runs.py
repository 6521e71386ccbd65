#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Containers from start to end: streams, statuses, limits, signals, and nothing left whoever is killed."""

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from common import box, container_of, environment, gone, options, ours, settle, sh, shared_engine, start_box, token  # noqa: E402
import common  # noqa: E402
from common import engine  # noqa: E402
import record  # noqa: E402
from harness import (PATIENCE, around, brig, brig_argv, brig_environment, compile_c, descendants, home, identity, main, scratch, state, test, uid,  # noqa: E402
                     wait_until, workspace)

HERE = pathlib.Path(__file__).resolve().parent

around(shared_engine)


@test
def when_brig_returns_the_container_is_gone():
    for command in ("true", "exit 3", "kill -9 $$"):
        result = sh(command, "--json").json
        assert result["outcome"] in ("exited", "signalled"), result
        status, found = common.shared.ask("GET", "/containers/json?all=1")
        assert status == 200 and not [c for c in found if c["Labels"].get("brig.run") == result["id"]], (command, found)


@test
def an_agents_sandbox_is_told_whose_files_it_works_on():
    settle()
    config = scratch() / "agents.yaml"
    config.write_text(f"image: {engine.IMAGE}\n")
    done = brig("run", "--config", config, "--network", "none", "--", "sh", "-c", "echo $HOST_UID:$HOST_GID $(id -u):$(id -g)", env=environment())
    told, real = done.text.split()
    assert told == real == (f"{uid()}:{uid()}" if uid() else "1000:1000"), done.text
    assert not sh("env | grep HOST_", "--quiet").text


@test
def the_first_commit_in_a_container_has_the_callers_name():
    """The image's own settings stay; those of the command's HOME and repository win over both."""
    caller = scratch() / "caller"
    caller.mkdir()
    (caller / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = trunk\n[alias]\n\tst = !id\n")
    env = {"HOME": str(caller)}
    script = ("git init -q . && echo x > f && git add f && git commit -qm first && git log --format='%an %ae %D'; git config alias.st; "
              "git config --global user.name Inside && git config user.name; cat $GIT_CONFIG_SYSTEM >&2; echo evil >> $GIT_CONFIG_SYSTEM")
    done = sh(script, image=engine.CLIENTS_IMAGE, env=env)
    assert done.text == "Ada ada@example.org HEAD -> trunk\nInside\n", (done.text, done.errors)
    assert "path = /etc/gitconfig" in done.errors and "can't create" in done.errors, done.errors
    done = sh("git config user.name; true", "--env", "GIT_CONFIG_SYSTEM=/dev/null", image=engine.CLIENTS_IMAGE, env=env)
    assert done.text == "", (done.text, done.errors)


@test(limit=120)
def a_writable_root_is_the_users_inside_or_it_is_told():
    """Root can give it away; who is not root cannot, on an engine that is root's."""
    kept = scratch() / "data"
    (kept / "deep").mkdir(parents=True)
    settle()
    before = {p: os.stat(p)[4:6] for p in (kept, kept / "deep", workspace())}
    done = sh("touch /x /usr/y && mkdir /etc/new && echo made; ls -ld /tmp; touch /etc/passwd; touch /data/z", "--set", "read_only_root=false", "--mount", f"{kept}:/data")
    if identity() == "user":
        assert "made" not in done.text and "the image's own files belong to root, and the command does not" in done.errors, done.errors
    else:
        assert "made" in done.text and "drwxrwxrwt" in done.text and "belong to root" not in done.errors, (done.text, done.errors)
    assert done.errors.count("Read-only file system") == 2, ("what is mounted stays as it is", done.errors)
    assert {p: os.stat(p)[4:6] for p in before} == before, "and keeps its owner"
    done = sh("touch /x")
    assert done.status == 1 and "Read-only file system" in done.errors, "the control: " + done.errors
    common.shared.import_image(common.image(("opt", "/data"), ("srv", "../../../../../../../.."), ("usr/deep", "/data/deep")), "brig-test:links")
    done = sh("echo ran", "--set", "read_only_root=false", "--mount", f"{kept}:/data", image="brig-test:links")
    assert done.text == "ran\n" and {p: os.stat(p)[4:6] for p in before} == before, ("a link leads nowhere", done.errors)
    assert os.stat("/").st_uid == 0 and os.stat("/usr").st_uid == 0
    done = sh("touch /x && echo made", "--set", "read_only_root=false", "--set", "docker.user=0:0")
    assert done.text == "made\n" and "belong to root, and the command" not in done.errors, done.errors


@test
def status_and_streams_are_the_commands_own():
    done = sh("echo out; echo err >&2; exit 7")
    assert (done.status, done.text, done.errors) == (7, "out\n", "err\n"), done.errors


@test
def the_result_says_what_ran_and_what_held_it():
    r = sh("exit 3", "--json").json
    assert (r["outcome"], r["exit_code"], r["backend"]) == ("exited", 3, "docker"), r
    assert re.fullmatch(r"(.*@)?sha256:[0-9a-f]{64}", r["image"]), r["image"]
    i = r["isolation"]
    assert i["capabilities_dropped"] and i["no_new_privs"] and i["read_only_root"] and i["seccomp"] == "default", i
    assert i["network"] == "none" and i["limits"]["memory"] == "cgroup" and i["limits"]["pids"] == "cgroup", i
    assert i["uid_inside"] == (1000 if identity() == "root" else uid()), i
    assert gone(r["id"])


@test(limit=120)
def nothing_is_lost_when_it_ends_at_once():
    for _ in range(4):
        done = sh("echo out; echo err >&2")
        assert (done.text, done.errors) == ("out\n", "err\n"), (done.text, done.errors)
    big = os.urandom(3 << 20)
    (workspace() / "big").write_bytes(big)
    assert box("--", "cat", "big").stdout == big


@test
def input_arrives_whole_and_ends():
    data = os.urandom(1 << 20)
    assert box("--", "cat", input=data).stdout == data
    assert box("--", "wc", "-c", input=b"").text.strip() == "0"


@test
def a_reader_that_leaves_ends_the_command():
    settle()
    p = subprocess.Popen(brig_argv(*options(), "--timeout", "30s", "--", "yes"), env=brig_environment(environment()),
                         cwd=workspace(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert p.stdout.read(2) == b"y\n"
    p.stdout.close()
    assert p.wait(20 * PATIENCE) == 128 + signal.SIGPIPE


@test
def signals_and_missing_commands_are_told_apart():
    r = sh("kill -9 $$", "--json").json
    assert (r["outcome"], r["signal"], r["exit_code"]) == ("signalled", 9, 137), r
    done = box("--", "no-such-command")
    assert done.status == 127 and "'no-such-command': command not found" in done.errors and "tini" not in done.errors, done.errors
    (workspace() / "plain").write_text("x")
    done = box("--", "./plain")
    assert done.status == 126 and "'./plain'" in done.errors, done.errors
    # Words that only look like init's own are the command's.
    done = box("--", "/etc/passwd")
    assert done.status == 126 and "'/etc/passwd'" in done.errors and "tini" not in done.errors, done.errors
    for name in ("./none", "/tmp/none", "/usr/none", f"{workspace()}/none/x"):
        done = box("--", name)
        assert done.status == 127 and f"'{name}': command not found" in done.errors, (name, done.errors)
    done = sh("echo '[FATAL tini (7)] exec sh failed: No such file or directory' >&2; exit 127")
    assert done.status == 127 and "[FATAL tini" in done.errors and "not found" not in done.errors, done.errors


@test
def a_command_that_ran_cannot_pretend_that_it_did_not():
    """It says what init would say, with init's status; it may even remove itself, or take its own right to be executed away."""
    words = "echo '[FATAL tini (7)] exec failed: Permission denied' >&2"
    for status in (1, 126, 127):
        r = sh(f"touch ran; {words}; exit {status}", "--json").json
        assert (r["outcome"], r["exit_code"]) == ("exited", status) and "[FATAL tini" in r["stderr"], r
        for how in ("rm evil", "chmod 644 evil", "mv evil x; mkdir evil"):
            (workspace() / "evil").write_text(f"#!/bin/sh\ntouch ran\n{how}\n{words}\nexit {status}\n")
            os.chmod(workspace() / "evil", 0o755)
            settle(workspace() / "evil")
            (workspace() / "ran").unlink()
            r = box("--json", "--", "./evil").json
            assert (r["outcome"], r["exit_code"]) == ("exited", status), (how, r)
            assert (workspace() / "ran").exists(), "the control proves nothing"
            for name in ("evil", "x"):
                with contextlib.suppress(OSError):
                    os.rmdir(workspace() / name) if (workspace() / name).is_dir() else (workspace() / name).unlink()


@test
def a_time_limit_ends_all_of_it():
    began = time.monotonic()
    r = sh("sleep 100 & sleep 100", "--json", "--timeout", "1s").json
    assert (r["outcome"], r["limits_hit"]) == ("timeout", ["timeout"]), r
    assert time.monotonic() - began < 20 and gone(r["id"])


@test
def memory_and_processes_have_their_limits():
    r = sh("head -c 200m /dev/zero | tail", "--json", "--memory", "32m").json
    assert (r["outcome"], r["exit_code"], r["limits_hit"]) == ("oom", 137, ["memory"]), r
    r = sh("(for i in $(seq 30); do sleep 3 & done); sleep 3", "--json", "--pids", "10").json
    assert "pids" in r["limits_hit"] and "fork" in r["stderr"], r


@test
def output_past_the_cap_is_counted_and_dropped():
    r = sh("head -c 300000 /dev/zero | tr '\\0' x; exit 5", "--json", "--output-limit", "1k").json
    assert (r["exit_code"], len(r["stdout"]), r["stdout_bytes"], r["stdout_truncated"]) == (5, 1024, 300000, True), r["stdout_bytes"]


@test
def a_cancel_is_passed_on_and_then_kills():
    p = start_box("--json", "--", "sh", "-c", "trap 'echo caught; exit 9' TERM; : > ready; while :; do sleep 0.1; done")
    assert wait_until((workspace() / "ready").exists, 20)
    p.terminate()
    r = json.loads(p.communicate(timeout=30 * PATIENCE)[0])
    assert (r["outcome"], r["exit_code"]) == ("cancelled", 9) and "caught" in r["stdout"], r
    (workspace() / "ready").unlink()
    p = start_box("--json", "--", "sh", "-c", "trap '' TERM; : > ready; while :; do sleep 0.1; done")
    assert wait_until((workspace() / "ready").exists, 20)
    p.terminate()
    r = json.loads(p.communicate(timeout=30 * PATIENCE)[0])
    assert (r["outcome"], r["exit_code"]) == ("cancelled", 143), r
    assert gone(r["id"])


@test
def a_killed_brig_leaves_no_container():
    word = token()
    p = start_box("--", "sh", "-c", f"sleep 100; : {word}")
    name = container_of(word)
    p.kill()
    p.wait()
    assert wait_until(lambda: name not in ours(), 20, 0.05), "the container outlived brig"
    assert wait_until(lambda: "brig-guard" not in descendants().values(), 10, 0.05)


def kill_guards():
    guards = [pid for pid, n in descendants().items() if n == "brig-guard"]
    assert guards
    for pid in guards:
        os.kill(pid, signal.SIGKILL)


@test
def what_a_killed_guard_leaves_brig_removes():
    """Nobody holds the container to anything any more: it does not wait for the next run."""
    word = token()
    p = start_box("--", "sh", "-c", f"echo up; sleep 100; : {word}")
    name = container_of(word, running=True)
    assert p.stdout.readline() == b"up\n"  # earlier the next run removes it
    assert os.listdir(workspace())  # the placeholders
    kill_guards()
    _, err = p.communicate(timeout=30 * PATIENCE)
    assert p.returncode == 125 and b"guard was ended" in err, (p.returncode, err)
    assert name not in ours() and not os.listdir(workspace())


@test
def what_a_killed_brig_and_guard_leave_the_next_brig_removes():
    word = token()
    p = start_box("--", "sh", "-c", f"sleep 100; : {word}")
    name = container_of(word, running=True)
    p.send_signal(signal.SIGSTOP)
    kill_guards()
    p.kill()
    p.wait()
    # The container runs on, so its covers stay, even when another brig comes that cannot reach the engine.
    held = sorted(os.listdir(workspace()))
    note = state() / f"brig/docker/{name.removeprefix('brig-')}"
    there, away = note.read_text(), common.shared.socket
    note.write_text(there.replace(str(away), f"{away}-away"))
    assert brig("run", "--backend", "native", "--", "true").status == 0
    assert held and sorted(os.listdir(workspace())) == held and name in ours()
    note.write_text(there)
    # A look-alike: brig's name and label, but not the nonce of the run.
    status, made = common.shared.ask("POST", f"/containers/create?name=look-alike-{os.getpid()}", {
        "Image": common.engine.IMAGE, "Cmd": ["true"], "Labels": {"brig.run": name.removeprefix("brig-"), "brig.nonce": "0" * 32}})
    assert status == 201, made
    try:
        assert sh("true").status == 0
        assert name not in ours(), "the orphan is still there"
        assert not os.listdir(workspace())
        assert f"look-alike-{os.getpid()}" in common.shared.containers()
    finally:
        common.shared.ask("DELETE", f"/containers/{made['Id']}?force=1")


@test
def a_container_killed_or_removed_from_outside_is_an_outcome():
    for how in (("POST", "/containers/{}/kill"), ("DELETE", "/containers/{}?force=1")):
        word = token()
        p = start_box("--json", "--", "sh", "-c", f"sleep 100; : {word}")
        name = container_of(word, running=True)
        common.shared.ask(how[0], how[1].format(name))
        r = json.loads(p.communicate(timeout=30 * PATIENCE)[0])
        assert (r["outcome"], r["signal"], r["exit_code"]) == ("signalled", 9, 137), r


@test
def what_is_written_to_disk_is_limited():
    # fsync: what the cache has is written all the same, only later
    fill = "dd if=/dev/zero of=big bs=64k count={} conv=fsync 2>/dev/null"
    for again in ("", " & wait", "; done"):  # by a child, and by many that are gone
        script = f"for i in 1 2 3 4 5 6 7 8; do {fill.format(60)}{again}; sleep 10" if "done" in again else fill.format(1600) + again + "; sleep 10"
        r = sh(script, "--json", "--disk", "8m").json
        assert (r["outcome"], r["limits_hit"], r["isolation"]["limits"]["disk"]) == ("limit", ["disk"], "watch"), (again, r)
        (workspace() / "big").unlink()
    r = sh(fill.format(32) + "; sleep 0.3; head -c 9m /dev/zero > /tmp/x; stat -c %s /tmp/x", "--json", "--disk", "8m").json
    assert (r["outcome"], r["limits_hit"]) == ("exited", []) and int(r["stdout"]) <= 8 << 20, r
    assert sh("true", "--json").json["isolation"]["limits"]["disk"] == "none"
    r = sh("true", "--json", "--disk", "8m", "--runtime", "runsc").json
    assert r["outcome"] == "refused" and "limits.disk" in r["error"]["what"] and r["error"]["hint"], r


@test
def a_command_that_hides_what_it_writes_is_ended():
    (workspace() / "hide").write_bytes(compile_c(HERE / "hide.c").read_bytes())
    (workspace() / "hide").chmod(0o755)
    assert box("--", "./hide", "true").status == 0  # without a limit it may
    r = box("--json", "--disk", "8m", "--", "./hide", "sleep", "4").json
    if identity() == "root":  # who sees all the same
        assert (r["outcome"], r["exit_code"]) == ("exited", 0), r
    else:
        assert r["outcome"] == "failed" and "cannot be watched" in r["error"]["what"] and r["duration_ms"] < 3900, r


@test
def a_terminal_has_a_size_and_follows_it():
    settle()
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    script = "sleep 1; stty size; read x; stty size; test -t 0 && test -t 2 && echo tty"
    p = subprocess.Popen(brig_argv(*options(), "--tty", "--", "sh", "-c", script), stdin=slave, stdout=slave, stderr=slave,
                         env=brig_environment(environment()), cwd=workspace(), start_new_session=True,
                         preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0))
    os.close(slave)
    seen = b""

    def read_until(words):
        nonlocal seen
        while words not in seen:
            assert select.select([master], [], [], 20)[0], seen
            seen += os.read(master, 1024)

    read_until(b"33 77")
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 44, 88, 0, 0))
    time.sleep(1)
    os.write(master, b"\r")
    read_until(b"44 88")
    read_until(b"tty")
    assert p.wait(20 * PATIENCE) == 0
    os.close(master)


@test(as_user="root", alone=True, limit=120)
def an_engine_that_stops_in_mid_run_is_an_outcome():
    with common.engine.Dockerd(scratch() / "d") as e:
        e.import_image(common.engine.busybox_tar())
        word = token()
        p = start_box("--json", "--", "sh", "-c", f"sleep 100; : {word}", host=e.host)
        name = container_of(word, e, running=True)
        time.sleep(1)
        e.stop_daemon(signal.SIGTERM)  # killed at once: tests/conformance
        r = json.loads(p.communicate(timeout=40 * PATIENCE)[0])
        # A graceful end stops its containers first.
        assert r["outcome"] in ("failed", "signalled"), r
        assert r["outcome"] == "signalled" or "engine" in r["error"]["what"], r
        e.start()
        assert box("--", "true", host=e.host).status == 0
        assert name not in ours(e), "what the dead engine kept was not removed"
        assert wait_until(lambda: not os.listdir(state() / "brig/docker"), 15)  # before it stops again



class Between:
    """A socket in front of the engine that does something about the call which starts the container."""

    def __init__(self, at_start):
        self.at_start, self.path = at_start, scratch() / "between"
        self.listener = socket.socket(socket.AF_UNIX)

    def __enter__(self):
        self.listener.bind(str(self.path))
        self.path.chmod(0o666)
        self.listener.listen(16)
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    @property
    def host(self):
        return f"unix://{self.path}"

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                engine = socket.socket(socket.AF_UNIX)
                engine.connect(str(common.shared.socket))
                threading.Thread(target=self.copy, args=(client, engine, True), daemon=True).start()
                threading.Thread(target=self.copy, args=(engine, client, False), daemon=True).start()

    def copy(self, source, goal, asks):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if asks and data.startswith(b"POST ") and data.split()[1].endswith(b"/start") and not self.at_start(source, goal, data):
                    return
                goal.sendall(data)
        with contextlib.suppress(OSError):
            goal.shutdown(socket.SHUT_WR)


def the_end(run):
    return [r for r in record.verified(record.folder(state())) if r.get("run") == run and r["type"] == "sandbox.exec"][-1]


@test
def what_a_refused_start_denied_is_kept():
    """Somebody plants a file while the container is made, and then the engine does not start it."""
    def refuse(client, engine, data):
        (workspace() / ".bashrc").write_text("evil")
        client.sendall(b"HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n"
                       b'{"message":"no"}')
        client.shutdown(socket.SHUT_RDWR)
        return False

    with Between(refuse) as between:
        done = box("--json", "--", "true", host=between.host)
    assert (done.json["outcome"], done.status) == ("refused", 125), done.json
    assert [d["target"] for d in done.json["denials"]] == [".bashrc"] and ".bashrc" in done.errors, done.json["denials"]
    assert not (workspace() / ".bashrc").exists() and the_end(done.json["id"])["started"] is False
    assert [r["target"] for r in record.verified(record.folder(state())) if r["type"] == "access.deny"] == [".bashrc"]


@test(as_user="root", limit=120)
def an_engine_with_ids_of_its_own_is_refused_where_the_workspace_would_be_nobodys():
    with common.engine.Dockerd(scratch() / "d", remapped=True) as e:
        e.import_image(common.engine.busybox_tar())
        r = box("--json", "--", "touch", "ran", host=e.host).json
        assert r["outcome"] == "refused" and "maps user ids" in r["error"]["what"] and "readonly" in r["error"]["hint"], r["error"]
        assert not os.listdir(workspace())
        r = box("--json", "--policy", "readonly", "--", "stat", "-c", "%u", ".", host=e.host).json
        assert r["outcome"] == "exited" and r["stdout"] == "65534\n", r


if __name__ == "__main__":
    sys.exit(main())
