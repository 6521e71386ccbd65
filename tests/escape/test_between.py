#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Between runs: what one run leaves, another completes or a third is handed, and git on the host would obey.

The oracle: every forbidden thing that a script makes is there on the host (the control), and gone, or as it was, after a run; and git, used afterwards,
runs nothing of the guest's."""

import json
import os
import pathlib
import stat
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import on_host  # noqa: E402
from harness import PATIENCE, brig, brig_environment, main, scratch, start_brig, state, test, wait_until, workspace  # noqa: E402
from two_runs import GIVE, TAKE  # noqa: E402
from victim import AS_ME, GITLINK, attack, clear, git, hook, ran, repository, settings, sh, taken, told, use  # noqa: E402

# What git runs from a git folder, is led by, or writes through: a line of sh, in the git folder.
THINGS = {
    "config": "printf '[core]\\n\\tfsmonitor = EVIL\\n' > config",
    "config.include": "printf '[include]\\n\\tpath = ../EVIL\\n' > config",
    "config.worktree": "echo EVIL > config.worktree",
    "hooks": "mkdir -p hooks; echo EVIL > hooks/pre-commit; chmod 755 hooks/pre-commit",
    "hooks.link": "rm -rf hooks; mkdir EVIL; ln -s EVIL hooks",
    "info": "mkdir -p info; echo EVIL > info/attributes",
    "alternates": "mkdir -p objects/info; echo EVIL > objects/info/alternates",
    "commondir": "echo ../../EVIL > commondir",
    "remotes": "mkdir -p remotes; echo EVIL > remotes/x",
    "branches": "mkdir -p branches; echo EVIL > branches/x",
    "link": "mkdir -p logs; rm -f logs/HEAD; ln -s /EVIL logs/HEAD",
    "deep.link": "mkdir -p logs/refs/heads; ln -s /EVIL logs/refs/heads/b",
    "pipe": "rm -f COMMIT_EDITMSG; mkfifo COMMIT_EDITMSG",
    "inner": "mkdir -p x/objects x/refs; echo ref: refs/heads/b > x/HEAD; printf '[core]\\n\\tfsmonitor = EVIL\\n' > x/config",
    "stray": "mkdir -p objects/ab/x/.git; printf '[core]\\n\\tfsmonitor = EVIL\\n' > objects/ab/x/.git/config",
}
# Where a git folder may be; {t} is the thing's name. Those of the user's are there before.
KINDS = {
    "nested": "nested-{t}/.git", "bare": "bare-{t}", "module": ".git/modules/old-{t}",
    "new": "new-{t}/.git", "new bare": "newbare-{t}", "separate": "sep-{t}/g", "new module": ".git/modules/m-{t}", "worktree": ".git/worktrees/w-{t}",
    "in a git folder": ".git/in/{t}/.git", "capitals": "up-{t}/.GIT",
}
USERS = ("nested", "bare", "module")
MAKE = "mkdir -p {g}/objects {g}/refs; echo ref: refs/heads/main > {g}/HEAD"


def pairs():
    return [(kind, thing, KINDS[kind].format(t=thing)) for kind in KINDS for thing in THINGS]


def prepare_all(at):
    repository(at)
    lines = [MAKE.format(g=g) + f"; printf '[core]\\n\\tbare = false\\n' > {g}/config; mkdir -p {g}/hooks; echo mine > {g}/hooks/mine" for kind, _, g in pairs() if kind in USERS]
    on_host("sh", "-c", "\n".join(lines), cwd=at)


def all_at_once():
    lines = []
    for kind, thing, g in pairs():
        if kind not in USERS:
            lines.append(MAKE.format(g=g))
        if kind == "worktree":
            lines.append(f"printf '../..\\n' > {g}/commondir; rm -r {g}/objects {g}/refs; mkdir {g}/objects")
        if kind == "separate":
            lines.append(f"mkdir -p sep-{thing}/n; echo gitdir: ../g > sep-{thing}/n/.git")
        lines.append(f"(cd {g}; {THINGS[thing]})")
    return "\n".join(lines)


def evil_in(folder):
    """Paths in a git folder that are forbidden things."""
    found = []
    for at, folders, files in os.walk(folder):
        for name in folders + files:
            path = pathlib.Path(at) / name
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode) or stat.S_ISFIFO(mode) or (stat.S_ISREG(mode) and b"EVIL" in path.read_bytes()):
                found.append(str(path))
    return found


