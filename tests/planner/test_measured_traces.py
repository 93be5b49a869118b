#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The traces that wring ships against measured ones: test_measured_traces.py FOLDER

WRING_TEST_TRACES names a folder of traces that were measured on a device. Of the models that are in
both, tensors and sizes must be the same.
"""
import json
import os
import pathlib
import sys

OTHER_NAMES = {"bert": "bert-base", "bert_large": "bert-large"}
OTHER_ORDER = {"ncf"}  # the measured one is not in backward order


def sizes(path):
    return [(tensor["name"], tensor["elements"])
            for tensor in json.loads(path.read_text(encoding="utf-8"))["tensors"]]


def main():
    ours = pathlib.Path(sys.argv[1])
    folder = os.environ.get("WRING_TEST_TRACES", "")
    if not folder:
        print("skipped: WRING_TEST_TRACES names no folder of measured traces")
        sys.exit(77)
    compared, faults = 0, 0
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        name = OTHER_NAMES.get(path.stem, path.stem)
        mine = ours / f"{name}.json"
        if not mine.exists():
            print(f"{name}: no such model here")
            continue
        measured, computed = sizes(path), sizes(mine)
        same = sorted(measured) == sorted(computed)
        if name not in OTHER_ORDER:
            same = measured == computed
        compared += 1
        faults += not same
        print(f"{name}: {len(measured)} tensors of {sum(n for _, n in measured)} elements measured, "
              f"{len(computed)} of {sum(n for _, n in computed)} here" + ("" if same else ": differ"))
        for a, b in zip(measured, computed):
            if not same and a != b:
                print(f"  {a} measured, {b} here")
                break
    print(f"{compared} models compared, {faults} differ")
    sys.exit(0 if compared > 0 and faults == 0 else 1)


if __name__ == "__main__":
    main()
