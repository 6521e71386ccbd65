# SPDX-License-Identifier: Apache-2.0
"""Could a command in a sandbox have written this program? brig notes the folders that commands may write to in its state."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
from typing import Iterable, Iterator

LINKS_MAX = 40


def _listed(uid: int) -> str:
    """The home that the list of accounts names: a run under another HOME has its state there."""
    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return ""


def _owners(paths: Iterable[str]) -> Iterator[int]:
    """Who else owns one of them. What that user's sandboxes write is in that user's notes; root alone is led there."""
    for path in paths:
        with contextlib.suppress(OSError):
            uid = os.lstat(path).st_uid
            if uid and os.geteuid() == 0:
                yield uid


def _notes(paths: Iterable[str]) -> Iterator[str]:
    """All places where this user's state is or may have been, as base/state.h numbers them."""
    uid, env = os.geteuid(), os.environ.get
    homes = [f"{home}/.local/state" for home in (uid and env("HOME"), *map(_listed, {uid, *_owners(paths)})) if home]
    bases = [env("XDG_STATE_HOME", ""), env("XDG_RUNTIME_DIR", ""), *([] if uid else ["/var/lib"]), *homes, f"/run/user/{uid}"]
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
    return any(os.path.islink(f"{notes}/{name}") for notes in _notes(folders) for name in names)
