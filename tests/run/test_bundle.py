#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""brig bundle: roles packed, inspected, installed; archives that strangers made; what is believed, and of whom."""

import contextlib
import fcntl
import gzip
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from bundles import archive, bundle, entry, files, good, manifest, role_folder, write  # noqa: E402
from harness import brig, files_as_root, main, scratch, start_brig, state, test, tree, uid, wait_until, workspace  # noqa: E402

INSTALLED = "data/brig/bundles"


def installed():
    """What is there of bundles: files, records, and anything half made."""
    top, records = scratch() / INSTALLED, state() / "brig/bundles"
    return (set(tree(top)) if top.exists() else set()) | (set(tree(records)) if records.exists() else set())


def refused(path, *words, args=()):
    """It is not installed, for that reason, and nothing is left of it."""
    before = installed()
    done = bundle("install", path, *args)
    assert done.status == 125, (done.status, done.text, done.errors)
    for word in words:
        assert word in done.errors, (word, done.errors)
    assert installed() == before, installed() - before


def forget(name="helper@1.2.0"):
    done = bundle("remove", "--forget", name)
    assert done.status == 0, done.errors
    assert installed() == set(), installed()


@test
def a_role_is_packed_inspected_installed_allowed_and_removed():
    top, file = role_folder(), scratch() / "a.bundle"
    done = bundle("pack", top, "-o", file, "--json")
    assert done.status == 0, done.errors
    digest = "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()
    assert (done.json["name"], done.json["version"], done.json["digest"], done.json["files"]) == ("helper", "1.2.0", digest, 4)
    said = bundle("inspect", file, "--json").json
    assert said["digest"] == digest and said["signed"] is False
    assert said["manifest"]["supported_sandbox_backends"] == ["bwrap", "docker"] and said["manifest"]["tags"] == ["one", "two"]
    assert {f["path"]: f["kind"] for f in said["manifest"]["files"]} == {
        "role.yaml": "role", "skills/x/SKILL.md": "skill", "data/run.sh": "data", "data/knowledge/a.md": "data"}
    done = bundle("install", file, "--json")
    assert done.status == 0 and done.json["digest"] == digest and not done.json["trusted"], (done.text, done.errors)
    place = scratch() / INSTALLED / "helper/1.2.0"
    assert done.json["folder"] == str(place)
    assert (place / "knowledge/a.md").read_text() == "known\n" and os.access(place / "run.sh", os.X_OK)
    assert all(p.stat().st_uid == uid() and not p.stat().st_mode & 0o022 for p in place.rglob("*"))

    again = bundle("install", file, "--json")
    assert again.status == 0 and again.json["already"], again.text
    assert [b["name"] for b in bundle("list", "--json").json] == ["helper"]
    done = bundle("remove", "helper@1.2.0")
    assert done.status == 0 and not place.exists() and bundle("list", "--json").json == [], done.errors
    forget()


@test
def the_same_files_make_the_same_bundle_and_a_role_alone_takes_what_it_names():
    top, env = role_folder(), {"SOURCE_DATE_EPOCH": "1700000000"}
    one, two = scratch() / "one", scratch() / "two"
    assert bundle("pack", top, "-o", one, env=env).status == 0
    assert bundle("pack", top, "-o", two, env=env).status == 0
    assert one.read_bytes() == two.read_bytes() and b"2023-11-14" in gzip.decompress(one.read_bytes())
    text = (top / "role.yaml").read_text()
    (top / "small.yaml").write_text(text.replace("  role: You", "  skills: [x]\n  ingest: {sources: ['**/*.md']}\n  role: You"))
    assert bundle("pack", top / "small.yaml", "-o", one).status == 0
    # Without a name of its own it has the bundle's, and then it replaces nothing.
    done = bundle("pack", top / "small.yaml", "--name", "usual", "--version", "2.0", cwd=workspace())
    assert done.status == 0 and (workspace() / "usual-2.0.bundle").stat().st_size, done.errors
    refused = bundle("pack", top / "small.yaml", "--name", "usual", "--version", "2.0", cwd=workspace())
    assert refused.status == 125 and "'usual-2.0.bundle' already" in refused.errors and "-o FILE" in refused.errors, refused.errors
    with tarfile.open(one) as tar:
        assert tar.getnames() == ["manifest.json", "data/knowledge/a.md", "role.yaml", "skills/x/SKILL.md"]
    (top / "small.yaml").write_text(text.replace("  role: You", "  ingest: {sources: [gone.md]}\n  role: You"))
    done = bundle("pack", top / "small.yaml", "-o", one)
    assert done.status == 125 and "'gone.md', which is not there" in done.errors, done.errors
    os.symlink("/etc/passwd", top / "link")
    (top / ".env").write_text("SECRET=1")
    done = bundle("pack", top, "-o", one)
    assert done.status == 0 and "2 names were left out" in done.errors, done.errors
    with tarfile.open(one) as tar:
        assert not {"data/link", "data/.env"} & set(tar.getnames())


