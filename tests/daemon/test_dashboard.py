#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The dashboard's routes: who gets a session, what it may ask for, and from where. Browsers are in test_dashboard_browser.py."""

import contextlib
import fcntl
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import socket
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import Answer, Events, daemon, daemon_with_tokens, token  # noqa: E402
from harness import PATIENCE, brig, files_as_root, home, main, start_brig, test, wait_until, workspace  # noqa: E402

WAIT = 10 * PATIENCE


class Page:
    """What a browser would do, header by header."""

    def __init__(self, url):
        self.origin, self.code = re.fullmatch(r"(http://brig-[0-9a-f]{32}\.localhost:\d+)/#code=([0-9a-f]{64})", url).groups()
        self.host = self.origin.removeprefix("http://")
        self.port, self.cookie = int(self.host.rpartition(":")[2]), None

    def _send(self, method, path, body, headers):
        said = {"Host": self.host, **({"Origin": self.origin} if method != "GET" else {}), **({"Cookie": self.cookie} if self.cookie else {}), **(headers or {})}
        if body is not None:
            said.setdefault("Content-Type", "application/json")
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
        c.request(method, path, json.dumps(body) if body is not None else None, {k: v for k, v in said.items() if v is not None})
        return c, c.getresponse()

    def call(self, method, path, body=None, headers=None):
        c, a = self._send(method, path, body, headers)
        try:
            return Answer(a, a.read())
        finally:
            c.close()

    def stream(self, path):
        return Events(*self._send("GET", path, None, None))

    def enter(self):
        a = self.call("POST", "/v1/dashboard/session", {"code": self.code})
        assert a.status == 200, a
        field = a.headers["Set-Cookie"]
        assert re.fullmatch(r"brig=[0-9a-f]{64}; HttpOnly; SameSite=Strict; Path=/; Max-Age=\d+", field), field
        self.cookie = field.partition(";")[0]
        return self


def page(d, token=None, headers=None, **asked):
    a = d.call("POST", "/v1/dashboard", asked, token=token, headers=headers)
    assert a.status == 200, a
    return Page(a.json["url"])


