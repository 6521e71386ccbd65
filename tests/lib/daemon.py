# SPDX-License-Identifier: Apache-2.0
"""A daemon for a test, and calls to it.

The daemon looks at who connects: the connections of a test come from a process of the test's own identity (the opener
below), which hands them over.
"""

import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading

from harness import PATIENCE, brig_argv, brig_environment, files_as_root, runtime, scratch, start_brig, wait_until

WAIT = 10 * PATIENCE

OPENER = """
import os, socket
here = socket.socket(fileno=0)
while (word := here.recv(4096).decode()):
    packets, _, path = word.rpartition(":")
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET if packets else socket.SOCK_STREAM)
    try:
        folder, _, name = path.rpartition("/")
        at = os.open(folder, os.O_PATH)  # a path may be longer than an address
        s.connect(f"/proc/self/fd/{at}/{name}")
        os.close(at)
    except OSError as e:
        here.send(str(e).encode())
        continue
    socket.send_fds(here, [b"ok"], [s.fileno()])
    s.close()
"""


class Answer:
    def __init__(self, answer, body):
        self.status, self.headers, self.body = answer.status, answer.headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        """The word of a problem."""
        assert self.headers["Content-Type"] == "application/problem+json", (self.status, self.body)
        assert self.json["status"] == self.status and self.json["title"] and "detail" in self.json, self.body
        return self.json["code"]

    def __repr__(self):
        return f"<{self.status} {self.body[:1500]!r}>"


class Connection(http.client.HTTPConnection):
    def __init__(self, sock, host="localhost"):
        super().__init__(host, timeout=WAIT)
        self.sock = sock

    def connect(self):
        raise ConnectionError("the daemon has closed the connection")


class Events:
    """A stream of events, read as they come."""

    def __init__(self, connection, answer):
        self.connection, self.answer, self.status = connection, answer, answer.status

    def __iter__(self):
        event = {}
        for line in self.answer:
            line = line.decode().rstrip("\n")
            if line.startswith(":"):
                continue
            if not line:
                if event:
                    yield event["event"], json.loads(event["data"]), event.get("id")
                event = {}
                continue
            key, _, value = line.partition(": ")
            event[key] = value

    def close(self):
        self.connection.close()


