#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The package for Python, installed as a user would, against the real daemon."""

import json
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import sdk  # noqa: E402
import sdk_odd  # noqa: E402
from daemon import daemon, daemon_with_tokens  # noqa: E402
from harness import TOP, around, brig, brig_path, descendants, main, runtime, scratch, test, workspace  # noqa: E402

around(sdk.packages)

PACKAGE = TOP / "sdk/python"


@test(limit=90)
def the_examples_of_its_readme_print_what_it_says():
    shown = [*sdk.examples(PACKAGE / "README.md", "python"), *sdk.examples(TOP / "docs/embedding.md", "python")]
    assert len(shown) >= 12
    with daemon() as d:
        for code, printed in shown:
            got = sdk.finish(sdk.as_identity(sdk.venv_python(), "-c", code, env=d.environment), code)
            assert got == printed, f"{code}\nprints\n{got}"


@test
def a_sandbox_lives_and_its_commands_are_heard():
    with daemon() as d:
        sdk.python("""
            import signal
            import brig
            c = brig.Client()
            box = c.create(name="one", labels={"a": "b"}, workspace=".", idle_ttl=600.5)
            held = {f.name: f.type for f in box.files.list()}
            assert held[".vscode"] == "protected" and box.files.stat(".vscode").type == "protected", held
            assert box.info.state == "ready" and box.info.labels == {"a": "b"}, box.info
            heard = []
            r = c.run("echo a; echo b >&2", on_output=heard.append)
            assert r.stdout == "a\\n" and sorted((p.stream, p.text) for p in heard) == [("stderr", "b\\n"), ("stdout", "a\\n")], heard
            assert c.get("one").id == box.id and [b.id for b in c.list(state="ready")] == [box.id]
            big = bytes(range(256)) * 8192
            r = box.exec(["cat"], stdin=big)
            assert r.ok and r.stdout_bytes == big[:len(r.stdout_bytes)] and (r.truncated or len(r.stdout_bytes) == len(big)), r
            r = box.exec("printf '\\\\377\\\\0'; printf é >&2; exit 9", env={"A": "b"})
            assert (r.exit_code, r.stdout_bytes, r.stderr) == (9, b"\\xff\\0", "é"), r
            r = box.exec("echo $A; pwd", env={"A": "b c"}, cwd="/tmp")
            assert r.stdout == "b c\\n/tmp\\n", r.stdout
            late = box.exec(["sleep", "60"], timeout=0.1)
            assert late.outcome == "timeout"
            try:
                late.check()
                raise AssertionError("a command that was late has passed")
            except brig.CommandFailed as e:
                assert str(e).startswith("the command timed out after ") and str(e).endswith(" s"), e
            for words, said in (("kill -9 $$", "was ended by signal 9"), (["no-such-program"], "was refused: 'no-such-program': command not found"), ("echo why >&2; exit 3", "exited with 3: why")):
                try:
                    box.exec(words).check()
                    raise AssertionError("a command that failed has passed")
                except brig.CommandFailed as e:
                    assert str(e) == "the command " + said, e
            assert box.exec(["head", "-c", "100000", "/dev/zero"], output_limit=1000).truncated
            long = "x" * 300000
            assert box.exec(["wc", "-c"], stdin=long).stdout.strip() == "300000"
            first = box.exec(["sh", "-c", "echo x >> count; wc -l < count"], key="k1")
            again = box.exec(["sh", "-c", "echo x >> count; wc -l < count"], key="k1")
            assert first.stdout == again.stdout == "1\\n"
            command = box.start(["sleep", "600"])
            assert command.refresh().state == "running" and command.id in [e.id for e in box.commands()]
            command.signal(signal.SIGKILL)
            assert command.wait().outcome != "exited" and command.refresh().state == "ended"
            try:
                command.signal("TERM")
            except brig.ExecEnded as e:
                assert e.status == 409
            else:
                raise AssertionError("a command that has ended took a signal")
            command.write("nobody reads this")
            with box.start("trap '' TERM; sleep 600 & wait") as command:
                pass
            assert command.wait().outcome == "cancelled", command.result
            with box.start(["cat"], stdin=True) as command:
                command.write("a")
                command.close_stdin()
                assert command.wait().stdout == "a"
            box.stop(grace="1s")
            try:
                box.exec("true")
            except brig.SandboxNotReady:
                pass
            else:
                raise AssertionError("a stopped sandbox ran a command")
            try:
                c.create(name="one")
            except brig.NameTaken as e:
                assert isinstance(e, brig.Conflict)
            else:
                raise AssertionError("two have one name")
            box.resume()
            try:
                box.files.write("/proc/x", (bytes(65536) for _ in range(300)))
            except brig.ApiError as e:
                assert e.status >= 400
            else:
                raise AssertionError("/proc was written to")
            assert c.delete_all({"a": "b"}) == [box.id]
            types = []
            for event in c.events(since=0, sandbox=box.id):
                types.append(event.type)
                if event.type == "sandbox.deleted":
                    break
            assert types[0] == "sandbox.accepted" and "exec.cancelled" in types, types
        """, env=d.environment)
        (workspace() / "count").unlink()


