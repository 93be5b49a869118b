# SPDX-License-Identifier: Apache-2.0
"""Throw-away machines with RDMA devices, and the tests that run in them; see tests/vm/README.md."""


class Missing(Exception):
    """There is no way to have a machine here; the text says what is missing."""


class Broken(Exception):
    """A machine did not come up, or ended by itself."""
