#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sandboxes of the daemon over its death and theirs: what is found again, what is lost, what is left. BRIG_KILLS says how
often something is killed at random (make soak: 200)."""

import base64
import contextlib
import json
import os
import pathlib
import random
import select
import signal
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import daemon  # noqa: E402
from harness import PATIENCE, descendants, files_as_root, main, state, test, wait_until, workspace  # noqa: E402

KILLS = int(os.environ.get("BRIG_KILLS", "20"))
LIMIT = 120 + 6 * KILLS
WAIT = 10 * PATIENCE


def here():
    return {"workspace": {"path": str(workspace())}}


def folder(box):
    return state() / "brig/daemon/sandboxes" / box


def words_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return []


def monitor(box):
    """The process that owns it; its checker and the sandbox's own have the same words."""
    with files_as_root():
        for pid, name in descendants().items():
            if name == "brig-monitor" and box.encode() in words_of(pid):
                return pid
    return None


def inside(box):
    """Everything below its monitor."""
    pid = monitor(box)
    return descendants(pid) if pid else {}


def events(d, box):
    return [e for _, e, _ in d.stream("GET", f"/v1/events?since=0&follow=false&sandbox={box}")]


def start(d, box, line, **more):
    """A command that goes on; its id."""
    a = d.call("POST", f"/v1/sandboxes/{box}/exec", {"command": line, "detach": True, **more})
    assert a.status in (200, 201, 202), a
    return a.json.get("exec") or a.json["id"]


def heard(d, box, run):
    """All that it wrote, and its end."""
    out = b""
    for kind, data, _ in d.stream("GET", f"/v1/sandboxes/{box}/execs/{run}/stream?from=0"):
        if kind == "stdout":
            out += base64.b64decode(data["data"])
        if kind == "end":
            return out.decode(), data
    raise AssertionError("the stream ended without an end")


def has_written(box, run, text):
    with files_as_root(), contextlib.suppress(OSError):
        return text in (folder(box) / "execs" / run).read_bytes()
    return False


@test
def a_killed_daemon_takes_nothing_with_it():
    with daemon() as d:
        box = d.create(spec=here(), name="kept")["id"]
        run = start(d, box, "echo one; until [ -e go ]; do sleep 0.02; done; echo two")
        assert wait_until(lambda: has_written(box, run, b"one"))
        pid = monitor(box)
        d.restart()
        assert d.shown("kept")["state"] == "ready" and monitor(box) == pid
        (workspace() / "go").touch()
        out, end = heard(d, box, run)
        assert (out, end["exit_code"]) == ("one\ntwo\n", 0), (out, end)
        assert d.exec("kept", "echo", "new")["stdout"] == "new\n"
        (workspace() / "go").unlink()


@test
def what_ended_without_a_daemon_is_told_by_the_next():
    with daemon() as d:
        box = d.create(spec=here())["id"]
        run = start(d, box, "until [ -e go ]; do sleep 0.02; done; echo late; exit 5")
        assert wait_until(lambda: any(e["type"] == "exec.started" for e in events(d, box)))
        d.stop(signal.SIGKILL)
        (workspace() / "go").touch()
        assert wait_until(lambda: has_written(box, run, b"exit_code"))
        d.start()
        assert wait_until(lambda: any(e["type"] == "exec.finished" for e in events(d, box)))
        told = [e for e in events(d, box) if e["type"] == "exec.finished"]
        assert len(told) == 1 and told[0]["exec"] == run and told[0]["data"]["exit_code"] == 5, told
        out, end = heard(d, box, run)
        assert (out, end["exit_code"]) == ("late\n", 5), (out, end)
        d.restart()
        assert len([e for e in events(d, box) if e["type"] == "exec.finished"]) == 1
        (workspace() / "go").unlink()


PAUSE, CONTINUE = 10, 11  # enum monitor_asks


def sockets_of(pid):
    found = set()
    with files_as_root():
        for one in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(os.readlink(one))
    return {name for name in found if name.startswith("socket:")}


@contextlib.contextmanager
def standing_still(d):
    d.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        d.process.send_signal(signal.SIGCONT)


def ask_for_words(d, box):
    """A monitor that has a word for a daemon that takes none drops it at once; with news of commands alone it waits
    for half a minute. Whoever is the owner may ask for a word."""
    with d.dial(path=state() / "brig/daemon/sockets" / box) as s:
        def told(asks):
            s.send(struct.pack("=IIQ", 2, asks, 0))
            while struct.unpack("=II", s.recv(4096)[:8])[1] not in (7, 8):  # paused, continued
                pass
        told(PAUSE)
        told(CONTINUE)


