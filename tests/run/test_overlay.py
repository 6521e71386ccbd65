#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Overlay workspaces as their users see them: what a run says of its layer, and workspace.apply."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import brig, brig_environment, main, start_brig, test, wait_until, workspace  # noqa: E402
from terminals import Terminal  # noqa: E402

OVERLAY = ("--workspace", "overlay")


def layer(run):
    return pathlib.Path(brig_environment()["XDG_CACHE_HOME"]) / "brig/layers" / run


def run(script, *options):
    r = brig("run", "--json", *OVERLAY, *options, "--", "sh", "-c", script).json
    assert r["workspace"] == "overlay", r
    return r


def drop(r):
    shutil.rmtree(layer(r["id"]), ignore_errors=True)


@test
def the_layer_is_named_with_what_it_changed_and_what_to_do():
    (workspace() / "old").write_text("old\n")
    done = brig("run", *OVERLAY, "--", "sh", "-c", "echo x > new; rm old; test ! -e old")
    assert done.status == 0 and "2 names changed in a layer" in done.errors and "brig apply" in done.errors, done
    assert sorted(os.listdir(workspace())) == ["old"]
    run_id = done.errors.rsplit(" ", 1)[1].strip()
    kept = [p for p in layer("").glob(f"{run_id}*")]
    assert len(kept) == 1 and json.loads((kept[0] / "about").read_text())["changed"] == 2, kept
    shutil.rmtree(kept[0])
    done = brig("run", *OVERLAY, "--", "cat", "old")
    assert done.stdout == b"old\n" and "layer" not in done.errors, done


@test
def what_the_rules_allow_is_applied_at_the_end():
    (workspace() / "old").write_text("old\n")
    r = run("mkdir d; echo x > d/new; rm old; echo evil > .envrc", "--apply", "auto")
    assert r["layer"]["applied"] >= 2 and r["layer"]["left"] == 1 and r["layer"]["kept"] is None, r
    assert (workspace() / "d/new").read_text() == "x\n" and not (workspace() / "old").exists() and not (workspace() / ".envrc").exists()
    drop(r)
    r = run("echo y > d/new", "--apply", "never")
    assert (workspace() / "d/new").read_text() == "x\n" and "applied" not in r["layer"], r
    drop(r)


@test
def nothing_is_applied_over_what_the_user_has_changed_meanwhile():
    (workspace() / "f").write_text("mine\n")
    p = start_brig("run", "--json", *OVERLAY, "--apply", "auto", "--", "sh", "-c", "echo theirs > f; echo x > new; cat", stdin=subprocess.PIPE)
    try:
        assert wait_until(lambda: any(layer("").glob("*/upper/new"))), "it never began"
        (workspace() / "f").write_text("mine, too\n")
    finally:
        out, err = p.communicate(timeout=30)
    r = json.loads(out)
    assert (workspace() / "f").read_text() == "mine, too\n" and not (workspace() / "new").exists(), (r, err)
    assert r["layer"]["applied"] == 0 and r["layer"]["kept"], r
    drop(r)


@test
def a_programs_way_round_a_rename_that_an_overlay_refuses():
    os.makedirs(workspace() / "d/e")
    (workspace() / "d/e/f").write_text("f\n")
    r = run("mv d moved && cat moved/e/f; python3 -c \"import os; os.rename('moved/e', 'e2')\"; python3 -c \"import os; os.mkdir('x'); os.rename('x', 'y')\"; ls")
    assert r["stdout"].split()[0] == "f" and r["exit_code"] == 0, r
    drop(r)
    os.makedirs(workspace() / "k/l")
    r = run("python3 -c \"import os; os.rename('k', 'm')\"")
    assert r["exit_code"] != 0 and any("overlay workspace" in h for h in r["hints"]), r
    drop(r)


def again(t, word, times):
    def seen():
        t.read()
        return t.seen.count(word) >= times
    assert wait_until(seen), t.seen


@test
def at_a_terminal_it_asks_and_shows_the_diff_first_if_asked():
    (workspace() / "old").write_text("old\n")
    t = Terminal(words=("run", "--workspace", "overlay", "--", "sh", "-c", "echo text-of-new > new; rm old"))
    t.until(b"i: ask for each] ")
    t.type(b"d\n")
    t.until(b"+text-of-new")
    again(t, b"i: ask for each] ", 2)
    assert sorted(os.listdir(workspace())) == ["old"]
    t.type(b"y\n")
    assert t.finish() == 0 and os.listdir(workspace()) == ["new"], t.seen


@test
def at_a_terminal_each_change_can_be_asked_for_and_anything_else_is_a_no():
    t = Terminal(words=("run", "--workspace", "overlay", "--", "sh", "-c", "echo a > a; echo b > b"))
    t.until(b"i: ask for each] ")
    t.type(b"i\n")
    asked = 0
    for answer in (b"n\n", b"y\n"):
        asked += 1
        again(t, b"Apply this change", asked)
        t.type(answer)
    assert t.finish() == 0 and os.listdir(workspace()) == ["b"] and b"brig apply or brig discard" not in t.seen, t.seen
    for answer in (b"\n", b"n\n", b"yy\n", b"\x03"):
        t = Terminal(words=("run", "--workspace", "overlay", "--", "touch", "c"))
        t.until(b"i: ask for each] ")
        t.type(answer)
        t.finish()
        assert os.listdir(workspace()) == ["b"], (answer, t.seen)


@test
def new_hidden_names_that_were_applied_are_told():
    done = brig("run", *OVERLAY, "--apply", "auto", "--", "sh", "-c", "echo x > .toolrc; mkdir d; echo y > d/.inner")
    assert done.status == 0 and ".toolrc" in done.errors and ".inner" not in done.errors, done
    done = brig("run", *OVERLAY, "--apply", "auto", "--", "sh", "-c", "echo x >> .toolrc")
    assert done.status == 0 and ".toolrc" not in done.errors, done


@test
def bwrap_mounts_nothing_in_an_overlay_workspace_and_says_so():
    os.makedirs(workspace() / "shown")
    done = brig("run", "--backend", "bwrap", *OVERLAY, "--read", workspace() / "shown", "--", "true")
    assert done.status == 125 and "shown' in an overlay workspace" in done.errors and "native" in done.errors, done
    assert brig("run", "--backend", "native", *OVERLAY, "--read", workspace() / "shown", "--", "true").status == 0


@test
def nobody_inside_gets_at_the_layer_itself():
    look = "cat /proc/self/mounts; ls -R /.brig /.upper /.layer; cd /.brig/layer && ls; cat /.brig/layer/about; true"
    for backend in ("native", "bwrap"):
        r = brig("run", "--json", "--backend", backend, *OVERLAY, "--", "sh", "-c", f"echo secret-of-upper > f; {look}").json
        assert "overlay" in r["stdout"] and "secret-of-upper" not in r["stdout"] and "upper\n" not in r["stdout"].replace("/upper", ""), r
        drop(r)


if __name__ == "__main__":
    sys.exit(main())
