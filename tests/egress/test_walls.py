#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Ways around the door, tried by somebody who knows how it is built (2.12 to 2.16 of the attack corpus).

Every "no" has an oracle on the other side: what the servers saw, which names a resolver was asked for."""

import contextlib
import ctypes
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import ADDRESS, PROXY, Web, behind, configure, denials, python, root, context  # noqa: E402
from harness import IS_ROOT, brig, main, scratch, test  # noqa: E402

# Defines say(name, function): prints what it returned or how it failed; and talk(host, port, bytes, server name).
TALK = r"""
import socket, ssl, sys
def say(name, f):
    try: r = f()
    except Exception as e: r = type(e).__name__ + ' ' + str(e)
    print(name, r, flush=True)
def talk(host, port, data, sni=None, tls=True, many=True):
    s = socket.create_connection((host, port), timeout=10)
    if tls:
        c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
        s = c.wrap_socket(s, server_hostname=sni)
    s.sendall(data)
    r = b''
    while many or not r:
        d = s.recv(65536)
        if not d: break
        r += d
    return r.split(b'\r\n')[0].decode()
def get(host, path='/', more=''):
    return f'GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n'.encode()
"""


def said(result):
    return dict(line.split(" ", 1) for line in result["stdout"].splitlines() if " " in line)


class Oracle:
    """TCP and UDP sockets on one port of several of the host's addresses: notes every visit."""

    def __init__(self, addresses):
        self.visits, self.sockets, self.port = [], [], 0
        for a in addresses:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                s = socket.socket(socket.AF_INET6 if ":" in a else socket.AF_INET, kind)
                s.bind((a, self.port))
                self.port = s.getsockname()[1]
                if kind == socket.SOCK_STREAM:
                    s.listen(16)
                self.sockets.append(s)
                threading.Thread(target=self._watch, args=(s, kind), daemon=True).start()

    def _watch(self, s, kind):
        with contextlib.suppress(OSError):
            while True:
                if kind == socket.SOCK_STREAM:
                    c, a = s.accept()
                    c.close()
                else:
                    _, a = s.recvfrom(2048)
                self.visits.append(a)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for s in self.sockets:
            s.close()


