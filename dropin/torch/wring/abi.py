# SPDX-License-Identifier: Apache-2.0
"""The structs, enums and functions of <wring/wring.h> and others of its headers, for ctypes.

Nothing here has a meaning of its own: the headers say what fields and functions are for, and
tests/dropin/test_layout.py compares sizes, offsets and numbers with what a C compiler makes of them.
"""
import ctypes
import enum
from ctypes import POINTER, c_bool, c_char, c_char_p, c_double, c_int, c_int32, c_size_t, c_uint32
from ctypes import c_uint64, c_void_p

VERSION = b"WRING_0"  # of the functions: docs/versions.md
FOREVER = 2**64 - 1
WHERE_TEXT = 216
ANY_SOURCE = 2**32 - 1
ANY_TAG = 2**64 - 1
BLOB_MAX = 64 << 20


class Status(enum.IntEnum):
    """enum wring_status; wring.api.WringError has one."""
    OK = 0
    INVALID = 1
    UNSUPPORTED = 2
    NO_MEMORY = 3
    AGAIN = 4
    BUSY = 5
    TIMEOUT = 6
    MISMATCH = 7
    FRAME = 8
    VERSION = 9
    PEER = 10
    AUTH = 11
    CLOSED = 12
    ADDRESS = 13
    DEVICE = 14
    SYSTEM = 15
    CANCELLED = 16
    TRUNCATED = 17

    @classmethod
    def _missing_(cls, value):  # a later release may know more
        unknown = int.__new__(cls, value)
        unknown._name_, unknown._value_ = f"UNKNOWN_{value}", value
        return unknown


class Dtype(enum.IntEnum):
    """enum wring_dtype"""
    F32 = 0
    F64 = 1
    F16 = 2
    BF16 = 3
    I32 = 4
    I64 = 5
    I8 = 6
    I16 = 7
    U8 = 8
    U16 = 9
    U32 = 10
    U64 = 11
    BOOL = 12
    BYTE = 13
    COMPLEX64 = 14
    COMPLEX128 = 15


class Op(enum.IntEnum):
    """enum wring_op"""
    SUM = 0
    AVG = 1
    MIN = 2
    MAX = 3
    PROD = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    LAND = 8
    LOR = 9
    PREMUL_SUM = 10


class Scheme(enum.IntEnum):
    """enum wring_scheme"""
    AUTO = 0
    DIVISIBLE = 1
    INDIVISIBLE = 2
    HIERARCHICAL = 3
    HIERARCHICAL_DIVISIBLE = 4
    HIERARCHICAL_INDIVISIBLE = 5
    RING = 6


class LogLevel(enum.IntEnum):
    """enum wring_log_level"""
    ERROR = 0
    WARN = 1
    INFO = 2
    DEBUG = 3


# Each with the beginning of its names in C.
ENUMS = ((Status, "WRING_ERR_"), (Dtype, "WRING_"), (Op, "WRING_"), (Scheme, "WRING_SCHEME_"),
         (LogLevel, "WRING_LOG_"))


class Sized(ctypes.Structure):
    """A struct that begins with its size; made with keywords, it is set."""

    def __init__(self, **fields):
        super().__init__(struct_bytes=ctypes.sizeof(type(self)), **fields)


class WringResult(Sized):
    C_NAME = "wring_result"
    _fields_ = [("struct_bytes", c_size_t), ("status", c_int), ("rank", c_int32), ("tag", c_uint64),
                ("bytes", c_uint64)]


class WringErrorDetail(Sized):
    C_NAME = "wring_error_detail"
    _fields_ = [("struct_bytes", c_size_t), ("status", c_int), ("rank", c_int32),
                ("text", c_char * 256)]


class WringBlobs(ctypes.Structure):
    C_NAME = "wring_blobs"
    _fields_ = [("n", c_uint32), ("offsets", POINTER(c_size_t)), ("storage", c_void_p),
                ("release", c_void_p)]


class WringCancel(ctypes.Structure):
    C_NAME = "wring_cancel"
    _fields_ = [("cancelled", ctypes.CFUNCTYPE(c_bool, c_void_p)), ("arg", c_void_p)]


