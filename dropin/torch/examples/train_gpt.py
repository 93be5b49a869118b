#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Train a small GPT with DistributedDataParallel, over gloo or wring, with or without a codec.

    torchrun --nproc-per-node 2 train_gpt.py [--backend gloo|wring] [--hook HOOK]
                                             [--steps N] [--seed N] [--text FILE] [--json]

HOOK says how gradients travel:

    none, bf16                    as DistributedDataParallel and torch's own hook have it
    int8+ef                       by a codec of wring's
    '*mlp*=int8+ef;*=bf16'        by rules, as WRING_CODEC_RULES has them
    auto                          wring chooses while the job runs
    local:EVERY:OVERLAP:CODEC     not at all: each rank takes EVERY steps by itself, then ranks
                                  average what these changed, beside the next OVERLAP steps

The text is that of Python's own reference, which every Python carries, unless --text names another.
The model reads bytes. Every tenth block of the text is held out, and the loss on it is what the end
says. The time of a step is the median over runs of ten steps.

Each rank prints nothing but rank 0, which prints one line a fifty steps, and the result.
"""
import argparse
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

CONTEXT = 64  # bytes that the model sees
HELD_OUT = 10  # one block of so many
BLOCK = 4096
WARM_UP = 10  # steps of which no time counts
WINDOW = 10  # steps whose mean time is one sample: not all of them exchange


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_mixing, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixing = nn.Linear(width, 3 * width)
        self.mixed = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.mixing(self.before_mixing(x)).split(width, dim=2)
        query, key, value = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                             for part in parts)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.mixed(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.before_mlp(x))


class Gpt(nn.Module):
    def __init__(self, width=320, layers=4, heads=5):
        super().__init__()
        self.bytes = nn.Embedding(256, width)
        self.places = nn.Embedding(CONTEXT, width)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, 256)
        for part in self.modules():
            if isinstance(part, (nn.Linear, nn.Embedding)):
                nn.init.normal_(part.weight, std=0.02)

    def forward(self, x):
        return self.out(self.norm(self.layers(self.bytes(x) + self.places.weight[:x.shape[1]])))


def read_text(path):
    if path:
        with open(path, "rb") as file:
            return file.read()
    from pydoc_data.topics import topics
    return "\n\n".join(topics[name] for name in sorted(topics)).encode()


def split(text):
    """@return (what is trained on, what is held out), as tensors of bytes"""
    if len(text) < 2 * HELD_OUT * BLOCK:
        sys.exit(f"train_gpt.py: the text has {len(text)} bytes; {2 * HELD_OUT * BLOCK} are needed")
    blocks = [text[at:at + BLOCK] for at in range(0, len(text), BLOCK)]
    train = b"".join(block for i, block in enumerate(blocks) if i % HELD_OUT)
    held = b"".join(block for i, block in enumerate(blocks) if i % HELD_OUT == 0)
    return [torch.frombuffer(bytearray(part), dtype=torch.uint8).long() for part in (train, held)]


def batch_of(text, size, generator):
    starts = torch.randint(len(text) - CONTEXT - 1, (size,), generator=generator)
    rows = torch.stack([text[at:at + CONTEXT + 1] for at in starts])
    return rows[:, :-1], rows[:, 1:]


def loss_of(model, batch):
    x, y = batch
    return functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


def add_hook(model, hook):
    if hook == "none":
        return
    if hook == "bf16":
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
        model.register_comm_hook(None, default_hooks.bf16_compress_hook)
        return
    import wring.torch
    if hook == "auto":
        state = wring.torch.DDPState(model, plan="auto")
    elif "=" in hook.partition(":")[0]:
        state = wring.torch.DDPState(model, rules=hook)
    else:
        state = wring.torch.DDPState(model, codec=hook)
    model.register_comm_hook(state, wring.torch.ddp_hook)


def prepare(hook):
    """@return (the model as it is trained, its wring.torch.LocalSGD or None)"""
    model = Gpt()  # the same on all ranks: they have the same seed
    if not hook.startswith("local:"):
        model = DistributedDataParallel(model)
        add_hook(model, hook)
        return model, None
    import wring.torch
    every, overlap, codec = hook.removeprefix("local:").split(":", 2)
    return model, wring.torch.LocalSGD(model, every=int(every), overlap=int(overlap), codec=codec,
                                       outer_rate=1, outer_momentum=0)


def time_of_step(times):
    """Of ten steps in a row, the mean; of these, the median."""
    counted = times[WARM_UP:]
    return statistics.median(statistics.mean(counted[at:at + WINDOW])
                             for at in range(0, len(counted) - WINDOW + 1, WINDOW))


def train(arguments):
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(arguments.seed)
    text, held = split(read_text(arguments.text))
    model, local = prepare(arguments.hook)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.rate, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / 20) * (1 - 0.9 * step / arguments.steps))
    generator = torch.Generator().manual_seed(1000 * arguments.seed + rank)
    times, losses = [], []
    for step in range(arguments.steps):
        begin = time.monotonic()
        optimizer.zero_grad()
        loss = loss_of(model, batch_of(text, arguments.batch, generator))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if local is not None:
            local.step()
        times.append(time.monotonic() - begin)
        losses.append(loss.item())
        if rank == 0 and not arguments.json and (step + 1) % 50 == 0:
            print(f"step {step + 1}: loss {statistics.mean(losses[-50:]):.4f}, "
                  f"{1e3 * statistics.median(times[-50:]):.1f} ms", flush=True)
    if local is not None:
        local.finish()
    with torch.no_grad():
        generator.manual_seed(arguments.seed)
        alone = getattr(model, "module", model)
        found = statistics.mean(loss_of(alone, batch_of(held, 16, generator)).item()
                                for _ in range(40))
    if rank == 0:
        result = {"backend": arguments.backend, "hook": arguments.hook, "ranks": size,
                  "seed": arguments.seed, "steps": arguments.steps,
                  "elements": sum(p.numel() for p in model.parameters()),
                  "step_us": 1e6 * time_of_step(times),
                  "held_out_loss": found, "losses": losses,
                  "times_us": [1e6 * seconds for seconds in times]}
        print(json.dumps(result) if arguments.json else
              f"{result['step_us'] / 1e3:.1f} ms a step, loss on what is held out {found:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="wring", choices=("gloo", "wring"))
    parser.add_argument("--hook", default="none")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=4, help="sequences a rank and step")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--text")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.steps < WARM_UP + WINDOW:
        parser.error(f"--steps: at least {WARM_UP + WINDOW}, please")
    torch.set_num_threads(arguments.threads)
    dist.init_process_group(arguments.backend)
    train(arguments)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
