#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Repositories in what a command may write besides its workspace, by --write and --mount, and where workspaces lie in one another: git on the host obeys nothing
that a run has left there.

The oracle: git, used there afterwards, runs nothing of the guest's; on the host the same script has it run (the control)."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import on_host  # noqa: E402
from harness import PATIENCE, home, main, scratch, start_brig, test, wait_until, workspace  # noqa: E402
from victim import AS_ME, MAKE_GIT, clear, git, hook, ran, remove, repository, settings, sh, taken, use  # noqa: E402

OBEY = "printf '\\tbare = false\\n\\tworktree = .\\n' >>"


def attacks():
    """In three trees, `t`, `top` and `own`; t has repositories of the user's. What is done, and where git is used then."""
    return {
        "new": (f"cd t; {MAKE_GIT.format(g='x/.git')}; {settings('x/.git/config')}", "t/x"),
        "bare": (f"cd t; {MAKE_GIT.format(g='bare')}; {settings('bare/config')}; {OBEY} bare/config", "t/bare"),
        "config": (f"cd t; {settings('repo/.git/config')}", "t/repo"),
        "hook": (f"cd t; {hook('other/.git/hooks/pre-commit')}", "t/other"),
        "pointer": (f"cd t; {MAKE_GIT.format(g='p/g')}; {settings('p/g/config')}; echo gitdir: g > p/.git", "t/p"),
        "top": (f"cd top; {MAKE_GIT.format(g='.')}; {settings('config')}; {OBEY} config", "top"),
        "own": (f"cd own; {MAKE_GIT.format(g='.git')}; {settings('.git/config')}", "own"),
    }


WAYS = {
    "--write": lambda t: ("--write", str(t)),
    "--mount": lambda t: ("--mount", f"{t}:/mnt/{t.name}:rw"),
    "no workspace": lambda t: ("--write", str(t)),  # in HOME, which is none
}


def tree(name="tree", *repositories):
    at = scratch() / name
    for folder in (at, *(at / r for r in repositories)):
        folder.mkdir()
        os.chown(folder, os.stat(workspace()).st_uid, os.stat(workspace()).st_gid)
    for r in repositories:
        repository(at / r)
    return at


def trees():
    return tree("t", "repo", "other"), tree("top"), tree("own")


def look(place):
    git("status", cwd=scratch() / place)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=scratch() / place)
    return ran()


@test(limit=90)
def a_repository_in_a_writable_tree_is_handled_as_in_the_workspace():
    all_at_once = "\n".join(f"({script})" for script, _ in attacks().values())
    made = trees()
    on_host("sh", "-c", all_at_once, cwd=scratch())
    for name, (_, place) in attacks().items():
        assert look(place), (name, "the control proves nothing")
    for way, options in WAYS.items():
        for at in made:
            remove(at)
        made = trees()
        words = [w for at in made for w in options(at)]
        r = sh(f"cd {'/mnt' if way == '--mount' else scratch()}; {all_at_once}; true", *words, cwd=home() if way == "no workspace" else None)
        targets = {d["target"] for d in r["denials"] if d["kind"] == "protected-path"}
        assert {str(scratch() / p) for p in ("t/x/.git/config", "t/bare/config", "t/p/g/config", "own/.git/config")} <= targets, (way, targets)
        for name, (_, place) in attacks().items():
            assert not look(place), (name, way, r["denials"])
        assert git("status", cwd=scratch() / "t/repo").returncode == 0
        taken()


@test(limit=60)
def what_two_runs_complete_there_is_no_repository():
    at = tree()
    for first, second in ((f"mkdir -p x/objects x/refs; {settings('x/config')}; printf '\\tbare = false\\n\\tworktree = .\\n' >> x/config", "echo ref: refs/heads/main > x/HEAD"),
                          (f"{MAKE_GIT.format(g='x/.git')}", settings("x/.git/config"))):
        for guest in (False, True):
            for script in (first, second):
                if guest:
                    sh(f"cd {at}; {script}", "--write", str(at))
                else:
                    on_host("sh", "-c", script, cwd=at)
            use(at / "x")
            assert ran() != guest, (first, guest)
            taken()
            remove(at / "x")


@test(limit=60)
def links_and_pointers_there_lead_git_nowhere():
    at, goal = tree("tree", "repo"), scratch() / "goal"
    for script, left in ((f"{MAKE_GIT.format(g='x/.git')}; mkdir x/.git/logs; ln -s {goal} x/.git/logs/HEAD", "x/.git/logs/HEAD"), (f"mkdir repo/.git/logs/x; ln -s {goal} repo/.git/logs/x/y", "repo/.git/logs/x/y"),
                         (f"mkdir x; echo gitdir: {goal} > x/.git", "x/.git")):
        on_host("sh", "-c", script, cwd=at)
        assert os.path.lexists(at / left), "the control proves nothing"
        remove(at)
        tree("tree", "repo")
        r = sh(f"cd {at}; {script}", "--write", str(at))
        assert not os.path.lexists(at / left) and [d for d in r["denials"] if d["target"] == f"{at}/{left}"], (left, r["denials"])
        taken()
        remove(at)
        tree("tree", "repo")


