#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tricks with framing, halves and names, by somebody who has all day (2.13 to 2.18 of the attack corpus).

Every one has a control that goes through and an oracle upstream: the bytes that came."""

import gzip
import json
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import (ADDRESS, PROXY, TALK, Handler, Raw, Resolver, Web, behind, configure, context, denials, openssl, python,  # noqa: E402
                  root, said)
from harness import IS_ROOT, brig, main, scratch, test  # noqa: E402

VALUE = "zq8Gk2vTn41Lw0bYd7Rm"
SHAPE = "ghp_0123456789abcdefghijABCDEFGHIJ012345"

# Both halves of a conversation: everything that comes until the end, as bytes.
RAW = TALK + r"""
def raw(host, data, half=False, tls=True):
    s = socket.create_connection((host, 443 if tls else 80), timeout=10)
    if tls:
        s = ssl.create_default_context().wrap_socket(s, server_hostname=host)
    s.sendall(data)
    if half: s.shutdown(socket.SHUT_WR)
    r = b''
    try:
        while d := s.recv(65536): r += d
    except (TimeoutError, ssl.SSLError, OSError): pass
    return r
"""


class Bodies(Handler):
    """Notes the body of each request as it was understood."""

    def do_POST(self):
        body = b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.requestline, dict(self.headers.items()), body))
        self.answer(b"ok\n")


@test
def chunks_that_two_readers_could_count_differently_do_not_pass():
    with Web("api.test", handler=Bodies) as web:
        bad = {"overflow": "10000000000000003\\r\\nabc\\r\\n0\\r\\n\\r\\n", "ff": "ffffffffffffffff\\r\\nabc", "extension": "3;x=y\\r\\nabc\\r\\n0\\r\\n\\r\\n",
               "quoted": '3;x="\\r\\n0\\r\\n\\r\\nGET /smuggled HTTP/1.1\\r\\n', "blank": "3 \\r\\nabc\\r\\n0\\r\\n\\r\\n", "before": " 3\\r\\nabc\\r\\n0\\r\\n\\r\\n",
               "sign": "+3\\r\\nabc\\r\\n0\\r\\n\\r\\n", "prefix": "0x3\\r\\nabc\\r\\n0\\r\\n\\r\\n", "lf": "3\\nabc\\n0\\n\\n", "cr": "3\\rabc\\r\\n0\\r\\n\\r\\n",
               "long": "3\\r\\nabcd\\r\\n0\\r\\n\\r\\n", "short": "5\\r\\nabc\\r\\n0\\r\\n\\r\\n", "empty": "\\r\\nabc", "negative": "-1\\r\\nabc",
               "folded": "3\\r\\nabc\\r\\n0\\r\\nX: y\\r\\n z\\r\\n\\r\\n", "nul": "3\\0\\r\\nabc\\r\\n0\\r\\n\\r\\n"}
        code = RAW + "".join(f"""
say({k!r}, lambda: raw('api.test', b'POST /{k} HTTP/1.1\\r\\nHost: api.test\\r\\nConnection: close\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n'
    b'{v}', True, tls=False).split(b'\\r\\n')[0].decode())""" for k, v in bad.items()) + """
say('control', lambda: raw('api.test', b'POST /control HTTP/1.1\\r\\nHost: api.test\\r\\nConnection: close\\r\\nTransfer-Encoding: CHUNKED\\r\\n\\r\\n'
    b'2\\r\\nab\\r\\n0001\\r\\nc\\r\\n0\\r\\nHost: other.test\\r\\nAuthorization: x\\r\\n\\r\\n', tls=False).split(b'\\r\\n')[0].decode())
"""
        plain = Web(handler=Bodies)
        plain.names = ("api.test",)
        with plain:
            r = python(configure(plain, allow=["api.test:80"]), code)
        answers = said(r)
        assert " 200 " in answers.pop("control"), answers
        assert not any(" 200 " in v for v in answers.values()), answers
        whole = [(line, f, body) for line, f, body in plain.seen]
        assert [(line, body) for line, _, body in whole] == [("POST /control HTTP/1.1", b"abc")], whole
        assert whole[0][1]["Host"] == "api.test" and "Authorization" not in whole[0][1], whole  # a trailer is no field
        assert not web.seen


@test
def what_follows_an_early_answer_is_never_read_as_a_request():
    def early(self, s):
        data = self.head(s)
        s.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        while more := s.recv(65536):
            data += more
            self.seen[-1] = data

    with Raw("api.test", early) as api:
        r = python(configure(api), RAW + r"""
