#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The bwrap backend beside native: the same world and the same outcomes, or a refusal that says who can."""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import (FACTOR, ORDINARY, PATIENCE, TOP, brig, brig_argv, brig_environment, brig_path, compile_c, descendants, files_as_root, identity, main, scratch, start_brig, state,  # noqa: E402
                     test, tree, wait_until, workspace)

REAL = shutil.which("bwrap")
NEEDED = "--size --perms --clearenv --info-fd --disable-userns"


def bwrap(*words, **more):
    return brig("run", "--backend", "bwrap", *words, **more)


def refused(done, *words):
    assert done.status == 125 and all(w in done.errors for w in words), done.errors


def fake(text):
    """A program named bwrap in front of PATH; returns the environment."""
    folder = scratch() / "bin"
    folder.mkdir(exist_ok=True)
    path = folder / "bwrap"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def behind(prefix, *args):
    argv = brig_argv(*args)
    at = argv.index(str(brig_path()))
    argv[at:at] = map(str, prefix)
    return subprocess.run(argv, capture_output=True, text=True, env=brig_environment(), cwd=workspace(), timeout=60,
                          stdin=subprocess.DEVNULL, check=False)


# ---- the same as native ----

LOOK = r"""
find / -maxdepth 3 \( -path /usr -o -path /proc -o -path /dev/core -o -path /etc -o -path /.etc -o -path /.packages \) -prune -o -printf "%p %y %m %l\n" 2>/dev/null | sort
find -L /etc -mindepth 1 -maxdepth 1 -printf "%p %y %m\n" 2>/dev/null | sort  # by which links is each backend's own business
id; pwd; hostname; env | sort | grep -v BRIG_SANDBOX
cat /etc/passwd /etc/group /etc/hosts /etc/resolv.conf /etc/nsswitch.conf
for f in /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty; do stat -c '%n %t %T' $f; done
for f in /proc/kcore /proc/keys /proc/timer_list /proc/kallsyms; do cat $f 2>&1 | head -c 64; done
touch /x /usr/x /etc/x /dev/x /proc/sys/kernel/hostname 2>&1 | sed 's/.*: //'
ulimit -a
"""


@test
def the_world_is_the_one_native_shows():
    (workspace() / ".git").mkdir()
    (workspace() / "file").write_text("text\n")
    brig("run", "--", "true")  # the first run of all makes the copy of what packages ship
    worlds = [brig("run", "--backend", b, "--env", "A=b c", "--", "sh", "-c", LOOK) for b in ("native", "bwrap")]
    native, other = [set(w.text.splitlines()) for w in worlds]
    assert [w.status for w in worlds] == [0, 0]
    assert other - native == {"/.brig d 0 "} and not native - other, (native - other, other - native)  # what is in it: escape/test_selfwrite.py


SAME = ("outcome", "exit_code", "signal", "stdout", "stderr", "stdout_bytes", "stderr_bytes",
        "stdout_truncated", "stderr_truncated", "limits_hit", "denials", "error")
REQUESTS = {
    "exit": ("sh", "-c", "echo out; echo err >&2; exit 7"),
    "signal": ("sh", "-c", "kill -SEGV $$"),
    "status 137 is no signal": ("sh", "-c", "exit 137"),
    "not found": ("no-such-program",),
    "not found by path": ("/nowhere/program",),
    "not executable": ("/etc/passwd",),
    "no interpreter": ("./script",),
    "binary": ("printf", r"\377\000\n"),
    "read-only": ("sh", "-c", "echo x > /etc/x; echo x > new; cat new"),
    "protected": ("sh", "-c", "echo x > .git/config"),
    "env": ("sh", "-c", "echo $HOME $USER $PATH $SECRET"),
}
FORKS = """
import os, time
try:
    for _ in range(40):
        if os.fork() == 0:
            time.sleep(9)
            os._exit(0)
except OSError:
    time.sleep(0.5)  # a watch must have looked
"""
LIMITED = {
    "timeout": (("--timeout", "300ms"), ("sleep", "60")),
    "memory": (("--memory", "48m"), ("python3", "-c", "x = bytearray(200 << 20); import time; time.sleep(9)")),
    "pids": (("--pids", "12"), ("python3", "-c", FORKS)),
    "output": (("--output-limit", "1k"), ("sh", "-c", "yes | head -c 100000")),
    "files": (("--set", "limits.files=16"), ("python3", "-c", "[open('/dev/null') for _ in range(20)]")),
    "one cpu": (("--cpus", "1"), ("sh", "-c", "nproc; taskset -p 3 $$ >/dev/null 2>&1 || echo no")),
}


