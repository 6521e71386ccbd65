#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Names that programs on the host obey, wherever and as whatever a run leaves them: in folders below, unknown ones, as commits.

The oracle is what lies in the workspace afterwards, and what the report says of it."""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from harness import brig, home, main, test, uid, workspace  # noqa: E402


def report(script, *options, **more):
    return brig("run", "--json", *options, "--", "sh", "-c", script, **more).json


def trusted(done):
    return {c["path"] for c in done["changed_trust"]}


def taken(done):
    return {d["target"] for d in done["denials"]}


# ---- names at every depth ----

STRONG = (".vscode/tasks.json", ".claude/settings.json", ".mcp.json", ".envrc", ".husky/pre-commit", "opencode.jsonc", ".kilocode/mcp.json", ".sl/config")


def put(names, below=""):
    return "; ".join(f"mkdir -p \"$(dirname '{below}{n}')\" && echo x > '{below}{n}'" for n in names)


@test(as_user="both")
def the_first_thing_that_a_command_does_is_told():
    """Times of files come from a clock that moves every few milliseconds: what was saved before the start is told apart by it."""
    (workspace() / "sub").mkdir()
    for name in ("package.json", "sub/CLAUDE.md"):
        (workspace() / name).write_text("{}")
    time.sleep(0.05)  # several ticks
    assert report("true")["changed_trust"] == []
    for _ in range(8):
        assert trusted(report("echo >> package.json; echo >> sub/CLAUDE.md")) == {"package.json", "sub/CLAUDE.md"}


@test(as_user="both")
def copies_of_placeholders_are_nothing_to_look_at_and_all_else_is():
    (workspace() / "f").write_text("x")
    done = report("mkdir sub; tar cf - --exclude=./sub . | tar xf - -C sub; ls -A sub")
    assert {".claude", ".vscode", ".mcp.json"} <= set(done["stdout"].split()), done  # they are copied: what follows says something
    assert done["changed_trust"] == [] and done["denials"] == [], done
    # A file under such a name that says a thing, by whichever way, is told; so is a name that no placeholder has.
    ways = {"cp f n1/.claude": "n1/.claude", "printf x > n2/.vscode": "n2/.vscode", "echo '{ \"mcpServers\": {1} }' > n3/.mcp.json": "n3/.mcp.json",
            "printf '{ \"mcpServers\": {}!}\\n' > n4/.mcp.json": "n4/.mcp.json", "mkdir n5/.claude; echo x > n5/.claude/settings.json": "n5/.claude/settings.json",
            ": > n6/x; ln n6/x n6/.claude": "n6/.claude", "ln -s ../f n7/.vscode": "n7/.vscode", ": > n8/CLAUDE.md": "n8/CLAUDE.md", ": > n9/.mcp.json": "n9/.mcp.json",
            "cp sub/.claude n10/.CLAUDE; echo x >> n10/.CLAUDE": "n10/.CLAUDE"}
    done = report("chmod -R u+w sub; mkdir n1 n2 n3 n4 n5 n6 n7 n8 n9 n10; " + "; ".join(ways))
    assert set(ways.values()) <= trusted(done), (set(ways.values()) - trusted(done), done)
    # What was empty and is filled by the next run is told then.
    assert trusted(report("chmod u+w sub/.claude; echo x > sub/.claude")) == {"sub/.claude"}


@test(as_user="both")
def the_strongest_names_are_told_one_folder_down_and_further():
    for below in ("packages/a/", "a/b/c/d/"):
        done = report(put(STRONG, below))
        assert {below + n for n in STRONG} <= trusted(done), (below, done["changed_trust"])
    # What was there, and is changed in place; in letters that are the same name elsewhere; as a link.
    done = report("echo y >> packages/a/.vscode/tasks.json; mkdir -p packages/b/.VSCode; echo x > packages/b/.VSCode/Tasks.json; ln -s /nowhere packages/b/.envrc; mkdir .Claude; echo x > .Claude/settings.json")
    assert {"packages/a/.vscode/tasks.json", "packages/b/.VSCode/Tasks.json", "packages/b/.envrc", ".Claude/settings.json"} <= trusted(done), done["changed_trust"]
    # At the top they are none of the command's to make.
    names = [n for n in STRONG if n.split("/")[0] not in (".vscode", ".claude", ".mcp.json")]
    done = report(put(names))
    assert {n if n in (".sl/config",) else n.split("/")[0] for n in names} <= taken(done), done["denials"]
    assert not [n for n in names if (workspace() / n).exists()]


@test
def what_agents_obey_is_taken_away_or_told():
    """Of each agent that `brig wrap` knows, by its own name (model/known/agent_files.h), and of those that it does not."""
    gone = ("opencode.json", "opencode.jsonc", ".opencode/plugin/x.js", ".openhands/setup.sh", ".kilocode/mcp.json", ".trae/mcp.json", ".vs/mcp.json", ".pi/x", ".augment/x", ".iflow/x",
            ".codebuddy/x", ".crush/crush.json", ".vim/coc-settings.json", ".cshrc", ".tcshrc", ".kshrc", ".pdbrc", "_darcs/prefs/defaults")
    said = ("CLAUDE.md", "CLAUDE.local.md", "AGENTS.override.md", ".aider.conf.yml", "bunfig.toml", ".pnp.cjs", ".irbrc", ".pryrc", ".Rprofile", ".iex.exs", ".ghci", ".ocamlinit",
            ".octaverc", ".bazelrc", ".lazy.lua", ".lfsconfig", ".repo/repo/main.py")
    done = report(put(gone + said))
    assert not [n for n in gone if (workspace() / n).exists()], taken(done)
    assert set(said) <= trusted(done) | {n + "/main.py" for n in trusted(done)}, set(said) - trusted(done)


@test
def a_new_name_with_a_dot_is_told_whatever_it_is_and_everyday_work_is_quiet():
    (workspace() / ".mine").write_text("x")
    done = report(put((".nextagent/mcp.json", ".unknownrc", ".Mine")) + "; echo y >> .mine")
    assert trusted(done) == {".nextagent", ".unknownrc", ".Mine"}, done["changed_trust"]
    # Once, when it is made; and what builds, tests and editors leave is not told at all.
    everyday = (".pytest_cache/v", ".mypy_cache/x", ".ruff_cache/x", ".cache/x", ".tox/x", ".coverage", ".eslintcache", ".gitignore", ".a.c.swp", ".next/x",
                "node_modules/z/.vscode/settings.json", "node_modules/z/package.json", "target/debug/x", "src/.gitignore")
    done = report(put((".nextagent/other", *everyday)))
    assert trusted(done) == set() and not done["denials"], (done["changed_trust"], done["denials"])


# ---- as commits ----


def git(*words, at=None):
    done = subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=a@b", *words], cwd=at or repo(), preexec_fn=lambda: os.setuid(uid()) if os.geteuid() == 0 else None,
                          env={**os.environ, "HOME": str(home())}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout.strip()


def repo():
    return workspace() / "repo"


def repository():
    """Of the user's: a commit, an editor's settings among it, and a branch with others."""
    shutil.rmtree(repo(), ignore_errors=True)
    shutil.rmtree(workspace() / "repo.worktrees", ignore_errors=True)
    repo().mkdir()
    if os.geteuid() == 0:
        os.chown(repo(), uid(), uid())
    git("init", "-q", "-b", "main", ".")
    git("config", "user.name", "n")
    git("config", "user.email", "a@b")
    for name in ("f", ".vscode/settings.json"):
        (repo() / name).parent.mkdir(exist_ok=True)
        (repo() / name).write_text("mine\n")
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{uid()}:{uid()}", repo()], check=True)
    git("add", "-A")
    git("commit", "-qm", "one")
    git("commit", "-q", "--allow-empty", "-m", "two")


PUT = '''put() { h=$(printf '%s' "${2:-evil}" | git hash-object -w --stdin); git update-index --add --cacheinfo "${3:-100644},$h,$1"; }
tree() { put "$1"; t=$(git write-tree); git reset -q; echo $t; }
'''
NEXT = 'c=$(git commit-tree -p HEAD -m x $(tree .envrc)); '
# What a run does in a repository, and what its commits bring by that.
CARRIED = {
    "plain": ("put .envrc; put .husky/pre-commit '#!/bin/sh' 100755; git commit -qm x", {".envrc", ".husky/pre-commit"}),
    "deep": ("put packages/a/.claude/settings.json; git commit -qm x", {"packages/a/.claude/settings.json"}),
    "letters": ("put .VSCode/Tasks.json; git commit -qm x", {".VSCode/Tasks.json"}),
    "changed": ("put .vscode/settings.json; git commit -qm x", {".vscode/settings.json"}),
    "amended": ("put .mcp.json; git commit -q --amend -m x", {".mcp.json"}),
    "taken back": ("put .envrc; git commit -qm x; git rm -q --cached .envrc; git commit -qm y", {".envrc"}),
    "merged": ("git checkout -qb side; put .envrc; git commit -qm x; git reset -q --hard; git checkout -q main; git commit -q --allow-empty -m z; git merge -q --no-edit side", {".envrc"}),
    "renamed": ("git mv f g; git commit -qm x; git update-index --add --cacheinfo 100644,$(git rev-parse HEAD:g),.envrc; git update-index --force-remove g; git commit -qm y", {".envrc"}),
    "tag": (NEXT + "git tag -am t v1 $c", {".envrc"}),
    "by hand": (NEXT + "mkdir -p .git/refs/odd; echo $c > .git/refs/odd/x", {".envrc"}),
    "packed": (NEXT + "git branch x $c; git pack-refs --all", {".envrc"}),
    "no ref's name": (NEXT + "echo $c > .git/refs/heads/x.lock", {".envrc"}),
    "detached": (NEXT + "git checkout -q --detach; git update-ref HEAD $c", {".envrc"}),
    "stash": (NEXT + "git update-ref refs/stash $c", {".envrc"}),
    "gitlink": ("git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),.cursor; git commit -qm x", {".cursor"}),
    "link": ("put .claude /nowhere 120000; git commit -qm x", {".claude"}),
    "graft": ("c=$(git commit-tree -m old $(tree .envrc)); n=$(git commit-tree -p $c -m x $c^{tree}); mkdir -p .git/info; echo $(git rev-parse HEAD) $c > .git/info/grafts; git update-ref refs/heads/x $n", {".envrc", ".vscode/settings.json"}),
    "replaced": (NEXT + "git replace $(git rev-parse HEAD) $c", {".envrc", ".git"}),
    "not there": ("echo 0123456789012345678901234567890123456789 > .git/refs/heads/x", {".git"}),
    "nothing": ("echo more >> f; git add f; git commit -qm x; git tag v2; git branch y", set()),  # the control
}


@test(as_user="both", limit=180)
def what_is_forbidden_as_a_file_is_told_as_a_commit():
    for name, (script, brings) in CARRIED.items():
        repository()
        done = report(PUT + script, cwd=repo())
        assert done["exit_code"] == 0, (name, done["stderr"])
        said = {c["path"]: c["reason"] for c in done["changed_trust"]}
        assert set(said) == brings, (name, said, done["denials"])
        assert all(p == ".git" or "in commit " in said[p] for p in brings), (name, said)
        # What is there now is what was there: nothing is told twice.
        assert report("git log -1", cwd=repo())["changed_trust"] == [], name


@test(as_user="both")
def commits_are_told_wherever_the_project_is():
    """The way to it is there for whoever reads the commits, by any name."""
    repository()
    for name in ("/tmp/c", "/tmp/t", "/tmp/old"):
        at = pathlib.Path(name)
        try:
            at.mkdir()
        except FileExistsError:  # somebody's of this machine, and no project's of these tests
            continue
        try:
            subprocess.run(["cp", "-a", repo(), at / "p"], check=True)
            done = report(PUT + CARRIED["plain"][0], cwd=at / "p")
            assert trusted(done) == CARRIED["plain"][1] and done["denials"] == [], (name, done)
        finally:
            shutil.rmtree(at)


@test
def a_repository_that_is_removed_brings_nothing():
    repository()
    for script in ("rm -rf repo", "rm -rf .git"):
        (repo() if "repo" in script else workspace()).mkdir(exist_ok=True)
        git("init", "-q", at=repo() if "repo" in script else workspace())
        done = report(f"exec 2>/dev/null; {script}; true")
        assert not [d for d in done["denials"] if "commits" in d["reason"]], (script, done["denials"])


@test(as_user="both", limit=120)
def a_branch_is_not_checked_out_with_what_a_run_has_committed():
    def branch(name):
        return brig("wrap", "--branch", name, "--", "cat", "f", cwd=repo())

    repository()
    done = branch("mine")  # the control: what the user's own tree has comes along
    assert done.status == 0 and (workspace() / "repo.worktrees/mine/.vscode/settings.json").read_text() == "mine\n", done
    assert "git merge mine;" in done.errors and git("rev-parse", "--abbrev-ref", "HEAD", at=workspace() / "repo.worktrees/mine") == "mine", done.errors
    for script, name in (("put .envrc; git commit -qm x", ".envrc"), ("put .vscode/settings.json; git commit -qm x", ".vscode/settings.json"), ("put a/.MCP.json; git commit -qm x", "a/.MCP.json"),
                         (NEXT + "git branch task $c", ".envrc"), ("put .cursor /nowhere 120000; git commit -qm x", ".cursor")):
        repository()
        report(PUT + script, cwd=repo())
        done = branch("task")
        assert done.status == 125 and f"'{name}'" in done.errors and "git show" in done.errors, (script, done.errors)
        assert not (workspace() / "repo.worktrees/task").exists()
    # The lines are there to be pasted: a name that the run chose is one word.
    repository()
    report(PUT + "put '.vscode/$(id >x).json'; git commit -qm x", cwd=repo())
    done = branch("task")
    line = next(x for x in done.errors.splitlines() if "git show" in x)
    assert ":.vscode/$(id >x).json" in shlex.split(line.split("git show ")[1].split("; if ")[0])[0] and f"git worktree add {workspace()}/repo.worktrees/task task" in line, line
    # An agent on its branch: the merge is named with what it brings.
    repository()
    done = brig("wrap", "--branch", "work", "--", "sh", "-c", PUT + "put .envrc; git commit -qm x", cwd=repo())
    assert done.status == 0 and "git merge work (it brings what programs on this host obey: .envrc;" in done.errors and "'.envrc' (in commit " in done.errors, done.errors
    shutil.rmtree(home() / ".cache", ignore_errors=True)  # the HOME that wrap keeps


if __name__ == "__main__":
    sys.exit(main())
