#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The workspace at its own path: it hides nothing that brig builds, shows nothing that lies beside it, and whatever is done to
the folders above it reaches neither the host nor what is covered in it."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import as_identity, on_host  # noqa: E402
from harness import brig, files_as_root, identity, main, scratch, test, tree, uid, workspace  # noqa: E402

BOTH = ("native", "bwrap")


def repository(path):
    subprocess.run(as_identity(["git", "init", "-q", path]), check=True, cwd=path)


@contextlib.contextmanager
def bound(source, target, over=None):
    """The source at a place of its own, with all that its mount point needs, while it lasts; `over`: in an empty folder in place of that one."""
    made = []
    with files_as_root():
        if over:
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", over], check=True)
        for p in reversed([target, *target.parents]):
            if not p.exists():
                p.mkdir()
                made.append(p)
        subprocess.run(["mount", "--bind", source, target], check=True)
    try:
        yield target
    finally:
        with files_as_root():
            subprocess.run(["umount", "-l", target], check=True)
            for p in reversed(made):
                p.rmdir()
            if over:
                subprocess.run(["umount", "-l", over], check=True)


@test(backends=BOTH)
def nothing_beside_the_workspace_is_shown_and_nothing_above_it_is_the_hosts():
    beside = workspace().parent / "beside"
    beside.mkdir()
    (beside / "secret").write_text("CANARY\n")
    assert on_host("cat", beside / "secret").stdout == b"CANARY\n"
    script = f"ls -A {workspace()}/..; cat ../beside/secret {beside}/secret; touch ../left {workspace().parent.parent}/left; mkdir -p {beside}; echo x > {beside}/new; pwd; cd /workspace && pwd -P"
    done = brig("run", "--", "sh", "-c", script)
    lines = done.text.splitlines()
    assert lines[0] == "work" and lines[-2:] == [str(workspace())] * 2 and "CANARY" not in done.text, done.text
    assert tree(beside).keys() == {"secret"} and not (workspace().parent / "left").exists() and not (workspace().parent.parent / "left").exists()
    (beside / "secret").unlink()
    beside.rmdir()


@test(by_root=True, backends=BOTH)
def what_is_left_below_a_mount_in_the_workspace_is_taken_away_like_the_rest():
    """Nothing can be moved from there to another file system. What the mount hides is not to be written to at all: nobody would find it."""
    repository(workspace())
    hostile = "git init -q m/r; printf '[core]\\n\\tfsmonitor = ./x\\n' >> m/r/.git/config; cp m/r/.git/hooks/*.sample m/r/.git/hooks/pre-commit 2> /dev/null || " \
              "{ mkdir -p m/r/.git/hooks; echo exit > m/r/.git/hooks/pre-commit; }; chmod 755 m/r/.git/hooks/pre-commit"
    (workspace() / "m").mkdir()
    with files_as_root():
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"uid={uid()},gid={uid()}", "tmpfs", workspace() / "m"], check=True)
    try:
        r = brig("run", "--json", "--", "sh", "-c", hostile).json
        at = workspace() / "m/r/.git"
        assert (r["outcome"], r["exit_code"]) == ("exited", 0), r
        assert at.exists() and not (at / "config").exists() and not (at / "hooks/pre-commit").exists(), [*at.iterdir()]
        assert "m/r/.git/config" in {d["target"] for d in r["denials"]} and "moved to m/r/.git/.brig-quarantine-" in str(r["denials"]), r["denials"]
    finally:
        with files_as_root():
            subprocess.run(["umount", "-l", workspace() / "m"], check=True)
    assert not [*(workspace() / "m").iterdir()]


@test(by_root=True, backends=BOTH)
def places_of_all_kinds_hold_the_workspace():
    """Also where folders of the host are shown, or brig's own root has some."""
    for place in (f"/srv/{os.getpid()}/deep/er", f"/opt/{os.getpid()}", f"/root/{os.getpid()}", f"/run/user/{uid()}/p{os.getpid()}", f"/var/lib/{os.getpid()}",
                  f"/workspace{os.getpid()}", f"/home/brig{os.getpid()}/x", f"/brig-own-{os.getpid()}"):
        with bound(workspace(), pathlib.Path(place)):
            done = brig("run", "--json", "--set", f"mount_roots={place}", "--workdir", place, "--", "sh", "-c", "pwd; echo made > made; ls -A ..; readlink /workspace")
            r = done.json
            if identity() == "user" and place.startswith("/root"):  # which an ordinary user cannot reach
                assert not r["stdout"] and "Permission denied" in r["error"]["what"], (place, r)
                continue
            assert (r["outcome"], r["workspace_target"]) == ("exited", place), (place, r)
            assert r["stdout"].startswith(f"{place}\n") and r["stdout"].endswith(f"\n{place}\n"), (place, r)
            assert (workspace() / "made").read_text() == "made\n", place
            (workspace() / "made").unlink()


