#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Count the results of several meson test runs.

Each positional argument is SETUP=TESTLOG, a testlog.json of meson's. A test that tells of several in
the Test Anything Protocol counts as these. Failures and skips are listed with their reasons; the
last line is "N passed, N failed, N skipped". A skip in a suite that is required counts as a failure.
Exits 1 when anything failed, or when nothing passed. --slowest names what took longest, too.

Where a test that failed was run again, its second results count. If they are all good, it is listed
as unsteady, with what it said at first.
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


def read_tests(argument):
    """Yields the name of each test and its results, a list of (name, result, output); a log that is
    missing is a failure."""
    setup, path = argument.split("=", 1)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError as error:
        yield f"{setup}: all tests", [(f"{setup}: all tests", "MISSING", str(error))]
        return
    for line in lines:
        test = json.loads(line)
        name, output = f"{setup}: {test['name']}", test.get("stdout") or ""
        plan = TAP_PLAN.match(output)
        if plan is not None and int(plan.group(1)) > 0:
            yield name, list(read_tap(name, int(plan.group(1)), test["result"], output))
        else:
            yield name, [(name, test["result"], output + (test.get("stderr") or ""))]


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
            pass  # read_tests() tells of it
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


class Count:
    """What becomes of each result."""

    def __init__(self, required):
        self.required = set(required)
        self.passed, self.failed, self.skipped, self.unsteady = [], [], [], []

    def failures_of(self, results):
        return [(name, f"{result}\n{output}") for name, result, output in results
                if result not in PASSED and not self.may_skip(name, result)]

    def may_skip(self, name, result):
        return result == "SKIP" and not suites_of(name) & self.required

    def add(self, results, second):
        """@param second  the results when it was run again; None: it was not"""
        failures = self.failures_of(results)
        if failures and second:
            self.unsteady += [] if self.failures_of(second) else failures
            results, failures = second, self.failures_of(second)
        self.failed += failures
        self.passed += [name for name, result, _ in results if result in PASSED]
        self.skipped += [(name, reason_of(output)) for name, result, output in results
                         if self.may_skip(name, result)]


def show_failures(what, failures):
    for name, why in failures:
        print(f"{what}: {name} {why.splitlines()[0] if why else ''}")
        for line in what_counts(why.splitlines()[1:]):
            print(f"    {line}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--require", action="append", default=[], metavar="SUITE")
    parser.add_argument("--passed", action="append", default=[], metavar="CHECK")
    parser.add_argument("--failed", action="append", default=[], metavar="CHECK")
    parser.add_argument("--skipped", action="append", default=[], metavar="NAME: REASON")
    parser.add_argument("--again", action="append", default=[], metavar="SETUP=TESTLOG",
                        help="of tests that failed and were run again")
    parser.add_argument("--sum", nargs="+", metavar="FILE",
                        help="add up the last lines of what was printed before, and do no more")
    parser.add_argument("--line", action="store_true", help="print only the last line")
    parser.add_argument("--names-of-failed", action="store_true",
                        help="print those, as meson takes them, and do no more")
    parser.add_argument("--slowest", type=int, default=0, metavar="N")
    parser.add_argument("logs", nargs="*", metavar="SETUP=TESTLOG")
    arguments = parser.parse_args()

    if arguments.sum:
        return add_up(arguments.sum)
    count = Count(arguments.require)
    again = dict(entry for log in arguments.again for entry in read_tests(log))
    for log in arguments.logs:
        for name, results in read_tests(log):
            count.add(results, again.get(name))
            if arguments.names_of_failed and count.failures_of(results) and " / " in name:
                print("wring:" + name.rpartition(" / ")[2])
    if arguments.names_of_failed:
        return 0
    count.failed += [(name, "") for name in arguments.failed]
    count.passed += arguments.passed
    count.skipped += [tuple(reason.split(": ", 1)) for reason in arguments.skipped]
    if not arguments.line:
        for name, reason in count.skipped:
            print(f"skipped: {name}: {reason}")
        show_failures("unsteady, passed when it was run again", count.unsteady)
        show_failures("failed", count.failed)
    most = slowest(arguments.logs, arguments.slowest)
    print(f"{len(count.passed)} passed, {len(count.failed)} failed, {len(count.skipped)} skipped" +
          (f"; slowest: {most}" if most else ""))
    return 1 if count.failed or not (count.passed or arguments.skipped) else 0


if __name__ == "__main__":
    sys.exit(main())
