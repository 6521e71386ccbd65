#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A file system by FUSE that takes small letters for capital ones, and does not tell the kernel so: as ntfs-3g does it, and what serves
files to a virtual machine.

    letters_fs.py FOLDER UID [apart] [short]    mounts itself there, says "ready", and serves a repository in FOLDER/p, a file in
                                                FOLDER/plain, nothing in FOLDER/empty and settings in FOLDER/brief, until the
                                                mount is gone

`apart`: each spelling is a file of its own to the kernel, with a number of its own, as libfuse has it for programs that go by paths.

`short`: letters differ, but names that are none of eight letters and three have such a one as well, as Windows makes them.

Only what a look, a read, a write, a new name and its end need is answered."""

import ctypes
import errno
import os
import stat
import struct
import sys

LOOKUP, FORGET, GETATTR, MKNOD, UNLINK, OPEN, READ, WRITE, STATFS, RELEASE, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, ACCESS, BATCH_FORGET = (
    1, 2, 3, 8, 10, 14, 15, 16, 17, 18, 25, 26, 27, 28, 29, 34, 42)
CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tbare = false\n"


class Node:
    all = [None]

    def __init__(self, content, mode=0):
        self.mode = mode
        self.number = len(Node.all)
        Node.all.append(self)
        self.others = {}
        self.content = {n: Node(c) for n, c in content.items()} if isinstance(content, dict) else bytearray(content)

    def is_folder(self):
        return isinstance(self.content, dict)


    def spelled(self, name):
        """The same under another number, one for each name."""
        if name not in self.others:
            self.others[name] = Node(b"")
            self.others[name].content = self.content
        return self.others[name]


def brief(name):
    """VSCODE~1 of .vscode."""
    base, _, end = name.lstrip(".").partition(".")
    return None if name[0] != "." and len(base) < 9 and len(end) < 4 else f"{base[:6]}~1{end and '.' + end[:3]}".upper()


def find(folder, name, apart, short):
    if short:
        return folder.content.get(name) or next((n.spelled(name) for k, n in folder.content.items() if brief(k) == name), None)
    known = next(((k, n) for k, n in folder.content.items() if k.lower() == name.lower()), None)
    return known and (known[1] if known[0] == name or not apart else known[1].spelled(name))


def attr(node, uid):
    folder = node.is_folder()
    mode = node.mode or (stat.S_IFDIR | 0o777 if folder else stat.S_IFREG | 0o666)
    return struct.pack("<6Q10I", node.number, 0 if folder else len(node.content), 1, 0, 0, 0, 0, 0, 0, mode, 2 if folder else 1, uid, uid, 0, 4096, 0)


def entries(node, offset, size):
    out = b""
    for i, (name, child) in enumerate(node.content.items()):
        if i < offset:
            continue
        data = name.encode()
        kind = 4 if child.is_folder() else 8
        one = struct.pack("<QQII", child.number, i + 1, len(data), kind) + data
        one += bytes(-len(one) % 8)
        if len(out) + len(one) > size:
            break
        out += one
    return out


def answer(op, node, data, uid, *ways):
    """The bytes behind the head, an errno, or None where nothing is answered."""
    if op == INIT:
        return struct.pack("<IIIIHHIIHHI", 7, 31, 65536, 0, 8, 8, 65536, 1, 0, 0, 0) + bytes(28)
    if op in (FORGET, BATCH_FORGET):
        return None
    if op == LOOKUP:
        child = find(node, data.rstrip(b"\0").decode(), *ways)
        return struct.pack("<QQQQII", child.number, 0, 1, 0, 0, 0) + attr(child, uid) if child else errno.ENOENT
    if op == MKNOD:
        name = data[16:].rstrip(b"\0").decode()
        if find(node, name, *ways):
            return errno.EEXIST
        mode, = struct.unpack_from("<I", data)
        node.content[name] = Node(b"", mode | (0o666 if stat.S_ISREG(mode) else 0))
        return answer(LOOKUP, node, data[16:], uid, *ways)
    if op == UNLINK:
        there = find(node, data.rstrip(b"\0").decode(), *ways)
        gone = [k for k, n in node.content.items() if there in (n, *n.others.values())]
        return node.content.pop(gone[0]) and b"" if gone else errno.ENOENT
    if op == GETATTR:
        return struct.pack("<QII", 0, 0, 0) + attr(node, uid)
    if op in (OPEN, OPENDIR):
        return struct.pack("<QII", 0, 0, 0)
    if op in (READ, READDIR):
        _, offset, size = struct.unpack_from("<QQI", data)
        return entries(node, offset, size) if op == READDIR else bytes(node.content[offset:offset + size])
    if op == WRITE:
        _, offset, size = struct.unpack_from("<QQI", data)
        node.content[offset:offset + size] = data[40:40 + size]
        return struct.pack("<II", size, 0)
    if op == STATFS:
        return struct.pack("<5Q4I", 1000, 500, 500, 1000, 500, 4096, 255, 4096, 0) + bytes(24)
    return b"" if op in (RELEASE, RELEASEDIR, FLUSH, ACCESS) else errno.ENOSYS


def serve(fd, uid, *ways):
    while True:
        try:
            data = os.read(fd, 1 << 17)
        except OSError as e:
            if e.errno == errno.ENODEV:  # unmounted
                return
            if e.errno in (errno.ENOENT, errno.EINTR):
                continue
            raise
        _, op, unique, number = struct.unpack_from("<IIQQ", data)
        said = answer(op, Node.all[number] if 0 < number < len(Node.all) else None, data[40:], uid, *ways)
        if said is None:
            continue
        body = b"" if isinstance(said, int) else said
        os.write(fd, struct.pack("<IiQ", 16 + len(body), -said if isinstance(said, int) else 0, unique) + body)


def main(folder, uid, *ways):
    Node({"p": {".git": {"HEAD": b"ref: refs/heads/main\n", "config": CONFIG, "objects": {}, "refs": {"heads": {}}}, "file": b"mine\n"}, "plain": {"file": b"mine\n"}, "empty": {},
          "brief": {".vscode": b"mine\n"}})
    fd = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions".encode()
    if libc.mount(b"letters", os.fsencode(folder), b"fuse.letters", 0, options) < 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    print("ready", flush=True)
    serve(fd, uid, *ways)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *(word in sys.argv[3:] for word in ("apart", "short")))
