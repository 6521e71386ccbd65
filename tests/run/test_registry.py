#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Bundles and registries: there and back with a real one, and what hostile ones get."""

import base64
import hashlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from bundles import Registry, archive, bundle, files, good, oci, role_folder, scripted, write  # noqa: E402
from harness import files_as_root, main, scratch, state, test, tree  # noqa: E402

PLAIN = "--plain-http"


def login(host, user="someone", secret="open sesame", **more):
    """What docker login would have left, in a folder that no other program's is."""
    folder = scratch() / "docker"
    folder.mkdir(exist_ok=True)
    auth = base64.b64encode(f"{user}:{secret}".encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {host: {"auth": auth, **more}}}))
    return {"DOCKER_CONFIG": str(folder)}


def left():
    """All that a pull or an installation could leave."""
    places = (scratch() / "data", state() / "brig/bundles", scratch() / "out")
    return {str(p / f) for p in places if p.exists() for f in tree(p) if f not in ("brig", "brig/bundles")}


def refused(host, *words, verb="install", ref="team/role:1.2.0", args=(), env=None):
    """Nothing comes of it, for that reason."""
    before = left()
    (scratch() / "out").mkdir(exist_ok=True)
    args = (*args, "-o", scratch() / "out/file") if verb == "pull" else args
    args = (*args, "--timeout", "20s") if "--timeout" not in args else args
    done = bundle(verb, f"{host}/{ref}", PLAIN, *args, env=env or {})
    assert done.status == 125, (done.status, done.text, done.errors)
    for word in words:
        assert word in done.errors, (word, done.errors)
    assert left() == before, left() - before
    return done


def make_pair(folder):
    """A certificate for 127.0.0.1 and its key."""
    folder.mkdir(exist_ok=True)
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-keyout", key, "-out", cert, "-days", "2",
                    "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-noenc"], check=True, capture_output=True)
    cert.chmod(0o644)
    return cert, key


@test(as_user="user")
def localhost_without_tls_is_one_address():
    """Another user may listen at the same port of [::1], and would be sent the login."""
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as other:
        port = other.getsockname()[1]
        other.settimeout(0.2)
        refused(f"localhost:{port}", f"localhost:{port}")
        try:
            other.accept()[0].close()
            raise AssertionError("it was asked")
        except TimeoutError:
            pass
        refused(f"[::1]:{port}", "took too long", args=("--timeout", "1s"))  # the control: it can be reached
        other.accept()[0].close()


@test
def a_bundle_goes_to_a_registry_and_comes_back():
    file, back = scratch() / "a.bundle", scratch() / "b.bundle"
    assert bundle("pack", role_folder(), "-o", file).status == 0
    (scratch() / "a.bundle.sig").write_bytes(b"a signature, for all that a registry knows")
    with files_as_root(), Registry(scratch() / "registry") as r:
        ref = f"{r.host}/team/role:1.2.0"
        done = bundle("push", file, ref, PLAIN, "--json")
        assert done.status == 0, done.errors
        pushed = done.json
        assert bundle("push", file, ref, PLAIN).status == 0  # once more: what is there is not sent
        done = bundle("pull", ref, "-o", back, PLAIN, "--json")
        assert done.status == 0 and done.json["reference"] == pushed["reference"] and done.json["signed"], (done.text, done.errors)
        assert back.read_bytes() == file.read_bytes() and (scratch() / "b.bundle.sig").read_bytes().startswith(b"a signature")
        inspected = bundle("inspect", f"oci://{ref}", PLAIN, "--json").json
        assert inspected["digest"] == pushed["digest"] and inspected["manifest"]["name"] == "helper"
        done = bundle("install", f"{ref}@{pushed['reference']}", PLAIN, "--json")
        assert done.status == 0 and done.json["digest"] == pushed["digest"] and done.json["source"].startswith(ref), done.errors
        refused(r.host, "the manifest is not in", ref=f"team/role:1.2.0@sha256:{'0' * 64}")
        refused(r.host, "the manifest is not in", ref="team/role:9")
        done = bundle("pull", ref, "-o", scratch() / "c.bundle")
        assert done.status == 125 and "TLS failed" in done.errors and "--plain-http" in done.errors, done.errors
        # The tag is moved to another bundle: the name is kept, and the change is told.
        other = write("other", archive(good(files(**{"data/new": b"new"}))))
        assert bundle("push", other, ref, PLAIN).status == 0
        refused(r.host, "is another one now")
        assert bundle("install", f"{ref}@{pushed['reference']}", PLAIN).status == 0
        # What the registry keeps on its disk is changed there.
        for blob in (scratch() / "registry/data").rglob("data"):
            if blob.read_bytes() == other.read_bytes():
                blob.write_bytes(other.read_bytes()[:-1] + b"!")
        assert bundle("remove", "--forget", "helper@1.2.0").status == 0
        refused(r.host, "other bytes than its manifest says")
    assert bundle("list", "--json").json == []


