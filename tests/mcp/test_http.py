# SPDX-License-Identifier: Apache-2.0
"""brig mcp --http: who is let in, both eras, sessions, progress, cancellation that kills, and tenants that know nothing of one another."""

import contextlib
import os
import pathlib
import re
import resource
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lib"))

from daemon import daemon, token
from harness import PATIENCE, brig, main, scratch, test, wait_until, workspace
from mcp import LEGACY, MODERN, Client
from mcp_http import Said, Server


@contextlib.contextmanager
def served(*options, era=MODERN, **how):
    with daemon() as d, Server(d, *options, era=era, **how) as s:
        s.daemon = d
        yield s


def running(what):
    """Does a process with these words run anywhere? The sandboxes are not below this test."""
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if what.encode() in path.read_bytes().replace(b"\0", b" "):
                return True
    return False


@test
def both_eras_are_served():
    with served() as s:
        found = s.ask("server/discover")["result"]
        assert found["resultType"] == "complete" and MODERN in found["supportedVersions"], found
        assert len(s.ask("tools/list")["result"]["tools"]) == 12
        assert s.done("run_command", shell="echo hi; pwd")["stdout"].startswith("hi\n")
        s.era = LEGACY
        a = s.hello()
        assert a.status == 200 and a.last["result"]["protocolVersion"] == LEGACY and len(s.session) == 32, a
        assert s.ask("ping")["result"] == {} and len(s.ask("tools/list")["result"]["tools"]) == 12
        r = s.call("run_command", shell="echo out; exit 3")
        assert r["isError"] and r["structuredContent"]["exit_code"] == 3 and r["structuredContent"]["stdout"] == "out\n", r


@test
def every_tool_works_in_sandboxes_of_the_daemon():
    with served() as s:
        assert s.done("run_python", code="import sys; print(sys.argv[1:])", args=["a b"])["stdout"] == "['a b']\n"
        assert s.done("run_script", body="#!/bin/bash\necho $WHO ${BASH_VERSION:+bash}", params={"who": "me"})["stdout"] == "me bash\n"
        assert s.done("run_command", argv=["cat"], stdin="given")["stdout"] == "given"
        assert s.call("run_command", argv=["sleep", "100"], timeout=1)["structuredContent"]["outcome"] == "timeout"
        assert s.done("write_file", path="a/b.txt", text="one\ntwo\n")["bytes"] == 8 and (workspace() / "a/b.txt").read_text() == "one\ntwo\n"
        assert s.done("read_file", path="a/b.txt", first_line=2)["text"] == "two\n"
        s.done("edit_file", path="a/b.txt", command="replace", old_text="two", new_text="three")
        assert [(m["line"], m["text"]) for m in s.done("search_files", pattern="three")["matches"]] == [(2, "three")]
        assert "a" in [x["name"] for x in s.done("list_files")["entries"]]
        assert s.call("read_file", path="none")["isError"] and s.call("read_file", path="../x")["isError"]
        large = "x" * (1 << 21)  # more than a question to the daemon may have
        assert s.done("write_file", path="large", text=large)["bytes"] == len(large) and (workspace() / "large").stat().st_size == len(large)
        assert "at most 1 MiB" in s.call("run_command", argv=["cat"], stdin=large)["content"][0]["text"]
        box = s.done("create_sandbox", name="kept")["sandbox"]
        s.done("run_command", sandbox="kept", shell="echo here >/tmp/x")
        assert s.done("read_file", sandbox=box, path="/tmp/x")["text"] == "here\n"
        assert s.call("create_sandbox", name="kept")["isError"]
        assert [(b["sandbox"], b["name"]) for b in s.done("list_sandboxes")["sandboxes"]] == [(box, "kept")]
        for wrong in ("none", "../" + box, box + "/exec", ""):
            assert s.call("run_command", sandbox=wrong, argv=["true"])["isError"], wrong
        s.done("delete_sandbox", sandbox=box)
        assert s.done("list_sandboxes")["sandboxes"] == []
        assert wait_until(lambda: not s.daemon.call("GET", "/v1/sandboxes").json["sandboxes"], 20)  # those of calls, too


