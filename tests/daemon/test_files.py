#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Files of a live sandbox: copied in and out, listed, watched; and guests that plant, swap, stop and kill."""

import base64
import contextlib
import http.client
import io
import os
import pathlib
import shutil
import socket
import sys
import tarfile
import threading
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import daemon, daemon_with_tokens  # noqa: E402
from harness import PATIENCE, brig, descendants, files_as_root, main, runtime, scratch, state, test, wait_until, workspace  # noqa: E402

WAIT = 10 * PATIENCE
BYTES = {"Content-Type": "application/octet-stream"}
TAR = {"Content-Type": "application/x-tar"}
MIB = 1 << 20


class Box:
    """A sandbox over the workspace, and its files."""

    def __init__(self, d, **more):
        self.d = d
        self.id = d.create(spec={"workspace": {"path": str(workspace())}, **more})["id"]

    def target(self, route, path, **query):
        words = {"path": path, **query}
        return f"/v1/sandboxes/{self.id}/{route}?" + urllib.parse.urlencode(words, quote_via=urllib.parse.quote)

    def read(self, path):
        return self.d.call("GET", self.target("files", path))

    def write(self, path, data, **query):
        return self.d.call("PUT", self.target("files", path, **query), data, BYTES)

    def remove(self, path, **query):
        return self.d.call("DELETE", self.target("files", path, **query))

    def stat(self, path):
        return self.d.call("GET", self.target("files/stat", path))

    def list(self, path="."):
        return self.d.call("GET", self.target("files/list", path))

    def post(self, verb, **body):
        return self.d.call("POST", f"/v1/sandboxes/{self.id}/files/{verb}", body)

    def pack(self, path="."):
        return self.d.call("GET", self.target("archive", path))

    def unpack(self, data, path="."):
        return self.d.call("PUT", self.target("archive", path), data, TAR)

    def sh(self, line, **more):
        got = self.d.exec(self.id, "sh", "-c", line, **more)
        assert got["exit_code"] == 0, got
        return got["stdout"]

    def start(self, line):
        a = self.d.call("POST", f"/v1/sandboxes/{self.id}/exec", {"command": line, "detach": True})
        assert a.status in (200, 201, 202), a


@contextlib.contextmanager
def box(**more):
    with daemon() as d:
        yield Box(d, **more)


def left_over():
    """Files that were begun and never named."""
    return [p for p in workspace().rglob(".brig-*")]


