# SPDX-License-Identifier: Apache-2.0
"""Who listens at a Unix socket. A command in a sandbox that can write to the socket's folder could put its own there."""

from __future__ import annotations

import os
import socket
import struct
from typing import Any, Optional


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


def distrust(sock: Any) -> Optional[str]:
    """Why what listens there is not this user's daemon; None: it may be."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", raw)
    if uid not in (0, os.geteuid()):
        return "what listens there is another user's"
    depth = _depth(pid) if pid > 0 else 2
    if depth > 1:
        return "what listens there lives in another pid namespace"
    if depth < 0:
        return "what began to listen there is gone"
    return None
