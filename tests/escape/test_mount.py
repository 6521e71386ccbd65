#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""2.3 of the attack corpus: mounts, links, devices."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import (INSIDE, UNSHARED, digest, held, inside, mount, on_host, outside, program)  # noqa: E402
from harness import FACTOR, IS_ROOT, brig, main, scratch, test, workspace  # noqa: E402


def repository(at=None):
    """A git repository with a hook and a config of its own."""
    at = at or workspace()
    done = on_host("git", "init", "-q", at)
    assert done.returncode == 0, done.stderr
    on_host("sh", "-c", "printf '#!/bin/sh\\n' > .git/hooks/pre-push && chmod 755 .git/hooks/pre-push", cwd=at)
    return at


def contents(folder):
    return {str(p.relative_to(folder)): digest(p) for p in sorted(pathlib.Path(folder).rglob("*")) if p.is_file()}


def as_root(*argv):
    """What only root can prepare."""
    subprocess.run([*map(os.fspath, argv)], check=True, capture_output=True)


def mounts_of(pid):
    return sorted(line.split(" ", 3)[2] + line.split(" ")[4] + line.split(" ")[5] for line in pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines())


@test
def a025_nothing_can_be_mounted_remounted_or_unmounted():
    outside("mounts", "classic", scratch() / "mnt", within=UNSHARED).must_work("tmpfs", "bind")
    inside("mounts", "classic").must_fail("tmpfs", "bind", "overlay", "proc", "remount-root", "umount")
    inside("mounts", "classic", "/tmp/mnt", options=("--profile", "debug")).must_fail("tmpfs", "bind")


@test
def a026_nor_through_the_new_mount_calls():
    outside("mounts", "modern", within=UNSHARED).must_work("fsopen", "fsmount", "open_tree")
    inside("mounts", "modern").must_fail("fsopen", "fsmount", "open_tree", "move_mount", "mount_setattr", "fsconfig")


@test
def a025_the_mounts_of_a_run_are_the_same_after_the_attack():
    line = f"touch ready; while [ ! -e go ]; do sleep 0.02; done; rm go ready; {INSIDE} classic /tmp/mnt; {INSIDE} modern; touch ready; sleep 9"
    with held("run", *mount("mounts"), "--", "sh", "-c", line) as h:
        before = mounts_of(h.guests()[0])
        (workspace() / "ready").unlink()
        h.release()
        while not (workspace() / "ready").exists():
            time.sleep(0.01)
        assert mounts_of(h.guests()[0]) == before and len(before) > 20
        h.process.terminate()


@test
def a028_covers_of_protected_names_cannot_be_taken_off():
    repository()
    (workspace() / ".vscode").mkdir()
    (workspace() / ".vscode/tasks.json").write_text("{}\n")
    (workspace() / ".mcp.json").write_text("{}\n")
    before = {k: v for k, v in contents(workspace()).items()}
    names = [".git/hooks", ".git/config", ".vscode", ".mcp.json", ".claude", ".cursor"]
    attempt = inside("mounts", "uncover", *names)
    assert not attempt.worked, attempt.worked
    assert {k: v for k, v in contents(workspace()).items() if not k.startswith("other")} == before
    copy = scratch() / "copy"
    shutil.copytree(workspace(), copy)
    outside("mounts", "uncover", *names[:4], cwd=copy)
    assert contents(copy) != before, "the control proves nothing"


@test
def a029_the_folder_above_a_protected_name_stays():
    repository()
    before = contents(workspace())
    inode = os.stat(workspace() / ".git").st_ino
    attempt = inside("mounts", "above", ".git", "/workspace")
    attempt.must_fail("rename", "exchange", "over", "rename-top")
    assert contents(workspace()) == before and os.stat(workspace() / ".git").st_ino == inode
    shutil.copytree(workspace(), scratch() / "copy")
    outside("mounts", "above", cwd=scratch() / "copy").must_work("rename")


