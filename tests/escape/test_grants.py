#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What is shown, and what never is: brig's own state, the home folder, the host's sockets and the kernel's file systems, by
whatever name; and grants inside of one another.

The oracle is the host: what is there after a run, and what a run was refused for. Every name that is refused is shown by
another run, or by the host, to lead where it should."""

import contextlib
import hashlib
import itertools
import os
import pathlib
import re
import resource
import socket
import stat
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import as_identity, held, holding, inside, outside  # noqa: E402
from harness import brig, descendants, files_as_root, identity, main, scratch, start_brig, state, test, tree, uid, wait_until, workspace  # noqa: E402

NOWHERE = "/dev/null/state"  # no folder, not even for root
BOTH = ("native", "bwrap")


def refused(done, *words):
    assert done.status == 125, (done.status, done.stdout, done.stderr)
    for word in words:
        assert word in done.errors, (word, done.errors)
    return done


def folder(*names, mode=0o755):
    """A folder below scratch, of this test's identity."""
    path = scratch().joinpath(*names)
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)
    return path


def mount(*args):
    with files_as_root():
        subprocess.run(["mount", *map(os.fspath, args)], check=True)


@contextlib.contextmanager
def mounted(target, *args):
    mount(*args, target)
    try:
        yield target
    finally:
        with files_as_root():
            subprocess.run(["umount", "-l", os.fspath(target)], check=True)


@contextlib.contextmanager
def password_home(path):
    """While it lasts this identity's line of /etc/passwd names that folder."""
    lines = [line for line in pathlib.Path("/etc/passwd").read_text().splitlines() if line.split(":")[2] != str(uid())]
    fake = scratch() / "passwd"
    fake.write_text("\n".join([*lines, f"somebody:x:{uid()}:{uid()}::{path}:/bin/sh", ""]))
    fake.chmod(0o644)
    with mounted("/etc/passwd", "--bind", fake):
        yield


# ---- the same folder by another mount ----


@test(by_root=True)
def a_mount_of_the_hosts_is_no_second_way_to_write():
    """Above the workspace, with the workspace in it, a part of it, in the workspace itself; and to what is only to be read."""
    w, above, below, data = folder("top", "w"), folder("above"), folder("below"), folder("data")

    def run(*args):
        return brig("run", "--workdir", w, *args)

    subprocess.run(as_identity(["git", "init", "-q", str(w)]), check=True)
    for name in ("below/alias", "data/b", "again", "part"):
        folder(*name.split("/"))
    (w / "inner").mkdir()
    with mounted(above, "--bind", w.parent), mounted(below / "alias", "--bind", w), mounted(scratch() / "again", "--bind", data / "b"):
        assert (above / w.name / ".git").is_dir() and (below / "alias/.git").is_dir(), "the control: both lead there"
        (data / "b/f").write_text("mine")
        assert (scratch() / "again/f").read_text() == "mine", "the control"
        for backend, grant in itertools.product(BOTH, (("--write", above), ("--write", below), ("--mount", f"{above}:/data:rw"), ("--mount", f"{below}:/data:rw"))):
            refused(run("--backend", backend, *grant, "--", "true"), "second way")
        refused(run("--write", data, "--read", scratch() / "again", "--", "true"), "could be written at")
        done = run("--write", data, "--", "sh", "-c", f"echo ok > {data}/b/f")
        assert done.status == 0 and (data / "b/f").read_text() == "ok\n", done.errors
    with mounted(scratch() / "part", "--bind", w / ".git/hooks"):
        refused(run("--write", scratch() / "part", "--", "true"), "second way")
    for source in (w.parent, w, w / ".git", w / ".git/hooks"):
        with mounted(w / "inner", "--bind", source):
            refused(run("--", "sh", "-c", "true"), "second way")
    with mounted(w / "inner", "--bind", data):
        assert run("--", "touch", "inner/fine").status == 0
    assert (data / "fine").exists() or (w / "inner/fine").exists()  # an idmapped tree is shown without the mounts in it


# ---- brig's own state ----


def displaced():
    """Variables that leave only the second place, and that place."""
    run = folder("run", mode=0o700)
    return {"XDG_STATE_HOME": NOWHERE, "HOME": "/nonexistent", "XDG_RUNTIME_DIR": str(run)}, run


def record(env):
    """A first run, which makes the record; returns what must not change."""
    done = brig("run", "--", "true", env=env)
    assert done.status == 0 and "XDG_STATE_HOME" in done.errors, done.errors
    run = pathlib.Path(env["XDG_RUNTIME_DIR"])
    assert (run / "brig/audit/key").read_bytes(), "the control proves nothing: there is no key"
    assert stat.S_IMODE((run / "brig").stat().st_mode) == 0o700
    return (run / "brig/audit/key").read_bytes()


@test(backends=BOTH)
def state_in_its_second_place_is_guarded_as_in_the_first():
    """The key of the record, the record and the list of trusted files lay in a folder that the command could be given."""
    env, run = displaced()
    key = record(env)
    read = "cat {0}/audit/key || exit 7"
    for options, place in ((("--workdir", run), "/workspace/brig"), (("--mount", f"{run}:/data:rw"), "/data/brig"), (("--write", run), f"{run}/brig"),
                           (("--mount", f"{run}/brig:/data:rw"), "/data"), (("--write", run / "brig/audit"), run / "brig"), (("--write", scratch()), run / "brig")):
        refused(brig("run", *options, "--", "sh", "-c", read.format(place), env=env), "brig's own")
    for options in (("--read", run / "brig/audit"), ("--mount", f"{run}/brig/audit:/data"), ("--read", run / "brig/audit/key")):
        done = brig("run", *options, "--", "sh", "-c", f"cat {run}/brig/audit/key /data/key", env=env)
        assert key not in done.stdout, options
    for options, place in ((("--read", run), run / "brig"), (("--mount", f"{run}:/data"), "/data/brig"), (("--read", scratch()), run / "brig")):
        done = brig("run", *options, "--", "sh", "-c", f"ls -d {place} && {read.format(place)}", env=env)
        assert key not in done.stdout, options
        if identity() == "user":  # root's folder is closed to the user inside
            assert done.status == 7 and str(place).encode() in done.stdout, (options, done.stdout, done.errors)


