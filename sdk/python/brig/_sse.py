# SPDX-License-Identifier: Apache-2.0
"""Server-sent events without a socket."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Tuple

from .errors import ProtocolError

EVENT_MAX = 16 << 20


class EventReader:
    """feed() takes bytes as they come and returns the whole events in them: (type, data)."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._kind, self._size = "", 0
        self._data: List[bytes] = []

    def feed(self, data: bytes) -> List[Tuple[str, Dict[str, Any]]]:
        found: List[Tuple[str, Dict[str, Any]]] = []
        self._rest += data
        if b"\n" in data:
            lines = bytes(self._rest).split(b"\n")
            self._rest = bytearray(lines.pop())
            for line in lines:
                self._line(line[:-1] if line.endswith(b"\r") else line, found)
        if len(self._rest) + self._size > EVENT_MAX:
            raise ProtocolError("an event is too long")
        return found

    def _line(self, line: bytes, found: List[Tuple[str, Dict[str, Any]]]) -> None:
        if line:
            self._take(line)
        elif self._data:
            found.append((self._kind, _object(b"\n".join(self._data))))
            self._kind, self._data, self._size = "", [], 0

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if name == b"event":
            self._kind = value.decode("utf-8", "replace")
        elif name == b"data":
            self._data.append(value)
            self._size += len(value) + 8  # an empty line takes room as well


def _object(data: bytes) -> Dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise ProtocolError("an event is not JSON") from e
    if not isinstance(value, dict):
        raise ProtocolError("an event is not an object")
    return value
