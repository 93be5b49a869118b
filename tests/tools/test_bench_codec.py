#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wring bench codec: complete results, sizes and errors as the format has them, limits of twins."""
import json
import math
import os
import tempfile
import unittest

import wringtest
from calibrating import write_gradients
from wringtest import wring

FIELDS = {"codec", "way", "tier", "elements", "encode_gb_per_s", "decode_gb_per_s", "decode_add_gb_per_s",
          "encode_limit_gb_per_s", "decode_add_limit_gb_per_s", "memcpy_gb_per_s", "encoded_bytes",
          "round_bytes", "ratio", "nmse", "nmse_sum"}
BYTES = {"f32": 4, "f16": 2, "bf16": 2}
SPEEDS = {field for field in FIELDS if field.endswith("gb_per_s")}


def bench(*arguments, **extra):
    return wring("bench", "codec", "--seconds", "0.02", *arguments, **extra)


def runnable():
    info = json.loads(wring("info", "--codecs", "--json").stdout)
    return info["kernels"]["runnable"], info["codecs"]


class Results(unittest.TestCase):
    def measure(self, *arguments, **extra):
        result = bench("--json", *arguments, **extra)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        answer = json.loads(result.stdout)
        for one in answer["results"]:
            self.assertLessEqual(FIELDS, one.keys())
            for field in SPEEDS:
                self.assertGreater(one[field], 0, one)
            self.assertAlmostEqual(one["ratio"] * one["elements"] * BYTES[answer["type"]],
                                   one["encoded_bytes"] + one["round_bytes"], 3)
            self.assertGreaterEqual(one["rounds"], 5)
        return answer

    def test_every_codec_alone_and_with_feedback(self):
        without = {"signsgd", "signum", "union", "dgc"}  # they have no use for a residual
        _, codecs = runnable()
        specs = [codec["name"] + feedback for codec in codecs for feedback in
                 (("",) if codec["exact"] or codec["name"] in without else ("", "+ef"))]
        results = self.measure("-c", ",".join(specs), "-e", "10000")["results"]
        self.assertEqual([one["codec"] for one in results], specs)
        altered = {"signsgd", "signum", "randk", "terngrad"}  # which are right in sums, not one by one
        for one in results:
            self.assertEqual(one["elements"], 10000)
            self.assertGreaterEqual(one["nmse"], 0, one)
            self.assertTrue(one["nmse"] < 1 or one["codec"] in altered, one)
        for name in without:
            refused = wring("bench", "codec", "-c", f"{name}+ef", "-e", "32", "--seconds", "0")
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn(f"{name}+ef: ", refused.stderr)

    def test_sizes_and_errors(self):
        results = {one["codec"]: one for one in self.measure(
            "-c", "none,bf16,int8,int8:block=64,onebit,topk:ratio=0.01,powersgd", "-e",
            "64k")["results"]}
        self.assertEqual(results["none"]["encoded_bytes"], 4 * 65536)
        self.assertEqual(results["none"]["nmse"], 0)
        self.assertEqual(results["bf16"]["encoded_bytes"], 2 * 65536)
        self.assertLess(results["bf16"]["nmse"], 1e-5)
        self.assertLess(results["int8:block=64"]["nmse"], results["int8"]["nmse"])
        self.assertGreater(results["int8:block=64"]["ratio"], results["int8"]["ratio"])
        # of a bell-shaped x, signs at the mean of |x| leave 1 - E|x|²/E[x²] of the power
        self.assertAlmostEqual(results["onebit"]["nmse"], 0.35, delta=0.03)
        self.assertLess(results["topk:ratio=0.01"]["ratio"], 0.02)
        # factors of rank 4 of a matrix of 256 x 256 travel in rounds
        self.assertEqual(results["powersgd"]["round_bytes"], 4 * 4 * (256 + 256))
        self.assertGreater(results["powersgd"]["ratio"], 2 / 64)
        self.assertEqual(results["int8"]["round_bytes"], 0)

    def test_both_ways(self):
        """The way back is what its codec is alone."""
        asked = ("onebit:block=64+ef>int8", "none>bf16", "terngrad>bf16", "int8:block=64+ef21>int8+ef")
        results = self.measure("-c", ",".join(asked) + ",int8,onebit:block=64+ef", "-e",
                               "10000")["results"]
        self.assertEqual([(one["codec"], one["way"]) for one in results],
                         [(spec, way) for spec in asked for way in ("in", "back")] +
                         [("int8", "in"), ("onebit:block=64+ef", "in")])
        size = [one["encoded_bytes"] for one in results]
        self.assertEqual((size[0], size[1]), (size[9], size[8]))
        self.assertEqual((size[2], size[3], size[5]), (40000, 20000, 20000))
        self.assertEqual(results[5]["round_bytes"], 0)
        self.assertGreater(results[4]["round_bytes"], 0)
        self.assertEqual(results[1]["nmse"], results[8]["nmse"])
        self.assertEqual(results[0]["nmse_sum"], results[1]["nmse_sum"])
        shown = bench("-c", "onebit+ef>int8", "-e", "4k").stdout
        self.assertRegex(shown, r"onebit\+ef>int8, in .*\n +onebit\+ef>int8, back ")

    def test_every_codec_of_16_bits(self):
        """The error of float32, and of rounding to the type; codes of as many bytes."""
        _, codecs = runnable()
        specs = [codec["name"] for codec in codecs]
        specs += ["int8+ef", "topk+ef:residual=bf16", "powersgd+ef", "onebit+ef>int8"]
        wide, half, upper = (
            {(one["codec"], one["way"]): one for one in self.measure(
                "-c", ",".join(specs), "-e", "10000", "--type", name)["results"]}
            for name in ("f32", "f16", "bf16"))
        self.assertEqual(wide.keys(), half.keys())
        packed = {codec["name"] for codec in codecs if codec["exact"]}
        for key, one in wide.items():
            for narrow, rounding in ((half[key], 2**-23), (upper[key], 2**-17)):
                if key[0] in packed:
                    self.assertEqual(narrow["nmse"], 0, key)
                    self.assertLess(narrow["encoded_bytes"], 0.51 * one["elements"] * 4, key)
                    self.assertLess(narrow["nmse_sum"], rounding, key)
                    continue
                self.assertAlmostEqual(narrow["encoded_bytes"] / one["encoded_bytes"], 1, 1)
                # codecs that draw do so by rank, which is another one
                self.assertAlmostEqual(narrow["nmse"], one["nmse"], msg=key,
                                       delta=0.15 * one["nmse"] + rounding)

    def test_numbers_are_what_they_are_called(self):
        """Signs at the mean of |x| leave 1 - E|x|²/E[x²] of the power."""
        for data, nmse in (("bell", 0.35), ("normal", 1 - 2 / math.pi), ("laplace", 0.5)):
            answer = self.measure("-c", "onebit", "-e", "64k", "--data", data)
            self.assertEqual(answer["data"], data)
            self.assertAlmostEqual(answer["results"][0]["nmse"], nmse, delta=0.03, msg=data)

    def test_errors_of_sums(self):
        """n - 1 contributions are coded, the owner's own is not, and then the sum, as large as n."""
        for ranks in (2, 4, 16):
            answer = self.measure("-c", "int8,none", "-e", "512k", "--data", "normal", "-n",
                                  str(ranks), WRING_SCHEME="divisible")
            int8, none = answer["results"]
            self.assertEqual(answer["ranks"], ranks)
            self.assertAlmostEqual(int8["nmse_sum"] / int8["nmse"], 2 - 1 / ranks, delta=0.05)
            self.assertLess(none["nmse_sum"], 1e-13)
        self.assertGreater(none["nmse_sum"], 0)  # float32 rounds 15 times
        alone = self.measure("-c", "int8", "-e", "4k", "-n", "1")
        self.assertEqual((alone["ranks"], alone["results"][0]["nmse_sum"]), (1, None))

    def test_recorded_gradients(self):
        usual = self.measure("-c", "int8", "-e", "2048", "--data", "recorded")
        self.assertEqual((usual["data"], usual["ranks"]), ("recorded", 4))
        sixteen, repeated = (self.measure("-c", "int8", "-e", elems, "-d", "recorded", "-n", "16")
                             for elems in ("2048", "20480"))
        self.assertNotEqual(sixteen["results"][0]["nmse_sum"], usual["results"][0]["nmse_sum"])
        self.assertAlmostEqual(sixteen["results"][0]["nmse"] / repeated["results"][0]["nmse"], 1, 4)
        # other ranks own other elements, and do not code their own
        self.assertAlmostEqual(sixteen["results"][0]["nmse_sum"],
                               repeated["results"][0]["nmse_sum"],
                               delta=0.05 * repeated["results"][0]["nmse_sum"])

    def test_gradients_of_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = write_gradients(os.path.join(folder, "gradients.bin"))
            answer = self.measure("-c", "topk:ratio=0.34", "-e", "3072", "--data", path)
            # its third is flat, the next has one number that counts, and the last grows from -1 to 1
            self.assertLess(answer["results"][0]["nmse"], 0.2)
            self.assertEqual((answer["ranks"], answer["results"][0]["nmse_sum"]), (1, None))
            refused = bench("-e", "32", "--data", path, "-n", "2")
            self.assertEqual(refused.returncode, 1)
            self.assertIn("has gradients of 1 rank; take at most as many --ranks", refused.stderr)

    def test_any_number_of_elements(self):
        for elems in ("1", "7", "4097"):
            results = self.measure("-c", "none,int8+ef,onebit,topk+ef", "-e", elems)["results"]
            self.assertEqual({one["elements"] for one in results}, {int(elems)})

    def test_tiers_agree_but_for_speed(self):
        tiers, codecs = runnable()
        names, found = [codec["name"] for codec in codecs], []
        for tier in tiers:
            results = self.measure("-c", ",".join(names), "-e", "5000", "--tier", tier)["results"]
            self.assertIn(tier, {one["tier"] for one in results})
            found.append([(one["codec"], one["encoded_bytes"], one["nmse"]) for one in results])
        self.assertEqual(found, [found[0]] * len(tiers))

    def test_tier_follows_the_setting(self):
        results = self.measure("-c", "int8", "-e", "4k", WRING_CPU="scalar")["results"]
        self.assertEqual(results[0]["tier"], "scalar")

    def test_scalar_kernels_stay_below_the_limit(self):
        """They compute; the twin, with the widest vectors, does not. One of several runs shows that, as
        others may have had the processor during a twin's turns."""
        tiers, _ = runnable()
        if len(tiers) == 1:
            self.skipTest("this processor has scalar kernels only")
        for _ in range(5):
            one = self.measure("-c", "int8+ef", "-e", "16k", "--tier", "scalar")["results"][0]
            if one["encode_gb_per_s"] < one["encode_limit_gb_per_s"]:
                break
        self.assertLess(one["encode_gb_per_s"], one["encode_limit_gb_per_s"])

    def test_threads_have_a_core_each(self):
        cores = len(os.sched_getaffinity(0))
        answer = self.measure("-c", "int8", "-e", "4k", "--threads", "1")
        self.assertEqual((answer["threads"], len(answer["cores"])), (1, 1))
        if cores >= 2:
            answer = self.measure("-c", "int8+ef,none", "-e", "64k", "--threads", "2")
            self.assertEqual((answer["threads"], len(set(answer["cores"]))), (2, 2))

    def test_table(self):
        result = bench("-c", "none,int8+ef", "-e", "4k")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"codec +kernels +encode +of limit .*nmse +nmse_sum\n +none .*%")
        self.assertRegex(result.stdout, r"\n +int8\+ef .*%.*%")


