#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Companions of a sandbox: services beside it, each a sandbox of its own. PostgreSQL and Redis are Debian's."""

import concurrent.futures
import contextlib
import http.server
import json
import os
import pathlib
import signal
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from companions import ask, events, puppet, resolve, spec  # noqa: E402
from daemon import daemon  # noqa: E402
from harness import PATIENCE, brig, descendants, files_as_root, main, scratch, state, test, wait_until, workspace  # noqa: E402

WAIT = 10 * PATIENCE

DATABASE = """
brig: 1
workspace: {path: WORKSPACE}
companions:
  db:
    command:
      - sh
      - -ec
      - |
        PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
        [ -e /data/pg/PG_VERSION ] || initdb --no-sync --auth=trust --username=app --pgdata=/data/pg >&2
        grep -q 198.19 /data/pg/pg_hba.conf || echo "host all all 198.19.254.0/24 scram-sha-256" >> /data/pg/pg_hba.conf
        exec postgres -D /data/pg -c listen_addresses='*' -c unix_socket_directories=/tmp -c fsync=off
    data: /data
    limits: {memory: 512m, pids: 100}
    env: {PGPASSWORD: not-told}
    healthcheck: {test: [CMD-SHELL, "psql -h localhost -U app -d postgres -qc \\"alter role app password '$PGPASSWORD'\\""], interval: 200ms, retries: 200}
    post_start_on_primary:
      - PGPASSWORD=not-told psql -h db -U app -d postgres -qc 'create table if not exists t (n int); insert into t values (1)'
  cache:
    command: [redis-server, --port, "6379", --save, "", --protected-mode, "no"]
    healthcheck: {test: [CMD, redis-cli, ping], interval: 100ms, retries: 200}
    post_start_on_primary: ["redis-cli -h cache incr starts"]
"""


def folder(box):
    return state() / "brig/daemon/sandboxes" / box


def monitor(box):
    with files_as_root():
        for pid, name in descendants().items():
            with contextlib.suppress(OSError):
                if name == "brig-monitor" and box.encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
    return None


def refused(d, companions, **more):
    """The sandbox as it is once it has failed."""
    a = d.call("POST", "/v1/sandboxes?wait=true", {"spec": spec(companions, **more)})
    box = a.json.get("id") or d.call("GET", "/v1/sandboxes").json["sandboxes"][-1]["id"]
    return d.becomes(box, "failed")


@test(limit=120)
def a_database_and_a_cache_serve_a_sandbox():
    config = scratch() / "brig.yaml"
    config.write_text(DATABASE.replace("WORKSPACE", str(workspace())))
    with daemon() as d:
        def sandbox(*words):
            return brig("sandbox", *words, env={"BRIG_HOST": f"unix://{d.path}"}, timeout=90)
        made = sandbox("create", "--config", str(config), "--name", "app")
        assert made.status == 0, made.errors
        box = made.text.strip()
        inside = {pid: name for pid, name in descendants(monitor(box)).items()}
        assert {"postgres", "redis-server"} <= set(inside.values()), inside
        count = "PGPASSWORD=not-told psql -h db -U app -d postgres -Atc 'select count(*) from t'"
        assert sandbox("exec", "app", "--", "sh", "-c", count).text == "1\n"
        assert sandbox("exec", "app", "--", "redis-cli", "-h", "cache", "get", "starts").text == "1\n"
        assert sandbox("exec", "app", "--", "sh", "-c", count.replace("not-told", "guessed")).status == 2
        assert [(c["name"], c["state"], c["address"]) for c in d.shown(box)["companions"]] == [
            ("db", "ready", "198.19.254.2"), ("cache", "ready", "198.19.254.3")]
        types = [e["type"] for e in events(d, box) if not e["type"].startswith("exec.")]
        assert types[2:4] == ["companion.starting"] * 2 and types[4:7] == ["companion.ready"] * 2 + ["sandbox.ready"], types
        assert sandbox("stop", "app").status == 0
        assert [c["state"] for c in d.shown(box)["companions"]] == ["stopped", "stopped"]
        assert wait_until(lambda: not set(inside) & set(descendants()))
        assert sandbox("resume", "app").status == 0
        assert d.becomes(box, "ready") and sandbox("exec", "app", "--", "sh", "-c", count).text == "2\n", "data is kept, hooks run anew"
        assert sandbox("exec", "app", "--", "redis-cli", "-h", "cache", "get", "starts").text == "1\n", "it has no data"
        inside = descendants(monitor(box))
        with files_as_root():
            assert (folder(box) / "data/db").stat().st_mode & 0o777 == 0o700
        assert sandbox("delete", "app").status == 0
        assert wait_until(lambda: not folder(box).exists() and not set(inside) & set(descendants()))


