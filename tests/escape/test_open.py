#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks by a command of a sandbox that stays open: what it left is judged when it has ended, not when the sandbox does.

The oracle: while the sandbox is open the user goes on (git status, commit, checkout), and a file shows whether code of the guest's ran."""

import contextlib
import fcntl
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import on_host  # noqa: E402
from daemon import daemon  # noqa: E402
from harness import brig, main, start_brig, state, test, uid, wait_until, workspace  # noqa: E402
from open_sandbox import Sandbox  # noqa: E402
from victim import GITLINK, checker_of, children, control, hook, ran, repository, session, settings, sh, taken, told, use  # noqa: E402


def sub():
    return f"{GITLINK}sub; mkdir -p sub/.git/objects sub/.git/refs; git rev-parse HEAD > sub/.git/HEAD; {settings('sub/.git/config')}"


def plants():
    """What a command does, and what must not be there afterwards."""
    return ((sub(), "sub/.git/config"), ("echo evil > .envrc", ".envrc"), (hook(".husky/pre-commit"), ".husky/pre-commit"), ("echo evil > .bashrc; (sleep 0.3) &", ".bashrc"),
            ("rm -f .git/COMMIT_EDITMSG; ln -s ../../victim .git/COMMIT_EDITMSG", ".git/COMMIT_EDITMSG"),
            ("mkdir -p .git/remotes; echo URL: ext::sh > .git/remotes/x", ".git/remotes/x"),
            (f"mkdir -p .git/modules/m/objects .git/modules/m/refs; cp .git/HEAD .git/modules/m/HEAD; {settings('.git/modules/m/config')}", ".git/modules/m/config"))


LATE = "(sleep 0.4; echo evil > .envrc) > /dev/null 2>&1 &"


def here():
    return os.environ["BRIG_BACKEND"]


def there(name):
    return os.path.lexists(workspace() / name)


@test(backends=("native", "bwrap"))
def what_a_command_left_is_judged_when_it_has_ended():
    control(sub())
    repository()
    with Sandbox(here()) as s:
        for i, (script, name) in enumerate(plants()):
            assert s.run(2 * i + 1, "echo fine > work")["denials"] == []
            r = s.run(2 * i + 2, script)
            assert r["exit_code"] == 0 and not r["unsettled"], (script, r)
            assert not there(name) and any(f"{name}/".startswith(f"{d['target']}/") for d in r["denials"]), (script, r["denials"])
            use()
            assert not ran(), script
        assert (workspace() / "work").read_text() == "fine\n" and len(taken()) >= len(plants())
    assert not taken(), "it was told before"


@test(backends=("native", "bwrap"))
def what_commands_left_side_by_side_is_judged_with_the_last():
    repository()
    with Sandbox(here()) as s:
        s.start(1, "touch ready; while [ ! -e go ]; do sleep 0.01; done")
        s.until("ready")
        r = s.run(2, "echo evil > .envrc")
        assert r["unsettled"] and r["denials"] == [], r
        (workspace() / "go").touch()
        r = s.wait(1)
        assert not r["unsettled"] and told(r, ".envrc") and not there(".envrc"), r
        assert s.run(3, "true")["denials"] == []
    assert taken()


@test(backends=("native", "bwrap"))
def what_a_process_that_was_left_running_makes_is_judged_when_it_ends():
    with Sandbox(here()) as s:
        assert s.run(1, LATE)["denials"] == []
        assert wait_until(lambda: s.say("turn 10") == "ok" and taken()), "nobody looked"
        assert not there(".envrc")


@test(backends=("native", "bwrap"))
def an_ordinary_days_work_in_an_open_sandbox_stays():
    """The control of all of the above: what everybody does."""
    repository()
    with Sandbox(here()) as s:
        work = ("git init -q new && cd new && git config user.name a && git config user.email a@b && echo x > f && git add f && git commit -qm x",
                "git clone -q new clone", "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m more", "git worktree add -q ../tree 2>&1 || git worktree add -q tree",
                "mkdir -p src && echo '{}' > package.json")
        for i, line in enumerate(work):
            r = s.run(i + 1, line)
            assert r["exit_code"] == 0 and r["denials"] == [], (line, r)
        assert there("new/.git/config") and there("clone/f") and there("package.json")
        told_of = [[t["path"] for t in s.run(10 + i, line)["changed_trust"]] for i, line in enumerate(("true", "echo '{ }' > package.json", "true"))]
        assert told_of[0] == told_of[2] == [] and "package.json" in told_of[1], told_of
    assert not taken()


@test(backends=("native", "bwrap"))
def each_commit_with_such_a_name_is_told():
    """The second one as well: the user has looked at the first."""
    put = "git update-index --add --cacheinfo 100644,$(echo %d | git hash-object -w --stdin),.envrc; git -c user.name=a -c user.email=a@b commit -qm x; git rev-parse --short=12 HEAD"
    repository()
    with Sandbox(here()) as s:
        for i in range(2):
            r = s.run(2 * i + 1, put % i)
            commit = r["stdout"].strip()
            assert [t["path"] for t in r["changed_trust"] if f"in commit {commit}: " in t["reason"]] == [".envrc"], (i, r)
            assert s.run(2 * i + 2, "true")["changed_trust"] == []  # control: and once


