#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unchanged MPI programs with libwring_mpi.so before their MPI: test_programs.py MPI LIBRARY SOURCES"""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mpis  # noqa: E402

NAME, LIBRARY, SOURCES = sys.argv[1:4]
MPI = mpis.find(NAME)


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="wring-mpi-")
        cls.addClassCleanup(cls.folder.cleanup)

    def build(self, source):
        program = str(pathlib.Path(self.folder.name) / source.replace(".", "-"))
        if not pathlib.Path(program).exists():
            mpis.compile_program(MPI, str(pathlib.Path(SOURCES) / source), program)
        return program

    def job(self, ranks, source, *args, **variables):
        status, out, err = mpis.run_job(MPI, ranks, [self.build(source), *args], LIBRARY,
                                        WRING_STATS="1", **variables)
        self.assertEqual(status, 0, f"{out}\n{err}")
        return out + err

    def test_all_calls_are_served(self):
        for ranks in (2, 3, 4):
            said = self.job(ranks, "calls.c")
            self.assertIn("0 failures", said)
            self.assertNotIn("left to", said)
            for call in ("allreduce", "reduce", "reduce_scatter", "reduce_scatter_block",
                         "allgather", "alltoall", "bcast", "barrier"):
                self.assertRegex(said, rf"served:.* {call} \d")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
