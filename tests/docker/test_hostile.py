#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Images and neighbours that turn what is mounted, or what runs, to another place; and engines that make something else.

Images are made here from busybox. What they could do is shown first, on the same engine without brig: the control."""

import contextlib
import hashlib
import io
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tarfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import common  # noqa: E402
from common import CLOSED, FOLDER, box, container_of, engine, image, podmans, shared_engine, shared_podmans, start_box, token  # noqa: E402
from two_runs import GIVE, PROGRAM, TAKE  # noqa: E402
from harness import PATIENCE, around, brig_path, files_as_root, home, identity, main, scratch, state, test, uid, wait_until, workspace  # noqa: E402

around(shared_engine)
around(shared_podmans)


def mine(name):
    """The same file runs as root and as a user, side by side on one engine."""
    return f"hostile-{identity()}:{name}"


def settle_all(folder):
    """Root's command is user 1000 in the container."""
    for path in (folder, *folder.rglob("*")) if identity() == "root" else ():
        os.chown(path, 1000, 1000, follow_symlinks=False)


def run_bare(e, body, refusal=None):
    """What the engine makes of it without brig: (exit status, output), or None for the status if it says that refusal."""
    status, made = e.ask("POST", "/containers/create", {"Tty": True, **body, "HostConfig": {"NetworkMode": "none", **body.get("HostConfig", {})}})
    assert status == 201, made
    try:
        status, text = e.ask("POST", f"/containers/{made['Id']}/start")
        if refusal and refusal in str(text):
            return None, text
        assert status == 204, text
        status, end = e.ask("POST", f"/containers/{made['Id']}/wait")
        return end["StatusCode"], e.ask("GET", f"/containers/{made['Id']}/logs?stdout=1&stderr=1")[1]
    finally:
        e.ask("DELETE", f"/containers/{made['Id']}?force=1&v=1")


def nothing_left():
    """Nothing of this test's runs: each has a note for as long as the engine has something of it."""
    return wait_until(lambda: not list((state() / "brig/docker").iterdir()), 10, 0.1)


def engines():
    return (common.shared, podmans[identity()])


# ---- a folder that outlives its container ----


def hand_over(tries, *options, **python):
    """What a run gets done by folders of another that has ended."""
    stays = start_box("--json", *options, "--", "python3", "both.py", "stay", *tries, **python)
    first = box(*options, "--", "python3", "both.py", "go", *dict.fromkeys(t.split(":")[0] for t in tries), settled=False, **python)
    (workspace() / "ended").touch()
    out, err = stays.communicate(timeout=60 * PATIENCE)
    r = json.loads(out)
    assert first.status == 0 and r["exit_code"] == 0, (first.errors, err, r)
    for name in ("ended", "s.sock"):
        (workspace() / name).unlink()
    return r, err.decode()


def pwned(*folders):
    return [p for f in folders for p in f.rglob("*") if p.is_file() and "PWNED" in p.read_text(errors="replace") and p.name != "both.py"]


@test(limit=90)
def what_a_container_left_to_another_is_not_written_past_its_covers():
    """Hooks, a folder that is only read in one that is written, and brig's own state, which is masked, by folders that outlive their container."""
    subprocess.run(["git", "init", "-q", workspace()], check=True)
    (workspace() / ".git/hooks/pre-commit").write_text("mine\n")
    (workspace() / "both.py").write_text(PROGRAM)
    data = scratch() / "data"
    (data / "b").mkdir(parents=True)
    with files_as_root():
        settle_all(workspace())
        settle_all(data)
    grants = ["--write", data, "--read", data / "b"]
    tries = [".:write:.git/hooks/pre-commit", ".:write:.git/hooks/new", f"{data}:write:b/file"]
    if identity() == "user":  # root's is closed to who is inside
        (state() / "brig").mkdir(exist_ok=True)
        (state() / "brig/probe").write_text("private\n")
        grants += ["--read", state()]
        tries += [f"{state()}:read:brig/probe"]
    r, err = hand_over(tries, *grants, image=engine.PYTHON_IMAGE)
    assert len(r["stdout"].splitlines()) == len(tries) and "+" not in r["stdout"] and not pwned(workspace(), data), (r["stdout"], err)
    assert not r["denials"] and "cannot be locked" not in err, (r["denials"], err)
    (state() / "brig/probe").unlink(missing_ok=True)
    if identity() == "root":  # control: where the mounts are not locked, which is told; and what was covered is taken away
        for path in (workspace(), workspace() / ".git/hooks"):
            path.chmod(0o777)
        r, err = hand_over(tries[1:2], "--set", "docker.user=0:0", image=engine.PYTHON_IMAGE)
        assert "+ write .git/hooks/new" in r["stdout"] and "cannot be locked" in err, (r["stdout"], err)
        assert any(d["target"].startswith(".git/hooks") for d in r["denials"]) and not pwned(workspace()), r["denials"]
        done = box("--profile", "strict", "--set", "docker.user=0:0", "--", "true")
        assert done.status == 125 and "strict profile" in done.errors, done.errors


@test(limit=90)
def what_a_container_was_given_and_writes_later_is_judged_when_it_ends():
    """A descriptor of a plain configuration, given by a run that has ended and was judged, to one that only reads. The control: it is written."""
    make = "import os; [os.makedirs('n/.git/' + x) for x in ('objects', 'refs')]; open('n/.git/HEAD', 'w').write('ref: refs/heads/main\\n'); open('n/.git/config', 'w').write('[core]\\n\\tbare = false\\n'); "
    taker = start_box("--policy", "readonly", "--json", "--", "python3", "-c", TAKE, "s", f"\tfsmonitor = touch {scratch()}/ran\n", image=engine.PYTHON_IMAGE, stdin=subprocess.PIPE)
    first = box("--json", "--", "python3", "-c", make + GIVE, "s", "n/.git/config", image=engine.PYTHON_IMAGE, settled=False).json
    config = workspace() / "n/.git/config"
    assert first["exit_code"] == 0 and first["denials"] == [] and config.exists(), first
    out, err = taker.communicate(b"x", timeout=60 * PATIENCE)
    second = json.loads(out)
    assert "written" in second["stdout"], (second, err)
    assert not config.exists() and [d["target"] for d in second["denials"]] == ["n/.git/config"], second["denials"]
    subprocess.run(["git", "-C", workspace() / "n", "status"], capture_output=True, check=False)
    assert not (scratch() / "ran").exists()
    with files_as_root():
        shutil.rmtree(state() / "brig/quarantine")


