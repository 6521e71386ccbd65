# SPDX-License-Identifier: Apache-2.0
"""The backends that conformance knows: how to ask for each, and what has to run for it."""

import contextlib
import dataclasses
import typing

import sshd
from harness import brig, workspace


@dataclasses.dataclass
class Backend:
    name: str
    options: typing.Callable  # of the fixture: arguments for brig
    fixture: typing.Callable = contextlib.nullcontext  # a context manager: what runs meanwhile
    host_paths: bool = False  # the command sees the host's own names
    remote: bool = False  # and the folder is given by ssh.remote_cwd

    def ready(self, fixture):
        """Whether this build has it at all; anything else that is wrong with it is a failure."""
        said = brig("run", *self.options(fixture), "--json", "--", "true").json
        return not (said["error"] and "not in this version" in said["error"]["what"])


HOST = ["--backend", "none", "--i-know-this-is-not-a-sandbox"]


def cwd():
    return ["--set", f"ssh.remote_cwd={workspace()}"]


BACKENDS = [
    Backend("native", lambda _: ["--backend", "native"]),
    Backend("bwrap", lambda _: ["--backend", "bwrap"]),
    Backend("none", lambda _: HOST, host_paths=True),
    Backend("ssh", lambda host: host.options(*cwd()), sshd.Sshd, host_paths=True, remote=True),
    Backend("ssh-brig", lambda host: host.options(*cwd(), "--set", "ssh.remote=brig"), sshd.Sshd, remote=True),
]
