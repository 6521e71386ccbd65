# SPDX-License-Identifier: Apache-2.0
"""Runs on a real Slurm: where they are, what they may take, who ends them, what is refused and what comes home."""

import errno
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "lib")]

import gpu_nodes
import slurm
from slurm_runs import cluster, options, read, run
from harness import brig, brig_path, files_as_root, main, scratch, start_brig, state, test, uid, wait_until, workspace


def running(s, *more, argv):
    (workspace() / "started").unlink(missing_ok=True)
    p = start_brig("run", *options(*more), "--json", "--", "sh", "-c", f"touch started; {argv}", env=s.env)
    assert wait_until((workspace() / "started").exists, 30), p.stderr.read1()
    return p


def p_brig(p):
    """The process that setpriv has become is the one that was started."""
    return p.pid


def ended(p):
    out, err = p.communicate(timeout=120)
    return json.loads(out) if out else err.decode()


@test(limit=300)
def a_run_is_placed_limited_and_recorded():
    with cluster() as s:
        said = run(s, "--set", "slurm.partition=second", argv=("sh", "-c", "echo $SLURM_JOB_ID; exit 3"))
        assert (said["outcome"], said["exit_code"], said["node"]) == ("exited", 3, "n2"), said
        assert said["stdout"] == "\n"  # Slurm's own variables are not the command's
        said = run(s, "--memory", "128m", argv=("python3", "-c", "b = bytearray(400 << 20)"))
        assert said["outcome"] == "oom", said
        said = run(s, "--cpus", "2", argv=("nproc",))
        assert said["isolation"]["limits"]["cpus"] != "none", said
        said = run(s, "--set", "slurm.time=2s", "--timeout", "60s", argv=("sleep", "60"))
        assert said["outcome"] == "timeout", said
        said = run(s, "--set", "slurm.nodelist=n[2]", argv=("true",))
        assert said["node"] == "n2", said
        assert brig("audit", "verify", env=s.env).status == 0
        shown = brig("audit", "show", said["id"], "--json", env=s.env)
        assert b'"n2"' in shown.stdout, shown
        assert wait_until(lambda: not s.queue(), 30)


HOG = ("python3", "-c", "import time\nb = bytearray(1200 << 20)\ntime.sleep(20)")


@test(limit=300)
def the_stricter_limit_holds_and_the_report_names_who_enforces_it():
    with cluster(kills=True) as s:
        held = run(s, "--memory", "128m", "--cpus", "2")["isolation"]["limits"]
        assert held["memory"].endswith(", slurm") and held["timeout"] == "monitor, slurm", held
        assert "slurm" not in held["cpus"] + held["pids"], held  # nothing binds a task to its CPUs there
        # The control: Slurm ends what takes more than it was given, without brig.
        ended_by = s.run("srun", "--mem=100M", *HOG)
        assert ended_by.returncode != 0, ended_by
        # A partition that gives less than is asked for: no waiting in its queue, and its limits are the run's.
        small = ("--set", "slurm.partition=small", "--set", "slurm.wait=60s")
        for more in (("--timeout", "1h", "--memory", "8g", "--cpus", "4"), ("--timeout", "none", "--memory", "8g")):
            said = run(s, *small, *more, argv=HOG)
            assert said["outcome"] == "oom", (more, said)
        said = run(s, *small, "--timeout", "none", argv=("sleep", "90"), timeout=100)
        assert said["outcome"] == "timeout", said
        assert said["isolation"]["limits"]["timeout"].endswith("slurm"), said
        # ... and what asks for less has less.
        said = run(s, *small, "--timeout", "1s", argv=("sleep", "90"))
        assert said["outcome"] == "timeout" and said["duration_ms"] < 20000, said
        said = run(s, *small, "--memory", "64m", argv=("python3", "-c", "import time\nb = bytearray(150 << 20)\ntime.sleep(20)"))
        assert said["outcome"] == "oom", said
        # Of an array: a line's own report says it, too.
        done = brig("run", *options("--array", "2", *small), "--", "true", env=s.env, timeout=120)
        assert all(json.loads(line)["result"]["isolation"]["limits"]["memory"].endswith(", slurm") for line in done.text.splitlines()), done
        assert brig("audit", "verify", env=s.env).status == 0 and wait_until(lambda: not s.queue(), 30)