@test
def tls_is_verified_and_a_login_is_shown_to_its_registry():
    file = write("a", archive(good()))
    with files_as_root():
        pair = make_pair(scratch() / "tls")
    with files_as_root(), Registry(scratch() / "registry", tls=pair, locked=True) as r:
        ref, trusted = f"{r.host}/team/role:1", {"SSL_CERT_FILE": str(pair[0])}
        done = bundle("push", file, ref)
        assert done.status == 125 and "certificate is not trusted" in done.errors, done.errors
        done = bundle("push", file, ref, env=trusted)
        assert done.status == 125 and "wants a login" in done.errors and f"docker login {r.host}" in done.errors, done.errors
        done = bundle("push", file, ref, env={**trusted, **login(r.host, secret="wrong")})
        assert done.status == 125 and "does not take the credentials" in done.errors, done.errors
        env = {**trusted, **login(r.host)}
        done = bundle("push", file, ref, env=env)
        assert done.status == 0, done.errors
        done = bundle("pull", ref, "-o", scratch() / "b", env=env)
        assert done.status == 0 and (scratch() / "b").read_bytes() == file.read_bytes(), done.errors
        done = bundle("inspect", ref.replace("127.0.0.1", "localhost"), env=trusted)  # a name that the certificate does not have
        assert done.status == 125 and "certificate is not trusted" in done.errors, done.errors
        done = bundle("inspect", ref, env={**trusted, **login(r.host, identitytoken="t")})
        assert done.status == 125 and "identity token" in done.errors, done.errors
    done = bundle("inspect", "registry.invalid/team/role:1", PLAIN)
    assert done.status == 125 and "plain HTTP is not spoken" in done.errors, done.errors


@test
def a_helper_program_that_was_named_is_asked():
    file = write("a", archive(good()))
    helper = scratch() / "docker-credential-test"
    helper.write_text('#!/bin/sh\nread -r name\necho "{\\"Username\\":\\"someone\\",\\"Secret\\":\\"open sesame\\"}"\n')
    helper.chmod(0o755)
    folder = scratch() / "docker"
    folder.mkdir()
    with files_as_root(), Registry(scratch() / "registry", locked=True) as r:
        (folder / "config.json").write_text(json.dumps({"credHelpers": {r.host: "test"}}))
        env = {"DOCKER_CONFIG": str(folder), "PATH": f"{scratch()}:{os.environ['PATH']}"}
        done = bundle("push", file, f"{r.host}/team/role:1", PLAIN, env=env)
        assert done.status == 0, done.errors
        done = bundle("push", file, f"{r.host}/team/role:1", PLAIN, env={"DOCKER_CONFIG": str(folder)})
        assert done.status == 125 and "docker-credential-test" in done.errors, done.errors
    # One that keeps the logins of all registries, and none for this, which is open to everybody.
    with files_as_root(), Registry(scratch() / "open") as r:
        (folder / "config.json").write_text(json.dumps({"credsStore": "test"}))
        for words, status in (("credentials not found in native keychain", 0), ("the keychain is locked", 125)):
            helper.write_text(f"#!/bin/sh\nread -r name\necho '{words}'\nexit 1\n")
            done = bundle("push", file, f"{r.host}/team/role:1", PLAIN, env=env)
            assert done.status == status, (words, done.errors)


