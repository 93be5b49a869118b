#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare wring's allreduce with Open MPI's, in runs that take turns.

    tests/peers/compare.py [--build DIR] [--rounds N] [--seconds S] [--bytes LIST] [--ranks LIST]

Both sides follow the same rules: the input is written anew before each call, a barrier goes before
it, a call takes as long as its slowest rank, results are checked. Each figure is the median over
the rounds of the medians of the runs; the best round's follows in brackets, as a shared machine is
slow and fast by turns. Bandwidth and ratio are those of the medians. The table is Markdown.
"""
import argparse
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys

BTL = {"shm": "self,vader", "tcp": "self,tcp"}
SUFFIXES = {"k": 10, "m": 20, "g": 30}
TIMEOUT = 600


def parse_bytes(text):
    shift = SUFFIXES.get(text[-1], 0)
    return int(text[:-1] if shift else text) << shift


def run(command, **environment):
    result = subprocess.run(command, env={**os.environ, **environment}, text=True,
                            capture_output=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {result.returncode}\n{result.stderr}")
    return result.stdout


def run_wring(build, provider, ranks, sizes, seconds):
    output = run([f"{build}/tools/wring", "bench", "allreduce", "-n", str(ranks), "-p", provider,
                  "-b", ",".join(map(str, sizes)), "--seconds", str(seconds), "--json"])
    return {r["bytes"]: r["time_us"]["median"] for r in json.loads(output)["results"]}


def run_mpi(build, provider, ranks, sizes, seconds):
    output = run(["mpirun", "--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl",
                  BTL[provider], "-n", str(ranks), f"{build}/tests/peers/mpi_allreduce",
                  str(seconds), *map(str, sizes)],
                 OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    times = {}
    for line in output.splitlines():
        size, _, median, _, wrong = line.split()
        if wrong != "0":
            sys.exit(f"Open MPI: {wrong} wrong elements at {size} bytes")
        times[int(size)] = float(median)
    return times


def compare(arguments, provider, ranks, sizes):
    """Rows of (bytes, wring us of each round, Open MPI us of each round)."""
    ours, theirs = [], []
    for _ in range(arguments.rounds):
        ours.append(run_wring(arguments.build, provider, ranks, sizes, arguments.seconds))
        theirs.append(run_mpi(arguments.build, provider, ranks, sizes, arguments.seconds))
    for size in sizes:
        yield (size, [run[size] for run in ours], [run[size] for run in theirs])


def show(size):
    for suffix, shift in reversed(SUFFIXES.items()):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift}{suffix}"
    return str(size)


def describe_machine():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    version = run(["mpirun", "--version"]).splitlines()[0]
    return f"{len(models)} × {models[0]}, Linux {platform.release()}, {version}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--bytes", default="4k,64k,1m,16m,64m")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--providers", default="shm,tcp")
    arguments = parser.parse_args()

    driver = pathlib.Path(arguments.build, "tests/peers/mpi_allreduce")
    if shutil.which("mpirun") is None or not driver.exists():
        print("skipped: Open MPI is not there (Debian: openmpi-bin, libopenmpi-dev; then build)")
        sys.exit(77)
    sizes = [parse_bytes(text) for text in arguments.bytes.split(",")]
    print(f"{describe_machine()}; {arguments.rounds} rounds\n")
    print("| transport | ranks | bytes | wring µs | Open MPI µs | wring GB/s | Open MPI GB/s "
          "| Open MPI time / wring time |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for provider in arguments.providers.split(","):
        for ranks in map(int, arguments.ranks.split(",")):
            for size, ours, theirs in compare(arguments, provider, ranks, sizes):
                our, their = statistics.median(ours), statistics.median(theirs)
                print(f"| {provider} | {ranks} | {show(size)} | {our:.1f} ({min(ours):.1f}) "
                      f"| {their:.1f} ({min(theirs):.1f}) "
                      f"| {size / our / 1e3:.2f} | {size / their / 1e3:.2f} "
                      f"| {their / our:.2f} |", flush=True)


if __name__ == "__main__":
    main()
