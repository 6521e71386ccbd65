#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a value's owner and the reader of the record rely on: nothing of a value comes back in pauses, parts or other slots, no request
leaves without a trace, no rule is talked around.

Every one has a control that goes through and an oracle upstream or in the record."""

import base64
import contextlib
import gzip
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import TALK, Handler, Raw, Web, behind, configure, denials, fields, python, said  # noqa: E402
from harness import FACTOR, IS_ROOT, PATIENCE, brig, brig_argv, brig_environment, main, scratch, start_brig, test, workspace  # noqa: E402

VALUE = "ghp_N2dmKEepbnBOzq8Gk2vT"

RESET = r"""
import socket, ssl, struct, time
context = ssl.create_default_context()
def begin(method, path, more=b'', fields='', host='api.test'):
    s = context.wrap_socket(socket.create_connection((host, 443), timeout=20), server_hostname=host)
    s.sendall(f'{method} {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n'.encode() + more)
    return s
def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)); s.close()
"""


def records(run, *types):
    return [e for e in json.loads(brig("audit", "list", "--json", "--limit", "5000").text) if e.get("run") == run["id"] and e["type"] in types]


class Count(Handler):
    """Notes method, path and how much of the body has come, as it comes."""

    def handle_any(self):
        entry = [self.command, self.path, 0]
        self.server.seen.append(entry)
        left = int(self.headers.get("Content-Length", 0))
        while left and (data := self.rfile.read1(min(left, 1 << 16))):
            left -= len(data)
            entry[2] += len(data)
        if "slow" in self.path:
            time.sleep(1)
        self.answer(b"ok\n")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.handle_any
        raise AttributeError(name)


# ---- values ----


class Walk(Handler):
    """Streams, sign by sign, what begins like a value."""

    def get_walk(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for n in range(3, len(VALUE) - 1):
            for c in (VALUE[n], "~"):
                self.chunk(("\n" + VALUE[:n] + c).encode())
                time.sleep(0.004)
        self.chunk(b"")


@test
def where_an_answer_pauses_tells_nothing_of_a_value():
    code = RESET + r"""
s = begin('GET', '/walk', host='other.test'); data = b''
while not data.endswith(b'0\r\n\r\n'): data += s.recv(65536)
body, whole, ends = data.partition(b'\r\n\r\n')[2], b'', []
while (size := int(body.partition(b'\r\n')[0], 16)):
    body = body.partition(b'\r\n')[2]; whole += body[:size]; ends.append(body[size - 1:size] <= b' '); body = body[size + 2:]
print(len(whole), sum(ends), len(ends))
"""
    with Web("other.test", handler=Walk) as web:
        stream = sum(2 * (n + 2) for n in range(3, len(VALUE) - 1))
        seen = {}
        for name, value in (("none", None), ("right", VALUE), ("other", "0" * 40)):
            more = {"credentials": {"TOKEN": {"host": "api.test"}}} if value else {}
            r = python(configure(web, more=more), code, env={"TOKEN": value})
            length, at_blank, chunks = map(int, r["stdout"].split())
            assert length == stream and chunks > 10, (name, r["stdout"])
            seen[name] = chunks - at_blank
        assert seen["none"] > 10, seen  # the control: without a credential what comes is passed on as it came
        assert seen["right"] == seen["other"] == 1, seen  # with one a pause is where the stream has a blank, and at the end


class Store(Handler):
    """Keeps what it is told and shows it under another name, in capitals, in parts."""

    kept = "nothing"

    def do_GET(self):
        self.server.seen.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
        if "?" in self.path:
            Store.kept = self.path.partition("=")[2]
        text, spec = Store.kept.encode(), self.headers.get("Range")
        if self.path == "/forced":
            self.answer(text[:12], 206, [("Content-Range", "bytes 0-11/24")])
        elif spec:
            first, last = spec.removeprefix("bytes=").split("-")
            self.answer(text[int(first):int(last or 1000) + 1], 206)
        else:
            self.answer(text)


@test
def a_value_is_neither_put_into_a_query_nor_fetched_in_parts():
    with Web("api.test", "raw.test", handler=Store) as web:
        Store.kept = VALUE
        line = """get() { curl -g -sS -w ' %{http_code}\\n' "$@"; }
get "https://api.test/store?q={TOKEN}"; get "https://api.test/?anything=1&q=%7BTOKEN%7D"; get "https://api.test/?q=$TOKEN"
get -r 0-11 https://raw.test/part; get -r 12- https://raw.test/part; get -r 0-11 https://api.test/part; get -H 'If-Range: "x"' -r 0-1 https://raw.test/
get https://raw.test/forced"""
        r = brig("run", "--json", "--config", configure(web, more={"credentials": {"TOKEN": {"host": "api.test"}}}), "--", "sh", "-c", line,
                 env={"TOKEN": VALUE}).json
        assert not any("=" in path or "range" in f or "if-range" in f for path, f in web.seen), web.seen
        assert VALUE[:12] not in r["output"] and VALUE[12:] not in r["output"], r["output"]
        assert [reason for _, reason in denials(r)] == ["credential-misuse"] * 4, r["denials"]
        # the controls: a named parameter takes it, and without a credential parts are parts
        web.seen.clear()
        named = {"TOKEN": {"host": "api.test", "header": "Authorization", "query": ["key"]}}
        r = brig("run", "--json", "--config", configure(web, more={"credentials": named}), "--", "sh", "-c",
                 'curl -g -sS "https://api.test/store?key={TOKEN}"; curl -g -sS "https://api.test/store?q={TOKEN}"', env={"TOKEN": VALUE}).json
        assert [path for path, _ in web.seen] == [f"/store?key={VALUE}"] and r["stdout"].startswith("brig-"), (web.seen, r["stdout"])
        Store.kept = "0123456789abcdefghij"
        r = behind(configure(web), "sh", "-c", "curl -sS -r 0-11 https://raw.test/part; curl -sS https://raw.test/forced")
        assert r["stdout"] == "0123456789ab" * 2, r["stdout"]


