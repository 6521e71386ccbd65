#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Places that git is told of by a configuration: hooks and included files in the workspace, from the first run on.

The oracle: after the run the user goes on (git status, commit, checkout), and a file shows whether code of the guest's ran."""

import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import on_host  # noqa: E402
from harness import brig, main, scratch, test, workspace  # noqa: E402
from victim import (AS_ME, GITLINK, USUAL_PATH, attack, clear, drop_other, git, hook, no_git, payload, ran, remove, repository, settings, sh,  # noqa: E402
                    taken, told, use, with_submodule)


def host(script, at):
    done = on_host("sh", "-c", script, cwd=at)
    assert done.returncode == 0, (script, done.stderr)


def prepared(script, make=repository):
    """A repository of the user's, and what the user did in it."""
    def prepare(at):
        make(at)
        host(f"H={at}; {script}", at)
    return prepare


def look_in(*folders):
    """The user works in each."""
    def look(at):
        for folder in folders:
            use(at / folder)
    return look


HOOKS = "mkdir -p tools/hooks; echo mine > tools/hooks/README"
OLD = "mkdir -p fix/hooks; printf '#!/bin/sh\\n%s\\n' > fix/hooks/post-checkout; chmod 755 fix/hooks/post-checkout"


def old_hook():
    return OLD % payload()


# ---- hooks ----


@test
def hooks_elsewhere_are_covered_in_the_first_run():
    name = "git config core.hooksPath tools/hooks"
    for setting in (name, "git config core.HOOKSPATH ./tools/../tools/hooks", 'git config core.hooksPath "$H/tools/hooks"',
                    "git config extensions.worktreeConfig true; git config --worktree core.hooksPath tools/hooks"):
        attack(hook("tools/hooks/post-checkout"), prepare=prepared(f"{HOOKS}; {setting}"))
        clear()


@test
def a_mark_of_newer_gits_is_a_name_to_older_ones():
    marked = hook(":\\(optional\\)tools/hooks/post-checkout")
    r, gone = attack(f"{hook('tools/hooks/post-checkout')}; {marked}", prepare=prepared("git config core.hooksPath ':(optional)tools/hooks'"))
    assert len(gone) == 2, r["denials"]


@test
def a_rename_or_link_above_the_hooks_is_no_way():
    """What lies in the folder is older than the run: only the way to it changed."""
    prepare = prepared(f"{HOOKS}; git config core.hooksPath tools/hooks; {old_hook()}")
    for script in ("mv tools old; mv fix tools", "mv tools old; ln -s fix tools", "mv tools/hooks old; mv fix/hooks tools/hooks",
                   "rm -r tools/hooks; ln -s ../fix/hooks tools/hooks", "rm -r tools; cp -a fix tools"):
        attack(script, prepare=prepare)
        clear()


@test
def hooks_by_another_name_of_the_workspace_are_covered():
    """A link of the user's, outside of the workspace, is on the way."""
    link = scratch() / "link"
    for script in (hook("tools/hooks/post-checkout"), f"rm -rf tools; {hook('tools/hooks/post-checkout')}"):
        attack(script, prepare=prepared(f"{HOOKS}; ln -sfn $H {link}; git config core.hooksPath {link}/tools/hooks"))
        clear()
    attack(hook("missing/post-checkout"), prepare=prepared(f"ln -sfn $H {link}; git config core.hooksPath {link}/missing"))
    taken()


@test
def hooks_that_are_missing_do_not_appear():
    for folder in ("tools/hooks", "hooks", "a/b/c"):
        r, gone = attack(hook(f"{folder}/post-checkout"), prepare=prepared(f"git config core.hooksPath {folder}"))
        assert gone and [d for d in r["denials"] if d["target"] == folder], r["denials"]
        clear()


@test
def hooks_in_the_workspace_itself_do_not_appear():
    r, gone = attack(hook("./post-checkout"), prepare=prepared("git config core.hooksPath \"$H\""))
    assert gone and told(r, "post-checkout"), r["denials"]
    clear()
    attack(hook("./post-checkout"), prepare=prepared("git config core.hooksPath \"$H\"; echo '#!/bin/sh' > post-checkout; chmod 755 post-checkout"))


