# SPDX-License-Identifier: Apache-2.0
"""The examples that brig carries, used as their READMEs say: a fresh copy, the block `sh` executed in it, its output compared with the block `text`."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess

from harness import PATIENCE, TOP, brig, brig_argv, brig_environment, brig_path, files_as_root, home, identity, scratch

FOLDER = TOP / "examples/projects"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
# Those that need an engine are run by tests/docker.
IN_CONTAINERS = {"agents-postgres", "docker-backend", "docker-data", "docker-sandbox", "ironclaw-policy", "rlm-config"}


def readme(name):
    """The commands of an example, and what they print."""
    blocks = dict(BLOCK.findall((FOLDER / name / "README.md").read_text()))
    return blocks["sh"], blocks["text"]


def copied(name):
    """A copy below scratch, as a user makes it."""
    done = brig("examples", "copy", name, name, cwd=scratch())
    assert done.status == 0 and f"copied: {name}" in done.text, done.errors
    return scratch() / name


def shell(line, cwd, env=None, seconds=60):
    """A line of sh as the one who starts brig, with brig in the PATH; status and output."""
    path = f"{brig_path().parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    become = [w for w in brig_argv() if w != str(brig_path())]
    with files_as_root():
        done = subprocess.run([*become, "sh", "-c", line], cwd=cwd, env=brig_environment({"PATH": path, "XDG_CACHE_HOME": str(scratch() / "cache"), **(env or {})}), capture_output=True, text=True,
                              timeout=seconds * PATIENCE, check=False, stdin=subprocess.DEVNULL)
    return done


def follow(name, env=None, folder=None):
    """Does what the README says; fails unless it prints what the README says."""
    line, said = readme(name)
    folder = folder or copied(name)
    done = shell(line, folder, env)
    assert done.returncode == 0 and done.stdout == said, f"{name}: exit {done.returncode}\n{done.stdout}\n--- instead of\n{said}\n{done.stderr}"
    return done


@contextlib.contextmanager
def at_home(path, text, mode=0o600):
    """A file of the user's own for the time of a test; its top folder is removed with it."""
    top = home() / pathlib.Path(path).parts[0]
    assert not top.exists()
    (home() / path).parent.mkdir(parents=True)
    for p in (top, *top.rglob("*")):
        p.chmod(0o700)
    (home() / path).write_text(text)
    (home() / path).chmod(mode)
    try:
        yield
    finally:
        shutil.rmtree(top)


@contextlib.contextmanager
def daemon_ends():
    """A daemon that an example has started is stopped, with its sandboxes."""
    try:
        yield
    finally:
        done = brig("daemon", "stop", "--all")
        assert done.status == 0, (identity(), done.errors, os.getpid())
