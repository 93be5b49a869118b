#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Count the instructions of codecs and transport, and hold them against the record.

    counts.py COUNTS RECORD --build KEY [--record]

COUNTS is the program that does the work, RECORD the file of what it took: instructions per byte,
put or step, of one compiler, its options and the C library (KEY and what runs here). More than 3 %
above the record is a failure. More than 3 % below is one too, so that the record stays true, and
the next loss is measured from there: --record writes what is counted now. The result is told in
the Test Anything Protocol.

callgrind counts what the program executes, so the load of the machine does not matter. It knows
instruction sets up to AVX2, and nothing of what the kernel does.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

TOLERANCE = 0.03
PARTS = ("avx2", "scalar", "moves")
PATIENCE = 240  # seconds
CALLGRIND = ("--tool=callgrind", "--collect-atstart=no", "--toggle-collect=counted",
             "--dump-after=counted", "--fair-sched=yes")
# glibc would copy with `rep movsb`, which counts as an instruction for each byte
TUNABLES = "glibc.cpu.hwcaps=-ERMS,-FSRM"


class NotHere(Exception):
    """Nothing can be counted on this machine."""


def environment():
    bare = {k: v for k, v in os.environ.items() if not k.startswith("WRING_")}
    return {**bare, "GLIBC_TUNABLES": TUNABLES, "LD_BIND_NOW": "1"}


def read_dumps(folder):
    """The instructions of each dump, in their order."""
    totals = {}
    for path in folder.glob("out.*"):
        number = path.name.partition(".")[2]
        found = re.search(r"^(?:totals|summary): (\d+)", path.read_text(encoding="ascii"), re.M)
        if number.isdigit() and found:
            totals[int(number)] = int(found.group(1))
    return [totals[number] for number in sorted(totals)]


def count(program, part):
    """{name: (count, unit)} of one part of the work; the least of those of the same name."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", *CALLGRIND, f"--callgrind-out-file={folder}/out", program, part]
        done = subprocess.run(command, env=environment(), text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} exits {done.returncode}:\n{done.stderr}")
        totals = read_dumps(pathlib.Path(folder))
    lines = done.stdout.splitlines()
    if not lines or len(lines) != len(totals):
        raise RuntimeError(f"{part}: {len(totals)} dumps for {len(lines)} lines of output")
    counts = {}
    for line, total in zip(lines, totals):
        amount, unit, name = line.split(" ", 2)
        each = float(f"{total / float(amount):.4g}")
        if name not in counts or each < counts[name][0]:
            counts[name] = (each, unit)
    return counts


def has_avx2():
    try:
        return " avx2 " in pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii")
    except OSError:
        return False


def check_machine():
    if shutil.which("valgrind") is None:
        raise NotHere("valgrind is not installed")
    if not has_avx2():
        raise NotHere("the processor has no AVX2, with which the record was made")


def key_of(build):
    library, version = platform.libc_ver()
    return f"{build}, {library} {version}, {platform.machine()}"


def read_record(path):
    if not path.exists():
        return {}
    return json.loads(path.read_text(encoding="utf-8"))


def write_record(path, key, counts):
    record = read_record(path)
    record[key] = {name: list(value) for name, value in counts.items()}
    lines = []
    for build in sorted(record):
        entries = [f"    {json.dumps(name)}: {json.dumps(value)}"
                   for name, value in record[build].items()]
        lines.append(f"  {json.dumps(build)}: {{\n" + ",\n".join(entries) + "\n  }")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def verdict(counted, recorded):
    """What is wrong with a count, in one line; None if nothing is."""
    if recorded is None:
        return "is not in the record"
    if counted is None:
        return "is in the record and was not counted"
    change = counted[0] / recorded[0] - 1
    if counted[1] != recorded[1]:
        return f"is recorded per {recorded[1]} and counted per {counted[1]}"
    if change > TOLERANCE:
        return f"takes {100 * change:.1f} % more than {recorded[0]:g}, as recorded"
    if change < -TOLERANCE:
        return f"takes {-100 * change:.1f} % less than {recorded[0]:g}, as recorded: record it"
    return None


def compare(counts, record, how):
    """Tell each result. @return how many are wrong"""
    names = [*counts, *(name for name in record if name not in counts)]
    wrong = 0
    print(f"1..{len(names)}")
    for i, name in enumerate(names, 1):
        counted = counts.get(name)
        fault = verdict(counted, record.get(name))
        shown = f": {counted[0]:g} instructions per {counted[1]}" if counted else ""
        print(f"{'not ok' if fault else 'ok'} {i} - {name}{shown}")
        if fault:
            print(f"# {name} {fault}\n# if that is meant: {how}")
            wrong += 1
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("counts", metavar="COUNTS", help="the program")
    parser.add_argument("file", metavar="RECORD", type=pathlib.Path)
    parser.add_argument("--build", metavar="KEY", required=True, help="compiler and its options")
    parser.add_argument("--record", action="store_true", help="write what is counted now")
    arguments = parser.parse_args()
    key = key_of(arguments.build)
    how = "ninja -C BUILD record-counts, and commit tests/counts/recorded.json"

    try:
        check_machine()
        record = read_record(arguments.file).get(key)
        if record is None and not arguments.record:
            raise NotHere(f"no record of {key}; to make one: {how}")
    except NotHere as reason:
        print(f"1..0 # SKIP {reason}")
        return 1 if arguments.record else 0
    counts = {}
    for part in PARTS:
        counts.update(count(arguments.counts, part))
    if arguments.record:
        write_record(arguments.file, key, counts)
        print(f"{arguments.file}: {len(counts)} counts of {key}")
        return 0
    return 1 if compare(counts, record, how) else 0


if __name__ == "__main__":
    sys.exit(main())
