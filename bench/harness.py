# SPDX-License-Identifier: Apache-2.0
"""What every row needs: a scratch folder, two kinds of user, the timing tool, the table."""

import contextlib
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import tempfile
from dataclasses import asdict, dataclass, field

HERE = pathlib.Path(__file__).resolve().parent
CFLAGS = ["-std=c11", "-O2", "-Wall", "-Wextra"]
ORDINARY_ID = 1000  # when root measures and nobody called it through sudo


@dataclass
class Row:
    """One line of the table. Times are in milliseconds; rate is per second, in `unit`."""

    name: str
    n: int = 0
    group: str = ""
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    rate: float | None = None
    unit: str = ""
    ratio: float | None = None
    peer: str = ""
    target: str = ""
    ok: bool | None = None
    better: str = ""  # "more" or "less": the guard watches its ratio
    raw: dict = field(default_factory=dict)


@dataclass
class Candidate:
    """A command to be timed; `opens` maps descriptor numbers to files opened anew for each run."""

    name: str
    argv: list
    n: int | None = None
    opens: dict = field(default_factory=dict)

    def words(self, once=False):
        words = [self.name]
        if self.n is not None and not once:
            words += ["-n", str(self.n)]
        for fd, path in self.opens.items():
            words += ["-o", f"{fd}:{path}"]
        return words + ["--", *map(str, self.argv)]


class Who:
    """A user to measure as, with folders of its own."""

    def __init__(self, name, uid, gid, base):
        self.name, self.uid, self.gid = name, uid, gid
        self.base = base / name
        self.prefix = []
        if uid != os.geteuid():
            self.prefix = [
                "setpriv",
                "--reuid",
                str(uid),
                "--regid",
                str(gid),
                "--clear-groups",
                "--",
            ]
        self.base.mkdir()
        os.chown(self.base, uid, gid)
        for sub in ("home", "tmp", "state", "cache", "config", "run", "ws"):
            self.folder(sub)
        (self.base / "run").chmod(0o700)
        self.ws = self.base / "ws"
        self.env = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            "HOME": f"{self.base}/home",
            "TMPDIR": f"{self.base}/tmp",
            "XDG_STATE_HOME": f"{self.base}/state",
            "XDG_CACHE_HOME": f"{self.base}/cache",
            "XDG_CONFIG_HOME": f"{self.base}/config",
            "XDG_RUNTIME_DIR": f"{self.base}/run",
        }

    def folder(self, sub):
        path = self.base / sub
        path.mkdir(exist_ok=True)
        os.chown(path, self.uid, self.gid)
        return path

    @contextlib.contextmanager
    def files(self):
        """What this process creates inside the block belongs to that user."""
        if not self.prefix:
            yield
            return
        os.setegid(self.gid)
        os.seteuid(self.uid)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)


