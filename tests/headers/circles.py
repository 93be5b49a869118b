#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Find files that call each other in circles, in the objects of a build.

    circles.py BUILD [--room FOLDER] [--calls] [--single]
    circles.py BUILD --check BARS

A file calls another one if its object needs a function that the other's object defines. A circle is a
set of files each of which reaches all others by such calls. Objects of tests do not count, nor do calls
through a table of functions, which is how a file may be told of what it must not call.

Prints the number of exported functions, how many of them one other file alone uses, and the circles.

    --room FOLDER   only circles with a file below FOLDER
    --calls         of each circle, which function calls which, "(table)" if a table names it
    --single        exported functions with one user file; "tests" marks those that tests use as well
    --check BARS    fail if a circle has a file below a folder and more files than BARS allow: JSON, with
                    "circles" (folder to files, "" for any other) and "single_percent"
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

CLONE = re.compile(r"\.(?:part|cold|constprop|isra|llvm)\b.*$")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip() or 'failed'}")
    return done.stdout


def list_objects(build):
    """(source below the root, object) of all compiled C files; one for each source and target."""
    commands = build / "compile_commands.json"
    if not commands.exists():
        sys.exit(f"{commands} is not there: BUILD is a folder that meson has set up")
    root = next(p for p in commands.resolve().parents if (p / "meson_options.txt").exists())
    missing = []
    for entry in json.loads(commands.read_text()):
        source = pathlib.Path(os.path.normpath(os.path.join(entry["directory"], entry["file"])))
        if source.suffix != ".c" or not source.is_relative_to(root) or source.is_relative_to(build):
            continue
        here = source.relative_to(root).as_posix()
        if here.startswith("docs/"):
            continue
        made = build / entry["output"]
        if made.exists():
            yield here, made
        elif not entry["output"].startswith("tests/"):
            missing.append(here)
    if missing:
        sys.exit(f"{len(missing)} objects are not built, {missing[0]} for one: run ninja first")


class Calls:
    """Who defines which function, and who uses it."""

    def __init__(self, build):
        self.objects = collections.defaultdict(list)  # of a source
        for source, made in list_objects(build):
            self.objects[source].append(made)
        self.defined = collections.defaultdict(set)  # function: sources
        users = collections.defaultdict(set)
        source_of = {str(made): source for source, objects in self.objects.items() for made in objects}
        for line in run("nm", "-A", "-P", *source_of).splitlines():
            made, name, kind = re.match(r"(.*?): (\S+) (\S)", line).groups()
            source = source_of[made]
            if kind == "U":
                users[name].add(source)
            elif kind == "T" and not source.startswith("tests/") and name != "main":
                self.defined[name].add(source)
        if not self.defined:
            sys.exit(f"no object below {build} has a function that nm can read")
        self.users = {name: {s for s in users[name] if not s.startswith("tests/")}
                      for name in self.defined}
        self.tested = {name for name in self.defined
                       if any(s.startswith("tests/") for s in users[name])}
        self.needs = collections.defaultdict(set)  # source: sources
        for name, sources in self.defined.items():
            for user in self.users[name]:
                self.needs[user] |= sources - {user}

    def single(self):
        return [name for name in self.defined if len(self.users[name]) == 1]

    def circles(self):
        """Strongly connected sets of files, the largest first (Tarjan 1972, without recursion)."""
        index, low, stack, found = {}, {}, [], []
        for start in sorted(self.objects):
            if start in index:
                continue
            work = [(start, iter(sorted(self.needs[start])))]
            index[start] = low[start] = len(index)
            stack.append(start)
            while work:
                here, others = work[-1]
                for other in others:
                    if other not in index:
                        index[other] = low[other] = len(index)
                        stack.append(other)
                        work.append((other, iter(sorted(self.needs[other]))))
                        break
                    if other in stack:
                        low[here] = min(low[here], index[other])
                else:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[here])
                    if low[here] == index[here]:
                        at = stack.index(here)
                        found.append(sorted(stack[at:]))
                        del stack[at:]
        return sorted((c for c in found if len(c) > 1), key=lambda c: (-len(c), c))

    def callers(self, source):
        """(function of source, function that it names) by the relocations of its objects."""
        seen = set()
        for made in self.objects[source]:
            for flag in ("-dr", "-r"):
                inside = None
                for line in run("objdump", flag, "--no-show-raw-insn", str(made)).splitlines():
                    label = re.match(r"[0-9a-f]+ <([^>]+)>:$", line)
                    section = re.match(r"RELOCATION RECORDS FOR \[([^\]]+)\]", line)
                    if label:
                        inside = CLONE.sub("", label.group(1))
                    elif section:
                        text = section.group(1).startswith((".text", ".debug", ".eh_frame"))
                        inside = None if text else "(table)"
                    where = re.search(r"\bR_\w+\s+([A-Za-z_]\w*)", line)
                    if where and inside:
                        seen.add((inside, where.group(1)))
        return seen


def print_calls(calls, circle):
    for source in circle:
        by_target = collections.defaultdict(list)
        for inside, name in sorted(calls.callers(source)):
            for target in calls.defined.get(name, ()):
                if target in circle and target != source:
                    by_target[target].append(f"{inside} > {name}")
        for target in sorted(by_target):
            print(f"    {source} -> {target}")
            for call in by_target[target]:
                print(f"        {call}")


def check(calls, circles, percent, bars):
    faults = []
    for circle in circles:
        folders = [f for f in bars["circles"] if f and any(s.startswith(f) for s in circle)]
        most = min((bars["circles"][f] for f in folders or [""]))
        if len(circle) > most:
            faults.append(f"{len(circle)} files call each other in a circle, {most} may: "
                          + " ".join(circle))
    if percent > bars["single_percent"]:
        faults.append(f"{percent:.1f} % of exported functions have one user file, "
                      f"{bars['single_percent']} % may: make some static there (--single names them)")
    for fault in faults:
        print(fault)
    print(f"{len(circles)} circles, {len(faults)} faults")
    sys.exit(1 if faults else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--room", default="")
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("--single", action="store_true")
    parser.add_argument("--check", type=pathlib.Path, metavar="BARS")
    args = parser.parse_args()

    calls = Calls(args.build.resolve())
    single = calls.single()
    percent = 100 * len(single) / len(calls.defined)
    circles = calls.circles()
    unused = sum(1 for name in calls.defined if not calls.users[name])
    print(f"{len(calls.defined)} exported functions, {len(single)} with one user file "
          f"({percent:.1f} %), {unused} without one")
    if args.check:
        check(calls, circles, percent, json.loads(args.check.read_text()))
    for circle in circles:
        if any(source.startswith(args.room) for source in circle):
            print(f"circle of {len(circle)}: {' '.join(circle)}")
            if args.calls:
                print_calls(calls, circle)
    if args.single:
        rows = sorted((min(calls.defined[n]), min(calls.users[n]), n) for n in single)
        for source, user, name in rows:
            if source.startswith(args.room):
                print(f"{source} -> {user}: {name}{' tests' if name in calls.tested else ''}")


if __name__ == "__main__":
    main()
