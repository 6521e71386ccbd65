# SPDX-License-Identifier: Apache-2.0
"""network: proxy on a real cluster: what goes through the door, and what tries to get around it.

The oracle is on the other side: a server and a name server outside of the cluster, which note what they see."""

import base64
import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import textwrap

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "lib"), str(pathlib.Path(__file__).parents[1] / "egress")]
import engine  # noqa: E402
import kube_cluster  # noqa: E402
from daemon import daemon  # noqa: E402
from door import openssl  # noqa: E402
from harness import PATIENCE, around, brig, files_as_root, identity, main, scratch, start_brig, test, uid, wait_until  # noqa: E402

IMAGE = "brig-test:door"
SECRET = "real-value-9f3c1a7be2"
cluster = account = world = None  # that tests share, once they run

OUTSIDE = r"""
import http.server, json, socket, ssl, sys, threading
folder, address = sys.argv[1:]
def note(*what):
    with open(folder + "/seen", "a") as f: f.write(json.dumps(what) + "\n")
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        note("request", self.path, dict(self.headers))
        body = b"hello from outside\n"
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *_): pass
def names():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((address, 53))
    while True:
        data, who = s.recvfrom(4096); note("name", data[12:].hex())
        s.sendto(data[:2] + b"\x81\x83" + data[4:6] + bytes(6) + data[12:], who)
def any_port(port):
    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("0.0.0.0", port)); s.listen(64)
    while True:
        c, who = s.accept(); note("connection", port, who[0]); c.close()
threading.Thread(target=names, daemon=True).start()
threading.Thread(target=any_port, args=(8081,), daemon=True).start()
server = http.server.ThreadingHTTPServer((address, 8443), Handler)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(folder + "/leaf.pem", folder + "/leaf.key")
server.socket = c.wrap_socket(server.socket, server_side=True)
note("up")
server.serve_forever()
"""


class World:
    """What there is outside of the cluster."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(mode=0o755, parents=True)
        self.roots = folder / "leaf.pem"  # it has signed itself
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", folder / "leaf.key", "-out", self.roots,
                "-days", 30, "-subj", "/CN=up.test", "-addext", "subjectAltName=DNS:up.test")
        self.roots.chmod(0o644)
        pid = (cluster.control.folder / "machine.pid").read_text().strip()
        self.process = subprocess.Popen(["nsenter", "-t", pid, "-n", "--", sys.executable, "-c", OUTSIDE, str(folder), kube_cluster.OUTSIDE])
        assert wait_until(lambda: self.seen("up"), 30 * PATIENCE, 0.1)
        (folder / "seen").chmod(0o644)

    def seen(self, kind):
        path = self.folder / "seen"
        return [line[1:] for line in map(json.loads, path.read_text().splitlines()) if line[0] == kind] if path.exists() else []

    def all(self):
        return (self.folder / "seen").read_text()

    def close(self):
        self.process.kill()
        self.process.wait()


@around
@contextlib.contextmanager
def shared_cluster(folder):
    global cluster, account, world
    there = os.environ.get("BRIG_KUBE")  # the folder of one that runs already
    with contextlib.nullcontext(kube_cluster.Cluster.running(there)) if there else kube_cluster.Cluster(folder) as c:
        c.load(engine.curl_tar(base=engine.python_tar()), IMAGE)
        c.load(engine.busybox_tar(), engine.IMAGE)
        c.load_helper(pathlib.Path(os.environ.get("BRIG") or kube_cluster.TOP / "build/brig").parent)
        account = c.deploy()
        cluster = c
        world = World(folder.parent / f"{folder.name}-world")
        try:
            yield
        finally:
            world.close()
            shutil.rmtree(world.folder)


def settings():
    mine = scratch() / "kubeconfig"
    if not mine.exists():
        shutil.copy(account, mine)
        mine.chmod(0o600)
        os.chown(mine, uid(), uid())
    return {"KUBECONFIG": str(mine), "UP_TOKEN": SECRET}


def configuration():
    """The user's own: a pinned name, a root, a credential for it."""
    config = scratch() / "config" / "brig.yaml"
    config.parent.mkdir(exist_ok=True)
    config.write_text(textwrap.dedent(f"""\
        brig: 1
        egress:
          allow: ["up.test:8443"]
          resolve: {{up.test: "{kube_cluster.OUTSIDE}:8443"}}
          roots: ["{world.roots}"]
        credentials:
          UP_TOKEN:
            host: "up.test:8443"
            from: {{env: UP_TOKEN}}
        """))
    config.chmod(0o644)
    return str(config)