def late_plants():
    """Into folders that were there when earlier commands ended, and that were listed then."""
    bare = "mkdir -p {0}/objects {0}/refs; cp .git/HEAD {0}/HEAD; "
    return (("git init -q old/a/b; " + settings("old/a/b/.git/config"), "old/a/b/.git/config"), ("echo 'gitdir: /tmp' > old/a/.git", "old/a/.git"),
            (bare.format("old/c") + settings("old/c/config"), "old/c/config"), ("mkdir new && mv old/a new/a; echo 'gitdir: /tmp' > new/a/.git", "new/a/.git"),
            ("touch -r old keep; ln -s ../../../victim .git/refs/heads/x; touch -r keep .git/refs/heads old", ".git/refs/heads/x"),
            ("mkdir old/d/e; echo 'gitdir: /tmp' > old/d/e/.git; touch -d 2001-01-01 old/d/e old/d old", "old/d/e/.git"))


@test(backends=("native",))
def what_comes_into_folders_that_were_listed_before_is_judged():
    """A folder that is as it was is not listed again: nothing that a command does leaves it so."""
    repository()
    with Sandbox(here()) as s:
        assert s.run(1, "mkdir -p old/a/b old/c old/d; echo x > old/a/f")["denials"] == []
        for i, (script, name) in enumerate(late_plants()):
            time.sleep(0.05)
            assert s.run(3 * i + 2, "true")["denials"] == [] and s.run(3 * i + 3, "echo more >> old/a/f || echo more > f")["denials"] == []
            r = s.run(3 * i + 4, script)
            assert r["exit_code"] == 0 and not there(name) and any(f"{name}/".startswith(f"{d['target']}/") for d in r["denials"]), (script, r)


def monitor():
    """The processes that must die for nobody to be left: the monitor, and its checker."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            p = pathlib.Path(f"/proc/{pid}")
            if p.joinpath("comm").read_text() == "brig-monitor\n" and str(state()).encode() in p.joinpath("environ").read_bytes():
                found.append(int(pid))
    return found


def kill_all():
    pids = monitor()
    assert len(pids) == 1, pids
    pids += [c for c in children(pids[0]) if session(c) == c]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)  # so that the checker does not see the end of the other
    for pid in reversed(pids):
        os.kill(pid, signal.SIGKILL)


def runs():
    """The records of the trees in which somebody lives, or died."""
    return [state() / "brig/records" / f.name for f in (state() / "brig/records/live").iterdir() if not f.name.startswith(".")]


@test
def where_everything_is_killed_after_a_command_nothing_that_it_planted_is_left():
    """And nothing of brig's, once the sandbox is deleted."""
    with daemon() as d:
        box = d.create(spec={"workspace": {"path": str(workspace())}})["id"]
        r = d.exec(box, "sh", "-c", "echo evil > .envrc; mkdir .husky; echo evil > .husky/x")
        assert {x["target"] for x in r["denials"]} == {".envrc", ".husky"} and r["changed_trust"] == [] and r["unsettled"] is False, r
        time.sleep(0.5)
        kill_all()
        assert wait_until(lambda: d.call("GET", f"/v1/sandboxes/{box}").json["state"] == "stopped")
        assert d.call("DELETE", f"/v1/sandboxes/{box}").status in (200, 204)
        assert wait_until(lambda: not list(workspace().iterdir())), list(workspace().iterdir())
        assert wait_until(lambda: not runs()) and len(taken()) == 2
    assert sh("true")["denials"] == []


@test
def where_everything_is_killed_while_a_command_runs_the_delete_takes_what_it_planted():
    with daemon() as d:
        box = d.create(spec={"workspace": {"path": str(workspace())}})["id"]
        began = d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["sh", "-c", "echo evil > .envrc; touch ready; sleep 60"], "detach": True})
        assert began.status in (200, 202), began
        assert wait_until(lambda: there("ready"))
        made = (workspace() / ".envrc").stat().st_ctime_ns
        assert wait_until(lambda: runs()[0].stat().st_mtime_ns > made), "no beat"
        kill_all()
        assert there(".envrc"), "somebody survived: the test is void"
        assert d.call("DELETE", f"/v1/sandboxes/{box}").status in (200, 204)
        assert not there(".envrc"), "deleted before anybody looked"
        assert wait_until(lambda: not runs()) and taken()
    assert [x["target"] for x in sh("true")["denials"]] == [".envrc"], "nobody told"


