# SPDX-License-Identifier: Apache-2.0
"""A client of `brig mcp`, written by hand: one message a line, both eras."""

import json
import select
import subprocess
import time

from harness import PATIENCE, start_brig

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
META = "io.modelcontextprotocol/"


class Client:
    """Starts the server with these options and speaks with it. era: MODERN, LEGACY or None; can: its capabilities."""

    def __init__(self, *options, era=MODERN, tasks=False, wait=30 * PATIENCE, can=None, **how):
        self.process = start_brig("mcp", *options, stdin=subprocess.PIPE, bufsize=0, **how)
        self.era, self.tasks, self.wait, self.next, self.rest = era, tasks, wait, 0, b""
        self.answers, self.notes, self.loose = {}, [], []
        if era == LEGACY:
            self.hello = self.ask("initialize", {"protocolVersion": LEGACY, "capabilities": can or {},
                                                 "clientInfo": {"name": "test", "version": "1"}})
            self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for end in (self.process.stdin, self.process.stdout):
            end.close()
        self.process.wait(self.wait)
        errors = self.process.stderr.read().decode(errors="replace")
        self.process.stderr.close()
        return errors

    def raw(self, data):
        self.process.stdin.write(data)

    def say(self, message):
        data = memoryview(json.dumps(message).encode() + b"\n")
        while data:
            data = data[self.process.stdin.write(data):]

    def meta(self):
        if self.era != MODERN:
            return {}
        can = {"extensions": {META + "tasks": {}}} if self.tasks else {}
        return {META + "protocolVersion": MODERN, META + "clientCapabilities": can, META + "clientInfo": {"name": "test", "version": "1"}}

    def begin(self, method, params=None, **meta):
        """Sends a request; its id."""
        self.next += 1
        params = dict(params or {})
        both = {**self.meta(), **params.pop("_meta", {}), **meta}
        if both:
            params["_meta"] = both
        self.say({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})
        return self.next

    def read(self, until):
        """One message more, or None when the time or the stream is over."""
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, until - time.monotonic()))
            data = self.process.stdout.read(1 << 20) if ready else b""
            if not data:
                return None
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0", message
        if "method" in message:
            self.notes.append(message)
        elif message.get("id") is None:
            self.loose.append(message)
        else:
            assert message["id"] not in self.answers, message
            self.answers[message["id"]] = message
        return message

    def get(self, number, wait=None):
        until = time.monotonic() + (wait or self.wait)
        while number not in self.answers:
            if not self.read(until):
                raise TimeoutError(f"no answer to {number}; {self.notes[-3:]} {self.loose[-3:]}")
        return self.answers.pop(number)

    def ask(self, method, params=None, **meta):
        return self.get(self.begin(method, params, **meta))

    def call(self, tool, **arguments):
        """The result of a tool; a JSON-RPC error is one of the test's."""
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        assert "result" in answer, answer
        return answer["result"]

    def done(self, tool, **arguments):
        """The structured content of a call that succeeded."""
        result = self.call(tool, **arguments)
        assert not result["isError"], result
        return result["structuredContent"]
