#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keep what pages say about plans equal to what wring says.

    planner_tables.py WRING --write [--traces FOLDER]    put tables and picture into docs/
    planner_tables.py WRING --check [--traces FOLDER]    exit 1 where they differ

WRING is the tool. FOLDER has traces measured on V100, which wring does not ship (default:
WRING_TEST_TRACES); without it their tables are left as they are, and --check exits 77 if nothing
was left to check. A table stands between <!-- begin: planner_tables.py NAME --> and <!-- end -->.

Of some tables there are plots, docs/published-NAME.svg, drawn from what stands in the table.

A number may differ by 2 %, so that a better search does not need new pages at once. Times that a
search or a proof took, and what a proof reached in them, are not compared.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import planner_plots

DOCS = pathlib.Path(__file__).resolve().parent
TRACES = DOCS.parent / "planner" / "traces"
BLOCK = re.compile(r"(<!-- begin: planner_tables\.py (\S+) -->\n).*?(<!-- end -->)", re.S)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
FABRICS = {"testbed-pcie-25g": "PCIe, 25 Gbit/s", "testbed-nvlink-100g": "NVLink, 100 Gbit/s"}
EXAMPLE = ["-t", "vgg16", "-p", "testbed-pcie-25g", "-c", "onebit+ef", "--where", "device"]
# The answer may depend on no machine's speed: here the bound ends by itself, at the optimum.
PATIENCE = ["--bound-ms", "3600000"]

Model = collections.namedtuple("Model", "name file codec selection_ms offloaded offload_ms free_gap")
# The models of Espresso's evaluation with the codec that its artifact has for each; what the paper
# reports: time of Algorithm 1, tensors that went through Algorithm 2, its time, and in % how far
# from free compression, where it says more than "less than 10 %".
MODELS = [
    Model("VGG16", "vgg16", "randk:ratio=0.01", 17, 11, 1, None),
    Model("ResNet101", "resnet101", "dgc:ratio=0.01", 179, 42, 30, None),
    Model("UGATIT", "ugatit", "dgc:ratio=0.01", 84, 32, 12, 5),
    Model("BERT-base", "bert", "randk:ratio=0.01", 125, 54, 44, 7),
    Model("GPT-2", "gpt2", "onebit+ef", 99, 34, 18, 3),
    Model("LSTM", "lstm", "onebit+ef", 1, 5, 1, None),
]


class Tool:
    """The tool under test, and where the measured traces are."""

    def __init__(self, wring, traces):
        self.wring, self.traces, self.answer = wring, traces, None
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("WRING_")}
        self.env["WRING_TRACES"] = str(TRACES)

    def run(self, *words):
        result = subprocess.run([self.wring, *map(str, words)], env=self.env, timeout=300,
                                capture_output=True, text=True, check=False)
        if result.returncode != 0:
            sys.exit(f"wring {' '.join(map(str, words))}: {result.stderr.strip()}")
        return result.stdout

    def plan(self, *words, bound_ms=0):
        return json.loads(self.run("plan", "--json", "--bound-ms", bound_ms, *words))

    def example(self):
        """@return what the command of the example prints, and its picture; made once"""
        if self.answer is None:
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "plan.svg"
                text = self.run("plan", *EXAMPLE, *PATIENCE, "--svg", path)
                self.answer = text, path.read_text(encoding="utf-8")
        return self.answer

    def measured(self, model):
        return pathlib.Path(self.traces) / f"{model.file}.json"


def table(head, rows):
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join(lines + [f"| {' | '.join(map(str, row))} |" for row in rows])


def scaling(plan_or_us, backward_us, forward_us=None):
    """Training speed of a rank against that of one alone; forward is half of backward if unknown."""
    us = plan_or_us["iteration_us"] if isinstance(plan_or_us, dict) else plan_or_us
    forward_us = backward_us / 2 if forward_us is None else forward_us
    return (forward_us + backward_us) / (forward_us + us)


def tensors_at(plan, place):
    return sum(len(group["tensors"]) for group in plan["groups"] if group["where"] == place)


# Tables of planning.md


def example(tool):
    """The answer of one command, without times that differ from run to run."""
    text, _ = tool.example()
    text = re.sub(r"found in [\d.]+ ms", "found in … ms", text)
    text = re.sub(r"\(\d+ ms\)", "(… ms)", text)
    lines = "\n".join(line.rstrip() for line in text.splitlines())
    return f"```\n$ wring plan {' '.join(EXAMPLE)}\n{lines}\n```"


# Tables of published-figures.md, from measured traces


