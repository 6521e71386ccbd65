#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Files of a live sandbox: copied in and out, listed, watched; and guests that plant, swap, stop and kill."""

import contextlib
import io
import os
import pathlib
import sys
import tarfile
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import daemon, daemon_with_tokens  # noqa: E402
from harness import FACTOR, brig, files_as_root, main, scratch, state, test, wait_until, workspace  # noqa: E402

WAIT = 20 * FACTOR
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


if __name__ == "__main__":
    sys.exit(main())
