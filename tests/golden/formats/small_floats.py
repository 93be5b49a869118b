# SPDX-License-Identifier: Apache-2.0
"""fp8, mxfp8, mxfp4 and nvfp4."""
import math

from .binary32 import ABS, NAN, bits, divide, finite, multiply, read_u32, require, u32, value
from .philox import noise


class SmallFloats:
    """What codecs of small floats share. Each has a block: elements that share a step."""

    FORMATS = {"e4m3": (8, 3, -6, 448, 0x7F), "e5m2": (8, 2, -14, 57344, 0x7C), "e2m1": (4, 1, 0, 6, 8)}
    OMEGAS = {"e4m3": 2.0**-8, "e5m2": 2.0**-6}

    def __init__(self, format, round):
        self.width, self.m, self.least, self.largest, self.odd = self.FORMATS[format]
        self.random, self.omega = round == "random", self.OMEGAS.get(format)

    def keep(self, fed):
        return bits(1 / (1 + self.omega) if fed and self.random else 1)

    def number(self, code):
        """Of a code without sign."""
        field, part = code >> self.m, code % 2**self.m
        return (part + (2**self.m if field else 0)) * 2.0 ** (self.least - self.m + max(field - 1, 0))

    def code(self, x, h):
        exponent = max(math.frexp(x)[1] - 1, self.least) if x else self.least
        part = x / 2.0 ** (exponent - self.m)
        q = (round(part * 65536) + h) // 65536 if self.random else round(part)
        return q + (exponent - self.least) * 2**self.m

    def pack(self, v, inverses):
        packed = 0
        for i, x in enumerate(v):
            size = min(value(multiply(x & ABS, inverses[i // self.block])), self.largest)
            one = self.code(size, noise(self.element + i, self.phase) if self.random else 0)
            packed |= (one | x >> 31 << self.width - 1) << self.width * i
        return packed.to_bytes((len(v) * self.width + 7) // 8, "little")

    def unpack(self, packed, n, steps):
        size, out, top = (n * self.width + 7) // 8, [], 2 ** (self.width - 1)
        require(len(packed) >= size, "bytes are missing")
        packed = int.from_bytes(packed[:size], "little")
        for i in range(n):
            one = packed >> self.width * i & 2 * top - 1
            number = NAN if one % top >= self.odd else bits(self.number(one % top)) | one // top << 31
            out.append(multiply(number, steps[i // self.block]))
        return out, size

    def peaks(self, v):
        return [max(x & ABS for x in v[i:i + self.block]) for i in range(0, len(v), self.block)]


class Fp8(SmallFloats):
    TOPS = {"e4m3": bits(float.fromhex("0x1.249248p119")), "e5m2": bits(float.fromhex("0x1.249248p112"))}

    def __init__(self, format="e4m3", round="even", block=512):
        super().__init__(format, round)
        self.unit = self.block = int(block)
        self.top = self.TOPS[format]

    def encode_unit(self, v, phase, fed):
        if not all(map(finite, v)):
            return u32(NAN) + bytes(len(v))
        peak, step, inverse = max(x & ABS for x in v), 0, 0
        if value(peak) >= 2.0**-100:
            step = min(divide(multiply(peak, self.keep(fed)), bits(self.largest)), self.top)
            inverse = divide(bits(self.largest), peak)
        return u32(step) + self.pack(v, [inverse])

    def decode_unit(self, code, n):
        step = read_u32(code, 0)
        require(step == NAN or step <= self.top, "the step")
        out, size = self.unpack(code[4:], n, [step])
        return out, 4 + size


class Mx(SmallFloats):
    unit, block = 128, 32

    def steps(self, scales, fed):
        return [multiply(NAN if s == 255 else bits(2.0 ** (s - 127)), self.keep(fed)) for s in scales]

    def encode_unit(self, v, phase, fed):
        self.fed, peaks = fed, self.peaks(v)
        if not all(map(finite, v)):
            return bytes([255] * len(peaks)) + bytes((len(v) * self.width + 7) // 8)
        fraction, largest = 2**23 - 1, bits(self.largest)
        scales = [(p >> 23) + (self.random and p & fraction > largest & fraction) for p in peaks]
        scales = [max(min(s, 254) - (largest >> 23) + 127, 0) for s in scales]
        return bytes(scales) + self.pack(v, [bits(2.0 ** (127 - s)) for s in scales])

    def decode_unit(self, code, n):
        blocks = (n + 31) // 32
        require(len(code) >= blocks, "bytes are missing")
        out, size = self.unpack(code[blocks:], n, self.steps(code[:blocks], self.fed))
        return out, blocks + size


class Mxfp8(Mx):
    def __init__(self, round="even", format="e4m3"):
        super().__init__(format, round)


class Mxfp4(Mx):
    def __init__(self, round="even"):
        super().__init__("e2m1", round)
        self.omega = 5 / 18


class Nvfp4(SmallFloats):
    TOP, block = bits(float.fromhex("0x1.86186p116")), 16
    BYTES = SmallFloats("e4m3", "even")

    def __init__(self, round="even", block=1024):
        super().__init__("e2m1", round)
        self.unit, self.omega = int(block), 391 / 4096

    def step(self, byte, head):
        return NAN if byte % 128 == 127 else multiply(bits(self.BYTES.number(byte % 128)), head)

    def encode_unit(self, v, phase, fed):
        peaks = self.peaks(v)
        if not all(map(finite, v)):
            return u32(NAN) + bytes(len(peaks) + (len(v) * 4 + 7) // 8)
        peak = max(peaks)
        if value(peak) < 2.0**-100:
            return u32(0) + bytes(len(peaks)) + self.pack(v, [0] * len(peaks))
        whole, factor = min(divide(peak, bits(2688)), self.TOP), divide(bits(448), peak)
        scales, inverses = [], []
        for p in peaks:
            byte = self.BYTES.code(min(value(multiply(p, factor)), 448), 0)
            top = value(multiply(self.step(byte, whole), bits(6)))
            byte += self.random and byte < 126 and top < value(p)
            scales.append(byte)
            inverses.append(divide(bits(1), self.step(byte, whole)) if byte else 0)
        return u32(multiply(whole, self.keep(fed))) + bytes(scales) + self.pack(v, inverses)

    def decode_unit(self, code, n):
        head, blocks = read_u32(code, 0), (n + 15) // 16
        require(head == NAN or head <= self.TOP, "the step of steps")
        require(len(code) >= 4 + blocks, "bytes are missing")
        steps = [NAN if head == NAN else self.step(b, head) for b in code[4:4 + blocks]]
        out, size = self.unpack(code[4 + blocks:], n, steps)
        return out, 4 + blocks + size
