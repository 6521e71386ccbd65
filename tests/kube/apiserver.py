#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A scripted Kubernetes API server: real HTTP/1.1 over TLS, objects in memory, and what a test wants to go wrong.

    python3 tests/kube/apiserver.py DIR [--program ARG...]       writes DIR/kubeconfig, prints "ready", serves until its input ends

or in a test:

    with ApiServer(folder, uid) as api:
        api.script("POST", "/api/v1/namespaces/default/pods", status=429, headers={"Retry-After": "1"})

What newer servers do than the cluster of the tests: v5 of the exec protocol, bookmarks, 429; and what none should do. A pod that is created is
Running at once. attach and exec run a real program: exec its own command, attach `program`; when an attached one ends the pod has its exit code.
"""

import argparse
import base64
import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import re
import secrets
import select
import signal
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import threading
import time
import urllib.parse

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
# /api/v1/namespaces/NS/KIND[/NAME[/SUB]], /apis/GROUP/VERSION/namespaces/NS/KIND[/NAME[/SUB]], and without a namespace
PATH = re.compile(r"^/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))(?:/namespaces/(?P<ns>[^/]+))?/(?P<kind>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?$")
KINDS = {"pods": "Pod", "secrets": "Secret", "networkpolicies": "NetworkPolicy", "namespaces": "Namespace", "configmaps": "ConfigMap",
         "persistentvolumeclaims": "PersistentVolumeClaim", "sandboxes": "Sandbox", "sandboxclaims": "SandboxClaim",
         "sandboxtemplates": "SandboxTemplate", "sandboxwarmpools": "SandboxWarmPool", "runtimeclasses": "RuntimeClass",
         "customresourcedefinitions": "CustomResourceDefinition", "selfsubjectaccessreviews": "SelfSubjectAccessReview", "nodes": "Node", "events": "Event"}


def openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)


class Certificates:
    """An authority, the server's certificate (127.0.0.1, localhost, kube.test) and a client's (CN brig-test). Kept in `folder`."""

    def __init__(self, folder):
        self.folder = folder
        if (folder / "client.pem").exists():
            self.ca, self.server, self.client = ((folder / f"{name}.pem", folder / f"{name}.key") for name in ("ca", "server", "client"))
            return
        self.ca = self.authority("ca")
        self.server = self.signed("server", "subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost,DNS:kube.test\n")
        self.client = self.signed("client", "extendedKeyUsage=clientAuth\n", subject="/O=system:masters/CN=brig-test")

    def authority(self, name):
        cert, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-keyout", key, "-out", cert, "-days", 2, "-subj", f"/CN={name}")
        return cert, key

    def signed(self, name, extensions, subject=None, days=2):
        cert, key, request, extra = (self.folder / f"{name}.{end}" for end in ("pem", "key", "csr", "ext"))
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-keyout", key, "-out", request, "-subj", subject or f"/CN={name}")
        extra.write_text(extensions)
        openssl("x509", "-req", "-in", request, "-CA", self.ca[0], "-CAkey", self.ca[1], "-CAcreateserial", "-out", cert, "-days", days, "-extfile", extra)
        return cert, key


class Store:
    """Objects by path, and every change in order; versions count up over all of them."""

    def __init__(self):
        self.version, self.objects, self.changes, self.forgotten = 100, {}, [], 0
        self.news = threading.Condition()

    def put(self, path, thing, kind="MODIFIED"):
        with self.news:
            self.version += 1
            thing.setdefault("metadata", {})["resourceVersion"] = str(self.version)
            if kind == "DELETED":
                self.objects.pop(path, None)
            else:
                self.objects[path] = thing
            self.changes.append((self.version, kind, path, json.loads(json.dumps(thing))))
            self.news.notify_all()

    def forget(self):
        """What was before now cannot be watched any more: 410."""
        with self.news:
            self.version += 10
            self.forgotten = self.version
            self.news.notify_all()


def matches(thing, query):
    labels = thing.get("metadata", {}).get("labels") or {}
    for part in filter(None, query.get("labelSelector", [""])[0].split(",")):
        key, equals, value = part.partition("=")
        if key not in labels or equals and labels[key] != value.lstrip("="):
            return False
    for part in filter(None, query.get("fieldSelector", [""])[0].split(",")):
        key, _, value = part.partition("=")
        at = thing
        for step in key.split("."):
            at = (at or {}).get(step)
        if at != value:
            return False
    return True


# ---- WebSocket ----


class WebSocket:
    def __init__(self, connection, rest=b""):
        self.connection, self.rest, self.lock = connection, rest, threading.Lock()

    def send(self, opcode, data, final=True):
        head = bytes([(0x80 if final else 0) | opcode])
        n = len(data)
        head += bytes([n]) if n < 126 else b"\x7e" + struct.pack(">H", n) if n < 65536 else b"\x7f" + struct.pack(">Q", n)
        with self.lock:
            self.connection.sendall(head + data)

    def channel(self, number, data):
        self.send(BINARY, bytes([number]) + data)

    def raw(self, data):
        with self.lock:
            self.connection.sendall(data)

    def _take(self, n):
        while len(self.rest) < n:
            more = self.connection.recv(65536)
            if not more:
                raise EOFError
            self.rest += more
        out, self.rest = self.rest[:n], self.rest[n:]
        return out

    def read(self):
        """(opcode, payload) of one frame, which must be masked."""
        first, second = self._take(2)
        assert second & 0x80, "a client's frame is masked"
        n = second & 127
        n = struct.unpack(">H", self._take(2))[0] if n == 126 else struct.unpack(">Q", self._take(8))[0] if n == 127 else n
        mask = self._take(4)
        data = self._take(n)
        return first & 15, bytes(a ^ mask[i & 3] for i, a in enumerate(data)) if n < 4096 else (
            int.from_bytes(data, "big") ^ int.from_bytes((mask * (n // 4 + 1))[:n], "big")).to_bytes(n, "big")


def status_of(code):
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "message": f"command terminated with non-zero exit code: {code}",
            "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}}


class Session:
    """One exec or attach: a process and the channels of its streams."""

    def __init__(self, api, socket_, version, argv, query):
        self.api, self.ws, self.version = api, socket_, version
        self.slow = api.slow.get(query.get("container", ["main"])[0], 0)
        tty = query.get("tty", ["0"])[0] in ("1", "true")
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT if tty else subprocess.PIPE,
                                        start_new_session=True)

    def _copy(self, stream, number):
        with contextlib.suppress(OSError, ValueError):
            while data := os.read(stream.fileno(), 32768):
                time.sleep(self.slow)
                self.ws.channel(number, data)

    def _input(self):
        try:
            while True:
                opcode, data = self.ws.read()
                if opcode == CLOSE:
                    break
                if opcode == PING:
                    self.ws.send(PONG, data)
                elif opcode in (TEXT, BINARY) and data[:1] == b"\x00":
                    with contextlib.suppress(OSError):
                        self.process.stdin.write(data[1:])
                        self.process.stdin.flush()
                elif data == b"\xff\x00" and self.version == 5:
                    with contextlib.suppress(OSError):
                        self.process.stdin.close()
        except (EOFError, OSError, ssl.SSLError, ValueError):
            pass
        with contextlib.suppress(OSError):
            self.process.stdin.close()  # stdinOnce: the caller is gone
        self.api.gone.append(time.monotonic())

    def run(self):
        copies = [threading.Thread(target=self._copy, args=(s, n), daemon=True)
                  for s, n in ((self.process.stdout, 1), (self.process.stderr, 2)) if s]
        threading.Thread(target=self._input, daemon=True).start()
        for t in copies:
            t.start()
        code = self.process.wait()
        for t in copies:
            t.join(5)
        code = code if code >= 0 else 128 - code
        with contextlib.suppress(OSError, ssl.SSLError):
            self.ws.channel(3, json.dumps(status_of(code)).encode())
            self.ws.send(CLOSE, struct.pack(">H", 1000))
            # The peer's answer to our close is read by the other thread; give it a moment before the socket goes.
            time.sleep(0.05)
        return code


# ---- HTTP ----


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "scripted"
    api = None

    def log_message(self, *_):
        pass

    def reply(self, status, thing, headers=None):
        data = thing if isinstance(thing, bytes) else json.dumps(thing).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for k, v in (headers or {}).items():
            self.send_header(k, v)
        self.end_headers()
        self.wfile.write(data)

    def fail(self, code, reason, message):
        self.reply(code, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason, "message": message, "code": code})

    def one(self):
        api, url = self.api, urllib.parse.urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length) if length else b""
        self.query = urllib.parse.parse_qs(url.query)
        api.requests.append({"method": self.command, "path": url.path, "query": self.query, "headers": dict(self.headers), "body": self.body,
                             "time": time.monotonic(), "connection": id(self.connection)})
        step = api.step(self.command, url.path)
        if step:
            if not step(self):
                return
        if not self.allowed():
            self.fail(401, "Unauthorized", "Unauthorized")
            return
        if url.path == "/version":
            self.reply(200, {"major": "1", "minor": "30", "gitVersion": "v1.30.0-scripted"})
            return
        if url.path in api.discovery and self.command == "GET":
            self.reply(200, api.discovery[url.path])
            return
        if url.path.removeprefix(api.prefix) in api.groups:
            self.reply(200, {"kind": "APIResourceList"})
            return
        found = PATH.match(url.path.removeprefix(api.prefix))
        if not found or not url.path.startswith(api.prefix):
            self.fail(404, "NotFound", "the server could not find the requested resource")
            return
        self.resource(found, url.path.removeprefix(api.prefix))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = one

    def allowed(self):
        sent = self.headers.get("Authorization", "").removeprefix("Bearer ")
        return bool(self.connection.getpeercert()) or sent in self.api.tokens

    def resource(self, m, path):
        kind = KINDS.get(m["kind"])
        if not kind:
            self.fail(404, "NotFound", "the server could not find the requested resource")
        elif m["sub"] in ("exec", "attach"):
            self.streams(path, m["sub"])
        elif m["sub"] == "log":
            self.reply(200, b"a log\n")
        elif self.command == "POST":
            self.create(m, path, kind)
        elif m["name"]:
            self.named(path, m)
        elif self.command == "GET" and "watch" in self.query:
            self.watch(path)
        elif self.command == "GET":
            self.list(path, kind)
        elif self.command == "DELETE":
            with self.api.store.news:
                all_ = [(p, o) for p, o in self.api.store.objects.items() if p.rsplit("/", 1)[0] == path and matches(o, self.query)]
            for p, o in all_:
                self.api.remove(p, o)
            self.reply(200, {"kind": "Status", "status": "Success"})
        else:
            self.fail(405, "MethodNotAllowed", "no")

    def create(self, m, path, kind):
        thing = json.loads(self.body)
        if kind == "SelfSubjectAccessReview":
            thing["status"] = {"allowed": self.api.may(thing["spec"].get("resourceAttributes", {}))}
            self.reply(201, thing)
            return
        meta = thing.setdefault("metadata", {})
        if "name" not in meta:
            meta["name"] = meta.get("generateName", "x-") + secrets.token_hex(3)
        if f"{path}/{meta['name']}" in self.api.store.objects:
            self.fail(409, "AlreadyExists", f'{m["kind"]} "{meta["name"]}" already exists')
            return
        refusal = kind == "Pod" and (self.api.refusal(thing) if callable(self.api.refusal) else self.api.refusal)
        if refusal:
            self.fail(403, "Forbidden", refusal)
            return
        meta.setdefault("uid", secrets.token_hex(8))
        meta.setdefault("namespace", m["ns"])
        meta.setdefault("creationTimestamp", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        if "dryRun" in self.query:
            self.reply(201, thing)
            return
        self.api.create(f"{path}/{meta['name']}", thing, kind)
        self.reply(201, self.api.store.objects[f"{path}/{meta['name']}"])

    def named(self, path, m):
        thing = self.api.store.objects.get(path)
        if thing is None:
            self.fail(404, "NotFound", f'{m["kind"]} "{m["name"]}" not found')
        elif self.command in ("GET", "HEAD"):
            self.reply(200, thing)
        elif self.command == "DELETE":
            self.api.remove(path, thing)
            self.reply(200, thing)
        elif self.command in ("PUT", "PATCH"):
            new = json.loads(self.body)
            self.api.store.put(path, merge(thing, new) if self.command == "PATCH" else new)
            self.reply(200, self.api.store.objects[path])
        else:
            self.fail(405, "MethodNotAllowed", "no")

    def list(self, path, kind):
        with self.api.store.news:
            items = [o for p, o in sorted(self.api.store.objects.items()) if p.rsplit("/", 1)[0] == path and matches(o, self.query)]
            version = self.api.store.version
        start, most = int(self.query.get("continue", ["0"])[0]), min(self.api.page, int(self.query.get("limit", ["500"])[0]))
        meta = {"resourceVersion": str(version)}
        if start + most < len(items):
            meta["continue"] = str(start + most)
        self.reply(200, {"kind": f"{kind}List", "apiVersion": "v1", "metadata": meta, "items": items[start:start + most]})

    def chunk(self, data):
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def watch(self, path):
        store = self.api.store
        seen = int(self.query.get("resourceVersion", ["0"])[0] or 0)
        end = time.monotonic() + min(int(self.query.get("timeoutSeconds", ["60"])[0]), self.api.watch_seconds)
        if seen < store.forgotten and self.api.expire_by_status:
            self.fail(410, "Expired", "too old resource version")
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        generation, told = self.api.cut, seen
        while time.monotonic() < end:
            with store.news:
                if not any(v > seen for v, *_ in store.changes) and seen >= store.forgotten:
                    store.news.wait(0.05)
                new = [c for c in store.changes if c[0] > seen]
            if seen < store.forgotten:
                self.event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"})
                break
            for version, kind, where, thing in new:
                seen = version
                if where.rsplit("/", 1)[0] == path and matches(thing, self.query):
                    told = seen
                    self.event(kind, thing)
            if self.api.bookmark and told < seen:
                told = seen
                self.event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(seen)}})
            if self.api.cut != generation:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            if select.select([self.connection], [], [], 0)[0]:
                self.close_connection = True
                return
        self.wfile.write(b"0\r\n\r\n")

    def event(self, kind, thing):
        self.chunk(json.dumps({"type": kind, "object": thing}).encode() + b"\n")

    def streams(self, path, sub):
        key, offered = self.headers.get("Sec-WebSocket-Key"), [p.strip() for p in self.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        pod = self.api.store.objects.get(path.rsplit("/", 1)[0])
        if pod is None:
            self.fail(404, "NotFound", f'pods "{path.split("/")[-2]}" not found')
            return
        chosen = next((v for v in self.api.protocols if v in offered), None)
        if not key or not chosen:
            self.fail(400, "BadRequest", "Upgrade request required")
            return
        accept = base64.b64encode(hashlib.sha1(key.encode() + GUID).digest()).decode()
        head = (f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n"
                f"Sec-WebSocket-Protocol: {chosen}\r\n\r\n").encode()
        self.close_connection = True
        ws = WebSocket(self.connection)
        if self.api.on_stream:
            self.api.on_stream(self, ws, head)
            return
        self.wfile.write(head)
        self.wfile.flush()
        container = self.query.get("container", ["main"])[0]
        attached = self.api.program(pod, container) if callable(self.api.program) else self.api.program
        command = self.query.get("command") if sub == "exec" else attached
        session = Session(self.api, ws, 5 if chosen.startswith("v5") else 4, command, self.query)
        if sub == "attach":
            of = path.rsplit("/", 1)[0]
            self.api.attached[of if container == "main" else f"{of}#{container}"] = session.process
        code = session.run()
        if sub == "attach" and code == 0 and container in self.api.first(pod):
            self.api.begin(path.rsplit("/", 1)[0])
        elif sub == "attach":
            self.api.finish(path.rsplit("/", 1)[0], code)


def merge(old, new):
    """RFC 7386; a strategic merge patch of what the tests send is the same."""
    if not isinstance(new, dict):
        return new
    out = dict(old) if isinstance(old, dict) else {}
    for k, v in new.items():
        if v is None:
            out.pop(k, None)
        else:
            out[k] = merge(out.get(k), v)
    return out


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads, allow_reuse_address, request_queue_size = True, True, 128
    context = None

    def get_request(self):
        connection, address = self.socket.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def process_request_thread(self, request, client_address):
        with contextlib.suppress(OSError, ssl.SSLError):
            request.settimeout(30)
            request.do_handshake()
            request.settimeout(None)
            super().process_request_thread(request, client_address)

    def handle_error(self, *_):
        pass  # a client that goes away is what many tests are about


class ApiServer:
    """What a test may change: tokens, protocols, prefix, page, bookmark, watch_seconds, program, denied (rights), groups, refusal
    (of pods), on_stream, slow (seconds before each piece that a container says), script()."""

    def __init__(self, folder, uid=None, port=0, certificates=None):
        self.folder, self.uid = pathlib.Path(folder), uid
        self.certificates = certificates or Certificates(self.folder)
        self.store, self.requests, self.steps = Store(), [], []
        self.tokens, self.prefix, self.page = {"a-token"}, "", 500
        self.protocols = ["v5.channel.k8s.io", "v4.channel.k8s.io"]
        self.bookmark, self.watch_seconds, self.expire_by_status, self.cut = False, 3600, True, 0
        self.program, self.attached, self.gone, self.on_stream = ["cat"], {}, [], None
        self.denied, self.groups, self.refusal, self.discovery = set(), {"/apis/networking.k8s.io/v1"}, None, {}
        self.node, self.slow = None, {}
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.certificates.server)
        context.load_verify_locations(self.certificates.ca[0])
        context.verify_mode = ssl.CERT_OPTIONAL
        self.server = Server(("127.0.0.1", port), type("Bound", (Handler,), {"api": self}))
        self.server.context = context
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        for process in self.attached.values():
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)

    # -- scripts --

    def script(self, method, path, times=1, **answer):
        """The next `times` requests of that kind get this answer: status, body, headers, before (a call), close (no answer at all),
        raw (bytes as they are); keep=True: it is done all the same."""
        self.steps.append([method, re.compile(path), times, answer])

    def step(self, method, path):
        for s in self.steps:
            if s[2] and s[0] in (method, "*") and s[1].fullmatch(path):
                s[2] -= 1
                return lambda handler: self._play(handler, s[3])
        return None

    @staticmethod
    def _play(handler, answer):
        if "before" in answer:
            answer["before"](handler)
        if answer.get("keep"):  # done, but the answer does not arrive
            real, handler.wfile = handler.wfile, open(os.devnull, "wb")  # noqa: SIM115
            with contextlib.suppress(OSError):
                found = PATH.match(handler.path.split("?")[0])
                handler.resource(found, handler.path.split("?")[0])
            handler.wfile.close()
            handler.wfile = real
        if answer.get("close"):
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return False
        if "raw" in answer:
            handler.wfile.write(answer["raw"])
            handler.wfile.flush()
            handler.close_connection = True
            return False
        if "status" in answer:
            body = answer.get("body", {"kind": "Status", "status": "Failure", "code": answer["status"], "message": "scripted"})
            handler.reply(answer["status"], body, answer.get("headers"))
            return False
        return True

    # -- objects --

    def may(self, attributes):
        return (attributes.get("verb"), "/".join(filter(None, (attributes.get("resource"), attributes.get("subresource"))))) not in self.denied

    def create(self, path, thing, kind):
        thing.setdefault("kind", kind)
        if kind == "Pod":
            thing["status"] = {"phase": "Pending"}
            self.store.put(path, thing, "ADDED")
            self.begin(path, self.first(thing))
            return
        self.store.put(path, thing, "ADDED")

    @staticmethod
    def first(pod):
        """Init containers that wait for somebody to attach; the others have done their work."""
        return [c["name"] for c in pod.get("spec", {}).get("initContainers", []) if c.get("stdin")]

    def begin(self, path, first=()):
        """Its container runs, or the one that comes first."""
        with self.store.news:
            self._begin(path, first)

    def _begin(self, path, first):
        thing = self.store.objects.get(path)
        if thing is None:
            return
        thing = json.loads(json.dumps(thing))
        runs = {"running": {"startedAt": thing["metadata"]["creationTimestamp"]}}
        names = sorted(c.get("name", "main") for c in thing.get("spec", {}).get("containers") or [{}])
        thing["status"] = {"phase": "Pending" if first else "Running", "podIP": "10.1.2.3", "hostIP": self.node or "", "startTime": thing["metadata"]["creationTimestamp"],
                           "initContainerStatuses": [{"name": f, "state": runs} for f in first],
                           "containerStatuses": [{"name": name, "ready": not first, "imageID": "" if first else "sha256:" + "0" * 64,
                                                  "state": {"waiting": {"reason": "PodInitializing"}} if first else runs} for name in names]}
        thing.setdefault("spec", {})["nodeName"] = "node-1"
        self.store.put(path, thing)

    def finish(self, path, code):
        """The attached program has ended, and so has its pod. One that is removed meanwhile does not come back."""
        with self.store.news:
            self._finish(path, code)

    def _finish(self, path, code):
        thing = self.store.objects.get(path)
        if thing is None:
            return
        thing = json.loads(json.dumps(thing))
        thing["status"]["phase"] = "Failed" if code else "Succeeded"
        for c in thing["status"].get("containerStatuses", []):
            c["ready"], c["state"] = False, {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
        self.store.put(path, thing)

    def remove(self, path, thing):
        for key in [k for k in list(self.attached) if k.split("#")[0] == path]:
            with contextlib.suppress(OSError):
                os.killpg(self.attached.pop(key).pid, signal.SIGKILL)
        self.store.put(path, json.loads(json.dumps(thing)), "DELETED")
        uid = thing.get("metadata", {}).get("uid")
        for p, o in list(self.store.objects.items()):  # what it owns goes with it
            if any(r.get("uid") == uid for r in o.get("metadata", {}).get("ownerReferences") or []):
                self.remove(p, o)

    # -- kubeconfig --

    def kubeconfig(self, name="kubeconfig", user=None, cluster=None, namespace="default"):
        """Written as the test's identity; `user` and `cluster` replace the parts of those names."""
        ca = base64.b64encode(self.certificates.ca[0].read_bytes()).decode()
        whole = {"apiVersion": "v1", "kind": "Config", "current-context": "scripted", "preferences": {},
                 "contexts": [{"name": "scripted", "context": {"cluster": "scripted", "user": "tester", "namespace": namespace}}],
                 "clusters": [{"name": "scripted", "cluster": cluster or {"server": f"https://127.0.0.1:{self.port}{self.prefix}", "certificate-authority-data": ca}}],
                 "users": [{"name": "tester", "user": user or {"token": "a-token"}}]}
        return self.write(name, json.dumps(whole))

    def write(self, name, text, mode=0o600):
        path = self.folder / name
        path.write_text(text)
        path.chmod(mode)
        if self.uid is not None and os.geteuid() == 0:
            os.chown(path, self.uid, self.uid)
        return path


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--port", type=int, default=0)
    p.add_argument("--v4", action="store_true", help="no v5 of the exec protocol")
    p.add_argument("--uid", type=int, help="the owner of the kubeconfig")
    p.add_argument("--program", nargs=argparse.REMAINDER, default=["cat"], help="what attach runs")
    args = p.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    with ApiServer(args.folder, args.uid, args.port) as api:
        api.program = args.program
        if args.v4:
            api.protocols = ["v4.channel.k8s.io"]
        api.kubeconfig()
        print("ready", flush=True)
        sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
