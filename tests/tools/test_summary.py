#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What decides between red and green: summary.py, on logs as meson writes them."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

SUMMARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "summary.py")
TAP = "1..2\nok 1 - first\n{}ok 2 - second\n# it said so\n"


class Summary(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def log(self, name, *tests):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            for test, result, output in tests:
                file.write(json.dumps({"name": "wring:" + test, "result": result, "duration": 1.5,
                                       "stdout": output}) + "\n")
        return "gcc=" + path

    def check(self, status, last, *arguments, says=()):
        told = subprocess.run([sys.executable, SUMMARY, *arguments], capture_output=True, text=True,
                              timeout=120, check=False)
        self.assertEqual((told.returncode, told.stdout.splitlines()[-1:], told.stderr),
                         (status, [last], ""), told.stdout)
        for words in says:
            self.assertIn(words, told.stdout)
        return told.stdout

    def test_counts_each_result(self):
        log = self.log("log", ("unit / a", "OK", ""), ("vm / b", "FAIL", TAP.format("not ")),
                       ("unit / c", "SKIP", "skipped: no c"), ("unit / d", "TIMEOUT", "d hung"))
        self.check(1, "2 passed, 2 failed, 1 skipped", log,
                   says=["skipped: gcc: wring:unit / c: skipped: no c", "d hung", "it said so",
                         "failed: gcc: wring:vm / b: second FAIL"])
        self.check(1, "2 passed, 3 failed, 0 skipped", "--require", "unit", log)

    def test_what_is_missing_has_failed(self):
        self.check(1, "0 passed, 1 failed, 0 skipped", "gcc=" + self.folder + "/none")
        self.check(1, "1 passed, 1 failed, 0 skipped",
                   self.log("log", ("vm / b", "ERROR", "1..2\nok 1 - first\n")))

    def test_names_what_failed_as_meson_takes_it(self):
        log = self.log("log", ("unit / a", "OK", ""), ("unit / d", "TIMEOUT", ""),
                       ("vm+long / two machines", "FAIL", "1..1\nnot ok 1 - first\n"))
        self.check(0, "wring:two machines", "--names-of-failed", log, says=["wring:d\n"])

    def test_what_passes_again_is_listed_as_unsteady(self):
        log = self.log("log", ("unit / a", "OK", ""), ("vm / b", "FAIL", TAP.format("not ")),
                       ("unit / d", "TIMEOUT", "d hung"))
        both = self.log("both", ("vm / b", "OK", TAP.format("")), ("unit / d", "OK", ""))
        told = self.check(0, "4 passed, 0 failed, 0 skipped", "--again", both, log,
                          says=["unsteady, passed when it was run again: gcc: wring:unit / d TIMEOUT",
                                "gcc: wring:vm / b: second FAIL", "d hung", "it said so"])
        self.assertNotIn("failed:", told)

    def test_what_fails_again_has_failed(self):
        log = self.log("log", ("vm / b", "FAIL", TAP.format("not ")), ("unit / d", "TIMEOUT", ""))
        again = self.log("again", ("vm / b", "OK", TAP.format("")), ("unit / d", "FAIL", "d fell"))
        self.check(1, "2 passed, 1 failed, 0 skipped", "--again", again, log,
                   says=["failed: gcc: wring:unit / d FAIL", "d fell"])
        worse = self.log("worse", ("vm / b", "FAIL", "1..2\nok 1 - first\n"), ("unit / d", "OK", ""))
        self.check(1, "2 passed, 1 failed, 0 skipped", "--again", worse, log)
        self.check(1, "1 passed, 2 failed, 0 skipped", "--again", "gcc=" + self.folder + "/none", log)

    def test_adds_up_last_lines(self):
        paths = []
        for text in ("run: words\n3 passed, 0 failed, 1 skipped\n", "2 passed, 0 failed, 0 skipped\n"):
            paths.append(os.path.join(self.folder, str(len(paths))))
            with open(paths[-1], "w", encoding="utf-8") as file:
                file.write(text)
        self.check(0, "5 passed, 0 failed, 1 skipped", "--sum", *paths)
        with open(paths[0], "a", encoding="utf-8") as file:
            file.write("killed\n")
        self.check(1, "2 passed, 1 failed, 0 skipped", "--sum", *paths)


if __name__ == "__main__":
    unittest.main()