@test
def the_asynchronous_client_does_the_same():
    with daemon() as d:
        sdk.python("""
            import asyncio, io, os
            import brig
            from brig import aio

            async def pieces():
                yield b"one "
                yield b"two"

            async def main():
                async with aio.Client() as c, await c.create(name="a", limits={"memory": "128m"}) as box:
                    assert (await c.get("a")).id == box.id and len(await c.list()) == 1
                    assert (await c.run("cat; exit 2", stdin="x")).exit_code == 2
                    r = await box.exec(["cat"], stdin=b"\\0" * 200000, output_limit="1m")
                    assert len(r.stdout_bytes) == 200000, (r, len(r.stdout_bytes))
                    await box.files.write("/tmp/f", pieces())
                    assert await box.files.read_text("/tmp/f") == "one two" and await box.files.exists("/tmp/f")
                    await box.files.mkdir("/tmp/d")
                    await box.files.move("/tmp/f", "/tmp/d/f")
                    to = io.BytesIO()
                    got = await box.files.pack("/tmp/d", to)
                    assert got == brig.Packed(len(to.getvalue()), 0, ()), got
                    await box.exec("ln -s /etc/passwd '/tmp/d/a link'; mkfifo /tmp/d/pipe")
                    got = await box.files.pack("/tmp/d", io.BytesIO())
                    assert got.left_out == 2 and sorted(got.left_names) == ["a link", "pipe"] and got.size == len(to.getvalue()), got
                    await box.exec("rm '/tmp/d/a link' /tmp/d/pipe")
                    await box.files.unpack("/tmp", to.getvalue())
                    assert (await box.files.stat("/tmp/f")).size == 7
                    assert "f" in [f.name for f in await box.files.list("/tmp")]
                    async with box.files.watch("/tmp") as changes:
                        await box.files.remove("/tmp/f")
                        async for change in changes:
                            if change.name == "f":
                                break
                    try:
                        await box.files.read("/tmp/f")
                    except brig.NotFound:
                        pass
                    heard = []
                    assert (await c.run(["echo", "x"], on_output=heard.append)).ok and [p.data for p in heard] == [b"x\\n"]
                    await box.exec(["python3", "-c", "open(b'/tmp/d/\\\\xff', 'w').write('odd')"])
                    (odd,) = [f for f in await box.files.list("/tmp/d") if f.name != "f"]
                    assert odd.name_bytes == b"\\xff" and await box.files.read("/tmp/d/" + os.fsdecode(odd.name_bytes)) == b"odd"
                    for much in ((bytes(65536) for _ in range(300)), bytes(20 << 20)):
                        try:
                            await box.files.write("/proc/x", much)
                        except brig.ApiError as e:
                            assert e.status >= 400
                        else:
                            raise AssertionError("/proc was written to")
                    async with await box.start(["cat"], stdin=True, tty=(24, 80)) as command:
                        await command.resize(10, 10)
                        await command.write("hi\\r")
                        seen = b""
                        async for piece in command:
                            seen += piece.data
                            if seen.count(b"hi") == 2:
                                break
                    assert (await box.pause()).state == "paused" and (await box.resume()).state == "ready"
                    for n in range(20):
                        listening = asyncio.create_task(box.exec(["sleep", "600"]))
                        while (await box.refresh()).execs_running <= n:
                            pass
                        listening.cancel()
                        assert (await asyncio.wait({listening}, timeout=20))[0] and listening.cancelled(), "a cancellation was lost"
                    assert (await box.update(name="b")).name == "b" and isinstance(await box.logs(), str)
                    assert (await box.stop()).state == "stopped"
                    types = [e.type async for e in box.events(since=0, follow=False)]
                    assert "sandbox.paused" in types, types
                assert not await c.list()

            asyncio.run(main())
        """, env=d.environment)


