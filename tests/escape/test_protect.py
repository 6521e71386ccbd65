#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Names that the host runs or obeys later: files by their inode, links, second ways in, what cannot be moved, runs that were killed.

The oracle: after the run the user goes on (git status, commit, checkout), and a file shows whether code of the guest's ran."""

import json
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import on_host  # noqa: E402
from harness import PATIENCE, brig, descendants, home, main, scratch, start_brig, test, uid, wait_until, workspace  # noqa: E402
from victim import GITLINK, attack, checker_of, clear, control, git, hook, payload, ran, remove, repository, settings, sh, taken, told, use  # noqa: E402


def text(path):
    return (workspace() / path).read_text()


def host(script, at=None):
    done = on_host("sh", "-c", script, cwd=at or workspace())
    assert done.returncode == 0, done.stderr


# ---- a file is its inode ----


@test
def a_second_name_made_in_an_earlier_run_does_not_write_the_configuration():
    attack("git init -q . && ln .git/config notes.txt", f"echo x >> .git/config; {settings('notes.txt')}", prepare=lambda at: None)


@test
def a_second_name_that_was_there_does_not_write_the_configuration():
    def prepare(at):
        repository(at)
        host("ln .git/config notes.txt", at)

    attack(settings("notes.txt"), prepare=prepare)
    assert os.stat(workspace() / ".git/config").st_nlink == 1
    assert "fsmonitor" in text("notes.txt") and "fsmonitor" not in text(".git/config")


@test
def no_protected_file_is_written_by_a_second_name():
    """At the top, in a covered folder, and further down; in one run and by a name of a folder that is not covered."""
    repository()
    names = (".mcp.json", ".envrc", ".bashrc", ".vscode/tasks.json", ".git/hooks/pre-commit", ".husky/_/pre-push", ".git/info/attributes", ".gitattributes")
    for i, name in enumerate(names):
        host(f"mkdir -p {os.path.dirname(name) or '.'} deep/er; echo mine > {name}; chmod 750 {name}; ln {name} deep/er/n{i}")
    stats = {n: os.stat(workspace() / n) for n in names}
    r = sh("for f in deep/er/n*; do echo evil > $f || exit 1; done")
    assert r["exit_code"] == 0 and r["denials"] == [], r
    for name in names:
        now = os.stat(workspace() / name)
        assert text(name) == "mine\n", name
        assert (now.st_mode, now.st_uid, now.st_mtime_ns, now.st_nlink) == (stats[name].st_mode, stats[name].st_uid, stats[name].st_mtime_ns, 1), name


@test
def a_file_that_cannot_be_made_private_refuses_the_run():
    repository()
    host("truncate -s 65M .mcp.json; ln .mcp.json other")
    done = brig("run", "--", "touch", "ran")
    assert done.status == 125 and "has other names" in done.errors and "hint" in done.errors, done.errors
    assert not (workspace() / "ran").exists() and sorted(p.name for p in workspace().iterdir()) == [".git", ".mcp.json", "file", "other"]


WAITING = "touch ready; while [ ! -e go ]; do sleep 0.01; done"


@test
def what_was_written_in_place_stays_unless_another_run_could_write_it():
    """A covered file is the same all the time, so that it was the host. A run in the folder above has no cover there."""
    host("mkdir p; cd p; git init -q .; echo mine > .envrc")
    here = workspace() / "p"
    for other in (False, True):
        p = start_brig("run", "--json", "--", "sh", "-c", WAITING, cwd=here)
        assert wait_until((here / "ready").exists)
        if other:
            assert brig("run", "--", "sh", "-c", "echo evil >> p/.envrc").status == 0
        else:
            host("cd p; echo more >> .envrc; printf '[alias]\\n\\tx = !id\\n' >> .git/config")
        (here / "go").touch()
        out, _ = p.communicate(timeout=30 * PATIENCE)
        r = json.loads(out)
        names = {c["path"] for c in r["changed_trust"] if "outside" in c["reason"]}
        assert names == (set() if other else {".envrc", ".git/config"}) and bool(told(r, ".envrc")) == other == bool(taken()), (other, r)
        assert text("p/.envrc") == "mine\nmore\n" and "alias" in text("p/.git/config"), other
        host("rm -f p/ready p/go")


@test
def a_configuration_that_was_replaced_by_more_than_plain_settings_is_put_back():
    """By the host's git, for no one can tell: the user has the one from before, and the new one in quarantine."""
    repository()
    host("git remote add origin /nowhere; chmod 640 .git/config")
    before = (workspace() / ".git/config").read_bytes()
    p = start_brig("run", "--json", "--", "sh", "-c", "touch ready; while [ ! -e go ]; do sleep 0.01; done")
    assert wait_until((workspace() / "ready").exists)
    host(f"git config core.fsmonitor '{payload()}'; touch go")
    out, err = p.communicate(timeout=30 * PATIENCE)
    assert b"changed during the run" in out and b"put back as it was" in out, (out, err)
    now = workspace() / ".git/config"
    assert now.read_bytes() == before and now.stat().st_mode & 0o777 == 0o640 and now.stat().st_uid == workspace().stat().st_uid and taken()
    use()
    assert not ran() and sh("git remote")["stdout"] == "origin\n"


# ---- links in covered folders ----


def linked(name, goal, folders=(), what="mine"):
    def prepare(at):
        repository(at)
        for folder in (*folders, os.path.dirname(name) or "."):
            host(f"mkdir -p {folder}", at)
        if what:
            real = os.path.normpath(os.path.join(os.path.dirname(name), goal))
            host(f"mkdir -p $(dirname {real}); printf '#!/bin/sh\\n' > {real}; chmod 755 {real}", at)
        host(f"rm -f {name}; ln -s {goal} {name}", at)
    return prepare


@test
def a_hook_that_is_a_link_into_the_tree_is_not_written_through():
    write = f"printf '#!/bin/sh\\n{payload()}\\n' > "
    for script, prepare in (
            (write + ".git/hooks/pre-commit", linked(".git/hooks/pre-commit", "../../scripts/pre-commit")),
            (write + "scripts/pre-commit", linked(".git/hooks/pre-commit", "../../scripts/pre-commit")),
            (f"mv scripts old; mkdir scripts; {write} scripts/pre-commit; chmod 755 scripts/pre-commit", linked(".git/hooks/pre-commit", "../../scripts/pre-commit")),
            (f"{hook('scripts/pre-commit')}", linked(".git/hooks/pre-commit", "../../scripts/pre-commit", what=None))):
        attack(script, prepare=prepare)
        clear()


@test
def a_deep_folder_beside_it_hides_no_link_of_a_hook():
    def deep(at):
        linked(".git/hooks/pre-commit", "../../scripts/pre-commit")(at)
        host("mkdir -p .claude/skills/pdf/scripts/lib/util", at)

    attack(f"printf '#!/bin/sh\\n{payload()}\\n' > scripts/pre-commit", prepare=deep)


