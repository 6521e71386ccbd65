#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""InitRunner's page "Runtime Sandbox", line by line: its full block with each backend that it names, mounts, the event, the doctor and the way from `security.docker`."""

import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "lib")]
import sshd  # noqa: E402
from common import called, environment, settle, shared_engine  # noqa: E402
from harness import around, brig, main, scratch, test, workspace  # noqa: E402

around(shared_engine)

FULL = """apiVersion: initrunner/v1
kind: Agent
metadata: {name: agent}
spec:
  role: You are an assistant.
  model: {provider: openai, name: gpt-5-mini}
  tools: [{type: shell}, {type: python}]
  security:
    sandbox:
      backend: BACKEND # auto | bwrap | docker | ssh | none (default: none)
      network: NETWORK # none | bridge | host
      allowed_read_paths: []
      allowed_write_paths: []
      memory_limit: "256m"
      cpu_limit: 1.0
      read_only_rootfs: true
      bind_mounts: []
      env_passthrough: []
      docker:
        image: "python:3.12-slim"
        user: "auto"
        runtime: null # null (runc) | runsc | kata-runtime | kata-qemu | kata-fc | kata-clh
        extra_args: []
      ssh:
        host: my-build-box # required when backend: ssh
        remote_cwd: REMOTE # optional; SSH login dir if unset
        identity_file: null # optional override; falls back to ~/.ssh/config
        config_file: CONFIG # optional override
        connect_timeout: 10
        control_persist: "60s"
"""
OLD = """apiVersion: initrunner/v1
kind: Agent
metadata: {name: agent}
spec:
  role: You are an assistant.
  model: {provider: openai, name: gpt-5-mini}
  security:
    docker:
      enabled: true
      image: python:3.12-slim
      network: none
"""


def role(backend="auto", network="none", remote="/tmp", config="null", text=FULL, **other):
    """The page's block, beside the workspace."""
    for word, value in {"BACKEND": backend, "NETWORK": network, "REMOTE": remote, "CONFIG": config, **other}.items():
        text = text.replace(word, value)
    at = scratch() / f"{backend}.yaml"
    at.write_text(text)
    settle()
    return at


def sh(at, line, *options):
    return brig("run", *options, "--config", at, "--", "sh", "-c", line, env=environment())


@test(limit=120)
def the_full_block_runs_on_auto_bwrap_and_docker():
    """Without a network, the root read-only, the folder writable; which backend ran it is in the event of each call."""
    called("python:3.12-slim")
    for backend, ran in (("auto", "native"), ("bwrap", "bwrap"), ("docker", "docker")):
        at = role(backend)
        done = sh(at, f"ls /sys/class/net 2>/dev/null || echo lo; touch {backend}; touch /usr/x 2>/dev/null || echo closed", "--backend", backend)
        assert done.text.split() == ["lo", "closed"] and (workspace() / backend).exists(), (backend, done.text, done.errors)
        event = brig("audit", "security-events", "--event-type", "sandbox.exec", "--json").json[-1]
        assert (event["backend"], event["argv0"], event["rc"]) == (ran, "sh", 0) and event["duration_ms"] > 0, event
        assert brig("doctor", "--role", at, env=environment()).status == 0
        bridge = sh(role(backend, "bridge"), "true")
        assert backend != "bwrap" or (bridge.status == 125 and "bridge" in bridge.errors), bridge.errors


@test(as_user="user", limit=120)
def the_full_block_runs_on_ssh_and_on_the_host_after_the_line_that_brig_prints():
    with sshd.Sshd() as host:
        config = scratch() / "ssh_config"
        config.write_text(host.config.read_text().replace("Host box", "Host my-build-box"))
        done = sh(role("ssh", config=str(config)), "pwd")
        assert done.text == "/tmp\n", (done.text, done.errors)
    first = sh(role("none"), "echo on the host")
    assert first.status == 125 and "--i-know-this-is-not-a-sandbox" in first.errors, first.errors
    assert sh(role("none"), "echo on the host", "--i-know-this-is-not-a-sandbox").text == "on the host\n"


@test(as_user="user", limit=120)
def mounts_are_checked_when_the_role_is_read():
    (scratch() / "shown").mkdir()
    (scratch() / "shown/file").write_text("text\n")
    shown = FULL.replace("allowed_read_paths: []", f"allowed_read_paths: [{scratch()}/shown]")
    assert sh(role(text=shown), f"cat {scratch()}/shown/file; touch {scratch()}/shown/x 2>/dev/null || echo closed").text == "text\nclosed\n"
    for wrong in ("/etc", "/no/such/folder"):
        done = brig("config", "check", role(text=FULL.replace("allowed_write_paths: []", f"allowed_write_paths: [{wrong}]")))
        assert done.status == 1 and wrong in done.errors, (wrong, done.text, done.errors)
    done = brig("config", "check", role(text=FULL.replace("runtime: null", "runtime: no-such-runtime"), backend="docker"), env=environment())
    assert done.status != 0 and "no-such-runtime" in done.errors + done.text, (done.text, done.errors)


@test(as_user="user", limit=120)
def a_role_of_the_old_form_is_refused_with_the_way_to_the_new_one():
    at = role(text=OLD)
    done = brig("run", "--config", at, "--", "true")
    assert done.status == 125 and "security.docker has been removed" in done.errors and "brig config migrate" in done.errors, done.errors
    new = brig("config", "migrate", at).text
    assert new.endswith("  security:\n    sandbox:\n      backend: docker\n      network: none\n      docker:\n        image: python:3.12-slim\n"), new


if __name__ == "__main__":
    sys.exit(main())
