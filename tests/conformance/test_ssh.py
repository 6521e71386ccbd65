# SPDX-License-Identifier: Apache-2.0
"""The ssh backend against a real sshd: what goes over, what is refused, what is said when it fails."""

import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "lib")]

import harness
import record
import sshd
from harness import PATIENCE, brig, brig_environment, descendants, home, identity, main, scratch, start_brig, test, wait_until, workspace


def refused(done, *words):
    assert done.status == 125, (done.status, done.errors)
    for word in words:
        assert word in done.errors, f"'{word}' is not in: {done.errors}"
    assert "hint:" in done.errors


# ---- what is said when it fails ----


@test
def each_way_not_to_get_there_has_its_own_words():
    with sshd.Sshd(persist="0") as host:
        run = lambda *more: brig("run", *host.options(*more), "--", "true")
        assert run().status == 0  # the positive control
        known = (host.folder / "known").read_text()
        (host.folder / "known").write_text("")
        refused(run(), "host key of 'box' is not known", "ssh box")
        (host.folder / "known").write_text(known.split()[0] + " " + " ".join((host.folder / "key.pub").read_text().split()[:2]) + "\n")
        refused(run(), "another one than before", "ssh-keygen -R")
        (host.folder / "known").write_text(known)
        (host.folder / "key.pub").rename(host.folder / "away.pub")
        refused(run(), "refused the login", "ssh-add -l")
        (host.folder / "away.pub").rename(host.folder / "key.pub")
        refused(run("--set", "ssh.remote_cwd=/no/such"), "has no folder '/no/such'")
        refused(run("--set", "ssh.config_file=/no/such"), "configuration file")
        refused(run("--set", "ssh.identity_file=/no/such"), "ssh.identity_file '/no/such'", "No such file")
        refused(run("--set", "ssh.host=no-such-host.invalid", "--set", "ssh.connect_timeout=3s"), "cannot be resolved")
        host.config.write_text(host.config.read_text().replace(f"Port {host.port}", f"Port {sshd.free_port()}"))
        refused(run(), "is not listening")


@test
def a_host_that_says_nothing_is_given_up():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(5)  # the connection is made, and then nothing
        config = scratch() / "config"
        config.write_text(f"Host box\n HostName 127.0.0.1\n Port {s.getsockname()[1]}\n")
        if identity() == "user" and os.geteuid() == 0:
            return  # the client itself refuses a caller without a name
        began = time.monotonic()
        done = brig("run", "--backend", "ssh", "--set", "ssh.host=box", "--set", f"ssh.config_file={config}",
                    "--set", "ssh.connect_timeout=1s", "--", "true")
        refused(done, "in time", "ssh.connect_timeout")
        assert time.monotonic() - began < 12


@test(as_user="user", by_root=True)
def a_caller_without_a_name_is_told_that_ssh_wants_one():
    refused(brig("run", "--backend", "ssh", "--set", "ssh.host=127.0.0.1", "--", "true"), "has no name", "/etc/passwd")


@test
def connecting_can_be_interrupted():
    with sshd.Sshd(persist="0") as host:
        host.process.send_signal(signal.SIGSTOP)  # the kernel makes the connection, nobody answers
        p = start_brig("run", *host.options("--json"), "--", "true")
        time.sleep(1)
        began = time.monotonic()
        p.send_signal(signal.SIGTERM)
        said = json.loads(p.communicate(timeout=20 * PATIENCE)[0])
        assert time.monotonic() - began < 6
        assert said["outcome"] == "cancelled" and "interrupted" in said["error"]["what"], said
        host.process.send_signal(signal.SIGCONT)
        wait_until(lambda: not host.masters(), 12)


