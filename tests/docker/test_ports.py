#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Published ports of containers: the same relay, and nothing of the engine's."""

import concurrent.futures
import os
import pathlib
import sys
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import common  # noqa: E402
from common import box, container_of, podmans, shared_engine, shared_podmans, start_box, token  # noqa: E402
from harness import PATIENCE, around, identity, main, test, wait_until, workspace  # noqa: E402
from ports import foreign_sockets, served  # noqa: E402

around(shared_engine)
around(shared_podmans)


def get(port):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}/page", timeout=15 * PATIENCE) as answer:
            return answer.read()
    except OSError:
        return None


def server(word):
    return ("sh", "-c", f": {word}; busybox httpd -f -p 127.0.0.1:8000 -h . & wait")


def inside(where, name):
    status, found = where.ask("GET", f"/containers/{name}/json")
    assert status == 200, found
    first = found["State"]["Pid"]
    network = os.stat(f"/proc/{first}/ns/pid").st_ino
    pids = [int(e) for e in os.listdir("/proc") if e.isdigit() and _namespace(e) == network]
    assert first in pids and len(pids) >= 3, pids
    return found, pids


def _namespace(pid):
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return None


def check(where, *options):
    word = token()
    (workspace() / "page").write_text("seen\n")
    with served(None, *options, command=server(word), start=lambda *argv: start_box(*argv, host=where.host)) as s:
        assert wait_until(lambda: get(s.port) == b"seen\n", 60), s.process.stderr.read1()
        assert [get(s.port) for _ in range(12)] == [b"seen\n"] * 12  # more than are asked for ahead
        found, pids = inside(where, container_of(word, where, running=True))
        assert not found["HostConfig"].get("PortBindings") and not any((found["NetworkSettings"].get("Ports") or {}).values()), found["HostConfig"]
        assert foreign_sockets(pids) == []
    assert get(s.port) is None


@test(limit=180)
def a_server_in_a_container_is_seen_from_the_host():
    check(common.shared)


@test(limit=180)
def a_server_behind_the_door_is_seen_from_the_host():
    check(common.shared, "--network", "proxy")


@test(limit=180)
def podman_shows_a_server_in_the_same_way():
    check(podmans[identity()])


@test(limit=180)
def all_of_a_burst_are_answered():
    """Many at once need more sockets than were lent ahead."""
    (workspace() / "page").write_text("seen\n")
    for where in (common.shared, podmans[identity()]):
        with served(None, command=server(token()), start=lambda *argv: start_box(*argv, host=where.host)) as s:
            assert wait_until(lambda: get(s.port) == b"seen\n", 60), s.process.stderr.read1()
            assert burst(s.port) == [b"seen\n"] * 240


def burst(port, threads=6, each=40):
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        return list(pool.map(get, [port] * threads * each))


@test(limit=120)
def what_was_published_does_not_change_the_end():
    r = box("--json", "--publish", "8000", "--", "sh", "-c", "exit 7").json
    assert (r["outcome"], r["exit_code"], r["ports"][0]["port"]) == ("exited", 7, 8000), r
    r = box("--json", "--publish", "8000", "--", "sh", "-c", "kill -9 $$").json
    assert (r["outcome"], r["exit_code"]) == ("signalled", 137), r
    done = box("--publish", "8000", "--", "no-such-command")
    assert done.status == 127 and "command not found" in done.errors, done.errors
    done = box("--publish", "8000", "--timeout", "2s", "--", "sleep", "60")
    assert done.status == 124, done.errors


if __name__ == "__main__":
    sys.exit(main())
