# SPDX-License-Identifier: Apache-2.0
"""A world for network bridge: the test's own network namespace is the host, a second one the machine next to it in the LAN.

Behind that machine are an address of the public internet, the metadata service and more; it answers TCP and UDP on every
address it has, and questions for names. What it was asked for is written down: that is what the host side saw."""

import contextlib
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import time

PUBLIC = "1.2.3.4"
FRIEND = "5.6.7.8"  # public too, until the host gets a route to it
LAN = "10.77.0.2"
HOST = "10.77.0.1"
OWN = "7.7.7.7"  # a public address of the host itself
METADATA = "169.254.169.254"
AZURE = "168.63.129.16"
PORT = 7777
MORE = ("100.100.100.200", "192.0.0.170", "192.88.99.1", "198.18.5.5", "240.1.2.3", "172.16.9.9", "192.168.9.9")
CLONE_NEWNET = 0x40000000

# Says again and again, in the file "state", whether it can be reached, until there is a file "end". Told "ADDRESS PORT".
WATCH = """
import os, socket, sys, time
while not os.path.exists("end"):
    s = socket.socket(); s.settimeout(1)
    try: s.connect((sys.argv[1], int(sys.argv[2]))); word = "open"
    except OSError: word = "closed"
    s.close(); open("state.new", "w").write(word); os.rename("state.new", "state"); time.sleep(0.02)
"""

# Answers whoever comes, and writes down where they came. Told "PORT LOG [ADDRESS]".
SERVER = r"""
import selectors, socket, struct, sys
port, log = int(sys.argv[1]), open(sys.argv[2], "a", buffering=1)
address = sys.argv[3] if len(sys.argv) > 3 else ""
s = selectors.DefaultSelector()
def tcp(family, host):
    t = socket.socket(family, socket.SOCK_STREAM)
    t.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        t.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    t.bind((host, port)); t.listen(64); s.register(t, 1, "tcp")
def udp(p):
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    u.setsockopt(socket.IPPROTO_IP, 8, 1)  # IP_PKTINFO
    u.bind((address, p)); s.register(u, 1, "dns" if p == 53 else "udp")
def name(q):
    at, out = 12, []
    while q[at]:
        out.append(q[at + 1:at + 1 + q[at]].decode()); at += 1 + q[at]
    return ".".join(out), at + 5
def answer(q):
    n, end = name(q)
    kind = struct.unpack(">H", q[end - 4:end - 2])[0]
    here = {"public.test": "%(public)s", "near.test": "%(lan)s"}.get(n)
    head = q[:2] + struct.pack(">HHHHH", 0x8180 if here else 0x8183, 1, 1 if here and kind == 1 else 0, 0, 0)
    return n, head + q[12:end] + (struct.pack(">HHHIH", 0xc00c, 1, 1, 30, 4) + socket.inet_aton(here) if here and kind == 1 else b"")
tcp(socket.AF_INET, address)
udp(port)
if not address:
    udp(53); tcp(socket.AF_INET6, "")
print("ready", flush=True)
while True:
    for key, _ in s.select():
        if key.data == "tcp":
            c, peer = key.fileobj.accept()
            log.write("tcp %%s\n" %% c.getsockname()[0])
            try:
                c.sendall(b"hello\n")
            except OSError:
                pass
            c.close()
            continue
        data, extra, _, peer = key.fileobj.recvmsg(2048, 256)
        to = socket.inet_ntoa(extra[0][2][8:12])
        if key.data == "udp":
            log.write("udp %%s\n" %% to)
            reply = b"hello"
        else:
            n, reply = answer(data)
            log.write("dns %%s\n" %% n)
        info = struct.pack("=I4s4s", 0, socket.inet_aton(to), b"\0" * 4)
        try:
            key.fileobj.sendmsg([reply], [(0, 8, info)], 0, peer)
        except OSError:
            pass
""" % {"public": PUBLIC, "lan": LAN}


