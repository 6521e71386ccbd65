#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The record as people and programs read it: `brig audit`, jq on the segments, sqlite3 on the index."""

import csv
import io
import json
import os
import pathlib
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import PATIENCE, brig, brig_argv, brig_environment, brig_path, identity, installed_hidden, main, scratch, start_brig, test, uid, wait_until, workspace  # noqa: E402

RUN = re.compile(r"[0-9a-f]{32}")
# C0 but newline (and the CR of CSV), DEL, C1, and what turns text around.
OBEYED = re.compile("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\x7fname"


def record():
    return pathlib.Path(brig_environment()["XDG_STATE_HOME"]) / "brig/audit"


def audit(*args, status=0, **more):
    done = brig("audit", *args, **more)
    assert done.status == status, (done.argv, done.status, done.errors, done.text)
    return done


def as_starter(*argv):
    """Another program, run as the one who starts brig."""
    done = subprocess.run([*brig_argv()[:-1], *map(str, argv)], capture_output=True, check=False, env=brig_environment())
    assert done.returncode == 0, (argv, done.stderr)
    return done.stdout.decode()


def some_runs():
    """Four runs that end in different ways; their results."""
    return [brig("run", "--json", "--", "true").json,
            brig("run", "--json", "--", "sh", "-c", "exit 3").json,
            brig("run", "--json", "--timeout", "300ms", "--", "sleep", "20").json,
            brig("run", "--json", "--", "no-such-program").json]


def handmade(records, folder="made"):
    """A folder with these records, {type, host...} each. Nothing in it is signed: readers look at lines alone."""
    place = scratch() / folder
    place.mkdir(mode=0o700)
    with (place / "000001.jsonl").open("w") as f:
        for seq, own in enumerate(records, 1):
            head = {"seq": seq, "time": f"2026-01-02T03:{seq // 60:02}:{seq % 60:02}.000000Z", "type": own["type"],
                    "run": own.get("run", f"{seq // 4:032x}")}
            line = {**head, **own, "prev": "0" * 64, "mac": f"{seq:064x}"}
            f.write(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n")
    return place


@test
def what_a_run_did_is_on_the_record():
    results = some_runs()
    ended = {r["run"]: r for r in audit("list", "--type", "sandbox.exec", "--json").json}
    for result in results:
        r = ended[result["id"]]
        assert r["type"] == "sandbox.exec" and r["outcome"] == result["outcome"], (r, result)
        assert r["principal"] == f"uid:{uid()}"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", r["time"])
    assert [ended[r["id"]].get("outcome") for r in results[:3]] == ["exited", "exited", "timeout"]
    assert ended[results[1]["id"]]["rc"] == 3
    assert "prev" not in r and "mac" not in r


@test
def what_a_run_changed_that_needs_a_look_is_on_the_record():
    """As many as there is room for, one by one, and the rest as a number; a run that changed nothing has none."""
    result = brig("run", "--json", "--", "sh", "-c", "echo {} > package.json; echo x > Makefile; echo x > CLAUDE.md").json
    told = {t["path"]: t["reason"] for t in result["changed_trust"]}
    assert "package.json" in told and "CLAUDE.md" in told, told
    objects = audit("show", result["id"], "--json").json
    assert {o["target"]: o["reason"] for o in objects if o["type"] == "trust.change"} == told, objects
    story = audit("show", result["id"]).text
    assert re.search(r"look at   ?package.json: ", story) and re.search(r"denials +0\n", story), story
    assert audit("runs", "--run", result["id"], "--json").json[0]["changed_trust"] == len(told)
    assert not any(o["type"] == "trust.change" for o in audit("security-events", "--json").json)
    many = brig("run", "--json", "--", "sh", "-c", "for k in package.json CLAUDE.md .npmrc .gitmodules .env; do for i in $(seq 20); do mkdir -p d$i; echo $k > d$i/$k; done; done").json
    found = audit("show", many["id"], "--json").json
    one = [o for o in found if o["type"] == "trust.change"]
    more = [o["count"] for o in found if o["type"] == "log.summary" and o["of"] == "trust.change"]
    assert len(one) <= 64 and len(one) + sum(more) == len(many["changed_trust"]) + many["changed_trust_more"] > 64, (len(one), more)
    assert audit("runs", "--run", many["id"], "--json").json[0]["changed_trust"] == len(one) + sum(more)
    quiet = brig("run", "--json", "--", "true").json
    assert not any(o["type"] == "trust.change" for o in audit("show", quiet["id"], "--json").json)


@test
def alone_it_lists():
    done = brig("audit")
    assert done.status == 0 and "there is no record yet" in done.errors, done.errors
    assert brig("run", "--", "true").status == 0
    assert "sandbox.exec" in audit().text and audit().text == audit("list").text


@test
def a_run_reads_as_a_story():
    result = some_runs()[2]
    for name in (result["id"], result["id"][:12]):
        told = audit("show", name).text
        for part in (result["id"], "sleep", f"uid:{uid()}", "ended by its time limit", "limit     timeout", "seccomp", "native"):
            assert part in told, (part, told)
    assert RUN.search(audit("show", "last").text).group() != result["id"]
    objects = audit("show", result["id"], "--json").json
    assert {o["run"] for o in objects} == {result["id"]} and objects[0]["type"] == "sandbox.create"
    # The same in a line, and as an object.
    assert re.search(rf"{result['id'][:8]}  -\s+timeout\s.* 0  sleep ", audit("runs").text), audit("runs").text
    told = audit("runs", "--run", result["id"], "--json").json
    assert [(o["run"], o["outcome"], o["limits"], o["live"]) for o in told] == [(result["id"], "timeout", 1, False)], told
    assert len(audit("runs", "-n", "2", "--json").json) == 2 and audit("runs", "--live", "--json").json == []
    # A program is told by its name, and a name that was asked for without a network is a denial in each list.
    brig("run", "--", "/usr/bin/getent", "hosts", "refused.example.net")
    assert re.search(r" [1-9]\d*  getent ", audit("runs", "-n", "1").text), audit("runs").text
    assert re.search(r"\ndenials     [1-9]", audit("show", "last").text), audit("show", "last").text
    assert "no run" in audit("show", "f" * 32, status=1).errors
    assert told[0]["changed_trust"] == 0, told
    assert audit("show", "nonsense!", status=1).errors.startswith("brig: 'nonsense!' is no run id")


@test
def filters_choose():
    results = some_runs()
    assert [r["outcome"] for r in audit("list", "--outcome", "timeout", "--json").json] == ["timeout"]
    one = audit("list", "--run", results[1]["id"][:16], "--json").json
    assert {r["run"] for r in one} == {results[1]["id"]} and len(one) >= 2
    everything = audit("list", "--limit", "0", "--json").json
    assert [r["seq"] for r in everything] == list(range(1, len(everything) + 1))
    assert audit("list", "-n", "2", "--json").json == everything[-2:]
    assert audit("list", "--since", "1h", "--limit=0", "--json").json == everything
    assert audit("list", "--until", "1h", "--json").json == []
    middle = everything[3]["time"]
    assert audit("list", "--since", middle, "-n0", "--json").json == [r for r in everything if r["time"] >= middle]
    assert audit("list", "--until", middle, "-n0", "--json").json == [r for r in everything if r["time"] <= middle]
    assert audit("list", "--principal", "uid:77", "--json").json == []
    assert audit("list", "--type", "sandbox.*", "-n0", "--json").json == [r for r in everything if r["type"].startswith("sandbox.")]
    assert audit("list", "--no-index", "-n", "3", "--json").json == everything[-3:]


@test
def the_documented_query_of_the_seed_works():
    some_runs()
    found = audit("security-events", "--event-type", "sandbox.exec", "--limit", "3", "--json").json
    assert len(found) == 3 and all(r["type"] == "sandbox.exec" and {"backend", "argv0", "duration_ms"} <= set(r) for r in found)
    text = audit("security-events", "--event-type", "sandbox.exec").text
    assert len(text.splitlines()) == 4 and "argv0=sleep" in text
    # Without a type: what somebody who looks for trouble wants, which is not the start of a sandbox.
    kinds = {r["type"] for r in audit("security-events", "--json").json}
    assert {"sandbox.exec", "limit.hit"} <= kinds and "sandbox.create" not in kinds
    assert audit("security-events", "--agent", "nobody", "--json").json == []


@test
def an_agent_is_named_by_its_role():
    role = workspace() / "role.yaml"
    role.write_text("apiVersion: initrunner/v1\nkind: Agent\nmetadata:\n  name: release-notes\nspec:\n  role: x\n"
                    "  security:\n    sandbox:\n      backend: auto\n")
    assert brig("run", "--", "true").status == 0
    assert brig("run", "--config", str(role), "--", "true").status == 0
    assert brig("run", "--config", str(role), "--mount", "/etc:/etc:rw", "--", "true").status == 125
    assert brig("run", "--set", "audit.agent=night shift", "--", "true").status == 0
    assert brig("run", "--", "true", env={"BRIG_AUDIT_AGENT": "=SUM(A1)\t" + "é" * 40}).status == 0
    mine = audit("list", "--agent", "release-notes", "--json").json
    assert [(r["type"], r["agent"]) for r in mine] == [(t, "release-notes") for t in
            ("sandbox.create", "sandbox.exec", "config.refused")], mine
    assert audit("security-events", "--agent", "release-notes", "--json").json == mine[1:]
    assert "for agent night shift" in audit("show", audit("list", "--agent", "night shift", "--json").json[0]["run"]).text
    rows = list(csv.DictReader(io.StringIO(audit("export", "-f", "csv").text)))
    assert [r["agent"] for r in rows if r["type"] != "policy.change"][:4] == ["", "", "release-notes", "release-notes"]
    assert rows[-1]["agent"] == "'=SUM(A1) " + "é" * 27  # 64 bytes, and nothing a spreadsheet would run
    shaped = audit("export", "-f", "ocsf", "--agent", "release-notes").json
    assert {o["actor"]["app_name"] for o in shaped} == {"release-notes"} and "agent" not in shaped[0].get("unmapped", {})
    # What came with somebody's project has no say in whose name stands there.
    (workspace() / ".brig.yaml").write_text("brig: 1\naudit:\n  agent: somebody-else\n")
    assert brig("run", "--", "true").status == 125
    # Nor can it keep anybody from reading what was done there.
    done = audit("list", "--agent", "somebody-else", "--json")
    assert done.json == [] and "untrusted project file" in done.errors and audit("list", "--json").json
    (workspace() / ".brig.yaml").write_text("{")
    assert audit("list", "--json").json and audit("verify").status == 0


@test
def hosts_and_types_are_found():
    types = ("egress.allow", "egress.deny", "leak.block", "sandbox.exec")
    place = handmade([{"type": types[i % 4], "host": f"h{i % 3}.Example.org" if i % 4 < 3 else "ssh.example.net", "agent": f"a{i % 2}"}
                      for i in range(120)])

    def count(*args):
        found = audit("list", "--dir", str(place), "-n0", "--json", *args).json
        assert found == audit("list", "--dir", str(place), "--no-index", "-n0", "--json", *args).json
        return len(found)

    assert count() == 120
    assert count("--type", "egress.*") == 60
    assert count("--type", "egress.deny", "--type", "leak.*") == 60
    assert count("--host", "ssh.example.net") == 30
    assert count("--host", "h1.example.ORG") == 30
    assert count("--host", "*.example.org") == 90
    assert count("--agent", "a0") == 60
    assert count("--since", "2026-01-02T03:01:00Z", "--until", "2026-01-02T03:01:09Z") == 10
    assert count("--run", f"{5:032x}") == 4
    for typed, hint in (("sandbox.exce", "did you mean 'sandbox.exec'?"), ("egres.*", ""), ("leak.warns", "'leak.warn'")):
        done = audit("list", "--dir", str(place), "--type", typed, status=125)
        assert f"'{typed}' is not a type of event" in done.errors and hint in done.errors, done


@test
def every_format_is_what_it_says():
    some_runs()
    objects = audit("export").json
    lines = [json.loads(line) for line in audit("export", "-f", "jsonl").text.splitlines()]
    assert lines == objects and len(objects) >= 8
    raw = b"".join(p.read_bytes() for p in sorted(record().glob("*.jsonl")))
    assert audit("export", "-f", "raw").stdout == raw
    rows = list(csv.DictReader(io.StringIO(audit("export", "-f", "csv").stdout.decode(), newline="")))
    assert [r["seq"] for r in rows] == [str(o["seq"]) for o in objects]
    assert [r["rc"] for r in rows] == [str(o.get("rc", "")) for o in objects]
    assert all(json.loads(r["details"])["stdout_bytes"] == 0 for r in rows if r["outcome"] == "exited")
    out = scratch() / "export.csv"
    assert audit("export", "-f", "csv", "-o", str(out)).stdout == b""
    assert len(out.read_text().splitlines()) == len(rows) + 1 and stat.S_IMODE(out.stat().st_mode) == 0o600
    for event in audit("export", "-f", "ocsf").json:
        assert event["type_uid"] == event["class_uid"] * 100 + event["activity_id"]
        assert event["category_uid"] == event["class_uid"] // 1000 and 0 < event["severity_id"] <= 4
        assert event["metadata"]["product"]["name"] == "brig" and event["actor"]["user"]["uid"] == str(uid())
        assert abs(event["time"] / 1000 - time.time()) < 600
    assert len(audit("export", "-f", "ocsf-jsonl").text.splitlines()) == len(objects)
    assert audit("export", "-f", "xml", status=125).errors.startswith("brig: there is no format 'xml'")


@test
def real_readers_agree():
    results = some_runs()
    segments = sorted(map(str, record().glob("*.jsonl")))
    said = as_starter("jq", "-r", 'select(.type == "sandbox.exec") | "\\(.run) \\(.outcome)"', *segments).split("\n")[:-1]
    assert said == [f"{r['id']} {r['outcome']}" for r in results]
    audit("list")
    index = record() / "audit.db"
    assert as_starter("sqlite3", index, "PRAGMA integrity_check").strip() == "ok"
    assert as_starter("sqlite3", index, "PRAGMA journal_mode").strip() == "wal"
    rows = as_starter("sqlite3", index, "SELECT run, outcome FROM records WHERE type = 'sandbox.exec' ORDER BY seq").split()
    assert rows == [f"{r['id']}|{r['outcome']}" for r in results]
    strict = as_starter("sqlite3", index, "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND strict = 0 "
                        "AND name NOT LIKE 'sqlite%'")
    assert strict == ""
    assert {stat.S_IMODE(p.stat().st_mode) for p in record().iterdir()} == {0o600}


@test
def a_lost_or_broken_index_is_made_anew():
    some_runs()
    before = audit("list", "-n0", "--json").json
    index = record() / "audit.db"

    def still():
        assert audit("list", "-n0", "--json").json == before
        assert as_starter("sqlite3", index, "PRAGMA integrity_check; SELECT count(*) FROM records").split() == ["ok", str(len(before))]

    index.unlink()
    still()
    for damage in (b"no database", b"SQLite format 3\0" + b"\xff" * 8000, index.read_bytes()[:5000]):
        index.write_bytes(damage)
        still()
    index.write_bytes(index.read_bytes()[:4096] + os.urandom(8192))
    still()
    # Of another schema; of another log; while it has a WAL that is not its own.
    as_starter("sqlite3", index, "PRAGMA user_version = 99")
    still()
    place = handmade([{"type": "limit.hit", "limit": "memory"}] * 5)
    audit("list", "--dir", str(place))
    shutil.copy(place / "audit.db", index)
    still()


@test
def the_index_follows_runs_and_retention():
    some_runs()
    count = len(audit("list", "-n0", "--json").json)
    brig("run", "--", "true")
    assert len(audit("list", "-n0", "--json").json) == count + 2
    pruned = audit("prune", "--max-records", "4", "--max-age", "0", "--json").json
    assert pruned["removed"] > 0
    left = audit("list", "-n0", "--json").json
    assert left[0]["seq"] > 1 and left == audit("list", "-n0", "--json", "--no-index").json
    assert audit("verify").text.startswith("untouched")
    assert any(r["type"] == "log.prune" for r in left)
    brig("run", "--", "true")
    assert audit("list", "-n0", "--json").json[: len(left)] == left


@test
def readers_and_writers_do_not_mind_each_other():
    writers = [start_brig("run", "--", "true") for _ in range(12)]
    readers = [start_brig("audit", "list", "-n0", "--json") for _ in range(6)]
    for p in readers:
        out, errors = p.communicate(timeout=60 * PATIENCE)
        found = [r["seq"] for r in json.loads(out)]
        assert p.returncode == 0 and found == list(range(1, len(found) + 1)), (found, errors)
    for p in writers:
        p.communicate(timeout=60 * PATIENCE)
        assert p.returncode == 0
    runs = [r["run"] for r in audit("list", "-n0", "--type", "sandbox.exec", "--json").json]
    assert len(set(runs)) == len(runs) == 12
    audit("verify")


@test
def without_a_place_for_the_index_it_still_answers():
    place = handmade([{"type": "limit.hit", "limit": "memory"}] * 5)
    (place / "audit.db").mkdir()  # root could write into a read-only folder
    assert len(audit("list", "--dir", str(place), "--json").json) == 5
    assert len(audit("list", "--dir", str(place), "--json", "-n", "2").json) == 2


@test(as_user="root")
def an_index_does_not_take_the_room_of_the_record():
    place = scratch() / "small"
    place.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m,mode=700", "brig-test", place], check=True)
    try:
        brig("run", "--", "true", env={"BRIG_AUDIT_DIR": str(place)})
        assert len(audit("list", "--json", "--dir", str(place)).json) == 2
        assert not list(place.glob("audit.db*"))
        subprocess.run(["mount", "-o", "remount,size=64m", place], check=True)
        assert len(audit("list", "--json", "--dir", str(place)).json) == 2
        assert (place / "audit.db").exists()
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        assert len(audit("list", "--json", "--dir", str(place)).json) == 2
        audit("verify", "--dir", str(place))
    finally:
        subprocess.run(["umount", place], check=True)


@test
def hostile_names_stay_text():
    brig("run", "--", HOSTILE)
    place = handmade([{"type": "egress.deny", "host": HOSTILE, "reason": "=HYPERLINK(\"x\")", "agent": "@SUM(A1)", HOSTILE: "+1"},
                      {"type": HOSTILE, "run": HOSTILE, "argv0": "-2+3"}, {"type": "sandbox.create", "run": "f" * 32, "argv0": HOSTILE, "workspace": HOSTILE, "agent": HOSTILE},
                      {"type": "egress.deny", "run": "f" * 32, "host": HOSTILE}, {"type": "sandbox.create", "run": "\x1b" * 32}])
    commands = [("list",), ("list", "--json"), ("list", "--jsonl"), ("list", "--csv"), ("security-events",), ("show", "last"),
                ("show", "last", "--json"), ("runs",), ("runs", "--json"), *(("export", "-f", f) for f in ("json", "jsonl", "csv", "ocsf", "ocsf-jsonl", "text"))]
    for command in commands:
        for where in ((), ("--dir", str(place))):
            if command[0] == "show" and where:
                continue
            out = audit(*command, *where).stdout.decode()
            assert "name" in out and not OBEYED.search(out.replace("\r\n", "\n")), (command, out)
    for r in csv.DictReader(io.StringIO(audit("export", "-f", "csv", "--dir", str(place)).stdout.decode(), newline="")):
        assert all(not cell.startswith(("=", "+", "-", "@")) for cell in r.values()), r
    # What is asked for is shown back in errors.
    assert not OBEYED.search(audit("show", HOSTILE, status=1).errors)
    assert not OBEYED.search(audit(HOSTILE, status=125).errors)
    # JSON still means the same.
    assert [r for r in audit("list", "--json", "--dir", str(place)).json if r.get("host") == HOSTILE]


@test
def tail_follows_a_live_run():
    brig("run", "--", "true")
    p = start_brig("audit", "tail", "--jsonl", bufsize=0)
    seen = []

    def read_until(condition):
        end = time.monotonic() + 20
        while time.monotonic() < end and not condition():
            if select.select([p.stdout], [], [], 0.2)[0]:
                line = p.stdout.readline()
                assert line, p.stderr.read()
                seen.append(json.loads(line))
        assert condition(), seen

    try:
        read_until(lambda: len(seen) == 2)
        result = brig("run", "--json", "--", "true").json
        read_until(lambda: len(seen) == 4)
        assert [r["type"] for r in seen] == ["sandbox.create", "sandbox.exec"] * 2
        assert [r["seq"] for r in seen] == [1, 2, 3, 4] and seen[3]["run"] == result["id"]
    finally:
        p.send_signal(signal.SIGINT)
        p.wait(20 * PATIENCE)
        p.stdout.close()
        p.stderr.close()


@test
def tail_chooses_and_ends_with_its_reader():
    brig("run", "--", "true")
    p = start_brig("audit", "tail", "--since", "1h", "--type", "sandbox.exec")
    assert b"sandbox.exec" in p.stdout.readline()
    p.stdout.close()
    brig("run", "--", "true")
    assert wait_until(lambda: p.poll() is not None), "tail goes on although nobody reads"
    p.stderr.close()


@test
def verify_says_where_it_was_touched():
    some_runs()
    assert audit("verify").text.startswith("untouched: ")
    report = audit("verify", "--json").json
    assert report["ok"] and report["records"] == report["last"] and not report["faults"]
    segment = sorted(record().glob("*.jsonl"))[0]
    good = segment.read_bytes()
    lines = good.splitlines(keepends=True)
    assert b"sandbox.exec" in lines[1]
    touched = {
        "edited": b"".join([lines[0], lines[1].replace(b'"outcome":"exited"', b'"outcome":"exitec"'), *lines[2:]]),
        "deleted": b"".join(lines[:1] + lines[2:]),
        "swapped": b"".join([lines[1], lines[0], *lines[2:]]),
        "cut": b"".join(lines[:-1]),
    }
    for how, data in touched.items():
        segment.write_bytes(data)
        said = audit("verify", status=1)
        assert "NOT AS IT WAS WRITTEN" in said.text and segment.name in said.text or how == "cut", (how, said.text)
        assert "anchor: " in said.text
        report = audit("verify-chain", "--json", status=1).json
        assert not report["ok"] and report["fault_count"] >= 1 and report["faults"][0]["what"], (how, report)
        # The rest can still be read.
        assert len(audit("list", "-n0", "--json").json) >= len(lines) - 2
    segment.write_bytes(good)
    audit("verify")


@test
def prune_keeps_what_it_should():
    some_runs()
    count = len(audit("list", "-n0", "--json").json)
    would = audit("prune", "--max-records", "3", "--dry-run", "--json").json
    assert would["dry_run"] and would["removed"] > 0
    assert len(audit("list", "-n0", "--json").json) == count
    assert "nothing to remove" in audit("prune").text
    assert audit("prune", "--max-records", "3").text.startswith("removed ")
    assert len(audit("list", "-n0", "--json").json) < count
    assert "retention removed" in audit("verify").text


@test
def nothing_on_the_record_is_an_answer():
    assert audit("list", "--json").json == []
    assert audit("export", "-f", "jsonl").stdout == b""
    assert "there is no record yet" in audit("list").errors
    assert "there is no record" in audit("show", "last", status=1).errors
    assert "there is no record" in audit("list", "--dir", str(scratch() / "none"), status=1).errors
    assert not record().exists()


@test
def mistakes_get_a_next_step():
    for args, hint in ((("lst",), "brig audit list"), (("list", "--typo"), "--type"), (("list", "--since", "soon"), "2h, 7d"),
                       (("show",), "brig audit show last"), (("list", "--run", "xyz"), "32 hex digits"),
                       (("prune", "--limit", "3"), "brig audit prune --help"), (("list", "--type", "a*b"), "egress.*")):
        said = audit(*args, status=125).errors
        assert said.startswith("brig: ") and hint in said.split("hint: ")[1], (args, said)
    assert "audit.dir" in audit("list", "--help").text
    for command in ("list", "runs", "show", "security-events", "export", "tail", "verify", "prune"):
        assert f"usage: brig audit {command}" in audit(command, "--help").text
        assert command in brig("completion", "bash").text


@test
def another_folder_is_found_by_setting():
    place = scratch() / "elsewhere"
    place.mkdir(mode=0o700)
    result = brig("run", "--json", "--", "true", env={"BRIG_AUDIT_DIR": str(place)}).json
    assert audit("list", "--json").json == []
    for more in ({"env": {"BRIG_AUDIT_DIR": str(place)}}, {}):
        where = () if more else ("--dir", str(place))
        assert audit("list", "--json", *where, **more).json[-1]["run"] == result["id"]
        assert audit("verify", *where, **more).text.startswith("untouched")


@test
def without_its_program_it_says_what_is_missing():
    alone = scratch() / "bin"
    alone.mkdir()
    shutil.copy(brig_path(), alone / "brig")
    (alone / "brig").chmod(0o755)
    argv = [*brig_argv()[:-1], str(alone / "brig"), "audit", "list"]
    with installed_hidden():
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=brig_environment(), cwd=workspace())
    assert done.returncode == 125 and "brig-audit is not installed" in done.stderr, (done, identity())


if __name__ == "__main__":
    sys.exit(main())
