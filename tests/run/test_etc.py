#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Which pieces of the host's /etc a command sees: what programs look for, and nothing that is somebody's alone."""

import contextlib
import os
import pathlib
import pty
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import brig, brig_argv, brig_environment, files_as_root, main, scratch, test, workspace  # noqa: E402

ETC = pathlib.Path("/etc")
SECRET = "CANARY-5150"


@contextlib.contextmanager
def etc():
    """/etc with a writable layer over it, in this test's own mount namespace."""
    disk = scratch() / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(disk)], check=True)
    (disk / "upper").mkdir()
    (disk / "work").mkdir()
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/etc,upperdir={disk}/upper,workdir={disk}/work", "/etc"], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "/etc"], check=True)
        subprocess.run(["umount", str(disk)], check=True)


def put(name, text, mode=0o644):
    path = ETC / name
    with files_as_root():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(mode)


def inside(script, *options):
    done = brig("run", *options, "--", "sh", "-c", script)
    return done.text


@test(by_root=True)
def what_programs_look_for_is_there():
    files = {"mime.types": "image/webp webp\n", "php/9.9/cli/php.ini": "x = 1\n", "php/9.9/mods-available/a.ini": "y\n", "chromium.d/flags": "z\n",
             "gradle/init.gradle": "g\n", "maven/m2.conf": "main\n", "magic": "# m\n", "profile": "# p\n", "profile.d/a.sh": "# a\n",
             "pip.conf": "[global]\nindex-url = https://pip.example/simple\n", "npmrc": "registry=https://npm.example/\n"}
    with etc():
        for name, text in files.items():
            put(name, text)
        got = inside(f"cd /etc; head -n 99 {' '.join(files)}; for f in {' '.join(files)}; do echo x > $f && echo WROTE; done 2>/dev/null; true")
        assert "WROTE" not in got, got
        for name, text in files.items():
            assert f"==> {name} <==\n{text}" in got, (name, got)
            assert (ETC / name).read_text() == text, name


@test(by_root=True)
def what_is_not_everybodys_is_not_there():
    with etc():
        for name, mode in (("php/9.9/cli/conf.d/secret.ini", 0o640), ("gradle/init.gradle", 0o600), ("magic", 0o640), ("chromium.d/flags", 0o666)):
            put(name, SECRET, mode)
        put("profile.d/a.sh", SECRET)
        (ETC / "profile.d").chmod(0o750)
        put("maven/m2.conf", SECRET)
        os.chown(ETC / "maven/m2.conf", 4242, 4242)
        assert SECRET not in inside("cat /etc/php/9.9/cli/conf.d/* /etc/gradle/* /etc/magic /etc/chromium.d/* /etc/profile.d/* /etc/maven/* 2>/dev/null; true")
        assert inside("ls -d /etc/php /etc/gradle /etc/magic /etc/chromium.d /etc/profile.d /etc/maven/m2.conf 2>/dev/null; true") == ""
        # The control: made everybody's, they are shown.
        for path in (ETC / "gradle/init.gradle", ETC / "magic", ETC / "chromium.d/flags"):
            path.chmod(0o644)
        assert inside("cat /etc/gradle/init.gradle /etc/magic /etc/chromium.d/flags") == SECRET * 3


@test(by_root=True)
def a_mount_below_a_folder_that_is_not_shown_has_its_place():
    """Whether such a folder is shown is mostly found out late, but before something is to lie in it."""
    data = scratch() / "data"
    data.mkdir()
    (data / "f").write_text("own")
    with etc():
        with files_as_root():
            (ETC / "php/own").mkdir(parents=True, exist_ok=True)
        for mode, shown in ((0o644, SECRET), (0o640, "")):
            put("php/9.9/php.ini", SECRET, mode)
            got = inside("cat /etc/php/own/f; cat /etc/php/9.9/php.ini 2>/dev/null; true", "--mount", f"{data}:/etc/php/own")
            assert got == "own" + shown, (oct(mode), got)


@test(by_root=True)
def a_file_with_a_login_is_not_there():
    logins = {"pip.conf": (f"[global]\nindex-url = https://user:{SECRET}@pip.example/simple\n", f"[global]\npassword = {SECRET}\n"),
              "npmrc": (f"//npm.example/:_authToken={SECRET}\n", f"//npm.example/:_auth={SECRET}\n", f"_Password={SECRET}\n",
                        f'key="-----BEGIN PRIVATE KEY-----\\n{SECRET}"\n', f"x-api-key={SECRET}\n"),
              "profile.d/corp.sh": (f"export HTTPS_PROXY=http://svc:{SECRET}@proxy.example\n", f"export TOKEN={SECRET}\n"),
              "gradle/init.gradle": (f"passphrase = '{SECRET}'\n", f"headers: Authorization {SECRET}\n", f"author_key = {SECRET}\n", f"Authority: {SECRET}\n")}
    with etc():
        for name, texts in logins.items():
            for text in texts:
                put(name, text)
                assert inside(f"cat /etc/{name} 2>/dev/null; true") == "", text
            put(name, "x" * 20000 + SECRET)  # too long to be read to its end
            assert inside(f"cat /etc/{name} 2>/dev/null; true") == ""
            put(name, "# Author(s): me\n# authors\nharmless: https://pip.example/a@b\n")
            assert inside(f"cat /etc/{name}").endswith("\nharmless: https://pip.example/a@b\n")
        put("maven/m2.conf", "main\n")
        (ETC / "maven").chmod(0o700)  # who may not pass it may not read what is in it
        assert inside("cat /etc/maven/m2.conf 2>/dev/null; true") == ""
        (ETC / "maven").chmod(0o755)
        assert inside("cat /etc/maven/m2.conf") == "main\n"
        put("maven/settings.xml", "<settings/>\n")
        assert inside("cat /etc/maven/settings.xml 2>/dev/null; true") == ""
        assert inside("ls -d /etc/shadow /etc/ssh /etc/sudoers /etc/apt /etc/fstab /etc/docker 2>/dev/null; true") == ""


@test(by_root=True)
def what_a_person_at_a_terminal_misses_is_there_for_one():
    with etc():
        for name in ("bash.bashrc", "inputrc", "screenrc", "vim/vimrc"):
            put(name, "# " + name + "\n")
        words = "cat /etc/bash.bashrc /etc/inputrc /etc/screenrc /etc/vim/vimrc 2>/dev/null; true"
        assert inside(words) == ""
        main_end, other = pty.openpty()
        p = subprocess.Popen(brig_argv("run", "--tty", "--", "sh", "-c", f"({words}) > seen"), env=brig_environment(), cwd=workspace(), stdin=other, stdout=other, stderr=other)
        os.close(other)
        with contextlib.suppress(OSError):
            while os.read(main_end, 4096):
                pass
        assert p.wait() == 0
        os.close(main_end)
        assert (workspace() / "seen").read_text() == "# bash.bashrc\n# inputrc\n# screenrc\n# vim/vimrc\n"


if __name__ == "__main__":
    sys.exit(main())
