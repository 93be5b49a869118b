#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keep the tables of WRING_ variables in documents equal to what wring says.

    config_table.py WRING --write FILE...    put the table between the markers of each file
    config_table.py WRING --check FILE...    exit 1 where a table is not what wring says

WRING is the tool. The table stands between the lines
<!-- begin: wring info --config --> and <!-- end: wring info --config -->.
"""
import argparse
import json
import os
import re
import subprocess
import sys

BEGIN = "<!-- begin: wring info --config -->"
END = "<!-- end: wring info --config -->"
TABLE = re.compile(re.escape(BEGIN) + r"\n.*?" + re.escape(END), re.S)


def ask(wring):
    bare = {k: v for k, v in os.environ.items() if not k.startswith("WRING_")}
    command = [wring, "info", "--config", "--json"]
    output = subprocess.run(command, env=bare, check=True, capture_output=True, timeout=60).stdout
    return json.loads(output)["config"]


def render(config):
    lines = ["| variable | default | meaning |", "|---|---|---|"]
    for var in config:
        default = f"`{var['default']}`" if var["default"] else ""
        unit = f" {var['unit']}" if var["unit"] and var["default"].isdigit() else ""
        meaning = var["doc"].replace("|", "\\|")
        lines.append(f"| `{var['name']}` | {default}{unit} | {meaning} |")
    return "\n".join([BEGIN, *lines, END])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wring")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--write", nargs="+", metavar="FILE")
    how.add_argument("--check", nargs="+", metavar="FILE")
    arguments = parser.parse_args()

    table = render(ask(arguments.wring))
    faults = 0
    for path in arguments.write or arguments.check:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if not TABLE.search(text):
            print(f"{path} has no table: put the lines\n{BEGIN}\n{END}\nwhere it belongs")
            faults += 1
            continue
        renewed = TABLE.sub(lambda _: table, text)
        if arguments.write and renewed != text:
            with open(path, "w", encoding="utf-8") as file:
                file.write(renewed)
        elif renewed != text:
            print(f"{path} differs from wring info --config; docs/config_table.py --write mends it")
            faults += 1
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
