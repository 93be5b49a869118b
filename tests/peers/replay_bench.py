# SPDX-License-Identifier: Apache-2.0
"""Runs of wring replay in many settings, each written down when it ends: what replay_matrix.py's kinds
of them have in common."""
import json
import os
import sys
import time

from peer_watch import TRIES, Limits, Watch
from replay_runs import Folder, place

LEFT = 3  # exit status where runs are left
WARM_UP = 2  # iterations of a replay that are not timed
LOOK_S = 0.5  # between looks at the machine while something runs
REPEATS = 0.2  # of all runs: where more of them were disturbed, that is what the machine is like
LONG_S = 15  # a run that is not made again: so long the machine is never left alone


def say(text):
    print(text, file=sys.stderr, flush=True)


def end(begin, failed, left):
    """The last lines of a script whose runs are written down, and its exit status."""
    for what, why in failed.items():
        print(f"\nfailed: {what}: {why}")
    say(f"took {time.monotonic() - begin:.0f} s" + (", and runs are left" if left else ""))
    sys.exit(1 if failed else LEFT if left else 0)


class TimeOver(Exception):
    pass


class Clock:
    def __init__(self, seconds):
        self.begin, self.seconds, self.idle = time.monotonic(), seconds, True

    def need(self, seconds):
        """The first thing always begins, else there would be no end."""
        spent = time.monotonic() - self.begin
        if self.seconds is not None and not self.idle and spent + seconds > self.seconds:
            raise TimeOver
        self.idle = False


class Bench:
    """What both kinds of runs have in common."""

    def __init__(self, arguments):
        self.arguments, self.clock = arguments, Clock(arguments.seconds)
        wring = os.path.abspath(f"{arguments.build}/tools/wring")
        if not os.access(wring, os.X_OK):
            sys.exit(f"{arguments.build} is not built: meson setup {arguments.build} && ninja -C "
                     f"{arguments.build}")
        self.folder = Folder(arguments.folder or f"{arguments.build}/replay-matrix", wring)
        self.wring, self.failed, self.of_another = wring, {}, 0
        limits = Limits(os.path.abspath(f"{arguments.build}/tests/peers/machine_limits"))
        self.watch = Watch(float) if arguments.as_is or arguments.auto else Watch(
            limits.line, round(REPEATS * len(arguments.cases) * arguments.rounds), limits.copies,
            every=LOOK_S)

    def same(self, case, **more):
        """How a line names a case's run."""
        return {"setting": case.setting, "ranks": case.ranks, "model": case.model,
                "scale": case.scale, "compute": self.arguments.compute,
                "iterations": self.arguments.iterations, **more}

    def replay(self, run, case, words, iterations, expected_us, what, beside, **environment):
        """One run, written down: what names it, and what else is to be known of it."""
        seen = [line["took_s"] for line in self.folder.find(**what)]
        guess = max(seen) if seen else 2 + 1.3e-6 * expected_us * (iterations + WARM_UP)
        self.clock.need(guess)
        begin = time.monotonic()
        words = ["replay", "--json", "-t", case.model, "--scale", case.scale, "--compute",
                 self.arguments.compute, "--iterations", iterations, *words]
        got = json.loads(self.watch.run(
            lambda: run(words, 60 + 10 * guess, **environment),
            lambda text: say(f"{case.title}: {text}"), tries=TRIES if guess < LONG_S else 1))
        self.folder.add({**what, **beside, "timed": iterations, "measured_us": got["measured_us"],
                         "within": got["spread"], "predicted_us": got["predicted_us"],
                         "wire_bytes": got["wire_bytes"], "chosen": got.get("chosen", ""),
                         "beside": got.get("beside", []),
                         "took_s": round(time.monotonic() - begin, 2)})
        return got["measured_us"]

    def wanted(self, case):
        """How many runs of it there are to be, by those that are there."""
        return self.arguments.rounds

    def run(self):
        """Rounds of all places, so that a place's lie far apart. @return whether runs are left"""
        places = list(dict.fromkeys((case.setting, case.ranks) for case in self.arguments.cases))
        turn = 0
        try:
            while any(self.wanted(case) > turn for case in self.arguments.cases):
                for where in places:
                    self.run_place(where, turn)
                turn += 1
        except TimeOver:
            return True
        return False

    def run_place(self, where, turn):
        setting, ranks = where
        some = [case for case in self.arguments.cases
                if (case.setting, case.ranks) == where and case.title not in self.failed
                and len(self.runs_of(case)) <= turn < self.wanted(case)]
        if some:
            with place(self.wring, setting, ranks) as run:
                self.run_round(run, some, turn)

    def fail(self, what, error):
        self.failed[what] = str(error)
        say(f"{what}: failed: {error}")