@test
def a_hook_over_two_links_and_one_with_a_second_name_are_not_written():
    def two(at):
        linked(".git/hooks/pre-commit", "../../scripts/one")(at)
        host("mv scripts/one real; ln -s ../real scripts/one", at)

    def names(at):
        linked(".git/hooks/pre-commit", "../../scripts/one")(at)
        host("ln scripts/one plain", at)

    write = f"printf '#!/bin/sh\\n{payload()}\\n' > "
    for script, prepare in ((write + "real", two), (f"rm scripts/one; {write} scripts/one; chmod 755 scripts/one", two), (write + "plain", names)):
        attack(script, prepare=prepare)
        clear()


@test
def links_in_other_covered_folders_are_followed():
    repository()
    for i, name in enumerate((".vscode/tasks.json", ".claude/settings.json", ".husky/_/pre-commit", ".idea/x/y.xml", ".devcontainer/devcontainer.json")):
        up = "../" * name.count("/")
        host(f"mkdir -p {os.path.dirname(name)} shared; echo mine > shared/{i}; ln -s {up}shared/{i} {name}")
    r = sh("for f in shared/*; do echo evil > $f && exit 1; done; exit 0")
    assert r["exit_code"] == 0 and {text(f"shared/{i}") for i in range(5)} == {"mine\n"}, r


@test
def a_folder_of_thousands_of_files_is_told_of_and_the_run_goes_on():
    host("mkdir -p .claude/many; cd .claude/many; touch $(seq 2100)")
    done = brig("run", "--", "true")
    assert done.status == 0 and "not all looked at" in done.errors, done.errors


# ---- links that are written otherwise ----


# A protected name, the text of a link there, and the file in the workspace that it leads to. {alias} is a link to the folder
# above the workspace, {bind} a mount of the workspace, {out} a link outside that leads to `far`, over another.
OTHERWISE = ((".git/hooks/pre-commit", "{alias}/{work}/scripts/one", "scripts/one"), (".git/hooks/pre-push", "{bind}/scripts/two", "scripts/two"),
             (".git/hooks/post-merge", "../../../scratch/alias/{work}/scripts/three", "scripts/three"), (".envrc", "{out}", "far"),
             (".mcp.json", "turn/../four", "deep/four"), (".vscode", "{alias}/{work}/vs", "vs/tasks.json"), (".claude", "{bind}/cl", "cl/settings.json"),
             (".husky", "{alias}/{work}/turn/hooks", "deep/down/hooks/pre-commit"))


@test(by_root=True)
def a_link_that_comes_back_by_another_path_is_followed():
    w, s = workspace(), scratch()
    host(f"ln -s {w.parent} {s}/alias; ln -s out2 {s}/out; ln -s {w}/far {s}/out2; mkdir {s}/bind")
    subprocess.run(["mount", "--bind", w, s / "bind"], check=True)
    try:
        for backend in ("native", "bwrap"):
            repository()
            host("mkdir -p scripts deep/down/hooks vs cl; ln -s deep/down turn")
            for name, link, goal in OTHERWISE:
                host(f"echo mine > {goal}; ln -s {link.format(alias=s / 'alias', work=w.name, bind=s / 'bind', out=s / 'out')} {name}")
                found = w / name
                assert (found if found.is_file() else found / pathlib.Path(goal).name).read_text() == "mine\n", ("the control: it leads there", name)
            evil = "; ".join(f"echo evil > {goal}" for _, _, goal in OTHERWISE)
            done = brig("run", "--json", "--backend", backend, "--", "sh", "-c", f"{evil}; rm -f turn; ln -s scripts turn; true")
            assert "cannot follow" not in done.errors and told(done.json, "turn"), done.errors
            assert {goal: text(goal) for _, _, goal in OTHERWISE} == {goal: "mine\n" for _, _, goal in OTHERWISE}, backend
            clear()
        host(f"ln -s {s}/two {s}/one; ln -s {s}/one {s}/two; ln -s {s}/one .envrc")
        assert "'.envrc' is a link that brig cannot follow" in brig("run", "--", "true").errors
    finally:
        subprocess.run(["umount", s / "bind"], check=True)


@test
def what_a_link_leads_to_in_another_grant_is_compared():
    repository()
    data = scratch() / "data"
    data.mkdir()
    (data / "env").write_text("mine")
    host(f"ln -s {data}/env .envrc")
    assert brig("run", "--write", data, "--", "sh", "-c", f"touch {data}/other").status == 0 and os.path.lexists(workspace() / ".envrc")
    done = brig("run", "--json", "--write", data, "--", "sh", "-c", f"echo evil > {data}/env")
    assert told(done.json, ".envrc") and not os.path.lexists(workspace() / ".envrc"), done.json
    clear()


# ---- a second way in ----


@test
def a_second_way_to_a_protected_name_is_refused():
    repository()
    host("mkdir -p sub plain/deep lib/tools; git init -q sub; ln -s ../../lib/tools/x .git/hooks/pre-commit; echo x > lib/tools/x")
    for source in ("sub", ".git", ".git/hooks", "lib", "lib/tools", ".", ".vscode"):
        if not (workspace() / source).exists():
            host(f"mkdir -p {source}")
        done = brig("run", "--mount", f"{workspace()}/{source}:/data:rw", "--", "sh", "-c", "touch /data/ran")
        assert done.status == 125 and "second way" in done.errors, (source, done.errors)
    done = brig("run", "--mount", f"{workspace()}/plain:/data:rw", "--", "sh", "-c", "echo evil > /data/deep/f")
    assert done.status == 0 and text("plain/deep/f") == "evil\n", done.errors


@test(as_user="root", by_root=True)
def a_second_way_by_a_mount_of_the_hosts_is_refused():
    repository()
    other = scratch() / "other"
    other.mkdir()
    subprocess.run(["mount", "--bind", workspace() / ".git", other], check=True)
    try:
        done = brig("run", "--mount", f"{other}:/data:rw", "--", "sh", "-c", "touch /data/hooks/ran")
        assert done.status == 125 and "second way" in done.errors, done.errors
    finally:
        subprocess.run(["umount", other], check=True)


# ---- what cannot be held, and what cannot be moved ----


@test(as_user="root", by_root=True)
def a_name_that_cannot_be_held_for_want_of_room_refuses_the_run():
    place = scratch() / "full"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=12,mode=0777", "none", place], check=True)
    try:
        subprocess.run(["sh", "-c", "mkdir ws; cd ws; for i in 0 1 2 3 4 5 6 7 8; do touch f$i; done; touch f9 && touch f10 && exit 1; exit 0"], cwd=place, check=True)
        done = brig("run", "--workdir", place / "ws", "--", "touch", "f0")
        assert done.status == 125 and "cannot hold" in done.errors and "hint" in done.errors, done.errors
        done = brig("run", "--policy", "readonly", "--workdir", place / "ws", "--", "true")
        assert done.status == 0, done.errors
    finally:
        subprocess.run(["umount", place], check=True)


