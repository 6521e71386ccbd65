# SPDX-License-Identifier: Apache-2.0
"""Long-lived sandboxes: commands in one that is there, files in and out, events, memory; beside docker exec, podman exec and cp."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import time
import urllib.request

import peers
from harness import Candidate, Row, timed_row

MIB = 1 << 20
NONE = '{"network": "none"}'
PROXY = '{"network": "proxy", "egress": {"allow": ["example.org"]}}'


class Daemon:
    """One of the bench's own, of one user, and calls to it through `brig sandbox` and ask.c."""

    def __init__(self, bench, who):
        self.bench, self.who = bench, who
        self.folder = who.folder("daemon")
        self.folder.chmod(0o700)
        self.socket = self.folder / "s"
        self.process = None

    def __enter__(self):
        # For all that this user starts meanwhile: env in front of a command would be a program more.
        self.who.env["BRIG_HOST"] = f"unix://{self.socket}"
        null = subprocess.DEVNULL
        self.process = subprocess.Popen([*self.who.prefix, self.bench.brig, "daemon", "--quiet"], env=self.who.env, cwd="/",
                                        stdin=null, stdout=null, stderr=null)
        for _ in range(200):
            if self.socket.exists() or self.process.poll() is not None:
                break
            time.sleep(0.02)
        return self

    def __exit__(self, *_):
        done = self.run("daemon", "stop", "--all")
        if done.returncode != 0:
            self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(60)
        self.process.kill()
        self.process.wait()
        # A monitor writes its last word after the daemon has heard of it.
        end = time.monotonic() + 10
        while self._monitors() and time.monotonic() < end:
            time.sleep(0.05)
        del self.who.env["BRIG_HOST"]

    def _monitors(self):
        """Of the sandboxes in this user's state folder."""
        ids = {p.name for p in (self.who.base / "state/brig/daemon/sandboxes").glob("sb_*")}
        found = []
        for pid in _descendants(self):
            with contextlib.suppress(OSError):
                found += [pid] if ids & set(pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")) else []
        return found

    def run(self, *words, timeout=120):
        return self.bench.run_as(self.who, [self.bench.brig, *words], timeout=timeout)

    def create(self, *options):
        done = self.run("sandbox", "create", "--quiet", "--idle-ttl", "0", *options)
        if done.returncode != 0:
            raise OSError(f"brig sandbox create: {done.stderr.strip()[-200:]}")
        return done.stdout.strip()

    def delete(self, *ids):
        for box in ids:
            self.run("sandbox", "delete", box)

    def ask(self, what, *words, timeout=300):
        """Figures of ask.c, as spawn's; None: a note says why."""
        done = self.bench.run_as(self.who, [self.bench.tools / "ask", what, self.socket, *words], timeout=timeout)
        if done.returncode != 0:
            self.bench.note(f"ask {what} ({self.who.name}): {done.stderr.strip()[-200:]}")
            return None
        return json.loads(done.stdout)


def daemon(bench):
    """Sandboxes that stay: exec beside the engines' own, create, files, many at once, events, memory."""
    if not bench.brig:
        return
    engine, podman = peers.Docker(bench), peers.Podman(bench)
    box = engine.container() if engine.start() else None
    pod = podman.container()
    for who in bench.people:
        with Daemon(bench, who) as d:
            _exec(bench, d, engine if box else None, podman if pod and who.uid == 0 else None)
    engine.stop()
    podman.stop()
    with Daemon(bench, bench.person) as d:
        _create(bench, d)
        _burst(bench, d)
        _crowd(bench, d)
        _events(bench, d)
        _memory(bench, d)
        _files(bench, d)


def _judged(bench, name, f, limit, p99=None):
    """A row in milliseconds with a target of its own, and of its slowest hundredth."""
    if not f:
        return
    row = timed_row(name, f)
    row.target = f"< {limit} ms" + (f", p99 < {p99}" if p99 else "")
    row.ok = row.p50 < limit and (not p99 or row.p99 < p99)
    bench.add(row)
    if f["failed"]:
        bench.note(f"{name}: {f['failed']} failed")


def _exec(bench, d, docker, podman):
    bench.head(f"`true` in a sandbox that is there, as {'root' if d.who.uid == 0 else 'an ordinary user'}")
    box, n = d.create(), bench.count(1000, 100)
    d.ask("exec", 20, box)
    api = d.ask("exec", n, box)
    _judged(bench, "by the API", api, 1, 3)
    _tool(bench, d, n, api)
    few = bench.count(60, 8)
    figures = bench.measure(
        d.who,
        [
            Candidate("true", [peers.TRUE]),
            Candidate("brig sandbox exec", [bench.brig, "sandbox", "exec", box, "--", "true"]),
            Candidate("docker exec", docker.exec("true"), few) if docker else None,
            Candidate("podman exec", podman.exec("true"), few) if podman else None,
        ],
        bench.count(500, 50),
        warmup=5,
    )
    ours, peer = figures.get("brig sandbox exec"), figures.get("docker exec")
    for name, f in figures.items():
        if f is not ours:
            bench.add_timed(name, f, ours, "brig sandbox exec")
            continue
        _judged(bench, name, f, 2)
        if peer:
            bench.add_timed("the same", f, peer, "docker exec", 0.05)
    d.delete(box)


def _tool(bench, d, n, api):
    """The same by a tool of brig mcp --http: at most 2 ms more."""
    server = subprocess.Popen([*d.who.prefix, bench.brig, "mcp", "--http", "127.0.0.1:0"], env=d.who.env, cwd=d.who.folder("tool"), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = server.stdout.readline().split(":")[-1].partition("/")[0]
        token = server.stdout.readline().split()[-1]
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
        made = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "create_sandbox", "arguments": {"name": "bench"}, "_meta": meta}}
        ask = urllib.request.Request(f"http://127.0.0.1:{port}/mcp", json.dumps(made).encode(), {
            "Authorization": f"Bearer {token}", "Content-Type": "application/json", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call",
            "Mcp-Name": "create_sandbox"})
        urllib.request.urlopen(ask, timeout=60).close()
        done = bench.run_as(d.who, [bench.tools / "ask", "mcp", port, n, token], timeout=300)
        f = json.loads(done.stdout)
    except (OSError, ValueError, IndexError) as e:
        bench.note(f"brig mcp --http ({d.who.name}): {e}")
        return
    finally:
        server.terminate()
        server.wait()
    row = timed_row("by a tool, over HTTP", f)
    if api:
        row.target, row.ok = "API + 2 ms", f["p50"] < api["p50"] + 2000000 and not f["failed"]
    bench.add(row)


