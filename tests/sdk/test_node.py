#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The package for Node, installed from its archive as a user would, against the real daemon."""

import json
import pathlib
import re
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import sdk  # noqa: E402
import sdk_odd  # noqa: E402
from daemon import daemon, daemon_with_tokens  # noqa: E402
from harness import TOP, around, brig, brig_path, descendants, main, runtime, test, workspace  # noqa: E402

around(sdk.packages)

PACKAGE = TOP / "sdk/node"


@test(limit=90)
def the_examples_of_its_readme_print_what_it_says():
    shown = [*sdk.examples(PACKAGE / "README.md", "js"), *sdk.examples(TOP / "docs/embedding.md", "js")]
    assert len(shown) >= 11
    with daemon() as d:
        for code, printed in shown:
            got = sdk.node(code, env=d.environment)
            assert got == printed, f"{code}\nprints\n{got}"
    (workspace() / "a.tar").unlink()


@test
def a_sandbox_lives_and_its_commands_are_heard():
    with daemon() as d:
        sdk.node(r"""
            import assert from "node:assert/strict";
            import { PassThrough } from "node:stream";
            import * as brig from "brig";
            const c = new brig.Client();
            const box = await c.create({ name: "one", labels: { a: "b" }, workspace: ".", idleTtl: 600.5 });
            assert.equal(box.info.state, "ready");
            const heard = [];
            await c.run("echo a", { onOutput: (p) => heard.push(p.stream, p.text) });
            assert.deepEqual(heard, ["stdout", "a\n"]);
            assert.equal((await c.get("one")).id, box.id);
            assert.deepEqual((await c.list({ state: "ready" })).map((b) => b.id), [box.id]);
            const big = Buffer.alloc(2 << 20, Buffer.from([...Array(256).keys()]));
            let r = await box.exec(["cat"], { stdin: big, outputLimit: "4m" });
            assert.ok(r.ok && r.stdoutBytes.equals(big));
            r = await box.exec("printf '\\377\\0'; printf é >&2; exit 9");
            assert.deepEqual([r.exitCode, r.stdoutBytes.toString("hex"), r.stderr], [9, "ff00", "é"]);
            assert.equal((await box.exec("echo $A; pwd", { env: { A: "b c" }, cwd: "/tmp" })).stdout, "b c\n/tmp\n");
            assert.equal((await box.exec(["sleep", "60"], { timeout: 0.1 })).outcome, "timeout");
            assert.ok((await box.exec(["head", "-c", "100000", "/dev/zero"], { outputLimit: 1000 })).truncated);
            assert.equal((await box.exec(["true"], { stdin: big })).exitCode, 0);
            const line = ["sh", "-c", "echo x >> count; wc -l < count"];
            assert.equal((await box.exec(line, { key: "k1" })).stdout, (await box.exec(line, { key: "k1" })).stdout);
            let command = await box.start(["sleep", "600"]);
            assert.equal((await command.refresh()).state, "running");
            assert.ok((await box.commands()).some((e) => e.id === command.id));
            await command.signal(9);
            assert.notEqual((await command.wait()).outcome, "exited");
            await assert.rejects(command.signal("TERM"), brig.ExecEnded);
            await command.write("nobody reads this");
            command = await box.start("trap '' TERM; sleep 600 & wait");
            await command[Symbol.asyncDispose]();
            assert.equal((await command.wait()).outcome, "cancelled");
            command = await box.start(["cat"], { stdin: true });
            await command.write("a");
            await command.closeStdin();
            assert.equal((await command.wait()).stdout, "a");
            const many = async function* () { for (let i = 0; i < 300; i++) yield Buffer.alloc(65536, i); };
            await box.files.write("/tmp/many", many());
            const to = new PassThrough();
            let size = 0;
            to.on("data", (p) => (size += p.length));
            assert.equal(await box.files.readTo("/tmp/many", to), 300 * 65536);
            assert.equal(size, 300 * 65536);
            assert.equal((await box.files.stat("/tmp/many")).mode, 0o644);
            await assert.rejects(box.files.write("/proc/x", many()), brig.ApiError);
            await assert.rejects(box.files.write("/proc/x", Buffer.alloc(20 << 20)), brig.ApiError);
            await assert.rejects(box.files.read("/tmp/many", { limit: 10 }), brig.ProtocolError);
            const gone = AbortSignal.timeout(100);
            await assert.rejects(box.exec(["sleep", "600"], { signal: gone }), { name: "TimeoutError" });
            await assert.rejects(async () => { for await (const e of c.events({ signal: AbortSignal.timeout(100) })) void e; }, { name: "TimeoutError" });
            await box.exec("mkdir /tmp/d; echo x > /tmp/d/f; ln -s f '/tmp/d/a ü'; mkfifo /tmp/d/pipe");
            const packed = await box.files.pack("/tmp/d", new PassThrough().resume());
            assert.deepEqual([packed.size > 1024, packed.leftOut, packed.leftNames.sort()], [true, 2, ["a ü", "pipe"]]);
            assert.deepEqual((await box.files.pack("/tmp/d/f", new PassThrough().resume())).leftNames, []);
            const changes = await box.files.watch("/tmp");
            await changes.return();
            await box.stop({ grace: "1s" });
            await assert.rejects(box.exec("true"), brig.SandboxNotReady);
            await assert.rejects(c.create({ name: "one" }), (e) => e instanceof brig.NameTaken && e instanceof brig.Conflict);
            assert.deepEqual(await c.deleteAll({ a: "b" }), [box.id]);
            const types = [];
            for await (const event of c.events({ since: 0, sandbox: box.id })) {
              types.push(event.type);
              if (event.type === "sandbox.deleted") break;
            }
            assert.ok(types[0] === "sandbox.accepted" && types.includes("exec.cancelled"), types.join());
        """, env=d.environment)
        (workspace() / "count").unlink()