@test(limit=240)
def each_forbidden_thing_in_each_kind_of_git_folder():
    control = scratch() / "control"
    control.mkdir()
    os.chown(control, os.stat(workspace()).st_uid, os.stat(workspace()).st_gid)
    prepare_all(control)
    on_host("sh", "-c", all_at_once(), cwd=control)
    assert not [p for p in pairs() if not evil_in(control / p[2])], "the control proves nothing"
    clear(control)
    control.rmdir()
    prepare_all(workspace())
    on_host("sh", "-c", f"cat > all.sh <<'END'\n{all_at_once()}\nEND", cwd=workspace())
    r = sh("sh all.sh")
    left = [(kind, thing, evil_in(workspace() / g)) for kind, thing, g in pairs() if evil_in(workspace() / g)]
    assert not left, (left[:5], len(left))
    lost = [g for kind, _, g in pairs() if kind in USERS and (workspace() / g / "hooks/mine").read_text() != "mine\n"]
    assert r["outcome"] == "exited" and r["denials"] and not lost and taken(), (r["denials"][:3], lost)


@test
def everyday_work_leaves_nothing_to_be_taken():
    """init, clone, a worktree, bare and separate folders: they stay, may be changed by a later run, and removed."""
    repository()
    target = ("--set", f"workspace.target={workspace()}")
    r = sh(f"git init -q a; git clone -q . b; git worktree add -q c; git init -q --bare d.git; mkdir e; git init -q --separate-git-dir e/g e/n; (cd b; echo x > x; git add x; {AS_ME} commit -qm x)", *target)
    assert r["exit_code"] == 0 and r["denials"] == [], (r["denials"], r["stderr"])
    r = sh("git -C b config user.name n && git -C a remote add o https://example.org/x && git -C b gc -q && git worktree remove c && rm -rf a d.git && mv b b2 && mv e f", *target)
    assert r["exit_code"] == 0 and (workspace() / "b2/x").exists(), r["stderr"]
    assert not [d for d in r["denials"] if not d["target"].startswith("f/")], r["denials"]
    assert git("status", "--short", cwd=workspace() / "b2").stdout == b""
    taken()


@test(limit=120)
def a_git_folder_that_a_second_run_completes():
    """Harmless in each run, harmful together."""
    bare = "printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = .\\n\\tfsmonitor = touch {p}; false\\n' > n/config"
    evil = bare.replace("{p}", str(scratch() / "PWNED"))

    def look(at):
        git("status", cwd=at / "n")
        use(at)

    for first, second in ((f"mkdir -p n/objects n/refs; {evil}", "cp .git/HEAD n/HEAD"), (f"mkdir -p n; {evil}", "mkdir n/objects n/refs; cp .git/HEAD n/HEAD"),
                          (f"mkdir -p x/objects x/refs; mv x n; cp .git/HEAD n/HEAD; rm -f n/config; mkdir y; cd y; mkdir n; {evil}", "mv y/n/config n/config"),
                          (f"mkdir -p n/g/objects n/g/refs; {settings('n/g/config')}", "cp .git/HEAD n/g/HEAD; mv n/g n/.git"),
                          (f"mkdir -p g/objects g/refs n; {settings('g/config')}; echo gitdir: ../g > n/.git", "cp .git/HEAD g/HEAD")):
        for inside in (False, True):
            repository()
            for script in (first, second):
                if inside:
                    sh(script)
                else:
                    on_host("sh", "-c", script, cwd=workspace())
            look(workspace())
            assert ran() != inside, (first, inside)
            taken()
            clear()


@test
def a_submodule_behind_hundreds_of_others():
    """An index with more gitlinks than anybody has, of the repository or of a worktree that the run made."""
    def cloned(at):
        repository(at)
        on_host("sh", "-c", f"{GITLINK}sub; {AS_ME} commit -qm link; mkdir -p sub", cwd=at)

    many = "for i in $(seq 100 170); do printf \"160000 $(git rev-parse HEAD) 0\\ta$i\\n\"; done | {e} git update-index --index-info"
    worktree = "W=.git/worktrees/zz; mkdir -p $W; cp .git/HEAD $W/HEAD; printf '../..\\n' > $W/commondir; echo $PWD/../nowhere/.git > $W/gitdir; " + many.format(e="GIT_INDEX_FILE=$PWD/$W/index")
    for fill in (worktree, many.format(e="")):
        attack(f"{fill}; mkdir -p sub/g/objects sub/g/refs; {settings('sub/g/config')}; git rev-parse HEAD > sub/g/keep", "mv sub/g sub/.git; cp sub/.git/keep sub/.git/HEAD", prepare=cloned)
        clear()


