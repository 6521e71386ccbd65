#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What brig goes on with, connects to, writes to or shows on the word of a name that an earlier command may have put there: the ledger of a batch, the program and
the login of a wrapped agent, the socket of an engine or of an ssh-agent, folders of brig's own, records, certificates, keys. The same by the user's own hand is the control."""

import contextlib
import hashlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import brig, brig_argv, brig_environment, home, main, scratch, state, test, uid, wait_until, workspace  # noqa: E402

SYSTEM = "/usr/local/bin:/usr/bin:/bin"


def plant(line, *flags, **more):
    """By a command in a sandbox."""
    done = brig("run", *flags, "--", "sh", "-c", line, **more)
    assert done.status == 0, done.errors


def folder(name):
    """Another one of the user's."""
    at = scratch() / name
    at.mkdir()
    os.chown(at, workspace().stat().st_uid, workspace().stat().st_gid)
    return at


# ---- where it is started ----


@test
def a_link_that_a_run_made_does_not_say_which_folder_the_next_one_works_in():
    """A shell that has followed it names the link in PWD. One of the user's own is the control, and so is the folder by its own name."""
    secret, own = folder("secret"), scratch() / "own"
    own.symlink_to(workspace())
    (workspace() / "sub").mkdir()
    os.chown(workspace() / "sub", workspace().stat().st_uid, -1)
    at = {"PWD": str(own / "sub")}
    assert brig("run", "--", "touch", "taken", cwd=workspace() / "sub", env=at).status == 0 and (workspace() / "sub/taken").exists()
    plant(f"rm -r sub; ln -s {secret} sub")
    for way in (workspace() / "sub", own / "sub"):
        for call in (("run",), ("wrap",), ("run", "--policy", "readonly"), ("plan",)):
            done = brig(*call, "--", "touch", "taken", cwd=secret, env={"PWD": str(way)})
            assert done.status == 125 and "by a link" in done.errors and str(secret) in done.errors and not (secret / "taken").exists(), done
    assert brig("run", "--", "touch", "taken", cwd=secret, env={"PWD": str(secret)}).status == 0 and (secret / "taken").exists()


# ---- a recipe of an image ----


@test
def a_dockerfile_that_a_run_may_have_written_is_built_once_it_was_read():
    """No policy holds for its lines: the engine runs them. One of the user's own, elsewhere, is the control: it gets as far as the engine, which is not there."""
    def build(file):
        done = brig("image", "build", "-t", "mine:1", "-f", file, env={"DOCKER_HOST": f"unix://{scratch()}/none"})
        assert done.status == 125, done
        return done.errors

    own, planted = folder("own") / "Dockerfile", workspace() / "Dockerfile"
    own.write_text("FROM base\n")
    plant("printf 'FROM base\\nRUN curl \\033[8mevil\\n' > Dockerfile")
    assert "is not built" not in build(own)
    link = own.parent / "link"
    link.symlink_to(planted)
    for name in (planted, "Dockerfile", link):
        errors = build(name)
        assert "is not built: a command in a sandbox could have written it" in errors and f"brig allow --dialect dockerfile {planted}" in errors, errors
    shown = brig("allow", "--dialect", "dockerfile", str(planted))
    assert shown.status == 0 and "  RUN curl ?[8mevil\n" in shown.text, shown
    assert all("is not built" not in build(name) for name in (planted, link))
    plant("echo RUN more >> Dockerfile")
    assert "changed since it was allowed" in build(planted)
    plant("rm Dockerfile; mkfifo Dockerfile")  # nobody waits for it
    assert "cannot read" in build(planted)


# ---- a batch ----


def forge(out, lines):
    """A batch that has ended well, without a run."""
    digest = hashlib.sha256(lines.read_bytes()).hexdigest()
    return (f"mkdir -p {out}; cd {out}; echo '{{\"forged\":true}}' > results.jsonl; echo '{{\"batch\":\"{'0' * 32}\",\"version\":1,\"input\":\"{digest}\",\"lines\":1}}' > ledger.jsonl; "
            "echo '{\"end\":1,\"attempt\":1,\"outcome\":\"exited\",\"failed\":false,\"results\":16}' >> ledger.jsonl")


