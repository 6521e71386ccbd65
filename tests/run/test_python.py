# SPDX-License-Identifier: Apache-2.0
"""brig python and brig script: where the code appears, that nobody inside can change it, and what stays behind."""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lib"))

from harness import PATIENCE, brig, home, identity, main, scratch, start_brig, test, tree, wait_until, workspace


ROLE = """
security:
  sandbox:
    backend: auto
"""
HOST = ("--backend", "none", "--i-know-this-is-not-a-sandbox")
# Every way to change, hide or move a file that a hostile program would try first.
ATTACKS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
own = __file__
folder = os.path.dirname(own)

def mount():
    if libc.mount(b"/tmp", folder.encode(), None, 4096, None) < 0:
        raise OSError(ctypes.get_errno(), "mount")

def replace():
    open("/tmp/x", "w").close()
    os.replace("/tmp/x", own)

def link():
    os.link(own, folder + "/second")
    open(folder + "/second", "a")

for attack in (lambda: open(own, "w"), lambda: open(own, "a"), lambda: os.unlink(own), lambda: os.rename(own, own + "x"),
               lambda: os.chmod(own, 0o777), lambda: os.truncate(own, 0), lambda: os.utime(own), lambda: os.remove(own),
               lambda: os.symlink("/etc/passwd", own), replace, link, mount, lambda: open("/proc/self/root" + own, "a"),
               lambda: os.rename(folder, folder + "2") if folder == "/code" else open(own, "a")):
    try:
        attack()
        print("done", attack)
    except OSError:
        pass