@test
def a_folder_that_passes_for_a_worktrees():
    """Only GIT/worktrees/NAME may share another folder."""
    for at, common in (("x/n/.git", "../.."), ("x/worktrees/n", "../.."), ("x/a/worktrees/n", "../../..")):
        top = "x"
        script = (f"mkdir -p {at} {top}/objects {top}/refs; cp -r .git/objects/* {top}/objects/; git rev-parse HEAD > {at}/HEAD; printf '{common}\\n' > {at}/commondir; "
                  f"{settings(f'{top}/config')}; mkdir -p x/n; [ -e x/n/.git ] || echo gitdir: $PWD/{at} > x/n/.git")

        def look(where):
            git("status", cwd=where / "x/n")
            use(where)

        for inside in (False, True):
            repository()
            if inside:
                sh(script, "--set", f"workspace.target={workspace()}")
            else:
                on_host("sh", "-c", script, cwd=workspace())
            look(workspace())
            assert ran() != inside, (at, inside)
            taken()
            clear()


@test
def hooks_of_a_nested_repository_stay_as_they_are():
    """Rewritten, replaced, added, renamed; in its hooks folder, where core.hooksPath leads and in a file that it includes."""
    def nested(at):
        repository(at)
        repository(at / "vendor/lib")
        on_host("sh", "-c", "cd vendor/lib; printf '#!/bin/sh\\nexit 0\\n' > .git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit", cwd=at)

    def configured(at):
        nested(at)
        on_host("sh", "-c", "cd vendor/lib; git config core.hooksPath .myhooks; mkdir .myhooks; git config include.path ../more; touch more", cwd=at)

    def look(at):
        git("commit", "-q", "--allow-empty", "-m", "x", cwd=at / "vendor/lib")

    h = "vendor/lib/.git/hooks"
    line = f"printf '#!/bin/sh\\ntouch {scratch()}/PWNED\\n'"
    for prepare, script in ((nested, f"{line} > {h}/pre-commit"), (nested, f"{line} > {h}/new; chmod 755 {h}/new; mv {h}/new {h}/pre-commit"), (nested, hook(f"{h}/commit-msg")),
                            (nested, f"mv {h} old; mkdir {h}; {line} > {h}/pre-commit; chmod 755 {h}/pre-commit"), (configured, hook("vendor/lib/.myhooks/pre-commit")),
                            (configured, f"mv vendor/lib/.myhooks y; {hook('vendor/lib/.myhooks/pre-commit')}"), (configured, settings("vendor/lib/more"))):
        for inside in (False, True):
            prepare(workspace())
            if inside:
                r = sh(script)
            else:
                on_host("sh", "-c", script, cwd=workspace())
            look(workspace())
            assert ran() != inside, (script, inside and r["denials"])
            assert not inside or prepare is not nested or os.access(workspace() / h / "pre-commit", os.X_OK), script
            taken()
            clear()


@test
def what_the_user_makes_between_runs_is_the_users():
    repository()
    assert sh("git init -q made")["denials"] == []
    on_host("sh", "-c", f"git init -q mine; {hook('mine/.git/hooks/pre-commit')}; {hook('made/.git/hooks/pre-commit')}; git -C mine config core.fsmonitor false; ln -s logs mine/.git/l", cwd=workspace())
    for _ in range(2):
        r = sh("true")
        assert r["denials"] == [] and not taken(), r["denials"]
    for name in ("mine", "made"):
        assert (workspace() / name / ".git/hooks/pre-commit").exists()
        sh(f"echo evil > {name}/.git/hooks/pre-commit")
        assert "evil" not in (workspace() / name / ".git/hooks/pre-commit").read_text()


def with_own(at, where):
    """A repository of the user's, with a hook, a setting that runs something and a link where git writes."""
    on_host("sh", "-c", f"git init -q {where}; {hook(f'{where}/.git/hooks/pre-commit')}; git -C {where} config core.pager less; ln -s HEAD {where}/.git/l", cwd=at)
    return [at / where / ".git" / name for name in ("hooks/pre-commit", "config", "l")]


