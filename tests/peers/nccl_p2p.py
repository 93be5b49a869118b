#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare libnccl-net-wring.so with iperf3's single stream, over loopback; or with itself.

    tests/peers/nccl_p2p.py [--build DIR] [--rounds N] [--seconds S] [--bytes N] [--json]
    tests/peers/nccl_p2p.py --lossless GRADIENTS [--link 1g] ...

The two take turns, and the first of a round is the other one each time. The plugin is driven as
NCCL's proxy does, 8 messages in flight (tests/nccl/nccl_p2p.c); iperf3 reads and writes 1 MiB at a
time, and throws away what it reads. Medians of the rounds count. Without iperf3 (apt-get install
iperf3) the plugin alone is measured, and the last line says so.

With --lossless, WRING_NCCL_LOSSLESS=1 and =0 take turns instead. Messages hold the values of
GRADIENTS, which `wring demo --record-gradients` has written. --link shapes the loopback of a
network namespace: 1g or 10g, which needs root or user namespaces, and iproute2.
"""
import argparse
import json
import os
import pathlib
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile

import links


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement (1)")
    parser.add_argument("--bytes", type=int, default=4 << 20, help="of a message (4 MiB)")
    parser.add_argument("--provider", default="tcp", help="WRING_PROVIDER (tcp)")
    parser.add_argument("--lossless", metavar="GRADIENTS", help="WRING_NCCL_LOSSLESS=1 against 0")
    parser.add_argument("--link", choices=list(links.LINKS), default="none", help="(none)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


def run(command, seconds):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=seconds, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def measure_plugin(arguments, *settings, data=()):
    build = pathlib.Path(arguments.build).resolve()
    command = [str(build / "tests/nccl/nccl_p2p"), str(build / "dropin/nccl/libnccl-net-wring.so"),
               "v12", f"WRING_PROVIDER={arguments.provider}", *settings, str(arguments.bytes),
               str(arguments.seconds), *data]
    return json.loads(run(command, arguments.seconds + 120).splitlines()[-1])["gb_per_s"]


def gradient_values(path):
    """The float32 values of recorded gradients (docs/planner-files.md), as bytes."""
    data = pathlib.Path(path).read_bytes()
    try:
        magic, version, tensors, steps, words = struct.unpack_from("<16s4I", data)
        if magic != b"wring-gradients\n" or version != 1:
            raise ValueError("no recorded gradients")
        at, kept = 32 + words + 8 * steps, 0
        for _ in range(tensors):
            name, = struct.unpack_from("<I", data, at)
            at += 4 + name
            kept += struct.unpack_from("<QI", data, at)[1]
            at += 12
        if len(data) - at != 4 * kept * steps:
            raise ValueError(f"{len(data) - at} bytes of values in place of {4 * kept * steps}")
    except (ValueError, struct.error) as error:
        sys.exit(f"{path}: {error}")
    return data[at:]


def shape_loopback(link):
    """Go on in a network of our own, whose loopback is as fast as the link."""
    if links.INSIDE not in os.environ:
        links.require_root()  # does not return without root: it starts again inside
        os.environ[links.INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])
    links.require_root()
    for words in (f"ip link set lo mtu {links.MTU}",
                  f"tc qdisc add dev lo root tbf rate {link.gbit}gbit burst {link.burst} "
                  f"limit {link.limit}"):
        subprocess.run(words.split(), check=True)


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


def compare_lossless(arguments, file):
    """What takes turns. The values are in a file for the driver."""
    file.write(gradient_values(arguments.lossless))
    file.flush()
    return {name: lambda a, setting=setting: measure_plugin(a, f"WRING_NCCL_LOSSLESS={setting}",
                                                            data=[file.name])
            for name, setting in (("lossless", 1), ("raw", 0))}


def main():
    arguments = parse_arguments()
    link = links.LINKS[arguments.link]
    if link.gbit > 0:
        shape_loopback(link)
    with tempfile.NamedTemporaryFile() as file:
        if arguments.lossless:
            sides = compare_lossless(arguments, file)
        else:
            sides = {"wring": measure_plugin}
            if shutil.which("iperf3"):
                sides["iperf3"] = measure_iperf3
        show(arguments, sides)


def show(arguments, sides):
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
    if len(sides) == 2:
        first, second = sides
        print(f"{first}/{second} {medians[first] / medians[second]:.2f}")
    else:
        print("iperf3 is not installed: apt-get install iperf3")


if __name__ == "__main__":
    main()
