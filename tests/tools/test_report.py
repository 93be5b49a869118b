#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo's report, as a browser shows it: nothing cut off, everything drawn, light and dark."""
import os
import re
import sys
import tempfile
import unittest

import browser
import wringtest
from wringtest import wring

WIDE, NARROW, HEIGHT, TOP = 1000, 390, 4200, 1750

LAYOUT = """() => ({
  page: [document.documentElement.scrollWidth, document.documentElement.clientWidth],
  height: document.documentElement.scrollHeight,
  asks: performance.getEntriesByType('resource').length,
  cut: [...document.querySelectorAll('svg')].flatMap(svg => {
    const box = svg.getBoundingClientRect();
    return [...svg.querySelectorAll('text')].filter(text => {
      const t = text.getBoundingClientRect();
      return t.left < box.left - 1 || t.right > box.right + 1 || t.top < box.top - 1 ||
             t.bottom > box.bottom + 1;
    }).map(text => text.textContent);
  }),
  legend: [...document.querySelectorAll('svg')].flatMap(svg => {
    const boxes = [...svg.querySelectorAll('.legend')].map(t => t.getBoundingClientRect());
    return boxes.filter((a, i) => boxes.some((b, j) => i < j && a.left < b.right &&
        b.left < a.right && a.top < b.bottom - 2 && b.top < a.bottom - 2)).length;
  }),
  curves: [...document.querySelectorAll('polyline.curve')].map(c => c.points.length),
  rows: document.querySelectorAll('table tr').length,
})"""


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = cls.temporary.name
        cls.page = os.path.join(cls.folder, "report.html")
        result = wring("demo", "--steps", "60", "--timed-steps", "20", "--hidden", "64", "--report",
                       cls.page)  # the page is the same, however small the model
        assert result.returncode == 0, result.stderr
        with open(cls.page, encoding="utf-8") as file:
            cls.text = file.read()

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def colours(self, dark):
        """The values of the style's variables, as "#rrggbb"."""
        part = self.text[self.text.index("@media") if dark else 0:]
        found = dict(re.findall(r"--(\w+):(#[0-9a-f]+)", part[:part.index("}")]))
        return {k: v if len(v) == 7 else "#" + "".join(2 * c for c in v[1:])
                for k, v in found.items()}

    def test_all_is_there_and_nothing_cut_off(self):
        for width in (WIDE, NARROW):
            layout = browser.measure(self.folder, self.page, width, LAYOUT)
            self.assertLessEqual(layout["page"][0], layout["page"][1], f"{width} pixels wide")
            self.assertEqual(layout["cut"], [], f"{width} pixels wide")
            self.assertEqual(sum(layout["legend"]), 0, f"legends overlap, {width} pixels wide")
            if width == WIDE:
                self.check_it_is_all_there(layout)

    def check_it_is_all_there(self, layout):
        self.assertEqual(layout["rows"], 7)
        self.assertEqual(len(layout["curves"]), 18,
                         "six curves and three targets in two pictures")
        self.assertTrue(all(points >= 2 for points in layout["curves"]))
        self.assertEqual(layout["asks"], 0, "the report needs nothing but itself")
        self.assertLess(layout["height"], HEIGHT)

    def check_picture(self, dark, height, drawn, *options):
        picture = browser.screenshot(self.folder, self.page, WIDE, height, *options)
        area = picture.width * picture.height
        self.assertEqual(area, WIDE * height * browser.SCALE ** 2)
        colours = self.colours(dark)
        self.assertGreater(picture.count(colours["bg"]), area // 4, "background")
        for name in drawn:
            self.assertGreater(picture.count(colours[name]), 25, f"{name} is not drawn")

    def test_it_is_drawn(self):
        self.check_picture(False, HEIGHT, ("fg", "c0", "c1", "c2", "c4", "c9"))

    def test_the_top_is_drawn_in_the_dark(self):
        self.check_picture(True, TOP, ("fg", "c0", "c4"), "--blink-settings=preferredColorScheme=0")


if __name__ == "__main__":
    if browser.BROWSER is None:
        print("skipped: no browser (chromium) is here to show the report")
        sys.exit(77)
    wringtest.main()