@test
def repositories_of_the_users_behind_many_folders_stay():
    """Made between runs; and links in a git folder that is known already."""
    repository()
    assert sh("true")["denials"] == []
    on_host("sh", "-c", "mkdir pad; cd pad; seq 1 400 | xargs mkdir; ln -s HEAD ../.git/l", cwd=workspace())
    own = [*with_own(workspace(), "pad/400/x/lib"), workspace() / ".git/l"]
    r = sh("true")
    assert r["denials"] == [] and not taken() and all(os.path.lexists(p) for p in own), r["denials"]
    r = sh(f"echo EVIL > pad/400/x/lib/.git/hooks/post-commit; git init -q pad/399/x; {hook('pad/399/x/.git/hooks/pre-commit')}")
    assert not (workspace() / "pad/399/x/.git/hooks/pre-commit").exists() and not evil_in(workspace() / "pad/400/x/lib/.git/hooks") and taken(), r["denials"]
    assert all(os.path.lexists(p) for p in own)


MANY = "import os; os.makedirs('more'); [os.makedirs(f'pad/{i}') for i in range(9)]; [os.mkdir(f'more/{i}') for i in range(66000)]"


@test(as_user="user", limit=240)
def more_folders_than_are_looked_at_hide_nothing_and_take_nothing():
    """What lies behind them was the user's before: it stays, and is told when it comes to light. What the run makes is taken away all the same."""
    repository()
    on_host("python3", "-c", MANY, cwd=workspace())
    own = with_own(workspace(), "pad/7/x/lib")
    assert told(sh(f"git init -q hid/b/c/n; {hook('hid/b/c/n/.git/hooks/pre-commit')}"), ".")
    taken()
    plant = f"git init -q n; {hook('n/.git/hooks/pre-commit')}; git init -q pad/1/n; {hook('pad/1/n/.git/hooks/pre-commit')}"
    r = sh(f"cd more; seq 1000 9000 | xargs rmdir; cd ..; {plant}; mv hid/b/c hid2")
    assert all(os.path.lexists(p) for p in own) and told(r, "pad/7/x/lib/.git/hooks/pre-commit"), r["denials"]
    assert taken() and not (workspace() / "n/.git/hooks/pre-commit").exists() and not (workspace() / "pad/1/n/.git/hooks/pre-commit").exists(), r["denials"]
    assert not (workspace() / "hid2/n/.git/hooks/pre-commit").exists(), r["denials"]


@test
def a_git_file_that_leads_out_is_taken_away():
    """To a kept HOME, whose place on the host a run can tell; to another folder; by a link."""
    outside = scratch() / "outside"
    for script, options in ((f"H=$(grep \" $HOME \" /proc/self/mountinfo | cut -d' ' -f4); cp -r .git $HOME/g; {settings('$HOME/g/config')}; mkdir n; echo gitdir: $H/g > n/.git", ("--home", "keep")),
                            (f"mkdir n; echo gitdir: {outside} > n/.git", ()), (f"mkdir n; ln -s {outside} n/.git", ()), (f"mkdir n; ln -s {outside} l; echo gitdir: ../l > n/.git", ()),
                            ("mkdir n; echo gitdir: ../../../../x > n/.git", ()), ("mkdir n; mkfifo n/.git", ()), ("mkdir n; printf 'gitdir: ../a\\ngitdir: b' > n/.git", ())):
        outside.mkdir(exist_ok=True)
        repository()
        r = sh(script, *options)
        assert told(r, "n/.git") and not os.path.lexists(workspace() / "n/.git") and taken(), (script, r["denials"])
        clear()
    on_host("rm", "-rf", brig_environment()["HOME"] + "/.cache")


HOME_IS = "H=$(grep \" $HOME \" /proc/self/mountinfo | head -1 | cut -d' ' -f4); "
EVIL_FOLDER = "mkdir -p {at}/objects {at}/refs; cp .git/HEAD {at}/HEAD; "


def evil_folder(at):
    return EVIL_FOLDER.format(at=at) + settings(f"{at}/config")


