// SPDX-License-Identifier: Apache-2.0
// One call: a request and its answer, on a connection of its own. What an answer may be is bounded here.
import http from "node:http";
import https from "node:https";
import { setTimeout as sleep } from "node:timers/promises";

import { ConnectionCut, ConnectionFailed, ProtocolError } from "./errors.js";
import { checkSocket } from "./place.js";
import { start } from "./start.js";

const CONNECT_TIME = 5000;
const HEAD_MAX = 64 << 10;
const EVENT_MAX = 16 << 20;

function options(place, request) {
  const headers = { Accept: request.accept ?? "application/json", Connection: "close" };
  if (place.token) headers.Authorization = `Bearer ${place.token}`;
  if (request.key) headers["Idempotency-Key"] = request.key;
  if (request.since !== undefined) headers["Last-Event-ID"] = String(request.since);
  if (request.body !== undefined) {
    headers["Content-Type"] = request.kind ?? "application/json";
    if (Buffer.isBuffer(request.body)) headers["Content-Length"] = request.body.length;
    else headers["Transfer-Encoding"] = "chunked";
  } else if (request.method !== "GET" && request.method !== "DELETE") {
    headers["Content-Length"] = 0;
  }
  const where = place.path
    ? { socketPath: place.path, headers: { ...headers, Host: "brig" } }
    : { host: place.host, port: place.port, ca: place.ca, minVersion: "TLSv1.2", headers };
  return { ...where, method: request.method, path: request.target, agent: false, maxHeaderSize: HEAD_MAX };
}

/** An error of Node's, as one of ours. */
function translate(e, connected, where) {
  if (String(e.code).startsWith("HPE_")) return new ProtocolError(`the answer is not HTTP: ${e.message}`);
  if (!connected) {
    const failed = new ConnectionFailed(`cannot connect to '${where}': ${e.message}`, "brig daemon serves there, once it is started");
    failed.missing = e.code === "ENOENT" || e.code === "ECONNREFUSED";
    return failed;
  }
  return new ConnectionCut(`the connection to the daemon broke: ${e.message}`);
}

/** Resolves when there is room for more, or no more is wanted. */
function room(req) {
  const words = ["drain", "close", "response"];
  return new Promise((resolve) => {
    const done = () => {
      for (const word of words) req.off(word, done);
      resolve();
    };
    for (const word of words) req.on(word, done);
  });
}

/** A daemon that has answered already takes no more: its answer says why. */
async function sendBody(req, body) {
  for await (const piece of body) {
    await new Promise(setImmediate); // else nobody looks whether it has
    if (req.destroyed || req.answered) return;
    if (piece.length && !req.write(piece)) await room(req);
  }
  req.end();
}

/** A caller who gives up ends the connection. */
function listenTo(signal, req, fail) {
  if (!signal) return;
  const abort = () => fail(signal.reason);
  signal.addEventListener("abort", abort);
  req.once("close", () => signal.removeEventListener("abort", abort));
  if (signal.aborted) abort();
}

/** Sends a request once; resolves when its answer has begun. */
function send(place, request, timeout) {
  if (place.path) checkSocket(place);
  return new Promise((resolve, reject) => {
    const req = (place.tls ? https : http).request(options(place, request));
    const isStream = request.body !== undefined && !Buffer.isBuffer(request.body);
    let connected = false;
    const fail = (e) => {
      reject(e);
      req.destroy();
    };
    req.once("socket", (s) => {
      s.setTimeout(CONNECT_TIME);
      s.once(place.tls ? "secureConnect" : "connect", () => {
        connected = true;
        s.setTimeout(timeout);
        // Not before: a stream can be read once, and a daemon that is not there yet is called again.
        if (isStream) sendBody(req, request.body).catch(fail);
      });
    });
    req.once("timeout", () =>
      fail(connected ? new ConnectionCut("the daemon has not answered in time") : new ConnectionFailed(`nobody answers at '${place.path ?? place.host}'`)));
    req.on("error", (e) => {
      req.failure = e;
      fail(translate(e, connected, place.path ?? `${place.host}:${place.port}`));
    });
    for (const event of ["upgrade", "information"]) req.once(event, () => fail(new ProtocolError("the answer is not one of brig's")));
    req.once("response", (res) => {
      req.answered = true;
      resolve(new Call(req, res, request.signal));
    });
    if (isStream) req.flushHeaders();
    else req.end(request.body);
    listenTo(request.signal, req, fail);
  });
}

