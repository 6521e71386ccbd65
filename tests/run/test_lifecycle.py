#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How runs end: signals, the death of brig, detached processes; and that nothing is left, also with many at once."""

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import (FACTOR, PATIENCE, brig, brig_argv, brig_environment, brig_path, descendants, files_as_root, main, scratch, start_brig, test, tree, wait_until, workspace)  # noqa: E402



def all_ended():
    """What ran inside is gone at once; checkers have something to tidy up, and may ask git in sandboxes of their own."""
    tidying = ("brig-checker", "brig", "brig-init", "git")
    inside = lambda: [name for name in descendants().values() if name not in tidying]
    return wait_until(lambda: not inside(), 1) and wait_until(lambda: not descendants(), 30)
CANCELS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def sh(script, *options, **more):
    return brig("run", *options, "--", "sh", "-c", script, **more)


def start_sh(script, *options, **more):
    return start_brig("run", *options, "--", "sh", "-c", script, **more)


def finish(process, seconds=20):
    code = process.wait(seconds * PATIENCE)
    return code if code >= 0 else 128 - code


def read_until(stream, word, seconds=10):
    """Read a pipe until a word was seen; all that was read."""
    got, end = b"", time.monotonic() + seconds * PATIENCE
    while word not in got:
        assert select.select([stream], [], [], max(0, end - time.monotonic()))[0], f"no {word} in {got}"
        chunk = os.read(stream.fileno(), 4096)
        assert chunk, f"ended before {word}: {got}"
        got += chunk
    return got


def exists(name):
    return lambda: os.path.lexists(workspace() / name)


