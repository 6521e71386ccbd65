#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Fetches and pushes of git told apart by the door, and git with a credential that it never sees: the real git, against git's own HTTP backend."""

import base64
import pathlib
import subprocess
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import GitHandler, Handler, Web, behind, configure, denials, fields, on_every_door, python, repository, seeded  # noqa: E402
from harness import brig, main, scratch, test  # noqa: E402

VALUE = "zq8Gk2vTn41Lw0bYd7Rm"
ME = "git config --global user.name me; git config --global user.email me@example.org\n"
PUSH = "cd /tmp; git clone -q https://git.test/one.git 2>&1 && cd one && echo 1 > file && git add file && git commit -qm one && git push -q origin HEAD:main 2>&1"


def commits(repo):
    """What is in it, as the host's own git says."""
    return subprocess.run(["git", "-c", "safe.directory=*", "-C", repo, "log", "--all", "--format=%s"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout.split()


def is_push(line):
    """Would any server take it for one? As the host reads it, not the door."""
    target = line.split()[1]
    for _ in range(4):
        target = urllib.parse.unquote(target)
    return "git-receive-pack" in target.lower()


@on_every_door
def a_rule_for_fetches_lets_git_clone_and_not_push():
    repo = repository()
    seeded(repo)
    with Web("git.test", handler=GitHandler) as web:
        r = behind(configure(web, allow=["fetch:git.test/one"]), "sh", "-c", ME + PUSH + "; git -C /tmp/one fetch -q && git -C /tmp/one log --format=%s origin/main")
        assert r["stdout"].split()[-1] == "first" and "403" in r["stdout"], r
        assert commits(repo) == ["first"] and not any(is_push(line) for line, _, _ in web.seen), web.seen
        assert any("--allow push:git.test/one" in d["reason"] for d in r["denials"]), r["denials"]
        # The control: with the rule that the denial names it arrives.
        r = behind(configure(web, allow=["fetch:git.test/one", "push:git.test/one"]), "sh", "-c", ME + PUSH)
        assert r["exit_code"] == 0 and commits(repo) == ["one", "first"], r


@test
def a_rule_for_pushes_lets_nothing_be_fetched():
    repo = repository()
    with Web("git.test", handler=GitHandler) as web:
        push = "cd /tmp; git init -q one; cd one; echo 1 > file; git add file; git commit -qm one; git push -q https://git.test/one HEAD:main; git clone -q https://git.test/one /tmp/two 2>&1"
        r = behind(configure(web, allow=["push:git.test/one.git"]), "sh", "-c", ME + push)
        assert r["exit_code"] != 0 and "403" in r["stdout"], r
        lines = [line for line, _, _ in web.seen]
        assert lines and all(is_push(line) for line in lines), lines


@test
def a_push_is_denied_where_all_else_is_allowed():
    repo = repository()
    seeded(repo)
    with Web("git.test", handler=GitHandler) as web:
        r = behind(configure(web, deny=["push:git.test"]), "sh", "-c", ME + PUSH)
        assert r["exit_code"] and "403" in r["stdout"] and commits(repo) == ["first"], r
        assert not any(is_push(line) for line, _, _ in web.seen), web.seen
        r = behind(configure(web, deny=["push:git.test/other"]), "sh", "-c", ME + PUSH)
        assert r["exit_code"] == 0 and commits(repo) == ["one", "first"], r


REPO = "/one.git"
SPELLINGS = [
    f"POST {REPO}/git-receive-pack HTTP/1.1", f"POST {REPO}/GIT-RECEIVE-PACK HTTP/1.1", f"POST {REPO}/git%2Dreceive-pack HTTP/1.1", f"POST {REPO}/%67%69t-receive-pack HTTP/1.1",
    f"POST {REPO}/x/../git-receive-pack HTTP/1.1", f"POST {REPO}/%2e/git-receive-pack HTTP/1.1", f"POST {REPO}//git-receive-pack HTTP/1.1", f"POST {REPO}%2Fgit-receive-pack HTTP/1.1",
    f"POST {REPO}/git-receive-pack;x HTTP/1.1", f"POST {REPO}/git-receive-pack/ HTTP/1.1", f"POST {REPO}/git-receive-pack?x HTTP/1.1", f"PUT {REPO}/git-receive-pack HTTP/1.1",
    f"POST {REPO}/git-receive-pack HTTP/1.0", f"GET {REPO}/info/refs?service=git-receive-pack HTTP/1.0", f"GET {REPO}/info/refs?service=git-receive-pack HTTP/1.1",
    f"GET {REPO}/info/refs?service=git%2dreceive-pack HTTP/1.1", f"GET {REPO}/info/refs?service=git%252dreceive-pack HTTP/1.1", f"GET {REPO}/info/refs?service=GIT-receive-pack HTTP/1.1",
    f"GET {REPO}/info/refs?service=git-upload-pack&service=git-receive-pack HTTP/1.1", f"GET {REPO}/info/refs?a&service=git-receive-pack HTTP/1.1",
    f"POST https://git.test{REPO}/git-receive-pack HTTP/1.1", f"POST https://git.test:443{REPO}/git-receive-pack HTTP/1.1",
]
METHODS = [f"POST {REPO}/git-upload-pack HTTP/1.1"] * 4
OVERRIDES = ["X-HTTP-Method-Override: PUT", f"X-Original-URL: {REPO}/git-receive-pack", f"X-Rewrite-URL: {REPO}/git-receive-pack", f"X-Forwarded-Path: {REPO}/git-receive-pack"]


class Seen(Handler):
    def do_GET(self):
        self.read_body()
        self.server.seen.append((self.requestline, self.headers.items(), self.client_address))
        self.answer()

    do_POST = do_PUT = do_GET


def spelled(config):
    """Every spelling with a length and in chunks, and fields that could say otherwise; the status lines."""
    code = f"""
import socket, ssl
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
bodies = 'Content-Length: 4\\r\\n\\r\\n0000', 'Transfer-Encoding: chunked\\r\\n\\r\\n2\\r\\n00\\r\\n2\\r\\n00\\r\\n0\\r\\n\\r\\n'
asked = [line + '\\r\\nHost: git.test\\r\\nConnection: close\\r\\n' + body for line in {SPELLINGS!r} for body in bodies]
asked += [line + '\\r\\nHost: git.test\\r\\nConnection: close\\r\\n' + field + '\\r\\nContent-Length: 0\\r\\n\\r\\n' for line, field in zip({METHODS!r}, {OVERRIDES!r})]
for q in asked:
    with tls.wrap_socket(socket.create_connection(('git.test', 443), timeout=10), server_hostname='git.test') as s:
        s.sendall(q.encode())
        print(s.recv(4096).split(b'\\r\\n')[0].decode())
"""
    return python(config, code)


@test
def no_spelling_of_a_push_passes_for_a_fetch():
    for more in ({"allow": ["fetch:git.test/one"]}, {"deny": ["push:git.test"]}, {"allow": ["git.test/one.git/"]}):
        with Web("git.test", handler=Seen) as web:
            r = spelled(configure(web, **more))
            said = r["stdout"].splitlines()
            assert len(said) == 2 * len(SPELLINGS) + len(OVERRIDES) and not any(" 200 " in line for line in said[:2 * len(SPELLINGS)]), (more, said)
            assert not any(is_push(line) or "receive-pack" in str(fields).lower() for line, fields, _ in web.seen), (more, web.seen)
            assert denials(r), r
    # The control: where nothing speaks of pushes the plain ones arrive.
    with Web("git.test", handler=Seen) as web:
        spelled(configure(web))
        assert sum(is_push(line) for line, _, _ in web.seen) > len(SPELLINGS), web.seen


@test
def the_old_protocol_is_no_fetch_and_pushes_nothing():
    class Files(Handler):
        protocol_version = "HTTP/1.0"

        def do_GET(self):
            self.server.seen.append((self.requestline, self.headers.items(), self.client_address))
            path = scratch() / self.path.split("?")[0].strip("/")
            self.answer(path.read_bytes() if path.is_file() else b"", 200 if path.is_file() else 404)

        def do_PUT(self):
            self.read_body()
            self.server.seen.append((self.requestline, self.headers.items(), self.client_address))
            self.answer(b"", 201)

        do_MKCOL = do_LOCK = do_MOVE = do_DELETE = do_PUT

    repo = repository()
    seeded(repo)
    subprocess.run(["git", "-c", "safe.directory=*", "-C", repo, "update-server-info"], check=True)
    writes = "".join(f"curl -s -o /dev/null -w '%{{http_code}}\\n' -X {m} -d x https://git.test/one.git/{p}; "
                     for m, p in (("PUT", "refs/heads/main"), ("PUT", "objects/ab/cd"), ("LOCK", "x"), ("MOVE", "x"), ("MKCOL", "objects"), ("DELETE", "refs/heads/main"), ("PUT", "HEAD")))
    clone = "git clone -q https://git.test/one.git /tmp/one 2>&1 && git -C /tmp/one log --format=%s; "
    with Web("git.test", handler=Files) as web:
        r = behind(configure(web, allow=["fetch:git.test/one"]), "sh", "-c", clone + writes)
        assert "first" not in r["stdout"].split() and r["stdout"].split()[-7:] == ["403"] * 7, r
        assert all("service=git-upload-pack" in line for line, _, _ in web.seen), web.seen
    with Web("git.test", handler=Files) as web:
        r = behind(configure(web, deny=["push:git.test"]), "sh", "-c", clone + writes)
        assert r["stdout"].split() == ["first"] + ["403"] * 7, r
        assert not any(line.split()[0] not in ("GET", "HEAD") for line, _, _ in web.seen), web.seen
    with Web("git.test", handler=Files) as web:  # the control
        r = behind(configure(web), "sh", "-c", clone + writes)
        assert r["stdout"].split() == ["first"] + ["201"] * 7, r


@on_every_door
def git_asks_for_the_credential_and_goes_by_https():
    class Guarded(GitHandler):
        password = VALUE

    repo = repository()
    with Web("git.test", handler=Guarded) as web:
        config = configure(web, more={"credentials": {"WORK": {"host": "git.test", "git": "x-access-token"}}})
        r = brig("run", "--json", "--config", config, "--", "sh", "-ec", ME + """cd /tmp; git clone -q git@git.test:one.git 2>/dev/null; cd one
echo 1 > file; git add file; git commit -qm one; git push -q origin HEAD:main; git clone -q ssh://git@git.test/one.git /tmp/two; cat /tmp/two/file
git clone -q https://git.test/one /tmp/three; cat /tmp/three/file .git/config; env""", env={"WORK": VALUE}).json
        assert r["exit_code"] == 0 and r["stdout"].startswith("1\n1\n") and VALUE not in r["output"], r
        assert "git@git.test:one.git" in r["stdout"] and commits(repo) == ["one"], r
        sent = {fields(f).get("Authorization") for _, f, _ in web.seen}
        assert sent == {None, "Basic " + base64.b64encode(f"x-access-token:{VALUE}".encode()).decode()}, sent
        # The control: without the credential nobody answers git, and nothing goes by HTTPS.
        r = brig("run", "--json", "--config", configure(web), "--", "sh", "-c", "GIT_TERMINAL_PROMPT=0 git clone -q https://git.test/one /tmp/x 2>&1; git config --get-regexp 'url|credential'").json
        assert "could not read Username" in r["stdout"] and "git.test." not in r["stdout"].split()[-1], r


@test
def a_service_is_named_and_its_variable_is_found():
    class Mirror(Handler):
        def do_GET(self):
            self.server.seen.append((self.requestline, dict(self.headers.items())))
            self.answer(self.headers.get("PRIVATE-TOKEN", self.headers.get("Authorization", "")).encode())

    ask = 'curl -sS -H "PRIVATE-TOKEN: $GL_TOKEN" https://gitlab.com/api/v4/user; curl -sS -H "Authorization: Bearer $GL_TOKEN" https://gitlab.com/api/v4/user; echo; env'
    with Web("gitlab.com", handler=Mirror) as web:
        r = brig("run", "--json", "--config", configure(web), "--credential", "gitlab", "--", "sh", "-c", ask, env={"GL_TOKEN": VALUE}).json
        assert [fields(f.items()).get("Private-Token") or fields(f.items())["Authorization"] for _, f in web.seen] == [VALUE, f"Bearer {VALUE}"], (web.seen, r)
        assert VALUE not in r["output"] and "GL_TOKEN=brig-" in r["stdout"] and "GITLAB_TOKEN" not in r["stdout"], r
        r = brig("run", "--config", configure(web), "--credential", "gitlab", "--", "true")
        assert r.status and "GITLAB_TOKEN" in r.errors, r.errors


if __name__ == "__main__":
    sys.exit(main())