@test
def hooks_of_a_push_are_looked_for_in_the_git_folder():
    def push(at):
        clone = scratch() / "clone"
        git("clone", "-q", at, clone, cwd=scratch(), check=True)
        git("push", "-q", "origin", "HEAD:refs/heads/pushed", cwd=clone)
        on_host("rm", "-rf", clone)

    prepare = prepared("git config core.hooksPath h")
    prepare(workspace())
    host(hook(".git/h/update"), workspace())
    push(workspace())
    assert ran(), "the control proves nothing"
    clear()
    r, gone = attack(hook(".git/h/update"), prepare=prepare, look=push, checked=False)
    assert gone and told(r, ".git/h"), r["denials"]


# ---- included files ----


@test
def included_files_are_covered_in_the_first_run():
    include = "printf '[user]\\n\\tname = a\\n' > shared.conf; git config include.path ../shared.conf"
    for setting, script in ((include, settings("shared.conf")), (include, f"{settings('x')}; mv x shared.conf"), (include, f"{settings('x')}; ln -sf x shared.conf"),
                            (include.replace("include.path", "includeIf.gitdir:**.path"), settings("shared.conf")),
                            (include.replace("> shared.conf", "> real.conf; ln -s real.conf shared.conf"), settings("real.conf"))):
        attack(script, prepare=prepared(setting))
        clear()
    r, gone = attack(settings("shared.conf"), prepare=prepared("git config include.path ../shared.conf"))
    assert gone and told(r, "shared.conf"), r["denials"]


@test
def what_an_included_file_names_is_protected_too():
    chain = f"{HOOKS}; git config include.path ../one.conf; git config -f one.conf include.path two.conf; git config -f two.conf core.hooksPath tools/hooks"
    for script in (settings("two.conf"), hook("tools/hooks/post-checkout")):
        attack(script, prepare=prepared(chain))
        clear()


@test
def what_is_named_and_is_no_file_is_not_opened():
    """Somebody who waits at a pipe goes on when it is opened."""
    repository()
    pipe, went_on = scratch() / "pipe", scratch() / "went-on"
    host(f"git config include.path {pipe}", workspace())
    os.mkfifo(pipe)
    os.chmod(pipe, 0o666)
    waiting = subprocess.Popen(["sh", "-c", f"exec 3> {pipe}; touch {went_on}"])
    try:
        assert brig("run", "--", "true").status == 0
        assert waiting.poll() is None and not went_on.exists(), "brig opened it"
        os.close(os.open(pipe, os.O_RDONLY))
        assert waiting.wait() == 0 and went_on.exists(), "the control proves nothing"
    finally:
        waiting.kill()
        waiting.wait()
    pipe.unlink()
    went_on.unlink()


# ---- submodules and worktrees ----


def works_outside_alone(script, prepare, case, name=None):
    """What the host's git does in the submodule afterwards: the hook, if it was put there on the host; not, if by a run. `name` is its file, which is gone then."""
    prepare(workspace())
    host(script, workspace())
    use(workspace() / "sub")
    assert ran(), f"the control proves nothing: {case}"
    clear()
    r, _ = attack(script, prepare=prepare, look=look_in("sub"), checked=False)
    assert not name or not (workspace() / name).exists(), (case, r["denials"])
    clear()


@test
def hooks_of_a_submodule_are_covered_in_the_first_run():
    for setting, folder in (("core.hooksPath tools/hooks", "sub/tools/hooks"), ('core.hooksPath "$H/tools/hooks"', "tools/hooks")):
        attack(hook(f"{folder}/post-checkout"), prepare=prepared(f"mkdir -p {folder}; git -C sub config {setting}", with_submodule), look=look_in("sub"), checked=False)
        host(f"rm -rf {folder}; {hook(f'{folder}/post-checkout')}", workspace())
        use(workspace() / "sub")
        assert ran(), "the control proves nothing"
        clear()
    drop_other()


