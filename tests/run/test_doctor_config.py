#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""brig doctor for a configuration: the rows its dialect documents, engines in every state, and the attacks."""

import contextlib
import json
import os
import pathlib
import re
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import brig, descendants, identity, main, scratch, test, tree, workspace  # noqa: E402

LINE = re.compile(r"\[(pass|warn|fail|skip)\] ([a-z_]+): (\S.*)")
RLM = """sandbox:
  runtime: docker
  allowed_mount_roots: ["{ws}", "/tmp"]
  docker:
    image: "python:3.11-slim"
    memory_limit_mb: 512
    network_enabled: {network}
"""
ROLE = """apiVersion: initrunner/v1
kind: Agent
metadata:
  name: x
spec:
  role: hello
security:
  sandbox:
    backend: {backend}
    network: none
"""


def rows(done):
    return {m[2]: (m[1], m[3]) for line in done.text.splitlines() if (m := LINE.fullmatch(line))}


def write(name, text):
    path = workspace() / name
    path.write_text(text)
    return path


class Engine(threading.Thread):
    """Just enough of an engine for a health check: answers, refuses, or never answers."""

    def __init__(self, answers, silent=False):
        super().__init__(daemon=True)
        self.path, self.answers, self.silent = scratch() / "engine.sock", answers, silent
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        os.chmod(self.path, 0o666)
        self.listener.listen(16)
        self.start()

    def run(self):
        kept = []
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.listener.accept()
                if self.silent:
                    kept.append(peer)
                    continue
                target = peer.recv(4096).split()[1].decode()
                body = self.answers.get(target)
                head = "HTTP/1.0 200 OK" if body is not None else "HTTP/1.0 404 Not Found"
                peer.sendall(f"{head}\r\nContent-Type: application/json\r\n\r\n{json.dumps(body or {})}".encode())
                peer.close()

    def close(self):
        self.listener.close()
        self.path.unlink()


@contextlib.contextmanager
def engine(answers=None, silent=False):
    e = Engine(answers or {}, silent)
    try:
        yield {"DOCKER_HOST": f"unix://{e.path}"}
    finally:
        e.close()


READY = {"/version": {"Version": "24.0.7"}, "/images/python:3.11-slim/json": {"Id": "x"},
         "/info": {"Runtimes": {"runc": {}, "runsc": {}}}}


@test
def rlm_code_gets_its_nine_rows_word_for_word():
    config = write("rlm.yaml", RLM.format(ws=workspace(), network="false"))
    (scratch() / "bin").mkdir()
    cli = scratch() / "bin/docker"
    cli.write_text("#!/bin/sh\n")
    cli.chmod(0o755)
    with engine(READY) as env:
        done = brig("doctor", "--config", config, env={**env, "PATH": f"{cli.parent}:/usr/bin:/bin"})
    assert done.text == (
        "[pass] configured_runtime: Runtime set to 'docker'.\n"
        "[pass] env_allowlist: 0 host env var(s) allowed.\n"
        f"[pass] docker_cli: docker CLI found at {cli}.\n"
        "[pass] docker_daemon: docker daemon ready (server 24.0.7)\n"
        "[pass] docker_image: Image 'python:3.11-slim' is available locally.\n"
        "[pass] docker_network_policy: Container networking is disabled.\n"
        "[pass] docker_extra_args: Docker extra args passed policy checks.\n"
        "[pass] mount_policy: Temp dir '/tmp' is allowed for bind mounts.\n"
        "[pass] temp_write_access: Writable temp directory: /tmp\n"
        "ready: sandboxes can be made here\n"), done.text
    assert done.status == 0


@test
def what_rlm_code_lacks_fails_or_warns_with_its_remedy():
    config = write("rlm.yaml", RLM.format(ws=workspace(), network="true"))
    with engine({"/version": {"Version": "1"}}) as env:
        done = brig("doctor", "--config", config, env=env)
        got = rows(done)
        assert got["docker_image"][0] == "warn" and "docker pull python:3.11-slim" in done.text
        assert got["docker_network_policy"][0] == "warn"
        if identity() == "root":  # on the way to another user libc drops TMPDIR
            done = brig("doctor", "--config", config, env={**env, "TMPDIR": "/proc/1"})
            assert done.status == 1 and rows(done)["mount_policy"][0] == rows(done)["temp_write_access"][0] == "fail"
    bad = write("bad.yaml", RLM.format(ws=workspace(), network="false") + "    extra_args: [\"--privileged\"]\n")
    done = brig("doctor", "--config", bad)
    assert done.status == 1
    assert rows(done)["docker_extra_args"] == ("fail", "Docker extra arg '--privileged' is blocked by sandbox policy.") or \
        "Docker extra arg '--privileged' is blocked by sandbox policy." in done.text, done.text


