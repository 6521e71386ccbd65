#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Covers are the kernel's to keep: a run hands a folder of its own to another one and ends. Its mount namespace dies; what
lay over that folder must not.

The control does the same with one user and mount namespace, where the covers are gone; the oracle is what is on disk."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import as_identity, on_host  # noqa: E402
from harness import PATIENCE, brig_argv, brig_environment, brig_path, main, scratch, test, workspace  # noqa: E402

PYTHON = "/usr/bin/python3"
# stay TRY...: gets a descriptor for each distinct ROOT and, once `ended` is there, tries ROOT:WHAT:PATH by it.  go ROOT...: sends them.
PROGRAM = r"""
import array, os, socket, sys, time
def patient(call):
    for _ in range(3000):
        try:
            return call()
        except OSError:
            time.sleep(0.01)
    sys.exit(3)
role, words = sys.argv[1], sys.argv[2:]
if role == "go":
    c = socket.socket(socket.AF_UNIX)
    patient(lambda: c.connect("s.sock"))
    c.sendmsg([b"f"], [(1, 1, array.array("i", [os.open(w, os.O_RDONLY | os.O_DIRECTORY) for w in words]).tobytes())])
    c.recv(1)
    sys.exit()
tries = [w.split(":") for w in words]
roots = list(dict.fromkeys(t[0] for t in tries))
s = socket.socket(socket.AF_UNIX)
s.bind("s.sock")
s.listen(1)
c = s.accept()[0]
fds = dict(zip(roots, array.array("i", c.recvmsg(1, 256)[1][0][2])))
c.send(b"x")
patient(lambda: os.stat("ended"))
def write(path, fd):
    f = os.open(path, os.O_CREAT | os.O_WRONLY, 0o755, dir_fd=fd)
    os.write(f, b"#!/bin/sh\necho PWNED\n")
calls = {"write": write, "unlink": lambda p, fd: os.unlink(p, dir_fd=fd), "chmod": lambda p, fd: os.chmod(p, 0o777, dir_fd=fd),
         "rename": lambda p, fd: os.rename(p, p + ".moved", src_dir_fd=fd, dst_dir_fd=fd),
         "link": lambda p, fd: os.link(p, "second", src_dir_fd=fd, dst_dir_fd=fd),
         "read": lambda p, fd: os.read(os.open(p, os.O_RDONLY, dir_fd=fd), 1)}
for root, what, path in tries:
    try:
        calls[what](path, fds[root])
        print("+", what, path)
    except OSError as e:
        print("-", what, path, e.strerror)
"""
TRIES = (("write", ".git/hooks/pre-commit"), ("write", ".git/hooks/post-checkout"), ("unlink", ".git/hooks/pre-commit"), ("chmod", ".git/hooks/pre-commit"),
         ("rename", ".git/hooks"), ("rename", ".git"), ("write", ".git/config"), ("link", ".git/config"), ("write", ".vscode/tasks.json"),
         ("write", ".envrc"), ("rename", ".vscode"))


def prepare():
    assert on_host("git", "init", "-q", ".", cwd=workspace()).returncode == 0
    (workspace() / ".vscode").mkdir()
    for name in (".git/hooks/pre-commit", ".vscode/tasks.json", ".envrc"):
        (workspace() / name).write_text("mine\n")
    (workspace() / "both.py").write_text(PROGRAM)
    data = scratch() / "data"
    (data / "b").mkdir(parents=True)
    (data / "b/file").write_text("mine\n")
    return data


def snapshot(*folders):
    return {str(p): (p.read_bytes(), p.stat().st_mode) for f in folders for p in sorted(f.rglob("*")) if p.is_file() and p.name not in ("ended", "index")}


def words(data):
    return [*(f".:{what}:{path}" for what, path in TRIES), f"{data}:write:b/file", f"{data}:write:b/new", f"{data}:rename:b"]


def attack(data, backend, *prefix):
    """Both runs; returns what the one that stays has done."""
    shared = ("--backend", backend, "--write", data, "--read", data / "b", "--", PYTHON, "both.py")

    def argv(*more):
        full = brig_argv("run", *shared, *more)
        at = full.index(str(brig_path()))
        full[at:at] = map(str, prefix)
        return full

    more = {"env": brig_environment(), "cwd": workspace(), "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv("stay", *words(data)), **more) as stays:
        first = subprocess.run(argv("go", ".", data), **{k: v for k, v in more.items() if k not in ("stdout", "stderr")}, capture_output=True, timeout=60, check=False)
        (workspace() / "ended").touch()
        out, err = stays.communicate(timeout=60 * PATIENCE)
    assert first.returncode == 0 and stays.returncode == 0, (first.stderr, err)
    for name in ("ended", "s.sock"):
        (workspace() / name).unlink()
    assert out.count("\n") == len(words(data)), out
    return out, err


ONE = "mount --bind w w && mount --bind w/hooks w/hooks && mount -o remount,bind,ro w/hooks && cd w && exec "


@test
def a_folder_outlives_its_run_with_all_that_lay_over_it():
    data = prepare()
    before = snapshot(workspace(), data)
    for backend in ("native", "bwrap"):
        out, _ = attack(data, backend)
        assert "+" not in out, out
        assert snapshot(workspace(), data) == before, backend


@test
def with_one_namespace_the_covers_would_be_gone():
    """The control: what the kernel does with a namespace whose mounts are not locked, and with one whose mounts are."""
    place = scratch() / "one"
    for locked, gone in (("", True), ("unshare -Um --map-root-user ", False)):
        (place / "w/hooks").mkdir(parents=True, exist_ok=True)
        (place / "w/both.py").write_text(PROGRAM)
        for name in ("s.sock", "ended", "hooks/new"):
            (place / "w" / name).unlink(missing_ok=True)
        with subprocess.Popen(as_identity([PYTHON, "both.py", "stay", ".:write:hooks/new"]), cwd=place / "w", stdout=subprocess.PIPE, text=True) as stays:
            done = on_host("unshare", "-Urm", "sh", "-c", f"{ONE}{locked}{PYTHON} both.py go .", cwd=place)
            assert done.returncode == 0, done.stderr
            (place / "w/ended").touch()
            out, _ = stays.communicate(timeout=60 * PATIENCE)
        assert out.startswith("+" if gone else "-"), (locked, out)
        assert (place / "w/hooks/new").exists() == gone


if __name__ == "__main__":
    sys.exit(main())