@test
def a_daemon_that_stood_still_reaches_its_sandboxes_again():
    with daemon() as d:
        box, other = d.create(spec=here())["id"], d.create()["id"]
        flood = start(d, box, "until [ -e go ]; do echo noise; sleep 0.001; done; echo over")
        quick = start(d, box, "until [ -e went ]; do sleep 0.02; done; exit 7")
        fed = start(d, box, "read x; echo got $x", stdin_open=True)
        assert wait_until(lambda: has_written(box, flood, b"noise"))
        pid = monitor(box)
        with standing_still(d):
            (workspace() / "went").touch()
            assert wait_until(lambda: has_written(box, quick, b"exit_code"))
            had = sockets_of(pid)
            assert wait_until(lambda: ask_for_words(d, box) or had - sockets_of(pid), WAIT), "the daemon was not dropped"
        d.becomes(box, "ready")  # what it heard last was of a pause
        assert d.exec(box, "echo", "again")["stdout"] == "again\n"
        assert d.shown(box)["state"] == "ready" and monitor(box) == pid
        assert heard(d, box, quick)[1]["exit_code"] == 7
        assert d.call("POST", f"/v1/sandboxes/{box}/execs/{fed}/stdin", b"word\n", {"Content-Type": "application/octet-stream"}).status == 204
        assert heard(d, box, fed)[0] == "got word\n"
        (workspace() / "go").touch()
        assert heard(d, box, flood)[0].endswith("noise\nover\n")
        ends = [e["exec"] for e in events(d, box) if e["type"] == "exec.finished"]
        assert ends.count(quick) == 1 and ends.count(flood) == 1, ends
        assert d.exec(other, "echo", "too")["stdout"] == "too\n"
        d.call("POST", f"/v1/sandboxes/{box}/stop", {})
        assert d.becomes(box, "stopped")["reason"] == "stopped"
        for name in ("go", "went"):
            (workspace() / name).unlink()


@test
def a_killed_monitor_loses_its_sandbox_and_no_other():
    with daemon() as d:
        box, other = d.create()["id"], d.create()["id"]
        run = start(d, box, "sleep 600")
        assert wait_until(lambda: "sleep" in inside(box).values())
        below = inside(box)
        with files_as_root():
            os.kill(monitor(box), signal.SIGKILL)
        got = d.becomes(box, "stopped")
        assert got["reason"] == "lost", got
        assert wait_until(lambda: not set(below) & set(descendants())), below
        assert heard(d, box, run)[1]["outcome"] == "failed"
        assert any(e["type"] == "exec.failed" and e["reason"] == "lost" for e in events(d, box))
        assert d.exec(other, "true")["exit_code"] == 0
        d.call("POST", f"/v1/sandboxes/{box}/resume")
        d.becomes(box, "ready")
        d.becomes(box, "ready")  # what it heard last was of a pause
        assert d.exec(box, "echo", "again")["stdout"] == "again\n"


@test
def a_monitor_that_died_without_a_daemon_is_found_lost():
    with daemon() as d:
        box = d.create()["id"]
        d.stop(signal.SIGKILL)
        with files_as_root():
            os.kill(monitor(box), signal.SIGKILL)
        d.start()
        assert d.becomes(box, "stopped")["reason"] == "lost"
        assert events(d, box)[-1]["type"] == "sandbox.stopped"


@test
def a_creation_that_is_cut_short_ends_in_a_state():
    with daemon() as d:
        for delay in (0, 0.002, 0.004, 0.008, 0.02):
            a = d.call("POST", "/v1/sandboxes", {})
            assert a.status in (201, 202), a
            time.sleep(delay)
            d.restart()
            got = d.becomes(a.json["id"], "ready", "failed")
            assert got["state"] == "ready" or got["reason"] == "lost", got
            if got["state"] == "failed":
                assert sorted(p.name for p in folder(a.json["id"]).iterdir()) in (["state"], ["log", "state"])


@test
def a_deletion_that_is_cut_short_is_finished():
    with daemon() as d:
        for delay in (0, 0.001, 0.003):
            box = d.create()["id"]
            start(d, box, "trap '' TERM; sleep 600")
            c = d.connection()
            c.request("DELETE", f"/v1/sandboxes/{box}")
            time.sleep(delay)
            d.restart()
            c.close()
            if delay and d.shown(box)["state"] == "ready":
                d.call("DELETE", f"/v1/sandboxes/{box}")
            if d.shown(box)["state"] != "ready":
                d.becomes(box, "deleted")
                with files_as_root():
                    assert not folder(box).exists()
                assert not monitor(box)


