#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""2.6 of the attack corpus: IPC and neighbours."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import INSIDE, as_identity, held, holding, inside, mount, on_host, outside, program  # noqa: E402
from harness import brig, main, scratch, test, wait_until, workspace  # noqa: E402

POINTS = ("shm", "sem", "msg", "mq", "posix-shm", "tmp", "abstract", "tcp")


class Service:
    """A host service on a unix socket that counts who came."""

    def __init__(self, address, cwd=None, kind=socket.SOCK_STREAM):
        self.visits, here = 0, os.getcwd()
        self.socket = socket.socket(socket.AF_UNIX, kind)
        if cwd:
            os.chdir(cwd)
        self.socket.bind(address)
        os.chdir(here)
        if not address.startswith("\0") and not cwd:
            os.chmod(address, 0o777)
        elif cwd:
            os.chmod(pathlib.Path(cwd) / address, 0o777)
        self.stream = kind == socket.SOCK_STREAM
        if self.stream:
            self.socket.listen(16)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                if self.stream:
                    self.socket.accept()
                else:
                    self.socket.recv(16)
                self.visits += 1

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


@contextlib.contextmanager
def service(*args, **more):
    s = Service(*args, **more)
    try:
        yield s
    finally:
        s.close()


@test
def a068_abstract_sockets_of_the_host_are_out_of_reach():
    name = f"brig-escape-{os.getpid()}"
    with service("\0" + name) as s:
        outside("ipc", "connect", "@" + name).must_work()
        assert wait_until(lambda: s.visits), "the control proves nothing"
        visits = s.visits
        inside("ipc", "connect", "@" + name).must_fail("@" + name)
        assert s.visits == visits


@test
def a068_also_with_the_hosts_network():
    """The network namespace is shared then; Landlock scoping is what is left."""
    if brig("run", "--json", "--", "true").json["isolation"]["landlock_abi"] < 6:
        return  # documented: without scoping, --network host shares abstract sockets
    name = f"brig-escape-{os.getpid()}"
    with service("\0" + name) as s:
        inside("ipc", "connect", "@" + name, options=("--network", "host")).must_fail("@" + name)
        assert not s.visits


@test
def a069_listening_sockets_in_shown_trees_are_covered():
    (scratch() / "sub").mkdir()
    with service(str(workspace() / "s")) as one, service(str(scratch() / "sub/s")) as two, \
            service(str(workspace() / "d"), kind=socket.SOCK_DGRAM) as three:
        outside("ipc", "connect", workspace() / "s", scratch() / "sub/s", workspace() / "d").must_work(*map(str, (workspace() / "s", scratch() / "sub/s")))
        assert wait_until(lambda: one.visits and two.visits and three.visits), "the control proves nothing"
        before = one.visits, two.visits, three.visits
        for options in ((), ("--policy", "readonly")):
            inside("ipc", "connect", "/workspace/s", "/workspace/d", "/proc/self/cwd/s", "/proc/self/root/workspace/s", options=options).must_fail("/workspace/s")
        inside("ipc", "connect", f"{scratch()}/sub/s", options=("--read", scratch())).must_fail()
        inside("ipc", "connect", "/data/sub/s", options=("--mount", f"{scratch()}:/data")).must_fail()
        assert (one.visits, two.visits, three.visits) == before


@test
def a069_a_socket_shown_twice_is_covered_twice():
    with service(str(workspace() / "s")) as s:
        inside("ipc", "connect", "/workspace/s", "/data/s", options=("--mount", f"{workspace()}:/data")).must_fail("/workspace/s", "/data/s")
        assert not s.visits


@test
def a069_a_socket_bound_by_a_relative_name_is_covered_too():
    """/proc/net/unix lists the name as it was bound."""
    with service("s", cwd=workspace()) as s:
        outside("ipc", "connect", workspace() / "s").must_work()
        assert wait_until(lambda: s.visits)
        before = s.visits
        inside("ipc", "connect", "/workspace/s").must_fail("/workspace/s")
        assert s.visits == before, "the host's service was reached"


