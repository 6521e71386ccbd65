#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon's HTTP interface: every route, as a program would use it."""

import base64
import pathlib
import re
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import daemon, daemon_with_tokens  # noqa: E402
from harness import brig, home, main, scratch, test, wait_until, workspace  # noqa: E402

BOX = {"spec": {"workspace": {"path": None}}}


def written(events):
    """What a stream of a command's events brought: stdout, stderr, the object at its end."""
    out = {"stdout": b"", "stderr": b""}
    for kind, data, _ in events:
        if kind in out:
            assert data["seq"] >= 0
            out[kind] += base64.b64decode(data["data"], validate=True)
        if kind == "end":
            return out["stdout"], out["stderr"], data
    raise AssertionError("the stream ended without an end")


@test
def a_sandbox_lives_from_create_to_delete():
    with daemon() as d:
        box = d.create(name="one", labels={"team": "red"}, spec={"workspace": {"path": str(workspace())}})
        assert re.fullmatch(r"sb_[a-z2-7]{26}", box["id"]) and box["name"] == "one" and box["labels"] == {"team": "red"}, box
        assert box["backend"] == "native" and box["isolation"]["network"] == "none" and box["execs_running"] == 0, box
        (workspace() / "file").write_text("seen\n")
        done = d.exec("one", "cat", "file")
        assert (done["exit_code"], done["stdout"], done["outcome"]) == (0, "seen\n", "exited"), done
        assert d.exec(box["id"], "sh", "-c", "exit 7")["exit_code"] == 7
        assert d.call("GET", "/v1/sandboxes/one").json["id"] == box["id"]
        stopped = d.call("POST", "/v1/sandboxes/one/stop", {"grace": "1s"})
        assert stopped.status == 200 and stopped.json["state"] == "stopped", stopped
        assert d.call("POST", "/v1/sandboxes/one/stop").json["state"] == "stopped", "stop is not idempotent"
        assert d.call("POST", "/v1/sandboxes/one/exec", {"argv": ["true"]}).code == "sandbox-not-ready"
        assert d.call("POST", "/v1/sandboxes/one/resume").json["state"] in ("ready", "pending")
        assert wait_until(lambda: d.call("GET", "/v1/sandboxes/one").json["state"] == "ready")
        assert d.exec("one", "true")["exit_code"] == 0
        assert d.call("DELETE", "/v1/sandboxes/one").status == 204
        assert d.call("GET", "/v1/sandboxes/one").code == "not-found"
        assert d.create(name="one")["id"] != box["id"], "an id was used again"


@test
def a_command_is_streamed_and_can_be_found_again():
    with daemon() as d:
        box = d.create()["id"]
        s = d.stream("POST", f"/v1/sandboxes/{box}/exec", {"command": "echo out; echo err >&2; read x; echo $x", "stdin_open": True})
        assert s.status == 200
        kind, start, _ = next(iter(s))
        assert kind == "start" and start["exec"].startswith("ex_"), start
        at = f"/v1/sandboxes/{box}/execs/{start['exec']}"
        assert d.call("GET", at).json["state"] == "running"
        s.close()  # the command goes on
        again = d.stream("GET", f"{at}/stream")
        said = d.call("POST", f"{at}/stdin?close=true", b"later\n", {"Content-Type": "application/octet-stream"})
        assert said.status == 204, said
        out, err, end = written(again)
        assert (out, err, end["exit_code"]) == (b"out\nlater\n", b"err\n", 0), (out, err, end)
        out, err, end = written(d.stream("GET", f"{at}/stream?from=4"))
        assert b"out" not in out and out.endswith(b"later\n"), out
        assert [e["id"] for e in d.call("GET", f"/v1/sandboxes/{box}/execs").json["execs"]] == [start["exec"]]
        assert d.call("POST", f"{at}/signal", {"signal": "TERM"}).code == "exec-ended"


