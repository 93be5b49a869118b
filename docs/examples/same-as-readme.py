#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""same-as-readme.py README FILE: the README's C program is FILE, which is compiled and run."""
import re
import sys

shown = re.search(r"```c\n(.*?)```", open(sys.argv[1], encoding="utf-8").read(), re.S).group(1)
source = open(sys.argv[2], encoding="utf-8").read().split("\n", 1)[1]
if shown != source:
    sys.exit(f"{sys.argv[1]}: its program differs from {sys.argv[2]}")
