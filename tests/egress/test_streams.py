#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Bodies, long and slow, both ways; servers that break the rules; processes of the door that die."""

import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import Raw, Web, behind, configure, denials, on_every_door, python  # noqa: E402
from harness import (FACTOR, PATIENCE, brig_argv, brig_environment, brig_path, descendants, identity, main, scratch, start_brig, test, wait_until,  # noqa: E402
                     workspace)



def status(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def door_processes(brig_process):
    """(worker, keeper) below a running brig."""
    found = {}
    for pid in descendants(brig_process.pid):
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
                found[f.read().strip()] = pid
        except OSError:
            pass
    return found.get("brig-egress"), found.get("brig-keeper")


def start_behind(config, *argv):
    p = start_brig("run", "--json", "--config", config, "--", *argv)
    assert wait_until(lambda: all(door_processes(p))), "no worker, no keeper"
    return p


@test
def events_arrive_when_they_are_sent():
    with Web("api.test") as web:
        r = python(configure(web), """
import time, urllib.request
for line in urllib.request.urlopen("https://api.test/events"):
    if line.startswith(b"data"): print(time.time() - float(line.split()[2]))
""")
        delays = list(map(float, r["stdout"].split()))
        assert len(delays) == 5 and max(delays) < 0.1 * PATIENCE, delays


@test
def large_bodies_go_through_in_little_memory():
    size = 64 << 20
    with Web("api.test") as web:
        config = configure(web)
        p = start_behind(config, "sh", "-c", f"curl -sS https://api.test/big/{size} | (sleep 1; wc -c); head -c {size} /dev/zero | "
                         f"curl -sS -T - https://api.test/up; head -c {size} /dev/zero > /tmp/z; curl -sS -T /tmp/z https://api.test/up; sleep 0.3")
        worker, most = door_processes(p)[0], 0
        while p.poll() is None:
            try:
                most = max(most, int(status(worker)["VmHWM"].split()[0]))
            except (OSError, KeyError):
                break
            time.sleep(0.02)
        r = json.loads(p.communicate()[0])
        assert r["stdout"].split() == [str(size)] * 3, r
        assert r["egress"]["bytes_in"] >= size and r["egress"]["bytes_out"] == 2 * size, r["egress"]
        limit = 800 << 10 if "ASAN_OPTIONS" in os.environ else 48 << 10
        assert 0 < most < limit, f"{most} KiB"


@test
def a_connection_is_used_again_on_both_legs():
    with Web("api.test") as web:
        r = behind(configure(web), "sh", "-c", "curl -sS -w '%{num_connects}\\n' https://api.test/ https://api.test/a https://api.test/b; "
                   "curl -sS https://api.test/c")
        assert r["stdout"].split() == ["hello", "1", "hello", "0", "hello", "0", "hello"], r
        assert web.connections == 1 and len(web.seen) == 4, web.connections


@test
def fields_of_one_hop_and_other_ways_in_are_dropped():
    with Web("api.test") as web:
        r = behind(configure(web), "curl", "-sSi", "--http1.1", "-H", "Connection: X-Secret", "-H", "X-Secret: 1", "-H", "Proxy-Authorization: Basic eA==",
                   "-H", "X-Forwarded-For: 1.2.3.4", "-H", "Upgrade: h2c", "-H", "X-Keep: 1", "https://api.test/fields")
        sent = {k.lower() for k, _ in web.seen[0][1]}
        assert "x-keep" in sent and not sent & {"connection", "x-secret", "proxy-authorization", "x-forwarded-for", "upgrade"}, sent
        got = r["stdout"].lower()
        assert "x-end: 1" in got and "alt-svc" not in got and "x-hop" not in got, r["stdout"]


@test
def a_redirect_is_the_guests_to_follow_and_is_judged_again():
    with Web("api.test") as web:
        r = behind(configure(web), "curl", "-sSL", "-o", "/dev/null", "-w", "%{http_code}", "https://api.test/moved")
        assert denials(r) == [("elsewhere.test:443", "not-allowed")] and len(web.seen) == 1, r


@test
def an_upload_waits_for_the_servers_word():
    def answer(self, s):
        self.head(s)
        s.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        got = b""
        while len(got) < 5:
            got += s.recv(100)
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(got), got))

    def refuse(self, s):
        self.head(s)
        s.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
        self.seen.append(s.recv(100))

    with Raw("yes.test", answer) as yes, Raw("no.test", refuse) as no:
        config = configure(yes, no)
        code = """
import socket, ssl
def put(host):
    s = ssl.create_default_context().wrap_socket(socket.create_connection((host, 443), timeout=10), server_hostname=host)
    s.sendall(f"PUT / HTTP/1.1\\r\\nHost: {host}\\r\\nContent-Length: 5\\r\\nExpect: 100-continue\\r\\n\\r\\n".encode())
    first = s.recv(1000)
    print(first.split(b"\\r\\n")[0].decode())
    if b" 100 " in first:
        s.sendall(b"12345")
        print(s.recv(1000).split(b"\\r\\n")[0].decode())
put("yes.test"); put("no.test")
"""
        r = python(config, code)
        assert r["stdout"].splitlines() == ["HTTP/1.1 100 Continue", "HTTP/1.1 200 OK", "HTTP/1.1 413 Too Large"], r


