#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the unpacker makes of archives, whole and hostile: by its driver, without a sandbox."""
import bz2
import ctypes
import ctypes.util
import gzip
import io
import lzma
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import main, test  # noqa: E402

DRIVE = pathlib.Path(os.environ.get("BRIG", "build/brig")).resolve().parent / "tests/drive-unpack"
NOT, BROKEN, LOCKED, METHOD, DEEP, BIG, SLOW, MEMORY, GONE = range(9)
VALUE = b"the-value-that-is-looked-for-0123456789"
TEXT = b"line\n" * 50 + VALUE + b"\nline" * 50
MIB = 1 << 20


def eq(a, b, why=""):
    assert a == b, f"{why} {a!r} is not {b!r}"


def ok(what, why=""):
    assert what, why


def unpack(data, piece=65536, coding=None):
    """([(depth, class, size, bytes)], status, unreadable, microseconds of the processor, bytes told)"""
    with tempfile.NamedTemporaryFile() as f:
        f.write(data)
        f.flush()
        r = subprocess.run([DRIVE, f.name, str(piece), *([coding] if coding else [])],
                           stdout=subprocess.PIPE, check=True, timeout=60)
    out, texts = r.stdout, []
    while True:
        line, out = out.split(b"\n", 1)
        words = [int(w) for w in line.split()]
        if len(words) == 5:
            return texts, words[0], words[1], words[3], words[2]
        texts.append((words[0], words[1], words[2], out[:words[3]]))
        out = out[words[3]:]


def found(data, **kw):
    """(is the value told of, why not all could be read)"""
    texts, _, why, _, _ = unpack(data, **kw)
    return any(VALUE in t[3] for t in texts), why


def tarred(members, form=tarfile.PAX_FORMAT):
    b = io.BytesIO()
    with tarfile.open(fileobj=b, mode="w", format=form) as t:
        for name, data in members:
            i = tarfile.TarInfo(name)
            i.size = len(data)
            t.addfile(i, io.BytesIO(data))
    return b.getvalue()


class Blind(io.RawIOBase):
    """Cannot be sought: sizes are written behind the data."""

    def __init__(self):
        super().__init__()
        self.data = b""

    def writable(self):
        return True

    def write(self, b):
        self.data += bytes(b)
        return len(b)


def zipped(members, method=zipfile.ZIP_DEFLATED, blind=False, big=False):
    b = Blind() if blind else io.BytesIO()
    with zipfile.ZipFile(b, "w", method) as z:
        for name, data in members:
            with z.open(zipfile.ZipInfo(name) if not method else _info(name, method), "w", force_zip64=big) as f:
                f.write(data)
    return b.data if blind else b.getvalue()


def _info(name, method):
    i = zipfile.ZipInfo(name)
    i.compress_type = method
    return i


def tool(*argv, data=TEXT):
    if not shutil.which(argv[0]):
        return None
    return subprocess.run(argv, input=data, stdout=subprocess.PIPE, check=True).stdout


def ways():
    yield "gzip", gzip.compress(TEXT)
    yield "zlib", zlib.compress(TEXT)
    yield "bzip2", bz2.compress(TEXT)
    yield "xz", lzma.compress(TEXT)
    yield "zip", zipped([("a", b"nothing"), ("b", TEXT)])
    yield "zip, bzip2", zipped([("b", TEXT)], zipfile.ZIP_BZIP2)
    yield "zip, sizes behind", zipped([("a", b"nothing"), ("b", TEXT)], blind=True)
    yield "zip, stored gzip", zipped([("a", gzip.compress(TEXT))], zipfile.ZIP_STORED)
    yield "zip, stored gzip, sizes behind", zipped([("a", b"PK PK\x07\x08" + b"P" * 99), ("b", gzip.compress(TEXT))], zipfile.ZIP_STORED, blind=True)
    yield "zip64", zipped([("a", b"x"), ("b", TEXT)], big=True)
    yield "zip64, sizes behind", zipped([("a", b"x"), ("b", TEXT)], blind=True, big=True)
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
        yield f"tar {form}, gzip in it", tarred([("x" * 90, b"first"), ("e", b""), ("g", gzip.compress(TEXT))], form)
    yield "tar.xz", lzma.compress(tarred([("a", TEXT)]))
    yield "tar.bz2 in zip", zipped([("a.tar.bz2", bz2.compress(tarred([("a", TEXT)])))])
    yield "zip in tar.gz", gzip.compress(tarred([("n", b""), ("z", zipped([("a", TEXT)]))]))
    yield "four deep", gzip.compress(bz2.compress(lzma.compress(gzip.compress(TEXT))))
    yield "two members", gzip.compress(TEXT[:270]) + gzip.compress(TEXT[270:])
    yield "zeros, then another kind", gzip.compress(b"a") + bytes(700) + bz2.compress(TEXT)
    yield "behind a zip", zipped([("a", b"b")]) + lzma.compress(TEXT)
    yield "behind a tar", tarred([("a", b"b")]) + gzip.compress(TEXT)
    z = tool("zstd", "-qc")
    if z:
        yield "zstd", z
        yield "zstd, two frames", tool("zstd", "-qc", data=TEXT[:260]) + b"\x50\x2a\x4d\x18\x03\0\0\0abc" + tool("zstd", "-qc", data=TEXT[260:])


