#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sandboxes of the daemon in containers."""

import contextlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import common  # noqa: E402
from common import engine, settle, shared_engine, token  # noqa: E402
from daemon import daemon  # noqa: E402
from daemon_commands import works  # noqa: E402
from harness import around, main, test  # noqa: E402

around(shared_engine)


def alive(mark):
    """Says what runs with this variable, wherever the engine has put it."""
    def look(name):
        found = []
        for p in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark.encode() in (p / "environ").read_bytes() and (p / "comm").read_text() == name + "\n":
                    found.append(int(p.name))
        return found
    return look


@test(limit=120, as_user="root", alone=True)
def commands_can_be_run_and_ended_in_a_container():
    settle()
    with daemon(env=common.environment()) as d:
        mark = f"BRIG_TEST_{token()}".replace("-", "_")
        works(d, "docker", alive(mark), image=engine.PYTHON_IMAGE, env={"set": {mark: "1"}})


if __name__ == "__main__":
    sys.exit(main())