def own_addresses():
    out = subprocess.run(["ip", "-o", "addr"], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = [line.split()[3].split("/")[0] for line in out.splitlines()]
    return [a for a in found if not a.startswith("fe80")][:6]


@test
def the_host_and_its_networks_cannot_be_reached():
    addresses = own_addresses()
    with Oracle(addresses) as oracle:
        with socket.create_connection((addresses[0], oracle.port)):
            pass  # the control: from outside it is there
        code = TALK + f"""
for a in {addresses + ['0.0.0.0', '10.0.0.1', '169.254.169.254', '172.17.0.1', '8.8.8.8', '2001:4860:4860::8888']!r}:
    if a.startswith('127.') or a in ('::1', '0.0.0.0'):
        continue  # these are the sandbox's own, tried below
    family = socket.AF_INET6 if ':' in a else socket.AF_INET
    for port in ({oracle.port}, 22, 853, 8080):
        s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(5)
        say(a + '/' + str(port), lambda: s.connect((a, port)))
    u = socket.socket(family, socket.SOCK_DGRAM); u.settimeout(2); u.connect((a, {oracle.port}))
    u.send(b'x')
    say(a + '/udp', lambda: u.recv(1))
say('own', lambda: socket.create_connection(('127.0.0.1', {oracle.port}), timeout=5))
say('own6', lambda: socket.create_connection(('::1', {oracle.port}), timeout=5))
"""
        r = python(configure(allow=["api.test"]), code)
        answers = said(r)
        assert len(answers) > 20 and all("Refused" in v for v in answers.values()), answers
        assert len(oracle.visits) == 1, oracle.visits


@test
def a_dialled_address_gives_no_way_to_a_closed_name():
    with Web("api.test") as web, Web("closed.test") as closed:
        code = TALK + """
say('address', lambda: talk('93.184.216.34', 443, get('93.184.216.34'), '93.184.216.34'))
say('unnamed', lambda: talk('93.184.216.34', 443, get('api.test'), None))
say('plain', lambda: talk('93.184.216.34', 80, get('closed.test'), tls=False))
say('sni', lambda: talk('api.test', 443, get('closed.test'), 'closed.test'))
say('host', lambda: talk('api.test', 443, get('closed.test'), 'api.test'))
say('hosts', lambda: talk('api.test', 443, get('api.test', more='Host: closed.test\\r\\n'), 'api.test'))
say('url', lambda: talk('api.test', 443, b'GET https://closed.test/ HTTP/1.1\\r\\nHost: api.test\\r\\nConnection: close\\r\\n\\r\\n', 'api.test'))
say('port', lambda: talk('api.test', 443, get('api.test:8443'), 'api.test'))
say('ssh', lambda: talk('api.test', 443, b'SSH-2.0-OpenSSH\\r\\n', tls=False))
say('control', lambda: talk('93.184.216.34', 443, get('api.test'), 'api.test'))
say('second', lambda: talk('api.test', 443, b'GET / HTTP/1.1\\r\\nHost: api.test\\r\\n\\r\\n' + get('closed.test'), 'api.test'))
"""
        r = python(configure(web, closed, allow=["api.test"]), code)
        answers = said(r)
        assert "200" in answers.pop("control") and "200" in answers.pop("second"), answers
        assert not any(" 200 " in v for v in answers.values()), answers
        assert closed.connections == 0 and len(web.seen) == 2, (web.seen, answers)
        assert {reason for _, reason in denials(r)} >= {"tls-mismatch", "not-allowed", "bad-request"}


@test
def tunnels_are_judged_by_what_is_in_them():
    with Web("api.test") as web, Web("closed.test") as closed:
        code = TALK + f"""
def tunnel(to, inner, sni=None, tls=True):
    s = socket.create_connection(({ADDRESS!r}, {PROXY}), timeout=10)
    s.sendall(f'CONNECT {{to}} HTTP/1.1\\r\\nHost: {{to}}\\r\\n\\r\\n'.encode())
    first = s.recv(4096).split(b'\\r\\n')[0].decode()
    if ' 200 ' not in first: return first
    if tls:
        c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
        s = c.wrap_socket(s, server_hostname=sni)
    s.sendall(inner)
    return 'inner ' + s.recv(4096).split(b'\\r\\n')[0].decode()
say('control', lambda: tunnel('api.test:443', get('api.test'), 'api.test'))
say('closed', lambda: tunnel('closed.test:443', get('closed.test'), 'closed.test'))
say('sni', lambda: tunnel('api.test:443', get('closed.test'), 'closed.test'))
say('host', lambda: tunnel('api.test:443', get('closed.test'), 'api.test'))
say('plain', lambda: tunnel('api.test:443', get('api.test'), tls=False))
say('ssh', lambda: tunnel('api.test:443', b'SSH-2.0-OpenSSH\\r\\n', tls=False))
say('port', lambda: tunnel('api.test:22', b'x', tls=False))
say('nested', lambda: tunnel('api.test:443', b'CONNECT closed.test:443 HTTP/1.1\\r\\nHost: closed.test\\r\\n\\r\\n', 'api.test'))
say('userinfo', lambda: tunnel('api.test@closed.test:443', b'x', tls=False))
say('number', lambda: tunnel('2130706433:443', b'x', tls=False))
say('six', lambda: tunnel('[::ffff:127.0.0.1]:443', b'x', tls=False))
"""
        r = python(configure(web, closed, allow=["api.test"]), code)
        answers = said(r)
        assert answers.pop("control") == "inner HTTP/1.1 200 OK", answers
        assert not any(" 200 " in v for v in answers.values()), answers
        assert closed.connections == 0 and len(web.seen) == 1, (web.seen, answers)


@test
def socks_takes_names_and_nothing_else():
    with Web("api.test") as web:
        code = TALK + f"""
def socks(request, greeting=b'\\x05\\x01\\x00'):
    s = socket.create_connection(({ADDRESS!r}, {PROXY}), timeout=10)
    s.sendall(greeting)
    first = s.recv(2)
    if first != b'\\x05\\x00': return first.hex()
    s.sendall(request)
    return s.recv(10)[:2].hex()
def name(n, port=443, command=1): return bytes([5, command, 0, 3, len(n)]) + n + port.to_bytes(2, 'big')
say('control', lambda: socks(name(b'api.test')))
say('closed', lambda: socks(name(b'closed.test')))
say('nul', lambda: socks(name(b'api.test\\x00.closed.test')))
say('newline', lambda: socks(name(b'api.test\\r\\nx: y')))
say('long', lambda: socks(name(b'a' * 255)))
say('udp', lambda: socks(name(b'api.test', command=3)))
say('bind', lambda: socks(name(b'api.test', command=2)))
say('v4', lambda: socks(bytes([5, 1, 0, 1, 127, 0, 0, 1]) + (443).to_bytes(2, 'big')))
say('v6', lambda: socks(bytes([5, 1, 0, 4] + [0] * 15 + [1]) + (443).to_bytes(2, 'big')))
say('password', lambda: socks(b'', b'\\x05\\x01\\x02'))
"""
        answers = said(python(configure(web), code))
        assert answers.pop("control") == "0500", answers
        assert answers["udp"] == answers["bind"] == "0507" and answers["password"] == "05ff", answers
        assert all(v.startswith("05") and v != "0500" for v in answers.values()), answers


class Resolver:
    """A name server on loopback that answers everything with one address and remembers the questions."""

    def __init__(self, table):
        self.table, self.asked = table, []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for n in range(1, 250):
            with contextlib.suppress(OSError):
                self.socket.bind((f"127.53.{os.getpid() % 250}.{n}", 53))
                break
        self.address = self.socket.getsockname()[0]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                q, a = self.socket.recvfrom(2048)
                end = q.index(0, 12)
                labels, at = [], 12
                while at < end:
                    labels.append(q[at + 1:at + 1 + q[at]].decode())
                    at += 1 + q[at]
                name, kind = ".".join(labels), struct.unpack(">H", q[end + 1:end + 3])[0]
                self.asked.append(name)
                answer = self.table.get(name, "192.0.2.1")
                family = socket.AF_INET6 if ":" in answer else socket.AF_INET
                head, question = q[:2], q[12:end + 5]
                if (kind == 28) == (family == socket.AF_INET6) and kind in (1, 28):
                    data = socket.inet_pton(family, answer)
                    record = b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 60, len(data)) + data
                    self.socket.sendto(head + b"\x81\x80\0\1\0\1\0\0\0\0" + question + record, a)
                else:
                    self.socket.sendto(head + b"\x81\x80\0\1\0\0\0\0\0\0" + question, a)

    def __enter__(self):
        conf = scratch() / "resolv.conf"
        conf.write_text(f"nameserver {self.address}\n")
        libc = ctypes.CDLL(None, use_errno=True)
        # Of this test's own mount namespace.
        assert libc.mount(os.fsencode(conf), os.fsencode(os.path.realpath("/etc/resolv.conf")), None, 4096, None) == 0
        return self

    def __exit__(self, *_):
        ctypes.CDLL(None).umount2(os.fsencode(os.path.realpath("/etc/resolv.conf")), 2)
        self.socket.close()


