#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A HOME that is kept was written by hostile code: what on the host reads it, and who else is shown it.

The oracle is the host: which folder a run wrote to, files beside it that must not change, and that whatever is left behind can
be sized, listed and cleared by its owner."""

import contextlib
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import as_identity, held  # noqa: E402
import open_sandbox  # noqa: E402
from harness import ORDINARY, brig, files_as_root, identity, main, scratch, start_brig, state, test, tree, uid, wait_until, workspace  # noqa: E402

BOTH = ("native", "bwrap")
INSIDE = "/home/brig"
DEEP = """
import os
for i in range(400):
    os.mkdir("d", 0o700)
    os.chdir("d")
"""


def folder(*names, mode=0o755):
    """A folder below scratch, of this test's identity."""
    path = scratch().joinpath(*names)
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)
    return path


def cache():
    return scratch() / "cache"


def environment(env=None):
    """The harness wants its own home empty."""
    folder("cache")
    return {"XDG_CACHE_HOME": str(cache()), **(env or {})}


def keep(*args, env=None, **more):
    return brig("run", "--home", "keep", *args, env=environment(env), **more)


def sh(line, *options, **more):
    done = keep(*options, "--", "sh", "-c", line, **more)
    assert done.status == 0, (done.status, done.text, done.errors)
    return done.text


def refused(done, *words):
    assert done.status == 125, (done.status, done.stdout, done.stderr)
    for word in words:
        assert word in done.errors, (word, done.errors)
    return done


def homes():
    """By id, what is kept on disk."""
    with files_as_root():
        return {p.name: p / "home" for p in (cache() / "brig/homes").iterdir()} if (cache() / "brig/homes").exists() else {}


def the_home():
    (one,) = homes().values()
    return one


def listed(env=None):
    done = brig("cache", "--json", env=environment(env))
    assert done.status == 0, done.errors
    return done.json["homes"]


def clear(*args, env=None, **more):
    return brig("cache", "clear", *args, env=environment(env), **more)


def cleared():
    done = clear("--all")
    assert done.status == 0, done.errors
    assert not homes() and not tree(cache() / "brig/homes"), tree(cache())


@contextlib.contextmanager
def mounted(target, *args):
    with files_as_root():
        subprocess.run(["mount", *map(os.fspath, args), os.fspath(target)], check=True)
    try:
        yield target
    finally:
        with files_as_root():
            subprocess.run(["umount", "-l", os.fspath(target)], check=True)


# ---- whose it is ----


@test(backends=BOTH)
def the_next_run_of_the_project_finds_it_and_no_other_does():
    sh("echo mine > ~/word; mkdir -p ~/.npm/a")
    assert sh("cat ~/word; ls ~/.npm") == "mine\na\n"
    look = "cat ~/word 2>/dev/null || echo none"
    assert brig("run", "--", "sh", "-c", look, env=environment()).text == "none\n"
    other = folder("other")
    assert sh(look, "--workdir", other) == "none\n"
    assert sh(look, "--policy", "readonly") == "none\n"
    below = workspace() / "below"
    below.mkdir()
    if uid() == 0:
        os.chown(below, *workspace().stat()[4:6])
    assert sh(look, "--workdir", below) == "none\n"
    (workspace() / ".brig.yaml").write_text("limits: {pids: 100}\n")
    assert sh(look) == "none\n"  # nobody has trusted that file
    assert brig("allow", env=environment()).status == 0
    assert sh(look) == "mine\n"
    os.unlink(workspace() / ".brig.yaml")
    moved = workspace().rename(scratch() / "moved")
    moved.joinpath("below").rmdir()
    workspace().mkdir()
    if uid() == 0:
        os.chown(workspace(), *moved.stat()[4:6])
    assert sh(look) == "none\n"  # another folder at the same path
    assert len(homes()) == 6, homes()
    assert {(h["policy"], h["trusted"]) for h in listed()} == {("workspace_write", True), ("workspace_write", False), ("readonly", True)}
    cleared()


