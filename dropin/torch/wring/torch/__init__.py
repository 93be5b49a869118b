# SPDX-License-Identifier: Apache-2.0
"""wring for PyTorch.

    DDPState, ddp_hook              a communication hook of DistributedDataParallel
    fsdp                            what FSDP2 takes in place of its own collectives
    LocalSGD                        local steps, and outer steps on what they changed
    elastic                         default process groups that lose ranks, and get them back
    record_trace                    a trace of a model, for wring plan
    register                        makes torch.distributed know the backend `wring`

torch itself is imported by what needs it. docs/pytorch.md says how to begin.
"""
import importlib

_WHERE = {"DDPState": "ddp", "ddp_hook": "ddp", "LocalSGD": "local_sgd", "record_trace": "recorder"}


def register():
    """Make torch.distributed know the backend `wring`; called by torch's own import."""
    from . import session
    session.register_backend()


def __getattr__(name):
    if name in _WHERE:
        return getattr(importlib.import_module("." + _WHERE[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
