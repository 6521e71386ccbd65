#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""When things break or somebody makes them: floods, a record that cannot be written, hosts that stall; and that no value of a credential
is found anywhere but where it belongs."""

import base64
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import Handler, Raw, Web, behind, configure, denials  # noqa: E402
from harness import IS_ROOT, PATIENCE, brig, descendants, home, main, scratch, start_brig, state, test, uid, wait_until, workspace  # noqa: E402

LIGHT = bool(os.environ.get("LIGHT"))  # under the sanitizers every process takes its time
VALUE = "Zq8+Gk2/vTn41Lw0bYd7Rm"


def comm(pid):
    """Its name; "": it has ended meanwhile."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def worker_of(p):
    return next((pid for pid in descendants(p.pid) if comm(pid) == "brig-egress"), None)


def usage(pid):
    """(KiB of memory at most so far, descriptors now)"""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]), len(os.listdir(f"/proc/{pid}/fd"))


FLOOD = """
import socket, ssl, sys
def connect():
    return ssl.create_default_context().wrap_socket(socket.create_connection(("api.test", 443), timeout=20), server_hostname="api.test")
def ask(t):
    t.sendall(b"GET / HTTP/1.1\\r\\nHost: api.test\\r\\n\\r\\n"); r = b""
    while not r.endswith(b"hello\\n"):
        d = t.recv(4096)
        if not d: return "gone"
        r += d
    return "hello"
old = [connect() for _ in range(8)]
print([ask(t) for t in old].count("hello"), flush=True)
held, failed = [], 0
for i in range(10000):
    try: held.append(socket.create_connection(("api.test", 443), timeout=20))
    except OSError: failed += 1
print(len(held) + failed, [ask(t) for t in old].count("hello"), flush=True)
open("flooded", "w").close()
sys.stdin.readline()
gone = 0
for s in held:
    s.setblocking(False)
    try: gone += s.recv(1) == b""
    except BlockingIOError: pass
    except OSError: gone += 1
print(gone + failed)
for s in held: s.close()
import time
for _ in range(100):
    try:
        if ask(connect()) == "hello": print("again"); break
    except OSError: time.sleep(0.1)
"""


def flood(connections):
    """10,000 connections that say nothing, while eight old ones go on asking: (what was printed, memory, descriptors, result)"""
    with Web("api.test") as web:
        config = configure(web, rate={"connections": connections, "domain": 0, "total": 0}, more={"limits": {"files": 12000}})
        code = "import os\nfor k in list(os.environ):\n    if k.lower().endswith('_proxy'): del os.environ[k]\n" + FLOOD
        p = start_brig("run", "--json", "--config", config, "--", "python3", "-c", code, stdin=subprocess.PIPE)
        assert wait_until(lambda: worker_of(p)), "no worker"
        worker, most = worker_of(p), (0, 0)
        until = time.monotonic() + 40 * PATIENCE
        while time.monotonic() < until and p.poll() is None and not (workspace() / "flooded").exists():
            time.sleep(0.05)
            most = tuple(map(max, usage(worker), most))
        most = tuple(map(max, usage(worker), most))
        out = p.communicate(b"\n", timeout=40 * PATIENCE)[0]
        r = json.loads(out)
        return r["stdout"].split(), most, r


@test(as_user="user", limit=120)
def ten_thousand_silent_connections_end_at_the_limit_of_the_run():
    if not IS_ROOT or LIGHT:
        return  # the door's descriptors are not ours to count
    said, (memory, files), r = flood(512)
    assert said[:3] == ["8", "10000", "8"] and said[-1] == "again", said
    assert int(said[3]) >= 10000 - 512 and files < 700, (said, files)
    assert memory < 48 << 10, memory
    assert "limit" in {reason for _, reason in denials(r)}, r["denials"][:3]


