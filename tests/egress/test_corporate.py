#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The door behind a proxy of the machine's own: Debian's tinyproxy, with HAProxy in front of it for TLS; what is reached without."""

import contextlib
import ctypes
import hashlib
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import Raw, Resolver, Web, behind, configure, context, denials, leaf, openssl, root  # noqa: E402
from harness import IS_ROOT, brig, main, scratch, test, wait_until, workspace  # noqa: E402

PASSWORD = "tell-nobody-of-it"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def listens(port):
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port)).close()
        return True
    return False


@contextlib.contextmanager
def program(port, *argv):
    with open(scratch() / pathlib.Path(argv[0]).name, "ab") as log, subprocess.Popen(argv, stdout=log, stderr=log) as p:
        try:
            wait_until(lambda: listens(port))
            yield
        finally:
            p.kill()


@contextlib.contextmanager
def company(*names, more=""):
    """tinyproxy, which wants a login, and HAProxy in front of it, whose certificate is for these names: (port, port of TLS, log)."""
    plain, secure, log = free_port(), free_port(), scratch() / "proxy.log"
    inner, outer = scratch() / "tinyproxy.conf", scratch() / "haproxy.conf"
    inner.write_text(f'Port {plain}\nListen 127.0.0.1\nTimeout 20\nLogFile "{log}"\nLogLevel Connect\nMaxClients 20\n{more}')
    both = scratch() / "both.pem"
    both.write_bytes(b"".join(p.read_bytes() for p in leaf(*names)))
    outer.write_text(f"defaults\n mode tcp\n timeout connect 20s\n timeout client 20s\n timeout server 20s\nfrontend f\n bind 127.0.0.1:{secure} ssl crt {both} alpn http/1.1\n"
                     f" default_backend b\nbackend b\n server t 127.0.0.1:{plain}\n")
    with program(plain, shutil.which("tinyproxy"), "-d", "-c", inner), program(secure, shutil.which("haproxy"), "-db", "-f", outer):
        yield plain, secure, log


def login(host="proxy.test"):
    return {"credentials": {"PROXY": {"host": host, "basic": "me", "from": {"env": "CORP"}}}}


BASIC = f"BasicAuth me {PASSWORD}\n"


