// SPDX-License-Identifier: Apache-2.0
// What can go wrong. Every class is a BrigError; those of answers have the daemon's own words.

export class BrigError extends Error {
  constructor(what, hint) {
    super(hint ? `${what} (${hint})` : what);
    this.name = new.target.name;
    this.what = what;
    this.hint = hint;
  }
}

export class ConnectionFailed extends BrigError {}
export class ConnectionCut extends BrigError {}
export class ProtocolError extends BrigError {}
export class VersionError extends BrigError {}
export class UntrustedServer extends BrigError {}

export class SandboxFailed extends BrigError {
  constructor(sandbox, reason, log) {
    super(`sandbox '${sandbox}' has failed: ${reason ?? "no reason given"}`, log.trim() || undefined);
    this.sandbox = sandbox;
    this.reason = reason;
    this.log = log;
  }
}

export class CommandFailed extends BrigError {
  constructor(what, result) {
    super(what);
    this.result = result;
  }
}

export class ApiError extends BrigError {
  constructor(status, problem) {
    super(String(problem.detail || problem.title || `status ${status}`), problem.hint ? String(problem.hint) : undefined);
    this.status = status;
    this.code = String(problem.code || "internal");
    this.title = String(problem.title || "");
    this.problem = problem;
  }
}

export class Invalid extends ApiError {}
export class Unauthenticated extends ApiError {}
export class Forbidden extends ApiError {}
export class PolicyCeiling extends Forbidden {}
export class ForeignPeer extends Forbidden {}
export class NotFound extends ApiError {}
export class Conflict extends ApiError {}
export class SandboxNotReady extends Conflict {}
export class SandboxPaused extends Conflict {}
export class NameTaken extends Conflict {}
export class ExecEnded extends Conflict {}
export class Quota extends ApiError {}
export class TooLarge extends ApiError {}
export class EventsExpired extends ApiError {
  get oldest() {
    return Number(this.problem.oldest ?? 0);
  }
}
export class IdempotencyMismatch extends ApiError {}
export class BackendUnavailable extends ApiError {}
export class Unsupported extends ApiError {}
export class Internal extends ApiError {}

const BY_CODE = new Map([
  ["invalid", Invalid],
  ["unauthenticated", Unauthenticated],
  ["forbidden", Forbidden],
  ["policy-ceiling", PolicyCeiling],
  ["foreign-peer", ForeignPeer],
  ["not-found", NotFound],
  ["sandbox-not-ready", SandboxNotReady],
  ["sandbox-paused", SandboxPaused],
  ["conflict", Conflict],
  ["name-taken", NameTaken],
  ["exec-ended", ExecEnded],
  ["quota", Quota],
  ["too-large", TooLarge],
  ["events-expired", EventsExpired],
  ["idempotency-mismatch", IdempotencyMismatch],
  ["backend-unavailable", BackendUnavailable],
  ["unsupported", Unsupported],
  ["internal", Internal],
]);

/** The error that a refusal stands for. */
export function fromProblem(status, problem) {
  return new (BY_CODE.get(problem.code) ?? ApiError)(status, problem);
}
