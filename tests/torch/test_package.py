#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`pip install` of a clone, into an environment of its own: test_package.py SOURCE

What is installed is all that is used afterwards: the library in the package's folder, torch's own
import that finds the backend, and the tool. WRING_TEST_FOREIGN/torch lends torch.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import torch_rig

SOURCE = pathlib.Path(sys.argv[1])
PATIENCE = 600  # seconds: for hangs
TORCH = pathlib.Path(os.environ.get("WRING_TEST_FOREIGN", ""), "torch", "bin", "python")
PROGRAM = """
import sys, torch, torch.distributed as dist
dist.init_process_group(sys.argv[1])
data = torch.full((1000,), dist.get_rank() + 1.0)
dist.all_reduce(data)
assert torch.equal(data, torch.full((1000,), 3.0)), data
dist.barrier()
session = sys.modules.get("wring.torch.session")
said = session is not None and session.current() is not None and session.current().size == 2
print(f"rank {dist.get_rank()}: {said}\\n", end="")
dist.destroy_process_group()
"""


def environment(**extra):
    foreign = ("WRING_", "OMPI_", "PMI_", "PMIX_", "SLURM_", "TORCHELASTIC_", "MESON_", "PYTHON")
    bare = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    return {**bare, "OMP_NUM_THREADS": "1", **extra}


def run(*command, fails=False, **extra):
    said = subprocess.run([str(word) for word in command], env=environment(**extra), text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, cwd="/")
    if (said.returncode != 0) != fails:
        raise AssertionError(f"{command} exits with {said.returncode}\n{said.stdout}{said.stderr}")
    return said.stdout + said.stderr


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="wring-package-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        clone = cls.folder / "clone"
        run("git", "clone", "--quiet", "--no-hardlinks", SOURCE, clone)
        run(TORCH, "-m", "venv", cls.folder / "venv")
        cls.bin = cls.folder / "venv" / "bin"
        cls.python = cls.bin / "python"
        lent = run(TORCH, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        own = run(cls.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        # what builds it is here already, so that the network is not asked for it
        run(cls.python, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps",
            "--no-build-isolation", clone)
        (pathlib.Path(own) / "lent.pth").write_text(lent + "\n", encoding="utf-8")
        shutil.rmtree(clone)

    def ranks(self, backend, **extra):
        port = torch_rig.free_port()
        ranks = [subprocess.Popen(
            [str(self.python), "-W", "ignore", "-c", PROGRAM, backend], text=True, cwd="/",
            env=environment(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                            MASTER_PORT=str(port), HOME=str(self.folder), **extra),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for rank in range(2)]
        try:
            said = [rank.communicate(timeout=PATIENCE) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
        for rank, (_, errors) in zip(ranks, said):
            self.assertEqual(rank.returncode, 0, errors)
        return "".join(output for output, _ in said)

    def test_library_is_in_the_package(self):
        said = run(self.python, "-c", "from wring import api; print(api.path(), api.include_folder());"
                   "s = api.Session(); print(s.size)")
        path, include, size = said.split()
        self.assertTrue(path.startswith(str(self.folder / "venv")), path)
        self.assertTrue(os.path.exists(os.path.join(include, "wring", "wring.h")))
        self.assertEqual(size, "1")

    def test_wheel_is_for_any_python_3(self):
        info, = self.bin.parent.glob("lib/python*/site-packages/wring-*.dist-info/WHEEL")
        self.assertRegex(info.read_text(encoding="utf-8"), r"\nTag: py3-none-linux_\w+\n")

    def test_import_of_torch_registers(self):
        said = run(self.python, "-c", "import torch.distributed as d; "
                   "print(d.is_backend_available('wring'))")
        self.assertEqual(said, "True\n")

    def test_backend(self):
        self.assertEqual(sorted(self.ranks("wring").splitlines()), ["rank 0: True", "rank 1: True"])

    def test_in_the_place_of_gloo(self):
        said = self.ranks("gloo", WRING_TORCH_REPLACE="gloo", WRING_TORCH_NATIVE="off")
        self.assertEqual(sorted(said.splitlines()), ["rank 0: True", "rank 1: True"])

    def test_tool(self):
        self.assertRegex(run(self.bin / "wring", "--version"), r"^wring \d")

    def test_missing_library_is_said(self):
        said = run(self.python, "-c", "from wring import api; api.library()", fails=True,
                   WRING_LIBRARY="/nowhere.so")
        self.assertIn("install the package wring anew", said.splitlines()[-1])


if __name__ == "__main__":
    for tool in ("git", "meson", "ninja"):
        if shutil.which(tool) is None:
            print(f"skipped: no {tool}")
            sys.exit(77)
    if not TORCH.exists():
        print("skipped: no torch: ./run test --foreign installs it")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
