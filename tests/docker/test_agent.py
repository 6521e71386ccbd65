#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""--ssh-agent in containers: the gate makes the socket, and nothing of the host's is mounted for it."""

import base64
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import common  # noqa: E402
from common import box, podmans, shared_engine, shared_podmans  # noqa: E402
import engine  # noqa: E402
from agents import CLIENT, Agent, Scribe  # noqa: E402
from harness import around, identity, main, test  # noqa: E402

around(shared_engine)
around(shared_podmans)

GUEST = CLIENT + r"""
import base64
k = keys()[0]
print(base64.b64encode(sign(k, signed(data=b'a commit'))).decode())
print([kind(call(bytes([n]))) for n in (19, 22, 27, 17)], kind(sign(k, signed(b'file'))), kind(sign(k, login(k))))
print(open('/proc/mounts').read().count('ssh-agent'))
"""


def check(where, *more):
    with Agent() as agent:
        done = box("--json", "--ssh-agent", *more, "--", "python3", "-c", GUEST, image=engine.PYTHON_IMAGE, host=where.host, env=agent.env)
        said = done.json["stdout"].splitlines()
        assert said[1:] == ["[5, 5, 5, 5] 5 5", "0"] and done.json["signatures"] == 1, (done.text, done.errors)
        assert agent.verifies(b"git", b"a commit", base64.b64decode(said[0])) and not agent.verifies(b"git", b"another", base64.b64decode(said[0]))
        assert len(agent.fingerprints()) == 1


@test(limit=120)
def a_container_lists_and_signs_and_does_nothing_else():
    check(common.shared)
    check(common.shared, "--network", "proxy")


@test(limit=120)
def podman_lends_it_in_the_same_way():
    podmans[identity()].import_image(engine.python_tar(), engine.PYTHON_IMAGE)
    check(podmans[identity()])


@test(limit=120)
def what_an_image_has_prepared_is_in_the_way_of_nobody():
    """The place is the engine's own file system, whatever lies below it in the image."""
    common.shared.import_image(common.image(("dev/shm/brig-ssh-agent", "/tmp/elsewhere")), "brig-test:agent")
    with Scribe() as scribe:
        done = box("--ssh-agent", "--", "sh", "-c", "test -S $SSH_AUTH_SOCK && ls /dev/shm", image="brig-test:agent", env=scribe.env)
        assert done.text == "brig-ssh-agent\n" and scribe.types() == [], (done.text, done.errors)


if __name__ == "__main__":
    sys.exit(main())