print("first line:", open(own).readline().strip())
"""


def role(text=ROLE):
    (workspace() / "role.yaml").write_text(text)
    return ["--config", workspace() / "role.yaml"]


@test
def the_three_ways_to_give_code():
    (workspace() / "file.py").write_text("import sys; print('file', sys.argv[1:])")
    assert brig("python", "file.py", "--timeout", "9s", "one", "two").text == "file ['one', 'two']\n"
    assert brig("python", "-c", "print('given')").text == "given\n"
    assert brig("python", "-", input=b"print('read')").text == "read\n"
    assert brig("python", "-c", "import sys; print(sys.argv[1:])", "--", "-x", "--json").text == "['-x', '--json']\n"
    assert brig("python", "-c", "print(input())", input=b"line\n").text == "line\n"
    assert brig("python", "-c", "raise SystemExit(9)").status == 9
    assert "FILE" in brig("python").errors and brig("python").status == 125
    done = brig("python", "missing.py")
    assert done.status == 125 and "'missing.py' does not exist" in done.errors


@test
def code_is_any_bytes_and_of_bounded_length():
    text = "s = '" + "x" * (3 << 20) + "'\nprint(len(s), 'é')\n"
    assert brig("python", "-", input=text.encode()).text == f"{3 << 20} é\n"
    done = brig("python", "-", input=b"#" * ((8 << 20) + 1))
    assert done.status == 125 and "longer than 8 MiB" in done.errors


@test
def nobody_inside_can_change_the_code():
    bwrap = ["--backend", "bwrap"]
    for options in ([], ["--policy", "readonly"], ["--set", "read_only_root=false"], role(), [*role(), "--policy", "readonly"],
                    bwrap, [*bwrap, "--policy", "readonly"], [*bwrap, *role()]):
        done = brig("python", *options, "-c", "# the code\n" + ATTACKS)
        assert done.text == "first line: # the code\n", (options, done.text, done.errors)
    # The same program on a file of its own gets through: the attacks are real.
    (workspace() / "own.py").write_text("# the code\n" + ATTACKS)
    (workspace() / "own.py").chmod(0o666)
    done = brig("run", "--", "python3", "own.py")
    assert done.text.count("done") >= 4, done.text


@test
def a_workspace_cannot_shadow_the_code():
    """A hole of two of the seed systems: the workspace was mounted over the file."""
    (workspace() / "_run.py").write_text("print('the workspace own')")
    assert brig("python", *role(), "-c", "print(__file__, open(__file__).read()[:5])").text == "/work/_run.py print\n"
    (workspace() / "code").mkdir()
    done = brig("python", "--mount", f"{workspace()}/code:/code/x", "-c", "print(1)")
    assert done.status == 125 and "where the code appears" in done.errors, done.errors
    done = brig("python", *role(), "--mount", f"{workspace()}/code:/work/_run.py", "-c", "print(1)")
    assert done.status == 125, done.errors


@test
def a_file_of_that_name_is_covered_and_stays_as_it_is():
    own = workspace() / "_run.py"
    own.write_text("mine")
    own.chmod(0o640)
    os.utime(own, (1, 1))
    before = own.stat()
    done = brig("python", *role(), "-c", "import os; print(open('_run.py').read()[:6]); open('new', 'w')")
    assert done.text == "import\n", done.errors
    after = own.stat()
    assert own.read_text() == "mine" and (before.st_ino, before.st_mode, before.st_mtime) == (after.st_ino, after.st_mode, after.st_mtime)
    own.unlink()
    for bad in (lambda: own.symlink_to("new"), own.mkdir):
        bad()
        done = brig("python", *role(), "-c", "print(1)")
        assert done.status == 125 and "not a plain file" in done.errors, done.errors
        own.rmdir() if own.is_dir() and not own.is_symlink() else own.unlink()


@test
def the_place_made_for_it_is_gone_afterwards():
    options = role()
    before = tree(workspace())
    assert brig("python", *options, "-c", "import os; print(sorted(n for n in os.listdir('.') if n[0] == '_'))").text == "['_run.py']\n"
    assert tree(workspace()) == before
    assert brig("python", "--backend", "bwrap", *options, "-c", "print(__file__)").text == "/work/_run.py\n"
    assert tree(workspace()) == before
    assert brig("python", *options, "--timeout", "200ms", "-c", "import time; time.sleep(9)").status == 124
    assert tree(workspace()) == before


@test
def also_when_brig_was_killed():
    options = role()
    before = tree(workspace())
    p = start_brig("python", *options, "-c", "open('begun', 'w'); import time; time.sleep(60)")
    assert wait_until((workspace() / "begun").exists, 10)
    place = workspace() / "_run.py"
    assert place.stat().st_size == 0 and place.stat().st_mode & 0o777 == 0
    # Two runs share the place; the last one removes it.
    assert brig("python", *options, "-c", "print(2)").text == "2\n"
    assert place.exists()
    p.kill()
    p.communicate()
    (workspace() / "begun").unlink()
    assert brig("run", "--", "true").status == 0
    assert tree(workspace()) == before


@test
def rlm_code_runs_a_file_of_the_folder_in_place():
    (workspace() / "config.yaml").write_text("sandbox:\n  runtime: docker\n")
    (workspace() / "sub").mkdir()
    (workspace() / "sub/task.py").write_text("print(__file__)")
    (scratch() / "other.py").write_text("print(__file__)")
    options = ["--config", workspace() / "config.yaml", "--backend", "native"]
    assert brig("python", *options, "sub/task.py").text == "/workspace/sub/task.py\n"
    assert brig("python", *options, scratch() / "other.py").text == "/code/_run.py\n"
    assert brig("python", *options, "-c", "print(__file__)").text == "/code/_run.py\n"
    assert brig("python", "sub/task.py").text == "/code/_run.py\n"


@test
def on_the_host_the_code_has_no_name():
    done = brig("python", *HOST, "-c", "import os, sys\nprint(sys.argv, os.readlink(__file__))\n"
                "try:\n os.write(os.open(__file__, os.O_RDWR), b'x')\nexcept OSError as e:\n print('no')", "arg")
    assert done.text == "['/proc/self/fd/3', 'arg'] /memfd:brig-code (deleted)\nno\n", done.text + done.errors
    assert "not a sandbox" in done.errors
    assert brig("python", *HOST, "-c", "import time; time.sleep(9)", "--timeout", "300ms").status == 124


@test
def a_script_is_its_interpreters_input():
    (workspace() / "job.sh").write_text("echo \"$NAME $COUNT\"; pwd; exit 5\n")
    done = brig("script", "--param", "name=A B", "job.sh", "--param", "count=2")
    assert (done.text, done.status) == (f"A B 2\n{workspace()}\n", 5)
    assert brig("script", "--interpreter", "python3", "-", input=b"print(1 + 1)").text == "2\n"
    assert brig("script", "--interpreter", "no-such", "job.sh").status == 127
    assert brig("script", "job.sh", "other").status == 125
    assert brig("script", "--json", "-", input=b"echo out; echo err >&2").json["stderr"] == "err\n"


@test
def a_script_names_its_interpreter_as_the_kernel_reads_it():
    for text, said in (("#!/usr/bin/env python3\nprint(2 + 2)\n", "4\n"), ("#! /usr/bin/python3 -E \r\nimport sys\nprint(sys.flags.ignore_environment)\n", "1\n"),
                       ("#!/bin/sh -c\n", ""), ("#!python3\necho sh\n", "sh\n"), ("#!\necho sh\n", "sh\n"), (" #!/bin/cat\necho sh\n", "sh\n"),
                       ("#!/bin/cat", "#!/bin/cat")):
        done = brig("script", "-", input=text.encode())
        assert done.text == said, (text, done)
    assert brig("script", "--interpreter", "cat", "-", input=b"#!/bin/sh\n").text == "#!/bin/sh\n"
    assert brig("script", "-", input=b"#!/no/such\n").status == 127
    assert brig("script", "-", input=b"#!/" + b"x" * 300 + b"\necho sh\n").text == "sh\n"


@test
def a_parameter_steers_no_program():
    for name in ("path", "LD_PRELOAD", "ifs", "Bash_Env", "home"):
        done = brig("script", "--param", f"{name}=x", "-", input=b"true")
        assert done.status == 125 and "steers programs" in done.errors, (name, done.errors)
    for bad in ("1x=1", "a-b=1", "=1", "x"):
        assert brig("script", "--param", bad, "-", input=b"true").status == 125, bad


@test
def a_role_says_how_long_and_how_much():
    done = brig("python", *role(), "--json", "-c", "print('x' * 200000)").json
    assert done["stdout_truncated"] and len(done["stdout"]) == 102400
    shown = brig("config", "show", "--config", workspace() / "role.yaml", "--json").json
    assert "30000" in str(shown)
    tools = """apiVersion: initrunner/v1
