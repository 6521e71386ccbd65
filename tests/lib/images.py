# SPDX-License-Identifier: Apache-2.0
"""Images, made here without a network: layers as tar archives, OCI layouts, what docker save writes."""
import gzip
import hashlib
import io
import json
import os
import platform
import tarfile

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
BUSYBOX = "/bin/busybox"


def sha(data):
    return hashlib.sha256(data).hexdigest()


def entry(name, kind=tarfile.REGTYPE, mode=0o644, data=b"", target="", pax=None, mtime=1_600_000_000, device=(0, 0)):
    t = tarfile.TarInfo(name)
    t.type, t.mode, t.size, t.linkname, t.mtime = kind, mode, len(data), target, mtime
    t.pax_headers = pax or {}
    t.devmajor, t.devminor = device
    return t, data


def folder(name, mode=0o755):
    return entry(name, tarfile.DIRTYPE, mode)


def file(name, data=b"", mode=0o644, **more):
    return entry(name, data=data if isinstance(data, bytes) else data.encode(), mode=mode, **more)


def link(name, target):
    return entry(name, tarfile.SYMTYPE, 0o777, target=target)


def hard(name, target):
    return entry(name, tarfile.LNKTYPE, target=target)


def tar(entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        for info, data in entries:
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def busybox(*more):
    """A layer that commands can run in."""
    with open(BUSYBOX, "rb") as f:
        program = f.read()
    words = "sh ls cat id echo env pwd true false test mkdir touch rm cp mv ln stat sleep grep find wc head mount kill"
    return tar([folder("bin"), file("bin/busybox", program, 0o755)]
               + [link(f"bin/{w}", "busybox") for w in words.split()]
               + [folder("etc"), file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nweb:x:33:34:web:/srv:/bin/sh\n"),
                  file("etc/group", "root:x:0:\nwww:x:34:\nstaff:x:50:\n"), folder("srv"), folder("tmp", 0o1777), *more])


def config(layers, architecture=ARCH, os_name="linux", **more):
    """Of plain layers; `more` are keys of its `config`."""
    return json.dumps({"architecture": architecture, "os": os_name, "config": more,
                       "rootfs": {"type": "layers", "diff_ids": ["sha256:" + sha(l) for l in layers]}}).encode()


class Layout:
    """An OCI layout in a folder; blobs are kept under their digests, or under others for a lie."""

    def __init__(self, path):
        self.path = path
        self.manifests = []
        os.makedirs(os.path.join(path, "blobs/sha256"))
        self._write("oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())

    def _write(self, name, data):
        with open(os.path.join(self.path, name), "wb") as f:
            f.write(data)

    def blob(self, data, kind="application/octet-stream", digest=None, size=None):
        digest = digest or sha(data)
        self._write(f"blobs/sha256/{digest}", data)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data) if size is None else size}

    def manifest(self, layers, text, kind="application/vnd.oci.image.manifest.v1+json", packed=gzip.compress, blobs=None):
        """The descriptor of an image with these layers and this configuration."""
        blobs = blobs or [self.blob(packed(l), "application/vnd.oci.image.layer.v1.tar+gzip") for l in layers]
        return self.blob(json.dumps({
            "schemaVersion": 2, "mediaType": kind,
            "config": self.blob(text, "application/vnd.oci.image.config.v1+json"), "layers": blobs}).encode(), kind)

    def add(self, descriptor, name=None, **platform_of):
        d = dict(descriptor)
        if name:
            d["annotations"] = {"org.opencontainers.image.ref.name": name}
        if platform_of:
            d["platform"] = platform_of
        self.manifests.append(d)
        self.finish()

    def finish(self):
        self._write("index.json", json.dumps({"schemaVersion": 2, "manifests": self.manifests}).encode())


def layout(path, layers, name="test:1", packed=gzip.compress, **more):
    """A whole one with one image."""
    l = Layout(path)
    l.add(l.manifest(layers, config(layers, **more), packed=packed), name)
    return path


def archive(path, source):
    """A layout's folder as an archive."""
    with tarfile.open(path, "w") as t:
        t.add(source, arcname=".")
    return path


def docker_save(path, layers, name="saved:1", **more):
    """As docker before 25, and podman, write it."""
    text = config(layers, **more)
    parts = [file(f"{sha(text)}.json", text)]
    paths = []
    for l in layers:
        paths.append(f"{sha(l)}.tar")
        parts.append(file(paths[-1], l))
    parts += [folder("old"), link("old/layer.tar", f"../{paths[0]}"),
              file("manifest.json", json.dumps([{"Config": f"{sha(text)}.json", "RepoTags": [name], "Layers": paths}]))]
    with open(path, "wb") as f:
        f.write(tar(parts))
    return path
