#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""2.1 of the attack corpus: descriptors and the launcher binary."""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import (INSIDE, as_identity, digest, finish, held, inside, mount, on_host, outside,  # noqa: E402
                    program, signal)
from harness import (PATIENCE, brig, brig_argv, brig_environment, brig_path, descendants, main, scratch, start_brig, test, wait_until, workspace)  # noqa: E402


def handles():
    """What a careless caller may have open: a folder, a file, a socket, a namespace, a cgroup."""
    (scratch() / "secret").write_text("canary\n")
    pair = socket.socketpair()
    fds = [os.open("/", os.O_RDONLY | os.O_DIRECTORY), os.open(scratch() / "secret", os.O_RDWR),
           os.open("/proc/self/ns/net", os.O_RDONLY), os.open("/sys/fs/cgroup", os.O_RDONLY), pair[0].detach(), pair[1].detach()]
    high = os.dup2(fds[0], 200)
    for fd in [*fds, high]:
        os.set_inheritable(fd, True)
    return [*fds, high]


@test
def a001_no_descriptor_of_the_caller_is_inherited():
    fds = handles()
    outside("fd", "list", pass_fds=fds).must_work("fd")
    for options in ((), ("--json",), ("--policy", "readonly"), ("--network", "host")):
        p = start_brig("run", *options, *mount("fd"), "--", INSIDE, "list", pass_fds=fds)
        attempt = finish(p)
        assert attempt.status == 1 and not attempt.worked, attempt.stdout


@test
def a002_a_working_folder_by_a_magic_link_is_refused():
    fds = handles()
    assert on_host("sh", "-c", f"cd /proc/self/fd/{fds[0]} && cat .{scratch()}/secret", pass_fds=fds).stdout == b"canary\n"
    for path in [f"/proc/self/fd/{fd}" for fd in [*range(3, 16), 200]] + ["/proc/self/root/..", "/proc/self/cwd/..", "/proc/1/root"]:
        for option in ("--workdir", "--read", "--write"):
            p = start_brig("run", option, path, "--", "cat", f"/workspace{scratch()}/secret", f"{path}{scratch()}/secret", pass_fds=fds)
            attempt = finish(p)
            assert attempt.status == 125 and b"canary" not in attempt.stdout, (option, path, attempt.status)


