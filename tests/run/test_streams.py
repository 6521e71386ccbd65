#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Standard input, output and error: byte-exact, bounded, and in order. Stopped readers are in tests/escape."""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import pty
import random
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
import tty

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import (FACTOR, PATIENCE, brig, brig_argv, brig_environment, brig_path, descendants, main, scratch, shown_on, start_brig, state, test, wait_until,  # noqa: E402
                     workspace)

KIB, MIB = 1024, 1024 * 1024
TEXT = "aé€😀" * 5  # characters of one to four bytes


def sh(script, *options, **more):
    return brig("run", *options, "--", "sh", "-c", script, **more)


def noise(size):
    """Bytes of every value, the same in each run."""
    return random.Random(size).randbytes(size)


def finish(process, seconds=30):
    """Wait for a brig that was started; its status as a shell calls it."""
    code = process.wait(seconds * PATIENCE)
    return code if code >= 0 else 128 - code


def prefix(text, limit):
    """The longest beginning of whole characters that has at most limit bytes."""
    while len(text.encode()) > limit:
        text = text[:-1]
    return text


def sanitized():
    return b"__asan_init" in brig_path().read_bytes()


def peak_memory(process):
    """The supervisor's largest resident size so far without the pages of its program, in bytes; 0 when it is gone or not yet brig. How much of
    the program is resident is the kernel's choice: it maps what the page cache has around a page that was asked for."""
    with contextlib.suppress(OSError, KeyError):  # a process that is ending has no sizes
        if os.path.basename(os.readlink(f"/proc/{process.pid}/exe")) == "brig":
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            size = {name: int(n) for name, n in re.findall(r"(\w+):\s+(\d+) kB", status)}
            return (size["VmHWM"] - size["RssFile"]) * KIB
    return 0


def small(peak):
    """Whether a resident size is what is promised; shadow memory of a sanitizer is not brig's."""
    return peak > 0 and (sanitized() or peak < 2 * MIB)


# ---- byte-exact, whatever is at the other end ----


@test
def pipes_are_byte_exact_at_every_size():
    for size in (0, 1, 4095, 4097, 64 * KIB, 64 * KIB + 1, MIB):
        data = noise(size)
        done = brig("run", "--", "cat", input=data)
        assert done.status == 0 and done.stdout == data, size


@test
def fifty_megabytes_pass_from_file_to_file():
    data = noise(50 * MIB)
    (scratch() / "in").write_bytes(data)
    with (scratch() / "in").open("rb") as source, (scratch() / "out").open("wb") as goal:
        assert finish(start_brig("run", "--", "cat", stdin=source, stdout=goal)) == 0
    assert hashlib.sha256((scratch() / "out").read_bytes()).digest() == hashlib.sha256(data).digest()


@test
def fifty_megabytes_pass_through_pipes():
    data = noise(50 * MIB)
    done = brig("run", "--", "cat", input=data)
    assert done.status == 0 and len(done.stdout) == len(data) and done.stdout == data


@test
def a_file_keeps_its_place():
    data = noise(MIB)
    with (scratch() / "out").open("wb") as goal:
        goal.write(b"before\n")
        goal.flush()
        with start_brig("run", "--", "cat", stdin=subprocess.PIPE, stdout=goal) as p:
            p.communicate(data)
        os.write(goal.fileno(), b"after\n")
    assert (scratch() / "out").read_bytes() == b"before\n" + data + b"after\n"


@test
def a_file_opened_for_appending_is_appended_to():
    data = noise(MIB)
    (scratch() / "out").write_bytes(b"before\n")
    with (scratch() / "out").open("ab") as goal, start_brig("run", "--", "cat", stdin=subprocess.PIPE, stdout=goal) as p:
        p.communicate(data)
    assert (scratch() / "out").read_bytes() == b"before\n" + data


@test
def both_streams_into_one_appended_file_lose_nothing():
    with (scratch() / "log").open("ab") as log:
        p = start_brig("run", "--", "sh", "-c", "i=0; while [ $i -lt 500 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done",
                       stdout=log, stderr=log)
        assert finish(p) == 0
    lines = (scratch() / "log").read_text().split()
    assert [l for l in lines if l[0] == "o"] == [f"o{i}" for i in range(500)]
    assert [l for l in lines if l[0] == "e"] == [f"e{i}" for i in range(500)]


