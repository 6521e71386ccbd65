#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Metrics in a textfile, traces to a collector, lines for the journal: read as their real readers would."""

import contextlib
import fcntl
import http.server
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import (FACTOR, PATIENCE, brig, brig_argv, brig_environment, brig_path, descendants, home, main, scratch, start_brig, test, wait_until,
                     workspace)

# ---- a strict reader of Prometheus text ----

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')
NUMBER = re.compile(r"\d+(\.\d+)?")


def labels_of(text):
    found, at = {}, 0
    while at < len(text or ""):
        m = LABEL.match(text, at)
        assert m, f"not labels: {text}"
        assert m[1] not in found, f"twice: {text}"
        found[m[1]], at = m[2], m.end()
    return tuple(sorted(found.items()))


def family_of(name, types):
    for suffix in ("_bucket", "_sum", "_count"):
        if name.endswith(suffix) and types.get(name.removesuffix(suffix)) == "histogram":
            return name.removesuffix(suffix)
    return name


def prometheus(text):
    """{(name, labels): value}, after every rule of the format that a scraper relies on."""
    assert text.endswith("\n"), "cut off"
    types, helps, samples, order = {}, {}, {}, []
    for line in text.splitlines():
        if line.startswith("# "):
            _, what, name, rest = line.split(" ", 3)
            into = {"HELP": helps, "TYPE": types}[what]
            assert name not in into, f"second {what} of {name}"
            into[name] = rest
            continue
        m = SAMPLE.fullmatch(line)
        assert m and NUMBER.fullmatch(m[3]), f"not a sample: {line}"
        family = family_of(m[1], types)
        assert family in types and family in helps, f"{line} stands before its TYPE and HELP"
        if not order or order[-1] != family:
            assert family not in order, f"samples of {family} do not stand together"
            order.append(family)
        key = m[1], labels_of(m[2])
        assert key not in samples, f"twice: {line}"
        samples[key] = float(m[3])
    check_histograms(samples, types)
    return samples


def check_histograms(samples, types):
    for family in (name for name, kind in types.items() if kind == "histogram"):
        for (name, labels), count in samples.items():
            if name != f"{family}_count":
                continue
            buckets = [(dict(l)["le"], v) for (n, l), v in samples.items()
                       if n == f"{family}_bucket" and set(labels) <= set(l)]
            bounds = [float(le) for le, _ in buckets]
            assert bounds == sorted(bounds) and bounds[-1] == float("inf"), f"bounds of {family}"
            values = [v for _, v in buckets]
            assert values == sorted(values) and values[-1] == count, f"buckets of {family}"
            assert (f"{family}_sum", labels) in samples


def textfile():
    return scratch() / "brig.prom"


def metrics_env(**more):
    return {"BRIG_METRICS_TEXTFILE": str(textfile()), **more}


def counts():
    return prometheus(textfile().read_text())


def runs(samples, outcome):
    return sum(v for (n, l), v in samples.items() if n == "brig_runs_total" and dict(l)["outcome"] == outcome)


@test(limit=120)
def thirty_two_runs_at_once_are_counted_exactly():
    kinds = {"exited": ["sh", "-c", "printf 12345; exit 3"], "signalled": ["sh", "-c", "kill -9 $$"], "failed": ["/no/such/command"]}
    stop, seen = threading.Event(), []

    def read():  # as a collector would, at any time
        while not stop.is_set():
            with contextlib.suppress(FileNotFoundError):
                seen.append(len(counts()))
            time.sleep(0.002)

    reader = threading.Thread(target=read)
    reader.start()
    argvs = [list(kinds.values())[i % 4] if i % 4 < 3 else kinds["exited"] for i in range(32)]
    started = [start_brig("run", "--", *argv, env=metrics_env()) for argv in argvs]
    for p in started:
        _, err = p.communicate(timeout=60 * PATIENCE)
        assert b"metrics" not in err, err
    stop.set()
    reader.join()
    got = counts()
    assert runs(got, "exited") == 16 and runs(got, "signalled") == 8, got
    assert runs(got, "failed") + runs(got, "refused") == 8, got
    assert sum(v for (n, _), v in got.items() if n == "brig_runs_total") == 32
    assert sum(v for (n, _), v in got.items() if n == "brig_run_duration_seconds_count") == 24
    assert got["brig_output_bytes_total", (("stream", "stdout"),)] == 16 * 5
    assert seen


