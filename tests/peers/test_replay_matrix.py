#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""replay_matrix.py: its arithmetic on made-up figures and, given wring's program, one small case.

    test_replay_matrix.py [BUILD]
"""
import argparse
import contextlib
import csv
import io
import json
import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))

import links
import replay_cases as cases
import replay_races
from built_case import BUILD, BuiltCase
from replay_cases import Case, Outcome
from replay_races import Race


def case(codec="none", scale=0.125):
    return Case("1g", 4, "vgg16", scale, codec)


def outcome(predicted, measured, codec="none"):
    """@param predicted  for all runs, or a list with one for each"""
    told = predicted if isinstance(predicted, list) else [predicted] * len(measured)
    return Outcome(case(codec), 1.0, 2, told, measured, [0.01] * len(measured))


def job(took, **beside):
    """@param beside  of each codec: time, ratio"""
    return {"measured_us": took, "timed": 7, "chosen": "none", "beside": [
        {"codec": codec, "measured_us": other, "ratio": ratio, "low": ratio, "high": ratio,
         "confidence": 0.95} for codec, (other, ratio) in beside.items()]}


class Arithmetic(unittest.TestCase):
    def test_error_is_that_of_the_median_run(self):
        one = outcome(110, [90, 100, 130])
        self.assertAlmostEqual(one.error, 0.1)
        self.assertAlmostEqual(one.spread, 0.4)
        self.assertAlmostEqual(one.allowed, 0.4)
        self.assertEqual(outcome(1, [100]).allowed, 0.05)

    def test_each_run_is_beside_what_was_predicted_for_it(self):
        self.assertAlmostEqual(outcome([110, 180, 99], [100, 200, 100]).error, -0.01)

    def test_quantile_is_a_value_that_so_many_are_not_above(self):
        self.assertEqual(cases.quantile(range(1, 11), 0.9), 9)
        self.assertEqual(cases.quantile(range(1, 12), 0.9), 10)
        self.assertEqual(cases.quantile([3], 0.9), 3)

    def test_bars(self):
        near = [outcome(102, [100]), outcome(104, [100])]
        got = cases.judge([*near, outcome(50, [100])])
        self.assertTrue(got["median_met"])
        self.assertFalse(got["p90_met"])
        self.assertEqual((got["within"], got["worst"]), (2, -0.5))
        wide = outcome(80, [80, 100, 120])  # within what its own runs differ by
        self.assertEqual(cases.judge([wide])["within"], 1)
        self.assertFalse(cases.judge([outcome(120, [100]), outcome(80, [100]),
                                      *near[:1]])["median_met"])

    def test_a_race_is_with_the_best(self):
        race = Race(case(), [job(22, none=(20, 1.1), bf16=(30, 0.7))])
        self.assertEqual((race.best, race.ratio), ("none", 1.1))
        self.assertFalse(replay_races.judge([race])["met"])
        other = Race(case(), [job(5, none=(20, 0.25), bf16=(5, 1.01)), job(6, bf16=(5, 1.2)),
                              job(4, bf16=(5, 0.8))])
        self.assertEqual((other.best, other.ratio), ("bf16", 1.01))
        self.assertEqual(other.as_json()["fp32_us"], 20)
        self.assertTrue(replay_races.judge([other])["met"])
        self.assertEqual(replay_races.judge([race, other])["within"], 1)

    def test_an_interval_is_of_one_job_or_from_the_least_of_several_to_the_most(self):
        one = Race(case(), [job(5, bf16=(5, 1.01))])
        self.assertEqual(one.interval, (1.01, 1.01, 0.95))
        several = Race(case(), [job(5, bf16=(5, ratio)) for ratio in (1.01, 0.9, 1.1, 1, 1.02)])
        self.assertEqual((several.ratio, several.interval), (1.01, (0.9, 1.1, 1 - 2 / 2 ** 5)))

    def test_a_case_in_doubt_has_several_jobs(self):
        races = replay_races.Races.__new__(replay_races.Races)
        races.arguments = argparse.Namespace(rounds=1)
        for ratios, wanted in (([], 1), ([1.05], 1), ([1.06], 5), ([1.06, 0.9, 0.9], 5)):
            races.runs_of = lambda _: [job(5, bf16=(5, ratio)) for ratio in ratios]
            self.assertEqual(races.wanted(case()), wanted, ratios)

    def test_models(self):
        self.assertEqual(cases.read_models("vgg16:0.125,lstm"), [("vgg16", 0.125), ("lstm", 1)])
        for bad in ("", "lstm:0", "lstm:2", "lstm:x", ":1"):
            with self.assertRaises(ValueError):
                cases.read_models(bad)

    def test_auto_may_take_what_it_is_compared_with(self):
        self.assertEqual(cases.may_take(["none", "bf16", "onebit"]), ["bf16", "bf16,onebit"])

    def test_cases_are_those_of_the_bar(self):
        models = cases.read_models(cases.MODELS)
        some = cases.list_cases(cases.SETTINGS, {2, 4}, models, cases.CODECS.split(","))
        self.assertEqual(len(some), 6 * 4 * (4 + 2))
        self.assertEqual({one.setting for one in some if one.ranks == 4}, {"1g", "10g"})


class Hosts(unittest.TestCase):
    def test_cores_are_shared_as_the_launcher_does(self):
        def shares(count, cores):
            hosts = links.Hosts(count, links.LINKS["none"], bound=True)
            return [hosts.share(host, list(range(cores))) for host in range(count)]
        self.assertEqual(shares(2, 2), [[0], [1]])
        self.assertEqual(shares(4, 2), [[0], [1], [0], [1]])
        self.assertEqual(shares(2, 5), [[0, 1], [2, 3, 4]])
        self.assertEqual(shares(3, 2), [[0, 1]] * 3)


class Tables(unittest.TestCase):
    def test_misses_are_said(self):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            cases.show_outcomes([outcome(2000, [4000, 4100], "bf16")])
            cases.show_judgement([outcome(2000, [4000, 4100], "bf16")])
            replay_races.show([Race(case(), [job(20, none=(10, 2.0))])])
        text = output.getvalue()
        self.assertIn("| 1g | 4 | vgg16 /8 | bf16 | 2 | 0.00 | 2.00 | 4.05 | -50.6 | 2.5 | 2 | far |",
                      text)
        self.assertEqual(text.count("**missed**"), 3)


class Runs(BuiltCase):
    """A tiny model over shared memory; the machine is not quiet, so that no time is judged."""

    def matrix(self, *more):
        return subprocess.run(
            [sys.executable, "-B", HERE / "replay_matrix.py", "--build", BUILD, "--folder",
             f"{self.folder}/kept", "--settings", "shm", "--models", "lstm:0.001", "--iterations",
             "3", "--rounds", "2", "--calibrate-seconds", "2", "--calibrate-elements", "64k",
             "--calibrate-doubt", "100", "--as-is",
             "--json", f"{self.folder}/out.json", "--csv", f"{self.folder}/out.csv", *more],
            env={**os.environ, "HWLOC_COMPONENTS": "-pci"},  # libpciaccess never frees its names
            text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=1000, check=False)

    def written(self):
        with open(f"{self.folder}/out.json", encoding="utf-8") as file:
            return json.load(file)

    def runs(self):
        """Those of predictions: the file has what memory was when profiles were made as well."""
        with open(f"{self.folder}/kept/runs.jsonl", encoding="utf-8") as file:
            return [line for line in map(json.loads, file) if line["kind"] == "prediction"]

    def test_goes_on_where_it_was_ended(self):
        result = self.matrix("--codecs", "bf16,onebit", "--seconds", "0")
        self.assertEqual(result.returncode, 3, result)  # the calibration, at least
        self.assertIn("runs are left", result.stderr)
        result = self.matrix("--codecs", "bf16,onebit")
        self.assertEqual(result.returncode, 0, result)
        self.assertEqual(len(self.runs()), 4)
        self.assertIn("2 of 2 cases", result.stdout)
        rows = self.written()["cases"]
        self.assertEqual([(row["codec"], len(row["runs_us"])) for row in rows],
                         [("bf16", 2), ("onebit", 2)])
        for row in rows:
            self.assertGreater(row["measured_us"], 5.3)  # backward
            self.assertAlmostEqual(row["error"], sum(
                told / took for told, took in zip(row["predictions_us"], row["runs_us"])) / 2 - 1)
        with open(f"{self.folder}/out.csv", encoding="utf-8", newline="") as file:
            self.assertEqual([row["codec"] for row in csv.DictReader(file)], ["bf16", "onebit"])
        again = self.matrix("--codecs", "bf16,onebit")
        self.assertEqual((again.returncode, len(self.runs())), (0, 4), again)

    def test_auto_races_with_fp32_and_bf16(self):
        result = self.matrix("--codecs", "none", "--auto", "--rounds", "1")
        self.assertEqual(result.returncode, 0, result)
        row, = self.written()["cases"]
        self.assertIn(row["jobs"], range(1, replay_races.JOBS + 1))  # until it is in no doubt
        self.assertEqual(row["turns"], 3)
        self.assertTrue(row["chosen"][0])
        self.assertGreater(min(row["auto_us"], row["fp32_us"], row["bf16_us"]), 5.3)  # backward
        self.assertTrue(row["low"] <= row["ratio"] <= row["high"])

    def test_a_run_that_fails_is_said(self):
        result = self.matrix("--codecs", "nonsense")
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("nonsense", result.stdout)
        self.assertNotIn("Traceback", result.stderr)

    def test_refusals(self):
        for arguments in (("--settings", "moon"), ("--ranks", "3"), ("--models", "lstm:7")):
            result = self.matrix(*arguments)
            self.assertEqual(result.returncode, 2, result)


if __name__ == "__main__":
    unittest.main()
