# SPDX-License-Identifier: Apache-2.0
"""A rig starts the ranks of a job by one launcher. Its members:

name      what wring info calls the launcher
carries   the launcher's own exchange carries the job's key
hosts     how many hosts it can start ranks on
commands(ranks, hosts)   the processes that start a job, each as (prefix, words, environment)
"""
import os
import subprocess
import tempfile
import time

PATIENCE = 250  # seconds: for hangs, not for slowness
FOREIGN = ("WRING_", "OMPI_", "OPAL_", "PMI_", "PMIX_", "PRTE_", "SLURM_", "SRUN_", "HYDRA_",
           "TORCHELASTIC_", "MPI_LOCAL", "MASTER_")
ALONE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


def bare_environment(**extra):
    """The caller's environment without any launcher's variables."""
    bare = {name: value for name, value in os.environ.items()
            if not name.startswith(FOREIGN) and name not in ALONE}
    bare["HWLOC_COMPONENTS"] = "-pci"  # libpciaccess never frees its names, which sanitizers report
    return {**bare, **extra}


class Job:
    """The processes of a job; what they print is kept in files, so that no pipe fills."""

    def __init__(self, commands, program, **variables):
        self.processes, self.files = [], []
        for prefix, words, extra in commands:
            out, err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
            self.processes.append(subprocess.Popen(
                [*prefix, *words, *program], env=bare_environment(**{**extra, **variables}),
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True))
            self.files.append((out, err))

    def said(self, which):
        """All that was printed so far. @param which  0: standard output, 1: standard error"""
        parts = []
        for pair in self.files:
            with open(f"/proc/self/fd/{pair[which].fileno()}", encoding="utf-8",
                      errors="replace") as file:
                parts.append(file.read())
        return "".join(parts)

    def finish(self, seconds=PATIENCE):
        """@return (exit status, standard output, standard error); the job is over"""
        deadline, statuses = time.monotonic() + seconds, []
        for process in self.processes:
            try:
                statuses.append(process.wait(max(0.1, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                statuses.append("did not end")
        failed = [status for status in statuses if status != 0]
        said = self.said(0), self.said(1)
        for pair in self.files:
            for file in pair:
                file.close()
        return failed[0] if failed else 0, *said


class OwnVariables:
    """People who set WRING_RANK and the others themselves."""
    name, carries, hosts = "WRING_RANK and WRING_SIZE", False, 2
    port = 7000

    def __init__(self, hosts, _folder):
        self.places = hosts

    def commands(self, ranks, hosts):
        self.port += 1
        return [(self.places.prefixes[rank * hosts // ranks], [],
                 {"WRING_RANK": str(rank), "WRING_SIZE": str(ranks),
                  "WRING_ROOT": f"10.99.0.1:{self.port}" if hosts > 1 else
                                f"127.0.0.1:{self.port}"}) for rank in range(ranks)]


class WringRun:
    """wring run, which stays on one host."""
    name, carries, hosts = "WRING_RANK and WRING_SIZE", True, 1

    def __init__(self, hosts, _folder):
        self.tool = hosts.program

    def commands(self, ranks, _hosts):
        return [([], [self.tool, "run", "-n", str(ranks), "--"], {})]
