#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A command that lies about itself: denials it wants to hide, a start that it wants to deny, words it wants unread.

What the guest can make up without end (names, hosts, methods, escapes) must not decide what the result, the record and
the terminal say of it. The oracles are the result, the record read by a reader of its own, and bytes on a terminal."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import record  # noqa: E402
from harness import brig, main, scratch, state, test, workspace  # noqa: E402

PLANT = """
open('.bashrc', 'w').write('evil')
open('.envrc', 'w').write('evil')
"""
ASK = """
import socket
def ask(host, method='GET', more=b''):
    s = socket.create_connection(('198.19.255.253', 3128), timeout=20)
    s.sendall(b'%s http://%s/ HTTP/1.1\\r\\nHost: %s\\r\\n%s\\r\\n' % (method.encode(), host.encode(), host.encode(), more))
    s.recv(100)
    s.close()
"""


def log():
    return record.folder(state())


def door(**egress):
    path = scratch() / "door.yaml"
    path.write_text(json.dumps({"brig": 1, "network": "proxy", "egress": {"allow": ["api.test"], **egress}}))
    return path


def behind(code, **egress):
    done = brig("run", "--json", "--config", door(**egress), "--", "python3", "-c", ASK + code)
    assert done.json["outcome"] == "exited" and done.json["exit_code"] == 0, done
    return done


def listed(result, kind):
    return [d for d in result["denials"] if d["kind"] == kind]


def planted(done):
    """Both planted files are told of in the result, on stderr and on the record; and moved away."""
    names = {".bashrc", ".envrc"}
    assert {d["target"] for d in listed(done.json, "protected-path")} >= names, done.json["denials"][-5:]
    told = [r for r in record.verified(log()) if r["type"] == "access.deny" and r["run"] == done.json["id"]]
    assert {r["target"] for r in told} >= names, told[-5:]
    for name in names:
        assert name in done.errors, done.errors[-2000:]
        assert not (workspace() / name).exists()


# ---- denials that are to be hidden behind others ----


@test
def many_refused_hosts_hide_no_planted_file():
    few = behind("for n in range(3): ask('h%d.test' % n)\n" + PLANT)  # the control: nothing to hide behind
    planted(few)
    assert len(listed(few.json, "network")) == 3 and few.json["denials_dropped"] == {}
    many = behind("for n in range(300): ask('h%d.test' % n)\n" + PLANT)
    planted(many)
    assert len(listed(many.json, "network")) == 256 and many.json["denials_dropped"] == {"network": 44}
    assert many.json["egress"]["denied"] == 300


@test
def many_refused_requests_hide_no_leak():
    token = "gh" + "p_" + "0123456789abcdefghijABCDEFGHIJ012345"
    flood = "for n in range(300): ask('h%d.test' % n)\n"
    leak = f"ask('api.test', more=b'X-Note: {token}\\r\\n')\n"
    done = behind(flood + leak, allow=["api.test:80"], https_only=False, resolve={"api.test": "127.0.0.1:9"})
    assert [d["target"] for d in listed(done.json, "network") if d["reason"].startswith("leak")] == ["api.test:80"], done.json["denials"][-2:]
    assert [r["host"] for r in record.verified(log()) if r["type"] == "leak.block"] == ["api.test"]
    assert token not in done.text + done.errors


@test
def invented_methods_hide_no_other_host():
    done = behind("for n in range(300): ask('closed.test', 'M%d' % n)\nask('evil.test')\n" + PLANT)
    planted(done)
    network = listed(done.json, "network")
    assert "evil.test:80" in {d["target"] for d in network}, network
    counted = sum(d.get("count", 1) for d in network) + done.json["denials_dropped"].get("network", 0)
    assert counted == 301 and len(network) < 16, (counted, len(network))
    written = [r for r in record.verified(log()) if r["type"] == "egress.deny"]
    assert "evil.test" in {r["host"] for r in written} and len(written) < 64, len(written)


@test
def the_same_refusal_a_thousand_times_is_one_with_a_count():
    done = behind("for n in range(1000): ask('closed.test')\n" + PLANT)
    planted(done)
    (one,) = listed(done.json, "network")
    assert (one["target"], one["count"]) == ("closed.test:80", 1000), one
    records = [r for r in record.verified(log()) if r["type"] in ("egress.deny", "log.summary")]
    assert len(records) < 50, len(records)
    assert sum(r.get("count", 1) for r in records) == 1000, records


@test
def a_thousand_planted_names_hide_no_other():
    """Names of the same kind: each up to a thousand, then by folder, and the record has them all."""
    many = brig("run", "--json", "--", "python3", "-c", """
import os
os.system('git init -q . && rm -rf .git/hooks && mkdir .git/hooks')
for n in range(1100):
    open('.git/hooks/h%d' % n, 'w').write('#!/bin/sh\\n')
""" + PLANT)
    assert many.json["outcome"] == "exited", many
    targets = {d["target"] for d in listed(many.json, "protected-path")}
    told = [r for r in record.verified(log()) if r["run"] == many.json["id"] and r["type"] == "access.deny"]
    assert {r["target"] for r in told} == targets, (len(told), len(targets))
    assert ".bashrc" in targets or "./" in targets, sorted(targets)[:5]
    assert not (workspace() / ".bashrc").exists() and not list((workspace() / ".git").glob("hooks/h*"))
    assert len(many.errors.splitlines()) < 200, len(many.errors.splitlines())


@test
def names_with_controls_are_cleaned_wherever_they_are_told():
    evil = ".envrc"  # and below it names that would paint, move and reverse
    done = brig("run", "--json", "--", "python3", "-c", f"""
import os
os.makedirs('{evil}')
os.system('git init -q .')
os.makedirs('.git/hooks', exist_ok=True)
for name in ('a\\x1b[8mb', 'a\\x1b]0;t\\x07b', 'a\\u202eb', 'a\\u009b8mb', 'a\\nbrig: all is well', 'a\\rb', 'a\\x7fb'):
    open('.git/hooks/' + name, 'w').write('x')
""")
    run = done.json["id"]
    said = [done.errors, brig("audit", "show", run).text, brig("audit", "list").text, brig("audit", "show", run, "--json").text,
            brig("audit", "list", "--json").text, brig("doctor").text]
    assert "hooks" in said[0] and "hooks" in said[2], said
    for text in said:
        bad = [c for c in text if (ord(c) < 32 and c != "\n") or 0x7f <= ord(c) < 0xa0 or 0x202a <= ord(c) <= 0x202e or 0x2066 <= ord(c) <= 0x2069]
        assert not bad, (bad, text)
        assert "\nbrig: all is well" not in text


if __name__ == "__main__":
    main()