@test
def what_is_not_ready_fails_the_sandbox_with_the_reason():
    with daemon() as d:
        never = {"test": ["CMD-SHELL", "printf 'not yet\\n\\033[31m'; false"], "interval": "20ms", "retries": 3}
        box = refused(d, {"a": puppet(healthcheck=never, data="/data"), "b": puppet()})
        assert box["reason"] == "companion-unhealthy" and "failed 3 times; it wrote last: " in box["error"]["what"], box
        assert "not yet  [31m" in box["error"]["what"], "in one line, and nothing for a terminal"
        assert [(c["state"], c["reason"]) for c in box["companions"]] == [("failed", "companion-unhealthy"), ("stopped", None)], box
        assert any(e["type"] == "companion.failed" and e["companion"] == "a" and e["reason"] == "companion-unhealthy" for e in events(d, box["id"]))
        with files_as_root():
            assert "not yet" in (folder(box["id"]) / "log").read_text()
            assert not (folder(box["id"]) / "data").exists() and not (folder(box["id"]) / "spec").exists()
        box = refused(d, {"a": puppet(command=["sh", "-c", "echo gone; exit 3"])})
        assert box["reason"] == "companion-unhealthy" and "has ended (exited)" in box["error"]["what"], box
        box = refused(d, {"a": puppet(command=["no-such-program"])})
        assert box["reason"] == "not_found" and "companion 'a'" in box["error"]["what"], box
        box = refused(d, {"a": {"command": ["no-such-program"]}})
        assert box["reason"] == "not_found" and "companion 'a'" in box["error"]["what"], box
        box = refused(d, {"a": puppet(post_start_on_primary=["true", "exit 5"])})
        assert box["reason"] == "post-start-failed" and "command 2" in box["error"]["what"] and "status 5" in box["error"]["what"], box
        slow = {"test": ["CMD", "sleep", "60"], "interval": "10ms", "timeout": "100ms", "retries": 2}
        assert refused(d, {"a": puppet(healthcheck=slow)})["reason"] == "companion-unhealthy"
        assert wait_until(lambda: "brig-monitor" not in descendants().values())


def served(d, box, name):
    """Its address and process, as the sandbox sees the one and the host the other."""
    return ask(d, box, name, "import os; out = os.stat('/proc/self/ns/net').st_ino")


@test
def one_that_ends_is_told_of_and_begun_again_while_the_sandbox_stays():
    with daemon() as d:
        box = d.create(spec=spec({"a": puppet(data="/data", post_start_on_primary=["echo hook >> hooks"]), "b": {"command": ["sleep", "1000"]}}))["id"]

        def told(name):
            return [(e["type"], e.get("reason")) for e in events(d, box) if e.get("companion") == name]
        place = served(d, box, "a")
        ask(d, box, "a", "open('/data/kept', 'w').write('1')")
        assert d.exec(box, "python3", "-c", "import socket; socket.create_connection(('a', 8080)).sendall(b'\"import os; os._exit(4)\"\\n')")["exit_code"] == 0
        again = [("companion.starting", None), ("companion.ready", None)]
        assert wait_until(lambda: told("a") == [*again, ("companion.failed", "exited"), *again], WAIT), told("a")
        assert served(d, box, "a") == place, "in the same sandbox"
        # Its sandbox is gone as well: another one takes its seat, with the same data and address.
        with files_as_root():
            init = next(p for p, n in descendants(monitor(box)).items() if n == "brig-init" and os.stat(f"/proc/{p}/ns/net").st_ino == place)
            os.kill(init, signal.SIGKILL)
        assert wait_until(lambda: told("a")[-2:] == again and len(told("a")) == 8, WAIT), told("a")
        assert served(d, box, "a") != place and ask(d, box, "a", "out = open('/data/kept').read()") == "1"
        assert [c["state"] for c in d.shown(box)["companions"]] == ["ready", "ready"] and len(told("b")) == 2, d.shown(box)
        assert (workspace() / "hooks").read_text() == "hook\n", "hooks are of the creation"
        assert d.shown(box)["state"] == "ready" and d.exec(box, "true")["exit_code"] == 0
        # A stop waits for none that is to come again.
        ask_end = "import socket; socket.create_connection(('a', 8080)).sendall(b'\"import os; os._exit(4)\"\\n')"
        d.exec(box, "python3", "-c", ask_end)
        assert d.call("POST", f"/v1/sandboxes/{box}/stop").json["state"] == "stopped"
        assert wait_until(lambda: "brig-init" not in descendants().values())


