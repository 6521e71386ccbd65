# SPDX-License-Identifier: Apache-2.0
"""What each call asks for, and what its answer means. No socket: both clients send these and read the answers with them."""

from __future__ import annotations

import json
import re
import urllib.parse
import uuid
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple, Union

from . import errors
from ._http1 import Answer, Request
from ._settings import Words, command, duration
from .errors import BrigError, ProtocolError, VersionError
from .model import KEPT_MAX, Event, Output, Result, Shown, member

SCHEMA = 1  # of /v1, as this package knows it
JSON_MAX = 65 << 20  # the daemon makes no answer of more than 64 MiB
PROBLEM_MAX = 1 << 20
LOGS_MAX = 64 << 20
PAGES_MAX = 100  # of a list, 500 sandboxes each
FILE_MAX = 64 << 20
SHOWN_MAX = 256  # the daemon keeps fewer
INLINE_INPUT_MAX = 256 << 10
INPUT_PIECE = 256 << 10
CREATE_TIME = 360.0  # companions have five minutes
INPUT_TIME = 86400.0  # a command reads when it likes
REF = re.compile(r"[A-Za-z0-9._-]{1,128}")
EVENTS = "text/event-stream"
Time = Union[None, int, float, str]


# ---- requests ----


def ref(word: str) -> str:
    """An id or a name, as a part of a path."""
    if not REF.fullmatch(word) or word in (".", ".."):
        raise BrigError(f"'{word}' is neither an id nor a name")
    return word


def _box(box: str, more: str = "", **query: Any) -> str:
    return f"/v1/sandboxes/{ref(box)}{more}" + _query(query)


def _query(query: Mapping[str, Any]) -> str:
    words: List[Tuple[str, str]] = []
    for key, value in query.items():
        if value is True:
            words.append((key, "true"))
        elif isinstance(value, (list, tuple)):
            words += [(key, v) for v in value]
        elif value is not None and value is not False:
            words.append((key, str(value)))
    return "?" + urllib.parse.urlencode(words, quote_via=urllib.parse.quote, errors="surrogateescape") if words else ""


def _json(method: str, target: str, body: Mapping[str, Any], **more: Any) -> Request:
    kept = {k: v for k, v in body.items() if v is not None}
    return Request(method, target, json.dumps(kept, ensure_ascii=False).encode("utf-8"), **more)


def _labels(labels: Optional[Mapping[str, str]]) -> List[str]:
    return [f"{k}={v}" for k, v in (labels or {}).items()]


def info() -> Request:
    return Request("GET", "/v1/info", again=True)


def key_or_new(key: Optional[str]) -> str:
    return check_key(key) or uuid.uuid4().hex


def check_key(key: Optional[str]) -> Optional[str]:
    """A key stands in a field of its own: nothing in it may end that."""
    if key is not None and not re.fullmatch(r"[!-~]{1,255}", key):
        raise BrigError("the key is not 1 to 255 visible characters without a blank")
    return key


def create(spec: Mapping[str, Any], name: Optional[str], labels: Optional[Mapping[str, str]], idle_ttl: Time, ttl: Time, cleanup_ttl: Time,
           key: str, wait: bool) -> Request:
    body = {"spec": dict(spec), "name": name, "labels": dict(labels) if labels else None, "idle_ttl": duration(idle_ttl), "ttl": duration(ttl),
            "cleanup_ttl": duration(cleanup_ttl)}
    return _json("POST", "/v1/sandboxes" + _query({"wait": wait}), body, key=key, again=True)


def list_page(labels: Optional[Mapping[str, str]], state: Optional[str], cursor: Optional[str]) -> Request:
    return Request("GET", "/v1/sandboxes" + _query({"label": _labels(labels), "state": state, "limit": 500, "cursor": cursor}), again=True)


def delete_many(labels: Mapping[str, str]) -> Request:
    if not labels:
        raise BrigError("no label says which sandboxes are to be deleted")
    return Request("DELETE", "/v1/sandboxes" + _query({"label": _labels(labels)}))


def get(box: str) -> Request:
    return Request("GET", _box(box), again=True)


def delete(box: str) -> Request:
    return Request("DELETE", _box(box), again=True)


def update(box: str, name: Optional[str], labels: Optional[Mapping[str, str]], idle_ttl: Time, ttl: Time, allow: Optional[Iterable[str]]) -> Request:
    body = {"name": name, "labels": dict(labels) if labels is not None else None, "idle_ttl": duration(idle_ttl), "ttl": duration(ttl),
            "egress": {"allow": list(allow)} if allow is not None else None}
    return _json("PATCH", _box(box), body)


def pause(box: str) -> Request:
    return Request("POST", _box(box, "/pause"))


def resume(box: str) -> Request:
    return Request("POST", _box(box, "/resume"))