class Daemon:
    def __init__(self, *args, env=None):
        self.path, self.args, self.env = runtime() / "d" / "brig.sock", args, env or {}
        with contextlib.suppress(FileExistsError):
            self.path.parent.mkdir(mode=0o700)
        self.process = self.opener = None
        self.port, self.token = None, None

    @property
    def environment(self):
        return {"BRIG_HOST": f"unix://{self.path}", **self.env}

    def start(self):
        self.process = start_brig("daemon", *self.args, env=self.environment, stderr=subprocess.PIPE)
        wanted = 2 if "--listen" in self.args else 1
        for _ in range(wanted):
            line = self.process.stderr.readline().decode()
            assert "listening on" in line, line + self.process.stderr.read().decode()
            if (m := re.search(r"https?://[0-9.]+:(\d+)", line)):
                self.port = int(m.group(1))
        if not self.opener:
            self._start_opener()
        return self

    def _start_opener(self):
        here, there = socket.socketpair()
        argv = [w for w in brig_argv() if not w.endswith("/brig")]
        with files_as_root():
            self.opener = subprocess.Popen([*argv, "/usr/bin/python3", "-c", OPENER], stdin=there, env=brig_environment())
        there.close()
        self.to_opener, self.dialling = here, threading.Lock()

    def dial(self, timeout=WAIT, path=None):
        """A connected socket, by this test's identity; to a monitor's, which takes packets, if there is a path."""
        with self.dialling:  # threads of a test share the opener
            self.to_opener.send(f"packets:{path}".encode() if path else str(self.path).encode())
            word, fds, _, _ = socket.recv_fds(self.to_opener, 4096, 1)
        assert word == b"ok", word
        s = socket.socket(fileno=fds[0])
        s.settimeout(timeout)
        return s

    def dial_tcp(self):
        return socket.create_connection(("127.0.0.1", self.port), WAIT)

    def connection(self, tcp=False):
        return Connection(self.dial_tcp(), f"127.0.0.1:{self.port}") if tcp else Connection(self.dial())

    def _send(self, connection, method, path, body, headers, token):
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        if token:
            headers["Authorization"] = f"Bearer {token}"
        connection.request(method, path, body, headers)

    def shown(self, box):
        a = self.call("GET", f"/v1/sandboxes/{box}")
        return a.json if a.status == 200 else {"state": "deleted", "reason": None}

    def becomes(self, box, *words):
        """It has one of these states, or will soon."""
        assert wait_until(lambda: self.shown(box)["state"] in words, WAIT), (words, self.shown(box))
        return self.shown(box)

    def do(self, box, verb, body=None):
        a = self.call("POST", f"/v1/sandboxes/{box}/{verb}?wait=true", body)
        assert a.status == 200, a
        return a.json

    def call(self, method, path, body=None, headers=None, token=None, tcp=None):
        """One call on a connection of its own."""
        connection = self.connection(bool(token) if tcp is None else tcp)
        try:
            self._send(connection, method, path, body, headers, token)
            answer = connection.getresponse()
            return Answer(answer, answer.read())
        finally:
            connection.close()

    def stream(self, method, path, body=None, headers=None, token=None):
        connection = self.connection(bool(token))
        self._send(connection, method, path, body, {"Accept": "text/event-stream", **(headers or {})}, token)
        return Events(connection, connection.getresponse())

    def raw(self, data, tcp=False, end=True):
        """What comes back for these bytes until the connection ends."""
        with self.dial_tcp() if tcp else self.dial() as s:
            with contextlib.suppress(BrokenPipeError):  # it was answered before it was all there
                s.sendall(data)
            if end:
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_WR)
            got = b""
            with contextlib.suppress(ConnectionError):
                while (piece := s.recv(65536)):
                    got += piece
            return got

    def create(self, token=None, **body):
        """A sandbox that is ready; its object."""
        a = self.call("POST", "/v1/sandboxes?wait=true", body, token=token)
        assert a.status == 201 and a.json["state"] == "ready", a
        return a.json

    def exec(self, ref, *argv, token=None, **more):
        a = self.call("POST", f"/v1/sandboxes/{ref}/exec", {"argv": list(argv), **more}, token=token)
        assert a.status == 200, a
        return a.json

    def clear(self):
        """Deletes what is there, of everybody; a list has at most 500."""
        def gone():
            left = self.call("GET", "/v1/sandboxes?limit=500").json["sandboxes"]
            for box in left:
                self.call("DELETE", f"/v1/sandboxes/{box['id']}")
            return not left
        assert wait_until(gone, 2 * WAIT)

    def stop(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        self.process.wait(WAIT)
        self.process.stderr.close()
        self.process.stdout.close()

    def restart(self, sig=signal.SIGKILL):
        self.stop(sig)
        self.start()

    def done(self):
        if self.process.poll() is None:
            self.clear()
            self.stop()
            assert self.process.returncode == 0, self.process.returncode
        self.to_opener.close()
        self.opener.wait(WAIT)
        for left in self.path.parent.iterdir():
            left.unlink()
        self.path.parent.rmdir()


@contextlib.contextmanager
def daemon(*args, **more):
    d = Daemon(*args, **more).start()
    try:
        yield d
    finally:
        d.done()


def token(name, scope="run", file=None):
    """Makes a token; the file it is in."""
    file = file or scratch() / "tokens"
    made = start_brig("daemon", "token", "add", name, "--scope", scope, "--token-file", file, "--quiet")
    out, err = made.communicate()
    assert made.returncode == 0, err
    return out.decode().strip()


@contextlib.contextmanager
def daemon_with_tokens(*more, **scopes):
    """A daemon that listens on TCP; `tokens` has a token for each NAME=SCOPE."""
    file = scratch() / "tokens"
    tokens = {name: token(name, scope, file) for name, scope in scopes.items()}
    with daemon("--listen", "127.0.0.1:0", "--token-file", file, *more) as d:
        d.tokens, d.token_file = tokens, pathlib.Path(file)
        yield d
    os.unlink(file)
