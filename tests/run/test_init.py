#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`brig init`, as a clumsy user meets it and as a hostile project does."""

import fcntl
import json
import os
import pathlib
import pty
import select
import shutil
import signal
import sys
import termios
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import PATIENCE, brig, home, main, scratch, start_brig, state, test, tree, workspace  # noqa: E402

FILE = ".brig.yaml"


def file():
    return workspace() / FILE


def touch(*names):
    for name in names:
        (workspace() / name).touch()


def settings(text=None):
    """The lines that are no comments."""
    return [line.split("  #")[0].rstrip() for line in (text or file().read_text()).splitlines() if line and not line.startswith("#")]


def refused(done, *words):
    assert done.status == 125, (done.status, done.text, done.errors)
    for word in words:
        assert word in done.errors, f"'{word}' is not in {done.errors}"
    assert "hint: " in done.errors, done.errors


class Talk:
    """brig init at a terminal, and this test at the keyboard."""

    def __init__(self, *args):
        self.master, slave = pty.openpty()
        self.seen = b""
        self.process = start_brig("init", *args, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                  preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)

    def until(self, word):
        end = time.monotonic() + 10 * PATIENCE
        while word not in self.seen:
            assert time.monotonic() < end and self.read(), f"no {word} in {self.seen.decode()}"
        self.seen = self.seen.partition(word)[2]

    def read(self):
        if select.select([self.master], [], [], 0.2)[0]:
            try:
                self.seen += os.read(self.master, 65536)
            except OSError:
                return False
        return True

    def say(self, question, answer):
        self.until(question)
        os.write(self.master, answer)

    def end(self):
        while self.process.poll() is None and self.read():
            pass
        status = self.process.wait(10 * PATIENCE)
        while select.select([self.master], [], [], 0)[0] and self.read():
            pass
        os.close(self.master)
        return status if status >= 0 else 128 - status


# ---- what it writes ----


@test
def a_file_fits_what_is_found_and_a_run_uses_it():
    touch("package.json", "pyproject.toml", "CLAUDE.md", "pom.xml")
    done = brig("init", "--yes")
    assert done.status == 0, done.errors
    assert "brig wrap claude" in done.text and "brig run -- npm install" in done.text and "trusted as it is now" in done.text, done.text
    assert settings() == ["brig: 1", "policy: workspace_write", "network: proxy", "egress:", "  allow:", "    - GET,HEAD *.npmjs.org", "    - POST *.npmjs.org/-/npm/v1/security/", "    - GET,HEAD *.yarnpkg.com",
                          "    - POST *.yarnpkg.com/-/npm/v1/security/", "    - GET,HEAD pypi.org",
                          "    - GET,HEAD *.pythonhosted.org"], settings()
    assert "# Found here: package.json (Node), pyproject.toml (Python), pom.xml (Java), CLAUDE.md (Claude Code).\n" in file().read_text()
    assert brig("config", "check", FILE).text.startswith(".brig.yaml: ok"), "config check"
    shown = brig("config", "show", "--origin", "--json").json
    assert shown["network"] == "proxy" and "project" in json.dumps(shown["origin"]["network"]), shown
    assert brig("run", "--", "sh", "-c", "echo $((6*7))").text == "42\n"
    # One changed byte, and it is a file that nobody trusts.
    file().write_text(file().read_text() + "# more\n")
    refused(brig("run", "--", "true"), "brig allow")


@test
def a_registry_of_the_projects_own_is_a_line_for_the_user():
    touch("package.json", "yarn.lock", ".yarnrc.yml")
    (workspace() / ".yarnrc.yml").write_text("npmRegistryServer: https://registry.evil.example\n")
    done = brig("init", "--yes")
    assert done.status == 0, done.errors
    text = file().read_text()
    assert "evil" not in text + done.text + done.errors, text
    assert "    # .yarnrc.yml may name another registry: if so, its host is one more line, - GET,HEAD HOST\n" in text, text
    # The line, as it is told, in its place.
    file().write_text(text.replace("    # .yarnrc.yml may", "    - GET,HEAD registry.own.example\n    # .yarnrc.yml may"))
    assert brig("config", "check", FILE).text.startswith(".brig.yaml: ok") and "registry.own.example" in brig("config", "show", "--config", FILE).text
    (workspace() / ".yarnrc.yml").unlink()
    assert brig("init", "--yes", "--force").status == 0 and "another registry" not in file().read_text()


