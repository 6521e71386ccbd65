#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that people use, behind the door: what is allowed works without a setting, what is not says why."""

import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import ADDRESS, PROXY, GitHandler, Handler, Web, behind, configure, denials, leaf, npm_registry, on_every_door, python  # noqa: E402
from harness import brig, main, scratch, start_brig, test  # noqa: E402

NO_PROXY = ("env", "-u", "HTTPS_PROXY", "-u", "https_proxy", "-u", "HTTP_PROXY", "-u", "http_proxy", "-u", "ALL_PROXY", "-u",
            "all_proxy")
FETCH = "fetch(process.argv[1]).then(async r => console.log(r.status, await r.text())).catch(e => console.log(e.cause || e))"


@on_every_door(all_roots=True)
def curl_reaches_an_allowed_host_by_proxy_and_without():
    with Web("api.test") as web:
        config = configure(web)
        assert behind(config, "curl", "-sS", "https://api.test/")["stdout"] == "hello\n"
        assert behind(config, *NO_PROXY, "curl", "-sS", "https://api.test/")["stdout"] == "hello\n"
        assert behind(config, "curl", "-sS", "-x", f"socks5h://{ADDRESS}:{PROXY}", "https://api.test/")["stdout"] == "hello\n"
        assert len(web.seen) == 3


@on_every_door
def wget_openssl_and_node_need_no_setting():
    with Web("api.test") as web:
        config = configure(web)
        assert behind(config, "wget", "-qO-", "https://api.test/")["stdout"] == "hello\n"
        assert behind(config, *NO_PROXY, "wget", "-qO-", "https://api.test/")["stdout"] == "hello\n"
        assert behind(config, *NO_PROXY, "node", "-e", FETCH, "https://api.test/")["stdout"] == "200 hello\n\n"
        r = behind(config, "sh", "-c", "(printf 'GET / HTTP/1.1\\r\\nHost: api.test\\r\\nConnection: close\\r\\n\\r\\n'; sleep 1) | "
                   "openssl s_client -quiet -verify_return_error -connect api.test:443 -servername api.test 2>/dev/null")
        assert r["stdout"].startswith("HTTP/1.1 200 ") and r["stdout"].endswith("hello\n"), r
        assert len(web.seen) == 4


@test
def connect_needs_no_host_field_and_believes_none_that_differs():
    code = r"""
import socket, sys
def ask(name, text):
    s = socket.create_connection(('ADDRESS', PROXY), timeout=10)
    s.sendall(text.replace('|', '\r\n').encode() + b'\r\n\r\n')
    print(name, s.recv(65536).split()[1].decode())
for name, text in CASES:
    ask(name, text)
"""
    good = ["HTTP/1.0", "HTTP/1.1", "HTTP/1.0|User-Agent: x", "HTTP/1.1|Host: api.test:443", "HTTP/1.1|Host: API.Test", "HTTP/1.0|Host: api.test."]
    bad = ["HTTP/1.1|Host: closed.test", "HTTP/1.1|Host: api.test:444", "HTTP/1.1|Host:", "HTTP/1.1|Host: api.test|Host: api.test", "HTTP/1.0|Host: api.test.evil.test",
           "HTTP/1.1|Host: 127.0.0.1", "HTTP/1.1|Host: user@api.test"]
    cases = [("200", f"CONNECT api.test:443 {x}") for x in good] + [("400", f"CONNECT api.test:443 {x}") for x in bad]
    cases += [("403", "CONNECT closed.test:443 HTTP/1.0"), ("403", "CONNECT closed.test:443 HTTP/1.0|Host: closed.test"), ("400", "GET http://api.test/ HTTP/1.0"), ("400", "CONNECT api.test HTTP/1.0")]
    with Web("api.test") as web:
        code = code.replace("ADDRESS", ADDRESS).replace("PROXY", str(PROXY)).replace("CASES", repr(cases))
        r = behind(configure(web), "python3", "-c", code)
        assert [line.split()[1] for line in r["stdout"].splitlines()] == [want for want, _ in cases], (r["stdout"], r["stderr"], cases)


