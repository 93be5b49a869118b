# SPDX-License-Identifier: Apache-2.0
"""lossless, also of elements of 16 bits, and delta."""
import struct

from formats import composition
from formats.binary32 import Malformed, u32
from formats.lossless import Delta, decode16, encode16

from .records import LOST, ODD, floats, random, record, refused, words


def lossless_cases():
    block = "lossless:block=32"
    yield record("lossless", ODD + LOST + random(3, 600) + random(5, 300, 2.0**-13))
    yield record(block, random(7, 45) + [0] * 51 + ODD + LOST + random(8, 36, 2.0**-127))
    yield record(block, floats(1, -1.5, 0.25, -0.0, 1 / 3))
    yield record(block, [0x80000000] * 32 + [0] * 32 + [0x3F800000] * 3)
    yield record(block, floats(*(2.0**-i for i in range(14))) + random(9, 82), phase=1)
    yield record("lossless:block=64", [(i * 0x9E3779B1) % 2**32 for i in range(100)])
    yield record("lossless:block=4096", random(10, 5000), said="random 10 5000")
    yield record("lossless", random(11, 300) + floats(8, -100.0) + random(12, 210))  # above the top
    yield record("lossless", random(13, 80, 2.0**-13) + random(14, 432))  # the largest instead
    yield record("lossless", [0] * 64 + random(15, 200) + floats(2.0**100) * 3)  # tried in vain
    for head in (0x00007F02, 0x00007F05, 0x00000100, 0x00010000, 0x00007F08):
        yield refused(block, 4, words(head) + bytes(4 * 4))
    yield refused(block, 4, words(0x00057F03, 0, 0, 0, 0xFFFFFF, 0))
    yield refused(block, 4, words(0x00017F03, 0, 0, 0, 0))
    yield refused(block, 4, words(0x00007F03, 0, 0, 0, 0x070707))
    yield refused(block, 4, words(0x00007F03, 0, 0, 0))
    yield refused(block, 4, words(0x00007F03, 0, 0, 0, 0, 0))
    yield refused(block, 4, words(8, 0, 0, 0))
    yield refused(block, 4, words(0, 0))
    yield refused(block, 33, words(0))


def shorts(elements):
    return struct.pack(f"<{len(elements)}H", *elements).hex()


def record16(spec, dtype, x):
    code = encode16(spec, dtype, x)
    assert decode16(spec, dtype, code, len(x)) == x
    return [f"spec {spec}", f"dtype {dtype}", f"input {shorts(x)}", f"code {code.hex()}",
            f"decoded {shorts(x)}"]


def refused16(spec, dtype, elems, code):
    try:
        decode16(spec, dtype, code, elems)
    except Malformed:
        return [f"spec {spec}", f"dtype {dtype}", f"elems {elems}", f"refused {code.hex()}"]
    raise AssertionError(f"{spec} of {dtype}: {code.hex()} is well-formed")


def narrowed(dtype, x):
    """Elements of f32, some of them odd, as ones of 16 bits."""
    name = {"bf16": "bf16", "f16": "fp16"}[dtype]
    code, _ = composition.encode(name, 0, x, None)
    return list(struct.unpack(f"<{len(x)}H", code))


