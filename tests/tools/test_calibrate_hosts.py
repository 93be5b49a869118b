#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wring calibrate between nodes: hosts by name, and two network namespaces."""
import json
import os
import subprocess
import tempfile
import time
import unittest

import wringtest
from calibrating import SHORT
from wringtest import wring


class Hosts(unittest.TestCase):
    def test_nodes_by_name(self):
        """WRING_NODE makes hosts of one; they need as many ranks each."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "nodes.json")
        command = f"{wringtest.WRING} calibrate -p tcp -c none --seconds 0.3 --elements 4k " \
                  f"--doubt 100 -o {path}"
        for ranks, node, status in ((2, "n$WRING_RANK", 0), (3, "n$((WRING_RANK/2))", 1)):
            result = wring("run", "-n", str(ranks), "--", "sh", "-c",
                           f"WRING_NODE={node} exec {command}")
            self.assertEqual(result.returncode, status, result.stderr)
        self.assertIn("different numbers of ranks; a profile needs equal ones", result.stderr)
        with open(path, encoding="utf-8") as file:
            profile = json.load(file)
        self.assertEqual((profile["nodes"], profile["ranks_per_node"]), (2, 1))
        self.assertEqual(set(profile["links"]), {"inter"})


class TwoHosts(unittest.TestCase):
    """Two network namespaces with a cable between them are two nodes of one rank."""

    def namespace(self):
        keeper = subprocess.Popen(["unshare", "--net", "sleep", "3600"], stdin=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(keeper.wait)
        self.addCleanup(keeper.kill)
        own, place = os.readlink("/proc/self/ns/net"), f"/proc/{keeper.pid}/ns/net"
        deadline = time.monotonic() + wringtest.PATIENCE
        while keeper.poll() is None and os.readlink(place) == own and time.monotonic() < deadline:
            time.sleep(0.01)
        if keeper.poll() is not None:
            self.skipTest("no network namespaces here")
        return keeper.pid, ["nsenter", f"--net={place}"]

    def connect(self):
        """@return how to run a command on each host"""
        (_, a), (other, b) = self.namespace(), self.namespace()
        commands = [[*a, "ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable",
                     "netns", str(other)]]
        for number, inside in ((1, a), (2, b)):
            commands += [[*inside, "ip", "addr", "add", f"10.9.0.{number}/24", "dev", "cable"],
                         [*inside, "ip", "link", "set", "cable", "up"],
                         [*inside, "ip", "link", "set", "lo", "up"]]
        for command in commands:
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                self.skipTest(f"no virtual cables here: {result.stderr.strip()}")
        return a, b

    def test_links_between_nodes(self):
        """Of several runs, as the machine may be busy while the link is measured, and not while
        collectives are."""
        hosts = self.connect()
        for _ in range(5):
            profile = self.calibrate(hosts)
            self.assertEqual((profile["nodes"], profile["ranks_per_node"]), (2, 1))
            self.assertEqual(list(profile["links"]), ["inter"])
            self.assertIn("2 x 1 ranks over tcp", profile["machine"])
            faster = self.faster_than_the_link(profile)
            if not faster:
                break
        self.assertEqual(faster, [])

    def faster_than_the_link(self, profile):
        """Buckets one after another take as long as their bytes do on the link, at least."""
        sustained_us = profile["links"]["inter"]["us_by_bytes"]["slope"]
        found = []
        for one in profile["ways"]:
            (elems, us), sent = (one[name]["corners"][-1] for name in ("busy_us", "wire_bytes"))
            self.assertEqual(elems, sent[0])
            if us < 0.9 * sustained_us * sent[1]:
                found.append((one["run_as"], us, sustained_us * sent[1]))
        return found

    def calibrate(self, hosts):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "profile.json")
            ranks = [self.start(host, rank, path) for rank, host in enumerate(hosts)]
            said = [rank.communicate(timeout=wringtest.PATIENCE)[1] for rank in ranks]
            self.assertEqual([rank.returncode for rank in ranks], [0, 0], said)
            with open(path, encoding="utf-8") as file:
                return json.load(file)

    @staticmethod
    def start(host, rank, path):
        job = wringtest.environment(WRING_RANK=str(rank), WRING_SIZE="2",
                                    WRING_ROOT="10.9.0.1:7117", WRING_KEY="two hosts, one cable",
                                    WRING_PROVIDER="tcp")
        return subprocess.Popen([*host, wringtest.WRING, "calibrate", *SHORT, "-c", "none", "-o",
                                 path], env=job, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)


wringtest.main()
