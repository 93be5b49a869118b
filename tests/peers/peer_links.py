# SPDX-License-Identifier: Apache-2.0
"""What is compared between hosts on slow links, and what switching a codec on costs anywhere."""
import functools
import math
import operator
import statistics

import links
from peer_bars import KIB, MIB, Entry, Rotation, best_of, column, ratio
from peer_sides import by_codec, repeated
from peer_table import Check, Row

RANKS = 4
LONG = 4 * MIB  # from here on few calls are enough, as a slow link makes them long
LONG_CALLS = {"10g": "9", "1g": "3"}
SHORT_TURNS = "20"  # of each codec in a job
SIZE = 64 * MIB
SECONDS = "0.5"  # of each codec on links, or five calls
ALONE = "alone"  # in a key instead of bytes: SIZE without a cap
TURNS = 3  # of a codec with a cap and without
ONCE = ("none", "bf16")  # but of these, whose time is the link's


def run_hosts(tools, hosts, size, codecs, seconds, *more):
    """Full results by codec and bytes, of codecs that take turns."""
    calls = LONG_CALLS[hosts.link.name]
    how_long = (["--seconds", str(seconds), "--turns", SHORT_TURNS] if size < LONG else
                ["-i", calls, "--turns", calls])
    return by_codec(links.run_wring(hosts, tools.wring, ["-b", str(size), "-c", ",".join(codecs),
                                                         *how_long, *more]))


def run_links(tools, hosts, codecs):
    """The same of one size, long enough for a median to stand still."""
    return by_codec(links.run_wring(hosts, tools.wring, ["-b", str(SIZE), "-c", ",".join(codecs),
                                                         "--seconds", SECONDS]))