@test(limit=300)
def a_limit_of_slurms_ends_what_brig_cannot():
    """brig-far is stopped, so that nothing but Slurm's own time limit can end the run."""
    with cluster() as s:
        p = running(s, "--set", "slurm.partition=small", argv="sleep 600")
        with files_as_root():
            nodes = [pid for pid, name in s.inside() if name == "brig-far"]
            assert nodes
            for pid in nodes:
                os.kill(pid, signal.SIGSTOP)
        said = ended(p)
        assert said["outcome"] in ("failed", "timeout", "cancelled", "signalled"), said
        assert wait_until(lambda: not s.queue(), 120, 1)
        assert wait_until(lambda: not any(name == "brig-far" for _, name in s.inside()), 60)
        assert run(s)["outcome"] == "exited"  # which removes what the killed one could not


@test(limit=300)
def nothing_of_a_command_is_an_argument_a_variable_or_a_comment():
    secret = f"s3cret{os.getpid()}"
    with cluster() as s:
        p = running(s, "--env", f"TOLD={secret}", argv=f": {secret}; sleep 60")
        with files_as_root():
            found = [pid for pid in filter(str.isdigit, os.listdir("/proc"))
                     for name in ("cmdline", "environ")
                     if secret in read(f"/proc/{pid}/{name}") and read(f"/proc/{pid}/comm").strip() not in ("sh", "brig", "sleep", "setpriv")]
            jobs = s.run("scontrol", "show", "job").stdout.decode()
            env = [e for pid, comm in s.inside() if comm == "brig-far" for e in [read(f"/proc/{pid}/environ")]]
        assert not found, [read(f"/proc/{pid}/comm") for pid in found]
        assert secret not in jobs and "Comment=brig:" in jobs, jobs
        assert env and all(secret not in e for e in env)
        p.send_signal(signal.SIGTERM)
        assert ended(p)["outcome"] == "cancelled"


def asks():
    with files_as_root():
        return [p for p in state().rglob("ask-*")]


@test(limit=300)
def what_is_asked_for_reaches_a_node_by_a_file_or_by_srun():
    """The file is the quick way, for a node that shares it; it is nobody else's, and goes when it was read."""
    with cluster() as s:
        seen = scratch() / "seen"  # what a node's brig was told: the oracle
        teller = scratch() / "teller"
        teller.write_text(f'#!/bin/sh\n[ "$1$2" = _nodeprobe ] || {{ echo "$#"; ls -ldL "$2" 2>&1; }} >>{seen}\nexec {brig_path()} "$@"\n')
        teller.chmod(0o755)
        seen.touch()
        seen.chmod(0o666)
        for length, count in ((1, 2), (120000, 1)):
            done = brig("run", *options(program=teller), "--", "sh", "-c", "echo ${#0}", "x" * length, env=s.env)
            assert done.text == f"{length}\n" and not asks(), done.text
            told = seen.read_text().split()
            assert told[0] == str(count), told
            assert count == 1 or told[1].startswith("-rw-------"), told
            seen.write_text("")
        # A node that does not share it has the other copy.
        with files_as_root():
            (scratch() / "own").mkdir(mode=0o700)
            os.chown(scratch() / "own", uid(), uid())  # what a node has there
            assert os.system(f"mount -t tmpfs -o mode=0700,uid={uid()} none {scratch()}/own") == 0
        done = brig("run", *options(program=teller), "--", "echo", "small", env={**s.env, "XDG_STATE_HOME": str(scratch() / "own")})
        assert done.text == "small\n" and "No such file" in seen.read_text(), (done, seen.read_text())
        with files_as_root():
            assert not list((scratch() / "own").rglob("ask-*"))
            assert os.system(f"umount {scratch()}/own") == 0
        # Whoever dies, it does not stay.
        p = running(s, argv="sleep 600")
        assert not asks()
        p.kill()
        p.wait()
        assert wait_until(lambda: not s.queue(), 60)
        assert wait_until(lambda: not any(name == "brig-far" for _, name in s.inside()), 60)
        assert run(s)["outcome"] == "exited" and not asks()  # which removes what the killed one could not


