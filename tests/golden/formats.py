# SPDX-License-Identifier: Apache-2.0
"""The codecs of compress/FORMAT.md in plain Python: written from that page, not from the library.

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


def mix(h, v):
    mask = 2**64 - 1
    h = h + v + 0x9E3779B97F4A7C15 & mask
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 & mask
    h = (h ^ h >> 27) * 0x94D049BB133111EB & mask
    return h ^ h >> 31


def philox(counter, key):
    c, k, mask = list(counter), list(key), 2**32 - 1
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & mask, a >> 32 ^ c[3] ^ k[1], a & mask]
        k = [k[0] + 0x9E3779B9 & mask, k[1] + 0xBB67AE85 & mask]
    return c


def drawn(element, phase, who=0, seed=0, bucket=0, step=0):
    """The random number of an element; the frozen codes are of seed, bucket and step 0."""
    key = mix(mix(mix(mix(0, seed), bucket), who), phase)
    block = element // 4
    return philox([block % 2**32, block >> 32, step % 2**32, step >> 32],
                  [key % 2**32, key >> 32])[element % 4]


# Each codec: a class with unit(), encode(units of v, ...) -> bytes, decode(bytes, n) -> bits.
# decode() of one unit also returns how many bytes it took.


class Whole:
    """Codecs of unit 1, element by element."""

    unit = 1

    def encode_unit(self, v, phase, fed):
        return b"".join(self.one(x, phase, fed) for x in v)

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


class Lossless:
    def __init__(self, block=512):
        self.unit = int(block)

    @staticmethod
    def rotated(x):
        return (x << 1 | x >> 31) & 0xFFFFFFFF

    @staticmethod
    def choose_width(exponents, top):
        """@return bytes for the exponents, or 4 each as they are; the width; how many are written out"""
        n = len(exponents)
        plane, others = (n + 7) // 8, {w: sum((top - e) % 256 >= 2**w - 1 for e in exponents)
                                       for w in (3, 4)}
        width = min((3, 4), key=lambda w: w * plane + others[w])
        size = (w_bytes := width * plane + others[width]) + -(4 + 3 * n + w_bytes) % 4
        if w_bytes >= n:
            return n, 8, 0
        return size, width, others[width]

    def encode_unit(self, v, phase, fed):
        r, n = [self.rotated(x) for x in v], len(v)
        if not any(r):
            return bytes(4)
        exponents, plane = [y >> 24 for y in r], (n + 7) // 8
        top = max(exponents[:64])
        size, width, others = self.choose_width(exponents, top)
        if width == 8 or others > 2 * plane:
            largest = max(exponents)
            other = self.choose_width(exponents, largest)
            if other[0] < size:
                top, width = largest, other[1]
        distances = [(top - e) % 256 for e in exponents]
        if width == 8:
            return bytes([8, 0, 0, 0]) + b"".join(map(u32, v))
        planes, others = bytearray(width * plane), bytearray()
        for i, d in enumerate(distances):
            d = min(d, 2**width - 1)
            if d == 2**width - 1:
                others.append(r[i] >> 24)
            for j in range(width):
                planes[j * plane + i // 8] |= (d >> j & 1) << i % 8
        code = struct.pack("<BBH", width, top, len(others))
        code += b"".join(struct.pack("<H", y & 0xFFFF) for y in r)
        code += bytes(y >> 16 & 0xFF for y in r) + bytes(planes) + bytes(others)
        return code + bytes(-len(code) % 4)

    def decode_unit(self, code, n):
        require(len(code) >= 4, "bytes are missing")
        width, top, count = struct.unpack_from("<BBH", code)
        require(width in (0, 3, 4, 8), "the width")
        if width in (0, 8):
            require(top == 0 and count == 0, "the head")
            require(len(code) >= 4 + n * width // 2, "bytes are missing")
            return [read_u32(code, 4 + 4 * i) if width else 0 for i in range(n)], 4 + n * width // 2
        plane = (n + 7) // 8
        require(count <= n, "the count")
        size = (4 + 3 * n + width * plane + count + 3) // 4 * 4
        require(len(code) >= size, "bytes are missing")
        planes = code[4 + 3 * n:]
        others = list(planes[width * plane:width * plane + count])
        out = []
        for i in range(n):
            d = sum((planes[j * plane + i // 8] >> i % 8 & 1) << j for j in range(width))
            if d == 2**width - 1:
                require(others, "others are missing")
            exponent = others.pop(0) if d == 2**width - 1 else (top - d) % 256
            y = struct.unpack_from("<H", code, 4 + 2 * i)[0] | code[4 + 2 * n + i] << 16 | exponent << 24
            out.append(y >> 1 | (y & 1) << 31)
        require(not others, "others are left over")
        return out, size


class Lossless16:
    """lossless of elements of 16 bits. fraction: bits of it above the lower byte of r"""

    def __init__(self, dtype, block=512):
        self.unit, self.fraction = int(block), {"bf16": 0, "f16": 3}[dtype]

    def choose(self, exponents, top):
        """@return bytes of the unit, its width, top"""
        n, modulo = len(exponents), 2**(8 - self.fraction)
        sizes = [(4 + n + (self.fraction + w) * ((n + 7) // 8)
                  + sum((top - e) % modulo >= 2**w - 1 for e in exponents), w) for w in (3, 4)]
        return (min(sizes) if min(sizes)[0] < 1 + 2 * n else (1 + 2 * n, 16)) + (top,)

    def encode_unit(self, v):
        r, n, modulo = [(x << 1 | x >> 15) & 0xFFFF for x in v], len(v), 2**(8 - self.fraction)
        if not any(v):
            return bytes(1)
        exponents = [y >> 8 + self.fraction for y in r]
        size, width, top = self.choose(exponents, max(exponents[:64]))
        many = sum((top - e) % modulo >= 2**width - 1 for e in exponents) > 2 * ((n + 7) // 8)
        if width == 16 or many:
            other = self.choose(exponents, max(exponents))
            if other[0] < size:
                size, width, top = other
        if width == 16:
            return bytes([16]) + struct.pack(f"<{n}H", *v)
        plane, others = (n + 7) // 8, bytearray()
        planes = bytearray((self.fraction + width) * plane)
        for i, y in enumerate(r):
            d = min((top - exponents[i]) % modulo, 2**width - 1)
            if d == 2**width - 1:
                others.append(exponents[i])
            symbol = y >> 8 & 2**self.fraction - 1 | d << self.fraction
            for j in range(self.fraction + width):
                planes[j * plane + i // 8] |= (symbol >> j & 1) << i % 8
        code = struct.pack("<BBH", width, top, len(others)) + bytes(y & 0xFF for y in r)
        assert size == len(code) + len(planes) + len(others)
        return code + bytes(planes) + bytes(others)

    def decode_unit(self, code, n):
        require(len(code) >= 1, "bytes are missing")
        width, modulo = code[0], 2**(8 - self.fraction)
        require(width in (0, 3, 4, 16), "the width")
        if width in (0, 16):
            require(len(code) >= 1 + n * width // 8, "bytes are missing")
            return list(struct.unpack_from(f"<{n}H", code, 1)) if width else [0] * n, \
                1 + n * width // 8
        require(len(code) >= 4, "bytes are missing")
        top, count = struct.unpack_from("<BH", code, 1)
        plane, bits = (n + 7) // 8, self.fraction + width
        require(count <= n and top < modulo, "the head")
        size = 4 + n + bits * plane + count
        require(len(code) >= size, "bytes are missing")
        planes, others = code[4 + n:], list(code[4 + n + bits * plane:size])
        out = []
        for i in range(n):
            symbol = sum((planes[j * plane + i // 8] >> i % 8 & 1) << j for j in range(bits))
            d, exponent = symbol >> self.fraction, (top - (symbol >> self.fraction)) % modulo
            if d == 2**width - 1:
                require(others, "others are missing")
                exponent = others.pop(0) % modulo
            y = code[4 + i] | (symbol & 2**self.fraction - 1) << 8 | exponent << 8 + self.fraction
            out.append(y >> 1 | (y & 1) << 15)
        require(not others, "others are left over")
        return out, size


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


class Onebit:
    def __init__(self, block=1024, means=1):
        self.unit, self.means = int(block), int(means)

    @staticmethod
    def tree(magnitudes):
        """magnitudes: None where the element is of the other kind."""
        lanes = [0] * 32
        for i, m in enumerate(magnitudes):
            if m is not None:
                lanes[i % 32] = add(lanes[i % 32], m)
        half = 16
        while half >= 1:
            for j in range(half):
                lanes[j] = add(lanes[j], lanes[j + half])
            half //= 2
        return lanes[0]

    def encode_unit(self, v, phase, fed):
        kinds = [lambda x: True]
        if self.means == 2:
            kinds = [lambda x: x >> 31 == 0, lambda x: x >> 31 == 1]
        sums = [self.tree([x & ABS if kind(x) else None for x in v]) for kind in kinds]
        counts = [sum(1 for x in v if kind(x)) for kind in kinds]
        signs = bytearray((len(v) + 7) // 8)
        if not all(map(finite, v)) or not all(map(finite, sums)):
            return u32(NAN) * self.means + bytes(signs)
        for i, x in enumerate(v):
            signs[i // 8] |= (x >> 31) << i % 8
        means = [divide(s, bits(c)) if c else 0 for s, c in zip(sums, counts)]
        return b"".join(map(u32, means)) + bytes(signs)

    def decode_unit(self, code, n):
        means = [read_u32(code, 4 * i) for i in range(self.means)]
        require(all(m < INF for m in means) or all(m == NAN for m in means), "the means")
        size = 4 * self.means + (n + 7) // 8
        require(len(code) >= size, "bytes are missing")
        signs = code[4 * self.means:]
        out = []
        for i in range(n):
            set_ = signs[i // 8] >> i % 8 & 1
            mean = means[-1] if set_ else means[0]
            out.append(NAN if mean == NAN else negate(mean) if set_ else mean)
        return out, size


def in_units(codec, element, phase, n):
    """Where the units of a run begin, and how long they are."""
    size = n if codec.unit == 1 else codec.unit
    for at in range(0, n, size or 1):
        codec.element, codec.phase = element + at, phase
        yield at, min(size, n - at)


class Topk:
    values = None  # the codec of its values; None: they are f32

    def __init__(self, ratio=0.01, block=65536, select="sampled", index="short"):
        self.ratio, self.unit, self.select, self.index = float(ratio), int(block), select, index

    def limit(self, n):
        k = min(n, max(1, math.ceil(self.ratio * n)))
        return k, k if self.exact(n) else min(n, k + k // 4 + 8)

    def exact(self, n):
        return self.select == "exact" or n < 16384

    @staticmethod
    def largest(v, k):
        order = sorted(range(len(v)), key=lambda i: (-(v[i] & ABS), i))
        return sorted(i for i in order[:k] if v[i] & ABS)

    def threshold(self, v):
        n = s = len(v)
        k, samples = self.limit(n)[0], [x & ABS for x in v]
        if not self.exact(n):
            s = n // 16
            samples = [samples[16 * i + ((i * 0x9E3779B1 % 2**32) >> 28)] for i in range(s)]
        return sorted(samples, reverse=True)[math.ceil(k * s / n) - 1]

    def chosen(self, v):
        n = len(v)
        k, cap = self.limit(n)
        if self.exact(n):
            return self.largest(v, k)
        threshold = max(1, self.threshold(v))
        found = [i for i in range(n) if v[i] & ABS >= threshold]
        return found if len(found) <= cap else self.largest(v, cap)

    def encode_unit(self, v, phase, fed):
        if not all(map(finite, v)):
            return u32(0xFFFFFFFF)
        at = self.chosen(v)
        code = u32(len(at))
        if self.values is None:
            code += b"".join(u32(v[i]) for i in at)
        else:
            sent = [v[i] for i in at]
            for begin, some in in_units(self.values, self.element, phase, len(sent)):
                code += self.values.encode_unit(sent[begin:begin + some], phase, fed)
            if not all(map(finite, self.decode_values(code[4:], len(at))[0])):
                return u32(0xFFFFFFFF)
        if self.index == "packed":
            width, gaps = Gaps.encode(at)
            code = u32(len(at) + (width << 24)) + code[4:] + gaps
        else:
            code += b"".join(struct.pack("<H", i) for i in at)
        return code + bytes(-len(code) % 4)

    def decode_values(self, code, count):
        out, used = [], 0
        for _, some in in_units(self.values, self.element, self.phase, count):
            part, took = self.values.decode_unit(code[used:], some)
            out, used = out + part, used + took
        return out, used

    def decode_indices(self, code, used, n, count, width):
        """@return them, and the bytes of the unit"""
        if self.index == "packed":
            at, size = Gaps.decode(code[used:], n, count, width)
            end = (used + size + 3) // 4 * 4
            require(not any(code[used + size:end]), "bits behind the last gap")
        else:
            end = (used + 2 * count + 3) // 4 * 4
            require(len(code) >= end, "bytes are missing")
            at = struct.unpack_from(f"<{count}H", code, used)
        require(len(code) >= end, "bytes are missing")
        for last, i in zip((-1, *at), at):
            require(last < i < n, "an index")
        return at, end

    def decode_unit(self, code, n):
        head = count = read_u32(code, 0)
        if head == 0xFFFFFFFF:
            return [NAN] * n, 4
        if self.index == "packed":
            count = head % 2**24
        require(count <= self.limit(n)[1], "the count")
        if self.values is not None:
            sent, used = self.decode_values(code[4:], count)
        else:
            sent, used = [read_u32(code, 4 + 4 * i) for i in range(count)], 4 * count
        at, size = self.decode_indices(code, 4 + used, n, count, head >> 24)
        out = [0] * n
        for i, x in zip(at, sent):
            require(finite(x), "a value")
            out[i] = add(0, x)
        return out, size


class Gaps:
    """Indices as the gaps before them."""

    @staticmethod
    def width(gaps):
        return 0 if sum(gaps) < max(1, len(gaps)) else (sum(gaps) // len(gaps)).bit_length() - 1

    @classmethod
    def encode(cls, at):
        """@return the width, and the bytes"""
        gaps = [i - before - 1 for before, i in zip([-1, *at], at)]
        width = cls.width(gaps)
        bits = "".join("0" * (g >> width) + "1" for g in gaps)
        bits += "".join(f"{g % 2**width:0{width}b}"[::-1] for g in gaps if width)
        bits += "0" * (-len(bits) % 8)
        return width, bytes(int(bits[i:i + 8][::-1], 2) for i in range(0, len(bits), 8))

    @classmethod
    def decode(cls, code, n, count, width):
        """@return the indices, and the bytes that were read"""
        bits, gaps, at = "".join(f"{byte:08b}"[::-1] for byte in code[:n // 8 + 8]), [], 0
        for _ in range(count):
            end = bits.find("1", at)
            require(end >= 0, "a gap")
            gaps.append(end - at << width)
            at = end + 1
        require(at + width * count <= len(bits), "bytes are missing")
        for i in range(count if width else 0):
            gaps[i] += int(bits[at:at + width][::-1], 2)
            at += width
        require(width == cls.width(gaps), "the width")
        size = (at + 7) // 8
        require("1" not in bits[at:8 * size], "bits behind the last gap")
        indices, next_one = [], 0
        for g in gaps:
            indices.append(next_one + g)
            next_one += g + 1
        return indices, size


class Signsgd:
    element = 0  # at which a unit begins

    def __init__(self, block=1024):
        self.unit = int(block)

    def encode_unit(self, v, phase, fed):
        signs = bytearray((len(v) + 7) // 8)
        if not all(map(finite, v)):
            return u32(NAN) + bytes(signs)
        for i, x in enumerate(v):
            sign = x >> 31 if x & ABS else drawn(self.element + i, phase) >> 31
            signs[i // 8] |= sign << i % 8
        return u32(0) + bytes(signs)

    def decode_unit(self, code, n):
        head, size = read_u32(code, 0), 4 + (n + 7) // 8
        require(head in (0, NAN), "the head")
        require(len(code) >= size, "bytes are missing")
        if head == NAN:
            return [NAN] * n, size
        return [bits(-1 if code[4 + i // 8] >> i % 8 & 1 else 1) for i in range(n)], size


class Signum(Signsgd):
    def __init__(self, block=1024, beta=0.9):
        super().__init__(block)
        self.beta = bits(float(beta))

    def encode_unit(self, v, phase, fed):
        """A first step: the momentum before it is 0."""
        if phase == 0:
            take = subtract(bits(1), self.beta)
            v = [add(multiply(self.beta, 0), multiply(take, x)) for x in v]
        return super().encode_unit(v, phase, fed)


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


def wanted(ratio, n):
    return min(n, max(1, math.ceil(ratio * n)))


class Randk:
    def __init__(self, ratio=0.01, block=4096, seed="shared", fed=False, returns=False):
        self.ratio, self.unit, self.plain, self.returns = float(ratio), int(block), not fed, returns
        self.who = 0 if seed == "shared" else 1  # rank 0

    def way_back(self):
        return Union(self.unit) if self.who else Randk(self.ratio, self.unit, returns=True)

    def chosen(self, n, phase):
        k, some = wanted(self.ratio, n), set()
        for p in range(k):
            last = n - k + p
            at = drawn(self.element + p, 0 if self.returns else phase, self.who) * (last + 1) >> 32
            some.add(last if at in some else at)
        return sorted(some)

    def encode_unit(self, v, phase, fed):
        n, at = len(v), self.chosen(len(v), phase)
        scale = divide(bits(n), bits(len(at))) if self.plain and not self.returns else bits(1)
        sent = [multiply(v[i], scale) for i in at]
        if not all(map(finite, v)) or not all(map(finite, sent)):
            sent = [NAN] + [0] * (len(at) - 1)
        return b"".join(map(u32, sent))

    def decode_unit(self, code, n):
        at = self.chosen(n, self.phase)
        require(len(code) >= 4 * len(at), "bytes are missing")
        if read_u32(code, 0) == NAN:
            return [NAN] * n, 4 * len(at)
        out = [0] * n
        for place, i in enumerate(at):
            x = read_u32(code, 4 * place)
            require(finite(x), "a value")
            out[i] = add(0, x)
        return out, 4 * len(at)


class Union:
    def __init__(self, block=4096):
        self.unit = int(block)

    @staticmethod
    def places(count, n):
        """@return which form has the places, and its bytes"""
        listed, mapped = (2 * count + 3) // 4 * 4, (n + 31) // 32 * 4
        if 4 * count + min(listed, mapped) >= 4 * n:
            return "all", 0
        return ("list", listed) if listed < mapped else ("map", mapped)

    def encode_unit(self, v, phase, fed):
        if not all(map(finite, v)):
            return u32(0xFFFFFFFF)
        at, n = [i for i, x in enumerate(v) if x & ABS], len(v)
        form, size = self.places(len(at), n)
        if form == "all":
            return u32(len(at)) + b"".join(map(u32, v))
        places = b"".join(struct.pack("<H", i) for i in at)
        if form == "map":
            places = sum(1 << i for i in at).to_bytes(size, "little")
        return u32(len(at)) + b"".join(u32(v[i]) for i in at) + places + bytes(size - len(places))

    def decode_unit(self, code, n):
        count = read_u32(code, 0)
        if count == 0xFFFFFFFF:
            return [NAN] * n, 4
        require(count <= n, "the count")
        form, size = self.places(count, n)
        size += 4 + 4 * (n if form == "all" else count)
        require(len(code) >= size, "bytes are missing")
        at, places = list(range(n)), code[4 + 4 * count:size]
        if form == "list":
            at = list(struct.unpack_from(f"<{count}H", places))
            require(all(a < b for a, b in zip(at, at[1:] + [n])), "an index")
        elif form == "map":
            bit_map = int.from_bytes(places, "little")
            at = [i for i in range(8 * len(places)) if bit_map >> i & 1]
            require(len(at) == count and at[-1] < n, "the map")
        out = [0] * n
        for place, i in enumerate(at):
            x = read_u32(code, 4 + 4 * place)
            require(finite(x), "a value")
            out[i] = add(0, x)
        return out, size


class Topkc:
    def __init__(self, ratio=0.01, chunk=128, block=65536):
        self.ratio, self.chunk, self.unit = float(ratio), int(chunk), int(block)

    def way_back(self):
        return Topkc(self.ratio, self.chunk, self.unit)

    @staticmethod
    def squares(v):
        lanes = [0.0] * 16
        for i, x in enumerate(v):
            lanes[i % 16] += value(x) ** 2
        for half in (8, 4, 2, 1):
            for j in range(half):
                lanes[j] += lanes[j + half]
        return lanes[0]

    def norm(self, v):
        return bits(math.sqrt(self.squares(v)))

    def begin(self, v):
        """The round of a group of one."""
        self.norms = [self.norm(v[i:i + self.chunk]) for i in range(0, len(v), self.chunk)]

    def chosen(self, n):
        first, chunks = self.element // self.chunk, -(-n // self.chunk)
        norms = self.norms[first:first + chunks]
        order = sorted(range(chunks), key=lambda c: (-(norms[c] & ABS), c))
        some = sorted(order[:wanted(self.ratio, chunks)])
        at = [i for c in some for i in range(c * self.chunk, min(n, (c + 1) * self.chunk))]
        return at, 4 * min(n, len(some) * self.chunk), all(map(finite, norms))

    def encode_unit(self, v, phase, fed):
        at, size, good = self.chosen(len(v))
        sent = [v[i] for i in at] if good and all(map(finite, v)) else [NAN]
        code = b"".join(map(u32, sent))
        return code + bytes(size - len(code))

    def decode_unit(self, code, n):
        at, size, _ = self.chosen(n)
        require(len(code) >= size, "bytes are missing")
        if read_u32(code, 0) == NAN:
            return [NAN] * n, size
        out = [0] * n
        for place, i in enumerate(at):
            x = read_u32(code, 4 * place)
            require(finite(x), "a value")
            out[i] = add(0, x)
        return out, size


class Dgc(Topk):
    def __init__(self, ratio=0.001, momentum=0.9, clip=0, warmup=0, block=65536, index="short"):
        super().__init__(max(float(ratio), 0.25) if float(warmup) else ratio, block, index=index)
        self.momentum, self.clip = bits(float(momentum)), float(clip)

    def way_back(self):
        return Union(self.unit)

    def encode_unit(self, v, phase, fed):
        """A first step: u and v before it are 0."""
        norm, factor = math.sqrt(Topkc.squares(v)), bits(1)
        if self.clip and norm > self.clip:
            factor = bits(self.clip / norm)
        u = [add(multiply(self.momentum, 0), multiply(factor, x)) for x in v]
        return super().encode_unit([add(0, x) for x in u], phase, fed)


class Threshold(Topk):
    def __init__(self, value=0.01, cap=0.1, block=65536, index="short"):
        super().__init__(cap, block, "exact", index)
        self.least = float(value)

    def way_back(self):
        return Union(self.unit)

    def chosen(self, v):
        found, cap = [i for i in range(len(v)) if value(v[i] & ABS) >= self.least], self.limit(len(v))[1]
        return found if len(found) <= cap else self.largest(v, cap)


class Hashed(Topk):
    def __init__(self, ratio=0.01, load=2, block=65536):
        super().__init__(ratio, block)
        self.load = float(load)

    def way_back(self):
        return Union(self.unit)

    @staticmethod
    def hash(h):
        h = (h ^ h >> 16) * 0x85EBCA6B % 2**32
        h = (h ^ h >> 13) * 0xC2B2AE35 % 2**32
        return h ^ h >> 16

    def slots(self, n):
        return math.floor(self.load * wanted(self.ratio, n))

    def encode_unit(self, v, phase, fed):
        n, s = len(v), self.slots(len(v))
        values, places = [0] * s, [0] * s
        if not all(map(finite, v)):
            values[0] = NAN
        else:
            key, threshold = drawn(self.element, phase), max(1, self.threshold(v))
            for i in range(n):
                slot = self.hash(key ^ i) * s >> 32
                if v[i] & ABS >= threshold and not values[slot]:
                    values[slot], places[slot] = v[i], i
        code = b"".join(map(u32, values)) + struct.pack(f"<{s}H", *places)
        return code + bytes(-len(code) % 4)

    def decode_unit(self, code, n):
        s = self.slots(n)
        size = (6 * s + 3) // 4 * 4
        require(len(code) >= size, "bytes are missing")
        if read_u32(code, 0) == NAN:
            return [NAN] * n, size
        out = [0] * n
        for slot in range(s):
            x, at = read_u32(code, 4 * slot), struct.unpack_from("<H", code, 4 * s + 2 * slot)[0]
            if x & ABS:
                require(at < n, "an index")
                require(not out[at], "an index comes twice")
                require(finite(x), "a value")
                out[at] = x
        return out, size


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


def noise(e, phase, rank=0):
    word = drawn(e // 32 * 16 + e % 16, phase, rank + 1)
    return word & 0xFFFF if e % 32 < 16 else word >> 16


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


class Powersgd:
    """In a group of one, in its first step: its own sums are those of all ranks."""

    rows = 0      # of the bucket; 0: it is no matrix
    unit = 2**62  # the whole bucket

    def __init__(self, rank=4):
        self.rank = int(rank)

    @staticmethod
    def number(e):
        """A drawn one, from -1 to 1."""
        b = drawn(e, 0)
        return multiply(bits(b - 2**32 if b >= 2**31 else b), bits(2.0**-31))

    @staticmethod
    def dot(a, b):
        lanes, half = [0] * 32, 16
        for i, (x, y) in enumerate(zip(a, b)):
            lanes[i % 32] = add(lanes[i % 32], multiply(x, y))
        while half >= 1:
            for j in range(half):
                lanes[j] = add(lanes[j], lanes[j + half])
            half //= 2
        return lanes[0]

    @staticmethod
    def wide_dot(a, b):
        total = 0.0
        for x, y in zip(a, b):
            total += value(x) * value(y)
        return total

    def orthogonal(self, columns):
        done = []
        for column in columns:
            before = self.wide_dot(column, column)
            for other in done:
                factor = self.wide_dot(column, other)
                column = [bits(value(x) - factor * value(y)) for x, y in zip(column, other)]
            power = self.wide_dot(column, column)
            if power < 2.0**-40 * before or power < 2.0**-200:
                done.append([0] * len(column))
                continue
            length = root_below(power)
            done.append([bits(value(x) / value(length)) for x in column])
        return done

    def begin(self, v):
        n, rows = len(v), self.rows
        columns = n // rows if rows else 0
        self.matrix = rows > 0 and rows * columns == n and rows + columns <= n // (2 * self.rank)
        self.lost = not all(map(finite, v))
        self.sum = [NAN] * n if self.lost else list(v)
        if self.lost or not self.matrix:
            return
        lines = [v[i * columns:(i + 1) * columns] for i in range(rows)]
        q = [[self.number(k * columns + i) for i in range(columns)] for k in range(self.rank)]
        p = self.orthogonal([[self.dot(line, column) for line in lines] for column in q])
        q = [[0] * columns for _ in range(self.rank)]
        for i, line in enumerate(lines):
            for k in range(self.rank):
                q[k] = [add(s, multiply(x, p[k][i])) for s, x in zip(q[k], line)]
        self.sum = []
        for i in range(rows):
            for c in range(columns):
                x = multiply(p[0][i], q[0][c])
                for k in range(1, self.rank):
                    x = add(x, multiply(p[k][i], q[k][c]))
                self.sum.append(x)

    def encode_unit(self, v, phase, fed):
        return u32(0)

    def decode_unit(self, code, n):
        require(read_u32(code, 0) == 0, "the code")
        return list(self.sum), 4


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


def int8(block=512, **range_):
    return WideInts(block, **range_) if range_ else Int8(block)


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


CODECS = {"none": NoCodec, "lossless": Lossless, "bf16": Bf16, "fp16": Fp16, "int8": int8,
          "onebit": Onebit, "topk": Topk, "signsgd": Signsgd, "signum": Signum,
          "sharedint": Sharedint, "randk": Randk, "union": Union, "topkc": Topkc, "dgc": Dgc,
          "hashed": Hashed, "threshold": Threshold, "thc": Thc, "qsgd": Qsgd, "natural": Natural, "terngrad": Terngrad,
          "powersgd": Powersgd, "int4": Int4, "int2": Int2, "bounded": Bounded,
          "fp8": Fp8, "mxfp8": Mxfp8, "mxfp4": Mxfp4, "nvfp4": Nvfp4}


SCALED = [Randk]  # they send other values under feedback


def suffixes_of(spec, phase):
    """@return their parameters by their names"""
    ways = spec.split(">")
    suffixes = ways[min(phase, len(ways) - 1)].split("+")[1:]
    return {s.split(":")[0]: s.partition("=")[2] for s in suffixes}


def parse(spec, phase):
    """@return codec, whether it has error feedback"""
    ways, suffixes = spec.split(">"), suffixes_of(spec, phase)
    text, _, values = ways[min(phase, len(ways) - 1)].split("+")[0].partition("/")
    name, *params = text.split(":")
    params = dict(p.split("=") for p in params)
    if CODECS[name] in SCALED:
        params["fed"] = "ef" in suffixes
    codec = CODECS[name](**params)
    if "warmup" in suffixes:
        codec.ratio = max(codec.ratio, 0.25)  # of a first step
    if values:
        codec.values, _ = parse(values, 0)
        codec.values.fed = "ef" in suffixes or "ef21" in suffixes
    if phase == 1 and len(ways) == 1 and hasattr(codec, "way_back"):
        return codec.way_back(), False
    return codec, "ef" in suffixes or "ef21" in suffixes


def within_range(b):
    return b if finite(b) else b & 0x80000000 | INF - 1


def with_momentum(spec, phase, unit, x):
    """What a first step encodes of the input: momentum before it is 0."""
    suffixes, out = suffixes_of(spec, phase), []
    name = "momentum" if "momentum" in suffixes else "nesterov"
    if phase == 1 or name not in suffixes:
        return x
    beta = bits(float(suffixes[name] or 0.9))
    for at in range(0, len(x), unit):
        part = x[at:at + unit]
        if all(map(finite, part)):
            before = multiply(beta, 0)
            if name == "nesterov":
                part = [add(add(before, multiply(beta, e)), e) for e in part]
            else:
                part = [add(before, e) for e in part]
            part = [within_range(e) for e in part]
        out += part
    return out


def encoded(spec, phase, x, residual):
    """v, of which the code is made."""
    x = with_momentum(spec, phase, parse(spec, phase)[0].unit, x)
    return x if residual is None else [add(a, b) for a, b in zip(x, residual)]


def kept_bf16(left, at, phase):
    magnitude = min((left & ABS) + noise(at, phase) >> 16, 0x7F7F)
    return (magnitude | left >> 31 << 15) << 16


def kept_int8(block, at, phase):
    """@param block  32 residuals, or the bucket's last ones; the first one is element at"""
    exponent = min(max(x & ABS for x in block) + 0x1FFFF >> 23, 254)
    if exponent < 22:
        return [0] * len(block)
    out = []
    for e, x in enumerate(block, at):
        parts = round(abs(value(x)) * 2.0**(149 - exponent))
        size = min(parts + noise(e, phase) >> 16, 127)
        out.append(bits((-size if x >> 31 else size) * 2.0**(exponent - 133)))
    return out