@contextlib.contextmanager
def answering(value):
    """A server on loopback that says the same to everybody."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.dumps(value).encode()
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def has_six():
    with socket.socket(socket.AF_INET6) as s, contextlib.suppress(OSError):
        s.bind(("::1", 0))
        return True


def config():
    return home() / ".config" / "brig" / "config.yaml"


def forget_config():
    shutil.rmtree(config().parents[1])


@test
def a_code_is_good_once_and_cannot_be_guessed():
    with daemon() as d:
        p = page(d)
        assert p.call("GET", "/v1/info").status == 401
        assert p.call("POST", "/v1/dashboard/session", {"code": "0" * 64}).status == 401
        p.enter()
        assert p.call("GET", "/v1/info").status == 200 and p.call("GET", "/v1/dashboard/session").json["admin"] is False
        # The same code again, and a cookie that is almost right.
        assert p.call("POST", "/v1/dashboard/session", {"code": p.code}).status == 401
        wrong = p.cookie[:-1] + ("0" if p.cookie[-1] != "0" else "1")
        assert p.call("GET", "/v1/info", headers={"Cookie": wrong}).status == 401
        assert p.call("GET", "/v1/info", headers={"Cookie": f"{p.cookie}; {p.cookie}"}).status == 401
        assert p.call("GET", "/v1/info", headers={"Cookie": f"a=b; {p.cookie}"}).status == 200
        # Who guesses makes all codes void, that of somebody else with them.
        other = page(d)
        for i in range(64):
            assert p.call("POST", "/v1/dashboard/session", {"code": f"{i:064x}"}).status == 401
        assert p.call("POST", "/v1/dashboard/session", {"code": other.code}).status == 401
        page(d).enter()
        # Signing out ends what is still being said, too.
        assert p.call("DELETE", "/v1/dashboard/session").status == 204 and p.call("GET", "/v1/info").status == 401
        # The daemon's end is theirs.
        q = page(d).enter()
        d.restart()
        assert page(d).host != q.host
        assert page(d).call("GET", "/v1/info", headers={"Cookie": q.cookie}).status == 401


@test
def a_stream_ends_with_its_session():
    with daemon() as d:
        p = page(d).enter()
        stream = p.stream("/v1/events")
        assert stream.status == 200
        box = d.create(spec={"workspace": {"path": str(workspace())}})
        assert next(iter(stream))[1]["sandbox"] == box["id"]
        assert p.call("DELETE", "/v1/dashboard/session").status == 204
        try:
            while stream.answer.read1(65536):
                pass
        except http.client.IncompleteRead:
            return  # cut off
        raise AssertionError("the stream came to an end of its own")


@test
def a_session_counts_from_its_own_page_alone():
    with daemon_with_tokens(a="run") as d:
        p = page(d).enter()
        get = lambda **h: p.call("GET", "/v1/sandboxes", headers={k.replace("_", "-"): v for k, v in h.items()}).status  # noqa: E731
        assert get() == 200 and get(Origin=p.origin) == 200 and get(Sec_Fetch_Site="same-origin") == 200 and get(Sec_Fetch_Site="none") == 200
        # A name that leads here (DNS rebinding), the address itself, and a name that is nearly ours.
        for host in ("evil.example", f"evil.example:{p.port}", f"127.0.0.1:{p.port}", f"localhost:{p.port}", f"x{p.host}", p.host.rpartition(":")[0]):
            assert get(Host=host) == 403, host
        for origin in ("null", "http://evil.example", f"http://127.0.0.1:{p.port}", f"https://{p.host}", f"{p.origin}.evil.example"):
            assert get(Origin=origin) == 403, origin
        for site in ("cross-site", "same-site"):
            assert get(Sec_Fetch_Site=site) == 403, site
        # What a form could send has another Origin or none, and is not JSON.
        leave = lambda **h: p.call("DELETE", "/v1/dashboard/session", headers=h).status  # noqa: E731
        assert leave(Origin=None) == 403 and leave(Origin="http://evil.example") == 403
        admin = page(d, admin=True).enter()
        body = {"rule": "a.example.org", "typed": "a.example.org"}
        send = lambda **h: admin.call("POST", "/v1/policy/allow", body, headers={k.replace("_", "-"): v for k, v in h.items()}).status  # noqa: E731
        assert send(Origin=None) == 403 and send(Origin="null") == 403 and send(Origin="http://evil.example") == 403 and send(Sec_Fetch_Site="cross-site") == 403
        assert send(Content_Type="text/plain") == 415 and send(Content_Type="application/x-www-form-urlencoded") == 415
        assert not config().exists()
        assert send() == 200 and "a.example.org" in config().read_text()
        # A token is for the other listeners, a cookie for this one; the pages are on this one alone.
        assert p.call("GET", "/v1/info", headers={"Cookie": None, "Authorization": f"Bearer {d.tokens['a']}"}).status == 401
        assert d.call("GET", "/v1/info", headers={"Cookie": p.cookie}, tcp=True).status == 401
        assert d.call("GET", "/").status == 404 and d.call("POST", "/v1/dashboard/session", {"code": p.code}).status == 404
        for path, kind in (("/", "text/html"), ("/dashboard.css", "text/css"), ("/runs.js", "text/javascript"), ("/dashboard.js", "text/javascript")):
            a = p.call("GET", path, headers={"Cookie": None, "Sec-Fetch-Site": "cross-site"})
            assert a.status == 200 and a.headers["Content-Type"].startswith(kind), a
            csp = a.headers["Content-Security-Policy"]
            assert "default-src 'none'" in csp and "frame-ancestors 'none'" in csp and "require-trusted-types-for 'script'" in csp and "unsafe" not in csp
            assert a.headers["Referrer-Policy"] == "no-referrer"
        forget_config()


@test
def nobody_else_has_the_port_that_a_browser_tries_first():
    with daemon() as d:
        p = page(d)
        if not has_six():
            p.enter()
            return
        # Browsers ask [::1] before 127.0.0.1: whoever listens there would be the page, and read the code.
        for kind, address in ((socket.AF_INET6, "::1"), (socket.AF_INET6, "::"), (socket.AF_INET, "127.0.0.1")):
            with socket.socket(kind) as s, contextlib.suppress(OSError):
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if kind == socket.AF_INET6:
                    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                s.bind((address, p.port))
                s.listen()
                raise AssertionError(f"{address} is there for everybody")
        with socket.create_connection(("::1", p.port), WAIT) as s:
            s.sendall(f"GET / HTTP/1.1\r\nHost: {p.host}\r\nConnection: close\r\n\r\n".encode())
            assert s.recv(65536).startswith(b"HTTP/1.1 200 ")
        p.enter()
    # One that is taken is not used, be it half.
    with socket.socket(socket.AF_INET6) as s, daemon() as d:
        s.bind(("::1", 0))
        s.listen()
        taken = d.call("POST", "/v1/dashboard", {"port": s.getsockname()[1]})
        assert taken.status >= 400 and "[::1]" in taken.json["detail"], taken
        page(d).enter()


@test
def a_session_that_reads_changes_nothing():
    with daemon() as d:
        p = page(d).enter()
        box = d.create(spec={"workspace": {"path": str(workspace())}, "env": {"set": {"SECRET_WORD": "hidden"}}})
        d.exec(box["id"], "sh", "-c", "echo written")
        one = f"/v1/sandboxes/{box['id']}"
        # It sees what there is, and no variables.
        assert p.call("GET", one).json["state"] == "ready" and b"hidden" not in p.call("GET", one).body
        execs = p.call("GET", f"{one}/execs").json["execs"]
        assert [kind for kind, _, _ in p.stream(f"{one}/execs/{execs[0]['id']}/stream")][-1] == "end"
        for method, path, body in (("POST", f"{one}/exec", {"argv": ["true"]}), ("POST", f"{one}/stop", {}), ("DELETE", one, None), ("PATCH", one, {"name": "other"}), ("POST", "/v1/sandboxes", {}),
                                   ("POST", "/v1/run", {"argv": ["true"]}), ("POST", "/v1/stop", {}), ("GET", f"{one}/files?path=.", None), ("GET", f"{one}/archive?path=.", None), ("POST", "/v1/dashboard", {}),
                                   ("POST", "/v1/policy/allow", {"rule": "a.example.org", "typed": "a.example.org"})):
            assert p.call(method, path, body).status == 403, (method, path)
        assert not config().exists() and d.call("GET", one).json["state"] == "ready"
        # One that may change one thing may not do the rest either, and not without the word typed.
        admin = page(d, admin=True).enter()
        assert admin.call("POST", f"{one}/stop", {}).status == 403 and admin.call("POST", "/v1/stop", {}).status == 403
        assert admin.call("POST", "/v1/policy/allow", {"rule": "a.example.org", "typed": "b.example.org"}).status == 400
        assert admin.call("POST", "/v1/policy/allow", {"rule": "a.example.org"}).status == 400 and not config().exists()


@test
def a_host_is_allowed_by_one_line_more():
    with daemon() as d:
        admin = page(d, admin=True).enter()
        config().parent.mkdir(parents=True, exist_ok=True)
        before = "# mine\nnetwork: proxy  # always\negress:\n  # those that I know\n  allow:\n    - good.example.org   # first\n  https_only: true\nlimits:\n  memory: 1g\n"
        config().write_text(before)
        config().chmod(0o640)
        look = admin.call("GET", "/v1/policy/allow?rule=*.new.example.org:8443").json
        assert config().read_text() == before and look["changed"] is False and '+    - "*.new.example.org:8443"' in look["diff"], look
        assert look["command"] == "brig config allow '*.new.example.org:8443'", look
        rule = {"rule": "*.new.example.org:8443", "typed": "*.new.example.org:8443"}
        assert admin.call("POST", "/v1/policy/allow", rule).json["changed"] is True
        assert config().read_text() == before.replace("# first\n", '# first\n    - "*.new.example.org:8443"\n')
        assert config().stat().st_mode & 0o777 == 0o640
        # On the record, with the rule; again it is nothing new.
        told = admin.call("GET", "/v1/audit?type=policy.change").json["records"][-1]
        assert told["action"] == "egress.allow" and told["rule"] == rule["rule"] and told["file"] == str(config()), told
        assert admin.call("POST", "/v1/policy/allow", rule).json["changed"] is False
        # A run has it.
        done = start_brig("config", "show", "--json", cwd=workspace())
        assert json.loads(done.communicate()[0])["egress"]["allow"] == ["good.example.org", rule["rule"]]
        # What is no rule, or reaches too far, is refused with the reader's words; options are no options here.
        for bad in ("*.co.uk", "localhost", "--help", "a b", 'a"\n  - b', "-x", ""):
            a = admin.call("POST", "/v1/policy/allow", {"rule": bad, "typed": bad})
            assert a.status == 400, (bad, a)
        # A form that is not changed by machines, a link, a list that would stand in place of another.
        for text in ("egress: {allow: [a.example.org]}\n", "egress:\n  allow: []\n", "{egress: {https_only: true}}\n"):
            config().write_text(text)
            assert admin.call("POST", "/v1/policy/allow", rule).status == 400 and config().read_text() == text, text
        config().rename(config().with_name("real"))
        config().symlink_to("real")
        assert "link" in admin.call("POST", "/v1/policy/allow", rule).json["detail"] and config().is_symlink()
        forget_config()


@test
def two_rules_at_once_are_both_there():
    config().parent.mkdir(parents=True, exist_ok=True)
    config().write_text("egress:\n  allow:\n    - a.example.org\n")
    with files_as_root():
        held = os.open(config().parent, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(held, fcntl.LOCK_EX)
        running = [start_brig("config", "allow", host) for host in ("b.example.org", "c.example.org")]
    node = f":{os.fstat(held).st_ino} "
    waiting = lambda: sum("-> FLOCK" in line and node in line for line in pathlib.Path("/proc/locks").read_text().splitlines())  # noqa: E731
    try:
        # Both have seen the file as it is.
        assert wait_until(lambda: waiting() == 2, WAIT), [p.poll() for p in running]
    finally:
        os.close(held)
    said = [(p.communicate(), p.returncode) for p in running]
    assert all(status == 0 for _, status in said), said
    rules = config().read_text()
    assert sorted(re.findall(r"\b[abc]\.example\.org", rules)) == ["a.example.org", "b.example.org", "c.example.org"], rules
    forget_config()


@test
def a_tenant_sees_its_own_alone():
    with daemon_with_tokens(a="run", b="run") as d:
        mine, other = (d.create(token=d.tokens[n]) for n in "ab")
        d.exec(mine["id"], "true", token=d.tokens["a"])
        d.exec(other["id"], "true", token=d.tokens["b"])
        p = page(d, token=d.tokens["a"]).enter()
        assert p.call("GET", "/v1/dashboard/session").json["tenant"] == "a"
        assert [b["id"] for b in p.call("GET", "/v1/sandboxes").json["sandboxes"]] == [mine["id"]]
        runs = {d.call("GET", f"/v1/sandboxes/{b['id']}").json["run"] for b in (mine, other)}
        assert len(runs) == 2
        for who in (lambda path: p.call("GET", path), lambda path: d.call("GET", path, token=d.tokens["a"])):
            got = who(f"/v1/audit?sandbox={mine['id']}").json["records"]
            assert got and {r["run"] for r in got} == {mine["run"]}, got
            assert who(f"/v1/audit?sandbox={other['id']}").code == "not-found"
            assert who("/v1/audit").code == "forbidden" and who("/v1/audit/follow").code == "forbidden"
            assert who(f"/v1/audit?sandbox={mine['id']}&run={other['run']}").code == "invalid"
            assert who("/v1/doctor").code == "forbidden" and who("/v1/runs").code == "forbidden" and who("/v1/policy/allow?rule=a.example.org").code == "forbidden"
            assert list(who(f"/v1/use?sandbox={mine['id']}&sandbox={other['id']}").json["sandboxes"]) == [mine["id"]]
            assert who(f"/v1/sandboxes/{other['id']}").code == "not-found"
        # The owner sees both; a tenant gets nothing that changes, whatever it asks for.
        assert {r["run"] for r in page(d).enter().call("GET", "/v1/audit?type=sandbox.create").json["records"]} >= runs
        assert d.call("POST", "/v1/dashboard", {"admin": True}, token=d.tokens["a"]).code == "forbidden"
        assert d.call("POST", "/v1/dashboard", {"admin": True}, headers={"Brig-Tenant": "@x"}).code == "forbidden"
        # With its token the session ends.
        d.token_file.write_text("".join(line for line in d.token_file.read_text().splitlines(True) if not line.startswith("a ")))
        assert wait_until(lambda: p.call("GET", "/v1/sandboxes").status == 401, WAIT)


@test
def a_tenant_neither_shares_the_owners_name_nor_takes_its_place():
    with daemon_with_tokens(a="read", b="read") as d:
        owner = page(d).enter()
        a, b = (page(d, token=d.tokens[n]) for n in "ab")
        # A cookie goes to every port of its host, also to one that a tenant has published: so each has a host of its own.
        assert len({owner.host, a.host, b.host}) == 3 and page(d, token=d.tokens["a"]).host == a.host and page(d).host == owner.host
        a.enter()
        assert a.call("GET", "/v1/info").status == 200
        for page_of, other in ((owner, a), (a, owner)):
            assert page_of.call("GET", "/v1/info", headers={"Host": other.host}).status == 401
        assert a.call("POST", "/v1/dashboard/session", {"code": b.code}).status == 401 and b.enter().call("GET", "/v1/info").status == 200
        # Guesses, many codes and many sessions of a tenant cost nobody but itself.
        waiting = page(d)
        for i in range(64):
            assert a.call("POST", "/v1/dashboard/session", {"code": f"{i:064x}"}).status == 401
        mine = [page(d, token=d.tokens["a"]).enter() for _ in range(40)]
        for _ in range(20):
            page(d, token=d.tokens["a"])
        assert waiting.enter().call("GET", "/v1/info").status == 200
        for p in (owner, b, mine[-1]):
            assert p.call("GET", "/v1/info").status == 200, p.host
        assert mine[0].call("GET", "/v1/info").status == 401
        # Nor can it use up the owner's keys: whoever enters has none.
        keyed = lambda i: a.call("POST", "/v1/dashboard/session", {"code": "0" * 64}, headers={"Idempotency-Key": str(i)})  # noqa: E731
        assert keyed(1).status == 401 and "Idempotent-Replayed" not in keyed(1).headers


@test
def a_session_sees_no_more_than_its_token():
    with daemon_with_tokens(a="run") as d:
        box = d.create(token=d.tokens["a"])
        done = f"/v1/sandboxes/{box['id']}/execs"
        d.exec(box["id"], "echo", "said inside", token=d.tokens["a"])
        runs, reads = (page(d, token=t).enter() for t in (d.tokens["a"], token("a", "read", d.token_file)))
        one = runs.call("GET", done).json["execs"][0]["id"]
        assert runs.call("GET", f"{done}/{one}/stream").status == 200 and runs.call("GET", f"/v1/sandboxes/{box['id']}/logs").status == 200
        for path in (done, f"{done}/{one}", f"{done}/{one}/stream", f"/v1/sandboxes/{box['id']}/logs"):
            assert reads.call("GET", path).code == "forbidden", path
        assert reads.call("GET", f"/v1/sandboxes/{box['id']}").status == 200
        # With the scope goes what is under way.
        d.call("POST", f"/v1/sandboxes/{box['id']}/exec", {"command": "sleep 100", "detach": True}, token=d.tokens["a"])
        last = runs.call("GET", done).json["execs"][-1]["id"]
        stream = runs.stream(f"{done}/{last}/stream")
        assert stream.status == 200
        d.token_file.write_text(d.token_file.read_text().replace("a run ", "a read "))
        try:
            while stream.answer.read1(65536):
                pass
            raise AssertionError("the stream came to an end of its own")
        except http.client.IncompleteRead:
            pass  # cut off
        assert runs.call("GET", done).code == "forbidden"


@test
def what_takes_long_keeps_nobody_waiting():
    with daemon() as d:
        p = page(d).enter()
        box = d.create(spec={"workspace": {"path": str(workspace())}})
        d.call("POST", f"/v1/sandboxes/{box['id']}/exec", {"command": "head -c 40000000 /dev/zero | tail -c 40000000 | (sleep 100; cat)", "detach": True})
        used = lambda: p.call("GET", f"/v1/use?sandbox={box['id']}").json["sandboxes"][box["id"]]  # noqa: E731
        assert wait_until(lambda: used()["memory"] > 35 << 20, WAIT), used()
        now = used()  # at one time: head ends while it is looked at
        assert 4 <= now["processes"] <= now["threads"], now
        # However far down they are: each shell waits for the next one.
        deep = "import os, time\nn = 0\nwhile n < 100 and not os.fork(): n += 1\nos.wait() if n < 100 else time.sleep(100)"
        d.call("POST", f"/v1/sandboxes/{box['id']}/exec", {"argv": ["python3", "-c", deep], "detach": True})
        assert wait_until(lambda: used()["processes"] >= now["processes"] + 100, WAIT), (now, used())
        # Followers have a bound, and leave with their callers; what is asked meanwhile is answered.
        streams = [p.stream("/v1/audit/follow") for _ in range(4)]
        assert all(s.status == 200 for s in streams) and p.call("GET", "/v1/audit/follow").code == "quota"
        assert next(iter(streams[0]))[0] == "record"
        assert p.call("GET", "/v1/audit?limit=1").json["records"] and p.call("GET", "/v1/info").status == 200
        for s in streams:
            s.close()
        assert wait_until(lambda: (s := p.stream("/v1/audit/follow")).status == 200 or s.close(), WAIT)
        doctor = p.call("GET", "/v1/doctor").json
        assert doctor["schema"] == 1 and doctor["checks"]
        for bad in ("limit=0", "limit=501", "since=yesterday", "type=", "run=zz", "sandbox=nobody"):
            assert p.call("GET", f"/v1/audit?{bad}").status in (400, 404), bad
        # Runs of whoever: that of the sandbox, its commands, and one that the daemon has no part in; what is asked in passing is refused.
        assert brig("run", "--set", "audit.agent=night shift", "--", "sh", "-c", "exit 3").status == 3
        runs = p.call("GET", "/v1/runs?limit=2").json["runs"]
        assert [(r["live"], r.get("outcome"), r.get("rc"), r.get("agent")) for r in runs] == [(False, "exited", 3, "night shift"), (True, None, None, None)], runs
        assert runs[1]["run"] == box["run"] and runs[1]["use"]["processes"] > 100 and p.call("GET", "/v1/runs?live=true").json["runs"][0]["run"] == box["run"]
        assert [r["argv0"] for r in p.call("GET", f"/v1/runs?within={box['run']}").json["runs"]] == ["python3", "/bin/sh"], p.call("GET", f"/v1/runs?within={box['run']}")
        for bad in ("limit=0", "limit=501", "live=1", "run=zz", "within=--help", "within="):
            assert p.call("GET", f"/v1/runs?{bad}").status == 400, bad
        # The daemon may end while it still tells.
        telling = [p.stream("/v1/audit/follow") for _ in range(2)]
        assert all(s.status == 200 for s in telling)


@test
def tenants_leave_the_owner_room():
    names = "abcdef"
    with daemon_with_tokens(**dict.fromkeys(names, "read")) as d:
        boxes = {n: d.call("POST", "/v1/sandboxes?wait=true", {}, headers={"Brig-Tenant": f"@{n}"}).json for n in names}
        pages = {n: page(d, headers={"Brig-Tenant": f"@{n}"}).enter() for n in names}
        streams = [pages[n].stream(f"/v1/audit/follow?sandbox={boxes[n]['id']}") for n in names]
        assert [s.status for s in streams] == [200, 200, 429, 429, 429, 429], [s.status for s in streams]
        owner = page(d).enter()
        more = [owner.stream("/v1/audit/follow") for _ in range(2)]
        assert [s.status for s in more] == [200, 200] and owner.call("GET", "/v1/audit").status == 200
        for s in streams + more:
            s.close()


@test
def the_command_prints_the_address():
    with daemon() as d:
        done = start_brig("dashboard", "--no-open", env=d.environment)
        out, err = done.communicate()
        assert done.returncode == 0 and b"good once" in err, (out, err)
        p = Page(out.decode().strip()).enter()
        for port in (str(p.port), None):
            done = start_brig("dashboard", "--json", *(["--port", port] if port else []), env=d.environment)
            assert Page(json.loads(done.communicate()[0])["url"]).host == p.host
        done = start_brig("dashboard", "--no-open", "--port", "1", env=d.environment)
        assert b"another port" in done.communicate()[1] and done.returncode == 125
        # A daemon elsewhere that answers with what no page is: nothing of it is printed or opened.
        for url in ("javascript:alert(1)", "http://brig-a.localhost:1/\x1b[2J", "http://evil.example/", "http://brig-a.evil.example:1/", None):
            with answering({"url": url, "expires_s": 60}) as port:
                done = start_brig("dashboard", "--no-open", env={"BRIG_HOST": f"http://127.0.0.1:{port}", "BRIG_TOKEN": "brig_" + "a" * 43})
                out, err = done.communicate()
                assert done.returncode == 125 and not out and b"another address" in err and b"\x1b" not in err, (url, out, err)
        done = start_brig("dashboard", "--port", "70000", env=d.environment)
        assert b"not a port" in done.communicate()[1]


if __name__ == "__main__":
    sys.exit(main())
