#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What brig goes on with, connects to or shows on the word of a name that an earlier command may have put there: the ledger of a batch, the program of a
wrapped agent, the socket of an engine or of an ssh-agent. The same by the user's own hand is the control."""

import contextlib
import hashlib
import os
import pathlib
import socket
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import brig, brig_argv, brig_environment, main, scratch, test, wait_until, workspace  # noqa: E402

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
            assert met, (ask.__name__, "the control proves nothing")
        with guest_at(workspace() / "s"):
            for path in (workspace() / "s", way / "s"):
                done = ask(path)
                assert done.status == 125 and not (workspace() / "s.met").exists() and "may have written" in done.errors, (ask.__name__, path, done.errors)
        for p in workspace().iterdir():
            p.unlink()


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


if __name__ == "__main__":
    sys.exit(main())
