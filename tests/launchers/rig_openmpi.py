# SPDX-License-Identifier: Apache-2.0
"""mpirun of Open MPI 4 (Debian's) and 5 (PyPI's, whose runtime is PRRTE)."""
import os

AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class OpenMpi4:
    name, carries, hosts = "Open MPI", True, 2
    agent_option = ("--mca", "plm_rsh_agent")

    def __init__(self, hosts, folder):
        self.places = hosts
        self.program = self.find(folder)

    @staticmethod
    def find(_folder):
        return "/usr/bin/mpirun.openmpi"

    def typing(self):
        """The environment of a shell in which `mpirun` is this one."""
        return {**AS_ROOT, "PATH": self.places.bin_with("mpirun", self.program),
                "OMPI_MCA_plm_rsh_agent": self.places.agent,
                "PRTE_MCA_plm_ssh_agent": self.places.agent}

    def commands(self, ranks, hosts):
        slots = ",".join(f"{name}:{ranks // hosts}" for name in ("hosta", "hostb")[:hosts])
        return [([], [self.program, "--host", slots, *self.agent_option, self.places.agent,
                      "--bind-to", "none", "-n", str(ranks)], AS_ROOT)]


class OpenMpi5(OpenMpi4):
    agent_option = ("--prtemca", "plm_ssh_agent")

    @staticmethod
    def find(folder):
        return os.path.join(folder, "openmpi", "bin", "mpirun")
