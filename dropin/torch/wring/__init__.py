# SPDX-License-Identifier: Apache-2.0
"""wring: gradients, exchanged between the ranks of a training job and compressed on the way.

    wring.api     the library's own calls, for any Python program
    wring.torch   for PyTorch: process group, hooks for DDP and FSDP, local-step training, recorder

The library is loaded by the first call that needs it. docs/pytorch.md begins at the beginning.
"""
__version__ = "0.1.0"
