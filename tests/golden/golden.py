#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Frozen codes: inputs, and the bytes that compress/FORMAT.md says they become.

    golden.py --check    fail where the committed files are not what this program writes
    golden.py --write    write them; only for new codecs, since old bytes must decode forever

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
import struct
import sys
from pathlib import Path

from formats import composition
from formats.binary32 import INF, NAN, Malformed, bits, multiply, u32
from formats.lossless import Delta, decode16, encode16
from formats.low_rank import Powersgd
from formats.sparse import Randk

HERE = Path(__file__).parent
ODD = [0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F7F7FFF,
       0x7F7F8000, 0x3F808000, 0x3F818000, 0x3F800000, 0xBF800000, 0x477FEFFF, 0xC77FF000,
       0x47800000, 0x33000000, 0xB3000001, 0x33C00000, 0x387FE000, 0x387FC000, 0x38800000]
LOST = [0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001]


def random(seed, count, factor=1.0):
    out = []
    for _ in range(count):
        seed ^= seed << 13 & 0xFFFFFFFF
        seed ^= seed >> 17
        seed ^= seed << 5 & 0xFFFFFFFF
        number = seed - 2**32 if seed >= 2**31 else seed
        out.append(multiply(bits(number), bits(factor * 2.0**-31)))
    return out


def floats(*numbers):
    return [bits(x) for x in numbers]


def hexadecimal(elements):
    return b"".join(map(u32, elements)).hex()


def record(spec, x, residual=None, phase=0, said=None, rows=0):
    """said: how the input is written, where it is too long to be spelt out."""
    Powersgd.rows = rows
    code, left = composition.encode(spec, phase, x, residual)
    v = composition.encoded(spec, phase, x, residual)
    decoded = composition.decode(spec, phase, code, len(x), v)
    lines = [f"spec {spec}", f"phase {phase}", f"input {said or hexadecimal(x)}"]
    if rows:
        lines.append(f"rows {rows}")
    if residual is not None:
        lines.append(f"residual {hexadecimal(residual)}")
    lines.append(f"code {code.hex()}")
    if residual is not None:
        lines.append(f"left {hexadecimal(left)}")
    if said is None:
        lines.append(f"decoded {hexadecimal(decoded)}")
    return lines


def summed(spec, *inputs):
    codes, total, decoded = composition.sum_codes(spec, inputs)
    return [f"spec {spec}", f"members {len(inputs)}", f"input {hexadecimal(sum(inputs, []))}",
            f"code {b''.join(codes).hex()}", f"sum {total.hex()}", f"decoded {hexadecimal(decoded)}"]


def refused(spec, elems, code):
    try:
        composition.decode(spec, 0, code, elems)
    except Malformed:
        return [f"spec {spec}", f"elems {elems}", f"refused {code.hex()}"]
    raise AssertionError(f"{spec}: {code.hex()} is well-formed")


def words(*numbers):
    return struct.pack(f"<{len(numbers)}I", *numbers)


def none_cases():
    yield record("none", ODD + LOST)
    yield refused("none", 2, bytes(7))
    yield refused("none", 2, bytes(9))


def lossless_cases():
    block = "lossless:block=32"
    yield record("lossless", ODD + LOST + random(3, 600) + random(5, 300, 2.0**-13))
    yield record(block, random(7, 45) + [0] * 51 + ODD + LOST + random(8, 36, 2.0**-127))
    yield record(block, floats(1, -1.5, 0.25, -0.0, 1 / 3))
    yield record(block, [0x80000000] * 32 + [0] * 32 + [0x3F800000] * 3)
    yield record(block, floats(*(2.0**-i for i in range(14))) + random(9, 82), phase=1)
    yield record("lossless:block=64", [(i * 0x9E3779B1) % 2**32 for i in range(100)])
    yield record("lossless:block=4096", random(10, 5000), said="random 10 5000")
    yield record("lossless", random(11, 300) + floats(8, -100.0) + random(12, 210))  # above the top
    yield record("lossless", random(13, 80, 2.0**-13) + random(14, 432))  # the largest instead
    yield record("lossless", [0] * 64 + random(15, 200) + floats(2.0**100) * 3)  # tried in vain
    for head in (0x00007F02, 0x00007F05, 0x00000100, 0x00010000, 0x00007F08):
        yield refused(block, 4, words(head) + bytes(4 * 4))
    yield refused(block, 4, words(0x00057F03, 0, 0, 0, 0xFFFFFF, 0))
    yield refused(block, 4, words(0x00017F03, 0, 0, 0, 0))
    yield refused(block, 4, words(0x00007F03, 0, 0, 0, 0x070707))
    yield refused(block, 4, words(0x00007F03, 0, 0, 0))
    yield refused(block, 4, words(0x00007F03, 0, 0, 0, 0, 0))
    yield refused(block, 4, words(8, 0, 0, 0))
    yield refused(block, 4, words(0, 0))
    yield refused(block, 33, words(0))


def shorts(elements):
    return struct.pack(f"<{len(elements)}H", *elements).hex()


def record16(spec, dtype, x):
    code = encode16(spec, dtype, x)
    assert decode16(spec, dtype, code, len(x)) == x
    return [f"spec {spec}", f"dtype {dtype}", f"input {shorts(x)}", f"code {code.hex()}",
            f"decoded {shorts(x)}"]


def refused16(spec, dtype, elems, code):
    try:
        decode16(spec, dtype, code, elems)
    except Malformed:
        return [f"spec {spec}", f"dtype {dtype}", f"elems {elems}", f"refused {code.hex()}"]
    raise AssertionError(f"{spec} of {dtype}: {code.hex()} is well-formed")


def narrowed(dtype, x):
    """Elements of f32, some of them odd, as ones of 16 bits."""
    name = {"bf16": "bf16", "f16": "fp16"}[dtype]
    code, _ = composition.encode(name, 0, x, None)
    return list(struct.unpack(f"<{len(x)}H", code))


