# SPDX-License-Identifier: Apache-2.0
"""Writes an index of git's that no git would write. Run by tests inside a sandbox: mkindex.py KIND HASH FILE [NAME...]"""
import hashlib
import struct
import sys

kind, sha, out, names = sys.argv[1], bytes.fromhex(sys.argv[2]), sys.argv[3], [n.encode() for n in sys.argv[4:]]


def head(mode, length):
    return struct.pack(">10I", 1, 1, 1, 1, 1, 1, mode, 0, 0, 0) + sha + struct.pack(">H", length)


def entry(mode, name):
    b = head(mode, min(len(name), 0xfff)) + name
    return b + b"\0" * (8 - len(b) % 8)


def write(version, count, body):
    body = b"DIRC" + struct.pack(">II", version, count) + body
    with open(out, "wb") as f:
        f.write(body + hashlib.sha1(body).digest())


if kind == "links":  # gitlinks by any name
    write(2, len(names), b"".join(entry(0o160000, n) for n in sorted(names)))
elif kind == "length":  # the flags say another length than the NUL does; the second entry hides behind an extension for one of the two readings
    link = entry(0o160000, names[0])
    write(2, 2, head(0o100644, 70) + b"a\0" + entry(0o100644, b"b") + b"ZZZZ" + struct.pack(">I", len(link)) + link)
elif kind == "hash":  # readable with hashes of 20 and of 32 bytes, with different names
    write(3, 2, entry(0o160000, b"000000000000" + names[0]) + entry(0o100644, b"zzzzzzzzz") + b"ZZZZ" + struct.pack(">I", 20) + b"YYYY" + struct.pack(">I", 0) + b"\0" * 12)
