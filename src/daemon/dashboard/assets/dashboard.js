// SPDX-License-Identifier: Apache-2.0
// The dashboard. Whatever comes from a sandbox becomes a text node, through shown(): there is no HTML made here,
// and the browser refuses it (Trusted Types). Lists keep data, and have elements for the rows in sight alone.
"use strict";

const BOXES_MAX = 5000, DECISIONS_MAX = 2000, EVENTS_MAX = 500, OUTPUT_MAX = 256 * 1024, RECORDS = 200, USE_MAX = 60;
const DRAW_MS = 200, RELOAD_MS = 1000, USE_MS = 3000, ASK_MS = 60000, HASTE_MS = 700;
const main = document.getElementById("main"), live = document.getElementById("live"), dialog = document.getElementById("allow");
const decisions = ["egress.allow", "egress.deny", "leak.*", "credential.misuse"];
let session = null, page = null;

// ---- text ----

// Control characters, and those that reorder, hide or break text, as escapes. `lines`: line ends and tabs stay.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|[\u{1d173}-\u{1d17a}]|[\u{e0000}-\u{e0fff}]|\p{Surrogate}/gu;

function shown(text, lines) {
  return String(text ?? "").replace(HIDDEN, (c) => (lines && (c === "\n" || c === "\t") ? c : `\\u{${c.codePointAt(0).toString(16)}}`));
}

function h(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) {
    if (v === undefined || v === null || v === false) continue;
    if (k === "on") for (const [name, f] of Object.entries(v)) e.addEventListener(name, f);
    else if (k === "class") e.className = v;
    else e.setAttribute(k, v === true ? "" : v);
  }
  for (const c of children.flat()) if (c !== null && c !== undefined && c !== false) e.append(c instanceof Node ? c : document.createTextNode(shown(c)));
  return e;
}

const chip = (text, kind) => h("span", { class: `chip ${kind || ""}` }, text);

function size(n) {
  if (n === null || n === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < 4) { n /= 1024; i++; }
  return `${n < 10 && i ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

// "256m", "1.5g" or bytes, as a spec has them.
function bytes(text) {
  if (typeof text === "number") return text;
  const m = /^([0-9.]+)\s*([kmgt]?)i?b?$/i.exec(text || "");
  return m ? Number(m[1]) * 1024 ** " kmgt".indexOf(m[2].toLowerCase() || " ") : null;
}

function span(ms) {
  const s = Math.max(0, ms / 1000);
  if (s < 1) return ms > 0 && ms < 1 ? "< 1 ms" : `${Math.round(ms)} ms`;
  if (s < 90) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} d`;
}

function clock(text, day) {
  const t = new Date(text);
  if (Number.isNaN(t.getTime())) return h("span", {}, "–");
  const time = t.toLocaleTimeString([], { hour12: false });
  return h("time", { datetime: text, title: text }, day ? `${t.toLocaleDateString([], { month: "short", day: "2-digit" })} ${time}` : time);
}

const STATES = { ready: "good", failed: "bad", paused: "warn", pending: "warn", deleting: "warn" };
const stateChip = (b) => h("span", { class: `chip ${STATES[b.state] || ""}`, title: shown(b.reason || "") }, b.state + (b.reason && b.reason !== b.state && b.state !== "ready" ? ` · ${b.reason}` : ""));

// ---- calls ----

class Problem extends Error {
  constructor(status, body) {
    super(body?.detail || `the daemon answered with ${status}`);
    this.status = status;
    this.hint = body?.hint;
    this.oldest = body?.oldest;
  }
}

async function call(path, options) {
  const r = await fetch(path, { credentials: "same-origin", cache: "no-store", signal: page?.signal, ...options });
  if (r.status === 204) return null;
  const body = await r.json().catch(() => null);
  if (r.status === 401 && session) signedOut("Your session is over.");
  if (!r.ok) throw new Problem(r.status, body);
  return body;
}

const post = (path, body) => call(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal: undefined });

function query(values) {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(values)) for (const one of [v].flat()) if (one !== undefined && one !== null && one !== "") q.append(k, one);
  return q.toString();
}

// A stream of events, until the page is left. `each` gets type, object and number; again from the last number.
async function follow(path, each, signal, once) {
  let last = null, wait = 500;
  while (!signal.aborted) {
    try {
      const r = await fetch(path(last), { credentials: "same-origin", cache: "no-store", signal, headers: { Accept: "text/event-stream" } });
      if (r.status === 401) { signedOut("Your session is over."); return; }
      if (!r.ok) throw new Problem(r.status, await r.json().catch(() => null));
      setLive(true);
      wait = 500;
      last = await readEvents(r.body, each, last);
    } catch (e) {
      if (signal.aborted) return;
      if (once || (e instanceof Problem && e.status < 500 && e.status !== 429)) throw e;
      setLive(false);
    }
    if (once) return;
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 2, 10000);
  }
}

async function readEvents(body, each, last) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return last;
    text += value;
    let end;
    let from = 0;
    while ((end = text.indexOf("\n\n", from)) >= 0) {
      const event = { type: null, data: "", id: null };
      for (const line of text.slice(from, end).split("\n")) {
        if (line.startsWith("event: ")) event.type = line.slice(7);
        else if (line.startsWith("id: ")) event.id = Number(line.slice(4));
        else if (line.startsWith("data: ")) event.data += line.slice(6);
      }
      from = end + 2;
      if (event.type) each(event.type, JSON.parse(event.data), event.id);
      if (event.id) last = event.id;
    }
    text = text.slice(from);
  }
}

function setLive(on) {
  live.className = `live ${on ? "on" : "off"}`;
  const word = on ? "live" : "connecting…";
  if (live.textContent !== word) live.textContent = word;
}

