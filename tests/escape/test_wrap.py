#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`brig wrap`, and who would get something out of it: an agent that looks for its key, hooks of the user's and of its own, a
repository that leads its next work tree elsewhere.

The agents here are stand-ins, installed as npm and pipx do it; tests/workloads/test_agents.py has the real ones."""

import base64
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "egress"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import as_identity  # noqa: E402
from door import Handler, Web, root  # noqa: E402
from harness import TOP, brig, brig_argv, brig_environment, files_as_root, main, scratch, test, tree, workspace  # noqa: E402

KEY = "sk-ant-api03-zq8Gk2vTn41Lw0bYd7Rm"
EVIL = "/usr/bin/touch"
BOTH = ("native", "bwrap")

# Says what it is given, and looks for a text in whatever it can read.
AGENT = r"""#!/usr/bin/python3
import json, os, sys, urllib.request
if sys.argv[1:2] == ['call']:
    r = urllib.request.Request('https://api.anthropic.com/v1/messages', b'{}', {'x-api-key': os.environ['ANTHROPIC_API_KEY']})
    print(urllib.request.urlopen(r, timeout=20).status)
elif sys.argv[1:2] == ['search']:
    word, found = bytes.fromhex(sys.argv[2]), []
    for top in (os.environ['HOME'], os.getcwd(), '/tmp', '/etc', '/run', '/var', '/dev/shm', '/code', '/home'):
        for folder, folders, files in os.walk(top):
            for name in files:
                path = os.path.join(folder, name)
                try:
                    if os.path.isfile(path) and word in open(path, 'rb').read(1 << 22): found.append(path)
                except OSError: pass
    for pid in filter(str.isdigit, os.listdir('/proc')):
        for name in ('environ', 'cmdline', 'mem'):
            try:
                if name == 'mem':
                    if pid == str(os.getpid()): continue
                    f = open(f'/proc/{pid}/mem', 'rb', buffering=0)
                    for line in open(f'/proc/{pid}/maps'):
                        a, b = (int(x, 16) for x in line.split()[0].split('-'))
                        try:
                            f.seek(a)
                            if word in f.read(min(b - a, 1 << 24)): found.append(f'{pid}/mem')
                        except (OSError, ValueError, OverflowError): pass
                elif word in open(f'/proc/{pid}/{name}', 'rb').read(): found.append(f'{pid}/{name}')
            except OSError: pass
    print(json.dumps(sorted(set(found))))
elif sys.argv[1:2] == ['sh']:
    os.execv('/bin/sh', ['sh', '-c', sys.argv[2]])
else:
    print(json.dumps({'argv': sys.argv, 'env': dict(os.environ), 'cwd': os.getcwd()}))