@test
def python_stays_and_questions_are_answered():
    with daemon() as d, sdk.page() as to:
        sdk.python(f"""
            import asyncio, threading
            import brig
            from brig import aio
            c = brig.Client()
            box = c.create(spec={{"network": "proxy", "egress": {{"ask": True, "https_only": False, "resolve": {{"one.test": "{to}", "two.test": "{to}"}}}}}})
            x = box.context("a")
            assert x.run("import sys, time; v = 1; sys.argv", args=["p q"]).value.text == "['', 'p q']"
            r = x.run("time.sleep(60)", timeout=0.5)
            assert r.outcome == "timeout" and r.shown[-1].type == "error" and r.shown[-1].text.startswith("KeyboardInterrupt"), r
            call = x.start("print('on', flush=True)\\ntime.sleep(60)")
            assert next(iter(call)).text == "on\\n"
            call.cancel()
            assert call.wait().outcome == "cancelled" and x.run("v").value.text == "1"
            png = __import__("base64").b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")
            r = x.run(f"class P:\\n def _repr_png_(self): return {{png!r}}\\nP()")
            assert r.value.bytes("image/png") == png and box.context("b").run("v").exit_code == 1
            try:
                box.context("No name").run("1")
                raise AssertionError("a bad name was taken")
            except brig.Invalid:
                pass
            x.run("__import__('threading').Timer(0.1, __import__('os')._exit, [7]).start(); time.sleep(0.05)")
            time = __import__("time"); time.sleep(1)
            assert x.run("v").shown[0].text == "a new context: its process has ended, exit code 7"

            async def also():
                async with aio.Client() as ac:
                    other = await ac.get(box.id)
                    assert (await other.context().run("1 + 1")).value.text == "2" and await other.questions() == []
            asyncio.run(also())

            def person():
                for e in c.events(since=0, sandbox=box.id):
                    if e.type == "egress.asked":
                        asked = box.questions()
                        assert [(q.number, q.host, q.port) for q in asked] == [(e.data["question"], e.data["host"], 80)], asked
                        box.answer(asked[0], "once" if e.data["host"] == "one.test" else "no")
            threading.Thread(target=person, daemon=True).start()
            time.sleep(0.5)
            r = box.exec("for n in one two; do curl -s -o /dev/null -w '%{{http_code}} ' http://$n.test/; done")
            assert r.stdout == "200 403 ", r
            try:
                box.answer(9, "run")
                raise AssertionError("nobody has asked that")
            except brig.NotFound:
                pass
            box.delete()
        """, env=d.environment)


@test
def what_is_heard_goes_on_over_the_death_of_the_daemon():
    with daemon() as d:
        p = sdk.as_identity(sdk.venv_python(), "-u", "-c", """if True:
            import brig
            c = brig.Client()
            box = c.create(workspace=".")
            command = box.start("echo one; until [ -e go ]; do sleep 0.02; done; echo two")
            events = c.events(since=0)
            assert next(events).type == "sandbox.accepted"
            for piece in command:
                print(piece.text, end="", flush=True)
            assert command.result.ok, command.result
            assert [e.seq for e in c.events(since=0, follow=False)][0] == 1
            for event in events:
                if event.type == "exec.finished":
                    break
            print(event.seq > 4)
        """, env=d.environment)
        assert p.stdout.readline() == b"one\n", p.stderr.read()
        d.restart()
        (workspace() / "go").touch()
        assert sdk.finish(p, "") == "two\nTrue\n"
        (workspace() / "go").unlink()


