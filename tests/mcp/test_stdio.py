# SPDX-License-Identifier: Apache-2.0
"""brig mcp on standard input and output: both eras, every tool, progress, cancellation, tasks, ends."""

import json
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lib"))

from harness import PATIENCE, brig, descendants, main, test, wait_until, workspace
from mcp import LEGACY, META, MODERN, Client

TOOLS = ["run_command", "run_python", "run_script", "read_file", "write_file", "edit_file", "list_files", "search_files",
         "workspace_diff", "create_sandbox", "list_sandboxes", "delete_sandbox"]


def below(process):
    return descendants(process.pid)


@test
def both_eras_are_served():
    with Client(era=MODERN) as c:
        found = c.ask("server/discover")["result"]
        assert found["resultType"] == "complete" and MODERN in found["supportedVersions"], found
        assert found["_meta"][META + "serverInfo"]["name"] == "brig"
        listed = c.ask("tools/list")["result"]
        assert [t["name"] for t in listed["tools"]] == TOOLS and listed["ttlMs"] > 0 and listed["cacheScope"] == "public"
        for tool in listed["tools"]:
            assert tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object" and tool["description"], tool
        assert c.ask("ping")["error"]["code"] == -32601  # of the other era
    with Client(era=LEGACY) as c:
        assert c.hello["result"]["protocolVersion"] == LEGACY and c.hello["result"]["capabilities"] == {"tools": {}}
        assert c.ask("ping")["result"] == {}
        listed = c.ask("tools/list")["result"]
        assert [t["name"] for t in listed["tools"]] == TOOLS and "resultType" not in listed
        assert c.done("run_command", argv=["echo", "hi"])["stdout"] == "hi\n"
    with Client(era=None) as c:
        old = c.ask("initialize", {"protocolVersion": "2024-11-05", "capabilities": {}})["result"]
        assert old["protocolVersion"] == "2024-11-05"
        new = c.ask("initialize", {"protocolVersion": "2099-01-01", "capabilities": {}})["result"]
        assert new["protocolVersion"] == LEGACY


@test
def where_nothing_stays_the_model_is_told():
    for how, told in (({"cwd": "/"}, True), ({}, False)):
        with Client(era=LEGACY, **how) as c:
            assert ("--workdir" in c.hello["result"]["instructions"]) == told, c.hello


@test
def errors_have_the_codes_of_the_protocol():
    with Client(era=None) as c:
        assert c.ask("tools/list")["error"]["code"] == -32602  # neither initialized nor with _meta
        assert c.ask("tools/list", {"_meta": {META + "protocolVersion": MODERN}})["error"]["code"] == -32602
        wrong = c.ask("tools/list", {"_meta": {META + "protocolVersion": "1900-01-01", META + "clientCapabilities": {}}})["error"]
        assert wrong["code"] == -32022 and MODERN in wrong["data"]["supported"] and wrong["data"]["requested"] == "1900-01-01"
        c.era = MODERN
        assert c.ask("no/such")["error"]["code"] == -32601
        assert c.ask("tools/call", {"name": "no_such", "arguments": {}})["error"]["code"] == -32602
        assert c.ask("tools/list", {"cursor": "x"})["error"]["code"] == -32602
        missing = c.ask("tasks/get", {"taskId": "x"})["error"]
        assert missing["code"] == -32021 and META + "tasks" in missing["data"]["requiredCapabilities"]["extensions"]
        c.tasks = True
        assert c.ask("tasks/get", {"taskId": "x"})["error"]["code"] == -32602


