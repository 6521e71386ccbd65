#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A HOME that is kept, with real programs and a door: a second build finds its cache, a placeholder that was saved still works,
and no value is ever left in it. The servers count what they are asked for."""

import base64
import hashlib
import io
import json
import pathlib
import shutil
import sys
import tarfile
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import Handler, Web, configure, denials, fields, on_every_door  # noqa: E402
from harness import brig, files_as_root, main, scratch, state, test, workspace  # noqa: E402

VALUE = "zq8Gk2vTn41Lw0bYd7Rm"


def wheel():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("thing.py", "x = 42\n")
        z.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
        z.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("thing-1.0.dist-info/RECORD", "")
    return out.getvalue()


def package():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tgz:
        for name, text in (("package.json", '{"name": "thing", "version": "1.2.3"}'), ("index.js", "module.exports = 42;\n")):
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(text)
            tgz.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


PACKAGE = package()
DIST = {"tarball": "https://api.test/thing-1.2.3.tgz", "integrity": "sha512-" + base64.b64encode(hashlib.sha512(PACKAGE).digest()).decode()}
PAGES = {
    "/simple/thing/": ("text/html", b'<a href="../../thing-1.0-py3-none-any.whl">thing</a>'),
    "/thing-1.0-py3-none-any.whl": ("application/octet-stream", wheel()),
    "/thing": ("application/json", json.dumps({"name": "thing", "dist-tags": {"latest": "1.2.3"}, "versions": {
        "1.2.3": {"name": "thing", "version": "1.2.3", "dist": DIST}}}).encode()),
    "/thing-1.2.3.tgz": ("application/octet-stream", PACKAGE),
}


class Index(Handler):
    def do_GET(self):
        path = self.path.split("?")[0]
        self.server.seen.append((path, dict(self.headers.items())))
        kind, body = PAGES.get(path, ("text/plain", b"hello\n"))
        self.answer(body, 200, [("Content-Type", kind), ("Cache-Control", "max-age=600")])


def cache():
    folder = scratch() / "cache"
    folder.mkdir(exist_ok=True)
    return folder


def run(config, line, *options, home="keep", status=0, **more):
    done = brig("run", "--home", home, "--config", config, *options, "--", "sh", "-c", line, timeout=90,
                env={"TOKEN": VALUE, "OTHER": VALUE + "x", "XDG_CACHE_HOME": str(cache())}, **more)
    assert done.status == status, (done.status, done.text, done.errors)
    return done


def asked(web, path):
    return [p for p, _ in web.seen].count(path)


def left():
    """Every byte that is kept."""
    with files_as_root():
        return b"".join(p.read_bytes() for p in cache().rglob("*") if p.is_file() and not p.is_symlink())


@test(as_user="user", limit=120)
def npm_finds_its_cache_in_the_second_run():
    (workspace() / "package.json").write_text('{"name": "app", "version": "1.0.0", "dependencies": {"thing": "1.2.3"}}')
    line = "npm install --registry https://api.test/ --fetch-retries=0 --no-audit --no-fund && node -e 'console.log(require(\"thing\"))'"
    with Web("api.test", handler=Index) as web:
        config = configure(web)
        assert run(config, line).text.endswith("42\n")
        assert asked(web, "/thing-1.2.3.tgz") == 1, web.seen
        for gone in ("node_modules", "package-lock.json"):
            path = workspace() / gone
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        assert run(config, line.replace("install", "install --offline")).text.endswith("42\n")
        assert asked(web, "/thing-1.2.3.tgz") == 1, web.seen
        shutil.rmtree(workspace() / "node_modules")
        (workspace() / "package-lock.json").unlink()
        run(config, line.replace("install", "install --offline"), home="private", status=1)  # the control


@test(as_user="user", limit=120)
def pip_finds_its_cache_in_the_second_run():
    line = ("rm -rf /tmp/w; python3 -m pip --disable-pip-version-check download --no-deps -d /tmp/w --index-url https://api.test/simple/ thing && ls /tmp/w")
    with Web("api.test", handler=Index) as web:
        config = configure(web)
        assert "Downloading" in run(config, line).text and asked(web, "/thing-1.0-py3-none-any.whl") == 1
        done = run(config, line)
        assert "Using cached" in done.text and asked(web, "/thing-1.0-py3-none-any.whl") == 1, done.text
        run(config, line, home="private")  # the control
        assert asked(web, "/thing-1.0-py3-none-any.whl") == 2


@test
def ccache_finds_what_it_built():
    config = configure()
    (workspace() / "a.c").write_text("int main(void) { return 0; }\n")
    line = "ccache -z >/dev/null; ccache gcc -c a.c -o a.o; ccache --print-stats"

    def hits(home):
        told = dict(row.split("\t")[:2] for row in run(config, line, "--network", "none", home=home).text.splitlines())
        return int(told["direct_cache_hit"]) + int(told["preprocessed_cache_hit"]), int(told["cache_miss"])
    assert [hits(home) for home in ("keep", "keep", "private")] == [(0, 1), (1, 0), (0, 1)]


@on_every_door
def a_placeholder_that_a_tool_saved_works_in_the_next_run_and_no_value_is_kept():
    with Web("api.test", handler=Index) as web, Web("other.test", handler=Index) as other:
        bound = {"credentials": {"TOKEN": {"host": "api.test"}, "OTHER": {"host": "other.test"}}}
        config = configure(web, other, more=bound)
        get = 'curl -s -o ~/answer -w "%{http_code} " -H "Authorization: Bearer $(cat ~/saved)" https://'
        first = run(config, f'env > ~/env; echo "$TOKEN" | tee ~/saved; echo "$OTHER"; {get}api.test/').text.split()
        assert first[0].startswith("brig-") and first[0] != first[1] and first[2] == "200", first
        again = run(config, f'cat ~/saved; echo "$TOKEN"; {get}api.test/; {get}other.test/').text.split()
        assert again[:2] == [first[0]] * 2 and again[2:] == ["200", "403"], (first, again)
        assert [fields(f.items())["Authorization"] for _, f in web.seen] == [f"Bearer {VALUE}"] * 2 and not other.seen, (web.seen, other.seen)
        kept = left()
        assert first[0].encode() in kept and VALUE.encode() not in kept and base64.b64encode(VALUE.encode())[:-4] not in kept
        # The control, and who else: another project, another trust of the same one, a private HOME.
        one = 'echo "$TOKEN"'
        elsewhere = scratch() / "elsewhere"
        elsewhere.mkdir()
        others = [run(config, one, "--workdir", elsewhere).text, run(config, one, "--policy", "readonly").text, run(config, one, home="private").text,
                  run(config, one, home="private").text]
        assert len({first[0], *(o.strip() for o in others)}) == 5, others
        done = brig("run", "--json", "--home", "private", "--config", config, "--", "sh", "-c",
                    f"curl -s -H 'Authorization: Bearer {first[0]}' https://api.test/", env={"TOKEN": VALUE, "OTHER": VALUE + "x"})
        assert {reason for _, reason in denials(done.json)} == {"credential-misuse"} and len(web.seen) == 2, done.text


@test
def a_key_that_others_could_read_is_not_used():
    config = configure(allow=["api.test"])
    run(config, "true")
    key = state() / "brig/home.key"
    assert key.stat().st_mode & 0o777 == 0o600 and len(key.read_text()) == 65
    for spoil in (lambda: key.chmod(0o644), lambda: (key.chmod(0o600), key.write_text("short\n")), lambda: (key.unlink(), key.symlink_to("/dev/null"))):
        spoil()
        assert "is not the key that brig made" in run(config, "true", status=125).errors
    key.unlink()
    run(config, "true")


if __name__ == "__main__":
    sys.exit(main())
