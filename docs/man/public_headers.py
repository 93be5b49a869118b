# SPDX-License-Identifier: Apache-2.0
"""What the public headers say: their functions, types and doc comments.

The headers keep to the house style, and only that is understood: a doc comment stands right above
what it speaks of, and functions that follow without an empty line between share it. An ordinary
comment of several lines speaks of all functions from there to the next type or such comment.
"""
import dataclasses
import re

GUARD = re.compile(r"#ifdef __cplusplus\n.*?#endif\n", re.S)
DIRECTIVE = re.compile(r"#(?:[^\n]*\\\n)*[^\n]*\n")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
FUNCTION = re.compile(r"^(?P<type>[^()]+?[\s*])(?P<name>\w+)\((?P<params>[^()]*)\)$", re.S)
TYPE = re.compile(r"^(?P<tag>(?:struct|enum) \w+) \{", re.S)


@dataclasses.dataclass
class Function:
    name: str
    type: str  # "enum wring_status "
    params: list  # of (type, name): ("struct wring_session **", "out"); empty for void

    @property
    def prototype(self):
        params = ", ".join(kind + name for kind, name in self.params) or "void"
        return f"{self.type}{self.name}({params})"


@dataclasses.dataclass
class Group:
    """Functions that share one doc comment."""
    header: str  # "wring/wring.h"
    comment: str  # "" where there is none at all
    remark: str  # on all functions of this part of the header, or ""
    functions: list


@dataclasses.dataclass
class Header:
    name: str
    comment: str  # of the whole file
    groups: list
    types: dict  # "struct wring_source" -> (doc comment or "", its text as it stands there)


def strip_comment(comment):
    """The lines of a comment without its frame."""
    inner = re.sub(r"^/\*\*?[ \n]?|\s*\*/$", "", comment)
    return "\n".join(re.sub(r"^ \* ?", "", line).rstrip() for line in inner.split("\n")).strip("\n")


def find_end(text, at):
    """The index after the declaration that begins at `at`: at the ; or } of its outermost level."""
    depth = 0
    while at < len(text):
        if text.startswith("/*", at):
            at = text.index("*/", at) + 2
            continue
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
        if depth == 0 and text[at - 1] == ";":
            return at
        if depth == 0 and text[at - 1] == "}" and not re.match(r"\s*;", text[at:]):
            return at
    raise ValueError("a declaration without an end")


def split(text):
    """Yields ("doc", "remark", "gap" or "code", text) from top to bottom."""
    at = 0
    while at < len(text):
        if text[at] == "\n":
            yield "gap", ""
            at += 1
        elif text.startswith("/*", at):
            end = text.index("*/", at) + 2
            yield "doc" if text.startswith("/**", at) else "remark", text[at:end]
            at = end + text.startswith("\n", end)
        elif text[at] == "#":
            end = DIRECTIVE.match(text, at).end()
            yield "remark", text[at:end]
            at = end
        else:
            end = find_end(text, at)
            yield "code", text[at:end]
            rest = re.compile(r"[ \t]*(/\*.*?\*/)?[ \t]*\n?", re.S).match(text, end)
            at = rest.end()


def parse_param(text):
    match = re.match(r"(.*?)(\w+)$", " ".join(text.split()))
    return match.group(1), match.group(2)


def parse_function(code):
    """A Function, or None where the declaration is something else."""
    flat = " ".join(COMMENT.sub(" ", code).rstrip(";").split())
    match = FUNCTION.match(flat)
    if match is None or match.group("type").startswith(("typedef", "static", "struct {")):
        return None
    params = [] if match.group("params") == "void" else \
        [parse_param(param) for param in match.group("params").split(",")]
    return Function(match.group("name"), match.group("type"), params)


def read(path):
    with open(path, encoding="utf-8") as file:
        text = GUARD.sub("", file.read())
    name = "wring/" + str(path).rsplit("/", 1)[-1]
    header = Header(name, "", [], {})
    comment, remark, group = "", "", None
    for kind, piece in split(text):
        if kind == "doc":
            comment, group = strip_comment(piece), None
            if not header.comment:
                header.comment = comment
        elif kind == "remark" and piece.startswith("/*\n"):
            comment, remark, group = "", strip_comment(piece), None
        elif kind != "code":
            comment, group = "", None
        else:
            function = parse_function(piece)
            type_match = TYPE.match(piece)
            if type_match:
                header.types[type_match.group("tag")] = (comment, piece)
                remark = ""
            if function is None:
                continue
            if group is None:
                group = Group(name, comment or remark, remark, [])
                header.groups.append(group)
            group.functions.append(function)
    return header


def read_all(paths):
    return [read(path) for path in paths]