@test(as_user="root", limit=120)
def where_they_are_allowed_they_leave_room_for_those_at_work():
    if LIGHT:
        return
    said, (memory, files), r = flood(100000)
    assert said[:3] == ["8", "10000", "8"] and said[-1] == "again", said
    assert 5000 <= 10000 - int(said[3]) <= 8192 and files <= 8400, (said, files)  # held, and half of the descriptors kept
    assert memory < 8192 * 16, memory
    assert "limit" in {reason for _, reason in denials(r)}, r["denials"][:3]


def small_disk():
    disk = scratch() / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=256k,mode=700,uid={uid()},gid={uid()}", "tmpfs", str(disk)], check=True)
    return disk


def fill(disk):
    with open(disk / "balloon", "wb", buffering=0) as f, contextlib.suppress(OSError):
        while f.write(b"x" * 4096):
            pass


@test
def a_run_whose_decisions_cannot_be_recorded_ends():
    if not IS_ROOT:
        return  # nothing to mount
    disk = small_disk()
    try:
        with Web("api.test") as web:
            config = configure(web, rate={"domain": 0, "total": 0}, more={"audit": {"dir": f"{disk}/log"}})
            p = start_brig("run", "--json", "--config", config, "--", "sh", "-c",
                           "n=0; while test $n -lt 3000; do n=$((n+1)); curl -s -o /dev/null https://api.test/ https://x$n.test/; done; touch done")
            try:
                assert wait_until(lambda: len(web.seen) > 3, 20), "no request went out"
                fill(disk)
                r = json.loads(p.communicate(timeout=40 * PATIENCE)[0])
            finally:
                p.kill()
            assert r["outcome"] == "failed" and r["error"]["code"] == "unavailable" and str(disk) in r["error"]["what"], r
            assert not (workspace() / "done").exists() and p.returncode == 125
            seen = len(web.seen)
            time.sleep(0.3)
            assert len(web.seen) == seen, "requests after the end"
            (disk / "balloon").unlink()
            assert brig("run", "--config", config, "--", "curl", "-sS", "https://api.test/").text == "hello\n"  # the control: with room it works
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@test(as_user="root", limit=90)
def a_host_that_stalls_is_given_up_and_others_are_served():
    if LIGHT:
        return

    def silent(self, s):
        self.seen.append(s.recv(10))
        time.sleep(40)

    with Raw("silent.test", silent, tls=False) as stalled, Web("api.test") as web:
        r = behind(configure(stalled, web), "sh", "-c", "curl -sS -m 60 -w ' %{http_code}' https://silent.test/ & "
                   "sleep 0.5; for i in 1 2 3; do curl -sS https://api.test/; done; wait", timeout=80)
        assert r["stdout"].count("hello\n") == 3 and r["stdout"].endswith(" 502") and "in time" in r["stdout"], r["stdout"]
        assert stalled.seen and r["stdout"].index("hello") < r["stdout"].index("in time"), r["stdout"]


# ---- where a value may be, and where not ----


def forms(value):
    """A value as somebody could have written it down."""
    raw = value.encode()
    yield raw
    yield raw[::-1]
    for cut in range(3):  # the part of base64 that does not depend on what is around
        text = base64.b64encode(b"x" * cut + raw)
        yield text[4 if cut else 0:-4]
        yield text[4 if cut else 0:-4].replace(b"+", b"-").replace(b"/", b"_")
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    yield urllib.parse.quote(value, safe="").encode()
    yield "".join(f"%{b:02x}" for b in raw).encode()
    yield json.dumps(value)[1:-1].replace("/", "\\/").encode()
    yield value.encode("utf-16-le")


def found(data):
    return [f for f in forms(VALUE) if f in data]