def archive(*members):
    """A tar of (name, data, changes) or of ready TarInfo objects."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for m in members:
            if isinstance(m, tarfile.TarInfo):
                t.addfile(m)
                continue
            name, data, *rest = m
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in (rest[0] if rest else {}).items():
                setattr(info, key, value)
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def members(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as t:
        return {m.name: t.extractfile(m).read() if m.isfile() else m.type for m in t}


# ---- use ----

@test
def a_file_goes_in_and_comes_out():
    with box() as b:
        data = os.urandom(3 * MIB + 17)
        a = b.write("a/../b", data)
        assert a.status == 400, a
        assert b.write("f", data).status == 204
        assert (workspace() / "f").read_bytes() == data
        got = b.read("f")
        assert got.status == 200 and got.body == data and got.headers["Content-Type"] == "application/octet-stream"
        assert got.headers["Content-Length"] == str(len(data))
        assert b.write("f", b"").status == 204 and b.read("f").body == b""
        assert b.write("/tmp/inside", b"x" * 100).status == 204
        assert b.sh("wc -c < /tmp/inside").strip() == "100" and b.read("/tmp/inside").body == b"x" * 100
        assert b.write(f"{workspace()}/own", b"path").status == 204 and (workspace() / "own").read_bytes() == b"path"
        assert b.write("/workspace/link", b"brig's own").status == 204 and (workspace() / "link").read_bytes() == b"brig's own"
        assert b.read("none").code == "not-found" and b.read(".").code == "conflict"
        assert b.write("no/such/folder", b"x").code == "not-found"
        assert b.write("/usr/x", b"x").code == "forbidden"
        assert not left_over()


@test
def modes_are_kept_and_have_no_set_id():
    with box() as b:
        (workspace() / "tool").write_bytes(b"#!/bin/sh\n")
        (workspace() / "tool").chmod(0o755)
        b.sh("chown $(id -u) tool 2> /dev/null; true")
        assert b.write("tool", b"#!/bin/sh\necho new\n").status == 204
        assert (workspace() / "tool").stat().st_mode & 0o7777 == 0o755
        assert b.write("new", b"x").status == 204 and (workspace() / "new").stat().st_mode & 0o7777 == 0o644
        assert b.write("secret", b"x", mode="600").status == 204 and (workspace() / "secret").stat().st_mode & 0o7777 == 0o600
        for mode in ("4755", "-1", "9", "", "x"):
            assert b.write("new", b"x", mode=mode).code == "invalid", mode


@test
def folders_are_made_listed_moved_and_removed():
    with box() as b:
        assert b.post("mkdir", path="d").status == 204 and b.post("mkdir", path="d").code == "conflict"
        assert b.post("mkdir", path="p/q/r").code == "not-found"
        assert b.post("mkdir", path="p/q/r", parents=True).status == 204
        assert b.post("mkdir", path="p/q/r", parents=True).status == 204 and (workspace() / "p/q/r").is_dir()
        for name in ("z", "a", "m"):
            assert b.write(f"d/{name}", name.encode() * 10).status == 204
        got = b.list("d").json
        assert [f["name"] for f in got["files"]] == ["a", "m", "z"] and not got["truncated"]
        assert got["files"][0]["type"] == "file" and got["files"][0]["size"] == 10 and got["files"][0]["mode"] == "644"
        st = b.stat("d").json
        assert st["type"] == "folder" and st["name"] == "d" and st["modified"].startswith("20")
        assert b.stat("d/none").code == "not-found" and b.list("d/a").status >= 400
        assert b.post("move", **{"from": "d/a", "to": "p/b"}).status == 204 and (workspace() / "p/b").read_bytes() == b"a" * 10
        assert b.post("move", **{"from": "d/m", "to": "d/z"}).code == "conflict"
        assert b.post("move", **{"from": "d/m", "to": "d/z", "replace": True}).status == 204
        assert b.read("d/z").body == b"m" * 10
        assert b.remove("p").code == "conflict" and b.remove("p/b").status == 204
        assert b.remove("p", recursive="true").status == 204 and not (workspace() / "p").exists()
        assert b.remove("p").code == "not-found" and b.remove("/").code == "invalid" and b.remove(".").code == "invalid"
        assert b.d.call("POST", f"/v1/sandboxes/{b.id}/files/mkdir", {"path": "x", "mode": "7"}).code == "invalid"


@test
def archives_go_in_and_come_out():
    with box() as b:
        deep = "/".join(["long-name-of-a-folder"] * 12)
        data = {"one": b"1", f"{deep}/two": os.urandom(70000), "empty": b""}
        assert b.unpack(archive(*data.items())).status == 204
        for name, value in data.items():
            assert (workspace() / name).read_bytes() == value
        os.symlink("one", workspace() / "to-one")
        os.mkfifo(workspace() / "pipe")
        got = b.pack()
        assert got.status == 200 and got.headers["Content-Type"] == "application/x-tar", got
        have = members(got.body)
        assert {n: v for n, v in have.items() if v != tarfile.DIRTYPE} == data, have.keys()
        assert members(b.pack("one").body) == {"one": b"1"}
        assert b.pack("none").code == "not-found" and b.unpack(archive(("x", b"")), "none").code == "not-found"
        with tarfile.open(fileobj=(out := io.BytesIO()), mode="w", format=tarfile.GNU_FORMAT) as t:
            info = tarfile.TarInfo("n" * 150)
            info.size = 2
            t.addfile(info, io.BytesIO(b"ok"))
        assert b.unpack(out.getvalue()).status == 204 and (workspace() / ("n" * 150)).read_bytes() == b"ok"


@test
def what_changes_is_told():
    with box() as b:
        events = b.d.stream("GET", b.target("files/watch", "."))
        assert events.status == 200
        seen = iter(events)
        assert next(seen)[0] == "watching"
        b.sh("for i in 1 2 3 4 5 6 7 8; do echo $i >> made; done")
        kind, change, _ = next(seen)
        assert kind == "change" and change["name"] == "made" and "created" in change["changes"], change
        b.sh("rm made")
        while change["name"] != "made" or "removed" not in change["changes"]:
            kind, change, _ = next(seen)
        events.close()
        assert b.d.call("GET", b.target("files/watch", "none")).code == "not-found"


@test
def a_paused_sandbox_has_no_files_and_a_stopped_one_none_either():
    with box() as b:
        (workspace() / "f").write_bytes(b"x")
        assert b.d.call("POST", f"/v1/sandboxes/{b.id}/pause").status == 200
        calls = (lambda: b.read("f"), lambda: b.write("f", b"y"), lambda: b.list(), lambda: b.stat("f"), lambda: b.remove("f"),
                 lambda: b.post("mkdir", path="d"), lambda: b.post("move", **{"from": "f", "to": "g"}), lambda: b.pack(),
                 lambda: b.unpack(archive(("x", b""))), lambda: b.d.call("GET", b.target("files/watch", ".")))
        for call in calls:
            a = call()
            assert a.status == 409 and a.code == "sandbox-paused", a
        assert b.d.call("POST", f"/v1/sandboxes/{b.id}/resume").status == 200 and b.read("f").body == b"x"
        assert b.d.call("POST", f"/v1/sandboxes/{b.id}/stop").status == 200
        for call in calls:
            assert call().code == "sandbox-not-ready"


# ---- uploads that end early ----

def half_an_upload(b, path, whole=MIB, sent=MIB // 2):
    """A connection on which half of a file was sent; the helper has begun."""
    s = b.d.dial()
    head = f"PUT {b.target('files', path)} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
    s.sendall(head.encode() + f"Content-Length: {whole}\r\n\r\n".encode() + b"x" * sent)
    assert wait_until(left_over, WAIT), "nothing was begun"
    return s


@test
def an_upload_that_ends_early_leaves_nothing():
    with box() as b:
        (workspace() / "f").write_bytes(b"old")
        half_an_upload(b, "f").close()
        assert wait_until(lambda: not left_over(), WAIT), left_over()
        assert (workspace() / "f").read_bytes() == b"old"
        half_an_upload(b, "new").close()
        assert wait_until(lambda: not left_over(), WAIT) and not (workspace() / "new").exists()
        with half_an_upload(b, "f") as s:  # the same, to its end
            s.sendall(b"y" * (MIB // 2))
            assert s.recv(100).startswith(b"HTTP/1.1 204")
        assert (workspace() / "f").read_bytes() == b"x" * (MIB // 2) + b"y" * (MIB // 2)


@test
def a_body_in_chunks_is_taken_and_a_malformed_one_is_not():
    with box() as b:
        def sent(*pieces):
            head = f"PUT {b.target('files', 'f')} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
            return b.d.raw(head.encode() + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + b"".join(pieces), end=False)
        big = os.urandom(300000)
        chunks = [f"{len(big[i:i + 7001]):x}\r\n".encode() + big[i:i + 7001] + b"\r\n" for i in range(0, len(big), 7001)]
        assert b" 204 " in sent(*chunks, b"0\r\n\r\n") and (workspace() / "f").read_bytes() == big
        assert b" 400 " in sent(b"5\r\nhello\r\n", b"zz\r\n") and (workspace() / "f").read_bytes() == big
        assert wait_until(lambda: not left_over(), WAIT)


@test
def what_stands_behind_an_upload_is_the_next_call():
    with box() as b:
        b.sh("mkdir d")
        tar = archive(("t", b"x"))
        bodies = {"one byte": ("files", "f", BYTES, b"Content-Length: 1\r\n\r\nx"), "none": ("files", "f", BYTES, b"Content-Length: 0\r\n\r\n"),
                  "no length": ("files", "f", BYTES, b"\r\n"), "chunks": ("files", "f", BYTES, b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"),
                  "an archive": ("archive", "d", TAR, b"Content-Length: %d\r\n\r\n" % len(tar) + tar)}
        for name, (route, path, headers, rest) in bodies.items():
            head = f"PUT {b.target(route, path)} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {headers['Content-Type']}\r\n"
            for behind in (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"!"):
                with b.d.dial() as s:
                    s.sendall(head.encode() + rest + behind)
                    got = s.recv(65536)
                    while behind != b"!" and (piece := s.recv(65536)):
                        got += piece
                assert got.startswith(b"HTTP/1.1 204") and (got.endswith(b"ok\n") or behind == b"!"), (name, behind, got)
        assert (workspace() / "d/t").read_bytes() == b"x" and b.d.call("GET", "/healthz").status == 200


@test
def urgent_bytes_end_an_upload_and_not_the_daemon():
    with daemon_with_tokens(a="run") as d:
        target = f"/v1/sandboxes/{d.create(token=d.tokens['a'])['id']}/files?path=/tmp/f"
        head = f"PUT {target} HTTP/1.1\r\nHost: 127.0.0.1:{d.port}\r\nAuthorization: Bearer {d.tokens['a']}\r\n"
        head += "Content-Type: application/octet-stream\r\nContent-Length: 1000\r\n\r\n"
        for urgent in (False, True):
            with d.dial_tcp() as s:
                s.sendall(head.encode() + b"x" * 10)
                if urgent:
                    s.send(b"!", socket.MSG_OOB)
                with contextlib.suppress(ConnectionError):
                    s.sendall(b"x" * 990)
                got = b""
                with contextlib.suppress(ConnectionResetError):
                    got = s.recv(4096)  # which ends long before anybody loses patience
            assert got.startswith(b"HTTP/1.1 204") if not urgent else got == b"", (urgent, got)
            assert d.call("GET", target, token=d.tokens["a"]).body == b"x" * 1000


@test
def a_token_that_is_taken_back_ends_its_uploads():
    with daemon_with_tokens(a="run", b="run") as d:
        def begin(name):
            target = f"/v1/sandboxes/{d.create(token=d.tokens[name])['id']}/files?path=/tmp/f"
            s = d.dial_tcp()
            s.sendall((f"PUT {target} HTTP/1.1\r\nHost: 127.0.0.1:{d.port}\r\nAuthorization: Bearer {d.tokens[name]}\r\n"
                       "Content-Type: application/octet-stream\r\nContent-Length: 20\r\n\r\n").encode() + b"x" * 10)
            return target, s
        (lost, of_a), (kept, of_b) = begin("a"), begin("b")
        with of_a, of_b:
            with files_as_root():
                lines = d.token_file.read_text().splitlines(True)
                d.token_file.write_text("".join(line for line in lines if not line.startswith("a ")))
            assert of_a.recv(4096) == b""
            of_b.sendall(b"x" * 10)
            assert of_b.recv(4096).startswith(b"HTTP/1.1 204")
        assert d.call("GET", lost).status == 404 and d.call("GET", kept).body == b"x" * 20


@test
def nothing_is_held_and_what_is_too_large_is_refused():
    with box() as b:
        def resident():
            return int(pathlib.Path(f"/proc/{b.d.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        before, data = resident(), os.urandom(MIB) * 64
        assert b.write("f", data).status == 204 and b.read("f").body == data
        assert resident() < before + 8 * MIB, (before, resident())
        a = b.d.raw(f"PUT {b.target('files', 'g')} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
                    f"Content-Length: {1 << 40}\r\n\r\n".encode(), end=False)
        assert b" 413 " in a, a
        assert b.d.call("PUT", b.target("files", "g"), b"{}", {"Content-Type": "application/json"}).status == 415


# ---- what a guest plants ----

@test
def no_link_is_followed_wherever_it_stands():
    with box() as b:
        b.sh("mkdir real real/d other; echo real > real/d/f; echo other > other/f; ln -s ../other real/l; ln -s real way; ln -s other/f ln")
        before = sorted(p.name for p in (workspace() / "other").iterdir())
        assert b.sh("cat real/l/f; echo x > real/l/x; ls other; rm other/x").split() == ["other", "f", "x"]  # the guest's own shell follows them
        for path in ("real/l/f", "way/d/f", "ln"):
            assert b.read(path).code == "conflict", path
            assert b.write(path, b"overwritten").code == "conflict", path
        for path in ("real/l", "way", "way/d", "real/l/."):
            assert b.list(path).code == "conflict", path
            assert b.pack(path).code == "conflict" and b.unpack(archive(("x", b"x")), path).code == "conflict", path
            assert b.d.call("GET", b.target("files/watch", path)).code == "conflict", path
        assert b.stat("real/l/f").code == "conflict" and b.stat("ln").code == "conflict"
        for parents in (False, True):
            assert b.post("mkdir", path="real/l/made", parents=parents).code == "conflict"
        assert b.post("move", **{"from": "real/l/f", "to": "moved"}).code == "conflict"
        assert b.post("move", **{"from": "real/d/f", "to": "real/l/moved"}).code == "conflict"
        assert b.remove("real/l/f").code == "conflict" and b.remove("way/d", recursive="true").code == "conflict"
        assert b.remove("real", recursive="true").status == 204  # the link in it goes, what it leads to stays
        assert sorted(p.name for p in (workspace() / "other").iterdir()) == before and b.read("other/f").body == b"other\n"


@test
def what_is_swapped_meanwhile_leads_nowhere_else():
    with box() as b:
        b.sh("mkdir real other; echo real > real/x; echo other > other/x; ln -s other link; cp -r real d")
        (workspace() / "swap.py").write_text("import os\nwhile True:\n    os.rename('d', 'd1'); os.rename('link', 'd'); os.rename('d', 'link'); os.rename('d1', 'd')\n")
        (workspace() / "control.py").write_text("import os\nseen = set()\nfor i in range(200000):\n    try:\n        seen.add(open('d/x').read())\n"
                                                "    except OSError:\n        pass\n    if 'other\\n' in seen:\n        break\nprint(seen)\n")
        b.start("python3 swap.py")
        assert "other" in b.sh("python3 control.py"), "the control saw no swap"
        seen = set()
        for i in range(150):
            a = b.read("d/x")
            seen.add(a.body if a.status == 200 else a.code)
            a = b.write(f"d/w{i}", b"w")
            seen.add(a.status if a.status == 204 else a.code)
        assert seen <= {b"real\n", 204, "conflict", "not-found"} and b"real\n" in seen, seen
        assert b.unpack(archive(*[(f"d/t{i}", b"t") for i in range(50)])).status in (204, 409, 404)
        assert os.listdir(workspace() / "other") == ["x"], os.listdir(workspace() / "other")


@test
def what_is_no_file_is_refused_at_once():
    with box() as b:
        b.sh("mkfifo pipe; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\"")
        for path in ("pipe", "sock", "/dev/null", "/dev/zero", "/proc/1/status", "/proc/self/mem", "/dev/tty", "/proc/meminfo"):
            for a in (b.read(path), b.write(path, b"x"), b.pack(path)):
                assert a.status in (403, 404, 409), (path, a)
        assert b.stat("pipe").json["type"] == "other" and "pipe" not in members(b.pack().body)
        assert b.sh("test -p pipe && test -S sock && echo still").strip() == "still"


@test
def a_huge_file_of_nothing_is_not_read():
    with box() as b:
        (workspace() / "huge").write_bytes(b"")
        os.truncate(workspace() / "huge", 1 << 40)
        assert b.stat("huge").json["size"] == 1 << 40
        assert b.read("huge").code == "too-large"
        a = b.d.raw(f"GET {b.target('archive', '.')} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(), end=False)
        assert b" 200 " in a and not a.endswith(b"0\r\n\r\n"), a[-20:]  # it is cut off, and no whole archive
        (workspace() / "huge").unlink()


NAMES = [b"new\nline", b"\x1b[31mred", b"\xff\xfe not utf-8", b"a b&c=d%2e#?+", b"quote\"'", b"-rf", "\u202ebidi".encode(), b"n" * 255]


@test
def names_of_all_sorts_are_named_and_found():
    with box() as b:
        b.post("mkdir", path="d")
        for name in NAMES:
            target = f"/v1/sandboxes/{b.id}/files?path=" + urllib.parse.quote(b"d/" + name)
            assert b.d.call("PUT", target, name, BYTES).status == 204, name
            assert b.d.call("GET", target).body == name
        got = {f.get("name_base64") or f["name"] for f in b.list("d").json["files"]}
        want = {base64.b64encode(n).decode() if n.startswith(b"\xff") else n.decode() for n in NAMES}
        assert got == want, got ^ want
        assert sorted(os.fsencode(p.name) for p in (workspace() / "d").iterdir()) == sorted(NAMES)
        shown = brig("sandbox", "files", "list", f"{b.id}:d", env={"BRIG_HOST": f"unix://{b.d.path}"})
        assert shown.status == 0 and "\x1b" not in shown.text and "\u202e" not in shown.text and len(shown.text.splitlines()) == len(NAMES), shown.text


# ---- archives that want more ----

def special(name, kind, **more):
    info = tarfile.TarInfo(name)
    info.type = kind
    for key, value in more.items():
        setattr(info, key, value)
    return info


def evil(out):
    """Archives, each of which would leave its folder or make what it must not; `out` is a folder beside."""
    return {
        "up": archive(("../evil", b"x")),
        "up inside": archive(("a/../../evil", b"x")),
        "absolute": archive((f"{out}/evil", b"x")),
        "link then through it": archive(special("l", tarfile.SYMTYPE, linkname=str(out)), ("l/evil", b"x")),
        "hard link": archive(special("evil", tarfile.LNKTYPE, linkname=f"{out}/secret")),
        "hard link up": archive(special("evil", tarfile.LNKTYPE, linkname="../secret")),
        "device": archive(special("evil", tarfile.CHRTYPE, devmajor=1, devminor=3)),
        "block device": archive(special("evil", tarfile.BLKTYPE, devmajor=7, devminor=0)),
        "pipe": archive(special("evil", tarfile.FIFOTYPE)),
        "pax up": pax_archive("../evil"),
        "a file as a folder": archive(("f", b"x"), ("f/evil", b"x")),
        "empty name": archive(("", b"x")),
        "bomb": bomb(),
    }


def pax_archive(name):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        info = tarfile.TarInfo("innocent")
        info.pax_headers = {"path": name}
        info.size = 1
        t.addfile(info, io.BytesIO(b"x"))
    return out.getvalue()


def bomb():
    info = tarfile.TarInfo("evil")
    info.size = 1 << 50
    return info.tobuf(tarfile.GNU_FORMAT)


@test
def an_archive_stays_below_its_folder():
    with box() as b:
        out = workspace() / "out"
        for name, data in evil(out).items():
            b.sh("rm -rf in out; mkdir in out; echo secret > out/secret")
            a = b.unpack(data, "in")
            assert a.status in (400, 409, 413), (name, a)
            assert os.listdir(out) == ["secret"] and not (workspace() / "evil").exists(), name
            assert not any(p.name == "evil" for p in (workspace() / "in").rglob("*")), name
        b.sh("rm -rf in; mkdir in")
        assert b.unpack(archive(("s", b"x", {"mode": 0o6755}), ("twice", b"1"), ("twice", b"2")), "in").status == 204
        assert (workspace() / "in/s").stat().st_mode & 0o7777 == 0o755 and (workspace() / "in/twice").read_bytes() == b"2"
        for data in (b"", b"no archive at all" * 100, archive(("x", b"y" * 2000))[:1500]):
            assert b.unpack(data, "in").code == "invalid", data[:20]
        assert wait_until(lambda: not left_over(), WAIT)


class Impostor:
    """Answers as a daemon whose sandbox says what it likes."""

    def __init__(self, path, data):
        self.path, self.data = path, data
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        os.chmod(path, 0o666)
        self.listener.listen(8)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError):
                self.speak(s)
            s.close()

    def speak(self, s):
        for _ in range(2):
            got = b""
            while b"\r\n\r\n" not in got:
                piece = s.recv(65536)
                if not piece:
                    return
                got += piece
            if b"/files/stat" in got:
                body = b'{"name":"d","type":"folder","size":0,"mode":"755","modified":"x"}'
                s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            else:
                s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(self.data) + self.data + b"\r\n0\r\n\r\n")

    def close(self):
        self.listener.close()
        os.unlink(self.path)


@contextlib.contextmanager
def impostor(data):
    with files_as_root():
        i = Impostor(scratch() / "i.sock", data)
    try:
        yield i
    finally:
        with contextlib.suppress(OSError):
            i.listener.shutdown(socket.SHUT_RDWR)
        with files_as_root():
            i.close()


@test(limit=180)
def what_comes_out_is_unpacked_below_its_folder_and_nowhere_else():
    place = workspace()
    out = place / "out"
    out.mkdir()
    (out / "secret").write_text("secret")
    escaped = set()
    for name, data in evil(out).items():
        with impostor(data) as i:
            (place / "in").mkdir()
            a = brig("sandbox", "cp", "x:d", "in/got", env={"BRIG_HOST": f"unix://{i.path}"}, cwd=place)
            assert a.status == 125 and a.errors.startswith("brig: "), (name, a.errors)
            assert os.listdir(out) == ["secret"] and (out / "secret").stat().st_nlink == 1, name
            assert not any(p.name == "evil" for p in place.rglob("*")), name
            assert not any(p.is_symlink() for p in place.rglob("*")), name
        # The control: a program that trusts its archive leaves the folder.
        (place / "in/control").mkdir()
        with contextlib.suppress(Exception), tarfile.open(fileobj=io.BytesIO(data)) as t:
            t.extractall(place / "in/control", filter="fully_trusted") if hasattr(tarfile, "data_filter") else t.extractall(place / "in/control")
        if os.listdir(out) != ["secret"] or (place / "in/evil").exists() or (out / "secret").stat().st_nlink > 1:
            escaped.add(name)
        for left in (out / "evil", place / "in/evil"):
            left.unlink(missing_ok=True)
        shutil.rmtree(place / "in")
    assert {"up", "link then through it", "hard link"} <= escaped, escaped
    with impostor(archive(("a/b", b"fine", {"mode": 0o4755}))) as i:
        a = brig("sandbox", "cp", "x:d", "got", env={"BRIG_HOST": f"unix://{i.path}"}, cwd=place)
        assert a.status == 0 and (place / "got/a/b").read_bytes() == b"fine" and (place / "got/a/b").stat().st_mode & 0o7000 == 0, a.errors
    with impostor(archive(("a", b"x" * 5000))) as i:
        a = brig("sandbox", "cp", "--limit", "4k", "x:d", "small", env={"BRIG_HOST": f"unix://{i.path}"}, cwd=place)
        assert a.status == 125 and "--limit" in a.errors and not (place / "small/a").exists(), a.errors


# ---- a guest that fights ----

# It is not seen inside; but numbers can be guessed.
STRIKE = """
import os, signal, sys
spare = {1, os.getpid(), os.getppid()}
while os.path.exists(sys.argv[1]):
    for pid in set(range(2, 3000)) - spare:
        for word in sys.argv[2:]:
            try:
                os.kill(pid, getattr(signal, word))
            except OSError:
                pass
