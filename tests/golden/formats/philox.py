# SPDX-License-Identifier: Apache-2.0
"""Random numbers, by Philox4x32-10."""


def mix(h, v):
    mask = 2**64 - 1
    h = h + v + 0x9E3779B97F4A7C15 & mask
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 & mask
    h = (h ^ h >> 27) * 0x94D049BB133111EB & mask
    return h ^ h >> 31


def philox(counter, key):
    c, k, mask = list(counter), list(key), 2**32 - 1
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & mask, a >> 32 ^ c[3] ^ k[1], a & mask]
        k = [k[0] + 0x9E3779B9 & mask, k[1] + 0xBB67AE85 & mask]
    return c


def drawn(element, phase, who=0, seed=0, bucket=0, step=0):
    """The random number of an element; the frozen codes are of seed, bucket and step 0."""
    key = mix(mix(mix(mix(0, seed), bucket), who), phase)
    block = element // 4
    return philox([block % 2**32, block >> 32, step % 2**32, step >> 32],
                  [key % 2**32, key >> 32])[element % 4]


def noise(e, phase, rank=0):
    word = drawn(e // 32 * 16 + e % 16, phase, rank + 1)
    return word & 0xFFFF if e % 32 < 16 else word >> 16
