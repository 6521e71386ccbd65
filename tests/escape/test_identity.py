#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""2.5 of the attack corpus: identity and capabilities."""

import os
import pathlib
import stat
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import (FIRST_ID, INSIDE, UNSHARED, held, holding, identity, inside, mount, on_host, outside, status_of)  # noqa: E402
from harness import IS_ROOT, brig, brig_argv, brig_environment, main, scratch, test, uid, workspace  # noqa: E402

SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


def as_root(*argv):
    subprocess.run([*map(os.fspath, argv)], check=True, capture_output=True)


def set_id(folder):
    """Files with a set-id bit or capabilities, as the host sees them."""
    found = []
    for p in pathlib.Path(folder).rglob("*"):
        st = p.lstat()
        if st.st_mode & (stat.S_ISUID | stat.S_ISGID):
            found.append((p.name, stat.filemode(st.st_mode), st.st_uid))
        if not p.is_symlink() and "security.capability" in os.listxattr(p):
            found.append((p.name, "capability", st.st_uid))
    return found


@test
def a061_no_capability_in_any_set_and_none_can_be_raised():
    outside("identity", "capabilities", within=UNSHARED).must_work("capset-admin")
    with held("run", *mount("identity"), "--", INSIDE, "capabilities", "/workspace") as h:
        assert len(h.pids()) >= 2
        for pid in h.pids():
            s = status_of(pid)
            assert all(int(s[name], 16) == 0 for name in SETS), (pid, {n: s[n] for n in SETS})
            assert 0 not in map(int, s["Uid"].split() + s["Gid"].split()), s["Uid"]
            assert s["NoNewPrivs"].strip() == "1" and s["Seccomp"].strip() == "2"
    result = h.process.result
    assert set(result.worked) <= {"keepcaps", "new-privs"} and "capset-admin" in result.denied, result.worked
    assert not result.worked, result.worked


@test(by_root=True)
def a062_set_id_helpers_of_the_system_gain_nothing():
    as_root("sh", "-c", f"echo ROOT-CANARY > {scratch()}/secret; chmod 600 {scratch()}/secret; chown 0:0 {scratch()}/secret")
    helpers = [p for p in ("/usr/bin/su", "/usr/bin/sudo", "/usr/bin/newgrp", "/usr/bin/mount", "/usr/bin/passwd") if os.path.exists(p)]
    assert any(os.stat(p).st_mode & stat.S_ISUID for p in helpers), "the control proves nothing: no set-id program here"
    for argv in (("su", "-c", f"cat {scratch()}/secret"), ("sudo", "-n", "cat", scratch() / "secret"), ("newgrp", "root"),
                 ("pkexec", "cat", scratch() / "secret"), ("mount", "-t", "tmpfs", "none", "/tmp"), ("sg", "root", f"cat {scratch()}/secret")):
        done = brig("run", "--read", scratch(), "--", *argv)
        assert b"ROOT-CANARY" not in done.stdout, argv
    for argv in (("su",), ("sudo",), ("mount",)):
        line = f"{argv[0]} & sleep 0.05; grep -h ^Uid /proc/[0-9]*/status"
        done = brig("run", "--", "sh", "-c", line)
        assert not any("0" in s.split()[1:] for s in done.text.splitlines() if s.startswith("Uid")), done.text


@test(by_root=True)
def a063_a_root_only_file_in_a_shown_tree_stays_closed():
    as_root("sh", "-c", f"echo ROOT-CANARY > {scratch()}/secret; chmod 600 {scratch()}/secret; chown 0:0 {scratch()}/secret")
    control = on_host("bwrap", "--ro-bind", "/", "/", "cat", scratch() / "secret", user=0)
    assert control.stdout == b"ROOT-CANARY\n", "the control proves nothing: stock bubblewrap cannot read it"
    for options in (("--read", scratch()), ("--mount", f"{scratch()}:/data")):
        done = brig("run", *options, "--", "cat", scratch() / "secret", "/data/secret")
        assert b"CANARY" not in done.stdout and done.status != 0
    done = brig("run", "--read", "/etc/shadow", "--read", "/etc/gshadow", "--", "cat", "/etc/shadow", "/etc/gshadow")
    assert done.status in (1, 125) and b"root:" not in done.stdout, done.stdout
    inside("identity", "read", "/etc/shadow").must_fail("secret")


@test(by_root=True)
def a063_a_root_only_file_cannot_be_written_through_a_writable_mount_of_somebody_elses_tree():
    """scratch belongs to the ordinary user; in it lies a file of root's."""
    as_root("chown", "4242:4242", scratch(), workspace())
    as_root("sh", "-c", f"echo ROOT-CANARY > {scratch()}/secret; chmod 600 {scratch()}/secret; chown 0:0 {scratch()}/secret")
    done = brig("run", "--mount", f"{scratch()}:/data:rw", "--", "sh", "-c", "cat /data/secret; echo x >> /data/secret; echo made > /data/new")
    assert b"CANARY" not in done.stdout
    assert (scratch() / "new").stat().st_uid == 4242
    assert subprocess.run(["cat", scratch() / "secret"], capture_output=True, check=True).stdout == b"ROOT-CANARY\n"


