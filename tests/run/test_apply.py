#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""brig diff, apply and discard: what a run with an overlay workspace wrote is shown, taken whole or not at all, taken back, thrown away."""

import json
import os
import pathlib
import pty
import random
import select
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from harness import brig, brig_environment, main, start_brig, test, wait_until, workspace  # noqa: E402


def run(script):
    r = brig("run", "--json", "--workspace", "overlay", "--apply", "never", "--", "sh", "-c", script).json
    assert r["exit_code"] == 0, r
    return r


def ok(*args):
    r = brig(*args)
    assert r.status == 0, (args, r.stdout, r.stderr)
    return r.stdout.decode()


def no(*args):
    r = brig(*args)
    assert r.status == 125 and r.errors.startswith("brig: "), (args, r.stdout, r.stderr)
    return r.errors


def at_terminal(*args):
    me, there = pty.openpty()
    p = start_brig(*args, stdin=there, stdout=there, stderr=there)
    os.close(there)
    seen = b""
    try:
        while got := os.read(me, 65536):
            seen += got
    except OSError:
        pass
    assert p.wait(30) == 0, seen
    return seen


def files():
    return {str(p.relative_to(workspace())): p.read_text() for p in sorted(workspace().rglob("*")) if p.is_file()}


def fill():
    (workspace() / "d").mkdir(exist_ok=True)
    (workspace() / "a").write_text("one\ntwo\nthree\n")
    (workspace() / "d/b").write_text("b\n")
    (workspace() / "gone").write_text("gone\n")
    time.sleep(0.02)


@test
def a_layer_is_shown_applied_and_taken_back():
    fill()
    before = files()
    run("sed -i s/two/2/ a; rm gone; mkdir n; echo new > n/f; echo more >> d/b")
    names = ok("diff", "--names").splitlines()
    assert [n.split()[:2] for n in names] == [["changed", "a"], ["changed", "d/b"], ["deleted", "gone"], ["folder", "n/"], ["added", "n/f"]], names
    text = ok("diff")
    assert "-two\n+2\n" in text and "--- a/gone\n+++ /dev/null" in text, text
    assert "a | +1 -1" in ok("diff", "--stat")
    listed = json.loads(ok("diff", "--json", "--stat"))
    assert [(c["path"], c["change"]) for c in listed["changes"]][0] == ("a", "changed") and listed["changes"][0]["added"] == 1, listed
    assert ok("diff", "last", "d").count("diff --git") == 1
    assert files() == before
    assert "5 changes applied" in ok("apply")
    after = files()
    assert after == {"a": "one\n2\nthree\n", "d/b": "b\nmore\n", "n/f": "new\n"}, after
    assert ok("diff") == ""
    assert "5 changes were taken back" in ok("apply", "--undo")
    assert files() == before and "nothing to undo" in no("apply", "--undo")
    ok("apply", "d")
    ok("apply")
    assert files() == after
    ok("discard")
    assert files() == after and "no layer" in no("diff")


@test
def a_path_without_a_change_and_a_run_that_still_lives_are_told():
    fill()
    run("echo more >> a")
    for words in ((), ("--names",), ("--stat",), ("--json",)):
        said = brig("diff", *words, "nosuch", "a")
        assert said.status == 0 and said.errors.count("note") == 1 and "nothing was changed at 'nosuch'" in said.errors, (words, said.errors)
        assert not brig("diff", *words, "a").errors
    with start_brig("run", "--workspace", "overlay", "--", "sh", "-c", "echo x > b; sleep 60") as p:
        wait_until(lambda: "a run that began later has not ended" in brig("diff", "--names").errors)
        p.terminate()


@test
def a_conflict_applies_nothing():
    fill()
    run("echo theirs >> a; rm gone")
    (workspace() / "a").write_text("mine\n")
    assert "conflict" in ok("diff", "--names")
    said = no("apply")
    assert "'a' is changed in the workspace since the run began" in said, said
    assert (workspace() / "gone").exists()
    ok("apply", "gone")
    no("apply", "a")
    ok("apply", "--force", "a")
    assert (workspace() / "a").read_text().endswith("theirs\n")
    ok("apply", "--undo")
    assert (workspace() / "a").read_text() == "mine\n"
    ok("discard")


