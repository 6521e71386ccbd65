#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""egress.ask in a long-lived sandbox: whoever listens to the daemon's events hears of a name that no rule allows, and the owner answers."""

import base64
import contextlib
import http.server
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import record  # noqa: E402
from daemon import WAIT, daemon, daemon_with_tokens  # noqa: E402
from harness import main, state, test, wait_until  # noqa: E402

GET = "curl -s -o /dev/null -w '%{http_code}' http://"


class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.seen.append(self.headers["Host"])
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def pages(*names):
    """A server with these names, which a sandbox has no rule for; and the settings of such a sandbox."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        server.seen = []
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        to = f"127.0.0.1:{server.server_address[1]}"
        yield server, {"network": "proxy", "egress": {"ask": True, "https_only": False, "resolve": dict.fromkeys(names, to), "deny": ["denied.test"]}}
        server.shutdown()


def start(d, box, line):
    return d.call("POST", f"/v1/sandboxes/{box}/exec", {"command": line, "detach": True}).json["exec"]


def said(d, box, run):
    """What the command wrote, once it has ended."""
    assert wait_until(lambda: d.call("GET", f"/v1/sandboxes/{box}/execs/{run}").json["state"] == "ended", WAIT)
    return b"".join(base64.b64decode(e["data"]) for kind, e, _ in d.stream("GET", f"/v1/sandboxes/{box}/execs/{run}/stream") if kind == "stdout")


@test
def an_event_tells_of_a_question_and_a_route_answers_it():
    with daemon_with_tokens(ann="admin") as d, pages("one.test", "two.test", "denied.test") as (server, spec):
        box = d.create(spec=spec)["id"]
        at = f"/v1/sandboxes/{box}/questions"
        listener = d.dial()
        listener.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        assert b" 200 " in listener.recv(4096)
        run = start(d, box, f"{GET}denied.test/; {GET}one.test/; {GET}two.test/; {GET}one.test/")
        assert wait_until(lambda: d.call("GET", at).json["questions"], WAIT)
        (first,) = d.call("GET", at).json["questions"]
        number = first["question"]
        assert first == {"question": number, "host": "one.test", "port": 80} and server.seen == []
        for body, code in (({"answer": "always"}, "invalid"), ({"answer": "yes"}, "invalid")):
            assert d.call("POST", f"{at}/{number}", body).code == code
        assert d.call("POST", f"{at}/1", {"answer": "run"}).code == "not-found"  # as its door numbers it
        assert d.call("POST", f"{at}/{number}", {"answer": "run"}, token=d.tokens["ann"]).status in (403, 404)
        assert d.call("GET", at).json["questions"], "somebody else has answered"
        assert d.call("POST", f"{at}/{number}", {"answer": "run"}).status == 204
        assert wait_until(lambda: [q["host"] for q in d.call("GET", at).json["questions"]] == ["two.test"], WAIT)
        number = d.call("GET", at).json["questions"][0]["question"]
        assert d.call("POST", f"{at}/{number}", {"answer": "no"}).status == 204
        assert said(d, box, run) == b"403200403200"
        assert server.seen == ["one.test", "one.test"] and d.call("GET", at).json["questions"] == []
        told = [(e["type"], e["data"]["host"], e["data"].get("answer")) for _, e, _ in d.stream("GET", f"/v1/events?since=0&follow=false&sandbox={box}")
                if e["type"].startswith("egress.")]
        assert told == [("egress.asked", "one.test", None), ("egress.answered", "one.test", "run"), ("egress.asked", "two.test", None),
                        ("egress.answered", "two.test", "no")], told
        listener.close()
        answers = [(r["host"], r["answer"], r["by"]) for r in record.records(record.folder(state())) if r["type"] == "egress.answer"]
        assert answers == [("one.test", "run", "the owner, over the daemon's socket"), ("two.test", "no", "the owner, over the daemon's socket")], answers


@test
def an_answer_is_for_the_question_that_was_seen_and_for_no_later_one():
    """A sandbox that begins anew has a door that counts from 1 again: who is asked about one name must not have said yes to another."""
    with daemon() as d, pages("harmless.test", "evil.test") as (server, spec):
        box = d.create(spec=spec)["id"]
        at = f"/v1/sandboxes/{box}/questions"
        listener = d.dial()
        listener.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        assert b" 200 " in listener.recv(4096)
        start(d, box, f"{GET}harmless.test/")
        assert wait_until(lambda: d.call("GET", at).json["questions"], WAIT)
        (seen,) = d.call("GET", at).json["questions"]
        assert d.call("POST", f"/v1/sandboxes/{box}/stop", {"grace": "1s"}).json["state"] == "stopped"
        d.call("POST", f"/v1/sandboxes/{box}/resume")
        assert wait_until(lambda: d.call("GET", f"/v1/sandboxes/{box}").json["state"] == "ready", WAIT)
        start(d, box, f"{GET}evil.test/")
        assert wait_until(lambda: d.call("GET", at).json["questions"], WAIT)
        (now,) = d.call("GET", at).json["questions"]
        assert now["host"] == "evil.test"
        assert d.call("POST", f"{at}/{seen['question']}", {"answer": "run"}).code == "not-found"
        assert d.call("GET", at).json["questions"] == [now] and server.seen == []
        assert d.call("POST", f"{at}/{now['question']}", {"answer": "run"}).status == 204  # the control: that is how it is answered
        assert wait_until(lambda: server.seen == ["evil.test"], WAIT)
        listener.close()


@test
def where_nobody_listens_nobody_is_waited_for():
    with daemon() as d, pages("one.test") as (server, spec):
        box = d.create(spec=spec)["id"]
        r = d.exec(box, "sh", "-c", f"{GET}one.test/")
        assert r["stdout"] == "403" and "nobody answered" in str(r["denials"]) and server.seen == [], r


if __name__ == "__main__":
    sys.exit(main())