@test(backends=BOTH)
def a_workspace_never_hides_a_folder_of_the_system():
    """Where it would, it is at /workspace; where that place was asked for, and for folders of the system themselves, the run is refused."""
    mark = f"/tmp/brig-mark-{os.getpid()}"
    assert on_host("touch", mark).returncode == 0
    try:
        for place in ("/tmp", "/var/tmp"):
            r = brig("run", "--json", "--policy", "readonly", "--workdir", place, "--", "sh", "-c", f"pwd; ls {mark}; ls /workspace | wc -l; touch {place}/mine && echo private", env={"HOME": "/nonexistent"}).json
            assert r["workspace_target"] == "/workspace" and r["stdout"].startswith("/workspace\n") and r["stdout"].endswith("private\n"), r
            assert mark not in r["stdout"], "the host's folder stands in the place of the private one"
        done = brig("run", "--policy", "readonly", "--workdir", "/tmp", "--", "ls", f"/workspace/{os.path.basename(mark)}")
        assert done.status == 0 and "at '/workspace'" in done.errors, done.errors
    finally:
        on_host("rm", mark)
    for place in ("/", "/usr", "/etc", "/bin", "/lib", "/dev", "/proc", "/sys", "/dev/shm", "/proc/self", "/sys/kernel", "/run", "/var", "/home", "/root"):
        for more in ((), ("--set", "workspace.target=same"), ("--policy", "readonly")):
            assert brig("run", *more, "--workdir", place, "--", "true").status == 125, (place, more)
    for place in ("/tmp", "/var/tmp", "/etc/ssl", "/etc/alternatives"):
        done = brig("run", "--policy", "readonly", "--set", "workspace.target=same", "--workdir", place, "--", "true", env={"HOME": "/nonexistent"})
        assert done.status == 125 and "leave workspace.target out" in done.errors, (place, done.errors)


@test(by_root=True, backends=BOTH)
def a_workspace_in_the_home_of_the_sandbox_is_elsewhere():
    """HOME inside is private; a folder of the same name on the host must not come to lie in it, or over it."""
    with bound(workspace(), pathlib.Path("/home/brig/project"), over="/home") as place:
        r = brig("run", "--json", "--workdir", place, "--", "sh", "-c", "pwd; ls -A ~; touch here ~/there").json
        assert (r["workspace_target"], r["stdout"]) == ("/workspace", "/workspace\n") and tree(workspace()).keys() == {"here"}, r
        assert brig("run", "--set", "workspace.target=same", "--workdir", place, "--", "true").status == 125
        r = brig("run", "--json", "--set", "user_name=other", "--workdir", place, "--", "pwd").json  # another HOME, and the place is free
        assert (r["workspace_target"], r["stdout"]) == (str(place), f"{place}\n"), r
    (workspace() / "here").unlink()


@test(backends=BOTH)
def folders_above_that_are_moved_inside_uncover_nothing():
    """In the private /tmp and /var/tmp they are the command's to rename; the mount and its covers go with them."""
    repository(workspace())
    config = (workspace() / ".git/config").read_bytes()
    above = workspace().parent
    script = f"""cd /; mv {above} {above}.away; mkdir -p {workspace()}/.git/hooks; echo evil > {workspace()}/.git/hooks/pre-commit; echo evil > {workspace()}/.git/config
        for d in {above}.away/work /workspace; do echo evil > $d/.git/hooks/pre-commit; echo evil >> $d/.git/config; mv $d/.git $d/g; echo x > $d/.mcp.json; done
        echo real > {above}.away/work/real; ln -s / {above}/l; mv {above}.away/work {above}.away/w2; umount {above}.away/work; rm -rf {above}.away/work; true"""
    control = scratch() / "control"
    repository_like = control / "up/work"
    repository_like.mkdir(parents=True)
    on_host("sh", "-c", f"cd /; mv {control}/up {control}/away; echo x > {control}/away/work/real")
    assert (control / "away/work/real").exists(), "the control proves nothing"
    done = brig("run", "--", "sh", "-c", script)
    assert (workspace() / ".git/config").read_bytes() == config and not (workspace() / ".git/hooks/pre-commit").exists(), done.errors
    assert not (workspace() / ".mcp.json").exists() and sorted(p.name for p in above.iterdir() if p.name.startswith("work")) == ["work"], done.errors
    assert not (above / "l").is_symlink()
    on_host("rm", "-rf", control)


@test(backends=BOTH)
def the_link_of_the_old_name_is_brigs_own():
    (workspace() / "sub").mkdir()
    done = brig("run", "--", "sh", "-c", "rm -f /workspace; ln -sfn /tmp /workspace; mv /workspace /w; readlink /workspace; touch /workspace/made")
    assert done.text == f"{workspace()}\n" and (workspace() / "made").exists(), (done.text, done.errors)
    for option in (("--mount", f"{scratch()}:/workspace/sub"), ("--mount", f"{scratch()}:/workspace"), ("--mount", f"{scratch()}:/workspace/x/y:rw"), ("--mount", f"{scratch()}:{workspace()}"),
                   ("--read", workspace()), ("--write", workspace())):
        assert brig("run", *option, "--", "true").status == 125, option
    done = brig("run", "--mount", f"{scratch()}:{workspace()}/sub", "--", "sh", "-c", "touch /workspace/sub/new")
    assert done.status != 0 and not tree(workspace() / "sub") and "new" not in tree(scratch()), done.errors


