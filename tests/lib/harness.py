# SPDX-License-Identifier: Apache-2.0
"""A small library for tests that drive the real brig from outside: tests/run and tests/escape.

    @test                                    # runs twice: started by root, and by an ordinary user
    def the_exit_status_is_the_commands_own():
        assert brig("run", "--", "sh", "-c", "exit 7").status == 7

Every test is a process of its own with a private mount namespace, /tmp and set of folders, and is
compared before and after: what brig leaves behind (processes, mounts, cgroups, files) fails the
test. A test may write in workspace() and scratch() as it likes; what it puts elsewhere it removes.
Its files belong to the identity that starts brig.

Run one file: `python3 tests/run/test_x.py [-v] [WORD...]`; all: tests/run-suite. From outside come
BRIG (the program; default build/brig), BRIG_WRAP (a command put in front of it), BRIG_BACKEND (passed
on; tests that do not apply to it are left out), TIME_FACTOR (a multiple for every limit, for emulated
machines), COMPILE_FOR (the machine that compile_ahead compiles for), ONLY_AS (root or user: root's runs are those of this identity alone), CI or MUST_RUN (a skip is a failure).
Without root, tests run once, as the user there is; what only root can do is then left out.
"""

import argparse
import collections
import contextlib
import ctypes
import fcntl
import hashlib
import importlib.util
import json
import os
import pathlib
import platform
import re
import select
import shlex
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import types
import zlib

sys.dont_write_bytecode = True  # leave nothing in the source tree

import turns  # noqa: E402 - tests/lib

__all__ = ["FACTOR", "PATIENCE", "WHOLE", "around", "brig", "brig_argv", "brig_environment", "brig_path", "cgroups", "compile_ahead", "compile_c",
           "descendants", "files_as_root", "home", "identity", "installed_hidden", "made_once", "main", "namespaces", "runtime", "scratch", "seconds", "skip", "start_brig",
           "state", "test", "tree", "uid", "wait_until", "workspace"]

TOP = pathlib.Path(__file__).resolve().parents[2]
ORDINARY = 4242  # no passwd entry on purpose: brig must not need one
FACTOR = float(os.environ.get("TIME_FACTOR", "1"))
PATIENCE = 4 * FACTOR  # for every wait that ends as soon as what it waits for is there: a machine shared with others may be that much slower
WHOLE = bool(os.environ.get("WHOLE"))  # more of what only repeats: `tests/run-suite --whole`, as make soak does
GRACE = 2.0 * PATIENCE  # what the kernel may take to tear down namespaces and cgroups
SKIPPED = 77
JOBS = 2 if FACTOR > 1 else max(2, min(8, 2 * len(os.sched_getaffinity(0))))  # a test waits for half of its time
# Files brig may keep in its state and runtime folders, by their path below them.
KEPT = ("brig", "brig/git", "brig/records", "brig/records/live/.turn", "brig/workspaces", "brig/trusted", "brig/exposed", "brig/settings", "brig/home.key", "brig/quarantine", "brig/volumes", "brig/images",
        "brig/audit", "brig/bundles", "brig/changes", "brig/daemon", "brig/docker", "brig/authority", "brig/hold", "brig/instance", "brig/kubernetes", "brig/probed", "brig/senders", "brig/slurm", "brig/ssh")
KEPT_BELOW = ("brig/audit/", "brig/authority/", "brig/changes/", "brig/daemon/", "brig/exposed/", "brig/git/", "brig/images/", "brig/kubernetes/.place.", "brig/quarantine/", "brig/records/", "brig/slurm/", "brig/workspaces/journal.")
LIVE = "brig/records/live/"  # of runs, and of those that nobody has finished

IS_ROOT = os.geteuid() == 0
OWN_STATE = pathlib.Path("/var/lib/brig")
ROOTS = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
ONLY_AS = tuple(os.environ.get("ONLY_AS", "").split())
MUST_RUN = os.environ.get("CI") == "true" or os.environ.get("MUST_RUN") == "1"

_libc = ctypes.CDLL(None, use_errno=True)
_tests = []
_around = {}  # what to enter, and the files that need it
_now = None  # the running test's Place, in its own process
_loading = None  # the file that is being read for its tests


# ---- writing tests ----


