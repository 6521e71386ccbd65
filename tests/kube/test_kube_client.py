#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""brig-kube against a scripted API server: credentials, trust, patience, watches, streams, and answers that nobody should give."""

import base64
import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from apiserver import BINARY, CLOSE, PING, PONG, ApiServer  # noqa: E402
from harness import PATIENCE, brig, brig_argv, brig_environment, brig_path, descendants, files_as_root, identity, main, scratch, test, uid, wait_until, workspace  # noqa: E402
from podcluster import certificates  # noqa: E402

BUILD = pathlib.Path(os.environ.get("BRIG", "build/brig")).resolve().parent
PODS = "/api/v1/namespaces/default/pods"
POD = {"metadata": {"name": "p", "labels": {"brig.sandbox": "sb_1"}}, "spec": {"containers": [{"name": "main"}]}}


def place():
    """drive-kube beside brig-kube, where everybody can run it."""
    folder = scratch() / "bin"
    if not folder.exists():
        with files_as_root():
            folder.mkdir(mode=0o755)
            for source in (BUILD / "brig-kube", BUILD / "tests/drive-kube"):
                shutil.copy(source, folder)
                (folder / source.name).chmod(0o755)
    return folder / "drive-kube"


def start(*args, config=None, env=None, **popen):
    program = place()
    argv = brig_argv()
    argv[argv.index(str(brig_path()))] = str(program)
    names = brig_environment({"KUBECONFIG": str(config) if config else None, **(env or {})})
    with files_as_root():
        return subprocess.Popen([*argv, *map(str, args)], env=names, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=workspace(),
                                **{"stdin": subprocess.DEVNULL, **popen})


class Done:
    def __init__(self, p, out, err):
        self.status, self.out, self.err = p.returncode, out.decode(errors="replace"), err.decode(errors="replace")

    @property
    def answers(self):
        return [(int(line.split(" ", 1)[0]), json.loads(line.split(" ", 1)[1] or "null")) for line in self.out.splitlines()]


def drive(*args, config=None, env=None, input=b""):
    p = start(*args, config=config, env=env, stdin=subprocess.PIPE)
    try:
        out, err = p.communicate(input, 30 * PATIENCE)
    except subprocess.TimeoutExpired:
        p.kill()
        raise AssertionError(f"{args}: {p.communicate()}") from None
    return Done(p, out, err)


@contextlib.contextmanager
def server(**changes):
    folder = scratch() / "server"
    folder.mkdir(mode=0o755, exist_ok=True)
    with ApiServer(folder, uid(), certificates=certificates()) as api:
        for name, value in changes.items():
            setattr(api, name, value)
        yield api


class Watch:
    """Lines of a watch as they come."""

    def __init__(self, path, config, ms=20000):
        self.process = start(f"ms={ms}", "watch", path, config=config, stdin=subprocess.PIPE)
        self.lines = []
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        for line in self.process.stdout:
            event = json.loads(line)
            self.lines.append(event["type"] + (":" + event["object"]["metadata"]["name"] if "object" in event else ""))
            self.last = event

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(10 * PATIENCE)
        self.thread.join(10)
        self.process.stderr.close()

    def until(self, line, count=1):
        wait_until(lambda: self.lines.count(line) >= count, 10)
        assert self.lines.count(line) >= count, self.lines


# ---- who is asked, and as whom ----


@test
def a_token_a_certificate_and_a_token_file_are_shown():
    with server() as api:
        config = api.kubeconfig()
        assert drive("place", config=config).out.split() == [f"https://127.0.0.1:{api.port}", "scripted", "scripted", "default", "tester"]
        assert drive("ask", "GET", "/version", config=config).answers[0][1]["minor"] == "30"
        assert api.requests[-1]["headers"]["Authorization"] == "Bearer a-token"
        cert, key = (base64.b64encode(p.read_bytes()).decode() for p in api.certificates.client)
        config = api.kubeconfig(user={"client-certificate-data": cert, "client-key-data": key})
        assert drive("ask", "GET", "/version", config=config).answers[0][0] == 200
        assert "Authorization" not in api.requests[-1]["headers"]
        file = api.write("token", "a-token\n")
        config = api.kubeconfig(user={"tokenFile": "token", "token": "another"})
        assert drive("ask", "GET", "/version", config=config).answers[0][0] == 200
        # A token that changed counts once the server refuses the old one.
        api.script("GET", "/version", before=lambda _: (file.write_text("b-token"), setattr(api, "tokens", {"b-token"})), times=1)
        done = drive("times=2", "pause=1500", "ask", "GET", "/version", config=config)
        assert [status for status, _ in done.answers] == [401, 200], done.out
        assert drive("ask", "GET", "/version", config=api.kubeconfig(user={"token": "wrong"})).answers[0][0] == 401