@test
def python_stays_and_questions_are_answered():
    with daemon() as d, sdk.page() as to:
        sdk.node("""
            import assert from "node:assert/strict";
            import * as brig from "brig";
            const c = new brig.Client();
            const box = await c.create({ spec: { network: "proxy", egress: { ask: true, https_only: false, resolve: { "one.test": "TO" } } } });
            const x = box.context("a");
            assert.equal((await x.run("import sys, time; v = 1; sys.argv", { args: ["p q"] })).value.text, "['', 'p q']");
            let r = await x.run("display(v)\\ntime.sleep(60)", { timeout: "500ms" });
            assert.equal(r.outcome, "timeout");
            assert.deepEqual(r.shown.map((s) => [s.number, s.type]), [[1, "display"], [2, "error"]]);
            const call = await x.start("print('on', flush=True)\\ntime.sleep(60)");
            for await (const piece of call) { assert.equal(piece.text, "on\\n"); break; }
            await call.cancel();
            assert.equal((await call.wait()).outcome, "cancelled");
            assert.equal((await x.run("v")).value.text, "1");
            assert.equal((await box.context("b").run("v")).exitCode, 1);
            await assert.rejects(box.context("No name").run("1"), brig.Invalid);
            assert.deepEqual(await box.questions(), []);
            const stop = new AbortController();
            (async () => {
              for await (const e of c.events({ since: 0, sandbox: box.id, signal: stop.signal }))
                if (e.type === "egress.asked") for (const q of await box.questions()) await box.answer(q, "once");
            })().catch(() => {});
            await new Promise((done) => setTimeout(done, 500));
            r = await box.exec("curl -s -o /dev/null -w '%{http_code} ' http://one.test/");
            assert.equal(r.stdout, "200 ");
            await assert.rejects(box.answer(9, "run"), brig.NotFound);
            stop.abort();
            await box.delete();
        """.replace("TO", to), env=d.environment)


@test
def what_is_heard_goes_on_over_the_death_of_the_daemon():
    with daemon() as d:
        p = sdk.start_node("""
            import { Client } from "brig";
            const c = new Client();
            const box = await c.create({ workspace: "." });
            const command = await box.start("echo one; until [ -e go ]; do sleep 0.02; done; echo two");
            const events = c.events({ since: 0 });
            await events.next();
            for await (const piece of command) process.stdout.write(piece.text);
            if (!command.result.ok) throw new Error(command.result.outcome);
            for await (const event of events) if (event.type === "exec.finished") break;
            console.log("heard");
        """, env=d.environment)
        assert p.stdout.readline() == b"one\n", p.stderr.read()
        d.restart()
        (workspace() / "go").touch()
        assert sdk.finish(p, "") == "two\nheard\n"
        (workspace() / "go").unlink()