def kept(form, left, phase):
    """What remains of residuals in fewer bits."""
    phase += 2
    if form == "bf16":
        return [kept_bf16(x, e, phase) for e, x in enumerate(left)]
    if form == "int8":
        return sum((kept_int8(left[at:at + 32], at, phase) for at in range(0, len(left), 32)), [])
    return left


def encode(spec, phase, x, residual):
    """@return the code, and the residual afterwards (None without feedback)"""
    codec, fed = parse(spec, phase)
    assert fed == (residual is not None)
    x = with_momentum(spec, phase, codec.unit, x)
    v = x if residual is None else [add(a, b) for a, b in zip(x, residual)]
    code, left = b"", list(residual) if fed else None
    if hasattr(codec, "begin"):
        codec.begin(v)
    for at in range(0, len(v), codec.unit):
        unit = v[at:at + codec.unit]
        codec.element, codec.phase = at, phase
        part = codec.encode_unit(unit, phase, fed)
        code += part
        if fed and all(map(finite, unit)):
            decoded, _ = codec.decode_unit(part, len(unit))
            # onebit's sum may overflow though every v is finite: the unit is then not sent
            if decoded[0] != NAN:
                left[at:at + codec.unit] = [subtract(a, b) for a, b in zip(unit, decoded)]
                if phase == 0 and "ef21" in suffixes_of(spec, phase):
                    left[at:at + codec.unit] = [within_range(subtract(a, b)) for a, b in
                                                zip(left[at:at + codec.unit], x[at:at + codec.unit])]
    return code, kept(suffixes_of(spec, phase).get("ef"), left, phase)


