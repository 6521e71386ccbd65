#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Pods from start to end against a scripted API server, whose attach runs the real brig-pod in namespaces of its own."""

import contextlib
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import brig, brig_argv, brig_environment, brig_path, files_as_root, home, identity, main, scratch, start_brig, state, test, wait_until, workspace  # noqa: E402
from podcluster import PODS, SETTINGS, cluster, environment, is_ours, pods, read, some  # noqa: E402


def run(api, *args, command, workspace="empty", **more):
    return brig("run", *SETTINGS, "--set", f"kubernetes.workspace={workspace}", *args, "--", *command, env=environment(api), timeout=60, **more)


def on_host(*argv, cwd):
    """A command on the host, as this test's identity."""
    with files_as_root():
        subprocess.run([*(w for w in brig_argv() if not w.endswith("/brig")), *argv], cwd=cwd, env=brig_environment(), check=True, capture_output=True, stdin=subprocess.DEVNULL)


def sh(api, text, *args, **more):
    return run(api, *args, command=("sh", "-c", text), **more)


@test(as_user="both")
def streams_and_status_are_the_commands_own():
    with cluster() as api:
        done = sh(api, "cat; echo wrong >&2; exit 3", input=b"in\n")
        assert (done.status, done.stdout) == (3, b"in\n") and b"wrong\n" in done.stderr, done
        done = sh(api, "echo $0 $BRIG_SANDBOX $IMAGE_SAYS $KUBERNETES_SERVICE_HOST; id -u; pwd; kill -9 $$", "--json").json
        assert (done["outcome"], done["signal"]) == ("signalled", 9), done
        assert done["stdout"].split("\n")[:3] == ["sh kubernetes so", "1000", str(workspace())], done["stdout"]
        assert sh(api, "yes | head -n 1; exit 5", "--json").json["stderr"] == "", "commands do not die of a broken pipe"
        assert done["pod"]["uid"] and done["pod"]["namespace"] == "default", done["pod"]
        assert not pods(api), pods(api)


@test
def much_goes_both_ways_and_nothing_is_lost():
    data = os.urandom(3 << 20)
    with cluster() as api:
        done = sh(api, "tee /dev/stderr | sha256sum; head -c 2000000 /dev/zero", input=data)
        digest = hashlib.sha256(data).hexdigest().encode()
        assert done.stdout == digest + b"  -\n" + bytes(2000000), done.stdout[:100]
        assert hashlib.sha256(done.stderr).hexdigest().encode() == digest, len(done.stderr)


@test
def a_run_ends_with_all_it_started():
    """The control is the same line without an end: it is seen, on the host, and then is not."""
    marks = [f"1{os.getpid()}{i}.5" for i in range(3)]

    def seen():
        return [m for m in marks for p in pathlib.Path("/proc").glob("[0-9]*/cmdline") if m.encode() in read(p)]

    with cluster() as api:
        line = f"setsid sleep {marks[0]} & (setsid sleep {marks[1]} &) ; sleep {marks[2]} & sleep 1; "
        p = start_brig("run", *SETTINGS, "--set", "kubernetes.workspace=empty", "--", "sh", "-c", line + "sleep 60", env=environment(api))
        wait_until(lambda: len(set(seen())) == 3, 40)
        p.send_signal(signal.SIGTERM)
        p.wait(60)
        wait_until(lambda: not seen(), 20)
        assert sh(api, line + "exit 0").status == 0
        wait_until(lambda: not seen(), 20)
        assert sh(api, f"sleep {marks[0]}", "--timeout", "1s").status == 124
        wait_until(lambda: not seen() and not pods(api), 20)


@test(as_user="both")
def what_cannot_be_executed_is_told_as_everywhere():
    with cluster() as api:
        done = run(api, command=("nonesuch",))
        assert done.status == 127 and b"nonesuch" in done.stderr and not pods(api), done


@test
def a_pod_that_is_otherwise_than_asked_for_is_refused():
    marker = workspace() / "ran"
    for word, says in (("root", b"another user"), ("caps", b"capabilities"), ("privileges", b"privileges"), ("filter", b"filter"),
                       ("writable", b"root can be written"), ("token", b"token"), ("network", b"not closed")):
        with cluster(word) as api:
            done = sh(api, f"echo ran > {marker}; echo ran")
            assert done.status == 125 and says in done.stderr and b"ran" not in done.stdout, (word, done)
            assert not pods(api), word
    with cluster() as api:  # the control
        assert sh(api, "echo ran").stdout == b"ran\n"


def _in(kind, n=0):
    """Something is added to the n-th of a kind."""
    return lambda **more: lambda pod: pod["spec"][kind][n].update(more)


def _spec(**more):
    return lambda pod: pod["spec"].update(more)


def _more(kind, thing):
    return lambda pod: pod["spec"].setdefault(kind, []).append(thing)


def _note(**more):
    return lambda pod: pod["metadata"].setdefault("annotations", {}).update({k.replace("__", "/").replace("_", "."): v for k, v in more.items()})


def _rights(n=0, kind="containers", **more):
    return lambda pod: pod["spec"][kind][n]["securityContext"].update(more)


def _limit(what, amount):
    return lambda pod: pod["spec"]["containers"][0]["resources"]["limits"].update({what: amount})


