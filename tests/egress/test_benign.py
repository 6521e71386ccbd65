#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What people upload and is no secret: source trees, images, archives, wheels, minified code, lock files, notebooks, PDFs of this machine
through the leak scan, without a door. A sample here; BRIG_BENIGN=N files, or all of them, in `make soak`."""

import base64
import gzip
import json
import os
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import main, scratch, test  # noqa: E402

DRIVE = pathlib.Path(os.environ.get("BRIG", "build/brig")).resolve().parent / "tests/drive-corpus"
SAMPLE = 1200
ROOTS = ("/usr/share", "/usr/lib/python3", "/usr/lib/python3.11", "/usr/lib/python3.12", "/usr/lib/python3.13", "/usr/include", "/usr/lib/node_modules",
         "/usr/lib/git-core", "/var/cache/apt/archives", str(pathlib.Path(__file__).resolve().parents[2]))


def is_key(path, kind):
    """A file with a whole private key in it is no false alarm."""
    return kind in ("private-key", "ssh-private-key", "pgp-private-key") and b"-----END " in pathlib.Path(path).read_bytes()


def files(most):
    """So many files, the same ones in each run on a machine, spread over all there are."""
    found = []
    for root in ROOTS:
        for folder, folders, names in os.walk(root):
            # our own tests have tokens in them to be found
            folders[:] = sorted(f for f in folders if f not in ("build", ".git", "tests") and not f.startswith("build-"))
            found += (os.path.join(folder, n) for n in sorted(names))
    found = [f for f in found if "\n" not in f and not os.path.islink(f) and os.path.isfile(f) and 64 <= os.path.getsize(f) <= 16 << 20]
    random.Random(1).shuffle(found)
    return found[:most] if most else found


def told(paths):
    r = subprocess.run([DRIVE], input="".join(p + "\n" for p in paths), stdout=subprocess.PIPE, text=True, check=True, errors="replace")
    lines = r.stdout.splitlines()
    _, n, _, size = lines[-1].split()
    return [line.split(" ", 3) for line in lines[:-1]], int(n), int(size)


def made():
    """What programs make of files on their way: data URLs, source maps, notebooks, mail, packed bodies."""
    folder = scratch() / "made"
    folder.mkdir(exist_ok=True)
    some = [pathlib.Path(f) for f in files(60)]
    for i, path in enumerate(some):
        data = path.read_bytes()[:200000]
        text = data.decode("latin-1")
        (folder / f"{i}.html").write_text(f'<img src="data:image/png;base64,{base64.b64encode(data).decode()}">')
        (folder / f"{i}.json").write_text(json.dumps({"version": 3, "sourcesContent": [text], "cells": [{"image/png": base64.encodebytes(data).decode()}]}))
        (folder / f"{i}.hex").write_text(data.hex())
        (folder / f"{i}.eml").write_bytes(base64.encodebytes(data))
        (folder / f"{i}.gz").write_bytes(gzip.compress(data, mtime=0))
    return [str(f) for f in sorted(folder.iterdir())]


@test
def what_people_upload_is_no_secret():
    most = os.environ.get("BRIG_BENIGN", str(SAMPLE))
    paths = files(0 if most == "all" else int(most)) + made()
    found, n, size = told(paths)
    stopped = {line[3]: line[1] for line in found if line[0] in ("block", "redact") and not is_key(line[3], line[1])}
    assert n >= min(len(paths), 500) * 0.99, (n, len(paths))
    print(f"{n} uploads, {size >> 20} MiB: {len(stopped)} stopped, {len(found)} told")
    for path, kind in sorted(stopped.items()):
        print(" ", kind, path)
    assert len(stopped) <= max(1, n // 10000), stopped


@test
def the_control_is_stopped():
    token = "gh" + "p_" + "aB3dE6gH9jK2mN5pQ8sT"
    folder = scratch()
    (folder / "plain").write_text(f"key = {token}\n")
    (folder / "packed").write_text("x=" + base64.b64encode(f"key = {token}\n".encode()).decode())
    (folder / "hex").write_text(f"key = {token}\n".encode().hex())
    (folder / "one.json").write_text(json.dumps({"key": token}))
    found, n, _ = told([str(folder / name) for name in ("plain", "packed", "hex", "one.json")])
    assert n == 4 and [f[:2] for f in found] == [["block", "github-token"]] * 3 + [["redact", "github-token"]], found


if __name__ == "__main__":
    main()
