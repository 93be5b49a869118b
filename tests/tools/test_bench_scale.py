#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wring bench scale: right sums, times by the network, counts that grow as they should, files."""
import csv
import json
import os
import tempfile
import unittest
import xml.etree.ElementTree

import wringtest
from wringtest import wring

FIELDS = {"ranks", "bytes", "first_us", "time_us", "predicted_us", "puts", "control_messages",
          "sent_bytes", "wrong", "death_us", "open_us", "connections", "memory_bytes", "cpu_s"}


def results(*arguments):
    result = wring("bench", "scale", "--json", *arguments)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return json.loads(result.stdout)["results"]


class Scale(unittest.TestCase):
    def test_a_step_of_two_ranks_takes_one_message(self):
        for latency, message, rate in ((5, 0.5, 100), (20, 0, 8)):
            one, = results("-n", "2", "-b", "4k", "--latency", str(latency), "--message", str(message),
                           "--rate", str(rate))
            self.assertEqual(set(one), FIELDS)
            self.assertAlmostEqual(one["time_us"], latency + message + 4096 * 8e-3 / rate, delta=0.01)
            self.assertAlmostEqual(one["predicted_us"], one["time_us"], delta=0.01)
            self.assertEqual((one["puts"], one["sent_bytes"], one["wrong"]), (1, 4096, 0))

    def test_sums_are_right_and_runs_repeat(self):
        one, other = (results("-n", "3,9,16", "-b", "4,4k,100000") for _ in range(2))
        self.assertEqual([(p["ranks"], p["bytes"]) for p in one],
                         [(n, b) for n in (3, 9, 16) for b in (4, 4096, 100000)])
        for a, b in zip(one, other):
            self.assertEqual(a["wrong"], 0)
            for field in FIELDS - {"cpu_s", "memory_bytes"}:
                self.assertEqual(a[field], b[field], field)

    def test_a_death_is_heard(self):
        for point in results("-n", "2,10", "-b", "4", "--death"):
            self.assertGreaterEqual(point["death_us"], 5)
            self.assertLess(point["death_us"], 12000)
        self.assertIsNone(results("-n", "2", "-b", "4")[0]["death_us"])

    def test_empty_messages_take_as_long(self):
        full, empty = (results("-n", "10", "-b", "64k", *extra)[0] for extra in ((), ("--empty",)))
        for field in ("time_us", "puts", "sent_bytes", "control_messages"):
            self.assertEqual(full[field], empty[field], field)

    def test_files_say_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("scale.csv", "scale.svg")]
            points = results("-n", "2,4", "-b", "4k", "--csv", paths[0], "--svg", paths[1])
            with open(paths[0], newline="") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual([float(row["time_us"]) for row in rows],
                             [round(point["time_us"], 3) for point in points])
            picture = xml.etree.ElementTree.parse(paths[1]).getroot()
            self.assertTrue(picture.tag.endswith("svg"))

    def test_bad_usage(self):
        for wrong in (["-n", "0"], ["-n", "x"], ["-b", "3"], ["--rate", "0"], ["-n", ","]):
            result = wring("bench", "scale", *wrong)
            self.assertEqual(result.returncode, 2, wrong)
            self.assertIn("wring bench scale: ", result.stderr)


if __name__ == "__main__":
    wringtest.main()
