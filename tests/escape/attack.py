# SPDX-License-Identifier: Apache-2.0
"""Shared by tests/escape: runs the programs of attacks/ inside a sandbox and, as a control, outside.

    control = outside("mounts", "classic", within=UNSHARED)     # the attack works without protection
    assert control.worked
    attempt = inside("mounts", "classic")                       # and not in a sandbox
    attempt.must_fail()

A control that could harm the machine runs in a namespace of its own (UNSHARED, SCRATCH_PIDS), never loose.
"""

import contextlib
import hashlib
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import (IS_ROOT, PATIENCE, brig, brig_environment, compile_ahead, compile_c, descendants, identity, start_brig, uid, wait_until, workspace)  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
INSIDE = "/attack"  # where an attack program appears
FIRST_ID = 0x20000000 + 1000  # the host's id of the first sandbox that root starts
UNSHARED = ("unshare", "--user", "--map-root-user", "--mount", "--net", "--ipc", "--uts", "--")
SCRATCH_PIDS = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child", "--")


class Attempt:
    """What an attack program said, and how it (or brig around it) ended."""

    def __init__(self, status, stdout, stderr):
        self.status, self.stdout, self.stderr = status, stdout, stderr
        self.worked, self.denied, self.untried, self.facts = {}, {}, {}, {}
        kinds = {"+": self.worked, "-": self.denied, "?": self.untried, "=": self.facts}
        for line in stdout.decode(errors="replace").splitlines():
            kind, _, rest = line.partition(" ")
            if kind in kinds:
                name, _, detail = rest.partition(" ")
                kinds[kind][name] = detail

    def must_fail(self, *names):
        """Every attempt was denied, and these were among them."""
        assert not self.worked, f"worked: {self.worked}"
        assert self.status == 1, f"status {self.status}: {self.stderr.decode(errors='replace')}"
        missing = set(names) - set(self.denied)
        assert not missing, f"never tried: {missing}"
        return self

    def must_work(self, *names):
        """For controls: these worked, or at least one thing did."""
        missing = set(names) - set(self.worked)
        assert self.worked and not missing, f"the control proves nothing: {missing or 'nothing worked'}; {self.denied}"
        return self


def _flags():
    common = hashlib.sha256((HERE / "attacks/attack.h").read_bytes()).hexdigest()[:8]
    return "-Wall", "-Wextra", "-Werror", "-pthread", f"-DCOMMON_{common}"


def program(group):
    """An attack program, compiled; everybody can run it."""
    return compile_c(HERE / "attacks" / f"{group}.c", *_flags())


def compile_all_ahead():
    for source in sorted(HERE.glob("attacks/*.c")):
        compile_ahead(source, *_flags())


def mount(group):
    return ("--mount", f"{program(group)}:{INSIDE}")


def inside(group, *args, options=(), **more):
    """The attack in a sandbox."""
    done = brig("run", *options, *mount(group), "--", INSIDE, *args, **more)
    return Attempt(done.status, done.stdout, done.stderr)


def as_identity(argv, user=None):
    """argv started as this test's identity, or as that uid."""
    user = uid() if user is None else user
    if not IS_ROOT or user == 0:
        return [*map(os.fspath, argv)]
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all", "--",
            *map(os.fspath, argv)]


def outside(group, *args, within=(), user=None, cwd=None, timeout=30, **more):
    """The attack without a sandbox: on the host, or within a command that makes a namespace."""
    done = subprocess.run(as_identity([*within, program(group), *args], user), capture_output=True, check=False,
                          env=brig_environment(), cwd=cwd or workspace(), timeout=timeout * PATIENCE,
                          stdin=subprocess.DEVNULL, **more)
    return Attempt(done.returncode, done.stdout, done.stderr)


def on_host(*argv, user=None, cwd=None, timeout=30, **more):
    """Any command on the host as this test's identity."""
    more.setdefault("env", brig_environment())
    return subprocess.run(as_identity(argv, user), capture_output=True, check=False, cwd=cwd or workspace(),
                          timeout=timeout * PATIENCE, stdin=subprocess.DEVNULL, **more)


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