@test
def the_server_must_be_the_one_of_the_authority():
    with server() as api:
        own = base64.b64encode(api.certificates.ca[0].read_bytes()).decode()
        other = base64.b64encode((api.certificates.folder / "other.pem").read_bytes()).decode()
        name = f"https://127.0.0.1:{api.port}"
        for cluster, good in (({"server": name, "certificate-authority-data": own}, True), ({"server": name, "certificate-authority-data": other}, False),
                              ({"server": name}, False), ({"server": name, "certificate-authority-data": own, "tls-server-name": "kube.test"}, True),
                              ({"server": name, "certificate-authority-data": own, "tls-server-name": "evil.test"}, False)):
            before = len(api.requests)
            done = drive("ask", "GET", "/version", config=api.kubeconfig(cluster=cluster))
            assert (done.status == 0) == good, (cluster, done.out, done.err)
            assert (len(api.requests) > before) == good
            if not good:
                assert "the certificate is not trusted" in done.err and "hint:" in done.err, done.err
        done = drive("ask", "GET", "/version", config=api.kubeconfig(cluster={"server": name, "insecure-skip-tls-verify": True}))
        assert done.status == 1 and "insecure-skip-tls-verify" in done.err, done.err


@test
def a_kubeconfig_that_others_can_change_is_refused():
    with server() as api:
        config = api.kubeconfig()
        assert drive("place", config=f"{scratch() / 'none'}::{config}").status == 0  # positive control
        config.chmod(0o646)
        done = drive("place", config=config)
        assert done.status == 1 and "everybody may change" in done.err and "chmod o-w" in done.err, done.err
        config.chmod(0o600)
        if os.geteuid() == 0:
            with files_as_root():
                os.chown(config, 12345, 12345)
                config.chmod(0o644)
            done = drive("place", config=config)
            assert done.status == 1 and "belongs to somebody else" in done.err, done.err
        done = drive("place", config=scratch() / "none")
        assert done.status == 1 and "there is no kubeconfig" in done.err and "KUBECONFIG" in done.err, done.err
        done = drive("place", config="relative")
        assert done.status == 1 and "absolute" in done.err


@test
def a_server_below_a_prefix_is_asked_there():
    with server(prefix="/k8s/c-1") as api:
        done = drive("ask", "POST", PODS, json.dumps(POD), config=api.kubeconfig())
        assert done.answers[0][0] == 201 and api.requests[-1]["path"] == "/k8s/c-1" + PODS


@test(as_user="root")
def in_a_pod_its_service_account_counts():
    if os.geteuid() != 0:
        return
    with server() as api:
        account = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
        mine = scratch() / "secrets"
        inside = mine / "kubernetes.io/serviceaccount"
        inside.mkdir(parents=True)
        (inside / "token").write_text("a-token")
        (inside / "namespace").write_text("team\n")
        shutil.copy(api.certificates.ca[0], inside / "ca.crt")
        script = f"mkdir -p {account.parents[1]} && mount --bind {mine} {account.parents[1]} && exec \"$@\""
        argv = ["unshare", "-m", "sh", "-c", f"mount -t tmpfs none /run && {script}", "sh", place()]
        env = brig_environment({"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(api.port)})
        place_ = subprocess.run([*argv, "place"], env=env, capture_output=True, text=True, check=False)
        assert place_.stdout.splitlines()[1:4] == ["in-cluster", "in-cluster", "team"], place_
        asked = subprocess.run([*argv, "ask", "GET", "/version"], env=env, capture_output=True, text=True, check=False)
        assert asked.stdout.startswith("200 "), asked


# ---- plugins ----


def plugin(api, body, **more):
    """A kubeconfig whose user is a shell script."""
    path = api.write("plugin", "#!/bin/sh\n" + body, 0o755)
    return api.kubeconfig(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), "interactiveMode": "Never", **more}})


def credential(**status):
    return json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})


