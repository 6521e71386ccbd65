#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks on the daemon's interface: who may not call, what may not be sent, whom it may not reach."""

import contextlib
import fcntl
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import daemon, daemon_with_tokens, token  # noqa: E402
from harness import (brig, brig_environment, descendants, files_as_root, identity, main, runtime, scratch, start_brig, state, test, uid, wait_until,  # noqa: E402
                     workspace)

# Says what the daemon at argv[1] answers to who is asking.
ASK = """
import http.client, socket, sys
c = http.client.HTTPConnection("localhost", timeout=20)
c.sock = socket.socket(socket.AF_UNIX)
c.sock.connect(sys.argv[1])
c.request(*sys.argv[2:4])
a = c.getresponse()
print(a.status, a.read().decode())
"""


def ask_as(user, path, *prefix, method="GET", target="/v1/info"):
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all", "--"] if os.geteuid() == 0 else []
    with files_as_root():
        done = subprocess.run([*become, *prefix, "/usr/bin/python3", "-c", ASK, str(path), method, target], capture_output=True,
                              text=True, env=brig_environment(), check=False, timeout=60)
    assert done.returncode == 0 or "Error" in done.stderr, done
    return done.stdout or done.stderr


@test(by_root=True)
def another_user_of_the_machine_is_refused():
    with daemon() as d:
        assert "PermissionError" in ask_as(4343, d.path), "the socket's folder is open"
        # Whatever opens the way to the socket: who calls is looked at.
        runtime().chmod(0o755)
        d.path.parent.chmod(0o755)
        d.path.chmod(0o777)
        assert ask_as(uid(), d.path).startswith("200 "), "the owner is refused"
        said = ask_as(4343, d.path)
        assert said.startswith("403 ") and "foreign-peer" in said, said
        runtime().chmod(0o700)


@test
def a_guest_with_the_callers_uid_is_refused():
    with daemon() as d:
        assert ask_as(uid(), d.path).startswith("200 ")
        for flags in (("--user", "--map-current-user"), ("--user", "--map-root-user"), ("--user", "--map-current-user", "--pid", "--fork"),
                      ("--user", "--map-current-user", "--pid", "--fork", "--mount-proc")):
            said = ask_as(uid(), d.path, "unshare", *flags)
            assert said.startswith("403 ") and "foreign-peer" in said, (flags, said)
        if identity() == "root":
            said = ask_as(uid(), d.path, "unshare", "--pid", "--fork")
            assert said.startswith("403 ") and "foreign-peer" in said, said


@test
def a_sandbox_cannot_be_shown_the_socket():
    with daemon() as d:
        probe = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({str(d.path)!r})"
        done = brig("run", "--", "python3", "-c", probe)
        assert done.status != 0 and "Error" in done.errors, done.errors
        # The folder of the user's own daemon is part of brig's state: no grant reaches it.
        own = runtime() / "brig"
        own.mkdir(mode=0o700, exist_ok=True)
        for grant in ("--read", "--write"):
            refused = brig("run", grant, own, "--", "true")
            assert refused.status == 125, (grant, refused.errors)
        own.rmdir()
        box = d.create()["id"]
        assert d.exec(box, "python3", "-c", probe)["exit_code"] != 0


@test
def a_web_page_cannot_call():
    with daemon_with_tokens(a="run") as d:
        good = {"Authorization": f"Bearer {d.tokens['a']}"}
        assert d.call("GET", "/v1/info", headers=good, tcp=True).status == 200
        for host in ("evil.example", f"evil.example:{d.port}", "127.0.0.1", f"127.0.0.2:{d.port}", f"localhost.evil:{d.port}", "localhost:1"):
            a = d.call("GET", "/v1/info", headers={**good, "Host": host}, tcp=True)
            assert a.status == 403 and a.code == "forbidden", (host, a)
        assert d.call("GET", "/v1/info", headers={**good, "Host": f"localhost:{d.port}"}, tcp=True).status == 200
        for origin in ("http://evil.example", "null", f"http://127.0.0.1:{d.port}"):
            assert d.call("GET", "/healthz", headers={"Origin": origin}, tcp=True).status == 403
            assert d.call("GET", "/v1/info", headers={"Origin": origin}).status == 403, "over the socket"
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            a = d.call("POST", "/v1/sandboxes", b"{}", {**good, "Content-Type": kind}, tcp=True)
            assert a.status == 415, (kind, a)
        a = d.call("GET", "/v1/events", headers={**good, "Upgrade": "websocket", "Connection": "Upgrade", "Host": "evil.example"}, tcp=True)
        assert a.status == 403
        assert not d.call("GET", "/v1/sandboxes").json["sandboxes"]


