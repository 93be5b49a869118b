#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Count the results of several meson test runs.

Each positional argument is SETUP=TESTLOG, a testlog.json of meson's. A test that tells of several in
the Test Anything Protocol counts as these. Failures and skips are listed with their reasons; the
last line is "N passed, N failed, N skipped". A skip in a suite that is required counts as a failure.
Exits 1 when anything failed, or when nothing passed. --slowest names what took longest, too.
"""
import argparse
import json
import re
import sys

PASSED = ("OK", "EXPECTEDFAIL")
TAP_PLAN = re.compile(r"1\.\.(\d+)$", re.M)
CLOSING = re.compile(r"(\d+) passed, (\d+) failed, (\d+) skipped")
TOLD = re.compile(r"check failed|^FAILED |^SUMMARY: |runtime error:|Error: ")
MOST_TOLD, LAST = 10, 25  # lines of one failure
TAP_RESULT = re.compile(r"(not )?ok \d+(?: -)? *([^#]*?) *(?:# *SKIP *(.*))?$", re.I)


def read_results(argument):
    """Yields (name, result, output) of each test; a log that is missing is a failure."""
    setup, path = argument.split("=", 1)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError as error:
        yield f"{setup}: all tests", "MISSING", str(error)
        return
    for line in lines:
        test = json.loads(line)
        name, output = f"{setup}: {test['name']}", test.get("stdout") or ""
        plan = TAP_PLAN.match(output)
        if plan is not None and int(plan.group(1)) > 0:
            yield from read_tap(name, int(plan.group(1)), test["result"], output)
        else:
            yield name, test["result"], output + (test.get("stderr") or "")


def read_tap(name, planned, result, output):
    """The results that one test told of; those that it did not come to are failures."""
    found = []
    for line in output.splitlines():
        match = TAP_RESULT.match(line)
        if match is not None:
            fails, subtest, skipped = match.groups()
            verdict = "FAIL" if fails else "OK" if skipped is None else "SKIP"
            found.append([f"{name}: {subtest}", verdict, f"skipped: {skipped}" if skipped else ""])
        elif found and line.startswith("#"):
            found[-1][2] += "\n" + line[2:]
    for entry in found:
        yield tuple(entry)
    if len(found) < planned or (result not in PASSED and all(v != "FAIL" for _, v, _ in found)):
        yield f"{name}: told of {len(found)} of {planned} tests", result, output


def slowest(arguments, number):
    """'matrix 45 s, report 23 s': the tests that took longest."""
    took = []
    for argument in arguments:
        try:
            with open(argument.split("=", 1)[1], encoding="utf-8", errors="replace") as file:
                took += [(test["duration"], test["name"]) for test in map(json.loads, file)]
        except OSError:
            pass  # read_results() tells of it
    return ", ".join(f"{name.rpartition(' / ')[2]} {seconds:.0f} s"
                     for seconds, name in sorted(took, reverse=True)[:number])


def suites_of(name):
    """'gcc: wring:unit+long / config' is in the suites unit and long."""
    if " / " not in name or "wring:" not in name:
        return set()
    return set(name.split("wring:", 1)[1].split(" / ", 1)[0].split("+"))


def reason_of(output):
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    told = [line for line in lines if "skip" in line.lower()]
    return (told or lines or ["no reason given"])[-1]


def what_counts(lines):
    """The last lines, and before them what a test said of its failure where much followed that."""
    before = [line for line in lines[:-LAST] if TOLD.search(line)]
    return before[:MOST_TOLD] + lines[-LAST:]


def add_up(paths):
    """One line for several runs; a run that printed none, or in which nothing passed, has failed."""
    sums = [0, 0, 0]
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
        match = CLOSING.fullmatch(lines[-1]) if lines else None
        counts = [int(count) for count in match.groups()] if match else [0, 1, 0]
        if not match:
            print(f"failed: {path}: its last line is no summary")
        sums = [total + count for total, count in zip(sums, counts)]
    print(f"{sums[0]} passed, {sums[1]} failed, {sums[2]} skipped")
    return 1 if sums[1] or not sums[0] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--require", action="append", default=[], metavar="SUITE")
    parser.add_argument("--passed", action="append", default=[], metavar="CHECK")
    parser.add_argument("--failed", action="append", default=[], metavar="CHECK")
    parser.add_argument("--skipped", action="append", default=[], metavar="NAME: REASON")
    parser.add_argument("--sum", nargs="+", metavar="FILE",
                        help="add up the last lines of what was printed before, and do no more")
    parser.add_argument("--line", action="store_true", help="print only the last line")
    parser.add_argument("--slowest", type=int, default=0, metavar="N")
    parser.add_argument("logs", nargs="*", metavar="SETUP=TESTLOG")
    arguments = parser.parse_args()

    if arguments.sum:
        return add_up(arguments.sum)
    passed, failed = list(arguments.passed), [(name, "") for name in arguments.failed]
    skipped = [tuple(reason.split(": ", 1)) for reason in arguments.skipped]
    for log in arguments.logs:
        for name, result, output in read_results(log):
            if result in PASSED:
                passed.append(name)
            elif result == "SKIP" and not suites_of(name) & set(arguments.require):
                skipped.append((name, reason_of(output)))
            else:
                failed.append((name, f"{result}\n{output}"))

    if not arguments.line:
        for name, reason in skipped:
            print(f"skipped: {name}: {reason}")
        for name, why in failed:
            print(f"failed: {name} {why.splitlines()[0] if why else ''}")
            for line in what_counts(why.splitlines()[1:]):
                print(f"    {line}")
    most = slowest(arguments.logs, arguments.slowest)
    print(f"{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped" +
          (f"; slowest: {most}" if most else ""))
    return 1 if failed or not (passed or arguments.skipped) else 0


if __name__ == "__main__":
    sys.exit(main())
