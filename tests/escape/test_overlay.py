#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Overlay workspaces: what a hostile command does there is in the layer, and the host's folder is as it was.

The oracles: the folder (names, contents, inodes, times) while the command runs and afterwards; a user who goes on with git; the layer itself."""

import json
import os
import pathlib
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import on_host  # noqa: E402
from harness import IS_ROOT, brig, brig_argv, brig_environment, main, scratch, start_brig, test, wait_until, workspace  # noqa: E402
from victim import AS_ME, GITLINK, attack, clear, hook, repository, settings, sh  # noqa: E402

OVERLAY = ("--workspace", "overlay")


def layers():
    return pathlib.Path(brig_environment()["XDG_CACHE_HOME"]) / "brig/layers"


def layer(r):
    return layers() / r["id"]


def about(r):
    return json.loads((layer(r) / "about").read_text())


def drop(r):
    shutil.rmtree(layer(r))


def host(script):
    done = on_host("sh", "-c", script, cwd=workspace())
    assert done.returncode == 0, done.stderr


def look(at):
    """All that a program on the host could see of the folder."""
    seen = {}
    for top, folders, files in os.walk(at):
        for p in [top, *(os.path.join(top, n) for n in folders + files)]:
            st = os.lstat(p)
            kept = pathlib.Path(p).read_bytes() if stat.S_ISREG(st.st_mode) else os.readlink(p) if stat.S_ISLNK(st.st_mode) else b""
            seen[os.path.relpath(p, at)] = (st.st_ino, st.st_mode, st.st_uid, st.st_mtime_ns, st.st_ctime_ns, kept)
    return seen


SPOIL = ("echo more >> file; rm gone; mkdir -p new/deep; echo x > new/deep/y; rm -r d; mkdir d; echo z > d/z; mv file renamed; ln renamed second;"
         "chmod 600 mode; ln -s /etc/passwd away; mkfifo pipe; touch .envrc .git/hooks/post-checkout; echo '[core]' >> .git/config")


def prepared():
    repository()
    host("echo a > gone; mkdir d; echo b > d/b; echo c > mode; chmod 644 mode")


@test
def the_folder_is_as_it_was_while_it_runs_and_afterwards():
    prepared()
    before = look(workspace())
    p = start_brig("run", *OVERLAY, "--json", "--", "sh", "-c", f"{SPOIL}; echo done; cat", stdin=-1)
    during = None
    try:
        assert wait_until(lambda: any(layers().glob("*/upper/renamed"))), "it never began"
        during = look(workspace())
    finally:
        out, err = p.communicate(timeout=30)
    r = json.loads(out)
    assert r["outcome"] == "exited" and r["exit_code"] == 0, (r, err)
    assert during == before and look(workspace()) == before
    assert r["workspace"] == "overlay" and r["layer"]["id"] == r["id"] and r["layer"]["changed"] >= 10 and r["denials"] == [], r
    assert about(r)["finished"] and sorted(os.listdir(layer(r))) == ["about", "upper"]
    drop(r)
    r = sh(SPOIL.replace("touch .envrc .git/hooks/post-checkout; echo '[core]' >> .git/config", "true"))
    assert r["exit_code"] == 0 and look(workspace()) != before and "layer" not in r, "the control proves nothing"


# ---- marks ----

FORGE = """
import os
def t(name, f, *a):
    try:
        f(*a); print('+', name)
    except OSError as e:
        print('-', name, e.errno)
os.chdir(WHERE)
open('f', 'w').close(); os.mkdir('folder')
t('whiteout', os.mknod, 'wh', 0o20644, 0)
for m in ('opaque', 'redirect', 'metacopy', 'origin', 'whiteout', 'nlink', 'upper'):
    t(m, os.setxattr, 'f' if m != 'opaque' else 'folder', b'user.overlay.' + m.encode(), b'y')
