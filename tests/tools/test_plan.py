#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wring plan: complete answers, plans between bound and greedy, pictures, and clear refusals."""
import json
import math
import os
import pathlib
import tempfile
import unittest
import xml.etree.ElementTree

import wringtest
from wringtest import wring

MEASURED = os.environ.get("WRING_TEST_TRACES", "")
FIELDS = {"iteration_us", "last_ready_us", "baseline_us", "espresso_us", "bound_us", "gap",
          "selection_us", "bound_time_us", "groups"}
CODECS = "onebit+ef,randk:ratio=0.01"


def make_trace(folder, tensors, **more):
    """@param tensors [(name, elements, ready_us), or with the type of its elements]"""
    path = pathlib.Path(folder) / "trace.json"
    path.write_text(json.dumps({
        "format": "wring-trace", "version": 1, "model": "made <up> & \"so\"", "dtype": "float32",
        "forward_us": None, "source": "a test", **more,
        "tensors": [dict(zip(("name", "elements", "ready_us", "dtype"), tensor))
                    for tensor in tensors]}), encoding="utf-8")
    return str(path)


def line(fixed, slope):
    return {"corners": [[0, fixed]], "slope": slope}


def curve(fixed, slope):
    return {**line(fixed, slope), "error": 0, "spread": 0, "doubt": 0, "samples": 9, "points": 8,
            "noisy": 0}


def make_profile(folder, entries):
    """Two nodes; bf16 on 0, 1 and 2 pinned cores. @param entries [(pinned cores, piece, us/element)]"""
    path = pathlib.Path(folder) / "profile.json"
    coders = [{"cores": cores, "tier": "scalar", "encode_us": curve(3 * cores, slope),
               "decode_us": curve(3 * cores, slope)}
              for cores, slope in ((0, 0.004), (1, 0.0035), (2, 0.002))]
    path.write_text(json.dumps({
        "format": "wring-profile", "version": 1, "name": "made", "machine": "", "nodes": 2,
        "ranks_per_node": 1, "chunked": True,
        "links": {"inter": {"provider": "tcp", "latency_us": 60, "us_by_bytes": line(0, 0.002)}},
        "codecs": [{"spec": "bf16", "summable": False, "feedback": False, "nmse": 1e-6,
                    "wire_bytes": line(0, 2), "coders": coders,
                    "at": {"cpu": {"encode_us": line(1, 0.004), "decode_us": line(1, 0.004)}}}],
        "ways": [{"codec": codec, "run_as": run_as, "ranks": 2, "cores": 2, "coder_cores": pinned,
                  "chunk_bytes": piece, "max_elements": 1 << 24, "wire_bytes": line(0, 2),
                  "solo_us": curve(50, slope * part), "busy_us": curve(20, slope * part),
                  "cpu_us": curve(20, slope * part)}
                 for pinned, piece, slope in entries
                 for codec, run_as, part in (("none", "auto", 1), ("bf16", "divisible", 0.6))],
    }), encoding="utf-8")
    return str(path)


def add_unknown_codec(path):
    """Add to a profile what costs as much as bf16, and is a codec that no build has."""
    profile = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    profile["codecs"].append({**profile["codecs"][0], "spec": "sketch:ratio=0.5"})
    pathlib.Path(path).write_text(json.dumps(profile), encoding="utf-8")
    return path


