#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that what the documents name is there.

    pages.py ROOT PAGE...

- links lead to files;
- `path/file.c` in backticks is a file, `file.c` too, somewhere in the tree; * stands for anything;
  what contains a word in capitals (NAME) is the reader's own;
- `name()` is a function of the sources, and `a_name` a word of theirs;
- lines that are nothing but names, in an indented block, name cases of the provider suite;
- a ```c block stands in one of the sources, word for word, but for how far it is indented.
"""
import pathlib
import re
import sys
import textwrap

SOURCES = ("*.c", "*.h", "*.py", "*.build", "*.txt", "*.map")
ROOMS = ("base", "compress", "transport", "offload", "planner", "runtime", "dropin", "tools", "tests",
         "docs")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
TICKED = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.*+-]+(?:/[\w.*+-]+)*/?")
FILE_ENDING = re.compile(r"\.(?:c|h|py|sh|md|txt|build|map|svg)$")
OWN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2,}(?![A-Za-z0-9])")  # NAME, but not NAME_OF
CASES = re.compile(r"^    ((?:[a-z0-9]+_[a-z0-9_]+ ?)+)$", re.M)


class Tree:
    """The sources: their paths, their words, their text."""

    def __init__(self, root):
        self.root = root
        paths = [path for path in root.iterdir() if path.is_file()]
        for room in ROOMS:
            paths += [path for path in (root / room).rglob("*") if path.is_file()]
        self.paths = [f"/{path.relative_to(root)}" for path in paths]
        texts = [path.read_text(encoding="utf-8") for path in paths
                 if any(path.match(pattern) for pattern in SOURCES)]
        self.text = "\n".join(texts)
        self.words = set(re.findall(r"\w+", self.text))
        self.called = set(re.findall(r"(\w+)\(", self.text))
        self.cases = re.findall(r'\{"(\w+)", \1\}', self.text)
        self.lines = "\n".join(line.strip() for line in self.text.splitlines())

    def has_file(self, name):
        if any(True for _ in self.root.glob(name.rstrip("/"))):
            return True
        return any(path.endswith("/" + name) for path in self.paths)


def looks_like_path(token):
    if not PATH.fullmatch(token) or token.startswith("build"):
        return False
    return bool(FILE_ENDING.search(token)) or token.split("/")[0] in ROOMS and "/" in token


def check_token(tree, token):
    function = re.fullmatch(r"(\w+)\(\)", token)
    if function:
        return [] if function.group(1) in tree.called else [f"there is no function {token}"]
    if looks_like_path(token):
        return [] if tree.has_file(token) or OWN.search(token) else [f"there is no file {token}"]
    if re.fullmatch(r"(?:(?:enum|struct) )?\w+_\w+", token) and not token.endswith("_N"):
        word = token.split(" ")[-1]
        return [] if word in tree.words else [f"no source knows {word}"]
    return []


def check_quote(tree, quote):
    want = "\n".join(line.strip() for line in textwrap.dedent(quote).strip().splitlines())
    return [] if want in tree.lines else [f"no source has these lines:\n{quote}"]


def check_cases(tree, line):
    return [f"no case of the suite is called {name}" for name in line.split()
            if not any(name in case for case in tree.cases)]


def check_page(tree, page):
    text = page.read_text(encoding="utf-8")
    for target in LINK.findall(text):
        if "://" not in target and not (page.parent / target).exists():
            yield f"the link to {target} leads nowhere"
    for language, quote in FENCE.findall(text):
        if language == "c":
            yield from check_quote(tree, quote)
    text = FENCE.sub("", text)
    for line in CASES.findall(text):
        yield from check_cases(tree, line)
    for token in TICKED.findall(text):
        yield from check_token(tree, token)


def main():
    tree = Tree(pathlib.Path(sys.argv[1]).resolve())
    if len(tree.words) < 1000 or len(tree.cases) < 30:
        sys.exit(f"only {len(tree.words)} words and {len(tree.cases)} cases below {tree.root}")
    faults = [f"{name}: {fault}" for name in sys.argv[2:]
              for fault in check_page(tree, tree.root / name)]
    for fault in faults:
        print(fault)
    print(f"{len(sys.argv) - 2} pages, {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
