#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch's own tests of a backend over wring: what fails is what expected_failures.json names.

    test_torch_suite.py LIBRARY SOURCE BACKEND RANKS [python]

WRING_TEST_FOREIGN names the folder whose torch/ is a virtual environment with torch, expecttest and
numpy. BACKEND is wring, or gloo, in whose place wring stands then. With "python" the process groups
are those in Python.
"""
import json
import pathlib
import re
import subprocess
import sys

import torch_rig

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE = 1500  # seconds
NEEDED = ("torch", "expecttest", "numpy")
LEAST = 60  # tests that pass for any backend
RESULT = re.compile(r"^RESULT (\w+) (passed|failed|skipped)$", re.M)


def run_suite(python, environment, backend, ranks, in_python):
    """@return {test: "passed", "failed" or "skipped"}, all that was printed"""
    own = {"BACKEND": backend, "WORLD_SIZE": ranks}
    if backend != "wring":
        own["WRING_TORCH_REPLACE"] = backend
    if in_python:
        own["WRING_TORCH_NATIVE"] = "off"
    done = subprocess.run([python, "-W", "ignore", HERE / "torch_suite.py"],
                          env={**environment, **own}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=PATIENCE, check=False)
    return dict(RESULT.findall(done.stdout)), done.stdout


def judge(results, expected):
    """@return what is not as it should be, in lines"""
    wrong = [f"{name}: failed" for name, result in results.items()
             if result == "failed" and name not in expected]
    wrong += [f"{name}: passed, and expected_failures.json says why it cannot" for name in expected
              if results.get(name) == "passed"]
    return wrong


def main():
    library, source, backend, ranks = sys.argv[1:5]
    python = torch_rig.find_python(NEEDED)
    in_python = sys.argv[5:] == ["python"]
    results, printed = run_suite(python, torch_rig.environment(library, source), backend, ranks,
                                 in_python)
    count = {kind: list(results.values()).count(kind) for kind in ("passed", "failed", "skipped")}
    expected = json.loads((HERE / "expected_failures.json").read_text())[backend]
    wrong = judge(results, {} if in_python and backend == "wring" else expected)
    if count["passed"] < LEAST:
        wrong.append(f"fewer than {LEAST} tests passed")
    if wrong:
        print(printed[-400000:])
    print(f"{backend}, {ranks} ranks: {count['passed']} passed, {count['failed']} failed, "
          f"{count['skipped']} skipped")
    for line in wrong:
        print(line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
