# SPDX-License-Identifier: Apache-2.0
"""powersgd."""
from formats.binary32 import NAN

from .records import random, record, refused, words


def powersgd_cases():
    yield record("powersgd", random(1, 20))
    yield record("powersgd", random(2, 700), rows=20)
    yield record("powersgd+ef", random(3, 672), random(4, 672, 0.1), rows=21)
    yield record("powersgd", random(5, 33) * 40, rows=40)  # of rank 1
    yield record("powersgd", [0] * 640, rows=20)
    yield record("powersgd", random(6, 640)[:-1] + [0x7F800000], rows=20)
    yield record("powersgd+ef", random(7, 19) + [NAN], random(8, 20))
    yield refused("powersgd", 20, words(1))
    yield refused("powersgd", 20, bytes(3))
    yield refused("powersgd", 20, bytes(5))
    yield record("powersgd:rank=1", random(9, 16), rows=4)  # the smallest matrix
    yield record("powersgd:rank=1+ef", random(10, 210), random(11, 210, 0.1), rows=7)
    yield record("powersgd:rank=2", random(12, 330), rows=11)
    yield record("powersgd:rank=2+ef", random(13, 150) + [0] * 30, random(14, 180, 0.1), rows=12)
    yield record("powersgd:rank=8", random(15, 1024), rows=32)
    yield record("powersgd:rank=8+ef", random(16, 1225), random(17, 1225, 0.1), rows=35)
    yield record("powersgd:rank=8", random(18, 72) * 18, rows=36)  # of rank 2
    yield record("powersgd:rank=8", random(19, 256), rows=16)  # a matrix for smaller ranks
    yield record("powersgd:rank=1", random(20, 15), rows=3)  # for none
    yield record("powersgd:rank=1+ef", random(21, 15) + [0xFF800000], random(22, 16), rows=4)
    yield refused("powersgd:rank=8", 20, words(1))
