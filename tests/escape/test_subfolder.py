#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A workspace that is a folder of a repository: git works on all of it, and nothing but that folder, and what git keeps, changes.

The oracle is the host: its tree, its git folder, and what git on the host runs afterwards."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import as_identity, held, inside, on_host, outside, WAIT  # noqa: E402
from harness import brig, files_as_root, home, identity, main, scratch, start_brig, state, test, tree, uid, wait_until, workspace  # noqa: E402

BOTH = ("native", "bwrap")
WHO = ("-c", "user.name=x", "-c", "user.email=x@x")
SHOWN = "with its whole history"


def git(*words, at=None):
    done = on_host("git", *WHO, *words, cwd=at or workspace())
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout.decode()


def repository(at=None):
    """One commit, and a folder to work in."""
    top = at or workspace()
    for name in ("sub/deep", "other"):
        (top / name).mkdir(parents=True)
    for name, text in (("file", "SECRET\n"), ("sub/mine", "mine\n"), ("other/theirs", "theirs\n")):
        (top / name).write_text(text)
    git("init", "-q", at=top)
    git("add", ".", at=top)
    git("commit", "-qm", "one", at=top)
    return top / "sub"


def run(sub, script, *options, **more):
    return brig("run", "--workdir", sub, *options, "--", "sh", "-c", script, **more)


def as_git(script):
    return "export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x; " + script


@test(backends=BOTH)
def git_works_in_a_subfolder_and_deletes_nothing_of_the_rest():
    sub = repository()
    before = {n: (workspace() / n).read_bytes() for n in ("file", "other/theirs")}
    done = run(sub, as_git("git status --short; echo more >> mine; echo new > new; git add new; git commit -qam two && git log --format=%s; git diff HEAD~1 --name-only; cat ../file"))
    assert done.text == "two\none\nsub/mine\nsub/new\nSECRET\n" and SHOWN in done.errors and "hard link" in done.errors, (done.text, done.errors)
    assert git("log", "--format=%s") == "two\none\n" and git("status", "--short") == "" and git("ls-files") == "file\nother/theirs\nsub/mine\nsub/new\n"
    assert before == {n: (workspace() / n).read_bytes() for n in before}
    git("fsck", "--strict")
    done = run(sub / "deep", as_git("git log --format=%s; git commit -q --allow-empty -m three && git branch b && git tag t"))
    assert done.status == 0 and git("log", "--format=%s", "-1") == "three\n", done.errors
    for options, word in ((("--git", "read"), "Read-only"), (("--policy", "readonly"), "Read-only")):
        done = run(sub, as_git("git log -1 --format=%s && git commit -q --allow-empty -m four"), *options)
        assert done.text == "three\n" and done.status != 0 and word in done.errors, (options, done.text, done.errors)
    done = run(sub, "git log; cat ../file; ls ../.git", "--git", "none")
    assert done.text == "" and SHOWN not in done.errors, (done.text, done.errors)
    assert git("log", "--format=%s", "-1") == "three\n"


@test(backends=("native",))
def an_overlay_changes_nothing_of_a_repository_above_and_says_so_once():
    sub = repository()
    done = run(sub, as_git("git log --format=%s; echo more >> mine; git commit -qam two"), "--workspace", "overlay", "--apply", "never")
    assert done.text == "one\n" and done.status != 0, (done.text, done.errors)
    assert done.errors.count("no commit can be made") == 1 and SHOWN in done.errors and "hard link" not in done.errors, done.errors
    assert git("log", "--format=%s") == "one\n" and git("status", "--short") == ""
    assert "nothing of what git keeps can be changed" in run(sub, "true", "--git", "read").errors


