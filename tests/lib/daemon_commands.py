# SPDX-License-Identifier: Apache-2.0
"""What a sandbox of the daemon must do on every backend: for daemon/test_backends.py and docker/test_daemon.py."""

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
