#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""TLS in front of the daemon: on an address that is not loopback, in a network namespace of the test's own."""

import contextlib
import ctypes
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import WAIT, Daemon, token  # noqa: E402
from harness import brig, descendants, files_as_root, main, scratch, state, test, uid, wait_until, workspace  # noqa: E402

PTRACE_SEIZE = 0x4206

ADDRESS = "10.9.9.1"


def own_network():
    """From here on all that this test starts has a network of its own, with one address that is not loopback."""
    assert ctypes.CDLL(None, use_errno=True).unshare(0x40000000) == 0, os.strerror(ctypes.get_errno())
    with files_as_root():
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        subprocess.run(["ip", "addr", "add", f"{ADDRESS}/32", "dev", "lo"], check=True)


def make_pair(folder, name, *more):
    """A certificate of our own for the address, and its key; files of this test's identity."""
    folder.mkdir(mode=0o700, exist_ok=True, parents=True)
    key, cert = folder / f"{name}.key", folder / f"{name}.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-keyout", key, "-out", cert, "-days", "2",
                    "-subj", f"/CN={name}", "-addext", f"subjectAltName=IP:{ADDRESS},DNS:brig.test", *(more or ("-noenc",))],
                   check=True, capture_output=True)
    for path in (key, cert):
        os.chown(path, uid(), uid())
    key.chmod(0o600)
    return cert, key


@contextlib.contextmanager
def set_up():
    """A network, and a folder where no sandbox looks: below brig's state."""
    own_network()
    folder = state() / "brig/tls"
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def tls_daemon(cert, key):
    file = scratch() / "tokens"
    key_of_a = token("a", "run", file)
    d = Daemon("--listen", f"{ADDRESS}:0", "--token-file", file, "--tls-cert", cert, "--tls-key", key).start()
    d.key_of_a, d.cert = key_of_a, cert
    try:
        yield d
    finally:
        d.done()
        os.unlink(file)


def curl(d, path, *more, token=True, text=True):
    words = ["curl", "-sS", "--max-time", str(WAIT), "--cacert", d.cert, *more, f"https://{ADDRESS}:{d.port}{path}"]
    if token:
        words += ["-H", f"Authorization: Bearer {d.key_of_a}"]
    return subprocess.run(words, capture_output=True, text=text, check=False)


def ask(d, method, path, body):
    done = curl(d, path, "-X", method, "-H", "Content-Type: application/json", "-d", json.dumps(body))
    assert done.returncode == 0, done
    return json.loads(done.stdout)


@test(by_root=True)
def callers_over_tls_have_the_whole_api():
    with set_up() as folder:
        cert, key = make_pair(folder, "first")
        with tls_daemon(cert, key) as d:
            assert json.loads(curl(d, "/v1/info").stdout)["schema"] == 1
            assert json.loads(curl(d, "/v1/info", token=False).stdout)["code"] == "unauthenticated"
            assert curl(d, "/healthz", token=False).returncode == 0
            box = ask(d, "POST", "/v1/sandboxes?wait=true", {})
            assert box["state"] == "ready", box
            said = ask(d, "POST", f"/v1/sandboxes/{box['id']}/exec", {"argv": ["sh", "-c", "head -c 60000 /dev/zero | tr '\\0' x; echo e >&2"]})
            assert len(said["stdout"]) == 60000 and said["stderr"] == "e\n"
            big = scratch() / "big"
            big.write_bytes(os.urandom(5 << 20))
            up = curl(d, f"/v1/sandboxes/{box['id']}/files?path=big", "-X", "PUT", "-T", big, "-H", "Content-Type: application/octet-stream")
            assert up.returncode == 0 and not up.stdout, up
            down = curl(d, f"/v1/sandboxes/{box['id']}/files?path=big", text=False)
            assert down.stdout == big.read_bytes(), "what came back is something else"
            events = curl(d, "/v1/events?since=0&follow=false").stdout
            assert "sandbox.ready" in events and "exec.finished" in events, events
            # A page of somebody else's is no client, over TLS either.
            assert json.loads(curl(d, "/v1/info", "-H", "Origin: https://brig.test").stdout)["code"] == "forbidden"
            named = curl(d, "/v1/info", "--resolve", f"brig.test:{d.port}:{ADDRESS}", "-H", "Host: brig.test")
            assert json.loads(named.stdout)["schema"] == 1, named