@test(limit=300)
def a_hidden_partition_is_a_partition():
    with cluster() as s:
        for name in ("second", "small"):
            assert s.run("scontrol", "update", f"PartitionName={name}", "Hidden=YES").returncode == 0
        said = run(s, "--set", "slurm.partition=second")
        assert (said["outcome"], said["node"]) == ("exited", "n2"), said
        # Its limits are the run's: else this would wait in its queue for ever.
        said = run(s, "--set", "slurm.partition=small", "--set", "slurm.wait=60s", "--timeout", "1h", "--memory", "8g")
        assert said["outcome"] == "exited", said
        assert examined(s, "--set", "slurm.partition=second")["slurm_partition"]["status"] == "pass"
        # Nodes outside of the default partition are not asked for it, and do not keep the others from being.
        assert s.run("scontrol", "update", "PartitionName=main", "Nodes=n1").returncode == 0
        assert "1 of 1 nodes were asked" in examined(s)["slurm_brig"]["detail"], examined(s)["slurm_brig"]
        assert run(s)["node"] == "n1"


@test(limit=300)
def what_a_cluster_cannot_honour_is_refused_by_name():
    with cluster() as s:
        for more, word in ((("--publish", "8080"), "--publish"), (("--home", "keep"), "home"), (("--ssh-agent=git",), "ssh-agent"),
                           (("--set", "slurm.partition=-x"), "slurm.partition"), (("--image", "x/y:1"), "image"), (("--gpus", "all"), "gpus 'all'"), (("--gpus", "1"), "no node of the default partition has a GPU")):
            said = run(s, *more)
            assert said["outcome"] == "refused" and word in said["error"]["what"], (more, said["error"])
        said = run(s, "--set", "slurm.partition=nosuch")
        assert said["outcome"] == "refused" and said["error"]["code"] == "unavailable", said
        said = brig("run", *options(program="/nonexistent/brig"), "--json", "--", "true", env=s.env).json
        assert said["outcome"] == "refused" and "no brig at" in said["error"]["what"], said
        assert not s.queue()
        # /tmp of a test is its own: Slurm, which was started here, has it; a file system that came later it has not.
        with files_as_root():
            (scratch() / "here").mkdir()
            assert os.system(f"mount -t tmpfs none {scratch()}/here") == 0
            os.chmod(scratch() / "here", 0o755)
        said = run(s, "--read", str(scratch() / "here"))
        assert said["outcome"] == "refused" and "not on a file system that this node shares" in said["error"]["what"], said
        with files_as_root():
            assert os.system(f"umount {scratch()}/here") == 0
        # A project's file does not say where its commands run.
        for text in ("slurm: {partition: second}", "slurm: {nodelist: n2}", "slurm: {account: x}", "backend: slurm"):
            (workspace() / ".brig.yaml").write_text(f"brig: 1\n{text}\n")
            said = run(s) if "backend" not in text else brig("run", "--json", "--", "true", env=s.env).json
            assert said["outcome"] == "refused" and "untrusted" in said["error"]["what"], (text, said)
        (workspace() / ".brig.yaml").write_text("brig: 1\nslurm: {brig: /bin/true}\n")
        said = brig("run", "--backend", "slurm", "--json", "--", "true", env=s.env).json
        assert said["outcome"] == "refused" and "untrusted" in said["error"]["what"], said
        (workspace() / ".brig.yaml").unlink()
        # Nor does a line of a batch.
        (scratch() / "lines").write_text("".join(json.dumps({"argv": ["true"], "settings": one}) + "\n" for one in ({"slurm": {"partition": "second"}}, {"slurm": {"brig": "/bin/true"}}, {"backend": "none"})))
        brig("batch", *options("--out", str(scratch() / "out")), str(scratch() / "lines"), env=s.env, timeout=60)
        classes = [json.loads(line)["class"] for line in (scratch() / "out/results.jsonl").read_text().splitlines()]
        assert classes == ["refused"] * 3, classes


