#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wring calibrate --gradients: what codecs lose of them, how long codes are, and plans that bear it."""
import json
import os
import tempfile
import unittest

import wringtest
from calibrating import calibrate, write_gradients, write_wild_gradients
from wringtest import wring


class Gradients(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_errors_on_gradients(self):
        path = os.path.join(self.folder, "errors.json")
        codecs = "none,bf16,onebit,onebit+ef,topk:ratio=0.01,onebit+ef>bf16"
        before = calibrate(path, "-n", "2", "-p", "shm", "-c", codecs)
        self.assertNotIn("errors", before)
        said = wring("plan", "--json", "-t", "lstm", "--profile", path, "-N", "1", "-g", "2",
                     "-c", "bf16", "--max-nmse", "0.1", "--bound-ms", "0").stderr
        self.assertIn("bell-shaped", said)
        gradients = os.path.join(self.folder, "gradients.bin")
        write_gradients(gradients)
        after = calibrate(path, "--gradients", gradients, "-n", "2", "-p", "shm", "-c", "none")
        self.assertEqual(after["codecs"], before["codecs"])
        errors = after["errors"]
        self.assertEqual((errors["source"], errors["steps"], errors["tensors"]),
                         ("by hand", 5, ["flat", "spiky", "ramp"]))
        by_spec = {codec["spec"]: codec for codec in errors["codecs"]}
        self.assertEqual(set(by_spec), set(codecs.split(",")) - {"none"})
        # a sign and a mean say all of one tensor, and nearly nothing of the other
        flat, spiky, ramp = by_spec["onebit"]["tensors"]
        self.assertLess(flat["nmse"], 1e-9)
        self.assertGreater(spiky["nmse"], 0.9)
        self.assertEqual(spiky["nmse"], spiky["nmse_fed"])
        # what was left out comes later
        self.assertAlmostEqual(ramp["nmse"], 0.25, 2)
        self.assertLess(by_spec["onebit+ef"]["tensors"][2]["nmse_fed"], 0.15)
        # and the largest hundredth is the other way round: 10 or 11 of 1024 alike
        flat, spiky, _ = by_spec["topk:ratio=0.01"]["tensors"]
        self.assertAlmostEqual(flat["nmse"], 1 - 0.01, 2)
        self.assertLess(spiky["nmse"], 1e-6)
        # two ways lose what each loses
        both, one, other = (by_spec[spec]["nmse_fed"]
                            for spec in ("onebit+ef>bf16", "onebit+ef", "bf16"))
        self.assertAlmostEqual(both, one + other, 9)
        self.plan_within_budget(path)

    def test_lossless_on_gradients(self):
        """How long its codes are depends on the numbers: here no exponents are alike."""
        path = os.path.join(self.folder, "lossless.json")
        some = ("-n", "2", "-p", "shm", "--seconds", "0.3")
        before = calibrate(path, *some, "-c", "none,lossless,bf16")
        wild = os.path.join(self.folder, "wild.bin")
        write_wild_gradients(wild)
        after = calibrate(path, *some, "-c", "none", "--gradients", wild)
        bell, wild = ({codec["spec"]: codec for codec in profile["codecs"]}
                      for profile in (before, after))
        self.assertGreater(wild["lossless"]["wire_bytes"]["slope"],
                           1.05 * bell["lossless"]["wire_bytes"]["slope"])
        self.assertEqual(wild["bf16"]["wire_bytes"], bell["bf16"]["wire_bytes"])
        self.assertEqual([codec["nmse"] for codec in after["errors"]["codecs"]
                          if codec["spec"] == "lossless"], [0])

    def plan_within_budget(self, path):
        """Each tensor has the codecs that its own gradients bear."""
        trace = os.path.join(self.folder, "trace.json")
        with open(trace, "w", encoding="utf-8") as file:
            json.dump({"format": "wring-trace", "version": 1, "model": "two", "dtype": "float32",
                       "tensors": [{"name": name, "elements": 50000000, "ready_us": 1}
                                   for name in ("flat", "spiky")]}, file)
        arguments = ("plan", "--json", "-t", trace, "--profile", path, "-N", "1", "-g", "2",
                     "--max-nmse", "0.5", "--bound-ms", "50", "-c", "onebit,topk:ratio=0.01")
        result = wring(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for group in json.loads(result.stdout)["groups"]:
            allowed = {"none"}
            if group["tensors"] == ["flat"]:
                allowed.add("onebit")
            if group["tensors"] == ["spiky"]:
                allowed.add("topk:ratio=0.01")
            self.assertIn(group["codec"], allowed, group)
        only = wring(*arguments[:-1], "onebit", "--only")
        self.assertEqual(only.returncode, 1)
        self.assertIn("the tensor spiky", only.stderr)


wringtest.main()