HOOK = {"exec": {"command": ["/bin/sh", "-c", "true"]}}
CHANGES = {
    "sidecar": _more("containers", {"name": "proxy", "image": "mesh"}),
    "token": _more("volumes", {"name": "token", "projected": {}}),
    "privileged": _rights(privileged=True),
    "hostNetwork": _spec(hostNetwork=True),
    "lifecycle": _in("containers")(lifecycle={"postStart": HOOK}),
    "livenessProbe": _in("containers")(livenessProbe=HOOK),
    "args": _in("containers")(args=["x"]),
    "command": _in("initContainers")(command=["/brig-pod", "put", "/brig/brig-pod"]),
    "volumeDevices": _in("containers")(volumeDevices=[{"name": "workspace", "devicePath": "/dev/x"}]),
    "claim": lambda pod: (pod["spec"]["volumes"][3].pop("emptyDir"), pod["spec"]["volumes"][3].update(persistentVolumeClaim={"claimName": "theirs"})),
    "readOnly": lambda pod: pod["spec"]["containers"][0]["volumeMounts"][0].pop("readOnly"),
    "subPath": lambda pod: pod["spec"]["containers"][0]["volumeMounts"][3].update(subPath="x"),
    "propagation": lambda pod: pod["spec"]["containers"][0]["volumeMounts"][3].update(mountPropagation="Bidirectional"),
    "procMount": _rights(procMount="Unmasked"),
    "unconfined": _rights(appArmorProfile={"type": "Unconfined"}),
    "selinux": _rights(seLinuxOptions={"type": "spc_t"}),
    "seccomp": _rights(seccompProfile={"type": "Unconfined"}),
    "init seccomp": _rights(0, "initContainers", seccompProfile={"type": "Unconfined"}),
    "groups": lambda pod: pod["spec"]["securityContext"].update(supplementalGroups=[0]),
    "sysctls": lambda pod: pod["spec"]["securityContext"].update(sysctls=[{"name": "kernel.shm_rmid_forced", "value": "0"}]),
    "memory": _limit("memory", "1Ti"),
    "device": _limit("vendor.example/device", "1"),
    "claims": _spec(resourceClaims=[{"name": "x", "resourceClaimName": "y"}]),
    "always": _spec(restartPolicy="Always"),
    "sidecar of old": _in("initContainers")(restartPolicy="Always"),
    "deadline": lambda pod: pod["spec"].pop("activeDeadlineSeconds"),
    "stdinOnce": lambda pod: pod["spec"]["containers"][0].pop("stdinOnce"),
    "variables": _in("initContainers")(env=[{"name": "X", "value": "y"}]),
    "apparmor": _note(container_apparmor_security_beta_kubernetes_io__main="unconfined"),
    "devices": _note(cdi_k8s_io__x="vendor.example/device=all"),
}