@test
def a_command_has_status_output_and_limits():
    with Client("--output-limit", "1k", "--timeout", "5s") as c:
        r = c.call("run_command", shell="echo out; echo err >&2; exit 3")
        s = r["structuredContent"]
        assert r["isError"] and (s["exit_code"], s["stdout"], s["stderr"], s["outcome"]) == (3, "out\n", "err\n", "exited"), r
        assert r["content"][0]["text"].startswith("Exit code: 3\nSTDOUT:\nout\n\nSTDERR:\nerr\n")
        assert c.done("run_command", argv=["printf", "%s|", "a b", "$HOME", ";"])["stdout"] == "a b|$HOME|;|"
        assert c.done("run_command", argv=["cat"], stdin="given")["stdout"] == "given"
        assert c.done("run_command", argv=None, shell="echo x", cwd=None)["stdout"] == c.done("run_command", argv=["echo", "x"], shell=None)["stdout"] == "x\n"
        (workspace() / "deep er").mkdir()
        assert c.done("run_command", argv=["pwd"], cwd="deep er")["stdout"].endswith("/deep er\n")
        s = c.done("run_command", argv=["seq", "1", "10000"])
        assert len(s["stdout"]) <= 1024 and s["stdout_truncated"]
        r = c.call("run_command", argv=["sleep", "100"], timeout=1)
        assert r["isError"] and r["structuredContent"]["outcome"] == "timeout" and "timed out" in r["content"][0]["text"]
        # More than the user allows is the user's limit.
        r = c.call("run_command", argv=["sleep", "100"], timeout=80000)
        assert r["structuredContent"]["outcome"] == "timeout" and "limit of this call was 5 s" in r["content"][0]["text"]
        r = c.call("run_command", argv=["no-such-program"])
        assert r["isError"] and r["structuredContent"]["exit_code"] == 127
        # What models of other tools say; no schema names it.
        assert c.done("run_command", command="echo $((1 + 1))")["stdout"] == c.done("run_command", command=["echo", "2"])["stdout"] == "2\n"
        for bad in ({}, {"argv": []}, {"argv": ["a"], "shell": "b"}, {"command": 1}, {"command": []}, {"command": "a", "shell": "b"}, {"command": "a", "argv": ["b"]}, {"argv": "ls"}, {"argv": [1]}, {"argv": ["ls"], "timeout": -1},
                    {"argv": ["ls"], "sandbox": "none"}, {"argv": ["ls"], "cwd": 3}):
            r = c.call("run_command", **bad)
            assert r["isError"] and r["content"][0]["text"].startswith("Error: "), (bad, r)


@test
def code_and_scripts():
    with Client() as c:
        s = c.done("run_python", code="import sys; print(__file__, sys.argv[1:])", args=["a b"])
        assert s["stdout"] == "/code/_run.py ['a b']\n", s
        s = c.call("run_python", code="open(__file__, 'w')")["structuredContent"]
        assert s["exit_code"] == 1 and "Error" in s["stderr"], s
        assert c.done("run_script", body="echo \"$WHO\" $0", params={"who": "you & me"})["stdout"].startswith("you & me ")
        assert c.done("run_script", body="#!/bin/bash\necho $BASH_VERSION")["stdout"].strip()
        r = c.call("run_script", body="true", params={"ld_preload": "x"})
        assert r["isError"] and "steers programs" in r["content"][0]["text"], r
        box = c.done("create_sandbox")["sandbox"]
        assert c.done("run_python", code="import sys; print(__file__, sys.argv)", args=["x"], sandbox=box)["stdout"] == "/code/_run.py ['/code/_run.py', 'x']\n"
        assert c.done("run_script", body="echo $WHO", params={"who": "you"}, sandbox=box)["stdout"] == "you\n"
        assert c.call("run_script", body="true", params={"path": "x"}, sandbox=box)["isError"]


