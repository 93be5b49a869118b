#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Man pages of section 3 from the doc comments of the public headers.

    functions.py list HEADER...                          names of the pages, one a line
    functions.py write FOLDER RELEASE DATE HEADER...     write them
    functions.py check HEADER...                         exit 1 where a comment is missing or wrong

Each public function has a page; wring(3) lists them.
"""
import pathlib
import re
import sys

import public_headers
import roff

SECTIONS = {"Errors": "ERRORS", "Threads": "THREADS", "Bits": "BITS", "Source": "SOURCE"}
LABEL = re.compile(r"(?:^|(?<=[.:] ))(" + "|".join(SECTIONS) + r"): ", re.M)
MENTION = re.compile(r"\b(wring_\w+)\(\)")
STATUS = "enum wring_status "


def summarize(comment):
    """The first sentence, as NAME has it: without its full stop, and not capitalised."""
    flat = " ".join(comment.split("\n\n")[0].split())
    sentence = re.split(r"(?<=[^.])[.?](?:\s|$)|:$", flat)[0].replace("`", "")
    plain_word = re.match(r"[A-Z][a-z ]", sentence)
    return sentence[:1].lower() + sentence[1:] if plain_word else sentence


def split_tags(paragraph):
    """Yields (tag, text) for the @param and @return lines of a paragraph, ("", text) before."""
    pieces = re.split(r"^@(param|return)\s+", paragraph, flags=re.M)
    if pieces[0].strip():
        yield "", pieces[0]
    yield from zip(pieces[1::2], pieces[2::2])


def take_labels(text, parts):
    """Move what follows "Errors:" and its like into their sections; @return what stood before."""
    pieces = LABEL.split(text)
    for label, rest in zip(pieces[1::2], pieces[2::2]):
        parts[SECTIONS[label]].append(rest)
    return pieces[0]


def is_code(paragraph):
    return all(line.startswith("    ") for line in paragraph.split("\n"))


def dissect(comment):
    """A comment in its parts: description paragraphs, params (name, text), returned, sections."""
    parts = {"text": [], "params": [], "returned": [], **{name: [] for name in SECTIONS.values()}}
    for paragraph in re.split(r"\n\n+", comment):
        if not paragraph.strip() or is_code(paragraph):
            parts["text"] += [paragraph] if paragraph.strip() else []
            continue
        for tag, text in split_tags(paragraph):
            text = take_labels(text, parts)
            if tag == "param":
                names = re.match(r"\w+(?:, \w+)*", text).group(0)
                parts["params"].append((names, text[len(names):].strip()))
            elif tag == "return":
                parts["returned"].append(text)
            elif text.strip():
                parts["text"].append(text)
    return parts


# ---- one page ------------------------------------------------------------------------------


def show_prototype(function):
    params = ", ".join(roff.bold(kind) + roff.italic(name) for kind, name in function.params)
    opening = roff.bold(function.type + function.name + "(")
    return f"{opening}{params or roff.bold('void')}\\fB);\\fP"


def show_paragraph(text):
    return roff.verbatim(text) if is_code(text) else [".PP", roff.prose(text)]


def find_types(group, types):
    """The structs and enums in a group's prototypes that a reader would have to look up."""
    found = []
    for function in group.functions:
        for kind in [function.type] + [kind for kind, _ in function.params]:
            match = re.search(r"(?:struct|enum) \w+", kind)
            tag = match and match.group(0)
            alone = tag == STATUS.strip() and function.name != "wring_status_text"
            if tag in types and tag not in found and not alone:
                found.append(tag)
    return found


def show_types(group, types):
    lines = []
    for tag in find_types(group, types):
        comment, text = types[tag]
        if "(*" in text:
            lines += [".PP", f"{roff.bold(tag)} is a table of functions:", "see its header."]
            continue
        lines += show_paragraph(" ".join(comment.split())) if comment else []
        lines += roff.verbatim(text)
    return [".SH TYPES", *lines] if lines else []


def show_returned(group, parts):
    lines = [line for text in parts["returned"] for line in show_paragraph(text)]
    if any(function.type == STATUS for function in group.functions):
        lines += [".PP", "\\fBWRING_OK\\fP on success, else another \\fBenum wring_status\\fP:",
                  "see \\fBwring_status_text\\fP(3). Outputs are written on success only."]
    return [".SH RETURN VALUE", *lines] if lines else []


def show_references(function, group, groups):
    """What the comment mentions, who shares it, and what else there is for the same object."""
    family = "_".join(function.name.split("_")[:2]) + "_"
    known = {member.name for other in groups for member in other.functions}
    names = set(MENTION.findall(group.comment + group.remark)) & known
    names |= {member.name for other in groups for member in other.functions
              if other is group or (other.remark and other.remark == group.remark)}
    names |= {name for name in known if name.startswith(family)}
    names -= {function.name}
    if not names:
        return [".SH SEE ALSO", "\\fBwring\\fP(3), \\fBwring\\fP(7)"]
    return [".SH SEE ALSO", ", ".join(f"\\fB{name}\\fP(3)" for name in sorted(names)) + ",",
            "\\fBwring\\fP(3), \\fBwring\\fP(7)"]


