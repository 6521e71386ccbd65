#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""brig diff, apply and discard: what a run with an overlay workspace wrote is shown, taken whole or not at all, taken back, thrown away."""

import json
import os
import pty
import random
import select
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from harness import brig, main, start_brig, test, workspace  # noqa: E402


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


@test
def words_that_mean_nothing_are_refused():
    for words in (("diff", "../x"), ("diff", "/etc"), ("apply", "--force"), ("apply", "--undo", "last"), ("apply", "-i"), ("discard", "x"), ("diff", "abcdef0123"), ("diff", "--wrong")):
        no(*words)


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


if __name__ == "__main__":
    sys.exit(main())