@test
def what_the_host_obeys_comes_by_name_and_is_shown():
    run("mkdir .vscode; echo '{\"evil\": 1}' > .vscode/tasks.json; echo x > .envrc; echo f > f")
    said = ok("apply")
    assert ".vscode/tasks.json (only by name" in said and ".envrc" in said, said
    assert set(files()) == {"f"}, files()
    assert '+{"evil": 1}' in ok("apply", ".vscode/tasks.json")
    assert set(files()) == {"f", ".vscode/tasks.json"}, files()
    ok("discard")


@test
def no_text_moves_the_cursor_of_who_reads_it():
    run(r"printf 'EVIL\r+good\n\033[1A\033[2Kx\by\tz\r\n' > f")
    assert b"EVIL\r+good\n+\x1b[1A" in brig("diff").stdout
    said = at_terminal("diff")
    assert b"+EVIL^M+good\r\n" in said and b"+^[[1A^[[2Kx^Hy\tz\r" in said, said
    assert b"\x1b[1A" not in said and b"\x1b[2K" not in said and b"\b" not in said, said
    ok("discard")


@test
def no_link_and_no_deeper_name_is_a_way_past_names():
    run("mkdir hgd .husky; echo x > hgd/hgrc; ln -s hgd .hg; ln -s hgd .github; ln -s hgd plain; mkdir .husky/.vscode; echo x > .husky/.vscode/f")
    said = ok("apply")
    assert "left out: added    .hg ->" in said and "left out: added    .github ->" in said, said
    assert os.path.islink(workspace() / "plain") and not os.path.lexists(workspace() / ".hg"), files()
    ok("apply", ".hg")
    assert os.path.islink(workspace() / ".hg") and not os.path.lexists(workspace() / ".husky")
    ok("discard")


def as_owner(script):
    owner = str(os.stat(workspace()).st_uid)
    start = ["setpriv", "--reuid", owner, "--regid", owner, "--clear-groups", "--"] if os.geteuid() == 0 and owner != "0" else []
    subprocess.run([*start, "sh", "-ec", script], cwd=workspace(), env=brig_environment({"HOME": "/nonexistent"}), check=True, capture_output=True)


def refused(*paths):
    """A direct run cannot write there."""
    for path in paths:
        r = brig("run", "--", "sh", "-c", f"echo evil >> {path}")
        assert r.status != 0 and "Read-only file system" in r.stdout.decode() + r.errors, (path, r.stdout, r.stderr)


def guarded(script, *paths):
    """Only what is plain comes by a plain apply, and each of these by its name, and is shown then."""
    run(f"{script}; echo plain >> plain")
    marked = [n for n in ok("diff", "--names").splitlines() if "(only by name" in n]
    said = ok("apply")
    assert files()["plain"].endswith("plain\n"), files()
    for path in paths:
        assert any(path in n for n in marked), (path, marked)
        assert path in said and "evil" not in files().get(path, ""), (path, said, files())
        assert "+evil" in ok("apply", path)
        assert "evil" in files()[path], path
    ok("discard")


@test
def what_gits_settings_name_comes_by_name_only():
    as_owner("mkdir -p scripts/hooks tools/more; git init -q; git config core.hooksPath scripts/hooks; git config include.path ../tools/gitcfg")
    (workspace() / "scripts/hooks/pre-commit").write_text("#!/bin/sh\n")
    (workspace() / "tools/gitcfg").write_text("[include]\n\tpath = more/cfg\n")
    (workspace() / "tools/more/cfg").write_text("[user]\n\tname = x\n")
    (workspace() / "scripts/x").write_text("#!/bin/sh\n")
    os.makedirs(workspace() / ".git/hooks", exist_ok=True)
    os.symlink("../../scripts/x", workspace() / ".git/hooks/post-commit")
    names = ("scripts/hooks/pre-commit", "tools/gitcfg", "tools/more/cfg", "scripts/x")
    refused(*names)
    new = "scripts/hooks/post-merge"
    guarded("; ".join(f"echo evil >> {n}" for n in (*names, new)) + "; echo evil > scripts/y; chmod 755 scripts/y", *names, new)
    assert "evil" in files()["scripts/y"]
    # Nor by another folder in the place of theirs.
    run("mv scripts s; mkdir scripts; cp -r s/hooks scripts/; rm -r tools; ln -s s tools")
    ok("apply")
    assert not os.path.islink(workspace() / "tools") and (workspace() / "scripts/x").exists() and (workspace() / "s/x").exists()
    ok("discard")