SPLIT = {
    "another file of git's": "git -C sub config core.hooksPath .hk; git -C sub config extensions.worktreeConfig true; "
                             "git config -f $M/config.worktree core.worktree ../../../sub; git config -f $M/config --unset core.worktree",
    "an included file names the hooks": "git -C sub config include.path team.cfg; git config -f $M/team.cfg core.hooksPath .hk",
    "an included file names the working tree": "git config -f $M/config core.hooksPath .hk; git config -f $M/config --unset core.worktree; "
                                               "git config -f $M/wt.cfg core.worktree ../../../sub; git config -f $M/config include.path wt.cfg",
    "one file for two repositories": "git config -f $M/team.cfg core.hooksPath .hk; git config include.path modules/sub/team.cfg; git -C sub config include.path team.cfg",
}


@test
def hooks_and_the_working_tree_may_stand_in_two_files():
    for case, setting in SPLIT.items():
        name = "sub/.hk/post-checkout"
        works_outside_alone(hook(name), prepared(f"M=.git/modules/sub; {setting}", with_submodule), case, name)
    drop_other()


@test
def such_hooks_are_covered_below_a_repository_too():
    for setting in list(SPLIT.values())[:2]:
        prepare = prepared("M=.git/modules/sub; " + setting, with_submodule)
        top = scratch() / "top"
        for protected in (False, True):
            top.mkdir()
            os.chown(top, os.stat(workspace()).st_uid, os.stat(workspace()).st_gid)
            prepare(top)
            if protected:
                sh(hook(".hk/post-checkout"), cwd=top / "sub")
            else:
                host(hook(".hk/post-checkout"), top / "sub")
            use(top / "sub")
            assert ran() != protected, (setting, protected)
            remove(top)
        taken()
    remove(scratch() / "other")


@test
def hooks_of_a_submodule_with_a_git_folder_of_its_own_are_covered():
    """The index is read before the first run."""
    embedded = f"git init -q sub; cd sub; {AS_ME} commit -q --allow-empty -m x; git config core.hooksPath tools/hooks; mkdir -p tools/hooks; cd ..; {GITLINK}sub; {old_hook()}"
    for script in (hook("sub/tools/hooks/post-checkout"), "mv sub/tools old; mv fix sub/tools", "mv sub/tools old; ln -s ../fix sub/tools"):
        works_outside_alone(script, prepared(embedded), script)


@test
def hooks_that_an_included_file_names_are_covered_in_such_a_submodule():
    embedded = f"git init -q sub; cd sub; {AS_ME} commit -q --allow-empty -m x; mkdir -p tools/hooks; %s; cd ..; {GITLINK}sub"
    names = "git config -f %s core.hooksPath tools/hooks"
    team = scratch() / "team.cfg"
    for setting in (f"git config include.path team.cfg; {names % '.git/team.cfg'}", f"git config include.path {team}; {names % team}",
                    f"git config include.path one.cfg; git config -f .git/one.cfg include.path two.cfg; {names % '.git/two.cfg'}"):
        name = "sub/tools/hooks/post-checkout"
        works_outside_alone(hook(name), prepared(embedded % setting), setting, name)


@test
def hooks_of_a_worktree_in_the_workspace_are_covered_in_the_first_run():
    for setting in ("git config core.hooksPath tools/hooks", "git config extensions.worktreeConfig true; git -C tree config --worktree core.hooksPath tools/hooks"):
        for script in (hook("tree/tools/hooks/post-checkout"), f"{old_hook()}; rm -rf tree/tools; mv fix tree/tools"):
            prepare = prepared(f"git worktree add -q tree; {setting}; mkdir -p tree/tools/hooks")
            prepare(workspace())
            host(script, workspace())
            use(workspace() / "tree")
            assert ran(), f"the control proves nothing: {setting}"
            clear()
            attack(script, prepare=prepare, look=look_in("tree"), checked=False)
            clear()


