# SPDX-License-Identifier: Apache-2.0
"""Bundles by hand: good ones, and such as nobody should install."""

import gzip
import hashlib
import io
import json
import tarfile

from harness import brig, scratch

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