@test
def a_run_cannot_forge_the_list_of_trusted_files():
    env, run = displaced()
    record(env)
    text = "brig: 1\nnetwork: host\n"
    line = f"{hashlib.sha256(text.encode()).hexdigest()}  {run}/.brig.yaml\n"
    (run / ".brig.yaml").write_text(text)
    refused(brig("plan", "--workdir", run, "--policy", "readonly", "--", "true", env=env), "trusted")
    (run / "brig/trusted").write_text(line)  # the control: such a line is obeyed
    assert "trusted" not in brig("plan", "--workdir", run, "--policy", "readonly", "--", "true", env=env).errors
    (run / "brig/trusted").unlink()
    for options in (("--write", run), ("--mount", f"{run}:/data:rw"), ("--mount", f"{run}/brig:/data:rw")):
        brig("run", *options, "--", "sh", "-c", f"for d in {run}/brig /data/brig /data; do printf '{line}' > $d/trusted; done", env=env)
        assert not (run / "brig/trusted").exists(), options


@test
def a_state_folder_that_is_not_there_yet_cannot_be_made_by_a_run():
    for where in (workspace(), workspace() / "a"):
        env = {"XDG_STATE_HOME": str(where / "later"), "XDG_RUNTIME_DIR": None}
        done = brig("run", "--no-audit", "--", "sh", "-c", "mkdir -p later/brig a/later/brig && echo x > later/brig/trusted", env=env)
        refused(done, "brig's own state")
        assert not (where / "later/brig/trusted").exists()
        for name in ("later/brig/workspaces", "later/brig", "later", ""):
            with contextlib.suppress(OSError):
                (where / name).rmdir() if where / name != workspace() else None


@test
def state_behind_a_link_is_guarded():
    real = folder("real", mode=0o700)
    (scratch() / "alias").symlink_to(real)
    env = {"XDG_STATE_HOME": str(scratch() / "alias"), "HOME": "/nonexistent", "XDG_RUNTIME_DIR": None}
    assert brig("run", "--", "true", env=env).status == 0
    assert (real / "brig/audit/key").exists(), "the control proves nothing"
    refused(brig("run", "--write", real, "--", "true", env=env), "brig's own state")
    refused(brig("run", "--workdir", real / "brig", "--", "true", env=env), "brig's own")
    done = brig("run", "--read", real, "--", "cat", real / "brig/audit/key", env=env)
    assert done.status == 1 and not done.stdout, done.stdout


@test(by_root=True, backends=BOTH)
def state_behind_a_bind_is_guarded():
    """The same folder, or the one above it, or a part of it, mounted elsewhere; and below a folder that is shown."""
    env, run = displaced()
    key = record(env)
    other, project = folder("other"), folder("project")
    (project / "x").mkdir()
    for source in (run, run / "brig", run / "brig/audit", scratch()):
        with mounted(other, "--bind", source):
            assert [p for p in other.rglob("key") if p.read_bytes() == key], "the control proves nothing"
            refused(brig("run", "--write", other, "--", "true", env=env), "brig's own")
            done = brig("run", "--read", other, "--", "sh", "-c", f"find {other} -name key -exec cat {{}} +", env=env)
            assert key not in done.stdout, source
        with mounted(project / "x", "--bind", source):
            refused(brig("run", "--workdir", project, "--", "true", env=env), "brig's own")
            done = brig("run", "--workdir", project, "--policy", "readonly", "--", "sh", "-c", "find . -name key -exec cat {} +", env=env)
            assert key not in done.stdout, source


@test(by_root=True)
def the_places_of_another_environment_are_guarded():
    """The next brig may come with another HOME: from a service, or from a login."""
    theirs = folder("theirs")
    (theirs / ".local/state").mkdir(parents=True)
    with password_home(theirs):
        refused(brig("run", "--write", theirs / ".local/state", "--", "true"), "brig's own state")
        refused(brig("run", "--workdir", theirs / ".local", "--", "true"), "brig's own state")
    assert brig("run", "--write", theirs / ".local/state", "--", "true").status == 0


@test
def settings_that_the_next_run_obeys_cannot_be_written():
    """The user's own file may loosen everything; it need not be there yet."""
    theirs = folder("theirs")
    loose = "policy: full_access\nallow_full_access: true\n"
    for env, place in (({"XDG_CONFIG_HOME": str(theirs / "conf")}, theirs / "conf"), ({"HOME": str(theirs / "home"), "XDG_CONFIG_HOME": None}, theirs / "home/.config")):
        (place / "brig").mkdir(parents=True)
        (place / "brig/config.yaml").write_text(loose)  # the control: it is obeyed
        assert brig("config", "show", "--json", env=env).json["policy"] == "full_access"
        (place / "brig/config.yaml").unlink()
        (scratch() / "link").symlink_to(place)
        for there in (True, False):
            for options in (("--write", place), ("--workdir", place), ("--mount", f"{place}:/data:rw"), *(() if not there else (("--write", place / "brig"), ("--workdir", place / "brig")))):
                script = f"for d in {place} /workspace /data; do mkdir -p $d/brig; for f in $d/brig $d; do printf '{loose}' > $f/config.yaml; done; done"
                refused(brig("run", *options, "--", "sh", "-c", script, env=env), "settings")
                assert not list(place.rglob("config.yaml")), options
            if there:
                (place / "brig").rmdir()
        (scratch() / "link").unlink()
        assert brig("run", "--read", place, "--", "ls", place, env=env).status == 0


@test
def a_metrics_file_by_another_name_is_guarded():
    (scratch() / "alias").symlink_to(workspace())
    for name in (workspace() / "m.prom", scratch() / "alias/m.prom", scratch() / "alias/later/m.prom"):
        done = brig("run", "--set", f"metrics.textfile={name}", "--", "sh", "-c", "ln -s x m.prom")
        assert done.status == 125 and "metrics.textfile" in done.errors, (name, done.errors)
    assert brig("run", "--set", f"metrics.textfile={scratch()}/m.prom", "--", "true").status == 0