spec:
  tools:
    - type: python
      timeout_seconds: 1
      max_output_bytes: 10
    - type: script
      interpreter: /usr/bin/python3
      scripts: [{name: a, body: "x"}]
"""
    done = brig("python", *role(tools), "--json", "-c", "print('x' * 200, flush=True); import time; time.sleep(9)").json
    assert done["outcome"] == "timeout" and done["stdout"] == "x" * 10 and 900 < done["duration_ms"] < 4000 * PATIENCE, done
    assert brig("python", *role(tools), "--timeout", "3s", "-c", "import time; time.sleep(1.5); print(1)").text == "1\n"
    assert brig("script", *role(tools), "-", input=b"print(1 + 1)").text == "2\n"


@test
def the_code_leaves_the_arguments():
    p = start_brig("python", "-c", "# SECRET_WORD\nopen('begun', 'w'); import time; time.sleep(60)")
    assert wait_until((workspace() / "begun").exists, 10)
    line = pathlib.Path(f"/proc/{p.pid}/cmdline").read_bytes()
    p.terminate()
    p.communicate()
    assert b"python" in line and b"SECRET_WORD" not in line


@test
def a_report_goes_to_a_descriptor():
    out, into = os.pipe()
    p = start_brig("run", "--report-fd", str(into), "--", "sh", "-c", "echo out; exit 3", pass_fds=[into])
    os.close(into)
    text = p.communicate()[0]
    said = json.loads(os.fdopen(out).read())
    assert text == b"out\n" and said["outcome"] == "exited" and said["exit_code"] == 3 and said["stdout"] == ""


@test
def code_that_a_workspace_replaced_by_a_link_or_a_pipe_is_refused():
    """An earlier run left it there: the link would show, in an error of the interpreter's at least, what it leads to."""
    secret, code = home() / "secret", workspace() / "code"
    secret.write_text("CANARY-CODE = = 1\n")
    code.write_text("# nothing\n")
    for command in ("python", "script"):
        assert brig(command, code).status == 0
        control = brig(command, secret)
        assert b"CANARY" in control.stdout + control.stderr, "the control proves nothing"
    code.unlink()
    (workspace() / "folder").symlink_to(home())
    code.symlink_to(secret)
    os.mkfifo(workspace() / "pipe")
    for command in ("python", "script"):
        for path in (code, "code", workspace() / "folder/secret", workspace() / "pipe", workspace()):
            done = brig(command, path, timeout=10)
            assert done.status == 125 and b"CANARY" not in done.stdout + done.stderr, (command, path, done)
        if identity() == "root":  # whose pipe it is: another user may not open it again
            assert brig(command, "/dev/stdin", input=b"# given as the shell gives it\n").status == 0
    for path in (secret, code, workspace() / "folder", workspace() / "pipe"):
        path.unlink()


HOOKED = """
security:
  tools: {audit_hooks_enabled: true%s}
  sandbox: {backend: auto}
"""
# What each kind of event is tripped by, and the word that the hook says.
TRIPPED = {
    "open('/work/new', 'w')": "[open] write to '/work/new' blocked",
    "import os; os.open('/work/new', os.O_CREAT | os.O_WRONLY)": "[open] write to '/work/new' blocked",
    "import os; os.mkdir('/work/new')": "[os.mkdir] write to '/work/new' blocked",
    "import os; os.symlink('/etc/passwd', '/work/new')": "[os.symlink] write to '/work/new' blocked",
    "import os; os.system('touch /work/new')": "[os.system] starting a program blocked",
    "import os; os.fork() or open('/work/new', 'w')": "[os.fork] starting a program blocked",
    "import os; os.posix_spawn('/bin/touch', ['touch', '/work/new'], {})": "[os.posix_spawn] starting a program blocked",
    "import subprocess": "[import] import of 'subprocess' blocked",
    "import http.server": "[import] import of 'http.server' blocked",
    "import threading": "[import] import of 'threading' blocked",
    "exec('1')": "of a text blocked",
    "eval('1')": "of a text blocked",
    "exec(compile(\"open('/work/new', 'w')\", '/work/named.py', 'exec'))": "[compile] compile of a text blocked",
    "import urllib.request as u; u.build_opener(u.ProxyHandler({})).open('http://10.1.2.3/')": "connection to private address '10.1.2.3' blocked",
    "import urllib.request as u; u.build_opener(u.ProxyHandler({})).open('http://[::ffff:127.0.0.1]/')": "connection to private address",
}


