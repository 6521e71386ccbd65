# SPDX-License-Identifier: Apache-2.0
"""brig mcp install and uninstall: other programs' settings keep everything but one entry."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lib"))

from harness import PATIENCE, brig, brig_argv, brig_environment, brig_path, descendants, main, scratch, test, wait_until
from mcp import Client

# Name, file below HOME, section; how the entry's command is found in it.
HOSTS = [("claude-code", ".claude.json", "mcpServers"), ("claude-desktop", ".config/Claude/claude_desktop_config.json", "mcpServers"),
         ("cursor", ".cursor/mcp.json", "mcpServers"), ("gemini", ".gemini/settings.json", "mcpServers"),
         ("opencode", ".config/opencode/opencode.json", "mcp"), ("vscode", ".config/Code/User/mcp.json", "servers"),
         ("windsurf", ".codeium/windsurf/mcp_config.json", "mcpServers")]


def mcp(*words):
    """brig mcp, in a HOME that is the test's own."""
    return brig("mcp", *words, env={"HOME": str(home())})


def home():
    return scratch() / "home"


def place(name):
    file = home() / name
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def command(entry):
    return entry["command"] if isinstance(entry["command"], list) else [entry["command"], *entry["args"]]


@test
def every_host_gets_an_entry_that_starts_the_server():
    for name, path, section in HOSTS:
        file = place(path)
        others = os.listdir(file.parent)
        done = mcp("install", name, "--dry-run", "--", "--policy", "readonly")
        assert done.status == 0 and "would be written" in done.text and str(file) in done.text and not file.exists(), done
        assert mcp("install", name, "--", "--policy", "readonly").status == 0
        argv = command(json.loads(file.read_text())[section]["brig"])
        assert argv == [str(brig_path().resolve()), "mcp", "--policy", "readonly"] and file.stat().st_mode & 0o777 == 0o600, argv
        assert "nothing to do" in mcp("install", name, "--", "--policy", "readonly").text
        assert mcp("uninstall", name).status == 0 and os.listdir(file.parent) == list(others), os.listdir(file.parent)  # brig made it
        assert "nothing to do" in mcp("uninstall", name).text
    with Client(*argv[2:]) as c:  # as a host would start it
        assert c.call("write_file", path="x", text="")["isError"] and len(c.ask("tools/list")["result"]["tools"]) == 12


@test
def everything_else_stays_as_it_was():
    file = place(".cursor/mcp.json")
    before = '// mine\n{\n    "unknown": [1.10, 1e400, {"deep": "\\u00e9"}], /* x */\n    "mcpServers": {\n        "other": {"command": "x", "env": {"TOKEN": "t"}}\n    },\n    "z": null\n}\n'
    file.write_text(before)
    file.chmod(0o640)
    (home() / "real").mkdir()
    real = file.rename(home() / "real/real.json")
    file.symlink_to(real)
    inode = real.stat().st_ino
    assert mcp("install", "cursor", "--dry-run").status == 0 and real.read_text() == before and real.stat().st_ino == inode
    assert mcp("install", "cursor").status == 0
    entry = f',\n        "brig": {{"command": "{brig_path().resolve()}", "args": ["mcp"]}}'
    assert real.read_text() == before.replace('{"TOKEN": "t"}}', '{"TOKEN": "t"}}' + entry), real.read_text()
    assert file.is_symlink() and os.readlink(file) == str(real) and real.stat().st_mode & 0o7777 == 0o640
    assert (home() / "real/real.json.brig-backup").read_text() == before
    assert mcp("uninstall", "cursor").status == 0 and real.read_text() == before
    assert os.listdir(home() / "real") == ["real.json"]  # as before, so that there is nothing to keep


@test
def a_section_that_brig_made_goes_with_its_entry():
    file = place(".cursor/mcp.json")
    for before in ("{}", '{\n  "a": 1\n}\n', '{"a": 1}', '{"mcpServers": {}}\n', '{\n\t"mcpServers": { // mine\n\t},\n\t"z": 1,\n}\n'):
        file.write_text(before)
        assert mcp("install", "cursor").status == 0 and "brig" in file.read_text()
        assert mcp("uninstall", "cursor").status == 0 and json_like(file.read_text()) == json_like(before), (before, file.read_text())
    # Made by brig, and used by its program since: what that wrote stays, and no empty section.
    for left in file.parent.iterdir():
        left.unlink()
    assert mcp("install", "cursor").status == 0
    file.write_text(file.read_text().replace("{", '{"seen": 3,', 1))
    assert mcp("uninstall", "cursor").status == 0 and json.loads(file.read_text()) == {"seen": 3}, file.read_text()


def json_like(text):
    """Blanks apart: where a comment stood, the line ends around it may differ."""
    return "".join(text.split())


@test
def codex_keeps_its_tables():
    file = place(".codex/config.toml")
    before = 'model = "x"\n\n[mcp_servers.other]\ncommand = "y"\n'
    file.write_text(before)
    done = mcp("install", "codex")
    assert done.status == 0 and '\n  args = ["mcp"]\n' in done.text, done.text
    assert file.read_text() == before + f'\n[mcp_servers.brig]\ncommand = "{brig_path().resolve()}"\nargs = ["mcp"]\n'
    file.write_text(file.read_text() + "\n[after]\na = 1\n")
    assert mcp("install", "codex", "--", "--policy", "readonly").status == 0
    assert file.read_text().count("[mcp_servers.brig]") == 1 and '"readonly"' in file.read_text() and "[after]\na = 1\n" in file.read_text()
    assert mcp("uninstall", "codex").status == 0 and "brig" not in file.read_text() and file.read_text().startswith(before)