@test
def a_value_that_could_be_guessed_or_never_ends_is_refused():
    with Web("api.test") as web:
        for value, more, word in (("fifteen-signs-x", {}, "15 bytes, not 16"), ("a blank within it, long enough", {}, "blank")):
            done = brig("run", "--config", configure(web, more={"credentials": {"TOKEN": {"host": "api.test", **more}}}), "--", "true", env={"TOKEN": value})
            assert done.status != 0 and word in done.errors, (done.status, done.errors)
        config = configure(web, more={"credentials": {"TOKEN": {"host": "api.test", "streaming": "delayed"}}})
        r = brig("run", "--json", "--config", config, "--", "curl", "-sS", "https://api.test/", env={"TOKEN": "a blank within it, long enough"}).json
        assert r["stdout"] == "hello\n", r


@test
def every_scrub_is_counted_and_nothing_else_is_said_to_have_passed():
    class Echo(Handler):
        def do_GET(self):
            value = self.headers.get("Authorization", "").removeprefix("Bearer ")
            fields = {"/first": [("X-Echo", value), ("X-Last", "z")], "/cookie": [("Set-Cookie", f"id={value}; Path=/")], "/folded": [("X-Echo", base64.b64encode(value.encode()).decode())],
                      "/twice": [("X-Echo", value), ("X-Again", f"<{value}>")], "/reason": []}.get(self.path, [("X-First", "z"), ("X-Echo", value)])
            if self.path == "/reason":
                self.wfile.write(f"HTTP/1.1 200 {value}\r\nContent-Length: 1\r\n\r\nx".encode())
                return
            if self.path != "/cut":
                self.answer(value.encode() if self.path == "/twice" else b"x", fields=fields)
                return
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            self.wfile.write(b"half " + value.encode() + b" of it\n")
            self.wfile.flush()
            self.close_connection = True

        do_HEAD = do_GET

    with Web("api.test", handler=Echo) as web:
        for path in ("first", "last", "cut", "cookie", "folded", "twice", "reason", "first --head"):
            r = brig("run", "--json", "--config", configure(web, more={"credentials": {"TOKEN": {"host": "api.test"}}}), "--", "sh", "-c",
                     f'curl -sSi -H "Authorization: Bearer $TOKEN" https://api.test/{path} 2>&1', env={"TOKEN": VALUE}).json
            folded = base64.b64encode(VALUE.encode()).decode()
            assert VALUE not in r["output"] and folded not in r["output"] and ("brig-" in r["stdout"] or path in ("folded", "reason")), (path, r["output"])
            found = [e["type"] for e in records(r, "credential.scrub", "leak.warn")]
            assert found == ["credential.scrub"], (path, found)


class Packs(Handler):
    """Answers in the coding that the path names, whatever it was asked for."""

    def do_GET(self):
        self.server.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
        codings, text = self.path.strip("/").split("+"), b"a text to pack, a text to pack\n"
        data = gzip.compress(text) if "gzip" in codings or "x-gzip" in codings else zlib.compress(text) if "deflate" in codings else text
        self.answer(data, 304 if "same" in codings else 200, [("Content-Encoding", x) for x in codings if x not in ("same", "plain")])

    do_HEAD = do_GET


@test
def a_bound_host_that_packs_its_answers_is_read_unpacked():
    packed = ["gzip", "x-gzip", "deflate", "br", "identity+gzip", "compress", "same+gzip"]
    code = RESET + r"""
import os, sys
host, token, paths = sys.argv[1], 'Authorization: Bearer ' + os.environ.get('TOKEN', 'none') + '\r\n', sys.argv[2:]
def get(path, fields='', method='GET'):
    s, data = begin(method, '/' + path, b'', fields + 'Connection: close\r\n', host), b''
    while more := s.recv(65536):
        data += more
    head, _, body = data.partition(b'\r\n\r\n')
    print(head.split()[1].decode(), len(body), head.lower().partition(b'content-length: ')[2].split(b'\r')[0].decode(), flush=True)
for p in paths:
    get(p); get(p, token); get(p, method='HEAD')
get('plain', 'Accept_Encoding: gzip\r\nAccept-Encoding: gzip\r\nACCEPT_ENCODING: br\r\n'); get('identity', token); get('plain', method='HEAD')
"""
    with Web("api.test", "free.test", handler=Packs) as web:
        config = configure(web, more={"credentials": {"TOKEN": {"host": "api.test"}}})

        def run(host, *paths, config=config):
            web.seen.clear()
            return brig("run", "--json", "--config", config, "--", "env", *(f"-u{k}_proxy" for k in ("http", "https", "all")), "python3", "-c", code, host, *paths, env={"TOKEN": VALUE}).json

        r = run("api.test", *packed)
        told = [tuple(x.split()[:2]) for x in r["stdout"].splitlines()]
        plain, cut, unread = [("200", "42"), ("200", "42"), ("200", "0")], [("200", "0")] * 3, [("502", "520"), ("502", "520"), ("502", "0")]
        assert told[:9] == plain * 3 and told[9:12] == cut, r["stdout"]  # 42: the text in one chunk; br was none
        assert told[12:18] == unread * 2 and told[18:] == [("304", "0")] * 3 + plain, r["stdout"]
        assert {x["accept-encoding"] for _, _, x in web.seen} == {"identity"} and not any("accept_encoding" in x for _, _, x in web.seen), web.seen
        assert denials(r) == [("api.test:443", "bad-answer")] * 6, r["denials"]
        assert any("content coding" in e["reason"] for e in records(r, "egress.deny"))
        # the controls: a host that no credential is bound to, and a run without one
        r = run("free.test", "gzip", "deflate")
        told = [x.split() for x in r["stdout"].splitlines()]
        assert [x[0] for x in told] == ["200", "403", "200"] * 2 + ["200", "403", "200"] and told[-1] == ["200", "0", "31"], r["stdout"]
        r = run("api.test", "gzip", "br", config=configure(web))
        assert [x.split()[0] for x in r["stdout"].splitlines()] == ["200"] * 9, r["stdout"]