def _create(bench, d):
    bench.head("create to ready, by the API")
    n = bench.count(200, 30)
    _judged(bench, "network none", d.ask("create", n, NONE), 6)
    _judged(bench, "with the proxy", d.ask("create", n, PROXY), 10)


def _ticks(pids):
    """Of a CPU's time that processes have had, in seconds."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(words[11]) + int(words[12])
    return total / os.sysconf("SC_CLK_TCK")


def _crowd(bench, d):
    """A create costs what it costs among few, and those that idle cost nothing; CROWD names another number of them."""
    few, many = 10, int(os.environ.get("CROWD", "0")) or bench.count(300, 60)
    bench.head(f"create among {few} and among {many:,} sandboxes that idle")
    place, n, rows, ids = d.who.folder("crowd"), bench.count(100, 20), {}, []
    for there in (few, many):
        while len(ids) < there:
            ws = place / str(len(ids))
            with d.who.files():
                ws.mkdir()
            ids.append(d.create("--workdir", str(ws)))
        rows[there] = d.ask("create", n, NONE)
    if all(rows.values()):
        bench.add(timed_row(f"among {few}", rows[few]))
        row = timed_row(f"among {many:,}", rows[many])
        row.ratio, row.peer = rows[many]["p50"] / rows[few]["p50"], f"among {few}"
        row.target, row.ok = "<= 1.3", row.ratio <= 1.3 and not rows[many]["failed"]
        bench.add(row)
    pids = list(_descendants(d))
    before, seconds = _ticks(pids), 5
    time.sleep(seconds)
    share = (_ticks(pids) - before) / seconds
    bench.add(Row("all of them, idle", many, rate=share, unit="of a core", target="< 0.02", ok=share < 0.02))
    d.delete(*ids)
    shutil.rmtree(place)


def _burst(bench, d):
    n, boxes = bench.count(1000, 100), bench.count(50, 5)
    bench.head(f"{n:,} commands at once in {boxes} sandboxes")
    ids = [d.create() for _ in range(boxes)]
    f = d.ask("burst", n, *ids)
    if f:
        row = timed_row("by the API, errors", f)
        row.rate, row.unit, row.target, row.ok = f["failed"], "errors", "0", f["failed"] == 0
        bench.add(row)
    d.delete(*ids)


def _events(bench, d):
    readers, rate, seconds = bench.count(500, 50), 1000, bench.count(5, 2)
    bench.head(f"{readers} readers of {rate:,} events a second")
    box = d.create()
    f = d.ask("fan", readers, rate, seconds, box)
    if f:
        row = timed_row("from the call to a reader", f)
        row.target, row.ok = "p99 < 50 ms", row.p99 < 50 and f["failed"] == 0
        bench.add(row)
        if f["failed"]:
            bench.note(f"events: {f['failed']} did not come")
    d.delete(box)


def _pss(pid):
    with contextlib.suppress(OSError):
        found = re.search(r"^Pss:\s+(\d+) kB$", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
        return int(found[1]) * 1024 if found else 0
    return 0


def _descendants(top):
    """Of the bench: monitors have left the daemon's tree, but not this user's."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError):
            text = pathlib.Path(f"/proc/{pid}/status").read_text()
            if int(re.search(r"^Uid:\s+(\d+)", text, re.M)[1]) == top.who.uid and re.match(r"Name:\tbrig-", text):
                yield int(pid)