def token_play(tokens):
    """A registry that wants the token of a server that it names."""
    def play(h):
        if h.path.startswith("/token"):
            return h.answer(200, tokens(h))
        if h.headers.get("Authorization") == "Bearer good":
            return False
        return h.answer(401, WWW_Authenticate=f'Bearer realm="http://{h.server.host}/token",service="reg",scope="repository:team/role:pull"')
    return play


@test
def a_token_is_fetched_from_where_the_registry_says():
    data = archive(good())
    with scripted(token_play(lambda h: b'{"token": "good"}'), data) as s:
        done = bundle("inspect", f"{s.host}/team/role:1", PLAIN, env=login(s.host))
        assert done.status == 0, done.errors
        asked = [(m, p.split("?")[0], a) for m, p, a in s.asked]
        assert asked[1] == ("GET", "/token", "Basic " + base64.b64encode(b"someone:open sesame").decode()), asked
        assert "scope=repository%3Ateam/role%3Apull" in s.asked[1][1]
        assert all(a == "Bearer good" for _, _, a in asked[2:]), asked
    for text in (b"{}", b'{"token": "a\\r\\nb"}', b'{"token": "' + b"x" * 9000 + b'"}', b"not json", b'{"token": "bad"}'):
        with scripted(token_play(lambda h, text=text: text), data) as s:
            refused(s.host, env=login(s.host))
    # Tokens that are to be had without TLS from elsewhere are not asked for.
    with scripted(lambda h: h.answer(401, WWW_Authenticate='Bearer realm="http://registry.invalid/token"'), data) as s:
        refused(s.host, "where anybody can listen", env=login(s.host))


@test
def credentials_do_not_follow_a_redirect():
    data = archive(good())
    with scripted(lambda h: False, data) as other:
        def play(h):
            if not h.headers.get("Authorization"):
                return h.answer(401, WWW_Authenticate='Basic realm="x"')
            return h.answer(307, Location=f"http://{other.host}{h.path}") if "/blobs/" in h.path else False

        with scripted(play, data) as s:
            done = bundle("inspect", f"{s.host}/team/role:1", PLAIN, env=login(s.host))
            assert done.status == 0, done.errors
            assert [a for _, p, a in s.asked if "/blobs/" in p][-1].startswith("Basic "), s.asked  # the control: it was shown here
            assert [a for _, _, a in other.asked] == [None], other.asked
        # Not even where the other one asks for it.
        other.play = lambda h: h.answer(401, WWW_Authenticate='Basic realm="x"')
        with scripted(play, data) as s:
            refused(s.host, "answers 401", env=login(s.host))
            assert {a for _, _, a in other.asked} == {None}, other.asked