@test
def limits_and_refusals_are_counted():
    assert brig("run", "--timeout", "200ms", "--", "sleep", "5", env=metrics_env()).status == 124
    assert brig("run", "--mount", "/etc:/mnt/x:rw", "--", "true", env=metrics_env()).status == 125
    got = counts()
    assert got["brig_limit_hits_total", (("limit", "timeout"),)] == 1
    assert runs(got, "timeout") == 1 and runs(got, "refused") == 1
    assert got["brig_audit_failures_total", ()] == 0


@test
def a_run_whose_record_cannot_be_written_is_counted():
    (scratch() / "file").write_text("in the way")
    done = brig("run", "--", "true", env=metrics_env(BRIG_AUDIT_DIR=str(scratch() / "file")))
    assert done.status == 125, done.errors
    got = counts()
    assert got["brig_audit_failures_total", ()] == 1 and runs(got, "refused") == 1
    assert brig("run", "--", "true", env=metrics_env()).status == 0
    assert counts()["brig_audit_failures_total", ()] == 1


@test
def a_broken_file_is_replaced_and_said():
    textfile().write_text("node_load1 0.5\n")
    done = brig("run", "--", "true", env=metrics_env())
    assert done.status == 0 and "starts afresh" in done.errors and "line 1" in done.errors
    assert runs(counts(), "exited") == 1
    done = brig("run", "--", "true", env=metrics_env())
    assert done.status == 0 and not done.errors
    assert runs(counts(), "exited") == 2


@test
def a_file_that_cannot_be_written_fails_no_run():
    done = brig("run", "--", "sh", "-c", "exit 4", env={"BRIG_METRICS_TEXTFILE": "/nowhere/brig.prom"})
    assert done.status == 4 and "missing in the metrics" in done.errors and "/nowhere" in done.errors


@test
def the_file_is_not_the_commands_to_change():
    inside = workspace() / "brig.prom"
    done = brig("run", "--", "true", env={"BRIG_METRICS_TEXTFILE": str(inside)})
    assert done.status == 125 and "could be changed inside" in done.errors
    done = brig("run", "--write", scratch(), "--", "true", env=metrics_env())
    assert done.status == 125 and "could be changed inside" in done.errors
    assert brig("run", "--", "true", env=metrics_env()).status == 0


@test
def a_projects_file_cannot_say_where_it_is():
    (workspace() / ".brig.yaml").write_text(f"metrics:\n  textfile: {textfile()}\n")
    done = brig("run", "--", "true")
    assert done.status == 125 and "metrics.textfile" in done.errors and "may only tighten" in done.errors
    assert not textfile().exists()


# ---- a collector ----


def milliseconds(seconds):
    return str(int(1000 * seconds * FACTOR))


class Collector:
    """An OTLP/HTTP receiver on loopback; answers with the given statuses in turn, the last for good."""

    def __init__(self, *statuses, tls=None, hang=False, headers=()):
        self.requests, self.statuses, self.hang = [], list(statuses or (200,)), hang
        self.stopped = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.requests.append((self.path, dict(self.headers), body))
                if outer.hang:
                    outer.stopped.wait(30)
                    return
                status = outer.statuses.pop(0) if len(outer.statuses) > 1 else outer.statuses[0]
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value.replace("PORT", str(outer.port)))
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):  # a client that does not trust us hangs up
                pass

            def get_request(self):
                sock, at = super().get_request()
                return (tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False) if tls else sock), at

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def env(self, host="127.0.0.1", scheme="http", **more):
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"{scheme}://{host}:{self.port}", "OTEL_EXPORTER_OTLP_TIMEOUT": milliseconds(5), **more}

    def wait(self, n=1, seconds=10):
        assert wait_until(lambda: len(self.requests) >= n, seconds), f"{len(self.requests)} of {n} requests came"
        return [json.loads(body) for _, _, body in self.requests]


def senders():
    return [pid for pid, name in descendants().items() if name == "brig-send"]


def no_sender_left(seconds=5):
    return wait_until(lambda: not senders(), seconds)


def attributes(thing):
    return {a["key"]: next(iter(a["value"].values())) for a in thing["attributes"]}


def only(values):
    (value,) = values
    return value


