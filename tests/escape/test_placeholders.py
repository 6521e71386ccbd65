#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What holds a protected name during a run must be of no use to anybody else: not to a run in a folder above, not to
another user, not to whoever changes the folder at the same time.

The oracle is the host's: what stands in the workspaces afterwards and meanwhile, and who owns it."""

import contextlib
import json
import os
import pathlib
import socket
import stat
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import as_identity, finish, held, on_host, program  # noqa: E402
from harness import (IS_ROOT, PATIENCE, brig, brig_argv, brig_environment, main, scratch, seconds, start_brig, test, tree, uid, wait_until, workspace)  # noqa: E402

NAMES = (".vscode", ".mcp.json", ".claude", ".codex", ".cursor", ".gemini")
STRANGER = 4343

# Keeps every descriptor it can get of what holds the names in a folder, and uses them all when told.
KEEP = """
import os, sys, time
top, names = sys.argv[1], sys.argv[2].split()
kept, links = [], 0
for n in names:
    at = os.path.join(top, n)
    for flags in (os.O_PATH | os.O_NOFOLLOW, os.O_RDONLY | os.O_NONBLOCK, os.O_RDWR | os.O_NONBLOCK, os.O_RDONLY | os.O_DIRECTORY):
        try: kept.append(os.open(at, flags))
        except OSError: pass
    try: os.link(at, n[1:] + ".link", follow_symlinks=False)
    except OSError: pass
print(len(kept), flush=True)
open("kept", "w").close()
while not os.path.exists("use"): time.sleep(0.01)
wrote = 0
for fd in kept:
    for use in (lambda: os.open("tasks.json", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd),
                lambda: os.mkdir("sub", dir_fd=fd),
                lambda: os.symlink("x", "link", dir_fd=fd),
                lambda: os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_NONBLOCK),
                lambda: os.truncate(fd, 5),
                lambda: os.write(fd, b"evil")):
        try: use(); wrote += 1
        except OSError: pass
for n in names:
    try: os.unlink(n[1:] + ".link")
    except OSError: pass
print("wrote", wrote, flush=True)
"""


def folder(name, owner=None):
    at = scratch() / name
    at.mkdir(parents=True)
    if IS_ROOT:
        os.chown(at, *(2 * [os.stat(workspace()).st_uid if owner is None else owner]))
    return at


def waiting(at):
    """A run in that folder that waits for `go` there."""
    return held("run", "--workdir", at, "--", "sh", "-c", "touch ready; while [ ! -e go ]; do sleep 0.01; done", folder=at)


def quarantined():
    names = [p.name for p in (workspace().parent / "state/brig/quarantine").glob("*")]
    subprocess.run(["rm", "-rf", workspace().parent / "state/brig/quarantine"], check=True)
    return names


def control_of_kept_descriptors():
    """A folder that is moved takes along whoever has it open."""
    there = scratch() / "control"
    (there / ".vscode").mkdir(parents=True)
    fd = os.open(there / ".vscode", os.O_RDONLY | os.O_DIRECTORY)
    (there / ".vscode").rename(there / "moved")
    os.close(os.open("tasks.json", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd))
    os.close(fd)
    assert (there / "moved/tasks.json").exists(), "the control proves nothing"
    subprocess.run(["rm", "-rf", there], check=True)


# ---- descriptors that outlive the run they were opened in ----


@test
def what_one_run_has_open_reaches_no_other_workspace():
    """The first run is shown the folder above the second's; the third's workspace it is not shown."""
    control_of_kept_descriptors()
    above, below, other = folder("p"), folder("p/sub"), folder("q")
    with waiting(below) as second:
        assert all((below / n).is_socket() for n in NAMES), "nothing is held: the test is void"
        first = start_brig("run", "--workdir", above, "--", "python3", "-c", KEEP, "sub", " ".join(NAMES))
        assert wait_until(lambda: (above / "kept").exists() or first.poll() is not None, 15)
        second.release()
        second.process.wait(20 * PATIENCE)
        with waiting(other):
            (above / "use").touch()
            out, err = first.communicate(timeout=20 * PATIENCE)
            assert first.returncode == 0, err
            assert [n for n in NAMES if not (other / n).is_socket()] == []
            assert [p for p in other.rglob("*") if p.name in ("tasks.json", "sub", "link")] == []
    assert out.endswith(b"wrote 0\n") and int(out.split()[0]) >= len(NAMES), out
    assert set(tree(scratch())) == {"p", "p/sub", "p/kept", "p/use", "q"}, tree(scratch())
    assert quarantined() == []


