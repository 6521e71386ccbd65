#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`brig wrap` with coding agents as their vendors ship them, and a model by script behind the door.

Each completes a task with tools of its own, and has a placeholder for a key. package.json pins them: opencode at the
newest version whose package every platform has."""

import base64
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
import time

import pyte

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "escape"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "egress"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from attack import as_identity  # noqa: E402
from door import Web, root  # noqa: E402
from harness import PATIENCE, brig, brig_environment, files_as_root, main, scratch, start_brig, test, workspace  # noqa: E402
from models import DONE, Model  # noqa: E402

HERE = pathlib.Path(__file__).parent
# Where they are: those of the day, which `fetch-newest` has brought, or those that package.json pins.
NEWEST = os.environ.get("BRIG_AGENTS")
FOLDER = pathlib.Path(NEWEST or subprocess.run([HERE / "fetch", "--where"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip())
KEY = "sk-proj-zq8Gk2vTn41Lw0bYd7RmPx5"
# What it can see of a key, its own memory apart, and a commit.
TASK = "env > env; cat /proc/[0-9]*/environ > environ 2>/dev/null; cat /proc/[0-9]*/cmdline > cmdline 2>/dev/null; echo made > made; git add made; git commit -qm made"


class Scripted(Model):
    command_line = TASK


def install(*names):
    """The packages of one vendor, where an ordinary user can reach them."""
    with files_as_root():
        to = scratch() / "npm/node_modules"
        to.mkdir(parents=True)
        for name in (*names, ".bin"):
            if subprocess.run(["cp", "-al", FOLDER / "node_modules" / name, to / name], stderr=subprocess.DEVNULL, check=False).returncode:
                shutil.rmtree(to / name, ignore_errors=True)
                subprocess.run(["cp", "-a", FOLDER / "node_modules" / name, to / name], check=True)
    (scratch() / "cache").mkdir()
    return {"PATH": f"{to}/.bin:{brig_environment()['PATH']}", "XDG_CACHE_HOME": str(scratch() / "cache")}


def git(*words):
    return subprocess.run(as_identity(["git", *words]), cwd=workspace() / "repo", capture_output=True, text=True, check=True).stdout


def repository():
    (workspace() / "repo").mkdir()
    for words in (("init", "-q"), ("config", "user.name", "n"), ("config", "user.email", "n@example.org"), ("commit", "-q", "--allow-empty", "-m", "begin")):
        git(*words)
    return workspace() / "repo"


def work(host, field, env, *words, handler=Scripted):
    """Wrap it, let it do the task, and look at what the vendor's host was sent."""
    with Web(host, handler=handler) as web:
        web.asked = []
        done = brig("wrap", "--set", f"egress.resolve={host}=127.0.0.1:{web.port}", "--set", f"egress.roots={root()}/ca.pem", *words, env=env, cwd=workspace() / "repo", timeout=120)
        assert done.status == 0 and DONE in done.text, (done.status, done.text, done.errors)
        calls = [c for c in web.asked if c[2].get("model") or c[2].get("contents")]
        assert len(calls) >= 2 and all(KEY in fields.get(field, "") for _, fields, _ in calls), [(p, f) for p, f, _ in calls]
        assert not any(KEY in json.dumps(body) for _, _, body in calls)
    return done


def the_key_is_nowhere(folder, name):
    assert f"{name}=brig-" in (folder / "env").read_text()
    with files_as_root():
        places = [p for top in (folder, scratch() / "cache") for p in top.rglob("*") if p.is_file() and not p.is_symlink()]
        assert len(places) > 4 and [p for p in places if KEY.encode() in p.read_bytes()] == []


@test(as_user="user")
def the_agents_are_those_that_are_pinned():
    if NEWEST:
        return
    for name, version in json.loads((HERE / "package.json").read_text())["dependencies"].items():
        with files_as_root():
            assert json.loads((FOLDER / "node_modules" / name / "package.json").read_text())["version"] == version, name


@test(as_user="user", limit=120)
def claude_completes_a_task_and_has_no_key():
    env, top = {**install("@anthropic-ai"), "ANTHROPIC_API_KEY": KEY}, repository()
    work("api.anthropic.com", "x-api-key", env, "claude", "-p", "--dangerously-skip-permissions", "make it")
    assert (top / "made").read_text() == "made\n" and git("log", "--format=%s") == "made\nbegin\n"
    the_key_is_nowhere(top, "ANTHROPIC_API_KEY")


class Plain(Model):
    command_line = "echo made > made"


class Painted(pyte.Screen):
    def select_graphic_rendition(self, *attributes, private=False):
        if not private:  # a question of some terminals', which pyte takes for a colour
            super().select_graphic_rendition(*attributes)


