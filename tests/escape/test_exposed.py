#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Taking back a place that commands in sandboxes could write to: its owner can, when nobody lives who could still write there and all that was left is judged; a command cannot.

The oracle is a file of settings in such a place, which opens a folder that no grant of the command line names: `brig exposed forget` is the one thing that makes it count."""

import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import on_host  # noqa: E402
from harness import brig, brig_path, home, main, scratch, start_brig, state, test, wait_until, workspace  # noqa: E402
from open_sandbox import Sandbox  # noqa: E402
from terminals import Terminal  # noqa: E402
from victim import taken  # noqa: E402

BOTH = ("native", "bwrap")
AS_ME = ("-c", "user.name=n", "-c", "user.email=a@b")


def folder(name, within=None):
    at = (within or scratch()) / name
    at.mkdir()
    os.chown(at, workspace().stat().st_uid, workspace().stat().st_gid)
    return at


def plant(line, *flags, cwd=None):
    done = brig("run", *flags, "--", "sh", "-c", line, cwd=cwd)
    assert done.status == 0, done.errors
    return done


def settings(at):
    """Write-access to a folder of the host's that nobody has named."""
    private = scratch() / "private"
    if not private.exists():
        folder("private")
    (at / "open.yaml").write_text(f"brig: 1\nwrite: [{private}]\n")
    return at / "open.yaml"


def obeyed(file):
    done = brig("run", "--config", file, "--", "touch", scratch() / "private/taken", cwd=folder(f"w{len(os.listdir(scratch()))}"), allow=False)
    left = scratch() / "private/taken"
    assert left.exists() == (done.status == 0), done
    if left.exists():
        left.unlink()
        return True
    assert done.status == 125 and "may have written" in done.errors, done
    return False


def forget(at, *words):
    return brig("exposed", "forget", at, "--yes", *words)


def forgotten(at):
    """On a machine that others use as this user, too, their runs may be living in another state."""
    assert wait_until(lambda: forget(at).status == 0, 60, 0.2), forget(at)


def refused(at, word):
    done = forget(at)
    assert done.status == 125 and word in done.errors and "hint: " in done.errors, (word, done)


def notes():
    return {p.name: os.readlink(p) for p in (state() / "brig/exposed").iterdir() if p.is_symlink()}


@test
def what_was_given_once_counts_again_when_its_owner_takes_it_back():
    for backend in BOTH:
        place = folder(f"place-{backend}")
        file = settings(place)
        assert obeyed(file)  # control: before any run
        plant("true", "--backend", backend, "--write", place)
        assert not obeyed(file)
        forgotten(place)
        assert obeyed(file)
        plant("true", "--backend", backend, "--write", place)  # and the next run notes it again
        assert not obeyed(file)


def git(at, *words):
    done = on_host("git", "-C", at, *AS_ME, *words)
    assert done.returncode == 0, (words, done.stderr)


@test
def what_git_keeps_outside_of_the_workspace_is_a_place():
    """In a further work tree, or a folder of one, commits go to the repository's own `.git`, which no setting names."""
    for backend in BOTH:
        repository, tree = folder(f"repository-{backend}"), scratch() / f"tree-{backend}"
        git(repository, "init", "-q")
        git(repository, "commit", "-q", "--allow-empty", "-m", "x")
        git(repository, "worktree", "add", "-q", tree)
        file = settings(repository / ".git")
        for cwd in (tree, folder("sub", repository)):
            plant("true", "--backend", backend, "--policy", "readonly", cwd=cwd)
            assert obeyed(file)  # control: who changes nothing there
            plant(f"git {' '.join(AS_ME)} commit -q --allow-empty -m y; echo '# mine' >> $(git rev-parse --git-common-dir)/open.yaml", "--backend", backend, cwd=cwd)
            assert "# mine" in file.read_text() and not obeyed(file)
            settings(repository / ".git")
            forgotten(repository / ".git")
            assert obeyed(file)


@test
def a_place_in_another_one_is_each_a_place_of_its_own():
    outer = folder("outer")
    inner = folder("inner", outer)
    files = settings(outer), settings(inner)
    plant("true", "--write", outer)
    plant("true", "--write", inner)
    forgotten(inner)
    assert not obeyed(files[1])
    done = brig("exposed", "forget", inner, "--yes")
    assert done.status == 125 and "itself is not noted" in done.errors and f"brig exposed forget {outer}" in done.errors, done
    plant("true", "--write", inner)
    forgotten(outer)
    assert obeyed(files[0]) and not obeyed(files[1])


