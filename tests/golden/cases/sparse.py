# SPDX-License-Identifier: Apache-2.0
"""topk, dgc, threshold, hashed, randk, union and topkc."""
from formats.binary32 import NAN, bits
from formats.sparse import Randk

from .records import LOST, ODD, floats, hexadecimal, random, record, refused, words


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
