#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Repositories below the workspace: what git on the host is led into by an index, and everyday work that goes on.

The oracle: after the runs the user goes on (git status, commit, checkout), and a file shows whether code of the guest's ran."""

import os
import pathlib
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import on_host  # noqa: E402
from harness import brig, main, scratch, test, workspace  # noqa: E402
from victim import (AS_ME, GITLINK, USUAL_PATH, attack, clear, drop_other, git, hook, no_git, ran, repository, settings, sh, taken,  # noqa: E402
                    told, use, with_submodule)

HERE = pathlib.Path(__file__).resolve().parent
MAKE = "python3 mk.py"


def with_writer(at):
    repository(at)
    on_host("sh", "-c", f"cat > mk.py <<'END'\n{(HERE / 'mkindex.py').read_text()}\nEND", cwd=at)


def evil(path):
    """A repository at path that runs the payload when git looks into it."""
    return f"mkdir -p {path}; cp -r .git {path}/.git; rm -f {path}/.git/index; {settings(f'{path}/.git/config')}"


# ---- a gitlink and a repository, in any order ----


@test
def a_gitlink_first_and_the_repository_in_a_later_run():
    attack(GITLINK + "sub", evil("sub"))


@test
def a_repository_first_and_the_gitlink_in_a_later_run():
    attack(evil("sub"), GITLINK + "sub")


@test
def a_gitlink_that_was_there_before_the_first_run():
    def cloned(at):
        repository(at)
        on_host("sh", "-c", f"{GITLINK}sub; {AS_ME} commit -qm link", cwd=at)

    for script in (evil("sub"), f"{evil('x')}; mv x sub", f"git rm -q --cached sub; {evil('sub')}; {AS_ME} commit -qm gone; git reset -q --hard HEAD~1",
                   f"{evil('x')}; mkdir -p sub; echo gitdir: ../x/.git > sub/.git"):
        r, gone = attack(script, prepare=cloned)
        assert gone and r["denials"], (script, r)
        clear()


@test
def a_repository_that_is_older_than_the_run_and_renamed_into_place():
    """Its parts are as old as they were; only the folder that was moved is not."""
    def cloned(at):
        repository(at)
        on_host("sh", "-c", f"mkdir -p fix; cp -r .git fix/g; rm -f fix/g/index; {settings('fix/g/config')}; {GITLINK}sub; mkdir -p sub deep/x", cwd=at)

    for script in ("mv fix/g sub/.git", "mv fix/g deep/x/.git; rmdir sub; mv deep/x sub", "mv fix/g deep/.git; rmdir sub; mv deep sub"):
        r, gone = attack(script, prepare=cloned)
        assert gone and r["denials"], (script, r)
        clear()


@test(as_user="user")
def what_is_there_is_known_before_the_command_begins():
    """An index that takes long to copy gave a run without a record the time to pass off its own as older."""
    repository()
    with (workspace() / ".git/index").open("wb") as f:
        for _ in range(100):
            f.write(os.urandom(1 << 20))
    done = brig("exec", "--no-audit", "mkdir sub; cd sub; git init -q . && git config core.fsmonitor evil")
    assert done.status == 0 and not (workspace() / "sub/.git/config").exists() and "sub/.git/config" in done.errors, done


@test
def a_repository_behind_a_new_repository_is_new():
    attack(f"git init -q n; cd n; {AS_ME} commit -q --allow-empty -m x; {GITLINK}e; mkdir e; cp -r .git ../ev; rm -f ../ev/index; mv ../ev .git/evil; {settings('.git/evil/config')}; echo gitdir: ../.git/evil > e/.git",
           "git update-index --add --cacheinfo 160000,$(git -C n rev-parse HEAD),n")


@test
def a_closed_git_folder_hides_no_hook():
    (workspace() / "x").touch()
    r = brig("run", "--json", "--", "sh", "-c", f"git init -q .; mkdir -p .git/hooks; {hook('.git/hooks/pre-commit')}; chmod 000 .git").json
    assert told(r, ".git/hooks") and not (workspace() / ".git/hooks").exists() and taken(), r["denials"]


