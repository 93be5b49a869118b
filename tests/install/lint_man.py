#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lint_man.py FOLDER: man pages show as they are meant; mandoc is asked, or man and groff."""
import pathlib
import shutil
import subprocess
import sys

AT_LEAST = 40  # pages: fewer means that they were not made


def choose_linter():
    if shutil.which("mandoc"):
        return ["mandoc", "-Tlint", "-Wwarning"]
    if shutil.which("man") and shutil.which("groff"):
        return ["man", "--warnings", "-E", "UTF-8", "-l"]
    print("skipped: neither mandoc nor man with groff is here")
    sys.exit(77)


def main():
    linter = choose_linter()
    pages = sorted(path for path in pathlib.Path(sys.argv[1]).glob("*.[1-9]"))
    faults = 0
    for page in pages:
        result = subprocess.run([*linter, str(page)], text=True, capture_output=True, timeout=60)
        said = result.stderr + (result.stdout if linter[0] == "mandoc" else "")
        if said.strip() or result.returncode != 0:
            print(f"{page.name}:\n{said.strip()}")
            faults += 1
    print(f"{len(pages)} pages, {faults} faults, says {linter[0]}")
    sys.exit(1 if faults or len(pages) < AT_LEAST else 0)


if __name__ == "__main__":
    main()
