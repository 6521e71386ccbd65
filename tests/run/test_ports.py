#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Published ports: a server inside that the host can see."""

import pathlib
import shutil
import socket
import subprocess
import sys
import threading
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import record  # noqa: E402
from harness import PATIENCE, brig, main, skip, start_brig, state, test, wait_until, workspace  # noqa: E402
from ports import ECHO, received, served  # noqa: E402

NODE = r"""
const http = require('http'), crypto = require('crypto');
const server = http.createServer((q, a) => { a.writeHead(200, {'Content-Type': 'text/plain'}); a.end('page ' + q.url); });
server.on('upgrade', (q, s) => {
  const key = crypto.createHash('sha1').update(q.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64');
  s.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ' + key + '\r\n\r\n');
  s.on('data', d => s.write(Buffer.concat([Buffer.from('seen:'), d])));
});
server.listen(8000, '127.0.0.1', () => console.log('ready'));
"""


def get(port, path="/", host="127.0.0.1"):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{host}:{port}{path}", timeout=15 * PATIENCE) as answer:
        return answer.read().decode()


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        return False
    return True


@test(backends=("native", "bwrap"))
def pythons_server_is_seen_from_the_host():
    (workspace() / "index.html").write_text("hello from inside\n")
    for network in ("none", "proxy"):
        with served(None, "--network", network, command=("python3", "-um", "http.server", "8000")) as s:
            assert wait_until(lambda: _works(s.port), 15)
            assert get(s.port) == "hello from inside\n" and get(s.port, host="localhost") == "hello from inside\n"
            assert get(s.port, host="[::1]") == "hello from inside\n"
        assert not listens(s.port), "it is still there after the run"


def _works(port):
    try:
        return bool(get(port))
    except OSError:
        return False


