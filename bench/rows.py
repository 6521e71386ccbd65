# SPDX-License-Identifier: Apache-2.0
"""The rows of the table, one function a group; what cannot be had is left out."""

import json
import os
import pathlib
import shutil
import subprocess
import time

import cluster
import egress
import kube
import leaks
import live
import packed
import peers
import readers
import remote
import trees
from harness import Candidate, Row, make_files, timed_row

ROOMY = ("--memory", "8g", "--pids", "1000", "--timeout", "600s")
FLOOD = 2 << 30
TRUE = peers.TRUE
ROLE = """apiVersion: initrunner/v1
kind: Agent
metadata:
  name: bench
spec:
  role: You are a code execution assistant.
  security:
    sandbox:
      backend: auto
      network: none
      memory_limit: "256m"
      cpu_limit: 1.0
      env_passthrough: [LANG, TZ]
      docker:
        image: "python:3.12-slim"
"""


def _brig(bench, name, *words, n=None):
    return Candidate(name, bench.brig_run(*words), n) if bench.brig else None


def _same(bench, who, ws=None, name="bwrap, same mounts", command=(TRUE,)):
    """bwrap with brig's mounts, on its own workspace: it leaves stubs for missing names."""
    plan = peers.same_mounts(bench, who, ws or who.folder("peer"), ("cover",) if ws else ())
    return Candidate(name, peers.bwrap(plan, *command), opens=plan.opens)


def start(bench):
    """Wall time of `true`, bare and in each sandbox."""
    docker, codex = peers.Docker(bench), peers.codex(bench)
    for who in bench.people:
        bench.head(f"start of `true` as {_title(who)}")
        figures = bench.measure(
            who,
            [
                Candidate("true", [TRUE]),
                Candidate("static true", [bench.tools / "calls", 0]),
                Candidate("floor", [bench.tools / "floor", TRUE]),
                _brig(bench, "brig run", "--", "true"),
                _same(bench, who),
                Candidate("bwrap, whole root", peers.bwrap_plain(TRUE)),
            ],
            bench.count(500, 60),
            warmup=10,
        )
        brig, same = figures.get("brig run"), figures.get("bwrap, same mounts")
        for name, f in figures.items():
            if f is brig:
                bench.add_timed(name, f, same, "bwrap, same mounts", 0.8, 0.6)
            else:
                bench.add_timed(name, f, brig, "brig run")
    # A round of their own: what an engine does after a container would blur the rows above.
    up = docker.start()
    for who in bench.people:
        bench.head(f"start of `true` as {_title(who)}, beside the slow peers")
        _slow_peers(bench, who, docker if up else None, codex)
    docker.stop()


def _slow_peers(bench, who, docker, codex):
    few = bench.count(30, 5)
    figures = bench.measure(
        who,
        [
            _brig(bench, "brig run", "--", "true"),
            Candidate("codex sandbox", [codex, "sandbox", "--", "true"]) if codex else None,
            Candidate("docker run", docker.run("true"), few) if docker else None,
        ],
        bench.count(100, 10),
        warmup=2,
    )
    for name, f in figures.items():
        peer = figures.get("brig run")
        bench.add_timed(name, f, None if f is peer else peer, "brig run")


def bwrap(bench):
    """The bwrap backend beside bubblewrap alone with the same mounts: what limits, filter and report cost."""
    for who in bench.people:
        bench.head(f"start of `true` on the bwrap backend, as {_title(who)}")
        figures = bench.measure(
            who,
            [_brig(bench, "brig run --backend bwrap", "--backend", "bwrap", "--", "true"), _same(bench, who)],
            bench.count(300, 40),
            warmup=5,
        )
        same = figures.get("bwrap, same mounts")
        for name, f in figures.items():
            bench.add_timed(name, f, None if f is same else same, "bwrap, same mounts", *(() if f is same else (1.2,)))


def docker(bench):
    """The docker backend against the docker command, for the same container on the same engine."""
    engine, who = peers.Docker(bench), bench.person
    if not bench.brig or not engine.start():
        return
    ws = who.folder("container")
    ours = ["/usr/bin/env", f"DOCKER_HOST=unix://{engine.socket}", bench.brig, "run", "--backend", "docker", "--image", peers.IMAGE,
            "--workdir", str(ws)]
    bench.head(f"a container that runs `true`, as {_title(who)}")
    figures = bench.measure(
        who,
        [
            Candidate("docker run", engine.run_same(who, ws, "true")),
            Candidate("brig run --backend docker", [*ours, "--policy", "readonly", "--", "true"]),
            Candidate("the same, protected names too", [*ours, "--", "true"]),
        ],
        bench.count(40, 10),
        warmup=2,
    )
    engine.stop()
    peer = figures.get("docker run")
    for name, f in figures.items():
        if f is peer:
            bench.add_timed(name, f)
        elif name.startswith("brig"):
            bench.add_timed(name, f, peer, "docker run", 0.8)
        else:
            bench.add_timed(name, f, peer, "docker run")


