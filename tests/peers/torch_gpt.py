#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small GPT trained over slow links, by gloo and by wring: time a step, and what was learned.

    tests/peers/torch_gpt.py [--python PYTHON] [--ranks LIST] [--link NAME] [--seeds N] [--steps N]
                             [--runs LIST] [--json FILE] [--svg FILE] [--from FILE]

Each rank is a host of its own in a network namespace (links.py), and trains
dropin/torch/examples/train_gpt.py. Runs are BACKEND:HOOK; those of one seed take turns, another
first for each seed. PYTHON has torch; wring is that of this tree, with the library of build/ or
WRING_LIBRARY. A ratio is the median over the seeds of the ratios within one; loss is that on what
was held out, against gloo:none of the same seed. --json writes what there is after each run, and
begins with what the file has: that is not measured again. --from draws and prints what --json wrote
before.
"""
import argparse
import html
import json
import os
import pathlib
import statistics
import sys
import tempfile

import links

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "torch"))
import torch_rig  # noqa: E402

PROGRAM = ROOT / "dropin/torch/examples/train_gpt.py"
PORT = 29500
REFERENCE, BAR = "gloo:none", "gloo:bf16"
COLORS = ("#8c959f", "#bf8700", "#1f6feb", "#0a7d6c", "#cf222e", "#8250df")


def train(hosts, python, run, seed, steps):
    backend, hook = run.split(":", 1)
    command = [python, PROGRAM, "--backend", backend, "--hook", hook, "--seed", seed, "--steps",
               steps, "--json"]

    def environment(host):
        return {"RANK": str(host), "WORLD_SIZE": str(hosts.count), "LOCAL_RANK": "0",
                "MASTER_ADDR": hosts.address(0), "MASTER_PORT": str(PORT),
                "GLOO_SOCKET_IFNAME": "cable", "OMP_NUM_THREADS": "1"}
    return json.loads(hosts.run(lambda _: command, environment, timeout=900)[0].splitlines()[-1])


def is_of(result, ranks, seed, run, steps):
    return (result["ranks"], result["seed"], result["run"], result["steps"]) == \
        (ranks, seed, run, steps)


def measure(arguments, results):
    """Add to results what is missing, and write them as --json says."""
    torch_rig.measure_with(ROOT)
    links.require_root()
    with tempfile.TemporaryDirectory() as folder:  # the program is one that knows wring by torch alone
        os.environ.update(torch_rig.installed(folder, dict(os.environ)))
        measure_missing(arguments, results)


def measure_missing(arguments, results):
    for ranks in arguments.ranks:
        with links.Hosts(ranks, links.LINKS[arguments.link], bound=True) as hosts:
            for seed in range(1, arguments.seeds + 1):
                at = seed % len(arguments.runs)
                for run in arguments.runs[at:] + arguments.runs[:at]:
                    if any(is_of(one, ranks, seed, run, arguments.steps) for one in results):
                        continue
                    result = train(hosts, arguments.python, run, seed, arguments.steps)
                    results.append({**result, "run": run})
                    print(f"{ranks} ranks, seed {seed}, {run}: {result['step_us'] / 1e3:.1f} ms, "
                          f"{result['held_out_loss']:.4f}", file=sys.stderr, flush=True)
                    keep(arguments.json, results)


def read(path):
    return json.loads(pathlib.Path(path).read_text(encoding="ascii"))


def keep(path, results):
    """Write all of it, or leave the file as it was."""
    if path:
        part = pathlib.Path(f"{path}.part")
        part.write_text(json.dumps(results), encoding="ascii")
        part.replace(path)


def of(results, ranks, run):
    """By seed."""
    return {result["seed"]: result for result in results
            if result["ranks"] == ranks and result["run"] == run}


def runs_of(results, ranks):
    return list(dict.fromkeys(one["run"] for one in results if one["ranks"] == ranks))


def against(results, ranks, run, other, field, how):
    ours, theirs = of(results, ranks, run), of(results, ranks, other)
    both = sorted(set(ours) & set(theirs))
    if not both:
        return None
    return statistics.median(how(ours[seed][field], theirs[seed][field]) for seed in both)


def show(results):
    print("| ranks | run | ms a step | times gloo:bf16's speed | held-out loss | above gloo:none |\n"
          "|---|---|---|---|---|---|")
    for ranks in sorted({result["ranks"] for result in results}):
        for run in runs_of(results, ranks):
            own = of(results, ranks, run).values()
            faster = against(results, ranks, run, BAR, "step_us", lambda us, bar: bar / us)
            worse = against(results, ranks, run, REFERENCE, "held_out_loss", lambda a, b: a - b)
            print(f"| {ranks} | {run} | {statistics.median(r['step_us'] for r in own) / 1e3:.1f} "
                  f"| {'' if faster is None else f'{faster:.2f}'} "
                  f"| {statistics.median(r['held_out_loss'] for r in own):.4f} "
                  f"| {'' if worse is None else f'{worse:+.4f}'} |")


def curve(results, ranks, run, window=10):
    """Seconds and training loss, medians over the seeds, smoothed."""
    own = list(of(results, ranks, run).values())
    points, seconds = [], 0
    for step in range(min(len(result["losses"]) for result in own)):
        seconds += statistics.median(result["times_us"][step] for result in own) / 1e6
        begin = max(0, step - window + 1)
        points.append((seconds, statistics.median(
            statistics.mean(result["losses"][begin:step + 1]) for result in own)))
    return points


def panel(curves, left, title):
    """Loss against seconds.
    @param curves  by run: (its color, its points)"""
    width, top, bottom = 410, 70, 300
    longest = max(points[-1][0] for _, points in curves.values())
    low = min(loss for _, points in curves.values() for _, loss in points) * 0.97
    high = max(points[0][1] for _, points in curves.values())
    x = lambda seconds: left + width * seconds / longest
    y = lambda loss: bottom - (bottom - top) * (loss - low) / (high - low)
    parts = [f'<text x="{left}" y="{top - 12}" font-weight="600">{html.escape(title)}</text>',
             f'<path class="axis" d="M{left} {top}V{bottom}H{left + width}"/>']
    for i in range(5):
        loss, seconds = low + (high - low) * i / 4, longest * i / 4
        parts.append(f'<text x="{left - 6}" y="{y(loss) + 4:.0f}" text-anchor="end">{loss:.1f}</text>'
                     f'<text x="{x(seconds):.0f}" y="{bottom + 18}" text-anchor="middle">'
                     f"{seconds:.0f} s</text>")
    for run, (color, points) in curves.items():
        path = " ".join(f"{x(seconds):.1f},{y(loss):.1f}" for seconds, loss in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2">'
                     f"<title>{html.escape(run)}</title></polyline>")
    return parts


def draw(results, link):
    counts = sorted({result["ranks"] for result in results})
    colors = dict(zip(dict.fromkeys(result["run"] for result in results), COLORS))
    parts = []
    for i, ranks in enumerate(counts):
        curves = {run: (colors[run], curve(results, ranks, run))
                  for run in runs_of(results, ranks) if run in colors}
        parts += panel(curves, 60 + 490 * i, f"{ranks} processes, {link}: training loss against time")
    x = 60
    for run, color in colors.items():
        parts.append(f'<rect x="{x}" y="344" width="10" height="10" fill="{color}"/>'
                     f'<text x="{x + 16}" y="354">{html.escape(run)}</text>')
        x += 48 + 7 * len(run)
    style = ("<style>svg{background:#fff}text{fill:#1c2733;font:12px system-ui,sans-serif}"
             ".axis{fill:none;stroke:#5b6b7b}@media(prefers-color-scheme:dark){svg{background:"
             "#0f151c}text{fill:#e2e8ef}}</style>")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {490 * len(counts) + 20} 370">'
            + style + "\n" + "\n".join(parts) + "\n</svg>\n")


def words(text):
    return text.split(",")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--ranks", type=lambda text: list(map(int, words(text))), default=[2, 4])
    parser.add_argument("--link", default="1g", choices=links.LINKS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--runs", type=words,
                        default=[REFERENCE, BAR, "wring:int8+ef", "wring:local:2:1:int8+ef"])
    parser.add_argument("--json")
    parser.add_argument("--svg")
    parser.add_argument("--from", dest="source")
    arguments = parser.parse_args()
    if arguments.source:
        results = read(arguments.source)
    else:
        is_begun = arguments.json and pathlib.Path(arguments.json).exists()
        results = read(arguments.json) if is_begun else []
        measure(arguments, results)
    listed = {run: i for i, run in enumerate(arguments.runs)}
    results = sorted(results, key=lambda one: listed.get(one["run"], len(listed)))
    if arguments.svg:
        pathlib.Path(arguments.svg).write_text(draw(results, arguments.link), encoding="utf-8")
    show(results)


if __name__ == "__main__":
    main()
