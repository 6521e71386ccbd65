// SPDX-License-Identifier: Apache-2.0
// Runs and wraps, live and ended: the list, the story of one, what it used and asked for over time.
// Loaded before dashboard.js, whose functions it calls; nothing is done here until a page is shown.
"use strict";

const RUNS_MAX = 200, STORY_MAX = 500, POINTS_MAX = 120, POINT_MS = 900, WATCHED_MAX = 64, BARS_MAX = 30, RUNS_MS = 2000, SOON_MS = 800, IDLE_MS = 10000, CHANGES_SHOWN = 500;
const SVG = "http://www.w3.org/2000/svg";

// ---- words ----

const command = (r) => (r.argv ? r.argv.join(" ") : r.argv0 || r.name || "");
const brief = (r) => (r.argv ? r.argv.join(" ") : (r.argv0 || r.name || "").replace(/^\/.*\/(?=[^/])/, ""));
const byteCount = (n) => (n === undefined ? null : `${size(n)}`);
const whole = (n, one, many) => `${n} ${n === 1 ? one : many || `${one}s`}`;

// How it ended: the word, how good that is, and a sentence.
const ENDS = {
  timeout: ["timeout", "bad", "ended by its time limit"], oom: ["out of memory", "bad", "ended by its memory limit"], limit: ["limit", "bad", "ended by a limit"],
  refused: ["refused", "warn", "refused, never begun"], cancelled: ["cancelled", "", "cancelled"], failed: ["failed", "bad", "failed: brig or the machine, not the command"],
  crashed: ["crashed", "bad", "brig itself died during the run"],
};

function endOf(r) {
  if (r.outcome === "exited") return [`exit ${r.rc}`, r.rc ? "warn" : "good", `exited with status ${r.rc}`];
  if (r.outcome === "signalled") return [`signal ${r.signal ?? "?"}`, "bad", `ended by signal ${r.signal ?? "?"}`];
  return ENDS[r.outcome] || [r.outcome || "no end", "", r.outcome || "its end is not on the record"];
}

const runChip = (r) => (r.live ? chip("running", "good") : chip(endOf(r)[0], endOf(r)[1]));
const tookOf = (r) => (r.live ? Date.now() - Date.parse(r.began) : r.duration_ms);
const askedFor = (r) => `${r.method && r.method !== "CONNECT" ? `${r.method} ` : ""}${target(r)}${r.path || ""}`;

const SECRETS = {
  "leak.block": "a secret on its way out was stopped", "leak.redact": "a secret was replaced on its way", "leak.warn": "something like a secret passed", "credential.inject": "a credential was used", "credential.token": "a login brought tokens",
  "credential.misuse": "a credential was asked for where it is not bound", "credential.scrub": "a secret was kept out",
};

const ANSWERS = { once: "allowed once", run: "allowed for this run", always: "allowed from now on", no: "the answer was no", late: "no answer came" };

