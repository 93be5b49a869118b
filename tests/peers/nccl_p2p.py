#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare libnccl-net-wring.so with iperf3's single stream, over loopback.

    tests/peers/nccl_p2p.py [--build DIR] [--rounds N] [--seconds S] [--bytes N] [--json]

The two take turns, and the first of a round is the other one each time. The plugin is driven as
NCCL's proxy does, 8 messages in flight (tests/nccl/nccl_p2p.c); iperf3 reads and writes 1 MiB at a
time, and throws away what it reads. Medians of the rounds count. Without iperf3 (apt-get install
iperf3) the plugin alone is measured, and the last line says so.
"""
import argparse
import json
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement (1)")
    parser.add_argument("--bytes", type=int, default=4 << 20, help="of a message (4 MiB)")
    parser.add_argument("--provider", default="tcp", help="WRING_PROVIDER (tcp)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


def run(command, seconds):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=seconds, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def measure_plugin(arguments):
    build = pathlib.Path(arguments.build).resolve()
    command = [str(build / "tests/nccl/nccl_p2p"), str(build / "dropin/nccl/libnccl-net-wring.so"),
               "v12", f"WRING_PROVIDER={arguments.provider}", str(arguments.bytes),
               str(arguments.seconds)]
    return json.loads(run(command, arguments.seconds + 120).splitlines()[-1])["gb_per_s"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def measure_iperf3(arguments):
    port = free_port()
    with subprocess.Popen(["iperf3", "-s", "-1", "--forceflush", "-B", "127.0.0.1", "-p", str(port)],
                          stdout=subprocess.PIPE, text=True) as server:
        try:
            if not any("listening" in line for line in iter(server.stdout.readline, "")):
                sys.exit("iperf3 -s does not listen")
            text = run(["iperf3", "-c", "127.0.0.1", "-p", str(port), "-t",
                        str(max(1, round(arguments.seconds))), "-l", "1M", "-J"],
                       arguments.seconds + 60)
        finally:
            server.terminate()
            server.communicate()
    return json.loads(text)["end"]["sum_received"]["bits_per_second"] / 8e9


def main():
    arguments = parse_arguments()
    sides = {"wring": measure_plugin}
    if shutil.which("iperf3"):
        sides["iperf3"] = measure_iperf3
    results = {name: [] for name in sides}
    for turn in range(arguments.rounds):
        for name in list(sides)[::1 if turn % 2 == 0 else -1]:
            results[name].append(sides[name](arguments))
    medians = {name: statistics.median(values) for name, values in results.items()}
    if arguments.json:
        print(json.dumps({"bytes": arguments.bytes, "provider": arguments.provider,
                          "gb_per_s": results, "median": medians}))
        return
    for name, values in results.items():
        print(f"{name:8} {medians[name]:6.2f} GB/s, median of {len(values)}, "
              f"{min(values):.2f} to {max(values):.2f}")
    if "iperf3" in medians:
        print(f"wring/iperf3 {medians['wring'] / medians['iperf3']:.2f}")
    else:
        print("iperf3 is not installed: apt-get install iperf3")


if __name__ == "__main__":
    main()
