// SPDX-License-Identifier: Apache-2.0
// What Node's HTTP/1 parser understands of the same byte streams: see reader.c for both formats. Only documented
// interfaces: a server is given a connection by its 'connection' event, a client by createConnection.
"use strict";
const http = require("http");
const { Duplex } = require("stream");
const fs = require("fs");

const hex = (s) => Buffer.from(s, "latin1").toString("hex");
const fields = (raw) => {
  const out = [];
  for (let i = 0; i < raw.length; i += 2) out.push(hex(raw[i]) + ":" + hex(raw[i + 1]));
  return out.join(",");
};

class Bytes extends Duplex {
  constructor(data) {
    super();
    this.data = data;
  }
  _read() {
    if (this.data) this.push(this.data);
    this.data = null;
    this.push(null);
  }
  _write(chunk, encoding, done) {
    done();
  }
  setTimeout() {}
  setKeepAlive() {}
  setNoDelay() {}
  ref() {}
  unref() {}
}

function requests(data, done) {
  const found = [];
  let open = 0, ended = "end", over = false;
  const socket = new Bytes(data);
  const finish = () => {
    if (over) return;
    over = true;
    done(found.filter((m) => m.whole).map((m) => m.text), ended === "end" && found.some((m) => !m.whole) ? "more" : ended);
  };
  const server = http.createServer({ insecureHTTPParser: false, keepAliveTimeout: 0, requestTimeout: 0, headersTimeout: 0 });
  const take = (req, res) => {
    const m = { whole: false }, parts = [];
    found.push(m);
    open++;
    req.on("data", (d) => parts.push(d));
    req.on("end", () => {
      m.whole = req.complete;
      m.text = [hex(req.method), hex(req.url), fields(req.rawHeaders), Buffer.concat(parts).toString("hex")].join("|");
      res.end();
    });
    req.on("error", () => {});
  };
  server.on("request", take);
  server.on("checkContinue", take);
  server.on("checkExpectation", (req, res) => { ended = "refused"; res.end(); });
  server.on("connect", (req) => {
    found.push({ whole: true, text: [hex(req.method), hex(req.url), fields(req.rawHeaders), ""].join("|") });
    finish();
  });
  server.on("clientError", (e) => {
    ended = e.code === "HPE_INVALID_EOF_STATE" ? "more" : "refused " + e.code;
    setImmediate(finish);
  });
  socket.on("end", () => setImmediate(() => setImmediate(() => setImmediate(finish))));
  socket.on("error", finish);
  socket.on("close", () => setImmediate(finish));
  server.emit("connection", socket);
}

function answer(data, method, done) {
  let over = false;
  const finish = (messages, ended) => {
    if (!over) done(messages, ended);
    over = true;
  };
  const req = http.request({ method, host: "a", path: "/", createConnection: () => new Bytes(data), insecureHTTPParser: false });
  req.on("response", (res) => {
    const parts = [];
    res.on("data", (d) => parts.push(d));
    res.on("end", () => finish([[res.statusCode, "", fields(res.rawHeaders), Buffer.concat(parts).toString("hex")].join("|")], "end"));
    res.on("aborted", () => finish([], "more"));
    res.on("error", () => finish([], "refused"));
  });
  req.on("upgrade", () => finish([], "refused upgrade"));
  req.on("error", (e) => finish([], e.code === "ECONNRESET" ? "more" : "refused " + e.code));
  req.end();
}

const input = fs.readFileSync(0);
let at = 0;
const lines = [];
function next() {
  if (at >= input.length) {
    fs.writeSync(1, lines.join(""));
    return;
  }
  const kind = String.fromCharCode(input[at]), n = input.readUInt32LE(at + 1), data = Buffer.from(input.subarray(at + 5, at + 5 + n));
  at += 5 + n;
  // Nothing here waits for anybody: a stream that is not over by then never will be.
  const stuck = setTimeout(() => done([], "refused stuck"), 2000);
  let over = false;
  const done = (messages, ended) => {
    if (over) return;
    over = true;
    clearTimeout(stuck);
    lines.push(messages.map((m) => m + " ").join("") + ended + "\n");
    setImmediate(next);
  };
  if (kind === "q") requests(data, done);
  else answer(data, kind === "h" ? "HEAD" : "GET", done);
}
process.on("uncaughtException", (e) => {
  console.error(e);
  process.exit(1);
});
next();