def lossless16_cases():
    block, any_bits = "lossless:block=32", [i * 0x9E37 & 0xFFFF for i in range(100)]
    for dtype in ("bf16", "f16"):
        odd = [0, 0x8000, 1, 0x8001, 0x7C00, 0xFC00, 0x7E01, 0xFD12, 0x7F80, 0xFF80, 0x7FC1, 0x7F81]
        yield record16("lossless", dtype, odd + narrowed(dtype, random(3, 600)))
        yield record16("lossless", dtype, narrowed(dtype, random(5, 500, 2.0**-13)) + [0] * 1030)
        yield record16(block, dtype, narrowed(dtype, floats(1, -1.5, 0.25, -0.0, 1 / 3) + floats(1) * 27))
        yield record16(block, dtype, [0x8000] * 32 + [0] * 40 + narrowed(dtype, floats(1) * 3))
        yield record16(block, dtype, narrowed(dtype, floats(*(2.0**-i for i in range(14))) + random(9, 82)))
        yield record16("lossless:block=64", dtype, any_bits)
        yield record16("lossless:block=4096", dtype, narrowed(dtype, random(10, 700)))
        yield record16("lossless", dtype, narrowed(dtype, random(11, 300) + floats(8, -100.0) + random(12, 210)))
        yield record16("lossless", dtype, narrowed(dtype, random(13, 80, 2.0**-13) + random(14, 432)))
        yield record16("lossless", dtype, narrowed(dtype, [0] * 64 + random(15, 200) + floats(2.0**15) * 3))
        more = 3 if dtype == "f16" else 0
        for head in (b"\1", b"\2", b"\5", b"\x10", b"\3\1", b""):
            yield refused16(block, dtype, 4, head)
        yield refused16(block, dtype, 4, b"\3\x1F\5\0" + bytes(4 + more) + b"\xFF\xFF\xFF" + bytes(5))
        yield refused16(block, dtype, 4, b"\3\x1F\1\0" + bytes(4 + more + 3 + 1))
        yield refused16(block, dtype, 4, b"\3\x1F\0\0" + bytes(4 + more) + b"\7\7\7")
        yield refused16(block, dtype, 4, b"\3\x1F\0\0" + bytes(4 + more + 2))
        yield refused16(block, dtype, 4, b"\3\x1F\0\0" + bytes(4 + more + 4))
        yield refused16(block, dtype, 4, b"\x10" + bytes(9))
        yield refused16(block, dtype, 4, b"\0\0")
        yield refused16(block, dtype, 33, b"\0")
    yield refused16(block, "f16", 4, b"\3\x20\0\0" + bytes(4 + 3 + 3))


def sixteen_bit_cases(name):
    yield record(name, ODD + LOST + random(3, 30) + random(5, 30, 2.0**-13))
    yield record(name, ODD + random(7, 30, 2.0**17), phase=1)
    x, residual = ODD + LOST + random(11, 40, 2.0**16), random(13, 68, 2.0**-10)
    yield record(name + "+ef", x, residual)
    yield refused(name, 3, bytes(5))
    yield refused(name, 3, bytes(7))


def random_cast_cases(name):
    spec = name + ":round=random"
    yield record(spec, floats(1.00390625, -1.01171875, 1 / 3, 0.1))
    yield record(spec, ODD + LOST + random(3, 70) + random(5, 30, 2.0**-13) + random(6, 30, 2.0**-24))
    yield record(spec, ODD + random(7, 30, 2.0**17) + random(8, 9, 2.0**-40), phase=1)
    x, residual = ODD + LOST + random(11, 40, 2.0**16), random(13, 68, 2.0**-10)
    yield record(spec + "+ef", x, residual)
    yield refused(spec, 3, bytes(5))
    yield refused(spec, 3, bytes(7))


def int8_cases():
    block = "int8:block=32"
    yield record(block, floats(127, -64, 0.5, 1.5, 2.5, -2.5, 3.5) + [0] * 25 + random(1, 45))
    yield record(block, random(2, 32, 2.0**-119) + random(3, 32, 2.0**-127) + [0] * 32)
    yield record(block, random(4, 32, 2.0**127 * 1.99) + [0x7F7FFFFF] * 32)
    x = random(5, 96)
    x[40], x[7] = 0x7F800000, bits(0)
    yield record(block + "+ef", x, random(6, 96, 0.01))
    yield record("int8", random(7, 600))
    for fault in (0xBF800000, 0x7F800000, 0x7FC00001, 0x7C010204, 0x80000000):
        yield refused(block, 32, words(fault) + bytes(32))
    yield refused(block, 32, words(0) + bytes(31))
    yield refused(block, 33, words(0) + bytes(33))


def onebit_cases():
    block = "onebit:block=32"
    yield record(block, floats(1, -3) + [0] * 30 + random(1, 45))
    yield record("onebit", random(2, 1100) + [0x80000000])
    yield record(block + ":means=2", random(3, 64) + [bits(2)] * 32 + [bits(-0.5)] * 7)
    yield record(block, [0x7F7FFFFF] * 32 + [1] * 32 + [0x80000000] * 5)
    x = random(4, 96)
    x[33] = 0xFFC00001
    yield record(block + "+ef", x, random(5, 96, 0.3))
    yield record(block + ":means=2+ef", random(6, 50), random(7, 50, 0.3))
    x = random(8, 96)
    x[32:64] = [0x7F7FFFFF] * 32  # finite, but their sum is not
    yield record(block + "+ef", x, random(9, 96, 0.1))
    yield refused(block, 32, words(0x80000000, 0))
    yield refused(block, 32, words(0x7F800000, 0))
    yield refused(block, 32, words(0x7FC00001, 0))
    yield refused(block + ":means=2", 32, words(0x7FC00000, 0x3F800000, 0))
    yield refused(block, 32, words(0x3F800000))
    yield refused(block, 33, words(0x3F800000, 0))


def topk_cases():
    block = "topk:block=256"
    x = [0] * 256
    x[5], x[9] = bits(1), bits(-2)
    yield record(block, x + random(1, 300))
    yield record(block + ":ratio=0.05", [bits(1), bits(-1)] * 60 + [0x80000000] * 8)
    yield record(block + ":ratio=1", random(2, 40) + [0, 0x80000000, 1])
    x = random(3, 300)
    x[270] = 0x7F800000
    yield record(block + ":ratio=0.1+ef", x, random(4, 300, 0.2))
    yield record("topk:block=16384", random(5, 16384), said="random 5 16384")
    yield record("topk:block=16384:ratio=0.002", random(6, 20000), said="random 6 20000")
    yield record("topk:block=16384:ratio=0.002", floats(1, -2) * 8192,
                 said=f"repeat 16384 {hexadecimal(floats(1, -2))}")
    yield record("topk:block=16384:ratio=0.002:select=exact", random(7, 16384),
                 said="random 7 16384")
    yield refused(block, 256, words(4, 1, 1, 1, 1, 0x00020001, 0x00040003))
    yield refused(block, 256, words(0xFFFFFFFE))
    yield refused(block, 256, words(2, 1, 1, 0x00050005))
    yield refused(block, 256, words(2, 1, 1, 0x00050006))
    yield refused(block, 256, words(2, 1, 1, 0x01000005))
    yield refused(block, 100, words(1, 1, 100))
    yield refused(block, 256, words(1, 0x7F800000, 5))
    yield refused(block, 256, words(1, 0xFFC00000, 5))
    yield refused(block, 256, words(1, 1))
    yield refused(block, 256, words(0, 0))
    yield refused(block, 256, words(0xFFFFFFFF, 0))


