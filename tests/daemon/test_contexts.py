#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Python that stays in a daemon's sandbox: calls of a context are commands with variables, results to look at, bounds and ends."""

import base64
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import WAIT, daemon, daemon_with_tokens  # noqa: E402
from harness import brig, main, test, wait_until  # noqa: E402

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")

# The program's own way out, from inside: what every code in a context can reach.
SAY = """import os, threading, time
line = next(t for t in threading.enumerate() if t.name == 'brig-line')
while line.open is None: time.sleep(0.01)
"""


def run(d, box, code, status=200, **more):
    r = d.call("POST", f"/v1/sandboxes/{box}/exec", {"code": code, **more})
    assert r.status == status, (r.status, r.text)
    return r.json


def value(result):
    return [s["data"]["text/plain"] for s in result.get("shown", ()) if s["type"] == "value"]


def begin(d, box, code, **more):
    return d.call("POST", f"/v1/sandboxes/{box}/exec", {"code": code, "detach": True, **more}).json["exec"]


def ended(d, box, run_id):
    assert wait_until(lambda: d.call("GET", f"/v1/sandboxes/{box}/execs/{run_id}").json["state"] == "ended", WAIT)
    return d.call("GET", f"/v1/sandboxes/{box}/execs/{run_id}").json["result"]


@test
def variables_live_from_call_to_call():
    with daemon() as d:
        box = d.create()["id"]
        assert run(d, box, "import sys; x = 41; print(sys.argv)", args=["p q"])["stdout"] == "['', 'p q']\n"
        r = run(d, box, "print('hi'); x += 1; x")
        assert r["outcome"] == "exited" and r["exit_code"] == 0 and r["stdout"] == "hi\n" and value(r) == ["42"], r
        assert value(run(d, box, "x", context="main")) == ["42"]
        r = run(d, box, "x", context="b")
        assert r["exit_code"] == 1 and "NameError" in r["stderr"] and r["shown"][0]["name"] == "NameError", r
        r = run(d, box, "x", restart=True)
        assert r["exit_code"] == 1 and [s["type"] for s in r["shown"]] == ["error"], r
        # It is a command of its sandbox, and listed as one.
        run(d, box, "open('/tmp/of-it', 'w').write('x')")
        assert d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["cat", "/tmp/of-it"]}).json["stdout"] == "x"
        listed = d.call("GET", f"/v1/sandboxes/{box}/execs").json["execs"]
        assert listed[0]["context"] == "main" and listed[0]["argv"] is None and listed[0]["state"] == "ended", listed[0]
        assert "code in the context main" in brig("sandbox", "execs", box, env=d.environment).text
        # Results as they come, as events, also to who comes later.
        code = f"class R:\n def _repr_png_(self): return {PNG!r}\n def _repr_html_(self): return '<b>'\n def __repr__(self): return 'r'\ndisplay(R())\nprint(1)\n1/0"
        made = begin(d, box, code)
        ended(d, box, made)
        events = [(kind, e) for kind, e, _ in d.stream("GET", f"/v1/sandboxes/{box}/execs/{made}/stream")]
        assert [kind for kind, _ in events] == ["start", "shown", "stdout", "shown", "stderr", "end"], events
        assert events[1][1] == {"number": 1, "type": "display", "data": {"text/plain": "r", "text/html": "<b>", "image/png": base64.b64encode(PNG).decode()}}
        assert events[3][1]["name"] == "ZeroDivisionError" and events[3][1]["message"] == "division by zero" and "1/0" in events[3][1]["trace"]
        for body in ({"code": "1", "argv": ["true"]}, {"code": "1", "command": "true"}, {"code": "1", "env": {}}, {"code": "1", "tty": True}, {"code": "1", "stdin": ""},
                     {"code": "1", "context": "A b"}, {"code": "1", "context": "x" * 64}, {"argv": ["true"], "context": "a"}, {"argv": ["true"], "restart": True},
                     {"context": "a"}):
            r = d.call("POST", f"/v1/sandboxes/{box}/exec", body)
            assert r.status == 400 and r.code == "invalid", (body, r.text)
        assert d.call("POST", "/v1/run", {"code": "1"}).code == "invalid"
        other = d.create()["id"]
        assert "NameError" in run(d, other, "x")["stderr"]