def check_trace(request, parent=None):
    """The tree is whole and its times are in order; returns (root, phases)."""
    spans = only(only(request["resourceSpans"])["scopeSpans"])["spans"]
    ids = [s["spanId"] for s in spans]
    assert len(set(ids)) == len(ids) and all(re.fullmatch("[0-9a-f]{16}", i) for i in ids)
    assert re.fullmatch("[0-9a-f]{32}", only({s["traceId"] for s in spans}))
    root, phases = spans[0], spans[1:]
    assert root.get("parentSpanId") == parent
    assert all(p["parentSpanId"] == root["spanId"] for p in phases)
    times = [(int(s["startTimeUnixNano"]), int(s["endTimeUnixNano"])) for s in spans]
    assert all(a <= b for a, b in times)
    assert times[0][0] == times[1][0] and times[0][1] == times[-1][1]
    assert all(a[1] == b[0] for a, b in zip(times[1:], times[2:])), "phases follow one another"
    assert abs(time.time_ns() - times[0][1]) < 60e9 * PATIENCE
    return root, phases


@test
def a_run_arrives_as_a_trace():
    with Collector() as c:
        env = c.env(OTEL_EXPORTER_OTLP_HEADERS="x-token=s3cret%20word,x-other=2", OTEL_SERVICE_NAME="tests",
                    OTEL_RESOURCE_ATTRIBUTES="team=one%2Ftwo,service.name=not-this", PASSWORD="hunter2")
        done = brig("run", "--env", "KEY=hunter2", "--", "sh", "-c", "env; exit 3 # hunter2", env=env)
        request = only(c.wait())
        path, headers, raw = c.requests[0]
    assert done.status == 3 and not done.errors
    assert "OTEL_" not in done.text and "TRACEPARENT" not in done.text
    assert path == "/v1/traces" and headers["Content-Type"] == "application/json"
    assert headers["x-token"] == "s3cret word" and headers["x-other"] == "2"
    root, phases = check_trace(request)
    assert [p["name"] for p in phases] == ["plan", "setup", "run", "finish"]
    resource = attributes(only(request["resourceSpans"])["resource"])
    assert resource["service.name"] == "tests" and resource["team"] == "one/two"
    said = attributes(root)
    assert said["brig.outcome"] == "exited" and said["process.exit.code"] == "3"
    assert said["process.executable.name"] == "sh" and root["status"]["code"] == 2
    assert b"hunter2" not in raw and b"s3cret" not in raw and os.fsencode(workspace()) not in raw
    assert no_sender_left()


@test
def the_parent_is_followed_and_handed_on_only_if_passed():
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    given = {"TRACEPARENT": f"00-{trace}-{span}-01", "TRACESTATE": "vendor=1"}
    with Collector() as c:
        silent = brig("run", "--", "env", env=c.env(**given))
        passed = brig("run", "--env-pass", "TRACEPARENT", "--", "printenv", "TRACEPARENT", env=c.env(**given))
        first, second = sorted(c.wait(2), key=lambda r: "printenv" in json.dumps(r))
        unsampled = brig("run", "--env-pass", "TRACEPARENT", "--", "printenv", "TRACEPARENT",
                         env=c.env(TRACEPARENT=f"00-{trace}-{span}-00"))
        assert no_sender_left()
        assert len(c.requests) == 2, "what the parent does not sample is not sent"
    assert "TRACEPARENT" not in silent.text
    root, _ = check_trace(first, parent=span)
    assert root["traceId"] == trace and root["traceState"] == "vendor=1"
    root, _ = check_trace(second, parent=span)
    assert passed.text.strip() == f"00-{trace}-{root['spanId']}-01"
    assert re.fullmatch(f"00-{trace}-[0-9a-f]{{16}}-00", unsampled.text.strip())


@test
def a_refused_run_is_a_trace_too():
    with Collector() as c:
        assert brig("run", "--", "/no/such/command", env=c.env()).status == 127
        root, phases = check_trace(only(c.wait()))
        assert no_sender_left()
    assert phases[0]["name"] == "plan" and "run" not in [p["name"] for p in phases]
    assert attributes(root)["error.type"] == "not_found"