@test
def a_tenant_needs_its_token_and_stays_below_the_ceiling():
    with daemon_with_tokens(run="run", see="read") as d:
        host = f"http://127.0.0.1:{d.port}"
        code = """
            import { Client } from "brig";
            await new Client({ host: process.env.BRIG_HOST }).info().catch((e) => e.name === "Unauthenticated" || console.log("the token goes elsewhere"));
            const c = new Client();
            await c.withSandbox({}, async (box) => console.log((await box.exec(["echo", "in"])).stdout.trim())).catch((e) => console.log(e.name));
            await c.create({ network: "host" }).catch((e) => console.log(e.name));
            await c.create({ workspace: "." }).catch((e) => console.log(e.what));
        """
        said = sdk.node(code, env={"BRIG_HOST": host, "BRIG_TOKEN": d.tokens["run"]}).splitlines()
        assert said[:2] == ["in", "PolicyCeiling"] and "absolute" in said[2], said
        assert sdk.node(code, env={"BRIG_HOST": host, "BRIG_TOKEN": d.tokens["see"]}).splitlines()[0] == "Forbidden"
        assert sdk.node(code, env={"BRIG_HOST": host}).splitlines()[0] == "Unauthenticated"


@test
def an_address_that_would_give_the_token_away_is_refused():
    assert sdk.node(r"""
        import assert from "node:assert/strict";
        import { BrigError, Client } from "brig";
        for (const host of ["http://192.0.2.1:80", "ftp://127.0.0.1", "http://127.0.0.1:x", "http://u@127.0.0.1:1", "http://127.0.0.1:1/x", "unix://a", "x"])
          assert.throws(() => new Client({ host, token: "secret" }), (e) => e instanceof BrigError && e.hint !== undefined);
        for (const token of ["a b", "a\r\nb", "é"]) assert.throws(() => new Client({ host: "http://127.0.0.1:1", token }), BrigError);
        for (const key of ["", "a b", "a\r\nX: y", "é"])
          await assert.rejects(new Client({ host: "http://127.0.0.1:1" }).create({ key }), (e) => e.name === "BrigError");
        await new Client({ host: "http://127.0.0.1:1" }).info().catch((e) => console.log(e.name, e.hint));
    """) == "ConnectionFailed brig daemon serves there, once it is started\n"


@test
def over_tls_the_certificate_decides():
    code = """
        import { readFileSync } from "node:fs";
        import { Client } from "brig";
        const [host, file] = process.argv.slice(2);
        const ca = readFileSync(file);
        console.log((await new Client({ host, token: "sesame", ca }).info()).lastEvent);
        for (const options of [{ host }, { host: host.replace("localhost", "127.0.0.1"), ca }])
          await new Client({ token: "sesame", ...options }).info().catch((e) => console.log(e.name));
    """
    with sdk.tls_server() as (port, cert, p):
        assert sdk.node(code, f"https://localhost:{port}", cert) == "5\nConnectionFailed\nConnectionFailed\n"
        assert [p.stdout.readline() for _ in range(2)] == [b"True\n"] * 2


@test(as_user="user")
def a_daemon_is_started_when_there_is_none():
    try:
        pid = int(sdk.node("""
            import { Client } from "brig";
            const found = await Promise.all([...Array(8)].map(() => new Client().info()));
            if (found.some((i) => i.schema !== 1 || i.raw.pid !== found[0].raw.pid)) throw new Error("several daemons");
            const { stdout } = await new Client().run(["echo", "hi"]);
            if (stdout !== "hi\\n") throw new Error(stdout);
            console.log(found[0].raw.pid);
        """, env={"BRIG_PROGRAM": str(brig_path()), "SECRET": "hidden"}))
        here = pathlib.Path(f"/proc/{pid}")
        assert (here / "comm").read_text() == "brigd\n" and (here / "cwd").readlink() == pathlib.Path("/")
        assert b"hidden" not in (here / "environ").read_bytes() and list(descendants().values()).count("brigd") == 1
        assert brig("daemon", "status", "--json").json["pid"] == pid, "the command line finds another daemon"
        sdk.node("""
            import fs from "node:fs";
            import { Client } from "brig";
            const client = new Client();
            await client.withSandbox({}, async (box) => {
              const pid = (await client.info()).raw.pid;
              process.kill(pid, "SIGKILL");
              while (fs.existsSync(`/proc/${pid}/stat`) && !fs.readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ")) {
                await new Promise((done) => setTimeout(done, 5));
              }
              // Another is started on the way, and gets all of what can be read once.
              await box.files.write("/tmp/f", (async function* () { for (let i = 0; i < 4; i++) yield Buffer.alloc(1000, 65); })());
              const got = await box.files.read("/tmp/f");
              if (got.length !== 4000) throw new Error(`${got.length} bytes`);
            });
        """, env={"BRIG_PROGRAM": str(brig_path())})
    finally:
        brig("daemon", "stop")
        for left in (runtime() / "brig").iterdir():
            left.unlink()
        (runtime() / "brig").rmdir()
    told = sdk.node("""
        import { Client } from "brig";
        process.env.PATH = "/nowhere";
        await new Client().info().catch((e) => console.log(e.name, e.hint));
    """)
    assert told.startswith("ConnectionFailed ") and "BRIG_PROGRAM" in told, told


