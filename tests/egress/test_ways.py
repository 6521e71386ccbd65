#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The ways through the door that somebody has to open on purpose: plain HTTP, other ports, pass-through, a service of the host."""

import base64
import contextlib
import pathlib
import socket
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import ADDRESS, PROXY, Raw, Web, behind, configure, denials, on_every_door, python, root  # noqa: E402
from harness import brig, main, test  # noqa: E402

NO_PROXY = ("env", "-u", "HTTPS_PROXY", "-u", "https_proxy", "-u", "HTTP_PROXY", "-u", "http_proxy", "-u", "ALL_PROXY", "-u", "all_proxy")


@test
def plain_http_to_other_machines_is_refused():
    web = Web()
    web.names = ("plain.test",)
    with web:
        far = {"far.test": "192.0.2.1"}
        r = behind(configure(allow=["far.test:80"], resolve=far), "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "http://far.test/")
        assert r["stdout"] == "403" and denials(r) == [("far.test:80", "not-allowed")], r
        config = configure(web, allow=["plain.test:80"])  # pinned to loopback: not out of this machine
        assert behind(config, "curl", "-sS", "http://plain.test/")["stdout"] == "hello\n"  # absolute form, at the proxy
        r = behind(config, "curl", "-sS", "http://192.0.2.1:8080/")
        assert "is an address, not a name" in r["stdout"] and denials(r) == [("192.0.2.1:8080", "not-allowed")], r
        assert behind(config, *NO_PROXY, "curl", "-sS", "http://plain.test/")["stdout"] == "hello\n"
        r = behind(config, "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "http://other.test/")
        assert r["stdout"] == "403" and [line for line, _, _ in web.seen] == ["GET / HTTP/1.1"] * 2, web.seen
        code = f"""
import socket
def ask(text):
    s = socket.create_connection(({ADDRESS!r}, {PROXY}), timeout=10); s.sendall(text); return s.recv(4096).split(b'\\r\\n')[0].decode()
for line, host in (('GET /', 'plain.test'), ('GET http://plain.test/', 'other.test'), ('GET https://plain.test/', 'plain.test'), ('GET http://u@plain.test/', 'plain.test'),
                   ('GET http://plain.test:8080/', 'plain.test:8080'), ('GET ftp://plain.test/', 'plain.test'), ('GET http://plain.test/', 'plain.test')):
    print(ask(f'{{line}} HTTP/1.1\\r\\nHost: {{host}}\\r\\nConnection: close\\r\\n\\r\\n'.encode()).split()[1])
"""
        answers = python(config, code)["stdout"].split()
        assert answers[-1] == "200" and all(a in ("400", "403") for a in answers[:-1]), answers
        assert len(web.seen) == 3


@on_every_door
def a_port_is_part_of_a_rule():
    with Web("api.test") as web:
        config = configure(web, allow=["api.test:8443"])
        assert behind(config, *NO_PROXY, "curl", "-sS", "https://api.test:8443/")["stdout"] == "hello\n"
        assert behind(config, "curl", "-sS", "https://api.test:8443/")["stdout"] == "hello\n"
        r = behind(config, *NO_PROXY, "curl", "-sS", "https://api.test/")
        assert denials(r) == [("api.test:443", "not-allowed")], r
        assert dict(web.seen[0][1])["Host"] == "api.test:8443"


@test
def rules_may_name_methods_and_paths_and_denial_is_stronger():
    with Web("api.test") as web:
        config = configure(web, allow=["GET api.test/v1/"], deny=["api.test/v1/secret"])
        r = behind(config, "sh", "-c", "for u in /v1/a /v2/a /v1/secret /v1/../v2 /v1/%2e%2e/v2 '/v1/a?x=/../' /v1/secret. /v1/secret%2e /v1/secret%20 /v1/secret../b; do "
                   "curl -s --path-as-is -o /dev/null -w '%{http_code}\\n' https://api.test$u; done; "
                   "curl -s -o /dev/null -w '%{http_code}\\n' -d x https://api.test/v1/a")  # a server on Windows drops dots and blanks at an end
        codes = r["stdout"].split()
        assert codes[0] == codes[5] == "200" and all(c in ("400", "403") for c in codes[1:5] + codes[6:]), codes
        assert [line.split()[1] for line, _, _ in web.seen] == ["/v1/a", "/v1/a?x=/../"], web.seen


@test
def a_name_passed_through_keeps_its_own_certificate():
    with Web("pin.test") as web, Web("other.test") as other:
        config = configure(web, other, passthrough=["pin.test"])
        code = f"""
import socket, ssl, time
def issuer(host, sni=None):
    s = socket.create_connection((host, 443), timeout=10)
    c = ssl.create_default_context(cadata={(root() / 'ca.pem').read_text()!r})
    try:
        t = c.wrap_socket(s, server_hostname=sni or host)
    except (ssl.SSLError, OSError) as e:
        return type(e).__name__
    t.sendall(f'GET / HTTP/1.1\\r\\nHost: {{host}}\\r\\nConnection: close\\r\\n\\r\\n'.encode())
    who = dict(x[0] for x in t.getpeercert()['issuer'])['commonName']
    data = b''
    while d := t.recv(4096): data += d
    return who + ' ' + data.split(b'\\r\\n')[0].decode()
print(issuer('pin.test')); print(issuer('other.test')); print(issuer('pin.test', 'other.test'))
"""
        lines = python(config, code)["stdout"].splitlines()
        assert lines[0] == "a root for tests HTTP/1.1 200 OK" and lines[1] == "SSLCertVerificationError", lines
        assert "Error" in lines[2] and len(web.seen) == 1 and not other.seen, lines


@on_every_door
def one_service_of_the_host_can_be_opened_and_no_other():
    def echo(self, s):
        s.sendall(b"hi\n" + s.recv(100))

    with Raw("x.test", echo, tls=False) as service, Raw("y.test", echo, tls=False) as closed:
        config = configure(allow=[f"api.test:{closed.port}"], host_service=service.port)
        code = f"""
import socket
def talk(port):
    s = socket.create_connection(("host.brig.internal", port), timeout=10); s.sendall(b"raw bytes\\r\\n\\r\\n")
    data = b""
    while d := s.recv(100): data += d
    return data
print(talk({service.port})); print(talk({closed.port})[:12])
"""
        out = python(config, code)["stdout"].splitlines()
        assert out[0] == r"b'hi\nraw bytes\r\n\r\n'" and out[1] == "b'HTTP/1.1 400'", out
        assert not closed.seen


def chain(names):
    """A proxy as companies have them: CONNECT to the servers it knows, 403 for others. Notes the heads it got."""
    def relay(a, b):
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                b.sendall(data)
        with contextlib.suppress(OSError):
            b.shutdown(socket.SHUT_WR)

    def answer(self, s):
        target = self.head(s).split(b" ")[1].decode()
        if target == "odd.test:443":
            s.sendall(b"220 this is no proxy\r\n")
        elif target not in names:
            s.sendall(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")
        else:
            with socket.create_connection(("127.0.0.1", names[target])) as up:
                s.sendall(b"HTTP/1.1 200 Established\r\nVia: 1.1 it\r\n\r\n")
                back = threading.Thread(target=relay, args=(up, s), daemon=True)
                back.start()
                relay(s, up)
                back.join(20)

    return Raw("unused.test", answer, tls=False)


@test
def a_machine_behind_a_proxy_of_its_own_uses_it():
    with Web("far.test", "pass.test", "direct.test") as web, chain({"far.test:443": web.port, "pass.test:443": web.port}) as proxy:
        def config(**more):
            return configure(allow=["far.test", "pass.test", "direct.test", "unknown.test", "odd.test"], passthrough=["pass.test"],
                             resolve={"direct.test": f"127.0.0.1:{web.port}"}, **more)

        way = config(upstream_proxy=f"http://127.0.0.1:{proxy.port}/")
        r = behind(way, "sh", "-c", "for h in far far direct unknown odd closed; do curl -sS -o /dev/null -w '%{http_code}\\n' https://$h.test/; done; "
                   f"curl -sS --cacert /dev/stdin https://pass.test/ <<'E'\n{(root() / 'ca.pem').read_text()}E\n")
        assert r["stdout"].split() == ["200", "200", "200", "502", "502", "000", "hello"], r
        heads = [h.split(b"\r\n")[0].decode() for h in proxy.seen]
        assert heads == [f"CONNECT {n}.test:443 HTTP/1.1" for n in ("far", "unknown", "odd", "pass")], heads  # the pool serves the second; pins go straight
        assert all(b"Host: " in h and h.count(b"\r\n") == 3 for h in proxy.seen), proxy.seen  # and nothing of the guest's
        assert web.connections == 3, web.connections
        for bad in ("ftp://127.0.0.1:1", "http://127.0.0.1", "http://u:p@127.0.0.1:1", "127.0.0.1:0", "http://-x:1"):
            r = behind(config(upstream_proxy=bad), "true")
            assert r["exit_code"] == 125 and "upstream_proxy" in r["error"]["what"] and "u:p" not in str(r), (bad, r)


@test
def the_login_of_that_proxy_is_the_doors_alone():
    password, wants = "short:pw", [b'Basic realm="corp"']

    def answer(self, s):
        ask = self.head(s)
        wanted = b"Proxy-Authorization: Basic " + base64.b64encode(b"me:" + password.encode()) + b"\r\n"
        if wanted not in ask:
            s.sendall(b"HTTP/1.1 407 Who are you\r\n" + b"".join(b"Proxy-Authenticate: %s\r\n" % w for w in wants) + b"\r\n")
            return
        s.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        with socket.create_connection(("127.0.0.1", web.port)) as far:
            back = threading.Thread(target=lambda: [s.sendall(d) for d in iter(lambda: far.recv(65536), b"")], daemon=True)
            back.start()
            with contextlib.suppress(OSError):
                while data := s.recv(65536):
                    far.sendall(data)
            far.shutdown(socket.SHUT_WR)
            back.join(20)

    look = "curl -sS -o /dev/null -w '%{http_code} ' https://far.test/; curl -s https://far.test/fields; env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'"
    with Web("far.test") as web, Raw("unused.test", answer, tls=False) as proxy:
        def run(given=password, login="PROXY", **more):
            more = {"credentials": {"PROXY": {"host": "proxy.test", "basic": "me", "from": {"env": "CORP"}}}, **more}
            config = configure(allow=["far.test"], upstream_proxy=f"http://127.0.0.1:{proxy.port}", **({"upstream_login": login} if login else {}), more=more)
            return brig("run", "--json", "--config", config, "--", "sh", "-c", look, env={"CORP": given}).json

        r = run()
        assert r["stdout"].startswith("200 ") and web.connections == 1, r
        assert password not in r["output"] and "PROXY=" not in r["stdout"].replace("_PROXY=", "") and base64.b64encode(b"me:" + password.encode()).decode() not in r["output"], r
        assert password.encode() not in str(web.seen).encode() and "Proxy-Authorization" not in str(web.seen), web.seen
        assert password not in brig("audit", "list", "--json").text
        # The controls: without it, with another one, where only others than Basic are known, and where a command is to have it.
        for more, word in (({"login": None, "credentials": {}}, "wants a login"), ({"given": "wrong"}, "does not take egress.upstream_login")):
            r = run(**more)
            assert r["stdout"].startswith("502 ") and word in str(r), (more, r)
        wants[:] = [b"NTLM", b"Negotiate"]
        assert "NTLM" in str(run(given="wrong"))
        for more, word in (({"use_credentials": ["PROXY"]}, "no command's"), ({"login": "OTHER"}, "is no credential"), ({"credentials": {"PROXY": {"host": "proxy.test"}}}, "not the password"),
                           ({"credentials": {"PROXY": {"host": "proxy.test", "basic": "me", "from": {"env": "MISSING"}}}}, "not set")):
            r = run(**more)
            assert r["exit_code"] == 125 and word in str(r["error"]), (more, r)
        config = configure(allow=["far.test"], upstream_proxy="http://evil.test:3128", upstream_login="PROXY", more={"credentials": {"PROXY": {"host": "proxy.test", "basic": "me", "from": {"env": "CORP"}}}})
        r = brig("run", "--json", "--config", config, "--", "true", env={"CORP": password}).json
        assert r["exit_code"] == 125 and "not for the host" in r["error"]["what"], r


@test
def a_wildcard_covers_what_lies_below_and_not_the_apex():
    with Web("a.api.test", "b.a.api.test", "api.test", "aapi.test") as web:
        config = configure(web, allow=["*.api.test"])
        r = behind(config, "sh", "-c", "for h in a.api.test b.a.api.test api.test aapi.test A.API.TEST. a.api.test.closed.test; do "
                   "curl -s -o /dev/null -w '%{http_code}\\n' https://$h/; done")
        assert r["stdout"].split()[:2] == ["200", "200"] and r["stdout"].split()[2:4] == ["000", "000"], r
        assert r["stdout"].split()[5] == "000" and len(web.seen) >= 2, r


if __name__ == "__main__":
    sys.exit(main())
