# SPDX-License-Identifier: Apache-2.0
"""What the tests of the door share: a private root, servers that note what they see, a configuration that pins names.

Nothing here leaves the machine: every upstream is a server on loopback with a name under `.test`."""

import base64
import contextlib
import ctypes
import functools
import hashlib
import http.server
import json
import os
import pathlib
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import brig, made_once, scratch, test  # noqa: E402

# Every backend that has a door. What concerns the room and the way into it is tried on each of them; what the door's own
# processes make of the bytes is the same behind all, and is tried on native.
DOORS = ("native", "bwrap")
on_every_door = functools.partial(test, backends=DOORS)

ADDRESS, PROXY = "198.19.255.253", 3128  # of the door, inside

# Defines say(name, function): prints what it returned or how it failed; and talk(host, port, bytes, server name).
TALK = r"""
import socket, ssl, sys
def say(name, f):
    try: r = f()
    except Exception as e: r = type(e).__name__ + ' ' + str(e)
    print(name, r, flush=True)
def ask_udp(address, port):
    u = socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET, socket.SOCK_DGRAM)
    u.settimeout(2); u.connect((address, port))
    for last in (False, False, True):  # after six refusals at once, the kernel sends one a second
        try: u.send(b'x'); return u.recv(1)
        except socket.timeout:
            if last: raise
def talk(host, port, data, sni=None, tls=True, many=True):
    s = socket.create_connection((host, port), timeout=10)
    if tls:
        c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
        s = c.wrap_socket(s, server_hostname=sni)
    s.sendall(data)
    r = b''
    while many or not r:
        d = s.recv(65536)
        if not d: break
        r += d
    return r.split(b'\r\n')[0].decode()
def get(host, path='/', more=''):
    return f'GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n'.encode()
"""


