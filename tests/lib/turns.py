# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is where suites run side by side: tests share the machine, and one that must be alone has it for itself.

Two locks in a folder that TURNS names; without it nobody else is there. `gate` is held for a moment by all who enter, and by
one who wants to be alone until the others have left, so that nobody new comes in meanwhile. `room` is held while a test runs.
"""

import contextlib
import fcntl
import os

FOLDER = os.environ.get("TURNS")


def _locked(name, how):
    """A descriptor that has the lock, or None."""
    fd = os.open(os.path.join(FOLDER, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, how)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def leave(turn):
    """At once, though children have copies of the descriptor."""
    if turn is not None and turn >= 0:
        fcntl.flock(turn, fcntl.LOCK_UN)
        os.close(turn)


def take(alone=False, wait=True):
    """What leave() gives back; None where it would have to wait and was told not to."""
    if not FOLDER:
        return -1
    more = 0 if wait else fcntl.LOCK_NB
    gate = _locked("gate", fcntl.LOCK_EX | more)
    if gate is None:
        return None
    try:
        return _locked("room", (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | more)
    finally:
        leave(gate)


@contextlib.contextmanager
def turn(alone=False):
    mine = take(alone)
    try:
        yield
    finally:
        leave(mine)
