# SPDX-License-Identifier: Apache-2.0
"""run_python with a context: variables live from call to call, results to look at, bounds, programs that lie."""

import base64
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lib"))

from daemon import daemon
from harness import brig, descendants, main, test, wait_until, workspace
from mcp import LEGACY, Client

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")

# The program's own way out, from inside: what every code in a context can reach.
SAY = """import os, threading, time
line = next(t for t in threading.enumerate() if t.name == 'brig-line')
while line.open is None: time.sleep(0.01)
"""


def text(result):
    return result["content"][0]["text"]


def kinds(result):
    return [c.get("mimeType") or c.get("resource", {}).get("mimeType") for c in result["content"][1:]]


@test
def variables_live_until_a_restart():
    with Client(era=LEGACY) as c:
        assert c.done("run_python", code="import os; x = 41", context="a")["exit_code"] == 0
        r = c.call("run_python", code="print('hi'); x += 1; x", context="a")
        assert text(r) == "STDOUT:\nhi\n\nVALUE:\n42\n" and r["structuredContent"]["stdout"] == "hi\n", r
        # One process, in one sandbox; another name is another one, and so is a call without.
        pid = text(c.call("run_python", code="os.getpid()", context="a"))
        assert text(c.call("run_python", code="os.getpid()", context="a")) == pid
        for other in ({"context": "b"}, {}, {"context": True}):
            r = c.call("run_python", code="x", **other)
            assert r["isError"] and "NameError" in r["structuredContent"]["stderr"], (other, r)
        c.done("run_python", code="y = 1", context=True)
        assert "\n1\n" in text(c.call("run_python", code="y", context="main"))
        r = c.call("run_python", code="x", context="a", restart=True)
        assert r["isError"] and "NameError: name 'x'" in text(r) and "brig" not in r["structuredContent"]["stderr"], r
        for bad in ({"restart": True}, {"context": "A b"}, {"context": 3}, {"context": "a", "restart": 1}, {"context": "a", "args": "x"},
                    {"context": "a", "sandbox": "none"}):
            r = c.call("run_python", code="1", **bad)
            assert r["isError"] and text(r).startswith("Error: "), (bad, r)
        # Programs that the code starts, its children, threads, await, exit, what is written between calls.
        s = c.done("run_python", code="""
import asyncio, os, subprocess, sys, threading
subprocess.run(['sh', '-c', 'echo out; echo err >&2'])
if os.fork() == 0:
    print('child')
else:
    os.wait()
    await asyncio.sleep(0.01)
    t = threading.Timer(0.2, print, ['late'])
    t.start()
""", context="a")
        assert sorted(s["stdout"].split()) == ["child", "out"] and s["stderr"] == "err\n", s
        assert c.done("run_python", code="t.join(); print(sys.argv)", args=["p q"], context="a")["stdout"] == "late\n['', 'p q']\n"
        assert c.call("run_python", code="exit(3)", context="a")["structuredContent"]["exit_code"] == 3
        assert "still" in text(c.call("run_python", code="z = 'still'; z", context="a"))
        # In a sandbox that is there already, and gone with it.
        box = c.done("create_sandbox")["sandbox"]
        c.done("run_python", code="open('/tmp/of-it', 'w').write('x'); v = 5", context="a", sandbox=box)
        assert c.done("run_command", argv=["cat", "/tmp/of-it"], sandbox=box)["stdout"] == "x"
        assert "\n5\n" in text(c.call("run_python", code="v", context="a", sandbox=box))
        c.done("delete_sandbox", sandbox=box)
        box = c.done("create_sandbox", name="again")["sandbox"]
        assert c.call("run_python", code="v", context="a", sandbox=box)["isError"]
        # What runs in one when the server ends ends with it.
        c.begin("tools/call", {"name": "run_command", "arguments": {"argv": ["sleep", "1000"], "sandbox": box}})
        c.begin("tools/call", {"name": "run_python", "arguments": {"code": "import time; time.sleep(1000)", "context": "b"}})
        assert wait_until(lambda: "1000" in str([pathlib.Path(f"/proc/{p}/cmdline").read_bytes() for p in descendants(c.process.pid)]))
        below = descendants(c.process.pid)
    assert wait_until(lambda: not any(pathlib.Path(f"/proc/{p}").exists() for p in below))