@test(as_user="user")
def what_cannot_be_moved_ends_the_run_as_failed():
    """Root takes the folder away from the user while the run lasts."""
    if os.geteuid() != 0:
        return  # the harness runs as root in CI; there this is tried
    host("mkdir scripts; ln -s scripts/envrc .envrc")
    p = start_brig("run", "--json", "--", "sh", "-c", "echo evil > scripts/envrc; touch ready; while [ ! -e go ]; do sleep 0.01; done")
    assert wait_until((workspace() / "ready").exists)
    os.chown(workspace() / "scripts", 0, 0)
    os.chmod(workspace() / "scripts", 0o755)
    host("touch go")
    out, _ = p.communicate(timeout=30 * PATIENCE)
    os.chown(workspace() / "scripts", uid(), uid())
    r = json.loads(out)
    assert (r["outcome"], r["exit_code"]) == ("failed", 125), r
    assert "could not be moved" in r["error"]["what"] and r["error"]["hint"], r["error"]
    taken()


# ---- what is the command's to change, and told ----


@test
def files_that_tools_obey_are_reported_when_they_change():
    host("mkdir -p .cargo deep/er; for n in package.json .npmrc CLAUDE.md .cargo/config.toml same.code-workspace; do echo a > $n; done")
    r = sh("cat package.json CLAUDE.md")
    assert r["changed_trust"] == [] and r["unseen_folders"] == 0, r
    done = brig("run", "--json", "--", "sh", "-c", "echo b >> package.json; echo b > .npmrc; echo b > .cargo/config.toml; echo b > deep/er/AGENTS.md; mkdir .kiro; echo c > x.code-workspace; echo e > .env; echo f > deep/.dir-locals.el; echo d > ordinary")
    seen = {c["path"] for c in done.json["changed_trust"]}
    assert seen == {"package.json", ".npmrc", ".cargo/config.toml", "deep/er/AGENTS.md", ".kiro", "x.code-workspace", ".env", "deep/.dir-locals.el"}, seen
    assert done.json["denials"] == [] and text("package.json") == "a\nb\n" and all(c["reason"] for c in done.json["changed_trust"])
    lines = [x for x in done.errors.splitlines() if "obeyed by tools" in x]
    assert len(lines) == 1 and "'package.json'" in lines[0], done.errors


@test
def names_below_a_folder_that_the_run_made_are_taken_away():
    """The folder itself is the command's to make."""
    names = (".hg/hgrc", ".hg/sharedpath", ".jj/repo/config.toml", ".kiro/hooks", ".kiro/settings", ".junie/mcp", ".roo/mcp.json", ".github/hooks", ".clinerules/hooks")
    for folders in (False, True):
        if folders:
            host("mkdir -p .hg .jj/repo .kiro .junie .roo .github .clinerules")
        r = sh(f"for n in {' '.join(names)}; do mkdir -p ${{n%/*}}; echo evil > $n; done; echo plan > .kiro/spec.md; echo a > .github/a")
        assert {d["target"] for d in r["denials"]} == set(names), r["denials"]
        assert text(".kiro/spec.md") == "plan\n" and not [n for n in names if (workspace() / n).exists()] and len(taken()) == len(names)
        clear()


@test(limit=120)
def a_pointer_to_another_repository_is_taken_away():
    """`.jj/repo` is a folder, or a file that says whose settings jj reads. The folder stays the command's to make and fill."""
    evil = "mkdir -p evil; echo evil > evil/config.toml"
    ways = {
        "a new file": ("true", "mkdir .jj; echo ../evil > .jj/repo"),
        "a file in an old folder": ("mkdir .jj", "echo ../evil > .jj/repo"),
        "a file in the place of a folder": ("mkdir -p .jj/repo/store", "mv .jj/repo old; echo ../evil > .jj/repo"),
        "a link to a file": ("true", "mkdir .jj; echo ../evil > p; ln -s ../p .jj/repo"),
        "a link to a folder": ("mkdir -p .jj/repo", "mv .jj/repo old; ln -s ../evil .jj/repo"),
        "the folder above": ("mkdir .jj", "mv .jj old; mkdir j; echo ../evil > j/repo; mv j .jj"),
        "a link above": ("true", "mkdir j; echo ../evil > j/repo; ln -s j .jj"),
    }
    for way, (prepare, script) in ways.items():
        host(prepare)
        done = brig("run", "--backend", "none", "--i-know-this-is-not-a-sandbox", "--", "sh", "-c", f"{evil}; {script}")
        assert done.status == 0 and (workspace() / ".jj/repo").exists(), (way, done.errors)  # the control
        clear()
        host(prepare)
        r = sh(f"{evil}; {script}")
        assert [d["target"] for d in r["denials"]] == [".jj" if way == "a link above" else ".jj/repo"] and not (workspace() / ".jj/repo").exists() and taken(), (way, r["denials"])
        clear()
    host("mkdir -p .jj theirs; echo ../theirs > .jj/repo")
    r = sh("echo ../evil > .jj/repo; rm -f .jj/repo; mv .jj x; echo ../evil > new && mv new .jj/repo; touch .jj/working_copy")
    assert text(".jj/repo") == "../theirs\n" and (workspace() / ".jj/working_copy").exists() and r["denials"] == [] and not taken(), r
    clear()
    for prepare in ("true", "mkdir -p .jj/repo/store"):
        host(prepare)
        r = sh("mkdir -p .jj/repo/store; echo a > .jj/repo/store/type; echo evil > .jj/repo/config.toml")
        assert [d["target"] for d in r["denials"]] == [".jj/repo/config.toml"] and text(".jj/repo/store/type") == "a\n" and taken(), r
        clear()
    killed("mkdir -p .jj/repo; touch .jj/repo/x", both=True)
    assert sh("true")["denials"] == [] and (workspace() / ".jj/repo/x").exists()
    clear()
    killed(f"{evil}; mkdir .jj; echo ../evil > .jj/repo", both=True)
    assert (workspace() / ".jj/repo").exists(), "somebody survived: the test is void"
    assert [d["target"] for d in sh("true")["denials"]] == [".jj/repo"] and not (workspace() / ".jj/repo").exists() and taken()


@test
def a_time_that_was_set_back_hides_no_change():
    """A name with the same size and the same mtime is another file all the same."""
    host("echo aaaa > package.json; echo aaaa > AGENTS.md")
    r = sh("touch -r package.json t; echo bbbb > package.json; touch -r t package.json; cp -p AGENTS.md u; echo cccc > u; touch -r t u; mv u AGENTS.md")
    assert {c["path"] for c in r["changed_trust"]} == {"package.json", "AGENTS.md"}, r["changed_trust"]


