# SPDX-License-Identifier: Apache-2.0
"""Real engines for tests, started privately and stopped with everything they started.

    with Dockerd(folder) as engine: ...          # runsc registered; engine.host is DOCKER_HOST
    with Podman(folder, uid=0) as engine: ...    # or an ordinary uid: rootless
    with RootlessDockerd(folder) as engine: ...
    with Registry(folder) as registry: ...       # loopback; registry.address, registry.locked

Each has its own socket, data and run folders below `folder`, which must be short (socket paths are)
and reachable for everybody. Images are made here, from busybox and the machine's own Python.

BRIG_TEST_ENGINES names a folder of other versions of the engines' programs (`tests/docker/engines` makes
one), BRIG_TEST_RUNTIME the runtime that Podman uses in place of runc, BRIG_TEST_DOCKERD more settings of
dockerd, as JSON.
"""

import contextlib
import glob
import http.client
import io
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import time
import urllib.parse

ORDINARY = 4242  # who else than root may use the engine's socket; the harness's user
IMAGE = "brig-test:1"
PYTHON_IMAGE = "brig-test:python"
CURL_IMAGE = "brig-test:curl"
CLIENTS_IMAGE = "brig-test:clients"
FRAME_IMAGE = "brig-test:frame"
SERVICES_IMAGE = "brig-test:services"  # PostgreSQL and Redis
CACHE_IMAGE = "brig-test:cache"  # the same, which runs Redis by itself
ARCHITECTURE = {"aarch64": "arm64", "x86_64": "amd64"}[os.uname().machine]
OTHERS = os.environ.get("BRIG_TEST_ENGINES")
RUNTIME = os.environ.get("BRIG_TEST_RUNTIME", "runc")
SLOW = float(os.environ.get("TIME_FACTOR", "1")) > 1  # an emulated machine
WAIT = 240 * float(os.environ.get("TIME_FACTOR", "1"))


CROOKED_WAYS = ("caps", "bound", "seccomp", "privs", "user", "groups", "root", "stray", "writable", "elsewhere", "missing", "shm", "device",
                "masked", "used", "written", "hostshm", "hostpts", "ptsextra", "runpart", "carried", "closed", "cgempty", "cgfile", "cghost",
                "hidden", "hiddenfile", "hiddenrw", "hiddendev", "bootless", "plain")
