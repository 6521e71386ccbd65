#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Which pieces of the host's /etc a command sees: what programs look for, and nothing that is somebody's alone."""

import contextlib
import hashlib
import os
import pathlib
import pty
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import brig, brig_argv, brig_environment, files_as_root, identity, main, scratch, skip, start_brig, test, uid, workspace  # noqa: E402

ETC, LIB = pathlib.Path("/etc"), pathlib.Path("/var/lib")
SECRET = "CANARY-5150"


@contextlib.contextmanager
def layer(folder):
    """A folder with a writable layer over it, in this test's own mount namespace."""
    disk = scratch() / f"disk{folder.replace('/', '-')}"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(disk)], check=True)
    with files_as_root():
        (disk / "upper").mkdir()
        (disk / "work").mkdir()
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={folder},upperdir={disk}/upper,workdir={disk}/work", folder], check=True)
    try:
        yield
    finally:
        for where in (folder, str(disk)):
            subprocess.run(["umount", "-l", where], check=True)  # umount itself may be in there


@contextlib.contextmanager
def etc(conffiles=None):
    """/etc and /var/lib of this test's own, on a machine whose packages ship these files: a path and its text. None: it has no package manager that brig knows."""
    with layer("/etc"), layer("/var/lib"):
        with files_as_root():
            for name in ("dpkg/status", "ucf/hashfile"):
                (LIB / name).unlink(missing_ok=True)
        if conffiles is not None:
            shipped("zeta", conffiles)
        yield


def sums(conffiles):
    return [f"{path} {hashlib.md5(text.encode()).hexdigest()}" for path, text in conffiles.items()]


def shipped(package, conffiles, status="install ok installed"):
    lines = [f"Package: {package}", f"Status: {status}", "Priority: optional", "Conffiles:", *(f" {line}" for line in sums(conffiles)), "Description: x", " Conffiles:", ""]
    put("/var/lib/dpkg/status", "\n".join(lines))


def put(name, text, mode=0o644):
    path = ETC / name  # or a path of its own
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


@test(by_root=True)
def what_programs_need_without_a_person_is_there_for_them():
    """An editor's batch runs its packages' start files; an office suite has a table of two megabytes; builds of packages ask whose system it is."""
    texts = {"/etc/emacs/site-start.d/50x.el": "x\n", "/etc/office/main.xcd": "x" * (5 << 19), "/etc/dpkg/origins/debian": "Vendor: x\n", "/etc/office/huge": "x" * (9 << 20)}
    with etc(texts):
        for path, text in texts.items():
            put(path, text)
        put("/var/lib/units/currency.units", "euro 1\n")
        want = "x\nVendor: x\neuro 1\n2621440\n" if not out_of_reach() else "0\n"
        assert shown("cat /etc/emacs/site-start.d/50x.el /etc/dpkg/origins/debian /var/lib/units/currency.units; cat /etc/office/* | wc -c") == want


def own_cache():
    """A cache folder of this test's own: what others have found in it is of another machine."""
    folder = scratch() / "cache"
    with files_as_root():
        folder.mkdir(exist_ok=True)
        os.chown(folder, uid(), uid())
    return {"XDG_CACHE_HOME": str(folder)}


def shown(script, *options):
    return brig("run", *options, "--", "sh", "-c", f"({script}) 2>/dev/null; true", env=own_cache()).text


def out_of_reach():
    """Root's copy is shown by the newer system calls alone: where those are denied nothing of it is."""
    return identity() == "root" and "deny-new-syscalls" in os.environ.get("BRIG_WRAP", "")


def compared_long_ago():
    with files_as_root():
        os.utime(scratch() / "cache/brig/packages/now", (1, 1))