@test(by_root=True)
def what_is_not_tls_1_2_or_later_is_not_served():
    with set_up() as folder:
        cert, key = make_pair(folder, "first")
        with tls_daemon(cert, key) as d:
            for version in ("1.2", "1.3"):
                assert curl(d, "/healthz", f"--tlsv{version}", "--tls-max", version).returncode == 0, version
            old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
            old.set_ciphers("ALL:@SECLEVEL=0")
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
            with socket.create_connection((ADDRESS, d.port), WAIT) as s:
                try:
                    old.wrap_socket(s)
                    raise AssertionError("TLS 1.1 was spoken")
                except (ssl.SSLError, ConnectionError):
                    pass
            plain = subprocess.run(["curl", "-sS", "--max-time", str(WAIT), f"http://{ADDRESS}:{d.port}/healthz"], capture_output=True, text=True, check=False)
            assert plain.returncode != 0 and "200" not in plain.stdout, plain
            assert curl(d, "/healthz").returncode == 0, "one that was refused has ended it for all"
            other = make_pair(scratch() / "other", "other")[0]
            d.cert = other
            assert curl(d, "/healthz").returncode == 60, "curl believes a certificate that is not the daemon's"


@test(by_root=True)
def a_key_that_a_sandbox_could_be_shown_is_refused():
    with set_up() as folder:
        cert, key = make_pair(folder, "first")
        other = make_pair(folder, "other")[1]
        locked = make_pair(folder, "locked", "-passout", "pass:word")[1]
        outside = make_pair(scratch() / "outside", "outside")
        linked = folder / "linked.key"
        token("a", "run", scratch() / "tokens")

        def refused(*words, listen=f"{ADDRESS}:0"):
            done = brig("daemon", "--listen", listen, "--token-file", scratch() / "tokens", *words,
                        env={"BRIG_HOST": f"unix://{scratch()}/socket"})
            assert done.status == 125, done
            return done.errors

        assert "not loopback" in refused() and "--tls-cert" in refused()
        assert "TLS needs" in refused("--tls-cert", cert) and "TLS needs" in refused("--tls-key", key)
        said = refused("--tls-cert", outside[0], "--tls-key", outside[1])
        assert "a sandbox could be shown" in said and f"{state()}/brig/tls/key.pem" in said, said
        os.symlink(outside[1], linked)
        assert "a sandbox could be shown" in refused("--tls-cert", outside[0], "--tls-key", linked), "by a link"
        linked.unlink()
        os.link(key, linked)
        assert "second name" in refused("--tls-cert", cert, "--tls-key", key), "by a hard link"
        linked.unlink()
        key.chmod(0o640)
        assert "nobody else" in refused("--tls-cert", cert, "--tls-key", key)
        key.chmod(0o600)
        assert "not the key of the certificate" in refused("--tls-cert", cert, "--tls-key", other)
        assert "without a passphrase" in refused("--tls-cert", cert, "--tls-key", locked)
        assert "no certificate in it" in refused("--tls-cert", key, "--tls-key", key)
        # The control: with nothing wrong it begins.
        with tls_daemon(cert, key) as d:
            assert curl(d, "/healthz").returncode == 0


