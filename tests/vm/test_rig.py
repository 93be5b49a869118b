#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rig itself: what it says, when it gives up, and that it leaves nothing behind.

    test_rig.py RUN
"""
import glob
import os
import signal
import subprocess
import sys
import tempfile
import time

RUN = sys.argv[1]
PATIENCE_S = 250


def run(*arguments, before=(), **environment):
    return subprocess.run([*before, RUN, *arguments], env={**os.environ, **environment},
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)


def check(condition, text):
    if not condition:
        sys.exit(f"failed: {text}")


def says_what_is_missing():
    """On a processor that it does not know."""
    got = run("--", "true", before=["setarch", "i686"], WRING_REQUIRE="")
    check(got.returncode == 77 and "x86_64" in got.stdout, f"a skip gave {got}")
    got = run("--", "true", before=["setarch", "i686"], WRING_REQUIRE="vm")
    check(got.returncode == 1 and "x86_64" in got.stdout, f"a required rig gave {got}")
    got = run("--batch", "cable", before=["setarch", "i686"], WRING_REQUIRE="")
    check(got.returncode == 0 and got.stdout.startswith("1..0 # SKIP"), f"a batch gave {got}")
    got = run("--batch", "cable", before=["setarch", "i686"], WRING_REQUIRE="vm")
    check(got.returncode == 1 and got.stdout.startswith("Bail out!"), f"required, it gave {got}")


def processes_of(folder):
    """Those that name a folder in their command line, the runner's keeper apart."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as line:
                if folder.encode() in line.read():
                    found.append(path)
        except OSError:
            pass
    return found


def await_that(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        check(time.monotonic() < deadline, what)
        time.sleep(0.05)


def leaves_nothing(number):
    """A signal ends the runner while machines boot."""
    with tempfile.TemporaryDirectory() as folder:
        runner = subprocess.Popen([RUN, "--machines", "2", "--", "sleep", "60"],
                                  env={**os.environ, "TMPDIR": folder}, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            await_that(lambda: len(processes_of(folder)) >= 2 or runner.poll() is not None,
                       "no machines")
            check(runner.poll() is None, "the runner ended by itself")
            runner.send_signal(number)
            runner.wait(PATIENCE_S)
            await_that(lambda: not processes_of(folder), f"{number.name} leaves machines")
            await_that(lambda: not os.listdir(folder), f"{number.name} leaves files")
        finally:
            runner.kill()
            runner.wait()


def command_has_its_way():
    """Output, errors and status of a command, and an end to one that takes too long."""
    got = run("--timeout", "900", "--", "sh", "-c", "echo $MACHINE of $MACHINES; echo oh >&2; exit 3", WRING_REQUIRE="")
    if got.returncode == 77:
        print(got.stdout)
        sys.exit(77)
    check((got.returncode, got.stdout) == (3, "0 of 1\n") and got.stderr.endswith("oh\n"),
          f"gave {got}")  # before it, a boot that was tried again
    got = run("--timeout", "1", "--", "sleep", "600")
    check(got.returncode == 124 and "time is up" in got.stderr, f"too long gave {got}")


def main():
    says_what_is_missing()
    command_has_its_way()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        leaves_nothing(number)


main()
