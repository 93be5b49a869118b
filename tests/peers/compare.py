#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare wring with Open MPI, MPICH, Gloo and what the machine allows, in runs that take turns.

    tests/peers/compare.py [--build DIR] [--only LIST] [--rounds N] [--seconds S] [--quick]
                           [--large-pages] [--json]

Sections: codec (speeds beside memory's), shm (2 ranks), shm4 (4 ranks), tcp (loopback), links (four
hosts on slow links, in network namespaces), switch (what a codec that is switched on costs),
messages and tcp-messages (between two ranks), scale (16 and 64 ranks on this host), mpi, mpi4 and
mpi-tcp (a program of MPI with libwring_mpi.so before its library, and without).

All sides follow the same rules: the input is written anew before each call, into the memory that is
reduced; a barrier goes before it; a call takes as long as its slowest rank; results are checked. A
figure is the median over the rounds of the medians of the runs, and a ratio the median over the
rounds of the ratios within one. A run during which the host disturbed the machine is made again:
peer_watch.py. The output is Markdown, or one JSON object; progress goes to
standard error. The exit status is 1 if a program failed; a bar that is missed is no failure.
"""
import argparse
import contextlib
import json
import platform
import sys
import time

import links
import peer_bars
import peer_links
import peer_messages
import peer_mpi
import peer_scale
import peer_table
from peer_sides import Failed, Tools
from peer_watch import Watch

SECTIONS = {section.name: section for section in
            (peer_bars.Codecs, peer_bars.SharedMemory, peer_bars.Crowded, peer_bars.Loopback,
             peer_links.Links, peer_links.Switch, peer_messages.MappedMessages,
             peer_messages.LoopbackMessages, peer_scale.Scale, peer_mpi.Interposed,
             peer_mpi.InterposedCrowded, peer_mpi.InterposedLoopback)}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, by name")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each size in a run (0.2)")
    parser.add_argument("--large-pages", action="store_true",
                        help="peers have them too, as wring's buffers do; else malloc'ed memory")
    parser.add_argument("--quick", action="store_true", help="few sizes, one round")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    for name in arguments.only.split(","):
        if name not in SECTIONS:
            parser.error(f"--only: no section '{name}' among {', '.join(SECTIONS)}")
    if arguments.quick:
        arguments.rounds = 1
    return arguments


def say(text):
    print(text, file=sys.stderr, flush=True)


def describe_machine(tools):
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    model = models[0] if models else platform.machine()
    return f"{tools.cores} × {model}, Linux {platform.release()}; " + ", ".join(tools.versions)


def take_turns(section, rounds, watch):
    """@return (samples of each side, a dictionary per run; what failed)"""
    entries = list(section.entries())
    samples, failed = {entry.side: [] for entry in entries}, {}
    for turn in range(rounds):
        begin, at = time.monotonic(), turn % len(entries)
        for entry in entries[at:] + entries[:at]:
            if entry.side in failed:
                continue
            try:
                samples[entry.side].append(run_watched(section, entry, watch))
            except (Failed, SystemExit) as error:
                failed[entry.side] = str(error)
                say(f"{section.name}: {entry.side}: {error}")
        say(f"{section.name}: round {turn + 1} of {rounds} took {time.monotonic() - begin:.0f} s")
    return samples, failed


def run_watched(section, entry, watch):
    if not entry.watched:
        return entry.run()
    return watch.run(entry.run, lambda text: say(f"{section.name}: {entry.side}: {text}"))


def may_make_networks(names, tools):
    """Takes the sections out that need hosts, where there can be none."""
    if not {"links", "switch"} & set(names):
        return names
    try:
        links.require_root()
        with links.Hosts(2, links.LINKS["none"]):
            return names
    except SystemExit:
        tools.missing.append("Hosts on links: network namespaces are not permitted here; sections "
                             "links and switch are absent")
        return [name for name in names if name not in ("links", "switch")]


def run_section(name, tools, arguments):
    section = SECTIONS[name](tools, arguments)
    with contextlib.ExitStack() as stack:
        for hosts in getattr(section, "hosts", {}).values():
            stack.enter_context(hosts)
        watch = Watch(lambda: tools.limits("line")[0])
        samples, failed = take_turns(section, arguments.rounds, watch)
    return section, list(section.rows(samples)), failed, watch.left_as_is


def main():
    arguments = parse_arguments()
    begin = time.monotonic()
    try:
        tools = Tools(arguments.build, arguments.large_pages)
    except Failed as error:
        sys.exit(str(error))
    names = may_make_networks(arguments.only.split(","), tools)
    for missing in tools.missing:
        say(missing)
    found, failures, disturbed = [], {}, 0
    if not arguments.json:
        print(f"{describe_machine(tools)}; {arguments.rounds} rounds")
        print("".join(f"\n{missing}." for missing in tools.missing))
    for name in names:
        section, rows, failed, left = run_section(name, tools, arguments)
        disturbed += left
        found.append((section, rows))
        failures.update({f"{name}: {side}": why for side, why in failed.items()})
        if not arguments.json:
            peer_table.show_section(section.title, section.note, rows)
    bars = list(peer_table.summarise([(section.name, rows) for section, rows in found]))
    if arguments.json:
        json.dump({"machine": describe_machine(tools), "rounds": arguments.rounds,
                   "missing": tools.missing, "failed": failures, "disturbed": disturbed,
                   "bars": bars,
                   "sections": {section.name: [row.as_json() for row in rows]
                                for section, rows in found}}, sys.stdout, indent=1)
        print()
    else:
        peer_table.show_summary(bars)
        if disturbed:
            print(f"\n{disturbed} runs count though the machine was disturbed meanwhile.")
        for what, why in failures.items():
            print(f"\nfailed: {what}: {why}")
    say(f"took {time.monotonic() - begin:.0f} s")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
