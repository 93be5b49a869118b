# SPDX-License-Identifier: Apache-2.0
"""onebit, signsgd and signum: a bit an element."""
from .binary32 import (ABS, INF, NAN, add, bits, divide, finite, multiply, negate, read_u32,
                       require, subtract, u32)
from .philox import drawn


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
