# SPDX-License-Identifier: Apache-2.0
"""Seeds of what is read from files, from settings and from codes."""
import hashlib
import re
import struct
import sys
from pathlib import Path

from seed_corpus import seeds, write

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden"


def known_specs():
    table = re.search(r"specs\[\] = \{(.*?)\};", (HERE / "codecs.c").read_text(), re.S)
    return re.findall(r'"([^"]*)"', table[1])


def codec_of(spec):
    return re.match("[a-z0-9]+", spec)[0]


def records():
    """@return file, record"""
    for path in sorted(GOLDEN.glob("*.golden")):
        for block in path.read_text().split("\n\n"):
            lines = [l.split(" ", 1) for l in block.splitlines() if l and not l.startswith("#")]
            if lines:
                yield path.stem, dict(lines)


def digest(record):
    """Of what a record asks, without what is answered: @return 4 bytes"""
    asks = sorted((key, value) for key, value in record.items()
                  if key not in ("code", "decoded", "left", "sum"))
    return hashlib.sha256(repr(asks).encode()).digest()[:4]


def elements(text):
    if text.startswith("random"):
        return None
    if text.startswith("repeat"):
        _, count, pattern = text.split(" ")
        return (bytes.fromhex(pattern) * int(count))[:4 * int(count)]
    return bytes.fromhex(text)


def differences(stem, record):
    base, code = (bytes.fromhex(record[key]) for key in ("base", "refused" if "refused" in record
                                                         else "code"))
    write("delta", f"{stem}-{digest(record).hex()}", struct.pack("<H", len(base)) + base + code)


