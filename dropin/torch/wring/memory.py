# SPDX-License-Identifier: Apache-2.0
"""Where the numbers of an object lie: torch tensors, numpy arrays, and whatever has a buffer."""
import ctypes

from .abi import Dtype

BYTES = {Dtype.F32: 4, Dtype.F64: 8, Dtype.F16: 2, Dtype.BF16: 2, Dtype.I32: 4, Dtype.I64: 8,
         Dtype.I8: 1, Dtype.I16: 2, Dtype.U8: 1, Dtype.U16: 2, Dtype.U32: 4, Dtype.U64: 8,
         Dtype.BOOL: 1, Dtype.BYTE: 1, Dtype.COMPLEX64: 8, Dtype.COMPLEX128: 16}

OF_TORCH = {
    "torch.float32": Dtype.F32, "torch.float64": Dtype.F64, "torch.float16": Dtype.F16,
    "torch.bfloat16": Dtype.BF16, "torch.int32": Dtype.I32, "torch.int64": Dtype.I64,
    "torch.int8": Dtype.I8, "torch.int16": Dtype.I16, "torch.uint8": Dtype.U8,
    "torch.uint16": Dtype.U16, "torch.uint32": Dtype.U32, "torch.uint64": Dtype.U64,
    "torch.bool": Dtype.BOOL, "torch.complex64": Dtype.COMPLEX64,
    "torch.complex128": Dtype.COMPLEX128,
}
INTEGERS = {(True, 1): Dtype.I8, (True, 2): Dtype.I16, (True, 4): Dtype.I32, (True, 8): Dtype.I64,
            (False, 1): Dtype.U8, (False, 2): Dtype.U16, (False, 4): Dtype.U32,
            (False, 8): Dtype.U64}
OTHERS = {"f": Dtype.F32, "d": Dtype.F64, "e": Dtype.F16, "?": Dtype.BOOL, "c": Dtype.BYTE,
          "Zf": Dtype.COMPLEX64, "Zd": Dtype.COMPLEX128}


class Memory:
    """Memory of somebody's, kept alive.

    address  of its first byte; None where there are no bytes
    bytes    how many
    dtype    of its elements; None where only the caller knows
    """
    __slots__ = ("address", "bytes", "dtype", "owner")

    def __init__(self, address, n_bytes, dtype, owner):
        self.address, self.bytes, self.dtype, self.owner = address, n_bytes, dtype, owner


def _of_tensor(tensor):
    dtype = OF_TORCH.get(str(tensor.dtype))
    if tensor.device.type != "cpu":
        raise TypeError(f"a tensor on {tensor.device}: wring takes memory of the host here")
    if not tensor.is_contiguous():
        raise ValueError("a tensor that is not contiguous: pass tensor.contiguous()")
    n_bytes = tensor.numel() * tensor.element_size()
    return Memory(tensor.data_ptr() or None, n_bytes, dtype, tensor)


def _dtype_of_format(view):
    letter = view.format.lstrip("@=<")
    if letter in OTHERS:
        return OTHERS[letter]
    if letter in tuple("bhilqn"):
        return INTEGERS[True, view.itemsize]
    if letter in tuple("BHILQN"):
        return INTEGERS[False, view.itemsize]
    return None


def _of_buffer(thing, writable):
    view = memoryview(thing)
    if not view.c_contiguous:
        raise ValueError("a buffer that is not contiguous cannot be exchanged")
    dtype = _dtype_of_format(view)
    if view.nbytes == 0:
        return Memory(None, 0, dtype, thing)
    if not view.readonly:
        held = (ctypes.c_char * view.nbytes).from_buffer(view.cast("B") if view.ndim else view)
        return Memory(ctypes.addressof(held), view.nbytes, dtype, held)
    if writable:
        raise ValueError("a result cannot be written to memory that is read-only")
    held = thing if isinstance(thing, bytes) else view.tobytes()
    address = ctypes.cast(ctypes.c_char_p(held), ctypes.c_void_p).value
    return Memory(address, len(held), dtype, held)


def memory_of(thing, writable=True, elems=None, dtype=None):
    """@param thing  a tensor, array or buffer; or an address, together with elems and dtype"""
    if isinstance(thing, Memory):
        return thing
    if thing is None:
        return Memory(None, 0, None, None)
    if isinstance(thing, int):
        if elems is None or dtype is None:
            raise TypeError("an address needs elems and dtype beside it")
        return Memory(thing or None, elems * BYTES[dtype], Dtype(dtype), None)
    if hasattr(thing, "data_ptr"):
        return _of_tensor(thing)
    return _of_buffer(thing, writable)