@test
def a_ledger_that_a_run_could_write_is_not_gone_on_with():
    lines, elsewhere = scratch() / "lines", folder("elsewhere")
    lines.write_text('{"argv": ["true"]}\n')
    own, tree = folder("own"), folder("tree")
    subprocess.run(["sh", "-c", forge(own / "out", lines)], check=True)
    subprocess.run(["chown", "-R", f"{workspace().stat().st_uid}", own], check=True)
    done = brig("batch", "--resume", "--out", str(own / "out"), str(lines), cwd=elsewhere)
    assert done.status == 0 and "1 of 1" in done.errors, done.errors  # the control: what the ledger says counts
    plant(forge("out", lines))
    plant(forge(tree / "out", lines), "--write", str(tree))
    (scratch() / "way").symlink_to(workspace() / "out")
    for out in (workspace() / "out", tree / "out", scratch() / "way"):
        done = brig("batch", "--resume", "--out", str(out), str(lines), cwd=elsewhere)
        assert done.status == 125 and "may have written" in done.errors, (out, done.errors)
    (workspace() / "new").mkdir()
    done = brig("batch", "--policy", "readonly", "--out", str(workspace() / "new"), str(lines))
    assert done.status == 125 and not any((workspace() / "new").iterdir()), done.errors


# ---- a wrapped agent ----


@test
def no_link_that_a_run_could_make_says_what_an_agent_is_shown():
    """Along PATH, as a virtual environment or node_modules/.bin puts folders there."""
    secret = folder("secret")
    for at in ("node_modules/x", "venv/bin"):
        (secret / at).mkdir(parents=True)
        (secret / at / "tool").write_text("#!/bin/sh\n")
        (secret / at / "tool").chmod(0o755)
    (secret / "venv/pyvenv.cfg").touch()
    goals = {"node_modules/x/tool": "node_modules", "venv/bin/tool": "venv"}

    def line(bin_, *options):
        return brig("wrap", "--dry-run", *options, "claude", env={"PATH": f"{bin_}:{SYSTEM}", "ANTHROPIC_API_KEY": "k"})

    for goal, shown in goals.items():
        own = folder("bin-" + shown)
        (own / "claude").symlink_to(secret / goal)
        assert f"--read {secret / shown} " in line(own).stdout.decode(), "the control proves nothing"
        plant(f"mkdir -p .venv/bin; ln -sf {secret / goal} .venv/bin/claude; ln -sfn .venv/bin way")
        for bin_ in (".venv/bin", "way"):
            done = line(workspace() / bin_)
            assert done.status == 125 and str(secret) not in done.stdout.decode() and "no sandbox could have put there" in done.errors, (goal, done.stdout, done.errors)
        # Behind what is passed over, the next one is found; `brig wrap --list` goes by the same.
        assert f"--read {secret / shown} " in line(f"{workspace()}/.venv/bin:{own}").stdout.decode()
        listed = brig("wrap", "--list", "--json", env={"PATH": f"{workspace()}/.venv/bin:{SYSTEM}"})
        assert str(secret) not in listed.stdout.decode(), listed.stdout
    # One that really lies in the workspace is shown anyway.
    plant("mkdir -p node_modules/.bin; echo '#!/bin/sh' > node_modules/agent; chmod 755 node_modules/agent; ln -s ../agent node_modules/.bin/claude")
    done = line(workspace() / "node_modules/.bin")
    assert done.status == 0 and "--read" not in done.stdout.decode() and "node_modules/agent" in done.stdout.decode(), (done.stdout, done.errors)


