# SPDX-License-Identifier: Apache-2.0
"""Whether a virtual machine was itself while something ran, told by what did not run there.

A host may take cores away, and may move them apart: then a cache line takes several times as long
between them, and so does everything that goes from rank to rank. Memory, too, has minutes of other
speed, by what other guests do. Runs during which that happened are made again, whosever they are.
"""
import contextlib
import dataclasses
import os
import threading
import time

from peer_sides import run_limits

TRIES = 4
REPEATS = 8  # of all runs of a section, unless said otherwise
STOLEN = 0.04  # share of the processors' time
FAR = 1.7  # times the shortest way of a cache line that was seen
FAR_SHARE = 0.1  # of the looks at it
CHANGED = 1.25  # times as fast or as slow as copies were
COPY = 64 << 20  # bytes
PATIENCE = 20  # seconds that a run waits for the cores to be near each other


def processor_times():
    """Ticks of all processors so far: taken away by the host, and all."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = list(map(int, file.readline().split()[1:9]))
    return ticks[7], sum(ticks)


@dataclasses.dataclass
class Seen:
    """A machine at a moment."""
    line: float  # us from core to core
    stolen: int  # ticks so far
    ticks: int
    copies: dict = dataclasses.field(default_factory=dict)  # GB/s of all cores, by how much is copied


def changed(before, after):
    """@return which copies no longer go as fast as they did, or nothing"""
    for size, speed in after.items():
        was = before.get(size, speed)
        if max(speed, was) > CHANGED * min(speed, was):
            return f"copies of {size} went at {was:.0f} GB/s and now do at {speed:.0f}"
    return ""


class Limits:
    """What this machine can do just now, where there is a program to tell."""

    def __init__(self, program):
        self.program = program if os.access(program, os.X_OK) else None

    def line(self):
        """@return us that a cache line takes from core to core"""
        return run_limits(self.program, "line")[0] if self.program else 0.0

    def copies(self):
        """@return GB/s that all cores copy at once in memory, by size. In the last cache they go
        half as fast from one moment to the next, wherever cores are"""
        if not self.program:
            return {}
        cores = len(os.sched_getaffinity(0))
        return {f"{COPY >> 20} MiB": run_limits(self.program, "copy", cores, COPY)[COPY]}


class Watch:
    def __init__(self, line, repeats=REPEATS, copies=dict, every=None):
        """
        @param line    measures how long a cache line takes from core to core, in us
        @param copies  measures how fast memory is copied (Seen); where nobody does, it never changes
        @param every   seconds between looks at the line while something runs; None: before and after
        """
        self.line, self.copies, self.most, self.shortest = line, copies, repeats, float("inf")
        self.every, self.repeats, self.left_as_is = every, 0, 0

    def measure_line(self):
        line = self.line()
        self.shortest = min(self.shortest, line)
        return line

    def measure(self):
        return Seen(self.measure_line(), *processor_times(), self.copies())

    def settled(self):
        """@return how fast memory is copied while cores are near: apart they share less of it"""
        self.settle()
        return self.copies()

    def settle(self):
        deadline = time.monotonic() + PATIENCE
        while self.measure_line() > FAR * self.shortest and time.monotonic() < deadline:
            time.sleep(0.2)

    @contextlib.contextmanager
    def looking(self):
        """@return a list to which looks at the line are added, until the context ends"""
        lines, done = [], threading.Event()

        def look():
            while not done.wait(self.every):
                lines.append(self.measure_line())

        looker = threading.Thread(target=look) if self.every else None
        if looker:
            looker.start()
        try:
            yield lines
        finally:
            done.set()
            if looker:
                looker.join()

    def disturbed(self, before, after, between=()):
        """@return why, or nothing"""
        stolen = (after.stolen - before.stolen) / max(1, after.ticks - before.ticks)
        if stolen > STOLEN:
            return f"the host took {100 * stolen:.0f} % of the processors away"
        lines = [before.line, *between, after.line]
        if sum(line > FAR * self.shortest for line in lines) > FAR_SHARE * len(lines):
            return f"cores were {max(lines) / self.shortest:.1f} times as far apart"
        return changed(before.copies, after.copies)

    def run(self, run, say, tries=TRIES):
        """What run() returns when the machine was itself, or in the end whatever it returns."""
        for attempt in range(tries):
            self.settle()
            before = self.measure()
            with self.looking() as lines:
                result = run()
            why = self.disturbed(before, self.measure(), lines)
            if not why:
                return result
            if attempt + 1 == tries or self.repeats == self.most:
                break
            self.repeats += 1
            say(f"again, as {why}")
        self.left_as_is += 1
        say(f"left as it is, though {why}")
        return result