// A record as `brig audit show` tells it: a mark, what it is, about what, and what else there is to say. null: nothing to tell.
const STORY = {
  "sandbox.create": (r) => ["", "began", brief(r) || "a sandbox", [r.agent && `for ${r.agent}`, r.workspace && `in ${r.workspace}`, r.network && `network ${r.network}`]],
  "sandbox.ready": (r) => ["good", "ready", "", [r.backend, r.setup_ms !== undefined && `set up in ${span(r.setup_ms)}`]],
  "sandbox.exec": (r) => [endOf(r)[1], "ended", brief(r), [endOf(r)[2], r.duration_ms !== undefined && `after ${span(r.duration_ms)}`, r.reason, r.questions && `${whole(r.questions, "question")} for names refused: ${r.names || ""}`]],
  "sandbox.stop": (r) => ["", "stopped", "", [r.reason]],
  "sandbox.delete": (r) => ["", "deleted", "", [r.reason]],
  "egress.allow": (r) => ["good", "request", askedFor(r), [r.reason, r.rule && `rule ${r.rule}`]],
  "egress.deny": (r) => ["bad", "denied", askedFor(r), [r.reason]],
  "egress.done": (r) => ["soft", "answered", target(r), [r.status && `status ${r.status}`, r.bytes_out !== undefined && `${byteCount(r.bytes_out)} out`, r.bytes_in !== undefined && `${byteCount(r.bytes_in)} in`, r.credential && `with ${r.credential}`, r.count > 1 && `of ${r.count} alike`]],
  "egress.usage": (r) => ["soft", "tokens", `${r.model || "a model"} at ${r.host}`, [`${r.tokens_in || 0} in`, `${r.tokens_out || 0} out`, r.cost_micro_usd !== undefined && dollars(r.cost_micro_usd), r.known, r.count > 1 && `of ${r.count} alike`]],
  "egress.answer": (r) => [/^(once|run|always)$/.test(r.answer) ? "good" : "bad", "asked", target(r), [ANSWERS[r.answer] || r.answer, r.by && `by ${r.by}`]],
  "access.deny": (r) => ["bad", "denied", r.target, [r.kind, r.reason]],
  "trust.change": (r) => ["warn", "look at", r.target, [r.reason]],
  "limit.hit": (r) => ["warn", "limit", r.limit, [r.value !== undefined && `reached (${r.limit === "memory" ? size(r.value) : r.limit === "timeout" ? span(r.value) : r.value})`, r.enforcer && `held by ${r.enforcer}`]],
  "log.summary": (r) => ["soft", "counted", `${r.count} more`, [r.of, r.kind, r.target, r.host]],
  "agent.sign": (r) => ["", "signature", r.host ? `${r.purpose} to ${r.host}` : r.purpose, [r.key]],
  "tool.call": (r) => ["", "tool", r.tool, [r.outcome]],
  "policy.change": (r) => ["warn", "changed", r.rule || r.file, [r.action, r.rule && r.file]],
  "config.refused": (r) => ["warn", "refused", r.command, [r.reason || r.error]],
  "auth.fail": (r) => ["bad", "not let in", r.source, [r.method, r.reason]],
};

function storyOf(r) {
  const known = STORY[r.type];
  if (known) return known(r);
  if (SECRETS[r.type]) return [/block|misuse/.test(r.type) ? "bad" : "warn", "secret", r.name || r.pattern, [SECRETS[r.type], r.host && `to ${target(r)}`, r.reason]];
  return ["", r.type, "", [recordText(r)]];
}

function storyLine(r) {
  const [, word, about, more] = storyOf(r);
  return h("span", { class: "grow" }, h("span", { class: "word" }, word), " ", about ? h("strong", {}, about) : null, " ", h("span", { class: "soft" }, more.filter(Boolean).join(" · ")));
}

// ---- what those in progress use ----

// At most POINTS_MAX: then every second one goes, and from then on every second look.
class Samples {
  constructor() { this.v = []; this.step = 1; this.seen = 0; this.at = -Infinity; }

  add(point) {
    if (point.t - this.at < POINT_MS) return;
    this.at = point.t;
    if (this.seen++ % this.step) return;
    this.v.push(point);
    if (this.v.length > POINTS_MAX) { this.v = this.v.filter((_, i) => i % 2 === 0); this.step *= 2; }
  }
}

const watched = new Map();
let lookNow = () => undefined;

function samplesOf(run) {
  if (!watched.has(run)) {
    if (watched.size >= WATCHED_MAX) watched.delete(watched.keys().next().value);
    watched.set(run, new Samples());
  }
  return watched.get(run);
}

// One look for all pages, while the dashboard is in sight; a page that wants to hear of it has `onLive`. Of what nobody looks at, nothing is known.
async function watchLive() {
  let last = null;
  while (session && !session.tenant) {
    try {
      if (!document.hidden) {
        const fresh = (await call(`/v1/runs?${query({ live: true, limit: RUNS_MAX })}`, { signal: undefined })).runs;
        for (const r of fresh) if (r.use) samplesOf(r.run).add({ t: Date.now() - Date.parse(r.began), memory: r.use.memory, cpu: r.use.cpu_ms });
        page?.onLive?.(fresh);
      }
    } catch (e) { if (session) console.warn(e.message); }
    const wait = page !== last ? SOON_MS : page?.onLive ? USE_MS : IDLE_MS;
    last = page;
    await new Promise((done) => { lookNow = done; setTimeout(done, wait); });
  }
}

