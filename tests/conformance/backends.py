# SPDX-License-Identifier: Apache-2.0
"""The backends that conformance knows: how to ask for each, and what has to run for it."""

import contextlib
import dataclasses
import os
import shutil
import typing

import engine
import sshd
from harness import brig, descendants, wait_until, workspace


@dataclasses.dataclass
class Backend:
    name: str
    options: typing.Callable  # of the fixture: arguments for brig
    fixture: typing.Callable = contextlib.nullcontext  # a context manager: what runs meanwhile
    host_paths: bool = False  # the command sees the host's own names
    env: typing.Callable = lambda _: {}  # of the fixture: variables for brig
    who: tuple = ("root", "user")  # started by

    def ready(self, fixture):
        """Whether this build has it at all; anything else that is wrong with it is a failure."""
        said = brig("run", *self.options(fixture), "--json", "--", "true", env=self.env(fixture)).json
        return not (said["error"] and "not in this version" in said["error"]["what"])


HOST = ["--backend", "none", "--i-know-this-is-not-a-sandbox"]


def cwd():
    return ["--set", f"ssh.remote_cwd={workspace()}"]


@contextlib.contextmanager
def dockerd():
    """A private engine with an image that has Python. Root's command is user 1000 in there."""
    with engine.Dockerd("/tmp/e") as e:
        e.import_image(engine.python_tar(), engine.PYTHON_IMAGE)
        os.chown(workspace(), 1000, 1000)
        yield e
        # brig does not wait for the engine to forget a container; its guard does.
        assert wait_until(lambda: not any(name.startswith("brig") for name in descendants().values()), 15)
    os.chown(workspace(), 0, 0)
    shutil.rmtree("/tmp/e", ignore_errors=True)


BACKENDS = [
    Backend("native", lambda _: ["--backend", "native"]),
    Backend("bwrap", lambda _: ["--backend", "bwrap"]),
    Backend("none", lambda _: HOST, host_paths=True),
    Backend("ssh", lambda host: host.options(*cwd()), sshd.Sshd, host_paths=True),
    Backend("ssh-brig", lambda host: host.options(*cwd(), "--set", "ssh.remote=brig"), sshd.Sshd),
    # For an ordinary user tests/docker does it: an engine of its own for each takes its time.
    Backend("docker", lambda _: ["--backend", "docker", "--image", engine.PYTHON_IMAGE], dockerd,
            env=lambda e: {"DOCKER_HOST": e.host}, who=("root",)),
]
