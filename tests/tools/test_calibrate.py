#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wring calibrate: what it writes is a profile that rises, can be added to, planned with and drawn."""
import json
import os
import struct
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree

import wringtest
from wringtest import wring

# what is measured while other tests run may well be noise
SHORT = ("--seconds", "3", "--elements", "64k", "--doubt", "100")


class Calibrates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.folder.name, "profile.json")
        cls.first = cls.calibrate("-n", "2", "-p", "shm", "-c", "none,bf16,topk:ratio=0.01+ef")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def calibrate(cls, *arguments, path=None):
        result = wring("calibrate", "--json", *SHORT, *arguments, "-o", path or cls.path)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        return json.loads(result.stdout)

    def check_rises(self, cost, what):
        xs, ys = zip(*cost["corners"])
        self.assertTrue(all(a < b for a, b in zip(xs, xs[1:])), (what, cost))
        self.assertTrue(all(a <= b for a, b in zip(ys, ys[1:])), (what, cost))
        self.assertGreaterEqual(cost["slope"], 0)

    def test_file_is_what_was_printed_and_grows(self):
        path = os.path.join(self.folder.name, "other.json")
        profile = self.calibrate("-n", "2", "-p", "shm", "-c", "none", path=path)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(json.load(file), profile)
        self.assertEqual(os.listdir(self.folder.name).count("other.json"), 1)
        self.assertNotIn("spin_coded", profile["computing"])
        after = self.calibrate("-n", "2", "-p", "shm", "-c", "bf16", path=path)["computing"]
        self.assertEqual(after.pop("spin_coded")["codec"], "bf16")
        self.assertEqual(after, profile["computing"]) # nothing is measured twice

    def test_head(self):
        profile = self.first
        self.assertEqual((profile["nodes"], profile["ranks_per_node"]), (1, 2))
        self.assertTrue(profile["chunked"])
        self.assertEqual(list(profile["links"]), ["intra"])
        self.assertEqual(profile["links"]["intra"]["provider"], "shm")
        self.assertIn("2 ranks over shm", profile["machine"])

    def test_puts_and_steps(self):
        """Each by itself, with its latency, and how far that can be trusted."""
        link = self.first["links"]["intra"]
        self.assertGreaterEqual(link["latency_trust"]["samples"], 5)
        for curve, least in (("latency_us_by_bytes", 20), ("us_by_bytes", 3)):
            self.check_rises(link["put"][curve], curve)
            self.assertGreaterEqual(link["put"][curve]["samples"], least)
            self.assertGreaterEqual(link["put"][curve]["points"], 2)
            self.assertGreater(link["put"][curve]["corners"][0][1], 0)
        self.assertEqual([step["routine"] for step in link["routines"]],
                         ["allreduce", "reduce-scatter", "alltoall", "broadcast"])
        for step in link["routines"]:
            self.check_rises(step["us_by_bytes"], step["routine"])
            self.assertGreater(step["latency_us"], 0)
            self.assertEqual(step["latency_trust"]["points"], 1)

    def test_curves_rise(self):
        costs = [(link, value["us_by_bytes"]) for link, value in self.first["links"].items()]
        costs.append(("copies", self.first["copy_us"]))
        for codec in self.first["codecs"]:
            costs += [(codec["spec"], codec["wire_bytes"]),
                      (codec["spec"], codec["at"]["cpu"]["encode_us"]),
                      (codec["spec"], codec["at"]["cpu"]["decode_us"])]
        for way in self.first["ways"]:
            costs += [(way["codec"], way[key])
                      for key in ("solo_us", "busy_us", "cpu_us", "wire_bytes")]
        for what, cost in costs:
            self.check_rises(cost, what)

    def test_computing(self):
        computing = self.first["computing"]
        self.assertGreaterEqual(computing["samples"], 5)
        self.assertTrue(0 <= computing["wake_us"] < 1e5)
        self.assertTrue(0 <= computing["spin_lost"] <= 1)
        # with the codec that takes most of a core
        self.assertEqual(computing["spin_coded"]["codec"], "topk:ratio=0.01+ef")
        self.assertTrue(0 <= computing["spin_coded"]["lost"] <= 1)
        self.assertTrue(0 < computing["core_share"] <= 1)

    def test_codecs(self):
        codecs = {codec["spec"]: codec for codec in self.first["codecs"]}
        self.assertEqual(set(codecs), {"bf16", "topk:ratio=0.01+ef"})
        self.assertEqual([codecs[spec]["feedback"] for spec in codecs], [False, True])
        self.assertTrue(1e-7 < codecs["bf16"]["nmse"] < 1e-5)
        self.assertTrue(0.5 < codecs["topk:ratio=0.01+ef"]["nmse"] < 1)
        # 16 bits of 32
        self.assertAlmostEqual(codecs["bf16"]["wire_bytes"]["slope"], 2, 1)
        # what adds reads what is there as well, and was measured by itself
        for codec in codecs.values():
            for place in (codec["at"]["cpu"], *codec["coders"]):
                self.assertNotEqual(place["decode_us"], place["decode_add_us"])

    def test_trust(self):
        """Links, copies and codecs say how far they can be trusted, as exchanges do."""
        costs = [link["us_by_bytes"] for link in self.first["links"].values()]
        costs.append(self.first["copy_us"])
        for codec in self.first["codecs"]:
            coders = codec["coders"]
            self.assertEqual([coder["cores"] for coder in coders[:2]], [0, 1])
            tiers = [coder["tier"] for coder in coders if coder["cores"] == 0]
            self.assertEqual(len(tiers), len(set(tiers)))
            self.assertIn("scalar", tiers)
            for place in [codec["at"]["cpu"], *coders]:
                costs += [place["encode_us"], place["decode_us"], place["decode_add_us"]]
        for cost in costs:
            self.assertGreaterEqual(cost["samples"], 5)
            self.assertGreaterEqual(cost["points"], 2)
            self.assertLessEqual(cost["noisy"], cost["points"])
            self.assertEqual(cost["doubtful"] > 0, cost["doubt"] > 0.25)
            self.assertGreaterEqual(min(cost[key] for key in ("error", "spread", "doubt")), 0)
            self.check_rises(cost, cost)

    def test_ways(self):
        ways = {(way["codec"], way["run_as"]): way for way in self.first["ways"]}
        self.assertEqual(set(ways), {(codec, scheme) for codec in
                                     ("none", "bf16", "topk:ratio=0.01+ef")
                                     for scheme in ("auto", "divisible", "indivisible")})
        for key, way in ways.items():
            self.assertEqual(way["ranks"], 2, key)
            # sizes that take long where others use the machine as well are left out
            self.assertIn(way["max_elements"], (4096, 16384, 65536), key)
            self.assertGreater(way["solo_us"]["corners"][0][1], 0, key)
            # five, or three of a size at which the codec's other scheme is far faster
            self.assertGreaterEqual(way["solo_us"]["samples"], 3, key)
            self.assertEqual(1024 * 4 ** (way["solo_us"]["points"] - 1), way["max_elements"], key)
        # with two ranks a code is sent once, whole
        self.assertEqual(ways["bf16", "auto"], ways["bf16", "indivisible"] | {"run_as": "auto"})
        sent = ways["bf16", "indivisible"]["wire_bytes"]["corners"][-1]
        self.assertAlmostEqual(sent[1] / sent[0], 2, 1)

    def test_every_codec_can_be_planned(self):
        """All are coded by default, some exchanged; plans of the others say what they are made of."""
        path = os.path.join(self.folder.name, "default.json")
        result = wring("calibrate", "--json", "-n", "2", "-p", "shm", "--seconds", "0.3",
                       "--elements", "4k", "--doubt", "100", "-o", path)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        profile = json.loads(result.stdout)
        coded = [codec["spec"] for codec in profile["codecs"]]
        self.assertEqual(coded, ["lossless", "bf16", "fp16", "int8", "int8+ef", "onebit",
                                 "onebit+ef", "topk:ratio=0.01", "topk:ratio=0.01+ef"])
        exchanged = {way["codec"] for way in profile["ways"]}
        self.assertEqual(exchanged, {"none", "bf16", "fp16", "int8", "onebit+ef",
                                     "topk:ratio=0.01+ef"})
        for spec in coded:
            result = wring("plan", "--json", "-t", "lstm", "--scale", "0.001", "--profile", path,
                           "-N", "1", "-g", "2", "-c", spec, "--only", "--bound-ms", "0")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual({group["codec"] for group in json.loads(result.stdout)["groups"]},
                             {spec})
            self.assertEqual(f"no whole exchanges of {spec}: " in result.stderr,
                             spec not in exchanged, result.stderr)

    def test_adds_what_is_missing(self):
        path = os.path.join(self.folder.name, "grows.json")
        before = self.calibrate("-n", "2", "-p", "shm", "-c", "none,bf16", path=path)
        after = self.calibrate("-n", "2", "-p", "shm", "-c", "int8", path=path)
        self.assertEqual(after["links"], before["links"])
        self.assertEqual(after["copy_us"], before["copy_us"])
        self.assertEqual(after["computing"], before["computing"])
        self.assertEqual(after["ways"][:len(before["ways"])], before["ways"])
        self.assertEqual({way["codec"] for way in after["ways"]}, {"none", "bf16", "int8"})

    def test_noise_is_refused(self):
        path = os.path.join(self.folder.name, "noise.json")
        result = wring("calibrate", "-n", "2", "-p", "shm", "-c", "none", "--seconds", "0.1",
                       "--doubt", "0", "-o", path)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"(?m)^wring calibrate: this is noise, .* points .*--doubt")
        self.assertFalse(os.path.exists(path))

    def test_one_rank_per_node_has_other_links(self):
        path = os.path.join(self.folder.name, "three.json")
        profile = self.calibrate("-n", "3", "-p", "tcp", "-c", "none", path=path)
        self.assertEqual(profile["links"]["intra"]["provider"], "tcp")
        self.assertEqual({way["ranks"] for way in profile["ways"]}, {3})

    def test_a_plan_can_be_made(self):
        result = wring("plan", "--json", "-t", "lstm", "--scale", "0.001", "--profile", self.path,
                       "-N", "1", "-g", "2", "-c", "bf16", "--bound-ms", "0")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(json.loads(result.stdout)["iteration_us"], 0)

    def test_copies_are_planned_with(self):
        """Gradients that lie apart are copied, if a profile knows what that takes."""
        some = ("plan", "--json", "-t", "lstm", "--scale", "0.01", "-N", "1", "-g", "2", "--bound-ms",
                "0", "--search", "layers")
        plans = [wring(*some, "--profile", self.path, "--memory", how)
                 for how in ("together", "apart")]
        together, apart = (json.loads(plan.stdout)["iteration_us"] for plan in plans)
        self.assertGreater(apart, together)
        refused = wring(*some, "--profile", "espresso-pcie", "--memory", "apart")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("nobody measured copies for the profile espresso-pcie", refused.stderr)
        self.assertEqual(wring(*some, "--memory", "far").returncode, 2)

    def gradients(self, name="gradients.bin", scale=1.0):
        """Over two and three steps in a row: many alike, one that stands out, and all sizes."""
        def sized(text):
            return struct.pack("<I", len(text)) + text
        steps = (3, 4, 8, 9, 10)
        flat = [scale * (1 if i % 2 else -1) for i in range(1024)]
        spiky = [scale * (100 if i == 7 else 0.001 * (1 if i % 3 else -1)) for i in range(1024)]
        data = b"wring-gradients\n" + struct.pack("<III", 1, 3, len(steps)) + sized(b"by hand")
        data += struct.pack("<5Q", *steps)
        ramp = [scale * (i / 512 - 1) for i in range(1024)]
        for tensor in (b"flat", b"spiky", b"ramp"):
            data += sized(tensor) + struct.pack("<QI", 1024, 1024)
        data += len(steps) * struct.pack("<3072f", *flat, *spiky, *ramp)
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def wild_gradients(self):
        """One step of one tensor whose exponents are anything."""
        path = os.path.join(self.folder.name, "wild.bin")
        values = [2.0 ** (i * i % 199 - 99) for i in range(65536)]
        with open(path, "wb") as file:
            file.write(b"wring-gradients\n" + struct.pack("<IIIIQI", 1, 1, 1, 0, 0, 1) + b"a" +
                       struct.pack("<QI65536f", 65536, 65536, *values))
        return path

    def test_errors_on_gradients(self):
        path = os.path.join(self.folder.name, "errors.json")
        codecs = "none,bf16,onebit,onebit+ef,topk:ratio=0.01,onebit+ef>bf16"
        before = self.calibrate("-n", "2", "-p", "shm", "-c", codecs, path=path)
        self.assertNotIn("errors", before)
        said = wring("plan", "--json", "-t", "lstm", "--profile", path, "-N", "1", "-g", "2",
                     "-c", "bf16", "--max-nmse", "0.1", "--bound-ms", "0").stderr
        self.assertIn("bell-shaped", said)
        after = self.calibrate("--gradients", self.gradients(), "-n", "2", "-p", "shm",
                               "-c", "none", path=path)
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
        path = os.path.join(self.folder.name, "lossless.json")
        some = ("-n", "2", "-p", "shm", "--seconds", "0.3")
        before = self.calibrate(*some, "-c", "none,lossless,bf16", path=path)
        gradients = (*some, "-c", "none", "--gradients", self.wild_gradients())
        after = self.calibrate(*gradients, path=path)
        bell, wild = ({codec["spec"]: codec for codec in profile["codecs"]}
                      for profile in (before, after))
        self.assertGreater(wild["lossless"]["wire_bytes"]["slope"],
                           1.05 * bell["lossless"]["wire_bytes"]["slope"])
        self.assertEqual(wild["bf16"]["wire_bytes"], bell["bf16"]["wire_bytes"])
        self.assertEqual([codec["nmse"] for codec in after["errors"]["codecs"]
                          if codec["spec"] == "lossless"], [0])

    def plan_within_budget(self, path):
        """Each tensor has the codecs that its own gradients bear."""
        trace = os.path.join(self.folder.name, "trace.json")
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

    def test_further_settings(self):
        """Each has ranks of its own, and its exchanges stand beside the others'."""
        path = os.path.join(self.folder.name, "settings.json")
        some = ("calibrate", "-n", "2", "-p", "shm", "-c", "none", "--seconds", "0.4", "--elements",
                "4k", "--doubt", "100", "-o", path)
        result = wring(*some, "--json", "--chunk-bytes", "256k,64k")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        first = json.loads(result.stdout)["ways"]
        self.assertEqual([(way["run_as"], way["coder_cores"], way["chunk_bytes"]) for way in first],
                         [(scheme, 0, piece) for piece in (262144, 65536)
                          for scheme in ("auto", "divisible", "indivisible")])
        result = wring(*some, "--cores", "1")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        with open(path, encoding="utf-8") as file:
            ways = json.load(file)["ways"]
        self.assertEqual(ways[:6], first)  # as they were
        self.assertEqual({(way["coder_cores"], way["chunk_bytes"]) for way in ways[6:]}, {(1, 262144)})
        for says, *more in (("a rank may use", "--cores", "4096", "-o", path),
                            ("-o FILE", "--json", "--cores", "0,1")):
            result = wring("calibrate", "-n", "2", "-p", "shm", *more)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(says, result.stderr)

    def test_nodes_by_name(self):
        """WRING_NODE makes hosts of one; they need as many ranks each."""
        path = os.path.join(self.folder.name, "nodes.json")
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

    def test_info(self):
        for profile in (self.path, "espresso-pcie"):
            svg = os.path.join(self.folder.name, "profile.svg")
            result = wring("info", "--profile", profile, "--svg", svg)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("onebit" if profile != self.path else "bf16", result.stdout)
            curves = [at for at in xml.etree.ElementTree.parse(svg).iter()
                      if at.tag.endswith("polyline")]
            self.assertGreaterEqual(len(curves), 4)
            trust = r"(\d+ % +){3}\d+ of \d+" if profile == self.path else "- +- +- +-"
            self.assertRegex(result.stdout, r"\n *links .* doubt +noisy\n *intra .* " + trust)
            coders = profile == self.path  # by cores and kernels; the built-in ones have none
            self.assertEqual("inline" in result.stdout and "scalar" in result.stdout, coders)
            with open(svg, encoding="utf-8") as file:
                drawn = file.read()
            self.assertEqual("bf16, inline, scalar" in drawn, coders)
            self.assertEqual("intra, put, alone" in drawn and "intra, alltoall" in drawn, coders)
        result = wring("info", "--json", "--profile", self.path)
        self.assertEqual(json.loads(result.stdout)["ways"], self.first["ways"])

    def test_plans_are_for_this_machine(self):
        """What was calibrated over shared memory plans no job over tcp."""
        plan = os.path.join(self.folder.name, "plan.json")
        shared = ("-t", "lstm", "--scale", "0.001")
        made = wring("plan", *shared, "-p", self.path, "--runnable", "--bound-ms", "0", "-o", plan)
        self.assertEqual(made.returncode, 0, made.stderr)
        for provider, status, says in (("shm", 0, ""), ("tcp", 1, 'ranks over shm", and this is "')):
            result = wring("replay", *shared, "--plan", plan, "-n", "2", "-p", provider,
                           "--iterations", "2")
            self.assertEqual(result.returncode, status, result.stderr)
            self.assertIn(says, result.stderr)

    def test_refusals(self):
        bad, new = (os.path.join(self.folder.name, name) for name in ("bad.json", "new.json"))
        with open(bad, "w", encoding="utf-8") as file:
            json.dump(self.first | {"machine": "another"}, file)
        for arguments, status, says in (
                (("-o", bad, "-p", "shm"), 1, "was measured on \"another\", and this is"),
                (("--into", "/nowhere.json", "-p", "shm"), 1, "/nowhere.json"),
                (("-o", "/nowhere/x.json", "-p", "shm", "-c", "none"), 1, "/nowhere/x.json"),
                (("-o", bad, "-c", "nonsense"), 1, "nonsense"),
                (("-o", new, "-p", "shm", "--gradients", bad), 1,
                 "bad.json: is no wring-gradients file"),
                (("-o", new, "-p", "shm", "--gradients", self.gradients("nan", float("nan"))), 1,
                 "nan: values[0]: needs a finite number, in step 3"),
                (("-o", bad, "-c", "bf16,bf16"), 2, "twice"),
                (("-n", "1", "-o", bad), 2, "--ranks"),
                (("-p", "shm"), 2, "-o FILE"),
                (("--into", bad, "--fresh"), 2, "--fresh")):
            result = wring("calibrate", *SHORT, *arguments)
            self.assertEqual(result.returncode, status, (arguments, result))
            self.assertIn(says, result.stderr)
            self.assertNotIn("Traceback", result.stderr)
        self.assertEqual(wring("info", "--svg", "x.svg").returncode, 2)
        self.assertEqual(wring("info", "--profile", "nothing").returncode, 1)


