#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Static analysis of all that is installed: clang's analyzer, cppcheck and gcc's analyzer.

    tests/analysis/analyze.py BUILD [--tool clang|cppcheck|gcc] [PART...]

BUILD is a folder that meson has set up; PART is a part of file names, to look at these alone. Prints
what no line of justified.txt explains, and lines there that explain nothing any more; exits with 1
if there is either.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = pathlib.Path(__file__).with_name("justified.txt")
CPPCHECK = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): (?P<what>\w+): (?P<text>.*)$")
CLANG = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+):\d+: (?:warning|error): (?P<text>.*) \[(?P<what>[\w.]+)\]$")
GCC = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+):\d+: warning: (?P<text>.*?)(?: \[CWE-\d+\])? "
                 r"\[-W(?P<what>analyzer-[\w-]+)\]$")


def entries(build, parts):
    """@return of each source once: its path below the root, the folder it is built in, options"""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(os.path.normpath(pathlib.Path(entry["directory"]) / entry["file"]))
        if path.suffix != ".c" or not path.is_relative_to(ROOT):
            continue
        name = str(path.relative_to(ROOT))
        if name.startswith(("tests/", "build")) or (parts and not any(part in name for part in parts)):
            continue
        options = [word for word in shlex.split(entry["command"])
                   if word.startswith(("-I", "-D", "-std", "-m"))]
        found.setdefault(name, (name, entry["directory"], options))
    return sorted(found.values())


def run_clang(sources):
    for name, folder, options in sources:
        done = subprocess.run(
            ["clang", "--analyze", "-Xclang", "-analyzer-output=text", "-w", *options, "-o", os.devnull,
             ROOT / name], cwd=folder, capture_output=True, text=True, check=False)
        yield from done.stderr.splitlines()


def run_cppcheck(sources):
    for name, folder, options in sources:
        done = subprocess.run(
            ["cppcheck", "--enable=warning,portability", "--platform=unix64", "-D__x86_64__=1",
             "-D__GNUC__=12", "--inline-suppr", "--quiet", "--std=c17",
             "--suppress=missingIncludeSystem", "--max-configs=1",
             "--template={file}:{line}: {id}: {message}",
             *[option for option in options if option.startswith(("-I", "-D"))], ROOT / name],
            cwd=folder, capture_output=True, text=True, check=False)
        yield from done.stderr.splitlines()


def run_gcc(sources):
    for name, folder, options in sources:
        done = subprocess.run(
            ["gcc", "-fanalyzer", "-fdiagnostics-plain-output", "-fdiagnostics-path-format=none", "-O1", "-c",
             *options, "-o", os.devnull, ROOT / name], cwd=folder, capture_output=True, text=True, check=False)
        yield from done.stderr.splitlines()


TOOLS = {"clang": (run_clang, CLANG), "cppcheck": (run_cppcheck, CPPCHECK), "gcc": (run_gcc, GCC)}


def findings(tool, sources):
    """@return (file, line, what, text) of each, once"""
    run, pattern = TOOLS[tool]
    found = set()
    for line in run(sources):
        match = pattern.match(line)
        if match is None:
            continue
        path = os.path.normpath(match["file"])
        if os.path.isabs(path):
            path = os.path.relpath(path, ROOT)
        found.add((path.removeprefix("../"), int(match["line"]), match["what"], match["text"]))
    return sorted(found)


def read_list():
    """@return {(tool, file, what): why}"""
    listed = {}
    for line in LIST.read_text().splitlines():
        if line and not line.startswith("#"):
            tool, file, what, why = line.split(" ", 3)
            listed[tool, file, what] = why
    return listed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--tool", choices=sorted(TOOLS), action="append")
    parser.add_argument("parts", nargs="*")
    options = parser.parse_intermixed_args()
    tools = options.tool or sorted(TOOLS)
    sources = entries(options.build.resolve(), options.parts)
    listed, used, left = read_list(), set(), 0
    if not sources:
        sys.exit("no sources: has meson set up that folder?")
    for tool in tools:
        for file, line, what, text in findings(tool, sources):
            if (tool, file, what) in listed:
                used.add((tool, file, what))
                continue
            left += 1
            print(f"{file}:{line}: {text} [{tool}: {what}]")
    stale = [key for key in listed if key[0] in tools and key not in used and not options.parts]
    for key in stale:
        print(f"{LIST.name}: {' '.join(key)} explains nothing any more")
    print(f"{len(sources)} files, {', '.join(tools)}: {left} findings, {len(used)} justified kinds, "
          f"{len(stale)} stale lines")
    sys.exit(1 if left or stale else 0)


if __name__ == "__main__":
    main()
