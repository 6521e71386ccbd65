#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Requests to AWS, signed anew at the door: real clients, a server that verifies each signature by itself, and what does not get one."""

import hashlib
import hmac
import json
import pathlib
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import Handler, Web, behind, configure, denials  # noqa: E402
from harness import brig, main, test  # noqa: E402

ID, SECRET, TOKEN = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "FwoGZXIvYXdzEJr//EXAMPLE+TOKEN/of-one-session=="
KEY = {"AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": SECRET}
S3, STS, IAM, DDB = "s3.us-east-1.amazonaws.com", "sts.us-east-1.amazonaws.com", "iam.amazonaws.com", "dynamodb.us-east-1.amazonaws.com"
BUCKET = "some-bucket." + S3
GLOBAL = "some-bucket.s3.amazonaws.com", "sts.amazonaws.com"  # what older clients ask in the first region


def quote(text, safe=""):
    return urllib.parse.quote(urllib.parse.unquote_to_bytes(text), safe=safe + "-_.~")


def signature(command, target, fields, payload, authorization):
    """What the server expects: written from AWS's description, with nothing of brig's or botocore's."""
    parts = dict(p.strip().split("=", 1) for p in authorization.split(" ", 1)[1].split(","))
    key_id, day, region, service, last = parts["Credential"].split("/")
    assert key_id == ID and last == "aws4_request", key_id
    path, _, query = target.partition("?")
    pairs = sorted((quote(k), quote(v)) for k, _, v in (p.partition("=") for p in query.split("&") if p))
    lower = [(k.lower(), " ".join(v.split())) for k, v in fields]
    names = parts["SignedHeaders"].split(";")
    assert "host" in names and all(k in names for k, _ in lower if k.startswith("x-amz-")), names
    canonical = "\n".join([command, quote(path, "/") if service == "s3" else urllib.parse.quote(path, safe="/-_.~"),
                           "&".join(f"{k}={v}" for k, v in pairs),
                           *(f"{n}:" + ",".join(v for k, v in lower if k == n) for n in names), "", ";".join(names), payload])
    key = ("AWS4" + SECRET).encode()
    for step in (day, region, service, "aws4_request"):
        key = hmac.new(key, step.encode(), hashlib.sha256).digest()
    text = "\n".join(["AWS4-HMAC-SHA256", dict(lower)["x-amz-date"], f"{day}/{region}/{service}/aws4_request", hashlib.sha256(canonical.encode()).hexdigest()])
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest(), parts["Signature"]


def plain(body):
    """What is in the chunks of aws-chunked."""
    out = b""
    while True:
        size, _, body = body.partition(b"\r\n")
        n = int(size, 16)
        if not n:
            return out, body
        out, body = out + body[:n], body[n + 2:]


