#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wring bench allreduce: its results are checked, complete, and say so when a rank dies."""
import json
import os
import re
import signal
import unittest

import wringtest
from wringtest import is_alive, start, wait_until, wring

FIELDS = {"ranks", "provider", "codec", "bytes", "time_us", "algbw_gb_per_s", "busbw_gb_per_s",
          "wire_bytes", "wrong", "nmse"}


def bench(*arguments, **extra):
    return wring("bench", "allreduce", "--iterations", "3", *arguments, **extra)


class Results(unittest.TestCase):
    def measure(self, *arguments):
        result = bench("--json", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        results = json.loads(result.stdout)["results"]
        for one in results:
            self.assertLessEqual(FIELDS, one.keys())
            self.assertEqual(one["wrong"], 0, one)
            time = one["time_us"]
            self.assertTrue(0 < time["min"] <= time["median"] <= time["p99"], one)
        return results

    def test_every_size_and_codec(self):
        for provider in ("tcp", "shm"):
            results = self.measure("-n", "2", "-p", provider, "-b", "4,4k,20k,1m",
                                   "-c", "none,bf16,int8,onebit+ef,topk+ef")
            self.assertEqual(len(results), 20)
            self.assertEqual({r["provider"] for r in results}, {provider})
            for one in results:
                median = one["time_us"]["median"]
                self.assertAlmostEqual(one["algbw_gb_per_s"], one["bytes"] / median / 1e3, 6)

    def test_lossy_codecs_are_lossy_and_small(self):
        results = {r["codec"]: r for r in self.measure(
            "-p", "tcp", "-b", "1m", "-c", "none,bf16,int8,onebit")}
        self.assertEqual(results["none"]["nmse"], 0)
        wire = [results[c]["wire_bytes"] for c in ("none", "bf16", "int8", "onebit")]
        self.assertEqual(wire, sorted(wire, reverse=True))
        self.assertLess(wire[1], 0.55 * wire[0])
        nmse = [results[c]["nmse"] for c in ("none", "bf16", "int8", "onebit")]
        self.assertEqual(nmse, sorted(nmse))
        self.assertLess(nmse[1], 1e-4)
        self.assertGreater(nmse[3], 0.01)

    def test_what_really_ran(self):
        results = {r["codec"]: r for r in self.measure("-n", "3", "-b", "256k",
                                                       "-c", "none,bf16,onebit+ef,int8")}
        none = results.pop("none")
        self.assertEqual((none["error"], none["error_back"], none["scheme"]), (0, 0, "direct"))
        for codec, low, high in (("bf16", 1e-7, 1e-5), ("int8", 1e-6, 1e-3), ("onebit+ef", 0.1, 1)):
            one = results[codec]
            self.assertEqual(one["scheme"], "divisible")
            self.assertTrue(low < one["error"] < high, one)
            self.assertTrue(low < one["error_back"] < high, one)
            self.assertEqual(len(one["cores"]), 3)
            for cores in one["cores"]:
                self.assertRegex(cores, r"^\d+([-,]\d+)*$")
        self.assertNotIn("error", self.measure("-b", "4k", "--foreign")[0])

    def test_odd_ranks_average_and_foreign_memory(self):
        self.measure("-n", "3", "-b", "4,12,64k", "--op", "avg")
        self.measure("-n", "3", "-b", "4,12,64k", "-c", "none,int8", "--foreign")
        for scheme in ("divisible", "indivisible"):
            self.measure("-n", "3", "-b", "64k", "-c", "none,int8", "--scheme", scheme)

    def test_codecs_take_turns(self):
        results = self.measure("-p", "shm", "-b", "4k,64k", "-c", "none,int8,none", "-i", "10",
                               "--turns", "4")
        self.assertEqual([(r["codec"], r["bytes"]) for r in results],
                         [(codec, size) for size in (4096, 65536)
                          for codec in ("none", "int8", "none")])
        for one in results:
            self.assertEqual(one["iterations"], 12)  # three in each turn
            self.assertEqual(len(one["turns_us"]), 4)
            self.assertTrue(min(one["turns_us"]) <= one["time_us"]["median"]
                            <= max(one["turns_us"]), one)
        self.assertNotIn("turns_us", self.measure("-b", "4k")[0])

    def test_one_rank_is_a_job_too(self):
        self.assertEqual(self.measure("-n", "1", "-b", "4k")[0]["ranks"], 1)

    def test_under_a_launcher_it_starts_none(self):
        result = wring("run", "-n", "2", "--", wringtest.WRING, "bench", "allreduce", "-i", "3",
                       "-b", "4k", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["results"][0]["ranks"], 2)

    def test_table(self):
        result = bench("-b", "4k")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"codec +bytes .* wrong +nmse\n +none +4k ")


class Failure(unittest.TestCase):
    def test_killed_rank_ends_the_job_with_its_name(self):
        # survivors have time to say it
        job = start("run", "-n", "3", "-g", "240", "--", wringtest.WRING, "bench", "allreduce", "-b",
                    "64k", "--iterations", "1000000")
        self.addCleanup(job.kill)
        self.assertTrue(wait_until(lambda: len(wringtest.ranks_of(job.pid)) == 3))
        ranks = wringtest.ranks_of(job.pid)
        self.assertTrue(wait_until(lambda: all(map(self.is_joined, ranks))), "ranks did not join")
        os.kill(ranks[2], signal.SIGKILL)
        _, errors = job.communicate(timeout=wringtest.PATIENCE)
        self.assertEqual(job.returncode, 128 + signal.SIGKILL, errors)
        self.assertIn("rank 2 was killed by signal 9", errors)
        told = [line for line in errors.splitlines() if "was killed" not in line]
        self.assertTrue([line for line in told if re.search(r"\brank 2\b", line)],
                        "survivors did not name it: " + errors)
        self.assertFalse([pid for pid in ranks if is_alive(pid)])

    @staticmethod
    def is_joined(pid):
        """Its progress thread starts when all ranks are there."""
        threads = []
        for thread in os.listdir(f"/proc/{pid}/task"):
            try:
                with open(f"/proc/{pid}/task/{thread}/comm", encoding="ascii") as file:
                    threads.append(file.read().strip())
            except OSError:
                pass  # it has ended
        return "wring-progress" in threads


if __name__ == "__main__":
    wringtest.main()