@test
def without_the_right_token_nothing_is_told():
    with daemon_with_tokens(a="run") as d:
        right = d.tokens["a"]
        assert d.call("GET", "/v1/sandboxes", token=right).status == 200
        for wrong in ("", "brig_", right[:-1], right + "x", right.swapcase(), "brig_" + "A" * 43, "Basic", "a" * 10000):
            a = d.call("GET", "/v1/sandboxes", headers={"Authorization": f"Bearer {wrong}"}, tcp=True)
            assert a.status == 401 and a.code == "unauthenticated" and "Bearer" in a.headers["WWW-Authenticate"], (wrong, a)
        for path in ("/v1/sandboxes", "/v1/info", "/metrics", "/openapi.json", "/v1/nothing", f"/v1/info?token={right}", f"/v1/info?access_token={right}"):
            assert d.call("GET", path, tcp=True).status == 401, path
        two = f"GET /v1/info HTTP/1.1\r\nHost: 127.0.0.1:{d.port}\r\nAuthorization: Bearer {right}\r\nAuthorization: Bearer x\r\n\r\n"
        assert b" 401 " in d.raw(two.encode(), tcp=True)
        for path in ("/healthz", "/readyz"):
            a = d.call("GET", path, tcp=True)
            assert (a.status, a.body) == (200, b"ok\n"), a
        assert right not in d.token_file.read_text(), "the token itself is in the file"
        # A token that is taken out of the file is out, without a restart; a file that others may write lets nobody in.
        kept = d.token_file.read_text()
        d.token_file.write_text("")
        assert d.call("GET", "/v1/sandboxes", token=right).status == 401
        d.token_file.write_text(kept)
        assert d.call("GET", "/v1/sandboxes", token=right).status == 200
        d.token_file.chmod(0o666)
        assert d.call("GET", "/v1/sandboxes", token=right).status == 401
        d.token_file.chmod(0o600)


@test
def scopes_hold_and_reading_shows_no_secrets():
    with daemon_with_tokens(a="run", r="read", o="admin") as d:
        r = d.tokens["r"]
        for method, path, body in (("POST", "/v1/sandboxes", {}), ("DELETE", "/v1/sandboxes/x", None), ("POST", "/v1/sandboxes/x/exec", {"argv": ["id"]}),
                                   ("GET", "/v1/sandboxes/x/execs", None), ("GET", "/v1/sandboxes/x/execs/e/stream", None),
                                   ("PATCH", "/v1/sandboxes/x", {}), ("POST", "/v1/stop", {})):
            a = d.call(method, path, body, token=r)
            assert a.status == 403 and a.code == "forbidden", (method, path, a)
        assert d.call("POST", "/v1/stop", {}, token=d.tokens["a"]).code == "forbidden"
        assert d.call("POST", "/v1/stop", {}, token=d.tokens["o"]).code == "forbidden", "the daemon can be ended from elsewhere"
        # Of the same tenant, with another scope: the settings come without variables.
        reader = token("a", "read", d.token_file)
        box = d.create(token=d.tokens["a"], spec={"env": {"set": {"SECRET": "hidden-value"}}})["id"]
        assert b"hidden-value" in d.call("GET", f"/v1/sandboxes/{box}", token=d.tokens["a"]).body
        for path in (f"/v1/sandboxes/{box}", "/v1/sandboxes", "/metrics", "/v1/events?since=0&follow=false"):
            a = d.call("GET", path, token=reader)
            assert a.status == 200 and b"hidden-value" not in a.body, (path, a)


