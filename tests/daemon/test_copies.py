#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Files and folders of the host's that are copied into a long-lived sandbox: which, whose, and what leads out."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "egress"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import daemon, daemon_with_tokens  # noqa: E402
from door import Handler, Web, root  # noqa: E402
from harness import brig, files_as_root, home, main, scratch, state, test  # noqa: E402


def source():
    top = scratch() / "source"
    (top / "src/deep").mkdir(parents=True)
    (top / "node_modules/x").mkdir(parents=True)
    (top / "src/deep/a.txt").write_text("deep\n")
    (top / "src/run.sh").write_text("#!/bin/sh\necho ran\n")
    (top / "src/run.sh").chmod(0o755)
    (top / "src/b.log").write_text("log\n")
    (top / "node_modules/x/large").write_text("large\n")
    (top / "src/again").symlink_to("../src/deep/a.txt")
    return top


def sh(d, box, line):
    r = d.exec(box, "sh", "-c", line)
    return r["output"].split()


def refused(d, *copies, **more):
    a = d.call("POST", "/v1/sandboxes?wait=true", {"spec": {"backend": "native", "copies": list(copies), **more}})
    got = a.json
    assert got["state"] == "failed", got
    return got["error"]["what"] + " " + got["error"]["hint"]


def copies(backend):
    top = source()
    with daemon() as d:
        box = d.create(spec={"backend": backend, "copies": [
            {"source": str(top), "target": "/tmp/in/here", "exclude": ["node_modules", "*.log"]},
            {"source": str(top / "src/run.sh"), "target": "/tmp/tool"}]})["id"]
        assert sh(d, box, "cd /tmp/in/here; find . | sort; cat src/again; ./src/run.sh; /tmp/tool; stat -c %U src/run.sh; id -un") == [
            ".", "./src", "./src/again", "./src/deep", "./src/deep/a.txt", "./src/run.sh", "deep", "ran", "ran", *sh(d, box, "id -un"), *sh(d, box, "id -un")]
        # Once: what was changed inside since is kept, and the host's own is as it was.
        sh(d, box, "echo changed > /tmp/in/here/src/deep/a.txt")
        d.call("POST", f"/v1/sandboxes/{box}/stop", {"grace": "0s"})
        assert d.call("POST", f"/v1/sandboxes/{box}/resume?wait=true").status == 200
        assert sh(d, box, "cat /tmp/in/here/src/deep/a.txt") == ["changed"]
        assert (top / "src/deep/a.txt").read_text() == "deep\n"


@test
def a_tree_is_copied_without_what_is_excluded_and_belongs_to_the_user_inside():
    copies("native")


@test
def so_it_is_on_bwrap():
    copies("bwrap")


@test
def what_a_stop_drops_is_copied_again():
    top = source()
    with daemon() as d:
        # Something is mounted into HOME, which bwrap has in memory then; /tmp is kept.
        spec = {"backend": "bwrap", "mounts": [{"source": str(top), "target": "/home/brig/shown"}],
                "copies": [{"source": str(top / "src/run.sh"), "target": t} for t in ("/home/brig/tool", "/tmp/tool")]}
        box = d.create(spec=spec)
        assert "home" not in box["isolation"]["keeps"] and "tmp" in box["isolation"]["keeps"], box["isolation"]
        assert sh(d, box["id"], "~/tool; echo 'echo changed' > /tmp/tool") == ["ran"]
        d.call("POST", f"/v1/sandboxes/{box['id']}/stop", {"grace": "0s"})
        assert d.call("POST", f"/v1/sandboxes/{box['id']}/resume?wait=true").status == 200
        assert sh(d, box["id"], "~/tool; /bin/sh /tmp/tool") == ["ran", "changed"]