// ---- the list ----

// What the button beside them would allow stands in front. Names that were asked for without a network are told
// with the end, and are no denials of a door.
function deniedNames(r) {
  const all = r.denied || [], name = (d) => (d.host ? target(d) : d.target);
  return [...all.filter(canAllow).map(name), r.questions ? r.names : null, ...all.filter((d) => !canAllow(d)).map(name)].filter(Boolean);
}

const deniedCount = (r) => r.denials + (r.questions || 0);

function runAllow(r) {
  for (const d of r.denied || []) { const b = allowButton(d); if (b) return b; }
  const name = r.questions && /^[a-z0-9.-]+$/i.exec((r.names || "").split(/[ ,]/)[0])?.[0];
  return name ? allowButton({ type: "egress.deny", host: name, reason: "Host not in allowlist: " }) : null;
}

function runRow(r, names) {
  const box = names.get(r.run), what = brief(r) || (box ? box.name || box.id : "sandbox"), names2 = deniedNames(r), n = deniedCount(r);
  return [[h("div", { class: "two" }, h("div", { class: "line" }, r.agent ? chip(r.agent, "agent") : box || (r.name && !r.argv && !r.argv0) ? chip("sandbox") : null, h("a", { href: `#/run/${r.run}`, title: shown(command(r)) }, what)), h("span", { class: "soft mono", title: shown(r.workspace || "") }, r.workspace || "private folder"))],
    [h("div", { class: "two start" }, runChip(r), h("span", { class: "soft" }, tookOf(r) !== undefined ? span(tookOf(r)) : "–", n ? h("span", { class: "narrow" }, ` · ${n} denied`) : null))], [clock(r.began, true), "wide"],
    [r.use ? h("div", { class: "two" }, h("span", {}, size(r.use.memory)), h("span", { class: "soft" }, r.memory ? `of ${size(r.memory)}` : "")) : h("span", { class: "soft" }, "–"), "wide num"],
    [r.cpu !== undefined && r.use ? `${Math.round(r.cpu)} %` : h("span", { class: "soft" }, "–"), "wide num"],
    [r.requests || r.bytes_in || r.bytes_out ? h("div", { class: "two" }, h("span", {}, whole(r.requests, "request")), h("span", { class: "soft" }, `${size(r.bytes_out)} out, ${size(r.bytes_in)} in`)) : h("span", { class: "soft" }, r.network === "none" ? "no network" : "no requests"), "wide"],
    [n ? h("div", { class: "denied" }, h("div", { class: "two start" }, chip(`${n} denied`, "bad"), h("span", { class: "soft wide", title: shown(names2.join(", ")) }, names2.join(", "))), h("span", { class: "wide" }, runAllow(r))) : h("span", { class: "soft wide" }, "nothing")]];
}

const RUN_PICKS = { all: () => true, live: (r) => r.live, denied: (r) => deniedCount(r) > 0, failed: (r) => !r.live && (r.outcome !== "exited" || r.rc > 0) };

function matches(r, names, text) {
  const box = names.get(r.run);
  return !text || [r.run, r.agent, command(r), r.workspace, box?.name, box?.id, ...deniedNames(r)].some((t) => t && String(t).toLowerCase().includes(text));
}

// CPU, from one look to another; two in a moment say nothing.
function takeFigures(all, fresh) {
  const now = performance.now();
  for (const r of fresh) {
    const old = all.get(r.run), from = old?.from;
    r.cpu = old?.cpu;
    r.from = from || (r.use ? { at: now, ms: r.use.cpu_ms } : undefined);
    if (from && r.use && now - from.at >= SOON_MS / 2) {
      r.cpu = Math.max(0, 100 * (r.use.cpu_ms - from.ms) / (now - from.at));
      r.from = { at: now, ms: r.use.cpu_ms };
    }
    r.key = r.run;
    all.set(r.run, r);
  }
}

