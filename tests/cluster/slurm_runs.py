# SPDX-License-Identifier: Apache-2.0
"""brig on a Slurm of our own: what every test of it needs."""

import contextlib
import pathlib

import slurm
from harness import brig, brig_path, files_as_root, scratch, skip, uid


@contextlib.contextmanager
def cluster(**more):
    if not slurm.available():
        skip("no Slurm: tools/deps cluster")
    with slurm.for_test(scratch(), uid(), files_as_root, **more) as s:
        yield s


def options(*more, program=None):
    return ["--backend", "slurm", "--set", f"slurm.brig={program or brig_path()}", *more]


def run(s, *more, verb="run", argv=("true",), **rest):
    return brig(verb, *options(*more), "--json", "--", *argv, env=s.env, **rest).json


def read(path):
    with contextlib.suppress(OSError):
        return pathlib.Path(path).read_bytes().decode(errors="replace")
    return ""