def not_yet(d, method, path):
    """Asks, and sees that there is no answer while nobody can know one; the connection."""
    c = d.connection()
    c.request(method, path, **({} if method == "DELETE" else {"body": "{}", "headers": {"Content-Type": "application/json"}}))
    ready, _, _ = select.select([c.sock], [], [], 0.5)
    assert not ready, (method, path, c.getresponse().read())
    return c


@test
def one_that_does_not_listen_yet_is_stopped_and_deleted_in_deed():
    """A daemon that finds a sandbox locked and nobody listening must not say of it that nothing runs."""
    with daemon() as d:
        for method, path, end in (("POST", "/stop", "stopped"), ("DELETE", "", "deleted")):
            box = d.create(spec=here())["id"]
            start(d, box, "echo on > runs; sleep 600")
            assert wait_until((workspace() / "runs").exists)
            pid, socket = monitor(box), state() / "brig/daemon/sockets" / box
            d.stop(signal.SIGKILL)
            with files_as_root():
                socket.rename(socket.with_name("aside"))
            d.start()
            c = not_yet(d, method, f"/v1/sandboxes/{box}{path}")
            assert monitor(box) == pid and "sleep" in inside(box).values(), "the control proves nothing"
            with files_as_root():
                socket.with_name("aside").rename(socket)
            assert c.getresponse().status in (200, 204)
            c.close()
            assert d.becomes(box, end) and not monitor(box)
            (workspace() / "runs").unlink()


@test
def a_monitor_of_an_earlier_build_is_found_where_it_listens():
    with daemon() as d:
        box = d.create(spec=here())["id"]
        d.stop(signal.SIGKILL)
        with files_as_root():
            (state() / "brig/daemon/sockets" / box).rename(folder(box) / "socket")
        d.start()
        assert wait_until(lambda: d.call("POST", f"/v1/sandboxes/{box}/stop", {}).status == 200) and not monitor(box)
        assert d.becomes(box, "stopped")


@test
def idle_ones_stop_and_old_ones_go():
    with daemon() as d:
        box = d.create(idle_ttl="300ms")["id"]
        start(d, box, "(sleep 1.2 &) ; true")
        assert wait_until(lambda: "sleep" in inside(box).values())
        got = d.becomes(box, "stopped")
        assert got["reason"] == "idle" and not inside(box), got
        old = d.create(ttl="500ms")["id"]
        d.becomes(old, "deleted")
        assert [e["type"] for e in events(d, old)][-1] == "sandbox.deleted"
        brief = d.create(cleanup_ttl="300ms")["id"]
        d.call("POST", f"/v1/sandboxes/{brief}/stop")
        d.becomes(brief, "deleted")


@test
def an_idle_one_stops_without_a_daemon_and_an_old_one_is_gone_with_the_next():
    with daemon() as d:
        box, old = d.create(idle_ttl="300ms")["id"], d.create(ttl="400ms", idle_ttl="0s")["id"]
        d.stop(signal.SIGKILL)
        assert wait_until(lambda: not monitor(box) and not monitor(old), WAIT)
        d.start()
        assert d.becomes(box, "stopped")["reason"] == "idle"
        d.becomes(old, "deleted")
        with files_as_root():
            assert wait_until(lambda: not folder(old).exists())


@test
def a_listener_keeps_a_sandbox_from_being_idle():
    with daemon() as d:
        box = d.create(idle_ttl="200ms")["id"]
        run = start(d, box, "read x", stdin_open=True)
        s = d.stream("GET", f"/v1/sandboxes/{box}/execs/{run}/stream?from=0")
        time.sleep(0.8)
        assert d.shown(box)["state"] == "ready"
        s.close()
        d.call("POST", f"/v1/sandboxes/{box}/execs/{run}/cancel")
        d.becomes(box, "stopped")


@test
def what_a_command_left_running_gets_the_grace_too():
    with daemon() as d:
        box = d.create(spec=here())["id"]
        line = "sh -c 'trap \"echo bye > said; exit\" TERM; : > up; while :; do sleep 0.02; done' > /dev/null 2>&1 &"
        assert d.exec(box, "sh", "-c", line)["exit_code"] == 0
        assert wait_until((workspace() / "up").exists)
        d.call("POST", f"/v1/sandboxes/{box}/stop", {"grace": "10s"})
        d.becomes(box, "stopped")
        assert (workspace() / "said").read_text() == "bye\n"
        for name in ("up", "said"):
            (workspace() / name).unlink()