/** As send(); this user's own daemon is started where there is none. */
export async function begin(place, request, timeout, program) {
  try {
    return await send(place, request, timeout);
  } catch (e) {
    if (!place.own || !(e instanceof ConnectionFailed) || !e.missing) throw e;
  }
  await start(program);
  for (const until = Date.now() + CONNECT_TIME; ; await sleep(5)) {
    try {
      return await send(place, request, timeout);
    } catch (e) {
      if (!(e instanceof ConnectionFailed) || !e.missing || Date.now() >= until) throw e;
    }
  }
}

/** An answer that has begun. close() before its end tells the daemon that nobody listens. */
export class Call {
  #req;
  #res;
  #signal;

  constructor(req, res, signal) {
    this.#req = req;
    this.#res = res;
    this.#signal = signal;
    this.status = res.statusCode;
    this.kind = (res.headers["content-type"] ?? "").split(";")[0].trim();
    req.on("timeout", () => res.destroy(new ConnectionCut("the daemon says nothing any more")));
  }

  /** The body as it comes. */
  async *pieces() {
    try {
      for await (const piece of this.#res) yield piece;
    } catch (e) {
      this.#signal?.throwIfAborted();
      throw e instanceof ConnectionCut ? e : translate(this.#req.failure ?? e, true);
    }
    if (!this.#res.complete) throw new ConnectionCut("the daemon has ended the connection in the middle of its answer");
  }

  /** A field behind the body, once that has ended. */
  trailer(name) {
    return this.#res.trailers[name];
  }

  /** All of the body, which must not be larger. */
  async read(limit) {
    const pieces = [];
    let size = 0;
    try {
      for await (const piece of this.pieces()) {
        size += piece.length;
        if (size > limit) throw new ProtocolError(`the answer is larger than ${limit} bytes`);
        pieces.push(piece);
      }
    } finally {
      this.close();
    }
    return Buffer.concat(pieces);
  }

  /** Server-sent events: [type, data]. */
  async *events() {
    let rest = [];
    let size = 0;
    let event = { kind: "", data: [] };
    for await (const piece of this.pieces()) {
      rest.push(piece);
      size += piece.length;
      if (size > EVENT_MAX) throw new ProtocolError("an event is too long");
      if (!piece.includes(10)) continue;
      const lines = Buffer.concat(rest).toString("latin1").split("\n");
      rest = [Buffer.from(lines.pop(), "latin1")];
      for (const line of lines) {
        const whole = takeLine(event, Buffer.from(line, "latin1").toString("utf8").replace(/\r$/, ""));
        if (!whole) continue;
        event = { kind: "", data: [] };
        yield whole;
      }
      size = rest[0].length + event.data.reduce((n, d) => n + d.length + 8, 0);
    }
  }

  close() {
    this.#req.destroy();
  }
}

/** One line of an event; the event, when it was the last. */
function takeLine(event, line) {
  if (line === "") return event.data.length ? [event.kind, readObject(event.data.join("\n"), "an event")] : null;
  const at = line.indexOf(":");
  const name = at < 0 ? line : line.slice(0, at);
  const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
  if (name === "event") event.kind = value;
  else if (name === "data") event.data.push(value);
  return null;
}

export function readObject(text, what) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new ProtocolError(`${what} is not JSON`);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new ProtocolError(`${what} is not an object`);
  return value;
}