@test
def the_doctor_tries_the_host_it_is_told_of():
    with sshd.Sshd(persist="0") as host:
        done = brig("doctor", *host.options())
        assert done.status == 0 and "[pass] ssh: 'box' answers" in done.text, done.text
        host.config.write_text(host.config.read_text().replace(f"Port {host.port}", f"Port {sshd.free_port()}"))
        done = brig("doctor", *host.options())
        assert done.status == 1 and "[fail] ssh: 'box'" in done.text and "not listening" in done.text, done.text
    done = brig("doctor", "--backend", "ssh", "--set", "ssh.hots=box")
    assert done.status == 1 and "did you mean 'ssh.host'" in done.text, done.text


@test
def a_host_is_a_host_and_no_option():
    for host in ("-oProxyCommand=id", "user@-x", "a b", "", "a\nb"):
        done = brig("run", "--backend", "ssh", "--set", f"ssh.host={host}", "--", "true")
        assert done.status == 125 and "ssh.host" in done.errors, (host, done.errors)
    assert "needs ssh.host" in brig("run", "--backend", "ssh", "--", "true").errors


@test
def what_ssh_cannot_honour_is_refused_or_in_a_role_warned_of():
    with sshd.Sshd() as host:
        for flag in (["--memory", "64m"], ["--cpus", "1"], ["--pids", "9"], ["--network", "none"], ["--mount", "/tmp:/x"],
                     ["--read", "/srv"], ["--policy", "readonly"], ["--workdir", str(workspace())], ["--tty"]):
            done = brig("run", *host.options(*flag), "--", "true")
            refused(done, "backend 'ssh' cannot honour")
            assert "can" in done.errors.split("hint:")[1]
        role = workspace() / "role.yaml"
        sandbox = f"""
security:
  sandbox:
    backend: ssh
    network: none
    memory_limit: 64m
    ssh:
      host: box
      config_file: {host.config}
      control_persist: 20s
"""
        role.write_text(sandbox)
        done = brig("run", "--config", role, "--", "echo", "ran")
        assert done.status == 0 and done.text == "ran\n", done.errors
        assert done.errors.count("network is not enforced by backend ssh") == 1
        assert done.errors.count("memory_limit is not enforced by backend ssh") == 1
        assert "not a sandbox" in done.errors
        for bad in ("network: bridge", f"bind_mounts: [{{source: {workspace()}, target: /data}}]"):
            role.write_text(sandbox.replace("network: none", bad))
            assert brig("run", "--config", role, "--", "true").status == 125
        # Defaults are no requests: the report says what they came to.
        said = brig("run", *host.options("--json"), "--", "true").json
        assert said["isolation"]["network"] == "host" and said["isolation"]["limits"]["memory"] == "none"
        assert not said["isolation"]["user_ns"] and said["backend"] == "ssh"


# ---- what goes over ----


@test
def only_named_variables_go_over():
    with sshd.Sshd(setting="AcceptEnv *") as host:
        host.config.write_text(host.config.read_text() + " SendEnv LANG LC_* SECRET* MARK*\n")
        done = brig("run", *host.options("--env-pass", "MARK_A", "--env", "B=2"), "--", "env",
                    env={"SECRET_X": "1", "MARK_A": "a", "MARK_C": "c", "LC_ALL": "C.UTF-8", "SSH_AUTH_SOCK": "/no/such"})
        seen = dict(line.split("=", 1) for line in done.text.splitlines() if "=" in line)
        assert seen["MARK_A"] == "a" and seen["B"] == "2" and seen["BRIG_SANDBOX"] == "ssh"
        assert not {"SECRET_X", "MARK_C", "LC_ALL", "SSH_AUTH_SOCK", "DISPLAY"} & seen.keys(), seen