@test
def both_streams_into_one_plain_file_lose_nothing():
    with (scratch() / "log").open("wb") as log:
        p = start_brig("run", "--", "sh", "-c", "i=0; while [ $i -lt 500 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done",
                       stdout=log, stderr=log)
        assert finish(p) == 0
    assert len((scratch() / "log").read_text().split()) == 1000


@test
def sockets_serve_as_both_streams():
    data = noise(MIB)
    ours, theirs = socket.socketpair()
    p = start_brig("run", "--", "cat", stdin=theirs, stdout=theirs)
    theirs.close()
    got, left = bytearray(), memoryview(data)
    ours.setblocking(False)
    while len(got) < len(data):
        readable, writable, _ = select.select([ours], [ours] if left else [], [], 20 * PATIENCE)
        assert readable or writable, "stuck"
        if readable:
            chunk = ours.recv(MIB)
            assert chunk, "closed early"
            got += chunk
        if writable:
            left = left[ours.send(left[:64 * KIB]):]
    ours.shutdown(socket.SHUT_WR)
    assert finish(p) == 0 and got == data


@test
def the_null_device_serves_as_both_streams():
    p = start_brig("run", "--", "sh", "-c", "cat; head -c 1000000 /dev/zero; exit 3", stdout=subprocess.DEVNULL)
    assert finish(p) == 3


@test
def a_goal_that_is_full_ends_the_command_as_a_closed_pipe_would():
    with open("/dev/full", "wb") as full:
        p = start_brig("run", "--timeout", "20s", "--", "sh", "-c", "exec head -c 10000000 /dev/zero", stdout=full)
    status = finish(p, 15)
    assert status not in (0, 124), status


@test
def flags_of_the_callers_descriptors_are_not_touched():
    r, w = os.pipe()
    silent, _ = os.pipe()
    ours, theirs = socket.socketpair()
    with (scratch() / "file").open("wb") as f:
        for goal in (w, theirs.fileno(), f.fileno()):
            flags = fcntl.fcntl(goal, fcntl.F_GETFL)
            p = start_brig("run", "--", "sh", "-c", "sleep 0.1; echo done", stdin=silent, stdout=goal, stderr=theirs)
            time.sleep(0.05)
            assert fcntl.fcntl(goal, fcntl.F_GETFL) == flags
            assert finish(p) == 0
            assert fcntl.fcntl(goal, fcntl.F_GETFL) == flags and not fcntl.fcntl(silent, fcntl.F_GETFL) & os.O_NONBLOCK
    assert os.read(r, 100) == b"done\n" and ours.recv(100) == b"done\n"


@test
def an_end_that_does_not_block_serves_as_well():
    r, w = os.pipe()
    in_r, in_w = os.pipe()
    for fd in (w, in_r):
        os.set_blocking(fd, False)
    p = start_brig("run", "--", "cat", stdin=in_r, stdout=w)
    os.close(w)
    os.close(in_r)
    data = noise(300 * KIB)
    if os.fork() == 0:
        os.close(r)
        time.sleep(0.05)
        for at in range(0, len(data), 10 * KIB):
            os.write(in_w, data[at:at + 10 * KIB])
        os._exit(0)
    os.close(in_w)
    with open(r, "rb") as f:
        assert f.read() == data
    assert finish(p) == 0


# ---- ends that go away or were never there ----


@test
def a_reader_that_leaves_ends_the_command_soon():
    began = time.monotonic()
    line = f"{shlex.join(brig_argv('run', '--', 'yes'))}; echo $? > {scratch()}/status"
    done = subprocess.run(["bash", "-c", f"({line}) | head -1"], env=brig_environment(), cwd=workspace(),
                          capture_output=True, timeout=20 * PATIENCE, check=False)
    assert done.stdout == b"y\n" and time.monotonic() - began < 5 * PATIENCE
    assert wait_until(lambda: (scratch() / "status").exists() and (scratch() / "status").read_text())
    assert (scratch() / "status").read_text() == f"{128 + signal.SIGPIPE}\n"


@test
def a_reader_that_leaves_does_not_end_a_command_that_does_not_write():
    r, w = os.pipe()
    os.close(r)
    p = start_brig("run", "--", "sh", "-c", "sleep 0.2; touch made; exit 4", stdout=w)
    os.close(w)
    assert finish(p) == 4 and (workspace() / "made").exists()