@test
def without_a_place_for_state_there_is_no_run():
    """And nothing is put into /tmp, whoever has prepared a folder there."""
    for runtime in (None, "/nonexistent", str(folder("shared", mode=0o755)), "relative", "/tmp"):
        before = tree("/tmp")
        done = refused(brig("run", "--", "true", env={"XDG_STATE_HOME": NOWHERE, "HOME": "/nonexistent", "XDG_RUNTIME_DIR": runtime}), "state", "XDG_STATE_HOME")
        assert "note" not in done.errors
        assert {n for n in tree("/tmp") if "brig" in n} == {n for n in before if "brig" in n}, runtime
    assert tree(scratch()) == {"shared": tree(scratch())["shared"]}


LOCKER = """
import fcntl, os, pathlib, sys, time
kept = []
for top, folders, names in os.walk(sys.argv[1]):
    for name in (*folders, *names):
        try:
            kept.append(os.open(os.path.join(top, name), os.O_RDONLY | os.O_NONBLOCK))
            fcntl.flock(kept[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.lockf(kept[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            pass
pathlib.Path("count").write_text(str(len(kept)))
os.rename("count", "ready")
while not os.path.exists("go"):
    time.sleep(0.01)
"""


def waits(p):
    """Is this process kept waiting for a lock, by the kernel's list?"""
    family = {str(pid) for pid in (p.pid, *descendants(p.pid))}
    return any("->" in line and family & set(line.split()) for line in pathlib.Path("/proc/locks").read_text().splitlines())


@test(backends=BOTH)
def a_grant_below_a_protected_folder_leaves_the_folder_protected():
    """The folders above a narrower grant are pinned first, writable; what is protected is found later."""
    ws = workspace()
    subprocess.run(as_identity(["git", "init", "-q", str(ws)]), check=True)
    for top, name, more in ((".vscode/sub", ".vscode/tasks.json", ()), (".claude/skills", ".claude/settings.json", ()), (".git/hooks/d", ".git/hooks/pre-commit", ()),
                            (".git/refs/x", ".git/config", ("--git", "read")), (".codex/a/b", ".codex/config.toml", ()), (".cursor/x", ".cursor/mcp.json", ())):
        (ws / top).mkdir(parents=True)
        before = (ws / name).read_text() if (ws / name).exists() else ""
        (ws / name).write_text(before)  # the control: it can be written here
        for grant in ((), ("--read", ws / top)):
            done = brig("exec", *more, *grant, f"echo evil >> {name}; echo evil > {os.path.dirname(name)}/new; grep ' {ws}/{os.path.dirname(name)} ' /proc/self/mountinfo")
            assert "evil" not in (ws / name).read_text() and not (ws / name).with_name("new").exists(), (name, grant, done)
    assert brig("exec", "--read", ws / ".vscode/sub", "echo mine > file").status == 0 and (ws / "file").read_text() == "mine\n"


@test(as_user="user", backends=BOTH)
def brigs_own_files_are_not_to_be_locked_by_who_is_shown_the_folder_around_them():
    """A lock needs no more than a file that can be opened; other runs waited for as long as the command liked."""
    for cwd in (workspace(), folder("elsewhere")):  # the files of the one that is to wait, too
        assert brig("run", "--", "true", cwd=cwd).status == 0 and list(state().rglob("journal.*")), "the control proves nothing"
    p = subprocess.Popen(as_identity(["/usr/bin/python3", "-c", LOCKER, state()]), cwd=workspace(), stdin=subprocess.DEVNULL)
    with holding(p, workspace()) as host:  # the control: the same without a sandbox
        assert int((workspace() / "ready").read_text()) > 1
        other = start_brig("run", "--", "true", cwd=folder("elsewhere"))
        assert wait_until(lambda: waits(other), 15), "the control proves nothing"
        host.release()
        assert other.wait(30) == 0
        other.communicate()
    for options, base in ((("--read", state()), state()), (("--mount", f"{state()}:/data"), "/data"), (("--read", scratch()), scratch())):
        with held("run", *options, "--", "python3", "-c", LOCKER, base):
            assert brig("run", "--", "true", cwd=folder("elsewhere")).status == 0, options
            assert not [name for name in (workspace() / "ready").read_text().split() if base == state() and int(name) > 1]
    for part in ("brig", "brig/workspaces"):
        refused(brig("run", "--read", state() / part, "--", "true"), "brig's own state")
    refused(brig("run", "--mount", f"{next(state().rglob('journal.*'))}:/data", "--", "true"), "brig's own state")


# ---- the home folder ----


def secret_home(*names):
    at = folder(*names)
    (at / "id").write_text("PRIVATE KEY\n")
    return at


def seen(cwd, *options, env=None):
    """What a run that is started there sees, and whether it could leave something."""
    # The record is elsewhere: with the state in it another guard would have refused.
    done = brig("run", *options, "--", "sh", "-c", "find . -name id -exec cat {} +; echo x > left", cwd=cwd, env=env)
    left = list(pathlib.Path(cwd).rglob("left"))
    for p in left:
        p.unlink()
    return b"PRIVATE KEY" in done.stdout, bool(left), done


@test(backends=BOTH)
def the_home_folder_is_no_workspace_by_any_name():
    real = secret_home("above", "real", "u")
    (scratch() / "link").symlink_to(real)
    (scratch() / "above/linked").symlink_to("real")
    project = folder("above", "real", "u", "project")
    (project / "id").write_text("PRIVATE KEY\n")
    homes = (real, scratch() / "link", scratch() / "above/linked/u", scratch() / "above/linked/../real/u")
    for name in homes:
        env = {"HOME": str(name)}
        shown, left, done = seen(project, env=env)
        assert shown and left and done.status == 0, "the control proves nothing: a folder of the home is a workspace"
        for cwd in (real, real.parent, real.parent.parent):
            for options in ((), ("--policy", "readonly")):
                shown, left, done = seen(cwd, *options, env=env)
                assert not shown and not left and "private workspace" in done.errors, (name, cwd, options, done.errors)
        for cwd in (real, real.parent, real.parent.parent):
            refused(brig("run", "--workdir", cwd, "--", "true", env=env), "home folder")
            refused(brig("run", "--write", cwd, "--", "true", env=env), "home folder")
            refused(brig("run", "--mount", f"{cwd}:/data:rw", "--", "true", env=env), "home folder")
    (project / "id").unlink()


