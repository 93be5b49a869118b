# SPDX-License-Identifier: Apache-2.0
"""topk, dgc, threshold, hashed, randk, union and topkc: some elements, and where they are."""
import math
import struct

from .binary32 import ABS, NAN, add, bits, divide, finite, multiply, read_u32, require, u32, value
from .philox import drawn


def in_units(codec, element, phase, n):
    """Where the units of a run begin, and how long they are."""
    size = n if codec.unit == 1 else codec.unit
    for at in range(0, n, size or 1):
        codec.element, codec.phase = element + at, phase
        yield at, min(size, n - at)


def wanted(ratio, n):
    return min(n, max(1, math.ceil(ratio * n)))


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
