#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that stay, and pods that agent-sandbox's controller makes: Sandbox, SandboxClaim, templates and warm pools, by a scripted one."""

import json
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from controller import CORE, Controller  # noqa: E402
from daemon import daemon  # noqa: E402
from harness import brig, main, scratch, start_brig, test, wait_until, workspace  # noqa: E402
from podcluster import PODS, SETTINGS, cluster, is_ours, pods, read, some  # noqa: E402


def left(api):
    """What a run could have left in the cluster: templates and pools are somebody else's."""
    return [p for p in api.store.objects if not any(k in p for k in ("/sandboxtemplates/", "/sandboxwarmpools/"))]


def made(api, plural):
    """Not what was only tried: see pod_guard_pod.c."""
    return [r for r in api.requests if r["method"] == "POST" and r["path"].endswith("/" + plural) and "dryRun" not in str(r)]


def settings(api, *more):
    return (*SETTINGS, "--set", f"kubernetes.kubeconfig={api.folder}/kubeconfig", "--set", "kubernetes.workspace=empty", *more)


def create(api, d, name, *more):
    return brig("sandbox", "create", "--name", name, *settings(api, *more), timeout=60, env=d.environment)


def sandbox(d, *words):
    return brig("sandbox", *words, timeout=60, env=d.environment)


def run(api, *more):
    return brig("run", *settings(api), *more, "--", "sh", "-c", "echo ran", timeout=60)


def template_of(*more):
    done = brig("plan", *SETTINGS, "--set", "kubernetes.template=tools", "--set", "kubernetes.workspace=empty", *more, "--json", "--", "true")
    assert done.status == 0, done
    plan = json.loads(done.stdout)
    return plan.get("plan", plan)["template"]


def several_things(api, d):
    """Commands one after the other and at a time, a signal, files, a terminal's size: the same sandbox."""
    assert sandbox(d, "exec", "one", "--", "sh", "-c", "echo $$ > /tmp/kept; exit 3").status == 3
    assert sandbox(d, "exec", "one", "--", "sh", "-c", "cat /tmp/kept; echo wrong >&2").stdout.strip().isdigit()
    (scratch() / "in").write_text("carried")
    assert sandbox(d, "cp", str(scratch() / "in"), "one:/tmp/in").status == 0
    done = sandbox(d, "exec", "one", "--", "cat", "/tmp/in")
    assert done.stdout == b"carried", done
    assert len(api.attached) == 1, "one line for all of it"


@test(as_user="both", limit=120)
def a_sandbox_that_stays_is_a_Sandbox_where_the_cluster_has_them():
    for version in ("v1alpha1", "v1beta1"):
        with daemon() as d, cluster() as api:
            Controller(api, version, claims=False)
            done = create(api, d, "one")
            assert done.status == 0, done
            [post] = made(api, "sandboxes")
            body = json.loads(post["body"])
            assert body["apiVersion"] == f"{CORE}/{version}" and body["spec"]["shutdownPolicy"] == "Delete" and body["spec"]["shutdownTime"].endswith("Z"), body
            assert not made(api, "pods") and len(pods(api)) == 1
            [policy] = [o for p, o in api.store.objects.items() if "/networkpolicies/" in p]
            assert policy["metadata"]["ownerReferences"][0]["uid"] == api.store.objects[pods(api)[0]]["metadata"]["uid"], policy
            several_things(api, d)
            done = sandbox(d, "pause", "one")
            assert done.status != 0 and b"kubernetes" in done.stderr and b"pause" in done.stderr, done
            assert sandbox(d, "delete", "one").status == 0
            assert wait_until(lambda: not left(api), 20), left(api)  # noqa: B023


