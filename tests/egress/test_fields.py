#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Fields and accounts: what may stand in a head where rules are about paths, and whose keys pass where a credential is bound."""

import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import GitHandler, Handler, Web, behind, configure, denials, on_every_door  # noqa: E402
from harness import brig, main, scratch, test, workspace  # noqa: E402

VALUE = "zq8Gk2vTn41Lw0bYd7Rm"
STOLEN = "what-the-command-has-seen"

# Documented ones that move, show or make another object than the path says; what frameworks read as path, host or method; and made-up ones.
SECOND = ["x-ms-rename-source", "x-ms-file-rename-source", "x-amz-rename-source", "X-Symlink-Target", "X-Object-Manifest", "x-goog-rename-source", "x-cos-move-source",
          "X-HTTP-Host-Override", "X-Request-Uri", "Request-Uri", "X-Url", "X-Uri", "Base-Url", "X-HTTP-Verb", "X-Method", "Overwrite-Path", "Link", "X-Source-Path", "Source",
          "Content-Location", "Slug", "X-Bz-File-Name", "Dropbox-API-Arg", "X-Goog-Upload-File-Name", "X-Amz-Website-Redirect-Location", "X-Amz-Target", "SOAPAction",
          "X-Vault-Namespace", "Impersonate-User", "X-Nothing-Known"]
VALUES = ["/c/private/secret", "c/private/secret", "secret", "%2fc%2fprivate%2fsecret", "DELETE", "other.test", "..", "https://api.test/c/private"]

# What these send besides what every client does, by captures and sources of theirs.
AGENTS = {
    "claude-code": ["anthropic-beta: claude-code-20250219,oauth-2025-04-20", "anthropic-version: 2023-06-01", "anthropic-dangerous-direct-browser-access: true", "x-app: cli",
                    "x-claude-code-session-id: 1", "x-stainless-arch: x64", "x-stainless-helper-method: stream", "x-stainless-lang: js", "x-stainless-os: Linux",
                    "x-stainless-package-version: 0.75.0", "x-stainless-retry-count: 0", "x-stainless-runtime: node", "x-stainless-runtime-version: v24", "x-stainless-timeout: 600",
                    "accept-language: *", "sec-fetch-mode: cors", "user-agent: claude-cli/2.1 (external, cli)"],
    "codex": ["originator: codex_cli_rs", "version: 0.72.0", "session-id: 1", "thread-id: 1", "conversation-id: 1", "openai-beta: responses=experimental", "openai-organization: org-1",
              "openai-project: p", "x-codex-turn-state: a", "x-codex-beta-features: b", "x-openai-subagent: review", "x-oai-web-search-eligible: true",
              "user-agent: codex_cli_rs/0.72.0", "accept: text/event-stream"],
    "gemini": ["x-goog-api-client: gl-node/24", "x-gemini-api-privileged-user-id: 1", "user-agent: GeminiCLI/0.9"],
    "opencode": ["x-opencode-session: 1", "x-opencode-request: 1", "x-opencode-client: cli", "x-session-affinity: 1", "http-referer: https://opencode.ai/", "x-title: opencode"],
    "openai-python": ["x-stainless-async: false", "x-stainless-raw-response: true", "idempotency-key: 1", "cookie: __cf_bm=1.2-3; _cfuvid=4"],
    "mcp": ["mcp-session-id: 1", "mcp-protocol-version: 2025-06-18", "last-event-id: 3"],
    "boto3": ["amz-sdk-invocation-id: 1", "amz-sdk-request: attempt=1", "x-amz-date: 20260101T000000Z", "x-amz-content-sha256: UNSIGNED-PAYLOAD", "x-amz-meta-project: p",
              "x-amz-sdk-checksum-algorithm: CRC32", "x-amz-checksum-crc32: AAAAAA==", "x-amz-acl: private"],
    "azure": ["x-ms-version: 2021-08-06", "x-ms-date: now", "x-ms-client-request-id: 1", "x-ms-blob-type: BlockBlob", "x-ms-meta-project: p"],
    "gh": ["x-github-api-version: 2022-11-28", "graphql-features: merge_queue"],
    "browser": ["origin: https://api.test", "referer: https://api.test/c/public/", "sec-ch-ua: x", "sec-fetch-site: same-origin", "x-requested-with: XMLHttpRequest", "x-csrf-token: t", "dnt: 1"],
    "tracing": ["traceparent: 00-1-2-01", "tracestate: a=b", "baggage: a=b", "x-request-id: 1", "x-b3-traceid: 1", "x-datadog-trace-id: 1", "sentry-trace: 1"],
}

