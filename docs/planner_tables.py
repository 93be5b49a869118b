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
import planner_published as published

DOCS = pathlib.Path(__file__).resolve().parent
BLOCK = re.compile(r"(<!-- begin: planner_tables\.py (\S+) -->\n).*?(<!-- end -->)", re.S)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
EXAMPLE = ["-t", "vgg16", "-p", "testbed-pcie-25g", "-c", "onebit+ef", "--where", "device"]
# The answer may depend on no machine's speed: here the bound ends by itself.
PATIENCE = ["--bound-ms", "3600000"]


class Tool:
    """The tool under test, and where the measured traces are."""

    def __init__(self, wring, traces):
        self.wring, self.traces, self.answer = wring, traces, None
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("WRING_")}
        self.env["WRING_TRACES"] = str(published.TRACES)

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


# Tables of planning.md


def example(tool):
    """The answer of one command, without times that differ from run to run."""
    text, _ = tool.example()
    text = re.sub(r"found in [\d.]+ ms", "found in … ms", text)
    text = re.sub(r"\(\d+ ms\)", "(… ms)", text)
    lines = "\n".join(line.rstrip() for line in text.splitlines())
    return f"```\n$ wring plan {' '.join(EXAMPLE)}\n{lines}\n```"


Block = collections.namedtuple("Block", "make measured compared")
BLOCKS = {
    "example": Block(example, False, True),
    "shipped": Block(published.shipped, False, True),
    "models": Block(published.models, True, True),
    "speeds-25": Block(lambda tool: published.speeds(tool, "testbed-pcie-25g"), True, True),
    "speeds-100": Block(lambda tool: published.speeds(tool, "testbed-nvlink-100g"), True, True),
    "nodes-25": Block(lambda tool: published.nodes(tool, "testbed-pcie-25g"), True, True),
    "nodes-100": Block(lambda tool: published.nodes(tool, "testbed-nvlink-100g"), True, True),
    "without-25": Block(lambda tool: published.without(tool, "testbed-pcie-25g"), True, True),
    "without-100": Block(lambda tool: published.without(tool, "testbed-nvlink-100g"), True, True),
    "secopa": Block(published.secopa, True, True),
    "free": Block(published.free, True, True),
    "proofs": Block(published.proofs, True, False),
    "selection": Block(published.selection, True, False),
    "grouping-8": Block(lambda tool: published.grouping(tool, 8), True, True),
    "grouping-64": Block(lambda tool: published.grouping(tool, 64), True, True),
    "grouping-gpus": Block(published.grouping_gpus, True, True),
}
PAGES = ["planning.md", "published-figures.md", "results/published.md"]
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