@test
def a_git_folder_that_is_shut_still_tells_where_hooks_are():
    for access in ("read", "none"):
        attack(hook("tools/hooks/post-checkout"), prepare=prepared(f"{HOOKS}; git config core.hooksPath tools/hooks"), options=("--git", access))
        clear()


# ---- what is the user's own stays ----


def a_clone(setting, gitlink=True):
    """One with a `.git` of its own, and a setting that is not plain."""
    add = f"; {GITLINK}sub" if gitlink else ""
    return prepared(f"git init -q sub; cd sub; echo text > f; {AS_ME} add f; {AS_ME} commit -qm x; git config {setting}; cd ..{add}")


def stays(script, prepare, env=None, kept=("sub/.git/config", "sub/.git/HEAD", "sub/f")):
    """An ordinary command; its report."""
    prepare(workspace())
    was = [(workspace() / k).stat().st_ino for k in kept]
    time.sleep(0.05)  # what changes in one tick of the clock with the start counts as changed by the run
    done = brig("run", "--json", *USUAL_PATH, "--", "sh", "-c", script, env=env() if env else None)
    r = done.json
    gone = taken()
    assert not gone and was == [(workspace() / k).stat().st_ino for k in kept], (script, gone, r["denials"])
    assert r["exit_code"] == 0 and r["denials"] == [], r
    clear()
    return r


@test
def a_clone_stays_where_files_are_made_beside_its_git_folder():
    commit = "echo y > sub/f; cd sub; git -c user.name=a -c user.email=a@b commit -qam y"
    for gitlink in (True, False):
        prepare = a_clone("remote.origin.gh-resolved base", gitlink)
        for script in ("touch sub/new new", commit):
            stays(script, prepare)


@test
def a_clone_stays_where_nobody_can_be_asked():
    for gitlink in (True, False):
        stays("touch sub/new new", a_clone("user.name a", gitlink), env=no_git)


@test
def hooks_in_a_folder_of_work_are_told_by_their_names():
    """The folder of hooks is the working tree: no more than a hook goes."""
    for value in (".", '"$H"'):
        prepare = a_clone(f"core.hooksPath {value}")
        stays("echo x >> sub/f; touch sub/new new", prepare)
    for script in (hook("sub/post-checkout"), f"touch sub/new; {hook('x/h')}; mv x/h sub/post-checkout"):
        prepare = a_clone('core.hooksPath "$PWD"')
        prepare(workspace())
        host(script, workspace())
        use(workspace() / "sub")
        assert ran(), f"the control proves nothing: {script}"
        clear()
        attack(script, prepare=prepare, look=look_in("sub"), checked=False)
        assert (workspace() / "sub/f").exists() and (workspace() / "sub/.git/config").exists()
        clear()


@test
def what_goes_beside_a_git_folder_takes_nothing_along():
    """To move the hooks away changes the folder that the repository lies in."""
    prepare = a_clone("core.hooksPath .hk")
    attack(hook("sub/.hk/post-checkout"), prepare=prepare, look=look_in("sub"), checked=False)
    assert (workspace() / "sub/.git/config").exists() and (workspace() / "sub/f").exists()


@test
def a_repository_that_is_renamed_into_place_goes():
    """It is older than the run; so is all in it."""
    old = f"git init -q old; cd old; {AS_ME} commit -q --allow-empty -m x; cd ..; {settings('old/.git/config')}; git init -q sub; cd sub; {AS_ME} commit -q --allow-empty -m x; cd ..; {GITLINK}sub"
    for script in ("mv sub gone; mv old sub", "mv sub/.git gone; mv old/.git sub/.git", "mv sub gone; mv old sub; touch sub/x sub/.git/x"):
        attack(script, prepare=prepared(old))
        clear()


# ---- the workspace is a folder of a repository ----


def above(at):
    """A repository around the folder that is the workspace then, with a submodule's path in it."""
    repository(at)
    host(f"mkdir -p w/tools/hooks w/in; {GITLINK}w/sub; {GITLINK}w/in/sub", at)


