# SPDX-License-Identifier: Apache-2.0
"""Job arrays of a real Slurm: one submission for many runs, and that nothing is lost, doubled or seen by whom it does not concern."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import stat
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "lib")]

from harness import brig, files_as_root, main, scratch, skip, start_brig, state, test, uid, wait_until, workspace
import slurm
from slurm_runs import cluster, options, read, run


def lines(*all):
    path = scratch() / "lines.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in all))
    return path


def results(folder=None):
    text = ((folder or scratch() / "out") / "results.jsonl").read_text()
    said = [json.loads(line) for line in text.splitlines()]
    assert len({r["line"] for r in said}) == len(said), "a line has two results"
    return {r["line"]: r for r in said}


def batch(s, path, *more, **rest):
    return brig("batch", *options("--out", str(scratch() / "out"), *more), str(path), env=s.env, timeout=120, **rest)


def start(s, path, *more):
    return start_brig("batch", *options("--out", str(scratch() / "out"), *more), str(path), env=s.env)


def spools():
    with files_as_root():
        return [p for p in state().rglob("array-*") if p.is_dir()]


def ran():
    """How often each line was run: its command appends a byte to a file of its own."""
    return {p.name: p.stat().st_size for p in workspace().glob("ran.*")}


@test(limit=300)
def many_runs_are_one_submission():
    with cluster(arrays=6) as s:
        path = lines({"shell": "echo $X; cat", "stdin": "in" * 400000, "env": {"X": "y"}, "meta": 1}, {"python": "import sys; print(sys.argv[1])", "args": ["q"]},
                     {"script": "echo $NAME", "params": {"name": "n"}}, {"argv": ["sleep", "60"], "timeout": "300ms"}, {"argv": ["sh", "-c", "exit 3"]},
                     {"shell": "kill -9 $$"}, {"argv": ["true"], "settings": {"network": "host"}}, {"shell": "head -c 3000000 /dev/zero"},
                     *({"shell": f"echo {i}"} for i in range(8)))
        done = batch(s, path, "--jobs", "3", "--output-limit", "1m")
        said = results()
        assert done.status == 1 and len(said) == 16 and "note" not in done.errors, done
        assert said[1]["result"]["stdout"] == "y\n" + "in" * 400000 and said[1]["meta"] == 1
        assert said[2]["result"]["stdout"] == "q\n" and said[3]["result"]["stdout"] == "n\n"
        assert [said[i]["class"] for i in range(4, 8)] == ["timeout", "exit", "signal", "refused"], said
        assert said[8]["result"]["stdout_truncated"] and said[8]["result"]["stdout_bytes"] >= 1 << 20, said[8]["result"]["stdout_bytes"]
        assert [said[i]["result"]["stdout"] for i in range(9, 17)] == [f"{i}\n" for i in range(8)]
        # Of waves that fit, each one job: ids of tasks say so.
        jobs = {r["result"]["job"].split("_")[0] for line, r in said.items() if line != 7}
        assert len(jobs) == 3 and all("_" in r["result"]["job"] for line, r in said.items() if line != 7), jobs
        assert brig("audit", "verify", env=s.env).status == 0
        assert wait_until(lambda: not s.queue(), 30) and not spools()


@test(limit=300)
def nothing_of_a_run_is_in_its_job():
    secret = f"s3cret{os.getpid()}"
    with cluster() as s:
        look = f"echo {secret} >/dev/null; cat {state()}/brig/slurm/array-*/*/*.ask; ls -A {state()} 2>&1; touch ran.$X; sleep 60"
        s_env = {**s.env, "MINE": secret}  # of brig batch: its job has none of it
        p = start_brig("batch", *options("--out", str(scratch() / "out"), "--jobs", "2"),
                       str(lines(*({"shell": look, "env": {"X": str(i), "TOLD": secret}} for i in range(3)))), env=s_env)
        assert wait_until(lambda: len(ran()) == 2, 60), p.stderr.read1()
        with files_as_root():
            found = [read(f"/proc/{pid}/comm").strip() for pid in filter(str.isdigit, os.listdir("/proc")) for name in ("cmdline", "environ") if secret in read(f"/proc/{pid}/{name}")]
            jobs = s.run("scontrol", "show", "job").stdout.decode()
            scripts = [s.run("scontrol", "write", "batch_script", job, "-").stdout.decode() for job in s.queue()]
            spool, = spools()
            assert all(stat.S_IMODE(q.stat().st_mode) & 0o77 == 0 for q in [spool, *spool.rglob("*")]), spool
            assert sum(secret in q.read_text(errors="replace") for q in spool.rglob("*.ask")) == 3  # the control
        assert "brig-far" not in found and set(found) <= {"sh", "sleep", "cat", "touch", "brig", "brig-batch", "brig-follow", "setpriv"}, found
        assert secret not in jobs + "".join(scripts) and "Comment=brig:" in jobs and "ArrayTaskThrottle=2" in jobs, jobs
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        assert p.returncode == 130, err
        assert wait_until(lambda: not s.queue(), 30) and len(ran()) == 2 and not spools(), "an interrupt ends all of it"
        assert wait_until(lambda: not any(name == "brig-far" for _, name in s.inside()), 30)


@test(limit=300)
def a_batch_that_died_is_resumed_without_running_anything_twice():
    with cluster() as s:
        path = lines(*({"shell": f"printf x >>ran.{i}; sleep {4 if i % 3 == 0 else 0}; echo {i}"} for i in range(12)))
        p = start(s, path, "--jobs", "4")
        assert wait_until(lambda: len(ran()) >= 6, 60), p.stderr.read1()
        p.kill()
        p.wait()
        assert wait_until(lambda: len(ran()) > 8, 60), "an array outlives its batch"
        # While nobody can say what runs, nothing is run.
        s.kill("ctld", signal.SIGTERM)  # it keeps what it knows
        done = batch(s, path, "--jobs", "4", "--resume")
        assert done.status == 125 and "still run" in done.errors, done
        s.start_controller()
        assert wait_until(lambda: s.run("squeue").returncode == 0, 120, 1)
        done = batch(s, path, "--jobs", "4", "--resume")
        said = results()
        assert done.status == 0 and len(said) == 12, done
        assert ran() == {f"ran.{i}": 1 for i in range(12)}, ran()
        assert all(said[i + 1]["result"]["stdout"] == f"{i}\n" for i in range(12)), said
        assert brig("audit", "verify", env=s.env).status == 0 and not spools()


def left(s, n, *more):
    """A batch of n lines that died while its second one ran: its lines."""
    path = lines(*({"shell": f"printf x >>ran.{i}; sleep {(0, 8)[i == 1]}; echo {i}"} for i in range(n)))
    p = start(s, path, "--jobs", "4", *more)
    assert wait_until(lambda: len(ran()) == n, 60), p.stderr.read1()
    p.kill()
    p.wait()
    return path


def age():
    with files_as_root():
        for spool in spools():
            for q in (*spool.rglob("*"), spool):
                os.utime(q, (1, 1))


def resumed(s, path, n, *more):
    done = batch(s, path, "--jobs", "4", "--resume", *more)
    said = results()
    assert done.status == 0 and [said[i + 1]["result"]["stdout"] for i in range(n)] == [f"{i}\n" for i in range(n)], (done, said)
    assert ran() == {f"ran.{i}": 1 for i in range(n)} and not spools(), (ran(), spools())


@test(limit=300)
def a_batch_is_resumed_after_months_with_what_it_has():
    with cluster() as s:
        path = left(s, 3)
        assert wait_until(lambda: not s.queue(), 60)
        age()
        resumed(s, path, 3)


@test(limit=300)
def a_batch_of_a_hidden_partition_is_resumed_without_running_anything_twice():
    with cluster() as s:
        assert s.run("scontrol", "update", "PartitionName=second", "Hidden=YES").returncode == 0
        path = left(s, 3, "--set", "slurm.partition=second")
        if uid():  # the control: who looks for it in the usual way does not see it
            assert not s.run("squeue", "-h", "--me", uid=uid()).stdout and s.run("squeue", "-h", "--me", "-a", uid=uid()).stdout
        age()
        done = brig("run", *options("--array", "2"), "--", "true", env=s.env, timeout=120)
        assert done.status == 0 and len(spools()) == 1, done
        resumed(s, path, 3, "--set", "slurm.partition=second")


@test(limit=300)
def a_batch_of_another_cluster_is_not_judged_here():
    with cluster() as s:
        path = left(s, 3)
        assert wait_until(lambda: not s.queue(), 60)
        spool, = spools()
        with files_as_root():
            assert (spool / "cluster").read_text() == "brig"
            (spool / "cluster").write_text("another")
        done = batch(s, path, "--jobs", "4", "--resume")
        assert done.status == 125 and "was submitted to cluster 'another'" in done.errors, done
        age()
        done = brig("run", *options("--array", "2"), "--", "true", env=s.env, timeout=120)
        assert done.status == 0 and spools() == [spool], (done, spools())
        with files_as_root():
            (spool / "cluster").write_text("brig")
        resumed(s, path, 3)


@test(limit=300)
def a_batch_is_resumed_with_accounting():
    if not slurm.can_account():
        skip("no slurmdbd with a database: tools/deps cluster")
    with cluster(accounting=True) as s:
        path = left(s, 3)
        assert wait_until(lambda: "RUNNING" in s.run("sacct", "-n", "-X", "-P", "-o", "JobID,State").stdout.decode(), 60, 0.5)  # the control: it knows of it
        resumed(s, path, 3)


@test(limit=300)
def scancel_of_the_array_ends_all_of_it():
    with cluster() as s:
        path = lines(*({"shell": f"printf x >>ran.{i}; sleep 60"} for i in range(4)))
        p = start(s, path, "--jobs", "2")
        assert wait_until(lambda: len(ran()) == 2, 60), p.stderr.read1()
        s.run("scancel", "--name=brig")
        p.communicate(timeout=50)
        assert len(ran()) == 2, "nothing begins after it"
        assert p.returncode == 1 and wait_until(lambda: not s.queue(), 30)
        assert wait_until(lambda: not any(name in ("brig-far", "brig-follow") for _, name in s.inside()), 30)
        assert not spools()


def kill_inside(s, *names):
    with files_as_root():
        found = [pid for pid, name in s.inside() if name.startswith(names)]
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return len(found)


def lose_node(s):
    """All of a node at once, with what runs there; the other one goes on."""
    s.kill("n1")
    assert kill_inside(s, "slurmstepd", "brig-far")
    s.start_node("n1")


def restart(s, *names):
    for name in names:
        s.kill(name)
    time.sleep(1)
    for name in names:
        s.start_controller() if name == "ctld" else s.start_node(name)


def whole(s, fault, within=200):
    """Six lines, three at a time, and the fault while some of them run: each has one result, and was brought to its end once."""
    for q in (*workspace().glob("ran.*"), *workspace().glob("done.*")):
        q.unlink()
    # Slurm ends an orphan process by process: a shell whose sleep was killed first must not go on.
    path = lines(*({"shell": f"printf x >>ran.{i}; sleep 3 && printf x >>done.{i} && echo {i}"} for i in range(6)))
    out = scratch() / fault.__name__
    argv = ["batch", *options("--out", str(out), "--jobs", "3", "--retries", "5"), str(path)]
    p = start_brig(*argv, env=s.env)
    assert wait_until(lambda: len(ran()) >= 2, 60), p.stderr.read1()
    fault(s)
    err = p.communicate(timeout=within)[1]
    assert p.returncode == 0, (fault.__name__, p.returncode, err)
    said = results(out)
    assert len(said) == 6 and all(said[i + 1]["result"]["stdout"] == f"{i}\n" for i in range(6)), (fault.__name__, said)
    ends = {q.name: q.stat().st_size for q in workspace().glob("done.*")}
    assert ends == {f"done.{i}": 1 for i in range(6)}, (fault.__name__, ends)
    assert wait_until(lambda: not any(name in ("brig-far", "brig-follow") for _, name in s.inside()), 60)
    s.run("scancel", "--name=brig")  # Slurm itself does not notice for minutes that a part of it died
    assert wait_until(lambda: not s.queue(), 120, 0.5), s.queue()
    assert brig("audit", "verify", env=s.env).status == 0 and not spools()


@test(limit=600)
def whoever_of_slurm_dies_no_line_is_lost_or_doubled():
    def controller(s):
        restart(s, "ctld")

    def nodes(s):
        restart(s, *slurm.NODES)

    def steps(s):
        assert kill_inside(s, "slurmstepd")

    def everything(s):
        restart(s, "ctld", *slurm.NODES)

    with cluster() as s:
        # Slurm itself looks for steps that died every 200 s: what waits for their places does not.
        for fault, within in ((controller, 200), (nodes, 200), (steps, 90), (everything, 200)):
            whole(s, fault, within)
            assert wait_until(s.idle, 120, 0.5)


@test(limit=600)
def a_line_whose_node_dies_is_run_again():
    def runs(s):
        assert kill_inside(s, "brig-far")

    with cluster() as s:
        whole(s, runs)
        assert wait_until(s.idle, 120, 0.5)
        # Nobody is left who could tell: Slurm asks its nodes every 20 pings, here of 10 s, for what they run.
        whole(s, lose_node, within=300)


@test(limit=300)
def a_task_that_slurm_has_lost_ends_with_its_batch():
    with cluster() as s:
        p = start(s, lines(*({"shell": f"printf x >>ran.{i}; sleep 600"} for i in range(2))), "--jobs", "2")
        assert wait_until(lambda: len(ran()) == 2, 60), p.stderr.read1()
        assert kill_inside(s, "slurmstepd")
        assert any(name == "brig-far" for _, name in s.inside())  # the control: nobody has told it
        p.send_signal(signal.SIGINT)
        err = p.communicate(timeout=100)[1]
        assert p.returncode == 130 and not spools(), (p.returncode, err, spools())
        assert wait_until(lambda: not any(name == "brig-far" for _, name in s.inside()), 30)
        assert run(s)["outcome"] == "exited"


@test(limit=300)
def the_doctor_sees_accounting():
    if not slurm.can_account():
        skip("no slurmdbd with a database: tools/deps cluster")
    with cluster(accounting=True) as s:
        assert "pass" == {c["name"]: c["status"] for c in brig("doctor", *options(), "--json", env=s.env, timeout=120).json["checks"]}["slurm_accounting"]


@test(limit=300)
def a_spool_that_nobody_asks_for_goes():
    """Of one whose job lives, and of one that is young, everything stays."""
    with cluster() as s:
        path = lines(*({"shell": f"printf x >>ran.{i}; sleep 60"} for i in range(3)))
        p = start(s, path, "--jobs", "2")
        assert wait_until(lambda: len(ran()) == 2, 60), p.stderr.read1()
        p.kill()
        p.wait()
        living, = spools()
        old = [living, living.parent / "array-old", living.parent / "array-young"]
        with files_as_root():
            for q in old[1:]:
                (q / "1").mkdir(parents=True, mode=0o700)
                (q / "1/0.ask").write_text("x")
            for q in (*living.rglob("*"), living, *old[1].rglob("*"), old[1]):
                os.utime(q, (1, 1))
            for q in (q for root in old[1:] for q in (root, *root.rglob("*"))):
                os.chown(q, uid(), uid())
        done = brig("run", *options("--array", "2"), "--", "true", env=s.env, timeout=120)
        assert done.status == 0 and set(spools()) == {living, old[2]}, spools()
        s.run("scancel", "--name=brig")
        assert wait_until(lambda: not s.queue(), 60)
        with files_as_root():
            for q in (*living.rglob("*"), living):
                os.utime(q, (1, 1))
        done = brig("run", *options("--array", "2"), "--", "true", env=s.env, timeout=120)
        assert done.status == 0 and set(spools()) == {old[2]}, spools()
        with files_as_root():
            shutil.rmtree(old[2])


@test(limit=300)
def one_command_many_times_is_an_array():
    with cluster() as s:
        done = brig("run", *options("--array", "7%3"), "--", "sh", "-c", "echo $BRIG_ARRAY_INDEX/$BRIG_ARRAY_COUNT", env=s.env, timeout=120)
        said = {r["index"]: r for r in map(json.loads, done.text.splitlines())}
        assert done.status == 0 and [said[i]["result"]["stdout"] for i in range(7)] == [f"{i}/7\n" for i in range(7)], done
        assert len({r["result"]["job"].split("_")[0] for r in said.values()}) == 1 and not spools()
        # Its variables are those of a run by srun, and none of those that sbatch had.
        here = {**s.env, "KRB5CCNAME": "/tmp/none", "LOGNAME": "other"}
        alone = brig("run", *options(), "--", "env", env=here).text.split()
        done = brig("run", *options("--array", "2"), "--", "env", env=here, timeout=120)
        for line in map(json.loads, done.text.splitlines()):
            assert sorted(w for w in line["result"]["stdout"].split() if not w.startswith("BRIG_ARRAY_")) == sorted(alone), (line, alone)


if __name__ == "__main__":
    sys.exit(main())
