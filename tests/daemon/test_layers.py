#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Long-lived sandboxes with an overlay workspace: one layer each, looked at, applied, kept and let go."""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import daemon  # noqa: E402
from harness import PATIENCE, brig, brig_environment, main, test, wait_until, workspace  # noqa: E402

WAIT = 10 * PATIENCE
OVERLAY = {"backend": "native", "workspace": {"mode": "overlay", "apply": "never"}}
AUTO = {"backend": "native", "workspace": {"mode": "overlay", "apply": "auto"}}


def here(spec):
    return spec | {"workspace": spec["workspace"] | {"path": str(workspace())}}


def layers():
    return pathlib.Path(brig_environment()["XDG_CACHE_HOME"]) / "brig/layers"


def about(layer):
    return json.loads((layers() / layer / "about").read_text())


def layer_of(box):
    """Its name; all tests of an identity share the cache."""
    for path in layers().glob("[0-9a-f]*/about"):
        with contextlib.suppress(OSError, ValueError):
            if json.loads(path.read_text()).get("sandbox") == box:
                return path.parent.name
    return None


def drop(layer):
    shutil.rmtree(layers() / layer, ignore_errors=True)


@contextlib.contextmanager
def box(spec):
    """A daemon, a sandbox, a function that runs a line in it, and brig as its client."""
    with daemon() as d:
        made = d.create(spec=here(spec))["id"]

        def cli(*words, **how):
            return brig(*words, env={"BRIG_HOST": f"unix://{d.path}"}, **how)
        yield d, made, lambda line: d.exec(made, "sh", "-c", line), cli
        layer = layer_of(made)
    if layer:
        wait_until(lambda: not (layers() / layer).exists() or "sandbox" not in about(layer), WAIT)
        drop(layer)


def monitor_of(box):
    for p in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if pathlib.Path(f"/proc/{p}/cmdline").read_bytes().split(b"\0")[1:2] == [box.encode()]:
                return int(p)
    raise AssertionError("it has no monitor")


def changes(cli, *words):
    return {c["path"]: c["change"] for c in json.loads(cli("sandbox", "diff", *words, "--json").text)["changes"]}


@test
def one_layer_for_all_its_commands_shown_while_it_is_paused_or_stopped():
    (workspace() / "old").write_text("old\n")
    with box(OVERLAY) as (d, b, sh, cli):
        before = layer_of(b)
        assert sh("echo x > new; rm old")["exit_code"] == 0 and sh("cat new")["stdout"] == "x\n"
        assert before and layer_of(b) == before and os.listdir(workspace()) == ["old"]
        live = cli("diff", b)
        assert live.status == 125 and "paused" in live.errors, live
        assert changes(cli, b) == {"new": "added", "old": "deleted"}  # it is paused meanwhile
        assert d.call("GET", f"/v1/sandboxes/{b}").json["state"] == "ready"
        d.do(b, "pause")
        assert "+x" in cli("diff", b).text and cli("discard", b).status == 125
        d.do(b, "resume")
        d.do(b, "stop", {"grace": "0s"})
        assert "+x" in cli("diff", b).text
        d.do(b, "resume")
        assert sh("cat new; test -e old || echo gone")["stdout"] == "x\ngone\n"


@test
def apply_of_a_living_one_copies_and_it_goes_on():
    (workspace() / "old").write_text("old\n")
    with box(OVERLAY) as (d, b, sh, cli):
        sh("mkdir d; echo 1 > d/a; echo 1 > d/b; rm old; (while sleep 0.1; do :; done) >/dev/null 2>&1 &")
        done = cli("sandbox", "apply", b)
        assert done.status == 0, done
        assert (workspace() / "d/a").read_text() == "1\n" and not (workspace() / "old").exists()
        assert changes(cli, b) == {}, "what was applied is told again"
        # What it does to these files afterwards: a change, a removal in a folder of its own, one more.
        sh("echo 2 > d/a; rm d/b; echo 3 > d/c")
        assert changes(cli, b) == {"d/a": "changed", "d/b": "deleted", "d/c": "added"}, changes(cli, b)
        assert cli("sandbox", "apply", b).status == 0
        assert sorted(os.listdir(workspace() / "d")) == ["a", "c"] and (workspace() / "d/a").read_text() == "2\n"
        assert cli("apply", "--undo").status == 0 and sorted(os.listdir(workspace() / "d")) == ["a", "b"]


