#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 that breaks its rules, from the sandbox and from hosts. Each attack beside a control of the same frames that keeps to them."""

import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import door  # noqa: E402
import h2raw  # noqa: E402
from door import Host, Web, configure, denials, python  # noqa: E402
from harness import main, test  # noqa: E402

RAW = (pathlib.Path(__file__).parent / "h2raw.py").read_text()


def guest(config, code):
    """What a program in the sandbox prints, by name."""
    r = python(config, door.TALK + RAW + code)
    return r, dict(line.split(" ", 1) for line in r["stdout"].splitlines())


OK = ((":status", "200"), ("content-length", "2"))


def ordinary(_, p, stream, __):
    p.head(stream, OK, end=False)
    p.send(h2raw.frame(h2raw.DATA, h2raw.END_STREAM, stream, b"ok"))


@test
def floods_end_their_connection_and_no_other():
    with Web("a.test") as w:
        _, r = guest(configure(w), r"""
def flood(name, n, *frames):
    p = dial('a.test')
    for i in range(n):
        if not p.send(*[f(i) for f in frames]): break
    p.head(2 * n + 1, get('a.test'))
    say(name, lambda: '%s %s' % p.answer(2 * n + 1)[:2])
head = lambda i: frame(HEADERS, 5, 2 * i + 1, fields(*get('a.test')))
for n, what in ((300, 'control'), (3000, 'attack')):
    flood(what + '-reset', n, head, lambda i: frame(RST, 0, 2 * i + 1, struct.pack('>I', 8)))
    flood(what + '-settings', n, lambda i: frame(SETTINGS, 0, 0))
    flood(what + '-ping', n, lambda i: frame(PING, 0, 0, bytes(8)))
    flood(what + '-priority', n, lambda i: frame(PRIORITY, 0, 1, bytes(5)))
    flood(what + '-induced', n, lambda i: frame(HEADERS, 5, 2 * i + 1, fields(*get('a.test'), ('X-Upper', '1'))))
def empty(n):
    p = dial('a.test')
    p.head(1, get('a.test', method='POST'), end=False)
    for i in range(n):
        if not p.send(frame(DATA, 0, 1)): break
    p.send(frame(DATA, END_STREAM, 1, b'x'))
    return '%s %s' % p.answer(1)[:2]
say('control-empty', lambda: empty(300))
say('attack-empty', lambda: empty(3000))
say('others', lambda: ask('a.test', get('a.test')))
""")
        print(r)
        for name in ("reset", "settings", "ping", "priority", "induced", "empty"):
            assert r["control-" + name] == "end 200", (name, r)
            assert r["attack-" + name].split()[0] in ("goaway", "closed"), (name, r)
        assert r["others"] == "end 200 6"


@test
def who_asks_for_nothing_has_the_time_of_a_head():
    with Web("a.test") as w:
        _, r = guest(configure(w), r"""
import threading, time
def raw():
    c = ssl.create_default_context(); c.set_alpn_protocols(['h2'])
    return c.wrap_socket(socket.create_connection(('a.test', 443), timeout=10), server_hostname='a.test')
def silent(s):
    pass
def slow(s):
    s.sent = getattr(s, 'sent', 0) + 1
    s.sendall(PREFACE[s.sent - 1:s.sent] if s.sent <= 20 else b'')
def pings(s):
    if not hasattr(s, 'begun'): s.begun = s.sendall(PREFACE + frame(SETTINGS, 0, 0))
    s.sendall(frame(PING, 0, 0, bytes(8)))
def asks(s):
    if not hasattr(s, 'begun'): s.begun = s.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, 5, 1, fields(*get('a.test'))))
def lives(name, f):
    s, begun = raw(), time.time()
    s.settimeout(1)
    while time.time() - begun < 45:
        try:
            f(s)
            time.sleep(0.5)
            if not s.recv(65536): break
        except socket.timeout: pass
        except OSError: break
    print(name, int(time.time() - begun), flush=True)
all = [threading.Thread(target=lives, args=(f.__name__, f)) for f in (silent, slow, pings, asks)]
for t in all: t.start()
for t in all: t.join()
""")
        print(r)
        assert all(28 <= int(r[n]) < 42 for n in ("silent", "slow", "pings")), r
        assert int(r["asks"]) >= 45, r