CROOKED = """#!/usr/bin/python3
import json, os, sys
way = sys.argv[0].rsplit("-", 1)[1]


def mounted(kind="tmpfs"):
    path = os.path.dirname(sys.argv[0]) + "/" + way
    os.makedirs(path, exist_ok=True)
    if not os.path.ismount(path):
        os.system(f"mount -t {kind} {kind} {path}")
    return path


if "create" in sys.argv:
    path = sys.argv[sys.argv.index("--bundle") + 1] + "/config.json"
    c = json.load(open(path))
    p, mounts = c["process"], c["mounts"]
    work = [m for m in mounts if m["destination"] == p["cwd"]]
    if way == "caps":
        p["capabilities"] = {k: ["CAP_NET_RAW"] for k in ("bounding", "effective", "permitted")}
    elif way == "bound":
        p["capabilities"] = {"bounding": ["CAP_CHOWN"]}
    elif way == "seccomp":
        c["linux"].pop("seccomp")
    elif way == "bootless":  # which kernel it has is not to be seen
        c["linux"]["maskedPaths"].append("/proc/sys/kernel/random/boot_id")
    elif way == "privs":
        p["noNewPrivileges"] = False
    elif way == "user":
        p["user"]["uid"] = p["user"]["gid"] = 0
    elif way == "groups":
        p["user"]["additionalGids"] = [0]
    elif way == "root":
        c["root"]["readonly"] = False
    elif way == "stray":
        mounts.append({"destination": "/mnt", "type": "bind", "source": work[0]["source"], "options": ["rbind", "rw"]})
    elif way == "writable":
        for m in mounts:
            if m["destination"] == "/etc/passwd":
                m["options"] = ["rbind", "rw"]
    elif way == "elsewhere":
        work[0]["source"] = os.path.dirname(sys.argv[0]) + "/elsewhere"
    elif way == "missing":
        mounts.remove(work[0])
    elif way == "device":  # of kinds that are found among the kernel's own folders
        mounts.append({"destination": "/dev/extra", "type": "bind", "source": "/dev", "options": ["rbind", "rw"]})
    elif way in ("shm", "runpart"):  # a part of a tmpfs of somebody else's
        source = mounted() + "/part"
        os.makedirs(source, exist_ok=True)
        mounts.append({"destination": "/run" if way == "runpart" else "/dev/extra", "type": "bind", "source": source, "options": ["bind", "rw"]})
    elif way in ("masked", "used", "written"):  # and the whole
        source, target = mounted(), {"masked": "/sys/firmware", "used": "/dev/shm", "written": "/dev/extra"}[way]
        os.chmod(source, 0o1777)
        if way != "written":
            open(source + "/theirs", "w").close()
        mounts[:] = [m for m in mounts if m["destination"] != target]
        c["linux"]["maskedPaths"] = [p for p in c["linux"]["maskedPaths"] if p != target]
        mounts.append({"destination": target, "type": "bind", "source": source, "options": ["bind", "ro" if way == "masked" else "rw"]})
    elif way in ("hostshm", "hostpts", "ptsextra"):
        source = "/dev/shm" if way == "hostshm" else "/dev/pts"
        target = "/dev/extra" if way == "ptsextra" else source
        mounts[:] = [m for m in mounts if m["destination"] != target]
        mounts.append({"destination": target, "type": "bind", "source": source, "options": ["bind", "rw"]})
    elif way in ("carried", "closed"):  # the whole is closed to everybody but root, a part of it is not
        source = mounted("debugfs")
        if way == "carried":
            source = next(e.path for e in os.scandir(source) if e.is_dir() and e.stat().st_mode & 1)
        mounts.append({"destination": "/sys/kernel/debug", "type": "bind", "source": source, "options": ["bind", "ro"]})
    elif way.startswith("hidden"):  # as crun hides a folder
        source, target = mounted() + "/.empty-directory", "/dev/extra" if way == "hiddendev" else "/sys/firmware"
        os.makedirs(source, exist_ok=True)
        os.chmod(source, 0o777)
        if way == "hiddenfile":
            open(source + "/theirs", "w").close()
        c["linux"]["maskedPaths"] = [p for p in c["linux"]["maskedPaths"] if p != target]
        mounts.append({"destination": target, "type": "bind", "source": source, "options": ["bind", "rw" if way == "hiddenrw" else "ro"]})
    elif way in ("cgempty", "cgfile", "cghost"):  # somebody else's, where the folders of control groups should be
        source = "/sys/fs/cgroup" if way == "cghost" else mounted()
        os.chmod(source, 0o755)
        if way == "cgfile":
            os.makedirs(source + "/memory", exist_ok=True)
            if not os.path.ismount(source + "/memory"):
                os.system(f"mount -t tmpfs tmpfs {source}/memory")
            open(source + "/theirs", "w").close()
        mounts[:] = [m for m in mounts if m["destination"] != "/sys/fs/cgroup"]
        mounts.append({"destination": "/sys/fs/cgroup", "type": "bind", "source": source, "options": ["rbind" if way == "cgfile" else "bind", "rw"]})
    json.dump(c, open(path, "w"))
os.execv("RUNC", ["runc", *sys.argv[1:]])
"""


def program(name):
    """The path of an engine's program, of this machine or of the versions that were asked for."""
    return shutil.which(name, path=_path())


def _path():
    return ":".join(filter(None, (OTHERS, os.environ["PATH"], "/usr/sbin:/sbin")))


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("engine", timeout=WAIT)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(WAIT)
        self.sock.connect(self.path)