def stop(box: str, grace: Time) -> Request:
    return _json("POST", _box(box, "/stop"), {"grace": duration(grace)})


def logs(box: str) -> Request:
    return Request("GET", _box(box, "/logs"), accept="*/*", again=True)


def _what(argv: Words, env: Optional[Mapping[str, str]], cwd: Optional[str], timeout: Time, output_limit: Union[None, int, str]) -> Dict[str, Any]:
    return {**command(argv), "env": {str(k): str(v) for k, v in env.items()} if env else None, "cwd": cwd, "timeout": duration(timeout),
            "output_limit": output_limit}


def run(spec: Mapping[str, Any], argv: Words, stdin: Optional[str], cwd: Optional[str], timeout: Time,
        output_limit: Union[None, int, str]) -> Request:
    return _json("POST", "/v1/run", {"spec": dict(spec), "stdin": stdin, **_what(argv, None, cwd, timeout, output_limit)}, accept=EVENTS)


def exec_now(box: str, argv: Words, stdin: Optional[str], env: Optional[Mapping[str, str]], cwd: Optional[str], timeout: Time,
             output_limit: Union[None, int, str], key: Optional[str]) -> Request:
    body = {**_what(argv, env, cwd, timeout, output_limit), "stdin": stdin}
    return _json("POST", _box(box, "/exec"), body, accept=EVENTS, key=check_key(key), again=key is not None)


def exec_start(box: str, argv: Words, stdin: bool, env: Optional[Mapping[str, str]], cwd: Optional[str], timeout: Time,
               output_limit: Union[None, int, str], tty: Optional[Tuple[int, int]], key: Optional[str]) -> Request:
    body = {**_what(argv, env, cwd, timeout, output_limit), "stdin_open": True if stdin or tty else None, "detach": True,
            "tty": True if tty else None, "rows": tty[0] if tty else None, "cols": tty[1] if tty else None}
    return _json("POST", _box(box, "/exec"), body, key=check_key(key), again=key is not None)


def code_start(box: str, context: str, code: str, args: Iterable[str], restart: bool, timeout: Time, output_limit: Union[None, int, str]) -> Request:
    return _json("POST", _box(box, "/exec"), {"code": code, "context": context, "args": [str(a) for a in args], "restart": True if restart else None,
                                             "timeout": duration(timeout), "output_limit": output_limit, "detach": True})


def question_list(box: str) -> Request:
    return Request("GET", _box(box, "/questions"), again=True)


def question_answer(box: str, number: int, answer: str) -> Request:
    return _json("POST", _box(box, f"/questions/{int(number)}"), {"answer": answer})


def exec_list(box: str) -> Request:
    return Request("GET", _box(box, "/execs"), again=True)


def exec_get(box: str, exec_: str) -> Request:
    return Request("GET", _box(box, f"/execs/{ref(exec_)}"), again=True)


def exec_stream(box: str, exec_: str, since: int) -> Request:
    return Request("GET", _box(box, f"/execs/{ref(exec_)}/stream", **{"from": since}), accept=EVENTS, again=True)


def exec_signal(box: str, exec_: str, signal: Union[str, int]) -> Request:
    return _json("POST", _box(box, f"/execs/{ref(exec_)}/signal"), {"signal": str(int(signal)) if isinstance(signal, int) else signal})


def exec_cancel(box: str, exec_: str) -> Request:
    return Request("POST", _box(box, f"/execs/{ref(exec_)}/cancel"))


def exec_write(box: str, exec_: str, data: bytes, close: bool) -> Request:
    return Request("POST", _box(box, f"/execs/{ref(exec_)}/stdin", close=close), data, kind="application/octet-stream")


def exec_resize(box: str, exec_: str, rows: int, cols: int) -> Request:
    return _json("POST", _box(box, f"/execs/{ref(exec_)}/resize"), {"rows": rows, "cols": cols})


def file_read(box: str, path: str) -> Request:
    return Request("GET", _box(box, "/files", path=path), accept="*/*", again=True)


def file_write(box: str, path: str, data: Any, mode: Optional[int]) -> Request:
    return Request("PUT", _box(box, "/files", path=path, mode=f"{mode:o}" if mode is not None else None), data, kind="application/octet-stream")


def file_remove(box: str, path: str, recursive: bool) -> Request:
    return Request("DELETE", _box(box, "/files", path=path, recursive=recursive))


def file_list(box: str, path: str) -> Request:
    return Request("GET", _box(box, "/files/list", path=path), again=True)


def file_stat(box: str, path: str) -> Request:
    return Request("GET", _box(box, "/files/stat", path=path), again=True)


def file_watch(box: str, path: str) -> Request:
    return Request("GET", _box(box, "/files/watch", path=path), accept=EVENTS)


