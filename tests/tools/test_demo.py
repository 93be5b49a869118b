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


SHORT = ("demo", "--losses-only", "-n", "2", "--hidden", "16", "--steps", "40")


class Files(unittest.TestCase):
    """What a series keeps, and what it finds there."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.results = self.path("results")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def kept(self):
        with open(self.results, "rb") as file:
            return file.read()

    def train(self, *codecs, **options):
        """@return the results of a command that succeeds, and what it said"""
        asked = [word for name, value in options.items() for word in ("--" + name, value)]
        result = wring(*SHORT, "--json", "--codec", ",".join(codecs), "--results", self.results,
                       *asked)
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout)
        self.assertIsNone(found["report"], "none is written without times")
        return {run["config"]: run["losses"] for run in found["runs"]}, result.stderr

    def refuse(self, reason, *arguments):
        """One line says it, before anything is trained: all these steps would take a day."""
        result = wring(*SHORT[:-1], "1000000", *arguments)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(reason, result.stderr)

    def test_a_series_goes_on_where_a_line_was_cut(self):
        losses, _ = self.train("fp32", "bf16")
        whole = self.kept()
        self.write("results", whole[:-100])
        again, said = self.train("fp32", "bf16")
        self.assertIn("cut short", said)
        self.assertEqual(again, losses)
        self.assertEqual(self.kept(), whole, "the cut line is gone, and that training made again")

    def test_a_series_goes_on_after_a_line_without_its_end(self):
        self.train("fp32")
        self.write("results", self.kept()[:-1])
        self.train("fp32", "bf16")
        codecs = [json.loads(line)["key"]["codec"] for line in self.kept().splitlines()]
        self.assertEqual(codecs, ["none", "bf16"])

    def test_a_training_counts_for_its_data_alone(self):
        """Other text of the same size is other text."""
        texts = [self.write(name, bytes((97 + (i * i + i // 7) % apart) for i in range(40000)))
                 for name, apart in (("one", 23), ("other", 19))]
        losses = [self.train("fp32", text=text)[0] for text in texts]
        self.assertNotEqual(*losses)
        self.assertEqual(self.train("fp32", text=texts[0])[0], losses[0])
        self.assertEqual(self.kept().count(b"\n"), 2)

    def test_a_training_of_an_earlier_release_counts(self):
        """Which kept no hash of the data."""
        losses, _ = self.train("fp32")
        line = json.loads(self.kept())
        del line["data_hash"]
        line["losses"][3] = 7.5
        self.write("results", json.dumps(line).encode() + b"\n")
        self.assertEqual(self.train("fp32")[0]["fp32"][3], 7.5)
        self.assertNotEqual(losses["fp32"][3], 7.5)

    def test_other_files_are_refused_and_stay(self):
        self.train("fp32")
        line = json.loads(self.kept())
        for field, wrong in (("wire_bytes", "x"), ("losses", ["x"]), ("losses", 1), ("hash", 1),
                             ("key", "x")):
            with self.subTest(field=field, wrong=wrong):
                data = json.dumps({**line, field: wrong}).encode() + b"\n"
                self.write("results", data)
                self.refuse("line 1 is no finished training", "--results", self.results)
                self.assertEqual(self.kept(), data)
        for data in (b"hello", b"hello\n", b"\n", b"[]\n", b"\0\xff\n", b"\0", b"{}", b'{"key":1}',
                     json.dumps(line).encode() + b"\0more\n"):
            with self.subTest(data=data):
                self.write("results", data)
                self.refuse("line 1 is no finished training", "--results", self.results)
                self.assertEqual(self.kept(), data)
        self.refuse("a regular file", "--results", self.folder)
        self.refuse("a regular file", "--results", "/dev/zero")

    def test_files_are_tried_before_the_training(self):
        missing = self.path("missing")
        for option, name in (("--results", "r"), ("--table", "t.md"), ("--record-gradients", "g")):
            with self.subTest(option=option):
                self.refuse(f"{name}: cannot be written: No such file or directory", option,
                            os.path.join(missing, name))
        self.refuse("Is a directory", "--record-gradients", self.folder)
        page = self.write("page.md", b"<!-- begin: wring demo --task text --optimizer sgd -->\n")
        self.refuse("is missing", "--table", page)
        self.refuse("Is a directory", "--text", self.folder)
        result = wring("demo", "-n", "2", "--steps", "1000000", "--report",
                       os.path.join(missing, "x"))
        self.assertEqual((result.returncode, len(result.stderr.splitlines())), (1, 1), result.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), ["page.md"], "nothing was left")

    def test_options_that_would_not_count_are_refused(self):
        for arguments, reason in ((("--report", self.path("x")), "--report needs times"),
                                  (("--tune", "--seed", "0"), "seed 0")):
            result = wring(*SHORT, *arguments)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(reason, result.stderr)


if __name__ == "__main__":
    wringtest.main()