@test(backends=BOTH)
def nothing_outside_of_the_subfolder_can_be_written():
    sub, top = repository(), workspace()
    (top / ".git/hooks").mkdir(exist_ok=True)
    kept = ("config", "HEAD", "description")
    before = {n: (top / ".git" / n).read_bytes() for n in kept}
    names = set(tree(top / ".git"))
    files = {n: (top / n).read_bytes() for n in ("file", "other/theirs")}
    attacks = """
        echo evil > ../file; echo evil > ../new; echo evil > ../other/theirs; mkdir ../d; rm -rf ../other ../file; mv ../other ../o; ln -s / ../l; chmod 777 ../file ..; touch ..
        ln ../file hard && echo evil > hard; cp -l ../other/theirs h2 && echo evil > h2; mv ../sub ../s2; rmdir deep; umount .. . ../.git; mount --bind . ..
        for n in config hooks/pre-commit hooks/post-checkout info/attributes config.worktree objects/info/alternates commondir modules/x/config worktrees/w/commondir remotes/o branches/b; do
            mkdir -p ../.git/$(dirname $n); echo '[core] fsmonitor=/evil' > ../.git/$n; done
        mv ../.git ../g; mv ../.git/hooks ../.git/h; mv ../.git/config ../.git/c; rm -rf ../.git/config ../.git/hooks; mv ../.git/info ../.git/i; ln -sfn /tmp ../.git/hooks
        git config core.hooksPath /evil; git config --local alias.x '!evil'; git config --worktree x.y z; git worktree add ../wt; git submodule add ./deep x; git init ..; git checkout -b n; git mv ../file ../f2
        cd ..; echo evil > file; echo evil > .envrc; mkdir .vscode; true"""
    done = run(sub, as_git(attacks))
    assert files == {n: (top / n).read_bytes() for n in files} and {p.name for p in top.iterdir()} == {".git", "file", "sub", "other"}, (sorted(tree(top)), done.errors)
    assert before["config"] == (top / ".git/config").read_bytes()
    for name in set(tree(top / ".git")) - names:
        assert not name.startswith(("hooks/", "info/attr", "remotes/", "branches/", "config")) and name not in ("commondir", "objects/info/alternates"), name
    assert not list((top / ".git").glob("modules/**/HEAD"))  # a lone config in there is no repository, and obeyed by nobody
    assert not (top / ".git/commondir").exists() and not (top / ".git/objects/info/alternates").exists() and not (top / ".git/hooks").is_symlink()
    # The control: with the whole repository as the workspace its files are the command's.
    assert brig("run", "--", "sh", "-c", "echo changed > file; touch new").status == 0 and (top / "file").read_text() == "changed\n"


@test(backends=BOTH)
def an_index_that_leads_git_into_the_subfolder_runs_nothing_on_the_host():
    sub, top = repository(), workspace()
    proof = scratch() / "ran"
    program = f"touch {proof}"
    control = scratch() / "control"
    control.mkdir()
    git("init", "-q", at=control)
    git("config", "core.fsmonitor", f"{program}; false", at=control)
    on_host("git", "status", cwd=control)
    assert proof.exists(), "the control proves nothing"
    proof.unlink()
    done = run(sub, as_git(f"""git init -q m; cd m; git commit -q --allow-empty -m x; git config core.fsmonitor '{program}; false'; c=$(git rev-parse HEAD); cd ..
        git update-index --add --cacheinfo 160000,$c,sub/m; git commit -qm link"""))
    for at in (top, sub):
        on_host("git", "status", cwd=at)
        on_host("git", "diff", cwd=at)
        on_host("git", "submodule", "status", cwd=at)
    assert not proof.exists(), done.errors
    shutil.rmtree(control)


@test(backends=BOTH)
def what_is_asked_for_in_the_git_folder_is_never_passed_over():
    sub, top = repository(), workspace()
    for name in ("q", "r"):
        (scratch() / name).mkdir()
    write = "echo x > ../.git/refs/heads/new; cat ../file"
    assert run(sub, write).text == "SECRET\n" and (top / ".git/refs/heads/new").exists(), "the control proves nothing"
    (top / ".git/refs/heads/new").unlink()
    for options in (("--read", top / ".git"), ("--read", top / ".git/refs"), ("--write", top / ".git"), ("--write", top / ".git/refs/heads"),
                    ("--mount", f"{scratch()}/q:{top}/.git"), ("--mount", f"{scratch()}/q:{top}/.git:rw"), ("--mount", f"{scratch()}/q:{top}/.git/refs")):
        done = run(sub, write, *options)
        assert done.status == 125 and "git folder" in done.errors and "hint: --git read" in done.errors and done.text == "", (options, done.text, done.errors)
    for options in (("--git", "read"), ("--git", "read", "--read", top / ".git"), ("--policy", "readonly", "--read", top / ".git/refs")):
        done = run(sub, write, *options)
        assert done.text == "SECRET\n" and "Read-only" in done.errors, (options, done.text, done.errors)
    assert not (top / ".git/refs/heads/new").exists()
    done = run(sub, "cat ../.git/HEAD; ls -A ../.git", "--git", "none", "--mount", f"{scratch()}/q:{top}/.git")
    assert done.text == "" and done.status == 0, (done.text, done.errors)
    # Beside it they hold, and a mount that covers the repository leaves nothing of it.
    done = run(sub, "cat ../other/theirs ../file; echo evil > ../other/theirs", "--read", top / "other")
    assert done.text == "theirs\nSECRET\n" and "Read-only" in done.errors, (done.text, done.errors)
    (scratch() / "q/sub").mkdir()
    done = run(sub, "cat ../file; ls -A ..", "--mount", f"{scratch()}/q:{top}")
    assert done.text == "sub\n" and "covered by a mount" in done.errors, (done.text, done.errors)


