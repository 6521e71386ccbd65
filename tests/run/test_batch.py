#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""brig batch: lines, what they may not say, retries, and that a crash loses and doubles nothing."""

import collections
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import record  # noqa: E402
from harness import PATIENCE, brig, brig_argv, brig_environment, descendants, files_as_root, main, scratch, shown_on, start_brig, state, test, wait_until, workspace  # noqa: E402


def lines(*all, name="lines.jsonl"):
    path = scratch() / name
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in all))
    return path


def results(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def ledger(folder):
    return [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]


def by_line(folder):
    all = results(folder)
    assert len({r["line"] for r in all}) == len(all), "a line has two results"
    return {r["line"]: r for r in all}


@test
def an_array_is_one_command_many_times():
    done = brig("run", "--array", "5%2", "--", "sh", "-c", "echo $BRIG_ARRAY_INDEX/$BRIG_ARRAY_COUNT; cat; exit $((BRIG_ARRAY_INDEX == 3))", input=b"not theirs")
    said = {r["index"]: r for r in map(json.loads, done.text.splitlines())}
    assert done.status == 1 and "5 of 5 runs done, 1 failed: exit 1" in done.errors, done.errors
    assert [said[i]["result"]["stdout"] for i in range(5)] == [f"{i}/5\n" for i in range(5)], said
    assert [said[i]["class"] for i in range(5)] == ["ok", "ok", "ok", "exit", "ok"] and "id" not in said[0], said
    done = brig("run", "--array=2", "--quiet", "--backend", "none", "--i-know-this-is-not-a-sandbox", "--", "sh", "-c", "echo $BRIG_ARRAY_INDEX $1 '--array 9'", "-", b"a\xff")
    assert done.status == 0 and len(done.stdout.splitlines()) == 2 and done.errors == "", done
    for bad in ("0", "x", "2%0", "2%x", "1000001", "", "%3"):
        done = brig("run", "--array", bad, "--", "touch", "ran")
        assert done.status == 125 and ("--array" in done.errors or "--jobs" in done.errors), done
    assert brig("run", "--array", "2", "--tty", "--", "touch", "ran").status == 125
    assert brig("exec", "--array", "2", "true").status == 125 and brig("batch", "--array", "2", lines({"argv": ["touch", "ran"]})).status == 125
    assert not (workspace() / "ran").exists()


@test
def each_line_is_a_run_of_its_own():
    out = scratch() / "out"
    path = lines({"shell": "echo $X; cat", "stdin": "in\n", "env": {"X": "y"}, "meta": {"a": [1]}, "id": "first"},
                 "", {"python": "import sys; print(sys.argv[1:])", "args": ["q"]}, {"script": "echo $NAME", "params": {"name": "n"}},
                 {"argv": ["sleep", "60"], "timeout": "300ms"}, {"argv": ["sh", "-c", "exit 3"]}, {"argv": ["/no/such"]},
                 {"argv": ["sh", "-c", "kill -9 $$"]})
    done = brig("batch", path, "--out", out, "--jobs", "3", "--json")
    assert done.status == 1 and "7 of 7 lines done, 4 failed" in done.errors, done.errors
    assert done.json["end"] == "ended" and done.json["classes"] == {"ok": 3, "exit": 1, "signal": 1, "timeout": 1, "refused": 1}, done.json
    said = by_line(out)
    assert sorted(said) == [1, 3, 4, 5, 6, 7, 8], said
    assert said[1]["result"]["stdout"] == "y\nin\n" and said[1]["meta"] == {"a": [1]} and said[1]["id"] == "first"
    assert said[3]["result"]["stdout"] == "['q']\n" and said[4]["result"]["stdout"] == "n\n"
    assert [said[i]["class"] for i in (5, 6, 7, 8)] == ["timeout", "exit", "refused", "signal"], said
    assert said[6]["result"]["exit_code"] == 3 and said[5]["attempt"] == 1
    done = brig("batch", path, "--out", out, "--resume")
    assert done.status == 1 and "7 of 7 lines done, 4 failed: 4 before the resume\n" in done.errors, done.errors
    # Results alone, for a pipe; and the lines from one.
    done = brig("batch", "-", "--quiet", input=b'{"argv": ["echo", "hi"]}\n')
    assert done.status == 0 and done.json["result"]["stdout"] == "hi\n" and done.errors == "", done


@test
def a_line_may_only_tighten():
    outside = scratch() / "outside"
    outside.mkdir()
    (outside / "secret").write_text("CANARY")
    more = [{"network": "host"}, {"read": [str(outside)]}, {"mounts": [{"source": str(outside), "target": "/mnt"}]}, {"write": [str(outside)]},
            {"limits": {"memory": "900m"}}, {"limits": {"timeout": "2h"}}, {"backend": "none"}, {"workspace": {"path": str(outside)}},
            {"egress": {"allow": ["example.org"]}}, {"credentials": {"K": {"host": "example.org", "from": {"file": "/etc/shadow"}}}},
            {"env": {"pass": ["SECRET"]}}, {"policy": "full_access"}, {"profile": "debug"}, {"ports": ["8080"]}, {"home": "keep"}, {"audit": {"enabled": False}}]
    out = scratch() / "out"
    command = ["sh", "-c", f"touch ran-$0; cat {outside}/secret; echo $SECRET"]
    path = lines(*({"argv": [*command, str(i)], "settings": s} for i, s in enumerate(more)), {"argv": ["true"], "timeout": "3h"},
                 {"argv": ["sh", "-c", "ulimit -v >/dev/null; echo tight; cat /sys/fs/cgroup/memory.max 2>&-; true"], "settings": {"limits": {"memory": "64m"}, "network": "none", "policy": "readonly"}})
    flags = ["--memory", "256m", "--timeout", "1m", "--max-failures", "100"]
    done = brig("batch", path, "--out", out, *flags, env={"SECRET": "CANARY"})
    said = by_line(out)
    for i in range(len(more) + 1):
        r = said[i + 1]
        assert r["class"] == "refused" and "CANARY" not in json.dumps(r) and r["result"]["error"]["hint"], r
        assert not (workspace() / f"ran-{i}").exists()
    assert "may only tighten" in said[1]["result"]["error"]["what"], said[1]
    last = said[len(more) + 2]
    assert last["class"] == "ok" and last["result"]["stdout"].startswith("tight\n"), last
    assert done.status == 1
    # The control: what the user says holds for every line.
    done = brig("batch", lines({"argv": [*command, "control"]}), "--read", outside, "--quiet")
    assert done.status == 0 and done.json["result"]["stdout"] == "CANARY\n" and (workspace() / "ran-control").exists(), done
    # What was refused is on the record as well.
    refused = [r for r in record.records(record.folder(state())) if r.get("event") == "refused" or "may only tighten" in json.dumps(r)]
    assert len(refused) >= len(more), len(refused)


@test
def a_tighter_word_opens_nothing_else():
    """What a line may write must not be a way to something that it may not: a door, another backend, somebody's HOME."""
    config = scratch() / "config/brig"
    config.mkdir(parents=True)
    (config / "config.yaml").write_text("egress: {groups: [pypi]}\n")
    env = {"XDG_CONFIG_HOME": str(config.parent), "XDG_CACHE_HOME": str(scratch() / "cache")}
    look = "echo proxy=$HTTPS_PROXY; touch ran-$0"
    path = lines({"argv": ["sh", "-c", look, "allow"], "settings": {"egress": {"allow": []}}})
    done = brig("batch", path, "--quiet", env=env)
    assert done.status == 0 and done.json["result"]["stdout"] == "proxy=\n" and done.json["result"]["isolation"]["network"] == "none", done
    done = brig("batch", lines({"argv": ["sh", "-c", look, "labels"], "settings": {"labels": {"a": "b"}}}), "--quiet", "--retries", "0", env=env)
    assert done.status == 1 and "cannot honour labels" in done.json["result"]["error"]["what"], done
    assert "does not choose the backend" in done.json["result"]["error"]["hint"], done
    # Read-only within the workspace is the user's word, too.
    (workspace() / "golden").mkdir()
    (workspace() / "golden/f").write_text("as it was")
    for settings in ({"read": []}, {"mounts": []}):
        done = brig("batch", lines({"shell": "echo forged > golden/f; true", "settings": settings}), "--read", workspace() / "golden",
                    "--mount", f"{config}:/mnt", "--quiet", env=env)
        assert done.status == 1 and "may only tighten" in done.json["result"]["error"]["what"], done
    done = brig("batch", lines({"shell": "echo forged > golden/f; true"}), "--read", workspace() / "golden", "--quiet", env=env)
    assert done.status == 0 and "Read-only" in done.json["result"]["stderr"], done
    assert (workspace() / "golden/f").read_text() == "as it was"
    for settings, word in (({"home_seed": []}, "home_seed"), ({"policy": "readonly"}, "policy")):
        done = brig("batch", lines({"argv": ["sh", "-c", look, "home"], "settings": settings}), "--home", "keep", "--home-seed", "claude", "--quiet", env=env)
        assert done.status == 1 and done.json["class"] == "refused" and word in done.json["result"]["error"]["what"], done
        assert "another kept HOME" in done.json["result"]["error"]["what"] and done.json["result"]["error"]["hint"], done
    assert not (workspace() / "ran-labels").exists() and not (workspace() / "ran-home").exists()
    # The controls: without the word, and with a HOME of its own.
    for settings in ({}, {"home": "private", "home_seed": []}):
        done = brig("batch", lines({"argv": ["sh", "-c", look, "control"], "settings": settings}), "--home", "keep", "--home-seed", "claude", "--quiet", env=env)
        assert done.status == 0, done
    assert (workspace() / "ran-control").exists()


@test
def what_a_flag_says_is_still_a_flags_word():
    """A flag that cannot be honoured is refused as with brig run; a role's tool is weaker than it."""
    role = scratch() / "role.yaml"
    role.write_text("apiVersion: initrunner/v1\nkind: Agent\nmetadata: {name: x}\nspec:\n  role: x\n  model: {provider: openai, name: m}\n"
                    "  tools: [{type: python, timeout_seconds: 60}]\n  security: {sandbox: {backend: ssh, ssh: {host: nowhere.invalid}}}\n")
    for command in (["run", "--config", role, "--memory", "100m", "--", "true"], ["batch", lines({"argv": ["true"]}), "--config", role, "--memory", "100m"]):
        done = brig(*command)
        assert done.status == 125 and "cannot honour --memory" in done.errors, (command, done.errors)
    role.write_text(role.read_text().replace("backend: ssh, ssh: {host: nowhere.invalid}", "backend: auto"))
    slow = lines({"python": "import time; time.sleep(30)"})
    done = brig("batch", slow, "--config", role, "--set", "backend=native", "--timeout", "300ms", "--quiet")
    assert done.status == 1 and done.json["class"] == "timeout", done.json
    # A line closes its network; that the others have one is no mistake.
    done = brig("batch", lines({"shell": "echo proxy=$HTTPS_PROXY", "settings": {"network": "none"}}), "--allow", "a.example", "--quiet")
    assert done.status == 0 and done.json["result"]["stdout"] == "proxy=\n", done
    done = brig("batch", lines({"shell": "echo proxy=$HTTPS_PROXY"}), "--allow", "a.example", "--quiet")
    assert done.status == 0 and "http" in done.json["result"]["stdout"], done


@test
def on_the_host_a_line_sets_no_variable():
    flags = ["--backend", "none", "--i-know-this-is-not-a-sandbox", "--quiet"]
    for name in ("CI", "LD_PRELOAD"):  # the first anybody may set elsewhere
        done = brig("batch", lines({"argv": ["touch", "ran"], "env": {name: "1"}}), *flags)
        assert done.status == 1 and done.json["class"] == "refused" and name in done.json["result"]["error"]["what"], done
        assert done.json["result"]["error"]["hint"] and not (workspace() / "ran").exists(), done
    # The controls: the user may, and in a sandbox the line may.
    done = brig("batch", lines({"shell": "echo $CI"}), *flags, "--env", "CI=2")
    assert done.status == 0 and done.json["result"]["stdout"] == "2\n", done
    done = brig("batch", lines({"shell": "echo $CI", "env": {"CI": "1"}}), "--quiet")
    assert done.status == 0 and done.json["result"]["stdout"] == "1\n", done


@test
def nothing_runs_where_a_line_is_none():
    good = {"argv": ["touch", "ran"]}
    for bad, word in (("{", "line 2"), ('["argv"]', "not a JSON object"), ('{"argv": []}', "argv is empty"), ('{"argv": ["a"], "argv": ["b"]}', "line 2"),
                      ('{"argv": ["a", 1]}', "not a string"), ('{"argv": "ls"}', "wrong type"), ('{"shel": "ls"}', "'shell'"), ("{}", "exactly one"),
                      ('{"shell": "a", "python": "b"}', "exactly one"), ('{"shell": "a", "args": []}', "args go with python"), ('{"id": "x"}', "exactly one"),
                      ('{"script": "a", "stdin": "b"}', "no stdin"), (json.dumps({"shell": "a", "id": "x" * 129}), "128"), ('{"shell": "a\\u0000b"}', "line 2"),
                      ('{"shell": "x", "meta": ' + "[" * 3000 + "]" * 3000 + "}", "line 2")):
        done = brig("batch", lines(good, bad, good), "--out", scratch() / "out")
        assert done.status == 125 and word in done.errors and "hint: " in done.errors, (bad[:60], done.errors)
        assert not (workspace() / "ran").exists() and not (scratch() / "out").exists(), bad[:60]
    for args, word in ((["--out"], "needs a value"), ([lines(good), "--jobs", "0"], "from 1 to 256"), ([lines(good), "--retry-on", "ok"], "no class"), ([], "one file"),
                       ([lines(good), lines(good)], "one file"), ([lines(good), "--resume"], "--out"), ([lines(good), "--tty"], "no use"), ([scratch() / "none"], "cannot open"),
                       ([lines(name="empty")], "no lines"), ([lines(good), "--backend", "ssh"], "ssh.host")):
        done = brig("batch", *args)
        assert done.status == 125 and word in done.errors, (args, done.errors)
    assert not (workspace() / "ran").exists()
    # The control.
    assert brig("batch", lines(good), "--quiet").status == 0 and (workspace() / "ran").exists()


def many(n, pause=0.05):
    """Each writes down that it ran, where only it does."""
    return [{"shell": f"echo x >> ran-{i}; sleep {pause}; echo {i}"} for i in range(1, n + 1)]


@test
def a_killed_batch_goes_on_and_each_line_has_one_result():
    out, n = scratch() / "out", 24
    path = lines(*many(n))
    p = start_brig("batch", path, "--out", out, "--jobs", "4")
    wait_until(lambda: (out / "ledger.jsonl").exists() and sum("end" in e for e in whole(out / "ledger.jsonl")) >= 5, 20)
    p.send_signal(signal.SIGKILL)
    p.communicate(timeout=20 * PATIENCE)
    wait_until(lambda: not [x for x in descendants().values() if x == "brig-batch"], 20)
    ended = {e["end"] for e in whole(out / "ledger.jsonl") if "end" in e}
    assert 5 <= len(ended) < n, ended
    before = {i: (workspace() / f"ran-{i}").read_text() for i in ended}
    # A crash may have left more of both files than is whole.
    with files_as_root():
        with (out / "results.jsonl").open("a") as f:
            f.write('{"line":99,"class":"ok"}\n{"li')
        with (out / "ledger.jsonl").open("a") as f:
            f.write('{"end":2')
    done = brig("batch", path, "--out", out)
    assert done.status == 125 and "holds a batch already" in done.errors and "--resume" in done.errors, done.errors
    done = brig("batch", path, "--out", out, "--jobs", "4", "--resume", "--json")
    assert done.status == 0 and done.json["resumed"] == len(ended) and done.json["done"] == n, (done.json, done.errors)
    said = by_line(out)
    assert sorted(said) == list(range(1, n + 1)) and all(said[i]["result"]["stdout"] == f"{i}\n" for i in said), said
    for i in ended:  # nothing that had ended ran again
        assert (workspace() / f"ran-{i}").read_text() == before[i], i
    assert collections.Counter(e["end"] for e in ledger(out) if "end" in e) == dict.fromkeys(range(1, n + 1), 1)
    # Once more there is nothing to do.
    done = brig("batch", path, "--out", out, "--resume", "--json")
    assert done.status == 0 and done.json["resumed"] == n and len(results(out)) == n, done


def whole(path):
    text = path.read_text()
    return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]


