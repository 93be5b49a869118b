#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure this library's codecs on one core, for the planner's built-in profiles.

    planner/host_codecs.py build/tools/wring

writes planner/core/files/host_codecs.c; the build then has the new numbers. It takes some three
minutes, and wants a quiet machine. It runs one command,

    wring calibrate -n 2 -p shm -c none --coding all --elements 4m --seconds 20 --doubt 100

and keeps of its profile what each codec is (traits, errors on bell-shaped numbers, bytes), and what
one core takes with the best kernels. --profile FILE takes such a profile in place of the command.
--sums measures what adding codes takes, in the rows of codecs whose codes add up, and leaves all else
as it is; the machine has to be the same. --add NEW==TWIN,... measures codecs three times, each beside
one that has a row, and appends the new ones. Their times are those of the twin's row, times the ratio
of both now, of the least of each point: rows compare although the machine is not as quiet. --profile
takes several such files, with commas.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "core" / "files" / "host_codecs.c"
COMMAND = ["calibrate", "-n", "2", "-p", "shm", "-c", "none", "--coding", "all", "--elements", "4m",
           "--seconds", "20", "--doubt", "100"]
CORNERS = 4
RUNS = 3
NOTHING = {"corners": [], "slope": 0}
HEAD = """\
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Written by planner/host_codecs.py, which measures
 *
 *     {command}
 */
#include "planner/core/files/host_codecs.h"

const char wring_host_codecs_machine[] = "{machine}";

/* clang-format off */
const struct wring_host_codec wring_host_codecs[] = {{
"""
TAIL = """\
};
/* clang-format on */

const size_t wring_host_codecs_n = sizeof(wring_host_codecs) / sizeof(wring_host_codecs[0]);
"""


def measure(wring, coding="all"):
    """@param coding  specs of codecs, or all @return the profile"""
    command = [coding if word == "all" else word for word in COMMAND]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "profile.json"
        result = subprocess.run([wring, *command, "-o", str(path)], stdout=subprocess.DEVNULL,
                                check=False)
        if result.returncode != 0:
            sys.exit("host_codecs.py: wring calibrate failed")
        return json.loads(path.read_text(encoding="utf-8"))


def at(corners, slope, x):
    """A cost: level before its first corner, beyond the last one by its slope."""
    if x <= corners[0][0]:
        return corners[0][1]
    for (x0, y0), (x1, y1) in zip(corners, corners[1:]):
        if x <= x1:
            return y0 + (x - x0) * (y1 - y0) / (x1 - x0)
    return corners[-1][1] + (x - corners[-1][0]) * slope


def fewer(cost):
    """As many corners as fit; those go that matter least."""
    corners = list(map(tuple, cost["corners"]))
    while len(corners) > CORNERS:
        def loss(i):
            left = corners[:i] + corners[i + 1:]
            return abs(at(left, cost["slope"], corners[i][0]) - corners[i][1]) / (corners[i][1] or 1)
        del corners[min(range(1, len(corners)), key=loss)]
    return corners


def number(value):
    return f"{value:.4g}"


def c_cost(cost):
    points = ", ".join(f"{{{x:.0f}, {number(y)}}}" for x, y in fewer(cost))
    return f"{{{len(fewer(cost))}, {number(cost['slope'])}, {{{points}}}}}"


def c_codec(codec):
    """One row. Costs that nobody measured are left out."""
    cpu, traits = codec["at"]["cpu"], codec.get("traits", {})
    back = traits.get("way_back", {})
    costs = {"wire_bytes": codec["wire_bytes"], "round_bytes": traits.get("round_bytes", NOTHING),
             "back_bytes": back.get("bytes", NOTHING),
             "back_most_bytes": back.get("most_bytes", NOTHING),
             "back_encode_us": back.get("encode_us", NOTHING),
             "back_decode_us": back.get("decode_us", NOTHING), "encode_us": cpu["encode_us"],
             "decode_us": cpu["decode_us"], "decode_add_us": cpu["decode_add_us"],
             "sum_us": cpu.get("code_sum_us", NOTHING)}
    flags = [name for name, is_so in (("summable", codec["summable"]),
                                      ("feedback", codec["feedback"]),
                                      ("alters", traits.get("alters", False))) if is_so]
    lines = [f'    {{.spec = "{codec["spec"]}", .nmse = {codec["nmse"]:.3g}']
    lines += [f"     .{flag} = true" for flag in flags]
    if traits.get("rounds", 0):
        lines.append(f"     .rounds = {traits['rounds']}")
    if traits.get("state_bytes", 0):
        lines.append(f"     .state_bytes = {number(traits['state_bytes'])}")
    if back.get("nmse", 0):
        lines.append(f"     .back_nmse = {back['nmse']:.3g}")
    lines += [f"     .{name} = {c_cost(cost)}" for name, cost in costs.items() if cost["corners"]]
    return ",\n".join(lines) + "},\n"


def rows_of(text):
    """The file's head, its rows, and its tail."""
    return re.split(r"(?m)^(?=    \{\.spec|\};)", text)


def adds_codes(row):
    return ".summable = true" in row


def spec_of(row):
    return re.search(r'\.spec = "([^"]+)"', row).group(1)


