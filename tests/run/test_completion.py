#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Completion in real shells: the name of a file, which a command in a sandbox chose, arrives as one word and as it is, and nothing of
it is executed."""

import os
import pathlib
import pty
import select
import shutil
import subprocess
import string
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import PATIENCE, brig, main, scratch, skip, test, workspace  # noqa: E402

# What each sign of the keyboard means to one shell or another, and whole commands.
NAMES = [f"n{i:02}{sign}z" for i, sign in enumerate(string.punctuation.replace("/", "") + " \t")] + [
    "nx0$(id>pwned)", "nx1`id>pwned`", "nx2;id>pwned", "nx3&&id>pwned", "nx4|id>pwned", "nx5\nid>pwned", "nx6$IFS", "nx7{a,b}", "nx8 -- --write ~", "nx9é"]

# How each is made ready: its completion, and a brig that tells its words.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source {script}; brig() {{ printf '%s\\0' \"$@\" > {words}.new; mv {words}.new {words}; }}\n"),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit; compinit -D; source {script} 2> /dev/null; compdef _brig brig; brig() {{ printf '%s\\0' \"$@\" > {words}.new; mv {words}.new {words} }}\n"),
    "fish": (["fish", "--no-config", "-i"], "source {script}; function brig; printf '%s\\0' $argv > {words}.new; mv {words}.new {words}; end\n"),
}


class Shell:
    def __init__(self, name):
        argv, setup = SHELLS[name]
        self.words = scratch() / "words"
        script = scratch() / "script"
        script.write_bytes(brig("completion", name).stdout)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(workspace())
            os.execvpe(argv[0], argv, {"PATH": "/usr/bin:/bin", "HOME": str(scratch()), "TERM": "dumb", "LANG": "C.UTF-8", "PS1": "ready> ", "XDG_RUNTIME_DIR": str(scratch())})
        self.pause = 0.15 if name == "fish" else 0.01  # fish forgets what was typed while it completes
        self.drain(0.3)
        os.write(self.fd, setup.format(script=script, words=self.words).encode())
        assert self.told("brig ready\n") == ["ready"], "control"

    def drain(self, seconds):
        end, out = time.monotonic() + seconds, b""
        while (left := end - time.monotonic()) > 0:
            if select.select([self.fd], [], [], left)[0]:
                try:
                    out += os.read(self.fd, 65536)
                except OSError:
                    break
        return out

    def told(self, text):
        """The words that brig gets once this was typed; bytes: what is on the screen, as it got none."""
        os.write(self.fd, text.encode())
        shown, end = b"", time.monotonic() + 5 * PATIENCE
        while time.monotonic() < end:
            if self.words.exists():
                return self.words.read_bytes().decode().split("\0")[:-1]
            shown += self.drain(0.01)
        return shown

    def completed(self, line):
        self.words.unlink(missing_ok=True)
        os.write(self.fd, (line + "\t").encode())
        self.drain(self.pause)
        return self.told("\n")

    def end(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)
        for left in pathlib.Path("/tmp").glob("fish.*"):
            shutil.rmtree(left)


def complete_all(name):
    if not shutil.which(name):
        skip(f"no {name} here")
    done = brig("run", "--", "sh", "-c", 'for n; do : > "$n"; done', "sh", *NAMES)
    assert done.status == 0, done.errors
    before = sorted(os.listdir(workspace()))
    shell = Shell(name)
    try:
        for line, want in (("run --network pro", ["run", "--network", "proxy"]), ("run --set limits.kill", ["run", "--set", "limits.kill_after="]), ("wrap gem", ["wrap", "gemini"]),
                           *([] if name == "fish" else [("run -- setpri", ["run", "--", "setpriv"])])):
            assert (got := shell.completed(f"brig {line}")) == want, got
        for one in NAMES:
            got = shell.completed(f"brig run --read {one[:3]}")
            assert sorted(os.listdir(workspace())) == before, (one, got)
            # A line feed ends a name for bash's compgen, and a tab for fish: half of it is no file, and no command.
            assert "\n" in one or "\t" in one or got == ["run", "--read", one], (one, got)
    finally:
        shell.end()


@test(limit=120, as_user="user")
def bash_takes_names_as_they_are():
    complete_all("bash")


@test(limit=120, as_user="user")
def zsh_takes_names_as_they_are():
    complete_all("zsh")


@test(limit=120, as_user="user")
def fish_takes_names_as_they_are():
    complete_all("fish")


@test(as_user="user")
def what_fits_behind_a_word_is_offered():
    """Names of sandboxes are others' to choose: what would mean something to the shell is left out."""
    (scratch() / "script").write_bytes(brig("completion", "bash").stdout)
    (scratch() / "brig").write_text("#!/bin/sh\nprintf 'ID NAME\\nsb_1 box\\nsb_2 x$(id>pwned)\\n'\n")
    (scratch() / "brig").chmod(0o755)
    (scratch() / "inner").mkdir()
    offers = 'source script; t() { COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _brig; echo "${COMPREPLY[*]}"; }; '
    for line, want in (("sandbox exec ''", "sb_1 box sb_2"), ("audit show ''", "last"), ("wrap ''", "claude codex gemini opencode aider"), ("wrap --dr", "--dry-run"),
                       ("run --set limits.kill", "limits.kill_after="), ("cache clear --", "--gone --tools --tool --all"), ("cache clear inn", "inner"),
                       ("run --credential gitl", "gitlab"), ("run --credential aw", "aws"), ("run --allow @np", "@npm"), ("learn -- setpri", "setpriv"), ("sandbox exec sb_1 -- setpri", "setpriv"),
                       ("learn -- x --polic", ""), ("mcp install codex -- --polic", "--policy")):
        done = subprocess.run(["bash", "-c", f"{offers} t brig {line}"], cwd=scratch(), env={"PATH": f"{scratch()}:/usr/bin:/bin"}, capture_output=True, text=True, check=False)
        assert " ".join(dict.fromkeys(done.stdout.split())) == want and not done.stderr, (line, done)  # a command may be in two folders
    assert not (scratch() / "pwned").exists()


if __name__ == "__main__":
    sys.exit(main())
