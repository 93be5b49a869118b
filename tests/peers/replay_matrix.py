#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Are predictions right? Models replayed in many settings, beside what wring plan says of them.

    tests/peers/replay_matrix.py [--build DIR] [--folder DIR] [--settings LIST] [--ranks LIST]
                                 [--models LIST] [--codecs LIST] [--rounds N] [--iterations N]
                                 [--compute HOW] [--seconds S] [--as-is] [--auto] [--show]
                                 [--json FILE] [--csv FILE]

Settings: shm and tcp (this host, 2 ranks), 1g and 10g (2 and 4 hosts on links of so many Gbit/s,
in network namespaces: links.py). A case is a model whose tensors all take one codec, in the groups
that wring plan finds best, with a run in each round, which is the median of its iterations. In each
round a codec is calibrated right before its cases, and anew where memory is no longer as fast as it
was then: what is predicted and what is measured are of the same minutes. "error" is predicted /
measured - 1, the median of the runs; "spread" is how far the runs' times lie apart. "backward" is
the time without any exchange.

With --auto each model runs under WRING_PLAN=auto, which may take bf16 and the case's codec, beside
float32 and bf16, tensor by tensor: one job, an iteration of each in turn (wring replay --beside);
ratios are within turns. Where one of the two takes more than half as long again as the other, only the
better one is beside it in this model's further cases. As sides take turns nothing is made again; but
two sides of one job that do the same may differ, and do so in all of its turns. So a case has five jobs
where one had an interval that reaches beyond the bar, and the middle one counts.

