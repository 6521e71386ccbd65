#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes cluster for tests: etcd, API server, controllers, scheduler, and nodes with kubelet and a private dockerd.

    with Cluster(folder, nodes=2) as c:
        c.kubectl("get", "nodes")     # KUBECONFIG is c.kubeconfig
        c.load(tar, "name:tag")       # an image, on every node
        c.kill("node1", "kubelet")    # comes back by itself, as under a service manager
        with c.without("node1"): ...  # a node that has lost its power
        with c.without("control", "kube-apiserver"): ...

    tests/cluster/kube_cluster.py [--nodes N] FOLDER     # runs one until SIGTERM or the end of stdin; prints how to use it

What makes containers on the nodes is CRI_ENGINE: "docker" (kubelet's own shim), or "containerd", which kubelet asks by CRI as later versions ask any runtime.

Each machine of the cluster (the control plane, each node) is a set of namespaces of its own: network, mounts, processes, host
name. All of it goes with its first process, whatever a test has done inside. What the host sees is a listener on loopback,
which passes connections on to the API server, and control groups below one name, which are removed at the end.

    control plane  10.77.0.1, and 10.96.0.1 (the service "kubernetes"); registry 10.77.0.1:5000; "outside" is 203.0.113.1
    node N         10.77.0.1N, pods 10.77.N0.0/24 behind a bridge; no way to anywhere else

There is no kube-proxy, no DNS and nobody who enforces a NetworkPolicy.
"""

import argparse
import base64
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
import engine  # noqa: E402

CONTROL = "10.77.0.1"
SERVICE = "10.96.0.1"
OUTSIDE = "203.0.113.1"
PAUSE_IMAGE = "brig-test:pause"
HELPER_IMAGE = "brig-test:pod"
WAIT = 120 * float(os.environ.get("TIME_FACTOR", "1"))
CAP_SYS_RESOURCE = 1 << 24
ENGINES = ("docker", "containerd")

# What kubelet would otherwise set for the whole machine; it finds the values that it wants, and leaves them.
SYSCTLS = {"vm/overcommit_memory": 1, "vm/panic_on_oom": 0, "kernel/panic": 10, "kernel/panic_on_oops": 1,
           "kernel/keys/root_maxkeys": 1000000, "kernel/keys/root_maxbytes": 25000000}

# A root without CAP_SYS_RESOURCE cannot make containers that are spared when memory ends, which kubelet asks for.
SPARING = """#!/bin/sh
case " $* " in *" create "*)
	sed -i 's/"oomScoreAdj":-[0-9]*/"oomScoreAdj":0/' config.json ;;