def results_so_far(out):
    return whole(out / "results.jsonl")


@test
def a_ledger_that_is_not_ours_is_not_believed():
    out, path = scratch() / "out", lines(*many(3, 0))
    assert brig("batch", path, "--out", out).status == 0
    text = (out / "ledger.jsonl").read_text()
    head, *rest = text.splitlines()
    with files_as_root():
        for changed, word in (('{"x":1}\n', "not what brig writes"), (head + '\n{"end":9,"attempt":1,"outcome":"exited","failed":false,"results":1}\n', "line 2"),
                              (head + "\n" + rest[-1] + "\n" + rest[-1] + "\n", "line 3"), (head + '\n{"start":1,"end":1,"attempt":1}\n', "line 2"),
                              (head + '\n{"start":0,"attempt":1}\n', "line 2"), (head + '\n{"end":1,"attempt":1,"outcome":"exited","failed":0,"results":1}\n', "line 2"),
                              (head + '\n{"end":1,"attempt":1,"outcome":"exited","failed":false,"results":999999}\n', "shorter than"), ("\n", "line 1"), ("{", "line 1"),
                              (head + "\n" + "x" * 600 + "\n", "line 2")):
            (out / "ledger.jsonl").write_text(changed)
            done = brig("batch", path, "--out", out, "--resume")
            assert done.status == 125 and word in done.errors and "hint: " in done.errors, (changed, done.errors)
        (out / "ledger.jsonl").write_text(text)
    done = brig("batch", lines({"argv": ["true"]}, name="other"), "--out", out, "--resume")
    assert done.status == 125 and "another file" in done.errors, done.errors
    # A link and a pipe in place of a file; the control is the untouched folder.
    assert brig("batch", path, "--out", out, "--resume").status == 0
    for make in (lambda at: at.symlink_to("/etc/passwd"), os.mkfifo):
        folder = scratch() / "odd"
        folder.mkdir(exist_ok=True)
        make(folder / "results.jsonl")
        with files_as_root():
            os.chown(folder, os.stat(scratch()).st_uid, -1)
        done = brig("batch", path, "--out", folder)
        assert done.status == 125, done
        with files_as_root():
            for left in folder.iterdir():
                left.unlink()


