# SPDX-License-Identifier: Apache-2.0
"""A machine with GPUs, as far as its /dev and /proc/devices say: for the mount namespace of one test.

    with machine({"nvidia0": ("c", 195, 0)}):
        brig("run", "--gpus", "1", ...)

No driver is behind the nodes: an open that reaches one ends with ENXIO."""

import contextlib
import os
import pathlib
import shutil
import subprocess

from harness import files_as_root, scratch

CHARACTERS = {"nvidia": 195, "nvidiactl": 195, "drm": 226, "nvidia-caps": 505, "nvidia-uvm": 507, "kfd": 511}
NVIDIA = {"nvidia0": ("c", 195, 0), "nvidia1": ("c", 195, 1), "nvidiactl": ("c", 195, 255),
          "nvidia-uvm": ("c", 507, 0), "nvidia-uvm-tools": ("c", 507, 1)}
OTHERS = {"dri/renderD128": ("c", 226, 128), "dri/renderD129": ("c", 226, 129), "kfd": ("c", 511, 0)}
# Two instances of nvidia0, one of them with two of its own, and the rights to divide GPUs and to watch all of them.
CAPS = {"gi1": 12, "gi1/ci0": 13, "gi2": 21, "gi2/ci0": 22, "gi2/ci1": 23}
MIG = {f"nvidia-caps/nvidia-cap{minor}": ("c", 505, minor) for minor in (1, 2, *CAPS.values())}
UUIDS = {0: "GPU-8f6d2c1a-0a6f-43be-9f0c-6a5d7f6b1e01", 1: "GPU-0123abcd-0a6f-43be-9f0c-6a5d7f6b1e02"}
# Beside them on a real machine, and nobody's to compute with.
SCREENS = {"dri/card0": ("c", 226, 0), "nvidia-modeset": ("c", 195, 254)}
PLAIN = {"null": ("c", 1, 3), "zero": ("c", 1, 5), "full": ("c", 1, 7), "random": ("c", 1, 8), "urandom": ("c", 1, 9), "tty": ("c", 5, 0), "ptmx": ("c", 5, 2)}


def _run(*argv):
    subprocess.run([str(word) for word in argv], check=True, capture_output=True)


def _make(folder, name, what, mode):
    """(c, MAJOR, MINOR), (b, ...), ("link", TO), ("file", TEXT) or ("folder",)."""
    at = folder / name
    at.parent.mkdir(exist_ok=True)
    if what[0] == "link":
        at.symlink_to(what[1])
    elif what[0] == "file":
        at.write_text(what[1])
        at.chmod(mode)
    elif what[0] == "folder":
        at.mkdir()
    else:
        _run("mknod", "-m", f"{mode:o}", at, *what)


def listed(majors):
    return "Character devices:\n  1 mem\n" + "".join(f"{number:3} {name}\n" for name, number in majors.items()) + "\nBlock devices:\n  7 loop\n"


@contextlib.contextmanager
def driver(parts=()):
    """What NVIDIA's driver tells below /proc/driver: ids of its GPUs, and which node is the right to which of these parts of the first one."""
    with files_as_root():
        folder = scratch() / "driver"
        for number, uuid in UUIDS.items():
            bus = folder / "nvidia/gpus" / f"0000:{number + 1:02x}:00.0"
            bus.mkdir(parents=True)
            (bus / "information").write_text(f"Model: \t\t NVIDIA H200\nIRQ:   \t\t 7\nGPU UUID: \t {uuid}\nDevice Minor: \t {number}\n")
        for name, minor in {"mig/config": 1, "mig/monitor": 2, **{f"gpu0/mig/{part}/access": minor for part, minor in dict(parts).items()}}.items():
            right = folder / "nvidia/capabilities" / name
            right.parent.mkdir(parents=True, exist_ok=True)
            right.write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
        _run("mount", "--bind", folder, "/proc/driver")
    try:
        yield
    finally:
        with files_as_root():
            _run("umount", "/proc/driver")
            shutil.rmtree(folder)


# What the kernel says of AMD's renderD128, and of all that its driver kfd drives. The last two of the first are not for a command.
PCI = {"vendor": "0x1002\n", "device": "0x740f\n", "subsystem_vendor": "0x1002\n", "subsystem_device": "0x0c34\n", "revision": "0x02\n", "class": "0x038000\n",
       "uevent": "DRIVER=amdgpu\nPCI_CLASS=38000\nPCI_ID=1002:740F\nPCI_SLOT_NAME=0000:c1:00.0\n", "numa_node": "1\n", "local_cpus": "ff\n", "local_cpulist": "0-7\n",
       "rom": "firmware", "power_dpm_force_performance_level": "auto\n"}