def not_shown(sub, why, *options, **more):
    """The repository stays out of sight, and one line says why."""
    done = run(sub, "git log; cat ../file ../.git/HEAD; ls -A ..; echo evil > ../file; touch here", *options, **more)
    assert "SECRET" not in done.text and "refs/heads" not in done.text and why in done.errors and "git does not work in here" in done.errors, (done.text, done.errors)
    assert (sub.parent / "file").read_text() == "SECRET\n" and (sub / "here").exists()
    (sub / "here").unlink()


@test(backends=BOTH)
def a_repository_that_a_run_made_shows_the_next_one_nothing():
    """It would say how much of the user's a run in a folder below may read. One that the user makes at that place is the control."""
    for name in ("top/sub", "deep/er/sub"):
        (workspace() / name).mkdir(parents=True)
    made, above, own = workspace() / "top", workspace() / "deep/er", workspace() / "own"
    for tree, place in ((made, made), (workspace(), above)):
        assert brig("run", "--workdir", tree, "--", "git", "init", "-q", place).status == 0
        (place / "file").write_text("SECRET\n")
        not_shown(place / "sub", "may have been made by a command")
        assert brig("run", "--workdir", tree, "--", "true").status == 0  # nor does another run make it the user's
        not_shown(place / "sub", "may have been made by a command")
    with start_brig("run", "--workdir", made.parent, "--", "sh", "-c", "git init -q own; : > made; read wait", stdin=subprocess.PIPE) as p:  # while it lasts
        wait_until(lambda: (workspace() / "made").exists())
        (own / "sub").mkdir()
        (own / "file").write_text("SECRET\n")
        not_shown(own / "sub", "may have been made by a command")
        p.stdin.close()
    shutil.rmtree(made / ".git")
    git("init", "-q", at=made)
    done = run(made / "sub", "cat ../file")
    assert done.text == "SECRET\n" and SHOWN in done.errors, done


@test(by_root=True, backends=BOTH)
def by_another_mount_such_a_repository_shows_nothing_either():
    """The run that made it worked in a folder above, by the mount that the next one does not stand in."""
    alias, below = scratch() / "alias", workspace() / "below"
    for folder in (alias, below / "sub"):
        folder.mkdir(parents=True)
    assert brig("run", "--workdir", workspace(), "--", "git", "init", "-q", "below").status == 0
    (below / "file").write_text("SECRET\n")
    with files_as_root():
        subprocess.run(["mount", "--bind", below, alias], check=True)
    try:
        not_shown(alias / "sub", "may have been made by a command")
        shutil.rmtree(below / ".git")
        git("init", "-q", at=below)
        done = run(alias / "sub", "cat ../file")  # control
        assert done.text == "SECRET\n" and SHOWN in done.errors, done
    finally:
        with files_as_root():
            subprocess.run(["umount", "-l", alias], check=True)


