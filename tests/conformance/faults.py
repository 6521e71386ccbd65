# SPDX-License-Identifier: Apache-2.0
"""What tests that kill things share."""

import contextlib
import os
import pathlib
import random
import signal

from harness import descendants

# What may be said of a run that was disturbed. It may also have been too early or too late.
TYPED = {"failed", "refused", "cancelled", "exited", "signalled"}


def seeded():
    """Random, and again the same with FAULT_SEED."""
    seed = int(os.environ.get("FAULT_SEED", "0")) or random.randrange(1 << 30)
    print(f"FAULT_SEED={seed}")
    random.seed(seed)
    return random.Random(seed)


def marked(mark):
    """Living processes that carry the mark among their variables, on either side."""
    found = []
    for pid in descendants():
        with contextlib.suppress(OSError):
            if mark.encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes():
                found.append(pid)
    return found


def kill(pids, number=signal.SIGKILL):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