@test
def links_that_lead_out_are_refused_by_name_and_followed_nowhere():
    top, victim = source(), scratch() / "victim"
    victim.write_text("secret\n")
    with daemon() as d:
        for target in (str(victim), "../../victim", "../src/../../victim", "/etc/passwd"):
            (top / "src/out").symlink_to(target)
            assert "src/out" in refused(d, {"source": str(top), "target": "/tmp/x"}), target
            # The control: left out, the rest is copied.
            box = d.create(spec={"backend": "native", "copies": [{"source": str(top), "target": "/tmp/x", "exclude": ["out"]}]})["id"]
            assert sh(d, box, "ls -a /tmp/x/src | grep -c out; cat /tmp/x/src/run.sh | wc -l") == ["0", "2"]
            (top / "src/out").unlink()
        link = scratch() / "link"
        link.symlink_to(top)
        assert "symbolic link" in refused(d, {"source": str(link), "target": "/tmp/x"})
        assert "symbolic link" in refused(d, {"source": str(link / "src"), "target": "/tmp/x"})
        assert "everything" in refused(d, {"source": "/", "target": "/tmp/x"})
        os.mkfifo(scratch() / "pipe")
        assert "neither" in refused(d, {"source": str(scratch() / "pipe"), "target": "/tmp/x"})
        assert "src/missing" in refused(d, {"source": str(top / "src/missing"), "target": "/tmp/x"})


@test
def pipes_in_a_tree_are_left_out_and_a_target_that_cannot_be_written_is_told():
    top = source()
    os.mkfifo(top / "src/pipe")
    with daemon() as d:
        box = d.create(spec={"backend": "native", "copies": [{"source": str(top), "target": "/tmp/x"}]})["id"]
        assert sh(d, box, "ls /tmp/x/src | grep -c pipe") == ["0"]
        assert "1 things were left out" in d.call("GET", f"/v1/sandboxes/{box}/logs").body.decode()
        assert "inside" in refused(d, {"source": str(top), "target": "/usr/x"})
        other = d.create(spec={"backend": "native", "copies": [{"source": str(top), "target": "/tmp/x", "exclude": ["pipe"]}], "builtin_tools": ["claude", "uv"]})["id"]
        noted = d.call("GET", f"/v1/sandboxes/{other}/logs").body.decode()
        assert "left out" not in noted and "there is no login of 'claude' on this host" in noted and "'uv'" not in noted, noted


@test
def a_copy_of_what_lies_around_it_leaves_brigs_own_state_out():
    (state() / "mine").write_text("mine\n")
    with daemon() as d:
        box = d.create(spec={"backend": "native", "copies": [{"source": str(state()), "target": "/tmp/x"}]})["id"]
        with files_as_root():
            assert (state() / "brig/daemon/sandboxes" / box).is_dir()
        assert sh(d, box, "cd /tmp/x; find . | sort") == [".", "./mine"]
    (state() / "mine").unlink()


@test
def a_copy_of_brigs_own_state_or_a_part_of_it_is_refused():
    with daemon() as d:
        other = d.create(spec={"backend": "native"})["id"]
        box = f"brig/daemon/sandboxes/{other}"
        for part in ("brig", "brig/audit", "brig/audit/key", "brig/daemon", "brig/daemon/sandboxes", box, box + "/spec", box + "/store/home"):
            with files_as_root():
                assert (state() / part).exists(), part
            assert "brig's own state" in refused(d, {"source": str(state() / part), "target": "/tmp/x"}), part


@test
def only_the_owner_may_copy_and_have_it_begun_again():
    with daemon_with_tokens(a="run") as d:
        a = d.call("POST", "/v1/sandboxes", {"spec": {"copies": [{"source": "/etc/hostname", "target": "/tmp/x"}]}}, token=d.tokens["a"])
        assert a.status == 403 and a.code == "policy-ceiling" and "copies" in a.body.decode(), a
        a = d.call("POST", "/v1/sandboxes", {"restart": "on-failure"}, token=d.tokens["a"])
        assert a.status == 501 and a.code == "unsupported", a


