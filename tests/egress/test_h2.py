#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 through the door: real clients and servers."""

import concurrent.futures
import os
import pathlib
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import door  # noqa: E402
import h2raw  # noqa: E402
from door import Host, Web, behind, configure, python  # noqa: E402
from harness import brig, main, scratch, test, wait_until  # noqa: E402


@test
def curl_speaks_h2_with_the_door():
    with Web("h1.test") as w:
        r = behind(configure(w), "curl", "-sv", "--http2", "https://h1.test/", "https://h1.test/big/300000", "-o", "/dev/null", "-o", "/dev/null",
                   "-w", "%{http_version} %{http_code} %{size_download}\n")
        assert r["stdout"] == "2 200 6\n2 200 300000\n", r


class Nghttpd:
    """Debian's nghttpd over a folder; it speaks HTTP/2 alone."""

    def __init__(self, name, *options, tells=True):
        self.names, self.folder = (name,), scratch() / "served"
        self.folder.mkdir(exist_ok=True)
        (self.folder / "small").write_bytes(b"hello\n")
        (self.folder / "big").write_bytes(b"x" * 3000000)
        with socket.create_server(("127.0.0.1", 0)) as s:
            self.port = s.getsockname()[1]
        cert, key = door.leaf(name)
        self.log = open(scratch() / "nghttpd.log", "w+b")
        self.process = subprocess.Popen(["nghttpd", *["-v"] * tells, "-a", "127.0.0.1", "-d", self.folder, "--echo-upload", *options, str(self.port), key, cert],
                                        stdout=self.log, stderr=self.log)
        wait_until(self._listens)

    def _listens(self):
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
            return True
        except OSError:
            return False

    def text(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text("latin-1")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.close()


@test
def both_sides_speak_h2():
    with Nghttpd("h2.test", "--trailer", "x-end: yes") as w:
        r = behind(configure(w), "sh", "-c", "curl -sS https://h2.test/small https://h2.test/big -o /dev/null -o /dev/null -w '%{http_version} %{http_code} %{size_download}\n';"
                   "nghttp -nv https://h2.test/small | grep x-end;"
                   "head -c 2000000 /dev/zero > z; curl -sS --data-binary @z https://h2.test/small | wc -c")
        print(r, w.text())
        assert r["stdout"].startswith("2 200 6\n2 200 3000000\n"), r
        assert "x-end: yes" in r["stdout"] and r["stdout"].endswith("2000000\n"), r


@test
def many_streams_at_once():
    with Nghttpd("h2.test") as w:
        r = behind(configure(w), "h2load", "-n", "2000", "-c", "4", "-m", "50", "https://h2.test/small")
        print(r)
        assert "2000 succeeded, 0 failed" in r["stdout"], r
        assert sum(a.get("count", 1) for a in r["network"]) == 2000 if "network" in r else True


class Grpc:
    """A server of gRPC: one message each tenth of a second; an echo of a stream; both ways at once."""

    def __init__(self, name):
        import grpc

        self.names = (name,)
        cert, key = (p.read_bytes() for p in door.leaf(name))

        def ticks(request, context):
            for _ in range(int(request)):
                yield b"%.6f" % time.time()
                time.sleep(0.1)

        def echo(requests, context):
            context.set_trailing_metadata((("x-count", "many"),))
            for r in requests:
                yield r

        def say(request, context):
            return request

        def fail(request, context):
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not now")

        handlers = {"Ticks": grpc.unary_stream_rpc_method_handler(ticks), "Echo": grpc.stream_stream_rpc_method_handler(echo),
                    "Fail": grpc.unary_unary_rpc_method_handler(fail), "Say": grpc.unary_unary_rpc_method_handler(say)}
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", handlers),))
        self.port = self.server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, cert)]))
        self.server.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(None)


GRPC = r"""
import grpc, queue, ssl, time
pem = open(ssl.get_default_verify_paths().cafile or '/etc/ssl/certs/ca-certificates.crt', 'rb').read()
c = grpc.secure_channel('g.test:443', grpc.ssl_channel_credentials(pem), options=[('grpc.enable_http_proxy', 0)])
delays = sorted(time.time() - float(m) for m in c.unary_stream('/t.T/Ticks')(b'10', timeout=20))
print(len(delays), '%.2f' % (delays[len(delays) // 2] * 1000))
q = queue.Queue()
calls = c.stream_stream('/t.T/Echo')(iter(q.get, None), timeout=20)
got = []
for i in range(20):  # each is asked for once the one before has come
    q.put(b'%d' % i); got.append(next(calls))
q.put(b'y' * 1000000); got.append(next(calls))
q.put(None)
print(len(got), len(got[-1]), list(calls), dict(calls.trailing_metadata())['x-count'], calls.code().name)
try: c.unary_unary('/t.T/Fail')(b'', timeout=20)
except grpc.RpcError as e: print(e.code().name, e.details())
"""