@test(backends=BOTH)
def a_new_project_does_not_inherit_from_one_that_was_removed():
    """ext4 gives the next folder the number of the one that is gone."""
    project = folder("project")
    for _ in range(20):  # somebody else's file may get the number first
        sh("echo planted > ~/.profile", "--workdir", project)
        number = project.stat().st_ino
        project.rmdir()
        made = [folder(f"made-{i}") for i in range(200)]
        again = next((p for p in made if p.stat().st_ino == number), None)
        (again or made[0]).rename(project)
        for p in made:
            if p.exists():
                p.rmdir()
        assert sh("cat ~/.profile 2>/dev/null || echo none", "--workdir", project) == "none\n"
        if again:
            break
    # On a busy machine the number may be somebody else's each time; then this was no try, and the other backend and user have theirs.
    sh("echo mine > ~/.profile", "--workdir", project)
    assert sh("cat ~/.profile", "--workdir", project) == "mine\n"  # the control
    there = [h["gone"] for h in listed()]
    assert there.count(False) == 1 and len(there) > 1, there
    assert clear("--gone").text == f"{len(there) - 1} cleared\n" and [h["gone"] for h in listed()] == [False]
    cleared()


@test
def each_backend_has_its_own():
    for backend in BOTH:
        assert sh("cat ~/word 2>/dev/null; echo x > ~/word", env={"BRIG_BACKEND": backend}) == ""
    assert sorted(h["backend"] for h in listed()) == sorted(BOTH)
    cleared()


@test
def ssh_and_none_refuse_it_by_name():
    refused(keep("--backend", "ssh", "--set", "ssh.host=nowhere", "--", "true", env={"BRIG_BACKEND": None}), "backend 'ssh' cannot honour --home", "hint: backend 'native' can")
    refused(keep("--backend", "ssh", "--set", "ssh.host=nowhere", "--set", "ssh.remote=brig", "--", "true", env={"BRIG_BACKEND": None}), "backend 'ssh' cannot honour --home")
    refused(keep("--backend", "none", "--i-know-this-is-not-a-sandbox", "--", "true", env={"BRIG_BACKEND": None}), "backend 'none' cannot honour --home")
    assert not homes()


@test
def without_a_project_there_is_none():
    home = folder("nobody")
    refused(brig("run", "--home", "keep", "--", "true", cwd=home, env=environment({"HOME": str(home)})), "needs a workspace", "--workdir DIR")
    assert not homes()


@test
def an_untrusted_file_cannot_ask_for_it():
    (workspace() / ".brig.yaml").write_text("home: keep\n")
    refused(brig("run", "--", "true", env=environment()), "home", "brig allow")
    (workspace() / ".brig.yaml").write_text("home_size: 100g\n")
    refused(keep("--", "true"), "home_size", "brig allow")
    assert not homes()
    (workspace() / ".brig.yaml").write_text("home: keep\n")
    assert brig("allow", env=environment()).status == 0
    assert brig("run", "--", "sh", "-c", "echo x > ~/word", env=environment()).status == 0
    assert brig("run", "--", "sh", "-c", "cat ~/word", env=environment()).text == "x\n"
    (workspace() / ".brig.yaml").write_text("home: private\n")
    assert keep("--", "sh", "-c", "cat ~/word").status == 1  # a flag wins, but it is another trust
    cleared()