def signsgd_cases():
    block = "signsgd:block=32"
    yield record(block, floats(1, -3) + random(1, 71) + [1, 0x80000001, 0x7F7FFFFF, 0xFF7FFFFF])
    yield record(block, [0] * 50 + [0x80000000] * 50 + random(2, 20))  # draws
    yield record(block, random(3, 40) + [0] * 30 + floats(2, -2, 4), phase=1)
    x = random(4, 96)
    x[33] = 0xFFC00001
    yield record(block, x)
    yield record("signsgd", random(5, 2050) + [0x7F800000])
    yield refused(block, 32, words(0x80000000, 0))
    yield refused(block, 32, words(0x7FC00001, 0))
    yield refused(block, 32, words(1, 0))
    yield refused(block, 32, words(0))
    yield refused(block, 33, words(0, 0))


def signum_cases():
    block = "signum:block=32"
    yield record(block, floats(1, -3) + random(1, 71) + [1, 0x80000001, 0x7F7FFFFF, 0xFF7FFFFF])
    yield record(block + ":beta=0.5", [0] * 20 + [0x80000000] * 20 + [1, 2, 0x80000001] * 8)
    yield record(block, random(3, 40) + [0] * 30 + [0x7F800000], phase=1)
    yield record("signum:beta=1", random(4, 40))  # what is new counts nothing
    yield refused(block, 32, words(1, 0))
    yield refused(block, 33, words(0, 0))


def randk_cases():
    block = "randk:block=32:ratio=0.125"
    yield record(block, floats(*range(1, 33)) + random(1, 45))
    yield record(block + "+ef", random(2, 70), random(3, 70, 0.2))
    yield record("randk", random(4, 5000), said="random 4 5000")
    yield record("randk:block=96:ratio=1", ODD + random(5, 100), phase=1)
    x = random(6, 96, 2.0**127)
    x[40] = 0x7F800000
    yield record("randk:block=32:ratio=0.5", x)
    yield record("randk:block=32:ratio=0.5+ef", x, random(7, 96))
    at = Randk(0.125, 32)
    at.element = 0
    x = [0] * 32
    for i in at.chosen(32, 0):
        x[i] = bits(i + 1)
    yield record(block + "+ef", x, phase=1)  # a sum
    yield record(block, [0x80000000] * 32)
    yield record("none>randk:block=32:ratio=0.25", random(8, 64), phase=1)
    yield record(block + ":seed=private", random(9, 70))
    yield record(block + ":seed=private+ef", random(9, 5) + [0] * 70, phase=1)
    yield refused(block, 32, words(1, 1, 1))
    yield refused(block, 32, words(1, 1, 1, 1, 1))
    yield refused(block, 32, words(1, 0x7F800000, 1, 1))
    yield refused(block, 32, words(0xFFC00000, 1, 1, 1))
    yield refused(block, 32, words(1, 1, 1, NAN))


def sharedint_cases():
    block = "sharedint:block=32"
    yield record(block, floats(127, -64, 0.5, 1.5, 2.5, -2.5, 3.5) + [0] * 25 + random(1, 45))
    yield record(block, random(2, 32, 2.0**-97) + random(3, 32, 2.0**-127) + [0] * 32)
    yield record("sharedint:width=16:block=32",
                 random(4, 32, 2.0**127 * 1.99) + [0x7F7FFFFF] * 32 + random(5, 7))
    x = random(5, 96)
    x[40], x[7] = 0x7F800000, bits(0)
    yield record(block + "+ef", x, random(6, 96, 0.01))
    yield record("sharedint", random(7, 600))
    yield refused(block, 32, bytes(31))
    yield refused(block, 32, bytes(33))
    four = "sharedint:width=4:block=32"
    yield record(four, floats(7, -2.5, 3.5, -7) + [0] * 28 + random(8, 45))
    yield record(four + "+ef", random(9, 75), random(10, 75, 0.1))
    yield record("sharedint:width=4", random(11, 1001), said="random 11 1001")
    yield summed(four, *(random(12 + i, 67) for i in range(3)))
    yield summed(four, *(random(20 + i, 33, 2.0**i) for i in range(20)))  # most is 6
    yield summed(block, *(random(50 + i, 40) for i in range(3)))
    fours, others = floats(7, -2.5, 3.5, -7) + [0] * 28, floats(0, 0, -7, 1) + [0] * 28
    yield summed(four, fours, fours, others)  # FORMAT.md's
    yield refused(four, 33, bytes(16))
    yield refused(four, 33, bytes(18))


def union_cases():
    x = random(1, 300)
    few, some = [x[i] if i % 37 == 5 else 0 for i in range(300)], [x[i] if i % 4 else 0 for i in range(300)]
    yield record("union", few)
    yield record("union:block=96", few + some + [0x80000000] * 96 + ODD + LOST)
    yield record("union:block=32", ODD + random(2, 40), phase=1)
    yield record("union:block=64", [0] * 64 + x[:64] + [0] * 60 + x[:1])
    block = "union:block=64"
    yield refused(block, 64, words(0xFFFFFFFE))
    yield refused(block, 64, words(65) + bytes(4 * 64))
    yield refused(block, 64, words(2, 1, 1, 0x00050005))
    yield refused(block, 64, words(2, 1, 1, 0x00050006))
    yield refused(block, 64, words(2, 1, 1, 0x00400005))
    yield refused(block, 64, words(1, 0x7F800000, 5))
    yield refused(block, 64, words(5, 1, 1, 1, 1, 1, 0x3F, 0))
    yield refused(block, 64, words(5, 1, 1, 1, 1, 1, 0xF, 0))
    yield refused(block, 40, words(5, 1, 1, 1, 1, 1, 0xF, 0x100))
    yield refused(block, 64, words(5, 1, 1, 1, NAN, 1, 0x1F, 0))
    yield refused(block, 3, words(3, 1, 0x7F800000, 1))
    yield refused(block, 64, words(1, 1))
    yield refused(block, 64, words(0, 0))
    yield refused(block, 64, bytes(3))


def topkc_cases():
    block = "topkc:ratio=0.5:chunk=32:block=64"
    yield record(block, floats(0, 0, 0, 1) + [0] * 28 + floats(-2) + [0] * 31 + random(1, 90))
    yield record(block, floats(1, -1) * 64)  # equal norms
    yield record(block + "+ef", random(2, 100), random(3, 100, 0.2))
    yield record(block, random(4, 200), phase=1)
    x = random(5, 200, 2.0**-130)
    x[100], x[190] = 0x7F800000, 0xFFC00001
    yield record(block, x)
    yield record("topkc:ratio=1:chunk=32:block=64", ODD + random(6, 50) + [0x7F7FFFFF] * 3)
    yield record("topkc", random(7, 3000), said="random 7 3000")
    yield refused(block, 64, bytes(124))
    yield refused(block, 64, bytes(132))
    yield refused(block, 64, words(1, 0x7F800000) + bytes(120))
    yield refused(block, 64, words(0xFFC00000) + bytes(124))
    yield refused(block, 64, bytes(124) + words(NAN))