class Engine:
    """What all of them share: the API, the images, the end."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(mode=0o755, exist_ok=True)
        self.socket = self.folder / "s"
        self.process = None
        self.version = "1.41"

    @property
    def host(self):
        return f"unix://{self.socket}"

    def ask(self, method, path, body=None, content="application/json", headers=None):
        """(status, parsed answer or text) of one request."""
        c = _UnixConnection(str(self.socket))
        prefix = "" if path == "/_ping" else f"/v{self.version}"
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        c.request(method, f"{prefix}{path}", data, {**(headers or {}), **({"Content-Type": content} if data is not None else {})})
        r = c.getresponse()
        text = r.read()
        c.close()
        if path == "/_ping":  # what Docker 29 still takes
            self.version = min(r.getheader("Api-Version", "1.41"), "1.44")
        try:
            return r.status, json.loads(text)
        except ValueError:
            return r.status, text.decode(errors="replace")

    def containers(self):
        """Names and labels of all there are, running or not."""
        status, found = self.ask("GET", "/containers/json?all=1")
        assert status == 200, found
        return {c["Names"][0].lstrip("/"): c["Labels"] for c in found}

    def astray(self):
        """What the API does not show of containers: files in its storage, and processes."""
        return []

    def networks(self):
        status, found = self.ask("GET", "/networks")
        assert status == 200, found
        return {n["Name"] for n in found} - {"bridge", "host", "none", "podman"}

    def import_image(self, tar, name=IMAGE, changes=()):
        repo, _, tag = name.rpartition(":")
        query = urllib.parse.urlencode([("fromSrc", "-"), ("repo", repo), ("tag", tag), *(("changes", c) for c in changes)])
        status, text = self.ask("POST", f"/images/create?{query}", tar, "application/x-tar")
        assert status == 200 and "error" not in str(text)[:200], text
        if isinstance(self, Podman):  # which does not look at repo and tag
            last = text if isinstance(text, dict) else json.loads(text.strip().splitlines()[-1])
            status, text = self.ask("POST", f"/images/{last['status']}/tag?{urllib.parse.urlencode({'repo': repo, 'tag': tag})}")
            assert status == 201, text

    def answers(self):
        if self.process.poll() is not None:
            return False
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.ask("GET", "/_ping")[0] == 200
        return False

    def wait_ready(self):
        end = time.monotonic() + WAIT
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{type(self).__name__} does not start:\n{self.log()[-3000:]}")
            time.sleep(0.05)

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def launch(self, argv, **popen):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True, **popen)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()


def _private(script):
    """Mounts of its own, but what the host mounts later is seen."""
    return ["unshare", "--mount", "--propagation", "slave", "sh", "-c", script]


class Dockerd(Engine):
    """Its own pid namespace goes with it: nothing survives, whatever the test did to it."""

    def __init__(self, folder, networks=False, registries=(), remapped=False):
        super().__init__(folder)
        self.parent = f"engine-of-brig-{os.getpid()}-{self.folder.parent.name}"
        self.networks_on = networks
        self.registries = registries
        self.remapped = remapped  # users inside have other ids
        self.daemon = None  # pid of dockerd itself

    def start(self):
        config = {
            "runtimes": {"runsc": {"path": "/usr/bin/runsc", "runtimeArgs": ["--network=none"]}, **self._crooked()},
            "insecure-registries": list(self.registries),
            **({"userns-remap": "tester"} if self.remapped else {}),
            **json.loads(os.environ.get("BRIG_TEST_DOCKERD", "{}")),
        }
        (self.folder / "daemon.json").write_text(json.dumps(config))
        (self.folder / "tmp").mkdir(exist_ok=True)
        flags = ["--bridge=none", "--ip-masq=false"] if not self.networks_on else ["--bridge=none"]
        # A /run of its own keeps it away from the host's containerd.
        script = 'mount -t tmpfs tmpfs /run && echo $$ > "$0/sh" && exec dockerd "$@"'
        if SLOW:  # dockerd waits 15 s for the containerd that it starts, and no longer
            flags.append(f"--containerd={self.folder}/x/c")
            script = script.replace("exec", 'mkdir -p "$0/x" && { containerd --root "$0/c" --state "$0/x/cd" --address "$0/x/c" & } && '
                                    'until [ -S "$0/x/c" ]; do sleep 1; done && exec')
        if self.remapped:
            script = _named(self.folder, ORDINARY + 1, "/").replace('exec "$@"', script)
        self.launch([
            "unshare", "--fork", "--kill-child", "--mount", "--propagation", "slave", "sh", "-c", script, str(self.folder),
            "-H", self.host, "--data-root", f"{self.folder}/data", "--exec-root", f"{self.folder}/x",
            "-p", f"{self.folder}/pid", "-G", str(ORDINARY), f"--cgroup-parent=/{self.parent}",
            "--config-file", f"{self.folder}/daemon.json", "--iptables=false", "--ip-forward=false", "-l", "error", *flags],
            env={**os.environ, "PATH": _path(), "TMPDIR": str(self.folder / "tmp")})  # where containerd, told to end, may say where it stood
        self.wait_ready()
        self.daemon = int((self.folder / "pid").read_text())

    def _crooked(self):
        """Runtimes that make another container than the one that was asked for, each in one way: "crooked-NAME"."""
        wrapper = self.folder / "crooked"
        wrapper.write_text(CROOKED.replace("RUNC", program("runc")))
        wrapper.chmod(0o755)
        (self.folder / "elsewhere").mkdir(exist_ok=True)
        for name in CROOKED_WAYS:
            with contextlib.suppress(FileExistsError):
                (self.folder / f"crooked-{name}").symlink_to("crooked")
        return {f"crooked-{name}": {"path": str(self.folder / f"crooked-{name}")} for name in CROOKED_WAYS}

    def restart(self):
        self.stop_daemon(signal.SIGTERM)
        self.start()

    def stop_daemon(self, how):
        """dockerd alone; containerd and shims go with a graceful end, and are looked after otherwise."""
        if self.process is None:
            return
        if self.daemon:
            with contextlib.suppress(OSError):
                os.kill(self.daemon, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(WAIT)
        self.process.kill()
        self.process.wait()
        self.process = self.daemon = None
        self._end_leftovers()
        _unmount(self.folder)  # as after a restart of the machine
        shutil.rmtree(self.folder / "x", ignore_errors=True)
        (self.folder / "pid").unlink(missing_ok=True)

    def _end_leftovers(self):
        """containerd and its shims name our folder on their command line; nobody else does."""
        mine = os.fsencode(f"{self.folder}/")
        for _ in range(100):
            left = [pid for pid in filter(str.isdigit, os.listdir("/proc")) if int(pid) != os.getpid() and self._names(pid, mine)]
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(int(pid), signal.SIGKILL)
            if not left:
                return
            time.sleep(0.05)

    @staticmethod
    def _names(pid, mine):
        with contextlib.suppress(OSError):
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            name = words.split(b"\0")[0].rsplit(b"/", 1)[-1]
            return mine in words and name.startswith((b"containerd", b"dockerd", b"runc"))
        return False

    def stop(self):
        self.stop_daemon(signal.SIGTERM)
        _kill_cgroups(self.parent)
        _unmount(self.folder)


def _named(folder, uid, home):
    """A shell script that runs its arguments where the uid has a name, and others to give away, as "$0" is the folder."""
    for name, line in (("passwd", f"tester:x:{uid}:{uid}::{home}:/bin/sh"), ("group", f"tester:x:{uid}:"),
                       ("subuid", "tester:200000:65536"), ("subgid", "tester:200000:65536")):
        path = pathlib.Path("/etc") / name
        others = [l for l in (path.read_text() if path.exists() else "").splitlines() if not l.startswith("tester:")]  # useradd may have given it ids
        (folder / name).write_text("\n".join([*others, line, ""]))
    return 'for f in passwd group subuid subgid; do touch /etc/$f; mount --bind "$0/$f" /etc/$f; done; exec "$@"'


def _as(uid):
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"] if uid else []


class RootlessDockerd(Engine):
    """dockerd as an ordinary user, in the namespaces that Docker's own script makes."""

    SCRIPT = "/usr/share/docker.io/contrib/dockerd-rootless.sh"

    def __init__(self, folder, uid=ORDINARY):
        super().__init__(folder)
        self.uid = uid

    def start(self):
        home, run = self.folder / "home", self.folder / "run"
        for path in (home, run, self.folder / "tmp"):
            path.mkdir(mode=0o700, exist_ok=True)
            os.chown(path, self.uid, self.uid)
        (self.folder / "log").touch()
        (self.folder / "daemon.json").write_text("{}")
        os.chown(self.folder, self.uid, self.uid)
        env = {"PATH": _path(), "HOME": str(home), "XDG_RUNTIME_DIR": str(run),
               "TMPDIR": str(self.folder / "tmp")}
        # Its network needs the device that distributions let everybody open.
        tun = 'mknod -m 666 "$0/tun" c 10 200; mount --bind "$0/tun" /dev/net/tun; '
        self.launch([*_private(tun + _named(self.folder, self.uid, home)), str(self.folder), *_as(self.uid), program("dockerd-rootless.sh") or self.SCRIPT, "-H", self.host,
                     "--data-root", str(home / "data"), "--exec-root", str(run / "x"), "-p", str(run / "pid"),
                     "--config-file", str(self.folder / "daemon.json"), "--bridge=none", "--iptables=false", "-l", "error"], env=env, cwd="/")
        self.wait_ready()

    def kill_service(self):
        """All that it is made of, and what it ran: nothing of it is in a control group or pid namespace of its own."""
        self.process.kill()
        self._end_leftovers()
        (self.folder / "run/pid").unlink(missing_ok=True)
        shutil.rmtree(self.folder / "run/x", ignore_errors=True)  # as after a restart of the machine

    def stop(self):
        if self.process is None:
            return
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(WAIT)
        self.process.kill()
        self._end_leftovers()
        _unmount(self.folder)

    def _end_leftovers(self):
        self.process.wait()
        self.process = None
        for _ in range(100):
            left = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if pid != os.getpid() and self._ours(pid)]
            if not left:
                return
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def _ours(self, pid):
        """Its own processes name our folder on their command line; those in containers have their root in our storage."""
        with contextlib.suppress(OSError):
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            name = words.split(b"\0")[0].rsplit(b"/", 1)[-1]
            if os.fsencode(f"{self.folder}/") in words:
                return name.startswith((b"containerd", b"dockerd", b"runc", b"rootlesskit", b"slirp4netns"))
            return f"{self.folder}/home/data/" in pathlib.Path(f"/proc/{pid}/mountinfo").read_text().split("\n", 1)[0]
        return False