# ---- what leaves ----


class Bodies(Handler):
    """Notes what came of each body, also of those that never end."""

    def do_POST(self):
        entry = [self.path, dict(self.headers.items()), b""]
        self.server.seen.append(entry)
        if self.headers.get("Transfer-Encoding") == "chunked":
            while (line := self.rfile.readline()) and (size := int(line, 16)):
                entry[2] += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            left = int(self.headers.get("Content-Length", 0))
            while left and (data := self.rfile.read1(left)):
                entry[2] += data
                left -= len(data)
        self.answer(b"ok\n")


TOKEN = "Bearer abcdefghijklmnopqrstuvwxyz0123"
SHAPE = "ghp_0123456789abcdefghijABCDEFGHIJ012345"

POST = RESET + r"""
import gzip, json, zlib, sys
def post(name, body, fields='', chunked=False):
    fields += 'Transfer-Encoding: chunked\r\n' if chunked else f'Content-Length: {len(body)}\r\n'
    if chunked: body = b''.join(b'%x\r\n%s\r\n' % (len(body[i:i + 50]), body[i:i + 50]) for i in range(0, len(body), 50)) + b'0\r\n\r\n'
    s = begin('POST', '/' + name, fields=fields)
    try:
        for i in range(0, len(body), 4096): s.sendall(body[i:i + 4096])
    except OSError: pass
    try: answer = s.recv(4096)
    except OSError: answer = b'- cut'
    print(name, (answer or b'- cut').split()[1].decode(), flush=True)
    s.close()
def header(extra=b'', name=b'', comment=b''):
    flags = (4 if extra else 0) | (8 if name else 0) | (16 if comment else 0)
    h = b'\x1f\x8b\x08' + bytes([flags]) + bytes(6)
    if extra: h += len(extra).to_bytes(2, 'little') + extra
    if name: h += name + b'\0'
    if comment: h += comment + b'\0'
    z = zlib.compressobj(9, zlib.DEFLATED, -15); data = z.compress(b'nothing to see') + z.flush()
    return h + data + zlib.crc32(b'nothing to see').to_bytes(4, 'little') + (14).to_bytes(4, 'little')
"""


@test
def json_is_read_with_its_escapes_and_stays_json():
    with Web("api.test", handler=Bodies) as web:
        code = POST + f"""
token, shape = {TOKEN!r}, {SHAPE!r}
kind = 'Content-Type: application/json\\r\\n'
post('control', b'{{"a": "x"}}', kind)
post('newline', json.dumps({{'a': 'x\\n' + token, 'b': [1, 'y']}}).encode(), kind)
post('chunked', json.dumps({{'a': '\\t' + token + '\\t', 'b': 'z' * 9000}}).encode(), kind, True)
post('number', ('{{"a":"\\\\u0042' + token[1:] + '"}}').encode(), 'Content-Type: application/problem+json; charset=utf-8\\r\\n')
post('member', json.dumps({{'Authorization': token}}).encode(), kind)
post('shape', ('{{"a":"\\\\n' + shape + '"}}').encode(), kind)
post('escaped', ('{{"a":"\\\\u0067' + shape[1:] + '"}}').encode(), kind)
post('digest', json.dumps({{'a': token}}).encode(), kind + 'Content-Digest: sha-256=:x:\\r\\n')
post('signed', json.dumps({{'a': token}}).encode(), kind + 'X-Hub-Signature-256: sha256=x\\r\\n')
post('plain', ('x ' + token).encode(), 'Content-MD5: x\\r\\n')
post('other', ('x ' + shape).encode(), 'Content-Type: text/plain\\r\\n')
"""
        r = python(configure(web), code)
        passed = dict.fromkeys(("control", "newline", "chunked", "number", "member"), "200")
        stopped = dict.fromkeys(("digest", "signed", "plain", "other"), "403")
        assert said(r) == passed | stopped | {"shape": "200", "escaped": "200"}, r["stdout"]
        came = {path.strip("/"): body for path, _, body in web.seen}
        assert TOKEN[7:].encode() not in b"".join(came.values()) and SHAPE[4:].encode() not in b"".join(came.values()), came
        values = {name: json.loads(came[name]) for name in (*passed, "shape", "escaped")}  # valid, and as long as it was
        assert values["shape"]["a"] == "\n[REDACTED]" + "*" * (len(SHAPE) - 10) and values["escaped"]["a"].startswith("[*****REDACTED]"), values
        assert values["newline"]["a"].startswith("x\n[REDACTED]**") and len(values["newline"]["a"]) == 2 + len(TOKEN), values
        assert values["chunked"]["b"] == "z" * 9000 and values["number"]["a"].startswith("[*****REDACTED]"), values
        told = records(r, "leak.redact", "leak.block", "log.summary")
        blocked = sum(e.get("count", 1) for e in told if "leak.block" in (e["type"], e.get("of")))
        assert blocked == 4 and any(e["type"] == "leak.redact" for e in told), told
        # a rule that somebody wrote counts
        web.seen.clear()
        r = python(configure(web, more={"leaks": {"rules": {"github-token": "block"}}}), code)
        assert said(r) == passed | stopped | {"shape": "403", "escaped": "403"}, r["stdout"]