HOSTILE = {
    "both": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "folded": b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "bare": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "nothing": b"",
    "banner": b"220 smtp.example ESMTP\r\n",
    "switch": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
    "storm": b"HTTP/1.1 103 Early Hints\r\nX: 1\r\n\r\n" * 50,
    "bomb": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20000 + b"\r\n",
    "coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
}
CUT = {
    "short": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this",
    "chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n",
}


@test
def an_upload_that_nobody_takes_costs_the_door_nothing():
    stop = threading.Event()

    def deaf(self, s):
        self.head(s)
        stop.wait(60)

    def ticks(pid):
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13]))

    with Raw("deaf.test", deaf, tls=False) as host:
        p = start_behind(configure(host, allow=["deaf.test:80"]), "python3", "-c", """
import os, select, socket, time
s = socket.create_connection(("deaf.test", 80))
s.sendall(b"PUT / HTTP/1.1\\r\\nHost: deaf.test\\r\\nContent-Length: 1000000000\\r\\n\\r\\n")
s.setblocking(False)
while select.select([], [s], [], 1)[1]: s.send(bytes(65536))
open("ready", "w")
while not os.path.exists("go"): time.sleep(0.01)
""")
        worker = door_processes(p)[0]
        assert wait_until(lambda: (workspace() / "ready").exists())
        before = ticks(worker)
        time.sleep(1)
        used = ticks(worker) - before
        (workspace() / "go").touch()
        stop.set()
        assert json.loads(p.communicate()[0])["exit_code"] == 0
        assert used < 5, f"{used} ticks of CPU"