def with_sum(row, profile):
    """A row with what adding codes takes in a profile, which comes last."""
    codec, = (codec for codec in profile["codecs"] if codec["spec"] == spec_of(row))
    kept = re.sub(r",\n     \.sum_us = [^\n]*\},\n$", "},\n", row).removesuffix("},\n")
    return f"{kept},\n     .sum_us = {c_cost(codec['at']['cpu']['code_sum_us'])}}},\n"


def row_costs(row):
    """{name: cost} of a row."""
    found = re.findall(r"\.(\w+) = \{\d+, ([^,]+), \{(.*?)\}\}", row)
    return {name: {"slope": float(slope), "corners": [tuple(map(float, point.split(", "))) for point
                                                      in corners.strip("{}").split("}, {")]}
            for name, slope, corners in found}


def times_of(codec):
    """The times among a codec's costs, by their names in a row; those that somebody measured."""
    cpu, back = codec["at"]["cpu"], codec.get("traits", {}).get("way_back", {})
    times = {"encode_us": (cpu, "encode_us"), "decode_us": (cpu, "decode_us"),
             "decode_add_us": (cpu, "decode_add_us"), "sum_us": (cpu, "code_sum_us"),
             "back_encode_us": (back, "encode_us"), "back_decode_us": (back, "decode_us")}
    return {name: place for name, place in times.items() if place[0].get(place[1], NOTHING)["corners"]}


def take_least(codec, again):
    """Of each time the least that either says."""
    others = times_of(again)
    for name, (holder, key) in times_of(codec).items():
        one, other = holder[key], others[name][0][others[name][1]]
        holder[key] = {"corners": [(x, min(y, at(other["corners"], other["slope"], x)))
                                   for x, y in one["corners"]],
                       "slope": min(one["slope"], other["slope"])}


def beside(codec, twin, row):
    """A codec's times as the twin's row has that one's. Where the twin has no way back, its codes
    stand for those."""
    known, twins = row_costs(row), times_of(twin)
    for name, (holder, key) in times_of(codec).items():
        name = name if name in twins else name.removeprefix("back_")
        new, old, kept = holder[key], twins[name][0][twins[name][1]], known[name]

        def ratio(x, kept=kept, old=old):
            return at(kept["corners"], kept["slope"], x) / at(old["corners"], old["slope"], x)
        last = new["corners"][-1][0]
        holder[key] = {"corners": [(x, y * ratio(x)) for x, y in new["corners"]],
                       "slope": new["slope"] * ratio(4 * last)}


def pairs_of(text):
    """(new, twin) of NEW==TWIN,..."""
    return [tuple(pair.split("==")) for pair in text.split(",")]


def added(rows, profiles, pairs):
    """The file with further rows at its end."""
    codecs = {codec["spec"]: codec for codec in profiles[0]["codecs"]}
    for codec in (codec for profile in profiles[1:] for codec in profile["codecs"]):
        take_least(codecs[codec["spec"]], codec)
    known = {spec_of(row): row for row in rows[1:-1]}
    for new, twin in pairs:
        beside(codecs[new], codecs[twin], known[twin])
    return "".join(rows[:-1]) + "".join(c_codec(codecs[new]) for new, _ in pairs) + rows[-1]


def describe(profile):
    """The processor and the kernels."""
    processor = re.sub(r"^wring [^,]*, ", "", profile["machine"])
    processor = re.sub(r", \d+ cores?, .*$", "", processor)
    tiers = [coder["tier"] for codec in profile["codecs"] for coder in codec.get("coders", [])[:1]]
    return f"one core of {processor}, {max(tiers, key=tiers.count) if tiers else 'scalar'} kernels"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wring", nargs="?", help="the tool")
    parser.add_argument("--profile", metavar="FILE", help="measured by that command")
    parser.add_argument("--print", action="store_true", help="write nothing but standard output")
    parser.add_argument("--sums", action="store_true", help="measure adding of codes alone")
    parser.add_argument("--add", metavar="NEW==TWIN,...", help="append codecs, measured beside others")
    options = parser.parse_args()
    if options.profile is None and options.wring is None:
        parser.error("the tool is needed, as build/tools/wring")
    rows = rows_of(OUT.read_text(encoding="utf-8")) if options.sums or options.add else []
    pairs = pairs_of(options.add) if options.add else []
    coding = ",".join(spec_of(row) for row in rows if adds_codes(row)) if options.sums else "all"
    coding = ",".join(dict.fromkeys(spec for pair in pairs for spec in pair)) or coding
    if options.profile is not None:
        profiles = [json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
                    for path in options.profile.split(",")]
    else:
        profiles = [measure(options.wring, coding) for _ in range(RUNS if pairs else 1)]
    profile = profiles[0]
    command = "wring " + " ".join(COMMAND).replace("--elements", "\\\n *         --elements")
    text = HEAD.format(command=command, machine=describe(profile))
    text += "".join(map(c_codec, profile["codecs"])) + TAIL
    if options.sums and describe(profile) not in rows[0]:
        sys.exit(f"host_codecs.py: the other rows are of another machine than {describe(profile)}")
    if options.sums:
        text = "".join(with_sum(row, profile) if adds_codes(row) else row for row in rows)
    if pairs:
        text = added(rows, profiles, pairs)
    if options.print:
        sys.stdout.write(text)
    else:
        OUT.write_text(text, encoding="utf-8")
        print(f"{OUT}: {len(rows_of(text)) - 2} codecs")


if __name__ == "__main__":
    main()