@test
def what_an_agent_replays_does_not_end_its_session():
    with Web("api.test", "other.test", handler=Bodies) as web:
        config = configure(web, more={"credentials": {"TOKEN": {"host": "api.test"}}})
        code = POST + f"""
import base64, os
mine, value = os.environ['TOKEN'], {VALUE!r}
kind = 'Content-Type: application/json\\r\\n'
said = json.dumps({{'messages': [mine, 'it says ' + value, base64.b64encode(value.encode()).decode(), 'the rest']}})
escaped = '["' + ''.join('\\\\u%04x' % ord(c) for c in value) + '"]'
for n in range(3):
    post(f'turn{{n}}', said.encode(), kind + f'Authorization: Bearer {{mine}}\\r\\n', n == 1)
post('escaped', escaped.encode(), kind)
post('text', said.encode(), 'Content-Type: text/plain\\r\\n')
post('packed', gzip.compress(said.encode()), kind + 'Content-Encoding: gzip\\r\\n')
"""
        done = brig("run", "--json", "--config", config, "--", "env", "-u", "https_proxy", "-u", "HTTPS_PROXY", "python3", "-c", code, env={"TOKEN": VALUE})
        r = done.json
        assert said(r) == {"turn0": "200", "turn1": "200", "turn2": "200", "escaped": "200", "text": "403", "packed": "403"}, (r["stdout"], r["stderr"])
        assert [f["Authorization"] for path, f, _ in web.seen if "turn" in path] == [f"Bearer {VALUE}"] * 3
        for _, _, body in web.seen[:3]:
            *gone, rest = json.loads(body)["messages"]
            assert VALUE.encode() not in body and all("[REDACTED]" in m for m in gone) and rest == "the rest", body
        assert json.loads(web.seen[3][2])[0].replace("*****", "").startswith("[REDACTED]"), web.seen[3]
        assert not any(body for _, _, body in web.seen[4:]), web.seen[4:]
        assert done.errors.count("was taken out") == 1, done.errors
        told = records(r, "leak.redact", "log.summary")
        assert {e.get("pattern") for e in told if e["type"] == "leak.redact"} == {"placeholder", "secret TOKEN", "github-token"}, told


@test
def a_coded_body_is_stopped_whole_and_the_record_says_so():
    with Web("api.test", handler=Bodies) as web:
        r = python(configure(web), POST + f"""
token, shape = {TOKEN!r}.encode(), {SHAPE!r}.encode()
kind = 'Content-Encoding: gzip\\r\\n'
big = bytes(range(256)) * 4; import random; random.seed(1); noise = random.randbytes(200000)
post('control', gzip.compress(b'x nothing y'), kind)
post('large', gzip.compress(noise), kind)
post('stream', gzip.compress(noise), kind, True)
post('small', gzip.compress(b'x ' + token + b' y'), kind)
post('late', gzip.compress(b'x' * 50000 + b' ' + shape), kind)
post('middle', gzip.compress(noise + b' ' + shape + b' ' + noise), kind)
post('deflate', zlib.compress(b'x ' + token + b' y'), 'Content-Encoding: deflate\\r\\n')
post('name', header(name=b'a ' + shape), kind)
post('comment', header(comment=b'a ' + shape), kind)
post('extra', header(extra=b'a ' + shape), kind)
post('json', gzip.compress(b'{{"a": "\\\\n' + shape + b'"}}'), kind + 'Content-Type: application/json\\r\\n')
post('twice', gzip.compress(gzip.compress(b'x nothing y')), 'Content-Encoding: gzip, gzip\\r\\n')
post('member', gzip.compress(b'a') + gzip.compress(b' ' + shape), kind)
post('padded', header(extra=b'x' * 60000) * 5, kind)
post('bomb', gzip.compress(bytes(30 << 20)), kind)
""")
        answers = said(r)
        assert [answers.pop(n) for n in ("control", "large", "stream", "bomb")] == ["200"] * 4, r["stdout"]
        assert not any(v == "200" for v in answers.values()), answers
        came = {path.strip("/"): body for path, _, body in web.seen}
        assert all(len(came.get(n, b"")) == 0 for n in answers if n not in ("middle", "padded")), {n: len(b) for n, b in came.items()}
        assert len(came["large"]) == len(came["stream"]) > 200000 and len(came["middle"]) < 210000, {n: len(b) for n, b in came.items()}
        told = records(r, "leak.redact", "leak.block", "log.summary")
        assert sum(e.get("count", 1) for e in told if "leak.block" in (e["type"], e.get("of"))) == len(answers), told
        assert not any("redact" in str(e.get("of", e["type"])) for e in told), told


# ---- the worker ----


def worker_of(pid):
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, rest = path.read_text().rpartition(")")
            if name.endswith("(brig-egress") and int(rest.split()[1]) == pid:
                return path.parent
    raise AssertionError("no worker")


def resident(proc):
    return int(next(line.split()[1] for line in (proc / "status").read_text().splitlines() if line.startswith("VmRSS")))


@test
def connections_share_a_budget_of_memory():
    code = RESET + r"""
import os, sys, threading
for k in list(os.environ):
    if k.lower().endswith('_proxy'): del os.environ[k]
threading.stack_size(1 << 18)
kept, lock, context = [], threading.Lock(), ssl.create_default_context()
def stall():
    try:
        s = context.wrap_socket(socket.create_connection(('api.test', 443), timeout=3), server_hostname='api.test')
        s.sendall(b'GET / HTTP/1.1\r\nHost: api.test\r\nX: ' + b'y' * 60000)
        with lock: kept.append(s)
    except OSError: pass
def many(n):
    threads = [threading.Thread(target=stall) for _ in range(n)]
    for t in threads: t.start()
    for t in threads: t.join()
many(8); print(len(kept), flush=True); sys.stdin.readline()
many(250); print(len(kept), flush=True); sys.stdin.readline()
for s in kept: s.close()
for i in range(20):
    try: print(begin('GET', '/').recv(100).split()[1].decode(), flush=True); break
    except OSError: time.sleep(0.5)
"""
    with Web("api.test") as web:
        config = configure(web, more={"limits": {"memory": "128m", "pids": 600}}, rate={"connections": 1000, "domain": 0, "total": 0})
        p = start_brig("run", "--config", config, "--", "python3", "-c", code, stdin=subprocess.PIPE, text=True)
        few = p.stdout.readline().strip()
        worker = worker_of(p.pid)
        before = resident(worker)
        p.stdin.write("\n")
        p.stdin.flush()
        many = p.stdout.readline().strip()
        after = resident(worker)
        out, err = p.communicate("\n", timeout=60 * PATIENCE)
        assert out.strip() == "200", (out, err)  # whoever waited is served when others have left
        if "ASAN_OPTIONS" not in os.environ:  # a sanitizer's own allocator knows no budget
            assert few == "8" and 8 < int(many) < 258, (few, many, err)  # who comes when it is spent waits
            assert after - before < 20 << 10, (before, after, many)


