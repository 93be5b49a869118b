# SPDX-License-Identifier: Apache-2.0
"""What programs do with torch.distributed, in cases that name no backend but the one they are given.

    stock_program.py BACKEND CASE[,CASE...]

Rank 0 prints one line of JSON, {case: what it ended with}, the same for every backend. `again`,
`mismatch` and `restarted` need a job of their own.
"""
import json
import os
import signal
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn

ELEMS = 1000


def numbers(rank, elems=ELEMS):
    """Whose sums are exact in any order."""
    return torch.arange(elems, dtype=torch.float32) * (rank + 1) % 251


def digest(tensor):
    """What two runs compare by: exact, and short."""
    flat = tensor.detach().to(torch.float64).flatten()
    weights = torch.arange(1, flat.numel() + 1, dtype=torch.float64) % 97
    return [list(tensor.shape), (flat * weights).sum().item()]


def model(width=48):
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(16, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
                         nn.Linear(width, 4))


def train(net, steps=4):
    """@return the losses of the steps, on data of each rank's own"""
    torch.manual_seed(100 + dist.get_rank())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = net(torch.randn(8, 16)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def parameters(net):
    return [digest(p.full_tensor() if hasattr(p, "full_tensor") else p) for p in net.parameters()]


def ddp():
    net = nn.parallel.DistributedDataParallel(model())
    return [train(net), parameters(net)]


def ddp_bf16():
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
    net = nn.parallel.DistributedDataParallel(model())
    net.register_comm_hook(None, bf16_compress_hook)
    return [train(net), parameters(net)]


def compiled_ddp():
    net = torch.compile(nn.parallel.DistributedDataParallel(model()), backend="aot_eager")
    return [train(net), parameters(net)]


def fsdp2():
    from torch.distributed.fsdp import fully_shard
    net = model()
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(net)
    return [train(net), parameters(net)]


def device_mesh():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("all",))
    tensor = distribute_tensor(torch.arange(60.0).reshape(12, 5), mesh, [Shard(0)])
    other = tensor.redistribute(mesh, [Shard(1)])
    product = tensor @ distribute_tensor(torch.arange(20.0).reshape(5, 4), mesh, [Replicate()])
    return [digest(other.full_tensor()), digest(product.full_tensor()),
            digest(product.sum().full_tensor())]


def functional():
    import torch.distributed._functional_collectives as funcol
    group, rank, size = dist.group.WORLD, dist.get_rank(), dist.get_world_size()

    @torch.compile(backend="aot_eager")
    def step(x):
        summed = funcol.all_reduce(x * 2, "sum", group)
        gathered = funcol.all_gather_tensor(x, 0, group)
        scattered = funcol.reduce_scatter_tensor(gathered, "sum", 0, group)
        return summed + 1, gathered, scattered
    summed, gathered, scattered = step(numbers(rank))
    turned = funcol.all_to_all_single(numbers(rank, 10 * size), None, None, group)
    return [digest(summed), digest(gathered), digest(scattered), digest(funcol.wait_tensor(turned))]


def objects():
    rank, size = dist.get_rank(), dist.get_world_size()
    everybody, sent, got = [None] * size, [{"from": 0, "n": 7}, "word"], [None]
    dist.all_gather_object(everybody, {"rank": rank, "text": "x" * (rank + 1)})
    if rank != 0:
        sent = [None, None]
    dist.broadcast_object_list(sent, src=0)
    dist.scatter_object_list(got, [f"to {i}" for i in range(size)] if rank == 0 else None, src=0)
    return [everybody, sent, got]


def groups():
    rank, size = dist.get_rank(), dist.get_world_size()
    everyone = dist.new_group(list(reversed(range(size))))
    alone = [dist.new_group([i]) for i in range(size)]
    all_data, own_data = numbers(rank), numbers(rank)
    dist.all_reduce(all_data, group=everyone)
    dist.all_reduce(own_data, group=alone[rank])
    dist.destroy_process_group(alone[rank])
    dist.barrier(group=everyone)
    return [digest(all_data), digest(own_data)]


def messages():
    rank, size = dist.get_rank(), dist.get_world_size()
    got = [torch.zeros(ELEMS) for _ in range(size)]
    peers = [i for i in range(size) if i != rank]
    ops = ([dist.P2POp(dist.isend, numbers(rank), i, tag=rank) for i in peers] +
           [dist.P2POp(dist.irecv, got[i], i, tag=i) for i in peers])
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    anyone = torch.zeros(3)
    if rank == 0:
        sources = [dist.recv(anyone) for _ in peers]
        sources.sort()
    else:
        dist.send(torch.full((3,), float(rank)), 0)
        sources = None
    return [[digest(one) for one in got], sources]


def again():
    found = []
    for turn in range(3):
        if turn:
            dist.init_process_group(BACKEND)
        data = numbers(dist.get_rank()) + turn
        dist.all_reduce(data)
        found.append(digest(data))
        if turn < 2:
            dist.destroy_process_group()
    return found


def checkpoint():
    import torch.distributed.checkpoint as dcp
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    net = nn.parallel.DistributedDataParallel(model())
    losses = train(net)
    dcp.save({"model": net.state_dict()}, checkpoint_id=folder[0])
    fresh = nn.parallel.DistributedDataParallel(model())
    state = {"model": fresh.state_dict()}
    dcp.load(state, checkpoint_id=folder[0])
    fresh.load_state_dict(state["model"])
    return [losses, parameters(fresh)]


def mismatch():
    """Of shapes: who finds it out says so, and nobody hangs."""
    try:
        dist.all_reduce(torch.ones(10 + dist.get_rank()))
    except RuntimeError:
        return "refused"
    return "summed"


def restarted():
    """In the first life one rank dies in the middle."""
    life = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    data = numbers(dist.get_rank())
    for step in range(5):
        if life == 0 and step == 3 and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(data)
        data %= 251
    return [life, digest(data)]


CASES = {case.__name__: case for case in (
    ddp, ddp_bf16, compiled_ddp, fsdp2, device_mesh, functional, objects, groups, messages, again,
    checkpoint, mismatch, restarted)}
BACKEND = sys.argv[1]


def main():
    torch.set_num_threads(1)
    dist.init_process_group(BACKEND)
    first = dist.get_rank() == 0
    results = {case: CASES[case]() for case in sys.argv[2].split(",")}
    if first:
        print(json.dumps(results), flush=True)
    if "mismatch" not in results:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
