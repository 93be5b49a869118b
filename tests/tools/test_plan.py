#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wring plan: complete answers, plans between bound and greedy, pictures, and clear refusals."""
import json
import math
import os
import pathlib
import tempfile
import unittest
import xml.etree.ElementTree

import wringtest
from wringtest import wring

MEASURED = os.environ.get("WRING_TEST_TRACES", "")
FIELDS = {"iteration_us", "last_ready_us", "baseline_us", "espresso_us", "bound_us", "gap",
          "selection_us", "bound_time_us", "groups"}
CODECS = "onebit+ef,randk:ratio=0.01"


def make_trace(folder, tensors):
    """@param tensors [(name, elements, ready_us)]"""
    path = pathlib.Path(folder) / "trace.json"
    path.write_text(json.dumps({
        "format": "wring-trace", "version": 1, "model": "made <up> & \"so\"", "dtype": "float32",
        "forward_us": None, "source": "a test",
        "tensors": [{"name": name, "elements": elements, "ready_us": ready}
                    for name, elements, ready in tensors]}), encoding="utf-8")
    return str(path)


class Plans(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory()) if hasattr(
            self, "enterContext") else tempfile.mkdtemp()

    def plan(self, *arguments):
        result = wring("plan", "--json", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        return json.loads(result.stdout)

    def refuse(self, status, says, *arguments):
        result = wring("plan", *arguments)
        self.assertEqual(result.returncode, status, result)
        self.assertIn(says, result.stderr)
        self.assertEqual(result.stdout, "")
        if status == 1:
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_every_shipped_trace(self):
        for name in ("vgg16", "resnet50", "bert-base", "lstm", "ncf"):
            plan = self.plan("-t", name, "-c", CODECS, "--bound-ms", "50")
            self.assertLessEqual(FIELDS, plan.keys())
            self.assertLessEqual(plan["bound_us"], plan["iteration_us"] * (1 + 1e-9))
            self.assertAlmostEqual(plan["gap"], plan["iteration_us"] / plan["bound_us"] - 1, 9)
            for total, exposed in (("iteration_us", "exposed_us"), ("bound_us", "bound_exposed_us")):
                self.assertAlmostEqual(plan[total] - plan["last_ready_us"], plan[exposed], 3)
            self.assertLessEqual(plan["iteration_us"], plan["espresso_us"] * (1 + 1e-9), name)
            self.assertLessEqual(plan["last_ready_us"], plan["iteration_us"])
            self.assertLess(plan["iteration_us"], plan["baseline_us"]["fp16"], name)
            self.assertLess(plan["baseline_us"]["fp16"], plan["baseline_us"]["fp32"])

    def test_groups_are_the_tensors(self):
        tensors = [(f"t{i}", 10 ** (1 + i % 6), 50 * i) for i in range(20)]
        trace = make_trace(self.folder, tensors)
        plan = self.plan("-t", trace, "-c", CODECS)
        self.assertEqual([name for group in plan["groups"] for name in group["tensors"]],
                         [name for name, _, _ in tensors])
        self.assertEqual(sum(group["elements"] for group in plan["groups"]),
                         sum(elements for _, elements, _ in tensors))
        for group in plan["groups"]:
            self.assertIn(group["codec"], ["none", "fp16"] + CODECS.split(","))

    def test_same_question_same_plan(self):
        first, second = (self.plan("-t", "bert-base", "-c", CODECS, "--bound-ms", "0")
                         for _ in range(2))
        self.assertEqual(first["groups"], second["groups"])
        self.assertEqual(first["iteration_us"], second["iteration_us"])

    def test_a_proof_changes_no_method(self):
        """Who asks for Espresso's plan gets it, however much better the bound knows."""
        question = ("-t", "vgg16", "-c", CODECS, "--search", "espresso")
        without, proven = self.plan(*question, "--bound-ms", "0"), self.plan(*question)
        self.assertEqual(without["groups"], proven["groups"])
        self.assertEqual(without["iteration_us"], proven["iteration_us"])
        self.assertGreater(proven["gap"], 0)

    def test_a_faster_link_is_never_slower(self):
        times = [self.plan("-t", "vgg16", "-p", profile, "-c", CODECS, "--bound-ms", "0",
                           "--timeline", "phases")["baseline_us"]["fp32"]
                 for profile in ("espresso-pcie", "espresso-nvlink")]
        self.assertGreater(times[0], times[1])

    def test_what_nobody_allows_is_not_taken(self):
        plan = self.plan("-t", "vgg16", "--bound-ms", "0")
        self.assertEqual({group["codec"] for group in plan["groups"]} - {"none", "fp16"}, set())
        plan = self.plan("-t", "vgg16", "-c", CODECS, "--where", "device", "--bound-ms", "0")
        self.assertEqual({group["where"] for group in plan["groups"]} - {"", "device"}, set())

    def test_files(self):
        paths = {name: os.path.join(self.folder, name) for name in ("plan", "svg", "perfetto")}
        trace = make_trace(self.folder, [("<a> & \"b\"", 1000000, 0), ("c", 10, 5000)])
        plan = self.plan("-t", trace, "-c", CODECS, "-o", paths["plan"], "--svg", paths["svg"],
                         "--perfetto", paths["perfetto"])
        with open(paths["plan"], encoding="utf-8") as file:
            self.assertEqual(json.load(file), plan)
        root = xml.etree.ElementTree.parse(paths["svg"]).getroot()
        titles = [node.text for node in root.iter("{http://www.w3.org/2000/svg}title")]
        self.assertTrue(any("<a> & \"b\"" in title for title in titles), titles)
        with open(paths["perfetto"], encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        ends = [event["ts"] + event["dur"] for event in events if event["ph"] == "X"]
        self.assertAlmostEqual(max(ends), plan["iteration_us"], 3)
        self.assertTrue(any(event["args"]["critical"] for event in events if event["ph"] == "X"))

    def test_people_see_the_same(self):
        result = wring("plan", "-t", "vgg16", "-c", CODECS, "--bound-ms", "20")
        self.assertEqual(result.returncode, 0, result.stderr)
        for word in ("this plan", "bound", "computing alone", "float32", "fp16", "Espresso"):
            self.assertIn(word, result.stdout)
        self.assertIn("This build cannot run", result.stdout) # it has neither Rand-k nor a device

    def test_without_a_planner(self):
        """Every tensor by itself, all in one way; and codecs that none may do without."""
        none = self.plan("-t", "resnet101", "--search", "layers", "--bound-ms", "0")
        self.assertEqual(len({(group["codec"], group["scheme"]) for group in none["groups"]}), 1)
        self.assertEqual({len(group["tensors"]) for group in none["groups"]}, {1})
        self.assertLessEqual(none["iteration_us"], min(none["baseline_us"].values()) * (1 + 1e-9))
        coded = ("-t", "resnet101", "-c", "onebit+ef", "--where", "device", "--only")
        layers = self.plan(*coded, "--search", "layers")
        merged = self.plan(*coded, "--search", "mergecomp", "--bound-ms", "0")
        for plan in (layers, merged):
            self.assertEqual({group["codec"] for group in plan["groups"]}, {"onebit+ef"})
        self.assertIsNone(layers["bound_us"])
        self.assertLess(merged["iteration_us"], layers["iteration_us"])
        bound = self.plan(*coded, "--bound-ms", "50")
        self.assertLessEqual(bound["bound_us"], bound["iteration_us"])
        self.assertLessEqual(bound["bound_us"], merged["iteration_us"] * (1 + 1e-9))
        self.refuse(2, "--only", "-t", "vgg16", "--only")
        self.refuse(2, "--only", "-t", "vgg16", "-c", "onebit", "--only", "--search", "espresso")

    def test_options_are_counted(self):
        self.assertEqual(json.loads(wring("plan", "--list-options", "--json").stdout)["leaves"], 4341)
        one = json.loads(wring("plan", "--list-options", "--where", "device", "--json").stdout)
        self.assertEqual(one["leaves"], 174)
        self.assertEqual(len({option["text"] for option in one["options"]}), 174)
        lines = wring("plan", "--list-options").stdout.splitlines()
        self.assertEqual(len(lines), 4341 + 1)
        self.assertIn("4341 options: 63 flat, 4278 hierarchical", lines[-1])

    def test_refusals(self):
        self.refuse(2, "--trace is needed")
        self.refuse(1, "nothing", "-t", "/tmp/there/is/nothing.json")
        self.refuse(1, "vgg16", "-t", "vgg61")
        self.refuse(1, "espresso-pcie", "-t", "vgg16", "-p", "espreso")
        self.refuse(1, "nonsense", "-t", "vgg16", "-c", "nonsense")
        self.refuse(2, "--timeline", "-t", "vgg16", "--timeline", "half")
        self.refuse(2, "--where", "-t", "vgg16", "--where", "moon")
        self.refuse(2, "--max-nmse", "-t", "vgg16", "--max-nmse", "none")
        self.refuse(1, "a budget of 0:", "-t", "vgg16", "-c", "onebit", "--max-nmse", "0")
        trace = make_trace(self.folder, [("a", 5, 10), ("b", 0, 20)])
        self.refuse(1, "tensors[1].elements", "-t", trace)
        trace = make_trace(self.folder, [("a", 5, 10), ("a", 5, 20)])
        self.refuse(1, "tensors[1]", "-t", trace)

    @unittest.skipUnless(MEASURED, "WRING_TEST_TRACES names no folder of measured traces")
    def test_published_times(self):
        trace = os.path.join(MEASURED, "vgg16.json")
        phases = self.plan("-t", trace, "--bound-ms", "0")["baseline_us"]
        self.assertAlmostEqual(phases["fp32"] / 1e3, 915.6, delta=0.1)
        self.assertAlmostEqual(phases["fp16"] / 1e3, 459.4, delta=0.1)
        serial = self.plan("-t", trace, "--timeline", "serial", "--bound-ms", "0")["baseline_us"]
        self.assertAlmostEqual(serial["fp32"] / 1e3, 1171.8, delta=0.1)

    @unittest.skipUnless(MEASURED, "WRING_TEST_TRACES names no folder of measured traces")
    def test_measured_traces_beat_the_greedy(self):
        better = 0
        for path in sorted(pathlib.Path(MEASURED).glob("*.json")):
            plan = self.plan("-t", str(path), "-c", CODECS, "--bound-ms", "0")
            self.assertLessEqual(plan["iteration_us"], plan["espresso_us"] * (1 + 1e-9), path)
            self.assertTrue(math.isfinite(plan["iteration_us"]))
            better += plan["iteration_us"] < 0.99 * plan["espresso_us"]
        self.assertGreater(better, 3)


wringtest.main()
