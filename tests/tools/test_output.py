#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What commands write arrives, or they fail: full disks, readers that have had enough.

With "soon" those commands are left out whose ranks measure or train first.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import wringtest
from wringtest import PATIENCE, environment, wring

SOON = "soon" in sys.argv[1:]
# as short as they can be
CALIBRATE = ["calibrate", "--seconds", "0.3", "--elements", "4k", "--doubt", "100", "-c", "none"]
REPLAY = ["replay", "-t", "lstm", "--scale", "0.001", "--iterations", "1"]
DEMO = ["demo", "--codec", "fp32", "-n", "2", "--hidden", "16", "--steps", "40",
        "--timed-steps", "20", "--link", "10gbit"]
PRINTING = [  # every command's table and JSON
    ["--help"], ["--version"], ["help", "plan"], ["run", "--help"],
    ["info"], ["info", "--json"], ["info", "--config"],
    ["bench", "codec", "-c", "bf16", "--seconds", "0.01"],
    ["bench", "codec", "-c", "bf16", "--seconds", "0.01", "--json"],
    ["bench", "p2p", "-b", "64", "--seconds", "0.01"],
    ["bench", "p2p", "-b", "64", "--seconds", "0.01", "--json"],
    ["bench", "sendrecv", "-b", "64", "--seconds", "0.01"],
    ["bench", "sendrecv", "-b", "64", "--seconds", "0.01", "--json"],
    ["bench", "allreduce", "-n", "2", "-b", "4k", "-i", "5"],
    ["bench", "allreduce", "-n", "2", "-b", "4k", "-i", "5", "--json"],
    ["plan", "-t", "lstm"], ["plan", "-t", "lstm", "--json"], ["plan", "-t", "lstm", "--list-options"],
    ["plan", "-t", "lstm", "--list-options", "--json"],
    ["simulate", "-t", "lstm"], ["simulate", "-t", "lstm", "--json"],
]
if not SOON:
    PRINTING += [[*CALIBRATE, "--json"], REPLAY, [*REPLAY, "--json"]]
if not SOON and wring(*DEMO, "--help").returncode == 0:  # it is built only where there is a BLAS
    PRINTING += [[*DEMO, "--report", "/dev/null"], [*DEMO, "--report", "/dev/null", "--json"],
                 [*DEMO, "--losses-only"]]


def run_to(arguments, stdout, **more):
    return subprocess.run([wringtest.WRING, *arguments], env=environment(**more), text=True,
                          stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                          timeout=PATIENCE)


def small_disk(folder, *arguments):
    """Run the tool where a folder is a disk of one page; it ends with what is in it, one a line."""
    script = ('mount -t tmpfs -o size=4k none "$0" && echo old > "$0/old" || exit 77; '
              '"$@"; code=$?; ls -A "$0"; cat "$0/old"; exit $code')
    return subprocess.run(["unshare", "-m", "sh", "-c", script, folder, wringtest.WRING,
                           *arguments], env=environment(), text=True, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=PATIENCE)