@test
def heads_are_bounded():
    with Web("a.test") as w:
        _, r = guest(configure(w), r"""
def continued(n):
    p = dial('a.test')
    block = fields(*get('a.test'), ('x-a', 'b'))
    p.send(frame(HEADERS, 1, 1, block), *[frame(CONTINUATION, 4 if i == n - 1 else 0, 1, literal('x-%d' % i, 'y')) for i in range(n)])
    return '%s %s' % p.answer(1)[:2]
def bomb(n):
    p = dial('a.test')
    block = fields(*get('a.test')) + literal('x-bomb', 'z' * 3000, index=True) + b'\xbe' * n
    p.send(frame(HEADERS, 5, 1, block))
    how = '%s %s' % p.answer(1)[:2]
    return how + ', then ' + ask('a.test', get('a.test'), p, 3)
def long(n):
    p = dial('a.test')
    block = fields(*get('a.test')) + b''.join(literal('x-%d' % i, 'v' * 900) for i in range(n))
    p.send(frame(HEADERS, 1, 1, block[:16000]), *[frame(CONTINUATION, 0, 1, block[i:i + 16000]) for i in range(16000, len(block), 16000)],
           frame(CONTINUATION, 4, 1))
    return '%s %s' % p.answer(1)[:2]
say('control-continued', lambda: continued(4))
say('attack-continued', lambda: continued(40))
say('control-bomb', lambda: bomb(3))
say('attack-bomb', lambda: bomb(9000))
say('control-long', lambda: long(40))
say('attack-long', lambda: long(80))
say('others', lambda: ask('a.test', get('a.test')))
""")
        print(r)
        assert r["control-continued"] == "end 200" and r["attack-continued"].split()[0] in ("goaway", "closed"), r
        assert r["control-bomb"] == "end 200, then end 200 6", r
        assert r["attack-bomb"].startswith("reset") and r["attack-bomb"].endswith("then end 200 6"), r
        assert r["control-long"] == "end 200" and not r["attack-long"].startswith("end 200"), r
        assert r["others"] == "end 200 6", r


@test
def another_name_is_421_and_only_for_its_stream():
    with Web("a.test") as w, Web("b.test") as b:
        result, r = guest(configure(w, b), r"""
p = dial('a.test')
say('control', lambda: ask('a.test', get('a.test'), p, 1))
say('authority', lambda: ask('a.test', get('b.test'), p, 3))
say('host', lambda: ask('a.test', get('a.test', '/', ('host', 'b.test')), p, 5))
say('port', lambda: ask('a.test', get('a.test:444'), p, 7))
say('same', lambda: ask('a.test', get('a.test', '/', ('host', 'a.test')), p, 9))
""")
        print(r, b.seen)
        assert r["control"] == r["same"] == "end 200 6", r
        assert r["authority"].startswith("end 421") and r["host"].startswith("end 421"), r
        assert r["port"].startswith("end 4"), r
        assert not b.seen and len(w.seen) == 2
        assert ("a.test:443", "tls-mismatch") in denials(result) or ("b.test:443", "tls-mismatch") in denials(result), result


@test
def malformed_heads_end_their_stream_and_reach_nobody():
    with Web("a.test") as w:
        _, r = guest(configure(w), r"""
G = get('a.test')
bad = {
    'method-twice': (*G[:1], *G), 'path-twice': (*G, (':path', '/x')), 'authority-twice': (*G[:3], *G[2:]),
    'pseudo-late': (*G[:3], ('x', 'y'), G[3]), 'pseudo-unknown': (*G, (':brig', '1')), 'pseudo-status': (*G, (':status', '200')),
    'no-path': G[:3], 'no-method': G[1:], 'empty-path': (*G[:3], (':path', '')), 'no-scheme': (G[0], *G[2:]),
    'connection': (*G, ('connection', 'x-y')), 'keep-alive': (*G, ('keep-alive', '1')), 'upgrade': (*G, ('upgrade', 'h2c')),
    'coding': (*G, ('transfer-encoding', 'chunked')), 'proxy': (*G, ('proxy-connection', 'x')), 'te': (*G, ('te', 'gzip')),
    'upper': (*G, ('X-Upper', '1')), 'blank': (*G, ('x y', '1')), 'colon': (*G, ('x:y', '1')), 'nothing': (*G, ('', '1')),
    'line': (*G, ('x-a', 'b\r\nx-evil: 1')), 'lf': (*G, ('x-a', 'b\nx-evil: 1')), 'nul': (*G, ('x-a', 'b\0c')),
    'path-line': (*G[:3], (':path', '/ HTTP/1.1\r\nx-evil: 1\r\n\r\n')), 'path-blank': (*G[:3], (':path', '/ /evil')),
    'path-url': (*G[:3], (':path', 'https://a.test/')), 'method-blank': ((':method', 'GET /evil'), *G[1:]),
    'authority-user': (*G[:2], (':authority', 'u@a.test'), G[3]), 'scheme': (G[0], (':scheme', 'http'), *G[2:]),
    'length-negative': (*G, ('content-length', '-1')), 'length-twice': (*G, ('content-length', '1'), ('content-length', '2')),
    'length-more': (*G, ('content-length', '5')), 'connect': ((':method', 'CONNECT'), (':authority', 'a.test:443')),
    'connect-extended': ((':method', 'CONNECT'), (':protocol', 'websocket'), *G[1:]), 'fields': (*G, *[('x-%d' % i, '1') for i in range(99)]),
}
p = dial('a.test')
stream = 1
for name, head in bad.items():
    try: how = ask('a.test', head, p, stream)
    except OSError as e: how = str(e)
    if how.startswith(('goaway', 'closed')): p, stream = dial('a.test'), -1
    stream += 2
    print(name, how, flush=True)
def lies(length, sent):
    q = dial('a.test')
    q.head(1, (*get('a.test', method='POST'), ('content-length', str(length))), end=False)
    q.send(frame(DATA, END_STREAM, 1, sent))
    return '%s %s' % q.answer(1)[:2]
say('length-lies-up', lambda: lies(10, b'abc'))
say('length-lies-down', lambda: lies(2, b'abcGET /evil HTTP/1.1\r\n\r\n'))
say('control-length', lambda: lies(3, b'abc'))
say('control-head', lambda: ask('a.test', (*get('a.test'), ('te', 'trailers'), ('x-a', 'b'), ('cookie', 'a=1'), ('cookie', 'b=2'))))
""")
        for name, how in r.items():
            print(name, how)
        assert r.pop("control-head") == "end 200 6" and r.pop("control-length") == "end 200", r
        passed = [n for n, how in r.items() if how.startswith("end 2")]
        assert not passed, passed
        lines = [s for s in w.seen if "GET" in s[0]]
        assert len(lines) == 1 and len(w.seen) <= 3, w.seen
        assert dict(lines[0][1])["cookie"] == "a=1; b=2" and "evil" not in str(w.seen)