@test(backends=BOTH)
def a_way_of_links_is_refused_and_a_parent_swapped_in_a_race_shows_nothing_else():
    real, other = scratch() / "real", scratch() / "other"
    for path, text in ((real, "mine"), (other, "CANARY")):
        (path / "deep/work").mkdir(parents=True)
        (path / "deep/work/file").write_text(f"{text}\n")
    (scratch() / "link").symlink_to(real)
    assert on_host("cat", scratch() / "link/deep/work/file").stdout == b"mine\n"
    for more in ((), ("--set", "workspace.target=same")):
        done = brig("run", *more, "--workdir", scratch() / "link/deep/work", "--", "cat", "file")
        assert done.status == 125 and str(real / "deep/work") in done.errors, done.errors
    stop, seen = threading.Event(), [0, 0]

    def swap():
        while not stop.is_set():
            for a, b in (("real", "aside"), ("other", "real"), ("real", "other"), ("aside", "real")):
                with contextlib.suppress(OSError):
                    os.rename(scratch() / a, scratch() / b)
            seen[0] += 1

    t = threading.Thread(target=swap)
    t.start()
    try:
        for _ in range(25):
            for _ in range(20):
                with contextlib.suppress(OSError):
                    seen[1] += (real / "deep/work/file").read_text() == "CANARY\n"
            # What stood there when the plan was made is what is shown, or nothing is: one of the two, whole.
            r = brig("run", "--json", "--workdir", real / "deep/work", "--", "sh", "-c", "cat file /workspace/file").json
            assert r["outcome"] in ("refused", "failed") and not r["stdout"] or r["stdout"] in ("mine\nmine\n", "CANARY\nCANARY\n"), r
    finally:
        stop.set()
        t.join()
    assert seen[0] > 25 and seen[1], "the control proves nothing: no swap was seen"


@test
def a_projects_file_nobody_trusts_does_not_place_the_workspace():
    for text, taken in (("workspace: {target: /usr/share}\n", False), ("workspace: {target: /srv}\n", False), ("workspace: {target: same}\n", True)):
        (workspace() / ".brig.yaml").write_text(text)
        done = brig("run", "--", "pwd")
        assert (done.status, done.text) == ((0, f"{workspace()}\n") if taken else (125, "")), (text, done.text, done.errors)
        assert taken or "workspace.target" in done.errors, done.errors
    (workspace() / ".brig.yaml").unlink()


@test(backends=BOTH)
def a_read_only_workspace_in_a_private_folder_stays_read_only():
    """Landlock lets the folder around it be changed; the mount does not."""
    (workspace() / "file").write_text("mine\n")
    os.mkfifo(workspace() / "pipe")
    (workspace() / "pipe").chmod(0o666)
    end = os.open(workspace() / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    script = "echo x > file; echo x > new; rm file; mv file f; chmod 777 .; ln file g; echo told 1<>pipe; touch ../beside && echo private"
    done = brig("run", "--policy", "readonly", "--", "sh", "-c", script)
    assert done.text == "private\n" and tree(workspace()).keys() == {"file", "pipe"} and (workspace() / "file").read_text() == "mine\n", (done.text, done.errors)
    with contextlib.suppress(BlockingIOError):
        assert os.read(end, 10) == b"", "the host's reader was written to"
    os.close(end)
    assert not (workspace().parent / "beside").exists()
    assert brig("run", "--", "sh", "-c", "echo x > file").status == 0 and (workspace() / "file").read_text() == "x\n", "the control proves nothing"
    (workspace() / "pipe").unlink()


@test(as_user="root")
def another_users_private_folder_in_the_workspace_stays_closed():
    """What needs covers in it cannot be reached by brig's child, and not by the command."""
    private = workspace() / "private"
    private.mkdir()
    subprocess.run(["git", "init", "-q", private / "repo"], check=True)
    script = "echo x > private/repo/.git/hooks/x; chmod 755 private; mv private p; ls private/repo"
    for mode, opened in ((0o755, True), (0o700, False)):
        for path in (private, *private.rglob("*")):
            os.chown(path, 65534, 65534)
        private.chmod(mode)
        done = brig("run", "--", "sh", "-c", script)
        assert done.status == (0 if opened else 2) and "error" not in done.errors, done.errors
        assert private.stat().st_mode & 0o777 == mode and (private / "repo/.git").is_dir() and not (private / "repo/.git/hooks/x").exists()
    shutil.rmtree(private)


if __name__ == "__main__":
    sys.exit(main())
