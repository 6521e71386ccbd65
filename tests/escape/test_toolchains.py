#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Toolchains below the caller's home: shown by one word, read-only, and nothing that lies beside them."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import on_host  # noqa: E402
from harness import brig, files_as_root, main, scratch, test, tree, workspace  # noqa: E402

BOTH = ("native", "bwrap")
SECRETS = (".cargo/credentials.toml", ".cargo/registry/x", ".ssh/id", ".nvm/alias/x", ".npmrc", ".sdkman/etc/config", ".local/share/mise/state")
PROGRAMS = {".cargo/bin": "cargo", ".pyenv/shims": "python3", ".nvm/versions/node/v1/bin": "node", ".cargo/bin/": "only-here"}


def furnish():
    """A home with toolchains and secrets, and the variables of somebody who uses them."""
    me = scratch() / "me"
    for folder, name in PROGRAMS.items():
        (me / folder).mkdir(parents=True, exist_ok=True)
        (me / folder / name).write_text(f"#!/bin/sh\necho mine: {name}\n")
        (me / folder / name).chmod(0o755)
    (me / ".rustup/toolchains").mkdir(parents=True)
    for name in SECRETS:
        (me / name).parent.mkdir(parents=True, exist_ok=True)
        (me / name).write_text("CANARY\n")
    path = ":".join([*dict.fromkeys(f"{me}/{folder.rstrip('/')}" for folder in PROGRAMS), "/usr/bin", "/bin"])
    return me, {"HOME": str(me), "PATH": path}


@test(backends=BOTH)
def another_program_inside_is_said_and_one_word_shows_the_callers_own():
    me, env = furnish()
    done = brig("run", "--", "python3", "-c", "print('the systems')", env=env)
    assert done.text == "the systems\n" and f"not your '{me}/.pyenv/shims/python3' (--toolchains" in done.errors and "cargo" not in done.errors, done.errors
    assert f"not your '{me}/.cargo/bin/cargo'" in brig("run", "--", "cargo", "--version", env=env).errors
    assert "not your" not in brig("run", "--", "true", env=env).errors  # which uses none of them
    done = brig("run", "--", "only-here", env=env)
    assert done.status == 127 and "--toolchains shows it" in done.errors, done.errors
    done = brig("run", "--toolchains", "--", "sh", "-c", "cargo; python3; node; only-here; echo $RUSTUP_HOME; ls $RUSTUP_HOME; echo $HOME", env=env)
    assert done.text == f"mine: cargo\nmine: python3\nmine: node\nmine: only-here\n{me}/.rustup\ntoolchains\n/home/brig\n" and "not your" not in done.errors, (done.text, done.errors)
    plain = {"PATH": "/usr/bin:/bin"}
    assert "not your" not in brig("run", "--", "true", env=plain).errors


@test(backends=BOTH)
def nothing_beside_a_toolchain_is_shown_and_nothing_of_it_is_written():
    me, env = furnish()
    before = tree(me)
    names = " ".join(f"{me}/{name}" for name in SECRETS)
    assert b"CANARY" in on_host("sh", "-c", f"cat {names}").stdout
    script = f"""cat {names}; grep -rs CANARY {me}; for d in .cargo/bin .rustup .pyenv .pyenv/shims .nvm/versions/node; do
        touch {me}/$d/new; echo evil > {me}/$d/cargo; mv {me}/$d {me}/$d.away; chmod 777 {me}/$d; rm -rf {me}/$d; done; true"""
    done = brig("run", "--toolchains", "--", "sh", "-c", script, env=env)
    assert "CANARY" not in done.text and tree(me) == before, (done.text, done.errors)


@test(backends=BOTH)
def variables_and_links_lead_to_nothing_else():
    me, env = furnish()
    outside = scratch() / "outside"
    (outside / "bin").mkdir(parents=True)
    (outside / "secret").write_text("CANARY\n")
    (outside / "bin/secret").write_text("CANARY\n")
    (me / ".volta").symlink_to(outside)
    (me / ".rbenv").mkdir()
    (me / ".rbenv/l").symlink_to(outside)
    look = f"cat {outside}/secret {outside}/bin/secret {me}/.volta/secret {me}/.rbenv/l/secret {me}/.ssh/id; ls {outside} /etc/ssl/private"
    for name, value in (("PYENV_ROOT", outside), ("CARGO_HOME", outside), ("RUSTUP_HOME", "/etc"), ("RUSTUP_HOME", "/"), ("PYENV_ROOT", me), ("PYENV_ROOT", f"{me}/../outside"), ("CARGO_HOME", ""),
                        ("PYENV_ROOT", f"{me}/.pyenv/../.ssh"),
                        *(("PYENV_ROOT", f"{me}{end}") for end in ("/", "//", "/.", "/./", "//.", "/.//.", "/.pyenv/..", "/..", "/./.ssh", "//.ssh")), ("PYENV_ROOT", "."), ("PYENV_ROOT", f"{me.parent}/./me"), ("HOME", "/"), ("HOME", ""), ("HOME", f"{me}/.ssh/..")):
        done = brig("run", "--toolchains", "--", "sh", "-c", look, env={**env, name: str(value)})
        assert "CANARY" not in done.text, (name, value, done.text)
    for end in ("", "/", "//"):  # the control: as people write it
        done = brig("run", "--toolchains", "--", "sh", "-c", "python3; ls $PYENV_ROOT", env={**env, "HOME": f"{me}{end}", "PYENV_ROOT": f"{me}/.pyenv{end}"})
        assert done.text == "mine: python3\nshims\n", (done.text, done.errors)


@test(by_root=True, backends=BOTH)
def home_by_another_name_is_no_toolchain():
    me, env = furnish()
    (me / "also").mkdir()
    look = f"cat {me}/also/.ssh/id {me}/.ssh/id; true"
    with files_as_root():
        subprocess.run(["mount", "--bind", me, me / "also"], check=True)
    try:
        assert (me / "also/.ssh/id").read_text() == "CANARY\n"
        done = brig("run", "--toolchains", "--", "sh", "-c", look, env={**env, "PYENV_ROOT": f"{me}/also"})
        assert "CANARY" not in done.text, (done.text, done.errors)
    finally:
        with files_as_root():
            subprocess.run(["umount", "-l", me / "also"], check=True)


@test
def a_projects_file_nobody_trusts_shows_no_toolchains():
    me, env = furnish()
    (workspace() / ".brig.yaml").write_text("toolchains: true\n")
    done = brig("run", "--", "sh", "-c", f"ls {me}/.rustup", env=env)
    assert done.status == 125 and "toolchains" in done.errors and "brig allow" in done.errors, done.errors
    (workspace() / ".brig.yaml").write_text("toolchains: false\n")
    assert brig("run", "--", "true", env=env).status == 0
    (workspace() / ".brig.yaml").unlink()
    assert brig("run", "--backend", "docker", "--toolchains", "--", "true", env=env).status == 125


if __name__ == "__main__":
    sys.exit(main())
