# SPDX-License-Identifier: Apache-2.0
"""srun of a Slurm that runs within the test: munged, slurmctld, and slurmd on both hosts.

All that they write lies in the test's folder. Their ports are those of the hosts' own networks, and
they are ended by their ids.
"""
import atexit
import os
import subprocess
import time

import hosts as machines

START_S = 250  # for hangs, not for slowness
CONFIGURATION = """\
ClusterName=wring
SlurmctldHost=hosta(10.99.0.1)
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
TmpFS={folder}/tmp-%n
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
SchedulerType=sched/builtin
KillWait=2
MessageTimeout=100
NodeName=hosta NodeAddr=10.99.0.1 CPUs=64
NodeName=hostb NodeAddr=10.99.0.2 CPUs=64
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
PROGRAMS = ("/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/bin/srun")


class Cluster:
    """Slurm on both hosts, until the test ends."""

    def __init__(self, places):
        for program in PROGRAMS:
            if not os.path.exists(program):
                machines.skip(f"no {program} (packages munge, slurmctld, slurmd and slurm-client)")
        self.folder = os.path.join(places.folder, "slurm")
        for name in (".", "state", "tmp-hosta", "tmp-hostb", "spool-hosta", "spool-hostb"):
            os.makedirs(os.path.join(self.folder, name), exist_ok=True)
        os.chmod(places.folder, 0o711)
        self.daemons = []
        atexit.register(self.end)
        self.start_munge()
        self.file = os.path.join(self.folder, "slurm.conf")
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(folder=self.folder))
        self.start(["/usr/sbin/slurmctld", "-D", "-f", self.file])
        for prefix in places.prefixes:
            self.start([*prefix, "/usr/sbin/slurmd", "-D", "-f", self.file])
        self.wait_for_nodes()

    def start(self, words):
        log = open(os.path.join(self.folder, "daemons.log"), "a", encoding="utf-8")
        with log:
            self.daemons.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log,
                                                 stderr=log))

    def end(self):
        machines.end(self.daemons)

    def start_munge(self):
        key = os.path.join(self.folder, "munge.key")
        with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(os.urandom(128))
        words = [f"--{name}={self.folder}/munge.{end}" for name, end in
                 (("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"),
                  ("log-file", "log"), ("seed-file", "seed"))]
        self.start(["/usr/sbin/munged", "--foreground", "--force", *words])
        self.wait(lambda: os.path.exists(f"{self.folder}/munge.socket"), "munged")

    def wait(self, condition, what):
        deadline = time.monotonic() + START_S
        while not condition():
            if time.monotonic() > deadline or any(one.poll() is not None for one in self.daemons):
                with open(os.path.join(self.folder, "daemons.log"), encoding="utf-8") as file:
                    said = file.read()
                reason = f"{what} does not start: {said[-2000:]}"
                if not self.is_true_root():
                    machines.skip(reason)
                raise SystemExit(reason)
            time.sleep(0.05)

    @staticmethod
    def is_true_root():
        """In a user namespace of one user Slurm's daemons may lack rights that they need."""
        with open("/proc/self/uid_map", encoding="ascii") as file:
            return file.read().split() == ["0", "0", "4294967295"]

    def wait_for_nodes(self):
        def idle():
            result = subprocess.run(["/usr/bin/sinfo", "-h", "-o", "%D %t"], text=True, check=False,
                                    env={**os.environ, "SLURM_CONF": self.file},
                                    stdin=subprocess.DEVNULL, capture_output=True)
            return result.stdout == "2 idle\n"
        self.wait(idle, "Slurm")


class Srun:
    hosts = 2

    def __init__(self, places, _folder):
        self.cluster = Cluster(places)

    def typing(self):
        """The environment of a shell whose srun asks this Slurm."""
        return {"SLURM_CONF": self.cluster.file}

    def options(self, ranks, hosts):
        return ["-w", ",".join(machines.NAMES[:hosts]), "-N", str(hosts), "-n", str(ranks),
                f"--ntasks-per-node={ranks // hosts}", "--quiet"]

    def commands(self, ranks, hosts):
        return [([], ["/usr/bin/srun", f"--mpi={self.mpi}", *self.options(ranks, hosts)],
                 {"SLURM_CONF": self.cluster.file, "SLURM_KILL_BAD_EXIT": "1"})]


class SrunNone(Srun):
    name, carries, mpi = "Slurm", False, "none"


class SrunPmi2(Srun):
    name, carries, mpi = "Slurm (PMI-2)", True, "pmi2"


class SrunPmix(Srun):
    name, carries, mpi = "Slurm (PMIx)", True, "pmix"
