#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A HOME that is kept, in containers of Docker and Podman: bound over HOME, compared as every bind is, never an engine's volume."""

import os
import pathlib
import shutil
import stat
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import common  # noqa: E402
from common import box, engine, podmans, shared_engine, shared_podmans  # noqa: E402
from harness import around, brig, files_as_root, identity, main, scratch, state, test, tree, uid, wait_until, workspace  # noqa: E402

around(shared_engine)
around(shared_podmans)


def cache():
    folder = scratch() / "cache"
    folder.mkdir(exist_ok=True)
    return folder


def homes():
    with files_as_root():
        return [p / "home" for p in (cache() / "brig/homes").iterdir()]


def keep(*argv, host=None, **more):
    return box("--home", "keep", *argv, host=host, env={"XDG_CACHE_HOME": str(cache())}, **more)


def kept_by(host):
    done = keep("--", "sh", "-c", "echo one > ~/word; mkdir -p ~/.npm; id -u; stat -c %u ~ ~/word", host=host)
    inside = str(1000 if identity() == "root" else uid())
    assert done.status == 0 and set(done.text.split()) <= {inside, "0"}, (done.text, done.errors)
    done = keep("--", "sh", "-c", "cat ~/word; ls -A ~; echo two > ~/word; ln -s /workspace ~/link; mkdir ~/closed; chmod 0 ~/closed", host=host)
    assert done.text == "one\n.npm\nword\n", (done.text, done.errors)
    (home,) = homes()
    with files_as_root():
        assert (home / "word").read_text() == "two\n" and stat.S_IMODE(home.stat().st_mode) == 0o700
        assert {p.lstat().st_uid for p in (home, *home.iterdir())} == {uid()}  # on disk they are the caller's, root's included
    assert box("--", "sh", "-c", "ls -A ~", host=host).text == ""  # the control: without it HOME is empty
    done = keep("--policy", "readonly", "--", "sh", "-c", "ls -A ~; touch ~/x", host=host)
    assert (done.status, done.text) == (0, "") and len(homes()) == 2, (done.text, done.errors)
    done = brig("cache", "clear", "--all", env={"XDG_CACHE_HOME": str(cache())})
    assert done.status == 0 and not homes(), done.errors
    assert not tree(workspace())


@test(as_user="user", limit=120)
def docker_finds_it_again():
    kept_by(None)


@test(as_user="user", limit=180)
def podman_finds_it_again():
    kept_by(podmans[identity()].host)


@test(as_user="root", limit=180)
def roots_is_shown_as_the_commands_own_where_the_engine_sees_that():
    for host in (None, podmans["root"].host):  # each has a view of its own
        done = keep("--", "true", host=host)
        assert done.status == 125 and "does not see the HOME that is kept for root" in done.errors, done.errors
    shutil.rmtree(cache())
    where = pathlib.Path(f"/tmp/{os.getpid()}-d")
    with engine.Dockerd(where) as e:
        try:
            e.import_image(engine.busybox_tar())
            kept_by(e.host)
            assert keep("--", "sh", "-c", "touch ~/.brig-not-mounted ~/.brig-not-mounted-", host=e.host).status == 0
            done = keep("--", "sh", "-c", "ls -A ~", host=e.host)  # a name of brig's own that a command has left decides nothing
            assert (done.status, done.text) == (0, ".brig-not-mounted\n.brig-not-mounted-\n"), done.errors
            mounts = lambda: [line for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines() if ".home" in line]  # noqa: E731
            assert wait_until(lambda: not mounts() and not tree(state() / "brig/docker"), 10), mounts()
        finally:
            e.stop()
            shutil.rmtree(where, ignore_errors=True)


@test(as_user="user", limit=120)
def each_image_has_its_own_and_another_user_none():
    for image in ("brig-a.test/a", "brig-a.test/b"):
        status, _ = common.shared.ask("POST", f"/images/{engine.IMAGE}/tag?repo={image}&tag=latest")
        assert status == 201
        assert keep("--", "sh", "-c", "ls -A ~; touch ~/x", image=f"{image}:latest").text == ""
    assert len(homes()) == 2
    for how in (("--set", "docker.user="), ("--user", "4711")):
        done = keep(*how, "--policy", "readonly", "--", "true")
        assert done.status == 125 and "who is the caller" in done.errors, done.errors


@test(as_user="user", limit=120)
def what_stands_at_its_place_is_not_mounted():
    """Somebody puts another folder there between plan and start: the gate compares by identity. Here it is a link from before."""
    assert keep("--", "true").status == 0
    (home,) = homes()
    prey = scratch() / "prey"
    prey.mkdir()
    with files_as_root():
        shutil.rmtree(home)
        os.symlink(prey, home)
    done = keep("--", "sh", "-c", "echo x > ~/word")
    assert done.status == 125 and "is not what brig made" in done.errors and not tree(prey), done.errors


@test(as_user="user", limit=180)
def no_engine_mounts_into_it():
    """Another run moves the place away after brig's look, and the engine makes it anew, as root: nobody could clear that."""
    tool = scratch() / "tool"
    (tool / "sub").mkdir(parents=True)
    for host in (None, podmans[identity()].host):
        assert keep("--", "sh", "-c", "mkdir -p ~/.tool/sub", host=host).status == 0
        for how in (("--mount", f"{tool}:/home/brig/.tool"), ("--mount", f"{tool}:/home/brig/.tool/sub:rw"), ("--mount", f"{tool}:/home/brig")):
            done = keep(*how, "--", "true", host=host)
            assert done.status == 125 and "is in a kept HOME" in done.errors and "--home private" in done.errors, done.errors
        done = box("--mount", f"{tool}:/home/brig/.tool", "--", "ls", "/home/brig/.tool", host=host)
        assert (done.status, done.text) == (0, "sub\n"), done.errors  # the control: elsewhere nobody moves it
        with files_as_root():
            assert {p.lstat().st_uid for home in homes() for p in (home, *home.rglob("*"))} == {uid()}
        done = brig("cache", "clear", "--all", env={"XDG_CACHE_HOME": str(cache())})
        assert done.status == 0 and not homes(), done.errors


if __name__ == "__main__":
    sys.exit(main())
