# SPDX-License-Identifier: Apache-2.0
"""Two trees side by side: is what a user waits for as short as it was before a change?

Each tree has folders of its own, since two builds that share a cache make it anew in turns, and each round starts
both in shuffled order."""

import contextlib
import pathlib
import shutil
import subprocess
import time

import peers
from harness import Candidate, Row

MOST = 1.03  # of the other tree's median


class Tree:
    """The programs of one build folder, copied as an installation does, and where they keep what they keep."""

    def __init__(self, bench, name, build):
        self.name, self.folder = name, bench.scratch / f"tree-{name}"
        self.folder.mkdir()
        for path in pathlib.Path(build).resolve().glob("brig*"):
            if path.is_file():
                shutil.copy2(path, self.folder / path.name)

    def argv(self, who, *words):
        state, cache, run = (who.folder(f"{self.name}-{kind}") for kind in ("state", "cache", "run"))
        run.chmod(0o700)
        own = {"XDG_STATE_HOME": state, "XDG_CACHE_HOME": cache, "BRIG_HOST": f"unix://{run}/s"}
        return ["/usr/bin/env", *(f"{k}={v}" for k, v in own.items()), self.folder / "brig", *words]

    @contextlib.contextmanager
    def daemon(self, bench, who):
        """One that serves this tree's sandboxes, and ends with them."""
        null = subprocess.DEVNULL
        argv = [*who.prefix, *self.argv(who, "daemon", "--quiet")]
        with subprocess.Popen(argv, env=who.env, cwd="/", stdin=null, stdout=null, stderr=null) as process:
            try:
                for _ in range(250):
                    if (who.base / f"{self.name}-run/s").exists() or process.poll() is not None:
                        break
                    time.sleep(0.02)
                yield
            finally:
                if bench.run_as(who, self.argv(who, "daemon", "stop", "--all")).returncode != 0:
                    process.terminate()


def _git(bench, who):
    repo = who.folder("repo")
    bench.run_as(who, ["/usr/bin/git", "init", "-q", repo])
    return repo


def _row(bench, what, figures):
    new, old = figures.get("new"), figures.get("old")
    if old:
        bench.add_timed(f"{what}, old", old)
    if new:
        bench.add_timed(f"{what}, new", new, old, "old", MOST if old else None)


def _runs(bench, who, trees):
    repo = _git(bench, who)
    few = bench.count(100, 20)
    for what, n, words in (
        ("run true", bench.count(500, 60), ("--", "true")),
        ("in a repository", bench.count(300, 40), ("--workdir", str(repo), "--", "true")),
        ("python -c pass", few, ("--", "python3", "-c", "pass")),
        ("with the door", few, ("--network", "proxy", "--allow", "example.org", "--", "true")),
        ("on bwrap", few, ("--backend", "bwrap", "--", "true")),
    ):
        _row(bench, what, bench.measure(who, [Candidate(t.name, t.argv(who, "run", *words)) for t in trees], n, warmup=5))


def _at_once(bench, who, trees):
    n = bench.count(1000, 200)
    floor = Candidate("floor", [bench.tools / "floor", peers.TRUE])
    cases = [floor, *(Candidate(t.name, t.argv(who, "run", "--", "true")) for t in trees)]
    figures = bench.measure(who, cases, n, warmup=0, jobs=64, timeout=300)
    rates = {name: f["n"] / (f["elapsed"] / 1e9) for name, f in figures.items() if f.get("elapsed")}
    for name, rate in rates.items():
        row = Row(f"64 at a time, {name}", n, rate=rate, unit="/s")
        if name == "new" and "old" in rates:
            row.ratio, row.peer, row.target = rate / rates["old"], "old", f">= {1 / MOST:.2f}"
            row.ok = row.ratio >= 1 / MOST
        bench.add(row)


def _sandboxes(bench, who, trees):
    """Commands in one that is there."""
    with contextlib.ExitStack() as daemons:
        cases = []
        for t in trees:
            daemons.enter_context(t.daemon(bench, who))
            done = bench.run_as(who, t.argv(who, "sandbox", "create", "--name", "bench"))
            if done.returncode != 0:
                bench.note(f"{t.name}: sandbox create: {done.stderr.strip()[-200:]}")
            cases.append(Candidate(t.name, t.argv(who, "sandbox", "exec", "bench", "--", "true")))
        _row(bench, "sandbox exec", bench.measure(who, cases, bench.count(500, 60), warmup=5))


def trees(bench):
    """What a user waits for, in this tree and in another one (--beside)."""
    if not bench.brig or not bench.beside:
        bench.note("two trees are not compared: --beside names the other build folder")
        return
    both = [Tree(bench, "new", bench.build), Tree(bench, "old", bench.beside)]
    for who in bench.people:
        bench.head(f"this tree beside the other, as {'root' if who.uid == 0 else f'an ordinary user ({who.uid})'}")
        _runs(bench, who, both)
        _at_once(bench, who, both)
        _sandboxes(bench, who, both)