@test(as_user="user")
def a_stop_and_a_delete_tell_what_was_planted_however_the_sandbox_ended():
    """A name of the command's is one line of brig's, whatever is in it. The control: a sandbox that left nothing has nothing told."""
    evil = "a\nleft in the workspace: x"
    for dies, verb in ((False, "stop"), (False, "delete"), (True, "stop"), (True, "delete"), (None, "delete")):
        repository()
        with daemon() as d:
            box = d.create(spec={"workspace": {"path": str(workspace())}})["id"]
            script = "true" if dies is None else f"echo evil > .envrc; git init -q '{evil}'; git -C '{evil}' config core.fsmonitor x"
            d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["sh", "-c", f"{script}; touch ready; sleep 60"], "detach": True})
            assert wait_until(lambda: there("ready"))
            made = (workspace() / "ready").stat().st_ctime_ns
            assert wait_until(lambda: runs()[0].stat().st_mtime_ns > made), "no beat"
            if dies:
                kill_all()
            done = brig("sandbox", verb, box, env=d.environment)
            said = [line for line in done.errors.splitlines() if "left in the workspace: " in line]
            assert done.status == 0 and len(said) == (0 if dies is None else 2) and not there(".envrc"), done
            assert dies is None or (any("'.envrc'" in line for line in said) and any("x/.git/config'" in line for line in said)), said
            assert bool(taken()) == (dies is not None)
            if dies:
                assert len(sh("true")["denials"]) == 2, "the next run tells it, too"
        on_host("rm", "-rf", evil, "ready", ".git", cwd=workspace())


@test(as_user="user")
def why_a_guard_ended_the_sandbox_is_told_by_every_verb():
    """Also by a daemon that was not there when it happened, and not of one that was resumed."""
    (workspace() / ".vscode").mkdir()
    with daemon() as d:
        box = d.create(spec={"workspace": {"path": str(workspace())}})["id"]
        d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["sh", "-c", "touch ready; sleep 60"], "detach": True})
        assert wait_until(lambda: there("ready")) and "error" not in d.shown(box)
        d.stop(signal.SIGKILL)
        (workspace() / ".vscode").rename(workspace() / "moved")
        assert wait_until(lambda: not monitor())
        for _ in range(2):
            d.start() if d.process.poll() is not None else d.restart()
            why = d.becomes(box, "stopped")["error"]
            assert why["code"] == "policy" and "lost its cover, .vscode" in why["what"] and why["hint"], why
            for verb in (("exec", box, "--", "true"), ("logs", box), ("get", box)):
                done = brig("sandbox", *verb, env=d.environment)
                assert why["what"] in done.text + done.errors and why["hint"] in done.text + done.errors, (verb, done)
        d.do(box, "resume")
        assert "error" not in d.becomes(box, "ready")


def crowd(n):
    """So many trees in which runs live: their records are locked by this process. The locks end with them."""
    folder, held = state() / "brig/records", []
    for i in range(n):
        (folder / f"live/{i:x}-1").touch()
        f = (folder / f"{i:x}-1").open("w+")
        os.chown(f.fileno(), uid(), uid())
        os.chown(folder / f"live/{i:x}-1", uid(), uid())
        fcntl.lockf(f, fcntl.LOCK_SH)
        held.append(f)
    return held


def dispel(held):
    for f in held:
        at = pathlib.Path(f.name)
        (at.parent / "live" / at.name).unlink()
        at.unlink()
        f.close()


def killed(at):
    (at / "ready").unlink(missing_ok=True)
    p = start_brig("run", "--", "sh", "-c", "echo evil > .envrc; touch ready; sleep 60", cwd=at)
    assert wait_until((at / "ready").exists)
    made = (at / ".envrc").stat().st_ctime_ns
    assert wait_until(lambda: max(f.stat().st_mtime_ns for f in runs()) > made), "no beat"
    for pid in (checker_of(p.pid), p.pid):
        os.kill(pid, signal.SIGSTOP)
    for pid in (checker_of(p.pid), p.pid):
        os.kill(pid, signal.SIGKILL)
    p.wait()
    p.stdout.close()
    p.stderr.close()
    assert (at / ".envrc").exists(), "somebody survived: the test is void"


@test
def a_killed_run_is_found_among_many_that_live():
    """More than a start looks at: at once by the next in its workspace, and by those elsewhere in turn."""
    at, other = workspace() / "at", workspace() / "other"
    on_host("mkdir", "at", "other", cwd=workspace())
    sh("true", cwd=other)
    held = crowd(200)
    killed(at)
    assert [d["target"] for d in sh("true", cwd=at)["denials"]] == [".envrc"] and not (at / ".envrc").exists()
    killed(at)
    starts = 0
    while (at / ".envrc").exists():
        starts += 1
        assert starts < 20 and sh("true", cwd=other)["denials"] == []
    assert starts < 15 and len(runs()) == 200, (starts, len(runs()))
    dispel(held)
    assert sh("true", cwd=at)["denials"] and len(taken()) == 2 and not runs()


if __name__ == "__main__":
    sys.exit(main())
