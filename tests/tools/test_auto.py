#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What WRING_PROVIDER=auto takes between hosts, over RDMA devices that are made up. Second argument:
where their library is. Hosts are names (WRING_NODE); what differs between ranks is a line of shell."""
import resource
import sys
import tempfile
import unittest
from pathlib import Path

import wringtest
from wringtest import wring

LIBRARY = sys.argv.pop(1) if len(sys.argv) > 1 else "build/tests/provider/mock"


def run(ranks, shell, devices="devices=2", **settings):
    """What is said of the way to other hosts. A job with wrong results fails."""
    with tempfile.TemporaryDirectory() as folder:
        result = wring("run", "-n", str(ranks), "--", "sh", "-c",
                       f'{shell}\nexec "{wringtest.WRING}" bench allreduce -b 256k -i 3',
                       MOCKVERBS=f"net={Path(folder) / 'net'},{devices}", LD_LIBRARY_PATH=LIBRARY,
                       WRING_LOG="info", **settings)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    lines = [line for line in result.stderr.splitlines() if "leads to other hosts" in line]
    if len(lines) > 1:
        raise AssertionError(lines)
    return lines[0].split("fabric: ", 1)[1] if lines else None


APART = "export WRING_NODE=$WRING_RANK"


class Auto(unittest.TestCase):
    def test_verbs_where_all_have_a_device(self):
        self.assertEqual(run(3, APART), "verbs leads to other hosts")
        self.assertEqual(run(4, "export WRING_NODE=$((WRING_RANK / 2))"),
                         "verbs leads to other hosts")

    def test_nothing_is_said_within_a_host(self):
        self.assertIsNone(run(2, ""))

    def test_tcp_where_a_rank_has_none(self):
        said = run(3, APART + "\n[ $WRING_RANK != 2 ] || export WRING_VERBS_DEVICES=^mock")
        self.assertRegex(said, "^tcp leads to other hosts: rank 2 goes without verbs: .*leaves it out")
        said = run(2, APART + "\n[ $WRING_RANK != 0 ] || export WRING_VERBS_PKEY=0x8005")
        self.assertRegex(said, "^tcp .* rank 0 goes without verbs: .*not in partition 0x8005")

    def test_tcp_where_there_is_no_device(self):
        said = run(2, APART, devices="devices=0")
        self.assertRegex(said, "^tcp .* rank 0 goes without verbs: no RDMA device")

    def test_tcp_where_nothing_can_be_registered(self):
        limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        if limit[1] != resource.RLIM_INFINITY and limit[1] < 65536:
            self.skipTest("less memory may be locked than the test wants to allow")
        said = run(2, APART + "\nulimit -l 64", devices="devices=2,memlock=65536")
        self.assertRegex(said, r"^tcp .* goes without verbs: mock0 .*\(ulimit -l is 64\)")
        self.assertEqual(run(2, APART + "\nulimit -l 64"), "verbs leads to other hosts")

    def test_tcp_where_devices_do_not_pair(self):
        other = APART + "\n[ $WRING_RANK != 1 ] || export WRING_VERBS_DEVICES=mock1"
        said = run(3, "WRING_VERBS_DEVICES=mock0; export WRING_VERBS_DEVICES\n" + other,
                   devices="devices=2,link@1=ib")
        self.assertEqual(said, "tcp leads to other hosts: verbs does not connect ranks 0 and 1: "
                               "one is RoCE, the other InfiniBand")
        said = run(3, APART + "\n[ $WRING_RANK != 2 ] || export WRING_VERBS_GID_INDEX=0")
        self.assertRegex(said, "^tcp .* verbs does not connect ranks 0 and 2: one is in an IPv4 "
                               r"network .*, the other in an IPv6 one \(fe80::\)")

    def test_within_a_host_that_does_not_matter(self):
        shell = ("export WRING_NODE=$((WRING_RANK / 2)) WRING_VERBS_DEVICES=mock0,mock1\n"
                 "[ $WRING_RANK != 1 ] || export WRING_VERBS_DEVICES=mock1,mock0")
        self.assertEqual(run(3, shell), "verbs leads to other hosts")

    def test_named_and_unable_to_pair_it_fails(self):
        shell = APART + "\nexport WRING_VERBS_DEVICES=mock$WRING_RANK"
        with self.assertRaisesRegex(AssertionError, "ranks 0 and 1 have no provider in common .*: "
                                                    "one is RoCE, the other InfiniBand"):
            run(2, shell, devices="devices=2,link@1=ib", WRING_PROVIDER="shm,verbs")

    def test_who_names_it_gets_it(self):
        self.assertEqual(run(2, APART, WRING_PROVIDER="tcp"), "tcp leads to other hosts")
        self.assertEqual(run(2, APART, WRING_PROVIDER="verbs"), "verbs leads to other hosts")


if __name__ == "__main__":
    wringtest.main()
