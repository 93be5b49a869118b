# SPDX-License-Identifier: Apache-2.0
"""The parts of planner_bars.py: what each asks wring's programs, and what answers say of bars."""
import dataclasses
import hashlib
import json
import os
import re
import statistics
import subprocess
import time

from peer_sides import Failed

NODES, RANKS_PER_NODE = 8, 8
CODECS = ("randk:ratio=0.01", "dgc:ratio=0.01", "onebit", "onebit+ef")
FABRICS = ("espresso-pcie", "espresso-nvlink", "testbed-pcie-25g", "testbed-nvlink-100g")
FIGURES = ("iteration_us", "last_ready_us", "espresso_us", "selection_us", "bound_us", "gap",
           "bound_time_us")
SAME = 1e-9  # of a time: rounding
OFF = 1e-3  # of a time: plans so far apart differ
FAR = 0.10  # of what is exposed: what a plan may expose more than its bound
LINKS_GBIT = [round(10 * 1.2 ** i, 2) for i in range(20)]  # 10 to 320
MANY_NODES = 4096


@dataclasses.dataclass(frozen=True)
class Model:
    file: str  # of the measured trace
    gap: float  # at most
    selection_ms: float | None = None  # at most, where there is a bar


MODELS = {
    "vgg16": Model("vgg16", 0.06), "resnet50": Model("resnet50", 0.03),
    "resnet101": Model("resnet101", 0.03, 5), "ugatit": Model("ugatit", 0.03),
    "bert-base": Model("bert", 0.03), "bert-large": Model("bert_large", 0.03, 10),
    "gpt2": Model("gpt2", 0.03), "lstm": Model("lstm", 0.03), "ncf": Model("ncf", 0.08),
}


@dataclasses.dataclass
class Bar:
    what: str
    says: str
    figure: str  # the worst one
    at: str
    met: int  # cases
    of: int

    def as_json(self):
        return dataclasses.asdict(self)


class Program:
    """One of the build's, and what tells it from that of another build."""

    def __init__(self, path):
        self.path = path
        if not os.access(path, os.X_OK):
            raise Failed(f"{path} is not built: ninja -C build")
        with open(path, "rb") as file:
            self.mark = hashlib.sha256(file.read()).hexdigest()[:12]

    def run(self, *words, timeout=600):
        bare = {name: value for name, value in os.environ.items() if not name.startswith("WRING_")}
        done = subprocess.run([self.path, *map(str, words)], env=bare, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout,
                              check=False)
        if done.returncode != 0:
            raise Failed(f"{self.path} {' '.join(map(str, words))}: exit {done.returncode}: "
                         f"{(done.stderr or done.stdout).strip()[-500:]}")
        return done.stdout


class Part:
    tool = "tools/wring"
    timed, guess_s = True, 1

    def __init__(self, arguments, traces):
        self.arguments, self.traces = arguments, traces
        self.program = Program(os.path.abspath(f"{arguments.build}/{self.tool}"))

    def show(self, answers):
        """Tables beyond the bars: none."""


def plan(part, question, bound_ms):
    """What wring plan answers, but for groups and names."""
    got = json.loads(part.program.run(
        "plan", "--json", "--timeline", "phases", "--bound-ms", bound_ms, "-t", question["trace"],
        "-p", question["fabric"], "-c", question["codec"], "-N", question["nodes"], "-g",
        RANKS_PER_NODE))
    return {**{name: got[name] for name in FIGURES},
            "tensors": sum(len(group["tensors"]) for group in got["groups"])}


def count_tensors(trace):
    with open(trace, encoding="utf-8") as file:
        return len(json.load(file)["tensors"])


def by_model(answers):
    models = {}
    for line in answers:
        models.setdefault(line["model"], []).append(line)
    return models


def where(line):
    return f"{line['fabric']}, {line['nodes']} nodes, {line['codec']}"