def sums(number, name, record):
    """Of codes that add up: the first one, and the sum."""
    codes, n = bytes.fromhex(record["code"]), int(record["members"])
    head = struct.pack("<H", len(elements(record["input"])) // 4 // n)
    write("decode", name, bytes([number, 0]) + head + codes[:len(codes) // n])
    write("decode", name + "-sum", bytes([number, 1]) + head + bytes.fromhex(record["sum"]))


def refuse_codecs_without_codes(specs):
    """A codec of which the seeds are no more than any codec has would hardly be fuzzed."""
    for target in ("decode", "roundtrip"):
        seeded = {codec_of(specs[data[0]]) for path, data in seeds.items()
                  if path.startswith(f"{target}/")}
        left = sorted({codec_of(spec) for spec in specs} - seeded)
        if left:
            sys.exit(f"{target} has no frozen code of {', '.join(left)}: have {HERE}/codecs.c name a spec "
                     f"that {GOLDEN} has")


def codes():
    specs = known_specs()
    for stem, record in records():
        if record["spec"] == "delta":
            differences(stem, record)
        if record["spec"] not in specs:
            continue
        number, phase = specs.index(record["spec"]), int(record.get("phase", 0))
        name, alignment = f"{stem}-{digest(record).hex()}", digest(record)[0] % 4
        if "members" in record:
            sums(number, name, record)
            continue
        if "refused" in record:
            code, n = bytes.fromhex(record["refused"]), int(record["elems"])
        else:
            data = elements(record["input"])
            if data is None or len(data) > 8192:
                continue
            short = "dtype" in record
            code, n = bytes.fromhex(record["code"]), len(data) // (2 if short else 4)
            if not short:
                rows = int(record.get("rows", 0))
                write("roundtrip", name,
                      bytes([number, phase | rows << 1]) + data + bytes.fromhex(record.get("residual", "")))
        write("decode", name, bytes([number, phase | 16 * alignment]) + struct.pack("<H", n) + code)
    refuse_codecs_without_codes(specs)
    for number, spec in enumerate(specs):  # at least something for each
        write("decode", f"zeros-{number}", bytes([number, 0]) + struct.pack("<H", 8) + bytes(36))
        write("roundtrip", f"few-{number}",
              bytes([number, 0]) + struct.pack("<8f", 1, -2, .5, 0, 1e-40, 3e38, -7, 65519))
    # a sampled unit: 16384 elements of which 3 are sent
    write("decode", "topk-sampled", bytes([specs.index("topk:ratio=0.002"), 0]) +
          struct.pack("<HI3f3H", 16384, 3, 1, -2, 3, 5, 70, 16383) + bytes(2))
    write("decode", "none-tiles", bytes([0, 0]) + struct.pack("<H", 9000) + bytes(36000))


def specs():
    good = known_specs() + ["topk:ratio=.01+ef", "int8:block=0256", "onebit:means=2:block=2048",
                            "bf16>none", "none>none", "topk:select=exact:ratio=0.000001", "topk/int8",
                            "topk:ratio=0.001/int8:block=64+ef+momentum+warmup:steps=5",
                            "onebit+ef+nesterov:beta=.5>int8", "randk+warmup:steps=1000",
                            "int8+ef:residual=bf16", "int8+ef:residual=int8"]
    bad = ["", "int8:", "int8:block", "int8:block=-32", "topk:ratio=nan", "onebit+ef+ef", "a>b>c",
           "onebit+ef:means=2", "int8:block=64:block=64", "int8:block=96>onebit", ">", "int8>",
           "topk:ratio=0.0000000000000001", "topk:ratio=1.", "x" * 200,
           "topk//", "topk/", "topk/int8/bf16", "topk/int8+ef/bf16", "topk+warmup:steps=0",
           "int8+momentum:beta=1", "int8+momentum+nesterov", "dgc+warmup", "int8+warmup",
           "none+momentum", "topk/int8+momentum:beta=.5:beta=.5", "int8>onebit+momentum"]
    for text in good:
        write("spec", "good-" + re.sub("[^a-z0-9.]+", "-", text), text)
    for i, text in enumerate(bad):
        write("spec", f"bad-{i:02}", text)


def config():
    lines = ["WRING_RANK=3", "WRING_SIZE=-1", "WRING_CHUNK_BYTES=256k", "WRING_CHUNK_BYTES=0x10000",
             "WRING_SPIN=20us", "WRING_SPIN=1.5ms", "WRING_TIMEOUT=1e3", "WRING_CPU=avx2",
             "WRING_PROGRESS=caller", "WRING_KEY=secret", "WRING_BIND=127.0.0.1",
             "WRING_WINDOW=nan", "WRING_WINDOW=4.5", "WRING_FLAT_BYTES=8k", "WRING_NONE=1",
             "WRING_HEARTBEAT=3600s", "WRING_LOG=debug", "WRING_RANK=9223372036854775808",
             "WRING_EXECUTOR=" + "x" * 300, "WRING_CHUNK_BYTES=64m", "WRING_SPIN=-1us"]
    for i, line in enumerate(lines):
        write("config", f"{i:02}", line)
    write("config", "all", "\n".join(lines))


def settings():
    texts = ["rate=1gbit", "rate=500mbit", "rate=0", "rate=-1gbit", "rate=1e9bit", "rate=nanbit",
             "rate=1", "rate", "", "rate=1gbit,rate=2gbit", "127.0.0.1", "::1", "fe80::1%lo",
             "rate=1gbit,delay=2ms,jitter=1ms,corrupt=1e-4,disconnect=after:1000,seed=7,rank=2",
             "disconnect=after:64mb", "disconnect=0.5", "delay=11s", "40000-40100", "9-1", "^=eth0,lo",
             "eth,ib", "0.0.0.0", "224.0.0.1", "[::1]", "256.1.1.1", "localhost", "1"]
    for i, text in enumerate(texts):
        write("settings", f"{i:02}", text)


def text(words):
    return struct.pack("<I", len(words)) + words.encode()


def span(whose, begin, end):
    return struct.pack("<IQQ", whose, begin, end) + struct.pack(f"<{end - begin}f",
                                                                 *range(end - begin))


def residuals(name, elems, spec, steps, *spans):
    """A bucket of a wringst1."""
    return (text(name) + struct.pack("<Q", elems) + text(spec) +
            struct.pack("<QI", steps, len(spans)) + b"".join(spans))


def saved(name, elems, spec, steps, *spans, arrays=()):
    return (residuals(name, elems, spec, steps, *spans) +
            struct.pack("<I", len(arrays)) + b"".join(arrays))


def array(name, holder, count, *runs, elem_bytes=4):
    """What a codec keeps. @param runs (begin, end) that follow"""
    return (text(name) + struct.pack("<IIQI", holder, elem_bytes, count, len(runs)) +
            b"".join(struct.pack("<QQ", *run) + bytes((run[1] - run[0]) * elem_bytes) for run in runs))


def state():
    a = saved("a", 40, "int8:block=32+ef", 5, span(0, 0, 0), span(1, 0, 40), span(0, 40, 40))
    b = saved("b", 30, "onebit+ef", 5, span(0, 0, 0), span(1, 0, 0), span(0, 0, 30))
    head = struct.pack("<3I", 0, 1, 2)
    write("state", "both", head + a + b)
    write("state", "other-rank", struct.pack("<3I", 1, 2, 2) + b + a)
    write("state", "one", struct.pack("<3I", 0, 1, 1) + a)
    write("state", "unknown-bucket", head + saved("c", 3, "bf16+ef", 1, span(0, 0, 3)) + a)
    write("state", "other-codec", head + a.replace(b"int8", b"int9") + b)
    write("state", "pieces", struct.pack("<3I", 0, 1, 1) +
          saved("b", 30, "onebit+ef", 2**63, *(span(i % 2, i, i + 7) for i in range(0, 23))))
    write("state", "second-is-bad", head + a + b[:-1])
    write("state", "outside", struct.pack("<3I", 0, 1, 1) +
          saved("b", 30, "onebit+ef", 1, span(0, 20, 40)))
    write("state", "empty", struct.pack("<3I", 0, 1, 0))
    a1 = residuals("a", 40, "int8:block=32+ef", 5, span(0, 0, 0), span(1, 0, 40), span(0, 40, 40))
    b1 = residuals("b", 30, "onebit+ef", 5, span(0, 0, 0), span(1, 0, 0), span(0, 0, 30))
    write("state", "first-both", head + a1 + b1)
    write("state", "first-second-is-bad", head + a1 + b1[:-1])
    write("state", "first-with-arrays", struct.pack("<3I", 0, 1, 3) + a1 + b1 +
          residuals("m", 20, "mom", 5))
    version = " (version 0)"
    m = saved("m", 20, "mom" + version, 5, arrays=[array("mom", 0, 20, (0, 20))])
    o = saved("o", 50, "ownmom" + version, 5, arrays=[array("sums", 1, 50, (0, 32), (32, 50))])
    write("state", "arrays", struct.pack("<3I", 0, 1, 4) + a + b + m + o)
    write("state", "array-of-others", struct.pack("<3I", 3, 4, 2) + m + o)
    for i, other in enumerate([array("mom", 1, 20, (0, 20)), array("mum", 0, 20, (0, 20)),
                               array("mom", 0, 21, (0, 21)), array("mom", 0, 20, (5, 25)),
                               array("mom", 0, 20, (0, 5), elem_bytes=8),
                               array("mom", 0, 20, (0, 0), elem_bytes=0)]):
        write("state", f"array-{i}", struct.pack("<3I", 0, 1, 1) +
              saved("m", 20, "mom" + version, 5, arrays=[other]))


def signature():
    def say(codec="int8", seed=1, elems=1000):
        return (f"elems={elems}\ntype=f32\nop=sum\ncodec={codec}\nscheme=auto\nseed={seed}\n"
                "WRING_CHUNK_BYTES=262144\nWRING_FLAT_BYTES=8192\nWRING_WINDOW=4\nWRING_BYPASS=auto\n")

    write("signature", "same", say() + "\0" + say())
    write("signature", "codec", say() + "\0" + say(codec="bf16"))
    write("signature", "several", say() + "\0" + say(codec="topk+ef", seed=2))
    write("signature", "long", say(codec="x" * 100 + "y") + "\0" + say(codec="x" * 100 + "z"))
    write("signature", "longest", say(codec="x" * 600) + "\0" + say())
    write("signature", "other-terms", say() + "\0" + "a=b\nc\n=\n\n")
    write("signature", "nothing", "")


def planner():
    """The good file of each format's tests; each of its values as something else; and its parts."""
    values = ["0", "-1", "9223372036854775808", "1e999", "1.5", "NaN", "null", '"x"', "[]", "{}"]
    value = re.compile(r'(?<=[:\[ ])(?:-?\d[\d.]*|"[\w=:+ -]*"|null|true)(?=[,}\]\n])')
    for target in ("plan", "profile", "tensor_trace"):
        tests = HERE.parent / "planner"
        files = [tests / f"good_{target}.c", tests / f"test_{target}.c"]
        source = next(file for file in files if file.exists()).read_text()
        good, *others = (
            "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literal)).replace('\\"', '"').replace("\\n", "\n")
            for literal in re.findall(r"good\w*\[\] =(.*?);\n\n", source, re.S))
        write(target, "good", good)
        for i, other in enumerate(others, 2):
            write(target, f"good-{i}", other)
        for i, place in enumerate(value.finditer(good)):
            other = values[i % len(values)]
            write(target, f"value-{i:02}", good[:place.start()] + other + good[place.end():])
        for i in range(1, 8):
            write(target, f"cut-{i}", good[:len(good) * i // 8])
        write(target, "twice", good.replace('"version": 1,', '"version": 1, "version": 1,'))
        write(target, "deep", "[" * 3000)
        write(target, "empty", "")


def gradients():
    """A good file, each of its head's numbers as others, and its parts."""
    def sized(text):
        return struct.pack("<I", len(text)) + text
    def make(version=1, tensors=2, steps=3, ranks=1, source=b"by hand", numbers=(4, 5, 9), kept=3,
             elements=70000, name=b"b", value=0.5, more=b""):
        body = b"".join(struct.pack("<Q", number) for number in numbers)
        body += sized(b"a") + struct.pack("<QI", 1, 1)
        body += sized(name) + struct.pack("<QI", elements, kept)
        body += struct.pack("<12f", *[value * i for i in range(12)]) * min(ranks, 2)
        counts = (version, tensors, steps) + ((ranks,) if version == 2 else ())
        return (b"wring-gradients\n" + struct.pack(f"<{len(counts)}I", *counts) + sized(source) +
                body + more)
    good = make()
    write("gradients", "good", good)
    for i in range(1, 12):
        write("gradients", f"cut-{i:02}", good[:len(good) * i // 12])
    changes = [dict(version=3), dict(tensors=0), dict(tensors=2**32 - 1), dict(steps=0),
               dict(steps=4096), dict(steps=2**31), dict(source=b"\xff"), dict(numbers=(4, 4, 9)),
               dict(numbers=(2**64 - 1, 0, 1)), dict(kept=0), dict(kept=2**32 - 1),
               dict(kept=2**26), dict(elements=0), dict(elements=2), dict(elements=2**64 - 1),
               dict(name=b"a"), dict(name=b""), dict(name=b"\x00"), dict(name=b"x" * 513),
               dict(value=float("nan")), dict(value=float("inf")), dict(more=b"!"),
               dict(version=2, ranks=2), dict(version=2), dict(version=2, ranks=1025),
               dict(version=2, ranks=3)]
    for i, change in enumerate(changes):
        write("gradients", f"value-{i:02}", make(**change))
    write("gradients", "empty", b"")


MAKERS = (planner, gradients, signature, codes, specs, config, settings, state)