async function runsPage(signal) {
  if (session.tenant) return sandboxesPage(signal);
  const here = page, all = new Map();
  let names = new Map(), only = "all", asked = false;
  const list = new List("runs", "Runs", [["Command and folder"], ["State"], ["Began", "wide"], ["Memory", "wide num"], ["CPU", "wide num"], ["Network", "wide"], ["Denied"]], (r) => runRow(r, names));
  const find = h("input", { type: "search", "aria-label": "Find by agent, command, folder, id or host", placeholder: "Find by agent, command, folder or host", autocomplete: "off" });
  const pick = Object.keys(RUN_PICKS).map((w) => h("button", { type: "button", class: "row", "aria-pressed": String(w === only), on: { click: () => { only = w; pick.forEach((b) => b.setAttribute("aria-pressed", String(b.name === w))); draw(); } }, name: w }, w));
  const empty = h("div", { class: "panel empty", hidden: true }, h("p", {}, "Nothing has run yet."), h("p", { class: "small" }, "Try ", h("code", {}, "brig run -- ls"), " or ", h("code", {}, "brig wrap claude"), "."));
  const none = h("p", { class: "panel empty", hidden: true }, "No run is like that.");
  const draw = paced(() => {
    const text = find.value.trim().toLowerCase(), rows = [...all.values()].sort((a, b) => Number(b.live) - Number(a.live) || (a.began < b.began ? 1 : -1));
    for (const b of pick) b.textContent = `${b.name} ${rows.filter(RUN_PICKS[b.name]).length}`;
    list.set(rows.filter((r) => RUN_PICKS[only](r) && matches(r, names, text)));
    empty.hidden = !asked || all.size > 0;
    none.hidden = !all.size || list.rows.length > 0;
    list.element.hidden = !list.rows.length;
  }, DRAW_MS);
  const who = paced(async () => { try { names = new Map([...(await allBoxes()).values()].map((b) => [b.run, { id: b.id, name: b.name }])); draw(); } catch (e) { if (!signal.aborted) console.warn(e.message); } }, 5000);
  const load = async () => {
    const fresh = (await call(`/v1/runs?${query({ limit: RUNS_MAX })}`)).runs, here = new Set(fresh.map((r) => r.run));
    for (const [id, r] of all) if (!here.has(id) && !r.live) all.delete(id);
    takeFigures(all, fresh);
    asked = true;
    if (fresh.some((r) => !command(r) && !names.has(r.run))) who();
    draw();
  };
  const reload = paced(async () => { try { await load(); } catch (e) { if (!signal.aborted) console.warn(e.message); } }, RUNS_MS);
  find.addEventListener("input", draw);
  show("Runs", title("Runs", h("div", { class: "chips", role: "group", "aria-label": "Which" }, pick), h("span", { class: "grow" }), find), empty, none, list.element);
  await load();
  follow(() => `/v1/audit/follow?${query({ type: ["sandbox.create", "sandbox.exec", "egress.deny", "access.deny"], limit: 1 })}`, () => reload(), signal).catch((e) => main.append(failure(e)));
  here.onLive = (fresh) => {
    const now = new Set(fresh.map((r) => r.run));
    if ([...all.values()].some((r) => r.live && !now.has(r.run))) reload();
    takeFigures(all, fresh);
    draw();
  };
  lookNow();
}

// ---- curves ----

function svg(tag, props, ...children) {
  const e = document.createElementNS(SVG, tag);
  for (const [k, v] of Object.entries(props)) e.setAttribute(k, String(v));
  e.append(...children);
  return e;
}

// One figure over time: points [ms since the beginning, value]; `steps`: it stays until the next.
function curve(label, points, ms, format, steps) {
  const most = Math.max(...points.map(([, v]) => v), 0), top = most || 1, w = 600, tall = 96;
  const x = (t) => (ms ? Math.min(w, Math.max(0, w * t / ms)) : 0).toFixed(1), y = (v) => (tall - 2 - (tall - 8) * v / top).toFixed(1);
  let line = "";
  for (const [i, [t, v]] of points.entries()) line += i ? `${steps ? `H${x(t)}V` : `L${x(t)} `}${y(v)}` : `M${x(t)} ${y(v)}`;
  if (steps && points.length) line += `H${w}`;
  const last = points.at(-1);
  const end = steps ? w : last ? x(last[0]) : 0;
  return h("figure", { class: "curve" }, h("figcaption", {}, h("span", { class: "soft" }, label), h("strong", {}, last ? format(last[1]) : "–"), h("span", { class: "soft small" }, most ? `most ${format(most)}` : "")),
    svg("svg", { viewBox: `0 0 ${w} ${tall}`, preserveAspectRatio: "none", role: "img", "aria-label": `${label} over time, most ${format(most)}` },
      ...(points.length ? [svg("path", { class: "fill", d: `${line}L${end} ${tall}L${x(points[0][0])} ${tall}Z` }), svg("path", { class: "line", d: line })] : []), svg("line", { class: "base", x1: 0, x2: w, y1: tall - 1, y2: tall - 1 })));
}