@test
def a_request_over_the_rate_waits_for_its_turn():
    code = r"""
import select, socket, ssl
c = ssl.create_default_context()
def open():
    return c.wrap_socket(socket.create_connection(('api.test', 443), timeout=30), server_hostname='api.test')
def ask(s): s.sendall(b'GET / HTTP/1.1\r\nHost: api.test\r\n\r\n')
s, told = open(), []
for i in range(62):
    ask(s)
    data = b''
    while not data.endswith(b'hello\n'): data += s.recv(4096)
    told.append(data.split()[1])
print(len(told), set(told))
many, told = [open() for _ in range(20)], []
for x in many: ask(x)
while len(told) < 9 and (ready := select.select(many, [], [], 20)[0]):
    for x in ready:
        told.append(x.recv(4096).split()[1]); many.remove(x)
print(told.count(b'429') >= 8)
"""
    with Web("api.test") as web:
        r = behind(configure(web, rate={"domain": 60}), *NO_PROXY, "python3", "-c", code)
        assert r["stdout"].splitlines() == ["62 {b'200'}", "True"], (r["stdout"], r["stderr"])
        assert {reason for _, reason in denials(r)} == {"limit"} and 62 <= len(web.seen) <= 74, (r["denials"], len(web.seen))


@on_every_door
def python_sees_why_a_host_is_closed():
    with Web("api.test") as web, Web("closed.test") as closed:
        config = configure(web, closed, allow=["api.test"])
        r = python(config, """
import json, urllib.request, urllib.error
print(urllib.request.urlopen("https://api.test/").read().decode(), end="")
try:
    urllib.request.urlopen("https://closed.test/")
except urllib.error.HTTPError as e:
    print(e.code, e.reason, e.headers["brig-reason"], json.load(e)["hint"])
""")
        assert r["stdout"] == "hello\n403 Host not in allowlist: closed.test not-allowed --allow closed.test\n", r
        assert denials(r) == [("closed.test:443", "not-allowed")]
        assert r["egress"]["allowed"] == 1 and r["egress"]["denied"] == 1
        assert closed.connections == 0


@test
def curl_sees_why_a_host_is_closed():
    r = behind(configure(allow=["api.test"]), *NO_PROXY, "curl", "-sS", "https://closed.test/")
    said = json.loads(r["stdout"])
    assert said["what"] == "Host not in allowlist: closed.test" and said["error"] == f"{said['what']}; --allow closed.test", r  # npm and its kin print `error`
    r = behind(configure(allow=["api.test"]), "curl", "-sS", "https://closed.test/")
    assert "403" in r["stderr"] and denials(r) == [("closed.test:443", "not-allowed")], r


@on_every_door
def the_flag_allow_opens_a_host_and_an_empty_list_none():
    with Web("api.test") as web:
        config = configure(web, allow=[])
        assert denials(behind(config, "curl", "-sS", "https://api.test/")) == [("api.test:443", "not-allowed")]
        r = brig("run", "--config", config, "--allow", "api.test", "--", "curl", "-sS", "https://api.test/")
        assert r.text == "hello\n", r.errors
    r = brig("run", "--json", "--allow", "api.test", "--", "cat", "/etc/resolv.conf")
    assert r.json["isolation"]["network"] == "proxy" and "nameserver" in r.json["stdout"]
    r = brig("run", "--network", "none", "--allow", "api.test", "--", "true")
    assert r.status == 125 and "--network proxy" in r.errors, r.errors


@on_every_door
def git_clones_fetches_and_pushes():
    repo = scratch() / "one.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", repo], check=True)
    subprocess.run(["git", "-C", repo, "config", "http.receivepack", "true"], check=True)
    with Web("git.test", handler=GitHandler) as web:
        config = configure(web)
        r = behind(config, "sh", "-ec", """
git config --global user.name me; git config --global user.email me@example.org
cd /tmp; git clone -q https://git.test/one.git; cd one
head -c 3000000 /dev/urandom > big; git add big; git commit -qm one; git push -q origin HEAD:main
cd /tmp; git clone -q https://git.test/one.git two; cmp one/big two/big && echo same; cd two; git fetch -q && echo fetched""")
        assert r["stdout"] == "same\nfetched\n", r
        assert any("git-receive-pack" in line for line, _, _ in web.seen)