@test
def no_link_that_a_run_made_says_what_is_packed_begun_or_written():
    """It leads to another folder of the user's. One of the user's own is the control."""
    other, own, file = folder("other"), scratch() / "own", scratch() / "x.bundle"
    (other / "role.yaml").write_text("apiVersion: initrunner/v1\nkind: Agent\nmetadata: {name: x, description: d}\nspec:\n  role: hi\n  model: {provider: openai, name: gpt-4o-mini}\n")
    (other / "tasks.jsonl").write_text('{"argv": ["true"]}\n')
    for path in other.iterdir():
        os.chown(path, uid(), -1)
    plant(f"ln -s {other} way; ln -s {other}/tasks.jsonl tasks.jsonl")
    own.symlink_to(other)
    for at, status in ((own, 0), (workspace() / "way", 125)):
        for words in (("bundle", "pack", at, "-o", file), ("bundle", "pack", at / "role.yaml", "-o", file), ("batch", at / "tasks.jsonl"), ("examples", "copy", "batch", at)):
            done = brig(*map(str, words), cwd=elsewhere())
            assert done.status == status and (status == 0 or "may have made" in done.errors), (words, done.errors)
        for copied in set(other.iterdir()) - {other / "role.yaml", other / "tasks.jsonl"}:
            assert at == own, copied
            shutil.rmtree(copied) if copied.is_dir() else copied.unlink()
    assert brig("batch", "tasks.jsonl").status == 125 and brig("batch", str(other / "tasks.jsonl"), cwd=elsewhere()).status == 0


SWAP = ("import ctypes, os\nc = ctypes.CDLL(None)\nopen('up', 'w').close()\nwhile not os.path.exists('end'):\n    for _ in range(1000):\n"
        "        c.renameat2(-100, b'way', -100, b'real', 2)\n")


@test(limit=120)
def a_link_that_is_none_when_brig_looks_says_nothing_either():
    """The command exchanges it with a folder as fast as it can. Who opens the name without a look ends up at both, which is the control."""
    other, kept = folder("other"), 0
    guest = subprocess.Popen(brig_argv("run", "--", "sh", "-c", f"ln -s {other} way; mkdir real; exec python3 -c \"$1\"", "sh", SWAP),
                             cwd=workspace(), env=brig_environment(), stdin=subprocess.DEVNULL)
    assert wait_until((workspace() / "up").exists)
    for _ in range(60):
        brig("examples", "copy", "batch", str(workspace() / "way"), cwd=elsewhere())
        kept += 1
        assert not list(other.iterdir()), (kept, list(other.iterdir()))
    seen = set()
    assert wait_until(lambda: seen.add((workspace() / "way").stat().st_ino) or len(seen) == 2, every=0.0001)
    (workspace() / "end").touch()
    assert guest.wait(30) == 0


# ---- sockets ----

SERVE = ("import os, socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen(8)\nopen(sys.argv[1] + '.up', 'w').close()\n"
         "while not os.path.exists(sys.argv[1] + '.end'):\n    s.settimeout(0.05)\n    try:\n        c = s.accept()[0]\n    except TimeoutError:\n        continue\n"
         "    open(sys.argv[1] + '.met', 'w').close()\n    c.close()\n")


@contextlib.contextmanager
def guest_at(path):
    """A command that listens there, and notes who comes."""
    p = subprocess.Popen(brig_argv("run", "--", "python3", "-c", SERVE, path.name), cwd=path.parent, env=brig_environment(), stdin=subprocess.DEVNULL)
    assert wait_until(path.with_name(path.name + ".up").exists)
    try:
        yield
    finally:
        path.with_name(path.name + ".end").touch()
        assert p.wait(30) == 0


@contextlib.contextmanager
def user_at(path):
    """The same as a program of the user's."""
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(path))
    s.listen(8)
    os.chown(path, workspace().stat().st_uid, workspace().stat().st_gid)
    met = []

    def serve():
        while True:
            c = s.accept()[0]
            met.append(1)
            c.close()
    threading.Thread(target=serve, daemon=True).start()
    yield met


def ask_engine(path):
    return brig("run", "--backend", "docker", "--image", "x", "--", "true", env={"DOCKER_HOST": f"unix://{path}"}, cwd=elsewhere())


def ask_engine_by_context(path):
    """What a docker context names, in a folder that no run could write."""
    config = scratch() / "docker"
    meta = config / "contexts/meta" / hashlib.sha256(b"c").hexdigest()
    meta.mkdir(parents=True, exist_ok=True)
    (config / "config.json").write_text('{"currentContext": "c"}')
    (meta / "meta.json").write_text('{"Endpoints": {"docker": {"Host": "unix://%s"}}}' % path)
    return brig("run", "--backend", "docker", "--image", "x", "--", "true", env={"DOCKER_CONFIG": str(config)}, cwd=elsewhere())