def options(*more):
    return ("run", "--backend", "kubernetes", "--image", IMAGE, "--network", "proxy", "--config", configuration(), "--set", "kubernetes.workspace=empty",
            "--set", f"kubernetes.helper_image={kube_cluster.HELPER_IMAGE}", *more)


def run(*argv, **more):
    return brig(*options("--json", *argv), env=settings(), timeout=90 * PATIENCE, **more).json


def python(text, *more):
    return run(*more, "--", "python3", "-c", textwrap.dedent(text))


def objects(kind):
    return [p["metadata"]["name"] for p in json.loads(cluster.kubectl("get", kind, "-n", "brig", "-o", "json").stdout)["items"]]


def leaves_nothing(said):
    name = f"brig-{said['id']}"
    return wait_until(lambda: not any(name in objects(kind) for kind in ("pods", "secrets", "networkpolicies")), 90 * PATIENCE, 0.5)


GET = "curl -sS --max-time 20 https://up.test:8443{}"


@test(limit=300, alone=True)
def a_request_goes_through_the_door_with_its_credential_and_is_on_the_record():
    before = len(world.seen("request"))
    said = run("--", "sh", "-c", f"{GET.format('/one')} -H \"Authorization: Bearer $UP_TOKEN\"; echo token=$UP_TOKEN; "
               "curl -sS --max-time 20 -o /dev/null -w '%{http_code}\\n' https://elsewhere.test/")
    assert said["outcome"] == "exited" and "hello from outside" in said["stdout"], said
    [(path, fields)] = world.seen("request")[before:]
    assert path == "/one" and fields["Authorization"] == f"Bearer {SECRET}", fields
    assert SECRET not in said["stdout"] and "token=" in said["stdout"] and "token=\n" not in said["stdout"], said["stdout"]
    assert said["egress"]["allowed"] >= 1 and said["egress"]["denied"] >= 1 and said["egress"]["bytes_in"] > 0, said["egress"]
    assert any("elsewhere.test" in d["target"] for d in said["denials"]), said["denials"]
    record = brig("audit", "show", said["id"], "--json", env=settings()).stdout.decode()
    assert "egress.allow" in record and "egress.deny" in record and "credential" in record and SECRET not in record, record
    assert leaves_nothing(said)


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
def a_sandbox_that_stays_has_a_door_of_its_own_and_a_claim_beside_it():
    """With a claim the kubelet hands volumes to a group: the door's Secret stays the door's. Where agent-sandbox's kinds are, it is a pod all the same."""
    name = f"door-{identity()}"
    with volume(name) as folder, daemon(env=settings()) as d:
        def sandbox(*argv):
            return brig("sandbox", *argv, env=d.environment, timeout=120 * PATIENCE)

        def execute(text):
            said = sandbox("exec", "one", "--json", "--", "sh", "-c", text).json
            assert said["outcome"] == "exited", said
            return said

        claim = ("--set", "kubernetes.workspace=pvc", "--set", f"kubernetes.claim={name}")
        done = sandbox("create", "--name", "one", *options(*claim)[1:])
        assert done.status == 0, done
        of, before = sandbox("get", "one", "--json").json["run"], len(world.seen("request"))
        for n in range(2):
            said = execute(f"{GET.format('/stays')} -H \"Authorization: Bearer $UP_TOKEN\" | tee -a got; ls /brig-plan; env | grep -c {SECRET}")
            assert "hello from outside" in said["stdout"] and not said["denials"], said
            assert [(p, {k.title(): v for k, v in f.items()}["Authorization"]) for p, f in world.seen("request")[before:]] == [("/stays", f"Bearer {SECRET}")] * (n + 1)
            said = execute("curl -sS --max-time 20 https://elsewhere.test/")
            assert [x["target"] for x in said["denials"]] == ["elsewhere.test:443"], said["denials"]
        assert (folder / "got").read_text() == "hello from outside\n" * 2
        assert sandbox("stop", "one").status == 0
        record = brig("audit", "show", of, "--json", env=settings()).stdout.decode()
        assert record.count("egress.allow") >= 2 and record.count("egress.deny") >= 2 and SECRET not in record, record
        assert sandbox("resume", "one").status == 0 and "hello" in execute(GET.format("/again"))["stdout"]
        assert sandbox("delete", "one").status == 0
        assert wait_until(lambda: not [x for k in ("pods", "secrets", "networkpolicies") for x in objects(k) if x.startswith("brig-") and "token" not in x and "default" not in x], 90 * PATIENCE, 0.5)


