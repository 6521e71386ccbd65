# SPDX-License-Identifier: Apache-2.0
"""A cluster that is the scripted API server, whose attach runs the real brig-pod in namespaces of its own."""

import contextlib
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from apiserver import ApiServer  # noqa: E402
from harness import brig_path, files_as_root, scratch, uid  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
PODS = "/api/v1/namespaces/default/pods"
SETTINGS = ("--backend", "kubernetes", "--image", "tool:1", "--user", "1000:1000", "--set", "kubernetes.helper_image=brig-pod:1")


def volumes(folder, pod, container):
    """Folders of the pod's own that a container of it mounts, but for those that podlike makes."""
    [c] = [c for c in pod["spec"]["containers"] + pod["spec"]["initContainers"] if c["name"] == container]
    found = []
    for m in c["volumeMounts"]:
        if m["name"] in ("workspace", "code"):
            at = folder / pod["metadata"]["name"] / m["name"]
            at.mkdir(parents=True, exist_ok=True)
            at.chmod(0o777)
            found.append((str(at / m.get("subPath", "")), m["mountPath"], m.get("readOnly", False)))
    return found


@contextlib.contextmanager
def cluster(*words):
    """An API server whose pods lack what the words say."""
    folder = scratch() / f"api{len(os.listdir(scratch()))}"
    with files_as_root():
        folder.mkdir(mode=0o755)
        with ApiServer(folder, uid()) as api:
            api.program = lambda pod, container: [
                "unshare", "--pid", "--fork", "--kill-child", "--net", "--mount", "--ipc", "--uts", sys.executable, str(HERE / "podlike.py"),
                str(brig_path().parent / "brig-pod"), json.dumps(volumes(folder / "volumes", pod, container)), *words]
            api.kubeconfig()
            yield api


def environment(api):
    return {"KUBECONFIG": str(api.folder / "kubeconfig")}


def pods(api):
    return [path for path in api.store.objects if path.startswith(PODS + "/")]