@test(backends=BOTH)
def a_root_that_holds_home_or_state_is_never_shown():
    sub, top = repository(), workspace()
    done = run(sub, "cat ../file")
    assert done.text == "SECRET\n", "the control proves nothing"
    not_shown(sub, "home folder", env={"HOME": str(top)})
    (top / "me").mkdir()
    not_shown(sub, "home folder", env={"HOME": str(top / "me")})
    for place in (top / "state", top / "deep/state"):
        place.mkdir(parents=True, mode=0o700)
        not_shown(sub, "state", env={"XDG_STATE_HOME": str(place)})
        shutil.rmtree(place)
    (scratch() / "state").symlink_to(top / "real")
    (top / "real").mkdir(mode=0o700)
    not_shown(sub, "state", env={"XDG_STATE_HOME": str(top / "real")})
    shutil.rmtree(top / "real")
    for settings in (top, scratch()):  # in there, and by a link to there
        (settings / "brig").mkdir(exist_ok=True) if settings == top else (settings / "brig").symlink_to(top / "brig")
        not_shown(sub, "settings", env={"XDG_CONFIG_HOME": str(settings)})
    (scratch() / "brig").unlink()
    (scratch() / "brig").mkdir()
    (scratch() / "brig/config.yaml").symlink_to(top / "settings")
    (top / "settings").write_text("network: none\n")
    not_shown(sub, "settings", env={"XDG_CONFIG_HOME": str(scratch())})
    (top / ".git").rename(top / "g")
    for names in ((), ("HEAD",), ("HEAD", "objects/x")):  # what any run in there could have made
        for name in (".git", *(f".git/{n}" for n in names)):
            (top / name).parent.mkdir(exist_ok=True)
            (top / name).mkdir() if name == ".git" else (top / name).write_text("ref: refs/heads/main\n")
        not_shown(sub, "no repository")
        shutil.rmtree(top / ".git")
    (top / ".git").symlink_to("g")
    not_shown(sub, "no folder")
    (top / ".git").unlink()
    (top / ".git").write_text(f"gitdir: {top}/g\n")
    not_shown(sub, "no folder")
    for target in ("/workspace", "/data"):  # at another place there is nothing around it
        done = run(sub, "cat ../file; pwd", "--set", f"workspace.target={target}")
        assert done.text == f"{target}\n", done.text


@test(by_root=True, backends=BOTH)
def a_root_of_somebody_else_or_on_another_file_system_is_never_shown():
    sub, top = repository(), workspace()
    other = 4243
    for path in (top, top / ".git"):
        with files_as_root():
            os.chown(path, other, other)
        not_shown(sub, "somebody else")
        with files_as_root():
            os.chown(path, uid(), uid())
    with files_as_root():
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"uid={uid()},gid={uid()}", "tmpfs", sub], check=True)
    try:
        not_shown(sub, "another file system")
    finally:
        with files_as_root():
            subprocess.run(["umount", "-l", sub], check=True)
    # One whose place inside is brig's own: anybody can make a .git in /tmp.
    with files_as_root():
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"uid={uid()},gid={uid()},mode=1777", "tmpfs", "/tmp"], check=True)
    try:
        inner = repository(pathlib.Path("/tmp"))
        not_shown(inner, "place of brig's own")
        assert run(inner, "ls -A /tmp").text == "sub\n"
    finally:
        with files_as_root():
            subprocess.run(["umount", "-l", "/tmp"], check=True)


@test(as_user="root", backends=BOTH)
def root_is_shown_nothing_of_another_users():
    """Who works for somebody else would show that one's home, state and settings, which are none of root's own."""
    sub, top = repository(), workspace()
    assert run(sub, "cat ../file").text == "SECRET\n", "the control proves nothing"
    other = 4243
    everything = [top, *top.rglob("*")]
    for path in everything:
        os.chown(path, other, other, follow_symlinks=False)
    not_shown(sub, "somebody else")
    for mine in ((top,), (top / ".git",), (sub,), (top, top / ".git")):  # all three must be
        for path in mine:
            os.chown(path, 0, 0)
        not_shown(sub, "somebody else")
        for path in mine:
            os.chown(path, other, other)
    for path in everything:
        os.chown(path, 0, 0, follow_symlinks=False)


