#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""network bridge on engines: the internet and nothing nearer, for root and for an ordinary user, without a packet filter; a refusal where it cannot be closed.

Engine, brig and the world around them are in a network namespace of the test's own (tests/lib/neighbours.py)."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import common  # noqa: E402
from common import engine  # noqa: E402
import neighbours  # noqa: E402
from neighbours import ATTACK, FRIEND, NEAR, NEAR6, PORT, PUBLIC, tried  # noqa: E402
from harness import brig, brig_environment, brig_path, main, scratch, test, wait_until  # noqa: E402

OPEN = {"tcp", "udp", "device", "index", "udp-device", "pktinfo", "mapped"}  # ways to a public address; not ICMP, not source routes


class Box:
    """brig on an engine of the world, as root or as an ordinary user."""

    def __init__(self, e, uid=0):
        self.engine, self.uid = e, uid
        self.work, self.home = scratch() / f"work{uid}", scratch() / f"home{uid}"
        for path in (self.work, self.home):
            path.mkdir()
            os.chown(path, uid or 1000, uid or 1000)
        if not uid:
            os.chown(self.home, 0, 0)
        self.env = brig_environment({"DOCKER_HOST": e.host, "HOME": str(self.home), "XDG_STATE_HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.home)})

    def start(self, *words, before=(), **more):
        argv = [*before, *engine._as(self.uid), brig_path(), *common.options("--network", "bridge", "--timeout", "100s", image=engine.PYTHON_IMAGE), *words]
        return subprocess.Popen(argv, cwd=self.work, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    def run(self, *words, **more):
        p = self.start(*words, **more)
        out, errors = p.communicate()
        return p.returncode, out, errors

    def python(self, *words):
        status, out, errors = self.run("--", "python3", "-c", *words)
        assert status == 0, errors
        return out


def attack(box, world):
    """All that is near is closed in every way, the internet is open, and names are answered; the other side saw the same."""
    world.clear()
    found = tried(box.python(ATTACK, str(PORT), PUBLIC, *NEAR, *NEAR6, "public.test", "near.test"))
    ways = set(found.pop(PUBLIC))
    # near.test exists, and its address is kept back.
    assert ways == OPEN and found == {"public.test": PUBLIC, "near.test": False}, (ways, found)
    assert set(world.seen()) == {"dns public.test", "dns near.test", f"tcp {PUBLIC}", f"udp {PUBLIC}"}, world.seen()


def no_trace(e):
    assert wait_until(lambda: not e.networks() and not e.containers(), 20, 0.05), (e.networks(), e.containers())


def control(e, world):
    """On a network of the engine's own the same attack reaches host, LAN and metadata service."""
    assert e.ask("POST", "/networks/create", {"Name": "free", "Driver": "bridge"})[0] == 201
    _, made = e.ask("POST", "/containers/create", {"Image": engine.PYTHON_IMAGE, "Cmd": ["python3", "-c", ATTACK, str(PORT), *NEAR], "Tty": True,
                                                   "HostConfig": {"NetworkMode": "free"}})
    assert e.ask("POST", f"/containers/{made['Id']}/start")[0] == 204 and e.ask("POST", f"/containers/{made['Id']}/wait")[0] == 200
    _, text = e.ask("GET", f"/containers/{made['Id']}/logs?stdout=1")
    found = tried(text if isinstance(text, str) else json.dumps(text))
    near = {neighbours.HOST, neighbours.OWN, neighbours.LAN, neighbours.METADATA, neighbours.AZURE, *neighbours.MORE}
    assert set(found) >= near and all({"tcp", "udp", "device", "pktinfo"} <= set(found[a]) for a in near), found
    assert {f"tcp {neighbours.LAN}", f"tcp {neighbours.HOST}", f"tcp {neighbours.METADATA}"} <= set(world.seen())
    e.ask("DELETE", f"/containers/{made['Id']}?force=1")
    assert e.ask("DELETE", "/networks/free")[0] == 204


def watch(box, address, *words):
    for name in ("state", "end"):
        (box.work / name).unlink(missing_ok=True)
    p = box.start("--json", *words, "--", "python3", "-c", neighbours.WATCH, address, str(PORT))
    assert wait_until(lambda: state(box) == "open" or p.poll() is not None, 60, 0.02) and p.poll() is None, p.communicate()
    return p


def state(box):
    path = box.work / "state"
    return path.read_text() if path.exists() else None


def finish(box, p):
    (box.work / "end").write_text("")
    os.chown(box.work / "end", box.uid or 1000, box.uid or 1000)
    out, errors = p.communicate()
    return json.loads(out), errors


def what_comes_later_is_closed(box):
    """A route, then an address, of the host's own, while the command runs; the internet stays open."""
    p = watch(box, FRIEND)
    neighbours.add_route(FRIEND)
    assert wait_until(lambda: state(box) == "closed", 20, 0.02), finish(box, p)
    result, errors = finish(box, p)
    assert result["outcome"] == "exited" and "cut" not in errors, (result, errors)
    assert tried(box.python(ATTACK, str(PORT), FRIEND)) == {}  # and for the next run


def a_lost_router_closes_all(box, e):
    p = watch(box, PUBLIC)
    (helper,) = [n for n in e.containers() if n.endswith("-door")]
    assert e.ask("POST", f"/containers/{helper}/kill")[0] == 204
    told = p.stderr.readline()  # while it runs
    assert "network bridge was cut" in told and wait_until(lambda: state(box) == "closed", 20, 0.02), (told, finish(box, p))
    result, _ = finish(box, p)
    assert [d for d in result["denials"] if d["kind"] == "network" and d["target"] == "network.closed"], result


def a_router_that_hangs_is_cut(box, e):
    """What it was to close cannot be: so nothing passes any more."""
    p = watch(box, PUBLIC)
    (helper,) = [n for n in e.containers() if n.endswith("-door")]
    assert e.ask("POST", f"/containers/{helper}/pause")[0] == 204
    neighbours.add_address("8.8.4.4")
    told = p.stderr.readline()
    assert "does not answer" in told and wait_until(lambda: state(box) == "closed", 30, 0.02), (told, finish(box, p))
    result, _ = finish(box, p)
    assert [d for d in result["denials"] if d["target"] == "network.closed"], result


def a_killed_guard_leaves_no_way_out(box, e):
    """Nobody follows the routes any more: the helper cuts the cable by itself. The next brig removes what there is."""
    p = watch(box, PUBLIC)
    here = os.stat("/proc/self/ns/net").st_ino
    guards = [pid for pid in filter(str.isdigit, os.listdir("/proc")) if is_guard(pid, here)]
    assert len(guards) == 1, guards
    os.kill(int(guards[0]), signal.SIGKILL)
    assert wait_until(lambda: state(box) == "closed" or p.poll() is not None, 20, 0.02)
    p.communicate()
    assert state(box) == "closed" or not e.containers()


def is_guard(pid, network):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "brig-guard" and os.stat(f"/proc/{pid}/ns/net").st_ino == network
    return False


def sandboxes_do_not_meet(box):
    serve = ("import os, socket, time\ns = socket.create_server(('', %d))\nu = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.connect(('1.2.3.4', 1))\n"
             "open('state', 'w').write(u.getsockname()[0])\nwhile not os.path.exists('end'): time.sleep(0.05)\n" % PORT)
    (box.work / "state").unlink(missing_ok=True)
    (box.work / "end").unlink(missing_ok=True)
    p = box.start("--json", "--", "python3", "-c", serve)
    assert wait_until(lambda: state(box) or p.poll() is not None, 60, 0.02) and p.poll() is None, p.communicate()
    address = state(box)
    assert tried(box.python(ATTACK, str(PORT), address)) == {}
    finish(box, p)


@test(as_user="root", alone=True, limit=240)
def a_bridge_on_docker_reaches_the_internet_and_nothing_nearer():
    with neighbours.world(scratch()) as w, engine.Dockerd(scratch() / "d", networks=True) as e:
        e.import_image(engine.python_tar(), engine.PYTHON_IMAGE)
        for uid in (0, engine.ORDINARY):
            box = Box(e, uid)
            attack(box, w)
        control(e, w)
        what_comes_later_is_closed(box)
        a_lost_router_closes_all(box, e)
        a_router_that_hangs_is_cut(box, e)
        a_killed_guard_leaves_no_way_out(box, e)
        sandboxes_do_not_meet(box)
        # Whose routes are not those behind the cable cannot close anything.
        status, _, errors = box.run("--", "touch", "ran", before=("unshare", "--net"))
        assert status == 125 and "another namespace" in errors and "proxy" in errors, errors
        assert not (box.work / "ran").exists()
        no_trace(e)


@test(as_user="root", alone=True, limit=240)
def a_bridge_on_podman_reaches_the_internet_and_nothing_nearer():
    with neighbours.world(scratch()) as w:
        for uid in (0, engine.ORDINARY):
            # Its paths must be short, and /tmp is this test's own.
            with contextlib.ExitStack() as end:
                end.callback(shutil.rmtree, f"/tmp/p{uid}")
                e = end.enter_context(engine.Podman(pathlib.Path(f"/tmp/p{uid}"), uid))
                e.import_image(engine.python_tar(), engine.PYTHON_IMAGE)
                box = Box(e, uid)
                attack(box, w)
                if uid:
                    what_comes_later_is_closed(box)
                no_trace(e)


@test
def other_backends_have_no_bridge_and_host_is_said_aloud():
    done = brig("run", "--backend", "bwrap", "--network", "bridge", "--", "true")
    assert done.status == 125 and "no network 'bridge'" in done.errors, done.errors


if __name__ == "__main__":
    sys.exit(main())