@test
def a_tenant_needs_its_token_and_stays_below_the_ceiling():
    with daemon_with_tokens(run="run", see="read") as d:
        host = f"http://127.0.0.1:{d.port}"
        code = """
            import sys
            import brig
            c = brig.Client()
            try:
                with c.create() as box:
                    print(box.exec(["echo", "in"]).stdout.strip())
                c.create(network="host")
            except brig.BrigError as e:
                print(type(e).__name__)
            try:
                c.create(workspace=".")
            except brig.BrigError as e:
                print(e.what)
        """
        said = sdk.python(code, env={"BRIG_HOST": host, "BRIG_TOKEN": d.tokens["run"]}).splitlines()
        assert said[:2] == ["in", "PolicyCeiling"] and "absolute" in said[2], said
        assert sdk.python(code, env={"BRIG_HOST": host, "BRIG_TOKEN": d.tokens["see"]}).splitlines()[0] == "Forbidden"
        assert sdk.python(code, env={"BRIG_HOST": host}).splitlines()[0] == "Unauthenticated"


@test
def an_address_that_would_give_the_token_away_is_refused():
    assert sdk.python("""
        import os
        import brig
        for host in ("http://192.0.2.1:80", "ftp://127.0.0.1", "http://127.0.0.1:x", "http://u@127.0.0.1:1", "http://127.0.0.1:1/x", "unix://a", "x"):
            try:
                brig.Client(host, "secret").info()
            except brig.BrigError as e:
                assert e.hint, e
            else:
                raise AssertionError(host)
        for token in ("a b", "a\\r\\nb", "é"):
            try:
                brig.Client("http://127.0.0.1:1", token)
            except brig.BrigError:
                continue
            raise AssertionError(token)
        for key in ("", "a b", "a\\r\\nX: y", "é", "x" * 256):
            try:
                brig.Client("http://127.0.0.1:1").create(key=key)
            except brig.ConnectionFailed:
                raise AssertionError(key)
            except brig.BrigError:
                continue
        os.environ.update(BRIG_HOST="http://127.0.0.1:1", BRIG_TOKEN="secret")
        assert brig.Client()._at.token == "secret" and brig.Client("http://127.0.0.1:2")._at.token is None, "the token goes elsewhere"
        assert "secret" not in repr(brig.Client("http://127.0.0.1:1", "secret")._at)
        try:
            brig.Client("http://127.0.0.1:1").info()
        except brig.ConnectionFailed as e:
            print(e.hint)
    """) == "brig daemon serves there, once it is started\n"


@test
def over_tls_the_certificate_decides():
    code = """
        import asyncio, sys
        import brig
        from brig import aio
        host, cert = sys.argv[1:]
        assert brig.Client(host, "sesame", ca=cert).info().last_event == 5
        assert asyncio.run(aio.Client(host, "sesame", ca=cert).info()).last_event == 5
        for client in (brig.Client(host, "sesame"), brig.Client(host.replace("localhost", "127.0.0.1"), "sesame", ca=cert)):
            try:
                client.info()
            except brig.ConnectionFailed as e:
                print("certificate" in str(e).lower())
    """
    with sdk.tls_server() as (port, cert, p):
        assert sdk.python(code, f"https://localhost:{port}", cert) == "True\nTrue\n"
        assert [p.stdout.readline() for _ in range(4)] == [b"True\n"] * 4


