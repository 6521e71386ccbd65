#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""2.4 of the attack corpus: system-call surface and namespaces."""

import contextlib
import os
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import (INSIDE, SCRATCH_PIDS, UNSHARED, alive, attackers_uid, canary, digest, held, inner_pid, inside, mount,  # noqa: E402
                    on_host, outside, program, status_of)
from harness import FACTOR, IS_ROOT, brig, brig_path, main, scratch, seconds, test, uid, wait_until, workspace  # noqa: E402

KINDS = ("user", "mount", "pid", "net", "ipc", "uts", "cgroup")
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16


@test
def a040_no_new_namespaces_by_unshare_and_clone():
    outside("syscalls", "namespaces").must_work("unshare-user", "clone-user", "clone-high-user")
    inside("syscalls", "namespaces").must_fail(*(f"{c}-{k}" for c in ("unshare", "clone", "clone-high") for k in KINDS), "unshare-time")


@test
def a041_clone3_does_not_exist():
    outside("syscalls", "clone3").must_work("clone3-user")
    attempt = inside("syscalls", "clone3").must_fail(*(f"clone3-{k}" for k in KINDS))
    assert set(attempt.denied.values()) == {"ENOSYS"} and attempt.facts["clone3-plain"] == "ENOSYS"
    assert brig("run", "--", "sh", "-c", "(echo forked)").stdout == b"forked\n", "libc falls back"


@test
def a042_no_namespace_can_be_joined():
    if IS_ROOT:
        outside("syscalls", "join", "0", user=0).must_work("setns-uts")
    inside("syscalls", "join", "60").must_fail("setns-user", "setns-mnt", "setns-net", "setns-pidfd")


@test(alone=True, by_root=True)  # its control leaves keys that all can see
def a044_to_a047_interfaces_of_the_machine_are_closed():
    """io_uring, bpf, keys, perf, userfaultfd, kexec, modules, swap, reboot, clocks, accounting, the log, kcmp..."""
    control = outside("syscalls", "interfaces", user=0 if IS_ROOT else None, within=("unshare", "--uts") if IS_ROOT else ())
    control.must_work("perf_event_open", "adjtimex", "kcmp")
    assert len(control.worked) > 8, control.worked
    before = pathlib.Path("/proc/keys").read_text().count("brig-escape") if IS_ROOT else 0
    for profile in ("default", "strict"):
        attempt = inside("syscalls", "interfaces", options=("--profile", profile))
        attempt.must_fail("io_uring_setup", "bpf-map", "bpf-load", "add_key", "keyctl-join", "keyctl-read", "perf_event_open", "userfaultfd",
                          "kexec_load", "init_module", "swapon", "reboot", "clock_settime", "acct", "quotactl", "syslog", "kcmp")
        assert attempt.denied["io_uring_setup"] == "ENOSYS"
    if IS_ROOT:
        assert pathlib.Path("/proc/keys").read_text().count("brig-escape") <= before


@test
def a047_the_debug_profile_opens_nothing_of_the_machine():
    attempt = inside("syscalls", "interfaces", options=("--profile", "debug"))
    assert set(attempt.worked) <= {"kcmp", "perf_event_open"}, attempt.worked  # counters of its own processes


@test
def a048_and_a058_only_a_few_kinds_of_socket_can_be_made():
    control = outside("syscalls", "sockets", user=0 if IS_ROOT else None)
    assert "netlink:15" in control.facts, "the control proves nothing: no uevent socket"
    assert not IS_ROOT or "socket:17/3/0" in control.facts, "the control proves nothing: no packet socket"
    attempt = inside("syscalls", "sockets")
    assert attempt.status == 1
    made = set(attempt.facts)
    allowed = {f"socket:{f}/{t}/{p}" for f in (INET, INET6) for t, p in ((1, 0), (1, 6), (2, 0), (2, 17))}
    allowed |= {f"socket:{UNIX}/{t}/{p}" for t in (1, 2, 3, 5) for p in (0, 1)} | {f"pair:{UNIX}"}
    allowed |= {f"socket:{NETLINK}/{t}/0" for t in (2, 3)} | {"netlink:0"}
    assert made and made <= allowed, made - allowed
    strict = inside("syscalls", "sockets", options=("--profile", "strict"))
    assert not [n for n in strict.facts if n.startswith((f"socket:{NETLINK}/", "netlink"))]


@test
def a050_files_cannot_be_opened_by_handle():
    if IS_ROOT:
        outside("syscalls", "handles", workspace(), user=0).must_work("own")
    inside("syscalls", "handles").must_fail("name_to_handle_at", "guess")