@test
def a_named_pipe_is_refused_and_what_went_to_quarantine_is_told():
    os.mkfifo(workspace() / "planted")
    done = brig("batch", workspace() / "planted", timeout=20)
    assert done.status == 125 and "named pipe" in done.errors and "hint: " in done.errors, done
    (workspace() / "planted").unlink()
    path = lines({"shell": "echo evil > .envrc"}, {"shell": 'echo \'"protected-path" ; moved to \''})
    done = brig("batch", path, "--jobs", "1", "--json", "--out", scratch() / "told")
    assert done.status == 0 and "0 failed; 1 left something that went to quarantine" in done.errors and done.json["quarantined"] == 1, done


@test
def its_files_are_not_where_runs_can_write():
    path = lines({"shell": "echo forged > out/results.jsonl; true"})
    inside = workspace() / "out"
    (scratch() / "w").mkdir()
    (scratch() / "link").symlink_to(workspace())
    for out, args in ((inside, []), (scratch() / "link/out", []), (scratch() / "w/deep", ["--write", scratch() / "w"]), (workspace(), []),
                      (scratch() / "w", ["--mount", f"{scratch() / 'w'}:/mnt:rw"])):
        done = brig("batch", path, "--out", out, *args)
        assert done.status == 125 and "where the runs can write" in done.errors, (out, done.errors)
        assert not (out / "ledger.jsonl").exists()
    # As shells leave it: they expand no "~" behind "=".
    for args in (["--write=~/w"], ["--mount=~/w:/mnt:rw"], ["--workdir=~/w"]):
        done = brig("batch", path, "--out", scratch() / "w/deep", *args, env={"HOME": str(scratch())})
        assert done.status == 125 and "where the runs can write" in done.errors and not (scratch() / "w/deep/ledger.jsonl").exists(), (args, done.errors)
    # Nor a shell's file; a pipe, or one elsewhere, is the control.
    for place, status in ((workspace() / "r.jsonl", 125), (scratch() / "r.jsonl", 1)):
        with place.open("w") as to:
            p = start_brig("batch", lines({"shell": "echo forged > r.jsonl; exit 3"}, name="shell"), stdout=to)
            said = p.communicate(timeout=20 * PATIENCE)[1]
        assert p.returncode == status and (status == 1 or b"'standard output' is where the runs can write" in said), said
        assert place.read_text() == "" if status == 125 else json.loads(place.read_text())["class"] == "exit", place.read_text()
    (workspace() / "r.jsonl").unlink()
    # Somebody's results without a ledger are not brig's to empty.
    (scratch() / "theirs").mkdir()
    (scratch() / "theirs/results.jsonl").write_text("precious\n")
    with files_as_root():
        for one in (scratch() / "theirs", scratch() / "theirs/results.jsonl"):
            os.chown(one, os.stat(scratch()).st_uid, -1)
    done = brig("batch", path, "--out", scratch() / "theirs")
    assert done.status == 125 and "no batch that is known" in done.errors and "hint: " in done.errors, done.errors
    assert (scratch() / "theirs/results.jsonl").read_text() == "precious\n"
    # Read-only it is nobody's, where no run before could write either, and elsewhere anyway.
    done = brig("batch", path, "--out", inside, "--policy", "readonly")
    assert done.status == 125 and "may have written" in done.errors, done.errors
    fresh = scratch() / "fresh"
    fresh.mkdir()
    inside = fresh / "out"
    with files_as_root():
        os.chown(fresh, os.stat(scratch()).st_uid, -1)
    assert brig("batch", path, "--out", inside, "--policy", "readonly", "--quiet", cwd=fresh).status == 0
    assert "forged" not in (inside / "results.jsonl").read_text().replace(json.dumps("forged")[1:-1] + " >", "")
    assert brig("batch", path, "--out", scratch() / "good", "--quiet").status in (0, 1)