@test
def a_proxy_over_tls_carries_http_1_and_2():
    here = {n: "127.0.0.1" for n in ("proxy.test", "far.test", "two.test", "plain.test")}
    from test_h2 import Nghttpd

    with Resolver(here), company("proxy.test", more=BASIC) as (_, port, log), Web("far.test") as web, Nghttpd("two.test") as two, Web() as plain:
        config = configure(allow=[f"far.test:{web.port}", f"two.test:{two.port}", f"plain.test:{plain.port}"], https_only=False,
                           upstream_proxy=f"https://proxy.test:{port}", upstream_login="PROXY", more=login())
        size = 1200000
        r = behind(config, "sh", "-c", f"curl -sS https://far.test:{web.port}/; curl -sS --http1.1 https://far.test:{web.port}/big/{size} | sha256sum; "
                   f"head -c {size} /dev/zero | curl -sS -T - https://far.test:{web.port}/up; "
                   f"curl -sS --http2 -w '%{{http_version}}\\n' https://two.test:{two.port}/small; curl -sS --http2 https://two.test:{two.port}/big | sha256sum; "
                   f"curl -sS http://plain.test:{plain.port}/", env={"CORP": PASSWORD})
        small, big, up, two_small, version, two_big, plainly = r["stdout"].splitlines()
        assert (small, two_small, version, plainly) == ("hello", "hello", "2", "hello") and up == str(size), r
        assert two_big.split()[0] == hashlib.sha256(b"x" * 3000000).hexdigest(), r
        assert big.split()[0] == hashlib.sha256(b"x" * size).hexdigest(), r
        assert "HTTP/2" in two.text() or "h2" in two.text(), two.text()[:400]
        assert {f"{n}.test:{p}" for n, p in (("far", web.port), ("two", two.port), ("plain", plain.port))} <= set(log.read_text().split()), log.read_text()
        assert PASSWORD not in r["output"] and PASSWORD not in brig("audit", "list", "--json").text
        # The controls: no login, and a wrong one. tinyproxy says 407 to the first, 401 to the second.
        for more, env, word in (({}, {}, "egress.upstream_login: NAME"), ({"upstream_login": "PROXY", "more": login()}, {"CORP": "another one"}, "upstream_proxy")):
            config = configure(allow=[f"far.test:{web.port}"], upstream_proxy=f"https://proxy.test:{port}", **more)
            done = brig("run", "--config", config, "--", "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"https://far.test:{web.port}/", env=env)
            assert done.text == "502" and word in done.errors, done


@test
def nothing_is_said_to_a_proxy_that_cannot_be_trusted():
    heard = []

    def note(self, s):
        heard.append(self.head(s))
        s.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

    def plain(self, s):
        heard.append(s.recv(5)[:1])  # of a ClientHello
        s.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    table = {n: "127.0.0.1" for n in ("proxy.test", "far.test")}
    with Resolver(table), Raw("evil.test", note) as other, Raw("proxy.test", note) as true, Raw("x", plain, tls=False) as speaks_plain, Raw("proxy.test", note) as old:
        old.tls = context("proxy.test", days=-1)

        def ask(url, env=None, **more):
            more = {"upstream_login": "PROXY", "more": login(), **more}
            config = configure(allow=["far.test"], upstream_proxy=url, **more)
            return brig("run", "--config", config, "--", "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "https://far.test/", env={"CORP": PASSWORD})

        for url, more, word in ((f"https://proxy.test:{other.port}", {}, "cannot be trusted: hostname mismatch"), (f"https://proxy.test:{old.port}", {}, "cannot be trusted: certificate has expired"),
                                (f"https://127.0.0.1:{true.port}", {}, "cannot be trusted: IP address mismatch"), (f"https://proxy.test:{true.port}", {"roots": []}, "--set egress.roots=FILE"),
                                (f"https://proxy.test:{speaks_plain.port}", {}, "TLS handshake with egress.upstream_proxy failed")):
            done = ask(url, **more)
            assert done.text == "502" and word in done.errors, (url, done)
            assert set(heard) <= {b"\x16"}, heard
        assert heard == [b"\x16"], heard
        # The control: one that can be, which then hears all of it; and what is no proxy of TLS although it is spoken to in the open.
        ask(f"https://proxy.test:{true.port}")
        assert len(heard) == 2 and heard[1].startswith(b"CONNECT far.test:443 ") and b"Proxy-Authorization: Basic" in heard[1], heard
        done = ask(f"http://proxy.test:{true.port}")
        assert done.text == "502" and "is it a proxy of https://" in done.errors, done


def person(name, kind=("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")):
    """A certificate that a server may ask for, of an authority between it and the root of tests, and its key: one file, as brig takes it."""
    d = root()
    if not (d / "staff.pem").exists():
        (d / "staff.ext").write_text("basicConstraints=critical,CA:TRUE")
        openssl("req", *kind, "-nodes", "-keyout", d / "staff.key", "-out", d / "staff.csr", "-subj", "/CN=staff")
        openssl("x509", "-req", "-in", d / "staff.csr", "-CA", d / "ca.pem", "-CAkey", d / "ca.key", "-CAcreateserial", "-out", d / "staff.pem", "-days", 30, "-extfile", d / "staff.ext")
    openssl("req", *kind, "-nodes", "-keyout", d / f"{name}.key", "-out", d / f"{name}.csr", "-subj", f"/CN={name}")
    openssl("x509", "-req", "-in", d / f"{name}.csr", "-CA", d / "staff.pem", "-CAkey", d / "staff.key", "-CAcreateserial", "-out", d / f"{name}.pem", "-days", 30)
    whole = scratch() / f"{name}.both"
    whole.write_bytes(b"".join((d / f).read_bytes() for f in (f"{name}.pem", "staff.pem", f"{name}.key")))
    whole.chmod(0o600)
    return whole


class Asking(Web):
    """A server that wants a certificate, and notes whose it got."""

    def __init__(self, *names, most=None):
        self.who, tls = [], context(*names)
        tls.load_verify_locations(root() / "ca.pem")
        tls.verify_mode = ssl.CERT_REQUIRED
        if most:
            tls.maximum_version = most
        super().__init__(*names, tls=tls)

    def finish_request(self, request, client_address):
        request.settimeout(20)
        with contextlib.suppress(OSError):
            s = self.tls.wrap_socket(request, server_side=True)
            self.who.append(dict(x[0] for x in s.getpeercert()["subject"])["commonName"])
            self.RequestHandlerClass(s, client_address, self)


@test
def a_certificate_of_the_users_is_shown_where_it_was_named():
    ec, rsa = person("ann"), person("rob", ("-newkey", "rsa:2048"))
    ask = "for h in ann rob no old; do curl -sS -o /dev/null -w \"$h %{http_code}\\n\" https://$h.test/; done"
    with Asking("ann.test") as ann, Asking("rob.test") as rob, Asking("no.test") as no, Asking("old.test", most=ssl.TLSVersion.TLSv1_2) as old:
        servers = (ann, rob, no, old)
        config = configure(*servers, client_certs=[f"ann.test {ec}", f"rob.test {rsa}", f"old.test {ec}"])
        done = brig("run", "--json", "--config", config, "--", "sh", "-c", ask + "; cat /proc/*/environ; env; cat /etc/brig/*")
        r = done.json
        got = dict(line.split() for line in r["stdout"].splitlines()[:4])
        assert got["ann"] == got["rob"] == "200" and got["no"] != "200" and got["old"] != "200", (got, r)
        assert (ann.who, rob.who, no.who, old.who) == (["ann"], ["rob"], [], []), (ann.who, rob.who, no.who, old.who)
        assert "needs TLS 1.3" in done.errors and "PRIVATE KEY" not in r["output"], done
        # The control: nothing is shown that was not named.
        r = behind(configure(*servers), "sh", "-c", ask)
        assert " 200" not in r["stdout"] and ann.who == ["ann"], (r, ann.who)
        # A file that others write, one without a key, another's key, a key with a password, no file, no host; a project's own wish.
        bare, mixed, secret, odd = (scratch() / n for n in ("bare", "mixed", "secret", "odd"))
        bare.write_bytes((root() / "ann.pem").read_bytes())
        mixed.write_bytes((root() / "ann.pem").read_bytes() + (root() / "staff.key").read_bytes())
        openssl("pkey", "-in", root() / "ann.key", "-aes256", "-passout", "pass:x", "-out", root() / "ann.secret")
        secret.write_bytes((root() / "ann.pem").read_bytes() + (root() / "ann.secret").read_bytes())
        odd.write_bytes(ec.read_bytes())
        for f in (bare, mixed, secret, odd):
            f.chmod(0o622 if f == odd else 0o600)
        for bad, word in ((f"ann.test {bare}", "no private key"), (f"ann.test {mixed}", "not that of its certificate"), (f"ann.test {secret}", "has a password"), (f"ann.test {odd}", "written by others"),
                          (f"ann.test {scratch()}/none", "cannot open"), (f"*.test {ec}", "not a host"), ("ann.test me.pem", "path of a file"), ("ann.test", "path of a file")):
            done = brig("run", "--config", configure(ann, client_certs=[bad]), "--", "sh", "-c", ask + "; sleep 5")  # what the worker finds ends it
            assert done.status == 125 and word in done.errors and ann.who == ["ann"], (bad, done.status, done.errors)
        (workspace() / ".brig.yaml").write_text(f"brig: 1\negress: {{client_certs: ['ann.test {ec}']}}\n")
        done = brig("run", "--config", configure(*servers), "--", "sh", "-c", ask)
        assert " 200" not in done.text and ann.who == ["ann"] and "client_certs" in done.errors, (done, ann.who)


@test
def the_proxy_may_ask_for_a_certificate():
    ec = person("ann")

    def hear(self, s):
        self.head(s)
        s.sendall(b"HTTP/1.1 403 No\r\n\r\n")

    with Resolver({"proxy.test": "127.0.0.1"}), Raw("proxy.test", hear) as proxy:
        proxy.tls.load_verify_locations(root() / "ca.pem")
        proxy.tls.verify_mode = ssl.CERT_REQUIRED
        for certs, heads in (([], 0), ([f"far.test {ec}"], 0), ([f"proxy.test {ec}"], 1)):
            behind(configure(allow=["far.test"], upstream_proxy=f"https://proxy.test:{proxy.port}", client_certs=certs), "curl", "-s", "https://far.test/")
            assert len(proxy.seen) == heads, (certs, proxy.seen)


@contextlib.contextmanager
def another_network():
    """This test's own network, and a neighbour's on 10.99.0.0/24: enter() makes sockets there."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(0x40000000) == 0
    with subprocess.Popen(["unshare", "-n", "sleep", "60"]) as far, open("/proc/self/ns/net") as near:
        wait_until(lambda: os.stat(f"/proc/{far.pid}/ns/net").st_ino != os.fstat(near.fileno()).st_ino)
        ip = "ip link set lo up; ip link add v0 type veth peer name v1 netns {0}; ip addr add 10.99.0.1/24 dev v0; ip link set v0 up; " \
             "nsenter -t {0} -n sh -c 'ip addr add 10.99.0.2/24 dev v1; ip addr add 10.99.1.2/32 dev v1; ip link set v1 up; ip link set lo up'; ip route add 10.99.1.0/24 via 10.99.0.2".format(far.pid)
        subprocess.run(["sh", "-ec", ip], check=True)

        @contextlib.contextmanager
        def enter():
            with open(f"/proc/{far.pid}/ns/net") as there:
                assert libc.setns(there.fileno(), 0) == 0
                try:
                    yield
                finally:
                    assert libc.setns(near.fileno(), 0) == 0

        try:
            yield enter
        finally:
            far.kill()


class Away(Web):
    def __init__(self, address, *names):
        self.at = address
        super().__init__(*names)

    def server_bind(self):
        self.server_address = (self.at, 443)
        super().server_bind()


@test
def names_are_reached_without_it_and_only_as_the_rules_say():
    if not IS_ROOT:
        return  # no network of one's own
    with another_network() as enter:
        with enter():
            web, outside = Away("10.99.0.2", "wiki.corp.test", "a.corp.test", "far.test"), Away("10.99.1.2", "b.corp.test")
        names = {"wiki.corp.test": "10.99.0.2", "a.corp.test": "10.99.0.2", "b.corp.test": "10.99.1.2", "own.corp.test": "10.99.0.1", "meta.corp.test": "169.254.169.254", "far.test": "10.99.0.2",
                 "loop.corp.test": "127.0.0.1", "hidden.corp.test": "10.99.0.2", "corp.test": "10.99.0.2"}

        def answer(self, s):
            self.head(s)
            s.sendall(b"HTTP/1.1 403 No\r\n\r\n")

        with web, outside, Resolver(names), Raw("x", answer, tls=False) as proxy:
            asked = [n for n in names if n != "hidden.corp.test"]

            def run(**more):
                proxy.seen.clear()
                config = configure(allow=asked, upstream_proxy=f"http://127.0.0.1:{proxy.port}", **more)
                r = behind(config, "sh", "-c", "for h in " + " ".join(names) + "; do curl -s -o /dev/null -w \"$h %{http_code}\\n\" https://$h/; done", timeout=60)
                return dict(line.split() for line in r["stdout"].splitlines()), {h.split()[1].decode() for h in proxy.seen}, denials(r)

            got, through, _ = run()
            assert set(got.values()) <= {"502", "000"} and through == {f"{n}:443" for n in asked}, (got, through)  # the control: all go to it
            got, through, no = run(direct=["wiki.corp.test", "*.corp.test", "10.99.0.0/24"])
            assert got["wiki.corp.test"] == got["a.corp.test"] == "200", got
            assert through == {"far.test:443", "corp.test:443"}, through  # neither a suffix nor an apex, and an address opens no name
            assert {t for t, why in no if why == "private-address"} == {"b.corp.test:443", "own.corp.test:443", "meta.corp.test:443", "loop.corp.test:443"}, no
            assert ("hidden.corp.test:443", "not-allowed") in no and [line for line, _, _ in outside.seen] == [], (no, outside.seen)
            got, through, no = run(direct=["wiki.corp.test"])
            assert got["wiki.corp.test"] == "403" and ("wiki.corp.test:443", "private-address") in no and "wiki.corp.test:443" not in through, (got, through, no)


@test
def what_is_no_name_and_no_private_prefix_is_refused():
    for bad, word in ((".corp.test", "*.NAME is what lies below"), ("*", "leave egress.upstream_proxy out"), ("10.1.2.3", "rules know names alone"), ("10.0.0.1/8", "beyond the prefix"), ("0.0.0.0/0", "private"),
                      ("8.0.0.0/7", "private"), ("10.0.0.0/7", "private"), ("169.254.0.0/16", "private"), ("127.0.0.0/8", "private"), ("10.0.0.0/33", "prefix"), ("fe80::/10", "private"), ("a.test:8080", "no name"),
                      ("10.0.0.0/08", "prefix"), ("a..test", "no name"), ("x/8", "prefix")):
        done = brig("run", "--config", configure(allow=["far.test"], direct=[bad]), "--", "true")
        assert done.status == 125 and "egress.direct" in done.errors and word in done.errors, (bad, done)
    assert brig("run", "--config", configure(allow=["far.test"], direct=["a.test", "*.b.test", "10.0.0.0/8", "100.64.0.0/10", "fd00::/8", "192.168.7.9/32"]), "--", "true").status == 0


@test
def the_proxy_of_the_environment_is_named_when_a_host_is_not_reached():
    def ask(**env):
        return brig("exec", "--allow", "dead.example", "--set", "egress.resolve=dead.example=127.0.0.1:1", "curl -sS -m 20 https://dead.example/", env=env).errors

    told = ask(HTTPS_PROXY="http://me:hush@proxy.example:3128/")
    assert "--set egress.upstream_proxy=http://proxy.example:3128 (its login: egress.upstream_login)" in told and "hush" not in told, told
    assert "egress.upstream_proxy=https://proxy.example:8443" in ask(https_proxy="https://proxy.example:8443")
    for odd in ("socks5://proxy.example:1080", "http://me:hush@[::1", "hush@@", "proxy.example", "http://a@b://c:1"):
        told = ask(ALL_PROXY=odd)
        assert "ALL_PROXY names a proxy" in told and "=http://HOST:PORT" in told and "hush" not in told, (odd, told)


@test
def doctor_tries_it():
    def row(config, **env):
        lines = brig("doctor", "--config", config, env=env).text.splitlines()
        at = next(i for i, line in enumerate(lines) if "] upstream_proxy: " in line)
        return "\n".join(lines[at:at + 2])

    with Resolver({"proxy.test": "127.0.0.1", "far.test": "127.0.0.1"}), Web("far.test") as web, Raw("x", lambda self, s: answer(self, s), tls=False) as proxy:
        says = [b"HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic\r\n\r\n"]

        def answer(self, s):
            self.head(s)
            s.sendall(says[0])
            if b" 200 " in says[0]:
                far = socket.create_connection(("127.0.0.1", web.port))
                import threading
                threading.Thread(target=lambda: [s.sendall(d) for d in iter(lambda: far.recv(65536), b"")], daemon=True).start()
                with contextlib.suppress(OSError):
                    for d in iter(lambda: s.recv(65536), b""):
                        far.sendall(d)

        config = configure(allow=["far.test"], upstream_proxy=f"http://proxy.test:{proxy.port}")
        told = row(config)
        assert told.startswith("[fail]") and "407" in told and "egress.upstream_login: NAME" in told, told
        says[0] = b"HTTP/1.1 200 OK\r\n\r\n"
        told = row(config)
        assert told.startswith("[pass]") and "lets far.test through" in told, told
        assert b"CONNECT far.test:443" in proxy.seen[-1] and web.seen[-1][0] == "HEAD / HTTP/1.1", (proxy.seen, web.seen)
        dead = free_port()
        told = row(configure(allow=["far.test"], upstream_proxy=f"http://proxy.test:{dead}"))
        assert told.startswith("[fail]") and "could not be reached" in told, told
        plain = configure(allow=["far.test"])
        assert row(plain).startswith("[skip]"), row(plain)
        told = row(plain, HTTPS_PROXY="http://proxy.test:3128")
        assert told.startswith("[warn]") and "egress.upstream_proxy=http://proxy.test:3128" in told, told
        assert root().exists()


if __name__ == "__main__":
    sys.exit(main())