@test(as_user="user", limit=120)
def a_sandbox_that_stays_is_a_pod_elsewhere_and_a_run_is_one_everywhere():
    with daemon() as d, cluster() as api:
        assert create(api, d, "one").status == 0
        assert len(made(api, "pods")) == 1
        several_things(api, d)
        assert sandbox(d, "stop", "one").status == 0
        assert wait_until(lambda: not left(api), 20), left(api)
        assert sandbox(d, "resume", "one").status == 0 and len(made(api, "pods")) == 2
        assert sandbox(d, "exec", "one", "--", "sh", "-c", "test ! -e /tmp/kept").status == 0
        assert sandbox(d, "delete", "one").status == 0
        assert wait_until(lambda: not left(api), 20), left(api)
        for flags, says in ((("kubernetes.use=sandbox",), b"no Sandbox"), (("kubernetes.template=tools",), b"no Sandbox")):
            done = run(api, "--set", *flags)
            assert done.status == 125 and says in done.stderr and b"kubernetes.use=pod" in done.stderr and not left(api), done
        Controller(api)
        assert run(api).stdout == b"ran\n" and not made(api, "sandboxes")
        assert create(api, d, "two", "--set", "kubernetes.use=pod").status == 0 and not made(api, "sandboxes")
        assert sandbox(d, "delete", "two").status == 0
        assert run(api, "--set", "kubernetes.use=sandbox").stdout == b"ran\n" and len(made(api, "sandboxes")) == 1
        assert wait_until(lambda: not left(api), 20), left(api)


@test(as_user="user", limit=120)
def what_ends_while_its_monitor_is_stopped_is_told_when_that_goes_on():
    """As on a machine that swaps, or under a debugger: more words than a socket holds wait for their reader."""
    many = 100
    with daemon() as d, cluster() as api:
        assert create(api, d, "one", "--pids", "2000").status == 0
        for _ in range(many):
            a = d.call("POST", "/v1/sandboxes/one/exec", {"argv": ["sh", "-c", "until test -e /tmp/go; do sleep 0.2; done; exit 7"], "detach": True})
            assert a.status == 202, a
        execs = lambda: d.call("GET", "/v1/sandboxes/one/execs").json["execs"]  # noqa: E731
        assert wait_until(lambda: len([x for x in execs() if x["state"] == "running"]) == many, 30)
        [monitor] = [int(p.name) for p in pathlib.Path("/proc").glob("[0-9]*") if read(p / "comm") == b"brig-monitor\n" and is_ours(p)]
        d.call("POST", "/v1/sandboxes/one/exec", {"argv": ["sh", "-c", "sleep 0.5; touch /tmp/go"], "detach": True})
        time.sleep(0.2)
        os.kill(monitor, signal.SIGSTOP)
        time.sleep(2)
        os.kill(monitor, signal.SIGCONT)
        assert wait_until(lambda: not [x for x in execs() if x["state"] == "running"], 20), len([x for x in execs() if x["state"] == "running"])
        ends = [x["result"]["exit_code"] for x in execs()]
        assert sorted(ends) == [0] + [7] * many, ends
        assert sandbox(d, "exec", "one", "--", "echo", "still here").stdout == b"still here\n"
        assert sandbox(d, "delete", "one").status == 0
        wait_until(lambda: not left(api), 20)


CHATTER = """
import os, struct, subprocess, sys, threading
# Between brig and the real brig-pod: each word that a command runs comes a hundred thousand times.
p = subprocess.Popen(sys.argv[1:], stdin=0, stdout=subprocess.PIPE)
def read(n):
    data = b""
    while len(data) < n:
        piece = os.read(p.stdout.fileno(), n - len(data))
        if not piece:
            sys.exit(p.wait())
        data += piece
    return data
def write(data):
    while data:
        data = data[os.write(1, data):]
while True:
    head = read(12)
    size, command, kind = struct.unpack("IIB", head[:9])
    frame = head + read(size)
    write(frame)
    if kind == 11 and struct.unpack("I", frame[12:16])[0] == 7:
        for _ in range(1000):
            write(frame * 100)
"""


@test(as_user="user", limit=120)
def a_pod_that_never_stops_talking_hides_nothing():
    with cluster() as api:
        real = api.program
        api.program = lambda pod, container: [sys.executable, "-c", CHATTER, *real(pod, container)]
        done = brig("run", *settings(api), "--timeout", "20s", "--json", "--", "sh", "-c", "echo ran; exit 5", timeout=60).json
        assert done["exit_code"] == 5 and done["stdout"] == "ran\n", done
        wait_until(lambda: not left(api), 20)


@test(as_user="user", limit=120)
def a_daemon_that_was_killed_finds_its_Sandbox_again():
    with daemon() as d, cluster() as api:
        Controller(api, "v1beta1")
        assert create(api, d, "one").status == 0
        d.restart(signal.SIGKILL)
        done = sandbox(d, "exec", "one", "--", "echo", "still here")
        assert done.stdout == b"still here\n", done
        assert len(made(api, "sandboxes")) == 1
        assert sandbox(d, "delete", "one").status == 0
        assert wait_until(lambda: not left(api), 20), left(api)


