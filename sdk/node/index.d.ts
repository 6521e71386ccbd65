// SPDX-License-Identifier: Apache-2.0
/// <reference types="node" />
import type { Writable } from "node:stream";

/** Seconds, or a text such as "1h30m". */
export type Time = number | string;
/** A list is a command with its arguments; a text is a line for sh. */
export type Words = string | readonly string[];
/** Settings with the names of brig.yaml; `brig schema` lists them. */
export type Settings = Record<string, unknown>;
/** A body: text, bytes, or pieces of them. */
export type Source = string | Uint8Array | AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

export interface ClientOptions {
  /** unix:///PATH, http://ADDR:PORT on loopback, or https://NAME[:PORT]; BRIG_HOST if not given, else this user's own daemon. */
  host?: string;
  /** BRIG_TOKEN if neither this nor the host is given. */
  token?: string;
  /** Certificates to trust over https, as PEM. */
  ca?: string | Buffer;
  /** Milliseconds that an answer may take. */
  timeout?: number;
  /** What starts a daemon; BRIG_PROGRAM or `brig` if not given. */
  program?: string;
}

export interface Companion {
  command: readonly string[];
  env?: Record<string, string>;
  data?: string;
  healthcheck?: { test: readonly string[]; interval?: Time; timeout?: Time; retries?: number; start_period?: Time };
  post_start_on_primary?: readonly string[];
  limits?: Record<string, unknown>;
  network?: "none" | "bridge";
  user?: string;
}

export interface SandboxSettings {
  /** Any setting; what is named below goes over it. */
  spec?: Settings;
  /** A folder of this machine. Over TCP: an absolute path of the daemon's. */
  workspace?: string | URL;
  policy?: "readonly" | "workspace_write" | "full_access";
  network?: "none" | "proxy" | "bridge" | "host";
  /** Hosts that `network: proxy`, which this implies, lets through. */
  allow?: readonly string[];
  limits?: Record<string, string | number | boolean>;
  /** Variables inside. */
  env?: Record<string, string>;
  companions?: Record<string, Companion>;
  backend?: string;
}

export interface CreateOptions extends SandboxSettings {
  name?: string;
  labels?: Record<string, string>;
  idleTtl?: Time;
  ttl?: Time;
  cleanupTtl?: Time;
  /** An Idempotency-Key of your own. */
  key?: string;
  /** false: do not wait until it is ready. */
  wait?: boolean;
}

export interface RunOptions extends SandboxSettings {
  stdin?: string;
  cwd?: string;
  timeout?: Time;
  outputLimit?: number | string;
  /** Is called with what it writes, as it comes. */
  onOutput?: (piece: Output) => void;
  signal?: AbortSignal;
}

export interface ExecOptions {
  stdin?: string | Uint8Array;
  env?: Record<string, string>;
  cwd?: string;
  timeout?: Time;
  outputLimit?: number | string;
  key?: string;
  /** Ends the wait, not the command. */
  signal?: AbortSignal;
}

export interface StartOptions extends Omit<ExecOptions, "stdin" | "signal"> {
  /** write() gives it input. */
  stdin?: boolean;
  /** On a terminal of its own, with input. */
  tty?: { rows: number; cols: number };
}

export interface Info {
  version: string;
  schema: number;
  sandboxes: number;
  execsRunning: number;
  lastEvent: number;
  raw: Record<string, unknown>;
}

export interface SandboxInfo {
  id: string;
  name: string | null;
  state: "pending" | "ready" | "failed" | "paused" | "stopped" | "deleting" | "deleted";
  reason: string | null;
  created: string;
  started: string | null;
  expires: string | null;
  backend: string | null;
  labels: Record<string, string>;
  companions: { name: string; state: string; address: string | null; reason: string | null }[];
  execsRunning: number;
  raw: Record<string, unknown>;
}

export interface ExecInfo {
  id: string;
  state: "running" | "ended";
  argv: string[];
  tty: boolean;
  raw: Record<string, unknown>;
}

export interface Event {
  seq: number;
  time: string;
  type: string;
  sandbox: string | null;
  exec: string | null;
  companion: string | null;
  reason: string | null;
  data: Record<string, unknown>;
}

export interface File {
  name: string;
  nameBytes: Buffer;
  type: "file" | "folder" | "link" | "protected" | "other";
  size: number;
  mode: number;
  modified: string;
  raw: Record<string, unknown>;
}

export interface Change {
  /** "." is the thing itself. */
  name: string;
  changes: ("created" | "changed" | "removed" | "missed")[];
}

/** An archive. Links and whatever else is neither a folder nor a readable file are not in it: so many, the first by name. */
export interface Packed {
  size: number;
  leftOut: number;
  leftNames: string[];
}

