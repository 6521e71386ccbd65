#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What one run could write, the next does not obey: settings, roles, secrets, entries of MCP.

The oracle is the host: a file that only a command outside of a sandbox, or one with a grant that nobody gave, can make.
Every way is first shown to work for a file that no run could write, or for one that `brig allow` has shown."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import brig, brig_argv, brig_environment, brig_path, files_as_root, home, identity, main, scratch, start_brig, state, test, workspace  # noqa: E402
from victim import repository  # noqa: E402

BOTH = ("native", "bwrap")
ROLE = ("apiVersion: initrunner/v1\nkind: Agent\nmetadata: {name: r}\nspec:\n  role: x\n  model: {provider: ollama, name: m}\n"
        "  tools: [{type: shell}]\n  security: {sandbox: {backend: auto}}\n")
HOST = "brig: 1\nbackend: none\nallow_full_access: true\n"


def folder(name):
    path = scratch() / name
    path.mkdir()
    return path


def loosens(path):
    """Settings that open a folder of the host's, and what a command then leaves there."""
    open_folder = scratch() / "private"
    open_folder.mkdir(exist_ok=True)
    path.write_text(f"brig: 1\nwrite: [{open_folder}]\n")
    return ("run", "--config", path, "--", "touch", open_folder / "taken")


def taken():
    left = scratch() / "private/taken"
    with contextlib.suppress(FileNotFoundError):
        left.unlink()
        return True
    return False


def obeyed(call, **more):
    done = brig(*call, allow=False, **more)
    got = taken()
    assert got == (done.status == 0), done
    if not got:
        assert done.status == 125 and "brig allow" in done.errors, done
    return got


def write_by_run(backend, text, *options, cwd=None):
    done = brig("run", "--json", "--backend", backend, *options, "--", "sh", "-c", text, cwd=cwd)
    assert done.json["outcome"] == "exited", done
    return done.json


@test
def a_run_that_names_nothing_cannot_rewrite_the_settings_of_the_next():
    for backend in BOTH:
        config = workspace() / "brig.yaml"
        config.write_text("brig: 1\n")
        assert brig("run", "--config", config, "--", "true", allow=False).status == 0  # it loosens nothing
        write_by_run(backend, f"printf '{HOST}' > brig.yaml; printf '{HOST}' > new.yaml; mv new.yaml brig.yaml; true".replace("\n", "\\n"))
        assert config.read_text() == "brig: 1\n"
        config.unlink()  # and one that was used and is missing is not made for it
        json_of = write_by_run(backend, "echo brig: 1 > brig.yaml")
        assert not config.exists() or "brig.yaml" in str(json_of["denials"] + json_of["changed_trust"]), json_of


@test
def settings_in_the_workspace_count_once_they_were_shown():
    config = workspace() / "brig.yaml"
    call = loosens(config)
    assert not obeyed(call)
    assert brig("allow", config).status == 0
    assert obeyed(call)  # control
    config.write_text(config.read_text() + "# one byte more\n")
    assert not obeyed(call)


@test
def a_file_of_a_foreign_dialect_needs_to_be_allowed_and_keeps_its_dialect():
    role = workspace() / "role.yaml"
    role.write_text(ROLE)
    done = brig("run", "--config", role, "--", "true", allow=False)
    assert done.status == 125 and "is not trusted" in done.errors and f"brig allow {role}\n" in done.errors, done
    odd = workspace() / "a $(id).yaml"  # the line is there to be pasted
    odd.write_text(ROLE)
    done = brig("run", "--config", odd, "--", "true", allow=False)
    assert done.status == 125 and f"brig allow '{odd}'\n" in done.errors, done
    assert brig("allow", role).status == 0
    assert brig("run", "--config", role, "--", "true", allow=False).status == 0  # control
    role.write_text("brig: 1\npolicy: readonly\n")  # it would only tighten
    done = brig("run", "--config", role, "--", "true", allow=False)
    assert done.status == 125 and "another kind now" in done.errors, done


@test
def no_file_that_a_guest_may_have_written_leads_to_the_host():
    mark = scratch() / "on-the-host"
    for lines in (HOST, "brig: 1\nbackend: none\n", "brig: 1\npolicy: full_access\n", "brig: 1\nallow_full_access: true\n"):
        config = workspace() / "b.yaml"
        config.write_text(lines)
        brig("allow", config)
        done = brig("run", "--config", config, "--i-know-this-is-not-a-sandbox", "--", "touch", mark, allow=False)
        # Of a flag the last word, and of a file the first, is a request; of this file neither.
        assert done.status == 125 or "allow_full_access" in lines and "none" not in lines, (lines, done)
        assert not mark.exists(), lines
    own = scratch() / "own.yaml"
    own.write_text("brig: 1\nbackend: none\n")
    assert brig("run", "--config", own, "--i-know-this-is-not-a-sandbox", "--", "touch", mark).status == 0
    assert mark.exists()  # control: the user's own file, and the user's flag
    own.write_text(HOST)
    assert brig("run", "--config", own, "--", "true").status == 125


