# SPDX-License-Identifier: Apache-2.0
"""none, bf16 and fp16."""
from .records import LOST, ODD, floats, random, record, refused


def none_cases():
    yield record("none", ODD + LOST)
    yield refused("none", 2, bytes(7))
    yield refused("none", 2, bytes(9))


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
