#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""brig run --image: commands in an image of brig's own, without an engine; what its author can do to the sandbox around it."""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import images  # noqa: E402
from harness import brig, main, scratch, start_brig, test, tree, workspace  # noqa: E402
from images import busybox, entry, file, folder, hard, link, tar  # noqa: E402


def env(**more):
    return {"XDG_CACHE_HOME": str(scratch() / "cache"), **more}


def made(layers, name="test:1", **config):
    shutil.rmtree(scratch() / "layout", ignore_errors=True)
    done = brig("image", "import", images.layout(scratch() / "layout", layers, name, **config), timeout=120, env=env())
    assert done.status == 0, done.errors
    return name


def run(*words, options=(), name="test:1", **more):
    return brig("run", "--backend", "native", "--image", name, *options, "--", *words, timeout=60, env=env(), **more)


def sh(text, **more):
    done = run("sh", "-c", text, **more)
    assert done.status == 0, (done.status, done.text, done.errors)
    return done.text


@test
def a_command_finds_the_image_and_its_settings():
    base = busybox(file("etc/app.conf", "one"), folder("opt/old"), file("opt/old/a"), file("opt/gone"), file("opt/data/keep", "k"))
    over = tar([file("etc/app.conf", "two"), file("opt/.wh.gone"), folder("opt/old"), file("opt/old/.wh..wh..opq"), file("opt/old/b"),
                hard("opt/old/c", "opt/old/b"), file("start", "#!/bin/sh\necho started $*\n", 0o755), folder("only")])
    made([base, over, base[:0] + tar([])], Env=["PATH=/bin", "APP=1", "HOME=/nowhere", "BRIG_SANDBOX=no"], User="web", WorkingDir="/srv",
         Volumes={"/var/data/x": {}}, Entrypoint=["/start"], Cmd=["a", "b"])
    text = sh("id -u; id -g; echo $APP $HOME $BRIG_SANDBOX $PATH; cat /etc/app.conf; echo; ls /opt; ls /opt/old; touch /var/data/x/y && echo kept; pwd")
    assert text.split("\n")[:-1] == ["33", "34", "1 /home/brig native /bin", "two", "data", "old", "b", "c", "kept", str(workspace())], text
    done = sh("ls /; cat /etc/passwd; cat /etc/hosts; cat /etc/resolv.conf /etc/nsswitch.conf; ls -ld /etc/app.conf")
    assert "web:x:33:34" in done and "brig:x:33:34" in done and "localhost brig" in done and "files dns" in done
    done = brig("run", "--backend", "native", "--image", "test:1", env=env())
    assert done.status == 0 and done.text == "started a b\n", (done.text, done.errors)
    assert brig("run", "--backend", "native", "--image", "test:1", "--", "pwd", env=env(), cwd="/").text == "/srv\n"
    for words in ("touch /new", "touch /etc/new", "touch /opt/new", "touch /etc/passwd", "rm /bin/sh", "mkdir /root/x", "ln -s x /bin/y"):
        assert run(*words.split()).status != 0, words
    assert brig("run", "--json", "--backend", "native", "--image", "test:1", "--", "true", env=env()).json["image"]


@test
def an_image_hides_the_host_and_keeps_every_layer_of_protection():
    made([busybox()])
    (workspace() / "f").write_text("mine")
    text = sh("ls /usr 2>/dev/null; ls /lib 2>/dev/null; ls -a /run; cat f; echo new > g; cat /proc/1/cmdline | wc -c; ls /proc/sys/kernel/random/boot_id; "
              "grep -c . /proc/net/dev; grep Seccomp: /proc/self/status; grep NoNewPrivs /proc/self/status; grep CapEff /proc/self/status; "
              "mkdir .claude 2>/dev/null || echo held")
    assert "mine" in text and (workspace() / "g").read_text() == "new\n" and "held" in text
    assert "Seccomp:\t2" in text and "NoNewPrivs:\t1" in text and "CapEff:\t0000000000000000" in text, text
    assert not (workspace() / ".claude").exists()
    plain = brig("run", "--json", "--backend", "native", "--", "true", env=env()).json["isolation"]
    inside = brig("run", "--json", "--backend", "native", "--image", "test:1", "--", "true", env=env()).json["isolation"]
    assert plain == inside, (plain, inside)
    text = sh("cat /proc/self/mountinfo")
    assert str(scratch()) not in text and text.count(" / / ") <= 1, text
    done = sh("echo x > h", options=("--workspace", "overlay"))
    assert not (workspace() / "h").exists()


@test
def auto_takes_native_for_an_image_that_brig_has():
    made([busybox()])
    done = brig("run", "--json", "--image", "test:1", "--", "true", env=env())
    assert done.status == 0 and done.json["backend"] == "native", (done.text, done.errors)
    for backend, words in (("native", "is not among brig's own"), ("bwrap", "cannot honour --image")):
        done = brig("run", "--backend", backend, "--image", "other:1", "--", "true", env=env())
        assert done.status == 125 and words in done.errors, (backend, done.errors)


@test
def what_an_image_needs_and_cannot_have_is_told_before_the_start():
    made([busybox()], User="nobody-there")
    done = run("touch", "x")
    assert done.status == 125 and "'nobody-there' is not in its /etc/passwd" in done.errors, done.errors
    assert sh("id -u", options=("--user", "7:8")) == "7\n"
    done = run("true", options=("--gpus", "all"))
    assert done.status == 125, done.errors
    made([busybox()], "nothing:1")
    done = brig("run", "--backend", "native", "--image", "nothing:1", env=env())
    assert done.status == 125 and "has no command of its own" in done.errors, done.errors