def packed_cases():
    """topk, dgc and threshold with index=packed."""
    block = "topk:block=256:index=packed"
    x = [0] * 256
    x[5], x[9] = bits(1), bits(-2)
    yield record(block, x + random(1, 300))
    yield record(block + "/int8:block=32", x + random(1, 300))
    for ratio in ("0.004", "0.05", "0.25", "0.5", "0.75", "1"):
        yield record(f"topk:block=256:ratio={ratio}:index=packed", random(2, 280) + [0] * 20)
    yield record(block + ":ratio=1", ODD + [0] * 300)
    yield record(block, [0] * 300)
    x = random(3, 300)
    x[270] = 0x7F800000
    yield record(block + ":ratio=0.1+ef", x, random(4, 300, 0.2))
    yield record(block + ":ratio=0.1/onebit:block=32+ef", x, random(5, 300, 0.2))
    yield record("topk:block=32768:index=packed", random(5, 32768), said="random 5 32768")
    yield record("topk:ratio=0.3:index=packed/bf16", random(6, 5000), said="random 6 5000")
    for ratio in ("0.00001", "0.00002", "0.00008"):
        spec = f"topk:ratio={ratio}:select=exact:index=packed"
        yield record(spec, random(7, 65536), said="random 7 65536")
    yield record("dgc:block=256:ratio=0.02:index=packed", random(1, 300) + [0x80000000] * 20)
    yield record("dgc:block=256:warmup=8:index=packed", random(3, 300) + [0x7F7FFFFF])
    yield record("dgc:block=256:index=packed", random(5, 3) + [0] * 400 + random(6, 40), phase=1)
    yield refused(block, 256, words(4, 1, 1, 1, 1, 0))
    yield refused(block, 256, words(0xFFFFFFFE))
    yield refused(block, 256, words(0x02000002, 1, 1, 0x16E))  # a bit behind the last gap
    yield refused(block, 256, words(0x02000002, 1, 1, 0x0100006E))
    yield refused(block, 256, words(0x02000002, 1, 1, 0xEE))
    yield refused(block, 256, words(0x02000002, 1, 1))
    yield refused(block, 256, words(0x02000002, 1, 1, 0x6E, 0))
    yield refused(block, 256, words(0x02000002, 1, 0x7F800000, 0x6E))
    yield refused(block, 256, words(0x02000002, 1, 1, 0x04))  # one gap of two
    yield refused(block, 256, words(0x01000002, 1, 1, 0x74))  # another width
    yield refused(block, 256, words(0x00000002, 1, 1, 0x220))
    yield refused(block, 256, words(0x10000001, 1, 1))
    yield refused(block, 256, words(0x01000000))
    yield refused(block, 100, words(0x06000001, 1, 0x92))  # the element 100
    yield refused(block, 256, words(0x07000001, 1, 0x202))
    yield refused(block + "/bf16", 256, words(0x02000001, 0x01063F80))
    block = "threshold:value=0.75:block=256:index=packed"
    x = [0] * 256
    x[5], x[9] = bits(1), bits(-2)
    yield record("threshold:value=1:block=256:index=packed", x)
    yield record("threshold:value=1:cap=0.001:block=256:index=packed", x)
    yield record(block, random(1, 300) + [0x80000000] * 20)  # more than the cap
    yield record(block + ":cap=1", random(2, 300) + floats(0.75, -0.75) + [0xBF3FFFFF])
    yield record(block + ":cap=1", floats(1, -1) * 150)  # all: a map
    yield record(block, [0] * 300)
    yield record(block + ":cap=0.5/int8:block=32", random(3, 300))
    x = random(4, 300)
    x[270] = 0x7F800000
    yield record(block + ":cap=0.2+ef", x, random(5, 300, 0.3))
    yield record(block + ":cap=0.5/onebit:block=32+ef", x, random(6, 300, 0.3))
    yield record(block, random(7, 3) + [0] * 400 + random(8, 40), phase=1)
    spec = "threshold:value=0.9:index=packed"
    yield record(spec, random(9, 20000), said="random 9 20000")
    yield record(spec + ":cap=0.01", random(10, 20000), said="random 10 20000")
    yield refused(block, 256, words(27) + bytes(27 * 4 + 32))
    yield refused(block, 256, words(0x02000002, 1, 1, 0xEE))
    yield refused(block, 256, words(0x01000002, 1, 1, 0x74))
    yield refused(block, 100, words(0x06000001, 1, 0x92))
    yield refused(block, 256, words(0x02000002, 1, 0x7F800000, 0x6E))
    yield refused(block, 256, words(0x01000000))


def dgc_cases():
    block = "dgc:block=256:ratio=0.02"
    yield record(block, random(1, 300) + [0x80000000] * 20 + [1, 0x80000001])
    yield record(block + ":clip=2", random(2, 600))
    yield record(block + ":warmup=8", random(3, 300) + [0x7F7FFFFF])
    x = random(4, 600)
    x[100], x[590] = 0x7F800000, 0xFFC00001
    yield record(block + ":clip=1", x)
    yield record(block, random(5, 3) + [0] * 400 + random(6, 40), phase=1)
    yield record("dgc", random(7, 20000), said="random 7 20000")
    yield refused(block, 256, words(7) + bytes(44))
    yield refused(block, 256, words(2, 1, 1, 0x00050006))
    yield refused(block, 256, words(1, 0x7F800000, 5))
    yield refused(block, 256, words(0, 0))


def hashed_cases():
    block = "hashed:block=256:ratio=0.05"
    x = [0] * 256
    x[5], x[9] = bits(1), bits(-2)
    yield record("hashed:block=256", x)
    yield record(block, random(1, 300) + [0x80000000] * 20 + [1, 0x80000001])
    yield record(block + ":load=1", floats(1, -2) * 200)  # many meet
    x = random(2, 600)
    x[300] = 0xFF800000
    yield record(block + "+ef", x, random(3, 600, 0.3))
    yield record(block, random(4, 3) + [0] * 400 + random(5, 40), phase=1)
    yield record("hashed", random(6, 20000), said="random 6 20000")
    yield refused(block, 40, words(1, 0, 0, 0, 40, 0))
    yield refused(block, 40, words(1, 0xBF800000, 0, 0, 0x00050005, 0))
    yield refused(block, 40, words(1, 0xFF800000, 0, 0, 2, 0))
    yield refused(block, 40, words(0xFFC00000, 1, 0, 0, 2, 0))
    yield refused(block, 40, words(1, 0, 0, 0, 2))
    yield refused(block, 40, words(1, 0, 0, 0, 2, 0, 0))


