#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Comments of C name functions, types and files that there are.

    comments.py ROOT

A fault is a word that begins with wring_ or WRING_ and stands in no code, or a name of a .c or .h file
that no file has, or that the comment's own file has.
"""
import pathlib
import re
import subprocess
import sys

PART = re.compile(r'(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<text>"(?:\\.|[^"\\\n])*")', re.DOTALL)
WORD = re.compile(r"\b(?:wring|WRING)_\w+(?!\w*\*)")
FILE = re.compile(r"(?<![\w</.-])[\w-]+(?:/[\w-]+)*\.[ch]\b(?![>/])")
OTHERS = {"net/ipv4/tcp_bbr.c"}  # of Linux


def list_files(root):
    listed = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True)
    if listed.returncode == 0:
        return listed.stdout.split("\n")
    return [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]


def main():
    root = pathlib.Path(sys.argv[1])
    files = list_files(root)
    known, comments = set(), []
    for name in files:
        if not name.endswith((".c", ".h", ".cpp", ".build", ".py", ".map", ".md")):
            continue
        text = (root / name).read_text(encoding="utf-8", errors="replace")
        if not name.endswith((".c", ".h")):
            known.update(re.findall(r"\w+", text))
            continue
        known.update(re.findall(r"\w+", PART.sub(lambda m: m["text"] or " ", text)))
        comments += [(name, text[:found.start()].count("\n") + 1, found["comment"])
                     for found in PART.finditer(text) if found["comment"]]
    faults = 0
    for name, line, comment in comments:
        for word in WORD.findall(comment):
            whole = word in known or word.endswith("_") and any(k.startswith(word) for k in known)
            if not whole:
                print(f"{name}:{line}: {word} is no name in the code")
                faults += 1
        for file in FILE.findall(comment):
            if name == file or name.endswith("/" + file):
                print(f"{name}:{line}: {file} is this file itself")
                faults += 1
            elif file not in OTHERS and not any(f == file or f.endswith("/" + file) for f in files):
                print(f"{name}:{line}: there is no file {file}")
                faults += 1
    print(f"{len(comments)} comments, {faults} faults")
    return faults > 0


if __name__ == "__main__":
    sys.exit(main())