@test(as_user="both", limit=120)
def a_claim_takes_a_pod_of_the_warm_pool_and_gives_it_back():
    for version in ("v1alpha1", "v1beta1"):
        with daemon() as d, cluster() as api:
            c = Controller(api, version)
            c.template("tools", template_of()["spec"]["podTemplate"])
            c.warm("tools", 1)
            [warm] = pods(api)
            uid = api.store.objects[warm]["metadata"]["uid"]
            done = create(api, d, "one", "--set", "kubernetes.template=tools")
            assert done.status == 0, done
            body = json.loads(made(api, "sandboxclaims")[0]["body"])
            assert body["spec"].get("warmPoolRef" if version == "v1beta1" else "sandboxTemplateRef"), body
            assert body["spec"]["lifecycle"]["shutdownPolicy"] == "Delete", body
            assert not made(api, "pods") and not made(api, "sandboxes") and api.store.objects[warm]["metadata"]["uid"] == uid
            assert list(api.attached) == [warm]
            several_things(api, d)
            policy = json.loads(made(api, "networkpolicies")[0]["body"])
            assert policy["spec"]["podSelector"]["matchLabels"] == {"agents.x-k8s.io/sandbox-name-hash": "0badcafe"}, policy
            assert sandbox(d, "exec", "one", "--", "sh", "-c", "pwd; id -u").stdout == b"/workspace\n1000\n"
            assert sandbox(d, "delete", "one").status == 0
            assert wait_until(lambda: not left(api), 20), left(api)  # noqa: B023
            done = run(api, "--set", "kubernetes.template=tools")  # nothing is warm: a new one
            assert done.stdout == b"ran\n", done
            assert wait_until(lambda: not left(api), 20), left(api)  # noqa: B023


@test(as_user="both", limit=120)
def a_workspace_goes_into_a_pod_that_was_claimed_and_comes_back():
    """What a template says of a copied workspace is what it says of an empty one. The pod was warm: nothing is put there but over its line."""
    (workspace() / "src").mkdir()
    (workspace() / "src/a").write_text("one\n")
    (workspace() / "gone").write_text("x\n")
    time.sleep(1.1)  # later changes here are the user's
    copy = ("--set", "kubernetes.template=tools", "--set", "kubernetes.workspace=copy")
    with daemon() as d, cluster() as api:
        c = Controller(api, "v1beta1")
        c.template("tools", template_of(*copy)["spec"]["podTemplate"])
        c.warm("tools", 2)
        done = brig("run", *settings(api, *copy), "--json", "--", "sh", "-c", "pwd; cat src/a; echo two >> src/a; rm gone; echo new > made; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit",
                    timeout=60).json
        assert done["stdout"] == "/workspace\none\n", done
        assert (workspace() / "src/a").read_text() == "one\ntwo\n" and (workspace() / "made").read_text() == "new\n" and not (workspace() / "gone").exists()
        assert not (workspace() / ".git").exists() and done["denials"], done
        assert wait_until(lambda: len(pods(api)) == 1, 20) and not made(api, "pods")
        # One that stays is given it, too; what comes back is asked for.
        assert create(api, d, "one", *copy).status == 0
        done = sandbox(d, "exec", "one", "--", "sh", "-c", "cat src/a; echo three > src/a")
        assert done.stdout == b"one\ntwo\n", done
        assert (workspace() / "src/a").read_text() == "one\ntwo\n"
        assert sandbox(d, "cp", "one:/workspace/src/a", str(scratch() / "a")).status == 0 and (scratch() / "a").read_text() == "three\n"
        assert sandbox(d, "delete", "one").status == 0 and (workspace() / "src/a").read_text() == "one\ntwo\n"
        assert wait_until(lambda: not left(api), 20), left(api)