@test(by_root=True)
def two_users_never_share_one():
    """What another user owns, or may write to, is not used, whatever the variables say."""
    assert sh("echo x > ~/word") == ""
    with files_as_root():
        theirs = scratch() / "theirs"
        for place in (theirs, theirs / "brig"):
            place.mkdir()
            os.chown(place, ORDINARY + 1, ORDINARY + 1)
        open_to_all = scratch() / "open"
        (open_to_all / "brig").mkdir(parents=True)
        for place in (open_to_all, open_to_all / "brig"):
            os.chown(place, uid(), uid())
            place.chmod(0o777)
        shown = scratch() / "shown"
        (shown / "brig/homes").mkdir(parents=True)
        for place in (shown, shown / "brig", shown / "brig/homes"):
            os.chown(place, uid(), uid())
            place.chmod(0o755)
    for place in (theirs, open_to_all, shown):
        refused(keep("--", "true", env={"XDG_CACHE_HOME": str(place)}), "cache folder", "set XDG_CACHE_HOME")
    with files_as_root():
        assert not tree(theirs / "brig") and not tree(open_to_all / "brig")
    mode = lambda p: stat.S_IMODE(p.stat().st_mode)  # noqa: E731
    with files_as_root():
        way = [cache() / "brig", cache() / "brig/homes", *(cache() / "brig/homes").iterdir(), the_home()]
        assert all(mode(p) == 0o700 and p.stat().st_uid == uid() for p in way), [(p, oct(mode(p))) for p in way]
    if identity() == "user":  # the control: whoever the folders belong to gets in
        assert subprocess.run(as_identity(["ls", the_home()]), capture_output=True, check=False).returncode == 0
    stranger = subprocess.run(["setpriv", f"--reuid={ORDINARY + 1}", f"--regid={ORDINARY + 1}", "--clear-groups", "--", "ls", the_home()],
                              capture_output=True, check=False)
    assert stranger.returncode != 0
    cleared()


@test
def a_cache_folder_that_is_a_link_is_refused_and_one_reached_by_a_link_is_not():
    real = folder("elsewhere")
    folder("cache")
    os.symlink(real, cache() / "brig")
    refused(keep("--", "true"), "must be no link")
    assert not tree(real)
    os.unlink(cache() / "brig")
    linked = scratch() / "linked"
    os.symlink(real, linked)
    assert sh("echo x > ~/word", env={"XDG_CACHE_HOME": str(linked)}) == ""
    assert [p for p in tree(real) if p.endswith("/home/word")], tree(real)


@test
def a_cache_folder_in_the_workspace_is_refused_and_not_made():
    for place in (workspace() / ".cache", workspace()):
        refused(keep("--", "true", env={"XDG_CACHE_HOME": str(place)}), "cache folder writable", "XDG_CACHE_HOME")
        refused(brig("run", "--", "true", env={"XDG_CACHE_HOME": str(place)}), "cache folder writable", "XDG_CACHE_HOME")
    assert not tree(workspace())


@test(as_user="root", backends=BOTH)
def roots_is_the_same_whoever_owns_the_workspace():
    """The command's ids differ; on disk the files are root's, and are shown as the command's own."""
    for owner in (0, ORDINARY, 0):
        os.chown(workspace(), owner, owner)
        sh("cat ~/word 2>/dev/null; echo x >> ~/word; chmod 600 ~/word; test -O ~/word; touch /workspace/made; rm /workspace/made")
    assert the_home().joinpath("word").read_text() == "x\nx\nx\n" and the_home().joinpath("word").stat().st_uid == 0
    cleared()


@test
def a_planted_folder_is_not_taken_for_one_of_brigs():
    """Somebody else's link, file or open folder at the place of a HOME."""
    sh("true")
    (name,) = homes()
    cleared()
    place = cache() / "brig/homes" / name
    prey = folder("prey")
    for make in (lambda: os.symlink(prey, place), lambda: place.write_text(""), lambda: (place.mkdir(), place.chmod(0o777)),
                 lambda: (place.mkdir(mode=0o700), os.symlink(prey, place / "home"))):
        make()
        refused(keep("--", "sh", "-c", "echo x > ~/word"), "is not what brig made")
        if place.is_symlink() or place.is_file():
            place.unlink()
        else:
            shutil.rmtree(place)
    assert not tree(prey)


# ---- nobody is shown it ----


