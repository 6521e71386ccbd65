# SPDX-License-Identifier: Apache-2.0
"""Bundles by hand: good ones, and such as nobody should install."""

import contextlib
import gzip
import hashlib
import http.server
import io
import json
import socket
import subprocess
import tarfile
import threading

from harness import brig, scratch, wait_until

ROLE = """apiVersion: initrunner/v1
kind: Agent
metadata:
  name: helper
  version: "1.2.0"
  description: a small helper
  author: A. Person
  tags: [one, two]
spec:
  role: You help.
  model: {provider: openai, name: small}
  tools:
    - type: shell
  security:
    sandbox:
      backend: %s
"""


def bundle(*args, **more):
    """brig bundle, with what it installs in a folder of the test's own."""
    env = {"XDG_DATA_HOME": str(scratch() / "data"), **more.pop("env", {})}
    return brig("bundle", *args, env=env, **more)


def role_folder(name="role", backend="auto"):
    """A role with a skill, a script and a file of data; its folder."""
    top = scratch() / name
    for path, text in (("role.yaml", ROLE % backend), ("skills/x/SKILL.md", "a skill\n"), ("knowledge/a.md", "known\n"), ("run.sh", "#!/bin/sh\n")):
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(text)
    (top / "run.sh").chmod(0o755)
    return top


def files(**more):
    """Name to bytes of a small bundle."""
    return {"role.yaml": (ROLE % "auto").encode(), "data/a.txt": b"alpha\n", **more}


def manifest(content, **changes):
    kind = {"role.yaml": "role"}
    value = {"format_version": "1", "name": "helper", "version": "1.2.0", "supported_sandbox_backends": ["bwrap", "docker"],
             "files": [{"path": p, "sha256": hashlib.sha256(d).hexdigest(), "size": len(d), "kind": kind.get(p, "data")} for p, d in content.items()]}
    value.update(changes)
    return value


def entry(name, data=b"", **fields):
    t = tarfile.TarInfo(name)
    t.size = len(data)
    for key, value in fields.items():
        setattr(t, key, value)
    return t, data


def archive(entries, tail=b"", form=tarfile.USTAR_FORMAT):
    """A gzip of a tar of these (TarInfo, bytes)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for t, data in entries:
            tar.addfile(t, io.BytesIO(data) if t.isreg() else None)
    return gzip.compress(out.getvalue() + tail, mtime=0)


def good(content=None, said=None):
    """Entries of an archive that is as it should be."""
    content = content or files()
    text = json.dumps(said or manifest(content)).encode()
    return [entry("manifest.json", text), *(entry(p, d) for p, d in content.items())]


def write(name, data):
    path = scratch() / name
    path.write_bytes(data)
    return path


class Registry:
    """docker-registry on loopback: `tls` is (certificate, key), `locked` wants the name someone and the password "open sesame"."""

    def __init__(self, folder, tls=None, locked=False):
        self.folder, self.tls, self.locked = folder, tls, locked

    def __enter__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        lines = ["version: 0.1", "log: {level: error}", f"storage: {{filesystem: {{rootdirectory: {self.folder}/data}}}}",
                 f"http: {{addr: '127.0.0.1:{port}'" + (f", tls: {{certificate: {self.tls[0]}, key: {self.tls[1]}}}" if self.tls else "") + "}"]
        if self.locked:
            (self.folder / "htpasswd").write_text("someone:$2b$05$H5PVPzh4nRtbnPNRxOI2pe9oICWPBGKEBAH/buj8P9L9N00XQcUlC\n")
            lines.append(f"auth: {{htpasswd: {{realm: test, path: {self.folder}/htpasswd}}}}")
        (self.folder / "config.yml").write_text("\n".join(lines) + "\n")
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(["docker-registry", "serve", self.folder / "config.yml"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.host = f"127.0.0.1:{port}"

        def there():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return True

        assert wait_until(there), (self.folder / "log").read_text()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Scripted(http.server.BaseHTTPRequestHandler):
    """A registry that does what its server's `play` says: a function of the handler that answers, or returns False for what a good one does."""

    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b"", **fields):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **{k.replace("_", "-"): v for k, v in fields.items()}}.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        s = self.server
        s.asked.append((self.command, self.path, self.headers.get("Authorization")))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if s.play(self) is not False:
                return
            if "/manifests/" in self.path:
                self.answer(200, s.manifest)
            elif "/blobs/" in self.path:
                self.answer(200, s.blobs[self.path.rsplit("/", 1)[1]])
            else:
                self.answer(404)

    do_HEAD = do_POST = do_PUT = do_GET

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def scripted(play, data):
    """A scripted registry with one bundle in it."""
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    server.daemon_threads, server.block_on_close = True, False
    server.play, server.asked, server.blobs = play, [], {digest: data}
    server.manifest = oci(digest, len(data))
    server.host = f"127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def oci(digest, size, **changes):
    """A registry's manifest of one bundle."""
    empty = "sha256:" + hashlib.sha256(b"{}").hexdigest()
    value = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "artifactType": "application/vnd.brig.bundle.v1",
             "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": empty, "size": 2},
             "layers": [{"mediaType": "application/vnd.initrunner.role.v1.tar+gzip", "digest": digest, "size": size}], **changes}
    return json.dumps(value).encode()
