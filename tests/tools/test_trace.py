#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""WRING_TRACE: one file of all ranks, whole and believable."""
import collections
import json
import os
import tempfile
import unittest

import wringtest
from wringtest import wring

ITERATIONS = 6


def trace_of(ranks, codec, **settings):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        result = wring("bench", "allreduce", "-n", str(ranks), "--bytes", "1m", "--codec", codec,
                       "--iterations", str(ITERATIONS), WRING_TRACE=path, **settings)
        assert result.returncode == 0, result.stderr
        with open(path, encoding="utf-8") as file:
            return json.load(file), result


class Trace(unittest.TestCase):
    def check(self, events, ranks, codec):
        spans = [e for e in events if e["ph"] == "X"]
        self.assertEqual({e["pid"] for e in spans}, set(range(ranks)))
        names = {e["args"]["name"] for e in events if e["ph"] == "M" and "name" in e["args"]}
        self.assertLessEqual({f"rank {i}" for i in range(ranks)}, names)
        for rank in range(ranks):
            own = [e for e in spans if e["pid"] == rank]
            kinds = collections.Counter(e["name"] for e in own)
            for kind in ("reduce", "send") + (("encode",) if codec != "none" else ()):
                self.assertGreaterEqual(kinds[kind], ITERATIONS, f"{kind} on rank {rank}")
            steps = [e for e in own if e["cat"] == "buckets" and e["name"] == "bench.0"]
            self.assertGreaterEqual(len(steps), ITERATIONS)
            self.assertEqual([e["args"]["number"] for e in steps], list(range(len(steps))))
            self.check_work_lies_in_steps(own, steps)
            self.check_lines(own)

    def check_work_lies_in_steps(self, own, steps):
        for event in own:
            if event["cat"] != "codecs" or event["args"]["bucket"] != "bench.0":
                continue
            self.assertTrue(any(step["ts"] - 1 <= event["ts"] and
                                event["ts"] + event["dur"] <= step["ts"] + step["dur"] + 1
                                for step in steps), event)

    def check_lines(self, own):
        """What is drawn on one line does not overlap."""
        until = collections.defaultdict(float)
        for event in sorted(own, key=lambda e: e["ts"]):
            self.assertGreaterEqual(event["dur"], 0)
            self.assertGreaterEqual(event["ts"] + 0.01, until[event["tid"]], event)
            until[event["tid"]] = event["ts"] + event["dur"]

    def test_all_ranks_in_one_file(self):
        for codec in ("none", "onebit+ef"):
            events, result = trace_of(3, codec)
            self.check(events, 3, codec)
            self.assertEqual(result.stderr, "")

    def test_work_of_a_pool(self):
        events, _ = trace_of(2, "onebit+ef", WRING_EXECUTOR="pool:2", WRING_LOG="error")
        self.check(events, 2, "onebit+ef")

    def test_clocks_are_one_on_one_host(self):
        """No step ends on one rank before it has begun on the other."""
        events, _ = trace_of(2, "none")
        steps = [[(e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X" and
                  e["pid"] == rank and e["cat"] == "buckets" and e["name"] == "bench.0"]
                 for rank in range(2)]
        self.assertEqual(len(steps[0]), len(steps[1]))
        for ours, theirs in zip(*steps):
            self.assertGreater(min(ours[1], theirs[1]) + 1, max(ours[0], theirs[0]))

    def test_a_file_that_cannot_be_written(self):
        result = wring("bench", "allreduce", "-n", "2", "--bytes", "4k",
                       WRING_TRACE="/nonexistent/trace.json")
        self.assertEqual(result.returncode, 1)
        self.assertIn("WRING_TRACE=/nonexistent/trace.json: cannot be written: No such file",
                      result.stderr)


if __name__ == "__main__":
    wringtest.main()
