#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""SSH through the door of a container: brig's settings lie over the image's, and the agent logs in to the host of the rule alone."""

import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import common  # noqa: E402
from common import box, shared_engine  # noqa: E402
import engine  # noqa: E402
import sshd  # noqa: E402
from agents import Agent  # noqa: E402
from harness import around, main, scratch, test  # noqa: E402

IMAGE = "brig-test:ssh"

around(shared_engine)


def public(path):
    return " ".join(path.read_text().split()[:2])


@test(limit=120)
def a_container_logs_in_where_the_rule_says():
    common.shared.import_image(engine.ssh_tar(), IMAGE)
    with Agent() as agent, sshd.Sshd() as server:
        shutil.copy(agent.key.with_suffix(".pub"), server.folder / "key.pub")
        agent.ssh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", scratch() / "wrong")
        at = f"{server.login or 'root'}@git.test"
        said = {}
        for key in (server.folder / "host.pub", scratch() / "wrong.pub"):
            egress = {"allow": ["ssh:git.test"], "resolve": {"git.test": f"127.0.0.1:{server.port}"}, "host_keys": [f"git.test {public(key)}"]}
            config = scratch() / "ssh.yaml"
            config.write_text(json.dumps({"brig": 1, "network": "proxy", "ssh_agent": "auth", "egress": egress}))
            script = f"grep -c StrictHostKeyChecking.yes /etc/ssh/ssh_config; ssh -o BatchMode=yes {at} 'echo inside of the host' 2>&1"
            said[key.name] = box("--json", "--config", config, "--", "sh", "-c", script, image=IMAGE, env=agent.env).json
        good, bad = said["host.pub"], said["wrong.pub"]
        assert good["stdout"] == "1\ninside of the host\n" and good["signatures"] == 1 and good["egress"]["uninspected"] == 1, (good, (server.folder / "log").read_text())
        assert bad["exit_code"] == 255 and "Host key verification failed" in bad["stdout"] and bad["signatures"] == 0, bad


if __name__ == "__main__":
    sys.exit(main())