// Requests and denials as ticks on the same axis.
function ticks(records, began, ms) {
  const w = 600, lane = { "egress.allow": [4, "good"], "egress.deny": [24, "bad"], "access.deny": [24, "bad"], "leak.block": [24, "bad"], "limit.hit": [24, "warn"] };
  const kindOf = (r) => lane[r.type === "log.summary" ? r.of : r.type];
  const marks = records.filter(kindOf).map((r) => {
    const x = (ms ? Math.min(w - 1, Math.max(1, w * (Date.parse(r.time) - began) / ms)) : 1).toFixed(1), [at, kind] = kindOf(r);
    return svg("line", { class: `tick ${kind}`, x1: x, x2: x, y1: at, y2: at + 14 });
  });
  return h("figure", { class: "curve whole" }, h("figcaption", {}, h("span", { class: "soft" }, "Requests above, denials and limits below")),
    svg("svg", { viewBox: `0 0 ${w} 42`, preserveAspectRatio: "none", class: "lanes", role: "img", "aria-label": `${whole(marks.length, "event")} over time` }, svg("line", { class: "base", x1: 0, x2: w, y1: 21, y2: 21 }), ...marks));
}

function cpuOf(samples) {
  return samples.slice(1).map((s, i) => [s.t, s.t > samples[i].t ? Math.max(0, 100 * (s.cpu - samples[i].cpu) / (s.t - samples[i].t)) : 0]);
}

const dollars = (micro) => `${(micro / 1e6).toFixed(micro < 1e4 ? 6 : 2)} USD`;

// What models were used for, a line for each host and model.
function byModel(records) {
  const all = new Map();
  for (const r of records.filter((x) => x.type === "egress.usage")) {
    const key = `${r.model || "a model"} at ${r.host || "several hosts"}`, x = all.get(key) || { key, calls: 0, in: 0, out: 0, cost: 0, guessed: 0 };
    all.set(key, { key, calls: x.calls + (r.count || 1), in: x.in + (r.tokens_in || 0), out: x.out + (r.tokens_out || 0), cost: x.cost + (r.cost_micro_usd || 0), guessed: x.guessed + (r.known ? r.count || 1 : 0) });
  }
  return [...all.values()].sort((a, b) => b.in + b.out - a.in - a.out);
}

function models(records) {
  const rows = byModel(records).slice(0, BARS_MAX);
  return rows.length ? h("ul", { class: "plain" }, rows.map((x) => h("li", { class: "line" }, h("strong", { class: "grow" }, x.key),
    h("span", { class: "small soft" }, [whole(x.calls, "call"), `${x.in} tokens in, ${x.out} out`, x.cost && dollars(x.cost), x.guessed && `${x.guessed} estimated`].filter(Boolean).join(" · "))))) : null;
}

function bytesOf(records, began, key) {
  let all = 0;
  return records.filter((r) => r.type === "egress.done" && r[key]).map((r) => [Date.parse(r.time) - began, all += r[key]]);
}

