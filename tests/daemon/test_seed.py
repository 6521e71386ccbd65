#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The page "Isolation and Security" of agents-sandbox, claim by claim, asked of the daemon's sandboxes on native."""

import json
import pathlib
import shutil
import socket
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import Daemon, daemon  # noqa: E402
from harness import PATIENCE, brig, descendants, files_as_root, home, main, runtime, scratch, state, test, wait_until, workspace  # noqa: E402

WAIT = 10 * PATIENCE

SERVE = "import http.server as h; h.ThreadingHTTPServer(('', PORT), h.SimpleHTTPRequestHandler).serve_forever()"

# Every key that the page, or the file it speaks of, has; a companion is a command of the host's programs here.
EVERY = """
brig: 1
backend: native
workspace: {path: WORKSPACE}
mounts: ["SCRATCH/shown:/shown"]
copies: [{source: SCRATCH/copied, target: /tmp/copied, exclude: ["*.log"]}]
builtin_tools: [git, uv]
env: {set: {COLOUR: blue}}
labels: {team: red, tier: one}
ports: ["HOST_PORT:8000"]
command: [sh, -c, "echo main >> main; cd /tmp/copied; exec python3 -c \\"$SERVER\\""]
idle_ttl: 1h
cleanup_ttl: 1s
limits: {memory: 512m, pids: 200}
companions:
  web:
    command: [sh, -c, "cd /data; echo of the companion > index.html; exec python3 -c \\"$SERVER\\""]
    data: /data
    env: {SERVER: "SERVE_WEB"}
    limits: {memory: 256m, pids: 50}
    healthcheck: {test: [CMD-SHELL, "python3 -c \\"import socket; socket.create_connection(('localhost', 80), 1)\\""], interval: 50ms, retries: 200}
    post_start_on_primary: ["echo hook >> hooks"]
"""

CONNECT = """
import socket, sys
for host, port in zip(sys.argv[1::2], sys.argv[2::2]):
    try:
        socket.create_connection((host, int(port)), 2).close()
        print("reached", host)
    except OSError:
        pass
"""


def sandbox(d, **spec):
    return d.create(spec={"workspace": {"path": str(workspace())}, **spec})["id"]


def sh(d, box, line):
    return d.exec(box, "sh", "-c", line)


def listener(family, host):
    """One of the host's that takes whoever comes, and counts them."""
    s = socket.socket(family)
    s.bind((host, 0))
    s.listen(8)
    came = []

    def serve():
        try:
            while True:
                c, _ = s.accept()
                came.append(c)
        except OSError:
            pass

    threading.Thread(target=serve, daemon=True).start()
    return s, s.getsockname()[1], came


@test
def a_sandbox_cannot_reach_localhost_host_services_or_the_local_network():
    places = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1")]
    own = socket.gethostbyname(socket.gethostname())
    with daemon() as d:
        box = sandbox(d)
        for family, host in places:
            s, port, came = listener(family, host)
            asked = ["::1" if family == socket.AF_INET6 else "127.0.0.1", str(port), own, str(port), "localhost", str(port)]
            # The control: from outside it can be reached.
            socket.create_connection((asked[0], port), 5).close()
            assert wait_until(lambda came=came: len(came) == 1, WAIT)
            r = d.exec(box, "python3", "-c", CONNECT, *asked)
            assert r["exit_code"] == 0 and r["stdout"] == "" and len(came) == 1, (host, r, came)
            s.close()


@test
def the_host_filesystem_is_invisible_unless_it_was_declared():
    shown, hidden = scratch() / "shown", scratch() / "hidden"
    for folder in (shown, hidden):
        folder.mkdir()
        (folder / "file").write_text("of the host\n")
    with daemon() as d:
        box = sandbox(d, mounts=[f"{shown}:/shown"])
        assert sh(d, box, "cat /shown/file")["stdout"] == "of the host\n"
        assert sh(d, box, "echo x > /shown/file || echo x > /shown/new")["exit_code"] != 0
        assert sh(d, box, f"cat {hidden}/file; ls {state()} {runtime()}")["stdout"] == ""
        assert (shown / "file").read_text() == "of the host\n" and not (shown / "new").exists()
        # Everything else is rejected: links as sources, ways around, what is brig's own.
        (scratch() / "link").symlink_to(hidden)
        for source in (f"{scratch()}/link", f"{shown}/../hidden/../link", f"{state()}/brig"):
            a = d.call("POST", "/v1/sandboxes?wait=true", {"spec": {"mounts": [f"{source}:/x"]}})
            assert a.status >= 400 or a.json["state"] == "failed", (source, a)
    for path in (shown, hidden):
        (path / "file").unlink()
        path.rmdir()
    (scratch() / "link").unlink()


