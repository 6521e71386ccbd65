// SPDX-License-Identifier: Apache-2.0
// What the daemon answers with, as plain data. `raw` is the object as it came.
import { CommandFailed, ProtocolError, fromProblem } from "./errors.js";

const KEPT_MAX = 64 << 20; // bytes of one stream that a client keeps
const SHOWN_MAX = 256; // the daemon keeps fewer

/** A member that must be there, and of this type. */
export function member(raw, name, type) {
  const value = raw[name];
  const is = type === "array" ? Array.isArray(value)
    : type === "integer" ? Number.isSafeInteger(value)
    : typeof value === type && value !== null && !Array.isArray(value);
  if (!is) throw new ProtocolError(`the answer has no '${name}'`);
  return value;
}

export function objects(raw, name) {
  const found = member(raw, name, "array");
  if (!found.every((v) => v !== null && typeof v === "object")) throw new ProtocolError(`the answer's '${name}' are not objects`);
  return found;
}

const text = (raw, name) => (typeof raw[name] === "string" ? raw[name] : null);

export function toInfo(raw) {
  return {
    version: member(raw, "version", "string"),
    schema: member(raw, "schema", "integer"),
    sandboxes: member(raw, "sandboxes", "integer"),
    execsRunning: member(raw, "execs_running", "integer"),
    lastEvent: member(raw, "last_event", "integer"),
    raw,
  };
}

export function toSandboxInfo(raw) {
  const companions = (Array.isArray(raw.companions) ? raw.companions : []).filter((c) => c !== null && typeof c === "object");
  return {
    id: member(raw, "id", "string"),
    name: text(raw, "name"),
    state: member(raw, "state", "string"),
    reason: text(raw, "reason"),
    created: member(raw, "created", "string"),
    started: text(raw, "started"),
    expires: text(raw, "expires"),
    backend: text(raw, "backend"),
    labels: member(raw, "labels", "object"),
    companions: companions.map((c) => ({ name: c.name, state: c.state, address: text(c, "address"), reason: text(c, "reason") })),
    execsRunning: member(raw, "execs_running", "integer"),
    raw,
  };
}

export function toExecInfo(raw) {
  return { id: member(raw, "id", "string"), state: member(raw, "state", "string"), argv: raw.argv ?? [], tty: raw.tty === true, raw };
}

export function toEvent(kind, raw) {
  if (kind === "error") throw fromProblem(410, raw);
  return {
    seq: member(raw, "seq", "integer"),
    time: member(raw, "time", "string"),
    type: member(raw, "type", "string"),
    sandbox: text(raw, "sandbox"),
    exec: text(raw, "exec"),
    companion: text(raw, "companion"),
    reason: text(raw, "reason"),
    data: raw.data ?? {},
  };
}

export function toFile(raw) {
  const mode = member(raw, "mode", "string");
  if (!/^[0-7]+$/.test(mode)) throw new ProtocolError("a file's mode is not octal");
  const name = member(raw, "name", "string");
  return {
    name,
    nameBytes: typeof raw.name_base64 === "string" ? Buffer.from(raw.name_base64, "base64") : Buffer.from(name),
    type: member(raw, "type", "string"),
    size: member(raw, "size", "integer"),
    mode: Number.parseInt(mode, 8),
    modified: member(raw, "modified", "string"),
    raw,
  };
}

export function toChange(raw) {
  return { name: member(raw, "name", "string"), changes: member(raw, "changes", "array").map(String) };
}

