#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""IronClaw's page "Docker Sandbox", line by line: the image, the variables and the commands as printed, its policies, limits and troubles."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import common  # noqa: E402
import projects  # noqa: E402
from common import environment, settle, shared_engine  # noqa: E402
from harness import around, brig, files_as_root, identity, main, test, workspace  # noqa: E402

around(shared_engine)

WORKER = "ironclaw-worker:latest"
ENABLE = {"SANDBOX_ENABLED": "true", "SANDBOX_POLICY": "workspace_write", "SANDBOX_IMAGE": WORKER}


def built():
    """What the page's `docker build -t ironclaw-worker:latest -f Dockerfile.worker .` makes; what its base lacks would come by apt-get."""
    with files_as_root():
        ground = common.base(common.shared, f"brig-ground:{identity()}")
    done = brig("image", "build", "--base", ground, env=environment(), timeout=120)
    assert done.status == 0 and done.text == f"{WORKER}\n", done.errors


def run(line, *options, **variables):
    """`ironclaw exec` as its page has it, with its variables in the environment."""
    settle()
    return brig("exec", line, *options, env=environment(env={**ENABLE, **variables}), timeout=120)


@test(limit=180)
def the_quick_start_goes_as_printed():
    """The image, the doctor's three lines, the variables, and commands of a user who is not root, below a root that is read-only."""
    built()
    status, image = common.shared.ask("GET", f"/images/{WORKER}/json")
    assert status == 200 and (image["Config"]["User"], image["Config"]["WorkingDir"], image["Config"]["Cmd"]) == ("1000:1000", "/workspace", ["/bin/bash"]), image["Config"]
    doctor = brig("doctor", env=environment(env=ENABLE))
    assert doctor.status == 0 and WORKER in doctor.text, (doctor.text, doctor.errors)
    (workspace() / "file").write_text("text\n")
    listed = run("ls -la", "--workdir", "/workspace")
    assert listed.status == 0 and "file" in listed.text and "/workspace" in listed.errors, (listed.text, listed.errors)
    who = brig("run", "--backend", "docker", "--image", WORKER, "--", "whoami", env=environment())
    assert who.status == 0 and who.text != "root\n", (who.text, who.errors)
    done = run("id -un; pwd; echo built > result; touch /usr/x 2>/dev/null || echo closed; grep CapEff /proc/self/status", "--policy", "workspace_write")
    assert done.text.split() == ["worker", "/workspace", "closed", "CapEff:", "0" * 16] and (workspace() / "result").read_text() == "built\n", (done.text, done.errors)
    assert run("echo again > result 2>/dev/null || echo closed", SANDBOX_POLICY="readonly").text == "closed\n"
    full = run("docker ps", "--policy", "full_access")
    assert full.status == 125 and "--i-know-this-is-not-a-sandbox" in full.errors, full.errors
    assert "brig init" in brig("onboard").errors


@test(as_user="user", limit=180)
def limits_and_the_allowlist_are_those_of_the_variables():
    built()
    shown = brig("config", "show", env={**ENABLE, "SANDBOX_MEMORY_LIMIT_MB": "4096", "SANDBOX_TIMEOUT": "300", "SANDBOX_CPU_SHARES": "2048",
                                        "SANDBOX_AUTO_PULL": "true", "SANDBOX_PROXY_PORT": "0", "SANDBOX_ALLOWLIST": "crates.io,npmjs.org,api.example.com"}).text
    for line in ("memory: 4g", "timeout: 300s", "cpu_shares: 2048", "auto_pull: true", "api.example.com", "crates"):
        assert line in shown, (line, shown)
    late = run("sleep 60", SANDBOX_TIMEOUT="1")
    assert late.status == 124 and "time" in late.errors, (late.status, late.errors)
    blocked = run("wget -qO- http://not.listed.example/")
    assert blocked.status != 0 and "not.listed.example" in blocked.errors, (blocked.text, blocked.errors)
    gone = brig("exec", "true", env={**ENABLE, "DOCKER_HOST": "unix:///no/such"})
    assert gone.status == 125 and "Docker is not available" in gone.errors and "hint: " in gone.errors, gone.errors
    missing = run("true", SANDBOX_IMAGE="ironclaw-other:1", SANDBOX_AUTO_PULL="false")
    assert missing.status == 125 and "ironclaw-other:1" in missing.errors and "hint: " in missing.errors, missing.errors


@test(as_user="user", limit=180)
def its_variables_in_a_file_do_the_same():
    built()
    folder = projects.copied("ironclaw-policy")
    projects.follow("ironclaw-policy", folder=folder, env=environment())


if __name__ == "__main__":
    sys.exit(main())