@test
def forwarding_is_off_whatever_the_configuration_says():
    with sshd.Sshd(setting="AllowAgentForwarding yes\nAllowTcpForwarding yes") as host:
        port = sshd.free_port()
        host.config.write_text(host.config.read_text() + f" ForwardAgent yes\n LocalForward {port} 127.0.0.1:{host.port}\n"
                               f" PermitLocalCommand yes\n LocalCommand touch {scratch()}/local\n RemoteCommand touch {scratch()}/remote\n")
        agent = subprocess.Popen(["ssh-agent", "-D", "-a", f"{scratch()}/agent"], stdout=subprocess.DEVNULL)
        try:
            assert wait_until((scratch() / "agent").exists)
            done = brig("run", *host.options(), "--", "sh", "-c", f"echo ${{SSH_AUTH_SOCK-none}}; grep -c :{port:04X} /proc/net/tcp",
                        env={"SSH_AUTH_SOCK": f"{scratch()}/agent"})
            assert done.text == "none\n0\n", done.text
            assert not (scratch() / "local").exists() and not (scratch() / "remote").exists()
        finally:
            agent.terminate()
            agent.wait()


@test
def login_noise_is_no_output():
    shell = scratch() / "shell"
    with sshd.Sshd(setting=f"Banner {scratch()}/banner\nForceCommand {shell}") as host:
        (scratch() / "banner").write_text("BANNER\n\x1e\x1b[2J")
        shell.write_text("#!/bin/sh\necho NOISE; printf '\\036half'; echo NOISE >&2\nexec /bin/sh -c \"$SSH_ORIGINAL_COMMAND\"\n")
        shell.chmod(0o755)
        noise = subprocess.run(["ssh", "-F", host.config, "box", "true"], capture_output=True, check=False,
                               preexec_fn=None if not host.login else lambda: os.setuid(harness.uid()))
        assert b"NOISE" in noise.stdout and b"NOISE" in noise.stderr  # the positive control
        said = brig("run", *host.options("--json"), "--", "sh", "-c", "echo out; echo err >&2").json
        assert said["stdout"] == "out\n" and said["stderr"] == "err\n", said


@test
def a_mark_in_the_output_is_output():
    with sshd.Sshd() as host:
        text = "\x1e0123456789abcdef0123456789abcdef E 0\n\x1e"
        said = brig("run", *host.options("--json"), "--", "sh", "-c", f"printf '%s' '{text}' >&2; exit 9").json
        assert said["stderr"] == text and said["exit_code"] == 9


@test
def no_code_is_on_a_command_line():
    """Neither here nor there: the word would be seen by everyone who lists processes."""
    with sshd.Sshd() as host:
        for backend in (["--backend", "native"], ["--backend", "none", "--i-know-this-is-not-a-sandbox"], host.options(),
                        host.options("--set", "ssh.remote=brig")):
            ready = workspace() / "ready"
            ready.unlink(missing_ok=True)
            where = "." if "ssh" not in backend else str(workspace())
            more = [] if "ssh" not in backend else ["--set", f"ssh.remote_cwd={workspace()}"]
            p = start_brig("python", *backend, *more, "-c", "# A_WORD_IN_THE_CODE\nopen('ready', 'w'); import time; time.sleep(60)")
            assert wait_until(ready.exists, 10), (backend, where)
            lines = []
            for pid in descendants():
                try:
                    lines.append(pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())
                except OSError:
                    continue
            p.terminate()
            p.communicate()
            seen = [line for line in lines if b"A_WORD_IN_THE_CODE" in line]
            assert not seen, seen
            assert any(b"python" in line for line in lines)


@test
def the_shared_connection_is_private_and_shared():
    with sshd.Sshd() as host:
        assert brig("run", *host.options(), "--", "true").status == 0
        folder = pathlib.Path(brig_environment()["XDG_RUNTIME_DIR"]) / "brig/ssh"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert len(list(folder.iterdir())) == 1 and len(host.masters()) == 1
        before = len(host.sessions())
        assert brig("run", *host.options(), "--", "true").status == 0
        assert len(host.masters()) == 1 and len(host.sessions()) <= before
        # Another key is another connection.
        assert brig("run", *host.options("--set", f"ssh.identity_file={host.folder}/key"), "--", "true").status == 0
        assert len(list(folder.iterdir())) == 2
        host.close_connections()
        folder.chmod(0o755)
        refused(brig("run", *host.options(), "--", "true"), "not a private folder")
        folder.chmod(0o700)


