# SPDX-License-Identifier: Apache-2.0
"""onebit, signsgd and signum."""
from formats.binary32 import bits

from .records import floats, random, record, refused, words


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