UNDO = "umount .git/hooks; unshare -Um umount .git/hooks; unshare -Urm umount .git/hooks; mount -o remount,bind,rw .git/hooks; echo EVIL > .git/hooks/new"


@test
def no_cover_is_taken_off_by_the_guest():
    """On both engines, in user and mount namespaces of the guest's own, too."""
    subprocess.run(["git", "init", "-q", workspace()], check=True)
    hooks = workspace() / ".git/hooks"
    with files_as_root():
        settle_all(workspace())
    for e in engines():
        done = box("--json", "--", "sh", "-c", UNDO, host=e.host).json
        assert not (hooks / "new").exists() and done["stderr"].count("ermitted") == 3 and "Read-only file system" in done["stderr"], done["stderr"]
    with files_as_root():  # control: the same mounts in a container that may
        common.shared.ask("GET", "/_ping")
        binds = [f"{workspace()}:/w", f"{hooks}:/w/.git/hooks:ro"]
        status, text = run_bare(common.shared, {"Image": engine.IMAGE, "Cmd": ["sh", "-c", UNDO], "WorkingDir": "/w",
                                               "HostConfig": {"Binds": binds, "CapAdd": ["SYS_ADMIN"], "SecurityOpt": ["seccomp=unconfined", "apparmor=unconfined"]}})
        assert status == 0 and (hooks / "new").exists(), (status, text)
        (hooks / "new").unlink()


# ---- links in the image ----

AT = ("--set", "workspace.target=/workspace")
WAY = (("workspace", "/home/brig/l"), ("home", FOLDER), ("home/brig", FOLDER), ("home/brig/l", "/r/ws"), ("r", FOLDER), ("r/ws", FOLDER))
LINKS = {  # what the image has; the path that is named; whether Docker shows it (it puts files of its own over some)
    "cover": (WAY, "/workspace", True),
    "passwd": ((("etc/passwd", "/workspace/sub/left"),), "/etc/passwd", True),
    "group": ((("etc/group", "/workspace/sub/left"),), "/etc/group", True),
    "hosts": ((("etc/hosts", "/workspace/left"),), "/etc/hosts", False),
    "etc": ((("etc", "/workspace/e"),), "/etc", False),
    "home": ((("home", "/r"), ("r", FOLDER)), "/home", True),
    "home2": ((("home", FOLDER), ("home/brig", "/workspace")), "/home/brig", True),
    "tmp": ((("tmp", "/workspace"),), "/tmp", True),
    "magic": ((("workspace", "/proc/self/cwd/r"), ("r", FOLDER)), "/workspace", True),
    "loop": ((("workspace", "/workspace"),), "/workspace", True),
    "up": ((("workspace", "../../../../../../r"), ("r", FOLDER)), "/workspace", True),
    "file": ((("workspace", b"not a folder"),), "/workspace", True),
    "folder": ((("etc/passwd", FOLDER),), "/etc/passwd", True),
    "sys": ((("sys", "/workspace"),), "/sys", False),
}


@test(limit=240)
def a_link_on_the_way_of_a_mount_refuses_the_image():
    for e in engines():
        podman = e is not common.shared
        for name, (entries, path, plain) in LINKS.items():
            if podman and name not in ("cover", "passwd", "hosts", "home2", "loop"):
                continue  # each look costs Podman a twentieth of a second
            e.import_image(image(*entries), mine(name))
            done = box("--json", *AT, "--", "sh", "-c", "touch /workspace/ran /r/ws/ran", image=mine(name), host=e.host)
            r = done.json
            if plain or podman or r["outcome"] == "refused":
                assert r["outcome"] == "refused" and done.status == 125, (name, r)
                assert not plain or f"at '{path}'" in r["error"]["what"] and mine(name) in r["error"]["what"], (name, r["error"])
            else:
                (workspace() / "ran").unlink()
            assert not os.listdir(workspace()), (name, os.listdir(workspace()))
        assert nothing_left()