"""


@contextlib.contextmanager
def struck(b, *signals):
    """Meanwhile every process inside but those who do it is sent these."""
    flag = workspace() / ("strike-" + "-".join(signals))
    (workspace() / "strike.py").write_text(STRIKE)
    flag.touch()
    b.start(f"python3 strike.py {flag.name} {' '.join(signals)}")
    try:
        yield
    finally:
        flag.unlink()


@test
def a_helper_that_is_killed_is_an_error_and_not_a_hang():
    with box() as b:
        (workspace() / "f").write_bytes(b"old")
        with half_an_upload(b, "f") as s, struck(b, "SIGKILL"):
            assert s.recv(4096).startswith(b"HTTP/1.1 409")
        assert (workspace() / "f").read_bytes() == b"old"
        for left in left_over():  # it could not do so itself
            left.unlink()
        b = Box(b.d)  # where nobody kills
        with half_an_upload(b, "f") as s, struck(b, "SIGSTOP", "SIGCONT", "SIGTERM", "SIGPIPE", "SIGALRM", "SIGUSR1"):
            s.sendall(b"y" * (MIB // 2))
            assert s.recv(100).startswith(b"HTTP/1.1 204")
        assert b.d.exec(b.id, "true")["exit_code"] == 0


@test
def a_helper_cannot_be_looked_into():
    with box() as b:
        look = """
