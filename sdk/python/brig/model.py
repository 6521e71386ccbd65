# SPDX-License-Identifier: Apache-2.0
"""What the daemon answers with, as plain data. `raw` is the object as it came, with members that have no name here."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import re
import urllib.parse
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from .errors import CommandFailed, ProtocolError

__all__ = ["Change", "Companion", "Event", "ExecInfo", "File", "Info", "Output", "Packed", "Result", "SandboxInfo"]

KEPT_MAX = 64 << 20  # bytes of one stream that a client keeps


def member(raw: Mapping[str, Any], name: str, kind: type) -> Any:
    """A member that must be there, and of this kind."""
    value = raw.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ProtocolError(f"the answer has no '{name}'")
    return value


def _text(raw: Mapping[str, Any], name: str) -> Optional[str]:
    value = raw.get(name)
    return value if isinstance(value, str) else None


def _objects(raw: Mapping[str, Any], name: str) -> List[Dict[str, Any]]:
    value = raw.get(name)
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


@dataclasses.dataclass(frozen=True)
class Info:
    """The daemon itself."""

    version: str
    schema: int
    sandboxes: int
    execs_running: int
    last_event: int
    raw: Dict[str, Any] = dataclasses.field(repr=False)

    @staticmethod
    def of(raw: Dict[str, Any]) -> Info:
        return Info(member(raw, "version", str), member(raw, "schema", int), member(raw, "sandboxes", int), member(raw, "execs_running", int),
                    member(raw, "last_event", int), raw)


@dataclasses.dataclass(frozen=True)
class Companion:
    """A service beside a sandbox, reached from inside by its name."""

    name: str
    state: str
    address: Optional[str]
    reason: Optional[str]

    @staticmethod
    def of(raw: Dict[str, Any]) -> Companion:
        return Companion(member(raw, "name", str), member(raw, "state", str), _text(raw, "address"), _text(raw, "reason"))


@dataclasses.dataclass(frozen=True)
class SandboxInfo:
    """A sandbox as it was when this was asked for."""

    id: str
    name: Optional[str]
    state: str
    reason: Optional[str]
    created: str
    started: Optional[str]
    expires: Optional[str]
    backend: Optional[str]
    labels: Dict[str, str]
    companions: Tuple[Companion, ...]
    execs_running: int
    raw: Dict[str, Any] = dataclasses.field(repr=False)

    @staticmethod
    def of(raw: Dict[str, Any]) -> SandboxInfo:
        return SandboxInfo(member(raw, "id", str), _text(raw, "name"), member(raw, "state", str), _text(raw, "reason"), member(raw, "created", str),
                           _text(raw, "started"), _text(raw, "expires"), _text(raw, "backend"), dict(member(raw, "labels", dict)),
                           tuple(Companion.of(c) for c in _objects(raw, "companions")), member(raw, "execs_running", int), raw)


@dataclasses.dataclass(frozen=True)
class Output:
    """A piece of what a command wrote. `seq` is where it begins, counted in bytes of both streams."""

    stream: str
    seq: int
    data: bytes = dataclasses.field(repr=False)

    @property
    def text(self) -> str:
        """A character that is cut in two shows as two marks; join the data of several pieces to avoid that."""
        return self.data.decode("utf-8", "replace")

    @property
    def end(self) -> int:
        return self.seq + len(self.data)

    @staticmethod
    def of(stream: str, raw: Dict[str, Any]) -> Output:
        try:
            data = base64.b64decode(member(raw, "data", str), validate=True)
        except (binascii.Error, ValueError) as e:
            raise ProtocolError("what a command wrote is not base64") from e
        return Output(stream, member(raw, "seq", int), data)


@dataclasses.dataclass(frozen=True)
class Shown:
    """What a call of a context shows. `type` is value (of the last expression), display, error, or new: what was behind its name had ended."""

    number: int
    type: str
    data: Dict[str, str] = dataclasses.field(repr=False)  # by kind, such as text/plain or image/png; images as base64
    raw: Dict[str, Any] = dataclasses.field(repr=False)

    @property
    def text(self) -> str:
        """The same in words."""
        if self.type == "error":
            return f"{self.raw.get('name')}: {self.raw.get('message')}"
        return self.data.get("text/plain", "") if self.type != "new" else f"a new context: {self.raw.get('why')}"

    def bytes(self, kind: str) -> bytes:
        """Of an image: what it is."""
        try:
            return base64.b64decode(self.data[kind], validate=True)
        except (binascii.Error, ValueError) as e:
            raise ProtocolError("what a context shows is not base64") from e

    @staticmethod
    def of(raw: Dict[str, Any]) -> Shown:
        data = raw.get("data")
        return Shown(member(raw, "number", int), member(raw, "type", str),
                     {k: v for k, v in data.items() if isinstance(v, str)} if isinstance(data, dict) else {}, raw)


@dataclasses.dataclass(frozen=True)
class Question:
    """A name that no rule allows: the sandbox's door holds a connection until somebody answers, a minute at most."""

    number: int
    host: str
    port: int

    @staticmethod
    def of(raw: Dict[str, Any]) -> Question:
        return Question(member(raw, "question", int), member(raw, "host", str), member(raw, "port", int))