@test
def what_is_not_supported_is_said_and_the_run_goes_on():
    with Collector() as c:
        done = brig("run", "--", "true", env=c.env(OTEL_EXPORTER_OTLP_PROTOCOL="grpc"))
        assert done.status == 0 and "OTEL_EXPORTER_OTLP_PROTOCOL 'grpc' is not supported" in done.errors
        for off in ({"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_TRACES_SAMPLER": "always_off"}):
            assert not brig("run", "--", "true", env=c.env(**off)).errors
        assert brig("run", "--", "true", env=c.env()).status == 0  # the control: it would have come
        c.wait()
        assert no_sender_left() and len(c.requests) == 1


@test
def a_collector_that_hangs_holds_nobody_up():
    with Collector(hang=True) as c:
        assert brig("run", "--", "true", env=c.env(OTEL_EXPORTER_OTLP_TIMEOUT=milliseconds(3))).status == 0
        c.wait()
        assert senders(), "it waits for the answer, after brig has ended"
        assert no_sender_left(8), "and gives up when its time is over"


@test
def a_listener_that_never_accepts_holds_nobody_up():
    with socket.create_server(("127.0.0.1", 0)) as s:
        url = f"https://127.0.0.1:{s.getsockname()[1]}"
        done = brig("run", "--", "true", env={"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_TIMEOUT": milliseconds(3)})
        assert done.status == 0 and wait_until(senders), "nobody was to be held up"  # it takes its name a moment after brig has ended
        assert no_sender_left(20)  # of its own accord, after three seconds of its own


@test
def only_what_the_protocol_lets_repeat_is_repeated():
    with Collector(503, 429, 200) as c:
        assert brig("run", "--", "true", env=c.env()).status == 0
        bodies = c.wait(3)
        assert no_sender_left() and len(c.requests) == 3
        assert bodies[0] == bodies[1] == bodies[2]
    with Collector(400) as c:
        assert brig("run", "--", "true", env=c.env()).status == 0
        c.wait()
        assert no_sender_left() and len(c.requests) == 1
    with Collector(307, headers=[("Location", "http://127.0.0.1:PORT/elsewhere")]) as c:
        assert brig("run", "--", "true", env=c.env()).status == 0
        c.wait()
        assert no_sender_left() and len(c.requests) == 1, "redirects are not followed"
    with Collector(503, headers=[("Retry-After", "3600")]) as c:
        assert brig("run", "--", "true", env=c.env()).status == 0
        c.wait()
        assert no_sender_left(7) and 1 <= len(c.requests) <= 5


# ---- TLS ----


def openssl(*args):
    made = subprocess.run(["openssl", *args], cwd=scratch(), capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr


def certificates(name="localhost"):
    """A private authority and a server's certificate for a name; returns its TLS context."""
    if not (scratch() / "ca.pem").exists():
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=test CA",
                "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-keyout", "ca.key", "-out", "ca.pem")
    (scratch() / "ext").write_text(f"subjectAltName={'IP' if name[0].isdigit() else 'DNS'}:{name}\n")
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=x", "-keyout", "server.key",
            "-out", "server.csr")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "ext", "-out", "server.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(scratch() / "server.pem", scratch() / "server.key")
    return context


@test
def https_needs_a_trusted_certificate():
    trust = {"SSL_CERT_FILE": str(scratch() / "ca.pem")}
    with Collector(tls=certificates()) as c:
        for env, expected in ((trust, 1), ({}, 1), ({"OTEL_EXPORTER_OTLP_CERTIFICATE": trust["SSL_CERT_FILE"]}, 2)):
            assert brig("run", "--", "true", env=c.env("localhost", "https", **env)).status == 0
            wait_until(lambda: len(c.requests) >= expected, 3)
            assert no_sender_left() and len(c.requests) == expected, env
        check_trace(json.loads(c.requests[0][2]))


