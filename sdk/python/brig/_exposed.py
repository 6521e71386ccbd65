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


def _met(path: str) -> Iterator[str]:
    """What the kernel passes on its way there, name by name: folders, links and what they lead to, as far as there is anything."""
    at, links = "/", 0
    todo = os.path.join(os.getcwd(), path).split("/")
    while todo:
        name = todo.pop(0)
        if name in ("", "."):
            continue
        if name == "..":
            at = os.path.dirname(at)
            continue
        yield (here := os.path.join(at, name))
        if os.path.islink(here) and links < LINKS_MAX:
            links, goal = links + 1, os.readlink(here)
            at, todo = "/" if goal.startswith("/") else at, [*goal.split("/"), *todo]
        else:
            at = here


def is_exposed(path: str) -> bool:
    """By name and by identity, of the file, of every folder above it, and of all links that lead there. What is missing is judged by its folder."""
    met = {"/", *_met(path)}
    names = {"p-" + hashlib.sha256(os.fsencode(p)).hexdigest()[:40] for p in met}
    for p in met:
        try:
            st = os.stat(p)
        except OSError:
            continue
        names.add(f"i-{os.major(st.st_dev):x}:{os.minor(st.st_dev):x}-{st.st_ino:x}")
    return any(os.path.islink(f"{notes}/{name}") for notes in _notes(met) for name in names)