function overTime(run, records, samples) {
  const began = Date.parse(run.began), ms = Math.max(1, (run.live ? Date.now() : Date.parse(run.ended || records.at(-1)?.time)) - began);
  const parts = [];
  if (samples.length) parts.push(curve("Memory", samples.map((s) => [s.t, s.memory]), ms, size), curve("CPU", cpuOf(samples), ms, (v) => `${Math.round(v)} %`));
  for (const [label, key] of [["Bytes out", "bytes_out"], ["Bytes in", "bytes_in"]]) {
    const points = bytesOf(records, began, key);
    if (points.length) parts.push(curve(label, [[0, 0], ...points], ms, size, true));
  }
  if (records.some((r) => /^(egress\.|access\.|limit\.|leak\.)/.test(r.type))) parts.push(ticks(records, began, ms));
  const unseen = samples.length && samples[0].t > ms / 10 ? "Memory and CPU are seen while the dashboard is open." : "";
  if (!parts.length) return h("p", { class: "soft" }, run.live ? "Nothing has been measured yet." : "Memory and CPU are seen while the dashboard is open; it sent and received nothing.");
  return h("div", {}, h("div", { class: "curves" }, parts), h("div", { class: "axis soft small" }, h("span", {}, "0"), h("span", {}, unseen), h("span", {}, span(ms))));
}

// ---- bars ----

function byHost(records) {
  const hosts = new Map();
  const of = (r) => { const k = target(r); if (!hosts.has(k)) hosts.set(k, { host: k, allowed: 0, denied: 0, out: 0, in: 0, refusal: null }); return hosts.get(k); };
  for (const r of records) {
    if (r.type === "log.summary" && r.target && /^egress\.(allow|deny)$/.test(r.of)) of({ target: r.target.split(" ").at(-1) })[r.of === "egress.allow" ? "allowed" : "denied"] += r.count || 0;
    if (!r.host) continue;
    if (r.type === "egress.allow") of(r).allowed++;
    if (r.type === "egress.done") { const x = of(r); x.out += r.bytes_out || 0; x.in += r.bytes_in || 0; }
    if (r.type === "egress.deny" || r.type === "leak.block" || r.type === "credential.misuse") { const x = of(r); x.denied++; if (r.type === "egress.deny") x.refusal = r; }
  }
  return [...hosts.values()].sort((a, b) => b.allowed + b.denied - a.allowed - a.denied);
}

function bar(kind, n, most) {
  const e = h("span", { class: `bar ${kind}` });
  e.style.width = `${n ? Math.max(1, 100 * n / most) : 0}%`;
  return e;
}

function bars(records) {
  const hosts = byHost(records), most = Math.max(1, ...hosts.map((x) => x.allowed + x.denied));
  if (!hosts.length) return h("p", { class: "soft" }, "It has asked for no host.");
  const row = (x) => h("li", {}, h("div", { class: "line" }, h("strong", { class: "grow" }, x.host), h("span", { class: "small soft" }, [x.allowed && `${x.allowed} allowed`, x.denied && `${x.denied} denied`, x.out + x.in && `${size(x.out)} out, ${size(x.in)} in`].filter(Boolean).join(" · ")), x.refusal ? allowButton(x.refusal) : null),
    h("div", { class: "track", "aria-hidden": "true" }, bar("good", x.allowed, most), bar("bad", x.denied, most)));
  return h("div", {}, h("ul", { class: "plain bars" }, hosts.slice(0, BARS_MAX).map(row)), hosts.length > BARS_MAX ? h("p", { class: "soft small" }, `and ${whole(hosts.length - BARS_MAX, "host")} more`) : null);
}

// ---- one run ----

const sameStory = (a, b) => a.type === b.type && ["host", "port", "method", "path", "reason", "rule", "kind", "target", "status"].every((k) => a[k] === b[k]) && !/^sandbox\./.test(a.type);

// Commands of a sandbox stand between its own records; what is alike in a row is told once.
function moments(run, records, inner) {
  const all = records.map((r) => ({ r }));
  for (const x of inner) {
    all.push({ r: { ...x, type: "sandbox.create", time: x.began, workspace: undefined, network: undefined }, inner: true });
    if (x.ended) all.push({ r: { ...x, type: "sandbox.exec", time: x.ended }, inner: true });
  }
  all.sort((a, b) => (a.r.time < b.r.time ? -1 : a.r.time > b.r.time ? 1 : 0));
  const told = [];
  for (const m of all) {
    const last = told.at(-1);
    if (last && !m.inner && !last.inner && sameStory(last.r, m.r)) last.n++;
    else told.push({ ...m, n: 1 });
  }
  return told;
}

