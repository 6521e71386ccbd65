#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A door that starts when something reaches it, with an authority that an earlier run's keeper made."""

import contextlib
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import Web, behind, configure, fields  # noqa: E402
from harness import IS_ROOT, brig, descendants, main, scratch, start_brig, state, test, wait_until, workspace  # noqa: E402

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])  # with more that are idle the door does not wait

VALUE = "Zq8+Gk2/vTn41Lw0bYd7Rm"
GET = ("curl", "-sS", "https://api.test/")
TRUSTED = 'tail -n 20 "$SSL_CERT_FILE" | tac | sed "/BEGIN/q" | tac'  # the authority is the last of the file
WAITS = f"{TRUSTED}; touch runs; while ! test -e go; do sleep 0.02; done"


def kept():
    """The authorities made ahead, as {name: identity}."""
    with contextlib.suppress(FileNotFoundError):
        return {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in (state() / "brig/authority").iterdir()}
    return {}


def text(slot="0"):
    return (state() / "brig/authority" / slot).read_bytes()


def make_one(config):
    """What follows finds one; the certificate in it."""
    assert behind(config, *GET, env={"TOKEN": VALUE})["stdout"] == "hello\n" and kept(), kept()
    return certificate(text())


def certificate(record):
    begin, end = record.index(b"-----BEGIN"), record.index(b"-----END CERTIFICATE-----") + 25
    return record[begin:end].decode()


def door_of(p):
    return [name for name in descendants(p.pid).values() if name in ("brig-egress", "brig-keeper")]


@contextlib.contextmanager
def waiting(config, *more):
    """A run whose command waits for the file `go`: (process, the certificate it trusts)"""
    for name in ("runs", "go"):
        (workspace() / name).unlink(missing_ok=True)
    p = start_brig("run", "--config", config, *more, "--", "sh", "-c", WAITS, env={"TOKEN": VALUE}, text=True)
    try:
        assert wait_until(lambda: p.poll() is not None or (workspace() / "runs").exists(), 30) and p.poll() is None, p.communicate()
        yield p
    finally:
        (workspace() / "go").touch()
        with contextlib.suppress(ValueError):
            p.communicate(timeout=30)


@test
def a_door_that_nobody_uses_is_not_started():
    with Web("api.test") as web:
        config = configure(web, more={"credentials": {"TOKEN": {"host": "api.test", "header": "Authorization"}}})
        with waiting(config) as p:
            assert "brig-egress" in door_of(p), door_of(p)  # the control: there is none ahead
        was = kept()
        assert list(was) == ["0"] and (state() / "brig/authority/0").stat().st_mode & 0o777 == 0o600, was
        with waiting(config) as p:
            assert door_of(p) == [] and kept() == was, door_of(p)
        assert p.returncode == 0 and kept() == was and not web.connections
        with waiting(config, "--profile", "strict") as p:
            assert "brig-egress" in door_of(p)
        assert kept() == was, "strict took or made one"


@test
def the_first_connection_or_question_starts_it():
    with Web("api.test") as web:
        config = configure(web, more={"credentials": {"TOKEN": {"host": "api.test", "header": "X-Key"}}})
        first = make_one(config)
        r = behind(config, "sh", "-c", f"{TRUSTED}; curl -sS -H X-Key:$TOKEN https://api.test/", env={"TOKEN": VALUE})
        assert r["stdout"] == f"{first}\nhello\n" and fields(web.seen[-1][1])["X-Key"] == VALUE, (r, web.seen)
        assert certificate(text()) != first, "it was used twice"
        second = certificate(text())
        r = behind(config, "python3", "-c", "import socket; print(socket.gethostbyname('api.test'))", env={"TOKEN": VALUE})
        assert r["stdout"].startswith("198.1") and certificate(text()) != second, r
        r = behind(config, "curl", "-sS", "https://other.test/", env={"TOKEN": VALUE})
        assert [d["target"] for d in r["denials"]] == ["other.test:443"], r


