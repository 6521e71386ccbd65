#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Secrets in what bodies hold packed: requests are stopped, answers cut, and what holds none passes as it was."""

import base64
import bz2
import gzip
import io
import json
import lzma
import os
import pathlib
import random
import sys
import tarfile
import zipfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import TALK, Handler, Web, configure, denials, python  # noqa: E402
from harness import brig, main, test, workspace  # noqa: E402

VALUE = "zq8Gk2vTn41Lw0bYd7Rm"
SHAPE = "ghp_0123456789abcdefghijABCDEFGHIJ012345"

POST = TALK + r"""
import base64
def post(name, body, head, step=0):
    s = ssl.create_default_context().wrap_socket(socket.create_connection(('api.test', 443), timeout=20), server_hostname='api.test')
    s.sendall(b'POST /%s HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n' % (name.encode(), len(body), head.encode()))
    r = b''
    try:
        for at in range(0, len(body), step or len(body) or 1):
            s.sendall(body[at:at + (step or len(body))])
    except OSError: pass
    try:
        while d := s.recv(65536): r += d
    except (TimeoutError, ssl.SSLError, OSError): pass
    print(name.replace(' ', '_'), r.split(b' ')[1].decode() if r else 'cut')
"""


class Bodies(Handler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.requestline, dict(self.headers.items()), body))
        self.answer(b"ok\n")


def tarred(members):
    b = io.BytesIO()
    with tarfile.open(fileobj=b, mode="w") as t:
        for name, data in members:
            i = tarfile.TarInfo(name)
            i.size = len(data)
            t.addfile(i, io.BytesIO(data))
    return b.getvalue()


def zipped(members):
    b = io.BytesIO()
    with zipfile.ZipFile(b, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in members:
            z.writestr(name, data)
    return b.getvalue()


def in_parts(*parts):
    mark = b"--a-mark-between-parts"
    return b"".join(mark + b'\r\nContent-Disposition: form-data; name="f"\r\n\r\n' + p + b"\r\n" for p in parts) + mark + b"--\r\n"


def in_chunks(data):
    """S3's own coding."""
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (data[:9], data[9:])) + b"0\r\n\r\n"


def bodies(text):
    """The text, packed: name to (body, more of the head)."""
    big = random.Random(5).randbytes(150000)
    return {
        "gzip": (gzip.compress(text), ""),
        "zip": (zipped([("a", b"nothing"), ("b.txt", text)]), ""),
        "tgz": (gzip.compress(tarred([("a", b"nothing"), ("b", text)])), ""),
        "xz": (lzma.compress(text), ""),
        "bz2": (bz2.compress(text), ""),
        "deep": (zipped([("x", gzip.compress(tarred([("b", bz2.compress(text))])))]), ""),
        "part": (in_parts(b"a text", gzip.compress(text)), "Content-Type: multipart/form-data; boundary=a-mark-between-parts\r\n"),
        "second": (in_parts(gzip.compress(b"nothing"), b"x", zipped([("b", text)])), ""),
        "base64": (b'{"file": "' + base64.b64encode(gzip.compress(text)) + b'"}', "Content-Type: application/json\r\n"),
        "base64plain": (b"file=" + base64.b64encode(zipped([("b", text)])), ""),
        "lines": (b"a letter\n\n" + base64.encodebytes(lzma.compress(text)) + b"\n", ""),
        "inner64": (gzip.compress(b"x: " + base64.b64encode(gzip.compress(text)) + b"\n"), ""),
        "coded": (gzip.compress(zipped([("b", text)])), "Content-Encoding: gzip\r\n"),
        "s3": (in_chunks(gzip.compress(text)), "Content-Encoding: aws-chunked\r\n"),
        "last": (gzip.compress(big + text), ""),
        "named": (gzip.compress(text), "Content-Type: image/png\r\n"),
    }


def send(bodies, step=0, **more):
    """name to status, and what came, by name"""
    with Web("api.test", handler=Bodies) as web:
        config = configure(web, more={"credentials": {"TOKEN": {"host": "else.test"}}, **more})
        (workspace() / "bodies").write_text(json.dumps({n: [base64.b64encode(b).decode(), h] for n, (b, h) in bodies.items()}))
        code = POST + f"import json\nfor n, (b, h) in json.load(open('bodies')).items(): post(n, base64.b64decode(b), h, {step})\n"
        r = python(config, code, env={"TOKEN": VALUE})
        got = dict(line.split() for line in r["stdout"].splitlines())
        return got, {line.split()[1].strip("/"): body for line, _, body in web.seen}, r


def holds(came):
    """Of a body of more than 64 KiB the beginning leaves; nothing that it says may be what was looked for."""
    assert set(came) <= {"last"}, list(came)
    return [n for n, body in came.items() if any(x in zlib.decompressobj(31).decompress(body) for x in (VALUE.encode(), SHAPE.encode()))]


@test
def a_value_does_not_leave_packed():
    sent = bodies(b"a line\n" * 20 + VALUE.encode() + b"\nanother" * 20)
    got, came, r = send(sent)
    assert set(got.values()) <= {"403", "cut"} and set(got) == set(sent) and holds(came) == [], (got, list(came), r)
    assert {reason for _, reason in denials(r)} == {"leak"}, r["denials"]