@test
def sandboxes_cannot_reach_each_other():
    serve = "import socket,time; s=socket.socket(); s.bind(('', 4000)); s.listen(); " \
            "u=socket.socket(socket.AF_UNIX); u.bind('\\0seed'); u.listen(); open('/tmp/up','w'); time.sleep(600)"
    knock = "import socket,sys\nfor f, a in ((socket.AF_INET, ('127.0.0.1', 4000)), (socket.AF_UNIX, '\\0seed')):\n" \
            "    try: socket.socket(f).connect(a); print('reached', a)\n    except OSError: pass"
    with daemon() as d:
        one, two = (d.create()["id"] for _ in range(2))
        d.call("POST", f"/v1/sandboxes/{one}/exec", {"argv": ["python3", "-c", serve], "detach": True})
        assert wait_until(lambda: sh(d, one, "test -e /tmp/up")["exit_code"] == 0, WAIT)
        assert d.exec(one, "python3", "-c", knock)["stdout"].count("reached") == 2, "the control"
        assert d.exec(two, "python3", "-c", knock)["stdout"] == ""
        spaces = [sh(d, box, "readlink /proc/self/ns/net /proc/self/ns/pid /proc/self/ns/ipc /proc/self/ns/mnt")["stdout"].split() for box in (one, two)]
        assert not set(spaces[0]) & set(spaces[1]), spaces
        assert "4000" not in sh(d, two, "cat /proc/net/tcp; ps ax")["stdout"] and sh(d, two, "ls /tmp")["stdout"] == ""


@test
def commands_are_no_root_below_an_init_that_reaps_and_passes_signals_on():
    with daemon() as d:
        box = sandbox(d)
        assert sh(d, box, "id -u")["stdout"] != "0\n"
        assert "brig-init" in descendants().values()
        for _ in range(3):
            assert sh(d, box, "(sleep 0.1 & exec true) & wait")["exit_code"] == 0
        assert wait_until(lambda: "Z" not in sh(d, box, "cat /proc/[0-9]*/stat | cut -d' ' -f3")["stdout"].split(), WAIT)
        run = d.call("POST", f"/v1/sandboxes/{box}/exec", {"command": "trap 'exit 7' TERM; : > up; while :; do sleep 0.05; done", "detach": True}).json["exec"]
        assert wait_until((workspace() / "up").exists, WAIT)
        assert d.call("POST", f"/v1/sandboxes/{box}/execs/{run}/signal", {"signal": "TERM"}).status == 204
        shown = f"/v1/sandboxes/{box}/execs/{run}"
        assert wait_until(lambda: d.call("GET", shown).json["state"] == "ended", WAIT)
        assert d.call("GET", shown).json["result"]["exit_code"] == 7


@test
def there_is_no_socket_of_an_engine_and_none_can_be_declared():
    with daemon() as d:
        box = sandbox(d)
        assert sh(d, box, "ls /var/run/docker.sock /run/docker.sock /run/podman /run/containerd; id -nG | grep -w docker")["stdout"] == ""
        engine = scratch() / "docker.sock"
        s = socket.socket(socket.AF_UNIX)
        s.bind(str(engine))
        a = d.call("POST", "/v1/sandboxes?wait=true", {"spec": {"mounts": [f"{engine}:/var/run/docker.sock"]}})
        assert a.status >= 400 or a.json["state"] == "failed", a
        s.close()
        engine.unlink()