def size(bench):
    """Start-up against the size of the workspace."""
    who, many = bench.person, bench.count(300000, 30000)
    few_ws, many_ws = who.folder("few"), who.folder("many")
    with who.files():
        make_files(few_ws, 10)
        make_files(many_ws, many)
    bench.head(f"start-up against workspace size, as {_title(who)}")
    words = [("brig run, 10 files", few_ws), (f"brig run, {many:,} files", many_ws)]
    cases = [_brig(bench, name, "--workdir", str(ws), "--", "true") for name, ws in words]
    cases += [
        _same(bench, who, few_ws, "bwrap, 10 files"),
        _same(bench, who, many_ws, f"bwrap, {many:,} files"),
    ]
    figures = bench.measure(who, cases, bench.count(300, 60), warmup=10)
    for tool, limit in (("brig run", 1.1), ("bwrap", None)):
        few, lots = figures.get(f"{tool}, 10 files"), figures.get(f"{tool}, {many:,} files")
        if few and lots:
            bench.add_timed(f"{tool}, 10 files", few)
            bench.add_timed(f"{tool}, {many:,} files", lots, few, "10 files", limit)
    shutil.rmtree(many_ws)


def config(bench):
    """What loading and resolving a role costs: `config check` of a role against one that does nothing."""
    who = bench.person
    if not bench.brig:
        return
    role = who.folder("role") / "role.yaml"
    with who.files():
        role.write_text(ROLE)
    bench.head(f"loading and resolving a role, as {_title(who)}")
    cases = [Candidate("brig version", [bench.brig, "version"]), Candidate("brig config check", [bench.brig, "config", "check", str(role)])]
    figures = bench.measure(who, cases, bench.count(500, 100), warmup=10)
    none = figures["brig version"]
    bench.add_timed("brig version", none)
    bench.add_timed("brig config check", figures["brig config check"], none, "brig version")
    bench.note(f"target: under 1 ms more than brig version; {len(ROLE)} bytes of role")


def telemetry(bench):
    """What metrics and a trace add to a run; the collector is one that refuses."""
    if not bench.brig:
        return
    for who in bench.people:
        bench.head(f"`true` with metrics and traces as {_title(who)}")
        file = f"metrics.textfile={who.base}/state/brig.prom"
        trace = ["OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_TIMEOUT=100"]
        plain = bench.brig_run("--", "true")
        figures = bench.measure(
            who,
            [
                Candidate("brig run", ["/usr/bin/env", "X=1", *plain]),
                Candidate("with metrics", ["/usr/bin/env", "X=1", *bench.brig_run("--set", file, "--", "true")]),
                Candidate("with a trace", ["/usr/bin/env", *trace, *plain]),
            ],
            bench.count(300, 40),
            warmup=10,
        )
        base = figures.get("brig run")
        for name, f in figures.items():
            limit = {"with metrics": 1.1, "with a trace": 1.4}.get(name) if base else None
            bench.add_timed(name, f, base if f is not base else None, "brig run", limit)


def steady(bench):
    """Work inside against the same work outside."""
    bench.head(f"steady state, inside against outside, as {_title(bench.person)}")
    _calls(bench, bench.person)
    _git(bench, bench.person)
    _build(bench, bench.person)


def _pair(bench, what, outside, inside, limit, n, **more):
    # Without brig the outside command is still measured.
    names = f"{what}, outside", f"{what}, inside"
    cases = [Candidate(names[0], outside), Candidate(names[1], inside) if inside else None]
    figures = bench.measure(bench.person, cases, n, **more)
    out, inn = figures.get(names[0]), figures.get(names[1])
    if out:
        bench.add_timed(names[0], out)
    if inn:
        bench.add_timed(names[1], inn, out, "outside", limit)


def _inside(bench, workdir, *command, options=()):
    return (
        bench.brig_run(*ROOMY, "--workdir", str(workdir), *options, "--", *command)
        if bench.brig
        else None
    )


def _calls(bench, who):
    tool = who.folder("calls") / "calls"
    shutil.copy2(bench.tools / "calls", tool)
    million = "1000000"
    inside = _inside(bench, tool.parent, "/workspace/calls", million)
    _pair(
        bench,
        "1,000,000 calls",
        [tool, million],
        inside,
        1.25,
        bench.count(30, 5),
        warmup=1,
        cwd=tool.parent,
    )