EXCHANGE_FN = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_uint64, POINTER(WringCancel),
                               POINTER(WringBlobs))
CHECK_FN = ctypes.CFUNCTYPE(c_int, c_void_p)
ADDRESS_FN = ctypes.CFUNCTYPE(c_void_p, c_void_p)  # of a text that stays
CLOSE_FN = ctypes.CFUNCTYPE(None, c_void_p)
LOG_FN = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_char_p)
DONE_FN = ctypes.CFUNCTYPE(None, c_void_p, POINTER(WringResult))


class WringBootstrapOps(ctypes.Structure):
    C_NAME = "wring_bootstrap_ops"
    _fields_ = [("name", c_char_p), ("exchange", EXCHANGE_FN), ("check", CHECK_FN),
                ("local_address", ADDRESS_FN), ("close", CLOSE_FN)]


class WringBootstrap(ctypes.Structure):
    C_NAME = "wring_bootstrap"
    _fields_ = [("ops", POINTER(WringBootstrapOps)), ("rank", c_uint32), ("size", c_uint32),
                ("at_fault", c_int32)]


class WringSessionParams(Sized):
    C_NAME = "wring_session_params"
    _fields_ = [("struct_bytes", c_size_t), ("provider", c_char_p), ("root", c_char_p),
                ("key", c_char_p), ("rank", c_uint32), ("size", c_uint32), ("root_fd", c_int),
                ("seed", c_uint64), ("bootstrap", POINTER(WringBootstrap)), ("log", LOG_FN),
                ("log_arg", c_void_p), ("settings", POINTER(c_char_p)),
                ("codecs", POINTER(c_void_p))]


class Shape(ctypes.Structure):
    """`shape` of struct wring_bucket_params"""
    _fields_ = [("rows", c_uint64), ("columns", c_uint64)]


class WringBucketParams(Sized):
    C_NAME = "wring_bucket_params"
    _fields_ = [("struct_bytes", c_size_t), ("name", c_char_p), ("data", c_void_p),
                ("elems", c_uint64), ("dtype", c_int), ("op", c_int), ("codec", c_char_p),
                ("scheme", c_int), ("priority", c_int32), ("group", c_void_p), ("shape", Shape),
                ("done", DONE_FN), ("done_arg", c_void_p), ("executor", c_char_p),
                ("out", c_void_p), ("factor", c_double)]


class WringCall(Sized):
    C_NAME = "wring_call"
    _fields_ = [("struct_bytes", c_size_t), ("codec", c_char_p), ("factor", c_double),
                ("priority", c_int32), ("done", DONE_FN), ("done_arg", c_void_p),
                ("dtype", c_int)]


class WringWaitable(ctypes.Structure):
    C_NAME = "wring_waitable"
    _fields_ = [("bucket", c_void_p), ("request", c_void_p)]


class WringStream(Sized):
    C_NAME = "wring_stream"
    _fields_ = [("struct_bytes", c_size_t), ("kind", c_int), ("ordinal", c_int32),
                ("handle", c_void_p)]


class WringSessionStats(Sized):
    C_NAME = "wring_session_stats"
    _fields_ = [("struct_bytes", c_size_t)] + [(name, c_uint64) for name in (
        "wire_bytes_sent", "wire_bytes_received", "puts_sent", "steps", "sleeps",
        "progress_cpu_ns", "waiter_cpu_ns", "executor_cpu_ns", "round_trip_ns", "piece_bytes",
        "sites")]


class WringBucketStats(Sized):
    C_NAME = "wring_bucket_stats"
    _fields_ = [("struct_bytes", c_size_t), ("codec", c_char_p), ("scheme", c_char_p),
                ("algorithm", c_char_p), ("order", c_char_p), ("executor", c_char_p),
                ("provider", c_char * 48), ("in_place", c_bool), ("piece_elems", c_uint64),
                ("steps", c_uint64), ("wire_bytes_sent", c_uint64), ("steps_ns", c_uint64),
                ("codec_ns", c_uint64), ("residual_rms", c_double), ("error", c_double),
                ("error_last", c_double), ("error_back", c_double), ("error_pieces", c_uint64),
                ("n_cores", c_uint32), ("cores", c_char * 44), ("codec_asked", c_char_p),
                ("with_codec_ns", c_uint64), ("without_codec_ns", c_uint64),
                ("state_bytes", c_uint64), ("round_trip_ns", c_uint64), ("window", c_uint32),
                ("sums_cut", c_uint64)]