def openssl(*args, input=None):
    subprocess.run(["openssl", *map(str, args)], input=input, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _new_key(*request):
    openssl("req", *request, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _make_root(d):
    _new_key("-x509", "-keyout", d / "ca.key", "-out", d / "ca.pem", "-days", 30, "-subj", "/CN=a root for tests")


def _make_leaf(d, names, days):
    pki = root()
    (d / "ext").write_text("subjectAltName=" + ",".join(f"DNS:{n}" for n in names))
    _new_key("-keyout", d / "key", "-out", d / "csr", "-subj", f"/CN={names[0]}")
    openssl("x509", "-req", "-in", d / "csr", "-CA", pki / "ca.pem", "-CAkey", pki / "ca.key", "-set_serial", int.from_bytes(os.urandom(8), "big"),
            "-out", d / "pem", "-days", days, "-extfile", d / "ext")


@functools.cache
def root():
    """A root of our own; its folder. All tests have the same one."""
    return pathlib.Path(shutil.copytree(made_once("pki", _make_root), scratch() / "pki"))


def leaf(*names, days=30):
    """A certificate of that root: (certificate, key)."""
    pki, base = root(), names[0].replace("*", "_") + ("" if days > 0 else ".old")
    which = hashlib.sha256(repr((names, days)).encode()).hexdigest()[:16]
    made = made_once(f"leaf-{which}", lambda d: _make_leaf(d, names, days))
    return tuple(pathlib.Path(shutil.copy(made / kind, pki / f"{base}.{kind}")) for kind in ("pem", "key"))


def context(*names, **more):
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    c.load_cert_chain(*leaf(*names, **more))
    return c


def fields(pairs):
    """Fields by name, written as HTTP/1 writes most: HTTP/2 has small letters alone."""
    return {name.title(): value for name, value in pairs}


class Handler(http.server.BaseHTTPRequestHandler):
    """An ordinary server. The class attribute `seen` has the request lines and fields, `body` how much came."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self, body=b"hello\n", status=200, fields=()):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def read_body(self):
        n = 0
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                n += len(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
        left = int(self.headers.get("Content-Length", 0))
        while left:
            data = self.rfile.read(min(left, 1 << 16))
            left -= len(data)
            n += len(data)
        return n

    def handle_one_request(self):
        super().handle_one_request()

    def do_GET(self):
        self.server.seen.append((self.requestline, self.headers.items(), self.client_address))
        getattr(self, "get_" + self.path.strip("/").split("/")[0].split("?")[0], self.answer)()

    do_HEAD = do_GET

    def do_POST(self):
        n = self.read_body()
        self.server.seen.append((self.requestline, self.headers.items(), self.client_address))
        self.answer(b"%d\n" % n)

    do_PUT = do_POST

    def get_events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for i in range(5):
            self.chunk(b"data: %d %.6f\n\n" % (i, time.time()))
            time.sleep(0.15)
        self.chunk(b"")

    def get_big(self):
        size = int(self.path.rsplit("/", 1)[1])
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        block = b"x" * 65536
        for _ in range(size // len(block)):
            self.wfile.write(block)
        self.wfile.write(block[:size % len(block)])

    def get_moved(self):
        self.answer(b"", 302, [("Location", "https://elsewhere.test/")])

    def get_fields(self):
        self.answer(fields=[("Alt-Svc", 'h3=":443"'), ("Connection", "X-Hop"), ("X-Hop", "1"), ("X-End", "1")])

    def log_message(self, *_):
        pass


class GitHandler(Handler):
    """git's own HTTP backend, as a CGI program; for those who know `password`, if there is one."""

    password = None

    def cgi(self):
        path, _, query = self.path.partition("?")
        self.server.seen.append((self.requestline, self.headers.items(), self.client_address))
        n = self.headers.get("Content-Length")
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(n or 0))
        if self.password and base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode().partition(":")[2] != self.password:
            self.answer(b"", 401, [("WWW-Authenticate", 'Basic realm="git"')])
            return
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(scratch()), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
               "REQUEST_METHOD": self.command, "QUERY_STRING": query, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
               "REMOTE_USER": "me", "CONTENT_LENGTH": str(len(body)), "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory",
               "GIT_CONFIG_VALUE_0": "*", "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
               "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
        out = subprocess.run(["git", "http-backend"], input=body, env=env, stdout=subprocess.PIPE, check=False).stdout
        head, _, rest = out.partition(b"\r\n\r\n")
        fields = [line.decode().split(": ", 1) for line in head.split(b"\r\n") if line]
        status = next((int(v.split()[0]) for k, v in fields if k == "Status"), 200)
        self.answer(rest, status, [(k, v) for k, v in fields if k != "Status"])

    do_GET = do_POST = cgi


class Web(http.server.ThreadingHTTPServer):
    """A server on loopback, over TLS for the names given, plain without names."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *names, handler=Handler, tls=None):
        super().__init__(("127.0.0.1", 0), handler)
        self.seen, self.connections, self.names = [], 0, names
        self.tls = tls or (context(*names) if names else None)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def get_request(self):
        s, a = super().get_request()
        self.connections += 1
        return s, a

    def finish_request(self, request, client_address):
        if self.tls:
            request.settimeout(20)
            request = self.tls.wrap_socket(request, server_side=True)
        with contextlib.suppress(OSError):
            super().finish_request(request, client_address)

    def handle_error(self, *_):
        pass

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


def npm_registry():
    """A registry with one package, brig-sample, under npm.test."""
    package = scratch() / "package"
    package.mkdir()
    (package / "package.json").write_text('{"name": "brig-sample", "version": "1.0.0"}')
    subprocess.run(["tar", "-czf", scratch() / "p.tgz", "-C", scratch(), "package"], check=True)

    class Registry(Handler):
        def do_GET(self):
            self.server.seen.append(self.path)
            if self.path.endswith(".tgz"):
                self.answer((scratch() / "p.tgz").read_bytes())
            elif self.path == "/brig-sample":
                dist = {"tarball": "https://npm.test/brig-sample/-/p.tgz"}
                about = {"name": "brig-sample", "version": "1.0.0", "dist": dist}
                self.answer(json.dumps({"name": "brig-sample", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": about}}).encode(),
                            fields=[("Content-Type", "application/json")])
            else:
                self.answer(b"{}", 404)

    return Web("npm.test", handler=Registry)


def repository(name="one.git"):
    repo = scratch() / name
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", repo], check=True)
    subprocess.run(["git", "-C", repo, "config", "http.receivepack", "true"], check=True)
    return repo


def seeded(repo):
    tree = subprocess.run(["git", "-c", "safe.directory=*", "-C", repo, "mktree"], input=b"", stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b", "PATH": "/usr/bin:/bin"}
    commit = subprocess.run(["git", "-c", "safe.directory=*", "-C", repo, "commit-tree", "-m", "first", tree], env=who, stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    subprocess.run(["git", "-c", "safe.directory=*", "-C", repo, "update-ref", "refs/heads/main", commit], check=True)


class Raw:
    """A server that answers every TLS connection by calling a function with the socket: for breaking rules."""

    def __init__(self, name, answer, tls=True):
        self.names, self.answer = (name,), answer
        self.tls = context(name) if tls else None
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.seen = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                s, _ = self.socket.accept()
                threading.Thread(target=self._one, args=(s,), daemon=True).start()

    def _one(self, s):
        with contextlib.suppress(OSError), s:
            s.settimeout(20)
            if self.tls:
                s = self.tls.wrap_socket(s, server_side=True)
            with s:
                self.answer(self, s)

    def head(self, s):
        """Read one request head."""
        data = b""
        while b"\r\n\r\n" not in data:
            more = s.recv(65536)
            if not more:
                break
            data += more
        self.seen.append(data)
        return data

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


class Host(Raw):
    """A host that speaks HTTP/2, and calls answer(host, peer, stream, fields) for each request."""

    def __init__(self, name, answer):
        super().__init__(name, lambda _, s: self._speak(s))
        self.tls.set_alpn_protocols(["h2"])
        self.reply = answer

    def _speak(self, s):
        import h2raw  # not everybody has what it needs

        p = h2raw.Peer(s, client=False)
        while f := p.read():
            if f.kind == h2raw.HEADERS and f.flags & h2raw.END_HEADERS:
                fields = p.decoder.decode(f.data)
                self.seen.append(fields)
                self.reply(self, p, f.stream, fields)


class Resolver:
    """A name server on loopback that answers everything with one address and remembers the questions.

    What `whole` names is cut over UDP, and there over TCP alone."""

    def __init__(self, table, whole=None):
        self.table, self.whole, self.asked = table, whole or {}, []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        for n in range(1, 250):
            with contextlib.suppress(OSError):
                self.socket.bind((f"127.53.{os.getpid() % 250}.{n}", 53))
                break
        self.address = self.socket.getsockname()[0]
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.stream.bind((self.address, 53))
        self.stream.listen(16)
        for serve in (self._packets, self._streams):
            threading.Thread(target=serve, daemon=True).start()

    def _packets(self):
        with contextlib.suppress(OSError):
            while True:
                q, a = self.socket.recvfrom(2048)
                self.socket.sendto(self._answer(q, True), a)

    def _streams(self):
        with contextlib.suppress(OSError):
            while True:
                s, _ = self.stream.accept()
                with contextlib.suppress(OSError), s:
                    s.settimeout(5)
                    n = int.from_bytes(s.recv(2), "big")
                    a = self._answer(s.recv(n), False)
                    for piece in (len(a).to_bytes(2, "big") + a[:9], a[9:]):  # an answer may come in parts
                        s.sendall(piece)
                        time.sleep(0.02)

    def _answer(self, q, packet):
        end = q.index(0, 12)
        labels, at = [], 12
        while at < end:
            labels.append(q[at + 1:at + 1 + q[at]].decode())
            at += 1 + q[at]
        name, kind = ".".join(labels), struct.unpack(">H", q[end + 1:end + 3])[0]
        self.asked.append(name if packet else name + "/tcp")
        head, question = q[:2], q[12:end + 5]
        if name in self.whole and packet:
            return head + b"\x83\x80\0\1\0\0\0\0\0\0" + question
        addresses = self.whole.get(name) or [self.table.get(name, "192.0.2.1")]
        family = socket.AF_INET6 if ":" in addresses[0] else socket.AF_INET
        if (kind == 28) != (family == socket.AF_INET6) or kind not in (1, 28):
            return head + b"\x81\x80\0\1\0\0\0\0\0\0" + question
        data = [socket.inet_pton(family, a) for a in addresses]
        records = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 60, len(d)) + d for d in data)
        return head + b"\x81\x80\0\1" + struct.pack(">H", len(data)) + b"\0\0\0\0" + question + records

    def __enter__(self):
        conf = scratch() / "resolv.conf"
        conf.write_text(f"nameserver {self.address}\n")
        libc = ctypes.CDLL(None, use_errno=True)
        # Of this test's own mount namespace.
        assert libc.mount(os.fsencode(conf), os.fsencode(os.path.realpath("/etc/resolv.conf")), None, 4096, None) == 0
        return self

    def __exit__(self, *_):
        ctypes.CDLL(None).umount2(os.fsencode(os.path.realpath("/etc/resolv.conf")), 2)
        self.socket.close()
        self.stream.close()


def configure(*servers, allow=None, **egress):
    """A configuration that pins each server's names, and allows them unless told otherwise; its path."""
    pins = {n: f"127.0.0.1:{s.port}" for s in servers for n in s.names if "*" not in n}
    pins.update(egress.pop("resolve", {}))
    more = egress.pop("more", {})
    egress = {"allow": list(pins) if allow is None else allow, "resolve": pins, "roots": [str(root() / "ca.pem")], **egress}
    path = scratch() / "door.yaml"
    path.write_text(json.dumps({"brig": 1, "network": "proxy", "egress": egress, **more}))
    return path


def behind(config, *argv, **more):
    """Run a command behind the door; how it ended, with --json."""
    return brig("run", "--json", "--config", config, "--", *argv, **more).json


def python(config, code, **more):
    """The same for a Python program without proxy variables; what it printed."""
    free = "import os\nfor k in list(os.environ):\n    if k.lower().endswith('_proxy'): del os.environ[k]\n"
    r = behind(config, "python3", "-c", free + code, **more)
    assert r["exit_code"] == 0, r
    return r


def denials(result):
    """(target, reason) of each, as often as it happened."""
    return [(d["target"], d["reason"].split(":")[0]) for d in result["denials"] if d["kind"] == "network" for _ in range(d.get("count", 1))]


# ---- ways around it ----


def said(result):
    return dict(line.split(" ", 1) for line in result["stdout"].splitlines() if " " in line)


class Oracle:
    """TCP and UDP sockets on one port of several of the host's addresses: notes every visit."""

    def __init__(self, addresses):
        self.visits, self.sockets, self.port = [], [], 0
        for a in addresses:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                s = socket.socket(socket.AF_INET6 if ":" in a else socket.AF_INET, kind)
                s.bind((a, self.port))
                self.port = s.getsockname()[1]
                if kind == socket.SOCK_STREAM:
                    s.listen(16)
                self.sockets.append(s)
                threading.Thread(target=self._watch, args=(s, kind), daemon=True).start()

    def _watch(self, s, kind):
        with contextlib.suppress(OSError):
            while True:
                if kind == socket.SOCK_STREAM:
                    c, a = s.accept()
                    c.close()
                else:
                    _, a = s.recvfrom(2048)
                self.visits.append(a)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for s in self.sockets:
            s.close()


def own_addresses():
    out = subprocess.run(["ip", "-o", "addr"], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = [line.split()[3].split("/")[0] for line in out.splitlines()]
    return [a for a in found if not a.startswith("fe80")][:6]