inner = b'GET /smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n'
print(raw('api.test', b'POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 12000\r\n\r\n' + b'x' * 10 + inner + b'y' * 9000).count(b'HTTP/1.1'))
print(raw('api.test', b'POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n' + inner).count(b'HTTP/1.1'))
""")
        assert r["stdout"].split() == ["1", "1"], r
        assert api.seen[0].startswith(b"POST / ") and b"smuggled" in api.seen[0].partition(b"\r\n\r\n")[2], api.seen  # a body's, as counted
        assert not any(b"smuggled" in d for d in api.seen[1:]), api.seen  # malformed chunks stay here


@test
def one_connection_serves_each_host_by_its_own_rules():
    with Web("api.test", "two.test") as web, Web("closed.test") as closed:
        plain = Web()
        plain.names = ("plain.test", "other.test")
        with plain:
            config = configure(web, closed, plain, allow=["api.test", "plain.test:80"])
            r = python(config, TALK + f"""
def pipe(*hosts):
    s = socket.create_connection(({ADDRESS!r}, {PROXY}), timeout=5)
    s.sendall(b''.join(f'GET http://{{h}}/ HTTP/1.1\\r\\nHost: {{h}}\\r\\n\\r\\n'.encode() for h in hosts))
    r = b''
    while d := s.recv(65536): r += d
    return ' '.join(l.split()[0] for l in r.decode().split('HTTP/1.1 ')[1:])
say('closed', lambda: pipe('plain.test', 'other.test', 'plain.test'))
""")
            assert said(r)["closed"] == "200 403", r["stdout"]
            assert [dict(f)["Host"] for _, f, _ in plain.seen] == ["plain.test"] and not closed.connections, plain.seen


@test
def a_guest_that_has_said_all_still_gets_its_answer():
    class Slow(Handler):
        def do_GET(self):
            time.sleep(0.3)
            super().do_GET()

        def get_long(self):
            self.answer(b"y" * 400000)

    plain = Web(handler=Slow)
    plain.names = ("plain.test",)
    with plain:
        r = python(configure(plain, allow=["plain.test:80"]), RAW + r"""
for path in ('/', '/long'):
    print(len(raw('plain.test', f'GET {path} HTTP/1.1\r\nHost: plain.test\r\n\r\n'.encode(), True, tls=False).partition(b'\r\n\r\n')[2]))
print(raw('plain.test', b'GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n' * 3, True, tls=False).count(b'hello'))
print(len(raw('plain.test', b'POST / HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 5\r\n\r\nhal', True, tls=False)))
""")
        assert r["stdout"].split() == ["6", "400000", "3", "0"], r["stdout"]  # half a request is none
        assert [line.split()[0] for line, _, _ in plain.seen] == ["GET"] * 5, plain.seen


@test
def a_value_cannot_be_fetched_in_halves():
    class Parts(Handler):
        def do_GET(self):
            self.server.seen.append((self.requestline, {k.lower(): v for k, v in self.headers.items()}))
            text = (self.headers.get("Authorization") or "none").encode()
            spec = self.headers.get("Range")
            if spec:
                first, last = spec.removeprefix("bytes=").split("-")
                text = text[int(first):int(last) + 1]
            name = self.headers.get("Authorization", "x").split()[-1]
            self.answer(text, 206 if spec else 200, [(name, "1")])

    with Web("api.test", handler=Parts) as api, Web("other.test", handler=Parts) as other:
        config = configure(api, other, more={"credentials": {"TOKEN": {"host": "api.test"}}})
        r = brig("run", "--json", "--config", config, "--", "sh", "-c", """
for r in 0-16 17-40; do curl -sSi -H "Authorization: Bearer $TOKEN" -H "Range: bytes=$r" -H 'If-Range: "x"' https://api.test/; done
curl -sS -H 'Range: bytes=1-2' https://other.test/""", env={"TOKEN": VALUE}).json
        assert [f["authorization"] for _, f in api.seen] == [f"Bearer {VALUE}"] * 2, api.seen
        assert not any("range" in f or "if-range" in f for _, f in api.seen + other.seen), (api.seen, other.seen)
        assert r["stdout"].endswith("none"), r["stdout"]  # the whole, at other hosts as well
        assert VALUE[:9] not in r["output"] and VALUE[9:] not in r["output"], r["output"]  # nor as a field's name