esac
exec RUNC "$@"
"""


def programs():
    """The folder with the programs, built at the first call on a machine."""
    return pathlib.Path(subprocess.run([HERE / "kube-programs"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip())


class Machine:
    """Namespaces of its own, and programs in them."""

    def __init__(self, name, folder, pause, parent=None):
        self.name, self.folder, self.pause, self.parent = name, folder, pause, parent
        self.folder.mkdir(mode=0o755, exist_ok=True)
        self.running = {}
        self.argv = {}
        self.boot()

    @classmethod
    def there(cls, folder):
        """One of a cluster that another process has started."""
        m = object.__new__(cls)
        m.name, m.folder, m.running = folder.name, folder, {}
        return m

    def boot(self):
        """Its namespaces and their first process."""
        folder, name = self.folder, self.name
        (folder / "up").unlink(missing_ok=True)
        setup = ['mount --make-rshared /', 'mkdir -p "$1/lib" "$1/log" "$1/tmp"', 'mount --bind "$1/lib" /var/lib', 'mount --bind "$1/log" /var/log',
                 "mount -t tmpfs tmpfs /run", "ip link set lo up", 'hostname "$2"', *(_group_mounts() if self.parent else ()), 'touch "$1/up"', 'exec "$0"']
        if self.parent:
            self._make_groups()
        enter = "".join(f"echo $$ > {top}/{self.parent}/cgroup.procs; " for top, _ in _hierarchies()) if self.parent else ""
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "sh", "-ec", f'{enter}exec "$@"', "sh", "unshare", "--fork", "--kill-child", "--pid", "--mount-proc", "--mount",
             "--net", "--uts", "--ipc", *(["--cgroup"] if self.parent else []), "--propagation", "slave", "sh", "-ec", "\n".join(setup), str(self.pause),
             str(folder), name], stdin=subprocess.DEVNULL, stdout=self._log("machine"), stderr=subprocess.STDOUT, start_new_session=True)
        _until(lambda: (folder / "up").exists() or self.process.poll() is not None, 30, f"{name}: no namespaces")
        assert self.process.poll() is None, (folder / "machine.log").read_text()
        self.pid = _children(self.process.pid)[0]
        self._note("machine", self.pid)

    def _make_groups(self):
        for top, kinds in _hierarchies():
            path = top
            for part in self.parent.split("/"):
                path = path / part
                path.mkdir(exist_ok=True)
                for field in ("cpuset.cpus", "cpuset.mems") if "cpuset" in kinds else ():  # version 1 hands nothing down
                    (path / field).write_text((top / field).read_text())

    def _note(self, name, pid):
        """For tests, which are processes of their own."""
        (self.folder / f"{name}.new").write_text(str(pid))
        (self.folder / f"{name}.new").rename(self.folder / f"{name}.pid")

    def _log(self, name):
        return open(self.folder / f"{name}.log", "ab")

    def inside(self, *argv):
        if self.parent:
            argv = ("sh", "-c", 'for f in /sys/fs/cgroup/*/cgroup.procs; do echo $$ > $f; done; exec "$0" "$@"', *argv)
        return ["nsenter", "-t", str(self.pid), "-m", "-n", "-p", "-u", "-i", "-C", "--", *map(str, argv)]

    def run(self, *argv, **more):
        return subprocess.run(self.inside(*argv), check=True, text=True, capture_output=True, **more)

    def start(self, name, *argv, env=None):
        """One of its programs, which can be killed and launched again by its name."""
        self.argv[name] = (argv, env)
        self.running[name] = subprocess.Popen(self.inside(*argv), stdin=subprocess.DEVNULL, stdout=self._log(name), stderr=subprocess.STDOUT,
                                              start_new_session=True, env={**os.environ, **(env or {})})

        self._note(name, self.running[name].pid)

    def pid_of(self, name):
        """Of the program itself, which is nsenter's child; 0 if there is none."""
        with contextlib.suppress(OSError, ValueError):
            pid = int((self.folder / f"{name}.pid").read_text())
            return pid if name == "machine" else (_children(pid) or [0])[0]
        return 0

    def kill(self, name, how=signal.SIGKILL):
        pid = _until(lambda: self.pid_of(name), WAIT, f"{self.name}: {name} does not run")
        os.kill(pid, how)
        return pid

    def held(self, name):
        """A test wants it to stay away for a while."""
        return (self.folder / f"{name}.hold").exists()

    def keep(self):
        """Start again what has ended."""
        for name, process in list(self.running.items()):
            # nsenter stops with its program, and not only where a test has stopped that: whoever takes a picture of the whole
            # machine does. Nobody wakes it then, and it does not see its program's end.
            if _state(process.pid) == "T" and _state(self.pid_of(name)) != "T":
                process.send_signal(signal.SIGCONT)
            if process.poll() is not None and not self.held(name):
                argv, env = self.argv[name]
                self.start(name, *argv, env=env)

    def tail(self, name, count=2000):
        """The end of its log; of a program of Kubernetes that gave up, why, which is above the stacks of its threads."""
        text = (self.folder / f"{name}.log").read_text(errors="replace")
        fatal = [line for line in text.splitlines() if re.match(r"F\d{4} ", line)]
        return "\n".join(fatal) or text[-count:]

    def stop(self):
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGKILL)  # the first process of its namespace: the kernel ends all others
        for process in self.running.values():
            # nsenter, which must see its program's end itself: the namespace waits for that. If the program was stopped, so is it.
            while process.poll() is None:
                process.send_signal(signal.SIGCONT)
                time.sleep(0.02)
        self.process.wait()
        self.running = {}


