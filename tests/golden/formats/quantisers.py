# SPDX-License-Identifier: Apache-2.0
"""int8, int4, int2 and bounded round to nearest, qsgd and natural at random."""
import math
import struct

from .binary32 import (ABS, INF, NAN, add, bits, divide, finite, multiply, read_u32, require,
                       subtract, u32, value)
from .philox import noise


class Int8:
    TOP = bits(float.fromhex("0x1.020406p+121"))

    def __init__(self, block=512):
        self.unit = int(block)

    def encode_unit(self, v, phase, fed):
        peak = max(x & ABS for x in v)
        if peak >= INF:
            return u32(NAN) + bytes(len(v))
        if value(peak) < 2.0**-119:
            return u32(0) + bytes(len(v))
        scale = min(divide(peak, bits(127)), self.TOP)
        inverse = divide(bits(127), peak)
        steps = [round(value(multiply(x, inverse))) for x in v]  # Python's round goes to even
        assert all(-127 <= s <= 127 for s in steps)
        return u32(scale) + struct.pack(f"<{len(v)}b", *steps)

    def decode_unit(self, code, n):
        scale = read_u32(code, 0)
        require(scale == NAN or scale <= self.TOP, "the scale")
        require(len(code) >= 4 + n, "bytes are missing")
        steps = struct.unpack_from(f"<{n}b", code, 4)
        return [NAN if scale == NAN else multiply(bits(s), scale) for s in steps], 4 + n


class Ints:
    def __init__(self, block=128, range="absmax"):
        self.unit, self.minmax = int(block), range == "minmax"
        self.top = 2**self.width - 1 if self.minmax else 2 ** (self.width - 1) - 1
        self.most = {7: bits(float.fromhex("0x1.249248p+125")), 1: 0x7F7FFFFF}.get(self.top)
        if self.minmax:
            self.most = divide(bits(2.0**127), bits(self.top))

    @staticmethod
    def limited(x):
        return bits(max(-2.0**126, min(value(x), 2.0**126)))

    def head(self, v):
        """@return scale, low, and the factor for steps"""
        if not self.minmax:
            peak = max(x & ABS for x in v)
            if value(peak) < 2.0**-118:
                return 0, 0, 0
            return min(divide(peak, bits(self.top)), self.most), 0, divide(bits(self.top), peak)
        low = add(self.limited(min(v, key=value)), 0)
        span = subtract(self.limited(max(v, key=value)), low)
        if value(span) < 2.0**-118:
            return 0, low, 0
        return divide(span, bits(self.top)), low, divide(bits(self.top), span)

    def encode_unit(self, v, phase, fed):
        size, code = (len(v) * self.width + 7) // 8, 0
        if not all(map(finite, v)):
            return u32(NAN) + bytes(4 * self.minmax + size)
        scale, low, factor = self.head(v)
        for i, x in enumerate(v):
            part = value(multiply(subtract(x, low) if self.minmax else x, factor))
            step = round(max(0, min(part, self.top)) if self.minmax else part)
            code |= step % 2**self.width << self.width * i
        return u32(scale) + (u32(low) if self.minmax else b"") + code.to_bytes(size, "little")

    def decode_unit(self, code, n):
        scale, at, size = read_u32(code, 0), 4 + 4 * self.minmax, (n * self.width + 7) // 8
        require(scale == NAN or scale <= self.most, "the scale")
        low = read_u32(code, 4) if self.minmax else 0
        require(scale == NAN or low & ABS <= bits(2.0**126), "the least")
        require(len(code) >= at + size, "bytes are missing")
        steps, out = int.from_bytes(code[at:at + size], "little"), []
        for i in range(n):
            step = steps >> self.width * i & 2**self.width - 1
            if not self.minmax and step > self.top:
                step -= 2**self.width
            part = multiply(bits(step), scale)
            out.append(NAN if scale == NAN else add(low, part) if self.minmax else part)
        return out, at + size


class Int4(Ints):
    width = 4


class Int2(Ints):
    width = 2


class WideInts(Ints):
    width = 8


