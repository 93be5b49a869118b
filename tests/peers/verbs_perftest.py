#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the verbs provider with perftest, and allreduce over it with tcp and with Open MPI.

    tests/peers/verbs_perftest.py [--build DIR] [--rounds N] [--json] ...

Everything runs between two soft-RoCE devices at the ends of a virtual cable, in one virtual machine
(tests/vm/run). The programs take turns, in another order each round; queue pairs, MTU and requests
under way are the same for all. Such a machine is slow and fast by turns, so each figure is the best
of the rounds, and a ratio is that of two best ones.

  bandwidth  `wring bench p2p` beside ib_send_bw, whose receiver takes every message as wring's
             does, and beside ib_write_bw, whose receiver sleeps
  latency    half a round trip of 8 bytes, the median of a run, beside ib_send_lat
  allreduce  f32, 2 ranks: verbs; tcp on the same cable, where 64 KiB travel as one; tcp-packets,
             cut into packets of the MTU by the sender as those of soft-RoCE are; Open MPI over
             UCX's rc. As fast as the processors are, which carry the packets
  slow       the same over a cable of a link's speed (--rate), which is then the limit
"""
import argparse
import collections
import functools
import json
import os
import pathlib
import sys

import verbs_sides as sides

RIG = pathlib.Path(__file__).resolve().parent.parent / "vm" / "run"
RUN_BYTES = 48 << 20  # that perftest sends in a run
WINDOW_BYTES, WINDOW = 16 << 20, 64  # as `wring bench p2p` has them
LATENCY_BYTES, LATENCY_TRIPS = 8, 5000
TRIES = 3
HEADERS = 204

# what takes turns: a program, and what a run of it gives
Entry = collections.namedtuple("Entry", "kind bytes name run")


def parse_bytes(text):
    shift = {"k": 10, "m": 20, "g": 30}.get(text[-1].lower(), 0)
    return int(text[:-1] if shift else text) << shift


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a run of wring's (0.5)")
    parser.add_argument("--bytes", default="64k,256k,1m")
    parser.add_argument("--allreduce-bytes", default="4m")
    parser.add_argument("--rate", default="100mbit", help="of the slow cable (100mbit)")
    parser.add_argument("--qps", type=int, default=1, help="queue pairs of a connection (1)")
    parser.add_argument("--slow-qps", type=int, default=4,
                        help="on the slow cable (4): soft-RoCE has at most 128 packets of a queue "
                             "pair under way, and all of them stand in that cable's line")
    parser.add_argument("--mtu", type=int, default=4096, choices=[1024, 2048, 4096])
    parser.add_argument("--parts", default="bandwidth,latency,allreduce,slow")
    parser.add_argument("--timeout", type=int, default=1500, help="seconds for everything (1500)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--here", action="store_true", help="this is the machine: do not boot one")
    return parser.parse_args()


def bandwidth_entries(arguments):
    for size in map(parse_bytes, arguments.bytes.split(",")):
        depth = max(2, min(WINDOW, WINDOW_BYTES // size))
        messages = max(2 * depth, RUN_BYTES // size)
        yield Entry("bandwidth", size, "wring", functools.partial(
            sides.wring_bandwidth, arguments.build, size, arguments.seconds, arguments.qps))
        for tool in ("ib_send_bw", "ib_write_bw"):
            yield Entry("bandwidth", size, tool, functools.partial(
                sides.perftest_bandwidth, tool, size, messages, depth, arguments.qps))


def latency_entries(arguments):
    yield Entry("latency", LATENCY_BYTES, "wring", functools.partial(
        sides.wring_latency, arguments.build, LATENCY_BYTES, arguments.seconds))
    yield Entry("latency", LATENCY_BYTES, "ib_send_lat", functools.partial(
        sides.perftest_latency, LATENCY_BYTES, LATENCY_TRIPS))


def collective_entries(arguments, kind, qps, rate):
    size = parse_bytes(arguments.allreduce_bytes)

    def ours(name, provider, **link):
        return Entry(kind, size, name, functools.partial(
            sides.wring_allreduce, arguments.build, provider, size, arguments.seconds, qps,
            rate=rate, **link))

    yield ours("verbs", "verbs")
    yield ours("tcp", "tcp")
    yield ours("tcp-packets", "tcp", segments=1)
    yield Entry(kind, size, "openmpi", functools.partial(
        sides.mpi_allreduce, arguments.build, size, arguments.seconds, rate=rate))


def allreduce_entries(arguments):
    return collective_entries(arguments, "allreduce", arguments.qps, "")


def slow_entries(arguments):
    return collective_entries(arguments, "slow", arguments.slow_qps, arguments.rate)


KINDS = {"bandwidth": bandwidth_entries, "latency": latency_entries,
         "allreduce": allreduce_entries, "slow": slow_entries}


def run_again_if_need_be(entry):
    """perftest now and then prints a bandwidth of 0, where its clock went wrong."""
    for _ in range(TRIES):
        figure = entry.run()
        if figure > 0:
            return figure
    raise sides.Failed(f"gave {figure}, {TRIES} times")


def take_turns(entries, rounds):
    """@return figures of each entry; of one that failed, the reason"""
    figures = {entry: [] for entry in entries}
    broken = {}
    for turn in range(rounds):
        at = turn % len(entries)
        for entry in entries[at:] + entries[:at]:
            if entry in broken:
                continue
            try:
                figures[entry].append(run_again_if_need_be(entry))
            except sides.Failed as failed:
                broken[entry] = str(failed)
                print(f"{entry.kind} {entry.bytes} {entry.name}: {failed}", file=sys.stderr)
        print(f"round {turn + 1} of {rounds}", file=sys.stderr, flush=True)
    return figures, broken


def best_of(kind, values):
    return max(values) if kind == "bandwidth" else min(values)


def summarise(figures, broken):
    """Rows of {kind, bytes, unit, best{name: figure}, ratio{name: ours to theirs}, runs, failed}"""
    rows = {}
    for entry, values in figures.items():
        row = rows.setdefault((entry.kind, entry.bytes), {
            "kind": entry.kind, "bytes": entry.bytes,
            "unit": "gb_per_s" if entry.kind == "bandwidth" else "us",
            "best": {}, "ratio": {}, "runs": {}, "failed": {}})
        row["runs"][entry.name] = values
        if entry in broken:
            row["failed"][entry.name] = broken[entry]
        elif values:
            row["best"][entry.name] = best_of(entry.kind, values)
    for row in rows.values():
        ours = row["best"].get("wring", row["best"].get("verbs"))
        for name, value in row["best"].items():
            if ours is not None and name not in ("wring", "verbs"):
                row["ratio"][name] = ours / value
    return list(rows.values())


def show_bytes(size):
    for suffix, shift in (("m", 20), ("k", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift}{suffix}"
    return str(size)


def show(rows, arguments):
    print(f"best of {arguments.rounds} rounds in turns, {arguments.qps} queue pair(s), "
          f"MTU {arguments.mtu}; slow: {arguments.rate}, {arguments.slow_qps} queue pair(s)\n")
    print("| what | bytes | unit | program | best | all runs | wring / it |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        for name, values in row["runs"].items():
            best = row["best"].get(name)
            digits = 4 if row["unit"] == "gb_per_s" else 1
            ratio = row["ratio"].get(name)
            print(f"| {row['kind']} | {show_bytes(row['bytes'])} | "
                  f"{'GB/s' if row['unit'] == 'gb_per_s' else 'us'} | {name} | "
                  f"{'failed' if best is None else f'{best:.{digits}f}'} | "
                  f"{' '.join(f'{value:.{digits}f}' for value in values)} | "
                  f"{'' if ratio is None else f'{ratio:.3f}'} |")


def measure(arguments):
    """In the machine. @return the exit status: 1 if anything failed"""
    entries = [entry for part in arguments.parts.split(",") for entry in KINDS[part](arguments)]
    figures, broken = take_turns(entries, arguments.rounds)
    rows = summarise(figures, broken)
    if arguments.json:
        json.dump({"rounds": arguments.rounds, "qps": arguments.qps, "mtu": arguments.mtu,
                   "rate": arguments.rate, "slow_qps": arguments.slow_qps, "rows": rows}, sys.stdout, indent=1)
        print()
    else:
        show(rows, arguments)
    return 1 if broken else 0


def main():
    arguments = parse_arguments()
    for part in arguments.parts.split(","):
        if part not in KINDS:
            sys.exit(f"--parts: no part '{part}' among {', '.join(KINDS)}")
    if arguments.here:
        sys.exit(measure(arguments))
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    # RoCE's MTU is the largest power of two that fits into the link's with its headers
    os.execv(RIG, [str(RIG), "--timeout", str(arguments.timeout), "--mtu",
                   str(arguments.mtu + HEADERS), "--", sys.executable, *sys.argv, "--here"])


if __name__ == "__main__":
    main()
