#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""brig image: images without an engine: files of strangers unpacked, kept, listed, verified, taken away."""

import gzip
import io
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import images  # noqa: E402
from harness import brig, main, scratch, start_brig, test, tree, uid  # noqa: E402
from images import busybox, entry, file, folder, hard, link, tar  # noqa: E402


def store():
    return scratch() / "cache/brig/images"


def env():
    return {"XDG_CACHE_HOME": str(scratch() / "cache")}


def image(*args):
    return brig("image", *args, timeout=120, env=env())


def kept():
    """What the store has, and anything half made."""
    return {str(p.relative_to(store())) for d in ("layers", "records", "names") if (store() / d).exists()
            for p in (store() / d).iterdir()}


def tree_of(entries):
    """The folder that this layer becomes."""
    top = images.layout(scratch() / "one", [tar([file("first")] + entries)])
    done = image("import", top)
    assert done.status == 0, done.errors
    shutil.rmtree(top)
    layers = list((store() / "layers").iterdir())
    assert len(layers) == 1, layers
    return layers[0] / "tree"


def usable():
    """Images and names, and what is half made; layers below one that was refused stay until prune."""
    return {p for p in kept() if not p.startswith("layers/") or "." in p}


def beside():
    """What lies where names that lead out of the store would lead."""
    return {p for p in tree(scratch()) if not p.startswith("cache")}


def refused(source, *words):
    """It is not imported, for that reason: no image has it, nothing is half made, and nothing lies beside the store."""
    before, around = usable(), beside()
    done = image("import", source)
    assert done.status == 125, (done.status, done.text, done.errors)
    for word in words:
        assert word in done.errors, (word, done.errors)
    assert usable() == before, usable() ^ before
    assert beside() == around, beside() ^ around


@test
def an_image_is_imported_listed_inspected_verified_and_removed():
    layers = [busybox(file("opt/a", "a")), tar([file("opt/b", "b")])]
    text = dict(Env=["PATH=/bin", "APP=1"], User="web", WorkingDir="/srv", Entrypoint=["/bin/echo"], Cmd=["hi"],
                Volumes={"/data": {}}, ExposedPorts={"80/tcp": {}})
    source = images.layout(scratch() / "layout", layers, **text)
    for path, name in ((source, "test:1"), (images.archive(scratch() / "layout.tar", source), "other:2")):
        done = image("import", path, "--name", name, "--json")
        assert done.status == 0 and done.json[0]["name"] == name and done.json[0]["layers"] == 2, done.errors
    rows = image("list", "--json").json
    assert {r["name"] for r in rows} == {"test:1", "other:2"} and len({r["id"] for r in rows}) == 1, rows
    said = image("inspect", "docker.io/library/test:1", "--json").json
    assert said["entrypoint"] == ["/bin/echo"] and said["cmd"] == ["hi"] and said["env"] == ["PATH=/bin", "APP=1"]
    assert (said["user"], said["uid"], said["gid"], said["workdir"]) == ("web", 33, 34, "/srv")
    assert said["volumes"] == ["/data"] and said["ports"] == ["80/tcp"] and said["id"] == rows[0]["id"]
    assert image("inspect", rows[0]["id"][7:27], "--json").json["id"] == rows[0]["id"]
    assert [r["whole"] for r in image("verify", "--json").json] == [True, True]
    assert image("rm", "test").status == 125  # test:latest
    assert image("rm", "test:1").status == 0 and len(kept()) == 4, kept()
    assert image("rm", "other:2").status == 0 and kept() == set(), kept()
    assert image("list").text == ""


@test
def what_docker_and_podman_save_is_imported():
    layers = [busybox(), tar([file("b")])]
    saved = images.docker_save(scratch() / "saved.tar", layers, Cmd=["sh"])
    done = image("import", saved)
    assert done.status == 0 and done.text == "saved:1\n", (done.text, done.errors)
    with open(saved, "rb") as f:
        (scratch() / "saved.tar.gz").write_bytes(gzip.compress(f.read()))
    done = image("import", scratch() / "saved.tar.gz", "--name", "packed:1")
    assert done.status == 0 and len(image("list", "--json").json) == 2, done.errors
    assert len(list((store() / "layers").iterdir())) == 2