@test(as_user="user", limit=120)
def every_way_is_read_however_it_is_cut():
    """The value is told of, in pieces of any size; beside it, packed text without it."""
    for name, data in ways():
        for piece in (1, 7, 511, 65536):
            eq((name, piece, *found(data, piece=piece)), (name, piece, True, NOT))
    eq(found(gzip.compress(b"line\n" * 100)), (False, NOT))
    eq(found(TEXT), (False, NOT))  # not packed: the worker has read it itself


@test(as_user="user", limit=120)
def what_is_not_packed_is_nothing():
    for data in (b"", b"P", b"PK", b"x\x9c is a text", b"BZh91 so they said", b"x" * 1000, bytes(1000), b"\x1f\x8b", b"(\xb5/"):
        eq(unpack(data)[1:3], (0, NOT), repr(data[:12]))


@test(as_user="user", limit=120)
def codings_that_are_said_are_read():
    eq(unpack(gzip.compress(TEXT), coding="gzip")[0][0][3], TEXT)
    eq(unpack(zlib.compress(gzip.compress(TEXT)), coding="gzip, deflate")[0][0][3], TEXT)
    for bad in (b"not gzip at all", gzip.compress(TEXT)[:-9], gzip.compress(TEXT) + b"more"):
        eq(unpack(bad, coding="gzip")[1], -74)
    z = tool("zstd", "-qc")
    if z:
        eq(unpack(z, coding="zstd")[0][0][3], TEXT)
    br = brotli(TEXT)
    if br:
        eq(unpack(br, coding="br")[0][0][3], TEXT)
        eq(unpack(br[:-2], coding="br")[1], -74)
    # What it holds is unpacked, too.
    ok(any(VALUE in x[3] for x in unpack(gzip.compress(zipped([("a", TEXT)])), coding="gzip")[0]))


def brotli(data):
    """By the encoder's own library: Python has none."""
    name = ctypes.util.find_library("brotlienc")
    if not name:
        return None
    out, n = ctypes.create_string_buffer(len(data) + 1000), ctypes.c_size_t(len(data) + 1000)
    assert ctypes.CDLL(name).BrotliEncoderCompress(5, 22, 0, ctypes.c_size_t(len(data)), data, ctypes.byref(n), out)
    return out.raw[:n.value]


@test(as_user="user", limit=120)
def bombs_are_bounded():
    """In time and bytes; what was seen before the bound is told. The control is big and honest."""
    r = random.Random(7)
    honest = r.randbytes(MIB) * 20
    _, status, why, _, told = unpack(gzip.compress(honest))
    eq((status, why, told), (0, NOT, len(honest)))
    zeros = gzip.compress(bytes(64 * MIB), 9)
    rows = {
        "bzip2": bz2.compress(bytes(32 * MIB)),
        "xz": lzma.compress(bytes(32 * MIB), preset=1),
        "gzip twice": gzip.compress(gzip.compress(bytes(64 * MIB), 9), 9),
        "zip of many in gzip": gzip.compress(zipped([(str(i), bytes(8 * MIB)) for i in range(20)])),
    }
    for name, data in rows.items():
        _, status, why, us, told = unpack(data)
        ok(status == 0 and why in (BIG, SLOW), f"{name}: {status} {why}")
        ok(us < 4e6 and told <= 257 * MIB, f"{name}: {us} us, {told} bytes")
    eq(unpack(zeros)[2], NOT)  # a thousand to one, as gzip does at best
    more = gzip.compress(r.randbytes(1024) * 15000, 9) * 20
    _, _, why, us, told = unpack(more)
    ok(why in (BIG, SLOW) and told <= 257 * MIB and us < 4e6, f"300 MiB: {why} {us} {told}")
    # Windows and dictionaries that want more memory than there is.
    eq(unpack(lzma.compress(TEXT, preset=9))[2], MEMORY)
    z = tool("zstd", "-qc", "--ultra", "--long=27", "-22", data=TEXT * 30000)
    if z:
        ok(unpack(z)[2] in (BROKEN, MEMORY))


