# SPDX-License-Identifier: Apache-2.0
"""Suites side by side, for tests/run-suite: each is a process of its own, and what it printed is shown when it has ended."""

import dataclasses
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback


@dataclasses.dataclass
class Ended:
    name: str
    counts: tuple  # passed, failed, skipped
    failed: list
    times: list
    seconds: float
    busy: float  # seconds of processors: its own, and those of all that it started and that has ended


class _Lane:
    def __init__(self, name, work):
        self.name, self.began = name, time.monotonic()
        self.said, self.told = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._child(work)

    def _child(self, work):
        status = 1
        try:
            os.dup2(self.said.fileno(), 1)
            os.dup2(self.said.fileno(), 2)
            told = json.dumps(work(self.name)).encode()
            os.pwrite(self.told.fileno(), told, 0)
            status = 0
        except BaseException:  # noqa: BLE001 - whatever it is, the suite has not passed
            traceback.print_exc(file=sys.stdout)
        sys.stdout.flush()
        os._exit(status)

    def end(self, status, used):
        """Shows what it printed."""
        self.said.seek(0)
        shutil.copyfileobj(self.said, sys.stdout.buffer)
        self.told.seek(0)
        counts, failed, times = json.loads(self.told.read()) if status == 0 else ((0, 1, 0), [f"{self.name} ended with status {status}"], [])
        sys.stdout.buffer.flush()
        self.said.close()
        self.told.close()
        return Ended(self.name, counts, failed, times, time.monotonic() - self.began, used.ru_utime + used.ru_stime)


def run(names, work, width):
    """work(name) gives (counts, failed, times) in a process of its own; yields an Ended for each, as they end."""
    left, running = list(names), {}
    with tempfile.TemporaryDirectory(prefix="brig-turns.") as folder:
        os.environ["TURNS"] = folder
        try:
            while left or running:
                while left and len(running) < width:
                    lane = _Lane(left.pop(0), work)
                    running[lane.pid] = lane
                pid, status, used = os.wait4(-1, 0)
                if pid in running:
                    yield running.pop(pid).end(os.waitstatus_to_exitcode(status), used)
        finally:
            del os.environ["TURNS"]
            for pid in running:
                os.kill(pid, signal.SIGTERM)