def below(script, prepare, *more):
    """The script in the folder w of a repository of the user's, who goes on in the repository."""
    top = scratch() / "top"
    for protected in (False, True):
        top.mkdir()
        os.chown(top, os.stat(workspace()).st_uid, os.stat(workspace()).st_gid)
        prepare(top)
        if protected:
            r = sh(script, cwd=top / "w")
        else:
            host(script, top / "w")
        for folder in more or (".",):
            use(top / folder)
        assert ran() != protected, (script, protected and r["denials"])
        remove(top)
    taken()
    return r


@test
def a_gitlink_of_the_repository_above_counts_in_a_subfolder():
    for script in ("mkdir -p sub; git init -q x; mv x/.git sub/.git; %s" % settings("sub/.git/config"), "git init -q in/sub; %s" % settings("in/sub/.git/config"),
                   "git init -q x; %s; mkdir sub; echo gitdir: ../x/.git > sub/.git" % settings("x/.git/config"),
                   "git init -q d/sub; %s; rm -r in; mv d in" % settings("d/sub/.git/config")):
        r = below(script, above)
        assert r["denials"], (script, r)


@test
def what_a_subfolder_may_not_leave_is_found_however_deep_it_lies():
    """Beyond of what a look through the workspace would reach."""
    deep = "d/" * 12
    prepare = prepared(f"mkdir -p w/{deep}; {GITLINK}w/{deep}sub", above)
    below(f"mkdir $(seq -f a%.0f 1100); git init -q {deep}sub; {settings(f'{deep}sub/.git/config')}", prepare)


@test
def hooks_of_the_repository_above_are_covered_in_a_subfolder():
    below(hook("tools/hooks/post-checkout"), prepared("git config core.hooksPath w/tools/hooks", above))
    below(settings("shared.conf"), prepared("echo > w/shared.conf; git config include.path ../w/shared.conf", above))
    below(hook("tree/tools/hooks/post-checkout"), prepared(f"{AS_ME} commit -qam x; git worktree add -q w/tree; git config core.hooksPath tools/hooks", above), "w/tree")


@test(as_user="root")
def a_repository_above_of_somebody_elses_commands_nothing():
    """Anybody can make a .git in a folder for all; git does not obey it either."""
    top = scratch() / "shared"
    for owner in (4242, 0):
        (top / "w/build").mkdir(parents=True)
        host("git init -q .; echo '[include' >> .git/config", top)
        for path in (top, *top.rglob("*")):
            os.lchown(path, owner if ".git" in path.parts else 0, -1)
        done = brig("run", "--", "touch", "build/made", cwd=top / "w")
        # The control: in one of the user's own, what cannot be read is a reason to refuse.
        assert done.status == (0 if owner else 125), (owner, done.errors)
        assert (top / "w/build/made").exists() == bool(owner)
        remove(top)


# ---- who is asked ----


@test
def without_an_answer_the_run_is_refused_and_nothing_is_touched():
    repository()
    host("git config core.hooksPath tools/hooks", workspace())
    done = brig("run", *USUAL_PATH, "--", "touch", "x", env=no_git())
    assert done.status == 125 and "git cannot be asked which" in done.errors and not (workspace() / "x").exists(), done.errors
    assert brig("run", "--", "true", env=no_git("/usr/bin", "/bin")).status == 0  # it is passed over: the next one is asked
    host("printf '[core\\nhookspath' > .git/config", workspace())
    done = brig("run", "--", "touch", "x")
    assert done.status == 125 and "does not say in time" in done.errors and not (workspace() / "x").exists(), done.errors


@test
def a_place_that_cannot_be_followed_refuses_the_run():
    repository()
    host("git config core.hooksPath '~nobody/hooks'", workspace())
    done = brig("run", "--", "true")
    assert done.status == 125 and "cannot follow" in done.errors, done.errors


@test
def a_plain_configuration_asks_nobody():
    repository()
    host("git remote add up https://example.org/x.git", workspace())
    assert brig("run", *USUAL_PATH, "--", "true", env=no_git()).status == 0


if __name__ == "__main__":
    sys.exit(main())