class Node(Machine, engine.Engine):
    """One that runs pods. It is also an engine of the docker suite, for its images and to look behind the API server's back."""

    daemon = "dockerd"

    def __init__(self, number, folder, pause, parent):
        Machine.__init__(self, f"node{number}", folder, pause, parent)
        self.number = number
        self.address = f"{CONTROL[:-1]}1{number}"
        self.socket, self.version = folder / "s", "1.41"

    def answers(self):
        with contextlib.suppress(OSError):
            return self.ask("GET", "/_ping")[0] == 200
        return False

    def _ids(self):
        """By name, of all that there are."""
        return {c["Names"][0].lstrip("/"): c["Id"] for c in self.ask("GET", "/containers/json?all=1")[1]}

    def processes(self, name):
        """Of a container, by this machine's own numbers: their command lines."""
        found, number = {}, self._ids().get(name)
        for path in pathlib.Path("/proc").glob("[0-9]*/cgroup") if number else ():
            with contextlib.suppress(OSError):
                if number in path.read_text():
                    found[int(path.parent.name)] = (path.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        return found

    def pods_with(self, container, word):
        """Pods of brig's in which that container has a process with that word."""
        names = [n for n in self._ids() if n.startswith(f"k8s_{container}_brig-")]
        return [n.split("_")[2] for n in names if any(word in line for line in self.processes(n).values())]

    def connect(self, control):
        """A cable to the control plane's bridge."""
        net = ["nsenter", "-t", str(control.pid), "-n", "ip"]
        port = f"port{self.number}"
        subprocess.run([*net, "link", "del", port], check=False, capture_output=True)  # of its life before
        _ip(net, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(self.pid))
        _ip(net, "link", "set", port, "master", "nodes", "up")
        _ip(net, "route", "replace", self.pods, "via", self.address)
        mine = ["nsenter", "-t", str(self.pid), "-n", "ip"]
        _ip(mine, "addr", "add", f"{self.address}/24", "dev", "eth0")
        _ip(mine, "link", "set", "eth0", "up")
        _ip(mine, "route", "add", "default", "via", CONTROL)
        self.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")

    @property
    def pods(self):
        return f"10.77.{self.number}0.0/24"

    def settle(self, bin_folder):
        """Files that its programs read, and a view of the sysctls that they would change."""
        for name, value in SYSCTLS.items():
            path = self.folder / "sysctls" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{value}\n")
            self.run("mount", "--bind", path, f"/proc/sys/{name}")
        (self.folder / "resolv.conf").write_text(f"nameserver {OUTSIDE}\n")
        self.run("ln", "-sfn", self.socket, "/run/docker.sock")  # where a part of kubelet looks, and waits
        (self.folder / "cni").mkdir(exist_ok=True)
        (self.folder / "cni/pods.conf").write_text(json.dumps({
            "cniVersion": "0.3.1", "name": "pods", "type": "bridge", "bridge": "pods", "isGateway": True, "ipMasq": False, "hairpinMode": True,
            "ipam": {"type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": self.pods}]], "routes": [{"dst": "0.0.0.0/0"}]}}))
        runtime = self.folder / "sparing"
        runtime.write_text(SPARING.replace("RUNC", engine.program("runc")))
        runtime.chmod(0o755)
        # The runtimes of other suites, for a RuntimeClass: gVisor.
        (self.folder / "daemon.json").write_text(json.dumps({
            "runtimes": {"sparing": {"path": str(runtime)}, "runsc": {"path": "/usr/bin/runsc"}}, "insecure-registries": [f"{CONTROL}:5000"],
            "default-runtime": "runc" if _has(CAP_SYS_RESOURCE) else "sparing"}))

    def start_engine(self):
        (self.socket).unlink(missing_ok=True)
        self.start("dockerd", engine.program("dockerd"), "-H", self.host, "--config-file", self.folder / "daemon.json", "--iptables=false", "--bridge=none",
                   "--ip-masq=false", "--exec-opt", "native.cgroupdriver=cgroupfs", "-G", str(engine.ORDINARY), "-l", "error",
                   env={"TMPDIR": str(self.folder / "tmp")})

    def kubelet_words(self, cluster):
        return ("--container-runtime=docker", f"--docker-endpoint={self.host}", "--network-plugin=cni", f"--cni-conf-dir={self.folder}/cni",
                f"--cni-bin-dir={cluster.bin}/cni")

    def start_kubelet(self, cluster):
        config = self.folder / "kubelet.json"
        config.write_text(json.dumps({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}, "x509": {"clientCAFile": str(cluster.pki / "ca.crt")}},
            "authorization": {"mode": "AlwaysAllow"}, "tlsCertFile": str(cluster.pki / f"{self.name}.crt"),
            "tlsPrivateKeyFile": str(cluster.pki / f"{self.name}.key"), "cgroupDriver": "cgroupfs",
            "enforceNodeAllocatable": [], "failSwapOn": False, "oomScoreAdj": 0, "makeIPTablesUtilChains": False, "readOnlyPort": 0,
            "resolvConf": str(self.folder / "resolv.conf"), "clusterDomain": "cluster.local", "podPidsLimit": 4096, "serializeImagePulls": False,
            "imageGCHighThresholdPercent": 100, "evictionHard": {"memory.available": "1Mi"}, "kubeAPIQPS": 200, "kubeAPIBurst": 400,
            "registryPullQPS": 0, "eventRecordQPS": 0, "nodeStatusUpdateFrequency": "2s", "maxPods": 200}))
        self.start("kubelet", cluster.bin / "kubelet", f"--config={config}", f"--kubeconfig={cluster.pki}/{self.name}.conf", f"--hostname-override={self.name}",
                   f"--node-ip={self.address}", *self.kubelet_words(cluster), f"--pod-infra-container-image={PAUSE_IMAGE}",
                   env={"AWS_EC2_METADATA_DISABLED": "true"})  # it would look for a cloud, and wait