@test(by_root=True, backends=("native", "bwrap"))
def what_a_package_ships_is_shown_until_somebody_writes_into_it():
    texts = {"/etc/zeta/a.conf": "as shipped\n", "/etc/zeta/sub/b.conf": "too\n", "/etc/zeta/changed.conf": "shipped\n", "/etc/zeta/closed.conf": "closed\n", "/etc/zeta/others.conf": "others\n", "/etc/zeta.conf": "alone\n",
             "/etc/cron.d/zeta": "x\n", "/var/lib/zeta/data": "data\n", "/etc/zeta/big.conf": "x" * 9000000, "/etc/../tmp/x": "x\n", "/etc/zeta/gone.conf": "x\n"}
    with etc(texts):
        for path, text in texts.items():
            if ".." not in path and "gone" not in path:
                put(path, text)
        put("/etc/zeta/changed.conf", f"shipped\n{SECRET}\n")
        put("/etc/zeta/own.conf", SECRET)
        put("/etc/zeta/closed.conf", "closed\n", 0o640)
        os.chown("/etc/zeta/others.conf", 4242, 4242)
        for link, goal in (("zeta/link", "../../usr/bin/env"), ("zeta/next", "a.conf"), ("zeta.cfg", "/etc/zeta.conf"), ("zeta/secret", "own.conf"), ("zeta/shadow", "/etc/shadow")):
            with contextlib.suppress(FileExistsError):
                (ETC / link).symlink_to(goal)
        if out_of_reach():
            assert shown("ls -d /etc/zeta*") == ""
            return
        everything = "find -L /etc/zeta /etc/zeta.* /var/lib/zeta /etc/cron.d -type f | sort"
        there = "/etc/zeta.cfg /etc/zeta.conf /etc/zeta/a.conf /etc/zeta/link /etc/zeta/next /etc/zeta/sub/b.conf /var/lib/zeta/data".split()
        assert shown(everything).split() == there, shown(everything)
        assert shown("cat /etc/zeta/a.conf /etc/zeta/next /etc/zeta.cfg /var/lib/zeta/data; head -c 4 /etc/zeta/link") == "as shipped\nas shipped\nalone\ndata\n\x7fELF"
        assert shown("echo x > /etc/zeta/a.conf && echo WROTE; echo x > /etc/zeta/new && echo WROTE; chmod 600 /etc/zeta/a.conf && echo WROTE; rm /etc/zeta && echo WROTE") == ""
        assert SECRET not in shown("cat /etc/zeta/*.conf /.packages/etc/zeta/*.conf")
        plan = brig("plan", "--", "true", env=own_cache()).json
        assert plan["backend"] != "native" or {"op": "symlink", "target": "/etc/zeta", "to": "/.packages/etc/zeta", "package": "zeta"} in plan["ops"], plan["ops"]
        # What an administrator writes later is not shown, and once it was seen neither is what was there before.
        put("/etc/zeta/a.conf", SECRET)
        assert SECRET not in shown("cat /etc/zeta/a.conf")
        compared_long_ago()
        assert shown(everything).split() == [p for p in there if p not in ("/etc/zeta/a.conf", "/etc/zeta/next")]
        # The control: a package that ships what is there.
        shipped("zeta", {**texts, "/etc/zeta/a.conf": SECRET})
        assert shown("cat /etc/zeta/a.conf") == SECRET
        # One that was removed leaves its files, which nobody vouches for any more.
        shipped("zeta", texts, "deinstall ok config-files")
        assert shown(everything) == ""


def by_rpm(files, more="", status=0):
    """A machine whose packages are rpm's: a program that answers the one question as rpm 4.18 does, sums of SHA-256 and of MD5."""
    lines = [f"zeta\t{(hashlib.md5 if path.endswith('.old') else hashlib.sha256)(text.encode()).hexdigest()}\t{path}" for path, text in files.items()]
    put("/var/lib/rpm/rpmdb.sqlite", "of rpm's\n" * (len(lines) + 1))
    put("/var/lib/rpm-said", "\n".join((*lines, "zeta\t\t/etc/zeta/ghost", more)).rstrip("\n") + "\n")
    put("/usr/bin/rpm", f"#!/bin/sh\n[ \"$*:$HOME\" = '-qa --nodigest --nosignature --qf [%{{=NAME}}\\t%{{FILEDIGESTS}}\\t%{{FILENAMES}}\\n]:/nonexistent' ] && cat /var/lib/rpm-said\nexit {status}\n", 0o755)


