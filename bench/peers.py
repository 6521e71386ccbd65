# SPDX-License-Identifier: Apache-2.0
"""The programs brig is compared with: bubblewrap, a private Docker engine, codex's sandbox."""

import contextlib
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from harness import Candidate

CODEX = os.environ.get("BRIG_BENCH_CODEX", "@openai/codex@0.166.0")
IMAGE = "brig-bench:1"
TRUE = "/usr/bin/true"
MASKED = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sysrq-trigger")
READONLY = ("/proc/sys", "/proc/bus", "/proc/irq", "/proc/fs")


class Plan:
    """bwrap arguments equal to brig's mounts, with the descriptors that --file needs."""

    def __init__(self):
        self.args, self.opens, self.unknown = [], {}, set()

    def add(self, *words):
        self.args += map(str, words)

    def file(self, source, target):
        fd = 10 + len(self.opens)
        self.opens[fd] = str(source)
        self.add("--file", fd, target)


def bwrap(plan, *command):
    return [
        "/usr/bin/bwrap",
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        *plan.args,
        *command,
    ]


def bwrap_plain(*command):
    return [
        "/usr/bin/bwrap",
        "--unshare-all",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
        *command,
    ]


def fixed_mounts(bench, who, ws):
    """What brig mounts by default, written down by hand: used where no plan can be had."""
    p = Plan()
    p.add("--ro-bind", "/usr", "/usr")
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        if os.path.islink(f"/{name}"):
            p.add("--symlink", os.readlink(f"/{name}"), f"/{name}")
        elif os.path.isdir(f"/{name}"):
            p.add("--ro-bind", f"/{name}", f"/{name}")
    p.add("--dir", "/etc")
    for name in ("ld.so.cache", "alternatives", "ssl", "localtime"):
        if os.path.exists(f"/etc/{name}"):
            p.add("--ro-bind", f"/etc/{name}", f"/etc/{name}")
    for name in ("passwd", "group", "hosts", "resolv.conf", "nsswitch.conf"):
        p.file(_text(bench, name), f"/etc/{name}")
    p.add("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/home/user")
    p.add("--bind", ws, "/workspace")
    for path in filter(os.path.isfile, MASKED):
        p.add("--ro-bind", "/dev/null", path)
    for path in filter(os.path.isdir, READONLY):
        p.add("--ro-bind", path, path)
    p.add("--chdir", "/workspace")
    return p


def mounts_from_plan(bench, who, ws, drop=()):
    """The same from `brig plan`, without the kinds in `drop`; None if unreadable."""
    done = bench.run_as(who, [bench.brig, "plan", "--workdir", ws, "--", "true"], cwd=ws)
    try:
        plan = json.loads(done.stdout)
        ops = plan["ops"] if "ops" in plan else plan["plan"]["ops"]
        ops = [op for op in ops if op["op"] not in drop]
    except (ValueError, LookupError, TypeError):
        bench.note(f"brig plan ({who.name}) is unreadable; bwrap gets the mounts in peers.py")
        return None
    p = Plan()
    for op in ops:
        try:
            _translate(p, op, bench, str(ws))
        except (LookupError, TypeError, AttributeError):
            p.unknown.add(op["op"])
    if p.unknown:
        bench.note(
            f"operations of the plan that bwrap has no like for: {', '.join(sorted(p.unknown))}"
        )
    p.add("--chdir", "/workspace")
    return p


def same_mounts(bench, who, ws, without=()):
    """A plan for bwrap that is known to start: from brig if possible, by hand otherwise."""
    if bench.brig:
        for drop in ((), ("readonly",), ("mask", "readonly"), ("mask", "readonly", "cover")):
            p = mounts_from_plan(bench, who, ws, {*drop, *without})
            if p is None:
                break
            if bench.run_as(who, _preflight(bench, p), cwd=ws).returncode == 0:
                if drop:
                    bench.note(
                        f"bwrap ({who.name}) refuses brig's {', '.join(drop)} and runs without"
                    )
                return p
        else:
            bench.note(f"bwrap ({who.name}) refuses brig's mounts; it gets those in peers.py")
    return fixed_mounts(bench, who, ws)