class Refusals(unittest.TestCase):
    def check(self, code, *arguments, says):
        result = bench(*arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertIn(says, result.stderr)

    def test_bad_usage(self):
        self.check(2, "-c", "nonsense", says="nonsense")
        self.check(2, "-c", "int8:block=3", says="block")
        self.check(2, "-c", "", says="--codec")
        self.check(2, "-c", "onebit+ef>nonsense", says="nonsense")
        self.check(2, "--type", "f64", says="f32|f16|bf16")
        self.check(2, "-e", "0", says="--elements")
        self.check(2, "-e", "many", says="--elements")
        self.check(2, "-t", "0", says="--threads")
        self.check(2, "--tier", "sse", says="scalar|avx2|avx512|vbmi2|neon")
        self.check(2, "--seconds", "-1", says="--seconds")
        self.check(2, "--ranks", "65", says="--ranks")
        for name in ("/nonexistent/g", "Normal", ""):
            self.check(1, "--data", name, says=f"--data {name}: neither a file nor bell, normal, laplace ")
        self.check(1, "--data", "/", says="/: cannot be read: Is a directory")
        self.check(1, "--data", "recorded", "-n", "17", says="recorded has gradients of 16 ranks")

    def test_what_this_machine_lacks(self):
        tiers, _ = runnable()
        missing = [tier for tier in ("avx2", "avx512", "vbmi2", "neon") if tier not in tiers]
        self.assertTrue(missing)
        self.check(1, "--tier", missing[0], says=f"cannot run {missing[0]} kernels")
        cores = len(os.sched_getaffinity(0))
        if cores < 256:
            self.check(1, "-t", str(cores + 1), says="fewer --threads")
        self.check(1, "-e", "16g", "-t", "1", says="fewer --elements")


if __name__ == "__main__":
    wringtest.main()
