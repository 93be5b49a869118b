# SPDX-License-Identifier: Apache-2.0
"""sharedint, thc and terngrad: all ranks agree on a step in a round, and codes add up."""
import math
import struct

from .binary32 import (ABS, INF, NAN, add, bits, divide, finite, multiply, require, root_below,
                       subtract, value)
from .philox import drawn, noise
from .quantisers import Int8, Qsgd


class SharedSteps:
    """In a group of one its own statistics are those of all ranks."""
    members, phase = 1, 0
    scales = {}  # by the element at which a unit begins, of the last run encoded

    def set_width(self, width, saturates=False):
        self.width, self.saturates = int(width), saturates
        self.sum_width = self.width if saturates else max(8, self.width)

    def most(self):
        w = 16 if self.saturates else self.sum_width
        return min(2 ** (self.width - 1) - 1, (2 ** (w - 1) - 1) // self.members)

    def cut(self, total):
        top = 2 ** (self.sum_width - 1) - 1
        return max(-top, min(top, total)) if self.saturates else total

    @staticmethod
    def count(n):
        return n

    @staticmethod
    def pack(steps, width):
        if width == 4:
            steps = steps + [0] * (len(steps) % 2)
            return bytes(a & 15 | (b & 15) << 4 for a, b in zip(steps[::2], steps[1::2]))
        return struct.pack(f"<{len(steps)}{'bh'[width // 8 - 1]}", *steps)

    @staticmethod
    def unpack(code, n, width):
        size = (n * width + 7) // 8
        require(len(code) >= size, "bytes are missing")
        if width == 4:
            halves = [b >> shift & 15 for b in code[:size] for shift in (0, 4)]
            return [(b ^ 8) - 8 for b in halves[:n]], size
        return list(struct.unpack_from(f"<{n}{'bh'[width // 8 - 1]}", code)), size

    def agree(self, parts):
        """The round, of each member's part."""
        largest = max(map(self.statistic, parts), key=lambda s: (s != s, s))
        self.scales[self.element] = self.scale(largest, len(parts[0]))

    def encode_unit(self, v, phase, fed):
        self.agree([v])
        return self.pack(self.steps(v), self.width)

    def decode_unit(self, code, n):
        width = self.sum_width if self.phase == 1 else self.width
        steps, size = self.unpack(code, self.count(n), width)
        return self.values(steps, n), size


class Sharedint(SharedSteps):
    def __init__(self, width=8, block=512):
        self.set_width(width)
        self.unit = int(block)

    @staticmethod
    def statistic(v):
        peak = max(x & ABS for x in v)
        return math.nan if peak >= INF else value(peak)

    def scale(self, peak, n):
        if peak != peak:
            return NAN
        if peak < 2.0**-96:
            return 0
        scale = divide(bits(peak), bits(self.most()))
        return scale - 1 if multiply(scale, bits(self.most())) == INF else scale

    def steps(self, v):
        scale, most = self.scales[self.element], self.most()
        inverse = divide(bits(1), scale) if 0 < scale < INF else 0
        return [0 if scale == NAN else max(-most, min(most, round(value(multiply(x, inverse)))))
                for x in v]

    def values(self, steps, n):
        scale = self.scales.get(self.element, 0)
        return [NAN if scale == NAN else multiply(bits(s), scale) for s in steps]


class Thc(SharedSteps):
    def __init__(self, width=8, block=1024, clip=3.5, rotate=0, sums="exact"):
        self.set_width(width, sums == "saturate")
        self.unit, self.clip = int(block), bits(float(clip))
        self.rotate = int(rotate) or self.unit

    @staticmethod
    def count(n):
        return max(32, 1 << (n - 1).bit_length())

    @staticmethod
    def flip(x):
        return [b ^ (drawn(i // 32, 0) >> i % 32 & 1) << 31 for i, b in enumerate(x)]

    def hadamard(self, x):
        x, h = list(x), 1
        while h < min(len(x), self.rotate):
            for i in range(len(x)):
                if not i & h:
                    x[i], x[i + h] = add(x[i], x[i + h]), subtract(x[i], x[i + h])
            h *= 2
        return x

    @staticmethod
    def statistic(v):
        """In binary64, which Python's floats are."""
        if not all(map(finite, v)):
            return math.nan
        lanes, half = [0.0] * 32, 16
        for i, x in enumerate(v):
            lanes[i % 32] += value(x) * value(x)
        while half >= 1:
            for j in range(half):
                lanes[j] += lanes[j + half]
            half //= 2
        return lanes[0]

    def scale(self, power, n):
        if not power <= 2.0**208:
            return NAN
        if power < 2.0**-192:
            return 0
        power *= min(self.count(n), self.rotate) / self.count(n)
        return divide(multiply(self.clip, root_below(power)), bits(self.most()))

    def step(self, x, inverse):
        exact = value(multiply(x, inverse))
        return round(max(-self.most(), min(self.most(), exact)))

    def steps(self, v):
        m, scale = self.count(len(v)), self.scales[self.element]
        if scale == NAN or scale == 0:
            return [0] * m
        y = self.hadamard(self.flip(v + [0] * (m - len(v))))
        inverse = divide(bits(1), scale)
        return [self.step(x, inverse) for x in y]

    def values(self, steps, n):
        scale = self.scales.get(self.element, 0)
        if scale == NAN or scale == 0:
            return [scale] * n
        each = divide(scale, bits(min(len(steps), self.rotate)))
        return self.flip(self.hadamard([multiply(bits(s), each) for s in steps]))[:n]


class Terngrad:
    members, member = 1, 0  # how many there are, and whose noise it is

    def __init__(self, bits=2, clip=2.5, block=1024):
        self.width, self.clip, self.unit = int(bits), float(clip), int(block)
        self.sum_width, self.fed, self.phase, self.scales = self.width, False, 0, []

    def way_back(self):
        return self if self.width > 2 else Int8(512 if self.unit % 512 == 0 else self.unit)

    def scale(self, v):
        if not all(map(finite, v)):
            return NAN
        peak = max(x & ABS for x in v)
        most = self.clip * math.sqrt(Qsgd.squares(v) / len(v))
        scale = bits(most) if most < value(peak) else peak
        return 0 if value(scale) < 2.0**-100 else scale

    def top(self):
        top = divide(INF - 1, bits(self.members)) if self.width > 2 else INF - 1
        return top - 1 if multiply(top, bits(self.members)) == INF else top

    def agree(self, parts):
        """The round, of each member's part of the next unit."""
        scales = [self.scale(v) for v in parts]
        self.scales.append(NAN if NAN in scales else min(max(scales), self.top()))

    def begin(self, v):
        """The round of a group of one."""
        for i in range(0, len(v), self.unit):
            self.agree([v[i:i + self.unit]])

    def steps(self, v):
        scale = self.scales[self.element // self.unit]
        if not value(scale) > 0:
            return [0] * len(v)
        inverse, out = divide(bits(65536), scale), []
        for i, x in enumerate(v):
            t = max(-65536, min(65536, round(value(multiply(x, inverse)))))
            out.append((t + noise(self.element + i, self.phase, self.member)) // 65536)
        return out

    @staticmethod
    def cut(total):
        return total

    @staticmethod
    def pack(levels, width):
        code = sum(level % 2**width << width * i for i, level in enumerate(levels))
        return code.to_bytes((len(levels) * width + 7) // 8, "little")

    def values(self, levels, n):
        step = scale = self.scales[self.element // self.unit]
        if self.fed:
            step = multiply(scale, bits(1 / self.clip))
        return [NAN if scale == NAN else multiply(bits(x), step) for x in levels]

    def encode_unit(self, v, phase, fed):
        self.fed, self.phase = fed, phase
        return self.pack(self.steps(v), self.width)

    def decode_unit(self, code, n):
        size, half = (n * self.width + 7) // 8, 2 ** (self.width - 1)
        require(len(code) >= size, "bytes are missing")
        code = int.from_bytes(code[:size], "little")
        levels = [(code >> i * self.width & 2 * half - 1 ^ half) - half for i in range(n)]
        return self.values(levels, n), size