def ask_agent(path):
    return brig("run", "--ssh-agent", "--", "true", env={"SSH_AUTH_SOCK": str(path)}, cwd=elsewhere())


def elsewhere():
    at = scratch() / "elsewhere"
    return at if at.exists() else folder("elsewhere")


@test(limit=60)
def a_socket_that_a_run_could_make_is_neither_an_engine_nor_an_agent():
    way = scratch() / "way"
    way.symlink_to(workspace())
    for ask in (ask_engine, ask_engine_by_context, ask_agent):
        own = folder("own-" + ask.__name__)
        with user_at(own / "s") as met:
            ask(own / "s")
            assert wait_until(lambda: met), (ask.__name__, "the control proves nothing")
        with guest_at(workspace() / "s"):
            for path in (workspace() / "s", way / "s"):
                done = ask(path)
                assert done.status == 125 and not (workspace() / "s.met").exists() and "may have written" in done.errors, (ask.__name__, path, done.errors)
        for p in workspace().iterdir():
            p.unlink()


FLICKER = ("import os, socket\ns = socket.socket(socket.AF_UNIX)\ns.bind('r')\ns.listen(8)\ns.setblocking(False)\nopen('s.up', 'w').close()\n"
           "while not os.path.exists('s.end'):\n    for _ in range(1000):\n        os.rename('r', 's')\n        os.rename('s', 'r')\n    try:\n        s.accept()\n"
           "        open('s.met', 'w').close()\n    except BlockingIOError:\n        pass\n")


@test(limit=120)
def a_socket_that_is_there_when_nobody_looks_is_not_an_engine_either():
    """The command renames it as fast as it can: missing when brig looks at the name, and there when it connects. By its name the command
    meets whoever connects without a look, which is the control."""
    own = elsewhere()
    guest = subprocess.Popen(brig_argv("run", "--", "python3", "-c", FLICKER), cwd=workspace(), env=brig_environment(), stdin=subprocess.DEVNULL)
    assert wait_until((workspace() / "s.up").exists)
    for _ in range(40):
        done = brig("run", "--backend", "docker", "--image", "x", "--", "true", env={"DOCKER_HOST": f"unix://{workspace()}/s"}, cwd=own)
        assert done.status == 125 and not (workspace() / "s.met").exists(), done.errors

    def meet():
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as s:
            s.connect(str(workspace() / "s"))
        return (workspace() / "s.met").exists()
    assert wait_until(meet, every=0.0001)
    (workspace() / "s.end").touch()
    assert guest.wait(30) == 0


@test
def a_docker_context_that_a_run_could_write_is_not_used():
    name = hashlib.sha256(b"c").hexdigest()
    make = f"mkdir -p contexts/meta/{name}; echo '{{\"currentContext\": \"c\"}}' > config.json; echo '{{\"Endpoints\": {{\"docker\": {{\"Host\": \"unix://{scratch()}/s\"}}}}}}' > contexts/meta/{name}/meta.json"
    own = folder("own")
    subprocess.run(["sh", "-c", make], cwd=own, check=True)
    plant(make)
    for at, said in ((own, str(scratch() / "s")), (workspace(), "may have written")):
        done = brig("run", "--backend", "docker", "--image", "x", "--", "true", env={"DOCKER_CONFIG": str(at)}, cwd=elsewhere())
        assert done.status == 125 and said in done.errors, done.errors
    done = brig("run", "--backend", "docker", "--image", "x", "--", "true", env={"DOCKER_CONFIG": str(workspace()), "DOCKER_CONTEXT": "c"}, cwd=elsewhere())
    assert done.status == 125 and "may have written" in done.errors, done.errors