class Podman(Engine):
    """uid 0, or an ordinary one without an entry anywhere: it gets one in a view of its own."""

    def __init__(self, folder, uid=0):
        super().__init__(folder)
        self.uid = uid

    def start(self):
        home = self.folder / "home"
        for path in (home, self.folder / "run", self.folder / "tmp"):
            path.mkdir(mode=0o700, exist_ok=True)
            os.chown(path, self.uid, self.uid)
        (self.folder / "log").touch()
        # As root's capabilities allow here: see the class of machine in the design notes.
        (self.folder / "containers.conf").write_text(
            '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n'
            f'[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "{RUNTIME}"\n'
            + (f'helper_binaries_dir = ["{OTHERS}"]\nconmon_path = ["{OTHERS}/conmon"]\n' if OTHERS else "")
            + f'[engine.runtimes]\n{RUNTIME} = ["{program(RUNTIME)}"]\n')
        script = _named(self.folder, self.uid, home)
        if RUNTIME == "crun":  # has given up control groups of both versions at a time
            script = f"umount /sys/fs/cgroup/unified 2>/dev/null; {script}"
        os.chown(self.folder, self.uid, self.uid)
        env = {"PATH": _path(), "HOME": str(home), "XDG_RUNTIME_DIR": str(self.folder / "run"),
               "CONTAINERS_CONF": str(self.folder / "containers.conf"), "TMPDIR": str(self.folder / "tmp"),
               "ftp_proxy": "http://someone:open-sesame@proxy.test:1"}  # of the service alone
        # Flags, not files, for the folders: the process that tidies up after a container is told of them by flags.
        self.launch([*_private(script), str(self.folder), *_as(self.uid), "podman", "--root", str(home / "storage"), "--runroot",
                     str(self.folder / "run"), "--tmpdir", str(self.folder / "tmp"), "--storage-driver=vfs", f"--runtime={program(RUNTIME)}",
                     "--cgroup-manager=cgroupfs", "--events-backend=file", "system", "service", "--time=0", self.host],
                    env=env, cwd="/")
        self.wait_ready()

    def kill_service(self):
        """The service alone; what watches its containers lives on. A rootless one is two processes."""
        mine = os.fsencode(f"{self.folder}/")
        self.process.kill()
        self.process.wait()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                if mine in words and b"\0service\0" in words:
                    os.kill(int(pid), signal.SIGKILL)

    def _inside(self):
        """What a service that died in mid-start may have forgotten: its root lies in our storage."""
        mine = f"/{self.folder.name}/home/storage/"
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.getpid() != int(pid) and mine in pathlib.Path(f"/proc/{pid}/mountinfo").read_text().split("\n", 1)[0]:
                    yield int(pid)

    def _watchers(self):
        """conmon, one for each container that was started."""
        mine = os.fsencode(f"{self.folder}/")
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                if mine in words and words.split(b"\0")[0].endswith(b"conmon"):
                    yield int(pid)

    def astray(self):
        return [*self._kept(), *self._inside(), *self._watchers()]

    def _kept(self):
        """Ids of the containers that there still are; the cgroups of the others are gone."""
        with contextlib.suppress(OSError, ValueError):
            return [c["id"] for c in json.loads((self.folder / "home/storage/vfs-containers/containers.json").read_text())]
        return []

    def stop(self):
        kept = self._kept()
        if self.process is not None:
            with contextlib.suppress(OSError, http.client.HTTPException, AssertionError):
                for container in kept:
                    self.ask("DELETE", f"/containers/{container}?force=1&v=1")
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(WAIT)
            self.process.kill()
            self.process.wait()
            self.process = None
        mine = os.fsencode(f"{self.folder}/")
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                env = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
                name = words.split(b"\0")[0].rsplit(b"/", 1)[-1]
                if (mine in words or mine in env) and name in (b"conmon", b"podman", b"catatonit", b"slirp4netns"):
                    os.kill(int(pid), signal.SIGKILL)
        for container in kept:
            _kill_cgroups(f"libpod_parent/libpod-{container}")
        for pid in self._inside():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        _unmount(self.folder)