def _git(bench, who):
    many = bench.count(50000, 5000)
    tree = who.folder("tree")
    with who.files():
        make_files(tree, many)
    git = ["/usr/bin/git", "-c", "user.name=bench", "-c", "user.email=bench@example.org"]
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["commit", "-q", "-m", "bench: a tree"],
        ["status"],
    ):
        done = bench.run_as(who, [*git, *words], cwd=tree, timeout=300)
        if done.returncode != 0:
            bench.note(f"git status is left out: git {words[0]}: {done.stderr.strip()[-200:]}")
            return
    # Ten times in one sandbox: the start has rows of its own.
    ten = ["/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do /usr/bin/git status >/dev/null || exit 1; done"]
    inside = _inside(bench, tree, *ten)
    _pair(
        bench,
        f"10 x git status, {many:,} files",
        ten,
        inside,
        1.05,
        bench.count(10, 2),
        warmup=1,
        cwd=tree,
    )
    shutil.rmtree(tree)


def _build(bench, who):
    """Build a copy of this repository, at the same path inside: build folders hold paths."""
    source = pathlib.Path(__file__).resolve().parent.parent
    if (
        not (source / "meson.build").exists()
        or not shutil.which("meson")
        or not shutil.which("ninja")
    ):
        bench.note("building brig is left out: no meson.build, meson or ninja")
        return
    tree = who.folder("source")
    shutil.copytree(source, tree, dirs_exist_ok=True, symlinks=True, ignore=_not_source)
    for folder, _, names in os.walk(tree):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            os.chown(path, who.uid, who.gid, follow_symlinks=False)
    target = tree / "out"
    done = bench.run_as(
        who, ["env", "CC=cc", "meson", "setup", target, tree], cwd=tree, timeout=300
    )
    if done.returncode != 0:
        bench.note(
            f"building brig is left out: meson setup: {(done.stdout + done.stderr).strip()[-300:]}"
        )
        return
    clean = who.base / "clean"
    clean.write_text(f"#!/bin/sh\nexec ninja -C '{target}' -t clean >/dev/null\n")
    clean.chmod(0o755)
    ninja = ["ninja", "-C", str(target)]
    inside = _same_path(bench, who, tree, ninja)
    _pair(
        bench,
        "building brig",
        [shutil.which("ninja"), *ninja[1:]],
        inside,
        1.03,
        bench.count(5, 1),
        warmup=1,
        timeout=900,
        prepare=clean,
        cwd=tree,
    )


def _not_source(folder, names):
    skip = {".git", "__pycache__", "node_modules"}
    return [
        n for n in names if n in skip or os.path.isdir(os.path.join(folder, n, "meson-private"))
    ]


def _same_path(bench, who, tree, command):
    """The first way in which brig shows the tree, writable, at its own path."""
    if not bench.brig:
        return None
    empty = who.folder("empty")
    for options in (["--write", str(tree)], ["--mount", f"{tree}:{tree}:rw"]):
        if (
            bench.run_as(
                who, _inside(bench, empty, "test", "-w", str(tree), options=options)
            ).returncode
            == 0
        ):
            return _inside(bench, empty, *command, options=options)
    bench.note("building brig inside is left out: --write and --mount do not show the tree")
    return None


def throughput(bench):
    """Many runs, one after another and 64 at a time, and what they leave behind."""
    n = bench.count(1000, 200)
    for who in bench.people:
        cases = [
            Candidate("floor", [bench.tools / "floor", TRUE]),
            _brig(bench, "brig run", "--", "true"),
            _same(bench, who),
        ]
        for jobs, how in ((1, "in a row"), (64, "64 at a time")):
            bench.head(f"{n:,} runs {how} as {_title(who)}")
            bench.run_as(who, cases[1].argv if cases[1] else [TRUE])  # creates the state folders
            before, record = leaks.Snapshot(who, who.ws), leaks.record_bytes(who)
            figures = bench.measure(who, cases, n, warmup=0, jobs=jobs, timeout=300)
            for name, f in figures.items():
                bench.add(_rate_row(name, f, figures.get("floor")))
            _leak_row(bench, before, f"left behind, {how} ({who.name})", n)
            grown = leaks.record_bytes(who) - record
            if grown:
                bench.note(f"the record grew by {grown / n:.0f} bytes a run, {how} ({who.name})")


