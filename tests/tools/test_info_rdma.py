#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `wring info` says of RDMA devices that are made up. Second argument: where their library is."""
import json
import sys
import unittest

import wringtest
from wringtest import wring

LIBRARY = sys.argv.pop(1) if len(sys.argv) > 1 else "build/tests/provider/mock"


def ask(devices, *words, **settings):
    result = wring("info", "--rdma", *words, MOCKVERBS=devices, LD_LIBRARY_PATH=LIBRARY, **settings)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return result.stdout


def rails(devices, **settings):
    """The ports that would be used, best first, and all ports by name."""
    rdma = json.loads(ask(devices, "--json", **settings))["rdma"]
    ports = {f"{port['device']}:{port['port']}": port for port in rdma["ports"]}
    chosen = sorted((port["rail"], name) for name, port in ports.items() if port["rail"] is not None)
    if rdma["rails"] != len(chosen) or [rail for rail, _ in chosen] != list(range(len(chosen))):
        raise AssertionError(f"{rdma['rails']} rails, but {chosen}")
    return [name for _, name in chosen], ports


class Rdma(unittest.TestCase):
    def test_a_port_is_described(self):
        chosen, ports = rails("devices=1,speed=100,mtu=2048,inline=64,dmabuf=1")
        self.assertEqual(chosen, ["mock0:1"])
        port = ports["mock0:1"]
        self.assertEqual((port["state"], port["link"], port["gbit"], port["mtu_bytes"]),
                         ("active", "RoCE", 100, 2048))
        self.assertIn({"index": 1, "type": "RoCE v2", "address": "10.0.0.1"}, port["gids"])
        self.assertIn("0xffff", port["pkeys"])
        can = port["abilities"]
        self.assertTrue(can["extended_cq"] and can["wr_calls"] and can["dmabuf"])
        self.assertEqual(can["inline_bytes"], 64)
        self.assertGreater(can["max_queue_pairs"], 0)
        self.assertIn("GID 1: RoCE v2 10.0.0.1", port["why"])

    def test_lacks_are_seen(self):
        _, ports = rails("devices=1,cqex=0,wr=0,dmabuf=0,inline=0")
        self.assertEqual({key: value for key, value in ports["mock0:1"]["abilities"].items()
                          if key in ("extended_cq", "wr_calls", "dmabuf", "inline_bytes")},
                         {"extended_cq": False, "wr_calls": False, "dmabuf": False,
                          "inline_bytes": 0})

    def test_unlike_ports_are_left_out(self):
        chosen, ports = rails("devices=4,speed@2=25,link@3=ib")
        self.assertEqual(chosen, ["mock0:1", "mock1:1"])
        self.assertIn("speed", ports["mock2:1"]["why"])
        self.assertIn("link layer", ports["mock3:1"]["why"])
        self.assertEqual(ports["mock3:1"]["link"], "InfiniBand")
        self.assertGreater(ports["mock3:1"]["lid"], 0)

    def test_settings_choose(self):
        four = "devices=2,ports=2"
        self.assertEqual(rails(four)[0], ["mock0:1", "mock0:2", "mock1:1", "mock1:2"])
        for name, value, want in [
                ("WRING_VERBS_RAILS", "1", ["mock0:1"]),
                ("WRING_VERBS_DEVICES", "mock1", ["mock1:1", "mock1:2"]),
                ("WRING_VERBS_DEVICES", "=mock1:2,mock0:1", ["mock1:2", "mock0:1"]),
                ("WRING_VERBS_DEVICES", "^mock0,mock1:1", ["mock1:2"]),
                ("WRING_VERBS_DEVICES", "=mock", []),
                ("WRING_VERBS_DEVICES", "mock0:", []),
                ("WRING_VERBS_GID_INDEX", "200", []),
                ("WRING_VERBS_PKEY", "0x8077", []),
                ("WRING_BIND", "10.0.1.2", ["mock1:2", "mock0:1", "mock0:2", "mock1:1"])]:
            with self.subTest(name=name, value=value):
                chosen, ports = rails(four, **{name: value})
                self.assertEqual(chosen, want)
                self.assertTrue(all(port["why"] for port in ports.values()))

    def test_people_see_the_same(self):
        shown = ask("devices=2,speed@1=25")
        for part in ("mock0:1", "mock1:1", "10.0.0.1", "fe80::", "another speed", "ibv_wr_*",
                     "RoCE v2", "25"):
            self.assertIn(part, shown)
        for line in shown.splitlines():
            self.assertLessEqual(len(line), 100, line)
        self.assertIn("there is no mock7", ask("", WRING_VERBS_DEVICES="mock0,mock7"))
        self.assertEqual(ask("devices=0").strip(), "RDMA: no RDMA device")


if __name__ == "__main__":
    wringtest.main()
