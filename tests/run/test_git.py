#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Workspaces with a git repository: ordinary work goes on, and what the host would run or obey later stays the user's."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import (PATIENCE, brig, brig_environment, home, identity, main, scratch, start_brig, state, test, tree, wait_until, workspace)  # noqa: E402

HELD = (".vscode", ".mcp.json", ".claude", ".codex", ".cursor", ".gemini")
CHECKED = (".envrc", ".githooks", ".gitattributes", ".husky", ".idea", ".zed", ".devcontainer", ".windsurf", ".continue",
           ".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".inputrc", ".gitconfig", ".opencode", ".helix", ".direnv", ".qwen", "crush.json")
ME = ("-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "init.defaultBranch=main")
AS_ME = "git " + " ".join(ME) + " "


def settle():
    """Fixtures are root's where root starts brig; without idmapped mounts the workspace is somebody else's, and they must be, too."""
    owner = os.stat(workspace()).st_uid
    if identity() == "root" and owner != 0:
        for top in (workspace(), scratch()):
            for name, about in tree(top).items():
                if about[1] != owner:
                    os.chown(top / name, owner, owner, follow_symlinks=False)


def sh(script, *options, **more):
    settle()
    return brig("run", *options, "--", "sh", "-c", script, **more)


def report(script, *options, ended=False, **more):
    """Run a shell line and return the report's object; the script must not fail."""
    done = sh(f"set -e; {script}", "--json", *options, **more)
    assert done.status == (125 if ended else 0), done.json["output"] + done.errors
    return done.json


def git(*args, at=None):
    """git on the host, as the owner of the workspace; its output."""
    settle()
    at = at or workspace()
    owner = os.stat(workspace()).st_uid
    argv = ["git", *ME, *args]
    if os.geteuid() == 0 and owner != 0:
        argv = ["setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups", "--", *argv]
    done = subprocess.run(argv, cwd=at, env=brig_environment({"HOME": "/nonexistent"}), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


def repository(at=None):
    """A repository with one commit."""
    at = at or workspace()
    git("init", "-q", at=at)
    (at / "file").write_text("text\n")
    git("add", "file", at=at)
    git("commit", "-q", "-m", "first", at=at)


def contents(path):
    """Names, modes, owners and bytes of all below a folder."""
    settle()
    return {name: (about, (path / name).read_bytes() if about[0][0] == "-" else None) for name, about in tree(path).items()}


def quarantined(r, *names):
    """Exactly these were taken away, and each is said to be somewhere and is there."""
    denials = {d["target"]: d for d in r["denials"]}
    assert set(denials) == set(names), r["denials"]
    for name, d in denials.items():
        assert d["kind"] == "protected-path", d
        assert not os.path.lexists(workspace() / name), f"{name} is still there"
        place = pathlib.Path(d["reason"].rsplit(" ", 1)[1])
        assert os.path.lexists(workspace() / place), d
        forget(workspace() / place)


def forget(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def waiting(script, *options):
    """Start a run that waits for the file `go` after saying `ready`."""
    settle()
    p = start_brig("run", *options, "--", "sh", "-c", f"touch ready; while [ ! -e go ]; do sleep 0.01; done; {script}")
    assert wait_until((workspace() / "ready").exists), p.stderr.read1(2000) if p.poll() is not None else "not ready"
    return p


# ---- ordinary work ----


@test
def status_add_and_commit_work_inside():
    repository()
    done = sh(f"set -e; git status --porcelain; echo more >> file; echo new > other; git add -A; {AS_ME} commit -q -m second; git log --oneline | wc -l")
    assert (done.status, done.text) == (0, "2\n"), done.text + done.errors
    assert git("status", "--porcelain") == "" and git("log", "--format=%s").split() == ["second", "first"]
    assert "error" not in git("fsck", "--strict")


@test
def files_made_by_git_inside_keep_the_owner_of_the_workspace():
    repository()
    sh(f"echo new > other; git add -A; {AS_ME} commit -q -m second; git gc -q")
    owner = os.stat(workspace()).st_uid
    assert {about[1] for about in tree(workspace()).values()} == {owner}


@test
def branches_stashes_rebases_and_tags_work_inside():
    repository()
    done = sh(f"set -e; git checkout -q -b side; echo a > a; git add a; {AS_ME} commit -q -m a; git checkout -q -; echo b > b; git add b; "
              f"{AS_ME} commit -q -m b; {AS_ME} rebase -q side; echo c >> file; {AS_ME} stash -q; {AS_ME} stash pop -q; git tag v1; git branch")
    assert done.status == 0, done.errors
    assert git("log", "--format=%s").split() == ["b", "a", "first"] and git("tag") == "v1\n"
    assert git("status", "--porcelain") == " M file\n"


@test
def clones_worktrees_and_bare_repositories_in_the_workspace_work_inside():
    repository()
    target = ("--set", f"workspace.target={workspace()}")
    r = report(f"git clone -q --bare . bare.git; git remote -v; git clone -q bare.git c; cd c; echo a > a; git add a; {AS_ME} commit -q -m in-c; git push -q; {AS_ME} pull -q --rebase; cd ..; "
               "git fetch -q bare.git; git worktree add -q w; echo x > w/x; git -C w add x; git worktree add -q w2; git worktree remove --force w2; "
               f"{AS_ME} -C w commit -q -m in-w; git gc -q; git init -q n", *target)
    assert r["denials"] == [], r["denials"]
    r = report(f"git -C w status; git -C c fetch -q; cd c; echo b >> a; {AS_ME} commit -qam two; git push -q; git gc -q; cd ..; git clone -q c d; git worktree prune", *target)
    assert r["denials"] == [], r["denials"]
    assert git("log", "-1", "--format=%s", at=workspace() / "bare.git") == "two\n" and git("status", "--short", at=workspace() / "d") == ""
    shutil.rmtree(workspace() / "c")


@test
def everyday_work_goes_on_where_hooks_are_elsewhere():
    repository()
    subprocess.run(["sh", "-c", "mkdir hooks; echo '#!/bin/sh' > hooks/pre-commit; chmod 755 hooks/pre-commit; git config core.hooksPath hooks; git config include.path ../shared; echo > shared"],
                   cwd=workspace(), check=True)
    for _ in range(2):
        r = report(f"echo a >> file; {AS_ME} commit -qam a; git checkout -q -B side; git worktree add -q -f w -B w; git worktree remove --force w; git stash list; git gc -q")
        assert r["denials"] == [], r["denials"]


@test
def a_commit_inside_leaves_nothing_but_the_commit():
    repository()
    before = set(tree(workspace()))
    r = report(f"echo new > other; git add -A; {AS_ME} commit -q -m second")
    assert r["denials"] == []
    new = {n for n in set(tree(workspace())) - before if not n.startswith(".git/objects/")}
    assert new <= {"other", ".git/COMMIT_EDITMSG", ".git/ORIG_HEAD"}, new


@test
def a_clean_run_in_a_repository_changes_not_one_byte():
    repository()
    before = contents(workspace())
    assert report("git log --oneline; ls -la; true")["denials"] == []
    assert contents(workspace()) == before


# Programs that go through the whole project, each with what it found or failed at.
WALK = r"""
t=$(mktemp -d); top=$(pwd)
each() { n=$1; shift; "$@" > $t/said 2>&1; echo "$n $? $(sort $t/said | tr '\n' ' ')"; }
list() { find "$1" -path "$1/.git" -prune -o -mindepth 1 \( -type f -printf '%P f %s\n' -o -printf '%P %y\n' \); }
each copy sh -c "cp -a . $t/copy"
each copied list $t/copy
each copytree python3 -c "
import os, shutil
shutil.copytree('.', '$t/tree')
for top, _, names in os.walk('.'):
    for n in names: open(os.path.join(top, n), 'rb').read()"
each tree list $t/tree
each tar sh -c "tar cf $t/all.tar . && tar tf $t/all.tar | grep -v /.git"
each find find . -path ./.git -prune -o -type f -print
each grep grep -rl text --exclude-dir=.git .
each add git add -A -n
each stash git stash -q -u
each pop git stash pop -q
each clean git clean -fdxq
each status git status --short
rm -rf $t
"""


def walked():
    """What the programs find outside, then inside, of the same project."""
    owner = os.stat(workspace()).st_uid
    argv = ["sh", "-c", WALK]
    if os.geteuid() == 0 and owner != 0:
        argv = ["setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups", "--", *argv]
    (workspace() / "new").write_text("text\n")
    settle()
    outside = subprocess.run(argv, cwd=workspace(), env=brig_environment({"HOME": "/nonexistent"}), capture_output=True, text=True, check=False)
    (workspace() / "new").write_text("text\n")
    inside = sh(WALK)
    found = [(a.split(" ", 2), b.split(" ", 2)) for a, b in zip(outside.stdout.splitlines(), inside.stdout.decode().splitlines())]
    assert len(found) == WALK.count("\neach "), (outside, inside.stdout, inside.errors)
    assert all(a[:2] == b[:2] and a[1] == "0" for a, b in found), found
    return found


@test(backends=("native", "bwrap"))
def who_walks_through_the_whole_tree_finds_what_is_there_outside():
    """A name that is missing reads as an empty file, and git does not see it; one that is there is as it is."""
    repository()
    for key in ("name", "email"):
        git("config", f"user.{key}", "me")
    for (name, _, out), (_, _, got) in walked():
        for n in HELD if name in ("copied", "tree", "tar") else ():
            line = f"./{n} " if name == "tar" else f"{n} f {21 if n == '.mcp.json' else 0} "
            assert line in got, (name, got)
            got = got.replace(line, "")
        assert got == out, (name, out, got)
    for n in HELD:
        (workspace() / n).mkdir()
        (workspace() / n / "settings").write_text("text\n")
    git("add", "-A")
    git("commit", "-q", "-m", "2")
    assert [(a, b) for a, b in walked() if a != b] == []


@test(backends=("native", "bwrap"))
def an_agents_empty_folder_is_not_in_gits_way():
    """A wrapped agent finds its folder of settings, which git would remove; in other repositories git sees such folders."""
    (scratch() / "cache").mkdir()
    if identity() == "root":
        os.chown(scratch() / "cache", *(2 * [os.stat(workspace()).st_uid]))
    repository()
    (workspace() / "new").write_text("text\n")
    script = f"test -d .claude && {AS_ME} stash -qu && git stash pop -q > /tmp/said && test -e new && git clean -fd; git init -q /tmp/x; mkdir /tmp/x/.claude; touch /tmp/x/.claude/y; git -C /tmp/x status --short"
    done = sh(f"set -e; {script}", "--home", "keep", "--home-seed", "claude", env={"XDG_CACHE_HOME": str(scratch() / "cache")})
    assert done.status == 0 and done.text == "Removing new\n?? .claude/\n", (done.text, done.errors)
    (workspace() / ".claude").mkdir()  # there is one: it is git's to see
    (workspace() / ".claude/mine").write_text("text\n")
    done = sh("git status --short", "--home", "keep", "--home-seed", "claude", env={"XDG_CACHE_HOME": str(scratch() / "cache")})
    assert done.text == "?? .claude/\n", (done.text, done.errors)


@test
def placeholders_do_not_show_in_git_status():
    repository()
    p = waiting("git status --porcelain --ignored --untracked-files=all; rm ready go")
    assert (workspace() / ".vscode").is_socket(), "no placeholder: the test is void"
    assert git("status", "--porcelain", "--untracked-files=all") == "?? ready\n"
    (workspace() / "go").touch()
    assert sorted(p.communicate(timeout=20 * PATIENCE)[0].split()) == [b"??", b"??", b"go", b"ready"]
    assert git("status", "--porcelain", "--ignored") == ""


@test
def the_host_can_commit_during_a_run():
    repository()
    p = waiting("git log --format=%s | head -1; exit 3")
    (workspace() / "file").write_text("changed\n")
    git("commit", "-q", "-a", "-m", "second")
    (workspace() / "go").touch()
    out, err = p.communicate(timeout=20 * PATIENCE)
    assert (p.returncode, out) == (3, b"second\n"), err


# ---- names that are held ----


@test
def hooks_and_config_can_be_neither_changed_nor_removed():
    repository()
    (workspace() / ".git/hooks").mkdir(exist_ok=True)
    (workspace() / ".git/hooks/pre-commit").write_text("#!/bin/sh\nexit 0\n")
    def now():
        return {n: c for n, c in contents(workspace() / ".git").items() if n.startswith(("hooks", "config"))}

    before = now()
    for attack in ("echo evil > .git/hooks/pre-commit", "echo evil > .git/hooks/post-checkout", "rm .git/hooks/pre-commit",
                   "chmod 777 .git/hooks/pre-commit", "mv .git/hooks .git/other", "rm -rf .git/hooks && mkdir .git/hooks",
                   "ln .git/hooks/pre-commit own && echo evil > own", "git config core.fsmonitor evil", "echo evil > .git/config",
                   "mv .git/config .git/c", "ln -sf /tmp/x .git/config", "cp file .git/c && mv .git/c .git/config",
                   "git config core.hooksPath .", "truncate -s 0 .git/config"):
        assert sh(attack).status != 0, attack
    assert now() == before
    assert set(os.listdir(workspace())) == {".git", "file"}


@test
def a_missing_hooks_folder_cannot_be_made():
    repository()
    shutil.rmtree(workspace() / ".git/hooks", ignore_errors=True)
    before = contents(workspace())
    assert sh("mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit").status != 0
    assert sh("rmdir .git/hooks; ln -s ../evil .git/hooks; mkdir evil; echo x > .git/hooks/pre-commit").status != 0
    shutil.rmtree(workspace() / "evil", ignore_errors=True)
    assert contents(workspace()) == before


@test
def held_names_that_are_missing_cannot_be_made():
    for name in HELD:
        for attack in (f"echo evil > {name}", f"rm -rf {name}; echo evil > {name}", f"mkdir -p {name} && echo evil > {name}/settings.json",
                       f"echo evil > x; mv -T x {name}", f"ln -sfT /tmp {name} && test -L {name}"):
            assert sh(attack).status != 0, attack
    assert set(tree(workspace())) <= {"x"}


@test
def held_names_that_exist_cannot_be_changed():
    (workspace() / ".vscode").mkdir()
    (workspace() / ".vscode/settings.json").write_text("{}\n")
    (workspace() / ".mcp.json").write_text("{}\n")
    (workspace() / ".mcp.json").chmod(0o640)
    before = contents(workspace())
    for attack in ("echo evil > .vscode/tasks.json", "echo evil > .vscode/settings.json", "mv .vscode other", "rm -rf .vscode",
                   "echo evil > .mcp.json", "mv .mcp.json other", "rm .mcp.json", "chmod 777 .mcp.json", "touch .vscode/new"):
        assert sh(attack).status != 0, attack
    assert sh("cat .vscode/settings.json .mcp.json").stdout == b"{}\n{}\n"
    assert contents(workspace()) == before


@test(as_user="user")
def a_shared_workspace_of_another_owner_is_one_like_any_other():
    if os.geteuid() != 0:
        return  # only root can give a folder away
    os.chown(workspace(), 0, 0)
    workspace().chmod(0o777)
    done = sh("touch made; echo evil > .vscode/x || echo held")
    assert (done.status, done.stdout) == (0, b"held\n"), done.errors
    assert set(tree(workspace())) == {"made"}


@test
def the_git_folder_and_folders_with_covers_cannot_be_renamed():
    repository()
    before = set(tree(workspace()))
    for attack in ("mv .git other", "mv .vscode other", "rm -rf .git", "mkdir x && mv -T x .git", "mv .git/info .git/other"):
        assert sh(attack).status != 0, attack
        shutil.rmtree(workspace() / "x", ignore_errors=True)
    assert {n for n in before - set(tree(workspace())) if "hooks" in n or "config" in n} == set()
    assert (workspace() / ".git").is_dir() and not (workspace() / "other").exists()


# ---- names that are looked for afterwards ----


@test
def checked_names_that_appear_are_quarantined_and_reported():
    for i, name in enumerate(CHECKED):
        made = f"mkdir {name} && echo evil > {name}/x" if i % 2 else f"echo evil > {name}"
        quarantined(report(made), name)
    assert tree(workspace()) == {}


@test
def checked_names_of_every_type_are_quarantined():
    for made in ("ln -s /etc/passwd .envrc", "mkfifo .envrc", "mkdir -p .envrc/a/b/c", "touch .envrc; chmod 000 .envrc", "ln file .envrc"):
        (workspace() / "file").write_text("text\n")
        quarantined(report(made), ".envrc")
    assert set(tree(workspace())) == {"file"}


@test
def several_names_in_one_run_are_all_reported():
    quarantined(report("for n in .envrc .bashrc .husky .zshrc; do echo evil > $n; done; echo good > fine"), ".envrc", ".bashrc", ".husky", ".zshrc")
    assert set(tree(workspace())) == {"fine"}


@test
def quarantine_is_shown_put_back_and_cleared_and_is_no_repository():
    """The control: the folder that was put back is one."""
    evil = scratch() / "ran"
    report(f"printf 'evil\\033[2J\\n' > .envrc; git init -q .husky; git -C .husky config core.fsmonitor 'touch {evil}'; git init -q --bare .devcontainer; git -C .devcontainer config alias.x '!touch {evil}'")
    listed = {q["from"].rsplit("/", 1)[1]: q for q in brig("quarantine", "--json").json["quarantine"]}
    assert set(listed) == {".envrc", ".husky", ".devcontainer"} and listed[".husky"]["kind"] == "folder" and "made during" in listed[".envrc"]["why"], listed
    shown = brig("quarantine", "show", listed[".envrc"]["id"], listed[".husky"]["id"]).text
    assert "evil" in shown and "\033" not in shown and "git.taken" in shown, shown
    for name in (".husky", ".devcontainer"):
        try:
            git("-C", state() / "brig/quarantine" / listed[name]["id"] / "thing", "x" if name == ".devcontainer" else "status")
            raise RuntimeError("git obeyed what is in quarantine")
        except AssertionError:
            assert not evil.exists(), name
    assert "3 (brig quarantine)" in brig("doctor").text
    (workspace() / ".envrc").write_text("mine")
    done = brig("quarantine", "restore", listed[".envrc"]["id"])
    assert done.status == 125 and "hint: something is there" in done.errors and (workspace() / ".envrc").read_text() == "mine", done
    assert brig("quarantine", "restore", listed[".husky"]["id"]).status == 0
    git("status", at=workspace() / ".husky")
    assert evil.exists() and report("true")["denials"] == [], "it is the user's now"
    evil.unlink()
    for words, said in ((("clear", "../records"), "there is no"), (("restore", "nope"), "there is no"), (("clear",), "takes an id"), (("show", "."), "there is no")):
        done = brig("quarantine", *words)
        assert done.status == 125 and said in done.errors and "hint: " in done.errors, (words, done)
    assert brig("quarantine", "clear", "--all").text == "2 removed\n" and brig("quarantine").text == "nothing is in quarantine\n"


@test
def a_volume_in_the_git_folder_of_a_work_tree_is_refused():
    """That folder is mounted over it: the host's would be written to in its place."""
    repository()
    git("worktree", "add", "-q", "w")
    at, line = ("--workdir", workspace() / "w"), ("--", "sh", "-c", f"echo x > {workspace()}/.git/logs/y")
    done = brig("run", *at, "--volume", f"v:{workspace()}/.git/logs", *line)
    assert done.status == 125 and "volume: " in done.errors and "rules of its own" in done.errors, done.errors
    assert not (workspace() / ".git/logs/y").exists()
    brig("run", *at, *line)
    assert (workspace() / ".git/logs/y").exists()  # the control: without it the command may write there


@test
def a_sparse_checkout_that_was_begun_outside_goes_on_inside_and_a_removed_work_tree_is_told():
    repository()
    for name in ("a", "b"):
        (workspace() / name).mkdir()
        (workspace() / name / "f").write_text("x\n")
    git("add", "-A")
    git("commit", "-qm", "two")
    git("worktree", "add", "-q", "w")
    git("sparse-checkout", "init", "--cone")
    r = report("git sparse-checkout set a; test -e a/f; test ! -e b; git sparse-checkout add b; test -e b/f; git sparse-checkout reapply")
    assert r["denials"] == [] and git("sparse-checkout", "list") == "a\nb\n", r["denials"]
    done = sh("git worktree remove w")
    assert done.status != 0 and "hint: the work tree's files are gone" in done.errors, done
    git("worktree", "prune")  # as the hint says
    assert git("worktree", "list").count("\n") == 1 and report("true")["denials"] == []
    git("sparse-checkout", "disable")
    done = sh("git sparse-checkout set a")
    assert done.status != 0 and "hint: git sparse-checkout" in done.errors, done


@test
def quarantine_is_listed_by_time_and_cleared_by_age():
    """Age is what brig wrote down: nothing that the run set on a file."""
    days = [50, 3, 31, 0, 29]
    for _ in days:
        report("echo evil > .envrc; touch -d 2001-01-01 .envrc")
    for age, one in zip(days, brig("quarantine", "--json").json["quarantine"]):
        about = state() / "brig/quarantine" / one["id"] / "about"
        words = json.loads(about.read_text())
        about.write_text(json.dumps({**words, "when": words["when"] - age * 86400}))
    listed = [one["when"] for one in brig("quarantine", "--json").json["quarantine"]]
    assert listed == sorted(listed) and len(listed) == 5, listed
    assert "5, for up to 50 days (brig quarantine; brig quarantine clear --older 30d)" in brig("doctor").text
    for words in (("--older",), ("--older", "soon"), ("--older", "30d", "--all")):
        done = brig("quarantine", "clear", *words)
        assert done.status == 125 and "hint: " in done.errors, done
    assert brig("quarantine", "clear", "--older", "30d").text == "2 removed\n"
    assert [one["when"] for one in brig("quarantine", "--json").json["quarantine"]] == listed[2:]
    assert brig("quarantine", "clear", "--older", "0s").text == "3 removed\n"


@test
def quarantine_is_told_on_stderr_as_well():
    done = sh("echo evil > .bashrc; exit 3")
    assert done.status == 3 and "protected-path '.bashrc'" in done.errors
    forget(pathlib.Path(done.errors.strip().rsplit(" ", 1)[1]))
    assert tree(workspace()) == {}


@test
def checked_names_that_exist_are_covered():
    (workspace() / ".envrc").write_text("export A=1\n")
    (workspace() / ".husky").mkdir()
    (workspace() / ".husky/pre-commit").write_text("npm test\n")
    (workspace() / ".husky/pre-commit").chmod(0o755)
    before = contents(workspace())
    for attack in ("echo evil >> .envrc", "rm .envrc", "mv .envrc other", "echo evil > .husky/pre-commit", "touch .husky/new", "mv .husky other"):
        assert sh(attack).status != 0, attack
    assert contents(workspace()) == before


@test
def names_made_and_removed_again_are_no_matter():
    assert report("echo x > .envrc; rm .envrc; mkdir .husky; rmdir .husky")["denials"] == []


@test
def names_are_quarantined_however_the_run_ends():
    for script, options, status in (("echo evil > .envrc; sleep 60", ("--timeout", "500ms"), 124), ("echo evil > .envrc; kill -9 $$", (), 137)):
        done = sh(script, "--json", *options)
        assert done.status == status
        quarantined(done.json, ".envrc")


@test
def a_link_in_place_of_a_protected_name_is_compared():
    (workspace() / "real").write_text("mine\n")
    (workspace() / ".envrc").symlink_to("real")
    assert sh("echo evil > real").status != 0, "what the link leads to is covered"
    assert report("true")["denials"] == [] and os.readlink(workspace() / ".envrc") == "real"
    quarantined(report("ln -sfn other .envrc"), ".envrc")


@test
def readonly_needs_and_leaves_no_placeholders():
    repository()
    before = contents(workspace())
    p = start_brig("run", "--policy", "readonly", "--", "sh", "-c", "ls -A; git status --porcelain; sleep 0.2")
    assert set(p.communicate(timeout=20 * PATIENCE)[0].split()) == {b".git", b"file"}
    assert contents(workspace()) == before


# ---- a repository that is made inside ----


@test
def git_init_in_an_empty_workspace_works():
    r = report(f"{AS_ME} init -q; echo a > a; git add a; {AS_ME} commit -q -m first; git config core.autocrlf false; git config branch.main.remote origin")
    assert r["denials"] == [], r["denials"]
    assert git("log", "--format=%s") == "first\n" and git("status", "--porcelain") == ""
    assert "autocrlf" in (workspace() / ".git/config").read_text()


@test
def hooks_of_a_new_repository_are_quarantined():
    r = report("git init -q; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; mkdir .git/hooks/post-merge")
    quarantined(r, ".git/hooks")
    assert git("status", "--porcelain") == ""


@test
def a_hooks_folder_that_is_a_link_is_quarantined():
    quarantined(report("git init -q; rm -rf .git/hooks; mkdir evil; echo evil > evil/pre-commit; ln -s ../evil .git/hooks"), ".git/hooks")


@test(as_user="user")
def a_new_config_that_runs_programs_is_quarantined():
    left = []
    for setting in ("core.fsmonitor evil", "core.hooksPath evil", "alias.st '!evil'", "core.pager evil", "core.sshCommand evil", "core.editor evil",
                    "diff.external evil", "filter.x.clean evil", "filter.x.smudge evil", "credential.helper '!evil'", "gpg.program evil",
                    "include.path evil", "core.worktree /etc", "merge.x.driver evil", "sequence.editor evil", "difftool.x.cmd evil",
                    "diff.x.textconv evil", "remote.x.uploadpack evil", "core.askPass evil", "browser.x.cmd evil", "gpg.ssh.defaultKeyCommand evil",
                    "interactive.diffFilter evil", "trailer.x.command evil", "uploadpack.packObjectsHook evil", "pager.log evil", "core.alternateRefsCommand evil"):
        r = report(f"git init -q; git config {setting}")
        if r["denials"]:
            quarantined(r, ".git/config")
        else:
            left.append(setting)
        shutil.rmtree(workspace() / ".git")
    assert not left, f"these were left for the host's git to obey: {left}"


@test(as_user="user")
def a_config_written_to_be_misread_is_quarantined():
    left = []
    for text in ("[core] fsmonitor = evil\n", "[core]fsmonitor=evil\n", "[core]\n\\tfsmonitor\\t=\\tevil\n", "[CORE]\n FSMONITOR = evil\n",
                 "[core]\\r\n\\tfsmonitor = evil\\r\n", "[alias] st = !evil\n", "[include] path = evil\n", "[ core]\n[includeIf \"gitdir:/\"]\npath = evil\n",
                 "\\357\\273\\277[core]\n fsmonitor = evil\n", "[core]\n fsmonitor = evil", "[core]; comment\n fsmonitor = evil\n",
                 "[user] name = \"a\\\\\n b\"\n[core] fsmonitor = evil\n", "[core]\n fsmonitor\\f= evil\n", "[core] bare = false\n [core] fsmonitor = evil\n",
                 "[core \"\"] x = 1 \n[core] hooksPath = evil\n"):
        r = report(f"git init -q; printf '%b' '{text}' > .git/config")
        if r["denials"]:
            quarantined(r, ".git/config")
        else:  # left there only if git itself does not obey it
            config = workspace() / ".git/config"
            seen = subprocess.run(["git", "config", "--file", config, "--list"], capture_output=True, text=True, check=False)
            if seen.returncode == 0 and "evil" in seen.stdout:
                left.append(text)
        shutil.rmtree(workspace() / ".git")
    assert not left, f"these were left, and git reads them: {left}"


@test
def an_alternate_config_of_a_new_repository_is_quarantined():
    """git reads config.worktree when config says so, and attributes from info/attributes."""
    r = report("git init -q; git config extensions.worktreeConfig true; git config --worktree core.fsmonitor evil")
    assert r["denials"], "config.worktree with core.fsmonitor was left, and extensions.worktreeConfig makes git read it"
    seen = git("config", "--list")
    assert "evil" not in seen, seen
    for d in r["denials"]:
        forget(workspace() / d["reason"].rsplit(" ", 1)[1])


def obeyed_by_the_hosts_git(*more):
    """Whether git on the host, started in the workspace, reads a setting that was made inside."""
    done = subprocess.run(["git", "-c", "safe.directory=*", *more, "config", "--list"], cwd=workspace(), capture_output=True, text=True, check=False,
                          env=brig_environment({"HOME": "/nonexistent", "GIT_CEILING_DIRECTORIES": str(workspace().parent)}))
    return "core.fsmonitor=evil" in done.stdout


def forget_all(r):
    for d in r["denials"]:
        forget(workspace() / d["reason"].rsplit(" ", 1)[1])


@test
def another_common_folder_cannot_be_named_by_a_repository():
    """A file .git/commondir says where config and hooks are, not only in worktrees."""
    repository()
    r = report("cp -r .git evil; git config -f evil/config core.fsmonitor evil; echo ../evil > .git/commondir; sleep 5", ended=True)
    assert {d["target"] for d in r["denials"]} <= {".git/commondir", "evil/config"} and r["denials"][0]["target"] == ".git/commondir"
    assert not obeyed_by_the_hosts_git(), r["denials"]
    assert (workspace() / ".git/HEAD").exists()
    forget_all(r)


@test
def nothing_made_inside_is_run_by_git_on_the_host():
    """The proof of the above by deed: a hook that leaves a mark."""
    repository()
    mark = scratch() / "mark"
    hook = f"#!/bin/sh\\ntouch {mark}\\n"
    r = report(f"cp -r .git evil; mkdir -p evil/hooks; printf '{hook}' > evil/hooks/pre-commit; chmod 755 evil/hooks/pre-commit; "
               "echo ../evil > .git/commondir; sleep 5", ended=True)
    (workspace() / "file").write_text("changed\n")
    git("commit", "-q", "-a", "-m", "by the user")
    assert not mark.exists(), "a hook made inside was run"
    forget_all(r)


@test
def another_common_folder_cannot_be_named_by_a_new_repository():
    r = report("git init -q; cp -r .git evil; git config -f evil/config core.fsmonitor evil; echo ../evil > .git/commondir")
    assert not obeyed_by_the_hosts_git(), r["denials"]
    forget_all(r)


@test
def a_bare_repository_with_its_parts_elsewhere_is_undone_too():
    """With a file commondir, objects and refs need not be at the top."""
    r = report("git init -q --bare evil; git config -f evil/config core.fsmonitor evil; cp evil/HEAD .; echo evil > commondir")
    assert not obeyed_by_the_hosts_git(), r["denials"]
    forget_all(r)


@test
def a_bare_repository_around_a_file_of_the_users_is_undone_too():
    (workspace() / "HEAD").write_text("the user's own notes\n")
    r = report("git init -q --bare /tmp/b; cp -r /tmp/b/. .; git config -f config core.fsmonitor evil")
    assert not obeyed_by_the_hosts_git(), r["denials"]
    forget_all(r)


@test
def a_git_file_made_inside_is_quarantined():
    (scratch() / "evil").mkdir()
    quarantined(report(f"echo 'gitdir: {scratch()}/evil' > .git"), ".git")
    quarantined(report("mkdir real; git init -q real; mv real/.git real/x; ln -s real/x .git"), ".git")


@test
def a_bare_repository_in_place_of_the_workspace_is_undone():
    r = report("git init -q --bare /tmp/b; cp -r /tmp/b/. .; git config -f config core.fsmonitor evil")
    assert "HEAD" in {d["target"] for d in r["denials"]}
    assert not (workspace() / "HEAD").exists()
    done = subprocess.run(["git", "-c", f"safe.directory={workspace()}", "rev-parse", "--git-dir"], cwd=workspace(), capture_output=True, check=False,
                          env=brig_environment({"GIT_CEILING_DIRECTORIES": str(workspace().parent)}))
    assert done.returncode != 0, "git on the host takes the workspace for a repository"
    for d in r["denials"]:
        forget(workspace() / d["reason"].rsplit(" ", 1)[1])


@test
def folders_that_only_look_like_a_bare_repository_stay():
    assert report("mkdir objects refs; echo x > objects/a")["denials"] == []
    assert set(tree(workspace())) == {"objects", "refs", "objects/a"}


@test
def a_users_own_bare_repository_stays():
    git("init", "-q", "--bare")
    before = set(tree(workspace()))
    assert report("git log 2>/dev/null || true; touch new")["denials"] == []
    assert set(tree(workspace())) == before | {"new"}


# ---- worktrees ----


def worktree():
    """The main repository in scratch, the workspace a worktree of it."""
    top = scratch() / "main"
    top.mkdir()
    repository(top)
    git("worktree", "add", "-q", str(workspace()), at=top)
    return top


@test
def a_commit_in_a_worktree_works_inside():
    top = worktree()
    done = sh(f"set -e; git status --porcelain; echo new > other; git add -A; {AS_ME} commit -q -m second; git log --format=%s")
    assert (done.status, done.stdout) == (0, b"second\nfirst\n"), done.errors
    assert git("log", "--format=%s").split() == ["second", "first"] and git("status", "--porcelain") == ""
    assert git("log", "--format=%s", at=top) == "first\n" and git("status", "--porcelain", at=top) == ""


@test
def hooks_and_config_of_the_main_repository_are_protected_from_a_worktree():
    top = worktree()
    (top / ".git/hooks").mkdir(exist_ok=True)
    (top / ".git/hooks/pre-commit").write_text("#!/bin/sh\n")

    def now():
        return {n: c for n, c in contents(top / ".git").items() if n.startswith(("hooks", "config"))}

    before = now()
    for attack in (f"echo evil > {top}/.git/hooks/pre-commit", f"echo evil > {top}/.git/hooks/new", f"mv {top}/.git/hooks {top}/.git/h",
                   f"echo evil > {top}/.git/config", f"mv {top}/.git/config {top}/.git/c", "git config core.fsmonitor evil",
                   f"rm -rf {top}/.git/hooks", "echo 'gitdir: /etc' > .git", "rm .git", "mv .git other"):
        assert sh(attack).status != 0, attack
    sh(f"echo evil > {top}/file; rm -rf {top}/file")
    assert now() == before and (top / "file").read_text() == "text\n"


@test
def a_worktree_run_leaves_no_stubs_in_either_folder():
    top = worktree()
    shutil.rmtree(top / ".git/hooks", ignore_errors=True)
    before = contents(top), contents(workspace())
    assert report("true")["denials"] == []
    assert (contents(top), contents(workspace())) == before


@test
def the_configuration_of_a_worktree_alone_is_protected_too():
    """.git/worktrees/NAME/config.worktree is read when the repository has extensions.worktreeConfig."""
    top = worktree()
    git("config", "extensions.worktreeConfig", "true", at=top)
    r = sh("git config --worktree core.fsmonitor evil", "--json").json
    assert "evil" not in git("config", "--list"), "the host's git obeys it"
    for d in r["denials"]:
        forget(workspace() / d["reason"].rsplit(" ", 1)[1])


@test
def a_worktree_cannot_be_turned_to_another_common_folder():
    """.git/worktrees/NAME/commondir says where hooks and config are."""
    top = worktree()
    name = os.listdir(top / ".git/worktrees")[0]
    place = top / ".git/worktrees" / name
    evil = workspace() / "evil"
    r = sh(f"cp -r {top}/.git evil; git config -f evil/config core.fsmonitor evil; echo {evil} > {place}/commondir", "--json").json
    done = subprocess.run(["git", "-c", "safe.directory=*", "config", "--list"], cwd=workspace(), env=brig_environment({"HOME": "/nonexistent"}),
                          capture_output=True, text=True, check=False)
    assert "core.fsmonitor=evil" not in done.stdout, "the host's git obeys a configuration made inside"
    for d in r["denials"]:
        if "obey it" in d["reason"]:
            continue  # of the write that was refused
        forget(workspace() / d["reason"].rsplit(" ", 1)[1])


@test
def a_git_file_that_names_a_foreign_folder_is_not_believed():
    (scratch() / "foreign").mkdir()
    (scratch() / "foreign/secret").write_text("secret\n")
    repository(scratch() / "foreign")
    for goal in (scratch() / "foreign", scratch() / "foreign/.git", home()):
        (workspace() / ".git").write_text(f"gitdir: {goal}\n")
        done = sh(f"cat {scratch()}/foreign/secret; ls {goal}; touch {goal}/made")
        assert b"secret" not in done.stdout and done.status != 0
        assert (workspace() / ".git").read_text() == f"gitdir: {goal}\n"
    assert not list(scratch().rglob("made")) and not list(home().rglob("made"))


@test
def a_git_file_with_a_long_or_strange_text_is_no_obstacle():
    for text in (b"gitdir: \n", b"gitdir: /a\0b\n", b"gitdir: " + b"x/" * 5000 + b"\n", b"\xff\xfe", b"", b"gitdir: ../../../..\n"):
        (workspace() / ".git").write_bytes(text)
        assert sh("ls").status == 0, text[:30]
        assert (workspace() / ".git").read_bytes() == text


# ---- submodules and the rest of the git folder ----


@test
def what_git_runs_from_other_places_of_its_folder_is_protected():
    repository()
    git("init", "-q", "--bare", ".git/modules/sub")
    before = contents(workspace() / ".git/modules")
    assert sh("echo evil > .git/modules/sub/hooks/post-checkout").status != 0
    assert sh("echo evil > .git/modules/sub/config").status != 0
    assert contents(workspace() / ".git/modules") == before
    quarantined(report("mkdir -p .git/info; echo '* filter=x' > .git/info/attributes"), ".git/info/attributes")
    quarantined(report("echo '[core] fsmonitor = evil' > .git/config.worktree"), ".git/config.worktree")


@test
def the_users_files_of_protected_names_are_the_same_to_the_byte():
    repository()
    for i, name in enumerate([*HELD, *CHECKED]):
        path = workspace() / name
        if i % 2:
            path.mkdir(mode=0o750)
            (path / "x").write_text(f"{name}\n")
            (path / "x").chmod(0o600 if i % 3 else 0o755)
        else:
            path.write_text(f"{name}\n")
            path.chmod(0o640)
    before = contents(workspace())
    stamps = {n: os.lstat(workspace() / n).st_mtime_ns for n in tree(workspace())}
    names = " ".join([*HELD, *CHECKED])
    done = sh(f"for n in {names}; do echo evil > $n; echo evil > $n/x; rm -rf $n; chmod 777 $n; mv $n other; touch $n; done 2>/dev/null; true", "--json")
    assert done.status == 0 and done.json["denials"] == [], done.json["denials"]
    assert contents(workspace()) == before
    assert {n: os.lstat(workspace() / n).st_mtime_ns for n in tree(workspace())} == stamps


if __name__ == "__main__":
    sys.exit(main())
