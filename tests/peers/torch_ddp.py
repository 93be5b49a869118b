#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the exchange of DDP's gradients adds to a step, by gloo and by wring, two ranks with a core each.

    tests/peers/torch_ddp.py [--python PYTHON] [--links shm,loopback,1g] [--rounds N] [--steps N]
                             [--mbytes N]

A step is forward and backward of 16 linear layers, 64 MiB of float32 gradients together, which are
views of DDP's buckets. Exposed is the time of a step less that of one without an exchange, medians of
all; ways take turns, --steps steps each, --rounds times. Ways: gloo's own all-reduce; torch's bf16 hook
over gloo; wring as the backend; wring's hook with a codec, and with WRING_PLAN=auto after 40 steps,
which has a process to itself.

shm and loopback: both ranks on this host; 1g, 10g: hosts in network namespaces (links.py). PYTHON has
torch; wring is that of this tree, with the library of build/ or WRING_LIBRARY.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import links

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "torch"))
import torch_rig  # noqa: E402

PORT = 29500
LAYERS = 16
WARM, WARM_AUTO = 3, 40
CODEC = "onebit:block=128+ef"
AUTO_CODECS = "bf16,int8+ef,onebit:block=128+ef"
# of one launch: the backend of its default group, and the ways that take turns in it
LAUNCHES = (("gloo", ["gloo", "gloo bf16", "hook none", "hook " + CODEC]), ("wring", ["wring"]),
            ("gloo", ["hook auto"]))


# ---- a rank -------------------------------------------------------------------------------------

def make(way, width):
    """@return a DDP model whose gradients go that way"""
    import torch
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    import wring.torch
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width, bias=False)
                                  for _ in range(LAYERS)])
    wrapped = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if way == "gloo bf16":
        wrapped.register_comm_hook(None, default_hooks.bf16_compress_hook)
    elif way.startswith("hook "):
        codec = way.split(" ", 1)[1]
        state = wring.torch.DDPState(wrapped, plan="auto", settings={
            "WRING_PLAN_CODECS": AUTO_CODECS}) if codec == "auto" else \
            wring.torch.DDPState(wrapped, codec=codec)
        wrapped.register_comm_hook(state, wring.torch.ddp_hook)
    return wrapped


def step(model, data, exchanged):
    import torch.distributed as dist
    dist.barrier()
    begin = time.perf_counter()
    if exchanged:
        model(data).sum().backward()
    else:
        with model.no_sync():
            model(data).sum().backward()
    seconds = time.perf_counter() - begin
    model.zero_grad(set_to_none=False)
    return 1e3 * seconds


def be_a_rank(backend, ways, width, rounds, steps):
    import torch
    import torch.distributed as dist
    import wring.torch
    torch_rig.require_native()
    torch.set_num_threads(1)
    if not dist.is_backend_available("wring"):
        wring.torch.register()
    dist.init_process_group(backend)
    data = torch.randn(4, width)
    models = {way: make(way, width) for way in ways}
    for way, model in models.items():
        for _ in range(WARM_AUTO if way == "hook auto" else WARM):
            step(model, data, True)
    times = {way: [] for way in [*ways, "computing"]}
    for _ in range(rounds):
        for way, model in models.items():
            times[way] += [step(model, data, True) for _ in range(steps)]
            times["computing"] += [step(model, data, False) for _ in range(steps if way == ways[0]
                                                                            else 0)]
    if dist.get_rank() == 0:
        print(json.dumps(times), flush=True)
    dist.barrier()
    dist.destroy_process_group()


# ---- all of them --------------------------------------------------------------------------------

def environment_of(rank, address, **settings):
    return {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": address,
            "MASTER_PORT": str(PORT), "OMP_NUM_THREADS": "1", **settings}


def here(command, settings):
    """Both ranks on this host. @return what each printed"""
    cores = sorted(os.sched_getaffinity(0))
    ranks = [subprocess.Popen(
        list(map(str, command)), env={**os.environ, **environment_of(rank, "127.0.0.1", **settings)},
        stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
        preexec_fn=lambda rank=rank: os.sched_setaffinity(0, {cores[rank % len(cores)]}))
        for rank in range(2)]
    try:
        return [rank.communicate(timeout=600)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()


def measure(name, arguments):
    """Print a table for one link."""
    result, settings = {}, {"WRING_CACHE": "off"}
    if name in ("shm", "loopback"):
        settings["WRING_PROVIDER"] = "shm" if name == "shm" else "tcp"
    for backend, ways in LAUNCHES:
        ways = [way for way in ways if any(part in way for part in arguments.ways.split(","))]
        if not ways:
            continue
        command = [arguments.python, "-W", "ignore", __file__, "--be", backend,
                   "--turns", json.dumps(ways), "--rounds", arguments.rounds, "--steps",
                   arguments.steps, "--mbytes", arguments.mbytes]
        if name in ("shm", "loopback"):
            said = here(command, settings)[0]
        else:
            with links.Hosts(2, links.LINKS[name], bound=True) as hosts:
                said = hosts.run(lambda _: command, lambda rank: environment_of(
                    rank, hosts.address(0), GLOO_SOCKET_IFNAME="cable", **settings), 600)[0]
        times = json.loads(said.splitlines()[-1])
        computing = statistics.median(times.pop("computing"))
        for way, all_ms in times.items():
            result[way] = statistics.median(all_ms) - computing
            print(f"| {name} | {way} | {statistics.median(all_ms):.1f} | {min(all_ms):.1f} "
                  f"| {computing:.1f} | {result[way]:.1f} "
                  f"| {result.get('gloo', float('nan')) / result[way]:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--links", default="shm,loopback,1g")
    parser.add_argument("--ways", default="gloo,wring,hook", help="parts of the names of ways")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--mbytes", type=int, default=64)
    parser.add_argument("--be", help=argparse.SUPPRESS)
    parser.add_argument("--turns", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    width = int((arguments.mbytes * 2**20 / 4 / LAYERS) ** 0.5)
    if arguments.be:
        be_a_rank(arguments.be, arguments.turns, width, arguments.rounds, arguments.steps)
        return
    torch_rig.measure_with(ROOT)
    if set(arguments.links.split(",")) - {"shm", "loopback"}:
        links.require_root()
    print("| link | way | step ms | best | computing | exposed ms | times gloo's speed |\n"
          "|---|---|---|---|---|---|---|", flush=True)
    for name in arguments.links.split(","):
        measure(name, arguments)


if __name__ == "__main__":
    main()