@test(backends=BOTH)
def no_command_is_shown_the_cache_folder():
    """Neither its own run's nor another's, by whatever way a tree leads there."""
    sh("echo secret > ~/word")
    own, control = the_home(), folder("cache", "other")
    (control / "word").write_text("shown\n")
    env = environment()
    other = folder("project")
    for here in (workspace(), other):
        done = brig("run", "--read", cache(), "--", "sh", "-c", f"cat {control}/word; ls -A {cache()}/brig", cwd=here, env=env)
        assert done.text == "shown\n" and done.status == 0, (done.text, done.errors)
        for how in (("--read", own), ("--mount", f"{own}:/x"), ("--read", cache() / "brig"), ("--read", own.parent)):
            refused(brig("run", *how, "--", "ls", cwd=here, env=env), "would show brig's own cache")
        for how in (("--write", cache()), ("--mount", f"{own}:/x:rw"), ("--write", cache() / "brig/homes")):
            refused(brig("run", *how, "--", "ls", cwd=here, env=env), "would make brig's own cache folder writable", "XDG_CACHE_HOME")
    refused(brig("run", "--", "true", cwd=cache(), env=env), "cache folder writable")
    refused(brig("run", "--home", "keep", "--", "true", cwd=own, env=env), "cache folder writable")
    assert sh(f"ls {cache()} 2>/dev/null; ls -A {INSIDE}/..; cat /proc/self/mountinfo | grep -c about; true").split() == ["brig", "0"]
    cleared()


@test(by_root=True)
def a_bind_that_leads_to_it_is_as_good_as_its_path():
    sh("echo secret > ~/word")
    env = environment()
    door = folder("door")
    with mounted(door, "--bind", cache() / "brig"):
        refused(brig("run", "--read", door, "--", "ls", env=env), "would show brig's own cache")
        refused(brig("run", "--write", door, "--", "ls", env=env), "cache folder writable")
    with mounted(door, "--bind", the_home()):
        refused(brig("run", "--mount", f"{door}:/x", "--", "ls", env=env), "would show brig's own cache")
    (folder("around") / "word").write_text("shown\n")
    with mounted(door, "--bind", scratch() / "around"):  # the control
        assert brig("run", "--mount", f"{door}:/x", "--", "cat", "/x/word", env=env).text == "shown\n"
    cleared()


@test(by_root=True)
def every_place_where_a_cache_may_come_to_be_is_guarded():
    """The next run may come with other variables; not even the folder is to be made before brig does."""
    home = folder("home")
    places = folder("home", ".cache")
    env = environment({"HOME": str(home)})
    shown = places if uid() else pathlib.Path("/var/cache")
    with mounted("/var/cache", "--bind", places):
        if uid():
            refused(brig("run", "--write", shown, "--", "true", env=env), "cache folder writable")
            assert brig("run", "--write", folder("home", ".other"), "--", "true", env=env).status == 0
        (places / "brig").mkdir()
        (places / "brig/word").write_text("secret")
        refused(brig("run", "--read", shown / "brig", "--", "true", env=env), "would show brig's own cache")
        (places / "beside").write_text("shown")
        done = brig("run", "--read", shown, "--", "sh", "-c", f"cat {shown}/beside; ls -A {shown}/brig", env=env)
        assert (done.status, done.text) == (0, "shown"), (done.text, done.errors)


# ---- what the command leaves in it ----


@test(backends=BOTH)
def a_link_in_it_leads_nobody_of_the_hosts_anywhere():
    """Names that brig would mount on are links by now: nothing is mounted or made behind them, inside or out."""
    prey, tool = folder("prey"), folder("tool")
    (prey / "canary").write_text("canary\n")
    (tool / "word").write_text("tool\n")
    mount = ("--mount", f"{tool}:{INSIDE}/.tool")
    refused(keep(*mount, "--", "true"), "has no place to be mounted on", "make it inside first")
    assert not list(the_home().iterdir())
    sh("mkdir ~/.tool")
    assert sh("cat ~/.tool/word", *mount) == "tool\n"  # the control
    sh(f"rmdir ~/.tool; ln -s {prey} ~/.tool; ln -s /workspace ~/.gitconfig; ln -s {prey}/canary ~/.bashrc; ln -s {prey}/new ~/.profile")
    assert (the_home() / ".tool/canary").read_text() == "canary\n"  # it would lead there
    refused(keep(*mount, "--", "true"), "and no link")
    sh("true")
    assert os.listdir(prey) == ["canary"]
    assert (prey / "canary").read_text() == "canary\n"
    assert listed()[0]["bytes"] < 1 << 20
    cleared()
    assert (prey / "canary").read_text() == "canary\n" and prey.exists()