class Registry:
    """docker-registry on loopback; a second one that wants a password."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.processes = []

    def _launch(self, name, auth):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        config = self.folder / f"{name}.yml"
        config.write_text(
            f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {self.folder}/{name}}}}}\n"
            f"http: {{addr: '127.0.0.1:{port}'}}\n" + auth)
        with open(self.folder / "log", "ab") as log:
            self.processes.append(subprocess.Popen(["docker-registry", "serve", config], stdin=subprocess.DEVNULL,
                                                   stdout=log, stderr=log, start_new_session=True))
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return f"127.0.0.1:{port}"
            time.sleep(0.05)
        raise RuntimeError("docker-registry does not start")

    def __enter__(self):
        # The password is "open sesame".
        (self.folder / "htpasswd").write_text("someone:$2b$05$H5PVPzh4nRtbnPNRxOI2pe9oICWPBGKEBAH/buj8P9L9N00XQcUlC\n")
        self.address = self._launch("open", "")
        self.locked = self._launch("locked", f"auth: {{htpasswd: {{realm: test, path: {self.folder}/htpasswd}}}}\n")
        return self

    def __exit__(self, *_):
        for p in self.processes:
            p.kill()
            p.wait()


# ---- images ----


def busybox_tar():
    """A root of busybox alone."""
    out = io.BytesIO()
    busybox = shutil.which("busybox")
    names = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for folder, mode in (("bin", 0o755), ("etc", 0o755), ("usr", 0o755), ("usr/bin", 0o755), ("tmp", 0o1777), ("workspace", 0o755)):
            _add(tar, folder, type=tarfile.DIRTYPE, mode=mode)
        tar.add(busybox, "bin/busybox")
        for name in names:
            if name != "busybox":
                _add(tar, f"bin/{name}", type=tarfile.SYMTYPE, linkname="busybox")
    return out.getvalue()


def frame_tar():
    """The links of this machine's root and empty folders: for images whose programs are shown to them from here."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for folder, mode in (("etc", 0o755), ("etc/alternatives", 0o755), ("usr", 0o755), ("tmp", 0o1777), ("workspace", 0o755)):
            _add(tar, folder, type=tarfile.DIRTYPE, mode=mode)
        for name in ("bin", "sbin", "lib", "lib64"):
            if os.path.islink(f"/{name}"):
                _add(tar, name, type=tarfile.SYMTYPE, linkname=os.readlink(f"/{name}"))
        for path in (*glob.glob("/usr/lib64/*"), "/etc/alternatives/cc"):
            if os.path.islink(path):
                _add(tar, path.lstrip("/"), type=tarfile.SYMTYPE, linkname=os.readlink(path))
    return out.getvalue()


