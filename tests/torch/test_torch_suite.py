#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch's own tests of a backend over wring: what fails is what expected_failures.json names.

    test_torch_suite.py TORCH BACKEND RANKS [python]

TORCH is the folder of a virtual environment that has torch, expecttest and numpy. BACKEND is wring,
or gloo, in whose place wring stands then. With "python" the process groups are those in Python.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE = 1500  # seconds
NEEDED = ("torch", "expecttest", "numpy")
RESULT = re.compile(r"^RESULT (\w+) (passed|failed|skipped)$", re.M)


def missing(program):
    """@return those of NEEDED that are not there"""
    check = "import importlib.util as u, sys; print(*(n for n in sys.argv[1:] if not u.find_spec(n)))"
    done = subprocess.run([program, "-c", check, *NEEDED], capture_output=True, text=True, check=True)
    return done.stdout.split()


def run_suite(program, backend, ranks, in_python):
    """@return {test: "passed", "failed" or "skipped"}, all that was printed"""
    bare = {name: value for name, value in os.environ.items()
            if not name.startswith("WRING_") or name in ("WRING_LIBRARY", "WRING_INCLUDE",
                                                          "WRING_TORCH_CACHE")}
    own = {"BACKEND": backend, "WORLD_SIZE": ranks, "OMP_NUM_THREADS": "1"}
    if backend != "wring":
        own["WRING_TORCH_REPLACE"] = backend
    if in_python:
        own["WRING_TORCH_NATIVE"] = "off"
    done = subprocess.run([program, "-W", "ignore", HERE / "torch_suite.py"], env={**bare, **own},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=PATIENCE,
                          check=False)
    return dict(RESULT.findall(done.stdout)), done.stdout


def judge(results, expected):
    """@return what is not as it should be, in lines"""
    wrong = [f"{name}: failed" for name, result in results.items()
             if result == "failed" and name not in expected]
    wrong += [f"{name}: passed, and expected_failures.json says why it cannot" for name in expected
              if results.get(name) == "passed"]
    return wrong


def main():
    folder, backend, ranks = sys.argv[1:4]
    program = os.path.join(folder, "bin", "python")
    if not os.path.exists(program):
        print(f"skipped: no torch in {folder}: ./run test --foreign installs it")
        sys.exit(77)
    lacking = missing(program)
    if lacking:
        print(f"skipped: {folder} lacks {', '.join(lacking)}: ./run test --foreign installs them")
        sys.exit(77)
    in_python = sys.argv[4:] == ["python"]
    results, printed = run_suite(program, backend, ranks, in_python)
    count = {kind: list(results.values()).count(kind) for kind in ("passed", "failed", "skipped")}
    expected = json.loads((HERE / "expected_failures.json").read_text())[backend]
    wrong = judge(results, {} if in_python and backend == "wring" else expected)
    if count["passed"] < 60:
        wrong.append("fewer than 60 tests passed")
    if wrong:
        print(printed[-60000:])
    print(f"{backend}, {ranks} ranks: {count['passed']} passed, {count['failed']} failed, "
          f"{count['skipped']} skipped")
    for line in wrong:
        print(line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
