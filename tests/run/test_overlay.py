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


if __name__ == "__main__":
    sys.exit(main())