"""


def marks(at):
    found = {}
    for top, folders, files in os.walk(at):
        for p in (os.path.join(top, n) for n in folders + files):
            found[os.path.relpath(p, at)] = sorted(os.listxattr(p, follow_symlinks=False))
    return found


@test
def no_mark_is_forged():
    """A device 0:0 is a removed name, an attribute says that a folder is another one's: only the kernel writes them."""
    there = scratch() / "forged"
    there.mkdir()
    os.chown(there, os.stat(workspace()).st_uid, os.stat(workspace()).st_gid)
    control = on_host("python3", "-c", FORGE.replace("WHERE", repr(str(there))))
    assert "+ whiteout" in control.stdout.decode() and "+ opaque" in control.stdout.decode(), (control.stdout, control.stderr)
    shutil.rmtree(there)
    (workspace() / "old").write_text("old\n")
    r = sh(f"python3 - <<'END'\n{FORGE.replace('WHERE', repr('.'))}\nEND", *OVERLAY)
    assert "- whiteout" in r["stdout"], r
    upper = layer(r) / "upper"
    assert not any(stat.S_ISCHR(os.lstat(p).st_mode) for p in upper.rglob("*")), list(upper.rglob("*"))
    wrong = {name: [m for m in kept if m.startswith("user.overlay.") and not m.startswith("user.overlay.overlay.")] for name, kept in marks(upper).items()}
    assert not any(set(kept) - {"user.overlay.origin", "user.overlay.impure", "user.overlay.uuid"} for kept in wrong.values()) and not wrong["f"], wrong
    assert "user.overlay.opaque" not in marks(upper)["folder"] or wrong["folder"] == [], marks(upper)
    drop(r)


@test
def what_lies_in_the_workspace_as_a_mark_does_nothing():
    """An ordinary user may make such things: as the only lower layer they hide themselves alone."""
    host("mkdir d; echo x > d/x; echo k > kept; setfattr -n user.overlay.opaque -v y d || python3 -c \"import os; os.setxattr('d', b'user.overlay.opaque', b'y'); "
         "os.setxattr('d', b'user.overlay.redirect', b'/etc')\"")
    r = sh("cat d/x; ls d; cat kept; echo y > d/y", *OVERLAY)
    assert r["stdout"] == "x\nx\nk\n", r
    drop(r)


# ---- git ----


def evil(path):
    return f"mkdir -p {path}; cp -r .git {path}/.git; rm -f {path}/.git/index; {settings(f'{path}/.git/config')}"


@test
def git_on_the_host_obeys_nothing_of_it():
    """What direct runs are judged for, file by file, is not there at all."""
    for script in (settings(".git/config") + "; " + hook(".git/hooks/post-checkout"), f"{evil('sub')}; {GITLINK}sub",
                   f"mv .git away; mkdir x; cp -r away x/.git; mv x/.git .git; {settings('.git/config')}"):
        clear()
        r, gone = attack(script, options=OVERLAY)
        assert r["exit_code"] == 0 and not gone and r["denials"] == [] and r["changed_trust"] == [], (script, r)
        drop(r)


@test
def git_read_and_none_are_mounts_over_the_layer():
    repository()
    r = sh(f"git log --format=%s; echo x > .git/new; mv .git other; rm -rf .git; {AS_ME} commit -q --allow-empty -m no", *OVERLAY, "--git", "read")
    assert r["stdout"] == "first\n" and r["exit_code"] != 0, r
    assert not (layer(r) / "upper/.git").exists() and (workspace() / ".git/HEAD").exists()
    drop(r)
    r = sh("ls -A .git; git log; echo y > file", *OVERLAY, "--git", "none")
    assert r["stdout"] == "" and r["exit_code"] == 0 and r["layer"]["changed"] == 1, r
    drop(r)


# ---- what is not a file ----


@test
def sockets_and_pipes_of_the_host_are_dead():
    path = workspace() / "sock"
    here = os.getcwd()
    os.chdir(workspace())
    server = socket.socket(socket.AF_UNIX)
    server.bind("sock")
    os.chdir(here)
    os.chmod(path, 0o777)
    server.listen(8)
    heard = []

    def serve():
        while True:
            try:
                server.accept()
            except OSError:
                return
            heard.append(1)
    threading.Thread(target=serve, daemon=True).start()
    os.mkfifo(workspace() / "pipe", 0o666)
    os.chmod(workspace() / "pipe", 0o666)
    end = os.open(workspace() / "pipe", os.O_RDWR | os.O_NONBLOCK)
    call = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('sock')"
    try:
        assert on_host("python3", "-c", call, cwd=workspace()).returncode == 0 and wait_until(lambda: heard), "the control proves nothing"
        heard.clear()
        r = sh(f"python3 -c \"{call}\" || echo refused; (exec 3<>pipe; echo in >&3); test -p pipe && echo pipe", *OVERLAY)
        assert r["stdout"] == "refused\npipe\n" and not heard, r
        try:
            assert not os.read(end, 100), "the host's reader heard it"
        except BlockingIOError:
            pass
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        os.close(end)
    drop(r)