@test
def two_runs_never_trust_the_same_one():
    with Web("api.test") as web:
        config = configure(web)
        one = make_one(config)
        with waiting(config) as p:
            r = behind(config, "sh", "-c", TRUSTED)
            assert r["stdout"].strip() != one, "taken twice"
            two = certificate(text("1"))
            r = behind(config, "sh", "-c", TRUSTED)
            assert r["stdout"].strip() == two, (r, two)
            os.kill(p.pid, 9)  # its own goes back: nobody has used it
            assert one in p.communicate()[0]
        assert wait_until(lambda: not descendants())
        assert behind(config, "sh", "-c", TRUSTED)["stdout"].strip() == one


def forged(config):
    """A certificate and key of somebody's, in a record as brig writes it: of another brig's state."""
    other = scratch() / "other"
    other.mkdir(exist_ok=True)
    assert behind(config, *GET, env={"XDG_STATE_HOME": str(other)})["stdout"] == "hello\n"
    return (other / "brig/authority/0").read_bytes()


@test
def what_is_not_brigs_own_is_not_believed():
    with Web("api.test") as web:
        config = configure(web)
        make_one(config)
        record, slot = forged(config), state() / "brig/authority/0"

        def put(data=record, mode=0o600, age=0.0):
            slot.unlink(missing_ok=True)
            slot.write_bytes(data)
            slot.chmod(mode)
            os.utime(slot, (time.time() - age,) * 2)

        def trusted():
            return behind(config, "sh", "-c", TRUSTED)["stdout"].strip()

        put()
        assert trusted() == certificate(record)  # the control: this is how it would look
        for how in ({"mode": 0o644}, {"age": 90000}, {"age": -90000}, {"data": record[:-1]}, {"data": record + b"x"}, {"data": b""},
                    {"data": record.replace(b"authority 1", b"authority 2")}, {"data": record * 8}):
            put(**how)
            assert trusted() != certificate(record), how
        put()
        os.link(slot, state() / "brig/authority/second")
        assert trusted() != certificate(record), "it has a second name"
        (state() / "brig/authority/second").unlink()
        slot.unlink(missing_ok=True)
        (scratch() / "aside").write_bytes(record)
        (scratch() / "aside").chmod(0o600)
        slot.symlink_to(scratch() / "aside")
        assert trusted() != certificate(record), "it is a link"
        slot.unlink(missing_ok=True)
        os.mkfifo(slot, 0o600)
        assert trusted() != certificate(record)
        slot.unlink(missing_ok=True)
        if IS_ROOT:
            put()
            os.chown(slot, 12345, -1)
            assert trusted() != certificate(record), "it is another user's"


@test
def one_that_does_not_fit_ends_the_run_and_says_so():
    with Web("api.test") as web:
        config = configure(web)
        make_one(config)
        record, other = text(), forged(config)
        key = other[other.index(b"-----END CERTIFICATE-----") + 25:]
        own = record[record.index(b"-----END CERTIFICATE-----") + 25:]
        slot = state() / "brig/authority/0"
        slot.write_bytes(record.replace(own, key))
        assert behind(config, "true")["exit_code"] == 0
        done = brig("run", "--config", config, "--", *GET)
        assert done.status == 125 and b"door" in done.stderr and not slot.exists() and len(web.seen) == 2, (done.status, done.stderr, kept(), web.seen)
        assert behind(config, *GET)["stdout"] == "hello\n"


@test
def the_worker_cannot_reach_what_later_runs_believe():
    with Web("api.test") as web:
        config = configure(web)
        make_one(config)
        p = start_brig("run", "--config", config, "--", "sh", "-c", "curl -sS https://api.test/; touch runs; while ! test -e go; do sleep 0.02; done")
        assert wait_until(lambda: p.poll() is not None or (workspace() / "runs").exists(), 30) and p.poll() is None
        pids = {name: pid for pid, name in descendants(p.pid).items() if name in ("brig-egress", "brig-keeper")}
        assert len(pids) == 2, pids
        if IS_ROOT:
            for name, pid in pids.items():
                open_there = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
                assert not [x for x in open_there if "authority" in x or x.startswith("pipe:") and x not in streams(p)], (name, open_there)
        (workspace() / "go").touch()
        p.communicate(timeout=30)


def streams(p):
    """The pipes that brig was given: its door's processes have the same streams."""
    return {os.readlink(f"/proc/{p.pid}/fd/{fd}") for fd in (0, 1, 2)}


if __name__ == "__main__":
    sys.exit(main())