@contextlib.contextmanager
def canary(user=None):
    """A process of the host that must outlive every attack. It is this test's identity's, like the attacker."""
    p = subprocess.Popen(as_identity(["sleep", "300"], user), stdin=subprocess.DEVNULL)
    try:
        wait_until(lambda: pathlib.Path(f"/proc/{p.pid}/comm").read_text() == "sleep\n")
        yield p
        assert p.poll() is None, f"the canary is dead: {p.returncode}"
        state = pathlib.Path(f"/proc/{p.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        assert state in "SR", f"the canary is in state {state}"
    finally:
        p.kill()
        p.wait()


def attackers_uid():
    """The host's id of the code in a sandbox that this identity starts."""
    if uid() != 0:
        return uid()
    return os.stat(workspace()).st_uid or FIRST_ID


class Held:
    """A sandbox that waits for the host to look at it."""

    def __init__(self, process, folder):
        self.process, self.folder = process, pathlib.Path(folder)

    def pids(self):
        """Everything in the sandbox, by the host's numbers: what brig started, not brig itself."""
        return [pid for pid, name in descendants(self.process.pid).items() if name not in ("brig", "brig-checker")]

    def guests(self):
        """The same without init, and without the bubblewrap that waits outside for it."""
        return [p for p in self.pids() if inner_pid(p) not in (None, 1)]

    def release(self):
        (self.folder / "go").touch()


def inner_pid(pid):
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:") and len(line.split()) > 2:
                return int(line.split()[-1])
    return None


@contextlib.contextmanager
def held(*args, folder=None, **more):
    """Start brig with these arguments; its command makes `ready` in the folder and waits for `go`."""
    folder = pathlib.Path(folder or workspace())
    p = start_brig(*args, **more)
    try:
        if not wait_until(lambda: (folder / "ready").exists() or p.poll() is not None, 15) or p.poll() is not None:
            p.kill()
            out, err = p.communicate()
            raise AssertionError(f"it was never ready: {p.returncode} {out!r} {err!r}")
        yield Held(p, folder)
        (folder / "go").touch()
        p.result = finish(p)
    finally:
        if p.poll() is None:
            p.kill()
            p.communicate()
        for name in ("ready", "go"):
            (folder / name).unlink(missing_ok=True)


@contextlib.contextmanager
def holding(p, folder):
    """As held, for a brig that the test itself has started."""
    try:
        assert wait_until(lambda: (folder / "ready").exists(), 15), "it was never ready"
        yield Held(p, folder)
        (folder / "go").touch()
        p.wait(20 * PATIENCE)
    finally:
        if p.poll() is None:
            p.kill()
            p.wait()
        for name in ("ready", "go"):
            (folder / name).unlink(missing_ok=True)


def finish(p, timeout=20):
    """Wait for a started brig; returns what its command said."""
    try:
        out, err = p.communicate(timeout=timeout * PATIENCE)
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
        raise AssertionError(f"brig took over {timeout} s\n{out[-500:]!r}\n{err[-500:]!r}") from None
    status = p.returncode if p.returncode >= 0 else 128 - p.returncode
    return Attempt(status, out or b"", err or b"")


WAIT = "touch /workspace/ready; i=0; while [ ! -e /workspace/go ] && [ $i -lt 400 ]; do sleep 0.02; i=$((i+1)); done"


def status_of(pid):
    """/proc/PID/status as a dictionary."""
    return dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())


def alive(pids):
    """Those of them that have not ended, be they reaped or not."""
    found = []
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if status_of(pid)["State"][0] not in "ZX":
                found.append(pid)
    return found


def timed(function, *args, **more):
    """Seconds it took, for bounds like those of any limit, and what it returned."""
    began = time.monotonic()
    result = function(*args, **more)
    return (time.monotonic() - began) / PATIENCE, result


__all__ = ["Attempt", "FIRST_ID", "HERE", "INSIDE", "SCRATCH_PIDS", "UNSHARED", "WAIT", "alive", "as_identity", "attackers_uid",
           "canary", "digest", "finish", "held", "holding", "identity", "inner_pid", "inside", "mount", "on_host", "outside",
           "program", "signal", "status_of", "timed"]