function timeline(run, records, inner) {
  const began = Date.parse(run.began);
  return h("ol", { class: "timeline" }, moments(run, records, inner).map(({ r, n, inner: within }) => h("li", { class: `${storyOf(r)[0]}${within ? " inner" : ""}` }, h("time", { class: "soft mono", datetime: shown(r.time), title: shown(r.time) }, `+${((Date.parse(r.time) - began) / 1000).toFixed(3)} s`),
    storyLine(within && r.type === "sandbox.create" ? { ...r, agent: undefined } : r), n > 1 ? chip(`× ${n}`) : null, allowButton(r))), run.live ? h("li", { class: "good" }, h("span", { class: "soft mono" }, "now"), h("span", { class: "grow" }, h("span", { class: "word" }, "running"))) : null);
}

function runFacts(r, box) {
  const used = r.use ? `${size(r.use.memory)} now` : null;
  return h("dl", { class: "grid" }, fact("State", h("span", { class: "chips" }, runChip(r), deniedCount(r) ? chip(`${deniedCount(r)} denied`, "bad") : null, r.limits ? chip(whole(r.limits, "limit"), "warn") : null)), fact("Agent", r.agent || "none named"), fact("Folder", h("span", { class: "mono" }, r.workspace || "private"), "broad"),
    fact("Command", h("span", {}, h("span", { class: "mono" }, command(r) || "a sandbox that takes commands"), r.argv0 && !r.argv ? h("span", { class: "soft small" }, " (audit.argv keeps arguments)") : null), "broad"), fact("Began", clock(r.began, true)), fact("Took", tookOf(r) === undefined ? "–" : span(tookOf(r))), fact("Backend", r.backend), fact("Network", r.network),
    fact("Memory", [used, r.memory ? `limit ${size(r.memory)}` : null].filter(Boolean).join(", ") || "–"), fact("Processes", r.use ? `${r.use.processes}, CPU ${span(r.use.cpu_ms)}` : r.live ? "not to be seen" : "–"), fact("Requests", r.requests || r.bytes_in ? `${r.requests}, ${size(r.bytes_out)} out, ${size(r.bytes_in)} in` : "none"),
    fact("Output", r.stdout_bytes !== undefined ? `${size(r.stdout_bytes)}, errors ${size(r.stderr_bytes)}` : "–"), box ? fact("Sandbox", h("a", { href: `#/sandbox/${box.id}` }, box.name || box.id)) : null, fact("Time limit", r.timeout_ms ? span(r.timeout_ms) : "none"), fact("Asked by", r.principal));
}

// What it has changed in its layer, and nobody has applied: names and patch are hostile text, and only ever text.
function changeRow(c) {
  return h("li", { class: "line" }, chip(c.change, c.change === "deleted" ? "warn" : ""), h("span", { class: "mono grow" }, c.path), c.conflict ? chip(`conflict: ${c.conflict}`, "bad") : null, c.by_name ? chip(`by name only: ${c.by_name}`, "warn") : c.look ? chip(c.look, "warn") : null);
}

function changesPanel(run) {
  const at = `/v1/runs/${run}/changes`, said = h("p", { class: "soft", role: "status" }, "Looking…"), list = h("ul", { class: "plain" }), text = h("pre", { class: "mono patch", hidden: true }), buttons = h("div", { class: "chips", hidden: true });
  const clear = (words) => { list.replaceChildren(); text.hidden = buttons.hidden = true; said.replaceChildren(shown(words)); };
  const act = async (verb, done) => {
    for (const b of buttons.children) b.disabled = true;
    try { const words = done(await post(`${at}/${verb}`, { run })); if (verb === "discard") clear(words); else await look(words); } catch (e) { said.replaceChildren(failure(e)); }
    for (const b of buttons.children) b.disabled = false;
  };
  const sure = (word, question, verb, done) => h("button", { type: "button", on: { click: () => { if (confirm(question)) act(verb, done); } } }, word);
  buttons.append(sure("Apply", "Put these changes into the folder? What comes by name only stays out.", "apply", (a) => `${whole(a.applied, "change")} applied${a.left.length ? `, ${a.left.length} left out` : ""}.`), sure("Discard", "Throw these changes away?", "discard", () => "Discarded."));
  const look = async (words) => {
    try {
      const a = await call(at);
      list.replaceChildren(...a.changes.slice(0, CHANGES_SHOWN).map(changeRow), ...(a.changes.length > CHANGES_SHOWN ? [h("li", { class: "soft" }, `and ${whole(a.changes.length - CHANGES_SHOWN, "change")} more`)] : []));
      text.replaceChildren(shown(a.text, true));
      text.hidden = !a.text;
      buttons.hidden = !a.changes.length;
      said.replaceChildren(shown([words, !a.changes.length && "Nothing is left to apply.", a.text_cut && "The patch is cut here: brig diff shows all of it."].filter(Boolean).join(" ")));
    } catch (e) { clear(words || e.message); }
  };
  look();
  return h("div", {}, said, buttons, list, text);
}