@test(as_user="user", limit=120)
def what_is_too_deep_is_said():
    data = TEXT
    for depth in range(1, 9):
        data = gzip.compress(data)
        eq((depth, *found(data)), (depth, depth <= 4, NOT if depth <= 4 else DEEP))


@test(as_user="user", limit=120)
def a_zip_that_holds_itself_ends():
    """A zip that holds itself, for ever, as far as the walk can tell: each level holds the next."""
    data = zipped([("r", TEXT)])
    for _ in range(40):
        data = zipped([("r.zip", data)])
    eq(found(data), (False, DEEP))


@test(as_user="user", limit=120)
def zips_that_lie_are_said_to():
    """Every one of these hides the value from a walk by local heads; the whole archive does not."""
    good = zipped([("a", b"nothing"), ("b", TEXT)])
    eq(found(good), (True, NOT))
    locked = bytearray(good)
    for at, sign in ((6, b"PK\3\4"), (8, b"PK\1\2")):
        start = 0
        while (start := locked.find(sign, start)) >= 0:
            locked[start + at] |= 1
            start += 4
    eq(found(bytes(locked)), (False, LOCKED))
    method = good.replace(b"\x08\x00", b"\x63\x00")
    eq(found(method)[1], METHOD)
    # A first member that says it is stored and as long as the second one's head and data.
    second = good.index(b"PK\3\4", 4)
    end = good.index(b"PK\1\2")
    hidden = good[:second]
    cover = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 0, 0, 0, 0, end - second, end - second, 1, 0) + b"c"
    moved = bytearray(good[end:])
    at = moved.index(b"PK\1\2", 4)
    moved[at + 42:at + 46] = struct.pack("<I", second + len(cover))
    eq(found(hidden + cover + good[second:end] + bytes(moved))[1], BROKEN)
    # Members that overlap, named by the directory alone.
    twice = bytearray(good[end:])
    twice[42:46] = struct.pack("<I", second)
    eq(found(good[:end] + bytes(twice))[1], BROKEN)
    # In another order than the directory's is fine.
    one, two = good[:second], good[second:end]
    c1, c2 = good[end:end + 47], good[end + 47:end + 94]
    c2 = c2[:42] + struct.pack("<I", 0) + c2[46:]
    c1 = c1[:42] + struct.pack("<I", len(two)) + c1[46:]
    eq(found(two + one + c1 + c2 + good[end + 94:]), (True, NOT))
    # Sizes that are not the data's.
    short = bytearray(good)
    size = struct.unpack("<I", good[second + 18:second + 22])[0]
    short[second + 18:second + 22] = struct.pack("<I", size - 5)
    eq(found(bytes(short))[1], BROKEN)
    eq(found(good[:-30])[1], BROKEN)
    eq(found(good[:second + 60])[1], BROKEN)


@test(as_user="user", limit=120)
def tars_that_lie_are_said_to():
    good = tarred([("a", b"x"), ("g", gzip.compress(TEXT))])
    eq(found(good), (True, NOT))
    huge = bytearray(good)
    huge[124:136] = b"\x80" + (1 << 61).to_bytes(11, "big")
    huge[148:156] = b" " * 8
    huge[148:156] = b"%06o\0 " % sum(huge[:512])
    eq(found(bytes(huge))[1], BROKEN)  # it ends in the middle
    sparse = bytearray(good)
    sparse[512] = 0
    eq(found(bytes(sparse)), (True, NOT))
    bad = bytearray(good)
    bad[1024 + 148] ^= 1
    eq(found(bytes(bad))[1], BROKEN)
    eq(found(good[:700])[1], BROKEN)