@test
def a_project_that_says_nothing_gets_no_network_and_needs_no_trust():
    done = brig("init", "--yes", "--json")
    assert done.status == 0, done.errors
    r = done.json
    assert (r["written"], r["allowed"], r["markers"], r["groups"], r["agent"]) == (True, False, [], [], None), r
    assert r["content"] == file().read_text() and r["doctor"]["ready"] and {b["name"] for b in r["backends"]} == {"native", "bwrap", "docker"}
    assert settings() == ["brig: 1", "policy: workspace_write", "network: none"]
    assert not (state() / "brig/trusted").exists()
    assert brig("run", "--", "true").status == 0


@test
def options_choose_and_what_was_not_asked_is_not_trusted():
    touch("Cargo.toml")
    done = brig("init", "--yes", "--network", "proxy", "--allow", "@git", "--allow", "GET api.example.org/v1/", "--backend", "native", "--agent", "codex", "--no-allow")
    assert done.status == 0 and "[fail]" not in done.text and "brig allow" in done.text.split("next:")[1], done.text  # asked for, so no fault
    assert settings() == ["brig: 1", "policy: workspace_write", "network: proxy", "egress:", "  allow:", '    - "@git"', '    - "GET api.example.org/v1/"', "backend: native"]
    refused(brig("run", "--", "true"), "brig allow")
    assert brig("allow").status == 0 and brig("run", "--json", "--", "true").json["backend"] == "native"
    done = brig("init", "--yes", "--force", "--network", "none", "--agent", "none")
    assert done.status == 0 and "network: none" in settings() and "wrap" not in done.text.split("next:")[1]
    assert brig("run", "--", "true").status == 0


@test
def the_next_step_is_one_that_works_there():
    def steps(*words):
        done = brig("init", "--yes", "--force", *words)
        assert done.status == 0, done.errors
        return [line.strip() for line in done.text.split("next:\n")[1].splitlines()]

    assert steps() == ["brig shell", "brig examples list"], "nothing is known about an empty folder"
    touch("requirements.txt")
    # Debian's pip refuses to install outside of a virtual environment.
    assert steps()[0] == "brig run -- sh -c 'python3 -m venv .venv && .venv/bin/pip install -r requirements.txt'"
    assert steps("--network", "none")[0] == "brig shell", "nothing can be installed without a network"
    touch("Makefile")
    assert steps("--network", "none")[0] == "brig run -- make"


@test
def every_marker_gives_a_file_that_is_right():
    names = ("Cargo.toml", "go.mod", "Gemfile", "composer.json", "CMakeLists.txt", "Makefile", "build.gradle", "requirements.txt", "opencode.json", "AGENTS.md",
             ".aider.conf.yml", "mix.exs", "yarn.lock", "uv.lock")
    touch(*names)
    for name in (".codex", ".gemini"):
        (workspace() / name).mkdir()
    r = brig("init", "--dry-run", "--json").json
    assert set(r["markers"]) == {*names, ".codex/", ".gemini/"} and set(r["groups"]) == {"npm", "pypi", "crates", "go"} and r["agent"] == "codex", r
    (scratch() / "try.yaml").write_text(r["content"])
    assert brig("config", "check", scratch() / "try.yaml").status == 0


# ---- asking ----


@test
def a_talk_at_a_terminal():
    touch("package.json")
    t = Talk()
    t.say(b"[packages]: ", b"pypi\n")  # a group without its @
    t.until(b"hint: ")
    t.say(b"[packages]: ", b"@pypi api.example.org\n")
    t.say(b"[auto]: ", b"nativ\n")
    t.say(b"[auto]: ", b" native \n")
    t.say(b"[direct]: ", b"layer\n")
    t.say(b"[direct]: ", b"overlay\n")
    t.say(b"[y/N]: ", b"y\n")
    t.until(b"backend: native\r\nhome: keep\r\nworkspace:\r\n  mode: overlay\r\n\r\nwrite this")  # no remarks: the questions stay on the screen
    t.say(b"[Y/n]: ", b"what\n")
    t.say(b"[Y/n]: ", b"\n")
    assert t.end() == 0 and b"wrote " in t.seen, t.seen
    assert settings()[2:] == ["network: proxy", "egress:", "  allow:", '    - "@pypi"', '    - "api.example.org"', "backend: native", "home: keep", "workspace:", "  mode: overlay"], settings()


