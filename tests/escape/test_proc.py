#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""2.2 of the attack corpus: /proc, /sys, signals."""

import glob
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import (INSIDE, SCRATCH_PIDS, UNSHARED, attackers_uid, canary, held, inside, mount, on_host,  # noqa: E402
                    outside, program, status_of)
from harness import IS_ROOT, brig, home, main, scratch, seconds, test, workspace  # noqa: E402

SYSCTLS = [f"/proc/sys/{p}" for p in (
    "kernel/core_pattern", "kernel/core_pipe_limit", "kernel/core_uses_pid", "kernel/modprobe", "kernel/hotplug", "kernel/poweroff_cmd",
    "kernel/hostname", "kernel/domainname", "kernel/randomize_va_space", "kernel/yama/ptrace_scope", "kernel/kptr_restrict",
    "kernel/dmesg_restrict", "kernel/ns_last_pid", "kernel/pid_max", "kernel/panic", "kernel/sysrq", "kernel/unprivileged_bpf_disabled",
    "kernel/perf_event_paranoid", "kernel/io_uring_disabled", "kernel/shmmax", "kernel/msgmax", "kernel/sem",
    "vm/overcommit_memory", "vm/drop_caches", "vm/panic_on_oom", "vm/mmap_min_addr", "vm/compact_memory",
    "fs/binfmt_misc/register", "fs/binfmt_misc/status", "fs/suid_dumpable", "fs/protected_hardlinks", "fs/file-max", "fs/mqueue/msg_max",
    "net/ipv4/ip_forward", "net/ipv4/ip_unprivileged_port_start", "net/ipv4/ping_group_range", "net/ipv4/conf/all/rp_filter",
    "net/ipv6/conf/all/forwarding", "net/core/somaxconn", "user/max_user_namespaces", "dev/tty/legacy_tiocsti", "debug/exception-trace")]
OTHERS = ["/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/self/../sys/kernel/core_pattern", "/proc/self/root/proc/sys/kernel/core_pattern",
          "/proc/thread-self/root/proc/sysrq-trigger", "/proc/1/root/proc/sys/kernel/core_pattern", "/proc/bus/pci", "/proc/fs/xfs/stat",
          "/proc/timer_stats", "/proc/mtrr", "/proc/acpi/wakeup", "/proc/scsi/scsi", "/proc/asound/cards"]
SECRETS = ["/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/timer_list", "/proc/sched_debug", "/proc/kallsyms", "/proc/kmsg",
           "/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/acpi", "/proc/scsi", "/proc/asound", "/proc/interrupts", "/proc/softirqs", "/proc/locks",
           "/proc/latency_stats", "/proc/vmallocinfo", "/proc/config.gz", "/proc/cmdline", "/proc/pressure", "/proc/slabinfo",
           "/proc/pagetypeinfo", "/sys/firmware", "/sys/kernel/security", "/sys/kernel/debug", "/sys/kernel/tracing",
           "/sys/kernel/notes", "/sys/kernel/btf/vmlinux", "/sys/class", "/sys/block", "/sys/module", "/sys/bus", "/sys/power", "/dev/kmsg", "/dev/mem"]


def values(paths):
    found = {}
    for p in paths:
        try:
            found[p] = pathlib.Path(p).read_bytes()
        except OSError:
            pass
    return found