@test(by_root=True)
def what_a_package_of_rpms_ships_is_shown():
    texts = {"/etc/zeta/a.conf": "as shipped\n", "/etc/zeta/b.old": "of long ago\n", "/etc/zeta/changed.conf": "shipped\n", "/etc/sysconfig/zeta": "x\n", "/var/lib/zeta/data": "data\n"}
    with etc(), layer("/usr/bin"):
        for path, text in texts.items():
            put(path, text)
        put("/etc/zeta/changed.conf", SECRET)
        put("/etc/zeta/ghost", SECRET)
        by_rpm({**texts, "/usr/share/zeta/x": "x", "/etc/../tmp/x": "x"}, f"no line\n\t\t\nzeta\t{'0' * 40}\t/etc/zeta/ghost")
        everything = "find -L /etc/zeta /var/lib/zeta /etc/sysconfig -type f | sort"
        there = "/etc/zeta/a.conf /etc/zeta/b.old /var/lib/zeta/data".split() if not out_of_reach() else []
        assert shown(everything).split() == there, shown(everything)
        plan = brig("plan", "--", "true", env=own_cache()).json
        assert out_of_reach() or {"op": "symlink", "target": "/etc/zeta", "to": "/.packages/etc/zeta", "package": "zeta"} in plan["ops"], plan["ops"]
        # It is asked once, until its database has changed.
        put("/usr/bin/rpm", "#!/bin/sh\nexit 1\n", 0o755)
        assert shown(everything).split() == there
        # Who does not answer in full vouches for nothing; asked again later, it may.
        by_rpm(dict(list(texts.items())[:2]), status=1)
        assert shown(everything) == ""
        put("/usr/bin/rpm", (pathlib.Path("/usr/bin/rpm").read_text()).replace("exit 1", "exit 0"), 0o755)
        assert shown(everything) == ""
        compared_long_ago()
        assert shown(everything).split() == there[:2]


def many_entries(count, least, most):
    """Of rpm's, and of dpkg's: the list is made once, and the next run asks nobody."""
    texts = {f"/etc/zeta{i}.conf": "z\n" for i in range(count)}
    with etc(), layer("/usr/bin"):
        for path in texts:
            put(path, "z\n")
        by_rpm(texts)
        if out_of_reach():
            assert shown("ls /etc | grep -c zeta") == "0\n"
            return
        first = int(shown("cat /etc/zeta*.conf | wc -l"))
        assert least <= first <= most, first
        put("/usr/bin/rpm", "#!/bin/sh\nexit 1\n", 0o755)
        assert int(shown("cat /etc/zeta*.conf | wc -l")) == first
        with files_as_root():
            (LIB / "rpm/rpmdb.sqlite").unlink()
        shipped("zeta", texts)
        assert int(shown("cat /etc/zeta*.conf | wc -l")) == first


@test(by_root=True, limit=120)
def a_list_over_a_thousand_entries_is_shown_whole():
    many_entries(1500, 1500, 1500)


@test(by_root=True, limit=120)
def a_list_without_end_is_shown_up_to_its_bound():
    many_entries(4300, 3800, 4096)


@test(by_root=True)
def what_is_mounted_below_a_packages_folder_stands_beside_the_rest():
    texts = {"/etc/zeta/a.conf": "a\n", "/etc/zeta/sub/b.conf": "b\n"}
    with etc(texts):
        for path, text in texts.items():
            put(path, text)
        put("/etc/zeta/sub/own.conf", "own\n")
        if out_of_reach():
            assert shown("ls -d /etc/zeta") == ""
            return
        words = "cat /etc/zeta/a.conf /etc/zeta/sub/b.conf /etc/zeta/sub/own.conf"
        assert shown(words) == "a\nb\n"
        told = brig("run", "--", "cat", "/etc/zeta/sub/own.conf", env=own_cache()).errors
        assert "hint: the host's '/etc/zeta/sub/own.conf' is not shown inside; --read /etc/zeta/sub/own.conf shows it" in told, told
        assert shown(words, "--read", "/etc/zeta/sub/own.conf") == "a\nb\nown\n"
        assert shown(words, "--read", "/etc/zeta") == "a\nb\nown\n"
        assert shown("cat /etc/zeta/sub/own.conf", "--read", "/etc/zeta/sub") == "own\n"


