#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""brig doctor for a configuration: the rows its dialect documents, engines in every state, and the attacks."""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import brig, brig_argv, brig_environment, brig_path, descendants, main, runtime, scratch, test, tree, workspace  # noqa: E402

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
                target = re.sub(r"^/v1\.\d+/", "/", peer.recv(4096).split()[1].decode())
                body = self.answers.get(target) if target != "/_ping" else {}
                head = "HTTP/1.1 200 OK" if body is not None else "HTTP/1.1 404 Not Found"
                text = json.dumps(body or {})
                peer.sendall(f"{head}\r\nApi-Version: 1.43\r\nContent-Type: application/json\r\nConnection: close\r\n"
                             f"Content-Length: {len(text)}\r\n\r\n{text}".encode())
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
        nowhere = scratch() / "nowhere"
        nowhere.mkdir()
        (nowhere / "setpriv").symlink_to("/usr/bin/setpriv")  # for the harness
        got = rows(brig("doctor", "--config", config, env={**env, "PATH": str(nowhere)}))
        assert got["docker_cli"] == ("warn", "docker CLI not found; not needed: brig speaks to the engine itself"), got
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


def made(days):
    return time.strftime("%Y-%m-%dT%H:%M:%S.123456789Z", time.gmtime(time.time() - days * 86400))


@test
def an_image_that_has_grown_old_is_a_warning():
    config = write("rlm.yaml", RLM.format(ws=workspace(), network="false"))
    for created, status in ((made(89), "pass"), (made(91), "warn"), ("1970-01-01T00:00:00Z", "pass"), (made(-1), "pass")):
        with engine({**READY, "/images/python:3.11-slim/json": {"Id": "x", "Created": created}}) as env:
            done = brig("doctor", "--config", config, env=env)
        got = rows(done)["docker_image"]
        assert got[0] == status and got[1].startswith("Image 'python:3.11-slim' is available locally."), (created, got)
        assert done.status == 0 and ("91 days ago" in got[1]) == ("brig image pull python:3.11-slim" in done.text) == (status == "warn")


@test
def an_engine_is_looked_for_where_a_run_would_look():
    config = write("rlm.yaml", RLM.format(ws=workspace(), network="false"))
    podman = runtime() / "podman"
    podman.mkdir()
    with engine({**READY, "/version": {"Version": "4.3.1"}}) as env:
        path = env["DOCKER_HOST"].removeprefix("unix://")
        (podman / "podman.sock").symlink_to(path)
        for there in ({"CONTAINER_HOST": env["DOCKER_HOST"]}, {"DOCKER_CONTEXT": "mine", "DOCKER_CONFIG": str(scratch() / "c")}, {}):
            if "DOCKER_CONFIG" in there:
                meta = scratch() / "c/contexts/meta" / hashlib.sha256(b"mine").hexdigest()
                meta.mkdir(parents=True)
                (meta / "meta.json").write_text(json.dumps({"Name": "mine", "Endpoints": {"docker": {"Host": env["DOCKER_HOST"]}}}))
            done = brig("doctor", "--config", config, env=there)
            if not there and pathlib.Path("/var/run/docker.sock").exists():
                continue  # this machine's own engine comes first
            assert rows(done)["docker_daemon"] == ("pass", "docker daemon ready (server 4.3.1)"), (there, done.text)
    shutil.rmtree(podman)
    done = brig("doctor", "--config", config, env={"DOCKER_HOST": "tcp://127.0.0.1:2375"})
    assert done.status == 1 and rows(done)["docker_daemon"] == ("fail", "docker daemon unavailable")
    assert "hint: brig speaks to an engine on this machine" in done.text, done.text


@test
def the_doors_program_is_tried():
    got = rows(brig("doctor"))["egress_worker"]
    assert got[0] == "pass" and re.fullmatch(r"brig-egress [0-9.]+ starts", got[1]), got
    here = scratch() / "bin"
    here.mkdir()
    shutil.copy(brig_path(), here / "brig")
    config = scratch() / "b.yaml"
    config.write_text("brig: 1\nnetwork: proxy\n")

    def doctor(*more):
        argv = [*brig_argv()[:-1], str(here / "brig"), "doctor", *more]
        p = subprocess.run(argv, env=brig_environment(), cwd=workspace(), capture_output=True, text=True, check=False)
        return {m[2]: (m[1], m[3]) for line in p.stdout.splitlines() if (m := LINE.fullmatch(line))}["egress_worker"], p.stdout

    for (row, _), expected in ((doctor(), "warn"), (doctor("--config", config), "fail")):
        assert row[0] == expected and "not installed" in row[1], row
    version = got[1].split()[1].encode()
    program = brig_path().with_name("brig-egress").read_bytes()
    assert version + b"\0" in program
    (here / "brig-egress").write_bytes(program.replace(version + b"\0", b"9" * len(version) + b"\0"))
    (here / "brig-egress").chmod(0o755)
    (status, detail), text = doctor("--config", config)
    assert status == "fail" and "brig is of another" in detail and "hint: install brig and brig-egress from one build" in text, text
    (here / "brig-egress").write_text("#!/bin/false\n")
    (status, detail), _ = doctor("--config", config)
    assert status == "fail" and "could not start" in detail, detail


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
def where_nothing_would_run_nothing_is_ready():
    rlm = scratch() / "rlm.yaml"
    rlm.write_text(f"sandbox:\n  runtime: local\n  allowed_mount_roots: ['{workspace()}', /tmp]\n")
    for config, env, row, network in ((rlm, {}, "configured_runtime", "docker_network_policy"),
                                      (None, {"SANDBOX_ENABLED": "false"}, "sandbox", "network_policy"),
                                      (None, {"SANDBOX_POLICY": "full_access"}, "sandbox", "network_policy")):
        done = brig("doctor", *(("--config", config) if config else ()), env=env)
        got = rows(done)
        assert done.status == 1 and "\nnot ready: 1 check failed\n" in done.text, done
        assert got[row][0] == "fail" and "runs on the host, outside of any sandbox" in got[row][1], done
        assert "--i-know-this-is-not-a-sandbox" in done.text, done
        assert got[network] == ("warn", "network host: the command is not in a sandbox"), done
    (scratch() / "brig").mkdir()
    (scratch() / "brig/config.yaml").write_text("allow_full_access: true\n")
    done = brig("doctor", env={"SANDBOX_ENABLED": "false", "XDG_CONFIG_HOME": str(scratch())})
    assert done.status == 0 and done.text.endswith("\nready: commands run on the host, without a sandbox\n"), done
    done = brig("doctor", "--config", write("role.yaml", ROLE.format(backend="ssh") + "    ssh: {host: 127.0.0.1}\n"))
    assert rows(done)["network_policy"][0] == "warn" and "network none is not enforced" in done.text, done


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