@test
def a_ledger_that_a_run_was_shown_is_not_believed():
    """Shown by itself, it lies in no folder that a run could write."""
    path = lines({"shell": "exit 3"}, {"shell": "exit 4"})
    forged = '{"end":1,"attempt":1,"outcome":"exited","failed":false,"results":0}'
    for name in ("ledger.jsonl", "results.jsonl"):
        out = scratch() / name[:6]
        for args in (["--write", out / name], ["--mount", f"{out / name}:/shown:rw"]):
            out.mkdir(exist_ok=True)
            (out / name).write_text("")
            with files_as_root():
                for one in (out, out / name):
                    os.chown(one, os.stat(scratch()).st_uid, -1)
            done = brig("batch", path, "--out", out, *args)
            assert done.status == 125 and "where the runs can write" in done.errors and not (out / name).read_text(), (args, done.errors)
        assert brig("batch", path, "--out", out, "--quiet").status == 1  # the control, and so is the next
        assert brig("batch", path, "--out", out, "--quiet", "--resume").status == 1
        assert brig("run", "--write", out / name, "--", "sh", "-c", f"head -1 {out / name} > h; (cat h; echo '{forged}') > {out / name}").status == 0
        done = brig("batch", path, "--out", out, "--resume")
        assert done.status == 125 and "may have written" in done.errors, done.errors
    out = scratch() / "twice"
    assert brig("batch", path, "--out", out, "--quiet").status == 1
    os.link(out / "ledger.jsonl", workspace() / "other-name")
    done = brig("batch", path, "--out", out, "--resume")
    assert done.status == 125 and "--out" in done.errors, done.errors


