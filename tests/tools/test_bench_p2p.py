#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wring bench p2p: complete results over every provider here, links as slow as asked, failures."""
import json
import os
import signal
import unittest

import wringtest
from wringtest import is_alive, start, wait_until, wring

FIELDS = {"provider", "bytes", "latency_us", "bandwidth_gb_per_s"}


def bench(*arguments, **extra):
    return wring("bench", "p2p", "--seconds", "0.05", *arguments, **extra)


def usable():
    providers = json.loads(wring("info", "--providers", "--json").stdout)["providers"]
    return [provider["name"] for provider in providers if provider["available"]]


class Results(unittest.TestCase):
    def measure(self, *arguments, **extra):
        result = bench("--json", *arguments, **extra)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        results = json.loads(result.stdout)["results"]
        for one in results:
            self.assertLessEqual(FIELDS, one.keys())
            latency = one["latency_us"]
            self.assertTrue(0 < latency["min"] <= latency["median"] <= latency["p99"], one)
            self.assertGreater(one["bandwidth_gb_per_s"], 0)
            self.assertGreaterEqual(one["round_trips"], 20)
        return results

    def test_every_provider_here(self):
        self.assertLessEqual({"tcp", "shm"}, set(usable()))
        for provider in usable():
            results = self.measure("-p", provider, "-b", "1,3,8,4095,4k,64k,1m")
            self.assertEqual([one["bytes"] for one in results],
                             [1, 3, 8, 4095, 4096, 65536, 1 << 20])
            self.assertEqual({one["provider"] for one in results}, {provider})

    def test_sizes_that_leave_room_for_two_puts_only(self):
        self.measure("-p", "shm", "-b", "20m,8")

    def test_the_best_provider_by_itself(self):
        self.assertEqual(self.measure("-b", "8")[0]["provider"], usable()[0])
        self.assertEqual(self.measure("-b", "8", WRING_PROVIDER="tcp")[0]["provider"], "tcp")

    def test_link_is_as_slow_as_asked(self):
        """1 Gbit/s is 125 bytes per us; nothing may be faster, whatever the machine does."""
        for provider in ("tcp", "shm"):
            one = self.measure("-p", provider, "-b", "64k", WRING_FAULT="rate=1gbit")[0]
            self.assertGreaterEqual(one["latency_us"]["min"], 0.98 * 65536 / 125)
            self.assertLessEqual(one["bandwidth_gb_per_s"], 0.125 * 1.02)

    def test_under_a_launcher_it_starts_none(self):
        result = wring("run", "-n", "2", "--", wringtest.WRING, "bench", "p2p", "-p", "shm", "-b",
                       "8", "--seconds", "0.05", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(json.loads(result.stdout)["results"]), 1)

    def test_table(self):
        result = bench("-p", "shm", "-b", "8,4k", WRING_FAULT="rate=10gbit")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("provider shm, WRING_FAULT=rate=10gbit\n", result.stdout)
        self.assertRegex(result.stdout, r"\n +bytes +min us .*GB/s\n +8 .*\n +4k ")


class Failure(unittest.TestCase):
    def test_bad_usage(self):
        for arguments, says in ((("-b", "0"), "--bytes"), (("-b", "2g"), "--bytes"),
                                (("-b", ""), "--bytes"), (("-p", "pigeon"), "pigeon"),
                                (("--seconds", "long"), "--seconds")):
            result = bench(*arguments)
            self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
            self.assertIn(says, result.stderr)

    def test_absent_provider_says_why(self):
        for provider in json.loads(wring("info", "--json").stdout)["providers"]:
            if provider["available"]:
                continue
            result = bench("-p", provider["name"])
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertIn(provider["reason"], result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1)

    def test_needs_two_ranks(self):
        result = wring("run", "-n", "3", "--", wringtest.WRING, "bench", "p2p", "-p", "shm")
        self.assertEqual(result.returncode, 1)
        self.assertIn("needs 2 ranks; the launcher started 3", result.stderr)

    def test_two_hosts_need_another_provider(self):
        """WRING_NODE makes two hosts of one."""
        result = wring("run", "-n", "2", "--", "sh", "-c",
                       f'WRING_NODE=host$WRING_RANK exec "{os.path.abspath(wringtest.WRING)}" '
                       'bench p2p -p shm')
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assertIn("two hosts, and shm reaches one only", result.stderr)

    def test_wrong_data_is_an_error(self):
        """shm spoils payloads; tcp may spoil a header, or notice, and then breaks the connection."""
        result = bench("-p", "shm", "-b", "64", WRING_FAULT="corrupt=0.05")
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assertRegex(result.stderr, "a put of 64 bytes over shm came with (wrong|a number)")
        for checksum in ("off", "on"):
            result = bench("-p", "tcp", "-b", "64", WRING_FAULT="corrupt=0.05",
                           WRING_TCP_CHECKSUM=checksum)
            self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
            self.assertRegex(result.stderr, r"wring bench p2p: rank [01]: ")

    def test_link_that_breaks_is_an_error(self):
        for provider in ("tcp", "shm"):
            result = bench("-p", provider, "-b", "64",
                           WRING_FAULT="disconnect=after:15,rank=1")  # fewer than it sends at least
            self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
            self.assertRegex(result.stderr, r"wring bench p2p: rank [01]: ")

    def test_bad_schedule_is_named(self):
        result = bench("-p", "tcp", WRING_FAULT="weather=bad")
        self.assertEqual(result.returncode, 1)
        self.assertIn("weather=bad", result.stderr)

    def test_killed_rank_ends_the_other(self):
        job = start("bench", "p2p", "-p", "tcp", "-b", "8", "--seconds", "3000")
        self.addCleanup(job.kill)

        def ranks():
            return wringtest.ranks_of(job.pid)

        def has_joined(pid):
            return len(os.listdir(f"/proc/{pid}/task")) > 1  # its session's progress thread

        self.assertTrue(wait_until(lambda: len(ranks()) == 2 and all(map(has_joined, ranks()))))
        pids = ranks()
        os.kill(pids[1], signal.SIGKILL)
        _, errors = job.communicate(timeout=wringtest.PATIENCE)
        self.assertEqual(job.returncode, 128 + signal.SIGKILL, errors)
        self.assertIn("rank 1 was killed by signal 9", errors)
        self.assertFalse([pid for pid in pids if is_alive(pid)])


if __name__ == "__main__":
    wringtest.main()