def memory_of(pid):
    """What can be read of a process's memory."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
        for line in maps:
            where, rights = line.split()[:2]
            first, last = (int(x, 16) for x in where.split("-"))
            if "r" not in rights or "[v" in line or last - first > 1 << 28:
                continue
            with contextlib.suppress(OSError, OverflowError, ValueError):
                mem.seek(first)
                yield mem.read(last - first)


class Mirror(Handler):
    def do_GET(self):
        self.server.seen.append(self.headers.get("Authorization"))
        if self.path == "/break":
            self.wfile.write(f"HTTP/1.1 200 {self.headers['Authorization']}\nbroken\n\n".encode())
            self.close_connection = True
        else:
            self.answer((self.headers.get("Authorization") or "").encode(), fields=[("X-Seen", self.headers.get("Authorization") or "")])

    do_POST = do_GET


@test
def no_value_is_in_any_file_log_error_or_process_but_the_doors():
    key = scratch() / "token"
    key.write_text(VALUE + "\n")
    key.chmod(0o600)
    os.chown(key, uid(), uid())
    with Web("api.test", handler=Mirror) as web, Web("other.test") as other:
        config = configure(web, other, more={"credentials": {
            "TOKEN": {"host": "api.test"}, "FILED": {"host": "api.test", "from": {"file": str(key)}, "header": "X-Filed", "prefix": ""}}})
        p = start_brig("run", "--json", "--config", config, "--", "sh", "-c", f"""
get() {{ curl -sSi --max-time 20 "$@"; }}
get -H "Authorization: Bearer $TOKEN" https://api.test/; get -H "X-Filed: $FILED" https://api.test/
get -H "Authorization: Bearer $TOKEN" https://api.test/break; get -H "Authorization: Bearer $TOKEN" https://other.test/
get -d "{VALUE}" https://other.test/; get "https://api.test/?$TOKEN"; get -H "Authorization: Bearer other" https://api.test/
get -H "Authorization: Basic $(printf x:$TOKEN | base64)" https://api.test/; env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -v other.test
touch ready; while ! test -e go; do sleep 0.05; done""", env={"TOKEN": VALUE})
        try:
            assert wait_until(lambda: (workspace() / "ready").exists(), 30), p.stderr
            inside = [pid for pid in descendants(p.pid) if comm(pid) not in ("", "brig-egress", "brig-keeper")]
            assert len(inside) >= 2, inside  # the first process of the sandbox, and what it runs
            command = VALUE.encode()  # the words of the script itself have it: that process is the test's own leak
            for pid in inside:
                for name in ("environ", "cmdline"):
                    with contextlib.suppress(OSError):
                        data = pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
                        assert name == "cmdline" or not found(data), (pid, name, data)
            first = min(inside)
            if IS_ROOT and "ASAN_OPTIONS" not in os.environ:  # a sanitizer keeps a copy of the environment
                assert any(VALUE.encode() in piece for piece in memory_of(p.pid))  # the control: brig's own has it
                pieces = list(memory_of(first))
                assert sum(map(len, pieces)) > 1 << 16, "the first process cannot be read"
                for piece in pieces:
                    for at in (m.start() for m in re.finditer(re.escape(command), piece)):
                        around = piece[max(0, at - 40):at]
                        assert b'get -d "' in around, (first, piece[max(0, at - 60):at + 60])
        finally:
            (workspace() / "go").touch()
            out, err = p.communicate(timeout=30 * PATIENCE)
        r = json.loads(out)
        assert web.seen.count(f"Bearer {VALUE}") >= 2 and any(s and s.startswith("Basic") for s in web.seen), web.seen  # the control: it was used
        assert r["exit_code"] == 0 and r["output"].count("brig-") > 3, r
        # The guest's own words are the only place it stands in: the line of the script, in argv.
        for name, data in (("output", r["output"].encode()), ("stderr", err), ("json", out)):
            clean = re.sub(rb'get -d \\*"' + re.escape(VALUE.encode()) + rb'\\*" https', b"", data)
            assert not found(clean), (name, clean)
        for top in (state(), home(), workspace(), scratch()):
            for path in pathlib.Path(top).rglob("*"):
                if path.is_file() and path != key:
                    assert not found(path.read_bytes()), path
        assert not found(brig("audit", "list", "--json").stdout) and not found(brig("audit", "export", "--format", "ocsf").stdout)
        assert not other.seen


if __name__ == "__main__":
    sys.exit(main())