// Runs f soon, and not again before `ms` are over, however often it is asked for.
function paced(f, ms) {
  let timer = null, at = 0;
  return () => {
    if (timer) return;
    timer = setTimeout(() => { timer = null; at = performance.now(); if (!page?.signal.aborted) f(); }, Math.max(0, at + ms - performance.now()));
  };
}

// ---- a list with elements for the rows in sight ----

class List {
  constructor(kind, label, heads, row) {
    this.rows = [];
    this.row = row;
    this.height = 46;
    this.made = new Map();
    this.view = h("div", { class: "view", role: "rowgroup", tabindex: "-1", on: { scroll: () => this.draw(), keydown: (e) => this.key(e) } });
    this.room = h("div", { "aria-hidden": "true" });
    this.view.append(this.room);
    this.element = h("div", { class: `list ${kind}`, role: "table", "aria-label": label },
      h("div", { class: "cols", role: "row", "aria-rowindex": "1" }, heads.map(([text, c]) => h("span", { role: "columnheader", class: c }, text))), this.view);
    new ResizeObserver(() => this.draw()).observe(this.view);
  }

  set(rows) {
    this.rows = rows;
    this.element.setAttribute("aria-rowcount", String(rows.length + 1));
    this.made.forEach((e) => { e.stale = true; });
    this.draw();
  }

  inSight() {
    const first = Math.max(0, Math.floor(this.view.scrollTop / this.height) - 4);
    return [first, Math.min(this.rows.length, first + Math.ceil(this.view.clientHeight / this.height) + 9)];
  }

  draw() {
    const [first, end] = this.inSight(), keep = new Set();
    let above = this.room;
    this.room.style.height = `${this.rows.length * this.height}px`;
    this.element.classList.toggle("scrolls", this.rows.length * this.height > this.view.clientHeight + 1);
    this.element.style.minHeight = `${Math.min(5, this.rows.length) * this.height + 36}px`;
    for (let i = first; i < end; i++) {
      const data = this.rows[i], had = this.made.get(data.key);
      keep.add(data.key);
      let e = had;
      if (!had || had.stale || had.of !== data) {
        const focused = had?.contains(document.activeElement) ? document.activeElement.tagName : null;
        e = h("div", { class: "cols", role: "row" }, this.row(data).map(([node, c]) => h("div", { role: "cell", class: c }, node)));
        e.of = data;
        if (had) had.replaceWith(e); else this.view.append(e);
        if (focused) e.querySelector(focused)?.focus({ preventScroll: true });
        this.made.set(data.key, e);
      }
      e.setAttribute("aria-rowindex", String(i + 2));
      e.style.top = `${i * this.height}px`;
      e.at = i;
      if (above.nextElementSibling !== e) this.place(e, above);
      above = e;
    }
    for (const [key, e] of this.made) if (!keep.has(key)) { e.remove(); this.made.delete(key); }
    this.drawn?.();
  }

  // Tab and screen readers go by the order of the elements, not by where they are seen.
  place(e, above) {
    const active = e.contains(document.activeElement) ? document.activeElement : null;
    above.after(e);
    active?.focus({ preventScroll: true });
  }

  key(event) {
    const row = event.target.closest(".cols");
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key];
    if (!row || !step) return;
    event.preventDefault();
    const to = Math.max(0, Math.min(this.rows.length - 1, row.at + step));
    if (to * this.height < this.view.scrollTop) this.view.scrollTop = to * this.height;
    else if ((to + 1) * this.height > this.view.scrollTop + this.view.clientHeight) this.view.scrollTop = (to + 1) * this.height - this.view.clientHeight;
    this.draw();
    this.made.get(this.rows[to].key)?.querySelector("a, button")?.focus({ preventScroll: true });
  }
}

// ---- pages ----

function show(title, ...children) {
  document.title = `${shown(title)} · brig`;
  main.replaceChildren(...children);
  if (page?.moved) main.querySelector("h1")?.focus({ preventScroll: true });
}

const failure = (e) => h("p", { class: "note bad", role: "alert" }, e.message, e.hint ? ` (${e.hint})` : "");

function title(text, ...more) {
  return h("div", { class: "head" }, h("h1", { tabindex: "-1" }, text), ...more);
}

async function allBoxes() {
  const all = new Map();
  let next = null;
  do {
    const got = await call(`/v1/sandboxes?${query({ limit: 500, cursor: next })}`);
    for (const b of got.sandboxes) all.set(b.id, slim(b));
    next = got.next;
  } while (next && all.size < BOXES_MAX);
  return all;
}

// What a row needs, and no more.
function slim(b) {
  const limits = b.spec?.limits || {};
  return { key: b.id, id: b.id, name: b.name, state: b.state, reason: b.reason, backend: b.backend, network: b.isolation?.network || b.spec?.network || "none", created: b.created,
    running: b.execs_running, run: b.run, labels: b.labels || {}, memory: bytes(limits.memory), pids: limits.pids ? Number(limits.pids) : null };
}

function boxRow(b) {
  const u = b.use;
  const mem = u ? h("div", { class: "two" }, h("span", {}, b.memory ? `${size(u.memory)} of ${size(b.memory)}` : size(u.memory)),
    b.memory && h("meter", { min: 0, max: b.memory, high: b.memory * 0.9, value: u.memory, "aria-label": "memory" })) : h("span", { class: "soft" }, b.memory ? `≤ ${size(b.memory)}` : "–");
  return [[h("div", { class: "two" }, h("a", { href: `#/sandbox/${b.id}` }, b.name || b.id), h("span", { class: "soft mono" }, b.name ? b.id : Object.entries(b.labels).map(([k, v]) => `${k}=${v}`).join(" ")))],
    [h("div", { class: "two start" }, stateChip(b), u ? h("span", { class: "soft narrow" }, size(u.memory)) : null)], [b.backend || "–", "wide"], [b.network, "wide"], [mem],
    [u ? `${u.processes}${b.pids ? ` / ${b.pids}` : ""}` : "–", "num wide"], [b.cpu !== undefined && u ? `${Math.round(b.cpu)} %` : "–", "num wide"],
    [b.running ? chip(`${b.running} running`, "good") : h("span", { class: "soft" }, "idle"), "wide"], [span(Date.now() - Date.parse(b.created)), "num"]];
}

