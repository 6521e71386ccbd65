#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a node makes of a pod's container, near enough for brig-pod: run by the scripted API server when somebody attaches.

    unshare ... python3 podlike.py BRIG_POD VOLUMES [WORD...]

VOLUMES is JSON: [[FOLDER, PLACE, READ-ONLY], ...], as a node mounts them.

New namespaces, a read-only root with private folders, another user, no capabilities, no new privileges, a system-call filter. A word takes one
of these away, so that a test sees it refused: root, caps, privileges, filter, writable, token, network, networks (two). Others make somebody
answer there: reach-node, reach-names (of the node), reach-api, reach-dns, late-policy (the API server, for two seconds), late-network (the API server, but for the first two). "door" is
the door's container: root, with the capabilities that it asks for; "public": of a node with a public address.
"""

import ctypes
import json
import os
import struct
import subprocess
import sys

UID = 1000
DOOR_CAPS = {6, 7, 10, 12, 21}  # SETGID, SETUID, NET_BIND_SERVICE, NET_ADMIN, SYS_ADMIN
libc = ctypes.CDLL(None, use_errno=True)
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_CAPBSET_DROP = 38, 22, 24


def mount(*args):
    subprocess.run(["mount", *args], check=True)


def tmpfs(path, mode="1777"):
    os.makedirs(path, exist_ok=True)
    mount("-t", "tmpfs", "-o", f"mode={mode}", "none", path)


def place_for(names):
    """A root that has these names as well: the host's own gets no new one."""
    top = "/mnt"
    mount("-t", "tmpfs", "-o", "mode=755", "none", top)
    for name in os.listdir("/"):
        at = f"{top}/{name}"
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), at)
        elif os.path.isdir(f"/{name}") and name not in ("mnt", "proc"):
            os.mkdir(at)
            mount("--rbind", f"/{name}", at)
    for name in {*names, "mnt", "proc"}:
        os.makedirs(f"{top}/{name}", exist_ok=True)
    os.chroot(top)
    os.chdir("/")


def bind(folder, place, read_only):
    """folder: an open one, or a file. Where there is nothing yet the runtime makes it."""
    if os.path.isdir(folder):
        os.makedirs(place, exist_ok=True)
    elif not os.path.exists(place):
        open(place, "w").close()  # noqa: SIM115
    mount("--bind", folder, place)
    if read_only:
        mount("-o", "remount,ro,bind", place)


def root(words, volumes):
    mount("--make-rprivate", "/")
    place_for([place.split("/")[1] for _, place, _ in volumes])
    mount("-t", "proc", "proc", "/proc")
    held = [(os.open(folder, os.O_PATH), place, read_only) for folder, place, read_only in volumes]  # /tmp is about to go
    tmpfs("/home", "755")
    os.makedirs("/home/brig")
    os.chown("/home/brig", UID, UID)
    tmpfs("/tmp")
    if any(place.startswith("/etc/") for _, place, _ in volumes):  # new names there are not the host's
        tmpfs("/mnt")
        os.mkdir("/mnt/upper")
        os.mkdir("/mnt/work")
        mount("-t", "overlay", "-o", "lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work", "none", "/etc")
    for fd, place, read_only in held:
        bind(f"/proc/{os.getpid()}/fd/{fd}", place, read_only)
        os.close(fd)
    tmpfs("/var/run/secrets" if "token" in words else "/mnt")
    if "token" in words:
        os.makedirs("/var/run/secrets/kubernetes.io/serviceaccount")
    if "writable" not in words:
        mount("--bind", "/", "/")
        mount("-o", "remount,ro,bind", "/")


# Whose address it is, and the seconds from when to when: a refusal is an answer, too, so nobody need listen.
ANSWERS = {"reach-node": ("10.9.9.9", 0, 0), "reach-names": ("169.254.20.10", 0, 0), "reach-api": ("10.96.0.1", 0, 0), "reach-dns": ("10.96.0.10", 0, 0),
           "late-policy": ("10.96.0.1", 0, 2), "late-network": ("10.96.0.1", 2, 0)}


def answer(address, begin, end):
    if begin or end:
        line = f"sleep {begin}; ip addr add {address}/32 dev lo; " + (f"sleep {end}; ip addr del {address}/32 dev lo" if end else "")
        subprocess.Popen(["sh", "-c", line], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S602
    if not begin:
        subprocess.run(["ip", "addr", "replace", f"{address}/32", "dev", "lo"], check=True)


def filters():
    """One instruction: everything is allowed. What counts is that there is one."""
    program = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000))
    packed = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 1, ctypes.addressof(program)))
    assert libc.prctl(PR_SET_SECCOMP, 2, packed, 0, 0) == 0, os.strerror(ctypes.get_errno())


def main():
    program, volumes, *words = sys.argv[1:]
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    if "network" in words or "networks" in words:
        subprocess.run(["ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1"], check=True)
        for name in ("eth0", "eth1")[:1 + ("networks" in words)]:
            subprocess.run(["ip", "link", "set", name, "up"], check=True)
    for word in words:
        if word in ANSWERS:
            answer(*ANSWERS[word])
    inside = os.open(program, os.O_RDONLY)
    root(words, json.loads(volumes))
    door = "door" in words
    if "caps" not in words:
        for cap in set(range(64)) - (DOOR_CAPS if door else set()):
            libc.prctl(PR_CAPBSET_DROP, cap, 0, 0, 0)
    if "privileges" not in words:
        assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    if "filter" not in words:
        filters()
    if "root" not in words and not door:
        os.setgroups([])
        os.setresgid(UID, UID, UID)
        os.setresuid(UID, UID, UID)
    os.chdir("/")
    if door:
        os.execve(inside, ["/brig-pod", "door"], {"BRIG_POD_ADDRESS": "10.9.8.2", "BRIG_NODE_ADDRESS": "192.124.249.9" if "public" in words else "10.9.8.1"})
    os.execve(inside, ["/brig-pod", "serve"], {"PATH": "/usr/local/bin:/usr/bin:/bin", "KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443",
                        "IMAGE_SAYS": "so"})


main()
