#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""bench/run --guard: what became slower is told, one bad try is not, and a best is kept."""

import json
import pathlib
import platform
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import TOP, main, scratch, test  # noqa: E402

sys.dont_write_bytecode = True  # nothing in the source tree
sys.path.append(str(TOP / "bench"))
import guard  # noqa: E402


def _bench(*ratios):
    """A bench whose tries give these ratios of one row, and a row of times that is as much worse."""
    bench, left = types.SimpleNamespace(rows=[], notes=[]), list(ratios)
    bench.note = bench.notes.append

    def run():
        ratio = left.pop(0)
        for name, value, better in (("rate", ratio, "more"), ("time", 1 / ratio, "less"), ("other", ratio, "")):
            bench.rows.append(types.SimpleNamespace(group="the door; in words", name=name, ratio=value, better=better))

    return bench, run, left


def _floor(ratio):
    guard.FLOOR = scratch() / "floor.json"
    guard.FLOOR.unlink(missing_ok=True)
    bench, run, _ = _bench(ratio)
    run()
    assert guard.keep_best(bench) == ["the door: rate", "the door: time"]


@test(as_user="user")
def two_slow_tries_of_three_fail_and_one_does_not():
    _floor(0.8)
    for ratios, worse, untried in (((0.8, 0.8, 0), [], 1), ((0.71, 0.71, 0), [], 1), ((0.5, 0.8, 0.8), [], 0), ((0.5, 0.5, 0), ["rate", "time"], 1),
                                   ((0.5, 0.8, 0.6), ["rate", "time"], 0)):
        bench, run, left = _bench(*ratios)
        assert sorted(guard.guard(bench, run)) == [f"the door: {w}" for w in worse], ratios
        assert len(left) == untried and not bench.notes, (ratios, left, bench.notes)


@test(as_user="user")
def a_best_is_kept_and_never_made_worse():
    _floor(0.8)
    for ratio, new in ((0.7, 0), (0.9, 2)):
        bench, run, _ = _bench(ratio)
        run()
        assert len(guard.keep_best(bench)) == new
    assert json.loads(guard.FLOOR.read_text()) == {platform.machine(): {"the door: rate": 0.9, "the door: time": 1.111}}


@test(as_user="user")
def what_was_not_measured_and_a_machine_without_figures_are_told():
    _floor(0.8)
    bench, _, _ = _bench()
    assert not guard.guard(bench, lambda: None) and len(bench.notes) == 2, bench.notes
    guard.FLOOR.write_text("{}")
    bench, run, _ = _bench(0.1, 0.1)
    assert not guard.guard(bench, run) and "has nothing of" in bench.notes[0]


if __name__ == "__main__":
    sys.exit(main())