@test(limit=60)
def everyday_work_there_stays():
    """Clones, and work trees of the workspace's own repository; a later run may change and remove them."""
    at = tree("tree", "repo")
    repository()
    target = ("--write", str(at), "--set", f"workspace.target={workspace()}")
    r = sh(f"git init -q {at}/a && git clone -q . {at}/b && git worktree add -q {at}/c && cd {at}/repo && echo x > x && git add x && {AS_ME} commit -qm x", *target)
    assert r["exit_code"] == 0 and r["denials"] == [], (r["denials"], r["stderr"])
    for name in ("a", "b", "c", "repo"):
        assert git("status", "--short", cwd=at / name).returncode == 0, name
    r = sh(f"cd {at}/b && git remote add o https://example.org/x && git -C {workspace()} worktree remove {at}/c && rm -rf {at}/a", *target)
    assert r["exit_code"] == 0 and r["denials"] == [], (r["denials"], r["stderr"])
    on_host("sh", "-c", hook("b/.git/hooks/mine"), cwd=at)  # the user's, between runs
    r = sh(f"echo x >> {at}/b/.git/hooks/mine", *target)
    assert r["exit_code"] != 0 and (at / "b/.git/hooks/mine").exists() and [d["target"] for d in r["denials"]] == [".git/hooks"], (r["denials"], r["stderr"])
    taken()


# ---- a workspace in another one ----

LINK = "mkdir -p d/x/.git/objects d/x/.git/refs d/x/.git/logs; echo ref: refs/heads/main > d/x/.git/HEAD; ln -s /victim d/x/.git/logs/HEAD", "d/x/.git/logs/HEAD"
POINTER = "mkdir -p d/x; echo gitdir: /victim > d/x/.git", "d/x/.git"


def run_until(script, done, **more):
    p = start_brig("run", "--json", "--", "sh", "-c", f"{script}; touch {done}.made; while [ ! -e {done} ]; do sleep 0.02; done", **more)
    assert wait_until((pathlib.Path(more["cwd"]) / f"{done}.made").exists, 20 * PATIENCE)
    return p


def end(p, folder, done):
    (pathlib.Path(folder) / done).touch()
    out, err = p.communicate(timeout=30 * PATIENCE)
    assert p.returncode == 0, err
    return out


@test(limit=60)
def what_a_run_below_has_made_is_not_the_users_to_a_run_above():
    """The one above begins later, hides it from the end of the one below, and brings it back."""
    for script, left in (LINK, POINTER):
        for hides in (False, True):
            sub = workspace() / "sub"
            sub.mkdir()
            os.chown(sub, os.stat(workspace()).st_uid, os.stat(workspace()).st_gid)
            below = run_until(script, "below", cwd=sub)
            above = start_brig("run", "--json", "--", "sh", "-c", f"{'mv sub/d d' if hides else 'true'}; touch up; while [ ! -e go ]; do sleep 0.02; done; {'mv d sub/d' if hides else 'true'}", cwd=workspace())
            assert wait_until((workspace() / "up").exists, 20 * PATIENCE)
            assert os.path.lexists(workspace() / (left if hides else "sub/" + left)), "the control proves nothing"
            first = end(below, sub, "below")
            second = end(above, workspace(), "go")
            assert not os.path.lexists(sub / left), (left, hides)
            assert left.encode() in (second if hides else first), (first, second)
            taken()
            clear()


@test(limit=60)
def what_the_user_has_in_a_folder_of_another_run_stays_the_users():
    repository()
    sub = workspace() / "sub"
    sub.mkdir()
    os.chown(sub, os.stat(workspace()).st_uid, os.stat(workspace()).st_gid)
    repository(sub)
    on_host("sh", "-c", f"echo mine > .git/hooks/mine; mkdir .git/x; ln -s {sub} .git/x/link", cwd=sub)
    below = run_until("git init -q new", "below", cwd=sub)
    above = run_until("true", "above", cwd=workspace())
    again = run_until("true", "again", cwd=sub)
    end(below, sub, "below")
    end(again, sub, "again")
    end(above, workspace(), "above")
    assert (sub / ".git/hooks/mine").exists() and (sub / ".git/x/link").is_symlink() and (sub / "new/.git/config").exists() and not taken()


if __name__ == "__main__":
    sys.exit(main())