EVIL = "run-this-program"
PLANTED = {
    ".claude/.credentials.json": json.dumps({"claudeAiOauth": {"accessToken": "tok-claude"}, "mcpOAuth": {EVIL: {}}, "hooks": EVIL}),
    ".claude/settings.json": json.dumps({"hooks": {"PreToolUse": [{"command": EVIL}]}, "apiKeyHelper": EVIL}),
    ".claude/settings.local.json": json.dumps({"env": {"X": EVIL}}),
    ".claude/commands/c.md": EVIL, ".claude/agents/a.md": EVIL, ".claude/plugins/p/plugin.json": EVIL, ".claude/hooks/h.sh": EVIL,
    ".claude.json": json.dumps({"mcpServers": {"x": {"command": EVIL}}}),
    ".codex/auth.json": json.dumps({"OPENAI_API_KEY": "tok-codex", "notify": [EVIL]}),
    ".codex/config.toml": f"notify = ['{EVIL}']\n[mcp_servers.x]\ncommand = '{EVIL}'\n",
    ".gitconfig": f"[core]\n\thooksPath = {EVIL}\n[credential]\n\thelper = !{EVIL}\n[alias]\n\tx = !{EVIL}\n",
    ".config/git/config": f"[core]\n\tfsmonitor = {EVIL}\n",
    ".git-credentials": f"https://me:tok-git@git.example\n!{EVIL}\n",
    ".npmrc": f"//r.example/:_authToken=tok-npm\nregistry=https://r.example/\nscript-shell={EVIL}\nnode-options=--require {EVIL}\n//r.example/:tokenHelper={EVIL}\n"
              f"//r.example/:_authToken=${{{EVIL}}}\ngit={EVIL}\n",
    ".config/uv/uv.toml": EVIL, ".cache/uv/x": EVIL, ".npm/_cacache/x": EVIL,
    ".local/share/opencode/auth.json": json.dumps({"anthropic": {"type": "api", "key": "tok-opencode"}}),
    ".config/opencode/opencode.json": json.dumps({"mcp": {"x": {"command": [EVIL]}}, "plugin": [EVIL]}), ".config/opencode/plugin/p.js": EVIL,
}
TOOLS = ["claude", "codex", "git", "uv", "npm", "apt", "opencode"]


def plant():
    for name, text in PLANTED.items():
        at = home() / name
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(text)


@test
def logins_of_tools_enter_and_nothing_that_names_a_program_in_either_direction():
    plant()
    with daemon() as d:
        box = d.create(spec={"backend": "native", "builtin_tools": TOOLS})["id"]
        assert sh(d, box, f"grep -rl {EVIL} ~ | wc -l") == ["0"], sh(d, box, f"grep -r {EVIL} ~")
        for word in ("claude", "codex", "git", "npm", "opencode"):
            assert sh(d, box, f"grep -rl tok-{word} ~ | wc -l") == ["1"], word
        assert sh(d, box, "find ~ -type f -printf '%m\\n' | sort -u") == ["600"]
        assert "the login of 'claude' is inside" in d.call("GET", f"/v1/sandboxes/{box}/logs").body.decode()
        # What is planted inside, in every one of these places, is the host's at no time: nothing comes back.
        for name in PLANTED:
            sh(d, box, f"mkdir -p ~/{os.path.dirname(name)}; echo planted-inside > ~/{name}")
        again = d.call("POST", f"/v1/sandboxes/{box}/stop", {"grace": "0s"})
        assert again.json["state"] == "stopped"
        d.call("POST", f"/v1/sandboxes/{box}/resume?wait=true")
        assert sh(d, box, "cat ~/.claude/.credentials.json") == ["planted-inside"]
        d.call("DELETE", f"/v1/sandboxes/{box}")
    for name, text in PLANTED.items():
        assert (home() / name).read_text() == text, name
    shutil.rmtree(home())
    home().mkdir(mode=0o700)


LOGINS = {
    ".claude/.credentials.json": {"claudeAiOauth": {"accessToken": "old-a", "refreshToken": "old-r", "expiresAt": 5, "subscriptionType": "max"}, "mcpOAuth": {"mine": {}}},
    ".codex/auth.json": {"OPENAI_API_KEY": None, "tokens": {"id_token": "old-i", "access_token": "old-a", "refresh_token": "old-r", "account_id": "me"}, "last_refresh": "2026-01-01T00:00:00Z"},
    ".local/share/opencode/auth.json": {"anthropic": {"type": "oauth", "access": "old-a", "refresh": "old-r", "expires": 5}},
}


def log_in():
    for name, login in LOGINS.items():
        at = home() / name
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(json.dumps(login))
        at.chmod(0o600)


def inside(d, box, name, login):
    text = login if isinstance(login, str) else json.dumps(login)
    assert d.exec(box, "sh", "-c", f"rm -rf ~/{name}; mkdir -p ~/{os.path.dirname(name)}; cat > ~/{name}", stdin=text)["exit_code"] == 0


