# SPDX-License-Identifier: Apache-2.0
"""A codec by itself, outside of any session: <wring/codec.h>'s encode and decode."""
import ctypes
from ctypes import byref

from . import abi
from .abi import Status
from .api import WringError
from .library import library


class Codec:
    """
    spec  as "onebit:block=128+ef"

    Takes float32. Codecs that exchange statistics first, or keep arrays of their own, need a bucket
    and are refused.
    """

    def __init__(self, spec):
        self._lib, self._handle = library(), None
        why, out = ctypes.create_string_buffer(256), ctypes.c_void_p()
        status = self._lib.wring_codec_create(spec.encode(), None, None, why, len(why), byref(out))
        if status != Status.OK:
            raise WringError(Status(status), why.value.decode("utf-8", "replace"))
        self._handle, self.spec = out.value, spec
        info = self._lib.wring_codec_info(self._handle).contents
        if info.rounds or info.states or ">" in spec:
            raise WringError(Status.UNSUPPORTED, f"codec {spec}: needs a bucket of wring's")

    def __del__(self):
        if self._handle is not None:
            self._lib.wring_codec_destroy(self._handle)
            self._handle = None

    def bound(self, elems):
        """@return the bytes that the code of so many elements has at most"""
        return self._lib.wring_codec_bound(self._handle, elems)

    def encode(self, context, src, elems, residual, code):
        """Addresses of float32, and of bound(elems) bytes. residual: None, or what is fed back, which
        becomes what the code lacks. @return bytes written"""
        return self._lib.wring_codec_encode(self._handle, byref(context), src, elems, residual, code)

    def decode(self, context, code, code_bytes, dst, elems, add):
        """dst becomes, or with add grows by, what the code says."""
        status = self._lib.wring_codec_decode(self._handle, byref(context), code, code_bytes, dst,
                                              elems, add)
        if status != Status.OK:
            raise WringError(Status(status), f"codec {self.spec}: a code that is malformed")