@test
def what_stood_still_before_a_pause_does_so_after_it():
    with daemon() as d:
        box = d.create()["id"]
        start(d, box, "sleep 601 & sleep 602 & until grep -q sleep /proc/$!/comm; do :; done; kill -STOP $!; wait")
        assert wait_until(lambda: list(inside(box).values()).count("sleep") == 2)

        def states():
            found = {}
            for pid, name in inside(box).items():
                if name == "sleep":
                    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                    found[words_of(pid)[1]] = fields[0]
            return found

        with files_as_root():
            assert wait_until(lambda: states() == {b"601": "S", b"602": "T"}), states()
            assert d.call("POST", f"/v1/sandboxes/{box}/pause").status == 200
            # A control group holds them as they are; signals show.
            held = "S" if d.shown(box)["isolation"]["pause"] == "cgroup" else "T"
            assert states()[b"602"] == "T" and states()[b"601"] in (held, "D"), states()
            d.call("POST", f"/v1/sandboxes/{box}/resume")
            assert wait_until(lambda: states() == {b"601": "S", b"602": "T"}), states()


@test
def pauses_in_quick_succession_leave_nothing_standing():
    with daemon() as d:
        box = d.create(spec=here())["id"]
        run = start(d, box, "until [ -e go ]; do :; done; echo through")
        for _ in range(8):
            assert d.call("POST", f"/v1/sandboxes/{box}/pause").status == 200
            assert d.call("POST", f"/v1/sandboxes/{box}/resume").status == 200
        (workspace() / "go").touch()
        assert heard(d, box, run)[0] == "through\n"
        (workspace() / "go").unlink()


RECORDED = {"ready": "ready", "resumed": "ready", "failed": "failed", "paused": "paused", "stopped": "stopped", "deleted": "deleted"}
LINES = ("sleep 30", "seq 1 5000", "sleep 0.05; (sleep 30 &)", "head -c 300000 /dev/zero | tr '\\0' x", "true")


def recorded(d, box):
    """The state that the record of events leads to."""
    words = [e["type"].partition(".") for e in events(d, box)]
    return [RECORDED[word] for what, _, word in words if what == "sandbox" and word in RECORDED][-1]


def agrees(d, box):
    """What is shown is what the record says, once nothing is under way."""
    assert wait_until(lambda: recorded(d, box) == d.shown(box)["state"], WAIT), (d.shown(box), events(d, box)[-3:])


def runs(d, box):
    """Does a command run in it? One that dies with the sandbox is answered as well."""
    a = d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["true"]})
    return a.status == 200 and a.json["outcome"] == "exited"


def make(d, n):
    """One of those that are killed; every third one has a companion."""
    return d.create(spec={**here(), **({"companions": {"side": {"command": ["sleep", "600"]}}} if n % 3 == 0 else {})})["id"]


# It appends: a file that is truncated and written again waits for the disk each time.
COUNT = "while :; do echo >> count; done"


def count():
    return (workspace() / "count").stat().st_size


@test
def a_pause_holds_everything_and_its_time_until_it_goes_on():
    with daemon() as d:
        box = d.create(spec=here(), idle_ttl="1s")["id"]
        by = d.shown(box)["isolation"]["pause"]
        # Where control groups can be written to it is one of them: nothing inside can tell.
        assert by == ("cgroup" if d.shown(box)["isolation"]["cgroup"] in ("v2", "hybrid") else "signal"), d.shown(box)["isolation"]
        run = start(d, box, COUNT, timeout="2s")
        assert wait_until(lambda: (workspace() / "count").exists() and count())
        assert d.call("POST", f"/v1/sandboxes/{box}/pause").status == 200
        held = count()
        time.sleep(2.5)  # longer than its time limit and the time to be idle
        assert count() == held and d.shown(box)["state"] == "paused"
        assert d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["true"]}).code == "sandbox-paused"
        assert d.call("POST", f"/v1/sandboxes/{box}/resume").status == 200
        assert wait_until(lambda: count() > held), held
        assert heard(d, box, run)[1]["outcome"] == "timeout"
        d.becomes(box, "stopped")
        (workspace() / "count").unlink()


@test
def what_is_paused_can_be_stopped_deleted_and_killed():
    with daemon() as d:
        for how in ("stop", "delete", "monitor"):
            box = d.create()["id"]
            start(d, box, "sleep 600")
            assert wait_until(lambda b=box: "sleep" in inside(b).values())
            below = inside(box)
            assert d.call("POST", f"/v1/sandboxes/{box}/pause").status == 200
            if how == "stop":
                assert d.call("POST", f"/v1/sandboxes/{box}/stop", {"grace": "5s"}).json["state"] == "stopped"
            elif how == "delete":
                d.call("DELETE", f"/v1/sandboxes/{box}")
                d.becomes(box, "deleted")
            else:
                with files_as_root():
                    os.kill(monitor(box), signal.SIGKILL)
                assert d.becomes(box, "stopped")["reason"] == "lost"
            assert wait_until(lambda b=below: not set(b) & set(descendants())), (how, below)


