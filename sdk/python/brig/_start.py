# SPDX-License-Identifier: Apache-2.0
"""Starts the daemon when it is needed, as the command line does."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from typing import Optional

from ._exposed import is_exposed
from .errors import ConnectionFailed

# What brig itself reads: where its folders are, and the ways to other daemons.
PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME",
             "XDG_CONFIG_HOME", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST")
TEXT_MAX = 700


def _program(program: Optional[str]) -> str:
    """Past those that a sandbox could have put there: into the .venv/bin of a project, say."""
    name, passed = program or os.environ.get("BRIG_PROGRAM") or "brig", ""
    folders = [os.getcwd()] if "/" in name else os.environ.get("PATH", os.defpath).split(":")
    for folder in filter(os.path.isabs, folders):
        found = shutil.which(os.path.join(folder, name))
        if found and not is_exposed(found):
            return found
        passed = passed or found or ""
    if passed:
        raise ConnectionFailed(f"no daemon runs, and '{passed}' is not started: it lies where commands in sandboxes may have written",
                               "install brig where no sandbox may write, or start the daemon by hand: brig daemon")
    raise ConnectionFailed("no daemon runs, and there is no program 'brig' to start one", "install brig, or name it in BRIG_PROGRAM")


def _listen(fd: int) -> str:
    """What the new daemon says about itself: "1", or why not."""
    text = b""
    while len(text) < TEXT_MAX and text != b"1":
        piece = os.read(fd, TEXT_MAX - len(text))
        if not piece:
            break
        text += piece
    return text.decode("utf-8", "replace")


def start(program: Optional[str] = None) -> None:
    """Returns when a daemon takes calls, or another client is starting one at this moment."""
    path = _program(program)
    here, there = os.pipe()
    try:
        child = subprocess.Popen(["brigd", "--ready-fd", str(there)], executable=path, cwd="/", start_new_session=True, pass_fds=(there,),
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 env={k: os.environ[k] for k in PASSED_ON if k in os.environ})
    except OSError as e:
        os.close(here)
        raise ConnectionFailed(f"cannot start '{path}': {e.strerror}") from e
    finally:
        os.close(there)
    # It outlives us as a rule; where it does not, it leaves no zombie.
    threading.Thread(target=child.wait, daemon=True).start()
    try:
        text = _listen(here)
    finally:
        os.close(here)
    if text == "1" or text.startswith("busy "):
        return
    what, _, hint = text.partition(" ")[2].partition("\n")
    raise ConnectionFailed(f"cannot start a daemon: {what or 'it ended at once'}", hint or None)