class Test:
    def __init__(self, function, as_user="both", slow=False, alone=False, by_root=False, all_roots=False, limit=60, backend=None):
        assert as_user in ("root", "user", "both")
        self.function, self.slow, self.alone, self.by_root, self.all_roots = function, slow, alone, by_root, all_roots
        self.limit, self.backend = (limit + 180) * FACTOR, backend
        self.name = function.__name__ + (f"_on_{backend}" if backend else "")
        self.file = pathlib.Path(function.__code__.co_filename).name
        self.users = ("root", "user") if as_user == "both" else (as_user,)


def test(function=None, **options):
    """Declare a test. Options: as_user root|user|both, slow, alone (nothing beside it), by_root (prepared by root,
    whoever starts brig then), all_roots (the machine's certificates, not a few of them), limit (seconds), backends (one test for each, unless BRIG_BACKEND has come from outside)."""
    if function is None:
        return lambda f: test(f, **options)
    backends = options.pop("backends", None)
    for backend in backends if backends and "BRIG_BACKEND" not in os.environ else (None,):
        _tests.append(Test(function, backend=backend, **options))
    return function


def around(make):
    """Declare what must be there while a file's tests run: make(folder) gives a context manager, entered once before them."""
    _around.setdefault(make, set()).add(sys._getframe(1).f_code.co_filename)
    return make


class Skip(Exception):
    pass


def skip(reason):
    """Give up on this test here; in CI that is a failure."""
    raise Skip(reason)


def identity():
    """'root' or 'user': who starts brig in this test."""
    return _now.user


def seconds(number):
    """A --timeout that is not to be met, for this machine's speed."""
    return f"{number * FACTOR:g}s"


def uid():
    """The uid that starts brig in this test."""
    return _now.uid


def workspace():
    """The folder brig is started in: empty, owned by the one who starts it."""
    return _now.work


def scratch():
    """A second folder of the same owner, not shown to brig unless the test says so."""
    return _now.scratch


def home():
    return _now.home


def state():
    """Where brig keeps what must survive a run."""
    return _now.state


def runtime():
    """Where brig keeps what may go with the session."""
    return _now.runtime


@contextlib.contextmanager
def installed_hidden():
    """While it lasts, programs that a `make install` on this machine has put beside brig are not found."""
    place = pathlib.Path("/usr/local/libexec/brig")
    if not place.exists():
        yield
        return
    empty = _now.scratch / "empty"
    empty.mkdir()
    _mount(empty, place, 0x1000)  # MS_BIND
    try:
        yield
    finally:
        _check(_libc.umount2(os.fsencode(place), 2))  # MNT_DETACH


# ---- calling brig ----


class Done:
    """How a call ended. status is what a shell would call $?: 128+N for signal N."""

    def __init__(self, argv, status, stdout, stderr):
        self.argv, self.status, self.stdout, self.stderr = argv, status, stdout, stderr
        self._json = None

    @property
    def text(self):
        return self.stdout.decode()

    @property
    def errors(self):
        return self.stderr.decode()

    @property
    def json(self):
        if self._json is None:
            self._json = json.loads(self.stdout)
        return self._json


def brig_path():
    """The program under test: a copy every user can reach, so that a rebuild disturbs nobody."""
    return _now.base / "bin/brig"


def brig_argv(*args):
    """The whole command line that starts brig as this test's identity."""
    argv = [*_now.wrap, str(brig_path()), *map(os.fspath, args)]
    if IS_ROOT and _now.user == "user":
        argv = ["setpriv", f"--reuid={_now.uid}", f"--regid={_now.uid}", "--clear-groups", "--inh-caps=-all",
                "--", *argv]
    return argv


def brig_environment(env=None):
    """A small fixed environment and env's changes to it; None removes a variable."""
    names = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "TERM": "dumb",
             "HOME": str(_now.home), "XDG_STATE_HOME": str(_now.state), "XDG_RUNTIME_DIR": str(_now.runtime),
             "XDG_CACHE_HOME": str(_now.base / f"cache-{_now.uid}")}  # all tests share the copy of what packages ship
    names.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS") or k == "BRIG_BACKEND"})
    names.update(env or {})
    return {k: v for k, v in names.items() if v is not None}


