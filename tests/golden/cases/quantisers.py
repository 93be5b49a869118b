# SPDX-License-Identifier: Apache-2.0
"""int8, int4, int2, bounded, qsgd and natural."""
from formats import composition
from formats.binary32 import bits

from .records import ODD, floats, random, record, refused, words


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