@test(as_user="user")
def no_program_is_started_that_a_run_could_have_put_there():
    """Into a folder of PATH, or behind a link of the user's. The control: before the run the same program is started."""
    sdk.plant_program(lambda env: sdk.node("""
        import { Client } from "brig";
        await new Client().info().catch((e) => console.log(e.message));
    """, env=env))


@test(as_user="user")
def what_was_noted_under_another_home_counts():
    sdk.ask_under_another_home(lambda env, path, listed: sdk.node(f"""
        import os from "node:os";
        import {{ isExposed }} from "{sdk.TOP}/sdk/node/lib/exposed.js";
        for (const homedir of ["/nowhere", "{listed}"]) {{
          os.userInfo = () => ({{ homedir }});
          console.log(isExposed("{path}") ? "yes" : "no");
        }}
    """, env=env))


@test(as_user="root")
def of_another_users_file_that_users_notes_count_for_root():
    sdk.ask_of_another_users_file(lambda path, uid, listed: sdk.node(f"""
        import fs from "node:fs";
        import {{ syncBuiltinESMExports }} from "node:module";
        import {{ isExposed }} from "{sdk.TOP}/sdk/node/lib/exposed.js";
        for (const home of ["/nowhere", "{listed}"]) {{
          fs.readFileSync = () => `root:x:0:0::/root:/bin/sh\nother:x:{uid}:{uid}::${{home}}:/bin/sh\n`;
          syncBuiltinESMExports();
          console.log(isExposed("{path}") ? "yes" : "no");
        }}
    """))


@test
def nothing_is_said_at_a_socket_that_a_guest_can_have_put_there():
    """The control: in a folder that is closed the same server is spoken to."""
    for mode in (0o755, 0o700):
        workspace().chmod(mode)
        p = sdk.as_identity(sdk.PYTHON, "-c", sdk.LISTEN)
        assert p.stdout.readline() == b"up\n", p.stderr.read()
        said = sdk.node("""
            import { Client } from "brig";
            await new Client().info().catch((e) => console.log(e.name));
        """, env={"BRIG_HOST": f"unix://{workspace() / 'brig.sock'}"})
        if mode == 0o755:
            p.kill()
        heard = p.communicate(timeout=sdk.WAIT)[0]
        (workspace() / "brig.sock").unlink()
        assert (said, bool(heard)) == (("UntrustedServer\n", False) if mode == 0o755 else ("ConnectionCut\n", True)), (mode, said, heard)
    workspace().chmod(0o755)


@test
def nothing_is_said_to_a_guest_in_a_folder_that_it_has_closed_itself():
    """It may write to the workspace, and a folder that it makes there is the user's alone. The control: before any run the same socket is spoken to."""
    for guest in (False, True):
        argv = [brig_path(), "run", "--", "python3"] if guest else [sdk.PYTHON]
        p = sdk.as_identity(*argv, "-c", f"import os; os.mkdir('own', 0o700); os.chdir('own'){sdk.LISTEN}")
        assert p.stdout.readline() == b"up\n", p.stderr.read()
        said = sdk.node("""
            import { Client } from "brig";
            await new Client().info().catch((e) => console.log(e.name));
        """, env={"BRIG_HOST": f"unix://{workspace() / 'own/brig.sock'}"})
        if guest:
            p.terminate()
        heard = p.communicate(timeout=sdk.WAIT)[0]
        shutil.rmtree(workspace() / "own")
        assert (said, bool(heard)) == (("UntrustedServer\n", False) if guest else ("ConnectionCut\n", True)), (guest, said, heard)