AROUND = """
    import ctypes, os, socket, struct, subprocess, sys
    def say(name, f):
        try: r = f()
        except OSError as e: r = e.strerror
        print(name, "->", r, flush=True)
    def dial(address, port, family=socket.AF_INET, device=None, source=None):
        s = socket.socket(family); s.settimeout(4)
        if device: s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device)
        if source: s.bind((source, 0))
        s.connect((address, port)); s.sendall(b"straight out"); return "connected"
    def throw(address, port, data, device=None, info=None):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3)
        if device: s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device)
        extra = [(socket.IPPROTO_IP, 8, struct.pack("i4s4s", info, bytes(4), bytes(4)))] if info else []
        s.sendmsg([data], extra, 0, (address, port)); return s.recv(512)
"""


def another_pod():
    """One that listens, in the same namespace; its name and its address."""
    name = f"other-{identity()}"
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [
        {"name": "main", "image": IMAGE, "command": ["python3", "-c", "import socket\ns=socket.socket(); s.bind(('0.0.0.0',8082)); s.listen()\nwhile 1:\n c,w=s.accept(); print('met',w[0],flush=True); c.close()"]}]}})
    address = wait_until(lambda: json.loads(cluster.kubectl("get", "pod", name, "-o", "json").stdout)["status"].get("podIP"), 60 * PATIENCE, 0.5)
    return name, address


@test(limit=600, alone=True)
def nothing_but_the_door_is_reached():
    """Control: a pod that brig did not make reaches all of it, and the oracle sees that."""
    o, (other, there) = world, another_pod()
    try:
        control = f"control-{identity()}"
        cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": control}, "spec": {"restartPolicy": "Never", "containers": [
            {"name": "main", "image": IMAGE, "command": ["python3", "-c", textwrap.dedent(AROUND) + textwrap.dedent(f"""
                say("outside", lambda: dial("{kube_cluster.OUTSIDE}", 8081)); say("server", lambda: dial("{kube_cluster.CONTROL}", 443))
                say("pod", lambda: dial("{there}", 8082)); say("names", lambda: throw("{kube_cluster.OUTSIDE}", 53, b"ab" + bytes(10) + b"control-was-here"))""")]}]}})
        assert wait_until(lambda: "names ->" in cluster.kubectl("logs", control, check=False).stdout, 60 * PATIENCE, 0.5), cluster.kubectl("logs", control, check=False)
        cluster.kubectl("delete", "pod", control, "--now", "--wait=false")
        assert o.seen("connection") and b"control-was-here".hex() in o.all(), o.all()
        assert wait_until(lambda: "met" in cluster.kubectl("logs", other).stdout, 30 * PATIENCE, 0.5)
        before, met = [len(o.seen(kind)) for kind in ("connection", "name", "request")], cluster.kubectl("logs", other).stdout
        node = json.loads(cluster.kubectl("get", "node", "node1", "-o", "json").stdout)["status"]["addresses"][0]["address"]
        said = python(AROUND + f"""
    for address, port in (("{kube_cluster.OUTSIDE}", 8081), ("{kube_cluster.CONTROL}", 443), ("10.96.0.1", 443), ("{node}", 10250), ("{there}", 8082),
                          ("169.254.169.254", 80), ("{kube_cluster.OUTSIDE}", 8443)):
        say(f"{{address}}:{{port}}", lambda: dial(address, port))
        say(f"{{address}}:{{port}} by device", lambda: dial(address, port, device=b"eth0"))
    own = [l.split()[0] for l in open("/etc/hosts") if "brig-" in l][0]
    say("from the pod's own", lambda: dial("{kube_cluster.OUTSIDE}", 8081, source=own))
    for a in ("fe80::1", "2606:4700:4700::1111", "::ffff:{kube_cluster.OUTSIDE}"):
        say(a, lambda: dial(a, 8081, family=socket.AF_INET6))
    question = b"ab\\x01\\x00\\x00\\x01" + bytes(6) + b"\\x0asecretdata\\x04evil\\x04test\\x00\\x00\\x01\\x00\\x01"
    for a in ("{kube_cluster.OUTSIDE}", "10.96.0.10", "{node}"):
        say("name by " + a, lambda: throw(a, 53, question)[-4:].hex())
        say("name by device " + a, lambda: throw(a, 53, question, device=b"eth0")[-4:].hex())
        say("name by index " + a, lambda: throw(a, 53, question, info=2)[-4:].hex())
    say("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
    say("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
    for words in ("ip route add 10.0.0.0/8 dev lo", "ip link set eth0 down", "ip addr add 10.77.10.99/24 dev eth0", "ip rule add from all lookup 5"):
        print(words, "->", subprocess.run(words.split(), capture_output=True).returncode, flush=True)
    libc = ctypes.CDLL(None, use_errno=True)
    say("unshare", lambda: libc.unshare(0x10000000 | 0x40000000))
    print(sorted(l.split(":")[0].strip() for l in open("/proc/net/dev") if ":" in l))
    """)
        out = said["stdout"]
        assert said["outcome"] == "exited" and said["exit_code"] == 0, said
        assert [len(o.seen(kind)) for kind in ("connection", "name", "request")] == before, (out, o.all())
        assert b"secretdata".hex() not in o.all() and cluster.kubectl("logs", other).stdout == met, out
        assert "raw -> <" not in out and "packet -> <" not in out and "raw ->" in out, out
        assert all(f"{words} -> 0" not in out for words in ("ip route add 10.0.0.0/8 dev lo", "ip link set eth0 down", "ip addr add 10.77.10.99/24 dev eth0", "ip rule add from all lookup 5")), out
        assert "unshare -> 0" not in out, out
        assert leaves_nothing(said)
    finally:
        cluster.kubectl("delete", "pod", other, "--now", "--wait=false")