@test
def an_installed_role_runs_nothing_until_it_was_allowed():
    file = scratch() / "a.bundle"
    assert bundle("pack", role_folder(), "-o", file).status == 0
    role = scratch() / INSTALLED / "helper/1.2.0/role.yaml"
    env = {"XDG_DATA_HOME": str(scratch() / "data")}

    def run(path):
        return brig("run", "--config", path, "--backend", "native", "--", "echo", "ran", env=env)

    assert bundle("install", file).status == 0
    assert run(scratch() / "role/role.yaml").text == "ran\n"  # the same file of the user's own
    hidden = scratch() / "hidden.yaml"
    hidden.symlink_to(role)
    for path in (role, hidden, os.path.relpath(role, workspace()), role.parent / "knowledge/../role.yaml"):
        done = run(path)
        assert done.status == 125 and "nobody has allowed it" in done.errors and not done.text, (path, done.errors)
    # Another data folder makes it nobody's own.
    done = brig("run", "--config", role, "--", "echo", "ran", env={"XDG_DATA_HOME": str(scratch())})
    assert done.status == 125 and "nobody has allowed it" in done.errors, done.errors
    done = brig("agent", "helper", "-p", "hello", env=env)
    assert done.status == 125 and "nobody has allowed it" in done.errors, done.errors
    done = brig("allow", "helper", env=env)
    assert done.status == 0 and "it is a role" in done.text and "tool: shell" in done.text, (done.text, done.errors)
    assert run(role).text == "ran\n" and bundle("list", "--json").json[0]["trusted"]
    done = brig("agent", "helper@1.2.0", "-p", "hello", env=env)
    assert "OPENAI_API_KEY" in done.errors and "allowed" not in done.errors, done.errors  # it got as far as the key
    # A file of the project's must not stand in for it: named and allowed, a role is the user's own word.
    (workspace() / "helper").write_text((scratch() / "role/role.yaml").read_text().replace("helper", "other"))
    for command in (["agent", "helper", "-p", "hello"], ["allow", "helper"]):
        done = brig(*command, env=env, allow=False)
        assert done.status == 125 and "and a file in this folder" in done.errors and "./NAME" in done.errors, (command, done.errors)
    done = brig("agent", "./helper", "-p", "hello", env=env, allow=False)
    assert done.status == 125 and "is not trusted" in done.errors, done.errors
    assert brig("allow", "./helper", env=env).status == 0
    done = brig("agent", "./helper", "-p", "hello", env=env)
    assert "OPENAI_API_KEY" in done.errors and "in this folder" not in done.errors, done.errors
    (workspace() / "helper").unlink()
    shutil.rmtree(state() / "brig/run")
    role.write_text(role.read_text() + "# changed\n")
    done = run(role)
    assert done.status == 125 and "has changed since it was allowed" in done.errors, done.errors
    forget()
    assert role.parent.name not in (state() / "brig/trusted").read_text()


