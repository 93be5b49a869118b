# SPDX-License-Identifier: Apache-2.0
"""What the tests of the tool have in common: WRING is the tool's path, from the command line."""
import os
import subprocess
import sys
import time
import unittest

WRING = sys.argv.pop(1) if len(sys.argv) > 1 else "build/tools/wring"
PATIENCE = 250  # seconds: for hangs, not for slowness


def environment(**extra):
    """The caller's environment without any launcher's variables."""
    foreign = ("WRING_", "OMPI_", "PMI_", "PMIX_", "SLURM_", "TORCHELASTIC_")
    bare = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    bare["HWLOC_COMPONENTS"] = "-pci"  # libpciaccess never frees its names, which sanitizers report
    return {**bare, **extra}


def wring(*arguments, **extra):
    """Run the tool to its end. @return subprocess.CompletedProcess with text output"""
    return subprocess.run([WRING, *arguments], env=environment(**extra), text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)


def start(*arguments, **extra):
    return subprocess.Popen([WRING, *arguments], env=environment(**extra), text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def is_alive(pid):
    """True for a running process; a zombie has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def ranks_of(pid):
    """The processes of a launcher's ranks, in their order; its guard is none."""
    ranks = {}
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        children = [int(word) for word in file.read().split()]
    for child in children:
        try:
            with open(f"/proc/{child}/environ", "rb") as file:
                names = dict(entry.split(b"=", 1) for entry in file.read().split(b"\0") if entry)
        except OSError:
            continue  # it has ended
        if b"WRING_RANK" in names:
            ranks[int(names[b"WRING_RANK"])] = child
    return [ranks[rank] for rank in sorted(ranks)]


def wait_until(condition, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def main():
    unittest.main(argv=sys.argv[:1] + ["-v"])