@test
def a_daemon_manages_its_own_objects_alone():
    with daemon() as d:
        mine = d.create(labels={"kind": "a"})["id"]
        other = Daemon(env={"XDG_STATE_HOME": str(scratch() / "other")})
        other.path = runtime() / "d" / "other.sock"
        (scratch() / "other").mkdir(mode=0o700)
        other.start()
        theirs = other.create(labels={"kind": "a"})["id"]
        assert other.call("GET", f"/v1/sandboxes/{mine}").status == 404 and d.call("GET", f"/v1/sandboxes/{theirs}").status == 404
        assert d.call("DELETE", "/v1/sandboxes?label=kind=a").json["sandboxes"] == [mine]
        assert wait_until(lambda: d.call("GET", "/v1/sandboxes").json["sandboxes"] == [], WAIT)
        assert other.call("GET", f"/v1/sandboxes/{theirs}").json["state"] == "ready"
        assert other.exec(theirs, "true")["exit_code"] == 0
        other.clear()
        other.stop()
        other.to_opener.close()
        other.opener.wait(WAIT)
        with files_as_root():
            shutil.rmtree(scratch() / "other")


@test
def cleanup_is_automatic_and_idempotent():
    def left(box):
        with files_as_root():
            return [p for p in (state() / "brig/daemon/sandboxes").iterdir() if p.name == box]

    with daemon() as d:
        box = sandbox(d)
        d.call("POST", f"/v1/sandboxes/{box}/exec", {"command": "sleep 600", "detach": True})
        assert wait_until(lambda: "sleep" in descendants().values())
        for _ in range(2):
            assert d.call("DELETE", f"/v1/sandboxes/{box}").status == 204
        assert not left(box) and wait_until(lambda: not {"sleep", "brig-monitor", "brig-init"} & set(descendants().values()))
        # Stopped for longer than cleanup_ttl: deleted by itself.
        box = d.create(cleanup_ttl="1s")["id"]
        assert d.call("POST", f"/v1/sandboxes/{box}/stop", {"grace": "0s"}).json["state"] == "stopped"
        assert wait_until(lambda: d.call("GET", f"/v1/sandboxes/{box}").status == 404 and not left(box), WAIT)
        # What could not be made leaves the reason, and no process.
        a = d.call("POST", "/v1/sandboxes?wait=true", {"spec": {"workspace": {"path": "/no/such"}}}).json
        assert a["state"] == "failed" and wait_until(lambda: not {"brig-monitor", "brig-init"} & set(descendants().values())), a


@test
def host_uid_and_host_gid_are_those_of_the_user_inside():
    with daemon() as d:
        for backend in ("native", "bwrap"):
            got = sh(d, sandbox(d, backend=backend), "echo $HOST_UID:$HOST_GID $(id -u):$(id -g)")["stdout"].split()
            assert got[0] == got[1] and got[0] != ":", got


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def every_file(port):
    """The file with every key, and what it names."""
    for name, files in (("shown", {"file": "shown"}), ("copied", {"index.html": "of the sandbox\n", "a.log": "left out"})):
        (scratch() / name).mkdir()
        for file, text in files.items():
            (scratch() / name / file).write_text(text)
    (home() / ".git-credentials").write_text("https://user:word@git.test\n")
    text = EVERY.replace("WORKSPACE", str(workspace())).replace("SCRATCH", str(scratch())).replace("HOST_PORT", str(port))
    text = text.replace("SERVE_WEB", SERVE.replace("PORT", "80")).replace("{COLOUR: blue}", '{COLOUR: blue, SERVER: "%s"}' % SERVE.replace("PORT", "8000"))
    (scratch() / "every.yaml").write_text(text)
    return scratch() / "every.yaml"


def fetch(port):
    with socket.create_connection(("127.0.0.1", port), WAIT) as s:
        s.sendall(b"GET /index.html HTTP/1.0\r\n\r\n")
        return s.makefile("rb").read().decode().partition("\r\n\r\n")[2]