A run during which the host disturbed the machine is made again (peer_watch.py), unless one in five
was already: then that is what the machine is like. Every run is written down when it ends, so whoever
starts it again goes on, and --seconds ends it early. Exit status: 0, 1 if a run failed, 3 if runs are
left. A round of all cases in full size takes half an hour, most of it at 1 Gbit/s, which gradients of
1.9 GB pass in 15 s, in each of 9 iterations and each round; --models takes MODEL:SCALE, of tensors and
times.
"""
import argparse
import csv
import json
import time

import links
import replay_cases as cases
from peer_sides import Failed
from peer_watch import changed
from replay_bench import Bench, end, say
from replay_races import Races

SURE = 2  # times that memory is to be measured before it counts as another
PROFILES = 2  # of one codec in one round and setting
BASE = "none"  # is calibrated first, with the links and what waking costs, whoever is asked for
BASE_TIMES = 3  # as long as other codecs
RANKS = 2  # that --calibrate-seconds are for: four share two cores, and have half the samples
CALIBRATE_TRIES = 2  # while cores are apart: a profile of such a moment makes all its cases wrong
RUN_US = 2e6  # that a run takes: shorter ones are of a moment
ITERATIONS_MIN, ITERATIONS_MAX = 7, 101


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--folder", help="profiles, plans and runs (default: BUILD/replay-matrix)")
    parser.add_argument("--settings", default=",".join(cases.SETTINGS))
    parser.add_argument("--ranks", default="2,4", help="of the settings that have them")
    parser.add_argument("--models", default=cases.MODELS)
    parser.add_argument("--codecs", default=cases.CODECS)
    parser.add_argument("--rounds", type=int, help="(3, with --auto 1, and 5 where it is in doubt)")
    parser.add_argument("--iterations", type=int,
                        help="that are timed, with --auto turns (7 to 101, by how long they take)")
    parser.add_argument("--compute", choices=("sleep", "spin"), default="sleep")
    parser.add_argument("--calibrate-seconds", type=float, default=10,
                        help="at most, for each codec between two ranks, twice that for four; the first "
                        "of a round has three times that, for links and for what waking costs")
    parser.add_argument("--calibrate-elements", help="of the largest bucket")
    parser.add_argument("--calibrate-doubt", type=float,
                        help="percent of the points that may be in doubt")
    parser.add_argument("--seconds", type=float, help="begin nothing that would take longer")
    parser.add_argument("--as-is", action="store_true",
                        help="make nothing anew, whatever the host does meanwhile")
    parser.add_argument("--auto", action="store_true", help="WRING_PLAN=auto against fp32 and bf16")
    parser.add_argument("--show", action="store_true", help="run nothing: print what is there")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--csv", metavar="FILE")
    arguments = parser.parse_args()
    try:
        arguments.cases = cases.list_cases(
            pick(arguments.settings, cases.SETTINGS), set(map(int, arguments.ranks.split(","))),
            cases.read_models(arguments.models),
            (cases.may_take if arguments.auto else list)(arguments.codecs.split(",")))
    except ValueError as error:
        parser.error(str(error))
    arguments.rounds = arguments.rounds or (1 if arguments.auto else 3)
    if not arguments.cases or min(arguments.rounds, arguments.iterations or 1) < 1:
        parser.error("there is nothing to run")
    return arguments


def pick(text, known):
    names = text.split(",")
    for name in names:
        if name not in known:
            raise ValueError(f"no '{name}' among {', '.join(known)}")
    return names


class Predictions(Bench):
    def calibrate(self, run, setting, ranks, codec, turn, fresh=False):
        """@param fresh  the profile begins anew: links as well, and no other codec"""
        onto = None if fresh else self.folder.keep(setting, ranks)
        seconds = self.arguments.calibrate_seconds * (1 if onto else BASE_TIMES) * ranks / RANKS
        self.clock.need(seconds)
        say(f"{setting} x{ranks}: calibrating {codec}")
        self.watch.run(
            lambda: self.folder.calibrate(run, setting, ranks, codec, seconds, onto,
                                          elements=self.arguments.calibrate_elements,
                                          doubt=self.arguments.calibrate_doubt),
            lambda text: say(f"{setting} x{ranks}: {text}"), tries=CALIBRATE_TRIES)
        self.folder.add({"kind": "profile", "setting": setting, "ranks": ranks, "codec": codec,
                         "round": turn, "copies": self.watch.settled()})

    def calibrations(self, setting, ranks, codec, turn):
        """What memory was when each was made."""
        return self.folder.find(kind="profile", setting=setting, ranks=ranks, codec=codec, round=turn)

    def begin_codec(self, run, setting, ranks, codec, turn):
        """Each round has its own calibration, which it has kept if it was ended after that."""
        if not self.calibrations(setting, ranks, BASE, turn):
            self.calibrate(run, setting, ranks, BASE, turn, fresh=True)
        if not self.calibrations(setting, ranks, codec, turn):
            self.calibrate(run, setting, ranks, codec, turn)

    def renew(self, run, case, turn):
        """Calibrates anew where the machine is another one than it was."""
        made = self.calibrations(case.setting, case.ranks, case.codec, turn)
        if not all(changed(made[-1]["copies"], self.watch.settled()) for _ in range(SURE)):
            return
        if len(made) == PROFILES:
            self.of_another += 1
            return
        say(f"{case.setting} x{case.ranks}: memory is no longer as fast, or as slow, as it was")
        self.calibrate(run, case.setting, case.ranks, case.codec, turn)

    def runs_of(self, case):
        return self.folder.find(**self.same(case, kind="prediction", codec=case.codec))

    def run_round(self, run, some, turn):
        for codec in dict.fromkeys(case.codec for case in some):
            self.run_codec(run, [case for case in some if case.codec == codec], turn)

    def run_codec(self, run, some, turn):
        """One codec's cases in one setting."""
        setting, ranks, codec = some[0].setting, some[0].ranks, some[0].codec
        try:
            self.begin_codec(run, setting, ranks, codec, turn)
        except Failed as error:
            for case in some:
                self.fail(case.title, error)
            return
        for case in some:
            try:
                self.run_case(run, case, turn)
            except Failed as error:
                self.fail(case.title, error)

    def run_case(self, run, case, turn):
        self.renew(run, case, turn)
        path, plan = self.folder.plan(case, self.arguments.compute)
        measured = self.replay(run, case, ["--plan", path], self.iterations(plan["iteration_us"]),
                               plan["iteration_us"],
                               self.same(case, kind="prediction", codec=case.codec),
                               {"groups": len(plan["groups"]),
                                "backward_us": plan["last_ready_us"]})
        error = plan["iteration_us"] / measured - 1
        say(f"{case.title}, round {turn + 1}: predicted {cases.ms(plan['iteration_us'])} ms, "
            f"measured {cases.ms(measured)}: {100 * error:+.1f} %")

    def iterations(self, expected_us):
        fit = round(RUN_US / expected_us)
        return self.arguments.iterations or min(max(fit, ITERATIONS_MIN), ITERATIONS_MAX)

    def outcomes(self):
        for case in self.arguments.cases:
            runs = self.runs_of(case)
            if runs:
                yield cases.Outcome(case, runs[-1]["backward_us"], runs[-1]["groups"],
                                    [line["predicted_us"] for line in runs],
                                    [line["measured_us"] for line in runs],
                                    [line["within"] for line in runs])

    def show(self):
        """@return (a dictionary for each case, what they come to)"""
        outcomes = list(self.outcomes())
        print(f"{len(outcomes)} of {len(self.arguments.cases)} cases; compute: "
              f"{self.arguments.compute}")
        if not outcomes:
            return [], {}
        timed = [line["timed"] for one in outcomes for line in self.runs_of(one.case)]
        print(f"each run is the median of {min(timed)} to {max(timed)} iterations\n")
        cases.show_outcomes(outcomes)
        cases.show_judgement(outcomes)
        return [outcome.as_json() for outcome in outcomes], cases.judge(outcomes)


def write(arguments, rows, summary):
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"summary": summary, "cases": rows}, file, indent=1)
            file.write("\n")
    if arguments.csv and rows:
        with open(arguments.csv, "w", encoding="utf-8", newline="") as file:
            plain = [{name: value for name, value in row.items()
                      if not isinstance(value, (list, dict))} for row in rows]
            writer = csv.DictWriter(file, plain[0])
            writer.writeheader()
            writer.writerows(plain)


def main():
    arguments = parse_arguments()
    if not arguments.show and any(case.setting in cases.ON_LINKS for case in arguments.cases):
        links.require_root()
    bench = (Races if arguments.auto else Predictions)(arguments)
    begin = time.monotonic()
    left = bench.run() if not arguments.show else False
    write(arguments, *bench.show())
    if bench.of_another:
        print(f"\n{bench.of_another} runs are of memory faster or slower than when their profile was "
              "made, which was too often.")
    end(begin, bench.failed, left)


if __name__ == "__main__":
    main()