@test
def denials_are_those_of_a_server_on_stdio():
    """Names that nothing answers, names that are quarantined, files to look at: whoever runs the sandbox, a call says the same."""
    line = "getent hosts tracker.example.org; echo x > .envrc; echo {} > package.json; exit 2"
    with Client() as c:
        near = c.call("run_command", shell=line)
    assert not (workspace() / ".envrc").exists()
    with served() as s:
        far = s.call("run_command", shell=line)
        assert not (workspace() / ".envrc").exists()
        denied = [(d["kind"], d["target"], d.get("setting")) for d in far["structuredContent"]["denials"]]
        assert ("network", "tracker.example.org", "egress.allow") in denied and ("protected-path", ".envrc", None) in denied, far
        texts = [re.sub("[0-9a-f]{32}", "RUN", r["content"][0]["text"]) for r in (near, far)]
        assert texts[0] == texts[1] and "package.json" in texts[0] and "RUN" in texts[0], texts
        # In one that stays, a name is told to each command that asks for it, and to no other.
        box = s.done("create_sandbox")["sandbox"]
        for asked in ("tracker.example.org", "other.example.org", "tracker.example.org", None):
            r = s.call("run_command", shell=f"getent hosts {asked}; true" if asked else "true", sandbox=box)
            assert [d["target"] for d in r["structuredContent"]["denials"]] == ([asked] if asked else []), (asked, r)
            assert ("Only the user can grant this" in r["content"][0]["text"]) == bool(asked), r


@test
def nobody_is_let_in_without_a_token():
    with served() as s:
        hello = s.message("tools/list")
        assert s.post(hello).status == 200
        for wrong in (None, "", "Bearer", "Bearer ", "Bearer x", "Basic eDp5", f"Bearer {s.token}x", f"Bearer {s.token[:-1]}"):
            a = s.post(hello, Authorization=wrong)
            assert a.status == 401 and a.headers["WWW-Authenticate"].startswith("Bearer") and a.last["code"] == "unauthenticated", (wrong, a)
        # A page that was led here, and one of another server.
        for host in ("evil.example", f"evil.example:{s.port}", "127.0.0.1", f"127.0.0.1:{s.port + 1}", f"127.0.0.1:{s.port}.evil.example", ""):
            assert s.post(hello, Host=host).status in (400, 403), host
        for origin in ("http://evil.example", "null", f"https://127.0.0.1:{s.port}", f"http://127.0.0.1:{s.port}.evil.example", f"http://localhost:{s.port + 1}", "http://"):
            assert s.post(hello, Origin=origin).status == 403, origin
        for origin in (f"http://127.0.0.1:{s.port}", f"http://localhost:{s.port}"):
            assert s.post(hello, Origin=origin, Host=f"localhost:{s.port}").status == 200, origin


@test
def what_is_no_message_is_refused():
    with served() as s:
        hello = s.message("tools/list")
        assert s.post(None, verb="GET").status == 405 and s.post(None, verb="PUT", body=b"{}").status == 405
        assert s.post(hello, path="/").status == 404 and s.post(hello, path="/mcp/x").status == 404
        assert s.post(hello, Content_Type="text/plain").status == 415 and s.post(hello, Content_Type=None).status == 415
        for body in (b"", b"{", b"[]", b"[" * 100, b'{"jsonrpc":"2.0"}', b'{"jsonrpc":"2.0","id":{},"method":"ping"}', b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]'):
            a = s.post(hello, body=body)
            assert a.status == 400 and a.last["error"]["code"] in (-32700, -32600), (body, a)
        with socket.create_connection(("127.0.0.1", s.port), 30) as c:
            c.sendall(f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\nAuthorization: Bearer {s.token}\r\nContent-Type: application/json\r\n"
                      f"Content-Length: {17 << 20}\r\n\r\n".encode())
            assert b" 413 " in c.recv(100)
        # What the fields say and the body does not.
        call = s.message("tools/call", {"name": "run_command", "arguments": {"argv": ["true"]}})
        for fields in ({"Mcp_Method": "tools/list"}, {"Mcp_Method": None}, {"Mcp_Name": "run_python"}, {"Mcp_Name": None}, {"MCP_Protocol_Version": LEGACY},
                       {"MCP_Protocol_Version": None}):
            a = s.post(call, **fields)
            assert a.status == 400 and a.last["error"]["code"] == -32020 and a.last["id"] == call["id"], (fields, a)
        assert s.post(call, Mcp_Name="=?base64?cnVuX2NvbW1hbmQ=?=").status == 200
        assert s.post(s.message("no/such")).status == 404
        old = s.message("tools/list", **{"io.modelcontextprotocol/protocolVersion": "1900-01-01"})
        a = s.post(old, MCP_Protocol_Version="1900-01-01")
        assert a.status == 400 and a.last["error"]["code"] == -32022, a


