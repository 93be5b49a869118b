# SPDX-License-Identifier: Apache-2.0
"""powersgd."""
from .binary32 import NAN, add, bits, finite, multiply, read_u32, require, root_below, u32, value
from .philox import drawn


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
