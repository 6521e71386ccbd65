# SPDX-License-Identifier: Apache-2.0
"""Parts of an ssh run die at random points: it ends, says what happened, and leaves nothing behind."""

import concurrent.futures
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

import harness
import sshd
from faults import TYPED, kill, marked, seeded
from harness import PATIENCE, descendants, main, start_brig, test, uid, wait_until

ROUNDS = int(os.environ.get("BRIG_KILLS", "0")) or 16
AT_ONCE = 4
WAIT = 60  # for what takes a second or two where nobody else wants the processors


def children_of(pid):
    return descendants(pid)


def hit(what, p, host, runtime):
    """Kill one part; p is the brig."""
    if what == "brig":
        kill([p.pid])
    elif what == "term":
        kill([p.pid], signal.SIGTERM)
    elif what == "client":
        kill([pid for pid, name in children_of(p.pid).items() if name == "ssh"])
    elif what == "master":
        kill([pid for pid in host.masters() if runtime in pathlib.Path(f"/proc/{pid}/cmdline").read_text()])
    elif what == "sshd":
        kill(host.sessions())
    else:
        host.process.kill()


def one(number, host, rng, more):
    what = rng.choice(["brig", "brig", "term", "client", "master", "sshd"])
    runtime = pathlib.Path(f"/tmp/r{number % AT_ONCE}")
    mark = f"MARK_{number:03}=1"
    # setsid: out of the process group, and it holds stdout open
    p = start_brig("run", *host.options("--env", mark), *more, "--json", "--", "sh", "-c", "setsid sleep 300 & sleep 300",
                   env={"XDG_RUNTIME_DIR": str(runtime)})
    time.sleep(rng.uniform(0, 1.2))
    with contextlib.suppress(OSError):
        hit(what, p, host, str(runtime))
    try:
        if what in ("client", "master", "sshd"):  # it may have hit nothing: nothing was there yet
            with contextlib.suppress(subprocess.TimeoutExpired):
                return number, what, mark, p, p.communicate(timeout=6)
            p.terminate()
        return number, what, mark, p, p.communicate(timeout=WAIT * PATIENCE)
    except subprocess.TimeoutExpired:
        p.kill()
        return number, what, mark, p, (b"", f"HANG {p.communicate()[1]}".encode())


def gone(mark):
    """No process has the mark. A watcher takes a wrapper that nobody reaps for alive: it is reaped here, and no other child
    is, for their status is waited for elsewhere."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError):
            name, fields = harness._stat_fields(entry)
            if name == "sh" and fields[0] == "Z" and int(fields[1]) == os.getpid():
                os.waitpid(int(entry), os.WNOHANG)
    return not marked(mark)


def check(number, what, mark, p, said):
    out, err = said
    assert not err.startswith(b"HANG"), f"{number} {what}: hung: {err}"
    assert wait_until(lambda: gone(mark), WAIT), f"{number} {what}: left {[(i, descendants().get(i)) for i in marked(mark)]}"
    if p.returncode in (-signal.SIGKILL, -signal.SIGTERM):  # the latter before brig was there to hear it
        return "killed"
    answer = json.loads(out)
    assert answer["outcome"] in TYPED, f"{number} {what}: {answer['outcome']}"
    assert answer["outcome"] not in ("failed", "refused") or answer["error"]["what"], f"{number} {what}: no reason"
    return answer["outcome"]


def kill_everything(*more):
    rng = seeded()
    for i in range(AT_ONCE):
        os.mkdir(f"/tmp/r{i}", 0o700)
        os.chown(f"/tmp/r{i}", uid(), uid())
    with sshd.Sshd() as host:
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            seen = [check(*done) for done in pool.map(lambda n: one(n, host, random.Random(rng.random()), more), range(ROUNDS))]
        host.close_connections()
        assert wait_until(lambda: not host.sessions(), WAIT), "sessions of sshd are left"
    # Watchers look once a second whether their wrapper is there, and one that nobody reaps is; whoever came to end a run looks
    # twice, at every process there is.
    assert wait_until(lambda: (harness._reap(), not {"sh", "sleep"} & set(descendants().values()))[1], WAIT, 0.1), descendants()
    for i in range(AT_ONCE):
        subprocess.run(["rm", "-rf", f"/tmp/r{i}"], check=True)
    print({word: seen.count(word) for word in set(seen)})
    assert "killed" in seen and len(set(seen)) > 1  # it did hit something


@test(limit=240 + 4 * ROUNDS)
def ssh_killed_anywhere_leaves_nothing():
    kill_everything()


@test(limit=240 + 4 * ROUNDS)
def ssh_brig_killed_anywhere_leaves_nothing():
    kill_everything("--set", "ssh.remote=brig", "--set", "ssh.remote_cwd=/")


@test(limit=90)
def a_server_that_goes_away_is_a_lost_connection():
    with sshd.Sshd(persist="0") as host:
        p = start_brig("run", *host.options("--env", "MARK_LOST=1"), "--json", "--", "sh", "-c", "echo begun; sleep 300")
        assert wait_until(lambda: marked("MARK_LOST=1"), 10)
        host.process.kill()
        kill(host.sessions())
        out, _ = p.communicate(timeout=20 * PATIENCE)
        said = json.loads(out)
        assert said["outcome"] == "failed" and "lost" in said["error"]["what"], said["error"]
        assert said["stdout"] == "begun\n"
        # Nobody answers there any more: brig says that it could not look.
        assert said["denials"][0]["kind"] == "process"
        assert wait_until(lambda: not marked("MARK_LOST=1"), 5)
        host.process.wait()
        host.start()


@test(as_user="user")
def a_stopped_client_does_not_outlast_the_time_limit():
    """The way back is blocked: brig gives up on the client and says so."""
    with sshd.Sshd(persist="0") as host:
        p = start_brig("run", *host.options("--timeout", "2s"), "--json", "--", "sleep", "300")
        clients = lambda: [pid for pid, name in children_of(p.pid).items() if name == "ssh"]
        assert wait_until(clients, 5)
        time.sleep(1)
        kill(clients(), signal.SIGSTOP)
        out, _ = p.communicate(timeout=25)
        assert json.loads(out)["outcome"] == "timeout"


if __name__ == "__main__":
    sys.exit(main())