INWARD = {"loop.test": "127.0.0.1", "meta.test": "169.254.169.254", "ten.test": "10.0.0.1", "cgnat.test": "100.64.0.1",
          "synth.test": "198.18.0.1", "any.test": "0.0.0.0", "six.test": "::1", "mapped.test": "::ffff:127.0.0.1",
          "ula.test": "fd00::1", "link.test": "fe80::1", "nat64.test": "64:ff9b::7f00:1", "meta6.test": "fd00:ec2::254"}


@test
def a_name_that_leads_inward_is_refused_after_it_was_resolved():
    if not IS_ROOT:
        return  # no port 53, no mount: nothing to try with
    with Resolver(INWARD) as names, Web("api.test") as web:
        code = TALK + f"""
for n in {list(INWARD)!r}:
    say(n, lambda: talk(n, 443, get(n), n))
"""
        r = python(configure(web, allow=["api.test", *INWARD]), code)
        answers = said(r)
        assert set(answers) == set(INWARD) and all(" 403 " in v for v in answers.values()), answers
        assert {reason for _, reason in denials(r)} == {"private-address"}, r["denials"]
        assert set(names.asked) == set(INWARD)  # the control: the resolver was used
        assert web.connections == 0


@test
def names_that_are_not_allowed_are_never_asked_for():
    if not IS_ROOT:
        return
    with Resolver({}) as names:
        code = TALK + f"""
import random
for i in range(20):
    n = 'secret%d.closed.test' % i
    say(n, lambda: socket.getaddrinfo(n, 443)[0][4][0])
    if i < 5: say('x' + n, lambda: talk(n, 443, get(n), n))
for server in ('8.8.8.8', '1.1.1.1', {ADDRESS!r}):
    q = b'\\x12\\x34\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x06secret\\x06closed\\x04test\\x00\\x00\\x01\\x00\\x01'
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3); s.connect((server, 53)); s.send(q)
    say(server, lambda: 'answered' if s.recv(512)[:2] == q[:2] else 'other')
    t = socket.create_connection((server, 53), timeout=3); t.sendall(len(q).to_bytes(2, 'big') + q)
    say('tcp' + server, lambda: 'answered' if t.recv(512)[2:4] == q[:2] else 'other')
"""
        r = python(configure(allow=["open.test"]), code)
        answers = said(r)
        assert answers["8.8.8.8"] == answers["tcp8.8.8.8"] == "answered", answers
        assert not names.asked, names.asked
        behind(configure(allow=["open.test"]), "curl", "-sS", "-m", "3", "https://open.test/")
        assert set(names.asked) == {"open.test"}  # the control


