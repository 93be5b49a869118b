# SPDX-License-Identifier: Apache-2.0
"""A single command, in every machine of a boot."""
import shlex
import sys
import time

from rig import Broken, kernel, packages
from rig.cluster import Cluster
from rig.workplace import Workplace

TIMED_OUT, NO_MACHINE = 124, 125


def run(command, shape, accel, timeout, console=False):
    """@return the exit status: the first that is not 0 of the machines. Raises Missing."""
    packages.check()
    found = kernel.find()
    end = time.monotonic() + timeout
    with Workplace() as folder, Cluster(folder, found, shape, accel) as cluster:
        try:
            cluster.boot()
        except Broken as broken:
            print(f"vm: {broken}", file=sys.stderr)
            return NO_MACHINE
        outcome = cluster.run_test(f'exec {shlex.join(command)} 2>"$HERE/errors.$MACHINE"',
                                   max(1, int(end - time.monotonic())))
        errors = [cluster.read_answer(f"errors.{n}") for n in range(shape.machines)]
        show(errors, sys.stderr)
        show(outcome.outputs, sys.stdout)
        report(outcome, cluster, timeout, console)
    return status_of(outcome)


def show(texts, stream):
    for number, text in enumerate(texts):
        prefix = f"[machine {number}] " if len(texts) > 1 else ""
        for line in text.splitlines(keepends=True):
            stream.write(prefix + line)
    stream.flush()


def report(outcome, cluster, timeout, console):
    if outcome.note:
        print(f"vm: {outcome.note}", file=sys.stderr)
    if 137 in outcome.statuses:
        print(f"vm: time is up after {timeout:.0f} s", file=sys.stderr)
    if console:
        print("\n".join(cluster.last_lines()), file=sys.stderr)


def status_of(outcome):
    worst = next((status for status in outcome.statuses if status != 0), 0)
    if worst is None:
        return NO_MACHINE
    return TIMED_OUT if worst == 137 else worst
