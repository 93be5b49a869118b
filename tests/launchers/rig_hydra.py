# SPDX-License-Identifier: Apache-2.0
"""mpiexec of MPICH 4 (Debian's) and 5 (PyPI's): Hydra."""
import os


class Hydra4:
    name, carries, hosts = "Hydra (PMI-1)", True, 2

    def __init__(self, hosts, folder):
        self.places = hosts
        self.program = self.find(folder)

    @staticmethod
    def find(_folder):
        return "/usr/bin/mpiexec.hydra"

    def typing(self):
        """The environment of a shell in which `mpiexec` is this one."""
        return {"PATH": self.places.bin_with("mpiexec", self.program), "HYDRA_LAUNCHER": "ssh",
                "HYDRA_LAUNCHER_EXEC": self.places.agent}

    def commands(self, ranks, hosts):
        return [([], [self.program, "-hosts", ",".join(("hosta", "hostb")[:hosts]),
                      "-ppn", str(ranks // hosts), "-launcher", "ssh",
                      "-launcher-exec", self.places.agent, "-n", str(ranks)], {})]


class Hydra5(Hydra4):
    @staticmethod
    def find(folder):
        return os.path.join(folder, "mpich", "bin", "mpiexec")
