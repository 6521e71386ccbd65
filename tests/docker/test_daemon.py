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
from daemon_commands import has_terminals, pauses, uses, works  # noqa: E402
from daemon_store import again, grows, keeps, mounts_into, sh  # noqa: E402
from harness import around, brig, main, test, workspace  # noqa: E402

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


@test(limit=120, as_user="root", alone=True)
def a_container_is_paused_by_its_engine_and_goes_on():
    settle()
    with daemon(env=common.environment()) as d:
        pauses(d, engine.IMAGE)


@test(limit=180)
def what_a_container_uses_is_seen():
    with daemon(env=common.environment()) as d:
        uses(d, engine.IMAGE)


@test(limit=120)
def a_command_in_a_container_can_have_a_terminal():
    with daemon(env=common.environment()) as d:
        has_terminals(d, d.create(spec={"backend": "docker", "image": engine.IMAGE})["id"])


@test(limit=120)
def a_stop_keeps_files_and_drops_processes_memory_and_the_root():
    with daemon(env=common.environment()) as d:
        keeps(d, engine.IMAGE)


@test(limit=120)
def what_something_is_mounted_into_is_in_memory():
    with daemon(env=common.environment()) as d:
        mounts_into(d, engine.IMAGE)


@test(limit=120, as_user="user")
def what_is_kept_is_bounded_in_a_container_too():
    with daemon(env=common.environment()) as d:
        grows(d, engine.IMAGE)


@test(limit=120, as_user="root")
def a_user_whose_files_nobody_can_give_away_has_no_store():
    with daemon(env=common.environment()) as d:
        box = d.create(spec={"backend": "docker", "image": engine.IMAGE, "docker": {"user": ""}})
        assert box["store"] is False and "keeps" not in box["isolation"], box
        box = d.create(spec={"backend": "docker", "image": engine.IMAGE, "limits": {"tmp": "64m"}})
        assert box["store"] is False, box


@test(limit=120, as_user="root", alone=True)
def what_is_copied_into_what_is_kept_is_copied_once():
    settle()
    (workspace() / "note").write_text("a note")
    with daemon(env=common.environment()) as d:
        copies = [{"source": str(workspace() / "note"), "target": t} for t in ("/tmp/note", "/srv/note")]
        box = d.create(spec={"backend": "docker", "image": engine.PYTHON_IMAGE, "copies": copies, "read_only_root": False})["id"]
        assert sh(d, box, "cat /tmp/note /srv/note; echo other > /tmp/note; rm /srv/note") == ["a", "notea", "note"]
        stopped = brig("sandbox", "stop", box, env={"BRIG_HOST": f"unix://{d.path}"})
        assert "kept for a resume" in stopped.errors and "written to the container's root among it" in stopped.errors, stopped
        again(d, box)
        # The root is the image's again, and what was copied there is copied again.
        assert sh(d, box, "cat /tmp/note /srv/note") == ["other", "a", "note"]
    (workspace() / "note").unlink()


if __name__ == "__main__":
    sys.exit(main())
