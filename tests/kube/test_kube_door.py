#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""network: proxy against the scripted API server: both containers are real, in one network namespace with a device of its own, and the world
outside is a server that notes what it sees."""

import base64
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import textwrap

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "lib"), str(pathlib.Path(__file__).resolve().parent)]
from controller import Controller  # noqa: E402
from daemon import daemon  # noqa: E402
from harness import brig, brig_path, main, scratch, start_brig, test, wait_until  # noqa: E402
from podcluster import HERE, PODS, SETTINGS, cluster, environment, is_ours, pods, read, volumes  # noqa: E402

SECRETS = "/api/v1/namespaces/default/secrets"
VALUE = "real-value-51c0ffee77"
ADDRESS = "203.0.113.1"

WORLD = r"""
import http.server, json, os, socket, ssl, subprocess, sys, threading
folder, address = sys.argv[1:]
def ip(*words, of=None): subprocess.run([*(["nsenter", "-t", str(of), "-n"] if of else []), "ip", *words], check=True)
def note(*what):
    with open(folder + "/seen", "a") as f: f.write(json.dumps(what) + "\n")
ip("link", "set", "lo", "up")
for own in (address, "192.124.249.9", "192.124.249.8"): ip("addr", "add", own + "/32", "dev", "lo")
def pod(name):
    # The network of a pod; the one before has ended.
    subprocess.run(["ip", "link", "del", "eth1"], capture_output=True)
    p = subprocess.Popen(["unshare", "--net", "--kill-child", "--fork", "sh", "-c", "echo; exec sleep 600"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE); p.stdout.readline()
    of = int(open(f"/proc/{p.pid}/task/{p.pid}/children").read().split()[0])
    ip("link", "add", "eth1", "type", "veth", "peer", "name", "eth0", "netns", str(of))
    ip("addr", "add", "10.9.8.1/24", "dev", "eth1"); ip("link", "set", "eth1", "up")
    ip("addr", "add", "10.9.8.2/24", "dev", "eth0", of=of); ip("link", "set", "eth0", "up", of=of); ip("route", "add", "default", "via", "10.9.8.1", of=of)
    open(f"{folder}/new", "w").write(str(of)); os.rename(f"{folder}/new", f"{folder}/{name}.pid")
def pods():
    for line in sys.stdin: pod(line.strip())
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        note("request", self.path, dict(self.headers))
        self.send_response(200); self.send_header("Content-Length", "19"); self.end_headers(); self.wfile.write(b"hello from outside\n")
    def log_message(self, *_): pass
def other():
    s = socket.socket(); s.bind(("0.0.0.0", 8081)); s.listen()
    while True:
        c, who = s.accept(); note("connection", who[0]); note("target", c.getsockname()[0]); c.close()
def names():
    # n8.example.net is 192.124.249.8, and so on
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("10.9.8.1", 53))
    while True:
        data, who = s.recvfrom(4096)
        end = data.index(0, 12) + 5
        four = data[end - 4:end - 2] == bytes([0, 1])
        found = bytes([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 124, 249, data[14] - 48]) if four else b""
        s.sendto(data[:2] + bytes([0x81, 0x80, 0, 1, 0, four, 0, 0, 0, 0]) + data[12:end] + found, who)