@test
def a_node_server_and_its_websocket_are_seen_from_the_host():
    if not shutil.which("node"):
        skip("node is not installed")
    (workspace() / "server.js").write_text(NODE)
    with served(None, command=("node", "server.js")) as s:
        s.wait_for("ready")
        assert get(s.port, "/a?b") == "page /a?b"
        with s.dial() as c:
            c.sendall(b"GET /live HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                      b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
            head = b""
            while b"\r\n\r\n" not in head:
                head += c.recv(4096)
            assert b" 101 " in head and b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head, head
            frame = bytes([0x82, 0x05]) + b"\x00\xff\x01\xfe\x02"  # no text, and nobody's to read
            c.sendall(frame)
            got = b""
            while len(got) < len(frame) + 5:
                got += c.recv(4096)
            assert got == b"seen:" + frame, got


@test
def a_server_on_ipv6_or_on_the_doors_address_is_found_too():
    for options, family, address in (((), "socket.AF_INET6", "::1"), (("--network", "proxy"), "socket.AF_INET", "198.19.255.254")):
        with served(ECHO, *options, family=family, address=address) as s, s.dial() as c:
            c.sendall(b"x" * 100)
            c.shutdown(socket.SHUT_WR)
            assert received(c) == b"x" * 100


@test
def the_result_says_where_ports_were():
    done = brig("run", "--json", "-p", "8000", "-p", "8001", "--", "true")
    ports = done.json["ports"]
    assert [p["port"] for p in ports] == [8000, 8001] and all(p["address"] == f"127.0.0.1:{p['host_port']}" for p in ports), ports
    assert len({p["host_port"] for p in ports}) == 2 and all(p["protocol"] == "tcp" for p in ports)
    for p in ports:
        assert f"port {p['port']} of the sandbox is {p['address']} on this host" in done.errors
    assert brig("run", "--json", "--", "true").json["ports"] == []


@test
def what_a_server_said_last_arrives_though_it_has_ended():
    code = """
def serve(s):
    s.recv(10)
    s.sendall(b'a' * 200000)
    s.shutdown(socket.SHUT_WR)
    os._exit(0)
"""
    with served(code) as s, s.dial() as c:
        c.sendall(b"go")
        assert received(c) == b"a" * 200000
        assert s.process.wait(15 * PATIENCE) == 0


@test
def bytes_pass_in_both_directions_and_each_ends_by_itself():
    with served() as s:
        data = bytes(range(256)) * 8192
        with s.dial() as c:
            c.settimeout(30 * PATIENCE)
            sender = threading.Thread(target=lambda: (c.sendall(data), c.shutdown(socket.SHUT_WR)))
            sender.start()
            assert received(c) == data
            sender.join()


@test
def a_port_is_the_same_on_the_host_where_it_is_free():
    """Of one that is the system's to give no other program takes it meanwhile; a second run gets another one."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        assert [p["host_port"] for p in brig("run", "--json", "-p", str(port), "--", "true").json["ports"]] != [port], "taken"
    p = start_brig("run", "-p", str(port), "--", "cat", stdin=subprocess.PIPE)
    assert f"is 127.0.0.1:{port} on this host" in p.stderr.readline().decode()
    r = brig("run", "--json", "-p", str(port), "--", "true").json
    assert r["exit_code"] == 0 and r["ports"][0]["host_port"] not in (0, port), r["ports"]
    p.communicate(timeout=15 * PATIENCE)
    limits = [r.get("timeout_ms") for r in record.verified(record.folder(state())) if r["type"] == "sandbox.create"]
    assert limits == [None] * 3, "who publishes a port has all the time"


@test
def a_port_that_is_taken_is_refused_before_anything_runs():
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1")):
        with socket.socket(family) as other:
            other.bind((address, 0))
            other.listen()
            port = other.getsockname()[1]
            done = brig("run", "-p", f"{port}:8000", "--", "touch", "ran")
            assert done.status == 125 and f"port {port} of the host is in use" in done.errors, done.errors
            assert "hint: choose another one" in done.errors and not (workspace() / "ran").exists()
    with served() as s:
        done = brig("run", "-p", f"{s.port}:8000", "--", "true")
        assert done.status == 125 and "is in use" in done.errors
    assert brig("run", "-p", f"{s.port}:8000", "--", "true").status == 0, "a port is free again at once"


@test(as_user="user")
def a_port_of_roots_is_refused_with_the_way_out():
    done = brig("run", "-p", "1017:8000", "--", "true")
    assert done.status == 125 and "port 1017 of the host is root's" in done.errors and "--publish 8080:80" in done.errors, done.errors


@test
def what_cannot_be_published_is_refused_by_name():
    for words, said in ((("-p", "53:53/udp"), "port 53/udp cannot be published"), (("-p", "53/sctp"), "port 53/sctp cannot be published"),
                        (("-p", "0.0.0.0:80:80"), "names an address"), (("-p", "[::]:80:80"), "names an address"),
                        (("-p", "70000"), "is not [HOST_PORT:]PORT"), (("-p", "0:80"), "is not [HOST_PORT:]PORT"),
                        (("-p", "24180:1", "-p", "24180:2"), "two ports"), (("-p", "80", "--network", "host"), "network 'host'"),
                        (tuple(w for i in range(17) for w in ("-p", str(1000 + i))), "more than 16"),
                        (("-p", "80", "--backend", "none", "--i-know-this-is-not-a-sandbox"), "cannot honour --publish")):
        done = brig("run", *words, "--", "touch", "ran")
        assert done.status == 125 and said in done.errors, (words, done.errors)
        assert not (workspace() / "ran").exists()


@test
def a_project_file_needs_trust_for_ports():
    (workspace() / ".brig.yaml").write_text("brig: 1\nports: ['8000']\n")
    done = brig("run", "--", "true")
    assert done.status == 125 and "ports" in done.errors and "brig allow" in done.errors, done.errors
    assert brig("allow", ".brig.yaml").status == 0
    done = brig("run", "--json", "--", "true")
    assert done.json["ports"][0]["port"] == 8000, done.errors


if __name__ == "__main__":
    sys.exit(main())
