#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Structs and numbers of wring.abi are those of the headers: test_layout.py SOURCE CC...

A C program prints the size of each struct, where its fields lie and how large they are, and the
number of each name; ctypes has to say the same.
"""
import ctypes
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1])
CC = sys.argv[2:]
sys.path.insert(0, str(SOURCE / "dropin" / "torch"))
from wring import abi  # noqa: E402

INCLUDE = [f"-I{folder}" for folder in sorted(SOURCE.glob("*/include"))]
HEADERS = "\n".join(sorted(path.read_text(encoding="utf-8")
                           for path in SOURCE.glob("*/include/wring/*.h")))


def compile_and_run(body):
    program = ("#include <stdio.h>\n#include <wring/wring.h>\n#include <wring/bootstrap.h>\n#include <wring/codec.h>\n"
               f"int main(void)\n{{\n{body}\n    return 0;\n}}\n")
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "layout.c"
        source.write_text(program, encoding="utf-8")
        built = pathlib.Path(folder) / "layout"
        subprocess.run([*CC, *INCLUDE, str(source), "-o", str(built)], check=True, timeout=100)
        said = subprocess.run([str(built)], check=True, capture_output=True, text=True,
                              timeout=100).stdout
    return dict((name, int(value)) for name, value in map(str.split, said.splitlines()))


def fields_of(struct, before=""):
    """Yields (name, offset, size) of all fields, those of structs inside too."""
    for name, kind in struct._fields_:
        field = getattr(struct, name)
        yield before + name, field.offset, field.size
        if isinstance(kind, type) and issubclass(kind, ctypes.Structure):
            for inner, offset, size in fields_of(kind, f"{before}{name}."):
                yield inner, field.offset + offset, size


def declared_fields(c_name):
    """The names of a struct's fields, read from the headers; of structs inside the outer one's."""
    body = re.search(rf"^struct {c_name} \{{\n(.*?)^\}};", HEADERS, re.M | re.S).group(1)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    body = re.sub(r"\{[^}]*\}", "", body)  # fields of structs inside
    names = []
    for declaration in body.split(";"):
        function = re.search(r"\(\*(\w+)\)", declaration)
        if function:
            names.append(function.group(1))
            continue
        for part in declaration.split(","):
            words = re.findall(r"\w+", re.sub(r"\[[^]]*\]", "", part))
            names += words[-1:]
    return names


class Layout(unittest.TestCase):
    def test_structs(self):
        want = {}
        for struct in abi.STRUCTS:
            want[f"{struct.C_NAME}:"] = ctypes.sizeof(struct)
            for name, offset, size in fields_of(struct):
                want[f"{struct.C_NAME}:{name}"] = offset
                want[f"{struct.C_NAME}:{name}:size"] = size
        lines = []
        for key in want:
            c_name, name, *size = key.split(":")
            of = f"struct {c_name}"
            if name == "":
                what = f"sizeof({of})"
            elif size:
                what = f"sizeof((({of} *)0)->{name})"
            else:
                what = f"__builtin_offsetof({of}, {name})"
            lines.append(f'    printf("{key} %zu\\n", (size_t){what});')
        self.assertGreater(len(lines), 150)
        self.assertEqual(compile_and_run("\n".join(lines)), want)

    def test_no_field_is_missing(self):
        for struct in abi.STRUCTS:
            with self.subTest(struct=struct.C_NAME):
                self.assertEqual(declared_fields(struct.C_NAME),
                                 [name for name, *_ in struct._fields_])

    def test_numbers(self):
        want = {"WRING_ANY_SOURCE": abi.ANY_SOURCE, "WRING_ANY_TAG": abi.ANY_TAG,
                "WRING_FOREVER": abi.FOREVER, "WRING_BLOB_MAX": abi.BLOB_MAX}
        for kind, before in abi.ENUMS:
            for member in kind:
                name = f"{before}{member.name}"
                want["WRING_OK" if name == "WRING_ERR_OK" else name] = int(member)
        lines = [f'    printf("{name} %llu\\n", (unsigned long long){name});' for name in want]
        self.assertEqual(compile_and_run("\n".join(lines)), want)

    def test_no_number_is_missing(self):
        for kind, _ in abi.ENUMS:
            c_name = {"Status": "status", "Dtype": "dtype", "Op": "op", "Scheme": "scheme",
                      "LogLevel": "log_level"}[kind.__name__]
            body = re.search(rf"^enum wring_{c_name} \{{\n(.*?)^\}};", HEADERS, re.M | re.S).group(1)
            body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
            self.assertEqual(len(re.findall(r"\bWRING_\w+\b", body)), len(kind), c_name)

    def test_functions_have_as_many_arguments(self):
        text = re.sub(r"/\*.*?\*/", "", HEADERS, flags=re.S)
        for name, _, arguments in abi.FUNCTIONS:
            with self.subTest(function=name):
                inside = re.search(rf"\b{name}\(([^;]*)\);", text).group(1)
                count = 0 if inside.strip() == "void" else inside.count(",") + 1
                self.assertEqual(len(arguments), count)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