@test(by_root=True, backends=BOTH)
def what_is_mounted_in_the_repository_does_not_come_along():
    sub, top = repository(), workspace()
    (scratch() / "secret").write_text("CANARY\n")
    assert run(sub, "cat ../file").text == "SECRET\n", "the control proves nothing"
    for place in (top / "other", top / ".git/objects/info", top / "file"):
        source = scratch() / "secret" if place.is_file() else scratch()
        with files_as_root():
            subprocess.run(["mount", "--bind", source, place], check=True)
        try:
            control = brig("run", "--read", place, "--", "sh", "-c", f"cat {place} {place}/secret")
            assert "CANARY" in control.text, (place, control.errors)
            done = run(sub, f"cat {place} {place}/secret; ls -A ..")
            assert done.text == "sub\n" and "something mounted" in done.errors, (place, done.text, done.errors)
        finally:
            with files_as_root():
                subprocess.run(["umount", "-l", place], check=True)
    with files_as_root():
        subprocess.run(["mount", "--bind", sub / "deep", sub / "deep"], check=True)
    try:  # it is the workspace's, and shown with it
        assert run(sub, "cat ../file").text == "SECRET\n"
    finally:
        with files_as_root():
            subprocess.run(["umount", "-l", sub / "deep"], check=True)


@test(backends=BOTH)
def services_and_state_around_the_subfolder_stay_out_of_reach():
    sub, top = repository(), workspace()
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(top / "s"))
        s.listen(8)
        os.chmod(top / "s", 0o777)
        outside("ipc", "connect", top / "s").must_work(str(top / "s"))
        inside("ipc", "connect", top / "s", options=("--workdir", sub)).must_fail(str(top / "s"))
    done = run(sub, f"ls -A {state()} {home()} {scratch()} {top.parent}; cat {top}/../state/brig/audit/key")
    assert done.text.split() == [f"{top.parent}:", top.name], done.text
    (top / "s").unlink()


@test(backends=BOTH)
def two_runs_in_two_folders_of_one_repository_do_not_disturb_each_other():
    sub, top = repository(), workspace()
    shutil.rmtree(top / ".git/hooks", ignore_errors=True)
    before = set(tree(top / ".git"))
    wait = WAIT.replace("/workspace", str(sub))
    with held("run", "--workdir", sub, "--", "sh", "-c", f"{wait}; mkdir -p ../.git/hooks; echo evil > ../.git/hooks/pre-commit; git log --format=%s", folder=sub) as h:
        done = run(top / "other", as_git("mkdir -p ../.git/hooks; echo evil > ../.git/hooks/pre-commit; git commit -q --allow-empty -m two; git log --format=%s"))
        assert done.text == "two\none\n", (done.text, done.errors)
    assert h.process.result.status == 0 and h.process.result.stdout == b"two\none\n", (h.process.result.status, h.process.result.stderr)
    assert not (top / ".git/hooks/pre-commit").exists()
    assert not {n for n in set(tree(top / ".git")) - before if not n.startswith(("objects", "logs", "COMMIT", "index", "ORIG"))}, set(tree(top / ".git")) - before


@test(as_user="user", backends=BOTH)
def a_git_folder_swapped_in_a_race_gives_nothing_else():
    sub, top = repository(), workspace()
    secret = scratch() / "secret"
    (secret / "objects").mkdir(parents=True)
    (secret / "HEAD").write_text("CANARY\n")
    (top / "link").symlink_to(secret)
    stop, seen = threading.Event(), [0, 0]

    def swap():
        while not stop.is_set():
            for a, b in ((".git", "aside"), ("link", ".git"), (".git", "link"), ("aside", ".git")):
                with contextlib.suppress(OSError):
                    os.rename(top / a, top / b)
            seen[0] += 1

    t = threading.Thread(target=swap)
    t.start()
    try:
        for _ in range(20):
            for _ in range(20):
                with contextlib.suppress(OSError):
                    seen[1] += (top / ".git/HEAD").read_text() == "CANARY\n"
            done = run(sub, "cat ../.git/HEAD ../aside/HEAD ../link/HEAD; echo evil > ../.git/HEAD; echo evil > ../.git/new")
            assert "CANARY" not in done.text and (secret / "HEAD").read_text() == "CANARY\n" and set(tree(secret)) == {"HEAD", "objects"}, (done.text, done.errors)
    finally:
        stop.set()
        t.join()
    assert seen[0] > 20 and seen[1], "the control proves nothing: no swap was seen"


if __name__ == "__main__":
    sys.exit(main())