@test
def a029_the_folder_above_a_missing_protected_name_stays():
    """.git/info/attributes is protected even while info is missing."""
    repository()
    shutil.rmtree(workspace() / ".git/info")
    inside("mounts", "above", ".git/info").must_fail("rename")
    brig("run", "--", "sh", "-c", "mkdir -p .git/info; echo '* filter=evil' > .git/info/attributes")
    assert not (workspace() / ".git/info/attributes").exists()
    (taken,) = (workspace().parent / "state/brig/quarantine").glob("*")
    assert "* filter=evil\n" in [p.read_text() for p in taken.iterdir()]
    shutil.rmtree(taken)


@test
def a030_a_protected_file_gets_no_second_name():
    repository()
    before = contents(workspace())
    inside("mounts", "hard-link", ".git/config").must_fail("link", "link-proc", "link-path", "reopen")
    inside("mounts", "hard-link", ".git/hooks/pre-push").must_fail("link", "link-proc")
    assert contents(workspace()) == before
    assert os.stat(workspace() / ".git/config").st_nlink == 1
    outside("mounts", "hard-link", ".git/config").must_work("link", "write")
    assert b"PWNED" in (workspace() / "alias1").read_bytes(), "the control proves nothing"


@test(by_root=True)
def a031_set_id_and_capable_programs_gain_nothing():
    as_root("sh", "-c", f"echo ROOT-CANARY > {scratch()}/secret; chmod 600 {scratch()}/secret; chown 0:0 {scratch()}/secret")
    as_root("cp", program("identity"), workspace() / "setuid")
    as_root("cp", program("identity"), workspace() / "capable")
    as_root("cp", program("identity"), scratch() / "setuid")
    as_root("chown", "0:0", workspace() / "setuid", workspace() / "capable", scratch() / "setuid")
    as_root("chmod", "6755", workspace() / "setuid", scratch() / "setuid")
    as_root("setcap", "cap_dac_read_search,cap_sys_admin+ep", workspace() / "capable")
    for name in ("setuid", "capable"):
        control = on_host(workspace() / name, "read", scratch() / "secret", user=4242)
        assert b"ROOT-CANARY" in control.stdout, f"the control proves nothing: {name}"
    for path in ("/workspace/setuid", "/workspace/capable", scratch() / "setuid"):
        done = brig("run", "--read", scratch(), "--", path, "read", scratch() / "secret")
        assert b"ROOT-CANARY" not in done.stdout and b"+ " not in done.stdout and done.status == 1, (path, done.stdout)


@test
def a032_devices_can_be_neither_made_nor_opened():
    names = []
    if IS_ROOT:
        for name, kind in (("zero", ("c", "1", "5")), ("disk", ("b", "254", "0")), ("mem", ("c", "1", "1"))):
            as_root("mknod", "-m", "666", workspace() / name, *kind)
            names.append(name)
        outside("mounts", "devices", *names).must_work("open:zero")
        outside("mounts", "devices", user=0, cwd=scratch()).must_work("mknod-zero", "mknod-disk")
        as_root("rm", "/tmp/made", "/tmp/white")
    attempt = inside("mounts", "devices", *names)
    attempt.must_fail("mknod-zero", "mknod-disk", "mknod-mem", *(f"open:{n}" for n in names))
    assert not (workspace() / "made").exists()
    if IS_ROOT:
        for n in names:
            as_root("rm", workspace() / n)


