# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 without a socket: a request becomes bytes, and bytes become an answer. Both clients use it.

A connection carries one call. What an answer may be is bounded here; anything else is a ProtocolError.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Dict, List, Optional

from .errors import ConnectionCut, ProtocolError

HEAD_MAX = 64 << 10
LINE_MAX = 1024
TRAILER_MAX = 8 << 10
STATUS = re.compile(rb"HTTP/1\.[01] ([2-5][0-9][0-9])(?: [ -~\x80-\xff]*)?")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*")
SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;.*)?")


@dataclasses.dataclass
class Request:
    """`body` is bytes, or an iterable of bytes of unknown length. `again`: asking twice does no more than asking once."""

    method: str
    target: str
    body: Any = None
    kind: str = "application/json"
    accept: str = "application/json"
    key: Optional[str] = None
    since: Optional[int] = None
    again: bool = False

    @property
    def is_stream(self) -> bool:
        return self.body is not None and not isinstance(self.body, (bytes, bytearray))

    def head(self, authority: str, token: Optional[str]) -> bytes:
        lines = [f"{self.method} {self.target} HTTP/1.1", f"Host: {authority}", f"Accept: {self.accept}", "Connection: close"]
        if token:
            lines.append(f"Authorization: Bearer {token}")
        if self.key:
            lines.append(f"Idempotency-Key: {self.key}")
        if self.since is not None:
            lines.append(f"Last-Event-ID: {int(self.since)}")
        if self.body is not None:
            lines.append(f"Content-Type: {self.kind}")
            lines.append("Transfer-Encoding: chunked" if self.is_stream else f"Content-Length: {len(self.body)}")
        elif self.method in ("POST", "PUT", "PATCH"):
            lines.append("Content-Length: 0")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def chunk(data: bytes) -> bytes:
    """One piece of a body of unknown length; an empty one ends it."""
    return b"%x\r\n%s\r\n" % (len(data), data)


class Answer:
    """Reads one answer. feed() takes bytes as they come and returns what they hold of the body."""

    def __init__(self) -> None:
        self.status = 0
        self.fields: Dict[str, str] = {}
        self.trailers: Dict[str, str] = {}  # fields behind the body
        self.done = False
        self._rest = b""
        self._left: Optional[int] = None  # of the body or chunk; None: until the connection ends
        self._chunked = False
        self._step = "head"
        self._trailed = 0

    def feed(self, data: bytes) -> List[bytes]:
        self._rest += data
        pieces: List[bytes] = []
        while self._turn(pieces):
            pass
        return pieces

    def end(self) -> None:
        """The connection has ended."""
        if self._step == "body" and self._left is None:
            self.done = True
        if not self.done:
            raise ConnectionCut("the daemon has ended the connection in the middle of its answer" if self.status
                                else "the daemon has ended the connection without an answer")

    def _turn(self, pieces: List[bytes]) -> bool:
        """One step; False: it needs more bytes, or nothing is left to do."""
        if self.done:
            return False
        if self._step == "head":
            return self._take_head()
        if self._step == "size":
            return self._take_size()
        if self._step == "gap":
            return self._take_gap()
        if self._step == "trailer":
            return self._take_trailer()
        return self._take_body(pieces)

    def _line(self, limit: int) -> Optional[bytes]:
        at = self._rest.find(b"\n", 0, limit)
        if at < 0:
            if len(self._rest) >= limit:
                raise ProtocolError("a line of the answer is too long")
            return None
        line, self._rest = self._rest[:at], self._rest[at + 1:]
        return line[:-1] if line.endswith(b"\r") else line

    def _take_head(self) -> bool:
        end = self._rest.find(b"\r\n\r\n")
        if end < 0 or end > HEAD_MAX:
            if len(self._rest) > HEAD_MAX:
                raise ProtocolError("the head of the answer is too long")
            if not b"HTTP/1.".startswith(self._rest[:7]):
                raise ProtocolError("the answer is not HTTP")
            return False
        lines, self._rest = self._rest[:end].split(b"\r\n"), self._rest[end + 4:]
        first = STATUS.fullmatch(lines[0])
        if not first:
            raise ProtocolError("the answer is not HTTP")
        self.status = int(first.group(1))
        for line in lines[1:]:
            self._take_field(line)
        self._frame()
        return True

    def _take_field(self, line: bytes) -> None:
        m = FIELD.fullmatch(line)
        if not m:
            raise ProtocolError("a field of the answer is malformed")
        name = m.group(1).decode("ascii").lower()
        if name in self.fields and name in ("content-length", "transfer-encoding"):
            raise ProtocolError("the answer has two lengths")
        self.fields[name] = m.group(2).decode("latin-1")

    def _frame(self) -> None:
        """How the end of the body is known."""
        length, coding = self.fields.get("content-length"), self.fields.get("transfer-encoding")
        self._step = "body"
        if self.status in (204, 304):
            self.done = True
        elif coding is not None:
            if coding.lower() != "chunked" or length is not None:
                raise ProtocolError("the answer's length is malformed")
            self._chunked, self._step = True, "size"
        elif length is not None:
            if not re.fullmatch(r"[0-9]{1,18}", length):
                raise ProtocolError("the answer's length is malformed")
            self._left = int(length)
            self.done = self._left == 0

    def _take_size(self) -> bool:
        line = self._line(LINE_MAX)
        if line is None:
            return False
        m = SIZE.fullmatch(line)
        if not m:
            raise ProtocolError("a chunk of the answer is malformed")
        self._left = int(m.group(1), 16)
        self._step = "body" if self._left else "trailer"
        return True

    def _take_gap(self) -> bool:
        line = self._line(LINE_MAX)
        if line is None:
            return False
        if line:
            raise ProtocolError("a chunk of the answer is malformed")
        self._step = "size"
        return True

    def _take_trailer(self) -> bool:
        line = self._line(TRAILER_MAX)
        if line is None:
            return False
        self.done = not line
        self._trailed += len(line)
        if self._trailed > TRAILER_MAX:
            raise ProtocolError("the fields behind the answer are too long")
        m = FIELD.fullmatch(line)
        if m:
            self.trailers[m.group(1).decode("ascii").lower()] = m.group(2).decode("latin-1")
        return not self.done

    def _take_body(self, pieces: List[bytes]) -> bool:
        if not self._rest:
            return False
        n = len(self._rest) if self._left is None else min(self._left, len(self._rest))
        piece, self._rest = self._rest[:n], self._rest[n:]
        pieces.append(piece)
        if self._left is None:
            return False
        self._left -= n
        if self._left:
            return False
        if self._chunked:
            self._step = "gap"
        else:
            self.done = True
        return True