def _ip(*words, ns=None):
    enter = ["nsenter", f"--net=/proc/{ns}/ns/net"] if ns else []
    subprocess.run([*enter, "ip", *words], check=True, capture_output=True)


def add_route(address):
    """The host learns a way to an address of the internet: from now on it is near."""
    _ip("route", "add", f"{address}/32", "via", LAN)


def add_address(address):
    _ip("addr", "add", f"{address}/32", "dev", "lo")


class World:
    def __init__(self, folder):
        self.folder = folder
        self.seen_by_neighbour, self.seen_by_host = folder / "neighbour", folder / "host"
        self.processes, self.shown = [], []

    def seen(self):
        return [l for f in (self.seen_by_neighbour, self.seen_by_host) if f.exists() for l in f.read_text().splitlines()]

    def clear(self):
        for f in (self.seen_by_neighbour, self.seen_by_host):
            f.write_text("")

    def _server(self, log, *words, ns=None):
        enter = ["nsenter", f"--net=/proc/{ns}/ns/net"] if ns else []
        p = subprocess.Popen([*enter, sys.executable, "-c", SERVER, str(PORT), str(log), *words],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd="/")
        self.processes.append(p)
        assert p.stdout.readline() == b"ready\n", "a server of the test did not start"

    def _show(self, file, path):
        """In the mounts of this test, which the harness has made private."""
        subprocess.run(["mount", "--bind", file, path], check=True)
        self.shown.append(path)

    def start(self):
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.unshare(CLONE_NEWNET) == 0
        _ip("link", "set", "lo", "up")
        here = os.stat("/proc/self/ns/net").st_ino
        other = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self.processes.append(other)
        end = time.monotonic() + 10
        while os.stat(f"/proc/{other.pid}/ns/net").st_ino == here:
            assert time.monotonic() < end
        _ip("link", "add", "lan0", "type", "veth", "peer", "name", "eth0", "netns", str(other.pid))
        _ip("addr", "add", f"{HOST}/24", "dev", "lan0")
        _ip("addr", "add", f"{OWN}/32", "dev", "lo")
        _ip("link", "set", "lan0", "up")
        _ip("addr", "add", f"{LAN}/24", "dev", "eth0", ns=other.pid)
        for device in ("eth0", "lo"):
            _ip("link", "set", device, "up", ns=other.pid)
        for address in (PUBLIC, FRIEND, METADATA, AZURE, *MORE):
            _ip("addr", "add", f"{address}/32", "dev", "lo", ns=other.pid)
        _ip("addr", "add", "2001:db8:77::2/64", "dev", "eth0", "nodad", ns=other.pid)
        _ip("addr", "add", "2001:db8:77::1/64", "dev", "lan0", "nodad")
        _ip("route", "add", "default", "via", HOST, ns=other.pid)
        _ip("route", "add", "default", "via", LAN)
        pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        resolv = self.folder / "resolv.conf"
        resolv.write_text(f"nameserver {LAN}\n")
        self._show(resolv, os.path.realpath("/etc/resolv.conf"))
        # The device that distributions let everybody open.
        tun = self.folder / "tun"
        subprocess.run(["mknod", "-m", "666", tun, "c", "10", "200"], check=True)
        self._show(tun, "/dev/net/tun")
        self._server(self.seen_by_neighbour, ns=other.pid)
        self._server(self.seen_by_host, HOST)
        self._server(self.seen_by_host, "127.0.0.1")
        self._server(self.seen_by_host, OWN)

    def stop(self):
        for path in self.shown:
            subprocess.run(["umount", "--lazy", path], check=True)
        for p in self.processes:
            p.kill()
            p.wait()


@contextlib.contextmanager
def world(folder):
    """For a test that runs alone in its process: it does not return to the host's network."""
    w = World(folder)
    try:
        w.start()
        yield w
    finally:
        w.stop()