@test(as_user="user")
def a_docker_context_that_leads_to_what_a_run_could_write_is_not_used():
    """In a folder of the user's own, each file by a link, by a second name and by a link above it."""
    own, name = folder("own"), hashlib.sha256(b"c").hexdigest()
    host = '{"Endpoints": {"docker": {"Host": "unix://%s"}}}' % (scratch() / "s")
    plant(f"echo '{{\"currentContext\": \"c\"}}' > config.json; mkdir -p meta/{name}; echo '{host}' > meta/{name}/meta.json")
    config, meta = own / "config.json", own / "contexts/meta" / name / "meta.json"
    meta.parent.mkdir(parents=True)

    def ask():
        return brig("run", "--backend", "docker", "--image", "x", "--", "true", env={"DOCKER_CONFIG": str(own)}, cwd=elsewhere()).errors

    def clean():
        config.unlink(missing_ok=True)
        meta.unlink(missing_ok=True)
        config.write_text('{"currentContext": "c"}')
        meta.write_text(host)

    clean()
    assert str(scratch() / "s") in ask(), "the control proves nothing"
    for file, planted in ((config, workspace() / "config.json"), (meta, workspace() / "meta" / name / "meta.json")):
        for put in (os.symlink, os.link):
            clean()
            file.unlink()
            put(planted, file)
            said = ask()
            assert "context is not used" in said and ("may have written" in said or "hard links" in said), (file, put, said)
    clean()
    meta.unlink()
    meta.parent.rmdir()
    meta.parent.symlink_to(workspace() / "meta" / name)
    assert "may have written" in ask()


# ---- folders of brig's own ----


@test(as_user="user")
def no_folder_that_a_run_could_make_becomes_brigs_own():
    """A variable that leads there today: what a run has made in it would be believed. The notes of yesterday's state count, wherever today's is."""
    usual = {"XDG_STATE_HOME": str(home() / ".local/state"), "XDG_RUNTIME_DIR": None}
    (home() / ".local").symlink_to(state())  # the state of who sets no variable is where the test looks for one
    (state() / "state").symlink_to(state())
    usual["XDG_STATE_HOME"] = None
    own = folder("own")
    plant("mkdir -pm 700 x/brig/homes x/brig/ssh", env=usual)
    for variable, words in (("XDG_STATE_HOME", ()), ("XDG_CACHE_HOME", ("--home", "keep")), ("XDG_RUNTIME_DIR", ())):
        (own / variable).mkdir(mode=0o700)
        done = brig("run", *words, "--", "true", env={**usual, variable: str(own / variable)}, cwd=elsewhere())
        assert done.status == 0, (variable, done.errors)  # the control
        before = sorted(workspace().rglob("*"))
        done = brig("run", *words, "--", "true", env={**usual, variable: str(workspace() / "x")}, cwd=elsewhere())
        assert done.status == 125 and variable in done.errors and "may have written" in done.errors, (variable, done.errors)
        assert sorted(workspace().rglob("*")) == before, variable
    plant("mkdir y; chmod 0 y; touch z", env=usual)  # which the command opens, or makes a folder, when nobody looks
    for closed in ("y", "z"):
        done = brig("run", "--", "true", env={**usual, "XDG_STATE_HOME": str(workspace() / closed)}, cwd=elsewhere())
        assert done.status == 125 and "may have written" in done.errors, (closed, done.errors)
    (workspace() / "y").chmod(0o700)
    for words in (("bundle", "list"), ("daemon",)):
        done = brig(*words, env={**usual, "XDG_STATE_HOME": str(workspace() / "x")}, cwd=elsewhere())
        assert done.status == 125 and "may have written" in done.errors, (words, done.errors)
    (home() / ".local").unlink()
    (state() / "state").unlink()


@test
def a_run_that_is_refused_has_written_nowhere():
    notes = state() / "brig/exposed"
    done = brig("run", "--write", str(state()), "--", "true", cwd=elsewhere())
    assert done.status == 125 and "brig's own state" in done.errors and not (notes.exists() and list(notes.iterdir())), done.errors
    assert brig("run", "--", "true", cwd=elsewhere()).status == 0 and len([n for n in notes.iterdir() if n.is_symlink()]) == 2  # the control
    assert brig("run", "--set", "audit.enabled=false", "--write", str(state()), "--", "true").status == 125 and len([n for n in notes.iterdir() if n.is_symlink()]) == 2


