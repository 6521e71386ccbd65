# SPDX-License-Identifier: Apache-2.0
"""Who listens at a Unix socket. A command in a sandbox that can write to the socket's folder could put its own there."""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
from typing import Any, Optional

from ._exposed import is_exposed

SO_PEERPIDFD = 77  # Linux 6.5


def _depth(pid: int) -> int:
    """In how many pid namespaces, seen from here, the process has a number; -1: it is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
            for line in f:
                if line.startswith("NSpid:"):
                    return len(line.split()) - 1
    except OSError:
        pass
    return -1


def _is_gone(sock: Any) -> bool:
    """Does the process live no more that began to listen there? Its number may be another's by now. Before Linux 6.5 nobody can tell."""
    try:
        pidfd = sock.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError as e:
        return e.errno != errno.ENOPROTOOPT
    try:
        ends = select.poll()
        ends.register(pidfd, select.POLLIN)
        return bool(ends.poll(0))
    finally:
        os.close(pidfd)


def distrust(sock: Any, named: Optional[str]) -> Optional[str]:
    """Why what listens there is not this user's daemon; None: it may be. `named`: the path, if it is no place of the daemon's own."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", raw)
    if uid not in (0, os.geteuid()):
        return "what listens there is another user's"
    depth = _depth(pid) if pid > 0 else 2
    if depth > 1:
        return "what listens there lives in another pid namespace"
    if depth < 0 or _is_gone(sock):
        return "what began to listen there is gone"
    if named and is_exposed(named):
        return "it lies where commands in sandboxes may have written"
    return None