@test
def steps_that_git_goes_on_with_are_reported():
    repository()
    r = sh("mkdir -p .git/rebase-merge .git/sequencer; echo exec evil > .git/rebase-merge/git-rebase-todo; echo pick > .git/sequencer/todo")
    assert {c["path"] for c in r["changed_trust"]} == {".git/rebase-merge/git-rebase-todo", ".git/sequencer/todo"}, r["changed_trust"]


@test
def repositories_elsewhere_are_found_disarmed_and_told():
    repository()
    r = sh(f"git init -q a/b; git init -q --bare c.git; {settings('c.git/config')}; git init -q d; {hook('d/.git/hooks/pre-commit')}")
    assert {"a/b/.git", "c.git", "d/.git"} <= {c["path"] for c in r["changed_trust"]}, r["changed_trust"]
    assert {d["target"] for d in r["denials"]} == {"c.git/config", "d/.git/hooks"}, r["denials"]
    use(workspace() / "d")
    assert not ran() and (workspace() / "a/b/.git/config").exists() and len(taken()) == 2
    r = sh(settings("a/b/.git/config"))
    use(workspace() / "a/b")
    assert not ran() and [d["target"] for d in r["denials"]] == ["a/b/.git/config"] and taken()


@test
def what_cannot_be_looked_through_is_told_and_the_known_is_looked_at():
    """In the result and on standard error: here folders whose path is longer than any, and a thousand before the repository."""
    repository(workspace() / "vendor/lib")
    deep = "import os; [os.mkdir(f'd{i}') for i in range(1100)]; [(os.mkdir('x' * 250), os.chdir('x' * 250)) for i in range(20)]"
    done = brig("run", "--json", "--", "sh", "-c", f"python3 -c \"{deep}\"; {settings('vendor/lib/.git/config')}; {hook('vendor/lib/.git/hooks/pre-commit')}")
    use(workspace() / "vendor/lib")
    assert not ran() and told(done.json, ".") and done.json["unseen_folders"] > 0 and "more folders than brig looks at" in done.errors, done.errors
    taken()


@test
def the_git_folder_can_be_read_only_or_hidden():
    repository()
    r = sh("git log --oneline && ! touch .git/x && ! git add -A && ! mv .git y && ! git init -q --separate-git-dir z .", "--git", "read")
    assert r["exit_code"] == 0 and r["denials"] == [], r
    for policy in ("workspace_write", "readonly"):
        r = sh("[ -z \"$(ls -A .git)\" ] && ! git log && ! touch .git/x && ! mv .git y", "--git", "none", "--policy", policy)
        assert r["exit_code"] == 0 and r["denials"] == [], r
    assert not (workspace() / ".git/x").exists()
    clear()
    for access in ("read", "none"):
        r = sh("git init -q .", "--git", access)
        assert told(r, ".git") and taken(), r


@test(limit=90)
def a_git_folder_that_is_only_read_is_looked_through_whatever_it_holds():
    """Thousands of objects and a submodule's folders are no reason for a note, and a hook down there that is a link is still followed."""
    repository()
    from_ = scratch() / "from"
    from_.mkdir()
    if uid() != os.geteuid():
        os.chown(from_, uid(), uid())
    repository(from_)
    host(f"git -c protocol.file.allow=always submodule --quiet add {from_} sub; mkdir scripts; echo mine > scripts/x; ln -s ../../../../scripts/x .git/modules/sub/hooks/pre-commit; "
         "mkdir -p .git/objects/ab; cd .git/objects/ab; touch $(seq -f %038.0f 2100)")
    done = brig("run", "--git", "read", "--", "sh", "-c", "echo evil > scripts/x")
    assert done.status != 0 and "looked at" not in done.errors and text("scripts/x") == "mine\n", done.errors
    done = brig("run", "--git", "read", "--", "git", "-C", "sub", "log")
    assert done.status == 0 and done.errors == "", done.errors
    host(f"mkdir -p $(printf '.git/%s' $(printf 'd%.0s/' $(seq 20)))")
    done = brig("run", "--git", "read", "--", "true")
    assert done.status == 0 and "not all looked at" in done.errors, done.errors  # the control: too deep


@test
def a_project_file_may_only_take_access_to_git_away():
    repository()
    own = home() / ".config/brig"
    own.mkdir(parents=True)
    for given, wanted, ok in (("write", "read", True), ("read", "none", True), ("read", "write", False), ("none", "read", False)):
        host(f"printf 'brig: 1\\ngit: {wanted}\\n' > .brig.yaml")
        (own / "config.yaml").write_text(f"brig: 1\ngit: {given}\n")
        done = brig("run", "--", "sh", "-c", "ls -A .git | wc -l; touch .git/x 2>/dev/null && echo written")
        assert (done.status in (0, 1) and b"written" not in done.stdout) if ok else (done.status == 125 and "git" in done.errors), (given, wanted, done.errors)
        assert wanted != "none" or done.stdout == b"0\n", done.stdout
    remove(home() / ".config")


@test
def settings_of_the_next_run_are_not_the_commands_to_write():
    r = sh("printf 'brig: 1\\nnetwork: none\\n' > .brig.yaml")
    assert told(r, ".brig.yaml") and taken(), r
    host("printf 'brig: 1\\nlimits: {pids: 100}\\n' > .brig.yaml")
    r = sh("printf 'brig: 1\\nlimits: {pids: 200}\\n' > .brig.yaml || exit 3")
    assert r["exit_code"] == 3 and "100" in text(".brig.yaml"), r


# ---- what the user does meanwhile ----


def meanwhile(script, *work, limit="--timeout=60s"):
    """A run, and what the user does in its repository once the script goes on; the report."""
    p = start_brig("run", "--json", limit, "--", "sh", "-c", f"touch ready; {script}")
    assert wait_until((workspace() / "ready").exists)
    for one in work:
        on_host("sh", "-c", one, cwd=workspace())  # the command may be in its way
    out, _ = p.communicate(timeout=60 * PATIENCE)
    return json.loads(out)


EVERYDAY = ("git branch -d old", "git remote add up . && git fetch -q up", "git checkout -q --track -b new up/main", "git push -q -u up HEAD:pushed",
            "git config user.name me", "git branch -m new newer", "git checkout -q main", "git remote rename up down")


@test
def git_on_the_host_ends_no_run():
    """It replaces the configuration: the run goes on and the file is as closed to it as before."""
    repository()
    host("git checkout -q -B main; git branch old; git config core.fsmonitor false")
    p = start_brig("run", "--json", "--", "sh", "-c", "touch ready; until [ -e go ] && [ ! -w .git/config ]; do sleep 0.01; done; git -c user.name=a -c user.email=b commit -q --allow-empty "
                   "-m inside || exit 3; echo x >> .git/config && exit 4; git config core.pager x && exit 5; rm -f .git/config && exit 6; exit 0")
    assert wait_until((workspace() / "ready").exists)
    for work in EVERYDAY:
        host(work)
    host("touch go")
    r = json.loads(p.communicate(timeout=60 * PATIENCE)[0])
    assert (r["outcome"], r["exit_code"], r["denials"]) == ("exited", 0, []), (r["outcome"], r["exit_code"], r["error"], r["denials"], r["stderr"], text(".git/config"))
    assert [c for c in r["changed_trust"] if c["path"] == ".git/config"], r
    assert 'branch "newer"' in text(".git/config") and "fsmonitor = false" in text(".git/config"), text(".git/config")
    assert "inside" in git("log", "--oneline").stdout.decode()


