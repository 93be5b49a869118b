#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wring simulate: complete points that are ordered as they must be, and repeatable."""
import csv
import json
import os
import tempfile
import unittest
import xml.etree.ElementTree

import wringtest
from wringtest import wring

FIELDS = {"nodes", "link_gbit", "iteration_us", "scaling_factor", "speedup_fp32", "speedup_fp16"}


class Sweeps(unittest.TestCase):
    def simulate(self, *arguments):
        result = wring("simulate", "--json", "-t", "vgg16", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        answer = json.loads(result.stdout)
        for point in answer["points"]:
            self.assertLessEqual(FIELDS, point.keys())
            self.assertTrue(0 < point["scaling_factor"] <= 1 + 1e-9, point)
            self.assertGreater(point["speedup_fp32"], 1 - 1e-9, point)
            self.assertGreater(point["speedup_fp16"], 1 - 1e-9, point)
            self.assertGreaterEqual(point["p90_us"], point["iteration_us"])
        return answer

    def test_all_combinations(self):
        points = self.simulate("-N", "2,8,64", "-l", "10,100", "-c", "onebit+ef,randk:ratio=0.01",
                               "--each")["points"]
        self.assertEqual(len(points), 3 * 2 * 3)
        self.assertEqual({point["codec"] for point in points},
                         {"all", "onebit+ef", "randk:ratio=0.01"})
        for point in points:
            if point["codec"] == "all": # more to choose from is no worse, but for what search misses
                for other in points:
                    if (other["nodes"], other["link_gbit"]) == (point["nodes"], point["link_gbit"]):
                        self.assertLess(point["iteration_us"], other["iteration_us"] * 1.02)

    def test_faster_links(self):
        points = self.simulate("-N", "8", "-l", "1,10,100,1000", "-c", "onebit+ef")["points"]
        times = [point["iteration_us"] for point in points]
        self.assertEqual(times, sorted(times, reverse=True))
        self.assertEqual([point["link_gbit"] for point in points], [1, 10, 100, 1000])

    def test_thousands_of_nodes(self):
        points = self.simulate("-N", "4096", "-l", "25,100", "-c", "onebit+ef")["points"]
        self.assertEqual(points[0]["ranks"], 4096 * 8)

    def test_jitter_by_seed(self):
        slow = ("-N", "64", "-c", "onebit+ef", "--jitter", "0.1")
        first, same, other = (self.simulate(*slow, "--seed", seed)["points"][0]
                              for seed in ("1", "1", "2"))
        self.assertEqual(first, same)
        self.assertNotEqual(first["iteration_us"], other["iteration_us"])
        calm = self.simulate("-N", "64", "-c", "onebit+ef")["points"][0]
        self.assertGreater(first["iteration_us"], calm["iteration_us"] * 1.1)

    def test_a_straggler(self):
        calm, slow = (self.simulate("-N", "8", "-c", "onebit+ef", "--straggler", by)["points"][0]
                      for by in ("1", "2"))
        self.assertGreater(slow["iteration_us"], calm["iteration_us"] + calm["iteration_us"] / 2)

    def test_racks(self):
        near = self.simulate("-N", "8", "-l", "10", "--rack", "8", "--oversubscription", "4")
        far = self.simulate("-N", "8", "-l", "10", "--rack", "2", "--oversubscription", "4")
        self.assertLess(near["points"][0]["iteration_us"], far["points"][0]["iteration_us"])

    def test_local_steps(self):
        points = self.simulate("-N", "8", "-l", "1", "--local-steps", "1,4,64")["points"]
        times = [point["iteration_us"] for point in points]
        self.assertEqual(times, sorted(times, reverse=True))
        self.assertAlmostEqual(points[2]["scaling_factor"], 1, delta=0.01)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            table, picture = os.path.join(folder, "t.csv"), os.path.join(folder, "p.svg")
            points = self.simulate("-N", "2,8", "-l", "10", "-c", "onebit+ef", "--csv", table,
                                   "--svg", picture)["points"]
            with open(table, encoding="ascii", newline="") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual([int(row["nodes"]) for row in rows], [2, 8])
            for row, point in zip(rows, points):
                self.assertAlmostEqual(float(row["iteration_us"]), point["iteration_us"], 2)
            self.assertIn("svg", xml.etree.ElementTree.parse(picture).getroot().tag)

    def test_refusals(self):
        for arguments, status, says in (
                ((), 2, "--trace is needed"),
                (("-t", "vgg16", "-N", "0"), 2, "--nodes"),
                (("-t", "vgg16", "-l", "fast"), 2, "--link"),
                (("-t", "vgg16", "--svg", "/nowhere/p.svg"), 1, "/nowhere/p.svg")):
            result = wring("simulate", *arguments)
            self.assertEqual(result.returncode, status, result)
            self.assertIn(says, result.stderr)


wringtest.main()