@test
def a_layer_comes_plain_or_by_gzip_or_zstd():
    layer = busybox()
    zstd = subprocess.run(["zstd", "-c"], input=layer, stdout=subprocess.PIPE, check=True).stdout if shutil.which("zstd") else None
    for number, packed in enumerate([bytes, gzip.compress, lambda d: gzip.compress(d[:1000]) + gzip.compress(d[1000:])]
                                    + ([lambda d: zstd] if zstd else [])):
        done = image("import", images.layout(scratch() / f"p{number}", [layer], f"p:{number}", packed))
        assert done.status == 0, (number, done.errors)


@test
def a_layer_keeps_modes_times_and_links_and_loses_what_it_must():
    top = tree_of([folder("d", 0o500), file("d/x", "12", 0o000), hard("d/y", "d/x"), link("l", "../../../etc/passwd"),
                   file("suid", "s", 0o6755), entry("dev", tarfile.CHRTYPE, device=(1, 3)), entry("pipe", tarfile.FIFOTYPE),
                   file("cap", "c", 0o755, pax={"SCHILY.xattr.security.capability": "x", "SCHILY.xattr.user.overlay.opaque": "y",
                                               "SCHILY.xattr.user.overlay.metacopy": "y", "SCHILY.xattr.trusted.overlay.opaque": "y"}),
                   file(".wh.hidden"), folder("o"), file("o/.wh..wh..opq"), file("o/new"),
                   file(".wh..wh.plnk")])
    at = lambda name: (top / name).lstat()
    assert stat.S_IMODE(at("d").st_mode) == 0o700 and stat.S_IMODE(at("d/x").st_mode) == 0o400
    assert at("d/x").st_ino == at("d/y").st_ino and at("d/x").st_mtime == 1_600_000_000
    assert os.readlink(top / "l") == "../../../etc/passwd" and stat.S_IMODE(at("suid").st_mode) == 0o755
    assert not os.path.lexists(top / "dev") and not os.path.lexists(top / "pipe") and os.listxattr(top / "cap") == []
    assert stat.S_ISCHR(at("hidden").st_mode) and at("hidden").st_rdev == 0
    assert os.getxattr(top / "o", "user.overlay.opaque") == b"y" and os.listdir(top / "o") == ["new"]
    assert not os.path.lexists(top / ".wh..wh.plnk") and all(p.lstat().st_uid == uid() for p in top.rglob("*"))


@test
def a_whiteout_and_what_replaces_it_may_come_in_any_order():
    top = tree_of([file(".wh.a"), folder("a"), file("a/new"), folder("b"), file(".wh.b"), file(".wh.c"), file("c", "new"),
                   file("e"), file(".wh.e")])
    assert os.getxattr(top / "a", "user.overlay.opaque") == os.getxattr(top / "b", "user.overlay.opaque") == b"y"
    assert (top / "c").read_text() == "new" and stat.S_ISREG((top / "e").lstat().st_mode)


def raw(entries, spoil):
    """An archive, changed behind its writer's back."""
    data = bytearray(tar(entries))
    spoil(data)
    return bytes(data)


def sparse(data):
    data[156:157] = b"S"
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])