@test
def a_plugin_has_a_fixed_environment_and_no_terminal():
    with server() as api:
        seen = api.folder / "seen"
        api.write("seen", "")
        config = plugin(api, f"env > {seen}; tty >> {seen} 2>&1; ls /proc/self/fd | wc -l >> {seen}\ncat <<'E'\n{credential(token='a-token')}\nE\n",
                        env=[{"name": "LOGIN_AS", "value": "me"}], provideClusterInfo=True)
        done = drive("times=3", "ask", "GET", "/version", config=config, env={"SECRET_OF_MINE": "x", "LD_PRELOAD": "", "USER": "someone"})
        assert [s for s, _ in done.answers] == [200] * 3, done.err
        text = seen.read_text()
        assert "SECRET_OF_MINE" not in text and "LD_PRELOAD" not in text and "LOGIN_AS=me" in text and "USER=someone" in text, text
        assert text.count("LOGIN_AS") == 1 and "not a tty" in text, text
        info = json.loads(next(line for line in text.splitlines() if line.startswith("KUBERNETES_EXEC_INFO=")).split("=", 1)[1])
        assert info["spec"]["interactive"] is False and info["spec"]["cluster"]["server"].endswith(str(api.port)), info
        assert int(text.splitlines()[-1]) <= 5, text  # 0, 1, 2 and what ls and the shell open


@test
def what_a_kubeconfig_names_is_not_used_where_a_run_could_write_it():
    """The same files serve in a folder that no run could write: the control."""
    place, own = scratch() / "place", scratch() / "own"
    for at in (place, own):
        at.mkdir()
        for name, text in (("token", "a-token\n"), ("plugin", f"#!/bin/sh\ncat <<'E'\n{credential(token='a-token')}\nE\n")):
            (at / name).write_text(text)
            (at / name).chmod(0o755)
    assert brig("run", "--write", place, "--", "true").status == 0
    with server() as api:
        call = {"apiVersion": "client.authentication.k8s.io/v1", "command": f"{own}/plugin", "interactiveMode": "Never"}
        for at in (place, own):
            for user, word in (({"tokenFile": f"{at}/token"}, "is not used"), ({"exec": {**call, "command": f"{at}/plugin"}}, "is not started"),
                               ({"exec": {**call, "args": [f"{at}/token"]}}, "is not given"),
                               ({"exec": {**call, "env": [{"name": "PYTHONPATH", "value": str(at)}]}}, "the variable PYTHONPATH")):
                done = drive("times=1", "ask", "GET", "/version", config=api.kubeconfig(user=user))
                assert (word in done.err and "may have written" in done.err) if at == place else [s for s, _ in done.answers] == [200], (at, user, done.out, done.err)


@test
def what_a_plugin_gave_is_kept_until_it_expires_or_is_refused():
    with server() as api:
        count = api.write("count", "")
        soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 5))
        config = plugin(api, f"echo x >> {count}\ncat <<'E'\n{credential(token='a-token')}\nE\n")
        assert drive("times=3", "pause=1200", "ask", "GET", "/version", config=config).status == 0
        assert count.read_text().count("x") == 1
        count.write_text("")
        config = plugin(api, f"echo x >> {count}\ncat <<'E'\n{credential(token='a-token', expirationTimestamp=soon)}\nE\n")
        assert drive("times=2", "pause=1300", "ask", "GET", "/version", config=config).status == 0
        assert count.read_text().count("x") == 2
        count.write_text("")
        config = plugin(api, f"echo x >> {count}\ntest $(wc -l < {count}) = 1 && token=old || token=a-token\n"
                             "echo '" + credential(token="TOKEN").replace("TOKEN", "'$token'") + "'\n")
        api.tokens = {"a-token", "old"}
        api.script("GET", "/version", before=lambda _: api.tokens.discard("old"), times=2)
        done = drive("times=2", "pause=1200", "ask", "GET", "/version", config=config)
        assert [s for s, _ in done.answers] == [401, 200], (done.out, done.err)


