# SPDX-License-Identifier: Apache-2.0
"""The egress door beside HAProxy and mitmproxy: same upstream (nginx), same client (load.c), same minutes.

The door is `brig proxy`: the worker, keeper and monitor that a sandbox has, reached by CONNECT. HAProxy is a TLS front with a TLS server
behind it, mitmproxy a reverse proxy. All have one thread, keys on P-256, TLS 1.3, and keep connections alive on both sides."""

import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import socket
import statistics
import subprocess
import time

from harness import Candidate, Row, timed_row

NAME, VALUE = "api.test", "zq8Gk2vTn41Lw0bYd7Rm"
H2_NAME = "streams.many.test"  # its host speaks HTTP/2 as well
LONG = VALUE + "pX3sJ6uHc9eQa5rNf1oK"  # most tokens have as many characters, and are searched for in longer steps
WITH_LONG = "brig, value of 40"
KIB, MIB = 1024, 1 << 20


def _free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _records(size):
    """What an API answers with: rows of JSON, no two alike."""
    chance, text, made = random.Random(1), [], 0
    words = "the quick brown fox jumps over a lazy dog and comes back with one more task to run".split()
    while made < size:
        row = {"id": chance.randrange(1 << 32), "name": " ".join(chance.choices(words, k=3)), "etag": f"{chance.getrandbits(64):016x}",
               "url": f"https://api.example.org/v1/items/{chance.randrange(100000)}", "text": " ".join(chance.choices(words, k=20)),
               "score": round(chance.random(), 6), "tags": chance.choices(words, k=2), "ok": chance.random() < 0.5}
        text.append(json.dumps(row) + "\n")
        made += len(text[-1])
    return "".join(text).encode()[:size]