@test
def git_on_the_host_ends_no_open_sandbox():
    """Whether a command runs there or not; and while none does, nothing keeps the user from writing to the file."""
    repository()
    made = brig("sandbox", "create", "--json").json["id"]
    try:
        assert brig("sandbox", "exec", made, "--", "true").status == 0
        for n in range(2):
            host(f"git config branch.b{n}.remote up")
            done = brig("sandbox", "exec", made, "--", "sh", "-c", "echo x >> .git/config")
            assert done.status and "Read-only" in done.errors, (n, done.errors)
        begun = time.monotonic()
        host("printf '[branch \"c\"]\\n\\tremote = up\\n' >> .git/config")
        assert time.monotonic() - begun < 20
        p = start_brig("sandbox", "exec", made, "--", "sh", "-c", "touch ready; sleep 0.5; ! touch .git/config")
        assert wait_until((workspace() / "ready").exists)
        host("git config branch.d.remote up; git config branch.d.merge refs/heads/d")
        assert p.communicate(timeout=60 * PATIENCE) is not None and p.returncode == 0
    finally:
        assert brig("daemon", "stop", "--all").status == 0
    assert all(f'"{b}"' in text(".git/config") for b in ("b0", "b1", "c", "d")) and not taken(), text(".git/config")


GRAB = """
import os, sys, time
how, line = sys.argv[1], sys.argv[2].encode()
def get():
    if how == "link":
        os.link(".git/config", ".git/second")
        return None
    fd = os.open(".git/config", os.O_PATH if how == "path" else os.O_WRONLY | os.O_APPEND)
    if os.fstatvfs(fd).f_flag & os.ST_RDONLY:
        os.close(fd)
        raise OSError
    return fd
def is_it(fd):
    return fd is None or os.stat(".git/config").st_ino == os.fstat(fd).st_ino
open("ready", "w").close()
while True:
    try:
        fd = get()
        while is_it(fd) and not os.statvfs(".git/config").f_flag & os.ST_RDONLY:
            pass
        time.sleep(0.1)
        if not is_it(fd):
            continue
        open("got", "w").close()
        time.sleep(0.2)
        if is_it(fd):
            break
    except OSError:
        pass
w = fd if how == "write" else os.open(f"/proc/self/fd/{fd}" if how == "path" else ".git/second", os.O_WRONLY | os.O_APPEND)
os.write(w, line)
open("wrote", "w").close()
time.sleep(60)
"""


@test
def what_a_command_got_hold_of_while_the_cover_was_off_is_of_no_use():
    """A descriptor for writing, one that can be opened once more, a second name: got in the moment after the host's rename, used when the cover is back."""
    line = f"[core]\n\tfsmonitor = {payload()}\n"
    for how in ("path", "write", "link"):
        repository()
        p = start_brig("run", "--json", "--timeout=100s", "--", "python3", "-c", GRAB, how, line)
        assert wait_until((workspace() / "ready").exists)
        for n in range(450):  # the moment is short, and a guest meets it by chance: in 3 to 15 s each
            if p.poll() is not None or (workspace() / "got").exists():
                break
            on_host("git", "config", f"branch.b{n}.remote", "up", cwd=workspace())
            wait_until(lambda: p.poll() is not None, 0.2)
        r = json.loads(p.communicate(timeout=120 * PATIENCE)[0])
        assert r["outcome"] == "failed" and "opened for writing" in r["error"]["hint"], (how, r["outcome"], r["error"], r["denials"])
        assert how != "path" or (workspace() / "got").exists()
        assert not (workspace() / "wrote").exists() and "fsmonitor" not in text(".git/config"), how
        use()
        assert not ran(), (how, r)
        taken()
        clear()


GIVE = """
import array, os, socket, sys, time
flags, at = getattr(os, sys.argv[1]) | os.O_APPEND, sys.argv[2]
s = socket.socket(socket.AF_UNIX)
away = s.connect_ex(at + "/s")
covered = {os.stat(".git/config").st_ino}
open("ready", "w").close()
while True:
    try:
        fd = os.open(".git/config", flags)
        ino = os.fstat(fd).st_ino
        if os.fstatvfs(fd).f_flag & os.ST_RDONLY:
            covered.add(ino)
        elif ino not in covered and os.stat(".git/config").st_ino == ino:
            break
        os.close(fd)
    except OSError:
        pass
while away:
    open("got", "w").close()
    time.sleep(0.001)
    away = s.connect_ex(at + "/s")
s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
"""
TAKE = """
import array, os, socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind("s")
s.listen(1)
while True:
    given = s.accept()[0].recvmsg(1, 100)[1]
    if given:
        break
fd = array.array("i", given[0][2])[0]
open("has", "w").close()
while not os.path.exists("go"):
    time.sleep(0.01)
for get in (lambda: fd, lambda: os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_APPEND)):
    try:
        os.write(get(), sys.argv[1].encode())
    except OSError:
        pass
open("tried", "w").close()
while os.path.exists("go"):
    time.sleep(0.01)
"""


def taker(at):
    return start_brig("run", "--json", "--timeout=60s", "--", "python3", "-c", TAKE, f"[core]\n\tfsmonitor = {payload()}\n", cwd=at)


def until_got(p, got):
    """The user goes on until the command has it, or is ended."""
    assert wait_until((workspace() / "ready").exists)
    for n in range(200):
        if got.exists() or p.poll() is not None:
            break
        on_host("git", "config", f"branch.b{n}.remote", "up", cwd=workspace())
        wait_until(lambda: got.exists() or p.poll() is not None, 0.1)


def taker_writes(b, at):
    """While it lives, and when it has ended."""
    host("touch go", at)
    assert wait_until((at / "tried").exists)
    use()
    assert not ran() and "fsmonitor" not in text(".git/config"), text(".git/config")
    host("rm go", at)
    b.communicate(timeout=60 * PATIENCE)
    use()
    assert not ran()