import os, sys
own = {os.getpid(), os.getppid()} if sys.argv[1:] else set()
for pid in set(range(2, 3000)) - own:
    for name in ("mem", "environ", "maps", "fd/3", "cwd/.", "exe"):
        try:
            os.close(os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_NONBLOCK))
            print(pid, name)
        except OSError:
            pass
"""
        (workspace() / "look.py").write_text(look)
        with half_an_upload(b, "f"):
            assert b.sh("python3 look.py others") == ""
            assert "mem" in b.sh("python3 look.py")  # itself, by the same look
        assert wait_until(lambda: not left_over(), WAIT)


@test
def killers_do_not_keep_anybody_from_an_answer():
    with box() as b:
        (workspace() / "f").write_bytes(b"x" * 100000)
        with struck(b, "SIGKILL"):
            for _ in range(40):
                try:
                    a = b.read("f")
                except (http.client.HTTPException, ConnectionError):
                    continue  # cut off in the middle, which says so
                assert (a.status == 200 and a.body == b"x" * 100000) or a.code in ("conflict", "quota"), a
        assert wait_until(lambda: b.read("f").status == 200, WAIT)


def helpers():
    """The states of those that work in this workspace, as the host sees them."""
    found = []
    for p in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError), files_as_root():
            if (p / "comm").read_text() == "brig-files\n" and os.readlink(p / "cwd") == str(workspace()):
                found.append((p / "stat").read_text().rsplit(")", 1)[1].split()[0])
    return found


@test
def a_helper_that_is_stopped_does_not_outlive_its_caller_for_long():
    with box() as b:
        (workspace() / "big").write_bytes(b"x" * (4 * MIB))
        plain = b.d.stream("GET", b.target("files/watch", "."))
        assert helpers() == ["S"]
        plain.close()
        assert wait_until(lambda: not helpers(), WAIT)  # by itself
        s = b.d.dial()
        s.sendall(f"GET {b.target('files', 'big')} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        stream = b.d.stream("GET", b.target("files/watch", "."))
        assert wait_until(lambda: len(helpers()) == 2, WAIT), helpers()
        with struck(b, "SIGSTOP"):
            assert wait_until(lambda: helpers() == ["T", "T"], WAIT), helpers()
        s.close()
        stream.close()
        assert helpers() == ["T", "T"]  # it cannot know
        assert wait_until(lambda: not helpers(), WAIT), helpers()
        assert b.read("big").status == 200


@test
def a_sandbox_ends_whatever_is_copied():
    with box() as b:
        with half_an_upload(b, "f") as s, struck(b, "SIGSTOP"):
            assert b.d.call("DELETE", f"/v1/sandboxes/{b.id}").status in (202, 204)
            assert s.recv(4096).startswith(b"HTTP/1.1 409")
        for left in left_over():
            left.unlink()


@test
def watches_and_operations_have_a_bound():
    with box() as b:
        streams = [b.d.stream("GET", b.target("files/watch", ".")) for _ in range(64)]
        assert {s.status for s in streams} == {200}
        assert b.d.call("GET", b.target("files/watch", ".")).code == "quota"
        assert b.write("f", b"x").status == 204
        for s in streams:
            s.close()

        def free():
            again = b.d.stream("GET", b.target("files/watch", "."))
            again.close()
            return again.status == 200
        assert wait_until(free, WAIT)


# ---- tenants ----

@test
def another_tenants_files_are_no_different_from_none():
    with daemon_with_tokens(a="run", b="run", r="read") as d:
        box_of_a = d.create(token=d.tokens["a"])["id"]
        assert d.call("PUT", f"/v1/sandboxes/{box_of_a}/files?path=/tmp/f", b"x", BYTES, token=d.tokens["a"]).status == 204
        routes = [("GET", "files?path=/tmp/f", None, {}), ("PUT", "files?path=/tmp/f", b"y", BYTES), ("DELETE", "files?path=/tmp/f", None, {}),
                  ("GET", "files/list?path=/tmp", None, {}), ("GET", "files/stat?path=/tmp", None, {}), ("GET", "files/watch?path=/tmp", None, {}),
                  ("POST", "files/mkdir", {"path": "/tmp/d"}, {}), ("POST", "files/move", {"from": "/tmp/f", "to": "/tmp/g"}, {}),
                  ("GET", "archive?path=/tmp", None, {}), ("PUT", "archive?path=/tmp", archive(("x", b"x")), TAR)]
        none = "sb_" + "a" * 26
        for method, route, body, headers in routes:
            theirs = d.call(method, f"/v1/sandboxes/{box_of_a}/{route}", body, headers, token=d.tokens["b"])
            nobodys = d.call(method, f"/v1/sandboxes/{none}/{route}", body, headers, token=d.tokens["b"])
            assert theirs.status == nobodys.status == 404, (route, theirs, nobodys)
            assert theirs.body == nobodys.body.replace(none.encode(), box_of_a.encode()), (theirs, nobodys)
            reader = d.call(method, f"/v1/sandboxes/{box_of_a}/{route}", body, headers, token=d.tokens["r"])
            assert reader.status == 403 and reader.code == "forbidden", (route, reader)
        assert d.call("GET", f"/v1/sandboxes/{box_of_a}/files?path=/tmp/f", token=d.tokens["a"]).body == b"x"


# ---- the command line ----

@test
def settings_that_were_copied_out_are_not_the_users_own():
    """As a file and in a folder; the control is the same text by the user's own hand."""
    text = "brig: 1\nenv: {set: {A: loose}}\nwrite: [%s]\n"
    place = scratch() / "host"
    with files_as_root():
        (place / "w").mkdir(parents=True)
        for folder in (place, place / "w"):
            os.chown(folder, workspace().stat().st_uid, workspace().stat().st_gid)
    text %= place / "w"
    with box() as b:
        b.sh(f"mkdir /tmp/d; printf '%s' '{text}' | tee /tmp/one.yaml > /tmp/d/two.yaml")
        for what in ("one.yaml", "d"):
            assert brig("sandbox", "cp", f"{b.id}:/tmp/{what}", ".", env={"BRIG_HOST": f"unix://{b.d.path}"}, cwd=place).status == 0
        # Where that cannot be noted nothing gets its name: a disk that the command has filled, say.
        notes, second = state() / "brig/exposed", runtime() / "brig/exposed"
        notes.rename(notes.with_name("aside"))
        second.parent.mkdir(mode=0o700, exist_ok=True)
        notes.touch()
        second.touch()
        for what in ("one.yaml", "d"):
            done = brig("sandbox", "cp", f"{b.id}:/tmp/{what}", "new", env={"BRIG_HOST": f"unix://{b.d.path}"}, cwd=place)
            assert done.status == 125 and "cannot note" in done.errors and [p for p in place.rglob("*") if p.is_file()] == [place / "one.yaml", place / "d/two.yaml"], (what, done.errors)
            shutil.rmtree(place / "new", ignore_errors=True)
        notes.unlink()
        second.unlink()
        notes.with_name("aside").rename(notes)
    (place / "own.yaml").write_text(text)
    for file, good in (("own.yaml", True), ("one.yaml", False), ("d/two.yaml", False)):
        assert (place / file).read_text() == text, file
        done = brig("run", "--config", place / file, "--", "touch", place / "w/made", allow=False)
        assert (done.status == 0) == good == (place / "w/made").exists() and (good or "brig allow" in done.errors), (file, done)
        (place / "w/made").unlink(missing_ok=True)