@test
def files_are_read_written_edited_listed_and_searched():
    with Client() as c:
        # "content" is what models of other tools say; no schema names it.
        assert c.done("write_file", path="a/b/other.txt", content="xy")["bytes"] == 2 and c.done("read_file", path="a/b/other.txt")["text"] == "xy"
        for bad in ({}, {"text": "a", "content": "b"}, {"content": 1}, {"content": None}):
            assert c.call("write_file", path="a/b/other.txt", **bad)["isError"], bad
        c.done("run_command", argv=["rm", "a/b/other.txt"])
        assert c.done("write_file", path="a/b/c.txt", text="one\ntwo\nthree\n")["bytes"] == 14
        file = workspace() / "a/b/c.txt"
        assert file.read_text() == "one\ntwo\nthree\n"
        s = c.done("read_file", path="a/b/c.txt", first_line=2, lines=1)
        assert (s["text"], s["total_lines"], s["truncated"]) == ("two\n", 3, False)
        assert c.done("read_file", path=str(file))["text"] == "one\ntwo\nthree\n"
        c.done("edit_file", path="a/b/c.txt", command="replace", old_text="two", new_text="2")
        c.done("edit_file", path="a/b/c.txt", command="insert", line=0, new_text="zero")
        assert file.read_text() == "zero\none\n2\nthree\n"
        assert "4 times" in c.call("edit_file", path="a/b/c.txt", command="replace", old_text="e", new_text="E")["content"][0]["text"]
        for bad in ({"command": "replace", "old_text": "e", "new_text": "E"}, {"command": "replace", "old_text": "gone", "new_text": "E"},
                    {"command": "insert", "line": 99, "new_text": "E"}, {"command": "apply", "new_text": "E"}):
            assert c.call("edit_file", path="a/b/c.txt", **bad)["isError"], bad
        assert file.read_text() == "zero\none\n2\nthree\n"
        c.done("edit_file", path="a/b/c.txt", command="replace", old_text="e", new_text="E", all=True)
        assert file.read_text() == "zEro\nonE\n2\nthrEE\n"
        entries = {e["name"]: e["kind"] for e in c.done("list_files", path="a")["entries"]}
        assert entries == {"b": "folder"}
        entries = {e["name"]: e["kind"] for e in c.done("list_files", path=".")["entries"]}
        assert entries["a"] == "folder" and entries[".vscode"] == "protected", entries
        (workspace() / "a" / "x.c").write_text("int one;\n")
        found = c.done("search_files", pattern="on", path="a")["matches"]
        assert sorted((m["path"], m["line"], m["text"]) for m in found) == [("a/b/c.txt", 2, "onE"), ("a/x.c", 1, "int one;")], found
        assert [m["path"] for m in c.done("search_files", pattern="^int .ne", path="a", name="*.c", regex=True)["matches"]] == ["a/x.c"]
        assert c.done("search_files", pattern="nowhere", path="a")["matches"] == []
        assert c.call("search_files", pattern="(", regex=True)["isError"]
        (workspace() / "binary").write_bytes(b"\xff\x00")
        assert "not UTF-8" in c.call("read_file", path="binary")["content"][0]["text"]
        assert "there is no 'none'" in c.call("read_file", path="none")["content"][0]["text"]
    assert sorted(p.name for p in workspace().iterdir()) == ["a", "binary"]


@test
def a_sandbox_that_stays_shares_files_and_processes():
    with Client() as c:
        one, two = c.done("create_sandbox", name="one")["sandbox"], c.done("create_sandbox")["sandbox"]
        c.done("write_file", path="/tmp/kept", text="x", sandbox="one")
        assert c.done("run_command", argv=["cat", "/tmp/kept"], sandbox=one)["stdout"] == "x"
        assert c.call("run_command", argv=["cat", "/tmp/kept"], sandbox=two)["isError"]
        assert c.call("run_command", argv=["cat", "/tmp/kept"])["isError"]
        assert {s["sandbox"] for s in c.done("list_sandboxes")["sandboxes"]} == {one, two}
        assert c.call("create_sandbox", name="one")["isError"] and c.call("create_sandbox", name="../x")["isError"]
        running = c.begin("tools/call", {"name": "run_command", "arguments": {"argv": ["sleep", "100"], "sandbox": two}})
        assert c.done("delete_sandbox", sandbox=two)["deleted"] == two
        assert c.get(running)["result"]["structuredContent"]["outcome"] == "cancelled"
        assert [s["sandbox"] for s in c.done("list_sandboxes")["sandboxes"]] == [one]
        assert c.call("run_command", argv=["true"], sandbox=two)["isError"]