@test
def sessions_are_known_to_who_began_them():
    file = scratch() / "tokens"
    tokens = [token(name, file=file) for name in ("one", "two")]
    with served("--token-file", file, era=LEGACY) as s:
        s.token = tokens[0]
        s.hello()
        assert s.post(s.message("ping")).status == 200
        assert s.post(s.message("ping"), Mcp_Session_Id=None).status == 400
        assert s.post(s.message("ping"), Mcp_Session_Id="0" * 32).status == 404
        assert s.post(s.message("ping"), MCP_Protocol_Version="1900-01-01").status == 400
        assert s.post(s.message("ping"), Authorization=f"Bearer {tokens[1]}").status == 404  # another's
        first = s.session
        for _ in range(64):
            s.session = None
            s.hello()
        assert s.post(s.message("ping")).status == 200 and s.post(s.message("ping"), Mcp_Session_Id=first).status == 404  # the idlest had to go
        assert s.post(None, verb="DELETE").status == 204 and s.post(s.message("ping")).status == 404
        assert s.post(None, verb="DELETE").status == 404
    os.unlink(file)


@test
def tenants_know_nothing_of_one_another():
    file = scratch() / "tokens"
    tokens = {name: token(name, scope, file=file) for name, scope in (("one", "run"), ("two", "run"), ("reader", "read"))}
    with served("--token-file", file) as s:
        s.token, s.tasks = tokens["one"], True
        s.done("create_sandbox", name="mine")
        s.done("run_command", sandbox="mine", shell="echo secret >/tmp/s")
        task = s.ask("tools/call", {"name": "run_command", "arguments": {"shell": "sleep 3.5; echo over"}})["result"]
        assert task["status"] == "working", task
        s.token = tokens["two"]
        assert s.done("list_sandboxes")["sandboxes"] == [] and s.call("read_file", sandbox="mine", path="/tmp/s")["isError"]
        assert s.call("delete_sandbox", sandbox="mine")["isError"] and s.ask("tasks/get", {"taskId": task["taskId"]})["error"]["code"] == -32602
        s.done("create_sandbox", name="mine")  # the name is free there
        s.token = tokens["one"]
        assert s.done("read_file", sandbox="mine", path="/tmp/s")["text"] == "secret\n"
        assert wait_until(lambda: s.ask("tasks/get", {"taskId": task["taskId"]})["result"]["status"] == "completed", 20)
        s.token = tokens["reader"]
        assert s.post(s.message("tools/list")).status == 403
        # The owner sees all; a token of the daemon's own stands for none of them.
        names = {b["name"] for b in s.daemon.call("GET", "/v1/sandboxes").json["sandboxes"]}
        assert names - {None} == {"mine"} and s.daemon.call("GET", "/v1/sandboxes", headers={"Brig-Tenant": "@one"}).json["sandboxes"] == []
        for wrong in ("one", "@", "@../x", "@A", "@" + "a" * 80):
            assert s.daemon.call("GET", "/v1/sandboxes", headers={"Brig-Tenant": wrong}).status == 400, wrong
        # A token that is taken back ends what is being said to it.
        s.token = tokens["two"]
        c = s.begin(s.message("tools/call", {"name": "run_command", "arguments": {"argv": ["sleep", "3701"]}}))
        assert wait_until(lambda: running("sleep 3701"), 20)
        file.write_text("".join(line for line in file.read_text().splitlines(True) if not line.startswith("two ")))
        assert wait_until(lambda: not running("sleep 3701"), 20) and s.post(s.message("tools/list")).status == 401
        c.close()
    os.unlink(file)