@test(by_root=True)
def the_home_folder_is_no_workspace_by_the_password_entry_or_a_bind():
    real, other = secret_home("real", "u"), folder("other")
    shown, _, _ = seen(real, env={"XDG_STATE_HOME": str(folder("apart"))})  # else what is in there is a guest's from now on
    assert shown, "the control proves nothing"
    with password_home(real):
        for cwd in (real, real.parent):
            shown, left, done = seen(cwd)
            assert not shown and not left and "private workspace" in done.errors, (cwd, done.errors)
            refused(brig("run", "--workdir", cwd, "--", "true"), "home folder")
    for source in (real, real.parent):
        with mounted(other, "--bind", source):
            shown, left, done = seen(other, env={"HOME": str(real)})
            assert not shown and not left and "private workspace" in done.errors, (source, done.errors)


# ---- grants inside of one another ----


def nested():
    """A tree of four folders, one in another."""
    at = folder("d", "b", "c", "e")
    return at.parents[2]


def written(top):
    """Which of its folders the command has written to; gone again."""
    found = {str(p.parent.relative_to(top)) for p in top.rglob("new")}
    for p in top.rglob("new"):
        p.unlink()
    return found


def grant(kind, path, inside_path):
    return {"read": ("--read", path), "write": ("--write", path), "ro": ("--mount", f"{path}:{inside_path}"), "rw": ("--mount", f"{path}:{inside_path}:rw")}[kind]


def allowed(grants):
    """By the rule: the innermost grant decides. {folder: may it be written}"""
    result = {}
    for name in (".", "b", "b/c", "b/c/e"):
        kind = [k for k, at in grants if at == "." or name == at or name.startswith(at + "/")][-1]
        result[name] = kind in ("write", "rw")
    return result


def try_all(top, base, options, expected, what):
    """Writes to every folder from inside; the host sees which ones it reached."""
    script = "; ".join(f"(echo x > {base}/{name}/new)" for name in expected)
    done = brig("run", "--json", *options, "--", "sh", "-c", script)
    assert done.json["outcome"] == "exited", (what, done.json)
    got = written(top)
    want = {name for name, writable in expected.items() if writable}
    assert got == want, (what, got, want)


@test(backends=BOTH, limit=120)
def the_innermost_grant_decides_in_every_nesting_and_order():
    top = nested()
    kinds = ("read", "write", "ro", "rw")
    for wide, narrow in itertools.product(kinds, kinds):
        grants = [(wide, "."), (narrow, "b")]
        # Both by the same path; with mounts also at a place of their own.
        for base in {str(top), "/data" if {wide, narrow} <= {"ro", "rw"} else str(top)}:
            words = [grant(kind, top if at == "." else top / at, base if at == "." else f"{base}/{at}") for kind, at in grants]
            for order in (words, words[::-1]):
                try_all(top, base, [w for pair in order for w in pair], allowed(grants), (grants, base, order is words))


@test(backends=BOTH)
def three_and_four_grants_deep():
    top = nested()
    for kinds in (("write", "read", "write"), ("read", "write", "read"), ("write", "read", "rw", "ro"), ("rw", "ro", "write", "read"), ("ro", "rw", "ro", "rw")):
        grants = list(zip(kinds, (".", "b", "b/c", "b/c/e")))
        words = [grant(kind, top if at == "." else top / at, top if at == "." else top / at) for kind, at in grants]
        for order in (words, words[::-1], words[1:] + words[:1]):
            try_all(top, top, [w for pair in order for w in pair], allowed(grants), kinds)


@test(backends=BOTH)
def a_folder_named_to_be_read_is_read_only_wherever_it_is_shown():
    """The workspace and mounts show it at another path; that is no way to write to it."""
    top = nested()
    for options, base in ((("--workdir", top), "/workspace"), (("--mount", f"{top}:/data:rw"), "/data"), (("--write", top, "--mount", f"{top}/b:/data/b:rw", "--mount", f"{top}:/data:rw"), "/data")):
        try_all(top, base, (*options, "--read", top / "b/c"), {".": True, "b": True, "b/c": False, "b/c/e": False}, base)
        try_all(top, base, ("--read", top / "b/c", *options), {".": True, "b": True, "b/c": False, "b/c/e": False}, base)
    try_all(top, "/workspace", ("--workdir", top, "--mount", f"{top}/b:{top}/b"), {".": True, "b": False, "b/c": False, "b/c/e": False}, "a mount")
    # The workspace itself stands at its own path already.
    for target, word in ((), "is the workspace"), (("--set", f"workspace.target={top}"), "is the workspace"):
        refused(brig("run", "--workdir", top, *target, "--read", top, "--", "true"), word)
    try_all(top, "/data", ("--workdir", top, "--set", "workspace.target=/data", "--read", top), {".": True, "b": True, "b/c": True, "b/c/e": True}, "the same folder")


def replace(base, path):
    """A script that puts another file in the place of base/path/kept by renaming or removing each folder above it."""
    parts = path.split("/")
    steps = []
    for i in range(len(parts)):
        at = f"{base}/{'/'.join(parts[:i + 1])}"
        steps.append(f"mv {at} {at}.away; mv -T {base}/spare {at}; rm -rf {at}; mkdir -p {base}/{path} && echo forged > {base}/{path}/kept")
    return "; ".join(steps)


def kept(top, path):
    """What the host finds there; the tree is as before afterwards."""
    at = top / path / "kept"
    text = at.read_text() if at.exists() else None
    with files_as_root():
        subprocess.run(["sh", "-c", f"rm -rf {top}/* && mkdir -p {top}/{path} {top}/spare && echo mine > {at} && chown -R --reference={top} {top}"], check=True)
    return text


@test(backends=BOTH)
def what_is_named_to_be_read_is_not_replaced_by_way_of_a_folder_above():
    """Its own cover held, but the folder above could be renamed, and the host found another one in its place."""
    top = folder("d")
    for path in ("b/c", "b/c/e", "b"):
        kept(top, path)
        for options, base in ((("--workdir", top), "/workspace"), (("--write", top), top), (("--mount", f"{top}:/data:rw"), "/data"), (("--write", top, "--write", top / "b"), top)):
            brig("run", *options, "--", "sh", "-c", replace(base, path))
            if len(options) < 4 or path != "b":
                assert kept(top, path) == "forged\n", ("the control proves nothing", options, path)
            narrow = (("--read", top / path),) if base == "/workspace" or path == "b" else (("--read", top / path), ("--mount", f"{top}/{path}:{base}/{path}"))
            for more in narrow:
                if len(options) == 4 and path == "b":
                    continue
                done = brig("run", *options, *more, "--", "sh", "-c", f"{replace(base, path)}; echo x > {base}/new && mkdir -p {base}/other/b")
                assert (top / "new").exists() and (top / "other/b").is_dir(), "the rest is the command's still"
                assert kept(top, path) == "mine\n", (options, more, path, done.errors)


