#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Are predictions right? Models replayed in many settings, beside what wring plan says of them.

    tests/peers/replay_matrix.py [--build DIR] [--folder DIR] [--settings LIST] [--ranks LIST]
                                 [--models LIST] [--codecs LIST] [--rounds N] [--iterations N]
                                 [--compute HOW] [--seconds S] [--as-is] [--auto] [--show]
                                 [--json FILE] [--csv FILE]

Settings: shm and tcp (this host, 2 ranks), 1g and 10g (2 and 4 hosts on links of so many Gbit/s,
in network namespaces: links.py). For each setting and number of ranks each round has a calibration,
kept in the folder, and made anew where memory is no longer as fast as it was then. A case is a model
whose tensors all take one codec, in the groups that wring plan finds best, with a run in each round,
which is the median of its iterations. "error" is predicted / measured - 1, the median of
the runs; "spread" is how far the runs' times lie apart. "backward" is the time without any exchange.

With --auto each model runs under WRING_PLAN=auto, which may take bf16 and the case's codec, beside
float32 and bf16, tensor by tensor: one job, an iteration of each in turn (wring replay --beside);
ratios are within turns. Where one of the two takes more than half as long again as the other, only the
better one is beside it in this model's further cases. As sides take turns nothing is made again.

A run during which the host disturbed the machine is made again (peer_watch.py). Every run is written
down when it ends, so whoever starts it again goes on, and --seconds ends it early. Exit status: 0,
1 if a run failed, 3 if runs are left. A round of all cases in full size takes half an hour, most of it at
1 Gbit/s, which gradients of 1.9 GB pass in 15 s, in each of 9 iterations and each round; --models
takes MODEL:SCALE, of tensors and times.
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
PROFILES = 2  # of one setting in one round
FIRST_TIMES = 3  # as long as other codecs, for links and for what waking costs
CALIBRATE_TRIES = 10  # a profile made while cores were apart makes all its cases wrong


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--folder", help="profiles, plans and runs (default: BUILD/replay-matrix)")
    parser.add_argument("--settings", default=",".join(cases.SETTINGS))
    parser.add_argument("--ranks", default="2,4", help="of the settings that have them")
    parser.add_argument("--models", default=cases.MODELS)
    parser.add_argument("--codecs", default=cases.CODECS)
    parser.add_argument("--rounds", type=int, help="(3, with --auto 1)")
    parser.add_argument("--iterations", type=int,
                        help="that are timed, with --auto turns (7 to 31, by how long they take)")
    parser.add_argument("--compute", choices=("sleep", "spin"), default="sleep")
    parser.add_argument("--calibrate-seconds", type=float, default=10,
                        help="at most, for each codec; the first has three times that, for links "
                        "and for what waking costs")
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
    def prepare(self, run, setting, ranks):
        """A profile of all codecs, of which a folder that was left may have some."""
        codecs = list(dict.fromkeys(["none", *self.arguments.codecs.split(",")]))
        known = self.folder.codecs(setting, ranks) if self.profiles(setting, ranks) else []
        missing = [codec for codec in codecs if codec not in known]
        if missing:
            self.calibrate(run, setting, ranks, missing, fresh=not known)

    def calibrate(self, run, setting, ranks, codecs, fresh):
        """One codec after the other, so that the host is less likely to disturb a part."""
        for codec in codecs:
            onto = None if fresh and codec == codecs[0] else self.folder.keep(setting, ranks)
            seconds = self.arguments.calibrate_seconds * (1 if onto else FIRST_TIMES)
            self.clock.need(seconds)
            say(f"{setting} x{ranks}: calibrating {codec}")
            self.watch.run(
                lambda codec=codec, onto=onto, seconds=seconds: self.folder.calibrate(
                    run, setting, ranks, codec, seconds, onto,
                    elements=self.arguments.calibrate_elements,
                    doubt=self.arguments.calibrate_doubt),
                lambda text: say(f"{setting} x{ranks}: {text}"), tries=CALIBRATE_TRIES)
        self.folder.add({"kind": "profile", "setting": setting, "ranks": ranks,
                         "copies": self.watch.settled()})

    def profiles(self, setting, ranks):
        """What memory was when each of them was made."""
        return self.folder.find(kind="profile", setting=setting, ranks=ranks)

    def keep_profile(self, run, setting, ranks, turn):
        """Each round has its own, made anew where the machine is another one than it is of."""
        made = self.profiles(setting, ranks)
        if len(made) <= turn:
            self.calibrate(run, setting, ranks, self.folder.codecs(setting, ranks), fresh=True)
            return
        if not all(changed(made[-1]["copies"], self.watch.settled()) for _ in range(SURE)):
            return
        if len(made) > PROFILES * self.arguments.rounds:
            self.of_another += 1
            return
        say(f"{setting} x{ranks}: memory is no longer as fast, or as slow, as it was")
        self.calibrate(run, setting, ranks, self.folder.codecs(setting, ranks), fresh=True)

    def runs_of(self, case):
        return self.folder.find(**self.same(case, kind="prediction", codec=case.codec))

    def is_done(self, some):
        return all(len(self.runs_of(case)) >= self.arguments.rounds for case in some)

    def run_round(self, run, some, turn):
        for case in some:
            if case.title in self.failed or len(self.runs_of(case)) > turn:
                continue
            try:
                self.keep_profile(run, case.setting, case.ranks, turn)
                path, plan = self.folder.plan(case, self.arguments.compute)
                measured = self.replay(run, case, ["--plan", path], plan["iteration_us"],
                                       self.same(case, kind="prediction", codec=case.codec),
                                       {"groups": len(plan["groups"]),
                                        "backward_us": plan["last_ready_us"]})
            except Failed as error:
                self.fail(case.title, error)
                continue
            error = plan["iteration_us"] / measured - 1
            say(f"{case.title}, round {turn + 1}: predicted {cases.ms(plan['iteration_us'])} ms, "
                f"measured {cases.ms(measured)}: {100 * error:+.1f} %")

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
        used = sorted({self.iterations(outcome.case.setting) for outcome in outcomes})
        print(f"{len(outcomes)} of {len(self.arguments.cases)} cases; each run the median of "
              f"{' to '.join(map(str, used[::max(1, len(used) - 1)]))} iterations; compute: "
              f"{self.arguments.compute}\n")
        if not outcomes:
            return [], {}
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