@test
def a_context_may_be_in_a_sandbox_of_the_daemons():
    with daemon() as d, Client("--daemon", env=d.environment) as c:
        assert c.done("run_python", code="import os; x = 41", context="a")["exit_code"] == 0
        r = c.call("run_python", code="print('hi'); x += 1; x", context="a")
        assert text(r) == "STDOUT:\nhi\n\nVALUE:\n42\n" and r["structuredContent"]["stdout"] == "hi\n", r
        assert "NameError" in text(c.call("run_python", code="x", context="b"))
        r = c.call("run_python", context="a", args=["p q"], code=f"""
import sys
class Rich:
    def _repr_html_(self): return '<b>bold</b>'
    def _repr_png_(self): return {PNG!r}
    def __repr__(self): return 'rich'
display(Rich())
sys.argv
""")
        assert not r["isError"] and text(r).startswith("SHOWN:\nrich\n[text/html, 11 bytes]\n") and "VALUE:\n['', 'p q']" in text(r), r
        assert kinds(r) == ["text/html", "image/png"] == [s["mime"] for s in r["structuredContent"]["shown"]], r
        assert base64.b64decode(r["content"][2]["data"]) == PNG
        r = c.call("run_python", code="import time; time.sleep(100)", timeout=1, context="a")
        assert r["structuredContent"]["outcome"] == "timeout" and "still there" in text(r), r
        busy = c.begin("tools/call", {"name": "run_python", "arguments": {"code": "print('on', flush=True)\nwhile True: pass", "context": "a"}}, progressToken=1)
        assert wait_until(lambda: c.read(0) or c.notes)
        assert "is busy" in text(c.call("run_python", code="1", context="a"))
        c.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": busy}})
        assert wait_until(lambda: "busy" not in text(c.call("run_python", code="1", context="a")))
        assert "\n42\n" in text(c.call("run_python", code="x", context="a"))
        r = c.call("run_python", code="os._exit(7)", context="a")
        assert r["isError"] and "variables are lost" in text(r) and "exit code 7" in text(r), r
        assert "NameError" in text(c.call("run_python", code="x", context="a"))
        c.done("run_python", code="x = 1", context="a")
        assert "NameError" in text(c.call("run_python", code="x", context="a", restart=True))
        # In a sandbox that stays; those of contexts are not among them, and there are no more than eight.
        box = c.done("create_sandbox")["sandbox"]
        c.done("run_python", code="open('/tmp/of-it', 'w').write('x'); v = 5", context="a", sandbox=box)
        assert c.done("run_command", argv=["cat", "/tmp/of-it"], sandbox=box)["stdout"] == "x"
        assert "\n5\n" in text(c.call("run_python", code="v", context="a", sandbox=box))
        assert [b["sandbox"] for b in c.done("list_sandboxes")["sandboxes"]] == [box]
        # One whose sandbox has ended says so.
        c.done("run_python", code="kept = 9", context="b")
        own = next(b["id"] for b in d.call("GET", "/v1/sandboxes").json["sandboxes"] if b["name"] == "context-b")
        d.do(own, "stop")
        r = c.call("run_python", code="kept", context="b")
        assert "NameError" in text(r) and "had ended" in text(r), r
        for i in range(6):
            c.done("run_python", code="1", context=f"n{i}")
        assert "8 contexts" in text(c.call("run_python", code="1", context="one-too-many"))