class TwoHosts(unittest.TestCase):
    """Two network namespaces with a cable between them are two nodes of one rank."""

    def namespace(self):
        keeper = subprocess.Popen(["unshare", "--net", "sleep", "300"], stdin=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(keeper.wait)
        self.addCleanup(keeper.kill)
        own, place = os.readlink("/proc/self/ns/net"), f"/proc/{keeper.pid}/ns/net"
        deadline = time.monotonic() + 10
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
        hosts = self.connect()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "profile.json")
            for _ in range(5):
                ranks = [self.start(host, rank, path) for rank, host in enumerate(hosts)]
                said = [rank.communicate(timeout=wringtest.PATIENCE)[1] for rank in ranks]
                if "this is noise" not in said[0]:
                    break
            self.assertEqual([rank.returncode for rank in ranks], [0, 0], said)
            with open(path, encoding="utf-8") as file:
                profile = json.load(file)
        self.assertEqual((profile["nodes"], profile["ranks_per_node"]), (2, 1))
        self.assertEqual(list(profile["links"]), ["inter"])
        self.assertIn("2 x 1 ranks over tcp", profile["machine"])
        # buckets one after another take as long as their bytes do on the link, at least
        sustained_us = profile["links"]["inter"]["us_by_bytes"]["slope"]
        for way in profile["ways"]:
            for (elems, us), sent in zip(*(way[name]["corners"][-1:] for name in
                                           ("busy_us", "wire_bytes"))):
                self.assertEqual(elems, sent[0])
                self.assertGreaterEqual(us, 0.9 * sustained_us * sent[1])

    @staticmethod
    def start(host, rank, path):
        job = wringtest.environment(WRING_RANK=str(rank), WRING_SIZE="2",
                                    WRING_ROOT="10.9.0.1:7117", WRING_KEY="two hosts, one cable",
                                    WRING_PROVIDER="tcp")
        return subprocess.Popen([*host, wringtest.WRING, "calibrate", *SHORT, "-c", "none", "-o",
                                 path], env=job, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)


wringtest.main()
