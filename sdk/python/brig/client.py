# SPDX-License-Identifier: Apache-2.0
"""The client for programs without an event loop. brig.aio has the same for asyncio."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from typing import Any, BinaryIO, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from . import _place, _routes
from ._http1 import Request
from ._routes import Time
from ._settings import Network, Policy, Words, settings
from ._sync import PIECE, Call
from .errors import BrigError, Conflict, ConnectionCut, ConnectionFailed, ExecEnded, NotFound, ProtocolError, Quota, SandboxFailed
from .model import Change, Event, ExecInfo, File, Info, Output, Packed, Question, Result, SandboxInfo, member

__all__ = ["Client", "Exec", "Files", "Sandbox"]

PAUSES = (0.05, 0.2, 0.8)  # before a call is repeated, in seconds
STREAM_TIME = 60.0  # the daemon says something every 15 seconds
Path = Union[None, str, "os.PathLike[str]"]
Size = Union[None, int, str]
T = TypeVar("T")


class Client:
    """Calls to one daemon: this user's own, which is started when it is needed, or the one that `host` or BRIG_HOST names.

    Every call has a connection of its own; several threads may use one client.
    """

    def __init__(self, host: Optional[str] = None, token: Optional[str] = None, *, ca: Optional[str] = None, timeout: float = 60.0,
                 program: Optional[str] = None) -> None:
        self._at = _place.find(host, token, ca)
        self._timeout, self._program = timeout, program
        self._lock, self._checked = threading.Lock(), False

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    # ---- calls ----

    def _check(self) -> None:
        """Before the first call: is the daemon one that this package can speak to?"""
        with self._lock:
            if not self._checked:
                _routes.check_schema(self._ask_once(_routes.info()))
                self._checked = True

    def _call(self, request: Request, timeout: Optional[float] = None) -> Call:
        """A call whose answer has begun and is no refusal."""
        call = Call(self._at, self._program, request, timeout or self._timeout)
        if call.answer.status < 300:
            return call
        with call:
            raise _routes.refusal(call.answer, call.read(_routes.PROBLEM_MAX))

    def _ask_once(self, request: Request, timeout: Optional[float] = None) -> Dict[str, Any]:
        with self._call(request, timeout) as call:
            body = call.read(_routes.JSON_MAX)
            if call.answer.status == 204:
                return {}
            _routes.check_kind(call.answer, "application/json")
            return _routes.read_json(body)

    def _again(self, request: Request, step: Callable[[], T]) -> T:
        """What may be asked twice is asked again when the connection breaks."""
        self._check()
        for wait in PAUSES if request.again else ():
            try:
                return step()
            except (ConnectionCut, ConnectionFailed):
                time.sleep(wait)
        return step()

    def _begin(self, request: Request, timeout: Optional[float] = None) -> Call:
        return self._again(request, lambda: self._call(request, timeout))

    def _ask(self, request: Request, timeout: Optional[float] = None) -> Dict[str, Any]:
        return self._again(request, lambda: self._ask_once(request, timeout))

    def _events(self, request: Request, timeout: float = STREAM_TIME) -> Call:
        call = self._begin(request, timeout)
        try:
            _routes.check_kind(call.answer, _routes.EVENTS)
        except BaseException:
            call.close()
            raise
        return call

    # ---- the daemon ----

    def info(self) -> Info:
        return Info.of(self._ask(_routes.info()))

    def events(self, since: Optional[int] = None, *, sandbox: Optional[str] = None, follow: bool = True) -> Iterator[Event]:
        """What happened after event number `since`, then what happens; without a number only the latter.

        A connection that breaks is made again, and nothing is missed; where that cannot be, EventsExpired is raised.
        """
        at = self.info().last_event if since is None else since
        idle = 0
        while True:
            before = at
            with contextlib.suppress(ConnectionCut), self._events(_routes.events(sandbox, at, follow)) as call:
                for kind, raw in call.events():
                    event = _routes.event(kind, raw)
                    at = event.seq
                    yield event
                if not follow:
                    return
            idle = 0 if at > before else idle + 1
            if idle > len(PAUSES):
                raise ConnectionCut("the daemon ends every stream of events at once")
            time.sleep(PAUSES[0])

    # ---- sandboxes ----

    def run(self, argv: Words, *, spec: Optional[Mapping[str, Any]] = None, workspace: Path = None, policy: Optional[Policy] = None,
            network: Optional[Network] = None, allow: Optional[Sequence[str]] = None, limits: Optional[Mapping[str, Any]] = None,
            env: Optional[Mapping[str, str]] = None, backend: Optional[str] = None, stdin: Optional[str] = None, cwd: Optional[str] = None,
            timeout: Time = None, output_limit: Size = None, on_output: Optional[Callable[[Output], None]] = None) -> Result:
        """One command in a sandbox of its own, which is gone afterwards. `on_output` is called with what it writes, as it comes."""
        made = settings(spec, workspace=workspace, policy=policy, network=network, allow=allow, limits=limits, env=env, backend=backend,
                        local=self._at.path is not None)
        heard = _routes.Heard()
        with self._events(_routes.run(made, argv, stdin, cwd, timeout, output_limit), _routes.CREATE_TIME) as call:
            for kind, raw in call.events():
                piece = heard.take(kind, raw)
                if piece and on_output:
                    on_output(piece)
        if heard.result is None:
            raise ConnectionCut("the daemon has not said how the command ended")
        return heard.result

    def create(self, *, name: Optional[str] = None, labels: Optional[Mapping[str, str]] = None, spec: Optional[Mapping[str, Any]] = None,
               workspace: Path = None, policy: Optional[Policy] = None, network: Optional[Network] = None, allow: Optional[Sequence[str]] = None,
               limits: Optional[Mapping[str, Any]] = None, env: Optional[Mapping[str, str]] = None,
               companions: Optional[Mapping[str, Mapping[str, Any]]] = None, backend: Optional[str] = None, idle_ttl: Time = None, ttl: Time = None,
               cleanup_ttl: Time = None, key: Optional[str] = None, wait: bool = True) -> Sandbox:
        """A sandbox for many commands. In a `with` it is deleted at the end.

        A call that is cut off is repeated with the same key (an Idempotency-Key; `key` gives one of your own), and makes one sandbox.
        """
        made = settings(spec, workspace=workspace, policy=policy, network=network, allow=allow, limits=limits, env=env, companions=companions,
                        backend=backend, local=self._at.path is not None)
        request = _routes.create(made, name, labels, idle_ttl, ttl, cleanup_ttl, _routes.key_or_new(key), wait)
        box = Sandbox(self, self._create(request, own_key=key is None))
        return box.wait_ready() if wait else box

    def _create(self, request: Request, own_key: bool) -> Dict[str, Any]:
        for wait in PAUSES:
            try:
                return self._ask(request, _routes.CREATE_TIME)
            except Quota:
                # Keys are counted as well; without one the call is not repeated.
                if not own_key or request.key is None:
                    raise
                request.key, request.again = None, False
            except Conflict as e:
                # An earlier try of ours may still be worked on.
                if e.code != "conflict":
                    raise
                time.sleep(wait)
        return self._ask(request, _routes.CREATE_TIME)

    def get(self, ref: str) -> Sandbox:
        """One that is there, by its id or name."""
        return Sandbox(self, self._ask(_routes.get(ref)))

    def list(self, *, labels: Optional[Mapping[str, str]] = None, state: Optional[str] = None) -> List[Sandbox]:
        found: List[Sandbox] = []
        cursor: Optional[str] = None
        for pages in itertools.count(1):
            page = self._ask(_routes.list_page(labels, state, cursor))
            found += [Sandbox(self, raw) for raw in _routes.objects(page, "sandboxes")]
            cursor = _routes.next_page(page, pages)
            if cursor is None:
                break
        return found

    def delete_all(self, labels: Mapping[str, str]) -> List[str]:
        """Deletes those that have all of these labels; their ids."""
        return [str(i) for i in member(self._ask(_routes.delete_many(labels)), "sandboxes", list)]


class Sandbox:
    """A sandbox of the daemon. `info` is what was last heard of it; refresh() asks again."""

    def __init__(self, client: Client, raw: Dict[str, Any]) -> None:
        self._client = client
        self.info = SandboxInfo.of(raw)
        self.files = Files(client, self.id)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(NotFound):
            self.delete()

    def __repr__(self) -> str:
        return f"<brig.Sandbox {self.id} {self.info.state}>"

    @property
    def id(self) -> str:
        return self.info.id

    def refresh(self) -> SandboxInfo:
        self.info = SandboxInfo.of(self._client._ask(_routes.get(self.id)))
        return self.info

    def wait_ready(self) -> Sandbox:
        """Returns once it is ready; SandboxFailed, with its log, when it never will be."""
        while self.info.state == "pending":
            time.sleep(0.05)
            self.refresh()
        if self.info.state in ("failed", "deleting", "deleted"):
            log = ""
            with contextlib.suppress(BrigError):
                log = self.logs()
            raise SandboxFailed(self.id, self.info.reason, log)
        return self

    # ---- commands ----

    def exec(self, argv: Words, *, stdin: Union[None, str, bytes] = None, env: Optional[Mapping[str, str]] = None, cwd: Optional[str] = None,
             timeout: Time = None, output_limit: Size = None, key: Optional[str] = None) -> Result:
        """A command to its end. A list is a command with its arguments, a text a line for sh."""
        if isinstance(stdin, bytes) or (stdin is not None and len(stdin) > _routes.INLINE_INPUT_MAX):
            command = self.start(argv, stdin=True, env=env, cwd=cwd, timeout=timeout, output_limit=output_limit, key=key)
            with contextlib.suppress(Conflict):  # it reads no more
                command.write(stdin if isinstance(stdin, bytes) else stdin.encode(), close=True)
            return command.wait()
        heard = _routes.Heard()
        request = _routes.exec_now(self.id, argv, stdin, env, cwd, timeout, output_limit, key)
        with contextlib.suppress(ConnectionCut), self._client._events(request) as call:
            for kind, raw in call.events():
                heard.take(kind, raw)
        if heard.exec is None:
            raise ConnectionCut("the daemon has not said whether the command was started", "give a key to be able to repeat the call")
        return Exec(self._client, self.id, heard).wait()

    def start(self, argv: Words, *, stdin: bool = False, env: Optional[Mapping[str, str]] = None, cwd: Optional[str] = None, timeout: Time = None,
              output_limit: Size = None, tty: Optional[Tuple[int, int]] = None, key: Optional[str] = None) -> Exec:
        """A command that goes on by itself. `stdin`: write() gives it input. `tty`: on a terminal of (rows, columns)."""
        request = _routes.exec_start(self.id, argv, stdin, env, cwd, timeout, output_limit, tty, key)
        return self.command(member(self._client._ask(request), "exec", str))

    def command(self, exec_id: str) -> Exec:
        """A command that was started before, to listen to it again from its beginning."""
        return Exec(self._client, self.id, _routes.Heard(exec_id))

    def commands(self) -> List[ExecInfo]:
        return [ExecInfo.of(raw) for raw in _routes.objects(self._client._ask(_routes.exec_list(self.id)), "execs")]

    def context(self, name: str = "main") -> Context:
        """Python that stays: variables live on from call to call."""
        return Context(self, name)

    # ---- names that no rule allows ----

    def questions(self) -> List[Question]:
        """Those that wait for an answer (`ask=True` of its settings)."""
        return [Question.of(raw) for raw in _routes.objects(self._client._ask(_routes.question_list(self.id)), "questions")]

    def answer(self, question: Union[int, Question], answer: str) -> None:
        """May it be reached? `answer` is once, run (as long as the sandbox is open) or no. The daemon's owner alone may say."""
        self._client._ask(_routes.question_answer(self.id, question.number if isinstance(question, Question) else question, answer))

    # ---- its life ----

    def _becomes(self, request: Request) -> SandboxInfo:
        self.info = SandboxInfo.of(self._client._ask(request, _routes.CREATE_TIME))
        return self.info

    def pause(self) -> SandboxInfo:
        return self._becomes(_routes.pause(self.id))

    def resume(self) -> SandboxInfo:
        """Goes on after pause() or stop()."""
        return self._becomes(_routes.resume(self.id))

    def stop(self, grace: Time = None) -> SandboxInfo:
        """Ends its processes, keeps its workspace and settings."""
        return self._becomes(_routes.stop(self.id, grace))

    def update(self, *, name: Optional[str] = None, labels: Optional[Mapping[str, str]] = None, idle_ttl: Time = None, ttl: Time = None,
               allow: Optional[Iterable[str]] = None) -> SandboxInfo:
        """`allow` leaves a stopped sandbox fewer of its hosts."""
        return self._becomes(_routes.update(self.id, name, labels, idle_ttl, ttl, allow))

    def delete(self) -> None:
        self._client._ask(_routes.delete(self.id), _routes.CREATE_TIME)

    def logs(self) -> str:
        """Notes about it, and why it failed."""
        with self._client._begin(_routes.logs(self.id)) as call:
            return call.read(_routes.LOGS_MAX).decode("utf-8", "replace")

    def events(self, since: Optional[int] = None, *, follow: bool = True) -> Iterator[Event]:
        return self._client.events(since, sandbox=self.id, follow=follow)