@test
def what_another_run_was_given_while_the_cover_was_off_is_of_no_use_to_it():
    """A descriptor for writing, in a run elsewhere that lives on: the run that gave it is ended, and its check is over."""
    repository()
    other = scratch() / "other"
    on_host("mkdir", other, cwd=workspace().parent)
    b = taker(other)
    assert wait_until((other / "s").exists)
    for _ in range(5):  # it may be ended before it has given anything
        a = start_brig("run", "--json", "--timeout=20s", f"--write={other}", "--", "python3", "-c", GIVE, "O_WRONLY", str(other))
        until_got(a, other / "has")
        a.communicate(timeout=60 * PATIENCE)
        if (other / "has").exists():
            break
    assert wait_until((other / "has").exists) and "branch" in text(".git/config")
    taker_writes(b, other)
    remove(other)


@test(backends=("native",))
def what_another_run_was_given_is_of_no_use_while_a_sandbox_rests():
    """One that leads past the cover, in a run of the same workspace that began later: nobody looks at an idle sandbox's names."""
    repository()
    made = brig("sandbox", "create", "--json").json["id"]
    try:
        a = start_brig("sandbox", "exec", made, "--", "python3", "-c", GIVE, "O_PATH", ".")
        until_got(a, workspace() / "got")
        assert a.poll() is None
        b = taker(workspace())
        assert wait_until((workspace() / "has").exists) and a.communicate(timeout=60 * PATIENCE) is not None and a.returncode == 0
        taker_writes(b, workspace())
        assert brig("sandbox", "exec", made, "--", "sh", "-c", "! echo x >> .git/config").status == 0
    finally:
        assert brig("daemon", "stop", "--all").status == 0
    taken()


@test
def a_command_that_writes_to_the_configuration_while_the_user_does_gains_nothing():
    """The host's rename takes the cover off: whatever comes in before it is back ends the run, and must not stay."""
    line = f"[core]\\n\\tfsmonitor = {payload()}\\n"
    control(f"printf '{line}' >> .git/config")
    for script in (f"while :; do printf '{line}' >> .git/config; done", f"printf '{line}' > x; while :; do cp x y; mv -f y .git/config; done",
                   "while :; do rm -rf .git/config; done", f"printf '{line}' > x; while :; do ln -f x .git/config; done",
                   f"while :; do printf '[include]\\n\\tpath = ../x\\n' >> .git/config; printf '{line}' > x; done"):
        repository()
        r = meanwhile(f"({script}) 2>/dev/null", *(f"git config branch.b{n}.remote up" for n in range(20)), limit="--timeout=3s")
        found = text(".git/config") if (workspace() / ".git/config").exists() else None
        use()
        assert not ran(), (r["outcome"], r["error"], r["changed_trust"], found, script, r["denials"])
        assert r["outcome"] in ("failed", "timeout"), r
        taken()
        clear()


@test
def settings_that_are_more_than_plain_go_even_if_the_user_made_them():
    repository()
    for work in ("git config core.pager ./x", "git config --unset core.fsmonitor"):
        host("git config core.fsmonitor false")
        r = meanwhile("sleep 60", work)
        assert told(r, ".git/config") and taken(), (work, r)
        host("rm -f ready; git config core.bare false")


SAVES = ("git remote set-url up https://example.org/y", "git -C nested config user.name me", "echo new > x && mv x .envrc", "mv .mcp.json .mcp.json~; echo new > .mcp.json; rm .mcp.json~",
         "cp .gitattributes x && mv x .gitattributes", "echo new > .vscode/x && mv .vscode/x .vscode/settings.json", "rm .zshrc")


@test(backends=("native", "bwrap"))
def what_the_user_saves_meanwhile_ends_no_run():
    """By rename, as editors do: nobody can tell whose it is by then, so that what was there comes back, and the new file is in quarantine. Its cover is back at once."""
    repository()
    host("git remote add up https://example.org/x; git init -q nested; mkdir .vscode; for f in .envrc .mcp.json .gitattributes .zshrc .vscode/settings.json; do echo old > $f; done")
    p = start_brig("run", "--json", "--", "sh", "-c", "while [ ! -e go ]; do [ -e ready ] || touch ready; sleep 0.01; done; "
                   "for f in .git/config nested/.git/config .envrc .mcp.json .gitattributes .vscode/settings.json; do while [ -w $f ]; do sleep 0.01; done; (echo x >> $f) 2> /dev/null && exit 4; done; exit 0")
    assert wait_until((workspace() / "ready").exists)
    for work in SAVES:
        host(work)
        host("rm ready")
        assert wait_until((workspace() / "ready").exists), work
    host("touch go")
    r = json.loads(p.communicate(timeout=60 * PATIENCE)[0])
    assert (r["outcome"], r["exit_code"]) == ("exited", 0), r
    assert {d["target"] for d in r["denials"]} == {".git/config", ".envrc", ".mcp.json"} and len(taken()) == 3, r["denials"]
    assert {c["path"] for c in r["changed_trust"]} == {".git/config", "nested/.git/config", ".envrc", ".mcp.json", ".vscode/settings.json", ".zshrc"}, r["changed_trust"]
    assert [text(f) for f in (".envrc", ".mcp.json", ".gitattributes", ".vscode/settings.json")] == ["old\n", "old\n", "old\n", "new\n"]
    assert "name = me" in text("nested/.git/config") and "/x" in text(".git/config") and "/y" not in text(".git/config") and not (workspace() / ".zshrc").exists()
    assert not list(workspace().rglob(".brig-*"))


@test
def a_command_that_writes_to_what_the_user_saves_gains_nothing():
    for script in ("while :; do echo evil > .envrc; done", "while :; do cp evil x; mv -f x .envrc; rm -f .envrc; done", "while :; do ln -f evil .envrc; done"):
        host("echo mine > .envrc; echo evil > evil")
        r = meanwhile(f"({script}) 2>/dev/null", *(f"echo mine > y{n}; mv y{n} .envrc" for n in range(9)), limit="--timeout=1s")
        assert r["outcome"] in ("timeout", "failed"), r
        assert not (workspace() / ".envrc").exists() or text(".envrc") == "mine\n", (script, r)
        taken()
        clear()


# ---- covers that are there and do not cover ----


CALLS = """
import ctypes, os, sys
at = os.fsencode(sys.argv[1])
def call(name, *args):
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*args):
        sys.exit(os.strerror(ctypes.get_errno()))
"""