@test
def output_that_cannot_be_written_is_no_success():
    def full(*args, stream="stdout"):
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with open("/dev/full", "wb") as goal:
            p = start_brig(*args, **{**streams, stream: goal})
            return finish(p), p.stderr.read().decode() if p.stderr else ""

    for options in ((), ("--output-limit", "1k"), ("--tty",)):
        status, errors = full("run", *options, "--", "echo", "x")
        assert status == 125 and "output is not complete" in errors and "No space left" in errors, (status, errors)
    assert full("run", "--", "sh", "-c", "echo x >&2", stream="stderr")[0] == 125
    assert full("run", "--", "sh", "-c", "echo x; exit 3")[0] == 3  # the command's own says more
    assert full("run", "--", "true") == (0, "")
    for args in (("run", "--json", "--", "true"), ("plan", "--", "true"), ("version",), ("help",), ("schema",), ("config", "show"),
                 ("completion", "bash"), ("doctor",), ("audit", "list")):
        status, errors = full(*args)
        assert status == 125 and "cannot write" in errors, (args, status, errors)


@test
def a_limit_on_file_sizes_is_an_error_with_words():
    line = shlex.join(brig_argv("run", "--", "true"))
    done = subprocess.run(["bash", "-c", f"ulimit -f 0; {line}"], env=brig_environment(), cwd=workspace(),
                          capture_output=True, timeout=20 * PATIENCE, check=False)
    assert done.returncode == 125 and b"File too large" in done.stderr and b"hint: " in done.stderr, (done.returncode, done.stderr)


@test
def too_few_descriptors_are_an_error_with_words_or_none():
    line = shlex.join(brig_argv("run", "--", "echo", "x"))
    seen = set()
    for limit in (*range(6, 40, 2), 64):
        done = subprocess.run(["bash", "-c", f"ulimit -n {limit}; {line}"], env=brig_environment(), cwd=workspace(),
                              capture_output=True, timeout=20 * PATIENCE, check=False)
        good = (done.returncode, done.stdout, done.stderr) == (0, b"x\n", b"")
        refused = done.returncode == 125 and b"brig: " in done.stderr
        assert good or refused, (limit, done.returncode, done.stdout, done.stderr)
        seen.add(good)
    assert seen == {True, False}


@test
def closed_streams_of_the_caller_are_no_obstacle():
    for closing in ("<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"):
        line = f"{shlex.join(brig_argv('run', '--', 'sh', '-c', 'cat; echo out; echo err >&2; exit 3'))} {closing}"
        done = subprocess.run(["bash", "-c", line], env=brig_environment(), cwd=workspace(), stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=20 * PATIENCE, check=False)
        # A command whose stdout was closed by its caller may see its echo fail; its end is still its own.
        assert done.returncode == 3, f"{closing}: {done}"
        assert done.stdout == (b"" if " >&-" in f" {closing}" else b"out\n"), closing
        assert done.stderr == (b"" if "2>&-" in closing else b"err\n"), closing


@test
def a_command_that_closes_its_streams_goes_on():
    assert sh("exec <&- >&- 2>&-; sleep 0.2; touch made; exit 3").status == 3
    assert (workspace() / "made").exists()


@test
def input_nobody_reads_does_not_delay_the_end():
    with open("/dev/zero", "rb") as endless:
        began = time.monotonic()
        assert finish(start_brig("run", "--", "true", stdin=endless)) == 0
        assert finish(start_brig("run", "--", "head", "-c", "100000", stdin=endless, stdout=subprocess.DEVNULL)) == 0
    assert time.monotonic() - began < 5 * PATIENCE
    r, w = os.pipe()  # open at both ends and silent
    assert finish(start_brig("run", "--", "true", stdin=r)) == 0
    os.close(w)


@test
def a_folder_as_input_is_an_empty_one():
    fd = os.open("/usr", os.O_RDONLY)
    p = start_brig("run", "--", "sh", "-c", "wc -c; exit 3", stdin=fd)
    assert finish(p) == 3 and p.stdout.read() == b"0\n"


# ---- input of a loop ----


def loop(body):
    line = f"while read x; do {body}; echo \"<$x>\"; done < {scratch()}/list"
    return subprocess.run(["bash", "-c", line], env=brig_environment(), cwd=workspace(), capture_output=True, text=True,
                          timeout=30 * PATIENCE, check=False).stdout.split()


