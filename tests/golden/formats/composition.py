# SPDX-License-Identifier: Apache-2.0
"""Specs: which codec they name and what they add to it; the code of a bucket, unit by unit."""
from .binary32 import ABS, INF, NAN, add, bits, finite, multiply, require, subtract, value
from .casts import Bf16, Fp16, NoCodec
from .lossless import Lossless
from .low_rank import Powersgd
from .philox import noise
from .quantisers import Bounded, Int2, Int4, Natural, Qsgd, int8
from .signs import Onebit, Signsgd, Signum
from .small_floats import Fp8, Mxfp4, Mxfp8, Nvfp4
from .sparse import Dgc, Hashed, Randk, Threshold, Topk, Topkc, Union
from .summable import Sharedint, Terngrad, Thc

CODECS = {"none": NoCodec, "lossless": Lossless, "bf16": Bf16, "fp16": Fp16, "int8": int8,
          "onebit": Onebit, "topk": Topk, "signsgd": Signsgd, "signum": Signum,
          "sharedint": Sharedint, "randk": Randk, "union": Union, "topkc": Topkc, "dgc": Dgc,
          "hashed": Hashed, "threshold": Threshold, "thc": Thc, "qsgd": Qsgd, "natural": Natural,
          "terngrad": Terngrad, "powersgd": Powersgd, "int4": Int4, "int2": Int2,
          "bounded": Bounded, "fp8": Fp8, "mxfp8": Mxfp8, "mxfp4": Mxfp4, "nvfp4": Nvfp4}

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
