#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line: help, bad usage, and what `wring info` says."""
import json
import os
import pathlib
import re
import unittest

import wringtest
from wringtest import wring


class Help(unittest.TestCase):
    def test_lists_commands(self):
        result = wring("--help")
        self.assertEqual(result.returncode, 0)
        for command in ("info", "bench", "calibrate", "plan", "simulate", "replay", "run", "demo"):
            self.assertIn(f"\n  {command} ", result.stdout)
        self.assertEqual(result.stderr, "")

    def test_help_of_a_command_is_its_own_help(self):
        for command in (["info"], ["run"], ["calibrate"], ["plan"], ["simulate"], ["replay"], ["bench"], ["bench", "allreduce"],
                        ["bench", "codec"], ["bench", "p2p"], ["bench", "scale"], ["bench", "sendrecv"]):
            asked = wring("help", *command)
            own = wring(*command, "--help")
            self.assertEqual(asked.returncode, 0, command)
            self.assertEqual(own.returncode, 0, command)
            self.assertEqual(asked.stdout, own.stdout)
            self.assertIn(f"Usage: wring {' '.join(command)} ", own.stdout)

    def test_version(self):
        result = wring("--version")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"^wring \d+\.\d+\.\d+\n$")


class BadUsage(unittest.TestCase):
    def check(self, *arguments, says=""):
        result = wring(*arguments)
        self.assertEqual(result.returncode, 2, f"{arguments}: {result.stderr}")
        self.assertEqual(result.stdout, "")
        self.assertIn(says, result.stderr)

    def test_exits_with_2(self):
        self.check()
        self.check("--nonsense", says="nonsense")
        self.check("info", "--nonsense", says="nonsense")
        self.check("info", "--scale", "1", says="2 to")
        self.check("info", "--scale", "64", "--bytes", "none", says="--bytes none")
        self.check("info", "--bytes", "4k", says="--scale is needed")
        self.check("run", says="no program")
        self.check("run", "-n", "0", "--", "true", says="1 to")
        self.check("run", "-n", "two", "--", "true", says="1 to")
        self.check("run", "-g", "-1", "--", "true", says="--grace")
        self.check("bench", says="measured")
        self.check("bench", "allreduce", "--bytes", "12q", says="12q")
        self.check("bench", "allreduce", "--bytes", "5", says="5")
        self.check("bench", "allreduce", "--op", "max", says="sum|avg")
        self.check("bench", "allreduce", "--codec", "nonsense", says="nonsense")
        self.check("bench", "allreduce", "--provider", "nonsense", says="nonsense")
        self.check("bench", "allreduce", "--foreign", "--scheme", "divisible", says="--foreign")

    def test_unknown_command_suggests_the_nearest(self):
        self.check("inof", says="'info'")
        self.check("benhc", says="'bench'")
        self.check("bench", "allredcue", says="'allreduce'")
        self.check("bench", "coded", says="'codec'")
        self.check("frobnicate", says="--help")

    def test_control_characters_do_not_reach_the_terminal(self):
        self.check("in\x1b[31mf\u00f6\n", says="no command 'in?[31mf\u00f6?'")