# Runs inside, without anything but Python: tries each target in each way, and prints what answered. Names of .test are looked up.
ATTACK = r"""
import concurrent.futures, json, socket, struct, sys
port, targets = int(sys.argv[1]), sys.argv[2:]
def stream(family, to, *options, bind=None):
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(2)
    for o in options: s.setsockopt(*o)
    if bind: s.bind(bind)
    s.connect(to); return s.recv(5) == b"hello"
def packet(to, *options, extra=()):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2)
    for o in options: s.setsockopt(*o)
    s.sendmsg([b"x"], extra, 0, to); return s.recv(5) == b"hello"
DEVICE = (socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
def index():
    try: return socket.if_nametoindex("eth0")
    except OSError: return 0
def info(i): return (socket.IPPROTO_IP, 8, struct.pack("=I4s4s", i, b"\0" * 4, b"\0" * 4))
def loose(a): return (socket.IPPROTO_IP, socket.IP_OPTIONS, bytes([131, 7, 4]) + socket.inet_aton(a) + b"\0")
def raw(to):
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP); return ping(s, to)
def ping(s, to):
    s.settimeout(1); s.sendto(struct.pack(">BBHHH", 8, 0, 0xf7fe, 0, 1), (to, 0)); s.recv(64); return True
def ways(t):
    yield "tcp", lambda: stream(socket.AF_INET, (t, port))
    yield "udp", lambda: packet((t, port))
    yield "device", lambda: stream(socket.AF_INET, (t, port), DEVICE)
    yield "index", lambda: stream(socket.AF_INET, (t, port), (socket.SOL_SOCKET, 62, struct.pack("=i", index())))
    yield "udp-device", lambda: packet((t, port), DEVICE)
    yield "pktinfo", lambda: packet((t, port), extra=[info(index())])
    yield "dontroute", lambda: stream(socket.AF_INET, (t, port), (socket.SOL_SOCKET, socket.SO_DONTROUTE, 1))
    yield "mapped", lambda: stream(socket.AF_INET6, ("::ffff:" + t, port))
    yield "ping", lambda: ping(socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP), t)
    yield "raw", lambda: raw(t)
    a = socket.inet_aton(t)
    for name, six in (("nat64", bytes.fromhex("0064ff9b") + b"\0" * 8 + a), ("6to4", b"\x20\x02" + a + b"\0" * 9 + b"\1"),
                      ("compatible", b"\0" * 12 + a), ("local64", bytes.fromhex("0064ff9b0001") + b"\0" * 6 + a)):
        yield name, lambda six=six: stream(socket.AF_INET6, (socket.inet_ntop(socket.AF_INET6, six), port))
    yield "source-route", lambda: stream(socket.AF_INET, ("1.2.3.4", port), loose(t)) if t != "1.2.3.4" else False
def ways6(t):
    yield "tcp6", lambda: stream(socket.AF_INET6, (t, port, 0, index() if t.startswith("fe80") else 0))
    yield "device6", lambda: stream(socket.AF_INET6, (t, port, 0, index()), DEVICE)
def attempt(way):
    try: return way()
    except OSError: return False
found, names = {}, [t for t in targets if t.endswith(".test")]
for t in names:
    found[t] = attempt(lambda: socket.gethostbyname(t))
targets = [t for t in targets if t not in names]
with concurrent.futures.ThreadPoolExecutor(200) as pool:
    tries = [(t, name, pool.submit(attempt, way)) for t in targets for name, way in (ways6(t) if ":" in t else ways(t))]
for t, name, f in tries:
    if f.result(): found.setdefault(t, []).append(name)
print(json.dumps(found))
"""

NEAR = (HOST, "127.0.0.1", OWN, LAN, METADATA, AZURE, *MORE, "0.0.0.0", "255.255.255.255", "224.0.0.1")
NEAR6 = ("2001:db8:77::1", "2001:db8:77::2", "fe80::1", "::1", "fd00::1", "ff02::1")


def tried(text):
    return json.loads(text.strip().splitlines()[-1])