@test
def a_file_here_is_not_taken_for_a_bundle_or_a_reference():
    file, env, here = scratch() / "a.bundle", {"XDG_DATA_HOME": str(scratch() / "data")}, workspace()
    assert bundle("pack", role_folder(), "-o", file).status == 0 and bundle("install", file).status == 0
    assert brig("allow", "helper", env=env).status == 0
    # What lies in a stranger's project has the name of a bundle that was allowed.
    (here / "helper").write_text((scratch() / "role/role.yaml").read_text())
    for words in (("agent", "helper", "-p", "hello"), ("allow", "helper")):
        done = brig(*words, env=env)
        assert done.status == 125 and "and a file in this folder" in done.errors and "./NAME" in done.errors, done.errors
    assert brig("allow", "./helper", env=env).status == 0
    done = brig("agent", "./helper", "-p", "hello", env=env)
    assert "OPENAI_API_KEY" in done.errors, done.errors  # the file, which got as far as the key
    (here / "helper").unlink()
    assert "OPENAI_API_KEY" in brig("agent", "helper", "-p", "hello", env=env).errors
    shutil.rmtree(state() / "brig/run")
    forget()
    # Or that of a reference, its digest and all. Nothing listens on port 1.
    for name in ("localhost:1/team/role:1.0", f"localhost:1/team/role@sha256:{'0' * 64}"):
        for place in (here / name, here / "oci:" / name):
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)
        refused(name, "is a file here", "oci://")
        refused(f"oci://{name}", "localhost:1", args=("--plain-http",))
        done = bundle("inspect", f"./{name}", "--json")
        assert done.status == 0 and done.json["manifest"]["name"] == "helper", done.errors
    for left in ("localhost:1", "oci:"):
        shutil.rmtree(here / left)


@test
def a_role_is_shown_its_own_files():
    top, file, env = role_folder(), scratch() / "a.bundle", {"XDG_DATA_HOME": str(scratch() / "data")}
    text = (top / "role.yaml").read_text()
    (top / "role.yaml").write_text(text + "      bind_mounts:\n        - {source: ./knowledge, target: /known, read_only: true}\n        - {source: ./run.sh, target: /run.sh, read_only: true}\n")
    (scratch() / "data").mkdir()
    (scratch() / "data").chmod(0o755)
    mask = os.umask(0o077)  # whoever installs it closes all else
    try:
        assert bundle("pack", top, "-o", file).status == 0 and bundle("install", file).status == 0
    finally:
        os.umask(mask)
    assert brig("allow", "helper", env=env).status == 0
    for backend in ("native", "bwrap"):
        done = brig("run", "--config", scratch() / INSTALLED / "helper/1.2.0/role.yaml", "--backend", backend, "--", "cat", "/known/a.md", "/run.sh", env=env)
        assert done.text == "known\n#!/bin/sh\n", (backend, done.errors)
        done = brig("run", "--config", scratch() / INSTALLED / "helper/1.2.0/role.yaml", "--backend", backend, "--", "sh", "-c", "echo x > /known/a.md", env=env)
        assert done.status != 0, (backend, done.text)
    assert (scratch() / INSTALLED / "helper/1.2.0/knowledge/a.md").read_text() == "known\n"
    forget()


@test
def what_takes_the_place_of_a_bundles_files_is_not_believed_either():
    file = scratch() / "a.bundle"
    assert bundle("pack", role_folder(), "-o", file).status == 0 and bundle("install", file).status == 0
    place, env = scratch() / INSTALLED / "helper/1.2.0", {"XDG_DATA_HOME": str(scratch() / "data")}
    other = role_folder("other")

    def believed(path, env=env):
        done = brig("run", "--config", path, "--backend", "native", "--", "echo", "ran", env=env)
        assert done.text == "ran\n" or (done.status == 125 and ("nobody has allowed it" in done.errors or "since it was allowed" in done.errors)), done.errors
        return done.status == 0

    assert brig("allow", "helper", env=env).status == 0 and believed(place / "role.yaml") and believed(other / "role.yaml")
    # A link where the role was, where its folder was, and where the folder of all bundles was.
    (place / "role.yaml").rename(place / "kept")
    (place / "role.yaml").symlink_to(other / "role.yaml")
    assert not believed(place / "role.yaml")
    (place / "role.yaml").unlink()
    (place / "kept").rename(place / "role.yaml")
    for folder in (place, scratch() / INSTALLED):
        away = folder.rename(scratch() / "away")
        folder.symlink_to(other if folder == place else away)
        assert not believed(place / "role.yaml"), folder
        # Without the data folder's name the record alone tells whose it is.
        assert not believed(place / "role.yaml", {"XDG_DATA_HOME": str(scratch() / "none")}), folder
        folder.unlink()
        away.rename(folder)
    assert believed(place / "role.yaml")
    # The record is gone, or says nothing.
    record = state() / "brig/bundles/helper@1.2.0.json"
    kept = record.read_bytes()
    record.write_text("{")
    (place / "role.yaml").write_text((other / "role.yaml").read_text() + "# changed\n")
    assert not believed(place / "role.yaml")
    assert bundle("remove", "--forget", "helper@1.2.0").status == 0 and not record.exists()
    assert not believed(place / "role.yaml")
    refused(file, "File exists", "move it away")
    record.write_bytes(kept)
    forget()