@test
def links_where_git_keeps_submodules_go():
    for script in ("mkdir -p .git/m2/sub; ln -s m2 .git/modules", "mkdir -p .git/m2/sub .git/modules; ln -s ../m2/sub .git/modules/sub"):
        repository(workspace())
        r = brig("run", "--json", "--", "sh", "-c", script).json
        assert [d for d in r["denials"] if d["target"].startswith(".git/modules")] and taken(), (script, r["denials"])
        clear()


@test
def an_index_that_the_command_did_not_touch_stays():
    """Also where there is more of it than git is asked about."""
    repository(workspace())
    on_host("sh", "-c", f"git config core.splitIndex true; git config splitIndex.maxPercentChange 0; for i in $(seq 12); do echo $i > f$i; git add f$i; {AS_ME} commit -qm $i; done", cwd=workspace())
    before = (workspace() / ".git/index").read_bytes()
    r = brig("run", "--json", "--", "true").json
    assert r["outcome"] == "exited" and r["denials"] == [], r["denials"]
    assert (workspace() / ".git/index").read_bytes() == before


@test
def a_gitlink_that_left_the_index_still_counts():
    """The user's reset brings it back."""
    def cloned(at):
        repository(at)
        on_host("sh", "-c", f"{GITLINK}sub; {AS_ME} commit -qm link", cwd=at)

    def reset(at):
        git("reset", "-q", "--hard", cwd=at)
        use(at)

    r, gone = attack(f"git rm -q --cached sub; {evil('sub')}", prepare=cloned, look=reset, checked=False)
    assert gone and told(r, "sub/.git/config"), r


@test
def hooks_and_pointers_behind_a_gitlink():
    commit = f"{AS_ME} -C sub commit -q --allow-empty -m x"
    for make in (f"cp -r .git sub/.git; {hook('sub/.git/hooks/post-index-change')}",
                 f"cp -r .git sub/.git; {evil('other')}; echo ../../other/.git > sub/.git/commondir",
                 f"{evil('other')}; ln -s ../other/.git sub/.git", f"{evil('other')}; mv other/.git o.git; echo gitdir: ../o.git > sub/.git"):
        repository()
        r = sh(f"mkdir sub; {GITLINK}sub; {make}")
        assert r["denials"], make
        on_host("sh", "-c", commit, cwd=workspace())
        use()
        assert not ran() and taken()
        clear()


# ---- an index that is not what it seems ----


@test
def an_index_that_could_be_read_in_two_ways():
    for kind, name in (("length", "sub"), ("hash", "evil")):
        path = name if kind == "length" else "000000000000evil"
        script = f"H=$(git rev-parse HEAD); {evil(path)}; {MAKE} {kind} $H .git/index {name}"
        r, gone = attack(script, prepare=with_writer)
        assert gone and r["denials"], (kind, r)
        clear()


@test
def an_index_that_could_be_read_in_two_ways_after_a_git_init():
    def empty(at):
        on_host("sh", "-c", f"cat > mk.py <<'END'\n{(HERE / 'mkindex.py').read_text()}\nEND", cwd=at)

    script = f"git init -q .; git config user.name sha256; {AS_ME} commit -q --allow-empty -m x; H=$(git rev-parse HEAD); {evil('000000000000evil')}; {MAKE} hash $H .git/index evil"
    attack(script, prepare=empty)


@test
def a_gitlink_in_every_form_an_index_can_have():
    """Compressed names, extended flags, an index in two files, entries that git is told not to look at."""
    forms = ("git update-index --index-version 4", "git add -N file2; git update-index --index-version 3", "git update-index --split-index",
             "git update-index --split-index; git rm -q --cached file", "git update-index --fsmonitor-valid sub; git update-index --untracked-cache",
             "git -c feature.manyFiles=true -c index.skipHash=true update-index --force-write-index")
    for form in forms:
        r, gone = attack(f"echo x > file2; {GITLINK}sub; {form}; {evil('sub')}", prepare=repository)
        assert gone and r["denials"], (form, r)
        clear()


