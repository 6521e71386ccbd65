#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""InitRunner's page "Docker Sandbox" (`security.docker`, until v2026.4.16), line by line: each block of the page as printed, through `brig config migrate` as brig says itself."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from common import called, environment, settle, shared_engine  # noqa: E402
import projects  # noqa: E402
from harness import around, brig, identity, main, scratch, test, workspace  # noqa: E402

around(shared_engine)

ROLE = """apiVersion: initrunner/v1
kind: Agent
metadata:
  name: sandboxed-agent
spec:
  role: You are a code execution assistant.
  model:
    provider: openai
    name: gpt-5-mini
  tools:
    - type: shell
    - type: python
  security:
    docker:
      enabled: true
"""
DATA = """      image: python:3.12-slim
      network: none
      memory_limit: 512m
      cpu_limit: 2.0
      bind_mounts:
        - source: ./data
          target: /data
          read_only: true
        - source: ./output
          target: /output
          read_only: false
      env_passthrough: [LANG, TZ]
"""
CUSTOM = """      image: node:20-slim
      memory_limit: 1g
      read_only_rootfs: false
      extra_args: ["--pids-limit=100", "--ulimit=nofile=1024"]
"""
BLOCKED = ("--privileged", "--cap-add=ALL", "--security-opt=seccomp=unconfined", "--pid=host", "--userns=host", "--network=host", "--ipc=host")


def migrated(more=""):
    """The role beside the workspace, in the form that brig reads; refused before with the line that makes it so."""
    place = scratch() / "roles"
    place.mkdir(exist_ok=True)
    (place / "old.yaml").write_text(ROLE + more)
    old = brig("run", "--config", place / "old.yaml", "--", "true")
    assert old.status == 125 and "brig config migrate" in old.errors, old.errors
    new = brig("config", "migrate", place / "old.yaml")
    assert new.status == 0, new.errors
    (place / "role.yaml").write_bytes(new.stdout)
    return place / "role.yaml"


def sh(role, line, *options, **more):
    settle()
    return brig("run", "--config", role, *options, "--", "sh", "-c", line, env=environment(env=more.pop("env", None)), **more)


@test(limit=120)
def the_quick_start_is_a_container_with_the_pages_defaults():
    """No network, a read-only root, /tmp of 64 MB without programs, 256 processes, the folder at /work; code is a file."""
    called("python:3.12-slim")
    role = migrated()
    checked = brig("config", "check", role, env=environment())
    assert checked.status == 0 and "ok" in checked.text, (checked.text, checked.errors)
    look = "pwd; touch made; touch /usr/x 2>&1 | grep -o Read-only; ls /sys/class/net; cp /bin/sh /tmp/sh; /tmp/sh -c true 2>&1 | grep -o denied; df -m /tmp | tail -1 | awk '{print $2}'"
    done = sh(role, look)
    assert done.text.splitlines() == ["/work", "Read-only", "lo", "denied", "64"], (done.text, done.errors)
    assert (workspace() / "made").exists()
    limits = brig("config", "show", "--config", role).text
    assert all(x in limits for x in ("memory: 256m", "cpus: 1", "pids: 256")), limits
    python = brig("python", "--config", role, "-c", "print(2 ** 100)", env=environment())
    assert python.text == "1267650600228229401496703205376\n", python.errors
    script = brig("script", "--config", role, "-", input=b"echo $((6 * 7))\n", env=environment())
    assert script.text == "42\n", script.errors
    assert "docker daemon ready" in brig("doctor", "--role", role, env=environment()).text


@test(limit=120)
def the_examples_of_the_page_do_what_they_say():
    called("python:3.12-slim")
    called("node:20-slim")
    role = migrated(DATA)
    for name in ("data", "output"):
        (role.parent / name).mkdir()
        settle(role.parent / name)
    (role.parent / "data/in").write_text("text\n")
    done = sh(role, "cat /data/in; echo done > /output/out; touch /data/x 2>/dev/null || echo closed; echo $LANG $TZ $HOMELESS", env={"LANG": "C", "TZ": "UTC", "HOMELESS": "1"})
    assert done.text.split() == ["text", "closed", "C", "UTC"] and (role.parent / "output/out").read_text() == "done\n", (done.text, done.errors)
    custom = migrated(CUSTOM)
    done = sh(custom, "ulimit -n; touch /usr/x 2>/dev/null && echo written; cp /bin/sh /tmp/sh && /tmp/sh -c 'echo runs'")
    told = "the image's own files belong to root" in done.errors
    assert done.text.split() == ["1024", *([] if told else ["written"]), "runs"] and told == (identity() != "root"), (done.text, done.errors)
    assert "can't fork" in sh(custom, "i=0; while [ $i -lt 120 ]; do sleep 9 & i=$((i + 1)); done; echo all").errors


@test(as_user="user", limit=120)
def the_blocked_arguments_are_refused_when_the_role_is_read():
    for flag in BLOCKED:
        old = scratch() / "old.yaml"
        old.write_text(ROLE + f'      extra_args: ["{flag}"]\n')
        new = brig("config", "migrate", old)
        if new.status == 0:
            (scratch() / "role.yaml").write_bytes(new.stdout)
            new = brig("config", "check", scratch() / "role.yaml")
        assert new.status == 1 and flag.split("=")[0] in new.errors, (flag, new.status, new.text, new.errors)


@test(as_user="user", limit=120)
def the_complete_example_is_copied_here_and_runs():
    called("python:3.12-slim")
    folder = projects.copied("docker-sandbox")
    projects.follow("docker-sandbox", folder=folder, env=environment())
    assert "code execution assistant" in (folder / "docker-sandbox.yaml").read_text()


if __name__ == "__main__":
    sys.exit(main())
