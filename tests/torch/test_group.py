#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wring's process groups in torch, in C++ and in Python: test_group.py LIBRARY SOURCE native|python

group_program.py has the cases. WRING_TEST_FOREIGN names the folder whose torch/ is a virtual
environment with torch.
"""
import pathlib
import signal
import sys
import unittest

import torch_rig

PROGRAM = pathlib.Path(__file__).resolve().with_name("group_program.py")
PATIENCE = 300  # seconds: for hangs, not for slowness


def launch(case, ranks):
    """@return [(exit status, all that was printed)] of all ranks"""
    port = str(torch_rig.free_port())
    places = [{"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": port} for rank in range(ranks)]
    return [(f"no end within {PATIENCE} s" if status is None else status, said)
            for status, said in SERVER.run([case], places, PATIENCE)]


class Cases(unittest.TestCase):
    """Each rank checks its part, and says that it has passed."""

    def passes(self, cases, ranks, dies=()):
        for rank, (status, said) in enumerate(launch(",".join(cases), ranks)):
            want = -signal.SIGKILL if rank in dies else 0
            self.assertEqual(status, want, f"{cases}, rank {rank} of {ranks}:\n{said[-4000:]}")
            if rank not in dies:
                self.assertIn(f"passed {' '.join(cases)}", said)

    def test_killed(self):
        self.passes(["killed"], 3, dies=(1,))

    def test_goes_on_without(self):
        for victim in (0, 1):
            self.passes([f"lose_{victim}"], 3, dies=(victim,))

    def test_goes_on_without_two(self):
        self.passes(["lose_in_first_step"], 4, dies=(0, 2))

    def test_by_functions_of_torch(self):
        self.passes(["shrunk_by_torch"], 3, dies=(2,))
        self.passes(["reconfigured"], 3, dies=(1,))

    def test_healthy_group_3(self):
        """One after another in one group."""
        self.passes(["reductions", "shapes", "all_to_all", "odd_types", "messages", "futures",
                     "coalesced", "groups", "split"], 3)

    def test_late_3(self):
        self.passes(["late"], 3)


def add(case):
    setattr(Cases, f"test_{case}_2", lambda self: self.passes([case], 2))


for name in ("leaving", "memory", "forgotten", "hooks_of_torch", "again", "refused", "mismatch",
             "late_unwaited", "aborted", "cut_off", "whose"):
    add(name)

if __name__ == "__main__":
    library, source, kind = sys.argv[1:4]
    PYTHON = torch_rig.find_python(("torch", "numpy"))
    ENVIRONMENT = torch_rig.environment(library, source)
    if kind == "python":
        ENVIRONMENT["WRING_TORCH_NATIVE"] = "off"
    SERVER = torch_rig.RankServer(PYTHON, PROGRAM, ENVIRONMENT)
    passed = unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2, exit=False).result
    ended = SERVER.end()
    sys.exit(0 if passed.wasSuccessful() and ended == 0 else 1)