def outcomes(options, argv):
    for b in ("native", "bwrap"):
        done = brig("run", "--json", "--backend", b, *options, "--", *argv, env={"SECRET": "never"})
        r = done.json
        if r["error"]:
            r["error"]["what"] = r["error"]["what"].replace("bwrap", "native")
        yield done.status, {k: r[k] for k in SAME}, r


@test
def every_outcome_is_told_as_native_tells_it():
    (workspace() / "script").write_text("#!/no/interpreter\n")
    (workspace() / "script").chmod(0o755)
    (workspace() / ".git").mkdir()
    (workspace() / ".git/config").write_text("[core]\n")
    for name, argv in REQUESTS.items():
        (s1, native, _), (s2, other, _) = outcomes((), argv)
        assert (s1, native) == (s2, other), (name, native, other)


@test
def every_limit_ends_as_on_native():
    for name, (options, argv) in LIMITED.items():
        (s1, native, full), (s2, other, second) = outcomes(options, argv)
        if name == "pids":  # how far the shell got differs from run to run
            for r in (native, other):
                r.update(stdout="", stderr="", stdout_bytes=0, stderr_bytes=0)
                s1 = s2 = 0
        assert (s1, native) == (s2, other), (name, native, other)
        assert full["isolation"]["limits"] == second["isolation"]["limits"], name


@test
def the_report_names_the_layers_and_only_them():
    native, other = [brig("run", "--json", "--backend", b, "--", "true").json for b in ("native", "bwrap")]
    assert other["backend"] == "bwrap" and other["isolation"] == native["isolation"]
    status = bwrap("--", "cat", "/proc/self/status").text
    assert "\nSeccomp:\t2\n" in status and "\nNoNewPrivs:\t1\n" in status and "\nCapBnd:\t0000000000000000\n" in status
    assert bwrap("--", "sh", "-c", "echo $BRIG_SANDBOX").text == "bwrap\n"


@test
def new_files_belong_to_the_owner_of_the_workspace():
    assert bwrap("--", "sh", "-c", "echo x > new && mkdir sub && echo y > sub/deep").status == 0
    for name in ("new", "sub", "sub/deep"):
        assert (workspace() / name).stat().st_uid == workspace().stat().st_uid, name


@test
def nobody_inside_is_root_of_the_host():
    p = start_brig("run", "--backend", "bwrap", "--", "sh", "-c", "touch ready; sleep 1000")
    assert wait_until((workspace() / "ready").exists)
    assert wait_until(lambda: "brig-checker" in descendants(p.pid).values())  # tidies up after the kill below
    found = {}
    for pid, name in descendants(p.pid).items():
        if name == "brig-checker":
            continue  # brig's own, on the host
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("Uid:"):
                found[name] = line.split()[1:]
    assert len(found) >= 3 and all("0" not in ids for ids in found.values()), found
    p.kill()
    p.wait()


# ---- the end, whatever happens ----