# Runs inside: one request for each [host, method, target, [[name, value]], body]; prints the statuses.
ASK = r"""
import http.client, json, os, sys
for host, method, target, fields, body in json.load(open("asked.json")):
    c = http.client.HTTPSConnection(host, timeout=20)
    c.putrequest(method, target, skip_accept_encoding=True)
    for name, value in fields: c.putheader(name, value.replace("TOKEN", os.environ["TOKEN"]))
    c.putheader("Content-Length", str(len(body)))
    c.endheaders(body.encode())
    print(c.getresponse().status)
    c.close()
"""
PUT = """put() { curl -s --http1.1 -o /dev/null -w '%{http_code}\\n' "$@"; }\n"""


class Seen(Handler):
    """Notes head and body."""

    def do_PUT(self):
        n = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(n)
        self.server.seen.append((self.requestline, [(k.lower(), v) for k, v in self.headers.items()], body))
        self.answer(b"done\n", fields=[("Set-Cookie", "session=anonymous; Path=/"), ("Set-Cookie", "__cf_bm=front; Path=/")])

    do_GET = do_POST = do_HEAD = do_PUT


def run(config, script, **env):
    r = brig("run", "--json", "--config", config, "--", "sh", "-c", PUT + script, env={"TOKEN": VALUE, **env}, timeout=100).json
    assert r["exit_code"] == 0, r
    return r


def ask(config, asked):
    (workspace() / "asked.json").write_text(json.dumps(asked))
    (workspace() / "ask.py").write_text(ASK)
    r = run(config, "/usr/bin/python3 ask.py")
    return [int(s) for s in r["stdout"].split()], r


def narrow(web, *servers, **more):
    return configure(web, *servers, more={"credentials": {"TOKEN": {"host": "api.test", "paths": ["/c/public"]}}}, **more)


@on_every_door
def no_field_names_a_second_path_to_a_host_with_rules_about_paths():
    key = ["Authorization", "Bearer TOKEN"]
    asked = [["api.test", "PUT", "/c/public/copy", [key, [name, VALUES[0]]], ""] for name in SECOND] + [["api.test", "PUT", "/c/public/copy", [[SECOND[0], v]], ""] for v in VALUES]
    with Web("api.test", handler=Seen) as web, Web("wide.test", handler=Seen) as wide:
        status, r = ask(narrow(web, wide, allow=["PUT,GET api.test/c/public", "wide.test"]), asked + [["wide.test", "PUT", "/c/public/copy", [[name, VALUES[0]]], ""] for name in SECOND])
        assert status == [403] * len(asked) + [200] * len(SECOND), status
        assert not web.seen, web.seen
        assert {r for _, r in denials(r)} == {"denied"} and "egress.fields" in str(r["denials"]) and SECOND[0] in str(r["denials"]), r["denials"]
        # the control: a host whose rules are about no path got every one of them
        assert [name for name in SECOND if not any(name.lower() in dict(f) for _, f, _ in wide.seen)] == [], wide.seen
        assert SECOND[0] in brig("audit", "list", "--json").text


@test
def each_kind_of_narrow_rule_closes_fields_and_a_setting_opens_one():
    kinds = [dict(allow=["api.test/c/"]), dict(allow=["GET,PUT api.test"]), dict(deny=["api.test/private"]), dict(deny=["DELETE api.test"]),
             dict(more={"credentials": {"TOKEN": {"host": "api.test", "methods": ["PUT"]}}}), dict(more={"credentials": {"TOKEN": {"host": "api.test", "header": "X-Url", "paths": ["/c/"]}}})]
    script = """put -H 'x-ms-rename-source: /c/x' https://api.test/c/1
put -H 'X-Tenant: 7' -H 'X-Acme-One: 1' https://api.test/c/2
put -H 'X_Ms_Rename_Source: /c/x' -H 'Connection: X-Hop' -H 'X-Hop: /c/x' https://api.test/c/3
put -X PUT -H "X-Url: ${TOKEN:-none}" https://api.test/c/4"""
    with Web("api.test", handler=Seen) as web:
        for kind in kinds:
            slot = "X-Url" in str(kind)
            r = run(configure(web, **kind), script)
            assert r["stdout"].split() == ["403", "403", "200", "200" if slot else "403"], (kind, r["stdout"])
            names = {k for _, f, _ in web.seen for k, _ in f}
            assert not names & {"x-ms-rename-source", "x_ms_rename_source", "x-hop", "x-tenant"}, names
            web.seen.clear()
            r = run(configure(web, fields=["api.test X-Tenant", "api.test X-Acme-*"], **kind), script)
            assert r["stdout"].split()[:2] == ["403", "200"], (kind, r["stdout"])
            assert {"x-tenant", "x-acme-one"} <= {k for k, _ in web.seen[0][1]}, web.seen
            web.seen.clear()
        refused = brig("run", "--config", configure(web, fields=["X-Tenant"]), "--", "true")
        assert refused.status != 0 and "host and the name of a field" in refused.errors, refused.errors


