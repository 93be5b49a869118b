#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever the WRING_ variables hold, a command works or says in a line which of them is wrong.

Of settings that are only shown, each variable has each value, but with "turns". Where a command takes
longer, or with "turns", variables take turns with the values: every variable and every value is
there, but not each with each. What reads settings is one function for all commands.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile
import unittest

import wringtest
from wringtest import wring

TURNS = "turns" in sys.argv[1:]
VALUES = [b"", b"-1", b"0", b"65535", b"1e308", b"nan", b"garbage", b"-9223372036854775809",
          b"99999999999999999999999", b"\xff\xfe\x80", b"x" * 5000, b"%s%n%n", b"/", b"1,,=:^",
          b"\x1b[2J\nwring: another line"]
ODD = [b"0", b"\xff\xfe\x80", b"1,,=:^"]  # for what looks at all devices
FEW = [b"", b"0", b"1e308", b"\xff\xfe\x80", b"/", b"%s%n%n", b"1,,=:^"]  # for what takes longer
ROOTS = [b"garbage", b":", b"[::1", b"[::1]:", b"127.0.0.1:", b"127.0.0.1:0", b"127.0.0.1:-1",
         b"127.0.0.1:99999", b"127.0.0.1:0x50", b":5000", b"%s%n:%n", b"x" * 240 + b":1"]
TEXTS = {"WRING_FAULT": [b"rate=", b"rate=-1gbit", b"delay=1e9s", b"rank=x", b","],
         "WRING_PORTS": [b"9-1", b"99999-100000", b"-", b"1-2-3"],
         "WRING_EXECUTOR": [b"pool:", b"pool:99999999", b"pool:cores=0-99999999", b"pool:cores="],
         "WRING_PROVIDER": [b",", b"tcp,", b"nonsense", b"fault:fault:tcp"],
         "WRING_TRACE": [b"/nonexistent/trace", b"/dev/full"],
         "WRING_KEY_FILE": [b"/", b"/nonexistent", b"/dev/null"]}


def variables():
    return [var["name"] for var in json.loads(wring("info", "--json").stdout)["config"]]


def pairs(names, values, turns):
    """Yields variables with values: those that fit any of them, and those made for one."""
    for i, name in enumerate(names):
        yield from ((name, value) for value in (values[i % turns::turns] if turns else values))
        yield from ((name, value) for value in TEXTS.get(name, []))