@test(as_user="user")
def a_daemon_is_started_when_there_is_none():
    env = {"BRIG_PROGRAM": str(brig_path()), "SECRET": "hidden"}
    try:
        pid = int(sdk.python("""
            import asyncio, concurrent.futures
            import brig
            from brig import aio
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                assert {i.schema for i in pool.map(lambda _: brig.Client().info(), range(8))} == {1}
            assert brig.Client().run(["echo", "hi"]).stdout == "hi\\n"
            assert asyncio.run(aio.Client().info()).sandboxes == 0
            print(brig.Client().info().raw["pid"])
        """, env=env))
        here = pathlib.Path(f"/proc/{pid}")
        assert (here / "comm").read_text() == "brigd\n" and (here / "cwd").readlink() == pathlib.Path("/")
        assert b"hidden" not in (here / "environ").read_bytes()
        assert [name for name in descendants().values()].count("brigd") == 1
        assert brig("daemon", "status", "--json").json["pid"] == pid, "the command line finds another daemon"
        assert sdk.python("from brig import aio; import asyncio; print(asyncio.run(aio.Client().info()).raw['pid'])") == f"{pid}\n"
    finally:
        brig("daemon", "stop")
        for left in (runtime() / "brig").iterdir():
            left.unlink()
        (runtime() / "brig").rmdir()
    told = sdk.python("""
        import os
        import brig
        os.environ["PATH"] = "/nowhere"
        try:
            brig.Client().info()
        except brig.ConnectionFailed as e:
            print(e.hint)
    """)
    assert "BRIG_PROGRAM" in told, told


@test(as_user="user")
def no_program_is_started_that_a_run_could_have_put_there():
    """Into a folder of PATH, or behind a link of the user's. The control: before the run the same program is started."""
    sdk.plant_program(lambda env: sdk.python("""
        import asyncio
        import brig
        from brig import aio
        for call in (lambda: brig.Client().info(), lambda: asyncio.run(aio.Client().info())):
            try:
                call()
            except brig.ConnectionFailed as e:
                print(e)
    """, env=env))


@test(as_user="user")
def what_was_noted_under_another_home_counts():
    sdk.ask_under_another_home(lambda env, path, listed: sdk.python("""
        import pwd, sys, types
        from brig import _exposed
        for home in ("/nowhere", sys.argv[2]):
            pwd.getpwuid = lambda uid: types.SimpleNamespace(pw_dir=home)
            print("yes" if _exposed.is_exposed(sys.argv[1]) else "no")
    """, path, listed, env=env))


@test(as_user="root")
def of_another_users_file_that_users_notes_count_for_root():
    sdk.ask_of_another_users_file(lambda path, uid, listed: sdk.python("""
        import pwd, sys, types
        from brig import _exposed
        for home in ("/nowhere", sys.argv[3]):
            pwd.getpwuid = lambda uid: types.SimpleNamespace(pw_dir=home if uid == int(sys.argv[2]) else "/nowhere")
            print("yes" if _exposed.is_exposed(sys.argv[1]) else "no")
    """, path, str(uid), listed))


@test
def nothing_is_said_to_a_guest_that_plays_the_daemon():
    for guest, call in ((False, "brig.Client().info()"), (True, "brig.Client().info()"), (True, "asyncio.run(aio.Client().info())")):
        argv = [brig_path(), "run", "--", "python3"] if guest else [sdk.PYTHON]
        p = sdk.as_identity(*argv, "-c", sdk.LISTEN)
        assert p.stdout.readline() == b"up\n", p.stderr.read()
        said = sdk.python(f"""
            import asyncio
            import brig
            from brig import aio
            try:
                {call}
            except brig.BrigError as e:
                print(type(e).__name__)
        """, env={"BRIG_HOST": f"unix://{workspace() / 'brig.sock'}"})
        heard = int(p.stdout.readline())
        p.communicate(timeout=sdk.WAIT)
        (workspace() / "brig.sock").unlink()
        assert (said, heard > 0) == (("UntrustedServer\n", False) if guest else ("ConnectionCut\n", True)), (guest, said, heard)


GIVEN = """
import os, socket, time
if os.fork() == 0:
    s = socket.socket(socket.AF_UNIX)
    s.bind("brig.sock")
    s.listen()
    if os.fork() == 0:
        time.sleep(0.3)  # whoever listens is gone by then
        print("up", flush=True)
        print(len(s.accept()[0].recv(65536)), flush=True)
        time.sleep(600)
    os._exit(0)
os.wait()
time.sleep(600)
"""