# What API servers and their usual admission add to any pod.
USUAL = {
    "spec": {"nodeName": "node-1", "schedulerName": "default-scheduler", "serviceAccount": "default", "serviceAccountName": "default", "priority": 0,
             "preemptionPolicy": "PreemptLowerPriority",
             "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]},
    "container": {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
                  "resizePolicy": [{"resourceName": "memory", "restartPolicy": "NotRequired"}]},
}


def usual(pod):
    pod["spec"].update(USUAL["spec"])
    pod["metadata"].setdefault("annotations", {})["kubernetes.io/limit-ranger"] = "LimitRanger plugin set: cpu limit"
    pod["metadata"]["annotations"]["cni.projectcalico.org/podIP"] = "10.1.1.1/32"
    for c in pod["spec"]["containers"] + pod["spec"]["initContainers"]:
        c.update(USUAL["container"])
        c.pop("tty", None)
        for variable in c.get("env", []):
            variable["valueFrom"]["fieldRef"]["apiVersion"] = "v1"
        for part in c["resources"].values():
            part["ephemeral-storage"] = "1Gi"
            part["cpu"] = {"100m": "0.1"}.get(part.get("cpu"), part.get("cpu", "500m"))
            part["memory"] = {str(1 << 30): "1Gi", str(2 << 30): "2Gi", str(512 << 20): "512Mi"}.get(part["memory"], part["memory"])


@contextlib.contextmanager
def admission(change):
    """A cluster that changes each pod as it takes it in."""
    with cluster() as api:
        put, taken = api.store.put, set()

        def changed(path, thing, *rest):
            if path.startswith(PODS) and path not in taken:
                change(thing)
                taken.add(path)
            return put(path, thing, *rest)

        api.store.put = changed
        yield api


@test(limit=240)
def a_pod_that_admission_has_changed_is_refused():
    held = []
    for name, change in some(CHANGES.items()):
        with admission(change) as api:
            done = sh(api, "echo ran")
            if done.status != 125 or b"otherwise than asked for" not in done.stderr or b"ran" in done.stdout or api.attached:
                held.append((name, done.status, done.stderr))
            assert not pods(api), name
    assert not held, held
    with admission(usual) as api:  # the control
        done = sh(api, "echo ran")
        assert done.stdout == b"ran\n", done


@test(as_user="root")
def a_network_that_is_the_nodes_is_not_closed():
    """In a network of its own, with a device that is up: the oracle is the kernel's list of devices."""
    pod = brig_path().parent / "brig-pod"
    script = f"ip link add eth0 type veth peer name eth1; ip link set eth0 up; {pod} close /tmp/put-$$; echo $?; rm -f /tmp/put-$$; ip -o link show eth0 | grep -c '[<,]UP[,>]'"
    for own, node, says in (("10.1.0.5", "10.0.0.1", ["0", "0"]), ("", "10.0.0.1", ["0", "0"]), ("10.0.0.1", "10.0.0.1", ["125", "1"]), (None, None, ["125", "1"])):
        told = {} if own is None else {"BRIG_POD_ADDRESS": own, "BRIG_NODE_ADDRESS": node}
        done = subprocess.run(["unshare", "--net", "sh", "-c", script], env={"PATH": os.environ["PATH"], **told}, capture_output=True, text=True, check=False)
        assert done.stdout.split() == says, (own, node, done)


def no_net_admin(pod):
    """As the Pod Security level "baseline" has it."""
    added = [c for c in pod["spec"]["initContainers"] if c["securityContext"]["capabilities"].get("add")]
    return added and 'pods "x" is forbidden: violates PodSecurity "baseline:latest": non-default capabilities'


@test(as_user="both", limit=120)
def where_no_container_may_have_net_admin_a_policy_closes_the_network_or_nothing_runs():
    """What decides is the probe from inside: in namespaces of their own, with listeners where a cluster has its services."""
    accept = ("--set", "kubernetes.node_reachable=accept")
    cases = [((), (), "policy"), (("reach-node",), (), None)]
    cases += [(("reach-api",), accept, None), (("late-policy",), (), "policy"), (("networks",), accept, None), (("reach-names",), (), None)] if identity() == "root" else [
        (("reach-node",), accept, "policy, node reachable"), (("reach-dns",), accept, None), (("late-network",), (), None), (("network",), (), "policy")]  # each takes seconds
    for words, flags, says in cases:
        with cluster(*words) as api:
            api.refusal, api.node = no_net_admin, "10.9.9.9"
            done = sh(api, "echo ran", "--json", *flags).json
            policies = [r for r in api.requests if r["method"] == "POST" and r["path"].endswith("/networkpolicies")]
            assert len(policies) == 1 and not pods(api), (words, policies)
            if says:
                assert (done["stdout"], done["isolation"]["network_by"]) == ("ran\n", says), (words, done)
            else:
                assert done["outcome"] == "refused" and "not closed" in done["error"]["what"] and not done["stdout"], (words, done)
    with cluster() as api:  # without the policy there is nothing that closes it
        api.refusal = no_net_admin
        api.script("POST", ".*/networkpolicies", status=403)
        done = sh(api, "echo ran", "--json").json
        assert done["outcome"] != "exited" and "NetworkPolicy" in done["error"]["what"] and not pods(api), done
    with cluster() as api:  # what is refused without it as well is told as it was
        api.refusal = lambda pod: "quota" if no_net_admin(pod) else "another"
        done = sh(api, "echo ran", "--json").json
        assert done["outcome"] != "exited" and "quota" in done["error"]["what"] and not pods(api), done
    with cluster() as api:  # the control: where it may, it does
        done = sh(api, "echo ran", "--json").json
        assert done["stdout"] == "ran\n" and "network_by" not in done["isolation"], done


@test
def a_container_that_somebody_adds_later_ends_the_run():
    with cluster() as api:
        p = start_brig("run", *SETTINGS, "--set", "kubernetes.workspace=empty", "--json", "--", "sleep", "50", env=environment(api))
        wait_until(lambda: api.attached and pods(api), 40)
        time.sleep(1)
        [path] = pods(api)
        pod = json.loads(json.dumps(api.store.objects[path]))
        pod["status"]["message"] = "a control: this is nobody's harm"
        api.store.put(path, pod)
        time.sleep(1)
        assert p.poll() is None
        pod = json.loads(json.dumps(pod))
        pod["spec"]["ephemeralContainers"] = [{"name": "debugger", "image": "x", "targetContainerName": "main"}]
        api.store.put(path, pod)
        out, _ = p.communicate(timeout=40)
        done = json.loads(out)
        assert done["outcome"] == "failed" and "ephemeralContainers" in str(done["error"]), done
        wait_until(lambda: not pods(api), 20)


@test
def a_pod_that_took_the_name_of_ours_gets_nothing():
    (workspace() / "secret").write_text("mine")
    with cluster() as api:
        begun = []

        class Attached(dict):
            def __setitem__(self, path, process):
                """The name is somebody else's by now, and the watch is late."""
                begun.append(path)
                api.store.objects[path] = json.loads(json.dumps(api.store.objects[path]))
                api.store.objects[path]["metadata"]["uid"] = "another"
                super().__setitem__(path, process)

        api.attached = Attached()
        done = sh(api, "cat secret", workspace="copy")
        assert begun and done.status == 125 and b"another one has its name" in done.stderr and b"mine" not in done.stdout, done


@test(as_user="both")
def the_workspace_goes_there_and_what_changed_comes_back():
    work = workspace()
    (work / "src").mkdir()
    (work / ".git/hooks").mkdir(parents=True)
    (work / "src/a").write_text("one\n")
    (work / "src/b").write_text("two\n")
    (work / "same").write_text("same\n")
    (work / ".envrc").write_text("mine\n")
    time.sleep(1.1)  # later changes here are the user's
    with cluster() as api:
        done = sh(api, "cat src/a; echo more >> src/a; rm src/b; mkdir out; echo new > out/c; echo evil > .git/hooks/post-commit; echo evil > .envrc;"
                  "mkdir -p deep/.vscode; echo evil > deep/.vscode/tasks.json; ln -s /etc/passwd link; mkfifo pipe; exit 4", "--json", workspace="copy").json
    assert done["exit_code"] == 4 and done["stdout"] == "one\n", done
    assert (work / "src/a").read_text() == "one\nmore\n" and (work / "out/c").read_text() == "new\n"
    assert (work / "same").read_text() == "same\n" and (work / ".envrc").read_text() == "mine\n"
    assert not (work / ".git/hooks/post-commit").exists() and not (work / "deep/.vscode").exists()
    assert not (work / "link").exists() and not (work / "pipe").exists() and (work / "src/a").stat().st_uid == work.stat().st_uid
    assert {d["target"] for d in done["denials"]} == {".envrc", ".git/hooks/post-commit", "deep/.vscode"}, done["denials"]
    changes = [json.loads(line) for f in state().glob("**/changes/*.jsonl") for line in f.read_text().splitlines()]
    assert {"path": "out/c", "change": "made", "sha256": hashlib.sha256(b"new\n").hexdigest()} in changes, changes


# Repositories by the letters of a file system to which case is all one; what is there before, and what the pod makes of it.
IN_OTHER_LETTERS = {
    "bare": ((), "mkdir -p bare/Objects bare/Refs; touch bare/Objects/o bare/Refs/r bare/head; echo evil > bare/Config", "bare"),
    "deep/er": ((), "mkdir -p deep/er/OBJECTS deep/er/rEFS; touch deep/er/OBJECTS/o deep/er/rEFS/r deep/er/Head; echo evil > deep/er/config", "deep"),
    "tree": ((), "mkdir tree; echo ref > tree/Head; echo evil > tree/CommonDir", "tree"),
    "half": (("half/Objects/o", "half/Refs/r"), "echo ref > half/head; echo evil > half/config", "half/head"),
    "rest": (("rest/hEAD",), "mkdir -p rest/objects rest/refs; touch rest/objects/o rest/refs/r; echo evil > rest/config", "rest/config"),
}


@test(as_user="both")
def a_repository_in_other_letters_stays_there_and_a_users_file_is_no_draft():
    work = workspace()
    for had, _, _ in IN_OTHER_LETTERS.values():
        for name in had:
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_text("mine\n")
    (work / ".brig-coming-home").write_text("mine\n")
    time.sleep(1.1)
    with cluster() as api:
        done = sh(api, "; ".join(text for _, text, _ in IN_OTHER_LETTERS.values()) + "; mkdir -p plain/objects; echo x > plain/objects/o; echo x > plain/config",
                  "--json", workspace="copy").json
    left = {str(p.relative_to(work)) for p in work.rglob("*") if p.is_file()}
    assert left == {".brig-coming-home", "plain/objects/o", "plain/config"} | {n for had, _, _ in IN_OTHER_LETTERS.values() for n in had}, left
    assert (work / ".brig-coming-home").read_text() == "mine\n"
    told = {d["target"] for d in done["denials"]}
    for _, _, target in IN_OTHER_LETTERS.values():
        assert any(t == target or t.startswith(target + "/") for t in told), (target, told)


@test(as_user="both")
def a_claim_is_the_workspace_and_stays_in_the_cluster():
    (workspace() / "here").write_text("mine\n")
    with cluster() as api:
        def there(text, *args, of="work"):
            return sh(api, text, "--set", f"kubernetes.claim={of}", *args, workspace="pvc")

        done = there("ls -A; echo kept > new; pwd; exit 3")
        assert (done.status, done.stdout) == (3, f"{workspace()}\n".encode()), done
        body = json.loads(next(r for r in api.requests if r["method"] == "POST" and r["path"] == PODS)["body"])["spec"]
        assert {"name": "workspace", "persistentVolumeClaim": {"claimName": "work"}} in body["volumes"] and body["securityContext"]["fsGroup"] == 1000, body
        assert there("cat new; rm new; echo other > other").stdout == b"kept\n"
        # Nothing went there, nothing comes home, and the list of changes is a copy's.
        assert os.listdir(workspace()) == ["here"] and not list(state().glob("**/changes/*.jsonl"))
        done = there("ls; for f in new other; do echo x > $f || echo refused; done; rm -f other; cat other", "--policy", "readonly")
        assert done.stdout == b"other\nrefused\nrefused\nother\n", done
        done = python(api, "-c", "import os; print(os.listdir(), __file__)", settings=("--set", "kubernetes.workspace=pvc", "--set", "kubernetes.claim=work"))
        assert done["stdout"] == "['other'] /code/_run.py\n", done
        assert there("ls -A", of="another").stdout == b"" and not pods(api)
        with files_as_root():
            assert sorted(os.listdir(api.folder / "volumes/claims")) == ["another", "work"] and os.listdir(api.folder / "volumes/claims/work") == ["other"]


@test(as_user="user")
def a_claim_that_is_not_there_is_told_and_not_waited_for():
    with cluster() as api:
        for text in ('0/3 nodes are available: 3 persistentvolumeclaim "work" not found.', 'persistentvolumeclaim "work" is being deleted'):
            def waits(path, _, text=text):
                pod = api.store.objects[path]
                pod["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}]}
                api.store.put(path, pod)

            api.begin = waits
            done = sh(api, "echo ran", "--set", "kubernetes.claim=work", workspace="pvc")
            assert done.status == 125 and b'persistentvolumeclaim "work"' in done.stderr and b"kubernetes.claim" in done.stderr and not pods(api), done


def python(api, *args, settings=(), **more):
    return brig("python", *SETTINGS, *settings, "--json", *args, env=environment(api), timeout=60, **more).json


@test(as_user="both")
def code_is_a_file_that_the_command_cannot_change():
    (workspace() / "here").write_text("copied\n")
    text = ("import os, sys\nprint(__file__, sys.argv[1:], open('here').read().strip(), sys.stdin.read())\n"
            "for how in (lambda: open(__file__, 'a'), lambda: os.chmod(__file__, 0o777), lambda: os.unlink(__file__), lambda: open('/code/new', 'w')):\n"
            "    try: how(); print('done')\n"
            "    except OSError as e: print(e.errno)\n"
            "open('made', 'w').write('x')\n")
    with cluster() as api:
        done = python(api, "-c", text, "a b", input=b"in")
        assert done["stdout"] == "/code/_run.py ['a b'] copied in\n13\n30\n30\n30\n", done
        assert (workspace() / "made").read_text() == "x" and not pods(api)
        large = f"s = '{'x' * (3 << 20)}'\nprint(len(s))\n"
        (workspace() / "large.py").write_text(large)
        assert python(api, "large.py")["stdout"] == f"{3 << 20}\n"
        done = brig("script", *SETTINGS, "--param", "who=you", "-", input=b"echo hello $WHO\n", env=environment(api), timeout=60)
        assert done.stdout == b"hello you\n", done


@test(as_user="both")
def code_may_lie_over_a_file_of_the_workspace_which_stays_as_it_was():
    (workspace() / "_run.py").write_text("the user's\n")
    with cluster() as api:
        place = ("--set", f"code.path={workspace()}/_run.py")
        for extra in ((), ("--policy", "readonly")):
            done = python(api, "-c", "print(__file__)\nopen(__file__, 'w')", settings=(*place, *extra))
            assert done["stdout"] == f"{workspace()}/_run.py\n" and "Read-only file system" in done["stderr"], done
            assert (workspace() / "_run.py").read_text() == "the user's\n"
        done = python(api, "-c", "1", settings=(*place, "--set", "kubernetes.workspace=pvc", "--set", "kubernetes.claim=x"))
        assert done["outcome"] == "refused" and "claim" in done["error"]["what"], done


@test(as_user="both")
def a_workspace_that_is_read_only_goes_there_and_nothing_comes_home():
    (workspace() / "here").write_text("copied\n")
    with cluster() as api:
        done = sh(api, "cat here; for f in here new; do echo x > $f || echo refused; done; chmod 777 .; rm -f here; mount -o remount,rw .; cat here; echo y > /tmp/y; cat /tmp/y",
                  "--policy", "readonly", workspace="copy")
        assert done.stdout == b"copied\nrefused\nrefused\ncopied\ny\n", done
        assert (workspace() / "here").read_text() == "copied\n" and not (workspace() / "new").exists() and not pods(api)
        # The control: the same line where the workspace may be written to.
        assert b"refused" not in sh(api, "echo x > new || echo refused", workspace="copy").stdout and (workspace() / "new").exists()


def _mounted(volume, kind, n, **more):
    return lambda pod: [m.update(more) for m in pod["spec"][kind][n]["volumeMounts"] if m["name"] == volume]


# Of a pod that is filled first, with code: what its command may not write to, and who fills it.
FILLED = {
    "code may be written to": _mounted("code", "containers", 0, readOnly=False),
    "code from elsewhere": _mounted("code", "containers", 0, name="tmp"),
    "another image fills": _in("initContainers", 1)(image="theirs"),
    "another command fills": _in("initContainers", 1)(command=["sh"]),
    "rights": _rights(1, "initContainers", privileged=True),
    "nobody fills": lambda pod: pod["spec"]["initContainers"].pop(1),
    "code in a claim": lambda pod: [(v.pop("emptyDir"), v.update(persistentVolumeClaim={"claimName": "theirs"})) for v in pod["spec"]["volumes"] if v["name"] == "code"],
}


@test(limit=240)
def a_pod_that_is_filled_and_was_changed_is_refused():
    line = ("python", *SETTINGS, "-c", "print('ran')")
    held = []
    for name, change in FILLED.items():
        with admission(change) as api:
            done = brig(*line, env=environment(api), timeout=60)
            if done.status != 125 or b"otherwise than asked for" not in done.stderr or b"ran" in done.stdout or api.attached:
                held.append((name, done.status, done.stderr))
            assert not pods(api), name
    with admission(_mounted("workspace", "containers", 0, readOnly=False)) as api:
        done = sh(api, "echo ran", "--policy", "readonly", workspace="copy")
        if done.status != 125 or b"otherwise than asked for" not in done.stderr or api.attached:
            held.append(("workspace", done.status, done.stderr))
    assert not held, held
    with admission(usual) as api:  # the control
        done = brig(*line, env=environment(api), timeout=60)
        assert done.stdout == b"ran\n", done


@test
def a_brig_that_dies_while_a_pod_is_filled_leaves_nothing():
    with cluster() as api:
        program, held = api.program, []

        def slow(pod, container):
            held.append(container)
            return ["sleep", "60"] if container == "fill" else program(pod, container)

        api.program = slow
        p = start_brig("python", *SETTINGS, "-c", "print(1)", env=environment(api))
        wait_until(lambda: held and pods(api), 40)
        p.kill()
        p.wait()
        wait_until(lambda: not pods(api), 20)
        assert held == ["fill"], held


@test(as_user="both")
def too_many_processes_are_ended_and_a_bomb_with_them():
    """The node has a limit of its own around it. The control is as many as there may be, threads included."""
    forks = "import os, time\nfor i in range({}):\n if not os.fork(): time.sleep({}); os._exit(0)\ntime.sleep(1)"
    with cluster() as api:
        done = run(api, "--json", "--pids", "12", command=("python3", "-c", forks.format(8, 1))).json
        assert (done["outcome"], done["limits_hit"]) == ("exited", []) and done["isolation"]["limits"]["pids"] == "watch", done
        done = run(api, "--json", "--pids", "12", command=("python3", "-c", forks.format(40, 600))).json
        assert (done["outcome"], done["limits_hit"]) == ("limit", ["pids"]), done
        threads = "import threading, time\nfor i in range(40): threading.Thread(target=time.sleep, args=(600,)).start()"
        done = run(api, "--json", "--pids", "12", command=("python3", "-c", threads)).json
        assert (done["outcome"], done["limits_hit"]) == ("limit", ["pids"]), done
        program = api.program
        api.program = lambda *a: ["sh", "-c", 'ulimit -u 500; exec "$@"', "sh", *program(*a)]
        done = sh(api, "f() { f | f & }; f; sleep 600", "--json", "--pids", "12").json
        assert (done["outcome"], done["limits_hit"]) == ("limit", ["pids"]), done
        assert not pods(api)


@test
def a_workspace_that_grows_too_large_is_told_as_the_limit_it_is():
    mark = f"6{os.getpid()}"
    with cluster() as api:
        p = start_brig("run", *SETTINGS, "--json", "--disk", "2m", "--set", "kubernetes.workspace=empty", "--", "sleep", mark, env=environment(api))
        wait_until(lambda: any(read(c) == b"sleep\0" + mark.encode() + b"\0" for c in pathlib.Path("/proc").glob("[0-9]*/cmdline")), 40)
        [path] = pods(api)
        spec = api.store.objects[path]["spec"]
        assert spec["volumes"][3]["emptyDir"] == {"sizeLimit": str(2 << 20)} and spec["containers"][0]["resources"]["requests"]["ephemeral-storage"] == str(2 << 20), spec
        thing = json.loads(json.dumps(api.store.objects[path]))  # as a kubelet says it
        thing["status"] = {"phase": "Failed", "reason": "Evicted", "message": 'Usage of EmptyDir volume "workspace" exceeds the limit "2Mi". '}
        api.store.put(path, thing)
        os.killpg(api.attached[path].pid, signal.SIGKILL)
        done = json.loads(p.communicate(timeout=60)[0])
        assert (done["outcome"], done["limits_hit"], done["isolation"]["limits"]["disk"]) == ("limit", ["disk"], "kubelet"), done


@test
def what_is_gone_there_is_removed_here_and_a_change_of_the_users_stays():
    work = workspace()
    for name in ("gone", "mine", "kept"):
        (work / name).write_text(name)
    time.sleep(1.1)
    with cluster() as api:
        p = start_brig("run", *SETTINGS, "--", "sh", "-c", "rm gone mine; echo x > kept; while test ! -e /tmp/go; do sleep 0.2; test $((n+=1)) -gt 15 && break; done",
                       env=environment(api))
        wait_until(lambda: api.attached, 40)
        time.sleep(1.5)
        (work / "mine").write_text("written here meanwhile")
        assert p.wait(60) == 0
    assert not (work / "gone").exists() and (work / "mine").read_text() == "written here meanwhile" and (work / "kept").read_text() == "x\n"


@test
def what_was_moved_here_meanwhile_is_not_taken_for_gone():
    """A folder that is moved keeps the times of what is in it; so does one that is mounted."""
    work, aside = workspace(), scratch() / "aside"
    for name in ("old", "given"):
        (work / name).mkdir()
        (work / name / "file").write_text("old")
    (aside / "deep").mkdir(parents=True)
    (aside / "deep/kept").write_text("the user's")
    time.sleep(1.1)
    with cluster() as api:
        p = start_brig("run", *SETTINGS, "--", "sh", "-c", "rm -r old given/file; sleep 4", env=environment(api))
        wait_until(lambda: api.attached, 40)
        time.sleep(1.5)
        with files_as_root():
            aside.rename(work / "moved")
        assert p.wait(60) == 0
    assert (work / "moved/deep/kept").read_text() == "the user's"
    assert not (work / "old").exists() and not (work / "given/file").exists()  # the control: what is gone there goes here


@test
def names_that_a_host_obeys_are_known_in_any_case_and_place():
    work = workspace()
    (work / "sub").mkdir()
    names = (".GIT/hooks/pre-commit", ".Git", "sub/.EnvRC", "sub/.VSCode/tasks.json", ".git~x/kept")
    time.sleep(1.1)
    with cluster() as api:
        lines = ";".join(f"mkdir -p $(dirname {n}) && echo evil > {n}" for n in names)
        done = sh(api, lines + "; printf x > 'a\033[31mb'; printf x > 'two\nlines'; mkdir -p bare/hooks bare/objects; echo x > bare/config; echo x > bare/HEAD", "--json",
                  workspace="copy").json
    left = sorted(str(p.relative_to(work)) for p in work.rglob("*") if p.is_file())
    assert not [p for p in left if p.lower().startswith((".git/", ".git\n", "sub/.env", "sub/.vs"))] and ".Git" not in left, left
    assert ".git~x/kept" in left and "two\nlines" in left, left
    assert done["outcome"] == "exited", done


@test
def a_folder_that_git_would_take_for_a_repository_does_not_come_home():
    """git on the host is the oracle: it runs what core.fsmonitor names wherever it sees a repository."""
    work, ran = workspace(), scratch() / "ran"
    make = f"git init -q --bare $D && git --git-dir=$D config core.bare false; git --git-dir=$D config core.worktree . ; git --git-dir=$D config core.fsmonitor 'touch {ran}; false'; "

    def look(folder):
        subprocess.run(["git", "-c", "safe.directory=*", "status"], cwd=folder, capture_output=True, check=False)
        return ran.exists()

    with files_as_root():  # the control
        subprocess.run(["sh", "-c", f"D={scratch()}/bare; {make}"], check=True)
        assert look(scratch() / "bare")
        ran.unlink()
    with cluster() as api:
        done = sh(api, f"D=/tmp/b; {make} mkdir sub; cp -r /tmp/b/. .; cp -r /tmp/b sub/deep; echo kept > kept; echo kept > sub/kept", "--json", workspace="copy").json
    assert done["exit_code"] == 0, done
    with files_as_root():
        assert not [f for f in (work, work / "sub", work / "sub/deep") if f.exists() and look(f)]
    assert (work / "kept").exists() and (work / "sub/kept").exists() and not (work / "sub/deep").exists() and not (work / "HEAD").exists()
    assert {"HEAD", "sub/deep"} <= {d["target"] for d in done["denials"]}, done["denials"]


@test(as_user="both")
def brigs_own_state_and_settings_are_not_copied_there():
    """As with native, which refuses to show them; nothing was asked of the cluster."""
    settings = home() / ".config" / "brig"
    on_host("mkdir", "-p", settings, cwd="/")
    on_host("sh", "-c", "echo '{}' > config.yaml", cwd=settings)
    on_host("mkdir", "-p", "-m", "700", state() / "brig", cwd="/")
    for place, policy in ((settings.parent, "workspace_write"), (settings, "workspace_write"), (state(), "workspace_write"), (state() / "brig", "readonly"),
                          (state(), "readonly")):
        with cluster() as api:
            done = sh(api, "find .; echo evil >> config.yaml", "--workdir", place, "--policy", policy, workspace="copy")
            assert done.status == 125 and b"brig's own" in done.stderr, (place, policy, done)
            assert not [r for r in api.requests if r["method"] == "POST"], api.requests
    assert (settings / "config.yaml").read_text() == "{}\n"
    on_host("rm", "-r", settings.parent, cwd="/")
    with cluster() as api:  # the control: another folder is
        for policy in ("workspace_write", "readonly"):
            assert sh(api, "true", "--policy", policy, workspace="copy").status == 0


@test(as_user="both")
def what_a_link_or_gits_configuration_leads_to_does_not_come_home():
    """git on the host is the oracle: it runs what core.hooksPath, an included file or a link names, whatever it is called."""
    work, ran = workspace(), scratch() / "ran"

    def git(*words):
        on_host("git", "-c", "safe.directory=*", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always", *words, cwd=work)

    def commit():
        git("commit", "-q", "--allow-empty", "-m", "x")
        with files_as_root():
            done = ran.exists()
            ran.unlink(missing_ok=True)
        return done

    def write(name, text):
        on_host("sh", "-c", f"mkdir -p $(dirname {name}) && printf '%s' '{text}' > {name} && chmod 755 {name}", cwd=work)

    with files_as_root():
        scratch().chmod(0o777)
    evil = f"#!/bin/sh\ntouch {ran}\n"
    texts = {"tools/checks/pre-commit": evil, "shared/settings": f"[core]\n\tfsmonitor = touch {ran}; false\n", "scripts/check": evil}
    on_host("sh", "-c", "git init -q .; mkdir -p .git/hooks src; ln -s ../../scripts/check .git/hooks/pre-commit", cwd=work)
    git("config", "core.hooksPath", "tools/checks")
    git("config", "include.path", "../shared/settings")
    attack = "; ".join(f"mkdir -p $(dirname {n}); printf '%s' '{t}' > {n}; chmod 755 {n}" for n, t in texts.items())
    for there in (False, True):  # names that are missing, then some that are not
        for name in texts if there else ():
            write(name, "" if name == "shared/settings" else "#!/bin/sh\n")
        before = {n: (work / n).read_bytes() if there else None for n in texts}
        write("src/kept", "old")
        assert not commit(), "nothing runs yet"
        time.sleep(1.1)  # later changes here are the user's
        with cluster() as api:
            done = sh(api, f"{attack}; echo new > src/kept", "--json", workspace="copy").json
        assert done["exit_code"] == 0 and (work / "src/kept").read_text() == "new\n", done
        assert not commit(), done["denials"]
        assert {n: (work / n).read_bytes() if (work / n).exists() else None for n in texts} == before
        for name in texts:
            assert [d for d in done["denials"] if name.startswith(d["target"])], (name, done["denials"])
    on_host("rm", ".git/hooks/pre-commit", cwd=work)  # where a link was left out nothing is removed
    time.sleep(1.1)  # what came home is older than the next copy
    with cluster() as api:  # what is gone there stays here
        sh(api, "rm -r tools shared src/kept", workspace="copy")
    on_host("ln", "-s", "../../scripts/check", ".git/hooks/pre-commit", cwd=work)
    assert not (work / "src/kept").exists() and all((work / n).exists() for n in texts)
    for name, text in texts.items():  # the control: each of them is obeyed
        if name == "scripts/check":
            git("config", "--unset", "core.hooksPath")
        write(name, text)
        assert commit(), name
        write(name, "" if name == "shared/settings" else "#!/bin/sh\n")


def _below(pid):
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid] + [p for c in children for p in _below(int(c))]


def _freeze(api, enough):
    """The pod says nothing any more, as one whose node is paused."""
    [first] = list(api.attached.values())
    wait_until(lambda: enough(_below(first.pid)), 40)
    frozen = _below(first.pid)
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    return frozen


@test(as_user="root", limit=240)
def copying_is_given_up_when_somebody_wants_to():
    """A pod that stops in the middle of a copy, on its way there or home, holds nobody up; the control is that it does until then."""
    for there in (True, False):
        big = workspace() / "big"
        if there:
            with open(big, "wb") as f:
                f.truncate(600 << 20)
        with cluster() as api:
            p = start_brig("run", *SETTINGS, "--set", "kubernetes.workspace=copy", "--", "sh", "-c", "true" if there else "truncate -s 600M big; touch /tmp/done",
                           env=environment(api))
            wait_until(lambda: api.attached, 40)
            if not there:
                wait_until(lambda: list(state().glob("kubernetes/.*.out/*")) or list(state().glob("**/.*.out/*")), 40)
            frozen = _freeze(api, lambda all_: len(all_) > 2)
            time.sleep(2)
            assert p.poll() is None, there
            p.send_signal(signal.SIGINT)
            p.wait(15)
            for pid in frozen:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not pods(api), 40)
        big.unlink(missing_ok=True)
        assert not list(state().glob("**/.*.out")), there


@test(as_user="root", limit=240)
def what_a_brig_killed_on_the_way_home_left_is_removed_by_the_next():
    """Not that of one that is still at it, whose folder is as old: taken away, it would read as if the command had removed everything."""
    def stages():
        return {s.name: s for s in state().glob("**/.*.out")}

    with cluster() as api:
        p = start_brig("run", *SETTINGS, "--set", "kubernetes.workspace=copy", "--", "sh", "-c", "truncate -s 600M big; touch /tmp/done", env=environment(api))
        wait_until(lambda: any(list(s.iterdir()) for s in stages().values()), 40)
        frozen = _freeze(api, lambda all_: len(all_) > 2)
        [(name, stage)] = stages().items()
        os.utime(stage, (0, 0))
        assert run(api, command=("true",)).status == 0 and list(stages()) == [name], "it was in use"
        p.kill()
        p.wait()
        for pid in frozen:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not pods(api), 40)
        assert list(stages()) == [name], "the control proves nothing"
        os.utime(stage, (0, 0))
        assert wait_until(lambda: run(api, command=("true",)).status == 0 and not stages(), 20), stages()


