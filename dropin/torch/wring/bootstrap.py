# SPDX-License-Identifier: Apache-2.0
"""How ranks meet by a function of the program's own: struct wring_bootstrap, made in Python."""
import ctypes
import threading
import time

from . import abi
from .abi import Status

_libc = ctypes.CDLL(None)
_libc.malloc.restype, _libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]

# What an exchange may end with; what else a function raises counts as the last of them.
MAY_FAIL_WITH = {Status.PEER, Status.AUTH, Status.FRAME, Status.NO_MEMORY, Status.CLOSED,
                 Status.SYSTEM}


def _fill(out, blobs):
    """Hand blobs to the library, which frees them with free()."""
    total = sum(map(len, blobs))
    offsets = _libc.malloc((len(blobs) + 1) * ctypes.sizeof(ctypes.c_size_t))
    storage = _libc.malloc(total + 1)
    if not offsets or not storage:
        raise MemoryError(f"{total} bytes of an exchange")
    out.n = len(blobs)
    out.offsets = ctypes.cast(offsets, ctypes.POINTER(ctypes.c_size_t))
    out.storage = storage
    out.release = None
    end = 0
    out.offsets[0] = 0
    for i, blob in enumerate(blobs):
        ctypes.memmove(storage + end, bytes(blob), len(blob))
        end += len(blob)
        out.offsets[i + 1] = end


class Bootstrap:
    """Ranks meet by a function of the program's own.

    exchange(blob, seconds, cancelled) returns every rank's blob in the order of ranks. All ranks
    call it in the same order, in the thread that opens, commits or makes a group. It raises
    TimeoutError once `seconds` have passed. `cancelled` is a function, or None: where it answers
    True the exchange ends early, with whatever it raises.

    check() is asked now and then, while nothing is exchanged; it raises where a rank has left for
    good. local_address is the address by which other hosts reach this one; "" where that is unknown.

    An exception of these functions with an attribute `rank` says whose fault it is. The last one is
    kept in `failure`. The library borrows the object for as long as its session is open.
    """

    def __init__(self, rank, size, exchange, check=None, local_address="", name="python"):
        if not 0 <= rank < size:
            raise ValueError(f"rank {rank} of {size}: ranks count from 0 to size - 1")
        self.failure = None
        self._exchange, self._check = exchange, check
        self._address = ctypes.create_string_buffer(local_address.encode())
        self._lock = threading.Lock()
        self._ops = abi.WringBootstrapOps(
            name=name.encode(), exchange=abi.EXCHANGE_FN(self._do_exchange),
            check=abi.CHECK_FN(self._do_check),
            local_address=abi.ADDRESS_FN(lambda _: ctypes.addressof(self._address)),
            close=abi.CLOSE_FN(lambda _: None))
        self.struct = abi.WringBootstrap(ops=ctypes.pointer(self._ops), rank=rank, size=size,
                                         at_fault=-1)

    def _failed(self, error):
        """@return the status that stands for an exception"""
        self.failure = error
        rank = getattr(error, "rank", -1)
        self.struct.at_fault = rank if isinstance(rank, int) else -1
        if isinstance(error, MemoryError):
            return Status.NO_MEMORY
        if isinstance(error, TimeoutError):
            return Status.PEER
        status = getattr(error, "status", Status.SYSTEM)
        return status if status in MAY_FAIL_WITH else Status.SYSTEM

    def _do_exchange(self, _self, blob, n_bytes, deadline_ns, cancel, out):
        try:
            said = ctypes.string_at(blob, n_bytes) if n_bytes else b""
            seconds = max(0, deadline_ns - time.monotonic_ns()) / 1e9
            cancelled = None
            if cancel:
                asked, arg = cancel.contents.cancelled, cancel.contents.arg
                cancelled = lambda: bool(asked(arg))  # noqa: E731  (as the library made it)
            with self._lock:
                blobs = list(self._exchange(said, seconds, cancelled))
            if len(blobs) != self.struct.size:
                raise ValueError(f"an exchange of {self.struct.size} ranks returned {len(blobs)}")
            _fill(out.contents, blobs)
            return Status.OK
        except BaseException as error:  # nothing may pass through the library
            status = self._failed(error)
            if cancel and cancel.contents.cancelled(cancel.contents.arg):
                return Status.CLOSED
            return status

    def _do_check(self, _self):
        if self._check is None:
            return Status.OK
        try:
            self._check()
            return Status.OK
        except BaseException as error:
            return self._failed(error)