class Plans(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory()) if hasattr(
            self, "enterContext") else tempfile.mkdtemp()

    def plan(self, *arguments):
        result = wring("plan", "--json", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        return json.loads(result.stdout)

    def test_where_times_come_from(self):
        """Of collectives that were measured, or put together, which one is told."""
        path = pathlib.Path(make_profile(self.folder, [(0, 262144, 0.01)]))
        profile = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**profile, "machine": "an abacus"}), encoding="utf-8")
        question = ("-t", "lstm", "-p", str(path), "-c", "bf16", "--bound-ms", "0")
        for nodes, costs in (("2", "measured"), ("3", "parts")):
            told = wring("plan", *question, "-N", nodes)
            self.assertEqual(told.stderr.count("measured on another machine"), 1, told.stderr)
            self.assertEqual("no collectives of such a cluster" in told.stdout, costs == "parts")
            answer = json.loads(wring("plan", "--json", *question, "-N", nodes).stdout)
            self.assertEqual(answer["costs"], costs)

    def test_elements_of_16_bits(self):
        """A cast to bf16 is worth its time for float32, and saves nothing of 16 bits."""
        profile = make_profile(self.folder, [(0, 262144, 0.02)])
        question = ("-p", profile, "-c", "bf16", "--cores", "0", "--bound-ms", "50")
        tensors = [("a", 1 << 20, 10), ("b", 1 << 20, 20), ("c", 1 << 20, 30)]
        took = {}
        for dtype, codec in (("float32", "bf16"), ("float16", "none"), ("bfloat16", "none")):
            trace = make_trace(self.folder, tensors, dtype=dtype)
            plan = self.plan("-t", trace, *question)
            self.assertEqual({group["codec"] for group in plan["groups"]}, {codec}, dtype)
            took[dtype] = plan["baseline_us"]["fp32"]
            self.assertLessEqual(plan["bound_us"], plan["iteration_us"] * (1 + 1e-9))
            megabytes = f"{12.6 if dtype == 'float32' else 6.3} MB of {dtype}"
            self.assertIn(megabytes, wring("plan", "-t", trace, *question).stdout)
        self.assertEqual(took["float16"], took["bfloat16"])
        self.assertAlmostEqual(took["float16"] - 30, (took["float32"] - 30) / 2, delta=200)
        mixed = [(*tensors[0], "bfloat16"), tensors[1], (*tensors[2], "float16")]
        plan = self.plan("-t", make_trace(self.folder, mixed), *question)
        self.assertEqual([(group["tensors"], group["codec"]) for group in plan["groups"]],
                         [(["a"], "none"), (["b"], "bf16"), (["c"], "none")])
        self.assertLess(took["float16"], plan["baseline_us"]["fp32"])
        self.assertLess(plan["baseline_us"]["fp32"], took["float32"])

    def test_options_of_mixed_types(self):
        """Which option may be the best one is told type by type; where all take one option, each type
        has its own, or none."""
        profile = make_profile(self.folder, [(0, 262144, 0.02)])
        question = ("-p", profile, "-c", "bf16", "--cores", "0")
        tensors = [("a", 1 << 20, 10), ("b", 1 << 20, 20)]
        kept = {}
        for dtypes in (("float32",), ("bfloat16",), ("float32", "bfloat16")):
            made = [tensors[0], (*tensors[1], *dtypes[1:])]
            asked = ("-t", make_trace(self.folder, made, dtype=dtypes[0]), *question)
            answer = json.loads(wring("plan", "--list-options", "--json", *asked).stdout)
            kept["+".join(dtypes)] = [(one["dtype"], one["codec"], one["kept"])
                                      for one in answer["options"]]
        self.assertEqual(kept["float32+bfloat16"], kept["float32"] + kept["bfloat16"])
        self.assertNotEqual([one[1:] for one in kept["float32"]],
                            [one[1:] for one in kept["bfloat16"]])
        self.assertIn(" none of bfloat16: ", wring("plan", "--list-options", *asked).stdout)
        self.assertIn(" options for tensors of all types,", wring("plan", *asked).stdout)
        layers = self.plan(*asked, "--search", "layers")
        self.assertEqual([(group["tensors"], group["codec"]) for group in layers["groups"]],
                         [(["a"], "bf16"), (["b"], "none")])
        layers = self.plan(*asked, "--search", "layers", "--only")
        self.assertEqual({group["codec"] for group in layers["groups"]}, {"bf16"})

    def test_mergecomp_merges_within_each_type(self):
        """All is small and there at once: one group of each run of a type is best."""
        profile = make_profile(self.folder, [(0, 262144, 0.02)])
        tensors = [(f"t{i}", 1000, 10, dtype) for i, dtype in
                   enumerate(["bfloat16"] * 3 + ["float32"] * 3 + ["float16"] * 2)]
        asked = ("-t", make_trace(self.folder, [one[: 3 + (one[3] != "float32")] for one in tensors]),
                 "-p", profile, "-c", "bf16", "--cores", "0", "--bound-ms", "0", "--search", "mergecomp")
        for only in ((), ("--only",)):
            groups = self.plan(*asked, *only)["groups"]
            self.assertEqual([group["tensors"] for group in groups],
                             [["t0", "t1", "t2"], ["t3", "t4", "t5"], ["t6", "t7"]])

    def refuse(self, status, says, *arguments):
        result = wring("plan", *arguments)
        self.assertEqual(result.returncode, status, result)
        self.assertIn(says, result.stderr)
        self.assertEqual(result.stdout, "")
        if status == 1:
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_every_shipped_trace(self):
        for name in ("vgg16", "resnet50", "bert-base", "lstm", "ncf"):
            plan = self.plan("-t", name, "-c", CODECS, "--bound-ms", "50")
            self.assertLessEqual(FIELDS, plan.keys())
            self.assertLessEqual(plan["bound_us"], plan["iteration_us"] * (1 + 1e-9))
            self.assertAlmostEqual(plan["gap"], plan["iteration_us"] / plan["bound_us"] - 1, 9)
            for total, exposed in (("iteration_us", "exposed_us"), ("bound_us", "bound_exposed_us")):
                self.assertAlmostEqual(plan[total] - plan["last_ready_us"], plan[exposed], 3)
            self.assertLessEqual(plan["iteration_us"], plan["espresso_us"] * (1 + 1e-9), name)
            self.assertLessEqual(plan["last_ready_us"], plan["iteration_us"])
            self.assertLess(plan["iteration_us"], plan["baseline_us"]["fp16"], name)
            self.assertLess(plan["baseline_us"]["fp16"], plan["baseline_us"]["fp32"])

    def test_groups_are_the_tensors(self):
        tensors = [(f"t{i}", 10 ** (1 + i % 6), 50 * i) for i in range(20)]
        trace = make_trace(self.folder, tensors)
        plan = self.plan("-t", trace, "-c", CODECS)
        self.assertEqual([name for group in plan["groups"] for name in group["tensors"]],
                         [name for name, _, _ in tensors])
        self.assertEqual(sum(group["elements"] for group in plan["groups"]),
                         sum(elements for _, elements, _ in tensors))
        for group in plan["groups"]:
            self.assertIn(group["codec"], ["none", "fp16"] + CODECS.split(","))

    def test_same_question_same_plan(self):
        first, second = (self.plan("-t", "bert-base", "-c", CODECS, "--bound-ms", "0")
                         for _ in range(2))
        self.assertEqual(first["groups"], second["groups"])
        self.assertEqual(first["iteration_us"], second["iteration_us"])

    def test_a_proof_changes_no_method(self):
        """Who asks for Espresso's plan gets it, however much better the bound knows."""
        question = ("-t", "vgg16", "-c", CODECS, "--search", "espresso")
        without, proven = self.plan(*question, "--bound-ms", "0"), self.plan(*question)
        self.assertEqual(without["groups"], proven["groups"])
        self.assertEqual(without["iteration_us"], proven["iteration_us"])
        self.assertGreater(proven["gap"], 0)

    def test_before_the_proof_a_search_goes_farther(self):
        """It finds the optimum here, and the proof alone does not."""
        question = ("-t", "bert-base", "-p", "testbed-nvlink-100g", "-c", CODECS)
        near, far = self.plan(*question, "--bound-ms", "0"), self.plan(*question)
        self.assertLess(far["iteration_us"], 0.999 * near["iteration_us"])
        self.assertLess(far["gap"], 1e-6)

    def test_a_faster_link_is_never_slower(self):
        times = [self.plan("-t", "vgg16", "-p", profile, "-c", CODECS, "--bound-ms", "0",
                           "--timeline", "phases")["baseline_us"]["fp32"]
                 for profile in ("espresso-pcie", "espresso-nvlink")]
        self.assertGreater(times[0], times[1])

    def test_what_nobody_allows_is_not_taken(self):
        plan = self.plan("-t", "vgg16", "--bound-ms", "0")
        self.assertEqual({group["codec"] for group in plan["groups"]} - {"none", "fp16"}, set())
        plan = self.plan("-t", "vgg16", "-c", CODECS, "--where", "device", "--bound-ms", "0")
        self.assertEqual({group["where"] for group in plan["groups"]} - {"", "device"}, set())

    def test_an_optimizer(self):
        """Its step is in all times, and changes no plan."""
        tensors = [("a", 1000000, 0), ("b", 3000000, 4000), ("c", 2000000, 5000)]
        question = ("-c", CODECS, "--bound-ms", "0")
        without = self.plan("-t", make_trace(self.folder, tensors), *question)
        after = self.plan("-t", make_trace(self.folder, tensors, optimizer_us=700), *question)
        self.assertEqual(after["groups"], without["groups"])
        for field in ("iteration_us", "last_ready_us", "espresso_us"):
            self.assertAlmostEqual(after[field], without[field] + 700, 6, field)
        for field in ("fp32", "fp16"):
            self.assertAlmostEqual(after["baseline_us"][field], without["baseline_us"][field] + 700,
                                   6)
        self.assertAlmostEqual(after["exposed_us"], without["exposed_us"], 6)

    def test_what_is_inside_of_collectives(self):
        """Pictures have rows for it, said to be apportioned; thread and waiting make up the whole."""
        svg, perfetto = (os.path.join(self.folder, name) for name in ("svg", "perfetto"))
        trace = make_trace(self.folder, [("a", 1 << 20, 0), ("b", 1 << 20, 900)])
        profile = make_profile(self.folder, [(0, 1 << 18, 0.02)])
        self.plan("-t", trace, "-p", profile, "-c", "bf16", "--only", "--cores", "0", "--bound-ms",
                  "0", "--svg", svg, "--perfetto", perfetto)
        text = pathlib.Path(svg).read_text(encoding="utf-8")
        for words in (">encode<", ">wire<", ">decode and add<", "apportioned, not measured"):
            self.assertIn(words, text)
        events = json.loads(pathlib.Path(perfetto).read_text(encoding="utf-8"))["traceEvents"]
        rows = {event["tid"]: event["args"]["name"] for event in events
                if event["name"] == "thread_name"}
        took = dict.fromkeys(rows.values(), 0)
        for event in events:
            if event["ph"] == "X":
                took[rows[event["tid"]]] += event["dur"]
        parts = {name: us for name, us in took.items() if "(apportioned)" in name}
        wire = parts.pop("collective: wire (apportioned)")
        self.assertGreater(len(parts), 2, took)
        self.assertAlmostEqual(sum(parts.values()), took["collective"], 3)
        self.assertLess(0, wire)
        self.assertLess(wire, took["collective"])

    def test_files(self):
        paths = {name: os.path.join(self.folder, name) for name in ("plan", "svg", "perfetto")}
        trace = make_trace(self.folder, [("<a> & \"b\"", 1000000, 0), ("c", 10, 5000)])
        plan = self.plan("-t", trace, "-c", CODECS, "-o", paths["plan"], "--svg", paths["svg"],
                         "--perfetto", paths["perfetto"])
        with open(paths["plan"], encoding="utf-8") as file:
            self.assertEqual(json.load(file), {key: value for key, value in plan.items()
                                               if key != "run_here"})
        root = xml.etree.ElementTree.parse(paths["svg"]).getroot()
        titles = [node.text for node in root.iter("{http://www.w3.org/2000/svg}title")]
        self.assertTrue(any("<a> & \"b\"" in title for title in titles), titles)
        with open(paths["perfetto"], encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        ends = [event["ts"] + event["dur"] for event in events if event["ph"] == "X"]
        self.assertAlmostEqual(max(ends), plan["iteration_us"], 3)
        self.assertTrue(any(event["args"]["critical"] for event in events if event["ph"] == "X"))

    def test_people_see_the_same(self):
        result = wring("plan", "-t", "vgg16", "-c", CODECS, "--bound-ms", "20")
        self.assertEqual(result.returncode, 0, result.stderr)
        for word in ("this plan", "bound", "computing alone", "float32", "fp16", "Espresso"):
            self.assertIn(word, result.stdout)
        self.assertIn("This build cannot run", result.stdout) # it has neither Rand-k nor a device

    def test_without_a_planner(self):
        """Every tensor by itself, all with one option; and codecs that none may do without."""
        none = self.plan("-t", "resnet101", "--search", "layers", "--bound-ms", "0")
        self.assertEqual(len({(group["codec"], group["scheme"]) for group in none["groups"]}), 1)
        self.assertEqual({len(group["tensors"]) for group in none["groups"]}, {1})
        self.assertLessEqual(none["iteration_us"], min(none["baseline_us"].values()) * (1 + 1e-9))
        coded = ("-t", "resnet101", "-c", "onebit+ef", "--where", "device", "--only")
        layers = self.plan(*coded, "--search", "layers")
        merged = self.plan(*coded, "--search", "mergecomp", "--bound-ms", "0")
        for plan in (layers, merged):
            self.assertEqual({group["codec"] for group in plan["groups"]}, {"onebit+ef"})
        self.assertIsNone(layers["bound_us"])
        self.assertLess(merged["iteration_us"], layers["iteration_us"])
        bound = self.plan(*coded, "--bound-ms", "50")
        self.assertLessEqual(bound["bound_us"], bound["iteration_us"])
        self.assertLessEqual(bound["bound_us"], merged["iteration_us"] * (1 + 1e-9))
        self.refuse(2, "--only", "-t", "vgg16", "--only")
        self.refuse(2, "--only", "-t", "vgg16", "-c", "onebit", "--only", "--search", "espresso")

    def test_options_are_counted(self):
        self.assertEqual(json.loads(wring("plan", "--list-options", "--json").stdout)["leaves"], 4341)
        one = json.loads(wring("plan", "--list-options", "--where", "device", "--json").stdout)
        self.assertEqual(one["leaves"], 174)
        self.assertEqual(len({option["text"] for option in one["options"]}), 174)
        lines = wring("plan", "--list-options").stdout.splitlines()
        self.assertEqual(len(lines), 4341 + 3)
        self.assertIn("4341 options: 63 flat, 4278 hierarchical", lines[4341])
        for option in ("--cores", "--chunk-bytes"):
            self.assertIn(option, "".join(lines[-2:]))

    def test_what_the_search_ranges_over(self):
        """Counts are those of the list, and of the tree; a question's plan takes what is listed."""
        codecs = "fp16,onebit,onebit>fp16"
        question = ("-t", "lstm", "-p", "testbed-pcie-25g", "-c", codecs, "--where", "device")
        answer = json.loads(wring("plan", "--list-options", "--json", *question).stdout)
        counts = {count["codec"]: count for count in answer["codecs"]}
        self.assertEqual(set(counts), {"none", *codecs.split(",")})
        self.assertEqual(counts["none"]["ways"] + counts["onebit"]["ways"], 174)
        self.assertEqual(counts["onebit"]["codes_summed"], 0)
        self.assertGreater(counts["fp16"]["codes_summed"], 0)
        for codec, count in counts.items():
            own = [option for option in answer["options"] if option["codec"] == codec]
            self.assertEqual(count["ways"], len(own))
            self.assertEqual(count["ways"], count["flat"] + count["hierarchical"])
            self.assertEqual(count["kept"], sum(option["kept"] for option in own))
        self.assertEqual(answer["borders"], answer["tensors"] - 1)
        self.assertEqual(answer["settings"], [])
        listed = {(option["codec"], option["text"]) for option in answer["options"]
                  if option["kept"]}
        plan = self.plan(*question, "--bound-ms", "0")
        self.assertLessEqual({(group["codec"], group["scheme"]) for group in plan["groups"]},
                             listed)
        text = wring("plan", "--list-options", *question).stdout
        self.assertEqual(len([line for line in text.splitlines() if ": " in line and "encode" in line
                              or line.lstrip()[:1].isdigit()]), len(answer["options"]))
        self.refuse(2, "--list-options needs --trace", "--list-options", "-c", "onebit")

    def test_settings_are_among_them(self):
        profile = make_profile(self.folder, [(0, 1 << 18, 0.01), (1, 1 << 18, 0.008)])
        answer = json.loads(wring("plan", "--list-options", "--json", "-t", "lstm", "-p", profile,
                                  "-c", "bf16").stdout)
        self.assertEqual(answer["settings"], [{"cores": 0, "chunk_bytes": 1 << 18},
                                              {"cores": 1, "chunk_bytes": 1 << 18}])
        self.assertEqual([option["codec"] for option in answer["options"]], ["none", "bf16"])

    def test_an_offload_node(self):
        """Built-in profiles have its costs; only who asks gets it, and no build runs it."""
        question = ("-t", "vgg16", "-p", "testbed-pcie-25g", "-c", "onebit", "--bound-ms", "0")
        plan = self.plan(*question, "--where", "node", "--only")
        self.assertEqual({group["where"] for group in plan["groups"]}, {"node"})
        self.assertNotIn("node", {group["where"] for group in self.plan(*question)["groups"]})
        shown = wring("plan", *question, "--where", "node", "--only").stdout
        self.assertIn("This build cannot run", shown)
        self.refuse(1, "", *question, "--where", "node", "--runnable", "--only")

    def test_all_codecs_within_a_budget(self):
        """Those that the profile knows, whose errors it knows; none that training has to know of."""
        profile = json.loads(wring("info", "--json", "--profile", "espresso-pcie").stdout)
        codecs = {codec["spec"]: codec for codec in profile["codecs"]}
        altering = {spec for spec, codec in codecs.items() if codec.get("traits", {}).get("alters")}
        self.assertLessEqual({"signsgd", "dgc"}, altering)
        question = ("-t", "lstm", "-p", "espresso-pcie", "-c", "all", "--bound-ms", "0")
        for budget in (1e-5, 1e-3, 0.4):
            result = wring("plan", "--json", *question, "--max-nmse", str(budget))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("errors in the profile espresso-pcie are those of bell-shaped", result.stderr)
            plan = json.loads(result.stdout)
            taken = {group["codec"] for group in plan["groups"]} - {"none"}
            self.assertTrue(taken)
            for spec in taken:
                self.assertLessEqual(codecs[spec]["nmse"], budget, spec)
            self.assertFalse(taken & altering)
        here = wring("plan", *question, "--max-nmse", "0.001", "--runnable")
        self.assertEqual(here.returncode, 0, here.stderr)
        self.assertEqual(len(here.stderr.splitlines()), 1, here.stderr)
        free = wring("plan", *question)
        self.assertEqual(free.returncode, 0, free.stderr)
        self.assertIn("--codec all without --max-nmse", free.stderr)
        listed = json.loads(wring("plan", "--list-options", "--json", *question, "--max-nmse",
                                  "0.001").stdout)["codecs"]
        self.assertGreater(len(listed), 5)
        self.assertFalse({one["codec"] for one in listed} & altering)

    def test_codecs_that_sessions_refuse(self):
        """An older profile does not say what codecs do to training, and the library does; whoever
        lists one is told."""
        profile = json.loads(wring("info", "--json", "--profile", "espresso-pcie").stdout)
        for codec in profile["codecs"]:
            codec.pop("traits", None)
        old = os.path.join(self.folder, "old.json")
        pathlib.Path(old).write_text(json.dumps(profile), encoding="utf-8")
        for path in ("espresso-pcie", old):
            listed = json.loads(wring("plan", "--list-options", "--json", "-t", "lstm", "-p", path,
                                      "-c", "all", "--max-nmse", "2").stdout)["codecs"]
            taken = {one["codec"] for one in listed}
            self.assertGreater(len(taken), 5)
            self.assertFalse(taken & {"signsgd", "dgc", "powersgd", "powersgd+ef"}, path)
        told = "signsgd changes training: a session refuses a plan that has it on some buckets"
        question = ("-t", "lstm", "-p", old, "--bound-ms", "0", "--runnable", "-c")
        self.assertIn(told, wring("plan", *question, "signsgd").stderr)
        self.assertIn(told, wring("plan", *question, "signsgd,terngrad", "--only").stderr)
        self.assertNotIn(told, wring("plan", *question, "signsgd", "--only").stderr)

    def test_what_runs_here_comes_first(self):
        """Beside a plan of which this build runs a part stands the best that it runs."""
        question = ("-t", "vgg16", "-p", "testbed-pcie-25g", "-c", "onebit+ef,bf16", "--bound-ms", "0")
        plan = self.plan(*question)
        self.assertFalse(all(group["run_as"] for group in plan["groups"]))
        self.assertEqual(next(iter(plan)), "run_here")
        here = plan["run_here"]
        self.assertTrue(all(group["run_as"] for group in here["groups"]), here)
        self.assertGreater(here["iteration_us"], plan["iteration_us"])
        self.assertEqual(here["iteration_us"], self.plan(*question, "--runnable")["iteration_us"])
        shown = wring("plan", *question).stdout
        self.assertLess(shown.index("  run here "), shown.index("  this plan "))
        first, second = shown.split("Of this, what this build runs (--runnable):")[1].split("This plan:")
        self.assertNotIn("not run here", first)
        self.assertIn("not run here", second)
        whole = self.plan(*question, "--runnable")
        self.assertEqual(whole["run_here"]["groups"], whole["groups"])
        self.assertNotIn("run here", wring("plan", *question, "--runnable").stdout)
        nothing = self.plan(*question, "--only", "--where", "device")
        self.assertIsNone(nothing["run_here"])
        self.assertIn("this build runs nothing", wring("plan", *question, "--only", "--where",
                                                       "device").stdout)

    def test_runnable_plans_run(self):
        """Also where the baseline, by nodes and ranks in them, is what no build executes."""
        for search in ("best", "espresso"):
            plan = self.plan("-t", "vgg16", "-c", "onebit", "--where", "cpu", "--runnable",
                             "--bound-ms", "20", "--search", search)
            self.assertTrue(all(group["run_as"] for group in plan["groups"]), plan["groups"])

    def test_runnable_says_what_cannot_be(self):
        """A codec that no option is left for is named, and so is the baseline that plans cannot match."""
        profile = add_unknown_codec(make_profile(self.folder, []))
        question = ("-t", "vgg16", "-p", profile, "-c", "sketch:ratio=0.5,bf16", "--bound-ms", "0")
        result = wring("plan", *question, "--runnable")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertIn("plans do without sketch:ratio=0.5: it has no option that this build can run",
                      result.stderr)
        question = ("-t", "vgg16", "-c", "onebit", "--bound-ms", "0")
        result = wring("plan", *question, "--runnable")
        self.assertEqual(result.stdout.count("no plan may take it"), 2, result.stdout)
        free = wring("plan", *question)
        self.assertEqual(free.stderr, "")
        self.assertNotIn("no plan may take it", free.stdout)

    def test_without_a_dimension(self):
        """Plans do without what is named, and are no better for it."""
        question = ("-t", "resnet50", "-p", "testbed-pcie-25g", "-c", "onebit+ef", "--bound-ms", "0")
        best = self.plan(*question)
        flat = self.plan(*question, "--without", "hierarchy")
        self.assertNotIn("intra", " ".join(group["scheme"] for group in flat["groups"]))
        whole = self.plan(*question, "--without", "division")
        self.assertTrue(all(group["scheme"].count("inter ") + group["scheme"].count("flat ") == 1
                            for group in whole["groups"]), whole["groups"])
        apart = self.plan(*question, "--without", "merging")
        self.assertTrue(all(len(group["tensors"]) == 1 for group in apart["groups"]))
        for plan in (flat, whole, apart):
            self.assertGreater(plan["iteration_us"], best["iteration_us"])
            self.assertEqual(plan["baseline_us"], best["baseline_us"])
        self.plan(*question, "--without", "hierarchy,division,merging")
        self.refuse(2, "--without", *question, "--without", "compression")

    def tuning_of(self, *arguments):
        plan = self.plan("-t", "lstm", "--scale", "0.01", "--bound-ms", "0", "-c", "bf16", *arguments)
        return plan.get("executor"), plan.get("chunk_bytes"), plan

    def test_the_best_tuning_is_taken(self):
        """Of those searched one by one; lists restrict them, the bound is that of all."""
        lanes = make_profile(self.folder, [])
        *best, plan = self.tuning_of("-p", lanes)
        self.assertEqual(best, ["pool:2", 262144])
        each = [self.tuning_of("-p", lanes, "--cores", str(cores)) for cores in range(3)]
        self.assertEqual([one[0] for one in each], ["inline", "pool:1", "pool:2"])
        self.assertEqual(plan["iteration_us"], min(one[2]["iteration_us"] for one in each))
        bound = self.tuning_of("-p", lanes, "--bound-ms", "30")[2]
        self.assertLessEqual(bound["bound_us"], bound["iteration_us"] * (1 + 1e-9))
        self.assertEqual({group["cores"] for group in plan["groups"] if group["codec"] == "bf16"}, {2})
        self.assertEqual(self.tuning_of("-p", lanes, "--cores", "0,1")[0], "pool:1")
        self.assertIn(self.tuning_of("-p", lanes, "--cores", "2", "--chunk-bytes", "64k,1m")[1],
                      (65536, 1 << 20))
        self.assertIn(self.tuning_of("-p", lanes, "--budget-ms", "3")[0], ("inline", "pool:1", "pool:2"))
        entries = make_profile(self.folder, [(0, 262144, 0.02), (0, 65536, 0.03), (1, 262144, 0.01),
                                          (1, 65536, 0.04)])
        self.assertEqual(self.tuning_of("-p", entries)[:2], ("pool:1", 262144))
        self.assertEqual(self.tuning_of("-p", entries, "--chunk-bytes", "64k")[:2], ("inline", 65536))
        self.assertEqual(self.tuning_of("-p", entries, "--cores", "0")[:2], ("inline", 262144))
        shown = wring("plan", "-t", "lstm", "-p", entries, "-c", "bf16", "--bound-ms", "0").stdout
        self.assertIn("codecs on 1 pinned core in each rank, pieces of 256k bytes: the best of 4 tunings",
                      shown)
        self.assertNotIn("executor", self.plan("-t", "lstm", "--bound-ms", "0"))  # the job's own

    def test_settings_that_nobody_knows_are_refused(self):
        lanes = make_profile(self.folder, [])
        for status, says, *more in (
                (1, "on 4 cores pinned", "-p", lanes, "--cores", "4"), (2, "--cores", "--cores", "two"),
                (1, "timeline full", "--cores", "1"), (1, "timeline full", "--chunk-bytes", "64k"),
                (2, "--chunk-bytes", "--chunk-bytes", "1k")):
            self.refuse(status, says, "-t", "lstm", "-c", "bf16" if "-p" in more else "fp16", *more)
        entries = make_profile(self.folder, [(0, 262144, 0.02)])
        self.refuse(1, "no collectives in pieces of 65536 bytes; it has those of 262144", "-t", "lstm",
                    "-p", entries, "-c", "bf16", "--chunk-bytes", "64k")

    def test_plans_run_on_their_cores(self):
        trace = make_trace(self.folder, [("a", 50000, 10), ("b", 200000, 20)])
        plan = os.path.join(self.folder, "plan.json")
        self.assertEqual(wring("plan", "-t", trace, "-p", make_profile(self.folder, []), "-c", "bf16",
                               "--cores", "1", "--chunk-bytes", "64k", "--runnable", "--only",
                               "--bound-ms", "0", "-o", plan).returncode, 0)
        run = ("replay", "-t", trace, "--plan", plan, "-n", "2", "-p", "shm", "--iterations", "2")
        result = wring(*run, WRING_LOG="info")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("thread 1 of 1 runs codecs on core"), 2, result.stderr)
        result = wring(*run, WRING_EXECUTOR="inline")
        self.assertEqual(result.returncode, 1)
        self.assertIn("is for pool:1", result.stderr)

    def test_refusals(self):
        self.refuse(2, "--trace is needed")
        self.refuse(1, "nothing", "-t", "/tmp/there/is/nothing.json")
        self.refuse(1, "vgg16", "-t", "vgg61")
        self.refuse(1, "espresso-pcie", "-t", "vgg16", "-p", "espreso")
        self.refuse(1, "nonsense", "-t", "vgg16", "-c", "nonsense")
        self.refuse(2, "--timeline", "-t", "vgg16", "--timeline", "half")
        self.refuse(2, "--where", "-t", "vgg16", "--where", "moon")
        self.refuse(2, "--max-nmse", "-t", "vgg16", "--max-nmse", "none")
        self.refuse(1, "a budget of 0:", "-t", "vgg16", "-c", "randk:ratio=0.01", "--max-nmse", "0")
        trace = make_trace(self.folder, [("a", 5, 10), ("b", 0, 20)])
        self.refuse(1, "tensors[1].elements", "-t", trace)
        trace = make_trace(self.folder, [("a", 5, 10), ("a", 5, 20)])
        self.refuse(1, "tensors[1]", "-t", trace)

    @unittest.skipUnless(MEASURED, "WRING_TEST_TRACES names no folder of measured traces")
    def test_published_times(self):
        trace = os.path.join(MEASURED, "vgg16.json")
        phases = self.plan("-t", trace, "--bound-ms", "0")["baseline_us"]
        self.assertAlmostEqual(phases["fp32"] / 1e3, 915.6, delta=0.1)
        self.assertAlmostEqual(phases["fp16"] / 1e3, 459.4, delta=0.1)
        serial = self.plan("-t", trace, "--timeline", "serial", "--bound-ms", "0")["baseline_us"]
        self.assertAlmostEqual(serial["fp32"] / 1e3, 1171.8, delta=0.1)

    @unittest.skipUnless(MEASURED, "WRING_TEST_TRACES names no folder of measured traces")
    def test_measured_traces_beat_the_greedy(self):
        better = 0
        for path in sorted(pathlib.Path(MEASURED).glob("*.json")):
            plan = self.plan("-t", str(path), "-c", CODECS, "--bound-ms", "0")
            self.assertLessEqual(plan["iteration_us"], plan["espresso_us"] * (1 + 1e-9), path)
            self.assertTrue(math.isfinite(plan["iteration_us"]))
            better += plan["iteration_us"] < 0.99 * plan["espresso_us"]
        self.assertGreater(better, 3)


wringtest.main()
