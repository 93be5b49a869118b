#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of torch.distributed by torchrun on two hosts, with no setting of wring's.

    test_hosts.py LIBRARY SOURCE [TEST...]
"""
import json
import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "launchers")]
import hosts as machines  # noqa: E402
import rig as rigs  # noqa: E402
import rig_torchrun  # noqa: E402
import torch_rig  # noqa: E402

LIBRARY, SOURCE = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
PROGRAM = HERE / "stock_program.py"


class TwoHosts(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.places = machines.Hosts(LIBRARY)
        cls.rig = rig_torchrun.Torchrun(cls.places, os.environ["WRING_TEST_FOREIGN"])
        cls.environment = torch_rig.installed(cls.places.folder,
                                              torch_rig.environment(LIBRARY, SOURCE))

    def launch(self, backend, ranks, hosts, cases):
        """What rank 0 printed."""
        commands = self.rig.commands(ranks, hosts)
        job = rigs.Job(commands, [PYTHON, str(PROGRAM), backend, ",".join(cases)],
                       **{**self.environment, "GLOO_SOCKET_IFNAME": "cable"})
        status, out, err = job.finish()
        self.assertEqual(status, 0, f"{backend}: {out}\n{err[-4000:]}")
        return json.loads(out.splitlines()[-1])

    def test_as_gloo(self):
        """Sums of four may be made in another order: where they are exact, there is no other."""
        for ranks, cases in ((2, ("ddp", "groups")), (4, ("groups", "messages", "objects"))):
            with self.subTest(ranks=ranks):
                self.assertEqual(self.launch("wring", ranks, 2, cases),
                                 self.launch("gloo", ranks, 2, cases))


if __name__ == "__main__":
    PYTHON = torch_rig.find_python(("torch",))
    machines.enter()
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