"""


def agents():
    """The names that model/known/agent_files.h has."""
    head = (TOP / "src/model/known/agent_files.h").read_text()
    return re.findall(r"X\((\w+)\)", re.search(r"^#define AGENTS\(X\) (.*)", head, re.M).group(1))


def put(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def install():
    """As `npm install -g` does with a prefix below HOME, and pipx; the PATH with both."""
    prefix, user = scratch() / "user/.local", scratch() / "user"
    for name, package in (("claude", "@anthropic-ai/claude-code"), ("codex", "@openai/codex")):
        program = put(prefix / "lib/node_modules" / package / "bin/cli", AGENT, 0o755)
        (prefix / "bin").mkdir(parents=True, exist_ok=True)
        (prefix / "bin" / name).symlink_to(program)
    venv = put(prefix / "share/pipx/venvs/aider-chat/bin/aider", AGENT, 0o755)
    put(prefix / "share/pipx/venvs/aider-chat/pyvenv.cfg", "home = /usr/bin\n")
    (prefix / "bin/aider").symlink_to(venv)
    put(prefix / "share/secret", "not shown")
    return {"HOME": str(user), "PATH": f"{prefix}/bin:/usr/bin:/bin", "XDG_CACHE_HOME": str(scratch() / "cache"), "ANTHROPIC_API_KEY": KEY}


def wrap(*words, env=None, **more):
    (scratch() / "cache").mkdir(exist_ok=True)
    return brig("wrap", *words, env=env, **more)


def refused(done, *words):
    assert done.status == 125, (done.status, done.stdout, done.stderr)
    for word in words:
        assert word in done.errors, (word, done.errors)


def said(*words, env, **more):
    done = wrap(*words, env=env, **more)
    assert done.status == 0, (done.status, done.text, done.errors)
    return json.loads(done.text)


@test
def it_stands_for_a_line_of_run():
    env = install()
    one = said("--env", "MINE=1", "claude", "--flag", "a b", env=env)
    line = wrap("--dry-run", "--env", "MINE=1", "claude", "--flag", "a b", env=env).text
    # What stands behind the name is the agent's, also where it was probably meant for brig.
    assert "did you mean 'brig wrap claude'?" in wrap("--dry-run", "cluade", env=env).errors
    done = wrap("--dry-run", "claude", "--allow", "@npm", "--", "--branch", env=env)
    assert done.text.rstrip().endswith("--allow @npm -- --branch"), done.text
    assert "note: '--allow' goes to Claude Code" in done.errors and "brig wrap --allow ... claude" in done.errors and "--branch" not in done.errors, done.errors
    assert line.startswith("brig run ") and KEY not in line and "--home-seed claude" in line, line
    start = brig_argv()
    again = subprocess.run([*start, *shlex.split(line)[1:]], env=brig_environment(env), cwd=workspace(), capture_output=True, check=False)
    assert again.returncode == 0 and json.loads(again.stdout) == one, again
    assert one["argv"][1:] == ["--flag", "a b"] and one["env"]["MINE"] == "1" and one["env"]["IS_SANDBOX"] == "1" and one["cwd"] == str(workspace()), one
    assert one["env"]["ANTHROPIC_API_KEY"].startswith("brig-"), one
    # What is shown of the prefix is the package, and no more.
    assert wrap("claude", "sh", f"cat {scratch()}/user/.local/share/secret; ls {scratch()}/user/.local", env=env).text == "lib\n"
    assert said("aider", env=env)["env"]["ANTHROPIC_API_KEY"].startswith("brig-")


@test
def a_command_of_the_users_own_is_found_and_shown_as_an_agent_is():
    env = install()
    one = said("--", "claude", "--flag", env=env)
    assert one["argv"][1:] == ["--flag"] and "ANTHROPIC_API_KEY" not in one["env"], one
    assert wrap("--", "claude", "sh", f"cat {scratch()}/user/.local/share/secret; ls {scratch()}/user/.local", env=env).text == "lib\n"
    assert said("--", "aider", env=env)["argv"][0].endswith("aider-chat/bin/aider")
    # A single file is not: it may be one program of many names. Those of the system need nothing, and a path is what it says.
    put(scratch() / "user/.local/bin/single", AGENT, 0o755)
    assert wrap("--", "single", env=env).status == 127
    assert "--read" not in wrap("--dry-run", "--", "sh", "-c", "true", env=env).text
    assert wrap("--dry-run", "--", "./claude", env=env).text.endswith(" -- ./claude\n")


@test(as_user="user")
def it_says_what_is_missing():
    env = install()
    refused(wrap(env=env), "no agent was named", "brig wrap claude")
    refused(wrap("nano", env=env), "'nano'", "-- nano")
    refused(wrap("gemini", env=env), "Gemini CLI is not installed", "npm install -g @google/gemini-cli")
    refused(wrap("codex", env=env), "Codex has no key", "CODEX_API_KEY or OPENAI_API_KEY")
    refused(wrap("claude", env={**env, "ANTHROPIC_BASE_URL": "https://other.example"}), "ANTHROPIC_BASE_URL", "unset it")
    refused(wrap("aider", env={**env, "OPENAI_API_BASE": "https://other.example"}), "OPENAI_API_BASE")
    refused(wrap("--memroy", "1g", "claude", env=env), "--memory")
    refused(wrap("--home", "private", "claude", env=env), "home_seed is for a HOME that is kept")
    refused(brig("run", "--home", "keep", "--home-seed", "vim", "--", "true", env=env), "'vim'")
    listed = {a["name"]: a for a in wrap("--list", "--json", env=env).json["agents"]}
    assert list(listed) == agents(), "an agent of AGENTS has no row in wrap_agents.c, or is behind one that has none"
    assert listed["claude"]["credentials"][0] == {"name": "ANTHROPIC_API_KEY", "set": True, "hosts": ["api.anthropic.com"]}, listed
    assert listed["claude"]["shown"].endswith("/lib/node_modules") and listed["aider"]["shown"].endswith("/venvs/aider-chat") and listed["gemini"]["program"] is None
    assert all(w["why"] for a in listed.values() for w in a["variables"] + a["arguments"]), listed
    told = wrap("--list", env=env).text
    assert KEY not in told and told.count("and by brig, in a HOME that is new: ") == 2 and "security.auth.selectedType" in told, told


@test(as_user="user")
def what_the_users_files_grant_stays():
    env = {**install(), "XDG_CONFIG_HOME": str(scratch() / "config"), "OTHER_KEY": "0123456789abcdefghij"}
    put(scratch() / "config/brig/config.yaml", "network: proxy\negress: {allow: [files.example]}\ncredentials: {OTHER_KEY: {host: files.example}}\n")
    line = shlex.split(wrap("--dry-run", "claude", env=env).text)
    allowed = [line[i + 1] for i, w in enumerate(line) if w == "--allow"]
    granted = [line[i + 1] for i, w in enumerate(line) if w == "--credential"]
    assert allowed == ["api.anthropic.com", "files.example", "platform.claude.com"] and granted == ["ANTHROPIC_API_KEY", "OTHER_KEY"], line
    put(scratch() / "config/brig/config.yaml", "network: none\n")  # said of others
    assert said("claude", env=env)["env"]["ANTHROPIC_API_KEY"].startswith("brig-")
    chosen = shlex.split(wrap("--dry-run", "--allow", "files.example", "--credential", "OTHER_KEY", "claude", env=env).text)
    assert chosen.count("--credential") == 1 and "ANTHROPIC_API_KEY" not in chosen, chosen


@test(as_user="user")
def one_of_the_project_can_be_changed_by_its_tools():
    env = install()
    program = put(workspace() / "node_modules/@anthropic-ai/claude-code/cli", AGENT, 0o755)
    (workspace() / "node_modules/.bin").mkdir()
    (workspace() / "node_modules/.bin/claude").symlink_to(program)
    env["PATH"] = f"{workspace()}/node_modules/.bin:{env['PATH']}"
    assert wrap("claude", "sh", "echo new > node_modules/new", env=env).status == 0
    assert (workspace() / "node_modules/new").exists()


@test(backends=BOTH)
def the_agent_uses_its_key_and_never_sees_it():
    env = install()
    with Web("api.anthropic.com", handler=Handler) as web:
        door = ("--set", f"egress.resolve=api.anthropic.com=127.0.0.1:{web.port}", "--set", f"egress.roots={root()}/ca.pem")
        done = wrap(*door, "claude", "call", env=env)
        assert done.status == 0 and done.text == "200\n", (done.text, done.errors)
        (_, fields, _), = web.seen
        assert {k.lower(): v for k, v in fields}["x-api-key"] == KEY, fields  # the control: it was used
        search = ("claude", "search", KEY.encode().hex())
        assert said(*door, *search, env=env) == []
        put(workspace() / "found", f"x{KEY}x")
        assert said(*door, *search, env=env) == [str(workspace() / "found")]  # it would have been found
    with files_as_root():
        kept = [p for p in (scratch() / "cache").rglob("*") if p.is_file() and not p.is_symlink()]
        assert kept and not any(KEY.encode() in p.read_bytes() for p in kept), kept


@test
def a_login_is_used_and_stays_outside():
    env = {**install(), "ANTHROPIC_API_KEY": ""}
    soon = (int(time.time()) + 3600) * 1000

    def login(until=soon, mode=0o600):
        put(pathlib.Path(env["HOME"]) / ".claude/.credentials.json", json.dumps({"claudeAiOauth": {"accessToken": KEY, "refreshToken": f"R{KEY}", "expiresAt": until}}), mode)

    refused(wrap("claude", env=env), "nobody has logged in", "CLAUDE_CODE_OAUTH_TOKEN")
    login(1000)
    refused(wrap("claude", env=env), "has expired", "claude setup-token")
    login(mode=0o666)
    refused(wrap("claude", env=env), "can be written by others", "chmod 600")
    login()
    with Web("api.anthropic.com", handler=Handler) as web:
        door = ("--set", f"egress.resolve=api.anthropic.com=127.0.0.1:{web.port}", "--set", f"egress.roots={root()}/ca.pem")
        call = 'curl -sS -d {} -H "Authorization: Bearer $CLAUDE_CODE_OAUTH_TOKEN" https://api.anthropic.com/'
        assert wrap(*door, "claude", "sh", call, env=env).status == 0
        assert wrap(*door, "claude", "sh", call, env={**env, "CLAUDE_CODE_OAUTH_TOKEN": "the-variable-comes-first"}).status == 0
        assert [{k.title(): v for k, v in fields}["Authorization"] for _, fields, _ in web.seen] == [f"Bearer {KEY}", "Bearer the-variable-comes-first"]
        assert said(*door, "claude", "search", KEY.encode().hex(), env=env) == []
        put(workspace() / "found", f"R{KEY}")
        assert said(*door, "claude", "search", KEY.encode().hex(), env=env) == [str(workspace() / "found")]


@test
def a_login_that_is_of_no_use_is_told_and_a_key_in_it_is_used():
    """Of codex's file a key is sealed as a variable is; tokens that nobody but their program knows stay outside, and the error says so."""
    env = install()
    home = pathlib.Path(env["HOME"])
    for other in ("gemini", "opencode"):
        put(home / ".local/bin" / other, AGENT, 0o755)
    tokens = {"OPENAI_API_KEY": None, "tokens": {"refresh_token": f"R{KEY}", "account_id": "a"}}
    for name, file, said_too in (("codex", ".codex/auth.json", "codex login"), ("gemini", ".gemini/oauth_creds.json", "GEMINI_API_KEY"),
                                 ("opencode", ".local/share/opencode/auth.json", "OPENROUTER_API_KEY"), ("aider", ".aider/oauth-keys.env", "OPENAI_API_KEY")):
        for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
            env[variable] = ""
        refused(wrap(name, env=env), "has no key", said_too)
        assert file not in wrap(name, env=env).errors
        put(home / file, json.dumps(tokens))
        refused(wrap(name, env=env), f"~/{file}", f"{name} alone can renew", said_too)
    put(home / ".codex/auth.json", json.dumps({"OPENAI_API_KEY": KEY, "auth_mode": "apikey"}))
    with Web("api.openai.com", handler=Handler) as web:
        door = ("--set", f"egress.resolve=api.openai.com=127.0.0.1:{web.port}", "--set", f"egress.roots={root()}/ca.pem")
        line = wrap("--dry-run", "codex", env=env).text
        assert "--credential CODEX_API_KEY" in line and 'env_key="CODEX_API_KEY"' in line and KEY not in line, line
        call = 'curl -sS -d {} -H "Authorization: Bearer $CODEX_API_KEY" https://api.openai.com/; env; cat ~/.codex/auth.json'
        done = brig("run", *door, "--network", "proxy", "--credential", "CODEX_API_KEY", "--allow", "api.openai.com", "--", "sh", "-c", call, env=env)
        assert "CODEX_API_KEY=brig-" in done.text and KEY not in done.text, (done.text, done.errors)
        assert [{k.title(): v for k, v in fields}["Authorization"] for _, fields, _ in web.seen] == [f"Bearer {KEY}"]