@test
def npm_installs_from_a_registry():
    with npm_registry() as web:
        r = behind(configure(web), "sh", "-c", "cd /tmp && npm install --no-audit --no-fund --registry https://npm.test "
                   "brig-sample >&2 && cat node_modules/brig-sample/package.json", timeout=60)
        assert "brig-sample" in r["stdout"], r


@test
def nginx_serves_large_files_and_many_requests_on_one_connection():
    d = scratch() / "nginx"
    (d / "www").mkdir(parents=True)
    (d / "www/big").write_bytes(os.urandom(1 << 20) * 16)
    cert, key = leaf("nginx.test")
    with Web() as spare:
        port = spare.port
    (d / "conf").write_text(f"""daemon off; master_process off; pid {d}/pid; error_log {d}/error;
events {{ worker_connections 64; }}
http {{ access_log {d}/access; client_body_temp_path {d}/b; proxy_temp_path {d}/p; fastcgi_temp_path {d}/f; uwsgi_temp_path {d}/u; scgi_temp_path {d}/s;
server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {cert}; ssl_certificate_key {key}; root {d}/www; }} }}""")
    nginx = subprocess.Popen(["nginx", "-p", d, "-c", d / "conf"], stderr=subprocess.DEVNULL)
    try:
        config = configure(allow=["nginx.test"], resolve={"nginx.test": f"127.0.0.1:{port}"})
        r = behind(config, "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do curl -sS --retry 5 --retry-all-errors -o /tmp/out https://nginx.test/big && break; sleep 0.2; done; "
                   "sha256sum < /tmp/out; curl -sS -o /dev/null -o /dev/null -o /dev/null -w '%{http_code} %{num_connects}\\n' "
                   "https://nginx.test/big https://nginx.test/big https://nginx.test/none")
        want = subprocess.run(["sha256sum"], stdin=open(d / "www/big", "rb"), stdout=subprocess.PIPE, check=True).stdout.decode()
        assert r["stdout"] == want + "200 1\n200 0\n404 0\n", r
    finally:
        nginx.kill()
        nginx.wait()


@on_every_door(all_roots=True)
def the_authority_is_in_the_systems_own_bundle_beside_the_hosts_roots():
    r = behind(configure(allow=[]), "sh", "-c", "cmp /etc/ssl/certs/ca-certificates.crt $SSL_CERT_FILE && "
               "grep -c BEGIN $SSL_CERT_FILE; for v in $SSL_CERT_FILE $REQUESTS_CA_BUNDLE $CURL_CA_BUNDLE $GIT_SSL_CAINFO "
               "$NODE_EXTRA_CA_CERTS $CARGO_HTTP_CAINFO $PIP_CERT $AWS_CA_BUNDLE $DENO_CERT; do test -s $v || echo none; done; "
               "touch $SSL_CERT_FILE 2>/dev/null && echo writable")
    host = pathlib.Path("/etc/ssl/certs/ca-certificates.crt").read_text().count("BEGIN")
    assert r["stdout"] == f"{host + 1}\n", r


@test
def the_door_alone_is_a_proxy_for_those_who_ask():
    with Web("api.test") as web:
        p = start_brig("proxy", "--config", configure(web), "--port", "0", scratch() / "authority.pem")
        try:
            url = p.stdout.readline().decode().strip()
            for proxy in (url, url.replace("http", "socks5h")):
                curl = ["curl", "-sS", "-x", proxy, "--cacert", scratch() / "authority.pem"]
                assert subprocess.run([*curl, "https://api.test/"], stdout=subprocess.PIPE, check=True).stdout == b"hello\n"
                assert subprocess.run([*curl, "https://closed.test/"], stderr=subprocess.DEVNULL, check=False).returncode != 0
            assert len(web.seen) == 2
        finally:
            p.terminate()
            errors = p.communicate()[1].decode()
        assert p.returncode == 0 and errors.count("Host not in allowlist: closed.test") == 2, errors
        assert brig("audit", "list", "--json").text.count('"egress.allow"') == 2


if __name__ == "__main__":
    sys.exit(main())