@test
def they_are_paused_and_go_on_with_their_sandbox():
    with daemon() as d:
        box = d.create(spec=spec({"a": puppet(), "b": {"command": ["sh", "-c", "while :; do :; done"]}}))["id"]
        assert ask(d, box, "a", "import time; out = 1") == 1
        busy = next(pid for pid, name in descendants(monitor(box)).items() if name == "sh")

        def used():
            return pathlib.Path(f"/proc/{busy}/stat").read_text().rsplit(")", 1)[1].split()[11]

        def works():
            before = used()
            return wait_until(lambda: used() != before, 1)
        assert works(), "the control proves nothing"
        assert d.call("POST", f"/v1/sandboxes/{box}/pause").status in (200, 202)
        d.becomes(box, "paused")
        assert not works()
        assert d.call("POST", f"/v1/sandboxes/{box}/resume").status in (200, 202)
        d.becomes(box, "ready")
        assert works() and ask(d, box, "a", "out = 2") == 2


@test
def one_that_starts_can_be_stopped_and_resumed():
    with daemon() as d:
        waits = {"test": ["CMD", "test", "!", "-e", "/data/wait"], "interval": "20ms", "retries": 10000}
        box = d.create(spec=spec({"a": puppet(healthcheck=waits, data="/data")}))["id"]
        ask(d, box, "a", "open('/data/wait', 'w')")
        assert d.call("POST", f"/v1/sandboxes/{box}/stop").status in (200, 202)
        waiting = d.connection()
        waiting.request("POST", f"/v1/sandboxes/{box}/resume")
        assert wait_until(lambda: sum(e["type"] == "companion.starting" for e in events(d, box)) == 2)
        assert d.call("POST", f"/v1/sandboxes/{box}/stop").status in (200, 202)
        assert wait_until(lambda: not monitor(box))
        assert d.becomes(box, "stopped", "failed")["reason"] == "stopped", d.shown(box)
        answer = waiting.getresponse()
        assert answer.status == 409, answer.read()
        waiting.close()
        with files_as_root():
            (folder(box) / "data/a/wait").unlink()
        assert d.call("POST", f"/v1/sandboxes/{box}/resume").status in (200, 202)
        d.becomes(box, "ready")
        assert ask(d, box, "a", "out = 6") == 6


@test
def one_whose_hook_or_check_is_under_way_can_be_stopped_and_resumed():
    """SIGTERM ends these, too: that is a stop, and no failure after which nobody comes to the data again."""
    with daemon() as d:
        waits = {"test": ["CMD-SHELL", "test ! -e /data/wait || exec sleep 60"], "timeout": "50s", "retries": 1}
        box = d.create(spec=spec({"a": puppet(data="/data", healthcheck=waits, post_start_on_primary=["test ! -e wait || exec sleep 60"])}))["id"]
        assert wait_until(lambda: d.shown(box)["state"] == "ready")

        def resumed_and_stopped():
            assert d.call("POST", f"/v1/sandboxes/{box}/stop").status in (200, 202)
            waiting = d.connection()
            waiting.request("POST", f"/v1/sandboxes/{box}/resume")
            assert wait_until(lambda: monitor(box) and "sleep" in descendants(monitor(box)).values(), WAIT)
            assert d.call("POST", f"/v1/sandboxes/{box}/stop").status in (200, 202)
            assert wait_until(lambda: not monitor(box), WAIT)
            assert d.becomes(box, "stopped", "failed")["reason"] == "stopped", d.shown(box)
            waiting.close()

        assert d.exec(box, "touch", "wait")["exit_code"] == 0
        resumed_and_stopped()
        (pathlib.Path(d.shown(box)["spec"]["workspace"]["path"]) / "wait").unlink()
        assert d.call("POST", f"/v1/sandboxes/{box}/resume?wait=true").status in (200, 202)
        d.becomes(box, "ready")
        ask(d, box, "a", "open('/data/wait', 'w')")
        resumed_and_stopped()