@test(limit=90, as_user="user")
def one_file_with_every_key_is_one_sandbox():
    port = free_port()
    file = every_file(port)
    with daemon() as d:
        def sandbox(*words):
            return brig("sandbox", *words, env=d.environment, timeout=60)

        def inside(line):
            r = sandbox("exec", "every", "--", "sh", "-c", line)
            assert r.status == 0, (line, r)
            return r.text
        checked = brig("config", "check", str(file))
        assert checked.status == 0 and "native would run it, by brig sandbox create" in checked.text, checked
        # The control: a run has no such thing, and says who has.
        refused = brig("run", "--config", str(file), "--", "true")
        assert refused.status == 125 and "brig sandbox create" in refused.errors, refused
        made = sandbox("create", "--config", str(file), "--name", "every")
        assert made.status == 0, made.errors
        assert "the login of 'git' is inside" in made.errors and "'uv'" not in made.errors, made.errors
        box = made.text.strip()
        assert inside("cat /shown/file /tmp/copied/index.html; ls /tmp/copied; echo $COLOUR; cat ~/.git-credentials") == \
            "shownof the sandbox\nindex.html\nblue\nhttps://user:word@git.test\n"
        get = "import urllib.request as u; print(u.urlopen('http://web/').read().decode(), end='')"
        assert inside(f'python3 -c "{get}"') == "of the companion\n"
        assert wait_until(lambda: (workspace() / "main").exists(), WAIT)
        assert wait_until(lambda: not sandbox("exec", "every", "--", "python3", "-c", "import socket; socket.create_connection(('localhost', 8000), 1)").status, WAIT)
        assert fetch(port) == "of the sandbox\n" and (workspace() / "hooks").read_text() == "hook\n"
        shown = d.shown(box)
        assert (shown["labels"], shown["idle_ttl_ms"], shown["cleanup_ttl_ms"]) == ({"team": "red", "tier": "one"}, 3600000, 1000), shown
        listed = sandbox("list", "--label", "team=red", "--json")
        assert box in listed.text and box not in sandbox("list", "--label", "team=blue", "--json").text, listed
        # What it is there for is begun again when it ends, and keeps it from being idle no more than a companion does.
        inside("kill $(cat /proc/[0-9]*/stat | awk '$2 == \"(python3)\" {print $1; exit}')")
        assert wait_until(lambda: (workspace() / "main").read_text() == "main\nmain\n", WAIT)
        assert "command: it has ended (signalled)" in sandbox("logs", "every").errors
        assert sandbox("update", "every", "--idle-ttl", "100ms").status == 0
        assert wait_until(lambda: d.call("GET", f"/v1/sandboxes/{box}").status == 404, WAIT), d.shown(box)
        (home() / ".git-credentials").unlink()
        told = [json.loads(line) for line in sandbox("events").text.splitlines()]
        assert any(e["type"] == "sandbox.stopped" and e["reason"] == "idle" for e in told), told


@test
def labels_of_a_file_select_what_is_deleted_and_a_second_delete_succeeds():
    (scratch() / "one.yaml").write_text("brig: 1\nlabels: {team: red}\ncleanup_ttl: 2h\n")
    with daemon() as d:
        def sandbox(*words):
            return brig("sandbox", *words, env=d.environment)
        ids = [sandbox("create", "--config", str(scratch() / "one.yaml"), *more).text.strip()
               for more in ((), ("--label", "team=blue"), ("--name", "third", "--cleanup-ttl", "1h"))]
        assert [d.shown(i)["labels"] for i in ids] == [{"team": "red"}, {"team": "blue"}, {"team": "red"}], "a flag wins"
        assert [d.shown(i)["cleanup_ttl_ms"] for i in ids] == [7200000, 7200000, 3600000], "a flag wins"
        assert sandbox("delete", "--label", "team=red").text.split() == [ids[0], ids[2]]
        assert wait_until(lambda: d.call("GET", f"/v1/sandboxes/{ids[2]}").status == 404, WAIT)
        for ref in ("third", ids[0], ids[1], ids[1], "third"):
            gone = sandbox("delete", ref)
            assert gone.status == 0, gone
        assert "there is no sandbox 'third': nothing was deleted" in gone.errors, gone
        failed = sandbox("create", "--config", str(scratch() / "two.yaml"))
        assert failed.status == 125, failed
        (scratch() / "two.yaml").write_text("brig: 1\ncommand: [no-such-program]\n")
        failed = sandbox("create", "--config", str(scratch() / "two.yaml"))
        assert failed.status == 125 and "no-such-program" in failed.errors, failed


if __name__ == "__main__":
    sys.exit(main())