@test
def a_command_that_reads_nothing_leaves_the_callers_loop_its_lines():
    (scratch() / "list").write_text("".join(f"{i}\n" for i in range(5)))
    assert loop(shlex.join(brig_argv("run", "--", "true"))) == [f"<{i}>" for i in range(5)]


@test
def a_command_that_reads_one_line_takes_one_line():
    (scratch() / "list").write_text("".join(f"{i}\n" for i in range(6)))
    taken = loop(shlex.join(brig_argv("run", "--", "sh", "-c", "read y; echo \"[$y]\"")))
    assert taken == ["[1]", "<0>", "[3]", "<2>", "[5]", "<4>"]


@test
def a_large_list_is_given_back_to_the_byte():
    data = b"".join(b"%07d\n" % i for i in range(100_000))
    (scratch() / "list").write_bytes(data)
    with (scratch() / "list").open("rb", buffering=0) as f:
        assert finish(start_brig("run", "--", "dd", "bs=1", "count=10000", "status=none", stdin=f,
                                 stdout=subprocess.DEVNULL)) == 0
        assert f.tell() == 10000


@test
def json_reads_input_and_gives_it_back_too():
    (scratch() / "list").write_text("one\ntwo\n")
    with (scratch() / "list").open("rb", buffering=0) as f:
        p = start_brig("run", "--json", "--", "sh", "-c", "read x; echo $x", stdin=f)
        assert b'"one\\n"' in p.stdout.read() and finish(p) == 0
        assert f.read() == b"two\n"


# ---- what is kept for --json ----


@test
def output_holds_both_streams_in_order_of_arrival():
    lines = [f"{'eo'[i % 2]}{i}" for i in range(8)]
    script = "; ".join(f"echo {l}{' >&2' if l[0] == 'e' else ''}; sleep {0.04 * FACTOR}" for l in lines)
    r = sh(script, "--json").json
    assert r["output"].split() == lines
    assert r["stdout"].split() == lines[1::2] and r["stderr"].split() == lines[::2]


@test
def output_byte_by_byte_makes_the_same_characters():
    code = f"import os, time\nfor b in {TEXT.encode()!r}: os.write(1, bytes([b])); time.sleep(0.001)"
    r = brig("run", "--json", "--", "python3", "-c", code).json
    assert (r["stdout"], r["output"], r["stdout_truncated"]) == (TEXT, TEXT, False)
    assert brig("run", "--", "python3", "-c", code).stdout == TEXT.encode()


@test
def an_output_limit_of_any_size_cuts_between_characters():
    (workspace() / "text").write_text(TEXT)
    whole = len(TEXT.encode())
    for limit in [*range(1, 21), whole - 1, whole, whole + 1]:
        r = sh("cat text; cat text >&2", "--json", "--output-limit", str(limit)).json
        assert r["stdout"] == r["stderr"] == prefix(TEXT, limit), limit
        assert r["stdout_bytes"] == r["stderr_bytes"] == whole
        assert r["stdout_truncated"] == r["stderr_truncated"] == (limit < whole), limit
        assert r["limits_hit"] == (["output"] if limit < whole else []), limit


@test
def an_output_limit_of_what_passes_through_cuts_between_characters_too():
    (workspace() / "text").write_text(TEXT)
    for limit in [*range(1, 21), len(TEXT.encode()), 1000]:
        done = sh("cat text; cat text >&2", "--quiet", "--output-limit", str(limit))
        assert done.status == 0
        assert done.stdout == prefix(TEXT, limit).encode() == done.stderr, (limit, done.stdout, done.stderr)


@test(as_user="user")
def an_output_limit_cuts_output_that_comes_byte_by_byte_at_the_same_place():
    code = f"import os\nfor b in {TEXT.encode()!r}: os.write(1, bytes([b]))"
    for limit in (1, 2, 3, 5, 6, 7, 9, 10, 11):
        options = ("--output-limit", str(limit), "--", "python3", "-c", code)
        assert brig("run", "--json", *options).json["stdout"] == prefix(TEXT, limit), limit
        assert brig("run", "--quiet", *options).stdout == prefix(TEXT, limit).encode(), limit