@test
def upstream_must_prove_who_it_is():
    d = scratch()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", d / "k",
                    "-out", d / "c", "-days", "3", "-subj", "/CN=self.test", "-addext", "subjectAltName=DNS:self.test"],
                   check=True, stderr=subprocess.DEVNULL)
    import ssl
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(d / "c", d / "k")
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    old.minimum_version = ssl.TLSVersion.TLSv1
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.load_cert_chain(*__import__("door").leaf("old.test"))
    with Web("self.test", tls=own) as self_signed, Web("other.test", tls=context("another.test")) as other, \
            Web("late.test", tls=context("late.test", days=-1)) as late, Web("old.test", tls=old) as weak, Web("api.test") as web:
        config = configure(self_signed, other, late, weak, web)
        r = behind(config, "sh", "-c", "for h in self other late old api; do curl -skS -o /dev/null -w '%{http_code}\\n' https://$h.test/; done")
        assert r["stdout"].split() == ["421", "421", "421", "502", "200"], r
        assert not self_signed.seen and not other.seen and not late.seen and not weak.seen


@test
def the_guest_keeps_its_own_ports_and_loopback():
    r = python(configure(allow=[]), """
import socket, threading
for port in (53, 80, 443, 3128):
    s = socket.create_server(('0.0.0.0', port))
    threading.Thread(target=lambda s=s: s.accept()[0].send(b'mine'), daemon=True).start()
    print(socket.create_connection(('127.0.0.1', port)).recv(4).decode())
""")
    assert r["stdout"].split() == ["mine"] * 4, r


