#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""egress.ask behind `brig mcp`: the host's person is asked, by elicitation, about a name that no rule allows."""

import http.server
import json
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import record  # noqa: E402
from harness import main, scratch, state, test  # noqa: E402
from mcp import LEGACY, Client  # noqa: E402

GET = "curl -s -o /dev/null -w '%{http_code} ' http://"


class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def settings(port):
    names = dict.fromkeys(("one.test", "two.test", "three.test"), f"127.0.0.1:{port}")
    file = scratch() / "ask.yaml"
    file.write_text(json.dumps({"brig": 1, "network": "proxy", "egress": {"ask": True, "https_only": False, "resolve": names}}))
    return file


def asked(c):
    """The next question of the server's; its id and words."""
    while not any(n["method"] == "elicitation/create" for n in c.notes):
        assert c.read(time.monotonic() + c.wait), c.notes
    note = next(n for n in c.notes if n["method"] == "elicitation/create")
    c.notes.remove(note)
    return note["id"], note["params"]


def reply(c, number, **result):
    c.say({"jsonrpc": "2.0", "id": number, "result": result})


@test
def the_hosts_person_answers_and_a_host_that_cannot_ask_is_not_waited_for():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        config = settings(server.server_address[1])
        with Client("--config", config, era=LEGACY, can={"elicitation": {}}) as c:
            number = c.begin("tools/call", {"name": "run_command", "arguments": {"shell": "".join(f"{GET}{n}.test/;" for n in ("one", "one", "two", "three"))}})
            first, words = asked(c)
            assert "one.test (port 80)" in words["message"] and words["requestedSchema"]["properties"]["answer"]["enum"] == ["no", "once", "run"], words
            reply(c, "brig-ask-77", action="accept", content={"answer": "run"})  # none of ours
            reply(c, first, action="accept", content={"answer": "run"})
            second, words = asked(c)
            assert "two.test" in words["message"], words
            reply(c, second, action="decline")
            third, _ = asked(c)
            reply(c, third, action="accept", content={"answer": "always"})  # no such answer
            out = c.get(number)["result"]["structuredContent"]
            assert out["stdout"].split() == ["200", "200", "403", "403"], out
            box = c.done("create_sandbox")["sandbox"]
            number = c.begin("tools/call", {"name": "run_command", "arguments": {"shell": f"{GET}one.test/", "sandbox": box}})
            fourth, _ = asked(c)
            reply(c, fourth, action="accept", content={"answer": "once"})
            assert c.get(number)["result"]["structuredContent"]["stdout"] == "200 "
        answers = [(r["host"], r["answer"], r["by"]) for r in record.records(record.folder(state())) if r["type"] == "egress.answer"]
        assert answers == [(h, a, "the person at the MCP host") for h, a in (("one.test", "run"), ("two.test", "no"), ("three.test", "no"), ("one.test", "once"))], answers
        with Client("--config", config, era=LEGACY) as c:
            out = c.call("run_command", shell=f"{GET}one.test/")["structuredContent"]
            assert out["stdout"] == "403 " and "nobody answered" in str(out["denials"]) and not c.notes, out
        server.shutdown()


if __name__ == "__main__":
    sys.exit(main())
