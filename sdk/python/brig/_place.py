# SPDX-License-Identifier: Apache-2.0
"""Where the daemon is: BRIG_HOST or, by the rule of the command line, this user's own socket."""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import re
import stat
import urllib.parse
from typing import Optional

from .errors import BrigError

ROOT_FOLDER = "/run/brig"
NAME = "brig.sock"
UNIX_SCHEME = "unix://"


@dataclasses.dataclass(frozen=True)
class Place:
    """Either `path`, a Unix socket, or `host` and `port`. `own`: nobody named it, so a daemon may be started there."""

    path: Optional[str] = None
    own: bool = False
    host: str = ""
    port: int = 0
    tls: bool = False
    token: Optional[str] = dataclasses.field(default=None, repr=False)
    ca: Optional[str] = None

    @property
    def authority(self) -> str:
        """What the Host field says."""
        if self.path:
            return "brig"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def _is_ours(folder: str) -> bool:
    try:
        st = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(st.st_mode) and st.st_uid == os.geteuid() and not st.st_mode & 0o077


def _own_folder() -> str:
    if os.geteuid() == 0:
        return ROOT_FOLDER
    session = os.environ.get("XDG_RUNTIME_DIR", "")
    if not session.startswith("/"):
        session = f"/run/user/{os.geteuid()}"
    if _is_ours(session):
        return f"{session}/brig"
    state = os.environ.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        return f"{state}/brig/run"
    home = os.environ.get("HOME", "")
    if not home.startswith("/"):
        raise BrigError("there is no folder for the daemon's socket", "set HOME, XDG_RUNTIME_DIR or BRIG_HOST")
    return f"{home}/.local/state/brig/run"


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_token(token: Optional[str]) -> Optional[str]:
    if token and not re.fullmatch(r"[!-~]{1,200}", token):
        raise BrigError("the token is not a token", "brig daemon token add NAME makes one")
    return token or None


def _tcp(host: str, token: Optional[str], ca: Optional[str]) -> Place:
    url = urllib.parse.urlsplit(host)
    try:
        port = url.port
    except ValueError:
        port = -1
    if url.scheme not in ("http", "https") or not url.hostname or port == -1 or url.path not in ("", "/") or url.query or url.username:
        raise BrigError(f"'{host}' is not the address of a daemon", "unix:///PATH, http://ADDR:PORT on loopback, or https://NAME[:PORT]")
    tls = url.scheme == "https"
    if not tls and not _is_loopback(url.hostname):
        raise BrigError("plain HTTP must be on loopback: a token would travel in clear", "lead a port of yours there with ssh -L, or use https")
    name = "127.0.0.1" if url.hostname == "localhost" and not tls else url.hostname
    return Place(host=name, port=port or (443 if tls else 80), tls=tls, token=_check_token(token), ca=ca)


def find(host: Optional[str] = None, token: Optional[str] = None, ca: Optional[str] = None) -> Place:
    """The place to connect to. A token of the environment is for the host of the environment, and for no other."""
    if not host:
        host, token = os.environ.get("BRIG_HOST") or "", token or os.environ.get("BRIG_TOKEN")
    if not host:
        return Place(path=f"{_own_folder()}/{NAME}", own=True)
    if host.startswith(UNIX_SCHEME):
        path = host[len(UNIX_SCHEME):]
        if not path.startswith("/"):
            raise BrigError(f"'{host}' is not an absolute path", "unix:///PATH has three slashes")
        return Place(path=path)
    return _tcp(host, token, ca)