@test
def grpc_streams_both_ways_without_delay():
    with Grpc("g.test") as g:
        r = python(configure(g), GRPC)
        print(r["stdout"])
        ticks, echo, fail = r["stdout"].splitlines()
        assert ticks.split()[0] == "10" and float(ticks.split()[1]) < 50, ticks  # milliseconds; what the door adds is bench/run's
        assert echo == "21 1000000 [] many OK" and fail == "FAILED_PRECONDITION not now", r["stdout"]


NODE = r"""
const http2 = require('http2'), fs = require('fs');
const c = http2.connect('https://h2.test', { ca: fs.readFileSync(process.env.SSL_CERT_FILE || '/etc/ssl/certs/ca-certificates.crt') });
let left = 20;
for (let i = 0; i < left; i++) {
    const r = c.request({ ':path': '/small', ':method': 'POST' });
    let got = '', end = '';
    r.on('data', d => got += d); r.on('trailers', h => end = h['x-end']);
    r.on('end', () => { if (got !== 'body' + i || end !== 'yes') console.log('wrong', got, end); if (!--left) { console.log('done'); c.close(); } });
    r.end('body' + i);
}
"""
# Requests are in flight all the time; what is asked for once the session ends goes over another. Node may ask at the very moment:
# it then says itself that nobody has seen the request.
NODE_MANY = r"""
const http2 = require('http2'), fs = require('fs');
const ca = fs.readFileSync(process.env.SSL_CERT_FILE || '/etc/ssl/certs/ca-certificates.crt');
let c, asked = 0, done = 0, lost = 0, sessions = 0;
function session() {
    if (!c || c.closed || c.destroyed) { c = http2.connect('https://h2.test', { ca }); sessions++; c.on('error', () => {}); }
    return c;
}
function one() {
    if (asked === MANY) return;
    asked++;
    ask();
}
function ask() {
    const r = session().request({ ':path': '/small' });
    let got = '';
    const over = (ok, e) => {
        if (r.over) return;
        r.over = true;
        if (e && /REFUSED_STREAM/.test(e.message)) { ask(); return; }
        lost += !ok; if (++done === MANY) { console.log('node', done, lost, sessions); process.exit(0); } one();
    };
    r.setEncoding('latin1'); r.on('data', d => got += d);
    r.on('end', () => over(got === 'hello\n')); r.on('error', e => over(false, e)); r.on('close', () => over(got === 'hello\n'));
}
for (let i = 0; i < 40; i++) one();
"""
# One at a time: curl 7.88 with many through any proxy forgets some when a connection ends, whoever ends it.
CURL_MANY = r"""curl -sS 'https://h2.test/small?[1-MANY]' -o /dev/null -w '%{http_code}\n' > c 2>&1; sort c | uniq -c | sed 's/^ */curl /'"""
HTTPX_MANY = r"""
import httpx
lost, ports = 0, set()
with httpx.Client(http2=True, verify=True) as c:
    for i in range(MANY):
        try:
            r = c.get('https://h2.test/small')
            lost += r.content != b'hello\n'
            ports.add(r.extensions['network_stream'].get_extra_info('client_addr'))
        except httpx.HTTPError: lost += 1
print('httpx', MANY, lost, len(ports))
"""
GRPC_MANY = r"""
import grpc, ssl
pem = open(ssl.get_default_verify_paths().cafile or '/etc/ssl/certs/ca-certificates.crt', 'rb').read()
c = grpc.secure_channel('g.test:443', grpc.ssl_channel_credentials(pem), options=[('grpc.enable_http_proxy', 0)])
say, waiting, lost = c.unary_unary('/t.T/Say'), [], 0
def end(f):
    global lost
    try: lost += f.result() != b'x'
    except grpc.RpcError as e: lost += 1
for i in range(MANY):
    waiting.append(say.future(b'x', timeout=60))
    if len(waiting) == 40: end(waiting.pop(0))
for f in waiting: end(f)
print('grpc', MANY, lost, 1)
"""
MANY = 10400  # more than a connection has streams, and than it goes on with when it has said so