# ---- what brig writes ----


def settings(text):
    path = scratch() / "own.yaml"
    path.write_text("brig: 1\n" + text)
    return "--config", str(path)


@test
def neither_record_nor_anchor_nor_metrics_go_where_a_run_could_write():
    victim, own = folder("victim"), folder("own")
    victim.chmod(0o700)
    (own / "d").mkdir(mode=0o700)
    os.chown(own / "d", uid(), -1)
    plant(f"mkdir -m 700 d; ln -s {victim} way")
    for line in ("audit: {dir: %s}", "audit: {anchor: [%s/heads]}", "metrics: {textfile: %s/brig.prom}"):
        done = brig("run", *settings(line % (own / "d")), "--", "true", cwd=elsewhere())
        assert done.status == 0 and list((own / "d").iterdir()), (line, done.errors)  # the control
        for at in ("d", "way"):
            done = brig("run", *settings(line % (workspace() / at)), "--", "true", cwd=elsewhere())
            assert done.status == 125 and "may have written" in done.errors and not list(victim.iterdir()) and not list((workspace() / "d").iterdir()), (line, at, done.errors)
    # This run, the first one there: its own head would be the command's to change.
    first = folder("first")
    done = brig("run", *settings(f"audit: {{anchor: [{first}/heads]}}"), "--", "true", cwd=first)
    assert done.status == 125 and "this run works or may write" in done.errors, done.errors