class FullDisk(unittest.TestCase):
    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_standard_output(self):
        for arguments in PRINTING:
            with self.subTest(arguments=arguments), open("/dev/full", "w") as full:
                result = run_to(arguments, full)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn("standard output cannot be written: No space left on device",
                              result.stderr)

    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_tagged_lines(self):
        with open("/dev/full", "w") as full:
            result = run_to(["run", "-t", "-n", "2", "--", "sh", "-c", "echo x; sleep 0.2; echo y"],
                            full)
            self.assertEqual(result.returncode, 1)
            self.assertEqual(result.stderr.count("No space left on device"), 1, result.stderr)
            result = run_to(["run", "-t", "-n", "1", "--", "sh", "-c", "echo x; exit 3"], full)
            self.assertEqual(result.returncode, 3, "a rank's failure is the job's")

    def check_file(self, arguments, name):
        with self.subTest(arguments=arguments), tempfile.TemporaryDirectory() as folder:
            result = small_disk(folder, *arguments, os.path.join(folder, name))
            if result.returncode == 77:
                self.skipTest("no disk can be mounted here: " + result.stderr)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(name + ": cannot be written: No space left on device", result.stderr)
            self.assertEqual(result.stdout.splitlines()[-2:], ["old", "old"],
                             "what was there stays, and nothing else is left")
        return result.stdout

    def test_files(self):
        for arguments in (["plan", "-t", "gpt2", "-o"], ["plan", "-t", "lstm", "--svg"],
                          ["plan", "-t", "lstm", "--perfetto"],
                          ["simulate", "-t", "lstm", "--csv"],
                          ["simulate", "-t", "lstm", "--svg"]):
            self.check_file(arguments, "old")

    @unittest.skipIf(SOON, "soon")
    def test_files_of_measurements(self):
        self.check_file([*CALIBRATE, "-o"], "new")  # which would add to an old one

    @unittest.skipIf(SOON, "soon")
    def test_files_of_the_demo(self):
        if DEMO not in [arguments[:len(DEMO)] for arguments in PRINTING]:
            self.skipTest("wring demo is not built")
        for option in ("--report", "--record-trace", "--record-gradients"):
            picture = [] if option == "--report" else ["--report", "/dev/null"]
            said = self.check_file([*DEMO, *picture, option], "old")
            if option != "--record-gradients":  # which are written before the times are taken
                self.assertIn("fp32", said, "what was found is shown all the same")


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        self.path = os.path.join(folder, "plan.json")

    def plan(self, path):
        result = wring("plan", "-t", "lstm", "-o", path)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_are_tried_before_a_measurement(self):
        """Which would take longer than this test may."""
        result = wring("calibrate", "--seconds", "3600", "-o", os.path.join(self.path, "none"))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, "^.*none: cannot be written: No such file or directory\n$")

    def test_have_the_usual_mode(self):
        self.plan(self.path)
        mask = os.umask(0)
        os.umask(mask)
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o666 & ~mask)

    def test_keep_their_mode_and_links(self):
        with open(self.path, "w", encoding="ascii"):
            pass
        os.chmod(self.path, 0o640)
        link = self.path + ".link"
        os.symlink(self.path, link)
        self.plan(link)
        self.assertTrue(os.path.islink(link))
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o640)
        self.assertGreater(os.stat(self.path).st_size, 0)

    def test_pipes_and_devices_are_written_to(self):
        self.assertEqual(wring("plan", "-t", "lstm", "-o", "/dev/null").returncode, 0)
        self.assertFalse(os.path.isfile("/dev/null"))
        self.assertIn('"groups"', wring("plan", "-t", "lstm", "-o", "/dev/stdout").stdout)

    def test_nowhere(self):
        result = wring("plan", "-t", "lstm", "-o", "/nowhere/plan.json")
        self.assertEqual(result.returncode, 1)
        self.assertIn("/nowhere/plan.json: cannot be written: No such file", result.stderr)


class Readers(unittest.TestCase):
    """The pipe's end that is read is closed before anything is written."""

    def unread(self, *arguments):
        read, write = os.pipe()
        os.close(read)
        try:
            return run_to(arguments, write)
        finally:
            os.close(write)

    def test_that_have_had_enough_are_no_failure(self):
        for arguments in PRINTING:
            with self.subTest(arguments=arguments):
                result = self.unread(*arguments)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertNotIn("standard output", result.stderr)

    def test_tagged_ranks_go_on(self):
        with tempfile.TemporaryDirectory() as folder:
            script = ('i=0; while [ $i -lt 5000 ]; do echo a line of some length $i; i=$((i+1)); '
                      f'done; touch {folder}/$WRING_RANK; exit $((WRING_RANK * 5))')
            result = self.unread("run", "-t", "-n", "2", "--", "sh", "-c", script)
            self.assertEqual(sorted(os.listdir(folder)), ["0", "1"], "both came to their end")
            self.assertEqual(result.returncode, 5, "that of the ranks")
            self.assertEqual(result.stderr.count("standard output has no reader any more"), 1)

    def test_standard_error_too(self):
        read, write = os.pipe()
        os.close(read)
        with tempfile.TemporaryDirectory() as folder:
            script = f"i=0; while [ $i -lt 500 ]; do echo $i >&2; i=$((i+1)); done; touch {folder}/x"
            result = subprocess.run([wringtest.WRING, "run", "-t", "-n", "1", "--", "sh", "-c",
                                     script], env=environment(), stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=write, timeout=PATIENCE)
            self.assertEqual(os.listdir(folder), ["x"])
            self.assertEqual(result.returncode, 0)
        os.close(write)

    def test_that_are_slow_get_every_line(self):
        """Whoever shares the pipe may have made it one that does not block."""
        read, write = os.pipe()
        os.set_blocking(write, False)
        script = "i=0; while [ $i -lt 20000 ]; do echo line$i; i=$((i+1)); done"
        process = subprocess.Popen([wringtest.WRING, "run", "-t", "-n", "1", "--", "sh", "-c",
                                    script], env=environment(), stdin=subprocess.DEVNULL,
                                   stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        with os.fdopen(read, "r", encoding="ascii") as lines:
            self.assertEqual([line.rstrip() for line in lines],
                             [f"[0] line{i}" for i in range(20000)])
        self.assertEqual(process.wait(timeout=PATIENCE), 0)
        process.stderr.close()


if __name__ == "__main__":
    wringtest.main()
