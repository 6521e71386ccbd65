# SPDX-License-Identifier: Apache-2.0
"""A Slurm of our own: a controller and two nodes, in namespaces that end with it.

    with Slurm() as s:
        s.run("srun", "true")

Everything is in one pid, mount and network namespace: killing its first process ends all of it, and nothing of
it is left but a folder, which goes with it. The address is on a loopback of its own. The nodes share this machine's files, as nodes
of a cluster share a file system. By hand: python3 tests/cluster/slurm.py COMMAND..."""

import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ADDRESS = "10.9.9.1"
NODES = ("n1", "n2")
CONFIG = """
ClusterName=brig
SlurmctldHost=ctl({address})
SlurmctldPort=6817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
CryptoType=crypto/munge
StateSaveLocation={folder}/ctld
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=30
KillWait=5
InactiveLimit=0
MinJobAge=300
MaxArraySize={arrays}
MaxJobCount=20000
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_min_interval=10000,default_queue_depth=1000,bf_interval=5
{gather}
{accounting}
{gres}
NodeName=n1 NodeHostname=ctl NodeAddr={address} Port=17001 CPUs={cpus} RealMemory=16000{n1} State=UNKNOWN
NodeName=n2 NodeHostname=ctl NodeAddr={address} Port=17002 CPUs={cpus} RealMemory=16000{n2} State=UNKNOWN
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP DefMemPerCPU=256
PartitionName=first Nodes=n1 MaxTime=INFINITE State=UP DefMemPerCPU=256
PartitionName=second Nodes=n2 MaxTime=INFINITE State=UP DefMemPerCPU=256
PartitionName=small Nodes=n1,n2 MaxTime=1 State=UP DefMemPerCPU=256 MaxMemPerNode=300 MaxCPUsPerNode=1
"""

DBD_CONFIG = """
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
DbdHost=ctl
DbdAddr={address}
DbdPort=6819
SlurmUser=root
PidFile={folder}/dbd.pid
LogFile={folder}/dbd.log
StorageType=accounting_storage/mysql
StorageHost={address}
StoragePort=3306
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
"""


