#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wring replay: what is planned runs in real processes, and its sums are right."""
import json
import os
import tempfile
import unittest

import wringtest
from wringtest import wring

SHARED = ("-t", "lstm", "--scale", "0.001")


class Replays(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "plan.json")

    def make_plan(self, *arguments, nodes="2"):
        result = wring("plan", "--json", *SHARED, "-N", nodes, "-g", "1", "--runnable", "--where",
                       "cpu", "--bound-ms", "0", "-o", self.path, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def replay(self, *arguments, **extra):
        result = wring("replay", "--json", *SHARED, "--iterations", "3", *arguments, **extra)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_without_a_plan(self):
        for codec in ("none", "bf16", "onebit+ef"):
            answer = self.replay("-p", "shm", "-n", "3", "-c", codec)
            self.assertEqual((answer["ranks"], answer["wrong"]), (3, 0))
            self.assertIsNone(answer["predicted_us"])
            self.assertGreater(answer["measured_us"], 5.3) # as long as backward takes
            self.assertGreater(answer["cpu_us"], 0)

    def test_a_plan_runs(self):
        for provider in ("shm", "tcp"):
            plan = self.make_plan("-c", "onebit+ef,onebit")
            self.assertTrue(all(group["run_as"] for group in plan["groups"]), plan)
            answer = self.replay("--plan", self.path, "-p", provider, "-n", "2")
            self.assertEqual(answer["wrong"], 0)
            self.assertAlmostEqual(answer["predicted_us"], plan["iteration_us"], 6)
            self.assertAlmostEqual(answer["error"],
                                   answer["predicted_us"] / answer["measured_us"] - 1, 6)

    def plan_groups(self, trace, groups):
        """A plan of these groups. @param groups [(tensors, codec)] @return the model's order"""
        picture = self.path + ".perfetto"
        result = wring("plan", "-t", trace, "-N", "2", "-g", "1", "--runnable", "--where", "cpu",
                       "--bound-ms", "0", "--search", "layers", "--only", "-c", "onebit", "-o",
                       self.path, "--perfetto", picture)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(picture, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        lane, = (e["tid"] for e in events if e["name"] == "thread_name" and
                 e["args"]["name"] == "inter")
        starts = sorted((e["ts"], e["name"]) for e in events if e["ph"] == "X" and e["tid"] == lane)
        with open(self.path, encoding="utf-8") as file:
            plan = json.load(file)
        elements = {group["tensors"][0]: group["elements"] for group in plan["groups"]}
        raw = {"codec": "none", "where": "", "scheme": "flat allreduce", "run_as": "auto"}
        plan["groups"] = [{**plan["groups"][0], **(raw if codec == "none" else {"codec": codec}),
                           "tensors": tensors, "elements": sum(map(elements.get, tensors)),
                           "tensor_elements": list(map(elements.get, tensors))}
                          for tensors, codec in groups]
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(plan, file)
        return [name for _, name in starts if any(name == tensors[0] for tensors, _ in groups)]

    def test_order_is_the_models(self):
        """All is ready at once. Groups begin in the order of the model's lanes; their first pieces
        leave in it, too, but for uncompressed ones, which pass those that still encode."""
        record, trace = self.path + ".record", self.path + ".trace"
        with open(trace, "w", encoding="utf-8") as file:
            json.dump({"format": "wring-trace", "version": 1, "model": "m", "dtype": "float32",
                       "tensors": [{"name": f"t{i}", "elements": 60000 - 7000 * i, "ready_us": 0}
                                   for i in range(7)]}, file)
        coded, raw = [["t0"], ["t2"], ["t6"]], [["t1"], ["t3", "t4"], ["t5"]]
        groups = sorted([(g, "onebit") for g in coded] + [(g, "none") for g in raw])
        order = self.plan_groups(trace, groups)
        result = wring("replay", "-t", trace, "--plan", self.path, "-n", "2", "-p", "shm",
                       "--iterations", "3", WRING_TRACE=record)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(record, encoding="utf-8") as file:
            events = [e for e in json.load(file) if e["ph"] == "X"]
        steps, first = {}, {}
        for event in sorted(events, key=lambda e: e["ts"]):
            bucket = event["args"].get("bucket", event["name"]).split(" ")[0]
            iteration = event["pid"], event["args"].get("number")
            if event["cat"] == "buckets" and bucket in order:
                steps.setdefault(iteration, []).append(bucket)
            elif event["name"] == "send" and bucket in order:
                first.setdefault(iteration, {}).setdefault(bucket, event["ts"])
        self.assertGreaterEqual(len(steps), 6)
        for iteration, begun in steps.items():
            self.assertEqual(begun, order)
            for kind in (coded, raw):
                names = [tensors[0] for tensors in kind if tensors[0] in first.get(iteration, {})]
                self.assertEqual(names, sorted(names, key=first.get(iteration, {}).get))
        self.assertEqual({name for sent in first.values() for name in sent}, set(order))

    def test_long_names(self):
        """Tensors of wrapped models, and names as long as a trace may have, run as planned."""
        trace = self.path + ".trace"
        names = ["base_model.model.model.layers.31.self_attn.q_proj.lora_embedding_A.default.weight",
                 "_fsdp_wrapped_module." * 6 + "w", "x" * 255, "y" * 511 + "1", "y" * 511 + "2"]
        def write(names):
            with open(trace, "w", encoding="utf-8") as file:
                json.dump({"format": "wring-trace", "version": 1, "model": "m", "dtype": "float32",
                           "tensors": [{"name": name, "elements": 5000, "ready_us": 10 * i}
                                       for i, name in enumerate(names)]}, file)
        write(names)
        for provider in ("shm", "tcp"):
            plain = wring("replay", "--json", "-t", trace, "-n", "2", "-p", provider, "-c", "int8+ef",
                          "--iterations", "2")
            self.assertEqual(plain.returncode, 0, plain.stderr)
            for search in ([], ["--search", "layers"]):
                result = wring("plan", "-t", trace, "-N", "2", "-g", "1", "--runnable", "--where",
                               "cpu", "--bound-ms", "0", "-c", "onebit", "-o", self.path, *search)
                self.assertEqual(result.returncode, 0, result.stderr)
                result = wring("replay", "--json", "-t", trace, "--plan", self.path, "-n", "2", "-p",
                               provider, "--iterations", "2")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(json.loads(result.stdout)["wrong"], 0)
        write(["z" * 513])
        result = wring("plan", "-t", trace, "-N", "2", "-g", "1")
        self.assertEqual(result.returncode, 1)
        self.assertIn("512", result.stderr)

    def test_a_codec_for_each_way(self):
        """One until the sum, another one after it, and either may be none."""
        for codec in ("none>onebit", "onebit>none", "onebit>onebit+ef"):
            plan = self.make_plan("-c", codec, "--only")
            self.assertEqual({(group["codec"], group["run_as"]) for group in plan["groups"]},
                             {(codec, "divisible")})
            self.assertEqual(self.replay("--plan", self.path, "-p", "shm", "-n", "2")["wrong"], 0)

    def test_codes_that_add_up(self):
        """Owners add codes: options that sum them run here, and none that encodes sums again."""
        for codec in ("sharedint", "sharedint+ef", "thc"):
            plan = self.make_plan("-c", codec, "--only", nodes="3")
            self.assertEqual({(group["codec"], group["run_as"]) for group in plan["groups"]},
                             {(codec, "divisible")})
            for group in plan["groups"]:
                self.assertRegex(group["scheme"], r"flat (allreduce|reduce-scatter)\*")
            self.assertEqual(self.replay("--plan", self.path, "-p", "shm", "-n", "3")["wrong"], 0)
        listed = wring("plan", "--list-options", "--json", *SHARED, "-N", "3", "-g", "1", "--where",
                       "cpu", "--runnable", "-c", "sharedint,int8")
        counts = {one["codec"]: one["codes_summed"] for one in json.loads(listed.stdout)["codecs"]}
        self.assertEqual(counts, {"none": 0, "sharedint": 2, "int8": 0})

    def test_a_job_plans_for_itself(self):
        with tempfile.TemporaryDirectory() as cache:
            answer = self.replay("--plan", "auto", "-c", "bf16", "-p", "tcp", "-n", "2",
                                 WRING_CACHE=cache)
            kept = os.listdir(cache)
        self.assertEqual((answer["wrong"], answer["settled"]), (0, True), answer)
        self.assertGreater(answer["end_to_end_us"]["with"], 0)
        self.assertLessEqual(answer["end_to_end_us"]["with"], answer["end_to_end_us"]["without"])
        self.assertNotEqual(answer["chosen"], "")
        self.assertGreaterEqual(answer["chosen_groups"], 1)
        self.assertEqual([name[:8] for name in kept], ["profile-"])

    def test_beside_others(self):
        """Turns of all, compared within each turn; sums of all are looked at."""
        answer = self.replay("--plan", "auto", "-c", "bf16", "-p", "shm", "-n", "2", "--beside",
                             "none,onebit", WRING_CACHE=os.path.dirname(self.path))
        self.assertEqual((answer["wrong"], answer["settled"]), (0, True))
        self.assertEqual([side["codec"] for side in answer["beside"]], ["none", "onebit"])
        for side in answer["beside"]:
            self.assertGreater(side["measured_us"], 5.3) # backward
            self.assertLessEqual(side["low"], side["ratio"])
            self.assertLessEqual(side["ratio"], side["high"])
            self.assertEqual(side["confidence"], 0.75) # of three turns

    def test_beside_another_one(self):
        answer = self.replay("-p", "tcp", "-n", "3", "--beside", "onebit")
        self.assertEqual(answer["wrong"], 0)
        alone = self.replay("-p", "tcp", "-n", "3")
        self.assertAlmostEqual(answer["wire_bytes"], alone["wire_bytes"],
                               delta=0.05 * alone["wire_bytes"]) # of the first side only

    def test_computing_by_the_processor(self):
        self.assertEqual(self.replay("-p", "shm", "-n", "2", "--compute", "spin")["wrong"], 0)

    def test_an_optimizer(self):
        """It begins when all has been exchanged."""
        trace = os.path.join(os.path.dirname(self.path), "trace.json")
        with open(trace, "w", encoding="utf-8") as file:
            json.dump({"format": "wring-trace", "version": 1, "model": "a", "dtype": "float32",
                       "optimizer_us": 30000,
                       "tensors": [{"name": "a", "elements": 10, "ready_us": 50000}]}, file)
        for compute in ("sleep", "spin"):
            answer = self.replay("-t", trace, "--scale", "1", "-p", "shm", "-n", "2", "--compute",
                                 compute)
            self.assertGreater(answer["measured_us"], 80000)
            self.assertEqual(answer["wrong"], 0)

    def typed(self, *dtypes):
        """A trace of such tensors, odd sizes among them. @return its path"""
        sizes = (3001, 70000, 5, 20001, 1, 30000, 1023)
        path = os.path.join(os.path.dirname(self.path), "typed.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"format": "wring-trace", "version": 1, "model": "typed", "dtype": "float32",
                       "tensors": [{"name": f"t{i}", "elements": sizes[i % 7], "ready_us": 10 * i} |
                                   ({} if dtype == "float32" else {"dtype": dtype})
                                   for i, dtype in enumerate(dtypes)]}, file)
        return path

    def replay_typed(self, dtypes, *arguments, **extra):
        """@return the answer, of which each tensor has its type and no sum is wrong"""
        result = wring("replay", "--json", "-t", self.typed(*dtypes), "--iterations", "2",
                       *arguments, **extra)
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        self.assertEqual([tensor["dtype"] for tensor in answer["tensors"]], list(dtypes))
        self.assertEqual(answer["wrong"], 0)
        return answer

    def test_types(self):
        """Raw sums are checked bit by bit, whatever the type; coded ones between the ranks."""
        for dtypes in (["float16"] * 7, ["bfloat16"] * 7,
                       ["float32", "bfloat16", "bfloat16", "float16", "float32", "bfloat16", "float16"]):
            for provider in ("shm", "tcp"):
                for codec, checked in (("none", {"exact"}), ("onebit+ef", {"alike"})):
                    answer = self.replay_typed(dtypes, "-p", provider, "-n", "3", "-c", codec)
                    self.assertEqual({one["checked"] for one in answer["tensors"]}, checked)

    def test_16_bits_are_half_as_many_bytes(self):
        sent = [self.replay_typed([dtype] * 4, "-p", "tcp", "-n", "2")["wire_bytes"]
                for dtype in ("float32", "bfloat16", "float16")]
        self.assertLess(sent[1], 0.6 * sent[0])
        self.assertEqual(sent[1], sent[2])
        text = wring("replay", "-t", self.typed("bfloat16", "float32"), "-n", "1", "--iterations", "1")
        self.assertIn("typed, 2 tensors of mixed types, 1 ranks", text.stdout)

    def test_a_plan_of_mixed_types_runs(self):
        """Tensors of one type that lie side by side travel as one, raw ones and coded ones."""
        dtypes = ["bfloat16", "bfloat16", "float32", "float32", "float16", "float16", "float16"]
        for codec in ("none", "onebit+ef"):
            result = wring("plan", "--json", "-t", self.typed(*dtypes), "-N", "2", "-g", "1",
                           "--runnable", "--where", "cpu", "--bound-ms", "0", "-o", self.path, "-c",
                           codec, "--only")
            self.assertEqual(result.returncode, 0, result.stderr)
            groups = json.loads(result.stdout)["groups"]
            self.assertLess(len(groups), len(dtypes))
            self.assertEqual({group["codec"] for group in groups}, {codec})
            for provider in ("shm", "tcp"):
                answer = self.replay_typed(dtypes, "--plan", self.path, "-p", provider, "-n", "2")
                self.assertEqual({one["checked"] for one in answer["tensors"]},
                                 {"exact" if codec == "none" else "alike"})

    def test_sums_of_nodes_are_rounded_twice(self):
        """Two sites of two ranks: what is checked is how far a sum may be off."""
        result = wring("run", "-n", "4", "--", "sh", "-c",
                       'WRING_SITE=s$((WRING_RANK / 2)) exec "$0" replay --json -p tcp -t "$1" '
                       "--iterations 2", wringtest.WRING,
                       self.typed("float32", "bfloat16", "float16"), WRING_SCHEME="hierarchical")
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        self.assertEqual([one["checked"] for one in answer["tensors"]],
                         ["exact", "rounded", "rounded"])
        self.assertEqual(answer["wrong"], 0)

    def test_a_job_of_mixed_types_plans_for_itself(self):
        answer = self.replay_typed(["bfloat16", "float32", "float16", "float16"], "--plan", "auto",
                                   "-c", "bf16,onebit+ef", "-p", "shm", "-n", "2", "--beside",
                                   "none", WRING_CACHE=os.path.dirname(self.path))
        self.assertTrue(answer["settled"])

    def test_what_is_coded_is_sent_smaller(self):
        raw, coded = (self.replay("-p", "tcp", "-n", "2", "-c", codec)["wire_bytes"]
                      for codec in ("none", "onebit"))
        self.assertLess(coded, raw / 10)

    def changed(self, **fields):
        """A plan's path, with other fields."""
        plan = self.make_plan("-c", "onebit+ef")
        plan["groups"] = [group | fields.pop("group", {}) for group in plan["groups"]]
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(plan | fields, file)
        return self.path

    def test_plans_for_others(self):
        """A fault that the file shows is said once, before any rank starts; else by a rank."""
        for fields, says in (
                ({"nodes": 5}, r"^wring replay: \S*plan.json is for 5 nodes of 1 ranks, .* has 2"),
                ({"executor": "moon"}, r"plan.json: executor: needs .* is \"moon\"\n$"),
                ({"trace_hash": "0" * 16}, r"made from another trace: its hash was 0{16}, that of")):
            result = wring("replay", *SHARED, "--plan", self.changed(**fields), "-n", "2", "-p", "shm")
            self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1), result.stderr)
            self.assertRegex(result.stderr, says)
        for fields, says in (
                ({"machine": "a moon"}, r"the plan was made for \"a moon\", and this is \"wring .*2 ranks"),
                ({"group": {"codec": "nosuch"}}, r"plan.json: groups\[0\].codec: no codec 'nosuch'")):
            result = wring("replay", *SHARED, "--plan", self.changed(**fields), "-n", "2", "-p", "shm")
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertRegex(result.stderr, says)

    def test_refusals(self):
        self.make_plan("-c", "onebit+ef")
        for arguments, status, says in (
                (("--plan", self.path, "-n", "3"), 1, "the job has 3"),
                (("--plan", self.path, "--scale", "0.002"), 1, "other sizes"),
                (("--plan", "/nowhere.json"), 1, "/nowhere.json"),
                (("-c", "nonsense", "-n", "1"), 1, "nonsense"),
                (("--beside", "none,nonsense", "-n", "1"), 1, "nonsense"),
                (("--beside", "none,none,none,none,bf16"), 2, "--beside needs 1 to 4 codecs"),
                (("--compute", "guess"), 2, "--compute")):
            result = wring("replay", *SHARED, *arguments)
            self.assertEqual(result.returncode, status, (arguments, result))
            self.assertIn(says, result.stderr)
        self.assertEqual(wring("replay").returncode, 2)


wringtest.main()