@test
def what_was_kept_while_nobody_ran_reaches_no_later_run():
    """As before, but the attacker is gone before the next run starts."""
    above, below = folder("p"), folder("p/sub")
    with waiting(below) as second:
        first = start_brig("run", "--workdir", above, "--", "python3", "-c", KEEP, "sub", " ".join(NAMES))
        assert wait_until(lambda: (above / "kept").exists() or first.poll() is not None, 15)
        second.release()
        second.process.wait(20 * PATIENCE)
        (above / "use").touch()
        out, err = first.communicate(timeout=20 * PATIENCE)
        assert first.returncode == 0 and out.endswith(b"wrote 0\n"), (out, err)
    with waiting(workspace()):
        assert [n for n in NAMES if not (workspace() / n).is_socket()] == []
    assert tree(workspace()) == {} and quarantined() == []


@test(as_user="root")
def what_another_user_has_open_reaches_no_workspace_of_roots():
    """Root runs in the stranger's folder, then in one of its own."""
    theirs, own = folder("theirs", STRANGER), folder("own", 0)
    own.chmod(0o700)
    with waiting(theirs) as first:
        keeper = subprocess.Popen(as_identity(["/usr/bin/python3", "-c", KEEP, ".", " ".join(NAMES)], STRANGER), cwd=theirs,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert wait_until(lambda: (theirs / "kept").exists() or keeper.poll() is not None, 15)
        first.release()
        first.process.wait(20 * PATIENCE)
        with waiting(own):
            (theirs / "use").touch()
            out, err = keeper.communicate(timeout=20 * PATIENCE)
            assert [n for n in NAMES if not (own / n).is_socket()] == []
    assert out.endswith(b"wrote 0\n") and int(out.split()[0]) >= len(NAMES), (out, err)
    assert [n for n in tree(theirs) if n not in ("kept", "use")] == [] and tree(own) == {}
    assert [p for p in (workspace().parent / "state").rglob("tasks.json")] == [] and quarantined() == []


@test
def nobody_can_open_what_holds_a_name():
    """Not its owner either, who may open it to everybody first; and nothing can be bound to it."""
    with waiting(workspace()):
        for n in NAMES:
            at = (workspace() / n).stat()
            assert stat.S_IMODE(at.st_mode) == 0 and at.st_nlink == len(NAMES), "a name more than brig made"
        at = workspace() / NAMES[0]
        at.chmod(0o777)
        for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_CREAT | os.O_TRUNC, os.O_RDONLY | os.O_DIRECTORY):
            try:
                os.close(os.open(at, flags | os.O_NONBLOCK))
                raise AssertionError(f"opened with {flags:o}")
            except OSError:
                pass
        with socket.socket(socket.AF_UNIX) as s, contextlib.suppress(OSError):
            s.bind(os.path.relpath(at))
            raise AssertionError("bound")
        at.chmod(0)
    assert tree(workspace()) == {}


@test
def a_second_link_to_what_holds_a_name_is_worth_nothing():
    """It stays where it was made; the name itself goes, and the next run has another node."""
    above, below = folder("p"), folder("p/sub")
    with waiting(below):
        first = (below / ".vscode").stat().st_ino
        done = brig("run", "--workdir", above, "--", "sh", "-c", "ln sub/.vscode kept; chmod 777 kept; exec 3<>kept; echo x >&3")
        assert done.status != 0 or (above / "kept").exists(), done.stderr
        os.chmod(below / ".vscode", 0)
    with waiting(below):
        assert (below / ".vscode").stat().st_ino != first
    assert not (above / "kept").exists() or (above / "kept").is_socket()
    (above / "kept").unlink(missing_ok=True)
    assert tree(below) == {} and quarantined() == []