@test
def two_at_once_install_one_and_keep_its_record():
    file, env, top = scratch() / "a.bundle", {"XDG_DATA_HOME": str(scratch() / "data")}, scratch() / INSTALLED
    assert bundle("pack", role_folder(), "-o", file).status == 0 and bundle("install", file).status == 0
    forget()
    with files_as_root():
        held = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(held, fcntl.LOCK_EX)
        running = [start_brig("bundle", "install", "--json", file, env=env) for _ in range(2)]
    node = f":{os.fstat(held).st_ino} "
    waiting = lambda: sum("-> FLOCK" in line and node in line for line in pathlib.Path("/proc/locks").read_text().splitlines())  # noqa: E731
    try:
        # Both have unpacked it, and neither has looked yet whether it is there.
        assert wait_until(lambda: waiting() == 2), [p.poll() for p in running]
        assert not (top / "helper").exists()
    finally:
        os.close(held)
    said = [(p.communicate(), p.returncode) for p in running]
    assert all(status == 0 for _, status in said), said
    assert sorted(json.loads(out)["already"] for (out, _), _ in said) == [False, True], said
    assert [b["name"] for b in bundle("list", "--json").json] == ["helper"]
    forget()


@test
def archives_that_are_not_what_their_manifest_says_are_refused():
    plain = files()
    said = manifest(plain)
    text = json.dumps(said).encode()
    head, role, alpha = good(plain)
    link = {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}
    cases = {
        "a changed byte": ([head, role, entry("data/a.txt", b"ALPHA\n")], "another SHA-256 of 'data/a.txt'"),
        "another length": ([head, role, entry("data/a.txt", b"alpha\n\n")], "another size of"),
        "an extra file": ([head, role, alpha, entry("data/b.txt", b"x")], "does not list 'data/b.txt'"),
        "a missing file": ([head, role], "does not have 'data/a.txt'"),
        "a file twice": ([head, role, alpha, alpha], "has twice 'data/a.txt'"),
        "a link": ([head, role, entry("data/a.txt", **link)], "no regular file"),
        "a hard link": ([head, role, entry("data/a.txt", type=tarfile.LNKTYPE, linkname="role.yaml")], "no regular file"),
        "a device": ([head, role, entry("data/a.txt", type=tarfile.CHRTYPE, devmajor=1, devminor=3)], "no regular file"),
        "a fifo": ([head, role, entry("data/a.txt", type=tarfile.FIFOTYPE)], "no regular file"),
        "a folder": ([head, entry("data", type=tarfile.DIRTYPE), role, alpha], "no regular file"),
        "a sparse file": ([head, role, entry("data/a.txt", type=tarfile.GNUTYPE_SPARSE)], "no regular file"),
        "an absolute path": ([head, role, entry("/data/a.txt", b"alpha\n")], "does not list"),
        "a path with a dot": ([head, role, entry("./data/a.txt", b"alpha\n")], "does not list"),
        "a way up": ([head, role, entry("data/../../a.txt", b"alpha\n")], "does not list"),
        "a case twin": ([head, role, alpha, entry("data/A.txt", b"alpha\n")], "does not list"),
        "a manifest that is not first": ([role, head, alpha], "does not begin with 'manifest.json'"),
        "a second manifest": ([head, role, alpha, head], "does not list 'manifest.json'"),
        "nothing": ([], "does not begin"),
    }
    for name, (entries, why) in cases.items():
        print(name)
        refused(write("bad", archive(entries)), why)
    pax = {"pax_headers": {"path": "../../x"}}
    refused(write("bad", archive([head, role, entry("data/a.txt", b"alpha\n", **pax)], form=tarfile.PAX_FORMAT)), "does not list '../../x'")
    refused(write("bad", archive([head, role, entry("data/a.txt", b"alpha\n", pax_headers={"GNU.sparse.size": "9"})], form=tarfile.PAX_FORMAT)), "more than its path")
    refused(write("bad", archive([head, role, entry("data/a.txt", b"alpha\n", pax_headers={"size": "6"})], form=tarfile.PAX_FORMAT)), "more than its path")
    refused(write("bad", archive([head, role, entry("data/" + "a" * 200, b"alpha\n")], form=tarfile.GNU_FORMAT)), "no regular file")
    whole = archive(good(plain))
    refused(write("bad", whole + b"behind"), "behind the end")
    refused(write("bad", whole + whole), "behind the end")
    refused(write("bad", archive(good(plain), tail=b"hidden" + bytes(600))), "behind the end")
    refused(write("bad", whole[:-20]), "ends in the middle")
    refused(write("bad", gzip.decompress(whole)), "damaged")
    refused(write("bad", whole[:40] + bytes([whole[40] ^ 1]) + whole[41:]), "refused")
    assert text in gzip.decompress(whole)
    # The control: the same entries as they should be.
    assert bundle("install", write("good", whole)).status == 0
    assert (scratch() / INSTALLED / "helper/1.2.0/a.txt").read_text() == "alpha\n"
    forget()