@test(backends=BOTH)
def a_part_of_the_git_folder_that_is_named_to_be_read_is_held_with_the_rest():
    """Protected names pin the same folder once more; that must not uncover what was covered in it."""
    git = workspace() / ".git"
    for name in ("objects", "hooks", "refs/heads"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "config").write_text("[core]\n\trepositoryformatversion = 0\n")
    script = "echo x > .git/objects/x; echo x > .git/refs/heads/y; mv .git/refs .git/r; echo x > .git/hooks/z; mv .git g; true"
    assert brig("run", "--", "sh", "-c", script).status == 0
    assert (git / "objects/x").exists() and (git / "r/heads/y").exists(), "the control proves nothing"
    (git / "r").rename(git / "refs")
    (git / "objects/x").unlink()
    (git / "refs/heads/y").unlink()
    done = brig("run", "--read", git / "objects", "--read", git / "refs/heads", "--", "sh", "-c", script)
    assert done.status == 0, done.errors
    assert not [p for p in git.rglob("[xyz]")] and (git / "refs/heads").is_dir(), list(git.rglob("*"))


# ---- sockets ----


class Service:
    """A service of the host's that counts its visitors."""

    def __init__(self, bind):
        self.visits = 0
        self.socket = socket.socket(socket.AF_UNIX)
        bind(self.socket)
        self.socket.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.socket.accept()
                self.visits += 1
                peer.close()


@contextlib.contextmanager
def bound(name, real):
    """A service whose socket the kernel lists by that name; it lies at `real`."""
    service = Service(lambda s: s.bind(os.fspath(name)))
    os.chmod(real, 0o777)
    try:
        outside("ipc", "connect", real).must_work(str(real))
        assert wait_until(lambda: service.visits), "the control proves nothing"
        service.visits = 0
        yield service
    finally:
        service.socket.shutdown(socket.SHUT_RDWR)
        service.socket.close()
        os.unlink(real)


def cannot_connect(service, *paths, options=()):
    inside("ipc", "connect", *map(str, paths), options=options).must_fail(*map(str, paths))
    assert not service.visits, "the host's service was reached"


@test(backends=BOTH)
def a_socket_bound_by_way_of_a_link_is_covered():
    real = workspace() / "s"
    (scratch() / "alias").symlink_to(workspace())
    (scratch() / "twice").symlink_to(scratch() / "alias")
    (workspace() / "sub").mkdir()
    (scratch() / "sub").symlink_to(workspace() / "sub")
    for name in (scratch() / "alias/s", scratch() / "twice/s", scratch() / "alias/../" / workspace().name / "s", f"{workspace()}//./s"):
        with bound(name, real) as service:
            cannot_connect(service, "/workspace/s")
            cannot_connect(service, "/data/s", options=("--mount", f"{workspace()}:/data"))
    with bound(scratch() / "sub/s", workspace() / "sub/s") as service:
        cannot_connect(service, "/workspace/sub/s")
        cannot_connect(service, "/data/s", options=("--mount", f"{workspace()}/sub:/data"))


@test(backends=BOTH)
def every_one_of_a_crowd_of_sockets_is_covered():
    """More than a message has room for; and the file of some code comes with them."""
    (workspace() / "crowd").mkdir()
    others = []
    for i in range(400):
        others.append(socket.socket(socket.AF_UNIX))
        others[-1].bind(f"{workspace()}/crowd/{i}-" + "x" * 40)
        others[-1].listen()
    try:
        with bound(workspace() / "crowd/last", workspace() / "crowd/last") as service:
            cannot_connect(service, "/workspace/crowd/last")
            done = brig("python", "-c", "import os, stat; print(sum(stat.S_ISSOCK(os.stat(e.path).st_mode) for e in os.scandir('crowd')))")
            assert done.text == "0\n", (done.text, done.errors)
            assert sum(stat.S_ISSOCK(e.stat().st_mode) for e in os.scandir(workspace() / "crowd")) == 401, "the control proves nothing"
    finally:
        for s in others:
            s.close()


def server(real, cwd, name, fd=None):
    """A process of this identity's that binds that name, standing there; with `fd` a folder as its descriptor 9."""
    code = (f"import os, socket; os.chdir({str(cwd)!r}); fd = {fd and str(fd)!r}; fd and os.dup2(os.open(fd, os.O_PATH), 9)\n"
            f"s = socket.socket(socket.AF_UNIX); s.bind({name!r}.replace('PID', str(os.getpid()))); os.chmod({str(real)!r}, 0o777); s.listen()\n"
            "print('ready', flush=True)\nwhile True:\n    s.accept()[0].close(); print('visit', flush=True)")
    return subprocess.Popen(as_identity(["/usr/bin/python3", "-c", code]), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)


@test
def a_socket_bound_by_a_name_of_its_servers_own_is_covered():
    """Relative to where its server stands, and by way of a descriptor: the kernel lists the name as it was written."""
    sub = workspace() / "a/b"
    sub.mkdir(parents=True)
    deep, top = sub / "s", workspace() / "s"
    for real, cwd, name, fd in ((deep, sub, "s", None), (deep, workspace(), "a/b/s", None), (deep, workspace() / "a", "./b/../b/s", None), (top, sub, "../../s", None),
                                (deep, "/", "/proc/self/fd/9/s", sub), (deep, "/", "/proc/PID/fd/9/s", sub), (deep, "/", "/dev/fd/9/s", sub),
                                (deep, "/", "/proc/thread-self/fd/9/b/s", workspace() / "a"), (top, "/", "/proc/self/fd/9/s", workspace()), (deep, sub, "/proc/self/cwd/s", None)):
        p = server(real, cwd, name, fd)
        try:
            assert p.stdout.readline() == b"ready\n", name
            outside("ipc", "connect", real).must_work(str(real))
            assert p.stdout.readline() == b"visit\n", "the control proves nothing"
            place = f"/workspace/{real.relative_to(workspace())}"
            inside("ipc", "connect", place).must_fail(place)
        finally:
            p.kill()
            said = p.communicate()[0]
            os.unlink(real)
        assert not said, (name, said)


