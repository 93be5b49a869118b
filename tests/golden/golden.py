#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Frozen codes: inputs, and the bytes that compress/FORMAT.md says they become.

    golden.py --check    fail where the committed files are not what this program writes
    golden.py --write    write them; only for new codecs, since old bytes must decode forever

cases/ has the inputs, in a file for each family of codecs, as formats/ has what computes the bytes.
One text file per codec. A record is a run of lines "key value" and ends with an empty line:

    spec     the codec
    phase    0: way in, 1: the sum's way back
    input    elements: hexadecimal little-endian binary32, or "random SEED COUNT" (xorshift32 by
             13, 17, 5; each number as a signed integer, rounded to binary32, times 2^-31), or
             "repeat COUNT HEX"
    residual the residual before, of as many elements; only with feedback. One of fewer bits holds
             these numbers as they are; here they are binary32, as in saved states
    rows     of the bucket, if it is a matrix
    dtype    bf16 or f16: input and decoded are hexadecimal elements of these; absent for f32
    code     the bytes
    left     the residual afterwards
    decoded  what the code decodes to; absent for the long inputs

    base     of delta: the bytes that input's are told apart from; both are plain hexadecimal

or, of codes that add up:

    members  how many have an input of as many elements; `input` and `code` are all of theirs
    sum      what goes back; `decoded` is what it decodes to

or, of a code that must be refused: spec, elems (how many it should hold), refused (the bytes).

Both modes fail where a record of format 1 is another than when FORMAT_1 was written.
"""
import hashlib
import sys
from pathlib import Path

from cases import (casts, composition, lossless, low_rank, quantisers, signs, small_floats, sparse,
                   summable)

HERE = Path(__file__).parent

FILES = {
    "none": casts.none_cases,
    "lossless": lossless.lossless_cases,
    "lossless16": lossless.lossless16_cases,
    "bf16": lambda: casts.sixteen_bit_cases("bf16"),
    "fp16": lambda: casts.sixteen_bit_cases("fp16"),
    "int8": quantisers.int8_cases,
    "bf16-random": lambda: casts.random_cast_cases("bf16"),
    "fp16-random": lambda: casts.random_cast_cases("fp16"),
    "onebit": signs.onebit_cases,
    "topk": sparse.topk_cases,
    "randk": sparse.randk_cases,
    "union": sparse.union_cases,
    "topkc": sparse.topkc_cases,
    "packed": sparse.packed_cases,
    "dgc": sparse.dgc_cases,
    "hashed": sparse.hashed_cases,
    "threshold": sparse.threshold_cases,
    "qsgd": quantisers.qsgd_cases,
    "natural": quantisers.natural_cases,
    "terngrad": summable.terngrad_cases,
    "pair": composition.pair_cases,
    "residual": composition.residual_cases,
    "delta": lossless.delta_cases,
    "suffix": composition.suffix_cases,
    "signsgd": signs.signsgd_cases,
    "signum": signs.signum_cases,
    "sharedint": summable.sharedint_cases,
    "thc": summable.thc_cases,
    "powersgd": low_rank.powersgd_cases,
    "bounded": quantisers.bounded_cases,
    "int4": lambda: quantisers.ints_cases("int4"),
    "int2": lambda: quantisers.ints_cases("int2"),
    "int8-minmax": lambda: quantisers.ints_cases("int8"),
    "fp8": small_floats.fp8_cases,
    "mxfp8": lambda: small_floats.mx_cases("mxfp8"),
    "mxfp4": lambda: small_floats.mx_cases("mxfp4"),
    "nvfp4": small_floats.nvfp4_cases,
}

# Files of specs that format 1 brought: how many records it had, and SHA-256 of their lines. These
# stay as they are in all formats to come.
FORMAT_1 = {
    "none": (3, "efd82842135ae17de9bd74ac7a225a44498cf346a8d125350724a63358850a2a"),
    "lossless": (23, "d22d16171db1d992716faea18e867bc8be56515daa8fea0907480202bc4be848"),
    "bf16": (5, "215807bcb9634427c3f0e715b3bf66503ca621269adc292606dad6f747ef7c17"),
    "fp16": (5, "1e85d3f50e39faed6c6f4ed095d1bc8bfd1c21a8f8a32e6e284da573fa330269"),
    "int8": (12, "46afc9025dd7b6fdce0f71d5f61b25b3c3f4950e580efb051c653952aff9a514"),
    "onebit": (13, "d38758213dfc93e65f5e5b25c426e421f98460dc3fd8b90c1f7818a2a780789b"),
    "topk": (19, "8e31b73f7db2699eb3c17a6e28db8f6786562a08bef63c50be306bd72054901c"),
    "pair": (4, "79f628969e04e833971ce67348227dba4fd1b00da93d7b17505f64d49d9a3255"),
}


def text_of(name, records):
    head = (f"# Frozen: compress/FORMAT.md format {1 if name in FORMAT_1 else 2}. "
            "Written by golden.py, which explains the lines.\n\n")
    return head + "\n".join("\n".join(lines) + "\n" for lines in records)


def digest(records):
    return hashlib.sha256("\n\n".join("\n".join(lines) for lines in records).encode()).hexdigest()


def main():
    if sys.argv[1:] not in (["--check"], ["--write"]):
        sys.exit(__doc__)
    wrong = []
    for name, cases in FILES.items():
        records = list(cases())
        count, frozen = FORMAT_1.get(name, (0, digest([])))
        if digest(records[:count]) != frozen:
            sys.exit(f"{name}: the codes of format 1 have changed, which must not be")
        path, text = HERE / f"{name}.golden", text_of(name, records)
        if sys.argv[1] == "--write":
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            wrong.append(path.name)
    if wrong:
        sys.exit(f"golden.py: {', '.join(wrong)}: not what FORMAT.md's arithmetic gives")


if __name__ == "__main__":
    main()