@test
def calls_run_side_by_side_and_tell_their_progress():
    with Client() as c:
        slow = c.begin("tools/call", {"name": "run_command", "arguments": {"shell": "echo begun; while [ ! -e go ]; do sleep 0.05; done; echo gone"}},
                       progressToken="p1")
        assert wait_until(lambda: c.read(time.monotonic() + 0.2) and c.notes)
        note = c.notes[0]["params"]
        assert c.notes[0]["method"] == "notifications/progress" and note["progressToken"] == "p1" and note["message"] == "begun"
        c.done("run_command", argv=["touch", "go"])  # meanwhile
        assert c.get(slow)["result"]["structuredContent"]["stdout"] == "begun\ngone\n"
        ticks = [n["params"]["progress"] for n in c.notes]
        assert ticks == sorted(set(ticks))


@test
def a_cancelled_call_is_killed_and_not_answered():
    with Client() as c:
        number = c.begin("tools/call", {"name": "run_command", "arguments": {"shell": "trap '' TERM; echo on >on; (setsid sleep 300 &); sleep 300"}})
        assert wait_until((workspace() / "on").exists, 10)
        assert wait_until(lambda: list(below(c.process).values()).count("sleep") == 2, 10)
        c.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number, "reason": "enough"}})
        assert wait_until(lambda: not any(name == "sleep" for name in below(c.process).values()), 10)
        c.done("run_command", argv=["true"])
        assert number not in c.answers
        # Floods of what nobody knows change nothing.
        for i in range(2000):
            c.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": f"x{i}"}})
        c.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [[]]}})
        c.say({"jsonrpc": "2.0", "method": "notifications/cancelled"})
        c.done("run_command", argv=["true"])


@test
def a_long_call_becomes_a_task_for_who_knows_tasks():
    with Client(tasks=True) as c:
        assert c.ask("tools/call", {"name": "run_command", "arguments": {"argv": ["true"]}})["result"]["resultType"] == "complete"
        task = c.ask("tools/call", {"name": "run_command", "arguments": {"shell": "while [ ! -e go ]; do sleep 0.05; done; echo end"}})["result"]
        assert task["resultType"] == "task" and task["status"] == "working" and task["pollIntervalMs"] > 0, task
        assert c.ask("tasks/get", {"taskId": task["taskId"]})["result"]["status"] == "working"
        (workspace() / "go").touch()
        got = wait_until(lambda: (r := c.ask("tasks/get", {"taskId": task["taskId"]})["result"])["status"] == "completed" and r, 10)
        assert got["result"]["structuredContent"]["stdout"] == "end\n" and got["resultType"] == "complete", got
        assert c.ask("tasks/update", {"taskId": task["taskId"], "inputResponses": {}})["result"]["resultType"] == "complete"
        task = c.ask("tools/call", {"name": "run_command", "arguments": {"argv": ["sleep", "300"]}})["result"]
        assert c.ask("tasks/cancel", {"taskId": task["taskId"]})["result"]["resultType"] == "complete"
        assert wait_until(lambda: c.ask("tasks/get", {"taskId": task["taskId"]})["result"]["status"] == "cancelled", 10)
        assert not any(name == "sleep" for name in below(c.process).values())


@test
def a_subscription_is_acknowledged_and_can_be_ended():
    with Client() as c:
        number = c.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        c.ask("tools/list")
        assert c.notes[0]["method"] == "notifications/subscriptions/acknowledged"
        assert c.notes[0]["params"]["_meta"][META + "subscriptionId"] == number
        c.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
        c.ask("tools/list")
        assert number not in c.answers


