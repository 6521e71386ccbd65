#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""SSH through the door, to hosts whose keys are known: OpenSSH's own clients and server, and an agent that logs in to those hosts alone."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import Resolver, behind, configure, denials, on_every_door, repository, seeded  # noqa: E402
import sshd  # noqa: E402
from agents import CLIENT, Agent  # noqa: E402
from harness import brig, files_as_root, home, main, scratch, skip, test, uid, workspace  # noqa: E402

QUIET = "-o BatchMode=yes -o ConnectTimeout=20"


def public(folder, name="host"):
    return " ".join((folder / f"{name}.pub").read_text().split()[:2])


@contextlib.contextmanager
def host():
    """sshd that knows the agent's key; yields agent, server and the name to log in with."""
    with Agent() as agent, sshd.Sshd(setting="Subsystem sftp internal-sftp") as server:
        shutil.copy(agent.key.with_suffix(".pub"), server.folder / "key.pub")
        yield agent, server, f"{server.login or 'root'}@git.test"


def tunnel(server, allow=("ssh:git.test",), keys=None, **more):
    keys = [f"git.test {public(server.folder)}"] if keys is None else keys
    return configure(allow=list(allow), resolve={"git.test": f"127.0.0.1:{server.port}", "other.test": f"127.0.0.1:{server.port}"}, host_keys=keys,
                     more={"ssh_agent": "auth"}, **more)


def log(server):
    return (server.folder / "log").read_text()


def logins(server):
    return log(server).count("Accepted publickey")


@on_every_door
def the_tools_that_speak_ssh_work():
    with host() as (agent, server, at):
        repo = repository()
        seeded(repo)
        subprocess.run(["chown", "-R", str(uid()), repo], check=True)
        script = f"""
            ssh {QUIET} {at} 'echo inside of the host'
            cd /tmp; export GIT_SSH_COMMAND='ssh {QUIET}'
            git clone -q ssh://{at}{repo} one; cd one; git log --format=%s
            git config user.name me; git config user.email me@example.org
            echo 1 > file; git add file; git commit -qm one; git push -q origin HEAD:main && echo pushed
            scp -q {QUIET} file {at}:{server.folder}/copied; scp -q {QUIET} {at}:{server.folder}/host.pub back && grep -c ssh-ed25519 back
            if command -v rsync >/dev/null; then rsync -e 'ssh {QUIET}' file {at}:{server.folder}/synced; fi
            ssh {QUIET} -o ProxyCommand='python3 {workspace()}/connect.py %h %p' {at} 'echo by CONNECT'"""
        (workspace() / "connect.py").write_text(CONNECT)
        done = brig("run", "--json", "--config", tunnel(server), "--", "sh", "-ec", script, env=agent.env, timeout=60)
        r = done.json
        assert r["exit_code"] == 0 and r["stdout"].splitlines() == ["inside of the host", "first", "pushed", "1", "by CONNECT"], (r, log(server))
        assert subprocess.run(["git", "-c", "safe.directory=*", "-C", repo, "log", "--format=%s", "main"], capture_output=True, text=True, check=True).stdout.split() == ["one", "first"]
        assert (server.folder / "copied").read_text() == "1\n"
        assert r["egress"]["uninspected"] == r["egress"]["allowed"] >= 6 and r["egress"]["denied"] == 0, r["egress"]
        assert r["signatures"] == logins(server) >= 6, (r["signatures"], log(server))
        assert "SSH to git.test is a tunnel that is not inspected" in done.errors, done.errors
        shown = brig("audit", "show", r["id"]).text
        assert "SSH git.test:22: uninspected [rule ssh:git.test]" in shown and "for login to git.test" in shown, shown


# CONNECT at the explicit proxy, with what a shell has.
CONNECT = r"""
import os, socket, sys, threading, urllib.parse
proxy = urllib.parse.urlsplit(os.environ['https_proxy'])
s = socket.create_connection((proxy.hostname, proxy.port))
s.sendall(f'CONNECT {sys.argv[1]}:{sys.argv[2]} HTTP/1.1\r\n\r\n'.encode())
head = b''
while not head.endswith(b'\r\n\r\n'):
    more = s.recv(1)
    if not more: sys.exit(1)
    head += more
if b' 200 ' not in head: sys.exit(head.decode())
def up():
    while data := os.read(0, 65536): s.sendall(data)
    s.shutdown(1)
threading.Thread(target=up, daemon=True).start()
while data := s.recv(65536): os.write(1, data)
"""