@test
def a_server_that_breaks_the_framing_is_not_passed_on():
    def answer(self, s):
        path = self.head(s).split(b" ")[1].decode().strip("/")
        s.sendall({**HOSTILE, **CUT, "second": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nextra"}[path])
        time.sleep(0.1)

    with Raw("bad.test", answer) as bad:
        names = " ".join([*HOSTILE, *CUT])
        r = behind(configure(bad), "sh", "-c", f"for v in 1.1 2; do for p in {names}; do printf '%s ' $p$v; curl -s --http$v -m 10 -o /dev/null -w '%{{http_code}} ' https://bad.test/$p; "
                   "echo $?; done; done; curl -sS --http1.1 https://bad.test/second https://bad.test/second", timeout=60)
        lines = r["stdout"].splitlines()
        answers = {n: v for n, *v in (line.split() for line in lines[:-1])}
        assert all(answers[n + v] == ["502", "0"] for n in HOSTILE for v in ("1.1", "2")), answers
        assert all(answers[n + "1.1"][0] == "200" and answers[n + v][1] != "0" for n in CUT for v in ("1.1", "2")), answers  # told as broken, not as whole
        assert lines[-1] == "okok", lines


@test
def a_reset_or_silent_server_ends_one_request_only():
    def reset(self, s):
        self.head(s)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with Raw("bad.test", reset) as bad, Web("api.test") as web:
        config = configure(bad, web, resolve={"dead.test": "127.0.0.1:1"}, allow=["bad.test", "api.test", "dead.test"])
        r = behind(config, "sh", "-c", "for h in bad dead api; do curl -s -m 10 -o /dev/null -w '%{http_code}\\n' https://$h.test/; done")
        assert r["stdout"].split() == ["502", "502", "200"], r


@on_every_door
def without_its_worker_a_run_ends_and_nothing_takes_its_place():
    with Web("api.test") as web:
        p = start_behind(configure(web), "sh", "-c", "touch ready; sleep 20; curl -sS https://api.test/")
        assert wait_until(lambda: (workspace() / "ready").exists())
        os.kill(door_processes(p)[0], signal.SIGKILL)
        r = json.loads(p.communicate(timeout=15 * PATIENCE)[0])
        assert r["outcome"] == "failed" and "door" in r["error"]["what"], r
        assert p.returncode == 125 and not web.connections, p.returncode


@test
def without_its_keeper_no_new_name_can_be_reached():
    with Web("api.test") as web, Web("two.test") as two:
        p = start_behind(configure(web, two), "sh", "-c", "curl -sS https://api.test/; touch ready; while ! test -e go; do sleep 0.05; done; "
                         "curl -sS https://api.test/; curl -sS https://two.test/ || echo failed")
        assert wait_until(lambda: (workspace() / "ready").exists())
        os.kill(door_processes(p)[1], signal.SIGKILL)
        (workspace() / "go").touch()
        r = json.loads(p.communicate(timeout=15 * PATIENCE)[0])
        assert r["stdout"].split() == ["hello", "hello", "failed"] and not two.connections, r


@test
def a_monitor_that_does_not_read_makes_the_door_wait():
    with Web("api.test") as web:
        config = configure(web, rate={"domain": 100000, "total": 100000})
        p = start_behind(config, "python3", "-c", """
import http.client, os, time
c = http.client.HTTPSConnection("api.test")
for i in range(400):
    c.request("GET", "/")
    r = c.getresponse()
    r.read()
    if r.status != 200: print(r.status)
    if i == 20: open("ready", "w")
    while i == 20 and not os.path.exists("go"): time.sleep(0.01)
print("done")
""")
        assert wait_until(lambda: (workspace() / "ready").exists())
        os.kill(p.pid, signal.SIGSTOP)
        try:
            (workspace() / "go").touch()
            seen = [-1, 21]
            while seen[-1] != seen[-2] or seen[-1] == 21:
                time.sleep(0.5 * FACTOR)
                seen.append(len(web.seen))
            assert seen[-1] < 400, "nothing ever waited"
        finally:
            os.kill(p.pid, signal.SIGCONT)
        r = json.loads(p.communicate(timeout=60 * PATIENCE)[0])
        assert r["stdout"] == "done\n" and len(web.seen) == 400, (r, len(web.seen))
        assert r["egress"]["allowed"] == 400 and r["egress"]["denied"] == 0, r["egress"]


@test
def the_worker_is_locked_down():
    p = start_behind(configure(allow=[]), "sleep", "20")
    try:
        for pid in door_processes(p):
            assert wait_until(lambda: status(pid)["Seccomp"].strip() == "2" and status(pid)["NoNewPrivs"].strip() == "1"), status(pid)
            assert wait_until(lambda: int(status(pid)["CapEff"], 16) == 0), status(pid)
            s = status(pid)
            assert s["NoNewPrivs"].strip() == "1" and int(s["CapEff"], 16) == int(s["CapPrm"], 16) == 0, s
            assert identity() != "root" or s["Uid"].split() == ["65534"] * 4, s["Uid"]
            if os.geteuid() == 0:
                kinds = {os.readlink(f"/proc/{pid}/fd/{n}").split(":")[0] for n in os.listdir(f"/proc/{pid}/fd") if int(n) > 2}
                assert kinds <= {"socket", "anon_inode"}, kinds
    finally:
        p.terminate()
        p.wait()


@on_every_door
def no_door_no_run():
    lonely = scratch() / "bin"
    lonely.mkdir()
    shutil.copy(brig_path(), lonely / "brig")
    (lonely / "brig").chmod(0o755)
    argv = [str(lonely / "brig") if a == str(brig_path()) else a for a in brig_argv("run", "--network", "proxy", "--", "true")]
    done = subprocess.run(argv, env=brig_environment(), stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 125 and "brig-egress" in done.stderr, done


@test
def many_idle_connections_leave_room_for_others_and_then_are_refused():
    with Web("api.test") as web:
        r = python(configure(web, rate={"connections": 200}), """
import socket, urllib.request
held = [socket.create_connection(("api.test", 443), timeout=5) for _ in range(150)]
print(urllib.request.urlopen("https://api.test/").read().decode(), end="")
held += [socket.create_connection(("api.test", 443), timeout=5) for _ in range(100)]
gone = 0
for s in held:
    s.settimeout(0.01)
    try: gone += s.recv(1) == b""
    except TimeoutError: pass
    except OSError: gone += 1
print(gone)
for s in held: s.close()
import time; time.sleep(0.3)
print(urllib.request.urlopen("https://api.test/").read().decode(), end="")
""")
        hello, gone, again = r["stdout"].split()
        assert hello == again == "hello" and 40 <= int(gone) <= 60, r["stdout"]
        assert "limit" in {reason for _, reason in denials(r)}, r["denials"]


if __name__ == "__main__":
    sys.exit(main())
