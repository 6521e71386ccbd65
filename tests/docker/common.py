# SPDX-License-Identifier: Apache-2.0
"""What the files of this suite share: the engine, and brig with the docker backend on it."""

import contextlib
import io
import itertools
import os
import pathlib
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import engine  # noqa: E402
from harness import brig, files_as_root, identity, start_brig, wait_until, workspace  # noqa: E402

_numbers = itertools.count()
FOLDER = object()
CLOSED = object()  # a folder that is root's alone
shared = None  # the engine that tests share, once it runs


def image(*entries):
    """A root of busybox with other things in it: (path, goal of a link | FOLDER | bytes)."""
    names = {name for name, _ in entries}
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(engine.busybox_tar())) as base, tarfile.open(fileobj=out, mode="w") as tar:
        for member in base.getmembers():
            if member.name not in names:
                tar.addfile(member, base.extractfile(member) if member.isfile() else None)
        for name, what in entries:
            info = tarfile.TarInfo(name)
            info.mode = 0o700 if what is CLOSED else 0o755
            info.type = tarfile.DIRTYPE if what in (FOLDER, CLOSED) else tarfile.REGTYPE if isinstance(what, bytes) else tarfile.SYMTYPE
            if isinstance(what, bytes):
                info.size = len(what)
            elif what not in (FOLDER, CLOSED):
                info.linkname = what
            tar.addfile(info, io.BytesIO(what) if isinstance(what, bytes) else None)
    return out.getvalue()


@contextlib.contextmanager
def shared_engine(folder):
    global shared
    with engine.Dockerd(folder) as e:
        e.import_image(engine.busybox_tar())
        e.import_image(engine.curl_tar(), engine.CURL_IMAGE)
        e.import_image(engine.clients_tar(), engine.CLIENTS_IMAGE)
        e.import_image(engine.frame_tar(), engine.FRAME_IMAGE)
        e.import_image(engine.python_tar(), engine.PYTHON_IMAGE)
        services = engine.services_tar()
        e.import_image(services, engine.SERVICES_IMAGE)
        e.import_image(services, engine.CACHE_IMAGE, changes=('ENTRYPOINT ["redis-server", "--port"]', 'CMD ["6379", "--protected-mode", "no"]', "WORKDIR /srv"))
        shared = e
        yield e


podmans = {}  # the same for Podman, by who starts brig


@contextlib.contextmanager
def shared_podmans(folder):
    """Root's service, and a rootless one of the ordinary user."""
    folder.mkdir()
    folder.chmod(0o755)
    with engine.Podman(folder / "r", 0) as root, engine.Podman(folder / "u", engine.ORDINARY) as user:
        for who, e in (("root", root), ("user", user)):
            e.import_image(engine.busybox_tar())
            e.import_image(engine.curl_tar(), engine.CURL_IMAGE)
            podmans[who] = e
        yield


def settle(path=None):
    """Root's command is user 1000 in the container: the workspace becomes that one's."""
    if identity() == "root":
        os.chown(path or workspace(), 1000, 1000)


def options(*more, host=None, image=engine.IMAGE):
    return ("run", "--backend", "docker", "--image", image, *more)


def environment(host=None, env=None):
    return {"DOCKER_HOST": host or shared.host, **(env or {})}


def box(*argv, image=engine.IMAGE, host=None, env=None, settled=True, **more):
    """brig run on the docker backend; the words before "--" are options."""
    if settled:
        settle()
    return brig(*options(image=image), *argv, env=environment(host, env), **more)


def start_box(*argv, image=engine.IMAGE, host=None, env=None, **more):
    settle()
    return start_brig(*options(image=image), *argv, env=environment(host, env), **more)


def sh(script, *opts, **more):
    return box(*opts, "--", "sh", "-c", script, **more)


# What a worker's base has already is not installed: these tests have no network.
TOOLS = tuple((f"bin/{name}", b"#!/bin/sh\n") for name in ("cc", "make", "git", "curl", "python3"))


def base(where, name):
    where.import_image(image(*TOOLS), name)
    return name


def given_to_inside(folder):
    """Root's command is user 1000 in a container."""
    with files_as_root():
        for at, _, files in os.walk(folder):
            for name in (at, *(os.path.join(at, f) for f in files)):
                os.chown(name, 1000, 1000)
    return folder


def called(name, image=engine.PYTHON_IMAGE):
    """One more name for an image of the shared engine's; gives it back."""
    repo, _, tag = name.rpartition(":")
    status, text = shared.ask("POST", f"/images/{image}/tag?repo={repo}&tag={tag}")
    assert status == 201, text
    return name


def ours(where=None):
    return [n for n in (where or shared).containers() if n.startswith("brig-")]


def gone(run_id, where=None):
    """Is all of that run removed? brig does not wait for the engine to forget a container that has ended."""
    return wait_until(lambda: f"brig-{run_id}" not in ours(where), 10, 0.05)


def token():
    """A word that only this test's own commands hold: other tests run beside it on the same engine."""
    return f"{identity()}-{os.getpid()}-{next(_numbers)}"


def container_of(word, where=None, seconds=30, running=False):
    """The name of the container whose command holds the word."""
    def look():
        status, found = (where or shared).ask("GET", "/containers/json?all=1")
        return status == 200 and [c["Names"][0].lstrip("/") for c in found
                                  if word in c["Command"] and (not running or c["State"] == "running")]
    found = wait_until(look, seconds, 0.02)
    assert found, "no container appeared"
    return found[0]
