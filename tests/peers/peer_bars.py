# SPDX-License-Identifier: Apache-2.0
"""What is compared on one machine, and the bars: codecs, shared memory, loopback.

A section says which programs take turns (entries), and makes rows with bars of what they gave.
A sample is what the runs of an entry gave, a dictionary each, in the order of the rounds.
"""
import collections
import functools
import itertools
import math
import statistics

from peer_table import Check, Row

KIB, MIB = 1 << 10, 1 << 20

# what takes turns: the column, a function without arguments that runs it, and whether runs during
# which the machine was disturbed are made again (peer_watch.py)
Entry = collections.namedtuple("Entry", "side run watched", defaults=[False])


def column(samples, side, key):
    return [run[key] for run in samples.get(side, []) if key in run]


class Rotation:
    """A list that begins with another one each time, as who comes first may fare worse."""

    def __init__(self, values):
        self.values, self.turns = list(values), itertools.count()

    def next(self):
        at = next(self.turns) % len(self.values)
        return self.values[at:] + self.values[:at]


def ratio(above, below):
    """The median of the rounds' ratios; None where a side has no figure."""
    pairs = list(zip(above, below))
    return statistics.median(a / b for a, b in pairs) if pairs else None


def best_of(figures, sides):
    """The figures of the fastest of these sides."""
    there = [figures[side] for side in sides if figures.get(side)]
    return min(there, key=statistics.median) if there else []


class Codecs:
    name, title = "codec", "Codecs, one thread, GB/s of f32"
    note = ("Beside a twin that reads and writes as many bytes, with the best store type, and "
            "beside memcpy of as many floats, in the same run.")
    specs = ["none", "lossless", "fp16", "bf16", "int8", "onebit", "topk:ratio=0.01", "fp16+ef",
             "bf16+ef", "int8+ef", "onebit+ef", "topk:ratio=0.01+ef"]
    twin_bars = {4 * MIB: 0.85, 16 * MIB: 0.9}
    encode_bars = {"onebit": 2.5, "fp16": 1.3, "bf16": 1.3, "int8": 1.6, "topk:ratio=0.01": 1.3,
                   "onebit+ef": 0.95}
    add_bars = {"fp16": 1.2, "bf16": 1.2, "int8": 1.2, "onebit": 1.2}

    def __init__(self, tools, arguments):
        self.tools, self.seconds = tools, arguments.seconds
        self.elems = [4 * MIB] if arguments.quick else [4 * MIB, 16 * MIB]

    def entries(self):
        for elems in self.elems:
            order = Rotation(self.specs)
            yield Entry(elems, lambda elems=elems, order=order: self.tools.codecs(
                order.next(), elems, self.seconds))

    def rows(self, samples):
        for elems in self.elems:
            for spec in self.specs:
                results = column(samples, elems, spec)
                yield self.row(elems, spec, "encode", results, self.encode_bars)
                yield self.row(elems, spec, "decode_add", results, self.add_bars)

    def row(self, elems, spec, what, results, copy_bars):
        def figures(field):
            return [result[field] for result in results]
        speed, limit = figures(f"{what}_gb_per_s"), figures(f"{what}_limit_gb_per_s")
        share = ratio(speed, limit)
        twin = f"{what}, {elems // MIB} Mi floats, against its twin"
        checks = [Check(twin, share, self.twin_bars[elems])]
        if elems == 4 * MIB and spec in copy_bars:
            checks.append(Check(f"{spec} {what}, 4 Mi floats, against memcpy",
                                ratio(speed, figures("memcpy_gb_per_s")), copy_bars[spec]))
        return Row(f"{spec} {what}", elems * 4, "gb_per_s",
                   {"wring": speed, "twin": limit, "memcpy": figures("memcpy_gb_per_s")}, checks,
                   "its twin", share)


class Against:
    """Allreduce of f32 beside that of peers, on this host."""
    foreign = "wring, malloc'ed"
    bars = ()  # (name, first size, last size, bound)
    foreign_bars = ()
    sizes, foreign_sizes = (), ()
    quick_sizes = (4 * KIB, MIB, 64 * MIB)

    def __init__(self, tools, arguments):
        self.tools, self.seconds = tools, arguments.seconds
        if arguments.quick:
            self.sizes = [size for size in self.sizes if size in self.quick_sizes]
            self.foreign_sizes = [size for size in self.foreign_sizes if size in self.quick_sizes]
        self.sides = {"wring": functools.partial(self.wring, self.sizes)}
        if self.foreign_sizes:
            self.sides[self.foreign] = functools.partial(self.wring, self.foreign_sizes,
                                                         "--foreign")
        self.peers = dict(self.find_peers())

    def wring(self, sizes, *more):
        results = self.tools.allreduce(self.provider, self.ranks, sizes, self.seconds, *more)
        return {size: result["time_us"]["median"] for (_, size), result in results.items()}

    def mpi(self, driver, name):
        if driver in self.tools.launchers:
            for side, apart in ((name, False), (f"{name}, apart", True)):
                yield side, functools.partial(self.tools.mpi, driver, self.provider, self.ranks,
                                              self.sizes, self.seconds, apart)

    def entries(self):
        for side, run in {**self.sides, **self.peers}.items():
            yield Entry(side, run, True)
        for side, run in self.limit_runs():
            yield Entry(side, run, True)

    def rows(self, samples):
        for size in self.sizes:
            figures = {side: column(samples, side, size)
                       for side in {**self.sides, **self.peers}}
            best = best_of(figures, self.peers)
            checks = list(self.checks(self.bars, size, best, figures["wring"]))
            if size in self.foreign_sizes:
                checks += self.checks(self.foreign_bars, size, best, figures[self.foreign])
            elif self.foreign_sizes:
                figures[self.foreign] = None
            yield Row("f32", size, "us", figures, checks, self.limit_name,
                      ratio(self.limit(samples, size), figures["wring"]))

    @staticmethod
    def checks(bars, size, best, ours):
        for name, first, last, bound in bars:
            if first <= size <= last:
                yield Check(name, ratio(best, ours), bound)