@test
def one_tenant_cannot_see_or_touch_another():
    with daemon_with_tokens(a="run", b="run") as d:
        a, b = d.tokens["a"], d.tokens["b"]
        box = d.create(token=a, name="shared", labels={"x": "y"})["id"]
        started = d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["sleep", "60"], "detach": True}, token=a).json["exec"]
        nothing = d.call("GET", "/v1/sandboxes/sb_" + "a" * 26, token=b)
        for ref in (box, "shared"):
            at = f"/v1/sandboxes/{ref}"
            for method, path, body in (("GET", at, None), ("DELETE", at, None), ("PATCH", at, {"name": "mine"}), ("POST", at + "/stop", {}),
                                       ("POST", at + "/pause", None), ("POST", at + "/resume", None), ("POST", at + "/exec", {"argv": ["id"]}),
                                       ("GET", at + "/execs", None), ("GET", f"{at}/execs/{started}", None), ("GET", f"{at}/execs/{started}/stream", None),
                                       ("POST", f"{at}/execs/{started}/cancel", None), ("POST", f"{at}/execs/{started}/signal", {"signal": "KILL"})):
                said = d.call(method, path, body, token=b)
                assert said.status == nothing.status == 404 and said.code == "not-found", (method, path, said)
        mine = d.create(token=b, name="shared")["id"]  # names are a tenant's own
        assert d.call("GET", f"/v1/sandboxes/{mine}/execs/{started}", token=b).status == 404, "by way of one's own sandbox"
        assert [x["id"] for x in d.call("GET", "/v1/sandboxes", token=b).json["sandboxes"]] == [mine]
        assert d.call("DELETE", "/v1/sandboxes?label=x=y", token=b).json["sandboxes"] == []
        assert 'state="ready"} 1\n' in d.call("GET", "/metrics", token=b).body.decode()
        key = {"Idempotency-Key": "same"}
        one = d.call("POST", "/v1/sandboxes", {}, key, token=a).json["id"]
        assert d.call("POST", "/v1/sandboxes", {}, key, token=b).json["id"] != one, "a key of another tenant's"
        assert d.call("GET", f"/v1/sandboxes/{box}", token=a).json["execs_running"] == 1


@test
def paths_lead_nowhere_else():
    with daemon() as d:
        box = d.create(name="a")["id"]
        for path in (f"/v1/sandboxes/{box}%2f..%2f{box}", "/v1/sandboxes/..", "/v1/sandboxes/%2e%2e", f"/v1/sandboxes/../sandboxes/{box}/x", "//v1/sandboxes",
                     f"/v1/sandboxes/{box}/", f"/v1//sandboxes/{box}", f"/v1/sandboxes/{box}%00", f"/v1/sandboxes/{box.upper()}", "/v1/sandboxes/sb_",
                     f"/v1/sandboxes/{box}/execs/..%2f..", f"/V1/sandboxes/{box}", "/v1/sandboxes/" + "a" * 5000, "/v1/sandboxes/%61"):
            a = d.call("GET", path)
            assert a.status == 404 and a.code == "not-found", (path, a)
        for name in ("../x", "sb_x", "a/b", "a\nb", "", "A", ".", "x" * 64, "-x"):
            assert d.call("POST", "/v1/sandboxes", {"name": name}).code == "invalid", name
        for cwd in ("relative", "/tmp/../../etc\0", ""):
            a = d.call("POST", "/v1/sandboxes/a/exec", {"argv": ["pwd"], "cwd": cwd})
            assert a.status >= 400 or a.json["exit_code"] != 0, (cwd, a)


