# SPDX-License-Identifier: Apache-2.0
"""Whether a virtual machine was itself while something ran, told by what did not run there.

A host may take cores away, and may move them apart: then a cache line takes several times as long
between them, and so does everything that goes from rank to rank. Such runs are made again, whosever
they are.
"""
import time

TRIES = 4
REPEATS = 8  # of all runs of a section, unless said otherwise
STOLEN = 0.04  # share of the processors' time
FAR = 1.7  # times the shortest way of a cache line that was seen
PATIENCE = 5  # seconds that a run waits for the cores to be near each other


def processor_times():
    """Ticks of all processors so far: taken away by the host, and all."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = list(map(int, file.readline().split()[1:9]))
    return ticks[7], sum(ticks)


class Watch:
    def __init__(self, line, repeats=REPEATS):
        """@param line  measures how long a cache line takes from core to core, in us"""
        self.line, self.most, self.shortest = line, repeats, float("inf")
        self.repeats, self.left_as_is = 0, 0

    def measure(self):
        line = self.line()
        self.shortest = min(self.shortest, line)
        return (line, *processor_times())

    def settle(self):
        deadline = time.monotonic() + PATIENCE
        while self.measure()[0] > FAR * self.shortest and time.monotonic() < deadline:
            time.sleep(0.2)

    def disturbed(self, before, after):
        """@return why, or nothing"""
        stolen = (after[1] - before[1]) / max(1, after[2] - before[2])
        if stolen > STOLEN:
            return f"the host took {100 * stolen:.0f} % of the processors away"
        if max(before[0], after[0]) > FAR * self.shortest:
            return f"cores were {max(before[0], after[0]) / self.shortest:.1f} times as far apart"
        return ""

    def run(self, run, say):
        """What run() returns when the machine was itself, or in the end whatever it returns."""
        for attempt in range(TRIES):
            self.settle()
            before = self.measure()
            result = run()
            why = self.disturbed(before, self.measure())
            if not why:
                return result
            if attempt + 1 == TRIES or self.repeats == self.most:
                break
            self.repeats += 1
            say(f"again, as {why}")
        self.left_as_is += 1
        say(f"left as it is, though {why}")
        return result
