#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs with libwring_mpi.so before their MPI, on two hosts: test_hosts.py MPI LIBRARY SOURCES"""
import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "launchers")]
import hosts as machines  # noqa: E402
import mpis  # noqa: E402
import rig as rigs  # noqa: E402
import rig_hydra  # noqa: E402
import rig_openmpi  # noqa: E402

NAME, LIBRARY, SOURCES = sys.argv[1], *(str(pathlib.Path(path).resolve())
                                        for path in sys.argv[2:4])
MPI = mpis.find(NAME)
RIGS = {"openmpi4": rig_openmpi.OpenMpi4, "openmpi5": rig_openmpi.OpenMpi5,
        "mpich4": rig_hydra.Hydra4, "mpich5": rig_hydra.Hydra5}


class TwoHosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.places = machines.Hosts(LIBRARY)
        cls.rig = RIGS[NAME](cls.places, str(mpis.FOREIGN))

    def job(self, ranks, hosts, source, *args, **variables):
        """@return (exit status, standard output, standard error)"""
        program = str(pathlib.Path(self.places.folder) / source.replace(".", "-"))
        if not pathlib.Path(program).exists():
            mpis.compile_program(MPI, str(pathlib.Path(SOURCES) / source), program)
        variables = {"LD_PRELOAD": LIBRARY, "WRING_STATS": "1", **variables}
        passed = []
        for name, value in variables.items():
            passed += ["-x", f"{name}={value}"] if MPI.openmpi else ["-env", name, value]
        [(prefix, words, more)] = self.rig.commands(ranks, hosts)
        return rigs.Job([(prefix, [*words, *passed], more)], [program, *args]).finish()

    def check(self, *job):
        status, out, err = self.job(*job)
        self.assertEqual(status, 0, f"{out}\n{err}")
        self.assertIn("0 failures", out + err)
        return out + err

    def test_collectives(self):
        said = self.check(4, 2, "calls.c")
        self.assertNotIn("left to", said)
        self.assertRegex(said, r"served:.* allreduce \d")

    def test_communicators(self):
        self.check(4, 2, "comms.c", "made")
        self.check(4, 2, "comms.c", "orders")

    def test_a_killed_rank(self):
        """The launcher may end the others before they have said that it is gone."""
        for hosts in (1, 2):
            with self.subTest(hosts=hosts):
                status, out, err = self.job(4, hosts, "killed.c")
                self.assertNotIn(status, (0, "did not end"), f"{out}\n{err}")
                self.assertIn("rank 1 goes", out, err)
                said = re.findall(r"rank \d: (.*)", out)
                self.assertEqual(set(said) - {"wring: peer lost"}, set(), f"{out}\n{err}")
                if said:
                    self.assertRegex(err, "wring: .*rank 1 is lost")


if __name__ == "__main__":
    machines.enter()
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
