# SPDX-License-Identifier: Apache-2.0
"""One call over a blocking socket."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from typing import Any, Dict, Iterator, Optional, Tuple

from . import _http1, _peer, _start
from ._place import Place
from ._sse import EventReader
from .errors import ConnectionCut, ConnectionFailed, ProtocolError, UntrustedServer

CONNECT_TIME = 5.0
PIECE = 64 << 10


def _dial_unix(path: str, own: bool) -> socket.socket:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        s.settimeout(CONNECT_TIME)
        s.connect(path)
        why = _peer.distrust(s, None if own else path)
        if why:
            raise UntrustedServer(f"the socket '{path}' is not a daemon's: {why}", "name one in a folder that no sandbox writes to")
    except BaseException:
        s.close()
        raise
    return s


def _dial_own(path: str, program: Optional[str]) -> socket.socket:
    """This user's daemon, which is started where there is none. Another client may be starting one: then that is waited for."""
    try:
        return _dial_unix(path, True)
    except (FileNotFoundError, ConnectionRefusedError):
        _start.start(program)
    until = time.monotonic() + CONNECT_TIME
    while True:
        try:
            return _dial_unix(path, True)
        except (FileNotFoundError, ConnectionRefusedError):
            if time.monotonic() >= until:
                raise
            time.sleep(0.005)


def _dial_tcp(place: Place) -> socket.socket:
    s = socket.create_connection((place.host, place.port), CONNECT_TIME)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not place.tls:
        return s
    try:
        return tls_context(place).wrap_socket(s, server_hostname=place.host)
    except BaseException:
        s.close()
        raise


def tls_context(place: Place) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=place.ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def dial(place: Place, program: Optional[str]) -> socket.socket:
    try:
        if place.path is None:
            return _dial_tcp(place)
        return _dial_own(place.path, program) if place.own else _dial_unix(place.path, False)
    except OSError as e:
        where = place.path or place.authority
        raise ConnectionFailed(f"cannot connect to '{where}': {e}", None if place.own else "brig daemon serves there, once it is started") from e


class Call:
    """A request and its answer, on a connection of its own. Closing it early tells the daemon that nobody listens."""

    def __init__(self, place: Place, program: Optional[str], request: _http1.Request, timeout: Optional[float]) -> None:
        self.answer = _http1.Answer()
        self._early = b""
        self._socket = dial(place, program)
        try:
            self._socket.settimeout(timeout)
            self._send(place, request)
            self._read_head()
        except BaseException:
            self.close()
            raise

    def _send(self, place: Place, request: _http1.Request) -> None:
        """A daemon that has answered already takes no more: its answer says why."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(request.head(place.authority, place.token))
            if request.is_stream:
                for piece in request.body:
                    if self._has_answered():
                        return
                    if piece:
                        self._socket.sendall(_http1.chunk(piece))
                self._socket.sendall(_http1.chunk(b""))
            elif request.body:
                self._socket.sendall(request.body)

    def _has_answered(self) -> bool:
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        return bool(waiting.poll(0))

    def _receive(self) -> bytes:
        """What the next bytes of the connection hold of the body, which may be nothing."""
        try:
            data = self._socket.recv(PIECE)
        except (TimeoutError, socket.timeout) as e:
            raise ConnectionCut("the daemon has not answered in time") from e
        except OSError as e:
            raise ConnectionCut(f"the connection to the daemon broke: {e}") from e
        if not data:
            self.answer.end()
        return b"".join(self.answer.feed(data))

    def _read_head(self) -> None:
        while not self.answer.status:
            self._early = self._receive()

    def pieces(self) -> Iterator[bytes]:
        """The body as it comes."""
        piece, self._early = self._early, b""
        while piece or not self.answer.done:
            if piece:
                yield piece
            piece = b"" if self.answer.done else self._receive()

    def read(self, limit: int) -> bytes:
        """All of the body, which must not be larger."""
        body = bytearray()
        for piece in self.pieces():
            body += piece
            if len(body) > limit:
                raise ProtocolError(f"the answer is larger than {limit} bytes")
        return bytes(body)

    def events(self) -> Iterator[Tuple[str, Dict[str, Any]]]:
        reader = EventReader()
        for piece in self.pieces():
            yield from reader.feed(piece)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Call:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