GPUS = ("python3", "-c", """
import json, os, pathlib
found = {}
for path in sorted(pathlib.Path("/dev").rglob("*")):
    if "nvidia" in path.name:
        try:
            os.close(os.open(path, os.O_RDWR))
        except OSError as e:
            found[path.name] = e.errno, os.minor(path.stat().st_rdev)
print(json.dumps([found, os.environ["CUDA_VISIBLE_DEVICES"], os.environ["NVIDIA_VISIBLE_DEVICES"]]))
""")
SHARED = {"nvidiactl": [errno.ENXIO, 255], "nvidia-uvm": [errno.ENXIO, 0], "nvidia-uvm-tools": [errno.ENXIO, 1]}


@test(limit=300)
def gpus_are_slurms_to_give_and_the_job_has_exactly_those():
    """n1 has two, whose nodes are there and lead to no driver: an open that reaches one ends with ENXIO."""
    with gpu_nodes.machine(gpu_nodes.NVIDIA) as devices, cluster(gpus={"n1": 2}, bind={name: [(devices, "/proc/devices")] for name in slurm.NODES}) as s:
        said = run(s, "--gpus", "2", argv=GPUS)
        assert said["node"] == "n1", said
        assert json.loads(said["stdout"]) == [{"nvidia0": [errno.ENXIO, 0], "nvidia1": [errno.ENXIO, 1], **SHARED}, "0,1", "0,1"], said["stdout"]
        assert said["isolation"]["limits"]["gpus"] == "devices, slurm" and "/dev/nvidia1" in said["isolation"]["gpus"], said["isolation"]
        assert "gpus=/dev/nvidia0,/dev/nvidia1" in brig("audit", "show", said["id"], "--json", env=s.env).text
        # One of them is somebody else's: the run has the other, whichever that is, and no third waits for ever.
        other = s.popen("srun", "--gres=gpu:1", "sh", "-c", "echo $SLURM_STEP_GPUS; exec sleep 600", stdout=subprocess.PIPE, uid=uid() or None)
        try:
            theirs = int(other.stdout.readline())
            said = run(s, "--gpus", "1", argv=GPUS)
            assert json.loads(said["stdout"]) == [{f"nvidia{1 - theirs}": [errno.ENXIO, 1 - theirs], **SHARED}, "0", str(1 - theirs)], (theirs, said["stdout"])
        finally:
            s.run("scancel", f"--user={uid()}")
            other.wait(60)
            other.stdout.close()
        # More than a node has: the stricter holds, as of memory. Nothing is shown to who asks for none.
        said = run(s, "--gpus", "8", "--set", "slurm.wait=60s", argv=GPUS)
        assert json.loads(said["stdout"])[1] == "0,1", said
        assert run(s, "--set", "slurm.partition=first", argv=("sh", "-c", "! ls /dev/nvidia*"))["exit_code"] == 0
        # Who has none is told before anything is submitted.
        before = s.run("squeue", "-h", "-t", "all", "-o", "%i").stdout.split()
        said = run(s, "--gpus", "1", "--set", "slurm.partition=second")
        assert said["outcome"] == "refused" and "no node of partition 'second' has a GPU" in said["error"]["what"] and said["error"]["hint"], said
        asked = set(s.run("squeue", "-h", "-t", "all", "-o", "%i %j").stdout.decode().splitlines())
        assert all(line.split()[1] == "brig-probe" for line in asked if line.split()[0].encode() not in before), asked
        assert "at most 2 of one node" in examined(s)["slurm_gpus"]["detail"], examined(s)["slurm_gpus"]
        # Of an array: each task has its own.
        done = brig("run", *options("--array", "2%2", "--gpus", "1"), "--", *GPUS, env=s.env, timeout=120)
        results = [json.loads(line)["result"] for line in done.text.splitlines()]
        assert len(results) == 2 and all(json.loads(one["stdout"])[1] == "0" and one["isolation"]["limits"]["gpus"] == "devices, slurm" for one in results), results
        assert wait_until(lambda: not s.queue(), 30)


