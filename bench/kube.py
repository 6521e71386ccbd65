# SPDX-License-Identifier: Apache-2.0
"""`true` in a pod of a real cluster: by kubectl, and by brig; and many of them by brig batch."""

import json
import os
import pathlib
import subprocess
import sys
import time

from harness import Candidate, Row

CLUSTER = pathlib.Path(__file__).resolve().parents[1] / "tests/cluster"
MANY, AT_ONCE = 200, 8


def _cluster(bench, folder):
    """The test cluster: one that runs already where BRIG_KUBE names its folder."""
    sys.path[:0] = [str(CLUSTER), str(CLUSTER.parent / "lib")]
    import engine
    import kube_cluster
    there = os.environ.get("BRIG_KUBE")
    c = kube_cluster.Cluster.running(there) if there else kube_cluster.Cluster(folder)
    if not there:
        bench.later(c.stop)
        c.start()
    c.load(engine.busybox_tar(), engine.IMAGE)
    c.load_helper(bench.build)
    return c, engine.IMAGE, kube_cluster.HELPER_IMAGE, c.deploy()


def _by_kubectl(c, image, pod=None):
    """Made, followed to its end, and deleted without waiting for that, as brig does. pod: the whole of one."""
    words = [str(c.bin / "kubectl"), f"--kubeconfig={c.kubeconfig}", "-n", "brig"]
    more = [f"--overrides={json.dumps(pod)}"] if pod else []
    line = ('"$0" "$1" "$2" "$3" run peer-$$ --quiet --attach --restart=Never --image="$4" --image-pull-policy=IfNotPresent ${5:+"$5"} -- true </dev/null >/dev/null 2>&1; '
            'code=$?; "$0" "$1" "$2" "$3" delete pod peer-$$ --wait=false >/dev/null; exit $code')
    return ["/bin/sh", "-c", line, *words, image, *more]


def _same(bench, who, brig):
    """The pod that brig would make, but for the command, which needs no brig."""
    plan = json.loads(bench.run_as(who, [bench.brig, "plan", *brig[2:], "--json", "--", "true"]).stdout)["pod"]
    spec = plan["spec"]
    for field in ("stdin", "stdinOnce", "tty"):
        spec["containers"][0].pop(field, None)
    spec["containers"][0]["command"] = ["true"]
    return {"apiVersion": "v1", "spec": spec}


def _many(bench, who, brig, count):
    """Runs a second by brig batch, and how many failed."""
    lines = who.folder("batch") / "lines"
    lines.write_text("".join(json.dumps({"argv": ["echo", str(n)], "id": str(n)}) + "\n" for n in range(count)))
    os.chown(lines, who.uid, who.gid)
    began = time.monotonic()
    done = bench.run_as(who, [bench.brig, "batch", *brig[2:], "--jobs", str(AT_ONCE), "--memory", "128m", str(lines)], timeout=1500)
    took = time.monotonic() - began
    results = [json.loads(line) for line in done.stdout.splitlines()]
    good = sum((r.get("result") or r).get("exit_code") == 0 for r in results)
    bench.add(Row(f"brig batch, {count} runs, {AT_ONCE} at a time", rate=count / took, unit="runs/s", ok=good == count, target=f"{count} good"))
    bench.note(f"brig batch on kubernetes: {good} of {count} runs good, {took:.0f} s")


def kubernetes(bench):
    """`true` in a pod whose image is on the node."""
    who = next((w for w in bench.people if w.uid == 0), None)
    if not who or not bench.brig:
        bench.note("kubernetes is left out: the test cluster is started by root")
        return
    if not os.environ.get("BRIG_KUBE") and not list((pathlib.Path.home() / ".cache/brig-tests").glob("kubernetes-*/VERSION")):
        bench.note("kubernetes is left out: tests/cluster/kube-programs has not built it yet")
        return
    bench.head("`true` in a pod, on a cluster of one node")
    c, image, helper, account = _cluster(bench, who.base / "cluster")
    config = who.base / "kubeconfig"
    config.write_text(pathlib.Path(account).read_text())
    config.chmod(0o600)
    brig = [bench.brig, "run", "--backend", "kubernetes", "--quiet", "--image", image, "--set", f"kubernetes.helper_image={helper}",
            "--set", f"kubernetes.kubeconfig={config}"]
    peers = {"kubectl run": _by_kubectl(c, image), "kubectl run, the same containers": _by_kubectl(c, image, _same(bench, who, brig))}
    figures = bench.measure(who, [*(Candidate(n, a) for n, a in peers.items()), Candidate("brig run, kubernetes", [*brig, "--", "true"])],
                            bench.count(15, 5), warmup=1, timeout=120)
    same = "kubectl run, the same containers"
    for name, f in figures.items():
        ours = name.startswith("brig")
        bench.add_timed(name, f, figures.get(same) if ours else None, same if ours else "", 1.15 if ours else None)
    _many(bench, who, brig, bench.count(MANY, 20))
