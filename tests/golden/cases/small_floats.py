# SPDX-License-Identifier: Apache-2.0
"""fp8, mxfp8, mxfp4 and nvfp4."""
from .records import ODD, floats, random, record, refused, words


def fp8_cases():
    for number in ("e4m3", "e5m2"):
        for rounding in ("", ":round=random"):
            spec = ("fp8" if number == "e4m3" else "fp8:format=e5m2") + rounding
            yield record(spec + ":block=32", floats(448, -64, 1.0625, 0.001) + [0] * 28 + random(1, 45))
            yield record(spec, random(2, 500) + random(3, 40, 2.0**-12), phase=1)
            yield record(spec + ":block=96+ef", random(4, 130), random(5, 130, 0.1))
        spec = spec.replace(":round=random", "")
        yield record(spec, ODD[:5] + ODD[8:] + random(6, 300, 2.0**17))
        yield record(spec + ":block=32", random(7, 32, 2.0**-100) + random(8, 32, 2.0**-127) + [0] * 32)
        yield record(spec + ":block=32", [0x7F7FFFFF] * 16 + random(9, 30, 2.0**127 * 1.99))
        x = random(10, 96)
        x[40], x[70] = 0x7F800000, 0xFFC00001
        yield record(spec + ":block=32+ef", x, random(11, 96, 0.01))
    for fault in (0xBF800000, 0x7F800000, 0x7FC00001, 0x7B124925):
        yield refused("fp8:block=32", 32, words(fault) + bytes(32))
    yield refused("fp8:format=e5m2:block=32", 32, words(0x77924925) + bytes(32))
    yield refused("fp8:block=32", 32, bytes(35))
    yield refused("fp8:block=32", 33, bytes(37))


def mx_cases(name):
    plain = [name] + [name + ":format=e5m2"] * (name == "mxfp8")
    for spec in plain + [x.replace(name, name + ":round=random") for x in plain]:
        yield record(spec, floats(7, -2.5, 0.3, 0.01))
        yield record(spec, random(1, 100) + random(2, 45, 2.0**-9), phase=1)
        yield record(spec, ODD + random(3, 40, 2.0**-127) + [0] * 32 + random(4, 70, 2.0**127 * 1.99))
        x = random(5, 300)
        x[140], x[299] = 0x7F800000, 0xFFC00001
        yield record(spec + "+ef", x, random(6, 300, 0.1))
    bytes_of = 4 + (128 if name == "mxfp8" else 64)
    yield refused(name, 128, bytes(bytes_of - 1))
    yield refused(name, 128, bytes(bytes_of + 1))
    yield refused(name, 129, bytes(bytes_of + 1))


def nvfp4_cases():
    for spec in ("nvfp4", "nvfp4:round=random"):
        block = spec + ":block=64"
        yield record(block, floats(7, -2.5, 0.3, 0.01) + [0] * 12 + floats(1, -0.25))
        yield record(spec, random(1, 1024) + random(2, 100, 2.0**-9), phase=1)
        yield record(block, ODD + random(3, 41, 2.0**-11) + ODD[:6] + ODD[8:] + random(4, 43, 2.0**15))
        yield record(block, random(5, 64, 2.0**-100) + random(6, 64, 2.0**-127) + [0] * 64)
        yield record(block, [0x7F7FFFFF] * 20 + random(7, 50, 2.0**127 * 1.99))
        x = random(8, 200)
        x[100], x[199] = 0x7F800000, 0xFFC00001
        yield record(block + "+ef", x, random(9, 200, 0.1))
    for fault in (0xBF800000, 0x7F800000, 0x7FC00001, 0x79C30C31):
        yield refused("nvfp4:block=64", 64, words(fault) + bytes(36))
    yield refused("nvfp4:block=64", 64, bytes(39))
    yield refused("nvfp4:block=64", 65, bytes(45))
