#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""planner_bars.py: what it makes of answers and, given wring's programs, a few of its questions.

    test_planner_bars.py [BUILD]
"""
import argparse
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import types
import unittest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))

import planner_bars
import planner_parts as parts
from built_case import BUILD, BuiltCase
from peer_sides import Failed


def made(kind):
    """A part that has no program: its answers are made up here."""
    part = kind.__new__(kind)
    part.arguments = argparse.Namespace(rounds=3, bound_ms=1000)
    part.program = types.SimpleNamespace(path="program")
    return part


def answer(model, codec="onebit", **more):
    return {"model": model, "fabric": "espresso-pcie", "nodes": 8, "codec": codec, "tensors": 3,
            "last_ready_us": 1000, **more}


def printed(show, *values):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        show(*values)
    return output.getvalue()


class Selections(unittest.TestCase):
    def test_a_case_takes_what_its_median_process_takes(self):
        lines = [answer("resnet101", codec, round=turn, selection_us=1e3 * ms, iteration_us=100,
                        espresso_us=100)
                 for codec, times in (("a", (9, 4, 4)), ("b", (6, 5.1, 1)))
                 for turn, ms in enumerate(times)]
        bar, greedy = made(parts.Selection).bars(lines)
        self.assertEqual((bar.figure, bar.met, bar.of), ("5.10 ms", 1, 2))
        self.assertIn("b", bar.at)
        self.assertEqual((greedy.met, greedy.of), (2, 2))

    def test_a_plan_worse_than_the_greedy_is_a_miss(self):
        lines = [answer("lstm", codec, round=0, selection_us=1, iteration_us=us, espresso_us=100)
                 for codec, us in (("a", 101), ("b", 50))]
        greedy, = made(parts.Selection).bars(lines)
        self.assertEqual((greedy.figure, greedy.met, greedy.of), ("1.010 ×", 1, 2))
        text = printed(made(parts.Selection).show, lines)
        self.assertIn("| 1 | 100.0 | 100.0 |", text)


    def test_where_the_greedy_is_off_a_plan_as_good_is_a_miss(self):
        proved = [answer("lstm", codec, iteration_us=us) for codec, us in (("a", 90), ("b", 100))]
        selected = [answer("lstm", codec, round=0, iteration_us=100, espresso_us=100)
                    for codec in "abc"]  # of b nothing is better, of c nothing is proved
        bar, = planner_bars.beyond_greedy(selected, proved)
        self.assertEqual((bar.figure, bar.met, bar.of), ("1.000 ×", 0, 1))
        selected[0]["iteration_us"] = 95
        bar, = planner_bars.beyond_greedy(selected, proved)
        self.assertEqual((bar.met, bar.of), (1, 1))
        self.assertEqual(list(planner_bars.beyond_greedy(selected, proved[1:])), [])


class Gaps(unittest.TestCase):
    def test_each_model_has_its_bar(self):
        lines = [answer(model, gap=0.05, iteration_us=1105, bound_us=1100)
                 for model in ("vgg16", "ncf", "gpt2")]
        self.assertEqual([(bar.says, bar.met) for bar in made(parts.Gap).bars(lines)],
                         [("≤ 6 %", 1), ("≤ 8 %", 1), ("≤ 3 %", 0)])

    def test_exposed_time_is_set_beside_its_bound(self):
        lines = [answer("gpt2", codec, gap=gap, iteration_us=us, bound_us=1100)
                 for codec, us, gap in (("a", 1110, 0.01), ("b", 1111, 0.02), ("c", 1100, 0))]
        text = printed(made(parts.Gap).show, lines)
        self.assertIn("| gpt2 | 8 | 3 | 1 | 1.00 | 2.00 | espresso-pcie, b | 2 | 0.11 | 0.10 |",
                      text)
        self.assertNotIn("missed", text)
        lines[1]["gap"] = 0.0301
        text = printed(made(parts.Gap).show, lines)
        self.assertEqual(text.count("missed"), 1)
        self.assertIn("missed: gpt2, espresso-pcie, 8 nodes, b: 3.01 %", text)


class Others(unittest.TestCase):
    def test_speeds_are_judged_one_by_one(self):
        part = made(parts.Evaluations)
        part.program.run = lambda *_: (
            "314 tensors, 6 lanes, one core, the fastest of 15 turns\n"
            "a group's option changed, incrementally          3000000 per second\n"
            "a border moved, incrementally                    1999999 per second\n"
            "all groups, from rates                            123456 per second\n")
        bars = list(part.bars([part.ask({})] * 3))
        self.assertEqual([(bar.figure, bar.met) for bar in bars],
                         [("3,000,000", 1), ("1,999,999", 0)])
        part.program.run = lambda *_: "nothing"
        self.assertRaises(Failed, part.ask, {})

    def test_simulations_are_judged_by_the_slowest_codec(self):
        lines = [answer("bert-large", codec, points=20, seconds=seconds)
                 for codec, times in (("a", (1, 2, 3)), ("b", (11, 9, 12)))
                 for seconds in times]
        bar, = made(parts.Simulate).bars(lines)
        self.assertEqual((bar.figure, bar.at, bar.met, bar.of), ("11.00 s", "bert-large, b", 1, 2))

    def test_distances_are_read_from_the_table(self):
        part = made(parts.Optimum)
        rows = part.read("| profile | tensors |\n|---|---|\n"
                         "| espresso-pcie | 1 to 7 | 200 | 200 | 199 | 0.000 % | 0.000 % "
                         "| 1.979 % |\n")
        median, worst = part.bars([{"rows": rows}])
        self.assertEqual((median.met, worst.met, worst.figure), (1, 0, "1.979 %"))
        self.assertIn("espresso-pcie", worst.at)
        self.assertRaises(Failed, part.read, "")


class Runs(BuiltCase):
    """The smallest models; the machine is not quiet, so that no time is judged."""

    def bars(self, *more):
        command = [sys.executable, "-B", HERE / "planner_bars.py", "--build", BUILD, "--folder",
                   f"{self.folder}/kept", "--models", "lstm", "--codecs", "onebit+ef", "--fabrics",
                   "espresso-pcie", "--rounds", "1", "--bound-ms", "10", "--as-is", "--json",
                   f"{self.folder}/out.json", *more]
        bare = {name: value for name, value in os.environ.items() if name != "WRING_TEST_TRACES"}
        return subprocess.run(command, env=bare, text=True, capture_output=True, timeout=250,
                              stdin=subprocess.DEVNULL, check=False)

    def written(self):
        with open(f"{self.folder}/out.json", encoding="utf-8") as file:
            return json.load(file)

    def test_goes_on_where_it_was_ended(self):
        only = ("--only", "selection,gap,evaluations,simulate")
        result = self.bars(*only, "--seconds", "0")
        self.assertEqual(result.returncode, 3, result)
        self.assertEqual(sum(map(len, self.written()["answers"].values())), 1)
        result = self.bars(*only)
        self.assertEqual(result.returncode, 0, result)
        first = self.written()
        self.assertEqual({part: len(lines) for part, lines in first["answers"].items()},
                         {"selection": 1, "gap": 2, "evaluations": 1, "simulate": 1})
        for line in first["answers"]["gap"]:
            self.assertAlmostEqual(line["gap"], line["iteration_us"] / line["bound_us"] - 1)
        self.assertEqual(first["answers"]["simulate"][0]["points"], 20)
        self.assertEqual(self.bars(*only).returncode, 0)
        self.assertEqual(self.written(), first)  # nothing was asked again

    def test_what_fails_is_said(self):
        result = self.bars("--only", "gap", "--codecs", "nonsense")
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("nonsense", result.stdout)
        self.assertNotIn("Traceback", result.stderr)

    def test_refusals(self):
        for arguments in (("--only", "moon"), ("--models", "moon"), ("--rounds", "0")):
            self.assertEqual(self.bars(*arguments).returncode, 2)


if __name__ == "__main__":
    unittest.main()