@test
def a_link_to_much_is_neither_counted_nor_removed():
    big = folder("big")
    (big / "file").write_bytes(b"x" * (8 << 20))
    sh(f"ln -s {big} ~/big; ln -s {big}/file ~/file; ln -s / ~/root")
    assert keep("--home-size", "1m", "--", "true").status == 0
    sh("cd; dd if=/dev/zero of=real bs=1M count=8 2>/dev/null")  # the control
    refused(keep("--home-size", "1m", "--", "true"), "holds more than home_size", "brig cache clear")
    cleared()
    assert (big / "file").stat().st_size == 8 << 20


@test(backends=BOTH)
def folders_that_were_closed_hide_nothing():
    sh("mkdir -p ~/a/b; dd if=/dev/zero of=$HOME/a/b/big bs=1M count=8 2>/dev/null; chmod 0 ~/a/b ~/a")
    refused(keep("--home-size", "2m", "--", "true"), "holds more than home_size")
    assert listed()[0]["bytes"] > 8 << 20
    sh("chmod 0 ~/a/b ~/a ~")  # and HOME itself
    assert sh("echo x > ~/word; cat ~/word") == "x\n"
    sh("chmod 0777 ~")
    sh("true")
    with files_as_root():
        assert stat.S_IMODE(the_home().stat().st_mode) == 0o700
    sh("chmod 0 ~/a/b ~/a ~")
    cleared()


@test(backends=BOTH)
def a_closed_home_is_listed_with_its_size():
    sh("dd if=/dev/zero of=$HOME/big bs=1M count=8 2>/dev/null")
    assert listed()[0]["bytes"] >= 8 << 20  # the control
    sh("chmod 0 ~")
    with files_as_root():
        assert stat.S_IMODE(the_home().stat().st_mode) == 0
    assert listed()[0]["bytes"] >= 8 << 20 and not listed()[0]["more"]
    cleared()


@test(by_root=True)
def what_is_mounted_in_it_keeps_its_mode():
    """Folders of the command's are opened to be sized; the user's, wherever they are mounted, are not."""
    sh("mkdir -p ~/m ~/closed; chmod 0 ~/closed")
    prey = folder("prey", mode=0)
    mode = lambda p: stat.S_IMODE(p.stat().st_mode)  # noqa: E731
    with mounted(the_home() / "m", "--bind", prey):
        assert len(listed()) == 1 and keep("--", "true").status in (0, 125)
        with files_as_root():
            assert mode(prey) == 0, oct(mode(prey))
            assert mode(the_home() / "closed")  # the control
    cleared()
    with files_as_root():
        assert mode(prey) == 0


@test(backends=BOTH)
def a_run_that_closes_its_folders_all_the_time_stops_no_other():
    flip = """
import os
home = os.path.expanduser("~")
folders = [os.open(p, os.O_RDONLY) for p in (home, home + "/d", *(f"{home}/d/{i}" for i in range(20)))]
open("ready", "w")
while not os.path.exists("go"):
    for mode in (0, 0o700):
        for folder in folders:
            os.fchmod(folder, mode)
"""
    sh("mkdir ~/d; cd ~/d; for i in $(seq 0 19); do mkdir -p $i/a; done")
    with held("run", "--home", "keep", "--", "python3", "-c", flip, env=environment()):
        modes = set()
        with files_as_root():
            assert wait_until(lambda: modes.add(stat.S_IMODE(the_home().stat().st_mode)) or len(modes) > 1, 15)  # the control
        for _ in range(25):
            done = keep("--", "true")
            assert done.status == 0, done.errors
            assert not listed()[0]["more"]
    cleared()


@test
def many_names_without_a_byte_count_too():
    sh("mkdir ~/n; cd ~/n; python3 -c 'for i in range(2000): open(str(i), \"w\")'")
    refused(keep("--home-size", "4m", "--", "true"), "holds more than home_size")
    sh("true")
    cleared()


@test(backends=BOTH)
def folders_without_end_are_told_and_cleared():
    keep("--", "sh", "-c", f"cd; python3 -c '{DEEP}'")
    refused(keep("--", "true"), "folders more than 200 deep", "brig cache clear")
    assert listed()[0]["more"]
    cleared()
    sh("true")
    cleared()


