# SPDX-License-Identifier: Apache-2.0
"""A batch of the plan: one boot, or more where a test takes a machine down with it."""
import os
import time

from rig import Broken, kernel, packages
from rig.cluster import Cluster, Outcome, Shape
from rig.tap import Tap
from rig.workplace import Workplace

BOOTS_MAX = 3
LIBRARY = '. "$RIG/guest/lib.sh"\n. "$RIG/guest/cases.sh"\n'


def run(batch, build, accel, only=()):
    """
    Run a batch's tests, or those whose names hold one of the words. Raises Missing.

    @return the exit status: 1 if one failed
    """
    packages.check()
    found = kernel.find()
    tests = [test for test in batch.tests if not only or any(word in test.name for word in only)]
    os.environ["BUILD"] = os.path.abspath(build)
    begin = time.monotonic()
    tap = Tap(len(tests))
    left, again = list(tests), set()
    for _ in range(BOOTS_MAX):
        if left and seconds_left(batch, begin) > 0:
            left = run_in_one_boot(batch, left, found, accel, tap, begin, again)
    why = "machines do not stay up" if seconds_left(batch, begin) > 0 else "the batch's time is up"
    for test in left:
        tap.failure(test, ["not run: " + why])
    tap.note(f"batch {batch.name}: {len(tests)} tests in {time.monotonic() - begin:.1f} s")
    return 1 if tap.failed else 0


def seconds_left(batch, begin):
    return begin + batch.seconds - time.monotonic()


def run_in_one_boot(batch, tests, found, accel, tap, begin, again):
    """
    A test that Linux's own soft-RoCE took down, by a panic inside rdma_rxe, is run once more.

    @param again  names of the tests that have been
    @return the tests that are left, where a machine was lost or the time is up
    """
    shape = Shape(batch.machines, batch.rails, batch.mtu, cpus=batch.cpus)
    with Workplace() as folder, Cluster(folder, found, shape, accel) as cluster:
        try:
            seconds = cluster.boot()
            tap.note(f"boot: {seconds:.1f} s, of a processor {cluster.cpu_seconds():.1f} s")
        except Broken as broken:
            tap.note(str(broken))
            return tests
        for i, test in enumerate(tests):
            left_s = seconds_left(batch, begin)
            if left_s <= 0:
                return tests[i:]
            outcome: Outcome = cluster.run_test(LIBRARY + test.run,
                                                max(1, min(test.seconds, int(left_s))))
            lost = None in outcome.statuses
            if lost and test.name not in again and cluster.panicked_in("rdma_rxe"):
                tap.note(f"{test.name}: a machine's kernel panicked in rdma_rxe; once more")
                again.add(test.name)
                return tests[i:]
            tap.result(test, outcome)
            if lost:
                return tests[i + 1:]
    return []
