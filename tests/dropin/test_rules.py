#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules of codecs, which need no torch: test_rules.py SOURCE"""
import pathlib
import sys
import types
import unittest

sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "dropin" / "torch"))
from wring.torch.rules import MIN_ELEMENTS, Rules  # noqa: E402


def tensor(*shape, floating=True, width=4):
    elements = 1
    for dimension in shape:
        elements *= dimension
    return types.SimpleNamespace(numel=lambda: elements, dim=lambda: len(shape),
                                 dtype=types.SimpleNamespace(is_floating_point=floating),
                                 element_size=lambda: width)


class Codecs(unittest.TestCase):
    def test_first_pattern_decides(self):
        rules = Rules("*embed*=bf16; layers.?.*=onebit:block=128+ef ;*=int8", "none")
        for name, codec in (("tok_embed.weight", "bf16"), ("layers.1.weight", "onebit:block=128+ef"),
                            ("layers.12.weight", "int8"), ("head.weight", "int8")):
            self.assertEqual(rules.codec_of(name, tensor(1000, 1000)), codec)
        self.assertEqual(Rules("a=bf16", "fp16").codec_of("b", tensor(1000, 1000)), "fp16")
        self.assertEqual(Rules().codec_of("b", tensor(1000, 1000)), "none")

    def test_what_travels_as_it_is(self):
        rules = Rules("", "int8")
        self.assertEqual(rules.codec_of("bias", tensor(10**6)), "none")
        self.assertEqual(rules.codec_of("scalar", tensor()), "none")
        self.assertEqual(rules.codec_of("small", tensor(MIN_ELEMENTS - 1, 1)), "none")
        self.assertEqual(rules.codec_of("enough", tensor(MIN_ELEMENTS, 1)), "int8")
        self.assertEqual(rules.codec_of("whole", tensor(1000, 1000, floating=False)), "none")
        self.assertEqual(rules.codec_of("double", tensor(1000, 1000, width=8)), "none")
        self.assertEqual(rules.codec_of("half", tensor(1000, 1000, width=2)), "int8")

    def test_limits_can_be_moved(self):
        rules = Rules("min=0; 1d=bf16; *=int8")
        self.assertEqual(rules.codec_of("bias", tensor(10)), "bf16")
        self.assertEqual(rules.codec_of("scalar", tensor()), "bf16")
        self.assertEqual(rules.codec_of("weight", tensor(2, 2)), "int8")

    def test_large_tensors_can_be_left_alone(self):
        rules = Rules("max=20000; 1d=bf16; *=int8")
        for elements, codec in ((MIN_ELEMENTS - 1, "none"), (MIN_ELEMENTS, "int8"), (20000, "int8"),
                                (20001, "none")):
            self.assertEqual(rules.codec_of("weight", tensor(elements, 1)), codec)
        self.assertEqual(rules.codec_of("bias", tensor(20001)), "none")

    def test_faults_are_named(self):
        for text in ("nonsense", "=int8", "a=", "a=b; min=1k", "min=-1", "max=1m", "max=1000",
                     "min=3; a=b; max=2", "min=1; a=b; min=1", "max=9; max=8", "1d=a; 1d=b",
                     "[abc=int8", "x[a]y[!]=int8", "a[=int8", "a[!=int8", "a[^=int8"):
            with self.assertRaisesRegex(ValueError, "WRING_CODEC_RULES: '"):
                Rules(text)

    def test_brackets_that_end_are_sets(self):
        for pattern, name in (("[[]a", "[a"), ("[]]", "]"), ("[!]]", "a"), ("a]", "a]"),
                              ("x[ab]y[cd]", "xbyc"), ("[a[]*", "[x")):
            self.assertEqual(Rules(f"{pattern}=int8").codec_of(name, tensor(1000, 1000)), "int8")
        with self.assertRaisesRegex(ValueError, "bracket at byte 7 has no end"):
            Rules("\u00e4[b]y[c=int8")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