@test
def nothing_is_said_at_a_socket_whose_listener_is_gone():
    """The kernel tells the number of whoever began to listen, also when that is a process of the host's by now."""
    for guest in (False, True):
        argv = [brig_path(), "run", "--", "python3"] if guest else [sdk.PYTHON]
        p = sdk.as_identity(*argv, "-c", GIVEN if guest else sdk.LISTEN)
        assert p.stdout.readline() == b"up\n", p.stderr.read()
        said = sdk.python("""
            import brig
            from brig import _peer
            _peer._depth = lambda pid: 1
            _peer.is_exposed = lambda path: False
            try:
                brig.Client().info()
            except brig.BrigError as e:
                print(type(e).__name__)
        """, env={"BRIG_HOST": f"unix://{workspace() / 'brig.sock'}"})
        p.terminate()
        heard = int(p.communicate(timeout=sdk.WAIT)[0] or 0)
        (workspace() / "brig.sock").unlink()
        assert (said, heard > 0) == (("UntrustedServer\n", False) if guest else ("ConnectionCut\n", True)), (guest, said, heard)


@test
def nothing_is_said_at_a_named_socket_where_a_guest_could_write():
    """Whoever listens there seems to be a process of the host's: an old kernel does not tell that its number is another's."""
    for exposed in (False, True):
        if exposed:
            assert brig("run", "--", "true").status == 0
        for call in ("brig.Client().info()", "asyncio.run(aio.Client().info())"):
            p = sdk.as_identity(sdk.PYTHON, "-c", sdk.LISTEN)
            assert p.stdout.readline() == b"up\n", p.stderr.read()
            said = sdk.python(f"""
                import asyncio
                import brig
                from brig import aio
                try:
                    {call}
                except brig.BrigError as e:
                    print(type(e).__name__)
            """, env={"BRIG_HOST": f"unix://{workspace() / 'brig.sock'}"})
            heard = int(p.stdout.readline())
            p.communicate(timeout=sdk.WAIT)
            (workspace() / "brig.sock").unlink()
            assert (said, heard > 0) == (("UntrustedServer\n", False) if exposed else ("ConnectionCut\n", True)), (exposed, said, heard)


ASK_BY_PYTHON = """
import brig
try:
    brig.Client().info()
except brig.BrigError as e:
    print(type(e).__name__)
"""
ASK_BY_NODE = """
import { Client } from "brig";
await new Client().info().catch((e) => console.log(e.name));
"""


@test(as_user="root", by_root=True)
def nothing_is_said_to_another_users_server():
    folder = scratch() / "open"
    folder.mkdir()
    folder.chmod(0o777)
    for run, code in ((sdk.python, ASK_BY_PYTHON), (sdk.node, ASK_BY_NODE)):
        with subprocess.Popen([sdk.PYTHON, "-c", sdk.LISTEN], user=4242, group=4242, cwd=folder, stdout=subprocess.PIPE) as p:
            assert p.stdout.readline() == b"up\n"
            assert run(code, env={"BRIG_HOST": f"unix://{folder / 'brig.sock'}"}) == "UntrustedServer\n"
            p.kill()
            assert p.stdout.read() in (b"", b"0\n")
        (folder / "brig.sock").unlink()


DRIVER = """
import asyncio, concurrent.futures, json, sys
import brig
from brig import aio
folder, cases, which = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]

def sync(call, host):
    c = brig.Client(host)
    if call == "get":
        return c.get("x").id
    if call == "list":
        return str(c.list())
    if call == "create":
        return c.create().id
    if call == "events":
        return str(list(c.events(since=0)))
    box = brig.Sandbox(c, {"id": "sb_x", "state": "ready", "created": "", "labels": {}, "execs_running": 0})
    return box.exec(["true"]).stdout if call == "exec" else str(box.files.read("x", limit=10))

async def asynchronous(call, host):
    c = aio.Client(host)
    if call == "get":
        return (await c.get("x")).id
    if call == "list":
        return str(await c.list())
    if call == "create":
        return (await c.create()).id
    if call == "events":
        return str([e async for e in c.events(since=0)])
    box = aio.Sandbox(c, {"id": "sb_x", "state": "ready", "created": "", "labels": {}, "execs_running": 0})
    return (await box.exec(["true"])).stdout if call == "exec" else str(await box.files.read("x", limit=10))

def told(e):
    return f"{type(e).__name__} {e.code} {e}" if isinstance(e, brig.ApiError) else f"{type(e).__name__} {e}"

def one(name):
    try:
        return sync(cases[name], f"unix://{folder}/{name}.sock")
    except brig.BrigError as e:
        return told(e)

async def all():
    done = await asyncio.gather(*(asynchronous(call, f"unix://{folder}/{name}.sock") for name, call in cases.items()), return_exceptions=True)
    return [told(d) if isinstance(d, Exception) else d for d in done]

with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
    found = dict(zip(cases, pool.map(one, cases) if which == "sync" else asyncio.run(all())))
print(json.dumps(found))
"""