def record(bench):
    """What the record costs a run, and what it can take."""
    tool = bench.build.resolve() / "bench-record"
    if not bench.brig or not tool.exists():
        bench.note("the record is left out: no brig or no bench-record in the build folder")
        return
    ready = bench.tools / "bench-record"
    shutil.copy2(tool, ready)
    for who in bench.people:
        bench.head(f"a run with and without its record, as {_title(who)}")
        cases = [_brig(bench, "brig run --no-audit", "--no-audit", "--", "true"), _brig(bench, "brig run", "--", "true")]
        figures = bench.measure(who, cases, bench.count(1000, 100), warmup=10)
        without, recorded = figures.get("brig run --no-audit"), figures.get("brig run")
        if without and recorded:
            bench.add_timed("brig run --no-audit", without)
            bench.add_timed("brig run", recorded, without, "--no-audit")
            more = recorded.get("over_first", recorded["p50"] - without["p50"]) / 1e6
            bench.add(Row("recording adds", recorded["n"], rate=more, unit="ms", target="< 0.1", ok=more < 0.1))
    _record_rates(bench, bench.person, ready)


def _record_rates(bench, who, tool):
    bench.head(f"the record, as {_title(who)}")

    def ask(*words):
        done = bench.run_as(who, [tool, *words], timeout=300)
        if done.returncode != 0:
            bench.note(f"bench-record {words[0]}: {done.stderr.strip()[-200:]}")
        return [float(v) for v in done.stdout.split()] if done.returncode == 0 else None

    def judge(name, figures, unit, least=None, most=None, n=1):
        if figures:
            value = figures[-1]
            bench.add(Row(name, n, rate=value, unit=unit, target=f">= {least:,}" if least else f"< {most}",
                          ok=value >= least if least else value < most, raw={"figures": figures}))

    seconds = bench.count(5, 1)
    judge("acknowledged, one writer", ask("rate", who.base / "rate", seconds, "none"), "/s", least=100000)
    judge("durable, one writer", ask("rate", who.base / "durable", seconds, "full"), "/s", least=20000)
    rounds = bench.count(50, 5)
    waits = ask("oneshot", who.base / "oneshot", 64, rounds)
    judge("64 writers at once, p99 wait", [v / 1000 for v in waits] if waits else None, "ms", most=5, n=64 * rounds)
    many = bench.count(1000000, 100000)
    if ask("fill", who.base / "million", many) is not None:
        checked = ask("verify", who.base / "million")
        judge(f"verify {many:,} records", checked[:1] if checked else None, "s", most=3)
    shutil.rmtree(who.base / "million", ignore_errors=True)


def scan(bench):
    """The deciding half of the egress door, alone on one core; in CPU time."""
    tool = bench.build.resolve() / "bench-scan"
    if not tool.exists():
        bench.note("the leak scan is left out: no bench-scan in the build folder")
        return
    bench.head("leak scan, scrubber and one decision (10 secrets, 16 KiB chunks)")
    ready = bench.tools / "bench-scan"
    shutil.copy2(tool, ready)
    done = bench.run_as(bench.person, [ready], timeout=300)
    if done.returncode != 0:
        bench.note(f"bench-scan: {done.stderr.strip()[-200:]}")
        return
    figures = [(name, float(figure), unit) for name, figure, unit in (line.split() for line in done.stdout.splitlines())]
    sum_of = next((value for name, value, _ in figures if name == "sum"), None)
    least = {"scan-json": 1.4, "scrub-json": 3}
    for name, value, unit in figures:
        row = Row(name, 1, rate=value, unit=unit)
        if name in least:
            row.target, row.ok = f">= {least[name]}", value >= least[name]
        if unit == "GB/s" and name != "sum" and sum_of:
            row.ratio, row.peer, row.better = value / sum_of, "sum", "more"
        bench.add(row)


def _rate_row(name, f, floor):
    row = timed_row(name, f)
    row.rate, row.unit = f["n"] / (f["elapsed"] / 1e9), "/s"
    if floor and f is not floor:
        row.ratio = row.rate / (floor["n"] / (floor["elapsed"] / 1e9))
        row.peer = "floor"
    if name == "brig run" and row.ratio is not None:
        row.target, row.ok = ">= 0.5", row.ratio >= 0.5
    return row


def _leak_row(bench, before, name, n):
    ours, others = leaks.leaked(before)
    count = sum(map(len, ours.values()))
    for kind, names in ours.items():
        bench.note(f"{name}: {len(names)} {kind}: {', '.join(names)[:300]}")
    for kind, names in others.items():
        bench.note(
            f"{name}: not counted, no sign of brig: {len(names)} {kind}: {', '.join(names)[:200]}"
        )
    row = Row(name, n, rate=count, unit="leaks", raw={"ours": ours, "others": others})
    if bench.brig:
        row.target, row.ok = "0", count == 0
    bench.add(row)