@on_every_door
def nothing_else_comes_through():
    """Another name at the same server, a run without the rule, a denied name: no byte arrives. The control is the login among them."""
    with host() as (agent, server, at):
        (workspace() / "connect.py").write_text(CONNECT)
        other = at.replace("git.test", "other.test")
        script = f"""ssh {QUIET} {other} 'echo other'
            ssh {QUIET} -o ProxyCommand='python3 {workspace()}/connect.py %h %p' -o StrictHostKeyChecking=no {other} 'echo other'
            ssh {QUIET} {at} 'echo one'"""
        before = log(server).count("Connection from") + logins(server)
        r = behind(tunnel(server), "sh", "-c", script, env=agent.env)
        assert r["stdout"] == "one\n" and logins(server) == 1, (r, log(server))
        assert denials(r) == [("other.test:22", "not-allowed")] * 2 and "--allow ssh:other.test" in str(r["denials"]), r["denials"]
        for config in (tunnel(server, allow=["git.test"]), tunnel(server, deny=["git.test"]), tunnel(server, allow=["ssh:git.test:2222"], keys=[f"[git.test]:2222 {public(server.folder)}"])):
            r = behind(config, "sh", "-c", f"ssh -p 22 {QUIET} {at} 'echo one'", env=agent.env)
            assert r["exit_code"] == 255 and r["stdout"] == "" and logins(server) == 1, (r, log(server), before)


@test
def bytes_that_are_not_ssh_go_nowhere():
    with host() as (agent, server, _):
        code = r"""
import socket
for data in (b'GET / HTTP/1.1\r\nHost: git.test\r\n\r\n', b'\x16\x03\x01\x00\x05hello', b'SSH', b'SSH-2.0-test\r\n'):
    s = socket.create_connection(('git.test', 22), timeout=10)
    s.sendall(data)
    s.shutdown(1)
    got = b''
    try:
        while more := s.recv(65536): got += more
    except OSError: pass
    print(len(got) > 30, flush=True)
"""
        r = behind(tunnel(server), "python3", "-c", code, env=agent.env)
        # A server says its version by itself; what it hears is the oracle.
        assert r["stdout"].split()[-1] == "True" and denials(r) == [("git.test:22", "bad-request")] * 3, (r, log(server))
        assert "GET" not in log(server) and "hello" not in log(server), log(server)


@test
def a_host_with_another_key_is_not_logged_in_to():
    with host() as (agent, server, at):
        agent.ssh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", scratch() / "wrong")
        config = tunnel(server, keys=[f"git.test {public(scratch(), 'wrong')}"])
        r = behind(config, "sh", "-c", f"ssh {QUIET} {at} 'echo one' 2>&1", env=agent.env)
        assert r["exit_code"] == 255 and "Host key verification failed" in r["stdout"] and r["signatures"] == 0, r
        # Whoever turns the check off inside has a tunnel, and an agent that does not sign.
        r = behind(config, "sh", "-c", f"ssh {QUIET} -o StrictHostKeyChecking=no {at} 'echo one' 2>&1", env=agent.env)
        assert r["exit_code"] == 255 and "Permission denied" in r["stdout"] and r["signatures"] == 0 and logins(server) == 0, (r, log(server))
        assert any("logins are to the hosts of --allow ssh:HOST alone" in d["reason"] for d in r["denials"]), r["denials"]
        r = behind(tunnel(server), "sh", "-c", f"ssh {QUIET} {at} 'echo one'", env=agent.env)
        assert r["stdout"] == "one\n" and r["signatures"] == 1, (r, log(server))


BOUND = CLIENT + r"""
import sys
key, pinned = keys()[0], bytes.fromhex(sys.argv[1])
def bind(session, proof, host=pinned, forwarded=b'\0'):
    return kind(call(b'\x1b' + string(b'session-bind@openssh.com') + string(host) + string(session) + string(proof) + forwarded))
ours = string(b'ssh-ed25519') + string(b'p' * 64)
s = b's' * 32
print(kind(sign(key, login(key, session=s))), bind(s, ours), bind(s, ours, host=key), bind(s, ours, forwarded=b'\1'),
      bind(s, string(b'ssh-rsa') + string(b'p' * 256)), bind(s, b'x'), bind(b'', ours), kind(sign(key, login(key, session=s))),
      kind(sign(key, login(key, session=s, method=b'publickey-hostbound-v00@openssh.com', more=string(pinned)))), kind(sign(key, signed())))
"""


@test
def the_agent_signs_for_no_session_that_the_host_has_not_signed():
    import base64
    with host() as (agent, server, _):
        blob = base64.b64decode(public(server.folder).split()[1]).hex()
        r = behind(tunnel(server), "python3", "-c", BOUND, blob, env=agent.env)
        assert r["stdout"] == "5 5 5 5 5 5 5 5 5 14\n" and r["signatures"] == 1, r
        # The control: one that has signed it, as ssh-keygen cannot and a few lines can.
        proved = BOUND.replace("print(kind(sign(key, login(key, session=s))),", "proof = bytes.fromhex(sys.argv[2])\nprint(bind(s, proof), kind(sign(key, login(key, session=s))),", 1).split("bind(s, ours), bind(s, ours, host=key)")[0] + "kind(sign(key, login(key, session=b't' * 32))), kind(sign(key, login(key, session=s, method=b'publickey-hostbound-v00@openssh.com', more=string(key)))), kind(sign(key, login(key, session=s, method=b'publickey-hostbound-v00@openssh.com', more=string(pinned)))))\n"
        r = behind(tunnel(server), "python3", "-c", proved, blob, proof_of(server.folder / "host", b"s" * 32).hex(), env=agent.env)
        assert r["stdout"] == "6 14 5 5 14\n" and r["signatures"] == 2, r