@dataclasses.dataclass(frozen=True)
class Result:
    """How a command ended. A command that failed is a result; check() makes it an error."""

    outcome: str
    exit_code: Optional[int]
    signal: Any
    stdout_bytes: bytes = dataclasses.field(repr=False)
    stderr_bytes: bytes = dataclasses.field(repr=False)
    truncated: bool
    duration_ms: float
    denials: List[Dict[str, Any]]
    error: Any
    raw: Dict[str, Any] = dataclasses.field(repr=False)
    shown: Tuple[Shown, ...] = dataclasses.field(default=(), repr=False)

    @property
    def value(self) -> Optional[Shown]:
        """Of a call of a context: the value of its last expression."""
        return next((s for s in self.shown if s.type == "value"), None)

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def changed_trust(self) -> List[Dict[str, Any]]:
        """Files that programs on the host obey and that the command may have changed."""
        return _objects(self.raw, "changed_trust")

    @property
    def hints(self) -> List[str]:
        """Why the command may have failed, and what would help, where that is the sandbox's doing."""
        hints = self.raw.get("hints")
        return [h for h in hints if isinstance(h, str)] if isinstance(hints, list) else []

    @property
    def unsettled(self) -> bool:
        """Other commands were running: what this one left is looked at when the last of them has ended."""
        return self.raw.get("unsettled") is True

    @property
    def ok(self) -> bool:
        return self.outcome == "exited" and self.exit_code == 0

    def check(self) -> Result:
        """This result, if the command exited with 0; else CommandFailed."""
        if self.ok:
            return self
        why = self.error.get("what") if isinstance(self.error, dict) else None
        what = {
            "exited": f"exited with {self.exit_code}",
            "timeout": f"timed out after {self.duration_ms / 1000:.1f} s",
            "signalled": f"was ended by signal {self.signal}",
            "oom": "was ended: it was out of memory",
            "limit": "was ended by a limit",
            "refused": "was refused",
        }.get(self.outcome, self.outcome) + (f": {why}" if isinstance(why, str) and why else "")
        last = self.stderr.strip().rpartition("\n")[2]
        raise CommandFailed(f"the command {what}{': ' + last if last else ''}", self)

    @staticmethod
    def of(raw: Dict[str, Any], stdout: bytes, stderr: bytes, truncated: bool, shown: Iterable[Shown] = ()) -> Result:
        code = raw.get("exit_code")
        cut = truncated or raw.get("stdout_truncated") is True or raw.get("stderr_truncated") is True
        took = raw.get("duration_ms")
        if not isinstance(took, (int, float)) or not 0 <= took < 1e15:
            took = 0
        return Result(member(raw, "outcome", str), code if isinstance(code, int) else None, raw.get("signal"), stdout, stderr, cut,
                      float(took), _objects(raw, "denials"), raw.get("error"), raw, tuple(shown))


@dataclasses.dataclass(frozen=True)
class ExecInfo:
    """A command of a sandbox, running or kept."""

    id: str
    state: str
    argv: List[str]
    tty: bool
    raw: Dict[str, Any] = dataclasses.field(repr=False)

    @staticmethod
    def of(raw: Dict[str, Any]) -> ExecInfo:
        argv = raw.get("argv")
        return ExecInfo(member(raw, "id", str), member(raw, "state", str), list(argv) if isinstance(argv, list) else [], raw.get("tty") is True, raw)


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that happened to a sandbox. `seq` goes up by one over all sandboxes of the daemon."""

    seq: int
    time: str
    type: str
    sandbox: Optional[str]
    exec: Optional[str]
    companion: Optional[str]
    reason: Optional[str]
    data: Dict[str, Any]

    @staticmethod
    def of(raw: Dict[str, Any]) -> Event:
        data = raw.get("data")
        return Event(member(raw, "seq", int), member(raw, "time", str), member(raw, "type", str), _text(raw, "sandbox"), _text(raw, "exec"),
                     _text(raw, "companion"), _text(raw, "reason"), data if isinstance(data, dict) else {})


@dataclasses.dataclass(frozen=True)
class File:
    """A file, folder or link inside. `type` is file, folder, link, protected (brig holds the name, so that nobody inside can make it) or other."""

    name: str
    type: str
    size: int
    mode: int
    modified: str
    raw: Dict[str, Any] = dataclasses.field(repr=False)

    @property
    def name_bytes(self) -> bytes:
        """The name as it is, where it is not UTF-8."""
        exact = self.raw.get("name_base64")
        try:
            return base64.b64decode(exact, validate=True) if isinstance(exact, str) else self.name.encode("utf-8", "surrogatepass")
        except ValueError as e:
            raise ProtocolError("a file's name is not base64") from e

    @staticmethod
    def of(raw: Dict[str, Any]) -> File:
        try:
            mode = int(member(raw, "mode", str), 8)
        except ValueError as e:
            raise ProtocolError("a file's mode is not octal") from e
        return File(member(raw, "name", str), member(raw, "type", str), member(raw, "size", int), mode, member(raw, "modified", str), raw)


@dataclasses.dataclass(frozen=True)
class Change:
    """Something changed in a watched folder. `changes` has created, changed, removed or missed; `name` is '.' for the thing itself."""

    name: str
    changes: Tuple[str, ...]

    @staticmethod
    def of(raw: Dict[str, Any]) -> Change:
        return Change(member(raw, "name", str), tuple(str(c) for c in member(raw, "changes", list)))


@dataclasses.dataclass(frozen=True)
class Packed:
    """An archive that came out of a sandbox. Links and whatever else is neither a folder nor a readable file are not in it: so many, the first by name."""

    size: int
    left_out: int
    left_names: Tuple[str, ...]

    @staticmethod
    def of(size: int, said: Optional[str]) -> Packed:
        if said is None:
            return Packed(size, 0, ())
        count, *names = said.split(" ")
        if not re.fullmatch(r"[0-9]{1,9}", count):
            raise ProtocolError("what was left out of the archive is malformed")
        return Packed(size, int(count), tuple(urllib.parse.unquote(name, errors="replace") for name in names))