@test
def a_killed_brig_leaves_nothing():
    with cluster() as api:
        p = start_brig("run", *SETTINGS, "--set", "kubernetes.workspace=empty", "--", "sleep", "60", env=environment(api))
        wait_until(lambda: api.attached and pods(api), 40)
        time.sleep(1)
        p.kill()
        p.wait()
        wait_until(lambda: not pods(api), 20)


@test
def the_next_brig_removes_what_a_killed_guard_left():
    with cluster() as api:
        p = start_brig("run", *SETTINGS, "--set", "kubernetes.workspace=empty", "--", "sleep", "60", env=environment(api))
        wait_until(lambda: api.attached and pods(api), 40)
        time.sleep(1)
        [guard] = [int(c.parent.name) for c in pathlib.Path("/proc").glob("[0-9]*/comm") if read(c) == b"brig-guard\n" and is_ours(c.parent)]
        os.kill(guard, signal.SIGKILL)
        assert p.wait(60) != 0
        wait_until(lambda: not pods(api), 20)
        # By its name and uid: the Role of deploy/kubernetes has no right to delete a collection.
        [removal] = [r for r in api.requests if r["method"] == "DELETE"]
        assert removal["path"].startswith(PODS + "/") and b'"uid"' in removal["body"], removal


@test(as_user="both")
def prune_removes_pods_of_ours_that_nobody_owns_and_no_others():
    with cluster() as api:
        p = start_brig("run", *SETTINGS, "--set", "kubernetes.workspace=empty", "--", "sleep", "60", env=environment(api))
        wait_until(lambda: api.attached and pods(api), 40)
        [mine] = pods(api)
        labels = api.store.objects[mine]["metadata"]["labels"]
        for name, instance in (("brig-lost", labels["brig.instance"]), ("brig-theirs", "0" * 32), ("other", None)):
            meta = {"name": name, "uid": f"uid-{name}", "labels": {"brig.sandbox": name.removeprefix("brig-"), **({"brig.instance": instance} if instance else {})}}
            api.store.put(f"{PODS}/{name}", {"kind": "Pod", "metadata": meta, "spec": {}, "status": {}}, "ADDED")
        done = brig("sandbox", "prune", "--dry-run", env=environment(api), timeout=60)
        assert (done.status, done.stdout) == (0, b"brig-lost\n") and f"{PODS}/brig-lost" in api.store.objects, done
        assert brig("sandbox", "prune", env=environment(api), timeout=60).stdout == b"brig-lost\n"
        assert set(pods(api)) == {mine, f"{PODS}/brig-theirs", f"{PODS}/other"}, pods(api)
        p.kill()
        p.wait()
        wait_until(lambda: mine not in pods(api), 20)
        assert brig("sandbox", "prune", env=environment(api), timeout=60).stdout == b""
        assert brig("daemon", "stop").status == 0


