#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""2.10 of the attack corpus: file policy, and what the host does with files of the guest's.

The oracle of most: after the run the host does what a user does (git status, a shell, an editor's look) and a canary
file shows whether code of the guest's ran."""

import contextlib
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import digest, finish, held, inside, on_host, outside, signal, timed  # noqa: E402
from harness import (PATIENCE, brig, brig_environment, home, main, scratch, seconds, start_brig, test, tree, uid, wait_until, workspace)  # noqa: E402

HELD = (".envrc", ".gitattributes", ".husky", ".vscode", ".idea", ".zed", ".devcontainer", ".mcp.json", ".claude", ".codex", ".cursor",
        ".gemini", ".windsurf")
RC = (".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".inputrc", ".gitconfig")


def git(*args, cwd=None):
    """git as the user would call it afterwards."""
    env = brig_environment({"GIT_CONFIG_NOSYSTEM": "1", "GIT_PAGER": "cat"})
    return on_host("git", "-c", "user.name=a", "-c", "user.email=a@b", *args, cwd=cwd or workspace(), env=env)


def repository(at=None):
    at = pathlib.Path(at or workspace())
    done = git("init", "-q", at)
    assert done.returncode == 0, done.stderr
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=at)
    return at


def pwned():
    return scratch() / "PWNED"


def payload():
    """What must never run on the host."""
    return f"touch {pwned()}; false"


def evil_config():
    return f"[core]\n\tfsmonitor = {payload()}\n"


def use_repository(cwd=None):
    """What a user, a prompt or an editor does first."""
    for args in (("status", "--short"), ("diff",), ("log", "--oneline"), ("add", "-A"), ("commit", "-q", "--allow-empty", "-m", "x"), ("checkout", "-q", "-b", f"b{time.monotonic_ns()}")):
        git(*args, cwd=cwd)


def remove(path):
    """A folder and what is in it, also where the command closed it."""
    subprocess.run(["chmod", "-R", "u+rwx", path], check=True)
    shutil.rmtree(path)


def control(script, prepare=repository):
    """The same script on the host leads to code of the guest's being run."""
    at = scratch() / "control"
    at.mkdir()
    if prepare:
        prepare(at)
    on_host("sh", "-c", script, cwd=at)
    use_repository(at)
    assert pwned().exists(), "the control proves nothing"
    pwned().unlink()
    remove(at)


def quarantined():
    """What brig took away; the test removes it."""
    names = set()
    for state in (workspace().parent / "state/brig/quarantine", workspace()):
        for p in state.glob("*") if state.name == "quarantine" else state.glob(".brig-quarantine-*"):
            names.add(p.name)
            remove(p) if p.is_dir() and not p.is_symlink() else p.unlink()
    return names


def attack(script, *options, prepare=repository, check=True):
    """Run it in a sandbox, use the repository, and see."""
    if check:
        control(script, prepare)
    if prepare:
        prepare(workspace())
    done = brig("run", "--json", *options, "--", "sh", "-c", script)
    use_repository()
    ran = pwned().exists()
    gone = quarantined()
    assert not ran, f"code of the guest's ran on the host; denials: {done.json['denials']}"
    return done.json, gone


# ---- A109: an existing repository ----


@test
def a109_hooks_cannot_be_written():
    script = f"mkdir -p .git/hooks; for h in pre-commit post-checkout post-commit; do printf '#!/bin/sh\\n{payload()}\\n' > .git/hooks/$h; chmod 755 .git/hooks/$h; done"
    attack(script)
    assert not (workspace() / ".git/hooks/pre-commit").exists()


@test
def a109_git_config_cannot_be_written():
    for script in (f"printf '{evil_config()}' >> .git/config".replace("\n", "\\n").replace("\t", "\\t"),):
        attack(script)


@test
def a109_git_itself_cannot_change_the_config():
    attack(f"git config core.fsmonitor '{payload()}'", check=False)
    attack(f"git config --worktree core.fsmonitor '{payload()}'; printf '[core]\\n\\tfsmonitor = {payload()}\\n' > .git/config.worktree", check=False)


@test
def a109_another_common_folder_cannot_be_named():
    """.git/commondir sends git elsewhere for its config and hooks."""
    attack(f"cp -r .git evil; printf '[core]\\n\\tfsmonitor = {payload()}\\n' >> evil/config; echo ../evil > .git/commondir")


@test
def a109_attributes_and_filters_cannot_be_combined():
    attack(f"mkdir -p .git/info; echo '* filter=x diff=x' > .git/info/attributes; git config filter.x.clean '{payload()}'; git config diff.x.textconv '{payload()}'; echo a > a", check=False)
    attack("echo '* filter=x' > .gitattributes; printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = ../x\\n\\tupdate = !touch PWNED\\n' > .gitmodules", check=False)
    assert not (workspace() / ".gitattributes").exists()


@test
def a109_ordinary_work_in_a_repository_goes_on():
    repository()
    done = brig("run", "--", "sh", "-c", "echo a > a && git add a && git -c user.name=a -c user.email=a@b commit -q -m second && git branch other && git log --oneline")
    assert done.status == 0 and b"second" in done.stdout, done.errors
    assert b"second" in git("log", "--oneline").stdout


# ---- a repository made inside ----


@test
def a109_a_repository_made_inside_brings_no_hooks():
    attack(f"git init -q .; mkdir -p .git/hooks; for h in pre-commit post-checkout; do printf '#!/bin/sh\\n{payload()}\\n' > .git/hooks/$h; chmod 755 .git/hooks/$h; done", prepare=None)


@test
def a109_a_repository_made_inside_brings_no_config_that_runs():
    r, gone = attack(f"git init -q .; printf '[core]\\n\\tfsmonitor = {payload()}\\n' >> .git/config", prepare=None)
    assert gone and [d for d in r["denials"] if d["kind"] == "protected-path"], r["denials"]


@test
def a109_nor_with_section_and_key_on_one_line():
    attack(f"git init -q .; printf '[core] fsmonitor = {payload()}\\n' >> .git/config", prepare=None)


@test
def a109_nor_behind_a_nul_byte():
    attack(f"git init -q .; cp .git/config c; printf '# a\\000b\\n' > .git/config; cat c >> .git/config; printf '[core]\\n\\tfsmonitor = {payload()}\\n' >> .git/config", prepare=None)


@test
def a109_nor_in_the_config_of_the_worktree():
    attack(f"git init -q .; printf '[core]\\n\\trepositoryformatversion = 1\\n[extensions]\\n\\tworktreeConfig = true\\n' >> .git/config; printf '[core]\\n\\tfsmonitor = {payload()}\\n' > .git/config.worktree", prepare=None)


@test
def a109_nor_through_another_common_folder():
    attack(f"git init -q .; cp -r .git evil; printf '[core]\\n\\tfsmonitor = {payload()}\\n' >> evil/config; echo ../evil > .git/commondir", prepare=None)


@test
def a109_nor_with_an_include():
    attack(f"git init -q .; printf '[include]\\n\\tpath = ../evil\\n' >> .git/config; printf '[core]\\n\\tfsmonitor = {payload()}\\n' > evil", prepare=None)


@test
def a109_no_key_that_runs_something_is_forgotten():
    """Keys that git runs, each in a new repository; all must be gone from the host's config afterwards."""
    keys = ["core.fsmonitor", "core.hooksPath", "core.sshCommand", "core.editor", "core.pager", "core.askPass", "core.gitProxy", "core.alternateRefsCommand", "pager.log",
            "pager.status", "sequence.editor", "diff.external", "diff.x.command", "diff.x.textconv", "filter.x.clean", "filter.x.smudge", "filter.x.process", "merge.x.driver",
            "mergetool.x.cmd", "mergetool.x.path", "difftool.x.cmd", "difftool.x.path", "gpg.program", "gpg.ssh.program", "gpg.ssh.defaultKeyCommand", "credential.helper",
            "credential.x.helper", "alias.st", "interactive.diffFilter", "submodule.x.update", "remote.x.uploadpack", "remote.x.receivepack", "remote.x.vcs",
            "protocol.ext.allow", "uploadpack.packObjectsHook", "sendemail.smtpserver", "sendemail.sendmailcmd", "sendemail.tocmd", "tar.x.command", "trailer.x.command",
            "browser.x.cmd", "browser.x.path", "man.x.cmd", "man.x.path", "guitool.x.cmd", "instaweb.httpd", "init.templateDir", "include.path", "includeIf.gitdir:/.path",
            "core.worktree", "hook.x.command", "core.attributesFile", "url.ext::sh.insteadOf"]
    kept = []
    for key in keys:
        shutil.rmtree(workspace() / ".git", ignore_errors=True)
        brig("run", "--", "sh", "-c", f"git init -q . && git config '{key}' '!PAYLOAD'")
        with contextlib.suppress(OSError):
            if "PAYLOAD" in (workspace() / ".git/config").read_text():
                kept.append(key)
        quarantined()
    harmless = {"core.attributesFile"}  # names drivers, which need a key of their own
    assert not set(kept) - harmless, set(kept) - harmless


@test
def a109_a_bare_repository_at_the_top_is_taken_apart():
    script = f"git init -q --bare . && printf '[core]\\n\\tbare = false\\n\\tworktree = .\\n\\tfsmonitor = {payload()}\\n' >> config"
    attack(script, prepare=None)


@test
def a109_a_git_file_made_inside_is_taken_away():
    attack(f"git init -q hidden; printf '[core]\\n\\tfsmonitor = {payload()}\\n' >> hidden/.git/config; echo 'gitdir: hidden/.git' > .git", prepare=None)


# ---- repositories of unusual shape ----


def in_place(name):
    """A repository whose .git is a file that names a folder of the workspace, as bare clones with worktrees have."""
    def prepare(at):
        repository(at)
        os.rename(at / ".git", at / name)
        (at / ".git").write_text(f"gitdir: {name}\n")
        on_host("chmod", "644", at / ".git")
    return prepare


@test
def a109_a_git_folder_named_by_a_file_in_the_workspace_is_protected():
    attack(f"printf '[core]\\n\\tfsmonitor = {payload()}\\n' >> .bare/config", prepare=in_place(".bare"))


@test
def a109_a_git_folder_behind_a_link_is_protected():
    def prepare(at):
        repository(at)
        os.rename(at / ".git", at / "real")
        os.symlink("real", at / ".git")
    attack(f"printf '[core]\\n\\tfsmonitor = {payload()}\\n' >> real/config", prepare=prepare)


@test
def a109_hooks_behind_a_link_are_protected():
    def prepare(at):
        repository(at)
        shutil.rmtree(at / ".git/hooks", ignore_errors=True)
        (at / "githooks").mkdir()
        os.symlink("../githooks", at / ".git/hooks")
    attack(f"printf '#!/bin/sh\\n{payload()}\\n' > githooks/pre-commit; chmod 755 githooks/pre-commit", prepare=prepare)


@test
def a109_a_worktree_shows_its_own_common_folder_protected():
    main_repo = scratch() / "main"
    main_repo.mkdir()
    repository(main_repo)
    work = scratch() / "tree"
    assert git("worktree", "add", "-q", work, cwd=main_repo).returncode == 0
    before = {p.name: digest(p) for p in (main_repo / ".git").glob("config*")}
    done = brig("run", "--json", "--workdir", work, "--", "sh", "-c",
                f"git status >/dev/null && echo works; git config core.fsmonitor '{payload()}'; echo x > {main_repo}/.git/hooks/pre-commit; cat {main_repo}/../secret;"
                f"gd=$(git rev-parse --git-dir); printf '[core]\\n\\tfsmonitor = {payload()}\\n' > $gd/config.worktree; ls {main_repo}")
    use_repository(work)
    use_repository(main_repo)
    assert not pwned().exists() and "works" in done.json["stdout"]
    assert {p.name: digest(p) for p in (main_repo / ".git").glob("config*")} == before
    assert not (main_repo / ".git/hooks/pre-commit").exists()


@test
def a109_a_hostile_git_file_shows_no_foreign_folder():
    """Its text is the workspace's; it may name any folder of the user's."""
    other = scratch() / "private"
    other.mkdir()
    repository(other)
    (other / "secret").write_text("CANARY\n")
    for text in (f"gitdir: {other}/.git\n", f"gitdir: {other}\n", "gitdir: ../scratch/private/.git\n", f"gitdir: {home()}\n", "gitdir: /\n", "gitdir: /etc\n",
                 f"gitdir: {other}/.git\ngitdir: x\n", "gitdir: " + "a" * 5000 + "\n", "gitdir: \n", "gitdir:\t/\n"):
        (workspace() / ".git").write_text(text)
        done = brig("run", "--quiet", "--", "sh", "-c", f"cat {other}/secret {other}/.git/HEAD {other}/../secret; ls {other} /etc/ssh {home()}")
        assert done.status != 125 or done.stdout == b"", text
        assert b"CANARY" not in done.stdout and b"ref:" not in done.stdout and b"secret" not in done.stdout, text
    (workspace() / ".git").unlink()


@test
def a109_a_hostile_pair_of_git_files_shows_no_foreign_folder():
    """A folder elsewhere that the guest of an earlier run could write points back, as a real worktree does."""
    secrets = scratch() / "secrets"
    secrets.mkdir()
    (secrets / "key").write_text("CANARY\n")
    fake = scratch() / "earlier" / "worktrees" / "x"
    fake.mkdir(parents=True)
    (fake / "gitdir").write_text(f"{workspace()}/.git\n")
    (workspace() / ".git").write_text(f"gitdir: {fake}\n")
    for common in ("../../../secrets", str(secrets), "../..", str(scratch()), "/"):
        (fake / "commondir").write_text(common + "\n")
        done = brig("run", "--quiet", "--", "sh", "-c", f"cat {secrets}/key {scratch()}/secrets/key")
        assert b"CANARY" not in done.stdout, common
    (workspace() / ".git").unlink()


def hook(path):
    """A line of shell that makes a hook of it."""
    return f"mkdir -p {os.path.dirname(path)}; printf '#!/bin/sh\\n{payload()}\\n' > {path}; chmod 755 {path}"


def settings(path):
    return f"printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = .\\n\\tfsmonitor = {payload()}\\n' > {path}"


def own(at, *names):
    """Made by this test for its identity."""
    for name in names:
        on_host("mkdir", "-p", at / name)


@test
def a109_a_broken_git_folder_does_not_make_the_top_one():
    """git passes by a .git that is none and takes the folder around it for a bare repository."""
    bare = f"mkdir -p objects refs; echo 'ref: refs/heads/x' > HEAD; {settings('config')}"
    for how in ("rm .git/HEAD", "rm -r .git/objects", "mv .git/refs x", "echo x > .git/HEAD"):
        r, gone = attack(f"{how}; {bare}")
        assert gone and [d for d in r["denials"] if d["kind"] == "protected-path"], (how, r["denials"])
        shutil.rmtree(workspace() / ".git")
        for p in workspace().iterdir():
            shutil.rmtree(p) if p.is_dir() else p.unlink()


@test
def a109_a_workspace_that_is_a_bare_repository_is_protected():
    def bare(at):
        assert git("init", "-q", "--bare", at).returncode == 0
        shutil.rmtree(at / "hooks", ignore_errors=True)

    pushed = "git config receive.denyCurrentBranch ignore"  # something git itself would want to write
    attack(f"{settings('config')}; {pushed}", prepare=bare)
    for p in workspace().iterdir():
        shutil.rmtree(p) if p.is_dir() else p.unlink()
    bare(workspace())
    before = set(tree(workspace()))
    r = brig("run", "--json", "--", "sh", "-c", f"{hook('hooks/post-update')}; mkdir evil; cp -r HEAD objects refs evil; {settings('evil/config')}; echo evil > commondir").json
    assert {n for n in tree(workspace()) if n.split("/")[0] != "evil"} == before, tree(workspace())
    assert [d for d in r["denials"] if d["target"] == "commondir"], r["denials"]
    quarantined()


@test
def a109_links_are_protected_link_by_link():
    """What .git/hooks leads to, over folders and further links; by a change of any of them."""
    def over(*links, folders=()):
        def prepare(at):
            repository(at)
            shutil.rmtree(at / ".git/hooks", ignore_errors=True)
            own(at, *folders)
            for name, to in (*links, (".git/hooks", f"../{links[0][0] if links else folders[0]}")):
                os.symlink(to, at / name)
        return prepare

    def named(goal, **more):
        def prepare(at):
            repository(at)
            shutil.rmtree(at / ".git/hooks", ignore_errors=True)
            own(at, *more.get("folders", ()))
            os.symlink(f"../{goal}", at / ".git/hooks")
        return prepare

    tries = ((hook("h2/pre-commit"), over(("h1", "h2"), folders=["h2"])),
             (f"rm h1; ln -s h3 h1; {hook('h3/pre-commit')}", over(("h1", "h2"), folders=["h2"])),
             (hook("h2/pre-commit"), named("h2")),
             (hook("a/h/pre-commit"), named("a/h")),
             (f"mkdir b; ln -s b a; {hook('b/h/pre-commit')}", named("a/h")),
             (f"mv a b; {hook('a/h/pre-commit')}", named("a/h", folders=["a/h"])),
             (f"rmdir a; mkdir -p x/y; ln -s x/y a; {hook('x/h/pre-commit')}", named("a/../h", folders=["a", "h"])))
    for script, prepare in tries:
        attack(script, prepare=prepare)
        shutil.rmtree(workspace() / ".git")
        for p in workspace().iterdir():
            shutil.rmtree(p) if p.is_dir() and not p.is_symlink() else p.unlink()


@test
def a109_work_beside_a_dangling_link_stays():
    repository()
    os.symlink("build/envrc", workspace() / ".envrc")
    r = brig("run", "--json", "--", "sh", "-c", "mkdir build; echo a > build/a").json
    assert r["exit_code"] == 0 and not r["denials"] and (workspace() / "build/a").exists() and (workspace() / ".envrc").is_symlink(), r


@test
def a109_folders_closed_to_their_owner_hide_nothing():
    hooks = "; ".join(hook(f".git/hooks/{h}") for h in ("pre-commit", "post-checkout"))
    for mode in ("111", "555", "311"):
        attack(f"git init -q .; {hooks}; chmod {mode} .git/hooks", prepare=None)
        on_host("chmod", "-R", "u+rwx", workspace())
        remove(workspace() / ".git")
    attack(f"git init -q .; printf '[core]\\n\\tfsmonitor = {payload()}\\n' >> .git/config; chmod 555 .git", prepare=None)
    remove(workspace() / ".git")
    attack(f"cp -r .git evil; printf '[core]\\n\\tfsmonitor = {payload()}\\n' >> evil/config; echo ../evil > .git/commondir; chmod 555 .git")


@test
def a109_a_folder_that_was_closed_can_be_opened_inside_and_hides_nothing():
    """No placeholder can be made in it; the command, which owns it, opens it again."""
    def closed(at):
        repository(at)
        shutil.rmtree(at / ".git/hooks", ignore_errors=True)
        os.chmod(at / ".git", 0o555)
    attack(f"chmod 755 .git; {hook('.git/hooks/pre-commit')}", prepare=closed)


@test
def a109_a_closed_git_folder_keeps_no_placeholder():
    repository()
    shutil.rmtree(workspace() / ".git/hooks", ignore_errors=True)
    for mode in ("555", "111", "000"):
        r = brig("run", "--json", "--", "sh", "-c", f"chmod {mode} .git").json
        assert r["exit_code"] == 0 and not r["denials"], r
        assert not (workspace() / ".git/hooks").exists(), mode


@test
def a109_places_named_by_the_users_own_configuration_are_protected():
    def configured(key, value, *folders):
        def prepare(at):
            repository(at)
            assert git("config", key, value.replace("TOP", str(at)), cwd=at).returncode == 0
            own(at, *folders)
        return prepare

    for value, folders in ((" my hooks", [" my hooks"]), ("tools/hooks", ["tools/hooks"]), ("tools/hooks", ["tools"]), ("later", []), ("TOP/here", ["here"])):
        name = value.replace("TOP/", "").replace(" ", "\\ ")
        attack(hook(f"{name}/pre-commit"), prepare=configured("core.hooksPath", value, *folders))
        shutil.rmtree(workspace() / ".git")
        for p in workspace().iterdir():
            shutil.rmtree(p) if p.is_dir() and not p.is_symlink() else p.unlink()
    attack(f"printf '[core]\\n\\tfsmonitor = {payload()}\\n' > shared.inc", prepare=configured("include.path", "../shared.inc"))


def nested(path, *more):
    """Lines of shell: a repository at path with one commit, and further lines in it."""
    return "; ".join((f"mkdir -p {path} && cd {path}", "git init -q .", "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x", *more))


@test
def a109_the_index_leads_git_into_no_repository_that_runs_something():
    """git status at the top looks into every submodule the index names, by that one's own configuration and hooks."""
    evil = f"printf '[core]\\n\\tfsmonitor = {payload()}\\n' >> .git/config"
    tries = (f"({nested('sub', evil)}); git add sub",
             f"({nested('a/b', evil)}); touch x; git add a x",
             f"({nested('sub')}); ({nested('sub/deep', evil)}); (cd sub; git add deep); git add sub",
             f"({nested('sub', evil)}); git update-index --index-version 4; git add sub",
             f"({nested('sub', evil)}); git update-index --split-index; git add sub; git -c splitIndex.maxPercentChange=0 update-index --split-index",
             f"({nested('elsewhere', evil)}); mkdir sub; echo 'gitdir: ../elsewhere/.git' > sub/.git; git add sub")
    for script in tries:
        r, gone = attack(f"exec 2>/dev/null; {script}")
        assert gone and [d for d in r["denials"] if d["kind"] == "protected-path"], (script, r["denials"])
        for p in workspace().iterdir():
            shutil.rmtree(p) if p.is_dir() and not p.is_symlink() else p.unlink()


@test
def a109_a_repository_made_inside_leads_into_no_other():
    evil = f"printf '[core]\\n\\tfsmonitor = {payload()}\\n' >> .git/config"
    for made in ("git init -q .", "git init -q --object-format=sha256 ."):
        kind = "--object-format=sha256 " if "sha256" in made else ""
        attack(f"exec 2>/dev/null; {made}; (mkdir sub; cd sub; git init -q {kind}.; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; {evil}); git add sub", prepare=None)
        for p in workspace().iterdir():
            shutil.rmtree(p)


@test
def a109_submodules_of_the_users_own_are_protected():
    def prepare(at):
        other = at.parent / f"{at.name}-other"
        if not other.exists():
            other.mkdir()
            if uid():
                os.chown(other, uid(), uid())
            repository(other)
        repository(at)
        assert git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", f"file://{other}", "sub", cwd=at).returncode == 0
        git("commit", "-qm", "submodule", cwd=at)

    evil = f"printf '[core]\\n\\tfsmonitor = {payload()}\\n'"
    for script in (f"rm sub/.git; (cd sub; git init -q .; {evil} >> .git/config)",
                   f"(mkdir evil; cd evil; git init -q .; {evil} >> .git/config); echo 'gitdir: ../evil/.git' > sub/.git",
                   f"mv sub x; ({nested('sub', evil + ' >> .git/config')})"):
        attack(f"exec 2>/dev/null; {script}", prepare=prepare)
        for p in workspace().iterdir():
            shutil.rmtree(p) if p.is_dir() and not p.is_symlink() else p.unlink()
    shutil.rmtree(workspace().parent / f"{workspace().name}-other")


@test
def a109_ordinary_repositories_below_stay_as_they_are():
    """What nobody names is left alone; versions and halves of indexes that git writes are read."""
    repository()
    for how in ("--index-version 4", "--index-version 3", "--index-version 2", "--split-index", "--no-split-index"):
        r = brig("run", "--json", "--", "sh", "-c", f"({nested('sub')}); for i in $(seq 300); do echo $i > file-$i; done; git add file* 2>/dev/null; git update-index {how}; git -c core.fileMode=true status >/dev/null").json
        assert r["exit_code"] == 0 and not r["denials"], (how, r)
        assert git("status").returncode == 0 and b"file-300" in git("ls-files").stdout


# ---- A110: names that do not exist yet ----


@test
def a110_missing_protected_names_are_not_there_afterwards():
    """Held ones cannot even be made; the others are taken away, and reported."""
    def script(name, way):
        return {"file": f"echo PWNED > {name}", "folder": f"mkdir -p {name} && echo PWNED > {name}/settings.json", "link": f"ln -s target {name}",
                "moved": f"mkdir x; echo PWNED > x/settings.json; mv -T x {name}", "exchanged": f"mkdir x; rm -f {name}; rmdir {name}; mv x {name}"}[way]

    for way in ("file", "folder", "link", "moved", "exchanged"):
        r = brig("run", "--json", "--", "sh", "-c", "; ".join(f"({script(n, way)})" for n in HELD) + "; rm -rf x; true").json
        left = [n for n in HELD if os.path.lexists(workspace() / n)]
        assert not left, (way, left)
        assert len(quarantined()) == len([d for d in r["denials"] if d["kind"] == "protected-path"]), r["denials"]
        shutil.rmtree(workspace() / "x", ignore_errors=True)
    on_host("sh", "-c", "; ".join(f"({script(n, 'folder')})" for n in HELD), cwd=scratch())
    assert len(tree(scratch())) > 10, "the control proves nothing"


@test
def a110_names_that_act_at_once_cannot_be_made_even_for_a_moment():
    """The host looks all the time, as an editor does."""
    names = (".vscode", ".mcp.json", ".claude", ".codex", ".cursor", ".gemini")
    script = "touch ready; while [ ! -e go ]; do " + "; ".join(f"(mkdir {n}; echo PWNED > {n}/tasks.json; rmdir {n}; echo PWNED > {n}) 2>/dev/null" for n in names) + "; done"
    with held("run", "--", "sh", "-c", script):
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            for n in names:
                assert (workspace() / n).is_socket(), n
    assert tree(workspace()) == {} and not quarantined()


@test
def a110_missing_names_in_an_existing_git_folder_are_not_there_afterwards():
    repository()
    shutil.rmtree(workspace() / ".git/hooks", ignore_errors=True)
    before = set(tree(workspace() / ".git"))
    brig("run", "--", "sh", "-c", "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; echo x > .git/config.worktree; git init -q --bare .git/modules/x; "
         "git init -q --bare .git/modules/y; mkdir -p .git/modules/y/hooks; echo x > .git/modules/y/hooks/pre-commit; echo x > .git/modules/y/config.worktree")
    left = set(tree(workspace() / ".git")) - before
    # A repository that is as git makes it stays; of the other nothing that git would obey.
    assert {"modules/x/HEAD", "modules/x/config", "modules/x/objects"} <= left and all(f"{name}/".startswith("modules/") for name in left), left
    assert not [name for name in left if "/hooks/" in name and not name.endswith(".sample") or "config.worktree" in name], left
    assert len(quarantined()) > 1


@test
def a112_shell_rc_names_are_taken_away_and_reported():
    for name in RC:
        r = brig("run", "--json", "--", "sh", "-c", f"echo 'touch {pwned()}' > {name}").json
        assert not (workspace() / name).exists(), name
        assert [d for d in r["denials"] if d["kind"] == "protected-path" and d["target"] == name], r["denials"]
        assert len(quarantined()) == 1
    assert set(tree(workspace())) == set()


@test
def a112_rc_names_as_folders_links_and_pipes_are_taken_away_too():
    for script in ("mkdir .bashrc; touch .bashrc/x", "ln -s /etc/passwd .bashrc", "mkfifo .bashrc", "touch x; ln x .bashrc; rm x"):
        took, done = timed(brig, "run", "--json", "--", "sh", "-c", script)
        assert took < 5 and not os.path.lexists(workspace() / ".bashrc"), script
        assert done.json["denials"], script
        quarantined()


@test
def a112_an_existing_rc_file_is_read_only():
    (workspace() / ".bashrc").write_text("mine\n")
    before = digest(workspace() / ".bashrc")
    brig("run", "--", "sh", "-c", "echo evil >> .bashrc; rm -f .bashrc; mv .bashrc x; echo evil > .bashrc")
    assert digest(workspace() / ".bashrc") == before and set(tree(workspace())) == {".bashrc"}


@test
def a112_places_of_the_users_session_are_not_there():
    paths = [".config/autostart/x.desktop", ".config/systemd/user/x.service", ".ssh/authorized_keys", ".local/bin/ls", ".profile", ".bashrc"]
    script = "".join(f"mkdir -p $HOME/{os.path.dirname(p)} {home()}/{os.path.dirname(p)}; echo evil > $HOME/{p}; echo evil > {home()}/{p};" for p in paths)
    brig("run", "--", "sh", "-c", script + "echo evil > /var/spool/cron/crontabs/root; echo evil > /etc/cron.d/x; echo evil > /etc/profile.d/x.sh; true")
    assert tree(home()) == {}
    assert not os.path.exists("/etc/cron.d/x") and not os.path.exists("/etc/profile.d/x.sh")


# ---- A113: reading ----


@test
def a113_secrets_of_the_user_and_the_machine_are_absent():
    names = [".ssh/id_ed25519", ".aws/credentials", ".kube/config", ".docker/config.json", ".netrc", ".bash_history", ".config/gcloud/x", ".gnupg/x", ".mozilla/x", ".git-credentials"]
    for n in names:
        (home() / n).parent.mkdir(parents=True, exist_ok=True)
        (home() / n).write_text("CANARY-113\n")
    assert on_host("cat", home() / names[0]).stdout == b"CANARY-113\n"
    places = [f"{home()}/{n}" for n in names] + [f"/proc/self/root{home()}/{n}" for n in names]
    done = brig("run", "--", "sh", "-c", f"cat {' '.join(places)} /etc/shadow /etc/gshadow /etc/sudoers /etc/ssh/ssh_host_ed25519_key /root/.ssh/id_rsa /root/.bash_history; ls -A /root /home /var/lib /var/log /srv /opt /mnt /media /boot; grep -r CANARY-113 / --include='*' -s -l --exclude-dir=proc --exclude-dir=usr | head")
    assert b"CANARY-113" not in done.stdout and not [s for s in done.text.splitlines() if s.startswith("root:")]
    packages = {op["target"].rpartition("/")[2] for op in brig("plan", "--", "true").json["ops"] if op.get("target", "").startswith("/var/lib/") and not op.get("package", "-")[1:]}
    assert set(done.text.split()) - {"/root:", "/home:", "brig", "/var/lib:", "/var/log:", *packages} == set(), done.text
    for n in os.listdir(home()):
        shutil.rmtree(home() / n) if (home() / n).is_dir() else (home() / n).unlink()


@test
def a113_brigs_own_state_is_not_shown_and_cannot_be_asked_for():
    state = workspace().parent / "state"
    brig("run", "--", "true")
    done = brig("run", "--", "sh", "-c", f"ls -A {state} {state}/brig {workspace().parent} /var/lib/brig /run/brig")
    assert done.text.split() == [f"{workspace().parent}:", "work"] and done.status != 0  # folders above the workspace are empty ones of brig's own
    for option in (("--write", state / "brig"), ("--mount", f"{state}/brig:/data:rw"), ("--workdir", state / "brig"), ("--write", state)):
        done = brig("run", *option, "--", "sh", "-c", f"touch {state}/brig/x /data/x /workspace/x")
        (state / "brig/x").unlink(missing_ok=True)
        assert done.status == 125, f"{option[0]}: brig's own records can be changed from inside"


@test
def a113_a_workspace_that_holds_brigs_state_is_refused_or_the_state_is_closed():
    """XDG_STATE_HOME inside the project: journals and quarantine would be the guest's to write."""
    state = workspace() / "state"
    state.mkdir(mode=0o700)
    env = {"XDG_STATE_HOME": str(state)}
    brig("run", "--", "true", env=env)
    done = brig("run", "--", "sh", "-c", "mkdir -p state/brig/workspaces; echo x > state/brig/workspaces/evil; ls state/brig", env=env)
    assert done.status == 125 or not (state / "brig/workspaces/evil").exists(), "the guest wrote into brig's journal folder"


# ---- A119, A120: names ----


@test
def a119_only_whole_components_match():
    for name in ("app", "app-secret", "app.secret", "APP"):
        (scratch() / name).mkdir()
        (scratch() / name / "file").write_text(f"CANARY {name}\n")
    reach = [f"{scratch()}/app-secret/file", f"{scratch()}/app/../app-secret/file", f"{scratch()}//app-secret/file", f"{scratch()}/app.secret/file", f"{scratch()}/APP/file",
             f"{scratch()}/app/./../app-secret/file", f"/proc/self/root{scratch()}/app-secret/file", f"{scratch()}/app/../../scratch/app-secret/file"]
    done = brig("run", "--read", scratch() / "app", "--", "cat", f"{scratch()}/app/file", *reach)
    assert done.stdout == b"CANARY app\n"
    for spelling in (f"{scratch()}/app/../app-secret", f"{scratch()}//app/", f"{scratch()}/app/."):
        done = brig("run", "--read", spelling, "--", "sh", "-c", f"cat {scratch()}/app/file {scratch()}/app-secret/file")
        assert done.status == 125 or len(done.stdout.splitlines()) <= 1, (spelling, done.stdout)


@test
def a120_and_a132_a_second_mount_of_the_workspace_does_not_uncover_it():
    """The same tree by another path: the strictest wins, or it is refused."""
    (workspace() / ".mcp.json").write_text("{}\n")
    repository()
    before = digest(workspace() / ".git/config"), digest(workspace() / ".mcp.json")
    for option in (("--mount", f"{workspace()}:/data:rw"), ("--write", workspace()), ("--write", workspace().parent), ("--mount", f"{workspace().parent}:/data:rw")):
        script = "".join(f"echo '[x]' >> {d}/.git/config; echo evil > {d}/.mcp.json; mkdir -p {d}/.claude; echo evil > {d}/.claude/settings.json;"
                         for d in ("/data", "/data/work", workspace()))
        brig("run", *option, "--", "sh", "-c", script + "true")
        assert (digest(workspace() / ".git/config"), digest(workspace() / ".mcp.json")) == before, f"{option[0]}: protected names were changed through the second path"
        assert not (workspace() / ".claude/settings.json").exists(), option
        quarantined()


@test
def a120_a_subfolder_of_the_workspace_does_not_uncover_it():
    repository()
    before = digest(workspace() / ".git/config")
    brig("run", "--mount", f"{workspace()}/.git:/data:rw", "--", "sh", "-c", "echo '[x]' >> /data/config; echo x > /data/hooks/pre-commit")
    assert digest(workspace() / ".git/config") == before, "through a mount of .git itself"


@test
def a132_read_only_wins_when_a_tree_is_shown_inside_a_writable_one():
    (workspace() / "vendor").mkdir()
    (workspace() / "vendor/file").write_text("original\n")
    brig("run", "--mount", f"{workspace()}/vendor:/data", "--", "sh", "-c", "echo evil > /data/file")
    assert (workspace() / "vendor/file").read_text() == "original\n"
    inner = f"{workspace()}/vendor"
    brig("run", "--mount", f"{inner}:{inner}", "--", "sh", "-c", "echo evil > /workspace/vendor/file; mv vendor vendor2; rm -rf vendor")
    assert (workspace() / "vendor/file").read_text() == "original\n"


# ---- A122 and others: read-only means it ----


@test
def a122_a_read_only_tree_cannot_be_changed_by_any_call():
    for folder in (workspace(), scratch()):
        (folder / "file").write_text("original\n")
    shutil.copytree(workspace(), scratch() / "copy")
    outside("files", "change", scratch() / "copy/file").must_work("write", "chmod", "utimes", "truncate")
    shutil.rmtree(scratch() / "copy")
    on_host("sh", "-c", "rm -f /tmp/copy /tmp/linked* /tmp/renamed")

    def state(folder):
        st = (folder / "file").stat()
        return tree(folder), digest(folder / "file"), st.st_mode, st.st_mtime_ns, st.st_ctime_ns, os.listxattr(folder / "file")

    before = state(workspace()), state(scratch())
    inside("files", "change", "/workspace/file", options=("--policy", "readonly")).must_fail("truncate", "open-truncate", "mmap", "setxattr", "link-tmp")
    inside("files", "change", f"{scratch()}/file", options=("--read", scratch())).must_fail("truncate", "utimes", "chmod")
    inside("files", "change", "/data/file", options=("--mount", f"{scratch()}:/data")).must_fail("truncate", "utimes", "chmod")
    assert (state(workspace()), state(scratch())) == before


@test
def a122_system_folders_cannot_be_changed_by_any_call():
    for f in ("/usr/bin/env", "/etc/passwd", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt", "/dev/null"):
        if os.path.exists(f):
            attempt = inside("files", "change", f)
            allowed = {"write", "append", "reopen", "open-truncate", "sendfile", "copy_file_range"} if f == "/dev/null" else set()
            assert set(attempt.worked) <= allowed, (f, attempt.worked)


@test
def a122_a_protected_file_cannot_be_changed_by_any_call():
    repository()
    (workspace() / ".mcp.json").write_text("{}\n")
    before = digest(workspace() / ".git/config"), digest(workspace() / ".mcp.json"), (workspace() / ".mcp.json").stat().st_ctime_ns
    for f in (".git/config", ".mcp.json"):
        attempt = inside("files", "change", f"/workspace/{f}")
        assert not set(attempt.worked) - {"create", "mkdir", "symlink", "mkfifo", "tmpfile", "chmod-folder"}, attempt.worked
    assert (digest(workspace() / ".git/config"), digest(workspace() / ".mcp.json"), (workspace() / ".mcp.json").stat().st_ctime_ns) == before


@test
def a123_the_working_folder_grants_nothing():
    """System places, home and what cannot be resolved are no workspace; from there nothing is shown."""
    (scratch() / "file").write_text("CANARY\n")
    (scratch() / "up").symlink_to("..")
    for workdir in ("/proc/self/cwd", "", "no-such-folder", home(), f"{scratch()}/up", f"{scratch()}/up/scratch"):
        done = brig("run", "--workdir", workdir, "--", "sh", "-c", "cat /workspace/scratch/file /workspace/file; touch /workspace/MADE")
        assert done.status == 125 and b"CANARY" not in done.stdout, (workdir, done.stdout)
        assert not workdir or not os.path.exists(f"{workdir}/MADE"), workdir
    for cwd in ("/", home()):
        before = set(os.listdir(cwd))
        brig("run", "--", "sh", "-c", "touch MADE; cat scratch/file", cwd=cwd)
        assert set(os.listdir(cwd)) == before, cwd


@test
def a123_no_folder_of_the_system_becomes_a_workspace():
    """Planned only: nothing is run there. /proc, /sys and /dev as a workspace would show what the sandbox hides."""
    folders = [w for w in ("/", "/etc", "/usr", "/boot", "/var", "/proc", "/dev", "/sys", "/run", "/tmp/../..") if os.path.isdir(w)]
    taken = [(p, w) for p in ("readonly", "workspace_write") for w in folders if brig("plan", "--policy", p, "--workdir", w, "--", "true").status == 0]
    assert not taken, taken


@test
def a124_variables_for_helpers_never_reach_a_host_process():
    """Set for the guest, they must not act on brig itself or on anything it starts."""
    evil = {"LD_PRELOAD": f"{workspace()}/evil.so", "LD_AUDIT": f"{workspace()}/evil.so", "BASH_ENV": f"{workspace()}/evil.sh", "ENV": f"{workspace()}/evil.sh",
            "PYTHONPATH": str(workspace()), "GIT_SSH_COMMAND": payload(), "LOCPATH": str(workspace()), "GCONV_PATH": str(workspace())}
    (workspace() / "evil.sh").write_text(f"touch {pwned()}\n")
    brig("run", *(w for k, v in evil.items() for w in ("--env", f"{k}={v}")), "--", "sh", "-c", "true")
    assert not pwned().exists()


@test
def a126_names_that_brig_uses_on_the_host_cannot_be_prepared():
    """/tmp is anybody's: a link or folder of another user's at brig's fallback name is not used."""
    me = str(uid())
    bait = pathlib.Path(f"/tmp/brig-{me}")
    (scratch() / "bait").mkdir(mode=0o777)
    env = {"XDG_STATE_HOME": None, "XDG_RUNTIME_DIR": None, "HOME": "/nonexistent"}
    if me != "0":
        bait.symlink_to(scratch() / "bait")
        done = brig("run", "--", "true", env=env)
        assert tree(scratch() / "bait") == {}, "it used a folder behind a link"
        assert done.status in (0, 125)
        bait.unlink()
        bait.mkdir(mode=0o777)
        bait.chmod(0o777)
        brig("run", "--", "true", env=env)
        assert os.listdir(bait) == [], "it used a folder that others may write"
        shutil.rmtree(bait)
    state = scratch() / "state"
    state.mkdir(mode=0o700)
    (state / "brig").symlink_to(scratch() / "bait")
    brig("run", "--", "true", env={"XDG_STATE_HOME": str(state)})
    assert tree(scratch() / "bait") == {}, "it followed a link in its state folder"
    for left in pathlib.Path("/tmp").glob("brig-*"):
        shutil.rmtree(left, ignore_errors=True)


@test
def a128_odd_files_where_the_host_reads_afterwards_do_not_hang_it():
    scripts = ("mkfifo .bashrc .zshrc", "git init -q .; rm .git/config; mkfifo .git/config", "git init -q .; rm -rf .git/hooks; mkfifo .git/hooks",
               "git init -q .; truncate -s 1T .git/config", "git init -q .; rm .git/config; ln -s /dev/zero .git/config", "mkfifo .git", "ln -s .git .git", "mkdir HEAD objects refs",
               "git init -q .; rm .git/config; ln -s ../x .git/config; ln -s .git/config x", "i=0; mkdir -p .git/hooks; while [ $i -lt 300 ]; do : > .git/hooks/h$i; i=$((i+1)); done",
               "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.bind('.bashrc')\"", "mkdir -p .bashrc/a/b; chmod 0 .bashrc/a .bashrc", "chmod 0 .")
    for script in scripts:
        took, done = timed(brig, "run", "--json", "--timeout", seconds(5), "--", "sh", "-c", script)
        assert took < 6 and done.json["outcome"] in ("exited", "signalled"), (script, took, done.json["outcome"])
        workspace().chmod(0o755)  # the last one closes it
        on_host("sh", "-c", "chmod -R u+rwX . 2>/dev/null; rm -rf .git .bashrc .zshrc x HEAD objects refs config", user=0 if os.geteuid() == 0 else None)
        for p in (workspace().parent / "state/brig/quarantine").glob("*"):
            on_host("chmod", "-R", "u+rwX", p, user=0 if os.geteuid() == 0 else None)
        quarantined()


@test
def a128_many_violations_are_reported_in_bounds():
    done = brig("run", "--json", "--", "sh", "-c", "git init -q .; mkdir -p .git/hooks; i=0; while [ $i -lt 2000 ]; do : > .git/hooks/h$i; i=$((i+1)); done")
    r = done.json
    assert r["denials"] and len(done.stdout) < 2 << 20
    assert not (workspace() / ".git/hooks").exists()
    quarantined()


@test
def a129_detours_lead_to_the_same_answer():
    repository()
    (scratch() / "secret").write_text("CANARY\n")
    before = digest(workspace() / ".git/config")
    for way in ("/proc/self/root/workspace", "/proc/self/cwd", "/proc/thread-self/cwd", "/dev/fd/7", "/proc/self/fd/7", "/workspace/../workspace", "/workspace/."):
        done = brig("run", "--", "sh", "-c", f"exec 7<.; echo '[x]' >> {way}/.git/config; echo x > {way}/.mcp.json; cat {way}/../..{scratch()}/secret {way}/..{scratch()}/secret")
        assert b"CANARY" not in done.stdout and digest(workspace() / ".git/config") == before, way
    assert not (workspace() / ".mcp.json").exists()


def whole_tree(folder):
    """Everything, with times: nothing may be touched."""
    found = {}
    for p in sorted(pathlib.Path(folder).rglob("*")):
        st = p.lstat()
        found[str(p.relative_to(folder))] = (st.st_mode, st.st_uid, st.st_gid, st.st_ino, None if stat.S_ISDIR(st.st_mode) else st.st_mtime_ns, os.listxattr(p, follow_symlinks=False))
    return found


@test
def a130_the_tree_is_the_same_apart_from_permitted_writes():
    repository()
    (workspace() / "src").mkdir()
    (workspace() / "src/a.c").write_text("int a;\n")
    (workspace() / "link").symlink_to("src/a.c")
    (workspace() / ".vscode").mkdir()
    before = whole_tree(workspace())
    for options in ((), ("--policy", "readonly"), ("--timeout", "1s", "--"), ("--tty",)):
        command = ("sleep", "9") if "--timeout" in options else ("true",)
        brig("run", *options, *command)
        assert whole_tree(workspace()) == before, options
    brig("run", "--", "sh", "-c", "exit 3")
    brig("run", "--", "no-such-command")
    brig("run", "--mount", "/nowhere:/x", "--", "true")
    assert whole_tree(workspace()) == before
    brig("run", "--", "sh", "-c", "echo b > src/b.c")
    after = whole_tree(workspace())
    assert set(after) - set(before) == {"src/b.c"} and {k: v for k, v in after.items() if k in before and k != "src"} == {k: v for k, v in before.items() if k != "src"}
    assert git("status", "--short", "--ignored").stdout.split(b"\n")[0] != b""


@test
def a130_git_sees_no_placeholder_during_a_run():
    repository()
    clean = git("status", "--short").stdout
    with held("run", "--", "sh", "-c", "touch ready; while [ ! -e go ]; do sleep 0.02; done"):
        assert git("status", "--short").stdout.replace(b"?? ready\n", b"") == clean


@test
def a131_the_first_instruction_already_has_all_bounds():
    """No entry script runs before: a static program as the command itself sees the final view."""
    (scratch() / "secret").write_text("CANARY\n")
    attempt = inside("procfs", "links", str(scratch() / "secret").lstrip("/"))
    attempt.must_fail("link")
    inside("fd", "list").must_fail("fd")


# ---- covers and the host ----


@test
def a029_a_covered_name_that_the_host_renames_ends_the_run():
    repository()
    script = "touch ready; while :; do (echo '[x]' >> .git/config; echo PWNED > .vscode/tasks.json) 2>/dev/null; done"
    (workspace() / ".vscode").mkdir()
    with held("run", "--json", "--timeout", seconds(15), "--", "sh", "-c", script) as h:
        on_host("sh", "-c", "mv .vscode elsewhere; mkdir .vscode")
        out, _ = h.process.communicate(timeout=10 * PATIENCE)
    assert b"protected name" in out and h.process.returncode == 125, out[-600:]
    assert not list((workspace() / ".vscode").glob("*")) or quarantined(), "what was written into the gap is still there"
    quarantined()


@test
def a029_a_placeholder_that_the_host_removes_ends_the_run():
    script = "touch ready; while :; do (mkdir .claude; echo PWNED > .claude/settings.json) 2>/dev/null; done"
    with held("run", "--json", "--timeout", seconds(15), "--", "sh", "-c", script) as h:
        os.unlink(workspace() / ".claude")
        out, _ = h.process.communicate(timeout=10 * PATIENCE)
    assert h.process.returncode == 125, out[-600:]
    assert not (workspace() / ".claude/settings.json").exists(), "it was written into the gap and stayed"
    quarantined()


@test
def a110_two_runs_in_one_workspace_share_the_placeholders():
    with held("run", "--", "sh", "-c", "touch ready; while [ ! -e go ]; do sleep 0.02; done; mkdir .claude/x; echo evil > .mcp.json; true") as first:
        for _ in range(3):
            done = brig("run", "--", "sh", "-c", "echo evil > .mcp.json; mkdir .claude/x; rm -f .vscode; true")
            assert done.status == 0, done.errors
        assert (workspace() / ".claude").is_socket() and first.process.poll() is None, "the first run lost its placeholders"
        second = start_brig("run", "--", "sh", "-c", "touch second; while [ ! -e third ]; do sleep 0.02; done; echo evil > .mcp.json; true")
        assert wait_until(lambda: (workspace() / "second").exists())
        first.release()
        first.process.wait(10 * PATIENCE)
        assert (workspace() / ".claude").is_socket(), "the second run lost its placeholders"
        (workspace() / "third").touch()
        attempt = finish(second)
        assert attempt.status == 0, attempt.stderr
    for n in ("second", "third"):
        (workspace() / n).unlink()
    assert tree(workspace()) == {} and quarantined() == set()


@test(alone=True)
def a110_two_runs_and_a_killed_one():
    with held("run", "--", "sh", "-c", "touch ready; while [ ! -e go ]; do sleep 0.02; done; mkdir .claude/x; true") as first:
        second = start_brig("run", "--", "sh", "-c", "touch second; sleep 60")
        assert wait_until(lambda: (workspace() / "second").exists())
        second.send_signal(signal.SIGKILL)
        second.communicate()
        brig("run", "--", "true")
        assert (workspace() / ".claude").is_socket(), "the living run's placeholders went with the dead one's"
        first.release()
        first.process.wait(10 * PATIENCE)
        assert first.process.returncode == 0
    (workspace() / "second").unlink()
    brig("run", "--", "true")
    assert tree(workspace()) == {}


@test
def a127_what_the_host_will_run_later_is_a_documented_residual():
    """Makefiles, package scripts, virtualenvs are the project's own code: changed inside, run by the user. Not a hidden change: git shows it."""
    repository()
    (workspace() / "Makefile").write_text("all:\n\ttrue\n")
    git("add", "-A")
    git("commit", "-q", "-m", "makefile")
    brig("run", "--", "sh", "-c", "printf 'all:\\n\\tevil\\n' > Makefile")
    assert b" M Makefile" in git("status", "--short").stdout


if __name__ == "__main__":
    sys.exit(main())