@test
def auto_applies_when_a_command_has_ended_and_no_other_runs():
    with box(AUTO) as (d, b, sh, cli):
        r = sh("mkdir d; echo 1 > d/a; echo evil > .envrc; echo x > .hidden")
        assert r["layer"]["applied"] >= 3 and r["layer"]["left"] == 1 and [t["path"] for t in r["changed_trust"]] == [".hidden"], r
        assert (workspace() / "d/a").read_text() == "1\n" and not (workspace() / ".envrc").exists()
        sh("rm d/a; echo 2 > d/b")
        assert os.listdir(workspace() / "d") == ["b"]
        (workspace() / "d/b").write_text("mine\n")
        r = sh("echo 3 > d/b; echo y > other")
        assert r["layer"]["applied"] == 0 and r["layer"]["kept"] and not (workspace() / "other").exists(), r["layer"]
        assert (workspace() / "d/b").read_text() == "mine\n"


@test
def while_somebody_looks_it_does_not_go_on():
    with box(OVERLAY) as (d, b, sh, cli):
        sh("echo x > new")
        d.do(b, "pause")
        with open(layers() / layer_of(b) / "live", "rb") as f:
            fcntl.flock(f, fcntl.LOCK_SH)
            r = d.call("POST", f"/v1/sandboxes/{b}/resume?wait=true")
            assert r.status >= 400 and "looks" in r.json["detail"], r
        d.do(b, "resume")
        assert sh("cat new")["stdout"] == "x\n"


@test
def a_killed_monitor_loses_nothing_of_it():
    with box(OVERLAY) as (d, b, sh, cli):
        sh("echo x > new")
        os.kill(monitor_of(b), signal.SIGKILL)
        assert wait_until(lambda: d.call("GET", f"/v1/sandboxes/{b}").json["state"] == "stopped", WAIT)
        d.do(b, "resume")
        assert sh("cat new")["stdout"] == "x\n"


@test
def a_layer_that_another_boot_left_unfinished_is_not_taken_up():
    with box(OVERLAY) as (d, b, sh, cli):
        sh("echo x > new")
        d.do(b, "stop", {"grace": "0s"})
        path = layers() / layer_of(b) / "about"
        v = json.loads(path.read_text())
        del v["finished"]
        path.write_text(json.dumps(v | {"boot": "another"}))
        r = d.call("POST", f"/v1/sandboxes/{b}/resume?wait=true")
        assert wait_until(lambda: b"damaged" in d.call("GET", f"/v1/sandboxes/{b}/logs").body, WAIT), r
        shown = cli("diff", b)
        assert "+x" in shown.text and "damaged" in shown.errors and cli("apply", b).status == 125, shown
        assert cli("discard", b).status == 0 and not (layers() / path.parent.name).exists()


@test
def a_stopped_one_whose_layer_was_thrown_away_begins_with_the_folder_as_it_is():
    (workspace() / "old").write_text("old\n")
    with box(OVERLAY) as (d, b, sh, cli):
        sh("echo x > new; rm old")
        d.do(b, "stop", {"grace": "0s"})
        assert cli("discard", b).status == 0
        d.do(b, "resume")
        assert sh("ls -A")["stdout"] == "old\n"


@test
def delete_keeps_what_nobody_applied_as_that_of_a_run_and_drops_an_empty_one():
    with box(OVERLAY) as (d, b, sh, cli):
        sh("echo x > new")
        layer = layer_of(b)
        assert d.call("DELETE", f"/v1/sandboxes/{b}").status < 300
        assert wait_until(lambda: "sandbox" not in about(layer), WAIT)
        assert "+x" in cli("diff", layer).text and cli("apply", layer).status == 0 and (workspace() / "new").exists()
        drop(layer)
        empty = d.create(spec=here(OVERLAY))["id"]
        d.exec(empty, "true")
        layer = layer_of(empty)
        assert d.call("DELETE", f"/v1/sandboxes/{empty}").status < 300
        assert wait_until(lambda: not (layers() / layer).exists(), WAIT)


if __name__ == "__main__":
    sys.exit(main())