def models(tool):
    rows = []
    for model in MODELS:
        trace = json.loads(tool.measured(model).read_text(encoding="utf-8"))
        ready = trace["tensors"][-1]["ready_us"]
        mb = sum(tensor["elements"] for tensor in trace["tensors"]) * 4 / 2**20
        rows.append((model.name, len(trace["tensors"]), f"{mb:.0f}", f"{ready / 1e3:.1f}",
                     f"{ready / 2e3:.1f}", f"`{model.codec}`"))
    return table(["model", "tensors", "MiB", "backward, ms", "forward assumed, ms", "codec"], rows)


def speeds(tool, fabric):
    rows = []
    for model in MODELS:
        words = ["-t", tool.measured(model), "-p", fabric, "-c", model.codec]
        plan = tool.plan(*words)
        cpus = tool.plan(*words, "--only", "--search", "layers", "--where", "cpu")
        devices = tool.plan(*words, "--only", "--search", "layers", "--where", "device")
        backward = plan["last_ready_us"]
        best = scaling(plan, backward)
        ways = [plan["baseline_us"]["fp32"], plan["baseline_us"]["fp16"], cpus, devices,
                plan["espresso_us"], plan]
        values = [scaling(way, backward) for way in ways]
        rows.append((model.name, *(f"{value:.2f}" for value in values),
                     *(f"{(best / values[i] - 1) * 100:.0f} %" for i in (0, 1, 2, 3))))
    return table(["model", "fp32", "fp16", "codec, CPUs", "codec, GPUs", "Espresso's greedy", "plan",
                  "gain over fp32", "over fp16", "over CPUs", "over GPUs"], rows)


def nodes(tool, fabric):
    """Scaling factors over 1, 2, 4, 8 nodes; wring simulate."""
    rows = []
    for model in MODELS:
        answer = json.loads(tool.run("simulate", "--json", "-t", tool.measured(model), "-p", fabric,
                                     "-c", model.codec, "-N", "1,2,4,8"))
        for name in ("plan", "fp16", "fp32"):
            cells = []
            for point in answer["points"]:
                factor = point["scaling_factor"]
                if name != "plan":
                    factor /= point[f"speedup_{name}"]
                cells.append(f"{factor:.2f}")
            rows.append((model.name, name, *cells))
    return table(["model", "", "8 GPUs", "16", "32", "64"], rows)


LINKS = {"testbed-pcie-25g": (0.4e-3, 0.32e-3), "testbed-nvlink-100g": (0.02e-3, 0.08e-3)}


def free_profile(fabric, codec):
    """The fabric as its built-in profile has it, with codecs that take no time."""
    nothing = {"corners": [], "slope": 0}
    cost = {"encode_us": nothing, "decode_us": nothing}
    share = 1 / 32 * 4 if codec.startswith("onebit") else 8 * float(codec.split("=")[1])
    links = [{"provider": "tcp", "latency_us": 150,
              "us_by_bytes": {"corners": [[0, 0]], "slope": slope}} for slope in LINKS[fabric]]
    codecs = [{"spec": spec, "summable": spec == "fp16", "feedback": spec.endswith("+ef"),
               "wire_bytes": {"corners": [[0, 0]], "slope": slope},
               "at": {"device": cost, "cpu": cost}} for spec, slope in (("fp16", 2), (codec, share))]
    return {"format": "wring-profile", "version": 1, "name": f"{fabric}, free codecs", "machine": "",
            "nodes": 8, "ranks_per_node": 8, "chunked": False,
            "links": {"intra": links[0], "inter": links[1]}, "codecs": codecs}


