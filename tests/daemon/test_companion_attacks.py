#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A companion, or the sandbox beside it, that turns against the host, its neighbours or the other.

A companion does what it is sent (lib/companions.py). No packet leaves this machine: the addresses are those of a network
namespace that the test makes, and who came is counted there, on the host's side."""

import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import neighbours  # noqa: E402
from companions import PORT, ask, events, here, puppet, reach, spec  # noqa: E402
from daemon import daemon, daemon_with_tokens  # noqa: E402
from harness import brig, descendants, files_as_root, main, scratch, state, test, wait_until  # noqa: E402
from listeners import METADATA, OTHERS, listening, own_network  # noqa: E402

@test(by_root=True)
def a_companion_reaches_nothing_but_its_members():
    own_network()
    host = ("127.0.0.1", "::1", "198.19.254.254", "198.19.254.7")
    for a in host[2:]:
        assert os.system(f"ip addr add {a}/32 dev lo") == 0
    addresses = (*METADATA, *OTHERS, *host)
    with listening(addresses, PORT) as seen, daemon() as d:
        assert wait_until(lambda: {a for a, _, _ in here(reach(addresses))} == set(addresses), 20), "the control proves nothing"
        seen.forget()
        box = d.create(spec=spec({"a": puppet(), "b": puppet()}))["id"]
        assert wait_until(lambda: ask(d, box, "a", reach(["198.19.254.3"], 8080)), 20), "its member is reached"
        assert ask(d, box, "a", reach((*addresses, "ff02::1", "fe80::1", "198.19.254.200"))) == []
        done = d.exec(box, "python3", "-c", reach(addresses) + "\nprint(out)")
        assert done["stdout"] == "[]\n", done
        assert not seen.visits, seen.visits


@test(by_root=True, alone=True, limit=120)
def one_with_a_bridge_reaches_the_internet_and_nothing_nearer():
    """Its members do not by themselves, and a bridge of the sandbox's own does not change theirs."""
    with neighbours.world(scratch()) as w, daemon() as d:
        box = d.create(spec=spec({"a": puppet(network="bridge"), "b": puppet()}, network="bridge"))["id"]
        targets = (neighbours.PUBLIC, neighbours.HOST, neighbours.OWN, neighbours.LAN, neighbours.METADATA, "127.0.0.1")
        assert wait_until(lambda: {a for a, _, _ in here(reach(targets, neighbours.PORT))} == set(targets), 20), "the control proves nothing"
        w.clear()
        assert ask(d, box, "b", reach(targets, neighbours.PORT)) == [] and not w.seen(), w.seen()
        own = reach(targets, neighbours.PORT) + "\nprint({a for a, _, _ in out})"
        assert wait_until(lambda: {a for a, _, _ in ask(d, box, "a", reach(targets, neighbours.PORT))} == {neighbours.PUBLIC}, 20)
        assert wait_until(lambda: d.exec(box, "python3", "-c", own)["stdout"] == f"{{'{neighbours.PUBLIC}'}}\n", 20)
        assert set(w.seen()) <= {f"tcp {neighbours.PUBLIC}", f"udp {neighbours.PUBLIC}"}, w.seen()


@test
def the_companion_of_another_sandbox_is_out_of_reach():
    """All of them have the same addresses: one that only the other has is asked for."""
    with daemon() as d:
        many = d.create(spec=spec({"a": puppet(), "b": puppet(), "c": puppet()}))["id"]
        one = d.create(spec=spec({"a": puppet(env={"WHO": "one"})}))["id"]
        probe = reach(["198.19.254.4"], 8080)
        assert wait_until(lambda: ask(d, many, "a", probe), 20), "the control proves nothing"
        assert ask(d, one, "a", probe) == []
        assert d.exec(one, "python3", "-c", probe + "\nprint(out)")["stdout"] == "[]\n"
        mine = "import os; out = os.environ.get('WHO')"
        assert ask(d, one, "a", mine) == "one" and ask(d, many, "a", mine) is None


@test
def a_companion_cannot_pretend_to_be_another():
    """Neither a strange source address nor a raw socket."""
    with daemon() as d:
        box = d.create(spec=spec({"a": puppet(), "b": puppet()}))["id"]
        spoof = r"""
import socket
out = []
for how in ("bind", "transparent", "raw", "packet", "netlink"):
    try:
        if how in ("bind", "transparent"):
            s = socket.socket()
            if how == "transparent":
                s.setsockopt(socket.IPPROTO_IP, 19, 1)
            s.bind(("198.19.254.1", 0)); s.settimeout(1); s.connect(("198.19.254.3", 8080))
        elif how == "raw":
            socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        elif how == "packet":
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        else:
            n = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
            import struct
            n.send(struct.pack("=IHHIIBBHiII", 32, 16, 5, 1, 0, 0, 0, 0, 128, 0, 1))
            if struct.unpack_from("=i", n.recv(4096), 16)[0]: raise OSError("refused")
        out.append(how)
    except OSError:
        pass
"""
        assert ask(d, box, "a", spoof) == []