class SharedMemory(Against):
    name, provider, ranks = "shm", "shm", 2
    title = "Shared memory, 2 ranks, f32 allreduce, µs"
    note = ("The peer is the best column of the MPIs; \"apart\" has its result in memory of its "
            "own. What is possible: every rank's bytes read and written once by memcpy on all "
            "cores, and a cache line's way to the other core.")
    limit_name = "memcpy"
    sizes = [8, 512, 4 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 128 * MIB]
    foreign_sizes = [MIB, 4 * MIB, 16 * MIB, 64 * MIB, 128 * MIB]
    bars = (("8 B to 4 KiB", 8, 4 * KIB, 2), ("64 KiB to 64 MiB", 64 * KIB, 64 * MIB - 1, 2.5),
            ("64 MiB and up", 64 * MIB, math.inf, 4))
    foreign_bars = (("malloc'ed, 1 to 16 MiB", MIB, 16 * MIB, 1.2),
                    ("malloc'ed, 64 MiB and up", 64 * MIB, math.inf, 2))

    def find_peers(self):
        yield from self.mpi("openmpi", "Open MPI")
        yield from self.mpi("mpich", "MPICH")

    def limit_runs(self):
        yield "line", functools.partial(self.tools.limits, "line")
        yield "copy", functools.partial(self.tools.limits, "copy",
                                        min(self.ranks, self.tools.cores), *self.sizes)

    def limit(self, samples, size):
        """us; one for each round"""
        return [line + self.ranks * size / (copy * 1e3) for line, copy in
                zip(column(samples, "line", 0), column(samples, "copy", size))]


class Crowded(SharedMemory):
    name, ranks, foreign_sizes, foreign_bars = "shm4", 4, (), ()
    sizes = [8, 4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB]
    bars = (("all sizes", 8, math.inf, 4),)
    note = ("The peer is the best column of Open MPI; \"apart\" has its result in memory of its "
            "own. What is possible: a core given to another process and back, a cache line's way "
            "to the other core, and every rank's bytes read and written once by memcpy on all "
            "cores.")
    limit_name = "hand-overs and memcpy"

    def __init__(self, tools, arguments):
        super().__init__(tools, arguments)
        self.title = f"Shared memory, 4 ranks on {tools.cores} cores, f32 allreduce, µs"

    def limit_runs(self):
        yield from super().limit_runs()
        yield "handover", functools.partial(self.tools.limits, "handover", "yield")

    def limit(self, samples, size):
        """A rank that shares its core has to give it away and to get it back: docs/limits.md."""
        turns = 2 if self.ranks > self.tools.cores else 0
        return [us + turns * turn for us, turn in
                zip(super().limit(samples, size), column(samples, "handover", 0))]

    def find_peers(self):
        return self.mpi("openmpi", "Open MPI")


class Loopback(Against):
    name, provider, ranks = "tcp", "tcp", 2
    title = "TCP over loopback, 2 ranks, f32 allreduce, µs"
    note = ("The peer is the best column of Gloo and Open MPI. What is possible: two processes "
            "that only exchange as many bytes, over one connection, out of and into caches, in the "
            "better of two sizes of pieces.")
    limit_name = "bare sockets"
    sizes = [4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB]
    bars = (("4 KiB to 1 MiB", 4 * KIB, MIB, 1), ("64 MiB", 64 * MIB, 64 * MIB, 1.25))

    def find_peers(self):
        for algorithm in ("ring", "ring apart", "halving") if self.tools.gloo else ():
            yield f"Gloo {algorithm}", functools.partial(
                self.tools.gloo_loopback, algorithm, self.ranks, self.sizes, self.seconds)
        yield from self.mpi("openmpi", "Open MPI")

    def limit_runs(self):
        yield "sockets", functools.partial(self.tools.limits, "sockets", *self.sizes)

    def limit(self, samples, size):
        return column(samples, "sockets", size)