@test
def codex_keeps_what_is_between_tables_and_refuses_other_forms():
    file = place(".codex/config.toml")
    comment = "\n# about the next\n[next]\na = 1\n"
    file.write_text('[mcp_servers.brig]\ncommand = "old"\nargs = [\n  "a", # [x]\n  [\n[1]]\n]\n[mcp_servers.brig.env]\nA = "b"\n' + comment)
    assert mcp("install", "codex").status == 0
    assert file.read_text() == f'[mcp_servers.brig]\ncommand = "{brig_path().resolve()}"\nargs = ["mcp"]\n[mcp_servers.brig.env]\nA = "b"\n' + comment
    assert mcp("uninstall", "codex").status == 0 and file.read_text() == comment
    quoted = 'notes = """\n[mcp_servers.brig]\n\\"""\n"""\nmore = \'\'\'\n[mcp_servers.brig]\'\'\'\n[projects."/a #]b"]\nx = "[" # "\n'
    file.write_text(quoted)
    assert mcp("install", "codex").status == 0 and file.read_text().startswith(quoted + "\n[mcp_servers.brig]\n"), file.read_text()
    assert mcp("uninstall", "codex").status == 0 and file.read_text() == quoted
    for text in ('[mcp_servers]\nbrig = {command = "x"}\n', "mcp_servers = {}\n", '[mcp_servers."brig"]\n', "[ mcp_servers . brig ]\n", 'mcp_servers.brig.command = "x"\n',
                 "[[mcp_servers]]\n", "[mcp_servers.brig]\n[x]\n[mcp_servers.brig]\n", "[mcp_servers.brig.env]\n", "no toml [[[\n", 'a = "x\n', "a = [\n", "\0"):
        file.write_text(text)
        done = mcp("install", "codex")
        assert done.status == 125 and "[mcp_servers.brig]: command = " in done.errors and file.read_text() == text, (text, done)


@test
def what_its_program_writes_meanwhile_stays():
    """Stopped before the new file is put in place: the old one is compared with what was read."""
    file = place(".cursor/mcp.json")
    for name, before, meanwhile in (("changed", "{}\n", '{"a": 1}\n'), ("replaced", "{}\n", None), ("made", None, '{"b": 2}\n')):
        for old in file.parent.iterdir():
            old.unlink()
        if before:
            file.write_text(before)
        argv = brig_argv("mcp", "install", "cursor")
        at = next(i for i, a in enumerate(argv) if a.endswith("/brig"))
        argv[at:at] = ["strace", "-o", "/dev/null", "-e", f"inject=fsync:signal=SIGSTOP:when={2 if before else 1}"]
        p = subprocess.Popen(argv, env=brig_environment({"HOME": str(home())}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        stopped, looks = [], {}

        def still(q):
            """Five looks in a row without a step: strace stops it for a moment at every call."""
            with contextlib.suppress(OSError):
                text = pathlib.Path(f"/proc/{q}/status").read_text()
                steps = re.search(r"voluntary_ctxt_switches:\s*(\d+)", text)[1]
                standing = re.search(r"State:\s*[Tt]", text) and looks.get(q, ("", 0))[0] == steps
                looks[q] = (steps, looks[q][1] + 1 if standing else 0)
                return looks[q][1] >= 5
            return False

        def stands():
            time.sleep(0.01)
            stopped[:] = [q for q in descendants(p.pid) if still(q)]
            return stopped or p.poll() is not None
        assert wait_until(stands) and stopped, (name, p.poll(), p.stderr.read())
        if meanwhile:
            file.write_text(meanwhile)
        else:
            (file.parent / "new").write_text(before)
            (file.parent / "new").rename(file)
        expected = (file.read_text(), file.stat().st_ino)
        for q in stopped:
            os.kill(q, signal.SIGCONT)
        out, err = p.communicate(timeout=30 * PATIENCE)
        assert p.returncode == 125 and "meanwhile" in err, (name, p.returncode, out, err)
        assert (file.read_text(), file.stat().st_ino) == expected and {f.name for f in file.parent.iterdir()} <= {"mcp.json", "mcp.json.brig-backup"}, name
    assert mcp("install", "cursor").status == 0 and set(json.loads(file.read_text())) == {"b", "mcpServers"}


@test
def what_cannot_be_done_is_refused_and_changes_nothing():
    for words in (("install",), ("install", "no-such"), ("install", "cursor", "--policy", "readonly"), ("install", "cursor", "--", "--no-such"),
                  ("install", "cursor", "--", "word"), ("uninstall", "cursor", "--", "--policy", "readonly"), ("install", "cursor", "vscode")):
        done = mcp(*words)
        assert done.status == 125 and done.errors.startswith("brig: "), (words, done)
    home().mkdir(exist_ok=True)
    done = mcp("install", "cursor")
    assert done.status == 125 and "start Cursor once" in done.errors, done
    file = place(".cursor/mcp.json")
    for text in ("[]", "{", '{"mcpServers": []}', '{"mcpServers": {}} trailing', '{"a": "unfinished}', '{"mcpServers": {"brig": 1, "brig": 2}}', '{"a" 1}', "{" * 200, "\0"):
        file.write_text(text)
        done = mcp("install", "cursor")
        assert done.status == 125 and "hint:" in done.errors and file.read_text() == text, (text, done)
    file.unlink()
    file.symlink_to(scratch() / "nothing")
    assert mcp("install", "cursor").status == 125 and not (scratch() / "nothing").exists()
    file.unlink()
    os.mkfifo(file)
    assert mcp("install", "cursor").status == 125
    assert sorted(p.name for p in file.parent.iterdir()) == ["mcp.json"]


if __name__ == "__main__":
    sys.exit(main())