@test(by_root=True)
def etc_is_made_once_and_not_at_every_start():
    """On a machine with many packages; what a run makes itself is at its place all the same, nobody inside changes any of it, and what was asked for comes too."""
    texts = {f"/etc/zeta{i}.conf": f"{i}\n" for i in range(12)}
    folders = scratch() / "cache/brig/packages"
    with etc(texts):
        for path, text in texts.items():
            put(path, text)
        put("/etc/own.conf", "own\n")
        if out_of_reach():
            return
        words = "cat /etc/zeta*.conf; grep -c root: /etc/passwd; wc -l < /etc/hostname; readlink /etc/zeta3.conf; ls -A /etc | sort | md5sum; cat /etc/own.conf"
        whole = "".join(sorted(texts.values(), key=lambda t: f"zeta{t.strip()}.conf")) + "1\n1\n/.packages/etc/zeta3.conf\n"

        def made():
            with files_as_root():
                return sorted(p.name for p in folders.glob("*/tree/.links-*"))

        first = shown(words)
        assert first.startswith(whole) and "own" not in first, first
        assert len(made()) == (0 if "deny-new-syscalls" in os.environ.get("BRIG_WRAP", "") else 1), made()
        assert shown(words) == first and len(made()) <= 1, made()
        assert shown("for f in /etc/hosts /etc/new /.etc/hosts /.etc/new /.packages/.links-*/x /etc/zeta1.conf; do echo x > $f && echo WROTE $f; done; rm /etc/hosts /etc/zeta1.conf && echo GONE; mv /etc /e && echo MOVED; mv /.etc /e && echo MOVED") == ""
        # The control: with something more in /etc it is made at the start, and looks the same.
        asked = shown(words, "--read", "/etc/own.conf")
        assert asked.startswith(whole) and asked.endswith("own\n"), asked
        assert len(made()) <= 1, made()


@test(by_root=True)
def what_packages_make_for_everybody_is_shown_while_it_is_everybodys():
    with etc({}):
        for size in (10, 3000000):  # copied, and mounted
            put("/var/lib/ghostscript/fonts/x", "f" * size)
            if out_of_reach():
                assert shown("ls -d /var/lib/ghostscript") == ""
                return
            with files_as_root():
                (LIB / "ghostscript/closed").unlink(missing_ok=True)
            compared = "wc -c < /var/lib/ghostscript/fonts/x; cat /var/lib/ghostscript/closed"
            assert shown(compared) == f"{size}\n", size
            put("/var/lib/ghostscript/closed", SECRET, 0o640)
            compared_long_ago()
            assert shown(compared) == "", size
            compared_long_ago()


@test(by_root=True)
def many_first_runs_at_once_make_one_copy():
    with etc({"/etc/zeta.conf": "z\n"}):
        put("/etc/zeta.conf", "z\n")
        if out_of_reach():
            assert shown("ls -d /etc/zeta*") == ""
            return
        env = own_cache()
        runs = [start_brig("run", "--", "cat", "/etc/zeta.conf", env=env) for _ in range(6)]
        assert [p.communicate()[0] for p in runs] == [b"z\n"] * 6
        with files_as_root():
            assert len([p for p in (scratch() / "cache/brig/packages").iterdir() if p.is_dir()]) == 1


@test(backends=("native", "bwrap"))
def the_topology_of_the_machine_is_shown_and_nothing_of_what_its_cpus_do():
    system = pathlib.Path("/sys/devices/system")
    names = ["cpu/possible", "cpu/present", "cpu/cpu0/topology/core_id", "cpu/cpu0/topology/thread_siblings_list", "cpu/cpu0/cache/index0/size", "node/online", "node/node0/cpulist"]
    names = [n for n in names if (system / n).exists()]
    if not (system / "cpu/cpu0/topology").exists() or not LIB.joinpath("dpkg/status").exists() or (system / "cpu/cpu64").exists():
        skip("no topology, no package database, or too many CPUs")
    if out_of_reach():
        assert shown(f"ls {system}/cpu") == "online\n"
        return
    env = {"XDG_CACHE_HOME": str(scratch())}  # the first run has folders where later ones have links
    for _ in range(2):
        got = brig("run", "--", "sh", "-c", f"cd {system} && cat {' '.join(names)}; ls -d cpu/cpu0/cpuidle cpu/cpu0/cpufreq cpu/vulnerabilities 2>/dev/null; echo x > cpu/online; echo x > cpu/cpu0/topology/core_id", env=env)
        assert got.text == "".join((system / n).read_text() for n in names), got
        assert got.errors.count("Read-only file system") + got.errors.count("Permission denied") >= 2, got
    one = min(os.sched_getaffinity(0))
    got = subprocess.run(["taskset", "-c", str(one), *brig_argv("run", "--", "sh", "-c", f"cat {system}/cpu/online {system}/cpu/possible")], env=brig_environment(env), cwd=workspace(), capture_output=True, text=True, check=True)
    assert got.stdout == f"{one}\n{(system / 'cpu/possible').read_text()}", got


if __name__ == "__main__":
    sys.exit(main())