@test
def interrupting_ends_both_sides():
    with sshd.Sshd() as host:
        started = workspace() / "started"
        p = start_brig("run", *host.options("--set", f"ssh.remote_cwd={workspace()}"), "--", "sh", "-c",
                       "trap 'echo caught > caught; exit 3' INT; touch started; while :; do sleep 0.1; done")
        assert wait_until(started.exists, 10)
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=10 * PATIENCE)
        assert p.returncode == 3  # its own
        assert (workspace() / "caught").read_text() == "caught\n"
        assert not [name for name in descendants().values() if name == "sleep"]


@test
def a_remote_brig_has_its_own_say():
    with sshd.Sshd() as host:
        remote = host.options("--set", "ssh.remote=brig", "--set", f"ssh.remote_cwd={workspace()}")
        said = brig("run", *remote, "--json", "--memory", "128m", "--", "sh", "-c", "echo $BRIG_SANDBOX; cat /etc/shadow").json
        assert said["stdout"] == "native\n" and said["isolation"]["user_ns"] and said["isolation"]["seccomp"] == "default"
        done = brig("run", *remote, "--", "true")
        assert "not a sandbox" not in done.errors
        done = brig("run", *remote, "--read", "/no/such", "--", "true")
        assert done.status == 125 and done.errors.startswith("brig: on 'box': read: '/no/such' does not exist\nhint: "), done.errors
        refused(brig("run", *remote, "--workdir", str(workspace()), "--", "true"), "is a folder of this host", "ssh.remote_cwd")
        broken = scratch() / "bin"
        broken.mkdir()
        (broken / "brig").write_text("#!/bin/sh\necho brig 0.0.9\n")
        (broken / "brig").chmod(0o755)
        text = (host.folder / "server").read_text()
        for path, words in ((f"{broken}:{sshd.PATH}", "has 'brig 0.0.9', this is"), ("/usr/bin:/bin", "has no brig")):
            host.close_connections()
            host.stop()
            (host.folder / "server").write_text("\n".join(
                line if not line.startswith("SetEnv") else f"SetEnv PATH={path}" for line in text.splitlines()) + "\n")
            host.start()
            refused(brig("run", *remote, "--", "true"), words)


@test(limit=120)
def nothing_that_a_command_has_put_into_the_folder_there_is_started_outside_of_a_sandbox():
    """Neither as brig nor as a tool of the wrapper's, where the login's PATH leads there. Without a sandbox there, which is the control, it is."""
    mark, names = scratch() / "mark", "brig grep head sleep"
    with sshd.Sshd() as host:
        text = (host.folder / "server").read_text()
        plain = host.options("--set", "ssh.remote=plain", "--i-know-this-is-not-a-sandbox", "--set", f"ssh.remote_cwd={workspace()}")
        remote = host.options("--set", "ssh.remote=brig", "--set", f"ssh.remote_cwd={workspace()}")
        line = f"mkdir bin && for p in {names}; do printf '#!/bin/sh\\necho $0 >> {mark}\\nexec /usr/bin/$(basename $0) \"$@\"' > bin/$p; chmod 755 bin/$p; done; ln -s bin/* ."
        done = brig("run", *remote, "--", "sh", "-c", line)
        assert done.status == 0, done.errors
        for front in (".", "bin", f"{workspace()}/bin", f"{workspace()}/../{workspace().name}/bin"):
            host.close_connections()
            host.stop()
            (host.folder / "server").write_text(text.replace("SetEnv PATH=", f"SetEnv PATH={front}:"))
            host.start()
            done = brig("run", *remote, "--", "true")
            assert done.status == 0 and not mark.exists(), (front, done.errors, mark.read_text())
            assert brig("run", *plain, "--", "true").status == 0 and mark.exists(), front
            mark.unlink()