def decode(spec, phase, code, n, v=None):
    """@param v  what was encoded, for the statistics of a round; None: zeros"""
    codec, codec.fed = parse(spec, phase)
    out = []
    if hasattr(codec, "begin"):
        codec.begin(v or [0] * n)
    if codec.unit == 1:
        out, used = codec.decode_unit(code, n)
        require(used == len(code), "bytes are left over")
        return out
    while len(out) < n:
        codec.element = len(out)
        codec.element, codec.phase = len(out), phase
        part, used = codec.decode_unit(code, min(codec.unit, n - len(out)))
        out, code = out + part, code[used:]
    require(not code, "bytes are left over")
    return out


def sum_codes(spec, inputs):
    """@return each member's code, their sum as it goes back, and what that decodes to"""
    codec, _ = parse(spec, 0)
    codec.members, n = len(inputs), len(inputs[0])
    codes, total, out = [b""] * len(inputs), b"", []
    for at in range(0, n, codec.unit):
        codec.element = at
        parts = [x[at:at + codec.unit] for x in inputs]
        codec.agree(parts)
        steps = []
        for codec.member, part in enumerate(parts):
            steps.append(codec.steps(part))
        codes = [code + codec.pack(s, codec.width) for code, s in zip(codes, steps)]
        sums = [codec.cut(sum(each)) for each in zip(*steps)]
        total += codec.pack(sums, codec.sum_width)
        out += codec.values(sums, len(parts[0]))
    return codes, total, out