@test
def gitlinks_by_names_that_are_no_plain_paths():
    for name in ("../work/sub", f"{workspace()}/sub", "./sub", "x//sub", "sub/", "x/../sub"):
        repository()
        on_host("sh", "-c", f"cat > mk.py <<'END'\n{(HERE / 'mkindex.py').read_text()}\nEND", cwd=workspace())
        on_host("mkdir", "-p", workspace() / "x")
        r = sh(f"H=$(git rev-parse HEAD); {evil('sub')}; {MAKE} links $H .git/index '{name}'")
        use()
        assert not ran(), (name, r["denials"])
        assert told(r, ".git/index") or told(r, "sub/.git") or told(r, "sub/.git/config"), (name, r["denials"])
        taken()
        clear()


@test
def a_link_on_the_way_to_a_submodule():
    r, _ = attack(f"mkdir real; {evil('real/sub')}; {GITLINK}way/sub; ln -s real way", checked=False)
    assert r["denials"], r


@test
def a_sparse_index_of_gigabytes_costs_nothing():
    """No index is read: what it names is judged wherever it lies."""
    for first in ("true", "rm -rf .git; mkdir .git"):
        repository()
        r = sh(f"{first}; printf 'DIRC\\0\\0\\0\\2\\0\\0\\0\\0' > .git/index && truncate -s 4G .git/index", "--timeout", "20s")
        assert r["outcome"] == "exited", r
        taken()
        clear()


@test
def no_file_of_gits_keeps_brig_by_its_size_or_kind():
    """Holes of gigabytes, pipes that nobody writes to, links to devices that never end: another run waits for none of them."""
    big = "truncate -s 4G"
    for way in (f"rm .git/config; {big} .git/HEAD", f"{big} .gitmodules", f"mkdir -p .git/worktrees/w; {big} .git/worktrees/w/index .git/worktrees/w/gitdir",
                "rm .git/index; mkfifo .git/index", "rm .git/index; ln -s /dev/zero .git/index", f"mkdir -p sub/.git; {big} sub/.git/config sub/.git/index; {GITLINK}sub",
                "mkdir sub; mkfifo sub/.git; " + GITLINK + "sub", f"git update-index --split-index; {big} .git/sharedindex.*"):
        repository()
        r = sh(way, "--timeout", "20s")
        assert r["outcome"] in ("exited", "failed"), (way, r)
        assert brig("run", "--", "true", cwd=scratch()).status == 0
        taken()
        clear()


@test
def thousands_of_hooks_are_one_move():
    r = sh("git init -q .; mkdir -p .git/hooks; cd .git/hooks; touch $(seq -f h%g 3000)")
    assert [d["target"] for d in r["denials"]] == [".git/hooks"] and len(taken()) == 1, r["denials"]


# ---- worktrees of one repository ----


@test
def the_index_of_the_main_repository_leads_into_no_worktree():
    main_repo = scratch() / "main"
    main_repo.mkdir()
    os.chown(main_repo, os.stat(workspace()).st_uid, os.stat(workspace()).st_gid)
    repository(main_repo)
    for work, index in ((".worktrees/task", ".git"), (".worktrees/second", ".git/worktrees/task")):
        git("worktree", "add", "-q", main_repo / work, cwd=main_repo, check=True)
        top = main_repo if index == ".git" else main_repo / ".worktrees/task"
        link = f"{work}/sub" if index == ".git" else "../second/sub"
        script = (f"C={main_repo}/{index}; H=$(git rev-parse HEAD); GIT_DIR=$C git update-index --add --cacheinfo 160000,$H,{link}; "
                  f"mkdir -p sub/.git/refs sub/.git/objects; echo $H > sub/.git/HEAD; {settings('sub/.git/config')}")
        r = sh(script, "--workdir", str(main_repo / work))
        use(top)
        assert not ran(), (work, r["denials"])
        if index == ".git":
            assert told(r, "sub/.git/config") and taken(), r["denials"]