@test(by_root=True, backends=BOTH)
def a_socket_bound_by_way_of_a_bind_is_covered():
    """Mounted elsewhere, as a whole or in part; and below a folder that is shown."""
    other, sub = folder("other"), workspace() / "sub"
    sub.mkdir()
    with mounted(other, "--bind", workspace()), bound(other / "s", workspace() / "s") as service:
        cannot_connect(service, "/workspace/s")
    with mounted(other, "--bind", sub), bound(other / "s", sub / "s") as service:
        cannot_connect(service, "/workspace/sub/s")
    far = folder("far")
    with mounted(sub, "--bind", far), bound(far / "s", far / "s") as service:
        cannot_connect(service, "/workspace/sub/s")


@contextlib.contextmanager
def moved(first, *then):
    """A service whose socket was bound as `first` and has since been called otherwise: `then` are (how, name) in their order."""
    with bound(first, first) as service:
        at = first
        for how, name in then:
            name.parent.mkdir(parents=True, exist_ok=True)
            os.link(at, name)
            if how == "rename":
                os.unlink(at)
                at = name
        outside("ipc", "connect", at).must_work(str(at))
        assert wait_until(lambda: service.visits), "the control proves nothing"
        service.visits = 0
        try:
            yield service
        finally:
            if not first.exists():
                os.link(at, first)
            for name in {name for _, name in then} | {at}:
                if name != first:
                    name.unlink(missing_ok=True)


@test(backends=BOTH)
def a_socket_renamed_after_it_was_bound_is_covered():
    """As OpenSSH's masters are: bound under a passing name, then linked to the one they keep."""
    top, away = workspace(), folder("away")
    for first, *then in ((top / "m.XYZ", ("rename", top / "m")), (top / "a/m.XYZ", ("rename", top / "a/b"), ("rename", top / "a/m")),
                         (top / "a/m.XYZ", ("rename", top / "m")), (top / "m.XYZ", ("rename", top / "a/b/c/d/m")),
                         (away / "m", ("rename", top / "a/m")), (top / "m", ("link", top / "a/b/m")), (away / "m", ("link", top / "a/m"), ("link", top / "b/n"))):
        first.parent.mkdir(parents=True, exist_ok=True)
        names = [name for how, name in then] + [first]
        with moved(first, *then) as service:
            inside_names = [f"/workspace/{name.relative_to(top)}" for name in names if name.is_relative_to(top) and name.exists()]
            assert inside_names
            cannot_connect(service, *inside_names)
            cannot_connect(service, *(name.replace("/workspace", "/data") for name in inside_names), options=("--mount", f"{top}:/data"))
            cannot_connect(service, *(name.replace("/workspace", str(top)) for name in inside_names), options=("--read", scratch(), "--workdir", folder("else")))


@test(by_root=True)
def a_renamed_socket_below_a_mount_is_covered():
    sub = workspace() / "sub"
    sub.mkdir()
    with mounted(sub, "-t", "tmpfs", "-o", "mode=777", "tmpfs"):
        with moved(sub / "m.XYZ", ("rename", sub / "deep/m")) as service:
            place = "/workspace/sub/deep/m"
            inside("ipc", "connect", place, options=("--policy", "readonly")).must_fail(place)
            assert not service.visits


@test(as_user="root", backends=BOTH)
def a_socket_in_a_folder_that_the_user_inside_cannot_enter_refuses_nothing():
    """Root sees it, the sandbox's own process does not, and neither does the command; what was asked for behind it is refused by name."""
    closed = folder("d", "closed", mode=0o700)
    (closed / "b").mkdir()
    with bound(closed / "s", closed / "s") as service:
        os.chown(closed, 0, 0)
        assert brig("run", "--read", closed.parent, "--", "ls", closed.parent).text == "closed\n"
        assert brig("run", "--read", closed.parent, "--", "ls", closed).text == ""
        cannot_connect(service, closed / "s", options=("--read", closed.parent))
        done = brig("run", "--read", closed / "b", "--", "true")
        assert done.status == 125 and f"cannot reach '{closed}/b'" in done.errors and "others x" in done.errors, done.errors
        os.chown(closed, 4343, 4343)
        closed.chmod(0o711)
        cannot_connect(service, closed / "s", options=("--read", closed.parent))


@test(alone=True)
def a_socket_that_cannot_be_looked_for_everywhere_is_told():
    """A removed one cannot be told from one that lies elsewhere; what is too large to be searched is said."""
    top = folder("wide")
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(top / "gone"))
    with contextlib.closing(s):
        (top / "gone").unlink()
        assert "not where" not in brig("run", "--workdir", top, "--", "true").errors
        for i in range(1200):
            (top / str(i)).mkdir()
        done = brig("run", "--workdir", top, "--", "true")
        assert done.status == 0 and re.search(r"not where (it was bound|they were bound) \((one was )?'/", done.errors), done.errors
    # Many, as another user's sandboxes have them, are looked for and not there; more than are remembered may be anywhere.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as many:
        many.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 5000), hard))
        small = folder("small")

        def lost(n):
            for _ in range(n):
                s = many.enter_context(contextlib.closing(socket.socket(socket.AF_UNIX)))
                s.bind(str(small / "gone"))
                (small / "gone").unlink()
        lost(70)
        assert "not where" not in brig("run", "--workdir", small, "--", "true").errors
        lost(4100)
        done = brig("run", "--workdir", small, "--", "true")
        assert done.status == 0 and "too many to be looked for" in done.errors, done.errors