class Environment(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()  # WRING_TRACE=nan is a file
        self.addCleanup(self.folder.cleanup)

    def run_with(self, command, settings):
        """@return subprocess.CompletedProcess with bytes; it neither hung nor was it killed"""
        bare = {os.fsencode(k): os.fsencode(v) for k, v in wringtest.environment().items()}
        given = {os.fsencode(k): v for k, v in settings.items()}
        result = subprocess.run([os.path.abspath(wringtest.WRING), *command], cwd=self.folder.name,
                                env={**bare, **given}, stdin=subprocess.DEVNULL,
                                capture_output=True, timeout=wringtest.PATIENCE, check=False)
        self.assertIn(result.returncode, (0, 1, 2), f"{settings}: {result.stderr}")
        return result

    def test_lists_are_refused_by_name(self):
        """A part of a list that is unknown or empty is an error, which names it; spaces are not."""
        two = ["run", "-n", "2", os.path.abspath(wringtest.WRING), "bench", "allreduce", "--bytes",
               "1k", "-i", "1"]
        there_are = b"there are shm, verbs, tcp, or auto alone"
        for value, said in ((b"tcp,typo", b"no provider 'typo'"), (b"shm,tpc", b"'tpc'"),
                            (b"auto,tcp", b"'auto'"), (b"TCP", b"'TCP'"),
                            (b"tcp shm", b"'tcp shm'"), (b"tcp,,shm", b"a name is empty"),
                            (b"tcp,", b"a name is empty"), (b",", b"a name is empty"),
                            (b"", b"a name is empty")):
            with self.subTest(provider=value):
                result = self.run_with(two, {"WRING_PROVIDER": value})
                self.assertEqual(result.returncode, 1)
                self.assertIn(b"WRING_PROVIDER=" + value + b": ", result.stderr)
                self.assertIn(said, result.stderr)
                self.assertIn(there_are, result.stderr)
        for value in (b"tcp, shm", b" shm ,tcp", b"tcp,tcp", b"shm"):
            with self.subTest(provider=value):
                self.assertEqual(self.run_with(two, {"WRING_PROVIDER": value}).returncode, 0)
        for name, value, said in ((b"WRING_PLAN_CODECS", b"bf16,typo", b"no codec 'typo'"),
                                  (b"WRING_PLAN_CODECS", b"bf16,,int8", b"comma"),
                                  (b"WRING_PLAN_CODECS", b"bf16 int8", b"'bf16 int8'"),
                                  (b"WRING_IFACE", b"lo,", b"a name is empty"),
                                  (b"WRING_FAULT", b"seed=1,", b"comma"),
                                  (b"WRING_FAULT", b"seed=1,typo=2", b"'typo'"),
                                  (b"WRING_EXECUTOR", b"pool:cores=0,,0", b"pool:cores=0,,0")):
            with self.subTest(name=name, value=value):
                result = self.run_with(two, {"WRING_PLAN": b"auto", "WRING_PROVIDER": b"tcp",
                                             name.decode(): value})
                self.assertEqual(result.returncode, 1)
                self.assertIn(said, result.stderr)
        for option in ("--codec=bf16,,int8", "--bytes=1k,"):
            with self.subTest(option=option):
                result = self.run_with(["bench", "allreduce", option], {})
                self.assertNotEqual(result.returncode, 0)
                self.assertIn(option.partition("=")[2].encode(), result.stderr)

    def test_limits_on_files(self):
        """ulimit -f ends no command and no rank by a signal."""
        bench = [os.path.abspath(wringtest.WRING), "bench", "allreduce", "--bytes", "1k", "-i", "3"]
        for limit in (0, 1000):
            for command in (["plan", "-t", "lstm", "-N", "2", "-g", "1", "--bound-ms", "0", "-o",
                             "plan.json", "--svg", "plan.svg"],
                            ["run", "-n", "2", *bench], bench[1:]):
                with self.subTest(limit=limit, command=command):
                    result = subprocess.run(
                        [os.path.abspath(wringtest.WRING), *command], cwd=self.folder.name,
                        env=wringtest.environment(WRING_TRACE="trace"), stdin=subprocess.DEVNULL,
                        capture_output=True, timeout=wringtest.PATIENCE, check=False,
                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
                    self.assertIn(result.returncode, (0, 1), result.stderr)
                    self.assertIn(b"cannot be written", result.stderr)

    def check_line(self, result, name, value):
        """One line, and one can see in it what to change."""
        said = result.stderr.decode(errors="replace")
        self.assertTrue(said.endswith("\n") and said.count("\n") == 1, f"{name}={value}: {said}")
        self.assertTrue(said[:-1].isprintable() or b"\xff" in value, said)
        shown = "".join(c if c.isprintable() else "?" for c in value.decode(errors="replace"))
        self.assertTrue("WRING_" in said or shown and shown in said, f"{name}={value}: {said}")

    def check_info(self, values, turns, *only):
        names = variables()
        for name, value in pairs(names, values, turns):
            result = self.run_with(["info", *only, "--json"], {name: value})
            if result.returncode == 0:
                shown = json.loads(result.stdout)["config"]
                self.assertEqual([var["name"] for var in shown], names, value)
            else:
                self.check_line(result, name, value)

    def test_settings(self):
        self.check_info(VALUES, 4 if TURNS else 0, "--config")

    def test_info(self):
        self.check_info(ODD, len(ODD))

    def check_session(self, name, value, **settings):
        """@return its exit status"""
        alone = {"WRING_RANK": b"0", "WRING_SIZE": b"1", "WRING_JOIN_TIMEOUT": b"1", **settings}
        result = self.run_with(["bench", "allreduce", "--json", "--bytes", "4k", "--iterations",
                                "1"], {**alone, name: value})
        if result.returncode == 0:
            self.assertEqual(json.loads(result.stdout)["results"][0]["wrong"], 0)
        else:
            self.check_line(result, name, value)
        return result.returncode

    def test_a_session(self):
        refused = sum(self.check_session(name, value) != 0
                      for name, value in pairs(variables(), FEW, 4))
        self.assertGreater(refused, 40)

    def test_where_ranks_meet(self):
        for value in ROOTS:
            self.assertNotEqual(self.check_session("WRING_ROOT", value, WRING_SIZE=b"2"), 0)
        for value in b"0", b"2", b"77", b"65535":
            self.assertNotEqual(self.check_session("WRING_ROOT_FD", value, WRING_SIZE=b"2"), 0)


if __name__ == "__main__":
    wringtest.main()
