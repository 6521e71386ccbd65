# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel and the source archive with the standard library alone (PEP 517), so that nothing has to be fetched.

The same sources make the same bytes: members are sorted and have one date.
"""

import base64
import hashlib
import io
import os
import pathlib
import re
import tarfile
import zipfile

TOP = pathlib.Path(__file__).resolve().parents[1]
DATE = (1980, 1, 1, 0, 0, 0)


def _project(key):
    """A text of [project]; the file is ours and has one form, so that Python 3.9, which cannot read TOML, can read it."""
    found = re.search(rf'^{key} = "([^"]*)"$', (TOP / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    if not found:
        raise ValueError(f"pyproject.toml has no '{key}'")
    return found.group(1)


def _sources():
    return sorted(p for p in (TOP / "brig").rglob("*") if p.is_file() and p.suffix in (".py", ".typed"))


def _name():
    return f"{_project('name')}-{_project('version')}"


def _metadata():
    head = [
        "Metadata-Version: 2.1",
        f"Name: {_project('name')}",
        f"Version: {_project('version')}",
        f"Summary: {_project('description')}",
        "License: Apache-2.0",
        f"Requires-Python: {_project('requires-python')}",
        "Classifier: Operating System :: POSIX :: Linux",
        "Classifier: Typing :: Typed",
        "Description-Content-Type: text/markdown",
        "",
    ]
    return "\n".join(head) + "\n" + (TOP / "README.md").read_text(encoding="utf-8")


def _wheel_text():
    return "Wheel-Version: 1.0\nGenerator: brig_backend\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def _write_wheel(path, members):
    record = []
    info = f"{_name()}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        def add(name, data):
            entry = zipfile.ZipInfo(name, DATE)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, data)

        for name, data in members:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}\n")
            add(name, data)
        add(f"{info}/RECORD", "".join(record) + f"{info}/RECORD,,\n")


def _info_members():
    info = f"{_name()}.dist-info"
    return [(f"{info}/METADATA", _metadata().encode()), (f"{info}/WHEEL", _wheel_text().encode())]


def _wheel(folder, members):
    name = f"{_name()}-py3-none-any.whl"
    _write_wheel(os.path.join(folder, name), members + _info_members())
    return name


# ---- what a front end such as pip calls ----


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_editable(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory, [(str(p.relative_to(TOP)), p.read_bytes()) for p in _sources()])


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory, [("brig.pth", f"{TOP}\n".encode())])


def build_sdist(sdist_directory, config_settings=None):
    name = f"{_name()}.tar.gz"
    kept = [TOP / "pyproject.toml", TOP / "README.md", TOP / "backend/brig_backend.py", *_sources()]
    with tarfile.open(os.path.join(sdist_directory, name), "w:gz", format=tarfile.PAX_FORMAT) as t:
        members = [(str(p.relative_to(TOP)), p.read_bytes()) for p in sorted(kept)]
        for member, data in [("PKG-INFO", _metadata().encode()), *members]:
            entry = tarfile.TarInfo(f"{_name()}/{member}")
            entry.size, entry.mode = len(data), 0o644
            t.addfile(entry, io.BytesIO(data))
    return name