def on_host(name):
    return json.loads((home() / name).read_text())


def stop(d, box):
    assert d.call("POST", f"/v1/sandboxes/{box}/stop?wait=true", {"grace": "0s"}).json["state"] == "stopped"
    return d.call("GET", f"/v1/sandboxes/{box}/logs").body.decode()


@test
def a_login_that_was_renewed_inside_comes_back_and_nothing_else_does():
    log_in()
    with daemon() as d:
        box = d.create(spec={"backend": "native", "builtin_tools": ["claude", "codex", "opencode"]})["id"]
        inside(d, box, ".claude/.credentials.json", {"claudeAiOauth": {
            "accessToken": "new-a", "refreshToken": "new r; evil", "expiresAt": 9, "subscriptionType": "max", "hooks": EVIL}, "mcpOAuth": {EVIL: {}}, "apiKeyHelper": EVIL})
        inside(d, box, ".codex/auth.json", {"OPENAI_API_KEY": EVIL, "tokens": {"id_token": "new-i", "access_token": {"x": EVIL}, "refresh_token": "new-r", "account_id": "me"}, "notify": [EVIL]})
        inside(d, box, ".local/share/opencode/auth.json", {"anthropic": {"type": "oauth", "access": "new-a", "refresh": "new-r", "expires": 9}, EVIL: {"type": "api", "key": "k"}})
        inside(d, box, ".claude/settings.json", EVIL)
        assert "the login of 'claude' was renewed inside" in stop(d, box)
        assert on_host(".claude/.credentials.json") == {
            "claudeAiOauth": {"accessToken": "new-a", "refreshToken": "old-r", "expiresAt": 9, "subscriptionType": "max"}, "mcpOAuth": {"mine": {}}}
        assert on_host(".codex/auth.json") == {"OPENAI_API_KEY": None, "tokens": {
            "id_token": "new-i", "access_token": "old-a", "refresh_token": "new-r", "account_id": "me"}, "last_refresh": "2026-01-01T00:00:00Z"}
        assert on_host(".local/share/opencode/auth.json") == {"anthropic": {"type": "oauth", "access": "new-a", "refresh": "new-r", "expires": 9}}
        assert sorted(str(f.relative_to(home())) for f in home().rglob("*") if f.is_file()) == sorted(LOGINS), "a new name"
        assert {(home() / n).stat().st_mode & 0o777 for n in LOGINS} == {0o600}
        # And once more, after a resume; the host's own change wins.
        assert d.call("POST", f"/v1/sandboxes/{box}/resume?wait=true").status == 200
        inside(d, box, ".codex/auth.json", {"tokens": {"id_token": "newer", "account_id": "me"}})
        inside(d, box, ".local/share/opencode/auth.json", {"anthropic": {"type": "oauth", "access": "newer", "refresh": "r", "expires": 10}})
        (home() / ".local/share/opencode/auth.json").write_text(json.dumps({"anthropic": {"type": "oauth", "access": "mine", "refresh": "mine", "expires": 1}}))
        assert "'opencode' has changed on the host meanwhile" in stop(d, box)
        assert on_host(".codex/auth.json")["tokens"]["id_token"] == "newer"
        assert on_host(".local/share/opencode/auth.json")["anthropic"]["access"] == "mine"
    shutil.rmtree(home())
    home().mkdir(mode=0o700)


@test
def hooks_that_are_planted_inside_are_run_by_no_program_of_the_hosts():
    mark, repo = scratch() / "mark", scratch() / "repo"
    log_in()
    (home() / ".git-credentials").write_text("https://me:tok@git.example\n")
    (home() / ".npmrc").write_text("//r.example/:_authToken=tok\n")
    subprocess.run(["git", "init", "-q", repo], check=True)
    hook = f"[core]\n\tfsmonitor = touch {mark}; false\n"

    def tools(of):
        env = {**os.environ, "HOME": str(of), "XDG_CONFIG_HOME": str(of / ".config")}
        with files_as_root():
            subprocess.run(["git", "-C", repo, "status"], env=env, check=False, capture_output=True)
            npm = subprocess.run(["npm", "config", "get", "script-shell"], env=env, check=False, capture_output=True, text=True).stdout
        return mark.exists(), EVIL in npm
    with daemon() as d:
        box = d.create(spec={"backend": "native", "builtin_tools": TOOLS})["id"]
        for name in PLANTED:
            inside(d, box, name, hook if "git" in name else f"script-shell={EVIL}\n")
        stop(d, box)
        assert tools(state() / "brig/daemon/sandboxes" / box / "store/home") == (True, True), "the control"
        mark.unlink()
    assert tools(home()) == (False, False)
    shutil.rmtree(home())
    home().mkdir(mode=0o700)