@test
def a_worktree_made_inside_works_and_a_forged_one_does_not():
    repository()
    target = ("--set", f"workspace.target={workspace()}")
    r = sh(f"git worktree add -q tree && cd tree && echo a > a && git add a && {AS_ME} commit -qm in-tree", *target)
    assert r["exit_code"] == 0 and r["denials"] == [], r
    assert git("status", "--short", cwd=workspace() / "tree").stdout == b"" and b"in-tree" in git("log", cwd=workspace() / "tree").stdout
    for forge in ("echo $PWD/evil/.git > .git/worktrees/forged/commondir", "echo x > .git/worktrees/forged/config.worktree", "ln -s tree .git/worktrees/linked"):
        r = sh(f"{evil('evil')}; cp -r .git/worktrees/tree .git/worktrees/forged; {forge}", *target)
        assert [d for d in r["denials"] if ".git/worktrees/" in d["target"]], (forge, r["denials"])
        on_host("rm", "-rf", workspace() / ".git/worktrees/forged", workspace() / "evil")
        taken()


# ---- submodules ----


@test
def a_commit_inside_an_existing_submodule_works():
    with_submodule(workspace())
    target = ("--set", f"workspace.target={workspace()}")
    for _ in range(2):  # once with nothing known of the index, once with its gitlinks known
        r = sh(f"cd sub && echo a >> a && git add a && {AS_ME} commit -qm within && cd .. && git add sub && {AS_ME} commit -qm outer", *target)
        assert r["exit_code"] == 0 and r["denials"] == [], r
        assert git("status", "--short").stdout == b"" and b"within" in git("log", "-1", cwd=workspace() / "sub").stdout
    # It is judged all the same: what a run may not make as a file is told where a commit of the submodule brings it.
    r = sh(f"cd sub && git update-index --add --cacheinfo 100644,$(git hash-object -w a),.envrc && {AS_ME} commit -qm bring", *target)
    assert r["exit_code"] == 0 and [c["path"] for c in r["changed_trust"] if "in commit " in c["reason"]] == [".envrc"], r
    drop_other()


@test
def a_submodule_as_the_workspace_says_where_to_start():
    with_submodule(workspace())
    done = brig("run", "--workdir", workspace() / "sub", "--", "git", "log")
    assert done.status == 128 and "is a submodule" in done.errors and f"--workdir '{workspace()}'" in done.errors, done.errors
    assert brig("run", "--workdir", workspace(), "--", "git", "-C", "sub", "log").status == 0
    (workspace() / "sub/.git").write_text("gitdir: /nowhere/.git/modules/sub\n")
    assert "does not point back" in brig("run", "--workdir", workspace() / "sub", "--", "true").errors
    clear()
    drop_other()


@test
def what_a_submodule_runs_cannot_be_changed():
    for script in (settings(".git/modules/sub/config"), hook(".git/modules/sub/hooks/post-index-change"), f"rm sub/.git; {evil('sub')}",
                   f"{evil('x')}; echo gitdir: ../x/.git > sub/.git", f"{evil('x')}; echo $PWD/x/.git > .git/modules/sub/commondir",
                   f"mv .git/modules/sub old; cp -r old .git/modules/sub; {settings('.git/modules/sub/config')}"):
        for known in (False, True):
            with_submodule(workspace())
            if known:
                assert sh("true")["denials"] == []
            r = sh(script)
            use()
            assert not ran(), (script, known, r["denials"])
            taken()
            clear()
    drop_other()