class WringCodecContext(ctypes.Structure):
    C_NAME = "wring_codec_context"
    _fields_ = [("seed", c_uint64), ("bucket", c_uint32), ("rank", c_uint32), ("ranks", c_uint32),
                ("phase", c_uint32), ("step", c_uint64), ("element", c_uint64), ("first", c_uint64),
                ("elems", c_uint64), ("rows", c_uint64), ("columns", c_uint64),
                ("statistics", c_void_p), ("states", c_void_p)]


class WringCodecInfo(ctypes.Structure):
    C_NAME = "wring_codec_info"
    _fields_ = [("name", c_char_p), ("spec", c_char_p), ("identity", c_char_p), ("tier", c_char_p),
                ("flags", ctypes.c_uint), ("rounds", ctypes.c_uint), ("states", ctypes.c_uint),
                ("unit", c_uint64)]


STRUCTS = (WringResult, WringErrorDetail, WringBlobs, WringCancel, WringBootstrapOps,
           WringBootstrap, WringSessionParams, WringBucketParams, WringCall, WringWaitable,
           WringStream, WringSessionStats, WringBucketStats, WringCodecContext, WringCodecInfo)

_HOW = [POINTER(WringCall), POINTER(c_void_p)]  # the end of each immediate call
_LENGTHS = POINTER(c_uint64)

