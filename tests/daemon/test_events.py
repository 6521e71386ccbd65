#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Events: numbered, replayed, told to those whose they are; and what a restart leaves of everything."""

import json
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import daemon, daemon_with_tokens  # noqa: E402
from harness import descendants, files_as_root, main, state, test, wait_until  # noqa: E402


def types(events):
    return [kind for kind, _, _ in events]


def past(d, query="", **more):
    return list(d.stream("GET", f"/v1/events?since=0&follow=false{query}", **more))


@test
def an_anchor_of_a_log_that_is_gone_is_told_and_not_waited_for():
    with daemon() as d:
        d.create()
        last = d.call("GET", "/v1/info").json["last_event"]
        for follow in ("true", "false"):
            a = d.call("GET", f"/v1/events?since={last + 1}&follow={follow}")
            assert (a.status, a.code) == (410, "events-expired") and a.json["oldest"] == 1, a
        assert d.call("GET", f"/v1/events?since={last}&follow=false").status == 200


@test
def what_happens_is_told_in_order_and_again_from_any_number():
    with daemon() as d:
        live = iter(d.stream("GET", "/v1/events"))
        box = d.create()["id"]
        d.exec(box, "true")
        got = [next(live) for _ in range(5)]
        assert types(got) == ["sandbox.accepted", "sandbox.preparing", "sandbox.ready", "exec.started", "exec.finished"], got
        numbers = [data["seq"] for _, data, _ in got]
        assert numbers == list(range(1, 6)) and [i for _, _, i in got] == list(map(str, numbers))
        assert all(data["sandbox"] == box and data["time"].endswith("Z") for _, data, _ in got)
        assert past(d) == got
        assert list(d.stream("GET", "/v1/events?follow=false", headers={"Last-Event-ID": "3"})) == got[3:]
        assert past(d, f"&sandbox={box}") == got and not past(d, "&sandbox=sb_other")


@test
def numbers_go_on_after_a_restart_and_half_a_line_is_forgotten():
    with daemon() as d:
        d.create(name="a")
        before = past(d)
        d.stop(signal.SIGKILL)
        (log,) = (state() / "brig/daemon/events").glob("*.log")
        with open(log, "ab") as f:
            f.write(b"999\t\tsb_x\tsandbox.ready\t{\"seq\":99")
        d.start()
        assert past(d)[:len(before)] == before
        d.call("DELETE", "/v1/sandboxes/a")
        numbers = [data["seq"] for _, data, _ in past(d)]
        assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) > len(before), numbers


@test
def a_tenant_without_a_token_or_a_sandbox_leaves_no_events():
    """The next of that name is somebody else, and reads nothing of what the first one did."""
    logs = state() / "brig/daemon/events/tenants"
    with daemon_with_tokens(a="run", b="run", c="run") as d:
        boxes = {name: d.create(token=d.tokens[name])["id"] for name in "abc"}
        for name in "ac":
            d.call("DELETE", f"/v1/sandboxes/{boxes[name]}", token=d.tokens[name])
        assert wait_until(lambda: len(d.call("GET", "/v1/sandboxes").json["sandboxes"]) == 1)
        assert past(d, token=d.tokens["a"])
        kept = d.token_file.read_text()
        d.stop()
        d.token_file.write_text("".join(line for line in kept.splitlines(True) if line.startswith("c ")))
        d.start()
        with files_as_root():
            assert wait_until(lambda: sorted(p.name for p in logs.iterdir()) == ["b", "c"]), "b has a sandbox, c a token"
        # Whoever writes the file in place leaves nothing in it for a moment: that is not the end of everybody.
        d.stop()
        d.token_file.write_text("")
        d.start()
        d.token_file.write_text(kept)
        assert past(d, token=d.tokens["a"]) == [] and past(d, token=d.tokens["c"])
        assert any(data["sandbox"] == boxes["a"] for _, data, _ in past(d)), "the owner keeps the log of all"


