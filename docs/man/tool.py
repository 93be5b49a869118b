#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Man pages of the tool and of its settings, from what it says of itself.

    tool.py FOLDER RELEASE DATE WRING PAGE...

WRING is the tool. A PAGE such as wring-run.1 holds what --help does not say; usage, description and
options of `wring run` are put before it. Lines that ask for more:

    @COMMANDS@          the commands, one line each
    @MEASUREMENTS@      what `wring bench` measures, each with its options
    @CONFIG@            the WRING_ variables, from wring info --config --json
    @CODECS@            the codecs and their parameters, from wring info --codecs --json
    @PROVIDERS@         the providers, from wring info --providers --json
"""
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys

import roff


@dataclasses.dataclass
class Help:
    usages: list  # "wring run [OPTION...] PROGRAM"
    doc: str
    options: list  # of (flags, meaning)
    table: list  # of (name, meaning): commands or measurements
    notes: list  # paragraphs after the options


def ask(wring, *words):
    """What the tool prints, in lines of any length, whatever is set outside."""
    bare = {k: v for k, v in os.environ.items() if not k.startswith("WRING_")}
    bare["ARGP_HELP_FMT"] = "rmargin=9999,opt-doc-col=60"
    bare["HWLOC_COMPONENTS"] = "-pci"  # nothing of this machine belongs in a page
    bare["ASAN_OPTIONS"] = "detect_leaks=0"
    return subprocess.run([wring, *words], env=bare, check=True, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60).stdout


def read_rows(lines, pattern):
    rows = []
    for line in lines:
        match = re.match(pattern, line)
        if match:
            rows.append((match.group(1).strip(), match.group(2).strip()))
        elif rows:  # goes on
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {line.strip()}".strip())
    return rows


def read_help(text):
    blocks = [block.split("\n") for block in re.split(r"\n\n+", text.strip("\n"))]
    head = blocks.pop(0)
    usages = [re.sub(r"^(Usage:|  or:)\s+", "", line).strip()
              for line in head if line.startswith(("Usage:", "  or:"))]
    found = Help(usages, " ".join(head[len(usages):]), [], [], [])
    for block in blocks:
        if block[0].lstrip().startswith("-"):
            found.options += read_rows(block, r" +(-.*?)(?:  +|$)(.*)")
        elif block[0].endswith(":") and block[-1].startswith("  "):
            found.table += read_rows(block[1:], r"  (\S+) +(.*)")
        elif not block[0].startswith("Mandatory or optional"):
            found.notes.append(" ".join(block))
    return found


def show_usage(usage):
    """The program and its commands are bold, what the reader fills in is italic."""
    words = [roff.italic(word) if re.search("[A-Z]", word) else roff.bold(word)
             for word in usage.split()]
    return [".PP", " ".join(words)]


def show_options(found):
    lines = []
    for flags, meaning in found.options:
        flags = ", ".join(re.sub(r"=(.*)", lambda m: "=" + roff.italic(m.group(1)),
                                 roff.bold(flag).replace("\\fP", "")) + "\\fP"
                          for flag in flags.split(", "))
        lines += roff.tagged(flags, meaning)
    return lines


def show_notes(found):
    return [line for note in found.notes for line in (".PP", roff.prose(note))]


def show_commands(wring):
    lines = []
    for name, meaning in read_help(ask(wring, "--help")).table:
        lines += roff.tagged(f"\\fBwring\\-{roff.escape(name)}\\fP(1)", meaning)
    return lines


def show_measurements(wring):
    lines = []
    for name, _ in read_help(ask(wring, "bench", "--help")).table:
        found = read_help(ask(wring, "bench", name, "--help"))
        lines += [f".SS wring bench {roff.escape(name)}", *show_usage(found.usages[0])[1:]]
        lines += [".PP", roff.prose(found.doc), *show_notes(found), *show_options(found)]
    return lines


def show_config(wring):
    lines = []
    for var in json.loads(ask(wring, "info", "--config", "--json"))["config"]:
        unit = f" {var['unit']}" if var["unit"] and var["default"].isdigit() else ""
        usual = f" (default: {var['default']}{unit})" if var["default"] else ""
        lines += roff.tagged(roff.bold(var["name"]), var["doc"] + usual)
    return lines


def show_param(param):
    """One line on name=value."""
    if "words" in param:
        allowed = " or ".join(param["words"].split("|"))
        return f"{param['name']}={param['default']}: {param['doc']}; {allowed}"
    # as a spec takes them: without an exponent
    usual, low, high = (f"{param[key]:.15f}".rstrip("0").rstrip(".")
                        for key in ("default", "min", "max"))
    return f"{param['name']}={usual}: {param['doc']}; {low} to {high}"


def show_codecs(wring):
    lines = []
    for codec in json.loads(ask(wring, "info", "--codecs", "--json"))["codecs"]:
        lines += roff.tagged(roff.bold(codec["name"]), codec["doc"])
        for param in codec["params"]:
            lines += [".br", roff.prose(show_param(param))]
    return lines


def show_providers(wring):
    lines = []
    for provider in json.loads(ask(wring, "info", "--providers", "--json"))["providers"]:
        lines += roff.tagged(roff.bold(provider["name"]), provider["doc"])
    return lines


INSERTS = {"@COMMANDS@": show_commands, "@MEASUREMENTS@": show_measurements,
           "@CONFIG@": show_config, "@CODECS@": show_codecs, "@PROVIDERS@": show_providers}


def fill_in(text, wring):
    lines = []
    for line in text.split("\n"):
        lines += INSERTS[line](wring) if line in INSERTS else [line]
    return lines


def show_head(name, wring):
    """What --help says: `name` is wring, or wring-run for `wring run`."""
    words = name.split("-")[1:]
    found = read_help(ask(wring, *words, "--help"))
    doc = found.doc[:1].lower() + found.doc[1:].rstrip(".")
    lines = [".SH NAME", f"{roff.escape(name)} \\-", roff.prose(doc), ".SH SYNOPSIS"]
    lines += [line for usage in found.usages for line in show_usage(usage)]
    lines += [".SH DESCRIPTION", roff.prose(found.doc), *show_notes(found)]
    return lines + [".SH OPTIONS", *show_options(found)]


def show_page(path, release, date, wring):
    name, _, section = path.name.rpartition(".")
    lines = roff.title(name, section, release, date)
    if section == "1":
        lines += show_head(name, wring)
    return roff.finish(lines + fill_in(path.read_text(encoding="utf-8"), wring))


def main():
    folder, release, date, wring, *pages = sys.argv[1:]
    for page in map(pathlib.Path, pages):
        text = show_page(page, release, date, wring)
        (pathlib.Path(folder) / page.name).write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