@test
def bytes_that_are_no_text_pass_through_and_are_replaced_in_json():
    for data, text in ((b"a\0b", "a\0b"), (b"a\xff\xfeb", "a\ufffd\ufffdb"), (b"cut \xe2\x82", "cut \ufffd"),
                       (b"\xed\xa0\x80", None), (b"\xc0\xaf", None), (b"\xf4\x90\x80\x80", None), (b"\x80" * 10, None)):
        (workspace() / "data").write_bytes(data)
        assert brig("run", "--", "cat", "data").stdout == data
        r = brig("run", "--json", "--", "cat", "data").json
        assert r["stdout_bytes"] == len(data)
        if text is not None:
            assert r["stdout"].startswith("cut \ufffd") if data[:3] == b"cut" else r["stdout"] == text, r["stdout"]
        else:
            assert set(r["stdout"]) == {"\ufffd"}, r["stdout"]


@test
def json_holds_nothing_that_a_terminal_obeys():
    """Neither what the command says nor the names it chose; the meaning stays."""
    bad = "".join(map(chr, (*range(0x80, 0xa0), 0x7f, 0x61c, 0x200e, 0x200f, *range(0x2028, 0x202f), *range(0x2066, 0x206a), 0xfeff)))
    name = "\u009b31m\u202e"
    (workspace() / "data").write_text(bad, encoding="utf-8")
    done = brig("run", "--json", "--", "sh", "-c", f"cat data; cat data >&2; mkdir -p .husky/'{name}'")
    r = done.json
    assert r["stdout"] == r["stderr"] == bad, r
    assert not set(done.stdout.decode()) & (set(bad) | set(map(chr, range(0x20))) - {"\n"}), done.stdout
    done = brig("run", "--json", "--", "sh", "-c", f"'./{name}'")
    assert name in done.json["stderr"] and name not in done.stdout.decode(), done.stdout
    plan = brig("plan", "--", "echo", name)
    assert plan.json["argv"][1] == name and name not in plan.stdout.decode(), plan.stdout


# Bytes of names that would paint, retitle, reverse, break a line, forge a line, end a text; and no text at all.
PLANTED = ("a\x1b[8mb", "a\x1b]0;t\x07b", "a\u202eb", "a\u009b8mb", "a\nbrig: all is well", "a\rb", "a\x7fb", "a\u2028b", 'a"b\\c', "a\u2066b", "a\udcff\udc9bb")
OBEYED = {*map(chr, (*range(0x20), *range(0x7f, 0xa0), 0x61c, 0x200e, 0x200f, *range(0x2028, 0x202f), *range(0x2066, 0x206a), 0xfeff))} - {"\n"}


@test(backends=("native", "bwrap"))
def names_that_the_command_plants_are_escaped_in_every_stream():
    """Of hooks, of files that tools obey, of folders around both: in the result, on stderr, on the record in each of its forms."""
    code = f"""
import os
def plant(path):
    os.makedirs(os.path.dirname(path) or '.', exist_ok=True); open(path, 'a').write('x')
for name in {PLANTED!a}:
    plant(name + '.code-workspace'); plant(name + 'dir/CLAUDE.md'); plant('.husky/' + name)
    plant(name + 'repo/.git/hooks/post-checkout'); plant(name + 'repo/.git/hooks/' + name)
"""
    done = brig("run", "--json", "--", "/usr/bin/python3", "-c", code)
    r, run = done.json, done.json["id"]
    told = [name.encode(errors="surrogateescape").decode(errors="replace") for name in PLANTED]
    assert {p.name for p in workspace().iterdir()} >= {f"{n}.code-workspace" for n in PLANTED}  # the control: they are there as they are
    targets = {d["target"] for d in r["denials"]}
    paths = {c["path"] for c in r["changed_trust"]}
    assert all(f"{n}repo/.git/hooks" in targets for n in told), targets
    assert all(f"{n}.code-workspace" in paths and f"{n}dir/CLAUDE.md" in paths for n in told), paths
    said = {"result": done.text, "stderr": done.errors, "stderr alone": brig("run", "--", "/usr/bin/python3", "-c", code).errors}
    for command in (("list", "--limit", "500"), ("show", run), ("security-events",), ("export",)):
        for form in ((), ("--json",), ("--jsonl",), ("--csv",)):
            got = brig("audit", *command, *form)
            said[f"audit {command[0]} {form}"] = got.text.replace("\r\n", "\n") + got.errors  # CSV ends its lines so
    said["the record's file"] = "".join(p.read_text() for p in (state() / "brig/audit").rglob("*.jsonl"))
    assert sum(text.count("repo/.git/hooks") >= len(PLANTED) for text in said.values()) >= 12, {k: len(v) for k, v in said.items()}
    for where, text in said.items():
        assert not set(text) & OBEYED, (where, set(text) & OBEYED)
        assert "\nbrig: all is well" not in text, where


