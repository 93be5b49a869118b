#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codec_entries.py WRING PAGE: the page says of each codec and each suffix when to use it, when not, and
whose method it is."""
import json
import pathlib
import re
import subprocess
import sys

SUFFIXES = ("+warmup", "+momentum", "+nesterov", "+ef", "+ef21", "+ef:residual=bf16", "+ef:residual=int8")
SPECS = ("topk/int8", "in>out")
SAYS = {"when": re.compile(r"^(?:Use|Take)\b", re.M), "when not": re.compile(r"^Do not\b", re.M),
        "whose method": re.compile(r"^(?:Source:|There is no source)", re.M)}


def entries(text):
    """(names, text) of each subsection of CODECS."""
    section = re.search(r"^\.SH CODECS$(.*?)^\.SH ", text, re.M | re.S).group(1)
    for part in section.split("\n.SS ")[1:]:
        title, _, body = part.partition("\n")
        yield title.split(", "), re.sub(r"^\.[BI]R? ", "", body, flags=re.M)


def main():
    listed = subprocess.run([sys.argv[1], "info", "--codecs", "--json"], capture_output=True, text=True,
                            check=True, timeout=60).stdout
    wanted = [codec["name"] for codec in json.loads(listed)["codecs"]] + [*SUFFIXES, *SPECS]
    found, faults = set(), []
    for names, body in entries(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")):
        found.update(names)
        faults += [f"{', '.join(names)}: the page does not say {what}"
                   for what, says in SAYS.items() if not says.search(body)]
    faults += [f"{name}: the page has no entry" for name in wanted if name not in found]
    print("\n".join([*faults, f"{len(wanted)} codecs and suffixes, {len(faults)} faults"]))
    sys.exit(1 if faults or len(wanted) < 30 else 0)


if __name__ == "__main__":
    main()
