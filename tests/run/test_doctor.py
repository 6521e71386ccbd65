#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""brig doctor: what it says, that it is true here, and that it leaves the machine as it was."""

import json
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import (TOP, brig, brig_argv, brig_environment, brig_path, compile_c, home, identity, main, scratch,  # noqa: E402
                     test, tree, uid, workspace)

LINE = re.compile(r"\[(pass|warn|fail|skip)\] ([a-z_]+): (\S.*)")
NAMES = {"sandbox", "user_namespaces", "procfs", "seccomp", "identity", "installation", "kernel", "landlock",
         "cgroups", "mount_api", "idmap", "state_folder", "configured_runtime", "env_allowlist", "network_policy",
         "extra_args", "mount_policy", "temp_write_access", "bwrap", "docker_cli", "docker_daemon", "docker_image",
         "runtimes", "ssh", "slurm", "tun", "egress_worker", "upstream_proxy"}


def read(text):
    """The lines as ([(name, status, detail, hint)], verdict); any other form fails."""
    *lines, verdict = text.splitlines()
    rows = []
    for line in lines:
        if line.startswith("hint: "):
            assert rows and rows[-1][3] is None and rows[-1][1] in ("warn", "fail"), line
            rows[-1] = (*rows[-1][:3], line[len("hint: "):])
            continue
        m = LINE.fullmatch(line)
        assert m, line
        rows.append((m[2], m[1], m[3], None))
    return rows, verdict


def named(rows, name):
    return next(r for r in rows if r[0] == name)


def helper(source):
    return compile_c(TOP / "tests/lib" / source)


def doctor_behind(prefix, *args):
    """doctor behind a command that takes something away from it."""
    argv = brig_argv("doctor", *args)
    at = argv.index(str(brig_path()))
    argv[at:at] = map(str, prefix)
    env = {**brig_environment(), "DOCKER_HOST": f"unix://{scratch()}/no-engine"}  # auto would take this machine's
    done = subprocess.run(argv, capture_output=True, text=True, env=env, cwd=workspace(), timeout=60,
                          stdin=subprocess.DEVNULL, check=False)
    print(done.stdout, done.stderr)
    return done


@test(alone=True)
def this_machine_is_ready_and_every_line_has_its_form():
    done = brig("doctor")
    rows, verdict = read(done.text)
    assert (done.status, verdict, done.stderr) == (0, "ready: sandboxes can be made here", b"")
    assert {r[0] for r in rows} == NAMES and len(rows) == len(NAMES)
    assert rows[0][:2] == ("sandbox", "pass")
    assert all(r[3] for r in rows if r[1] in ("warn", "fail"))


@test(alone=True)
def json_agrees_with_the_text():
    rows, _ = read(brig("doctor").text)
    done = brig("doctor", "--json")
    assert done.status == 0 and done.stderr == b""
    assert set(done.json) == {"schema", "ready", "checks"}
    assert done.json["schema"] == 1 and done.json["ready"] is True
    assert all(set(c) == {"name", "status", "detail", "hint"} for c in done.json["checks"])
    # Which ids are free may change between the two.
    hide = lambda s: re.sub(r"on the host \d+", "", s)  # noqa: E731
    assert [(c["name"], c["status"], hide(c["detail"]), c["hint"]) for c in done.json["checks"]] == [
        (n, s, hide(d), h) for n, s, d, h in rows]


@test(alone=True)
def what_it_says_about_layers_is_what_a_run_gets():
    rows, _ = read(brig("doctor").text)
    got = brig("run", "--json", "--pids", "50", "--", "true").json["isolation"]
    landlock = named(rows, "landlock")
    assert (f"ABI {got['landlock_abi']}" in landlock[2]) == (got["landlock_abi"] > 0)
    assert f"inside you are uid {got['uid_inside']}" in named(rows, "identity")[2]
    assert f"memory by {got['limits']['memory']}, pids by {got['limits']['pids']}" in named(rows, "cgroups")[2]
    if got["cgroup"] != "none":
        assert named(rows, "cgroups")[2].startswith(got["cgroup"])


