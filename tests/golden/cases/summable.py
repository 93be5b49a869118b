# SPDX-License-Identifier: Apache-2.0
"""sharedint, thc and terngrad."""
from formats.binary32 import INF, bits

from .records import ODD, floats, random, record, refused, summed


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
