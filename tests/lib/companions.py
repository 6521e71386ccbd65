# SPDX-License-Identifier: Apache-2.0
"""Companions for a test: one that does as it is told, and what is seen of them from outside."""

import json

from harness import wait_until, workspace

# Does what is sent to it, one program a connection, and answers with what that leaves in `out`.
PUPPET = r"""
import json, socket, threading
def serve(c):
    f, g = c.makefile("rw"), {}
    try:
        exec(json.loads(f.readline()), g)
        out = g.get("out")
    except BaseException as e:
        out = repr(e)
    f.write(json.dumps(out) + "\n"); f.flush(); c.close()
s = socket.create_server(("", 8080))
while True:
    threading.Thread(target=serve, args=(s.accept()[0],)).start()
"""

ASK = r"""
import json, socket, sys
f = socket.create_connection((sys.argv[1], 8080), 10).makefile("rw")
f.write(json.dumps(sys.argv[2]) + "\n"); f.flush()
print(f.readline())
"""

PORT = 4280

# Every way to an address without a capability: plainly, by device, by the packet's own word; TCP and UDP.
REACH = r"""
import concurrent.futures, itertools, socket, struct
index = {name: i for i, name in socket.if_nameindex()}
def attempt(address, kind, way):
    six = ":" in address
    with socket.socket(socket.AF_INET6 if six else socket.AF_INET, kind) as s:
        s.settimeout(0.5)
        if way == "device":
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"brig0")
        if way == "index":
            s.setsockopt(socket.SOL_SOCKET, 62, index["brig0"])
        if way != "packet":
            s.connect((address, PORT))
            s.send(b"x")
        elif six:
            s.sendmsg([b"x"], [(socket.IPPROTO_IPV6, 50, b"\0" * 16 + struct.pack("@I", index["brig0"]))], 0, (address, PORT))
        else:
            s.sendmsg([b"x"], [(socket.IPPROTO_IP, 8, struct.pack("@I8s", index["brig0"], b"\0" * 8))], 0, (address, PORT))
        return kind == socket.SOCK_STREAM or bool(s.recv(8))
def tried(one):
    try:
        return attempt(*one)
    except OSError:
        return False
ways = ("plain", "device", "index", "packet") if "brig0" in index else ("plain",)
tries = [t for t in itertools.product(ADDRESSES, (socket.SOCK_STREAM, socket.SOCK_DGRAM), ways) if t[1:] != (socket.SOCK_STREAM, "packet")]
with concurrent.futures.ThreadPoolExecutor(64) as pool:
    out = [t for t, came in zip(tries, pool.map(tried, tries)) if came]
"""

# What the resolver of resolv.conf says of names: [code, address], by UDP and by TCP, for A and for AAAA.
RESOLVE = r"""
import socket, struct
server = next(line.split()[1] for line in open("/etc/resolv.conf") if line.startswith("nameserver"))
def message(name, kind):
    labels = b"".join(bytes([len(l)]) + l.encode() for l in name.split("."))
    return struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)
def by_packet(m):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.sendto(m, (server, 53))
        return s.recv(4096)
def by_stream(m):
    with socket.create_connection((server, 53), 5) as s:
        s.sendall(struct.pack(">H", len(m)) + m)
        f = s.makefile("rb")
        return f.read(struct.unpack(">H", f.read(2))[0])
def said(a):
    return [a[3] & 15, socket.inet_ntoa(a[-4:]) if a[7] else None]
out = {name: [said(how(message(name, kind))) for kind in (1, 28) for how in HOWS] for name in NAMES}
"""

LISTENS = ["CMD", "python3", "-c", "import socket; socket.create_connection(('localhost', 8080), 1)"]


def puppet(**more):
    return {"command": ["python3", "-c", PUPPET], "healthcheck": {"test": LISTENS, "interval": "50ms", "retries": 400}, **more}


def spec(companions, **more):
    return {"workspace": {"path": str(workspace())}, "companions": companions, **more}


def ask(d, box, name, code):
    """What the companion answers, asked from inside the sandbox, once it listens."""
    done = {}

    def answered():
        done.update(d.exec(box, "python3", "-c", ASK, name, code))
        return "ConnectionRefusedError" not in done["stderr"]
    assert wait_until(answered, 10, 0.1) and done["exit_code"] == 0, done
    return json.loads(done["stdout"])


def events(d, box):
    return [e for _, e, _ in d.stream("GET", f"/v1/events?since=0&follow=false&sandbox={box}")]


def resolve(names, hows=("by_packet", "by_stream")):
    return RESOLVE.replace("NAMES", repr(list(names))).replace("HOWS", f"({', '.join(hows)},)")


def reach(addresses, port=PORT):
    return REACH.replace("ADDRESSES", repr(list(addresses))).replace("PORT", str(port))


def here(code):
    """The same program on the host: what it reaches there."""
    names = {}
    exec(code, names)
    return names["out"]