@test
def a_killed_monitor_leaves_none_of_them():
    with daemon() as d:
        box = d.create(spec=spec({"a": puppet(data="/data"), "b": puppet()}))["id"]
        inside = descendants(monitor(box))
        assert sum(name == "brig-init" for name in inside.values()) == 3, inside
        with files_as_root():
            os.kill(monitor(box), signal.SIGKILL)
        assert d.becomes(box, "stopped")["reason"] == "lost"
        assert wait_until(lambda: not set(inside) & set(descendants()))
        assert [c["state"] for c in d.shown(box)["companions"]] == ["stopped", "stopped"]
        assert d.call("POST", f"/v1/sandboxes/{box}/resume?wait=true").status in (200, 202)
        d.becomes(box, "ready")
        assert ask(d, box, "b", "out = 3") == 3


@test
def a_killed_daemon_finds_them_again():
    with daemon() as d:
        waits = {"test": ["CMD-SHELL", "[ -e /tmp/go ]"], "interval": "20ms", "retries": 10000}
        a = d.call("POST", "/v1/sandboxes", {"spec": spec({"a": puppet(healthcheck=waits)})})
        box = a.json["id"]
        assert wait_until(lambda: any(e["type"] == "companion.starting" for e in events(d, box)))
        d.restart()
        assert d.shown(box)["state"] == "pending" and d.shown(box)["companions"][0]["state"] == "starting", d.shown(box)
        pid = monitor(box)
        with files_as_root():
            inits = [p for p, name in descendants(pid).items() if name == "brig-init"]
            made = [pathlib.Path(f"/proc/{p}/root/tmp/go") for p in inits]
        assert made and d.call("DELETE", f"/v1/sandboxes/{box}").status in (200, 202, 204)
        assert wait_until(lambda: d.shown(box)["state"] == "deleted" and pid not in descendants())


@test
def a_sandbox_on_bwrap_has_them_as_well():
    with daemon() as d:
        box = d.create(spec=spec({"a": puppet()}, backend="bwrap"))
        assert box["backend"] == "bwrap" and ask(d, box["id"], "a", "out = 5") == 5


@test
def members_have_a_network_of_their_own_beside_the_sandboxs():
    with daemon() as d:
        box = d.create(spec=spec({"a": puppet(), "b": puppet()}, network="proxy"))["id"]
        assert ask(d, box, "a", "out = 4") == 4
        direct = d.exec(box, "sh", "-c", "echo $NO_PROXY")["stdout"]
        assert ",a,198.19.254.2," in direct and direct.startswith("localhost,"), direct
        other = "import socket; s = socket.create_connection(('NAME', 8080), 3); out = s.getpeername()[0]"
        assert ask(d, box, "a", other.replace("NAME", "b")) == "198.19.254.3"
        assert ask(d, box, "b", other.replace("NAME", "a")) == "198.19.254.2"
        serve = d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["python3", "-m", "http.server", "8080"], "detach": True})
        assert serve.status in (200, 201, 202), serve
        assert wait_until(lambda: ask(d, box, "a", other.replace("NAME", "sandbox")) == "198.19.254.1")


# By packet and by stream, for an address of IPv4, then of IPv6.
GIVEN, NEVER = [[0, "198.19.254.2"]] * 2 + [[0, None]] * 2, [[3, None]] * 4