class Place:
    """One folder with a private root, nginx as everybody's upstream, and the proxies that could be started."""

    def __init__(self, bench, who):
        self.bench, self.who, self.folder = bench, who, who.folder("door")
        self.running, self.fronts = contextlib.ExitStack(), {}

    def __enter__(self):
        with contextlib.ExitStack() as undo:
            undo.callback(self.running.close)
            self._certificates()
            self._nginx()
            undo.pop_all()
        return self

    def __exit__(self, *_):
        self.running.close()
        shutil.rmtree(self.folder)  # the guard may want another

    def _certificates(self):
        d, ec = self.folder, ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        _openssl("req", "-x509", *ec, "-keyout", d / "ca.key", "-out", d / "ca.pem", "-days", 3, "-subj", "/CN=a root for the bench")
        (d / "ext").write_text("subjectAltName=DNS:api.test,DNS:*.many.test,IP:127.0.0.1")
        _openssl("req", *ec, "-keyout", d / "leaf.key", "-out", d / "leaf.csr", "-subj", "/CN=api.test")
        _openssl("x509", "-req", "-in", d / "leaf.csr", "-CA", d / "ca.pem", "-CAkey", d / "ca.key", "-CAcreateserial", "-out", d / "leaf.pem",
                 "-days", 3, "-extfile", d / "ext")
        (d / "both.pem").write_text((d / "leaf.pem").read_text() + (d / "leaf.key").read_text())
        for path in (d, *d.iterdir()):
            os.chown(path, self.who.uid, self.who.gid)

    def start(self, name, argv, port, env=None, **more):
        """A server that is stopped at the end; False, with a note, when it does not come up."""
        log = open(self.folder / f"{name}.log", "wb")
        try:
            process = subprocess.Popen([*self.who.prefix, *map(str, argv)], env={**self.who.env, **(env or {})},
                                       stdin=subprocess.DEVNULL, stderr=log, **{"stdout": log, "cwd": self.folder, **more})
        except OSError as e:
            self.bench.note(f"{name} is left out: {e}")
            return None
        self.running.callback(_stop, process)
        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return process
            if process.poll() is not None:
                break
            time.sleep(0.05)
        said = (self.folder / f"{name}.log").read_text(errors="replace").strip().splitlines()
        self.bench.note(f"{name} is left out: {(said or ['it does not answer'])[-1][:200]}")
        return None

    def _nginx(self):
        self.port, self.h2_port, d = _free_port(), _free_port(), self.folder
        www = d / "www"
        www.mkdir()
        (www / "small").write_bytes(_records(KIB))
        (www / "large").write_bytes(_records(MIB))
        with contextlib.suppress(OSError):
            for path in (www, *www.iterdir()):
                os.chown(path, self.who.uid, self.who.gid)
        (d / "nginx.conf").write_text(f"""
daemon off; master_process off; error_log stderr crit; pid {d}/nginx.pid; worker_rlimit_nofile 20000;
events {{ worker_connections 16000; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; sendfile on; tcp_nopush off; default_type text/plain;
  client_body_temp_path {d}/t1; proxy_temp_path {d}/t2; fastcgi_temp_path {d}/t3; uwsgi_temp_path {d}/t4; scgi_temp_path {d}/t5;
  server {{
    listen 127.0.0.1:{self.port} ssl backlog=8192; listen 127.0.0.1:{self.h2_port} ssl http2 backlog=8192; root {www};
    ssl_certificate {d}/leaf.pem; ssl_certificate_key {d}/leaf.key; ssl_protocols TLSv1.2 TLSv1.3; ssl_session_tickets off;
  }}
}}
""")
        program = shutil.which("nginx", path=self.who.env["PATH"])
        if not program or not self.start("nginx", [program, "-c", d / "nginx.conf", "-e", "stderr"], self.port):
            raise OSError("the upstream, nginx, could not be started")
        self.fronts["nginx, direct"] = Front(self.port, d / "ca.pem")

    def haproxy(self):
        port, d = _free_port(), self.folder
        self.h2_front = _free_port()
        (d / "haproxy.cfg").write_text(f"""
global
  nbthread 1
  maxconn 8000
  ca-base {d}
  ssl-default-bind-options ssl-min-ver TLSv1.2
defaults
  mode http
  option http-keep-alive
  http-reuse always
  timeout connect 10s
  timeout client 600s
  timeout server 600s
listen door
  bind 127.0.0.1:{port} ssl crt {d}/both.pem alpn h2,http/1.1 backlog 8192
  server up 127.0.0.1:{self.port} ssl verify required ca-file {d}/ca.pem sni str({NAME}) alpn http/1.1 pool-max-conn -1
listen streams
  bind 127.0.0.1:{self.h2_front} ssl crt {d}/both.pem alpn h2 backlog 8192
  server up 127.0.0.1:{self.h2_port} ssl verify required ca-file {d}/ca.pem sni str({NAME}) alpn h2 pool-max-conn -1
""")
        process = self.start("haproxy", [shutil.which("haproxy", path=self.who.env["PATH"]) or "haproxy", "-db", "-f", d / "haproxy.cfg"], port)
        if process:
            self.fronts["haproxy"] = Front(port, d / "ca.pem", [process.pid])

    def mitmproxy(self):
        port, d = _free_port(), self.folder
        conf = d / "mitm"
        conf.mkdir()
        # Its leaves have the key of their authority: this makes them P-256 as everybody's.
        (conf / "mitmproxy-ca.pem").write_text((d / "ca.key").read_text() + (d / "ca.pem").read_text())
        for path in (conf, *conf.iterdir()):
            os.chown(path, self.who.uid, self.who.gid)
        process = self.start("mitmproxy", ["mitmdump", "-q", "--listen-host", "127.0.0.1", "-p", port, "--mode", f"reverse:https://127.0.0.1:{self.port}",
                                           "--set", f"confdir={conf}", "--set", f"ssl_verify_upstream_trusted_ca={d}/ca.pem", "--set", "http2=false",
                                           "--set", "keep_host_header=true", "--set", "stream_large_bodies=64k", "--set", "flow_detail=0"], port)
        if process:
            self.fronts["mitmproxy"] = Front(port, d / "ca.pem", [process.pid])

    def config(self, credentials=True, **more):
        """What the door is told: names pinned to nginx, a credential, and limits that do not limit."""
        names = [f"h{i}.many.test" for i in range(400)]
        pin, pin_h2 = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.h2_port}"
        text = {"brig": 1, "network": "proxy", "egress": {
            "allow": [NAME, "*.many.test"], "resolve": {**{n: pin for n in [NAME, *names]}, H2_NAME: pin_h2}, "roots": [str(self.folder / "ca.pem")],
            "rate": {"domain": 10000000, "total": 10000000, "connections": 20000, "names": 20000}}, **more}
        if credentials:
            text["credentials"] = {"TOKEN": {"host": NAME}}
        path = self.folder / "door.yaml"
        path.write_text(json.dumps(text))
        return path

    def door(self, name="brig", value=VALUE):
        if not self.bench.brig:
            return
        port, root = _free_port(), self.folder / f"door{len(value)}.pem"
        argv = [self.bench.brig, "proxy", "--quiet", "--config", self.config(), "--port", port, root]
        process = self.start(f"door{len(value)}", argv, port, {"TOKEN": value}, cwd=self.who.ws)  # not beside the file that it is told by
        if process:
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
            worker = int(children.read_text().split()[0])
            keeper = pathlib.Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
            self.fronts[name] = Front(port, root, [worker, process.pid, *map(int, keeper)], proxy=True)

    def ask(self, front, *words, timeout=60):
        """One run of the client against a front."""
        done = self.bench.run_as(self.who, self.client(front, *words), timeout=timeout)
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise OSError(f"bench-load: {done.stderr.strip()[-200:]}") from None

    def client(self, front, *words):
        argv = [self.bench.tools / "bench-load", "-r", front.root]
        argv += ["-x"] if front.proxy else []
        if "-n" not in words:
            argv += ["-n", NAME]
        # The placeholder would do; {NAME} is the same to the door and known beforehand.
        if front.proxy and "-n" not in words:
            argv += ["-H", "Authorization: Bearer {TOKEN}"]
        elif "-n" not in words:
            argv += ["-H", f"Authorization: Bearer {VALUE}"]
        return [*argv, *map(str, words), f"127.0.0.1:{front.port}"]


