# SPDX-License-Identifier: Apache-2.0
"""Many runs in one workspace, half of them stopped for a moment at a system call of strace's choosing: what lies between
two looks at the same thing shows. BRIG_KILLS says how many times ten (make soak: 200)."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
from concurrent import futures

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "lib")]

from faults import seeded
from harness import PATIENCE, brig_argv, brig_environment, descendants, main, test, tree, wait_until, workspace

RUNS = 10 * int(os.environ.get("BRIG_KILLS", "6"))
AT_ONCE = 4  # few enough that the last one ends while the next is planned
CALLS = ("clone3", "fcntl", "flock", "mkdirat", "move_mount", "newfstatat", "open_tree", "openat", "openat2", "renameat2", "unlinkat")


def inject(what):
    return ["strace", "-f", "-o", "/dev/null", "-e", f"inject={what}"]


def delayed():
    """strace's words for one system call, the first few times it is made by any process, that takes longer."""
    where, how_long = random.choice(("enter", "exit")), random.randrange(1_000, 60_000)
    return inject(f"{random.choice(CALLS)}:delay_{where}={how_long}:when={random.randint(1, 8)}")


def traced(strace, *args):
    """The command line of brig, with strace's words in front of the program."""
    argv = brig_argv(*args)
    at = next(i for i, word in enumerate(argv) if word.endswith("/brig"))
    return argv[:at] + strace + argv[at:]


def one(backend):
    """Which run, and what it said if that was more than nothing."""
    argv = traced(delayed() if random.random() < 0.5 else [],
                  "run", "--backend", backend, "--json", "--", "sleep", random.choice(("0", f"0.0{random.randrange(40)}")))
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


@test
def a_start_that_hangs_can_be_cancelled():
    argv = traced(inject("pivot_root:delay_enter=1000000:when=1"), "run", "--backend", "native", "--json", "--", "true")
    p = subprocess.Popen(argv, env=brig_environment(), cwd=workspace(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert wait_until(lambda: "brig-init" in descendants(p.pid).values(), 10)
    names = {name: pid for pid, name in descendants(p.pid).items()}
    os.kill(names["brig-init"], signal.SIGSTOP)
    time.sleep(1.5)
    assert p.poll() is None
    os.kill(names["brig"], signal.SIGTERM)
    answer = json.loads(p.communicate(timeout=20 * PATIENCE)[0])
    assert answer["outcome"] == "cancelled" and not descendants(), answer
    assert not tree(workspace()), tree(workspace())


@test
def a_word_that_cannot_be_sent_ends_the_start():
    """Without the word the inside would wait for ever."""
    for number in range(1, 4):
        argv = traced(inject(f"sendmsg:error=ENOBUFS:when={number}"), "run", "--backend", "native", "--json", "--", "true")
        done = subprocess.run(argv, env=brig_environment(), cwd=workspace(), stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
        answer = json.loads(done.stdout)
        assert answer["outcome"] in ("failed", "exited") and (done.returncode == 0) == (answer["outcome"] == "exited"), (number, answer)
        assert answer["outcome"] == "exited" or answer["error"]["what"], answer
    assert not descendants() and not tree(workspace())


if __name__ == "__main__":
    sys.exit(main())