@test
def a010_core_pattern_cannot_be_opened_and_a_crash_runs_nothing():
    if IS_ROOT:
        outside("procfs", "open-write", "/proc/sys/kernel/core_pattern", user=0).must_work()
    before = values(["/proc/sys/kernel/core_pattern"])
    inside("procfs", "open-write", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/core_pipe_limit").must_fail()
    (scratch() / "cores").mkdir()
    control = outside("procfs", "crash", cwd=scratch() / "cores")
    assert control.status == -6
    pattern = before["/proc/sys/kernel/core_pattern"]
    assert not pattern.startswith(b"core") or os.listdir(scratch() / "cores"), "the control proves nothing: no core file"
    attempt = inside("procfs", "crash")
    assert attempt.status == 134 and not [n for n in os.listdir(workspace()) if "core" in n]
    with held("run", "--", "sh", "-c", "ulimit -c unlimited; touch ready; sleep 9") as h:
        for pid in h.pids():
            line = next(s for s in pathlib.Path(f"/proc/{pid}/limits").read_text().splitlines() if s.startswith("Max core"))
            assert line.split()[4:6] == ["1", "1"], line
        h.process.terminate()
    assert values(["/proc/sys/kernel/core_pattern"]) == before


@test
def a011_no_sysctl_can_be_opened_for_writing():
    if IS_ROOT:
        outside("procfs", "open-write", *SYSCTLS[:5], "/proc/sysrq-trigger", user=0).must_work("/proc/sys/kernel/core_pattern")
    before = values(SYSCTLS)
    inside("procfs", "open-write", *SYSCTLS, *OTHERS).must_fail("/proc/sysrq-trigger", "/proc/sys/kernel/modprobe")
    inside("procfs", "open-write", *SYSCTLS, *OTHERS, options=("--network", "host")).must_fail("/proc/sys/net/ipv4/ip_forward")
    assert {k: v for k, v in values(SYSCTLS).items() if k != "/proc/sys/kernel/ns_last_pid"} == \
           {k: v for k, v in before.items() if k != "/proc/sys/kernel/ns_last_pid"}


@test
def a011_every_file_below_proc_that_root_could_write_is_closed():
    """Not a list by hand: whatever this kernel has."""
    every = [p for p in on_host("find", "/proc", "-maxdepth", "1", "-type", "f", "-perm", "/222", user=0).stdout.decode().split()]
    every += on_host("find", "/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "-type", "f", "-perm", "/222", user=0).stdout.decode().split()
    assert len(every) > 100
    for i in range(0, len(every), 500):
        inside("procfs", "open-write", *every[i:i + 500]).must_fail()


@test
def a012_kernel_secrets_are_masked_or_absent():
    if IS_ROOT:
        outside("procfs", "readable", *SECRETS, user=0).must_work("/proc/kallsyms", "/proc/cmdline")
    inside("procfs", "readable", *SECRETS).must_fail("/proc/kallsyms", "/proc/cmdline")


LOCK = """
import fcntl, pathlib, struct, time
with open("/tmp/letter", "w") as f:
    fcntl.fcntl(f, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, NUMBER, 1, 0))
    pathlib.Path("ready").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
"""


@test
def a012_no_lock_is_a_letter_to_another_sandbox():
    """The kernel tells those of open files to every pid namespace, with the numbers that their holder has chosen: to other users' sandboxes, too,
    and of brig's own locks how many runs there are and when they begin and end. One that pids have is told to nobody who does not see the pid."""
    number = int.from_bytes(os.urandom(7), "big")
    read = ("--policy", "readonly", "--workdir", os.fspath(scratch()), "--", "grep", "-c", f" {number} {number}", "/proc/locks")
    with held("run", "--", "python3", "-c", LOCK.replace("NUMBER", str(number))):
        control = on_host(*SCRATCH_PIDS, "grep", "-c", f" {number} {number}", "/proc/locks")
        assert control.stdout == b"1\n", "the control proves nothing"
        for options in ((), ("--profile", "debug"), ("--network", "host")):
            done = brig("run", *options, *read)
            assert done.stdout == b"0\n", (options, done.stdout, done.stderr)


@test
def a013_masks_and_read_only_places_cannot_be_taken_off():
    paths = ["/proc/sys", "/proc/kallsyms", "/proc/keys", "/proc/cmdline", "/proc/irq", "/proc", "/sys", "/dev/null", "/"]
    line = f"mount -t tmpfs none /mnt && mkdir /mnt/a && mount --bind /mnt/a /mnt/a && {program('procfs')} unmask /mnt/a"
    control = on_host(*UNSHARED, "sh", "-c", line).stdout.decode()
    assert "+ umount:/mnt/a" in control, f"the control proves nothing: {control}"
    inside("procfs", "unmask", *paths).must_fail("umount:/proc/kallsyms", "remount:/proc/sys")
    after = brig("run", *mount("procfs"), "--", "sh", "-c", f"{INSIDE} unmask {' '.join(paths)} >/dev/null; {INSIDE} readable /proc/kallsyms")
    assert after.status == 1


@test
def a016_no_process_inside_tells_the_callers_environment_or_arguments():
    secret = "S3CRET-CANARY-16"
    env = {"GITHUB_TOKEN": secret, "ANYTHING": secret}
    with canary() as c:
        os.environ["ANYTHING"] = secret
        control = outside("procfs", "dump", str(c.pid), str(c.pid))
        assert b"sleep" in control.stdout, "the control proves nothing"
        done = brig("run", *mount("procfs"), "--env", "PUBLIC=1", "--", INSIDE, "dump", "300", env=env)
    assert done.status == 2 and len(done.stdout) > 1000
    text = done.stdout.decode(errors="replace")
    assert secret not in text
    for path in (scratch(), home(), workspace().parent / "state", workspace().parent / "runtime"):
        assert str(path) not in text, f"it shows '{path}'"


@test
def a017_links_of_processes_stay_inside():
    (scratch() / "secret").write_text("CANARY-17\n")
    target = str(scratch() / "secret").lstrip("/")
    outside("procfs", "links", target).must_work("link")
    inside("procfs", "links", target).must_fail("link")
    inside("procfs", "links", "etc/shadow").must_fail("link")
    inside("procfs", "links", "../../../../../" + target).must_fail("link")


@test(limit=90)
def a018_killing_every_pid_leaves_the_host_alone():
    line = f"sleep 300 & {program('procfs')} kill-everyone 3; wait $!; echo died $?"
    control = on_host(*SCRATCH_PIDS, "sh", "-c", line).stdout.decode()
    assert "died 137" in control, f"the control proves nothing: {control}"
    with canary(), canary(attackers_uid()):
        done = brig("run", "--timeout", seconds(60), *mount("procfs"), "--", "sh", "-c", f"sleep 300 & {INSIDE} kill-everyone 500000; echo died", timeout=70)
        assert done.status == 137 or b"+ kill-all" in done.stdout, done.stdout
        assert b"= one-by-one 1\n" in done.stdout, done.stdout


@test
def a018_a_flood_of_every_signal_from_inside_stays_inside():
    with canary(), canary(attackers_uid()) as c:
        script = "import os\nfor s in list(range(1, 32)):\n  for p in (1, 0, %d):\n    try:\n      os.kill(p, s) if p else None\n    except OSError: pass\nprint('alive')" % c.pid
        done = brig("run", "--", "python3", "-c", script)
        assert done.stdout == b"alive\n"


@test
def a019_processes_of_the_host_cannot_be_reached_by_number():
    with canary(attackers_uid()) as c, canary() as mine:
        outside("procfs", "reach", str(mine.pid), user=0 if IS_ROOT else None).must_work("pidfd_open", "pidfd_getfd", "ptrace", "mem")
        for pid in (c.pid, mine.pid, os.getpid(), os.getppid()):
            inside("procfs", "reach", str(pid)).must_fail("pidfd_open", "ptrace", "process_vm_readv", "kill", "mem")


@test
def a019_the_supervisor_cannot_be_reached():
    with held("run", *mount("procfs"), "--", "sh", "-c", f"touch ready; while [ ! -e go ]; do sleep 0.02; done; {INSIDE} reach $(cat pid)") as h:
        (workspace() / "pid").write_text(str(h.process.pid))
        h.release()
        out = h.process.stdout.read().decode()
    assert "+ " not in out and "- pidfd_open" in out, out


@test
def a019_init_cannot_be_opened_traced_or_killed():
    if os.environ.get("LIGHT"):
        return  # the sanitizer's own signal handlers make init mortal: judged with the plain build
    inside("procfs", "reach-init").must_fail("ptrace", "mem", "fd", "environ", "process_vm_readv", "pidfd_getfd")


@test
def a020_no_fresh_procfs_in_nested_namespaces():
    outside("procfs", "fresh-proc").must_work("proc")
    inside("procfs", "fresh-proc").must_fail("unshare")


@test
def a021_the_host_is_not_told_apart():
    files = ["/etc/machine-id", "/etc/hostname", "/var/lib/dbus/machine-id", "/proc/cmdline", "/proc/self/cgroup", "/proc/sys/kernel/hostname",
             "/proc/sys/kernel/domainname", "/etc/hosts", "/etc/resolv.conf", "/etc/passwd", "/etc/group", "/proc/self/environ"]
    files += glob.glob("/sys/class/dmi/id/*") + ["/proc/device-tree/model", "/proc/device-tree/serial-number"]
    if not os.path.exists("/etc/machine-id"):
        files.remove("/etc/machine-id")
    outside_text = outside("procfs", "facts", *files, user=0 if IS_ROOT else None).stdout
    inside_text = inside("procfs", "facts", *files).stdout
    for path in ("/etc/machine-id", "/proc/cmdline", "/var/lib/dbus/machine-id"):
        try:
            word = pathlib.Path(path).read_bytes().strip()
        except OSError:
            continue
        assert not word or word in outside_text
        assert not word or word not in inside_text, f"it shows {path}"
    assert b"= nodename brig\n" in inside_text
    assert not any(line.split(":")[2] != "/" for line in brig("run", "--", "cat", "/proc/self/cgroup").text.split())
    for line in pathlib.Path("/etc/passwd").read_text().splitlines():
        if int(line.split(":")[2]) >= 1000 and "nobody" not in line:
            assert line.encode() not in inside_text, "it shows the host's accounts"


@test
def a021_the_boot_id_is_not_the_hosts():
    path = "/proc/sys/kernel/random/boot_id"
    inner = brig("run", "--", "cat", path).text.strip()
    assert inner != pathlib.Path(path).read_text().strip(), "two sandboxes, and the host, can tell that they share a machine"


@test
def a021_mountinfo_names_no_folder_of_the_host_that_is_not_shown():
    """The workspace's own path on its disk is in there: a bind mount cannot hide it."""
    text = brig("run", "--read", scratch(), "--", "cat", "/proc/self/mountinfo", "/proc/self/mounts", "/proc/self/mountstats").text
    for path in (home(), workspace().parent / "state", workspace().parent / "runtime", "/var/lib/brig"):
        assert f" {path}" not in text, f"it shows '{path}'"


@test
def a022_sys_is_not_there_to_be_written():
    files = ["/sys/kernel/uevent_helper", "/sys/kernel/debug", "/sys/kernel/tracing/trace_marker", "/sys/power/state", "/sys/power/mem_sleep",
             "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/release_agent",
             "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/module/printk/parameters/time", "/sys/kernel/profiling", "/sys/devices/system/cpu/online"]
    files += [f"/sys/fs/cgroup/{c}/{f}" for c in ("memory", "pids", "cpu", "devices", "freezer", "unified", "systemd")
              for f in ("cgroup.procs", "tasks", "release_agent", "notify_on_release", "cgroup.clone_children", "devices.allow")]
    files += glob.glob("/sys/firmware/efi/efivars/*")[:3]
    if IS_ROOT:
        outside("procfs", "open-write", *files, user=0).must_work()
    inside("procfs", "open-write", *files).must_fail("/sys/kernel/uevent_helper")
    done = brig("run", "--", "sh", "-c", "grep -cE ' - cgroup|/sys/fs' /proc/self/mountinfo; find /sys -type f | wc -l; find /sys -writable -type f | wc -l; mkdir /sys/fs/cgroup/x")
    assert done.text.split()[0] == "0" and int(done.text.split()[1]) < 20 and done.status != 0
    shown = brig("run", "--", "find", "/sys", "-type", "f").text.split()
    inside("procfs", "open-write", *shown).must_fail()


@test
def a023_priorities_cannot_be_raised():
    if IS_ROOT:
        outside("procfs", "priority", user=0).must_work("nice", "fifo", "ioprio")
    with held("run", *mount("procfs"), "--", INSIDE, "priority", "/workspace") as h:
        for pid in h.guests():
            assert int(pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text()) >= 0
            assert os.sched_getscheduler(pid) == os.SCHED_OTHER
            assert os.getpriority(os.PRIO_PROCESS, pid) >= 0
        assert h.guests()
    for name in ("oom", "nice", "fifo", "deadline", "ioprio"):
        assert name in h.process.result.denied, h.process.result.stdout


@test
def a023_a_run_is_the_first_choice_of_the_memory_killer():
    with held("run", "--", "sh", "-c", "touch ready; sleep 9") as h:
        scores = [int(pathlib.Path(f"/proc/{p}/oom_score_adj").read_text()) for p in h.guests()]
        h.process.terminate()
    assert scores and min(scores) == 1000, scores


@test
def a012_every_process_inside_is_hidden_from_none_but_init():
    """hidepid: what is not dumpable is not even listed."""
    done = brig("run", "--", "sh", "-c", "ls -d /proc/[0-9]*")
    assert "/proc/1" not in done.text.split()
    with held("run", "--", "sh", "-c", "touch ready; sleep 9") as h:
        assert all(status_of(p)["NoNewPrivs"].strip() == "1" for p in h.pids())
        h.process.terminate()




if __name__ == "__main__":
    sys.exit(main())
