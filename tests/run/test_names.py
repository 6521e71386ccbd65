#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What is said of names that a command without a network asks for; on native and bwrap. Hostile ones are in tests/escape."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import brig, main, start_brig, test  # noqa: E402


@test(backends=("native", "bwrap"))
def a_name_that_is_asked_for_without_a_network_is_told_at_once_and_counted():
    for name, option in (("x.example", "--allow HOST opens one for a host that you know"), ("pypi.org", "--allow @pypi opens one for")):
        p = start_brig("exec", f"getent hosts {name}; cat", stdin=subprocess.PIPE)  # which waits for us
        said = p.stderr.readline().decode()
        assert said.startswith(f"brig: note: it asks for '{name}' and has no network: {option}"), said
        p.communicate(b"")
    done = brig("exec", "getent hosts x.example; getent hosts y.example; getent hosts x.example")
    assert done.status == 2 and done.errors.count("it asks for") == 1 and "3 questions for names were refused (x.example, y.example)" in done.errors, done
    done = brig("exec", "--timeout", "3s", "getent hosts x.example; sleep 60")
    assert done.status == 124 and "1 question for names was refused (x.example)" in done.errors, done
    r = brig("exec", "--json", "getent hosts x.example; getent hosts localhost; getent hosts x_y.example").json
    assert r["unresolved"]["names"] == ["x.example"] and r["unresolved"]["questions"] == 1, r["unresolved"]
    assert r["denials"] == [{"kind": "network", "target": "x.example", "reason": "this sandbox has no network"}], r["denials"]
    # The record says the same, and nothing where nothing was asked for.
    recorded = brig("audit", "list", "--run", r["id"], "--type", "sandbox.exec", "--json").json
    assert [(e["questions"], e["names"]) for e in recorded] == [(1, "x.example")], recorded
    assert "no network  questions for names that were refused: 1 (x.example)\n" in brig("audit", "show", r["id"]).text
    r = brig("run", "--json", "--", "true").json
    assert r["unresolved"] == {"questions": 0, "names": []} and "no network" not in brig("audit", "show", r["id"]).text
    assert brig("exec", "--quiet", "getent hosts x.example").errors == ""


if __name__ == "__main__":
    sys.exit(main())
