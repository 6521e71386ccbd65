#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The caller's git settings inside: the first commit has the right name, and nothing that names a program comes along."""

import os
import shutil
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import brig, brig_environment, main, scratch, test, workspace  # noqa: E402

CONFIG = """\
[user]
    name = Ada \\"Countess\\" Lovelace   ; a comment
    email = ada@example.org
    signingkey = ~/.ssh/id
[init]
    defaultBranch = trunk
[core]
    editor = vi
    hooksPath = /nonexistent
    autocrlf = input
[alias]
    st = !id
[credential]
    helper = store
[url "https://example.org/"]
    insteadOf = ex:
[pull]
    rebase
[commit]
    gpgsign = true
"""


def home():
    """A home folder with files in it; the harness wants its own one empty."""
    folder = scratch() / "home"
    folder.mkdir(exist_ok=True)
    return folder


def environment():
    return {"HOME": str(home()), "GIT_CONFIG_SYSTEM": "/dev/null"}  # a package may have written the real one


def configured(text):
    (home() / ".gitconfig").write_text(text)


def outside(*args):
    """What the caller's own git says."""
    owner = os.stat(workspace()).st_uid
    argv = ["setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups", "--"] if os.geteuid() == 0 and owner else []
    done = subprocess.run([*argv, "git", *args], cwd=workspace(), env=brig_environment(environment()), capture_output=True, text=True, check=False)
    return done.stdout


def inside(*args):
    return brig("run", "--", *args, env=environment())


@test
def the_first_commit_has_the_callers_name():
    configured(CONFIG)
    done = inside("sh", "-ec", "git init -q .; echo x > f; git add f; git commit -q -m first; git log --format='%an <%ae> %cn' -1; git branch --show-current")
    assert done.status == 0, done.errors
    assert done.stdout == b'Ada "Countess" Lovelace <ada@example.org> Ada "Countess" Lovelace\ntrunk\n', done.stdout


@test
def who_signs_outside_is_told_that_nobody_signs_inside():
    configured(CONFIG)
    told = "commits inside are not signed"
    assert told in inside("git", "init", "-q", ".").errors and told not in inside("true").errors
    done = inside("git", "-c", "commit.gpgsign=true", "commit", "-q", "--allow-empty", "-m", "x")
    assert done.status and "hint: keys that sign commits stay outside: --ssh-agent" in done.errors, done.errors


@test
def who_shows_keys_is_told_so():
    (home() / ".ssh").mkdir()
    (home() / "src").mkdir()
    for grant, told in ((("--read", home()), True), (("--mount", f"{home()}/.ssh:/k"), True), (("--read", home() / "src"), False)):
        done = brig("run", *grant, "--", "true", env=environment())
        assert done.status == 0 and ("can read keys of yours: '~/.ssh'" in done.errors) == told, (grant, done.errors)


@test
def git_inside_says_what_git_outside_says():
    for text in (CONFIG, '[USER] Name = "a # b"\n', "[user]\r\n\tname = a\\\r\n b\r\n", '[user "sub"]\nname = x\n[user]\nname = "q\\\\\\"z"  y  \n',
                 "[pull] rebase = ; none\n[color]ui=false#x\n", "[user.x]\nname = old\n"):
        configured(text)
        for key in ("user.name", "user.email", "pull.rebase", "core.autocrlf", "color.ui"):
            kind = ["--type=bool"] if key == "pull.rebase" else []  # a key alone means true
            done = inside("git", "config", *kind, "--get", key)
            want = outside("config", *kind, "--get", key)
            assert done.text == want, (text, key, done.stdout, want)


@test
def no_program_address_or_helper_comes_along():
    configured(CONFIG)
    done = inside("git", "config", "--system", "--list", "--name-only")
    assert set(done.text.split()) == {"user.name", "user.email", "init.defaultbranch", "core.autocrlf", "pull.rebase"}, done.stdout