/** A piece of what a command wrote. `seq` is where it begins, counted in bytes of both streams. */
export interface Output {
  stream: "stdout" | "stderr";
  seq: number;
  end: number;
  data: Buffer;
  text: string;
}

/** What a call of a context shows. `new`: what was behind its name had ended. */
export interface Shown {
  number: number;
  type: "value" | "display" | "error" | "new";
  /** By kind, such as text/plain or image/png; images as base64. */
  data: Record<string, string>;
  /** The same in words. */
  text: string;
  raw: Record<string, unknown>;
}

/** A name that no rule allows: the sandbox's door holds a connection until somebody answers, a minute at most. */
export interface Question {
  number: number;
  host: string;
  port: number;
}

export interface CodeOptions {
  /** sys.argv, behind its name. */
  args?: Iterable<string>;
  /** In a new context of this name. */
  restart?: boolean;
  timeout?: Time;
  outputLimit?: number | string;
}

/** How a command ended. A command that failed is a result; check() makes it an error. */
export class Result {
  readonly outcome: string;
  readonly exitCode: number | null;
  readonly signal: number | null;
  readonly stdoutBytes: Buffer;
  readonly stderrBytes: Buffer;
  readonly truncated: boolean;
  readonly durationMs: number;
  readonly denials: Record<string, unknown>[];
  /** Files that programs on the host obey and that the command may have changed. */
  readonly changedTrust: Record<string, unknown>[];
  /** Why the command may have failed, and what would help, where that is the sandbox's doing. */
  readonly hints: string[];
  /** Other commands were running: what this one left is looked at when the last of them has ended. */
  readonly unsettled: boolean;
  readonly error: unknown;
  readonly raw: Record<string, unknown>;
  /** Of a call of a context. */
  readonly shown: Shown[];
  /** Of a call of a context: the value of its last expression. */
  get value(): Shown | null;
  get stdout(): string;
  get stderr(): string;
  get ok(): boolean;
  check(): this;
}

/** Calls to one daemon: this user's own, which is started when it is needed, or the one that is named. */
export class Client {
  constructor(options?: ClientOptions);
  info(): Promise<Info>;
  /** What happened after event number `since`, then what happens; without a number only the latter. Goes on over breaks of the connection. */
  events(options?: { since?: number; sandbox?: string; follow?: boolean; signal?: AbortSignal }): AsyncGenerator<Event, void, void>;
  /** One command in a sandbox of its own, which is gone afterwards. */
  run(argv: Words, options?: RunOptions): Promise<Result>;
  /** A sandbox for many commands. A call that is cut off is repeated with the same key, and makes one sandbox. */
  create(options?: CreateOptions): Promise<Sandbox>;
  /** A sandbox that is deleted when `use` has ended. */
  withSandbox<T>(options: CreateOptions, use: (box: Sandbox) => Promise<T>): Promise<T>;
  /** One that is there, by its id or name. */
  get(name: string): Promise<Sandbox>;
  list(options?: { labels?: Record<string, string>; state?: string }): Promise<Sandbox[]>;
  /** Deletes those that have all of these labels; their ids. */
  deleteAll(labels: Record<string, string>): Promise<string[]>;
}

