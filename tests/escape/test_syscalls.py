#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""2.4 of the attack corpus: system-call surface and namespaces."""

import os
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import (INSIDE, UNSHARED, alive, attackers_uid, canary, digest, held, inside, mount, on_host, outside,  # noqa: E402
                    status_of)
from harness import FACTOR, IS_ROOT, brig, brig_path, main, scratch, seconds, test, wait_until, workspace  # noqa: E402

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
    assert set(attempt.worked) == {"kcmp"}, attempt.worked


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
    assert list(usual.worked) == ["no-randomise"], usual.worked  # of itself, as sanitizers do
    inside("syscalls", "personalities", options=("--profile", "strict")).must_fail("read-implies-exec", "no-randomise", "uname26", "high")


@test
def a053_a_sibling_sandbox_cannot_be_traced_or_read():
    with held("run", "--", "sh", "-c", "touch ready; sleep 20") as h:
        for pid in h.pids():
            attempt = inside("procfs", "reach", str(pid), options=("--workdir", scratch(), "--profile", "debug"))
            attempt.must_fail("pidfd_open", "ptrace", "process_vm_readv", "kill", "mem")
        h.process.terminate()


@test
def a054_no_filter_with_a_listener_and_further_filters_are_welcome():
    outside("syscalls", "listener").must_work("new-listener")
    attempt = inside("syscalls", "listener").must_fail("new-listener", "new-listener-high")
    assert attempt.facts["own-filter"] == "works"


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
        assert done.json["outcome"] != "exited" or int(calls[0].split()[2]) > 20000, calls
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
