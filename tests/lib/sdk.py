# SPDX-License-Identifier: Apache-2.0
"""The packages of sdk/, installed as a user would, and programs that use them as a test's identity."""

import contextlib
import json
import http.server
import os
import pathlib
import re
import subprocess
import textwrap
import threading
import zlib

from harness import ORDINARY, PATIENCE, TOP, brig, brig_argv, brig_environment, brig_path, files_as_root, scratch, workspace

PYTHON = "/usr/bin/python3"
WAIT = 40 * PATIENCE

_installed = None  # the folder with both


def _call(*argv, cwd=None, env=None):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, cwd=cwd, env=env, check=False)
    assert done.returncode == 0, f"{argv}:\n{done.stdout}{done.stderr}"
    return done.stdout


def _install_python(folder):
    """From a copy: a checkout stays as it is. No index, no network, nothing else is installed."""
    _call("cp", "-r", TOP / "sdk/python", folder / "python")
    _call(PYTHON, "-m", "venv", "--without-pip", folder / "venv")
    _call(PYTHON, "-m", "pip", "--quiet", "--isolated", "--python", folder / "venv/bin/python", "install", "--no-cache-dir",
          "--no-index", folder / "python")


def _install_node(folder):
    """npm's own cache and settings are not touched."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder / "npm")}
    app = folder / "app"
    app.mkdir()
    (app / "package.json").write_text('{"private": true, "type": "module"}\n')
    packed = _call("npm", "pack", "--silent", TOP / "sdk/node", cwd=app, env=env).strip()
    _call("npm", "install", f"./{packed}", "--offline", "--no-audit", "--no-fund", "--silent", cwd=app, env=env)


@contextlib.contextmanager
def packages(folder):
    """For around(): installs them once."""
    global _installed
    folder.mkdir(mode=0o755)
    _install_python(folder)
    _install_node(folder)
    _installed = folder
    yield


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def page():
    """Where a server says 200 to everybody."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def venv_python():
    return _installed / "venv/bin/python"


def as_identity(*argv, env=None, cwd=None, **more):
    """Starts a program as the one who starts brig in this test."""
    become = [w for w in brig_argv() if w != str(brig_path())]
    with files_as_root():
        return subprocess.Popen([*become, *map(str, argv)], env=brig_environment(env), cwd=cwd or workspace(), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **more)


def finish(p, what):
    """What it wrote; it must have ended well."""
    try:
        out, err = p.communicate(timeout=WAIT)
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
        raise AssertionError(f"it took too long:\n{what}\n{out.decode()}{err.decode()}") from None
    assert p.returncode == 0, f"{what}\n{out.decode()}{err.decode()}"
    return out.decode()


def python(code, *args, env=None):
    """Runs a program with the package; what it printed."""
    code = textwrap.dedent(code)
    return finish(as_identity(venv_python(), "-X", "dev", "-W", "error", "-c", code, *args, env=env), code)


def start_node(code, *args, env=None):
    """Starts a program with the package; modules are looked for beside the file that it is in."""
    here = scratch() / "program"
    here.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (here / "node_modules").symlink_to(_installed / "app/node_modules")
    file = here / f"{zlib.crc32(code.encode()):08x}.mjs"
    file.write_text(textwrap.dedent(code))
    return as_identity("node", "--unhandled-rejections=strict", "--trace-warnings", file, *args, env=env)


def node(code, *args, env=None):
    """Runs it; what it printed."""
    return finish(start_node(code, *args, env=env), textwrap.dedent(code))


def plant_program(call):
    """A brig in a folder of PATH, and behind a link from there: call(env) starts it before there was a run in the folder where it lies, and not afterwards."""
    planted, linked, started = workspace() / "bin/brig", scratch() / "linked", workspace() / "started"
    linked.mkdir()
    (linked / "brig").symlink_to(planted)
    led, other = scratch() / "led", scratch() / "other"  # by `..` behind a link, which leads where another link says
    led.mkdir()
    (other / "deep").mkdir(parents=True)
    (led / "via").symlink_to(workspace() / "way")
    (led / "brig").symlink_to("via/../brig")
    subprocess.run([*brig_argv()[:-1], "sh", "-c", f"mkdir bin; printf '#!/bin/sh\\ntouch {started}\\n' > {planted}; chmod +x {planted}; cp {planted} {other}; ln -s {other}/deep way"],
                   cwd=workspace(), check=True)
    for ran in (True, False):
        for env in ({"PATH": f"{planted.parent}:/usr/bin:/bin"}, {"PATH": f"{linked}:/usr/bin:/bin"}, {"PATH": f"{led}:/usr/bin:/bin"}, {"BRIG_PROGRAM": str(planted)}):
            said = call(env)
            assert started.exists() == ran and ("may have written" in said) != ran, (env, said)
            started.unlink(missing_ok=True)
        assert brig("run", "--", "true").status == 0


def ask_under_another_home(call):
    """call(env, path, home) says whether it is exposed, and again where the list of accounts names that home: notes of a run there count."""
    (workspace() / "prog").write_text("")
    listed = scratch() / "listed"
    listed.mkdir()
    assert brig("run", "--", "true", env={"XDG_STATE_HOME": str(listed / ".local/state")}).status == 0
    other = {name: str(scratch() / "other") for name in ("HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")}
    said = call(other, workspace() / "prog", listed)
    assert said.split() == ["no", "yes"], said