@test
def a_command_takes_input_variables_a_folder_and_a_time_limit():
    with daemon() as d:
        box = d.create()["id"]
        assert d.exec(box, "cat", stdin="a\0b".replace("\0", "x") * 50000)["stdout_bytes"] == 150000
        done = d.exec(box, "sh", "-c", "echo $A; pwd", env={"A": "b c"}, cwd="/tmp")
        assert done["stdout"] == "b c\n/tmp\n", done
        assert d.exec(box, "sleep", "60", timeout="100ms")["outcome"] == "timeout"
        started = d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["sleep", "60"], "detach": True})
        assert started.status == 202, started
        at = f"/v1/sandboxes/{box}/execs/{started.json['exec']}"
        assert wait_until(lambda: d.call("POST", f"{at}/signal", {"signal": "SIGKILL"}).status == 204)
        assert written(d.stream("GET", f"{at}/stream"))[2]["signal"] == 9
        started = d.call("POST", f"/v1/sandboxes/{box}/exec", {"command": "sleep 60 & sleep 60", "detach": True})
        at = f"/v1/sandboxes/{box}/execs/{started.json['exec']}"
        assert d.call("POST", f"{at}/cancel").status == 204
        assert written(d.stream("GET", f"{at}/stream"))[2]["outcome"] == "cancelled"


@test
def a_command_is_listed_from_the_moment_its_id_is_known():
    with daemon() as d:
        box = d.create()["id"]
        began = []
        for _ in range(30):
            began.append(d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["sleep", "60"], "detach": True}).json["exec"])
            listed = d.call("GET", f"/v1/sandboxes/{box}/execs").json["execs"]
            assert [e["id"] for e in listed] == sorted(began) and {e["state"] for e in listed} == {"running"}, listed
        doc = d.call("GET", "/openapi.json").json["components"]["schemas"]
        assert set(listed[0]) == set(doc["Exec"]["properties"])
        assert set(d.call("GET", f"/v1/sandboxes/{box}").json) == set(doc["Sandbox"]["properties"])


@test
def lists_have_pages_labels_and_states():
    with daemon() as d:
        ids = [d.create(labels={"n": str(i % 2), "all": "x"}, **BOX)["id"] for i in range(5)]
        got, cursor = [], ""
        while cursor is not None:
            page = d.call("GET", f"/v1/sandboxes?limit=2&cursor={cursor}" if cursor else "/v1/sandboxes?limit=2").json
            assert len(page["sandboxes"]) <= 2
            got += [b["id"] for b in page["sandboxes"]]
            cursor = page["next"]
        assert sorted(got) == sorted(ids), got
        named = d.call("GET", "/v1/sandboxes?label=n%3D1&label=all=x").json["sandboxes"]
        assert sorted(b["id"] for b in named) == sorted(ids[1::2])
        assert not d.call("GET", "/v1/sandboxes?state=stopped").json["sandboxes"]
        changed = d.call("PATCH", f"/v1/sandboxes/{ids[0]}", {"name": "new", "labels": {"n": "1"}, "idle_ttl": "1h"})
        assert changed.status == 200 and changed.json["name"] == "new" and changed.json["labels"] == {"n": "1"}, changed
        assert d.call("PATCH", f"/v1/sandboxes/{ids[1]}", {"name": "new"}).code == "name-taken"
        assert d.call("PATCH", f"/v1/sandboxes/{ids[1]}", {"spec": {}}).code == "invalid"
        assert d.call("DELETE", "/v1/sandboxes").code == "invalid", "an empty selector deletes everything"
        gone = d.call("DELETE", "/v1/sandboxes?label=n=1")
        assert gone.status == 202 and sorted(gone.json["sandboxes"]) == sorted([ids[0], ids[1], ids[3]]), gone
        assert wait_until(lambda: len(d.call("GET", "/v1/sandboxes").json["sandboxes"]) == 2)


