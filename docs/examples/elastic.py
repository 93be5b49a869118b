#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example that loses ranks: elastic.py WRING EXAMPLE

Each rank in turn is killed; the launcher starts it again, and all end with the same weights.
"""
import re
import subprocess
import sys

WRING, EXAMPLE = sys.argv[1:3]
LINE = re.compile(r"rank (\d+) of (\d+): (\d+) steps, weights\[0\] (\S+)")


def run(*options, example):
    command = [WRING, "run", *options, "--", EXAMPLE, *example]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    return done.returncode, LINE.findall(done.stdout), done.stderr


def check(what, ranks, result):
    code, lines, errors = result
    same = {line[1:] for line in lines}
    if code != 0 or len(lines) != ranks or len(same) != 1 or int(lines[0][1]) != ranks:
        sys.exit(f"{what}: exit status {code}, {lines}\n{errors}")
    return lines[0], errors


check("nobody is lost", 3, run("-n", "3", example=["30"]))
for victim in range(3):
    line, errors = check(f"rank {victim} is lost", 3,
                         run("--elastic", "2:3", example=["50", f"{victim}@20", "3"]))
    if f"rank {victim} was killed by signal 9" not in errors or "newcomer" not in errors:
        sys.exit(f"the launcher does not say that rank {victim} was killed:\n{errors}")
    print(f"rank {victim} lost and back: {line[2]} steps")

code, lines, errors = run("--elastic", "3:3", example=["100000000", "1@20"])
if code != 137 or "rank 1 was killed" not in errors:
    sys.exit(f"fewer than MIN ranks: exit status {code}\n{errors}")
bad = subprocess.run([WRING, "run", "--elastic", "4:2", "--", "true"], capture_output=True,
                     text=True, timeout=20)
if bad.returncode != 2 or "MIN:MAX" not in bad.stderr:
    sys.exit(f"--elastic 4:2: exit status {bad.returncode}\n{bad.stderr}")