class ContainerdNode(Node):
    """One whose kubelet asks containerd, by CRI."""

    daemon = "containerd"

    def _ctr(self, *argv, **more):
        return subprocess.run(["ctr", "-a", self.socket, "-n", "k8s.io", *argv], capture_output=True, check=True, timeout=WAIT, **more).stdout

    def answers(self):
        with contextlib.suppress(subprocess.SubprocessError):
            self._ctr("version")
            return True
        return False

    def settle(self, bin_folder):
        Node.settle(self, bin_folder)
        cri = 'plugins."io.containerd.grpc.v1.cri"'
        (self.folder / "containerd.toml").write_text(f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
address = "{self.socket}"
[{cri}]
sandbox_image = "docker.io/library/{PAUSE_IMAGE}"
restrict_oom_score_adj = {str(not _has(CAP_SYS_RESOURCE)).lower()}
[{cri}.cni]
bin_dir = "{bin_folder}/cni"
conf_dir = "{self.folder}/cni"
[{cri}.containerd]
snapshotter = "overlayfs"
[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{cri}.containerd.runtimes.runc.options]
BinaryName = "{engine.program("runc")}"
SystemdCgroup = false
[{cri}.registry.mirrors."{CONTROL}:5000"]
endpoint = ["http://{CONTROL}:5000"]
""")

    def start_engine(self):
        self.socket.unlink(missing_ok=True)
        self.run("sh", "-c", f"mkdir -p /run/containerd && ln -sfn {self.socket} /run/containerd/containerd.sock")  # where a part of kubelet looks
        self.start("containerd", engine.program("containerd"), "--config", self.folder / "containerd.toml", "--log-level", "warn", env={"TMPDIR": str(self.folder / "tmp")})

    def kubelet_words(self, cluster):
        return "--container-runtime=remote", f"--container-runtime-endpoint=unix://{self.socket}"

    def import_image(self, tar, name=engine.IMAGE, changes=()):
        self._ctr("images", "import", "-", input=_archive(tar, name, changes))

    def _ids(self):
        """Under the names that Docker's have."""
        found = {}
        for number in self._ctr("containers", "list", "-q", 'labels."io.cri-containerd.kind"==container', text=True).split():
            with contextlib.suppress(subprocess.CalledProcessError):  # gone meanwhile
                labels = json.loads(self._ctr("containers", "info", number))["Labels"]
                found["k8s_{}_{}_{}".format(*(labels[f"io.kubernetes.{k}"] for k in ("container.name", "pod.name", "pod.namespace")))] = number
        return found

    def containers(self):
        return self._ids()


class Cluster:
    """The whole. Its folder must be short (socket paths are) and reachable for everybody; it is made and removed."""

    def __init__(self, folder, nodes=1):
        self.folder = pathlib.Path(folder)
        self.count = nodes
        self.pki = self.folder / "pki"
        self.parent = f"brig-kube-{os.getpid()}-{self.folder.name}"
        self.bin = self.control = self.relay = None
        self.nodes = []
        self.owner = os.getpid()
        self.ending = threading.Event()
        self.keeper = threading.Thread(target=self._keep, daemon=True)

    @classmethod
    def running(cls, folder):
        """One that another process has started and will stop."""
        c = cls(folder)
        c.bin, c.kubeconfig = programs(), c.pki / "admin.conf"
        c.control = Machine.there(c.folder / "control")
        kind = _node_kind((c.folder / "engine").read_text())
        c.nodes = [kind.there(path) for path in sorted(c.folder.glob("node*"))]
        for node in c.nodes:
            node.socket, node.version = node.folder / "s", "1.41"
        c.count = len(c.nodes)
        return c

    # ---- start ----

    def start(self):
        if not any("memory" in kinds for _, kinds in _hierarchies()):
            raise RuntimeError("the test cluster needs control groups of version 1: kubelet 1.20 was not tried with version 2 alone")
        self.bin = programs()
        kind = os.environ.get("CRI_ENGINE", ENGINES[0])
        make = _node_kind(kind)
        self.folder.mkdir(mode=0o755, parents=True)
        (self.folder / "engine").write_text(kind)
        self.pki.mkdir()
        pause = self.folder / "kube_pause"
        subprocess.run(["gcc", "-static", "-O2", "-s", "-o", pause, HERE / "kube_pause.c"], check=True)
        self.control = Machine("control", self.folder / "control", pause)
        self._network()
        for number in range(1, self.count + 1):
            self.nodes.append(make(number, self.folder / f"node{number}", pause, f"{self.parent}/node{number}"))
        self._certificates()
        self.relay = Relay(self.control.pid, (CONTROL, 443))
        self._configurations()
        self._start_control()
        for node in self.nodes:
            self._wire(node)
        for node in self.nodes:
            _until(node.answers, WAIT, lambda n=node: f"{n.name}: {n.daemon} does not start: {n.tail(n.daemon)}")
            node.import_image(_one_file_tar(pause, "pause"), PAUSE_IMAGE, changes=('ENTRYPOINT ["/pause"]',))
            node.start_kubelet(self)
        _until(self.ready, WAIT, lambda: f"not ready: {self._why()}")
        self.keeper.start()

    def _wire(self, node):
        node.connect(self.control)
        node.settle(self.bin)
        node.start_engine()

    def _keep(self):
        while not self.ending.wait(0.2):
            self.control.keep()
            for node in self.nodes:
                if node.process.poll() is None:
                    node.keep()
                elif not node.held("machine"):
                    self._revive(node)

    def _revive(self, node):
        """As after a cut of its power: what was on its disk is there, what ran is not."""
        node.stop()
        engine._kill_cgroups(node.parent)
        node.boot()
        self._wire(node)
        _until(node.answers, WAIT, lambda: f"{node.name}: {node.daemon} does not start: {node.tail(node.daemon)}")
        node.start_kubelet(self)

    def _network(self):
        net = ["nsenter", "-t", str(self.control.pid), "-n", "ip"]
        _ip(net, "link", "add", "nodes", "type", "bridge")
        _ip(net, "addr", "add", f"{CONTROL}/24", "dev", "nodes")
        _ip(net, "link", "set", "nodes", "up")
        for address in (SERVICE, OUTSIDE):
            _ip(net, "addr", "add", f"{address}/32", "dev", "lo")
        self.control.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")

    def _openssl(self, *argv):
        subprocess.run(["openssl", *map(str, argv)], check=True, capture_output=True, cwd=self.pki)

    def _certificates(self):
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "7", "-subj", "/CN=brig-test-ca",
                      "-keyout", "ca.key", "-out", "ca.crt")
        self._openssl("genrsa", "-out", "sa.key", "2048")
        self._openssl("rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")
        names = "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:localhost"
        self._certificate("apiserver", "/CN=kube-apiserver", f"{names},IP:127.0.0.1,IP:{CONTROL},IP:{SERVICE}")
        for name in ("admin", "apiserver-kubelet"):
            self._certificate(name, f"/O=system:masters/CN={name}")
        for name in ("kube-controller-manager", "kube-scheduler"):
            self._certificate(name, f"/CN=system:{name}")
        for node in self.nodes:
            self._certificate(node.name, f"/O=system:nodes/CN=system:node:{node.name}", f"DNS:{node.name},IP:{node.address}")

    def _certificate(self, name, subject, names="DNS:none.invalid"):
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", subject, "-keyout", f"{name}.key",
                      "-out", f"{name}.csr")
        (self.pki / f"{name}.ext").write_text(f"subjectAltName={names}\nextendedKeyUsage=serverAuth,clientAuth\nkeyUsage=digitalSignature\n")
        self._openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-set_serial", str(int.from_bytes(os.urandom(8), "big")),
                      "-days", "7", "-extfile", f"{name}.ext", "-out", f"{name}.crt")

    def user(self, name, user, server=None, namespace="default"):
        """A kubeconfig of its own for these credentials; the path. `user` is the "user" of the format."""
        path = self.pki / f"{name}.conf"
        data = base64.b64encode((self.pki / "ca.crt").read_bytes()).decode()
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": server or f"https://{CONTROL}", "certificate-authority-data": data}}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name, "namespace": namespace}}]}, indent=1))
        path.chmod(0o600)
        return path

    def _key(self, name):
        return {f"client-{field}-data": base64.b64encode((self.pki / f"{name}.{ending}").read_bytes()).decode()
                for field, ending in (("certificate", "crt"), ("key", "key"))}

    def _configurations(self):
        for name in ("kube-controller-manager", "kube-scheduler", *(n.name for n in self.nodes)):
            self.user(name, self._key(name))
        self.inner = self.user("inner", self._key("admin"))
        self.kubeconfig = self.user("admin", self._key("admin"), self.server)

    @property
    def server(self):
        """As seen from the host."""
        if self.relay is None:
            return json.loads(self.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        return f"https://127.0.0.1:{self.relay.port}"

    def _start_control(self):
        c, pki = self.control, self.pki
        c.run("mkdir", "-p", "/run/etcd")
        c.start("etcd", self.bin / "etcd", "--data-dir=/run/etcd", "--log-level=error", env={"ETCD_UNSUPPORTED_ARCH": engine.ARCHITECTURE})
        c.start("kube-apiserver", self.bin / "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--secure-port=443", f"--advertise-address={CONTROL}",
                f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key", f"--client-ca-file={pki}/ca.crt",
                f"--kubelet-client-certificate={pki}/apiserver-kubelet.crt", f"--kubelet-client-key={pki}/apiserver-kubelet.key",
                f"--kubelet-certificate-authority={pki}/ca.crt", "--kubelet-preferred-address-types=InternalIP",
                "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={pki}/sa.pub",
                f"--service-account-signing-key-file={pki}/sa.key", "--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=Node,RBAC",
                "--enable-admission-plugins=NodeRestriction", "--default-not-ready-toleration-seconds=30", "--default-unreachable-toleration-seconds=30",
                f"--audit-policy-file={self._audit()}", f"--audit-log-path={c.folder}/audit.jsonl", "--max-requests-inflight=800")
        common = ("--leader-elect=false", "--bind-address=127.0.0.1", "--kube-api-qps=200", "--kube-api-burst=400")
        c.start("kube-controller-manager", self.bin / "kube-controller-manager", f"--kubeconfig={pki}/kube-controller-manager.conf", *common,
                f"--service-account-private-key-file={pki}/sa.key", f"--root-ca-file={pki}/ca.crt", "--use-service-account-credentials",
                "--node-monitor-period=2s")
        c.start("kube-scheduler", self.bin / "kube-scheduler", f"--kubeconfig={pki}/kube-scheduler.conf", *common)
        (c.folder / "registry.yml").write_text("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: /var/lib/registry}, "
                                               f"delete: {{enabled: true}}}}\nhttp: {{addr: '{CONTROL}:5000'}}\n")
        c.start("registry", "docker-registry", "serve", c.folder / "registry.yml")

    def _audit(self):
        """Who asked for what: the requests of people alone."""
        path = self.control.folder / "audit.json"
        path.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"], "rules": [
            {"level": "None", "userGroups": ["system:nodes"]}, {"level": "None", "users": ["system:apiserver", "system:kube-scheduler", "system:kube-controller-manager"]},
            {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]}, {"level": "Metadata"}]}))
        return path

    def ready(self):
        for machine in (self.control, *self.nodes):
            for name, process in list(machine.running.items()):
                # While it starts. Later the keeper starts it again, and a test is another process, whose children these are not.
                if self.owner == os.getpid() and not self.keeper.is_alive() and process.poll() is not None:
                    raise RuntimeError(f"{machine.name}: {name} ended: {machine.tail(name)}")
        done = self.kubectl("get", "nodes,serviceaccounts", "-o", "json", check=False)
        if done.returncode:
            return False
        items = json.loads(done.stdout)["items"]
        up = [i for i in items if i["kind"] == "Node" and {"type": "Ready", "status": "True"}.items() <=
              {k: v for c in i["status"].get("conditions", []) if c["type"] == "Ready" for k, v in c.items()}.items()]
        return len(up) == self.count and any(i["kind"] == "ServiceAccount" for i in items)

    def _why(self):
        return "\n".join(f"--- {m.name} {name}\n{m.tail(name, 800)}" for m in (self.control, *self.nodes) for name in m.running)

    # ---- use ----

    def kubectl(self, *argv, check=True, **more):
        done = subprocess.run([self.bin / "kubectl", f"--kubeconfig={self.kubeconfig}", *argv], text=True, capture_output=True, check=False,
                              env={**os.environ, "HOME": str(self.folder)}, **more)
        assert not check or done.returncode == 0, (argv, done.stderr)
        return done

    def account(self, name, namespace):
        """A kubeconfig with a service account's token; the path."""
        def token():
            found = json.loads(self.kubectl("get", "secrets", "-n", namespace, "-o", "json").stdout)["items"]
            mine = [s for s in found if s["metadata"].get("annotations", {}).get("kubernetes.io/service-account.name") == name]
            return mine and base64.b64decode(mine[0]["data"]["token"]).decode()
        return self.user(f"{namespace}-{name}", {"token": _until(token, WAIT, f"no token of {name}")}, self.server, namespace)

    def deploy(self):
        """Our manifests and agent-sandbox's kinds; the kubeconfig of the account that has our Role."""
        apply = ("apply", "-f", TOP / "deploy/kubernetes", "-f", HERE / "kube-crds.yaml")  # twice does no harm
        _until(lambda: self.kubectl(*apply, check=False).returncode == 0, WAIT, lambda: self.kubectl(*apply, check=False).stderr)
        return self.account("brig", "brig")

    def apply(self, *objects):
        return self.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    @contextlib.contextmanager
    def volume(self, name, namespace="brig"):
        """A PersistentVolumeClaim, bound to a folder of the first node's, which is yielded: root's alone until a pod says whose it is to be."""
        folder = self.nodes[0].folder / "volumes" / name
        folder.mkdir(mode=0o755, parents=True)
        each = {"accessModes": ["ReadWriteOnce"], "storageClassName": "brig-test"}
        self.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
                        **each, "capacity": {"storage": "64Mi"}, "persistentVolumeReclaimPolicy": "Retain", "local": {"path": str(folder)},
                        "claimRef": {"namespace": namespace, "name": name}, "nodeAffinity": {"required": {"nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [self.nodes[0].name]}]}]}}}},
                   {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": namespace}, "spec": {
                       **each, "volumeName": name, "resources": {"requests": {"storage": "64Mi"}}}})
        try:
            yield folder
        finally:
            self.kubectl("delete", "pvc", "-n", namespace, name, "--wait=false")
            self.kubectl("delete", "pv", name, "--wait=false")
            shutil.rmtree(folder, ignore_errors=True)

    def load_helper(self, build):
        """brig-pod and brig-egress of a build, as images/kubernetes puts them together; the image's name."""
        programs = [(pathlib.Path(build) / name, name) for name in ("brig-pod", "brig-egress")]
        self.load(_files_tar(programs), HELPER_IMAGE, changes=('ENTRYPOINT ["/brig-pod"]',))
        return HELPER_IMAGE

    def load(self, tar, name, changes=()):
        for node in self.nodes:
            node.import_image(tar, name, changes)

    def machine(self, name):
        return next(m for m in (self.control, *self.nodes) if m.name == name)

    def kill(self, machine, name="machine", how=signal.SIGKILL):
        """It comes back. `machine` alone is all of it at once."""
        return self.machine(machine).kill(name, how)

    @contextlib.contextmanager
    def without(self, machine, name="machine", how=signal.SIGKILL):
        """Dead meanwhile. Afterwards it is started again, which takes its time."""
        hold = self.machine(machine).folder / f"{name}.hold"
        hold.touch()
        try:
            pid = self.kill(machine, name, how)
            _until(lambda: not _alive(pid), WAIT, f"{machine}: {name} does not die")
            yield
        finally:
            hold.unlink()

    # ---- end ----

    def stop(self):
        self.ending.set()
        if self.keeper.is_alive():
            self.keeper.join()
        if self.relay:
            self.relay.stop()
        for machine in (*self.nodes, self.control):
            if machine:
                machine.stop()
        engine._kill_cgroups(self.parent)
        engine._unmount(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()


class Relay:
    """A listener on the host's loopback whose other side is in another network namespace."""

    def __init__(self, pid, target):
        listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = listener.getsockname()[1]
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "nsenter", "-t", str(pid), "-n", "--", sys.executable, __file__, "--relay",
                                         str(listener.fileno()), *map(str, target)], pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL,
                                        start_new_session=True)
        listener.close()

    def stop(self):
        self.process.kill()
        self.process.wait()


