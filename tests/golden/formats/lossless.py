# SPDX-License-Identifier: Apache-2.0
"""lossless and delta: what decodes to the same bits."""
import struct

from .binary32 import read_u32, require, u32


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