@test
def root_has_tmp_back_and_what_ran_below_it_stays_a_guests():
    """Of a folder that all share and nobody can tell files apart in: the command is the way."""
    tmp = folder("tmp")
    tmp.chmod(0o1777)
    own, other = folder("own", tmp), folder("other", tmp)
    files = settings(own), settings(other)
    plant("true", cwd=tmp)
    plant("true", cwd=other)
    assert not obeyed(files[0])
    forgotten(tmp)
    assert obeyed(files[0]) and not obeyed(files[1])


@test
def nothing_is_taken_back_while_a_run_or_an_open_sandbox_lives():
    """Whatever it may write and wherever it is: a command that has ended may have handed it a descriptor."""
    place = folder("place")
    plant("true", "--write", place)
    before = notes()
    for flags in (("--write", place), ("--policy", "readonly")):
        p = start_brig("run", *flags, "--", "sh", "-c", "echo on; read x", stdin=-1, cwd=folder(f"by{flags[0]}"))
        assert p.stdout.readline() == b"on\n"
        refused(place, "live")
        p.communicate(b"\n", 30)
    with Sandbox("native", folder=False) as s:
        assert s.run(1, "true")["exit_code"] == 0
        refused(place, "live")
    assert before.items() <= notes().items()
    forgotten(place)


@test
def what_was_moved_away_is_not_taken_back_by_the_name_that_it_had():
    """A list of names tells nobody that the folder behind one of them lies elsewhere now: there it is taken back, by the name of today."""
    outer = folder("outer")
    inner = folder("inner", outer)
    settings(inner)
    plant("true", "--write", inner)
    plant(f"mv {inner} {outer}/other", "--write", outer)  # a command may have moved it
    mine = scratch() / "mine"
    (outer / "other").rename(mine)
    assert not obeyed(mine / "open.yaml")
    refused(inner, "is not there")
    assert not obeyed(mine / "open.yaml")
    forgotten(mine)  # the control, and the way
    assert obeyed(mine / "open.yaml")


@test
def a_run_that_came_and_went_while_the_question_stood_there_is_told():
    place = folder("place")
    plant("true", "--write", place)
    for comes in (True, False):  # the second is the control: nobody came
        t = Terminal(words=("exposed", "forget", str(place)))
        t.until(b"Take it back?")
        if comes:
            plant(f"echo evil > {place}/late", "--write", place)
        t.type(b"y\n")
        status = t.finish()
        assert (status == 125 and b"began while you were asked" in t.seen) if comes else status == 0, t.seen
        assert obeyed(settings(place)) != comes


HAND = """
import array, os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1] + '/s')
s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [os.open(sys.argv[2] + '/late.yaml', os.O_CREAT | os.O_WRONLY)]))])
s.recv(1)
"""
TAKE = """
import os, socket, sys
at = sys.argv[1]
s = socket.socket(socket.AF_UNIX)
s.bind(at + '/s')
s.listen(1)
c, _ = s.accept()
_, fds, _, _ = socket.recv_fds(c, 1, 1)
c.send(b'x')
print('have', flush=True)
sys.stdin.readline()
os.write(fds[0], open(at + '/words').read().encode())
print('wrote', flush=True)
"""


@test(backends=("native",))
def a_place_whose_file_a_dead_run_gave_away_is_not_taken_back_under_the_one_that_has_it():
    """The attack writes after the question was asked. It works, so that a note that was gone by then would make its words the user's."""
    place, meet = folder("place"), folder("meet")
    (meet / "words").write_text(settings(place).read_text())
    taker = start_brig("run", "--write", meet, "--", "python3", "-c", TAKE, meet, stdin=-1, cwd=folder("one"))
    assert wait_until(lambda: (meet / "s").exists(), 20)
    plant(f"""python3 -c "$0" {meet} {place}""".replace("$0", HAND), "--write", meet, "--write", place, cwd=folder("two"))
    assert taker.stdout.readline() == b"have\n"
    refused(place, "live")
    out, _ = taker.communicate(b"\n", 30)
    assert out == b"wrote\n" and (place / "late.yaml").read_text()  # the control of the attack
    assert not obeyed(place / "late.yaml")


