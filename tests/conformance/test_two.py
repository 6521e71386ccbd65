# SPDX-License-Identifier: Apache-2.0
"""Two commands, one sandbox: what brig.h promises of a sandbox that stays open, on every backend that has one."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "lib")]

import engine
import record
import sshd
from backends import CLUSTER
from harness import PATIENCE, around, brig, descendants, files_as_root, identity, main, scratch, state, test, uid, wait_until, workspace
from open_sandbox import DRIVER, FarSandbox, Sandbox

if CLUSTER:
    import kube_cluster

ENGINES = ("docker", "podman") if os.geteuid() == 0 else ()
LIMITED = ("native", "bwrap", "ssh-brig", *ENGINES[:1])  # with all limits; what Podman keeps of them is the engine's to say
SANDBOXED = ("native", "bwrap", "ssh-brig", *ENGINES)
FAR = ("kubernetes",) if CLUSTER and os.geteuid() == 0 else ()  # whose workspace is a copy
STAYS = (*SANDBOXED, "none", *FAR)  # what a command has left running
OPEN = (*STAYS, "ssh")
engines = {}  # by kind, and who starts brig
cluster = {}  # that tests share


@contextlib.contextmanager
def running_engines(folder):
    folder.mkdir()
    folder.chmod(0o755)
    with contextlib.ExitStack() as all:
        docker = all.enter_context(engine.Dockerd(folder / "d"))
        docker.import_image(engine.python_tar())
        for who, uid in (("root", 0), ("user", engine.ORDINARY)):
            engines["docker", who] = docker
            engines["podman", who] = all.enter_context(engine.Podman(folder / who, uid))
            engines["podman", who].import_image(engine.busybox_tar())
        yield


@contextlib.contextmanager
def running_cluster(folder):
    folder.mkdir()
    folder.chmod(0o755)
    there = os.environ.get("BRIG_KUBE")  # one that runs already
    with contextlib.nullcontext(kube_cluster.Cluster.running(there)) if there else kube_cluster.Cluster(folder / "c") as c:
        c.load(engine.python_tar(), engine.PYTHON_IMAGE)
        c.load_helper(DRIVER.parents[1])
        cluster["c"], cluster["account"] = c, c.deploy()
        yield


if ENGINES:
    around(running_engines)
if FAR:
    around(running_cluster)


def over_ssh(host):
    return "ssh.host=box", f"ssh.config_file={host.config}", "ssh.control_persist=30s", f"ssh.remote_cwd={workspace()}"


BRIG_THERE = "ssh.remote=brig"


@contextlib.contextmanager
def opened(*settings):
    """An open sandbox on the backend of this test."""
    if here() == "ssh":
        with sshd.Sshd() as host, Sandbox("ssh", *over_ssh(host), *settings, folder=False) as s:
            yield s
        return
    if here() == "ssh-brig":
        with sshd.Sshd() as host:
            with Sandbox("ssh", *over_ssh(host), BRIG_THERE, *settings, folder=False, env={"BRIG_BACKEND": None}) as s:
                s.host = host
                yield s
            assert wait_until(lambda: not of_brig()), descendants()
            assert not (state() / "brig/hold").exists()
        return
    if here() in FAR:
        with in_a_pod(*settings) as s:
            yield s
        return
    if here() not in ENGINES:
        with Sandbox(here(), *settings) as s:
            yield s
        return
    if identity() == "root":  # whose command is user 1000 in a container
        os.chown(workspace(), 1000, 1000)
    e = engines[here(), identity()]
    with Sandbox("docker", f"image={engine.IMAGE}", *settings, env={"DOCKER_HOST": e.host, "BRIG_BACKEND": None}) as s:
        yield s
    assert not s.processes() and wait_until(lambda: not s.containers(e)), (s.processes(), s.containers(e))


@contextlib.contextmanager
def in_a_pod(*settings):
    """Left of it is nothing, there or here. agent-sandbox's kinds are there, and no controller."""
    mine = scratch() / "kubeconfig"
    with files_as_root():
        shutil.copy(cluster["account"], mine)
        mine.chmod(0o600)
        os.chown(mine, uid(), uid())
    with FarSandbox("kubernetes", f"image={engine.PYTHON_IMAGE}", f"kubernetes.helper_image={kube_cluster.HELPER_IMAGE}", "kubernetes.use=pod", *settings,
                    env={"KUBECONFIG": str(mine), "BRIG_BACKEND": None}) as s:
        yield s
    assert wait_until(lambda: not s.processes() and not of_brig(), 60), (s.processes(), of_brig())


