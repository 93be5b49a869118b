#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wring calibrate: what it writes is a profile that rises, can be added to, planned with and drawn."""
import contextlib
import json
import os
import tempfile
import unittest
import xml.etree.ElementTree

import wringtest
from calibrating import SHORT, calibrate, write_gradients
from wringtest import wring

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
        return calibrate(path or cls.path, *arguments)

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
        for one in self.first["ways"]:
            costs += [(one["codec"], one[key])
                      for key in ("solo_us", "busy_us", "cpu_us", "wire_bytes")]
        for what, cost in costs:
            self.check_rises(cost, what)

    def test_computing(self):
        computing = self.first["computing"]
        self.assertGreaterEqual(computing["samples"], 5)
        self.assertTrue(0 <= computing["wake_us"] < 1e5)
        self.assertTrue(0 <= computing["spin_lost"] <= 1)
        # with the codec that took most of a core, which on a busy machine may be any
        self.assertIn(computing["spin_coded"]["codec"], ("bf16", "topk:ratio=0.01+ef"))
        self.assertTrue(0 <= computing["spin_coded"]["lost"] <= 1)
        self.assertTrue(0 < computing["core_share"] <= 1)

    def test_ranks_that_share_a_core_are_told(self):
        """By the processor time they get. Ten others on that core would leave one rank alone little
        more than each of four, so the ranks go before others where they may."""
        cores, nice = os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)
        os.sched_setaffinity(0, {min(cores)})
        try:
            with contextlib.suppress(PermissionError):
                os.setpriority(os.PRIO_PROCESS, 0, nice - 10)
            shared = self.calibrate("-n", "4", "-p", "shm", "-c", "none",
                                    path=os.path.join(self.folder.name, "shared.json"))
        finally:
            os.setpriority(os.PRIO_PROCESS, 0, nice)
            os.sched_setaffinity(0, cores)
        self.assertLess(shared["computing"]["core_share"], 0.9) # a quarter, where nobody else does

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
        """Links, copies and codecs say how far they can be trusted, as collectives do."""
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

    def test_collectives(self):
        entries = {(one["codec"], one["run_as"]): one for one in self.first["ways"]}
        self.assertEqual(set(entries), {(codec, scheme) for codec in
                                     ("none", "bf16", "topk:ratio=0.01+ef")
                                     for scheme in ("auto", "divisible", "indivisible")})
        for key, one in entries.items():
            self.assertEqual(one["ranks"], 2, key)
            # sizes that take long where others use the machine as well are left out
            self.assertIn(one["max_elements"], (4096, 16384, 65536), key)
            self.assertGreater(one["solo_us"]["corners"][0][1], 0, key)
            # five, or three of a size at which the codec's other scheme is far faster
            self.assertGreaterEqual(one["solo_us"]["samples"], 3, key)
            self.assertEqual(1024 * 4 ** (one["solo_us"]["points"] - 1), one["max_elements"], key)
        # with two ranks a code is sent once, whole
        self.assertEqual(entries["bf16", "auto"], entries["bf16", "indivisible"] | {"run_as": "auto"})
        sent = entries["bf16", "indivisible"]["wire_bytes"]["corners"][-1]
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
        exchanged = {one["codec"] for one in profile["ways"]}
        self.assertEqual(exchanged, {"none", "bf16", "fp16", "int8", "onebit+ef",
                                     "topk:ratio=0.01+ef"})
        for spec in coded:
            result = wring("plan", "--json", "-t", "lstm", "--scale", "0.001", "--profile", path,
                           "-N", "1", "-g", "2", "-c", spec, "--only", "--bound-ms", "0")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual({group["codec"] for group in json.loads(result.stdout)["groups"]},
                             {spec})
            self.assertEqual(f"no whole collectives of {spec}: " in result.stderr,
                             spec not in exchanged, result.stderr)

    def test_coding_alone(self):
        """Of codecs that are named, or all; with what they are beside their times."""
        path = os.path.join(self.folder.name, "coding.json")
        specs = ["bf16", "onebit+ef>int8", "dgc", "topkc", "powersgd+ef", "sharedint",
                 "sharedint:width=4"]
        result = wring("calibrate", "--json", "-n", "2", "-p", "shm", "-c", "none", "--coding",
                       ",".join(specs), "--seconds", "0.3", "--elements", "4k", "--doubt", "100",
                       "-o", path)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        profile = json.loads(result.stdout)
        codecs = {codec["spec"]: codec for codec in profile["codecs"]}
        self.assertEqual(list(codecs), specs)
        self.assertEqual({one["codec"] for one in profile["ways"]}, {"none"})
        self.assertNotIn("traits", codecs["bf16"])
        traits = {spec: codec["traits"] for spec, codec in codecs.items() if "traits" in codec}
        self.assertEqual([spec for spec in specs if traits.get(spec, {}).get("alters")], ["dgc"])
        self.assertEqual({spec: one["rounds"] for spec, one in traits.items() if "rounds" in one},
                         {"topkc": 1, "powersgd+ef": 2, "sharedint": 1,
                          "sharedint:width=4": 1})
        self.assertEqual(traits["onebit+ef>int8"]["state_bytes"], 4)
        self.assertEqual(traits["dgc"]["state_bytes"], 8)
        self.assertTrue(codecs["sharedint"]["summable"])
        self.assertNotIn("way_back", traits["sharedint"])
        # sums of 4 bits travel in 8
        self.assertEqual(traits["sharedint:width=4"]["way_back"]["bytes"]["slope"], 1)
        self.assertEqual(traits["sharedint:width=4"]["way_back"]["nmse"], 0)
        self.assertIn("decode_us", traits["sharedint:width=4"]["way_back"])
        adding = ["powersgd+ef", "sharedint", "sharedint:width=4"]
        self.assertEqual([spec for spec in specs if "code_sum_us" in codecs[spec]["at"]["cpu"]],
                         adding)
        for spec in specs:
            for coder in codecs[spec]["coders"]:
                self.assertEqual("code_sum_us" in coder, spec in adding, (spec, coder))
        self.assertAlmostEqual(traits["onebit+ef>int8"]["way_back"]["bytes"]["slope"], 1, 1)
        # sums of few elements grow until they have all
        grown = traits["dgc"]["way_back"]
        self.assertGreater(grown["most_bytes"]["slope"], 10 * grown["bytes"]["slope"])
        self.assertGreaterEqual(grown["most_bytes"]["slope"], 4)
        shown = wring("info", "--profile", path).stdout
        self.assertRegex(shown, r"\n *powersgd\+ef +no +2 ")
        plan = wring("plan", "--json", "-t", "lstm", "--scale", "0.001", "-p", path, "-N", "1", "-g",
                     "2", "-c", "all", "--max-nmse", "1", "--bound-ms", "0")
        self.assertEqual(plan.returncode, 0, plan.stderr)
        refused = wring("calibrate", "-n", "2", "-o", path, "--coding", "bf16,nonsense")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("nonsense", refused.stderr)
        refused = wring("calibrate", "-n", "2", "-o", path, "--coding", ",".join(129 * ["bf16"]))
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--coding takes up to 128 specs", refused.stderr)

    def test_adds_what_is_missing(self):
        path = os.path.join(self.folder.name, "grows.json")
        before = self.calibrate("-n", "2", "-p", "shm", "-c", "none,bf16", path=path)
        after = self.calibrate("-n", "2", "-p", "shm", "-c", "int8", path=path)
        self.assertEqual(after["links"], before["links"])
        self.assertEqual(after["copy_us"], before["copy_us"])
        self.assertEqual(after["computing"], before["computing"])
        self.assertEqual(after["ways"][:len(before["ways"])], before["ways"])
        self.assertEqual({one["codec"] for one in after["ways"]}, {"none", "bf16", "int8"})

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
        self.assertEqual({one["ranks"] for one in profile["ways"]}, {3})

    def test_sums_two_by_two_are_measured(self):
        """Neither of the schemes that can be named sends as many bytes as many ranks do by themselves."""
        path = os.path.join(self.folder.name, "nine.json")
        profile = self.calibrate("-n", "9", "-p", "tcp", "-c", "none", "--elements", "4k", path=path)
        sent = {one["run_as"]: one["wire_bytes"]["corners"][0][1] for one in profile["ways"]}
        self.assertEqual(set(sent), {"auto", "divisible", "indivisible"})
        self.assertLess(sent["auto"], sent["indivisible"])
        self.assertGreater(sent["auto"], sent["divisible"])

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

    def test_further_settings(self):
        """Each has ranks of its own, and its collectives stand beside the others'."""
        path = os.path.join(self.folder.name, "settings.json")
        some = ("calibrate", "-n", "2", "-p", "shm", "-c", "none", "--seconds", "0.4", "--elements",
                "4k", "--doubt", "100", "-o", path)
        result = wring(*some, "--json", "--chunk-bytes", "256k,64k")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        first = json.loads(result.stdout)["ways"]
        self.assertEqual([(one["run_as"], one["coder_cores"], one["chunk_bytes"]) for one in first],
                         [(scheme, 0, piece) for piece in (262144, 65536)
                          for scheme in ("auto", "divisible", "indivisible")])
        result = wring(*some, "--cores", "1")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        with open(path, encoding="utf-8") as file:
            entries = json.load(file)["ways"]
        self.assertEqual(entries[:6], first)  # as they were
        self.assertEqual({(one["coder_cores"], one["chunk_bytes"]) for one in entries[6:]}, {(1, 262144)})
        for says, *more in (("a rank may use", "--cores", "4096", "-o", path),
                            ("-o FILE", "--json", "--cores", "0,1")):
            result = wring("calibrate", "-n", "2", "-p", "shm", *more)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(says, result.stderr)

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
        bad, new, nan = (os.path.join(self.folder.name, name)
                         for name in ("bad.json", "new.json", "nan.bin"))
        write_gradients(nan, float("nan"))
        with open(bad, "w", encoding="utf-8") as file:
            json.dump(self.first | {"machine": "another"}, file)
        for arguments, status, says in (
                (("-o", bad, "-p", "shm"), 1, "was measured on \"another\", and this is"),
                (("--into", "/nowhere.json", "-p", "shm"), 1, "/nowhere.json"),
                (("-o", "/nowhere/x.json", "-p", "shm", "-c", "none"), 1, "/nowhere/x.json"),
                (("-o", bad, "-c", "nonsense"), 1, "nonsense"),
                (("-o", new, "-p", "shm", "--gradients", bad), 1,
                 "bad.json: is no wring-gradients file"),
                (("-o", new, "-p", "shm", "--gradients", nan), 1,
                 "nan.bin: values[0]: needs a finite number, in step 3"),
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


wringtest.main()