@test
def no_set_id_bit_reaches_the_layer():
    control = scratch() / "setid"
    on_host("sh", "-c", f"cp /bin/true {control}; chmod 6755 {control}")
    assert os.stat(control).st_mode & 0o6000 == 0o6000, "the control proves nothing"
    control.unlink()
    host("cp /bin/true own; chmod 755 own")
    r = sh("chmod 4755 own; chmod 2755 own; cp /bin/true t; chmod u+s t; chmod g+s t; install -m 6755 /bin/true u; echo end", *OVERLAY)
    assert r["stdout"].endswith("end\n"), r
    for p in (layer(r) / "upper").rglob("*"):
        assert not p.stat().st_mode & 0o6000, p
    drop(r)


@test
def nothing_of_the_layer_is_found_inside():
    (workspace() / "f").write_text("f\n")
    r = sh("cat /proc/self/mountinfo; ls -A /; ls -d /.upper; ls -A /.upper; id -u; stat -c %u . f; touch f; stat -c %u f; for p in /proc/[0-9]*; do ls -l $p/fd; done", *OVERLAY)
    text = r["stdout"]
    assert ".upper\n" not in text and "layers/" not in text.replace("upperdir=/proc/self", ""), text
    ids = [line for line in text.splitlines() if line.isdigit()]
    assert len(set(ids)) == 1 and len(ids) == 4, ids
    upper = layer(r) / "upper"
    assert os.stat(upper / "f").st_uid == os.geteuid() if not IS_ROOT else True
    drop(r)


# ---- runs that end badly ----


@test
def a_run_whose_brig_was_killed_leaves_a_damaged_layer():
    prepared()
    before = look(workspace())
    old = set(layers().glob("*")) if layers().exists() else set()
    p = start_brig("run", *OVERLAY, "--", "sh", "-c", "echo x > begun; sleep 60")
    assert wait_until(lambda: any((n / "upper/begun").exists() for n in set(layers().glob("*")) - old)), "it never began"
    mine = next(n for n in set(layers().glob("*")) - old if (n / "upper/begun").exists())
    p.send_signal(signal.SIGKILL)
    p.wait()
    assert look(workspace()) == before
    said = json.loads((mine / "about").read_text())
    assert "finished" not in said and said["run"] == mine.name, said
    shutil.rmtree(mine)


@test
def what_cannot_have_an_overlay_says_so():
    (workspace() / "d").mkdir()
    for options, words in ((("--backend", "docker"), "docker"), (("--backend", "ssh", "--set", "ssh.host=a"), "ssh"), (("--backend", "bwrap", "--read", str(workspace() / "d")), "bwrap"),
                           (("--policy", "full_access", "--i-know-this-is-not-a-sandbox"), "none"), (("--write", str(workspace() / "d")), "overlay workspace" if os.environ.get("BRIG_BACKEND") == "bwrap" else "layer")):
        env = {"BRIG_BACKEND": None} if "full_access" in options else None  # which excludes a backend by name
        done = brig("run", *OVERLAY, *options, "--", "true", env=env)
        assert done.status == 125 and words in done.errors and "hint: " in done.errors, (options, done)
    inside = {"XDG_CACHE_HOME": str(workspace() / "d/cache")}
    done = brig("run", *OVERLAY, "--", "true", env=inside)
    assert done.status == 125, done
    r = brig("run", *OVERLAY, "--policy", "readonly", "--json", "--", "sh", "-c", "touch x").json
    assert r["exit_code"] != 0 and "layer" not in r, r


@test(as_user="root")
def a_mount_of_the_hosts_in_the_workspace_is_refused_by_name():
    (workspace() / "mnt").mkdir()
    words = " ".join(map(shlex.quote, map(str, brig_argv("run", *OVERLAY, "--", "true"))))
    done = subprocess.run(["unshare", "-m", "sh", "-c", f"mount -t tmpfs t mnt && exec {words}"], cwd=workspace(), env=brig_environment(), capture_output=True,
                          check=False)
    assert done.returncode == 125 and b"/mnt' is mounted in the workspace" in done.stderr and b"hint" in done.stderr, done


@test(limit=90)
def the_disk_limit_counts_what_goes_to_the_layer():
    r = sh("dd if=/dev/zero of=big bs=1M count=400; sleep 5", *OVERLAY, "--disk", "20m")
    assert r["outcome"] == "limit" and "disk" in r["limits_hit"], r
    assert not (workspace() / "big").exists()
    drop(r)


if __name__ == "__main__":
    sys.exit(main())