@test(limit=120)
def an_image_that_is_against_the_workspaces_own_path_gets_it_elsewhere():
    """Nobody asked for the place: it is at /workspace then, covers and all, and said. Where somebody did, the run is refused."""
    (workspace() / ".git/hooks").mkdir(parents=True)
    (workspace() / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (workspace() / ".git/objects").mkdir()
    (workspace() / "sub").mkdir()
    with files_as_root():
        subprocess.run(["chown", "-R", "1000:1000" if identity() == "root" else f"{uid()}", workspace()], check=True)
    top, *rest = workspace().parts[1:4]
    deep = [("/".join([top, *rest[:i]]), FOLDER) for i in range(len(rest))]  # Podman mounts folders of its own in /var
    ways = {"link": ((top, "/r"), ("r", FOLDER)), "file": ((top, b"no folder"),), "closed": ((top, CLOSED),), "volume": (("r", FOLDER),),
            "deep": (*deep, ("/".join([top, *rest]), "/r"), ("r", FOLDER))}
    script = "pwd; touch ran; echo evil > .git/hooks/pre-commit; echo evil > sub/x; ls -A /r"
    for e in engines():
        for name, entries in ways.items():
            if e is not common.shared and name != "deep":
                continue  # each look costs Podman a twentieth of a second
            e.import_image(image(*entries), mine(f"own-{name}"), changes=[f"VOLUME {workspace()}/v"] if name == "volume" else ())
            done = box("--json", "--read", workspace() / "sub", "--", "sh", "-c", script, image=mine(f"own-{name}"), host=e.host)
            r = done.json
            assert (r["outcome"], r["workspace_target"]) == ("exited", "/workspace") and r["stdout"].startswith("/workspace\n"), (name, r)
            assert "the workspace is at '/workspace' inside" in done.errors, done.errors
            assert (workspace() / "ran").exists() and not (workspace() / ".git/hooks/pre-commit").exists() and not os.listdir(workspace() / "sub"), name
            (workspace() / "ran").unlink()
            r = box("--json", "--set", "workspace.target=same", "--", "touch", "ran", image=mine(f"own-{name}"), host=e.host).json
            assert r["outcome"] == "refused" and mine(f"own-{name}") in r["error"]["what"] and not (workspace() / "ran").exists(), (name, r)
        e.import_image(image((top, FOLDER)), mine("own-plain"))
        r = box("--json", "--", "pwd", image=mine("own-plain"), host=e.host).json
        assert r["workspace_target"] == str(workspace()) and r["stdout"] == f"{workspace()}\n", r
    assert nothing_left()


@test(limit=120)
def a_repository_around_the_workspace_is_read_only_and_stays_behind_where_it_cannot_be():
    top, sub = workspace(), workspace() / "sub"
    for name in (".git/objects", ".git/refs/heads", ".git/hooks", "sub"):
        (top / name).mkdir(parents=True)
    for name, text in ((".git/HEAD", "ref: refs/heads/main\n"), (".git/config", "[core]\n"), ("file", "SECRET\n")):
        (top / name).write_text(text)
    with files_as_root():
        subprocess.run(["chown", "-R", "1000:1000" if identity() == "root" else f"{uid()}", top], check=True)
    first = top.parts[1]
    script = "cat ../file ../.git/HEAD; echo x > ../.git/refs/heads/new; for f in ../file ../new ../.git/config ../.git/hooks/pre-commit ../.git/commondir; do echo evil > $f; done; touch ran"
    common.shared.import_image(image((first, FOLDER)), mine("plain"))
    done = box("--json", "--workdir", sub, "--", "sh", "-c", script, image=mine("plain"))
    if identity() == "root":  # root is shown nothing of another user's around the workspace
        assert done.json["stdout"] == "" and "belongs to somebody else" in done.errors and "repository" not in done.json, (done.json, done.errors)
        assert (sub / "ran").exists() and not (top / ".git/refs/heads/new").exists() and (top / "file").read_text() == "SECRET\n" and nothing_left()
        return
    assert done.json["repository"] == str(top), done.json
    assert done.json["stdout"] == "SECRET\nref: refs/heads/main\n" and "whole history" in done.errors, (done.json, done.errors)
    assert (sub / "ran").exists() and (top / ".git/refs/heads/new").exists() and sorted(os.listdir(top)) == [".git", "file", "sub"]
    assert (top / "file").read_text() == "SECRET\n" and (top / ".git/config").read_text() == "[core]\n" and not os.listdir(top / ".git/hooks") and not (top / ".git/commondir").exists()
    assert f"{top}/.git  (git folder)" in common.brig("exposed").text
    (sub / "ran").unlink()
    # What was asked for around the workspace stays where it is when the workspace cannot.
    (top / "other").mkdir()
    (top / "other/theirs").write_text("THEIRS\n")
    common.shared.import_image(image((first, FOLDER)), mine("below"), changes=[f"VOLUME {top}/v"])
    for option in (("--read", top / "other"), ("--mount", f"{top}/other:{top}/other")):
        r = box("--json", "--workdir", sub, *option, "--", "sh", "-c", f"cat {top}/other/theirs {top}/file; ls -A {top}; echo evil > {top}/other/theirs", image=mine("below")).json
        assert (r["workspace_target"], r["stdout"]) == ("/workspace", "THEIRS\nother\nv\n") and (top / "other/theirs").read_text() == "THEIRS\n", r
    r = box("--json", "--workdir", sub, "--read", top, "--", "touch", "ran2", image=mine("below")).json
    assert r["outcome"] == "refused" and not (sub / "ran2").exists(), r
    shutil.rmtree(top / "other")
    common.shared.import_image(image((first, "/r"), ("r", FOLDER)), mine("link"))
    r = box("--json", "--workdir", sub, "--", "sh", "-c", f"{script}; cat {top}/file; ls -A /r", image=mine("link")).json
    assert (r["outcome"], r["workspace_target"], r["stdout"]) == ("exited", "/workspace", "") and (sub / "ran").exists() and "repository" not in r, r
    assert (top / "file").read_text() == "SECRET\n" and sorted(os.listdir(top)) == [".git", "file", "sub"] and nothing_left()


@test(limit=120)
def a_link_below_a_target_of_ones_own_refuses_the_image():
    e = common.shared
    extra = scratch() / "extra"
    extra.mkdir()
    os.chown(extra, 1000 if identity() == "root" else uid(), -1)
    e.import_image(image(("data", "/workspace"), ("opt", FOLDER), ("opt/a", "/bin")), mine("target"))
    for target, named in (("/data", "/data"), ("/data/x", "/data"), ("/opt/a/b/c", "/opt/a")):
        r = box("--json", "--mount", f"{extra}:{target}", "--", "true", image=mine("target")).json
        assert r["outcome"] == "refused" and f"at '{named}'" in r["error"]["what"] and target in r["error"]["what"], r
    assert box("--mount", f"{extra}:/opt/b/c", "--", "true", image=mine("target")).status == 0
    # The other way round: a volume of the image's own choice.
    for volume, named in (("/data/v", "/data"), ("/opt/a", "/opt/a")):
        e.import_image(image(("data", "/workspace"), ("opt", FOLDER), ("opt/a", "/bin")), mine("volume"), changes=[f"VOLUME {volume}"])
        r = box("--json", "--", "true", image=mine("volume")).json
        assert r["outcome"] == "refused" and f"at '{named}'" in r["error"]["what"], r
    for volume in ("/proc/x", "/dev/shm", "/"):
        with contextlib.suppress(AssertionError):  # an engine may refuse to make it
            e.import_image(engine.busybox_tar(), mine("odd"), changes=[f"VOLUME {volume}"])
            assert box("--json", "--", "true", image=mine("odd")).json["outcome"] == "refused", volume
    assert not os.listdir(workspace()) and nothing_left()
    extra.rmdir()


@test(limit=120)
def a_mount_that_the_gate_cannot_look_at_begins_nothing():
    """A folder of the image's is closed to the user inside. What is mounted below it cannot be compared, and the command must not begin there."""
    e = common.shared
    extra = scratch() / "extra"
    extra.mkdir()
    (extra / "file").write_text("shown")
    for path in (extra, extra / "file"):
        os.chown(path, 1000 if identity() == "root" else uid(), -1)
    e.import_image(image(("closed", CLOSED), ("closed/w", FOLDER), ("closed/w/in", FOLDER), ("closed/x", FOLDER)), mine("closed"))
    e.import_image(image(("closed", FOLDER), ("closed/w", FOLDER), ("closed/w/in", FOLDER), ("closed/x", FOLDER)), mine("opened"))
    look = ("--", "sh", "-c", "touch ran; cat /closed/x/file")
    for target, more in (("/closed/w/in", ()), ("/closed/w", ("--mount", f"{extra}:/closed/x"))):
        options = ("--json", "--set", f"workspace.target={target}", *more)
        done = box(*options, *look, image=mine("opened"))  # the control: it is the folder that is closed
        assert done.json["outcome"] == "exited" and (workspace() / "ran").exists() and bool(more) == ("shown" in done.json["stdout"]), done.json
        (workspace() / "ran").unlink()
        r = box(*options, *look, image=mine("closed")).json
        assert r["outcome"] == "refused" and ("a folder on the way is closed to the user inside" in r["error"]["what"]), r
        assert not os.listdir(workspace()), os.listdir(workspace())
    # Elsewhere the command cannot go there either.
    done = box("--mount", f"{extra}:/closed/x", *look, image=mine("closed"))
    assert done.status == 1 and b"shown" not in done.stdout and "Permission denied" in done.errors, (done.stdout, done.errors)
    shutil.rmtree(extra)
    assert nothing_left()


@test(as_user="root", limit=120)
def without_brig_the_same_links_take_the_covers_off():
    e = common.shared
    work = scratch() / "work"
    (work / ".git/hooks").mkdir(parents=True)
    e.import_image(image(*WAY), mine("control"))
    bind = [{"Type": "bind", "Source": str(work), "Target": "/workspace"},
            {"Type": "bind", "Source": str(work / ".git/hooks"), "Target": "/workspace/.git/hooks", "ReadOnly": True}]
    run_bare(e, {"Image": mine("control"), "Cmd": ["sh", "-c", "echo evil > /r/ws/.git/hooks/pre-commit"],
                 "HostConfig": {"Mounts": bind, "Tmpfs": {"/home/brig": ""}}})
    assert (work / ".git/hooks/pre-commit").read_text() == "evil\n"
    # And the engine makes files for what is mounted through a link.
    e.import_image(image(("etc/passwd", "/workspace/sub/left")), mine("control"))
    bind = [{"Type": "bind", "Source": str(work), "Target": "/workspace"}, {"Type": "bind", "Source": "/etc/hostname", "Target": "/etc/passwd"}]
    run_bare(e, {"Image": mine("control"), "Cmd": ["true"], "HostConfig": {"Mounts": bind}})
    assert (work / "sub/left").exists()
    shutil.rmtree(work)


@test(limit=60)
def what_was_seen_of_an_image_is_kept_for_that_image_alone():
    e = common.shared
    e.import_image(image(("r", FOLDER)), mine("kept"))
    assert box("--", "true", image=mine("kept")).status == 0
    kept = list((state() / "brig/images").iterdir())
    assert len(kept) == 1 and kept[0].stat().st_size == 33 and (state() / "brig/images").stat().st_mode & 0o77 == 0, kept
    e.import_image(image(*WAY), mine("kept"))  # the same name, another image
    assert box("--json", *AT, "--", "true", image=mine("kept")).json["outcome"] == "refused"
    assert box("--set", "workspace.target=/r/ws", "--", "true", image=mine("kept")).status == 0  # where it has no link


# ---- the door's helper ----

EVIL = b"#!/bin/sh\nexit 77\n"
DOOR = ((".brig-door", "/proc/self/cwd/x"), ("x", EVIL), ("brig-door", EVIL), ("socket", "/x"), (".brig-door.socket", "/x"))


def saved_image(e, tag):
    """(status, `docker save` of it)."""
    c = engine._UnixConnection(str(e.socket))
    try:
        c.request("GET", f"/v1.41/images/{tag}/get")
        r = c.getresponse()
        return r.status, r.read()
    finally:
        c.close()


def archive(name, layer, Labels, **more):
    """An image as `docker save` writes it."""
    config = json.dumps({"architecture": engine.ARCHITECTURE, "os": "linux", "config": {"Labels": Labels, **more},
                         "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, data in (("config.json", config), ("layer.tar", layer), ("manifest.json", manifest)):
            info = tarfile.TarInfo(path)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


@contextlib.contextmanager
def helper_of(name, e):
    """The helper's container while a run of that image is behind it, as the engine describes it."""
    word = token()
    p = start_box("--network", "proxy", "--allow", "example.org", "--", "sh", "-c", f"unset LD_PRELOAD; : {word}; read end", image=name, host=e.host,
                  stdin=subprocess.PIPE)
    try:
        run = container_of(word, e, running=True)
        yield e.ask("GET", f"/containers/{run}-door/json")[1]
    finally:
        _, errors = p.communicate(b"\n", timeout=60 * PATIENCE)
    assert p.returncode == 0, errors


def is_brigs_own(helper, hostile):
    """Root, program, privileges, variables and mounts: as brig made it, whatever the other image says."""
    config, host = helper["Config"], helper["HostConfig"]
    assert hostile not in helper["Image"], helper["Image"]
    assert [c.removeprefix("CAP_") for c in host["CapAdd"]] == ["NET_ADMIN"] and host["ReadonlyRootfs"] and not host["Privileged"], host["CapAdd"]
    assert any(o.startswith("seccomp=") for o in host["SecurityOpt"]), host["SecurityOpt"]
    assert [m["Destination"] for m in helper["Mounts"]] == ["/socket"], helper["Mounts"]
    assert helper["Path"] == "/brig-door" and helper["Args"] in ([], ["/brig-door"]), (helper["Path"], helper["Args"])
    assert config["Entrypoint"] in (["/brig-door"], "/brig-door") and not config.get("Cmd") and config["User"] == "0:0", config
    assert not [v for v in config.get("Env") or () if "PRELOAD" in v or "evil" in v], config["Env"]
    assert (config.get("Healthcheck") or {"Test": ["NONE"]})["Test"] == ["NONE"] and not config.get("OnBuild"), config


def has_brigs_program(e, helper):
    """Of one layer, and in that nothing but the program and an empty file."""
    status, saved = saved_image(e, helper["Image"])
    assert status == 200, status
    with tarfile.open(fileobj=io.BytesIO(saved)) as outer:
        layers = json.load(outer.extractfile("manifest.json"))[0]["Layers"]
        with tarfile.open(fileobj=io.BytesIO(outer.extractfile(layers[0]).read())) as tar:
            held = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}
    own = (pathlib.Path(brig_path()).parent / "brig-door").read_bytes()
    assert len(layers) == 1 and held == {"brig-door": own, "socket": b""}, (layers, list(held))


# What the run's own image brings along: entries, and settings.
OWN = {
    "links": (DOOR, {}),
    "targets": ((("socket", "/proc/self/exe"), ("brig-door", "/proc/1/exe"), ("x", EVIL)), {}),
    "folders": ((("socket", FOLDER), ("brig-door", FOLDER), (".brig-door.socket", FOLDER)), {}),
    "volumes": ((("x", EVIL),), {"Volumes": {"/socket": {}, "/brig-door": {}}}),
    "settings": (DOOR, {"Entrypoint": ["/x"], "Cmd": ["evil"], "WorkingDir": "/evil", "Shell": ["/x"], "StopSignal": "SIGCONT", "OnBuild": ["RUN /x"],
                        "Healthcheck": {"Test": ["CMD", "/x"], "Interval": 10 ** 9}, "ExposedPorts": {"1/tcp": {}}, "Labels": {"brig.door": "evil"}}),
    "user": ((*DOOR, ("etc/passwd", b"root:x:4242:4242::/evil:/x\n"), ("etc/group", b"root:x:4242:\n")),
             {"User": "12345:12345", "Env": ["LD_PRELOAD=/x", "LD_LIBRARY_PATH=/evil", "GCONV_PATH=/evil"]}),
}


@test(limit=180)
def the_doors_helper_runs_in_a_root_of_brigs_own():
    for e in engines():
        for name, (entries, settings) in OWN.items():
            if e is not common.shared and name != "links":
                continue  # each costs Podman seconds
            tag = mine(f"door-{name}")
            settings = {"Labels": {}, **settings}
            assert e.ask("POST", "/images/load", archive(f"localhost/{tag}", image(*entries), **settings), "application/x-tar")[0] == 200
            hostile = e.ask("GET", f"/images/localhost/{tag}/json")[1]["Id"].split(":")[-1]
            with helper_of(f"localhost/{tag}", e) as helper:
                is_brigs_own(helper, hostile)
            if name == "links":
                has_brigs_program(e, helper)
        assert nothing_left()


@test(limit=60)
def labels_of_the_image_do_not_say_whose_a_container_is():
    e, tag = common.shared, mine("labels")
    named = {"brig.run": "x", "brig.nonce": "x", "brig.sandbox": "sb-1", "brig.instance": "x", "brig.user.team": "x", "brig.door": "x", "other": "kept"}
    assert e.ask("POST", "/images/load", archive(f"localhost/{tag}", image(), named), "application/x-tar")[0] == 200
    assert e.ask("GET", f"/images/localhost/{tag}/json")[1]["Config"]["Labels"] == named  # the control: a container has them, too
    word = token()
    p = start_box("--", "sh", "-c", f": {word}; read end", image=f"localhost/{tag}", stdin=subprocess.PIPE)
    try:
        labels = e.ask("GET", f"/containers/{container_of(word, running=True)}/json")[1]["Config"]["Labels"]
    finally:
        _, errors = p.communicate(b"\n", timeout=60 * PATIENCE)
    assert p.returncode == 0, errors
    assert {n: v for n, v in labels.items() if v == "x"} == {} and labels["brig.sandbox"] == "" and labels["other"] == "kept", labels
    assert len(labels["brig.nonce"]) == 32, labels


@test(as_user="root", limit=60)
def without_a_root_of_its_own_the_images_program_would_be_the_helper():
    e = common.shared
    e.import_image(image(*DOOR), mine("trick"))
    helper = pathlib.Path(brig_path()).parent / "brig-door"
    status, _ = run_bare(e, {"Image": mine("trick"), "Entrypoint": ["/.brig-door"], "User": "0:0",
                             "HostConfig": {"CapAdd": ["SYS_ADMIN"], "ReadonlyRootfs": False,
                                            "Mounts": [{"Type": "bind", "Source": str(helper), "Target": "/.brig-door", "ReadOnly": True}]}},
                         refusal="too many levels of symbolic links")  # runc itself since 1.3
    assert status in (77, None), status


@test(limit=120)
def an_image_that_calls_itself_the_helpers_is_not_used():
    e = podmans[identity()]  # nobody else's at this time
    run = ("--json", "--network", "proxy", "--allow", "example.org", "--", "true")
    assert box(*run, host=e.host, timeout=60).json["outcome"] == "exited"
    _, images = e.ask("GET", "/images/json")
    tags = [t for i in images for t in i["RepoTags"] or () if t.startswith("localhost/brig-door:")]
    assert len(tags) == 1 and len(tags[0].rpartition(":")[2]) == 32, tags
    repo, _, tag = tags[0].rpartition(":")
    # Another image under that name, then one of an older brig.
    assert e.ask("POST", f"/images/{engine.IMAGE}/tag?repo={repo}&tag={tag}")[0] == 201
    r = box(*run, host=e.host, timeout=60).json
    assert r["outcome"] == "refused" and "is not the one that brig made" in r["error"]["what"] and "rmi" in r["error"]["hint"], r
    assert e.ask("DELETE", f"/images/{tags[0]}?force=1")[0] == 200
    assert e.ask("POST", "/images/load", archive(f"{repo}:{'0' * 32}", image(("brig-door", EVIL)), {"brig.door": "old"}), "application/x-tar")[0] == 200
    assert box(*run, host=e.host, timeout=60).json["outcome"] == "exited"
    _, images = e.ask("GET", "/images/json")
    assert [t for i in images for t in i["RepoTags"] or () if "brig-door" in t] == tags, images
    settings_beside_the_true_layer_are_not_obeyed(e, tags[0], run)


def settings_beside_the_true_layer_are_not_obeyed(e, tag, run):
    """Anybody knows brig's layer: an archive that somebody loads can have it under the same name, with settings."""
    status, saved = saved_image(e, tag)
    assert status == 200
    with tarfile.open(fileobj=io.BytesIO(saved)) as tar:
        layer = tar.extractfile(json.load(tar.extractfile("manifest.json"))[0]["Layers"][0]).read()
    for name, more in (("user", {"User": "12345"}), ("command", {"Cmd": ["evil"]}), ("variable", {"Env": ["LD_PRELOAD=/socket"]}),
                       ("volume", {"Volumes": {"/socket": {}}}), ("port", {"ExposedPorts": {"1/tcp": {}}}), ("entry", {"Entrypoint": ["/socket", "evil"]}),
                       ("health", {"Healthcheck": {"Test": ["CMD", "/brig-door", "evil"], "Interval": 10 ** 9}})):
        assert e.ask("DELETE", f"/images/{tag}?force=1")[0] == 200
        assert e.ask("POST", "/images/load", archive(tag, layer, {"brig.door": "evil"}, **more), "application/x-tar")[0] == 200
        if name not in ("entry", "health"):
            r = box(*run, host=e.host, timeout=60).json
            assert r["outcome"] == "refused" and "is not the one that brig made" in r["error"]["what"], (name, r)
            continue
        with helper_of(engine.IMAGE, e) as helper:  # what brig says itself for every container is stronger
            is_brigs_own(helper, "evil")
    assert e.ask("DELETE", f"/images/{tag}?force=1")[0] == 200


@test(limit=120)
def what_the_helper_says_is_not_believed():
    """Somebody else answers at its socket: words without an end and with escapes, descriptors of another kind or network."""
    folder = state() / "brig/docker"
    word = b"\x1b[31m\x00A"
    mad = struct.pack("Iii", 12 + 384 + 256 + 8, 5, 99) + word * 95 + b"AAAA" + b"\x1bB" * 128 + bytes(8)
    fine = struct.pack("Iii", 12 + 384 + 256 + 8, 0, 0) + bytes(640 + 8)

    def answer(data, descriptors, seen):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            # It has a name a moment before it listens.
            assert wait_until(lambda: folder.exists() and any(s.connect_ex(str(p)) == 0 for p in folder.glob("*.door")), 20, 0.005)
            want = s.recv(4096)
            n = struct.unpack_from("N", want, 22 * 8)[0]
            socket.send_fds(s, [data], [descriptors.fileno()] * n if descriptors else [])
            seen.append(s.recv(1))

    with socket.create_server(("127.0.0.1", 0)) as host, open("/dev/null", "rb") as null, socket.socket() as plain:
        for data, descriptors, what in ((mad, None, "the door could not be opened"), (fine, host, "did not send the door's sockets"),
                                        (fine, null, "did not send the door's sockets"), (fine, plain, "did not send the door's sockets"),
                                        (fine, None, "did not send the door's sockets"), (b"short", None, "not of this version")):
            seen = []
            t = threading.Thread(target=answer, args=(data, descriptors, seen), daemon=True)
            t.start()
            done = box("--network", "proxy", "--allow", "example.org", "--", "touch", "ran", timeout=60)
            t.join(20)
            assert done.status == 125 and what in done.errors and b"\x1b" not in done.stderr and seen == [b""], (what, done.errors, seen)
            assert not os.listdir(workspace()) and nothing_left()


# ---- a source that is changed between brig's look and the engine's ----


@contextlib.contextmanager
def between(e, act):
    """A socket before the engine's: act() is called when a container with mounts is about to be started or made ready."""
    path = scratch() / "between"
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    os.chmod(path, 0o777)
    server.listen(16)
    done = []

    def pump(a, b, look):
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                if look and not done and (b"/attach?" in data or b"/start " in data):
                    done.append(True)
                    act()
                b.sendall(data)
        with contextlib.suppress(OSError):
            b.shutdown(socket.SHUT_WR)

    def serve():
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                up = socket.socket(socket.AF_UNIX)
                up.connect(str(e.socket))
                threading.Thread(target=pump, args=(client, up, True), daemon=True).start()
                threading.Thread(target=pump, args=(up, client, False), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"unix://{path}"
        assert done, "nothing was started"
    finally:
        server.close()
        path.unlink()


def swap(path, make):
    """What a neighbour that may write to the folder above does: the path is something else in one step."""
    aside = path.with_name(f".{path.name}.aside")
    make(aside)
    os.rename(path, path.with_name(f".{path.name}.was"))
    os.rename(aside, path)


@test(limit=180)
def a_source_that_is_swapped_meanwhile_is_never_shown():
    base = scratch() / "base"
    secret = base / "secret"

    def to_secret(aside):
        aside.symlink_to(secret)

    def to_folder(aside):
        aside.mkdir()
        (aside / "key").write_text("the key")

    cases = {
        "a link": (base / "shared/data", to_secret),
        "another folder": (base / "shared/data", to_folder),
        "a link above": (base / "shared", to_secret),
    }
    for e in engines():
        for name, (path, make) in cases.items():
            shutil.rmtree(base, ignore_errors=True)
            (base / "shared/data").mkdir(parents=True)
            (secret / "data").mkdir(parents=True)
            for folder in (secret, secret / "data"):
                (folder / "key").write_text("the key")
            for folder in (base, base / "shared", base / "shared/data", secret, secret / "data"):
                os.chown(folder, 1000 if identity() == "root" else uid(), -1)
            with between(e, lambda path=path, make=make: swap(path, make)) as host:
                r = box("--json", "--mount", f"{base}/shared/data:/data:rw", "--", "sh", "-c", "cat /data/key; touch /data/ran", host=host).json
            assert r["outcome"] == "refused" and r["stdout"] == "", (name, r)
            assert "'/data' inside is not what was to be mounted" in r["error"]["what"] or "was changed" in r["error"]["what"], (name, r["error"])
            assert not list(base.rglob("ran")), name
    # The control: that is what the engine shows where nobody looks again.
    if identity() == "root":
        shutil.rmtree(base)
        (base / "shared/data").mkdir(parents=True)
        secret.mkdir()
        (secret / "key").write_text("the key")
        e = common.shared
        body = {"Image": engine.IMAGE, "Cmd": ["cat", "/data/key"], "Tty": True,
                "HostConfig": {"NetworkMode": "none", "Mounts": [{"Type": "bind", "Source": f"{base}/shared/data", "Target": "/data"}]}}
        _, made = e.ask("POST", "/containers/create", body)
        swap(base / "shared/data", to_secret)
        assert e.ask("POST", f"/containers/{made['Id']}/start")[0] == 204 and e.ask("POST", f"/containers/{made['Id']}/wait")[0] == 200
        assert "the key" in e.ask("GET", f"/containers/{made['Id']}/logs?stdout=1")[1]
        e.ask("DELETE", f"/containers/{made['Id']}?force=1")
    shutil.rmtree(base)


@test(limit=120)
def a_cover_whose_source_is_swapped_does_not_begin():
    e = common.shared
    elsewhere = scratch() / "elsewhere"
    elsewhere.mkdir()
    os.chown(elsewhere, 1000 if identity() == "root" else uid(), -1)
    subprocess.run(["git", "init", "-q", workspace()], check=True, env={**os.environ, "HOME": str(home())})
    for name in ("hooks", "config"):
        path = workspace() / ".git" / name
        with between(e, lambda path=path: swap(path, lambda aside: aside.symlink_to(elsewhere))) as host:
            subprocess.run(["chown", "-R", "1000:1000" if identity() == "root" else f"{uid()}", workspace()], check=True)
            r = box("--json", "--", "sh", "-c", "touch ran; echo evil > .git/hooks/pre-commit", host=host).json
        assert r["outcome"] == "refused", (name, r)
        assert not (workspace() / "ran").exists() and not os.listdir(elsewhere), name
        path.unlink(missing_ok=True)  # the link may have been taken away
        os.rename(path.with_name(f".{name}.was"), path)
    shutil.rmtree(elsewhere)


# ---- who runs, and with what ----


@test(as_user="root", limit=180)
def an_engine_that_makes_something_else_is_found_out_before_the_command():
    words = {"caps": "with capabilities", "bound": "with capabilities to be had", "seccomp": "without brig's system-call filter",
             "privs": "without no-new-privileges", "user": "as another user", "groups": "in groups that nobody asked for",
             "root": "without a read-only root", "stray": "something was mounted at '/mnt'", "writable": "'/etc/passwd' inside",
             "elsewhere": f"'{workspace()}' inside", "missing": f"'{workspace()}' inside", "shm": "something was mounted at '/dev/extra'",
             "device": "something was mounted at '/dev/extra'", "masked": "something was mounted at '/sys/firmware'",
             "used": "something was mounted at '/dev/shm'", "written": "something was mounted at '/dev/extra'",
             "hostshm": "something was mounted at '/dev/shm'", "hostpts": "something was mounted at '/dev/pts'",
             "ptsextra": "something was mounted at '/dev/extra'", "runpart": "something was mounted at '/run'",
             "carried": "something was mounted at '/sys/kernel/debug'", "hiddenfile": "something was mounted at '/sys/firmware'",
             "hiddenrw": "something was mounted at '/sys/firmware'", "hiddendev": "something was mounted at '/dev/extra'"}
    for way, what in words.items():
        r = box("--json", "--runtime", f"crooked-{way}", "--", "touch", "ran", "/mnt/ran").json
        assert r["outcome"] == "refused" and what in r["error"]["what"], (way, r["outcome"], r["error"])
        assert not os.listdir(workspace()), way
    for way in ("plain", "closed", "hidden"):  # of the second nobody inside gets to see anything, of the third there is nothing
        assert box("--runtime", f"crooked-{way}", "--", "touch", "ran").status == 0 and os.listdir(workspace()) == ["ran"], way
        (workspace() / "ran").unlink()


@test(as_user="root", limit=120)
def folders_of_control_groups_that_root_inside_can_write_are_made_for_it():
    """The first version's lie in a tmpfs, which runc leaves writable since 1.2: never the host's, nor one that holds something else."""
    control = box("--set", "docker.user=0:0", "--", "sh", "-c", "ls /sys/fs/cgroup; touch ran", settled=False)
    assert control.status == 0 and control.text.strip() and (workspace() / "ran").exists(), control.errors
    (workspace() / "ran").unlink()
    first = not os.path.exists("/sys/fs/cgroup/cgroup.controllers")  # the host's are in a tmpfs
    for way in ("cgempty", "cgfile", *(["cghost"] if first else [])):
        r = box("--json", "--set", "docker.user=0:0", "--runtime", f"crooked-{way}", "--", "touch", "ran", "/sys/fs/cgroup/ran", settled=False).json
        assert r["outcome"] == "refused" and "something was mounted at '/sys/fs/cgroup'" in r["error"]["what"], (way, r["outcome"], r["error"])
        assert not os.listdir(workspace()) and not os.path.exists("/sys/fs/cgroup/ran"), way


@test(limit=120)
def groups_and_variables_of_the_image_give_nothing():
    me = 1000 if identity() == "root" else uid()
    entries = (("etc/passwd", f"root:x:0:0::/:/bin/sh\nme:x:{me}:{me}::/:/bin/sh\n".encode()), ("etc/group", f"root:x:0:me\ndisk:x:6:me\nme:x:{me}:\n".encode()),
               ("x", EVIL))
    changes = ["ENV LD_PRELOAD=/x", "ENV LD_LIBRARY_PATH=/", "ENV LD_AUDIT=/x", "ENV GLIBC_TUNABLES=glibc.malloc.check=3", "ENTRYPOINT [\"/x\"]",
               "USER me", "WORKDIR /etc"]
    for e in engines():
        e.import_image(image(*entries), mine("groups"), changes=changes)
        done = box("--", "sh", "-c", "id -u; id -G; env; cat /proc/1/maps | grep -c ' /x' ", image=mine("groups"), host=e.host)
        lines = done.text.splitlines()
        assert lines[:2] == [str(me), str(me)] and lines[-1] == "0", (done.text, done.errors)
        assert "open-sesame" not in done.text, done.text  # a variable of Podman's service
    # Whoever takes the image's own user takes no groups along with it.
    r = box("--json", "--set", "docker.user=", "--", "touch", "ran", image=mine("groups")).json
    assert r["outcome"] == "refused" and "in groups that nobody asked for" in r["error"]["what"], r
    assert not os.listdir(workspace())
    status, text = run_bare(common.shared, {"Image": mine("groups"), "Entrypoint": ["id"], "Cmd": ["-G"], "Env": ["LD_PRELOAD="]})
    assert "6" in text.split(), text


@test(limit=60)
def a_command_cannot_claim_that_it_was_never_executed():
    done = box("--json", "--", "no-such-command").json
    assert done["outcome"] == "refused" and "command not found" in done["error"]["what"], done
    (workspace() / "plain").write_text("no program")
    (workspace() / "lost").write_text("#!/no/such/interpreter\n")
    (workspace() / "lost").chmod(0o755)
    for name in ("./plain", "./lost"):
        done = box("--json", "--", name).json
        assert done["outcome"] == "refused" and "cannot be executed" in done["error"]["what"], done
    # Words and status of its own are a command's own.
    script = "cat /proc/1/environ /proc/1/cmdline | tr '\\0' '\\n' | grep -c brig-gate; echo 00000000000000000000000000000000 >&2; exit 127"
    done = box("--json", "--", "sh", "-c", script).json
    assert done["outcome"] == "exited" and done["exit_code"] == 127 and done["stderr"] == "0" * 32 + "\n", done


# ---- what a read-only mount does not stop ----


@test(limit=120)
def sockets_and_pipes_of_the_host_are_covered_by_their_file():
    """There is no Landlock in a container; a socket may have another name by now than the kernel's list has."""
    tree = scratch() / "tree"
    (tree / "deep").mkdir(parents=True)
    os.mkfifo(tree / "deep/pipe")
    (tree / "deep/pipe").chmod(0o666)
    reader = os.open(tree / "deep/pipe", os.O_RDONLY | os.O_NONBLOCK)
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(tree / "m.XYZ"))
    (tree / "m.XYZ").rename(tree / "deep/m")
    for path in (tree, tree / "deep"):
        path.chmod(0o755)
    script = "test -S /t/deep/m && echo socket; echo forged 1<>/t/deep/pipe; test -c /t/deep/m && test -c /t/deep/pipe && echo covered"
    mounts = [{"Type": "bind", "Source": str(tree), "Target": "/t", "ReadOnly": True}]
    _, text = run_bare(common.shared, {"Image": engine.IMAGE, "Cmd": ["sh", "-c", script], "HostConfig": {"Mounts": mounts}})
    assert "socket" in text and os.read(reader, 100) == b"forged\n", ("the control proves nothing", text)
    done = box("--mount", f"{tree}:/t", "--", "sh", "-c", script)
    assert done.text == "covered\n", (done.text, done.errors)
    with contextlib.suppress(BlockingIOError):
        assert os.read(reader, 100) == b"", "the host's reader was written to"
    os.close(reader)
    s.close()
    shutil.rmtree(tree)


# ---- Podman ----


@test(limit=120)
def a_mask_is_empty_on_podman_too():
    e = podmans[identity()]
    tree = scratch() / "tree"
    (tree / "state").mkdir(parents=True)
    for path in (tree, tree / "state"):
        os.chown(path, 1000 if identity() == "root" else uid(), -1)
    env = {"XDG_STATE_HOME": str(tree / "state")}
    assert box("--", "true", host=e.host, env=env).status == 0
    kept = tree / "state/brig"
    assert list(kept.glob("audit/*")), "nothing to hide"
    kept.chmod(0o755)  # the caller's folder must not be what hides it
    done = box("--read", str(tree), "--", "sh", "-c", f"ls -A {kept}; grep -c ' {kept} tmpfs ro' /proc/mounts", host=e.host, env=env)
    assert done.text == "1\n", (done.text, done.errors)
    # Podman's own way: what lies below is copied into what is mounted over it.
    secret = scratch() / "secret"
    (secret / "in").mkdir(parents=True)
    (secret / "in/key").write_text("the key")
    for path in (secret, secret / "in"):
        path.chmod(0o755)
    mounts = [{"Type": "bind", "Source": str(secret), "Target": "/s"}, {"Type": "tmpfs", "Target": "/s/in"}]
    _, text = run_bare(e, {"Image": engine.IMAGE, "Cmd": ["cat", "/s/in/key"], "HostConfig": {"Mounts": mounts}})
    assert "the key" in text, text
    shutil.rmtree(secret)
    shutil.rmtree(tree)


if __name__ == "__main__":
    sys.exit(main())
