# SPDX-License-Identifier: Apache-2.0
"""How fast the door reads what bodies hold packed: the unpacker, a process of its own, fed as a worker feeds it."""

import bz2
import gzip
import io
import lzma
import shutil
import subprocess
import tarfile
import zipfile

import egress
from harness import Row

MIB = 1 << 20


def _zip(data):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("a.json", data)
    return out.getvalue()


def _tar(data):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        member = tarfile.TarInfo("a.json")
        member.size = len(data)
        t.addfile(member, io.BytesIO(data))
    return out.getvalue()


def _tool(*argv):
    def run(data):
        return subprocess.run(argv, input=data, stdout=subprocess.PIPE, check=True).stdout
    return run if shutil.which(argv[0]) else None


# name: (who packs it, what Content-Encoding says where nothing else does, MB/s of content asked for)
WAYS = {"gzip": (lambda d: gzip.compress(d, 6), "", 100), "zip": (_zip, "", 100), "tar": (_tar, "", 100), "zstd": (_tool("zstd", "-6"), "", 100),
        "brotli": (_tool("brotli", "-5", "-c"), "br", 100), "xz": (lambda d: lzma.compress(d, preset=6), "", 50), "bzip2": (bz2.compress, "", 15)}


def packed(bench):
    """By the clock, of content: copies and the other process's turns count."""
    tool = bench.build.resolve() / "tests" / "drive-unpack"
    if not tool.exists():
        bench.note("the unpacker is left out: no tests/drive-unpack in the build folder")
        return
    bench.head("the unpacker: JSON in one piece, fed in 64 KiB; MB/s of what it says")
    data, folder = egress._records(bench.count(12, 2) * MIB), bench.scratch / "packed"
    folder.mkdir(exist_ok=True)
    for name, (pack, coding, least) in WAYS.items():
        if not pack:
            bench.note(f"{name} is left out: no program packs it")
            continue
        (folder / name).write_bytes(pack(data))
        rates = []
        for _ in range(bench.count(5, 1)):
            said = subprocess.run([tool, folder / name, "65536", *coding.split()], stdout=subprocess.PIPE, check=True).stdout
            unreadable, read, _, took = map(int, said[-200:].split()[-4:])  # behind a text that may end without a line
            if unreadable or (name != "tar" and read < len(data)):
                bench.note(f"{name}: unreadable {unreadable}, {read} bytes")
                break
            rates.append(len(data) / max(took, 1))
        if rates:
            rate = sorted(rates)[len(rates) // 2]
            bench.add(Row(name, len(rates), rate=rate, unit="MB/s", target=f">= {least}", ok=rate >= least))
