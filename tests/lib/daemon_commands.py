# SPDX-License-Identifier: Apache-2.0
"""What a sandbox of the daemon must do on every backend: for daemon/test_backends.py and docker/test_daemon.py."""

import base64
import time

from command_attacks import AWAY
from harness import PATIENCE, wait_until, workspace

WAIT = 10 * PATIENCE


def start(d, box, *argv):
    a = d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": list(argv), "detach": True})
    assert a.status == 202, a
    return a.json["exec"]


def end_of(d, box, run):
    at = f"/v1/sandboxes/{box}/execs/{run}"
    assert wait_until(lambda: d.call("GET", at).json["state"] == "ended", WAIT)
    return d.call("GET", at).json["result"]


def script(d, box, text):
    for name in ("away", "a.py"):
        (workspace() / name).unlink(missing_ok=True)
    (workspace() / "a.py").write_text(text)
    return start(d, box, "python3", "a.py")


def works(d, backend, alive, **more):
    """`alive` says what runs of it, seen from the host."""
    spec = {"backend": backend, "workspace": {"path": str(workspace())}, **more}
    a = d.call("POST", "/v1/sandboxes?wait=true", {"spec": spec, "idle_ttl": "0s"})
    assert a.status == 201 and a.json["state"] == "ready", a
    box = a.json["id"]
    r = d.exec(box, "sh", "-c", "cat; echo $A; echo oops >&2; exit 4", stdin="in\n", env={"A": "b"})
    assert (r["exit_code"], r["stdout"], r["stderr"]) == (4, "in\nb\n", "oops\n"), r
    assert d.exec(box, "no-such-program")["outcome"] == "refused"
    beside = start(d, box, "sleep", "600")
    # Away from its session and its parents, deaf to signals: a cancel ends it, and nobody else.
    run = script(d, box, AWAY + "time.sleep(600)\n")
    assert wait_until((workspace() / "away").exists, WAIT) and alive("python3"), "the control"
    assert d.call("POST", f"/v1/sandboxes/{box}/execs/{run}/cancel").status == 204
    assert end_of(d, box, run)["outcome"] == "cancelled"
    assert wait_until(lambda: not alive("python3"), WAIT), "it lives"
    # It kills whoever was put over it.
    run = script(d, box, AWAY + "while not os.path.exists('away'): time.sleep(0.01)\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(600)\n")
    assert end_of(d, box, run)["signal"] == 9
    assert wait_until(lambda: not alive("python3"), WAIT), "it lives"
    assert d.call("GET", f"/v1/sandboxes/{box}/execs/{beside}").json["state"] == "running" and alive("sleep")
    assert d.call("POST", f"/v1/sandboxes/{box}/stop", {"grace": "0s"}).json["state"] == "stopped"
    assert wait_until(lambda: not alive("sleep"), WAIT)
    assert d.call("POST", f"/v1/sandboxes/{box}/resume").json["state"] == "ready"
    assert d.exec(box, "true")["exit_code"] == 0
    assert d.call("DELETE", f"/v1/sandboxes/{box}").status == 204


def has_terminals(d, box):
    """One of the command's own, inside: of the size that was asked for, which can change; it hangs up with the command."""
    line = ('test -t 0 && test -t 1 && test -t 2 && tty; stty size; while [ "$(stty size)" = "24 80" ]; do sleep 0.05; done; '
            "stty size; read x; echo got $x; sleep 600 & exit 3")
    a = d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["sh", "-c", line], "tty": True, "rows": 24, "cols": 80, "stdin_open": True, "detach": True})
    assert a.status == 202, a
    at = f"/v1/sandboxes/{box}/execs/{a.json['exec']}"
    said, size, answered = "", False, False
    stream = d.stream("GET", at + "/stream")
    for kind, data, _ in stream:
        if kind in ("stdout", "stderr"):
            said += base64.b64decode(data["data"]).decode()
        if "24 80" in said and not size:
            size = d.call("POST", at + "/resize", {"rows": 40, "cols": 100}).status == 204
            assert size
        if "40 100" in said and not answered:
            answered = d.call("POST", at + "/stdin", b"hello\r", headers={"Content-Type": "application/octet-stream"}).status == 204
            assert answered
        if kind == "end":
            assert data["exit_code"] == 3, data
            break
    stream.close()
    assert size and answered and "/dev/pts/" in said and "got hello" in said, said
    assert d.exec(box, "sh", "-c", "test -t 0 || test -t 1 || echo none")["stdout"] == "none\n", "the control"


def pauses(d, image, able=True):
    """The engine freezes it, and lets it go on; what is paused can be stopped."""
    box = d.create(spec={"backend": "docker", "image": image, "workspace": {"path": str(workspace())}})
    assert box["isolation"]["pause"] == "engine", box["isolation"]
    at, count = f"/v1/sandboxes/{box['id']}", workspace() / "count"
    start(d, box["id"], "sh", "-c", "while :; do echo >> count; done")
    assert wait_until(count.exists, WAIT)
    a = d.call("POST", at + "/pause")
    if not able:  # a rootless engine without control groups of its own: told by name, and it goes on
        assert a.status == 501 and "cannot pause" in a.json["detail"], a
        assert d.exec(box["id"], "true")["exit_code"] == 0
        return
    assert a.status == 200, a
    held = count.read_text()
    for _ in range(20):
        time.sleep(0.01)
        assert count.read_text() == held
    assert d.call("POST", at + "/exec", {"argv": ["true"]}).code == "sandbox-paused"
    assert d.call("POST", at + "/resume").status == 200
    assert wait_until(lambda: count.read_text() not in (held, ""), WAIT)
    # What is paused can be stopped, and its container is gone.
    assert d.call("POST", at + "/pause").status == 200
    assert d.call("POST", at + "/stop", {"grace": "0s"}).json["state"] == "stopped"
    count.unlink()


def uses(d, image):
    """What a container uses is seen from outside, and only while it runs."""
    box = d.create(spec={"backend": "docker", "image": image})["id"]
    used = lambda: d.call("GET", f"/v1/use?sandbox={box}").json["sandboxes"][box]  # noqa: E731
    idle = used()
    assert idle and 1 <= idle["processes"] <= idle["threads"], idle
    d.call("POST", f"/v1/sandboxes/{box}/exec", {"command": "x=$(head -c 20000000 /dev/zero | tr '\\0' x); sleep 100 & setsid sleep 100 & wait", "detach": True})
    assert wait_until(lambda: (now := used())["processes"] >= idle["processes"] + 3 and now["memory"] > 15 << 20, 60), used()
    d.call("POST", f"/v1/sandboxes/{box}/stop")
    assert wait_until(lambda: used() is None, 60), used()