def by_link(place, outside):
    (outside / "c.yaml").symlink_to(place / "c.yaml")
    return outside / "c.yaml"


def by_folder_link(place, outside):
    (outside / "f").symlink_to(place)
    return outside / "f/c.yaml"


def by_link_in_it(place, outside):
    os.rename(place / "c.yaml", outside / "real.yaml")
    (place / "c.yaml").symlink_to(outside / "real.yaml")
    return place / "c.yaml"


def by_hard_link(place, outside):
    os.link(place / "c.yaml", outside / "c.yaml")
    return outside / "c.yaml"


def by_new_name(place, outside):
    os.rename(place, outside / "moved")
    return outside / "moved/c.yaml"


def by_mount(place, outside):
    if identity() != "root":
        return None
    (outside / "m").mkdir()
    with files_as_root():
        subprocess.run(["mount", "--bind", place / "sub", outside / "m"], check=True)
    return outside / "m/c.yaml"


@test(alone=True)
def what_an_earlier_run_could_write_is_known_by_whatever_leads_there():
    for n, way in enumerate((by_link, by_folder_link, by_link_in_it, by_hard_link, by_new_name, by_mount)):
        for before in (False, True):
            place, outside = folder(f"p{n}{before}"), folder(f"o{n}{before}")
            (place / "sub").mkdir()
            if before:
                write_by_run(BOTH[n % 2], "true", "--write", place)  # from another project
            call = loosens((place / "sub" if way is by_mount else place) / "c.yaml")
            path = way(place, outside)
            if not path:
                continue
            try:
                got = obeyed(("run", "--config", path, *call[3:]))
            finally:
                if way is by_mount:
                    with files_as_root():
                        subprocess.run(["umount", "-l", outside / "m"], check=True)
            # A file with two names is nobody's word in either case.
            assert got == (not before and way is not by_hard_link), (way, before)


@test
def every_way_in_asks_the_same_question():
    role, config = workspace() / "role.yaml", workspace() / "c.yaml"
    role.write_text(ROLE)
    call = loosens(config)
    words = call[-2:]
    (workspace() / "batch.jsonl").write_text(json.dumps({"id": "a", "argv": [str(w) for w in words]}) + "\n")
    for ways in (("exec", "--config", config, " ".join(map(str, words))), ("python", "--config", config, "-c", f"open('{words[1]}', 'w')"),
                 ("batch", "--config", config, "batch.jsonl"), ("mcp", "--config", config), ("agent", role, "-p", "x"),
                 ("wrap", "--config", config, "--", "true"), ("plan", "--config", config, "--", "true")):
        done = brig(*ways, allow=False)
        assert done.status == 125 and "brig allow" in done.errors, (ways, done)
        assert not taken(), ways


@test
def a_users_own_file_that_runs_could_write_only_tightens():
    dotfiles = folder("dotfiles")
    write_by_run("native", "true", "--write", dotfiles)
    (scratch() / "private").mkdir()
    (dotfiles / "config.yaml").write_text(f"write: [{scratch() / 'private'}]\n")
    config = scratch() / "xdg/brig"
    config.mkdir(parents=True)
    config.chmod(0o755)
    (config / "config.yaml").symlink_to(dotfiles / "config.yaml")
    env = {"XDG_CONFIG_HOME": str(scratch() / "xdg")}
    done = brig("run", "--", "true", env=env)
    assert done.status == 125 and str(dotfiles) in done.errors and "brig allow" in done.errors, done
    (config / "config.yaml").unlink()
    (config / "config.yaml").write_text((dotfiles / "config.yaml").read_text())
    assert brig("run", "--", "touch", scratch() / "private/taken", env=env).status == 0 and taken()  # control


def limit_in(folder):
    """What the settings say there, for a run that would begin now."""
    done = brig("config", "show", "--json", cwd=folder)
    assert done.status == 0, done
    return done.json["limits"]["pids"]