@test(as_user="user", limit=120)
def zips_with_a_second_directory_are_said_to():
    """Each is a zip of which other readers find another member than the walk: its directory lies where the first one's end would be."""
    good = zipped([("a", b"nothing at all")])
    at = good.index(b"PK\1\2")
    members, entry = good[:at], good[at:good.index(b"PK\5\6")]

    def end(n, size, at, comment=b""):
        return struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, n, n, size, at, len(comment)) + comment

    def second(begin):
        """Another zip's members and directory, as they would lie at `begin`, and where its directory is."""
        z = zipped([("b", TEXT)])
        at = z.index(b"PK\1\2")
        entry = bytearray(z[at:z.index(b"PK\5\6")])
        entry[42:46] = struct.pack("<I", begin)
        return z[:at] + bytes(entry), len(entry), begin + at

    hidden = {}
    data, size, where = second(len(members) + len(entry) + 12)
    hidden["larger end"] = members + entry + struct.pack("<IQ", 0x06064B50, len(data)) + data + end(1, size, where)
    data, size, where = second(len(members) + len(entry))
    commented = entry[:32] + struct.pack("<H", len(data)) + entry[34:]
    hidden["entry's comment"] = members + commented + data + end(1, size, where)
    data, size, where = second(len(good))
    hidden["comment"] = members + entry + end(1, len(entry), at, data + end(1, size, where))
    for before in (b"x", b"\x78\x01", b"\0"):
        data, size, where = second(len(good) + len(before))
        hidden[f"behind {before!r}"] = good + before + data + end(1, size, where)
    for name, z in hidden.items():
        with zipfile.ZipFile(io.BytesIO(z)) as f:  # as everybody reads it
            ok(VALUE in f.read("b"), name)
        for piece in (1, 65536):
            told, why = found(z, piece=piece)
            ok(told or why == BROKEN, f"{name} {piece} {told} {why}")
    # What is as it should be: a comment, a larger end, padding.
    for z in (good, members + entry + end(1, len(entry), at, b"made by hand"), good + bytes(600), good + b"\r\n", zipped([("b", b"x")], big=True),
              members + entry + struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 1, 1, len(entry), at) +
              struct.pack("<IIQI", 0x07064B50, 0, at + len(entry), 1) + end(0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)):
        eq(found(z), (False, NOT), z)


@test(as_user="user", limit=120)
def streams_that_are_cut_are_said_to():
    """What could be read of them is told all the same."""
    for name, data in ways():
        if name in ("zlib",) or name.startswith("tar "):
            continue
        eq((name, unpack(data[:-1])[2] in (BROKEN, NOT), unpack(data[:len(data) // 2])[1]), (name, True, 0))
    eq(unpack(gzip.compress(TEXT)[:-9])[2], BROKEN)
    noise = gzip.compress(TEXT + random.Random(1).randbytes(3000))
    eq(found(noise[:-50]), (True, BROKEN))
    broken = bytearray(noise)
    broken[len(noise) // 2:len(noise) // 2 + 20] = b"\xff" * 20
    eq(found(bytes(broken)), (True, BROKEN))


@test(as_user="user", limit=120)
def it_keeps_up():
    """Far below what they are on an idle machine: a step backwards by ten would show."""
    r = random.Random(3)
    words = [bytes(r.choices(b"abcdefghijklmnopqrstuvwxyz", k=r.randrange(2, 10))) for _ in range(3000)]
    text = b" ".join(r.choices(words, k=200000))
    rows = {"gzip": (gzip.compress(text, 6), 20), "zip": (zipped([("a", text)]), 20), "tar": (gzip.compress(tarred([("a", text)])), 20),
            "xz": (lzma.compress(text, preset=3), 5), "bzip2": (bz2.compress(text), 2)}
    z = tool("zstd", "-qc", data=text)
    if z:
        rows["zstd"] = (z, 20)
    for name, (data, least) in rows.items():
        _, _, why, us, told = unpack(data, piece=16384)
        print(f"     {name}: {told / us:.0f} MB/s of what it holds")
        ok(why == NOT and told / us > least, f"{name}: {told / us:.0f} MB/s, {why}")


if __name__ == "__main__":
    sys.exit(main())