@test
def other_settings_are_another_tenant_and_sandboxes_stay():
    """What a strict server's model may use is no sandbox of a lenient one; the same settings find theirs again."""
    with daemon() as d:
        with Server(d) as s:
            s.done("create_sandbox", name="box")
            s.done("run_command", sandbox="box", shell="echo x >/tmp/kept")
        with Server(d, "--policy", "readonly") as strict:
            assert strict.done("list_sandboxes")["sandboxes"] == [] and strict.call("run_command", sandbox="box", argv=["true"])["isError"]
            assert strict.call("write_file", path="new", text="x")["isError"] and not (workspace() / "new").exists()
        with Server(d) as s:
            assert s.done("read_file", sandbox="box", path="/tmp/kept")["text"] == "x\n"
        with Client("--daemon", env=d.environment) as c:  # on standard input and output
            assert c.done("run_command", argv=["echo", "hi"])["stdout"] == "hi\n"
            assert c.done("create_sandbox", name="by-stdio")["name"] == "by-stdio"
            assert c.done("read_file", sandbox="by-stdio", path="/usr/bin/ldd")["bytes"] >= 0
        assert "by-stdio" in {b["name"] for b in d.call("GET", "/v1/sandboxes").json["sandboxes"]}


@test
def progress_comes_as_events():
    for era in (MODERN, LEGACY):
        with served(era=era) as s:
            if era == LEGACY:
                s.hello()
            call = s.message("tools/call", {"name": "run_command", "arguments": {"shell": "for i in 1 2 3; do echo line $i; sleep 0.4; done"}}, progressToken="t")
            a = s.post(call)
            ticks = [m["params"] for m in a.all if m.get("method") == "notifications/progress"]
            assert a.type == "text/event-stream" and len(ticks) >= 2 and ticks[0]["message"] == "line 1", a
            assert all(t["progressToken"] == "t" for t in ticks) and [t["progress"] for t in ticks] == sorted({t["progress"] for t in ticks})
            assert a.last["id"] == call["id"] and a.last["result"]["structuredContent"]["stdout"] == "line 1\nline 2\nline 3\n"
            a = s.post(s.message("tools/call", {"name": "run_command", "arguments": {"shell": "echo x"}}, progressToken="t"), Accept="application/json")
            assert a.type == "application/json" and a.last["result"]["structuredContent"]["stdout"] == "x\n", a


def begin_sleep(s, seconds, **arguments):
    message = s.message("tools/call", {"name": "run_command", "arguments": {"shell": f"(sleep {seconds} &) ; exec sleep {seconds}", **arguments}})
    c = s.begin(message)
    assert wait_until(lambda: running(f"sleep {seconds}"), 20)
    return c, message


@test
def a_cancel_kills():
    with served() as s:
        s.done("create_sandbox", name="box")
        for i, arguments in enumerate(({}, {"sandbox": "box"})):
            c, _ = begin_sleep(s, 3600 + i, **arguments)
            c.close()  # which is how the new era cancels
            assert wait_until(lambda n=3600 + i: not running(f"sleep {n}"), 20), arguments
        assert s.done("run_command", sandbox="box", argv=["echo", "on"])["stdout"] == "on\n"
        s.era = LEGACY
        s.hello()
        for i, arguments in enumerate(({}, {"sandbox": "box"})):
            c, message = begin_sleep(s, 3610 + i, **arguments)
            assert s.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": message["id"]}}).status == 202
            assert wait_until(lambda n=3610 + i: not running(f"sleep {n}"), 20), arguments
            assert Said(c.getresponse()).all == []
            c.close()
        # The end of a session ends its calls, and no other's.
        c, _ = begin_sleep(s, 3620)
        first, s.session = s.session, None
        s.hello()
        other, _ = begin_sleep(s, 3621)
        assert s.post(None, verb="DELETE", Mcp_Session_Id=first).status == 204
        assert wait_until(lambda: not running("sleep 3620"), 20) and running("sleep 3621")
        for end in (c, other):
            end.close()


