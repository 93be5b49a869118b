#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Train a small model on ranks that may be killed, and that come back.

    wring run --elastic 2:4 -- python3 train_elastic.py [--steps N] [--ranks N] [--die RANK@STEP]

Gradients go through one bucket of wring's, by codec int8 with error feedback. If a rank is lost, the
others go on without it. Every tenth step they let in those that were started again, which get rank
0's parameters. Kill ranks while it runs, or let --die do it.

    --steps N        to make (default 200)
    --ranks N        go on beyond these until there are so many ranks (default: as many as there are)
    --die RANK@STEP  rank RANK kills itself before that step
"""
import argparse
import os
import signal

import torch
from torch import nn

from wring import api

GROW_EVERY = 10  # steps


class Trainer:
    """A model, and the gradients of all its parameters in one bucket."""

    def __init__(self):
        torch.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 1))
        self.parameters = list(self.model.parameters())
        n = sum(parameter.numel() for parameter in self.parameters)
        self.weights, self.before = torch.zeros(n), torch.zeros(n)
        self.session = api.Session()
        self.grad, self.mean = (torch.frombuffer(self.session.alloc(4 * n), dtype=torch.float32)
                                for _ in range(2))
        self.bucket = self.session.register("gradients", self.grad, out=self.mean, op=api.Op.AVG,
                                            codec="int8+ef")
        self.session.commit()
        self.share()
        self.grown = self.step = self.bucket.steps

    def share(self):
        """All ranks take rank 0's weights; newcomers need them."""
        self.weights.copy_(nn.utils.parameters_to_vector(self.parameters).detach())
        self.session.share(self.weights)
        nn.utils.vector_to_parameters(self.weights, self.parameters)

    def compute_gradient(self):
        """Of this rank's own batch."""
        random = torch.Generator().manual_seed(self.step * 1000 + self.session.rank)
        batch = torch.randn(64, 32, generator=random)
        want = batch[:, :1] * 0.5 - batch[:, 1:2]
        self.model.zero_grad()
        loss = nn.functional.mse_loss(self.model(batch), want)
        loss.backward()
        self.grad.copy_(torch.cat([parameter.grad.flatten() for parameter in self.parameters]))
        return loss.item()

    def make_step(self):
        """@return the loss; None: newcomers were looked for instead, and all begin where these do"""
        if self.step % GROW_EVERY == 0 and self.grown != self.step:
            self.grown = self.step
            if self.session.grow():
                self.share()
            return None
        loss = self.compute_gradient()
        self.bucket.post()
        self.bucket.wait()
        self.before.copy_(nn.utils.parameters_to_vector(self.parameters).detach())
        nn.utils.vector_to_parameters(self.before - 0.05 * self.mean, self.parameters)
        self.step += 1
        return loss

    def go_on_without(self):
        """Ranks are lost. A step that not all have made is to be made again."""
        self.session.shrink()
        if self.bucket.steps < self.step:
            nn.utils.vector_to_parameters(self.before, self.parameters)
        self.grown = self.step = self.bucket.steps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=0)
    parser.add_argument("--die", default="-1@0")
    wish = parser.parse_args()
    torch.set_num_threads(1)
    trainer = Trainer()
    victim, last = (int(number) for number in wish.die.split("@"))
    newcomer, number, loss = trainer.step > 0, trainer.session.rank, None
    while trainer.step < wish.steps or trainer.session.size < wish.ranks:
        if not newcomer and (number, trainer.step) == (victim, last):
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            loss = trainer.make_step() or loss
        except api.WringError as error:
            if error.status != api.Status.PEER:
                raise
            trainer.go_on_without()
    session = trainer.session
    total = sum(parameter.double().sum().item() for parameter in trainer.parameters)
    print(f"rank {session.rank} of {session.size}: {trainer.step} steps, weights {total:.6f}",
          flush=True)
    session.close()


if __name__ == "__main__":
    main()