def _memory(bench, d):
    idle = bench.count(100, 10)
    bench.head(f"memory of {idle} idle sandboxes (PSS)")
    if os.geteuid() != 0:
        bench.note("memory of sandboxes is left out: only root may look at it")
        return
    before = set(_descendants(d))
    ids = [d.create() for _ in range(idle)]
    rest = [pid for pid in _descendants(d) if pid not in before]
    own, boxes = _pss(d.process.pid) / MIB, sum(map(_pss, rest)) / MIB
    bench.add(Row("the daemon", 1, rate=own, unit="MiB", target="< 32", ok=own < 32))
    bench.add(Row("a sandbox", idle, rate=boxes / idle, unit="MiB", target="< 1.2", ok=boxes / idle < 1.2))
    d.delete(*ids)


def _files(bench, d):
    size = bench.count(1024, 128)
    _transfers(bench, d, "disk", d.who.folder("files"), size)
    if os.geteuid() != 0:
        bench.note("files in memory are left out: only root may mount some")
        return
    memory = d.who.folder("memory")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={8 * size}m", "tmpfs", memory], check=True)
    try:
        os.chown(memory, d.who.uid, d.who.gid)
        _transfers(bench, d, "tmpfs", memory, size)
    finally:
        subprocess.run(["umount", "-l", memory], check=True)


def _transfers(bench, d, name, place, size):
    bench.head(f"{size} MiB in and out, files on {name}")
    ws, out = place / "ws", place / "out"
    with d.who.files():
        ws.mkdir()
        out.mkdir()
    source = out / "source"
    done = bench.run_as(d.who, ["dd", "if=/dev/urandom", f"of={source}", "bs=1M", f"count={size}"])
    if done.returncode != 0:
        raise OSError(f"dd: {done.stderr.strip()[-200:]}")
    shutil.copy2(source, ws / "there")
    os.chown(ws / "there", d.who.uid, d.who.gid)
    box = d.create("--workdir", str(ws))
    clear = place / "clear"
    clear.write_text(f"#!/bin/sh\nrm -f '{out}/cp' '{ws}/up' '{out}/down'\nsync -f '{place}'\n")
    clear.chmod(0o755)
    figures = bench.measure(
        d.who,
        [
            Candidate("cp", ["/usr/bin/cp", "--reflink=never", source, out / "cp"]),
            Candidate("upload", [bench.brig, "sandbox", "cp", str(source), f"{box}:up"]),
            Candidate("download", [bench.brig, "sandbox", "cp", "--limit", "8g", f"{box}:there", str(out / "down")]),
        ],
        bench.count(7, 3),
        warmup=1,
        prepare=clear,
        timeout=120,
    )
    cp = figures.get("cp")
    for what, f in figures.items():
        row = timed_row(what, f)
        row.rate, row.unit = size * MIB / 1e6 / (f["p50"] / 1e9), "MB/s"
        if cp and f is not cp:
            row.ratio, row.peer = f["p50"] / cp["p50"], "cp"
            row.target, row.ok = "<= 2", row.ratio <= 2
        bench.add(row)
    d.delete(box)
    shutil.rmtree(ws)
    shutil.rmtree(out)
