# SPDX-License-Identifier: Apache-2.0
"""Parts of a run die at random points: no hang, a typed outcome, nothing left. BRIG_KILLS says how often (make soak: 200).

test_faults.py does the same to ssh."""

import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "lib")]

import engine
from backends import an_engine, kill_engine
from faults import TYPED, kill, marked, seeded
from harness import PATIENCE, brig, descendants, files_as_root, identity, main, start_brig, state, test, tree, wait_until, workspace

KILLS = int(os.environ.get("BRIG_KILLS", "0"))
LIMIT = 120 + 6 * KILLS


def ended(p, what):
    try:
        out, err = p.communicate(timeout=60 * PATIENCE)
    except subprocess.TimeoutExpired:
        p.kill()
        raise AssertionError(f"{what}: hung: {p.communicate()}") from None
    if p.returncode in (-signal.SIGKILL, -signal.SIGTERM):  # the latter before brig was there to hear it
        return "killed"
    answer = json.loads(out)
    assert answer["outcome"] in TYPED, f"{what}: {answer['outcome']}: {err}"
    assert answer["outcome"] not in ("failed", "refused") or answer["error"]["what"], f"{what}: no reason"
    return answer["outcome"]


def summary(seen):
    counts = {}
    for what, outcome in seen:
        counts.setdefault(what, {}).setdefault(outcome, 0)
        counts[what][outcome] += 1
    print(counts)


# ---- on this host ----


def any_part(p):
    """A process of brig's, of the sandbox's, or the command."""
    below = list(descendants(p.pid))
    return [random.choice(below)] if below else []


def kill_locally(backend, rounds, *more):
    seen = []
    for number in range(rounds):
        mark = f"MARK_{number:03}=1"
        what = random.choice(["brig", "term", "part", "part"])
        p = start_brig("run", "--backend", backend, *more, "--env", mark, "--json", "--", "sh", "-c", "setsid sleep 300 & sleep 0.15")
        time.sleep(random.uniform(0, 0.2))
        if what == "part":
            kill(any_part(p))
        else:
            kill([p.pid], signal.SIGKILL if what == "brig" else signal.SIGTERM)
        seen.append((what, ended(p, what)))
        assert wait_until(lambda: not marked(mark), 8), f"{number} {what}: left {[(i, descendants().get(i)) for i in marked(mark)]}"
    summary(seen)
    assert brig("run", "--backend", backend, *more, "--", "true").status == 0
    assert not tree(workspace()), tree(workspace())
    assert len({outcome for _, outcome in seen}) > 1  # it did hit something


@test(limit=LIMIT)
def native_killed_anywhere_leaves_nothing():
    seeded()
    kill_locally("native", KILLS or 12)


@test(limit=LIMIT)
def bwrap_killed_anywhere_leaves_nothing():
    seeded()
    kill_locally("bwrap", KILLS or 12)


@test(limit=LIMIT)
def none_killed_anywhere_leaves_nothing():
    seeded()
    kill_locally("none", KILLS or 12, "--i-know-this-is-not-a-sandbox")


@test
def none_without_its_guards_does_not_wait_for_what_is_left():
    p = start_brig("run", "--backend", "none", "--i-know-this-is-not-a-sandbox", "--env", "MARK_LEFT=1", "--json", "--", "sh", "-c",
                   "setsid sleep 300 & sleep 300")
    assert wait_until(lambda: len(marked("MARK_LEFT=1")) > 1)
    guards = [pid for pid, name in descendants(p.pid).items() if name == "brig-guard"]
    kill(guards, signal.SIGSTOP)  # else one hears of the other's death
    kill(reversed(guards))
    out, _ = p.communicate(timeout=20 * PATIENCE)
    left = marked("MARK_LEFT=1")
    kill(left)
    said = json.loads(out)
    assert left and said["outcome"] == "failed" and "guard" in said["error"]["what"], said
    assert [d["kind"] for d in said["denials"]] == ["process"], said


# ---- engines ----


PARTS = ["brig", "brig", "guard", "container", "container", "door", "engine"]


def containers(e, word=""):
    status, found = e.ask("GET", "/containers/json?all=1")
    return [c["Id"] for c in found if word in str(c["Command"]) and c["Names"][0].lstrip("/").startswith("brig-")] if status == 200 else []


def strike(what, p, e, word):
    if what == "brig":
        kill([p.pid])
    elif what == "guard":
        kill([pid for pid, name in descendants().items() if name == "brig-guard"])
    elif what == "engine":
        with files_as_root():
            kill_engine(e)
            e.start()
    else:
        for c in containers(e, word if what == "container" else "brig-door"):
            e.ask(*random.choice((("POST", f"/containers/{c}/kill"), ("DELETE", f"/containers/{c}?force=1"))))


def noted():
    """The runs that something may still be there of."""
    return list((state() / "brig/docker").iterdir())


def astray(e):
    with files_as_root():
        return e.astray()


def left(e, seen):
    """What is there, and in which round it was made."""
    status, found = e.ask("GET", "/containers/json?all=1")
    found = [(c["Names"][0], c["State"], c["Status"], c["Command"]) for c in found] if status == 200 else found
    return found, astray(e), tree(workspace()), noted(), list(enumerate(seen))


def tidied(e, env):
    """Guards come to their end by themselves; then the next brig removes what they could not."""
    alone = lambda: "brig-guard" not in descendants().values()
    if not alone():
        return False
    assert brig("run", "--backend", "docker", "--image", engine.IMAGE, "--", "true", env=env).status == 0
    return wait_until(alone, 15) and not containers(e) and not astray(e) and not tree(workspace()) and not noted()


def kill_on(e, rounds, parts, last):
    seen, env = [], {"DOCKER_HOST": e.host}
    for number in range(rounds):
        what = random.choice(parts) if number < rounds - 1 else last
        word = f"word-{number}-of-{os.getpid()}"
        network = ("--network", "proxy", "--allow", "api.test") if what == "door" or random.random() < 0.3 else ()
        p = start_brig("run", "--backend", "docker", "--image", engine.IMAGE, *network, "--json", "--", "sh", "-c", f"sleep 0.5; : {word}", env=env)
        time.sleep(random.uniform(0, 1.2))
        strike(what, p, e, word)
        seen.append((what, ended(p, what)))
    summary(seen)
    assert wait_until(lambda: tidied(e, env), 60, 0.5), left(e, seen)


@test(limit=LIMIT)
def docker_killed_anywhere_leaves_nothing():
    seeded()
    with an_engine(lambda: engine.Dockerd(f"/tmp/e{os.getpid()}"), python=False) as e:
        kill_on(e, KILLS or 8, PARTS, "engine")


@test(as_user="user", limit=LIMIT)
def rootless_docker_killed_anywhere_leaves_nothing():
    seeded()
    with an_engine(lambda: engine.RootlessDockerd(f"/tmp/d{os.getpid()}"), python=False) as e:
        kill_on(e, KILLS or 5, PARTS, "engine")


@test(limit=LIMIT)
def podman_killed_anywhere_leaves_nothing():
    seeded()
    with an_engine(lambda: engine.Podman(f"/tmp/p{os.getpid()}", 0 if identity() == "root" else engine.ORDINARY), python=False) as e:
        kill_on(e, KILLS or 5, PARTS, "engine")


if __name__ == "__main__":
    sys.exit(main())