@test
def a_new_submodule_stays_unless_it_has_more_than_git_makes():
    """Its configuration names a working tree, whose `.git` names it in return."""
    for more, stays in (("true", True), ("git -C sub config core.worktree ../../..", False), ("git -C sub config core.fsmonitor x", False),
                        ("echo gitdir: ../.git > sub/.git", False)):
        with_submodule(workspace())
        on_host("sh", "-c", "rm -rf .git/modules sub; mkdir sub", cwd=workspace())
        other = workspace().parent / "other"
        r = sh(f"git config --global safe.directory '*'; {AS_ME} submodule --quiet update --init; {more}", "--read", str(other))
        assert stays == (r["denials"] == []), (more, r["denials"], r["stderr"])
        assert stays == (workspace() / ".git/modules/sub/config").exists(), more
        assert not stays or git("status", "--short").stdout == b"", git("status").stdout
        taken()
        clear()
    drop_other()


@test
def fetch_and_a_branch_with_submodules_work():
    with_submodule(workspace())
    git("branch", "with", check=True)
    git("reset", "-q", "--hard", "HEAD~1", check=True)
    other = workspace().parent / "other"
    git("remote", "add", "up", other, check=True)
    target = ("--set", f"workspace.target={workspace()}", "--read", str(other))
    r = sh(f"git config --global safe.directory '*'; {AS_ME} fetch -q up && git checkout -q with && git checkout -q - && git checkout -q with && git log --oneline up/main | wc -l", *target)
    assert r["exit_code"] == 0 and r["denials"] == [], r
    assert git("status", "--short").stdout in (b"", b" M .gitmodules\n"), git("status", "--short").stdout
    drop_other()


# ---- inside of a git folder ----


@test
def a_git_folder_inside_of_a_git_folder_is_disarmed():
    """Its user looks around in there."""
    for at in (".git/x", ".git/refs/x", ".git/objects/ab/x", ".git/logs/a/b/x"):
        bare = f"mkdir -p {os.path.dirname(at)}; git init -q --bare {at}; {settings(f'{at}/config')}; git -C {at} config core.bare false; git -C {at} config core.worktree ."
        for script in (f"mkdir -p {at}; git init -q {at}; {settings(f'{at}/.git/config')}", bare):
            for inside in (False, True):
                repository()
                if inside:
                    r = sh(script)
                else:
                    on_host("sh", "-c", script, cwd=workspace())
                git("status", cwd=workspace() / at if (workspace() / at).exists() else workspace())
                assert ran() != inside, (script, inside and r["denials"])
                assert not inside or taken()
                clear()


@test
def what_an_earlier_run_left_inside_of_a_git_folder_is_no_help():
    repository()
    for script in ("mkdir -p .git/objects/ab/x .git/lib/x", f"git init -q .git/lib/x; {settings('.git/lib/x/.git/config')}; git init -q .git/objects/ab/x; {settings('.git/objects/ab/x/.git/config')}"):
        sh(script)
    for at in (".git/lib/x", ".git/objects/ab/x"):
        git("status", cwd=workspace() / at if (workspace() / at).exists() else workspace())
    assert not ran() and taken()


@test
def what_others_keep_inside_of_a_git_folder_stays():
    """Large files of git-lfs lie in folders by two letters each."""
    repository()
    r = sh("mkdir -p .git/lfs/objects/ab/cd .git/modules .git/annex/objects/1a/2b; touch .git/lfs/objects/ab/cd/abcd; git init -q n; mkdir -p n/.git/lfs/objects/ab/cd")
    assert r["denials"] == [] and (workspace() / ".git/lfs/objects/ab/cd/abcd").exists() and (workspace() / "n/.git/lfs/objects/ab/cd").exists(), r["denials"]
    r = sh(f"git init -q n/.git/x; {settings('n/.git/x/.git/config')}")
    git("status", cwd=workspace() / "n/.git/x")
    assert not ran() and taken(), r["denials"]