def _needed_by(*programs):
    """The libraries that these programs load."""
    files = set()
    for program in programs:
        for line in subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout.splitlines():
            path = next((w for w in line.split() if w.startswith("/")), None)
            if path:
                files.add(path)
    return files


def _add_files(tar, files):
    """Those that are not there yet: an engine takes no file twice. Folders too: Docker makes what is missing for root alone."""
    there = {f"/{name}" for name in tar.getnames()}
    folders = {str(parent) for path in files for parent in pathlib.Path(path).parents} - {"/"}
    for path in sorted(folders - there):
        _add(tar, path.lstrip("/"), type=tarfile.DIRTYPE, mode=0o755)
    for path in sorted(files - there):
        tar.add(os.path.realpath(path), path.lstrip("/"))


def curl_tar(*, base=None):
    """busybox and this machine's curl, with a bundle of certificates that nobody should be shown."""
    out = io.BytesIO(base or busybox_tar())
    with tarfile.open(fileobj=out, mode="a") as tar:
        _add_files(tar, {"/usr/bin/curl"} | _needed_by("/usr/bin/curl"))
        for folder in ("etc/ssl", "etc/ssl/certs"):
            _add(tar, folder, type=tarfile.DIRTYPE, mode=0o755)
        data = b"the image's own\n"
        info = tarfile.TarInfo("etc/ssl/certs/ca-certificates.crt")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def clients_tar():
    """The same with Python, git, and the libraries of node: the program itself may be shown by a mount."""
    out = io.BytesIO(curl_tar(base=python_tar()))
    git = {"/usr/bin/git", "/usr/lib/git-core/git-remote-https"}
    with tarfile.open(fileobj=out, mode="a") as tar:
        _add_files(tar, git | _needed_by(*git, "/usr/bin/node"))
    return out.getvalue()