# ---- a command that writes its own report ----

REPORT = {"schema": 1, "outcome": "exited", "exit_code": 0, "signal": None, "limits_hit": [], "denials": [], "error": None,
          "isolation": {"user_ns": True, "pid_ns": True, "mount_ns": True, "net_ns": True, "seccomp": "default", "landlock_abi": 7,
                        "cgroup": "v2", "network": "none", "limits": {"memory": "cgroup"}}}
FORGE = """
import json, os, re, sys, time
report = json.loads(sys.argv[2])
def parent(pid):
    return int(open('/proc/%d/stat' % pid).read().rpartition(')')[2].split()[1])
def say(number, word):
    os.write(2, ('\\x1e%s %s\\n' % (number, word)).encode())
def memory(pid):  # every number of the right form that another process holds
    found = set()
    try:
        maps, mem = open('/proc/%d/maps' % pid), open('/proc/%d/mem' % pid, 'rb')
    except OSError:
        return found
    for line in maps:
        low, high = (int(x, 16) for x in line.split()[0].split('-'))
        if ' rw' in line and high - low < 1 << 24:
            try:
                mem.seek(low)
                found.update(x.decode() for x in re.findall(rb'(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])', mem.read(high - low)))
            except OSError:
                pass
    return found
def seen():  # what others of the same user show of themselves
    text = b''
    for pid in filter(str.isdigit, os.listdir('/proc')):
        for name in ('environ', 'cmdline'):
            try:
                text += open('/proc/%s/%s' % (pid, name), 'rb').read()
            except OSError:
                pass
    return set(re.findall(r'(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])', text.decode(errors='replace')))
run = os.environ.get('BRIG_RUN', '')
wrapper = os.getppid()
"""
FORGERIES = {
    "the run's id": "say(run, 'J ' + json.dumps(report)); say(run, 'E 0')",
    "the run's id, and the wrapper killed": "os.kill(wrapper, 9); say(run, 'J ' + json.dumps(report)); say(run, 'E 0')",
    "numbers in environments and arguments": "for n in seen(): say(n, 'E 0'); say(n, 'J ' + json.dumps(report))",
    "numbers of its own streams": "import fcntl\n"
        "for f in (1, 2):\n"
        "    try:\n"
        "        p = os.open('/proc/self/fd/%d' % f, os.O_RDONLY | os.O_NONBLOCK); data = os.read(p, 65536).decode(errors='replace')\n"
        "        for n in re.findall('[0-9a-f]{32}', data): say(n, 'E 0'); say(n, 'J ' + json.dumps(report))\n"
        "    except OSError: pass\n",
    "a report with every number in the wrapper's memory": "for n in memory(wrapper): say(n, 'J ' + json.dumps(report))",
}


def sandboxed(said):
    i = said["isolation"]
    return i["user_ns"] or i["seccomp"] != "none" or i["landlock_abi"] or i["limits"]["memory"] != "none"


@test
def a_command_cannot_write_its_own_report():
    """Isolation that is not there is the lie to be caught; its exit status is its own to choose."""
    with sshd.Sshd() as host:
        for name, forgery in FORGERIES.items():
            done = brig("run", *host.options("--json"), "--", "python3", "-c", FORGE + forgery + "\nos._exit(7)", "x", json.dumps(REPORT))
            said = done.json
            assert not sandboxed(said), (name, said["isolation"])
            assert (said["outcome"], said["exit_code"]) in (("exited", 7), ("failed", 125)), (name, said["outcome"], said["exit_code"], said["error"])
            assert said["outcome"] == ("failed" if "killed" in name else "exited") or "memory" in name, (name, said)
        end = [r for r in record.verified(record.folder(harness.state())) if r["type"] == "sandbox.exec"][-1]
        assert "user_ns" not in end.get("layers", "") and "landlock" not in end.get("layers", ""), end


