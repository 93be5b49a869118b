# SPDX-License-Identifier: Apache-2.0
"""The tables of published-figures.md: what planner_tables.py puts there."""
import collections
import json
import pathlib
import sys
import tempfile

TRACES = pathlib.Path(__file__).resolve().parent.parent / "planner" / "traces"
FABRICS = {"testbed-pcie-25g": "PCIe, 25 Gbit/s", "testbed-nvlink-100g": "NVLink, 100 Gbit/s"}

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


def table(head, rows):
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join(lines + [f"| {' | '.join(map(str, row))} |" for row in rows])


def scaling(plan_or_us, backward_us, forward_us=None):
    """Training speed of a rank against that of one alone; forward is half of backward if unknown."""
    us = plan_or_us["iteration_us"] if isinstance(plan_or_us, dict) else plan_or_us
    forward_us = backward_us / 2 if forward_us is None else forward_us
    return (forward_us + backward_us) / (forward_us + us)


def tensors_at(plan, site):
    return sum(len(group["tensors"]) for group in plan["groups"] if group["where"] == site)


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
        times = [plan["baseline_us"]["fp32"], plan["baseline_us"]["fp16"], cpus, devices,
                plan["espresso_us"], plan]
        values = [scaling(one, backward) for one in times]
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
        times = [2 * (n - 1) * send(4 * elements / n)]
        for k in range(1, n + 1):
            part = elements / gpus / k
            times.append(2 * (n - 1) * send(4 * elements * ratio / k) +
                        n * cost_at(device["encode_us"], part) +
                        n * cost_at(device["decode_us"], part))
        end = max(end, tensor["ready_us"]) + inside + min(times)
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