def everything_ends(how):
    c = Client()
    c.done("create_sandbox")
    c.begin("tools/call", {"name": "run_command", "arguments": {"shell": "echo on >on; (setsid sleep 301 &); sleep 301"}})
    assert wait_until((workspace() / "on").exists, 10)
    inside = wait_until(lambda: len(found := [pid for pid, name in below(c.process).items() if name == "sleep"]) == 2 and found, 10)
    assert inside
    how(c)
    assert wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in inside), 10)
    return c


@test
def everything_ends_with_the_input():
    c = everything_ends(lambda c: c.process.stdin.close())
    assert c.process.wait(10 * PATIENCE) == 0


@test
def everything_ends_with_a_signal():
    c = everything_ends(lambda c: c.process.send_signal(signal.SIGTERM))
    assert c.process.wait(10 * PATIENCE) == 0


@test
def everything_ends_with_a_killed_server():
    c = everything_ends(lambda c: c.process.kill())
    c.process.wait(10 * PATIENCE)
    assert brig("run", "--", "true").status == 0  # the next one tidies up


@test
def a_policy_that_cannot_be_had_stops_the_server():
    for options in (("--policy", "full_access"), ("--backend", "none"), ("--memory", "nonsense"), ("--tty",), ("--json",), ("what",), ("--http", "192.0.2.1:1"), ("--http=nowhere",), ("--token-file", "x")):
        done = brig("mcp", *options)
        assert done.status == 125 and not done.text and done.errors.startswith("brig: "), (options, done)
    assert "MCP" in brig("mcp", "--help").text


@test
def the_help_lists_what_it_takes():
    text = " ".join(line.split(" ", 3)[2] for line in (brig("mcp", "--help").text + brig("mcp", "--help=all").text).splitlines() if line.startswith("  -"))
    assert "--memory" in text and "--tty" not in text and "--json" not in text and "--tty" in brig("run", "--help").text
    assert "mcp has no use for --json" in brig("mcp", "--json").errors


@test
def a_role_says_how_its_tools_run():
    (workspace() / "role.yaml").write_text("""apiVersion: initrunner/v1
kind: Agent
metadata: {name: r}
spec:
  tools:
    - {type: shell, timeout_seconds: 2, blocked_commands: [seq]}
    - {type: python, network_disabled: true, timeout_seconds: 1, max_output_bytes: 100}
  security:
    sandbox: {backend: auto, network: host}
""")
    devices = "print(open('/proc/net/dev').read().count(':'))"
    with Client("--config", "role.yaml") as c:
        assert c.done("run_python", code=devices)["stdout"] == "1\n"
        assert c.done("run_command", argv=["grep", "-c", ":", "/proc/net/dev"])["stdout"] != "1\n"
        r = c.call("run_python", code="import time; time.sleep(30)", timeout=60)
        assert r["structuredContent"]["outcome"] == "timeout" and "was 1 s" in r["content"][0]["text"], r
        r = c.call("run_command", argv=["sleep", "30"], timeout=60)
        assert r["structuredContent"]["outcome"] == "timeout" and "was 2 s" in r["content"][0]["text"], r
        assert len(c.done("run_python", code="print('x' * 1000)")["stdout"]) == 100
        for argv in (["seq", "3"], ["/usr/bin/seq", "3"]):
            r = c.call("run_command", argv=argv)
            assert r["isError"] and "does not want" in r["content"][0]["text"], r
        assert c.done("run_command", shell="seq 1")["stdout"] == "1\n"  # a courtesy, not a wall
        box = c.done("create_sandbox")["sandbox"]
        r = c.call("run_python", code=devices, sandbox=box)
        assert r["isError"] and "leave 'sandbox' out" in r["content"][0]["text"], r
    # A list of hosts is a network, too.
    role = workspace() / "role.yaml"
    role.write_text(role.read_text().replace(", network: host", ""))
    with Client("--config", "role.yaml", "--allow", "example.org") as c:
        assert c.done("run_python", code=devices)["stdout"] == "1\n"
        box = c.done("create_sandbox")["sandbox"]
        r = c.call("run_python", code=devices, sandbox=box)
        assert r["isError"] and "leave 'sandbox' out" in r["content"][0]["text"], r


