#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The page "Isolation and Security" of agents-sandbox in containers: its own example whole, and one file with every key."""

import json
import pathlib
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import common  # noqa: E402
from common import engine, podmans, settle, shared_engine, shared_podmans  # noqa: E402
from daemon import daemon  # noqa: E402
from harness import FACTOR, around, brig, home, identity, main, scratch, test, wait_until, workspace  # noqa: E402

WAIT = 30 * FACTOR

around(shared_engine)
around(shared_podmans)

# The page's, with images that are here: postgres:16-alpine would run the same program, as root at first.
EXAMPLE = f"""
image: {engine.SERVICES_IMAGE}
mounts:
  - source: WORKSPACE
    target: /workspace
    writable: true
companion_containers:
  postgres:
    image: {engine.SERVICES_IMAGE}
    command: [sh, -ec, "initdb --no-sync --locale=C --auth=trust --username=postgres --pgdata=/tmp/pg >&2; echo 'host all all all trust' >> /tmp/pg/pg_hba.conf; exec postgres -D /tmp/pg -c listen_addresses='*' -c unix_socket_directories=/tmp -c fsync=off"]
    healthcheck: {{test: ["CMD-SHELL", "pg_isready -h localhost -U postgres"], interval: 500ms, retries: 120}}
"""

EVERY = f"""
image: {engine.IMAGE}
mounts:
  - {{source: WORKSPACE, target: /workspace, writable: true}}
  - {{source: SCRATCH/shown, target: /shown}}
copies:
  - {{source: SCRATCH/copied, target: /tmp/copied, exclude_patterns: ["*.log"]}}
builtin_tools: [git, uv, apt]
envs: {{COLOUR: blue}}
labels: {{team: red}}
idle_ttl: 1h
cleanup_ttl: 1s
ports:
  - {{container_port: 8000, host_port: HOST_PORT}}
command: [sh, -c, "echo main >> main; exec httpd -f -p 8000 -h /tmp/copied"]
cpu_limit: "1"
memory_limit: 256m
companion_containers:
  web:
    image: {engine.IMAGE}
    envs: {{TEXT: of the companion}}
    command: [sh, -c, "mkdir /tmp/w; echo $TEXT > /tmp/w/index.html; exec httpd -f -p 8080 -h /tmp/w"]
    memory_limit: 64m
    cpu_limit: "0.5"
    healthcheck: {{test: [CMD, wget, -qO-, "http://localhost:8080/"], interval: 200ms, retries: 100}}
    post_start_on_primary: ["wget -qO- http://web:8080/ >> hooks"]
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def fetch(port):
    with socket.create_connection(("127.0.0.1", port), WAIT) as s:
        s.sendall(b"GET /index.html HTTP/1.0\r\n\r\n")
        return s.makefile("rb").read().decode().partition("\r\n\r\n")[2]


@test(limit=150, as_user="user")
def the_pages_own_example_runs_as_its_quick_start_is_printed():
    file = scratch() / "agbox.yaml"
    file.write_text(EXAMPLE.replace("WORKSPACE", str(workspace())))
    with daemon(env=common.environment()) as d:
        def line(*words):
            r = brig(*words, env={**d.environment, **common.environment()}, timeout=120)
            assert r.status == 0, (words, r)
            return r.text
        (workspace() / "mine").write_text("")
        assert "docker would run it, by brig sandbox create" in line("config", "check", str(file))
        line("allow", str(file))
        line("sandbox", "create", "--config", str(file), "--name", "work")
        assert line("sandbox", "exec", "work", "--", "ls") == "mine\n"
        assert line("sandbox", "exec", "work", "--", "psql", "-h", "postgres", "-U", "postgres", "-Atc", "select 1 + 1") == "2\n"
        assert "work" in line("sandbox", "list")
        line("sandbox", "delete", "work")
        line("sandbox", "delete", "work")


def every_key(where):
    port = free_port()
    bridges = empty_bridges()
    settle()
    for name, files in (("shown", {"file": "shown"}), ("copied", {"index.html": "of the sandbox\n", "a.log": "left out"})):
        (scratch() / name).mkdir()
        for f, text in files.items():
            (scratch() / name / f).write_text(text)
    (home() / ".git-credentials").write_text("https://user:word@git.test\n")
    file = scratch() / "every.yaml"
    file.write_text(EVERY.replace("WORKSPACE", str(workspace())).replace("SCRATCH", str(scratch())).replace("HOST_PORT", str(port)))
    with daemon(env=common.environment(host=where.host)) as d:
        def sandbox(*words):
            return brig("sandbox", *words, env={**d.environment, **common.environment(host=where.host)}, timeout=120)
        made = sandbox("create", "--config", str(file), "--name", "every")
        assert made.status == 0, made.errors
        assert "of uv, apt nothing of the host's enters" in made.errors and "the login of 'git' is inside" in made.errors, made.errors
        box = made.text.strip()
        got = sandbox("exec", "every", "--", "sh", "-c", "cat /shown/file /tmp/copied/index.html; ls /tmp/copied; echo $COLOUR; cat ~/.git-credentials; wget -qO- http://web:8080/")
        assert got.text == "shownof the sandbox\nindex.html\nblue\nhttps://user:word@git.test\nof the companion\n", got
        asked = sandbox("exec", "every", "--", "nslookup", "web")
        assert asked.status == 0 and "198.19.254.2" in asked.text, asked  # under bridge
        assert wait_until(lambda: fetch(port) == "of the sandbox\n", WAIT) and (workspace() / "hooks").read_text() == "of the companion\n"
        assert (workspace() / "main").read_text() == "main\n"
        shown = d.shown(box)
        assert (shown["labels"], shown["idle_ttl_ms"], shown["cleanup_ttl_ms"]) == ({"team": "red"}, 3600000, 1000), shown
        assert box in sandbox("list", "--label", "team=red", "--json").text
        # Who ends is begun again: the companion's command, then its whole container.
        def told():
            return [e["type"] for e in map(json.loads, sandbox("events").text.splitlines()) if e.get("companion") == "web"]
        names = [n for n, labels in where.containers().items() if labels.get("brig.sandbox") == box and not n.endswith("-door")]
        for n in names:
            if labels_user(where, n):
                continue
            assert where.ask("POST", f"/containers/{n}/kill?signal=KILL")[0] in (200, 204), n
        assert wait_until(lambda: told()[-3:] == ["companion.failed", "companion.starting", "companion.ready"], WAIT, 0.3), told()
        assert sandbox("exec", "every", "--", "wget", "-qO-", "http://web:8080/").text == "of the companion\n"
        assert sandbox("update", "every", "--idle-ttl", "100ms").status == 0
        assert wait_until(lambda: d.call("GET", f"/v1/sandboxes/{box}").status == 404, WAIT), d.shown(box)
        assert wait_until(lambda: not [n for n, labels in where.containers().items() if labels.get("brig.sandbox") == box], WAIT)
    assert wait_until(lambda: empty_bridges() <= bridges, WAIT), empty_bridges() - bridges
    (home() / ".git-credentials").unlink()


def empty_bridges():
    """Of Podman's networks, those that nothing is a port of."""
    """Podman's bridges without an end. What another test removes meanwhile is gone: glob gives the name, and there is nothing below it."""
    return {p.name for p in pathlib.Path("/sys/class/net").glob("podman*") if (p / "brif").is_dir() and not list((p / "brif").glob("*"))}


def labels_user(where, name):
    """The sandbox's own container has the file's labels."""
    return any(k.startswith("brig.user.") for k in where.containers()[name])


@test(limit=180)
def one_file_with_every_key_is_one_sandbox_on_docker():
    every_key(common.shared)


@test(limit=180)
def one_file_with_every_key_is_one_sandbox_on_podman():
    """A rootless one holds limits with control groups v2 alone, and this dialect always has one on processes: elsewhere it is refused by name, and nothing is left."""
    where = podmans[identity()]
    if identity() == "root" or pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists():
        every_key(where)
        return
    file = scratch() / "small.yaml"
    file.write_text(f"image: {engine.IMAGE}\n")
    with daemon(env=common.environment(host=where.host)) as d:
        r = brig("sandbox", "create", "--config", str(file), "--network", "proxy", env={**d.environment, **common.environment(host=where.host)}, timeout=120)
        assert r.status == 125 and "cannot enforce the limit on pids" in r.errors and "control groups v2" in r.errors, r
    assert wait_until(lambda: where.containers() == {}, WAIT), where.containers()


if __name__ == "__main__":
    sys.exit(main())
