#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""bench/scale: the simulation loses nothing, repeats itself, and behaves as its page says."""

import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import TOP, main, test  # noqa: E402


def scale(*args, status=0):
    done = subprocess.run([sys.executable, "-B", TOP / "bench/scale", "--json", *args], capture_output=True, text=True, check=False)
    assert done.returncode == status, (args, done.stderr)
    return json.loads(done.stdout) if not status else done.stderr


@test(as_user="user")
def every_run_ends_and_the_same_seed_says_the_same():
    few = ("--hosts", "20", "--runs", "4000", "--load", "0.85")
    for more in ((), ("--mtbf", "600", "--warm", "4"), ("--images", "5"), ("--mtbf", "60", "--repair", "5", "--notice", "20")):
        once = scale(*few, *more)
        assert once == scale(*few, *more) and once != scale(*few, *more, "--seed", "7"), more
        assert set(once) == {"random", "two", "known"} and all(t["ended"] == t["runs"] == 4000 for t in once.values()), once
    assert once["two"]["hosts that died"] > 20 and once["two"]["runs lost with one"] > 0, once
    calm = scale(*few)
    assert calm["random"]["wait_p99_ms"] > calm["two"]["wait_p99_ms"] >= calm["known"]["wait_p99_ms"], calm
    assert calm["two"]["start_p50_ms"] > scale(*few, "--warm", "8", "--place", "two")["two"]["start_p50_ms"]
    pulls = scale(*few, "--images", "30")
    assert pulls["known"]["pulls"] < pulls["random"]["pulls"], pulls


@test(as_user="user")
def nonsense_is_refused():
    for args in (("--hosts", "0"), ("--load", "1.5"), ("--load", "0"), ("--runs", "-3"), ("--place", "best")):
        assert "error: " in scale(*args, status=2), args


if __name__ == "__main__":
    sys.exit(main())