@test
def two_batches_do_not_share_a_folder():
    out, path = scratch() / "out", lines({"argv": ["sleep", "60"]})
    p = start_brig("batch", path, "--out", out)
    try:
        wait_until(lambda: "brig-batch" in descendants(p.pid).values(), 20)
        done = brig("batch", path, "--out", out, "--resume")
        assert done.status == 125 and "another brig batch" in done.errors, done.errors
    finally:
        p.send_signal(signal.SIGINT)
        said = p.communicate(timeout=20 * PATIENCE)
    assert p.returncode == 130 and b"0 of 1 lines done" in said[1] and b"--resume" in said[1], said
    assert results(out) == [] and not [x for x in descendants().values() if x == "brig-batch"]


@test
def failures_are_tried_again_by_their_class():
    out = scratch() / "out"
    once = "test -e been-$0 || { touch been-$0; exit 7; }"
    path = lines({"argv": ["sh", "-c", once, "a"]}, {"argv": ["sh", "-c", "exit 9"]})
    done = brig("batch", path, "--out", out, "--retry-on", "exit", "--retries", "1", "--json")
    said = by_line(out)
    assert said[1]["class"] == "ok" and said[1]["attempt"] == 2 and said[2]["class"] == "exit" and said[2]["attempt"] == 2, said
    assert done.json["retries"] == 2 and [e["attempt"] for e in ledger(out) if e.get("start") == 1] == [1, 2], ledger(out)
    # Not by default.
    done = brig("batch", lines({"argv": ["sh", "-c", once, "b"]}), "--json", "--out", scratch() / "other")
    assert done.status == 1 and done.json["retries"] == 0 and by_line(scratch() / "other")[1]["attempt"] == 1


