# SPDX-License-Identifier: Apache-2.0
"""Shared by test_protect and test_git: a user's repository, what its user does next, and whether code of the guest's ran then."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import on_host  # noqa: E402
from harness import brig, brig_environment, scratch, wait_until, workspace  # noqa: E402

ME = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always")
AS_ME = "git " + " ".join(ME)
MAKE_GIT = "mkdir -p {g}/objects {g}/refs; echo ref: refs/heads/main > {g}/HEAD"
GITLINK = "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),"


def git(*args, cwd=None, check=False):
    """git as the user would call it afterwards."""
    env = brig_environment({"GIT_CONFIG_NOSYSTEM": "1", "GIT_PAGER": "cat", "HOME": "/nonexistent"})
    done = on_host("git", *ME, *args, cwd=cwd or workspace(), env=env)
    assert not check or done.returncode == 0, (args, done.stdout, done.stderr)
    return done


def repository(at=None):
    at = pathlib.Path(at or workspace())
    git("init", "-q", at, check=True)
    on_host("sh", "-c", "echo text > file", cwd=at)
    git("add", "file", cwd=at, check=True)
    git("commit", "-q", "-m", "first", cwd=at, check=True)
    return at


def with_submodule(at):
    other = at.parent / "other"
    if not other.exists():
        other.mkdir()
        os.chown(other, os.stat(at).st_uid, os.stat(at).st_gid)
        repository(other)
    repository(at)
    git("submodule", "--quiet", "add", other, "sub", cwd=at, check=True)
    git("commit", "-qm", "submodule", cwd=at, check=True)


def drop_other():
    remove(workspace().parent / "other")


def pwned():
    return scratch() / "PWNED"


def payload():
    """What must never run on the host."""
    return f"touch {pwned()}; false"


def settings(path):
    """A line of shell that has git run the payload at every look."""
    return f"printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = {payload()}\\n' > {path}"


def hook(path):
    return f"mkdir -p {os.path.dirname(path)}; printf '#!/bin/sh\\n{payload()}\\n' > {path}; chmod 755 {path}"


def use(cwd=None):
    """What a user, a prompt or an editor does first."""
    for args in (("status", "--short"), ("diff",), ("log", "--oneline"), ("add", "-A"), ("commit", "-q", "--allow-empty", "-m", "x"),
                 ("checkout", "-q", "-b", f"b{time.monotonic_ns()}")):
        git(*args, cwd=cwd)


def ran():
    """Whether it did; for the next look it has not."""
    seen = pwned().exists()
    pwned().unlink(missing_ok=True)
    return seen


def remove(path):
    if path.is_dir() and not path.is_symlink():
        subprocess.run(["chmod", "-R", "u+rwx", path], check=True)
        shutil.rmtree(path)
    else:
        path.unlink()


def clear(at=None):
    for p in (at or workspace()).iterdir():
        remove(p)


def taken():
    """What brig took away; the test removes it."""
    names = set()
    for p in [*(workspace().parent / "state/brig/quarantine").glob("*"), *workspace().glob(".brig-quarantine-*")]:
        names.add(p.name)
        remove(p)
    return names


def sh(script, *options, cwd=None):
    """One run; its report."""
    done = brig("run", "--json", *options, "--", "sh", "-c", script, cwd=cwd)
    assert done.stdout.startswith(b"{"), done.errors
    return done.json


USUAL_PATH = ("--env", "PATH=/usr/bin:/bin")  # for the command, where brig's own has nothing


def no_git(*behind):
    """A PATH of brig's whose first git is the workspace's own, which is not to be run; then what starts brig as somebody else."""
    on_host("sh", "-c", f"mkdir -p bin; printf '#!/bin/sh\\n{payload()}\\n' > bin/git; chmod 755 bin/git", cwd=workspace())
    tools = scratch() / "tools"
    tools.mkdir(exist_ok=True)
    if not (tools / "setpriv").is_symlink():
        (tools / "setpriv").symlink_to(shutil.which("setpriv"))
    return {"PATH": ":".join(map(str, (workspace() / "bin", tools, *behind)))}


def told(r, target):
    return [d for d in r["denials"] if d["kind"] == "protected-path" and d["target"] == target]


def control(*scripts, prepare=repository):
    """The same on the host, at the same path as inside would be: code of the guest's runs. Nothing below is a test without it."""
    at = scratch() / "control"
    at.mkdir()
    prepare(at)
    for script in scripts:
        on_host("sh", "-c", script, cwd=at)
    use(at)
    remove(at)
    assert ran(), "the control proves nothing"


def attack(*scripts, options=(), prepare=repository, look=use, checked=True):
    """Each script in a run of its own; then the user goes on. The last report, and what was taken away."""
    if checked:
        control(*scripts, prepare=prepare)
    prepare(workspace())
    for script in scripts:
        r = sh(script, *options)
    look(workspace())
    seen, gone = ran(), taken()
    assert not seen, f"code of the guest's ran on the host; {r['outcome']}, denials: {r['denials']}"
    return r, gone


def session(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[3])


def checker_of(pid):
    """The child of brig's that has a session of its own and is brig still."""
    found = []

    def look():
        found[:] = [c for c in children(pid) if session(c) == c]
        return found
    assert wait_until(look), "no checker: the test is void"
    return found[0]


def children(pid):
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found