def jwt(until):
    return ".".join(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in ({"alg": "none"}, {"exp": until}, KEY))


@test
def a_login_of_a_vendor_is_for_the_part_of_its_host_that_it_needs():
    """Tokens of codex and Gemini CLI: at the door alone, to that host and path alone, and not when they have expired."""
    env = {**install(), "ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "", "GEMINI_API_KEY": ""}
    home, account, soon = pathlib.Path(env["HOME"]), "0c7c93a6-1b1e-4ea0-9c1b-5d2d1be0a3c4", int(time.time()) + 3600
    put(home / ".local/bin/gemini", AGENT, 0o755)
    put(home / ".gitconfig", "[user]\n\temail = ada@example.org\n")

    def codex(until):
        put(home / ".codex/auth.json", json.dumps({"OPENAI_API_KEY": None, "tokens": {"access_token": jwt(until), "refresh_token": f"R{KEY}", "account_id": account}}), 0o600)

    def gemini(until):
        put(home / ".gemini/oauth_creds.json", json.dumps({"access_token": KEY, "refresh_token": f"R{KEY}", "expiry_date": until * 1000}), 0o600)

    codex(1)
    gemini(1)
    refused(wrap("codex", env=env), "has expired", "start codex outside")
    refused(wrap("gemini", env=env), "has expired", "start gemini outside")
    codex(soon)
    gemini(soon)
    line = wrap("--dry-run", "codex", env=env).text
    assert "--allow chatgpt.com/backend-api/codex/" in line and "api.openai.com" not in line and account not in line and KEY not in line, line
    with Web("chatgpt.com", "cloudcode-pa.googleapis.com", handler=Handler) as web:
        door = [w for h in ("chatgpt.com", "cloudcode-pa.googleapis.com") for w in ("--set", f"egress.resolve={h}=127.0.0.1:{web.port}")] + ["--set", f"egress.roots={root()}/ca.pem"]
        ask = 'for p in backend-api/codex/responses backend-api/conversations backend-api/codex/../me; do curl -sS --path-as-is -o /dev/null -w "%{http_code} " -d {} ' \
              '-H "Authorization: Bearer $CODEX_CHATGPT_TOKEN" -H "ChatGPT-Account-ID: $CODEX_CHATGPT_ACCOUNT" https://chatgpt.com/$p; done'
        # Not by wrap, which puts arguments of its own in front; and with all of the host open, so that it is the credential that is narrow.
        done = brig("run", *door, "--network", "proxy", "--credential", "CODEX_CHATGPT_TOKEN", "--credential", "CODEX_CHATGPT_ACCOUNT", "--allow", "chatgpt.com", "--", "sh", "-c", ask, env=env)
        assert done.text.split() == ["200", "403", "403"], (done.text, done.errors)
        (target, fields, _), = web.seen
        fields = {k.lower(): v for k, v in fields}
        assert fields["authorization"] == f"Bearer {jwt(soon)}" and fields["chatgpt-account-id"] == account, fields
        done = wrap(*door, "gemini", "sh", 'curl -sS -d {} -H "Authorization: Bearer $GOOGLE_CLOUD_ACCESS_TOKEN" https://cloudcode-pa.googleapis.com/v1internal:x; env; cat ~/.gemini/settings.json; curl -s https://play.googleapis.com/ https://other.example/', env=env)
        assert "GOOGLE_GENAI_USE_GCA=true" in done.text and "GOOGLE_CLOUD_ACCESS_TOKEN=brig-" in done.text and KEY not in done.text and "a run does not renew it" in done.errors, done.text
        assert {k.title(): v for k, v in web.seen[-1][1]}["Authorization"] == f"Bearer {KEY}"
        # It asks for nothing at a terminal, and commits as its user although it hides git's settings from git.
        assert '"selectedType":"oauth-personal"' in done.text and "GIT_COMMITTER_EMAIL=ada@example.org\n" in done.text, done.text
        assert "brig: refused, as on every run of this agent: play.googleapis.com\n" in done.errors and "brig: refused: other.example:443 (--allow other.example)\n" in done.errors, done.errors
        assert said(*door, "gemini", "search", KEY.encode().hex(), env=env) == []
        put(workspace() / "found", f"R{KEY}")
        assert said(*door, "gemini", "search", KEY.encode().hex(), env=env) == [str(workspace() / "found")]


@test(as_user="user")
def the_line_can_be_looked_at_without_a_key():
    env = {**install(), "ANTHROPIC_API_KEY": ""}
    done = wrap("--dry-run", "claude", env=env)
    assert done.status == 0 and "--credential ANTHROPIC_API_KEY" in done.text and "has no key" in done.errors and "hint: export" in done.errors, done
    refused(wrap("claude", env=env), "has no key")


def own_settings(env):
    """A user with everything that an agent can be made to run, and a login."""
    evil = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": EVIL}]}]}, "mcpServers": {"x": {"command": EVIL}}, "apiKeyHelper": EVIL,
            "statusLine": {"type": "command", "command": EVIL}, "env": {"X": EVIL}, "permissions": {"allow": [EVIL]}, "enabledPlugins": {"x": True}}
    user = pathlib.Path(env["HOME"])
    put(user / ".claude/settings.json", json.dumps({**evil, "model": "opus", "theme": "dark"}))
    put(user / ".claude.json", json.dumps({**evil, "hasCompletedOnboarding": True, "oauthAccount": {"x": KEY}, "projects": {str(workspace()): evil}}))
    put(user / ".claude/.credentials.json", json.dumps({"claudeAiOauth": {"accessToken": KEY}}), 0o600)
    put(user / ".claude/CLAUDE.md", EVIL)
    for name in ("commands/c.md", "agents/a.md", "plugins/p/plugin.json", "hooks/h.sh", "skills/s/SKILL.md"):
        put(user / ".claude" / name, EVIL, 0o755)
    put(user / ".codex/config.toml", f"model = \"gpt\"\nnotify = ['{EVIL}']\n[mcp_servers.x]\ncommand = '{EVIL}'\nmodel = \"late\"\n")
    return user