@test
def manifests_that_cannot_be_installed_everywhere_are_refused():
    role = files()["role.yaml"]

    def attempt(why, content=None, **changes):
        content = content or files()
        refused(write("bad", archive(good(content, manifest(content, **changes)), form=tarfile.PAX_FORMAT)), why)

    for path in ("/etc/x", "data/../../x", "data/./x", "data//x", "data/.hidden", ".git/config", "data/a\\b", "data/a:b", "data/x ", "data/a\nb", "data/\u00e9",
                 "data/" + "d/" * 20 + "x", "data/" + "n" * 260, ""):
        attempt("cannot be installed everywhere", {"role.yaml": role, path: b"x"})
    attempt("two files in one place", {"role.yaml": role, "data/a.txt": b"a", "data/A.TXT": b"b"})
    attempt("no kind or no SHA-256", files=[{"path": "role.yaml", "sha256": "00", "size": 1, "kind": "role"}])
    attempt("where a folder has to be", {"role.yaml": role, "data/a": b"a", "data/a/b": b"b"})
    attempt("where a folder has to be", {"role.yaml": role, "data/a": b"a", "data/a-": b"c", "data/A/b": b"b"})
    attempt("nothing else is", {"role.yaml": role, "data/x": b"x"}, files=manifest({"role.yaml": role})["files"] + [
        {"path": "data/x", "sha256": hashlib.sha256(b"x").hexdigest(), "size": 1, "kind": "role"}])
    attempt("in its own place", {"role.yaml": role, "data/manifest.json": b"{}"})
    attempt("there is no 'role.yaml'", {"data/x": b"x"})
    attempt("no files", files=[])
    for name in ("", "../x", "a/b", "UPPER", ".x", "x" * 65, "a b"):
        attempt("no name of", name=name)
    attempt("no version of", version="1/../..")
    attempt("format_version", format_version="2")
    attempt("supported_sandbox_backends", supported_sandbox_backends=["../x"])
    attempt("no size, or too large", files=[{"path": "role.yaml", "sha256": "0" * 64, "size": 1 << 40, "kind": "role"}])
    many = [{"path": f"data/{i}", "sha256": "0" * 64, "size": 0, "kind": "data"} for i in range(4096)]
    attempt("more than 4096", files=manifest(files())["files"] + many)


@test
def a_bomb_is_refused_before_it_has_grown():
    zeros = bytes(48 << 20)
    content = files(**{"data/zeros": zeros})
    data = archive(good(content))
    assert len(data) < 100_000
    refused(write("bomb", data), "more than 200 times its size")
    noise = os.urandom(3 << 20)  # the control: as large as this when compressed, too
    assert bundle("install", write("noise", archive(good(files(**{"data/noise": noise}))))).status == 0
    forget()


