#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Logins by OAuth whose tokens the code inside never sees: a real token endpoint, real clients, and what a hostile one answers."""

import base64
import gzip
import hashlib
import json
import os
import pathlib
import re
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import Handler, Web, configure, denials, fields, on_every_door  # noqa: E402
from harness import brig, main, scratch, test  # noqa: E402

REFRESH = "rt-first-8Kq2vZx0Lw41bTn7"
SECRET = "client-secret-4Hs9Qm2Xz7"
CODE, VERIFIER = "code-from-a-browser-1", "verifier-" + "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=")


def fresh(kind):
    return kind + base64.urlsafe_b64encode(os.urandom(24)).decode()


class Endpoint(Handler):
    """RFC 6749: refresh tokens that are good once, codes with PKCE, clients with a secret; answers JSON, or a form on demand."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        s = self.server
        s.seen.append((self.path, fields(self.headers.items()), body))
        if self.headers.get("Content-Type", "").startswith("application/json"):
            asked = json.loads(body)
        else:
            asked = dict(urllib.parse.parse_qsl(body, keep_blank_values=True))
        basic = base64.b64decode(self.headers.get("Authorization", "Basic ")[6:]).decode()
        good = {"refresh_token": asked.get("refresh_token") == s.refresh,
                "authorization_code": asked.get("code") == CODE and
                base64.urlsafe_b64encode(hashlib.sha256(asked.get("code_verifier", "").encode()).digest()).rstrip(b"=") == CHALLENGE,
                "client_credentials": SECRET in (asked.get("client_secret"), basic.partition(":")[2])}
        if not good.get(asked.get("grant_type")):
            self.answer(json.dumps({"error": "invalid_grant", "error_description": "got " + str(asked)}).encode(), 400,
                        [("Content-Type", "application/json")])
            return
        s.refresh, s.access, s.id = fresh("rt-"), fresh("at-"), fresh("eyJhbGciOiJub25lIn0.")
        s.given += [s.refresh, s.access, s.id]
        told = {"token_type": "Bearer", "expires_in": 3600, "scope": "a b", "access_token": s.access, "refresh_token": s.refresh, "id_token": s.id}
        if "urlencoded" in self.headers.get("Accept", ""):
            self.answer(urllib.parse.urlencode(told).encode(), fields=[("Content-Type", "application/x-www-form-urlencoded")])
        else:
            self.answer(json.dumps(told).encode(), fields=[("Content-Type", "application/json")])


class Api(Handler):
    """Takes the latest access token and shows it to whoever asks."""

    def do_GET(self):
        got = self.headers.get("Authorization", "")
        self.server.seen.append(got)
        self.answer(("you sent " + got).encode(), 200 if got == "Bearer " + self.server.login.access else 401)


def servers():
    login = Web("login.test", handler=Endpoint)
    login.refresh, login.access, login.id, login.given = REFRESH, None, None, [REFRESH, SECRET]
    api = Web("api.test", handler=Api)
    api.login = login
    return login, api


def config(*webs, credentials=None, **more):
    own = {"ACME": {"token_url": "https://login.test/oauth/token", "host": "api.test", **more}}
    return configure(*webs, more={"credentials": credentials or own})


def run(config, line, *argv, **env):
    return brig("run", "--json", "--config", config, "--", *(argv or ("sh", "-c", line)), env={"ACME": REFRESH, "ACME_SECRET": SECRET, **env}).json


def nothing_seen(r, login):
    for value in login.given:
        for form in (value, base64.b64encode(value.encode()).decode()[4:-4], urllib.parse.quote(value, safe="")):
            assert form not in json.dumps(r), (form, r)
    record = brig("audit", "list", "--json").text
    assert not any(v in record for v in login.given), record
    assert '"credential.token"' in record, record


REFRESHES = """
set -e
a=$(curl -sS -d grant_type=refresh_token -d refresh_token=$ACME https://login.test/oauth/token); echo "$a"
t=$(echo "$a" | sed 's/.*"access_token": *"\\([^"]*\\)".*/\\1/')
curl -sS -w ' %{http_code}\\n' -H "Authorization: Bearer $t" https://api.test/me
r=$(echo "$a" | sed 's/.*"refresh_token": *"\\([^"]*\\)".*/\\1/')
b=$(curl -sS -d grant_type=refresh_token -d refresh_token=$r https://login.test/oauth/token); echo "$b"
t=$(echo "$b" | sed 's/.*"access_token": *"\\([^"]*\\)".*/\\1/')
curl -sS -w ' %{http_code}\\n' -H "Authorization: Bearer $t" https://api.test/me
"""


@on_every_door
def a_refresh_works_twice_and_the_guest_sees_placeholders_alone():
    login, api = servers()
    with login, api:
        r = run(config(login, api), REFRESHES)
        lines = r["stdout"].splitlines()
        assert r["exit_code"] == 0 and [x.split()[-1] for x in lines if x.startswith("you sent")] == ["200", "200"], (r, login.seen, api.seen)
        assert [urllib.parse.parse_qs(b)["refresh_token"][0] for _, _, b in login.seen] == [REFRESH, login.given[2]], login.seen
        assert api.seen == ["Bearer " + login.given[3], "Bearer " + login.given[6]], (api.seen, login.given)
        first = json.loads(lines[0])
        assert first["token_type"] == "Bearer" and first["expires_in"] == 3600 and first["scope"] == "a b", first
        assert all(first[k].startswith("brig-") for k in ("access_token", "refresh_token", "id_token")), first
        nothing_seen(r, login)


@test
def without_the_endpoint_the_tokens_come_in():
    """The control: the same host, allowed and not declared."""
    login, api = servers()
    with login, api:
        r = run(configure(login, api), f"curl -sS -d grant_type=refresh_token -d refresh_token={REFRESH} https://login.test/oauth/token")
        assert login.access in r["stdout"] and login.refresh in r["stdout"], r


@test
def a_code_is_exchanged_without_a_value_of_the_users():
    login, api = servers()
    with login, api:
        r = run(config(login, api, **{"from": "nothing"}), f"""
a=$(curl -sS -H 'Accept: application/x-www-form-urlencoded' -d grant_type=authorization_code -d code={CODE} -d code_verifier={VERIFIER} \
  https://login.test/oauth/token); echo "$a"
t=$(echo "$a" | tr '&' '\\n' | sed -n 's/^access_token=//p')
curl -sS -w ' %{{http_code}}\\n' -H "Authorization: Bearer $t" https://api.test/me""")
        lines = r["stdout"].splitlines()
        assert lines[1].endswith(" 200") and "expires_in=3600" in lines[0] and "refresh_token=brig-" in lines[0], r
        nothing_seen(r, login)


@test
def a_clients_secret_goes_as_basic_and_in_json():
    login, api = servers()
    declared = {"ACME_SECRET": {"token_url": "https://login.test/oauth/token", "host": "api.test"}}
    with login, api:
        r = run(config(login, api, credentials=declared), """
post() { curl -sS -o /dev/null -w '%{http_code}\\n' "$@" https://login.test/oauth/token; }
post -u "me:$ACME_SECRET" -d grant_type=client_credentials
post -H 'Content-Type: application/json' -d "{\\"grant_type\\": \\"client_credentials\\", \\"client_secret\\": \\"$ACME_SECRET\\"}"
post -d grant_type=client_credentials -d client_secret=wrong""")
        assert r["stdout"].split() == ["200", "200", "400"], (r, login.seen)
        nothing_seen(r, login)


REQUESTS = """
import os
from requests_oauthlib import OAuth2Session
s = OAuth2Session('me', token={'access_token': 'x', 'refresh_token': os.environ['ACME'], 'expires_in': -1, 'token_type': 'Bearer'},
                  auto_refresh_url='https://login.test/oauth/token', auto_refresh_kwargs={'client_id': 'me'}, token_updater=lambda t: print(sorted(t)))
for _ in range(2):
    a = s.get('https://api.test/me'); print(a.status_code, a.text)
"""
NODE = """
const ask = (b) => fetch('https://login.test/oauth/token', {method: 'POST', body: new URLSearchParams(b)}).then(r => r.json());
(async () => {
  const a = await ask({grant_type: 'refresh_token', refresh_token: process.env.ACME});
  const b = await ask({grant_type: 'refresh_token', refresh_token: a.refresh_token});
  const r = await fetch('https://api.test/me', {headers: {Authorization: 'Bearer ' + b.access_token}});
  console.log(r.status, await r.text());
})();
"""


@test
def real_clients_refresh_and_go_on():
    for argv in (("python3", "-c", REQUESTS), ("node", "-e", NODE)):
        login, api = servers()
        with login, api:
            r = run(config(login, api), None, *argv)
            assert r["exit_code"] == 0 and "200 you sent Bearer brig-" in r["stdout"], (argv[0], r)
            nothing_seen(r, login)


@test
def a_new_refresh_token_goes_back_into_its_file_if_that_was_asked_for():
    for renew in (True, False):
        login, api = servers()
        kept = scratch() / f"kept-{renew}"
        kept.write_text(REFRESH + "\n")
        kept.chmod(0o600)
        with login, api:
            more = {"renew": True} if renew else {}
            r = run(config(login, api, **{"from": {"file": str(kept)}}, **more), REFRESHES)
            assert r["exit_code"] == 0, r
            assert kept.read_text() == (login.refresh if renew else REFRESH) + "\n" and kept.stat().st_mode & 0o777 == 0o600, (renew, kept.read_text())
            nothing_seen(r, login)


@test
def a_login_of_the_users_meanwhile_is_not_written_over():
    login, api = servers()
    kept = scratch() / "kept"
    kept.write_text(REFRESH)
    kept.chmod(0o600)

    class Meanwhile(Endpoint):
        def do_POST(self):
            kept.write_text("somebody-logged-in-again-77")
            super().do_POST()

    login.RequestHandlerClass = Meanwhile
    with login, api:
        r = run(config(login, api, **{"from": {"file": str(kept)}}, renew=True), REFRESHES.replace("set -e", ""))
        assert kept.read_text() == "somebody-logged-in-again-77", r
        assert any("changed meanwhile" in json.dumps(d) for d in r["denials"]), r["denials"]
        nothing_seen(r, login)


class Hostile(Handler):
    """Answers whatever the test has put there."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, more, data, piece = self.server.says
        self.server.seen.append(self.path)
        self.send_response(status)
        for name, value in more:
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for i in range(0, len(data), piece):
            self.chunk(data[i:i + piece])
        self.chunk(b"")


TOKEN = "At0ken-Wq7Zx9Lm3Kp5Rt1Vb8"
OTHERS = "othersvalue-5Yt8Wn3Qp6Zr"
ODD = {
    "nested": {"ok": True, "authed_user": {"id": "U1", "access_token": TOKEN}},
    "list": {"access_token": [TOKEN]},
    "again elsewhere": {"access_token": TOKEN, "note": "keep " + TOKEN + " safe", "b64": base64.b64encode(TOKEN.encode()).decode()},
    "camel": {"accessToken": TOKEN, "tokenType": "Bearer"},
    "escaped": None,
    "own name": {"session_token": TOKEN, "token_type": "bearer"},
}


@test
def tokens_in_odd_places_are_sealed_and_what_cannot_be_is_refused():
    login = Web("login.test", handler=Hostile)
    with login:
        c = config(login)

        def ask(data, status=200, more=(), piece=1 << 20):
            login.says = status, more, data if isinstance(data, bytes) else json.dumps(data).encode(), piece
            return run(c, "curl -sS -i -w '\\n%{http_code}\\n' -d grant_type=refresh_token -d refresh_token=$ACME https://login.test/oauth/token")

        odd = {**ODD, "escaped": b'{"access\\u005ftoken": "' + "".join(f"\\u{ord(c):04x}" for c in TOKEN).encode() + b'"}'}
        for name, data in odd.items():
            for piece in (1 << 20, 1):
                r = ask(data, piece=piece)
                assert "200" in r["stdout"].split("\n")[-2] and "brig-" in r["stdout"] and TOKEN not in json.dumps(r), (name, r)
                assert base64.b64encode(TOKEN.encode()).decode()[4:-4] not in r["stdout"], (name, r)
        r = ask({"access_token": TOKEN, "x": 1}, more=[("X-Copy", TOKEN), ("Set-Cookie", f"t={TOKEN}")])
        assert TOKEN not in json.dumps(r) and "x-copy: brig-" in r["stdout"].lower(), r
        r = ask(gzip.compress(json.dumps({"access_token": TOKEN}).encode()), more=[("Content-Encoding", "gzip")], piece=7)
        assert TOKEN not in json.dumps(r) and "brig-" in r["stdout"], r
        r = ask({"access_token": TOKEN, "error": "but no"}, status=400)
        assert TOKEN not in json.dumps(r) and "but no" in r["stdout"], r
        r = ask(b"<html>" + TOKEN.encode(), status=500)
        assert TOKEN not in json.dumps(r) and r["stdout"].split()[-1] == "500", r
        refused = {
            "short": {"access_token": "short-1"}, "a word": {"access_token": "application/json"}, "huge": {"access_token": "Aa1" * 2000},
            "blank": {"access_token": "two words 1234567890 Ab"}, "twice": b'{"access_token": "%s", "access_token": "%s"}' % (TOKEN.encode(), OTHERS.encode()),
            "page": b"<html>" + TOKEN.encode(), "cut": b'{"access_token": "' + TOKEN.encode(), "deep": b'{"a":' * 40 + b"1" + b"}" * 40,
            "long": {"access_token": TOKEN, "more": "x" * 300000},
        }
        for name, data in refused.items():
            r = ask(data)
            assert TOKEN not in json.dumps(r) and "short-1" not in r["stdout"] and r["stdout"].split()[-1] == "502", (name, r)
            assert {d for _, d in denials(r)} == {"bad-answer"}, (name, r["denials"])


@test
def an_endpoint_that_gives_away_others_tokens_binds_nothing_new():
    login, api = Web("login.test", handler=Hostile), Web("api.test")
    other = Web("other.test")
    declared = {"ACME": {"token_url": "https://login.test/oauth/token", "host": "api.test"}, "OTHER": {"host": "other.test"}}
    login.says = 200, (), json.dumps({"access_token": OTHERS, "refresh_token": REFRESH}).encode(), 3
    with login, api, other:
        r = run(config(login, api, other, credentials=declared), """
a=$(curl -sS -d refresh_token=$ACME https://login.test/oauth/token); echo "$a"; echo "$OTHER $ACME"
t=$(echo "$a" | sed 's/.*"access_token": *"\\([^"]*\\)".*/\\1/')
curl -sS -o /dev/null -w '%{http_code}\\n' -H "Authorization: Bearer $t" https://api.test/""", OTHER=OTHERS)
        a, names, code = r["stdout"].splitlines()
        told = json.loads(a)
        assert [told["access_token"], told["refresh_token"]] == names.split(), r
        assert code == "403" and not api.seen and OTHERS not in json.dumps(r), (r, api.seen)


@test
def a_placeholder_stays_one_beside_the_endpoint():
    login, api = servers()
    with login, api:
        c = config(login, api)
        r = run(c, """
post() { curl -sS -o /dev/null -w '%{http_code}\\n' "$@"; }
a=$(curl -sS -d grant_type=refresh_token -d refresh_token=$ACME https://login.test/oauth/token)
t=$(echo "$a" | sed 's/.*"access_token": *"\\([^"]*\\)".*/\\1/'); n=$(echo "$a" | sed 's/.*"refresh_token": *"\\([^"]*\\)".*/\\1/')
post -d refresh_token=$n https://login.test/oauth/other
post -d refresh_token=$n https://login.test/oauth/token/more
post -d state=$n https://login.test/oauth/token
post -d refresh_token=$n https://api.test/oauth/token
post -H "Authorization: Bearer $n" https://api.test/me
post -H "Authorization: Bearer $ACME" https://api.test/me
post -H "Authorization: Bearer $t" https://login.test/oauth/token
post -T /etc/hostname "https://login.test/oauth/token?refresh_token=$n"
post -d refresh_token=x$n https://login.test/oauth/token""")
        assert r["stdout"].split() == ["403"] * 8 + ["400"], r
        bodies = [b for _, _, b in login.seen if b]  # the head of one whose body is refused may have left
        assert len(bodies) == 2 and "xbrig-" in bodies[1] and not api.seen, (login.seen, api.seen)
        nothing_seen(r, login)


ALSO = ("/oauth/token?x=1", "/oauth/%74oken", "/%6Fauth/token?x")
ODDLY = ("/oauth/token/", "/oauth//token", "/oauth/./token", "/oauth/x/../token", "/OAuth/Token", "/oauth/token;x", "/oauth/token%3Fx", "/oauth/token.json", "/oauth/%2574oken")


@test
def another_way_to_write_the_endpoint_is_the_endpoint_or_is_refused():
    """A server reads %74oken as token, and some drop a slash at the end. A code, or a secret in the head, needs no placeholder in the body."""
    login, api = servers()
    declared = {"ACME_SECRET": {"token_url": "https://login.test/oauth/token", "host": "api.test"}}
    basic = "-u me:$ACME_SECRET -d grant_type=client_credentials"
    code = f"-d grant_type=authorization_code -d code={CODE} -d code_verifier={VERIFIER}"
    with login, api:
        c = config(login, api, credentials=declared)
        for ways, codes in ((ALSO, {"200"}), (ODDLY, {"403"})):
            r = run(c, "\n".join(f"curl -sS --path-as-is -w ' %{{http_code}}\\n' {how} 'https://login.test{w}'" for w in ways for how in (basic, code)))
            got = re.findall(r" (\d{3})$", r["stdout"], re.M)
            assert len(got) == 2 * len(ways) and set(got) == codes, (got, r)
            nothing_seen(r, login)
        assert {p for p, _, _ in login.seen} == set(ALSO), login.seen
        r = run(c, """
curl -sS -o /dev/null -w '%{http_code}\n' -X PUT -d x=1 https://login.test/oauth/token
curl -sS -o /dev/null -w '%{http_code}\n' -d x=1 'https://login.test/api/a%2Fb;c//d'
curl -sS -o /dev/null -w '%{http_code}\\n' -d x=1 http://login.test/oauth/token""")
        assert r["stdout"].split() == ["400", "400", "403"], r
        assert [p for p, _, _ in login.seen][-1] == "/api/a%2Fb;c//d", login.seen  # what is no endpoint goes its way
        r = run(configure(login, api), f"curl -sS {code} https://login.test/oauth/%74oken")
        assert login.access in r["stdout"], r  # the control: undeclared


@test
def a_run_that_keeps_no_more_tokens_asks_for_none():
    """The endpoint takes the old refresh token back with each answer: one that the door could not keep would log the user out."""
    login, api = servers()
    kept = scratch() / "kept"
    kept.write_text(REFRESH + "\n")
    kept.chmod(0o600)
    with login, api:
        r = run(config(login, api, **{"from": {"file": str(kept)}}, renew=True), """
r=$ACME
for i in $(seq 60); do
  a=$(curl -sS -d grant_type=refresh_token -d refresh_token=$r https://login.test/oauth/token)
  r=$(echo "$a" | sed -n 's/.*"refresh_token": *"\\([^"]*\\)".*/\\1/p'); [ "$r" ] || break
done
echo "$i $a" """)
        assert len(login.seen) == 42 and r["stdout"].startswith("43 ") and "keeps no more" in r["stdout"], (len(login.seen), r)
        assert kept.read_text() == login.refresh + "\n", (kept.read_text(), login.refresh)


@test
def one_that_goes_to_its_endpoint_alone_says_what_it_lacks():
    login, api = servers()
    with login, api:
        own = {"ACME": {"token_url": ["https://login.test/oauth/token", "https://login.test/revoke"]}}
        c = config(login, api, credentials=own)
        r = brig("run", "--config", c, "--credential", "ACME", "--", "sh", "-c", "curl -sS -d grant_type=refresh_token -d refresh_token=$ACME "
                 "https://login.test/oauth/token", env={"ACME": REFRESH})
        assert json.loads(r.text)["access_token"].startswith("brig-") and b"not allowed" not in r.stderr, (r.text, r.stderr)
        c = config(login, api, credentials={"ACME": {"token_url": "https://other.test/token"}})
        r = brig("run", "--config", c, "--credential", "ACME", "--", "true", env={"ACME": REFRESH})
        assert b"'ACME' is for other.test, which is not allowed: --allow other.test" in r.stderr, r.stderr


@test
def a_second_endpoint_that_is_not_declared_gives_no_placeholders():
    login, api = servers()
    evil = Web("evil.test", handler=Hostile)
    evil.says = 200, (), json.dumps({"access_token": TOKEN}).encode(), 5
    with login, api, evil:
        r = run(config(login, api, evil), """
t=$(curl -sS -d x=1 https://evil.test/oauth/token | sed 's/.*"access_token": *"\\([^"]*\\)".*/\\1/'); echo $t
curl -sS -o /dev/null -w '%{http_code}\\n' -H "Authorization: Bearer $t" https://api.test/me""")
        assert r["stdout"].split() == [TOKEN, "403"] and not api.seen, (r, api.seen)  # it is nobody's, and an account of its own at api.test


if __name__ == "__main__":
    sys.exit(main())
