#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Train by DistributedDataParallel on ranks that may be killed.

    wring run --elastic 2:4 -- python3 train_ddp_elastic.py --ranks 4 --die 1@40
    torchrun --nproc-per-node 4 --max-restarts 3 train_ddp_elastic.py --checkpoint model.pt --die 1@40

Gradients go by the hook, by codec int8 with error feedback. Under `wring run` the ranks that are left go
on in the same processes, and let in those that were started again. torchrun ends all ranks of a host
if one fails, and starts them again: there they go on with the last checkpoint.

    --steps N          to make (default 200)
    --ranks N          go on beyond these until there are so many ranks
    --checkpoint FILE  written every tenth step, and read at the start if it is there
    --die RANK@STEP    rank RANK kills itself before that step, once
"""
import argparse
import os
import signal

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import wring.torch
from wring.torch import elastic

LOOK_EVERY = 10  # steps: for newcomers, and to save


class Trainer:
    """A model, and what has to be the same on all ranks."""

    def __init__(self, checkpoint):
        torch.manual_seed(1)
        self.net = nn.Sequential(nn.Linear(32, 512), nn.Tanh(), nn.Linear(512, 64), nn.Tanh(),
                                 nn.Linear(64, 1))
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3)
        self.hook = wring.torch.DDPState(self.net, codec="int8+ef", settings={"WRING_ROLLBACK": "on"})
        self.steps, self.checkpoint = elastic.Steps(), checkpoint
        self.model = None  # wrapped; None: the ranks have to meet first
        self.is_cut_off = False  # a step was, as ranks were lost
        self.looked = -1  # at which step
        if checkpoint and os.path.exists(checkpoint):
            self.load()

    # ---- what is kept

    def load(self):
        saved = torch.load(self.checkpoint, weights_only=False)
        self.net.load_state_dict(saved["net"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.hook.load_state_dict(saved["hook"])
        self.steps.done = self.steps.ready = self.looked = saved["steps"]

    def save(self):
        held_back = self.hook.gather_state_dict()
        if dist.get_rank() == 0:
            torch.save({"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict(),
                        "hook": held_back, "steps": self.steps.done}, self.checkpoint + ".new")
            os.replace(self.checkpoint + ".new", self.checkpoint)

    # ---- steps

    def meet(self):
        """Ranks have come, or are lost: all begin with what rank 0 has."""
        self.hook.spread()
        self.steps.meet()
        states = [self.net.state_dict(), self.optimizer.state_dict()]
        dist.broadcast_object_list(states, src=0)
        self.net.load_state_dict(states[0])
        self.optimizer.load_state_dict(states[1])
        self.optimizer.zero_grad()
        model = DistributedDataParallel(self.net, gradient_as_bucket_view=True)
        model.register_comm_hook(self.hook, wring.torch.ddp_hook)
        self.model = model

    def part(self):
        if self.model is not None:
            elastic.unwrap(self.model)
        self.model = None

    def look_around(self):
        self.looked = self.steps.done
        if self.checkpoint and self.steps.done > 0:
            self.save()
        if elastic.grow():
            self.part()

    def make_step(self):
        """@return the loss of this rank's own batch"""
        random = torch.Generator().manual_seed(self.steps.done * 1000 + dist.get_rank())
        batch = torch.randn(64, 32, generator=random)
        loss = nn.functional.mse_loss(self.model(batch), batch[:, :1] * 0.5 - batch[:, 1:2])
        loss.backward()
        self.steps.arrive()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

    def has_made(self, steps):
        """@return the same on all ranks: newcomers know what is made once all have met"""
        return self.model is not None and not self.is_cut_off and self.steps.done >= steps

    def go_on(self):
        """The next thing to do, whatever it is."""
        if self.is_cut_off:
            if self.steps.settle():
                self.optimizer.step()
            self.is_cut_off = False
            self.part()
        elif self.model is None:
            self.meet()
        elif self.steps.done % LOOK_EVERY == 0 and self.looked != self.steps.done:
            self.look_around()
        else:
            self.make_step()

    def go_on_without(self, error):
        """@param error  of a call that failed"""
        if dist.is_torchelastic_launched() or not elastic.has_lost(self.hook):
            raise error
        elastic.shrink(self.hook)
        self.is_cut_off = True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=0)
    parser.add_argument("--checkpoint", default="")
    parser.add_argument("--die", default="-1@0")
    wish = parser.parse_args()
    torch.set_num_threads(1)
    victim, last = (int(number) for number in wish.die.split("@"))
    if "WRING_JOIN" in os.environ or os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0":
        victim = -1
    elastic.init()
    number, trainer = dist.get_rank(), Trainer(wish.checkpoint)
    while not trainer.has_made(wish.steps) or dist.get_world_size() < wish.ranks:
        if (number, trainer.steps.done) == (victim, last):
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            trainer.go_on()
        except RuntimeError as error:
            trainer.go_on_without(error)
    total = sum(parameter.double().sum().item() for parameter in trainer.net.parameters())
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {trainer.steps.done} steps, "
          f"weights {total:.6f}", flush=True)
    trainer.hook.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
