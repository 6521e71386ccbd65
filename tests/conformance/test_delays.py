# SPDX-License-Identifier: Apache-2.0
"""Many runs in one workspace, half of them stopped for a moment at a system call of strace's choosing: what lies between
two looks at the same thing shows. BRIG_KILLS says how many times ten (make soak: 200)."""

import json
import os
import pathlib
import random
import subprocess
import sys
from concurrent import futures

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "lib")]

from faults import seeded
from harness import brig_argv, brig_environment, main, test, tree, workspace

RUNS = 10 * int(os.environ.get("BRIG_KILLS", "6"))
AT_ONCE = 4  # few enough that the last one ends while the next is planned
CALLS = ("clone3", "fcntl", "flock", "mkdirat", "move_mount", "newfstatat", "open_tree", "openat", "openat2", "renameat2", "unlinkat")


def delayed():
    """strace's words for one system call, the first few times it is made by any process, that takes longer."""
    where, how_long = random.choice(("enter", "exit")), random.randrange(1_000, 60_000)
    return ["strace", "-f", "-o", "/dev/null", "-e", f"inject={random.choice(CALLS)}:delay_{where}={how_long}:when={random.randint(1, 8)}"]


def one(backend):
    """Which run, and what it said if that was more than nothing."""
    last = brig_argv("run", "--backend", backend, "--json", "--", "sleep", random.choice(("0", f"0.0{random.randrange(40)}")))
    at = next(i for i, word in enumerate(last) if word.endswith("/brig"))
    argv = last[:at] + (delayed() if random.random() < 0.5 else []) + last[at:]
    done = subprocess.run(argv, env=brig_environment(), cwd=workspace(), stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    answer = json.loads(done.stdout)
    return (argv, answer) if done.returncode or answer["denials"] else None


def do_not_disturb_each_other(backend):
    seeded()
    with futures.ThreadPoolExecutor(AT_ONCE) as pool:
        odd = [x for x in pool.map(one, [backend] * RUNS) if x]
    assert not odd, odd
    assert not tree(workspace()), tree(workspace())


@test(limit=60 + RUNS)
def native_runs_do_not_disturb_each_other():
    do_not_disturb_each_other("native")


@test(limit=60 + RUNS)
def bwrap_runs_do_not_disturb_each_other():
    do_not_disturb_each_other("bwrap")


if __name__ == "__main__":
    sys.exit(main())