def ended(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def front(d):
    found = [pid for pid, name in descendants(d.process.pid).items() if name == "brig-tls"]
    assert len(found) == 1, found
    return found[0]


@test(by_root=True)
def the_process_that_has_the_key_can_do_nothing_else():
    with set_up() as folder:
        cert, key = make_pair(folder, "first")
        with tls_daemon(cert, key) as d:
            pid = front(d)
            assert curl(d, "/healthz").returncode == 0
            with files_as_root():
                status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
                opened = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
                of_daemon = [os.readlink(f"/proc/{d.process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{d.process.pid}/fd")]
            assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1", status
            assert all(int(status[c], 16) == 0 for c in ("CapEff", "CapPrm", "CapInh")), status
            assert int(status["Uid"].split()[0]) != 0, status["Uid"]
            assert not [p for p in opened + of_daemon if p.endswith(".key")], (opened, of_daemon)
            assert all(p.startswith(("socket:", "anon_inode:", "/dev/null")) for p in opened), opened
            # Nobody of a sandbox's comes to the file, however its owner asks for it.
            for words in (("--workdir", state()), ("--workdir", key.parent), ("--read", key), ("--mount", f"{key}:/workspace/k"), ("--read", key.parent)):
                done = brig("sandbox", "create", *words, env=d.environment)
                assert done.status != 0, words
            box = brig("sandbox", "create", env=d.environment).stdout.decode().strip()
            assert brig("sandbox", "exec", box, "--", "cat", key, env=d.environment).status != 0
            # The control: a file beside it all is read in this way.
            (workspace() / "seen").write_text("seen")
            assert brig("sandbox", "exec", box, "--", "cat", "seen", env=d.environment).stdout == b"seen"
            # Killed, it begins anew, with what the files have now.
            shutil.copy(make_pair(folder, "second")[0], cert)
            key.write_bytes((folder / "second.key").read_bytes())
            os.kill(pid, signal.SIGKILL)
            assert wait_until(lambda: curl(d, "/v1/info").returncode == 0, WAIT)
            shown = subprocess.run(["openssl", "s_client", "-connect", f"{ADDRESS}:{d.port}"], input="", capture_output=True, text=True, check=False).stdout
            assert "CN = second" in shown or "CN=second" in shown, shown[:2000]
            last = front(d)
            d.process.kill()
            d.process.wait()
            assert wait_until(lambda: ended(last), WAIT), "it outlives its daemon"
            d.start()


@test(by_root=True, as_user="user")
def those_who_never_finish_a_handshake_keep_nobody_out():
    with set_up() as folder:
        cert, key = make_pair(folder, "first")
        with tls_daemon(cert, key) as d:
            silent = [socket.create_connection((ADDRESS, d.port), WAIT) for _ in range(300)]
            silent[5].send(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a hello
            assert curl(d, "/healthz").returncode == 0, "no room for one that speaks"
            silent[0].settimeout(WAIT)
            assert silent[0].recv(1) == b"", "the oldest is still there"
            # Those that are left end by themselves, and the daemon has seen none of them.
            assert json.loads(curl(d, "/v1/info").stdout)["sandboxes"] == 0
            assert json.loads(d.call("GET", "/v1/info").body)["connections"] <= 2
            silent[-1].settimeout(WAIT)
            assert silent[-1].recv(1) == b"", "one that says nothing is kept"
            for s in silent:
                s.close()


@test(as_user="root")
def one_that_does_not_begin_holds_nobody_else_up():
    with set_up() as folder:
        cert, key = make_pair(folder, "first")
        with tls_daemon(cert, key) as d:
            box = d.create()["id"]
            for _ in range(3):
                first = front(d)
                os.kill(first, signal.SIGKILL)

                def stopped():
                    found = [pid for pid, name in descendants(d.process.pid).items() if name == "brig-tls" and pid != first and not ended(pid)]
                    for pid in found:
                        os.kill(pid, signal.SIGSTOP)
                    return found
                assert wait_until(stopped, WAIT, 0.001)
                (pid,) = stopped()
                # One that had said its word before it was stopped shows nothing: the next round may.
                assert d.exec(box, "true")["exit_code"] == 0
                state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                os.kill(pid, signal.SIGCONT)
                assert state == "T", "the daemon waited until it gave up on it"
                assert wait_until(lambda: curl(d, "/healthz").returncode == 0, WAIT)


def traced(pid):
    """Whoever looks at a process is told of its end before its parent is, and can keep that from it."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.ptrace(PTRACE_SEIZE, pid, None, None) == 0, os.strerror(ctypes.get_errno())


@test(as_user="root")
def one_that_does_not_end_holds_nobody_else_up():
    with set_up() as folder:
        cert, key = make_pair(folder, "first")
        with tls_daemon(cert, key) as d:
            box, first = d.create()["id"], front(d)
            traced(first)
            os.kill(first, signal.SIGKILL)
            assert wait_until(lambda: ended(first), WAIT)
            for _ in range(10):  # while its end is not to be had
                assert d.exec(box, "true")["exit_code"] == 0
                time.sleep(0.2)
            assert curl(d, "/healthz").returncode != 0, "there was another one beside it"
            os.waitpid(first, 0)
            assert wait_until(lambda: curl(d, "/healthz").returncode == 0, WAIT) and front(d) != first


@test(as_user="root")
def few_descriptors_keep_nobody_out_either():
    with set_up() as folder:
        cert, key = make_pair(folder, "first")
        with tls_daemon(cert, key) as d:
            first = front(d)
            with files_as_root():
                resource.prlimit(d.process.pid, resource.RLIMIT_NOFILE, (128, 128))
                os.kill(first, signal.SIGKILL)
            assert wait_until(lambda: curl(d, "/healthz").returncode == 0, WAIT)
            silent = [socket.create_connection((ADDRESS, d.port), WAIT) for _ in range(200)]
            assert curl(d, "/healthz", "--max-time", "5").returncode == 0, "no room for one that speaks"
            with files_as_root():
                assert len(os.listdir(f"/proc/{front(d)}/fd")) < 100
            for s in silent:
                s.close()


if __name__ == "__main__":
    sys.exit(main())
