# SPDX-License-Identifier: Apache-2.0
"""A sandbox that stays open, through brig.h: what conformance/drive_sandbox.c does, said from Python."""

import contextlib
import itertools
import json
import os
import pathlib
import subprocess

from harness import PATIENCE, brig_argv, brig_environment, brig_path, files_as_root, wait_until, workspace

_numbers = itertools.count()
DRIVER = pathlib.Path(os.environ.get("BRIG", "build/brig")).resolve().parent / "tests/drive-sandbox"


class Sandbox:
    """drive-sandbox, as this test's identity; brig stands beside it for the backend that starts it inside."""

    def __init__(self, backend, *settings, folder=True, env=None):
        self.mark = f"MARK_{os.getpid()}_{next(_numbers)}=1"  # among the variables of everything in it
        argv = brig_argv()
        program = brig_path().parent / "drive-sandbox"  # beside brig, as what it starts is found from there
        if not program.exists():
            with files_as_root():
                new = program.with_suffix(f".{os.getpid()}")
                new.write_bytes(DRIVER.read_bytes())
                new.chmod(0o755)
                new.rename(program)
        argv[argv.index(str(brig_path()))] = str(program)
        env = brig_environment(env)
        env["PATH"] = f"{brig_path().parent}:{env['PATH']}"
        host = ["allow_full_access=true"] if backend == "none" else []
        settings = [f"backend={backend}", *host, *([f"workspace.path={workspace()}"] if folder else []),
                    f"env.set={self.mark}", *settings]
        with files_as_root():
            self.process = subprocess.Popen([*argv, *settings], env=env,
                                            cwd=workspace(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.opened = self.process.stdout.readline().decode().strip()

    def __enter__(self):
        assert self.opened == "ok", self.opened
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.read()
        assert self.process.wait(20 * PATIENCE) == 0

    def processes(self):
        """All there is of it on this machine as {pid: name}, wherever an engine has put it; brig's own first process in a container, too."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if self.mark.encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes():
                    found[int(pid)] = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
        return found

    def containers(self, engine):
        """Its names on an engine that others use, too."""
        found = ((name, engine.ask("GET", f"/containers/{name}/json")) for name in engine.containers())
        return [name for name, (status, c) in found if status == 200 and self.mark in (c["Config"]["Env"] or ())]

    def say(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        said = self.process.stdout.readline().decode().strip()
        if said.isdigit():
            return json.loads(self.process.stdout.read(int(said)))
        return said

    def start(self, number, line, **settings):
        for key, value in settings.items():
            assert self.say(f"set {number} {key.replace('__', '.')} {value}") == "ok"
        said = self.say(f"exec {number} {line}")
        assert said == "ok", said

    def wait(self, number):
        return self.say(f"wait {number}")

    def run(self, number, line, **settings):
        self.start(number, line, **settings)
        return self.wait(number)

    def until(self, name):
        """A command says by a file that it has come so far; the sandbox is turned meanwhile."""
        assert wait_until(lambda: self.say("turn 10") == "ok" and (workspace() / name).exists(), 15), name

    def touch(self, name):
        """A file of its workspace, for a command that waits for it."""
        (workspace() / name).touch()

    def text(self, name):
        return (workspace() / name).read_text()


class FarSandbox(Sandbox):
    """One whose workspace is a copy elsewhere: it is looked at by commands of its own."""

    def _aside(self, line):
        r = self.run(200 + next(_numbers) % 100, line)  # numbers that no test uses; one may be used again
        assert r["outcome"] == "exited" and r["exit_code"] == 0, r
        return r["stdout"]

    def until(self, name):
        self._aside(f"while [ ! -e {name} ]; do sleep 0.05; done")

    def touch(self, name):
        self._aside(f": > {name}")

    def text(self, name):
        return self._aside(f"cat {name}")
