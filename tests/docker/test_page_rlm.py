#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""RLM Code's page "Docker Runtime", line by line: its configuration as printed, what each parameter does, the flags that it blocks, its health check and its usage example."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from common import called, environment, settle, shared_engine  # noqa: E402
from harness import around, brig, identity, main, test, uid, workspace  # noqa: E402

around(shared_engine)

CONFIG = """sandbox:
  runtime: docker
  docker:
    image: "python:3.11-slim"
    memory_limit_mb: 512
    network_enabled: false
"""
BLOCKED = ("--privileged", "--pid=host", "--network=host", "--ipc=host", "--uts=host", "--cap-add=ALL", "--volume=/:/x", "-v", "--mount=type=bind,source=/,target=/x", "--mount")


def config(text=CONFIG):
    """The file in the project, where the page has it."""
    settle()
    at = workspace() / "rlm.yaml"
    at.write_text(text)
    return at


@test(limit=120)
def the_usage_example_is_one_ephemeral_container():
    """The folder at /workspace, the variable, no network, no state from step to step but in the folder; status and both streams come back."""
    called("python:3.11-slim")
    at = config()
    (workspace() / "step.py").write_text("import os, sys\nprint(os.getcwd(), os.environ['TASK_ID'], os.getuid(), os.listdir('/sys/class/net'))\n"
                                         "open('result', 'w').write('kept')\nopen('/tmp/lost', 'x')\nprint('to stderr', file=sys.stderr)\nsys.exit(3)\n")
    for _ in range(2):
        done = brig("run", "--json", "--config", at, "--env", "TASK_ID=abc123", "--timeout", "30", "--", "python3", "step.py", env=environment())
        out = done.json
        assert (out["exit_code"], out["stdout"], out["stderr"]) == (3, f"/workspace abc123 {1000 if identity() == 'root' else uid()} ['lo']\n", "to stderr\n"), out
        assert done.errors == "", "a note that nobody can act on, at every step"
    assert (workspace() / "result").read_text() == "kept"
    done = brig("python", "--config", at, "-c", "print(2 ** 10)", env=environment())
    assert done.text == "1024\n", done.errors


@test(as_user="user", limit=120)
def verify_prints_the_pages_checks_by_their_names():
    called("python:3.11-slim")
    done = brig("doctor", "--config", config(), env=environment())
    assert done.status == 0, (done.text, done.errors)
    for line in ("configured_runtime: Runtime set to 'docker'.", "env_allowlist: 0 host env var(s) allowed.", "docker_daemon: docker daemon ready (server ",
                 "docker_image: Image 'python:3.11-slim' is available locally.", "docker_network_policy: Container networking is disabled.",
                 "docker_extra_args: Docker extra args passed policy checks.", "mount_policy: Temp dir '/tmp' is allowed for bind mounts.", "temp_write_access: Writable temp directory: /tmp"):
        assert f"[pass] {line}" in done.text, (line, done.text)
    gone = brig("doctor", "--config", config(), env={"DOCKER_HOST": "unix:///no/such"})
    assert gone.status != 0 and "docker daemon unavailable" in gone.text + gone.errors, (gone.text, gone.errors)


@test(as_user="user", limit=120)
def parameters_are_held_and_flags_that_weaken_it_are_blocked_when_it_is_read():
    called("python:3.11-slim")
    at = config(CONFIG.replace("512", "32"))
    done = brig("run", "--json", "--config", at, "--", "python3", "-c", "x = bytearray(512 << 20); print(len(x))", env=environment())
    assert done.json["outcome"] == "oom", done.json
    for flag in BLOCKED:
        done = brig("config", "check", config(CONFIG + f'    extra_args: ["{flag}"]\n'))
        assert done.status == 1 and "is blocked by sandbox policy." in done.errors and f"Docker extra arg '{flag}" in done.errors, (flag, done.text, done.errors)
    for image in ("python:3.11", "myregistry/rlm-sandbox:latest"):
        assert f'"{image}"' in brig("config", "show", "--config", config(f'sandbox:\n  docker:\n    image: "{image}"\n')).text.replace(f"image: {image}", f'"{image}"')


if __name__ == "__main__":
    sys.exit(main())