async function sandboxesPage(signal) {
  const list = new List("boxes", "Sandboxes", [["Name"], ["State"], ["Backend", "wide"], ["Network", "wide"], ["Memory"], ["Processes", "num wide"], ["CPU", "num wide"], ["Commands", "wide"], ["Age", "num"]], boxRow);
  const counts = h("div", { class: "chips", role: "group", "aria-label": "Only those in one state" });
  const find = h("input", { type: "search", "aria-label": "Find by name, id or label", placeholder: "Find by name, id or label", autocomplete: "off" });
  const empty = h("div", { class: "panel empty", hidden: true }, h("p", {}, "No sandbox is here yet."), h("p", { class: "small" }, "Make one: ", h("code", {}, "brig sandbox create --name first")));
  let all = new Map(), only = null;
  const changed = new Set();
  const match = (b, text) => !text || [b.id, b.name || "", ...Object.entries(b.labels).map(([k, v]) => `${k}=${v}`)].some((t) => t.toLowerCase().includes(text));
  const draw = paced(() => {
    const n = {};
    for (const b of all.values()) n[b.state] = (n[b.state] || 0) + 1;
    counts.replaceChildren(...Object.entries(n).sort().map(([s, k]) => h("button", { type: "button", class: "row", "aria-pressed": String(only === s), on: { click: () => { only = only === s ? null : s; draw(); } } }, `${k} ${s}`)));
    const text = find.value.trim().toLowerCase();
    list.set([...all.values()].filter((b) => (!only || b.state === only) && match(b, text)).reverse());
    empty.hidden = all.size > 0;
    list.element.hidden = !all.size;
  }, DRAW_MS);
  const reload = paced(async () => {
    const ids = [...changed];
    changed.clear();
    try {
      if (ids.length > 10) {
        const fresh = await allBoxes();
        for (const [id, b] of fresh) keepUse(b, all.get(id));
        all = fresh;
      } else {
        await Promise.all(ids.map(async (id) => {
          try { const b = slim(await call(`/v1/sandboxes/${id}`)); keepUse(b, all.get(id)); all.set(id, b); } catch (e) { if (e.status === 404) all.delete(id); else throw e; }
        }));
        if (ids.some((id) => !all.has(id) || all.size > BOXES_MAX)) all = new Map([...all].slice(-BOXES_MAX));
      }
      draw();
    } catch (e) { if (!signal.aborted) console.warn(e.message); }
  }, RELOAD_MS);
  find.addEventListener("input", draw);
  show("Sandboxes", title("Sandboxes", counts, h("span", { class: "grow" }), find), empty, list.element);
  const info = await call("/v1/info");
  all = await allBoxes();
  list.set([...all.values()].reverse());
  draw();
  watchUse(list, signal);
  follow((last) => `/v1/events?since=${last ?? info.last_event}`, (type, ev) => { if (ev.sandbox) { changed.add(ev.sandbox); reload(); } }, signal)
    .catch((e) => { if (e.status === 410) location.reload(); else main.append(failure(e)); });
}

function keepUse(b, old) {
  if (!old) return;
  b.use = old.use; b.cpu = old.cpu; b.seen = old.seen;
}

// What those in sight use, while somebody looks.
async function watchUse(list, signal) {
  const look = async () => {
    const [first, end] = list.inSight();
    const rows = list.rows.slice(first, end).filter((b) => b.state === "ready" || b.state === "paused").slice(0, USE_MAX);
    if (document.hidden || !rows.length) return;
    takeUse(rows, (await call(`/v1/use?${query({ sandbox: rows.map((b) => b.id) })}`)).sandboxes);
    list.set(list.rows);
  };
  for (let wait = 800; !signal.aborted; wait = USE_MS) {
    try { await look(); } catch (e) { if (signal.aborted) return; }
    await new Promise((done) => setTimeout(done, wait));
  }
}

function takeUse(rows, use) {
  const now = performance.now();
  for (const b of rows) {
    const u = use[b.id];
    if (u && b.use && b.seen && u.cpu_ms >= b.use.cpu_ms) b.cpu = 100 * (u.cpu_ms - b.use.cpu_ms) / (now - b.seen);
    b.use = u || null;
    b.seen = now;
  }
}

// ---- one sandbox ----

const fact = (name, value, kind) => h("div", { class: kind }, h("dt", {}, name), h("dd", {}, value ?? "–"));

const BY = { watch: ", watched", "watch (partial)": ", watched" };

// `begun`: what the record has of it, where a default stands in numbers.
function facts(b, use, begun) {
  const l = b.spec?.limits || {}, by = b.isolation?.limits || {};
  const how = (k) => BY[by[k]] || ` by ${by[k] || "?"}`, memory = l.memory || (begun?.memory ? size(begun.memory) : null);
  const limit = (k, text) => (text ? `limit ${text}${how(k)}` : by[k] && by[k] !== "none" ? `limited${how(k)}` : "no limit");
  return h("dl", { class: "grid" }, fact("State", stateChip(b)), fact("Created", clock(b.created, true)), fact("Backend", b.backend), fact("Network", b.isolation?.network || b.spec?.network || "none"),
    fact("Workspace", h("span", { class: "mono" }, b.spec?.workspace?.path || "private")), fact("Memory", use ? `${size(use.memory)}, ${limit("memory", memory)}` : limit("memory", memory)),
    fact("Processes", use ? `${use.processes}, ${limit("pids", l.pids)}` : limit("pids", l.pids)), fact("CPUs", l.cpus ? l.cpus + how("cpus") : "all"),
    fact("Stops when idle for", b.idle_ttl_ms ? span(b.idle_ttl_ms) : "never"), fact("Expires", b.expires ? clock(b.expires, true) : "never"));
}