@test(as_user="both", limit=120)
def a_claimed_pod_has_the_volume_that_was_asked_for_and_no_other():
    """A PersistentVolumeClaim as the workspace: the template's must be the one that is named here."""
    def work(name):
        return "--set", "kubernetes.workspace=pvc", "--set", f"kubernetes.claim={name}"

    with daemon() as d, cluster() as api:
        c = Controller(api, "v1beta1")
        c.template("tools", template_of(*work("work"))["spec"]["podTemplate"])
        c.warm("tools", 1)
        tools = ("--set", "kubernetes.template=tools")
        for more, says in ((work("other"), b"claimName"), ((), b"persistentVolumeClaim"), (("--set", "kubernetes.workspace=copy"), b"persistentVolumeClaim")):
            done = run(api, *tools, *more)
            assert done.status == 125 and b"'tools' does not keep" in done.stderr and (says in done.stderr or b"fsGroup" in done.stderr) and b"ran" not in done.stdout, (more, done)
        assert not made(api, "sandboxclaims") and not api.attached
        done = brig("run", *settings(api, *tools, *work("work")), "--", "sh", "-c", "echo kept > new; id -g", timeout=60)
        assert done.stdout == b"1000\n", done
        assert wait_until(lambda: not left(api), 20), left(api)
        assert create(api, d, "one", *tools, *work("work")).status == 0
        assert sandbox(d, "exec", "one", "--", "cat", "/workspace/new").stdout == b"kept\n"
        assert sandbox(d, "stop", "one").status == 0 and sandbox(d, "resume", "one").status == 0
        assert sandbox(d, "exec", "one", "--", "cat", "new").stdout == b"kept\n"
        assert sandbox(d, "delete", "one").status == 0 and not list(workspace().iterdir())
        assert wait_until(lambda: not left(api), 20), left(api)
        # The other way round: a template with a folder of the pod's own is no claim.
        c.template("tools", template_of()["spec"]["podTemplate"])
        done = run(api, *tools, *work("work"))
        assert done.status == 125 and b"'tools' does not keep" in done.stderr, done


@test(as_user="both", limit=120)
def where_no_container_may_have_net_admin_a_Sandboxs_network_is_closed_by_a_policy():
    """Its pod is tried before it is made: a controller would only wait. A template is held to NET_ADMIN all the same."""
    with cluster() as api:
        Controller(api)
        api.refusal = lambda pod: any(c["securityContext"]["capabilities"].get("add") for c in pod["spec"]["initContainers"]) and "no NET_ADMIN"
        done = run(api, "--json", "--set", "kubernetes.use=sandbox").json
        assert (done["stdout"], done["isolation"]["network_by"]) == ("ran\n", "policy"), done
        box = json.loads(made(api, "sandboxes")[0]["body"])["spec"]["podTemplate"]["spec"]
        assert [c["name"] for c in box["initContainers"]] == ["put"] and len(made(api, "networkpolicies")) == 1, box
        assert wait_until(lambda: not left(api), 20), left(api)
        api.refusal = "never"  # without it as well: told at once, and nothing is made
        done = run(api, "--set", "kubernetes.use=sandbox")
        assert done.status == 125 and b"never" in done.stderr and len(made(api, "sandboxes")) == 1, done
        api.refusal = None  # the control: where it may, it does
        done = run(api, "--json", "--set", "kubernetes.use=sandbox").json
        assert done["stdout"] == "ran\n" and "network_by" not in done["isolation"], done
        assert wait_until(lambda: not left(api), 20), left(api)


@test(as_user="user")
def a_door_is_not_put_into_a_pod_that_somebody_else_makes():
    with cluster() as api:
        c = Controller(api)
        c.template("tools", template_of()["spec"]["podTemplate"])
        for flags, says in (("kubernetes.use=sandbox", b"a Sandbox makes"), ("kubernetes.template=tools", b"a SandboxTemplate makes")):
            done = run(api, "--network", "proxy", "--set", flags)
            assert done.status == 125 and says in done.stderr and b"kubernetes.use=pod" in done.stderr and not left(api), done


def spec(**more):
    return lambda t: t["spec"].update(more)


def first(kind="containers", **more):
    return lambda t: t["spec"][kind][0].update(more)


def rights(**more):
    return lambda t: t["spec"]["containers"][0]["securityContext"].update(more)


