# SPDX-License-Identifier: Apache-2.0
"""The backends that conformance knows: how to ask for each, and what has to run for it."""

import contextlib
import dataclasses
import os
import pathlib
import shutil
import signal
import sys
import typing

import engine
import sshd
from harness import brig, brig_path, descendants, files_as_root, identity, scratch, uid, wait_until, workspace


@dataclasses.dataclass
class Backend:
    name: str
    options: typing.Callable  # of the fixture and the request: arguments for brig
    fixture: typing.Callable = contextlib.nullcontext  # a context manager: what runs meanwhile
    host_paths: bool = False  # the command sees the host's own names
    env: typing.Callable = lambda _: {}  # of the fixture: variables for brig
    who: tuple = ("root", "user")  # started by
    short: tuple = ()  # of these: only the requests of the short list are asked
    may_refuse: typing.Callable = lambda: ()  # names of requests that this machine has no means for
    stop: typing.Callable = None  # of the fixture: what it needs dies
    again: typing.Callable = lambda fixture: fixture.start()  # ... and is there again
    began: typing.Callable = None  # of the fixture and a word of the command: does it run? Where its workspace is not seen meanwhile
    kind: str = ""  # what the table calls it, if that is not its name

    def __post_init__(self):
        self.kind = self.kind or self.name

    def ready(self, fixture, request):
        """Whether this build has it at all; anything else that is wrong with it is a failure."""
        said = brig("run", *self.options(fixture, request), "--json", "--", "true", env=self.env(fixture)).json
        return not (said["error"] and "not in this version" in said["error"]["what"])


HOST = ["--backend", "none", "--i-know-this-is-not-a-sandbox"]


def cwd():
    return ["--set", f"ssh.remote_cwd={workspace()}"]


def in_image(_, request):
    """Only some need Python, and an engine that copies an image for every run takes its time."""
    return ["--backend", "docker", "--image", engine.PYTHON_IMAGE if request.python else engine.IMAGE]


@contextlib.contextmanager
def settled():
    """Root's command is user 1000 in a container."""
    if identity() == "root":
        os.chown(workspace(), 1000, 1000)
    yield
    # brig does not wait for the engine to forget a container; its guard does.
    assert wait_until(lambda: not any(name.startswith("brig") for name in descendants().values()), 15)
    if identity() == "root":
        os.chown(workspace(), 0, 0)


@contextlib.contextmanager
def an_engine(make, python=True):
    """A private one, whose images have busybox, and Python if asked for. Its folder's name is nobody else's: by it the end finds what is left."""
    with files_as_root():
        e = make()
    try:
        with files_as_root():
            e.__enter__()
            e.import_image(engine.busybox_tar())
            if python:
                e.import_image(engine.python_tar(), engine.PYTHON_IMAGE)
        with settled():
            yield e
    finally:
        with files_as_root():
            e.stop()
            shutil.rmtree(e.folder, ignore_errors=True)


def dockerd():
    return an_engine(lambda: engine.Dockerd(f"/tmp/e{os.getpid()}"))


def podman():
    return an_engine(lambda: engine.Podman(f"/tmp/p{os.getpid()}", 0 if identity() == "root" else engine.ORDINARY))


def kill_engine(e):
    if isinstance(e, engine.Dockerd):
        e.stop_daemon(signal.SIGKILL)
    else:
        e.kill_service()


def kill_sshd(host):
    host.process.kill()
    for pid in host.sessions():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    host.process.wait()


def rootless_limits():
    """Control groups are root's unless somebody hands a part of them over, which v1 does not know."""
    return () if identity() == "root" else ("memory", "pids")


def docker_host(e):
    return {"DOCKER_HOST": e.host}


# Neighbours with the same fixture share it.
BACKENDS = [
    Backend("native", lambda *_: ["--backend", "native"]),
    Backend("bwrap", lambda *_: ["--backend", "bwrap"]),
    Backend("none", lambda *_: HOST, host_paths=True),
    Backend("ssh", lambda host, _: host.options(*cwd()), lambda: sshd.Sshd(), host_paths=True, stop=kill_sshd),
    Backend("ssh-brig", lambda host, _: host.options(*cwd(), "--set", "ssh.remote=brig"), lambda: sshd.Sshd(), stop=kill_sshd),
]
CLUSTER = bool(os.environ.get("BRIG_CLUSTER"))  # make test-cluster


def a_cluster():
    return slurm.for_test(scratch(), uid(), files_as_root)


@contextlib.contextmanager
def kubernetes():
    """One that runs already where BRIG_KUBE names its folder, as for tests/cluster."""
    there = os.environ.get("BRIG_KUBE")
    with files_as_root():
        c = kube_cluster.Cluster.running(there) if there else kube_cluster.Cluster(scratch() / "cluster").__enter__()
    try:
        with files_as_root():
            c.load(engine.busybox_tar(), engine.IMAGE)
            c.load(engine.python_tar(), engine.PYTHON_IMAGE)
            c.load_helper(brig_path().parent)
            c.mine = scratch() / "kubeconfig"
            shutil.copy(c.deploy(), c.mine)
            c.mine.chmod(0o600)
            os.chown(c.mine, uid(), uid())
        yield c
    finally:
        with files_as_root():
            c.mine.unlink(missing_ok=True)
            if not there:
                c.__exit__(None, None, None)


def runs_in_a_pod(c, word):
    """The node is asked, behind the API server's back."""
    with files_as_root():
        return bool(c.nodes[0].pods_with("main", word))


def stop_cluster(c):
    with files_as_root(), c.without("control", "kube-apiserver"):
        pass


def in_pod(_, request):
    return ["--backend", "kubernetes", "--image", engine.PYTHON_IMAGE if request.python else engine.IMAGE,
            "--set", f"kubernetes.helper_image={kube_cluster.HELPER_IMAGE}"]


if CLUSTER:
    sys.path.append(str(pathlib.Path(__file__).parents[1] / "cluster"))
    import kube_cluster
    import slurm
    BACKENDS += [Backend("slurm", lambda *_: ["--backend", "slurm", "--set", f"slurm.brig={brig_path()}"], a_cluster, env=lambda s: s.env,
                         stop=lambda s: s.kill_steps(), again=lambda s: None),
                 Backend("kubernetes", in_pod, kubernetes, env=lambda c: {"KUBECONFIG": str(c.mine)}, began=runs_in_a_pod, stop=stop_cluster,
                         again=lambda c: wait_until(c.ready, 120))]
ENGINES = os.geteuid() == 0
if ENGINES:
    BACKENDS += [
        # Its second kernel takes a second or two to start; root has the whole table on docker instead.
        # The limit on processes counts the threads that kernel is made of: with a small one it cannot start.
        Backend("runsc", lambda *a: [*in_image(*a), "--runtime", "runsc"], dockerd, env=docker_host, who=("user",), short=("user",),
                may_refuse=lambda: ("pids",), kind="docker"),
        Backend("docker", in_image, dockerd, env=docker_host, short=("user",), stop=kill_engine),
        Backend("podman", in_image, podman, env=docker_host, short=("root", "user"), may_refuse=rootless_limits, stop=kill_engine,
                kind="docker"),
    ]