@test
def a032_no_device_of_the_host_is_shown():
    shown = brig("run", "--", "find", "/dev", "-type", "b", "-o", "-type", "c").text.split()
    allowed = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/pts/ptmx"}
    assert set(shown) <= allowed, set(shown) - allowed
    for path in ("/dev/vda", "/dev/mem", "/dev/kmsg", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/dri", "/dev/vsock", "/dev/loop-control", "/dev/console"):
        assert brig("run", "--", "test", "-e", path).status == 1, path


@test
def a033_there_is_no_no_exec_policy_and_exec_gains_nothing():
    """Documented: /tmp allows exec on native. What is started there has the same bounds."""
    done = brig("run", *mount("identity"), "--", "sh", "-c", f"cp {INSIDE} /tmp/x && /tmp/x capabilities")
    assert done.status == 1 and b"+ " not in done.stdout, done.stdout


@test
def a035_roots_cannot_be_changed():
    outside("mounts", "roots", within=UNSHARED, cwd=scratch()).must_work("chroot", "fchdir", "chroot-again")
    inside("mounts", "roots").must_fail("chroot", "pivot_root")


@test(by_root=True)
def a037_mounts_do_not_propagate_into_a_run():
    (scratch() / "place").mkdir()
    with held("run", "--read", scratch(), *mount("mounts"), "--", INSIDE, "look", f"{scratch()}/place", "/workspace") as h:
        as_root("mount", "-t", "tmpfs", "none", scratch() / "place")
        try:
            as_root("touch", scratch() / "place/seen")
            probe = subprocess.run(["unshare", "-m", "--propagation", "slave", "ls", scratch() / "place"], capture_output=True, check=True)
            assert b"seen" in probe.stdout, "the control proves nothing"
            h.release()
            out = h.process.stdout.read()
        finally:
            as_root("umount", "-l", scratch() / "place")
    assert b"+ seen" not in out and b"- look" in out, out


@test
def a039_sources_that_are_links_are_refused():
    (scratch() / "real").mkdir()
    (scratch() / "real/secret").write_text("CANARY-39\n")
    (scratch() / "link").symlink_to(scratch() / "real")
    (scratch() / "up").symlink_to("..")
    assert on_host("cat", scratch() / "link/secret").stdout == b"CANARY-39\n"
    for source in (scratch() / "link", scratch() / "up/scratch/real", "/proc/self/cwd", "/proc/self/root", "/proc/thread-self/cwd", "/dev/fd/0"):
        for option in ((("--mount", f"{source}:/data")), ("--read", source), ("--workdir", source)):
            done = brig("run", *option, "--", "cat", "/data/secret", "/workspace/secret", f"{source}/secret")
            assert done.status == 125 and b"CANARY" not in done.stdout, (option, done.status)


@test
def a039_a_source_swapped_in_a_race_never_shows_the_other():
    """A second thread exchanges the source for a link to a secret as fast as it can."""
    (scratch() / "secrets").mkdir()
    (scratch() / "secrets/file").write_text("CANARY-39\n")
    (scratch() / "src").mkdir()
    (scratch() / "src/file").write_text("harmless\n")
    stop, swaps = threading.Event(), [0]

    def swap():
        with contextlib.suppress(OSError):
            os.symlink("secrets", scratch() / "link")
        while not stop.is_set():
            for a, b in (("src", "aside"), ("link", "src"), ("src", "link"), ("aside", "src")):
                with contextlib.suppress(OSError):
                    os.rename(scratch() / a, scratch() / b)
            swaps[0] += 1

    t = threading.Thread(target=swap)
    t.start()
    try:
        began, control, runs, shown = time.monotonic(), 0, 0, 0
        while (now := time.monotonic() - began) < 3 or (now < 3 * FACTOR and (runs <= 10 or swaps[0] <= 100)):
            for _ in range(20):
                with contextlib.suppress(OSError):
                    control += (scratch() / "src/file").read_text() == "CANARY-39\n"
            done = brig("run", "--mount", f"{scratch()}/src:/data", "--", "cat", "/data/file")
            assert b"CANARY" not in done.stdout, "the other tree was shown"
            runs += 1
            shown += done.stdout == b"harmless\n"
    finally:
        stop.set()
        t.join()
    assert runs > 10 and swaps[0] > 100, (runs, swaps)
    assert control, "the control proves nothing: the swap was never seen"


if __name__ == "__main__":
    sys.exit(main())
