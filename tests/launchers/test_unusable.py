#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_unusable.py WRING WHO: a launcher that is seen and cannot be used is never a job of one.

Variables alone stand for the launcher here: they are what a process sees of it.
"""
import json
import os
import subprocess
import sys
import unittest

import rig

WHO = os.path.abspath(sys.argv.pop(2)) if len(sys.argv) > 2 else ""
WRING = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""

OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2",
            "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
STEP = {"SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "node[1-2]",
        "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "2",
        "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0",
            "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
BATCH_SCRIPT = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "8",
                "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_JOB_NODELIST": "node[1-2]",
                "SLURM_NODELIST": "node[1-2]", "SLURM_NNODES": "2"}
NO_STEP = {name: value for name, value in STEP.items() if name != "SLURM_PROCID"}

# what is seen: (variables, what the error names, the remedy that it gives)
UNUSABLE = {
    "Open MPI without PMIx": (OPEN_MPI, "started by Open MPI", "set WRING_RANK"),
    "Open MPI without a size": ({"OMPI_COMM_WORLD_RANK": "0"}, "started by Open MPI",
                                "set WRING_RANK"),
    "PMIx without its server": ({"PMIX_RANK": "0", "PMIX_NAMESPACE": "job",
                                 "PMIX_SERVER_URI2": ""}, "PMIx", "set WRING_RANK"),
    "PMI without a descriptor": ({"PMI_RANK": "0", "PMI_SIZE": "2"}, "Hydra", "WRING_RANK"),
    "PMI with one that is closed": ({"PMI_RANK": "0", "PMI_SIZE": "2", "PMI_FD": "199"}, "Hydra",
                                    "WRING_RANK"),
    "PMI without a size": ({"PMI_RANK": "0", "PMI_FD": "199"}, "Hydra", "WRING_RANK"),
    "Slurm's PMI without a descriptor": ({**STEP, "PMI_RANK": "0", "PMI_SIZE": "2"}, "Slurm",
                                         "WRING_RANK"),
    "torchrun without an address": ({**TORCHRUN, "MASTER_ADDR": ""}, "torchrun", "MASTER_ADDR"),
    "torchrun without a rank": ({"TORCHELASTIC_RUN_ID": "none"}, "torchrun", "WRING_RANK"),
    "torchrun on hosts without a key": (TORCHRUN, "torchrun", "set the same WRING_KEY"),
    "Slurm without a rank": (NO_STEP, "started by Slurm", "WRING_RANK"),
    "Slurm on hosts without a key": (STEP, "started by Slurm", "set the same WRING_KEY"),
    "a rank that is no number": ({"RANK": "first", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"},
                                 "RANK is no number: first", "WRING_RANK"),
    "a rank below zero": ({"RANK": "-1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}, "RANK",
                          "WRING_RANK"),
    "a rank too large": ({"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"},
                         "rank 2", "WORLD_SIZE"),
    "a root without a rank": ({"WRING_ROOT": "127.0.0.1:7000"}, "WRING_ROOT", "set WRING_RANK"),
    "a rank without a size": ({"WRING_RANK": "0"}, "WRING_SIZE", "wring run"),
}


def run(variables, *words):
    environment = rig.bare_environment(WRING_JOIN_TIMEOUT="5", **variables)
    return subprocess.run(words, env=environment, text=True, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=rig.PATIENCE, check=False)


class Unusable(unittest.TestCase):
    def test_is_an_error_that_names_launcher_and_remedy(self):
        for what, (variables, named, remedy) in UNUSABLE.items():
            for words in ([WHO], [WRING, "bench", "allreduce", "--bytes", "8", "--seconds", "0.1"],
                          [WRING, "calibrate", "-o", "/nonexistent/profile.json"]):
                with self.subTest(what=what, program=words[:2]):
                    result = run(variables, *words)
                    self.assertNotEqual(result.returncode, 0, result.stdout)
                    self.assertEqual(result.stdout, "")
                    self.assertIn(named, result.stderr)
                    self.assertIn(remedy, result.stderr)

    def test_info_says_why(self):
        result = run(OPEN_MPI, WRING, "info", "--json")
        launcher = json.loads(result.stdout)["launcher"]
        self.assertFalse(launcher["usable"])
        self.assertIn("started by Open MPI", launcher["reason"])
        self.assertIn("cannot be used", run(OPEN_MPI, WRING, "info").stdout)


class Alone(unittest.TestCase):
    def test_batch_script_of_slurm_is_a_job_of_one(self):
        result = run(BATCH_SCRIPT, WHO)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("first rank 0 of 1 ", result.stdout)

    def test_process_that_nobody_launched_is_a_job_of_one(self):
        self.assertIn("first rank 0 of 1 ", run({}, WHO).stdout)

    def test_own_variables_come_before_any_launcher(self):
        for variables in (OPEN_MPI, STEP, TORCHRUN):
            result = run({**variables, "WRING_RANK": "0", "WRING_SIZE": "1"}, WHO)
            self.assertIn("first rank 0 of 1 ", result.stdout, result.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