def file_mkdir(box: str, path: str, parents: bool) -> Request:
    return _json("POST", _box(box, "/files/mkdir"), {"path": path, "parents": parents})


def file_move(box: str, path: str, to: str, replace: bool) -> Request:
    return _json("POST", _box(box, "/files/move"), {"from": path, "to": to, "replace": replace})


def archive_get(box: str, path: str) -> Request:
    return Request("GET", _box(box, "/archive", path=path), accept="*/*")


def archive_put(box: str, path: str, data: Any) -> Request:
    return Request("PUT", _box(box, "/archive", path=path), data, kind="application/x-tar")


def events(sandbox: Optional[str], since: Optional[int], follow: bool) -> Request:
    query = _query({"sandbox": ref(sandbox) if sandbox else None, "follow": None if follow else "false"})
    return Request("GET", "/v1/events" + query, accept=EVENTS, since=since, again=True)


# ---- answers ----


def refusal(answer: Answer, body: bytes) -> errors.ApiError:
    """The error that an answer of 300 and above stands for."""
    problem: Any = None
    if answer.fields.get("content-type", "").startswith("application/problem+json"):
        try:
            problem = json.loads(body)
        except (ValueError, RecursionError):
            problem = None
    if not isinstance(problem, dict):
        raise ProtocolError(f"the server answers with status {answer.status}, and is not brig")
    return errors.from_problem(answer.status, problem)


def read_json(body: bytes) -> Dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as e:
        raise ProtocolError("the answer is not JSON") from e
    if not isinstance(value, dict):
        raise ProtocolError("the answer is not an object")
    return value


def objects(raw: Mapping[str, Any], name: str) -> List[Dict[str, Any]]:
    found = member(raw, name, list)
    if not all(isinstance(v, dict) for v in found):
        raise ProtocolError(f"the answer's '{name}' are not objects")
    return list(found)


def next_page(page: Mapping[str, Any], pages: int) -> Optional[str]:
    """Where a list goes on; None: that was the last of `pages`."""
    following = page.get("next")
    if not isinstance(following, str):
        return None
    if not page.get("sandboxes") or pages >= PAGES_MAX:
        raise ProtocolError("the list does not end")
    return following


def check_schema(raw: Mapping[str, Any]) -> None:
    """Refuses a daemon that is newer than this package: what it means by a word may have changed."""
    found = member(raw, "schema", int)
    if found > SCHEMA:
        raise VersionError(f"the daemon speaks schema {found} of /v1, and this package knows {SCHEMA}",
                           "install the package that came with that brig")


def check_kind(answer: Answer, kind: str) -> None:
    found = answer.fields.get("content-type", "").partition(";")[0].strip()
    if found != kind:
        raise ProtocolError(f"the answer is '{found}', where '{kind}' was expected")


class Heard:
    """What has been heard of a command: where to go on listening, what it wrote, and how it ended."""

    def __init__(self, exec_: Optional[str] = None, at: int = 0) -> None:
        self.exec, self.at = exec_, at
        self.result: Optional[Result] = None
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._shown: List[Shown] = []
        self._shown_size = 0
        self._truncated = False

    def take(self, kind: str, raw: Dict[str, Any]) -> Optional[Output]:
        """One event; the output in it that was not heard before."""
        if kind == "start":
            self.exec = member(raw, "exec", str)
        elif kind == "truncated":
            self._truncated = True
        elif kind == "end":
            self.result = Result.of(raw, bytes(self._kept["stdout"]), bytes(self._kept["stderr"]), self._truncated, self._shown)
        elif kind == "shown":
            self._show(Shown.of(raw))
        elif kind in self._kept:
            return self._keep(Output.of(kind, raw))
        return None

    def _show(self, piece: Shown) -> None:
        if piece.number <= len(self._shown):  # heard before
            return
        self._shown_size += sum(map(len, piece.data.values()))
        if len(self._shown) < SHOWN_MAX and self._shown_size <= KEPT_MAX:
            self._shown.append(piece)
        else:
            self._truncated = True

    def _keep(self, piece: Output) -> Optional[Output]:
        if piece.end <= self.at:
            return None
        if piece.seq < self.at:
            piece = Output(piece.stream, self.at, piece.data[self.at - piece.seq:])
        self.at = piece.end
        kept = self._kept[piece.stream]
        room = KEPT_MAX - len(kept)
        self._truncated |= room < len(piece.data)
        kept += piece.data[:room]
        return piece


def event(kind: str, raw: Dict[str, Any]) -> Event:
    """An event of /v1/events; a listener that fell too far behind is told so."""
    if kind == "error":
        raise errors.from_problem(410, raw)
    return Event.of(raw)


def pieces(data: bytes) -> List[bytes]:
    """Input in pieces that a call may have."""
    return [data[i:i + INPUT_PIECE] for i in range(0, len(data), INPUT_PIECE)]
