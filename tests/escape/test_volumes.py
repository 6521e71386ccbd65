#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Caches of tools and volumes were written by hostile code: who is shown which, and what on the host reads them.

The oracle is the host: which folder a run wrote to, that no other run's is among what it sees, and that all of it can be sized,
listed and removed by its owner."""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import brig, files_as_root, main, scratch, start_brig, state, test, tree, uid, wait_until, workspace  # noqa: E402

BOTH = ("native", "bwrap")
LOOK = "cat /data/word 2>/dev/null || echo none"


def folder(*names):
    path = scratch().joinpath(*names)
    path.mkdir(parents=True, exist_ok=True)
    return path


def environment(env=None):
    folder("cache")
    return {"XDG_CACHE_HOME": str(scratch() / "cache"), **(env or {})}


def run(*args, env=None, **more):
    return brig("run", *args, env=environment(env), **more)


def sh(line, *options, **more):
    done = run(*options, "--", "sh", "-c", line, **more)
    assert done.status == 0, (done.status, done.text, done.errors)
    return done.text


def refused(done, *words):
    assert done.status == 125, (done.status, done.stdout, done.stderr)
    for word in words:
        assert word in done.errors, (word, done.errors)
    return done


def places(kind):
    """By id, what is on disk."""
    above = scratch() / "cache/brig/caches" if kind == "caches" else state() / "brig/volumes"
    with files_as_root():
        return {p.name: p / "data" for p in above.iterdir()} if above.exists() else {}


def volumes():
    done = brig("volume", "--json", env=environment())
    assert done.status == 0, done.errors
    return done.json["volumes"]


def gone():
    for args in (["cache", "clear", "--all"], ["volume", "prune", "--older", "1s"]):
        wait_until(lambda: brig(*args, env=environment()).status == 0)
    for v in volumes():
        assert brig("volume", "rm", v["id"][:12], env=environment()).status == 0
    assert not places("caches") and not places("volumes"), (places("caches"), places("volumes"))


# ---- whose it is ----


@test(backends=BOTH)
def the_next_run_that_names_a_volume_finds_it_in_every_project():
    data = ["--volume", "data:/data"]
    assert sh("echo mine > /data/word; cat /data/word", *data) == "mine\n"
    assert sh(LOOK, *data) == "mine\n"
    assert sh(LOOK) == "none\n"  # who does not name it has none
    assert sh(LOOK, "--volume", "other:/data") == "none\n"
    other = folder("other")
    if uid() == 0:
        os.chown(other, *workspace().stat()[4:6])
    assert sh(LOOK, *data, "--workdir", other) == "mine\n"
    assert sh("cat /srv/x/word", "--volume", "data:/srv/x:ro") == "mine\n"
    assert sh("echo x > /srv/x/word || echo no", "--volume", "data:/srv/x:ro") == "no\n"
    assert sh(LOOK, *data) == "mine\n"
    gone()


@test(backends=BOTH)
def a_run_of_another_trust_has_another_volume_and_is_told():
    data = ["--volume", "data:/data"]
    sh("echo mine > /data/word", *data)
    done = run(*data, "--policy", "readonly", "--", "sh", "-c", LOOK + "; echo planted > /data/word")
    assert done.text == "none\n" and "'data' is new and empty" in done.errors and "workspace_write" in done.errors, done.errors
    assert sh(LOOK, *data) == "mine\n"
    (workspace() / ".brig.yaml").write_text("limits: {pids: 100}\n")
    assert sh(LOOK + "; echo theirs > /data/word", *data) == "none\n"  # nobody has trusted that file
    other = folder("other")
    if uid() == 0:
        os.chown(other, *workspace().stat()[4:6])
    (other / ".brig.yaml").write_text("limits: {pids: 100}\n")
    assert sh(LOOK, *data, "--workdir", other) == "none\n"  # nor that one: no two strangers share
    assert brig("allow", env=environment()).status == 0
    assert sh(LOOK, *data) == "mine\n"
    assert [v["project"] for v in volumes() if not v["trusted"]] and len(volumes()) == 4, volumes()
    gone()


@test
def a_stranger_s_file_names_none():
    """The control is the same file once it is trusted."""
    sh("echo mine > /data/word", "--volume", "data:/data")
    for text in ("volumes: [data:/data]\n", "caches: [npm]\n", "volume_size: 100g\n"):
        (workspace() / ".brig.yaml").write_text(text)
        refused(run("--", "true"), text.partition(":")[0], "brig allow")
    (workspace() / ".brig.yaml").write_text("volumes: [data:/data]\n")
    assert brig("allow", env=environment()).status == 0
    assert sh(LOOK) == "mine\n"
    gone()


@test(backends=BOTH)
def tools_are_led_to_their_caches():
    lines = 'echo "$npm_config_cache $PIP_CACHE_DIR $GOMODCACHE $GOCACHE"; touch "$npm_config_cache/x"; mkdir -p "$GOCACHE/y"'
    place = "/var/cache/brig"
    assert sh(lines, "--cache", "npm", "--cache", "pip", "--cache", "go") == f"{place}/npm {place}/pip {place}/go/mod {place}/go/build\n"
    other = folder("other")
    if uid() == 0:
        os.chown(other, *workspace().stat()[4:6])
    assert sh(f"ls {place}/npm {place}/go", "--cache", "npm", "--cache", "go", "--workdir", other) == f"{place}/go:\nbuild\n\n{place}/npm:\nx\n"
    assert sh('echo "$npm_config_cache"', "--cache", "npm", "--env", "npm_config_cache=/tmp/mine") == "/tmp/mine\n"
    assert sh('echo "${npm_config_cache-none}"') == "none\n"
    names = sorted(c["name"] for c in brig("cache", "--json", env=environment()).json["tools"])
    assert names == ["go", "npm", "pip"], names
    assert brig("cache", "clear", "--tool", "npm", env=environment()).text == "1 cleared\n"
    assert brig("cache", "clear", "--tools", env=environment()).text == "2 cleared\n"
    gone()


@test
def others_refuse_them_by_name():
    for backend, more in (("ssh", ["--set", "ssh.host=nowhere"]), ("ssh", ["--set", "ssh.host=nowhere", "--set", "ssh.remote=brig"]), ("docker", ["--image", "x"])):
        for asked in (["--volume", "data:/data"], ["--cache", "npm"]):
            refused(run("--backend", backend, *more, *asked, "--", "true", env={"BRIG_BACKEND": None}), f"backend '{backend}' cannot honour {asked[0]}")
    assert not places("caches") and not places("volumes")


# ---- clumsy words ----


@test
def what_is_no_volume_is_refused_with_what_would_be():
    refused(run("--volume", "/srv:/data", "--", "true"), "--mount SRC:DST")
    refused(run("--volume", "data", "--", "true"), "NAME:PATH")
    refused(run("--volume", "../x:/data", "--", "true"), "--mount")
    refused(run("--volume", "Data:/data", "--", "true"), "small letters")
    refused(run("--volume", "data:data", "--", "true"), "not absolute", "/data")
    refused(run("--volume", "data:/etc", "--", "true"), "/etc")
    refused(run("--volume", "a:/data", "--volume", "b:/data", "--", "true"), "two mounts at '/data'")
    refused(run("--volume", "a:/data", "--mount", f"{folder('m')}:/data", "--", "true"), "two mounts at '/data'")
    refused(run("--cache", "nmp", "--", "true"), "no cache 'nmp'", "npm")
    refused(run("--volume", f"a:{workspace()}", "--", "true"), "is the workspace")
    refused(run("--volume", f"a:{workspace()}/absent", "--", "true"), "no place to be mounted on")
    refused(brig("volume", "rm", "none", env=environment()), "no volume 'none'")
    refused(brig("volume", "prune", env=environment()), "--older")
    assert "no volume" in brig("volume", env=environment()).text
    assert not places("volumes") and not places("caches")


@test
def a_run_that_is_refused_leaves_none():
    refused(run("--volume", "data:/data", "--cache", "npm", "--write", scratch() / "nowhere", "--", "true"), "nowhere")
    assert not places("volumes") and not places("caches")


@test(backends=BOTH)
def into_the_workspace_and_into_home():
    (workspace() / "node_modules").mkdir()
    if uid() == 0:
        os.chown(workspace() / "node_modules", *workspace().stat()[4:6])
    sh("echo x > node_modules/y; echo z > ~/.keep/w", "--volume", f"modules:{workspace()}/node_modules", "--volume", "mine:/home/brig/.keep")
    assert not list((workspace() / "node_modules").iterdir())  # the host's folder is as it was
    assert sh("cat node_modules/y ~/.keep/w", "--volume", f"modules:{workspace()}/node_modules", "--volume", "mine:/home/brig/.keep") == "x\nz\n"
    gone()


# ---- the enemy wrote it ----


@test(backends=BOTH)
def no_run_is_shown_another_one():
    """The control is the run that names it."""
    sh("echo secret > /data/word", "--volume", "data:/data")
    (place,) = places("volumes").values()
    for args in (["--read", place.parent], ["--mount", f"{place}:/x"], ["--write", place], ["--mount", f"{place}:/x:rw"], ["--read", place.parents[1]]):
        refused(run(*args, "--", "true"))
    assert "secret" not in sh(f"cat {place}/word 2>&1 || true", "--volume", "other:/data")
    assert sh(LOOK, "--volume", "data:/data") == "secret\n"
    above = place.parents[3]
    seen = run("--mount", f"{above}:/x", "--", "sh", "-c", "cat /x/brig/volumes/*/data/word 2>&1 || true")
    assert "secret" not in seen.text, seen.text
    gone()


@test(backends=BOTH)
def what_lies_there_is_followed_by_nobody():
    """A link, a folder closed to its owner, a deep one, another user's mode: sized, listed, removed."""
    prey = folder("prey")
    (prey / "kept").write_text("kept")
    sh(
        f"cd /data; ln -s {prey} link; ln -s / root; mkdir -p closed/in; echo x > closed/in/x; chmod 000 closed; mkfifo pipe; "
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'; chmod 000 /data",
        "--volume", "data:/data",
    )
    assert sh("ls /data | wc -l", "--volume", "data:/data").strip() == "5"
    (row,) = volumes()
    assert row["name"] == "data" and 0 < row["bytes"] < 1 << 20 and not row["more"] and not row["in_use"], row
    assert brig("volume", "rm", "data", env=environment()).text == "1 removed\n"
    assert (prey / "kept").read_text() == "kept" and not places("volumes")
    gone()