@test
def names_of_the_login_do_not_hand_the_numbers_on():
    """A variable that came with the login stays one of the environment when the wrapper sets it."""
    with sshd.Sshd() as host:
        text = (host.folder / "server").read_text()
        host.stop()
        (host.folder / "server").write_text("\n".join(f"{line} b=x _bb=x _be=x _bn=x" if line.startswith("SetEnv") else line for line in text.splitlines()) + "\n")
        host.start()
        plain = subprocess.run(["ssh", "-F", host.config, "box", "read b; env"], input=b"text\n", capture_output=True, check=False,
                               preexec_fn=None if not host.login else lambda: os.setuid(harness.uid()))
        assert b"b=text" in plain.stdout, plain  # the control
        said = brig("run", *host.options("--json"), "--", "env").json
        mine = {line for line in said["stdout"].splitlines() if line.startswith(("b=", "_bb=", "_be="))}
        assert said["exit_code"] == 0 and not mine, mine


@test
def a_mark_counts_once_and_what_comes_behind_it_is_told():
    """Whoever may read the wrapper's memory has its number. It is good for an exit status, which is the command's own, and then
    the wrapper's word behind it tells that something went on."""
    with sshd.Sshd() as host:
        code = FORGE + "n = memory(wrapper) - {run}\nfor x in n: say(x, 'E 0')\nos.write(2, b'hidden')\nprint(len(n), flush=True); os._exit(7)"
        said = brig("run", *host.options("--json"), "--", "python3", "-c", code, "x", json.dumps(REPORT)).json
        if said["stdout"] == "0\n":  # the kernel lets nobody look: nothing was forged
            assert (said["outcome"], said["exit_code"]) == ("exited", 7), said
            return
        assert said["exit_code"] == 0 and [d["kind"] for d in said["denials"]] == ["process"], said
        assert "hidden" not in said["stderr"] and not sandboxed(said), said


@test
def a_command_of_a_remote_brig_forges_nothing():
    with sshd.Sshd() as host:
        remote = host.options("--set", "ssh.remote=brig", "--set", f"ssh.remote_cwd={workspace()}")
        lie = {**REPORT, "isolation": {**REPORT["isolation"], "landlock_abi": 77}}
        for name, forgery in FORGERIES.items():
            forgery = forgery.replace("os.kill(wrapper, 9); ", "")  # init's own number, in there
            said = brig("run", *remote, "--json", "--", "python3", "-c", FORGE + forgery + "\nos._exit(7)", "x", json.dumps(lie)).json
            assert (said["outcome"], said["exit_code"]) == ("exited", 7), (name, said)
            assert said["isolation"]["user_ns"] and said["isolation"]["landlock_abi"] != 77, (name, said["isolation"])