@test
def addresses_of_old_kinds_are_taken_away():
    """git fetch NAME reads them."""
    def fetch(at):
        on_host("sh", "-c", f"printf '#!/bin/sh\ntouch {scratch()}/PWNED\n' > {scratch()}/x; chmod 755 {scratch()}/x")
        git("-c", "protocol.ext.allow=always", "fetch", "old", cwd=at)

    for script in (f"mkdir -p .git/remotes; echo 'URL: ext::{scratch()}/x' > .git/remotes/old", f"mkdir -p .git/branches; echo 'ext::{scratch()}/x' > .git/branches/old",
                   f"mkdir d; echo 'URL: ext::{scratch()}/x' > d/old; rm -rf .git/remotes; ln -s ../d .git/remotes"):
        for inside in (False, True):
            repository()
            if inside:
                r = sh(script)
                assert [d for d in r["denials"] if d["target"] in (".git/remotes", ".git/branches")], (script, r["denials"])
            else:
                on_host("sh", "-c", script, cwd=workspace())
            fetch(workspace())
            assert ran() != inside, script
            assert not inside or taken()
            clear()


@test
def an_address_of_the_users_stays_and_cannot_be_turned():
    repository()
    on_host("sh", "-c", "mkdir -p .git/remotes; printf 'URL: https://example.org/x\n' > .git/remotes/old", cwd=workspace())
    assert sh("git status")["denials"] == [] and (workspace() / ".git/remotes/old").exists()
    r = sh("echo 'URL: ext::sh -c x' > .git/remotes/old")
    assert told(r, ".git/remotes") and taken(), r["denials"]


# ---- links where git writes ----


def with_more(at):
    """Every place where git on the host writes: a worktree's folder, a submodule's and a repository that nothing leads to."""
    with_submodule(at)
    repository(at / "nest")
    git("worktree", "add", "-q", at / "tree", cwd=at, check=True)
    git("revert", "--no-commit", "HEAD", cwd=at / "nest", check=True)
    git("reset", "-q", "--hard", cwd=at / "nest", check=True)


def with_more_again(at):
    """The same, of which each place is made once and copied then: it takes some forty calls of git."""
    kept = scratch() / f"kept-{at.name}"
    if not kept.exists():
        with_more(at)
        shutil.copytree(at, kept / "at", symlinks=True)
        shutil.copytree(at.parent / "other", kept / "other", symlinks=True)
        return
    shutil.copytree(kept / "at", at, symlinks=True, dirs_exist_ok=True)
    shutil.copytree(kept / "other", at.parent / "other", symlinks=True)


def writes(at, folders, until=lambda: False):
    """What a user does in any of them, sooner or later."""
    for folder in folders:
        for args in (("commit", "-q", "--allow-empty", "-m", "words"), ("commit", "-q", "--allow-empty", "-m", "again"), ("fetch", "-q", "."), ("pack-refs", "--all"),
                     ("revert", "--no-commit", "HEAD"), ("reset", "-q", "--hard"), ("tag", f"t{time.monotonic_ns()}")):
            git(*args, cwd=at / folder)
            if until():
                return


def links(at):
    """Those in git's folders."""
    return {str(p.relative_to(at)) for p in at.rglob("*") if p.is_symlink() and ".git" in p.parts}


OWN = {".git": ".", ".git/worktrees/tree": "tree", ".git/modules/sub": "sub", "nest/.git": "nest"}  # git's folder: where a user works with it
WRITTEN = ("COMMIT_EDITMSG", "logs/HEAD", "FETCH_HEAD")
JUNK = "import os; [os.mkdir(f'.git/{i}') for i in range(5000)]"