@test
def the_head_of_the_record_goes_over_https_and_shows_a_rollback_of_both():
    settings = home() / ".config/brig/config.yaml"
    settings.parent.mkdir(parents=True)
    with Collector(tls=certificates()) as c:
        settings.write_text(f"audit:\n  anchor: ['https://localhost:{c.port}/head']\n")
        env = {"SSL_CERT_FILE": str(scratch() / "ca.pem")}
        audit = pathlib.Path(brig_environment()["XDG_STATE_HOME"]) / "brig/audit"
        assert brig("run", "--", "true", env=env).status == 0
        shutil.copytree(audit, scratch() / "older")
        assert brig("run", "--", "true", env=env).status == 0
        assert wait_until(lambda: len(c.requests) >= 4, 10) and no_sender_left()
        lines = [body.decode().strip() for path, _, body in c.requests if path == "/head"]
    shutil.rmtree(settings.parents[1])
    assert len(lines) == 4 and all(line.startswith("brig-head 1 ") for line in lines), lines
    anchor = scratch() / "anchor"
    anchor.write_text("".join(f"{line}\n" for line in lines))
    assert brig("audit", "verify", "--anchor", anchor).status == 0
    shutil.rmtree(audit)
    shutil.copytree(scratch() / "older", audit)
    assert brig("audit", "verify").status == 0, "it is a genuine older copy"
    assert brig("audit", "verify", "--anchor", anchor).status == 1


@test
def roots_below_the_current_folder_are_not_taken():
    context = certificates()
    shutil.copy(scratch() / "ca.pem", workspace() / "ca.pem")
    with Collector(tls=context) as c:
        done = brig("run", "--", "true", env=c.env("localhost", "https", SSL_CERT_FILE="ca.pem"))
        assert done.status == 0 and "absolute path" in done.errors
        assert no_sender_left() and not c.requests


@test
def https_needs_the_right_name():
    trust = {"SSL_CERT_FILE": str(scratch() / "ca.pem")}
    with Collector(tls=certificates("other.example")) as c:
        assert brig("run", "--", "true", env=c.env("localhost", "https", **trust)).status == 0
        assert no_sender_left() and not c.requests
    with Collector(tls=certificates("127.0.0.1")) as c:
        assert brig("run", "--", "true", env=c.env("localhost", "https", **trust)).status == 0
        assert no_sender_left() and not c.requests
        assert brig("run", "--", "true", env=c.env("127.0.0.1", "https", **trust)).status == 0
        c.wait()
        assert no_sender_left()


def speaks(port, version):
    """Can anybody at all connect with this version of TLS?"""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    with socket.create_connection(("127.0.0.1", port)) as s, context.wrap_socket(s) as t:
        return t.version()


@test
def https_needs_tls_1_2():
    trust = {"SSL_CERT_FILE": str(scratch() / "ca.pem")}
    for version, comes in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)):
        context = certificates()
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = version
        with Collector(tls=context) as c:
            assert speaks(c.port, version)
            assert brig("run", "--", "true", env=c.env("localhost", "https", **trust)).status == 0
            if comes:
                c.wait()
            assert no_sender_left() and bool(c.requests) == comes, version


# ---- the sender ----


def copy_of_brig(name="alone", sender=None):
    """A brig in a folder of its own, with the given program as its brig-send; an argv to start it with."""
    folder = scratch() / name
    folder.mkdir()
    shutil.copy(brig_path(), folder / "brig")
    (folder / "brig").chmod(0o755)
    if sender:
        (folder / "brig-send").write_text(sender)
        (folder / "brig-send").chmod(0o755)
    return [str(folder / "brig") if a == str(brig_path()) else a for a in brig_argv("run", "--", "true")]


