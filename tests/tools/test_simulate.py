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

LINE = {"corners": [[0, 5]], "slope": 0.002}
CURVE = {**LINE, "error": 0, "spread": 0, "doubt": 0, "samples": 9, "points": 3, "noisy": 0}
COLLECTIVE = {"cores": 2, "max_elements": 1 << 24, "solo_us": CURVE, "busy_us": CURVE,
       "wire_bytes": {"corners": [[0, 0]], "slope": 4},
       "cpu_us": {**CURVE, "corners": [[0, 1]], "slope": 0.001}}


def measured(nodes, ranks_per_node):
    """A profile as calibration writes it, of two ranks on a machine that is not this one."""
    level = "inter" if nodes > 1 else "intra"
    entries = [{"codec": "none", "run_as": "auto", "ranks": nodes * ranks_per_node, **COLLECTIVE},
            {"codec": "fp16", "run_as": "divisible", "ranks": nodes * ranks_per_node, **COLLECTIVE}]
    coding = {"encode_us": LINE, "decode_us": LINE}
    return {"format": "wring-profile", "version": 1, "name": "made", "source": "by hand",
            "machine": f"wring 0.0.1, Abacus, 2 cores, {nodes} x {ranks_per_node} ranks over shm",
            "nodes": nodes, "ranks_per_node": ranks_per_node, "chunked": True,
            "links": {level: {"provider": "shm", "latency_us": 20,
                              "us_by_bytes": {"corners": [[0, 0]], "slope": 0.0004}}},
            "codecs": [{"spec": "fp16", "summable": False, "feedback": False, "nmse": 1e-7,
                        "wire_bytes": {"corners": [[0, 0]], "slope": 2}, "at": {"cpu": coding}}],
            "ways": entries}


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
            least = 1 - 1e-9 if point["link_jitter"] == 0 else 0.98 # plans do not know of it
            self.assertGreater(point["speedup_fp32"], least, point)
            self.assertGreater(point["speedup_fp16"], least, point)
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

    def test_runnable_says_what_cannot_be(self):
        """A codec that no option is left for is named once, of all points and with each by itself."""
        profile = measured(2, 1)
        profile["codecs"].append({**profile["codecs"][0], "spec": "sketch:ratio=0.5"})
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "profile.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(profile, file)
            self.check_sketch(("simulate", "-t", "vgg16", "-p", path, "-N", "2,8", "-l", "10,25",
                               "-c", "sketch:ratio=0.5,fp16", "--each"))

    def check_sketch(self, question):
        result = wring(*question, "--runnable")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("do without"), 1, result.stderr)
        self.assertIn("plans do without sketch:ratio=0.5: it has no option that this build can run",
                      result.stderr)
        self.assertNotIn("do without", wring(*question).stderr)

    def test_jitter_by_seed(self):
        slow = ("-N", "64", "-c", "onebit+ef", "--jitter", "0.1")
        first, same, other = (self.simulate(*slow, "--seed", seed)["points"][0]
                              for seed in ("1", "1", "2"))
        self.assertEqual(first, same)
        self.assertNotEqual(first["iteration_us"], other["iteration_us"])
        calm = self.simulate("-N", "64", "-c", "onebit+ef")["points"][0]
        self.assertGreater(first["iteration_us"], calm["iteration_us"] * 1.1)

    def test_link_jitter_by_seed(self):
        jittery = ("-N", "64", "-c", "onebit+ef", "--link-jitter", "0,0.1,0.4")
        first, same, other = (self.simulate(*jittery, "--seed", seed)["points"]
                              for seed in ("1", "1", "2"))
        self.assertEqual(first, same)
        self.assertEqual([point["link_jitter"] for point in first], [0, 0.1, 0.4])
        self.assertEqual(first[0], other[0]) # nothing is drawn
        self.assertNotEqual(first[1]["iteration_us"], other[1]["iteration_us"])
        calm = self.simulate("-N", "64", "-c", "onebit+ef")["points"][0]
        self.assertEqual(first[0], calm)
        times = [point["iteration_us"] for point in first]
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[1], times[0])
        self.assertGreater(first[1]["p90_us"], times[1])

    def test_more_links_have_a_slower_one(self):
        """What is exchanged on the slowest of n links takes longer the more there are of them."""
        def slower(nodes):
            calm, jittery = self.simulate("-N", nodes, "-l", "1", "-g", "1", "--link-jitter",
                                          "0,0.2", "-c", "onebit+ef")["points"]
            return jittery["fp32_us"] / calm["fp32_us"]
        few, many = slower("4"), slower("1024")
        self.assertGreater(few, 1.05)   # exp(0.2 * 1), the median of 4
        self.assertGreater(many, few * 1.2) # exp(0.2 * 3.2)

    def test_jitter_on_the_links_inside_nodes(self):
        calm, jittery = self.simulate("-N", "1", "-g", "8", "--link-jitter", "0,0.3")["points"]
        self.assertGreater(jittery["fp32_us"], calm["fp32_us"] * 1.1)

    def test_a_slow_link(self):
        def fp32(*arguments):
            return self.simulate("-N", "8", "-l", "1", "-c", "onebit+ef",
                                 *arguments)["points"][0]["fp32_us"]
        calm = fp32()
        self.assertAlmostEqual(fp32("--link-straggler", "2") / calm, 2, delta=0.1)
        alone = self.simulate("-N", "1", "-c", "onebit+ef")["points"][0]
        inside = self.simulate("-N", "1", "-c", "onebit+ef", "--link-straggler", "2")["points"][0]
        self.assertEqual(alone, inside) # no link between nodes is there to be slow

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

    def test_what_local_steps_changed_has_a_plan_of_its_own(self):
        """All of it is there at once: it takes what wring plan says of such a trace."""
        with tempfile.TemporaryDirectory() as folder:
            def trace(name, ready):
                path = os.path.join(folder, name)
                with open(path, "w", encoding="utf-8") as file:
                    json.dump({"format": "wring-trace", "version": 1, "model": "m",
                               "dtype": "float32", "forward_us": 100,
                               "tensors": [{"name": f"t{i}", "elements": 50000, "ready_us": at}
                                           for i, at in enumerate(ready)]}, file)
                return path
            apart, at_once = trace("apart", (0, 2000, 4000, 6000)), trace("at-once", (0, 0, 0, 0))
            cluster = ("-p", "espresso-pcie", "-N", "2", "-g", "1")
            plan = lambda path: json.loads(wring("plan", "--json", "--bound-ms", "0", "-t", path,
                                                 *cluster).stdout)
            self.assertGreater(len(plan(apart)["groups"]), len(plan(at_once)["groups"]))
            point, = json.loads(wring("simulate", "--json", "-t", apart, "-p", "espresso-pcie",
                                      "-g", "1", "-N", "2", "-l", "0.01", "--local-steps",
                                      "2").stdout)["points"]
            slow = json.loads(wring("simulate", "--json", "-t", at_once, "-p", "espresso-pcie",
                                    "-g", "1", "-N", "2", "-l", "0.01").stdout)["points"][0]
            step = 100 + 6000
            self.assertAlmostEqual(point["iteration_us"],
                                   step + (slow["iteration_us"] - 2 * step) / 2 - 100, 3)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            table, picture = os.path.join(folder, "t.csv"), os.path.join(folder, "p.svg")
            points = self.simulate("-N", "2,8", "-l", "10", "-c", "onebit+ef", "--csv", table,
                                   "--link-jitter", "0,0.25", "--svg", picture)["points"]
            with open(table, encoding="ascii", newline="") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual([int(row["nodes"]) for row in rows], [2, 2, 8, 8])
            for row, point in zip(rows, points):
                self.assertAlmostEqual(float(row["iteration_us"]), point["iteration_us"], 2)
                self.assertEqual(float(row["link_jitter"]), point["link_jitter"])
            self.assertIn("svg", xml.etree.ElementTree.parse(picture).getroot().tag)
            with open(picture, encoding="utf-8") as file:
                drawn = file.read()
            self.assertEqual(drawn.count("<polyline"), 3 * 2) # three charts, a curve for each jitter
            self.assertIn("link jitter 0.25", drawn)

    def of_types(self, folder, *dtypes):
        """@return a trace's path"""
        path = os.path.join(folder, "typed.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"format": "wring-trace", "version": 1, "model": "m", "dtype": "float32",
                       "tensors": [{"name": f"t{i}", "elements": 4000000, "ready_us": 100 * i} |
                                   ({} if dtype == "float32" else {"dtype": dtype})
                                   for i, dtype in enumerate(dtypes)]}, file)
        return path

    def test_what_factors_are_relative_to(self):
        """Uncompressed tensors of the trace's types; with no float32 among them fp16 is the same."""
        for dtypes, types, fp16 in (
                (("float32", "float32"), "float32", True),
                (("bfloat16", "bfloat16"), "bfloat16", False),
                (("float16", "float16"), "float16", False),
                (("float32", "bfloat16"), "mixed types", True),
                (("float16", "bfloat16"), "mixed types", False)):
            with self.subTest(dtypes=dtypes), tempfile.TemporaryDirectory() as folder:
                picture = os.path.join(folder, "p.svg")
                asked = ("simulate", "-t", self.of_types(folder, *dtypes), "-N", "4", "-l", "10",
                         "-c", "onebit+ef")
                result = wring(*asked, "--json", "--svg", picture)
                self.assertEqual(result.returncode, 0, result.stderr)
                answer = json.loads(result.stdout)
                point, = answer["points"]
                if types == "float32":
                    self.assertNotIn("relative_to", answer)
                else:
                    self.assertEqual(answer["relative_to"],
                                     {"speedup_fp32": types,
                                      "speedup_fp16": "16 bits" if fp16 else types})
                self.assertEqual(point["speedup_fp32"] == point["speedup_fp16"], not fp16)
                table = wring(*asked).stdout.splitlines()
                heading, = (line for line in table if "iteration" in line and "scaling" in line)
                self.assertIn(f"scaling  x {types}", heading)
                self.assertEqual("x fp16" in heading, fp16)
                self.assertRegex(table[table.index(heading) + 1 :][-1], r"onebit\+ef +parts$")
                with open(picture, encoding="utf-8") as file:
                    drawn = file.read()
                self.assertIn(f"speed-up against {types}<", drawn)
                self.assertEqual("speed-up against fp16" in drawn, fp16)

    def of_profile(self, profile, *arguments, status=0):
        """Of a measured profile. @return points and what is said beside them"""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(profile, file)
            file.flush()
            result = wring("simulate", "--json", "-t", "lstm", "-p", file.name, *arguments)
        self.assertEqual(result.returncode, status, result)
        return status == 0 and json.loads(result.stdout)["points"], result.stderr

    def test_a_profile_without_links_between_nodes(self):
        (point,), _ = self.of_profile(measured(1, 2))
        self.assertEqual((point["ranks"], point["costs"], point["link_gbit"]), (2, "measured", None))
        (point,), _ = self.of_profile(measured(1, 2), "--rack", "4")
        self.assertEqual(point["costs"], "measured")
        _, says = self.of_profile(measured(1, 2), "-l", "10", status=1)
        self.assertIn("--link: the profile made does not know how fast a link between nodes", says)

    def test_nothing_to_exchange(self):
        for profile in (measured(1, 2), measured(2, 1)):
            (point,), _ = self.of_profile(profile, "-N", "1", "-g", "1")
            self.assertEqual((point["costs"], point["speedup_fp16"]), ("nothing", 1))

    def test_measured_collectives_have_the_links_asked_for(self):
        (usual,), _ = self.of_profile(measured(2, 1))
        points, _ = self.of_profile(measured(2, 1), "-l", "5,20,80")
        self.assertEqual([point["costs"] for point in points], ["rescaled", "measured", "rescaled"])
        times = [point["fp32_us"] for point in points]
        self.assertGreater(times[0], times[1] * 1.5)
        self.assertAlmostEqual(times[1], usual["fp32_us"], 6)
        self.assertLess(times[2], times[1] * 0.9)

    def test_another_machine(self):
        _, says = self.of_profile(measured(1, 2))
        self.assertEqual(says.count("\n"), 1, says)
        self.assertIn("measured on another machine than this one: wring 0.0.1 and not ", says)
        self.assertIn("processor Abacus and not ", says)

    def test_refusals(self):
        for arguments, status, says in (
                ((), 2, "--trace is needed"),
                (("-t", "vgg16", "-N", "0"), 2, "--nodes"),
                (("-t", "vgg16", "-l", "fast"), 2, "--link"),
                (("-t", "vgg16", "--link-jitter", "0.1,-1"), 2, "--link-jitter"),
                (("-t", "vgg16", "--link-jitter", "nan"), 2, "--link-jitter"),
                (("-t", "vgg16", "--link-straggler", "0.5"), 2, "--link-straggler"),
                (("-t", "vgg16", "--link-jitter", "0.1", "--timeline", "serial"), 2,
                 "--timeline serial does not tell links apart"),
                (("-t", "vgg16", "--svg", "/nowhere/p.svg"), 1, "/nowhere/p.svg")):
            result = wring("simulate", *arguments)
            self.assertEqual(result.returncode, status, result)
            self.assertIn(says, result.stderr)


wringtest.main()