@test(limit=120)
def nothing_is_said_at_a_socket_that_is_there_when_nobody_looks():
    """A command renames it as fast as it can, and listens. The control: who does not look meets it."""
    line = ("import os, socket\ns = socket.socket(socket.AF_UNIX)\ns.bind('r')\ns.listen(64)\ns.setblocking(False)\nprint('up', flush=True)\n"
            "while not os.path.exists('end'):\n    for _ in range(1000):\n        os.rename('r', 's')\n        os.rename('s', 'r')\n    try:\n        s.accept()\n"
            "        open('met', 'w').close()\n    except BlockingIOError:\n        pass\n")
    p = sdk.as_identity(brig_path(), "run", "--", "sh", "-c", "mkdir -m 700 own && cd own && exec python3 -c \"$1\"", "sh", line)
    assert p.stdout.readline() == b"up\n", p.stderr.read()
    code = """
        import net from "node:net";
        import { Client } from "brig";
        const [path, look] = process.argv.slice(2);
        const dial = () => new Promise((done) => { const s = net.connect(path, () => done(s.destroy())); s.on("error", done); });
        for (let i = 0; i < 300; i++) await (look === "look" ? new Client({ host: `unix://${path}` }).info().catch(() => {}) : dial());
    """
    for look in ("look", "blind"):
        sdk.node(code, workspace() / "own/s", look)
        time.sleep(0.2)
        assert (workspace() / "own/met").exists() == (look == "blind"), look
    (workspace() / "own/end").touch()
    p.communicate(timeout=sdk.WAIT)


DRIVER = """
import * as brig from "brig";
const [folder, cases] = [process.argv[2], JSON.parse(process.argv[3])];
const all = async (events) => { for await (const e of events) void e; };
async function one(name, call) {
  const c = new brig.Client({ host: `unix://${folder}/${name}.sock` });
  if (call === "get") return (await c.get("x")).id;
  if (call === "list") return String(await c.list());
  if (call === "create") return (await c.create()).id;
  if (call === "events") return String(await all(c.events({ since: 0 })));
  const box = new brig.Sandbox(c, { id: "sb_x", state: "ready", created: "", labels: {}, execs_running: 0 });
  return call === "exec" ? (await box.exec(["true"])).stdout : String(await box.files.read("x", { limit: 10 }));
}
const told = (e) => (e instanceof brig.ApiError ? `${e.name} ${e.code} ${e.message}` : e instanceof brig.BrigError ? `${e.name} ${e.message}` : String(e.stack));
const found = await Promise.all(Object.entries(cases).map(async ([name, call]) => [name, await one(name, call).catch(told)]));
console.log(JSON.stringify(Object.fromEntries(found)));
"""


@test
def answers_that_are_none_are_refused_and_bounded():
    calls = json.dumps({name: call for name, (call, _, _) in sdk_odd.CASES.items()})
    with sdk.odd_servers(sdk_odd.answers()) as folder:
        sdk_odd.check(json.loads(sdk.node(DRIVER, folder, calls)))
        tried = sdk.requests_of(folder, "created_at_the_second_try")
        assert len(tried) == 2 and tried[0] == tried[1] and len(tried[0][1]) == 36, tried
        keys = [key for _, key in sdk.requests_of(folder, "created_without_a_key")]
        assert len(keys) == 2 and keys[0] and not keys[1], keys
        again = [line for line, _ in sdk.requests_of(folder, "cut_and_attached_again")]
        assert len(again) == 2 and "/execs/ex_1/stream?from=4 " in again[1], again
        assert len(sdk.requests_of(folder, "nothing")) == 4 and len(sdk.requests_of(folder, "half_a_chunk")) == 1


@test(as_user="root")
def its_types_name_what_it_exports():
    version = re.search(r"version: '([^']+)'", (TOP / "meson.build").read_text()).group(1)
    package = json.loads((PACKAGE / "package.json").read_text())
    assert package["version"] == version and "dependencies" not in package
    exported = set(json.loads(sdk.node('import * as brig from "brig"; console.log(JSON.stringify(Object.keys(brig)));')))
    types = (PACKAGE / "index.d.ts").read_text()
    assert set(re.findall(r"^export (?:class|function) (\w+)", types, re.M)) == exported
    members = json.loads(sdk.node("""
        import * as brig from "brig";
        const own = (c) => Object.getOwnPropertyNames(c.prototype).filter((n) => n !== "constructor" && !n.startsWith("_"));
        console.log(JSON.stringify(Object.fromEntries(["Client", "Sandbox", "Exec", "Files", "Result"].map((n) => [n, own(brig[n])]))));
    """))
    for name, there in members.items():
        text = re.search(rf"^export class {name}\b.*?^}}$", types, re.M | re.S).group()
        said = {n for n in re.findall(r"^  (?:get )?(\w+)(?:<T>)?\(", text, re.M) if n != "constructor"}
        assert said == set(there), (name, said ^ set(there))


if __name__ == "__main__":
    sys.exit(main())