def threshold_cases():
    block = "threshold:value=0.75:block=256"
    x = [0] * 256
    x[5], x[9] = bits(1), bits(-2)
    yield record("threshold:value=1:block=256", x)
    yield record("threshold:value=1:cap=0.001:block=256", x)
    yield record(block, random(1, 300) + [0x80000000] * 20 + [1, 0x80000001])  # more than the cap
    yield record(block + ":cap=1", random(1, 300) + floats(0.75, -0.75) + [0xBF3FFFFF])
    yield record("threshold:value=0.7:block=256", floats(0.7, -0.7) + [0x3F333334, 0xBF333332])
    yield record("threshold:value=0.1:block=256", floats(0.1) + [0x3DCCCCCC])
    yield record(block, floats(1, -1) * 60 + [0] * 60)  # equal ones
    yield record(block + ":cap=0.5/int8:block=32", random(2, 300))
    x = random(3, 300)
    x[270] = 0x7F800000
    yield record(block + ":cap=0.2+ef", x, random(4, 300, 0.3))
    yield record(block + ":cap=0.5/onebit:block=32+ef", x, random(5, 300, 0.3))
    yield record(block, random(6, 3) + [0] * 400 + random(7, 40), phase=1)
    yield record("threshold:value=0.9", random(8, 20000), said="random 8 20000")
    yield record("threshold:value=0.9:cap=0.01", random(9, 20000), said="random 9 20000")
    yield refused(block, 256, words(27) + bytes(27 * 6 + 2))
    yield refused(block, 256, words(2, 1, 1, 0x00050005))
    yield refused(block, 256, words(2, 1, 1, 0x01000005))
    yield refused(block, 100, words(1, 1, 100))
    yield refused(block, 256, words(1, 0x7F800000, 5))
    yield refused(block, 256, words(1, 1))
    yield refused(block, 256, words(0, 0))
    yield refused(block, 256, words(0xFFFFFFFF, 0))


def qsgd_cases():
    block = "qsgd:block=32"
    yield record(block, floats(7, -2.5, 0.5, 3.25) + [0] * 28 + random(1, 45))
    yield record("qsgd:bits=8:partition=natural:block=32", floats(3, -1, 0.3) + random(2, 50))
    yield record("qsgd", ODD[:5] + ODD[8:] + random(3, 600))
    yield record("qsgd", random(4, 300), phase=1)
    for width in (2, 4, 8):
        for rest in ("", ":norm=l2", ":partition=natural", ":norm=l2:partition=natural"):
            spec = f"qsgd:bits={width}{rest}:block=96".replace(":bits=4", "")
            yield record(spec, random(5, 100) + floats(0.001, -0.01, 1e-30, 0) + random(6, 60, 0.1))
            yield record(spec + "+ef", random(7, 130), random(8, 130, 0.1))
    yield record(block, random(9, 32, 2.0**-100) + random(10, 32, 2.0**-127) + [0] * 32)
    yield record("qsgd:bits=8:block=32", [0x7F7FFFFF] * 32 + random(11, 32, 2.0**127 * 1.99))
    yield record("qsgd:bits=8:norm=l2:block=32", [0x7F7FFFFF, 0xFF7FFFFF] * 16)
    yield record("qsgd:bits=8:partition=natural:block=32", [0x7F7FFFFF] * 8 + random(12, 30, 1e-37))
    x = random(13, 96)
    x[40], x[70] = 0x7F800000, 0xFFC00001
    yield record(block + "+ef", x, random(14, 96, 0.01))
    for fault in (0xBF800000, 0x7F800000, 0x7FC00001, 0x7E124925):
        yield refused(block, 32, words(fault) + bytes(16))
    yield refused("qsgd:bits=2:block=32", 32, words(0x80000000) + bytes(8))
    yield refused(block, 32, words(0) + bytes(15))
    yield refused(block, 33, words(0) + bytes(17))


def thc_cases():
    block = "thc:block=32"
    yield record(block, random(1, 32) + [0] * 32 + random(2, 9))
    yield record("thc:block=64:width=16:clip=2", [bits(100)] + [0] * 63 + random(3, 64))
    yield record(block, random(4, 32, 2.0**-98) + random(5, 32, 2.0**99) + [0x7F7FFFFF] * 32)
    x = random(6, 96)
    x[40] = 0x7F800000
    yield record(block + "+ef", x, random(7, 96, 0.01))
    yield record("thc", random(8, 1100))
    yield record("thc:block=2048", random(9, 2060), said="random 9 2060")
    yield refused(block, 32, bytes(31))
    yield refused(block, 33, bytes(33))
    yield record("thc:block=128:rotate=32", floats(3, -1) + random(10, 300))
    yield record("thc:width=16:block=64:rotate=32+ef", random(11, 150), random(12, 150, 0.01))
    yield record("thc:rotate=64", random(13, 1500), said="random 13 1500")
    four = "thc:width=4:clip=2.5:block=64"
    yield record(four, floats(3, -1) + random(14, 100))
    yield record(four + "+ef", random(15, 75), random(16, 75, 0.1))
    yield summed(four, *(random(17 + i, 70) for i in range(3)))
    yield summed("thc:block=64:rotate=32", *(random(60 + i, 70) for i in range(3)))
    two = floats(1, -0.5) + [0] * 30  # FORMAT.md's
    yield record(block, two)
    yield summed("thc:width=4:block=32", two, two)
    yield summed("thc:width=4:block=32:sums=saturate", two, two, two)
    yield record("thc:block=64:rotate=32", two + [0] * 32)
    saturated = "thc:block=64:sums=saturate"
    yield record(saturated + ":width=4+ef", random(63, 75), random(64, 75, 0.1))
    yield summed(saturated, *(random(65 + i, 70) for i in range(5)))
    yield summed(saturated + ":width=4:clip=2", *(random(70 + i, 100) for i in range(3)))
    yield refused(saturated + ":width=4", 32, bytes(15))
    yield refused(four, 33, bytes(31))
    yield refused(four, 33, bytes(33))


def natural_cases():
    for spec in ("natural", "natural:bits=8"):
        yield record(spec, floats(7, -2.5, 0.5))
        yield record(spec, ODD + random(1, 60) + random(2, 40, 2.0**-80) + random(3, 20, 2.0**45))
        yield record(spec, random(4, 50), phase=1)
        x = random(5, 110)
        x[40], x[100] = 0x7F800000, 0xFFC00001
        yield record(spec + "+ef", x + ODD, random(6, 110 + len(ODD), 0.01))
        yield refused(spec, 32, bytes(35 if spec == "natural" else 31))
        yield refused(spec, 33, bytes(39 if spec == "natural" else 34))


