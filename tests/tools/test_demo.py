#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the demo exchanges: bytes that a codec's definition predicts. And which rate it chooses."""
import json
import os
import tempfile
import unittest

import wringtest
from wringtest import wring

HIDDEN, DIMENSIONS, VALUES, INPUT = 64, 16, 256, 256  # units; of an embedding; of a byte; inputs
MATRICES = ((HIDDEN, VALUES), (HIDDEN, HIDDEN), (INPUT, HIDDEN), (VALUES, DIMENSIONS))
BIASES = VALUES + 2 * HIDDEN  # sent as they are; over shared memory none is counted
FLOAT = 4  # bytes


class Exchange(unittest.TestCase):
    def sent(self, *codecs):
        """@return {codec: bytes that one of two ranks sends in a step}"""
        result = wring("demo", "--losses-only", "--json", "-n", "2", "--hidden", str(HIDDEN),
                       "--steps", "40", "--codec", ",".join(codecs))
        self.assertEqual(result.returncode, 0, result.stderr)
        return {run["config"]: run["wire_bytes"] for run in json.loads(result.stdout)["runs"]}

    def test_each_matrix_travels_as_its_factors(self):
        """Also those that other codecs take in one bucket."""
        sent = self.sent("powersgd:rank=1+ef", "powersgd:rank=2+ef")
        factors = FLOAT * sum(rows + columns for rows, columns in MATRICES)
        for rank in (1, 2):
            with self.subTest(rank=rank):
                wire = sent[f"powersgd:rank={rank}+ef"]
                self.assertGreaterEqual(wire, rank * factors)
                self.assertLess(wire, rank * factors + FLOAT * BIASES + 1024)

    def test_the_rate_has_the_least_mean_loss_of_its_neighbours(self):
        with tempfile.TemporaryDirectory() as folder:
            results = os.path.join(folder, "results")
            result = wring("demo", "--losses-only", "--json", "-n", "2", "--hidden", "16",
                           "--steps", "40", "--codec", "fp32", "--tune=2", "--results", results)
            self.assertEqual(result.returncode, 0, result.stderr)
            with open(results, encoding="utf-8") as file:
                trainings = [json.loads(line) for line in file]
        found = json.loads(result.stdout)["runs"][0]["rate"]
        losses = {}
        for training in trainings:
            if training["key"]["seed"] != 1:
                losses.setdefault(training["key"]["rate"], []).append(training["last_loss"])
        self.assertTrue(all(len(each) == 2 and each[0] != each[1] for each in losses.values()))
        for neighbour in (found / 2, found * 2):
            if neighbour in losses:
                self.assertGreaterEqual(sum(losses[neighbour]), sum(losses[found]))
        self.assertGreater(len(losses), 1)

    def test_many_codecs_are_all_drawn(self):
        """More than a chart has room for, of two seeds."""
        specs = [f"int8:block={32 * (i + 1)}" for i in range(22)]
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.html")
            result = wring("demo", "-n", "2", "--hidden", "16", "--steps", "40", "--seeds", "2",
                           "--timed-steps", "20", "--codec", ",".join(["fp32", "onebit"] + specs),
                           "--report", report)
            self.assertEqual(result.returncode, 0, result.stderr)
            with open(report, encoding="utf-8") as file:
                text = file.read()
        self.assertRegex(result.stdout, r"Codecs can(not)? be told apart")
        self.assertRegex(text, r"negative control loses -?\d\.\d+\. Codecs can(not)? be told apart")
        for spec in specs:
            self.assertEqual(text.count(f">{spec}</text>"), 2, spec)  # against steps, and time


if __name__ == "__main__":
    wringtest.main()
