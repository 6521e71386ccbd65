#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""network bridge: the internet and nothing nearer, where brig may set rules; a refusal where it may not.

Engine, brig and the world around them stand in a network namespace of the test's own. A second one is a machine in the
LAN at 10.77.0.2, with an address of the public internet behind it."""

import contextlib
import ctypes
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import common  # noqa: E402
from common import engine  # noqa: E402
from common import box, settle  # noqa: E402
from harness import brig, brig_environment, brig_path, main, scratch, test, wait_until  # noqa: E402

PUBLIC = "1.2.3.4"
LAN = "10.77.0.2"
METADATA = "169.254.169.254"
PORT = 7777
CLONE_NEWNET = 0x40000000


def ip(*words, ns=None):
    enter = ["nsenter", f"--net=/proc/{ns}/ns/net"] if ns else []
    subprocess.run([*enter, "ip", *words], check=True, capture_output=True)


@contextlib.contextmanager
def world():
    """Leaves the host's network for one with a neighbour in it."""
    assert ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) == 0
    ip("link", "set", "lo", "up")
    server = "from http.server import *; HTTPServer(('', %d), SimpleHTTPRequestHandler).serve_forever()" % PORT
    empty = scratch() / "empty"
    empty.mkdir()
    other = subprocess.Popen(["unshare", "--net", "sh", "-c", "read go; exec /usr/bin/python3 -c \"$0\"", server], stdin=subprocess.PIPE,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=empty)
    here = os.stat("/proc/self/ns/net").st_ino
    assert wait_until(lambda: os.stat(f"/proc/{other.pid}/ns/net").st_ino != here, 5)
    try:
        ip("link", "add", "lan0", "type", "veth", "peer", "name", "eth0", "netns", str(other.pid))
        ip("addr", "add", "10.77.0.1/24", "dev", "lan0")
        ip("link", "set", "lan0", "up")
        for words in (("addr", "add", f"{LAN}/24", "dev", "eth0"), ("link", "set", "eth0", "up"), ("link", "set", "lo", "up"),
                      ("addr", "add", f"{PUBLIC}/32", "dev", "lo"), ("addr", "add", f"{METADATA}/32", "dev", "lo"),
                      ("route", "add", "default", "via", "10.77.0.1")):
            ip(*words, ns=other.pid)
        ip("route", "add", PUBLIC, "via", LAN)
        ip("route", "add", METADATA, "via", LAN)
        pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        other.stdin.write(b"go\n")
        other.stdin.flush()
        yield
    finally:
        other.kill()
        other.wait()


def listener():
    """A service of the host itself."""
    s = socket.create_server(("", PORT))

    def serve():
        with contextlib.suppress(OSError):
            while True:
                c, _ = s.accept()
                c.sendall(b"HTTP/1.0 200 OK\r\n\r\nhost")
                c.close()

    threading.Thread(target=serve, daemon=True).start()
    return s


REACH = ("gate=$(ip route | sed -n 's/^default via \\([0-9.]*\\).*/\\1/p'); "
         "for a in %s %s %s 10.77.0.1 $gate; do printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 3 $a %d 2>/dev/null | grep -q HTTP && echo $a open || echo $a closed; done"
         % (PUBLIC, LAN, METADATA, PORT))


def reach(*options, host, user=None):
    done = box("--network", "bridge", "--json", *options, "--", "sh", "-c", REACH, host=host, timeout=60)
    assert done.status == 0, done.errors
    lines = [line.split() for line in done.json["stdout"].splitlines()]
    assert len(lines) == 5, (lines, done.json["stderr"])
    return [state for _, state in lines], done


@test(as_user="root", alone=True, limit=120)
def a_bridge_reaches_the_internet_and_nothing_nearer():
    with world(), engine.Dockerd(scratch() / "d", networks=True) as e:
        e.import_image(engine.busybox_tar())
        s = listener()
        states, done = reach(host=e.host)
        assert states == ["open", "closed", "closed", "closed", "closed"], states
        assert wait_until(lambda: not e.networks(), 10, 0.05), e.networks()
        assert wait_until(lambda: b"brig" not in subprocess.run(["nft", "list", "tables"], capture_output=True, check=True).stdout, 10, 0.05)
        # Without brig's rules the same is open: the control of the test above.
        assert e.ask("POST", "/networks/create", {"Name": "free", "Driver": "bridge"})[0] == 201
        _, made = e.ask("POST", "/containers/create", {"Image": engine.IMAGE, "Cmd": ["sh", "-c", REACH], "Tty": True,
                                                       "HostConfig": {"NetworkMode": "free"}})
        assert e.ask("POST", f"/containers/{made['Id']}/start")[0] == 204 and e.ask("POST", f"/containers/{made['Id']}/wait")[0] == 200
        _, text = e.ask("GET", f"/containers/{made['Id']}/logs?stdout=1")
        assert [line.split()[1] for line in text.splitlines()] == ["open"] * 5, text
        # Whoever may not set them gets no bridge at all.
        argv = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--reuid=4242", "--regid=4242", "--clear-groups", "--"]
        free, work = scratch() / "free", scratch() / "work"
        for path in (free, work):
            path.mkdir()
            os.chown(path, 4242, 4242)
        env = brig_environment({"DOCKER_HOST": e.host, "XDG_STATE_HOME": str(free), "HOME": str(free), "XDG_RUNTIME_DIR": str(free)})
        p = subprocess.run([*argv, brig_path(), *common.options(), "--network", "bridge", "--json", "--", "touch", "ran"],
                           env=env, cwd=work, capture_output=True, check=False, stdin=subprocess.DEVNULL)
        r = json.loads(p.stdout)
        assert r["outcome"] == "refused" and "metadata addresses open" in r["error"]["what"] and "proxy" in r["error"]["hint"], r
        assert not list(work.iterdir()) and wait_until(lambda: e.networks() == {"free"}, 10, 0.05), e.networks()
        s.close()


@test
def other_backends_have_no_bridge_and_host_is_said_aloud():
    done = brig("run", "--backend", "native", "--network", "bridge", "--", "true")
    assert done.status == 125 and "no network 'bridge'" in done.errors, done.errors


if __name__ == "__main__":
    sys.exit(main())
