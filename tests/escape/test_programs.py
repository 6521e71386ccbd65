#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that brig starts on the host are none that a command in a sandbox could have written, wherever that lies and
whatever leads there; with the same programs in a clean folder as the control. And how they are started: in `/`, with a short
environment, and not on a file that a sandbox writes."""

import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import brig, brig_argv, brig_environment, brig_path, main, scratch, start_brig, test, uid, wait_until, workspace  # noqa: E402

TOP = pathlib.Path(__file__).resolve().parents[2]
SYSTEM = "/usr/local/bin:/usr/bin:/bin"
OPTIONS = "--size --perms --add-seccomp-fd --clearenv --info-fd --disable-userns --bind-fd --ro-bind-fd"  # what brig looks for in a bwrap
VALUE = "abcdefghijklmnopqrstuvwxyz0123456789"


def settings(command):
    """The user's own file, with a command for a credential."""
    text = f"brig: 1\nnetwork: proxy\negress: {{allow: [api.test]}}\ncredentials:\n  KEY: {{host: api.test, from: {{command: [{', '.join(command)}]}}}}\n"
    path = scratch() / "own.yaml"
    path.write_text(text)
    return ["--config", str(path)]


def starts(name):
    """The line that has brig start the program of that name."""
    return {"bwrap": ["--backend", "bwrap"], "ssh": ["--backend", "ssh", "--set", "ssh.host=box.invalid"], "sinfo": ["--backend", "slurm"], "srun": ["--backend", "slurm"],
            "keeper": settings(["keeper"])}[name]


KINDS = ("bwrap", "ssh", "sinfo", "keeper")
NAMES = (*KINDS, "srun", "scontrol", "sbatch", "squeue", "scancel")


def mark():
    return scratch() / "mark"


def script(interpreter="/bin/sh"):
    return f"#!{interpreter}\n# {OPTIONS}\nbasename $0 >> {mark()}\nexit 1\n"


def plant(folder, *flags, env=None):
    """By a command in a sandbox."""
    line = f'mkdir -p {folder} && cd {folder} && for p in {" ".join(NAMES)}; do cat > $p <<"END" || exit 1\n{script()}END\nchmod 755 $p; done'
    done = brig("run", *flags, "--", "sh", "-c", line, env=env)
    assert done.status == 0, done.errors