@test(as_user="user")
def hostile_registries_get_nothing_installed():
    data = archive(good())
    digest = "sha256:" + hashlib.sha256(data).hexdigest()

    def blobs(answer):
        return lambda h: answer(h) if "/blobs/" in h.path else False

    def manifests(answer):
        return lambda h: answer(h) if "/manifests/" in h.path else False

    def endless(h):
        h.send_response(200)
        h.send_header("Transfer-Encoding", "chunked")
        h.end_headers()
        while True:
            h.wfile.write(b"10000\r\n" + bytes(65536) + b"\r\n")

    cases = {
        "other bytes of the same length": (blobs(lambda h: h.answer(200, bytes(len(data)))), "other bytes than its manifest says"),
        "a longer blob": (blobs(lambda h: h.answer(200, data + b"x")), "another length"),
        "a shorter blob": (blobs(lambda h: h.answer(200, data[:-1])), "another length"),
        "an endless blob": (blobs(endless), "another length"),
        "an endless manifest": (manifests(endless), "too long"),
        "a huge length": (manifests(lambda h: h.answer(200, b"{}", Content_Length="99999999999999")), "too long"),
        "two lengths": (manifests(lambda h: (h.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"))), ""),
        "a redirect to itself": (lambda h: h.answer(302, Location=h.path), "redirects more than 5 times"),
        "a redirect nowhere": (lambda h: h.answer(302, Location="ftp://x/"), "leads nowhere"),
        "a redirect without TLS": (lambda h: h.answer(302, Location="http://registry.invalid/x"), "plain HTTP is not spoken"),
        "a redirect to a name": (lambda h: h.answer(302, Location="//x@y/"), "leads nowhere"),
        "no HTTP": (lambda h: h.wfile.write(b"SSH-2.0-x\r\n\r\n"), ""),
        "an index": (manifests(lambda h: h.answer(200, json.dumps({"schemaVersion": 2, "manifests": []}).encode())), "none that brig reads"),
        "too many layers": (manifests(lambda h: h.answer(200, oci(digest, 1, layers=json.loads(oci(digest, 1))["layers"] * 200))), "none that brig reads"),
        "another kind of layer": (manifests(lambda h: h.answer(200, oci(digest, 1).replace(b"initrunner.role", b"other"))), "is no bundle"),
        "a layer too large": (manifests(lambda h: h.answer(200, oci(digest, 1 << 40))), "larger than"),
        "a negative size": (manifests(lambda h: h.answer(200, oci(digest, -1))), "none that brig reads"),
        "a strange digest": (manifests(lambda h: h.answer(200, oci("sha256:../../x", 1))), "none that brig reads"),
        "deep JSON": (manifests(lambda h: h.answer(200, b"[" * 100000)), "none that brig reads"),
        "a strange scheme": (lambda h: h.answer(401, WWW_Authenticate="Negotiate x"), "does not know"),
        "an error with words": (lambda h: h.answer(500, b"\x1b]0;x\x07"), "answers 500"),
    }
    for name, (play, why) in cases.items():
        print(name)
        with scripted(play, data) as s:
            done = refused(s.host, why)
            assert "\x1b" not in done.errors
    with scripted(lambda h: False, data) as s:
        wrong = "sha256:" + "1" * 64
        refused(s.host, "for the digest that was asked for", ref=f"team/role@{wrong}")
        refused(s.host, "it is not the bundle that you mean", verb="pull", args=("--digest", wrong))
        done = bundle("pull", f"{s.host}/team/role:1", PLAIN, "-o", scratch() / "control")  # the control: the same without tricks
        assert done.status == 0 and (scratch() / "control").read_bytes() == data, done.errors


@test(as_user="user")
def a_registry_that_takes_its_time_is_given_up():
    data = archive(good())

    def drip(h):
        h.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            h.wfile.write(b"X-A: b\r\n")
            h.wfile.flush()
            time.sleep(0.2)

    def drip_body(h):
        if "/blobs/" not in h.path:
            return False
        h.send_response(200)
        h.send_header("Content-Length", str(len(data)))
        h.end_headers()
        for i in range(len(data)):
            h.wfile.write(data[i:i + 1])
            h.wfile.flush()
            time.sleep(0.2)

    for play in (drip, drip_body, lambda h: time.sleep(30)):
        with scripted(play, data) as s:
            refused(s.host, "took too long", "--timeout", args=("--timeout", "700ms"))


@test
def an_upload_stays_with_its_registry():
    file = write("a", archive(good()))
    with scripted(lambda h: False, b"") as other:
        def play(h):
            if h.command == "HEAD":
                return h.answer(404)
            return h.answer(202, Location=f"http://{other.host}/v2/x")

        with scripted(play, b"") as s:
            done = bundle("push", file, f"{s.host}/team/role:1", PLAIN)
            assert done.status == 125 and "wants the upload elsewhere" in done.errors, done.errors
            assert not other.asked
    done = bundle("push", write("b", b"no bundle"), "127.0.0.1:9/team/role:1", PLAIN)
    assert done.status == 125 and "refused" in done.errors, done.errors  # what is no bundle is not sent


if __name__ == "__main__":
    sys.exit(main())