@test
def fields_that_would_change_what_the_rules_saw_are_dropped():
    with Web("api.test") as web:
        odd = ["X-HTTP-Method-Override: DELETE", "X-HTTP-Method: DELETE", "X-Method-Override: DELETE", "X-Original-URL: /admin",
               "X-Rewrite-URL: /admin", "Proxy: http://evil.test/", "Forwarded: for=1.2.3.4", "X-Forwarded-Host: evil.test"]
        r = behind(configure(web, allow=["GET api.test/v1/"], fields=["api.test X-Kept"]), "curl", "-sS", *(w for f in odd for w in ("-H", f)), "-H", "X-Kept: 1", "https://api.test/v1/x")
        names = {k.lower() for k, _ in web.seen[0][1]}
        assert "x-kept" in names and not names & {f.split(":")[0].lower() for f in odd}, (names, r)


@test
def methods_have_case():
    with Web("api.test") as web:
        r = python(configure(web), TALK + f"""
def proxy(line):
    s = socket.create_connection(({ADDRESS!r}, {PROXY}), timeout=5); s.sendall(line + b'\\r\\nHost: api.test:443\\r\\n\\r\\n')
    return s.recv(4096).split(b'\\r\\n')[0].decode()
say('connect', lambda: proxy(b'connect api.test:443 HTTP/1.1'))
say('get', lambda: talk('api.test', 443, b'get / HTTP/1.1\\r\\nHost: api.test\\r\\n\\r\\n', 'api.test'))
say('head', lambda: talk('api.test', 443, b'Head / HTTP/1.1\\r\\nHost: api.test\\r\\n\\r\\n', 'api.test'))
say('trace', lambda: talk('api.test', 443, b'trace / HTTP/1.1\\r\\nHost: api.test\\r\\n\\r\\n', 'api.test'))
say('control', lambda: proxy(b'CONNECT api.test:443 HTTP/1.1'))
""")
        answers = said(r)
        assert " 200 " in answers.pop("control") and all(" 400 " in v for v in answers.values()), answers
        assert not web.seen


@test
def an_address_is_refused_as_one():
    with Web("api.test") as web:
        r = behind(configure(web), "curl", "-sS", "https://203.0.113.1/")
        assert "203.0.113.1' is an address" in r["denials"][0]["reason"] and r["denials"][0]["kind"] == "network", r["denials"]
        assert not web.connections


@test
def a_refused_address_is_named_as_it_was_asked_for():
    with Web("api.test") as web:
        for url, target in (("https://203.0.113.1/", "203.0.113.1:443"), ("https://203.0.113.1:8443/", "203.0.113.1:8443"),
                            ("http://203.0.113.1/x", "203.0.113.1:80"), ("http://203.0.113.1:3000/", "203.0.113.1:3000"),
                            ("https://[2001:db8::1]/", "[2001:db8::1]:443"), ("http://[2001:db8::1]:81/", "[2001:db8::1]:81")):
            r = behind(configure(web), "curl", "-sS", url)
            assert [d["target"] for d in r["denials"]] == [target], (url, r["denials"])
            assert "is an address, not a name" in r["denials"][0]["reason"], r["denials"]
        r = behind(configure(web), "curl", "-sS", "--socks5", f"{ADDRESS}:{PROXY}", "http://203.0.113.1:81/")
        assert [d["target"] for d in r["denials"]] == ["203.0.113.1:81"], r["denials"]
        assert not web.connections


@test
def names_in_a_hello_are_one_plain_name_or_none():
    with Web("api.test", "a.api.test") as web, Web("closed.test") as closed:
        config = configure(web, closed, allow=["api.test", "*.api.test"])
        r = python(config, r"""
import socket, ssl
def hello(name):
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
    like = ''.join('.' if i % 32 == 31 else 'a' for i in range(len(name)))
    t = c.wrap_bio(into, out, server_hostname=like)
    try: t.do_handshake()
    except ssl.SSLWantReadError: pass
    return out.read().replace(like.encode(), name)
def answer(data):
    s = socket.create_connection(('93.184.216.34', 443), timeout=10); s.sendall(data)
    r = s.recv(4096)
    return 'alert' if r[:1] in (b'\x15', b'') else 'hello' if r[:1] == b'\x16' else repr(r[:10])
for name in (b'api.test', b'A.API.TEST', b'*.api.test', b'api.test\0.closed.test', b'_x.api.test', b'-a.api.test', b'127.0.0.1', b'\xc3\xa4.api.test',
             b'a..api.test', b'.api.test', b'api.test:443', b'a/b.api.test', b'x' * 64 + b'.api.test', b'api.test..', b'0x7f.1', b'a b.api.test', b'::1aaaaaaaaa'):
    print(answer(hello(name)))
""")
        got = r["stdout"].split()
        assert got[:2] == ["hello"] * 2 and got[2:] == ["alert"] * 15, got
        assert web.connections == closed.connections == 0