function layers(b) {
  const i = b.isolation || {};
  const on = Object.entries(i).filter(([, v]) => v === true).map(([k]) => k.replaceAll("_", " "));
  if (i.seccomp) on.push(`seccomp: ${i.seccomp}`);
  if (i.landlock_abi) on.push(`landlock ${i.landlock_abi}`);
  if (i.cgroup) on.push(`control groups: ${i.cgroup}`);
  return on.length ? h("div", { class: "chips" }, on.map((t) => chip(t, / none$/.test(t) ? "warn" : "good"))) : h("p", { class: "soft" }, "Not known yet.");
}

function outcomeChip(x) {
  if (x.state === "running") return chip("running", "good");
  const r = x.result || {};
  if (r.outcome === "exited") return chip(`exit ${r.exit_code}`, r.exit_code ? "warn" : "good");
  return chip(r.outcome || "ended", "bad");
}

// What a command wrote, from what is kept; of a running one, as it comes.
class Output {
  constructor(box, exec) {
    this.pre = h("pre", { tabindex: "0", "aria-label": "What the command wrote" }, "…");
    this.path = `/v1/sandboxes/${box}/execs/${exec}/stream`;
    this.length = 0;
    this.decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  }

  async read(signal) {
    const any = { seen: false };
    await follow(() => this.path, (type, ev) => {
      if (!this.decoders[type] || !ev.data) return;
      if (!any.seen) this.pre.replaceChildren();
      any.seen = true;
      this.add(type, this.decoders[type].decode(Uint8Array.from(atob(ev.data), (c) => c.charCodeAt(0)), { stream: true }));
    }, signal, true).catch((e) => { if (!signal.aborted) this.pre.textContent = shown(e.message); any.seen = true; });
    if (!any.seen) this.pre.textContent = "It wrote nothing.";
  }

  add(type, text) {
    const node = h("span", { class: type === "stderr" ? "err" : undefined });
    node.textContent = shown(text, true);
    this.pre.append(node);
    this.length += text.length;
    while (this.length > OUTPUT_MAX && this.pre.childNodes.length > 1) { this.length -= this.pre.firstChild.textContent.length; this.pre.firstChild.remove(); }
    if (this.length > OUTPUT_MAX) { node.textContent = node.textContent.slice(-OUTPUT_MAX); this.length = OUTPUT_MAX; }
  }
}

function execItem(box, x, signal) {
  const r = x.result || {}, denials = r.denials || [];
  const item = h("details", {}, h("summary", {}, h("code", {}, (x.argv || ["…"]).join(" ")), h("span", { class: "soft small" }, r.duration_ms !== undefined ? span(r.duration_ms) : clock(x.started)),
    h("span", { class: "chips" }, denials.length ? chip(`${denials.length} denied`, "bad") : null, outcomeChip(x))));
  item.addEventListener("toggle", () => {
    if (!item.open || item.full) return;
    item.full = true;
    const out = new Output(box, x.id);
    item.append(out.pre);
    if (r.error) item.append(h("p", { class: "note bad" }, r.error.what || "it failed"));
    if (r.limits_hit?.length) item.append(h("p", { class: "note" }, `Limits that were reached: ${r.limits_hit.join(", ")}`));
    if (denials.length) item.append(h("h2", {}, "Denied"), h("ul", { class: "plain" }, denials.slice(0, 100).map((d) => h("li", {}, chip(d.kind, "bad"), h("span", { class: "grow" }, h("strong", {}, d.target), " ", h("span", { class: "soft" }, d.reason)), d.count > 1 ? chip(`× ${d.count}`) : null))));
    out.read(signal);
  });
  return item;
}

const EVENTS = {
  "sandbox.accepted": "asked for", "sandbox.preparing": "being made", "sandbox.ready": "ready", "sandbox.failed": "could not be made", "sandbox.updated": "changed", "sandbox.pausing": "being paused",
  "sandbox.paused": "paused", "sandbox.resumed": "went on", "sandbox.stopping": "being stopped", "sandbox.stopped": "stopped", "sandbox.deleting": "being deleted", "sandbox.deleted": "deleted",
  "exec.started": "began", "exec.finished": "ended", "exec.failed": "failed",
};

// `told`: the words of its commands, as far as they are known.
function eventLine(ev, told) {
  const d = ev.data || {}, more = [...new Set([ev.reason, d.outcome === "exited" ? null : d.outcome, d.exit_code !== undefined ? `exit ${d.exit_code}` : null].filter((x) => x && x !== EVENTS[ev.type]))];
  return h("li", {}, h("span", { class: "soft small" }, clock(ev.time)), h("span", { class: "grow" }, h("span", { class: "word" }, EVENTS[ev.type] || ev.type), " ", ev.exec ? h("strong", {}, told.get(ev.exec) || "a command") : null,
    more.length ? h("span", { class: "soft" }, ` ${more.join(" · ")}`) : null));
}

