# SPDX-License-Identifier: Apache-2.0
"""Messages between two ranks beside those of MPIs: half of the time of one each way."""
import functools

from peer_bars import KIB, MIB, Entry, best_of, column, ratio
from peer_table import Check, Row


class Messages:
    """Over one provider: `wring bench sendrecv`, and each MPI's MPI_Send and MPI_Recv."""
    sizes = (8, 4 * KIB, 64 * KIB, MIB, 4 * MIB)
    quick_sizes = (8, 4 * MIB)
    bars = ()  # (name, size, bound)

    def __init__(self, tools, arguments):
        self.tools, self.seconds = tools, arguments.seconds
        if arguments.quick:
            self.sizes = self.quick_sizes
        self.sides = {"wring": functools.partial(tools.sendrecv, self.provider, self.sizes,
                                                 self.seconds)}
        self.peers = {name: functools.partial(tools.mpi_messages, driver, self.provider,
                                              self.sizes, self.seconds)
                      for driver, name in self.drivers if driver in tools.launchers}

    def entries(self):
        for side, run in {**self.sides, **self.peers}.items():
            yield Entry(side, run, True)

    def rows(self, samples):
        for size in self.sizes:
            figures = {side: column(samples, side, size) for side in {**self.sides, **self.peers}}
            best = best_of(figures, self.peers)
            checks = [Check(name, ratio(best, figures["wring"]), bound)
                      for name, at, bound in self.bars if at == size]
            yield Row("message", size, "us", figures, checks)


class MappedMessages(Messages):
    name, provider = "messages", "shm"
    title = "Messages over shared memory, 2 ranks, half of a round trip, µs"
    note = "The peer is the better of the MPIs. The end of each message is new, and looked at."
    drivers = (("openmpi", "Open MPI"), ("mpich", "MPICH"))
    bars = (("8 B, shared memory", 8, 1 / 1.2),)


class LoopbackMessages(Messages):
    name, provider = "tcp-messages", "tcp"
    title = "Messages by TCP over loopback, 2 ranks, half of a round trip, µs"
    note = "The peer is Open MPI."
    drivers = (("openmpi", "Open MPI"),)
    bars = (("4 MiB, loopback", 4 * MIB, 0.9),)