# Name, result, arguments.
FUNCTIONS = (
    ("wring_status_text", c_char_p, [c_int]),
    ("wring_dtype_bytes", c_size_t, [c_int]),
    ("wring_dtype_name", c_char_p, [c_int]),
    ("wring_op_name", c_char_p, [c_int]),
    ("wring_op_takes", c_int, [c_int, c_int]),
    ("wring_blobs_finish", None, [POINTER(WringBlobs)]),
    ("wring_session_open", c_int, [POINTER(WringSessionParams), POINTER(c_void_p)]),
    ("wring_session_close", None, [c_void_p]),
    ("wring_session_abort", c_int, [c_void_p]),
    ("wring_session_shrink", c_int, [c_void_p, c_uint64, POINTER(c_void_p)]),
    ("wring_session_grow", c_int, [c_void_p, c_uint64, POINTER(c_void_p)]),
    ("wring_session_share", c_int, [c_void_p, c_void_p, c_size_t]),
    ("wring_bucket_steps", c_uint64, [c_void_p]),
    ("wring_session_fd", c_int, [c_void_p]),
    ("wring_session_progress", c_int, [c_void_p]),
    ("wring_session_next_ns", c_uint64, [c_void_p]),
    ("wring_session_rank", c_uint32, [c_void_p]),
    ("wring_session_size", c_uint32, [c_void_p]),
    ("wring_session_world", c_void_p, [c_void_p]),
    ("wring_session_error", c_int, [c_void_p, POINTER(WringErrorDetail)]),
    ("wring_session_stats", c_int, [c_void_p, POINTER(WringSessionStats)]),
    ("wring_session_commit", c_int, [c_void_p]),
    ("wring_session_save_state", c_int, [c_void_p, c_void_p, POINTER(c_size_t)]),
    ("wring_session_load_state", c_int, [c_void_p, c_char_p, c_size_t]),
    ("wring_buffer_alloc", c_int, [c_void_p, c_size_t, POINTER(c_void_p)]),
    ("wring_buffer_register", c_int, [c_void_p, c_void_p, c_size_t]),
    ("wring_buffer_free", None, [c_void_p, c_void_p]),
    ("wring_bucket_register", c_int, [c_void_p, POINTER(WringBucketParams), POINTER(c_void_p)]),
    ("wring_bucket_post", c_int, [c_void_p]),
    ("wring_bucket_post_on", c_int, [c_void_p, POINTER(WringStream)]),
    ("wring_bucket_wait_on", c_int, [c_void_p, POINTER(WringStream)]),
    ("wring_bucket_test", c_int, [c_void_p, POINTER(WringResult)]),
    ("wring_bucket_wait", c_int, [c_void_p, c_uint64, POINTER(WringResult)]),
    ("wring_bucket_cancel", c_int, [c_void_p]),
    ("wring_bucket_drop", c_int, [c_void_p]),
    ("wring_bucket_stats", c_int, [c_void_p, POINTER(WringBucketStats)]),
    ("wring_wait_any", c_int, [POINTER(WringWaitable), c_size_t, c_uint64, POINTER(c_size_t),
                               POINTER(WringResult)]),
    ("wring_group_create", c_int, [c_void_p, POINTER(c_uint32), c_uint32, c_uint64, c_uint64,
                                   POINTER(c_void_p)]),
    ("wring_group_destroy", None, [c_void_p]),
    ("wring_group_where", c_int, [c_void_p, c_uint64, c_char_p, c_size_t]),
    ("wring_group_abort", c_int, [c_void_p]),
    ("wring_allreduce", c_int, [c_void_p, c_void_p, c_void_p, c_uint64, c_int, c_int, *_HOW]),
    ("wring_reduce", c_int, [c_void_p, c_void_p, c_void_p, c_uint64, c_int, c_int, c_uint32,
                             *_HOW]),
    ("wring_reduce_scatter", c_int, [c_void_p, c_void_p, c_void_p, c_uint64, c_int, c_int, *_HOW]),
    ("wring_reduce_scatterv", c_int, [c_void_p, c_void_p, c_void_p, _LENGTHS, c_int, c_int, *_HOW]),
    ("wring_allgather", c_int, [c_void_p, c_void_p, c_void_p, c_uint64, c_int, *_HOW]),
    ("wring_allgatherv", c_int, [c_void_p, c_void_p, c_void_p, _LENGTHS, c_int, *_HOW]),
    ("wring_gather", c_int, [c_void_p, c_void_p, c_void_p, c_uint64, c_int, c_uint32, *_HOW]),
    ("wring_scatter", c_int, [c_void_p, c_void_p, c_void_p, c_uint64, c_int, c_uint32, *_HOW]),
    ("wring_alltoall", c_int, [c_void_p, c_void_p, c_void_p, c_uint64, c_int, *_HOW]),
    ("wring_alltoallv", c_int, [c_void_p, c_void_p, _LENGTHS, c_void_p, _LENGTHS, c_int, *_HOW]),
    ("wring_broadcast", c_int, [c_void_p, c_void_p, c_uint64, c_uint32, *_HOW]),
    ("wring_barrier", c_int, [c_void_p, *_HOW]),
    ("wring_send", c_int, [c_void_p, c_void_p, c_uint64, c_uint32, c_uint64, *_HOW]),
    ("wring_recv", c_int, [c_void_p, c_void_p, c_uint64, c_uint32, c_uint64, *_HOW]),
    ("wring_request_test", c_int, [c_void_p, POINTER(WringResult)]),
    ("wring_request_wait", c_int, [c_void_p, c_uint64, POINTER(WringResult)]),
    ("wring_request_cancel", c_int, [c_void_p]),
    ("wring_codec_create", c_int, [c_char_p, c_char_p, c_void_p, c_char_p, c_size_t,
                                   POINTER(c_void_p)]),
    ("wring_codec_destroy", None, [c_void_p]),
    ("wring_codec_info", POINTER(WringCodecInfo), [c_void_p]),
    ("wring_codec_bound", c_size_t, [c_void_p, c_uint64]),
    ("wring_codec_encode", c_size_t, [c_void_p, POINTER(WringCodecContext), c_void_p, c_uint64,
                                      c_void_p, c_void_p]),
    ("wring_codec_decode", c_int, [c_void_p, POINTER(WringCodecContext), c_void_p, c_size_t,
                                   c_void_p, c_uint64, c_bool]),
)