@test
def the_audit_hook_trips_on_what_the_role_does_not_want():
    hooked = role(HOOKED % "")
    for code, word in TRIPPED.items():
        done = brig("python", *hooked, "-c", code)
        assert done.status == 1 and "SandboxViolation: " in done.errors and word in done.errors, (code, done)
        assert not (workspace() / "new").exists(), code
    # The control: without the hook the file comes to be.
    assert brig("python", *role(), "-c", "import os; os.system('touch /work/new')").status == 0
    (workspace() / "new").unlink()
    # What the interpreter and its library do for honest code is theirs.
    hooked = role(HOOKED % "")
    (workspace() / "beside.py").write_text("x = 1\n")
    code = "import beside, collections, dataclasses, json, logging, sys, tempfile; print(collections.namedtuple('A', 'b')(1), sys.argv, __name__, __file__)"
    done = brig("python", *hooked, "-c", code, "--", "x")
    assert done.text == "A(b=1) ['/work/_run.py', 'x'] __main__ /work/_run.py\n", done
    done = brig("python", *hooked, "-c", "import sys\nsys.stdin.read()\n1/0", input=b"in")
    assert done.status == 1 and '"/work/_run.py", line 3' in done.errors and "<string>" not in done.errors, done
    assert brig("python", *hooked, "-c", "import sys; sys.exit(7)").status == 7
    # It is Python's alone: a command is not looked at.
    assert brig("run", *hooked, "--", "sh", "-c", "touch new").status == 0 and (workspace() / "new").exists()
    (workspace() / "new").unlink()


@test
def the_audit_hook_obeys_its_settings():
    told = role(HOOKED % ", sandbox_violation_action: log")
    done = brig("python", *told, "-c", "open('/work/new', 'w').write('x')")
    assert done.status == 0 and "brig: audit hook: [open] write to '/work/new' blocked" in done.errors, done
    assert (workspace() / "new").read_text() == "x"
    (workspace() / "new").unlink()
    wide = role(HOOKED % ", allowed_write_paths: [out, /tmp], allow_subprocess: true, allow_eval_exec: true, blocked_custom_modules: [json]")
    (workspace() / "out").mkdir()
    (workspace() / "out").chmod(0o777)
    code = ("import os, subprocess, tempfile\nopen('out/a', 'w'); tempfile.TemporaryFile(); print(eval('1+1'))\n"
            "subprocess.run(['true'], check=True)\ntry: open('out/../b', 'w')\nexcept RuntimeError as e: print(e)\nimport json")
    done = brig("python", *wide, "-c", code)
    assert done.text == "2\n[open] write to '/work/b' blocked (not in allowed_write_paths)\n" and "import of 'json' blocked" in done.errors, done
    assert (workspace() / "out/a").exists()
    near = role(HOOKED % ", block_private_ips: false, blocked_custom_modules: [], allowed_network_hosts: [a.example, 127.0.0.1]")
    done = brig("python", *near, "-c", "import socket; socket.create_connection(('127.0.0.1', 9), 1)")
    assert "ConnectionRefusedError" in done.errors and "SandboxViolation" not in done.errors, done
    done = brig("python", *near, "-c", "import socket; socket.getaddrinfo('b.example', 80)")
    assert "[socket.getaddrinfo] name 'b.example' blocked" in done.errors, done
    # A tripwire, and no more: who knows of it walks around it, and meets the sandbox.
    hooked = role(HOOKED % "")
    done = brig("python", *hooked, "-c", "open('/proc/self/mem', 'rb')\nprint(open('/etc/shadow').read())")
    assert done.status == 1 and "SandboxViolation" not in done.errors, done
    done = brig("python", *hooked, "--backend", "ssh", "--set", "ssh.host=nowhere.invalid", "-c", "1")
    assert done.status == 125 and "backend ssh cannot honour audit_hooks_enabled" in done.errors, done
    done = brig("python", *hooked, *HOST, "-c", "import sys; print(sys.argv); open('new', 'w')")
    assert done.status == 1 and "[open] write to" in done.errors and done.text.startswith("['/proc/self/fd/"), done
    assert not (workspace() / "new").exists()


if __name__ == "__main__":
    sys.exit(main())