class Selection(Part):
    """The search alone."""
    name = "selection"

    def questions(self):
        for turn in range(self.arguments.rounds):
            for model, trace in self.traces.items():
                for fabric in self.arguments.fabrics:
                    for codec in self.arguments.codecs:
                        yield {"model": model, "trace": trace, "fabric": fabric, "codec": codec,
                               "nodes": NODES, "round": turn}

    def ask(self, question):
        return plan(self, question, 0)

    @staticmethod
    def medians(answers):
        """@return (ms, one of the answers) of each case, the slowest first"""
        cases = {}
        for line in answers:
            cases.setdefault(where(line), []).append(line)
        return sorted(((statistics.median(line["selection_us"] for line in lines) / 1e3, lines[0])
                       for lines in cases.values()), key=lambda pair: -pair[0])

    def bars(self, answers):
        for model, lines in by_model(answers).items():
            bar = MODELS[model].selection_ms
            if bar is not None:
                times = self.medians(lines)
                yield Bar(f"search, {model}", f"≤ {bar:g} ms", f"{times[0][0]:.2f} ms",
                          where(times[0][1]), sum(ms <= bar for ms, _ in times), len(times))
        cases = [line for line in answers if line["round"] == 0]
        worst = max(cases, key=lambda line: line["iteration_us"] / line["espresso_us"])
        yield Bar("plan beside Espresso's greedy", "≤ 1 ×",
                  f"{worst['iteration_us'] / worst['espresso_us']:.3f} ×",
                  f"{worst['model']}, {where(worst)}",
                  sum(line["iteration_us"] <= line["espresso_us"] * (1 + SAME) for line in cases),
                  len(cases))

    def show(self, answers):
        print(f"\nThe search alone, median of {self.arguments.rounds} processes, and how much "
              "longer iterations of Espresso's greedy take than those of what it finds:\n\n"
              "| model | tensors | cases | search, ms: median | slowest | at | greedy is off in "
              "| by, median of these % | at most % |\n|---|---|---|---|---|---|---|---|---|")
        for model, lines in by_model(answers).items():
            times = self.medians(lines)
            over = [line["espresso_us"] / line["iteration_us"] - 1 for _, line in times]
            off = [share for share in over if share > OFF]
            print(f"| {model} | {lines[0]['tensors']} | {len(times)} "
                  f"| {statistics.median(ms for ms, _ in times):.2f} | {times[0][0]:.2f} "
                  f"| {where(times[0][1])} | {len(off)} "
                  f"| {100 * statistics.median(off or [0]):.1f} "
                  f"| {100 * max(off, default=0):.1f} |")


class Gap(Part):
    """How far above its bound a plan can be."""
    name = "gap"

    def questions(self):
        for model, trace in self.traces.items():
            for fabric in self.arguments.fabrics:
                for nodes in (8, 64):
                    for codec in self.arguments.codecs:
                        yield {"model": model, "trace": trace, "fabric": fabric, "codec": codec,
                               "nodes": nodes, "bound_ms": self.arguments.bound_ms}

    def ask(self, question):
        return plan(self, question, question["bound_ms"])

    def bars(self, answers):
        for model, lines in by_model(answers).items():
            bar, worst = MODELS[model].gap, max(lines, key=lambda line: line["gap"])
            yield Bar(f"gap, {model}", f"≤ {100 * bar:g} %", f"{100 * worst['gap']:.2f} %",
                      where(worst), sum(line["gap"] <= bar for line in lines), len(lines))

    @staticmethod
    def exposed(line):
        """@return ms of the plan, and of its bound"""
        return [(line[name] - line["last_ready_us"]) / 1e3 for name in ("iteration_us", "bound_us")]

    def is_near(self, line):
        found, bound = self.exposed(line)
        return found <= bound * (1 + FAR) + SAME * line["iteration_us"]

    def show(self, answers):
        print(f"\nPlans and bounds after {self.arguments.bound_ms:g} ms; *near*: what is exposed "
              f"is within {100 * FAR:.0f} % of its bound:\n\n"
              "| model | nodes | cases | optimal | gap %: median | worst | at | near "
              "| exposed there, ms | its bound, ms |\n|---|---|---|---|---|---|---|---|---|---|")
        for model, lines in by_model(answers).items():
            for nodes in (8, 64):
                self.show_row(model, nodes, [line for line in lines if line["nodes"] == nodes])
        missed = [line for line in answers if line["gap"] > MODELS[line["model"]].gap]
        for line in sorted(missed, key=lambda line: -line["gap"]):
            found, bound = self.exposed(line)
            print(f"\nmissed: {line['model']}, {where(line)}: {100 * line['gap']:.2f} %; "
                  f"{found:.2f} ms exposed, {bound:.2f} at least")

    def show_row(self, model, nodes, lines):
        if not lines:
            return
        worst = max(lines, key=lambda line: line["gap"])
        found, bound = self.exposed(worst)
        optimal = sum(line["gap"] <= SAME for line in lines)
        print(f"| {model} | {nodes} | {len(lines)} | {optimal} "
              f"| {100 * statistics.median(line['gap'] for line in lines):.2f} "
              f"| {100 * worst['gap']:.2f} | {worst['fabric']}, {worst['codec']} "
              f"| {sum(map(self.is_near, lines))} | {found:.2f} | {bound:.2f} |")


