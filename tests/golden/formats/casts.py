# SPDX-License-Identifier: Apache-2.0
"""none, bf16 and fp16: element by element."""
import struct

from .binary32 import ABS, INF, NAN, add, bits, finite, require, subtract, u32, value
from .philox import noise


class Whole:
    """Codecs of unit 1, element by element."""

    unit = 1
    element = 0  # the first one's number, for its noise

    def encode_unit(self, v, phase, fed):
        first, out = self.element, b""
        for self.element, x in enumerate(v, first):
            out += self.one(x, phase, fed)
        self.element = first
        return out

    def decode_unit(self, code, n):
        require(len(code) >= n * self.bytes, "bytes are missing")
        return [self.back(code[i * self.bytes:(i + 1) * self.bytes]) for i in range(n)], n * self.bytes


class NoCodec(Whole):
    bytes = 4

    def one(self, x, phase, fed):
        return u32(x)

    def back(self, code):
        b = struct.unpack("<I", code)[0]
        return NAN if b & ABS > INF else b


class Bf16(Whole):
    bytes = 2

    def __init__(self, round="nearest"):
        self.random = round == "random"

    def one(self, x, phase, fed):
        m = x & ABS
        if m >= INF:
            return struct.pack("<H", 0x7FC0)
        if self.random:
            code = min(m + noise(self.element, phase) >> 16, 0x7F7F)
            return struct.pack("<H", code | (x >> 31) << 15)
        c = min(m, 0x7F7F7FFF)
        return struct.pack("<H", (c + 0x7FFF + (c >> 16 & 1)) >> 16 | (x >> 31) << 15)

    def back(self, code):
        b = struct.unpack("<H", code)[0] << 16
        return NAN if b & INF == INF else b


class Fp16(Whole):
    bytes = 2

    def __init__(self, round="nearest"):
        self.random = round == "random"

    def one(self, x, phase, fed):
        if not finite(x):
            return struct.pack("<H", 0x7E00)
        sign = (x >> 31) << 15
        size = abs(value(x))
        if size >= 65520:
            return struct.pack("<H", sign | (0x7BFF if fed or phase == 1 else 0x7C00))
        if self.random:
            base = bits(2.0**-14) if size < 2.0**-14 else 0
            u = add(x & ABS, base) + (noise(self.element, phase) >> 3) & ~0x1FFF
            size = min(value(subtract(u, base)), 65504)
        return struct.pack("<H", sign | self.nearest(size))

    @staticmethod
    def nearest(size):
        """All codes of finite magnitudes in order; binary search, then the nearer of two."""
        low, high = 0, 0x7C00
        while high - low > 1:
            middle = (low + high) // 2
            if Fp16.magnitude(middle) <= size:
                low = middle
            else:
                high = middle
        below, above = size - Fp16.magnitude(low), Fp16.magnitude(high) - size
        if below != above:
            return low if below < above else high
        return low if low % 2 == 0 else high

    @staticmethod
    def magnitude(code):
        """0x7C00 counts as 65536, which it would be if it were a number."""
        exponent, fraction = code >> 10, code & 0x3FF
        if exponent == 0:
            return fraction * 2.0**-24
        return (1024 + fraction) * 2.0 ** (exponent - 25)

    def back(self, code):
        h = struct.unpack("<H", code)[0]
        sign, m = (h >> 15) << 31, h & 0x7FFF
        if m > 0x7C00:
            return NAN
        return sign | (INF if m == 0x7C00 else bits(self.magnitude(m)))
