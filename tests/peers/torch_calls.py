#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call costs in torch by gloo and by wring, and how soon a killed rank is known.

    tests/peers/torch_calls.py [--python PYTHON] [--rounds N]

All-reduce of 8 bytes with a future, by one rank alone: median of 2000 calls, of rounds in which gloo,
wring's group in C++ and its group in Python take turns. Then, in each round, three ranks train by
DDP over wring, and rank 1 kills itself between forward and backward of a step: ms until the last of the
others has its exception, which names rank 1. PYTHON has torch; wring is that of this tree,
with the library of build/ or WRING_LIBRARY.
"""
import argparse
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "torch"))
import torch_rig  # noqa: E402

CALLS, WARM = 2000, 200
STEPS = 20  # before the kill
WAYS = {"gloo": ("gloo", {}), "wring, C++": ("wring", {}),
        "wring, Python": ("wring", {"WRING_TORCH_NATIVE": "off"})}


# ---- a rank -------------------------------------------------------------------------------------

def call(dist, torch):
    times, tensor = [], torch.ones(2)
    for _ in range(WARM + CALLS):
        begin = time.perf_counter()
        dist.all_reduce(tensor, async_op=True).get_future().wait()
        times.append(time.perf_counter() - begin)
    print(1e6 * statistics.median(times[WARM:]), flush=True)


def train(dist, torch):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(512, 512))
    data = torch.randn(4, 512)
    for step in range(STEPS + 1):
        loss = model(data).sum()
        if step == STEPS and dist.get_rank() == 1:
            print(time.monotonic(), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            loss.backward()
            dist.barrier()
        except Exception as error:
            print(time.monotonic() if "rank 1" in str(error) else f"unnamed: {error}", flush=True)
            os._exit(0)
    print("nothing was noticed", flush=True)


def be_a_rank(what, backend):
    import torch
    import torch.distributed as dist
    import wring.torch
    torch_rig.require_native()
    torch.set_num_threads(1)
    if not dist.is_backend_available("wring"):
        wring.torch.register()
    dist.init_process_group(backend)
    {"call": call, "train": train}[what](dist, torch)
    dist.destroy_process_group()


# ---- all of them --------------------------------------------------------------------------------

def launch(python, what, backend, ranks, **more):
    """What each rank printed last."""
    port = torch_rig.free_port()
    command = [python, "-W", "ignore", __file__, "--be", what, "--backend", backend]
    running = [subprocess.Popen(
        command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank),
             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", **more})
        for rank in range(ranks)]
    try:
        return [rank.communicate(timeout=300)[0].splitlines()[-1] for rank in running]
    finally:
        for rank in running:
            rank.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--be", help=argparse.SUPPRESS)
    parser.add_argument("--backend", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.be:
        be_a_rank(arguments.be, arguments.backend)
        return
    torch_rig.measure_with(ROOT)
    took = {way: [] for way in WAYS}
    killed = []
    for _ in range(arguments.rounds):
        for way, (backend, more) in WAYS.items():
            took[way].append(float(launch(arguments.python, "call", backend, 1, **more)[0]))
        first, died, second = launch(arguments.python, "train", "wring", 3)
        if not died.replace(".", "").isdigit() or "n" in first + second:
            sys.exit(f"rank 1 died, and the others say: {first}; {second}")
        killed.append(1e3 * (max(float(first), float(second)) - float(died)))
    print("| what | median | best | worst |\n|---|---|---|---|")
    for way, all_us in took.items():
        print(f"| 8 B with a future, {way}, us | {statistics.median(all_us):.1f} | {min(all_us):.1f} "
              f"| {max(all_us):.1f} |")
    print(f"| a killed rank is known to all, ms | {statistics.median(killed):.0f} | {min(killed):.0f} "
          f"| {max(killed):.0f} |")


if __name__ == "__main__":
    main()