class Evaluations(Part):
    """Timelines in a second."""
    name, tool, guess_s = "evaluations", "tests/planner/test_planner_search", 3
    at_least = 2e6
    title = re.compile(r"(\d+) tensors, (\d+) lanes")
    line = re.compile(r"(.+), incrementally +(\d+) per second")

    def questions(self):
        return ({"round": turn} for turn in range(self.arguments.rounds))

    def ask(self, question):
        text = self.program.run("--bench")
        title, speeds = self.title.search(text), dict(self.line.findall(text))
        if title is None or not speeds:
            raise Failed(f"{self.program.path} --bench: it does not say how many evaluations")
        return {"tensors": int(title[1]), "lanes": int(title[2]),
                "speeds": {what: float(speed) for what, speed in speeds.items()}}

    def bars(self, answers):
        for what in answers[0]["speeds"]:
            speed = statistics.median(line["speeds"][what] for line in answers)
            yield Bar(f"evaluations a second: {what}", f"≥ {self.at_least:,.0f}", f"{speed:,.0f}",
                      f"{answers[0]['tensors']} tensors, {answers[0]['lanes']} lanes, one core",
                      int(speed >= self.at_least), 1)


class Simulate(Part):
    """A large cluster, and many speeds, with the model that has most tensors."""
    name, at_most_s = "simulate", 10

    def questions(self):
        model = max(self.traces, key=lambda model: count_tensors(self.traces[model]))
        for codec in self.arguments.codecs:
            for turn in range(self.arguments.rounds):
                yield {"model": model, "trace": self.traces[model], "codec": codec,
                       "nodes": MANY_NODES, "round": turn}

    def ask(self, question):
        begin = time.monotonic()
        got = json.loads(self.program.run(
            "simulate", "--json", "-t", question["trace"], "-p", FABRICS[0], "-g", RANKS_PER_NODE,
            "-N", MANY_NODES, "-c", question["codec"], "--link", ",".join(map(str, LINKS_GBIT))))
        return {"seconds": time.monotonic() - begin, "points": len(got["points"]),
                "tensors": count_tensors(question["trace"])}

    def bars(self, answers):
        times = {}
        for line in answers:
            times.setdefault(line["codec"], []).append(line["seconds"])
        seconds = {codec: statistics.median(some) for codec, some in times.items()}
        worst, first = max(seconds, key=seconds.get), answers[0]
        yield Bar(f"simulation of {first['tensors']} tensors, {first['nodes']} nodes, "
                  f"{first['points']} speeds", f"≤ {self.at_most_s} s", f"{seconds[worst]:.2f} s",
                  f"{first['model']}, {worst}",
                  sum(some <= self.at_most_s for some in seconds.values()), len(seconds))


class Optimum(Part):
    """Random traces beside their exact optimum."""
    name, tool, timed, guess_s = "optimum", "tests/planner/test_planner_optimum", False, 100
    at_most = 1  # %
    columns = ("fabric", "tensors", "traces", "settled", "optimal", "median", "most", "worst")

    def questions(self):
        return ({"exact": self.arguments.exact},)

    def ask(self, question):
        return {"rows": self.read(self.program.run("--all", question["exact"]))}

    def read(self, text):
        """@return a dictionary for each line of the table that the program prints"""
        rows = [dict(zip(self.columns, (cell.strip(" %") for cell in line.strip("|").split("|"))))
                for line in text.splitlines()[2:]]
        if not rows:
            raise Failed(f"{self.program.path} --all: it prints no table")
        return rows

    def bars(self, answers):
        for row in answers[0]["rows"]:
            at = f"{row['traces']} traces of {row['tensors']} tensors, {row['fabric']}"
            yield Bar("above the optimum: median", "0 %", f"{row['median']} %", at,
                      int(float(row["median"]) == 0), 1)
            yield Bar("above the optimum: worst", f"≤ {self.at_most} %", f"{row['worst']} %", at,
                      int(float(row["worst"]) <= self.at_most), 1)


PARTS = {part.name: part for part in (Selection, Gap, Evaluations, Simulate, Optimum)}