@test(limit=120)
def answers_that_are_none_are_refused_and_bounded():
    calls = json.dumps({name: call for name, (call, _, _) in sdk_odd.CASES.items()})
    for which in ("sync", "async"):
        with sdk.odd_servers(sdk_odd.answers()) as folder:
            sdk_odd.check(json.loads(sdk.finish(sdk.as_identity(sdk.venv_python(), "-c", DRIVER, folder, calls, which), which)))
            tried = sdk.requests_of(folder, "created_at_the_second_try")
            assert len(tried) == 2 and tried[0] == tried[1] and len(tried[0][1]) == 32, tried
            keys = [key for _, key in sdk.requests_of(folder, "created_without_a_key")]
            assert len(keys) == 2 and keys[0] and not keys[1], keys
            again = [line for line, _ in sdk.requests_of(folder, "cut_and_attached_again")]
            assert len(again) == 2 and "/execs/ex_1/stream?from=4 " in again[1], again
            assert len(sdk.requests_of(folder, "nothing")) == 4 and len(sdk.requests_of(folder, "half_a_chunk")) == 1
        for left in folder.iterdir():
            left.unlink()
        folder.rmdir()


@test(as_user="root")
def the_package_is_typed_and_of_this_version():
    version = re.search(r"version: '([^']+)'", (TOP / "meson.build").read_text()).group(1)
    assert f'version = "{version}"' in (PACKAGE / "pyproject.toml").read_text()
    assert sdk.python("import brig, pathlib; print(brig.__version__, (pathlib.Path(brig.__file__).parent / 'py.typed').exists())") == f"{version} True\n"
    cache = pathlib.Path(os.environ.get("BRIG", TOP / "build/brig")).parent / "mypy"
    found = subprocess.run(["mypy", "--strict", "--python-version", "3.9", f"--cache-dir={cache}", PACKAGE / "brig"], capture_output=True, text=True,
                           check=False)
    assert found.returncode == 0, found.stdout + found.stderr


@test(as_user="root")
def a_wheel_is_the_same_each_time_and_the_source_archive_makes_it():
    code = """
        import os, pathlib, subprocess, sys, tarfile, hashlib
        top, out = map(pathlib.Path, sys.argv[1:])
        def build(source, what, to):
            to.mkdir()
            done = subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, 'backend'); import brig_backend; print(brig_backend.build_{what}(sys.argv[1]))",
                                   str(to)], cwd=source, capture_output=True, text=True, check=True)
            return to / done.stdout.strip()
        wheel = build(top, "wheel", out / "a").read_bytes()
        with tarfile.open(build(top, "sdist", out / "b")) as t:
            t.extractall(out / "c")
        (source,) = (out / "c").iterdir()
        assert (source / "PKG-INFO").read_text().startswith("Metadata-Version: 2.1\\nName: brig\\n")
        assert build(source, "wheel", out / "d").read_bytes() == wheel
        assert build(top, "editable", out / "e").stat().st_size < len(wheel)
    """
    (scratch() / "built").mkdir()
    copy = scratch() / "copy"
    subprocess.run(["cp", "-r", PACKAGE, copy], check=True)
    sdk.python(code, copy, scratch() / "built")


if __name__ == "__main__":
    sys.exit(main())