HOSTILE = r"""
import os, random, socket, struct
there = (server, 53)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
good = message("a", 1)
for i in range(1500):
    bent = bytearray(good)
    bent[random.randrange(len(bent))] = random.randrange(256)
    s.sendto((os.urandom(random.randrange(1400)), bytes(bent), good[:i % len(good)])[i % 3], there)
held = []
for i in range(200):
    c = socket.create_connection(there, 5)
    c.sendall((b"", b"\xff\xff", b"\0", b"\0\x05abc", struct.pack(">H", len(good)) + good)[i % 5])
    held.append(c)
# An answer for somebody else, by an address that is theirs.
f = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
f.setsockopt(socket.IPPROTO_IP, 15, 1)
f.bind(("198.19.254.3", 5353))
try:
    f.sendto(good, there)
except OSError:
    pass  # its own kernel will not send from there
s.sendto(b"control", ("198.19.254.3", 5353))
out = [out, said(by_stream(good)), said(by_packet(good))]
"""


@test
def names_are_answered_by_dns_for_members_alone_whatever_is_sent():
    with daemon() as d:
        box = d.create(spec=spec({"a": puppet(), "b": puppet()}))["id"]

        def inside(code):
            r = d.exec(box, "python3", "-c", code + "\nimport json; print(json.dumps(out))")
            assert r["exit_code"] == 0, r
            return json.loads(r["stdout"])
        others = ["c", "a.b", "example.com", "localhost", "198.19.254.2"]
        asked = inside(resolve(["a", "A", "sandbox", *others]))
        assert asked["a"] == asked["A"] == GIVEN and asked["sandbox"][0] == [0, "198.19.254.1"], asked
        assert all(asked[n] == NEVER for n in others), asked
        assert ask(d, box, "b", resolve(["a", "c"])) == {"a": GIVEN, "c": NEVER}
        # Who answers can make no socket, and has none but those two.
        with files_as_root():
            who = [p for p, n in descendants(monitor(box)).items() if n == "brig-egress"]
            links = [os.readlink(f"/proc/{who[0]}/fd/{n}") for n in os.listdir(f"/proc/{who[0]}/fd")]
            assert len(who) == 1 and "Seccomp:\t2" in pathlib.Path(f"/proc/{who[0]}/status").read_text(), who
        heard = "import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 5353)); s.settimeout(20)\n" \
                "out = [s.recv(512).decode('latin1')]\ns.settimeout(0.3)\ntry:\n    out.append(s.recv(512).decode('latin1'))\nexcept OSError:\n    pass"
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            other = pool.submit(ask, d, box, "b", heard)
            assert wait_until(lambda: "14E9" in ask(d, box, "b", "out = open('/proc/net/udp').read()"), WAIT), "it listens"
            tried = inside(resolve(["a"]) + HOSTILE)
            assert tried == [{"a": GIVEN}, *GIVEN[:2]], tried
            assert other.result() == ["control"], "nothing that it has not asked for"
        with files_as_root():
            assert wait_until(lambda: sum("socket" in os.readlink(f"/proc/{who[0]}/fd/{n}") for n in os.listdir(f"/proc/{who[0]}/fd")) ==
                              sum("socket" in link for link in links), 3 * WAIT), "streams that ask for nothing are closed"
        # Behind a door it is the door's resolver that knows them.
        box = d.create(spec=spec({"a": puppet()}, network="proxy"))["id"]
        asked = inside(resolve(["a", "A", "example.com"]))
        assert asked["a"] == asked["A"] == GIVEN and asked["example.com"][0][1].startswith("198.18."), asked


def serving():
    """A web server of the host's, and what came to it."""
    seen = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "3")
            self.end_headers()
            self.wfile.write(b"yes")

        def log_message(self, *_):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, seen


FETCH = r"""
import urllib.request
def fetch(url):
    try:
        return urllib.request.urlopen(url, timeout=10).read().decode()
    except Exception as e:
        return type(e).__name__
out = [fetch(u) for u in ("http://web.test/from", "http://other.test/", "http://127.0.0.1:PORT/direct", "http://b:8080/")]
"""


