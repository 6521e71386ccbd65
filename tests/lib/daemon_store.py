# SPDX-License-Identifier: Apache-2.0
"""What a sandbox in a container must keep from a stop to the next start: for docker/test_daemon.py and docker/test_podman.py; and how a test stops, resumes and deletes one."""

import os

from harness import PATIENCE, files_as_root, scratch, state, wait_until

WAIT = 10 * PATIENCE
PLACES = "~ /tmp . /dev/shm"


def sh(d, box, line):
    r = d.exec(box, "sh", "-c", line)
    assert r["exit_code"] == 0, r
    return r["stdout"].split()


def again(d, box):
    """Stopped, and begun anew."""
    assert d.do(box, "stop", {"grace": "0s"})["state"] == "stopped"
    assert d.do(box, "resume")["state"] == "ready"


def store(box):
    return state() / "brig/daemon/sandboxes" / box / "store"


def is_gone(d, box):
    """Deleted, with all that was put aside."""
    assert d.call("DELETE", f"/v1/sandboxes/{box}?wait=true").status in (200, 202, 204)
    boxes = state() / "brig/daemon/sandboxes"
    with files_as_root():
        assert wait_until(lambda: not (boxes / box).exists() and not (boxes / ".gone").exists(), WAIT), os.listdir(boxes)


def keeps(d, image):
    """Files stay; processes, memory and the container's own root go. Links and modes that hostile code leaves lead nowhere."""
    victim = scratch() / "victim"
    victim.mkdir(exist_ok=True)
    (victim / "file").write_text("safe\n")
    box = d.create(spec={"backend": "docker", "image": image})
    assert box["store"] is True and box["isolation"]["keeps"] == ["home", "tmp", "workspace"], box
    box = box["id"]
    sh(d, box, f"for p in {PLACES}; do echo kept > $p/note; done; sleep 600 >/dev/null 2>&1 &")
    sh(d, box, f"ln -s {victim} ~/link; ln -s {victim} /tmp/link; mkdir ~/closed; chmod 0 ~/closed ~ /tmp")
    with files_as_root():
        assert (store(box) / "home/link").resolve() == victim.resolve(), "the control: a host that follows it gets there"
        assert (store(box) / "tmp/note").read_text() == "kept\n"
    again(d, box)
    assert sh(d, box, f"for p in {PLACES}; do cat $p/note 2>/dev/null || echo gone; done") == ["kept", "kept", "kept", "gone"]
    assert sh(d, box, "stat -c %a ~ /tmp; ls ~; ps | grep -c '[s]leep 600' || true") == ["700", "1777", "closed", "link", "note", "0"]
    is_gone(d, box)
    assert (victim / "file").read_text() == "safe\n" and os.listdir(victim) == ["file"]


def mounts_into(d, image):
    """An engine mounts by name, in what the enemy wrote: such a place stays in memory, and that is told."""
    shown, victim = scratch() / "shown", scratch() / "other"
    for f in (shown, victim):
        f.mkdir(exist_ok=True)
    (shown / "note").write_text("host\n")
    box = d.create(spec={"backend": "docker", "image": image, "mounts": [{"source": str(shown), "target": "/tmp/a/b"}]})
    assert box["isolation"]["keeps"] == ["home", "workspace"], box
    box = box["id"]
    assert sh(d, box, f"echo kept > ~/note; ln -s {victim} /tmp/link; cat /tmp/a/b/note") == ["host"]
    with files_as_root():
        assert "would follow a link" in (store(box).parent / "log").read_text()
        assert not os.listdir(store(box) / "tmp")
    again(d, box)
    assert sh(d, box, "cat ~/note /tmp/a/b/note; ls /tmp") == ["kept", "host", "a"]
    is_gone(d, box)
    assert not os.listdir(victim)


def grows(d, image):
    """home_size bounds it as on native."""
    box = d.create(spec={"backend": "docker", "image": image, "home_size": "80m"})["id"]
    d.call("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["sh", "-c", "dd if=/dev/zero of=$HOME/big bs=1M count=160; sleep 600"], "detach": True})
    assert wait_until(lambda: d.call("GET", f"/v1/sandboxes/{box}").json["state"] == "stopped", WAIT)
    assert d.call("GET", f"/v1/sandboxes/{box}").json["reason"] == "disk"
    a = d.call("POST", f"/v1/sandboxes/{box}/resume?wait=true")
    assert a.status != 200 and "home_size" in a.body.decode(), a
    is_gone(d, box)