def _relay(number, host, port):
    import asyncio

    async def pour(reader, writer):
        try:
            while data := await reader.read(1 << 18):
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except OSError:
            writer.transport.abort()  # a side that was reset has no end of its own to pass on: the other must not wait for one

    async def serve(reader, writer):
        with contextlib.suppress(OSError):
            there = await asyncio.open_connection(host, int(port))
            await asyncio.gather(pour(reader, there[1]), pour(there[0], writer))
            there[1].close()
        writer.close()

    async def run():
        server = await asyncio.start_server(serve, sock=socket.socket(fileno=int(number)))
        await server.serve_forever()

    asyncio.run(run())


# ---- small things ----


def _until(question, seconds, why):
    end = time.monotonic() + seconds
    while not (answer := question()):
        if time.monotonic() > end:
            raise TimeoutError(why() if callable(why) else why)
        time.sleep(0.1)
    return answer


def _children(pid):
    with contextlib.suppress(OSError):
        return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _hierarchies():
    """(where it is mounted, what it controls) of control groups of version 1, which kubelet 1.20 with Docker needs."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        if words[words.index("-") + 1] == "cgroup":
            kinds = [w for w in words[-1].split(",") if w not in ("rw", "ro", "xattr") and not w.startswith(("release_agent", "clone_children"))]
            yield pathlib.Path(words[4]), kinds


def _group_mounts():
    """A node sees its own part of the control groups alone: kubelet watches all that it sees."""
    found = list(_hierarchies())
    yield "mount -t tmpfs tmpfs /sys/fs/cgroup"
    for top, kinds in found:
        named = any(k.startswith("name=") for k in kinds)
        yield f"mkdir {top} && mount -t cgroup -o {','.join(['none'] * named + kinds)} cgroup {top}"
        for kind in kinds if not named and len(kinds) > 1 else ():
            yield f"ln -s {top.name} {top.parent}/{kind}"


def _state(pid):
    """A letter, as in proc(5); None: there is no such process."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return None