# Name, entries, words of the refusal. What must never be reached is `victim`, beside every folder of ours.
LAYERS = [
    ("dotdot", [file("../victim", "x")], "leads out"),
    ("dotdot_in_between", [folder("a"), file("a/../../victim", "x")], "leads out"),
    ("absolute", [file("/victim", "x")], "leads out"),
    ("link_then_file_below", [link("l", ".."), file("l/victim", "x")], "below a link"),
    ("absolute_link_then_file_below", [link("l", "@"), file("l/victim", "x")], "below a link"),
    ("link_then_folder_below", [link("l", ".."), folder("l/victim")], "below a link"),
    ("link_in_the_place_of_a_folder", [folder("d"), link("d", "@"), file("d/victim", "x")], "Is a directory"),
    ("two_links", [link("a", "b"), link("b", ".."), file("a/victim", "x")], "below a link"),
    ("folder_over_a_link", [link("d", "@"), folder("d"), file("d/victim")], "something else"),
    ("hard_link_out", [hard("h", "../victim")], "leads out"),
    ("hard_link_absolute", [hard("h", "/etc/passwd")], "leads out"),
    ("hard_link_by_a_link", [link("l", "@"), hard("h", "l/victim")], "not a file of this layer"),
    ("hard_link_to_nothing", [hard("h", "nothing")], "not a file of this layer"),
    ("hard_link_to_a_folder", [folder("d"), hard("h", "d")], "not a file of this layer"),
    ("hard_link_to_a_whiteout", [file(".wh.w"), hard("h", "w")], "not a file of this layer"),
    ("whiteout_by_a_link", [link("l", ".."), file("l/.wh.victim")], "below a link"),
    ("opaque_by_a_link", [link("l", ".."), file("l/.wh..wh..opq")], "below a link"),
    ("whiteout_of_dot", [file("d/.wh..")], "hides no name"),
    ("whiteout_of_dotdot", [file("d/.wh...")], "hides no name"),
    ("whiteout_of_nothing", [file("d/.wh.")], "hides no name"),
    ("file_below_a_file", [file("f", "x"), file("f/victim", "x")], "below a link, or a file"),
    ("deep", [file("/".join(["d"] * 200) + "/x")], "too many folders"),
    ("empty_part", [file("a//b")], "leads out"),
    ("pax_path_out", [file("x" * 120, pax={"path": "../victim"})], "leads out"),
    ("pax_sparse", [file("s", "x", pax={"GNU.sparse.major": "1"})], "sparse"),
]


@test
def a_hostile_layer_is_refused_and_reaches_nothing():
    victim = scratch() / "victim"
    victim.write_text("mine")
    for name, entries, words in LAYERS:
        for t, _ in entries:
            t.linkname = t.linkname.replace("@", str(scratch()))
        source = images.layout(scratch() / "bad", [busybox(), tar(entries)], f"bad:{name}")
        refused(source, words)
        shutil.rmtree(source)
        assert victim.read_text() == "mine", name
    # The same by somebody who follows links and takes names as they are: the attacks are attacks.
    for name in ("absolute_link_then_file_below", "dotdot"):
        entries = next(row[1] for row in LAYERS if row[0] == name)
        (scratch() / "naive").mkdir(exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(tar(entries))) as t:
            t.extractall(scratch() / "naive", filter="fully_trusted") if hasattr(tarfile, "data_filter") else t.extractall(scratch() / "naive")
        assert victim.read_text() == "x", name
        victim.write_text("mine")
        shutil.rmtree(scratch() / "naive")


@test
def a_damaged_layer_is_refused():
    good = busybox()
    packed = gzip.compress(good)
    for layer, pack, words in (
            (raw([file("s", "x")], sparse), bytes, "sparse"),
            (good[:700], bytes, "ends in the middle"),
            (b"\x01" * 1024, bytes, "damaged"),
            (good, lambda d: packed[:-20], "damaged"),
            (good, lambda d: packed[:100] + b"\xff" * 100 + packed[200:], ""),
            (good, lambda d: packed + b"more behind it", "something is behind"),
            (good, lambda d: b"\x28\xb5\x2f\xfd" + packed, "damaged")):
        source = images.layout(scratch() / "bad", [layer], packed=pack)
        refused(source, "refused", words)
        shutil.rmtree(source)


@test
def a_bomb_is_refused():
    zeros = gzip.compress(tar([file("big", b"\0" * (40 << 20))]), 9)
    source = images.layout(scratch() / "bomb", [tar([file("big", b"\0" * (40 << 20))])], packed=lambda d: zeros)
    refused(source, "grows to more")
    claimed = images.Layout(scratch() / "claim")
    layer = raw([file("big", "x")], lambda d: claim(d, (64 << 30)))
    claimed.add(claimed.manifest([layer], images.config([layer])), "claim:1")
    refused(scratch() / "claim", "larger than what is allowed")