def repository(path):
    """The least that counts as a git repository, with a config and a hook of the user's."""
    for folder in ("hooks", "objects", "refs"):
        (path / ".git" / folder).mkdir(parents=True)
    (path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (path / ".git/config").write_text("[core]\n\tbare = false\n")
    (path / ".git/hooks/pre-commit").write_text("#!/bin/sh\n")


def folder(name):
    """A workspace in scratch that can be moved and removed, of the same owner."""
    (scratch() / name).mkdir()
    if os.geteuid() == 0:
        os.chown(scratch() / name, os.stat(scratch()).st_uid, os.stat(scratch()).st_gid)
    return scratch() / name


def placeholders():
    return set(os.listdir(workspace())) & {".vscode", ".mcp.json", ".claude", ".codex", ".cursor", ".gemini"}


# ---- signals to brig ----


@test
def a_socket_that_was_renamed_and_is_known_to_its_server_alone_ends_no_run():
    """Its name is tried for every process there is, also for those that cannot be looked at; then its file is looked for."""
    here = os.getcwd()
    crowd = []
    with socket.socket(socket.AF_UNIX) as s:
        os.chdir(workspace())
        s.bind("bound")
        os.rename("bound", "renamed")
        os.chdir(here)
        s.listen()
        try:
            crowd += [subprocess.Popen(["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt && cd /mnt && exec sleep 60"]) for _ in range(40)]
            assert wait_until(lambda: all(os.readlink(f"/proc/{p.pid}/cwd") == "/mnt" for p in crowd))
            done = sh("test ! -S renamed", "--workdir", str(workspace()), cwd="/dev")
        finally:
            for p in crowd:
                p.kill()
                p.wait()
    assert done.status == 0, (done.status, done.errors)
    (workspace() / "renamed").unlink()


@test
def sockets_in_a_folder_that_is_closed_to_the_caller_are_no_news():
    """As those of another user's sandboxes are; and one that is elsewhere is found beside them."""
    servers = []
    with files_as_root():
        (scratch() / "closed").mkdir(mode=0o700)
        for i in range(100):
            servers.append(socket.socket(socket.AF_UNIX))
            servers[-1].bind(str(scratch() / f"closed/{i}"))
            servers[-1].listen()
        os.rename(scratch() / "closed/99", workspace() / "moved")
    try:
        done = sh("test ! -S moved")
    finally:
        for s in servers:
            s.close()
        with files_as_root():
            (workspace() / "moved").unlink()
    assert (done.status, done.errors) == (0, "")


@test
def a_cancel_reaches_the_command_and_gives_it_a_moment():
    for sig in CANCELS:
        p = start_sh(f"trap 'sleep 0.1; echo tidied; exit 5' {sig.name[3:]}; echo ready; while :; do sleep 0.02; done")
        read_until(p.stdout, b"ready\n")
        p.send_signal(sig)
        assert p.stdout.read() == b"tidied\n", sig
        assert finish(p) == 5, sig


@test
def a_cancel_is_a_typed_outcome():
    for sig in CANCELS:
        p = start_sh("touch ready; sleep 60", "--json")
        assert wait_until(exists("ready"))
        p.send_signal(sig)
        done = p.communicate(timeout=20 * PATIENCE)[0]
        assert p.returncode == 128 + sig
        assert b'"outcome": "cancelled"' in done and f'"signal": {int(sig)}'.encode() in done, done
        assert f'"exit_code": {128 + sig}'.encode() in done
        os.unlink(workspace() / "ready")


@test
def a_command_that_ignores_every_signal_dies_all_the_same():
    for sig in CANCELS:
        p = start_sh("trap '' INT TERM HUP QUIT; echo ready; while :; do sleep 60; done")
        read_until(p.stdout, b"ready\n")
        began = time.monotonic()
        p.send_signal(sig)
        assert finish(p) == 128 + sig
        assert time.monotonic() - began < 3 * PATIENCE


@test
def a_second_signal_does_not_wait():
    took = []
    for first, second in ((signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM), (signal.SIGINT, signal.SIGINT)):
        p = start_sh("trap 'echo once' INT TERM; echo ready; while :; do sleep 0.01; done")
        read_until(p.stdout, b"ready\n")
        p.send_signal(first)
        read_until(p.stdout, b"once\n")
        began = time.monotonic()
        p.send_signal(second)
        assert finish(p) == 128 + first
        took.append(time.monotonic() - began)
    assert min(took) < 0.3 * PATIENCE, took


@test
def a_cancel_reaches_the_whole_process_group_and_ends_the_rest():
    p = start_sh("(trap 'echo child; exit' TERM; while :; do sleep 0.02; done) & setsid sleep 60 & "
                 "trap 'wait $!; exit 0' TERM; echo ready; wait")
    read_until(p.stdout, b"ready\n")
    time.sleep(0.1)
    p.send_signal(signal.SIGTERM)
    assert b"child\n" in p.stdout.read() and finish(p) == 128 + signal.SIGTERM
    assert wait_until(lambda: not descendants())


@test
def a_signal_at_any_moment_of_the_start_leaves_nothing():
    dice = random.Random(5)
    for i in range(20):
        p = start_sh("sleep 60")
        time.sleep(dice.uniform(0, 0.012) * FACTOR)
        p.send_signal((signal.SIGTERM, signal.SIGINT, signal.SIGHUP)[i % 3])
        status = finish(p)
        assert status in (129, 130, 143), (status, p.stderr.read())
        p.stdout.close()
        p.stderr.close()
    assert tree(workspace()) == {}, tree(workspace())


@test
def an_ignored_hangup_stays_ignored():
    """As under nohup: who started brig decided that a hang-up does not matter."""
    line = ["sh", "-c", "trap '' HUP; exec \"$@\"", "-", *brig_argv("run", "--", "sh", "-c", "echo ready; sleep 0.3; exit 3")]
    p = subprocess.Popen(line, env=brig_environment(), cwd=workspace(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    read_until(p.stdout, b"ready\n")
    p.send_signal(signal.SIGHUP)
    assert finish(p) == 3


@test
def other_signals_to_brig_are_no_way_to_leave_the_sandbox_running():
    for sig in (signal.SIGABRT, signal.SIGUSR1, signal.SIGALRM):
        p = start_sh("echo ready; exec sleep 60")
        read_until(p.stdout, b"ready\n")
        p.send_signal(sig)
        assert finish(p) == 128 + sig
        assert all_ended()
    assert brig("run", "--", "true").status == 0 and tree(workspace()) == {}


@test
def a_stopped_brig_goes_on_where_it_was():
    p = start_sh("echo ready; sleep 0.2; exit 3")
    read_until(p.stdout, b"ready\n")
    p.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    p.send_signal(signal.SIGCONT)
    assert finish(p) == 3


# ---- the death of brig ----


@test(alone=True)
def killing_brig_kills_all_inside_within_a_second():
    p = start_sh("setsid sleep 1000 & (setsid sh -c 'trap \"\" HUP TERM; sleep 1000; :' &); sleep 1000 & "
                 "touch ready; exec sleep 1000")
    assert wait_until(exists("ready")) and wait_until(lambda: len(descendants(p.pid)) >= 5)
    p.kill()
    assert finish(p) == 137
    assert all_ended(), descendants()
    assert brig("run", "--", "true").status == 0
    assert set(tree(workspace())) == {"ready"}


@test(alone=True)
def the_next_run_tidies_up_after_a_killed_one():
    repository(workspace())
    before = tree(workspace())
    p = start_sh("echo ready; sleep 1000")
    read_until(p.stdout, b"ready\n")
    assert placeholders(), "no placeholder to leave behind: the test is void"
    p.kill()
    finish(p)
    assert all_ended()
    assert brig("run", "--", "true").status == 0
    assert tree(workspace()) == before


@test(alone=True)
def the_next_run_still_protects_what_a_killed_one_held():
    p = start_sh("echo ready; sleep 1000")
    read_until(p.stdout, b"ready\n")
    p.kill()
    finish(p)
    assert all_ended()
    assert sh("echo evil > .vscode/tasks.json").status != 0
    assert sh("rm -f .vscode && mkdir .vscode && echo evil > .vscode/tasks.json").status != 0
    assert tree(workspace()) == {}


@test(alone=True)
def what_the_user_put_in_the_place_of_a_forgotten_placeholder_is_kept():
    p = start_sh("echo ready; sleep 1000")
    read_until(p.stdout, b"ready\n")
    p.kill()
    finish(p)
    assert all_ended()
    (workspace() / ".vscode").unlink(missing_ok=True)  # a run that lasted a little has a checker, which tidies up
    (workspace() / ".vscode").mkdir()
    (workspace() / ".vscode/settings.json").write_text("{}\n")  # the user's own work, no run being there
    done = brig("run", "--json", "--", "true")
    assert done.status == 0 and done.json["denials"] == []
    assert (workspace() / ".vscode/settings.json").read_text() == "{}\n"
    assert set(tree(workspace())) == {".vscode", ".vscode/settings.json"}


@test(alone=True)
def killed_at_any_moment_of_the_start_brig_leaves_nothing_the_next_run_does_not_remove():
    repository(workspace())
    before = tree(workspace())
    dice = random.Random(7)
    for _ in range(20):
        p = start_sh("setsid sleep 1000 & sleep 1000")
        time.sleep(dice.uniform(0, 0.015) * FACTOR)
        p.kill()
        finish(p)
        p.stdout.close()
        p.stderr.close()
    assert all_ended(), descendants()
    assert brig("run", "--", "true").status == 0
    assert tree(workspace()) == before


@test(alone=True)
def killed_while_it_ends_brig_leaves_nothing_the_next_run_does_not_remove():
    for i in range(10):
        p = start_sh("echo ready")
        read_until(p.stdout, b"ready\n")
        time.sleep(i * 0.0004)
        with contextlib.suppress(ProcessLookupError):
            p.kill()
        finish(p)
        p.stdout.close()
        p.stderr.close()
    assert all_ended()
    assert brig("run", "--", "true").status == 0
    assert tree(workspace()) == {}


@test
def a_closed_terminal_ends_the_run():
    def lead():
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    # Without a session of its own it gets no SIGHUP, as below su.
    for options, before in (((), lead), (("--tty",), lead), (("--tty",), None)):
        master, slave = pty.openpty()
        p = start_sh("touch ready; setsid sleep 1000 & sleep 1000", *options, stdin=slave, stdout=slave, stderr=slave,
                     start_new_session=True, preexec_fn=before)
        os.close(slave)
        assert wait_until(exists("ready"))
        os.close(master)
        assert finish(p) == 128 + signal.SIGHUP, (options, before)
        assert all_ended()
        os.unlink(workspace() / "ready")


@test
def a_run_outlives_the_shell_that_started_it():
    """As any command in the background does; it still ends by its own rules."""
    line = " ".join(map(str, ["setsid", *brig_argv("run", "--timeout", "20s", "--", "sh", "-c"), "'sleep 0.3; touch made' &"]))
    assert subprocess.run(["sh", "-c", line], env=brig_environment(), cwd=workspace(), stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, check=False).returncode == 0
    assert wait_until(exists("made"))
    assert wait_until(lambda: not descendants()) and set(tree(workspace())) == {"made"}


# ---- processes the command leaves ----


@test
def detached_grandchildren_end_with_the_command():
    began = time.monotonic()
    done = sh("setsid sleep 1000 & (setsid sleep 1000 > /dev/null 2>&1 &) ; setsid sh -c 'trap \"\" TERM HUP; sleep 1000' & "
              "echo out; exit 3")
    assert (done.status, done.stdout) == (3, b"out\n")
    assert time.monotonic() - began < 5 * PATIENCE
    assert wait_until(lambda: not descendants())


@test
def a_grandchild_that_holds_the_output_does_not_hold_brig():
    for options in ((), ("--json",)):
        began = time.monotonic()
        done = sh("(sleep 0.05; while :; do echo more; sleep 0.05; done) & echo first; sleep 0.2; exit 4", *options)
        assert done.status == 4 and time.monotonic() - began < 5 * PATIENCE
        assert b"first" in done.stdout and b"more" in done.stdout


@test
def all_that_was_written_before_the_end_arrives():
    for options in ((), ("--json", "--output-limit", "10m")):
        done = sh("head -c 60000 /dev/zero | tr '\\0' a; kill -9 $$", *options)
        text = done.json["stdout"] if options else done.text
        assert done.status == 137 and text == "a" * 60000


@test
def zombies_are_reaped():
    code = """
import glob, os, time
for _ in range(100):
    if os.fork() == 0:
        if os.fork() == 0:
            time.sleep(0.001)
        os._exit(0)
    os.wait()
def state(path):
    try:
        return open(path).read().rsplit(")", 1)[1].split()[0]
    except OSError:  # gone meanwhile
        return None
for _ in range(1000):
    states = [s for s in map(state, glob.glob("/proc/[0-9]*/stat")) if s]
    if len(states) == 1: break
    time.sleep(0.01)
print(states)
"""
    done = brig("run", "--pids", "120", "--", "python3", "-c", code)
    assert done.stdout == b"['R']\n", done.text + done.errors


@test
def the_status_is_the_commands_not_a_childs():
    assert sh("(exit 9) & (kill -9 0) 2>/dev/null & setsid sh -c 'exit 8' & sleep 0.1; exit 3").status in (3, 137)
    assert sh("sh -c 'exit 9'; setsid sh -c 'kill -9 $$'; exit 3").status == 3


# ---- times ----


@test
def times_in_the_report_fit_the_clock_on_the_wall():
    began = time.monotonic()
    r = sh("sleep 0.3", "--json").json
    wall = (time.monotonic() - began) * 1000
    assert r["duration_ms"] > 200 and r["setup_ms"] > 0, r  # counted from when brig hears of the start, a little late
    assert r["duration_ms"] + r["setup_ms"] <= wall


@test
def the_time_limit_is_neither_early_nor_late():
    r = sh("sleep 60", "--json", "--timeout", "400ms").json
    assert 400 <= r["duration_ms"] < 400 + 1000 * PATIENCE and r["outcome"] == "timeout"


# ---- many ----


@test(alone=True)
def fifty_runs_in_a_row_leave_nothing():
    """Processes, mounts, cgroups and files are counted by the harness, before and after."""
    for i in range(50):
        assert sh(f"setsid sleep 1000 & echo {i} > /tmp/a; exit {i}").status == i
    assert tree(workspace()) == {}


@test(alone=True)
def sixteen_runs_at_a_time_leave_nothing():
    repository(workspace())
    before = tree(workspace())
    runs = [start_sh(f"setsid sleep 1000 & echo mine > /tmp/a; cat /tmp/a; sleep 0.{i % 4}; exit {i}") for i in range(16)]
    for i, p in enumerate(runs):
        out, err = p.communicate(timeout=30 * PATIENCE)
        assert (p.returncode, out) == (i, b"mine\n"), err
    assert tree(workspace()) == before


@test(alone=True)
def sixteen_runs_killed_at_once_leave_nothing_to_the_next():
    repository(workspace())
    before = tree(workspace())
    runs = [start_sh("setsid sleep 1000 & sleep 1000") for _ in range(16)]
    wait_until(lambda: len(descendants()) >= 16 * 4, 5)
    for p in runs:
        p.kill()
    for p in runs:
        finish(p)
        p.stdout.close()
        p.stderr.close()
    assert all_ended()
    assert brig("run", "--", "true").status == 0
    assert tree(workspace()) == before


@test
def descriptors_of_brig_do_not_grow_with_what_the_command_does():
    p = start_sh("touch begun; while [ ! -e go ]; do sleep 0.05; done; i=0; while [ $i -lt 200 ]; do (:) & i=$((i+1)); done; wait; touch ready; sleep 5")
    assert wait_until(exists("begun"))
    before = len(os.listdir(f"/proc/{p.pid}/fd"))
    (workspace() / "go").touch()
    assert wait_until(exists("ready"))
    after = len(os.listdir(f"/proc/{p.pid}/fd"))
    assert after <= before + 4 < 64, (before, after)
    p.terminate()
    finish(p)


# ---- two runs in one workspace ----


def two_runs(first_ends_first):
    """Both at once; when the one ends the other is still protected; both trees are clean at the end."""
    try_it = "echo evil > .vscode/x || rm -f .vscode || mv .claude other || echo evil > .git/hooks/pre-push"
    wait = "touch NAME.ready; while [ ! -e NAME.go ]; do sleep 0.01; done; ({ " + try_it + "; } 2>/dev/null) && echo done"
    repository(workspace())
    shutil.rmtree(workspace() / ".git/hooks")  # a placeholder as well
    runs = {}
    for name in ("a", "b"):
        runs[name] = start_sh(wait.replace("NAME", name), "--json")
        assert wait_until(exists(f"{name}.ready"))
    held = placeholders()
    assert held and (workspace() / ".git/hooks").is_socket()
    for name in ("a", "b") if first_ends_first else ("b", "a"):
        (workspace() / f"{name}.go").touch()
        out, err = runs[name].communicate(timeout=20 * PATIENCE)
        assert b'"stdout": ""' in out and b'"outcome": "exited"' in out and b'"denials": []' in out, out + err
        if name == ("a" if first_ends_first else "b"):
            assert placeholders() == held and (workspace() / ".git/hooks").is_socket(), "the other run's were removed"
    left = {n for n in tree(workspace()) if not n.endswith((".ready", ".go"))}
    assert left == {".git", ".git/HEAD", ".git/config", ".git/objects", ".git/refs"}, left


@test
def two_runs_in_one_workspace_the_first_ending_first():
    two_runs(True)


@test
def two_runs_in_one_workspace_the_second_ending_first():
    two_runs(False)


@test(alone=True)
def a_killed_run_does_not_take_the_placeholders_of_a_living_one():
    a = start_sh("touch a.ready; sleep 1000")
    assert wait_until(exists("a.ready"))
    b = start_sh("touch b.ready; while [ ! -e go ]; do sleep 0.01; done; echo evil > .vscode/x || echo held")
    assert wait_until(exists("b.ready"))
    a.kill()
    finish(a)
    assert brig("run", "--", "true").status == 0  # removes what a left, and b holds the same names
    assert placeholders()
    (workspace() / "go").touch()
    assert b.communicate(timeout=20 * PATIENCE)[0] == b"held\n"
    assert set(tree(workspace())) == {"a.ready", "b.ready", "go"}
    assert brig("run", "--", "true").status == 0  # a's file was kept for as long as b held the names


# ---- the host changes the workspace during a run ----


def ended_by_the_host(change, unless=lambda done: False):
    """The run is ended, with a report of its own kind, unless that is allowed to go on; returns the report's object."""
    p = start_sh("touch ready; while :; do echo evil > .git/config; echo evil > .git/hooks/x; "
                 "echo evil > .vscode/x; done 2>/dev/null", "--json", "--timeout", "4s")
    assert wait_until(exists("ready"))
    began = time.monotonic()
    change()
    out, err = p.communicate(timeout=20 * PATIENCE)
    done = json.loads(out)
    if unless(done):
        return done
    assert time.monotonic() - began < 3 * PATIENCE, out
    assert done["outcome"] == "failed" and "protected" in done["error"]["what"] and done["error"]["hint"], out
    assert p.returncode == done["exit_code"] != 0 and b"brig: " in err
    return done


@test
def the_host_replacing_a_covered_file_ends_the_run_that_opened_it():
    """The new file is covered anew within milliseconds; a command that writes to the name all the time has mostly opened it by then."""
    repository(workspace())

    def change():
        (workspace() / ".git/config.lock").write_text("[core]\n\tbare = false\n[user]\n\tname = me\n")
        os.rename(workspace() / ".git/config.lock", workspace() / ".git/config")

    done = ended_by_the_host(change, lambda d: d["outcome"] == "timeout" and [c["path"] for c in d["changed_trust"]] == [".git/config"])
    # Whoever wrote it: it is not where git would obey it, and it is not lost.
    config = workspace() / ".git/config"
    if config.exists():
        assert "evil" not in config.read_text()
    else:
        assert [d["target"] for d in done["denials"] if d["kind"] == "protected-path"] == [".git/config"]
    assert not placeholders()


@test
def the_host_removing_a_covered_folder_ends_the_run():
    repository(workspace())
    ended_by_the_host(lambda: shutil.rmtree(workspace() / ".git/hooks"))
    assert not placeholders() and not (workspace() / ".git/hooks/x").exists()


@test
def the_host_removing_a_placeholder_ends_the_run():
    repository(workspace())
    done = ended_by_the_host(lambda: os.unlink(workspace() / ".vscode"))
    assert not (workspace() / ".vscode").exists(), done["denials"]


@test
def the_host_making_other_changes_does_not_end_the_run():
    repository(workspace())
    p = start_sh("touch ready; while [ ! -e go ]; do sleep 0.01; done; cat news; exit 3")
    assert wait_until(exists("ready"))
    (workspace() / "news").write_text("text\n")
    os.rename(workspace() / ".git/HEAD", workspace() / ".git/HEAD2")
    (workspace() / ".git/HEAD").write_text("ref: refs/heads/other\n")
    (workspace() / "go").touch()
    assert p.communicate(timeout=20 * PATIENCE)[0] == b"text\n" and p.returncode == 3


@test
def the_workspace_being_removed_crashes_nothing():
    place = folder("gone")
    repository(place)
    p = start_brig("run", "--json", "--workdir", place, "--", "sh", "-c", "touch ready; sleep 0.5; ls; touch more; exit 3")
    assert wait_until((place / "ready").exists)

    def remove():  # while brig takes its placeholders away itself
        shutil.rmtree(place, ignore_errors=True)
        return not place.exists()

    assert wait_until(remove)
    out, err = p.communicate(timeout=20 * PATIENCE)
    assert p.returncode in (3, 125), err
    assert json.loads(out)["outcome"] in ("failed", "exited")
    assert not place.exists()


@test
def the_workspace_being_renamed_leaves_no_stubs_at_its_new_place():
    place = folder("old")
    p = start_brig("run", "--workdir", place, "--", "sh", "-c", "touch ready; sleep 0.3; touch more")
    assert wait_until((place / "ready").exists)
    os.rename(place, scratch() / "new")
    p.communicate(timeout=20 * PATIENCE)
    assert p.returncode in (0, 125)
    brig("run", "--workdir", scratch() / "new", "--", "true")
    assert not [n for n in tree(scratch()) if n not in ("new", "new/ready", "new/more")], tree(scratch())


@test(as_user="user")
def a_brig_inside_of_a_sandbox_says_where_it_is():
    where = pathlib.Path(brig_path()).resolve().parent
    done = brig("run", "--read", str(where), "--", str(brig_path()), "run", "--", "true")
    assert done.status == 125 and "inside of a sandbox of brig's" in done.errors and "sysctl" not in done.errors, done.errors


if __name__ == "__main__":
    sys.exit(main())