@test
def a_worker_that_dies_loses_one_run_and_not_the_batch():
    out = scratch() / "out"
    path = lines({"shell": "test -e again && exit 0; touch again; sleep 60"}, *many(6, 0))
    p = start_brig("batch", path, "--out", out, "--jobs", "2", "--json")
    wait_until(lambda: (workspace() / "again").exists(), 20)
    # The one that sleeps is the one with something below it, once the others have ended.
    wait_until(lambda: len(results_so_far(out)) == 6, 20)
    busy = [pid for pid, name in descendants(p.pid).items() if name == "brig-batch" and descendants(pid)]
    assert len(busy) == 1, descendants(p.pid)
    with files_as_root():
        os.kill(busy[0], signal.SIGKILL)
    said, errors = p.communicate(timeout=30 * PATIENCE)
    assert p.returncode == 0, (said, errors)
    assert by_line(out)[1]["attempt"] == 2 and json.loads(said)["classes"] == {"ok": 7}, said


@test
def it_stops_where_going_on_is_no_use():
    done = brig("batch", lines(*[{"argv": ["false"]}] * 40), "--out", scratch() / "a", "--max-failures", "3", "--jobs", "1", "--json")
    assert done.status == 1 and done.json["end"] == "stopped" and done.json["failed"] == 3 and "--max-failures" in done.errors, done
    done = brig("batch", lines(*[{"argv": ["/no/such"]}] * 40), "--out", scratch() / "b", "--jobs", "1", "--json")
    assert done.json["end"] == "stopped" and done.json["done"] == 16 and "none of the first lines" in done.errors, done
    # One that ran is reason enough to go on.
    done = brig("batch", lines({"argv": ["true"]}, *[{"argv": ["/no/such"]}] * 20), "--out", scratch() / "c", "--jobs", "1", "--json")
    assert done.json["end"] == "ended" and done.json["done"] == 21, done


@test
def a_terminal_sees_how_far_it_is():
    master, slave = pty.openpty()
    p = subprocess.Popen(brig_argv("batch", lines(*many(8, 0.2)), "--out", scratch() / "out", "--jobs", "2"), stdin=subprocess.DEVNULL, stdout=slave, stderr=slave,
                         env=brig_environment(), cwd=workspace())
    os.close(slave)
    seen = shown_on(master)
    assert p.wait(30 * PATIENCE) == 0
    assert b"of 8 done, 0 failed, 2 running" in seen and b"left" in seen and b"8 of 8 lines done" in seen, seen


if __name__ == "__main__":
    sys.exit(main())
