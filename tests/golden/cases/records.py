# SPDX-License-Identifier: Apache-2.0
"""What cases are made of: inputs, and the lines of a record."""
import struct

from formats import composition
from formats.binary32 import Malformed, bits, multiply, u32
from formats.low_rank import Powersgd

ODD = [0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F7F7FFF,
       0x7F7F8000, 0x3F808000, 0x3F818000, 0x3F800000, 0xBF800000, 0x477FEFFF, 0xC77FF000,
       0x47800000, 0x33000000, 0xB3000001, 0x33C00000, 0x387FE000, 0x387FC000, 0x38800000]
LOST = [0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001]


def random(seed, count, factor=1.0):
    out = []
    for _ in range(count):
        seed ^= seed << 13 & 0xFFFFFFFF
        seed ^= seed >> 17
        seed ^= seed << 5 & 0xFFFFFFFF
        number = seed - 2**32 if seed >= 2**31 else seed
        out.append(multiply(bits(number), bits(factor * 2.0**-31)))
    return out


def floats(*numbers):
    return [bits(x) for x in numbers]


def hexadecimal(elements):
    return b"".join(map(u32, elements)).hex()


def words(*numbers):
    return struct.pack(f"<{len(numbers)}I", *numbers)


def record(spec, x, residual=None, phase=0, said=None, rows=0):
    """said: how the input is written, where it is too long to be spelt out."""
    Powersgd.rows = rows
    code, left = composition.encode(spec, phase, x, residual)
    v = composition.encoded(spec, phase, x, residual)
    decoded = composition.decode(spec, phase, code, len(x), v)
    lines = [f"spec {spec}", f"phase {phase}", f"input {said or hexadecimal(x)}"]
    if rows:
        lines.append(f"rows {rows}")
    if residual is not None:
        lines.append(f"residual {hexadecimal(residual)}")
    lines.append(f"code {code.hex()}")
    if residual is not None:
        lines.append(f"left {hexadecimal(left)}")
    if said is None:
        lines.append(f"decoded {hexadecimal(decoded)}")
    return lines


def summed(spec, *inputs):
    codes, total, decoded = composition.sum_codes(spec, inputs)
    return [f"spec {spec}", f"members {len(inputs)}", f"input {hexadecimal(sum(inputs, []))}",
            f"code {b''.join(codes).hex()}", f"sum {total.hex()}", f"decoded {hexadecimal(decoded)}"]


def refused(spec, elems, code):
    try:
        composition.decode(spec, 0, code, elems)
    except Malformed:
        return [f"spec {spec}", f"elems {elems}", f"refused {code.hex()}"]
    raise AssertionError(f"{spec}: {code.hex()} is well-formed")
