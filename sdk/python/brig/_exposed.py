# SPDX-License-Identifier: Apache-2.0
"""Could a command in a sandbox have written this program? brig notes the folders that commands may write to in its state."""

from __future__ import annotations

import hashlib
import os
from typing import Iterator

LINKS_MAX = 40


def _notes() -> Iterator[str]:
    home = os.environ.get("HOME", "")
    bases = [os.environ.get("XDG_STATE_HOME", ""), "/var/lib" if os.geteuid() == 0 else home and f"{home}/.local/state", os.environ.get("XDG_RUNTIME_DIR", "")]
    return (f"{base}/brig/exposed" for base in bases if base.startswith("/"))


def _above(path: str) -> Iterator[str]:
    """The path and every folder above it."""
    while True:
        yield path
        if path == "/":
            return
        path = os.path.dirname(path)


def _ways(path: str) -> Iterator[str]:
    """The path as it is written, and as it is with each link on the way followed."""
    for _ in range(LINKS_MAX):
        yield path
        link = next((p for p in reversed(list(_above(path))) if os.path.islink(p)), None)
        if link is None:
            return
        path = os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link), os.path.relpath(path, link)))


def is_exposed(path: str) -> bool:
    """By name and by identity, of the program, of every folder above it, and of all links that lead there."""
    folders = {p for way in (*_ways(os.path.abspath(path)), os.path.realpath(path)) for p in _above(way)}
    names = {"p-" + hashlib.sha256(os.fsencode(p)).hexdigest()[:40] for p in folders}
    for p in folders:
        try:
            st = os.stat(p)
        except OSError:
            continue
        names.add(f"i-{os.major(st.st_dev):x}:{os.minor(st.st_dev):x}-{st.st_ino:x}")
    return any(os.path.islink(f"{notes}/{name}") for notes in _notes() for name in names)