@test
def results_are_content():
    with Client() as c:
        r = c.call("run_python", context="a", code=f"""
class Rich:
    def _repr_html_(self): return '<b>bold</b>'
    def _repr_svg_(self): return '<svg/>'
    def _repr_markdown_(self): return '**b**'
    def _repr_json_(self): return {{'a': [1]}}
    def _repr_png_(self): return {PNG!r}
    def __repr__(self): return 'rich'
display(Rich())
class Bundle:
    def _repr_mimebundle_(self, **_): return {{'text/latex': '$x$', 'application/x-other': 'no', 'image/png': b'no image'}}
    def _repr_html_(self): raise ValueError
Bundle()
""")
        assert not r["isError"] and text(r).startswith("SHOWN:\nrich\n[text/html, 11 bytes]\n") and "VALUE:\n<__main__.Bundle" in text(r), r
        assert kinds(r) == ["text/html", "text/markdown", "image/svg+xml", "application/json", "image/png", "text/latex"], r
        assert [s["mime"] for s in r["structuredContent"]["shown"]] == kinds(r)
        by = dict(zip(kinds(r), r["content"][1:]))
        assert by["text/html"]["type"] == "resource" and by["text/html"]["resource"]["text"] == "<b>bold</b>"
        assert by["image/png"]["type"] == "image" and base64.b64decode(by["image/png"]["data"]) == PNG
        assert json.loads(by["application/json"]["resource"]["text"]) == {"a": [1]}
        # matplotlib, as far as it is needed: pyplot with one figure open.
        folder = workspace() / "matplotlib"
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        (folder / "pyplot.py").write_text(f"""
import os
open_ = []
class Figure:
    def savefig(self, to, **_): to.write({PNG!r})
def figure(n=None):
    show.__signature__ = 1  # as in 3.6, when the first figure chooses the backend
    if n is None:
        open_.append(Figure())
    return open_[(n or len(open_)) - 1]
def get_fignums(): return list(range(1, len(open_) + 1))
def close(f): open_.remove(f)
def show(): raise RuntimeError('of the backend')
assert os.environ['MPLBACKEND'] == 'agg'
""")
        r = c.call("run_python", code="import matplotlib.pyplot as plt\nplt.figure()\nplt.show()\nf = plt.figure()\n1;", context="a")
        assert not r["isError"] and kinds(r) == ["image/png", "image/png"], r
        assert kinds(c.call("run_python", code="1", context="a")) == []


@test(as_user="user")
def a_context_is_bounded():
    with Client("--output-limit", "1k", "--timeout", "30s") as c:
        s = c.done("run_python", code="for i in range(20000): print(i)", context="a")
        assert len(s["stdout"]) <= 1024 and s["stdout_truncated"] and "output" in s["limits_hit"], s
        s = c.call("run_python", code="import os; b = 'x' * (1 << 20)\nos.write(2, b.encode())\nfor i in range(40): display(b)", context="a")
        assert len(text(s)) < 3 << 20 and "left out" in text(s) and not s["isError"], text(s)[-300:]
        r = c.call("run_python", code="class H:\n def _repr_html_(self): return 'y' * (5 << 20)\nH()", context="a")
        assert "left out" in text(r) and kinds(r) == [], r
        # A time limit interrupts, and takes nothing away from who lets itself be interrupted.
        for code in ("kept = 7\nimport time\ntime.sleep(100)", "while True: pass", "import asyncio\nawait asyncio.sleep(100)",
                     "import subprocess; subprocess.run(['sleep', '100'])"):
            r = c.call("run_python", code=code, timeout=1, context="a")
            assert r["isError"] and r["structuredContent"]["outcome"] == "timeout" and "still there" in text(r), (code, r)
        assert "\n7\n" in text(c.call("run_python", code="kept", context="a"))
        r = c.call("run_python", code="while True:\n  try:\n    time.sleep(9)\n  except BaseException: pass", timeout=1, context="a")
        assert r["isError"] and r["structuredContent"]["outcome"] == "timeout" and "variables are lost" in text(r), r
        r = c.call("run_python", code="kept", context="a")
        assert "NameError" in text(r), r
        # One call at a time; a cancelled one leaves the rest.
        c.done("run_python", code="kept = 8", context="a")
        busy = c.begin("tools/call", {"name": "run_python", "arguments": {"code": "print('on', flush=True)\nwhile True: pass", "context": "a"}},
                       progressToken=1)
        assert wait_until(lambda: c.read(0) or c.notes)
        assert "is busy" in text(c.call("run_python", code="1", context="a"))
        c.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": busy}})
        assert wait_until(lambda: "busy" not in text(c.call("run_python", code="1", context="a")))
        assert "\n8\n" in text(c.call("run_python", code="kept", context="a"))
        for i in range(7):
            c.done("run_python", code="1", context=f"n{i}")
        r = c.call("run_python", code="1", context="one-too-many")
        assert r["isError"] and "8 contexts" in text(r), r