@test
def a_request_with_a_key_is_done_once_also_after_a_restart():
    with daemon() as d:
        key = {"Idempotency-Key": "k1"}
        one = d.call("POST", "/v1/sandboxes", {"name": "a"}, key)
        two = d.call("POST", "/v1/sandboxes", {"name": "a"}, key)
        assert one.status == two.status == 202 and one.json["id"] == two.json["id"] and two.headers["Idempotent-Replayed"] == "true"
        assert d.call("POST", "/v1/sandboxes", {"name": "b"}, key).code == "idempotency-mismatch"
        d.restart(signal.SIGKILL)
        assert d.call("POST", "/v1/sandboxes", {"name": "a"}, key).json["id"] == one.json["id"]
        assert wait_until(lambda: d.call("GET", "/v1/sandboxes/a").json["state"] == "ready")
        run = {"command": "echo x >> /tmp/n; wc -l < /tmp/n"}
        first = d.call("POST", "/v1/sandboxes/a/exec", run, {"Idempotency-Key": "k2"})
        again = d.call("POST", "/v1/sandboxes/a/exec", run, {"Idempotency-Key": "k2"})
        assert first.json["stdout"].strip() == again.json["stdout"].strip() == "1", (first, again)
        assert d.call("POST", "/v1/sandboxes/a/exec", run, {"Idempotency-Key": "k3"}).json["stdout"].strip() == "2"
        assert len(d.call("GET", "/v1/sandboxes").json["sandboxes"]) == 1
        assert d.call("POST", "/v1/sandboxes", {}, {"Idempotency-Key": "x" * 300}).code == "invalid"


@test
def refusals_say_what_is_wrong_and_what_to_do():
    with daemon() as d:
        assert d.call("GET", "/v1/nothing").code == "not-found"
        other = d.call("PUT", "/v1/sandboxes", b"")
        assert other.status == 405 and other.headers["Allow"] == "POST, GET, DELETE" and other.code == "invalid"
        wrong = d.call("POST", "/v1/sandboxes", {"nmae": "x"})
        assert wrong.status == 400 and wrong.code == "invalid" and "name" in wrong.json["hint"], wrong
        assert d.call("POST", "/v1/sandboxes", {"name": 7}).json["detail"] == "'name' must be a string"
        assert "not JSON" in d.call("POST", "/v1/sandboxes", b"{", {"Content-Type": "application/json"}).json["detail"]
        assert d.call("POST", "/v1/sandboxes", b'{"name":"a","name":"b"}', {"Content-Type": "application/json"}).code == "invalid"
        assert d.call("POST", "/v1/sandboxes", b"{}", {"Content-Type": "text/plain"}).status == 415
        bad = d.call("POST", "/v1/sandboxes", {"spec": {"limits": {"memry": "1g"}}})
        assert bad.status == 400 and "memory" in bad.json["hint"], bad
        for route, more in (("sandboxes", {}), ("run", {"argv": ["true"]})):
            lost = d.call("POST", f"/v1/{route}", {"spec": {"workspace": {"path": "tmp"}}, **more})
            assert lost.code == "invalid" and "absolute" in lost.json["detail"], lost
        assert d.call("POST", "/v1/sandboxes", {"name": "../x"}).code == "invalid"
        assert d.call("POST", "/v1/sandboxes", {"idle_ttl": "soon"}).code == "invalid"
        box = d.create(name="a")["id"]
        assert d.call("POST", "/v1/sandboxes", {"name": "a"}).code == "name-taken"
        assert d.call("POST", f"/v1/sandboxes/{box}/exec", {}).code == "invalid"
        assert d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["a"], "command": "b"}).code == "invalid"
        assert d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": [""]}).code == "invalid"
        assert d.call("GET", f"/v1/sandboxes/{box}/execs/ex_none").code == "not-found"
        assert d.call("GET", "/v1/sandboxes?limit=0").code == "invalid"
        assert d.call("GET", "/v1/events?since=x").code == "invalid"


