# SPDX-License-Identifier: Apache-2.0
"""A headless browser for tests: what a page measures, and what it looks like."""
import collections
import json
import os
import re
import shutil
import struct
import subprocess
import zlib

PATIENCE = 250  # seconds: for hangs, not for slowness
SCALE = 0.5  # of screenshots: pixels are counted one by one here
BLUR = 20
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
               None)


def run(folder, page, width, height, *options):
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
               "--disable-dev-shm-usage", f"--user-data-dir={folder}/profile",
               f"--window-size={width},{height}", *options, f"file://{page}"]
    return subprocess.run(command, text=True, capture_output=True, timeout=PATIENCE, check=True,
                          stdin=subprocess.DEVNULL).stdout


def measure(folder, page, width, script):
    """The JSON value of a script, run in the page once it is laid out."""
    copy = os.path.join(folder, "measured.html")
    with open(page, encoding="utf-8") as file:
        text = file.read()
    with open(copy, "w", encoding="utf-8") as file:
        file.write(f"{text}<pre id=measured></pre><script>document.getElementById('measured')"
                   f".textContent=JSON.stringify(({script})())</script>")
    dom = run(folder, copy, width, 800, "--dump-dom")
    found = re.search(r'<pre id="measured">(.*?)</pre>', dom, re.S).group(1)
    for entity, char in (("&lt;", "<"), ("&gt;", ">"), ("&nbsp;", " "), ("&amp;", "&")):
        found = found.replace(entity, char)
    return json.loads(found)


def screenshot(folder, page, width, height, *options):
    path = os.path.join(folder, "shot.png")
    run(folder, page, width, height, f"--screenshot={path}",
        f"--force-device-scale-factor={SCALE}", *options)
    return Picture(path)


class Picture:
    """A PNG of 8 bits a channel, without interlacing (RFC 2083)."""

    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        assert data[:8] == b"\x89PNG\r\n\x1a\n", path
        self.width, self.height, depth, kind = struct.unpack(">IIBB", data[16:26])
        assert depth == 8 and kind in (2, 6), (depth, kind)
        self.channels = 3 if kind == 2 else 4
        packed, at = b"", 8
        while at < len(data):
            length, name = struct.unpack(">I4s", data[at:at + 8])
            packed += data[at + 8:at + 8 + length] if name == b"IDAT" else b""
            at += 12 + length
        self.pixels = collections.Counter()
        for row in self.unfilter(zlib.decompress(packed)):
            step = self.channels
            self.pixels.update(zip(row[0::step], row[1::step], row[2::step]))

    def unfilter(self, data):
        stride, rows = self.width * self.channels, []
        before = bytearray(stride)
        for y in range(self.height):
            start = y * (stride + 1)
            kind, row = data[start], bytearray(data[start + 1:start + 1 + stride])
            if kind == 2:
                row = bytearray((a + b) & 255 for a, b in zip(row, before))
            elif kind != 0:
                self.unfilter_row(kind, row, before)
            rows.append(row)
            before = row
        return rows

    def unfilter_row(self, kind, row, before):
        """Filters 1 (left), 3 (average) and 4 (Paeth), in place; hot, so written out."""
        step = self.channels
        for i, value in enumerate(row):
            left = row[i - step] if i >= step else 0
            if kind == 1:
                row[i] = (value + left) & 255
                continue
            above, corner = before[i], before[i - step] if i >= step else 0
            if kind == 3:
                row[i] = (value + (left + above) // 2) & 255
                continue
            to_left, to_above = abs(above - corner), abs(left - corner)
            to_corner = abs(left + above - 2 * corner)
            guess = (left if to_left <= to_above and to_left <= to_corner
                     else above if to_above <= to_corner else corner)
            row[i] = (value + guess) & 255

    def count(self, colour):
        """How many pixels look like the colour "#rrggbb"; edges of what is drawn are blurred."""
        want = bytes.fromhex(colour[1:])
        return sum(n for pixel, n in self.pixels.items()
                   if all(abs(a - b) <= BLUR for a, b in zip(pixel, want)))