def answer(**members):
    return json.dumps(members)


# What a program could write in place of an answer; {n} is the number of the call. The first is a control: it is taken.
LIES = {
    "shown": (answer(type="show", id="N", value=False, data={"text/plain": "forged"}), True),
    "early end": (answer(type="done", id="N", end="ok", code=0), None),
    "other call": (answer(type="out", id=99, stream="stdout", text="forged"), False),
    "no JSON": ("forged", False),
    "not an object": ("[1]", False),
    "deep": ("[" * 100000, False),
    "many": ("[" + "1," * 100000 + "1]", False),
    "unknown type": (answer(type="obey", id="N"), False),
    "a member more": (answer(type="out", id="N", stream="stdout", text="x", more=1), False),
    "twice the same": ('{"type":"out","type":"done","id":"N","stream":"stdout","text":"x"}', False),
    "ready again": (answer(type="ready", id=0), False),
    "unknown kind": (answer(type="show", id="N", value=False, data={"text/x-shell": "x"}), False),
    "no image": (answer(type="show", id="N", value=False, data={"image/png": base64.b64encode(b"GIF89a").decode()}), False),
    "no base64": (answer(type="show", id="N", value=False, data={"image/png": "iVBORw0KGgo\"<script>".replace('"', "'")}), False),
    "a code of 256": (answer(type="done", id="N", end="ok", code=256), False),
    "a NUL": (answer(type="out", id="N", stream="stdout", text="\0"), False),
    "half a character": ('{"type":"out","id":"N","stream":"stdout","text":"\\ud800"}', False),
}


@test(as_user="user")
def what_is_no_answer_ends_the_context_alone():
    with Client() as c:
        c.done("run_python", code="kept = 1", context="other")
        for name, (line, taken) in LIES.items():
            line = line.replace('"N"', "N")
            r = c.call("run_python", context="a", code="v = 1\n" + SAY + f"text = {line!r}.replace('N', str(line.open))\n"
                       "os.write(line.fd, text.encode() + b'\\n')\ntime.sleep(0.2)\nprint('after')")
            if taken:
                assert "SHOWN:\nforged" in text(r) and "after" in text(r), (name, r)
                continue
            if taken is None:  # it ended the call; what comes now is no answer to anything
                assert not r["isError"] and "after" not in text(r), (name, r)
                assert "no answer" in text(c.call("run_python", code="1", context="a")), name
                continue
            assert r["isError"] and "variables are lost" in text(r) and "no answer" in text(r) and "after" not in text(r), (name, r)
        assert "NameError" in text(c.call("run_python", code="v", context="a"))
        for code, why in (("os.write(line.fd, b'x' * (20 << 20))", "too long"), ("os._exit(7)", "exit code 7"), ("os.kill(os.getpid(), 9)", "signal 9"),
                          ("os.close(line.fd); time.sleep(99)", "variables are lost"),
                          ("os.execvp('sleep', ['sleep', '99'])", "variables are lost")):
            r = c.call("run_python", code=SAY + code, context="a", timeout=1)
            assert r["isError"] and why in text(r), (code, r)
        assert "\n1\n" in text(c.call("run_python", code="kept", context="other"))


