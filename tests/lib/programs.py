# SPDX-License-Identifier: Apache-2.0
"""The programs that meson knows as tests, for tests/run-suite: each with a /tmp of its own where root runs them, and with what it took."""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import random
import re
import select
import signal
import subprocess
import tempfile
import time

import turns

TOP = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 4  # times the limit that meson knows: others may slow the machine down
CMOCKA = re.compile(r"\[ +(OK|FAILED|SKIPPED) +\] (\w+)$", re.M)
# Root's runs of every day are noted in /var/lib/brig, some of them in /tmp, and what lies where a run could write is refused.
PRIVATE = """mount --bind "$1" /tmp || exit 99
test ! -d /var/lib/brig || mount -t tmpfs none /var/lib/brig || exit 99
shift
exec "$@"
"""


@dataclasses.dataclass
class Ended:
    """How a program ended: result is ok, skip, or what went wrong."""

    name: str
    result: str
    said: str
    seconds: float
    busy: float  # seconds of processors

    def counts(self):
        """(passed, failed, skipped): the tests that cmocka names, else the program itself."""
        found = list({name: verdict for verdict, name in CMOCKA.findall(self.said)}.values())
        passed, failed, skipped = (found.count(verdict) for verdict in ("OK", "FAILED", "SKIPPED"))
        if self.result == "ok":
            return passed or 1, failed, skipped
        if self.result == "skip":
            return passed, failed, skipped or 1
        return passed, failed or 1, skipped  # it crashed, hung, leaked, or left something behind


def listed(build, suite):
    """What meson has written down about the programs of a suite."""
    path = pathlib.Path(build, "meson-info/intro-tests.json")
    tests = json.loads(path.read_text()) if path.exists() else []
    return [t for t in tests if any(s.rpartition(":")[2] == suite for s in t["suite"])]


# Only root can, and not where the sources are below /tmp.
HAS_OWN = os.geteuid() == 0 and not TOP.is_relative_to("/tmp")


def _environment(t, tmp):
    """Without a /tmp of its own a program is told of a folder, which most of them heed. New memory is not zero, as meson does it."""
    env = {"MALLOC_PERTURB_": str(random.randint(1, 255)), "ASAN_OPTIONS": "halt_on_error=1:abort_on_error=1:print_summary=1", **os.environ, **t["env"]}
    return env if HAS_OWN else {**env, "TMPDIR": tmp}


def _wait(p, seconds):
    """Its exit status and what it used; past its time it is killed with all that it started in its session."""
    fd, late = os.pidfd_open(p.pid), False
    if not select.select([fd], [], [], seconds)[0]:
        os.killpg(p.pid, signal.SIGKILL)
        late = True
    os.close(fd)
    _, status, used = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)  # Popen has not seen it
    return late, p.returncode, used.ru_utime + used.ru_stime


def _result(late, status, left):
    if late:
        return "over its time"
    if status == 0:
        return f"left behind: {' '.join(left)}" if left else "ok"
    return "skip" if status == 77 else f"killed by signal {-status}" if status < 0 else f"status {status}"


def run_one(t, alone=False):
    """Run a program to its end."""
    # Not below /var/tmp, which tests show to brig: two ways to one folder are refused.
    place = os.path.dirname(t["cmd"][0]) if HAS_OWN else None
    with turns.turn(alone), tempfile.TemporaryDirectory(prefix="brig-tmp.", dir=place, ignore_cleanup_errors=True) as tmp, tempfile.TemporaryFile() as log:
        os.chmod(tmp, 0o1777)
        began = time.monotonic()
        p = subprocess.Popen([*(("unshare", "--mount", "sh", "-c", PRIVATE, "sh", tmp) if HAS_OWN else ()), *t["cmd"]], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=t["workdir"] or TOP,
                             env=_environment(t, tmp), start_new_session=True)
        late, status, busy = _wait(p, t["timeout"] * PATIENCE)
        took, left = time.monotonic() - began, sorted(os.listdir(tmp))
        log.seek(0)
        return Ended(f"{t['suite'][0].rpartition(':')[2]}: {t['name']}", _result(late, status, left), log.read().decode(errors="replace"), took, busy)


def run_all(tests, jobs):
    """Run them side by side, in the order of their names in the list."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(run_one, tests))