@test
def a_neighbour_makes_no_denials_by_what_all_names_share():
    """The names of a run are one node: whoever changes its mode has changed nothing that could be of use."""
    above, below = folder("p"), folder("p/sub")
    for way, told in (("chmod 777 sub/.vscode", 0), ("chmod 4600 sub/.mcp.json; ln sub/.claude kept", 0), ("touch sub/.gemini; chmod 600 sub/.gemini", 0),
                      ("chmod 777 sub/.vscode; mkdir x; touch x/tasks.json; mv -T x sub/.idea", 1)):  # the last: the control, for what is there
        with held("run", "--json", "--workdir", below, "--", "sh", "-c", "touch ready; while [ ! -e go ]; do sleep 0.01; done", folder=below) as second:
            assert brig("run", "--workdir", above, "--", "sh", "-c", way).status == 0, way
            second.release()
            out = json.loads(second.process.communicate(timeout=20 * PATIENCE)[0])
        assert (out["outcome"], len(out["denials"])) == ("exited", told), (way, out["outcome"], out["denials"])
        assert tree(below) == {} and len(quarantined()) == told, way
        (above / "kept").unlink(missing_ok=True)


# ---- the folder changes under brig's hands ----


SWAP = """
import ctypes, os, sys, time
rename = ctypes.CDLL(None).renameat2
name, other, until = sys.argv[1].encode(), sys.argv[2].encode(), sys.argv[3]
open("swapping", "w").close()
swaps = 0
while not os.path.exists(until):
    for _ in range(200):
        if rename(-100, name, -100, other, 2) == 0:
            swaps += 1
            rename(-100, name, -100, other, 2)
print(swaps)
"""

# What brig once did: it made the name, looked at it, and gave it to the owner of the folder.
CHOWN = """
import os, sys
name, owner = sys.argv[1], int(sys.argv[2])
while os.stat("secret").st_uid == 0 and not os.path.exists("stop"):
    try:
        os.mkdir(name)
        os.chown(name, owner, owner, follow_symlinks=False)
        os.rmdir(name)
    except OSError: pass
    try: os.rmdir(name)
    except OSError: pass
"""


@contextlib.contextmanager
def swapping(at, name, other, user):
    p = subprocess.Popen(as_identity(["/usr/bin/python3", "-c", SWAP, name, other, "stop"], user), cwd=at, stdout=subprocess.PIPE)
    try:
        assert wait_until((at / "swapping").exists, 15)
        yield p
    finally:
        (at / "stop").touch()
        p.communicate(timeout=20 * PATIENCE)
        for n in ("stop", "swapping"):
            (at / n).unlink()


@test(as_user="root")
def a_file_of_roots_swapped_for_a_placeholder_stays_roots():
    """A user exchanges the two while root's brig starts and ends, again and again."""
    def secret(at):
        (at / "secret").write_text("root's\n")
        (at / "secret").chmod(0o600)
        os.chown(at / "secret", 0, 0)

    def lost(at):
        return [p.name for p in at.iterdir() if p.is_file() and p.stat().st_size and p.stat().st_uid != 0]

    at = folder("w", STRANGER)
    secret(at)
    with swapping(at, ".gemini", "secret", STRANGER):
        old = subprocess.Popen(["/usr/bin/python3", "-c", CHOWN, ".gemini", str(STRANGER)], cwd=at, stderr=subprocess.DEVNULL)
        assert wait_until(lambda: bool(lost(at)), 20), "the control proves nothing: the old way was never caught"
    old.wait(20)
    subprocess.run(["rm", "-rf", *at.iterdir()], check=True)
    secret(at)
    with swapping(at, ".gemini", "secret", STRANGER):
        for _ in range(20):
            done = brig("run", "--timeout", seconds(20), "--workdir", at, "--", "true")
            assert done.status in (0, 125), (done.status, done.stderr)
            assert lost(at) == []
    brig("run", "--workdir", at, "--", "true")
    assert lost(at) == []
    quarantined()