def inside(s):
    """Names of what runs, seen from the host."""
    if here() in FAR:  # on its node, but for the kubelet's own part of a pod
        return [n for n in s.processes().values() if n != "kube_pause"]
    return list((s.processes() if here() in ENGINES else descendants()).values())


def refused(setting, words):
    s = Sandbox("docker", f"image={engine.IMAGE}", setting, env={"DOCKER_HOST": engines["docker", identity()].host, "BRIG_BACKEND": None})
    assert s.opened.startswith("error ") and words in s.opened, s.opened
    s.process.stdin.close()
    assert s.process.wait(20 * PATIENCE) == 1


def of_brig():
    return [n for n in descendants().values() if n.startswith("brig-") and n != "brig-guard"]


def backend():
    return "docker" if here() in ENGINES else here().partition("-")[0]


def inner():
    """What the command is told that it is in."""
    return "" if here() == "none" else "native" if here() == "ssh-brig" else backend()


def ended(r):
    return r["outcome"], r["exit_code"]


def here():
    return os.environ["BRIG_BACKEND"]


@test(backends=OPEN)
def files_of_the_first_are_seen_by_the_second():
    with opened() as s:
        private = here() in (*SANDBOXED, *FAR)
        assert ended(s.run(1, "echo one > f" + "; echo two > /tmp/g; echo three > ~/h" * private)) == ("exited", 0)
        r = s.run(2, "cat f" + " /tmp/g ~/h" * private)
        assert (r["outcome"], r["stdout"]) == ("exited", "one\n" + "two\nthree\n" * private), r
        assert s.text("f") == "one\n"
        r = s.say("close")
        assert r["outcome"] == "exited" and (r["isolation"]["seccomp"] == "default") == private and r["backend"] == backend()


@test(backends=OPEN)
def commands_run_beside_each_other_and_their_output_does_not_mix():
    with opened() as s:
        line = "i=0; while [ $i -lt 300 ]; do echo {0}; echo {0} >&2; i=$((i+1)); done; : > {0}; while [ ! -e {1} ]; do sleep 0.01; done"
        s.start(1, line.format("one", "two"))
        s.start(2, line.format("two", "one"))
        for number, word in ((2, "two"), (1, "one")):
            r = s.wait(number)
            assert (ended(r), r["stdout"], r["stderr"]) == (("exited", 0), f"{word}\n" * 300, f"{word}\n" * 300)


@test(backends=OPEN)
def each_has_its_own_input_variables_folder_and_status():
    with opened("env.set=A=sandbox", "env.set=B=sandbox") as s:
        assert s.say("input 1 words") == "ok" and s.say("folder 1 /tmp") == "ok"
        r = s.run(1, "cat; echo; pwd; echo $A $B $BRIG_SANDBOX; exit 3", env__set="A=command")
        assert (ended(r), r["stdout"]) == (("exited", 3), f"words\n/tmp\ncommand sandbox {inner()}\n".replace(" \n", "\n")), r
        r = s.run(2, "cat; pwd; echo $A; kill -USR1 $$")
        assert (r["outcome"], r["signal"], r["stdout"]) == ("signalled", 10, f"{workspace()}\nsandbox\n"), r
        assert s.say("folder 3 /nowhere") == "ok"
        r = s.run(3, "true")
        words = "has no folder '/nowhere'" if here() == "ssh" else "cannot enter '/nowhere'"
        assert r["outcome"] == "refused" and words in r["error"]["what"], r


@test(backends=OPEN)
def ending_one_command_leaves_the_other():
    with opened() as s:
        s.start(1, ": > one; sleep 100")
        s.start(2, ": > two; while [ ! -e go ]; do sleep 0.01; done; echo done")
        s.until("one"), s.until("two")
        assert s.say("cancel 1") == "ok"
        assert s.wait(1)["outcome"] == "cancelled"
        s.touch("go")
        r = s.wait(2)
        assert (ended(r), r["stdout"]) == (("exited", 0), "done\n"), r


@test(backends=OPEN)
def a_time_limit_is_the_commands_own():
    with opened() as s:
        r = s.run(1, "(setsid sleep 100 &); sleep 100", limits__timeout="300ms")
        assert r["outcome"] == "timeout" and r["limits_hit"] == ["timeout"], r
        assert s.run(2, "ls /proc | grep -c '^[0-9]'")["outcome"] == "exited"


