#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the first entries of the corpora: seeds.py [--check]. Inputs that were found later lie
beside them, as found-*; all else there is ours, and goes when it is no longer written.

Each target's file says how it reads its input. Codes come from the frozen ones of tests/golden, and
are named after what those records ask, not after their places: a new one leaves the others alone.

--check writes nothing, and ends with 1 where a file is not what would be written.
"""
import sys

import seed_files
import seed_wires
from seed_corpus import renew, seeds, stale


def main():
    for make in seed_files.MAKERS + seed_wires.MAKERS:
        make()
    paths = stale()
    if "--check" in sys.argv[1:]:
        if paths:
            sys.exit(f"{len(paths)} seeds are not what tests/fuzz/seeds.py writes, such as "
                     f"{paths[0]}: run it")
        return
    for path in paths:
        renew(path)
    print(f"{len(seeds)} seeds, of which {len(paths)} are new, changed or gone")


if __name__ == "__main__":
    main()