@test
def requests_that_two_servers_could_read_differently_are_refused():
    with Web("api.test") as web:
        odd = {
            "both": "Content-Length: 3\\r\\nTransfer-Encoding: chunked\\r\\n", "two": "Content-Length: 3\\r\\nContent-Length: 4\\r\\n",
            "list": "Content-Length: 3, 3\\r\\n", "plus": "Content-Length: +3\\r\\n", "hex": "Content-Length: 0x3\\r\\n",
            "coding": "Transfer-Encoding: gzip, chunked\\r\\n", "spaced": "Transfer-Encoding : chunked\\r\\n",
            "folded": "X: a\\r\\n b\\r\\n", "bare": "X: a\\nY: b\\r\\n", "cr": "X: a\\rb\\r\\n", "nul": "X: a\\0b\\r\\n",
            "identity": "Transfer-Encoding: identity\\r\\n", "twice": "Transfer-Encoding: chunked\\r\\nTransfer-Encoding: chunked\\r\\n",
            "name": "X y: 1\\r\\n", "expect": "Expect: something\\r\\n",
        }
        code = TALK + "".join(f"""
say({k!r}, lambda: talk('api.test', 443, b'POST / HTTP/1.1\\r\\nHost: api.test\\r\\n{v}\\r\\nabc', 'api.test'))""" for k, v in odd.items()) + """
for k, line in (('trace', b'TRACE / HTTP/1.1'), ('star', b'OPTIONS * HTTP/1.1'), ('nine', b'GET / HTTP/0.9'), ('two', b'GET / HTTP/2.0'),
                ('space', b'GET /a b HTTP/1.1'), ('tab', b'GET\\t/ HTTP/1.1'), ('fragment', b'GET /#x HTTP/1.1'), ('long', b'GET /' + b'a' * 9000 + b' HTTP/1.1')):
    say('line-' + k, lambda: talk('api.test', 443, line + b'\\r\\nHost: api.test\\r\\nConnection: close\\r\\n\\r\\n', 'api.test'))
say('huge', lambda: talk('api.test', 443, b'GET / HTTP/1.1\\r\\nHost: api.test\\r\\nX: ' + b'a' * 70000 + b'\\r\\n\\r\\n', 'api.test'))
say('many', lambda: talk('api.test', 443, b'GET / HTTP/1.1\\r\\nHost: api.test\\r\\n' + b'X: 1\\r\\n' * 200 + b'\\r\\n', 'api.test'))
say('control', lambda: talk('api.test', 443, get('api.test'), 'api.test'))
"""
        r = python(configure(web), code)
        answers = said(r)
        assert " 200 " in answers.pop("control") and len(answers) == len(odd) + 10, answers
        assert all(v.startswith("HTTP/1.1 4") or v.startswith("HTTP/1.1 5") for v in answers.values()), answers
        assert len(web.seen) == 1, web.seen


@test
def every_decision_is_on_the_record():
    with Web("api.test") as web:
        r = python(configure(web), TALK + """
say('yes', lambda: talk('api.test', 443, get('api.test'), 'api.test'))
for _ in range(30): talk('closed.test', 443, get('closed.test'), 'closed.test')
say('leak', lambda: talk('api.test', 443, get('api.test', '/?ghp_0123456789abcdefghijABCDEFGHIJ012345'), 'api.test'))
""")
        assert r["egress"]["allowed"] == 1 and r["egress"]["denied"] == 31, r["egress"]
        text = brig("audit", "list", "--json").text
        kinds = [record["type"] for record in json.loads(text) if record.get("run") == r["id"]]
        assert kinds.count("egress.allow") == 1 and kinds.count("leak.block") == 1, text
        assert 1 <= kinds.count("egress.deny") < 30 and "log.summary" in kinds, kinds
        assert "ghp_0123456789" not in text


if __name__ == "__main__":
    sys.exit(main())