@test(backends=OPEN)
def ending_the_sandbox_ends_both():
    with opened() as s:
        s.start(1, ": > one; setsid sleep 100; :")
        s.start(2, ": > two; sleep 100")
        s.until("one"), s.until("two")
        assert s.say("close")["outcome"] == "exited"
        ends = [s.wait(n) for n in (1, 2)]
        assert [r["outcome"] for r in ends] == ["cancelled", "cancelled"], [(r["outcome"], r["error"]) for r in ends]
        # Over ssh the other side ends what is its own when the connection has.
        assert wait_until(lambda: not any("sleep" in n or "brig-" in n for n in inside(s)), 10), inside(s)


@test(backends=OPEN)
def the_death_of_brig_ends_all():
    with opened() as s:
        s.start(1, "setsid sleep 100 & : > one; sleep 100")
        s.until("one")
        s.process.kill()
        s.process.wait()
        assert wait_until(lambda: not any("sleep" in n or "brig-" in n for n in inside(s))), inside(s)
        s.process = subprocess.Popen(["true"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert brig("run", "--backend", "native", "--", "true", env={"BRIG_BACKEND": None}).status == 0  # tidies up behind it


MOST = 12


@test(backends=LIMITED)
def processes_are_counted_together():
    code = ("import os, time\nn = 0\ntry:\n  while n < 60:\n    if os.fork() == 0:\n      time.sleep(60)\n      os._exit(0)\n    n += 1\n"
            "except OSError: pass\nwith open('new', 'w') as f: f.write(str(n))\nos.rename('new', os.environ['NAME'])\ntime.sleep(60)\n")
    (workspace() / "forks.py").write_text(code)
    with opened(f"limits.pids={MOST}") as s:
        s.start(1, "exec python3 forks.py", env__set="NAME=one")
        s.until("one")
        first = int(s.text("one"))
        assert first <= MOST, first
        s.start(2, "exec sleep 60")
        assert s.say("turn 100") == "ok"
        forks = [n for n in inside(s) if n.startswith("python3")]
        assert len(forks) <= MOST + 1, forks
        r = s.say("close")
        assert "pids" in r["limits_hit"], r


@test(backends=LIMITED)
def memory_is_one_for_all_and_its_end_is_told_to_each():
    eat = "python3 -c \"b = bytearray(90 << 20); open('{0}', 'w'); import time; time.sleep(60)\""
    with opened("limits.memory=128m") as s:
        s.start(1, eat.format("one"))
        s.until("one")
        s.start(2, eat.format("two"))
        assert [s.wait(n)["outcome"] for n in (2, 1)] == ["oom", "oom"]
        # From another host its own end may come a moment after its commands'.
        assert s.say("turn 1000") == "ok"
        r = s.say("close")
        assert r["outcome"] == "oom", r


@test(backends=LIMITED)
def what_is_written_to_disk_is_counted_over_all():
    """Each by a process of its own, which is gone before anybody could look."""
    if here() == "docker" and identity() == "user":
        refused("limits.disk=16m", "limits.disk cannot be kept in a container that stays open")
        return
    with opened("limits.disk=16m") as s:
        line = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do dd if=/dev/urandom of={0} bs=1M count=2 conv=fsync 2> /dev/null; done; : > {0}-done"
        first = s.run(1, line.format("a") + "; exec sleep 60", limits__timeout="20s")
        second = s.run(2, line.format("b")) if first["outcome"] == "exited" else first
        assert first["outcome"] == "limit" or second["outcome"] in ("limit", "refused"), (first, second)
        assert "disk" in s.say("close")["limits_hit"]


@test(backends=[b for b in LIMITED if b != "ssh-brig"])  # over ssh there is no network 'proxy', and that is refused
def the_door_is_the_sandboxs_and_hears_each_command():
    ask = ("import urllib.request, urllib.error\ntry: urllib.request.urlopen('http://{0}/', timeout=5)\n"
           "except urllib.error.HTTPError as e: print(e.code)\n")
    with opened("network=proxy") as s:
        for number, host in ((1, "one.invalid"), (2, "two.invalid")):
            (workspace() / "ask.py").write_text(ask.format(host))
            r = s.run(number, "python3 ask.py")
            assert (ended(r), r["stdout"]) == (("exited", 0), "403\n"), r
        r = s.say("close")
        assert r["egress"]["denied"] == 2 and {d["target"] for d in r["denials"]} >= {"one.invalid:80", "two.invalid:80"}, r


@test(backends=SANDBOXED)
def protected_names_hold_for_every_command():
    (workspace() / ".git/hooks").mkdir(parents=True)
    (workspace() / ".git/HEAD").write_text("ref: refs/heads/main\n")
    with opened() as s:
        for number in (1, 2):
            r = s.run(number, "echo x > .git/hooks/pre-commit; echo x > .envrc; ls -A .git/hooks")
            assert r["stdout"] == "" and "pre-commit" in r["stderr"], r
        s.say("close")
    assert not (workspace() / ".git/hooks/pre-commit").exists() and not (workspace() / ".envrc").exists()


@test(backends=("ssh",))
def what_a_command_leaves_running_ends_with_it_where_nobody_of_brig_is():
    with opened() as s:
        r = s.run(1, "setsid sleep 100 & echo out")
        assert (ended(r), r["stdout"]) == (("exited", 0), "out\n"), r
        assert wait_until(lambda: not any(n == "sleep" for n in s.processes().values())), s.processes()


@test(backends=STAYS)
def what_a_command_leaves_running_stays_and_its_streams_hold_nobody():
    with opened() as s:
        began = time.monotonic()
        r = s.run(1, "(while [ ! -e go ]; do sleep 0.01; done; echo late > came) > /dev/null & sleep 100 & echo out")
        assert (ended(r), r["stdout"]) == (("exited", 0), "out\n") and time.monotonic() - began < 30
        assert ended(s.run(2, ": > go; while [ ! -e came ]; do sleep 0.01; done")) == ("exited", 0)


@test(backends=OPEN)
def one_that_cannot_be_executed_is_refused_and_the_sandbox_stays():
    with opened() as s:
        s.say("set 1 env.set PATH=/nowhere")
        r = s.run(1, "true")
        assert ended(r) == ("exited", 0), r  # /bin/sh has a path
        r = s.run(2, "no-such-command")
        assert ended(r) == ("exited", 127)
        for number in range(3, 20):
            r = s.run(number, "true")
            assert ended(r) == ("exited", 0), r


@test(backends=OPEN)
def a_setting_of_the_sandbox_is_refused_for_a_command():
    with opened() as s:
        for number, (key, value) in enumerate({"limits.memory": "1g", "network": "host", "workspace.path": "/", "read": "/etc",
                                               "env.pass": "HOME", "backend": "none"}.items()):
            said = s.say(f"set {number} {key} {value}")
            assert said == "ok", said
            r = s.run(number, "true")
            assert r["outcome"] == "refused" and f"'{key}' is a setting of the sandbox" in r["error"]["what"], r
        assert s.say("folder 20 /nowhere") == "ok" and s.run(20, "true")["outcome"] == "refused"
        assert s.say("set 20 network host") == "ok" and s.say("exec 20 true") == "ok"
        assert s.say("close")["outcome"] == "exited"
        assert s.wait(20)["outcome"] == "refused"  # and outlives the sandbox


@test(backends=[b for b in OPEN if b not in FAR])  # where a look at the workspace is a command, on the record as well
def each_is_on_the_record_before_and_after():
    def ours(records):  # a brig on the other side writes a record of its own, here into the same one
        runs = {r["run"] for r in records if r["type"] == "sandbox.create" and r["backend"] == backend()}
        return [r for r in records if r["run"] in runs]

    with opened() as s:
        s.start(1, ": > one; while [ ! -e go ]; do sleep 0.01; done; exit 4")
        s.until("one")
        begun = ours(record.records(state() / "brig/audit"))
        s.touch("go")
        assert ended(s.wait(1)) == ("exited", 4)
        sandbox = s.say("close")["id"]
    all = ours(record.verified(state() / "brig/audit"))
    assert [(r["type"], r["run"] == sandbox, r.get("argv0")) for r in begun] == [
        ("sandbox.create", True, None), ("sandbox.create", False, "/bin/sh")], begun
    assert [(r["type"], r["run"] == sandbox, r["rc"]) for r in all[2:]] == [("sandbox.exec", False, 4), ("sandbox.exec", True, 0)], all


@test
def a_host_that_cannot_be_reached_is_refused_when_it_is_opened():
    with sshd.Sshd() as host:
        s = Sandbox("ssh", *over_ssh(host)[:-1], "ssh.remote_cwd=/nowhere", folder=False)
        assert s.opened.startswith("error ") and "has no folder '/nowhere'" in s.opened, s.opened
        s.process.stdin.close()
        assert s.process.wait(20 * PATIENCE) == 1


@test(backends=ENGINES[:1])
def a_runtime_with_a_kernel_of_its_own_is_refused_by_name():
    refused("runtime=runsc", "a sandbox cannot stay open with runtime 'runsc'")


if __name__ == "__main__":
    sys.exit(main())