@test
def the_four_health_texts_come_in_time():
    config = write("rlm.yaml", RLM.format(ws=workspace(), network="false"))

    def daemon(env):
        began = time.monotonic()
        done = brig("doctor", "--config", config, env=env)
        assert time.monotonic() - began < 4, "2.5 s for the check"
        return rows(done)["docker_daemon"], done.status

    with engine(READY) as env:
        assert daemon(env) == (("pass", "docker daemon ready (server 24.0.7)"), 0)
    with engine(silent=True) as env:
        assert daemon(env) == (("fail", "docker check timed out"), 1)
    dead = scratch() / "dead.sock"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(dead))
    assert daemon({"DOCKER_HOST": f"unix://{dead}"}) == (("fail", "docker daemon unavailable"), 1)
    empty = scratch() / "empty"
    empty.mkdir()
    for name in ("setpriv", "true"):
        (empty / name).symlink_to(f"/usr/bin/{name}")
    env = {"DOCKER_HOST": f"unix://{scratch()}/none.sock", "PATH": str(empty)}
    assert daemon(env) == (("fail", "docker CLI not found"), 1)


@test
def a_role_gets_a_docker_row_and_a_sandbox_row():
    for backend, said in (("auto", "backend 'native' (auto): a trial run worked"), ("bwrap", "backend 'bwrap': a trial run worked")):
        done = brig("doctor", "--role", write("role.yaml", ROLE.format(backend=backend)),
                    env={"DOCKER_HOST": f"unix://{scratch()}/none.sock"})
        got = rows(done)
        assert done.status == 0 and got["sandbox"] == ("pass", said), done.text
        assert got["docker"][0] == "skip"
    done = brig("doctor", "--role", write("role.yaml", ROLE.format(backend="docker")),
                env={"DOCKER_HOST": f"unix://{scratch()}/none.sock"})
    assert done.status == 1 and rows(done)["docker"][0] == "fail" and "Docker is not available" in rows(done)["docker"][1]


@test
def ironclaw_reads_as_its_page_does():
    env = {"SANDBOX_ENABLED": "true", "SANDBOX_IMAGE": "ironclaw-worker:latest"}
    with engine({"/version": {"Version": "1"}, "/images/ironclaw-worker:latest/json": {"Id": "x"}}) as host:
        got = rows(brig("doctor", env={**env, **host}))
    assert got["docker"] == ("pass", "Docker is available")
    assert got["docker_image"] == ("pass", "Docker image 'ironclaw-worker:latest' found")
    assert got["sandbox"] == ("pass", "Sandbox is enabled")
    with engine({"/version": {"Version": "1"}}) as host:
        assert "Image 'ironclaw-worker:latest' not found" in brig("doctor", env={**env, **host}).text


@test
def a_runtime_nobody_registered_fails_with_how_to_get_it():
    config = write("b.yaml", "brig: 1\nbackend: docker\nimage: x\ndocker:\n  runtime: runsc\n")
    with engine({"/version": {"Version": "1"}, "/info": {"Runtimes": {"runc": {}}}}) as env:
        done = brig("doctor", "--config", config, env=env)
    assert done.status == 1 and rows(done)["runtimes"][0] == "fail" and "apt install runsc" in done.text
    with engine(READY) as env:
        assert rows(brig("doctor", "--config", config, env=env))["runtimes"] == ("pass", "runc, runsc")


@test
def a_configuration_that_cannot_be_read_is_not_ready():
    done = brig("doctor", "--config", write("c.yaml", "brig: 1\nbackned: native\n"))
    assert done.status == 1 and rows(done)["configuration"][0] == "fail" and "backend" in done.text


@test(alone=True, limit=120)
def every_attack_is_held_and_shown_to_work_elsewhere():
    before = set(os.listdir("/tmp"))
    light = bool(os.environ.get("LIGHT"))  # under the sanitizers every process takes its time: one backend
    done = brig("doctor", "--attack", "--json", *(("--backend", "bwrap") if light else ()))
    report = done.json
    assert done.status == 0 and report["contained"]
    assert [b["backend"] for b in report["backends"]][:2] == (["bwrap"] if light else ["native", "bwrap"])
    for b in report["backends"][:2]:
        assert b["usable"] and len(b["attacks"]) >= 20, b["backend"]
        assert all(a["held"] and a["detail"] and a["control"] for a in b["attacks"])
        unproven = {a["name"] for a in b["attacks"] if not a["proven"]}
        assert unproven <= {"device_node", "kernel_module", "bpf", "tiocsti", "io_uring"}, unproven
    assert not descendants() and set(os.listdir("/tmp")) == before and tree(workspace()) == {}
    assert light or "contained: every attack was held" in brig("doctor", "--attack", "--backend", "bwrap").text


@test
def there_is_nothing_to_attack_without_a_sandbox():
    done = brig("doctor", "--attack", "--backend", "none")
    assert done.status == 1 and "[skip] none: " in done.text and "not contained" in done.text, done.text
    done = brig("doctor", "--attack", "--backend", "nonesuch")
    assert done.status == 125 and "nonesuch" in done.errors


if __name__ == "__main__":
    sys.exit(main())
