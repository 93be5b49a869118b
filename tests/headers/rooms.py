#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check the source tree against its plan of rooms.

    rooms.py ROOT

- includes of our own follow the arrows: a room uses only itself and what stands to its left;
- the planner sees codecs by <wring/codec.h> only; transport never includes offload;
- what a job does not need is for the tool alone: planner/tool/ is included by itself, tools and tests;
- getenv stands in base/config.c only, and in the tests' own library and what they put in the place
  of another one;
- descriptors of the library are made inside WRING_DESCRIPTOR(), and threads in base/thread.c;
- every C file says its licence;
- a file that begins with #! can be run, and only such a file is executable.
"""
import pathlib
import re
import subprocess
import sys

MAY_USE = {
    "base": {"base"},
    "compress": {"base", "compress"},
    "transport": {"base", "compress", "transport"},
    "offload": {"base", "compress", "transport", "offload"},
    "planner": {"base", "planner"},
    "runtime": {"base", "compress", "transport", "offload", "planner", "runtime"},
}
ALL = set(MAY_USE["runtime"])
MAY_USE["dropin"] = ALL | {"dropin"}
MAY_USE["tools"] = ALL | {"tools"}
MAY_USE["tests"] = ALL | {"tools", "tests", "dropin"}
EXTRA_HEADERS = {"planner": {"wring/codec.h"}}
TOOL_ONLY = "planner/tool/"
MAY_USE_TOOL = (TOOL_ONLY, "tools/", "tests/")

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<(wring/[^>]+)>)', re.M)
GETENV = re.compile(r"\b(?:secure_)?getenv\s*\(")
MADE = r"(?:socket|accept4?|epoll_create1?|eventfd|timerfd_create|signalfd|memfd_create|pipe2?|dup[23]?)"
DESCRIPTOR = re.compile(rf"(?<![\w>.])(?<!WRING_DESCRIPTOR\(){MADE}\(|fcntl\([^;]*F_DUPFD")
THREAD = re.compile(r"\bpthread_create\s*\(")
MAKES_DESCRIPTORS = {"base/descriptor.c"}
MAKES_THREADS = {"base/thread.c"}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
MAY_GETENV = {"base/config.c", "tests/lib/test.c", "tests/provider/mock/mock_process.c",
              "tests/nccl/reference_tables.c", "tests/unit/pmix/pmix_double.c"}


def list_sources(root):
    for room in sorted(MAY_USE):
        for pattern in ("*.c", "*.h"):
            yield from sorted((root / room).rglob(pattern))


def list_files(root):
    """All that git has; where there is no git, all that lies in the rooms and beside them."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        paths = [root / name for name in listed.stdout.split("\0") if name]
    else:
        paths = [*root.iterdir(), *(path for room in [*MAY_USE, "docs"]
                                    for path in (root / room).rglob("*"))]
    return sorted(path for path in paths if path.is_file() and not path.is_symlink())


def find_public(root):
    """The room that each <wring/...> header belongs to."""
    return {
        f"wring/{path.name}": path.relative_to(root).parts[0]
        for path in root.glob("*/include/wring/*.h")
    }


def room_of_include(root, path, include, public):
    if include in public:
        return public[include]
    if (path.parent / include).exists():
        return (path.parent / include).resolve().relative_to(root).parts[0]
    if (root / include).exists():
        return include.split("/", 1)[0]
    return None


def check_includes(root, path, text, public):
    room = path.relative_to(root).parts[0]
    for match in INCLUDE.finditer(text):
        include = match.group(1) or match.group(2)
        other = room_of_include(root, path, include, public)
        if other is None:
            yield f"includes {include}, which does not exist"
        elif include.startswith(TOOL_ONLY) and not path.relative_to(root).as_posix().startswith(
                MAY_USE_TOOL):
            yield f"includes {include}, which is for the tool alone"
        elif other not in MAY_USE[room] and include not in EXTRA_HEADERS.get(room, ()):
            yield f"includes {include}: {room} may not use {other}"


def check_made(here, code):
    # a line may break after the bracket, and fcntl() is looked at with what stands before it
    code = re.sub(r"WRING_DESCRIPTOR\(\s+", "WRING_DESCRIPTOR(", code)
    code = re.sub(r"WRING_DESCRIPTOR\(fcntl\(", "WRING_DESCRIPTOR((", code)
    code = re.sub(r'"(?:[^"\\]|\\.)*"', '""', code)
    if here not in MAKES_DESCRIPTORS and DESCRIPTOR.search(code):
        yield "makes a descriptor outside of WRING_DESCRIPTOR()"
    if here not in MAKES_THREADS and THREAD.search(code):
        yield "makes a thread without wring_thread_create()"


def check_tables(text):
    """A formatter that flows a comment's table together leaves a row without its end."""
    row = False  # of a table or formula, which stands between empty lines
    before = ""
    for number, line in enumerate(text.split("\n"), 1):
        indented = re.match(r" \* {5,}\S", line) is not None
        if row and re.match(r" \* \S", line):
            yield f"line {number}: a table in a comment runs into what follows it"
        row = indented and (row or before == " *")
        before = line


def check_file(root, path, public):
    text = path.read_text(encoding="utf-8")
    yield from check_includes(root, path, text, public)
    here = path.relative_to(root).as_posix()
    if here not in MAY_GETENV and GETENV.search(COMMENT.sub("", text)):
        yield "calls getenv, which belongs in base/config.c"
    if path.relative_to(root).parts[0] in MAY_USE["runtime"] and path.suffix == ".c":
        yield from check_made(here, COMMENT.sub("", text))
    yield from check_tables(text)
    if not text.startswith("/* SPDX-License-Identifier: Apache-2.0 */\n"):
        yield "does not begin with its SPDX line"


def check_mode(path):
    with open(path, "rb") as file:
        script = file.read(2) == b"#!"
    executable = path.stat().st_mode & 0o111 != 0
    if script and not executable:
        yield "begins with #! and cannot be run: chmod 755"
    if executable and not script:
        yield "is executable and does not begin with #!: chmod 644"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    paths = list(list_sources(root))
    public = find_public(root)
    if len(paths) < 10 or len(public) < 5:
        sys.exit(f"only {len(paths)} sources and {len(public)} public headers below {root}")
    faults = []
    for path in paths:
        faults += [f"{path.relative_to(root)}: {fault}" for fault in check_file(root, path, public)]
    for path in list_files(root):
        faults += [f"{path.relative_to(root)}: {fault}" for fault in check_mode(path)]
    for fault in faults:
        print(fault)
    print(f"{len(paths)} files, {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