@test
def a_missing_program_is_said():
    env = brig_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", **metrics_env()})
    done = subprocess.run(copy_of_brig(), env=env, cwd=workspace(), capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0 and "brig-send is not installed" in done.stderr and "libexec" in done.stderr
    assert counts()["brig_export_failures_total", ()] == 1


@test
def the_sender_inherits_nothing():
    seen = scratch() / "seen"
    # The first line forks nothing: a shell blocks signals while it does.
    script = f"""#!/bin/sh
while read -r name value; do [ $name != SigBlk: ] || echo $value; done < /proc/$$/status > {seen}.signals
cat /proc/$$/cmdline | tr '\\0' ' ' > {seen}.argv
ls -l /proc/$$/fd > {seen}.fd
cat /proc/$$/environ | tr '\\0' '\\n' > {seen}.env
pwd > {seen}.cwd
cut -d' ' -f4,6 /proc/$$/stat > {seen}.ids
cat > {seen}.request
mv {seen}.request {seen}.done
"""
    env = brig_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9/tok3n", "PASSWORD": "hunter2", "SSL_CERT_FILE": "/x",
                            "OTEL_EXPORTER_OTLP_HEADERS": "x-key=hunter2"})
    r, w = os.pipe()
    os.set_inheritable(w, True)
    done = subprocess.run(copy_of_brig("fake", script), env=env, cwd=workspace(), capture_output=True, timeout=30, check=False,
                          pass_fds=[w])
    os.close(r)
    os.close(w)
    assert done.returncode == 0, done.stderr
    assert wait_until(pathlib.Path(f"{seen}.done").exists)
    text = {n: pathlib.Path(f"{seen}.{n}").read_text(errors="replace") for n in ("argv", "fd", "env", "signals", "cwd", "ids", "done")}
    assert "hunter2" in text["done"] and "tok3n" in text["done"], "the request itself has them"
    assert "hunter2" not in text["argv"] + text["env"] and "tok3n" not in text["argv"] + text["env"]
    assert [l for l in text["env"].split("\n") if l and not l.startswith(("PWD=", "OLDPWD=", "_="))] == ["SSL_CERT_FILE=/x"]
    fds = dict(re.findall(r"(\d+) -> (.*)", text["fd"]))
    assert fds.pop("0").startswith("/memfd:") and fds["2"] == "/dev/null"
    assert fds.pop("3").endswith("/brig/senders"), "its place among all senders"
    # The rest are the script itself and where it writes to.
    assert set(fds.values()) <= {"/dev/null", f"{seen}.fd", f"{scratch()}/fake/brig-send"}, fds
    assert int(text["signals"], 16) == 0
    assert text["cwd"] == "/\n"
    parent, session = map(int, text["ids"].split())
    assert session != os.getsid(0) and parent != session
    assert wait_until(lambda: not descendants())


@test
def no_more_senders_live_than_thirty_two():
    gate, seen = scratch() / "gate", scratch() / "seen"
    seen.mkdir()
    gate.touch()
    shut = gate.open()
    fcntl.flock(shut, fcntl.LOCK_EX)
    argv = copy_of_brig("slow", f"#!/bin/sh\n: > {seen}/$$\nexec flock --shared {gate} true\n")
    trace = brig_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", **metrics_env()})
    anchor = brig_environment({"XDG_CONFIG_HOME": str(scratch() / "config")})
    (scratch() / "config/brig").mkdir(parents=True)
    (scratch() / "config/brig/config.yaml").write_text("audit:\n  anchor: ['https://127.0.0.1:9/']\n")

    def run(env):
        return subprocess.run(argv, env=env, cwd=workspace(), capture_output=True, text=True, timeout=60, check=False)

    try:
        for _ in range(32):
            done = run(trace)
            assert done.returncode == 0 and "not sent" not in done.stderr, done.stderr
        done = run(trace)  # a trace never holds a run up, and is not lost in silence
        assert done.returncode == 0 and "32 senders are still at work" in done.stderr, done.stderr
        assert wait_until(lambda: len(list(seen.iterdir())) == 32)
        assert counts()["brig_export_failures_total", ()] == 1
        done = run(anchor)  # an anchor waits a moment, then the run is refused
        assert done.returncode == 125 and "audit.anchor" in done.stderr and "senders" in done.stderr, done.stderr
        with subprocess.Popen(argv, env=anchor, cwd=workspace(), stdout=subprocess.DEVNULL) as waiting:
            fcntl.flock(shut, fcntl.LOCK_UN)
            assert waiting.wait(30 * PATIENCE) == 0
        done = run(trace)
        assert done.returncode == 0 and "not sent" not in done.stderr, done.stderr
    finally:
        shut.close()
        assert wait_until(lambda: not descendants())


# ---- the journal ----


@test
def lines_for_the_journal_carry_their_priority():
    def said(right):
        r, w = os.pipe()
        st = os.fstat(w)
        p = start_brig("run", "--timeout", "100ms", "--", "sleep", "5", stderr=w,
                       env={"JOURNAL_STREAM": f"{st.st_dev}:{st.st_ino + (not right)}"})
        os.close(w)
        with os.fdopen(r) as f:
            lines = f.read().splitlines()
        p.communicate()
        return lines

    lines = said(True)
    assert lines and lines[0].startswith("<4>brig: Command timed out") and lines[1].startswith("<6>hint: "), lines
    assert said(False)[0].startswith("brig: Command timed out"), "another stream is not the journal"


if __name__ == "__main__":
    sys.exit(main())