/** An archive that came out; `said` is the daemon's word on what is not in it. */
export function toPacked(size, said) {
  const [count, ...names] = (said ?? "0").split(" ");
  if (!/^[0-9]{1,9}$/.test(count)) throw new ProtocolError("what was left out of the archive is malformed");
  const bytes = (name) => name.replace(/%([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
  return { size, leftOut: Number(count), leftNames: names.map((name) => Buffer.from(bytes(name), "latin1").toString("utf8")) };
}

function output(stream, seq, data) {
  return { stream, seq, end: seq + data.length, data, text: data.toString("utf8") };
}

function toOutput(stream, raw) {
  const coded = member(raw, "data", "string");
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(coded) || coded.length % 4) throw new ProtocolError("what a command wrote is not base64");
  return output(stream, member(raw, "seq", "integer"), Buffer.from(coded, "base64"));
}

/** What a call of a context shows: the value of its last expression, what was displayed, an error, or that it is a new context. */
function toShown(raw) {
  const data = raw.data !== null && typeof raw.data === "object" ? Object.fromEntries(Object.entries(raw.data).filter(([, v]) => typeof v === "string")) : {};
  const words = raw.type === "error" ? `${raw.name}: ${raw.message}` : raw.type === "new" ? `a new context: ${raw.why}` : (data["text/plain"] ?? "");
  return { number: member(raw, "number", "integer"), type: member(raw, "type", "string"), data, text: words, raw };
}

export function toQuestion(raw) {
  return { number: member(raw, "question", "integer"), host: member(raw, "host", "string"), port: member(raw, "port", "integer") };
}

/** How a command ended. A command that failed is a result; check() makes it an error. */
export class Result {
  constructor(raw, stdout, stderr, truncated, shown = []) {
    this.outcome = member(raw, "outcome", "string");
    this.exitCode = typeof raw.exit_code === "number" ? raw.exit_code : null;
    this.signal = raw.signal ?? null;
    this.stdoutBytes = stdout;
    this.stderrBytes = stderr;
    this.truncated = truncated || raw.stdout_truncated === true || raw.stderr_truncated === true;
    this.durationMs = Number(raw.duration_ms ?? 0);
    this.denials = Array.isArray(raw.denials) ? raw.denials : [];
    this.changedTrust = Array.isArray(raw.changed_trust) ? raw.changed_trust : [];
    this.hints = Array.isArray(raw.hints) ? raw.hints.filter((h) => typeof h === "string") : [];
    this.unsettled = raw.unsettled === true;
    this.error = raw.error ?? null;
    this.raw = raw;
    this.shown = shown;
  }

  /** Of a call of a context: the value of its last expression, or null. */
  get value() {
    return this.shown.find((s) => s.type === "value") ?? null;
  }

  get stdout() {
    return this.stdoutBytes.toString("utf8");
  }

  get stderr() {
    return this.stderrBytes.toString("utf8");
  }

  get ok() {
    return this.outcome === "exited" && this.exitCode === 0;
  }

  check() {
    if (this.ok) return this;
    const words = {
      exited: `exited with ${this.exitCode}`,
      timeout: `timed out after ${(this.durationMs / 1000).toFixed(1)} s`,
      signalled: `was ended by signal ${this.signal}`,
      oom: "was ended: it was out of memory",
      limit: "was ended by a limit",
      refused: "was refused",
    };
    const why = this.error?.what;
    const what = `${Object.hasOwn(words, this.outcome) ? words[this.outcome] : this.outcome}${why ? `: ${why}` : ""}`;
    const last = this.stderr.trim().split("\n").pop();
    throw new CommandFailed(`the command ${what}${last ? `: ${last}` : ""}`, this);
  }
}

/** What has been heard of a command: where to go on listening, what it wrote, and how it ended. */
export class Heard {
  #kept = { stdout: [], stderr: [] };
  #room = { stdout: KEPT_MAX, stderr: KEPT_MAX };
  #shown = [];
  #shownRoom = KEPT_MAX;
  #truncated = false;

  constructor(exec = null, at = 0) {
    this.exec = exec;
    this.at = at;
    this.result = null;
  }

  /** One event; the output in it that was not heard before, or null. */
  take(kind, raw) {
    if (kind === "start") this.exec = member(raw, "exec", "string");
    else if (kind === "truncated") this.#truncated = true;
    else if (kind === "end") this.result = new Result(raw, Buffer.concat(this.#kept.stdout), Buffer.concat(this.#kept.stderr), this.#truncated, this.#shown);
    else if (kind === "shown") this.#show(toShown(raw));
    else if (kind === "stdout" || kind === "stderr") return this.#keep(toOutput(kind, raw));
    return null;
  }

  #show(piece) {
    if (piece.number <= this.#shown.length) return; // heard before
    this.#shownRoom -= Object.values(piece.data).reduce((sum, text) => sum + text.length, 0);
    if (this.#shown.length < SHOWN_MAX && this.#shownRoom >= 0) this.#shown.push(piece);
    else this.#truncated = true;
  }

  #keep(whole) {
    if (whole.end <= this.at) return null;
    const piece = whole.seq < this.at ? output(whole.stream, this.at, whole.data.subarray(this.at - whole.seq)) : whole;
    this.at = piece.end;
    const kept = piece.data.subarray(0, this.#room[piece.stream]);
    this.#truncated ||= kept.length < piece.data.length;
    this.#room[piece.stream] -= kept.length;
    if (kept.length) this.#kept[piece.stream].push(kept); // an empty one would hold on to the whole
    return piece;
  }
}