@test(backends=BOTH)
def tastes_of_the_users_enter_and_nothing_that_names_a_program():
    env = {**install(), "OPENAI_API_KEY": "sk-0123456789abcdefghij"}
    user = own_settings(env)
    before = tree(user)
    show = "cd; find . -type f -printf '%P %m\\n' | sort; cat $(find . -type f | sort)"
    claude = wrap("claude", "sh", show, env=env).text
    key = wrap("claude", "sh", "printf %s \"$ANTHROPIC_API_KEY\"", env=env).text
    assert key.startswith("brig-"), key
    # One word more, of brig's own: the tail of the placeholder, which Claude Code need not ask about.
    agreed = json.dumps({"hasCompletedOnboarding": True, "customApiKeyResponses": {"approved": [key[-20:]], "rejected": []}}, separators=(",", ":"))
    assert claude == f'.claude.json 600\n.claude/settings.json 600\n{agreed}\n{{"model":"opus","theme":"dark"}}\n', claude
    codex = wrap("codex", "sh", show, env=env)
    # Its arguments stand between the program and the caller's.
    assert codex.status == 0 and json.loads(codex.text)["argv"][-2:] == ["sh", show], codex.text
    with files_as_root():
        toml, = (scratch() / "cache").rglob("config.toml")
        assert toml.read_text() == 'model = "gpt"\n'
    assert tree(user) == before
    listed = brig("cache", "--json", env=env).json["homes"]
    assert sorted(h["seed"] for h in listed) == ["claude", "codex"], listed