@test
def nothing_that_a_run_makes_takes_a_files_word_away():
    """A `.git` ends the search for .brig.yaml, and so does a nearer one. One that no guest can have made is the control."""
    repository(workspace())
    top, usual = workspace() / ".brig.yaml", limit_in(workspace())
    top.write_text("brig: 1\nlimits: {pids: 77}\n")
    made = {"a": "mkdir a/.git", "b": "git init -q b", "c": "echo brig: 1 > c/.brig.yaml", "d": "echo 'limits: {pids: 99}' > d/.brig.yaml",
            "e": "mkdir e/.git; echo brig: 1 > e/.brig.yaml", "f": "mkdir -p f/g/.git f/.git"}
    for name in (*made, "f/g"):
        (workspace() / name).mkdir()
        os.chown(workspace() / name, workspace().stat().st_uid, workspace().stat().st_gid)
    for name in made:
        assert limit_in(workspace() / name) == 77, name
    (workspace() / "a/.git").mkdir()
    assert limit_in(workspace() / "a") == usual  # control: nothing has run here
    (workspace() / "a/.git").rmdir()
    for backend in BOTH:
        write_by_run(backend, "; ".join(made.values()))
        for name in (*made, "f/g"):
            assert limit_in(workspace() / name) == 77, (backend, name)
        done = brig("run", "--backend", backend, "--", "true", cwd=workspace() / "a")
        assert "holds here as far as it tightens" in done.errors, done
        write_by_run(backend, "rm -r a/.git b/.git c/.brig.yaml d/.brig.yaml e/.git e/.brig.yaml f/.git f/g/.git 2> /dev/null; true")
        for name in ("c", "d", "e"):
            with contextlib.suppress(FileNotFoundError):
                (workspace() / name / ".brig.yaml").unlink()
    write_by_run("native", made["b"])
    call = loosens(top)
    assert brig("allow", top).status == 0
    there = ("run", "--", *call[call.index("--") + 1:])
    assert brig(*there).status == 0 and taken()  # control: what was allowed, where it was
    assert brig(*there, cwd=workspace() / "b", allow=False).status != 0 and not taken()  # in a repository of its own it grants nothing, as ever


@test
def a_projects_file_further_down_stays_once_it_was_used():
    for backend in BOTH:
        below = workspace() / f"{backend}/.brig.yaml"
        below.parent.mkdir()
        os.chown(below.parent, workspace().stat().st_uid, workspace().stat().st_gid)
        below.write_text("brig: 1\nlimits: {pids: 77}\n")
        attack = f"rm -f {backend}/.brig.yaml; mv {backend} gone; echo brig: 1 > {backend}/.brig.yaml; true"
        write_by_run(backend, f"cp {backend}/.brig.yaml kept; {attack.replace('mv', ': mv')}")
        assert below.read_text() == "brig: 1\n"  # control: nobody had used it
        below.unlink()
        below.write_text("brig: 1\nlimits: {pids: 77}\n")
        assert brig("run", "--backend", backend, "--", "true", cwd=below.parent).status == 0
        write_by_run(backend, attack)
        assert limit_in(below.parent) == 77, backend


@test
def a_secret_that_a_run_could_write_is_not_sent():
    place, own = folder("place"), folder("own")
    write_by_run("native", "true", "--write", place)
    for file, why in ((own / "tok", None), (place / "tok", "may have written"), (workspace() / "tok", "this run")):
        file.write_text("tokentokentokentoken1234\n")
        file.chmod(0o600)
        config = scratch() / "c.yaml"
        config.write_text(f"brig: 1\nnetwork: proxy\negress: {{allow: [api.test]}}\ncredentials: {{KEY: {{host: api.test, from: {{file: {file}}}}}}}\n")
        done = brig("run", "--config", config, "--", "sh", "-c", "test -n \"$KEY\"")
        assert (done.status, why is None or why in done.errors) == (125 if why else 0, True), (file, done)
    for file in (place / "ca.pem", own / "ca.pem"):
        file.write_text("no certificate\n")
        done = brig("run", "--network", "proxy", "--set", f"egress.roots={file}", "--", "true")
        assert ("is not used" in done.errors) == (file.parent == place), done


def both_places():
    """A folder that an earlier run could write, and one that none could."""
    place, own = folder("place"), folder("own")
    write_by_run("native", "true", "--write", place)
    return place, own


def refuses(word, call, **more):
    """Is it refused for that word? Otherwise it got further, and failed for want of an engine, a server or a login."""
    done = brig(*call, **more)
    assert done.status == 125, done
    return all(part in done.errors for part in (word, "may have written", "no sandbox may write", "brig exposed forget "))


@test
def no_login_of_a_registry_is_taken_from_a_file_that_a_run_could_write():
    for at in both_places():
        for entry in ({"auths": {"127.0.0.1:1": {"auth": "YTpi"}}}, {"credsStore": "x"}):
            (at / "config.json").write_text(json.dumps(entry))
            call = ("bundle", "pull", "127.0.0.1:1/team/role:1", "--plain-http", "-o", scratch() / "out")
            assert refuses("the credentials in", call, env={"DOCKER_CONFIG": str(at)}) == (at.name == "place"), entry