@test(backends=BOTH)
def what_is_no_file_keeps_nobody_waiting():
    """Pipes, sockets, further names of a file; devices cannot be made."""
    assert sh("""cd; mkfifo pipe about; echo x > f; ln f g; ln -s pipe link
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'; mknod null c 1 3 2>/dev/null || echo no device""") == "no device\n"
    assert sh("ls ~ | wc -l").strip() == "6"
    with files_as_root():
        kinds = {stat.S_IFMT(p.lstat().st_mode) for p in the_home().iterdir()}
        assert kinds == {stat.S_IFIFO, stat.S_IFREG, stat.S_IFLNK, stat.S_IFSOCK}, kinds
    done = keep("--", "sh", "-c", f"ln {INSIDE}/f /workspace/f || ln /workspace {INSIDE}/w")
    assert done.status != 0 and not list(workspace().iterdir())  # no name of a file leads out of it, or in
    assert [h["project"] for h in listed()] == [str(workspace())]
    cleared()


@test
def no_program_of_it_runs_with_more_than_the_caller_has():
    """On root's disk the files are root's: nobody but root gets there, and none has a set-id bit."""
    done = keep("--", "sh", "-c", "cp /bin/true ~/t; chmod 4755 ~/t; stat -c %a ~/t; ~/t")
    with files_as_root():
        st = (the_home() / "t").stat()
        assert st.st_uid == uid() and not st.st_mode & 0o6000, (oct(st.st_mode), done.errors)
    cleared()


# ---- used by runs ----


@test(backends=BOTH)
def it_is_shared_by_runs_and_not_cleared_under_them():
    line = "echo one > ~/word; touch ready; while [ ! -e go ]; do sleep 0.02; done; cat ~/word"
    with held("run", "--home", "keep", "--", "sh", "-c", line, env=environment()) as run:
        refused(clear(), "is used by a run")
        refused(clear("--all"), "is used by a run")
        assert [h["in_use"] for h in listed()] == [True]
        assert brig("cache", env=environment()).text.count("(in use)") == 1
        assert sh("cat ~/word; echo two > ~/word") == "one\n"
        refused(clear(), "is used by a run")
    assert run.process.result.stdout == b"two\n", vars(run.process.result)
    assert [h["in_use"] for h in listed()] == [False]
    done = clear()
    assert (done.status, done.text) == (0, "1 cleared\n"), done.errors
    assert not homes()


@test(backends=BOTH)
def an_open_sandbox_has_it_until_it_is_closed():
    with open_sandbox.Sandbox(os.environ["BRIG_BACKEND"], "home=keep", env=environment()) as s:
        assert s.run(1, "echo one > ~/word")["outcome"] == "exited"
        assert s.run(2, "cat ~/word")["stdout"] == "one\n"
        refused(clear(), "is used by a run")
        assert sh("cat ~/word; echo two > ~/word") == "one\n"
        assert s.run(3, "cat ~/word")["stdout"] == "two\n"
    cleared()


@test
def a_killed_brig_leaves_it_free():
    line = "echo one > ~/word; touch ready; while [ ! -e go ]; do sleep 0.02; done"
    p = start_brig("run", "--home", "keep", "--", "sh", "-c", line, env=environment())
    assert wait_until(lambda: (workspace() / "ready").exists(), 15)
    p.kill()
    p.communicate()
    assert wait_until(lambda: clear().status == 0, 10), clear().errors
    assert not homes()
    (workspace() / "ready").unlink()
    sh("true")  # removes what the dead one has left
    cleared()


CHURN = """
import os, sys
h = os.environ["HOME"]
os.makedirs(h + "/a/b/c", exist_ok=True)
open("ready", "w")
i = 0
while not os.path.exists("go"):
    i += 1
    try:
        os.rename(h + "/a/b", h + "/x"); os.symlink("/etc", h + "/a/b"); os.chmod(h + "/x", 0); os.unlink(h + "/a/b"); os.chmod(h + "/x", 0o700)
        os.rename(h + "/x", h + "/a/b"); os.mkdir(f"{h}/a/{i % 50}", 0)
    except OSError: pass
    try: os.rmdir(f"{h}/a/{(i + 7) % 50}")
    except OSError: pass
"""