async function sandboxPage(signal, id) {
  const top = h("section", { class: "panel", "aria-label": "Facts" }), shell = h("section", { class: "panel", "aria-labelledby": "layers" });
  const commands = h("div", {}), events = h("ul", { class: "plain scroll", tabindex: "0", "aria-label": "Events" }), network = h("div", {}), notes = h("pre", {}), changed = h("div", {});
  const seen = new Set(), told = new Map();
  let b = await call(`/v1/sandboxes/${id}`), use = null, begun = null, history = [], hidden = "", shownIn = "";
  const unseen = (e) => { if (e.status !== 403) throw e; hidden = "The token of this session does not see it."; return { execs: [] }; };
  show(b.name || b.id, title(b.name || b.id, b.name ? h("span", { class: "soft mono" }, b.id) : null, h("span", { class: "grow" }), h("a", { href: "#/sandboxes" }, "All sandboxes")), top, changed, h("div", { class: "split" },
    h("div", {}, h("section", { class: "panel", "aria-labelledby": "cmds" }, h("h2", { id: "cmds" }, "Commands"), commands), h("section", { class: "panel", "aria-labelledby": "net" }, h("h2", { id: "net" }, "Network decisions"), network)),
    h("div", {}, shell, h("section", { class: "panel", "aria-labelledby": "evs" }, h("h2", { id: "evs" }, "What happened"), events), h("section", { class: "panel", "aria-labelledby": "notes" }, h("h2", { id: "notes" }, "Notes"), notes))));
  // What is in its layer can be seen while nothing writes there.
  const drawChanges = () => {
    const state = b.spec?.workspace?.mode === "overlay" && !session.tenant && /^(paused|stopped)$/.test(b.state) ? b.state : "";
    if (state === shownIn) return;
    shownIn = state;
    changed.replaceChildren(...(state ? [h("section", { class: "panel", "aria-labelledby": "changed" }, h("h2", { id: "changed" }, "What it changed"), changesPanel(b.id))] : []));
  };
  const draw = paced(() => {
    drawChanges();
    top.replaceChildren(facts(b, use, begun));
    shell.replaceChildren(h("h2", { id: "layers" }, "What contains it"), layers(b));
    events.replaceChildren(...(history.length ? history.slice(-EVENTS_MAX).reverse().map((ev) => eventLine(ev, told)) : [h("li", { class: "soft" }, "Nothing is kept any more.")]));
  }, DRAW_MS);
  const reload = paced(async () => {
    try {
      b = await call(`/v1/sandboxes/${id}`);
      const all = (await call(`/v1/sandboxes/${id}/execs`).catch(unseen)).execs.slice(-100).reverse();
      for (const x of all.reverse()) {
        told.set(x.id, x.argv?.[0]);
        const key = `${x.id} ${x.state}`;
        if (seen.has(key)) continue;
        seen.add(key);
        const item = execItem(id, x, signal);
        item.id = x.id;
        const old = document.getElementById(x.id);
        if (old) { item.open = old.open; old.replaceWith(item); } else commands.prepend(item);
      }
      if (!commands.firstChild) commands.append(h("p", { class: "soft" }, hidden || "No command has run yet."));
      else commands.querySelector(":scope > p")?.remove();
      while (commands.childNodes.length > 100) commands.lastChild.remove();
      draw();
      await showNetwork(network, id);
      notes.textContent = hidden || shown(await (await fetch(`/v1/sandboxes/${id}/logs`, { signal })).text(), true) || "None.";
    } catch (e) { if (!signal.aborted) top.replaceChildren(failure(e)); }
  }, RELOAD_MS);
  draw();
  reload();
  if (b.run && !session.tenant) call(`/v1/runs?${query({ run: b.run, limit: 1 })}`).then((a) => { begun = a.runs[0] || null; draw(); }).catch(() => undefined);
  useOf(id, signal, (u) => { use = u; draw(); });
  const heard = (type, ev) => { if (!ev.seq) return; history.push(ev); if (history.length > 2 * EVENTS_MAX) history = history.slice(-EVENTS_MAX); draw(); };
  const path = (since, more) => `/v1/events?${query({ sandbox: b.id, since, follow: more })}`;
  const oldest = await firstEvent(path, heard, signal);
  follow((last) => path(last ?? oldest), (type, ev) => { heard(type, ev); reload(); }, signal).catch(() => undefined);
}

// All events that are kept of it; the number to go on from.
async function firstEvent(path, heard, signal) {
  const info = await call("/v1/info");
  let since = 0;
  for (let i = 0; i < 3; i++) {
    try {
      await follow(() => path(since, "false"), heard, signal, true);
      break;
    } catch (e) { since = e.oldest ? e.oldest - 1 : info.last_event; }
  }
  return info.last_event;
}

async function useOf(id, signal, done) {
  while (!signal.aborted) {
    try { if (!document.hidden) done((await call(`/v1/use?${query({ sandbox: id })}`)).sandboxes[id]); } catch (e) { if (signal.aborted) return; }
    await new Promise((ready) => setTimeout(ready, USE_MS));
  }
}

async function showNetwork(to, id) {
  try {
    const got = (await call(`/v1/audit?${query({ sandbox: id, type: decisions, limit: 100 })}`)).records.reverse();
    to.replaceChildren(got.length ? h("ul", { class: "plain scroll", tabindex: "0", "aria-label": "Network decisions" }, got.map((r) => h("li", {}, h("span", { class: "soft small" }, clock(r.time)), decisionChip(r),
      h("span", { class: "grow" }, h("strong", {}, target(r)), " ", h("span", { class: "soft" }, r.reason || r.rule || "")), allowButton(r)))) : h("p", { class: "soft" }, "It has asked for nothing."));
  } catch (e) { if (e.status) to.replaceChildren(h("p", { class: "soft" }, e.message)); }
}

// ---- network ----

const target = (r) => (r.host ? `${r.host}${r.port ? `:${r.port}` : ""}` : r.target || "–");
const DECISIONS = { "egress.allow": ["allowed", "good"], "egress.deny": ["denied", "bad"], "leak.warn": ["secret?", "warn"], "leak.redact": ["redacted", "warn"], "leak.block": ["stopped", "bad"], "credential.misuse": ["misuse", "bad"] };
const decisionChip = (r) => chip(...(DECISIONS[r.type] || [r.type, "bad"]));
const ruleOf = (r) => (r.port && r.port !== 443 ? `${r.host}:${r.port}` : r.host);

