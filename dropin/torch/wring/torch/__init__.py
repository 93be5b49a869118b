# SPDX-License-Identifier: Apache-2.0
"""wring for PyTorch. torch itself is imported by what needs it."""


def register():
    """Make torch.distributed know the backend `wring`; called by torch's own import."""