@test
def an_encrypted_hello_is_not_passed_through():
    with Web("pin.test") as web:
        r = python(configure(web, passthrough=["pin.test"]), r"""
import socket, ssl
into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
t = ssl.create_default_context().wrap_bio(into, out, server_hostname='pin.test')
try: t.do_handshake()
except ssl.SSLWantReadError: pass
d = out.read()
def add(d, extension):
    at = 5 + 4 + 2 + 32; at += 1 + d[at]; at += 2 + int.from_bytes(d[at:at+2], 'big'); at += 1 + d[at]
    n = len(extension); two = lambda i, size: (int.from_bytes(d[i:i+size], 'big') + n).to_bytes(size, 'big')
    return d[:3] + two(3, 2) + d[5:6] + two(6, 3) + d[9:at] + two(at, 2) + d[at+2:] + extension
for data in (d, add(d, b'\xab\xcd\0\x04abcd'), add(d, b'\xfe\x0d\0\x04abcd')):
    s = socket.create_connection(('pin.test', 443), timeout=10); s.sendall(data); print(s.recv(100)[0])
""")
        assert r["stdout"].split() == ["22", "22", "21"] and web.connections == 2, (r["stdout"], web.connections)
        assert denials(r) == [("pin.test:443", "tls-mismatch")], r["denials"]


@test
def a_certificate_must_name_the_host_as_hosts_are_named():
    d = root()

    def made(name, san):
        base = d / f"made-{name}"
        (d / "made.ext").write_text(f"subjectAltName={san}\n" if san else "basicConstraints=CA:FALSE\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{base}.key", "-out", f"{base}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{base}.csr", "-CA", d / "ca.pem", "-CAkey", d / "ca.key", "-CAcreateserial", "-out", f"{base}.pem", "-days", 3,
                "-extfile", d / "made.ext")
        c = context("spare.test")
        c.load_cert_chain(f"{base}.pem", f"{base}.key")
        return Web(name, tls=c)

    kinds = {"subject.test": "", "top.test": "DNS:*.test", "address.test": "IP:127.0.0.1", "mail.test": "email:a@mail.test",
             "part.in.test": "DNS:p*.in.test", "deep.er.wild.test": "DNS:*.wild.test", "fine.wild.test": "DNS:*.wild.test", "exact.test": "DNS:exact.test"}
    servers = [made(*item) for item in kinds.items()]
    try:
        r = behind(configure(*servers), "sh", "-c", f"for h in {' '.join(kinds)}; do curl -skS -o /dev/null -w '%{{http_code}}\\n' https://$h/; done")
        assert r["stdout"].split() == ["421"] * 6 + ["200"] * 2, r["stdout"]
        assert [len(s.seen) for s in servers] == [0] * 6 + [1] * 2
    finally:
        for s in servers:
            s.__exit__()


@test
def heads_count_against_the_bytes_a_run_may_move():
    with Web("api.test") as web:
        r = behind(configure(web, rate={"bytes_out": "20k"}), "sh", "-c",
                   "for i in 1 2 3 4 5 6; do curl -s -o /dev/null -w '%{http_code}\\n' \"https://api.test/?$(head -c 3000 /dev/zero | tr '\\0' $i)\" "
                   "-H \"X: $(head -c 2000 /dev/zero | tr '\\0' y)\"; done")
        codes = r["stdout"].split()
        assert codes[0] == "200" and codes[-1] == "429" and sum(len(line) for line, _, _ in web.seen) < 20480, codes
        assert {reason for _, reason in denials(r)} == {"limit"}, r["denials"]
        r = behind(configure(web, rate={"bytes_in": "2000"}), "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do "
                   "curl -s -o /dev/null -w '%{http_code}\\n' -I https://api.test/; done")
        codes = r["stdout"].split()
        assert codes[0] == "200" and codes[-1] == "429", codes  # answers to HEAD are heads alone


