// SPDX-License-Identifier: Apache-2.0
// Files of a sandbox.
import { finished } from "node:stream/promises";

import { NotFound, ProtocolError } from "./errors.js";
import { objects, toChange, toFile, toPacked } from "./model.js";
import { at, json } from "./requests.js";

const FILE_MAX = 64 << 20;

/** A body: bytes, or pieces of them. */
function source(data) {
  if (typeof data === "string" || data instanceof Uint8Array) return Buffer.from(data);
  return data;
}

export class Files {
  #client;
  #sandbox;

  constructor(client, sandbox) {
    this.#client = client;
    this.#sandbox = sandbox;
  }

  #get(more, values, options) {
    return { method: "GET", target: at(this.#sandbox, more, values), again: true, ...options };
  }

  async read(path, { limit = FILE_MAX } = {}) {
    const call = await this.#client._begin(this.#get("/files", { path }, { accept: "*/*" }));
    return call.read(limit);
  }

  async readText(path) {
    return (await this.read(path)).toString("utf8");
  }

  async readTo(path, to) {
    return (await this.#save(this.#get("/files", { path }, { accept: "*/*" }), to)).size;
  }

  async write(path, data, { mode } = {}) {
    const target = at(this.#sandbox, "/files", { path, mode: mode?.toString(8) });
    await this.#client._ask({ method: "PUT", target, body: source(data), kind: "application/octet-stream" });
  }

  async remove(path, { recursive = false } = {}) {
    await this.#client._ask({ method: "DELETE", target: at(this.#sandbox, "/files", { path, recursive }) });
  }

  async list(path = ".") {
    return objects(await this.#client._ask(this.#get("/files/list", { path })), "files").map(toFile);
  }

  async stat(path) {
    return toFile(await this.#client._ask(this.#get("/files/stat", { path })));
  }

  async exists(path) {
    try {
      await this.stat(path);
    } catch (e) {
      if (e instanceof NotFound) return false;
      throw e;
    }
    return true;
  }

  async mkdir(path, { parents = false } = {}) {
    await this.#client._ask(json("POST", at(this.#sandbox, "/files/mkdir"), { path, parents }));
  }

  async move(path, to, { replace = false } = {}) {
    await this.#client._ask(json("POST", at(this.#sandbox, "/files/move"), { from: path, to, replace }));
  }

  /** Resolves when the folder is watched; then what changes in it, until the loop over it ends. */
  async watch(path = ".", { signal } = {}) {
    const events = this.#client._events({ method: "GET", target: at(this.#sandbox, "/files/watch", { path }), signal });
    const first = await events.next();
    if (first.done || first.value[0] !== "watching") throw new ProtocolError("the daemon does not say that it watches");
    return changes(events);
  }

  async pack(path, to) {
    const { size, call } = await this.#save({ method: "GET", target: at(this.#sandbox, "/archive", { path }), accept: "*/*" }, to);
    return toPacked(size, call.trailer("brig-left-out"));
  }

  async unpack(path, data) {
    const target = at(this.#sandbox, "/archive", { path });
    await this.#client._ask({ method: "PUT", target, body: source(data), kind: "application/x-tar" });
  }

  async #save(request, to) {
    const call = await this.#client._begin(request);
    let size = 0;
    try {
      for await (const piece of call.pieces()) {
        size += piece.length;
        if (!to.write(piece)) await new Promise((resolve, reject) => to.once("drain", resolve).once("error", reject));
      }
    } finally {
      call.close();
    }
    to.end();
    await finished(to, { readable: false });
    return { size, call };
  }
}

/** A generator that was not begun could not be ended. */
function changes(events) {
  return {
    async next() {
      for (;;) {
        const { done, value } = await events.next();
        if (done) return { done, value: undefined };
        if (value[0] === "change") return { done: false, value: toChange(value[1]) };
      }
    },
    async return() {
      await events.return();
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
