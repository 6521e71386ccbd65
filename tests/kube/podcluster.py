# SPDX-License-Identifier: Apache-2.0
"""A scripted API server whose attach runs the real brig-pod in namespaces of its own, for the tests of this folder."""

import contextlib
import json
import os
import pathlib
import sys

from apiserver import ApiServer, Certificates
from harness import brig_path, files_as_root, scratch, state, uid

HERE = pathlib.Path(__file__).resolve().parent
PODS = "/api/v1/namespaces/default/pods"
SETTINGS = ("--backend", "kubernetes", "--image", "tool:1", "--user", "1000:1000", "--set", "kubernetes.helper_image=brig-pod:1")


def claim(folder, name):
    """Where a PersistentVolumeClaim's files are."""
    return folder / "claims" / name


def volumes(folder, pod, container):
    """Folders of the pod's own, and claims, that a container of it mounts, but for those that podlike makes."""
    [c] = [c for c in pod["spec"]["containers"] + pod["spec"]["initContainers"] if c["name"] == container]
    claims = {v["name"]: claim(folder, v["persistentVolumeClaim"]["claimName"]) for v in pod["spec"]["volumes"] if "persistentVolumeClaim" in v}
    found = []
    for m in c["volumeMounts"]:
        if m["name"] in ("workspace", "code"):
            at = claims.get(m["name"]) or folder / pod["metadata"]["name"] / m["name"]
            at.mkdir(parents=True, exist_ok=True)
            at.chmod(0o777)
            found.append((str(at / m.get("subPath", "")), m["mountPath"], m.get("readOnly", False)))
    return found


def certificates():
    """Made once for all tests: it takes longer than most of them."""
    kept = brig_path().parent / "kube-certificates"
    if not kept.exists():
        with files_as_root():
            new = kept.with_suffix(f".{os.getpid()}")
            new.mkdir()
            made = Certificates(new)
            made.authority("other")
            for file in new.iterdir():
                file.chmod(0o644)
            with contextlib.suppress(OSError):
                new.rename(kept)
    return Certificates(kept)


def some(rows):
    """All rows of a table; under the sanitizers every third: what differs between them is an answer that is read in the same way."""
    return list(rows)[::3] if os.environ.get("LIGHT") else list(rows)


@contextlib.contextmanager
def cluster(*words):
    """An API server whose pods lack what the words say."""
    folder = scratch() / f"api{len(os.listdir(scratch()))}"
    with files_as_root():
        folder.mkdir(mode=0o755)
        with ApiServer(folder, uid(), certificates=certificates()) as api:
            api.program = lambda pod, container: [
                "unshare", "--pid", "--fork", "--kill-child", "--net", "--mount", "--ipc", "--uts", sys.executable, str(HERE / "podlike.py"),
                str(brig_path().parent / "brig-pod"), json.dumps(volumes(folder / "volumes", pod, container)), *words]
            api.kubeconfig()
            yield api


def environment(api):
    return {"KUBECONFIG": str(api.folder / "kubeconfig")}


def pods(api):
    return [path for path in api.store.objects if path.startswith(PODS + "/")]


def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def is_ours(process):
    """Is it one of this test's?"""
    try:
        return str(state()).encode() in (process / "environ").read_bytes()
    except OSError:
        return False