@test(limit=180)
def a_git_line_leads_where_the_kernel_goes():
    """`..` behind a link; a folder on its way that a later run makes a link, whose goal comes later still, from elsewhere."""
    keep = ("--home", "keep")
    line = "mkdir n; printf 'gitdir: {}\\n' > n/.git"
    link = HOME_IS + "ln -s $H way"
    behind = f"{HOME_IS} mkdir -p ~/s; {evil_folder('~/g')}; ln -s $H/s way; {line.format('../way/../g')}"
    cases = ((behind,), (line.format("../way/g"), f"{link}; {evil_folder('~/g')}"), (line.format(f"{workspace()}/way/g"), f"{evil_folder('~/g')}; {link}"), (line.format("../way/g"), link, evil_folder("~/g")),
             (f"mkdir way; cp -r .git way/g; {line.format('../way/g')}", f"{evil_folder('~/g')}; rm -rf way; {link}"), (f"{line.format('../way/../g')}", f"{HOME_IS} mkdir -p ~/s; {evil_folder('~/g')}; ln -s $H/s way"))
    other = scratch() / "other"
    for scripts in cases:
        for inside in (False, True):
            repository()
            repository(other)
            for i, script in enumerate(scripts):
                if inside:
                    r = sh(script, *keep, cwd=other if i == 2 else None)
                else:
                    home = scratch() / "kept"
                    on_host("sh", "-c", f"mkdir -p {home}; HOME={home}; {script.replace(HOME_IS, f'H={home}; ')}", cwd=workspace())
            git("status", cwd=workspace() / "n")
            assert ran() != inside, (scripts, inside)
            assert not inside or (r["outcome"] == "exited" and not os.path.lexists(workspace() / "n/.git") and taken()), (scripts, r["denials"])
            clear()
            on_host("rm", "-rf", brig_environment()["HOME"] + "/.cache", str(scratch() / "kept"), str(other))


@test
def a_git_line_of_the_users_may_lead_anywhere():
    """By a link out of the workspace, to a folder that is there or is not; until a run has it lead elsewhere."""
    outside = scratch() / "outside"
    repository()
    on_host("sh", "-c", f"mkdir {outside}; git init -q {outside}/g; ln -s {outside} way; mkdir n m l; echo gitdir: ../way/g/.git > n/.git; echo gitdir: {outside}/none > m/.git; ln -s ../way/g/.git l/.git", cwd=workspace())
    for _ in range(2):
        r = sh("true")
        assert r["denials"] == [] and not taken(), r["denials"]
    assert git("status", "--short", cwd=workspace() / "n").returncode == 0
    r = sh("mkdir -p away/g; cp -r .git away/g/.git; ln -sfn away way")
    assert told(r, "l/.git") and told(r, "n/.git") and not told(r, "m/.git") and taken(), r["denials"]
    on_host("rm", "-rf", str(outside))


@test
def links_that_lead_out_are_told_when_they_are_new():
    on_host("sh", "-c", "ln -s /etc/passwd old; mkdir d", cwd=workspace())
    r = sh("ln -s /etc/passwd new; ln -s ../../x d/up; ln -s ../d d/in; ln -s nowhere d/here")
    assert {c["path"] for c in r["changed_trust"]} == {"new", "d/up"}, r["changed_trust"]


@test(limit=120)
def a_descriptor_that_outlives_the_check():
    """It is written to when the run that made the file is over: by a readonly run in the same folder, and by one in another."""
    channel = scratch() / "channel"
    for there in (False, True):
        channel.mkdir(exist_ok=True)
        os.chown(channel, os.stat(workspace()).st_uid, os.stat(workspace()).st_gid)
        other = scratch() / "other"
        other.mkdir(exist_ok=True)
        os.chown(other, os.stat(workspace()).st_uid, os.stat(workspace()).st_gid)
        share = ("--write", str(channel)) if there else ()
        sock = f"{channel}/s" if there else "s"
        evil = f"[core]\n\tfsmonitor = \"touch {scratch()}/PWNED; false\"\n"
        taker = start_brig("run", *(() if there else ("--policy", "readonly")), *share, "--json", "--", "python3", "-c", TAKE, sock, evil, cwd=other if there else workspace(), stdin=-1)
        giver = start_brig("run", *share, "--json", "--", "sh", "-c", f"git init -q n; exec python3 -c '{GIVE}' {sock} n/.git/config")
        out, err = giver.communicate(timeout=30 * PATIENCE)
        first = json.loads(out)
        assert first["exit_code"] == 0 and first["denials"] == [] and (workspace() / "n/.git/config").exists(), (first, err)
        out, err = taker.communicate(b"x", timeout=30 * PATIENCE)
        second = json.loads(out)
        assert "written" in second["stdout"], second
        git("status", cwd=workspace() / "n")
        assert not ran() and second["denials"], second
        assert [d for d in second["denials"] if d["target"].endswith("n/.git/config")] and taken(), second["denials"]
        (channel / "s").unlink(missing_ok=True)
        channel.rmdir()
        clear()


