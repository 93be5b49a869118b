# SPDX-License-Identifier: Apache-2.0
"""What torch's tensors, types and reductions are for the library, as tensors.hpp has it."""
from ctypes import c_uint64

import torch

from .. import api
from ..abi import Dtype, Op
from ..memory import OF_TORCH
from .python_work import fail

DTYPES = {getattr(torch, name.split(".")[1]): dtype for name, dtype in OF_TORCH.items()
          if hasattr(torch, name.split(".")[1])}
_OPS = {"SUM": Op.SUM, "AVG": Op.AVG, "PRODUCT": Op.PROD, "MIN": Op.MIN, "MAX": Op.MAX,
        "BAND": Op.BAND, "BOR": Op.BOR, "BXOR": Op.BXOR}
_OF_TRUTH = {Op.SUM: Op.LOR, Op.PROD: Op.LAND}


def check(operation, tensor):
    """One clear line for tensors that no operation takes."""
    if tensor.layout != torch.strided:
        fail(f"{operation}: a sparse tensor: pass tensor.to_dense()")
    if tensor.is_quantized:
        fail(f"{operation}: a quantized tensor: pass tensor.int_repr() or tensor.dequantize()")
    if tensor.device.type != "cpu":
        fail(f"{operation}: a tensor on {tensor.device}: this version of wring works on tensors of "
             "the CPU: pass tensor.cpu(), or let another backend take that device: "
             f"init_process_group(\"cpu:wring,{tensor.device.type}:nccl\")")


def single(operation, tensors):
    if len(tensors) != 1:
        fail(f"{operation}: takes one tensor of each rank, not {len(tensors)}")
    check(operation, tensors[0])
    return tensors[0].detach()


def reduction_of(operation, op, tensor):
    """@return (enum wring_op, factor)"""
    factor, code = 0.0, getattr(op, "op", op)
    name = str(code).rsplit(".", maxsplit=1)[-1]
    if name == "PREMUL_SUM":
        code, factor = Op.PREMUL_SUM, _factor_of(operation, op)
    elif name in _OPS:
        code = _OPS[name]
    else:
        fail(f"{operation}: an unknown reduction {op}")
    if tensor.dtype == torch.bool:
        code = _OF_TRUTH.get(code, code)
    dtype = DTYPES.get(tensor.dtype)
    if dtype is None or not api.library().wring_op_takes(code, dtype):
        fail(f"{operation}: there is no {name} of {tensor.dtype}: convert the tensor, as to float32")
    return code, factor


def _factor_of(operation, op):
    """A reduction's state is ("PREMUL_SUM", factor)."""
    try:
        factor = op.__getstate__()[1]
    except (AttributeError, IndexError, TypeError, RuntimeError):
        fail(f"{operation}: PREMUL_SUM has no factor that can be read here")
    return float(factor)


def moved_as(tensor):
    """@return (type, how many of it are an element): types that wring lacks are bytes"""
    dtype = DTYPES.get(tensor.dtype)
    return (dtype, 1) if dtype is not None else (Dtype.BYTE, tensor.element_size())


def address_of(tensor):
    return None if tensor is None else tensor.data_ptr() or None


def join(tensors):
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def array_of(values):
    return (c_uint64 * len(values))(*values)


def split_lengths(which, tensor, splits, size, scale):
    rows = tensor.size(0) if tensor.dim() else 1
    if not splits:
        if rows % size:
            fail(f"all_to_all_single: the {which}'s first dimension of {rows} cannot be split evenly "
                 f"among {size} ranks: pass split sizes")
        return [tensor.numel() // size * scale] * size
    if len(splits) != size or sum(splits) != rows or min(splits) < 0:
        fail(f"all_to_all_single: {which} split sizes {list(splits)}: {size} ranks need one each, and "
             f"together {rows}")
    return [tensor.numel() // rows * split * scale if rows else 0 for split in splits]
