# SPDX-License-Identifier: Apache-2.0
"""The rows about reading the record: questions to a large one, its index, its proof."""

import json
import shutil

from harness import Candidate, timed_row

QUERY_MS = 50
VERIFY_MS = 3000


def _filled(bench, who, count):
    """A record of so many, made by the log itself; its folder and a run in its middle."""
    program = bench.build.resolve() / "bench-many"
    if not program.exists():
        bench.note(f"questions to the record are left out: no {program.name} in the build folder")
        return None, None
    shutil.copy2(program, bench.tools / program.name)
    place = who.folder("record")
    place.chmod(0o700)
    done = bench.run_as(who, [bench.tools / program.name, place, count], timeout=600)
    if done.returncode != 0:
        bench.note(f"questions to the record are left out: {done.stderr.strip()[-200:]}")
        return None, None
    return place, done.stdout.strip()


def _below(bench, name, figures, limit):
    row = timed_row(name, figures)
    row.target, row.ok = f"p50 < {limit} ms", figures["p50"] / 1e6 < limit
    row.rate, row.unit = figures["p50"] / 1e6, "ms"
    bench.add(row)


def queries(bench):
    """Questions by run, time and type; building the index; verifying."""
    who, count = bench.person, bench.count(1000000, 100000)
    if not bench.brig:
        return
    place, run = _filled(bench, who, count)
    if not place:
        return
    bench.head(f"questions to {count:,} records")

    def ask(name, *words):
        return Candidate(name, [bench.brig, "audit", *words, "--dir", str(place)])

    _index(bench, who, place, count, ask("brig audit, building the index", "list", "-n", "1"))
    when = json.loads(bench.run_as(who, ask("", "list", "--run", run, "--json").argv).stdout)[0]["time"]
    figures = bench.measure(
        who,
        [
            ask("by run id", "list", "--run", run, "--json"),
            ask("by time", "list", "--since", when, "--until", when, "--limit", "0", "--json"),
            ask("by type, newest 50", "security-events", "--event-type", "egress.*", "--json"),
            ask("by outcome, newest 50", "list", "--outcome", "timeout", "--json"),
        ],
        bench.count(200, 20),
    )
    for name, f in figures.items():
        _below(bench, name, f, QUERY_MS)
    slow = bench.measure(
        who,
        [ask("by run id, without the index", "list", "--run", run, "--no-index", "--json"), ask("verify", "verify")],
        bench.count(5, 2),
        warmup=1,
    )
    if "by run id, without the index" in slow:
        bench.add_timed("by run id, without the index", slow["by run id, without the index"], figures.get("by run id"), "by run id")
    if "verify" in slow:
        _below(bench, "verify", slow["verify"], VERIFY_MS)
    shutil.rmtree(place)


def _index(bench, who, place, count, candidate):
    forget = who.base / "forget"
    forget.write_text(f"#!/bin/sh\nrm -f '{place}'/audit.db*\n")
    forget.chmod(0o755)
    figures = bench.measure(who, [candidate], bench.count(3, 2), warmup=0, prepare=forget, timeout=120)
    for name, f in figures.items():
        row = timed_row(name, f)
        row.rate, row.unit = count / (f["p50"] / 1e9), "records/s"
        bench.add(row)