# What a template may not do, and what of it is named.
HOSTILE = {
    "a token": (spec(automountServiceAccountToken=True), b"automountServiceAccountToken"),
    "a token by a volume": (lambda t: t["spec"]["volumes"].append({"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}), b"volumes"),
    "root": (lambda t: t["spec"]["securityContext"].update(runAsUser=0), b"runAsUser"),
    "a root that is allowed": (lambda t: t["spec"]["securityContext"].pop("runAsNonRoot"), b"runAsNonRoot"),
    "privileged": (rights(privileged=True), b"privileged"),
    "capabilities": (rights(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]}), b"capabilities"),
    "nothing dropped": (rights(capabilities={}), b"capabilities"),
    "privileges": (rights(allowPrivilegeEscalation=True), b"allowPrivilegeEscalation"),
    "no filter": (lambda t: t["spec"]["securityContext"].update(seccompProfile={"type": "Unconfined"}), b"seccompProfile"),
    "the node's network": (spec(hostNetwork=True), b"hostNetwork"),
    "the node's processes": (spec(hostPID=True), b"hostPID"),
    "an open network": (lambda t: t["spec"]["initContainers"].pop(0), b"initContainers"),
    "a network that a policy alone closes": (lambda t: t["spec"]["initContainers"][0].update(name="put", command=["/brig-pod", "put", "/brig/brig-pod"]), b"initContainers[0]"),
    "names": (spec(dnsPolicy="ClusterFirst"), b"dnsPolicy"),
    "more memory": (lambda t: t["spec"]["containers"][0]["resources"]["limits"].update(memory="64Gi"), b"memory"),
    "no limit": (lambda t: t["spec"]["containers"][0]["resources"]["limits"].pop("memory"), b"memory"),
    "another helper": (first("initContainers", image="evil:1"), b"initContainers[0].image"),
    "another first process": (first(command=["/bin/sh"]), b"command"),
    "a host's folder": (lambda t: t["spec"]["volumes"].append({"name": "h", "hostPath": {"path": "/"}}), b"volumes"),
    "a sidecar": (lambda t: t["spec"]["containers"].append({"name": "x", "image": "x"}), b"containers"),
    "variables": (first(env=[{"name": "LD_PRELOAD", "value": "/x"}]), b"env"),
    "secrets": (first(envFrom=[{"secretRef": {"name": "x"}}]), b"envFrom"),
    "a hook": (first(lifecycle={"postStart": {"exec": {"command": ["x"]}}}), b"lifecycle"),
    "a runtime's switch": (lambda t: t.update(metadata={"annotations": {"io.kubernetes.cri-o.userns-mode": "host"}}), b"cri-o.userns-mode"),
    "a device of a unit": (lambda t: t.update(metadata={"annotations": {"org.systemd.property.DeviceAllow": "[('/dev/sda', 'rwm')]"}}), b"DeviceAllow"),
    "a device of a plugin": (lambda t: t.update(metadata={"annotations": {"devices.nri.io/container.main": "- path: /dev/mem"}}), b"devices.nri.io"),
    "a device of a runtime": (lambda t: t.update(metadata={"annotations": {"devices.crio.io": "/dev/sda"}}), b"devices.crio.io"),
    "a container beside it": (lambda t: t["spec"].update(ephemeralContainers=[{"name": "x", "image": "x", "targetContainerName": "main"}]), b"ephemeralContainers"),
    "a helper that stays": (first("initContainers", restartPolicy="Always"), b"restartPolicy"),
    "one process namespace": (spec(shareProcessNamespace=True), b"shareProcessNamespace"),
    "the node's IPC": (spec(hostIPC=True), b"hostIPC"),
    "kernel settings": (lambda t: t["spec"]["securityContext"].update(sysctls=[{"name": "net.ipv4.ip_forward", "value": "1"}]), b"sysctls"),
    "a group": (lambda t: t["spec"]["securityContext"].update(supplementalGroups=[0]), b"supplementalGroups"),
    "a device by a claim": (spec(resourceClaims=[{"name": "x"}]), b"resourceClaims"),
    "a block device": (first(volumeDevices=[{"name": "x", "devicePath": "/dev/x"}]), b"volumeDevices"),
    "an unmasked proc": (rights(procMount="Unmasked"), b"procMount"),
    "another label of SELinux": (rights(seLinuxOptions={"type": "spc_t"}), b"seLinuxOptions"),
    "no AppArmor": (rights(appArmorProfile={"type": "Unconfined"}), b"appArmorProfile"),
    "mounts that spread": (lambda t: t["spec"]["containers"][0]["volumeMounts"][1].update(mountPropagation="Bidirectional"), b"mountPropagation"),
    "a probe": (first(livenessProbe={"exec": {"command": ["x"]}}), b"livenessProbe"),
    "names of its own": (spec(hostAliases=[{"ip": "1.1.1.1", "hostnames": ["x"]}]), b"hostAliases"),
    "a field of tomorrow": (spec(tomorrow={"deep": {"er": 1}}), b"tomorrow.deep.er"),
    "restarts": (spec(restartPolicy="Always"), b"restartPolicy"),
}


@test(as_user="user", limit=240)
def a_template_that_does_not_keep_the_promise_is_refused_before_anything_is_claimed():
    good = template_of()["spec"]["podTemplate"]
    with cluster() as api:
        c, held = Controller(api, "v1beta1"), []
        c.template("tools", good)
        c.warm("tools", 0)
        for name, (change, says) in some(HOSTILE.items()):
            bad = json.loads(json.dumps(good))
            change(bad)
            c.template("tools", bad)
            done = run(api, "--set", "kubernetes.template=tools")
            if done.status != 125 or b"'tools' does not keep" not in done.stderr or says not in done.stderr or b"ran" in done.stdout:
                held.append((name, done.status, done.stderr))
        assert not held, held
        assert not made(api, "sandboxclaims") and not left(api)
        kinder = json.loads(json.dumps(good))  # the control: less than was asked for will do
        kinder["spec"]["containers"][0]["resources"]["limits"]["memory"] = "64Mi"
        kinder["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1Mi"
        kinder["spec"]["runtimeClassName"] = "gvisor"
        c.template("tools", kinder)
        done = run(api, "--set", "kubernetes.template=tools")
        assert done.stdout == b"ran\n", done
        assert wait_until(lambda: not left(api), 20), left(api)


@test(as_user="user", limit=120)
def a_pod_that_is_otherwise_than_its_template_is_refused():
    """The template is good, its pod is not; and a pod, or a Sandbox, that is somebody else's is no answer to a claim."""
    good = template_of()["spec"]["podTemplate"]
    for name in ("privileged", "a token", "an open network", "a sidecar"):
        change, says = HOSTILE[name]
        with cluster() as api:
            c = Controller(api, "v1beta1")
            c.template("tools", good)
            c.change = change
            c.warm("tools", 1)
            done = run(api, "--set", "kubernetes.template=tools")
            assert done.status == 125 and b"does not keep" in done.stderr and says in done.stderr and not api.attached, (name, done)
            assert wait_until(lambda: not left(api), 20), left(api)  # noqa: B023
    with cluster() as api:
        Controller(api, "v1beta1").change = lambda pod: pod["spec"].update(hostNetwork=True)
        done = run(api, "--set", "kubernetes.use=sandbox")
        assert done.status == 125 and b"otherwise than asked for" in done.stderr and b"hostNetwork" in done.stderr and not api.attached, done
        assert wait_until(lambda: not left(api), 20), left(api)


@test(as_user="user")
def what_is_missing_or_comes_to_nothing_is_told_with_the_next_step():
    with cluster() as api:
        c = Controller(api, "v1beta1")
        done = run(api, "--set", "kubernetes.template=tools")
        assert done.status == 125 and b"no SandboxTemplate 'tools'" in done.stderr and b"brig plan" in done.stderr, done
        c.template("tools", template_of()["spec"]["podTemplate"])
        done = run(api, "--set", "kubernetes.template=tools")
        assert done.status == 125 and b"no SandboxWarmPool of SandboxTemplate 'tools'" in done.stderr and b"apply a SandboxWarmPool" in done.stderr, done
        c.warm("tools", 0)
        c.refuses = ("TemplateNotFound", "SandboxTemplate tools not found\033[31m")
        done = run(api, "--set", "kubernetes.template=tools")
        assert done.status == 125 and b"comes to nothing: TemplateNotFound" in done.stderr and b"\033[31m" not in done.stderr, done
        assert not left(api)
        for flags, says in ((("kubernetes.use=claim",), b"needs the name of a SandboxTemplate"), (("kubernetes.template=../x",), b"kubernetes.template")):
            done = run(api, "--set", *flags)
            assert done.status == 125 and says in done.stderr, done
        for flags, says in ((("--set", "kubernetes.use=pod"), b"kubernetes.use is 'pod'"), (("--policy", "readonly"), b"read-only")):
            done = run(api, "--set", "kubernetes.template=tools", *flags)
            assert done.status == 125 and says in done.stderr, done
    with cluster() as api:
        Controller(api, "v9")
        done = run(api, "--set", "kubernetes.use=sandbox")
        assert done.status == 125 and b"does not know" in done.stderr and b"kubernetes.use=pod" in done.stderr, done


@test(as_user="user", limit=120)
def a_kind_without_a_controller_is_not_waited_for_for_long():
    with cluster() as api:
        Controller(api).silent = True
        begun = time.monotonic()
        done = run(api, "--set", "kubernetes.use=sandbox")
        assert done.status == 125 and b"no controller has said anything of the Sandbox" in done.stderr and b"kubernetes.use=pod" in done.stderr, done
        assert time.monotonic() - begun < 60 and not left(api)


@test(as_user="user")
def what_it_waits_for_is_told_and_a_pending_claim_can_be_given_up():
    with cluster() as api:
        c = Controller(api, "v1beta1")
        c.template("tools", template_of()["spec"]["podTemplate"])
        c.warm("tools", 0)
        c.refuses = ("ReconcilerError", "exceeded quota: pods")
        p = start_brig("run", *settings(api), "--set", "kubernetes.template=tools", "--", "true")
        wait_until(lambda: made(api, "sandboxclaims"), 40)
        time.sleep(2)
        assert p.poll() is None
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=30)
        assert b"exceeded quota" in err, err
        assert wait_until(lambda: not left(api), 20), left(api)


@test(as_user="user")
def a_pod_that_is_not_the_Sandboxs_own_gets_nothing():
    with cluster() as api:
        Controller(api, "v1beta1").stranger = True
        p = start_brig("run", *settings(api), "--set", "kubernetes.use=sandbox", "--", "true")
        wait_until(lambda: pods(api), 40)
        time.sleep(2)
        assert p.poll() is None and not api.attached
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=30)
        assert wait_until(lambda: not [x for x in left(api) if "/sandboxes/" in x], 20)