pod("first")
for f in (other, names, pods): threading.Thread(target=f, daemon=True).start()
server = http.server.ThreadingHTTPServer((address, 8443), Handler)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(folder + "/leaf.pem", folder + "/leaf.key")
server.socket = c.wrap_socket(server.socket, server_side=True)
open(folder + "/up", "w").close()
server.serve_forever()
"""


class World:
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(mode=0o755)
        self.roots = folder / "leaf.pem"  # it has signed itself
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", folder / "leaf.key", "-out", self.roots,
                        "-days", "30", "-subj", "/CN=up.test", "-addext", "subjectAltName=DNS:up.test"], check=True, capture_output=True)
        self.process = subprocess.Popen(["unshare", "--net", "--pid", "--mount-proc", "--fork", "--kill-child", sys.executable, "-c", WORLD, str(folder), ADDRESS],
                                        stdin=subprocess.PIPE, text=True)
        self.pods = []
        assert wait_until((folder / "up").exists, 30, 0.05)

    def seen(self, kind):
        path = self.folder / "seen"
        return [line[1:] for line in map(json.loads, path.read_text().splitlines()) if line[0] == kind] if path.exists() else []

    def network(self, pod=None):
        """A pod's, by its number here: the world has its own. Each has another one, the first the one that is there at first."""
        if pod and pod not in self.pods:
            self.pods.append(pod)
            if len(self.pods) > 1:
                self.process.stdin.write(pod + "\n")
                self.process.stdin.flush()
        name = pod if pod in self.pods[1:] else "first"
        assert wait_until((self.folder / f"{name}.pid").exists, 30, 0.05), name
        inside = (self.folder / f"{name}.pid").read_text()
        first = int(pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])
        for pid in _below(first):
            if re.search(rf"^NSpid:.*\s{inside}$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE):
                return pid
        raise AssertionError("no pod")

    def close(self):
        self.process.kill()
        self.process.wait()


def _below(pid):
    for thread in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in thread.read_text().split():
            yield int(child)
            yield from _below(int(child))


@contextlib.contextmanager
def door_cluster(apart=False, door=()):
    """apart: the command's container is in a network of its own, which does not lead to the door; door: words for the door's (podlike.py)."""
    with cluster() as api:
        world = World(api.folder / "world")

        def program(pod, container):
            found = volumes(api.folder / "volumes", pod, container)
            [c] = [c for c in pod["spec"]["containers"] + pod["spec"]["initContainers"] if c["name"] == container]
            for m in c["volumeMounts"]:
                at = api.folder / "volumes" / pod["metadata"]["name"] / m["name"]
                if m["name"] in ("trust", "plan"):
                    at.mkdir(parents=True, exist_ok=True)
                    found.append((str(at), m["mountPath"], m.get("readOnly", False)))
                if m["name"] == "plan":
                    (at / "plan").write_bytes(base64.b64decode(api.store.objects[f"{SECRETS}/{pod['metadata']['name']}"]["data"]["plan"]))
                    (at / "plan").chmod(0o400)
            if container == "door":
                (api.folder / "resolv.conf").write_text("nameserver 10.9.8.1\n")
                found.append((str(api.folder / "resolv.conf"), "/etc/resolv.conf", True))
            joined = ["--net"] if apart and container == "main" else []
            return ["nsenter", "-t", str(world.network(pod["metadata"]["uid"])), "-n", "unshare", "--pid", "--fork", "--kill-child", "--mount", "--ipc", "--uts", *joined, sys.executable,
                    str(HERE / "podlike.py"), str(brig_path().parent / "brig-pod"), json.dumps(found), *(["door", *door] if container == "door" else [])]

        api.program = program
        try:
            yield api, world
        finally:
            world.close()


def words(world, *args, verb=("run",)):
    config = scratch() / "door.yaml"
    config.write_text(textwrap.dedent(f"""\
        brig: 1
        egress:
          allow: ["up.test:8443"]
          resolve: {{up.test: "{ADDRESS}:8443"}}
          roots: ["{world.roots}"]
        credentials:
          UP_TOKEN:
            host: "up.test:8443"
            from: {{env: UP_TOKEN}}
        """))
    return (*verb, *SETTINGS, "--network", "proxy", "--config", str(config), "--set", "kubernetes.workspace=empty", *args)


def run(api, world, *args, command):
    return brig(*words(world, *args), "--", *command, env={**environment(api), "UP_TOKEN": VALUE}, timeout=90)


GO = """
import os, socket, urllib.request
def get(url):
    try: return urllib.request.urlopen(urllib.request.Request(url, headers={"Authorization": "Bearer " + os.environ["UP_TOKEN"]}), timeout=20).read()
    except Exception as e: return repr(e)
print(get("https://up.test:8443/one"))
for address in ("203.0.113.1", "10.9.8.1"):
    try: s = socket.create_connection((address, 8081), 3); s.sendall(b"x")
    except OSError as e: print(address, e.strerror)
print(os.environ["UP_TOKEN"], os.path.exists("/brig-plan"), open("/etc/brig/ca-bundle.crt").read().count("BEGIN") > 1)
try: urllib.request.urlopen("https://elsewhere.test/", timeout=20)
except Exception as e: print("elsewhere", e)
"""
ONE = GO.split("for address")[0]


@test(limit=180)
def a_request_goes_through_the_door_and_nothing_around_it():
    with door_cluster() as (api, world):
        before = subprocess.run(["nsenter", "-t", str(world.network()), "-n", sys.executable, "-c", f"import socket; socket.create_connection(('{ADDRESS}', 8081), 3)"], check=False)
        assert before.returncode == 0 and wait_until(lambda: len(world.seen("connection")) == 1), "the control is not seen"
        said = run(api, world, "--json", command=("python3", "-c", GO)).json
        assert said["outcome"] == "exited" and "hello from outside" in said["stdout"], said
        [(path, fields)] = world.seen("request")
        assert path == "/one" and fields["Authorization"] == f"Bearer {VALUE}", fields
        assert len(world.seen("connection")) == 1, said["stdout"]
        assert VALUE not in json.dumps(said) and "False True" in said["stdout"], said["stdout"]
        assert said["egress"]["allowed"] >= 1 and said["egress"]["denied"] >= 1, said["egress"]
        assert said["isolation"]["network"] == "proxy" and any("elsewhere.test" in d["target"] for d in said["denials"]), said["denials"]
        record = brig("audit", "show", said["id"], "--json", env=environment(api)).stdout.decode()
        assert "egress.allow" in record and "egress.deny" in record and VALUE not in record, record
        assert not pods(api) and not [p for p in api.store.objects if p.startswith(SECRETS)], api.store.objects


@test(limit=120, as_user="both")
def code_and_a_claim_go_well_with_a_door():
    """One container more before it, and a volume that a group is given."""
    with door_cluster() as (api, world):
        line = words(world, "--json", "--set", "kubernetes.workspace=pvc", "--set", "kubernetes.claim=work", verb=("python",))
        said = brig(*line, "-c", ONE + "open('got', 'w').write(__file__)", env={**environment(api), "UP_TOKEN": VALUE}, timeout=90).json
        assert said["outcome"] == "exited" and "hello from outside" in said["stdout"] and len(world.seen("request")) == 1, said
        assert (api.folder / "volumes/claims/work/got").read_text() == "/code/_run.py" and not pods(api) and not held(api), api.store.objects


@test(limit=120, as_user="root")
def a_network_that_does_not_lead_to_the_door_is_refused():
    with door_cluster(apart=True) as (api, world):
        done = run(api, world, command=("echo", "ran"))
        assert done.status == 125 and b"leads to the door" in done.stderr and b"ran" not in done.stdout, done
        assert not pods(api)


@test(limit=120, as_user="root")
def a_node_with_a_public_address_is_closed_as_this_machine_is():
    """Control: the address beside it, which no node has."""
    with door_cluster(door=("public",)) as (api, world):
        said = run(api, world, "--json", "--allow", "n8.example.net:8081", "--allow", "n9.example.net:8081", command=(
            "python3", "-c", "import urllib.request\nfor n in (8, 9):\n  try: urllib.request.urlopen(f'https://n{n}.example.net:8081/', timeout=20)\n  except Exception as e: print(n, e)")).json
        assert len(world.seen("connection")) >= 1 and world.seen("target") == [["192.124.249.8"]] * len(world.seen("target")), (world.seen("target"), said)
        assert [d for d in said["denials"] if d["target"] == "n9.example.net:8081" and "of this machine" in d["reason"]], said["denials"]


@test(limit=120, as_user="root")
def without_the_right_to_make_secrets_it_is_refused():
    with door_cluster() as (api, world):
        api.script("POST", SECRETS, status=403)
        done = run(api, world, command=("echo", "ran"))
        assert done.status == 125 and b"Secret" in done.stderr and b"doctor --backend kubernetes" in done.stderr, done
        assert not pods(api) and not world.seen("request")


def forged(body):
    """A Secret of the same name and labels, with rules that are somebody else's."""
    thing = json.loads(body)
    plan = base64.b64decode(thing["data"]["plan"])
    assert b"up.test" in plan
    thing["data"]["plan"] = base64.b64encode(plan.replace(b"up.test", b"ev.test")).decode()
    return thing


@test(limit=240, as_user="root")
def rules_that_somebody_else_put_into_the_secret_are_not_obeyed():
    """Who may make Secrets in the namespace can be there first, or put another one in its place. Control: the answer to the first try alone is lost."""
    def first(handler):
        thing = forged(handler.body)
        handler.api.store.put(f"{SECRETS}/{thing['metadata']['name']}", thing, "ADDED")

    def instead(api):
        create = api.create
        api.create = lambda path, thing, kind: create(path, forged(json.dumps(thing)) if kind == "Secret" else thing, kind)

    for hostile in (lambda api: api.script("POST", SECRETS, before=first), instead):
        with door_cluster() as (api, world):
            hostile(api)
            done = run(api, world, command=("echo", "ran"))
            assert done.status == 125 and b"not the one that brig wrote" in done.stderr and b"ran" not in done.stdout, done
            assert not world.seen("request") and wait_until(lambda: not pods(api), 20)  # noqa: B023
    with door_cluster() as (api, world):  # without a right to read it
        api.script("POST", SECRETS, keep=True, close=True)
        api.script("GET", f"{SECRETS}/.*", times=99, status=403)
        done = run(api, world, command=("echo", "ran"))
        assert done.stdout == b"ran\n" and len([r for r in api.requests if r["method"] == "POST" and r["path"] == SECRETS]) == 2, done
        assert not pods(api) and not [p for p in api.store.objects if p.startswith(SECRETS)], api.store.objects


def held(api):
    return [p for p in api.store.objects if p.startswith(SECRETS)]


@test(limit=240, as_user="both")
def what_is_left_when_all_of_brig_is_killed_has_no_credential_in_it():
    """Control: the pod's object is left, and the Secret was there while the door had not read it."""
    with door_cluster() as (api, world):
        was, create = [], api.create

        def note(path, thing, kind):
            create(path, thing, kind)
            was.extend(VALUE.encode() in base64.b64decode(thing["data"]["plan"]) for _ in range(kind == "Secret"))

        api.create = note
        p = start_brig(*words(world), "--", "sh", "-c", "echo begun; sleep 60", env={**environment(api), "UP_TOKEN": VALUE})
        assert p.stdout.readline() == b"begun\n" and was == [True] and not held(api), api.store.objects
        [guard] = [int(c.parent.name) for c in pathlib.Path("/proc").glob("[0-9]*/comm") if read(c) == b"brig-guard\n" and is_ours(c.parent)]
        for how in (signal.SIGSTOP, signal.SIGKILL):  # neither is to see the other's end
            for pid in (p.pid, guard):
                os.kill(pid, how)
        p.communicate(timeout=60)
        assert len(pods(api)) == 1 and not held(api), api.store.objects
        # The next one removes it, once the kernel has taken the killed one's lock away.
        assert wait_until(lambda: brig("run", *SETTINGS, "--set", "kubernetes.workspace=empty", "--", "true", env=environment(api), timeout=90) and not pods(api), 20, 0.5)
    with door_cluster() as (api, world):
        api.script("DELETE", f"{SECRETS}/.*", status=403)
        done = run(api, world, command=("echo", "ran"))
        assert done.stdout == b"ran\n" and b"stays until the pod is removed" in done.stderr, done
        assert not pods(api) and not held(api), api.store.objects


ELSEWHERE = """
import sys, urllib.request
try: urllib.request.urlopen(f"https://{sys.argv[1]}/", timeout=20)
except Exception as e: print(e)
"""


@test(limit=240, as_user="both")
def a_sandbox_that_stays_has_a_door_of_its_own():
    """A pod in any case: whatever agent-sandbox makes has no door. The line to the door is slower here than the command's, and a command is told all the same."""
    with daemon(env={"UP_TOKEN": VALUE}) as d, door_cluster() as (api, world):
        Controller(api, claims=False)
        api.slow["door"] = 0.3

        def sandbox(*argv):
            return brig("sandbox", *argv, env=d.environment, timeout=90)

        def execute(code, *argv):
            said = sandbox("exec", "one", "--json", "--", "python3", "-c", code, *argv).json
            assert said["outcome"] == "exited", said
            return said

        def denied(host):
            return [x["target"] for x in execute(ELSEWHERE, host)["denials"]]

        done = brig(*words(world, "--set", f"kubernetes.kubeconfig={api.folder}/kubeconfig", verb=("sandbox", "create", "--name", "one")), env=d.environment, timeout=90)
        assert done.status == 0, done
        assert len(pods(api)) == 1 and not held(api) and not [p for p in api.store.objects if "/sandboxes/" in p], api.store.objects
        of = sandbox("get", "one", "--json").json["run"]
        for n in range(2):
            said = execute(ONE)
            assert "hello from outside" in said["stdout"] and not said["denials"], said
            assert len(world.seen("request")) == n + 1 and world.seen("request")[-1][1]["Authorization"] == f"Bearer {VALUE}", world.seen("request")
            assert denied("elsewhere.test") == ["elsewhere.test:443"]
            d.restart(signal.SIGKILL)  # the door is the monitor's
        assert denied("other.test") == ["other.test:443"] and not execute("1")["denials"]
        first = [api.store.objects[p]["metadata"]["uid"] for p in pods(api)]
        assert sandbox("stop", "one").status == 0 and wait_until(lambda: not pods(api) and not held(api), 20), api.store.objects
        record = brig("audit", "show", of, "--json").stdout.decode()
        assert record.count("egress.allow") >= 2 and record.count("egress.deny") >= 3 and VALUE not in record, record
        # Another pod, with a Secret and a door of its own; the rules are the same.
        done = sandbox("resume", "one")
        assert done.status == 0 and [api.store.objects[p]["metadata"]["uid"] for p in pods(api)] != first and not held(api), done
        assert "hello from outside" in execute(ONE)["stdout"] and len(world.seen("request")) == 3 and denied("elsewhere.test")
        assert sandbox("delete", "one").status == 0 and wait_until(lambda: not pods(api) and not held(api), 20), api.store.objects


@test(limit=180, as_user="user")
def a_sandbox_whose_door_has_gone_ends():
    """Control: it serves before."""
    with daemon(env={"UP_TOKEN": VALUE}) as d, door_cluster() as (api, world):
        done = brig(*words(world, "--set", f"kubernetes.kubeconfig={api.folder}/kubeconfig", verb=("sandbox", "create", "--name", "one")), env=d.environment, timeout=90)
        assert done.status == 0, done
        assert b"hello" in brig("sandbox", "exec", "one", "--", "python3", "-c", ONE, env=d.environment, timeout=90).stdout
        p = start_brig("sandbox", "exec", "one", "--json", "--", "sleep", "60", env=d.environment)
        wait_until(lambda: any(read(c) == b"sleep\x0060\x00" for c in pathlib.Path("/proc").glob("[0-9]*/cmdline")), 30, 0.1)
        [door] = [process for name, process in api.attached.items() if name.endswith("#door")]
        os.killpg(door.pid, signal.SIGKILL)
        said = json.loads(p.communicate(timeout=60)[0])
        assert said["outcome"] == "failed", said
        assert wait_until(lambda: not pods(api) and not held(api), 30), api.store.objects
        box = brig("sandbox", "get", "one", "--json", env=d.environment).json
        assert (box["state"], box["reason"]) == ("stopped", "failed"), box
        assert brig("sandbox", "delete", "one", env=d.environment).status == 0


def _door(pod):
    return pod["spec"]["containers"][0]


CHANGES = {
    "a variable of the door's": lambda p: _door(p)["env"].append({"name": "LD_PRELOAD", "value": "/x"}),
    "another program": lambda p: _door(p).update(command=["/bin/sh"]),
    "another capability": lambda p: _door(p)["securityContext"]["capabilities"]["add"].append("SYS_PTRACE"),
    "the plan in the command's container": lambda p: p["spec"]["containers"][1]["volumeMounts"].append({"name": "plan", "mountPath": "/x", "readOnly": True}),
    "a trust that can be written to": lambda p: p["spec"]["containers"][1]["volumeMounts"][-1].pop("readOnly"),
    "another Secret": lambda p: p["spec"]["volumes"][-2]["projected"]["sources"][0]["secret"].update(name="other"),
    "a plan for everybody": lambda p: p["spec"]["volumes"][-2]["projected"].update(defaultMode=0o444),
    "one process namespace": lambda p: p["spec"].update(shareProcessNamespace=True),
    "no door": lambda p: p["spec"]["containers"].pop(0),
}


@test(limit=240, as_user="root")
def a_pod_whose_door_admission_has_changed_is_refused():
    held = []
    for name, change in CHANGES.items():
        with cluster() as api:
            put, taken = api.store.put, set()

            def changed(path, thing, *rest, put=put, taken=taken, change=change):
                if path.startswith(PODS) and path not in taken:
                    change(thing)
                    taken.add(path)
                return put(path, thing, *rest)

            api.store.put = changed
            done = brig("run", *SETTINGS, "--network", "proxy", "--allow", "up.test", "--set", "kubernetes.workspace=empty", "--", "true", env=environment(api), timeout=60)
            if done.status != 125 or b"otherwise than asked for" not in done.stderr or api.attached:
                held.append((name, done.status, done.stderr))
            assert not pods(api), name
    assert not held, held


if __name__ == "__main__":
    sys.exit(main())