// Only where the list does not have the host: other refusals do not go away by it, and of a host that is there
// for some requests alone the button would allow all of them.
const canAllow = (r) => r.type === "egress.deny" && r.host && String(r.reason).startsWith("Host not in allowlist: ") && !session?.tenant;

function allowButton(r) {
  if (!canAllow(r)) return null;
  return h("button", { type: "button", class: "row", "aria-label": `Allow ${shown(ruleOf(r))}…`, on: { click: () => askAllow(ruleOf(r)) } }, "Allow…");
}

// `told`: what is known of it, for a name instead of digits.
function runLink(run, n, told) {
  if (!run) return h("span", { class: "soft" }, "–");
  const name = told && (told.agent || command(told));
  return h("a", { class: name ? undefined : "mono", title: shown(told?.workspace || run), href: `#/run/${run}` }, name || run.slice(0, n));
}

async function networkPage(signal) {
  let rows = [], only = "all", names = new Map(), told = new Map(), total = 0;
  const seen = new Set();
  const list = new List("hosts", "Decisions", [["Time"], ["Decision"], ["Host"], ["Method", "wide"], ["Why", "wide"], ["Sandbox or run", "wide"], [""]], (r) => [[clock(r.time)], [decisionChip(r)], [h("strong", {}, target(r))], [r.method || "–", "wide"],
    [h("span", { class: "soft", title: shown(r.reason || r.rule || "") }, r.reason || (r.rule ? `rule ${r.rule}` : r.pattern || "–")), "wide"], [names.has(r.run) ? h("a", { href: `#/sandbox/${names.get(r.run).id}` }, names.get(r.run).name || names.get(r.run).id) : runLink(r.run, 12, told.get(r.run)), "wide"], [allowButton(r)]]);
  const tally = h("span", { class: "soft small", role: "status" });
  const pick = ["all", "denied", "allowed"].map((w) => h("button", { type: "button", class: "row", "aria-pressed": String(w === only), on: { click: () => { only = w; pick.forEach((b) => b.setAttribute("aria-pressed", String(b.textContent === w))); draw(); } } }, w));
  const empty = h("div", { class: "panel empty" }, h("p", {}, "Nothing has asked for the network yet."), h("p", { class: "small" }, "Sandboxes with ", h("code", {}, "--network proxy"), " are seen here, whoever started them."));
  const draw = paced(() => {
    list.set(rows.filter((r) => only === "all" || (r.type === "egress.allow") === (only === "allowed")));
    empty.hidden = rows.length > 0;
    list.element.hidden = !rows.length;
    tally.textContent = rows.length ? `${total} ${total === 1 ? "decision" : "decisions"}` : "";
  }, DRAW_MS);
  show("Network", title("Network decisions", h("div", { class: "chips", role: "group", "aria-label": "Which" }, pick), h("span", { class: "grow" }), tally), empty, list.element);
  if (session.tenant) { empty.replaceChildren(h("p", {}, "Open one of your sandboxes to see its decisions.")); return; }
  const who = paced(async () => { try { names = new Map([...(await allBoxes()).values()].map((b) => [b.run, { id: b.id, name: b.name }])); told = new Map((await call(`/v1/runs?${query({ limit: RUNS_MAX })}`)).runs.map((r) => [r.run, r])); list.set(list.rows); } catch (e) { if (!signal.aborted) console.warn(e.message); } }, 5000);
  who();
  follow(() => `/v1/audit/follow?${query({ type: decisions, limit: 200 })}`, (type, r) => {
    if (seen.has(r.seq)) return;
    seen.add(r.seq);
    total++;
    rows.unshift({ ...r, key: r.seq });
    if (rows.length > DECISIONS_MAX) { seen.delete(rows.at(-1).seq); rows.length = DECISIONS_MAX; }
    if (r.run && !names.has(r.run) && !told.has(r.run)) who();
    draw();
  }, signal).catch((e) => main.append(failure(e)));
}

function copyLine(text) {
  const button = h("button", { type: "button", class: "row", on: { click: async () => { await navigator.clipboard.writeText(text); button.textContent = "Copied"; } } }, "Copy");
  return h("div", { class: "copy" }, h("code", { tabindex: "0" }, text), button);
}

function diffText(text) {
  return h("pre", { tabindex: "0", "aria-label": "Difference" }, text.trimEnd().split("\n").map((line) => { const e = h("span", { class: /^\+(?!\+\+)/.test(line) ? "add" : undefined }); e.textContent = `${shown(line)}\n`; return e; }));
}

// `done` is called when the owner's file has the rule.
async function askAllow(rule, done) {
  const close = h("button", { type: "button", on: { click: () => dialog.close() } }, "Close");
  const body = h("div", {}, h("p", { class: "soft" }, "…"));
  dialog.replaceChildren(h("h2", { id: "allow-title", class: "title" }, `Allow ${shown(rule)}?`), body, h("div", { class: "end" }, close));
  dialog.showModal();
  try {
    const d = await call(`/v1/policy/allow?${query({ rule })}`);
    dialog.replaceChildren(h("h2", { id: "allow-title", class: "title" }, `Allow ${shown(rule)}?`), h("p", {}, "The name comes from inside of a sandbox. Look at it twice."), h("h3", {}, "For one run"), copyLine(d.run_option),
      h("h3", {}, "For every sandbox that is made from now on"), copyLine(d.command), d.diff ? diffText(d.diff) : h("p", { class: "note good" }, "Your file has this rule already."), ...applyForm(rule, d, close, done));
    if (!d.diff) done?.();
  } catch (e) { body.replaceChildren(failure(e)); }
}