@test(limit=300)
def a_node_without_a_fitting_brig_is_left_out():
    with cluster(bind={"n1": [(None, str(brig_path()))]}) as s:
        for _ in range(3):
            assert run(s)["node"] == "n2"
        said = run(s, "--set", "slurm.partition=first")
        assert said["outcome"] == "refused" and "no node has a brig that fits" in said["error"]["what"], said


@test(limit=300)
def whoever_dies_the_run_ends_and_says_so():
    with cluster() as s:
        p = running(s, argv="sleep 600 & setsid sleep 601 & wait")
        p.kill()
        p.wait()
        assert wait_until(lambda: not s.queue(), 60)
        assert wait_until(lambda: not any(name == "sleep" and "60" in read(f"/proc/{pid}/cmdline") for pid, name in s.inside() if "infinity" not in read(f"/proc/{pid}/cmdline")), 30)
        p = running(s, argv="sleep 600")
        s.run("scancel", "--name=brig")
        assert ended(p)["outcome"] == "cancelled"
        p = running(s, argv="sleep 600")
        for pid, name in s.inside():
            if name == "brig-far":
                os.kill(pid, signal.SIGKILL)
        said = ended(p)
        assert said["outcome"] == "failed" and "was lost" in said["error"]["what"], said
        # srun, which has the streams: the node sees the end of its input.
        p = running(s, argv="sleep 600")
        with files_as_root():
            for pid in filter(str.isdigit, os.listdir("/proc")):
                if read(f"/proc/{pid}/comm").strip() == "srun" and "_node" in read(f"/proc/{pid}/cmdline") and int(read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[1]) == p_brig(p):
                    os.kill(int(pid), signal.SIGKILL)
        said = ended(p)
        assert said["outcome"] == "failed" and "was lost" in said["error"]["what"], said
        assert wait_until(lambda: not any(name == "brig-far" for _, name in s.inside()), 150, 0.5)
        # ... and its part on the node.
        p = running(s, argv="sleep 600")
        with files_as_root():
            s.kill_steps()
        said = ended(p)
        assert said["outcome"] == "failed" and "was lost" in said["error"]["what"], said
        assert wait_until(lambda: not any(name == "brig-far" for _, name in s.inside()), 150, 0.5)
        s.run("scancel", "--name=brig")
        assert wait_until(lambda: not s.queue(), 120, 0.5) and wait_until(s.idle, 120, 0.5)
        # The controller is not needed while a command runs, only to end its job.
        p = running(s, argv="sleep 3; echo done")
        s.kill("ctld")
        time.sleep(1)
        s.start_controller()
        said = ended(p)
        assert (said["outcome"], said["stdout"]) == ("exited", "done\n"), said
        # A controller that was killed has forgotten its last jobs, and ends the first that comes under such a number.
        assert wait_until(s.idle, 120, 0.5) and wait_until(lambda: s.run("srun", "true").returncode == 0, 120, 1)
        p = running(s, argv="sleep 3; echo done")
        for name in slurm.NODES:
            s.kill(name)
        said = ended(p)
        assert (said["outcome"], said["stdout"]) == ("exited", "done\n"), said
        for name in slurm.NODES:
            s.start_node(name)
        assert wait_until(s.idle, 60)
        assert run(s)["outcome"] == "exited"


