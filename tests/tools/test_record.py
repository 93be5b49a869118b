#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""WRING_RECORD: a job writes a trace of itself, of which plans are made that run."""
import json
import os
import sys
import tempfile
import unittest

JOB = sys.argv.pop(2) if len(sys.argv) > 2 else "build/tests/tools/recorded_job"

import wringtest  # takes the tool from the command line
from wringtest import wring

ENOUGH = 9  # iterations: two that do not count, seven that do


class Records(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.trace = os.path.join(folder.name, "trace.json")
        self.plan = os.path.join(folder.name, "plan.json")

    def run_job(self, what, iterations, ranks=2, **settings):
        """@return what it has logged"""
        result = wring("run", "-n", str(ranks), "--", JOB, what, str(iterations),
                       **{"WRING_RECORD": self.trace, **settings})
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def read(self):
        with open(self.trace, encoding="utf-8") as file:
            trace = json.load(file)
        self.assertEqual((trace["format"], trace["version"], trace["dtype"]),
                         ("wring-trace", 1, "float32"))
        self.assertEqual(os.listdir(self.folder), ["trace.json"], "a draft is left")
        return trace["tensors"]

    def make_plan(self, *arguments):
        result = wring("plan", "--json", "-t", self.trace, "-N", "2", "-g", "1", "--runnable",
                       "--where", "cpu", "--bound-ms", "0", "-o", self.plan, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def assert_ready(self, tensors, least_ms):
        """Computing is there, one after another; the machine may have taken longer."""
        for tensor, ms in zip(tensors, least_ms):
            self.assertGreaterEqual(tensor["ready_us"], 1000 * ms, tensors)
        ready = [tensor["ready_us"] for tensor in tensors]
        self.assertEqual(ready, sorted(ready))

    def test_buckets(self):
        said = self.run_job("buckets", ENOUGH, WRING_LOG="info")
        self.assertIn(f"WRING_RECORD={self.trace}: the trace is written, 4 tensors", said)
        tensors = self.read()
        self.assertEqual([(t["name"], t["elements"]) for t in tensors],
                         [("d", 700), ("c", 12000), ("b", 1), ("a", 5000)])
        self.assert_ready(tensors, (8, 10, 11, 14))

    def test_a_plan_of_it_runs(self):
        self.run_job("buckets", ENOUGH + 1)
        self.make_plan("-c", "none")
        said = self.run_job("buckets", 3, WRING_PLAN=self.plan, WRING_RECORD="", WRING_LOG="debug")
        self.assertIn("group", said)

    def test_buckets_that_are_waited_for_one_by_one(self):
        self.run_job("each", ENOUGH + 1)
        self.assert_ready(self.read(), (8, 10, 11, 14))

    def test_under_a_plan(self):
        """What is recorded is what the program posts, however it travels."""
        self.run_job("buckets", ENOUGH + 1)
        before = [(t["name"], t["elements"]) for t in self.read()]
        self.make_plan("-c", "none")
        os.unlink(self.trace)
        self.run_job("buckets", ENOUGH + 1, WRING_PLAN=self.plan)
        os.unlink(self.plan)
        self.assertEqual([(t["name"], t["elements"]) for t in self.read()], before)

    def test_a_job_that_plans_for_itself(self):
        self.run_job("buckets", 3 * ENOUGH, WRING_PLAN="auto", WRING_PLAN_SECONDS="0.05",
                     WRING_CACHE="off")
        tensors = self.read()
        self.assertEqual([t["elements"] for t in tensors], [700, 12000, 1, 5000])
        self.assert_ready(tensors, (8, 10, 11, 14))

    def test_calls(self):
        """The iteration is found among what comes before and after, and begins where computing is
        longest; a sum of doubles is none of its tensors, and its time computing."""
        said = self.run_job("calls", ENOUGH + 3, WRING_LOG="info")
        self.assertIn("iterations of 5 calls among all ranks, of which 4 are sums of f32", said)
        tensors = self.read()
        self.assertEqual([(t["name"], t["elements"]) for t in tensors],
                         [("call 1 of 5", 4096), ("call 2 of 5", 4096), ("call 3 of 5", 4096),
                          ("call 5 of 5", 100)])
        self.assert_ready(tensors, (60, 62, 64, 67))

    def test_a_plan_of_calls_runs(self):
        self.run_job("calls", ENOUGH + 3)
        plan = self.make_plan("-c", "onebit")
        answer = wring("replay", "--json", "-t", self.trace, "--plan", self.plan, "-n", "2", "-p",
                       "shm", "--iterations", "3")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(json.loads(answer.stdout)["wrong"], 0)
        self.assertEqual(sum(len(group["tensors"]) for group in plan["groups"]), 4)

    def test_mixed_types(self):
        """The trace has each bucket's type; a plan of it runs, in the job and in a replay."""
        self.run_job("mixed", ENOUGH + 1)
        tensors = self.read()
        self.assertEqual([(t["elements"], t.get("dtype", "float32")) for t in tensors],
                         [(700, "float32"), (12000, "bfloat16"), (1, "float32"), (5000, "bfloat16")])
        self.make_plan("-c", "onebit")
        self.run_job("mixed", 3, WRING_PLAN=self.plan, WRING_RECORD="")
        answer = wring("replay", "--json", "-t", self.trace, "--plan", self.plan, "-n", "2", "-p",
                       "tcp", "--iterations", "3")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        answer = json.loads(answer.stdout)
        self.assertEqual(answer["wrong"], 0)
        self.assertEqual([t["dtype"] for t in answer["tensors"]], ["float32", "bfloat16"] * 2)

    def test_layers_of_one_size_are_no_iterations(self):
        self.run_job("stack", ENOUGH + 2)
        tensors = self.read()
        self.assertEqual([t["elements"] for t in tensors], [64] * 60 + [512])

    def test_alike_calls_are_told_apart_by_computing(self):
        """By chance another stretch may seem as long, now and then."""
        self.run_job("alike", 40)
        tensors = self.read()
        self.assertEqual([t["elements"] for t in tensors], [12000] * 3)
        self.assert_ready(tensors, (60, 60, 60))

    def test_a_job_of_one_rank(self):
        self.run_job("calls", ENOUGH + 3, ranks=1)
        self.assertEqual(len(self.read()), 4)

    def test_what_cannot_be_recorded_is_said(self):
        cases = (
            ("buckets", 4, "the job ended after 4 of 9 iterations"),
            ("calls", 4, "no sequence with a sum of f32, f16 or bf16 repeats 9 times in a row"),
            ("other", 40, "among the job's 40 calls of all ranks no sequence with a sum of f32"),
            ("doubles", 700, "no sequence with a sum of f32"),
        )
        for what, iterations, reason in cases:
            with self.subTest(what):
                said = self.run_job(what, iterations)
                self.assertIn(f"WRING_RECORD={self.trace}: no trace is written: ", said)
                self.assertIn(reason, said)
                self.assertEqual(said.count("WRING_RECORD"), 1, said)
                self.assertEqual(os.listdir(self.folder), [])

    def test_a_file_that_cannot_be_written(self):
        """It is said at the beginning, by rank 0 alone; the job goes on."""
        path = os.path.join(self.folder, "nowhere", "trace.json")
        for what in ("buckets", "calls"):
            said = self.run_job(what, ENOUGH + 3, WRING_RECORD=path)
            self.assertIn(f"WRING_RECORD={path}: no trace can be written there: No such file or "
                          "directory: name a file in a folder that exists", said)
            self.assertEqual(said.count("WRING_RECORD"), 1, said)

    def test_a_trace_that_is_there_is_replaced(self):
        with open(self.trace, "w", encoding="utf-8") as file:
            file.write("old")
        self.run_job("buckets", 4)
        with open(self.trace, encoding="utf-8") as file:
            self.assertEqual(file.read(), "old", "it was replaced by nothing")
        self.run_job("buckets", ENOUGH + 1)
        self.assertEqual(len(self.read()), 4)


if __name__ == "__main__":
    wringtest.main()
