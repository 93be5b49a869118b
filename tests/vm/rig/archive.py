# SPDX-License-Identifier: Apache-2.0
"""An initial file system in the form that the kernel takes: a cpio archive, "newc"."""
import io

FOLDER, PROGRAM, FILE = 0o40755, 0o100755, 0o100644


class Archive:
    def __init__(self):
        self.out = io.BytesIO()
        self.number = 0

    def add(self, name, mode, data=b""):
        self.number += 1
        fields = [self.number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        self._pad(b"070701" + b"".join(b"%08X" % f for f in fields) + name.encode() + b"\0")
        self._pad(data)

    def bytes(self):
        self.add("TRAILER!!!", 0)
        return self.out.getvalue()

    def _pad(self, data):
        self.out.write(data + b"\0" * (-len(data) % 4))