@test(limit=240)
def nothing_is_written_through_a_link_in_a_git_folder():
    """The user's next commit, fetch or gc would write what the command has chosen to where it has chosen."""
    victim = scratch() / "victim"
    scripts = {f"mkdir -p {git_folder}/logs; ln -sfn {victim} {git_folder}/{name}": {used, "."} for git_folder, used in OWN.items() for name in WRITTEN}
    scripts |= {script: {"."} for script in (f"ln -sfn {victim} .git/packed-refs", f"rm -rf .git/logs; mkdir -p {scratch()}/d; ln -sfn {scratch()}/d .git/logs; ln -sfn {victim} .git/COMMIT_EDITMSG",
                f"ln -sfn {victim} .git/logs/refs/heads/main", f"python3 -c \"{JUNK}\"; ln -sfn {victim} .git/logs/HEAD", f"ln -sfn ../.git/config .git/COMMIT_EDITMSG; ln -sfn {victim} .git/logs/HEAD")}
    for script, folders in scripts.items():
        for at in (scratch() / "control", workspace()):
            at.mkdir(exist_ok=True)
            with_more_again(at)
            config = (at / ".git/config").read_text()
            if at == workspace():
                r = sh(script)
                assert r["outcome"] == "exited" and r["denials"] and taken() and not links(at), (script, r, links(at))
            else:
                on_host("sh", "-c", script, cwd=at)
            writes(at, folders, until=victim.exists if at != workspace() else lambda: False)
            wrote, settings_kept = victim.exists(), (at / ".git/config").read_text() == config
            victim.unlink(missing_ok=True)
            assert wrote == (at != workspace()), (script, at)
            assert settings_kept or at != workspace(), script
            clear(at)
            shutil.rmtree(at.parent / "other")
        shutil.rmtree(scratch() / "d", ignore_errors=True)
        (scratch() / "control").rmdir()


@test
def a_folder_of_old_links_that_is_renamed_into_a_git_folder_is_new_there():
    victim = scratch() / "victim"
    for folder, name in (("logs", "HEAD"), ("logs/refs/heads", "main"), ("logs/refs", "heads/main")):
        repository()
        assert sh(f"mkdir -p old/{os.path.dirname(name)}; ln -s {victim} old/{name}")["denials"] == []
        r = sh(f"rm -rf .git/{folder}; mv old .git/{folder}; touch .git/{folder}/more")
        assert told(r, f".git/{folder}/{name}") and taken() and not links(workspace()), (folder, r)
        assert git("commit", "-q", "--allow-empty", "-m", "words").returncode == 0 and not victim.exists(), folder
        clear()


@test
def pipes_in_a_git_folder_go_and_links_of_the_users_stay():
    repository()
    on_host("sh", "-c", "ln -s logs .git/mine", cwd=workspace())
    r = sh("rm -f .git/COMMIT_EDITMSG; mkfifo .git/COMMIT_EDITMSG")
    assert told(r, ".git/COMMIT_EDITMSG") and taken() and links(workspace()) == {".git/mine"}, r
    assert sh("git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; git gc -q")["denials"] == []


@test(as_user="user", limit=120)
def more_folders_than_anybody_has_are_told():
    repository()
    r = sh("python3 -c \"import os; [os.makedirs(f'.git/logs/{i % 130}/{i}') for i in range(17000)]\"; ln -sfn /nowhere .git/logs/129/129/l")
    assert told(r, ".git/logs") and taken() and told(r, ".git"), r["denials"][:5]
    assert git("commit", "-q", "--allow-empty", "-m", "words").returncode == 0


# ---- a git to ask ----


@test
def without_a_git_to_ask_a_new_repository_is_hostile():
    """PATH has a git of the workspace's own: that one is not asked, nor is it run; the next one is."""
    for behind, make, stays in (((), "git init -q sub", False), (("/usr/bin", "/bin"), "git init -q sub", True), ((), evil("sub"), False), (("/usr/bin", "/bin"), evil("sub"), False)):
        repository()
        r = brig("run", "--json", *USUAL_PATH, "--", "sh", "-c", f"{GITLINK}sub; {make}", env=no_git(*behind)).json
        assert not ran() and r["exit_code"] == 0, (behind, make, r)
        assert bool(told(r, "sub/.git/config")) != stays, (behind, make, r["denials"])
        use()
        assert not ran() and bool(taken()) != stays, (behind, make)
        clear()


if __name__ == "__main__":
    sys.exit(main())