# ---- a hostile proxy in front of the machine ----


@test
def a_hostile_proxy_of_the_machine_gains_nothing():
    tunnel = b"HTTP/1.1 200 Connection established\r\n\r\n"
    lies = {"huge": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70000 + b"\r\n\r\n", "fields": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n",
            "interim": b"HTTP/1.1 100 Continue\r\n\r\n" * 5000, "auth": b"HTTP/1.1 407 Who are you\r\nProxy-Authenticate: Basic realm=x\r\n\r\n",
            "moved": b"HTTP/1.1 302 Found\r\nLocation: https://control.test/\r\n\r\n", "upgrade": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
            "body": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "both": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "twice": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "bare": b"HTTP/1.1 200 OK\nX: y\n\n", "old": b"hello\r\n",
            "early": tunnel + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "cut": b"HTTP/1.1 200 O", "nothing": b"", "zero": tunnel + bytes(2000)}

    def between(self, s):
        ask = self.head(s)
        host = ask.split()[1].decode().split(":")[0]
        if host.split(".")[0] in lies:
            s.sendall(lies[host.split(".")[0]])
            s.shutdown(1)
            self.seen[-1] += b"".join(iter(lambda: s.recv(65536), b""))
            return
        s.sendall(tunnel)
        with socket.create_connection(("127.0.0.1", (other if host == "wrong.test" else web).port)) as far:
            for a, b in ((s, far), (far, s)):
                threading.Thread(target=pipe, args=(self, a, b), daemon=True).start()
            time.sleep(1)

    def pipe(self, a, b):
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                self.seen.append(data)
                b.sendall(data)

    hosts = [f"{name}.test" for name in lies] + ["wrong.test", "control.test"]
    with Web("control.test") as web, Web("other.test") as other, Raw("x", between, tls=False) as proxy:
        config = configure(allow=hosts, upstream_proxy=f"http://127.0.0.1:{proxy.port}", more={"credentials": {"TOKEN": {"host": hosts}}})
        r = brig("run", "--json", "--config", config, "--", "sh", "-c", "for h in " + " ".join(hosts) + "; do curl -s -o /dev/null "
                 "-w \"$h %{http_code}\\n\" -H \"Authorization: Bearer $TOKEN\" https://$h/; done", env={"TOKEN": VALUE}, timeout=60).json
        answers = said(r)
        assert answers.pop("control.test") == "200" and answers.pop("wrong.test") == "421", (answers, r)
        assert set(answers.values()) == {"502"} and len(answers) == len(lies), answers
        assert [fields(f).get("Authorization") for _, f, _ in web.seen] == [f"Bearer {VALUE}"] and not other.seen, (web.seen, other.seen)
        assert VALUE.encode() not in b"".join(proxy.seen) and b"brig-" not in b"".join(proxy.seen)  # nothing of a head goes with CONNECT
        assert VALUE not in r["output"], r["output"]


# ---- rules ----


@test
def a_method_or_path_is_not_said_otherwise_by_a_field():
    odd = ["X_HTTP_Method_Override", "X-Http_Method-Override", "X_Original_URL", "X-Original-Uri", "X-Original-Method", "X-Forwarded-Uri", "X-Forwarded-Prefix",
           "X-Forwarded-Server", "X-Forwarded-Port", "X-Forwarded-Method", "X-Rewrite-Uri", "X-Host", "Content_Length", "Transfer_Encoding",
           "My-Method-Override", "X-HTTP-Method-Name", "_method", "X-HOST-Override", "X-HTTP-Path-Override", "X-Envoy-Original-Path", "X-MS-Original-URL"]
    fields = [w for name in odd for w in ("-H", f"{name}: DELETE")]
    with Web("api.test") as web, Web("wide.test") as wide:
        limited = [dict(allow=["POST api.test/items", "GET api.test/v1/", "wide.test"]), dict(deny=["DELETE api.test"]),
                   dict(more={"credentials": {"TOKEN": {"host": "api.test", "methods": ["GET"]}}})]
        for how in limited:
            web.seen.clear()
            r = brig("run", "--json", "--config", configure(web, wide, fields=["api.test X-Kept"], **how), "--", "sh", "-c", 'for u in https://api.test/v1/x https://wide.test/; do curl -sS "$@" $u; done',
                     "sh", *fields, "-H", "X-Kept: 1", "-H", "X-Amz-Date: 2", env={"TOKEN": VALUE}).json
            names = {k.lower() for k, _ in web.seen[0][1]}
            assert {"x-kept", "x-amz-date"} <= names and not names & {n.lower() for n in odd}, (how, names, r["stderr"])
        names = {k.lower() for k, _ in wide.seen[0][1]}
        assert {"x-host", "x-forwarded-uri", "_method"} <= names, names  # the control: a host without such a rule


@test
def a_second_path_is_not_named_by_a_field():
    names = ["Destination", "DESTINATION", "X_destination", "X-Amz-Copy-Source", "x_goog_copy_source", "X-Copy-From"]
    code = RESET + f"""
for name in {names!r}:
    for host in ('api.test', 'wide.test'):
        print(begin('MOVE', '/v1/x', fields=name + ': /v2/secret\\r\\nConnection: close\\r\\n', host=host).recv(100).split()[1].decode(), flush=True)
"""
    with Web("api.test", handler=Count) as web, Web("wide.test", handler=Count) as wide:
        for how in (dict(allow=["api.test/v1/", "wide.test"]), dict(deny=["DELETE api.test"]),
                    dict(more={"credentials": {"TOKEN": {"host": "api.test", "paths": ["/v1/"]}}})):
            r = python(configure(web, wide, **how), code, env={"TOKEN": VALUE})
            assert r["stdout"].split() == ["403", "200"] * len(names) and not web.seen, (how, r["stdout"], web.seen)
            assert denials(r) == [("api.test:443", "denied")] * len(names), r["denials"]