def claim(data, size):
    data[124:136] = b"\x80" + size.to_bytes(11, "big")
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])


def lie(change):
    """A layout in which one thing is not as it says."""
    l = images.Layout(scratch() / "lie")
    change(l, [busybox()])
    l.finish()
    return scratch() / "lie"


def lying_layer(l, layers):
    other = gzip.compress(tar([file("evil")]))
    l.add(l.manifest(layers, images.config(layers), blobs=[l.blob(other, digest=images.sha(gzip.compress(layers[0], mtime=0)), size=len(other))]))


def lying_size(l, layers):
    data = gzip.compress(layers[0])
    l.add(l.manifest(layers, images.config(layers), blobs=[l.blob(data, size=len(data) - 1)]))


def lying_size_more(l, layers):
    data = gzip.compress(layers[0])
    l.add(l.manifest(layers, images.config(layers), blobs=[l.blob(data, size=len(data) + 1)]))


def lying_content(l, layers):
    l.add(l.manifest(layers, images.config([tar([file("other")])])))


def lying_config(l, layers):
    d = l.manifest(layers, images.config(layers))
    for b in (scratch() / "lie/blobs/sha256").iterdir():
        if b'"rootfs"' in b.read_bytes():
            b.write_bytes(b.read_bytes().replace(b'"linux"', b'"linus"'))
    l.add(d)


def lying_manifest(l, layers):
    d = l.manifest(layers, images.config(layers))
    path = scratch() / "lie/blobs/sha256" / d["digest"][7:]
    path.write_bytes(path.read_bytes() + b" ")
    l.add(d)


def more_layers(l, layers):
    l.add(l.manifest(layers, images.config(layers + layers)))


def no_layer(l, layers):
    l.add(l.manifest([], images.config([])))


def endless_index(l, layers):
    text = b'{"schemaVersion": 2, "manifests": []}'
    d = l.manifest(layers, images.config(layers))
    for _ in range(5):
        text = json.dumps({"schemaVersion": 2, "manifests": [d]}).encode()
        d = l.blob(text, "application/vnd.oci.image.index.v1+json")
    l.add(d)


def linked_blob(l, layers):
    d = l.manifest(layers, images.config(layers))
    path = scratch() / "lie/blobs/sha256" / d["digest"][7:]
    path.rename(scratch() / "elsewhere")
    path.symlink_to(scratch() / "elsewhere")
    l.add(d)


def piped_blob(l, layers):
    d = l.manifest(layers, images.config(layers))
    path = scratch() / "lie/blobs/sha256" / d["digest"][7:]
    path.unlink()
    os.mkfifo(path)
    l.add(d)


def missing_blob(l, layers):
    d = l.manifest(layers, images.config(layers))
    (scratch() / "lie/blobs/sha256" / d["digest"][7:]).unlink()
    l.add(d)


def foreign(l, layers):
    l.add(l.manifest(layers, images.config(layers, architecture="s390x")), architecture="s390x", os="linux")


def foreign_config(l, layers):
    l.add(l.manifest(layers, images.config(layers, architecture="s390x")))


def volume_in_proc(l, layers):
    l.add(l.manifest(layers, images.config(layers, Volumes={"/proc/x": {}})))


def volume_out(l, layers):
    l.add(l.manifest(layers, images.config(layers, Volumes={"/a/../../b": {}})))


def no_variable(l, layers):
    l.add(l.manifest(layers, images.config(layers, Env=["=x"])))


def no_command(l, layers):
    l.add(l.manifest(layers, images.config(layers, Cmd=[{"a": 1}])))


def deep_config(l, layers):
    l.add(l.manifest(layers, b'{"a":' * 1000 + b"1" + b"}" * 1000))


LIES = [(lying_layer, "not those"), (lying_size, "refused"), (lying_size_more, "not those"), (lying_content, "holds something else"),
        (lying_config, "are others"), (lying_manifest, "are others"), (more_layers, "speaks of 2 layers"), (no_layer, "none that brig reads"),
        (endless_index, "leads to another"), (linked_blob, "symbolic links"), (piped_blob, "not a file"), (missing_blob, "lacks"),
        (foreign, "s390x"), (foreign_config, "s390x"), (volume_in_proc, "volume"), (volume_out, "volume"), (no_variable, "variable"),
        (no_command, "command"), (deep_config, "no JSON")]