@test
def a052_personalities_are_listed_values_only():
    outside("syscalls", "personalities").must_work("read-implies-exec", "no-randomise", "uname26")
    usual = inside("syscalls", "personalities")
    assert list(usual.worked) == ["read-implies-exec", "no-randomise", "high"], usual.worked  # of itself, as sanitizers and GCL do
    inside("syscalls", "personalities", options=("--profile", "strict")).must_fail("read-implies-exec", "no-randomise", "uname26", "high")


@test
def a053_a_sibling_sandbox_cannot_be_traced_or_read():
    with held("run", "--", "sh", "-c", "touch ready; sleep 20") as h:
        for pid in h.pids():
            attempt = inside("procfs", "reach", str(pid), options=("--workdir", scratch(), "--profile", "debug"))
            attempt.must_fail("pidfd_open", "ptrace", "process_vm_readv", "kill", "mem")
        h.process.terminate()


@test
def a054_no_filter_with_a_listener_and_further_filters_in_debug_alone():
    outside("syscalls", "listener").must_work("new-listener")
    for profile, own in (("strict", "EINVAL"), ("default", "EINVAL"), ("debug", "works")):
        attempt = inside("syscalls", "listener", options=("--profile", profile)).must_fail("new-listener", "new-listener-high")
        assert attempt.facts["own-filter"] == own, (profile, attempt.facts)


EVERY = tuple(("--backend", b, "--profile", p) for b in ("native", "bwrap") for p in ("strict", "default", "debug"))


@test
def no_lease_makes_the_host_wait():
    """Of a file in the workspace, and of one that is shown read-only; the host's open() is the oracle."""
    for folder in (workspace(), scratch()):
        (folder / "file").write_text("canary\n")
        os.chown(folder / "file", uid(), uid()) if IS_ROOT else None
    outside("neighbours", "leases", scratch() / "file", scratch()).must_work("lease-write", "lease-high", "notify")
    names = ("lease-write", "lease-read", "lease-high", "lease-dup", "notify", "notify-high")
    for options in EVERY:
        attempt = inside("neighbours", "leases", options=options).must_fail(*names)
        assert set(attempt.denied.values()) == {"EINVAL"} and attempt.facts["delegation"] == "EINVAL", attempt.denied
    attempt = inside("neighbours", "leases", scratch() / "file", scratch(), options=("--read", scratch())).must_fail(*names)
    assert os.read(os.open(scratch() / "file", os.O_RDWR | os.O_NONBLOCK), 9) == b"canary\n"
    (workspace() / "file").unlink()


@test
def the_machines_aio_budget_is_out_of_reach():
    ways = [f"io_setup{way}" for way in ("", "-high", "-many", "-thread", "-child", "-clone")]
    outside("neighbours", "aio").must_work(*ways, "io_submit", "io_getevents", "io_destroy")
    for options in EVERY:
        if "debug" not in options:
            attempt = inside("neighbours", "aio", options=options).must_fail(*ways, "io_submit", "io_getevents", "io_destroy")
            assert set(attempt.denied.values()) == {"ENOSYS"}, attempt.denied


@test
def strict_sees_nobody_open_anything():
    """Which programs the host starts can be seen by watching the folders they lie in; that is the default's declared risk."""
    ways = ["inotify", "inotify-high", "inotify-thread", "watch-none", "unwatch-none"]
    outside("neighbours", "spy").must_work(*ways, "notify")
    for options in EVERY:
        attempt = inside("neighbours", "spy", options=options)
        assert {"fanotify", "fanotify-high", "mark-none", "notify"} <= set(attempt.denied), (options, attempt.worked)
        if "strict" in options:
            attempt.must_fail(*ways)


@test
def huge_pages_are_out_of_reach():
    outside("neighbours", "huge").must_work("map", "map-high", "memfd", "memfd-high")
    for options in EVERY:
        attempt = inside("neighbours", "huge", options=options)
        attempt.must_fail("map", "map-2m", "map-high", "memfd", "memfd-2m", "memfd-high", "segment")
        assert set(attempt.denied.values()) == {"EINVAL"}, attempt.denied


@contextlib.contextmanager
def encrypting():
    """A file system of the test's own that can encrypt folders, with a folder of the user's."""
    image, on = scratch() / "image", scratch() / "on"
    on.mkdir()
    with open(image, "wb") as f:
        f.truncate(16 << 20)
    subprocess.run(["/sbin/mkfs.ext4", "-q", "-O", "encrypt", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, on], check=True)
    try:
        (on / "d").mkdir()
        os.chown(on / "d", uid(), uid())
        yield on / "d"
    finally:
        subprocess.run(["umount", on], check=True)
        image.unlink()