@test
def a_denied_path_is_denied_in_any_case():
    with Web("api.test") as web:
        paths = ["/admin", "/Admin", "/ADMIN/x", "/%61dmin", "/%41dMIN/", "/adm%69n?x", "/administer", "/x/admin"]
        r = behind(configure(web, deny=["api.test/admin"]), "sh", "-c", "".join(f"curl -s -o /dev/null -w '%{{http_code}} ' 'https://api.test{p}';" for p in paths))
        assert r["stdout"].split() == ["403"] * 6 + ["200"] * 2, r["stdout"]
        assert [line.split()[1] for line, _, _ in web.seen] == paths[6:], web.seen


@test
def all_addresses_of_the_machine_are_its_own():
    if not IS_ROOT:
        return  # no addresses of one's own, nothing to try with
    hosts, server = scratch() / "hosts", scratch() / "server.py"
    hosts.write_text("127.0.0.1 localhost\n11.0.0.5 near.test\n11.0.0.190 far.test\n11.1.0.1 routed.test\n11.2.0.7 prefix.test\n11.3.0.7 source.test\n2600:1::7 six.test\n2600:2::7 far6.test\n12.0.0.1 card.test\n11.0.1.7 late.test\n12.0.0.2 away.test\n")
    server.write_text("""import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'a page of this machine')
    def log_message(self, *a): pass
http.server.HTTPServer.address_family = 10
s = http.server.HTTPServer(('::', 80), H); print(flush=True); s.serve_forever()
""")
    argv = " ".join(f"'{w}'" for w in brig_argv("run", "--network", "proxy", "--set", "egress.https_only=false"))
    # routed.test, prefix.test, source.test and six.test are the machine's own by a route alone, late.test from the middle of a run on; away.test,
    # the control, is another's.
    own = ("near", "far", "routed", "prefix", "source", "six", "far6", "card")
    script = f"""unshare -n sleep {60 * FACTOR} & far=$!; while [ "$(readlink /proc/$far/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.02; done; ip link set lo up; ip link add v0 type veth peer name v1; ip link set v1 netns $far; ip addr add 12.0.0.1/24 dev v0; ip link set v0 up
nsenter -t $far -n sh -c 'ip addr add 12.0.0.2/24 dev v1; ip link set v1 up; exec python3 {server}' >{scratch()}/far & other=$!
for i in $(seq 1 200); do echo "addr add 11.0.0.$i/32 dev lo"; done | ip -batch -; ip route add local 11.1.0.0/24 dev lo
ip addr add 11.2.0.1/24 dev lo; ip route add local 11.3.0.0/24 dev lo src 12.0.0.1; ip -6 route add local 2600:1::/64 dev lo; ip -6 addr add 2600:2::7/128 dev lo nodad
mount --bind {hosts} /etc/hosts; python3 {server} >{scratch()}/up & server=$!; while [ ! -s {scratch()}/up ] || [ ! -s {scratch()}/far ]; do sleep 0.05; done
for h in {' '.join(own)}; do curl -sS http://$h.test/; echo; done
for h in {' '.join(own)} away late; do [ $h = late ] && (while [ ! -e begun ]; do sleep 0.05; done; ip addr add 11.0.1.7/32 dev lo; touch added) &
{argv} --allow $h.test:80 -- sh -c "[ $h = late ] && touch begun && while [ ! -e added ]; do sleep 0.05; done; curl -sS http://$h.test/" 2>&1 | tr '\\n' ' '; echo
done; kill $server $other $far"""
    out = subprocess.run(["unshare", "-nm", "sh", "-c", script], env=brig_environment(), cwd=workspace(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60 * PATIENCE, check=False)
    lines = out.stdout.splitlines()
    assert lines[:len(own)] == ["a page of this machine"] * len(own), out.stdout  # they do lead here
    del lines[:len(own)]
    assert len(lines) == len(own) + 2 and lines.pop(len(own)).startswith("a page of this machine"), out.stdout
    assert all("an address of this machine" in line and "a page" not in line for line in lines), out.stdout


# ---- the record ----


@test
def a_request_whose_guest_resets_is_on_the_record():
    with Web("api.test", handler=Count) as web:
        r = python(configure(web), RESET + r"""
size = 3 << 20
s = begin('POST', '/up', b'z' * (size + 9000), f'Content-Length: {size + 10000}\r\n'); time.sleep(0.5); reset(s)
s = begin('GET', '/x'); s.recv(100); s.close()
s = begin('DELETE', '/slow'); time.sleep(0.2); reset(s)
s = begin('PATCH', '/slow'); time.sleep(0.2); s.shutdown(socket.SHUT_WR); s.close()
s = begin('PUT', '/slow', b'q' * 500, 'Content-Length: 900\r\n'); time.sleep(0.2)   # the run ends first
""")
        assert sorted(m for m, _, _ in web.seen) == ["DELETE", "GET", "PATCH", "POST", "PUT"], web.seen
        done = {e["method"]: e for e in records(r, "egress.done")}
        assert sorted(done) == sorted(e["method"] for e in records(r, "egress.allow")) == sorted({m for m, _, _ in web.seen}), done
        assert done["POST"]["bytes_out"] >= web.seen[0][2] > 3 << 20 and done["PUT"]["bytes_out"] == 500, (done, web.seen)
        assert done["GET"]["status"] == 200 and done["DELETE"]["status"] == done["POST"]["status"] == 0, done
        assert r["egress"]["bytes_out"] == sum(e["bytes_out"] for e in done.values()), (r["egress"], done)


@test
def a_tunnel_that_is_reset_is_on_the_record():
    with Web("pin.test", handler=Count) as web:
        config = configure(web, passthrough=["pin.test"])
        r = python(config, RESET.replace("create_default_context()", "_create_unverified_context()") + r"""
s = begin('PUT', '/slow', b'z' * 50000, 'Content-Length: 90000\r\n', host='pin.test'); time.sleep(0.3); reset(s)
""")
        done = records(r, "egress.done")
        assert [e["method"] for e in done] == ["TLS"] and done[0]["bytes_out"] > 50000 and web.seen[0][2] == 50000, (done, web.seen)


class Slow(Count):
    """The same for chunked bodies and for answers that wait until the guest is gone; tells what has come."""

    def handle_any(self):
        if self.path == "/seen":
            self.answer(json.dumps({method: came for method, _, came in self.server.seen}).encode())
            return
        entry = [self.command, self.path, 0]
        self.server.seen.append(entry)
        if self.headers.get("Expect"):
            self.send_response_only(100)
            self.end_headers()
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline() or b"0", 16):
                while size and (data := self.rfile.read1(size)):
                    size -= len(data)
                    entry[2] += len(data)
                if size:
                    return
                self.rfile.readline()
        left = int(self.headers.get("Content-Length", 0))
        while left and (data := self.rfile.read1(min(left, 1 << 16))):
            left -= len(data)
            entry[2] += len(data)
        if "stream" in self.path:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for _ in range(200):
                self.chunk(b"a" * 2000)
                time.sleep(0.01)
        elif "slow" in self.path:
            self.connection.settimeout(20)
            self.rfile.read1(1)
        self.answer(b"ok\n")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any