@test
def what_names_nothing_yet_and_what_a_nested_repository_names_comes_by_name_only():
    as_owner("git init -q; git config core.hooksPath later/hooks; git init -q n; cd n; git config core.hooksPath h; mkdir h; echo x > h/pre-commit")
    guarded("mkdir -p later/hooks; echo evil > later/hooks/pre-commit; echo evil > later/plain; echo evil >> n/h/pre-commit; echo evil > n/plain", "later/hooks/pre-commit", "n/h/pre-commit")
    assert "evil" in files()["later/plain"] and "evil" in files()["n/plain"]


@test
def what_git_does_not_say_lets_nothing_come_without_a_name():
    as_owner("git init -q")
    (workspace() / ".git/config").write_text("[core\n hookspath = \n")
    run("echo f > f; echo g > g")
    said = ok("apply")
    assert "git does not say" in said and not (workspace() / "f").exists(), said
    assert "git does not say" in ok("diff", "--names")
    ok("apply", "f")
    assert (workspace() / "f").exists() and not (workspace() / "g").exists()
    ok("discard")


@test
def brigs_own_settings_come_by_name_only():
    (workspace() / "conf/brig").mkdir(parents=True)
    (workspace() / "conf/brig/config.yaml").write_text("network: none\n")
    run("echo evil >> conf/brig/config.yaml; echo evil > conf/brig/new.yaml; echo f > f")
    r = brig("apply", env={"XDG_CONFIG_HOME": str(workspace() / "conf")})
    assert r.status == 0 and b"left out: changed  conf/brig/config.yaml" in r.stdout and b"conf/brig/new.yaml" in r.stdout, (r.stdout, r.stderr)
    assert "evil" not in files()["conf/brig/config.yaml"] and "f" in files()
    ok("discard")
    run("echo f > g")
    r = brig("apply", env={"XDG_CONFIG_HOME": str(workspace().parent), "HOME": "/nonexistent"})
    assert r.status == 0 and "g" in files(), (r.stdout, r.stderr)
    ok("discard")


@test
def a_run_that_applies_by_itself_leaves_out_what_gits_settings_name():
    as_owner("git init -q; git config core.hooksPath hooks; mkdir hooks; echo x > hooks/pre-commit")
    r = brig("run", "--json", "--workspace", "overlay", "--apply", "auto", "--", "sh", "-c", "echo evil >> hooks/pre-commit; echo f > f").json
    assert r["exit_code"] == 0 and "f" in files() and files()["hooks/pre-commit"] == "x\n", (r, files())
    assert "+evil" in ok("apply", "hooks")
    assert "evil" in files()["hooks/pre-commit"]
    ok("discard")


@test
def words_that_mean_nothing_are_refused():
    for words in (("diff", "../x"), ("diff", "/etc"), ("apply", "--force"), ("apply", "--undo", "last"), ("apply", "-i"), ("discard", "x"), ("diff", "abcdef0123"), ("diff", "--wrong")):
        no(*words)


@test
def runs_of_one_second_are_told_apart_and_a_path_like_an_id_is_named():
    for name in "abcdef":
        run(f"echo {name} > {name}")
    for name in "fedcba":
        assert ok("diff", "--names") == f"added    {name}\n"
        listed = json.loads(ok("cache", "list", "--json"))["layers"]
        mine = [x for x in listed if x["workspace"] == str(workspace())]
        assert mine and all(x["state"] == "finished" and x["changed"] == 1 for x in mine), listed
        assert mine[0]["run"][:12] in ok("cache", "list")
        ok("discard")
    assert str(workspace()) not in ok("cache", "list")
    (workspace() / "cafe").write_text("old\n")
    time.sleep(0.02)
    run("echo new > cafe")
    assert "for the path of that name: ./cafe" in no("diff", "cafe")
    assert ok("diff", "--stat", "./cafe") == "cafe | +1 -1\n1 change, 1 line added, 1 removed\n"
    ok("discard")