def with_cover(work):
    """A run that writes to its configuration as soon as it can; `work` is done by the host's root in its mount namespace."""
    line = f"[core]\\n\\tfsmonitor = {payload()}\\n"
    p = start_brig("run", "--json", "--", "sh", "-c", f"touch ready; while :; do printf '{line}' >> .git/config; done 2>/dev/null")
    assert wait_until((workspace() / "ready").exists)
    inside = next(pid for pid, name in descendants(p.pid).items() if name == "sh")
    mounts = pathlib.Path(f"/proc/{inside}/mountinfo").read_text().splitlines()
    config = next(line.split()[4] for line in mounts if line.split()[4].endswith("/.git/config"))
    done = subprocess.run(["nsenter", f"--mount=/proc/{inside}/ns/mnt", f"--root=/proc/{inside}/root", "python3", "-c", CALLS + work, config],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        p.terminate()
    out, _ = p.communicate(timeout=60 * PATIENCE)
    return json.loads(out), done.stderr


@test(by_root=True)
def a_cover_that_can_be_written_ends_the_run_like_one_that_is_gone():
    """It is locked: not even the host's root takes it off in there, or makes it writable. Something can be put over it."""
    remount, bind = 0x1020, 0x1000
    for work, why in (("call('umount2', at, 0)", "Invalid argument"), (f"call('mount', b'none', at, None, {remount}, None)", "Operation not permitted"),
                      (f"call('mount', os.path.dirname(at) + b'/HEAD', at, None, {bind}, None)", "")):
        repository()
        r, refused = with_cover(work)
        assert why in refused and bool(why) == bool(refused), (work, refused)
        assert why or (r["outcome"] == "failed" and "lost its cover" in str(r["error"])), (work, r)
        use()
        assert not ran(), (work, r["denials"], r["changed_trust"], r["error"], text(".git/config")[:300])
        clear()


# ---- runs that were killed ----


HOSTILE = "echo evil > .bashrc; mkdir .husky; echo evil > .husky/pre-commit"


def killed(script, *, both, at=None):
    """A run whose brig is killed once the script has done its work; with its checker or without."""
    at = at or workspace()
    p = start_brig("run", "--", "sh", "-c", f"{script}; touch ready; sleep 60", cwd=at)
    assert wait_until((at / "ready").exists)
    checker = checker_of(p.pid)
    if both:
        records = workspace().parent / "state/brig/records"
        beats = [records / f.name for f in (records / "live").iterdir() if not f.name.startswith(".")]
        made = max(f.lstat().st_ctime_ns for f in workspace().rglob("*"))
        assert beats and wait_until(lambda: min(f.stat().st_mtime_ns for f in beats) > made), "no beat"
        os.kill(checker, 9)
    os.kill(p.pid, 9)
    p.wait()
    p.stdout.close()
    p.stderr.close()
    assert wait_until(lambda: not pathlib.Path(f"/proc/{checker}/stat").exists() or "Z" in pathlib.Path(f"/proc/{checker}/stat").read_text().rsplit(")", 1)[1][:3], 20)


@test
def what_a_killed_run_left_is_taken_away_at_once():
    script = f"{HOSTILE}; git init -q .; {hook('.git/hooks/post-checkout')}; {settings('.git/config')}"
    killed(script, both=False)
    assert not (workspace() / ".bashrc").exists() and not (workspace() / ".husky").exists()
    use()
    assert not ran() and len(taken()) == 4
    r = sh("true")
    assert {d["target"] for d in r["denials"]} == {".bashrc", ".husky", ".git/hooks", ".git/config"}, r["denials"]
    assert all("killed" in d["reason"] for d in r["denials"])
    assert sh("true")["denials"] == []


@test
def what_a_killed_run_left_in_an_old_repository_is_taken_away_at_once():
    repository()
    killed(f"{GITLINK}sub; mkdir sub; cp -r .git sub/.git; {settings('sub/.git/config')}; echo x > .git/config.worktree", both=False)
    assert not (workspace() / "sub/.git/config").exists() and not (workspace() / ".git/config.worktree").exists()
    use()
    assert not ran() and taken() and sh("true")["denials"]


@test(limit=90)
def whatever_a_killed_run_left_is_told_however_much_it_is():
    """Hooks of many nested repositories, by long names; and a list that nobody can read is told of, too."""
    long = "/".join(3 * ["x" * 200])
    make = (f"import os\nfor i in range(100):\n for n in ('objects', 'refs', 'hooks'): os.makedirs(f'{long}{{i}}/.git/{{n}}')\n"
            f" open(f'{long}{{i}}/.git/HEAD', 'w').write('ref: refs/heads/m'); open(f'{long}{{i}}/.git/hooks/pre-push', 'w')")
    killed(f'python3 -c "{make}"', both=False)
    kept = next((workspace().parent / "state/brig/workspaces").glob("told-*"))
    assert kept.stat().st_size > 1 << 16, "the test is void"
    assert len([d for d in sh("true")["denials"] if d["target"].startswith(long) and "killed" in d["reason"]]) == 100
    assert sh("true")["denials"] == [] and taken()
    kept.write_bytes(b"x" * (2 << 20))
    os.chown(kept, uid(), uid())
    r = sh("true")
    assert [d["target"] for d in r["denials"]] == ["."] and "quarantine" in r["denials"][0]["reason"], r["denials"]
    assert sh("true")["denials"] == [] and not kept.exists()


@test
def the_next_run_finishes_where_nobody_survived():
    killed(f"{HOSTILE}; git init -q .; {settings('.git/config')}", both=True)
    assert (workspace() / ".bashrc").exists(), "somebody survived: the test is void"
    r = sh("true")
    assert {d["target"] for d in r["denials"]} == {".bashrc", ".husky", ".git/config"}, r["denials"]
    use()
    assert not ran() and len(taken()) == 3 and sh("true")["denials"] == []


@test(as_user="user")
def a_folder_that_has_moved_or_whose_device_has_another_number_is_finished_too():
    """Many devices are numbered anew when the machine starts. Another folder with that inode number is not taken for it."""
    records, first, second = workspace().parent / "state/brig/records", workspace() / "first", workspace() / "second"
    host("mkdir first")
    killed(HOSTILE, both=True, at=first)
    first.rename(second)
    r = brig("run", "--json", "--", "true", cwd=second).json
    assert {d["target"] for d in r["denials"]} == {".bashrc", ".husky"} and len(taken()) == 2, r["denials"]
    killed(f"{HOSTILE}; git init -q .; {settings('.git/config')}", both=True, at=second)
    name = f"{second.stat().st_dev:x}-{second.stat().st_ino:x}"
    was = (records / name).stat()
    for f in (records / name, records / "live" / name):
        f.rename(f.parent / f"fff{name}")
    (records / f"{name}.seen").unlink(missing_ok=True)
    assert was.st_ino == (records / f"fff{name}").stat().st_ino, "the test is void"
    r = brig("run", "--json", "--", "true", cwd=second).json
    assert {d["target"] for d in r["denials"]} == {".bashrc", ".husky", ".git/config"} and len(taken()) == 3, r["denials"]
    assert brig("run", "--json", "--", "true", cwd=second).json["denials"] == [] and not (records / f"fff{name}").exists()
    third = workspace() / "third"
    host("mkdir third; echo mine > third/.bashrc")
    killed(HOSTILE, both=True, at=second)
    (records / name).rename(records / f"fff{third.stat().st_dev:x}-{third.stat().st_ino:x}")
    assert brig("run", "--json", "--", "true", cwd=third).json["denials"] == [] and (third / ".bashrc").exists() and not taken()


@test
def the_next_run_in_a_worktree_finishes_the_folder_that_it_shares():
    """A name in there that git reads where the configuration says so: made by the run, it goes, and is told."""
    repository()
    host("git worktree add -q tree")
    tree = workspace() / "tree"
    killed(f"{HOSTILE}; echo x > ../.git/config.worktree", both=True, at=tree)
    assert (workspace() / ".git/config.worktree").exists() and (tree / ".bashrc").exists(), "somebody survived: the test is void"
    r = brig("run", "--json", "--", "true", cwd=tree).json
    assert {d["target"] for d in r["denials"]} == {".bashrc", ".husky", "config.worktree"}, r["denials"]
    assert all("killed" in d["reason"] for d in r["denials"]) and len(taken()) == 3
    assert not (workspace() / ".git/config.worktree").exists() and brig("run", "--json", "--", "true", cwd=tree).json["denials"] == []


@test
def what_one_of_two_killed_runs_left_is_taken_away_with_the_other():
    """One dies with its checker while another lives in the workspace, which had begun when the file was there; then the last one ends."""
    (workspace() / "go").unlink(missing_ok=True)
    first = start_brig("run", "--", "sh", "-c", f"{HOSTILE}; touch ready; sleep 60")
    assert wait_until((workspace() / "ready").exists)
    checker = checker_of(first.pid)
    second = start_brig("run", "--json", "--", "sh", "-c", "touch begun; while [ ! -e go ]; do sleep 0.1; done")
    assert wait_until((workspace() / "begun").exists)
    for pid in (checker, first.pid):
        os.kill(pid, 9)
    assert first.wait() and (workspace() / ".bashrc").exists(), "somebody survived: the test is void"
    host("touch go")
    said = json.loads(second.communicate()[0])["denials"]
    assert {d["target"] for d in said} == {".bashrc", ".husky"} and len(taken()) == 2, said
    assert not (workspace() / ".bashrc").exists() and sh("true")["denials"] == []
    first.stdout.close()
    first.stderr.close()


@test
def what_a_crash_kept_of_a_record_takes_nothing_of_the_users():
    """A machine went down: of what was written at the start there is nothing, or not all, or a run began and its record is as the one before left it."""
    records = workspace().parent / "state/brig/records"
    killed("true", both=True)
    (mark,) = (f for f in (records / "live").iterdir() if not f.name.startswith("."))
    record, whole = records / mark.name, (records / mark.name).read_bytes()
    sh("true")
    ended = record.read_bytes()
    (workspace() / ".bashrc").write_text("the user's own")
    os.chown(workspace() / ".bashrc", uid(), uid())
    for text in (b"", whole[:-20], whole.replace(b"/.bashrc", b"/.bashrd"), ended, whole):
        record.write_bytes(text)
        mark.touch()
        os.chown(mark, uid(), uid())
        said = [d["target"] for d in sh("true")["denials"]]
        assert not mark.exists()
        if text != whole:
            assert (workspace() / ".bashrc").exists() and not said and not taken(), said
    assert said == [".bashrc"] and len(taken()) == 1, "the control: as it stands it is that run's work"


@test
def the_next_run_looks_behind_gitlinks_where_nobody_survived():
    """One that an index named before, one that it names now, a worktree that is none, a submodule that was cloned, old addresses."""
    def prepared():
        repository()
        host(f"{GITLINK}old")

    script = (f"{GITLINK}new; git init -q r; %s; for d in old new; do mkdir -p $d; cp -r r/.git $d/.git; done; mkdir -p .git/worktrees/x .git/remotes .git/modules; cp -r r/.git .git/modules/m; "
              "echo ../../../r/.git > .git/worktrees/x/commondir; echo ref: refs/heads/main > .git/worktrees/x/HEAD; echo URL: ext::sh > .git/remotes/x" % settings("r/.git/config"))
    control(script, prepare=lambda at: (repository(at), host(f"{GITLINK}old", at)))
    prepared()
    killed(script, both=True)
    assert (workspace() / "new/.git/config").exists(), "somebody survived: the test is void"
    r = sh("true")
    use()
    assert not ran(), r["denials"]
    assert {"old/.git/config", "new/.git/config", ".git/worktrees/x/commondir", ".git/modules/m/config", ".git/remotes"} <= {d["target"] for d in r["denials"]}, r["denials"]
    assert all("killed" in d["reason"] for d in r["denials"]) and taken() and sh("true")["denials"] == []


@test
def repositories_that_the_user_made_after_a_killed_run_are_judged_like_the_runs():
    """Nobody can tell whose they are, and a time is no proof: what is plain in them stays, the rest is in quarantine, and told."""
    repository()
    killed("true", both=True)
    host(f"git clone -q . sub; git -C sub config core.fsmonitor true; git clone -q . other; {hook('other/.git/hooks/pre-push')}; git clone -q . plain")
    r = sh("true")
    assert (workspace() / "plain/.git/config").exists() and (workspace() / "sub/file").exists() and (workspace() / "other/.git/config").exists()
    assert {d["target"] for d in r["denials"]} == {"sub/.git/config", "other/.git/hooks"} and all("killed" in d["reason"] for d in r["denials"]), r["denials"]
    assert len(taken()) == 2 and sh("true")["denials"] == []


@test
def what_the_user_did_after_a_killed_run_stays():
    repository()
    killed(HOSTILE, both=True)
    host("git remote add up https://example.org/x.git; echo mine > .envrc; rm -r .husky; mkdir .husky; echo mine > .husky/pre-push")
    before = text(".git/config")
    r = sh("true")
    assert text(".git/config") == before and text(".envrc") == "mine\n" and text(".husky/pre-push") == "mine\n"
    assert not (workspace() / ".bashrc").exists()
    assert {d["target"]: "left in place" in d["reason"] for d in r["denials"]} == {".bashrc": False, ".husky": True, ".envrc": True, ".git/config": True}, r["denials"]
    assert len(taken()) == 1 and sh("true")["denials"] == []


@test(as_user="root")
def a_folder_that_got_the_inode_of_a_killed_runs_is_another():
    """The record of that run is none of it: what the user has made there stays."""
    at = workspace() / "work"
    at.mkdir()
    killed("true", both=True, at=at)
    remove(at)
    at.mkdir()
    records = workspace().parent / "state/brig/records"
    for record in [f for f in (*records.iterdir(), *(records / "live").iterdir()) if f.name.startswith(f"{at.stat().st_dev:x}-")]:
        record.rename(record.parent / f"{at.stat().st_dev:x}-{at.stat().st_ino:x}")  # as if the file system had given it again
    repository(at)
    host(hook(".git/hooks/pre-push"), at)
    r = json.loads(brig("run", "--json", "--", "true", cwd=at).stdout)
    assert r["denials"] == [] and not taken() and (at / ".git/hooks/pre-push").exists(), r["denials"]


if __name__ == "__main__":
    sys.exit(main())