@test
def an_image_that_runs_is_not_taken_away():
    made([busybox()])
    p = start_brig("run", "--backend", "native", "--image", "test:1", "--", "sh", "-c", "echo up; cat", env=env(), stdin=subprocess.PIPE,
                   stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    assert brig("image", "list", "--json", env=env()).json[0]["in_use"]
    done = brig("image", "rm", "test:1", env=env())
    assert done.status == 125 and "a run uses image" in done.errors, done.errors
    assert brig("image", "prune", "--all", env=env()).status == 0
    p.stdin.write(b"still\n")
    p.stdin.close()
    assert p.stdout.read() == b"still\n" and p.wait() == 0
    assert brig("image", "prune", "--all", env=env()).status == 0 and brig("image", "list", "--json", env=env()).json == []


# What an image has in places where brig mounts and makes files; the mounts must not follow.
TRAPS = [
    [link("etc", "@")], [link("etc/passwd", "@/victim")], [link("etc/resolv.conf", "../../../@/victim")],
    [link("home", "@")], [link("home/brig", "@")], [folder("home"), file("home/brig", "x")], [link("var", "@")], [link("var/tmp", "/proc")],
    [link("tmp", "@")], [link("dev", "@")], [file("dev", "x")], [link("proc", "@")], [link("sys", "@")], [link("run", "@")],
    [link("workspace", "@")], [file("workspace", "x")], [link("root", "@")], [link("@WORK", "@")], [file("@WORK", "x")],
    [link("data", "@")], [link("data/x", "@")], [link("code", "@")], [folder("own"), folder("store"), folder("up"), link(".image", "@")],
    [link(".layer", "@"), link(".upper", "@"), link(".held", "@"), link(".code", "@")], [file(".wh.etc"), file(".wh.home"), file(".wh.dev")],
    [file("etc/.wh..wh..opq"), file("home/.wh..wh..opq")], [folder("proc/self"), file("proc/self/status", "x"), folder("dev"), file("dev/null", "x")],
]


@test
def no_name_of_the_images_is_on_the_way_to_a_mount():
    base = busybox()
    (scratch() / "victim").write_text("mine")
    before = {p for p in tree(scratch()) if not p.startswith(("cache", "layout"))}
    for trap in TRAPS:
        entries = []
        for t, data in trap:
            t.name = t.name.replace("@WORK", str(workspace())[1:])
            t.linkname = t.linkname.replace("@", str(scratch()))
            entries.append((t, data))
        layers = [base, tar(entries)]
        made(layers, Volumes={"/data/x": {}})
        done = run("/bin/busybox", "sh", "-c", "echo in > made; echo v > /data/x/v; echo t > /tmp/t; echo h > ~/h; echo n > /dev/null; "
                   "cat /etc/passwd; test -c /dev/null && test -e /proc/self/ns/user && test ! -e /workspace/victim && pwd")
        what = [(t.name, t.linkname) for t, _ in entries]
        assert done.status == 0 and "brig:x:" in done.text and str(workspace()) in done.text, (what, done.text, done.errors)
        assert (workspace() / "made").read_text() == "in\n", what
        (workspace() / "made").unlink()
        assert (scratch() / "victim").read_text() == "mine" and os.listdir(workspace()) == [], (what, os.listdir(workspace()))
        assert {p for p in tree(scratch()) if not p.startswith(("cache", "layout"))} == before, what


@test
def a_run_changes_nothing_of_the_store():
    made([busybox(file("opt/suid", "x", 0o4755), entry("opt/node", tarfile.CHRTYPE, device=(1, 3)))], "a:1")
    made([busybox(file("opt/suid", "x", 0o4755))], "test:1")
    sh("for f in /bin/sh /etc/passwd /opt/suid /bin/busybox; do echo x > $f; rm -f $f; mv $f /tmp; done; ls -l /opt; test ! -u /opt/suid && test ! -e /opt/node; "
       "mkdir -p ~/x; kill -0 1; true")
    assert brig("image", "verify", env=env()).status == 0


@test
def a_writable_root_is_the_runs_own():
    made([busybox(file("opt/a", "one"))])
    options = ("--set", "read_only_root=false")
    done = run("sh", "-c", "echo two > /opt/a && cat /opt/a && rm /bin/grep && mkdir /opt/x && touch /new && ls /bin", options=options)
    if done.status:  # a kernel whose tmpfs has no user attributes
        assert done.status == 125 and "overlay" in done.errors, done.errors
    else:
        assert done.text.startswith("two\n") and "grep" not in done.text, done.text
    assert sh("cat /opt/a; ls /bin/grep /opt") == "one/bin/grep\n\n/opt:\na\n" and brig("image", "verify", env=env()).status == 0


@test
def a_script_runs_in_an_image():
    made([busybox()])
    (workspace() / "s").write_text("echo from $BRIG_SANDBOX; cat /etc/group")
    done = brig("script", "--backend", "native", "--image", "test:1", "--interpreter", "sh", "s", env=env())
    assert done.status == 0 and "from native" in done.text and "www:x:34:" in done.text, (done.text, done.errors)


if __name__ == "__main__":
    sys.exit(main())
