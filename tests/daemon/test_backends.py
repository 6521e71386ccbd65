#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sandboxes of the daemon on each backend that needs no engine; docker/test_daemon.py has the others."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import daemon  # noqa: E402
from daemon_commands import has_terminals, works  # noqa: E402
from harness import descendants, main, test, workspace  # noqa: E402


def alive(d):
    """Below its monitors: the test itself and its helpers are Python, too."""
    return lambda name: [n for n in descendants(d.process.pid).values() if n == name]


@test
def commands_can_be_run_and_ended_on_native():
    with daemon() as d:
        works(d, "native", alive(d))


@test
def commands_can_be_run_and_ended_on_bwrap():
    with daemon() as d:
        works(d, "bwrap", alive(d))


@test
def commands_can_be_run_and_ended_without_a_sandbox():
    with daemon() as d:
        works(d, "none", alive(d), allow_full_access=True, policy="full_access")


@test
def a_command_can_have_a_terminal():
    with daemon() as d:
        for backend in ("native", "bwrap"):
            has_terminals(d, d.create(spec={"backend": backend})["id"])


@test
def what_a_backend_cannot_do_is_refused_by_name():
    with daemon() as d:
        a = d.call("POST", "/v1/sandboxes?wait=true", {"spec": {"backend": "ssh", "ssh": {"host": "127.0.0.1:1"}}}).json
        assert a["state"] == "failed" and a["reason"], a
        box = d.create(spec={"backend": "none", "policy": "full_access", "allow_full_access": True, "workspace": {"path": str(workspace())}})["id"]
        for verb, body, word in (("pause", None, "none"), ("exec", {"argv": ["true"], "tty": True}, "terminal")):
            a = d.call("POST", f"/v1/sandboxes/{box}/{verb}", body)
            assert word in a.body.decode() and (a.status == 501 or a.json["outcome"] == "refused"), (verb, a)


if __name__ == "__main__":
    sys.exit(main())
