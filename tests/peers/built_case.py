# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts that run wring's programs, where there are any, and write into a folder."""
import os
import sys
import tempfile
import unittest

BUILD = sys.argv.pop(1) if len(sys.argv) > 1 else "build"


class BuiltCase(unittest.TestCase):
    def setUp(self):
        if not os.access(f"{BUILD}/tools/wring", os.X_OK):
            self.skipTest(f"no {BUILD}/tools/wring")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
