#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Companions of a sandbox in containers: each in one of its own, on a network that no network of the engine's is part of."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import socketserver
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import common  # noqa: E402
import neighbours  # noqa: E402
from common import engine, podmans, settle, shared_engine, shared_podmans  # noqa: E402
from companions import ask, events, here, puppet, reach, resolve, spec  # noqa: E402
from daemon import daemon  # noqa: E402
from harness import FACTOR, around, descendants, files_as_root, identity, main, scratch, state, test, wait_until  # noqa: E402

WAIT = 30 * FACTOR

around(shared_engine)
around(shared_podmans)

DATABASE = """
[ -e /data/pg/PG_VERSION ] || initdb --no-sync --locale=C --auth=trust --username=app --pgdata=/data/pg >&2
grep -q 198.19 /data/pg/pg_hba.conf || echo "host all all 198.19.254.0/24 scram-sha-256" >> /data/pg/pg_hba.conf
exec postgres -D /data/pg -c listen_addresses='*' -c unix_socket_directories=/tmp -c fsync=off
"""
MIGRATION = "PGPASSWORD=not-told psql -h db -U app -d postgres -qc 'create table if not exists t (n int); insert into t values (1)'"
COUNT = "PGPASSWORD=not-told psql -h db -U app -d postgres -Atc 'select count(*) from t'"
SERVICES = {
    "db": {"command": ["sh", "-ec", DATABASE], "data": "/data", "limits": {"memory": "512m", "pids": 100}, "env": {"PGPASSWORD": "not-told"},
           "healthcheck": {"test": ["CMD-SHELL", "psql -h localhost -U app -d postgres -qc \"alter role app password '$PGPASSWORD'\""],
                           "interval": "200ms", "retries": 300},
           "post_start_on_primary": [MIGRATION]},
    "cache": {"image": engine.CACHE_IMAGE,
              "healthcheck": {"test": ["CMD", "redis-cli", "ping"], "interval": "200ms", "retries": 300},
              "post_start_on_primary": ["redis-cli -h cache incr starts"]},
}


def made(companions, **more):
    settle()
    return spec(companions, **{"backend": "docker", "image": engine.PYTHON_IMAGE, **more})


def refused(d, companions, **more):
    a = d.call("POST", "/v1/sandboxes?wait=true", {"spec": made(companions, **more)})
    box = a.json.get("id") or d.call("GET", "/v1/sandboxes").json["sandboxes"][-1]["id"]
    assert wait_until(lambda: d.shown(box)["state"] == "failed", WAIT), d.shown(box)
    return d.shown(box)["error"]["what"]


def containers(box, where=None):
    """Those of a sandbox and its companions, with the helpers, running or not."""
    return [name for name, labels in (where or common.shared).containers().items() if labels.get("brig.sandbox") == box]


def states(box):
    return {common.shared.ask("GET", f"/containers/{name}/json")[1]["State"]["Status"] for name in containers(box) if not name.endswith("-door")}


def no_trace(box, where=None):
    e = where or common.shared
    left = wait_until(lambda: not containers(box, e), WAIT)
    with files_as_root():
        notes = wait_until(lambda: not any((state() / "brig/docker").iterdir()), WAIT)
    # Other tests on this engine have networks for a while.
    return left and notes and wait_until(lambda: not any(n.startswith("brig-") for n in e.networks()), WAIT)


@test(limit=180)
def a_database_and_a_cache_serve_a_sandbox():
    with daemon(env=common.environment()) as d:
        box = d.create(spec=made(SERVICES, image=engine.SERVICES_IMAGE))["id"]
        assert d.exec(box, "sh", "-c", COUNT)["stdout"] == "1\n"
        assert d.exec(box, "sh", "-c", COUNT.replace("not-told", "guessed"))["exit_code"] == 2
        assert d.exec(box, "redis-cli", "-h", "cache", "get", "starts")["stdout"] == "1\n", "what the image runs by itself"
        assert d.exec(box, "redis-cli", "-h", "cache", "config", "get", "dir")["stdout"].split()[1] == "/srv", "and where"
        assert [(c["name"], c["state"], c["address"]) for c in d.shown(box)["companions"]] == [
            ("db", "ready", "198.19.254.2"), ("cache", "ready", "198.19.254.3")]
        types = [e["type"] for e in events(d, box)]
        assert types.count("companion.starting") == types.count("companion.ready") == 2, types
        used = d.call("GET", f"/v1/use?sandbox={box}").json["sandboxes"][box]
        assert used["processes"] >= 8, used  # a PostgreSQL at rest has six, its cache one, and each container a first one
        names = containers(box)
        assert len([n for n in names if not n.endswith("-door")]) == 3, names
        labels = [common.shared.containers()[n] for n in names]
        assert len({one["brig.instance"] for one in labels}) == 1 and len({one["brig.run"] for one in labels}) == 3, labels
        for name in names:
            c = common.shared.ask("GET", f"/containers/{name}/json")[1]
            assert not c["NetworkSettings"]["Networks"] or set(c["NetworkSettings"]["Networks"]) == {"none"}, c["NetworkSettings"]
            assert c["HostConfig"]["NetworkMode"] == "none" or c["HostConfig"]["NetworkMode"].startswith("container:"), c["HostConfig"]
            assert name.endswith("-door") or not c["Config"]["User"].startswith("0"), c["Config"]["User"]
        assert d.call("POST", f"/v1/sandboxes/{box}/stop").json["state"] == "stopped"
        assert no_trace(box), containers(box)
        assert d.call("POST", f"/v1/sandboxes/{box}/resume").status in (200, 202)
        assert wait_until(lambda: d.shown(box)["state"] == "ready", WAIT), d.shown(box)
        assert d.exec(box, "sh", "-c", COUNT)["stdout"] == "2\n", "data is kept, hooks run anew"
        with files_as_root():
            assert (state() / "brig/daemon/sandboxes" / box / "data/db").stat().st_mode & 0o777 == 0o700
        d.call("DELETE", f"/v1/sandboxes/{box}")
        assert wait_until(lambda: d.shown(box)["state"] == "deleted", WAIT) and no_trace(box), containers(box)
        with files_as_root():
            assert wait_until(lambda: not os.listdir(state() / "brig/daemon/sandboxes"), WAIT)