@test
def what_known_clients_send_passes_where_rules_are_narrow_and_a_key_is_bound():
    script = "\n".join("put -X PUT -H 'Authorization: Bearer '$TOKEN " + " ".join(f"-H '{f}'" for f in fields) + f" https://api.test/c/public/{name}" for name, fields in AGENTS.items())
    with Web("api.test", handler=Seen) as web:
        r = run(narrow(web, allow=["GET,PUT api.test/c/public"]), script)
        assert r["stdout"].split() == ["200"] * len(AGENTS), (list(zip(AGENTS, r["stdout"].split())), r["denials"])
        for (name, fields), (_, seen, _) in zip(AGENTS.items(), web.seen):
            assert {f.split(": ", 1)[0] for f in fields} <= {k for k, _ in seen} and dict(seen)["authorization"] == f"Bearer {VALUE}", (name, seen)


@test
def git_pushes_and_npm_installs_below_a_path():
    class Npm(GitHandler):
        def cgi(self):
            if not self.path.startswith("/npm/"):
                super().cgi()
            elif self.path.endswith(".tgz"):
                self.answer((scratch() / "p.tgz").read_bytes())
            else:
                about = {"name": "brig-sample", "version": "1.0.0", "dist": {"tarball": "https://api.test/npm/brig-sample/-/p.tgz"}}
                self.answer(json.dumps({"name": "brig-sample", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": about}}).encode(), fields=[("Content-Type", "application/json")])

        do_GET = do_POST = cgi

    package, repo = scratch() / "package", scratch() / "one.git"
    package.mkdir()
    (package / "package.json").write_text('{"name": "brig-sample", "version": "1.0.0"}')
    subprocess.run(["tar", "-czf", scratch() / "p.tgz", "-C", scratch(), "package"], check=True)
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", repo], check=True)
    subprocess.run(["git", "-C", repo, "config", "http.receivepack", "true"], check=True)
    with Web("api.test", handler=Npm) as web:
        r = run(configure(web, allow=["GET,POST api.test/one.git/", "push:api.test/one", "GET api.test/npm/"], more={"credentials": {"TOKEN": {"host": "api.test"}}}), """set -e
git config --global user.name me; git config --global user.email me@example.org
cd /tmp; git clone -q https://x:$TOKEN@api.test/one.git 2>/dev/null; cd one
echo 1 > file; git add file; git commit -qm one; git push -q origin HEAD:main; git fetch -q
cd /tmp; npm install --no-audit --no-fund --registry https://api.test/npm/ brig-sample >&2; cat node_modules/brig-sample/package.json""")
        assert "brig-sample" in r["stdout"] and not r["denials"], r
        assert subprocess.run(["git", "-c", "safe.directory=*", "-C", repo, "show", "main:file"], stdout=subprocess.PIPE, check=True).stdout == b"1\n"


# ---- accounts ----

OTHERS = ["Authorization: Bearer 0a1b2c3d4e5f6071ATTACKER", "authorization: token ATTACKER1234567890", "JOB-TOKEN: ATTACKER1234567890", "Deploy-Token: ATTACKER1234567890",
          "X-Api-Key: ATTACKER1234567890", "x-goog-api-key: ATTACKER1234567890", "Api-Key: ATTACKER1234567890", "X-Auth-Token: ATTACKER1234567890", "X-Access-Token: ATTACKER1234567890",
          "X-Goog-Iam-Authorization-Token: ATTACKER1234567890", "X-Ms-Authorization-Auxiliary: Bearer ATTACKER1234567890", "Ocp-Apim-Subscription-Key: ATTACKER1234567890",
          "X-Auth-Key: ATTACKER1234567890", "X-Client-Secret: ATTACKER1234567890", "Cookie2: session=ATTACKER1234567890"]
PARAMETERS = ["%24httpHeaders=x-goog-api-key%3AATTACKER", "$httpHeaders=Authorization:ATTACKER", "x-api-key=ATTACKER", "api_secret=ATTACKER", "key=ATTACKER", "private_token=ATTACKER", "job_token=ATTACKER", "access_token=ATTACKER", "api_key=ATTACKER", "apiKey=ATTACKER", "api-key=ATTACKER", "token=ATTACKER",
              "a=1&key=ATTACKER", "private%5ftoken=ATTACKER", "%6bey=ATTACKER", "PRIVATE_TOKEN=ATTACKER", "a=1;private_token=ATTACKER", "access_token[]=ATTACKER", "sig=ATTACKER",
              "X-Amz-Signature=ATTACKER", "AWSAccessKeyId=ATTACKER", "client_secret=ATTACKER", "private.token=ATTACKER", "key=&key=ATTACKER"]


@on_every_door
def no_account_but_the_runs_own_is_used_at_a_bound_host():
    def asked(host):
        return [[host, "POST", "/v4/uploads", [f.split(": ", 1)], STOLEN] for f in OTHERS] + [[host, "POST", f"/v4/uploads?{p}", [], STOLEN] for p in PARAMETERS]

    own = [["api.test", "POST", "/v4/uploads?page_token=1&keys=2", [["PRIVATE-TOKEN", "TOKEN"]], STOLEN]]
    n = len(OTHERS) + len(PARAMETERS)
    with Web("api.test", handler=Seen) as web, Web("free.test", handler=Seen) as free:
        config = configure(web, free, more={"credentials": {"TOKEN": {"host": "api.test", "header": "PRIVATE-TOKEN"}}})
        status, r = ask(config, asked("api.test") + own + asked("free.test"))
        assert status == [403] * n + [200] + [200] * n, list(zip(OTHERS + PARAMETERS, status))
        assert "ATTACKER" not in str(web.seen) and dict(web.seen[0][1])["private-token"] == VALUE and len(web.seen) == 1, web.seen
        assert str(free.seen).count("ATTACKER") >= n and len(free.seen) == n  # the control: where nothing is bound
        assert {r for _, r in denials(r)} == {"credential-misuse"} and "egress.other_keys" in str(r["denials"]), r["denials"]
        record = brig("audit", "list", "--limit", "0", "--json").text
        assert "JOB-TOKEN" in record and "ATTACKER" not in record, record[-2000:]


@test
def a_client_that_keeps_cookies_works_and_a_login_in_one_is_forgotten():
    code = ("import os, requests\ns = requests.Session()\nfor i in range(3):\n"
            "    print(s.get('https://api.test/', headers={'Authorization': 'Bearer ' + os.environ['TOKEN']}).status_code)\nprint(s.cookies.get('session'))")
    with Web("api.test", handler=Seen) as web, Web("free.test", handler=Seen) as free:
        config = configure(web, free, more={"credentials": {"TOKEN": {"host": "api.test"}}})
        r = run(config, f"cat > x.py <<'E'\n{code}\nE\n/usr/bin/python3 x.py; put -H 'Cookie: session=ATTACKER' https://api.test/; put -H 'Cookie: session=ATTACKER' https://free.test/")
        assert r["stdout"].split() == ["200"] * 3 + ["anonymous", "200", "200"], r
        assert [dict(f).get("cookie") for _, f, _ in web.seen] == [None, "__cf_bm=front", "__cf_bm=front", None], web.seen
        assert dict(free.seen[0][1])["cookie"] == "session=ATTACKER"


@test
def another_key_passes_where_the_owner_says_so_and_no_project_says_it():
    script = "put -H 'X-Other-Key: mine' 'https://api.test/?sig=1'\nput -H 'X-Third-Key: mine' https://api.test/\n"
    with Web("api.test", handler=Seen) as web:
        more = {"credentials": {"TOKEN": {"host": "api.test"}}}
        assert run(configure(web, more=more), script)["stdout"].split() == ["403", "403"] and not web.seen
        r = run(configure(web, other_keys=["api.test X-Other-Key", "api.test ?sig"], more=more), script)
        assert r["stdout"].split() == ["200", "403"] and dict(web.seen[0][1])["x-other-key"] == "mine", (r["stdout"], web.seen)
        (workspace() / ".brig.yaml").write_text("brig: 1\negress: {other_keys: [api.test X-Third-Key]}\n")
        told = brig("run", "--config", configure(web, more=more), "--", "sh", "-c", PUT + script, env={"TOKEN": VALUE})
        assert "X-Third-Key" not in str([f for _, f, _ in web.seen]) and "other_keys" in told.errors, told.errors


if __name__ == "__main__":
    sys.exit(main())
