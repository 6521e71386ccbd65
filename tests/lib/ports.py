# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of published ports: a server inside, and where it is on the host."""

import contextlib
import ctypes
import fcntl
import functools
import os
import random
import re
import socket
import threading

from harness import PATIENCE, start_brig

SYS_PIDFD_GETFD = 438
SIOCGSKNS = 0x894C
libc = ctypes.CDLL(None, use_errno=True)

# One connection after the other is given to a thread with `serve(s)`, which the test writes.
SERVER = """
import os, socket, struct, sys, threading, time
{code}
l = socket.socket({family})
l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind(({address!r}, 8000))
l.listen(512)
print('ready', flush=True)
while True:
    s = l.accept()[0]
    threading.Thread(target=serve, args=(s,), daemon=True).start()
"""

ECHO = """
def serve(s):
    while data := s.recv(65536):
        s.sendall(data)
    s.close()
"""


class Served:
    """A running brig with a published port 8000."""

    def __init__(self, process, port):
        self.process, self.port = process, port
        self.lines, self.said = [], threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            with self.said:
                self.lines.append(line.decode().rstrip("\n"))
                self.said.notify_all()

    def wait_for(self, text, seconds=15):
        """Until the command inside has said so."""
        with self.said:
            assert self.said.wait_for(lambda: any(text in line for line in self.lines), seconds * PATIENCE), (text, self.lines)

    def dial(self, address="127.0.0.1"):
        return socket.create_connection((address, self.port), 15 * PATIENCE)


def free_port():
    """One that no neighbour gets meanwhile: not among those that the kernel gives away."""
    for _ in range(100):
        port = random.randrange(20000, 32000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")


@contextlib.contextmanager
def served(code=ECHO, *options, family="socket.AF_INET", address="127.0.0.1", command=None, start=None):
    """A server on port 8000 of a sandbox; its brig is ended at the end."""
    argv = command or ("python3", "-c", SERVER.format(code=code, family=family, address=address))
    p = (start or functools.partial(start_brig, "run"))(*options, "--publish", f"{free_port()}:8000", "--", *argv)
    try:
        line = p.stderr.readline().decode()
        found = re.search(r"port 8000 of the sandbox is 127\.0\.0\.1:(\d+) on this host", line)
        assert found, line + p.stderr.read().decode()
        one = Served(p, int(found.group(1)))
        if not command:
            one.wait_for("ready")
        yield one
    finally:
        if p.poll() is None:
            p.terminate()
        p.wait(15 * PATIENCE)
        p.stderr.close()


def received(s):
    """All there is until the other side ends."""
    data = b""
    while more := s.recv(65536):
        data += more
    return data


def sockets_of(pid):
    """The sockets that a process has open: copies of them, by number."""
    found = {}
    pidfd = os.pidfd_open(pid)
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            if not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                continue
        except FileNotFoundError:
            continue
        fd = libc.syscall(SYS_PIDFD_GETFD, pidfd, int(name), 0)
        if fd >= 0:
            found[int(name)] = socket.socket(fileno=fd)
    os.close(pidfd)
    return found


def network_of(s):
    """The network namespace that a socket is of, by its inode; None: it is of none."""
    try:
        fd = fcntl.ioctl(s.fileno(), SIOCGSKNS)
    except OSError:
        return None
    inode = os.fstat(fd).st_ino
    os.close(fd)
    return inode


def foreign_sockets(pids):
    """Internet sockets of another network than the process's own: (pid, descriptor)."""
    found = []
    for pid in pids:
        own = os.stat(f"/proc/{pid}/ns/net").st_ino
        for number, s in sockets_of(pid).items():
            if s.family in (socket.AF_INET, socket.AF_INET6) and network_of(s) != own:
                found.append((pid, number))
            s.close()
    return found