class Bench:
    """One run of the bench. Used as a context manager: leaving it removes and stops everything."""

    def __init__(self, build, quick, beside=None):
        self.build, self.quick, self.beside = pathlib.Path(build), quick, beside
        self.rows, self.notes, self.group = [], [], ""
        self.brig = None
        self._undo = contextlib.ExitStack()

    def __enter__(self):
        for sig in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(sig, _interrupt)
        try:
            self._set_up()
        except BaseException:
            self._undo.close()
            raise
        return self

    def __exit__(self, *exc):
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(sig, signal.SIG_IGN)  # a second Ctrl-C must not stop the clean-up
        self._undo.close()

    def _set_up(self):
        # Not under /tmp: codex refuses to keep its helpers there, and sandboxes cover /tmp.
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="brig-bench-", dir="/var/tmp"))
        self.later(remove_tree, self.scratch)
        self.scratch.chmod(0o755)
        os.chdir("/")
        self.tools = self.scratch / "tools"
        self.tools.mkdir()
        for name in ("spawn", "calls", "floor", "ask"):
            self._compile(name)
        self.people = self._people()
        self.person = self.people[0]
        self.brig = self._find_brig()

    def later(self, call, *args):
        """Undo something at the end, last in first out."""
        self._undo.callback(call, *args)

    def _compile(self, name):
        cc = os.environ.get("CC", "cc").split()
        command = [*cc, *CFLAGS, str(HERE / f"{name}.c"), "-o", str(self.tools / name)]
        done = subprocess.run([*command, "-static"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.note(f"{name}: no static libc, linked dynamically")
            subprocess.run(command, check=True)

    def _people(self):
        """The ordinary user comes first: it is the one the targets speak of."""
        me, group = os.geteuid(), os.getegid()
        if me != 0:
            self.note("rows as root are left out: start the bench as root to have them")
            return [Who("user", me, group, self.scratch)]
        uid = int(os.environ.get("SUDO_UID", "0")) or ORDINARY_ID
        gid = int(os.environ.get("SUDO_GID", "0")) or ORDINARY_ID
        return [Who("user", uid, gid, self.scratch), Who("root", 0, 0, self.scratch)]

    def _find_brig(self):
        brig = self.build.resolve() / "brig"
        if not os.access(brig, os.X_OK):
            self.note(f"no {self.build}/brig: only the peers are measured")
            return None
        # As it is installed: pages of a file that the linker has just written cost a start up to 8 % more,
        # and the ordinary user may not reach the build folder.
        for path in brig.parent.glob("brig*"):
            if path.is_file():
                shutil.copy2(path, self.tools / path.name)
        return str(self.tools / "brig")

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)

    def count(self, full, quick):
        return quick if self.quick else full

    def run_as(self, who, argv, cwd=None, timeout=120):
        words = [*who.prefix, *map(str, argv)]
        with subprocess.Popen(
            words,
            env=who.env,
            cwd=cwd or who.ws,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except BaseException:
                process.terminate()  # told to end, spawn takes its candidates along
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                process.kill()
                raise
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def brig_run(self, *words):
        """Options, then "--", then the command."""
        return [self.brig, "run", *words]

    def works(self, who, candidate, cwd=None):
        """Try a candidate once; when it fails, say why and leave it out."""
        done = self.run_as(
            who, [self.tools / "spawn", "-e", "-n", "1", *candidate.words(once=True)], cwd=cwd
        )
        try:
            if done.returncode == 0 and json.loads(done.stdout)[0]["failed"] == 0:
                return True
        except (ValueError, LookupError):
            pass
        why = (done.stderr.strip().splitlines() or ["no message"])[-1]
        self.note(f"{candidate.name} ({who.name}) is left out: {why[:200]}")
        return False

    def measure(self, who, candidates, n, *, warmup=3, jobs=1, timeout=60, prepare=None, cwd=None):
        """Time candidates side by side; returns {name: figures} of those that work."""
        ready = [c for c in candidates if c and self.works(who, c, cwd)]
        if not ready:
            return {}
        words = [self.tools / "spawn", "-n", n, "-w", warmup, "-j", jobs, "-t", timeout]
        if prepare:
            words += ["-p", prepare]
        for i, c in enumerate(ready):
            words += ([":::"] if i else []) + c.words()
        limit = 30 + timeout * (n + warmup) * len(ready)
        done = self.run_as(who, words, cwd=cwd, timeout=min(limit, 3600))
        if done.returncode != 0:
            self.note(f"spawn failed: {done.stderr.strip()[-200:]}")
            return {}
        figures = {c["name"]: c for c in json.loads(done.stdout)}
        for name, c in figures.items():
            if c["failed"]:
                self.note(
                    f"{name} ({who.name}): {c['failed']} of {c['failed'] + c['n']} runs failed, "
                    f"last wait status {c['last_status']}"
                )
        return {name: c for name, c in figures.items() if c["n"]}

    def add(self, row):
        row.group = self.group
        self.rows.append(row)
        print(format_row(row), flush=True)

    def add_timed(self, label, figures, peer=None, peer_name="", limit=None, better=None):
        """A row from one candidate's figures; the ratio is p50 against p50, at most `limit`."""
        row = timed_row(label, figures)
        if peer:
            row.ratio = figures["p50"] / peer["p50"]
            row.peer = peer_name
        if limit:
            row.target = f"<= {limit}" + (f" (aim {better})" if better else "")
            row.ok = row.ratio <= limit if row.ratio is not None else None
        self.add(row)

    def head(self, title):
        self.group = title
        print(f"\n{title}\n{HEADER}", flush=True)

    def facts(self, codex):
        def first_line(*argv):
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
                return (done.stdout.strip().splitlines() or [""])[0]
            return None

        return {
            "kernel": platform.release(),
            "arch": platform.machine(),
            "cpus": os.cpu_count(),
            "memory_kib": int(pathlib.Path("/proc/meminfo").read_text().split()[1]),
            "load_before": os.getloadavg(),
            "libc": " ".join(platform.libc_ver()),
            "brig": first_line(self.brig, "version") if self.brig else None,
            "bwrap": first_line("bwrap", "--version"),
            "docker": first_line("docker", "--version"),
            "codex": codex,
            "quick": self.quick,
        }

    def as_json(self, facts):
        return {
            "schema": 1,
            "machine": facts,
            "rows": [asdict(r) for r in self.rows],
            "notes": self.notes,
        }


def _interrupt(_sig, _frame):
    raise KeyboardInterrupt


def timed_row(label, f):
    ms = 1e6
    return Row(label, f["n"], p50=f["p50"] / ms, p95=f["p95"] / ms, p99=f["p99"] / ms, raw=f)


HEADER = f"  {'':34} {'n':>5} {'p50':>10} {'p95':>10} {'p99':>10} {'rate':>12} {'ratio':>7}  target"


def format_row(r):
    def time(v):
        if v is None:
            return "-"
        return f"{v / 1000:.2f} s" if v >= 10000 else f"{v:.2f} ms" if v < 100 else f"{v:.0f} ms"

    rate = (
        "-"
        if r.rate is None
        else f"{r.rate:.0f} {r.unit}"
        if r.rate >= 100
        else f"{r.rate:.2f} {r.unit}"
    )
    ratio = "-" if r.ratio is None else f"{r.ratio:.2f}x"
    goal = r.target + (f" of {r.peer}" if r.target and r.peer else f"of {r.peer}" if r.peer else "")
    verdict = "" if r.ok is None else ": ok" if r.ok else ": MISS"
    return (
        f"  {r.name:34} {r.n:>5} {time(r.p50):>10} {time(r.p95):>10} {time(r.p99):>10}"
        f" {rate:>12} {ratio:>7}  "
        f"{goal}{verdict}"
    ).rstrip()


def remove_tree(path):
    """Also removes what a guest left unreadable; never follows a link out of the tree, and changes nothing above it."""

    def widen(call, name, _info):
        with contextlib.suppress(OSError):
            if os.fspath(name) != os.fspath(path):
                os.chmod(os.path.dirname(name), 0o700)
            os.chmod(name, 0o700, follow_symlinks=not os.path.islink(name))
            call(name)

    shutil.rmtree(path, onerror=widen)


def make_files(root, count, width=100):
    """`count` empty files in nested folders, `width` to a folder."""
    for start in range(0, count, width):
        number = start // width
        folder = root / f"d{number // 50:03}" / f"e{number % 50:02}"
        folder.mkdir(parents=True)
        for i in range(min(width, count - start)):
            os.mknod(folder / f"file{i:02}.txt")
