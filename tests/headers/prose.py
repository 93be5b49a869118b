#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Count what makes prose hard to read, and hold the counts.

    prose.py ROOT [--show KIND] [--record] [PAGE...]

Kinds are `relative`: a preposition before what, who, whom, whatever or whoever, and in pages one of
these that begins a sentence which is no question; and `long`: a sentence of more than 35 words in
docs/. Each count, and the words of docs/, may only fall: tests/headers/prose.json has the recorded
ones, and --record writes the new ones. With pages, only these are counted, and nothing is held.
"""
import argparse
import json
import pathlib
import re
import sys

ROOMS = ("base", "compress", "transport", "offload", "planner", "runtime", "dropin", "tools")
PREPOSITION = ("of|for|to|from|in|by|with|on|at|about|into|as|than|after|before|beside|besides|beyond|"
               "under|over|between|among|against|without|through|like|until|since|behind|upon|but")
PRONOUN = "what|who|whom|whatever|whoever|whomever"
AFTER = re.compile(rf"\b(?:{PREPOSITION})\s+(?:{PRONOUN})\b", re.I)
BEGIN = re.compile(rf"^(?:{PRONOUN})\b", re.I)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
LONG = 35
RECORD = "tests/headers/prose.json"


def sentences(text):
    """Of a page: without code, tables, headings and links' targets."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    blocks, block = [], []
    for line in text.split("\n"):
        if not line.strip() or re.match(r"\s*(?:\||#|    |[-*+] |\d+\. |!\[|<)", line):
            blocks.append(" ".join(block))
            block = []
            line = re.sub(r"^\s*(?:[-*+]|\d+\.) ", "", line)
            if re.match(r"\s*(?:\||#|    |!\[|<)", line):
                continue
        block.append(line.strip())
    blocks.append(" ".join(block))
    for whole in blocks:
        yield from (part for part in re.split(r"(?<=[.!?:;])\s+(?=[A-Z`\"'*\[(])", whole) if part)


def comment_sentences(text):
    for comment in COMMENT.findall(text):
        comment = re.sub(r"^\s*/?\*+/?", "", comment, flags=re.M).rstrip("*/")
        yield from re.split(r"(?<=[.!?])\s+|\n\s*\n", " ".join(comment.split(" ")))


def relatives(sentence, in_page):
    sentence = sentence.strip()
    found = [match.group(0) for match in AFTER.finditer(sentence)]
    begin = BEGIN.match(sentence)
    if begin and in_page and not sentence.endswith("?"):
        found.append(begin.group(0))
    return found


def read(root, pages):
    """(path, is a page of docs/, sentences) of everything that is counted."""
    if pages:
        named = [pathlib.Path(page) for page in pages]
    else:
        named = sorted((root / "docs").glob("*.md")) + [root / "README.md", root / "NEWS"]
        for room in ROOMS:
            named += sorted((root / room).rglob("*.[ch]"))
    for path in named:
        if path.exists():
            text = path.read_text(encoding="utf-8")
            code = path.suffix in (".c", ".h")
            found = list(comment_sentences(text) if code else sentences(text))
            yield path, path.parent.name == "docs", found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--show", choices=("relative", "long"))
    parser.add_argument("--record", action="store_true")
    parser.add_argument("pages", nargs="*")
    arguments = parser.parse_args()
    counted = {"relatives": 0, "long sentences of docs": 0, "sentences of docs": 0,
               "words of docs": 0, "words": 0}
    for path, in_docs, found in read(arguments.root, arguments.pages):
        if in_docs:
            counted["words of docs"] += len(path.read_text(encoding="utf-8").split())
        for sentence in found:
            words = len(sentence.split())
            hits = relatives(sentence, path.suffix not in (".c", ".h"))
            counted["words"] += words
            counted["relatives"] += len(hits)
            if arguments.show == "relative" and hits:
                print(f"{path}: {', '.join(hits)}: {sentence[:140]}")
            if in_docs:
                counted["sentences of docs"] += 1
                counted["long sentences of docs"] += words > LONG
                if arguments.show == "long" and words > LONG:
                    print(f"{path}: {words} words: {sentence[:100]}")
    print(json.dumps(counted, indent=4))
    record = arguments.root / RECORD
    held = ("relatives", "long sentences of docs", "words of docs")
    if arguments.record:
        record.write_text(json.dumps({name: counted[name] for name in held}, indent=4) + "\n")
    elif not arguments.pages:
        worse = [name for name, most in json.loads(record.read_text()).items()
                 if counted[name] > most]
        sys.exit("; ".join(f"more {name} than recorded" for name in worse) if worse else 0)


if __name__ == "__main__":
    main()
