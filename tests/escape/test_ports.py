#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Published ports: whether a server inside gets hold of the host by them, or of more of brig than it should."""

import os
import pathlib
import socket
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import as_identity, inner_pid, signal, status_of  # noqa: E402
from harness import PATIENCE, brig_environment, descendants, main, test, wait_until, workspace  # noqa: E402
from ports import foreign_sockets, network_of, received, served, sockets_of  # noqa: E402

AT_A_TIME = 128  # connections that brig passes on
WORDS = {"signal": 1, "usage": 2, "sockets": 4}  # of the supervisor protocol, what init is asked
REQUEST = struct.Struct("=IIi8x")

# The accepted socket's connection is dissolved, and another one dialled: to a service of the host.
REDIAL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def redial(s, port):
    libc.connect(s.fileno(), bytes(16), 16)
    s.settimeout(3)
    try:
        s.connect(('127.0.0.1', port))
        s.sendall(b'PWNED')
        return 'reached'
    except OSError as e:
        return 'stayed'
"""


def inside_pids(p):
    return [pid for pid in descendants(p.pid) if inner_pid(pid) is not None]


def turns(pid):
    """How often a process has waited."""
    return sum(int(status_of(pid)[name]) for name in ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"))


class Service:
    """Something on the host's loopback that must not be visited."""

    def __enter__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        return self

    def visits(self):
        self.socket.settimeout(0.3)
        n = 0
        try:
            while True:
                self.socket.accept()[0].close()
                n += 1
        except TimeoutError:
            return n

    def __exit__(self, *_):
        self.socket.close()


@test(by_root=True, backends=("native", "bwrap"))
def no_socket_of_another_network_is_open_inside():
    with socket.socket() as ours, subprocess.Popen(as_identity(["unshare", "--user", "--map-root-user", "--net", "sleep", "60"]), pass_fds=[ours.fileno()]) as p:
        assert wait_until(lambda: pathlib.Path(f"/proc/{p.pid}/comm").read_text() == "sleep\n")
        assert foreign_sockets([p.pid]) == [(p.pid, ours.fileno())], "the control proves nothing"
        p.kill()
    with served() as s:
        held = [s.dial() for _ in range(6)]
        for c in held:
            c.sendall(b"here")
            assert c.recv(4) == b"here"
        pids = inside_pids(s.process)
        assert len(pids) >= 2 and any(inner_pid(pid) == 1 for pid in pids), pids
        assert foreign_sockets(pids) == []
        monitor = [x for x in sockets_of(s.process.pid).values() if x.family in (socket.AF_INET, socket.AF_INET6)]
        assert len({network_of(x) for x in monitor}) == 2, "the monitor is the one who has both"
        for c in held:
            c.close()


@test
def a_listener_inside_cannot_reach_the_host_by_what_it_accepts():
    with Service() as service:
        with socket.create_connection(("127.0.0.1", service.port)) as ours:
            code = REDIAL + f"import socket\nprint(redial(socket.socket(fileno={ours.fileno()}), {service.port}))"
            control = subprocess.run(as_identity(["unshare", "--user", "--map-root-user", "--net", "python3", "-c", code]), pass_fds=[ours.fileno()],
                                     capture_output=True, check=False, env=brig_environment(), cwd=workspace())
            assert b"reached" in control.stdout and service.visits() == 2, ("the control proves nothing", control)
        code = REDIAL + f"def serve(s):\n    print(redial(s, {service.port}), flush=True)\n"
        for network in ("none", "proxy"):
            with served(code, "--network", network) as s, s.dial():
                s.wait_for("stayed")
                assert "reached" not in s.lines
        assert service.visits() == 0


@test
def the_hosts_end_of_a_port_is_not_to_be_seen_inside():
    """Neither what listens on the host nor who is connected to it is in the sandbox's tables."""
    code = """
def serve(s):
    port = int(s.recv(16))
    for address in ('127.0.0.1', '::1'):
        try:
            socket.create_connection((address, port), 2)
            s.sendall(b'reached ')
        except OSError:
            s.sendall(b'closed ')
    tables = ''.join(open(f'/proc/net/{name}').read() for name in ('tcp', 'tcp6'))
    s.sendall(b'listed' if f':{port:04X} ' in tables else b'unlisted')
    s.close()
"""
    with served(code) as s, s.dial() as c:
        c.sendall(str(s.port).encode())
        assert received(c) == b"closed closed unlisted"


@test
def a_flood_of_connections_is_bounded():
    code = """
count, lock = 0, threading.Lock()
def serve(s):
    global count
    with lock:
        count += 1
        print('have', count, flush=True)
    s.recv(1)
    with lock:
        count -= 1
    s.close()
"""
    with served(code) as s:
        flood = []
        for _ in range(AT_A_TIME + 120):
            c = socket.socket()
            c.setblocking(False)
            c.connect_ex(("127.0.0.1", s.port))
            flood.append(c)
        s.wait_for(f"have {AT_A_TIME}")
        assert not wait_until(lambda: any(f"have {AT_A_TIME + 1}" in line for line in s.lines), 0.5), "more than there may be"
        open_now = len(os.listdir(f"/proc/{s.process.pid}/fd"))
        assert open_now < 2 * AT_A_TIME + 64, open_now
        memory = int(status_of(s.process.pid)["VmRSS"].split()[0])
        assert memory < 48 * 1024, memory
        for c in flood:
            c.close()
        with s.dial() as c:  # and then the next one has its turn
            c.settimeout(20 * PATIENCE)
            c.sendall(b"x")
            assert received(c) == b""