def free(tool):
    """How far plans are from those in which codecs take no time."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            cells = []
            for fabric in FABRICS:
                path = pathlib.Path(folder) / "free.json"
                path.write_text(json.dumps(free_profile(fabric, model.codec)), encoding="utf-8")
                words = ["-t", tool.measured(model), "-c", model.codec]
                plan = tool.plan(*words, "-p", fabric)
                gift = tool.plan(*words, "-p", path)
                if abs(gift["baseline_us"]["fp32"] / plan["baseline_us"]["fp32"] - 1) > 1e-9:
                    sys.exit(f"the profile with free codecs has other links than {fabric}")
                backward = plan["last_ready_us"]
                lost = 1 - scaling(plan, backward) / scaling(gift, backward)
                cells.append(f"{lost * 100:.1f} %")
            paper = f"{model.free_gap} %" if model.free_gap else "< 10 %"
            rows.append((model.name, *cells, paper))
    return table(["model", *FABRICS.values(), "paper"], rows)


def proofs(tool):
    rows = []
    for model in MODELS:
        cells = []
        for fabric in FABRICS:
            plan = tool.plan("-t", tool.measured(model), "-p", fabric, "-c", model.codec,
                             bound_ms=1000)
            cells += [f"{plan['gap'] * 100:.2f} %", f"{plan['exposed_us'] / 1e3:.2f}",
                      f"{plan['bound_exposed_us'] / 1e3:.2f}"]
        rows.append((model.name, *cells))
    head = [cell for name in FABRICS.values()
            for cell in (f"{name}: gap", "exposed, ms", "its bound, ms")]
    return table(["model", *head], rows)


def selection(tool):
    rows = []
    for model in MODELS:
        words = ["-t", tool.measured(model), "-p", "testbed-pcie-25g", "-c", model.codec]
        greedy = tool.plan(*words, "--search", "espresso")
        best = tool.plan(*words)
        rows.append((model.name, f"{model.selection_ms} + {model.offload_ms}",
                     f"{greedy['selection_us'] / 1e3:.1f}", f"{best['selection_us'] / 1e3:.1f}",
                     f"{model.offloaded}", tensors_at(greedy, "cpu"), tensors_at(best, "cpu"),
                     f"{greedy['iteration_us'] / 1e3:.1f}", f"{best['iteration_us'] / 1e3:.1f}"))
    return table(["model", "paper, ms", "`--search espresso`, ms", "`best`, ms",
                  "offloaded in the paper", "espresso: tensors on CPUs", "best: tensors on CPUs",
                  "espresso: iteration, ms", "best: iteration, ms"], rows)


WITHOUT = [["--without", "hierarchy"], ["--without", "division"], ["--without", "merging"],
           ["--where", "device"], ["--where", "cpu"]]


def without(tool, fabric):
    """What plans lose where a dimension of their options is missing."""
    rows = []
    for model in MODELS:
        words = ["-t", tool.measured(model), "-p", fabric, "-c", model.codec]
        plans = [tool.plan(*words, *restricted) for restricted in [[], *WITHOUT]]
        rows.append((model.name, *(f"{scaling(plan, plans[0]['last_ready_us']):.2f}"
                                   for plan in plans)))
    return table(["model", "plan", "no hierarchy", "no division", "no merging", "GPUs only",
                  "CPUs only"], rows)


def cost_at(cost, x):
    """A cost of a profile with one corner."""
    if not cost["corners"]:
        return 0
    (corner, value), = cost["corners"]
    return value + max(0, x - corner) * cost["slope"]


def secopa_us(trace, profile, spec):
    """HiPress: each tensor takes the cheaper of a ring and a ring of codes, by its formula

        2(N - 1) send(s ratio / K) + N enc(s / K) + N dec(s ratio / K)

    with the best K up to N, between nodes; inside of them it is reduced and spread raw. One after
    another. A message's latency is such that an uncompressed ring has the profile's.
    """
    n, gpus = profile["nodes"], profile["ranks_per_node"]
    links = profile["links"]
    family = spec.partition("=")[0] + "=R" if "=" in spec else spec
    codec, = (codec for codec in profile["codecs"] if codec["spec"] == family)
    rate = float(spec.partition("=")[2]) if "=" in spec else 1
    ratio = codec["wire_bytes"]["slope"] * rate / 4
    device = codec["at"]["device"]
    send = lambda size: (links["inter"]["latency_us"] / (2 * (n - 1)) +
                         size * links["inter"]["us_by_bytes"]["slope"])
    end = 0
    for tensor in trace["tensors"]:
        elements = tensor["elements"]
        inside = (links["intra"]["latency_us"] + links["intra"]["us_by_bytes"]["slope"] *
                  2 * (gpus - 1) / gpus * 4 * elements)
        ways = [2 * (n - 1) * send(4 * elements / n)]
        for k in range(1, n + 1):
            part = elements / gpus / k
            ways.append(2 * (n - 1) * send(4 * elements * ratio / k) +
                        n * cost_at(device["encode_us"], part) +
                        n * cost_at(device["decode_us"], part))
        end = max(end, tensor["ready_us"]) + inside + min(ways)
    return end


def secopa(tool):
    rows = []
    profiles = {fabric: json.loads(tool.run("info", "--json", "--profile", fabric))
                for fabric in FABRICS}
    for model in MODELS:
        trace = json.loads(tool.measured(model).read_text(encoding="utf-8"))
        cells = []
        for fabric in FABRICS:
            words = ["-t", tool.measured(model), "-p", fabric, "-c", model.codec]
            plan = tool.plan(*words)
            serial = tool.plan(*words, "--timeline", "serial", "--where", "device")
            backward = plan["last_ready_us"]
            hipress = secopa_us(trace, profiles[fabric], model.codec)
            cells += [scaling(us, backward) for us in (hipress, serial, plan)]
        rows.append((model.name, *(f"{cell:.2f}" for cell in cells),
                     *(f"{round((cells[i + 1] / cells[i] - 1) * 100)} %" for i in (0, 3))))
    head = [f"{link}: {name}" for link in ("25 Gbit/s", "100 Gbit/s")
            for name in ("HiPress", "plan, one lane", "plan")]
    return table(["model", *head, "gain on one lane, 25", "100"], rows)


CODECS = ["fp16", "onebit", "onebit+ef", "randk:ratio=0.01", "dgc:ratio=0.01"]


def grouping(tool, gpus):
    rows = []
    for name in ("resnet50", "resnet101"):
        path = pathlib.Path(tool.traces) / f"{name}.json"
        for codec in CODECS:
            words = ["-t", path, "-p", "testbed-pcie-25g", "-N", gpus // 8, "-c", codec, "--only",
                     "--where", "device"]
            layers = tool.plan(*words, "--search", "layers")
            merged = tool.plan(*words, "--search", "mergecomp")
            fp32, backward = layers["baseline_us"]["fp32"], layers["last_ready_us"]
            factors = [scaling(us, backward) for us in (fp32, layers, merged)]
            rows.append((name, f"`{codec}`", *(f"{factor:.2f}" for factor in factors),
                         f"{factors[2] / factors[1]:.2f}", f"{factors[2] / factors[0]:.2f}",
                         len(merged["groups"])))
    return table(["model", "codec", "fp32", "layer by layer", "in groups", "× layer by layer",
                  "× fp32", "groups"], rows)


def grouping_gpus(tool):
    """ResNet101 on 2, 4 and 8 GPUs of one node."""
    path = pathlib.Path(tool.traces) / "resnet101.json"
    rows = []
    for fabric, name in FABRICS.items():
        for gpus in (2, 4, 8):
            for codec in CODECS:
                words = ["-t", path, "-p", fabric, "-N", 1, "-g", gpus, "-c", codec, "--only",
                         "--where", "device"]
                layers = tool.plan(*words, "--search", "layers")
                merged = tool.plan(*words, "--search", "mergecomp")
                factors = [scaling(us, layers["last_ready_us"])
                           for us in (layers["baseline_us"]["fp32"], layers, merged)]
                rows.append((name.partition(",")[0], gpus, f"`{codec}`",
                             *(f"{factor:.2f}" for factor in factors),
                             f"{factors[2] / factors[1]:.2f}"))
    return table(["inside the node", "GPUs", "codec", "fp32", "layer by layer", "in groups",
                  "× layer by layer"], rows)


# Tables of published-figures.md, from traces that wring ships

SHIPPED = [("vgg16", "randk:ratio=0.01"), ("resnet101", "dgc:ratio=0.01"),
           ("ugatit", "dgc:ratio=0.01"), ("bert-base", "randk:ratio=0.01"), ("gpt2", "onebit+ef"),
           ("lstm", "onebit+ef"), ("bert-large", "onebit+ef"), ("llama-7b", "onebit+ef")]


def shipped(tool):
    rows = []
    for name, codec in SHIPPED:
        forward = json.loads((TRACES / f"{name}.json").read_text(encoding="utf-8"))["forward_us"]
        cells = []
        for fabric in FABRICS:
            plan = tool.plan("-t", name, "-p", fabric, "-c", codec)
            backward = plan["last_ready_us"]
            for us in (plan["baseline_us"]["fp32"], plan["baseline_us"]["fp16"], plan):
                cells.append(f"{scaling(us, backward, forward):.2f}")
        rows.append((name, f"`{codec}`", f"{(forward + backward) / 1e3:.1f}", *cells))
    return table(["model", "codec", "computing, ms", "25 Gbit/s: fp32", "fp16", "plan",
                  "100 Gbit/s: fp32", "fp16", "plan"], rows)


Block = collections.namedtuple("Block", "make measured compared")
BLOCKS = {
    "example": Block(example, False, True),
    "shipped": Block(shipped, False, True),
    "models": Block(models, True, True),
    "speeds-25": Block(lambda tool: speeds(tool, "testbed-pcie-25g"), True, True),
    "speeds-100": Block(lambda tool: speeds(tool, "testbed-nvlink-100g"), True, True),
    "nodes-25": Block(lambda tool: nodes(tool, "testbed-pcie-25g"), True, True),
    "nodes-100": Block(lambda tool: nodes(tool, "testbed-nvlink-100g"), True, True),
    "without-25": Block(lambda tool: without(tool, "testbed-pcie-25g"), True, True),
    "without-100": Block(lambda tool: without(tool, "testbed-nvlink-100g"), True, True),
    "secopa": Block(secopa, True, True),
    "free": Block(free, True, True),
    "proofs": Block(proofs, True, False),
    "selection": Block(selection, True, False),
    "grouping-8": Block(lambda tool: grouping(tool, 8), True, True),
    "grouping-64": Block(lambda tool: grouping(tool, 64), True, True),
    "grouping-gpus": Block(grouping_gpus, True, True),
}
PAGES = ["planning.md", "published-figures.md"]
PICTURE = DOCS / "plan-vgg16.svg"


def near(a, b):
    """Texts alike but for numbers, of which each is within 2 %, or within its last two digits."""
    if NUMBER.sub("0", a) != NUMBER.sub("0", b):
        return False
    for x, y in zip(NUMBER.findall(a), NUMBER.findall(b)):
        digit = 10 ** -len(x.partition(".")[2]) if "." in x else 1
        if abs(float(x) - float(y)) > max(0.02 * abs(float(x)), 2 * digit):
            return False
    return True


def comparable(name, text):
    """Of an answer the times; groups are too many to change by a little. White space may differ."""
    if name == "example":
        text = text.partition("tensors, in backward order")[0]
    if name.startswith("grouping"):
        text = re.sub(r"\| \d+ \|$", "|", text, flags=re.M)
    return re.sub(r"\s+", " ", text)


def renew(tool, page, write):
    """Write or check the tables of a page. @return faults, tables that were looked at"""
    path = DOCS / page
    text = path.read_text(encoding="utf-8")
    faults, seen = [], 0

    def replace(match):
        nonlocal seen
        name = match.group(2)
        block = BLOCKS[name]
        if (block.measured and not tool.traces) or (not write and not block.compared):
            return match.group(0)
        seen += 1
        made = "\n" + block.make(tool) + "\n\n"
        old = match.group(0)[len(match.group(1)):-len(match.group(3))]
        if not near(comparable(name, old), comparable(name, made)):
            faults.append(f"{page}: {name} differs; docs/planner_tables.py --write mends it")
        return match.group(1) + made + match.group(3)

    renewed = BLOCK.sub(replace, text)
    if write and renewed != text:
        path.write_text(renewed, encoding="utf-8")
    return faults, seen


def plots(write):
    """Write or check the plots of tables, by what stands in the pages. @return faults"""
    faults = []
    for page in PAGES:
        for match in BLOCK.finditer((DOCS / page).read_text(encoding="utf-8")):
            if match.group(2) not in planner_plots.PLOTS:
                continue
            path = DOCS / f"published-{match.group(2)}.svg"
            drawn = planner_plots.PLOTS[match.group(2)](match.group(0))
            if write:
                path.write_text(drawn, encoding="utf-8")
            elif not path.exists() or path.read_text(encoding="utf-8") != drawn:
                faults.append(f"{path.name} is not what its table says")
    return faults


def check_picture(tool):
    """Its title says how long the iteration takes."""
    titles = [re.search(r">([^<>]* an iteration)", picture).group(1)
              for picture in (PICTURE.read_text(encoding="utf-8"), tool.example()[1])]
    return [] if near(*titles) else [f"{PICTURE.name} says {titles[0]}, and it is {titles[1]}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wring")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--write", action="store_true")
    how.add_argument("--check", action="store_true")
    parser.add_argument("--traces", default=os.environ.get("WRING_TEST_TRACES", ""))
    arguments = parser.parse_args()

    tool = Tool(os.path.abspath(arguments.wring), arguments.traces)
    faults, seen = [], 0
    for page in PAGES:
        more, n = renew(tool, page, arguments.write)
        faults += more
        seen += n
    faults += plots(arguments.write)
    if arguments.write:
        PICTURE.write_text(tool.example()[1], encoding="utf-8")
    else:
        faults += check_picture(tool)
    print(f"{seen} tables" + ("" if tool.traces else "; no measured traces, so theirs are as they were"))
    if arguments.check:
        print("\n".join(faults))
        sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
