# SPDX-License-Identifier: Apache-2.0
"""Runs start all the time and one in five is killed: what the killed ones left goes all the same, without a quiet moment.
BRIG_STEADY says for how many seconds (make soak: 120)."""

import os
import pathlib
import random
import signal
import sys
import threading
import time

sys.path[:0] = [str(pathlib.Path(__file__).parents[1] / "lib")]
from harness import FACTOR, main, start_brig, state, test, tree, wait_until, workspace  # noqa: E402

SECONDS = float(os.environ.get("BRIG_STEADY", "2"))
AFTER = 2  # seconds that the load goes on for when nobody is killed any more
LOADERS = 8


class Loader(threading.Thread):
    """Starts one run after the other in a folder of its own; every fifth dies at some point of its life."""

    def __init__(self, number, kinds):
        super().__init__()
        self.dice = random.Random(number)
        self.kinds = kinds
        self.work = workspace() / f"w{number}"
        self.work.mkdir()
        self.counts = {"ended": 0, "killed": 0}
        self.wrong = []

    def once(self, may_kill):
        kind = self.dice.choice(self.kinds)
        dies = may_kill and self.dice.random() < 0.2
        p = start_brig("run", *kind, "--memory", "256M", "--", "sh", "-c", f"echo x > made; {'sleep 1' if dies else 'true'}", cwd=self.work)
        if dies:
            time.sleep(self.dice.uniform(0, 0.3))
            p.send_signal(signal.SIGKILL)
        out, err = p.communicate(timeout=120 * FACTOR)
        if p.returncode not in ((-signal.SIGKILL, 0) if dies else (0,)):
            self.wrong.append((kind, p.returncode, out, err))
        self.counts["killed" if p.returncode else "ended"] += 1

    def run(self):
        kills_end = time.monotonic() + SECONDS
        while (now := time.monotonic()) < kills_end + AFTER and not self.wrong:
            self.once(now < kills_end)


def groups():
    """Of brig's, on all hierarchies, those that nobody is in."""
    return {str(p) for p in pathlib.Path("/sys/fs/cgroup").glob("*/brig-*") if not procs(p)}


def procs(group):
    try:
        return (group / "cgroup.procs").read_text()
    except OSError:
        return "gone"


@test(limit=120 + 3 * SECONDS, alone=True)
def what_killed_runs_left_goes_while_others_start():
    had = groups()
    kinds = [("--network", "none"), ("--network", "proxy"), ("--backend", "bwrap")]
    loaders = [Loader(n, kinds) for n in range(LOADERS)]
    for one in loaders:
        one.start()
    for one in loaders:
        one.join()
    assert not any(one.wrong for one in loaders), [one.wrong for one in loaders]
    counts = {k: sum(one.counts[k] for one in loaders) for k in ("ended", "killed")}
    print(counts)
    assert counts["killed"] > SECONDS and counts["ended"] > counts["killed"], counts
    left = [p for one in loaders for p in tree(one.work) if pathlib.Path(p).name != "made"]
    left += [p for p in (state() / "brig/workspaces").iterdir() if p.stat().st_size] + list((state() / "brig/records/live").iterdir())
    assert not left, left
    assert wait_until(lambda: not groups() - had, 5), groups() - had  # another's may be on their way out


if __name__ == "__main__":
    sys.exit(main())