@test
def nor_does_what_looks_like_a_token():
    sent = bodies(b"a line\n" * 20 + SHAPE.encode() + b"\nanother" * 20)
    got, came, r = send(sent, step=900)
    assert set(got.values()) <= {"403", "cut"} and holds(came) == [], (got, list(came), r)


@test
def what_holds_nothing_passes_as_it_was():
    sent = bodies(b"a line\n" * 20 + b"another\n" * 20)
    got, came, r = send(sent, step=5000)
    assert set(got.values()) == {"200"} and came == {n: b for n, (b, _) in sent.items()}, (got, r)
    assert not denials(r), r


@test
def what_cannot_be_read_is_as_the_setting_says():
    locked = bytearray(zipped([("b", b"text" * 30)]))
    locked[6] |= 1
    locked[locked.index(b"PK\1\2") + 8] |= 1
    deep = b"x" * 100
    for _ in range(6):
        deep = gzip.compress(deep)
    sent = {"locked": (bytes(locked), ""), "cut": (gzip.compress(os.urandom(500))[:300], ""), "deep": (deep, ""), "plain": (b"a text", ""),
            "swells": (bz2.compress(bytes(32 << 20)), "")}
    for how, passes, told in (("allow", set(sent), 0), ("warn", set(sent), 3), ("block", {"plain"}, 0)):
        got, came, r = send(sent, leaks={"unreadable": how})
        assert set(came) == passes and all((s == "200") == (n in passes) for n, s in got.items()), (how, got, r)
        kinds = [e["type"] for e in json.loads(brig("audit", "list", "--json").text) if e.get("run") == r["id"]]
        assert (kinds.count("leak.warn") >= told) if told else kinds.count("leak.warn") == 0, (how, kinds)


@test
def a_coding_that_nobody_knows_is_told_where_it_may_pass():
    head = "Content-Encoding: compress\r\n"
    sent = {"unknown": (bytes(b ^ 0x5a for b in b"a line\n" * 20 + VALUE.encode()), head), "said_so": (b"a line\n" + VALUE.encode(), head)}
    for strict, how, passes, told in ((True, "allow", set(), 0), (False, "allow", {"unknown"}, 0), (False, "warn", {"unknown"}, 1), (False, "block", set(), 0)):
        got, came, r = send(sent, leaks={"strict": strict, "unreadable": how})
        assert {n for n, s in got.items() if s == "200"} == passes and VALUE.encode() not in b"".join(came.values()), (strict, how, got, r)
        kinds = [e["type"] for e in json.loads(brig("audit", "list", "--json").text) if e.get("run") == r["id"]]
        assert (kinds.count("leak.warn") > 0) == bool(told), (strict, how, kinds)


class Answers(Handler):
    """Says the value that it was given, packed in many ways."""

    def do_GET(self):
        text = b"before " + self.headers.get("X-Key", "").encode() + b" behind " * 30
        how = self.path.strip("/")
        fields = []
        if how in ("gzip", "head"):
            text, fields = gzip.compress(text), [("Content-Encoding", "gzip")]
        elif how == "unknown":
            fields = [("Content-Encoding", "compress")]
        elif how != "plain" and how != "clean":
            text = bodies(text)[how][0]
        elif how == "clean":
            text = zipped([("a", b"nothing" * 50)])
        self.answer(text, fields=fields)

    do_HEAD = do_GET


@test
def answers_of_a_host_that_has_a_value_are_read():
    with Web("api.test", handler=Answers) as web:
        config = configure(web, more={"credentials": {"TOKEN": {"host": "api.test", "header": "X-Key"}}})
        code = """
import os, urllib.request, hashlib
def get(path, method='GET'):
    q = urllib.request.Request('https://api.test/' + path, method=method, headers={'X-Key': os.environ['TOKEN']})
    try:
        with urllib.request.urlopen(q) as r: print(path, r.status, r.headers.get('Content-Encoding'), r.headers.get('Content-Length'), r.read().hex() or '-')
    except Exception as e: print(path, 'failed', type(e).__name__, '-', '-')
for p in ('plain', 'gzip', 'clean', 'tgz', 'zip', 'deep', 'unknown'): get(p)
get('gzip', 'HEAD')
"""
        r = python(config, code, env={"TOKEN": VALUE})
        lines = [line.split() for line in r["stdout"].splitlines()]
        assert len(lines) == 8, r
        for path, status, coding, length, data in lines[:2]:  # a coding passes as what it says, without the value
            text = bytes.fromhex(data)
            assert (status, coding) == ("200", "None") and text.startswith(b"before brig-") and VALUE.encode() not in text, lines
        assert lines[2][1] == "200" and zipfile.ZipFile(io.BytesIO(bytes.fromhex(lines[2][4]))).read("a") == b"nothing" * 50, lines
        for line in lines[3:7]:
            assert line[1] == "failed", line
        assert lines[7][1:4] == ["200", "None", "None"], lines[7]


if __name__ == "__main__":
    sys.exit(main())