def run_both(tools, slow, fast, codecs):
    """
    Full results with a cap by (codec, SIZE), and without one by (codec, ALONE). A machine's memory
    may be half as fast for some seconds, so both take turns; the turn with the middle ratio counts.
    """
    results = {}
    for codec in codecs:
        turns = [[run_links(tools, hosts, [codec])[codec, SIZE] for hosts in (fast, slow)]
                 for _ in range(1 if codec in ONCE else TURNS)]
        turns.sort(key=lambda turn: operator.truediv(*times(turn)))
        results[codec, ALONE], results[codec, SIZE] = turns[len(turns) // 2]
    return results


def against_none(results, nones):
    """
    What each job of a codec took, of what none took in it: the median of its turns' ratios. Codecs
    take turns of milliseconds, so a machine that is slow for a while is so for both.
    @param results, nones  of the jobs: a result, and a list of results whose mean counts
    """
    return [statistics.median(us / statistics.mean(raw) for us, *raw in
                              zip(result["turns_us"], *(none["turns_us"] for none in both)))
            for result, both in zip(results, nones)]


def median_or_none(values):
    return statistics.median(values) if values else None


def times(results):
    return [result["time_us"]["median"] for result in results]


class Links:
    name, title = "links", f"{RANKS} hosts on slow links, allreduce of {SIZE // MIB} MiB, µs"
    note = ("Network namespaces, each with a link of its own both ways (tbf, MTU 1500). \"no cap\" "
            "is the same without it, in turns with it, of which the middle ratio counts. What is possible: for f32 a ring's bytes, for a codec those "
            "that it really sends, at the link's rate; frames take 4.4 % of it.")
    codecs = ["none", "bf16", "int8", "onebit", "onebit+ef", "topk:ratio=0.01"]
    gain_bars = {"bf16": 1.9, "int8": 3.5, "onebit": 12, "onebit+ef": 8, "topk:ratio=0.01": 12}
    fast_bars = {"none": 1.1, "int8": 2}
    gloo = {"1g": ["ring"], "10g": ["ring", "halving"]}

    def __init__(self, tools, arguments):
        self.tools, self.seconds = tools, arguments.seconds
        if arguments.quick:
            self.codecs = ["none", "int8", "onebit+ef"]
        self.hosts = {name: links.Hosts(RANKS, link) for name, link in links.LINKS.items()}

    def entries(self):
        yield Entry("wring 1g", functools.partial(run_both, self.tools, self.hosts["1g"],
                                                  self.hosts["none"], self.codecs))
        yield Entry("wring 10g", functools.partial(run_links, self.tools, self.hosts["10g"],
                                                   list(self.fast_bars)))
        for name, algorithms in self.gloo.items() if self.tools.gloo else ():
            for algorithm in algorithms:
                yield Entry(f"Gloo {algorithm} {name}", functools.partial(
                    self.tools.gloo_hosts, self.hosts[name], algorithm, [SIZE], self.seconds))

    def rows(self, samples):
        for codec in self.codecs:
            yield self.slow_row(samples, codec)
        for codec in self.fast_bars:
            yield self.fast_row(samples, codec)

    def figures(self, samples, name, codec):
        """Of each side, and wring's full results."""
        ours = column(samples, f"wring {name}", (codec, SIZE))
        theirs = {f"Gloo {algorithm}": column(samples, f"Gloo {algorithm} {name}", SIZE)
                  for algorithm in (self.gloo[name] if self.tools.gloo else [])}
        return {"wring": times(ours), **theirs}, ours

    def slow_row(self, samples, codec):
        figures, ours = self.figures(samples, "1g", codec)
        raw = times(column(samples, "wring 1g", ("none", SIZE)))
        alone = times(column(samples, "wring 1g", (codec, ALONE)))
        bounds = [links.bound_us(links.LINKS["1g"], result, RANKS) for result in ours]
        share = ratio(bounds, figures["wring"])
        if codec == "none":
            checks = [Check("1 Gbit/s: f32, of a ring's bound", share, 0.93)]
        else:
            checks = [Check("1 Gbit/s: a codec's time, of the greater of link and own time",
                            ratio(figures["wring"], list(map(max, bounds, alone))), 1.25, True)]
        if codec in self.gain_bars:
            checks.append(Check(f"1 Gbit/s: {codec} against own f32", ratio(raw, figures["wring"]),
                                self.gain_bars[codec]))
        return Row(f"1 Gbit/s {codec}", SIZE, "us", {**figures, "no cap": alone}, checks,
                   "the link", share)

    def fast_row(self, samples, codec):
        figures, ours = self.figures(samples, "10g", codec)
        bounds = [links.bound_us(links.LINKS["10g"], result, RANKS) for result in ours]
        best = best_of(figures, [side for side in figures if side != "wring"])
        return Row(f"10 Gbit/s {codec}", SIZE, "us",
                   {**figures, "no cap": times(column(samples, "wring 1g", (codec, ALONE)))},
                   [Check(f"10 Gbit/s: {codec} against Gloo", ratio(best, figures["wring"]),
                          self.fast_bars[codec])],
                   "the link", ratio(bounds, figures["wring"]))


class Switch:
    """A codec switched on must not make anything slower; on a slow link it must run."""
    name, title = "switch", "A codec switched on, µs"
    sizes = [4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB]
    codecs = ["int8", "onebit+ef", "topk:ratio=0.01+ef"]
    runs_from, runs_share = MIB, 0.75
    # none runs twice: what the same path differs by from itself, to which no bar applies
    runs = ((MIB, 9), (LONG, 3))  # jobs below these sizes, in each round: each decides anew
    runs_here = 3  # or more, where nothing holds a call back but the machine's moods
    turns_here = ((LONG, SHORT_TURNS), (math.inf, "10"))

    def __init__(self, tools, arguments):
        self.tools, self.seconds = tools, arguments.seconds / 2
        self.hosts = {name: links.Hosts(RANKS, links.LINKS[name]) for name in ("10g", "1g")}
        if arguments.quick:
            self.sizes = [4 * KIB, MIB, 16 * MIB]
        self.orders = {size: Rotation(["none", *self.codecs, "none"]) for size in self.sizes}
        self.more = ["--bypass", "auto"] if tools.has_bypass() else []
        self.note = ("Each codec's time beside that of none, in one job of one size in which all "
                     "take turns of milliseconds: the median of the turns' ratios, and of those of "
                     f"the jobs. Shm and loopback with 2 ranks, the links with {RANKS} hosts. None "
                     "runs twice, and the mean of both counts; the last column has the one beside "
                     "the other: what the measure gives where nothing differs. ")
        self.note += ("wring may bypass the codec (--bypass auto)." if self.more else
                      "This wring has no bypass: what is switched on runs.")

    def entries(self):
        for size in self.sizes:
            runs = next((count for below, count in self.runs if size < below), 1)
            for turn in range(max(runs, self.runs_here)):
                for provider in ("shm", "tcp"):
                    yield Entry(provider, functools.partial(self.run_here, provider, size), True)
                for name, hosts in self.hosts.items() if turn < runs else ():
                    yield Entry(name, functools.partial(self.run_hosts, hosts, size))

    def run_here(self, provider, size):
        turns = next(turns for below, turns in self.turns_here if size < below)
        return self.tools.allreduce(provider, 2, [size], self.seconds, "--turns", turns, "-c",
                                    ",".join(self.orders[size].next()), *self.more)

    def run_hosts(self, hosts, size):
        return run_hosts(self.tools, hosts, size, self.orders[size].next(), self.seconds,
                         *self.more)

    def rows(self, samples):
        for place in ("shm", "tcp", *self.hosts):
            for size in self.sizes:
                found = {codec: column(samples, place, (codec, size))
                         for codec in ("none", repeated("none"), *self.codecs)}
                nones = list(zip(found["none"], found[repeated("none")]))
                itself = against_none(found[repeated("none")], [none[:1] for none in nones])
                yield Row(place, size, "us",
                          {codec: times(results) for codec, results in found.items()},
                          [check for codec in self.codecs
                           for check in self.checks(place, size, found[codec], nones)],
                          "none beside itself", median_or_none(itself))

    def checks(self, place, size, results, nones):
        yield Check(f"{place}: time with a codec, of that without",
                    median_or_none(against_none(results, nones)), 1.05, True)
        if place == "1g" and size >= self.runs_from:
            sent = [result["wire_bytes"] * RANKS / (2 * (RANKS - 1) * size) for result in results]
            yield Check("1g: bytes sent with a codec, of those without", median_or_none(sent),
                        self.runs_share, True)