def terngrad_cases():
    block = "terngrad:block=32"
    yield record(block, floats(1, -0.4, 0.0625) + [0] * 29 + random(1, 45))
    yield record("terngrad", random(2, 1100))
    yield record("terngrad:clip=1:block=96", ODD[:5] + ODD[8:] + random(3, 150))
    yield record(block, random(4, 32, 2.0**-100) + random(5, 32, 2.0**-127) + [0] * 32)
    yield record(block, [0x7F7FFFFF] * 32 + random(6, 32, 2.0**127 * 1.99))
    x = random(7, 96)
    x[40] = 0x7F800000
    yield record(block + "+ef", x, random(8, 96, 0.01))
    yield record("terngrad:clip=3.7:block=64+ef", random(9, 100), random(10, 100, 0.2))
    yield record(block, random(11, 50), phase=1)
    for width in (4, 8):
        yield record(f"terngrad:bits={width}:block=32", random(12, 50))
        yield record(f"terngrad:bits={width}:block=64+ef", random(13, 100), random(14, 100, 0.2))
    yield refused(block, 32, bytes(7))
    yield refused(block, 33, bytes(8))
    yield refused("terngrad:bits=4:block=32", 33, bytes(16))
    four, eight = "terngrad:bits=4:block=32", "terngrad:bits=8:block=32"
    yield summed(four, *(random(15 + i, 45) for i in range(3)))
    yield summed(four, *(random(20 + i, 33, 2.0**i) for i in range(7)))  # no more than 7
    yield summed(four, *([0x7F7FFFFF, 0xFF7FFFFF] * 16 + random(30 + i, 5) for i in range(3)))
    yield summed(eight, *(random(40 + i, 67) for i in range(9)))
    yield summed(eight, random(50, 70), random(51, 40) + [INF] + random(52, 29))
    yield summed(eight, [0] * 40, [0x80000000] * 32 + random(53, 8))


def powersgd_cases():
    yield record("powersgd", random(1, 20))
    yield record("powersgd", random(2, 700), rows=20)
    yield record("powersgd+ef", random(3, 672), random(4, 672, 0.1), rows=21)
    yield record("powersgd", random(5, 33) * 40, rows=40)  # of rank 1
    yield record("powersgd", [0] * 640, rows=20)
    yield record("powersgd", random(6, 640)[:-1] + [0x7F800000], rows=20)
    yield record("powersgd+ef", random(7, 19) + [NAN], random(8, 20))
    yield refused("powersgd", 20, words(1))
    yield refused("powersgd", 20, bytes(3))
    yield refused("powersgd", 20, bytes(5))
    yield record("powersgd:rank=1", random(9, 16), rows=4)  # the smallest matrix
    yield record("powersgd:rank=1+ef", random(10, 210), random(11, 210, 0.1), rows=7)
    yield record("powersgd:rank=2", random(12, 330), rows=11)
    yield record("powersgd:rank=2+ef", random(13, 150) + [0] * 30, random(14, 180, 0.1), rows=12)
    yield record("powersgd:rank=8", random(15, 1024), rows=32)
    yield record("powersgd:rank=8+ef", random(16, 1225), random(17, 1225, 0.1), rows=35)
    yield record("powersgd:rank=8", random(18, 72) * 18, rows=36)  # of rank 2
    yield record("powersgd:rank=8", random(19, 256), rows=16)  # a matrix for smaller ranks
    yield record("powersgd:rank=1", random(20, 15), rows=3)  # for none
    yield record("powersgd:rank=1+ef", random(21, 15) + [0xFF800000], random(22, 16), rows=4)
    yield refused("powersgd:rank=8", 20, words(1))


def difference(base, now):
    code = Delta().encode(base, now)
    assert Delta().decode(base, code) == now
    return ["spec delta", f"base {base.hex()}", f"input {now.hex()}", f"code {code.hex()}"]


def refused_difference(base, code):
    try:
        Delta().decode(base, code)
    except Malformed:
        return ["spec delta", f"base {base.hex()}", f"refused {code.hex()}"]
    raise AssertionError(f"delta: {code.hex()} is well-formed")


