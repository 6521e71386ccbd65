# SPDX-License-Identifier: Apache-2.0
"""A private sshd on a loopback port, and `true` through it: by ssh over a shared connection, and by brig."""

import contextlib
import os
import pathlib
import pwd
import socket
import subprocess
import time

from harness import Candidate


class Sshd:
    """One that lets the caller of the bench in; `why` says why it could not be started."""

    def __init__(self, folder):
        self.folder, self.process, self.why = pathlib.Path(folder), None, None
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]

    def _files(self):
        for name in ("host", "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name], check=True)
        public = " ".join((self.folder / "host.pub").read_text().split()[:2])
        (self.folder / "known").write_text(f"[127.0.0.1]:{self.port} {public}\n")
        self.config = self.folder / "client"
        self.config.write_text(f"Host box\n HostName 127.0.0.1\n Port {self.port}\n IdentityFile {self.folder}/key\n"
                               f" IdentitiesOnly yes\n UserKnownHostsFile {self.folder}/known\n")
        self.config.chmod(0o600)
        (self.folder / "server").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host\nPidFile none\nStrictModes no\nUsePAM no\n"
            f"AuthorizedKeysFile {self.folder}/key.pub\nPermitRootLogin yes\nPasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\nMaxSessions 64\n")

    def __enter__(self):
        try:
            pwd.getpwuid(os.geteuid())
            self._files()
            if os.geteuid() == 0:
                os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
            self.process = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", self.folder / "server"], stderr=subprocess.DEVNULL)
        except (OSError, KeyError, subprocess.SubprocessError) as e:
            self.why = str(e)
            return self
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return self
            time.sleep(0.05)
        self.why = "it does not answer"
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.terminate()
            self.process.wait()


def ssh(bench):
    """`true` on another host over a connection that is warm."""
    who = next((w for w in bench.people if w.uid == os.geteuid()), None)
    if not who or not bench.brig:
        return
    folder = who.folder("sshd")
    bench.head("`true` through a warm ssh connection, on loopback")
    with Sshd(folder) as server:
        if server.why:
            bench.note(f"ssh is left out: {server.why}")
            return
        shared = ["-o", "ControlMaster=auto", "-o", "ControlPersist=30", "-o", f"ControlPath={folder}/m"]
        plain = ["/usr/bin/ssh", "-F", server.config, *shared, "box"]
        brig = [bench.brig, "run", "--backend", "ssh", "--quiet", "--set", "ssh.host=box", "--set",
                f"ssh.config_file={server.config}", "--set", "ssh.control_persist=30s"]
        figures = bench.measure(who, [Candidate("ssh, ControlMaster", [*plain, "true"]),
                                      Candidate("brig run, ssh", [*brig, "--", "true"])], bench.count(100, 15), warmup=3)
        base = figures.get("ssh, ControlMaster")
        for name, f in figures.items():
            bench.add_timed(name, f, None if f is base else base, "ssh, ControlMaster", None if f is base else 1.3)
        for path in (folder / "m", *(who.base / "run/brig/ssh").iterdir()):
            subprocess.run(["ssh", "-F", server.config, "-o", f"ControlPath={path}", "-O", "exit", "box"],
                           stderr=subprocess.DEVNULL, check=False)