def int8(block=512, **range_):
    return WideInts(block, **range_) if range_ else Int8(block)


class Bounded:
    def __init__(self, error=0.0001, block=256):
        bound = bits(float(error))
        if value(bound) > float(error):
            bound -= 1
        self.unit, self.size = int(block), multiply(bound, bits(1.96875))
        self.inverse = divide(bits(1), self.size)

    def step(self, x):
        part = value(multiply(x, self.inverse))
        return round(part) if -2.0**31 <= part < 2.0**31 else -2**31

    @staticmethod
    def fits(step, width):
        return step == 0 if width == 0 else -2 ** (width - 1) <= step < 2 ** (width - 1)

    def encode_unit(self, v, phase, fed):
        if not all(map(finite, v)):
            return bytes([255, 0, 0, 0])
        n, steps, best = len(v), [self.step(x) for x in v], None
        plane = (n + 7) // 8
        for width in range(16, -1, -1):
            others = [i for i in range(n) if not self.fits(steps[i], width)]
            cost = width * plane + 6 * len(others)
            if best is None or cost < best[0]:
                best = cost, width, others
        cost, width, others = best
        if (4 + cost + 3) // 4 * 4 >= 4 + 4 * n:
            return bytes([32, 0, 0, 0]) + b"".join(map(u32, v))
        planes = bytearray(width * plane)
        for i in range(n):
            for j in range(width if i not in others else 0):
                planes[j * plane + i // 8] |= (steps[i] >> j & 1) << i % 8
        code = struct.pack("<BBH", width, 0, len(others)) + b"".join(u32(v[i]) for i in others)
        code += bytes(planes) + b"".join(struct.pack("<H", i) for i in others)
        return code + bytes(-len(code) % 4)

    def decode_unit(self, code, n):
        require(len(code) >= 4, "bytes are missing")
        width, zero, count = struct.unpack_from("<BBH", code)
        require(zero == 0 and count <= (n if width <= 16 else 0), "the head")
        require(width <= 16 or width in (32, 255), "the width")
        if width == 255:
            return [NAN] * n, 4
        if width == 32:
            out = [read_u32(code, 4 + 4 * i) for i in range(n)]
            require(all(map(finite, out)), "a value")
            return out, 4 + 4 * n
        plane, last = (n + 7) // 8, -1
        size = (4 + width * plane + 6 * count + 3) // 4 * 4
        require(len(code) >= size, "bytes are missing")
        planes, out = code[4 + 4 * count:], []
        for i in range(n):
            step = sum((planes[j * plane + i // 8] >> i % 8 & 1) << j for j in range(width))
            step -= 2**width if width and step >> (width - 1) else 0
            out.append((step, multiply(bits(step), self.size)))
        for k in range(count):
            x, at = read_u32(code, 4 + 4 * k), struct.unpack_from("<H", planes, width * plane + 2 * k)[0]
            require(last < at < n, "an index")
            require(finite(x) and out[at][0] == 0, "a value")
            out[at], last = (0, x), at
        return [x for _, x in out], size


class Qsgd:
    TOP = {1: 0x7F7FFFFF, 7: bits(float.fromhex("0x1.249248p+125")),
           127: bits(float.fromhex("0x1.020406p+121"))}

    def __init__(self, bits=4, norm="max", partition="linear", block=256):
        self.bits, self.unit, self.norm = int(bits), int(block), norm
        self.s, self.natural = 2 ** (self.bits - 1) - 1, partition == "natural"
        self.top = 0x7F7FFFFF if self.natural else self.TOP[self.s]

    def omega(self):
        n, s = self.unit, self.s
        if self.natural and s > 1:
            return 0.125 + min(n * 4.0 ** (1 - s) / 4, math.sqrt(n) * 2.0 ** (1 - s))
        if self.norm == "l2":
            return min(n / (4 * s * s), math.sqrt(n) / s)
        return min((n - 1) / (4 * s * s), math.sqrt(n - 1) / (2 * s))

    def norm_of(self, v):
        if self.norm == "max":
            return max(x & ABS for x in v)
        return min(bits(math.sqrt(self.squares(v))), 0x7F7FFFFF)

    @staticmethod
    def squares(v):
        lanes = [0.0] * 32
        for i, x in enumerate(v):
            lanes[i % 32] += value(x) * value(x)
        for half in (16, 8, 4, 2, 1):
            for j in range(half):
                lanes[j] += lanes[j + half]
        return lanes[0]

    def level(self, x, inverse, h):
        if not self.natural:
            t = round(value(multiply(x, inverse)))
            return (max(-65536 * self.s, min(t, 65536 * self.s)) + h) // 65536
        part = min(multiply(x & ABS, inverse), bits(1))
        if value(part) >= 2.0 ** (1 - self.s):
            level = (part + 128 * h + 64) // 2**23 - (127 - self.s)
        else:
            level = (round(value(part) * 2.0 ** (self.s - 1) * 65536) + h) // 65536
        return -level if x >> 31 else level

    def encode_unit(self, v, phase, fed):
        size = (len(v) * self.bits + 7) // 8
        if not all(map(finite, v)):
            return u32(NAN) + bytes(size)
        norm = self.norm_of(v)
        if value(norm) < 2.0**-100:
            return u32(0) + bytes(size)
        step = multiply(norm, bits(1 / (1 + self.omega()))) if fed else norm
        inverse = divide(bits(1), norm)
        if not self.natural:
            step = min(divide(step, bits(self.s)), self.top)
            inverse = divide(bits(self.s * 65536), norm)
        code = 0
        for i, x in enumerate(v):
            level = self.level(x, inverse, noise(self.element + i, phase))
            code |= level % 2**self.bits << self.bits * i
        return u32(step) + code.to_bytes(size, "little")

    def decode_unit(self, code, n):
        step, size = read_u32(code, 0), (n * self.bits + 7) // 8
        require(step == NAN or step <= self.top, "the step")
        require(len(code) >= 4 + size, "bytes are missing")
        levels, out = int.from_bytes(code[4:4 + size], "little"), []
        for i in range(n):
            level = levels >> self.bits * i & 2**self.bits - 1
            level -= 2**self.bits if level > self.s else 0
            size_of = 2.0 ** (abs(level) - self.s) if self.natural and level else abs(level)
            out.append(NAN if step == NAN else multiply(bits(size_of), step) | (level < 0) << 31)
        return out, 4 + (n * self.bits + 7) // 8


class Natural:
    unit = 32

    def __init__(self, bits=9):
        self.nine = int(bits) == 9

    def powers(self, exponent, fed):
        """What an exponent stands for."""
        up = bits(1 / 1.125) if fed else bits(1)
        return multiply(exponent << 23, up if self.nine else multiply(up, bits(2.0**40)))

    def encode_unit(self, v, phase, fed):
        self.fed = fed
        if not all(map(finite, v)):
            return bytes([255] * len(v)) + bytes((len(v) + 7) // 8) if self.nine else bytes([0x80] * len(v))
        code, signs = bytearray(), 0
        for i, x in enumerate(v):
            size = x & ABS if self.nine else multiply(x & ABS, bits(2.0**-40))
            e = min((size + 128 * noise(self.element + i, phase) + 64) >> 23, 254 if self.nine else 127)
            if self.nine:
                signs |= (x >> 31) << i
            code.append(e if self.nine or not e else e | (x >> 31) << 7)
        return bytes(code) + (signs.to_bytes((len(v) + 7) // 8, "little") if self.nine else b"")

    def decode_unit(self, code, n):
        size = n + (n + 7) // 8 if self.nine else n
        require(len(code) >= size, "bytes are missing")
        out = []
        for i, e in enumerate(code[:n]):
            sign = code[n + i // 8] >> i % 8 & 1 if self.nine else e >> 7
            lost = e == 255 if self.nine else e == 0x80
            e = e if self.nine else e & 127
            out.append(NAN if lost else self.powers(e, self.fed) | sign << 31)
        return out, size
