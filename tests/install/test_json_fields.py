#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each field of the tool's JSON stands in its man page: test_json_fields.py WRING FOLDER.

FOLDER has the pages' sources; what their JSON section does not name is a fault.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

COMMANDS = (
    ("wring-info.1", ["info", "--json"]),
    ("wring-bench.1", ["bench", "allreduce", "--json", "-n", "2", "-b", "4k", "--iterations", "2"]),
    ("wring-bench.1", ["bench", "codec", "--json", "-e", "4k", "--seconds", "0"]),
    ("wring-bench.1", ["bench", "p2p", "--json", "-p", "tcp", "-b", "8", "--seconds", "0"]),
    ("wring-demo.1", ["demo", "--json", "--losses-only", "--steps", "40", "--ranks", "2",
                      "--codec", "fp32"]),
)


def find_keys(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from find_keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from find_keys(inner)


def read_words(page):
    """The words of a page's JSON section, without its fonts."""
    section = re.search(r"^\.SH JSON\n(.*?)(?=^\.SH )", page, re.M | re.S).group(1)
    return set(re.findall(r"\w+", re.sub(r"\\f[BIRP]", " ", section).replace("\\-", "-")))


def ask(wring, arguments, folder):
    bare = {k: v for k, v in os.environ.items() if not k.startswith("WRING_")}
    bare["HWLOC_COMPONENTS"] = "-pci"  # libpciaccess never frees its names, as sanitizers report
    return subprocess.run([wring, *arguments], env=bare, text=True, capture_output=True, cwd=folder,
                          stdin=subprocess.DEVNULL, timeout=120)


def main():
    wring, pages = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
    faults, fields = [], 0
    for name, arguments in COMMANDS:
        with tempfile.TemporaryDirectory(prefix="wring-json-") as folder:
            result = ask(wring, arguments, folder)
        if "not in this build" in result.stderr:
            print(result.stderr.strip())
            continue
        if result.returncode != 0:
            sys.exit(f"wring {' '.join(arguments)} exits with {result.returncode}: {result.stderr}")
        keys = set(find_keys(json.loads(result.stdout)))
        words = read_words((pages / name).read_text(encoding="utf-8"))
        faults += [f"{name} does not name the field {key}" for key in sorted(keys - words)]
        fields += len(keys)
    print("\n".join(faults + [f"{fields} fields, {len(faults)} faults"]))
    sys.exit(1 if faults or fields < 30 else 0)


if __name__ == "__main__":
    main()
