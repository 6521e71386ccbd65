#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Files and folders of the host's that are copied into a long-lived sandbox: which, whose, and what leads out."""

import json
import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import daemon, daemon_with_tokens  # noqa: E402
from harness import files_as_root, home, main, scratch, state, test  # noqa: E402


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


if __name__ == "__main__":
    sys.exit(main())
