# SPDX-License-Identifier: Apache-2.0
"""What a spec adds to a codec, and pairs of codecs."""
from formats import composition

from .records import LOST, ODD, floats, random, record, refused, words


def suffix_cases():
    """What specs add to a codec."""
    block = "topk:block=256:ratio=0.05"
    yield record(block + "/int8:block=32", random(1, 300) + [0] * 212 + floats(5))
    yield record(block + "/int8+ef", random(2, 300), random(3, 300, 0.2))
    yield record(block + "/bf16", random(4, 300, 2.0**-100), phase=1)
    yield record("topk:block=256:ratio=1/bf16+ef", ODD + random(5, 300), random(6, 323, 0.01))
    yield record(block + "/onebit:block=32+ef", random(7, 256) + [0x80000000] * 3, random(8, 259))
    yield record("topk:ratio=0.02/fp16", random(9, 16384), said="random 9 16384")
    yield record("topk:ratio=0.1/natural", random(10, 400))
    yield record("topk:ratio=0.1/qsgd:block=32+ef", random(10, 100), random(11, 100))
    yield record(block + "/fp16", random(4, 600, 2.0**17))
    yield record(block + "/fp16+ef", random(4, 300, 2.0**17), random(5, 300))
    x = random(11, 400)
    x[300] = 0x7F800000
    yield record(block + "/int8+ef", x, random(12, 400, 0.1))
    yield record("topk+warmup", random(13, 300))
    yield record("topk:ratio=0.5+warmup:steps=7", random(14, 50), phase=1)
    yield record("randk:block=32+warmup+ef", random(15, 70), random(16, 70, 0.2))
    yield record("randk:block=32+warmup", random(17, 70), phase=1)
    yield record("topkc:chunk=32:block=256+warmup", random(18, 300))
    yield record("hashed:block=256+warmup", random(19, 300))
    for suffix in ("+momentum", "+nesterov", "+momentum:beta=0.5", "+nesterov:beta=0"):
        yield record("lossless:block=64" + suffix, random(20, 100) + ODD)
        yield record("onebit:block=32" + suffix + "+ef", random(21, 70), random(22, 70, 0.1))
        yield record("int8:block=32" + suffix, random(23, 40), phase=1)
    x[310] = 0xFFC00001
    yield record("int8:block=32+nesterov", x)
    yield record("bf16+nesterov", ODD + LOST + random(24, 9))
    yield record("sharedint:block=32+nesterov+ef", x, random(25, 400, 0.1))
    yield record("topkc:chunk=32:block=256+momentum+ef", random(26, 300), random(27, 300, 0.1))
    yield record(block + "/int8+warmup+nesterov+ef", random(28, 300), random(29, 300, 0.1))
    yield record("int8:block=32+ef21", random(30, 70), random(31, 70))
    yield record(block + "+ef21", x, random(32, 400), phase=0)
    yield record(block + "/bf16+momentum+ef21", random(33, 300), random(34, 300), phase=0)
    yield record("int8:block=32+ef21", random(35, 40), random(36, 40, 0.01), phase=1)
    coded = "topk:block=256/int8:block=32"  # 3 values
    yield refused(coded, 256, words(4) + bytes(16))
    yield refused(coded, 256, words(2, 0x3F800000, 0x00050101, 5))
    yield refused(coded, 256, words(2, 0xBF800000, 0x00050101, 6))
    yield refused(coded, 256, words(2, 0x7FC00000, 0x00050000, 6))
    yield refused(coded, 256, words(2, 0x3F800000, 0x00050101))
    yield refused(coded, 256, words(2, 0x3F800000, 0x00050101, 6, 0))
    yield refused(coded, 100, words(1, 0x3F800000, 0x00006401))
    yield refused("topk:block=256/bf16", 256, words(1, 0x00057F80))
    yield refused("topk:block=256/bf16", 256, words(1, 0x00057FC0))


def residual_cases():
    """Residuals of fewer bits: what a step leaves, rounded at random."""
    def before(form, seed, count, factor):
        return composition.kept(form, random(seed, count, factor), 0)

    for form in ("bf16", "int8"):
        ef = f"+ef:residual={form}"
        yield record("int8:block=32" + ef, random(1, 77), [0] * 77)
        yield record("int8:block=64" + ef, random(2, 150), before(form, 3, 150, 2.0**-8), phase=1)
        yield record("onebit:block=32" + ef, random(4, 70), before(form, 5, 70, 0.5))
        yield record("topk:block=256:ratio=0.05" + ef, random(6, 300, 2.0**-20) + [0] * 40,
                     before(form, 7, 340, 2.0**-20))
        x = random(8, 96)
        x[40] = 0x7F800000  # the second block keeps what it has
        yield record("int8:block=32" + ef, x, before(form, 9, 96, 0.01))
        yield record("onebit:block=32" + ef, random(10, 64, 2.0**-126) + random(11, 32, 2.0**-105) +
                     random(12, 32, 2.0**127), [0] * 128)
        yield record("onebit:block=64:means=2" + ef, random(13, 70), [0] * 70)
        yield record("topk:ratio=0.02" + ef, random(14, 5000), before(form, 15, 5000, 1.0),
                     said="random 14 5000")
    yield record("topk:block=256:ratio=0.05/int8+ef:residual=bf16", random(16, 300), [0] * 300)
    yield record("onebit:block=32+momentum+ef:residual=bf16", random(17, 70),
                 before("bf16", 18, 70, 0.1))
    pair = "onebit:block=64+ef:residual=int8>int8:block=32+ef:residual=int8"
    for phase in range(2):
        yield record(pair, random(19, 100), before("int8", 20, 100, 0.1), phase=phase)


def pair_cases():
    pair = "onebit:block=64+ef>int8:block=32"
    yield record(pair, random(1, 100), random(2, 100, 0.1), phase=0)
    yield record(pair, random(3, 100), phase=1)
    yield record("fp16>bf16+ef", ODD, phase=0)
    yield record("fp16>bf16+ef", ODD, random(4, len(ODD), 0.1), phase=1)