@test(backends=BOTH)
def a_pipe_in_what_is_only_read_cannot_be_written_by_way_of_what_is_written():
    """A read-only mount does not stop it, and Landlock does not below a path that may be changed."""
    top, other = folder("d"), folder("other")
    for at in (top / "b/c", other / "c"):
        at.mkdir(parents=True)
        os.mkfifo(at / "pipe")
        (at / "pipe").chmod(0o666)
    ends = {at: os.open(at / "c/pipe", os.O_RDONLY | os.O_NONBLOCK) for at in (top / "b", other)}
    cases = [(("--write", top), ("--read", top / "b"), top / "b/c/pipe", top / "b"), (("--workdir", top), ("--read", top / "b"), "/workspace/b/c/pipe", top / "b"),
             (("--mount", f"{top}:/data:rw"), ("--mount", f"{top}/b:/data/b"), "/data/b/c/pipe", top / "b"), (("--write", top), ("--read", top / "b/c"), top / "b/c/pipe", top / "b"),
             ((), ("--mount", f"{other}:/tmp/other"), "/tmp/other/c/pipe", other), ((), ("--mount", f"{other}:{workspace()}/sub"), "/workspace/sub/c/pipe", other)]
    (workspace() / "sub").mkdir()
    for wide, narrow, pipe, at in cases:
        done = brig("run", *wide, *narrow, "--", "sh", "-c", f"ls {pathlib.PurePath(pipe).parent}; exec 2>&1; echo forged 1<>{pipe}")
        with contextlib.suppress(BlockingIOError):
            assert os.read(ends[at], 100) == b"", (wide, narrow, "the host's reader was written to")
        assert "pipe" in done.text, (wide, narrow, done.text, done.errors)
        if wide:  # the control: with the wider grant alone it is the command's to write
            brig("run", *wide, "--", "sh", "-c", f"echo told 1<>{pipe}")
            assert os.read(ends[at], 100) == b"told\n", (wide, "the control proves nothing")
    for fd in ends.values():
        os.close(fd)


# ---- file systems of the host's kernel ----


@test(by_root=True, backends=BOTH)
def the_kernels_file_systems_below_a_shown_folder_are_left_out():
    """A chroot in the workspace has them mounted; hidepid and masks of the sandbox's own /proc say nothing about that one."""
    names = {"proc": "proc", "sys": "sysfs", "dev/mqueue": "mqueue"}
    for name in names:
        (workspace() / "chroot" / name).mkdir(parents=True)
    kept = workspace() / "chroot/kept"
    kept.mkdir()
    (workspace() / "chroot/version").touch()
    with contextlib.ExitStack() as stack:
        for name, kind in names.items():
            stack.enter_context(mounted(workspace() / "chroot" / name, "-t", kind, kind))
        if identity() != "root":  # whose trees are idmapped, with all that is mounted below or, if that is the kernel's alone, without
            stack.enter_context(mounted(kept, "-t", "tmpfs", "-o", f"uid={uid()},gid={uid()},mode=755", "tmpfs"))
        stack.enter_context(mounted(workspace() / "chroot/version", "--bind", "/proc/version"))
        (kept / "file").touch()
        assert (workspace() / "chroot/proc/1/comm").exists() and (workspace() / "chroot/sys/kernel").exists(), "the control proves nothing"
        script = "cd {}/chroot && cat version && ls -A proc sys dev/mqueue kept && cat proc/1/comm proc/version proc/sys/kernel/hostname; ls sys/kernel"
        for options, base in (((), "/workspace"), (("--policy", "readonly"), "/workspace"), (("--set", "workspace.target=/work", "--read", workspace()), workspace()), (("--mount", f"{workspace()}:/data"), "/data")):
            done = brig("run", *options, "--", "sh", "-c", script.format(base))
            assert done.text.split() == ["dev/mqueue:", "kept:", "file", "proc:", "sys:"], (options, done.text, done.errors)
            assert "host's kernel" in done.errors, done.errors
        for name in ("proc", "proc/sys/kernel", "sys/kernel", "version"):
            refused(brig("run", "--read", workspace() / "chroot" / name, "--", "true"), "host's kernel")
            refused(brig("run", "--mount", f"{workspace()}/chroot/{name}:/data", "--", "true"), "host's kernel")


# ---- a project's file that nobody has trusted ----


def project(text):
    path = workspace() / ".brig.yaml"
    path.write_text(text)
    return path


@contextlib.contextmanager
def trusted(path):
    assert brig("allow", path).status == 0
    yield
    (state() / "brig/trusted").unlink()


def fake(name):
    """A program in the workspace that would run in the place of another."""
    path = workspace() / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho said by the workspace; touch {scratch()}/PWNED\n")
    path.chmod(0o755)


@test
def entries_of_a_project_do_not_hide_behind_those_of_the_caller():
    """A map is merged from all layers; the caller's own entry made the project's count."""
    mine = scratch() / "mine.yaml"
    for theirs, ours, flags in (("egress: {resolve: {api.example.org: 127.0.0.1}}", "egress: {resolve: {other.example.org: 127.0.0.2}}", ("--set", "egress.resolve=other.example.org=127.0.0.2")),
                                ("leaks: {rules: {private-key: 'off'}}", "leaks: {rules: {hex64: block}}", ("--set", "leaks.rules=hex64=block")),
                                ("env: {set: {PATH: /workspace/bin}}", "env: {set: {A: b}}", ("--env", "A=b"))):
        path = project(theirs + "\n")
        mine.write_text(f"brig: 1\n{ours}\n")
        run = ("plan", "--allow", "api.example.org", "--")
        refused(brig(*run, "true"), "may only tighten")
        refused(brig("plan", *flags, *run[1:], "true"), "may only tighten")
        refused(brig("plan", "--config", mine, *run[1:], "true"), "may only tighten")
        with trusted(path):  # the control: it is what it looks like
            assert brig("plan", *flags, *run[1:], "true").status == 0
            key, entry = theirs.split(":")[0], theirs.split("{")[2].split(":")[0]
            shown = brig("config", "show", "--config", mine, "--origin", "--json").json
            assert [o["entries"][entry] for k, o in shown["origin"].items() if k.startswith(key) and entry in o.get("entries", {})] == ["project"], shown["origin"]
    path.unlink()