class Context:
    """Python in a sandbox whose variables live on from call to call."""

    def __init__(self, box: Sandbox, name: str) -> None:
        self._box, self.name = box, name

    def __repr__(self) -> str:
        return f"<brig.Context {self.name} of {self._box.id}>"

    def start(self, code: str, *, args: Iterable[str] = (), restart: bool = False, timeout: Time = None, output_limit: Size = None) -> Exec:
        """A call that goes on by itself; cancel() interrupts it, and leaves the variables."""
        request = _routes.code_start(self._box.id, self.name, code, args, restart, timeout, output_limit)
        return self._box.command(member(self._box._client._ask(request), "exec", str))

    def run(self, code: str, *, args: Iterable[str] = (), restart: bool = False, timeout: Time = None, output_limit: Size = None) -> Result:
        """Code to its end; `shown` of the result has what it shows. `restart`: in a new context of this name."""
        return self.start(code, args=args, restart=restart, timeout=timeout, output_limit=output_limit).wait()


class Exec:
    """A command in a sandbox. It runs on whether or not anybody listens; cancel() ends it."""

    def __init__(self, client: Client, sandbox: str, heard: _routes.Heard) -> None:
        assert heard.exec is not None
        self._client, self._sandbox, self._heard = client, sandbox, heard
        self.id: str = heard.exec

    def __enter__(self) -> Exec:
        return self

    def __exit__(self, *_: object) -> None:
        if self._heard.result is None:
            with contextlib.suppress(ExecEnded, NotFound):
                self.cancel()

    def __repr__(self) -> str:
        return f"<brig.Exec {self.id}>"

    def __iter__(self) -> Iterator[Output]:
        """What it writes, as it comes, until it has ended. A connection that breaks is made again where it broke off."""
        idle = 0
        while self._heard.result is None:
            before = self._heard.at
            with contextlib.suppress(ConnectionCut), self._client._events(_routes.exec_stream(self._sandbox, self.id, before)) as call:
                for kind, raw in call.events():
                    piece = self._heard.take(kind, raw)
                    if piece:
                        yield piece
            idle = 0 if self._heard.at > before else idle + 1
            if idle > len(PAUSES):
                raise ConnectionCut("the daemon has not said how the command ended")

    def attach(self, since: int = 0) -> Iterator[Output]:
        """Its output once more from byte `since` on, the end of a piece that was seen before for example."""
        return iter(Exec(self._client, self._sandbox, _routes.Heard(self.id, since)))

    def wait(self) -> Result:
        """Its end, with all that this object has heard of its output."""
        for _ in self:
            pass
        assert self._heard.result is not None
        return self._heard.result

    @property
    def result(self) -> Optional[Result]:
        """How it ended, once that was heard."""
        return self._heard.result

    def refresh(self) -> ExecInfo:
        return ExecInfo.of(self._client._ask(_routes.exec_get(self._sandbox, self.id)))

    def write(self, data: Union[str, bytes], close: bool = False) -> None:
        """Gives it input and waits until it was taken. What a command that has ended does not read any more is left out."""
        with contextlib.suppress(ExecEnded):
            for piece in _routes.pieces(data.encode() if isinstance(data, str) else data):
                self._client._ask(_routes.exec_write(self._sandbox, self.id, piece, False), _routes.INPUT_TIME)
            if close:
                self.close_stdin()

    def close_stdin(self) -> None:
        with contextlib.suppress(ExecEnded):
            self._client._ask(_routes.exec_write(self._sandbox, self.id, b"", True))

    def signal(self, signal: Union[str, int]) -> None:
        """By its name, with or without SIG, or its number."""
        self._client._ask(_routes.exec_signal(self._sandbox, self.id, signal))

    def cancel(self) -> None:
        """Ends it with every process that it started."""
        self._client._ask(_routes.exec_cancel(self._sandbox, self.id))

    def resize(self, rows: int, cols: int) -> None:
        self._client._ask(_routes.exec_resize(self._sandbox, self.id, rows, cols))


