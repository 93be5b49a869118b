# SPDX-License-Identifier: Apache-2.0
"""The seeds that there are to be, and what of them the corpora have."""
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"

seeds = {}  # path in the corpora: bytes


def write(target, name, data):
    path = f"{target}/{name}"
    assert path not in seeds, f"{path} is written twice"
    seeds[path] = data if isinstance(data, bytes) else data.encode()


def stale():
    """@return paths that are not what would be written, among them what would go"""
    there = {str(path.relative_to(CORPUS)): path for path in CORPUS.glob("*/*")
             if not path.name.startswith("found-")}
    changed = [path for path, data in seeds.items()
               if path not in there or there[path].read_bytes() != data]
    return sorted(changed + [path for path in there if path not in seeds])


def renew(path):
    file = CORPUS / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if path in seeds:
        file.write_bytes(seeds[path])
    else:
        file.unlink()