@test(as_user="user")
def a_call_is_bounded_and_ends_alone():
    with daemon() as d:
        box = d.create(spec={"limits": {"output": "1k", "timeout": "30s"}})["id"]
        r = run(d, box, "for i in range(20000): print(i)")
        assert len(r["stdout"]) <= 1024 and r["stdout_truncated"] and "output" in r["limits_hit"], (len(r["stdout"]), r["stdout_truncated"], r["limits_hit"])
        r = run(d, box, "import os; b = 'x' * (1 << 20)\nos.write(2, b.encode())\nfor i in range(40): display(b)")
        assert sum(len(str(s)) for s in r["shown"]) < 17 << 20 and r["exit_code"] == 0, len(str(r))
        # A time limit interrupts, and takes nothing away from who lets itself be interrupted; so does a cancel.
        r = run(d, box, "kept = 7\nimport time\ntime.sleep(100)", timeout="1s")
        assert r["outcome"] == "timeout" and value(run(d, box, "kept")) == ["7"], r
        busy = begin(d, box, "print('on', flush=True)\ntime.sleep(100)")
        assert run(d, box, "1")["error"]["what"] == "context 'main' is busy with another call"
        assert d.call("POST", f"/v1/sandboxes/{box}/execs/{busy}/cancel").status == 204
        assert ended(d, box, busy)["outcome"] == "cancelled"
        for _ in range(12):  # at once, before it can have begun
            busy = begin(d, box, "time.sleep(100)")
            assert d.call("POST", f"/v1/sandboxes/{box}/execs/{busy}/cancel").status == 204
            r = ended(d, box, busy)
            assert r["outcome"] == "cancelled" and r["error"] is None, (r["outcome"], r["exit_code"], r["stderr"], r["error"])
        r = run(d, box, "kept")
        assert value(r) == ["7"], r
        busy = begin(d, box, "time.sleep(100)")
        assert d.call("POST", f"/v1/sandboxes/{box}/execs/{busy}/signal", {"signal": "TERM"}).status == 204  # nothing: its process is everybody's
        assert d.call("POST", f"/v1/sandboxes/{box}/execs/{busy}/signal", {"signal": "INT"}).status == 204
        assert ended(d, box, busy)["outcome"] == "exited" and value(run(d, box, "kept")) == ["7"]
        r = run(d, box, "while True:\n  try:\n    time.sleep(9)\n  except BaseException: pass", timeout="1s")
        assert r["outcome"] == "timeout" and "variables are lost" in r["error"]["what"], r
        # One that ends between two calls is missed by the next.
        run(d, box, "kept = 8\nimport os, threading\nthreading.Timer(0.2, os._exit, [7]).start()", context="b")
        time.sleep(1)
        r = run(d, box, "kept", context="b")
        assert "NameError" in r["stderr"] and [s["type"] for s in r["shown"]] == ["new", "error"] and "exit code 7" in r["shown"][0]["why"], r
        for i in range(7):
            run(d, box, "1", context=f"n{i}")
        assert "8 contexts" in run(d, box, "1", context="one-too-many")["error"]["what"]
        # A pause stops the clock of a call.
        busy = begin(d, box, "import time; time.sleep(0.5); 'slept'", timeout="2s", context="n0")
        assert d.call("POST", f"/v1/sandboxes/{box}/pause").status < 300
        time.sleep(2.5)
        assert d.call("POST", f"/v1/sandboxes/{box}/resume").status < 300
        assert ended(d, box, busy)["outcome"] == "exited"


@test(as_user="user")
def what_is_no_answer_ends_the_context_alone():
    with daemon() as d:
        box = d.create()["id"]
        run(d, box, "kept = 1", context="other")
        forged = '{"type":"show","id":%d,"value":false,"data":{"text/plain":"forged"}}'
        assert "forged" in str(run(d, box, SAY + f"os.write(line.fd, ({forged!r} % line.open).encode() + b'\\n'); time.sleep(0.2)")["shown"])  # control: taken
        for code, why in (("os.write(line.fd, b'forged\\n'); time.sleep(9)", "no answer"), ("os.write(line.fd, b'x' * (20 << 20))", "too long"),
                          ("os._exit(7)", "exit code 7"), ("os.execvp('sleep', ['sleep', '99'])", "variables are lost"),
                          ("os.write(line.fd, b'{\"type\":\"show\",\"id\":%d,\"value\":false,\"data\":{\"text/x-shell\":\"x\"}}\\n' % line.open); time.sleep(9)", "no answer")):
            r = run(d, box, SAY + code, timeout="1s")
            assert r["exit_code"] != 0 and why in r["error"]["what"], (code, r)
        assert value(run(d, box, "kept", context="other")) == ["1"]
        assert d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["true"]}).json["exit_code"] == 0


@test
def a_context_ends_with_its_sandbox_and_keeps_none_from_ending():
    with daemon() as d:
        box = d.create(idle_ttl="2s")["id"]
        assert value(run(d, box, "1")) == ["1"]
        assert wait_until(lambda: d.call("GET", f"/v1/sandboxes/{box}").json.get("state") not in ("ready", "pending"), WAIT), "a context kept it from being idle"
        box = d.create()["id"]
        busy = begin(d, box, "import time; print('up', flush=True); time.sleep(100)")
        begin(d, box, "1", context="idle")
        stream = iter(d.stream("GET", f"/v1/sandboxes/{box}/execs/{busy}/stream"))
        assert any(kind == "stdout" for kind, _, _ in stream)
        assert d.call("POST", f"/v1/sandboxes/{box}/stop").status < 300
        end = [e for kind, e, _ in stream if kind == "end"]
        assert end and any(why in end[0]["error"]["what"] for why in ("its sandbox has ended", "signal 15")), end and end[0]["error"]
        # What it may do is what its sandbox may; what it leaves under a protected name is told.
        box = d.create()["id"]
        r = run(d, box, "import socket\nsocket.create_connection(('192.0.2.1', 80), 1)")
        assert r["exit_code"] == 1 and "OSError" in str(r["shown"]), r


@test
def a_tenant_has_its_own():
    with daemon_with_tokens(ann="run", bob="run") as d:
        box = d.call("POST", "/v1/sandboxes?wait=true", {"spec": {}}, token=d.tokens["ann"]).json["id"]
        ask = {"code": "x = 1; x"}
        assert value(d.call("POST", f"/v1/sandboxes/{box}/exec", ask, token=d.tokens["ann"]).json) == ["1"]
        assert d.call("POST", f"/v1/sandboxes/{box}/exec", ask, token=d.tokens["bob"]).status == 404


if __name__ == "__main__":
    sys.exit(main())