async function runPage(signal, id) {
  const here = page;
  const top = h("section", { class: "panel", "aria-label": "Facts" }), over = h("div", {}), hosts = h("div", {}), story = h("div", {}), cage = h("div", {}), note = h("p", { class: "soft small" });
  let run = null, records = [], inner = [], box = null;
  const one = async () => {
    run = (await call(`/v1/runs?${query({ run: id, limit: 1 })}`)).runs[0];
    if (!run) throw new Problem(404, { detail: "No such run is on the record.", hint: "brig audit runs" });
  };
  const all = async () => {
    [records, inner] = await Promise.all([call(`/v1/audit?${query({ run: id, limit: STORY_MAX })}`).then((a) => a.records), call(`/v1/runs?${query({ within: id, limit: RUNS_MAX })}`).then((a) => a.runs)]);
  };
  const draw = paced(() => {
    top.replaceChildren(runFacts(run, box));
    over.replaceChildren(overTime(run, records, watched.get(run.run)?.v || []));
    hosts.replaceChildren(...[bars(records), models(records)].filter(Boolean));
    story.replaceChildren(timeline(run, records, inner));
    note.textContent = records.length >= STORY_MAX ? `The newest ${STORY_MAX} records; all of them: brig audit list -n 0 --run ${id.slice(0, 12)}` : "";
    cage.replaceChildren(run.layers ? h("div", { class: "chips" }, run.layers.split(" ").map((t) => chip(t.replace("=", ": ").replaceAll("_", " "), /=none$/.test(t) && !t.startsWith("network") ? "warn" : "good"))) : h("p", { class: "soft" }, "Told at its end."));
  }, DRAW_MS);
  const reload = paced(async () => { try { await one(); await all(); draw(); } catch (e) { if (!signal.aborted) console.warn(e.message); } }, RELOAD_MS);
  await one();
  id = run.run;
  const changed = run.mode === "overlay" && !run.live && command(run) && !session.tenant ? h("section", { class: "panel", "aria-labelledby": "changed" }, h("h2", { id: "changed" }, "What it changed"), changesPanel(id)) : h("div", { hidden: true });
  const panel = (name, text, ...more) => h("section", { class: "panel", "aria-labelledby": name }, h("h2", { id: name }, text), ...more);
  show(run.agent || brief(run) || "Run", title(run.agent || brief(run) || "Run", h("span", { class: "soft mono" }, id.slice(0, 12)), h("span", { class: "grow" }), h("a", { href: "#/" }, "All runs")), top, changed, panel("over", "Over time", over),
    h("div", { class: "split" }, h("div", {}, panel("story", "What happened", story, note)), h("div", {}, panel("hosts", "Requests and denials by host", hosts), panel("cage", "What contains it", cage))));
  draw();
  await all();
  draw();
  allBoxes().then((boxes) => { box = [...boxes.values()].find((b) => b.run === id) || null; draw(); }).catch(() => undefined);
  if (!run.live) return;
  follow(() => `/v1/audit/follow?${query({ run: id, limit: 1 })}`, () => reload(), signal).catch(() => undefined);
  here.onLive = (fresh) => {
    const now = fresh.find((r) => r.run === id);
    if (now) { run = now; draw(); } else if (run.live) reload();
  };
  lookNow();
}