@test
def what_a_context_may_do_is_what_its_sandbox_may():
    with Client() as c:
        for code in ("import socket\nsocket.create_connection(('192.0.2.1', 80), 1)", "open('/etc/passwd', 'a')"):
            r = c.call("run_python", context="a", code=code)
            assert r["isError"] and r["structuredContent"]["exit_code"] == 1 and "Error: [Errno" in text(r), r
        # What is found when its sandbox ends is told by the call that ends it.
        c.done("run_python", context="a", code="open('.envrc', 'w').write('x')\nimport os; os.listdir()")
        r = c.call("run_python", context="a", code="1", restart=True)
        assert "Denied by the sandbox" in text(r) and text(r).count(".envrc") == 1, r
        assert [(d["kind"], d["target"]) for d in r["structuredContent"]["denials"]] == [("protected-path", ".envrc")], r
        assert "Denied" not in text(c.call("run_python", context="a", code="2"))
    assert not (workspace() / ".envrc").exists()


ASK = "import socket\nsocket.getaddrinfo(%r, 443)"


def repository():
    subprocess.run(["git", "init", "-q", workspace()], check=True)


def targets(result):
    return [d["target"] for d in result["structuredContent"]["denials"]]


def each_call_is_told_what_it_was_denied(c, **where):
    # What a call was denied belongs to it alone, as to a command; so does the reason that it may have failed for.
    for name in ("tracker.example.org", "other.example.org", "tracker.example.org"):
        r = c.call("run_python", code=ASK % name, **where)
        assert targets(r) == [name] and f"names asked for: {name}. Setting: egress.allow" in text(r), r
        assert text(r).count(name) == 1 + (name in r["structuredContent"]["stderr"]), r
    assert targets(c.call("run_python", code="1", **where)) == []
    r = c.call("run_python", code="open('.git/config', 'a').write('x')", **where)
    assert targets(r) == [".git/config"] and "Hint for the user: '.git/config' is protected" in text(r), r
    r = c.call("run_python", code="open('/etc/shadow')", **where)
    assert targets(r) == [] and "Denied" not in text(r), r
    # They were told: its end says nothing of them again.
    r = c.call("run_python", code="1", restart=True, **where)
    assert targets(r) == [] and "Denied" not in text(r), r


@test
def a_call_of_a_context_is_told_what_a_command_is():
    repository()
    with Client() as c:
        each_call_is_told_what_it_was_denied(c, context="a")
        box = c.done("create_sandbox")["sandbox"]
        each_call_is_told_what_it_was_denied(c, context="a", sandbox=box)
        assert "Denied" not in text(c.call("delete_sandbox", sandbox=box))


@test
def the_list_of_runs_says_which_is_which():
    with Client() as c:
        c.done("run_python", code="1", context="data")
        c.done("run_python", code="1", context="plots")
        c.done("create_sandbox", name="mine")
        c.done("write_file", path="f", text="x")
    names = {r.get("name") or r.get("argv0") for r in brig("audit", "runs", "--json").json}
    assert {"context data", "context plots", "mine", "write_file"} <= names, names
    said = brig("audit", "runs").text
    assert all(n in said for n in ("  context data  ", "  context plots  ", "  mine  ", "  write_file  ")), said


@test
def so_is_one_in_a_sandbox_of_the_daemons():
    repository()
    with daemon() as d, Client("--daemon", env=d.environment) as c:
        each_call_is_told_what_it_was_denied(c, context="a")


@test
def what_the_door_denies_is_told_to_the_call_once():
    with Client("--allow", "allowed.example.org") as c:
        go = "import urllib.request\ntry: urllib.request.urlopen('https://denied.example.org/')\nexcept OSError: pass"
        for _ in range(2):
            assert targets(c.call("run_python", code=go, context="a")) == ["denied.example.org:443"]
        r = c.call("run_python", code="1", context="a", restart=True)
        assert targets(r) == [] and "denied.example.org" not in text(r), r


if __name__ == "__main__":
    sys.exit(main())
