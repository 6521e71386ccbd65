#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Real clients, each by the proxy variables, without them, and to a server of the sandbox's own on 127.0.0.1.

All of them ask one small server, which holds a page, a Python package, an npm package, a Go module, a crate and a git repository."""

import base64
import hashlib
import io
import json
import pathlib
import shutil
import ssl
import subprocess
import sys
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import Handler, Web, behind, configure, on_every_door  # noqa: E402
from harness import WHOLE, main, scratch, test, workspace  # noqa: E402


def wheel():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("thing.py", "x = 1\n")
        z.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
        z.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("thing-1.0.dist-info/RECORD", "")
    return out.getvalue()


PAGES = {
    "/": ("text/plain", b"hello\n"),
    "/simple/thing/": ("text/html", b'<a href="../../thing-1.0-py3-none-any.whl">thing</a>'),
    "/thing-1.0-py3-none-any.whl": ("application/octet-stream", wheel()),
    "/npm/thing": ("application/json", json.dumps({"name": "thing", "dist-tags": {"latest": "1.2.3"}, "versions": {"1.2.3": {"name": "thing", "version": "1.2.3"}}}).encode()),
    "/go/example.test/m/@v/list": ("text/plain", b"v1.0.0\n"),
    "/repo/info/refs": ("text/plain", b"0123456789012345678901234567890123456789\trefs/heads/main\n"),
    "/repo/HEAD": ("text/plain", b"ref: refs/heads/main\n"),
    "/m2/test/above/1/above-1.pom": ("text/xml", b"<project><modelVersion>4.0.0</modelVersion><groupId>test</groupId><artifactId>above</artifactId>"
                                                 b"<version>1</version><packaging>pom</packaging></project>"),
}

POM = """<project><modelVersion>4.0.0</modelVersion><parent><groupId>test</groupId><artifactId>above</artifactId><version>1</version><relativePath/></parent>
<artifactId>below</artifactId><packaging>pom</packaging></project>
"""
MIRROR = "<settings><mirrors><mirror><id>own</id><mirrorOf>*</mirrorOf><url>${repo}</url></mirror></mirrors></settings>\n"
CARGO = """cp -r crate /tmp && cd /tmp/crate && CARGO_NET_GIT_FETCH_WITH_CLI=true /usr/bin/cargo generate-lockfile --config 'source.crates-io.replace-with="own"' \
    --config 'source.own.registry="URL/index"' && grep 'name = "thing"' Cargo.lock"""

JAVA = """import java.net.*; import java.net.http.*;
public class Get { public static void main(String[] a) throws Exception {
    String b = HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(a[0])).build(), HttpResponse.BodyHandlers.ofString()).body();
    System.out.print(b + ((HttpURLConnection) new URL(a[0]).openConnection()).getResponseCode()); } }