@test
def who_never_reads_stops_nobody_else_and_fills_no_memory():
    code = """
def serve(s):
    what = s.recv(1)
    if what == b'w':            # writes all it can, and says how much that was
        s.settimeout(1)
        sent = 0
        try:
            while True:
                sent += s.send(bytes(65536))
        except TimeoutError:
            print('wrote', sent, flush=True)
    elif what == b'n':          # never reads
        time.sleep(600)
    else:
        s.sendall(what)
        s.close()
"""
    with served(code) as s:
        deaf, mute = s.dial(), s.dial()
        deaf.sendall(b"w")
        mute.settimeout(1)
        sent = 0
        try:
            mute.sendall(b"n")
            while True:
                sent += mute.send(bytes(65536))
        except TimeoutError:
            pass
        s.wait_for("wrote")
        wrote = int(next(line for line in s.lines if line.startswith("wrote")).split()[1])
        assert wrote < 16 << 20 and sent < 16 << 20, (wrote, sent)
        assert int(status_of(s.process.pid)["VmRSS"].split()[0]) < 32 * 1024
        with s.dial() as c:
            c.sendall(b"!")
            assert received(c) == b"!"
        before = turns(s.process.pid)
        assert not wait_until(lambda: False, 0.5)
        assert turns(s.process.pid) - before < 1000, "brig turns in circles"
        deaf.close()
        mute.close()


@test
def a_reset_is_passed_on_in_both_directions():
    code = """
def serve(s):
    what = s.recv(1)
    if what == b'r':
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        s.close()
        return
    try:
        s.recv(1)
        print('ended', flush=True)
    except ConnectionResetError:
        print('was reset', flush=True)
"""
    with served(code) as s:
        c = s.dial()
        c.sendall(b"w")
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        c.close()
        s.wait_for("was reset")
        with s.dial() as c:
            c.sendall(b"r")
            try:
                assert c.recv(1) == b"never"
            except ConnectionResetError:
                pass
        with s.dial() as c:  # and it still serves
            c.sendall(b"w")
            c.shutdown(socket.SHUT_WR)
            s.wait_for("ended")


@test
def where_nobody_listens_a_connection_ends_and_meets_nobody():
    with served(None, command=("sh", "-c", "echo ready; sleep 60")) as s:
        s.wait_for("ready")
        for _ in range(40):
            try:
                with s.dial() as c:
                    c.sendall(b"to myself")
                    assert c.recv(16) == b""
            except (ConnectionResetError, BrokenPipeError):
                pass


@test(by_root=True, backends=("native", "bwrap"))
def init_gives_sockets_for_the_one_word_alone_and_only_its_own():
    with served() as s:
        pids = inside_pids(s.process)
        init = next(pid for pid in pids if inner_pid(pid) == 1)
        network = os.stat(f"/proc/{init}/ns/net").st_ino
        s.process.send_signal(signal.SIGSTOP)  # from here on the test is the monitor
        try:
            control = next(x for x in sockets_of(s.process.pid).values() if x.family == socket.AF_UNIX and x.type & 15 == socket.SOCK_SEQPACKET)
            control.settimeout(1)
            for word in (3, 5, 6, 99, 0xFFFFFFFF):
                socket.send_fds(control, [REQUEST.pack(word, 0, 0)], [])
            control.send(REQUEST.pack(WORDS["sockets"], 0xFFFFFFFF, -1))  # whatever else it says
            _, fds, _, _ = socket.recv_fds(control, 65536, 16)
            given = [socket.socket(fileno=fd) for fd in fds]
            assert {(x.family, x.type & 15) for x in given} == {(socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET6, socket.SOCK_STREAM)}, given
            for x in given:
                assert network_of(x) == network
                try:
                    x.getpeername()
                    raise AssertionError("connected")
                except OSError:
                    x.close()
            try:
                control.recv(65536)
                raise AssertionError("it answered to more than the one word")
            except TimeoutError:
                pass
            assert pathlib.Path(f"/proc/{init}").exists()
            assert [n for n, x in sockets_of(init).items() if x.family != socket.AF_UNIX] == [], "init has kept one"
            control.send(REQUEST.pack(WORDS["sockets"], 0, 0)[:-1])  # not of this protocol: there is no monitor any more
            control.close()
        finally:
            s.process.send_signal(signal.SIGCONT)
        assert s.process.wait(15 * PATIENCE) != 0


if __name__ == "__main__":
    sys.exit(main())