class Aws(Handler):
    """Objects in memory, for whoever signs with the true key; every other request is answered as AWS does."""

    store = {}

    def read(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            out = b""
            while size := int(self.rfile.readline(), 16):
                out += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return out
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def reply(self):
        body = self.read()
        said = self.headers.get("X-Amz-Content-SHA256")
        got = {"line": self.requestline, "fields": self.headers.items(), "body": body, "why": None}
        self.server.seen.append(got)
        try:
            payload = said or hashlib.sha256(body).hexdigest()
            if said and len(said) == 64:
                assert said == hashlib.sha256(body).hexdigest(), "another body"
            token = self.headers.get("X-Amz-Security-Token")
            assert token in (None, TOKEN), "another token"
            want, have = signature(self.command, self.path, self.headers.items(), payload, self.headers["Authorization"])
            assert want == have, "SignatureDoesNotMatch"
        except Exception as e:
            got["why"] = repr(e)
            self.answer(b"<Error><Code>SignatureDoesNotMatch</Code></Error>", 403, [("Content-Type", "application/xml")])
            return
        self.serve(body)

    def serve(self, body):
        host, path = self.headers["Host"], self.path.partition("?")[0]
        if self.headers.get("Content-Encoding", "").startswith("aws-chunked"):
            body, _ = plain(body)
        if host in (STS, IAM, *GLOBAL[1:]):
            self.answer(b"<GetCallerIdentityResponse xmlns='https://sts.amazonaws.com/doc/2011-06-15/'><GetCallerIdentityResult><Arn>arn:aws:iam::1:user/me</Arn>"
                        b"<UserId>" + ID.encode() + b"</UserId><Account>1</Account></GetCallerIdentityResult></GetCallerIdentityResponse>", 200, [("Content-Type", "text/xml")])
        elif host == DDB:
            self.answer(json.dumps({"TableNames": ["a", str(len(body))]}).encode(), 200, [("Content-Type", "application/x-amz-json-1.0")])
        elif self.command == "PUT":
            self.store[path] = body
            self.answer(b"", 200, [("ETag", '"' + hashlib.md5(body).hexdigest() + '"')])
        elif path in self.store:
            self.answer(self.store[path], 200, [("ETag", '"x"'), ("Last-Modified", "Fri, 24 May 2013 00:00:00 GMT"), ("Content-Type", "binary/octet-stream")])
        else:
            self.answer(b"<?xml version='1.0'?><ListBucketResult><Name>some-bucket</Name><Contents><Key>a b</Key><Size>3</Size></Contents></ListBucketResult>", 200,
                        [("Content-Type", "application/xml")])

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = reply


def aws(*more):
    Aws.store = {}
    return Web(S3, BUCKET, *GLOBAL, STS, IAM, DDB, "s3.eu-west-3.amazonaws.com", "minio.test", *more, handler=Aws)


def door(web, *more, **egress):
    return configure(web, *more, **{"allow": [*web.names], "more": {"use_credentials": ["aws"], "env": {"set": {"AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}}}, **egress})


# Botocore's own words around each case: prints the name, and what came of it.
BOTO = r"""
import botocore.session, botocore.config, json, os, sys
s = botocore.session.get_session()
def client(name, **c):
    return s.create_client(name, config=botocore.config.Config(retries={'max_attempts': 0}, s3={'addressing_style': 'virtual'}), **c)
def say(name, f):
    try: r = f()
    except Exception as e: r = type(e).__name__ + ' ' + str(e)
    print(name, r, flush=True)
print('id', os.environ['AWS_ACCESS_KEY_ID'][:5], len(os.environ['AWS_SECRET_ACCESS_KEY']), 'AWS_SESSION_TOKEN' in os.environ)
"""


def records(run):
    """What the leak scan found."""
    return [e for e in json.loads(brig("audit", "list", "--json", "--limit", "500").text) if e.get("run") == run["id"] and (e["type"].startswith("leak.") or e.get("of", "").startswith("leak."))]


def said(r):
    return dict(line.split(" ", 1) for line in r["stdout"].splitlines() if " " in line)


@test
def botocore_needs_no_setting_and_no_key():
    code = BOTO + r"""
s3 = client('s3')
say('put', lambda: s3.put_object(Bucket='some-bucket', Key="a b/c+d&e=f?%41~'(1)*", Body=b'one body', Metadata={'k': 'two  blanks'})['ResponseMetadata']['HTTPStatusCode'])
say('get', lambda: s3.get_object(Bucket='some-bucket', Key="a b/c+d&e=f?%41~'(1)*")['Body'].read())
say('list', lambda: s3.list_objects_v2(Bucket='some-bucket', Prefix='a /&=+%', Delimiter='/', MaxKeys=2)['Contents'][0]['Key'])
say('who', lambda: client('sts').get_caller_identity()['Arn'])
say('tables', lambda: client('dynamodb').list_tables(Limit=7)['TableNames'])
say('global', lambda: s.create_client('iam').meta.endpoint_url)
"""
    with aws() as web:
        for token in (None, TOKEN):
            r = behind(door(web), "/usr/bin/python3", "-c", code, env={**KEY, **({"AWS_SESSION_TOKEN": token} if token else {})})
            got = said(r)
            assert got["put"] == "200" and got["get"] == "b'one body'" and got["list"] == "a b", (r, [s for s in web.seen if s["why"]])
            assert got["who"].startswith("arn:aws:iam") and got["tables"].startswith("['a', '"), (r, [s for s in web.seen if s["why"]])
            assert got["id"] == f"brig- 37 {bool(token)}", r["stdout"]
            assert SECRET not in json.dumps(r) and ID not in json.dumps(r), "the key came back"
        assert not [s for s in web.seen if s["why"]] and len(web.seen) == 10
        # Control: the same server turns a wrong key away, and so does this one without the door's help.
        assert signature("GET", "/", [("host", "x"), ("x-amz-date", "20130524T000000Z")], "x",
                         f"AWS4-HMAC-SHA256 Credential={ID}/20130524/r/s3/aws4_request, SignedHeaders=host;x-amz-date, Signature=0")[0] != "0"


@test(as_user="user")
def the_hash_of_what_is_sent_is_told_as_nothing_there_alone():
    code = RAW + r"""
ask('signed', 'BUCKET', payload=hashlib.sha256(b'x').hexdigest(), body=b'x')
if len(sys.argv) > 1:
    DIGITS = hashlib.sha256(b'of another thing').hexdigest()
    ask('meta', 'BUCKET', more=['X-Amz-Meta-A: ' + DIGITS])
    ask('body', 'BUCKET', body=DIGITS.encode())
    ask('path', 'BUCKET', path='/' + DIGITS)
    ask('plain', 'plain.test', auth='Bearer x', payload=DIGITS)
    ask('unsigned', 'plain.test', key='somebody', payload=DIGITS)
""".replace("BUCKET", BUCKET)
    with aws("plain.test") as web:
        for rules in ({}, {"hex64": "block"}):
            r = behind(door(web, more={"use_credentials": ["aws"], "leaks": {"rules": rules}}), "/usr/bin/python3", "-c", code, env=KEY)
            assert said(r)["signed"].startswith("200") and records(r) == [], r
        r = behind(door(web), "/usr/bin/python3", "-c", code, "all", env=KEY)
        # The control: five other places; each pattern is told once a host and part, further ones are counted.
        told = records(r)
        assert {e.get("pattern", e.get("kind")) for e in told} == {"hex64"}, told
        assert sum(e.get("count", 1) for e in told) >= 5, told


@test
def the_oracle_agrees_with_botocore_s_signer():
    from botocore.auth import S3SigV4Auth, SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    for kind, service, path in ((S3SigV4Auth, "s3", "/a%20b/c%2Bd"), (SigV4Auth, "dynamodb", "/a/b%20c")):
        q = AWSRequest("POST", f"https://x.amazonaws.com{path}?b=2&a=1%202", headers={"Host": "x.amazonaws.com", "X-Amz-Meta-A": "one  two"}, data=b"text")
        kind(Credentials(ID, SECRET, None), service, "us-east-1").add_auth(q)
        want, have = signature("POST", f"{path}?b=2&a=1%202", q.headers.items(), hashlib.sha256(b"text").hexdigest(), q.headers["Authorization"])
        assert want == have, service


@test
def the_aws_program_copies_files_and_asks_who_it_is():
    with aws() as web:
        line = (f"head -c 300000 /dev/zero | tr '\\0' x > /tmp/f && aws s3api put-object --bucket some-bucket --key big --body /tmp/f >/dev/null && "
                f"aws s3api get-object --bucket some-bucket --key big /tmp/g >/dev/null && cmp /tmp/f /tmp/g && aws sts get-caller-identity --query Arn --output text")
        r = behind(door(web), "sh", "-c", line, env=KEY)
        assert r["exit_code"] == 0 and r["stdout"].strip() == "arn:aws:iam::1:user/me", (r, [s["why"] for s in web.seen])
        assert not [s for s in web.seen if s["why"]]


# A client of our own, which signs rightly with what it has; `change` breaks the request before it is sent.
RAW = r"""
import datetime, hashlib, hmac, os, socket, ssl, sys
ID, SECRET = os.environ['AWS_ACCESS_KEY_ID'], os.environ['AWS_SECRET_ACCESS_KEY']
NOW = datetime.datetime.utcnow().strftime('%Y%m%dT%H%M%SZ')
def ask(name, host, path='/k', scope='us-east-1/s3', signed='host;x-amz-content-sha256;x-amz-date', payload='UNSIGNED-PAYLOAD', key=None, date=None, more=(), body=b'', auth=None, twice=False, method='PUT'):
    date = date or NOW
    value = auth or f'AWS4-HMAC-SHA256 Credential={key or ID}/{date[:8]}/{scope}/aws4_request, SignedHeaders={signed}, Signature=' + '0' * 64
    head = f'{method} {path} HTTP/1.1\r\nHost: {host}\r\nX-Amz-Date: {date}\r\n' + (f'X-Amz-Content-SHA256: {payload}\r\n' if payload else '')
    head += ''.join(f'Authorization: {value}\r\n' for _ in range(1 + twice)) + ''.join(m + '\r\n' for m in more)
    s = ssl.create_default_context().wrap_socket(socket.create_connection((host, 443), timeout=20), server_hostname=host)
    s.sendall((head + f'Content-Length: {len(body)}\r\nConnection: close\r\n\r\n').encode())
    if 'Expect: 100-continue' in more: print(name + 'first', s.recv(4096).split()[1].decode())
    s.sendall(body)
    r = b''
    while d := s.recv(65536): r += d
    print(name, r.split()[1].decode(), r.partition(b'\r\n\r\n')[2].decode()[:300].replace('\n', ' '), flush=True)
"""


@test
def nothing_is_signed_for_another_host_service_region_or_key():
    code = RAW + r"""
H = 'BUCKET'
ask('control', H)
ask('region', H, scope='eu-west-3/s3')
ask('service', H, scope='us-east-1/iam')
ask('host', 's3.eu-west-3.amazonaws.com')
ask('global', 'iam.amazonaws.com', scope='us-east-1/sts')
ask('elsewhere', 'minio.test')
ask('otherkey', H, key='AKIAQQQQQQQQQQQQQQQQ')
ask('nohost', H, signed='x-amz-date')
ask('second', H, twice=True)
ask('twofields', H, more=['X-Amz-Date: ' + NOW])
ask('presigned', H, path='/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=' + ID + '&X-Amz-Signature=0', auth='x')
ask('presigned2', H, path='/k?x-amz-%63redential=a')
ask('asymmetric', H, auth='AWS4-ECDSA-P256-SHA256 Credential=' + ID + '/20130524/s3/aws4_request, SignedHeaders=host, Signature=00')
ask('chunks', H, payload='STREAMING-AWS4-HMAC-SHA256-PAYLOAD')
ask('chunks2', H, payload='STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER')
ask('old', H, date='20130524T000000Z')
ask('smuggled', H, more=['X-Amz-Acl: public-read'])
ask('query', H, path='/a//b/../c?b=%20&a=%2f&A=1&a=+&x')
ask('secret', H, more=['X-Amz-Meta-A: ' + SECRET])
ask('token', H, more=['X-Amz-Security-Token: somebody-elses-token'])
""".replace("BUCKET", BUCKET)
    with aws() as web:
        r = behind(door(web), "/usr/bin/python3", "-c", code, env=KEY)
        got = said(r)
        passed = {k for k, v in got.items() if v.startswith("200")}
        assert passed == {"control", "smuggled"} | ({"query"} & passed), (r["stdout"], r["stderr"], [s["why"] for s in web.seen])
        # Whatever the server made of it, the door signed what it sent.
        assert all(s["why"] is None for s in web.seen), [(s["line"], s["why"]) for s in web.seen]
        for name, words in {"region": "eu-west-3", "service": "iam", "host": "signed for s3", "elsewhere": "placeholder", "otherkey": "something else", "nohost": "cannot read",
                            "second": "two fields", "twofields": "twice", "presigned": "presigned", "presigned2": "presigned", "asymmetric": "SigV4A", "chunks": "one by one",
                            "chunks2": "one by one", "old": "not now", "secret": "placeholder", "token": "takes a key"}.items():
            assert words in got[name] and got[name].startswith("403"), (name, got[name])
        smuggled = next(s for s in web.seen if any(k.lower() == "x-amz-acl" for k, _ in s["fields"]))
        assert "x-amz-acl" in dict(smuggled["fields"])["Authorization"]
        assert {reason for _, reason in denials(r)} == {"credential-misuse"}


@test
def a_host_of_one_s_own_is_named():
    code = RAW + "ask('own', 'minio.test', scope='us-east-1/s3'); ask('aws', 'BUCKET')".replace("BUCKET", BUCKET)
    with aws() as web:
        more = {"credentials": {"AWS_SECRET_ACCESS_KEY": {"service": "aws", "host": "minio.test"}}}
        r = behind(door(web, more=more), "/usr/bin/python3", "-c", code, env=KEY)
        got = said(r)
        assert got["own"].startswith("200") and got["aws"].startswith("403"), (r, [s["why"] for s in web.seen])


@test
def bodies_pass_as_they_are_or_not_at_all():
    code = RAW + r"""
import hashlib
H = 'BUCKET'
LEAK = b'ghp_' + b'aBcD3fGh1jKlMn0pQrStUvWxYz1234567890'[:36]
def chunks(*parts, end=b'0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n'):
    return b''.join(b'%x\r\n%s\r\n' % (len(p), p) for p in parts) + end
T = dict(payload='STREAMING-UNSIGNED-PAYLOAD-TRAILER', more=['Content-Encoding: aws-chunked', 'X-Amz-Trailer: x-amz-checksum-crc32', 'X-Amz-Decoded-Content-Length: 9'])
ask('control', H, body=b'plain text')
ask('trailer', H, path='/t', body=chunks(b'some ', b'text'), **T)
ask('leak', H, body=b'x ' + LEAK + b' y')
ask('split', H, body=chunks(b'x ' + LEAK[:20], LEAK[20:] + b' y'), **T)
ask('broken', H, body=b'5\r\nabc', **T)
ask('hashless', 'STS', path='/', scope='us-east-1/sts', payload=None, signed='host;x-amz-date', body=b'Action=GetCallerIdentity&Version=2011-06-15', method='POST')
ask('large', 'STS', path='/', scope='us-east-1/sts', payload=None, signed='host;x-amz-date', body=b'x' * 3000000, method='POST')
ask('toolarge', 'STS', path='/', scope='us-east-1/sts', payload=None, signed='host;x-amz-date', body=b'x' * 9000000, method='POST')
ask('empty', 'STS', path='/', scope='us-east-1/sts', payload=None, signed='host;x-amz-date', method='POST')
ask('asked', 'STS', path='/', scope='us-east-1/sts', payload=None, signed='host;x-amz-date', method='POST', body=b'abc', more=['Expect: 100-continue'])
""".replace("BUCKET", BUCKET).replace("STS", STS)
    with aws() as web:
        r = behind(door(web), "/usr/bin/python3", "-c", code, env=KEY)
        got = said(r)
        assert [k for k, v in got.items() if v.startswith("200")] == ["control", "trailer", "hashless", "large", "empty", "asked"] and got["askedfirst"] == "100", (r, [s["why"] for s in web.seen])
        assert Aws.store["/t"] == b"some text"
        assert not [s for s in web.seen if s["why"] or b"ghp_" in s["body"]], [s["why"] for s in web.seen]
        assert [got[k][:3] for k in ("leak", "split", "broken", "toolarge")] == ["403", "403", "400", "400"], r["stdout"]
        assert ["leak"] * 2 == [reason for _, reason in denials(r) if reason == "leak"], r["denials"]


@test
def a_run_says_what_of_the_key_is_missing():
    with aws() as web:
        config = door(web)
        for env, words in (({}, "no variable of it is set"), ({"AWS_ACCESS_KEY_ID": ID}, "the secret that belongs to it is not set"),
                           ({"AWS_SECRET_ACCESS_KEY": SECRET}, "the id of the key that belongs to it is not set")):
            r = brig("run", "--config", config, "--", "true", env=env)
            assert r.status != 0 and words in r.errors, (env, r.stderr)
            # One half is of no use, and the key may be that of a profile.
            assert "hint: export AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY;" in r.errors and "aws configure export-credentials" in r.errors, (env, r.stderr)
        assert brig("run", "--config", config, "--", "true", env=KEY).status == 0


@test
def a_note_names_no_rule_that_is_refused():
    """No rule takes every customer's names; and while brig learns the door is open."""
    options = ("--credential", "aws", "--", "true")
    done = brig("run", "--allow", "other.test", *options, env=KEY)
    assert done.status == 0 and "none of these is allowed: --allow NAME.amazonaws.com" in done.errors, done.errors
    assert brig("run", "--allow", "*.amazonaws.com", *options, env=KEY).status == 125  # the control
    done = brig("learn", *options, env=KEY)
    assert done.status == 0 and "is for" not in done.errors, done.errors


if __name__ == "__main__":
    sys.exit(main())
