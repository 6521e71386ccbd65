// SPDX-License-Identifier: Apache-2.0
// The client of one daemon, its sandboxes and their commands.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import { begin, readObject } from "./call.js";
import { BrigError, Conflict, ConnectionCut, ConnectionFailed, ExecEnded, NotFound, ProtocolError, Quota, SandboxFailed, VersionError, fromProblem } from "./errors.js";
import { Files } from "./files.js";
import { Heard, member, objects, toEvent, toExecInfo, toInfo, toQuestion, toSandboxInfo } from "./model.js";
import { find } from "./place.js";
import { at, checkKey, json, query, ref } from "./requests.js";
import { command, duration, settings, variables } from "./settings.js";

const EVENTS = "text/event-stream";
const SCHEMA = 1; // of /v1, as this package knows it
const PAUSES = [50, 200, 800]; // before a call is repeated, in milliseconds
const STREAM_TIME = 60_000; // the daemon says something every 15 seconds
const LONG_TIME = 360_000; // companions have five minutes
const INPUT_TIME = 86_400_000; // a command reads when it likes
const JSON_MAX = 65 << 20; // the daemon makes no answer of more than 64 MiB
const LOGS_MAX = 64 << 20;
const PROBLEM_MAX = 1 << 20;
const PAGES_MAX = 100; // of a list, 500 sandboxes each
const INLINE_INPUT_MAX = 256 << 10;
const INPUT_PIECE = 256 << 10;
const dispose = Symbol.asyncDispose ?? Symbol.for("nodejs.asyncDispose");

const labelled = (labels) => Object.entries(labels ?? {}).map(([k, v]) => `${k}=${v}`);

export class Client {
  #place;
  #program;
  #timeout;
  #checked = null;

  constructor({ host, token, ca, timeout = 60_000, program } = {}) {
    this.#place = find({ host, token, ca });
    this.#program = program;
    this.#timeout = timeout;
  }

  // ---- calls; for this package alone ----

