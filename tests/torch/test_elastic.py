#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example that trains on through kills: test_elastic.py WRING LIBRARY SOURCE"""
import pathlib
import re
import subprocess
import sys

import torch_rig

WRING, LIBRARY, SOURCE = sys.argv[1:4]
LINE = re.compile(r"rank \d of (\d+): (\d+) steps, weights (-?\d+\.\d+)")

python = torch_rig.find_python(["torch"])
environment = {**torch_rig.environment(LIBRARY, SOURCE), "WRING_JOIN_TIMEOUT": "100s"}
example = pathlib.Path(SOURCE) / "dropin" / "torch" / "examples" / "train_elastic.py"
for victim in range(2):
    done = subprocess.run([WRING, "run", "--elastic", "1:2", "--", python, "-B", example, "--steps",
                           "40", "--ranks", "2", "--die", f"{victim}@15"], env=environment,
                          text=True, capture_output=True, timeout=180)
    said = LINE.findall(done.stdout)
    if done.returncode != 0 or len(said) != 2 or len(set(said)) != 1 or said[0][0] != "2" or \
            f"rank {victim} was killed" not in done.stderr:
        sys.exit(f"rank {victim} lost: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    print(f"rank {victim} lost and back: {said[0][1]} steps, the same weights on both")