def _allow_settings(args, env, cwd):
    """A file of settings in the workspace counts once it was shown: what its user has said before this call."""
    dialect = [word for pair in zip(args, args[1:]) if pair[0] == "--dialect" for word in pair]
    for flag, file in zip(args, args[1:]):
        file = pathlib.Path(cwd or _now.work, os.fsdecode(file))
        if flag not in ("--config", "--role", "agent") or not file.is_file() or _now.work not in file.resolve().parents:
            continue
        if _now.allowed.get(file) != file.read_bytes():
            subprocess.run(brig_argv("allow", *dialect, file.resolve()), env=brig_environment(env), cwd=_now.work, check=False,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _now.allowed[file] = file.read_bytes()


def start_brig(*args, env=None, cwd=None, allow=True, **popen):
    """Start brig and return the Popen, for tests that signal it or talk to it. Unless told otherwise, files of
    --config and roles of agents in the workspace are allowed first."""
    popen.setdefault("stdin", subprocess.DEVNULL)
    popen.setdefault("stdout", subprocess.PIPE)
    popen.setdefault("stderr", subprocess.PIPE)
    with _files_as(os.geteuid()):  # else the kernel takes it for a change of identity, and libc drops TMPDIR
        if allow:
            _allow_settings(args, env, cwd)
        return subprocess.Popen(brig_argv(*args), env=brig_environment(env), cwd=cwd or _now.work, **popen)


def brig(*args, input=b"", env=None, cwd=None, timeout=30, allow=True):
    """Run brig to its end; past timeout it is killed and the test fails."""
    p = start_brig(*args, env=env, cwd=cwd, allow=allow, stdin=subprocess.PIPE)
    try:
        out, err = p.communicate(input, timeout * PATIENCE)
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
        raise AssertionError(f"brig took over {timeout * PATIENCE:g} s: {shlex.join(p.args)}\n{_shown(out)}{_shown(err)}") from None
    status = p.returncode if p.returncode >= 0 else 128 - p.returncode
    done = Done(p.args, status, out, err)
    _now.calls.append(done)
    return done


def compile_c(source, *flags):
    """Compile a C file to a static program that everyone can run; returns its path. Made once."""
    command, name = _compiler(source, flags)
    ready, kept = _now.base / "bin" / name, _kept_programs() / name
    with _files_as(os.geteuid()), _locked(_now.base / "lock"):
        if not ready.exists() and kept.exists():
            shutil.copy(kept, ready)
        if not ready.exists():
            _compile(command, ready)
            with contextlib.suppress(OSError):
                kept.parent.mkdir(exist_ok=True)
                shutil.copy(ready, f"{kept}.{os.getpid()}")
                os.rename(f"{kept}.{os.getpid()}", kept)
    return ready


def made_once(name, make):
    """A folder that all tests of this run read, filled by the first that asks for it: make(folder)."""
    ready = _now.base / "made" / name
    with _files_as(os.geteuid()), _locked(_now.base / "lock"):
        if not ready.exists():
            part = ready.with_name(f"{name}.{os.getpid()}")
            part.mkdir(parents=True)
            make(part)
            subprocess.run(["chmod", "-R", "a+rX", part], check=True)
            part.rename(ready)
    return ready


def compile_ahead(source, *flags):
    """Leave beside brig what compile_c will ask for: a guest that is emulated takes long to compile."""
    command, name = _compiler(source, flags)
    _kept_programs().mkdir(exist_ok=True)
    if not (_kept_programs() / name).exists():
        _compile(command, _kept_programs() / name)


def _compiler(source, flags):
    """The command line, and a name for what it makes that changes with the source and the command."""
    source = pathlib.Path(source)
    machine = os.environ.get("COMPILE_FOR", platform.machine())
    compiler = "gcc" if machine == platform.machine() else f"{machine}-linux-gnu-gcc"
    options = ["-static", "-O1", "-D_GNU_SOURCE", *flags]
    key = hashlib.sha256(repr((source.read_bytes(), options, machine)).encode()).hexdigest()[:16]
    return [compiler, *options, str(source)], f"{source.stem}-{key}"


def _compile(command, to):
    made = subprocess.run([*command, "-o", f"{to}.{os.getpid()}"], capture_output=True, text=True, check=False)
    assert made.returncode == 0, f"cannot compile {command[-1]}:\n{made.stderr}"
    os.rename(f"{to}.{os.getpid()}", to)


def _kept_programs():
    return _brig_given().parent / "test-programs"


# ---- looking at the machine ----


def tree(path):
    """Everything below a folder as {relative path: (type and mode, uid, size or link target)}."""
    path, found = pathlib.Path(path), {}
    for folder, folders, files in os.walk(path):
        for name in folders + files:
            full = os.path.join(folder, name)
            with contextlib.suppress(FileNotFoundError):
                st = os.lstat(full)
                what = os.readlink(full) if stat.S_ISLNK(st.st_mode) else None if stat.S_ISDIR(st.st_mode) else st.st_size
                found[os.path.relpath(full, path)] = (stat.filemode(st.st_mode), st.st_uid, what)
    return found


def _stat_fields(pid):
    text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    name, rest = text[text.index("(") + 1:].rsplit(")", 1)
    return name, rest.split()


def _has_children():
    """Orphans come to us (_adopt_orphans), so where there is no child there is nothing below it."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def descendants(top=None):
    """The living processes below one (this one, if not said) as {pid: name}, zombies left out."""
    if top is None and not _has_children():  # the usual case, and looking at every process of the machine takes longer than most tests
        return {}
    parents, names = collections.defaultdict(list), {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError):
                name, fields = _stat_fields(entry)
                parents[int(fields[1])].append(int(entry))
                if fields[0] not in "ZX":
                    names[int(entry)] = name
    below, todo = {}, [top or os.getpid()]
    while todo:
        for pid in parents[todo.pop()]:
            todo.append(pid)
            if pid in names:
                below[pid] = names[pid]
    return below


def namespaces(pids=None):
    """The distinct namespaces that processes (all, if not said) live in, as {(kind, inode)}."""
    found = set()
    for pid in pids if pids is not None else [e for e in os.listdir("/proc") if e.isdigit()]:
        with contextlib.suppress(OSError):
            for kind in os.listdir(f"/proc/{pid}/ns"):
                found.add((kind, os.stat(f"/proc/{pid}/ns/{kind}").st_ino))
    return found


def cgroups():
    """The cgroup folders that carry brig's name, those of its bench aside."""
    return {os.path.join(at, d) for at, dirs, _ in os.walk("/sys/fs/cgroup") for d in dirs
            if d.startswith("brig") and not d.startswith("brig-bench")}


def shown_on(terminal):
    """All that a terminal gets until nobody has its other side any more; it is closed then."""
    got = b""
    with contextlib.suppress(OSError):
        while piece := os.read(terminal, 65536):
            got += piece
    os.close(terminal)
    return got


def wait_until(condition, seconds=5.0, every=0.01):
    """Poll until the condition holds; its last value."""
    end = time.monotonic() + seconds * PATIENCE
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(every)
    return value


def _populated(cgroup):
    for folder, _, _ in os.walk(cgroup):
        with contextlib.suppress(OSError):
            if pathlib.Path(folder, "cgroup.procs").read_text().strip():
                return True
    return False


# ---- one test, in its own process ----


class Place:
    """The folders of one test, its identity, and what was there before it."""

    def __init__(self, base, number, user, alone, all_roots):
        self.base, self.user, self.alone, self.calls, self.allowed = base, user, alone, [], {}
        self.uid = os.geteuid() if user == "root" or not IS_ROOT else ORDINARY
        self.wrap = (base / "bin/wrap").read_text().split("\n") if (base / "bin/wrap").exists() else []
        top = base / f"{number:04}"
        top.mkdir(mode=0o755)
        self.work, self.scratch, self.home, self.state, self.runtime = (
            self._folder(top / name) for name in ("work", "scratch", "home", "state", "runtime"))
        # Without idmapped mounts root's runs need a workspace that is not root's.
        if self.wrap and self.uid == 0:
            os.chown(self.work, ORDINARY, ORDINARY)
            os.chown(self.scratch, ORDINARY, ORDINARY)
        self.tmp = self._private_view(top / "tmp", None if all_roots else base / "roots") if IS_ROOT else pathlib.Path("/tmp")
        self.before = self._look()

    def _folder(self, path):
        path.mkdir(mode=0o700 if path.name in ("home", "state", "runtime") else 0o755)
        if IS_ROOT:
            os.chown(path, self.uid, self.uid)
        return path

    @staticmethod
    def _private_view(tmp, roots):
        """A mount namespace of its own, still with shared propagation, so that a leaking mount is seen."""
        tmp.mkdir()
        tmp.chmod(0o1777)
        again = tmp / TOP.relative_to("/tmp") if TOP.is_relative_to("/tmp") else None  # the sources stay visible
        CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE, MS_SHARED = 0x20000, 0x1000, 0x4000, 1 << 18, 1 << 20
        _check(_libc.unshare(CLONE_NEWNS))
        _mount(None, "/", MS_REC | MS_PRIVATE)
        if again:
            again.mkdir(parents=True)
            _mount(TOP, again, MS_BIND)
        _mount(tmp, "/tmp", MS_BIND | MS_REC)
        if roots and roots.exists():
            _mount(roots, ROOTS, MS_BIND)
        if OWN_STATE.is_dir():  # where root's runs of every day are noted, some of them in /tmp
            _mount(None, OWN_STATE, 0, "tmpfs")
        _mount(None, "/", MS_REC | MS_SHARED)
        return pathlib.Path("/tmp")

    def _files(self):
        # A brig that was started by another program has its cache here, with the copy of what packages ship.
        found = {str(self.home / p) for p in tree(self.home) if not f"{p}/".startswith(".cache/brig/packages/") and p not in (".cache", ".cache/brig")}
        for folder in (self.state, self.runtime):
            found |= {str(folder / p) for p in tree(folder) if p not in KEPT and (not p.startswith(KEPT_BELOW) or p.startswith(LIVE))}
        for entry in os.scandir(self.tmp):
            if IS_ROOT or entry.name.startswith("brig"):
                found.add(entry.path)
        for folder in ("/dev/shm", "/run"):
            # /run/brig is root's folder of locks, and stays.
            found |= {e.path for e in os.scandir(folder) if e.name.startswith("brig") and e.path != "/run/brig"}
        return found

    def _look(self):
        """Whose a cgroup is only a test without company knows: one beside it may make or leave some."""
        mounts = {line.split(" ", 2)[2] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()}
        return {"process": {f"{pid} ({name})" for pid, name in descendants().items()}, "mount": mounts,
                "cgroup": cgroups() if self.alone else set(), "file": self._files()}

    def residue(self):
        """What is here now and was not before, after the kernel had its time; a list of lines."""
        end, stayed = time.monotonic() + GRACE, None
        while True:
            _reap()
            now = self._look()
            left = [(kind, thing) for kind, things in now.items() for thing in sorted(things - self.before[kind])
                    if kind != "cgroup" or not _populated(thing)]
            if not left or time.monotonic() > end:  # cgroups of somebody else's runs come and go
                return [f"{kind} left behind: {thing}" for kind, thing in left if kind != "cgroup" or stayed is None or thing in stayed]
            if stayed is None and time.monotonic() > end - GRACE / 2:
                stayed = now["cgroup"]
            time.sleep(0.01)


def _check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _mount(source, target, flags, kind=None):
    _check(_libc.mount(os.fsencode(source) if source else None, os.fsencode(target), os.fsencode(kind) if kind else None, flags, None))


def _adopt_orphans():
    """What a dead brig leaves becomes our child, and is found."""
    PR_SET_CHILD_SUBREAPER = 36
    _check(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def _reap():
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _set_file_ids(gid, uid):
    """Root keeps its capabilities meanwhile: the tree may be one that only root can read."""
    PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP = 28, 4
    if IS_ROOT:
        _check(_libc.prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0))
    old = _libc.setfsgid(gid), _libc.setfsuid(uid)
    if IS_ROOT:
        _check(_libc.prctl(PR_SET_SECUREBITS, 0, 0, 0, 0))
    return old


@contextlib.contextmanager
def _files_as(user):
    """Make files as that user, so that fixtures belong to the one who starts brig; ends at exec."""
    old = _set_file_ids(user, user)
    try:
        yield
    finally:
        _set_file_ids(*old)


def files_as_root():
    """For what a test starts or makes that is not its identity's own; only root's harness can."""
    return _files_as(os.geteuid())


@contextlib.contextmanager
def _locked(path):
    with open(path, "w", encoding="utf-8") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def _shown(data, most=2000):
    text = data.decode(errors="backslashreplace")
    return text if len(text) <= most else f"{text[:most]}... ({len(data)} bytes)\n"


def _print_calls(calls):
    for c in calls[-3:]:
        print(f"$ {shlex.join(c.argv)}\nstatus {c.status}")
        for name, data in (("stdout", c.stdout), ("stderr", c.stderr)):
            if data:
                print(f"--- {name}\n{_shown(data).rstrip()}")


def _run_here(t, place):
    """Run the test in this process; returns its exit status. What is printed is shown if it fails."""
    status = 0
    try:
        with _files_as(place.uid):
            t.function()
    except Skip as e:
        print(e)
        status = SKIPPED
    except BaseException:  # noqa: BLE001 - also SystemExit: whatever it is, the test did not pass
        traceback.print_exc(file=sys.stdout)
        status = 1
    if left := place.residue():
        print(*left, sep="\n")
        status = 1
    for pid in descendants():
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    if status == 1:
        _print_calls(place.calls)
    return status


def _child(t, base, number, user, log):
    global _now
    try:
        os.setsid()
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        _adopt_orphans()
        if t.backend:
            os.environ["BRIG_BACKEND"] = t.backend
        _now = Place(base, number, user, t.alone, t.all_roots)
        os.chdir(_now.work)
        status = _run_here(t, _now)
    except BaseException:  # noqa: BLE001
        traceback.print_exc(file=sys.stdout)
        status = 1
    sys.stdout.flush()
    os._exit(status)


# ---- all of them ----


class Running:
    """A started test: its process, its log, its deadline."""

    def __init__(self, base, number, case, turn=None):
        self.number, self.case, (self.test, self.user), self.turn = number, case, case, turn
        self.log = tempfile.TemporaryFile()
        self.began = time.monotonic()
        self.deadline = self.began + self.test.limit
        self.late = False
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _child(self.test, base, number, self.user, self.log.fileno())
        self.pidfd = os.pidfd_open(self.pid)

    def kill(self):
        """Everything it started, then itself: a list first, since the dead have no children."""
        self.late = True
        for pid in [*descendants(self.pid), self.pid]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def finish(self):
        """Returns (verdict, seconds, output)."""
        _, status, used = os.wait4(self.pid, 0)
        status = os.waitstatus_to_exitcode(status)
        self.busy = used.ru_utime + used.ru_stime
        os.close(self.pidfd)
        turns.leave(self.turn)
        self.log.seek(0)
        output = self.log.read().decode(errors="replace")
        self.log.close()
        if self.late:
            output += f"killed: over its limit of {self.test.limit:.0f} s\n"
        elif status not in (0, 1, SKIPPED):
            output += f"the test process ended with status {status}\n"
        verdict = "fail" if self.late else {0: "ok", SKIPPED: "skip"}.get(status, "fail")
        return verdict, time.monotonic() - self.began, output


def _why(output):
    """The line that says it, for the summary at the end, which may be all that is kept."""
    lines = [line for line in output.splitlines() if re.match(r"[\w.]*(Error|Exception|Exit|Expired)\b|killed: |the test process", line)]
    return f": {lines[0][:600]}" if lines else ""


class Reporter:
    """Prints results in the order of declaration, whatever the order of their ends."""

    def __init__(self, verbose, times):
        self.verbose, self.next, self.waiting = verbose, 0, {}
        self.count, self.failed = collections.Counter(), []
        self.times = open(times, "a", encoding="utf-8") if times else None

    def took(self, *row):
        """File, name, identity, seconds, seconds of processors; at once, for whoever ends this before its end."""
        if self.times:
            self.times.write(json.dumps(row) + "\n")
            self.times.flush()

    def add(self, number, case, verdict, seconds, output):
        self.count[verdict] += 1
        if verdict == "fail":
            self.failed.append(number)
        self.waiting[number] = (case, verdict, seconds, output)
        while self.next in self.waiting:
            self._print(*self.waiting.pop(self.next))
            self.next += 1

    def _print(self, case, verdict, seconds, output):
        t, user = case
        if self.verbose or verdict != "ok":
            why = "" if verdict == "ok" else _why(output)
            print(f"{verdict:4} {t.file}: {t.name} ({user}, {seconds * 1000:.0f} ms){why}", flush=True)
        if verdict != "ok":
            print("".join(f"     {line}\n" for line in output.splitlines()), end="", flush=True)

    def again(self, case, verdict, output):
        """What failed in company had a second try alone; a pass then is counted, and is still said."""
        if verdict == "ok":
            self.count["fail"] -= 1
            self.count["ok"] += 1
            print(f"unsteady {case[0].file}: {case[0].name} ({case[1]}): passed the second time", flush=True)
        else:
            print(f"twice {case[0].file}: {case[0].name} ({case[1]}){_why(output)}", flush=True)
            print("".join(f"     {line}\n" for line in output.splitlines()), end="", flush=True)

    def summary(self):
        print(f"{self.count['ok']} passed, {self.count['fail']} failed, {self.count['skip']} skipped", flush=True)
        return int(self.count["fail"] > 0 or MUST_RUN and self.count["skip"] > 0)


def _wait(running):
    """Block until one of the running tests has ended; returns it. Kills those past their time."""
    poll = select.poll()
    for r in running:
        poll.register(r.pidfd, select.POLLIN)
    while True:
        soonest = min((r.deadline for r in running if not r.late), default=time.monotonic() + 1)
        ready = poll.poll(max(0, (soonest - time.monotonic()) * 1000) + 1)
        for r in running:
            if any(fd == r.pidfd for fd, _ in ready):
                return r
            if not r.late and time.monotonic() > r.deadline:
                r.kill()


def _run_all(cases, jobs, base, report):
    """Those that may have company first, and of them those that may take long; then the others one by one."""
    order = sorted(range(len(cases)), key=lambda i: -cases[i][0].limit)
    running, mine = [], None
    try:
        for number in (i for i in order if not cases[i][0].alone):
            while len(running) >= jobs or (turn := turns.take(wait=not running)) is None:
                _collect(running, base, report)
            running.append(Running(base, number, cases[number], turn))
        while running:
            _collect(running, base, report)
        alone = [i for i in order if cases[i][0].alone]
        mine = turns.take(alone=True) if alone else None
        for number in alone:
            running.append(Running(base, number, cases[number]))
            _collect(running, base, report)
    finally:
        for r in running:
            r.kill()
        turns.leave(mine)


def _collect(running, base, report):
    r = _wait(running)
    running.remove(r)
    verdict, seconds, output = r.finish()
    report.took(r.test.file, r.test.name, r.user, seconds, r.busy)
    report.add(r.number, r.case, verdict, seconds, output)
    shutil.rmtree(base / f"{r.number:04}", ignore_errors=True)


def _second_try(cases, failed, base, report):
    """A busy machine breaks the timing of tests; what fails alone as well is broken. After five of those nothing more is tried."""
    twice = 0
    if not failed:
        return
    with turns.turn(alone=True):
        for number in sorted(failed):
            if twice == 5:
                return
            r = Running(base, len(cases) + number, cases[number])
            _wait([r])
            verdict, _, output = r.finish()
            twice += verdict != "ok"
            report.again(cases[number], verdict, output)
            shutil.rmtree(base / f"{r.number:04}", ignore_errors=True)


def _brig_given():
    return pathlib.Path(os.environ.get("BRIG") or TOP / "build/brig").absolute()


def _prepare(base):
    """Copies of what is under test, where every user can reach them."""
    base.chmod(0o755)
    (base / "bin").mkdir(mode=0o755)
    if not _brig_given().exists():
        sys.exit(f"harness: no '{_brig_given()}'; make build makes it, BRIG names another")
    shutil.copy(_brig_given(), base / "bin/brig")
    (base / "bin/brig").chmod(0o755)
    for name in ("brig-more", "brig-send", "brig-audit", "brig-egress", "brig-door", "brig-gate", "brig-tls", "brig-bundle", "brig-kube", "brig-pod"):  # brig looks for them beside itself
        helper = _brig_given().with_name(name)
        if helper.exists():
            shutil.copy(helper, base / "bin" / name)
            (base / "bin" / name).chmod(0o755)
    if ROOTS.exists():  # every client and every door reads all of them, which takes longer than what most tests ask of it
        found = re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", ROOTS.read_text(), re.S)
        (base / "roots").write_text("".join(found[:3]))
        (base / "roots").chmod(0o644)
    for user in {os.geteuid(), ORDINARY} if IS_ROOT else {os.geteuid()}:
        (base / f"cache-{user}").mkdir(mode=0o700)
        os.chown(base / f"cache-{user}", user, -1)
    wrap = shlex.split(os.environ.get("BRIG_WRAP", ""))
    if wrap:
        program = shutil.which(wrap[0]) or sys.exit(f"harness: no '{wrap[0]}', named by BRIG_WRAP")
        shutil.copy(program, base / "bin" / os.path.basename(program))
        wrap[0] = str(base / "bin" / os.path.basename(program))
        (base / "bin/wrap").write_text("\n".join(wrap))


def _differs():
    """Names of tests that a backend set from outside is excused from; tests/lib/BACKEND-differs has the reasons."""
    path = TOP / f"tests/lib/{os.environ.get('BRIG_BACKEND')}-differs"
    lines = path.read_text().splitlines() if path.exists() else []
    return {line.split()[0] for line in lines if line and not line.startswith("#")}


def _one_of(choices, name):
    """Half of the tests as root and half as a user; by the name, so that a new test changes no other's lot."""
    return choices[zlib.crc32(name.encode()) % len(choices)]


def _its_backend(t):
    """Of a test that is there for several backends, is this the one that runs where each runs once?"""
    twins = [u.backend for u in _tests if u.function is t.function]
    return t.backend == _one_of(twins, t.function.__name__)


def _in_lot(lot, name):
    """Is this one in the K-th of N lots (`K/N`)? Other bits than those that choose who runs it, so that a lot has both."""
    k, n = map(int, lot.split("/"))
    return (zlib.crc32(name.encode()) >> 8) % n == k % n


def _asks_who(code):
    """Does a test itself ask for its identity? Then it does not prove the same as both."""
    return "identity" in code.co_names or any(_asks_who(inner) for inner in code.co_consts if isinstance(inner, types.CodeType))


def _runs_once(t, once, once_in):
    return once or t.file.removeprefix("test_").removesuffix(".py") in once_in and not _asks_who(t.function.__code__)


def _select(words, fast, once, once_in=(), lot="0/1"):
    """The (test, user) pairs to run. A word matches part of a name; spaces count as underscores."""
    differs = _differs()
    words = [w.replace(" ", "_") for w in words]
    users = ONLY_AS or ("root", "user") if IS_ROOT else ("user",)
    chosen = []
    for t in _tests:
        can = [u for u in t.users if u in users and (IS_ROOT or not t.by_root)]
        if once and not _its_backend(t) or not _in_lot(lot, t.name):
            continue
        if can and not (fast and t.slow) and t.name not in differs and (not words or any(w in t.name for w in words)):
            chosen += [(t, u) for u in ([_one_of(can, t.name)] if _runs_once(t, once, once_in) else can)]
    return chosen


def _remove_cgroups(names):
    """What failed tests left. Not earlier: a test beside the guilty one would take it for its own."""
    for name in sorted(names, reverse=True):
        with contextlib.suppress(OSError):
            fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
            try:  # a lock that is held belongs to a run of somebody else's, which is about to use it
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.rmdir(name)
            finally:
                os.close(fd)


def _load(path):
    global _loading
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path)
    _loading = path
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    _loading = None