@test
def an_include_for_this_folder_counts_and_another_does_not():
    (home() / "work").write_text("[user]\n\temail = ada@work.example\n")
    configured(f'[user]\nname = Ada\nemail = ada@home.example\n[includeIf "gitdir:{workspace()}/"]\npath = work\n')
    outside("init", "-q")
    assert inside("git", "config", "user.email").stdout == b"ada@work.example\n" == outside("config", "user.email").encode()
    configured('[user]\nname = Ada\nemail = ada@home.example\n[includeIf "gitdir:/nowhere/"]\npath = work\n')
    assert inside("git", "config", "user.email").stdout == b"ada@home.example\n" == outside("config", "user.email").encode()


@test
def a_name_that_may_be_wrong_is_not_given_and_the_run_says_so():
    (home() / "work").write_text("[user]\n\temail = ada@work.example\n")
    configured('[user]\nname = Ada\nemail = ada@home.example\n[includeIf "onbranch:main"]\npath = work\n')
    outside("init", "-q")
    done = inside("git", "config", "user.email")
    assert done.status == 1 and done.stdout == b"", done.stdout
    assert "no name and e-mail" in done.errors, done.errors


@test
def the_global_file_inside_is_the_sandboxs_own():
    configured(CONFIG)
    done = inside("sh", "-ec", "git config --global user.name Grace; git config user.name")
    assert done.status == 0 and done.stdout == b"Grace\n", done.errors
    assert (home() / ".gitconfig").read_text() == CONFIG


LFS = """[filter "lfs"]
    clean = git-lfs clean -- %f
    smudge = git-lfs smudge -- %f
    process = git-lfs filter-process
    required = true
"""
ADD = "head -c 2000 /dev/zero > b.bin; git add b.bin; git cat-file -s :b.bin"


def filtered(name):
    """A repository of the caller's whose attributes name a filter."""
    shutil.rmtree(workspace() / ".git", ignore_errors=True)
    (workspace() / "b.bin").unlink(missing_ok=True)
    outside("init", "-q")
    (workspace() / ".gitattributes").write_text(f"*.bin filter={name} -text\n")


@test
def files_of_git_lfs_are_added_as_pointers():
    """By the settings that git lfs install writes; what is not there inside is told by git."""
    for text in (LFS, LFS.replace("smudge --", "smudge --skip --").replace("filter-process", "filter-process --skip")):
        configured(text)
        filtered("lfs")
        done = inside("sh", "-ec", ADD + "; rm b.bin; git checkout -q b.bin; wc -c < b.bin")
        size, again = done.text.split()
        assert done.status == 0 and 100 < int(size) < 200 and again == ("2000" if text is LFS else size), (done.text, done.errors)


@test
def a_filter_that_is_not_carried_is_refused_by_git():
    """The control is a file of no filter, and the same filter in the repository's own settings."""
    for text, name in (('[filter "x"]\nclean = tr a b\n', "x"), ('[filter "we \\"ird\\\\"]\nsmudge = cat\n', None), (LFS.replace("git-lfs clean", "/opt/git-lfs clean"), "lfs")):
        configured(text)
        filtered(name)
        done = inside("sh", "-c", ADD)
        if name:
            assert done.status and "failed" in done.errors and "opt" not in inside("cat", "/etc/gitconfig").text, (text, done.errors)
        else:
            assert done.text == "2000\n" and inside("git", "config", "--system", "--name-only", "--list").text == 'filter.we "ird\\.required\n', done.errors
    configured('[filter "x"]\nclean = tr a b\n')
    filtered("x")
    outside("config", "filter.x.clean", "head -c 5")
    assert inside("sh", "-ec", ADD).text == "5\n"


@test
def without_settings_there_is_no_file():
    done = inside("sh", "-c", "ls /etc/gitconfig; git config --system --list")
    assert done.stdout == b"", done.stdout


if __name__ == "__main__":
    sys.exit(main())