/** A sandbox of the daemon. `info` is what was last heard of it; refresh() asks again. */
export class Sandbox implements AsyncDisposable {
  info: SandboxInfo;
  readonly files: Files;
  get id(): string;
  refresh(): Promise<SandboxInfo>;
  /** Resolves once it is ready; SandboxFailed, with its log, when it never will be. */
  waitReady(): Promise<this>;
  /** A command to its end. */
  exec(argv: Words, options?: ExecOptions): Promise<Result>;
  /** A command that goes on by itself. */
  start(argv: Words, options?: StartOptions): Promise<Exec>;
  /** A command that was started before, to listen to it again from its beginning. */
  command(exec: string): Exec;
  commands(): Promise<ExecInfo[]>;
  /** Python that stays: variables live on from call to call. */
  context(name?: string): Context;
  /** Names that wait for an answer (`ask: true` of `egress`). */
  questions(): Promise<Question[]>;
  /** May it be reached? `run` is as long as the sandbox is open. The daemon's owner alone may say. */
  answer(question: number | Question, answer: "once" | "run" | "no"): Promise<void>;
  pause(): Promise<SandboxInfo>;
  /** Goes on after pause() or stop(). */
  resume(): Promise<SandboxInfo>;
  /** Ends its processes, keeps its workspace and settings. */
  stop(options?: { grace?: Time }): Promise<SandboxInfo>;
  /** `allow` leaves a stopped sandbox fewer of its hosts. */
  update(change: { name?: string; labels?: Record<string, string>; idleTtl?: Time; ttl?: Time; allow?: Iterable<string> }): Promise<SandboxInfo>;
  delete(): Promise<void>;
  /** Notes about it, and why it failed. */
  logs(): Promise<string>;
  events(options?: { since?: number; follow?: boolean; signal?: AbortSignal }): AsyncGenerator<Event, void, void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Python in a sandbox whose variables live on from call to call. */
export class Context {
  readonly name: string;
  private constructor();
  /** A call that goes on by itself; cancel() interrupts it, and leaves the variables. */
  start(code: string, options?: CodeOptions): Promise<Exec>;
  /** Code to its end; `shown` of the result has what it shows. */
  run(code: string, options?: CodeOptions): Promise<Result>;
}

/** A command in a sandbox. It runs on whether or not anybody listens; cancel() ends it. */
export class Exec implements AsyncIterable<Output>, AsyncDisposable {
  readonly id: string;
  get result(): Result | null;
  /** What it writes, as it comes, until it has ended. A connection that breaks is made again where it broke off. */
  [Symbol.asyncIterator](): AsyncGenerator<Output, void, void>;
  /** Its output once more from byte `since` on. */
  attach(since?: number): AsyncGenerator<Output, void, void>;
  /** Its end, with all that this object has heard of its output. */
  wait(): Promise<Result>;
  refresh(): Promise<ExecInfo>;
  /** Resolves when the input was taken. What a command that has ended does not read any more is left out. */
  write(data: string | Uint8Array, options?: { close?: boolean }): Promise<void>;
  closeStdin(): Promise<void>;
  /** By its name, with or without SIG, or its number. */
  signal(signal: string | number): Promise<void>;
  /** Ends it with every process that it started. */
  cancel(): Promise<void>;
  resize(rows: number, cols: number): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Files of a sandbox. Paths are those of the inside; relative ones lead from the workspace, and no link is followed. */
export class Files {
  /** A file that is not larger than `limit` (64 MiB); readTo() has none. */
  read(path: string, options?: { limit?: number }): Promise<Buffer>;
  readText(path: string): Promise<string>;
  /** Copies a file into a stream, which ends with it; how many bytes it has. */
  readTo(path: string, to: Writable): Promise<number>;
  /** Makes or replaces a file. It has its name only once all has come. */
  write(path: string, data: Source, options?: { mode?: number }): Promise<void>;
  remove(path: string, options?: { recursive?: boolean }): Promise<void>;
  /** What is in a folder, sorted by name: at most 10,000 entries. */
  list(path?: string): Promise<File[]>;
  stat(path: string): Promise<File>;
  exists(path: string): Promise<boolean>;
  mkdir(path: string, options?: { parents?: boolean }): Promise<void>;
  move(path: string, to: string, options?: { replace?: boolean }): Promise<void>;
  /** Resolves when the folder, or file, is watched. */
  watch(path?: string, options?: { signal?: AbortSignal }): Promise<AsyncIterableIterator<Change>>;
  /** A folder as tar into a stream. Its bytes are a guest's. Says what is not in it. */
  pack(path: string, to: Writable): Promise<Packed>;
  /** A tar into a folder that is there. */
  unpack(path: string, data: Source): Promise<void>;
}

/** The settings that these options stand for. */
export function settings(options: SandboxSettings, local?: boolean): Settings;

/** The first of all errors. `hint` says what to do about it, where that is known. */
export class BrigError extends Error {
  readonly what: string;
  readonly hint?: string;
}
/** No daemon could be reached or started; nothing was asked. */
export class ConnectionFailed extends BrigError {}
/** The connection ended before the answer was whole. Whether the call was done is not known. */
export class ConnectionCut extends BrigError {}
/** What came back is not an answer of brig's, or is larger than an answer may be. */
export class ProtocolError extends BrigError {}
/** The daemon speaks a newer /v1 than this package. */
export class VersionError extends BrigError {}
/** The folder of the socket is not this user's alone. Nothing was sent. */
export class UntrustedServer extends BrigError {}
/** The sandbox could not be made ready. */
export class SandboxFailed extends BrigError {
  readonly sandbox: string;
  readonly reason: string | null;
  readonly log: string;
}
/** Result.check() found that the command did not exit with 0. */
export class CommandFailed extends BrigError {
  readonly result: Result;
}
/** A refusal by the daemon (RFC 9457). */
export class ApiError extends BrigError {
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly problem: Record<string, unknown>;
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
  get oldest(): number;
}
export class IdempotencyMismatch extends ApiError {}
export class BackendUnavailable extends ApiError {}
export class Unsupported extends ApiError {}
export class Internal extends ApiError {}