@test(alone=True)
def it_changes_nothing():
    for folder in (workspace(), home(), scratch()):
        (folder / "file").write_text("text\n")
    folders = [workspace(), home(), scratch(), *(brig_environment()[n] for n in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR"))]
    before = [tree(f) for f in folders]
    for args in ((), ("--json",), ("--help",)):
        assert brig("doctor", *args).status == 0
    for folder, was in zip(folders, before):
        assert tree(folder) == was, (folder, set(tree(folder)) ^ set(was))
    (home() / "file").unlink()


@test(alone=True)
def blocked_user_namespaces_fail_with_a_hint():
    done = doctor_behind([helper("deny-userns.c")])
    rows, verdict = read(done.stdout)
    assert done.returncode == 1 and verdict == "not ready: 2 checks failed"
    for name in ("sandbox", "user_namespaces"):
        _, status, detail, hint = named(rows, name)
        assert status == "fail" and "not permitted" in detail and hint, name
    assert named(rows, "procfs")[1] == "skip"
    done = doctor_behind([helper("deny-userns.c")], "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["ready"] is False


@test(as_user="user", alone=True)
def a_limit_of_no_user_namespaces_is_named():
    user = ["unshare", "--user", f"--map-user={uid()}", f"--map-group={uid()}", "--keep-caps"]
    done = doctor_behind([*user, "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "sh"])
    _, status, detail, hint = named(read(done.stdout)[0], "user_namespaces")
    assert done.returncode == 1 and status == "fail" and "user.max_user_namespaces = 0" in detail
    assert "sysctl -w user.max_user_namespaces=" in hint and "--backend docker" in hint


@test(as_user="user", alone=True)
def a_chroot_is_named_also_where_its_root_is_a_mount():
    within = ["unshare", "--user", f"--map-user={uid()}", f"--map-group={uid()}", "--keep-caps", "--mount", "sh", "-c"]
    plain = 'setpriv --ambient-caps -all --inh-caps -all "$@"'
    top = scratch() / "top"
    top.mkdir()
    behind_filter = bool(os.environ.get("BRIG_WRAP"))  # which could as well be the reason
    for before, named_so in (("exec ", False), (f"mount --rbind / {top} && exec chroot {top} ", True)):
        rows, _ = read(doctor_behind([*within, before + plain, "sh"]).stdout)
        _, status, detail, hint = named(rows, "user_namespaces")
        assert (status == "fail") == named_so and ("this is a chroot" in detail) == (named_so and not behind_filter), (before, detail)
        assert ("pivot_root" in (hint or "")) == (named_so and not behind_filter), (before, hint)
    filtered = doctor_behind([helper("deny-userns.c")])  # the control: a filter is none
    assert "chroot" not in filtered.stdout


@test(as_user="user", alone=True)
def a_covered_proc_as_in_a_container_is_named():
    cover = f'mount --bind /dev/null /proc/kallsyms && exec unshare -Um --map-user={uid()} --map-group={uid()} "$@"'
    done = doctor_behind(["unshare", "-Urm", "sh", "-c", cover, "sh"])
    rows, verdict = read(done.stdout)
    assert done.returncode == 1 and verdict == "not ready: 2 checks failed"
    for name in ("sandbox", "procfs"):
        _, status, detail, hint = named(rows, name)
        assert status == "fail" and "proc" in detail and "systempaths=unconfined" in hint
    assert named(rows, "user_namespaces")[1] == "pass"


@test(alone=True)
def newer_system_calls_are_missed_but_not_needed():
    rows, verdict = read((done := doctor_behind([helper("deny-new-syscalls.c")])).stdout)
    assert done.returncode == 0 and verdict.startswith("ready")
    assert named(rows, "sandbox")[1] == "pass"
    assert named(rows, "landlock")[1] == named(rows, "mount_api")[1] == "warn"
    assert named(rows, "idmap")[1] == ("warn" if identity() == "root" else "skip")


@test(alone=True)
def fix_installs_only_what_may_be_installed():
    enabled = pathlib.Path("/sys/module/apparmor/parameters/enabled")
    aware = pathlib.Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    profile = pathlib.Path("/etc/apparmor.d/brig")
    before = profile.read_bytes() if profile.exists() else None
    done = brig("doctor", "--fix")
    assert (profile.read_bytes() if profile.exists() else None) == before
    if enabled.exists() and enabled.read_text()[0] == "Y" and aware.exists():
        # The program under test lies where everybody may write.
        assert done.status == 1 and "nothing was installed" in done.errors and "hint: " in done.errors
        assert ("make install" if identity() == "root" else "sudo") in done.errors
        return
    first, rest = done.text.split("\n", 1)
    assert done.status == 0 and first.startswith("fix: nothing to fix: ") and "AppArmor" in first
    read(rest)
    done = brig("doctor", "--fix", "--json")
    assert done.json["ready"] and done.errors.startswith("fix: nothing to fix: ")


def installation_of_a_copy(mode):
    """(exit status, row) of doctor as a copy with that mode; at home, which always belongs to the one who starts it."""
    copy = home() / "brig"
    copy.write_bytes(brig_path().read_bytes())
    copy.chmod(mode)
    argv = [str(copy) if a == str(brig_path()) else a for a in brig_argv("doctor")]
    done = subprocess.run(argv, capture_output=True, text=True, env=brig_environment(), cwd=workspace(), check=False)
    copy.unlink()
    return done.returncode, named(read(done.stdout)[0], "installation")


@test(alone=True)
def a_brig_that_others_can_replace_is_a_warning():
    assert installation_of_a_copy(0o755)[1][1] == "pass"
    status, row = installation_of_a_copy(0o757)
    assert status == 0 and row[1] == "warn" and str(home() / "brig") in row[2] and "chmod" in row[3], row


@test(as_user="root", alone=True)
def a_setuid_brig_is_not_ready():
    status, row = installation_of_a_copy(0o4755)
    assert status == 1 and row[1] == "fail" and "setuid" in row[2] and "chmod u-s" in row[3], row


@test(alone=True)
def an_unusable_state_folder_is_a_warning():
    (scratch() / "brig").write_text("in the way\n")
    done = brig("doctor", env={"XDG_STATE_HOME": str(scratch())})
    assert done.status == 0
    _, status, detail, hint = named(read(done.text)[0], "state_folder")
    assert status == "warn" and str(scratch()) in detail and "XDG_STATE_HOME" in hint
    if uid() == 0:
        return
    assert named(read(brig("doctor", env={"XDG_STATE_HOME": "/proc/none"}).text)[0], "state_folder")[1] == "warn"


@test
def unknown_words_are_refused():
    for word, said in (("--jsno", "'--json'"), ("--fixx", "'--fix'"), ("--nonsense-at-all", "--help"), ("all", "--help")):
        done = brig("doctor", word)
        assert done.status == 125 and done.stdout == b"", word
        assert done.errors.startswith("brig: ") and word in done.errors, word
        assert "\nhint: " in done.errors and said in done.errors, word


@test
def help_names_every_check():
    done = brig("doctor", "--help=all")
    assert done.status == 0 and all(f"  {n} " in done.text for n in NAMES)


@test(alone=True)
def a_full_output_is_noticed():
    with open("/dev/full", "wb") as full:
        done = subprocess.run(brig_argv("doctor"), stdout=full, stderr=subprocess.PIPE, env=brig_environment(),
                              cwd=workspace(), check=False)
    assert done.returncode == 125


if __name__ == "__main__":
    sys.exit(main())