def killed_run(after):
    """With its monitor; after a while it has a checker, which takes away what it finds."""
    p = start_brig("run", "--", "sh", "-c", "echo evil > .envrc; touch ready; sleep 60")
    assert wait_until((workspace() / "ready").exists, 20)
    refused(workspace(), "live")
    time.sleep(after)
    os.kill(p.pid, signal.SIGKILL)
    p.communicate()
    (workspace() / "ready").unlink()


@test
def what_a_killed_run_left_is_judged_and_told_before():
    """Taken out of the place or, where it may be the owner's own, told; and looked at by its owner, before the place is believed."""
    killed_run(0.3)
    assert wait_until(lambda: not (workspace() / ".envrc").exists(), 20)
    refused(workspace(), "judged and told")
    assert "killed" in plant("true").errors  # it is told
    refused(workspace(), "in quarantine")
    assert taken()
    forgotten(workspace())
    killed_run(0)
    refused(workspace(), "judged and told")
    assert ".envrc" in plant("true").errors
    if not (workspace() / ".envrc").exists():
        assert taken()
    forgotten(workspace())


@test
def what_lies_in_quarantine_is_looked_at_first():
    inner, beside = folder("inner", workspace()), folder("beside")
    plant("echo evil > .envrc", cwd=inner)
    plant("true")
    plant("true", "--write", beside)
    refused(inner, "in quarantine")
    refused(workspace(), "in quarantine")
    forgotten(beside)  # nothing was taken from there
    assert brig("quarantine", "clear", "--all").status == 0
    (workspace() / ".brig-quarantine-x").write_text("")  # what could not be moved to another file system
    refused(workspace(), ".brig-quarantine-x")
    (workspace() / ".brig-quarantine-x").unlink()
    forgotten(inner)
    forgotten(workspace())


@test
def a_command_takes_nothing_back():
    """Not with brig, in whatever folder; not by the notes, which are nowhere; and no setting shows them."""
    place = folder("place")
    file = settings(place)
    plant("true", "--write", place)
    before = notes()
    own = brig_path().parent
    for at in (place, workspace()):
        brig("run", "--write", place, "--read", own, "--", "sh", "-c",
             f"for s in {state()} $HOME/.local/state /var/lib; do XDG_STATE_HOME=$s {own}/brig exposed forget {at} --yes; rm -rf $s/brig/exposed; done")
    for grant in ("--write", "--read"):
        for at in (state(), state() / "brig", state() / "brig/exposed"):
            done = brig("run", grant, at, "--", "sh", "-c", f"rm -rf {state()}/brig/exposed/*")
            assert done.status != 0 or before.items() <= notes().items(), done
    assert before.items() <= notes().items() and not obeyed(file)


@test
def a_link_of_a_commands_does_not_say_which_place_is_meant():
    secret = folder("secret")
    plant("true", "--write", secret)
    plant(f"ln -s {secret} link")
    own = scratch() / "own"
    own.symlink_to(secret)
    done = forget(workspace() / "link")
    assert done.status == 125 and "by a link" in done.errors and f"name what it leads to: {secret}" in done.errors, done
    forgotten(own)  # one of the user's is followed


@test
def it_asks_and_says_what_it_means_and_leaves_brigs_own_alone():
    place = folder("place")
    plant("true", "--write", place)
    before = notes()
    done = brig("exposed", "forget", place)
    assert done.status == 125 and "counts as your own" in done.text and "--yes" in done.errors and notes() == before, done
    done = brig("exposed", "--json")
    row = next(r for r in done.json["exposed"] if r["path"] == str(place))
    assert row["as"] == ["--write"] and row["there"] and row["same"] and row["since"].startswith("20"), row
    assert str(place) in brig("exposed").text
    for at, word in ((state() / "brig/exposed", "brig's own"), (home() / "none", "not noted"), (scratch(), "not noted")):
        refused(at, word)
    forgotten(place)
    assert not [r for r in brig("exposed", "--json").json["exposed"] if r["path"] == str(place)]
    assert '"forget"' in brig("audit", "tail", "--no-follow", "--json").text or "forget" in brig("audit", "export").text


if __name__ == "__main__":
    sys.exit(main())
