# SPDX-License-Identifier: Apache-2.0
"""brig's kubernetes backend on a real cluster, with the Role of deploy/kubernetes and no other right."""

import base64
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "lib")]
import engine  # noqa: E402
import kube_cluster  # noqa: E402
from daemon import daemon  # noqa: E402
from harness import PATIENCE, around, brig, brig_path, descendants, files_as_root, identity, main, scratch, start_brig, test, uid, wait_until, workspace  # noqa: E402

cluster = account = None  # that tests share, once it runs


@around
@contextlib.contextmanager
def shared_cluster(folder):
    global cluster, account
    there = os.environ.get("BRIG_KUBE")  # the folder of one that runs already
    with contextlib.nullcontext(kube_cluster.Cluster.running(there)) if there else kube_cluster.Cluster(folder) as c:
        c.load(engine.busybox_tar(), engine.IMAGE)
        c.load_helper(pathlib.Path(os.environ.get("BRIG") or kube_cluster.TOP / "build/brig").parent)
        account = c.deploy()
        cluster = c
        yield


def settings():
    """Whoever starts brig has a kubeconfig of its own."""
    mine = scratch() / "kubeconfig"
    if not mine.exists():
        shutil.copy(account, mine)
        mine.chmod(0o600)
        os.chown(mine, uid(), uid())
    return {"KUBECONFIG": str(mine)}


def options(*more):
    return ("run", "--backend", "kubernetes", "--image", engine.IMAGE, "--set", f"kubernetes.helper_image={kube_cluster.HELPER_IMAGE}", *more)


def run(*argv, **more):
    return brig(*options("--json", *argv), env=settings(), timeout=60 * PATIENCE, **more).json


def start(*argv):
    return start_brig(*options("--json", *argv), env=settings())


def pods():
    return [p["metadata"]["name"] for p in json.loads(cluster.kubectl("get", "pods", "-n", "brig", "-o", "json").stdout)["items"]]


def gone(name):
    """Others may use the namespace as well."""
    return wait_until(lambda: name not in pods(), 60 * PATIENCE, 0.5)


def ended(said):
    return gone(f"brig-{said['id']}")


def begun(word):
    """The pod whose command has that word. Nothing of its workspace is seen here before its end, so the node is asked."""
    found = wait_until(lambda: runs_there(word), 60 * PATIENCE, 0.2)
    assert found, "the command does not begin"
    return found[0]


def starts(pod):
    """How often its command's container began, by the cluster's own record: never twice."""
    found = json.loads(cluster.kubectl("get", "events", "-n", "brig", "--field-selector", f"involvedObject.name={pod}", "-o", "json").stdout)["items"]
    return sum(e["count"] for e in found if e["reason"] == "Started" and e["involvedObject"].get("fieldPath") == "spec.containers{main}")


def runs_there(word):
    return cluster.nodes[0].pods_with("main", word)


def guards():
    return [pid for pid, name in descendants().items() if name == "brig-guard"]


@test(limit=300, alone=True)
def a_run_is_a_pod_that_goes_with_it():
    said = run("--", "sh", "-c", "id -u; echo made > new; exit 3")
    assert (said["outcome"], said["exit_code"]) == ("exited", 3), said
    assert said["stdout"] == f"{uid() or 1000}\n", said
    assert (workspace() / "new").read_text() == "made\n"
    assert ended(said)


@test(limit=300, alone=True)
def the_end_of_a_command_is_told_exactly():
    for script, outcome, code in (("exit 0", "exited", 0), ("exit 255", "exited", 255), ("kill -KILL $$", "signalled", 137), ("kill -SEGV $$", "signalled", 139)):
        said = run("--", "sh", "-c", script)
        assert (said["outcome"], said["exit_code"]) == (outcome, code), (script, said)
    said = run("--timeout", "2s", "--", "sh", "-c", "setsid sleep 600 & sleep 600")
    assert said["outcome"] == "timeout", said
    assert ended(said)