@test(alone=True, limit=120)
def killed_at_any_moment_it_leaves_nothing():
    (workspace() / ".git").mkdir()
    before, dice = tree(workspace()), random.Random(5)
    for _ in range(25):
        p = start_brig("run", "--backend", "bwrap", "--", "sh", "-c", "setsid sleep 1000 & sleep 1000",
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(dice.uniform(0, 0.03) * FACTOR)
        p.kill()
        p.wait()  # the next one starts while this one's bubblewrap may still be at its mounts
    assert wait_until(lambda: not descendants(), 10), descendants()
    assert bwrap("--", "true").status == 0
    after = tree(workspace())
    assert after == before, {k: (before.get(k), after.get(k)) for k in before.keys() ^ after.keys()} or (before, after)


@test
def placeholders_stay_until_the_bubblewrap_of_a_killed_run_is_gone():
    """It makes a missing mount point anew: what is removed under its hands would be there for good."""
    (workspace() / ".git").mkdir()
    before = tree(workspace())
    scratch().chmod(0o777)  # root's bubblewrap is somebody else
    # Placeholders matter to one that has its arguments; before that it has nothing to do with them.
    slow = fake(f"#!/bin/bash\n# {NEEDED}\ncat <&$2 >{scratch()}/args; eval \"exec $2<{scratch()}/args\"; touch {scratch()}/started\n"
                f"while [ ! -e {scratch()}/go ]; do sleep 0.01; done; exec {REAL} \"$@\"\n")
    p = start_brig("run", "--backend", "bwrap", "--", "sleep", "1000", env=slow)
    assert wait_until((scratch() / "started").exists)
    held = tree(workspace())
    assert set(held) > set(before)
    p.kill()
    p.communicate()
    assert bwrap("--", "true").status == 0
    assert tree(workspace()) == held, "removed while a bubblewrap was about to use them"
    (scratch() / "go").touch()
    assert wait_until(lambda: not descendants(), 10), descendants()
    assert bwrap("--", "true").status == 0
    assert tree(workspace()) == before


@test(alone=True)
def bubblewrap_killed_in_a_run_ends_it():
    p = start_brig("run", "--json", "--backend", "bwrap", "--", "sh", "-c", "touch ready; sleep 1000",
                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert wait_until((workspace() / "ready").exists)
    for pid, name in descendants(p.pid).items():
        if name == "bwrap":
            os.kill(pid, 9)
    out, _ = p.communicate(timeout=20 * PATIENCE)
    assert json.loads(out)["outcome"] == "failed" and p.returncode == 125
    assert wait_until(lambda: not descendants(), 2), descendants()


# ---- other bubblewraps ----


@test
def an_older_one_binds_by_path_and_is_checked_all_the_same():
    """Upstream's 0.8 has no --bind-fd; Debian has carried it back."""
    env = fake(pathlib.Path(REAL).read_bytes().replace(b"--bind-fd", b"--bXnd-fd").replace(b"--ro-bind-fd", b"--ro-bXnd-fd"))
    plan = brig("plan", "--backend", "bwrap", "--", "true", env=env).json
    assert "--ro-bind" in plan["args"] and not any("bind-fd" in a for a in plan["args"])
    done = bwrap("--", "sh", "-c", "echo x > new; ls /usr >/dev/null && pwd", env=env)
    assert (done.status, done.text) == (0, f"{workspace()}\n") and (workspace() / "new").exists()
    # A workspace that is swapped between the look and the mount is noticed inside.
    ws = workspace() / "ws"
    ws.mkdir()
    env = fake(f"#!/bin/sh\n# {NEEDED}\nmv {ws} {ws}.old; mkdir {ws}; exec {REAL} \"$@\"\n")
    done = bwrap("--policy", "readonly", "--workdir", str(ws), "--", "true", env=env)
    if identity() == "user":
        refused(done, "was replaced while the sandbox was set up")
    else:  # root's tree is attached before bubblewrap starts, and its folder cannot be swapped any more
        assert done.status in (0, 125)


@test
def what_is_missing_or_strange_is_said():
    nothing = scratch() / "empty"
    nothing.mkdir()
    (nothing / "setpriv").symlink_to("/usr/bin/setpriv")
    refused(bwrap("--", "true", env={"PATH": str(nothing)}), "bubblewrap (bwrap) is not installed", "apt install bubblewrap")
    refused(bwrap("--", "true", env=fake("#!/bin/sh\nexit 0\n")), "not bubblewrap 0.8 or newer", "hint: ")
    refused(bwrap("--", "true", env=fake(f"#!/bin/sh\n# {NEEDED}\nexit 3\n")), "it said nothing")
    refused(bwrap("--", "true", env=fake(f"#!/bin/sh\n# {NEEDED}\necho bwrap: cannot think >&2; exit 1\n")), "cannot think")


@test
def a_setuid_bubblewrap_is_refused_where_it_would_be_one():
    env = fake(pathlib.Path(REAL).read_bytes())
    path = pathlib.Path(env["PATH"].split(":")[0]) / "bwrap"
    assert bwrap("--", "true", env=env).status == 0, "the control"
    path.chmod(0o4755)
    done = bwrap("--", "true", env=env)
    if identity() == "user":
        refused(done, "is setuid", "chmod u-s")
    else:
        assert done.status == 0, done.errors


@test
def what_it_cannot_honour_is_refused_naming_native():
    for setting in ("read_only_root=false", "limits.tmp_exec=false"):
        refused(bwrap("--set", setting, "--", "true"), "backend 'bwrap' cannot honour", "'native' can")
    assert bwrap("--set", "read_only_root=true", "--", "true").status == 0
    done = brig("run", "--backend", "bwarp", "--", "true")
    refused(done, "bwarp", "bwrap")


# ---- auto ----


@test(alone=True)
def auto_takes_bwrap_where_native_cannot_and_says_why():
    deny = compile_c(TOP / "tests/lib/deny-second-namespace.c")
    done = behind([deny], "run", "--backend", "native", "--", "true")
    assert done.returncode == 125, "the control: native cannot"
    done = behind([deny], "run", "--json", "--", "true")
    got = json.loads(done.stdout)
    assert done.returncode == 0 and got["backend"] == "bwrap", done.stderr
    assert [p["backend"] for p in got["passed_over"]] == ["native"] and "second user and mount namespace" in got["passed_over"][0]["reason"]
    assert "auto chose bwrap and passed over native" in done.stderr
    assert "does not let brig lock bubblewrap's mounts" in done.stderr, done.stderr
    done = behind([deny], "run", "--backend", "bwrap", "--profile", "strict", "--", "true")
    assert done.returncode == 125 and "second user and mount namespace" in done.stderr, done.stderr
    assert json.loads(behind([deny], "plan", "--", "true").stdout)["passed_over"][0]["backend"] == "native"
    done = behind([deny], "doctor")
    assert done.returncode == 0 and "auto passed over native" in done.stdout
    assert brig("run", "--json", "--", "true").json["passed_over"] == []
    # A project's file that nobody has trusted does not lead past bwrap, to docker; the caller does.
    (workspace() / ".brig.yaml").write_text("limits: {tmp_exec: false}\n")
    done = behind([deny], "run", "--", "true")
    assert done.returncode == 125 and "brig: backend 'bwrap' cannot honour" in done.stderr, done.stderr
    (workspace() / ".brig.yaml").unlink()
    done = behind([deny], "run", "--set", "limits.tmp_exec=false", "--", "true")
    assert not done.stderr.startswith("brig: backend 'bwrap' cannot honour"), done.stderr  # docker, or that there is none


@test(alone=True)
def a_trial_that_was_passed_is_not_made_again_until_the_machine_is_another():
    """Each trial writes its note anew, so the note's inode tells whether there was one."""
    note, filtered = state() / "brig/probed", compile_c(TOP / "tests/lib/deny-new-syscalls.c")
    deny = compile_c(TOP / "tests/lib/deny-second-namespace.c")

    def run(*around):
        done = behind(around, "run", "--json", "--", "true")
        assert done.returncode == 0, done.stderr
        with files_as_root():
            return json.loads(done.stdout)["backend"], note.stat().st_ino if note.exists() else None

    if identity() == "root":  # there are no idmapped mounts behind this filter
        os.chown(workspace(), ORDINARY, ORDINARY)
    around = os.environ.get("BRIG_WRAP") or pathlib.Path("/proc/self/status").read_text().partition("\nSeccomp:")[2].split()[0]
    if around == "0":  # no filter around brig
        assert run()[1] is None, "nothing speaks against namespaces, and a trial was made"
    backend, first = run(filtered)
    assert backend == "native" and first
    assert run(filtered) == ("native", first), "the control: nothing has changed"
    backend, second = run(filtered, filtered)
    assert backend == "native" and second != first, "another filter, and no trial"
    with files_as_root():
        note.write_text("0" * 64)
    assert run(filtered)[1] != second, "a note of another machine was believed"
    # A note does not help where a filter of the same number forbids it: the run says so, and the next one looks.
    assert behind([deny], "run", "--", "true").returncode in (0, 125)
    assert run(deny)[0] == "bwrap"


if __name__ == "__main__":
    sys.exit(main())
