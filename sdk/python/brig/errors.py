# SPDX-License-Identifier: Apache-2.0
"""What can go wrong. Every class is a BrigError; those of answers have the daemon's own words."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Type

__all__ = ["ApiError", "BackendUnavailable", "BrigError", "CommandFailed", "Conflict", "ConnectionCut", "ConnectionFailed", "EventsExpired",
           "ExecEnded", "Forbidden", "ForeignPeer", "IdempotencyMismatch", "Internal", "Invalid", "NameTaken", "NotFound", "PolicyCeiling",
           "ProtocolError", "Quota", "SandboxFailed", "SandboxNotReady", "SandboxPaused", "TooLarge", "Unauthenticated", "Unsupported",
           "UntrustedServer", "VersionError"]


class BrigError(Exception):
    """The first of them all. `hint` says what to do about it, where that is known."""

    def __init__(self, what: str, hint: Optional[str] = None) -> None:
        super().__init__(f"{what} ({hint})" if hint else what)
        self.what, self.hint = what, hint


class ConnectionFailed(BrigError):
    """No daemon could be reached or started; nothing was asked."""


class ConnectionCut(BrigError):
    """The connection ended before the answer was whole. Whether the call was done is not known."""


class ProtocolError(BrigError):
    """What came back is not an answer of brig's, or is larger than an answer may be."""


class VersionError(BrigError):
    """The daemon speaks a newer /v1 than this package."""


class UntrustedServer(BrigError):
    """What listens at the socket is not this user's daemon. Nothing was sent to it."""


class SandboxFailed(BrigError):
    """The sandbox could not be made ready. `reason` is one word; `sandbox` its id, by which its logs can still be read."""

    def __init__(self, sandbox: str, reason: Optional[str], log: str) -> None:
        super().__init__(f"sandbox '{sandbox}' has failed: {reason or 'no reason given'}", log.strip() or None)
        self.sandbox, self.reason, self.log = sandbox, reason, log


class CommandFailed(BrigError):
    """Result.check() found that the command did not exit with 0; `result` has all of it."""

    def __init__(self, what: str, result: Any) -> None:
        super().__init__(what)
        self.result = result


class ApiError(BrigError):
    """A refusal by the daemon (RFC 9457). `code` is one word; a code that this package knows has a class of its own."""

    code = "internal"

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        hint = problem.get("hint")
        super().__init__(str(problem.get("detail") or problem.get("title") or f"status {status}"), str(hint) if hint else None)
        self.status = status
        self.code = str(problem.get("code") or "internal")
        self.title = str(problem.get("title") or "")
        self.problem: Dict[str, Any] = dict(problem)


class Invalid(ApiError):
    """The request cannot be taken as written."""


class Unauthenticated(ApiError):
    """A token is needed, or the one given is not known."""


class Forbidden(ApiError):
    """The caller may not do this."""


class PolicyCeiling(Forbidden):
    """More was asked for than the daemon's ceiling allows."""


class ForeignPeer(Forbidden):
    """The caller is not of the daemon's own user."""


class NotFound(ApiError):
    """There is no such sandbox, command or file."""


class Conflict(ApiError):
    """Something else is going on."""


class SandboxNotReady(Conflict):
    """The sandbox is not ready (yet, or any more)."""


class SandboxPaused(Conflict):
    """The sandbox is paused."""


class NameTaken(Conflict):
    """Another sandbox has this name."""


class ExecEnded(Conflict):
    """The command has ended."""


class Quota(ApiError):
    """There are too many already."""


class TooLarge(ApiError):
    """The request is too large."""


class EventsExpired(ApiError):
    """Events that old are no longer kept; `oldest` is the first number that is."""

    @property
    def oldest(self) -> int:
        found = self.problem.get("oldest")
        return found if isinstance(found, int) else 0


class IdempotencyMismatch(ApiError):
    """The key was used for another request."""


class BackendUnavailable(ApiError):
    """It cannot be had on this machine."""


class Unsupported(ApiError):
    """This version, or this backend, cannot do this."""


class Internal(ApiError):
    """The daemon or the machine failed."""


BY_CODE: Dict[str, Type[ApiError]] = {
    "invalid": Invalid,
    "unauthenticated": Unauthenticated,
    "forbidden": Forbidden,
    "policy-ceiling": PolicyCeiling,
    "foreign-peer": ForeignPeer,
    "not-found": NotFound,
    "sandbox-not-ready": SandboxNotReady,
    "sandbox-paused": SandboxPaused,
    "conflict": Conflict,
    "name-taken": NameTaken,
    "exec-ended": ExecEnded,
    "quota": Quota,
    "too-large": TooLarge,
    "events-expired": EventsExpired,
    "idempotency-mismatch": IdempotencyMismatch,
    "backend-unavailable": BackendUnavailable,
    "unsupported": Unsupported,
    "internal": Internal,
}


def from_problem(status: int, problem: Mapping[str, Any]) -> ApiError:
    """The error that a refusal stands for."""
    return BY_CODE.get(str(problem.get("code")), ApiError)(status, problem)
