# SPDX-License-Identifier: Apache-2.0
"""torchrun, and its variables without it."""
import os


class TorchVariables:
    """RANK, WORLD_SIZE and what else those set who start ranks for torch's env:// themselves."""
    name, carries, hosts = "RANK and WORLD_SIZE", False, 2
    port = 29500

    def __init__(self, hosts, _folder):
        self.places = hosts

    def commands(self, ranks, hosts):
        self.port += 1
        per = ranks // hosts
        return [(self.places.prefixes[rank // per], [],
                 {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank % per),
                  "LOCAL_WORLD_SIZE": str(per), "MASTER_PORT": str(self.port),
                  "MASTER_ADDR": "hosta" if hosts > 1 else "localhost"})
                for rank in range(ranks)]


class Torchrun:
    """One torchrun for each host. It holds MASTER_PORT itself."""
    name, carries, hosts = "torchrun", False, 2
    port = 29600

    def __init__(self, hosts, folder):
        self.places = hosts
        self.program = os.path.join(folder, "torch", "bin", "torchrun")

    def typing(self):
        """The environment of a shell in which there is torchrun."""
        return {"PATH": self.places.bin_with("torchrun", self.program)}

    def commands(self, ranks, hosts):
        self.port += 1
        many = ["--nnodes", str(hosts), "--master-addr", "hosta", "--master-port", str(self.port)]
        return [(self.places.prefixes[host],
                 [self.program, *(many + ["--node-rank", str(host)] if hosts > 1 else
                                  ["--standalone"]),
                  "--nproc-per-node", str(ranks // hosts), "--no-python"], {})
                for host in range(hosts)]