@test
def one_with_a_door_reaches_what_the_sandbox_is_allowed():
    """And its members beside the door. Its neighbour without one reaches nothing by it."""
    server, seen = serving()
    port = server.server_address[1]
    egress = {"allow": ["web.test:80"], "resolve": {"web.test": f"127.0.0.1:{port}", "other.test": f"127.0.0.1:{port}"}, "https_only": False}
    with daemon() as d:
        box = d.create(spec=spec({"a": puppet(network="proxy"), "b": puppet()}, egress=egress, network="proxy"))["id"]
        fetch = FETCH.replace("PORT", str(port))
        found = ask(d, box, "a", fetch)
        assert found[0] == "yes" and "yes" not in found[1:] and found[3] == "BadStatusLine", found
        assert seen == ["/from"], seen
        # What its door refused is told of, where the sandbox's events are.
        assert wait_until(lambda: any(e["type"] == "companion.denied" and e["companion"] == "a" and "other.test" in e["data"]["target"] for e in events(d, box)), WAIT), events(d, box)
        assert d.exec(box, "python3", "-c", fetch + "\nprint(out[0])")["stdout"] == "yes\n", "the control proves nothing"
        assert "yes" not in ask(d, box, "b", fetch) and len(seen) == 2, seen
        assert ask(d, box, "a", "import os; out = 'b' in os.environ['NO_PROXY'].split(',')") is True
    server.shutdown()
    server.server_close()


BURST = r"""
import threading, time, urllib.request
def fetch(url):
    try:
        urllib.request.urlopen(url, timeout=10).read()
    except Exception:
        pass
def burst():
    time.sleep(0.3)
    for n in range(250):
        fetch("http://NAME%d.test/" % n)
    fetch("http://web.test/NAME")
threading.Thread(target=burst).start()
out = 1
"""


@test
def a_burst_of_denials_does_not_cut_the_sandbox_off():
    """More than a socket holds, while the daemon does something else: they wait for it, and so does everything else."""
    server, seen = serving()
    egress = {"allow": ["web.test:80"], "resolve": {"web.test": f"127.0.0.1:{server.server_address[1]}"}, "https_only": False}
    with daemon() as d:
        box = d.create(spec=spec({"a": puppet(network="proxy"), "b": puppet(network="proxy")}, egress=egress, network="proxy"))["id"]
        pid = d.call("GET", "/v1/info").json["pid"]
        for name in "ab":
            assert ask(d, box, name, BURST.replace("NAME", name)) == 1
        with files_as_root():
            os.kill(pid, signal.SIGSTOP)
        try:
            assert wait_until(lambda: set(seen) == {"/a", "/b"}, WAIT), seen
        finally:
            with files_as_root():
                os.kill(pid, signal.SIGCONT)
        assert d.exec(box, "echo", "here")["stdout"] == "here\n"
        told = lambda: {e["data"]["target"] for e in events(d, box) if e["type"] == "companion.denied"}
        assert wait_until(lambda: len(told()) == 500, WAIT), len(told())
        assert d.call("POST", f"/v1/sandboxes/{box}/stop?wait=true", {"grace": "0s"}).json["state"] == "stopped"
    server.shutdown()
    server.server_close()


@test
def what_cannot_be_had_is_refused_by_name():
    with daemon() as d:
        for companions, more, said in (({"a": {"image": "redis"}}, {}, "image cannot be run on native"),
                                       ({"a": puppet()}, {"network": "host"}, "the host's own network"),
                                       ({"a": puppet(network="proxy")}, {"network": "proxy", "egress": {"upstream_proxy": "http://proxy.test:3128", "upstream_login": "P"},
                                                                         "credentials": {"P": {"host": "proxy.test", "basic": "me", "from": {"env": "P"}}}}, "upstream_login is a credential"),
                                       ({"a": puppet()}, {"backend": "none", "policy": "full_access", "allow_full_access": True}, "companions")):
            box = refused(d, companions, **more)
            assert said in box["error"]["what"], box
        a = d.call("POST", "/v1/sandboxes", {"spec": spec({"a": {"command": ["true"], "privileged": True}})})
        assert a.status == 400 and "privileged" in a.json["detail"], a
    config = scratch() / "brig.yaml"
    config.write_text("brig: 1\ncompanions: {a: {command: [sleep, '9']}}\n")
    done = brig("run", "--config", str(config), "--", "true")
    assert done.status == 125 and "brig sandbox create" in done.errors, done.errors


if __name__ == "__main__":
    sys.exit(main())
