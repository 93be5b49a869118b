#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wring.torch's hooks, by two ranks: test_hooks.py WRING LIBRARY SOURCE PROGRAM [TEST...]

WRING_TEST_FOREIGN names the folder whose torch/ is a virtual environment with torch.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch_rig

WRING, LIBRARY, SOURCE, PROGRAM = sys.argv[1:5]
PATIENCE = 900  # seconds: for hangs; machines that share their cores are slow


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def start(rank, python, folder, port):
    foreign = ("WRING_", "OMPI_", "PMI_", "PMIX_", "SLURM_", "TORCHELASTIC_")
    bare = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    environment = {
        **bare, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
        "WRING_LIBRARY": os.path.abspath(LIBRARY), "WRING_TEST_TOOL": os.path.abspath(WRING),
        "PYTHONPATH": str(pathlib.Path(SOURCE) / "dropin" / "torch"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [python, "-W", "ignore", PROGRAM, folder, *sys.argv[5:]]
    with open(os.path.join(folder, f"said.{rank}"), "wb") as said:
        return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=said,
                                stderr=subprocess.STDOUT)


def main():
    foreign = os.environ.get("WRING_TEST_FOREIGN", "")
    python = os.path.join(foreign, "torch", "bin", "python")
    if not foreign or not os.path.exists(python):
        skip("no torch: ./run test --foreign installs it")
    folder = tempfile.mkdtemp(prefix="wring-hooks-")
    port, ranks = torch_rig.free_port(), []
    try:
        ranks = [start(rank, python, folder, port) for rank in range(2)]
        codes = [rank.wait(PATIENCE) for rank in ranks]  # one that waits for the other gives up
    except subprocess.TimeoutExpired:
        codes = ["hangs"]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
        for rank in range(2):
            said = pathlib.Path(folder, f"said.{rank}").read_text(encoding="utf-8", errors="replace")
            print(f"rank {rank}:\n{said}")
        shutil.rmtree(folder, ignore_errors=True)
    print(f"ranks exited with {codes}")
    sys.exit(0 if codes == [0, 0] else 1)


if __name__ == "__main__":
    main()
