# SPDX-License-Identifier: Apache-2.0
"""agent-sandbox's kinds and a scripted controller for them, beside apiserver.py: what it does with a Sandbox or a claim, a test says.

    with ApiServer(folder) as api:
        c = Controller(api, "v1alpha1")
        c.template("tools", pod_template)
        c.warm("tools", 1)                   a pool with one Sandbox whose pod runs already
"""

import json
import secrets
import threading

CORE, CLAIMS = "agents.x-k8s.io", "extensions.agents.x-k8s.io"


def copy(thing):
    return json.loads(json.dumps(thing))


class Controller:
    """What a test may change: silent (there is none), change (of a pod's body before it is made), refuses (of a Sandbox: reason and
    message), stranger (pods are somebody else's)."""

    def __init__(self, api, version="v1alpha1", namespace="default", claims=True):
        self.api, self.version, self.ns = api, version, namespace
        self.silent, self.change, self.refuses, self.stranger = False, None, None, False
        self._create, api.create = api.create, self.created
        for group, kinds in ((CORE, ["sandboxes"]), (CLAIMS, ["sandboxclaims", "sandboxtemplates", "sandboxwarmpools"]))[:2 if claims else 1]:
            each = {"groupVersion": f"{group}/{version}", "version": version}
            api.discovery[f"/apis/{group}"] = {"kind": "APIGroup", "name": group, "versions": [each], "preferredVersion": each}
            api.discovery[f"/apis/{group}/{version}"] = {"kind": "APIResourceList", "groupVersion": each["groupVersion"],
                                                         "resources": [{"name": k, "namespaced": True} for k in kinds]}

    def path(self, group, plural, name=""):
        return f"/apis/{group}/{self.version}/namespaces/{self.ns}/{plural}" + (f"/{name}" if name else "")

    def all(self, plural):
        return [o for p, o in self.api.store.objects.items() if f"/{plural}/" in p]

    def put(self, group, plural, name, spec, **meta):
        thing = {"apiVersion": f"{group}/{self.version}", "metadata": {"name": name, "uid": secrets.token_hex(8), "namespace": self.ns, **meta}, "spec": spec}
        self.api.store.put(self.path(group, plural, name), thing, "ADDED")
        return thing

    def template(self, name, pod_template):
        self.put(CLAIMS, "sandboxtemplates", name, {"podTemplate": pod_template})

    def warm(self, template, n):
        pool = self.put(CLAIMS, "sandboxwarmpools", f"{template}-pool", {"replicas": n, "sandboxTemplateRef": {"name": template}})
        for i in range(n):
            self.sandbox(f"{template}-pool-{i}", template, "SandboxWarmPool", pool)

    # -- what it does --

    def created(self, path, thing, kind):
        self._create(path, thing, kind)
        if kind in ("Sandbox", "SandboxClaim") and not self.silent:
            threading.Timer(0.1, self.serve if kind == "Sandbox" else self.bind, [path]).start()

    def say(self, path, ready, reason, message="", **more):
        thing = copy(self.api.store.objects[path])
        thing["status"] = {**thing.get("status", {}), **more,
                           "conditions": [{"type": "Ready", "status": str(ready), "reason": reason, "message": message}]}
        self.api.store.put(path, thing)

    def sandbox(self, name, template, owner_kind, owner):
        owners = [{"kind": owner_kind, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": True}]
        body = copy(self.api.store.objects[self.path(CLAIMS, "sandboxtemplates", template)]["spec"])
        self.put(CORE, "sandboxes", name, body, ownerReferences=owners)
        self.serve(self.path(CORE, "sandboxes", name))

    def serve(self, path):
        """A Sandbox gets its pod."""
        if self.refuses:
            self.say(path, False, *self.refuses)
            return
        box = self.api.store.objects.get(path)
        if box is None:
            return
        name, body = box["metadata"]["name"], copy(box["spec"]["podTemplate"])
        body["spec"].setdefault("automountServiceAccountToken", False)
        meta = {**body.get("metadata", {}), "name": name, "namespace": self.ns, "uid": secrets.token_hex(8), "creationTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{"kind": "Sandbox", "name": name, "uid": "another" if self.stranger else box["metadata"]["uid"], "controller": True}]}
        meta.setdefault("labels", {})["agents.x-k8s.io/sandbox-name-hash"] = "0badcafe"
        pod = {"kind": "Pod", "metadata": meta, "spec": body["spec"]}
        if self.change:
            self.change(pod)
        self.say(path, False, "DependenciesNotReady", "Pod does not exist")
        self.api.create(f"/api/v1/namespaces/{self.ns}/pods/{name}", pod, "Pod")
        self.say(path, True, "DependenciesReady", "Pod is Ready", selector="agents.x-k8s.io/sandbox-name-hash=0badcafe")

    def bind(self, path):
        """A claim gets a Sandbox: one of the pool, else a new one."""
        claim = self.api.store.objects.get(path)
        if claim is None:
            return
        spec, uid = claim["spec"], claim["metadata"]["uid"]
        if "warmPoolRef" in spec:
            template = self.api.store.objects[self.path(CLAIMS, "sandboxwarmpools", spec["warmPoolRef"]["name"])]["spec"]["sandboxTemplateRef"]["name"]
        else:
            template = spec["sandboxTemplateRef"]["name"]
        if self.refuses:
            self.say(path, False, *self.refuses)
            return
        for box in self.all("sandboxes"):
            if box["metadata"].get("ownerReferences", [{}])[0].get("kind") == "SandboxWarmPool":
                box = copy(box)
                box["metadata"]["ownerReferences"] = [{"kind": "SandboxClaim", "name": claim["metadata"]["name"], "uid": uid, "controller": True}]
                box["metadata"]["annotations"] = {"agents.x-k8s.io/pod-name": box["metadata"]["name"]}
                self.api.store.put(self.path(CORE, "sandboxes", box["metadata"]["name"]), box)
                self.say(path, True, "DependenciesReady", sandbox={"name": box["metadata"]["name"]})
                return
        name = claim["metadata"]["name"]
        self.sandbox(name, template, "SandboxClaim", claim)
        self.say(path, True, "DependenciesReady", sandbox={"name": name})