@test(limit=120)
def a_killed_run_is_judged_against_the_record():
    """Nobody is left to finish the check: the next brig does, by what was there before."""
    repository()
    repository(workspace() / "vendor")
    p = start_brig("run", "--", "sh", "-c", f"git init -q n; {settings('n/.git/config')}; ln -s /x vendor/.git/FETCH_HEAD; touch ready; sleep 300")
    assert wait_until((workspace() / "ready").exists)
    time.sleep(0.3)
    for pid in [c for c in pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split()]:
        os.kill(int(pid), 9)
    p.kill()
    p.communicate()
    time.sleep(0.3)
    r = sh("true")
    git("status", cwd=workspace() / "n")
    assert not ran() and not (workspace() / "vendor/.git/FETCH_HEAD").is_symlink() and taken(), r["denials"]
    assert {d["target"] for d in r["denials"]} >= {"n/.git/config", "vendor/.git/FETCH_HEAD"}, r["denials"]


@test(as_user="user", limit=120)
def more_repositories_than_are_covered_lock_nobody_out():
    """Worktrees and repositories that a run has made: the next one starts, and so does one with as many of the user's."""
    many = ("import os; [(os.makedirs(f'{at}/{{x}}', exist_ok=True), open(f'{at}/HEAD', 'w').write('ref: refs/heads/main'), {more}) "
            "for i in range({n}) for x in ('objects', 'refs', 'hooks')]")
    worktrees = many.format(at=".git/worktrees/w{i}", more="open(f'.git/worktrees/w{i}/commondir', 'w').write('../..\\n')", n=70)
    made = many.format(at="m{i}/.git", more="0", n=300)
    users = many.format(at="u{i}/.git", more="open(f'u{i}/.git/hooks/h', 'w').write('a') if x == 'hooks' else 0", n=300)
    repository()
    r = brig("run", "--json", "--", "python3", "-c", f"{worktrees}\n{made}").json
    assert r["exit_code"] == 0 and r["denials"] == [], (r["denials"][:3], r["stderr"])
    on_host("python3", "-c", users, cwd=workspace())
    r = sh("for i in $(seq 0 299); do echo evil > u$i/.git/hooks/h; done")
    assert r["outcome"] == "exited", r["error"]
    left = [i for i in range(300) if (workspace() / f"u{i}/.git/hooks/h").exists() and "evil" in (workspace() / f"u{i}/.git/hooks/h").read_text()]
    assert not left, left[:5]
    taken()


def seen():
    return {
        "old/a/b/.git/config": "git init -q old/a/b; " + settings("old/a/b/.git/config"),
        "old/a/.git": "echo 'gitdir: /tmp' > old/a/.git; touch -r old/c old/a",
        "old/c/config": "mkdir -p old/c/objects old/c/refs; cp .git/HEAD old/c/HEAD; " + settings("old/c/config"),
        "new/d/.git": "mkdir new && mv old/d new/d; echo 'gitdir: /tmp' > new/d/.git; touch -d 2001-01-01 new/d new old",
    }


@test
def what_comes_into_folders_that_earlier_runs_have_listed_is_judged():
    """They are not listed again while they are as they were; what the user makes there is the user's, and a broken list is none."""
    repository()
    on_host("mkdir", "-p", "old/a/b", "old/c", "old/d", "old/e/f", cwd=workspace())
    for i, (name, script) in enumerate(seen().items()):
        time.sleep(0.05)
        assert sh("true")["denials"] == [] and sh("true")["denials"] == []
        lists = list((state() / "brig/records").glob("*.seen"))
        assert len(lists) == 1, lists
        if i == 2:
            lists[0].write_bytes(lists[0].read_bytes()[:-9] + bytes(9))
        r = sh(script)
        assert not os.path.lexists(workspace() / name) and any(f"{name}/".startswith(f"{d['target']}/") for d in r["denials"]), (script, r)
    assert sh("true")["denials"] == []
    git("init", "-q", "old/e/f")
    git("config", "core.fsmonitor", "true", cwd=workspace() / "old/e/f")
    assert sh("true")["denials"] == [] and (workspace() / "old/e/f/.git/config").exists()
    assert taken()


if __name__ == "__main__":
    sys.exit(main())
