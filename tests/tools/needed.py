#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""needed.py BUILD SUITE...: the files that the tests of these suites need, for ninja -C BUILD."""
import json
import os
import sys


def load(build, what):
    with open(os.path.join(build, "meson-info", f"intro-{what}.json"), encoding="utf-8") as file:
        return json.load(file)


def main():
    build, suites = sys.argv[1], set(sys.argv[2:])
    wanted = {target for test in load(build, "tests") for target in test["depends"]
              if suites & {suite.rpartition(":")[2] for suite in test["suite"]}}
    for target in load(build, "targets"):
        if target["id"] in wanted:
            for name in target["filename"]:
                print(os.path.relpath(name, build))


if __name__ == "__main__":
    main()