# What a remote host that lies says in the place of brig's report, on descriptor 3, and how the run may end here.
LIES = {
    "controls": (r"""report(outcome='refused', error={'code': 'policy', 'what': '\x1b[2J\x9b31m\u202eevil\x07', 'hint': '\x1b]0;x\x07'},
                           denials=[{'kind': 'protected-path', 'target': '\x1b[8m\u202e', 'reason': '\x9b2J\nbrig: all is well'}])""", {"refused"}),
    "numbers": ("report(exit_code=1 << 62, signal=-1, isolation={'landlock_abi': 10 ** 18, 'uid_inside': -5}, denials=[{'kind': 'network', 'target': 't', 'reason': 'r', 'count': (1 << 63) - 1}] * 3)", {"exited", "failed"}),
    "a failure that counts as success": ("report(outcome='failed', exit_code=0, error=None)", {"failed"}),
    "a signal that is none": ("report(outcome='signalled', signal=0)", {"signalled", "failed"}),
    "words of other kinds": ("report(outcome=7, exit_code='0', denials={'a': 1}, isolation=[], limits_hit='memory')", {"failed"}),
    "no such outcome": ("report(outcome='perfect')", {"failed"}),
    "thousands of denials": ("report(denials=[{'kind': 'network', 'target': 'h%d' % i, 'reason': 'r' * 50} for i in range(5000)])", {"exited", "failed"}),
    "endless": ("while True: out.write(b'[' * 65536)", {"failed", "timeout"}),
    "deep": ("out.write(b'[' * 200000 + b']' * 200000)", {"failed"}),
    "no report": ("pass", {"failed"}),
    "no text": ("out.write(bytes(range(256)) * 100)", {"failed"}),
    "cut": ("out.write(json.dumps(REPORT).encode()[:-20])", {"failed"}),
    "two": ("report(); report(outcome='failed')", {"failed"}),
    "silence": ("import time; time.sleep(600)", {"timeout"}),
    "a flood": ("[os.write(1, b'\\x1b[2Jx' * 10000) for _ in iter(int, 1)]", {"timeout", "failed"}),
}
LIAR = """#!/usr/bin/python3
import json, os, sys
if sys.argv[1] == "version":
    print(open(os.path.dirname(__file__) + "/version").read())
    sys.exit(0)
REPORT = %r
out = os.fdopen(3, "wb", 0)
def report(**other):
    out.write(json.dumps({**REPORT, **other}).encode())
exec(open(os.path.dirname(__file__) + "/lie").read())
"""


@test(limit=120)
def a_remote_host_that_lies_does_no_harm_here():
    """It is believed, but nothing it says is obeyed by a terminal, costs memory without bound, or lasts past the time limit."""
    liar = scratch() / "bin"
    liar.mkdir()
    (liar / "brig").write_text(LIAR % REPORT)
    (liar / "brig").chmod(0o755)
    version = brig("version").text.split()[1]
    with sshd.Sshd() as host:
        text = (host.folder / "server").read_text()
        host.stop()
        (host.folder / "server").write_text("\n".join(f"SetEnv PATH={liar}:{sshd.PATH}" if line.startswith("SetEnv") else line for line in text.splitlines()) + "\n")
        host.start()
        remote = host.options("--set", "ssh.remote=brig", "--set", f"ssh.remote_cwd={workspace()}", "--set", "ssh.connect_timeout=60s", "--output-limit", "1m")
        for name, (lie, outcomes) in {"the truth": ("report()", {"exited"}), **LIES}.items():  # the first is the control
            (liar / "version").write_text(f"brig {version}")
            (liar / "lie").write_text(lie)
            done = brig("run", *remote, "--json", "--timeout", "2s" if "timeout" in outcomes else "60s", "--", "true", timeout=90)
            said = done.json
            assert said["outcome"] in outcomes, (name, said["outcome"], said["error"])
            assert said["outcome"] == "exited" or done.status != 0, (name, done.status)
            assert 0 <= done.status <= 255 and 0 <= said["isolation"]["landlock_abi"] < 256, (name, said["isolation"])
            assert len(said["denials"]) <= 1100 and len(done.stdout) < 16 << 20, (name, len(done.stdout))
            assert not [b for b in done.stdout + done.stderr if b < 0x20 and b not in b"\n"] and b"\xe2\x80\xae" not in done.stdout + done.stderr, (name, done.stderr[:300])
            assert said["outcome"] in ("exited", "signalled", "timeout") or said["error"]["what"], (name, said)
        (liar / "version").write_text("brig 9\x1b[2J\u202e" + "x" * 100000)
        done = brig("run", *remote, "--", "true")
        assert done.status == 125 and b"\x1b" not in done.stderr and len(done.stderr) < 4096 and "'box'" in done.errors, done.stderr[:300]


