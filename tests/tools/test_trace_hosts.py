#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_trace_hosts.py WRING: one record of ranks whose clocks differ by minutes.

The hosts are network namespaces joined by virtual cables; on each, ranks run in a time namespace in
which CLOCK_MONOTONIC stands elsewhere. No time of one host means anything on the other, so what the
merged record says can only be right if the clocks were compared. Needs root, or user namespaces, and
util-linux; where that is not given the test is skipped.
"""
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import test_two_hosts as hosts

PATIENCE_S = 250  # for hangs, not for slowness
ITERATIONS = 20
CLOCKS_S = [250, 1000, -100]  # of the hosts A and B, and of a third rank, beside that of the machine


def look_for_clocks():
    """Skip where no clock can be moved."""
    trial = subprocess.run(
        ["unshare", "--time", "--fork", "--monotonic", "250", sys.executable, "-c",
         "import time; print(time.monotonic())"],
        capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if trial.returncode != 0:
        hosts.skip(f"no time namespaces here: {trial.stderr.strip()}")
    if float(trial.stdout) < time.monotonic() + 200:
        hosts.skip("a time namespace that does not move the clock")


def start_rank(wring, rank, size, inside, path, arguments, **settings):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WRING_")}
    environment.update(WRING_RANK=str(rank), WRING_SIZE=str(size), WRING_KEY="only here",
                       WRING_ROOT=hosts.ADDRESSES["A"] + ":5555", HWLOC_COMPONENTS="-pci",
                       WRING_TRACE=str(path), **settings)
    return subprocess.Popen(
        [*inside, "unshare", "--time", "--fork", "--kill-child", "--monotonic", str(CLOCKS_S[rank]),
         wring, "bench", "allreduce", *arguments],
        env=environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)


def record(wring, prefixes, arguments, **settings):
    """Run one rank per prefix. Returns the events."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        ranks = [start_rank(wring, rank, len(prefixes), inside, path, arguments, **settings)
                 for rank, inside in enumerate(prefixes)]
        for rank, process in enumerate(ranks):
            try:
                said, _ = process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                for other in ranks:
                    other.kill()
                sys.exit(f"failed: rank {rank} hangs")
            print(f"rank {rank}: {said}", end="")
            if process.returncode != 0 or "WRING_TRACE" in said:
                sys.exit(f"failed: rank {rank} exited with {process.returncode}")
        return json.loads(path.read_text(encoding="utf-8"))


def errors_us(events):
    """What each rank claims its times to be off at most."""
    return {e["pid"]: e["args"]["clock_error_us"]
            for e in events if e["name"] == "process_labels"}


def begin_of(events, kind, rank, sender=None):
    return sorted(e["ts"] for e in events
                  if e["name"] == kind and e["pid"] == rank
                  and e["args"].get("from_rank") == sender and e["args"]["bucket"] == "bench.0")


def least_path_us(events, sender, receiver):
    """The shortest path of any piece from when it was ready to when it was seen there.

    Which arrival belongs to which piece need not be known: if each arrival has a cause of its own
    before it, then so has, both in the order of time, the k-th arrival the k-th piece.
    """
    sent = begin_of(events, "send", sender)
    seen = begin_of(events, "arrive", receiver, sender)
    if len(sent) != len(seen) or len(sent) < ITERATIONS:
        sys.exit(f"failed: {len(sent)} pieces left rank {sender}, {len(seen)} came")
    return min(b - a for a, b in zip(sent, seen))


def check_pieces(events, moved_us=0):
    """Returns what is wrong, or None. moved_us: rank 1's events, for the sake of the test itself."""
    claimed = sum(errors_us(events).values())
    there, back = least_path_us(events, 0, 1) + moved_us, least_path_us(events, 1, 0) - moved_us
    print(f"pieces take {there:.0f} us there and {back:.0f} us back; clocks within {claimed:.0f} us")
    if min(there, back) < -claimed:
        return f"a piece came {-min(there, back):.0f} us before it left"
    return None


def check_steps(events, ranks):
    """A step ends nowhere before it has begun everywhere."""
    claimed = 2 * max(errors_us(events).values())
    steps = collections.defaultdict(dict)
    for event in events:
        if event["ph"] == "X" and event["cat"] == "buckets" and event["name"] == "bench.0":
            steps[event["args"]["number"]][event["pid"]] = (event["ts"], event["ts"] + event["dur"])
    whole = [step for step in steps.values() if len(step) == ranks]
    if len(whole) < ITERATIONS:
        sys.exit(f"failed: {len(whole)} steps of all ranks")
    for step in whole:
        last_begin = max(begin for begin, _ in step.values())
        if min(end for _, end in step.values()) < last_begin - claimed:
            return f"a step ended before it had begun everywhere: {step}"
    return None


def expect(wrong, what):
    if wrong:
        sys.exit(f"failed: {what}: {wrong}")


def check_two_hosts(wring, inside_b, **settings):
    events = record(wring, [[], inside_b],
                    ["--bytes", "64k", "--codec", "bf16", "--iterations", str(ITERATIONS)],
                    **settings)
    claimed = errors_us(events)
    if set(claimed) != {0, 1} or not 0 < claimed[1] < 1e6:
        sys.exit(f"failed: ranks claim {claimed}")
    expect(check_pieces(events), settings)
    expect(check_steps(events, 2), settings)
    slack = least_path_us(events, 0, 1) + least_path_us(events, 1, 0) + 4 * claimed[1] + 1
    for moved in (slack, -slack):  # this test would have noticed clocks that are wrong
        if check_pieces(events, moved) is None:
            sys.exit(f"failed: rank 1 may as well have been {moved} us off")


def main():
    wring = str(pathlib.Path(sys.argv[1]).resolve())
    if hosts.INSIDE not in os.environ:
        hosts.enter_namespace()
    look_for_clocks()
    keeper, inside_b = hosts.join_hosts()
    try:
        check_two_hosts(wring, inside_b)
        check_two_hosts(wring, inside_b, WRING_FAULT="delay=20ms,rank=1")
        check_two_hosts(wring, inside_b, WRING_PROGRESS="caller")
        # two of three on one host: they share memory, but no clock
        events = record(wring, [[], inside_b, inside_b],
                        ["--bytes", "64k", "--codec", "bf16", "--iterations", str(ITERATIONS)])
        expect(check_steps(events, 3), "three ranks")
    finally:
        keeper.kill()
        keeper.wait()


if __name__ == "__main__":
    main()