def _preflight(bench, plan):
    # spawn counts a failed candidate and does not fail itself, so the count is read.
    words = Candidate("try", bwrap(plan, TRUE), opens=plan.opens).words()
    return [
        "sh",
        "-c",
        '"$@" | grep -q \'"failed": 0\'',
        "sh",
        bench.tools / "spawn",
        "-n",
        "1",
        "-t",
        "20",
        *words,
    ]


def _first(op, *keys):
    return next((op[k] for k in keys if op.get(k) is not None), None)


def _translate(p, op, bench, ws):
    kind, target = op["op"], _first(op, "target", "dest", "path")
    source = _first(op, "source", "src", "from")
    if str(target).startswith("/dev/") and kind in ("dir", "device", "symlink"):
        return  # they come with --dev
    if kind == "dir" and target == "/dev":
        p.add("--dev", target)
    elif kind == "private":
        p.add("--tmpfs", target)
    elif kind in ("bind", "rbind", "idmap", "workspace"):
        device = str(target).startswith("/dev/")
        ro = _first(op, "read_only", "readonly", "ro")
        p.add("--dev-bind" if device else "--ro-bind" if ro else "--bind", source or target, target)
    elif kind == "tmpfs":
        size = _first(op, "size", "size_bytes", "bytes")
        if target != "/":  # bwrap makes a root of its own
            p.add(*(["--size", size] if size else []), "--tmpfs", target)
    elif kind in ("proc", "mqueue"):
        p.add(f"--{kind}", target)
    elif kind == "dev":
        p.add("--dev", "/dev") if target in (None, "/dev") else p.add(
            "--dev-bind", source or target, target
        )
    elif kind == "symlink":
        p.add("--symlink", _first(op, "to", "link", "source"), target)
    elif kind == "dir":
        p.add("--dir", target)
    elif kind == "file":
        p.file(
            _text(bench, os.path.basename(target), _first(op, "content", "data", "text")), target
        )
    elif kind in ("mask", "readonly") and not os.path.lexists(target):
        pass  # this kernel has no such entry
    elif kind == "mask":
        p.add("--tmpfs", target) if os.path.isdir(target) else p.add(
            "--ro-bind", "/dev/null", target
        )
    elif kind == "readonly":
        p.add("--remount-ro", "/") if target == "/" else p.add("--ro-bind", target, target)
    elif kind == "cover":
        p.add("--ro-bind", _covered(bench, op, source, target, ws), target)
    elif kind not in ("devpts", "root", "pivot"):  # parts of bwrap's own --dev and start
        p.unknown.add(kind)


def _covered(bench, op, source, target, ws):
    """The host path behind a protected name, or an empty stand-in where there is none yet."""
    inside = target.removeprefix("/workspace")
    host = source or (ws + inside if inside != target else target)
    if os.path.exists(host):
        return host
    empty = bench.scratch / "empty"
    if op.get("file") or op.get("type") == "file":
        return _text(bench, "empty-file", "")
    empty.mkdir(exist_ok=True)
    return empty


def _text(bench, name, content=None):
    """A small file to be copied inside: the host's own when the plan does not show its text."""
    folder = bench.scratch / "files"
    folder.mkdir(exist_ok=True)
    path = folder / name
    if isinstance(content, str):
        path.write_text(content)
    elif not path.exists():
        host = pathlib.Path("/etc") / name
        path.write_bytes(
            host.read_bytes()[:4096] if host.is_file() and os.access(host, os.R_OK) else b"\n"
        )
    path.chmod(0o644)
    return path