class Info(unittest.TestCase):
    def test_json_has_the_fields(self):
        result = wring("info", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        info = json.loads(result.stdout)
        self.assertGreaterEqual(len(info["providers"]), 2)
        for provider in info["providers"]:
            self.assertLessEqual({"name", "available", "reason"}, provider.keys())
            self.assertEqual(provider["available"], provider["reason"] == "")
        for codec in info["codecs"]:
            self.assertLessEqual({"name", "tier", "summable", "unbiased", "exact", "params"},
                                 codec.keys())
            self.assertEqual(codec["exact"], codec["name"] in ("none", "lossless"))
        self.assertLessEqual({"none", "lossless", "bf16", "int8", "onebit", "topk"},
                             {codec["name"] for codec in info["codecs"]})
        self.assertLessEqual({"packages", "numa", "cores", "nics", "gpus"},
                             info["topology"].keys())
        self.assertGreaterEqual(info["topology"]["cores"], 1)
        for var in info["config"]:
            self.assertLessEqual({"name", "value", "default", "doc"}, var.keys())

    def test_tcp_is_always_there(self):
        info = json.loads(wring("info", "--json", "--providers").stdout)
        self.assertEqual(list(info), ["providers"])
        self.assertTrue(any(p["name"] == "tcp" and p["available"] for p in info["providers"]))

    def test_scale_says_what_a_job_takes(self):
        def scale(ranks, size="4k"):
            result = wring("info", "--json", "--scale", str(ranks), "--provider", "tcp", "--bytes", size)
            return json.loads(result.stdout)["scale"]

        small, large = scale(256), scale(4096)
        self.assertEqual([large["ranks"], large["provider"], large["bytes"]], [4096, "tcp", 4096])
        for rank in (large["root"], large["most"]):
            self.assertEqual(rank["memory_bytes"],
                             sum(rank[part + "_bytes"] for part in ("table", "state", "connection", "slot", "fixed")))
        # sixteen times as many ranks: four more to talk to, and as many descriptors each
        self.assertEqual(large["root"]["connections"] - small["root"]["connections"], 4)
        self.assertEqual(large["most"]["descriptors"] - small["most"]["descriptors"], 4)
        self.assertEqual(large["root"]["table_bytes"], 4096 * large["table_bytes_per_rank"])
        shown = wring("info", "--scale", "4096", "--provider", "tcp").stdout
        self.assertIn("4096 ranks over tcp", shown)
        self.assertLessEqual(max(len(line) for line in shown.splitlines()), 100)

    def test_network_says_where_a_rank_would_listen(self):
        def network(**settings):
            return json.loads(wring("info", "--json", "--network", **settings).stdout)["network"]

        self.assertEqual(network()["address"], "127.0.0.1")
        self.assertIn("no key", network()["rule"])
        found = network(WRING_KEY="k", WRING_ROOT="127.0.0.1:5,127.0.0.1:6", WRING_PORTS="40000-40003")
        self.assertEqual((found["rule"], found["address"], found["ports"], found["reason"]),
                         ("the interface that reaches rank 0", "127.0.0.1", "40000-40003", ""))
        found = network(WRING_KEY="k", WRING_IFACE="=lo")
        self.assertEqual((found["rule"], found["interface"]), ("WRING_IFACE", "lo"))
        self.assertIn("no such interface", network(WRING_KEY="k", WRING_IFACE="=none7")["reason"])
        self.assertIn("no interface of this host", network(WRING_KEY="k", WRING_BIND="198.51.100.7")["reason"])
        self.assertIn("set one of them", network(WRING_BIND="127.0.0.1", WRING_IFACE="lo")["reason"])
        self.assertIn("WRING_ROOT is not set", network(WRING_KEY="k")["reason"])
        self.assertIn("127.0.0.1", wring("info", "--network").stdout)

    def test_rdma_lists_ports_or_says_why_not(self):
        rdma = json.loads(wring("info", "--json", "--rdma", WRING_VERBS_DEVICES="=none7").stdout)["rdma"]
        self.assertEqual(rdma["asked"], "=none7")
        self.assertEqual(rdma["ports"] == [], rdma["reason"] != "")
        self.assertEqual(rdma["rails"], 0)
        for port in rdma["ports"]:
            self.assertIsNone(port["rail"])
            self.assertIn("leaves it out", port["why"])
        shown = wring("info", "--rdma").stdout
        self.assertIn(rdma["reason"] or rdma["ports"][0]["device"], shown)

    def test_shows_what_is_set_but_no_secret(self):
        result = wring("info", "--config", "--json", WRING_KEY="sesame", WRING_WINDOW="7")
        config = {var["name"]: var for var in json.loads(result.stdout)["config"]}
        self.assertNotIn("sesame", result.stdout + result.stderr)
        self.assertEqual(config["WRING_KEY"]["value"], "(set)")
        self.assertEqual(config["WRING_WINDOW"]["value"], "7")
        self.assertEqual(config["WRING_WINDOW"]["default"], "4")

    def test_tier_follows_the_setting(self):
        result = wring("info", "--codecs", "--json", WRING_CPU="scalar")
        self.assertEqual({c["tier"] for c in json.loads(result.stdout)["codecs"]}, {"scalar"})

    def executor(self, executor):
        result = wring("info", "--topology", "--json", WRING_EXECUTOR=executor)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["executor"]

    def test_cores_chosen_and_why(self):
        usable = self.executor("inline")["usable_cores"]
        self.assertTrue(1 <= usable <= len(os.sched_getaffinity(0)))
        for cores in range(1, min(usable, 4) + 1):
            executor = self.executor(f"pool:{cores}")
            self.assertTrue(executor["pool"])
            self.assertEqual(executor["reason"], "")
            self.assertEqual([core["core"] for core in executor["cores"]], executor["pool_cores"])
            self.assertEqual(len(set(executor["pool_cores"])), cores)
            for core in executor["cores"]:
                self.assertIn("the application's", core["why"])
        named = self.executor(f"pool:cores={min(os.sched_getaffinity(0))}")["cores"]
        self.assertEqual([core["why"] for core in named], ["WRING_EXECUTOR names it"])

    def test_cores_that_cannot_be_had_say_why(self):
        for executor, says in (("pool:cores=65000", "may not use core 65000"),
                               ("pool:many", "needs a number"), ("swimming", "needs inline")):
            answer = self.executor(executor)
            self.assertEqual((answer["cores"], answer["pool_cores"]), ([], []))
            self.assertIn(says, answer["reason"])
            shown = wring("info", "--topology", WRING_EXECUTOR=executor).stdout
            self.assertIn(answer["reason"], " ".join(shown.split()))

    def test_cores_of_another_machine(self):
        """hwloc makes one up: the pool takes the last core, not the one we run on."""
        result = wring("info", "--topology", "--json", HWLOC_SYNTHETIC="package:2 core:4 pu:1",
                       HWLOC_COMPONENTS="synthetic,-pci",
                       HWLOC_THISSYSTEM="0")
        topology = json.loads(result.stdout)["topology"]
        self.assertEqual((topology["packages"], topology["cores"]), (2, 8))
        self.assertEqual(json.loads(result.stdout)["executor"]["pool_cores"], [7])

    def test_bad_setting_is_a_failure_in_one_line(self):
        result = wring("info", WRING_WINDOW="many")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count("\n"), 1)
        self.assertIn("WRING_WINDOW=many", result.stderr)

    def test_table_fits_100_columns(self):
        result = wring("info")
        self.assertEqual(result.returncode, 0)
        for line in result.stdout.splitlines():
            self.assertLessEqual(len(line), 100, line)


class Documents(unittest.TestCase):
    def test_command_lines_are_understood(self):
        """Each `wring ...` line of the guide parses: --help at its end comes to its turn."""
        root = pathlib.Path(__file__).resolve().parents[2]
        lines = re.findall(r"^    (?:\$ )?(?:WRING_\w+=\S+ )?wring (.*)$",
                           (root / "docs/which-codec.md").read_text(encoding="utf-8"), re.M)
        self.assertGreaterEqual(len(lines), 8)
        for line in lines:
            words = line.replace("LIST", "none").replace("$C", "none").split()
            if words[0] == "demo":
                continue  # it may be left out of a build
            result = wring(*words, "--help")
            self.assertEqual(result.returncode, 0, f"{line}: {result.stderr}")


if __name__ == "__main__":
    wringtest.main()