  /** A call whose answer has begun and is no refusal. */
  async _call(request, timeout = this.#timeout) {
    const call = await begin(this.#place, request, timeout, this.#program);
    if (call.status < 300) return call;
    const body = await call.read(PROBLEM_MAX);
    if (call.kind !== "application/problem+json") throw new ProtocolError(`the server answers with status ${call.status}, and is not brig`);
    throw fromProblem(call.status, readObject(body.toString("utf8"), "the answer"));
  }

  async _askOnce(request, timeout) {
    const call = await this._call(request, timeout);
    const body = await call.read(JSON_MAX);
    if (call.status === 204) return {};
    if (call.kind !== "application/json") throw new ProtocolError(`the answer is '${call.kind}', where JSON was expected`);
    return readObject(body.toString("utf8"), "the answer");
  }

  /** Before the first call: is the daemon one that this package can speak to? */
  async #check() {
    this.#checked ??= this._askOnce({ method: "GET", target: "/v1/info" }).then((raw) => {
      const found = member(raw, "schema", "integer");
      if (found > SCHEMA)
        throw new VersionError(`the daemon speaks schema ${found} of /v1, and this package knows ${SCHEMA}`, "install the package that came with that brig");
    });
    try {
      await this.#checked;
    } catch (e) {
      this.#checked = null;
      throw e;
    }
  }

  /** What may be asked twice is asked again when the connection breaks. */
  async #again(request, step) {
    await this.#check();
    for (const wait of request.again ? PAUSES : []) {
      try {
        return await step();
      } catch (e) {
        if (!(e instanceof ConnectionCut || e instanceof ConnectionFailed)) throw e;
        await sleep(wait);
      }
    }
    return step();
  }

  _begin(request, timeout) {
    return this.#again(request, () => this._call(request, timeout));
  }

  _ask(request, timeout) {
    return this.#again(request, () => this._askOnce(request, timeout));
  }

  /** Events of a stream; the connection ends with the loop over them. */
  async *_events(request, timeout = STREAM_TIME) {
    const call = await this._begin({ ...request, accept: EVENTS }, timeout);
    try {
      if (call.kind !== EVENTS) throw new ProtocolError(`the answer is '${call.kind}', where events were expected`);
      yield* call.events();
    } finally {
      call.close();
    }
  }

  // ---- the daemon ----

  async info() {
    return toInfo(await this._ask({ method: "GET", target: "/v1/info", again: true }));
  }

  async *events({ since, sandbox, follow = true, signal } = {}) {
    const target = `/v1/events${query({ sandbox: sandbox && ref(sandbox), follow: follow ? undefined : "false" })}`;
    let last = since ?? (await this.info()).lastEvent;
    for (let idle = 0; idle <= PAUSES.length; idle++) {
      try {
        for await (const [kind, raw] of this._events({ method: "GET", target, since: last, again: true, signal })) {
          const event = toEvent(kind, raw);
          last = event.seq;
          idle = -1;
          yield event;
        }
        if (!follow) return;
      } catch (e) {
        if (!(e instanceof ConnectionCut)) throw e;
      }
      await sleep(PAUSES[0]);
    }
    throw new ConnectionCut("the daemon ends every stream of events at once");
  }

  // ---- sandboxes ----

  async run(argv, options = {}) {
    const { stdin, cwd, timeout, outputLimit, onOutput, signal } = options;
    const body = { spec: settings(options, this.#place.path !== undefined), ...command(argv), stdin, cwd, timeout: duration(timeout), output_limit: outputLimit };
    const heard = new Heard();
    for await (const [kind, raw] of this._events(json("POST", "/v1/run", body, { signal }), LONG_TIME)) {
      const piece = heard.take(kind, raw);
      if (piece) onOutput?.(piece);
    }
    if (!heard.result) throw new ConnectionCut("the daemon has not said how the command ended");
    return heard.result;
  }

  async create(options = {}) {
    const { name, labels, idleTtl, ttl, cleanupTtl, key, wait = true } = options;
    const body = { spec: settings(options, this.#place.path !== undefined), name, labels, idle_ttl: duration(idleTtl), ttl: duration(ttl), cleanup_ttl: duration(cleanupTtl) };
    const request = json("POST", `/v1/sandboxes${query({ wait })}`, body, { key: checkKey(key) ?? randomUUID(), again: true });
    const box = new Sandbox(this, await this.#create(request, key === undefined));
    return wait ? box.waitReady() : box;
  }

  async #create(request, ownKey) {
    for (const wait of PAUSES) {
      try {
        return await this._ask(request, LONG_TIME);
      } catch (e) {
        if (e instanceof Quota && ownKey && request.key) {
          // Keys are counted as well; without one the call is not repeated.
          request.key = undefined;
          request.again = false;
        } else if (e instanceof Conflict && e.code === "conflict") {
          await sleep(wait); // an earlier try of ours may still be worked on
        } else {
          throw e;
        }
      }
    }
    return this._ask(request, LONG_TIME);
  }

  async withSandbox(options, use) {
    const box = await this.create(options);
    try {
      return await use(box);
    } finally {
      await box[dispose]();
    }
  }

  async get(name) {
    return new Sandbox(this, await this._ask({ method: "GET", target: at(name), again: true }));
  }

  async list({ labels, state } = {}) {
    const found = [];
    for (let cursor, pages = 1; ; pages++) {
      const target = `/v1/sandboxes${query({ label: labelled(labels), state, limit: 500, cursor })}`;
      const page = await this._ask({ method: "GET", target, again: true });
      found.push(...objects(page, "sandboxes").map((raw) => new Sandbox(this, raw)));
      if (typeof page.next !== "string") return found;
      if (!page.sandboxes.length || pages >= PAGES_MAX) throw new ProtocolError("the list does not end");
      cursor = page.next;
    }
  }

  async deleteAll(labels) {
    const words = labelled(labels);
    if (!words.length) throw new BrigError("no label says which sandboxes are to be deleted");
    return member(await this._ask({ method: "DELETE", target: `/v1/sandboxes${query({ label: words })}` }), "sandboxes", "array").map(String);
  }
}

export class Sandbox {
  #client;

  constructor(client, raw) {
    this.#client = client;
    this.info = toSandboxInfo(raw);
    this.files = new Files(client, this.id);
  }

  get id() {
    return this.info.id;
  }

  async [dispose]() {
    try {
      await this.delete();
    } catch (e) {
      if (!(e instanceof NotFound)) throw e;
    }
  }

  async refresh() {
    this.info = toSandboxInfo(await this.#client._ask({ method: "GET", target: at(this.id), again: true }));
    return this.info;
  }

  async waitReady() {
    while (this.info.state === "pending") {
      await sleep(50);
      await this.refresh();
    }
    if (!["failed", "deleting", "deleted"].includes(this.info.state)) return this;
    const log = await this.logs().catch(() => "");
    throw new SandboxFailed(this.id, this.info.reason, log);
  }

  // ---- commands ----

  #what(argv, { env, cwd, timeout, outputLimit }) {
    return { ...command(argv), env: variables(env), cwd, timeout: duration(timeout), output_limit: outputLimit };
  }

  async exec(argv, options = {}) {
    const { stdin, key, signal } = options;
    if (stdin !== undefined && (typeof stdin !== "string" || stdin.length > INLINE_INPUT_MAX)) return this.#feed(argv, options);
    const heard = new Heard();
    try {
      const request = json("POST", at(this.id, "/exec"), { ...this.#what(argv, options), stdin }, { key: checkKey(key), again: key !== undefined, signal });
      for await (const [kind, raw] of this.#client._events(request)) heard.take(kind, raw);
    } catch (e) {
      if (!(e instanceof ConnectionCut)) throw e;
    }
    if (!heard.exec) throw new ConnectionCut("the daemon has not said whether the command was started", "give a key to be able to repeat the call");
    return new Exec(this.#client, this.id, heard).wait();
  }

  /** A command whose input is bytes, or long. */
  async #feed(argv, options) {
    const exec = await this.start(argv, { ...options, stdin: true });
    try {
      await exec.write(options.stdin, { close: true });
    } catch (e) {
      if (!(e instanceof Conflict)) throw e; // it reads no more
    }
    return exec.wait();
  }

  async start(argv, options = {}) {
    const { stdin = false, tty, key } = options;
    const terminal = tty ? { tty: true, rows: tty.rows, cols: tty.cols } : {};
    const body = { ...this.#what(argv, options), ...terminal, stdin_open: stdin || tty ? true : undefined, detach: true };
    const raw = await this.#client._ask(json("POST", at(this.id, "/exec"), body, { key: checkKey(key), again: key !== undefined }));
    return this.command(member(raw, "exec", "string"));
  }

  command(exec) {
    return new Exec(this.#client, this.id, new Heard(ref(exec)));
  }

  context(name = "main") {
    return new Context(this, name, (request) => this.#client._ask(request));
  }

  // ---- names that no rule allows ----

  async questions() {
    return objects(await this.#client._ask({ method: "GET", target: at(this.id, "/questions"), again: true }), "questions").map(toQuestion);
  }

  async answer(question, answer) {
    const number = typeof question === "number" ? question : question.number;
    await this.#client._ask(json("POST", at(this.id, `/questions/${Math.trunc(number)}`), { answer }));
  }

  async commands() {
    return objects(await this.#client._ask({ method: "GET", target: at(this.id, "/execs"), again: true }), "execs").map(toExecInfo);
  }

  // ---- its life ----

  async #become(request) {
    this.info = toSandboxInfo(await this.#client._ask(request, LONG_TIME));
    return this.info;
  }

  pause() {
    return this.#become({ method: "POST", target: at(this.id, "/pause") });
  }

  resume() {
    return this.#become({ method: "POST", target: at(this.id, "/resume") });
  }

  stop({ grace } = {}) {
    return this.#become(json("POST", at(this.id, "/stop"), { grace: duration(grace) }));
  }

  update({ name, labels, idleTtl, ttl, allow }) {
    const egress = allow && { allow: [...allow] };
    return this.#become(json("PATCH", at(this.id), { name, labels, idle_ttl: duration(idleTtl), ttl: duration(ttl), egress }));
  }

  async delete() {
    await this.#client._ask({ method: "DELETE", target: at(this.id), again: true }, LONG_TIME);
  }

  async logs() {
    const call = await this.#client._begin({ method: "GET", target: at(this.id, "/logs"), accept: "*/*", again: true });
    return (await call.read(LOGS_MAX)).toString("utf8");
  }

  events(options = {}) {
    return this.#client.events({ ...options, sandbox: this.id });
  }
}

/** Python in a sandbox whose variables live on from call to call. */
export class Context {
  #box;
  #ask;

  constructor(box, name, ask) {
    this.#box = box;
    this.#ask = ask;
    this.name = name;
  }

  async start(code, { args = [], restart = false, timeout, outputLimit } = {}) {
    const body = { code, context: this.name, args: [...args].map(String), restart, timeout: duration(timeout), output_limit: outputLimit, detach: true };
    return this.#box.command(member(await this.#ask(json("POST", at(this.#box.id, "/exec"), body)), "exec", "string"));
  }

  async run(code, options = {}) {
    return (await this.start(code, options)).wait();
  }
}

export class Exec {
  #client;
  #sandbox;
  #heard;

  constructor(client, sandbox, heard) {
    this.#client = client;
    this.#sandbox = sandbox;
    this.#heard = heard;
    this.id = heard.exec;
  }

  #at(more = "", values = {}) {
    return at(this.#sandbox, `/execs/${ref(this.id)}${more}`, values);
  }

  /** How it ended, once that was heard; else null. */
  get result() {
    return this.#heard.result;
  }

  async [dispose]() {
    if (this.result) return;
    try {
      await this.cancel();
    } catch (e) {
      if (!(e instanceof ExecEnded || e instanceof NotFound)) throw e;
    }
  }

  async *[Symbol.asyncIterator]() {
    const heard = this.#heard;
    for (let idle = 0; !heard.result; idle++) {
      if (idle > PAUSES.length) throw new ConnectionCut("the daemon has not said how the command ended");
      try {
        for await (const [kind, raw] of this.#client._events({ method: "GET", target: this.#at("/stream", { from: heard.at }), again: true })) {
          const piece = heard.take(kind, raw);
          if (!piece) continue;
          idle = -1;
          yield piece;
        }
      } catch (e) {
        if (!(e instanceof ConnectionCut)) throw e;
      }
    }
  }

  attach(since = 0) {
    return new Exec(this.#client, this.#sandbox, new Heard(this.id, since))[Symbol.asyncIterator]();
  }

  async wait() {
    const pieces = this[Symbol.asyncIterator]();
    while (!(await pieces.next()).done);
    return this.result;
  }

  async refresh() {
    return toExecInfo(await this.#client._ask({ method: "GET", target: this.#at(), again: true }));
  }

  async write(data, { close = false } = {}) {
    const bytes = Buffer.from(data);
    try {
      for (let i = 0; i < bytes.length; i += INPUT_PIECE) await this.#input(bytes.subarray(i, i + INPUT_PIECE), false);
      if (close) await this.#input(Buffer.alloc(0), true);
    } catch (e) {
      if (!(e instanceof ExecEnded)) throw e;
    }
  }

  #input(body, close) {
    const request = { method: "POST", target: this.#at("/stdin", { close }), body, kind: "application/octet-stream" };
    return this.#client._ask(request, INPUT_TIME);
  }

  closeStdin() {
    return this.write("", { close: true });
  }

  async signal(signal) {
    await this.#client._ask(json("POST", this.#at("/signal"), { signal: String(signal) }));
  }

  async cancel() {
    await this.#client._ask({ method: "POST", target: this.#at("/cancel") });
  }

  async resize(rows, cols) {
    await this.#client._ask(json("POST", this.#at("/resize"), { rows, cols }));
  }
}