TOPOLOGY = {"generation_id": "2\n", "system_properties": "num_devices 1\n", "nodes/0/gpu_id": "0\n", "nodes/1/gpu_id": "51134\n", "nodes/1/properties": "drm_render_minor 128\n"}


@contextlib.contextmanager
def amd_driver():
    """Below /sys/dev/char and /sys/devices/virtual: renderD128, and beside the topology what processes have of it."""
    places = pathlib.Path("/sys/dev/char"), pathlib.Path("/sys/devices/virtual")
    with files_as_root():
        for place in places:
            _run("mount", "-t", "tmpfs", "-o", "mode=755", "none", place)
        device, kfd = places[0] / "226:128/device", places[1] / "kfd/kfd"
        (device / "drm/renderD128").mkdir(parents=True)
        (device / "subsystem").symlink_to("../../../../bus/pci")
        files = {device / name: text for name, text in PCI.items()} | {kfd / "topology" / name: text for name, text in TOPOLOGY.items()}
        for file, text in {**files, kfd / "proc/77/vram_51134": "4096\n"}.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    try:
        yield
    finally:
        with files_as_root():
            for place in places:
                _run("umount", place)


# What the kernel says of NVIDIA's GPUs of `driver`, and what it does not say to a command.
NEAR = {"/sys/bus/pci/devices/0000:01:00.0/numa_node": "0\n", "/sys/bus/pci/devices/0000:02:00.0/numa_node": "1\n",
        "/sys/module/nvidia/initstate": "live\n", "/sys/module/nvidia_uvm/initstate": "live\n", "/sys/devices/system/memory/block_size_bytes": "8000000\n"}
NOT_NEAR = ("/sys/bus/pci/devices/0000:01:00.0/rom", "/sys/bus/pci/devices/0000:03:00.0/numa_node", "/sys/module/nvidia/parameters", "/sys/devices/system/memory/probe")


@contextlib.contextmanager
def nvidia_sys():
    places = "/sys/bus/pci/devices", "/sys/module", "/sys/devices/system/memory"
    with files_as_root():
        for place in places:
            _run("mount", "-t", "tmpfs", "-o", "mode=755", "none", place)
        for name, text in {**NEAR, **dict.fromkeys(NOT_NEAR, "not for a command\n")}.items():
            pathlib.Path(name).parent.mkdir(parents=True, exist_ok=True)
            pathlib.Path(name).write_text(text)
    try:
        yield
    finally:
        with files_as_root():
            for place in places:
                _run("umount", place)


@contextlib.contextmanager
def machine(nodes, majors=CHARACTERS, mode=0o666, modes=None):
    """Gives the file that stands for /proc/devices, too: a procfs of its own has to be told."""
    with files_as_root():
        dev, devices, whole = scratch() / "dev", scratch() / "devices", scratch() / "proc"
        dev.mkdir()
        # A sandbox gets a procfs of its own only where one is in sight that nothing covers.
        whole.mkdir()
        _run("mount", "-t", "proc", "none", whole)
        devices.write_text(listed(majors))
        devices.chmod(0o644)
        _run("mount", "-t", "tmpfs", "-o", "mode=755", "none", dev)
        for name in ("pts", "shm"):
            (dev / name).mkdir()
            _run("mount", "--bind", f"/dev/{name}", dev / name)
        (dev / "fd").symlink_to("/proc/self/fd")
        for name, what in {**PLAIN, **nodes}.items():
            _make(dev, name, what, (modes or {}).get(name, mode))
        _run("mount", "--rbind", dev, "/dev")
        _run("mount", "--bind", devices, "/proc/devices")
    try:
        yield devices
    finally:
        with files_as_root():
            _run("umount", "/proc/devices")
            _run("umount", "--lazy", "--recursive", "/dev")
            _run("umount", "--recursive", dev)
            _run("umount", whole)
            whole.rmdir()
            dev.rmdir()
            devices.unlink()


def seen(folder):
    """Devices below a folder that are no plain ones, by path and number."""
    found = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        name = str(path.relative_to(folder))
        if name in PLAIN or name.startswith(("pts", "shm", "fd", "std")):
            continue
        st = os.lstat(path)
        found[name] = (os.major(st.st_rdev), os.minor(st.st_rdev))
    return found


def numbers(*sets):
    """What seen() gives for such nodes, with their folders."""
    found = {name: what[1:] for nodes in sets for name, what in nodes.items()}
    folders = {name.partition("/")[0] for name in found if "/" in name}
    return {**found, **dict.fromkeys(folders, (0, 0))}