@test
def a_request_that_two_readers_could_read_differently_is_refused():
    inner = b"GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with daemon() as d:
        for data in (head + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
                     head + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}" + inner,
                     head + b"Content-Length: +2\r\n\r\n{}" + inner,
                     head + b"Content-Length : 2\r\n\r\n{}" + inner,
                     head + b"Transfer-Encoding: identity\r\n\r\n" + inner,
                     head + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + inner,
                     head + b"Transfer-Encoding: chunked\r\n\r\n2;x=y\r\n{}\r\n0\r\n\r\n" + inner,
                     head + b"Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n" + inner,
                     b"GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n" + inner,
                     b"GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n" + inner,
                     b"GET http://localhost/v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n\r\n",
                     b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
                     b"GET /v1/sand boxes HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\r\n" + inner):
            said = d.raw(data)
            assert said.startswith(b"HTTP/1.1 ") and said[9:10] in (b"4", b"5"), (data, said)
            assert said.count(b"HTTP/1.1 ") == 1, ("what was smuggled was answered", data, said)
        assert b" 200 " not in d.raw(b"GET /v1/sandboxes HTTP/1.1\nHost: localhost\n\n"), "lines that end in a bare LF"
        # A body where none belongs is not the next request.
        said = d.raw(b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n" + inner)
        assert said.count(b"HTTP/1.1 ") == 1, said
        # Two in a row, well formed, are two.
        assert d.raw(inner + inner).count(b"HTTP/1.1 200 ") == 2
        assert not d.call("GET", "/v1/sandboxes").json["sandboxes"]


@test
def what_is_too_large_or_too_deep_is_refused():
    with daemon() as d:
        json_type = {"Content-Type": "application/json"}
        a = d.call("POST", "/v1/sandboxes", b"[" * 100000 + b"]" * 100000, json_type)
        assert a.status == 400, a
        said = d.raw(b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2000000\r\n\r\n", end=False)
        assert said.startswith(b"HTTP/1.1 413 "), said
        said = d.raw(b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                     + b"10000\r\n" + b" " * 65536 + b"\r\n" + (b"10000\r\n" + b" " * 65536 + b"\r\n") * 20)
        assert said.startswith(b"HTTP/1.1 413 "), said
        said = d.raw(b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: b\r\n" * 6000)
        assert said.startswith(b"HTTP/1.1 431 "), said
        said = d.raw(b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 414 "), said
        for body in (b'{"name":"\xff\xfe"}', b'{"name":"a\\u0000b"}', b'{"name":"a"} x', b'{"labels":{"a":1}}', b"null", b"[]", b'{"idle_ttl":-1}', b'{"idle_ttl":1e99}'):
            assert d.call("POST", "/v1/sandboxes", body, json_type).code == "invalid", body
        many = {f"k{i}": "v" for i in range(100)}
        assert d.call("POST", "/v1/sandboxes", {"labels": many}).code == "invalid"
        assert not d.call("GET", "/v1/sandboxes").json["sandboxes"]


@test
def those_who_send_slowly_do_not_keep_others_out():
    with daemon_with_tokens(a="run") as d:
        held = []
        for i in range(300):
            s = d.dial_tcp() if i % 2 else d.dial()
            s.sendall(b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\nX-A: " if i % 3 else b"POST /v1/sandboxes HTTP/1.1\r\n")
            held.append(s)
        assert d.call("GET", "/v1/info").json["connections"] > 200
        assert d.call("GET", "/v1/info", token=d.tokens["a"]).status == 200
        # They are sent away in the end, with a word.
        answer = b""
        held[0].settimeout(40)
        while (piece := held[0].recv(4096)):
            answer += piece
        assert answer.startswith(b"HTTP/1.1 408 "), answer
        for s in held:
            s.close()
        assert wait_until(lambda: d.call("GET", "/v1/info").json["connections"] < 10, 15)


@test
def a_tenant_has_no_more_connections_than_its_share():
    with daemon_with_tokens(a="run", b="run") as d:
        held = []
        request = f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{d.port}\r\nAuthorization: Bearer {d.tokens['a']}\r\n\r\n".encode()
        for _ in range(64):
            s = d.dial_tcp()
            s.sendall(request)
            assert s.recv(4096).startswith(b"HTTP/1.1 200 ")
            held.append(s)
        a = d.call("GET", "/v1/info", token=d.tokens["a"])
        assert a.status == 429 and a.code == "quota" and a.headers["Retry-After"], a
        assert d.call("GET", "/v1/info", token=d.tokens["b"]).status == 200, "another tenant's share"
        for s in held:
            s.close()
        assert wait_until(lambda: d.call("GET", "/v1/info", token=d.tokens["a"]).status == 200)


@test
def a_tenant_has_no_more_sandboxes_than_its_lines_say():
    """What they may have of memory and processes in all is the ceiling times that number."""
    with daemon_with_tokens(a="run", b="run") as d:
        lines = d.token_file.read_text().splitlines()
        d.token_file.write_text("".join(f"{line} sandboxes=2\n" if line.startswith("a ") else f"{line}\n" for line in lines))
        made = [d.call("POST", "/v1/sandboxes", {}, token=d.tokens["a"]) for _ in range(3)]
        assert [m.status for m in made] == [202, 202, 429] and made[2].code == "quota" and "2 sandboxes" in made[2].json["detail"], made
        assert [d.call("POST", "/v1/sandboxes", {}, token=d.tokens["b"]).status for _ in range(3)] == [202] * 3, "another tenant's share"
        for word in ("sandboxes=0", "sandboxes=257", "sandboxes=2x", "sandboxes=", "sandboxes=1 sandboxes=2", "memory=1"):
            d.token_file.write_text("".join(f"{line} {word}\n" for line in lines))
            assert d.call("GET", "/v1/info", token=d.tokens["a"]).status == 401, word


@test
def clients_that_vanish_leave_nothing():
    with daemon() as d:
        box = d.create()["id"]
        before = len(os.listdir(f"/proc/{d.call('GET', '/v1/info').json['pid']}/fd"))
        for how in ("close", "reset", "half"):
            for body in (b'{"argv":["sleep","1"]}', b'{"argv":["yes"],"timeout":"1s"}'):
                s = d.dial()
                s.sendall(b"POST /v1/sandboxes/" + box.encode() + b"/exec HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
                          b"Content-Type: application/json\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body)
                assert b" 200 " in s.recv(512)
                if how == "reset":
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                if how == "half":
                    s.shutdown(socket.SHUT_WR)
                    while s.recv(65536):
                        pass
                s.close()
        assert wait_until(lambda: d.call("GET", f"/v1/sandboxes/{box}").json["execs_running"] == 0, 20)
        pid = d.call("GET", "/v1/info").json["pid"]
        assert wait_until(lambda: len(os.listdir(f"/proc/{pid}/fd")) <= before), os.listdir(f"/proc/{pid}/fd")


@test
def a_non_loopback_address_and_a_missing_token_file_are_refused_by_name():
    key = scratch() / "tokens"
    token("a", "run", key)
    env = {"BRIG_HOST": f"unix://{runtime()}/x.sock"}
    for args, word in ((("--listen", "0.0.0.0:0", "--token-file", key), "loopback"), (("--listen", "[::]:0", "--token-file", key), "loopback"),
                       (("--listen", "127.0.0.1:0"), "--token-file"), (("--listen", "nowhere", "--token-file", key), "ADDR:PORT"),
                       (("--listen", "127.0.0.1:0", "--token-file", workspace()), "not a file")):
        refused = brig("daemon", *args, env=env)
        assert refused.status == 125 and word in refused.errors and "hint: " in refused.errors or "not a file" in refused.errors, (args, refused.errors)
        assert "listening" not in refused.errors, (args, refused.errors)
    key.chmod(0o644)
    assert "chmod 600" in brig("daemon", "--listen", "127.0.0.1:0", "--token-file", key, env=env).errors
    key.unlink()


@test
def a_daemon_that_will_not_serve_says_nothing_of_listening():
    key, place = scratch() / "tokens", runtime() / "x.sock"
    token("a", "run", key)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy = f"127.0.0.1:{taken.getsockname()[1]}"
        for args, word in ((("--listen", busy), "cannot listen"), (("--listen", "127.0.0.1:0", "--tls-cert", key, "--tls-key", key), "key"),
                           (("--listen", "127.0.0.1:0", "--tls-cert", key), "TLS needs"), (("--listen", "127.0.0.1:70000"), "ADDR:PORT")):
            refused = brig("daemon", *args, "--token-file", key, env={"BRIG_HOST": f"unix://{place}"})
            assert refused.status == 125 and word in refused.errors and "listening" not in refused.errors and not place.exists(), (args, refused.errors)
    p = start_brig("daemon", "--listen", "127.0.0.1:0", "--token-file", key, env={"BRIG_HOST": f"unix://{place}"})  # the control
    said = [p.stderr.readline().decode() for _ in range(2)]
    assert f"listening on: {place}" in said[0] and "listening on: http://127.0.0.1:" in said[1], said
    p.terminate()
    assert p.wait(30) == 0
    key.unlink()


@test
def a_hundred_random_calls_at_once_leave_nothing():
    with daemon() as d:
        start, ends = time.monotonic(), []
        sockets = [d.dial() for _ in range(40)]
        for i, s in enumerate(sockets):
            body = json.dumps({"name": f"n{i % 10}", "labels": {"r": "x"}}).encode()
            s.sendall(b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
                      + str(len(body)).encode() + b"\r\n\r\n" + body)
        for i, s in enumerate(sockets):
            ends.append(s.recv(65536).split(b" ", 2)[1])
            s.sendall(f"DELETE /v1/sandboxes/n{i % 10} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        for s in sockets:
            assert s.recv(65536).split(b" ", 2)[1] in (b"204", b"404"), start
            s.close()
        assert ends.count(b"202") >= 10 and set(ends) <= {b"202", b"409"}, ends


def head_of(d, path, key, *more, body=b"{}"):
    lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{d.port}", f"Authorization: Bearer {key}", "Content-Type: application/json",
             f"Content-Length: {len(body)}", *more, "", ""]
    return "\r\n".join(lines).encode()


@test
def a_token_that_is_taken_back_while_the_body_comes_is_out():
    with daemon_with_tokens(a="run", b="run") as d:
        for taken in (False, True):
            with d.dial_tcp() as slow:
                slow.sendall(head_of(d, "/v1/sandboxes", d.tokens["a"]) + b"{")
                # A line more moves all that was read; a line less takes the token back.
                lines = [line for line in d.token_file.read_text().splitlines() if not (taken and line.startswith("a "))]
                # Under its name at once: half a file has no such token for a head that is still read.
                draft = d.token_file.with_name("draft")
                draft.write_text("\n".join([*lines, "#", ""]))
                draft.chmod(0o600)
                draft.rename(d.token_file)
                assert wait_until(lambda: d.call("GET", "/v1/info", token=d.tokens["a"]).status == (401 if taken else 200), 10)
                slow.sendall(b"}")
                said = slow.recv(4096)
                assert said.startswith(b"HTTP/1.1 401 " if taken else b"HTTP/1.1 202 "), (taken, said)
        assert d.call("GET", "/v1/info", token=d.tokens["b"]).status == 200, "the daemon is gone"
        assert len(d.call("GET", "/v1/sandboxes").json["sandboxes"]) == 1


@test
def a_caller_that_leaves_and_comes_again_with_its_key_gets_no_second_sandbox():
    with daemon_with_tokens(a="run") as d:
        ask = head_of(d, "/v1/sandboxes?wait=true", d.tokens["a"], "Idempotency-Key: once") + b"{}"
        with d.dial_tcp() as first:
            first.sendall(ask)
            assert wait_until(lambda: d.call("GET", "/v1/sandboxes").json["sandboxes"], 10)
        assert wait_until(lambda: d.call("GET", "/v1/info").json["connections"] == 1, 10)
        with d.dial_tcp() as again:
            again.sendall(ask)
            said = again.recv(65536)
        boxes = d.call("GET", "/v1/sandboxes").json["sandboxes"]
        assert len(boxes) == 1 and boxes[0]["id"].encode() in said and b"Idempotent-Replayed: true" in said, (said, boxes)


@test
def a_command_gets_no_more_than_the_ceiling_gave_its_sandbox():
    top = scratch() / "ceiling.yaml"
    top.write_text("limits: {timeout: 1m, output: 1k}\n")
    with daemon_with_tokens("--ceiling", top, a="run") as d:
        key = d.tokens["a"]
        box = d.create(token=key)["id"]
        for more, word in (({"timeout": "2m"}, "limits.timeout"), ({"timeout": 60001}, "limits.timeout"), ({"output_limit": "1m"}, "limits.output"),
                           ({"output_limit": 1025, "timeout": "1s"}, "limits.output")):
            a = d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["true"], **more}, token=key)
            assert a.status == 403 and a.code == "policy-ceiling" and word in a.json["detail"], (more, a)
        less = d.exec(box, "sh", "-c", "yes | head -c 2000", token=key, timeout="59s", output_limit=100)
        assert len(less["stdout"]) == 100 and less["stdout_truncated"], less
        assert len(d.exec(box, "sh", "-c", "yes | head -c 2000", token=key)["stdout"]) == 1024
        # The owner is over the ceiling.
        assert len(d.exec(box, "sh", "-c", "yes | head -c 2000", output_limit="1m")["stdout"]) == 2000
    top.unlink()


@test
def what_an_ended_command_left_running_ends_with_a_cancel_of_it():
    loop = "while :; do echo >> /tmp/beat-{0}; sleep 0.05; done"
    leave = """setsid sh -c 'trap "" TERM HUP; {0}' < /dev/null > /dev/null 2>&1 & sleep 0.3"""
    with daemon() as d:
        box = d.create()["id"]
        at = f"/v1/sandboxes/{box}/execs"

        def beats(which):
            one, two = d.exec(box, "sh", "-c", f"cat /tmp/beat-{which} | wc -c; sleep 0.3; cat /tmp/beat-{which} | wc -c")["stdout"].split()
            return one != two

        for which in ("one", "two"):
            line = leave.format(loop.format(which))
            assert d.exec(box, "sh", "-c", line)["outcome"] == "exited"
            assert wait_until(lambda which=which: beats(which), 10), "it left nothing running"
        first = d.call("GET", at).json["execs"][0]["id"]
        assert d.call("POST", f"{at}/{first}/cancel").status == 204
        assert wait_until(lambda: not beats("one"), 10), "it lives"
        assert wait_until(lambda: beats("two"), 10), "another command's was ended with it"
        assert d.call("POST", f"{at}/{first}/cancel").status == 204, "again"
        assert d.call("POST", f"{at}/ex_{'a' * 26}/cancel").status == 404


SECRET = "a-value-that-is-nowhere-0123456789"
WITH_SECRET = """brig: 1
network: proxy
egress: {allow: [example.org]}
credentials: {MY_TOKEN: {host: example.org, from: {env: SOME_SECRET}}}
"""


def holds(pid, value):
    """Is it in the memory of that process, as root sees it?"""
    with files_as_root(), open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            where, mode = line.split()[:2]
            if mode[:2] != "rw":
                continue
            start, end = (int(x, 16) for x in where.split("-"))
            if end - start > 1 << 28:  # the sanitizers' own shadow
                continue
            with contextlib.suppress(OSError):
                memory.seek(start)
                if value in memory.read(end - start):
                    return True
    return False


def opened(pid):
    with files_as_root():
        return len(os.listdir(f"/proc/{pid}/fd"))


@test(by_root=True)
def the_value_of_a_credential_goes_beside_the_request_and_is_kept_nowhere():
    file = scratch() / "with.yaml"
    file.write_text(WITH_SECRET)
    with daemon() as d:
        env = {**d.environment, "SOME_SECRET": SECRET}
        done = brig("sandbox", "create", "--config", file, "--name", "it", env=env)
        assert done.status == 0, done.errors
        placeholder = brig("sandbox", "exec", "it", "--", "sh", "-c", "echo $MY_TOKEN; env", env=env).text
        assert placeholder.startswith("brig-") and SECRET not in placeholder, placeholder
        shown = brig("sandbox", "get", "it", "--json", env=env).text
        assert "SOME_SECRET" in shown and SECRET not in shown, shown
        below = descendants(d.process.pid)
        monitor = next(pid for pid, name in below.items() if name == "brig-monitor")
        workers = [pid for pid, name in below.items() if name == "brig-egress"]
        assert not holds(d.process.pid, SECRET.encode()), "the daemon has it"
        assert not holds(monitor, SECRET.encode()), "the monitor has it still"
        assert any(holds(pid, SECRET.encode()) for pid in workers), "the control: the door's worker has its value, and it is found there"
        with files_as_root():
            for path in state().rglob("*"):
                assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
        # It ends with the monitor: what is resumed has to be made anew.
        os.kill(monitor, signal.SIGKILL)
        assert wait_until(lambda: d.call("GET", "/v1/sandboxes/it").json["state"] == "stopped", 20)
        resumed = []
        assert wait_until(lambda: resumed.append(brig("sandbox", "resume", "it", env=env)) or "is still ending" not in resumed[-1].errors, 20), resumed[-1]
        done = resumed[-1]
        assert done.status == 125 and "'SOME_SECRET' is not set" in done.errors, done.errors
        # Without the variable nothing is made up.
        done = brig("sandbox", "create", "--config", file, env=d.environment)
        assert done.status == 125 and "'SOME_SECRET' is not set" in done.errors, done.errors


@test(by_root=True)
def descriptors_of_a_caller_are_taken_by_who_wants_them_alone():
    body = json.dumps({"spec": {"network": "none"}}).encode()

    def post(d, fds, path="/v1/sandboxes?wait=true", what=body):
        with d.dial() as s:
            head = f"POST {path} HTTP/1.1\r\nHost: brig\r\nContent-Type: application/json\r\nContent-Length: {len(what)}\r\nConnection: close\r\n\r\n".encode()
            socket.send_fds(s, [head + what], fds)
            got = b""
            while (piece := s.recv(65536)):
                got += piece
        return got

    def sealed(text, seals=0xF):
        fd = os.memfd_create("x", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.write(fd, text)
        fcntl.fcntl(fd, 1033, seals)  # F_ADD_SEALS
        return fd

    with daemon() as d:
        assert b'"state":"ready"' in post(d, [sealed(b"A=b")])
        before = opened(d.process.pid)
        for bad in (sealed(b"A=b", 0x2), sealed(b"no equals sign"), sealed(b""), os.open("/dev/zero", os.O_RDONLY), os.pipe()[0], os.open("/etc/passwd", os.O_RDONLY)):
            said = post(d, [bad])
            assert b'"state":"failed"' in said and b"a secret could not be read" in said, said
            os.close(bad)
        many = [sealed(b"A=b") for _ in range(40)]
        post(d, many[:30], "/v1/sandboxes/nothing/exec", b"{}")
        for _ in range(20):  # not asked for: closed with the call, or when the caller leaves
            post(d, many[:16], "/v1/run", b"{")
            with d.dial() as s:
                socket.send_fds(s, [b"POST /v1"], many[:16])
        assert wait_until(lambda: opened(d.process.pid) <= before, 20), (before, opened(d.process.pid))
        for fd in many:
            os.close(fd)


# A byte at a time, each in a frame of its own.
DRIP = "import os, time\nfor _ in range(1500): os.write(1, b'x'); time.sleep(0.0002)"


@test
def output_in_small_pieces_costs_who_asks_for_its_end_nothing():
    """The kernel is the oracle: it counts the daemon's reads."""
    def reads(pid):
        with files_as_root():
            return int(re.search(r"syscr: (\d+)", pathlib.Path(f"/proc/{pid}/io").read_text())[1])

    def cost(path):
        before = reads(d.process.pid)
        said = d.call("GET", path).json
        return reads(d.process.pid) - before, said

    with daemon() as d:
        box = d.create()["id"]
        d.exec(box, "true")
        plain, _ = cost(f"/v1/sandboxes/{box}/execs")
        assert d.exec(box, "python3", "-c", DRIP)["stdout"] == "x" * 1500
        [file] = [f for f in state().glob(f"**/{box}/execs/ex_*") if f.stat().st_size > 9 * 500]
        frames, at, data = 0, 16, file.read_bytes()
        while at < len(data):
            at += 8 + int.from_bytes(data[at + 4:at + 8], sys.byteorder)
            frames += 1
        assert frames > 500 and at == len(data), "the control: it wrote so many"
        for path in (f"/v1/sandboxes/{box}/execs", f"/v1/sandboxes/{box}/execs/{file.name}"):
            cost_of_all, said = cost(path)
            result = said.get("result") or said["execs"][-1]["result"]
            assert result["outcome"] == "exited" and result["stdout_bytes"] == 1500, result
            assert cost_of_all < plain + 100, (path, plain, cost_of_all)


@test
def input_that_nobody_reads_has_a_bound_and_costs_nothing():
    """A tenant's commands that do not read: what the daemon keeps of their input, and how often it looks."""
    with daemon_with_tokens(a="run", b="run") as d:
        a, b = d.tokens["a"], d.tokens["b"]
        box, other = d.create(token=a)["id"], d.create(token=b)["id"]
        body = {"argv": ["sleep", "100"], "stdin": "x" * 1000000, "detach": True}
        said = []
        while len(said) < 60 and (not said or said[-1] == 202):
            said.append(d.call("POST", f"/v1/sandboxes/{box}/exec", body, token=a).status)
        assert said[-1] == 429 and 20 < len(said) < 40, said
        refused = d.call("POST", f"/v1/sandboxes/{box}/exec", body, token=a)
        assert refused.code == "quota" and "input" in refused.json["detail"], refused
        # Without any, and for others, there is room; and it comes back.
        assert d.exec(box, "echo", "x", token=a)["stdout"] == "x\n"
        assert d.exec(other, "cat", token=b, stdin="y" * 900000)["stdout_bytes"] == 900000
        ticks = lambda: sum(map(int, pathlib.Path(f"/proc/{d.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))  # noqa: E731
        before = ticks()
        time.sleep(2)
        assert ticks() - before < 20, "a tenth of a processor"
        for x in d.call("GET", f"/v1/sandboxes/{box}/execs", token=a).json["execs"]:
            if x["state"] == "running":
                assert d.call("POST", f"/v1/sandboxes/{box}/execs/{x['id']}/cancel", token=a).status == 204
        assert wait_until(lambda: d.call("POST", f"/v1/sandboxes/{box}/exec", body, token=a).status == 202, 20)


if __name__ == "__main__":
    sys.exit(main())
