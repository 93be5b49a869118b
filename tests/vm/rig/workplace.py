# SPDX-License-Identifier: Apache-2.0
"""A folder that goes away with its maker, however that one ends."""
import os
import shutil
import signal
import tempfile


class Workplace:
    """
    A keeper, a process in a session of its own, waits for the end of a pipe that only its maker
    holds, and removes the folder then: also where the maker was killed.
    """

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="wring-vm-")
        end, self.pipe = os.pipe()
        self.keeper = os.fork()
        if self.keeper == 0:
            self._keep(end)
        os.close(end)

    def _keep(self, end):
        try:
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            os.close(self.pipe)
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):  # whoever reads our maker's output must see its end
                os.dup2(nothing, stream)
            os.read(end, 1)
            shutil.rmtree(self.path, ignore_errors=True)
        finally:
            os._exit(0)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        os.close(self.pipe)
        os.waitpid(self.keeper, 0)