RESETS = RESET + r"""
import json, os, threading
def door(data):
    s = socket.create_connection(('198.19.255.253', 3128), timeout=20)
    for part in data:
        s.sendall(part); s.recv(100)
    return s
def connect(host): return door([f'CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n'.encode()])
def socks(host): return door([b'\x05\x01\x00', b'\x05\x01\x00\x03' + bytes([len(host)]) + host.encode() + b'\x01\xbb'])
def dial(host): return socket.create_connection((host, 443), timeout=20)
def send(way, host, data):
    s = context.wrap_socket(way(host), server_hostname=host); s.sendall(data); return s
def head(method, path='/slow', fields='', host='api.test'): return f'{method} {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n'.encode()
def came(method, size, host):  # until so much has come over there, as that server says
    for _ in range(400):
        s = context.wrap_socket(dial(host), server_hostname=host)
        s.sendall(head('GET', '/seen', 'Connection: close\r\n', host))
        answer = b''.join(iter(lambda: s.recv(9000), b''))
        if json.loads(answer.split(b'\r\n\r\n', 1)[1]).get(method, -1) >= size: return
        time.sleep(0.05)
    raise TimeoutError(f'{method} never came')
def gone(s, method, size=0, first=lambda s: None, host='api.test'):
    first(s); came(method, size, host); reset(s)
def some(s):
    while b'aaa' not in s.recv(1000): pass
def half(s): s.shutdown(socket.SHUT_WR); time.sleep(0.1)
def unread(s):  # the kernel resets what is closed with something unread, also for a process that is killed
    some(s); pid = os.fork()
    if not pid: time.sleep(60)
    s.close(); time.sleep(0.3); os.kill(pid, 9); os.waitpid(pid, 0)
sized, chunked = 'Content-Length: 90000\r\n', 'Transfer-Encoding: chunked\r\n'
body, chunk = b'z' * 50000, b'4e20\r\n' + b'c' * 20000 + b'\r\n'
api = lambda data, way=dial: send(way, 'api.test', data)
variants = [
    lambda: gone(api(head('CHUNK', fields=chunked) + chunk + b'4e20\r\n' + b'c' * 7000), 'CHUNK', 19001),
    lambda: gone(api(head('LAST', fields=chunked) + chunk + b'0\r\n'), 'LAST', 15001),     # all but the last line break
    lambda: gone(api(head('ANSWER', '/stream')), 'ANSWER', 0, some),
    lambda: unread(api(head('KILLED', '/stream'))),
    lambda: gone(api(head('VIACONNECT', fields=sized) + body, connect), 'VIACONNECT', 19001),
    lambda: gone(api(head('VIASOCKS', fields=sized) + body, socks), 'VIASOCKS', 19001),
    lambda: gone(api(head('HALF', fields=sized) + body), 'HALF', 19001, half),
    lambda: gone(api(head('HALFANSWER', '/stream')), 'HALFANSWER', 0, lambda s: (some(s), half(s))),
    lambda: gone(api(head('EXPECT', fields=sized + 'Expect: 100-continue\r\n')), 'EXPECT', 19001, lambda s: (s.recv(100), s.sendall(body))),
    lambda: gone(api(head('PIPED', '/x') + head('SECOND', '/slow') + head('THIRD', '/x')), 'SECOND'),
    lambda: gone(send(connect, 'pin.test', head('PINCONNECT', fields=sized, host='pin.test') + body), 'PINCONNECT', 50000, host='pin.test'),
    lambda: gone(send(socks, 'pin.test', head('PINSOCKS', fields=sized, host='pin.test') + body), 'PINSOCKS', 50000, host='pin.test'),
    *[lambda n=n: (lambda s: (time.sleep(n / 1000), reset(s)))(api(head('AT' + chr(65 + n), fields=sized) + body)) for n in range(16)],   # whatever the door was just doing
]
threads = [threading.Thread(target=v) for v in variants]
for t in threads: t.start()
for t in threads: t.join()
"""


