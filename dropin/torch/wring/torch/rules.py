# SPDX-License-Identifier: Apache-2.0
"""Which codec a tensor takes: WRING_CODEC_RULES, or rules that a program gives.

    WRING_CODEC_RULES='*embed*=bf16; min=16384; 1d=none; *=onebit:block=128+ef'

Rules are separated by semicolons. The first PATTERN=CODEC whose pattern (as those of a shell) fits the
whole name of the parameter decides. Before that, `min=ELEMENTS` has smaller tensors travel as they
are, `max=ELEMENTS` larger ones, and `1d=CODEC` says what tensors of one dimension or none take, which
is `none` unless said: biases and norms are few numbers and matter much. A tensor that no rule fits
travels as it is.
"""
import fnmatch
import re

MIN_ELEMENTS = 16384  # 64 KiB of float32: below that a codec seldom saves time on any link


class Rules:
    """
    text     rules as above; may be empty
    default  the codec of tensors that no pattern fits
    """

    def __init__(self, text="", default="none"):
        self.text, self.default = text, default
        self.minimum, self.maximum = MIN_ELEMENTS, None
        self.of_1d, self.patterns, given = "none", [], set()
        for rule in filter(None, map(str.strip, text.split(";"))):
            name, equals, value = (part.strip() for part in rule.partition("="))
            if not equals or not name or not value:
                raise ValueError(f"WRING_CODEC_RULES: '{rule}' is not PATTERN=CODEC, min=ELEMENTS, "
                                 "max=ELEMENTS or 1d=CODEC")
            if name in given:
                raise ValueError(f"WRING_CODEC_RULES: '{rule}': {name} is given twice")
            if name in ("min", "max", "1d"):
                given.add(name)
            else:
                self._check_brackets(rule, name)
            if name == "min":
                self.minimum = self._elements(rule, name, value)
            elif name == "max":
                self.maximum = self._elements(rule, name, value)
            elif name == "1d":
                self.of_1d = value
            else:
                self.patterns.append((name, value))
        if self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(f"WRING_CODEC_RULES: '{text}': no size is from min={self.minimum} to "
                             f"max={self.maximum} elements: min is {MIN_ELEMENTS} unless rules say it")

    @staticmethod
    def _elements(rule, name, value):
        if not value.isdecimal():
            raise ValueError(f"WRING_CODEC_RULES: '{rule}': {name} needs a whole number of elements")
        return int(value)

    @staticmethod
    def _check_brackets(rule, pattern):
        """A bracket without an end would count as a character."""
        at = re.match(r"(?:[^[]|\[(?:[!^].|[^!^])[^]]*\])*", pattern, re.DOTALL).end()
        if at < len(pattern):
            raise ValueError(f"WRING_CODEC_RULES: '{rule}': the bracket at byte "
                             f"{len(pattern[:at].encode()) + 1} has no end; write [[] for one in a "
                             "name")

    def codec_of(self, name, parameter):
        """@return a codec's spec; "none": it travels as it is"""
        if parameter.numel() < self.minimum or not parameter.dtype.is_floating_point \
                or parameter.element_size() > 4 \
                or (self.maximum is not None and parameter.numel() > self.maximum):
            return "none"
        if parameter.dim() < 2:
            return self.of_1d
        for pattern, codec in self.patterns:
            if fnmatch.fnmatchcase(name, pattern):
                return codec
        return self.default