@test
def many_calls_at_once():
    with Client() as c:
        numbers = [c.begin("tools/call", {"name": "run_command", "arguments": {"argv": ["echo", str(i)]}}) for i in range(40)]
        for i, number in enumerate(numbers):
            assert c.get(number)["result"]["structuredContent"]["stdout"] == f"{i}\n"
        assert json.dumps(c.notes) == "[]"


@test
def a_roles_scripts_are_tools_of_their_own():
    role = workspace() / "role.yaml"
    script = "{name: greet, description: Greets., interpreter: /bin/sh, body: 'echo \"hello $WHO$MORE\"', parameters: [{name: who, required: true, description: whom}, {name: more, default: '!'}]}"
    head = "apiVersion: initrunner/v1\nkind: Agent\nmetadata: {name: r}\nspec:\n  security: {sandbox: {backend: auto}}\n  tools:\n    - {type: script, scripts: [%s]}\n"
    role.write_text(head % script)
    with Client("--config", "role.yaml") as c:
        listed = c.ask("tools/list")["result"]["tools"]
        assert [t["name"] for t in listed] == [*TOOLS, "greet"], listed
        assert listed[-1]["description"] == "Greets." and listed[-1]["inputSchema"]["required"] == ["who"], listed[-1]
        # A value is a value, whatever it looks like.
        assert c.done("greet", who="$(id); id `id`")["stdout"] == "hello $(id); id `id`!\n"
        assert c.done("greet", who="a", more="?")["stdout"] == "hello a?\n"
        for wrong in ({}, {"who": "a", "body": "id"}, {"who": 3}):
            assert c.call("greet", **wrong)["isError"], wrong
    for wrong, word in ((script.replace("greet", "run_python"), "two tools named 'run_python'"), (script.replace("name: greet", "allowed_commands: [ls], name: greet"), "allowed_commands do not list"),
                        (script.replace("name: who", "name: path"), None)):
        role.write_text(head % wrong)
        if word:
            done = brig("mcp", "--config", "role.yaml")
            assert done.status == 125 and word in done.errors, done
        else:
            with Client("--config", "role.yaml") as c:
                r = c.call("greet", path="/tmp")
                assert r["isError"] and "steers programs" in r["content"][0]["text"], r


@test
def the_model_sees_what_it_changed_in_a_layer_and_cannot_apply_it():
    (workspace() / "old").write_text("old\n")
    with Client("--workspace", "overlay", "--apply", "never", era=LEGACY) as c:
        run = c.done("run_command", shell="echo from-a-call > new; rm old")["run"]
        for asked in ({}, {"run": run}):
            said = c.done("workspace_diff", **asked)
            assert "+from-a-call" in said["diff"] and "-old" in said["diff"] and not said["truncated"], said
        box = c.done("create_sandbox")["sandbox"]
        c.done("run_command", shell="echo from-a-box > boxed; seq -f %020g 9000 > long", sandbox=box)
        said = c.done("workspace_diff", sandbox=box)
        assert said["truncated"] and "from-a-call" not in said["diff"], said["diff"][:300]
        wrong = c.call("workspace_diff", run="0" * 32)
        assert wrong["isError"], wrong
        assert sorted(p.name for p in workspace().iterdir()) == ["old"]
        assert c.call("workspace_diff", apply=True)["isError"]  # there is no such argument
    with Client(era=LEGACY) as c:
        assert c.call("workspace_diff")["isError"]  # the folder itself is the workspace


if __name__ == "__main__":
    sys.exit(main())
