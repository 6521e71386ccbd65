# SPDX-License-Identifier: Apache-2.0
"""A real sshd on a loopback port for the time of a test, with a generated key.

    with Sshd() as host:
        brig("run", *host.options(), "--", "true")

Started by root it lets in the identity that starts brig: root, or the harness's ordinary user. Both
have a line in a passwd file that only this test sees: what root's own shell does at every start is
not ours to wait for. Nothing is left: sshd, its sessions and the
shared connections end with the block.
"""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess

import harness

USER = "brigtest"
PATH = "/usr/local/bin:/usr/bin:/bin"


def run(*argv):
    done = subprocess.run(list(map(os.fspath, argv)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Sshd:
    """options(): what makes brig use it. Attributes: port, config (of the client), process, folder."""

    def __init__(self, folder=None, setting="", persist="30s"):
        self.folder = pathlib.Path(folder or harness.scratch()) / "sshd"
        self.setting, self.persist = setting, persist
        self.login = USER if os.geteuid() == 0 and harness.identity() == "user" else None
        self.passwd_mounted = False

    # ---- files ----

    def _files(self):
        self.folder.mkdir(exist_ok=True)
        if not (self.folder / "host").exists():
            for name in ("host", "key"):
                run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name)
                for part in (name, f"{name}.pub"):
                    os.chown(self.folder / part, 0 if name == "host" and os.geteuid() == 0 else harness.uid(), -1)
        self.port = free_port()
        public = (self.folder / "host.pub").read_text().split()
        (self.folder / "known").write_text(f"[127.0.0.1]:{self.port} {public[0]} {public[1]}\n")
        self.config = self.folder / "client"
        self.config.write_text(
            f"Host box\n HostName 127.0.0.1\n Port {self.port}\n{f' User {self.login}' if self.login else ''}\n"
            f" IdentityFile {self.folder}/key\n IdentitiesOnly yes\n UserKnownHostsFile {self.folder}/known\n"
            " GlobalKnownHostsFile /dev/null\n")
        self.config.chmod(0o600)
        (self.folder / "server").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host\nPidFile none\n"
            f"AuthorizedKeysFile {self.folder}/key.pub\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
            f"PasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxSessions 64\nMaxStartups 100\n"
            f"SetEnv PATH={PATH}:{harness.brig_path().parent} XDG_STATE_HOME={harness.state()}\n{self.setting}\n")

    def _passwd(self):
        """A passwd with whoever starts brig, for this test's mount namespace alone."""
        own = self.folder / "passwd"
        name = self.login or "root"
        others = [line for line in pathlib.Path("/etc/passwd").read_text().splitlines() if not line.startswith(f"{name}:")]
        own.write_text("\n".join([f"{name}:x:{harness.uid()}:{harness.uid()}::{harness.home()}:/bin/sh", *others, ""]))
        own.chmod(0o644)
        run("mount", "--bind", own, "/etc/passwd")
        self.passwd_mounted = True

    # ---- life ----

    def start(self):
        self.process = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", str(self.folder / "server")],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=(self.folder / "log").open("ab"))

        def answers():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as s:
                return s.recv(4) == b"SSH-"
            return False

        assert harness.wait_until(answers, 10), (self.folder / "log").read_text()

    def __enter__(self):
        self._files()
        if os.geteuid() == 0:
            with harness.files_as_root():  # sshd takes it from nobody else, and who comes first makes it for all
                os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
            self._passwd()
        self.start()
        return self

    def options(self, *more):
        settings = {"host": "box", "config_file": self.config, "control_persist": self.persist}
        argv = ["--backend", "ssh"]
        for key, value in settings.items():
            argv += ["--set", f"ssh.{key}={value}"]
        return [*argv, *more]

    def sessions(self):
        """The processes of sshd that serve connections."""
        return [pid for pid, name in harness.descendants().items() if name.startswith("sshd") and pid != self.process.pid]

    def masters(self):
        return [pid for pid, name in harness.descendants().items() if name == "ssh"]

    def close_connections(self):
        for pid in self.masters():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        harness.wait_until(lambda: not self.masters(), 3)

    def stop(self):
        self.process.terminate()
        self.process.wait(60)

    def __exit__(self, *_):
        self.close_connections()
        self.stop()
        for pid in self.sessions():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.passwd_mounted:
            run("umount", "/etc/passwd")