@test
def cp_goes_both_ways():
    with box() as b:
        place = scratch() / "host"
        with files_as_root():
            place.mkdir()
            os.chown(place, workspace().stat().st_uid, workspace().stat().st_gid)

        def cp(*words, **more):
            return brig("sandbox", "cp", *words, env={"BRIG_HOST": f"unix://{b.d.path}"}, cwd=place, **more)
        (place / "t/d").mkdir(parents=True)
        (place / "t/d/f").write_text("deep")
        (place / "t/run").write_text("#!/bin/sh\necho ran\n")
        (place / "t/run").chmod(0o755)
        (place / "t/link").symlink_to("d/f")
        assert cp("t/run", f"{b.id}:run").status == 0 and b.sh("./run") == "ran\n"
        assert cp("t/run", f"{b.id}:/tmp").status == 0 and b.sh("/tmp/run") == "ran\n"
        assert cp("t", f"{b.id}:/tmp").status == 0 and b.sh("cat /tmp/t/d/f; readlink /tmp/t/link") == "deepd/f\n"
        assert cp("t", f"{b.id}:new").status == 0 and (workspace() / "new/d/f").read_text() == "deep"
        assert cp(f"{b.id}:/tmp/t/d/f", "one").status == 0 and (place / "one").read_text() == "deep"
        (place / "own").symlink_to(place / "t/d/f")
        assert cp("own", f"{b.id}:/tmp/own").status == 0 and b.sh("cat /tmp/own") == "deep"
        b.sh(f"ln -s {place}/one planted; ln -s {place} above")
        for link in ("planted", "above/one"):  # where a guest made it, it would show another file of the user's
            done = cp(str(workspace() / link), f"{b.id}:/tmp/planted")
            assert done.status == 125 and "symbolic link" in done.errors, done.errors
        (place / "aim").mkdir()
        (place / "way").symlink_to(place / "aim")
        b.sh(f"ln -s {place}/aim aimed; ln -s {place} up")
        for link in ("aimed", "aimed/name", "aimed/.", "up/aim", "up/aim/name"):  # nor lead what comes out over one
            done = cp(f"{b.id}:/tmp/t/run", str(workspace() / link))
            assert done.status == 125 and "symbolic link" in done.errors and not os.listdir(place / "aim"), (link, done)
            assert cp(f"{b.id}:/tmp/t", str(workspace() / link)).status == 125 and not os.listdir(place / "aim"), link
        assert cp(f"{b.id}:/tmp/t/run", "way").status == 0 and os.listdir(place / "aim") == ["run"]
        assert cp(f"{b.id}:/tmp/t/run", ".").status == 0 and (place / "run").stat().st_mode & 0o111
        assert cp(f"{b.id}:/tmp/t", "back").status == 0 and (place / "back/d/f").read_text() == "deep" and not (place / "back/link").exists()
        assert cp(f"{b.id}:/tmp/t", "back").status == 0 and (place / "back/t/d/f").read_text() == "deep"
        tar = cp(f"{b.id}:new/d", "-")
        assert tar.status == 0 and members(tar.stdout) == {"f": b"deep"}
        assert cp("-", f"{b.id}:/tmp", input=archive(("piped", b"yes"))).status == 0 and b.sh("cat /tmp/piped") == "yes"
        os.symlink("/etc/hostname", place / "planted")
        (place / "planted2").symlink_to(place / "t")
        assert cp(f"{b.id}:/tmp/t/d/f", "planted").status == 0 and not (place / "planted").is_symlink()
        b.sh("rm -rf new; ln -s /etc new")
        for words in ((f"{b.id}:none", "."), (f"{b.id}:new", "x"), (f"{b.id}:new/passwd", "x"), ("none", f"{b.id}:."), ("t", "u"), (f"{b.id}:a", f"{b.id}:b")):
            a = cp(*words)
            assert a.status == 125 and a.errors.startswith("brig: "), (words, a.errors)
        assert not (place / "x").exists()
        with files_as_root():
                shutil.rmtree(place)


