#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One-shot runs, notes, and what changes under a sandbox: its hosts, the ceiling, the tokens, the keys."""

import base64
import hashlib
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import daemon, daemon_with_tokens, token  # noqa: E402
from harness import PATIENCE, files_as_root, main, scratch, state, test, wait_until, workspace  # noqa: E402

WAIT = 10 * PATIENCE


def boxes(d):
    return d.call("GET", "/v1/sandboxes").json["sandboxes"]


@test
def a_run_answers_with_the_result_and_leaves_nothing():
    with daemon() as d:
        body = {"spec": {"workspace": {"path": str(workspace())}}, "command": "read x; echo $x $A; pwd; exit 3",
                "stdin": "in\n", "env": {"A": "b"}}
        a = d.call("POST", "/v1/run", body)
        assert a.status == 200 and a.json["exit_code"] == 3 and a.json["stdout"] == f"in b\n{workspace()}\n", a
        seen = [(kind, data) for kind, data, _ in d.stream("POST", "/v1/run", {"argv": ["echo", "hello"]})]
        assert [kind for kind, _ in seen] == ["start", "stdout", "end"], seen
        assert base64.b64decode(seen[1][1]["data"]) == b"hello\n" and seen[2][1]["exit_code"] == 0, seen
        assert d.call("POST", "/v1/run", {"argv": ["no-such-program"]}).json["outcome"] == "refused"
        # Its variables stand in place of the sandbox's, PATH is looked along, and each has a name.
        own = {"spec": {"env": {"set": {"A": "sandbox", "B": "kept"}}}, "command": "echo $A $B", "env": {"A": "own", "PATH": "/usr/bin:/bin"}}
        assert d.call("POST", "/v1/run", own).json["stdout"] == "own kept\n"
        assert d.call("POST", "/v1/run", {"argv": ["true"], "env": {"PATH": "/nowhere"}}).json["outcome"] == "refused"
        a = d.call("POST", "/v1/run", {"argv": ["true"], "env": {"9x": "b"}}).json
        assert a["outcome"] == "refused" and "'9x' is not a variable name" in str(a["error"]), a
        # What cannot be made is refused with the reason; a key answers again without running again.
        a = d.call("POST", "/v1/run", {"spec": {"workspace": {"path": "/no/such"}}, "argv": ["true"]})
        assert a.status >= 400 and "/no/such" in a.json["detail"], a
        count = {**body, "command": "echo once >> ran"}
        first = d.call("POST", "/v1/run", count, headers={"Idempotency-Key": "k"})
        again = d.call("POST", "/v1/run", count, headers={"Idempotency-Key": "k"})
        assert first.json == again.json and (workspace() / "ran").read_text() == "once\n"
        assert wait_until(lambda: not boxes(d), WAIT)
        assert d.call("POST", "/v1/run", {"argv": ["true"], "detach": True}).code == "invalid"