@test
def one_connection_serves_many_calls_and_streams():
    with daemon() as d:
        box = d.create()["id"]
        c = d.connection()
        for i in range(30):
            c.request("GET", f"/v1/sandboxes/{box}")
            a = c.getresponse()
            assert a.status == 200 and a.read()
            c.request("POST", f"/v1/sandboxes/{box}/exec", b'{"argv":["true"]}',
                      {"Content-Type": "application/json", "Accept": "text/event-stream"})
            a = c.getresponse()
            assert a.status == 200 and b"event: end" in a.read(), i
        c.request("HEAD", "/v1/info")
        a = c.getresponse()
        assert a.status == 200 and int(a.headers["Content-Length"]) > 10 and not a.read()
        c.request("POST", "/v1/sandboxes?wait=true", iter([b'{"na', b'me":"chunked"}']), {"Content-Type": "application/json"}, encode_chunked=True)
        a = c.getresponse()
        assert a.status == 201 and b"chunked" in a.read()
        c.close()
        with d.dial() as s:
            s.sendall(b"POST /v1/sandboxes/x/stop HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                      b"Expect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n")
            assert s.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
            s.sendall(b"{}")
            assert s.recv(4096).startswith(b"HTTP/1.1 404 ")


@test
def the_openapi_document_names_every_route_and_nothing_else():
    with daemon() as d:
        doc = d.call("GET", "/openapi.json").json
        assert doc["openapi"] == "3.1.0" and doc["info"]["title"] == "brig"
        refs = set(re.findall(r"#/components/schemas/(\w+)", str(doc)))
        assert refs <= set(doc["components"]["schemas"]), refs
        # A reference to "#" is to the whole document, which is no schema.
        assert set(re.findall(r"'\$ref': '([^']*)'", str(doc))) == {f"#/components/schemas/{name}" for name in refs}
        assert doc["components"]["schemas"]["Spec"]["properties"]["daemon"]["properties"]["ceiling"]["$ref"] == "#/components/schemas/Spec"
        for path, operations in doc["paths"].items():
            at = path.replace("{id}", "no-such").replace("{exec}", "ex_no")
            allowed = d.call("TRACE", at)
            assert allowed.status == 405, (path, allowed)
            assert set(allowed.headers["Allow"].split(", ")) == {m.upper() for m in operations}, path
            for method, operation in operations.items():
                assert operation["operationId"] and operation["summary"] and operation["responses"]
                assert {p["name"] for p in operation["parameters"] if p["in"] == "path"} == set(re.findall(r"{(\w+)}", path)), (method, path)


@test
def a_parameter_that_nobody_reads_is_refused_and_named():
    with daemon() as d:
        box = d.create()["id"]
        for method, target, word, hint in (("GET", "/v1/sandboxes?limt=1", "limt", "limit"), ("GET", "/v1/events?follow=false&sinec=1", "sinec", "since"),
                                           ("POST", f"/v1/sandboxes/{box}/pause?grace=1s", "grace", None), ("GET", "/v1/info?a=b", "a", None),
                                           ("GET", "/v1/sandboxes?" + "x" * 300, "x" * 60, None)):
            a = d.call(method, target)
            assert (a.status, a.code) == (400, "invalid") and f"'{word}'" in a.json["detail"], (target, a)
            assert not hint or hint in a.json["hint"], a
        assert d.call("GET", "/v1/sandboxes?&limit=1&").status == 200
        assert d.call("GET", f"/v1/sandboxes/{box}").json["state"] == "ready"
        for target in ("/v1/sandboxes?state=raedy", "/v1/sandboxes?cursor=zzz", "/v1/sandboxes?cursor=sb_", "/v1/sandboxes?label=team"):
            a = d.call("GET", target)
            assert (a.status, a.code) == (400, "invalid"), (target, a)
        assert [b["id"] for b in d.call("GET", "/v1/sandboxes?state=ready").json["sandboxes"]] == [box]
        assert d.call("GET", f"/v1/sandboxes?cursor={box}").json["sandboxes"] == []


@test
def a_caller_need_not_wait_for_what_takes_time():
    with daemon() as d:
        box = d.create()["id"]
        d.exec(box, "true")
        a = d.call("POST", f"/v1/sandboxes/{box}/stop?wait=false", {"grace": "0s"})
        assert a.status == 202 and a.json["state"] in ("ready", "stopped"), a
        assert wait_until(lambda: d.call("GET", f"/v1/sandboxes/{box}").json["state"] == "stopped", 30)
        assert d.call("POST", f"/v1/sandboxes/{box}/resume?wait=maybe").status == 400
        a = d.call("POST", f"/v1/sandboxes/{box}/resume?wait=false")
        assert a.status == 202 and a.json["state"] in ("stopped", "pending", "ready"), a
        assert wait_until(lambda: d.call("GET", f"/v1/sandboxes/{box}").json["state"] == "ready", 30)
        assert d.call("DELETE", f"/v1/sandboxes/{box}?wait=false").status == 202
        assert wait_until(lambda: d.call("GET", f"/v1/sandboxes/{box}").status == 404, 30)
        assert d.call("DELETE", "/v1/sandboxes/no-such?wait=false").status == 404


@test
def health_and_metrics_are_told():
    with daemon() as d:
        for path in ("/healthz", "/readyz"):
            a = d.call("GET", path)
            assert (a.status, a.body) == (200, b"ok\n"), a
        d.create()
        text = d.call("GET", "/metrics").body.decode()
        assert 'brig_sandboxes{state="ready"} 1\n' in text and "brig_execs_running 0\n" in text, text
        info = d.call("GET", "/v1/info").json
        assert info["sandboxes"] == 1 and info["pid"] and info["schema"] == 1, info


@test
def a_tenant_may_only_narrow_what_the_ceiling_allows():
    with daemon_with_tokens(a="run") as d:
        key = d.tokens["a"]
        box = d.create(token=key, spec={"limits": {"memory": "64m", "pids": 50}, "env": {"set": {"LD_PRELOAD": "", "A": "b"}}})
        assert d.exec(box["id"], "sh", "-c", "echo $A; pwd", token=key)["stdout"].startswith("b\n")
        for spec, word in (({"mounts": ["/etc:/x"]}, "mounts"), ({"read": ["/etc"]}, "read"), ({"network": "host"}, "network"),
                           ({"backend": "none"}, "backend"), ({"backend": "ssh"}, "backend"), ({"image": "x"}, "image"),
                           ({"workspace": {"path": "/"}}, "workspace.path"), ({"limits": {"memory": "64g"}}, "limits.memory"),
                           ({"policy": "full_access"}, "policy"), ({"egress": {"allow": ["example.org"]}}, "egress.allow"),
                           ({"builtin_tools": ["git"]}, "builtin_tools"), ({"user": "1234"}, "user"), ({"profile": "debug"}, "profile"),
                           ({"labels": {"a": "b"}}, "labels"), ({"allow_full_access": True}, "allow_full_access"), ({"audit": {"enabled": False}}, "audit.enabled"),
                           ({"credentials": {"X": {"host": "example.org", "from": {"file": "/etc/shadow"}}}}, "credentials")):
            a = d.call("POST", "/v1/sandboxes", {"spec": spec}, token=key)
            assert a.status == 403 and a.code == "policy-ceiling" and word in a.json["detail"], (spec, a)


@test
def a_tenants_wish_does_not_lead_past_the_backends_it_may_have():
    """Native alone has a /tmp without programs: under auto such a wish must not end in a container."""
    with daemon_with_tokens(a="run") as d:
        call = lambda spec: d.call("POST", "/v1/sandboxes?wait=true", {"spec": spec}, tcp=True, token=d.tokens["a"])  # noqa: E731
        plain, box = call({}).json, call({"limits": {"tmp_exec": False}}).json
        assert plain["spec"].get("backend", "auto") == "auto" and box["spec"]["backend"] == "native", (plain, box)
        script = "cp /bin/true /tmp/x && /tmp/x"
        run = lambda b: d.call("POST", f"/v1/sandboxes/{b['id']}/exec", {"command": script}).json["exit_code"]  # noqa: E731
        assert (run(plain), run(box)) == (0, 126)
        a = call({"backend": "bwrap", "limits": {"tmp_exec": False}})
        assert "backend 'bwrap' cannot honour" in a.body.decode(), a


@test
def the_ceiling_is_a_block_of_the_owners_own_settings():
    folder = home() / ".config/brig"
    folder.mkdir(parents=True)
    own = folder / "config.yaml"
    own.write_text("brig: 1\ndaemon:\n  ceiling:\n    limits: {memory: 96m}\n    network: proxy\n    egress: {allow: [example.org, example.com]}\n")

    def asked(d, spec, name="a"):
        return d.call("POST", "/v1/sandboxes", {"spec": spec}, token=d.tokens[name])

    def refused(d, spec, word):
        a = asked(d, spec)
        assert a.status == 403 and a.code == "policy-ceiling" and word in a.json["detail"], (spec, a)

    with daemon_with_tokens(a="run") as d:
        box = d.create(token=d.tokens["a"], spec={"egress": {"allow": ["example.org"]}})
        assert box["spec"]["limits"]["memory"] == "96m" and box["spec"]["network"] == "proxy", box["spec"]
        refused(d, {"limits": {"memory": "97m"}}, "limits.memory")
        refused(d, {"egress": {"allow": ["example.net"]}}, "egress.allow")
        refused(d, {"mounts": ["/etc:/x"]}, "mounts")
        # Not the word of a tenant, whatever it says.
        a = asked(d, {"daemon": {"ceiling": {"network": "host"}}})
        assert a.status in (400, 403) and "daemon" in a.json["detail"], a
        # The owner's own runs and sandboxes are not bounded by it, and the file is theirs, too.
        assert brig("run", "--memory", "200m", "--", "true").status == 0
        assert d.create(spec={"limits": {"memory": "200m"}})["spec"]["limits"]["memory"] == "200m"
    # One that is named wins; a token's own wins over both.
    named = scratch() / "named.yaml"
    named.write_text("brig: 1\nlimits: {memory: 80m}\n")
    with daemon_with_tokens("--ceiling", named, a="run", b="run") as d:
        refused(d, {"limits": {"memory": "96m"}}, "limits.memory")
        refused(d, {"egress": {"allow": ["example.org"]}}, "egress.allow")
        lower = scratch() / "lower.yaml"
        lower.write_text("brig: 1\nlimits: {memory: 70m}\n")
        text = d.token_file.read_text().splitlines()
        d.token_file.write_text("".join(f"{line} ceiling={lower}\n" if line.startswith("b ") else f"{line}\n" for line in text))
        assert asked(d, {"limits": {"memory": "75m"}}, "b").code == "policy-ceiling"
        assert asked(d, {"limits": {"memory": "75m"}}).status == 202
    # What is read-only within something writable is not a tenant's to leave out; what stands alone is.
    for one in ("data/golden", "alone"):
        (scratch() / one).mkdir(parents=True)
    named.write_text(f"brig: 1\nwrite: [{scratch()}/data]\nread: [{scratch()}/data/golden, {scratch()}/alone]\n")
    with daemon_with_tokens("--ceiling", named, a="run") as d:
        refused(d, {"read": []}, "'read'")
        refused(d, {"read": [f"{scratch()}/alone"]}, "'read'")
        box = d.create(token=d.tokens["a"], spec={"read": [f"{scratch()}/data/golden"]})
        said = d.exec(box["id"], "sh", "-c", f"touch {scratch()}/data/x {scratch()}/data/golden/x; ls {scratch()}", token=d.tokens["a"])
        assert said["stdout"] == "data\n" and "Read-only" in said["stderr"], said
        assert [p.name for p in (scratch() / "data").iterdir() if p.is_file()] == ["x"] and not list((scratch() / "data/golden").iterdir())
    # A project has no say, trusted or not; nor has a ceiling in a ceiling.
    project = workspace() / ".brig.yaml"
    project.write_text("brig: 1\ndaemon: {ceiling: {network: host}}\n")
    for _ in range(2):
        done = brig("run", "--", "true")
        assert done.status == 125 and "'daemon' does not belong in this file" in done.errors, done
        brig("allow", "--yes", cwd=workspace())
    project.unlink()
    checked = scratch() / "checked.yaml"
    for text, why in (("daemon: {ceiling: {daemon: {ceiling: {}}}}", "'daemon' does not belong"), ("daemon: {ceiling: {limits: {memory: much}}}", "much"),
                      ("daemon: {roof: {}}", "roof"), ("daemon: [1]", "daemon"), ("demon: {}", "did you mean 'daemon'?")):
        checked.write_text(f"brig: 1\n{text}\n")
        done = brig("config", "check", checked)
        assert done.status != 0 and why in done.errors, (text, done.errors)
    assert brig("config", "check", own).status == 0
    own.write_text("brig: 1\ndaemon: {ceiling: {limits: {memory: much}}}\n")
    done = brig("daemon", env={"BRIG_HOST": f"unix://{scratch()}/s"})
    assert done.status == 125 and "much" in done.errors, done.errors
    shutil.rmtree(home() / ".config")


if __name__ == "__main__":
    sys.exit(main())