@test
def a064_no_set_id_file_can_be_made_in_a_workspace():
    control = outside("identity", "set-id-files", cwd=scratch(), user=0 if identity() == "root" else None)
    control.must_work("open", "fchmod", "tmpfile", "mknod", "openat2")
    assert len(set_id(scratch())) > 10, "the control proves nothing"
    attempt = inside("identity", "set-id-files")
    found = set_id(workspace())
    assert not found, found
    harmless = {"setcap"} - set(attempt.worked)
    assert not attempt.worked and harmless, attempt.worked
    owner = os.stat(workspace()).st_uid
    assert {p.lstat().st_uid for p in workspace().rglob("*")} == {owner}


@test
def a064_no_set_id_file_comes_out_of_ordinary_tools():
    if IS_ROOT:
        as_root("cp", "/usr/bin/id", workspace() / "theirs")
        as_root("chown", f"{os.stat(workspace()).st_uid}", workspace() / "theirs")
        as_root("chmod", "4755", workspace() / "theirs")
    (scratch() / "given").mkdir()
    on_host("sh", "-c", "cp /usr/bin/id x && chmod 4755 x && tar cf x.tar x", cwd=scratch() / "given")
    script = "cp -p theirs copy; cp -a theirs copy2; install -m 4755 /usr/bin/id inst; tar xpf /given/x.tar; cp -a /given/x given; mv theirs moved; ln moved hard; " \
             "python3 -c \"import os; os.open('py', os.O_CREAT|os.O_WRONLY, 0o6755)\"; mkdir -m 2755 d; mkdir -m 6755 e; chmod g+s d; true"
    brig("run", "--mount", f"{scratch()}/given:/given", "--", "sh", "-c", script)
    new = [f for f in set_id(workspace()) if f[0] not in ("moved", "hard", "theirs")]
    assert not new, new


@test
def a064_a_shared_folder_with_the_group_bit_makes_no_set_id_program():
    """New files in a setgid folder take its group; none of them is set-id itself."""
    (workspace() / "shared").mkdir()
    on_host("chmod", "2775", workspace() / "shared")
    brig("run", "--", "sh", "-c", "cp /usr/bin/id shared/x; chmod 755 shared/x; mkdir shared/sub; cp /usr/bin/id shared/sub/y")
    assert not [f for f in set_id(workspace()) if f[0] in ("x", "y")]


@test(by_root=True)
def a065_supplementary_groups_open_nothing():
    """docker, disk, kvm, adm and their like. Root's run drops them; a user's cannot, but nothing they open is shown."""
    argv = [a for a in brig_argv("run", "--", "sh", "-c", "touch ready; while [ ! -e go ]; do sleep 0.02; done") if a != "--clear-groups"]
    groups = "--groups=4,6,44,998,999"
    argv = [*argv[:1], groups, *argv[1:]] if argv[0] == "setpriv" else ["setpriv", groups, "--", *argv]
    p = subprocess.Popen(argv, env=brig_environment(), cwd=workspace(), stdin=subprocess.DEVNULL)
    with holding(p, workspace()) as h:
        for pid in h.pids():
            assert uid() != 0 or status_of(pid)["Groups"].split() == [], status_of(pid)["Groups"]
    done = brig("run", "--", "sh", "-c", "ls -d /var/run/docker.sock /run/docker.sock /dev/kvm /dev/vda /dev/sda /var/log /dev/dri /var/lib/docker 2>/dev/null; find / -xdev -group 6 2>/dev/null")
    assert done.text.split() == [], done.text


@test
def a066_two_sandboxes_at_once_share_no_ids_and_no_processes():
    with held("run", "--", "sh", "-c", "echo private > /tmp/mine; touch ready; sleep 20") as h:
        first = h.guests()[0]
        done = brig("run", "--workdir", scratch(), *mount("procfs"), "--", "sh", "-c",
                    f"touch /workspace/here; cat /tmp/mine; ls /proc; kill -9 {first}; kill -0 {first} && echo ALIVE; cat /proc/self/status")
        assert "private" not in done.text and "ALIVE" not in done.text
        assert str(first) not in done.text.split()
        assert os.path.exists(f"/proc/{first}"), "it was killed"
        if uid() == 0 and os.stat(workspace()).st_uid == 0:
            with held("run", "--workdir", scratch(), "--", "sh", "-c", "touch ready; sleep 20", folder=scratch()) as other:
                mine, theirs = (int(status_of(p)["Uid"].split()[0]) for p in (first, other.guests()[0]))
                assert mine != theirs and min(mine, theirs) >= FIRST_ID - 1000
                other.process.terminate()
        h.process.terminate()


@test
def a067_there_is_no_root_inside_not_even_a_fake_one():
    for user in ("0", "0:0", "1000:0", "-1", "4294967295", "root"):
        assert brig("run", "--user", user, "--", "id").status == 125, user


if __name__ == "__main__":
    sys.exit(main())