@test
def a_run_ends_with_its_caller():
    with daemon() as d:
        body = json.dumps({"spec": {"workspace": {"path": str(workspace())}}, "command": ": > began; sleep 600"}).encode()
        s = d.dial()
        s.sendall(b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        assert wait_until((workspace() / "began").exists, WAIT) and boxes(d)
        s.close()
        assert wait_until(lambda: not boxes(d), WAIT)


@test
def notes_and_the_reason_of_a_failure_can_be_read():
    with daemon_with_tokens(a="run", r="read") as d:
        a = d.call("POST", "/v1/sandboxes?wait=true", {"spec": {"workspace": {"path": "/no/such"}}}).json
        assert a["state"] == "failed", a
        log = d.call("GET", f"/v1/sandboxes/{a['id']}/logs")
        assert log.status == 200 and "/no/such" in log.body.decode(), log
        assert d.call("GET", f"/v1/sandboxes/{a['id']}/logs", token=d.tokens["a"]).status == 404
        own = d.create(token=d.tokens["a"])["id"]
        assert d.call("GET", f"/v1/sandboxes/{own}/logs", token=d.tokens["a"]).status == 200
        assert d.call("GET", f"/v1/sandboxes/{own}/logs", token=d.tokens["r"]).code == "forbidden"


@test
def a_stream_ends_when_its_token_is_taken_back():
    with daemon_with_tokens(a="run", b="run") as d:
        box = d.create(token=d.tokens["a"])["id"]
        events = d.stream("GET", "/v1/events", token=d.tokens["a"])
        output = d.stream("POST", f"/v1/sandboxes/{box}/exec", {"command": "while :; do echo x; sleep 0.1; done"}, token=d.tokens["a"])
        other = d.stream("GET", "/v1/events", token=d.tokens["b"])
        said = iter(output)
        assert [next(said)[0] for _ in range(3)] == ["start", "stdout", "stdout"]
        lines = d.token_file.read_text().splitlines(keepends=True)
        d.token_file.write_text("".join(line for line in lines if not line.startswith("a ")))
        for stream in (events, output):
            try:
                for _ in stream:
                    pass
            except Exception as e:  # a stream that is cut has no last chunk
                assert "IncompleteRead" in repr(e) or "Connection" in repr(e), e
        # The other one is heard on: what the owner does is not of its tenant, but what it does itself is.
        d.create(token=d.tokens["b"])
        assert next(iter(other))[0] == "sandbox.accepted"
        other.close()


@test
def a_tenant_cannot_fill_the_disk_with_keys():
    with daemon_with_tokens(a="run", b="run") as d:
        d.create(token=d.tokens["a"])
        front = hashlib.sha256(b"a\0").hexdigest()[:16]
        once = state() / "brig/daemon/once"
        with files_as_root():
            for i in range(10000):
                (once / (front + f"{i:048x}")).touch()
        d.restart()
        key = {"Idempotency-Key": "one more"}
        a = d.call("POST", "/v1/sandboxes", {}, headers=key, token=d.tokens["a"])
        assert a.status == 429 and a.code == "quota", a
        # Without a key, and for others, nothing has changed.
        assert d.call("POST", "/v1/sandboxes", {}, token=d.tokens["a"]).status == 202
        assert d.call("POST", "/v1/sandboxes", {}, headers=key, token=d.tokens["b"]).status == 202
        with files_as_root():
            for i in range(10000):
                (once / (front + f"{i:048x}")).unlink()


@test
def a_resume_goes_by_the_ceiling_of_the_token_that_asks():
    with daemon_with_tokens(a="run") as d:
        tops = {"4g": scratch() / "loose.yaml", "256m": scratch() / "tight.yaml"}
        tight = token("a", "run", d.token_file)
        with files_as_root():
            for memory, file in tops.items():
                file.write_text(f"limits:\n  memory: {memory}\n")
                file.chmod(0o644)
            lines = d.token_file.read_text().splitlines()
            d.token_file.write_text("".join(f"{line} ceiling={file}\n" for line, file in zip(lines, tops.values())))
        for by, memory in ((d.tokens["a"], "4g"), (tight, "256m")):
            box = d.create(token=by)["id"]
            assert d.call("POST", f"/v1/sandboxes/{box}/stop", {}, token=by).status == 200
            a = d.call("POST", f"/v1/sandboxes/{box}/resume", token=by)
            assert a.status == 200 and a.json["spec"]["limits"]["memory"] == memory, (memory, a)
        for file in tops.values():
            file.unlink()


@test
def a_resume_goes_by_the_ceiling_of_now():
    top = scratch() / "ceiling.yaml"
    top.write_text("limits: {memory: 256m}\n")
    with daemon_with_tokens("--ceiling", top, a="run") as d:
        key = d.tokens["a"]
        box = d.create(token=key, spec={"limits": {"memory": "128m"}})["id"]
        assert d.call("POST", f"/v1/sandboxes/{box}/stop", {"grace": "0s"}, token=key).status == 200
        top.write_text("limits: {memory: 64m}\n")
        d.restart()
        a = d.call("POST", f"/v1/sandboxes/{box}/resume", token=key)
        assert a.status == 403 and a.code == "policy-ceiling" and "limits.memory" in a.json["detail"], a
        # Nor may the owner resume it for the tenant; and with room again it is as it was asked for.
        assert d.call("POST", f"/v1/sandboxes/{box}/resume").code == "policy-ceiling"
        top.write_text("limits: {memory: 512m, pids: 77}\n")
        d.restart()
        a = d.call("POST", f"/v1/sandboxes/{box}/resume", token=key)
        assert a.status == 200 and a.json["state"] == "ready", a
        assert (a.json["spec"]["limits"]["memory"], a.json["spec"]["limits"]["pids"]) == ("128m", "77"), a.json["spec"]
    top.unlink()


@test
def hosts_can_be_taken_away_from_a_stopped_sandbox():
    with daemon() as d:
        box = d.create(spec={"network": "proxy", "egress": {"allow": ["a.example", "b.example"]}})["id"]
        narrow = {"egress": {"allow": ["b.example"]}}
        a = d.call("PATCH", f"/v1/sandboxes/{box}", narrow)
        assert a.status == 409 and "stop" in a.json["hint"], a
        d.call("POST", f"/v1/sandboxes/{box}/stop", {"grace": "0s"})
        for more in (["c.example"], ["*.b.example"], ["b.example", "c.example"]):
            a = d.call("PATCH", f"/v1/sandboxes/{box}", {"egress": {"allow": more}})
            assert a.status == 403 and a.code == "policy-ceiling", a
        assert d.call("PATCH", f"/v1/sandboxes/{box}", {"egress": {"allow": ["b.example"], "groups": []}}).code == "invalid"
        a = d.call("PATCH", f"/v1/sandboxes/{box}", narrow)
        assert a.status == 200 and a.json["spec"]["egress"]["allow"] == ["b.example"], a
        assert d.call("PATCH", f"/v1/sandboxes/{box}", {"egress": {"allow": ["a.example"]}}).code == "policy-ceiling"
        a = d.call("POST", f"/v1/sandboxes/{box}/resume")
        assert a.status == 200 and a.json["spec"]["egress"]["allow"] == ["b.example"], a


if __name__ == "__main__":
    sys.exit(main())