@test
def what_is_put_in_the_place_of_a_placeholder_is_not_followed_opened_or_lost():
    """A link, a pipe, a hard link, a folder: brig neither hangs nor writes through it, and nothing of the host's goes."""
    (scratch() / "precious").mkdir()
    (scratch() / "precious/file").write_text("mine\n")
    if IS_ROOT:
        subprocess.run(["chown", "-R", f"{os.stat(workspace()).st_uid}", scratch() / "precious"], check=True)
    ways = {"link": f"ln -s {scratch()}/precious x", "pipe": "mkfifo x", "hard": f"ln {scratch()}/precious/file x",
            "folder": "mkdir x; echo theirs > x/theirs", "dangling": "ln -s nowhere x"}
    for way, make in ways.items():
        assert on_host("sh", "-c", make).returncode == 0
        with swapping(workspace(), ".vscode", "x", uid()):
            for _ in range(4):
                done = brig("run", "--timeout", seconds(20), "--", "sh", "-c", "echo evil > .vscode/evil; mkdir .vscode/evil; true")
                assert done.status in (0, 125), (way, done.status, done.stderr)
        assert tree(scratch()).keys() == {"precious", "precious/file"}, way
        assert (scratch() / "precious/file").read_text() == "mine\n", way
        # What the host takes out of the protected place itself, it takes with all that was written there.
        left = list(workspace().glob(".vscode/**/evil"))
        assert not left, (way, left)
        quarantined()
        subprocess.run(["sh", "-c", "rm -rf x .vscode .brig-quarantine-*"], cwd=workspace(), check=True)
    brig("run", "--", "true")
    assert tree(workspace()) == {}
    quarantined()


# ---- what is not there ----


@test(by_root=True)
def a_full_disk_refuses_the_run_instead_of_leaving_a_name_open():
    work = scratch() / "w"
    work.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=40,mode=777", "none", work], check=True)
    try:
        script = "mkdir .vscode && echo evil > .vscode/tasks.json"
        assert brig("run", "--workdir", work, "--", "true").status == 0, "the control proves nothing"
        with contextlib.suppress(OSError):
            for i in range(64):
                (work / f"f{i}").touch()
        (work / "f0").unlink()
        done = brig("run", "--workdir", work, "--", "sh", "-c", script)
        assert done.status == 125 and "cannot hold " in done.errors and "No space left" in done.errors, (done.status, done.errors)
        assert not [n for n in os.listdir(work) if n.startswith(".")], os.listdir(work)
        for i in range(1, 12):
            (work / f"f{i}").unlink()
        assert brig("run", "--workdir", work, "--", "true").status == 0
    finally:
        subprocess.run(["umount", "-l", work], check=True)