@test(limit=300, alone=True)
def what_the_door_knows_is_nowhere_inside():
    """Control: the same search finds a value that is there."""
    said = python(f"""
        import os, re
        value = b"{SECRET[:9]}" + b"{SECRET[9:]}"
        print("env", value in b"".join(k.encode() + v.encode() for k, v in os.environ.items()))
        print("processes", sorted(open(f"/proc/{{p}}/comm").read().strip() for p in os.listdir("/proc") if p.isdigit()))
        open("/tmp/control", "wb").write(b"x" + value)
        found = []
        for top, folders, files in os.walk("/"):
            folders[:] = [f for f in folders if os.path.join(top, f) not in ("/proc", "/sys", "/usr")]
            for f in files:
                p = os.path.join(top, f)
                try:
                    if os.path.isfile(p) and value in open(p, "rb").read(4 << 20): found.append(p)
                except OSError: pass
        print("files", found)
        for p in ("/brig-plan/plan", "/proc/1/environ", "/proc/1/mem", "/proc/1/root/brig-plan/plan", "/proc/1/fd/0", "/var/run/secrets/kubernetes.io/serviceaccount/token"):
            try: print(p, open(p, "rb").read(1))
            except OSError as e: print(p, e.strerror)
        print([l for l in open("/proc/self/mountinfo") if "plan" in l or "secret" in l])
        open("/etc/brig/new", "ab")
        """)
    out = said["stdout"]
    assert "env False" in out and "files ['/tmp/control']" in out, said
    assert "brig-egress" not in out and "brig-keeper" not in out and "b'" not in out, out
    assert "[]" in out and "Read-only file system" in said["stderr"], said
    assert leaves_nothing(said)


@test(limit=300, alone=True, as_user="root")
def a_false_door_deceives_nobody():
    before = len(world.seen("request"))
    said = run("--", "sh", "-c", "python3 -c '\nimport socket,time\nfor a in (\"0.0.0.0\", \"198.19.255.253\"):\n for p in (3128, 8443, 53):\n"
               "  s=socket.socket(); s.setsockopt(socket.IPPROTO_IP, 15, 1)\n  try: s.bind((a, p)); s.listen(); globals()[a+str(p)]=s; print(a, p)\n  except OSError as e: print(a, p, e.strerror)\n"
               f"open(\"/tmp/up\",\"w\"); time.sleep(30)' & while [ ! -e /tmp/up ]; do sleep 0.1; done; {GET.format('/true-door')}")
    assert "hello from outside" in said["stdout"], said
    assert [path for path, _ in world.seen("request")[before:]] == ["/true-door"]
    assert leaves_nothing(said)