def proof_of(key, session):
    """What a host answers a key exchange with: its signature over the session's identifier. Made by an agent that has the host's key."""
    import struct
    own = scratch() / "hosts"
    code = f"k = keys()[0]\na = call(b'\\x0d' + string(k) + string(bytes.fromhex('{session.hex()}')) + struct.pack('>I', 0))\nprint(a.hex())\n"
    with files_as_root():
        process = subprocess.Popen(["ssh-agent", "-D", "-a", own], stdout=subprocess.DEVNULL)
        try:
            env = {"SSH_AUTH_SOCK": str(own), "PATH": os.environ["PATH"]}
            while not own.exists():
                pass
            subprocess.run(["ssh-add", "-q", key], env=env, check=True, capture_output=True)
            answer = bytes.fromhex(subprocess.run(["/usr/bin/python3", "-c", CLIENT + code], env=env, check=True, capture_output=True, text=True).stdout)
        finally:
            process.terminate()
            process.wait()
    assert answer[0] == 14
    return answer[5:5 + struct.unpack(">I", answer[1:5])[0]]


@test
def a_host_whose_key_nobody_knows_is_refused_with_a_next_step():
    with host() as (agent, server, at):
        done = brig("run", "--config", tunnel(server, keys=[]), "--", "true", env=agent.env)
        assert done.status == 125 and "no key of that host is known" in done.errors and "ssh-keyscan" in done.errors and "egress.host_keys" in done.errors, done.errors
        for line in ("git.test", "git.test ssh-ed25519 AAAA", "*.test ssh-ed25519 " + public(server.folder).split()[1]):
            done = brig("run", "--config", tunnel(server, keys=[line]), "--", "true", env=agent.env)
            assert done.status == 125 and "is not a host and its key" in done.errors, (line, done.errors)
        # The user's own file, with its names hidden as Debian hides them; and refused where a command could have written it.
        (home() / ".ssh").mkdir(exist_ok=True)
        known = home() / ".ssh/known_hosts"
        known.write_text(f"git.test {public(server.folder)}\n")
        agent.ssh("ssh-keygen", "-q", "-H", "-f", known)
        assert "git.test" not in known.read_text()
        r = behind(tunnel(server, keys=[]), "sh", "-c", f"ssh {QUIET} {at} 'echo one'", env=agent.env)
        assert r["stdout"] == "one\n", (r, log(server))
        (workspace() / "known").write_text(f"git.test {public(server.folder)}\n")
        known.unlink()
        known.symlink_to(workspace() / "known")
        done = brig("run", "--config", tunnel(server, keys=[]), "--", "true", env=agent.env)
        assert done.status == 125 and "known_hosts file" in done.errors and "is not used" in done.errors, done.errors
        shutil.rmtree(home() / ".ssh")


@test
def rules_that_cannot_be_kept_are_refused():
    with host() as (agent, server, _):
        for allow, deny, words in ((["ssh:git.test/team"], [], "no path of it can be allowed"), (["GET ssh:git.test"], [], "no method of it can be allowed"),
                                   (["ssh:*.git.test"], [], "for one name, not for a pattern"), (["ssh:git.test", "GET git.test:22"], [], "which are not seen"),
                                   (["ssh:git.test"], ["ssh:git.test"], "cannot be kept")):
            done = brig("run", "--config", tunnel(server, allow=allow, deny=deny), "--", "true", env=agent.env)
            assert done.status == 125 and words in done.errors, (allow, done.errors)
        # What a project brings opens nothing.
        for key, value in (("allow", "ssh:git.test"), ("host_keys", f"git.test {public(server.folder)}")):
            (workspace() / ".brig.yaml").write_text(f"brig: 1\negress: {{{key}: ['{value}']}}\n")
            done = brig("run", "--network", "proxy", "--", "true")
            assert f"egress.{key}: an untrusted project file may only tighten" in done.errors, done.errors


@test
def a_name_that_leads_inward_stays_closed():
    if os.geteuid() != 0:
        skip("port 53 is root's")
    with host() as (agent, server, at), Resolver({"inner.test": "127.0.0.1"}) as names:
        config = configure(allow=["ssh:inner.test"], host_keys=[f"inner.test {public(server.folder)}"])
        r = behind(config, "sh", "-c", f"ssh {QUIET} {at.replace('git', 'inner')} 'echo one' 2>&1", env=agent.env)
        assert r["exit_code"] == 255 and denials(r) == [("inner.test:22", "private-address")], r
        assert "inner.test" in names.asked and logins(server) == 0


if __name__ == "__main__":
    sys.exit(main())