function applyForm(rule, d, close, then) {
  if (!d.diff) return [h("div", { class: "end" }, close)];
  if (!session.admin) return [h("p", { class: "soft small" }, "This session only looks. Run the line in a terminal, or open the dashboard with ", h("code", {}, "brig dashboard --admin"), "."), h("div", { class: "end" }, close)];
  const typed = h("input", { autocomplete: "off", spellcheck: "false", "aria-describedby": "typed-why" });
  const apply = h("button", { type: "submit", class: "main", disabled: true }, "Change my file");
  typed.addEventListener("input", () => { apply.disabled = typed.value !== rule; });
  const form = h("form", { class: "end", on: { submit: async (ev) => {
    ev.preventDefault();
    apply.disabled = true;
    try {
      const done = await post("/v1/policy/allow", { rule, typed: typed.value });
      then?.();
      form.replaceWith(h("p", { class: "note good", role: "status" }, done.changed ? `Changed: ${done.file}. Sandboxes made from now on have it.` : "It was there already."), h("div", { class: "end" }, close));
    } catch (e) { form.before(failure(e)); }
  } } }, h("label", {}, h("span", { id: "typed-why" }, "Type the host to change your own file"), typed), close, apply);
  return [form];
}

// ---- names that no rule allows (egress.ask) ----

// The owner is asked on every page. A click that was on its way when a question came, went or moved is none: a command
// knows when its first question ends, and another would lie under the hand that was going to answer that one.
function haste(asks) {
  const buttons = asks.querySelectorAll("button");
  for (const b of buttons) b.disabled = true;
  clearTimeout(asks.quiet);
  asks.quiet = setTimeout(() => { for (const b of buttons) b.disabled = false; }, HASTE_MS);
}

function questionItem(q, name, answered) {
  const what = q.port === 443 ? q.host : `${q.host}:${q.port}`;
  const say = async (answer) => {
    try { await post(`/v1/sandboxes/${q.sandbox}/questions/${q.question}`, { answer }); } catch (e) { if (e.status !== 404) item.append(failure(e)); else answered(); }
  };
  const buttons = [["No", () => say("no")], ["Once", () => say("once")], ["For this sandbox", () => say("run")], ["Always…", () => askAllow(what, () => say("run"))]]
    .map(([text, click]) => h("button", { type: "button", class: "row", disabled: true, on: { click } }, text));
  const item = h("div", { class: "ask" }, h("p", {}, h("a", { href: `#/sandbox/${q.sandbox}` }, name), " wants to reach ", h("strong", { class: "mono" }, what), ", which no rule allows. ",
    /(^|\.)xn--/.test(q.host) ? h("span", { class: "chip warn" }, "not all of its letters are what they look like") : null), h("div", { class: "chips" }, buttons));
  return item;
}

async function watchQuestions() {
  const asks = document.getElementById("asks"), open = new Map(), signal = new AbortController().signal;
  const key = (ev) => `${ev.sandbox} ${ev.data.question}`;
  const close = (k) => {
    if (!open.has(k)) return;
    open.get(k).remove();
    open.delete(k);
    asks.hidden = !open.size;
    haste(asks);
  };
  const each = async (type, ev) => {
    if (type === "egress.answered") close(key(ev));
    if (type !== "egress.asked" || open.has(key(ev)) || Date.now() - Date.parse(ev.time) > ASK_MS) return;
    const item = questionItem({ ...ev.data, sandbox: ev.sandbox }, ev.sandbox, () => close(key(ev)));
    open.set(key(ev), item);
    asks.append(item);
    asks.hidden = false;
    haste(asks);
    setTimeout(() => close(key(ev)), ASK_MS);
    const box = await call(`/v1/sandboxes/${ev.sandbox}`, { signal: undefined }).catch(() => null);
    if (!box?.name || !open.has(key(ev))) return;
    item.querySelector("a").textContent = shown(box.name);
    haste(asks);
  };
  const first = Math.max(0, (await call("/v1/info", { signal: undefined })).last_event - RECORDS);
  await follow((last) => `/v1/events?since=${last ?? first}`, each, signal);
}

// ---- record ----

const TYPES = ["sandbox.*", "egress.*", "access.deny", "trust.change", "limit.hit", "leak.*", "credential.*", "config.refused", "policy.change", "tool.call", "agent.sign", "auth.fail", "log.*"];

function recordText(r) {
  const skip = new Set(["seq", "time", "type", "run", "policy", "principal"]);
  return Object.entries(r).filter(([k]) => !skip.has(k)).map(([k, v]) => `${k}=${typeof v === "object" ? JSON.stringify(v) : v}`).join("  ");
}

function recordItem(r) {
  const item = h("details", {}, h("summary", {}, clock(r.time, true), chip(r.type, /deny|block|misuse|refused|fail|lost/.test(r.type) ? "bad" : /limit|policy|redact/.test(r.type) ? "warn" : ""), storyLine(r), h("span", { class: "wide" }, runLink(r.run, 10))));
  item.addEventListener("toggle", () => {
    if (!item.open || item.full) return;
    item.full = true;
    item.append(h("dl", { class: "grid" }, Object.entries(r).map(([k, v]) => fact(k, h("span", { class: "mono" }, typeof v === "object" ? JSON.stringify(v) : String(v))))));
  });
  return item;
}