@test
def brigs_own_links_of_etc_are_followed_and_no_others():
    with box() as b:
        # The control: what a command reads through the link, byte for byte.
        assert b.sh("readlink /etc/hostname || true") in ("/.etc/hostname\n", "")  # where few packages are installed it is a file
        for path in ("/etc/hostname", "/etc/passwd", "//etc//passwd"):
            a = b.read(path)
            assert a.status == 200 and a.body.decode() == b.sh(f"cat {path}"), (path, a)
        assert b.stat("/etc/passwd").json["type"] == "file" and b.list("/etc/ssl").status == 200
        package = b.sh("cd /etc; for f in *; do case $(readlink $f) in /.packages/etc/$f) [ -f $f ] && echo $f && break; esac; done; true").strip()
        assert not package or b.read(f"/etc/{package}").body.decode() == b.sh(f"cat /etc/{package}"), package
        done = brig("sandbox", "cp", f"{b.id}:/etc/hostname", "-", env={"BRIG_HOST": f"unix://{b.d.path}"})
        assert done.status == 0 and members(done.stdout) == {"hostname": b.sh("cat /etc/hostname").encode()}, done
        # Nothing is written through one, nor is it taken away.
        here = b.sh("cat /etc/hostname; readlink /etc/hostname || true")
        assert b.write("/etc/hostname", b"x").code in ("forbidden", "conflict") and b.remove("/etc/hostname").code == "forbidden"
        assert b.write("/etc/ssl/new", b"x").code == "forbidden" and b.sh("cat /etc/hostname; readlink /etc/hostname || true") == here
        assert b.post("move", **{"from": "/etc/hostname", "to": "/tmp/h"}).code in ("forbidden", "conflict")
        # A guest's own, from wherever it can make one, to the same places.
        b.sh("mkdir -p d/etc /tmp/etc; for at in . /tmp ~ d/etc /tmp/etc; do ln -s /.etc/hostname $at/hostname; ln -s /.etc $at/.etc; ln -s /.packages/etc $at/p; ln -s /etc $at/e; done")
        home = b.sh("printf %s ~")
        for at in (".", "/tmp", home, "d/etc", "/tmp/etc", "/workspace"):
            assert b.sh(f"cat {at}/hostname") == b.sh("cat /etc/hostname"), at  # the attack: it does lead there
            for name in ("hostname", ".etc/hostname", "e/hostname"):
                a = b.read(f"{at}/{name}")
                assert a.code == "conflict" and "link" in a.json["detail"], (at, name, a)
        # A link of the host's below /etc that leads elsewhere is none of these.
        elsewhere = b.sh("readlink /etc/os-release || true")
        assert not elsewhere or b.read("/etc/os-release").code == "conflict"