@test
def no_and_the_end_of_input_and_ctrl_c_leave_nothing():
    touch("package.json")
    before = tree(workspace())
    for question, answer, status, said in ((b"[Y/n]: ", b"n\n", 1, b"nothing was written"), (b"[packages]: ", b"\x04", 1, b"nothing was written"),
                                           (b"[auto]: ", b"\x04", 1, b"nothing was written"), (b"[packages]: ", b"\x03", 130, b""), (b"[Y/n]: ", b"\x03", 130, b""),
                                           (b"[packages]: ", b"%" * 3000 + b"\n" + b"?\n" * 2, 1, b"three answers")):
        t = Talk()
        for q in (b"[packages]: ", b"[auto]: ", b"[direct]: ", b"[y/N]: ", b"[Y/n]: "):
            t.say(q, answer if q == question else b"\n")
            if q == question:
                break
        got = t.end()
        assert got == status and said in t.seen, (question, answer, got, t.seen)
        assert tree(workspace()) == before, (question, answer)
    assert not (state() / "brig/trusted").exists()


@test
def without_a_terminal_nothing_is_asked_and_nothing_written():
    touch("go.mod")
    for words, status in (((), 1), (("--json",), 1), (("--dry-run",), 0), (("--dry-run", "--yes"), 0)):
        done = brig("init", *words, input=b"packages\n\ny\n")
        assert done.status == status and not file().exists(), (words, done.status, done.errors)
        text = done.json["content"] if "--json" in words else done.text
        # Not all of it: that proxy asks any server that a module's path names.
        assert "GET,HEAD proxy.golang.org/github.com/" in text and "proxy.golang.org " not in text and text.startswith("# Settings of brig"), text  # the file alone: it can be sent somewhere
    assert "brig init --yes" in brig("init").errors


# ---- a clumsy user ----


@test
def what_is_there_is_left_alone():
    file().write_text("policy: readonly\n")
    refused(brig("init", "--yes"), "'.brig.yaml' exists already and was left as it is", "--force")
    assert file().read_text() == "policy: readonly\n"
    assert brig("init", "--yes", "--force").status == 0 and "brig: 1" in file().read_text()
    assert (file().stat().st_mode & 0o777, sorted(os.listdir(workspace()))) == (0o644, [FILE])


@test
def a_file_of_the_repository_above_is_told_of():
    (workspace() / ".git").mkdir()
    (workspace() / "part").mkdir()
    file().write_text("policy: readonly\n")
    done = brig("init", "--yes", cwd=workspace() / "part")
    assert done.status == 0 and f"until now '{file()}' holds here" in done.errors, done.errors
    assert file().read_text() == "policy: readonly\n" and (workspace() / "part" / FILE).exists()
    (workspace() / "part" / FILE).unlink()
    file().unlink()
    assert "until now" not in brig("init", "--yes", cwd=workspace() / "part").errors


@test
def a_home_folder_is_no_project():
    for folder in (home(), home().parent, "/"):
        refused(brig("init", "--yes", cwd=folder), "your home folder, which is no project", "cd to a project")
    assert not (home() / FILE).exists()


@test
def folders_of_all_kinds():
    controls = workspace() / "a\n\x1b[31m"
    controls.mkdir()
    done = brig("init", "--yes", cwd=controls)
    refused(done, "has a control character")
    assert "\x1b" not in done.text + done.errors and not list(controls.iterdir())
    odd = workspace() / "a b'\"#: - {é}"
    odd.mkdir()
    shutil.chown(odd, workspace().stat().st_uid, workspace().stat().st_gid)
    done = brig("init", "--yes", cwd=odd)
    assert done.status == 0 and "\x1b" not in done.text and (odd / FILE).exists(), done.text
    assert brig("run", "--", "true", cwd=odd).status == 0
    assert brig("init", "--yes", odd, "--force", cwd=scratch()).status == 0  # named
    for words, said in ((("no/such",), "cannot enter"), (("a", "b"), "no more than one folder"), (("--yess",), "did you mean '--yes'?"), (("--backend",), "needs a value"),
                        (("--backend", "none"), "no backend that init sets up"), (("--network", "host"), "none, packages or proxy"), (("--network", "proxy"), "--allow HOST"),
                        (("--network", "packages"), "nothing here says"), (("--agent", "hal"), "no agent that brig knows"), (("--allow", "http://x.org"), "without a scheme"),
                        (("--base", "x"), "--image --base"), (("--network", "none", "--allow", "x.org"), "exclude each other"), (("--image", "--backend", "bwrap"), "needs a backend that runs images")):
        refused(brig("init", *words), said)
    many = workspace() / "many"
    many.mkdir()
    for i in range(3000):
        os.mkdir(many / f"package.json.{i}")
    assert brig("init", "--yes", cwd=many).status == 0
    assert "network: none" in (many / FILE).read_text()


