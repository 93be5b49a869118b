#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wring bench sendrecv: complete results over shm and tcp, links as slow as asked, failures."""
import json
import unittest

import wringtest
from wringtest import wring

FIELDS = {"provider", "bytes", "latency_us", "bandwidth_gb_per_s", "messages_per_s", "window"}


def bench(*arguments, **extra):
    return wring("bench", "sendrecv", "--seconds", "0.05", *arguments, **extra)


class Results(unittest.TestCase):
    def measure(self, *arguments, **extra):
        result = bench("--json", *arguments, **extra)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        answer = json.loads(result.stdout)
        for one in answer["results"]:
            self.assertLessEqual(FIELDS, one.keys())
            latency = one["latency_us"]
            self.assertTrue(0 < latency["min"] <= latency["median"] <= latency["p99"], one)
            self.assertGreater(one["messages_per_s"], 0)
            self.assertAlmostEqual(one["bandwidth_gb_per_s"],
                                   one["messages_per_s"] * one["bytes"] / 1e9, places=6)
            self.assertGreaterEqual(one["round_trips"], 20)
        return answer

    def test_sizes(self):
        """Nothing, eager ones, ones around WRING_EAGER_BYTES, and large ones, with any memory."""
        for provider in ("tcp", "shm"):
            for more, memory in (([], "registered"), (["--foreign"], "foreign")):
                answer = self.measure("-p", provider, "-b", "0,1,8,8k,8193,64k,1m", *more)
                self.assertEqual(answer["memory"], memory)
                self.assertEqual([one["bytes"] for one in answer["results"]],
                                 [0, 1, 8, 8192, 8193, 65536, 1 << 20])
                self.assertEqual({one["provider"] for one in answer["results"]}, {provider})

    def test_sizes_that_leave_room_for_two_messages_only(self):
        results = self.measure("-p", "shm", "-b", "10m,8")["results"]
        self.assertEqual([one["window"] for one in results], [2, 64])

    def test_link_is_as_slow_as_asked(self):
        """1 Gbit/s is 125 bytes per us; nothing may be faster, whatever the machine does."""
        for provider in ("tcp", "shm"):
            one = self.measure("-p", provider, "-b", "64k", WRING_FAULT="rate=1gbit")["results"][0]
            self.assertGreaterEqual(one["latency_us"]["min"], 0.98 * 65536 / 125)
            self.assertLessEqual(one["bandwidth_gb_per_s"], 0.125 * 1.02)

    def test_under_a_launcher_it_starts_none(self):
        result = wring("run", "-n", "2", "--", wringtest.WRING, "bench", "sendrecv", "-p", "shm",
                       "-b", "8", "--seconds", "0.05", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(json.loads(result.stdout)["results"]), 1)

    def test_table(self):
        result = bench("-p", "shm", "-b", "0,8,4k", WRING_FAULT="rate=10gbit")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("provider shm, registered memory, WRING_FAULT=rate=10gbit\n", result.stdout)
        self.assertRegex(result.stdout, r"\n +bytes +min us .*GB/s\n +0 .* 0\.000\n +8 .*\n +4k ")


class Failure(unittest.TestCase):
    def test_bad_usage(self):
        for arguments, says in ((("-b", "2g"), "--bytes"), (("-b", "x"), "--bytes"),
                                (("-b", ""), "--bytes"), (("-p", "pigeon"), "pigeon"),
                                (("--seconds", "long"), "--seconds")):
            result = bench(*arguments)
            self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
            self.assertIn(says, result.stderr)

    def test_needs_two_ranks(self):
        result = wring("run", "-n", "3", "--", wringtest.WRING, "bench", "sendrecv", "-p", "shm")
        self.assertEqual(result.returncode, 1)
        self.assertIn("needs 2 ranks; the launcher started 3", result.stderr)

    def test_wrong_data_is_an_error(self):
        result = bench("-p", "tcp", "-b", "64", WRING_FAULT="corrupt=0.05",
                       WRING_TCP_CHECKSUM="on")
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assertRegex(result.stderr, r"wring bench sendrecv: rank [01]: ")

    def test_link_that_breaks_is_an_error(self):
        for provider in ("tcp", "shm"):
            result = bench("-p", provider, "-b", "64",
                           WRING_FAULT="disconnect=after:15,rank=1")  # fewer than it sends at least
            self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
            self.assertRegex(result.stderr, r"wring bench sendrecv: rank [01]: ")


if __name__ == "__main__":
    wringtest.main()
