#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The speed and the error of every codec, as a table in docs/results/compare.md.

    tests/peers/codec_rows.py build/tools/wring

measures on one core, which takes two minutes and wants a quiet machine, and writes the table in the
place of the one before. Each figure is the median of --runs runs, and a share that of their shares.
--check measures nothing: it ends with 1 if a codec has no row in the page.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "results" / "compare.md"
BEGIN, END = "<!-- begin: codec_rows.py -->", "<!-- end: codec_rows.py -->"
SPECS = """none lossless fp16 bf16 bf16:round=random fp16:round=random fp8 fp8:format=e5m2 mxfp8 mxfp4 nvfp4 int8
int4 int2 int8:range=minmax qsgd natural terngrad sharedint sharedint:width=4 thc thc:rotate=64 thc:width=4:clip=2.5
bounded:error=0.001 onebit onebit:means=2 signsgd signum topk:ratio=0.01 topk:ratio=0.01:index=packed
topk:ratio=0.01/int8 topk:ratio=0.01:select=exact randk:ratio=0.01 topkc:ratio=0.01 dgc:ratio=0.01
hashed:ratio=0.01 threshold:value=0.7 threshold:value=0.7:index=packed union powersgd int8+ef
onebit+ef topk:ratio=0.01+ef""".split()


def measure(wring, runs, seconds):
    """@return {codec: its results in each run}"""
    found = {}
    for _ in range(runs):
        run = subprocess.run([wring, "bench", "codec", "-c", ",".join(SPECS), "-e", "4m", "--seconds",
                              str(seconds), "--json"], capture_output=True, text=True, check=True)
        for result in json.loads(run.stdout)["results"]:
            found.setdefault(result["codec"], []).append(result)
    return found


def middle(results, name, over=None):
    return statistics.median(r[name] / (r[over] if over else 1) for r in results)


def row(codec, results):
    def speed(name):
        share = middle(results, f"{name}_gb_per_s", f"{name}_limit_gb_per_s")
        return f"{middle(results, f'{name}_gb_per_s'):.1f} ({100 * share:.0f} %)"
    of_memcpy = [f"{middle(results, f'{name}_gb_per_s', 'memcpy_gb_per_s'):.2f}"
                 for name in ("encode", "decode_add")]
    errors = [f"{results[0][name]:.3g}" for name in ("nmse", "nmse_sum")]
    return "| " + " | ".join([codec, speed("encode"), speed("decode_add"), ", ".join(of_memcpy),
                              f"{results[0]['ratio']:.4f}", *errors]) + " |"


def table(found):
    return "\n".join(["| codec | encode | decode-and-add | of memcpy | ratio | NMSE | of a sum of 4 |",
                      "|---|---|---|---|---|---|---|", *(row(*item) for item in found.items())])


def between(page):
    """The page's text up to the table, the table, and what follows."""
    before, rest = page.split(BEGIN + "\n")
    inside, after = rest.split(END)
    return before + BEGIN + "\n", inside, END + after


def without_rows(page, names):
    firsts = {line.split()[1].split(":")[0].split("/")[0].split("+")[0]
              for line in between(page)[1].splitlines()[2:]}
    return [name for name in names if name not in firsts]


def codecs_of(wring):
    info = subprocess.run([wring, "info", "--codecs", "--json"], capture_output=True, text=True,
                          check=True).stdout
    return [codec["name"] for codec in json.loads(info)["codecs"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wring", help="the tool")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.6, help="of each codec in a run")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if not options.check:
        before, _, after = between(PAGE.read_text(encoding="utf-8"))
        rows = table(measure(options.wring, options.runs, options.seconds))
        PAGE.write_text(before + rows + "\n" + after, encoding="utf-8")
    left = without_rows(PAGE.read_text(encoding="utf-8"), codecs_of(options.wring))
    if left:
        sys.exit(f"{PAGE} has no row of {', '.join(left)}: add them to SPECS, and run {sys.argv[0]}")


if __name__ == "__main__":
    main()