@test
def what_comes_in_is_looked_at_in_every_part_and_never_stopped():
    class Shapes(Handler):
        def get_field(self):
            self.answer(fields=[("X-Token", SHAPE)])

        def get_body(self):
            self.answer(b"a " + SHAPE.encode() + b" b")

        def get_coded(self):
            self.answer(gzip.compress(b"a " + SHAPE.encode() + b" b"), fields=[("Content-Encoding", "gzip")])

        def get_late(self):
            self.answer(b"x" * 300000 + b" " + SHAPE.encode() + b" " + VALUE.encode() + b" b")

        def get_broken(self):
            self.answer(b"nothing that gzip would know", fields=[("Content-Encoding", "gzip")])

    with Web("api.test", handler=Shapes) as web:
        for more in ({}, {"credentials": {"TOKEN": {"host": "else.test"}}}):
            config = configure(web, more=more)
            found = {}
            for path in ("plain", "field", "body", "coded"):
                r = brig("run", "--json", "--config", config, "--", "curl", "-sS", "--compressed", f"https://api.test/{path}", env={"TOKEN": VALUE}).json
                assert r["exit_code"] == 0 and (path in ("plain", "field") or SHAPE in r["stdout"]), (path, r)
                found[path] = [e["type"] for e in json.loads(brig("audit", "list", "--json").text) if e.get("run") == r["id"]].count("leak.warn")
            assert found == {"plain": 0, "field": 1, "body": 1, "coded": 1}, (more, found)
        # Told of alone, so only as far as leaks.answers says; a known value is taken out wherever it stands.
        for size, count in (("256k", 0), ("all", 1), ("0", 0)):
            config = configure(web, more={"leaks": {"answers": size}, "credentials": {"TOKEN": {"host": "else.test"}}})
            r = brig("run", "--json", "--config", config, "--", "sh", "-c", "curl -sS https://api.test/late | tail -c 200", env={"TOKEN": VALUE}).json
            assert r["exit_code"] == 0 and SHAPE in r["stdout"] and VALUE not in r["stdout"], (size, r["stdout"][-200:])
            assert [e["type"] for e in json.loads(brig("audit", "list", "--json").text) if e.get("run") == r["id"]].count("leak.warn") == count, size
        done = brig("run", "--config", configure(web), "--", "sh", "-c", "for i in 1 2 3; do curl -sS https://api.test/body; done")
        assert done.status == 0 and done.errors.count("something like a secret passed the door: ") == 1, done.errors
        r = behind(configure(web), "sh", "-c", "curl -sS -o /dev/null -w '%{size_download}' -H 'Accept-Encoding: gzip' https://api.test/broken")
        assert r["stdout"] == "28", r  # broken as it is: the guest's to find out


@test
def a_question_that_cannot_be_whole_ends_the_stream():
    r = python(configure(allow=["api.test"]), f"""
import socket
for head in (b'\\xff\\xff', b'\\x10\\x00'):
    s = socket.create_connection(({ADDRESS!r}, 53), timeout=5); s.sendall(head + b'x' * 100); print(s.recv(10))
s = socket.create_connection(({ADDRESS!r}, 53), timeout=5)
q = b'\\x12\\x34\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\3api\\4test\\0\\0\\1\\0\\1'
s.sendall((len(q).to_bytes(2, 'big') + q) * 2); print(len(s.recv(100)) > 40)
""")
    assert r["stdout"].split() == ["b''", "b''", "True"], r["stdout"]


@test
def an_answer_that_udp_cut_is_fetched_over_tcp_and_checked_as_any():
    if not IS_ROOT:
        return  # no port 53, no mount: nothing to try with
    whole = {"many.test": [f"10.1.2.{n}" for n in range(1, 60)], "six.test": ["fd00::1", "fd00::2"]}
    with Resolver({}, whole) as names:
        r = python(configure(allow=["many.test", "six.test"]), TALK + """
for n in ('many.test', 'six.test'): say(n, lambda: talk(n, 443, get(n), n))
""")
        answers = said(r)
        assert all(" 403 " in v for v in answers.values()) and "10.1.2." in answers["many.test"] and "fd00::" in answers["six.test"], answers
        assert {"many.test", "many.test/tcp", "six.test/tcp"} <= set(names.asked), names.asked


if __name__ == "__main__":
    sys.exit(main())