@test
def variables_of_the_command_do_not_steer_the_remote_brig():
    """Its state, its configuration, its own program and tools are those of the login; the command has what it was given."""
    evil = scratch() / "evil"
    evil.mkdir()
    version = brig("version").text.strip()
    for name in ("brig", "grep", "head", "sleep"):
        (evil / name).write_text(f"#!/bin/sh\n: > {evil}/{name}-ran\necho {version}\n")
        (evil / name).chmod(0o755)
    (evil / "brig.yaml").write_text("brig: 1\nnetwork: host\n")
    (evil / "config").mkdir()
    given = {"HOME": evil, "XDG_STATE_HOME": evil / "state", "XDG_CONFIG_HOME": evil, "XDG_RUNTIME_DIR": evil, "PATH": f"{evil}:/usr/bin:/bin",
             "BRIG_CONFIG": evil / "brig.yaml", "BRIG_AUDIT_DIR": evil / "audit", "BRIG_AUDIT_KEY": "0" * 64, "BASH_ENV": evil / "brig",
             "ENV": evil / "brig", "IFS": "0123456789abcdef", "TMPDIR": evil, "DOCKER_HOST": f"unix://{evil}/d", "LC_ALL": "C"}
    with sshd.Sshd() as host:
        remote = host.options("--set", "ssh.remote=brig", "--set", f"ssh.remote_cwd={workspace()}")
        options = [word for name, value in given.items() for word in ("--env", f"{name}={value}")]
        refusals = brig("run", *remote, "--json", *options, "--", "env").json
        if refusals["outcome"] != "exited":  # names that brig keeps for itself: those go, the rest stays
            options = [word for name, value in given.items() if not name.startswith(("BRIG", "XDG_RUNTIME")) for word in ("--env", f"{name}={value}")]
        said = brig("run", *remote, "--json", *options, "--", "/usr/bin/env").json
        assert (said["outcome"], said["exit_code"]) == ("exited", 0), said
        inside = dict(line.split("=", 1) for line in said["stdout"].splitlines() if "=" in line)
        assert inside["XDG_STATE_HOME"] == str(evil / "state") and inside["TMPDIR"] == str(evil), inside
        assert not [name for name in inside if name.startswith("_b")] and "BRIG_RUN" not in inside, inside
        assert said["isolation"]["user_ns"] and said["isolation"]["network"] == "none", said["isolation"]
        made = sorted(p.name for p in evil.iterdir())
        assert made == ["brig", "brig.yaml", "config", "grep", "head", "sleep"], made
        # Plain: the command alone has them, and its PATH is where it is looked for.
        plain = brig("run", *host.options("--json"), *options, "--", "sleep", "7").json
        assert plain["exit_code"] == 0 and plain["stdout"] == f"{version}\n", plain
        assert sorted(p.name for p in evil.iterdir() if p.name.endswith("-ran")) == ["sleep-ran"], list(evil.iterdir())


@test
def names_that_the_wrapper_goes_by_are_refused():
    for option, env in ((("--env", "_be=x"), {}), (("--env", "BRIG_RUN=x"), {}), (("--env-pass", "_bb"), {"_bb": "x"})):
        done = brig("run", "--backend", "ssh", "--set", "ssh.host=box", *option, "--", "true", env=env)
        assert done.status == 125 and "hint" in done.errors, (option, done.errors)


@test
def a_plan_is_an_argument_vector():
    said = brig("plan", "--backend", "ssh", "--set", "ssh.host=me@box", "--set", "ssh.identity_file=~/key",
                "--set", "ssh.connect_timeout=7s", "--set", "ssh.control_persist=1h30m", "--env", "A=it's", "--", "echo", "a b").json
    client = said["client"]
    assert client[0] == "ssh" and client[client.index("-i") + 1] == f"{home()}/key"
    for option in ("BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=7", "ControlPersist=5400", "ForwardAgent=no"):
        assert option in client, option
    assert said["argv"] == ["echo", "a b"] and said["host"] == "me@box"
    assert "export A='it'\\''s';" in said["script"] and "set -- 'echo' 'a b';" in said["script"]


if __name__ == "__main__":
    sys.exit(main())
