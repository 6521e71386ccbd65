# SPDX-License-Identifier: Apache-2.0
"""Arguments of create() and run() to the settings of a sandbox, which have the names of brig.yaml."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Literal, Mapping, Optional, Sequence, Union

from .errors import BrigError

__all__ = ["Network", "Policy", "Settings", "settings"]

Settings = Dict[str, Any]
Policy = Literal["readonly", "workspace_write", "full_access"]
Network = Literal["none", "proxy", "bridge", "host"]
Words = Union[str, Sequence[str]]


def _texts(values: Mapping[str, Any]) -> Dict[str, str]:
    return {str(k): str(v) for k, v in values.items()}


def _is_absolute(path: str) -> str:
    if not path.startswith("/"):
        raise BrigError(f"the workspace '{path}' is not an absolute path", "a daemon that is called over TCP does not know this folder")
    return path


def settings(spec: Optional[Mapping[str, Any]] = None, *, workspace: Union[None, str, "os.PathLike[str]"] = None, policy: Optional[Policy] = None,
             network: Optional[Network] = None, allow: Optional[Sequence[str]] = None, limits: Optional[Mapping[str, Any]] = None,
             env: Optional[Mapping[str, str]] = None, companions: Optional[Mapping[str, Mapping[str, Any]]] = None, backend: Optional[str] = None,
             local: bool = True) -> Settings:
    """`spec` with what the other arguments say put over it. `local`: a relative workspace is one of this process."""
    made: Settings = {k: dict(v) if isinstance(v, Mapping) else v for k, v in (spec or {}).items()}
    for key, value in (("policy", policy), ("network", network), ("backend", backend)):
        if value is not None:
            made[key] = value
    if limits is not None:
        made.setdefault("limits", {}).update(limits)
    if allow is not None:
        made.setdefault("egress", {})["allow"] = list(allow)
        made.setdefault("network", "proxy")
    if env is not None:
        made.setdefault("env", {}).setdefault("set", {}).update(_texts(env))
    if companions is not None:
        made["companions"] = {name: dict(c) for name, c in companions.items()}
    if workspace is not None:
        made.setdefault("workspace", {})["path"] = os.fspath(workspace)
    path = made["workspace"].get("path") if isinstance(made.get("workspace"), dict) else None
    if path is not None:
        made["workspace"]["path"] = os.path.abspath(path) if local else _is_absolute(path)
    return made


def command(argv: Words) -> Dict[str, Any]:
    """A list is a command and its arguments; a text is a line for sh -c."""
    if isinstance(argv, str):
        return {"command": argv}
    words: List[str] = [os.fspath(w) for w in argv]
    return {"argv": words}


def duration(value: Union[None, int, float, str]) -> Union[None, int, str]:
    """Seconds, or a text such as 1h30m."""
    return f"{round(value * 1000)}ms" if isinstance(value, float) else value
