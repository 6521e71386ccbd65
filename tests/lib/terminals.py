# SPDX-License-Identifier: Apache-2.0
"""A terminal of the test's own, with brig at it."""

import contextlib
import fcntl
import os
import pty
import select
import struct
import termios
import time

from harness import PATIENCE, start_brig


class Terminal:
    """A terminal with brig in its foreground, and this test at the keyboard; `words` in place of a run's."""

    def __init__(self, *args, rows=24, cols=80, brig_options=("--tty",), words=None, **more):
        self.master, self.slave = pty.openpty()
        self.size(rows, cols)
        self.before = termios.tcgetattr(self.slave)
        self.seen = b""
        self.process = start_brig(*(words or ("run", *brig_options, "--", *args)), stdin=self.slave, stdout=self.slave, stderr=self.slave,
                                  start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), **more)

    def size(self, rows=None, cols=None):
        if rows:
            fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        return struct.unpack("HHHH", fcntl.ioctl(self.slave, termios.TIOCGWINSZ, b"\0" * 8))[:2]

    def type(self, text):
        os.write(self.master, text)

    def read(self, seconds=0.05):
        if select.select([self.master], [], [], seconds)[0]:
            with contextlib.suppress(OSError):
                self.seen += os.read(self.master, 65536)

    def until(self, word, seconds=10):
        end = time.monotonic() + seconds * PATIENCE
        while word not in self.seen:
            assert time.monotonic() < end, f"no {word} in {self.seen}"
            self.read()
        return self.seen

    def finish(self, seconds=10):
        """Read on until brig has ended; its status."""
        end = time.monotonic() + seconds * PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end, f"brig does not end: {self.seen}"
            self.read(0.01)
        while select.select([self.master], [], [], 0)[0]:
            had = len(self.seen)
            self.read(0)
            if len(self.seen) == had:
                break
        code = self.process.returncode
        return code if code >= 0 else 128 - code

    def restored(self):
        return termios.tcgetattr(self.slave) == self.before