@test
def who_leaves_while_a_sandbox_is_made_leaves_none():
    """It would stay for its idle time, and those who come and go could have any number."""
    with served() as s:
        for n in range(24):
            tool, arguments = (("read_file", {"path": "x"}), ("create_sandbox", {}), ("write_file", {"path": "y", "text": "y"}))[n % 3]
            c = s.begin(s.message("tools/call", {"name": tool, "arguments": arguments}))
            time.sleep(n * 0.001)
            c.close()
        boxes = lambda: s.daemon.call("GET", "/v1/sandboxes").json["sandboxes"]
        # One that was ready before its caller left may stay: its own it is not.
        assert wait_until(lambda: not [b for b in boxes() if b["labels"]["brig.mcp"] == "call"], 10), boxes()
        events = s.daemon.call("GET", "/v1/events?since=0&follow=false").body
        assert b"sandbox.ready" in events, "the control: there was something to leave"


@test
def the_end_of_the_server_ends_its_calls():
    for sig in (signal.SIGTERM, signal.SIGKILL):
        with served() as s:
            s.done("create_sandbox", name="box")
            c, _ = begin_sleep(s, 3630 + sig)
            if sig == signal.SIGTERM:  # in a sandbox that stays, a command that nobody waits for is ended by who started it
                b, _ = begin_sleep(s, 3650, sandbox="box")
                b.sock.setblocking(False)
            s.process.send_signal(sig)
            s.process.wait(30 * PATIENCE)
            assert wait_until(lambda: not running(f"sleep {3630 + sig}") and not running("sleep 3650"), 20), sig
            c.close()


@test
def tasks_are_found_by_their_id():
    with served() as s:
        s.tasks = True
        task = s.ask("tools/call", {"name": "run_command", "arguments": {"argv": ["sleep", "3660"]}})["result"]
        assert task["resultType"] == "task" and task["status"] == "working", task
        assert s.ask("tasks/get", {"taskId": task["taskId"]})["result"]["status"] == "working" and running("sleep 3660")
        s.ask("tasks/cancel", {"taskId": task["taskId"]})
        assert wait_until(lambda: not running("sleep 3660"), 20)
        assert wait_until(lambda: s.ask("tasks/get", {"taskId": task["taskId"]})["result"]["status"] == "cancelled", 20)
        assert s.ask("tasks/update", {"taskId": task["taskId"], "inputResponses": {}})["result"]["resultType"] == "complete"
        s.tasks = False  # who has not said that it knows them
        a = s.post(s.message("tasks/get", {"taskId": task["taskId"]}))
        assert a.status == 400 and a.last["error"]["code"] == -32021, a


