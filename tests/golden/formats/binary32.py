# SPDX-License-Identifier: Apache-2.0
"""Elements as 32 bits, and what codes are read and written with.

Floats are kept as their 32 bits, since Python's own floats may alter a NaN. One operation in
doubles followed by rounding to binary32 gives what binary32 gives, for + - * / of binary32 values.
"""
import math
import struct

NAN = 0x7FC00000
INF = 0x7F800000
ABS = 0x7FFFFFFF


class Malformed(Exception):
    pass


def require(condition, what):
    if not condition:
        raise Malformed(what)


def bits(number):
    """A double rounded to binary32."""
    if math.isnan(number):
        return NAN
    try:
        return struct.unpack("<I", struct.pack("<f", number))[0]
    except OverflowError:
        return INF | (0x80000000 if number < 0 else 0)


def value(b):
    if b & ABS > INF:
        return math.nan
    return struct.unpack("<f", struct.pack("<I", b))[0]


def finite(b):
    return b & ABS < INF


def add(a, b):
    return bits(value(a) + value(b))


def subtract(a, b):
    return bits(value(a) - value(b))


def multiply(a, b):
    return bits(value(a) * value(b))


def divide(a, b):
    return bits(value(a) / value(b))


def root_below(square):
    """The largest binary32 whose square is not above that."""
    root = bits(math.sqrt(square))
    while value(root) * value(root) > square:
        root -= 1
    while value(root + 1) * value(root + 1) <= square:
        root += 1
    return root


def negate(b):
    return b ^ 0x80000000


def u32(b):
    return struct.pack("<I", b)


def read_u32(code, at):
    require(len(code) >= at + 4, "bytes are missing")
    return struct.unpack_from("<I", code, at)[0]