@test
def who_asks_for_what_is_no_longer_kept_is_told_the_oldest():
    with daemon() as d:
        d.create(name="a")
        d.stop()
        folder = state() / "brig/daemon/events"
        (log,) = folder.glob("*.log")
        lines = log.read_bytes().splitlines(keepends=True)
        (folder / f"{2:020}.log").write_bytes(b"".join(lines[1:]))
        log.unlink()
        d.start()
        gone = d.call("GET", "/v1/events?since=0")
        assert gone.status == 410 and gone.code == "events-expired" and gone.json["oldest"] == 2, gone
        assert [data["seq"] for _, data, _ in d.stream("GET", "/v1/events?since=1&follow=false")][0] == 2


@test
def a_tenant_hears_of_its_own_sandboxes_alone():
    with daemon_with_tokens(a="run", b="run", r="read") as d:
        live = iter(d.stream("GET", "/v1/events", token=d.tokens["b"]))
        mine = d.create(token=d.tokens["a"])["id"]
        theirs = d.create(token=d.tokens["b"])["id"]
        assert {next(live)[1]["sandbox"] for _ in range(3)} == {theirs}
        assert {e[1]["sandbox"] for e in past(d, token=d.tokens["a"])} == {mine}
        assert not past(d, f"&sandbox={mine}", token=d.tokens["b"]) and not past(d, token=d.tokens["r"])
        assert {e[1]["sandbox"] for e in past(d)} == {mine, theirs}, "the owner sees both"


@test
def sandboxes_and_commands_outlive_a_daemon_that_is_killed():
    with daemon() as d:
        box = d.create(name="a")["id"]
        started = d.call("POST", "/v1/sandboxes/a/exec", {"command": "echo one; read x; echo two", "stdin_open": True, "detach": True})
        at = f"/v1/sandboxes/a/execs/{started.json['exec']}"
        assert wait_until(lambda: d.call("GET", at).json["state"] == "running")
        d.restart(signal.SIGKILL)
        assert wait_until(lambda: d.call("GET", "/v1/sandboxes/a").json["state"] == "ready")
        assert d.call("GET", "/v1/sandboxes/a").json["id"] == box
        assert wait_until(lambda: d.call("POST", f"{at}/stdin?close=true", b"x\n", {"Content-Type": "application/octet-stream"}).status == 204)
        end = [e for e in d.stream("GET", f"{at}/stream") if e[0] in ("stdout", "end")]
        assert end[-1][0] == "end" and end[-1][1]["exit_code"] == 0, end
        assert d.exec("a", "echo", "three")["stdout"] == "three\n"


@test
def a_command_that_comes_before_the_monitor_was_heard_is_not_lost():
    with daemon() as d:
        d.create(name="a")
        (monitor,) = [pid for pid, name in descendants().items() if name == "brig-monitor"]
        os.kill(monitor, signal.SIGSTOP)
        try:
            d.restart(signal.SIGKILL)
            c = d.connection()
            c.request("POST", "/v1/sandboxes/a/exec", b'{"argv":["echo","here"]}', {"Content-Type": "application/json"})
            assert wait_until(lambda: d.call("GET", "/v1/info").json["execs_running"] == 1)
        finally:
            os.kill(monitor, signal.SIGCONT)
        answer = json.loads(c.getresponse().read())
        assert answer["stdout"] == "here\n", answer
        c.close()


@test
def a_slow_reader_costs_the_daemon_no_memory_and_others_no_time():
    with daemon() as d:
        box = d.create()["id"]
        assert d.exec(box, "true")["exit_code"] == 0
        before = _peak(d)
        slow = d.stream("POST", f"/v1/sandboxes/{box}/exec", {"command": "head -c 60000000 /dev/zero", "output_limit": "64m"})
        assert d.exec(box, "true")["exit_code"] == 0
        assert _peak(d) - before < 8192, (before, _peak(d))
        slow.close()


def _peak(d):
    """The most memory that the daemon has had, in KiB."""
    lines = pathlib.Path(f"/proc/{_brigd(d)}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def _brigd(d):
    return d.call("GET", "/v1/info").json["pid"]


if __name__ == "__main__":
    sys.exit(main())