@test
def no_way_of_resetting_keeps_a_request_off_the_record():
    with Web("api.test", handler=Slow) as web, Web("pin.test", handler=Slow) as pin:
        config = configure(web, pin, passthrough=["pin.test"], rate={"domain": 0, "total": 0})
        r = python(config, RESETS.replace("create_default_context()", "_create_unverified_context()"))
        assert r["exit_code"] == 0 and not r["stderr"], r
        done = {e["method"]: e for e in records(r, "egress.done") if e["host"] == "api.test"}
        got = {method: came for method, _, came in web.seen}
        assert set(got) >= {"CHUNK", "LAST", "ANSWER", "KILLED", "VIACONNECT", "VIASOCKS", "HALF", "HALFANSWER", "EXPECT", "PIPED", "SECOND"}, got
        assert set(done) >= set(got) and "THIRD" not in done, (set(got) - set(done), done)
        assert all(done[m]["bytes_out"] >= came for m, came in got.items()), (got, done)
        assert all(got[m] > 15000 for m in ("CHUNK", "LAST", "VIACONNECT", "VIASOCKS", "HALF", "EXPECT")), got
        assert all(done[m]["status"] == 200 and done[m]["bytes_in"] for m in ("ANSWER", "KILLED", "HALFANSWER")), done
        assert all(done[m]["status"] == 0 for m in ("CHUNK", "VIACONNECT", "VIASOCKS", "SECOND")) and done["PIPED"]["status"] == 200, done
        tunnels = [e for e in records(r, "egress.done") if e["host"] == "pin.test"]
        assert sum(e.get("count", 1) for e in tunnels) > len(pin.seen) == 2, (tunnels, pin.seen)  # those that asked, as well
        assert sum(e["bytes_out"] for e in tunnels) > sum(came for _, _, came in pin.seen) == 100000, (tunnels, pin.seen)
        assert r["egress"]["bytes_out"] == sum(e["bytes_out"] for e in records(r, "egress.done")), (r["egress"], done)


@test
def what_is_done_is_summed_and_floods_hide_nothing():
    with Web("api.test", handler=Count) as web:
        r = python(configure(web, rate={"domain": 0, "total": 0}), RESET + r"""
s = begin('GET', '/0')
def ask(method, body=b''):
    s.sendall(f'{method} / HTTP/1.1\r\nHost: api.test\r\nContent-Length: {len(body)}\r\n\r\n'.encode() + body)
    data = b''
    while not data.endswith(b'ok\n'): data += s.recv(4096)
data = b''
while not data.endswith(b'ok\n'): data += s.recv(4096)
for i in range(40): ask('POST', b'x' * 100)
for i in range(320): ask('M' + ''.join(chr(65 + int(c)) for c in str(i)))
ask('DELETE', b'y' * 7)
for i in range(5): ask('ZZZZ', b'z' * 11)
for i in range(3): ask('DELETE', b'y' * 7)
""")
        assert r["exit_code"] == 0 and len(web.seen) == 370, (len(web.seen), r)
        done = records(r, "egress.done")
        sums = {}
        for e in done:
            n, b = sums.get(e.get("method"), (0, 0))
            sums[e.get("method")] = (n + e.get("count", 1), b + e["bytes_out"])
        assert sums["POST"] == (40, 4000) and sums["DELETE"] == (4, 28), sums
        assert sum(n for n, _ in sums.values()) == 370 and sum(b for _, b in sums.values()) == r["egress"]["bytes_out"] == 4000 + 28 + 55, sums
        assert len(done) < 330 and sums[None][0] > 50, (len(done), sums.get(None))  # what was invented beyond its places is one sum
        assert {e["method"] for e in records(r, "egress.allow")} >= {"GET", "POST", "DELETE"}


@test
def what_looks_like_a_secret_is_told_once_a_kind_and_then_counted():
    code = RESET + r"""
import os
samples = b'ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx ' * 20000 + b'AKIAIOSFODNN7EXAMPLE ' * 300
for part in range(2):
    s = begin('POST', '/', samples, f'Content-Length: {len(samples)}\r\nConnection: close\r\n')
    print(s.recv(100).split(b'\r\n')[0].decode(), flush=True)
"""
    with Web("api.test", handler=Count) as web:
        r = python(configure(web), code, timeout=60)
        assert r["stdout"].splitlines() == ["HTTP/1.1 200 OK"] * 2, r
        found = records(r, "leak.warn", "log.summary")
        for kind, count in (("github-token", 40000), ("aws-access-key", 600)):
            first = [e for e in found if e["type"] == "leak.warn" and e["pattern"] == kind]
            rest = [e["count"] for e in found if e["type"] == "log.summary" and e.get("kind") == kind]
            assert len(first) == 1 and sum(rest) == count - 1, (kind, first, rest)
        assert len(found) < 20, found


@test
def refusals_of_one_kind_do_not_push_out_another():
    with Web("api.test") as web:
        r = python(configure(web), TALK + r"""
import concurrent.futures
def ask(name):
    s = socket.create_connection(('198.19.255.253', 3128), timeout=20)
    s.sendall(f'CONNECT {name}:443 HTTP/1.1\r\nHost: {name}:443\r\n\r\n'.encode()); s.recv(100); s.close()
with concurrent.futures.ThreadPoolExecutor(32) as pool: list(pool.map(ask, [f'n{i}.closed.test' for i in range(700)]))
say('leak', lambda: talk('api.test', 443, get('api.test', '/?ghp_0123456789abcdefghijABCDEFGHIJ012345'), 'api.test'))
say('last', lambda: talk('api.test', 443, get('api.test', '/', 'X: {NOTHING}\r\n'), 'api.test'))
""")
        assert " 403 " in said(r)["leak"] and r["egress"]["denied"] == 701, (r["egress"], r["stdout"])
        denied, counted = records(r, "egress.deny"), records(r, "log.summary")
        assert 256 <= len(denied) <= 300 and len(records(r, "leak.block")) == 1, len(denied)
        assert len(denied) + sum(e["count"] for e in counted if e["of"] == "egress.deny") == 700, counted


if __name__ == "__main__":
    sys.exit(main())