@test
def windows_are_kept():
    with Web("a.test") as w:
        _, r = guest(configure(w), r"""
def overflow():
    p = dial('a.test')
    p.send(frame(WINDOW, 0, 0, struct.pack('>I', 0x7fffffff)))
    return ask('a.test', get('a.test'), p)
def much():  # more than its window, of a request whose body nobody takes yet
    p = dial('a.test')
    p.head(1, get('a.test', method='POST'), end=False)
    for i in range(40): p.send(frame(DATA, 0, 1, bytes(16384)))
    return '%s %s' % p.answer(1)[:2]
def drops(step):
    p = dial('a.test', settings=struct.pack('>HI', 4, 0))
    p.head(1, get('a.test', '/big/200'))
    got, given = 0, 0
    while got < 200:
        p.send(frame(WINDOW, 0, 1, struct.pack('>I', step)))
        given += step
        f = p.read()
        got += len(f.data) if f.kind == DATA else 0
        assert got <= given, (got, given)
    return got
still = dial('a.test', settings=struct.pack('>HI', 4, 0))
for i in range(50): still.head(2 * i + 1, get('a.test', '/big/3000000'))
say('overflow', overflow)
say('much', much)
say('drops', lambda: drops(7))
say('others', lambda: ask('a.test', get('a.test')))
""")
        print(r)
        assert r["overflow"].startswith(("goaway", "closed")), r
        assert r["much"].startswith(("goaway", "reset", "closed", "end 200")), r
        assert r["drops"] == "200" and r["others"] == "end 200 6", r


TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7xY9zA1cD3fG6"[:36]


@test
def a_token_in_pieces_is_found_in_both_directions():
    secret = "q7Zt-Lm3Xv9Rb2Kc8Wd4Hn6Pf1Gs5Yj0TuEa"

    def split(_, p, stream, __):
        p.head(stream, ((":status", "200"), ("x-told", secret)), end=False)
        p.send(*[h2raw.frame(h2raw.DATA, 0, stream, bytes([c])) for c in f"it is {secret} indeed".encode()])
        p.send(h2raw.frame(h2raw.HEADERS, 5, stream, h2raw.fields(("x-trail", secret), ("grpc-status", "0"))))

    with Web("a.test") as w, Host("c.test", split) as c:
        config = configure(w, c)
        _, r = guest(config, r"""
def pieces(text, path):
    p = dial('a.test')
    p.head(1, get('a.test', path, method='POST'), end=False)
    p.send(*[frame(DATA, 0, 1, bytes([c])) for c in text.encode()])
    p.send(frame(DATA, END_STREAM, 1))
    return '%s %s' % p.answer(1)[:2]
def trailing(text):
    p = dial('a.test')
    p.head(1, get('a.test', '/t', method='POST'), end=False)
    p.send(frame(DATA, 0, 1, b'x'), frame(HEADERS, 5, 1, fields(('x-t', text))))
    return '%s %s' % p.answer(1)[:2]
say('control', lambda: pieces('nothing to see', '/ok'))
say('attack', lambda: pieces('see TOKEN now', '/evil'))
say('control-trailer', lambda: trailing('plain'))
say('attack-trailer', lambda: trailing('TOKEN'))
p = dial('c.test')
p.head(1, get('c.test'))
how, status, got, body = p.answer(1)
print('answer', how, status, body.decode(), got)
""".replace("TOKEN", TOKEN))
        print(r)
        assert r["control"] == "end 200" and r["attack"].startswith("end 4"), r
        assert r["control-trailer"] == "end 200" and not r["attack-trailer"].startswith("end 200"), r
        assert "x-trail" in r["answer"] and "grpc-status" in r["answer"], r