@test(limit=300, alone=True)
def nobody_is_reached_from_inside():
    """The same addresses answer a pod that brig did not make: there is something to close."""
    there = f"nc -w 2 {kube_cluster.CONTROL} 443 </dev/null && echo open || echo closed"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"control-{identity()}"}, "spec": {
        "restartPolicy": "Never", "containers": [{"name": "main", "image": engine.IMAGE, "command": ["sh", "-c", there]}]}}
    cluster.apply(pod)
    name = pod["metadata"]["name"]
    try:
        assert wait_until(lambda: cluster.kubectl("logs", name, check=False).stdout == "open\n", 60 * PATIENCE, 0.5)
    finally:
        cluster.kubectl("delete", "pod", name, "--now", "--wait=false")
    said = run("--", "sh", "-c", f"{there}; ls /sys/class/net; ip route")
    assert said["stdout"].startswith("closed\n"), said
    assert ended(said)


ADMISSION = """
import http.server, json, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        answer = {"uid": asked["uid"], "allowed": "NET_ADMIN" not in json.dumps(asked["object"]), "status": {"message": "no capabilities here"}}
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("", 8443), Handler)
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(*sys.argv[1:3])
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


@contextlib.contextmanager
def without_net_admin():
    """A cluster whose admission takes no pod of brig's that has it."""
    hook = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "no-net-admin"}, "webhooks": [{
        "name": "no-net-admin.example.org", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
        "objectSelector": {"matchLabels": {"app.kubernetes.io/managed-by": "brig"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "clientConfig": {"url": f"https://{kube_cluster.CONTROL}:8443/", "caBundle": base64.b64encode((cluster.pki / "ca.crt").read_bytes()).decode()}}]}
    server = subprocess.Popen(["nsenter", "-t", str(cluster.control.pid_of("machine")), "-n", "--", sys.executable, "-c", ADMISSION,
                               str(cluster.pki / "apiserver.crt"), str(cluster.pki / "apiserver.key")])
    try:
        cluster.apply(hook)
        time.sleep(2)  # until the API server has heard of it
        yield
    finally:
        cluster.kubectl("delete", "validatingwebhookconfiguration", "no-net-admin")
        server.kill()
        server.wait()


@test(limit=400, alone=True, by_root=True, as_user="root")
def where_no_container_may_have_net_admin_the_probe_decides():
    """Nobody enforces a NetworkPolicy here: what is open is refused, and a node that passes nothing on leaves itself alone open."""
    nothing_passes = ["blackhole", "iif", "pods", "pref", "100"]  # what is for the node itself is found before
    rule = ["nsenter", "-t", str(cluster.nodes[0].pid_of("machine")), "-n", "--", "ip", "rule"]
    with without_net_admin():
        said = run("--", "true")
        assert said["outcome"] == "refused" and "not closed" in said["error"]["what"], said
        subprocess.run([*rule, "add", *nothing_passes], check=True)
        try:
            said = run("--", "true")
            assert said["outcome"] == "refused" and "its own node answers" in said["error"]["what"], said
            said = run("--set", "kubernetes.node_reachable=accept", "--", "echo", "ran")
            assert said["stdout"] == "ran\n" and said["isolation"]["network_by"] == "policy, node reachable", said
            assert ended(said)
        finally:
            subprocess.run([*rule, "del", *nothing_passes], check=True)
    said = run("--", "true")  # the control
    assert said["exit_code"] == 0 and "network_by" not in said["isolation"], said
    assert ended(said)


@contextlib.contextmanager
def volume(name):
    """Of the node's, so root's to make; the rest is the test's own."""
    with contextlib.ExitStack() as made:
        with files_as_root():
            folder = made.enter_context(cluster.volume(name))
        try:
            yield folder
        finally:
            with files_as_root():
                made.close()


@test(limit=600, alone=True)
def a_claim_is_the_workspace_and_stays_in_the_cluster():
    """The oracle is the node's own folder. It is root's: the kubelet gives it to the group that the pod names."""
    (workspace() / "here").write_text("mine\n")
    name, group = f"work-{identity()}", uid() or 1000
    claim = ("--set", "kubernetes.workspace=pvc", "--set", f"kubernetes.claim={name}")
    with volume(name) as folder:
        said = run(*claim, "--", "sh", "-c", "ls -A; echo kept > new; exit 3")
        assert (said["exit_code"], said["stdout"]) == (3, ""), said
        assert ended(said)
        assert (folder / "new").read_text() == "kept\n" and (folder / "new").stat().st_gid == group and sorted(os.listdir(folder)) == ["new"]
        assert os.listdir(workspace()) == ["here"]
        said = run(*claim, "--", "sh", "-c", "cat new; mkdir sub; echo more > sub/more")
        assert said["stdout"] == "kept\n" and (folder / "sub/more").read_text() == "more\n", said
        said = run(*claim, "--policy", "readonly", "--", "sh", "-c", "cat new; echo x > new || echo refused; echo x > other || echo refused")
        assert said["stdout"] == "kept\nrefused\nrefused\n" and not (folder / "other").exists(), said
        assert ended(said)
        # A sandbox that stays, stopped and begun anew: another pod, the same files.
        with daemon(env=settings()) as d:
            def sandbox(*argv):
                return brig("sandbox", *argv, env=d.environment, timeout=120 * PATIENCE)

            done = sandbox("create", "--name", "one", *options(*claim, "--set", "kubernetes.use=pod")[1:])
            assert done.status == 0, done
            assert sandbox("exec", "one", "--", "sh", "-c", "cat new; echo from one > one").stdout == b"kept\n"
            assert sandbox("stop", "one").status == 0 and sandbox("resume", "one").status == 0
            assert sandbox("exec", "one", "--", "cat", "one").stdout == b"from one\n"
            assert sandbox("delete", "one").status == 0
        assert (folder / "one").read_text() == "from one\n" and wait_until(lambda: not pods(), 60 * PATIENCE, 0.5), pods()
    said = run("--set", "kubernetes.workspace=pvc", "--set", "kubernetes.claim=nonesuch", "--", "true")
    assert said["outcome"] == "refused" and "nonesuch" in said["error"]["what"] and "kubernetes.claim" in said["error"]["hint"], said
    assert wait_until(lambda: not pods(), 60 * PATIENCE, 0.5), pods()


@test(limit=300, alone=True)
def a_killed_brig_leaves_nothing():
    p = start("--", "sleep", "4711")
    pod = begun("4711")
    p.kill()
    p.wait()
    assert gone(pod)


@test(limit=300, alone=True)
def a_pod_that_is_taken_away_is_told():
    p = start("--", "sleep", "4712")
    pod = begun("4712")
    cluster.kubectl("delete", "pod", "-n", "brig", "--now", pod)
    said = json.loads(p.communicate(timeout=60 * PATIENCE)[0])
    assert said["outcome"] == "failed" and said["error"]["code"] == "unavailable", said
    assert gone(pod)


@test(limit=400, alone=True)
def a_kubelet_that_dies_ends_no_run():
    p = start("--", "sh", "-c", "sleep 20; echo 4713")
    pod = begun("sleep 20")
    cluster.kill("node1", "kubelet")
    said = json.loads(p.communicate(timeout=120 * PATIENCE)[0])
    # The line goes through the kubelet: where it is cut the run is known to be lost, and is not begun twice.
    assert (said["outcome"], said["stdout"]) in (("exited", "4713\n"), ("failed", "")), said
    assert wait_until(cluster.ready, 60 * PATIENCE, 0.5)
    assert gone(pod)


@test(limit=400, alone=True)
def an_api_server_that_dies_is_told_and_leaves_nothing():
    p = start("--", "sleep", "4714")
    pod = begun("4714")
    with cluster.without("control", "kube-apiserver"):
        time.sleep(2)
    said = json.loads(p.communicate(timeout=120 * PATIENCE)[0])
    assert said["outcome"] == "failed" and said["error"]["code"] == "unavailable", said
    assert wait_until(cluster.ready, 60 * PATIENCE, 0.5)
    assert run("--", "true")["exit_code"] == 0
    assert gone(pod)


@test(limit=400, alone=True)
def a_killed_guard_is_told_and_the_next_run_removes_what_it_left():
    p = start("--", "sleep", "4717")
    pod = begun("4717")
    for pid in guards():
        os.kill(pid, signal.SIGKILL)
    said = json.loads(p.communicate(timeout=60 * PATIENCE)[0])
    assert said["outcome"] == "failed" and starts(pod) == 1, said
    assert wait_until(lambda: not runs_there("4717"), 60 * PATIENCE, 0.5)  # the line has ended, and with it the command
    assert run("--", "true")["exit_code"] == 0
    assert gone(pod)


@test(limit=400, alone=True)
def when_all_of_brig_is_killed_the_pod_ends_itself_and_prune_removes_it():
    p = start("--", "sh", "-c", "setsid sleep 4718 & sleep 4718")
    pod = begun("4718")
    for pid in (*guards(), p.pid):
        os.kill(pid, signal.SIGKILL)
    p.wait()
    assert wait_until(lambda: not runs_there("4718"), 60 * PATIENCE, 0.5)
    shown = json.loads(cluster.kubectl("get", "pod", "-n", "brig", pod, "-o", "json").stdout)
    assert 0 < shown["spec"]["activeDeadlineSeconds"] <= 600 + 900, shown["spec"]  # what would end it otherwise
    assert brig("sandbox", "prune", env=settings(), timeout=60 * PATIENCE).status == 0
    assert brig("daemon", "stop").status == 0  # which answers for prune
    assert gone(pod) and starts(pod) == 1


@test(limit=600, alone=True, as_user="root")
def a_node_that_loses_its_power_is_told_and_nothing_is_begun_twice():
    p = start("--", "sleep", "4719")
    pod = begun("4719")
    with cluster.without("node1"):
        said = json.loads(p.communicate(timeout=180 * PATIENCE)[0])
    assert said["outcome"] == "failed" and said["error"]["code"] == "unavailable", said
    assert wait_until(cluster.ready, 120 * PATIENCE, 0.5)
    assert gone(pod) and starts(pod) == 1 and not runs_there("4719")
    assert run("--", "true")["exit_code"] == 0


@test(limit=600, alone=True, as_user="user")
def of_a_batch_nothing_is_lost_or_doubled_whatever_dies():
    lines = scratch() / "lines"
    lines.write_text("".join(json.dumps({"argv": ["sh", "-c", f"sleep 5; echo {n}"], "id": str(n)}) + "\n" for n in range(8)))
    p = start_brig("batch", *options()[1:], "--jobs", "4", "--retries", "5", "--out", str(scratch() / "out"), str(lines), env=settings())
    strikes = [lambda: cluster.kill("node1", "kubelet"), lambda: cluster.kill("control", "kube-apiserver"),
               lambda: cluster.kubectl("delete", "pod", "-n", "brig", "--now", "--wait=false", begun("sleep 5"), check=False)]
    for strike in strikes:
        begun("sleep 5")
        strike()
        assert wait_until(cluster.ready, 60 * PATIENCE, 0.5)
    p.communicate(timeout=300 * PATIENCE)
    results = [json.loads(line) for line in (scratch() / "out/results.jsonl").read_text().splitlines()]
    told = {r["id"]: r["result"]["stdout"] for r in results if r["result"]["exit_code"] == 0}
    assert len(results) == 8 and told == {str(n): f"{n}\n" for n in range(8)}, results
    assert wait_until(lambda: not pods(), 120 * PATIENCE, 0.5), pods()


@test(limit=400, alone=True)
def a_cancelled_run_ends_everything():
    p = start("--", "sh", "-c", "setsid sleep 4715 & sleep 4716")
    pod = begun("4716")
    p.send_signal(signal.SIGTERM)
    said = json.loads(p.communicate(timeout=60 * PATIENCE)[0])
    assert said["outcome"] == "cancelled", said
    assert gone(pod)


@test(limit=300, alone=True, as_user="root")
def the_role_is_enough_and_no_more():
    """Whatever brig's account was refused during these runs would stand in the API server's own record."""
    def asked():
        lines = [json.loads(line) for line in (cluster.control.folder / "audit.jsonl").read_text().splitlines()]
        return [e for e in lines if e["user"]["username"] == "system:serviceaccount:brig:brig"]
    before = len(asked())
    assert run("--", "true")["exit_code"] == 0
    mine = asked()[before:]
    assert mine and not [e for e in mine if e.get("responseStatus", {}).get("code") == 403], mine
    verbs = {(e["verb"], e["objectRef"]["resource"], e["objectRef"].get("subresource")) for e in mine if "objectRef" in e}
    assert not {v for v in verbs if v[0] in ("update", "patch", "deletecollection")}, verbs


if __name__ == "__main__":
    sys.exit(main())
