# SPDX-License-Identifier: Apache-2.0
"""`brig mcp --http`, a client of it written by hand, and a go-between that adds the token for programs that know none."""

import contextlib
import http.client
import json
import socket
import threading

from harness import PATIENCE, start_brig
from mcp import LEGACY, META, MODERN

WAIT = 30 * PATIENCE


class Said:
    """An answer: its status and fields, and the messages in it."""

    def __init__(self, answer):
        self.status, self.headers, body = answer.status, answer.headers, answer.read()
        self.type = (answer.headers["Content-Type"] or "").partition(";")[0]
        if self.type == "text/event-stream":
            self.all = [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: ")]
        else:
            self.all = [json.loads(body)] if body else []

    @property
    def last(self):
        return self.all[-1]

    def __repr__(self):
        return f"<{self.status} {str(self.all)[:600]}>"


class Server:
    """Starts the server; `d` is the daemon that it asks. Calls are of `era`, with the token that it printed."""

    def __init__(self, d, *options, era=MODERN, program="brig", **how):
        if program == "brig":
            self.process = start_brig("mcp", "--http", "127.0.0.1:0", *options, env=d.environment, **how)
        else:
            self.process = program
        self.said = self.process.stdout.readline().decode()
        assert self.said.startswith("listening on "), self.said + self.process.stderr.read().decode()
        self.url = self.said.split()[2]
        self.port = int(self.url.split(":")[2].partition("/")[0])
        self.token = None if "--token-file" in options else self.process.stdout.readline().decode().split()[1]
        self.era, self.tasks, self.session, self.next = era, False, None, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(WAIT)
        self.process.stdout.close()
        self.process.stderr.close()

    def message(self, method, params=None, **meta):
        self.next += 1
        params, own = dict(params or {}), {}
        if self.era == MODERN:
            own = {META + "protocolVersion": MODERN, META + "clientCapabilities": {"extensions": {META + "tasks": {}}} if self.tasks else {}}
        own = {**own, **params.pop("_meta", {}), **meta}
        if own:
            params["_meta"] = own
        return {"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}

    def fields(self, message, **more):
        fields = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": f"Bearer {self.token}"}
        if self.era == MODERN and message:
            fields |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": message.get("method", "")}
            name = message.get("params", {}).get("name") or message.get("params", {}).get("taskId")
            fields |= {"Mcp-Name": name} if name else {}
        elif self.session:
            fields |= {"MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": self.session}
        fields |= {key.replace("_", "-"): value for key, value in more.items()}
        return {key: value for key, value in fields.items() if value is not None}

    def begin(self, message, verb="POST", path="/mcp", body=None, **fields):
        """A connection with the question sent; a field that is None is left out."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
        given = self.fields(message, **fields)
        c.putrequest(verb, path, skip_host="Host" in given)
        body = json.dumps(message).encode() if body is None and message else body or b""
        for key, value in {**given, "Content-Length": str(len(body))}.items():
            c.putheader(key, value)
        c.endheaders(body)
        return c

    def post(self, message, **more):
        c = self.begin(message, **more)
        with contextlib.closing(c):
            return Said(c.getresponse())

    def ask(self, method, params=None, **meta):
        return self.post(self.message(method, params, **meta)).last

    def hello(self):
        a = self.post(self.message("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}))
        self.session = a.headers["Mcp-Session-Id"]
        assert self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202
        return a

    def call(self, tool, **arguments):
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        assert "result" in answer, answer
        return answer["result"]

    def done(self, tool, **arguments):
        r = self.call(tool, **arguments)
        assert not r["isError"], r
        return r["structuredContent"]


class GoBetween:
    """Listens, and leads each connection to the server with the token in every head. Host and Origin pass as they are."""

    def __init__(self, server):
        self.server = server
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                here, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(here,), daemon=True).start()

    def _serve(self, here):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.server.port)) as there, here:
            threading.Thread(target=self._copy, args=(there, here), daemon=True).start()
            held = b""
            while True:
                while b"\r\n\r\n" not in held:
                    piece = here.recv(65536)
                    if not piece:
                        return
                    held += piece
                head, _, held = held.partition(b"\r\n\r\n")
                own = f"127.0.0.1:{self.port}".encode()
                lines = [line.replace(own, f"127.0.0.1:{self.server.port}".encode()).replace(f"localhost:{self.port}".encode(), f"localhost:{self.server.port}".encode())
                         if line.lower().startswith((b"host:", b"origin:")) else line for line in head.split(b"\r\n")]
                there.sendall(b"\r\n".join([*lines, f"Authorization: Bearer {self.server.token}".encode()]) + b"\r\n\r\n")
                left = next((int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:")), 0)
                while left:
                    held = held or here.recv(65536)
                    if not held:
                        return
                    there.sendall(held[:left])
                    left, held = left - len(held[:left]), held[left:]

    @staticmethod
    def _copy(there, here):
        with contextlib.suppress(OSError):
            while (piece := there.recv(65536)):
                here.sendall(piece)
        with contextlib.suppress(OSError):
            here.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.close()
