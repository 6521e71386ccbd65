#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""network bridge on native: the internet and nothing nearer, by slirp4netns for root and by pasta for an ordinary user.

The same attack as on engines (tests/docker/test_network.py), in a world of the test's own (tests/lib/neighbours.py)."""

import json
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import neighbours  # noqa: E402
from neighbours import ATTACK, FRIEND, NEAR, NEAR6, PORT, PUBLIC, tried  # noqa: E402
from harness import brig, descendants, identity, main, scratch, start_brig, test, uid, wait_until, workspace  # noqa: E402

OPEN = {"tcp", "udp", "device", "index", "udp-device", "pktinfo", "mapped"}  # not ICMP, not source routes
OF_THE_CABLE = ("10.0.2.1", "10.0.2.2", "10.0.2.3", "198.19.255.253")  # slirp4netns has the host's loopback and resolver there
PROGRAMS = ("/usr/bin/pasta", "/usr/bin/slirp4netns")


def run(*words, network="bridge", **more):
    return brig("run", "--backend", "native", "--network", network, *words, timeout=60, **more)


def attack(*targets, network="bridge"):
    done = run("--", "/usr/bin/python3", "-c", ATTACK, str(PORT), *targets, network=network)
    assert done.status == 0, done.errors
    return tried(done.stdout.decode())


def carriers():
    """Processes in this world's network that carry a cable."""
    here, found = os.stat("/proc/self/ns/net").st_ino, []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() in ("pasta", "pasta.avx2", "passt.avx2", "slirp4netns") and os.stat(f"/proc/{pid}/ns/net").st_ino == here:
                found.append(int(pid))
        except OSError:
            pass
    return found


def left():
    return [name for name in descendants().values() if name.startswith("brig")]


def hide(world, path):
    """Nobody can execute what is there any more."""
    plain = world.folder / "plain"
    plain.write_text("")
    plain.chmod(0o644)
    world._show(plain, path)


@test(by_root=True, alone=True, limit=150)
def a_bridge_reaches_the_internet_and_nothing_nearer():
    with neighbours.world(scratch()) as w:
        near = {neighbours.HOST, neighbours.OWN, neighbours.LAN, neighbours.METADATA, neighbours.AZURE, *neighbours.MORE}
        found = attack(*NEAR, network="host")  # the control: without a router all of it is open
        assert set(found) >= near | {"127.0.0.1"} and f"tcp {neighbours.METADATA}" in w.seen(), found
        w.clear()
        found = attack(PUBLIC, *NEAR, *NEAR6, *OF_THE_CABLE, "public.test", "near.test")
        ways = set(found.pop(PUBLIC))
        # near.test exists, and its address is kept back.
        assert ways == OPEN and found == {"public.test": PUBLIC, "near.test": False}, (ways, found)
        assert set(w.seen()) == {"dns public.test", "dns near.test", f"tcp {PUBLIC}", f"udp {PUBLIC}"}, w.seen()
        assert not carriers()


@test(by_root=True, alone=True)
def what_cannot_be_had_is_refused_by_name():
    with neighbours.world(scratch()) as w:
        if identity() != "root":
            os.chmod(w.folder / "tun", 0o600)
            done = run("--", "touch", "ran")
            assert done.status == 125 and "/dev/net/tun" in done.errors and "hint: " in done.errors, done.errors
            os.chmod(w.folder / "tun", 0o666)
        subprocess.run(["ip", "route", "del", "default"], check=True)
        if identity() != "root":  # pasta takes its ways from the default route
            done = run("--", "touch", "ran")
            assert done.status == 125 and "made no cable" in done.errors and "default route" in done.errors, done.errors
        for path in PROGRAMS:
            hide(w, path)
        done = run("--", "touch", "ran")
        assert done.status == 125 and "which is not installed" in done.errors and "apt install" in done.errors, done.errors
        assert not (workspace() / "ran").exists() and not carriers()
        assert run("--", "true", network="none").status == 0


def state():
    path = workspace() / "state"
    return path.read_text() if path.exists() else None


def watch(address):
    for name in ("state", "end"):
        (workspace() / name).unlink(missing_ok=True)
    p = start_brig("run", "--backend", "native", "--network", "bridge", "--json", "--timeout", "60s", "--", "/usr/bin/python3", "-c", neighbours.WATCH, address, str(PORT))
    assert wait_until(lambda: state() == "open" or p.poll() is not None, 30, 0.02) and p.poll() is None, p.communicate()
    return p