@test
def a004_the_launcher_cannot_be_overwritten_through_proc():
    copy = scratch() / "brig"
    shutil.copy(brig_path(), copy)
    victim = scratch() / "victim"
    shutil.copy("/usr/bin/sleep", victim)
    with subprocess.Popen(as_identity([victim, "60"])) as p:
        wait_until(lambda: pathlib.Path(f"/proc/{p.pid}/comm").read_text() == "victim\n")
        control = subprocess.Popen(as_identity([program("fd"), "launcher", str(p.pid), scratch()]), stdout=subprocess.PIPE)
        wait_until(lambda: (scratch() / "ready").exists())
        p.kill()
    (scratch() / "go").touch()
    control.communicate()
    assert digest(victim) != digest("/usr/bin/sleep"), "the control proves nothing"
    for name in ("ready", "go"):
        (scratch() / name).unlink()

    before = digest(copy)
    argv = [str(copy) if a == str(brig_path()) else a for a in brig_argv("run", *mount("fd"), "--", INSIDE, "launcher")]
    p = subprocess.Popen(argv, env=brig_environment(), cwd=workspace(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert wait_until(lambda: (workspace() / "ready").exists()), "it did not start"
    (workspace() / "go").touch()
    attempt = finish(p)
    assert attempt.status == 1 and not attempt.worked, attempt.stdout
    assert digest(copy) == before and digest(brig_path()) == before


@test
def a006_files_given_as_streams_cannot_be_reopened_with_more_rights():
    def attack(start):
        (scratch() / "in").write_text("input\n")
        (scratch() / "out").write_text("earlier secret\n")
        with open(scratch() / "in", "rb") as i, open(scratch() / "out", "ab") as o:
            p = start(stdin=i, stdout=o, stderr=subprocess.PIPE)
            err = p.communicate(timeout=20 * PATIENCE)[1]
        return (scratch() / "in").read_text(), (scratch() / "out").read_text(), err

    got = attack(lambda **io: subprocess.Popen(as_identity([program("fd"), "reopen"]), **io))
    assert "PWNED" in got[0] and b"earlier secret" in got[2] and got[1] == "", f"the control proves nothing: {got}"
    got = attack(lambda **io: start_brig("run", *mount("fd"), "--", INSIDE, "reopen", **io))
    assert got[0] == "input\n", "stdin was written"
    assert got[1].startswith("earlier secret\n"), "stdout was truncated"
    assert b"earlier secret" not in got[2], "stdout was read"


@test
def a007_a_folder_the_host_moves_away_does_not_lead_up():
    def attack(start):
        (workspace() / "deep/er").mkdir(parents=True)
        (scratch() / "secret").write_text("canary\n")
        p = start()
        assert wait_until(lambda: (workspace() / "ready").exists())
        os.rename(workspace() / "deep", scratch() / "deep")
        (workspace() / "go").touch()
        attempt = finish(p)
        shutil.rmtree(scratch() / "deep")
        for name in ("ready", "go"):
            (workspace() / name).unlink()
        return attempt

    attack(lambda: subprocess.Popen(as_identity([program("fd"), "climb", "secret", workspace()]), stdout=subprocess.PIPE)).must_work("climb")
    attack(lambda: start_brig("run", *mount("fd"), "--", INSIDE, "climb")).must_fail("climb")


@test
def a008_closed_streams_become_the_null_device_or_pipes():
    on_host("sh", "-c", f"exec {program('fd')} streams {workspace()}/report <&- >&-")
    assert "0 closed" in (workspace() / "report").read_text()
    for closing in ("<&- >&- 2>&-", "<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- 2>&-"):
        (workspace() / "report").unlink(missing_ok=True)
        line = f'exec "$@" {closing}'
        p = subprocess.Popen(["sh", "-c", line, "sh", *brig_argv("run", *mount("fd"), "--", INSIDE, "streams")],
                             env=brig_environment(), cwd=workspace(), stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        p.communicate(timeout=20 * PATIENCE)
        report = (workspace() / "report").read_text().splitlines()
        assert len(report) == 3, f"{closing}: {report}"
        for line in report:
            _, kind, to = line.split(" ", 2)
            assert kind == "pipe" or (kind == "device" and to == "/dev/null"), f"{closing}: {line}"


@test
def a008_nothing_of_brigs_lands_on_the_callers_closed_streams():
    """With 1 and 2 closed, brig's own files must not take these numbers and be written to as output."""
    (scratch() / "state").mkdir(mode=0o700)
    for closing in ("<&- >&- 2>&-", ">&- 2>&-"):
        p = subprocess.Popen(["sh", "-c", f'exec "$@" {closing}', "sh", *brig_argv("run", "--", "sh", "-c", "echo MARK; echo MARK >&2; touch ran")],
                             env=brig_environment({"XDG_STATE_HOME": str(scratch() / "state")}), cwd=workspace(),
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        p.communicate(timeout=20 * PATIENCE)
        assert not [f for f in (scratch() / "state").rglob("*") if f.is_file() and b"MARK" in f.read_bytes()]
        assert not [f for f in workspace().rglob("*") if f.is_file() and b"MARK" in f.read_bytes()]


@test
def a009_nothing_is_written_after_the_end():
    log = workspace() / "log"
    control = subprocess.Popen(as_identity([program("fd"), "keep-writing", log]), stdout=subprocess.PIPE)
    control.communicate()
    before = log.stat().st_size
    assert wait_until(lambda: log.stat().st_size > before), "the control proves nothing"
    for pid in descendants():
        os.kill(pid, signal.SIGKILL)
    for options in ((), ("--timeout", "1s")):
        log.unlink()
        done = brig("run", *options, *mount("fd"), "--", "sh", "-c", f"{INSIDE} keep-writing; [ $# = 0 ] || sleep 30", "sh", *options)
        assert done.status == (124 if options else 0)
        size = log.stat().st_size
        assert size > 0
        time.sleep(0.2)
        assert log.stat().st_size == size, "it still writes"


@test
def a009_a_cancelled_run_writes_no_more():
    with held("run", *mount("fd"), "--", "sh", "-c", f"{INSIDE} keep-writing; touch ready; sleep 30") as h:
        h.process.send_signal(signal.SIGTERM)
        h.process.wait(20 * PATIENCE)
        size = (workspace() / "log").stat().st_size
        time.sleep(0.2)
        assert (workspace() / "log").stat().st_size == size


@test
def a001_a_descriptor_listing_inside_shows_only_streams_with_a_terminal():
    attempt = inside("fd", "list", options=("--tty", "--timeout", "10s"))
    assert attempt.status == 1 and not attempt.worked, attempt.stdout


if __name__ == "__main__":
    sys.exit(main())