"""

# What each prints when it worked. Package tools are told where the index is, and nothing else.
CLIENTS = {
    "curl": (["curl", "-sS", "URL/"], "hello"),
    "wget": (["wget", "-qO-", "URL/"], "hello"),
    "urllib": (["python3", "-c", "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read())", "URL/"], "hello"),
    "requests": (["python3", "-c", "import sys, requests; print(requests.get(sys.argv[1]).text)", "URL/"], "hello"),
    "pip": (["python3", "-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "-d", "/tmp/wheels", "--index-url", "URL/simple/", "thing"], "Successfully downloaded thing"),
    "node": (["node", "-e", "fetch(process.argv[1]).then(async r => console.log(await r.text()))", "URL/"], "hello"),
    "npm": (["npm", "view", "thing", "version", "--registry", "URL/npm/", "--fetch-retries=0"], "1.2.3"),
    "git": (["git", "ls-remote", "URL/repo"], "refs/heads/main"),
    "go": (["env", "GOPROXY=URL/go", "GONOSUMDB=*", "GOFLAGS=-mod=mod", "go", "list", "-m", "-versions", "example.test/m"], "v1.0.0"),
    "java": (["java", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", ".", "Get", "URL/"], "hello\n200"),
    "ruby": (["ruby", "-ropen-uri", "-e", "print URI.open(ARGV[0]).read", "URL/"], "hello"),
    "cargo": (["sh", "-c", CARGO], 'name = "thing"'),
    "maven": (["mvn", "-B", "-s", "settings.xml", "-Drepo=URL/m2", "-Dmaven.repo.local=/tmp/m2", "validate"], "BUILD SUCCESS"),
    "chromium": (["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "URL/"], "hello"),
    "php": (["php", "-r", "echo file_get_contents($argv[1]);", "URL/"], "hello"),
}

# Who finds the way to loopback as another does: by the library of requests, the properties of java, and by no setting of brig's.
AS_ANOTHER = () if WHOLE else ("pip", "maven", "chromium")

# Runs inside: python3 each.py URL, or without one with a server of its own.
EACH = r"""
import base64, concurrent.futures, http.server, json, subprocess, sys, threading
pages, clients = json.load(open("pages.json")), json.load(open("clients.json"))
class Own(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        kind, body = pages.get(self.path.split("?")[0], ("", None))
        self.send_response(404 if body is None else 200)
        body = base64.b64decode(body or "")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
url, without = sys.argv[1], sys.argv[2:]
clients = {name: c for name, c in clients.items() if name not in without}
if url == "own":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Own)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
def one(name):
    argv, want = clients[name]
    done = subprocess.run([a.replace("URL", url) for a in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
    return name + (" ok" if want in done.stdout else " failed: " + done.stdout[-600:].replace("\n", " | "))
with concurrent.futures.ThreadPoolExecutor(3) as pool:
    print(*pool.map(one, clients), sep="\n")
"""


class Pages(Handler):
    def do_GET(self):
        self.server.seen.append((self.requestline, self.headers.items(), self.client_address))
        kind, body = PAGES.get(self.path.split("?")[0], ("", None))
        self.answer(body or b"", 404 if body is None else 200, [("Content-Type", kind)])


def index_of_crates():
    """A repository as git serves it from plain files: what Debian's cargo asks for an index."""
    top = scratch() / "index"
    top.mkdir()
    (top / "th/in").mkdir(parents=True)
    (top / "th/in/thing").write_text(json.dumps({"name": "thing", "vers": "1.0.0", "deps": [], "cksum": "0" * 64, "features": {}, "yanked": False}) + "\n")
    (top / "config.json").write_text(json.dumps({"dl": "https://api.test/crates"}))
    me = ("git", "-C", str(top), "-c", "user.name=a", "-c", "user.email=a@b", "-c", "safe.directory=*")
    for argv in ((*me, "init", "-q", "-b", "main"), (*me, "add", "."), (*me, "commit", "-qm", "x"), (*me, "update-server-info")):
        subprocess.run(argv, check=True, env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"})
    for path in (top / ".git").rglob("*"):
        if path.is_file():
            PAGES[f"/index/{path.relative_to(top / '.git')}"] = ("application/octet-stream", path.read_bytes())
    shutil.rmtree(top)


def prepare():
    index_of_crates()
    (workspace() / "crate/src").mkdir(parents=True)
    (workspace() / "crate/src/lib.rs").touch()
    (workspace() / "crate/Cargo.toml").write_text('[package]\nname = "own"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nthing = "1"\n')
    (workspace() / "pom.xml").write_text(POM)
    (workspace() / "settings.xml").write_text(MIRROR)
    (workspace() / "each.py").write_text(EACH)
    (workspace() / "clients.json").write_text(json.dumps(CLIENTS))
    (workspace() / "pages.json").write_text(json.dumps({p: (k, base64.b64encode(b).decode()) for p, (k, b) in PAGES.items()}))
    (workspace() / "Get.java").write_text(JAVA)
    subprocess.run(["javac", "-J-XX:-UsePerfData", "-J-XX:TieredStopAtLevel=1", "Get.java"], cwd=workspace(), check=True)


def worked(r, without=()):
    told = dict(line.split(" ", 1) for line in r["stdout"].splitlines())
    return {n: t for n, t in told.items() if t != "ok"} or (set(told) ^ (set(CLIENTS) - set(without))), r["stderr"]


STRAIGHT = ("env", *(f"-u{n}" for k in ("http", "https", "all") for n in (f"{k}_proxy", f"{k.upper()}_PROXY")))


@test(as_user="user", limit=240, all_roots=True)
def every_client_works_by_the_proxy_variables_without_them_and_on_loopback():
    prepare()
    with Web("api.test", handler=Pages) as web:
        # without the variables the rules are as narrow as they can be: fields pass by name, and the host takes no key but the run's
        config, narrow = configure(web), configure(web, allow=["GET,HEAD,POST api.test/"], more={"credentials": {"TOKEN": {"host": "api.test", "paths": ["/none/"]}}})
        for config, how in ((config, ()), (narrow, STRAIGHT)):
            seen = len(web.seen)
            bad, errors = worked(behind(config, *how, "python3", "each.py", "https://api.test", timeout=180, env={"TOKEN": "zq8Gk2vTn41Lw0bYd7Rm"}))
            assert not bad, (how[:1], bad, errors)
            assert len(web.seen) - seen >= len(CLIENTS), web.seen
        seen = len(web.seen)
        bad, errors = worked(behind(config, "python3", "each.py", "own", *AS_ANOTHER, timeout=180, env={"TOKEN": "zq8Gk2vTn41Lw0bYd7Rm"}), AS_ANOTHER)
        assert not bad and len(web.seen) == seen, (bad, errors)
        # the control: where the door is not in between, what the host does not trust is not trusted
        r = behind(configure(web, passthrough=["api.test"]), *CLIENTS["java"][0][:-1], "https://api.test/")
        assert r["exit_code"] != 0 and "PKIX" in r["stderr"], r


@on_every_door
def java_is_shown_its_own_store_with_one_entry_more():
    """What the JDK reads, byte by byte: the host's entries, the run's authority, the sum over both."""
    r = behind(configure(allow=["api.test"]), "sh", "-c", "cat /etc/ssl/certs/java/cacerts > store; cat /usr/lib/jvm/*/lib/security/cacerts | wc -c; ls -d /usr/lib/jvm/*/lib/security/cacerts | wc -l; wc -c < store; "
               "tail -n 20 $SSL_CERT_FILE")
    size, stores, one, *pem = r["stdout"].splitlines()
    store, host = (workspace() / "store").read_bytes(), pathlib.Path("/etc/ssl/certs/java/cacerts").read_bytes()
    der = ssl.PEM_cert_to_DER_cert("-----BEGIN CERTIFICATE-----" + "\n".join(pem).rpartition("-----BEGIN CERTIFICATE-----")[2])
    kept = host[12:-20] if host[:4] == b"\xfe\xed\xfe\xed" else b""
    entry = b"\0\0\0\2\0\4brig" + bytes(8) + b"\0\5X.509" + len(der).to_bytes(4, "big") + der
    head = b"\xfe\xed\xfe\xed\0\0\0\2" + ((int.from_bytes(host[8:12], "big") if kept else 0) + 1).to_bytes(4, "big")
    body = head + kept + entry
    assert store == body + hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + body).digest(), (len(store), len(host))
    assert int(size) == int(stores) * int(one), r["stdout"]


if __name__ == "__main__":
    sys.exit(main())