def lossless16_cases():
    block, any_bits = "lossless:block=32", [i * 0x9E37 & 0xFFFF for i in range(100)]
    for dtype in ("bf16", "f16"):
        odd = [0, 0x8000, 1, 0x8001, 0x7C00, 0xFC00, 0x7E01, 0xFD12, 0x7F80, 0xFF80, 0x7FC1, 0x7F81]
        yield record16("lossless", dtype, odd + narrowed(dtype, random(3, 600)))
        yield record16("lossless", dtype, narrowed(dtype, random(5, 500, 2.0**-13)) + [0] * 1030)
        yield record16(block, dtype, narrowed(dtype, floats(1, -1.5, 0.25, -0.0, 1 / 3) + floats(1) * 27))
        yield record16(block, dtype, [0x8000] * 32 + [0] * 40 + narrowed(dtype, floats(1) * 3))
        yield record16(block, dtype, narrowed(dtype, floats(*(2.0**-i for i in range(14))) + random(9, 82)))
        yield record16("lossless:block=64", dtype, any_bits)
        yield record16("lossless:block=4096", dtype, narrowed(dtype, random(10, 700)))
        yield record16("lossless", dtype, narrowed(dtype, random(11, 300) + floats(8, -100.0) + random(12, 210)))
        yield record16("lossless", dtype, narrowed(dtype, random(13, 80, 2.0**-13) + random(14, 432)))
        yield record16("lossless", dtype, narrowed(dtype, [0] * 64 + random(15, 200) + floats(2.0**15) * 3))
        more = 3 if dtype == "f16" else 0
        for head in (b"\1", b"\2", b"\5", b"\x10", b"\3\1", b""):
            yield refused16(block, dtype, 4, head)
        yield refused16(block, dtype, 4, b"\3\x1F\5\0" + bytes(4 + more) + b"\xFF\xFF\xFF" + bytes(5))
        yield refused16(block, dtype, 4, b"\3\x1F\1\0" + bytes(4 + more + 3 + 1))
        yield refused16(block, dtype, 4, b"\3\x1F\0\0" + bytes(4 + more) + b"\7\7\7")
        yield refused16(block, dtype, 4, b"\3\x1F\0\0" + bytes(4 + more + 2))
        yield refused16(block, dtype, 4, b"\3\x1F\0\0" + bytes(4 + more + 4))
        yield refused16(block, dtype, 4, b"\x10" + bytes(9))
        yield refused16(block, dtype, 4, b"\0\0")
        yield refused16(block, dtype, 33, b"\0")
    yield refused16(block, "f16", 4, b"\3\x20\0\0" + bytes(4 + 3 + 3))


def difference(base, now):
    code = Delta().encode(base, now)
    assert Delta().decode(base, code) == now
    return ["spec delta", f"base {base.hex()}", f"input {now.hex()}", f"code {code.hex()}"]


def refused_difference(base, code):
    try:
        Delta().decode(base, code)
    except Malformed:
        return ["spec delta", f"base {base.hex()}", f"refused {code.hex()}"]
    raise AssertionError(f"delta: {code.hex()} is well-formed")


def delta_cases():
    def changed(base, *changes):
        words = Delta.words(base)
        for place, by in changes:
            words[place] = (words[place] + by) % 65536
        return struct.pack(f"<{len(words)}H", *words) + base[2 * len(words):]

    def numbers(seed, count):
        return b"".join(map(u32, random(seed, (count + 1) // 2)))[:2 * count]

    base, long = numbers(1, 200), numbers(2, 4096 + 700)
    yield difference(base, base)
    yield difference(base, changed(base, (5, 1)))
    yield difference(base + b"\7", changed(base, (0, 1), (1, -1), (199, 3), (100, -2)) + b"\x88")
    yield difference(base, changed(base, *((i, (-1)**i) for i in range(0, 200, 3))))
    yield difference(base, changed(base, *((i, i % 5 - 7) for i in range(200))))
    yield difference(base, numbers(3, 200))
    yield difference(bytes(2), b"\xFF\xFF")
    yield difference(b"", b"")
    yield difference(b"\1", b"\2")
    yield difference(base[:18], changed(base[:18], (2, 0x8000), (7, 0x7FFF), (8, 0x8001)))
    yield difference(long, changed(long, (300, 1), (1000, 1), (4096, -1), (4700, 5000)))
    yield difference(long, changed(long, *((i * 17, 1 if i % 9 else -(i * i)) for i in range(250))))
    yield difference(long, changed(long, *((i * 40, 1) for i in range(100))))
    short = base[:40]  # 20 words
    for code in (b"", b"\1", b"\6", b"\7", b"\x08", b"\x85\1\0\0\0", b"\2\0\0\0\0",
                 b"\2\1\0\0\0" + b"\x14\0\0", b"\2\2\0\0\0\3\0\3\0\0", b"\2\1\0\2\0\3\0\1\0\0",
                 b"\2\1\0\1\0\3\0\0\0\0", b"\2\1\0\1\0\3\0\1", b"\2\1\0\0\0\3\0\0\0",
                 b"\1\1\0\0\0\1\0\x14\0", b"\1\1\0\0\0\2\0\1\xFF\0", b"\1\2\0\0\0\1\0\1\0",
                 b"\1\1\0\0\0\2\0\1\1\0", b"\1\1\0\0\0\3\0\1", b"\3\1\0\0\0\3\0\0\0",
                 b"\3\1\0\0\0\0\0\x10\0", b"\3\1\0\0\0\1\0", b"\4\x13\0\0\0" + bytes(3),
                 b"\5" + bytes(39), b"\5" + bytes(41), b"\0\0"):
        yield refused_difference(short, code)
    yield refused_difference(short + b"\1", b"\0")