@test
def no_request_is_lost_when_a_connection_is_full():
    """Node has forty in flight at any time; the others, which ask one after the other or in Python, in `make soak`."""
    clients = [f"cat > n.js <<'E'\n{NODE_MANY}\nE\nenv -u https_proxy node n.js"]
    if os.environ.get("BRIG_SOAK"):
        clients += [CURL_MANY, *(f"env -u all_proxy python3 -c \"{code}\"" for code in (HTTPX_MANY, GRPC_MANY))]
    with Nghttpd("h2.test", tells=False) as w, Grpc("g.test") as g:
        script = "\n".join(f"{c.replace('MANY', str(MANY))}" for c in clients)
        r = behind(configure(w, g), "sh", "-c", script, timeout=600)
        print(r["stdout"], r["stderr"])
        told = {name: list(map(int, rest)) for name, *rest in map(str.split, r["stdout"].splitlines())}
        assert told.pop("node") == [MANY, 0, 2] and len(told) == len(clients) - 1, told
        assert told.pop("curl", [MANY, 200]) == [MANY, 200], told
        assert all(n == MANY and not lost for n, lost, _ in told.values()), told


HTTPX = r"""
import httpx
with httpx.Client(http2=True, verify=True) as c:
    r = [c.get('https://h2.test/small') for _ in range(3)] + [c.post('https://h2.test/small', content=b'z' * 100000)]
    print([(x.http_version, x.status_code, len(x.content)) for x in r])
"""


@test
def node_and_httpx():
    with Nghttpd("h2.test", "--trailer", "x-end: yes") as w:
        r = behind(configure(w), "sh", "-c", f"cat > n.js <<'E'\n{NODE}\nE\nenv -u https_proxy node n.js; env -u all_proxy python3 -c \"{HTTPX}\"")
        print(r)
        assert r["stdout"].splitlines() == ["done", str([("HTTP/2", 200, 6)] * 3 + [("HTTP/2", 200, 100000)])], r


@test
def every_stream_is_a_request_of_its_own():
    with Web("h1.test") as w:
        config = configure(w, allow=["GET h1.test/open/"])
        r = behind(config, "sh", "-c", "nghttp -nv https://h1.test/open/1 https://h1.test/closed https://h1.test/open/2 | grep -c ':status: 200'; nghttp -n -H ':method: DELETE' https://h1.test/open/1")
        print(r)
        assert r["stdout"].split()[0] == "2", r
        assert sorted(s[0] for s in w.seen) == ["GET /open/1 HTTP/1.1", "GET /open/2 HTTP/1.1"], w.seen
        assert [t for t, _ in door.denials(r)].count("h1.test:443") == 2, r["denials"]


VALUE = "q7ZtLm3Xv9Rb2Kc8Wd4Hn6Pf1Gs5Yj0TuEa"


@test
def a_credential_is_put_in_and_taken_out_of_each_stream():
    def say(host, p, stream, fields):
        given = dict(fields)["authorization"].encode()
        p.head(stream, ((":status", "200"), ("x-seen", given)), end=False)
        p.send(*[h2raw.frame(h2raw.DATA, 0, stream, bytes([c])) for c in b"it is " + given + b" indeed"])
        p.send(h2raw.frame(h2raw.HEADERS, 5, stream, h2raw.fields(("x-trail", given))))

    with Host("c.test", say) as c:
        config = configure(c, more={"credentials": {"TOKEN": {"host": "c.test"}}})
        r = brig("run", "--json", "--config", config, "--", "sh", "-c", 'for i in 1 2; do curl -siS --http2 -H "Authorization: Bearer $TOKEN" https://c.test/; done; '
                 'nghttp -v -H "authorization: Bearer $TOKEN" https://c.test/', env={"TOKEN": VALUE}).json
        print(r)
        assert [dict(f)["authorization"] for f in c.seen] == [f"Bearer {VALUE}"] * 3, c.seen
        assert VALUE not in r["output"] and r["stdout"].count("brig-") >= 8 and "x-trail: Bearer brig-" in r["stdout"], r["stdout"]


@test
def a_body_that_is_told_of_goes_whole_on_a_connection_that_is_there():
    """The second request finds the host's connection open, and what it says is told to the monitor before it is sent: nothing but the door itself has it sent then."""
    with Web("h1.test") as w:
        config = configure(w, more={"credentials": {"TOKEN": {"host": "h1.test"}}})
        send = "-sS --http2 -m 20 -o /dev/null -w '%{http_code} %{num_connects}\\n' -H Content-Type:application/json -H \"Authorization: Bearer $TOKEN\" https://h1.test/count"
        r = brig("run", "--json", "--config", config, "--", "sh", "-c", f"""printf '{{"a": "%070000d", "b": "TOKEN=%s"}}' 0 "$TOKEN" > body; curl {send} -d '{{}}' --next {send} --data-binary @body""", env={"TOKEN": VALUE}).json
        assert r["stdout"] == "200 1\n200 0\n", r


if __name__ == "__main__":
    sys.exit(main())