@test(backends=BOTH)
def what_an_agent_plants_in_its_home_stays_there():
    env = {**install(), "OPENAI_API_KEY": "sk-0123456789abcdefghij"}
    user, mark = own_settings(env), scratch() / "ran"
    before = tree(user)
    plant = (f"cd; for f in .bashrc .profile .gitconfig .claude/settings.json .codex/config.toml .config/brig/config.yaml; do mkdir -p $(dirname $f); "
             f"echo '{EVIL} {mark}' > $f; done; ln -s {user}/.claude link; ln -s / top; echo x > link/hooks/planted; mkfifo pipe; true")
    assert wrap("claude", "sh", plant, env=env).status == 0
    # The same agent finds it again, inside, whatever brig has written at the first start; the next one does not.
    kept = wrap("claude", "sh", "cat ~/.claude/settings.json", env=env)
    assert kept.text == f"{EVIL} {mark}\n", kept.text
    other = said("codex", "x", env=env)["env"]["HOME"]
    with files_as_root():
        homes = [p for p in (scratch() / "cache/brig/homes").iterdir() if not (p / "home/.bashrc").exists()]
        assert len(homes) == 1 and list((homes[0] / "home").rglob("config.toml")), (homes, other)
    # The control: a file like that is obeyed by a shell of the user's that is led there.
    with files_as_root():
        planted, = (scratch() / "cache").rglob(".bashrc")
        subprocess.run(["bash", planted], check=True)
    assert mark.exists()
    mark.unlink()
    assert wrap("--list", env=env).status == 0 and wrap("--dry-run", "claude", env=env).status == 0
    assert not mark.exists() and tree(user) == before


