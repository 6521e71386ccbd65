#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Ways around the door, tried by somebody who knows how it is built (2.12 to 2.16 of the attack corpus).

Every "no" has an oracle on the other side: what the servers saw, which names a resolver was asked for."""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import (ADDRESS, PROXY, TALK, Oracle, Resolver, Web, behind, configure, context, denials, on_every_door,  # noqa: E402
                  own_addresses, python, root, said)
from harness import IS_ROOT, brig, main, scratch, test  # noqa: E402


@on_every_door
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
    say(a + '/udp', lambda: ask_udp(a, {oracle.port}))
say('own', lambda: socket.create_connection(('127.0.0.1', {oracle.port}), timeout=5))
say('own6', lambda: socket.create_connection(('::1', {oracle.port}), timeout=5))
"""
        r = python(configure(allow=["api.test"]), code)
        answers = said(r)
        assert len(answers) > 20 and all("Refused" in v for v in answers.values()), answers
        assert len(oracle.visits) == 1, oracle.visits


# What somebody inside would do to the room itself: each line says what it was told.
ROOM = TALK + r"""
import ctypes, os, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def call(f, *a):
    r = f(*a)
    return 'done' if r >= 0 else 'refused ' + os.strerror(ctypes.get_errno())
def run(*a):
    r = subprocess.run(a, capture_output=True, text=True)
    return 'done' if r.returncode == 0 else 'refused ' + r.stderr.strip().replace('\n', ' ')
def sock(*a):
    socket.socket(*a); return 'done'
say('devices', lambda: ' '.join(sorted(l.split(':')[0].strip() for l in open('/proc/net/dev') if ':' in l)))
say('caps', lambda: ' '.join({l.split()[1] for l in open('/proc/self/status') if l.startswith('Cap')}))
say('packet', lambda: sock(socket.AF_PACKET, socket.SOCK_RAW, 0))
say('raw', lambda: sock(socket.AF_INET, socket.SOCK_RAW, 1))
say('raw6', lambda: sock(socket.AF_INET6, socket.SOCK_RAW, 58))
for name, words in (('dummy', 'link add x type dummy'), ('down', 'link set eth0 down'), ('mac', 'link set eth0 address 02:00:00:00:00:09'),
                    ('route', 'route add 203.0.113.0/24 dev eth0'), ('address', 'addr add 10.9.9.9/24 dev eth0'),
                    ('neighbour', 'neigh replace 198.19.255.253 lladdr 02:00:00:00:00:09 dev eth0'), ('move', 'link set eth0 netns 1')):
    say(name, lambda: run('ip', *words.split()))
say('unshare', lambda: call(libc.unshare, 0x40000000))
say('unshare-user', lambda: call(libc.unshare, 0x50000000))
say('setns', lambda: call(libc.setns, os.open('/proc/1/ns/net', os.O_RDONLY), 0x40000000))
say('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\0' + sys.argv[1]))
say('sysctl', lambda: open('/proc/sys/net/ipv4/ip_forward', 'w').write('1'))
say('broadcast', lambda: [s := socket.socket(socket.AF_INET, socket.SOCK_DGRAM), s.setsockopt(1, 6, 1), s.settimeout(1),
                          s.sendto(b'x', ('198.19.255.255', 9)), s.recv(1)])
say('after', lambda: talk('api.test', 443, get('api.test'), 'api.test'))
"""


@on_every_door
def the_room_has_one_cable_and_nobody_inside_can_change_it():
    name = f"brig-oracle-{os.getpid()}"
    with Web("api.test") as web, socket.socket(socket.AF_UNIX) as oracle:
        oracle.bind("\0" + name)
        oracle.listen()
        with socket.socket(socket.AF_UNIX) as control:
            control.connect("\0" + name)  # from outside it is there
        oracle.accept()[0].close()
        r = behind(configure(web), "python3", "-c", ROOM, name)
        answers = said(r)
        assert (answers.pop("devices"), answers.pop("caps")) == ("eth0 lo", "0" * 16), r
        assert " 200 " in answers.pop("after") and len(web.seen) == 1, (r, answers)
        assert len(answers) == 16 and not any(v.startswith(("done", "None", "1")) for v in answers.values()), answers
        oracle.settimeout(0)
        try:
            raise AssertionError(f"the host's socket was reached: {oracle.accept()}")
        except BlockingIOError:
            pass
        assert r["backend"] == os.environ.get("BRIG_BACKEND", "native") and r["isolation"]["network"] == "proxy", r


@on_every_door
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


@on_every_door
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


@on_every_door
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


@on_every_door
def every_decision_is_on_the_record():
    with Web("api.test") as web:
        r = python(configure(web), TALK + f"""
say('yes', lambda: talk('api.test', 443, get('api.test'), 'api.test'))
for _ in range(30): talk({ADDRESS!r}, {PROXY}, b'CONNECT closed.test:443 HTTP/1.1\\r\\nHost: closed.test:443\\r\\n\\r\\n', tls=False)
say('leak', lambda: talk('api.test', 443, get('api.test', '/?ghp_0123456789abcdefghijABCDEFGHIJ012345'), 'api.test'))
""")
        assert r["egress"]["allowed"] == 1 and r["egress"]["denied"] == 31, r["egress"]
        text = brig("audit", "list", "--json").text
        kinds = [record["type"] for record in json.loads(text) if record.get("run") == r["id"]]
        assert kinds.count("egress.allow") == 1 and kinds.count("leak.block") == 1, text
        assert 1 <= kinds.count("egress.deny") < 30 and "log.summary" in kinds, kinds
        assert "ghp_0123456789" not in text
        done = [record for record in json.loads(text) if record.get("run") == r["id"] and record["type"] == "egress.done"]
        assert len(done) == 1, done  # sizes and the address dialled, of what was let out
        got = {k: done[0][k] for k in ("host", "port", "method", "address", "status", "bytes_out", "bytes_in")}
        assert got == {"host": "api.test", "port": 443, "method": "GET", "address": "127.0.0.1", "status": 200, "bytes_out": 0, "bytes_in": 6}, got
        shown = brig("audit", "show", r["id"]).text
        assert "done" in shown and "127.0.0.1" in shown, shown


if __name__ == "__main__":
    sys.exit(main())