@test
def a069_sockets_of_the_system_and_the_session_are_absent():
    found = brig("run", "--", "find", "/", "-xdev", "-type", "s").text.split()
    assert not found, found
    for path in ("/run/dbus/system_bus_socket", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/snapd.socket",
                 "/tmp/.X11-unix", "/run/user", "/run/systemd", "/tmp/ssh-agent", "/run/systemd/journal/socket", "/dev/log", "/var/run/nscd/socket"):
        assert brig("run", "--", "test", "-e", path).status == 1, path
    with service("/tmp/agent.sock") as s:
        inside("ipc", "connect", "/tmp/agent.sock").must_fail()
        assert not s.visits
    os.unlink("/tmp/agent.sock")


@test(alone=True)
def a071_and_a072_meeting_points_of_the_host_are_not_the_sandboxs():
    p = subprocess.Popen(as_identity([program("ipc"), "offer", scratch(), "tidy"]), stdout=subprocess.PIPE)
    with holding(p, scratch()):
        outside("ipc", "seek").must_work("shm", "sem", "msg", "posix-shm", "tmp", "abstract", "tcp")
        inside("ipc", "seek").must_fail(*POINTS)


@test(alone=True)
def a072_and_a074_two_sandboxes_find_no_meeting_point():
    p_options = ("--workdir", scratch())
    before = pathlib.Path("/proc/sysvipc/shm").read_text()
    with held("run", *p_options, *mount("ipc"), "--", INSIDE, "offer", "/workspace", folder=scratch()):
        inside("ipc", "seek").must_fail(*POINTS)
        outside("ipc", "seek").must_fail(*POINTS)
    assert pathlib.Path("/proc/sysvipc/shm").read_text() == before
    inside("ipc", "seek").must_fail(*POINTS)
    left = [e for e in os.listdir("/dev/shm") + os.listdir("/tmp") if "brig-meeting" in e]
    assert not left


@test(by_root=True)
def a073_the_environment_is_an_allow_list():
    secret = "S3CRET-73"
    names = ["DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "SSH_AUTH_SOCK", "GPG_AGENT_INFO", "AWS_SECRET_ACCESS_KEY",
             "GITHUB_TOKEN", "CI_JOB_TOKEN", "KUBECONFIG", "DOCKER_HOST", "LD_PRELOAD_X", "BASH_ENV", "ENV", "PYTHONSTARTUP", "NODE_OPTIONS",
             "GIT_SSH_COMMAND", "PROMPT_COMMAND", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "XDG_RUNTIME_DIR_X", "SUDO_ASKPASS", "NPM_TOKEN", "X", "_", "OLDPWD"]
    env = dict.fromkeys(names, secret)
    assert secret.encode() in on_host("env", env={**os.environ, **env}).stdout
    with held("run", "--", "sh", "-c", "touch ready; while [ ! -e go ]; do sleep 0.02; done", env=env) as h:
        looked = 0
        for pid in h.pids():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the shell's sleep comes and goes
                data = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
                assert secret.encode() not in data, f"{pid}: {data}"
                looked += 1
        assert h.guests() and looked >= 2, looked
    allowed = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "BRIG_SANDBOX", "LANG", "TERM", "PWD", "TZ", "COLORTERM", "NO_COLOR", "SHLVL", "_", "OLDPWD",
               "npm_config_fetch_retries", "npm_config_update_notifier", "PIP_RETRIES", "CARGO_NET_RETRY", "YARN_HTTP_RETRY", "UV_HTTP_RETRIES", "BUNDLE_RETRY"}  # brig's own
    got = {line.split("=")[0] for line in brig("run", "--", "env", env=env).text.splitlines()}
    assert {n for n in got if not n.startswith("LC_")} <= allowed, got


@test
def a074_a_socket_made_inside_is_of_no_use_to_another_sandbox():
    """Each has its own tree; only a workspace that both were given is common, and that is the caller's wish."""
    script = ("import socket, time, pathlib\ns = socket.socket(socket.AF_UNIX)\ns.bind('/tmp/meet')\ns.listen(1)\n"
              "pathlib.Path('ready').touch()\nwhile not pathlib.Path('go').exists(): time.sleep(0.02)\n")
    with held("run", "--", "python3", "-c", script):
        inside("ipc", "connect", "/tmp/meet", options=("--workdir", scratch())).must_fail()


if __name__ == "__main__":
    sys.exit(main())