# ---- a branch of its own ----


def git(*words, at=None, check=True):
    done = subprocess.run(as_identity(["git", "-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main", "-c", "safe.directory=*", *map(str, words)]),
                          cwd=at or workspace(), capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"})
    assert not check or done.returncode == 0, done
    return done.stdout


def repository():
    """Below the workspace, so that what is made beside it is this test's own."""
    top = workspace() / "repo"
    top.mkdir()
    git("init", "-q", at=top)
    git("config", "user.name", "n", at=top)
    git("config", "user.email", "e@example.org", at=top)
    put(top / "file", "one\n")
    put(top / ".claude/settings.json", "{}\n")
    git("add", "-A", at=top)
    git("commit", "-qm", "one", at=top)
    return top


def branch(top, name, *command, env=None):
    return wrap("--branch", name, "--", *(command or ("true",)), env=env or install_plain(), cwd=top)


def install_plain():
    return {"XDG_CACHE_HOME": str(scratch() / "cache")}


@test
def each_works_on_a_branch_of_its_own():
    top = repository()
    (top / "sub").mkdir()
    line = "pwd; cat file .claude/settings.json; echo $0 > new; git add new; git commit -qm two; git log --format=%s"
    for name, folder in (("feat/a", "feat+a"), ("b", "b")):
        done = branch(top / "sub", name, "sh", "-c", line, name)
        assert done.status == 0 and done.text == f"{top}.worktrees/{folder}\none\n{{}}\ntwo\none\n", (done.text, done.errors)
        assert f"git merge {name}" in done.errors and "git worktree remove" in done.errors, done.errors
    again = branch(top, "b", "cat", "new")
    assert again.status == 0 and again.text == "b\n", again.errors
    assert branch(workspace() / "repo.worktrees/b", "c", "git", "log", "--format=%s").text == "one\n"  # from the repository's own HEAD
    assert not (top / "new").exists()
    assert git("merge", "-q", "feat/a", at=top) == "" and (top / "new").read_text() == "feat/a\n"
    git("worktree", "remove", f"{top}.worktrees/feat+a", at=top)
    git("branch", "-d", "feat/a", at=top)
    dry = wrap("--dry-run", "--branch", "d", "--", "true", env=install_plain(), cwd=top).text.splitlines()
    assert dry[0].startswith("brig run ") and dry[-1] == f"brig run --timeout none --home keep --workdir {top}.worktrees/d -- true", dry
    assert not (workspace() / "repo.worktrees/d").exists()


@test
def a_name_leads_to_no_other_place():
    top = repository()
    before = tree(workspace())
    for name in ("../x", "a/../../x", "/etc/x", "a//b", ".git", "a/.b", "-f", "a b", "a\nb", "x.lock", "x.", "a..b", "@{u}", "refs\\x", "", "a/", "x" * 101):
        refused(branch(top, name), "--branch")
    refused(wrap("--branch", "x", "--workdir", str(top), "--", "true", env=install_plain(), cwd=top), "exclude each other")
    refused(branch(scratch(), "x"), "no git repository")
    assert tree(workspace()) == before


@test
def links_and_files_lead_to_no_other_repository():
    top, other = repository(), scratch() / "other"
    other.mkdir()
    git("init", "-q", at=other)
    git("commit", "-q", "--allow-empty", "-m", "other", at=other)
    git("worktree", "add", "-q", scratch() / "tree", at=other)
    before = tree(scratch())
    before = {k: v for k, v in before.items() if not k.startswith("cache")}

    def untouched():
        now = {k: v for k, v in tree(scratch()).items() if not k.startswith("cache")}
        assert now == before, set(now.items()) ^ set(before.items())

    # The folder of work trees.
    (workspace() / "repo.worktrees").symlink_to(scratch())
    refused(branch(top, "x"), "is a link")
    (workspace() / "repo.worktrees").unlink()
    # A work tree that is somebody else's, or a link to one.
    (workspace() / "repo.worktrees").mkdir()
    for plant in (lambda p: p.symlink_to(scratch() / "tree"), lambda p: put(p / ".git", (scratch() / "tree/.git").read_text()), lambda p: put(p / ".git", f"gitdir: {top}/.git/worktrees/x\n")):
        place = workspace() / "repo.worktrees/x"
        plant(place)
        refused(branch(top, "x"), "is not a work tree of")
        subprocess.run(["rm", "-rf", place], check=True)
    # A .git in the folder that somebody stands in.
    put(top / "sub/.git", (scratch() / "tree/.git").read_text())
    refused(branch(top / "sub", "x"), "neither a folder nor leads")
    (top / "sub/.git").unlink()
    (top / "sub/.git").symlink_to(other / ".git")
    refused(branch(top / "sub", "x"), "neither a folder nor leads")
    (top / "sub/.git").unlink()
    # One that goes through the other repository, and out again to a folder that says what is wanted.
    put(top / "sub/fake/gitdir", f"{top}/sub/.git\n")
    out = f"{other}/.git/worktrees/" + "../" * len((other / ".git/worktrees").parts[1:]) + f"{top}/sub/fake".lstrip("/")
    put(top / "sub/.git", f"gitdir: {out}\n")
    assert os.path.samefile(out, top / "sub/fake")  # the control: it does lead there
    refused(branch(top / "sub", "x"), "neither a folder nor leads")
    assert git("branch", "--list", "x", at=other) == "" and not pathlib.Path(f"{other}.worktrees").exists()
    untouched()
    # In the git folder: git on the host follows them, in its sandbox it finds nothing there.
    for name in ("worktrees", "logs"):
        subprocess.run(["rm", "-rf", top / ".git" / name], check=True)
        (top / ".git" / name).symlink_to(scratch())
        branch(top, f"x-{name}")  # git gives up, or takes what leads nowhere for nothing
        untouched()
        subprocess.run(["rm", "-rf", top / ".git" / name], check=True)  # one at a time, whether it was taken away or not
    (top / ".git/logs").symlink_to(scratch())
    git("worktree", "add", "-q", "-b", "control", workspace() / "control", at=top)
    assert (scratch() / "refs/heads/control").exists()


@test(as_user="root")
def a_repository_of_somebody_elses_is_not_used():
    """Above a folder of the caller's there may be one that anybody made, as in /tmp; its settings would be git's."""
    top = repository()
    (top / "mine").mkdir()
    before = tree(workspace())
    subprocess.run(["chown", "-R", "4242", top / ".git"], check=True)
    refused(branch(top / "mine", "x"), "somebody else's")
    assert not pathlib.Path(f"{top}.worktrees").exists()
    subprocess.run(["chown", "-R", "0", top / ".git"], check=True)
    assert tree(workspace()) == before
    assert branch(top / "mine", "x").status == 0  # the control


@test
def a_hook_out_of_the_branch_is_not_run():
    top, mark = repository(), scratch() / "ran"
    put(top / "hooks/post-checkout", f"#!/bin/sh\necho hook >> {top}/.git/ran; touch {mark}\n", 0o755)
    git("add", "-A", at=top)
    git("commit", "-qm", "hook", at=top)
    git("config", "core.hooksPath", "hooks", at=top)
    git("config", "core.fsmonitor", f"touch {mark}; false", at=top)
    assert branch(top, "x").status == 0
    assert not mark.exists() and not (top / ".git/ran").exists()
    git("config", "--unset", "core.fsmonitor", at=top)
    git("worktree", "add", "-q", "-b", "control", workspace() / "control", at=top)
    assert mark.exists() and (top / ".git/ran").exists()


if __name__ == "__main__":
    sys.exit(main())