@test
def hosts_that_break_rules_cost_their_stream():
    def push(_, p, stream, __):
        p.send(h2raw.frame(h2raw.PUSH, 4, stream, struct.pack(">I", 2) + h2raw.fields(*h2raw.get("p.test", "/pushed"))))
        ordinary(_, p, stream, __)

    def pings(_, p, stream, __):
        for _i in range(3000):
            p.send(h2raw.frame(h2raw.PING, 0, 0, bytes(8)))
        ordinary(_, p, stream, __)

    def upper(_, p, stream, __):
        p.head(stream, (*OK, ("X-Upper", "1")), end=False)

    def line(_, p, stream, __):
        p.head(stream, (*OK, ("x-a", "b\r\nset-cookie: evil=1")))

    def lies(_, p, stream, __):
        p.head(stream, ((":status", "200"), ("content-length", "100")), end=False)
        p.send(h2raw.frame(h2raw.DATA, 1, stream, b"short"))

    def headless(_, p, stream, __):
        p.send(h2raw.frame(h2raw.DATA, 1, stream, b"body"))

    def continued(_, p, stream, __):
        p.send(h2raw.frame(h2raw.HEADERS, 0, stream, h2raw.fields(*OK)), *[h2raw.frame(h2raw.CONTINUATION, 0, stream, h2raw.literal("x", "y"))] * 40)

    def away(host, p, stream, __):
        if len(host.seen) % 2:
            p.send(h2raw.frame(h2raw.GOAWAY, 0, 0, struct.pack(">II", 0, 0)))
            p.s.close()
        else:
            ordinary(host, p, stream, __)

    def interim(_, p, stream, __):
        p.head(stream, ((":status", "103"), ("link", "</x>")), end=False)
        ordinary(_, p, stream, __)

    def endless(_, p, stream, __):
        for _i in range(40):
            p.head(stream, ((":status", "103"),), end=False)
        ordinary(_, p, stream, __)

    goodbyes = {}

    def resets(n):
        """Of a stream that is over, once it was answered."""
        def answer(host, p, stream, fields):
            ordinary(host, p, stream, fields)
            for _i in range(n):
                p.send(h2raw.frame(h2raw.RST, 0, stream, struct.pack(">I", 8)))
            p.s.settimeout(2)
            try:
                while (f := p.read()) and f.kind != h2raw.GOAWAY:
                    pass
                goodbyes.setdefault(n, "ends")  # by GOAWAY, or by a reset that overtakes it
            except TimeoutError:
                goodbyes.setdefault(n, "stays")
        return answer

    kinds = {"ordinary": ordinary, "interim": interim, "push": push, "pings": pings, "upper": upper, "line": line, "lies": lies, "headless": headless,
             "continued": continued, "endless": endless}
    floods = {"few": resets(300), "flood": resets(3000)}
    hosts = [Host(n + ".test", f) for n, f in (kinds | floods).items()]
    _, r = guest(configure(*hosts), "".join(f"say('{n}', lambda: ask('{n}.test', get('{n}.test')))\n" for n in kinds) +
                 "say('again', lambda: ask('ordinary.test', get('ordinary.test')))\n"
                 + "import time\n"
                 + "".join(f"{n} = dial('{n}.test')\nsay('{n}', lambda: ask('{n}.test', get('{n}.test'), {n}))\n" for n in floods) +
                 "time.sleep(3)\nsay('after', lambda: ask('flood.test', get('flood.test'), flood, 3))\n")
    print(r, goodbyes)
    for h in hosts:
        h.__exit__()
    assert goodbyes == {300: "stays", 3000: "ends"}, goodbyes
    for name in ("ordinary", "few", "flood", "interim", "again", "after"):
        assert r.pop(name) == "end 200 2", name
    for name, how in r.items():
        assert how.startswith(("end 502", "reset", "closed")), (name, how)


if __name__ == "__main__":
    sys.exit(main())