class Delta:
    """Differences of words of 16 bits to those of a base."""
    WORDS, SAME, GAPS, LIST, MAP, ALL, RAW = 4096, 0, 1, 2, 3, 4, 5

    @staticmethod
    def words(data):
        return list(struct.unpack(f"<{len(data) // 2}H", data[:len(data) // 2 * 2]))

    @staticmethod
    def gaps(places):
        out, following = bytearray(), 0
        for place in places:
            gap, following = place - following, place + 1
            out += bytes([255] * (gap // 255) + [gap % 255])
        return struct.pack("<H", len(out)) + bytes(out)

    def places(self, places, n):
        """@return kind, bytes"""
        if len(places) == n:
            return self.ALL, b""
        if len(places) <= n // 8:
            gaps, listed = self.gaps(places), struct.pack(f"<{len(places)}H", *places)
            return (self.LIST, listed) if len(listed) < len(gaps) else (self.GAPS, gaps)
        bits = sum(1 << place for place in places)
        return self.MAP, bits.to_bytes((n + 7) // 8, "little")

    def steps(self, steps):
        """@return width, bytes, how many are written out"""
        options = []
        for width in range(1, 17):
            far = 2**width - 1
            others = [] if max(steps) <= far else [s for s in steps if s >= far]
            bits = sum(min(s, far) << width * i for i, s in enumerate(steps))
            code = bits.to_bytes((len(steps) * width + 7) // 8, "little")
            options.append((len(code) + 2 * len(others), width,
                            code + struct.pack(f"<{len(others)}H", *others), len(others)))
        return min(options)[1:]

    def encode_block(self, base, now):
        places = [i for i, (a, b) in enumerate(zip(base, now)) if a != b]
        if not places:
            return bytes([self.SAME])
        steps = []
        for i in places:
            d = (now[i] - base[i]) % 65536
            steps.append(2 * d - 1 if d < 32768 else 2 * (65536 - d) - 2)
        kind, where = self.places(places, len(now))
        width, how, others = self.steps(steps)
        code = struct.pack("<BHH", kind | width - 1 << 3, len(places), others) + where + how
        if len(code) > 2 * len(now):
            return bytes([self.RAW]) + struct.pack(f"<{len(now)}H", *now)
        return code

    def encode(self, base, now):
        a, b = self.words(base), self.words(now)
        code = b"".join(self.encode_block(a[at:at + self.WORDS], b[at:at + self.WORDS])
                        for at in range(0, len(b), self.WORDS))
        return code + now[len(now) // 2 * 2:]

    def take_places(self, kind, code, count, n):
        """@return places, bytes taken"""
        if kind == self.ALL:
            return list(range(n)), 0
        if kind == self.LIST:
            require(len(code) >= 2 * count, "bytes are missing")
            return list(struct.unpack_from(f"<{count}H", code)), 2 * count
        if kind == self.MAP:
            require(len(code) >= (n + 7) // 8, "bytes are missing")
            bits = int.from_bytes(code[:(n + 7) // 8], "little")
            return [i for i in range(bits.bit_length()) if bits >> i & 1], (n + 7) // 8
        require(len(code) >= 2, "bytes are missing")
        size, = struct.unpack_from("<H", code)
        require(len(code) >= 2 + size, "bytes are missing")
        places, following = [], 0
        for gap in code[2:2 + size]:
            following += gap
            if gap != 255:
                places.append(following)
                following += 1
        require(size and code[1 + size] != 255, "the last gap")
        return places, 2 + size

    def decode_block(self, base, code):
        n = len(base)
        require(code, "bytes are missing")
        kind, width = code[0] & 7, (code[0] >> 3) + 1
        if code[0] == self.SAME:
            return list(base), 1
        if code[0] == self.RAW:
            require(len(code) >= 1 + 2 * n, "bytes are missing")
            return self.words(code[1:1 + 2 * n]), 1 + 2 * n
        require(self.SAME < kind < self.RAW and width <= 16 and len(code) >= 5, "the head")
        count, others = struct.unpack_from("<HH", code, 1)
        require(0 < count <= n and others <= count, "the counts")
        places, used = self.take_places(kind, code[5:], count, n)
        require(len(places) == count and places[-1] < n
                and all(a < b for a, b in zip(places, places[1:])), "the places")
        at, size = 5 + used, (count * width + 7) // 8
        require(len(code) >= at + size + 2 * others, "bytes are missing")
        bits = int.from_bytes(code[at:at + size], "little")
        steps = [bits >> width * i & 2**width - 1 for i in range(count)]
        if others:
            listed = list(struct.unpack_from(f"<{others}H", code, at + size))
            require(steps.count(2**width - 1) == others, "the others")
            steps = [listed.pop(0) if s == 2**width - 1 else s for s in steps]
        out = list(base)
        for place, step in zip(places, steps):
            z = (step + 1) % 65536
            out[place] = (out[place] + (z // 2 if z % 2 == 0 else -(z + 1) // 2)) % 65536
        return out, at + size + 2 * others

    def decode(self, base, code):
        words, out = self.words(base), b""
        for at in range(0, len(words), self.WORDS):
            part, used = self.decode_block(words[at:at + self.WORDS], code)
            out, code = out + struct.pack(f"<{len(part)}H", *part), code[used:]
        if len(base) % 2:
            require(code, "bytes are missing")
            out, code = out + code[:1], code[1:]
        require(not code, "bytes are left over")
        return out


def lossless16(spec, dtype):
    _, *params = spec.split(":")
    return Lossless16(dtype, **dict(p.split("=") for p in params))


def encode16(spec, dtype, x):
    codec = lossless16(spec, dtype)
    return b"".join(codec.encode_unit(x[at:at + codec.unit]) for at in range(0, len(x), codec.unit))


def decode16(spec, dtype, code, n):
    codec, out = lossless16(spec, dtype), []
    while len(out) < n:
        part, used = codec.decode_unit(code, min(codec.unit, n - len(out)))
        out, code = out + part, code[used:]
    require(not code, "bytes are left over")
    return out