@test
def a_project_chooses_no_programs_by_its_variables():
    fake("python3")
    fake("git")
    (workspace() / "sitecustomize.py").write_text("print('forged')\n")
    for line in ("PATH: /workspace/bin:/usr/bin:/bin", "PYTHONPATH: /workspace", "PYTHONSTARTUP: /workspace/x", "HOME: /workspace", "GIT_DIR: x", "PAGER: x", "EDITOR: x", "LANGUAGE: /workspace/x",
                 "LC_ALL: ../x", "TZ: ':/workspace/z'", "NODE_PATH: /workspace", "HTTPS_PROXY: 'http://x'", "SSL_CERT_FILE: x", "XDG_CONFIG_HOME: x", "LUA_INIT: x", "UNHEARD_OF: x"):
        path = project("env: {set: {" + line + "}}\n")
        for command in (("python", "-c", "print(2 + 2)"), ("run", "--", "python3", "--version"), ("run", "--", "env")):
            done = refused(brig(*command), "may only tighten", "brig allow")
            assert not done.stdout, line
    path = project("env: {set: {PATH: '/workspace/bin:/usr/bin:/bin'}}\n")
    with trusted(path):  # the control: it is obeyed, but not for the interpreter of the caller's code
        assert "said by the workspace" in brig("run", "--", "python3", "--version").text
        assert brig("python", "-c", "import os; print(2 + 2, os.environ['PATH'])").text == "4 /workspace/bin:/usr/bin:/bin\n"
        assert "said by the workspace" in brig("python", "--env", "PATH=/workspace/bin", "-c", "print(2 + 2)").text  # the caller's own word
    project("env: {set: {CI: '1', LANG: C, NODE_ENV: test}}\n")
    assert brig("run", "--", "sh", "-c", "echo $CI $LANG $NODE_ENV").text == "1 C test\n"
    assert not (scratch() / "PWNED").exists()


@test
def a_project_sets_nothing_for_a_command_on_the_host():
    fake("git")
    loose = ("--backend", "none", "--i-know-this-is-not-a-sandbox")
    ssh = ("--backend", "ssh", "--set", "ssh.host=nowhere.invalid")
    for line in ("PATH: '/workspace/bin:/usr/bin:/bin'", "CI: '1'", "LANG: C"):
        path = project("env: {set: {" + line + "}}\n")
        for options in (loose, ("--policy", "full_access", "--i-know-this-is-not-a-sandbox"), ssh):
            done = refused(brig("run", *options, "--", "sh", "-c", "echo ran; git status"), "brig allow")
            assert b"ran" not in done.stdout and not (scratch() / "PWNED").exists(), (line, options)
    path = project("env: {set: {CI: 'mark'}}\n")
    with trusted(path):
        assert brig("run", *loose, "--", "sh", "-c", "echo $CI").text == "mark\n"
    path.unlink()


@test
def a_project_does_not_choose_the_backend():
    """What only an engine can honour sent the run there, with whatever reaches that engine."""
    spy, seen = socket.socket(socket.AF_UNIX), []
    spy.bind(str(scratch() / "engine"))
    spy.listen(8)

    def note():
        with contextlib.suppress(OSError):
            while True:
                spy.accept()[0].close()
                seen.append(1)

    threading.Thread(target=note, daemon=True).start()
    engine = {"DOCKER_HOST": f"unix://{scratch()}/engine"}
    path = project("labels: {team: blue}\n")
    done = refused(brig("run", "--", "true", env=engine), "cannot honour labels", "brig allow", "--backend docker")
    assert not done.stdout and not seen
    with trusted(path):  # the control: whoever trusts it gets the engine
        brig("run", "--", "true", env=engine)
        assert seen
    seen.clear()
    brig("run", "--set", "labels=mine=1", "--", "true", env=engine)  # the caller's own wish counts
    assert seen
    path.unlink()
    spy.close()


@test
def language_passes_by_exact_names():
    given = {"LC_ALL": "C.UTF-8", "LC_TIME": "C", "LC_SECRET_STASH": "x", "LC_": "x", "LC_ALLX": "x", "LANGUAGE": "en", "LANGX": "x", "TZ": "UTC"}
    seen_inside = dict(line.split("=", 1) for line in brig("run", "--", "env", env=given).text.splitlines())
    assert {k for k in given if k in seen_inside} == {"LC_ALL", "LC_TIME", "LANGUAGE", "TZ"}, seen_inside


# ---- files of settings ----


@test
def settings_that_are_a_link_into_a_shown_tree_are_not_written():
    """As those have it who keep their settings in a repository."""
    top, dots = scratch() / "who", scratch() / "dots"
    (top / ".config/brig").mkdir(parents=True)
    dots.mkdir()
    (dots / "config.yaml").write_text("brig: 1\n")
    (top / ".config/brig/config.yaml").symlink_to(dots / "config.yaml")
    for options in (("--workdir", dots), ("--write", dots), ("--mount", f"{dots}:/data:rw"), ("--write", dots / "config.yaml")):
        done = brig("run", *options, "--", "true", env={"HOME": str(top)})
        assert done.status == 125 and "settings writable" in done.errors, (options, done.errors)
    assert brig("run", "--read", dots, "--", "true", env={"HOME": str(top)}).status == 0


@test
def the_file_of_config_is_not_the_commands_to_change():
    here, other = workspace() / "role.yaml", scratch() / "other"
    other.mkdir()
    for at in (here, other / "role.yaml"):
        at.write_text("brig: 1\n")
    (workspace() / "link.yaml").symlink_to("role.yaml")
    for name in ("role.yaml", "link.yaml"):
        done = brig("run", "--config", name, "--", "sh", "-c", f"echo 'policy: full_access' >> {name}; rm -f role.yaml; mv role.yaml x; ln -sf /x role.yaml; true")
        assert done.status == 0 and here.read_text() == "brig: 1\n", done.errors
    done = brig("run", "--config", other / "role.yaml", "--write", other, "--", "true")
    assert done.status == 125 and "--config" in done.errors, done.errors
    # It stays so for runs that do not name it. The control: one that never was is an ordinary file.
    assert brig("run", "--", "sh", "-c", "echo x >> role.yaml").status != 0 and here.read_text() == "brig: 1\n"
    (workspace() / "plain.yaml").write_text("brig: 1\n")
    assert brig("run", "--", "sh", "-c", "echo x >> plain.yaml").status == 0
    assert (workspace() / "plain.yaml").read_text() == "brig: 1\nx\n"


if __name__ == "__main__":
    sys.exit(main())
