# SPDX-License-Identifier: Apache-2.0
"""brig mcp, driven by the official clients: the inspector and both generations of the SDK, in both eras."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lib"))

from daemon import daemon
from harness import PATIENCE, brig_argv, brig_environment, descendants, home, main, test, wait_until, workspace
from mcp_http import Server

HERE = pathlib.Path(__file__).parent
FOLDER = pathlib.Path(subprocess.run([HERE / "fetch", "--where"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip())
NODE = FOLDER / "node_modules/node/bin/node"

# Each client: list, a call with progress, a call that fails, one that is given up.
DRIVE = """
import { Client as V1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as T1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { Client as V2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as T2 } from "@modelcontextprotocol/client/stdio";
import { StreamableHTTPClientTransport as H1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { StreamableHTTPClientTransport as H2 } from "@modelcontextprotocol/client";
const [which, cwd, command, ...args] = process.argv.slice(2);
const [C, T, H, options, schema] = {
  v1: [V1, T1, H1, {}, [undefined]], legacy: [V2, T2, H2, {}, []], auto: [V2, T2, H2, { versionNegotiation: { mode: "auto" } }, []],
}[which];
const client = new C({ name: "test", version: "1" }, options);
// Over HTTP: the address, then the token.
await client.connect(command.startsWith("http") ? new H(new URL(command), { requestInit: { headers: { Authorization: `Bearer ${args[0]}` } } })
  : new T({ command, args, cwd, env: process.env }));
const call = (name, given, how) => client.callTool({ name, arguments: given }, ...schema, how);
const tools = (await client.listTools()).tools.map(t => t.name);
const ticks = [];
const slow = await call("run_command", { shell: "echo a; sleep 0.4; echo b; sleep 0.4; echo c; sleep 0.4" }, { onprogress: p => ticks.push(p.progress) });
const failed = await call("run_python", { code: "raise SystemExit(4)" });
const wrong = await call("run_command", { argv: ["true"], policy: "full_access" });
const given = new AbortController();
setTimeout(() => given.abort(), 1000);
let aborted = false;
try { await call("run_command", { shell: "echo on >on; exec sleep 302" }, { signal: given.signal }); } catch { aborted = true; }
const after = await call("run_command", { shell: "echo after" });
console.log(JSON.stringify({ tools: tools.length, out: slow.structuredContent.stdout, ticks: ticks.length, failed: failed.isError, code: failed.structuredContent.exit_code,
  wrong: wrong.isError, aborted, after: after.structuredContent.stdout, name: client.getServerVersion()?.name }));
await client.close();
"""


def environment():
    own = brig_environment()
    return {**own, "PATH": f"{NODE.parent}:{own['PATH']}"}


def node(*argv, code=None, limit=50):
    done = subprocess.run([NODE, *map(str, argv)], input=code, cwd=FOLDER if code else workspace(), env=environment(), capture_output=True, text=True,
                          timeout=limit * PATIENCE, check=False)
    return done


def inspect(era, *words, limit=50):
    program = FOLDER / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    # It hands on few variables.
    own = [f"{name}={value}" for name, value in brig_environment().items() if name.startswith("XDG_")]
    return node(program, "--cli", "env", *own, *brig_argv("mcp"), "--protocol-era", era, "--format", "json", "-q", *words, limit=limit)


@test(as_user="root")
def the_clients_are_those_that_are_pinned():
    wanted = json.loads((HERE / "package.json").read_text())["dependencies"]
    for name, version in wanted.items():
        found = json.loads((FOLDER / "node_modules" / name / "package.json").read_text())
        assert version in (found["version"], f"npm:{found['name']}@{found['version']}"), name
    assert node("--version").stdout.strip() == "v" + wanted["node"]


def drive(which, *server):
    done = node("--input-type=module", "-", which, workspace(), *(server or brig_argv("mcp")), code=DRIVE)
    assert done.returncode == 0, done
    said = json.loads(done.stdout)
    assert said.pop("ticks") >= 1, said
    assert said == {"tools": 12, "out": "a\nb\nc\n", "failed": True, "code": 4, "wrong": True, "aborted": True, "after": "after\n", "name": "brig"}, said
    assert (workspace() / "on").exists() and wait_until(lambda: "sleep" not in descendants().values(), 10)


@test
def the_first_sdk():
    drive("v1")


@test
def the_second_sdk_as_it_is():
    drive("legacy")


@test
def the_second_sdk_in_the_new_era():
    drive("auto")


@test(as_user="user")
def every_client_over_http():
    with daemon() as d, Server(d) as s:
        for which in ("v1", "legacy", "auto"):
            drive(which, s.url, s.token)
            (workspace() / "on").unlink()
        program = FOLDER / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
        for era in ("modern", "legacy"):
            done = node(program, "--cli", s.url, "--transport", "http", "--header", f"Authorization: Bearer {s.token}", "--protocol-era", era, "--format", "json", "-q",
                        "--method", "tools/call", "--tool-name", "run_command", "--tool-arg", 'argv=["echo","hi"]')
            assert done.returncode == 0 and json.loads(done.stdout)["result"]["structuredContent"]["stdout"] == "hi\n", (era, done)
    shutil.rmtree(home() / ".mcp-inspector", ignore_errors=True)


@test(as_user="user", slow=True)
def the_inspectors_load_over_http():
    calls = int(os.environ.get("MCP_CALLS", "50"))
    program = FOLDER / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    with daemon() as d, Server(d) as s:
        done = node(program, "--cli", s.url, "--transport", "http", "--header", f"Authorization: Bearer {s.token}", "--protocol-era", "modern", "--format", "json", "-q",
                    "--method", "tools/call", "--tool-name", "run_command", "--tool-arg", 'argv=["true"]', "--load", "--load-concurrency", "20",
                    "--load-requests", str(calls), limit=50 + calls)
    shutil.rmtree(home() / ".mcp-inspector", ignore_errors=True)
    said = json.loads(done.stdout)["result"]
    if figures := os.environ.get("BRIG_FIGURES"):
        pathlib.Path(figures).write_text(json.dumps(said) + "\n")
    assert (said["ok"], said["errors"], said["toolErrors"]) == (calls, 0, 0), said


@test
def the_inspector_in_both_eras():
    for era in ("modern", "legacy"):
        done = inspect(era, "--method", "tools/list", "--strict")
        assert done.returncode == 0 and len(json.loads(done.stdout)["result"]["tools"]) == 12, (era, done)
        done = inspect(era, "--method", "tools/call", "--tool-name", "run_command", "--tool-arg", 'argv=["echo","hi"]')
        assert done.returncode == 0 and json.loads(done.stdout)["result"]["structuredContent"]["stdout"] == "hi\n", (era, done)


@test(as_user="user", slow=True)
def the_inspectors_load():
    calls = 50 if os.environ.get("LIGHT") else 200
    done = inspect("modern", "--method", "tools/call", "--tool-name", "run_command", "--tool-arg", 'argv=["true"]', "--load", "--load-concurrency", "20",
                   "--load-requests", str(calls))
    said = json.loads(done.stdout)["result"]
    if figures := os.environ.get("BRIG_FIGURES"):
        pathlib.Path(figures).write_text(json.dumps(said) + "\n")
    assert (said["ok"], said["errors"], said["toolErrors"]) == (calls, 0, 0), said


if __name__ == "__main__":
    sys.exit(main())