@test
def no_file_of_sshs_own_is_used_that_a_run_could_write():
    """By whatever name, by a link, and in a folder that the settings include."""
    own = home() / ".ssh"
    own.mkdir(mode=0o700)
    (own / "config.d").mkdir()
    call = ("run", "--backend", "ssh", "--set", "ssh.host=box.invalid", "--", "true")
    try:
        for at in both_places():
            for name in ("id_ed25519", "known_hosts", "config", "config.d/one"):
                (at / "file").write_text("")
                (own / name).symlink_to(at / "file")
                assert refuses("ssh's own", call) == (at.name == "place"), name
                (own / name).unlink()
    finally:
        (own / "config.d").rmdir()
        own.rmdir()


@test
def the_daemon_has_no_certificate_that_a_run_could_write():
    place, own = both_places()
    keys = state() / "brig/tls"
    keys.mkdir(parents=True)
    (keys / "key.pem").write_text("no key\n")
    (keys / "key.pem").chmod(0o600)
    tokens = own / "tokens"
    tokens.write_text("")
    tokens.chmod(0o600)
    try:
        for at in (place, own):
            (at / "cert.pem").write_text("no certificate\n")
            (at / "key.pem").symlink_to(keys / "key.pem")
            for cert, key, word in ((at / "cert.pem", keys / "key.pem", "the certificate"), (own / "tokens", at / "key.pem", "the private key")):
                call = ("daemon", "--listen", "127.0.0.1:0", "--token-file", tokens, "--tls-cert", cert, "--tls-key", key)
                assert refuses(word, call) == (at == place), (cert, key)
    finally:
        (keys / "key.pem").unlink()
        keys.rmdir()


@test
def an_entry_of_mcp_has_absolute_paths():
    (workspace() / "c.yaml").write_text("brig: 1\n")
    (workspace() / "d").mkdir()
    (home() / ".claude.json").write_text("{}")
    try:
        done = brig("mcp", "install", "claude-code", "--", "--config", "c.yaml", "--read=d", "-v", "d:/x", "--set", "workspace.path=d", "--policy", "readonly")
        assert done.status == 0, done
        args = json.loads((home() / ".claude.json").read_text())["mcpServers"]["brig"]["args"]
    finally:
        for left in home().glob(".claude.json*"):
            left.unlink()
    here = workspace()
    assert args == ["mcp", "--config", f"{here}/c.yaml", f"--read={here}/d", "-v", f"{here}/d:/x", "--set", f"workspace.path={here}/d",
                    "--policy", "readonly"], args
    line = brig("wrap", "--dry-run", "--read", "d", "--", "true").text
    assert f"--read {here}/d" in line, line


@test
def no_entry_of_mcp_is_put_where_a_run_could_rewrite_it_or_its_program():
    """Another program would start whatever stands there. The control: the same file before any run."""
    file, copy = workspace() / "claude.json", workspace() / "bin"
    file.write_text("{}")
    os.chown(file, workspace().stat().st_uid, -1)
    (home() / ".claude.json").symlink_to(file)
    try:
        assert brig("mcp", "install", "claude-code").status == 0 and "mcpServers" in file.read_text()
        write_by_run("native", "true")
        done = brig("mcp", "install", "claude-code", "--", "--policy", "readonly")
        assert done.status == 125 and "may have written" in done.errors and "readonly" not in file.read_text(), done
        assert brig("mcp", "uninstall", "claude-code").status == 0
        (home() / ".claude.json").unlink()
        (home() / ".claude.json").write_text("{}")
        os.chown(home() / ".claude.json", workspace().stat().st_uid, -1)
        copy.mkdir()
        subprocess.run(["cp", "-L", brig_path(), brig_path().parent / "brig-more", copy], check=True)
        argv = [str(copy / "brig") if word == str(brig_path()) else word for word in brig_argv("mcp", "install", "claude-code")]
        done = subprocess.run(argv, env=brig_environment(), capture_output=True, timeout=30)
        assert done.returncode == 125 and b"may have written" in done.stderr and (home() / ".claude.json").read_text() == "{}", done
    finally:
        for left in home().glob(".claude.json*"):
            left.unlink()


@test(limit=90)
def a_pipe_that_nobody_writes_to_is_given_up():
    pipe = scratch() / "pipe"
    os.mkfifo(pipe)
    other = scratch() / "other"
    os.mkfifo(other)
    p, control = (start_brig("run", "--config", path, "--", "true") for path in (pipe, other))
    other.write_text("brig: 1\n")
    assert control.wait(60) == 0
    _, errors = p.communicate(timeout=60)
    assert p.returncode == 125 and b"nothing was written" in errors, errors


if __name__ == "__main__":
    sys.exit(main())