def memory(bench):
    """Resident memory of the supervisor while the command floods its output."""
    who, amount = bench.person, bench.count(FLOOD, FLOOD // 8)
    bench.head(f"supervisor memory while {amount >> 20} MiB pass, as {_title(who)}")
    head = ["head", "-c", str(amount), "/dev/zero"]
    if bench.brig:
        for label, options in (("brig run", ()), ("brig run --json", ("--json",))):
            _memory_row(bench, who, label, bench.brig_run(*options, "--", *head), 4096)
    same = _same(bench, who, command=("/usr/bin/head", *head[1:]))
    _memory_row(bench, who, same.name, same.argv, None, same.opens)


def _memory_row(bench, who, label, argv, limit, opens=None):
    numbers = sorted(opens or {})
    # The shell opens what bwrap reads, then becomes the command: the process keeps its id.
    redirects = " ".join(f"{fd}<'{opens[fd]}'" for fd in numbers)
    shell = ["bash", "-c", f'exec "$@" {redirects}', "sh"] if numbers else []
    with subprocess.Popen(
        [*who.prefix, *shell, *map(str, argv)],
        env=who.env,
        cwd=who.ws,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        drain = subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)
        try:
            peak, samples = _watch(process)
        finally:
            process.kill()
            drain.wait()
    if process.returncode != 0 or not samples:
        bench.note(
            f"memory of {label}: it ended with status {process.returncode} after {samples} samples"
        )
        return
    row = Row(label, samples, rate=peak / 1024, unit="MiB", raw={"vm_hwm_kib": peak})
    if limit:
        row.target, row.ok = f"< {limit >> 10} MiB", peak < limit
    bench.add(row)


def _watch(process, limit=300):
    """Highest VmHWM until it ends, in KiB; programs that only lead up to it are skipped."""
    peak = samples = 0
    end = time.monotonic() + limit
    while process.poll() is None and time.monotonic() < end:
        try:
            lines = pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
        except OSError:
            break
        status = dict(line.split(":", 1) for line in lines)
        if status["Name"].strip() in ("brig", "bwrap") and "VmHWM" in status:
            peak = max(peak, int(status["VmHWM"].split()[0]))
            samples += 1
        time.sleep(0.01)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        pass
    return peak, samples


def output(bench):
    """Bytes a second from the command to the caller."""
    who, amount = bench.person, bench.count(FLOOD, FLOOD // 8)
    bench.head(f"{amount >> 20} MiB of output, as {_title(who)}")
    head = ["/usr/bin/head", "-c", str(amount), "/dev/zero"]
    pipe = [
        "/bin/sh",
        "-c",
        '"$@" | cat >/dev/null',
        "sh",
    ]  # the words after "sh" are the command, unparsed
    same = _same(bench, who, command=head)
    cases = [
        Candidate("head | cat", [*pipe, *head]),
        _brig(bench, "brig run > /dev/null", "--", "head", *head[1:]),
        Candidate("brig run | cat", [*pipe, *bench.brig_run("--", "head", *head[1:])])
        if bench.brig
        else None,
        Candidate("bwrap > /dev/null", same.argv, opens=same.opens),
        Candidate("bwrap | cat", [*pipe, *same.argv], opens=same.opens),
    ]
    figures = bench.measure(who, cases, bench.count(7, 3), warmup=1, timeout=120)
    base = figures.get("head | cat")
    for name, f in figures.items():
        row = timed_row(name, f)
        row.rate, row.unit = amount / 1e6 / (f["p50"] / 1e9), "MB/s"
        if base and f is not base:
            row.ratio, row.peer = f["p50"] / base["p50"], "head | cat"
        bench.add(row)


def _title(who):
    return "root" if who.uid == 0 else f"an ordinary user ({who.uid})"


GROUPS = {f.__name__: f for f in (start, bwrap, docker, size, config, telemetry, steady, throughput, memory, output, record, scan, packed.packed, egress.egress, remote.ssh, kube.kubernetes, live.daemon)}
GROUPS["queries"] = readers.queries
GROUPS["slurm"] = cluster.slurm
GROUPS["trees"] = trees.trees
BY_NAME = ("slurm", "trees")  # those that nobody gets who does not name them


def write_json(bench, facts, path):
    pathlib.Path(path).write_text(json.dumps(bench.as_json(facts), indent=1) + "\n")
    if "SUDO_UID" in os.environ and os.geteuid() == 0:
        os.chown(path, int(os.environ["SUDO_UID"]), int(os.environ.get("SUDO_GID", "-1")))