@test(as_user="user", slow=True)
def many_calls_at_once():
    """And whoever sends half of something keeps nobody out."""
    calls = 50
    with served() as s:
        slow = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(100)]
        for c in slow[:50]:
            c.sendall(b"POST /mcp HTTP/1.1\r\nHost: ")
        bad, lock, left = [], threading.Lock(), list(range(calls))

        def work():
            while True:
                with lock:
                    if not left:
                        return
                    i = left.pop()
                    message = s.message("tools/call", {"name": "run_command", "arguments": {"argv": ["echo", str(i)]}})
                a = s.post(message)
                if a.last.get("result", {}).get("structuredContent", {}).get("stdout") != f"{i}\n":
                    bad.append(a)

        threads = [threading.Thread(target=work) for _ in range(20)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not bad, bad[:3]
        for c in slow:
            c.close()


@test
def a_ceiling_of_a_token_is_not_passed_over():
    """brig mcp has settings of its own, and applies no other: who asks for one is not served in silence without it."""
    file = scratch() / "tokens"
    bound, free = token("bound", file=file), token("free", file=file)
    (scratch() / "ceiling.yaml").write_text("policy: readonly\n")
    lines = file.read_text().splitlines()
    file.write_text("".join(f"{line} ceiling={scratch() / 'ceiling.yaml'}\n" if line.startswith("bound ") else f"{line}\n" for line in lines))
    with served("--token-file", file) as s:
        s.token = bound
        write = s.message("tools/call", {"name": "write_file", "arguments": {"path": "written", "text": "x"}})
        a = s.post(write)
        assert a.status == 403 and "ceiling" in a.last["detail"] and not (workspace() / "written").exists(), a
        s.token = free  # the control
        assert s.post(write).status == 200 and (workspace() / "written").exists()
        file.write_text("".join(f"{line}\n" for line in lines))  # the file is read again
        s.token = bound
        assert s.post(s.message("tools/list")).status == 200
    os.unlink(file)
    os.unlink(scratch() / "ceiling.yaml")


@test
def strangers_keep_nobody_out():
    """Whoever is on the machine may connect; those who have shown no token make room for others."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, most))  # a quarter of it over TCP
    with served() as s, contextlib.ExitStack() as strangers:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, most), most))
        c = s.begin(s.message("tools/call", {"name": "run_command", "arguments": {"shell": ": > begun; while [ ! -e go ]; do sleep 0.05; done"}}))
        assert wait_until((workspace() / "begun").exists, 20)
        silent = [strangers.enter_context(socket.create_connection(("127.0.0.1", s.port), 20 * PATIENCE)) for _ in range(150)]
        for one in silent[::2]:
            with contextlib.suppress(OSError):
                one.sendall(b"POST /mcp HTTP/1.1\r\n")
        for _ in range(5):
            assert len(s.ask("tools/list")["result"]["tools"]) == 12
        assert silent[1].recv(1) == b"", "the oldest is still there"
        (workspace() / "go").touch()  # who had shown a token is not cut off
        assert Said(c.getresponse()).last["result"]["structuredContent"]["exit_code"] == 0
        c.close()


@test
def there_are_no_more_sandboxes_than_may_be():
    """Also when all are asked for at once: none is there yet when the first of them are counted."""
    with served() as s:
        answers = []

        def one():
            answers.append(s.call("create_sandbox")["isError"])
        threads = [threading.Thread(target=one) for _ in range(40)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        there = s.daemon.call("GET", "/v1/sandboxes").json["sandboxes"]
        assert 4 <= len(there) == answers.count(False) <= 16, (len(there), answers)
        for n in range(len(there), 17):  # one after the other there is room for exactly as many
            assert s.call("create_sandbox")["isError"] == (n == 16), n
        assert len(s.done("list_sandboxes")["sandboxes"]) == 16


@test
def what_cannot_be_served_is_said_at_the_start():
    with daemon() as d:
        for options, hint in ((("--http", "0.0.0.0:0"), "from elsewhere by ssh -L"), (("--http", "127.0.0.1:0", "--token-file", "/no/such"), "cannot open"),
                              (("--http", "127.0.0.1:0", "--policy", "full_access"), "full_access"), (("--token-file", "x"), "--token-file is for --http")):
            done = brig("mcp", *options, env=d.environment)
            assert done.status == 125 and hint in done.errors, (options, done)
        done = brig("mcp", "--http", env={"BRIG_HOST": "http://127.0.0.1:1", "BRIG_TOKEN": "x"})
        assert done.status == 125 and "its own user" in done.errors, done
        with Server(d) as s:
            again = brig("mcp", "--http", f"127.0.0.1:{s.port}", env=d.environment)
            assert again.status == 125 and "cannot listen" in again.errors, again
        assert "no entry for it is written" in brig("mcp", "install", "claude-code", "--", "--http").errors


if __name__ == "__main__":
    sys.exit(main())