def delta_cases():
    def changed(base, *changes):
        words = Delta.words(base)
        for place, by in changes:
            words[place] = (words[place] + by) % 65536
        return struct.pack(f"<{len(words)}H", *words) + base[2 * len(words):]

    def numbers(seed, count):
        return b"".join(map(u32, random(seed, (count + 1) // 2)))[:2 * count]

    base, long = numbers(1, 200), numbers(2, 4096 + 700)
    yield difference(base, base)
    yield difference(base, changed(base, (5, 1)))
    yield difference(base + b"\7", changed(base, (0, 1), (1, -1), (199, 3), (100, -2)) + b"\x88")
    yield difference(base, changed(base, *((i, (-1)**i) for i in range(0, 200, 3))))
    yield difference(base, changed(base, *((i, i % 5 - 7) for i in range(200))))
    yield difference(base, numbers(3, 200))
    yield difference(bytes(2), b"\xFF\xFF")
    yield difference(b"", b"")
    yield difference(b"\1", b"\2")
    yield difference(base[:18], changed(base[:18], (2, 0x8000), (7, 0x7FFF), (8, 0x8001)))
    yield difference(long, changed(long, (300, 1), (1000, 1), (4096, -1), (4700, 5000)))
    yield difference(long, changed(long, *((i * 17, 1 if i % 9 else -(i * i)) for i in range(250))))
    yield difference(long, changed(long, *((i * 40, 1) for i in range(100))))
    short = base[:40]  # 20 words
    for code in (b"", b"\1", b"\6", b"\7", b"\x08", b"\x85\1\0\0\0", b"\2\0\0\0\0",
                 b"\2\1\0\0\0" + b"\x14\0\0", b"\2\2\0\0\0\3\0\3\0\0", b"\2\1\0\2\0\3\0\1\0\0",
                 b"\2\1\0\1\0\3\0\0\0\0", b"\2\1\0\1\0\3\0\1", b"\2\1\0\0\0\3\0\0\0",
                 b"\1\1\0\0\0\1\0\x14\0", b"\1\1\0\0\0\2\0\1\xFF\0", b"\1\2\0\0\0\1\0\1\0",
                 b"\1\1\0\0\0\2\0\1\1\0", b"\1\1\0\0\0\3\0\1", b"\3\1\0\0\0\3\0\0\0",
                 b"\3\1\0\0\0\0\0\x10\0", b"\3\1\0\0\0\1\0", b"\4\x13\0\0\0" + bytes(3),
                 b"\5" + bytes(39), b"\5" + bytes(41), b"\0\0"):
        yield refused_difference(short, code)
    yield refused_difference(short + b"\1", b"\0")


def ints_cases(name):
    """int4, int2, and int8 as it was not from the beginning."""
    ranges = (":range=minmax",) if name == "int8" else ("", ":range=minmax")
    for rest in ranges:
        block = f"{name}:block=32{rest}"
        yield record(block, floats(7, -2.5, 3.5, -7) + [0] * 28 + random(1, 45))
        yield record(block, floats(1, -0.5, 0, 2.5) + [0x80000000] * 28 + floats(5) * 32 + [0x80000000] * 3)
        yield record(block, random(2, 32, 2.0**-118) + random(3, 32, 2.0**-127) + [0] * 32)
        yield record(block, random(4, 32, 2.0**127 * 1.99) + [0x7F7FFFFF, 0xFF7FFFFF] * 16 +
                     [0x7F7FFFFF] * 32)
        x = random(5, 96)
        x[40], x[7] = 0x7F800000, bits(0)
        yield record(block + "+ef", x, random(6, 96, 0.01))
        yield record(f"{name}{rest}", random(7, 600))
        yield record(f"{name}:block=96{rest}+ef", random(8, 200, 3.0), random(9, 200, 0.1), phase=1)
        size = len(composition.encode(block, 0, [0] * 32, None)[0])
        for fault in (0xBF800000, 0x7F800000, 0x7FC00001, 0x80000000):
            yield refused(block, 32, words(fault) + bytes(size - 4))
        if name != "int2" or rest:
            yield refused(block, 32, words(composition.parse(block, 0)[0].most + 1) + bytes(size - 4))
        if rest:
            yield refused(block, 32, words(0, 0x7E800001) + bytes(size - 8))
            yield refused(block, 32, words(0, 0xFFC00000) + bytes(size - 8))
        yield refused(block, 32, bytes(size - 1))
        yield refused(block, 33, bytes(size + 4 + 4 * len(rest[:1])))


def bounded_cases():
    block = "bounded:error=0.25:block=32"
    yield record(block, floats(1, -0.5, 0, 100) + [0] * 28 + random(1, 45, 3.0))
    yield record("bounded:error=0.001:block=64", random(2, 70) + floats(30000, -30000) + random(3, 60, 0.01))
    yield record("bounded:block=96", [0] * 96 + [0x80000000] * 96 + ODD + random(4, 80) + random(5, 31, 1e9))
    yield record("bounded", random(6, 600, 0.01))
    x = random(7, 96)
    x[40] = 0x7F800000
    yield record("bounded:error=0.01:block=32+ef", x + random(8, 40, 900.0), random(9, 136, 0.01))
    yield record("bounded:error=0.03:block=4096", random(10, 5000), said="random 10 5000")
    yield record("bounded:error=0.000000001:block=64", random(11, 64, 2.0**-14), phase=1)
    yield record("bounded:error=1000000:block=64", random(12, 64, 2.0**34), phase=1)
    for head in (0x00000011, 0x000000FE, 0x00000100, 0x00010020, 0x000100FF):
        yield refused(block, 4, words(head, 0, 0, 0, 0))
    yield refused(block, 32, words(0x00000001))
    yield refused(block, 32, words(0x00000001, 0, 0))
    yield refused(block, 4, words(0x00050000) + bytes(32))
    yield refused(block, 32, words(0x00010001, 0x7F800000, 0, 0))
    yield refused(block, 32, words(0x00010001, 0x42C80000, 1, 0))
    yield refused(block, 30, words(0x00010001, 0x42C80000, 0, 30))
    yield refused(block, 32, words(0x00020000, 0x42C80000, 0x42C80000, 0x00050005))
    yield refused(block, 32, words(0x00020000, 0x42C80000, 0x42C80000, 0x00050006))
    yield refused(block, 2, words(32, 0, 0x7FC00000))
    yield refused(block, 2, words(32, 0))
    yield refused(block, 2, words(255, 0))
    yield refused(block, 2, bytes(3))


def fp8_cases():
    for number in ("e4m3", "e5m2"):
        for rounding in ("", ":round=random"):
            spec = ("fp8" if number == "e4m3" else "fp8:format=e5m2") + rounding
            yield record(spec + ":block=32", floats(448, -64, 1.0625, 0.001) + [0] * 28 + random(1, 45))
            yield record(spec, random(2, 500) + random(3, 40, 2.0**-12), phase=1)
            yield record(spec + ":block=96+ef", random(4, 130), random(5, 130, 0.1))
        spec = spec.replace(":round=random", "")
        yield record(spec, ODD[:5] + ODD[8:] + random(6, 300, 2.0**17))
        yield record(spec + ":block=32", random(7, 32, 2.0**-100) + random(8, 32, 2.0**-127) + [0] * 32)
        yield record(spec + ":block=32", [0x7F7FFFFF] * 16 + random(9, 30, 2.0**127 * 1.99))
        x = random(10, 96)
        x[40], x[70] = 0x7F800000, 0xFFC00001
        yield record(spec + ":block=32+ef", x, random(11, 96, 0.01))
    for fault in (0xBF800000, 0x7F800000, 0x7FC00001, 0x7B124925):
        yield refused("fp8:block=32", 32, words(fault) + bytes(32))
    yield refused("fp8:format=e5m2:block=32", 32, words(0x77924925) + bytes(32))
    yield refused("fp8:block=32", 32, bytes(35))
    yield refused("fp8:block=32", 33, bytes(37))


def mx_cases(name):
    plain = [name] + [name + ":format=e5m2"] * (name == "mxfp8")
    for spec in plain + [x.replace(name, name + ":round=random") for x in plain]:
        yield record(spec, floats(7, -2.5, 0.3, 0.01))
        yield record(spec, random(1, 100) + random(2, 45, 2.0**-9), phase=1)
        yield record(spec, ODD + random(3, 40, 2.0**-127) + [0] * 32 + random(4, 70, 2.0**127 * 1.99))
        x = random(5, 300)
        x[140], x[299] = 0x7F800000, 0xFFC00001
        yield record(spec + "+ef", x, random(6, 300, 0.1))
    bytes_of = 4 + (128 if name == "mxfp8" else 64)
    yield refused(name, 128, bytes(bytes_of - 1))
    yield refused(name, 128, bytes(bytes_of + 1))
    yield refused(name, 129, bytes(bytes_of + 1))


def nvfp4_cases():
    for spec in ("nvfp4", "nvfp4:round=random"):
        block = spec + ":block=64"
        yield record(block, floats(7, -2.5, 0.3, 0.01) + [0] * 12 + floats(1, -0.25))
        yield record(spec, random(1, 1024) + random(2, 100, 2.0**-9), phase=1)
        yield record(block, ODD + random(3, 41, 2.0**-11) + ODD[:6] + ODD[8:] + random(4, 43, 2.0**15))
        yield record(block, random(5, 64, 2.0**-100) + random(6, 64, 2.0**-127) + [0] * 64)
        yield record(block, [0x7F7FFFFF] * 20 + random(7, 50, 2.0**127 * 1.99))
        x = random(8, 200)
        x[100], x[199] = 0x7F800000, 0xFFC00001
        yield record(block + "+ef", x, random(9, 200, 0.1))
    for fault in (0xBF800000, 0x7F800000, 0x7FC00001, 0x79C30C31):
        yield refused("nvfp4:block=64", 64, words(fault) + bytes(36))
    yield refused("nvfp4:block=64", 64, bytes(39))
    yield refused("nvfp4:block=64", 65, bytes(45))


def suffix_cases():
    """What specs add to a codec."""
    block = "topk:block=256:ratio=0.05"
    yield record(block + "/int8:block=32", random(1, 300) + [0] * 212 + floats(5))
    yield record(block + "/int8+ef", random(2, 300), random(3, 300, 0.2))
    yield record(block + "/bf16", random(4, 300, 2.0**-100), phase=1)
    yield record("topk:block=256:ratio=1/bf16+ef", ODD + random(5, 300), random(6, 323, 0.01))
    yield record(block + "/onebit:block=32+ef", random(7, 256) + [0x80000000] * 3, random(8, 259))
    yield record("topk:ratio=0.02/fp16", random(9, 16384), said="random 9 16384")
    yield record("topk:ratio=0.1/natural", random(10, 400))
    yield record("topk:ratio=0.1/qsgd:block=32+ef", random(10, 100), random(11, 100))
    yield record(block + "/fp16", random(4, 600, 2.0**17))
    yield record(block + "/fp16+ef", random(4, 300, 2.0**17), random(5, 300))
    x = random(11, 400)
    x[300] = 0x7F800000
    yield record(block + "/int8+ef", x, random(12, 400, 0.1))
    yield record("topk+warmup", random(13, 300))
    yield record("topk:ratio=0.5+warmup:steps=7", random(14, 50), phase=1)
    yield record("randk:block=32+warmup+ef", random(15, 70), random(16, 70, 0.2))
    yield record("randk:block=32+warmup", random(17, 70), phase=1)
    yield record("topkc:chunk=32:block=256+warmup", random(18, 300))
    yield record("hashed:block=256+warmup", random(19, 300))
    for suffix in ("+momentum", "+nesterov", "+momentum:beta=0.5", "+nesterov:beta=0"):
        yield record("lossless:block=64" + suffix, random(20, 100) + ODD)
        yield record("onebit:block=32" + suffix + "+ef", random(21, 70), random(22, 70, 0.1))
        yield record("int8:block=32" + suffix, random(23, 40), phase=1)
    x[310] = 0xFFC00001
    yield record("int8:block=32+nesterov", x)
    yield record("bf16+nesterov", ODD + LOST + random(24, 9))
    yield record("sharedint:block=32+nesterov+ef", x, random(25, 400, 0.1))
    yield record("topkc:chunk=32:block=256+momentum+ef", random(26, 300), random(27, 300, 0.1))
    yield record(block + "/int8+warmup+nesterov+ef", random(28, 300), random(29, 300, 0.1))
    yield record("int8:block=32+ef21", random(30, 70), random(31, 70))
    yield record(block + "+ef21", x, random(32, 400), phase=0)
    yield record(block + "/bf16+momentum+ef21", random(33, 300), random(34, 300), phase=0)
    yield record("int8:block=32+ef21", random(35, 40), random(36, 40, 0.01), phase=1)
    coded = "topk:block=256/int8:block=32"  # 3 values
    yield refused(coded, 256, words(4) + bytes(16))
    yield refused(coded, 256, words(2, 0x3F800000, 0x00050101, 5))
    yield refused(coded, 256, words(2, 0xBF800000, 0x00050101, 6))
    yield refused(coded, 256, words(2, 0x7FC00000, 0x00050000, 6))
    yield refused(coded, 256, words(2, 0x3F800000, 0x00050101))
    yield refused(coded, 256, words(2, 0x3F800000, 0x00050101, 6, 0))
    yield refused(coded, 100, words(1, 0x3F800000, 0x00006401))
    yield refused("topk:block=256/bf16", 256, words(1, 0x00057F80))
    yield refused("topk:block=256/bf16", 256, words(1, 0x00057FC0))


def residual_cases():
    """Residuals of fewer bits: what a step leaves, rounded at random."""
    def before(form, seed, count, factor):
        return composition.kept(form, random(seed, count, factor), 0)

    for form in ("bf16", "int8"):
        ef = f"+ef:residual={form}"
        yield record("int8:block=32" + ef, random(1, 77), [0] * 77)
        yield record("int8:block=64" + ef, random(2, 150), before(form, 3, 150, 2.0**-8), phase=1)
        yield record("onebit:block=32" + ef, random(4, 70), before(form, 5, 70, 0.5))
        yield record("topk:block=256:ratio=0.05" + ef, random(6, 300, 2.0**-20) + [0] * 40,
                     before(form, 7, 340, 2.0**-20))
        x = random(8, 96)
        x[40] = 0x7F800000  # the second block keeps what it has
        yield record("int8:block=32" + ef, x, before(form, 9, 96, 0.01))
        yield record("onebit:block=32" + ef, random(10, 64, 2.0**-126) + random(11, 32, 2.0**-105) +
                     random(12, 32, 2.0**127), [0] * 128)
        yield record("onebit:block=64:means=2" + ef, random(13, 70), [0] * 70)
        yield record("topk:ratio=0.02" + ef, random(14, 5000), before(form, 15, 5000, 1.0),
                     said="random 14 5000")
    yield record("topk:block=256:ratio=0.05/int8+ef:residual=bf16", random(16, 300), [0] * 300)
    yield record("onebit:block=32+momentum+ef:residual=bf16", random(17, 70),
                 before("bf16", 18, 70, 0.1))
    pair = "onebit:block=64+ef:residual=int8>int8:block=32+ef:residual=int8"
    for phase in range(2):
        yield record(pair, random(19, 100), before("int8", 20, 100, 0.1), phase=phase)


def pair_cases():
    pair = "onebit:block=64+ef>int8:block=32"
    yield record(pair, random(1, 100), random(2, 100, 0.1), phase=0)
    yield record(pair, random(3, 100), phase=1)
    yield record("fp16>bf16+ef", ODD, phase=0)
    yield record("fp16>bf16+ef", ODD, random(4, len(ODD), 0.1), phase=1)


FILES = {
    "none": none_cases,
    "lossless": lossless_cases,
    "lossless16": lossless16_cases,
    "bf16": lambda: sixteen_bit_cases("bf16"),
    "fp16": lambda: sixteen_bit_cases("fp16"),
    "int8": int8_cases,
    "bf16-random": lambda: random_cast_cases("bf16"),
    "fp16-random": lambda: random_cast_cases("fp16"),
    "onebit": onebit_cases,
    "topk": topk_cases,
    "randk": randk_cases,
    "union": union_cases,
    "topkc": topkc_cases,
    "packed": packed_cases,
    "dgc": dgc_cases,
    "hashed": hashed_cases,
    "threshold": threshold_cases,
    "qsgd": qsgd_cases,
    "natural": natural_cases,
    "terngrad": terngrad_cases,
    "pair": pair_cases,
    "residual": residual_cases,
    "delta": delta_cases,
    "suffix": suffix_cases,
    "signsgd": signsgd_cases,
    "signum": signum_cases,
    "sharedint": sharedint_cases,
    "thc": thc_cases,
    "powersgd": powersgd_cases,
    "bounded": bounded_cases,
    "int4": lambda: ints_cases("int4"),
    "int2": lambda: ints_cases("int2"),
    "int8-minmax": lambda: ints_cases("int8"),
    "fp8": fp8_cases,
    "mxfp8": lambda: mx_cases("mxfp8"),
    "mxfp4": lambda: mx_cases("mxfp4"),
    "nvfp4": nvfp4_cases,
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
