# SPDX-License-Identifier: Apache-2.0
"""torch's own tests of a backend, which come with torch, over wring.

    BACKEND=wring WORLD_SIZE=2 torch_suite.py [TEST...]

With BACKEND=gloo and WRING_TORCH_REPLACE=gloo wring stands in gloo's place.
"""
import os
import pathlib
import sys
import tempfile
import unittest

os.environ.setdefault("BACKEND", "wring")
os.environ.setdefault("WORLD_SIZE", "2")
os.environ.setdefault("MASTER_ADDR", "localhost")
_folder = tempfile.TemporaryDirectory(prefix="wring-torch-")
os.environ["TEMP_DIR"] = _folder.name

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "dropin" / "torch"))

import torch
from torch.testing._internal import common_distributed

for feature in ("ddp", "subgroup", "plugin"):
    common_distributed.DistTestCases.backend_feature[feature].add("wring")

from torch.testing._internal.distributed import distributed_test

from wring.torch import session

session.register_backend()

# ranks that share their cores with others come late: 10 s are too short then
distributed_test.Barrier.sync.__func__.__defaults__ = (None, 300)


class TestBackend(distributed_test.TestDistBackend,
                  distributed_test.DistributedTest._DistTestBase):
    """Ranks are forked from this process, which has imported torch already."""

    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


class Told(unittest.TextTestResult):
    """Says of each test what became of it, in a line of its own."""

    def _tell(self, test, what):
        print(f"\nRESULT {test.id().rsplit('.', maxsplit=1)[-1]} {what}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self._tell(test, "passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._tell(test, "skipped")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._tell(test, "failed")

    def addError(self, test, err):
        super().addError(test, err)
        self._tell(test, "failed")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *(f"TestBackend.{name}" for name in sys.argv[1:])],
                  testRunner=unittest.TextTestRunner(resultclass=Told))
