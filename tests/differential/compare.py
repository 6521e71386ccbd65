#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Two readers of HTTP/1, brig's and Node's, over the same bytes: whatever brig takes, Node must understand as the same.

    tests/differential/compare.py READER [--seconds N] [--seed N]

The streams are a corpus and changes of it, made from the seed. brig may refuse more; what it takes must be the same messages: method,
target, fields, body. And where brig waits for more, Node must not see a whole message already: that is how requests are smuggled."""

import argparse
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = HERE.parent / "fuzz/corpus"

# What Node refuses and brig takes, and why that is no danger.
NODE_IS_STRICTER = {
    "HPE_INVALID_METHOD": "Node knows a list of methods; for brig one is a token, and the rules decide about it",
    "HPE_CLOSED_CONNECTION": "Node heeds 'close' among trailers and in interim answers, which brig drops",
}
# The same, of a field among trailers: brig drops those and frames the body anew.
OF_TRAILERS = ("HPE_INVALID_TRANSFER_ENCODING", "HPE_UNEXPECTED_CONTENT_LENGTH", "HPE_INVALID_CONTENT_LENGTH")
CHUNKED = b"chunked".hex()

REQUESTS = [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nAccept: */*\r\nX-Empty:\r\nX-Two: a, b\r\nX-Two: c\r\n\r\n",
    b"POST /x?y=%2f HTTP/1.1\r\nHost: a:443\r\nContent-Length: 5\r\n\r\nhelloGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1a\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nX: y\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"PUT http://a/x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
    b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\nGET /2 HTTP/1.0\r\nHost: a\r\n\r\n",
    b"DELETE /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: keep-alive, Upgrade\r\nUpgrade: h2c\r\n\r\nHEAD / HTTP/1.1\r\nhOST: a\r\n\r\n",
]
ANSWERS = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nuntil the end",
    b"HTTP/1.0 404 Not Found\r\nServer: x\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n\r\ngone",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 300\r\nETag: \"x\"\r\n\r\n",
    b"HTTP/1.1 200\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
]
WORDS = [b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b",", b";", b"\0", b"\x0b", b"\x0c", b"\x7f", b"\x80", b"\xff", b"0", b"5", b"ff", b"+", b"-", b"_", b"x",
         b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Content-Length: 3\r\n", b"Content-Length:5\r\n", b"Content-Length : 5\r\n", b"Content_Length: 5\r\n",
         b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"Transfer-Encoding: xchunked\r\n",
         b"Transfer-Encoding:\tchunked\r\n", b"Transfer-Encoding: \"chunked\"\r\n", b"transfer-encoding: Chunked \r\n", b"Connection: close\r\n",
         b"Connection: upgrade\r\nUpgrade: x\r\n", b"Host: b\r\n", b"Expect: 100-continue\r\n", b"HTTP/1.0", b"HTTP/1.1", b"HTTP/2.0", b"0\r\n\r\n", b"\r\n\r\n",
         b"1\r\nx\r\n", b";a=b", b" folded\r\n", b"X: y\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"00000000000000005", b"0x5", b"\xc2\xa0"]


def corpus(name):
    return [p.read_bytes()[1:] for p in sorted((CORPUS / name).iterdir())]


def change(r, data):
    at, kind = r.randrange(len(data) + 1), r.randrange(8)
    if kind < 3:
        return data[:at] + r.choice(WORDS) + data[at:]
    if kind == 3:
        return data[:at] + data[at + r.randrange(1, 4):]
    if kind == 4:
        return data[:at] + r.choice(WORDS) + data[at + 1:]
    if kind == 5:  # a line twice, or elsewhere
        lines = data.split(b"\r\n")
        lines.insert(r.randrange(len(lines) + 1), r.choice(lines))
        return b"\r\n".join(lines)
    if kind == 6:  # a field behind another
        lines = data.split(b"\r\n")
        lines.insert(r.randrange(1, max(2, len(lines))), r.choice(WORDS).removesuffix(b"\r\n"))
        return b"\r\n".join(lines)
    return data[:at] + data[at:at + 1].swapcase() + data[at + 1:]


def streams(count, seed):
    """(kind, bytes), the seeds as they are first."""
    r = random.Random(seed)
    base = [("q", d) for d in REQUESTS + corpus("request")]
    base += [(k, d) for d in ANSWERS + corpus("http1") for k in "ah"]
    yield from base
    for _ in range(max(0, count - len(base))):
        kind, data = r.choice(base)
        for _ in range(r.choice((1, 1, 2, 3))):
            data = change(r, data)
        yield kind, data


def read(argv, all_streams):
    data = b"".join(kind.encode() + struct.pack("<I", len(data)) + data for kind, data in all_streams)
    with tempfile.TemporaryFile(buffering=0) as f:
        f.write(data)
        f.seek(0)
        lines = subprocess.run([str(a) for a in argv], stdin=f, stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
    assert len(lines) == len(all_streams), (argv, len(lines))
    return lines


def upgrades(message):
    """Does Node take what follows for another protocol? The door strips such fields, and goes on with HTTP."""
    names = [bytes.fromhex(f.partition(":")[0]).lower() for f in message.split("|")[2].split(",")]
    return b"upgrade" in names


def judge(ours, theirs):
    """None, or what is wrong."""
    *mine, how, _ = ours.split(" ")
    words = theirs.split(" ")
    end = next(i for i, w in enumerate(words) if w in ("end", "more", "refused"))
    yours, their_end, code = words[:end], words[end], (words[end + 1:] or [""])[0]
    for i, message in enumerate(mine):
        if i >= len(yours):
            if code in NODE_IS_STRICTER or (code in OF_TRAILERS and CHUNKED in message.lower()):
                return None
            return f"Node does not take message {i}: {their_end} {code}"
        if yours[i] != message:
            return f"message {i} differs"
        if upgrades(message):
            return None
    if how not in ("refused", "closed") and len(yours) > len(mine):
        return "Node sees a message where brig sees none"
    return None


def compare(reader, count, seed):
    """(streams, taken by brig, faults)"""
    all_streams = list(streams(count, seed))
    brig = read([reader], all_streams)
    # An answer that brig took ends there: what stands behind it makes the connection useless, for both.
    cut = [(kind, data[:int(line.split()[-1])] if kind != "q" and " end " in line else data) for (kind, data), line in zip(all_streams, brig)]
    node = read(["node", "--max-http-header-size=131072", HERE / "node.js"], cut)
    faults = []
    for (kind, data), ours, theirs in zip(all_streams, brig, node):
        fault = judge(ours, theirs)
        if fault:
            faults.append(f"{fault}\n  {kind} {data!r}\n  brig {ours}\n  node {theirs}")
    return len(all_streams), sum("|" in line for line in brig), faults


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("reader")
    p.add_argument("--seconds", type=int, default=10)
    p.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    a = p.parse_args()
    until, n, taken, faults = time.monotonic() + a.seconds, 0, 0, []
    while time.monotonic() < until:
        more = compare(a.reader, 10000, a.seed + n)
        n, taken, faults = n + more[0], taken + more[1], faults + more[2]
    print("\n".join([*faults[:20], f"differential: {n} streams from seed {a.seed}, {taken} taken by brig, {len(faults)} read differently by Node"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