@test
def what_stands_in_for_a_login_inside_changes_no_file_of_the_hosts():
    log_in()
    victim = scratch() / "victim"
    victim.write_text(json.dumps({"tokens": {"id_token": "stolen", "account_id": "me"}}))
    before = {n: (home() / n).read_text() for n in LOGINS}
    with daemon() as d:
        box = d.create(spec={"backend": "native", "builtin_tools": ["claude", "codex", "opencode"]})["id"]
        inside(d, box, ".codex/auth.json", {"tokens": {"id_token": "new-i", "account_id": "somebody"}})
        inside(d, box, ".claude/.credentials.json", '{"claudeAiOauth": {"accessToken": "a", "accessToken": "b"}')
        d.exec(box, "sh", "-c", f"rm ~/.local/share/opencode/auth.json; ln -s {victim} ~/.local/share/opencode/auth.json")
        log = stop(d, box)
        assert "'codex' is another account's inside" in log and "'claude' cannot be read any more" in log, log
        for line in ("mkfifo auth.json", "ln -s /etc/passwd auth.json", "mkdir auth.json", "head -c 300000 /dev/zero > auth.json"):
            assert d.call("POST", f"/v1/sandboxes/{box}/resume?wait=true").status == 200
            d.exec(box, "sh", "-c", f"cd ~/.codex; rm -rf auth.json; {line}")
            stop(d, box)
        # The folder of the host's is a link by now: nothing is written behind it.
        assert d.call("POST", f"/v1/sandboxes/{box}/resume?wait=true").status == 200
        inside(d, box, ".codex/auth.json", {"tokens": {"id_token": "new-i", "account_id": "me"}})
        (home() / ".codex").rename(scratch() / "moved")
        (home() / ".codex").symlink_to(scratch() / "moved")
        stop(d, box)
        assert (scratch() / "moved/auth.json").read_text() == before[".codex/auth.json"]
    for n in (".claude/.credentials.json", ".local/share/opencode/auth.json"):
        assert (home() / n).read_text() == before[n], n
    shutil.rmtree(home())
    home().mkdir(mode=0o700)


@test
def a_tools_file_that_is_a_link_or_a_stand_in_is_refused_by_name():
    plant()
    real = scratch() / "real"
    (home() / ".codex").rename(real)
    (home() / ".codex").symlink_to(real)
    with daemon() as d:
        for tools, word in ((["codex"], str(real)), (["git:placeholder"], "placeholder"), (["vim"], "vim")):
            a = d.call("POST", "/v1/sandboxes?wait=true", {"spec": {"backend": "native", "builtin_tools": tools}}).json
            assert a["state"] == "failed" and word in a["error"]["what"] + a["error"]["hint"], a
    shutil.rmtree(home())
    home().mkdir(mode=0o700)


KEY = "sk-ant-api03-zq8Gk2vTn41Lw0bYd7Rm"
CALL = 'curl -sS -o /dev/null -w %{http_code} -d {} -H "x-api-key: $ANTHROPIC_API_KEY" https://api.anthropic.com/'
LOOK = "cat ~/.claude/* ~/.claude/.[a-z]* /proc/*/environ /proc/*/cmdline 2>/dev/null; env; grep -rsl 'zq8Gk2vTn41''Lw0bYd7Rm' ~ /tmp /etc /run /var/tmp; echo"


def settings(name, text):
    file = scratch() / f"{name}.yaml"
    file.write_text("brig: 1\nbackend: native\n" + text)
    return file