@test
def a_plugin_that_fails_is_named():
    with server() as api:
        for body, said in (("echo broken pipe dream >&2; exit 3\n", "failed: broken pipe dream"), ("echo '{}'\n", "no ExecCredential"),
                           ("head -c 1000000 /dev/zero | tr '\\0' x\n", "plugin"), ("printf '\\033[2Jx\\n' >&2; exit 1\n", "failed: ?[2Jx"),
                           ("cat <<'E'\n" + credential(token="a\r\nX-Evil: 1") + "\nE\n", "character that no token has")):
            done = drive("ask", "GET", "/version", config=plugin(api, body))
            assert done.status == 1 and said in done.err and "\x1b" not in done.err, (body, done.err)
        assert not api.requests
        config = api.kubeconfig(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-login", "installHint": "get it at the shop"}})
        done = drive("ask", "GET", "/version", config=config)
        assert "not installed" in done.err and "get it at the shop" in done.err, done.err


@test(as_user="user")
def a_plugin_that_does_not_end_is_ended():
    with server() as api:
        began = time.monotonic()
        done = drive("ask", "GET", "/version", config=plugin(api, "sleep 1000 & sleep 1000\n"))
        assert done.status == 1 and "took longer than 10 seconds" in done.err, done.err
        assert 9 < time.monotonic() - began < 12 * PATIENCE


# ---- patience ----


@test
def what_was_refused_for_now_is_tried_again():
    with server() as api:
        config = api.kubeconfig()
        api.script("GET", "/version", times=1, status=429, headers={"Retry-After": "1"})
        began = time.monotonic()
        assert drive("ask", "GET", "/version", config=config).answers[0][0] == 200
        assert 1 <= time.monotonic() - began
        for answer in ({"status": 500}, {"status": 503}, {"close": True}, {"raw": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"}):
            api.script("GET", "/version", times=2, **answer)
            assert drive("ask", "GET", "/version", config=config).answers[0][0] == 200, answer
        # Time over: the last answer is told, not hidden. A Retry-After that is longer than there is time is not waited for.
        api.script("GET", "/version", times=99, status=503, headers={"Retry-After": "3600"})
        began = time.monotonic()
        assert drive("ms=2000", "ask", "GET", "/version", config=config).answers[0][0] == 503
        assert time.monotonic() - began < 2


@test
def a_post_is_sent_twice_only_where_that_does_no_harm():
    with server() as api:
        config = api.kubeconfig()
        for answer, sent in (({"status": 500}, 1), ({"close": True}, 1), ({"status": 429, "headers": {"Retry-After": "0"}}, 2)):
            api.requests.clear()
            api.steps.clear()
            api.script("POST", PODS, times=1, **answer)
            drive("ask", "POST", PODS, json.dumps({"metadata": {"generateName": "x-"}}), config=config)
            assert len([r for r in api.requests if r["method"] == "POST"]) == sent, answer
        # The object was made and the answer lost: the second try finds it, and it is ours by its label.
        api.steps.clear()
        api.script("POST", PODS, times=1, keep=True, close=True)
        done = drive("label=brig.sandbox:sb_1", "ask", "POST", PODS, json.dumps(POD), config=config)
        assert done.answers[0][0] == 200 and done.answers[0][1]["metadata"]["uid"], done.out
        assert len([p for p in api.store.objects if p.endswith("/p")]) == 1
        done = drive("label=brig.sandbox:sb_2", "ask", "POST", PODS, json.dumps(POD), config=config)
        assert done.answers[0][0] == 409, done.out
        # A review changes nothing.
        api.script("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", times=1, status=500)
        review = {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods"}}}
        done = drive("again=1", "ask", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", json.dumps(review), config=config)
        assert done.answers[0][1]["status"]["allowed"] is True


@test
def requests_share_a_connection_and_outlive_its_end():
    with server() as api:
        done = drive("times=5", "ask", "GET", "/version", config=api.kubeconfig())
        assert len(done.answers) == 5 and len({r["connection"] for r in api.requests}) == 1
        api.requests.clear()

        def close(handler):
            handler.close_connection = True  # after the answer
        api.script("GET", "/version", times=99, before=close)
        done = drive("times=3", "pause=50", "ask", "GET", "/version", config=api.kubeconfig())
        assert len(done.answers) == 3 and len(api.requests) == 3


@test
def nobody_is_waited_for_beyond_the_time_given():
    with server() as api:
        api.script("GET", "/version", times=99, before=lambda _: time.sleep(60))
        began = time.monotonic()
        done = drive("ms=1500", "ask", "GET", "/version", config=api.kubeconfig())
        assert done.status == 1 and "in time" in done.err and time.monotonic() - began < 4 * PATIENCE, done.err
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never speaks TLS
        config = scratch() / "silent"
        config.write_text(json.dumps({"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a"}}],
                                      "clusters": [{"name": "a", "cluster": {"server": f"https://127.0.0.1:{silent.getsockname()[1]}"}}]}))
        os.chown(config, uid(), -1)
        began = time.monotonic()
        assert drive("ms=1500", "ask", "GET", "/version", config=config).status == 1
        assert time.monotonic() - began < 4 * PATIENCE


@test
def hostile_answers_are_refused():
    with server() as api:
        config = api.kubeconfig()

        def endless(handler):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            with contextlib.suppress(OSError):
                for _ in range(40):
                    handler.wfile.write(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")
        api.script("GET", "/version", times=1, before=endless, close=True)
        done = drive("ask", "GET", "/version", config=config)
        assert done.status == 1 and "too long" in done.err, done.err
        for raw in (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", b"SSH-2.0-x\r\n\r\n",
                    b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70000 + b"\r\n\r\n", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"):
            api.steps.clear()
            api.script("GET", "/version", times=99, raw=raw)
            done = drive("ms=1000", "ask", "GET", "/version", config=config)
            assert done.status == 1 and "error" in done.err, (raw[:40], done.out, done.err)
        # Nothing follows a redirect: the token is for the one server.
        api.steps.clear()
        api.script("GET", "/version", times=1, status=302, headers={"Location": "https://127.0.0.1:1/"})
        assert drive("ask", "GET", "/version", config=config).answers[0][0] == 302
        deep = b"[" * 100000 + b"]" * 100000
        api.script("GET", PODS, times=99, status=200, body=deep)
        with Watch(PODS, config, ms=1000) as w:
            wait_until(lambda: "FAILED" in w.lines, 10)
            assert w.lines == ["FAILED"], w.lines


# ---- watches ----


@test
def a_watch_lists_then_follows():
    with server(page=2) as api:
        config = api.kubeconfig()
        for i in range(5):
            api.store.put(f"{PODS}/p{i}", {"metadata": {"name": f"p{i}", "labels": {"mine": "yes" if i != 3 else "no"}}}, "ADDED")
        with Watch(f"{PODS}?labelSelector=mine%3Dyes", config) as w:
            w.until("SYNCED")
            assert w.lines == ["RESET", "ADDED:p0", "ADDED:p1", "ADDED:p2", "ADDED:p4", "SYNCED"], w.lines
            api.store.put(f"{PODS}/p0", {"metadata": {"name": "p0", "labels": {"mine": "yes"}}})
            w.until("MODIFIED:p0")
            api.remove(f"{PODS}/p1", api.store.objects[f"{PODS}/p1"])
            w.until("DELETED:p1")
            api.store.put(f"{PODS}/p9", {"metadata": {"name": "p9", "labels": {"mine": "no"}}}, "ADDED")
            api.store.put(f"{PODS}/p8", {"metadata": {"name": "p8", "labels": {"mine": "yes"}}}, "ADDED")
            w.until("ADDED:p8")
            assert "ADDED:p9" not in w.lines


@test
def a_watch_goes_on_where_it_was_and_lists_again_when_that_is_gone():
    with server(watch_seconds=1) as api:
        config = api.kubeconfig()
        api.store.put(f"{PODS}/a", {"metadata": {"name": "a"}}, "ADDED")
        with Watch(PODS, config) as w:
            w.until("SYNCED")
            api.cut += 1  # the connection is lost
            api.store.put(f"{PODS}/b", {"metadata": {"name": "b"}}, "ADDED")
            w.until("ADDED:b")
            wait_until(lambda: len([r for r in api.requests if "watch" in r["query"]]) >= 4, 10)  # the server ends it each second
            assert w.lines.count("RESET") == 1 and w.lines.count("ADDED:a") == 1, w.lines
            for by_status in (True, False):
                api.expire_by_status = by_status
                known = w.lines.count("SYNCED")
                api.store.objects.pop(f"{PODS}/a", None)
                api.store.forget()
                w.until("SYNCED", known + 1)
            assert w.lines[-3:] == ["RESET", "ADDED:b", "SYNCED"], w.lines
            api.script("GET", PODS, times=3, status=503)
            api.script("GET", PODS, times=1, status=429, headers={"Retry-After": "1"})
            api.store.put(f"{PODS}/c", {"metadata": {"name": "c"}}, "ADDED")
            w.until("ADDED:c")


@test
def bookmarks_move_a_watch_on():
    with server(bookmark=True, watch_seconds=1) as api:
        with Watch(f"{PODS}?labelSelector=x%3Dy", api.kubeconfig()) as w:
            w.until("SYNCED")
            for i in range(5):
                api.store.put(f"{PODS}/o{i}", {"metadata": {"name": f"o{i}"}}, "ADDED")
            wait_until(lambda: any(int(r["query"].get("resourceVersion", ["0"])[0]) >= api.store.version for r in api.requests), 10)
            assert any(r["query"].get("resourceVersion") == [str(api.store.version)] for r in api.requests)
            assert w.lines == ["RESET", "SYNCED"], w.lines


@test
def a_watch_that_is_not_allowed_says_so_and_ends():
    with server() as api:
        config = api.kubeconfig()
        api.script("GET", PODS, times=99, status=403, body={"kind": "Status", "message": "pods is forbidden: \u001b[31muser"})
        with Watch(PODS, config) as w:
            wait_until(lambda: w.lines, 10)
            assert w.lines == ["FAILED"] and w.last["code"] == 403 and w.last["message"] == "pods is forbidden: ?[31muser", w.last
        api.steps.clear()
        api.script("GET", PODS, times=99, status=500)
        began = time.monotonic()
        with Watch(PODS, config, ms=1500) as w:
            wait_until(lambda: w.lines, 10)
            assert w.lines == ["FAILED"] and w.last["code"] == 500 and 1.4 < time.monotonic() - began, w.lines
        api.steps.clear()

        def long_line(handler):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
            with contextlib.suppress(OSError):
                for _ in range(6):
                    handler.wfile.write(b"x" * (1 << 20))
        api.script("GET", PODS, times=1)
        api.script("GET", PODS, times=1, before=long_line, close=True)
        with Watch(PODS, config) as w:
            wait_until(lambda: "FAILED" in w.lines, 10)
            assert w.lines == ["RESET", "SYNCED", "FAILED"] and "too long" in w.last["message"], w.lines


@test
def everything_ends_with_brig():
    with server() as api:
        p = start("watch", PODS, config=api.kubeconfig(), stdin=subprocess.PIPE)
        for _ in range(2):
            p.stdout.readline()
        def ours():
            return [n for n in descendants().values() if n.startswith("brig-")]
        assert sorted(ours()) == ["brig-kube", "brig-speaker"], descendants()
        p.kill()
        p.wait()
        wait_until(lambda: not ours(), 10)
        assert not ours()
        for s in (p.stdin, p.stdout, p.stderr):
            s.close()


@test
def a_speaker_has_nothing_to_take():
    """What reads the server's bytes: nobody's, of no group, without rights, no other file open."""
    with server() as api:
        p = start("watch", PODS, config=api.kubeconfig(), stdin=subprocess.PIPE)
        for _ in range(2):
            p.stdout.readline()
        pid = next(n for n, name in descendants().items() if name == "brig-speaker")
        with files_as_root():
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            names = {os.readlink(f"/proc/{pid}/fd/{fd}").split(":")[0] for fd in os.listdir(f"/proc/{pid}/fd")} if os.geteuid() == 0 else {"socket"}
            limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
        if identity() == "root":
            assert "\nUid:\t65534\t65534\t65534\t65534\n" in status and "\nGroups:\t \n" in status, status
        assert "\nNoNewPrivs:\t1\n" in status and "\nCapEff:\t0000000000000000\n" in status, status
        assert names <= {"socket", "/dev/null"}, names
        assert any(line.startswith("Max processes") and line.split()[2] == "0" for line in limits.splitlines()), limits
        p.stdin.close()
        p.wait(10 * PATIENCE)
        p.stdout.close()
        p.stderr.close()


# ---- streams ----


def pod(api):
    api.create(f"{PODS}/p", json.loads(json.dumps({**POD, "metadata": {**POD["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}})), "Pod")
    return api.kubeconfig()


def command(*words, streams="stdin stdout stderr"):
    return f"{PODS}/p/exec?" + "&".join([*(f"command={''.join(f'%{b:02x}' for b in w.encode())}" for w in words), *(f"{s}=1" for s in streams.split())])


def last(err):
    """What a command wrote to its errors, the protocol, and the exit code of the server's last word; None: there is none."""
    wrote, version, said = re.fullmatch(r"(.*?)v([45]) (.*)\n", err, re.S).groups()
    said = json.loads(said) if said else {}
    causes = [c["message"] for c in said.get("details", {}).get("causes", []) if c["reason"] == "ExitCode"]
    return wrote, int(version), 0 if said.get("status") == "Success" else int(causes[0]) if causes else None


@test
def a_command_has_its_streams_and_its_exit_code():
    with server() as api:
        config = pod(api)
        done = drive("attach", command("sh", "-c", "cat; echo oops >&2; exit 7"), config=config, input=b"hello")
        assert (done.out, last(done.err)) == ("hello", ("oops\n", 5, 7)), (done.status, done.out, done.err)
        done = drive("attach", command("true"), config=config)
        assert done.status == 0 and last(done.err)[1:] == (5, 0)
        done = drive("attach", command("sh", "-c", "kill -9 $$"), config=config)
        assert last(done.err)[2] == 137, done.err
        api.script("GET", f"{PODS}/p/exec", times=1, status=429, headers={"Retry-After": "0"})
        assert drive("attach", command("true"), config=config).status == 0
        done = drive("attach", command("true").replace("/p/", "/none/"), config=config)
        assert done.status == 1 and 'pods "none" not found' in done.err, done.err
        api.script("GET", f"{PODS}/p/exec", times=99, status=500)
        before = len(api.requests)
        assert drive("attach", command("true"), config=config).status == 1
        assert len(api.requests) == before + 1  # it may have begun


@test
def much_goes_both_ways_unchanged():
    with server() as api:
        config = pod(api)
        data = os.urandom(8 << 20)
        p = start("attach", command("cat"), config=config, stdin=subprocess.PIPE)
        out, err = p.communicate(data, 60 * PATIENCE)
        assert hashlib.sha256(out).digest() == hashlib.sha256(data).digest(), (len(out), err)
        assert p.returncode == 0


@test
def without_v5_closing_the_input_closes_the_connection():
    with server(protocols=["v4.channel.k8s.io"]) as api:
        config = pod(api)
        p = start("attach", command("sh", "-c", "head -c 5; exit 4"), config=config, stdin=subprocess.PIPE)
        p.stdin.write(b"hello")
        p.stdin.flush()
        assert p.stdout.read() == b"hello"
        p.stdin.close()
        assert p.wait(20 * PATIENCE) == 0 and last(p.stderr.read().decode())[1:] == (4, 4)
        p.stdout.close()
        p.stderr.close()
        done = drive("attach", command("cat"), config=config)
        assert "v4" in done.err and api.gone


@test
def a_terminal_has_one_stream():
    with server() as api:
        config = pod(api)
        done = drive("attach", command("sh", "-c", "sleep 0.3; echo both; echo here >&2", streams="stdin stdout stderr tty"), config=config)
        assert done.out == "both\nhere\n", done.out


@test
def a_reader_that_does_not_read_holds_up_the_command_alone():
    with server() as api:
        config = pod(api)
        p = start("attach", command("sh", "-c", "head -c 50000000 /dev/zero; echo done >&2"), config=config, stdin=subprocess.PIPE)
        time.sleep(1)
        with files_as_root():
            for pid, name in descendants().items():
                if name == "brig-speaker":
                    resident = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
                    assert resident < 64 << 20, resident
        assert p.poll() is None
        out, _ = p.communicate(timeout=60 * PATIENCE)
        assert len(out) == 50000000 and p.returncode == 0


def scripted(play):
    """A server whose WebSocket does as the function says: play(ws)."""
    def on_stream(handler, ws, head):
        handler.wfile.write(head)
        handler.wfile.flush()
        with contextlib.suppress(OSError, EOFError):
            play(ws)
    return on_stream


SUCCESS = json.dumps({"metadata": {}, "status": "Success"}).encode()


@test
def pieces_pings_and_closed_channels_are_understood():
    heard = []

    def play(ws):
        ws.send(BINARY, b"\x01he", final=False)
        ws.send(PING, b"are you there")
        ws.send(0, b"l", final=False)
        ws.send(0, b"lo", final=True)
        while ws.read() != (PONG, b"are you there"):
            pass
        ws.connection.settimeout(0.3)  # and no second one, whatever else goes on
        ws.channel(1, b"")
        with contextlib.suppress(TimeoutError):
            heard.append(ws.read())
        ws.connection.settimeout(None)
        ws.channel(2, b"err")
        ws.channel(255, b"\x02")
        ws.channel(9, b"of a later protocol")
        ws.send(BINARY, b"")
        ws.send(BINARY, b"\x03" + SUCCESS[:7], final=False)
        ws.send(0, SUCCESS[7:])
        ws.send(CLOSE, struct.pack(">H", 1000))
    with server() as api:
        config = pod(api)
        api.on_stream = scripted(play)
        p = start("attach", command("x"), config=config, stdin=subprocess.PIPE)
        done = Done(p, *p.communicate(None, 20 * PATIENCE))
        assert (done.out, last(done.err)) == ("hello", ("err", 5, 0)), (done.status, done.out, done.err)
        assert not [f for f in heard if f[0] == PONG], heard


@test
def a_connection_that_is_lost_is_no_success():
    with server() as api:
        config = pod(api)
        for play in (lambda ws: ws.channel(1, b"part"), lambda ws: (ws.channel(1, b"part"), ws.send(CLOSE, struct.pack(">H", 1011))),
                     lambda ws: (ws.channel(1, b"part"), ws.raw(b"\x83\x00"), time.sleep(1)),
                     lambda ws: (ws.channel(1, b"part"), ws.raw(b"\x82\x81\x00\x00\x00\x00x"), time.sleep(1)),
                     lambda ws: (ws.channel(1, b"part"), ws.send(BINARY, b"\x03" + SUCCESS, final=False), time.sleep(0.2)),
                     lambda ws: (ws.channel(1, b"part"), ws.channel(3, b"{" * 70000))):
            api.on_stream = scripted(play)
            done = drive("attach", command("x", streams="stdout"), config=config)
            assert done.status == 1 and done.out == "part" and last(done.err) == ("", 5, None), (done.status, done.out, done.err)


@test
def a_server_that_answers_the_upgrade_wrongly_is_refused():
    with server() as api:
        config = pod(api)
        for change in ((b"Sec-WebSocket-Accept: ", b"Sec-WebSocket-Accept: x"), (b"v5.channel", b"v1.channel"), (b"websocket", b"SPDY/3.1"),
                       (b"101 Switching Protocols", b"200 OK"), (b"Sec-WebSocket-Protocol", b"X-Protocol")):
            api.on_stream = lambda handler, _, head, change=change: handler.wfile.write(head.replace(*change))
            done = drive("ms=3000", "attach", command("x"), config=config)
            assert done.status == 1 and "error" in done.err, (change, done.out, done.err)


@test
def an_attached_program_is_the_pods_own():
    with server(program=["sh", "-c", "read line; echo got $line; exit 5"]) as api:
        config = pod(api)
        with Watch(f"{PODS}?fieldSelector=metadata.name%3Dp", config) as w:
            w.until("ADDED:p")
            done = drive("attach", f"{PODS}/p/attach?stdin=1&stdout=1&stderr=1&container=main", config=config, input=b"it\n")
            assert last(done.err)[2] == 5 and done.out == "got it\n", (done.out, done.err)
            w.until("MODIFIED:p")
            state = w.last["object"]["status"]
            assert state["phase"] == "Failed" and state["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 5, state
        assert drive("ask", "DELETE", f"{PODS}/p", config=config).answers[0][0] == 200
        assert drive("ask", "GET", f"{PODS}/p", config=config).answers[0][0] == 404


# ---- the doctor's rows ----


def health(api, *options):
    done = drive(*options, "health", config=api.kubeconfig())
    assert done.status == 0, done.err
    return {line.split(" ", 1)[1].split(":", 1)[0]: (line.split(" ", 1)[0], line.split(": ", 1)[1]) for line in done.out.splitlines()}


@test
def a_cluster_is_examined_row_by_row():
    with server() as api:
        api.groups.add("/apis/agents.x-k8s.io")
        api.store.put("/apis/node.k8s.io/v1/runtimeclasses/gvisor", {"metadata": {"name": "gvisor"}}, "ADDED")
        rows = health(api, "runtime=gvisor")
        assert len(rows) == 7 and {state for state, _ in rows.values()} == {"pass"}, rows
        assert "v1.30.0-scripted" in rows["kubernetes"][1] and "gvisor" in rows["kubernetes_runtime"][1]
        assert not [p for p in api.store.objects if "/pods/" in p]  # nothing was made
        api.denied = {("delete", "sandboxes")}
        rows = health(api)
        assert rows["kubernetes_sandboxes"][0] == "warn" and "delete sandboxes" in rows["kubernetes_sandboxes"][1], rows
        assert "kubernetes.use: pod" in rows["kubernetes_sandboxes"][1], rows
        api.denied = {("create", "pods"), ("get", "pods/attach"), ("create", "secrets")}
        api.refusal = 'pods "x" is forbidden: violates PodSecurity "restricted:latest": \x1b[31mNET_ADMIN'
        api.groups.clear()
        rows = health(api, "runtime=kata")
        assert rows["kubernetes_rights"][0] == "fail" and "create pods, get pods/attach" in rows["kubernetes_rights"][1], rows
        assert "deploy/kubernetes" in rows["kubernetes_rights"][1]
        assert rows["kubernetes_admission"][0] == "fail" and "?[31mNET_ADMIN" in rows["kubernetes_admission"][1], rows
        assert "pod-security.kubernetes.io/enforce=privileged" in rows["kubernetes_admission"][1]
        assert rows["kubernetes_runtime"][0] == "fail" and "kata" in rows["kubernetes_runtime"][1]
        assert rows["kubernetes_policies"][0] == "warn" and rows["kubernetes_sandboxes"][0] == "skip" and rows["kubernetes_clock"][0] == "skip"
        api.refusal = lambda pod: "violates PodSecurity: NET_ADMIN" if "initContainers" in pod["spec"] else None
        rows = health(api)
        assert rows["kubernetes_admission"][0] == "warn" and "NetworkPolicy alone" in rows["kubernetes_admission"][1], rows
        assert "enforce=privileged" in rows["kubernetes_admission"][1] and rows["kubernetes_clock"][0] == "pass", rows
        api.denied, api.refusal = {("create", "secrets")}, None
        api.script("POST", PODS, status=201, body={"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}})
        rows = health(api)
        assert rows["kubernetes_rights"][0] == "warn" and rows["kubernetes_clock"][0] == "warn" and "timedatectl" in rows["kubernetes_clock"][1], rows
        api.tokens = set()
        rows = health(api)
        assert rows.pop("kubernetes")[0] == "fail" and {state for state, _ in rows.values()} == {"skip"}, rows


if __name__ == "__main__":
    sys.exit(main())