@test
def no_link_or_pipe_that_a_run_made_is_written_through():
    victim, own = scratch() / "victim", folder("own")
    victim.write_text("precious")
    os.chown(victim, uid(), -1)
    (own / "report").symlink_to(own / "there")
    done = brig("audit", "export", "--output", str(own / "report"))
    assert done.status == 0 and (own / "there").read_text().startswith("["), done.errors  # the control: a link of the user's own is followed
    plant(f"ln -s {victim} report; ln -s {scratch()} way; mkfifo ca.pem pipe")
    for name in ("report", "pipe"):
        done = brig("audit", "export", "--output", name)
        assert done.status == 0 and not (workspace() / name).is_symlink() and (workspace() / name).read_text().startswith("["), done.errors
    done = brig("audit", "export", "--output", str(workspace() / "way/victim"))
    assert done.status == 125 and "symbolic link" in done.errors, done.errors
    p = subprocess.Popen(brig_argv("proxy", "--allow", "api.test", "ca.pem"), cwd=workspace(), env=brig_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    assert wait_until((workspace() / "ca.pem").is_file)
    p.terminate()
    assert p.wait(30) == 0 and victim.read_text() == "precious"


# ---- keys and certificates ----

LOGIN = '{"claudeAiOauth": {"accessToken": "sk-ant-oat01-' + 40 * "a" + '"}}'


@test(as_user="user")
def a_login_that_a_run_could_write_is_not_used():
    """~/.claude is a link into a folder of settings that is worked on in a sandbox."""
    plant(f"mkdir claude; echo '{LOGIN}' > claude/.credentials.json; chmod 600 claude/.credentials.json")
    own = folder("own")
    (own / ".credentials.json").write_text(LOGIN)
    (own / ".credentials.json").chmod(0o600)
    os.chown(own / ".credentials.json", uid(), -1)
    for at, status in ((own, 0), (workspace() / "claude", 125)):
        (home() / ".claude").symlink_to(at)
        done = brig("run", "--network", "proxy", "--allow", "api.anthropic.com", "--credential", "CLAUDE_CODE_OAUTH_TOKEN", "--", "true", cwd=elsewhere())
        assert done.status == status and (status == 0 or "may have written" in done.errors), done.errors
        (home() / ".claude").unlink()


@test(as_user="user")
def no_certificate_or_configuration_of_tls_is_taken_from_a_run():
    own = folder("own")
    (own / "ca.pem").touch()
    plant("touch ca.pem")
    for variable in ("SSL_CERT_FILE", "SSL_CERT_DIR", "OPENSSL_CONF", "OPENSSL_MODULES"):
        for at, said in ((own, "127.0.0.1:9"), (workspace(), f"variable {variable} leads to")):
            done = brig("bundle", "inspect", "oci://127.0.0.1:9/x/y:1", env={variable: str(at / "ca.pem")}, cwd=elsewhere())
            assert done.status == 125 and said in done.errors, (variable, done.errors)
    done = brig("bundle", "inspect", "oci://127.0.0.1:9/x/y:1", env={"SSL_CERT_DIR": f"{own}:{workspace()}"}, cwd=elsewhere())  # a list of folders
    assert done.status == 125 and "variable SSL_CERT_DIR leads to" in done.errors, done.errors
    traces = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": "https://127.0.0.1:9"}
    for at in (own, workspace()):
        done = brig("run", "--", "true", env={**traces, "OTEL_EXPORTER_OTLP_CERTIFICATE": str(at / "ca.pem")}, cwd=elsewhere())
        assert done.status == 0 and ("may have written" in done.errors) == (at == workspace()), done.errors
    done = brig("run", "--", "true", env={**traces, "SSL_CERT_DIR": f"{own}:{workspace()}"}, cwd=elsewhere())
    assert done.status == 0 and "may have written" in done.errors, done.errors


@test(as_user="root")
def a_bundle_is_signed_as_it_was_packed_and_by_no_key_of_a_run():
    """A command that lives meanwhile puts its own in the place of the file, as soon as that is there."""
    role, key = folder("role"), scratch() / "key"
    (role / "role.yaml").write_text("apiVersion: initrunner/v1\nkind: Agent\nmetadata: {name: x, description: d}\nspec:\n  role: hi\n  model: {provider: openai, name: gpt-4o-mini}\n")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    when = {"SOURCE_DATE_EPOCH": "1"}
    assert brig("bundle", "pack", str(role), "-o", str(scratch() / "good.bundle"), env=when).status == 0
    swap = "touch up; until [ -e x.bundle ]; do :; done; echo mine > y; mv y x.bundle"
    p = subprocess.Popen(brig_argv("run", "--", "sh", "-c", swap), cwd=workspace(), env=brig_environment(), stdin=subprocess.DEVNULL)
    assert wait_until((workspace() / "up").exists)
    done = brig("bundle", "pack", str(role), "-o", "x.bundle", "--sign", str(key), env=when)
    assert p.wait(30) == 0 and done.status == 0 and (workspace() / "x.bundle").read_text() == "mine\n", done.errors
    (scratch() / "good.bundle.sig").write_bytes((workspace() / "x.bundle.sig").read_bytes())
    done = brig("bundle", "inspect", str(scratch() / "good.bundle"), "--verify-key", f"{key}.pub", cwd=elsewhere())
    assert done.status == 0 and "SHA256:" in done.text, done.errors
    plant(f"echo '{pathlib.Path(f'{key}.pub').read_text().strip()}' > vendor.pub")
    done = brig("bundle", "inspect", str(scratch() / "good.bundle"), "--verify-key", str(workspace() / "vendor.pub"), cwd=elsewhere())
    assert done.status == 125 and "may have written" in done.errors, done.errors


@test(as_user="user")
def an_address_behind_a_sign_leads_no_program_to_what_a_run_made():
    own, value = folder("own"), "abcdefghijklmnopqrstuvwxyz0123456789"
    (own / "bus").touch()
    plant("touch bus")
    words = settings(f"network: proxy\negress: {{allow: [api.test]}}\ncredentials: {{KEY: {{host: api.test, from: {{command: [echo, {value}]}}}}}}\n")
    for form in ("unix:path=%s", "FILE:%s", "%s"):
        for at, status in ((own, 0), (workspace(), 125)):
            done = brig("run", *words, "--", "true", env={"DBUS_SESSION_BUS_ADDRESS": form % (at / "bus")}, cwd=elsewhere())
            assert done.status == status and (status == 0 or "DBUS_SESSION_BUS_ADDRESS leads to" in done.errors), (form, done.errors)


if __name__ == "__main__":
    sys.exit(main())