@test
def one_that_ends_by_itself_is_begun_again_until_somebody_stops_it():
    with daemon() as d:
        box = d.create(restart="on-failure")["id"]
        assert d.shown(box)["restart"] == "on-failure"
        d.exec(box, "sh", "-c", "echo kept > ~/note")
        for n in range(2):
            before = d.shown(box)["started"]
            if n:
                d.stop(signal.SIGKILL)
            with files_as_root():
                os.kill(monitor(box), signal.SIGKILL)
            if n:
                d.start()
            assert wait_until(lambda b=before: (s := d.shown(box))["state"] == "ready" and s["started"] != b, WAIT), d.shown(box)
            assert d.exec(box, "sh", "-c", "cat ~/note")["stdout"] == "kept\n"
        # Nobody begins what somebody has stopped, whether it ran or waited for its next try.
        assert d.call("POST", f"/v1/sandboxes/{box}/stop", {"grace": "0s"}).json["state"] == "stopped"
        d.restart()
        assert d.shown(box)["state"] == "stopped" and d.shown(box)["reason"] == "stopped"
        # By default it stays where it is.
        other = d.create()["id"]
        with files_as_root():
            os.kill(monitor(other), signal.SIGKILL)
        assert d.becomes(other, "stopped")["restart"] == "no"
        time.sleep(0.3)
        assert d.shown(other)["state"] == "stopped" and not monitor(other)


@test
def a_start_that_fails_again_and_again_is_a_loop_and_ends():
    with daemon() as d:
        box = d.create(spec=here(), restart="on-failure")["id"]
        # Nothing can be begun from it any more. The clock that bounds the tries is in its state: five minutes ago.
        d.stop(signal.SIGKILL)
        with files_as_root():
            os.kill(monitor(box), signal.SIGKILL)
        assert wait_until(lambda: not monitor(box))
        with files_as_root():
            (folder(box) / "spec").write_text("{")
            long_ago = int((time.time() - 301) * 1e6)
            line = json.loads((folder(box) / "state").read_text().splitlines()[-1])
            line.update(state="stopped", reason="lost", down=long_ago, tries=3, since=long_ago)
            with (folder(box) / "state").open("a") as f:
                f.write(json.dumps(line) + "\n")
        d.start()
        got = d.becomes(box, "failed")
        assert got["reason"] == "crash-loop" and "30 seconds" in got["error"]["what"], got
        assert any(e["type"] == "sandbox.failed" and e["reason"] == "crash-loop" for e in events(d, box))
        a = d.call("POST", "/v1/sandboxes", {"restart": "always"})
        assert a.status == 400 and "on-failure" in a.body.decode(), a


def any_of(d, boxes):
    """Something to be killed: the daemon, a monitor, or anything below one: of its sandbox, of its companion, of their helpers."""
    what = random.choice(("daemon", "monitor", "inside", "inside", "inside"))
    if what == "daemon":
        return what, None
    box = random.choice(boxes)
    pids = [monitor(box)] if what == "monitor" else list(inside(box))
    return what, random.choice(pids) if pids and pids[0] else None


@test(limit=LIMIT, alone=True)
def random_kills_leave_a_state_that_holds_and_nothing_else():
    seed = os.environ.get("BRIG_SEED") or str(random.randrange(1 << 32))
    random.seed(seed)
    print("seed", seed)
    with daemon() as d:
        boxes = [make(d, n) for n in range(3)]
        for _ in range(KILLS):
            for _ in range(3):
                with contextlib.suppress(AssertionError, OSError):
                    start(d, random.choice(boxes), random.choice(LINES))
            time.sleep(random.random() * 0.03)
            what, pid = any_of(d, boxes)
            if what == "daemon":
                d.restart()
            elif pid:
                with files_as_root(), contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for n, box in enumerate(boxes):
                got = d.becomes(box, "ready", "stopped")
                if got["state"] == "ready" and runs(d, box):
                    agrees(d, box)
                    continue
                d.becomes(box, "stopped")
                agrees(d, box)
                assert wait_until(lambda b=box: not inside(b)), inside(box)
                d.call("DELETE", f"/v1/sandboxes/{box}")
                d.becomes(box, "deleted")
                with files_as_root():
                    assert not folder(box).exists()
                agrees(d, box)
                boxes[n] = make(d, n)


if __name__ == "__main__":
    sys.exit(main())