@test(limit=300)
def a_node_answers_for_itself_alone():
    """The first node lies about the second one, about a file and in colours; what is remembered is the oracle."""
    with cluster() as s:
        version = brig("--version", env=s.env).stdout.split()[-1].decode()
        liar = scratch() / "liar"
        words = [f"brig-far {version} {name} {word}" for name in ("n2", "/etc/passwd", "n1,n2", "\\033[31mn2") for word in ("no it has gone", "ok", "no")]
        liar.write_text("#!/bin/sh\nif [ \"$2$SLURMD_NODENAME\" = proben1 ]; then\n" + "".join(f"printf '{w}\\n'\n" for w in words if w.split()[3] != "ok" or "n2" != w.split()[2])
                        + f"fi\nexec {brig_path()} \"$@\"\n")
        liar.chmod(0o755)
        for name in slurm.NODES:
            said = brig("run", *options("--set", f"slurm.nodelist={name}", program=liar), "--json", "--", "true", env=s.env).json
            assert (said["outcome"], said["node"]) == ("exited", name), said
        said = brig("run", *options(program=liar), "--json", "--", "true", env=s.env).json
        assert said["outcome"] == "exited", said
        kept = [f.read_text().splitlines() for f in state().glob("**/slurm/*")]
        assert ["2 2", "", ""] in [k[:3] for k in kept] and not [k for k in kept if "/" in k[1]], kept
        # It says so much, or ends its line so badly, that nobody else could be heard; the other one comes a second later.
        own = f"brig-far {version} n1 ok"
        for how in (f"echo {own}; head -c 3000000 /dev/zero | tr '\\0' x", f"echo {own}; printf 'and then'", f"echo {own}; printf '\\0'; exit"):
            liar.write_text(f"#!/bin/sh\nif [ $2 = probe ]; then [ $SLURMD_NODENAME = n1 ] || sleep 1; fi\nif [ \"$2$SLURMD_NODENAME\" = proben1 ]; then {how}; exit; fi\n"
                            f"exec {brig_path()} \"$@\"\n")
            for f in state().glob("**/slurm/*"):
                f.unlink()
            said = brig("run", *options(program=liar), "--json", "--", "true", env=s.env).json
            kept = [f.read_text().splitlines() for f in state().glob("**/slurm/*") if len(f.name) == 64]
            assert kept and not [k for k in kept if "n2" in k[1]], (how, kept, said)


def examined(s, *more, **rest):
    said = brig("doctor", *options(*more, **rest), "--json", env=s.env, timeout=120).json
    return {c["name"]: c for c in said["checks"]}


@test(limit=300)
def the_doctor_says_what_is_missing_and_what_to_do():
    with cluster(bind={"n1": [(None, str(brig_path()))]}) as s:
        rows = examined(s)
        states = {name: c["status"] for name, c in rows.items() if name.startswith("slurm_")}
        assert states == {"slurm_programs": "pass", "slurm_controller": "pass", "slurm_partition": "pass", "slurm_nodes": "pass",
                          "slurm_brig": "warn", "slurm_limits": "pass", "slurm_gpus": "pass", "slurm_accounting": "warn"}, rows
        assert "n1" in rows["slurm_brig"]["detail"] and rows["slurm_brig"]["hint"] and rows["slurm_accounting"]["hint"], rows
        rows = examined(s, "--set", "slurm.partition=nosuch")
        assert rows["slurm_partition"]["status"] == "fail" and "nosuch" in rows["slurm_partition"]["detail"] and rows["slurm_nodes"]["status"] == "skip", rows
        s.run("scontrol", "update", "PartitionName=second", "State=DOWN")
        assert examined(s, "--set", "slurm.partition=second")["slurm_partition"]["status"] == "fail"
        s.run("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=test")
        rows = examined(s)
        assert rows["slurm_nodes"]["status"] == "warn" and "n2 d" in rows["slurm_nodes"]["detail"], rows["slurm_nodes"]
        assert rows["slurm_brig"]["status"] == "fail", rows["slurm_brig"]
        s.kill("ctld")
        rows = examined(s)
        assert rows["slurm_controller"]["status"] == "fail" and rows["slurm_controller"]["hint"], rows


@test(limit=300)
def a_batch_runs_its_lines_there():
    with cluster() as s:
        (scratch() / "lines").write_text("".join(json.dumps({"argv": ["sh", "-c", f"echo {i}; exit {i % 3 == 2:d}"], "id": str(i)}) + "\n" for i in range(12)))
        done = brig("batch", *options("--out", str(scratch() / "out"), "--jobs", "4"), str(scratch() / "lines"), env=s.env, timeout=60)
        assert done.status == 1, done
        lines = [json.loads(line) for line in (scratch() / "out/results.jsonl").read_text().splitlines()]
        assert sorted(int(line["result"]["stdout"]) for line in lines) == list(range(12))
        assert sum(line["class"] == "exit" for line in lines) == 4
        assert wait_until(lambda: not s.queue(), 30)


if __name__ == "__main__":
    sys.exit(main())
