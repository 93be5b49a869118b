#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The planner beside its bars: speed of the search, how far from optimal plans can be, simulation.

    tests/peers/planner_bars.py [--build DIR] [--folder DIR] [--traces DIR] [--only PARTS]
                                [--models LIST] [--codecs LIST] [--fabrics LIST] [--rounds N]
                                [--bound-ms MS] [--exact N] [--seconds S] [--as-is] [--show]
                                [--json FILE]

Parts:

    selection    what the search alone takes (selection_us of wring plan, a new process each time),
                 and its plans beside those of Espresso's greedy
    gap          how far above its bound a plan can be, after --bound-ms of proving
    evaluations  timelines of 314 tensors on six lanes evaluated in a second, incrementally
    simulate     391 tensors on 4096 nodes, at 20 speeds of links
    optimum      random traces beside their exact optimum

Traces are those of --traces (default: WRING_TEST_TRACES), or wring's own of the same models; 8
nodes of 8 ranks unless said otherwise, each codec alone, coded wherever the profile knows costs, on
the timeline of phases. Where something is timed, runs during which the host took processors away
are made again (peer_watch.py), and the figure is the median of the rounds.

Every answer is written down when it is there, beside the program that gave it, so whoever starts it
again goes on, and --seconds ends it early. Exit status: 0, 1 if a run failed, 3 if runs are left; a
bar that is missed is no failure. All of it takes six minutes.
"""
import argparse
import json
import os
import pathlib
import sys
import time

import planner_parts as parts
from peer_sides import Failed
from peer_watch import Watch
from replay_bench import Clock, TimeOver, end, say
from replay_cases import verdict
from replay_runs import Runs

OURS = pathlib.Path(__file__).resolve().parents[2] / "planner" / "traces"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--folder", help="answers (default: BUILD/planner-bars)")
    parser.add_argument("--traces", default=os.environ.get("WRING_TEST_TRACES"))
    parser.add_argument("--only", default=",".join(parts.PARTS), help="parts, by name")
    parser.add_argument("--models", default=",".join(parts.MODELS))
    parser.add_argument("--codecs", default=",".join(parts.CODECS))
    parser.add_argument("--fabrics", default=",".join(parts.FABRICS))
    parser.add_argument("--rounds", type=int, default=5, help="of what is timed (5)")
    parser.add_argument("--bound-ms", type=float, default=1000, help="of each proof (1000)")
    parser.add_argument("--exact", type=int, default=200, help="random traces of a kind (200)")
    parser.add_argument("--seconds", type=float, help="begin nothing that would take longer")
    parser.add_argument("--as-is", action="store_true",
                        help="make nothing anew, whatever the host does meanwhile")
    parser.add_argument("--show", action="store_true", help="run nothing: print what is there")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    for name, known in (("only", parts.PARTS), ("models", parts.MODELS),
                        ("fabrics", parts.FABRICS)):
        words = getattr(arguments, name).split(",")
        if not set(words) <= set(known):
            parser.error(f"--{name}: not all of '{','.join(words)}' are among {', '.join(known)}")
        setattr(arguments, name, words)
    arguments.codecs = arguments.codecs.split(",")
    if min(arguments.rounds, arguments.exact) < 1 or arguments.bound_ms <= 0:
        parser.error("--rounds, --exact and --bound-ms are above 0")
    return arguments


def trace_of(model, folder):
    """@return its file: one that was measured, where there is a folder of those, or ours"""
    return str(pathlib.Path(folder) / f"{parts.MODELS[model].file}.json" if folder
               else OURS / f"{model}.json")


class Bars:
    def __init__(self, arguments):
        self.arguments, self.clock = arguments, Clock(arguments.seconds)
        self.runs = Runs(arguments.folder or f"{arguments.build}/planner-bars")
        self.watch = None if arguments.as_is else Watch(float, repeats=100)
        self.traces = {model: trace_of(model, arguments.traces) for model in arguments.models}
        self.parts = [parts.PARTS[name](arguments, self.traces) for name in arguments.only]
        self.failed = {}

    def find(self, part, question):
        return self.runs.find(part=part.name, by=part.program.mark, **question)

    def run(self):
        """@return whether runs are left"""
        try:
            for part in self.parts:
                for question in part.questions():
                    if not self.find(part, question):
                        self.ask(part, question)
        except TimeOver:
            return True
        return False

    def ask(self, part, question):
        title = " ".join([part.name, *map(str, question.values())])
        before = [line["took_s"] for line in self.runs.find(part=part.name)]
        self.clock.need(max(before, default=part.guess_s))
        begin = time.monotonic()
        try:
            got = part.ask(question) if not part.timed or self.watch is None else self.watch.run(
                lambda: part.ask(question), lambda text: say(f"{title}: {text}"))
        except Failed as error:
            self.failed[title] = str(error)
            say(f"{title}: failed: {error}")
            return
        self.runs.add({"part": part.name, "by": part.program.mark, **question, **got,
                       "took_s": round(time.monotonic() - begin, 2)})

    def answers(self, part):
        """Of the questions asked for, those that are answered."""
        return [line for question in part.questions() for line in self.find(part, question)]


def beyond_greedy(selected, proved):
    """Where a proof's plan is better than Espresso's greedy, that of the search alone is, too."""
    best = {(line["model"], parts.where(line)): line["iteration_us"] for line in proved}
    cases = [line for line in selected if line["round"] == 0
             and best.get((line["model"], parts.where(line)), line["espresso_us"])
             < line["espresso_us"] * (1 - parts.OFF)]
    if not cases:
        return
    worst = max(cases, key=lambda line: line["iteration_us"] / line["espresso_us"])
    yield parts.Bar("search where the greedy is off", "< 1 ×",
                    f"{worst['iteration_us'] / worst['espresso_us']:.3f} ×",
                    f"{worst['model']}, {parts.where(worst)}",
                    sum(line["iteration_us"] < line["espresso_us"] for line in cases), len(cases))


def show_bars(bars):
    print("| what | bar | worst figure | at | cases that meet it | |\n|---|---|---|---|---|---|")
    for bar in bars:
        print(f"| {bar.what} | {bar.says} | {bar.figure} | {bar.at} | {bar.met} of {bar.of} "
              f"| {verdict(bar.met == bar.of)} |")


def show(bars):
    """@return everything as a dictionary"""
    found, whole = [], {}
    for part in bars.parts:
        answers = bars.answers(part)
        if answers:
            found += part.bars(answers)
        whole[part.name] = answers
    found += beyond_greedy(whole.get("selection", ()), whole.get("gap", ()))
    if found:
        show_bars(found)
    for part in bars.parts:
        if whole[part.name]:
            part.show(whole[part.name])
    return {"bars": [bar.as_json() for bar in found], "answers": whole}


def main():
    arguments = parse_arguments()
    begin = time.monotonic()
    try:
        bars = Bars(arguments)
    except Failed as error:
        sys.exit(str(error))
    left = bars.run() if not arguments.show else False
    result = show(bars)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
    end(begin, bars.failed, left)


if __name__ == "__main__":
    main()