class Visitors(socketserver.ThreadingTCPServer):
    address_family = socket.AF_INET6
    allow_reuse_address = daemon_threads = True

    def finish_request(self, _, address):
        self.visits.append(address)


@contextlib.contextmanager
def listening():
    """On every address of this machine, of both families."""
    server = Visitors(("::", 0), None)
    server.visits = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def own_addresses():
    found = json.loads(subprocess.run(["ip", "-j", "addr"], capture_output=True, check=True).stdout)
    return {a["local"] for link in found for a in link["addr_info"] if a["scope"] in ("host", "global")}


LOOK = r"""
import os, socket
def lines(path):
    return [l.split() for l in open(path)] if os.path.exists(path) else []
out = {"devices": sorted(n for _, n in socket.if_nameindex()), "routes": sorted(l[1] for l in lines("/proc/net/route")[1:]),
       "six": [l[0] for l in lines("/proc/net/if_inet6") if l[5] != "lo"]}
"""
MEMBERS_ALONE = {"devices": ["brig0", "lo"], "routes": ["00FE13C6", "FEFE13C6"], "six": []}


@test(limit=120, as_user="user")
def a_companion_reaches_nothing_but_its_members():
    """Neither this machine by loopback or an address of its own, nor the members of another sandbox."""
    with listening() as seen, daemon(env=common.environment()) as d:
        port, addresses = seen.server_address[1], sorted(own_addresses() | {"127.0.0.1", "::1"})
        assert {a for a, _, _ in here(reach(addresses, port))} == set(addresses), "the control proves nothing"
        plain = common.box("--network", "host", "--", "python3", "-c", reach(addresses, port) + "\nprint(len({a for a, _, _ in out}))", image=engine.PYTHON_IMAGE)
        assert plain.text == f"{len(addresses)}\n", (plain.text, plain.errors)
        many = d.create(spec=made({"a": puppet(), "b": puppet()}))["id"]
        one = d.create(spec=made({"a": puppet(env={"WHO": "one"})}))["id"]
        assert ask(d, many, "a", resolve(["b", "example.com"])) == {"b": [[0, "198.19.254.3"]] * 2 + [[0, None]] * 2, "example.com": [[3, None]] * 4}
        seen.visits.clear()
        far = (*addresses, "ff02::1", "fe80::1", "198.19.254.254", "198.19.254.200")
        for box in (many, one):
            assert ask(d, box, "a", reach(far, port)) == []
            assert d.exec(box, "python3", "-c", reach(far, port) + "\nprint(out)")["stdout"] == "[]\n"
            for found in (ask(d, box, "a", LOOK), json.loads(d.exec(box, "python3", "-c", LOOK + "\nimport json; print(json.dumps(out))")["stdout"])):
                assert found == MEMBERS_ALONE, found
        assert not seen.visits, seen.visits
        assert ask(d, many, "a", reach(["198.19.254.3"], 8080)), "the control proves nothing"
        assert ask(d, one, "a", reach(["198.19.254.3"], 8080)) == []
        assert ask(d, one, "a", "import os; out = os.environ.get('WHO')") == "one" and ask(d, many, "a", "import os; out = os.environ.get('WHO')") is None
        assert ask(d, many, "b", "import os; out = [os.getuid() != 0, os.path.exists('/workspace/mark')]") == [True, False]