@test
def another_bundle_of_the_same_name_and_version_is_refused():
    first, second = write("one", archive(good())), write("two", archive(good(files(**{"data/b": b"b"}))))
    digest = "sha256:" + hashlib.sha256(first.read_bytes()).hexdigest()
    refused(first, "the bundle's digest is " + digest, args=("--digest", "sha256:" + "0" * 64))
    assert bundle("install", first, "--digest", digest).status == 0
    refused(second, "is another one now", digest)
    assert bundle("remove", "helper@1.2.0").status == 0
    refused(second, "is another one now", digest)
    assert bundle("install", first).status == 0
    forget()
    assert bundle("install", second).status == 0
    forget()


@test
def a_place_that_is_taken_is_not_replaced():
    file = write("one", archive(good()))
    taken = scratch() / INSTALLED / "helper/1.2.0"
    taken.mkdir(parents=True, mode=0o700)
    os.chmod(scratch() / "data/brig", 0o700)
    (taken / "mine").write_text("mine")
    refused(file, "cannot give bundle 'helper' its place")
    assert (taken / "mine").read_text() == "mine"
    shutil.rmtree(taken.parent)
    os.symlink(scratch(), scratch() / INSTALLED / "helper")
    refused(file, "cannot open the folder of bundle 'helper'")
    (scratch() / INSTALLED / "helper").unlink()
    assert bundle("install", file).status == 0
    forget()


@contextlib.contextmanager
def named_user():
    """A passwd with whoever starts brig, for this test's mount namespace alone: ssh-keygen wants a name."""
    if uid() == 0:
        yield
        return
    (scratch() / "passwd").write_text(f"{pathlib.Path('/etc/passwd').read_text()}tester:x:{uid()}:{uid()}::/:/bin/sh\n")
    with files_as_root():
        subprocess.run(["mount", "--bind", scratch() / "passwd", "/etc/passwd"], check=True)
    try:
        yield
    finally:
        with files_as_root():
            subprocess.run(["umount", "/etc/passwd"], check=True)


@test
def a_folder_of_the_same_name_is_not_in_the_way():
    # As whoever follows the recipe has it: the folder that was packed is still there.
    env = {"XDG_DATA_HOME": str(scratch() / "data")}
    (workspace() / "helper").mkdir()
    file = write("one", archive(good()))
    assert bundle("install", file).status == 0
    done = brig("agent", "helper", "-p", "hi", env=env)
    assert done.status == 125 and "nobody has allowed it" in done.errors, done.errors
    done = brig("allow", "helper", env=env)
    assert done.status == 0 and "trusted as it is now" in done.text, done.errors
    for program in (("agent", "helpr", "-p", "hi"), ("allow", "helpr")):
        done = brig(*program, env=env)
        assert done.status == 125 and "no file 'helpr', and no bundle" in done.errors and "brig bundle list" in done.errors, done.errors
    forget()


@test
def what_could_not_be_signed_is_not_left_unsigned():
    file = scratch() / "a.bundle"
    assert bundle("pack", role_folder(), "-o", file).status == 0 and file.exists()
    done = bundle("pack", role_folder(), "-o", file, "--sign", scratch() / "no-such-key")
    assert done.status == 125 and not file.exists() and not (scratch() / "a.bundle.sig").exists(), done.errors


@test(as_user="user")
def a_user_without_a_name_is_told_why_nothing_is_verified():
    file = write("one", archive(good()))
    write("one.sig", b"any")
    write("key.pub", b"ssh-ed25519 AAAA" + b"A" * 64 + b"\n")
    refused(file, "works for no user without a name", args=("--verify-key", scratch() / "key.pub"))


@test(by_root=True)
def only_the_key_that_was_asked_for_is_believed():
    with named_user():
        signatures()