def show_page(function, group, types, groups, release, date):
    shared = group.remark if group.remark != group.comment else ""
    parts = dissect(f"{group.comment}\n\n{shared}")
    names = [function.name] + [f.name for f in group.functions if f is not function]
    lines = roff.title(function.name, 3, release, date)
    lines += [".SH NAME", f"{', '.join(names)} \\-\n{roff.prose(summarize(group.comment))}"]
    lines += [".SH LIBRARY", "libwring: \\fBpkg\\-config \\-\\-cflags \\-\\-libs wring\\fP"]
    lines += [".SH SYNOPSIS", f".B #include <{group.header}>"]
    for member in group.functions:
        lines += [".PP", show_prototype(member)]
    lines += [".SH DESCRIPTION"] + [x for text in parts["text"] for x in show_paragraph(text)]
    if parts["params"]:
        lines += [".SH PARAMETERS"]
        for name, text in parts["params"]:
            lines += roff.tagged(roff.italic(name), text)
    lines += show_returned(group, parts)
    for section in SECTIONS.values():
        if parts[section]:
            text = " ".join(parts[section])
            lines += [f".SH {section}", roff.prose(text[0].upper() + text[1:])]
    return roff.finish(lines + show_types(group, types) + show_references(function, group, groups))


# ---- wring(3) ------------------------------------------------------------------------------


def show_header(header):
    lines = [f".SH <{header.name}>", f".B #include <{header.name}>"]
    for text in re.split(r"\n\n+", header.comment):
        lines += show_paragraph(text)
    for group in header.groups:
        names = ", ".join(f"\\fB{function.name}\\fP(3)" for function in group.functions)
        lines += roff.tagged(names, summarize(group.comment))
    return lines


def show_overview(headers, release, date):
    lines = roff.title("wring", 3, release, date)
    lines += [".SH NAME", "wring \\- gradient buckets between the ranks of a training job"]
    lines += [".SH LIBRARY", "libwring: \\fBpkg\\-config \\-\\-cflags \\-\\-libs wring\\fP"]
    lines += [".SH DESCRIPTION", roff.prose(
        "Applications need `<wring/wring.h>` alone; the other headers are for authors of codecs, "
        "executors, providers and bootstraps. Objects are used by one thread at a time unless "
        "noted.")]
    for header in sorted(headers, key=lambda header: header.name != "wring/wring.h"):
        lines += show_header(header)
    return roff.finish(lines + [".SH SEE ALSO", "\\fBwring\\fP(1), \\fBwring\\fP(7)"])


# ---- what is wrong with them ---------------------------------------------------------------


def find_faults(group):
    names = ", ".join(function.name for function in group.functions)
    if not summarize(group.comment):
        yield f"{names} ({group.header}): no doc comment right above"
    for name, text in dissect(group.comment)["params"]:
        if not text:
            yield f"{names} ({group.header}): nothing is said about @param {name}"
        for word in name.split(", "):
            if not any(word == param for f in group.functions for _, param in f.params):
                yield f"{names} ({group.header}): has no parameter {word}"


def check(headers):
    known = {function.name for header in headers for g in header.groups for function in g.functions}
    faults = []
    for header in headers:
        for group in header.groups:
            faults += find_faults(group)
        for mention in MENTION.findall(header.comment + "".join(g.comment for g in header.groups)):
            if mention not in known:
                faults.append(f"{header.name} speaks of {mention}(), which is not public")
    print("\n".join(faults + [f"{len(known)} functions, {len(faults)} faults"]))
    return 1 if faults or not known else 0


def write(folder, headers, release, date):
    types = {tag: text for header in headers for tag, text in header.types.items()}
    groups = [group for header in headers for group in header.groups]
    folder = pathlib.Path(folder)
    (folder / "wring.3").write_text(show_overview(headers, release, date), encoding="ascii")
    for group in groups:
        for function in group.functions:
            page = show_page(function, group, types, groups, release, date)
            (folder / f"{function.name}.3").write_text(page, encoding="ascii")


def main():
    command, *rest = sys.argv[1:]
    if command == "write":
        folder, release, date, *paths = rest
        write(folder, public_headers.read_all(paths), release, date)
    elif command == "check":
        sys.exit(check(public_headers.read_all(rest)))
    elif command == "list":
        for header in public_headers.read_all(rest):
            for group in header.groups:
                print("\n".join(f"{function.name}.3" for function in group.functions))
        print("wring.3")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