def ssh_tar():
    """busybox and this machine's ssh, with settings of its own that believe everybody."""
    out = io.BytesIO(busybox_tar())
    with tarfile.open(fileobj=out, mode="a") as tar:
        _add_files(tar, {"/usr/bin/ssh"} | _needed_by("/usr/bin/ssh"))
        _add(tar, "etc/ssh", type=tarfile.DIRTYPE, mode=0o755)
        data = b"Host *\n StrictHostKeyChecking no\n"
        info = tarfile.TarInfo("etc/ssh/ssh_config")
        info.size = len(data)
        info.mode = 0o644
        tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


# Of Python's library what no test asks for: an engine reads and writes an image many times. What it has compiled comes along: else
# every start inside does that again.
NOT_ASKED_FOR = re.compile(r"/(test|config-|dist-packages|ensurepip|idlelib|tkinter|turtle|lib2to3|pydoc|distutils|venv|unittest|xmlrpc|wsgiref|msilib|sqlite3|dbm|curses|lib-tk"
                           r"|doctest|pickletools|pdb|optparse|mailbox|imaplib|nntplib|lib-dynload/(_tkinter|_dbm|_gdbm|_sqlite3|_curses|readline|nis|_codecs_|_test|_xxt|ossaudio"
                           r"|_lsprof|audioop|_crypt)|encodings/(__pycache__/)?(cp(?!437)|mac|iso|koi|big5|euc|shift|gb|hz|johab|ptcp|tis|kz|palmos|hp_))")