@test
def what_changes_while_it_is_looked_at_leads_nowhere():
    """Folders become links and are closed under whoever sizes them: nothing outside is opened or changed."""
    with files_as_root():
        before = {p: p.lstat().st_mode for p in pathlib.Path("/etc").iterdir()}
    (workspace() / "churn.py").write_text(CHURN)
    with held("run", "--home", "keep", "--", "python3", "churn.py", env=environment()):
        for _ in range(15):
            assert keep("--", "true").status == 0
            assert listed()[0]["bytes"] < 1 << 20
    with files_as_root():
        assert before == {p: p.lstat().st_mode for p in pathlib.Path("/etc").iterdir()}
    cleared()


@test
def many_begin_while_one_clears():
    """Whoever starts gets a HOME that is there until its end."""
    runs = [start_brig("run", "--home", "keep", "--", "sh", "-c", "echo x > ~/$$; sleep 0.1; ls ~ | grep -c .", env=environment()) for _ in range(8)]
    for _ in range(8):
        assert clear().status in (0, 125)
    for p in runs:
        out, err = p.communicate()
        assert p.returncode == 0 and int(out) >= 1, (p.returncode, out, err)
    cleared()


@test(backends=BOTH)
def what_is_written_to_it_counts_for_disk():
    line = "for i in 1 2 3 4 5 6; do dd if=/dev/zero of=$HOME/$i bs=64k count=160 conv=fsync 2>/dev/null; sleep 0.1; done"
    for policy in ("workspace_write", "readonly"):
        done = keep("--json", "--policy", policy, "--disk", "8m", "--", "sh", "-c", line)
        assert done.json["outcome"] == "limit" and done.json["limits_hit"] == ["disk"], done.text
    sh(line)  # the control
    cleared()


@test
def a_plan_changes_nothing_and_says_what_is_shown():
    plan = brig("plan", "--home", "keep", "--", "true", env=environment()).text
    assert not homes() and "brig/homes" not in plan, plan
    sh("true")
    assert str(the_home()) in brig("plan", "--home", "keep", "--", "true", env=environment()).text
    cleared()


@test(backends=BOTH)
def a_run_that_is_refused_makes_nothing():
    """A cache folder in what the command may write to, by its path, above it or by a mount."""
    inside = workspace() / "cache"
    for place in (inside, workspace(), workspace() / "a/b"):
        refused(keep("--", "true", env={"XDG_CACHE_HOME": str(place)}), "cache folder writable")
    shared = folder("shared")
    refused(keep("--write", shared, "--", "true", env={"XDG_CACHE_HOME": str(shared)}), "cache folder writable")
    refused(keep("--mount", "/nowhere:/x", "--", "true"), "/nowhere")
    assert not tree(workspace()) and not tree(shared) and not tree(cache()), (tree(workspace()), tree(cache()))
    assert keep("--", "true", env={"XDG_CACHE_HOME": str(shared)}).status == 0  # the control
    assert tree(shared)


@test
def a_list_shows_what_is_there_and_a_name_clears_it():
    assert "no HOME is kept" in brig("cache", env=environment()).text
    other = folder("other project")
    sh("true")
    sh("dd if=/dev/zero of=$HOME/big bs=1M count=3 2>/dev/null", "--workdir", other)
    rows = {h["project"]: h for h in listed()}
    assert set(rows) == {str(workspace()), str(other)} and rows[str(other)]["bytes"] >= 3 << 20, rows
    assert all(h["last_use"].startswith("20") and not h["more"] for h in rows.values())
    text = brig("cache", "list", env=environment()).text
    assert str(other) in text and "3.0M" in text and text.startswith("ID "), text
    assert clear(rows[str(other)]["id"][:12]).text == "1 cleared\n"
    assert [h["project"] for h in listed()] == [str(workspace())]
    assert clear(other).text == f"no HOME is kept for {other}\n"
    assert json.loads(clear("--json").stdout) == {"schema": 1, "cleared": 1, "left": 0}
    refused(brig("cache", "celar", env=environment()), "cache does not accept 'celar'")
    refused(clear("--all", other), "takes one of --all")
    assert not homes()