@contextlib.contextmanager
def named_user(folder, uid):
    """In a mount namespace of one's own: Slurm runs nothing for a user without a name."""
    lines = pathlib.Path("/etc/passwd").read_text()
    if f":{uid}:" in lines:
        yield
        return
    changed = pathlib.Path(folder, "passwd")
    changed.write_text(f"{lines}someone:x:{uid}:{uid}::/nonexistent:/bin/sh\n")
    changed.chmod(0o644)
    subprocess.run(["mount", "--bind", changed, "/etc/passwd"], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", "/etc/passwd"], check=True)


@contextlib.contextmanager
def for_test(folder, uid, as_root, **more):
    """For one test: Slurm is there, this process is where it listens, and it knows the user. as_root: a context that files are made in."""
    with contextlib.ExitStack() as stack:
        with as_root():
            stack.enter_context(named_user(folder, uid))
            s = Slurm(**more)
            try:
                s.start()
            except BaseException:
                s.stop()
                raise
        try:
            s.join()
            yield s
        finally:
            with as_root():
                s.stop()
                stack.close()


def available():
    return all(shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") for name in ("slurmctld", "slurmd", "munged", "srun"))


def can_account():
    return all(shutil.which(name, path="/usr/sbin:/usr/bin") for name in ("slurmdbd", "mariadbd", "mariadb-install-db", "sacctmgr"))


def wait_until(what, seconds, step=0.05):
    until = time.monotonic() + seconds
    while not (got := what()) and time.monotonic() < until:
        time.sleep(step)
    return got


class Slurm:
    """bind: per node, what is shown in place of what in its mount namespace: {"n2": [("/dev/null", "/usr/bin/brig")]}
    kills: Slurm ends what takes more memory than it has asked for. accounting: it remembers jobs.
    gpus: how many a node has, as /dev/nvidia0 and so on, which must be there: {"n1": 2}"""

    def __init__(self, arrays=1001, cpus=16, bind=None, kills=False, accounting=False, gpus=None):
        self.bind = bind or {}
        gather = "JobAcctGatherType=jobacct_gather/linux\nJobAcctGatherFrequency=task=1\nJobAcctGatherParams=OverMemoryKill" if kills else "JobAcctGatherType=jobacct_gather/none"
        self.accounting = accounting
        storage = f"AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost={ADDRESS}\nAccountingStoragePass={{folder}}/munge/socket" if accounting else "AccountingStorageType=accounting_storage/none"
        self.gpus = gpus or {}
        gres = {name: f" Gres=gpu:{self.gpus[name]}" if name in self.gpus else "" for name in NODES}
        self.values = {"arrays": arrays, "cpus": cpus, "gather": gather, "accounting": storage, "gres": "GresTypes=gpu" if gpus else "", **gres}
        self.keeper = None

    # ---- commands in there ----

    def enter(self, *more):
        return ["nsenter", "--target", str(self.init), "--net", "--mount", "--pid", "--uts", *more]

    @property
    def env(self):
        return {"SLURM_CONF": f"{self.folder}/slurm.conf"}

    def argv(self, *argv, uid=None):
        who = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []
        return [*self.enter(*who), *argv]

    def run(self, *argv, uid=None, env=None, **more):
        more.setdefault("capture_output", True)
        more.setdefault("timeout", 120)
        return subprocess.run(self.argv(*argv, uid=uid), env={**os.environ, **self.env, **(env or {})}, **more)

    def popen(self, *argv, uid=None, env=None, **more):
        return subprocess.Popen(self.argv(*argv, uid=uid), env={**os.environ, **self.env, **(env or {})}, **more)

    def queue(self):
        """Ids of jobs that are not over."""
        return self.run("squeue", "-h", "-r", "-o", "%i").stdout.decode().split()

    # ---- its processes ----

    def daemon(self, name, *argv, prefix=()):
        log = open(f"{self.folder}/{name}.out", "ab")
        p = subprocess.Popen([*self.enter(*prefix), *argv], env={**os.environ, **self.env, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
                             stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        log.close()
        self.daemons[name] = p
        return p

    def start_accounting(self):
        """A database of its own, and slurmdbd in front of it: what sacct asks."""
        data, allow = pathlib.Path(self.folder, "db"), pathlib.Path(self.folder, "db.sql")
        subprocess.run(["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db"],
                       check=True, capture_output=True, timeout=120)
        allow.write_text("CREATE USER IF NOT EXISTS slurm@'%' IDENTIFIED BY 'slurm';\nGRANT ALL ON *.* TO slurm@'%';\n")
        config = pathlib.Path(self.folder, "slurmdbd.conf")
        config.touch(0o600)
        config.write_text(DBD_CONFIG.format(address=ADDRESS, folder=self.folder))
        self.daemon("db", "mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={self.folder}/db.sock", f"--pid-file={self.folder}/db.pid",
                    f"--bind-address={ADDRESS}", "--port=3306", "--skip-name-resolve", f"--init-file={allow}", "--innodb-buffer-pool-size=64M")
        assert wait_until(lambda: os.path.exists(f"{self.folder}/db.sock"), 60), "no database"
        self.daemon("dbd", "slurmdbd", "-D")
        assert wait_until(lambda: self.run("sacctmgr", "-n", "show", "cluster").returncode == 0, 60, 0.5), pathlib.Path(f"{self.folder}/dbd.log").read_text()[-2000:]
        self.run("sacctmgr", "-i", "add", "cluster", "brig")

    def start_controller(self, *more):
        self.daemon("ctld", "slurmctld", "-D", *more)

    def start_node(self, name):
        binds = " && ".join(f"mount --bind {shutil.which('true') if a is None else a} {b}" for a, b in self.bind.get(name, []))
        shell = f"{binds + ' && ' if binds else ''}exec slurmd -D -N {name}"
        self.daemon(name, "unshare", "--mount", "sh", "-c", shell)

    def pid_of(self, name):
        """Of a daemon, as this namespace sees it: the one that nsenter has started."""
        p = self.daemons[name]
        kids = pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split()
        return int(kids[0]) if kids else p.pid

    def kill(self, name, sig=signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid_of(name), sig)
        self.daemons[name].wait(30)

    def idle(self):
        said = dict(line.split() for line in self.run("sinfo", "-h", "-N", "-o", "%N %t").stdout.decode().splitlines())
        return len(said) == len(NODES) and set(said.values()) <= {"idle", "mix"}

    def start(self):
        self.folder = tempfile.mkdtemp(prefix="slurm-test-", dir="/var/tmp")
        os.chmod(self.folder, 0o755)
        for name in ("ctld", "munge", *NODES):
            os.mkdir(f"{self.folder}/{name}", 0o755)
        key = pathlib.Path(f"{self.folder}/munge.key")
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        config = pathlib.Path(f"{self.folder}/slurm.conf")
        config.write_text(CONFIG.format(address=ADDRESS, folder=self.folder, **{k: v.format(folder=self.folder) if isinstance(v, str) else v for k, v in self.values.items()}))
        if self.gpus:
            pathlib.Path(f"{self.folder}/gres.conf").write_text("".join(f"NodeName={name} Name=gpu File=/dev/nvidia[0-{count - 1}]\n" for name, count in self.gpus.items()))
        self.daemons = {}
        up = (f"ip link set lo up && ip address add {ADDRESS}/32 dev lo && hostname ctl && echo up && exec sleep infinity")
        self.keeper = subprocess.Popen(["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", up],
                                       stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True)
        assert self.keeper.stdout.readline() == b"up\n"
        self.init = int(pathlib.Path(f"/proc/{self.keeper.pid}/task/{self.keeper.pid}/children").read_text().split()[0])
        m = f"{self.folder}/munge"
        self.daemon("munge", "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={m}/socket",
                    f"--pid-file={m}/pid", f"--log-file={m}/log", f"--seed-file={m}/seed", "--num-threads=2")
        assert wait_until(lambda: os.path.exists(f"{m}/socket"), 20), "munged did not start"
        if self.accounting:
            self.start_accounting()
        self.start_controller("-c")
        for name in NODES:
            self.start_node(name)
        assert wait_until(self.idle, 60), pathlib.Path(f"{self.folder}/ctld.log").read_text()[-2000:]
        return self

    def stop(self):
        if self.keeper:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.init, signal.SIGKILL)
            self.keeper.wait()
            for p in self.daemons.values():
                p.wait(30)
            self.keeper.stdout.close()
            self.keeper = None
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- for tests, which are processes of their own ----

    def join(self):
        """This process, and all it starts from now on, is where Slurm listens. Its user has a name there."""
        libc = ctypes.CDLL(None, use_errno=True)
        for path in (f"/proc/{self.init}/ns/net",):
            fd = os.open(path, os.O_RDONLY)
            if libc.setns(fd, 0) != 0:
                raise OSError(ctypes.get_errno(), path)
            os.close(fd)

    def steps(self):
        """Processes of Slurm that have a run's streams, as this namespace sees them."""
        return [pid for pid, name in self.inside() if name.startswith("slurmstepd")]

    def inside(self):
        own = os.readlink(f"/proc/{self.init}/ns/pid")
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                # What the first process there inherits it never waits for: a zombie is gone.
                if os.readlink(f"/proc/{pid}/ns/pid") == own and pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                    found.append((int(pid), pathlib.Path(f"/proc/{pid}/comm").read_text().strip()))
        return found

    def kill_steps(self):
        for pid in self.steps():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_):
        self.stop()


if __name__ == "__main__":
    with Slurm() as slurm:
        sys.exit(slurm.run(*(sys.argv[1:] or ["sinfo"]), capture_output=False, timeout=None).returncode)
