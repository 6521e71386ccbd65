#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Covers are the kernel's to keep: a run hands a folder of its own to another one and ends. Its mount namespace dies; what
lay over that folder must not.

The control does the same with one user and mount namespace, where the covers are gone; the oracle is what is on disk."""

import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import as_identity, on_host  # noqa: E402
from harness import PATIENCE, TOP, brig, brig_argv, brig_environment, brig_path, compile_c, main, scratch, start_brig, test, uid, wait_until, workspace  # noqa: E402
from two_runs import PROGRAM  # noqa: E402

PYTHON = "/usr/bin/python3"
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
def where_mounts_cannot_be_locked_what_changed_under_a_cover_is_taken_away():
    data = prepare()
    out, err = attack(data, "bwrap", compile_c(TOP / "tests/lib/deny-second-namespace.c"))
    assert "does not let brig lock" in err, err
    assert uid() == 0 or "+ write .git/hooks/post-checkout" in out, ("the control proves nothing", out)
    obeyed = [p for p in workspace().rglob("*") if p.is_file() and p.name not in ("both.py", "second")]
    assert not [p for p in obeyed if b"PWNED" in p.read_bytes()], (out, err)


@test
def what_the_host_changes_under_a_cover_is_told():
    """A hook goes to quarantine, as a file would; in an editor's folder it is the editor's work."""
    prepare()
    line = "touch ready; while [ ! -e ended ]; do sleep 0.02; done"
    p = start_brig("run", "--json", "--", "sh", "-c", line)
    assert wait_until((workspace() / "ready").exists)
    for name in (".git/hooks/pre-commit", ".git/hooks/new", ".vscode/tasks.json", ".vscode/new.json"):
        (workspace() / name).write_text("theirs\n")
    (workspace() / "ended").touch()
    r = json.loads(p.communicate(timeout=60 * PATIENCE)[0])
    assert {d["target"] for d in r["denials"]} == {".git/hooks/pre-commit", ".git/hooks/new"}, r["denials"]
    assert {".vscode/tasks.json", ".vscode/new.json"} <= {t["path"] for t in r["changed_trust"]}, r["changed_trust"]
    assert not (workspace() / ".git/hooks/new").exists() and (workspace() / ".vscode/new.json").read_text() == "theirs\n"
    r = brig("run", "--json", "--", "true").json
    assert not r["denials"] and not r["changed_trust"], r


BIND = "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])"


@test
def under_strict_no_socket_is_made_in_a_tree_of_the_hosts():
    """Where two runs meet. In folders of a run's own, and by default, they are made: test suites do."""
    data = prepare()
    for backend in ("native", "bwrap"):
        for profile, place, allowed in (("strict", ".", False), ("strict", data, False), ("strict", "/tmp", True), ("default", ".", True), ("default", data, True)):
            done = brig("run", "--backend", backend, "--profile", profile, "--write", data, "--", PYTHON, "-c", BIND, f"{place}/one")
            assert (done.status == 0) == allowed and (allowed or "PermissionError" in done.errors), (backend, profile, place, done.errors)
            for made in (workspace() / "one", data / "one"):
                made.unlink(missing_ok=True)


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