@test
def a_clear_that_was_cut_short_is_ended_by_the_next():
    sh("mkdir -p ~/a/b; chmod 0 ~/a")
    (name,) = homes()
    os.rename(cache() / "brig/homes" / name, cache() / "brig/homes/.gone-0123")
    assert [(h["id"], h["leftover"]) for h in listed()] == [(".gone-0123", True)]
    assert "this is left" in brig("cache", env=environment()).text
    cleared()
    assert listed() == []


@test(as_user="user", by_root=True)
def what_cannot_be_cleared_is_told_as_long_as_it_is_there():
    """Somebody else's files: all the others go, and no later clear says that there is nothing."""
    sh("mkdir -p ~/a ~/b/c; touch ~/b/c/x ~/z; chmod 0 ~/b")
    with files_as_root():
        theirs = the_home() / "a/theirs"
        theirs.mkdir()
        (theirs / "file").write_text("")
        for p in (theirs, theirs / "file"):
            os.chown(p, 0, 0)
    refused(clear(), "cannot remove all", "somebody else's files", ".gone-")
    with files_as_root():
        (left,) = (cache() / "brig/homes").iterdir()
        assert sorted(p.relative_to(left).as_posix() for p in left.rglob("*")) == ["home", "home/a", "home/a/theirs", "home/a/theirs/file"]
    assert [(h["id"], h["leftover"], h["in_use"]) for h in listed()] == [(left.name, True, False)]
    for how in ((), ("--all",)):
        assert refused(clear(*how), "somebody else's files").text == "0 cleared, 1 left\n"
    sh("true")
    done = refused(clear("--json"), "somebody else's files")
    assert json.loads(done.stdout) == {"schema": 1, "cleared": 1, "left": 1}
    with files_as_root():
        shutil.rmtree(left / "home/a/theirs")
    cleared()
    assert clear().text == f"no HOME is kept for {workspace()}\n"


@test
def a_project_whose_name_is_no_text_is_cleared_and_no_other():
    one, other = (folder(os.fsdecode(name)) for name in (b"p\xff", b"p\xfe"))
    for project in (one, other):
        sh("true", "--workdir", project)
    assert len({h["project"] for h in listed()}) == 1  # they look alike
    assert clear(one).text == "1 cleared\n"
    assert len(listed()) == 1
    assert clear(one).status == 0 and len(listed()) == 1
    assert clear(cwd=other).text == "1 cleared\n"
    assert not homes()


@test(as_user="root")
def something_mounted_in_it_is_not_removed():
    sh("mkdir ~/m")
    prey = folder("prey")
    (prey / "canary").write_text("canary\n")
    subprocess.run(["mount", "--bind", prey, the_home() / "m"], check=True)
    try:
        refused(clear(), "cannot remove all", "something mounted there")
        assert (prey / "canary").read_text() == "canary\n"
    finally:
        (left,) = (cache() / "brig/homes").iterdir()
        subprocess.run(["umount", "-l", left / "home/m"], check=True)
    cleared()


# ---- writable mounts with programs in them ----


@test(backends=BOTH)
def a_writable_mount_with_programs_of_the_path_is_told():
    tools, data = folder("tools"), folder("data")
    (tools / "bin").mkdir()
    (folder("apps") / "prog").write_text("#!/bin/sh\n")
    (scratch() / "apps/prog").chmod(0o755)
    linked = folder("linked")
    os.symlink(scratch() / "apps/prog", linked / "prog")
    os.symlink(tools / "bin", scratch() / "way")
    path = f"{scratch() / 'way'}:{linked}:/usr/bin:/bin"
    told = "the command can replace them"

    def notes(*options):
        done = brig("run", *options, "--", "true", env=environment({"PATH": path}))
        assert done.status == 0, done.errors
        return done.errors
    assert told in notes("--mount", f"{tools}:/tools:rw") and told in notes("--write", tools / "bin")
    assert told in notes("--write", scratch() / "apps")  # a link in PATH leads there
    assert told not in notes("--mount", f"{tools}:/tools") and told not in notes("--write", data)


if __name__ == "__main__":
    sys.exit(main())
