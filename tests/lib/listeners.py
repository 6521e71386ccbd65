# SPDX-License-Identifier: Apache-2.0
"""Addresses that a sandbox must not reach, and who came to them: the host's side of an attack by network."""

import contextlib
import ctypes
import os
import socket
import subprocess
import threading
import time

METADATA = ("169.254.169.254", "169.254.170.2", "100.100.100.200", "fd00:ec2::254")
OTHERS = ("192.0.2.1", "10.0.0.1", "172.17.0.1", "192.168.1.1", "2001:db8::1")  # documentation, private, a bridge's gateway


class Listeners:
    """TCP and UDP on one port of every address; counts what comes and answers datagrams."""

    def __init__(self, addresses, port=0):
        self.visits, self.sockets, self.port = [], [], port
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            for a in addresses:
                s = socket.socket(socket.AF_INET6 if ":" in a else socket.AF_INET, kind)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind((a, self.port))
                self.port = s.getsockname()[1]
                if kind == socket.SOCK_STREAM:
                    s.listen(64)
                self.sockets.append(s)
                threading.Thread(target=self._serve, args=(s, kind), daemon=True).start()

    def _serve(self, s, kind):
        with contextlib.suppress(OSError):
            while True:
                if kind == socket.SOCK_STREAM:
                    s.accept()[0].close()
                else:
                    sender = s.recvfrom(64)[1]
                    if not sender:
                        return  # it was shut down
                    s.sendto(b"y", sender)
                self.visits.append(s.getsockname()[0])

    def forget(self):
        """The control's visits, once they have all been counted."""
        time.sleep(0.1)
        del self.visits[:]

    def close(self):
        for s in self.sockets:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()


@contextlib.contextmanager
def listening(addresses, port=0):
    here = Listeners(addresses, port)
    try:
        yield here
    finally:
        here.close()


def own_network():
    """A network namespace with one interface that has every address of interest."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(0x40000000) == 0, os.strerror(ctypes.get_errno())
    commands = ["link set lo up", "link add here type veth peer name there", "link set here up", "link set there up"]
    commands += [f"addr add {a}/{'128' if ':' in a else '32'} dev here {'nodad' if ':' in a else ''}" for a in METADATA + OTHERS]
    commands += ["route add default dev here"]
    for c in commands:
        subprocess.run(["ip", *c.split()], check=True, capture_output=True)