@test(as_user="user")
def a_folder_that_cannot_be_written_is_told_before_anything_is_asked():
    workspace().chmod(0o555)
    try:
        refused(brig("init", "--yes"), "cannot write in this folder: Permission denied", "--dry-run prints the file")
        assert brig("init", "--dry-run").status == 0
    finally:
        workspace().chmod(0o755)
    assert tree(workspace()) == {}


@test
def the_umask_holds():
    p = start_brig("init", "--yes", preexec_fn=lambda: os.umask(0o077))
    assert p.communicate() and p.returncode == 0
    assert file().stat().st_mode & 0o777 == 0o600


# ---- a hostile project ----


@test
def markers_are_looked_at_by_name_alone():
    """A FIFO would hold a reader up for ever, a link to /dev/zero would fill its memory; neither is opened."""
    os.mkfifo(workspace() / "package.json")
    (workspace() / "go.mod").mkdir()
    (workspace() / "Cargo.toml").symlink_to("/dev/zero")
    (workspace() / "pyproject.toml").write_bytes(b"\xff\x00\x1b]0;evil\x07\n---\nnetwork: host\n")
    (workspace() / "pyproject.toml").chmod(0)
    (workspace() / ".claude").touch()  # not a folder
    (workspace() / "package.json\nnetwork: host").touch()
    (workspace() / "AGENTS.md # \x1b[2J").touch()
    r = brig("init", "--yes", "--json").json
    assert r["markers"] == ["pyproject.toml", "Cargo.toml"] and r["agent"] is None, r  # a link counts by its name; what it leads to is not asked
    assert "evil" not in file().read_text() and "network: host" not in file().read_text()
    assert all(c == "\n" or c.isprintable() for c in file().read_text())
    assert "    - GET,HEAD crates.io" in settings() and brig("run", "--", "true").status == 0


@test
def nothing_is_written_through_a_link_or_into_a_pipe():
    victim = scratch() / "victim"
    for make in (lambda: file().symlink_to(victim), lambda: (victim.write_text("mine"), file().symlink_to(victim)), lambda: os.mkfifo(file()), lambda: file().mkdir()):
        make()
        before = tree(workspace())
        refused(brig("init", "--yes"), "exists already")
        refused(brig("init", "--yes", "--force"), "not a plain file")
        assert tree(workspace()) == before
        assert not victim.exists() or victim.read_text() == "mine"
        file().rmdir() if file().is_dir() and not file().is_symlink() else file().unlink()


@test
def who_is_first_keeps_the_name():
    """Somebody in the project makes the file, or a link, at any moment: it is never overwritten, and what init trusts is what init wrote."""
    victim = scratch() / "victim"
    victim.write_text("mine")
    stop, won = threading.Event(), []

    def attack():
        turn = 0
        while not stop.is_set():
            turn += 1
            try:
                if turn % 2:
                    os.symlink(victim, file())
                else:
                    os.close(os.open(file(), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
                won.append(file().lstat().st_ino)
                os.unlink(file()) if file().lstat().st_ino == won[-1] else None
            except OSError:
                pass

    t = threading.Thread(target=attack)
    t.start()
    try:
        seen = set()
        for _ in range(12):
            touch("package.json")
            done = brig("init", "--yes", "--no-allow")
            seen.add(done.status == 125)
            assert done.status in (0, 1, 125) and (done.status != 125 or "exists already" in done.errors), done.errors
            try:
                if file().lstat().st_size > 500:
                    os.unlink(file())
            except OSError:
                pass
    finally:
        stop.set()
        t.join()
    assert victim.read_text() == "mine" and won and seen  # the attacker had his turns
    assert not [n for n in os.listdir(workspace()) if n.startswith(".brig-")]


@test
def what_is_trusted_is_what_was_written_not_what_is_there():
    touch("package.json")
    assert brig("init", "--yes").status == 0
    good = file().read_text()
    file().write_text(good.replace("network: proxy", "network: host"))
    refused(brig("run", "--", "true"), "brig allow")
    file().write_text(good)
    assert brig("run", "--", "true").status == 0
    recorded = brig("audit", "export", "-f", "jsonl").text.splitlines()
    assert [line for line in recorded if "allow" in line and FILE in line], recorded


@test
def a_kill_in_the_middle_leaves_no_half_of_it():
    touch("package.json")
    whole = brig("init", "--dry-run").text
    for i in range(12):
        p = start_brig("init", "--yes", "--force")
        time.sleep(0.01 * i)
        p.send_signal(signal.SIGTERM)
        p.communicate()
        assert not file().exists() or file().read_text() == whole
        assert not [n for n in os.listdir(workspace()) if n.startswith(".brig-")], os.listdir(workspace())


if __name__ == "__main__":
    sys.exit(main())