@test
def an_interactive_apply_asks_for_each_and_shows_no_terminal_codes():
    fill()
    run("printf 'x\\033]0;title\\007\\n' >> a; echo y > y; echo z > z; rm gone")
    me, there = pty.openpty()
    p = start_brig("apply", "-i", stdin=there, stdout=there, stderr=there)
    os.close(there)
    seen, answers = b"", [b"y\n", b"n\n", b"?\n", b"y\n", b"q\n"]
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([me], [], [], 1)[0]:
            try:
                got = os.read(me, 65536)
            except OSError:
                break
            seen += got
            if seen.rstrip().endswith(b"?]?") and answers:
                os.write(me, answers.pop(0))
                seen += b" "
                seen = seen.rstrip() + b"."
        if p.poll() is not None and not select.select([me], [], [], 0)[0]:
            break
    assert p.wait(30) == 0 and b"\033]0" not in seen and b"do not apply it" in seen, seen
    now = files()
    assert "x" in now["a"] and "gone" in now and "y" in now and "z" not in now, (now, seen)
    ok("discard")


def killed(times):
    """Kills an apply at random moments: what the next brig leaves is all of it or nothing."""
    for i in range(200):
        (workspace() / f"f{i}").write_text(f"{i}\n")
    time.sleep(0.02)
    before = files()
    run("for i in $(seq 0 2 198); do echo more >> f$i; done; rm f1 f3 f5; mkdir -p n/m; for i in $(seq 60); do echo $i > n/m/$i; done; mv f7 moved")
    began = time.monotonic()
    ok("apply")
    whole, after = time.monotonic() - began, files()
    ok("apply", "--undo")
    assert files() == before
    ends = {"none": 0, "all": 0}
    for _ in range(times):
        p = start_brig("apply")
        try:
            p.wait(random.uniform(0, whole * 1.2))
        except subprocess.TimeoutExpired:
            pass
        p.kill()
        p.wait(30)
        ok("diff", "--names")
        now = files()
        assert now in (before, after), sorted(set(now.items()) ^ set(before.items()))[:5]
        ends["all" if now == after else "none"] += 1
        if now == after:
            ok("apply", "--undo")
    assert ends["none"], ends
    ok("apply")
    assert files() == after, "the layer lost something"
    ok("discard")


@test
def killed_at_any_moment_it_is_all_or_nothing():
    killed(int(os.environ.get("SOAK_KILLS", "15")))


@test
def a_stage_beside_the_workspace_waits_until_nobody_could_write_there():
    inner, cache = workspace() / "inner", pathlib.Path("/dev/shm/brig-cache-of-a-test")
    inner.mkdir()
    cache.mkdir(mode=0o700)
    elsewhere = {"cwd": inner, "env": {"XDG_CACHE_HOME": str(cache)}}
    try:
        run = brig("run", "--json", "--workspace", "overlay", "--", "sh", "-c", "echo x > new", **elsewhere).json["id"]
        other = start_brig("run", "--", "sh", "-c", "touch begun; sleep 100")  # the folder above is its workspace
        assert wait_until((workspace() / "begun").exists)
        done = brig("apply", run, **elsewhere)
        assert done.status == 125 and "another run may write" in done.errors and not (inner / "new").exists(), done
        other.terminate()
        other.communicate()
        assert brig("apply", run, **elsewhere).status == 0 and (inner / "new").read_text() == "x\n"
        assert brig("apply", "--undo", **elsewhere).status == 0 and not (inner / "new").exists()
        for left in workspace().glob(".brig-applied-*"):
            shutil.rmtree(left)
    finally:
        shutil.rmtree(cache)


if __name__ == "__main__":
    sys.exit(main())
