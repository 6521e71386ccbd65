#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Files of a container that the daemon keeps open: what tests/daemon/test_files.py shows of native, by its gate."""

import io
import os
import pathlib
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import common  # noqa: E402
from common import engine, settle, shared_engine  # noqa: E402
from daemon import daemon  # noqa: E402
from harness import around, main, test, wait_until, workspace  # noqa: E402

BYTES = {"Content-Type": "application/octet-stream"}
TAR = {"Content-Type": "application/x-tar"}

around(shared_engine)


@test(limit=120)
def a_container_has_files_as_native_has():
    settle()
    with daemon(env=common.environment()) as d:
        spec = {"backend": "docker", "image": engine.IMAGE, "workspace": {"path": str(workspace())}}
        box = f"/v1/sandboxes/{d.create(spec=spec)['id']}"
        data = os.urandom(500000)
        for path, host in (("f", workspace() / "f"), ("/tmp/f", None)):
            assert d.call("PUT", f"{box}/files?path={path}", data, BYTES).status == 204
            assert d.call("GET", f"{box}/files?path={path}").body == data
            assert not host or host.read_bytes() == data
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as t:
            info = tarfile.TarInfo("a/b")
            info.size = 3
            t.addfile(info, io.BytesIO(b"tar"))
        assert d.call("PUT", f"{box}/archive?path=/tmp", out.getvalue(), TAR).status == 204
        got = d.call("GET", f"{box}/archive?path=/tmp/a")
        with tarfile.open(fileobj=io.BytesIO(got.body)) as t:
            assert t.extractfile("b").read() == b"tar"
        assert "a" in [f["name"] for f in d.call("GET", f"{box}/files/list?path=/tmp").json["files"]]
        # A link that the guest planted, and what its own shell makes of it.
        line = "mkdir /tmp/other; ln -s /tmp/other /tmp/way; echo x > /tmp/way/by-shell; ls /tmp/other"
        ran = d.call("POST", f"{box}/exec", {"argv": ["sh", "-c", line]}).json
        assert ran["stdout"] == "by-shell\n", ran
        assert d.call("PUT", f"{box}/files?path=/tmp/way/x", b"x", BYTES).code == "conflict"
        assert d.call("GET", f"{box}/files?path=/tmp/way/by-shell").code == "conflict"
        assert [f["name"] for f in d.call("GET", f"{box}/files/list?path=/tmp/other").json["files"]] == ["by-shell"]
        assert d.call("GET", f"{box}/files?path=/proc/1/status").code == "conflict"
        # It is the gate that does it: nothing is left of it.
        assert wait_until(lambda: "brig-files" not in d.call("POST", f"{box}/exec", {"argv": ["ps"]}).json["stdout"], 10)


if __name__ == "__main__":
    sys.exit(main())