@test
def a_guest_with_a_writable_root_makes_no_link_that_counts():
    with box(read_only_root=False) as b:
        b.sh("ln -s /.packages/etc/x /etc/x 2> /dev/null || true; mkdir -p /.etc 2> /dev/null && echo planted > /.etc/y && ln -s /.etc/y /etc/y || true")
        for name in ("x", "y"):
            if b.sh(f"readlink /etc/{name} || true"):
                assert b.read(f"/etc/{name}").code == "conflict", name
    # A busy disk takes seconds to give back the layer of its root.
    assert wait_until(lambda: "brig-monitor" not in descendants().values(), 30)


@test
def what_is_left_out_of_a_copy_is_told():
    with box() as b:
        place = scratch() / "host"
        with files_as_root():
            place.mkdir()
            os.chown(place, workspace().stat().st_uid, workspace().stat().st_gid)

        def cp(*words):
            return brig("sandbox", "cp", *words, env={"BRIG_HOST": f"unix://{b.d.path}"}, cwd=place)
        b.sh("mkdir -p d/sub; echo kept > d/sub/f")
        a = cp(f"{b.id}:d", "plain")  # the control: nothing is left out, and nothing is said
        assert a.status == 0 and a.errors == "" and a.stdout == b"", a
        assert cp("--json", f"{b.id}:d", "plain-json").json == {"left_out": 0, "left_names": []}
        b.sh("ln -s /etc/passwd d/sub/link; mkfifo d/pipe; printf 'ln -s x \"d/sub/a\\033]0;evil\\007 %% b\"' | sh")
        said = {"sub/link", "pipe", "sub/a\033]0;evil\007 % b"}
        a = cp(f"{b.id}:d", "got")
        assert a.status == 0 and "3 things were left out" in a.errors and "sub/link" in a.errors and "pipe" in a.errors, a.errors
        assert "\033" not in a.errors and "\007" not in a.errors and " % b" in a.errors, a.errors
        assert cp("--quiet", f"{b.id}:d", "quiet").errors == ""
        a = cp("--json", f"{b.id}:d", "json")
        assert a.json["left_out"] == 3 and set(a.json["left_names"]) == said, a.json
        # Nothing but folders and files has come, whatever was told.
        for name in ("got", "quiet", "json"):
            assert sorted(p.relative_to(place / name).as_posix() for p in (place / name).rglob("*")) == ["sub", "sub/f"], name
            assert (place / name / "sub/f").read_text() == "kept\n"
        a = cp("--json", f"{b.id}:d", "-")  # standard output is the archive
        assert set(members(a.stdout)) - {"sub"} == {"sub/f"} and "3 things were left out" in a.errors, a.errors
        raw = b.d.raw(f"GET {b.target('archive', 'd')} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode(), end=False)
        trailer = raw[raw.rindex(b"0\r\nBrig-Left-Out: "):]
        assert trailer.startswith(b"0\r\nBrig-Left-Out: 3 ") and trailer.endswith(b"\r\n\r\n") and b"%1B" in trailer and b"Trailer: Brig-Left-Out\r\n" in raw, raw
        b.sh("rm d/pipe d/sub/link d/sub/a*; for i in $(seq 2000); do ln -s x d/$(printf %0200d $i); done")
        a = cp(f"{b.id}:d", "many")
        assert a.status == 0 and "2000 things were left out" in a.errors and a.errors.rstrip().endswith(", ...") and len(a.errors) < 2000, a.errors
        assert sorted(p.name for p in (place / "many").rglob("*")) == ["f", "sub"]
        # Into the sandbox links go as links; the rest is told, too.
        (place / "in").mkdir()
        os.mkfifo(place / "in/fifo")
        (place / "in/f").write_text("x")
        a = cp("in", f"{b.id}:/tmp/in")
        assert a.status == 0 and "1 thing was left out" in a.errors and "fifo" in a.errors and b.sh("ls /tmp/in") == "f\n", a.errors
        with files_as_root():
            shutil.rmtree(place)


@test
def a_guest_does_not_choose_who_may_write_what_was_copied_out():
    with box() as b:
        place = scratch() / "host"
        with files_as_root():
            place.mkdir()
            os.chown(place, workspace().stat().st_uid, workspace().stat().st_gid)
        b.sh("umask 0; mkdir -p d/e; echo x > d/f; echo x > d/e/run; chmod 777 d/e/run")
        assert (workspace() / "d/f").stat().st_mode & 0o777 == 0o666  # what it asks for
        for mask in (0o077, 0o022, 0):
            before = os.umask(mask)
            try:
                for path in ("d", "d/f"):
                    a = brig("sandbox", "cp", f"{b.id}:{path}", f"{mask:o}{path[1:].replace('/', '-')}", env={"BRIG_HOST": f"unix://{b.d.path}"}, cwd=place)
                    assert a.status == 0, a.errors
            finally:
                os.umask(before)
            modes = {p.relative_to(place).as_posix(): p.stat().st_mode & 0o7777 for p in place.rglob("*")}
            assert not [name for name, mode in modes.items() if mode & mask and name.startswith(f"{mask:o}")], (mask, modes)
            assert modes[f"{mask:o}/f"] == modes[f"{mask:o}-f"] == 0o666 & ~mask and modes[f"{mask:o}/e/run"] == 0o777 & ~mask, modes
        with files_as_root():
            shutil.rmtree(place)


@test
def files_are_shown_by_the_command_line():
    with box() as b:
        def files(*words):
            return brig("sandbox", "files", *words, env={"BRIG_HOST": f"unix://{b.d.path}"})
        assert files("mkdir", "-r", f"{b.id}:a/b").status == 0 and files("move", f"{b.id}:a/b", "a/c").status == 0
        assert "folder" in files("stat", f"{b.id}:a").text and files("list", f"{b.id}:a").text.split()[-1] == "c"
        assert files("list", "--json", f"{b.id}:a").json["files"][0]["name"] == "c"
        assert files("remove", f"{b.id}:a").status == 125 and files("remove", "-r", f"{b.id}:a").status == 0
        assert not (workspace() / "a").exists() and files("nonsense", f"{b.id}:a").status == 125 and files("list", "a").status == 125


# ---- elsewhere ----

@test
def bwrap_has_files_and_what_has_no_inside_refuses():
    with daemon() as d:
        b = Box(d, backend="bwrap")
        data = os.urandom(200000)
        assert b.write("/tmp/f", data).status == 204 and b.read("/tmp/f").body == data and b.write("f", b"x").status == 204
        assert members(b.pack().body) == {"f": b"x"}
        strict = Box(d, profile="strict")
        assert strict.write("f", b"x").status == 204 and strict.read("f").body == b"x"
        a = d.call("GET", strict.target("files/watch", "."))
        assert a.status == 501 and a.code == "unsupported", a


if __name__ == "__main__":
    sys.exit(main())