def finish(p):
    (workspace() / "end").write_text("")
    os.chown(workspace() / "end", uid(), uid())
    out, errors = p.communicate()
    return json.loads(out), errors.decode()


def denied(result):
    return [d for d in result["denials"] if d["kind"] == "network" and d["target"] == "network.closed"]


@test(by_root=True, alone=True, limit=120)
def what_the_host_gets_near_to_is_closed_at_once():
    """A route, and an address, while the command runs; the internet stays open, and nothing is cut."""
    with neighbours.world(scratch()):
        for address, come_near in ((FRIEND, neighbours.add_route), (PUBLIC, neighbours.add_address)):
            p = watch(address)
            come_near(address)
            assert wait_until(lambda: state() == "closed", 20, 0.02), finish(p)
            result, errors = finish(p)
            assert result["outcome"] == "exited" and not denied(result) and "cut" not in errors, (result, errors)
        assert attack(FRIEND, PUBLIC) == {}


@test(by_root=True, alone=True, limit=120)
def a_lost_cable_is_told_and_nothing_is_left():
    with neighbours.world(scratch()):
        p = watch(PUBLIC)
        (carrier,) = carriers()
        os.kill(carrier, signal.SIGKILL)
        told = p.stderr.readline().decode()  # while it runs
        assert "network bridge was cut" in told and wait_until(lambda: state() == "closed", 20, 0.02), (told, finish(p))
        result, _ = finish(p)
        assert denied(result), result
        # A killed brig takes all of it along.
        p = watch(PUBLIC)
        p.kill()
        p.communicate()
        assert wait_until(lambda: not carriers() and not left(), 20, 0.05), (carriers(), left())
        assert run("--", "true", network="none").status == 0  # which tidies up after a killed one


# What no client would send, many times over; then an honest question.
QUESTIONS = r"""
import os, socket, struct
to = ("198.19.255.253", 53)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def ask(name, kind=1, flags=0x100, count=1, tail=b""):
    labels = b"".join(bytes([len(l)]) + l for l in name.split(b".")) + b"\0"
    return struct.pack(">HHHHHH", 7, flags, count, 0, 0, 0) + labels + struct.pack(">HH", kind, 1) + tail
hostile = [os.urandom(n) for n in range(0, 600, 7)]
hostile += [ask(b"update.test", flags=0x2900), ask(b"notify.test", flags=0x2100), ask(b"two.test", count=2), ask(b"x" * 63 + b".test", tail=b"y" * 900),
            ask(b"axfr.test", kind=252), ask(b"any.test", kind=255), ask(b"txt.test", kind=16), ask(b"a b.test"), ask(b"\xff.test"), ask(b"localhost"),
            struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1"]
for _ in range(20):
    for packet in hostile:
        s.sendto(packet, to)
print(socket.gethostbyname("public.test"))
"""


@test(by_root=True, alone=True)
def hostile_questions_reach_no_resolver_and_stop_nobody():
    with neighbours.world(scratch()) as w:
        done = run("--", "/usr/bin/python3", "-c", QUESTIONS)
        assert done.status == 0 and done.stdout == f"{PUBLIC}\n".encode(), done.errors
        # What is well formed is asked for, written anew, without what followed it.
        assert set(w.seen()) == {"dns public.test", f"dns {'x' * 63}.test"}, set(w.seen())


@test(by_root=True, alone=True)
def two_sandboxes_do_not_meet():
    serve = ("import os, socket, time\ns = socket.create_server(('', %d))\nu = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.connect(('1.2.3.4', 1))\n"
             "open('state', 'w').write(u.getsockname()[0])\nwhile not os.path.exists('end'): time.sleep(0.05)\n" % PORT)
    with neighbours.world(scratch()):
        for name in ("state", "end"):
            (workspace() / name).unlink(missing_ok=True)
        p = start_brig("run", "--backend", "native", "--network", "bridge", "--json", "--timeout", "60s", "--", "/usr/bin/python3", "-c", serve)
        assert wait_until(lambda: state() or p.poll() is not None, 30, 0.02) and p.poll() is None, p.communicate()
        assert attack(state()) == {}  # every sandbox has that address, and is alone with it
        finish(p)
        done = run("--", "/usr/bin/python3", "-c", f"import socket; s = socket.create_server(('', {PORT})); socket.create_connection(('{state()}', {PORT}), 5)")
        assert done.status == 0, done.errors  # the control: it can be connected to where somebody listens


if __name__ == "__main__":
    sys.exit(main())
