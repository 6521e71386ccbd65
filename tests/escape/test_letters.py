#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Names in other letters, where a file system takes them for the same and the kernel does not know: a cover lies over one name alone.

The control is such a cover in a plain namespace, past which the file is written; the oracle is the file."""

import contextlib
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import UNSHARED  # noqa: E402
from harness import brig, files_as_root, main, scratch, test, uid, wait_until, workspace  # noqa: E402

SERVER = pathlib.Path(__file__).with_name("letters_fs.py")
WORDS = "has other names on its file system"


@contextlib.contextmanager
def letters(*more):
    """A repository on such a file system."""
    folder = scratch() / "letters"
    with files_as_root():
        folder.mkdir()
        # root's own would have to be mapped, which not every kernel can here
        server = subprocess.Popen(["/usr/bin/python3", SERVER, folder, str(uid() or 4343), *more], stdout=subprocess.PIPE)
        try:
            assert server.stdout.readline() == b"ready\n"
            yield folder / "p"
        finally:
            wait_until(lambda: subprocess.run(["umount", folder], check=False, capture_output=True).returncode == 0)
            server.wait(timeout=10)
            server.stdout.close()
            folder.rmdir()


def refused(p, cover):
    """No run begins there, and nothing is written past `cover`, a file or a folder, in the letters that the control uses."""
    config, other = p / ".git/config", pathlib.Path(".GIT/CONFIG" if cover.endswith(".git") else ".git/CONFIG")
    before = config.read_bytes()
    as_them = () if not uid() else ("setpriv", f"--reuid={uid()}", f"--regid={uid()}", "--clear-groups", "--")
    words = f'mount --bind {cover} {cover}; mount -o remount,ro,bind {cover}; echo 1 >>.git/config; echo "#" >>{other}'
    done = subprocess.run([*as_them, *UNSHARED, "sh", "-c", words], cwd=p, capture_output=True, text=True, check=False)
    assert "Read-only" in done.stderr and config.read_bytes() == before + b"#\n", (done, "the control proves nothing")
    for backend in ("native", "bwrap"):
        done = brig("run", "--backend", backend, "--", "sh", "-c", f"echo '# attack' >>{other}; echo written", cwd=p)
        assert done.status == 125 and WORDS in done.errors and not done.stdout, (backend, done.text, done.errors)
        if uid():  # root's run would show it through a map
            done = brig("run", "--backend", backend, "--write", p, "--read", p / "file", "--", "sh", "-c", f"echo x >>{p}/FILE")
            assert done.status == 125 and WORDS in done.errors, (backend, done.errors)
    assert b"attack" not in config.read_bytes() and (p / "file").read_bytes() == b"mine\n"


@test(by_root=True)
def a_cover_that_other_letters_lead_past_refuses_the_run():
    with letters() as p:
        refused(p, ".git/config")
        assert brig("run", "--policy", "readonly", "--", "cat", ".GIT/HEAD", cwd=p).status == 0, "there is nothing to be covered"
        done = brig("run", "--", "true", cwd=p.parent / "plain")
        assert done.status == 125 and WORDS in done.errors and [f.name for f in (p.parent / "plain").iterdir()] == ["file"], done.errors


@test(by_root=True)
def and_so_where_each_spelling_has_a_number_of_its_own():
    """Then folders are led past as well."""
    with letters("apart") as p:
        assert (p / ".git").stat().st_ino != (p / ".GIT").stat().st_ino
        refused(p, ".git")
        if uid():
            done = brig("run", "--policy", "readonly", "--git", "none", "--", "cat", ".GIT/config", cwd=p)
            assert done.status == 125 and WORDS in done.errors, (done.text, done.errors)


def led_past(folder, name, other):
    """A cover over `name` in a plain namespace: what `other` gets done there."""
    words = f"mount --bind {name} {name} && mount -o remount,ro,bind {name}; echo x >>{name}; echo attack >>{other}"
    as_them = () if not uid() else ("setpriv", f"--reuid={uid()}", f"--regid={uid()}", "--clear-groups", "--")
    done = subprocess.run([*as_them, *UNSHARED, "sh", "-c", words], cwd=folder, capture_output=True, text=True, check=False)
    return "Read-only" in done.stderr and "attack" in (folder / name).read_text()


@test(by_root=True)
def a_folder_in_which_nothing_is_yet_is_refused_when_a_name_is_held():
    """Until then there is no name that would tell."""
    with letters() as p:
        empty = p.parent / "empty"
        with files_as_root():
            (empty / ".vscode").write_text("mine\n")
        assert led_past(empty, ".vscode", ".VSCODE"), "the control proves nothing"
        with files_as_root():
            (empty / ".VSCODE").unlink()
        for backend in ("native", "bwrap"):
            done = brig("run", "--backend", backend, "--", "sh", "-c", "rm -f .VSCODE; echo {} >.VSCODE; echo written", cwd=empty)
            assert done.status == 125 and WORDS in done.errors and not done.stdout, (backend, done.text, done.errors)
            assert not list(empty.iterdir()), list(empty.iterdir())


@test(by_root=True)
def a_cover_that_a_short_name_leads_past_refuses_the_run():
    with letters("short") as p:
        settings = p.parent / "brief/.vscode"
        assert not settings.with_name(".VSCODE").exists() and led_past(settings.parent, ".vscode", "VSCODE~1"), "the control proves nothing"
        before = settings.read_bytes()
        for backend in ("native", "bwrap"):
            done = brig("run", "--backend", backend, "--", "sh", "-c", "echo again >VSCODE~1; echo written", cwd=settings.parent)
            assert done.status == 125 and WORDS in done.errors and not done.stdout, (backend, done.text, done.errors)
            done = brig("run", "--backend", backend, "--", "true", cwd=p)
            assert done.status == 125 and WORDS in done.errors, (backend, done.text, done.errors)
        assert settings.read_bytes() == before


@test
def a_second_name_in_other_letters_is_a_name_like_any_other():
    """Here letters differ: nothing is refused for a file that is called so."""
    (workspace() / ".envrc").write_text("mine\n")
    (workspace() / ".ENVRC").write_text("mine, too\n")
    done = brig("run", "--", "sh", "-c", "echo x >.ENVRC; echo y >.envrc")
    assert done.status != 125 and WORDS not in done.errors, done.errors
    assert (workspace() / ".envrc").read_text() == "mine\n"
    for name in (".envrc", ".ENVRC"):
        (workspace() / name).unlink()


if __name__ == "__main__":
    sys.exit(main())