@test
def where_there_are_no_such_nodes_an_empty_folder_holds_the_name():
    argv = brig_argv("run", "--json", "--", "sh", "-c", "touch ready; while [ ! -e go ]; do sleep 0.01; done; echo evil > .vscode/x; mkdir .claude/x; true")
    at = next(i for i, a in enumerate(argv) if a.endswith("/brig"))
    argv[at:at] = [str(program("without")), "nodes"]
    p = subprocess.Popen(argv, env=brig_environment(), cwd=workspace(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert wait_until(lambda: (workspace() / "ready").exists() or p.poll() is not None, 15)
    seen = {n: (workspace() / n).is_dir() for n in NAMES}
    (workspace() / "go").touch()
    attempt = finish(p)
    assert attempt.status == 0 and all(seen.values()), (seen, attempt.stdout, attempt.stderr)
    assert set(tree(workspace())) == {"ready", "go"} and quarantined() == []


SEEDED = ("--home", "keep", "--home-seed", "claude")
# Whatever could fill a folder, or bring another one to its name.
FILL = r"""
import ctypes, os, sys
libc, done = ctypes.CDLL(None), []
fd = os.open(".claude", os.O_RDONLY | os.O_DIRECTORY)
os.mkdir("other"); open("other/settings.json", "w").close()
for name, use in {
    "create": lambda: open(".claude/settings.json", "w"), "create by descriptor": lambda: os.open("settings.json", os.O_CREAT | os.O_WRONLY, dir_fd=fd),
    "mkdir": lambda: os.mkdir(".claude/commands"), "symlink": lambda: os.symlink("/etc/passwd", ".claude/settings.json"), "move in": lambda: os.rename("other/settings.json", ".claude/settings.json"),
    "replace": lambda: os.rename("other", ".claude"), "move away": lambda: os.rename(".claude", "gone"), "remove": lambda: os.rmdir(".claude"), "chmod": lambda: os.chmod(".claude", 0o777),
    "chmod by descriptor": lambda: os.fchmod(fd, 0o777), "times": lambda: os.utime(".claude"), "unmount": lambda: libc.umount2(b".claude", 2) == 0 or 1 / 0,
    "mount": lambda: libc.mount(b"other", b".claude", None, 4096, None) == 0 or 1 / 0}.items():
    try: use(); done.append(name)
    except (OSError, ZeroDivisionError): pass
print(os.listdir(".claude"), done)
"""


def agent(*words, at, command="true"):
    """A run with a HOME of an agent's own, as `brig wrap` has it, that waits for `go`."""
    cache = scratch().parent / "agents"
    cache.mkdir(exist_ok=True)
    if IS_ROOT:
        os.chown(cache, *(2 * [uid()]))
    line = f"touch ready; while [ ! -e go ]; do sleep 0.01; done; {command}"
    return held("run", *SEEDED, "--workdir", at, *words, "--", "sh", "-c", line, "x", FILL, folder=at, env={"XDG_CACHE_HOME": str(cache)})


@test
def an_agent_finds_its_folder_empty_and_cannot_fill_it():
    with agent(at=workspace(), command='python3 -c "$1"') as h:
        kinds = {n: "folder" if (workspace() / n).is_dir() else "socket" if (workspace() / n).is_socket() else None for n in NAMES}
        assert kinds == {n: "folder" if n == ".claude" else "socket" for n in NAMES}, kinds
        # Others hold the name as well, and do not take it away.
        assert brig("run", "--", "sh", "-c", "! echo evil > .claude/x; ! rmdir .claude").status == 0 and (workspace() / ".claude").is_dir()
    assert h.process.result.status == 0 and h.process.result.stdout == b"[] []\n", (h.process.result.stdout, h.process.result.stderr)
    assert set(tree(workspace())) == {"other", "other/settings.json"} and quarantined() == []


@test
def what_a_neighbour_puts_into_an_agents_folder_is_taken_away():
    """A run in a folder above may write there, as it may write anywhere below; what it leaves goes to quarantine, and what it keeps open leads nowhere."""
    above, below = folder("p"), folder("p/sub")
    with agent("--json", at=below) as h:
        assert brig("run", "--workdir", above, "--", "sh", "-c", "echo evil > sub/.claude/settings.json").status == 0
        assert (below / ".claude/settings.json").exists(), "nothing was put there: the test is void"
    denied = json.loads(h.process.result.stdout)["denials"]
    assert [d["target"] for d in denied] == [".claude"] and not (below / ".claude").exists() and len(quarantined()) == 1, denied
    with agent(at=below) as h:
        first = start_brig("run", "--workdir", above, "--", "python3", "-c", KEEP, "sub", ".claude")
        assert wait_until(lambda: (above / "kept").exists() or first.poll() is not None, 15)
        h.release()
        h.process.wait(20 * PATIENCE)
        (above / "use").touch()
        out, err = first.communicate(timeout=20 * PATIENCE)
        assert first.returncode == 0 and out.endswith(b"wrote 0\n") and int(out.split()[0]) >= 2, (out, err)
    assert set(tree(scratch())) - {"go", "ready"} == {"p", "p/sub", "p/kept", "p/use"} and quarantined() == [], tree(scratch())


@test
def a_killed_agent_leaves_no_folder():
    with agent(at=workspace()) as h:
        assert (workspace() / ".claude").is_dir()
        h.process.kill()
        h.process.wait()
        assert brig("run", "--", "true").status == 0 or wait_until(lambda: brig("run", "--", "true").status == 0)
        assert wait_until(lambda: not (workspace() / ".claude").exists())
    assert quarantined() == []


@test
def git_inside_and_outside_adds_and_commits_beside_them():
    who = "-c user.name=a -c user.email=a@b"
    assert on_host("sh", "-c", f"git init -q . && rm -rf .git/hooks && echo 1 > a && git {who} add -A && git {who} commit -qm 1").returncode == 0
    with waiting(workspace()):
        assert (workspace() / ".git/hooks").is_socket()
        done = on_host("sh", "-c", f"rm -f ready; echo 2 > b && git {who} add -A && git {who} commit -qm 2 && git status --short; touch ready")
        assert done.returncode == 0 and done.stdout == b"" and done.stderr == b"", done
    done = brig("run", "--", "sh", "-c", f"echo 3 > c && git {who} add -A && git {who} commit -qm 3 && git status --short")
    assert done.status == 0 and done.stdout == b"", (done.stdout, done.stderr)
    assert on_host("git", "ls-files").stdout.split() == [b"a", b"b", b"c"]


if __name__ == "__main__":
    sys.exit(main())