@test(by_root=True, as_user="root", alone=True, limit=180)
def one_with_a_bridge_reaches_the_internet_and_nothing_nearer():
    """Nor does its neighbour by it. Engine and daemon are in a world of the test's own, where who came is counted."""
    targets = (neighbours.PUBLIC, neighbours.HOST, neighbours.OWN, neighbours.LAN, neighbours.METADATA, "127.0.0.1")
    with neighbours.world(scratch()) as w, engine.Dockerd(scratch() / "d", networks=True) as e:
        e.import_image(engine.python_tar(), engine.PYTHON_IMAGE)
        with daemon(env=common.environment(host=e.host)) as d:
            assert wait_until(lambda: {a for a, _, _ in here(reach(targets, neighbours.PORT))} == set(targets), WAIT), "the control proves nothing"
            box = d.create(spec=made({"a": puppet(network="bridge"), "b": puppet()}))["id"]
            w.clear()
            assert ask(d, box, "b", reach(targets, neighbours.PORT)) == [] and not w.seen(), w.seen()
            assert d.exec(box, "python3", "-c", reach(targets, neighbours.PORT) + "\nprint(out)")["stdout"] == "[]\n" and not w.seen(), w.seen()
            assert wait_until(lambda: {a for a, _, _ in ask(d, box, "a", reach(targets, neighbours.PORT))} == {neighbours.PUBLIC}, WAIT)
            assert set(w.seen()) <= {f"tcp {neighbours.PUBLIC}", f"udp {neighbours.PUBLIC}"}, w.seen()
            d.call("DELETE", f"/v1/sandboxes/{box}")
            assert no_trace(box, e), (e.containers(), e.networks())


@test(limit=120, as_user="root")
def whoever_is_killed_leaves_none_of_them():
    with daemon(env=common.environment()) as d:
        box = d.create(spec=made({"a": puppet(data="/data")}, network="proxy"))["id"]
        assert ",a,198.19.254.2" in d.exec(box, "sh", "-c", "echo $NO_PROXY")["stdout"], "a door of the sandbox's own is not in the way"
        assert ask(d, box, "a", "open('/data/mark', 'w').write('x'); import os; out = os.listdir('/data')") == ["mark"]
        assert ask(d, box, "a", LOOK) == MEMBERS_ALONE
        assert d.call("POST", f"/v1/sandboxes/{box}/pause").status in (200, 202)
        assert wait_until(lambda: d.shown(box)["state"] == "paused", WAIT), d.shown(box)
        assert states(box) == {"paused"} and d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["true"]}).status == 409
        assert d.call("POST", f"/v1/sandboxes/{box}/resume").status in (200, 202)
        assert wait_until(lambda: d.shown(box)["state"] == "ready", WAIT) and states(box) == {"running"}
        d.restart()
        assert d.shown(box)["state"] == "ready" and ask(d, box, "a", "out = 1") == 1
        assert d.call("POST", f"/v1/sandboxes/{box}/pause").status in (200, 202)
        with files_as_root():
            monitor = [pid for pid, name in descendants().items() if name == "brig-monitor" and box.encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
            os.kill(monitor[0], signal.SIGKILL)
        assert wait_until(lambda: d.shown(box)["state"] == "stopped", WAIT) and no_trace(box), containers(box)
        answer = d.call("POST", f"/v1/sandboxes/{box}/resume")
        assert answer.status in (200, 202), answer
        assert wait_until(lambda: d.shown(box)["state"] == "ready", WAIT), d.shown(box)
        assert ask(d, box, "a", "import os; out = os.listdir('/data')") == ["mark"]


@test(limit=120, as_user="user")
def what_cannot_be_had_is_refused_by_name_and_leaves_nothing():
    with daemon(env=common.environment()) as d:
        for companions, more, said in (({"a": {"image": engine.PYTHON_IMAGE}}, {}, "companion 'a': its image runs nothing by itself"),
                                       ({"a": puppet(), "b": puppet(command=["no-such-program"])}, {}, "companion 'b'"),
                                       ({"a": puppet()}, {"docker": {"runtime": "runsc"}}, "runtime 'runsc'")):
            assert said in refused(d, companions, **more), (said, companions)
        a = d.call("POST", "/v1/sandboxes", {"spec": made({"a": puppet(user="0")})})
        assert a.status == 403 and "nobody is root inside" in a.json["detail"], a
        with files_as_root():
            assert wait_until(lambda: not any((state() / "brig/docker").iterdir()), WAIT)


@test(limit=120)
def podman_has_them_as_well():
    """Root's service, and a rootless one, whose owner lays the cables."""
    where = podmans[identity()]
    serves = {"command": ["sh", "-c", "cp /etc/hosts /data; exec httpd -f -p 8080 -h /data"], "data": "/data",
              "healthcheck": {"test": ["CMD", "wget", "-qO-", "http://localhost:8080/hosts"], "interval": "200ms", "retries": 100}}
    with daemon(env=common.environment(host=where.host)) as d:
        box = d.create(spec=made({"a": serves}, image=engine.IMAGE))["id"]
        assert "198.19.254.2 a\n" in d.exec(box, "wget", "-qO-", "http://a:8080/hosts")["stdout"]
        assert containers(box, where)
        d.call("DELETE", f"/v1/sandboxes/{box}")
        assert wait_until(lambda: d.shown(box)["state"] == "deleted", WAIT) and no_trace(box, where), containers(box, where)


if __name__ == "__main__":
    sys.exit(main())
