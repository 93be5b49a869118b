# SPDX-License-Identifier: Apache-2.0
"""MPI_Allreduce of one program on its MPI, and on wring by libwring_mpi.so."""
import functools
import math

from peer_bars import KIB, MIB, Against, best_of, column, ratio
from peer_table import Row


class Interposed(Against):
    """The program and its memory are the same: malloc'ed, the result apart."""
    stock = "Open MPI"
    name, provider, ranks = "mpi", "shm", 2
    title = "MPI_Allreduce of f32 with libwring_mpi.so, shared memory, 2 ranks, µs"
    note = ("The same program in turns, with LD_PRELOAD=libwring_mpi.so and without. Its memory is "
            "malloc'ed, its result apart.")
    sizes = [8, 512, 4 * KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 128 * MIB]
    bars = (("8 B", 8, 8, 1 / 1.1), ("4 KiB", 4 * KIB, 4 * KIB, 1.5),
            ("1 to 16 MiB", MIB, 16 * MIB, 1.5), ("64 MiB and up", 64 * MIB, math.inf, 2.5))

    def __init__(self, tools, arguments):
        super().__init__(tools, arguments)
        self.sides = {"wring": functools.partial(self.run, True)}

    def run(self, preloaded):
        return self.tools.mpi("openmpi", self.provider, self.ranks, self.sizes, self.seconds, True,
                              preloaded)

    def find_peers(self):
        if "openmpi" in self.tools.launchers:
            yield self.stock, functools.partial(self.run, False)

    @staticmethod
    def limit_runs():
        return []

    def rows(self, samples):
        for size in self.sizes:
            figures = {side: column(samples, side, size) for side in (*self.sides, *self.peers)}
            best = best_of(figures, self.peers)
            figures["times as fast"] = [ratio([theirs], [ours])
                                        for theirs, ours in zip(best, figures["wring"])]
            yield Row("MPI_Allreduce", size, "us", figures,
                      list(self.checks(self.bars, size, best, figures["wring"])))


class InterposedCrowded(Interposed):
    name, ranks = "mpi4", 4
    sizes = [8, 4 * KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB]
    bars = (("1 to 4 MiB", MIB, 4 * MIB, 1), ("16 MiB", 16 * MIB, 16 * MIB, 1.2),
            ("64 MiB and up", 64 * MIB, math.inf, 2))

    def __init__(self, tools, arguments):
        super().__init__(tools, arguments)
        self.title = (f"MPI_Allreduce of f32 with libwring_mpi.so, shared memory, 4 ranks on "
                      f"{tools.cores} cores, µs")


class InterposedLoopback(Interposed):
    name, provider = "mpi-tcp", "tcp"
    title = "MPI_Allreduce of f32 with libwring_mpi.so, TCP over loopback, 2 ranks, µs"
    sizes = [4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB]
    bars = (("64 MiB", 64 * MIB, 64 * MIB, 2),)