@test
def neither_sees_the_processes_of_the_other():
    with daemon() as d:
        box = d.create(spec=spec({"a": puppet()}))["id"]
        with files_as_root():
            inside = [pid for pid, name in descendants().items() if name == "python3" and b"serve(c)" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert len(inside) == 1, inside
        look = r"""
import ctypes, os
libc, out = ctypes.CDLL(None, use_errno=True), []
for pid in [int(p) for p in os.listdir("/proc") if p.isdigit()] + [PID]:
    if pid in (1, os.getpid()):
        continue
    try:
        os.kill(pid, 0)
        out.append(["kill", pid])
    except OSError:
        pass
    for what in ("environ", "mem", "root"):
        try:
            os.stat(f"/proc/{pid}/{what}"); out.append([what, pid])
        except OSError:
            pass
    if libc.ptrace(16, pid, 0, 0) == 0:
        out.append(["ptrace", pid])
""".replace("PID", str(inside[0]))
        done = d.exec(box, "python3", "-c", look + "\nprint(out)")
        assert done["stdout"] == "[]\n", done
        child = d.exec(box, "sh", "-c", "sleep 9 & python3 -c 'import os; os.kill('$!', 15)'; wait $!; echo $?")
        assert child["stdout"] == "143\n", "the control proves nothing"
        assert ask(d, box, "a", look.replace(str(inside[0]), "2") + "\nout = [x for x in out if x[1] != 2 or x[0] == 'ptrace']") == []
        shared = "import os; out = [os.path.exists(p) for p in ('/tmp/mark', '/workspace/mark', '/dev/shm/mark')]"
        assert d.exec(box, "sh", "-c", "touch /tmp/mark mark /dev/shm/mark")["exit_code"] == 0
        assert ask(d, box, "a", shared) == [False, False, False]
        assert ask(d, box, "a", "import os; out = os.getuid()") != 0


@test
def the_variables_of_a_companion_are_told_to_nobody():
    secret = "hunter2-is-the-word"
    with daemon() as d:
        config = scratch() / "brig.yaml"
        a = puppet(env={"PASSWORD": secret})
        box = d.create(spec=spec({"a": a}))["id"]
        assert ask(d, box, "a", "import os; out = os.environ['PASSWORD'][::-1]") == secret[::-1]
        for route in ("/v1/sandboxes", f"/v1/sandboxes/{box}", f"/v1/sandboxes/{box}/execs", f"/v1/sandboxes/{box}/logs"):
            assert secret not in d.call("GET", route).body.decode(), route
        assert secret not in str(events(d, box))
        assert secret not in str(d.exec(box, "sh", "-c", "env; cat /proc/*/environ /etc/hosts"))
        with files_as_root():
            holding = [str(p.relative_to(state())) for p in state().rglob("*") if p.is_file() and secret.encode() in p.read_bytes()]
            assert len(holding) == 1 and holding[0].endswith(f"{box}/spec"), holding
            assert (state() / holding[0]).stat().st_mode & 0o777 == 0o600
        config.write_text("brig: 1\ncompanions: {a: {command: [x], env: {PASSWORD: %s}}}\n" % secret)
        for words in (("config", "show"), ("config", "show", "--json"), ("plan", "--", "true")):
            done = brig(*words[:2], "--config", str(config), *words[2:])
            assert secret not in done.text + done.errors, (words, done.text)


@test
def a_companion_that_forks_without_end_meets_its_own_limit():
    bomb = r"""
import os, time
out = 0
for _ in range(400):
    try:
        if os.fork() == 0:
            time.sleep(600); os._exit(0)
    except OSError:
        break
    out += 1
"""
    with daemon() as d:
        box = d.create(spec=spec({"a": puppet(limits={"pids": 24}), "b": puppet()}))["id"]
        made = ask(d, box, "a", bomb)
        assert 0 < made < 24, made
        assert ask(d, box, "b", bomb.replace("400", "40")) == 40, "the neighbour has a limit of its own"
        assert d.exec(box, "sh", "-c", "for i in $(seq 40); do sleep 5 & done; echo all")["stdout"] == "all\n"


@test
def a_companion_that_takes_memory_without_end_meets_its_own_limit():
    with daemon() as d:
        box = d.create(spec=spec({"a": puppet(limits={"memory": "64m"}), "b": puppet()}))["id"]
        take = "import socket; socket.create_connection(('a', 8080)).sendall(b'\"out = b\\\\\"x\\\\\" * (400 << 20)\"\\n')"
        assert d.exec(box, "python3", "-c", take)["exit_code"] == 0

        def states():
            return [(c["state"], c["reason"]) for c in d.call("GET", f"/v1/sandboxes/{box}").json["companions"]]
        assert wait_until(lambda: states()[0] == ("failed", "oom"), 20), states()
        assert states()[1] == ("ready", None) and ask(d, box, "b", "out = len(b'x' * (100 << 20))") == 100 << 20


@test
def what_a_companion_writes_to_its_folder_meets_its_own_limit():
    """Also when it ends its own sandbox each time before that: another one counts from nothing. The control has no limit."""
    fill = r"""
import os, time
for i in range(3):
    with open(f"/data/{time.monotonic_ns()}", "wb") as f:
        f.write(os.urandom(1 << 20)); f.flush(); os.fsync(f.fileno())
    time.sleep(0.03)
if END:
    b"x" * (400 << 20)
"""
    once = ["sh", "-c", 'while :; do python3 -c "$FILL"; done']
    with daemon() as d:
        def companion(end, **limits):
            return {"command": once if not end else ["sh", "-c", 'python3 -c "$FILL"; sleep 60'], "data": "/data", "env": {"FILL": fill.replace("END", str(end))}, "limits": {"memory": "64m", **limits}}
        box = d.create(spec=spec({"free": companion(False), "held": companion(False, disk="8m"), "again": companion(True, disk="8m")}))["id"]

        def size(name):
            with files_as_root():
                return sum(f.stat().st_size for f in (state() / "brig/daemon/sandboxes" / box / "data" / name).iterdir()) >> 20

        def ended(name):
            return next((c["state"], c["reason"]) for c in d.call("GET", f"/v1/sandboxes/{box}").json["companions"] if c["name"] == name) == ("failed", "disk")
        assert wait_until(lambda: size("free") > 20, 30), "the control proves nothing"
        for name in ("held", "again"):
            assert wait_until(lambda: ended(name), 30), (name, size(name), events(d, box))  # noqa: B023
            assert 8 <= size(name) < 16, (name, size(name))
        d.call("DELETE", f"/v1/sandboxes/{box}")


@test
def what_a_command_left_running_is_paused_and_stopped_with_the_rest():
    """A command that ends leaves nothing behind that a pause does not hold, or that is killed unheard."""
    left = r"""
import os, signal, time
def heard(*_):
    open("/data/heard", "w").write("heard")
    os._exit(0)
signal.signal(signal.SIGTERM, heard)
while True:
    open("/data/tick", "w").write(str(time.monotonic_ns()))
    time.sleep(0.02)
"""
    begin = 'python3 -c "$LEFT" & until [ -e /data/go ]; do sleep 0.02; done'
    with daemon() as d:
        box = d.create(spec=spec({"a": {"command": ["sh", "-c", begin], "env": {"LEFT": left}, "data": "/data"}}))["id"]
        data = state() / "brig/daemon/sandboxes" / box / "data/a"

        def shown():
            return d.call("GET", f"/v1/sandboxes/{box}").json

        def read(name):
            with files_as_root():
                return (data / name).read_text() if (data / name).exists() else ""

        def ticks():
            before = read("tick")
            return wait_until(lambda: read("tick") not in ("", before), 5)
        with files_as_root():
            (data / "go").write_text("")
        assert wait_until(lambda: shown()["companions"][0]["state"] == "failed", 20), shown()
        assert ticks(), "the control proves nothing"
        assert d.call("POST", f"/v1/sandboxes/{box}/pause").status in (200, 202)
        assert wait_until(lambda: shown()["state"] == "paused")
        before = read("tick")
        time.sleep(0.5)  # it writes every 20 ms
        assert before and read("tick") == before
        assert d.call("POST", f"/v1/sandboxes/{box}/resume").status in (200, 202)
        assert wait_until(lambda: shown()["state"] == "ready") and ticks()
        assert d.call("POST", f"/v1/sandboxes/{box}/stop").status in (200, 202)
        assert wait_until(lambda: shown()["state"] == "stopped", 20) and read("heard") == "heard"


@test
def a_folder_of_data_is_the_companions_alone():
    with daemon() as d:
        box = d.create(spec=spec({"a": puppet(data="/data"), "b": puppet(data="/data")}))["id"]
        plant = r"""
import os
os.makedirs("/data/closed/deep"); os.makedirs("/data/" + "d/" * 500); open("/data/closed/deep/f", "w").write("x")
os.symlink("/etc", "/data/link"); os.mkfifo("/data/pipe"); os.chmod("/data/closed", 0)
try:
    os.chmod("/data", 0o777)
except OSError:
    pass
out = sorted(os.listdir("/data"))
"""
        assert ask(d, box, "a", plant) == ["closed", "d", "link", "pipe"]
        assert ask(d, box, "b", "import os; out = os.listdir('/data')") == []
        assert d.exec(box, "sh", "-c", "ls /data")["exit_code"] == 2
        with files_as_root():
            assert state().joinpath("brig/daemon/sandboxes", box).stat().st_mode & 0o777 == 0o700
        d.call("DELETE", f"/v1/sandboxes/{box}")
        assert wait_until(lambda: not os.listdir(state() / "brig/daemon/sandboxes"), 20), "what was put aside is gone, too"


@test
def who_has_a_token_cannot_bring_companions():
    with daemon_with_tokens(one="run") as d:
        a = d.call("POST", "/v1/sandboxes", {"spec": {"companions": {"a": {"command": ["true"]}}}}, token=d.tokens["one"])
        assert a.status == 403 and a.code == "policy-ceiling" and "companions" in a.json["detail"], a


if __name__ == "__main__":
    sys.exit(main())
