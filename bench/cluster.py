# SPDX-License-Identifier: Apache-2.0
"""`true` on a node of a Slurm cluster of two nodes that is started here: by srun, and by brig; and many of them."""

import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import sys
import time

from harness import Candidate, Row

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests/cluster"))


@contextlib.contextmanager
def _joined(s):
    """This process is where Slurm listens, and comes back."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open("/proc/self/ns/net", os.O_RDONLY)
    s.join()
    try:
        yield
    finally:
        if libc.setns(fd, 0) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        os.close(fd)


def _one(bench, who, brig):
    srun = [shutil.which("srun", path=who.env["PATH"]), "--mem=2112M"]
    figures = bench.measure(who, [Candidate("srun", [*srun, "/bin/true"]), Candidate("srun brig run", [*srun, bench.brig, "run", "--quiet", "--", "true"]),
                                  Candidate("brig run, slurm", [*brig("run"), "--quiet", "--", "true"])], bench.count(60, 15), warmup=3)
    base = figures.get("srun")
    for name, f in figures.items():
        bench.add_timed(name, f, None if f is base else base, "srun", 1.15 if name == "brig run, slurm" else None)


def _many(bench, who, s, brig, n, jobs):
    """The peer is an array of Slurm's own, of as many tasks."""
    began = time.monotonic()
    bench.run_as(who, ["sbatch", "--mem=164M", "--output=/dev/null", f"--array=0-{n - 1}%{jobs}", "--wrap", "true"])
    while s.queue():
        time.sleep(0.05)
    own = n / (time.monotonic() - began)
    bench.add(Row(f"sbatch --array, %{jobs}", n=n, rate=own, unit="runs/s"))
    lines, out = who.ws / "lines", who.folder("batch")
    lines.write_text(json.dumps({"argv": ["true"]}) + "\n")
    lines.write_text(lines.read_text() * n)
    shutil.rmtree(out)
    began = time.monotonic()
    done = bench.run_as(who, [*brig("batch"), "--memory", "100m", "--jobs", jobs, "--out", out, lines], timeout=600)
    rate = n / (time.monotonic() - began)
    classes = [json.loads(line)["class"] for line in (out / "results.jsonl").read_text().splitlines()]
    bench.add(Row(f"brig batch, slurm, --jobs {jobs}", n=n, rate=rate, unit="runs/s", ratio=rate / own, peer="sbatch --array"))
    if done.returncode or classes.count("ok") != n:
        bench.note(f"brig batch: {n - classes.count('ok')} of {n} failed: {done.stderr.strip()[-200:]}")
    shutil.rmtree(out)


def slurm(bench):
    """By name only: it starts daemons, as root."""
    import slurm as cluster

    who = next((w for w in bench.people if w.uid == 0), None)
    if os.geteuid() != 0 or not who or not bench.brig or not cluster.available():
        bench.note("slurm is left out: it takes root, and Slurm (tools/deps cluster)")
        return
    bench.head("`true` on a node of a Slurm cluster, all of it on this machine")
    # Jobs on one machine: what is to be had is said, not measured.
    with cluster.Slurm(cpus=64) as s, _joined(s):
        was = dict(who.env)
        who.env.update(s.env)
        try:
            def brig(verb):
                return [bench.brig, verb, "--backend", "slurm", "--set", f"slurm.brig={bench.brig}"]

            _one(bench, who, brig)
            for jobs in (8, 32):
                _many(bench, who, s, brig, bench.count(1000, 100), jobs)
        finally:
            who.env.clear()
            who.env.update(was)