def ask_of_another_users_file(call):
    """call(path, uid, home) of root's says whether it is exposed where the list of accounts has no home of that user's, then where it names that one."""
    place, listed = scratch() / "theirs", scratch() / "listed"
    for folder in (place, listed):
        folder.mkdir()
        os.chown(folder, ORDINARY, ORDINARY)
    (place / "prog").write_text("")
    os.chown(place / "prog", ORDINARY, ORDINARY)
    as_them = ["setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups", "--inh-caps=-all", "--"]
    env = {**brig_environment(), "HOME": str(listed), "XDG_STATE_HOME": str(listed / ".local/state"), "XDG_RUNTIME_DIR": "", "XDG_CACHE_HOME": ""}
    subprocess.run([*as_them, brig_path(), "run", "--", "true"], cwd=place, env=env, check=True, capture_output=True)
    said = call(place / "prog", ORDINARY, listed)
    assert said.split() == ["no", "yes"], said


BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$\n*", re.M | re.S)


def examples(path, language):
    """The programs of a README, each with what it prints, or None where the text does not say that."""
    blocks = BLOCK.findall(path.read_text(encoding="utf-8"))
    for i, (word, code) in enumerate(blocks):
        if word == language:
            follows = blocks[i + 1] if i + 1 < len(blocks) else ("", "")
            yield code, follows[1] if follows[0] == "text" else None


# ---- servers that are not brig's ----

ODD = r"""
import base64, json, os, pathlib, socket, sys, threading
folder, cases = pathlib.Path(sys.argv[1]), json.load(sys.stdin)
info = b'{"version":"0","schema":1,"uptime_ms":1,"sandboxes":0,"execs_running":0,"last_event":0}'
head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"

def asked(c):
    data = b""
    while b"\r\n\r\n" not in data and (piece := c.recv(65536)):
        data += piece
    lines, _, body = data.partition(b"\r\n\r\n")
    fields = dict(l.lower().split(b": ", 1) for l in lines.split(b"\r\n")[1:] if b": " in l)
    while len(body) < int(fields.get(b"content-length", 0)) and (piece := c.recv(65536)):
        body += piece
    return lines.split(b"\r\n")[0].decode(), fields.get(b"idempotency-key", b"").decode()

def serve(name, s, answers):
    at = 0
    while True:
        c, _ = s.accept()
        line, key = asked(c)
        if "/v1/info" in line and name != "a_newer_schema":
            c.sendall(head % len(info) + info)
        else:
            with open(folder / (name + ".log"), "a") as f:
                f.write(json.dumps([line, key]) + "\n")
            try:
                c.sendall(base64.b64decode(answers[min(at, len(answers) - 1)]))
            except OSError:
                pass
            at += 1
        c.close()

for name, answers in cases.items():
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(folder / (name + ".sock")))
    s.listen(8)
    threading.Thread(target=serve, args=(name, s, answers), daemon=True).start()
print("up", flush=True)
sys.stdin = open(0)
os.read(int(sys.argv[2]), 1)
"""


@contextlib.contextmanager
def odd_servers(cases):
    """For each name a socket NAME.sock whose connections get these answers, one after the other, the last of them again and again."""
    folder = scratch() / "odd"
    folder.mkdir(mode=0o700)
    here, there = os.pipe()
    p = as_identity(PYTHON, "-c", ODD, folder, here, stdin=subprocess.PIPE, pass_fds=(here,))
    os.close(here)
    try:
        p.stdin.write(json.dumps(cases).encode())
        p.stdin.close()
        assert p.stdout.readline() == b"up\n", p.stderr.read().decode()
        yield folder
    finally:
        os.close(there)
        p.stdin = None
        p.communicate(timeout=WAIT)


def requests_of(folder, case):
    """What was asked of it: [request line, idempotency key]."""
    log = pathlib.Path(folder, f"{case}.log")
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


LISTEN = """
import socket
s = socket.socket(socket.AF_UNIX)
s.bind("brig.sock")
s.listen()
print("up", flush=True)
c, _ = s.accept()
print(len(c.recv(65536)), flush=True)
"""

TLS = """
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
body = b'{"version":"0","schema":1,"sandboxes":0,"execs_running":0,"last_event":5}'
while True:
    c, _ = s.accept()
    try:
        c = context.wrap_socket(c, server_side=True)
        print(b"Bearer sesame" in c.recv(65536), flush=True)
        c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
        c.close()
    except OSError:
        pass
"""


@contextlib.contextmanager
def tls_server():
    """A proxy in front of a daemon, with a certificate of its own; its port and that."""
    cert, key = scratch() / "cert.pem", scratch() / "key.pem"
    made = as_identity("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert,
                       "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    made.communicate(timeout=WAIT)
    p = as_identity(PYTHON, "-c", TLS, cert, key)
    try:
        yield int(p.stdout.readline()), cert, p
    finally:
        p.kill()
        p.communicate()
