#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of torch.distributed, unchanged: on wring they end with what they end with on gloo.

    test_stock.py LIBRARY SOURCE [TEST...]

Programs name the backend only, which import of torch finds by the package's entry point, as where
wring was installed. WRING_TEST_FOREIGN/torch is a virtual environment with torch.
"""
import functools
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch_rig

PROGRAM = pathlib.Path(__file__).with_name("stock_program.py")
PATIENCE = 400  # seconds
ELEMS = 1000


def launch(backend, cases, ranks=2, **more):
    """What rank 0 printed."""
    command = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "1",
               "--nproc-per-node", str(ranks), str(PROGRAM), backend, ",".join(cases)]
    done = subprocess.run(command, env={**ENVIRONMENT, **more}, stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=PATIENCE, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{backend}, {cases}, {ranks} ranks: exit {done.returncode}\n"
                             f"{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


ON_GLOO = {2: ("ddp", "ddp_bf16", "compiled_ddp", "fsdp2", "checkpoint", "groups", "messages"),
           3: ("device_mesh", "functional", "objects", "groups", "messages")}


@functools.cache
def all_on_gloo(ranks):
    return launch("gloo", ON_GLOO[ranks], ranks)


def on_gloo(cases, ranks=2):
    """What gloo says of these cases, from one run of all of them."""
    return {case: all_on_gloo(ranks)[case] for case in cases}


def sum_digest(ranks, add=0):
    """Of numbers() of all ranks, each plus `add`."""
    values = [sum(i * (rank + 1) % 251 + add for rank in range(ranks)) for i in range(ELEMS)]
    return [[ELEMS], float(sum(value * ((i + 1) % 97) for i, value in enumerate(values)))]


class AsOnGloo(unittest.TestCase):
    """The same digits: sums of two in any order, and of more where they are exact."""
    maxDiff = None

    def same(self, cases, ranks=2, **environment):
        self.assertEqual(launch("wring", cases, ranks, **environment), on_gloo(cases, ranks))

    def test_training(self):
        self.same(("ddp", "ddp_bf16", "compiled_ddp", "fsdp2", "checkpoint"))

    def test_collectives(self):
        self.same(("device_mesh", "functional", "objects", "groups", "messages"), 3)

    def test_debug_detail(self):
        """Against gloo without it: DDP over gloo may crash there (torch 2.15)."""
        cases = ("ddp", "groups", "messages")
        self.assertEqual(launch("wring", cases, TORCH_DISTRIBUTED_DEBUG="DETAIL"), on_gloo(cases))

    def test_in_the_place_of_gloo(self):
        cases = ("fsdp2", "groups")
        self.assertEqual(launch("gloo", cases, WRING_TORCH_REPLACE="gloo"), on_gloo(cases))


class WhereGlooFails(unittest.TestCase):
    """Where keys of an earlier life lie in the store, gloo meets its predecessor's addresses."""

    def test_destroyed_and_made_again(self):
        self.assertEqual(launch("wring", ["again"]),
                         {"again": [sum_digest(2, turn) for turn in range(3)]})

    def test_restarted_job(self):
        values = [[i * (rank + 1) % 251 for i in range(ELEMS)] for rank in range(2)]
        for _ in range(5):
            sums = [sum(column) % 251 for column in zip(*values)]
            values = [sums, sums]
        want = float(sum(value * ((i + 1) % 97) for i, value in enumerate(values[0])))
        self.assertEqual(launch("wring", ["restarted"]), {"restarted": [1, [[ELEMS], want]]})

    def test_another_shape_on_one_rank_is_refused(self):
        self.assertEqual(launch("wring", ["mismatch"]), {"mismatch": "refused"})


if __name__ == "__main__":
    PYTHON = torch_rig.find_python(("torch",))
    with tempfile.TemporaryDirectory() as place:
        ENVIRONMENT = torch_rig.installed(place, torch_rig.environment(*sys.argv[1:3]))
        unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
