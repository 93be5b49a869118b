# SPDX-License-Identifier: Apache-2.0
"""What the tests of wring calibrate have in common: short runs, and gradients by hand."""
import json
import struct

from wringtest import wring

# what is measured while other tests run may well be noise
SHORT = ("--seconds", "3", "--elements", "64k", "--doubt", "100")


def calibrate(path, *arguments):
    """@return the profile, as it was printed"""
    result = wring("calibrate", "--json", *SHORT, *arguments, "-o", path)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return json.loads(result.stdout)


def write_gradients(path, scale=1.0):
    """Over two and three steps in a row: many alike, one that stands out, and all sizes."""
    def sized(text):
        return struct.pack("<I", len(text)) + text
    steps = (3, 4, 8, 9, 10)
    flat = [scale * (1 if i % 2 else -1) for i in range(1024)]
    spiky = [scale * (100 if i == 7 else 0.001 * (1 if i % 3 else -1)) for i in range(1024)]
    data = b"wring-gradients\n" + struct.pack("<III", 1, 3, len(steps)) + sized(b"by hand")
    data += struct.pack("<5Q", *steps)
    ramp = [scale * (i / 512 - 1) for i in range(1024)]
    for tensor in (b"flat", b"spiky", b"ramp"):
        data += sized(tensor) + struct.pack("<QI", 1024, 1024)
    data += len(steps) * struct.pack("<3072f", *flat, *spiky, *ramp)
    with open(path, "wb") as file:
        file.write(data)
    return path


def write_wild_gradients(path):
    """One step of one tensor whose exponents are anything."""
    values = [2.0 ** (i * i % 199 - 99) for i in range(65536)]
    with open(path, "wb") as file:
        file.write(b"wring-gradients\n" + struct.pack("<IIIIQI", 1, 1, 1, 0, 0, 1) + b"a" +
                   struct.pack("<QI65536f", 65536, 65536, *values))
    return path