def _ignore_what_libc_keeps():
    """Two signals that libc lets nobody set: where what started brig, or an engine, ignores them, the command must not."""
    ignore = struct.pack("Q", 1).ljust(64, b"\0")
    for number in (32, 33):
        ctypes.CDLL(None).syscall(134 if os.uname().machine == "aarch64" else 13, number, ignore, None, 8)


def main(argv=None):
    if _loading:
        sys.exit(f"harness: {_loading} calls main() when it is imported: all tests before it would run twice")
    # Started in the background a shell has us ignore some; tests send them and expect an answer.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    _ignore_what_libc_keeps()
    p = argparse.ArgumentParser(description="run black-box tests of brig")
    p.add_argument("-v", "--verbose", action="store_true", help="print the tests that pass, too")
    p.add_argument("-j", "--jobs", type=int, default=JOBS, help="how many at once; default %(default)s")
    p.add_argument("--fast", action="store_true", help="leave slow tests out")
    p.add_argument("--once", action="store_true", help="as root or as a user, where a test is for both, and on one of its backends")
    p.add_argument("--once-in", action="append", default=[], metavar="NAME", help="as root or as a user, in the file test_NAME.py; repeatable")
    p.add_argument("--lot", default="0/1", metavar="K/N", help="the K-th of N lots of tests; the name decides in which one a test is")
    p.add_argument("--list", action="store_true", help="print the names and run nothing")
    p.add_argument("--times", metavar="FILE", help="append what each test took: file, name, identity, seconds, seconds of processors")
    p.add_argument("--file", action="append", default=[], help="a file with tests, repeatable")
    p.add_argument("words", nargs="*", metavar="WORD", help="only tests with one of these in their name")
    args = p.parse_args(argv)
    for path in args.file:
        _load(path)
    cases = _select(args.words, args.fast, args.once, args.once_in, args.lot)
    if args.list:
        print(*(f"{t.file}: {t.name} ({u})" for t, u in cases), sep="\n")
        return 0
    # Not below /tmp, which each test gets an own one of; not on tmpfs, which older kernels cannot map.
    base = pathlib.Path(tempfile.mkdtemp(prefix="brig-tests.", dir="/var/tmp"))
    had = cgroups()
    _adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    report = Reporter(args.verbose or not args.file, args.times)
    stack = contextlib.ExitStack()
    files = {t.function.__code__.co_filename for t, _ in cases}
    try:
        _prepare(base)
        for i, make in enumerate(m for m, needed_by in _around.items() if needed_by & files):
            stack.enter_context(make(base / f"around{i}"))
        _run_all(cases, max(1, args.jobs), base, report)
        _second_try(cases, report.failed, base, report)
    finally:
        stack.close()
        _reap()
        _remove_cgroups(cgroups() - had)
        shutil.rmtree(base, ignore_errors=True)
    return report.summary()


if __name__ == "__main__":
    import harness  # the copy that the test files import, not this one

    sys.exit(harness.main())
