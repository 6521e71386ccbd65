# SPDX-License-Identifier: Apache-2.0
"""What a run could leave behind: processes, mounts, cgroups, files."""

import contextlib
import os
import pathlib
import time

SETTLE = 5.0  # seconds the kernel gets to tear down what the last run used


class Snapshot:
    def __init__(self, who, ws):
        self.who, self.ws = who, ws
        self.processes = _processes(who)
        self.mounts = set(pathlib.Path("/proc/self/mountinfo").read_text().splitlines())
        self.cgroups = {d for d, _, _ in os.walk("/sys/fs/cgroup")}
        self.files = _files(who, ws)

    def news(self, before):
        """What is new since then: ours and others', each as {kind: [names]}."""
        ours, others = {}, {}
        for kind in ("processes", "mounts", "cgroups", "files"):
            for thing in sorted(getattr(self, kind) - getattr(before, kind)):
                side = ours if kind in ("processes", "mounts") or self._ours(thing) else others
                side.setdefault(kind, []).append(str(thing))
        return ours, others

    def _ours(self, path):
        """The machine does other things too: a path counts by its name, place or owner."""
        if "brig" in path:
            return True
        with contextlib.suppress(OSError):
            return bool(self.who.prefix) and os.lstat(path).st_uid == self.who.uid
        return False


def leaked(before):
    """Compare with now, waiting up to SETTLE for a clean answer; returns ours and others'."""
    end = time.monotonic() + SETTLE
    while True:
        ours, others = Snapshot(before.who, before.ws).news(before)
        if not ours or time.monotonic() > end:
            return ours, others
        time.sleep(0.1)


def _processes(who):
    """brig and bwrap by name; where the bench switched users, all that user's."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError):
            lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
            status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            mine = who.prefix and int(status["Uid"].split()[0]) == who.uid
            if mine or status["Name"].startswith(("brig", "bwrap")):
                found.add((int(pid), status["Name"]))
    return found


def _files(who, ws):
    """Entries of shared temporary folders, and all files of the user but the record."""
    found = set()
    for top in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/run/lock"):
        with contextlib.suppress(OSError):
            found.update(os.path.join(top, name) for name in os.listdir(top))
    for top in (
        *(who.base / sub for sub in ("home", "tmp", "state", "cache", "config", "run")),
        ws,
    ):
        for folder, folders, names in os.walk(top):
            if os.path.basename(folder) == "brig" and "audit" in folders:
                folders.remove("audit")
            found.update(os.path.join(folder, name) for name in (*folders, *names))
    return found


def record_bytes(who):
    """Size of the audit record, which is meant to grow."""
    total = 0
    for path in (who.base / "state").rglob("audit/**/*"):
        with contextlib.suppress(OSError):
            total += path.lstat().st_size
    return total