@test(as_user="user")
def invalid_bytes_under_a_limit_stay_within_it():
    (workspace() / "data").write_bytes(b"\xff\x80\xe2\x82" * 50)
    for limit in range(1, 12):
        assert len(sh("cat data", "--quiet", "--output-limit", str(limit)).stdout) <= limit
        assert sh("cat data", "--json", "--output-limit", str(limit)).json["stdout_truncated"]


@test
def json_of_a_large_output_is_one_valid_object():
    data = (TEXT + "\"\\\n\x01\x1b[31m") * 100_000
    (workspace() / "data").write_text(data)
    r = brig("run", "--json", "--output-limit", "64m", "--", "cat", "data").json
    assert r["stdout"] == r["output"] == data and not r["stdout_truncated"] and r["outcome"] == "exited"


@test
def the_default_cap_is_64_kib_a_stream_when_captured_and_none_otherwise():
    r = sh("head -c 200000 /dev/zero | tr '\\0' a; head -c 100000 /dev/zero | tr '\\0' b >&2", "--json").json
    assert len(r["stdout"]) == len(r["stderr"]) == 64 * KIB
    assert (r["stdout_bytes"], r["stderr_bytes"]) == (200000, 100000)
    assert len(sh("head -c 200000 /dev/zero").stdout) == 200000


# ---- floods ----


@test(as_user="user", limit=90)
def a_flood_of_two_gigabytes_is_counted_in_little_memory():
    brig("run", "--", "true")  # the first run of all reads what every package of the machine ships
    p = start_brig("run", "--json", "--timeout", f"{60 * FACTOR}s", "--", "head", "-c", "2G", "/dev/zero")
    peak = 0
    while not select.select([p.stdout], [], [], 0.02)[0]:
        peak = max(peak, peak_memory(p))
    text = p.stdout.read()
    assert finish(p) == 0 and b'"stdout_bytes": 2147483648' in text
    assert small(peak), f"{peak} bytes resident"


@test
def an_endless_flood_through_brig_meets_its_time_limit_in_little_memory():
    p = start_brig("run", "--timeout", "700ms", "--", "sh", "-c", "yes & exec cat /dev/zero >&2", stdout=subprocess.PIPE,
                   stderr=subprocess.DEVNULL)
    began, peak = time.monotonic(), 0
    while p.stdout.read1(MIB):
        peak = max(peak, peak_memory(p))
    assert finish(p) == 124 and time.monotonic() - began < 5 * PATIENCE
    assert small(peak), f"{peak} bytes resident"


@test
def a_reader_that_stops_makes_one_stream_wait_and_not_the_other():
    p = start_brig("run", "--timeout", f"{1.5 * FACTOR}s", "--", "sh", "-c",
                   "yes & i=0; while [ $i -lt 20 ]; do echo line $i >&2; sleep 0.02; i=$((i+1)); done; wait")
    got = b""
    while b"line 19\n" not in got:
        assert select.select([p.stderr], [], [], 10 * PATIENCE)[0], got
        chunk = os.read(p.stderr.fileno(), 4096)
        assert chunk, got
        got += chunk
    assert small(peak_memory(p))
    assert p.poll() is None
    assert wait_until(lambda: not descendants(p.pid), 10), "no time limit"
    p.stdout.close()  # what was written before the end may wait for its reader, who is gone now
    assert finish(p, 10) == 124


# ---- terminals ----


@test
def a_terminal_is_spared_what_a_pipe_gets_to_the_byte():
    evil = b"\x1b]0;title\x07red \x1b[31mtext\x1b[0m \x1b[6n\x1b]52;c;ZXZpbA==\x07\x1bP+q\x1b\\end\n"
    (workspace() / "evil").write_bytes(evil)
    assert brig("run", "--", "cat", "evil").stdout == evil
    master, slave = pty.openpty()
    tty.setraw(slave)
    p = start_brig("run", "--", "cat", "evil", stdout=slave)
    os.close(slave)
    shown = shown_on(master)
    assert finish(p) == 0
    assert b"red \x1b[31mtext\x1b[0m " in shown and shown.rstrip().endswith(b"end")
    assert not re.search(rb"\x1b[^\[]|\x07|\x1b\[6n", shown), shown


if __name__ == "__main__":
    sys.exit(main())