@test
def a_placeholder_of_a_tool_is_used_at_the_door_and_the_login_stays_outside():
    plant()
    (home() / ".claude/.credentials.json").write_text(json.dumps({"claudeAiOauth": {"accessToken": KEY, "refreshToken": f"R{KEY}"}}))
    with Web("api.anthropic.com", handler=Handler) as web, daemon() as d:
        door = f"network: proxy\negress: {{resolve: {{api.anthropic.com: '127.0.0.1:{web.port}'}}, roots: [{root()}/ca.pem]}}\n"
        file = settings("stands-in", door + "builtin_tools: ['claude:placeholder']\n")
        env = {**d.environment, "ANTHROPIC_API_KEY": KEY}
        made = brig("sandbox", "create", "--config", file, "--name", "it", env=env)
        assert made.status == 0 and "placeholder of ANTHROPIC_API_KEY" in made.errors, made.errors
        assert d.exec("it", "sh", "-c", CALL)["stdout"] == "200"
        (_, fields, _), = web.seen
        assert {k.lower(): v for k, v in fields}["x-api-key"] == KEY, fields  # the control: it was used
        seen = d.exec("it", "sh", "-c", LOOK)["output"]
        assert KEY[13:] not in seen and "ANTHROPIC_API_KEY=brig-" in seen and "IS_SANDBOX=1" in seen and ".json" not in seen, seen
        assert KEY not in json.dumps(d.call("GET", "/v1/sandboxes/it").json)
        with files_as_root():
            kept = [p for p in (state() / "brig/daemon").rglob("*") if p.is_file()]
            assert kept and not any(KEY[13:].encode() in p.read_bytes() for p in kept), kept
        # Without the variable it is the token of the login, which the tool would have read.
        made = brig("sandbox", "create", "--config", file, "--name", "two", env=d.environment)
        assert made.status == 0 and "placeholder of CLAUDE_CODE_OAUTH_TOKEN" in made.errors, made.errors
        bearer = CALL.replace("x-api-key: $ANTHROPIC_API_KEY", "Authorization: Bearer $CLAUDE_CODE_OAUTH_TOKEN")
        assert d.exec("two", "sh", "-c", bearer)["stdout"] == "200"
        assert {k.title(): v for k, v in web.seen[-1][1]}["Authorization"] == f"Bearer {KEY}", web.seen
        assert KEY[13:] not in d.exec("two", "sh", "-c", LOOK)["output"]
        # What it would have looked like: the listed tool itself means its real login.
        real = settings("real", door + "builtin_tools: [claude]\n")
        assert brig("sandbox", "create", "--config", real, "--name", "three", env=d.environment).status == 0
        assert KEY[13:] in d.exec("three", "sh", "-c", LOOK)["output"]
    shutil.rmtree(home())
    home().mkdir(mode=0o700)


@test(as_user="user")
def a_placeholder_that_nothing_can_be_put_in_for_is_refused_by_name():
    plant()
    (home() / ".codex/auth.json").write_text('{"tokens": {"access_token": "a login of its own"}}')
    with daemon() as d:
        for text, *words in (("network: bridge\nbuiltin_tools: ['claude:placeholder']\n", "needs network proxy", "network: proxy"),
                             ("network: none\nbuiltin_tools: ['claude:placeholder']\n", "needs network proxy"),
                             ("network: proxy\nbuiltin_tools: ['npm:placeholder']\n", "no key of 'npm'", "credentials:"),
                             ("network: proxy\nbuiltin_tools: ['codex:placeholder']\n", "Codex has no key", "CODEX_API_KEY or OPENAI_API_KEY")):
            done = brig("sandbox", "create", "--config", settings("refused", text), env=d.environment)
            assert done.status != 0 and all(w in done.errors for w in words), (words, done.errors)
        led = {**d.environment, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "https://other.example"}
        done = brig("sandbox", "create", "--config", settings("refused", "network: proxy\nbuiltin_tools: ['claude:placeholder']\n"), env=led)
        assert done.status != 0 and "ANTHROPIC_BASE_URL" in done.errors, done.errors
        assert d.call("GET", "/v1/sandboxes").json["sandboxes"] == []
    shutil.rmtree(home())
    home().mkdir(mode=0o700)


if __name__ == "__main__":
    sys.exit(main())