class Files:
    """Files of a sandbox. Paths are those of the inside; relative ones lead from the workspace, and no link is followed."""

    def __init__(self, client: Client, sandbox: str) -> None:
        self._client, self._sandbox = client, sandbox

    def read(self, path: str, limit: int = _routes.FILE_MAX) -> bytes:
        """A file that is not larger than `limit`; read_to() has none."""
        with self._client._begin(_routes.file_read(self._sandbox, path)) as call:
            return call.read(limit)

    def read_text(self, path: str) -> str:
        return self.read(path).decode("utf-8")

    def read_to(self, path: str, to: BinaryIO) -> int:
        """Copies a file into one that is open; how many bytes it has."""
        return (self._save(_routes.file_read(self._sandbox, path), to))[0]

    def write(self, path: str, data: Union[str, bytes, BinaryIO, Iterable[bytes]], mode: Optional[int] = None) -> None:
        """Makes or replaces a file. It has its name only once all has come."""
        self._client._ask(_routes.file_write(self._sandbox, path, source(data), mode))

    def remove(self, path: str, recursive: bool = False) -> None:
        self._client._ask(_routes.file_remove(self._sandbox, path, recursive))

    def list(self, path: str = ".") -> List[File]:
        """What is in a folder, sorted by name: at most 10,000 entries."""
        return [File.of(raw) for raw in _routes.objects(self._client._ask(_routes.file_list(self._sandbox, path)), "files")]

    def stat(self, path: str) -> File:
        return File.of(self._client._ask(_routes.file_stat(self._sandbox, path)))

    def exists(self, path: str) -> bool:
        try:
            self.stat(path)
        except NotFound:
            return False
        return True

    def mkdir(self, path: str, parents: bool = False) -> None:
        self._client._ask(_routes.file_mkdir(self._sandbox, path, parents))

    def move(self, path: str, to: str, replace: bool = False) -> None:
        self._client._ask(_routes.file_move(self._sandbox, path, to, replace))

    @contextlib.contextmanager
    def watch(self, path: str = ".") -> Iterator[Iterator[Change]]:
        """What changes in a folder from now on, or in a file: `with files.watch() as changes`."""
        with self._client._events(_routes.file_watch(self._sandbox, path)) as call:
            events = call.events()
            if next(events, ("", {}))[0] != "watching":
                raise ProtocolError("the daemon does not say that it watches")
            yield (Change.of(raw) for kind, raw in events if kind == "change")

    def pack(self, path: str, to: BinaryIO) -> Packed:
        """A folder as tar into an open file. Its bytes are a guest's: unpack it with filter='data', or by `brig sandbox cp`."""
        size, call = self._save(_routes.archive_get(self._sandbox, path), to)
        return Packed.of(size, call.answer.trailers.get("brig-left-out"))

    def unpack(self, path: str, data: Union[bytes, BinaryIO, Iterable[bytes]]) -> None:
        """A tar into a folder that is there."""
        self._client._ask(_routes.archive_put(self._sandbox, path, source(data)))

    def _save(self, request: Request, to: BinaryIO) -> Tuple[int, Call]:
        size = 0
        with self._client._begin(request) as call:
            for piece in call.pieces():
                to.write(piece)
                size += len(piece)
        return size, call


def source(data: Any) -> Any:
    """A body: bytes, or pieces of them."""
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, (bytes, bytearray)):
        return bytes(data)
    if hasattr(data, "read"):
        return iter(lambda: data.read(PIECE), b"")
    return data