async function recordPage(signal, text) {
  const asked = new URLSearchParams(text || "");
  const field = (name, label, hint, list) => h("label", {}, label, h("input", { name, value: asked.get(name) || "", placeholder: hint, autocomplete: "off", list }));
  const results = h("section", { class: "panel records", "aria-label": "Records", "aria-live": "polite", "aria-busy": "false" });
  const older = h("button", { type: "button", hidden: true }, "Older records");
  const form = h("form", { class: "search panel", role: "search", on: { submit: (e) => { e.preventDefault(); location.hash = `#/record?${query(Object.fromEntries(new FormData(form)))}`; } } },
    field("type", "Type", "egress.*", "types"), field("host", "Host", "*.example.org"), field("run", "Run", "first digits"), field("outcome", "Outcome", "timeout"), field("agent", "Agent", "name"), field("since", "Since", "2h, 7d, date"),
    session.tenant ? field("sandbox", "Sandbox", "id or name") : null, h("button", { type: "submit", class: "main" }, "Search"), h("datalist", { id: "types" }, TYPES.map((t) => h("option", { value: t }))));
  show("Record", title("Record", h("span", { class: "soft small" }, "of every run, signed line by line: ", h("code", {}, "brig audit verify"))), form, results, h("div", {}, older));
  const values = Object.fromEntries([...asked].filter(([, v]) => v));
  const seen = new Set();
  const more = async (until) => {
    results.setAttribute("aria-busy", "true");
    older.disabled = true;
    try {
      const got = (await call(`/v1/audit?${query({ ...values, until, limit: RECORDS })}`)).records.reverse().filter((r) => !seen.has(r.seq));
      got.forEach((r) => seen.add(r.seq));
      if (until) results.replaceChildren();
      results.append(...got.map(recordItem));
      if (!got.length) results.append(h("p", { class: "empty" }, until ? "Nothing older." : "Nothing was recorded that fits."));
      older.hidden = got.length < RECORDS - 1;
      older.onclick = () => { seen.clear(); more(got.at(-1).time).then(() => main.scrollTo(0, 0)); };
    } catch (e) { if (!signal.aborted) results.replaceChildren(failure(e)); }
    results.setAttribute("aria-busy", "false");
    older.disabled = false;
  };
  if (session.tenant && !values.sandbox) results.append(h("p", { class: "empty" }, "Name one of your sandboxes."));
  else await more();
}

// ---- doctor ----

async function doctorPage(signal) {
  const out = h("section", { class: "panel", "aria-label": "Checks", "aria-live": "polite" });
  const again = h("button", { type: "button", on: { click: () => look() } }, "Check again");
  const verdict = h("span", { class: "chip" });
  async function look() {
    again.disabled = true;
    verdict.className = "chip";
    verdict.textContent = "looking…";
    try {
      const d = await call("/v1/doctor");
      verdict.className = `chip ${d.ready ? "good" : "bad"}`;
      verdict.textContent = d.ready ? "ready" : "not ready";
      out.replaceChildren(h("ul", { class: "plain checks" }, d.checks.map((c) => h("li", {}, h("span", {}, chip(c.status, { pass: "good", fail: "bad", warn: "warn" }[c.status])), h("strong", {}, c.name.replaceAll("_", " ")), h("div", {}, c.detail, c.hint ? h("div", { class: "hint" }, c.hint) : null)))));
    } catch (e) { if (!signal.aborted) { verdict.textContent = ""; out.replaceChildren(failure(e)); } }
    again.disabled = false;
  }
  show("Doctor", title("Doctor", verdict, h("span", { class: "grow" }), again), out);
  await look();
}

// ---- who ----

function signedOut(why) {
  session = null;
  page?.controller.abort();
  live.className = "live";
  live.textContent = "";
  document.getElementById("scope").textContent = "";
  document.getElementById("leave").hidden = true;
  show("Sign in", h("div", { class: "panel empty" }, h("h1", { tabindex: "-1" }, why), h("p", {}, "Open the dashboard from a terminal: ", h("code", {}, "brig dashboard"))));
}

async function enter() {
  const code = /^#code=([0-9a-f]+)$/.exec(location.hash)?.[1];
  if (code) history.replaceState(null, "", "/#/");
  if (code) return post("/v1/dashboard/session", { code });
  return call("/v1/dashboard/session");
}

const PAGES = [[/^#\/?$/, runsPage], [/^#\/run\/([0-9a-f]{4,32})$/, runPage], [/^#\/sandboxes$/, sandboxesPage], [/^#\/sandbox\/([a-z0-9._-]+)$/, sandboxPage], [/^#\/network$/, networkPage], [/^#\/record(?:\?(.*))?$/, recordPage], [/^#\/doctor$/, doctorPage]];

async function route(first) {
  if (!session) return;
  page?.controller.abort();
  const controller = new AbortController();
  page = { controller, signal: controller.signal, moved: !first };
  if (dialog.open) dialog.close();
  const [pattern, f] = PAGES.find(([p]) => p.test(location.hash || "#/")) || PAGES[0];
  const word = (location.hash || "#/").split(/[/?]/)[1] || "";
  for (const a of document.querySelectorAll("#nav a")) a.toggleAttribute("aria-current", false);
  document.querySelector(`#nav a[href="#/${{ sandbox: "sandboxes", run: "" }[word] ?? word}"]`)?.setAttribute("aria-current", "page");
  main.replaceChildren(h("p", { class: "empty" }, "…"));
  try {
    await f(page.signal, pattern.exec(location.hash || "#/")?.[1]);
  } catch (e) { if (!controller.signal.aborted) main.append(failure(e)); }
}

async function begin() {
  document.getElementById("skip").addEventListener("click", (e) => { e.preventDefault(); main.focus(); });
  document.getElementById("leave").addEventListener("click", async () => { await call("/v1/dashboard/session", { method: "DELETE" }); signedOut("You have signed out."); });
  window.addEventListener("hashchange", () => (location.hash.startsWith("#code=") ? location.reload() : route(false)));
  try {
    session = await enter();
  } catch (e) {
    signedOut(e.status === 401 ? "There is no session here." : e.message);
    return;
  }
  document.getElementById("leave").hidden = false;
  document.getElementById("scope").textContent = [session.tenant ? `tenant ${shown(session.tenant)}` : "", session.admin ? "may change settings" : "read only"].filter(Boolean).join(" · ");
  setLive(true);
  watchLive();
  if (session.admin && !session.tenant) watchQuestions().catch((e) => console.warn(e.message));
  await route(true);
}

begin();
