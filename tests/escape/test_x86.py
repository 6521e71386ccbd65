#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What x86-64 alone has, part of 2.4 of the attack corpus: i386 and x32 calls, segments, ports, old calls. None elsewhere."""

import os
import pathlib
import platform
import stat
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import inside, outside  # noqa: E402
from harness import IS_ROOT, main, test, workspace  # noqa: E402

PROFILES = ("strict", "default", "debug")


def x86(function=None, **options):
    """A test, on the one architecture it is about."""
    if function is None:
        return lambda f: x86(f, **options)
    return test(function, **options) if platform.machine() == "x86_64" else function


def set_id_files():
    return [f.name for f in workspace().iterdir() if f.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID)]


def empty_workspace():
    for file in workspace().iterdir():
        file.unlink()


@x86
def a040_calls_by_the_numbers_of_i386_kill():
    names = ("int80-getpid", "int80-unshare-user", "int80-creat", "int80-chmod", "int80-personality", "program")
    outside("x86", "i386").must_work(*names)
    assert set_id_files() == ["set-id-by-interrupt"], "the control proves nothing"
    for profile in PROFILES:
        empty_workspace()
        attempt = inside("x86", "i386", options=("--profile", profile)).must_fail(*names)
        assert set(attempt.denied.values()) == {"SYS"}, attempt.denied
        assert os.listdir(workspace()) == ["i386-program"], "one of them made its file"


@x86
def a040_calls_by_the_numbers_of_x32_do_not_exist():
    """Most kernels have none, or have them switched off: `syscall.x32=y` on Debian's command line makes this control one."""
    names = ("x32-getpid", "x32-unshare-user", "x32-chmod", "x32-personality", "x32-getpid-high")
    control = outside("x86", "x32")
    if "syscall.x32=y" in pathlib.Path("/proc/cmdline").read_text():
        control.must_work(*names, "x32-range-bit")
        assert set_id_files() == ["x32-file"], "the control proves nothing"
    for profile in PROFILES:
        empty_workspace()
        attempt = inside("x86", "x32", options=("--profile", profile)).must_fail(*names)
        assert set(attempt.denied.values()) == {"ENOSYS"}, attempt.denied
        assert not set_id_files()


@x86
def a044_segments_and_ports_are_out_of_reach():
    control = outside("x86", "machine", user=0 if IS_ROOT else None).must_work("modify_ldt-write", "modify_ldt-write-new", "modify_ldt-read")
    if IS_ROOT:
        ports = {control.denied.get(name) for name in ("iopl", "iopl-high", "ioperm")}
        if ports != {"ENOSYS"}:  # a kernel without CONFIG_X86_IOPL_IOPERM has none of them for anybody
            control.must_work("iopl", "iopl-high", "ioperm", "port")
    for profile in PROFILES:
        attempt = inside("x86", "machine", options=("--profile", profile))
        attempt.must_fail("modify_ldt-write", "modify_ldt-write-new", "modify_ldt-read", "iopl", "iopl-high", "ioperm", "port", "dev-port",
                          "dev-msr")
        assert attempt.denied["modify_ldt-write"] == "ENOSYS" and attempt.denied["port"] == "SEGV", attempt.denied


@x86
def a064_old_calls_make_no_set_id_file_either():
    names = [name + high for name in ("chmod", "creat", "open", "mknod") for high in ("", "-high")]
    outside("x86", "set-id").must_work(*names)
    assert len(set_id_files()) == 7, f"the control proves nothing: {set_id_files()}"
    for profile in PROFILES:
        empty_workspace()
        attempt = inside("x86", "set-id", options=("--profile", profile)).must_fail(*names)
        assert set(attempt.denied.values()) == {"EPERM"} and not set_id_files(), (attempt.denied, set_id_files())


@x86
def a044_what_died_long_ago_stays_dead():
    outside("x86", "dead").must_work("ustat", "sysfs")
    for profile in PROFILES:
        attempt = inside("x86", "dead", options=("--profile", profile))
        attempt.must_fail("uselib", "ustat", "sysfs", "_sysctl", "create_module", "query_module", "get_kernel_syms")
        assert set(attempt.denied.values()) == {"EPERM"}, attempt.denied


@x86
def old_calls_that_programs_make_work():
    """No attack: C libraries other than glibc, Go and older programs make them still."""
    control = outside("x86", "old")
    assert len(control.facts) > 35 and set(control.facts.values()) == {"works"}, control.facts
    for profile in PROFILES:
        attempt = inside("x86", "old", options=("--profile", profile))
        without = {"inotify_init": "ENOSYS"} if profile == "strict" else {}
        assert attempt.facts == {**control.facts, **without}, attempt.facts
        assert attempt.worked == control.worked, "the page of old is called as outside"


if __name__ == "__main__":
    sys.exit(main())