def put(folder, interpreter="/bin/sh"):
    """By the user."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        (folder / name).write_text(script(interpreter))
        (folder / name).chmod(0o755)


def started(path):
    """Which of the kinds were started, and what was said."""
    found, said = set(), {}
    for name in KINDS:
        mark().unlink(missing_ok=True)
        done = brig("run", *starts(name), "--", "true", env={"PATH": path})
        said[name] = done.errors
        # Root's bwrap runs as a user who cannot write here; where the planted one is passed over, the real one serves.
        if mark().exists() or name == "bwrap" and done.status != 0:
            found.add(name)
    mark().unlink(missing_ok=True)
    return found, said


def venv():
    plant(".venv/bin")
    return workspace() / ".venv/bin"


def relative():
    plant(".venv/bin")
    return ".venv/bin"


def linked():
    plant("tools")
    clean = scratch() / "links"
    clean.mkdir()
    for name in NAMES:
        (clean / name).symlink_to(workspace() / "tools" / name)
    return clean


def linked_folder():
    plant("tools")
    (scratch() / "way").symlink_to(workspace() / "tools")
    return scratch() / "way"


def written():
    tree = scratch() / "tree"
    tree.mkdir()
    plant(tree / "bin", "--write", str(tree))
    return tree / "bin"


def kept_home():
    cache = scratch() / "cache"
    cache.mkdir(mode=0o700)
    plant('"$HOME/bin"', "--home", "keep", env={"XDG_CACHE_HOME": str(cache)})
    return next(cache.rglob("keeper")).parent


def interpreted():
    plant("tools")
    shutil.copy("/bin/sh", workspace() / "tools" / "shell")
    put(scratch() / "scripts", workspace() / "tools" / "shell")
    return scratch() / "scripts"


@test(limit=120)
def no_program_that_a_run_could_write_is_started():
    put(scratch() / "clean")
    assert started(f"{scratch()}/clean:{SYSTEM}")[0] == set(KINDS)
    for way in (venv, relative, linked, linked_folder, written, kept_home, interpreted):
        folder = way()
        found, said = started(f"{folder}:{SYSTEM}")
        assert not found, (way.__name__, found)
        if way is not relative:
            assert "is not started on the host" in said["keeper"] and str(folder) in said["keeper"] and "hint: " in said["keeper"], (way.__name__, said)
    # Behind what is passed over, the next one is found.
    assert started(f"{workspace()}/.venv/bin:{scratch()}/clean:{SYSTEM}")[0] == set(KINDS)


@test
def the_first_run_in_a_workspace_starts_none_of_its_programs_either():
    put(workspace() / "bin")
    found, said = started(f"{workspace()}/bin:{SYSTEM}")
    assert not found and "where this run" in said["keeper"], (found, said)


def embedded(folder, *words):
    """By a brig in that folder, as one that was built there, or a program that embeds it."""
    argv = [str(folder / "brig") if word == str(brig_path()) else word for word in brig_argv("run", "--", *words)]
    return subprocess.run(argv, cwd=workspace(), env=brig_environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=60, text=True)


@test(backends=("native",), limit=120)
def no_part_of_brig_that_the_command_has_replaced_is_started():
    """Some are started when the command already runs (for its first question for a name) or has ended (git's answers)."""
    subprocess.run(["git", "init", "-q", str(workspace())], check=True)
    for folder in (workspace() / "bin", scratch() / "clean"):
        shutil.copytree(brig_path().parent, folder)
    for path in (workspace(), *workspace().rglob("*")):
        os.chown(path, uid(), uid(), follow_symlinks=False)
    planted = f"#!/bin/sh\necho $0 >> {mark()}\n"
    line = ("for p in brig-egress brig; do rm -f bin/$p; printf '%s' \"$1\" > bin/$p; chmod 755 bin/$p; done; touch new; "
            "git add new; git -c user.name=a -c user.email=a@b commit -qm new; getent hosts example.test; sleep 0.3; git log --oneline")
    done = embedded(workspace() / "bin", "sh", "-c", line, "sh", planted)
    assert "new" in done.stdout, (done.stdout, done.stderr)
    assert not mark().exists(), mark().read_text()
    assert "are not counted: brig's own" in done.stderr and "may have written" in done.stderr, done.stderr

    mark().touch(mode=0o666)
    mark().chmod(0o666)
    subprocess.run([workspace() / "bin/brig-egress"], check=True)  # controls: it would have told, and a clean one is started
    assert mark().read_text()
    done = embedded(scratch() / "clean", "getent", "hosts", "example.test")
    assert "it asks for 'example.test'" in done.stderr, done.stderr


@test(limit=120)
def a_credential_command_is_given_nothing_that_a_run_could_write():
    work, own = workspace(), scratch() / "own"
    own.mkdir()
    text = f"#!/bin/sh\necho run >> {mark()}\necho {VALUE}\n"
    for folder in (work, own):
        (folder / "token").write_text(text)
        (folder / "token").chmod(0o755)
    (own / "link").symlink_to(work / "token")
    brig("run", "--", "true")
    forms = (lambda f: [f"{f}/token"], lambda f: ["sh", f"{f}/token"], lambda f: ["sh", "-c", f'"{f}/token"'], lambda f: ["sh", "-c", f'"cd {f} && ./token"'],
             lambda f: ["env", "-i", "PATH=/usr/bin:/bin", f"{f}/token"], lambda f: ["sh", "-c", f"'. \"$1\"'", "sh", f"{f}/token"],
             lambda f: ["env", f"--chdir={f}", "./token"])
    for form in forms:
        assert brig("run", *settings(form(own)), "--", "true").status == 0 and mark().read_text() == "run\n", form(own)
        mark().unlink()
        done = brig("run", *settings(form(work)), "--", "true")
        assert done.status == 125 and not mark().exists() and "on the host" in done.errors, (form(work), done.errors)
    for command in ([str(own / "link")], ["sh", str(own / "link")]):
        done = brig("run", *settings(command), "--", "true")
        assert done.status == 125 and not mark().exists(), (command, done.errors)


@test
def no_brig_that_a_run_could_write_is_started_on_a_node():
    """srun gives it to the node, which has the same files where the file system is shared. The control: one of the user's own."""
    clean = scratch() / "clean"
    put(clean)
    plant("bin")
    shutil.copy(clean / "keeper", clean / "brig")
    (clean / "link").symlink_to(workspace() / "bin/keeper")
    for program, refused in ((clean / "brig", False), (workspace() / "bin/keeper", True), (workspace() / "bin/none", True), (clean / "link", True)):
        mark().unlink(missing_ok=True)
        done = brig("run", "--backend", "slurm", "--set", f"slurm.brig={program}", "--", "true", env={"PATH": f"{clean}:{SYSTEM}"})
        assert done.status == 125 and ("is not started on a node" in done.errors) == refused and mark().exists() != refused, (program, done.errors)


def late(folder, inside):
    """A command for a credential that takes its time, and then reads what it finds by that name."""
    at = f"{folder}/{inside}"
    return settings(["sh", "-c", f'"touch {scratch()}/up; until [ -r {at} ]; do sleep 0.02; done; . {at}"'])


@test(limit=60)
def what_a_run_makes_when_brig_has_looked_is_not_given_to_a_program_either():
    """The name is missing, or its folder closed, while brig looks at the words; a command that lives makes it when the program is at work."""
    own, elsewhere, work, up = scratch() / "own", scratch() / "elsewhere", workspace(), scratch() / "up"
    own.mkdir()
    elsewhere.mkdir()
    text = f"touch {mark()}; echo {VALUE}"
    guest = start_brig("run", "--", "sh", "-c", "mkdir -m 0 closed; touch ready; until [ -e go ]; do sleep 0.02; done; "
                       "chmod 700 closed; printf '%s' \"$1\" > closed/new; mv closed/new closed/token; cp closed/token new; mv new token; sleep 5", "sh", text)
    assert wait_until((work / "ready").exists)
    for folder, inside, status in ((own, "token", 0), (work, "token", 125), (work, "closed/token", 125)):
        for path in (up, mark()):
            path.unlink(missing_ok=True)
        p = start_brig("run", *late(folder, inside), "--", "true", cwd=elsewhere)
        assert wait_until(lambda: up.exists() or p.poll() is not None)
        if folder == own:  # the control: the user makes it
            (own / "new").write_text(text)
            (own / "new").rename(own / "token")
        elif up.exists():
            (work / "go").touch()
        said = p.communicate(timeout=30)[1].decode()
        assert p.returncode == status and mark().exists() == (folder == own), (inside, p.returncode, said)
        assert folder == own or "may have written" in said, said
    guest.terminate()
    guest.communicate(timeout=30)


@test
def a_credential_command_begins_in_the_root_with_a_short_environment():
    (workspace() / "getpass.py").write_text(f"open({str(mark())!r}, 'w')\n")
    (workspace() / "rc").write_text(f"touch {mark()}\n")
    seen = scratch() / "seen"
    env = {"PATH": f"{workspace()}/bin:.:{SYSTEM}", "PYTHONPATH": str(workspace()), "ENV": str(workspace() / "rc"), "BASH_ENV": str(workspace() / "rc"), "LD_PRELOAD": "",
           "VAULT_ADDR": "https://vault.test", "OTHER": "1"}
    (workspace() / "bin").mkdir()
    brig("run", "--", "true")
    done = brig("run", *settings(["python3", "-c", f'"import getpass; print(\'{VALUE}\')"']), "--", "true", env=env)
    assert done.status == 0 and not mark().exists(), done.errors
    done = brig("run", *settings(["sh", "-c", f'"pwd > {seen}; env >> {seen}; ls /proc/self/fd >> {seen}; echo {VALUE}"']), "--", "true", env=env)
    assert done.status == 0 and not mark().exists(), done.errors
    lines = seen.read_text().splitlines()
    names = {line.split("=")[0] for line in lines if "=" in line}
    assert lines[0] == "/" and f"PATH={SYSTEM}" in lines and "VAULT_ADDR" in names, lines
    assert not names & {"PYTHONPATH", "ENV", "BASH_ENV", "LD_PRELOAD", "OTHER", "XDG_STATE_HOME"}, names
    assert [int(line) for line in lines if line.isdigit()] == [0, 1, 2, 3], lines  # 3 is the folder that ls reads
    done = brig("run", *settings(["sh", "-c", f'"echo {VALUE}"']), "--", "true", env={"AWS_CONFIG_FILE": str(workspace() / "aws")})
    assert done.status == 125 and "AWS_CONFIG_FILE leads to" in done.errors, done.errors


@test(as_user="user")
def the_sources_start_programs_in_one_place_alone():
    """tools/check-layers finds every way around that place; what only speaks of one is the control."""
    top = scratch() / "tree"
    for folder in ("src/cli", "src/proc", "tools"):
        (top / folder).mkdir(parents=True)
    shutil.copy(TOP / "tools/layers", top / "tools")

    ways = ("(void)execve(p, v, e);", "f = execvp;", "(execv)(p, v);", "syscall(__NR_execve, p, v, e);", "syscall(SYS_execveat, fd, p, v, e, 0);", "system (p);", "s = popen(p, m);",
            "r = posix_spawnp(&pid, p, a, t, v, e);", "run = &fexecve;", "h = dlopen(p, 0);", "/* no */ wordexp(p, &w, 0);")
    words = ("/* execve is not for us */", " * execve", 'say("execve failed");', "host_exec(p, v, e);", "x->system = system_of(x);", "proc_exec(p);")
    for folder in ("cli", "proc"):
        (top / "src" / folder / "x.c").write_text("\n".join(ways + words))
    done = subprocess.run(["/usr/bin/python3", TOP / "tools/check-layers", top], stdout=subprocess.PIPE, check=False)
    said = [line.split(": starts a program")[0] for line in done.stdout.decode().splitlines()]
    assert done.returncode == 1 and said == [f"src/cli/x.c:{n}" for n in range(1, len(ways) + 1)], done.stdout.decode()


if __name__ == "__main__":
    sys.exit(main())
