#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples that train on through kills: test_elastic.py WRING LIBRARY SOURCE"""
import pathlib
import re
import subprocess
import sys
import tempfile

import torch_rig

WRING, LIBRARY, SOURCE = sys.argv[1:4]
LINE = re.compile(r"rank \d of (\d+): (\d+) steps, weights (-?\d+\.\d+)")
EXAMPLES = pathlib.Path(SOURCE) / "dropin" / "torch" / "examples"
PATIENCE = 300  # seconds: for hangs, not for slowness
RUN = [WRING, "run", "--elastic", "1:2", "--"]


def check(what, victim, launcher, example, arguments=(), said_by_launcher=None):
    """Rank `victim` of two is killed, and both end with the same weights."""
    done = subprocess.run([*launcher, *([python, "-B"] if launcher is RUN else []),
                           EXAMPLES / example, "--steps", "40", "--ranks", "2", "--die",
                           f"{victim}@15", *arguments], env=environment, text=True,
                          capture_output=True, timeout=PATIENCE)
    said = LINE.findall(done.stdout)
    if done.returncode != 0 or len(said) != 2 or len(set(said)) != 1 or said[0][0] != "2" or \
            said_by_launcher not in done.stderr:
        sys.exit(f"{what}, rank {victim} lost: exit status {done.returncode}\n{done.stdout}"
                 f"{done.stderr}")
    print(f"{what}: rank {victim} lost and back: {said[0][1]} steps, the same weights on both")


python = torch_rig.find_python(["torch"])
environment = {**torch_rig.environment(LIBRARY, SOURCE), "WRING_JOIN_TIMEOUT": "100s"}
with tempfile.TemporaryDirectory() as place:
    environment = torch_rig.installed(place, environment)
    # either rank is lost in either of test_group.py's groups, too
    for victim, example in enumerate(("train_elastic.py", "train_ddp_elastic.py")):
        check(example, victim, RUN, example, said_by_launcher=f"rank {victim} was killed")
    torchrun = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                "--max-restarts", "1"]
    check("torchrun", 1, torchrun, "train_ddp_elastic.py", ["--checkpoint", f"{place}/model.pt"],
          "exitcode: -9")
