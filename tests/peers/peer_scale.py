# SPDX-License-Identifier: Apache-2.0
"""Many more ranks than cores: sums of f32 beside Open MPI's."""
import functools
import itertools

from peer_bars import KIB, MIB, Entry, best_of, column, ratio
from peer_table import Check, Row


class Scale:
    """Each job of so many ranks in turn, by wring's buckets and calls, and by Open MPI."""
    name = "scale"
    title = "16 and 64 ranks on this host, f32 allreduce, µs"
    note = ("The peer is the better of Open MPI in place and apart. \"wring, calls\" has malloc'ed "
            "memory and no buckets.")
    jobs = ((16, "tcp"), (64, "tcp"), (64, "shm"))
    sizes = (4 * KIB, 64 * KIB, MIB)
    quick_sizes = (4 * KIB, MIB)
    bars = {(16, "tcp", 4 * KIB): 1.5, (16, "tcp", MIB): 1.5, (64, "tcp", 4 * KIB): 1.3,
            (64, "tcp", MIB): 1.3}
    peers = ("Open MPI", "Open MPI, apart")

    def __init__(self, tools, arguments):
        self.tools, self.seconds = tools, arguments.seconds
        if arguments.quick:
            self.sizes = self.quick_sizes

    def wring(self, ranks, provider, *more):
        results = self.tools.allreduce(provider, ranks, self.sizes, self.seconds, *more)
        return {size: result["time_us"]["median"] for (_, size), result in results.items()}

    def sides(self, ranks, provider):
        yield "wring", functools.partial(self.wring, ranks, provider)
        yield "wring, calls", functools.partial(self.wring, ranks, provider, "--foreign")
        if "openmpi" in self.tools.launchers:
            for side, apart in zip(self.peers, (False, True)):
                yield side, functools.partial(self.tools.mpi, "openmpi", provider, ranks,
                                              self.sizes, self.seconds, apart)

    def entries(self):
        """With so many ranks the machine is never undisturbed: no run is made again."""
        for ranks, provider in self.jobs:
            for side, run in self.sides(ranks, provider):
                yield Entry((ranks, provider, side), run)

    def rows(self, samples):
        for (ranks, provider), size in itertools.product(self.jobs, self.sizes):
            figures = {side: column(samples, (ranks, provider, side), size)
                       for side, _ in self.sides(ranks, provider)}
            best = best_of(figures, self.peers)
            job, bound = f"{ranks} ranks, {provider}", self.bars.get((ranks, provider, size))
            checks = [Check(job, ratio(best, figures["wring"]), bound)] if bound else []
            yield Row(job, size, "us", figures, checks)