class Front:
    """Where the client knocks, and the processes behind it."""

    def __init__(self, port, root, pids=(), proxy=False):
        self.port, self.root, self.pids, self.proxy = port, root, list(pids), proxy

    def cpu(self):
        """Seconds used so far, of all its processes."""
        total = 0
        for pid in self.pids:
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += int(words[11]) + int(words[12])
        return total / os.sysconf("SC_CLK_TCK")


def _stop(process):
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _rounds(place, rounds, *words, fronts=None):
    """Each front in turn, several times; the round in the middle is its figure."""
    taken = {}
    for _ in range(rounds):
        for name, front in place.fronts.items():
            if fronts and name not in fronts:
                continue
            before = front.cpu()
            f = place.ask(front, *words)
            if f["failed"] or not f["n"]:
                place.bench.note(f"{name}: {f['failed']} requests failed: {f['why']}")
            f["cpu"] = (front.cpu() - before) / max(f["all"], 1)
            taken.setdefault(name, []).append(f)
    return {name: sorted(v, key=lambda f: f["n"] / f["elapsed"])[len(v) // 2] for name, v in taken.items()}


def _rate(f):
    return f["n"] / (f["elapsed"] / 1e9)


def _rate_rows(bench, figures, unit, scale, targets):
    for name, f in figures.items():
        row = timed_row(name, f)
        row.rate, row.unit = _rate(f) * scale, unit
        bench.add(row)
    for name, peer, least, aim in targets:
        ours = figures.get(name)
        if ours and figures.get(peer, {}).get("n"):  # on a busy machine a peer may answer nothing
            ratio = _rate(ours) / _rate(figures[peer])
            bench.add(Row(f"{name} against {peer}", ours["n"], ratio=ratio, peer=peer, target=f">= {least}" + (f" (aim {aim})" if aim else ""),
                          ok=ratio >= least))
        # Rates vary by a quarter from run to run, this by a tenth: the guard watches it.
        if ours and ours["cpu"] and figures.get(peer, {}).get("cpu"):
            bench.add(Row(f"{name}, CPU against {peer}", ours["n"], ratio=ours["cpu"] / figures[peer]["cpu"], peer=peer, better="less"))
    busy = {n: f["cpu"] * 1e6 for n, f in figures.items() if f["cpu"]}
    if busy:
        bench.note("CPU a request, all processes: " + ", ".join(f"{n} {v:.0f} us" for n, v in busy.items()) + f" ({bench.group})")


def egress(bench):
    """HTTPS through the door, HAProxy and mitmproxy; latency, memory, start."""
    tool = bench.build.resolve() / "bench-load"
    if not tool.exists():
        bench.note("egress is left out: no bench-load in the build folder")
        return
    shutil.copy2(tool, bench.tools / "bench-load")
    with Place(bench, bench.person) as place:
        place.haproxy()
        place.mitmproxy()
        place.door()
        place.door(WITH_LONG, LONG)
        _throughput(bench, place)
        _streams(bench, place)
        if "brig" in place.fronts:
            _latency(bench, place)
            _memory(bench, place)
            _start(bench, place)


def _throughput(bench, place):
    rounds, seconds = bench.count(3, 1), bench.count(3, 1)
    bench.head("HTTPS, 1 KiB answers, 32 connections kept alive; the door scans and injects")
    short = [f for f in place.fronts if f != WITH_LONG]
    _rate_rows(bench, _rounds(place, rounds, "-c", 32, "-u", "/small", "-s", seconds, "-w", 1, fronts=short), "/s", 1,
               [("brig", "haproxy", 0.8, 0.9), ("brig", "mitmproxy", 15, None)])
    bench.head("HTTPS, 1 MiB answers, 8 connections kept alive; the door scans and scrubs")
    _rate_rows(bench, _rounds(place, rounds, "-c", 8, "-u", "/large", "-s", seconds, "-w", 1), "MB/s", MIB / 1e6,
               [(WITH_LONG, "haproxy", 0.75, 0.9), ("brig", "haproxy", 0.6, None)])


def _h2load(bench, place, argv, url):
    """Requests a second over connections that are kept, the middle of some rounds; None: it did not work.

    Of either proxy a connection may end after 10,000 streams, and h2load takes no other: it asks for fewer."""
    words, rates = ["-c", "4", "-m", "25", "-n", str(bench.count(36000, 8000))], []
    for _ in range(bench.count(3, 1)):
        done = bench.run_as(place.who, [*argv, "h2load", *words, url], timeout=120)
        found = re.search(r", ([0-9.]+) req/s,.*\n.* (\d+) succeeded, 0 failed, 0 errored", done.stdout)
        if not found or found[2] != words[-1]:
            bench.note(f"h2load: {(done.stdout + done.stderr)[-200:]}")
            return None
        rates.append(float(found[1]))
    return sorted(rates)[len(rates) // 2]


def _streams(bench, place):
    """The same client inside a sandbox and in front of HAProxy; the host behind speaks HTTP/1, or HTTP/2 as well."""
    if not shutil.which("h2load", path=place.who.env["PATH"]) or "haproxy" not in place.fronts:
        bench.note("HTTP/2 is left out: no h2load, or no haproxy")
        return
    within = ["env", f"TOKEN={VALUE}", bench.brig, "run", "--quiet", "--config", place.config(), "--"]
    kinds = (("HTTP/1", place.fronts["haproxy"].port, NAME, 0.7), ("HTTP/2", place.h2_front, H2_NAME, 0.6))
    for behind, port, name, least in kinds:
        bench.head(f"HTTP/2 to {behind}, TLS on both sides, 1 KiB answers: h2load, 4 connections of 25 streams")
        peer = _h2load(bench, place, [], f"https://127.0.0.1:{port}/small")
        ours = _h2load(bench, place, within, f"https://{name}/small")
        for front, rate in (("haproxy", peer), ("brig", ours)):
            if rate:
                bench.add(Row(front, 1, rate=rate, unit="/s"))
        if peer and ours:
            bench.add(Row("brig against haproxy", 1, ratio=ours / peer, peer="haproxy", target=f">= {least}", ok=ours >= least * peer))


def _added(bench, name, value, limit, n, unit="ms"):
    bench.add(Row(name, n, rate=value, unit=unit, target=f"< {limit}", ok=value < limit))


def _latency(bench, place):
    bench.head("HTTPS, 1 KiB, one connection: what the door adds")
    f = _rounds(place, bench.count(3, 1), "-c", 1, "-u", "/small", "-s", 1, "-w", 1, fronts=[f for f in place.fronts if f != WITH_LONG])
    for name, figures in f.items():
        bench.add(timed_row(name, figures))
    _added(bench, "brig adds", (f["brig"]["p50"] - f["nginx, direct"]["p50"]) / 1e6, 0.3, f["brig"]["n"])
    bench.head("a host not seen before: mint a leaf, both handshakes, one request")
    n = bench.count(400, 50)
    direct = place.ask(place.fronts["nginx, direct"], "-1", "-n", "h#.many.test", "-u", "/small", "-s", 20, "-q", n)
    ours = place.ask(place.fronts["brig"], "-1", "-n", "h#.many.test", "-u", "/small", "-s", 20, "-q", n)
    bench.add(timed_row("nginx, direct", direct))
    row = timed_row("brig", ours)
    row.rate, row.unit, row.target, row.ok = row.p50, "ms", "< 5", row.p50 < 5
    bench.add(row)


def _resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1])
    return 0


def _memory(bench, place):
    """Of the worker alone: it is the one that has connections."""
    front, n = place.fronts["brig"], bench.count(5000, 500)
    bench.head("connections held open by the door, one request each")
    if os.geteuid() != 0:
        bench.note("memory of the door is left out: only root may read what the door, which hides itself, uses")
        return
    before = _resident(front.pids[0])
    argv = place.client(front, "-i", "-c", n, "-u", "/small", "-s", 60)
    with subprocess.Popen([*place.who.prefix, *map(str, argv)], env=place.who.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        held = json.loads(client.stdout.readline() or "{}")
        time.sleep(0.5)
        each = (_resident(front.pids[0]) - before) / max(held.get("held", 0), 1)
        client.stdin.close()
        client.wait(30)
    bench.add(Row("held", 1, rate=held.get("held", 0), unit="", target=f">= {n}", ok=held.get("held", 0) >= n))
    _added(bench, "memory of one", each, 64, n, "KiB")


def _row(name, taken):
    v = sorted(taken)
    return Row(name, len(v), p50=v[len(v) // 2], p95=v[len(v) * 95 // 100], p99=v[len(v) * 99 // 100])


def _start(bench, place):
    who = place.who
    bench.head("a sandbox with the door: start of `true`, and its first request")
    config = ["--config", str(place.config(credentials=False))]
    figures = bench.measure(who, [Candidate(f"brig run --network {w}", bench.brig_run("--network", w, "--", "true")) for w in ("none", "proxy")],
                            bench.count(200, 30), warmup=5)
    none, proxy = (figures.get(f"brig run --network {w}") for w in ("none", "proxy"))
    if none and proxy:
        bench.add_timed("brig run --network none", none)
        bench.add_timed("brig run --network proxy", proxy, none, "--network none")
    shutil.copy2(bench.tools / "calls", who.ws / "calls")
    until = {w: [] for w in ("none", "proxy")}
    for _ in range(bench.count(200, 30)):
        for network, taken in until.items():
            begun = time.monotonic_ns()
            done = bench.run_as(who, bench.brig_run("--network", network, "--", "/workspace/calls", "clock"))
            if done.returncode == 0:
                taken.append((int(done.stdout) - begun) / 1e6)
    if all(until.values()):
        for network, taken in until.items():
            bench.add(_row(f"until exec, {network}", taken))
        _added(bench, "the door adds", statistics.median(until["proxy"]) - statistics.median(until["none"]), 5, len(until["proxy"]))
    shutil.copy2(bench.tools / "bench-load", who.ws / "bench-load")
    first = []
    for _ in range(bench.count(40, 8)):
        done = bench.run_as(who, bench.brig_run(*config, "--", "/workspace/bench-load", "-r", "/etc/ssl/certs/ca-certificates.crt", "-1", "-q", "1", "-n", NAME,
                                                "-u", "/small", f"{NAME}:443"))
        with contextlib.suppress(ValueError):
            f = json.loads(done.stdout)
            if f["n"] == 1 and not f["failed"]:
                first.append(f["p50"] / 1e6)
    if not first:
        bench.note(f"the first request is left out: {(done.stderr or done.stdout).strip()[-200:]}")
        return
    row = _row("first request", first)
    row.rate, row.unit, row.target, row.ok = row.p50, "ms", "< 25", row.p50 < 25
    bench.add(row)