def python_tar():
    """The same with this machine's Python and the libraries it needs."""
    out = io.BytesIO(busybox_tar())
    python = os.path.realpath("/usr/bin/python3")
    version = os.path.basename(python)
    libraries = {path for path in glob.glob(f"/usr/lib/{version}/lib-dynload/*.so") if not NOT_ASKED_FOR.search(path)}
    files = {python} | _needed_by(python, *libraries)
    with tarfile.open(fileobj=out, mode="a") as tar:
        _add_files(tar, files)
        _add(tar, "usr/bin/python3", type=tarfile.SYMTYPE, linkname=version)
        tar.add(f"/usr/lib/{version}", f"usr/lib/{version}",
                filter=lambda t: None if NOT_ASKED_FOR.search(f"/{t.name}") else t)
    return out.getvalue()


def services_tar():
    """The same with this machine's PostgreSQL and Redis, as Debian has them."""
    out = io.BytesIO(busybox_tar())
    postgres = sorted(glob.glob("/usr/lib/postgresql/*"))[-1]
    version = os.path.basename(postgres)
    programs = {f"{postgres}/bin/{name}" for name in ("initdb", "pg_isready", "postgres", "psql")}
    modules = set(glob.glob(f"{postgres}/lib/*.so"))
    own = programs | {"/usr/bin/redis-server", "/usr/bin/redis-cli"} | {f"{postgres}/lib/{name}.so" for name in ("plpgsql", "dict_snowball")}
    own |= {m for m in modules if "conversion" not in m and os.path.basename(m).startswith(("euc", "latin", "utf8_and"))}
    share = f"/usr/share/postgresql/{version}"
    with tarfile.open(fileobj=out, mode="a") as tar:
        _add_files(tar, own | _needed_by(*own))
        for folder in ("usr/share", "usr/share/postgresql", "srv", "run", "usr/share/zoneinfo"):
            if folder not in tar.getnames():
                _add(tar, folder, type=tarfile.DIRTYPE, mode=0o755)
        tar.add(share, share.lstrip("/"), filter=lambda t: None if "/man/" in t.name else t)
        tar.add("/usr/share/zoneinfo/UTC", "usr/share/zoneinfo/UTC", recursive=False)
        for program in programs:
            _add(tar, f"usr/bin/{os.path.basename(program)}", type=tarfile.SYMTYPE, linkname=program)
    return out.getvalue()


def _add(tar, name, **fields):
    info = tarfile.TarInfo(name)
    for key, value in {"mode": 0o777, **fields}.items():
        setattr(info, key, value)
    tar.addfile(info)


# ---- tidying up ----


def _unmount(folder):
    """What an engine that was killed has left mounted below its folder."""
    for _ in range(5):
        points = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
                  if line.split()[4].startswith(f"{folder}/")]
        if not points:
            return
        for point in sorted(points, reverse=True):
            subprocess.run(["umount", "-l", point], check=False, capture_output=True)


def _kill_cgroups(name):
    for top in ["/sys/fs/cgroup", *glob.glob("/sys/fs/cgroup/*/")]:
        for folder, _, _ in os.walk(os.path.join(top, name), topdown=False):
            for _ in range(40):
                with contextlib.suppress(OSError):
                    for pid in pathlib.Path(folder, "cgroup.procs").read_text().split():
                        os.kill(int(pid), signal.SIGKILL)
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
                if not os.path.exists(folder):
                    break
                time.sleep(0.05)