def _alive(pid):
    """A zombie is not."""
    return _state(pid) not in (None, "Z")


def _ip(prefix, *argv):
    subprocess.run([*prefix, *argv], check=True, capture_output=True)


def _has(capability):
    line = next(l for l in pathlib.Path("/proc/self/status").read_text().splitlines() if l.startswith("CapEff"))
    return int(line.split()[1], 16) & capability


def _files_tar(files):
    import io
    import tarfile
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for program, name in files:
            tar.add(program, name)
    return out.getvalue()


def _archive(tar, name, changes=()):
    """An image of one layer, as "docker save" writes it. Of changes those that name a program alone."""
    import hashlib
    import io
    import tarfile
    settings = {key.capitalize(): json.loads(rest) for key, rest in (c.split(" ", 1) for c in changes)}
    digest = hashlib.sha256(tar).hexdigest()
    config = json.dumps({"architecture": engine.ARCHITECTURE, "os": "linux", "config": settings, "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]}}).encode()
    number = hashlib.sha256(config).hexdigest()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for path, data in ((f"{number}.json", config), (f"{digest}/layer.tar", tar),
                           ("manifest.json", json.dumps([{"Config": f"{number}.json", "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]).encode())):
            head = tarfile.TarInfo(path)
            head.size = len(data)
            archive.addfile(head, io.BytesIO(data))
    return out.getvalue()


def _node_kind(name):
    if name not in ENGINES:
        raise RuntimeError(f"CRI_ENGINE '{name}' is none of {', '.join(ENGINES)}")
    return ContainerdNode if name == "containerd" else Node


def _one_file_tar(program, name):
    return _files_tar([(program, name)])


def main():
    if sys.argv[1:2] == ["--relay"]:
        return _relay(*sys.argv[2:])
    parser = argparse.ArgumentParser(description="run a cluster until SIGTERM")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("folder")
    args = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    started = time.monotonic()
    with Cluster(args.folder, args.nodes) as c:
        c.load(engine.busybox_tar(), engine.IMAGE)
        c.load(engine.python_tar(), engine.PYTHON_IMAGE)
        account = c.deploy()
        print(f"ready after {time.monotonic() - started:.1f} s\nexport KUBECONFIG={c.kubeconfig}\nexport PATH={c.bin}:$PATH", flush=True)
        print(f"with brig's own Role alone: KUBECONFIG={account}")
        print(f"inside: nsenter -t {c.control.pid} -m -n --; there KUBECONFIG={c.inner}", flush=True)
        for node in c.nodes:
            print(f"{node.name}: {node.daemon} at {node.host}", flush=True)
        ended.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
