#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""links.py's relayed links: which frames are lost and reordered; that wring's sums stay right."""
import sys
import tempfile
import unittest

import links

links.require_root()  # begins again where it has to
BUILD = sys.argv.pop(1)
DATAGRAMS = 300
PATIENCE = 80  # seconds, fewer than links.Hosts.run() has
PORT = 6000

# Run on one host each. The receiver says which numbers it got, in their order; an end is sent again
# and again, so that it hears one though some are lost. Where frames are late, the end may come before
# a number: the receiver is told how many it has to wait for.
RECEIVE = f"""
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
s.bind((sys.argv[1], {PORT}))
s.settimeout({PATIENCE})
open(sys.argv[2], "w").close()
got = []
while True:
    data, sender = s.recvfrom(64)
    if data == b"end" and len(got) < int(sys.argv[3]):
        continue
    if data == b"end":
        for _ in range(50):
            s.sendto(b"end", sender)
        break
    got.append(int(data))
print(*got)
"""
SEND = f"""
import os, socket, sys, time
deadline = time.monotonic() + {PATIENCE}
while not os.path.exists(sys.argv[2]) and time.monotonic() < deadline:
    time.sleep(0.01)  # nothing is sent to nobody: the answer would be a frame
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.05)
for i in range({DATAGRAMS}):
    s.sendto(b"%d" % i, (sys.argv[1], {PORT}))
while time.monotonic() < deadline:
    time.sleep(0.02)
    s.sendto(b"end", (sys.argv[1], {PORT}))
    try:
        if s.recv(64) == b"end":
            break
    except (TimeoutError, ConnectionRefusedError):
        continue
"""


def send_numbers(name, count=2, least=DATAGRAMS):
    """Send numbered datagrams from host 1 to host 0. Returns those that came, in their order: at least
    so many."""
    with links.Hosts(count, links.find(name), build=BUILD) as hosts, \
            tempfile.TemporaryDirectory() as folder:
        macs = [hosts.do(host + 1, "ip", "-brief", "link", "show", "cable").split()[2]
                for host in range(2)]
        for host in range(2):  # nobody asks for addresses: all frames are datagrams
            hosts.do(host + 1, "ip", "neigh", "replace", hosts.address(1 - host), "lladdr",
                     macs[1 - host], "nud", "permanent", "dev", "cable")
        ends = [[sys.executable, "-c", program, hosts.address(0), f"{folder}/listens", str(least)]
                for program in (RECEIVE, SEND)]
        outputs = hosts.run(lambda host: ends[host] if host < 2 else ["true"])
        counts = hosts.relayed()
    return list(map(int, outputs[0].split())), counts


class Relayed(unittest.TestCase):
    def test_all_frames_come_in_their_order(self):
        got, counts = send_numbers("1g:delay=2")
        self.assertEqual(got, list(range(DATAGRAMS)))
        self.assertEqual((counts["lost"], counts["reordered"], counts["dropped"]), (0, 0, 0))

    def test_a_seed_loses_the_same_frames(self):
        first, counts = send_numbers("1g:delay=2:loss=0.3:seed=5", least=0)
        again, _ = send_numbers("1g:delay=2:loss=0.3:seed=5", least=0)
        other, _ = send_numbers("1g:delay=2:loss=0.3:seed=6", least=0)
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        self.assertGreater(counts["lost"], 0)
        self.assertEqual(first, sorted(first))
        self.assertTrue(DATAGRAMS * 0.5 < len(first) < DATAGRAMS * 0.9, len(first))

    def test_reordered_frames_all_come(self):
        got, counts = send_numbers("1g:delay=40:reorder=0.2")
        self.assertEqual(sorted(got), list(range(DATAGRAMS)))
        self.assertNotEqual(got, sorted(got))
        self.assertGreater(counts["reordered"], 0)

    def test_sums_are_right(self):
        with links.Hosts(2, links.find("1g:delay=2:loss=0.005:reorder=0.02"), build=BUILD) as hosts:
            results = links.run_wring(hosts, f"{BUILD}/tools/wring",
                                      ["-b", "4k,1m", "-c", "none,int8", "--seconds", "0.1"],
                                      WRING_BYPASS="never")
            counts = hosts.relayed()
        self.assertEqual([result["wrong"] for result in results], [0] * 4)
        self.assertGreater(counts["lost"], 0)
        self.assertGreater(counts["reordered"], 0)

    def test_hosts_of_a_site_are_near(self):
        got, _ = send_numbers("1g:delay=1000000:sites=2", 4)  # others are 8 minutes away
        self.assertEqual(got, list(range(DATAGRAMS)))

    def test_sites_are_found(self):
        """Nobody names them; at two, a scheme that needs equal ones goes by them. A ring always does."""
        for count, asked, scheme in ((4, "hierarchical", "hierarchical"),
                                     (3, "hierarchical", "direct"), (3, "ring", "ring")):
            with links.Hosts(count, links.find("1g:delay=20:sites=2"), build=BUILD) as hosts:
                results = links.run_wring(hosts, f"{BUILD}/tools/wring",
                                          ["-b", "64k", "-c", "none", "--seconds", "0.1"],
                                          WRING_SCHEME=asked, WRING_SITE="")
            self.assertEqual([result["wrong"] for result in results], [0])
            self.assertTrue(results[0]["scheme"].startswith(scheme), results[0]["scheme"])


if __name__ == "__main__":
    unittest.main()
