# SPDX-License-Identifier: Apache-2.0
"""One call over a connection of asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any, AsyncIterator, Awaitable, Dict, Optional, Tuple, TypeVar

from . import _http1, _peer, _start
from ._place import Place
from ._sse import EventReader
from ._sync import CONNECT_TIME, PIECE, tls_context
from .errors import ConnectionCut, ConnectionFailed, ProtocolError, UntrustedServer

Streams = Tuple[asyncio.StreamReader, asyncio.StreamWriter]
T = TypeVar("T")


async def _within(step: Awaitable[T], seconds: float) -> T:
    """As asyncio.wait_for, which before Python 3.12 loses a cancellation that comes together with the result."""
    task = asyncio.ensure_future(step)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            raise asyncio.TimeoutError
        return task.result()
    finally:
        task.cancel()


async def _dial_unix(path: str, own: bool) -> Streams:
    reader, writer = await _within(asyncio.open_unix_connection(path), CONNECT_TIME)
    why = _peer.distrust(writer.get_extra_info("socket"), None if own else path)
    if why:
        writer.close()
        raise UntrustedServer(f"the socket '{path}' is not a daemon's: {why}", "name one in a folder that no sandbox writes to")
    return reader, writer


async def _dial_own(path: str, program: Optional[str]) -> Streams:
    """As _sync._dial_own."""
    try:
        return await _dial_unix(path, True)
    except (FileNotFoundError, ConnectionRefusedError):
        await asyncio.to_thread(_start.start, program)
    until = time.monotonic() + CONNECT_TIME
    while True:
        try:
            return await _dial_unix(path, True)
        except (FileNotFoundError, ConnectionRefusedError):
            if time.monotonic() >= until:
                raise
            await asyncio.sleep(0.005)


async def _dial_tcp(place: Place) -> Streams:
    tls: Dict[str, Any] = {"ssl": tls_context(place), "server_hostname": place.host} if place.tls else {}
    return await _within(asyncio.open_connection(place.host, place.port, **tls), CONNECT_TIME)


async def dial(place: Place, program: Optional[str]) -> Streams:
    try:
        if place.path is None:
            return await _dial_tcp(place)
        return await (_dial_own(place.path, program) if place.own else _dial_unix(place.path, False))
    except (OSError, asyncio.TimeoutError) as e:
        where = place.path or place.authority
        raise ConnectionFailed(f"cannot connect to '{where}': {e}", None if place.own else "brig daemon serves there, once it is started") from e


class Call:
    """A request and its answer, on a connection of its own. Closing it early tells the daemon that nobody listens."""

    def __init__(self, streams: Streams, timeout: float) -> None:
        self.answer = _http1.Answer()
        self._early = b""
        self._reader, self._writer = streams
        self._timeout = timeout

    @staticmethod
    async def begin(place: Place, program: Optional[str], request: _http1.Request, timeout: float) -> Call:
        call = Call(await dial(place, program), timeout)
        try:
            await call._exchange(place, request)
        except BaseException:
            call.close()
            raise
        return call

    async def _exchange(self, place: Place, request: _http1.Request) -> None:
        """Sends the request until the answer has begun, which may be before all is sent."""
        head = asyncio.ensure_future(self._read_head())
        try:
            await self._send(place, request, head)
            await self._in_time(asyncio.shield(head))
        finally:
            head.cancel()
            await asyncio.gather(head, return_exceptions=True)

    async def _in_time(self, step: Awaitable[T]) -> T:
        try:
            return await _within(step, self._timeout)
        except asyncio.TimeoutError as e:
            raise ConnectionCut("the daemon has not answered in time") from e

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._in_time(self._writer.drain())

    async def _send(self, place: Place, request: _http1.Request, head: asyncio.Future[None]) -> None:
        """A daemon that has answered already takes no more: its answer says why."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await self._write(request.head(place.authority, place.token))
            if request.is_stream:
                async for piece in _each(request.body):
                    await asyncio.sleep(0)  # else nobody looks whether it has
                    if head.done():
                        return
                    if piece:
                        await self._write(_http1.chunk(piece))
                await self._write(_http1.chunk(b""))
            elif request.body:
                await self._write(request.body)

    async def _take(self) -> bytes:
        """What the next bytes of the connection hold of the body, which may be nothing."""
        try:
            data = await self._reader.read(PIECE)
        except OSError as e:
            raise ConnectionCut(f"the connection to the daemon broke: {e}") from e
        if not data:
            self.answer.end()
        return b"".join(self.answer.feed(data))

    async def _read_head(self) -> None:
        while not self.answer.status:
            self._early = await self._take()

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        piece, self._early = self._early, b""
        while piece or not self.answer.done:
            if piece:
                yield piece
            piece = b"" if self.answer.done else await self._in_time(self._take())

    async def read(self, limit: int) -> bytes:
        """All of the body, which must not be larger."""
        body = bytearray()
        async for piece in self.pieces():
            body += piece
            if len(body) > limit:
                raise ProtocolError(f"the answer is larger than {limit} bytes")
        return bytes(body)

    async def events(self) -> AsyncIterator[Tuple[str, Dict[str, Any]]]:
        reader = EventReader()
        async for piece in self.pieces():
            for event in reader.feed(piece):
                yield event

    def close(self) -> None:
        self._writer.close()

    async def __aenter__(self) -> Call:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


async def _each(body: Any) -> AsyncIterator[bytes]:
    """Pieces of a body that comes from an ordinary or an asynchronous iterable."""
    if hasattr(body, "__aiter__"):
        async for piece in body:
            yield piece
    else:
        for piece in body:
            yield piece
