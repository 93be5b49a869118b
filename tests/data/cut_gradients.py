#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cut a small sample out of recorded gradients: cut_gradients.py FILE OUT [VALUES [STEP]].

Keeps VALUES (512) neighbours of each tensor that has more, from its middle, of all ranks in the
step at place STEP (0). docs/planner-files.md has the format. recorded.gradients, which wring installs
for `wring bench codec --data recorded`, was made by

    wring demo -n 16 --losses-only --codec fp32 --record-gradients all.gradients --record-ranks 16
    tests/data/cut_gradients.py all.gradients tests/data/recorded.gradients
"""
import struct
import sys

MAGIC = b"wring-gradients\n"
RUN = 4096


def sized(text):
    return struct.pack("<I", len(text)) + text


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values[0] if len(values) == 1 else values

    def text(self):
        return self.take(f"{self.take('I')}s")


def main():
    path, out = sys.argv[1:3]
    keep, which = ([int(word) for word in sys.argv[3:]] + [512, 0][len(sys.argv) - 3:])[:2]
    with open(path, "rb") as file:
        reader = Reader(file.read())
    if reader.take("16s") != MAGIC:
        sys.exit(f"{path}: no recorded gradients")
    version, n_tensors, n_steps = reader.take("III")
    ranks = reader.take("I") if version == 2 else 1
    source = reader.text()
    steps = [reader.take("Q") for _ in range(n_steps)]
    tensors = [(reader.text(), *reader.take("QI")) for _ in range(n_tensors)]
    values, per_step = reader.at, sum(kept for _, _, kept in tensors)
    kept_of = [(name, elements, kept) for name, elements, kept in tensors if kept > keep]

    result = MAGIC + struct.pack("<III", version, len(kept_of), 1)
    result += struct.pack("<I", ranks) if version == 2 else b""
    result += sized(source + b"; a sample") + struct.pack("<Q", steps[which])
    for name, elements, _ in kept_of:
        result += sized(name) + struct.pack("<QI", elements, keep)
    for rank in range(ranks):
        begin = (rank * n_steps + which) * per_step
        for _, _, kept in tensors:
            if kept > keep:
                first = (kept - keep) // 2
                if first // RUN != (first + keep - 1) // RUN:  # of a large tensor only runs are kept
                    first -= first % RUN
                first += begin
                result += reader.data[values + 4 * first:values + 4 * (first + keep)]
            begin += kept
    with open(out, "wb") as file:
        file.write(result)
    print(f"{out}: {ranks} ranks, step {steps[which]}, {len(result)} bytes")


if __name__ == "__main__":
    main()