def signatures():
    for name in ("mine", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", scratch() / name], check=True)
        for path in (scratch() / name, scratch() / f"{name}.pub"):
            os.chown(path, uid(), uid())
    file = scratch() / "a.bundle"
    done = bundle("pack", role_folder(), "-o", file, "--sign", scratch() / "mine", "--json")
    assert done.status == 0 and done.json["signed"], (done.text, done.errors)
    sig = scratch() / "a.bundle.sig"
    mine, other = ("--verify-key", scratch() / "mine.pub"), ("--verify-key", scratch() / "other.pub")
    refused(file, "is not one by the key", args=other)
    whole, signature = file.read_bytes(), sig.read_bytes()
    (changed := scratch() / "changed").write_bytes(archive(good()))
    shutil.copy(sig, scratch() / "changed.sig")
    refused(changed, "is not one by the key", args=mine)
    # Signed by that key, for another purpose.
    (scratch() / "changed.sig").unlink()
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", scratch() / "mine", changed], check=True, stdin=subprocess.DEVNULL, capture_output=True)
    refused(changed, "is not one by the key", args=mine)
    for text in (b"", b"not a signature", signature[:-40], os.urandom(300)):
        sig.write_bytes(text)
        refused(file, "is not one by the key", args=mine)
    sig.unlink()
    refused(file, "has no signature", args=mine)
    both = scratch() / "both.pub"
    both.write_bytes((scratch() / "mine.pub").read_bytes() + (scratch() / "other.pub").read_bytes())
    sig.write_bytes(signature)
    refused(file, "is not one public key", args=("--verify-key", both))
    both.write_text("cert-authority,namespaces=\"x\" ssh-ed25519 AAAA\n")
    refused(file, "is not one public key", args=("--verify-key", both))
    assert file.read_bytes() == whole
    done = bundle("install", file, *mine, "--json")
    assert done.status == 0 and done.json["signer"].startswith("SHA256:"), (done.text, done.errors)
    shown = subprocess.run(["ssh-keygen", "-l", "-f", scratch() / "mine.pub"], check=True, capture_output=True, text=True).stdout
    assert done.json["signer"] in shown
    forget()


@test
def an_installation_warns_when_no_listed_backend_is_ready():
    def attempt(*listed):
        content = files()
        file = write("b", archive(good(content, manifest(content, supported_sandbox_backends=list(listed)))))
        done = bundle("install", file, "--json", env={"DOCKER_HOST": f"unix://{scratch()}/no-engine"})
        assert done.status == 0, done.errors
        forget()
        return done

    for listed in (("docker",), ("nothing-known",)):
        done = attempt(*listed)
        assert not done.json["backend_ready"] and "no backend that the bundle supports is ready here" in done.errors, (listed, done.errors)
        assert "brig doctor" in done.errors
    for listed in (("bwrap",), ("bwrap", "docker"), ("docker", "bwrap"), ()):
        done = attempt(*listed)
        assert done.json["backend_ready"] and "warning" not in done.errors, (listed, done.errors)


@test
def bundles_of_initrunner_install_here():
    content = files()
    said = manifest(content, created_at="2026-04-16T00:00:00+00:00", initrunner_version="2026.4.16", dependencies=["requests"], author="x")
    text = json.dumps(said, indent=2).encode()
    entries = [entry("manifest.json", text), *(entry(p, d, mtime=1700000000.5, uname="x", mode=0o664) for p, d in content.items())]
    file = write("theirs.tar.gz", archive(entries, form=tarfile.PAX_FORMAT))
    done = bundle("install", file)
    assert done.status == 0, done.errors
    forget()


@test
def words_that_mean_nothing_are_told_with_a_next_step():
    for args, why, hint in ((("pakc", "x"), "knows no 'pakc'", "did you mean 'brig bundle pack'"), (("pack",), "missing something", "usage: brig bundle pack"),
                            (("install",), "missing something", "usage:"), (("install", "gone"), "cannot open 'gone'", "REPOSITORY"),
                            (("install", "x", "--frobnicate"), "does not accept", "--help"), (("remove", "helper"), "missing something", "NAME@VERSION"),
                            (("remove", "helper@1"), "is not installed", "list"), (("push", "x", "nowhere"), "no reference", "HOST"),
                            (("install", "x", "--digest", "sha256:12"), "not sha256:", "inspect")):
        done = bundle(*args)
        assert done.status == 125 and why in done.errors and hint in done.errors, (args, done.errors)
    assert "supported_sandbox_backends" in json.loads(bundle("schema").text)["properties"]
    for verb in ("pack", "inspect", "install", "push", "pull", "list", "remove"):
        done = brig("bundle", verb, "--help")
        assert done.status == 0 and f"usage: brig bundle {verb}" in done.text, done.text


if __name__ == "__main__":
    sys.exit(main())