def codex(bench):
    """The native program out of codex's npm package, fetched once into a cache, or None."""
    default = (
        "/var/cache"
        if os.geteuid() == 0
        else os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    )
    cache = (
        pathlib.Path(os.environ.get("BRIG_BENCH_CACHE", f"{default}/brig-bench"))
        / CODEX.rpartition("@")[2]
    )
    pattern = f"{cache}/node_modules/@openai/codex*/vendor/*/bin/codex"
    found = glob.glob(pattern)
    if not found and shutil.which("npm"):
        cache.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [
                    "npm",
                    "install",
                    "--prefix",
                    cache,
                    "--no-audit",
                    "--no-fund",
                    "--ignore-scripts",
                    "--loglevel=error",
                    CODEX,
                ],
                timeout=300,
                check=False,
                capture_output=True,
            )
        found = glob.glob(pattern)
    if not found:
        bench.note(f"codex is left out: npm could not install {CODEX}")
        return None
    for who in bench.people:  # codex leaves this behind whatever TMPDIR says
        left = f"/tmp/codex-daemon-{who.uid}"
        if not os.path.exists(left):
            bench.later(lambda path: shutil.rmtree(path, ignore_errors=True), left)
    return found[0]


class Docker:
    """A private engine: own socket, data, cgroup parent, mount and pid namespaces."""

    def __init__(self, bench):
        self.bench, self.process = bench, None
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="docker-", dir=bench.scratch))  # two groups have one each
        self.socket = self.base / "docker.sock"
        self.parent = f"brig-bench-{self.base.name}"

    def run(self, *command):
        return [
            "/usr/bin/docker",
            "-H",
            f"unix://{self.socket}",
            "run",
            "--rm",
            "--network",
            "none",
            IMAGE,
            *command,
        ]

    def run_same(self, who, ws, *command):
        """docker run with the settings that brig's docker backend has under --policy readonly."""
        flags = [
            "--init", "-i", "--network=none", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges",
            "--tmpfs=/tmp:rw,noexec,nosuid,size=64m", "--tmpfs=/home/brig:rw,exec,nosuid,size=1g", "--memory=2g", "--memory-swap=2g",
            "--pids-limit=257", "--cpu-shares=1024", "--ulimit=core=1", "--ulimit=nofile=4096", f"--user={who.uid}:{who.gid}",
            "--log-driver=none", f"--volume={ws}:/workspace:ro", "--workdir=/workspace", "--hostname=brig",
        ]
        plain = self.run()
        return [*plain[:-3], *flags, IMAGE, *command]

    def container(self):
        """One that stays, for exec; False: it did not start."""
        flags = ["run", "-d", "--rm", "--init", "--name", "stays", "--network", "none", IMAGE, "sh", "-c", "while :; do sleep 1000; done"]
        done = self._client(*flags)
        if done.returncode != 0:
            self.bench.note(f"docker exec is left out: {done.stderr.decode(errors='replace').strip()[-200:]}")
        return done.returncode == 0

    def exec(self, *command):
        return ["/usr/bin/docker", "-H", f"unix://{self.socket}", "exec", "stays", *command]

    def start(self):
        """True when the engine answers and has the image; otherwise a note says what is missing."""
        missing = [
            t for t in ("dockerd", "docker", "busybox", "unshare", "tar") if not shutil.which(t)
        ]
        if os.geteuid() != 0 or missing:
            why = f"no {', '.join(missing)}" if missing else "its engine needs root"
            self.bench.note(f"docker is left out: {why}")
            return False
        self.bench.later(self.stop)
        self._launch()
        if self._answers() and self._import():
            return True
        log = (self.base / "log").read_text(errors="replace").strip().splitlines()
        self.bench.note(f"docker is left out: {(log or ['the engine did not start'])[-1][:300]}")
        return False

    def _launch(self):
        # A private /run keeps it away from the host's containerd, and its leftovers away too.
        script = 'mount -t tmpfs tmpfs /run && exec dockerd "$@"'
        with open(self.base / "log", "wb") as log:
            self.process = subprocess.Popen(
                [
                    "unshare",
                    "--mount",
                    "--pid",
                    "--fork",
                    "--kill-child",
                    "--mount-proc",
                    "sh",
                    "-c",
                    script,
                    "dockerd",
                    "-H",
                    f"unix://{self.socket}",
                    "--data-root",
                    f"{self.base}/data",
                    "--exec-root",
                    f"{self.base}/exec",
                    "-p",
                    f"{self.base}/pid",
                    "-G",
                    str(self.bench.person.gid),
                    f"--cgroup-parent=/{self.parent}",
                    "--bridge=none",
                    "--iptables=false",
                    "--ip-forward=false",
                    "--ip-masq=false",
                    "-l",
                    "error",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.base.chmod(0o711)

    def _client(self, *words, timeout=60, **more):
        return subprocess.run(
            ["docker", "-H", f"unix://{self.socket}", *words],
            timeout=timeout,
            check=False,
            capture_output=True,
            **more,
        )

    def _answers(self):
        for _ in range(150):
            if self.process.poll() is not None:
                return False
            if self.socket.exists() and self._client("version").returncode == 0:
                return True
            time.sleep(0.2)
        return False

    def _import(self):
        root = self.base / "image"
        (root / "bin").mkdir(parents=True)
        shutil.copy2(shutil.which("busybox"), root / "bin/busybox")
        for name in ("true", "sh", "head", "sleep"):
            (root / "bin" / name).symlink_to("busybox")
        tar = subprocess.run(["tar", "-C", root, "-c", "."], capture_output=True, check=True)
        return self._client("import", "-", IMAGE, input=tar.stdout).returncode == 0

    def stop(self):
        if self.process and self.process.poll() is None:
            children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            with contextlib.suppress(OSError):
                for pid in children.read_text().split():
                    os.kill(int(pid), signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
            self.process.kill()  # takes the pid namespace with it
            self.process.wait()
        for top in ("/sys/fs/cgroup", *glob.glob("/sys/fs/cgroup/*/")):
            _remove_cgroups(os.path.join(top, self.parent))


class Podman:
    """Root's own, with everything it keeps in a folder of the bench, and one container that stays."""

    def __init__(self, bench):
        self.bench, self.base, self.running = bench, bench.scratch / "podman", False

    def _words(self, *words):
        return ["/usr/bin/env", f"CONTAINERS_CONF={self.base}/conf", f"HOME={self.base}", "/usr/bin/podman", "--root", f"{self.base}/storage",
                "--runroot", f"{self.base}/run", "--tmpdir", f"{self.base}/tmp", "--storage-driver=vfs", "--runtime=runc",
                "--cgroup-manager=cgroupfs", "--events-backend=file", *words]

    def container(self):
        missing = [t for t in ("podman", "runc", "busybox") if not shutil.which(t)]
        if os.geteuid() != 0 or missing:
            self.bench.note(f"podman is left out: {'no ' + ', '.join(missing) if missing else 'this one needs root'}")
            return False
        root = self.base / "image"
        for folder in ("bin", "proc", "dev", "sys", "etc", "run", "tmp"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy2(shutil.which("busybox"), root / "bin/busybox")
        for name in ("true", "sh", "sleep"):
            (root / "bin" / name).symlink_to("busybox")
        # Limits that root may set wherever the bench runs.
        (self.base / "conf").write_text('[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n')
        self.bench.later(self.stop)
        done = subprocess.run(self._words("run", "-d", "--name", "stays", "--network", "none", "--rootfs", str(root), "/bin/sh", "-c",
                                          "while :; do sleep 1000; done"), capture_output=True, text=True, timeout=120, check=False)
        self.running = done.returncode == 0
        if not self.running:
            self.bench.note(f"podman is left out: {done.stderr.strip()[-300:]}")
        return self.running

    def exec(self, *command):
        return self._words("exec", "stays", *command)

    def stop(self):
        if self.running:
            subprocess.run(self._words("rm", "-f", "-t", "0", "stays"), capture_output=True, timeout=120, check=False)
            self.running = False


def _remove_cgroups(top):
    for folder, _, _ in os.walk(top, topdown=False):
        for _ in range(20):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
            if not os.path.exists(folder):
                break
            time.sleep(0.1)