@test(backends=BOTH)
def set_id_bits_and_devices_stay_out():
    out = sh("cp /bin/true /data/t; chmod 6755 /data/t 2>/dev/null; stat -c %a /data/t; mknod /data/null c 1 3 2>/dev/null || echo no", "--volume", "data:/data")
    mode, no = out.split()
    assert no == "no" and not int(mode, 8) & 0o6000, out
    options = sh("grep ' /data ' /proc/self/mountinfo", "--volume", "data:/data")
    assert "nosuid" in options and "nodev" in options, options
    gone()


@test
def one_that_is_used_is_not_removed():
    ready, end = workspace() / "ready", workspace() / "end"
    with start_brig("run", "--volume", "data:/data", "--cache", "npm", "--", "sh", "-c", "touch ready; until [ -e end ]; do sleep 0.1; done", env=environment()):
        wait_until(ready.exists)
        refused(brig("volume", "rm", "data", env=environment()), "used by a run")
        refused(brig("cache", "clear", "--tools", env=environment()), "used by a run")
        assert [v["in_use"] for v in volumes()] == [True]
        assert brig("volume", "prune", "--older", "1s", env=environment()).text == "0 removed\n"
        end.touch()
    gone()


@test
def a_full_one_refuses_the_start():
    sh("head -c 3000000 /dev/zero > /data/big; head -c 3000000 /dev/zero > /var/cache/brig/npm/big", "--volume", "data:/data", "--cache", "npm")
    refused(run("--volume", "data:/data", "--volume-size", "1m", "--", "true"), "'data' holds more than volume_size", "brig volume rm")
    refused(run("--cache", "npm", "--volume-size", "1m", "--", "true"), "'npm' holds more than volume_size", "brig cache clear --tools")
    assert run("--volume", "data:/data", "--volume-size", "4m", "--", "true").status == 0
    gone()


@test
def killed_runs_leave_what_the_next_can_use():
    for _ in range(5):
        with start_brig("run", "--volume", "data:/data", "--", "sh", "-c", "echo x >> /data/word; sleep 60", env=environment()) as p:
            wait_until(lambda: any((d / "word").exists() for d in places("volumes").values()))
            p.kill()
    assert "x" in sh("cat /data/word", "--volume", "data:/data")
    gone()


@test
def nothing_of_it_is_obeyed_on_the_host():
    """A program in a volume is no program of brig's on the host: the place is noted as exposed before the command starts."""
    sh("printf '#!/bin/sh\\ntouch %s\\n' > /data/git; chmod +x /data/git" % (scratch() / "obeyed"), "--volume", "data:/data")
    (place,) = places("volumes").values()
    shown = brig("exposed", "--json", env=environment())
    assert "volumes" in json.dumps(shown.json), shown.text
    with files_as_root():
        assert os.access(place / "git", os.X_OK)
    run("--", "true", env={"PATH": f"{place}:{os.environ['PATH']}"})
    assert not (scratch() / "obeyed").exists()
    assert str(place.parents[1]) in tree(state()) or places("volumes")
    gone()


if __name__ == "__main__":
    sys.exit(main())