@test(as_user="root")  # who else mounts
def no_tree_gets_a_second_view():
    """An encrypted folder changes its names when its key goes, and keeps its stamps: what is in it could not be judged. A snapshot of
    btrfs has what covers hide."""
    with encrypting() as d:
        control = outside("neighbours", "views", d).must_work("key", "policy", "remove")
        assert {control.denied[k] for k in ("snapshot", "snapshot-high", "subvolume")} == {"ENOTTY"}, "the kernel was asked"
        assert os.listdir(d / "locked") != ["plain"], "the control proves nothing"
        (d / "more").mkdir()
        os.chown(d / "more", uid(), uid())
        for i, options in enumerate(EVERY):
            folder = d / "more" / str(i)
            folder.mkdir()
            os.chown(folder, uid(), uid())
            attempt = inside("neighbours", "views", folder, options=("--write", d / "more", *options))
            attempt.must_fail("key", "policy", "remove", "snapshot", "snapshot-high", "subvolume")
            assert set(attempt.denied.values()) == {"EPERM"}, attempt.denied
            assert os.listdir(folder / "locked") == ["plain"], "nothing is encrypted"


@test
def no_whiteout_can_be_made():
    """It is a device node: on the host's disk nothing but files may appear."""
    (scratch() / "w").mkdir()
    os.chown(scratch() / "w", uid(), uid()) if IS_ROOT else None
    ways = [f"whiteout{way}" for way in ("", "-high", "-noreplace", "-folder", "-node", "-node-high")]
    outside("neighbours", "whiteout", scratch() / "w").must_work(*ways)
    assert [p for p in (scratch() / "w").iterdir() if p.is_char_device()], "the control proves nothing"
    for options in EVERY:
        inside("neighbours", "whiteout", ".", options=options).must_fail(*ways)
        assert all(p.is_file() or p.is_dir() for p in workspace().iterdir())
        subprocess.run(["rm", "-rf", *workspace().iterdir()], check=True)


@test
def no_program_of_the_guests_is_loaded_into_the_kernel():
    """One of each kind, and never more: great numbers stop a machine for good."""
    outside("neighbours", "filters").must_work("socket-unix", "socket-udp", "reuseport", "seccomp", "prctl")
    sockets = {"socket-unix", "socket-udp", "socket-high", "reuseport"}
    for options in EVERY:
        attempt = inside("neighbours", "filters", options=options)
        assert all(attempt.denied.get(s) == "EPERM" for s in sockets), attempt.denied
        own = {"seccomp", "seccomp-high", "seccomp-tsync", "prctl", "prctl-high"}
        if "debug" in options:
            assert set(attempt.worked) <= own and "seccomp" in attempt.worked, attempt.worked
        else:
            assert not attempt.worked and all(attempt.denied.get(s) == "EINVAL" for s in own), (attempt.worked, attempt.denied)


@test
def programs_that_would_filter_themselves_go_on_without():
    done = brig("run", "--", "sh", "-c", "file /bin/sh && xz --version >/dev/null && gpgv --version >/dev/null && echo fine")
    assert done.status == 0 and "fine" in done.text, (done.text, done.errors)
    (workspace() / "x.1").write_text('.TH X 1\n.SH NAME\nx \\- a page\n')
    done = brig("run", "--", "sh", "-c", "if command -v man >/dev/null; then man -l x.1; else echo 'a page'; fi")
    assert done.status == 0 and "a page" in done.text, (done.text, done.errors)
    (workspace() / "x.1").unlink()


@test
def every_thread_shares_the_descriptors_of_its_process():
    outside("neighbours", "descriptors").must_work("close_range", "unshare", "clone")
    for options in EVERY:
        attempt = inside("neighbours", "descriptors", options=options)
        attempt.must_fail("close_range", "close_range-high", "unshare", "unshare-fs", "clone", "clone-fs")