@test(as_user="both")
def what_a_cluster_cannot_honour_is_refused_by_name():
    with cluster() as api:
        for flags, says in ((("--network", "host"), b"network 'host'"), (("--network", "bridge"), b"bridge"), (("--network", "proxy", "--set", "egress.host_service=80"), b"host_service"),
                            (("--mount", f"{scratch()}:/data"), b"--mount"), (("--read", "/srv"), b"--read"), (("--cpus", "1", "--cpu-shares", "1025"), b"--cpu-shares"),
                            (("--disk", "2m", "--set", "kubernetes.workspace=pvc", "--set", "kubernetes.claim=x"), b"claim to --disk"),
                            (("--ssh-agent",), b"--ssh-agent"), (("--publish", "8000"), b"--publish"), (("--user", "0:0"), b"root"),
                            (("--set", "kubernetes.namespace=../x"), b"kubernetes.namespace"), (("--set", "kubernetes.claim=x"), b"kubernetes.claim")):
            done = brig("run", *SETTINGS, *flags, "--", "true", env=environment(api))
            assert done.status == 125 and says in done.stderr, (flags, done)
        done = brig("run", "--backend", "kubernetes", "--image", "x", "--", "true", env=environment(api))
        assert done.status == 125 and b"kubernetes.helper_image" in done.stderr, done
        assert not api.requests, api.requests


@test(as_user="both")
def a_projects_own_file_names_no_cluster():
    (workspace() / ".brig.yaml").write_text("kubernetes:\n  context: theirs\n  helper_image: evil\n")
    with cluster() as api:
        done = sh(api, "true")
        assert done.status == 125 and b"kubernetes." in done.stderr and b"brig allow" in done.stderr, done


if __name__ == "__main__":
    sys.exit(main())
