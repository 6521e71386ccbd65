# SPDX-License-Identifier: Apache-2.0
"""No worse than it was: the best ratio that each watched row has had, on each architecture.

Only ratios are kept, of brig to a peer of the same run: on another day the machine is another. A row is worse when
it is worse than its best by more than SLACK in TWICE of TRIES tries; one try alone may have met a busy neighbour."""

import json
import pathlib
import platform

FLOOR = pathlib.Path(__file__).resolve().parent / "floor.json"
SLACK, TRIES, TWICE = 0.15, 3, 2
WATCHED = ("scan", "egress")


def _name(row):
    return f"{row.group.split(';')[0]}: {row.name}"


def read():
    return json.loads(FLOOR.read_text()) if FLOOR.exists() else {}


def _watched(bench):
    return {_name(r): r for r in bench.rows if r.better and r.ratio}


def is_worse(ratio, best, better):
    return ratio < best * (1 - SLACK) if better == "more" else ratio > best * (1 + SLACK)


def _is_new_best(ratio, best, better):
    return best is None or (ratio > best if better == "more" else ratio < best)


def guard(bench, run):
    """Runs what is watched until it is clear; the names of the rows that are worse."""
    best, bad, known = read().get(platform.machine(), {}), {}, set()
    if not best:
        bench.note(f"{FLOOR.name} has nothing of {platform.machine()} yet: --best writes it")
    for count in range(1, TRIES + 1):
        bench.rows.clear()
        run()
        for name, row in _watched(bench).items():
            known.add(name)
            if name in best and is_worse(row.ratio, best[name], row.better):
                bad.setdefault(name, []).append(row.ratio)
        worst = max((len(v) for v in bad.values()), default=0)
        if worst >= TWICE or worst + TRIES - count < TWICE:
            break
    for name in sorted(best.keys() - known):
        bench.note(f"guard: '{name}' was not measured")
    return {name: (tries, best[name]) for name, tries in bad.items() if len(tries) >= TWICE}


def keep_best(bench):
    """Writes down what was better than ever; returns the names."""
    floor = read()
    best = floor.setdefault(platform.machine(), {})
    new = {n: round(r.ratio, 3) for n, r in _watched(bench).items() if _is_new_best(r.ratio, best.get(n), r.better)}
    best.update(new)
    FLOOR.write_text(json.dumps(floor, indent=1, sort_keys=True) + "\n")
    return sorted(new)