@test(as_user="user")
def what_a_killed_guard_left_is_removed_with_its_owner():
    with cluster() as api:
        Controller(api, "v1beta1")
        p = start_brig("run", *settings(api), "--set", "kubernetes.use=sandbox", "--", "sleep", "60")
        wait_until(lambda: api.attached, 40)
        time.sleep(1)
        [guard] = [int(c.parent.name) for c in pathlib.Path("/proc").glob("[0-9]*/comm") if read(c) == b"brig-guard\n" and is_ours(c.parent)]
        api.script("GET", ".*/sandboxes/.*", before=lambda _: time.sleep(6))  # a busy one is waited for: nobody else removes it
        os.kill(guard, signal.SIGKILL)
        assert p.wait(60) != 0
        assert wait_until(lambda: not left(api), 20), (left(api), api.requests)
        [removal] = [r for r in api.requests if r["method"] == "DELETE"]
        assert "/sandboxes/" in removal["path"] and b'"uid"' in removal["body"], removal


@test(as_user="user")
def prune_removes_Sandboxes_and_claims_of_ours_and_no_others():
    with daemon() as d, cluster() as api:
        c = Controller(api, "v1beta1")
        assert run(api, "--set", "kubernetes.use=sandbox").stdout == b"ran\n"
        label = json.loads(made(api, "sandboxes")[0]["body"])["metadata"]["labels"]["brig.instance"]
        for name, instance in (("brig-lost", label), ("brig-theirs", "0" * 32)):
            box = c.put(CORE, "sandboxes", name, {}, labels={"brig.sandbox": name.removeprefix("brig-"), "brig.instance": instance})
            meta = {"name": name, "uid": f"uid-{name}", "labels": box["metadata"]["labels"],
                    "ownerReferences": [{"kind": "Sandbox", "name": name, "uid": box["metadata"]["uid"], "controller": True}]}
            api.store.put(f"{PODS}/{name}", {"kind": "Pod", "metadata": meta, "spec": {}, "status": {}}, "ADDED")
        assert sandbox(d, "prune").stdout == b"brig-lost\n"
        assert sorted(left(api)) == sorted([f"{PODS}/brig-theirs", c.path(CORE, "sandboxes", "brig-theirs")]), left(api)


@test(as_user="user")
def a_projects_own_file_names_no_template():
    (workspace() / ".brig.yaml").write_text("kubernetes:\n  template: theirs\n")
    with cluster() as api:
        done = run(api)
        assert done.status == 125 and b"kubernetes.template" in done.stderr and b"brig allow" in done.stderr, done


if __name__ == "__main__":
    sys.exit(main())