@test
def a_lie_about_digests_sizes_or_contents_is_refused():
    for change, words in LIES:
        refused(lie(change), words)
        shutil.rmtree(scratch() / "lie")
        (scratch() / "elsewhere").unlink(missing_ok=True)
    source = lie(lambda l, layers: l.add(l.manifest(layers, images.config(layers)), "good:1"))
    assert image("import", source).status == 0


@test
def what_is_no_image_is_refused():
    (scratch() / "text").write_text("no archive")
    (scratch() / "empty").mkdir()
    for source, words in ((scratch() / "text", "no archive"), (scratch() / "empty", "neither an OCI layout"),
                          (scratch() / "nothing", "No such file"), ("/dev/zero", "neither a file nor a folder")):
        refused(source, words)
    for text in ("[]", "{}", '[{"Config": "../x", "Layers": ["/etc/passwd"]}]', '[{"Config": 3}]'):
        (scratch() / "d.tar").write_bytes(tar([file("manifest.json", text)]))
        refused(scratch() / "d.tar")


@test
def the_image_of_this_machine_is_taken_from_an_index():
    l, layers = images.Layout(scratch() / "many"), [busybox()]
    mine = l.manifest(layers, images.config(layers, Cmd=["mine"]))
    other = l.manifest(layers, images.config(layers, architecture="s390x", Cmd=["other"]))
    index = l.blob(json.dumps({"schemaVersion": 2, "manifests": [
        dict(other, platform={"os": "linux", "architecture": "s390x"}),
        dict(mine, platform={"os": "linux", "architecture": images.ARCH})]}).encode(), "application/vnd.oci.image.index.v1+json")
    l.add(index, "many:1")
    assert image("import", scratch() / "many").status == 0
    assert image("inspect", "many:1", "--json").json["cmd"] == ["mine"]


@test
def verify_tells_what_was_changed():
    done = image("import", images.layout(scratch() / "l", [busybox(file("opt/word", "one"))]))
    assert done.status == 0, done.errors
    path = next((store() / "layers").iterdir()) / "tree/opt/word"
    path.chmod(0o600)
    path.write_text("two")
    path.chmod(0o644)
    done = image("verify")
    assert done.status == 125 and "'opt/word' is not what it was" in done.text, (done.text, done.errors)
    path.write_text("one")
    assert image("verify").status == 0
    (path.parent / "more").write_text("")
    assert image("verify").status == 125


@test
def an_import_that_is_killed_leaves_nothing_that_is_used():
    base = busybox(*[file(f"f{n}", os.urandom(2000)) for n in range(300)])
    source = images.layout(scratch() / "l", [base, tar([file("b")])])
    for number in range(20):
        p = start_brig("image", "import", source, env=env(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(number * 0.01)
        p.send_signal(signal.SIGKILL)
        p.wait()
        for row in image("list", "--json").json:
            assert row["name"] == "test:1"
        assert image("verify").status == 0
    assert image("prune").status == 0
    assert not [p for p in kept() if ".part-" in p or ".gone-" in p], kept()
    assert image("import", source).status == 0 and image("verify").status == 0
    assert image("prune", "--all").status == 0 and kept() == set(), kept()


@test
def a_full_disk_leaves_nothing_half_made():
    done = image("import", images.layout(scratch() / "l", [busybox()]))
    assert done.status == 0
    big = images.layout(scratch() / "big", [tar([file("big", os.urandom(3 << 20))])], "big:1")
    before = kept()
    p = start_brig("image", "import", big, env=env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                   preexec_fn=lambda: __import__("resource").setrlimit(__import__("resource").RLIMIT_FSIZE, (1 << 20, 1 << 20)))
    out, errors = p.communicate(timeout=60)
    assert p.returncode == 125, (p.returncode, errors)
    assert kept() == before and image("verify").status == 0


if __name__ == "__main__":
    sys.exit(main())
