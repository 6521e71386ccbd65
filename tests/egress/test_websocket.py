#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""WebSockets through the door: which are let through, what is found in their messages, and peers that break the rules."""

import base64
import gzip
import hashlib
import pathlib
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import Raw, behind, configure, denials  # noqa: E402
from harness import main, test  # noqa: E402

VALUE = "zq8Gk2vTn41Lw0bYd7Rm-of-a-credential"
NO_PROXY = ("env", "-u", "HTTPS_PROXY", "-u", "https_proxy", "-u", "HTTP_PROXY", "-u", "http_proxy", "-u", "ALL_PROXY", "-u", "all_proxy")
TOKEN = "ghp_" + "aBcD3fGh1jKlMn0pQrStUvWxYz1234567890"
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(code, data=b"", last=True, first=None):
    n = len(data)
    size = bytes([n]) if n < 126 else b"\x7e" + n.to_bytes(2, "big") if n < 65536 else b"\x7f" + n.to_bytes(8, "big")
    return bytes([(0x80 if last else 0) | code if first is None else first]) + size + data


def opened(raw, s, more=""):
    """Answers an opening as a server does; the head that came."""
    head = raw.head(s).decode()
    fields = {k.lower(): v for k, _, v in (line.partition(": ") for line in head.split("\r\n")[1:])}
    accept = base64.b64encode(hashlib.sha1(fields["sec-websocket-key"].encode() + GUID).digest()).decode()
    s.sendall(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n{more}\r\n".encode())
    return head


def messages(s, seen):
    """What a client sends, unmasked: (first byte, data) of each frame, until it leaves."""
    f = s.makefile("rb")
    while head := f.read(2):
        n = head[1] & 127
        n = int.from_bytes(f.read(2), "big") if n == 126 else int.from_bytes(f.read(8), "big") if n == 127 else n
        mask = f.read(4)
        assert head[1] & 128, "not masked"
        data = bytes(b ^ mask[i & 3] for i, b in enumerate(f.read(n)))
        seen.append((head[0], data))
        yield head[0], data


def echo(raw, s):
    """Sends each frame back; says Close to a Close."""
    raw.heads.append(opened(raw, s))
    for first, data in messages(s, raw.frames):
        if first & 15 == 8:
            s.sendall(frame(8, data))
            return
        s.sendall(frame(10 if first & 15 == 9 else 0, data, first=0x8a if first & 15 == 9 else first))


def server(answer=echo, name="ws.test"):
    raw = Raw(name, answer)
    raw.heads, raw.frames = [], []
    return raw


def door(web, *more, allow=("ws:ws.test/chat",), **egress):
    return configure(web, *more, allow=list(allow), **egress)


# A client of our own, which can break every rule. `talk` sends bytes as they are and prints what comes.
CLIENT = r"""
import base64, hashlib, os, socket, ssl, struct, sys, time
for k in list(os.environ):
    if k.lower().endswith('_proxy'): del os.environ[k]
def mask(code, data=b'', last=True, first=None, masked=True, rsv=0):
    n = len(data); key = os.urandom(4)
    size = bytes([n | 128 * masked]) if n < 126 else bytes([126 | 128 * masked]) + n.to_bytes(2, 'big') if n < 65536 else bytes([127 | 128 * masked]) + n.to_bytes(8, 'big')
    return bytes([(128 if last else 0) | rsv | code]) + size + (key + bytes(b ^ key[i & 3] for i, b in enumerate(data)) if masked else data)
def open_(path='/chat', more=(), host='ws.test', key='dGhlIHNhbXBsZSBub25jZQ==', upgrade='websocket'):
    s = ssl.create_default_context().wrap_socket(socket.create_connection((host, 443), timeout=15), server_hostname=host)
    s.sendall((f'GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: {upgrade}\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n' + ''.join(m + '\r\n' for m in more) + '\r\n').encode())
    head = b''
    while b'\r\n\r\n' not in head:
        d = s.recv(1)
        if not d: break
        head += d
    return s, head.decode()
def rest(s, most=1 << 30):
    r = b''
    try:
        while len(r) < most and (d := s.recv(65536)): r += d
    except OSError as e: r += type(e).__name__.encode()
    return r
def talk(name, *data, **more):
    s, head = open_(**more)
    for d in data: s.sendall(d)
    s.sendall(mask(8, struct.pack('>H', 1000)))
    print(name, head.split()[1], rest(s).hex(), flush=True)
"""


def run(config, code, env=None, **more):
    r = behind(config, "python3", "-c", CLIENT + code, env=env or {}, **more)
    assert r["exit_code"] == 0, r
    return r, dict(line.split(" ", 1) for line in r["stdout"].splitlines() if " " in line)


@test
def a_rule_must_name_it():
    code = r"""
talk('chat', mask(1, b'hello'))
for name, path in (('other', '/else'), ('plain', '/chat')):
    s, head = open_(path) if name == 'other' else open_(path, upgrade='h2c')
    print(name, head.split()[1], 'brig-reason: not-allowed' in head, flush=True)
"""
    with server() as web:
        r, got = run(door(web), code)
        status, data = got["chat"].split()
        assert status == "101" and bytes.fromhex(data) == frame(1, b"hello") + frame(8, b"\x03\xe8"), r
        assert got["other"] == "403 True" and got["plain"] == "403 True", r
        assert "--allow ws:ws.test/else" in str(r["denials"]), r["denials"]
    with server() as web:  # a rule for the host is none for what nobody sees the requests of
        r, got = run(door(web, allow=["ws.test"]), "talk('x')")
        assert got["x"].startswith("403") and not web.heads, r


@test
def nothing_is_compressed_and_a_key_is_put_into_the_opening_alone():
    code = r"""
import os
talk('open', mask(1, b'one'), more=['Sec-WebSocket-Extensions: permessage-deflate', 'Authorization: Bearer ' + os.environ['TOKEN'], 'Sec-WebSocket-Protocol: chat'])
talk('placeholder', mask(1, os.environ['TOKEN'].encode()), more=['Authorization: Bearer ' + os.environ['TOKEN']])
"""
    with server() as web:
        config = door(web, more={"credentials": {"TOKEN": {"host": "ws.test"}}})
        r, got = run(config, code, env={"TOKEN": VALUE})
        head = web.heads[0].lower()
        assert "extensions" not in head and f"authorization: bearer {VALUE}".lower() in head and "sec-websocket-protocol: chat" in head, head
        assert got["open"].split()[0] == "101" and (0x81, b"one") in web.frames, r
        assert VALUE not in str(r) and VALUE.encode() not in b"".join(d for _, d in web.frames)
        assert [reason for _, reason in denials(r)] == ["leak"], r["denials"]  # a placeholder in a message is text, and none of the host's


@test
def what_leaves_is_searched_over_fragments_and_frames():
    cut = len(TOKEN) // 2
    code = r"""
T = TOKEN_
talk('control', mask(1, b'x ' * 40), mask(1, b'a', last=False), mask(9, b'p'), mask(0, b'b'))
talk('whole', mask(1, b'my ' + T + b' ok'))
talk('binary', mask(2, b'\0' + T + b'\0'))
talk('halves', mask(1, b'my ' + T[:CUT], last=False), mask(0, T[CUT:] + b' ok'))
talk('bytes', *([mask(1, b'x ', last=False)] + [mask(0, T[i:i+1], last=False) for i in range(len(T))] + [mask(0, b' ok')]))
talk('between', mask(1, b'my ' + T[:CUT], last=False), mask(9, b'ping'), mask(0, T[CUT:] + b' ok'))
talk('ping', mask(9, T))
talk('close', mask(8, b'\x03\xe8' + T))
talk('base64', mask(1, b'my ' + base64.b64encode(b'--' + V.encode() + b'--')))
""".replace("TOKEN_", repr(TOKEN.encode())).replace("CUT", str(cut)).replace("V.encode()", repr(VALUE.encode()))
    with server() as web:
        config = door(web, more={"credentials": {"TOKEN": {"host": "ws.test"}}})
        r, got = run(config, code, env={"TOKEN": VALUE})
        assert bytes.fromhex(got["control"].split()[1]).startswith(frame(1, b"x " * 40)), got["control"]
        for name in ("whole", "binary", "halves", "bytes", "between", "ping", "close", "base64"):
            data = bytes.fromhex(got[name].split()[1])
            assert b"\x03\xf0" in data and b" carries " in data, (name, data)  # 1008, and why
        left = b"".join(d for _, d in web.frames)
        assert TOKEN.encode() not in left and TOKEN[4:].encode() not in left and VALUE.encode() not in left, left
        assert {reason for _, reason in denials(r)} == {"leak"} and len(denials(r)) == 8, r["denials"]


@test
def messages_are_joined_and_unpacked():
    """The end of one is remembered, and each is read as a body is."""
    code = r"""
import base64, gzip
half = len(SECRET) // 2
talk('control', mask(1, b'a ' + SECRET[:half]), mask(1, SECRET[:half] + b' z'))
talk('clean', mask(2, gzip.compress(b'nothing' * 50)), mask(1, b'then'))
big = gzip.compress(os.urandom(70000))
s, head = open_()
s.sendall(mask(2, big) + mask(8))
print('large', len(rest(s)) > len(big), hashlib.sha256(big).hexdigest(), flush=True)
talk('halves', mask(1, b'a ' + SECRET[:half]) + mask(1, SECRET[half:] + b' z'))
talk('pings', mask(9, SECRET[:half]) + mask(9, SECRET[half:]))
for name, data in (('gzip', gzip.compress(SECRET * 3)), ('base64', b'{"a": "' + base64.b64encode(gzip.compress(b'x' * 30 + SECRET)) + b'"}')):
    talk(name, mask(2, data))
    talk(name + '-pieces', b''.join([mask(2 if not i else 0, data[i:i + 7], last=False) for i in range(0, len(data), 7)] + [mask(0)]))
""".replace("SECRET", repr(VALUE.encode()))
    with server() as web:
        r, got = run(door(web, more={"credentials": {"TOKEN": {"host": "else.test"}}}), code, env={"TOKEN": VALUE})
        came, same = got.pop("large").split()
        assert came == "True" and got.pop("control").endswith("880203e8") and got.pop("clean").endswith("880203e8"), r
        sent, data = [], b""
        for first, more in web.frames:
            data = data * (first & 15 == 0) + more
            sent += [data] * (first >> 7)
        assert same in [hashlib.sha256(m).hexdigest() for m in sent] and b"then" in sent, [len(m) for m in sent]
        assert len(got) == 6 and all(bytes.fromhex(v.split()[1]).endswith(b"the value of the credential 'TOKEN'") for v in got.values()), got
        assert len([d for d in denials(r) if d[1] == "leak"]) == 6, r["denials"]


@test
def what_comes_back_is_scrubbed_over_fragments():
    value = VALUE.encode()

    def answer(raw, s):
        opened(raw, s)
        s.sendall(frame(1, b"you are " + value + b" ok") + frame(2, value[:9], last=False) + frame(0, value[9:]) + frame(9, value) + frame(1, b"end"))
        s.sendall(b"".join([frame(1, b"x", last=False)] + [frame(0, value[i:i + 1], last=False) for i in range(len(value))] + [frame(0)]) + frame(8, b"\x03\xe8" + value))
        time.sleep(0.5)

    with server(answer) as web:
        config = door(web, more={"credentials": {"TOKEN": {"host": "ws.test"}}})
        r, got = run(config, "s, head = open_(more=['Authorization: Bearer ' + os.environ['TOKEN']])\nprint('got', rest(s).hex(), os.environ['TOKEN'])", env={"TOKEN": VALUE})
        data, placeholder = got["got"].split()
        data = bytes.fromhex(data)
        assert VALUE.encode() not in data and data.count(placeholder.encode()) == 5, (data, r)
        assert frame(1, b"you are " + placeholder.encode() + b" ok") in data and frame(1, b"end") in data, data


@test
def an_answer_that_holds_the_value_packed_is_cut():
    packed = {b"control": gzip.compress(b"nothing" * 9), b"attack": gzip.compress(VALUE.encode() * 3)}

    def answer(raw, s):
        opened(raw, s)
        for first, data in messages(s, raw.frames):
            whole = packed.get(data, data)
            s.sendall(frame(first & 15, whole[:20], last=first & 15 == 8) + (frame(0, whole[20:]) if first & 15 != 8 else b""))

    code = "import os\nfor n in ('control', 'attack'): talk(n, mask(2, n.encode()), more=['Authorization: Bearer ' + os.environ['TOKEN']])"
    with server(answer) as web:
        r, got = run(door(web, more={"credentials": {"TOKEN": {"host": "ws.test"}}}), code, env={"TOKEN": VALUE})
        came = {n: bytes.fromhex(v.split()[1]) for n, v in got.items()}
        assert packed[b"control"][-8:] in came.pop("control"), r  # in pieces of the door's
        assert len(came) == 1 and all(b"\x03\xf0" in c and b"packed" in c for c in came.values()), r
        assert all(packed[n.encode()][:20] not in c and packed[n.encode()][-12:] not in c for n, c in came.items()), came
        assert [why for _, why in denials(r)] == ["leak"], r["denials"]


@test
def a_guest_that_breaks_the_frames_is_cut_off():
    code = r"""
talk('control', mask(1, b'good'))
for name, data in {'unmasked': mask(1, b'x', masked=False), 'rsv': mask(1, b'x', rsv=0x40), 'code': mask(3, b'x'), 'more': mask(0, b'x'), 'fragments': mask(9, b'x', last=False),
                   'long': mask(9, b'x' * 126), 'huge': b'\x82\xff\x80' + b'\0' * 11, 'minimal': b'\x81\xfe\0\x01\0\0\0\0a', 'http': b'GET / HTTP/1.1\r\nHost: ws.test\r\n\r\n'}.items():
    talk(name, data)
talk('version', more=['Sec-WebSocket-Version: 12'])
talk('key', key='short')
"""
    with server() as web:
        r, got = run(door(web), code)
        assert bytes.fromhex(got["control"].split()[1]).startswith(frame(1, b"good")), r
        for name in ("unmasked", "rsv", "code", "more", "fragments", "long", "huge", "minimal", "http"):
            assert b"\x03\xf0the frames are malformed" in bytes.fromhex(got[name].split()[1]), (name, got[name])
        assert got["version"].startswith("400") and got["key"].startswith("400"), got
        assert [f for f in web.frames if f[0] & 15 != 8] == [(0x81, b"good")], web.frames


@test
def a_host_that_breaks_the_rules_opens_nothing():
    ways = {
        "control": lambda raw, s: (opened(raw, s), s.sendall(frame(1, b"good") + frame(8, b"\x03\xe8"))),
        "accept": lambda raw, s: (raw.head(s), s.sendall(b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n")),
        "extension": lambda raw, s: opened(raw, s, "Sec-WebSocket-Extensions: permessage-deflate\r\n"),
        "early": lambda raw, s: (raw.head(s), s.sendall(frame(1, b"before"))),
        "masked": lambda raw, s: (opened(raw, s), s.sendall(b"\x81\x81\0\0\0\0x")),
        "rsv": lambda raw, s: (opened(raw, s), s.sendall(b"\xc1\x01x")),
        "refused": lambda raw, s: (raw.head(s), s.sendall(b"HTTP/1.1 426 x\r\nContent-Length: 0\r\n\r\n")),
    }
    names = iter(ways)
    lock = threading.Lock()

    def answer(raw, s):
        with lock:
            way = ways[next(names)]
        way(raw, s)

    code = "".join(f"s, head = open_()\ns.settimeout(3)\nprint('{name}', head.split()[1], rest(s).hex() or '-', flush=True)\n" for name in ways)
    with server(answer) as web:
        r, got = run(door(web), code)
        assert got["control"].split()[0] == "101" and bytes.fromhex(got["control"].split()[1]) == frame(1, b"good") + frame(8, b"\x03\xe8"), r
        assert [got[n].split()[0] for n in ("accept", "extension", "early", "refused")] == ["502", "502", "502", "426"], got
        assert got["masked"] == "101 -" and got["rsv"] == "101 -", got

    def unasked(raw, s):
        raw.head(s)
        s.sendall(b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + frame(1, b"unasked"))

    with Raw("api.test", unasked) as web:
        r, got = run(configure(web), "s, head = open_('/', host='api.test', upgrade='nothing')\nprint('got', head.split()[1], flush=True)")
        assert got["got"] == "502", r


@test
def real_clients_talk():
    node = r"""
const w = new WebSocket('wss://ws.test/chat');
w.onopen = () => w.send('from node');
w.onmessage = m => { console.log('node', m.data); w.close(); };
w.onerror = e => console.log('node', e.message);
"""
    client = r"""
import asyncio, os, websockets
for k in list(os.environ):
    if k.lower().endswith('_proxy'): del os.environ[k]
async def main():
    async with websockets.connect('wss://ws.test/chat', compression='deflate', max_size=None) as w:
        await w.send('text'); print('text', await w.recv())
        await w.send(b'\0' * 300000); print('big', len(await w.recv()))
        await w.send(['a', 'b', 'c']); print('pieces', await w.recv())
        await (await w.ping()); print('pong', True)
    print('closed', w.close_code)
asyncio.run(main())
"""
    with server() as web:
        r = behind(door(web), "/usr/bin/python3", "-c", client)
        got = dict(line.split(" ", 1) for line in r["stdout"].splitlines())
        assert got == {"text": "text", "big": "300000", "pieces": "abc", "pong": "True", "closed": "1000"}, r
        major = int(subprocess.run(["node", "--version"], stdout=subprocess.PIPE, check=True).stdout[1:].split(b".")[0])
        if major >= 20:  # those before have none
            r = behind(door(web), *NO_PROXY, "node", *["--experimental-websocket"] * (major < 22), "-e", node)
            assert r["stdout"] == "node from node\n", r


if __name__ == "__main__":
    sys.exit(main())