def begun():
    """The pod's name: others may be on their way out."""
    found = wait_until(lambda: cluster.nodes[0].pods_with("main", "sleep 333"), 60 * PATIENCE, 0.3)
    assert found, "the command does not begin"
    return found[0]


@test(limit=300, alone=True, as_user="root")
def nobody_reaches_the_command_from_outside():
    process = start_brig(*options("--json", "--", "python3", "-c",
                                  "import socket,subprocess\ns=socket.socket(); s.bind(('0.0.0.0',8083)); s.listen(); subprocess.run(['sleep','333'])"), env=settings())
    pod = json.loads(cluster.kubectl("get", "pod", "-n", "brig", begun(), "-o", "json").stdout)
    address = pod["status"]["podIP"]
    assert address.startswith("10.77.10."), pod["status"]
    node = (cluster.nodes[0].folder / "machine.pid").read_text().strip()
    done = subprocess.run(["nsenter", "-t", node, "-n", "--", sys.executable, "-c", f"import socket; s=socket.socket(); s.settimeout(3); print(s.connect_ex(('{address}',8083)))"],
                          capture_output=True, text=True, check=True)
    assert done.stdout.strip() != "0", "the command's port answers the node"
    process.terminate()
    process.communicate(timeout=60 * PATIENCE)
    assert wait_until(lambda: pod["metadata"]["name"] not in objects("pods") + objects("secrets"), 90 * PATIENCE, 0.5)


@test(limit=300, alone=True, as_user="root")
def a_door_that_dies_ends_the_run():
    process = start_brig(*options("--json", "--", "sh", "-c", "sleep 333"), env=settings())
    pod = begun()
    [door] = [c for c in cluster.nodes[0].containers() if c.startswith(f"k8s_door_{pod}_")]
    rows, found = cluster.nodes[0].processes(door), {}
    for pid in rows:
        fields = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
        found[fields["Name"]] = pid
        assert fields["CapEff"] == fields["CapPrm"] == "0000000000000000" and fields["NoNewPrivs"] == "1", fields
        assert fields["Name"] == "brig-pod" or fields["Uid"].split()[0] == "65534", fields
    assert set(found) == {"brig-pod", "brig-egress", "brig-keeper"}, (found, rows)
    os.kill(found["brig-egress"], 9)
    out, err = process.communicate(timeout=60 * PATIENCE)
    said = json.loads(out)
    assert said["outcome"] == "failed" and "door" in said["error"]["what"], said
    assert leaves_nothing(said)


@test(limit=300, alone=True, as_user="root")
def a_killed_brig_leaves_no_pod_and_no_secret():
    """Of all of brig that is killed the pod's object is left, until the next one comes by; the Secret is gone before."""
    process = start_brig(*options("--json", "--", "sh", "-c", "sleep 333"), env=settings())
    names = {begun()}
    lines = [json.loads(line) for line in (cluster.control.folder / "audit.jsonl").read_text().splitlines()]
    did = [e["verb"] for e in lines if e.get("objectRef", {}).get("resource") == "secrets" and e["objectRef"].get("name") in names and e["user"]["username"] == "system:serviceaccount:brig:brig"]
    assert did == ["create", "delete"] and not names & set(objects("secrets")), "it was there, and is not once the command runs"
    pod = cluster.kubectl("get", "pod", "-n", "brig", sorted(names)[0], "-o", "json").stdout
    assert SECRET not in pod and base64.b64encode(SECRET.encode()).decode()[:16] not in pod, "the value is in the pod's own object"
    process.kill()
    process.communicate()
    assert wait_until(lambda: not names & set(objects("secrets") + objects("pods")), 90 * PATIENCE, 0.5), (names, objects("secrets"))


@test(limit=120, alone=True, as_user="root")
def what_is_this_machines_is_refused_by_name():
    for setting, word in (("egress.host_service=8080", "host_service"), ("egress.upstream_proxy=http://127.0.0.1:3128", "upstream_proxy")):
        done = brig(*options("--set", setting, "--", "true"), env=settings(), timeout=60 * PATIENCE)
        assert done.status == 125 and word in done.stderr.decode(), done


if __name__ == "__main__":
    sys.exit(main())