def schedule(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return {"nice": fields[16], "policy": fields[38], "cpus": os.sched_getaffinity(pid)}


@test
def init_cannot_be_starved():
    """Its priority, policy, I/O class and CPUs as the host sees them, whatever the guest asks for."""
    scheduling = ("nice", "nice-high", "nice-user", "nice-user-0", "nice-group", "io", "io-user", "io-group", "affinity",
                  "param", "attr", "scheduler")
    control = on_host(*SCRATCH_PIDS, "sh", "-c", f"{program('neighbours')} starve; true")
    assert all(f"+ {n} ".encode() in control.stdout for n in ("nice", "nice-user", "io", "affinity", "scheduler")), control.stdout
    for backend in ("native", "bwrap"):
        with held("run", "--backend", backend, *mount("neighbours"), "--", INSIDE, "starve", "/workspace") as h:
            init = next(p for p in h.pids() if inner_pid(p) == 1)
            seen = schedule(init)
            assert seen == {"nice": str(max(0, os.nice(0))), "policy": "0", "cpus": os.sched_getaffinity(0)}, seen
        h.process.result.must_fail(*scheduling)
        assert set(h.process.result.denied.values()) == {"EPERM"}, h.process.result.denied
        assert h.process.result.facts["own-thread"] == "works"


@test(limit=90)
def a055_random_system_calls_do_no_harm():
    """No control: the same noise outside could do anything."""
    seed = random.SystemRandom().getrandbits(64) | 1
    print(f"seed {seed:#x}")  # shown when it fails
    (scratch() / "file").write_text("canary\n")
    before = digest(scratch() / "file"), digest(brig_path()), digest("/etc/passwd")
    with canary(), canary(attackers_uid()):
        done = brig("run", "--json", "--timeout", seconds(40), "--memory", "512m", "--pids", "64", "--set", "limits.tmp=32m", "--read", scratch(),
                    *mount("syscalls"), "--", INSIDE, "noise", f"{300000 / FACTOR:.0f}", str(seed), f"{20 * FACTOR:.0f}", timeout=60)
        assert done.json["outcome"] in ("exited", "signalled", "limit", "oom"), done.json
        calls = [s for s in done.json["stdout"].split("\n") if s.startswith("= calls")]
        print(done.json["outcome"], calls)
        assert done.json["outcome"] != "exited" or int(calls[0].split()[2]) > 2000, calls  # each that blocks costs 50 ms
    assert (digest(scratch() / "file"), digest(brig_path()), digest("/etc/passwd")) == before
    assert brig("run", "--", "echo", "healthy").stdout == b"healthy\n"
    on_host("chmod", "-R", "u+rwX", workspace())


@test(alone=True)
def a057_what_a_process_says_about_its_own_death_does_not_matter():
    with held("run", *mount("syscalls"), "--", INSIDE, "undying", "/workspace") as h:
        assert wait_until(lambda: len(h.pids()) >= 7)
        pids = h.pids()
        h.process.kill()
        h.process.wait()
        assert wait_until(lambda: not alive(pids), 1), "they live on"
    assert brig("run", "--", "true").status == 0, "the next run tidies up"


@test
def a059_sandboxes_inside_are_refused_cleanly():
    tools = {"bwrap": ("bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"), "unshare": ("unshare", "-Ur", "true"),
             "newuidmap": ("newuidmap", "1", "0", "0", "1"), "brig": ("/brig", "run", "--", "true"), "chroot": ("chroot", "/", "true")}
    for name, argv in tools.items():
        done = brig("run", "--mount", f"{brig_path()}:/brig", "--", *argv)
        assert done.status not in (0, 139, 134), (name, done.status)
        assert done.stderr, f"{name}: no message"
    assert on_host(*UNSHARED, "true").returncode == 0, "the control proves nothing"
    nested = brig("run", "--mount", f"{brig_path()}:/brig", "--", "/brig", "run", "--", "true")
    assert nested.status == 125 and nested.errors.startswith("brig: "), nested.errors
    assert set(os.listdir(workspace())) == set()


@test
def a060_every_thread_of_every_process_is_filtered():
    outside("syscalls", "threads").must_work("thread-io_uring")
    with held("run", *mount("syscalls"), "--", INSIDE, "threads", "/workspace") as h:
        tasks = [t for p in h.pids() for t in pathlib.Path(f"/proc/{p}/task").iterdir()]
        assert len(tasks) >= 2
        for t in tasks:
            text = (t / "status").read_text()
            assert "\nSeccomp:\t2\n" in text and "\nNoNewPrivs:\t1\n" in text, t
    h.process.result.must_fail("thread-unshare", "thread-io_uring")


@test
def a060_the_launcher_has_one_thread_when_it_starts_the_child():
    with held("run", "--", "sh", "-c", "touch ready; sleep 9") as h:
        top = h.process.pid
        assert status_of(top)["Name"].strip() == "brig" and status_of(top)["Threads"].strip() == "1"
        h.process.terminate()


if __name__ == "__main__":
    sys.exit(main())