class Keyboard:
    """A terminal with brig in its foreground, and the screen that its user sees."""

    ASKS = re.compile(rb"\x1b\[[<>=?][0-9;:]*[a-zA-Z]")  # of this terminal alone, and no letters on it

    def __init__(self, *words, **how):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.seen = ""
        self.screen = Painted(120, 40)
        self.painter = pyte.ByteStream(self.screen)
        self.process = start_brig(*words, stdin=self.slave, stdout=self.slave, stderr=self.slave, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), **how)

    def until(self, *words):
        """Read on until one of these was written, or is on the screen, blanks and escapes aside; which. A busy program paints a word letter by letter."""
        end = time.monotonic() + 30 * PATIENCE
        while not (found := [w for w in words if w in self.seen or w in self.painted()]):
            assert time.monotonic() < end and self.process.poll() is None, f"none of {words} in {self.seen}, nor in {self.painted()}"
            if select.select([self.master], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    new = os.read(self.master, 65536)
                    self.painter.feed(self.ASKS.sub(b"", new))
                    self.seen += re.sub(r"\x1b\[[0-9;?<>=]*[a-zA-Z]|\s", "", new.decode(errors="replace"))
        return found[0]

    def painted(self):
        return "".join("".join(self.screen.display).split())

    def type(self, text):
        """What was seen before is forgotten."""
        self.seen = ""
        os.write(self.master, text)

    def end(self):
        self.process.terminate()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@test(as_user="user", limit=120)
def claude_at_a_terminal_asks_nothing_that_brig_can_answer():
    """No .claude in the project, a key that it has never seen: neither makes it ask. Whether the folder is trusted, and each command, stay questions."""
    env, top, host = {**install("@anthropic-ai"), "ANTHROPIC_API_KEY": KEY, "TERM": "xterm-256color", "HOME": str(scratch() / "own")}, repository(), "api.anthropic.com"
    (scratch() / "own").mkdir()
    (scratch() / "own/.claude.json").write_text(json.dumps({"hasCompletedOnboarding": True, "theme": "dark"}))
    with Web(host, handler=Plain) as web:
        web.asked = []
        k = Keyboard("wrap", "--set", f"egress.resolve={host}=127.0.0.1:{web.port}", "--set", f"egress.roots={root()}/ca.pem", "claude", env=env, cwd=top)
        try:
            assert k.until("SettingsError", "APIkey", "trustthisfolder") == "trustthisfolder", k.seen
            assert (top / ".claude").is_dir() and not any((top / ".claude").iterdir())
            k.type(b"\r")
            assert k.until("SettingsError", "APIkey", "shortcuts") == "shortcuts", k.seen
            k.type(b"make it")
            k.until("makeit")
            k.type(b"\r")
            k.until("proceed?")
            k.type(b"\r")
            k.until("workisdone")
        finally:
            k.end()
        calls = [c for c in web.asked if c[2].get("model")]
        assert len(calls) >= 2 and all(fields.get("x-api-key") == KEY for _, fields, _ in calls), [(p, f) for p, f, _ in calls]
    assert (top / "made").read_text() == "made\n" and not (top / ".claude").exists()


@test(as_user="user", limit=120)
def codex_completes_a_task_on_a_branch_and_has_no_key():
    env, top = {**install("@openai"), "OPENAI_API_KEY": KEY}, repository()
    done = work("api.openai.com", "authorization", env, "--branch", "its-own", "codex", "exec", "-m", "some-model", "make it")
    own = workspace() / "repo.worktrees/its-own"
    assert (own / "made").read_text() == "made\n" and not (top / "made").exists()
    assert git("log", "--format=%s", "its-own") == "made\nbegin\n" and git("log", "--format=%s") == "begin\n"
    assert "sandbox: danger-full-access" in done.errors and "Reconnecting" not in done.errors, done.errors
    the_key_is_nowhere(own, "OPENAI_API_KEY")


def token(seconds):
    """As an identity provider makes them; `exp` is all that brig reads of it."""
    parts = ({"alg": "RS256"}, {"exp": int(time.time()) + seconds, "pad": "\u00ff?>"}, "signature-" + KEY)
    return ".".join(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts)


@test(as_user="user", limit=120)
def codex_completes_a_task_with_a_login_that_stays_outside():
    account, access, top = "0c7c93a6-1b1e-4ea0-9c1b-5d2d1be0a3c4", token(3600), repository()
    env = {**install("@openai"), "HOME": str(scratch() / "own"), "OPENAI_API_KEY": ""}
    (scratch() / "own/.codex").mkdir(parents=True)
    file = scratch() / "own/.codex/auth.json"
    file.write_text(json.dumps({"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "last_refresh": "2026-01-01T00:00:00Z",
                                "tokens": {"id_token": access, "access_token": access, "refresh_token": f"rt_{KEY}", "account_id": account}}))
    file.chmod(0o600)
    with Web("chatgpt.com", handler=Scripted) as web:
        web.asked = []
        done = brig("wrap", "--set", f"egress.resolve=chatgpt.com=127.0.0.1:{web.port}", "--set", f"egress.roots={root()}/ca.pem", "codex", "exec", "-m", "some-model", "make it",
                    env=env, cwd=top, timeout=120)
        assert done.status == 0 and DONE in done.text and "a run does not renew it" in done.errors, (done.status, done.text, done.errors)
        calls = [(path, fields) for path, fields, body in web.asked if body.get("model")]
        assert len(calls) >= 2 and {p for p, _ in calls} == {"/backend-api/codex/responses"}, calls
        assert all(f["authorization"] == f"Bearer {access}" and f["chatgpt-account-id"] == account for _, f in calls), calls
    assert (top / "made").read_text() == "made\n"
    seen = (top / "env").read_text()
    assert "CODEX_CHATGPT_TOKEN=brig-" in seen and "CODEX_CHATGPT_ACCOUNT=brig-" in seen
    with files_as_root():
        places = [p for t in (top, scratch() / "cache") for p in t.rglob("*") if p.is_file() and not p.is_symlink()]
        assert len(places) > 4 and [p for p in places if any(x.encode() in p.read_bytes() for x in (access, account, KEY))] == []


class Modest(Model):  # opencode asks before it reads /proc
    command_line = "env > env; echo made > made; git add made; git commit -qm made"


def at_a_terminal(host, env, top, *words, questions, handler=Scripted):
    """Ask it to make it, and say yes to whatever it asks on the way: (what is seen, what is typed). All that it showed."""
    shown = ""
    with Web(host, handler=handler) as web:
        web.asked = []
        k = Keyboard("wrap", "--set", f"egress.resolve={host}=127.0.0.1:{web.port}", "--set", f"egress.roots={root()}/ca.pem", *words, env={**env, "TERM": "xterm-256color"}, cwd=top)
        try:
            for seen, typed in questions:
                k.until(seen)
                shown += k.seen
                time.sleep(0.5)  # the screen is painted before the keys are read
                k.type(typed)
            k.until("workisdone")
            end = time.monotonic() + 30 * PATIENCE  # it may have asked for a title first
            while git("log", "-1", "--format=%s") != "made\n" and time.monotonic() < end:
                if select.select([k.master], [], [], 0.1)[0]:
                    os.read(k.master, 65536)
        finally:
            k.end()
    return shown


@test(as_user="user", limit=120)
def gemini_completes_a_task_commits_and_has_no_key():
    """Its shell hides the settings outside of the repository from git; whose the commit is it knows all the same."""
    (scratch() / "own").mkdir()
    (scratch() / "own/.gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    env, top = {**install("@google", "@github", "@lydell"), "GEMINI_API_KEY": KEY, "HOME": str(scratch() / "own")}, repository()
    git("config", "--unset", "user.name")
    work("generativelanguage.googleapis.com", "x-goog-api-key", env, "gemini", "--yolo", "-p", "make it")
    assert (top / "made").read_text() == "made\n" and git("log", "-1", "--format=%s %an %ce") == "made Ada n@example.org\n"
    the_key_is_nowhere(top, "GEMINI_API_KEY")


@test(as_user="user", limit=120)
def gemini_at_a_terminal_does_not_ask_how_to_log_in():
    (scratch() / "own").mkdir()
    env, top = {**install("@google", "@github", "@lydell"), "GEMINI_API_KEY": KEY, "HOME": str(scratch() / "own")}, repository()
    shown = at_a_terminal("generativelanguage.googleapis.com", env, top, "gemini", "--yolo", questions=[("Typeyourmessage", b"make it"), ("makeit", b"\r")])
    assert "authenticate" not in shown and "APIKey" not in shown, shown
    assert git("log", "-1", "--format=%s") == "made\n"


@test(as_user="user", limit=120)
def codex_at_a_terminal_completes_a_task():
    env, top = {**install("@openai"), "OPENAI_API_KEY": KEY}, repository()
    at_a_terminal("api.openai.com", env, top, "codex", "--dangerously-bypass-approvals-and-sandbox", questions=[("trust", b"\r"), ("forshortcuts", b"make it"), ("makeit", b"\r")])
    assert git("log", "-1", "--format=%s") == "made\n"


def opencode():
    with files_as_root():
        platform = [p.name for p in (FOLDER / "node_modules").glob("opencode-linux-*")]
    return install("opencode-ai", *platform)


@test(as_user="user", limit=120)
def opencode_at_a_terminal_completes_a_task():
    env, top = {**opencode(), "ANTHROPIC_API_KEY": KEY}, repository()
    at_a_terminal("api.anthropic.com", env, top, "opencode", "-m", "anthropic/claude-sonnet-4-5", questions=[("Askanything", b"make it"), ("makeit", b"\r")], handler=Modest)
    assert git("log", "-1", "--format=%s") == "made\n"


@test(as_user="user", limit=120)
def opencode_completes_a_task_and_has_no_key():
    env, top = {**opencode(), "ANTHROPIC_API_KEY": KEY}, repository()
    work("api.anthropic.com", "x-api-key", env, "opencode", "run", "-m", "anthropic/claude-sonnet-4-5", "make it", handler=Modest)
    assert git("log", "-1", "--format=%s") == "made\n"
    the_key_is_nowhere(top, "ANTHROPIC_API_KEY")


if __name__ == "__main__":
    sys.exit(main())
