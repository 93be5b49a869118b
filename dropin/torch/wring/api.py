# SPDX-License-Identifier: Apache-2.0
"""<wring/wring.h> for Python: sessions, groups, immediate calls, messages and buckets.

    from wring import api

    with api.Session() as session:
        gradients = array.array("f", bytes(4 * n))
        bucket = session.register("layer3.weight", gradients, op=api.Op.AVG, codec="onebit+ef")
        session.commit()
        for _ in range(steps):
            ...                      # fill gradients
            bucket.post()
            ...                      # compute something else
            bucket.wait()

The header says what each call does, and which threads may make it. What differs here:

  - Memory is whatever has numbers: torch tensors, numpy arrays, array.array, bytearray, or an
    address with elems and dtype. It is kept alive until the call has ended.
  - What fails raises WringError, with status, rank and text.
  - Timeouts are seconds, None waits for ever; signals are handled meanwhile.
  - Sessions that are open when Python exits are closed.
"""
import atexit
import collections
import ctypes
import itertools
import os
import threading
import time
from ctypes import byref, c_size_t, c_uint32, c_uint64, c_void_p

from . import abi
from .abi import ANY_SOURCE, ANY_TAG, Dtype, LogLevel, Op, Scheme, Status
from .bootstrap import Bootstrap
from .library import include_folder, library, path
from .memory import BYTES, Memory, memory_of

__all__ = ["ANY_SOURCE", "ANY_TAG", "Bootstrap", "Bucket", "Dtype", "Group", "LogLevel", "Memory",
           "Op", "Request", "Result", "Scheme", "Session", "Status", "WringError", "WringTimeout",
           "include_folder", "library", "memory_of", "path", "wait_any"]

SLICE_NS = 200_000_000  # of a wait, after which signals are looked at

Result = collections.namedtuple("Result", "status rank tag bytes")
Result.__doc__ = "How an operation ended: struct wring_result."


class WringError(RuntimeError):
    """A call that failed.

    status  why: a Status
    rank    whose fault it was, -1 where no rank's
    text    one line
    """

    def __init__(self, status, text, rank=-1):
        super().__init__(f"{text} ({status.name})" if text else status.name)
        self.status, self.text, self.rank = status, text, rank


class WringTimeout(WringError, TimeoutError):
    """The deadline passed; the operation goes on."""


_said = threading.local()  # .line: the last error that the library logged in this thread


def log_to_stderr(level, module, text):
    """Where log lines go by default, in the library's own form."""
    try:
        os.write(2, f"wring: {module}: {text}\n".encode())
    except OSError:  # nobody reads it
        pass


def _log_function(take):
    def log(_arg, level, module, text):
        line = text.decode("utf-8", "replace")
        if level == LogLevel.ERROR:
            _said.line = line
        take(LogLevel(level), module.decode(), line)
    return abi.LOG_FN(log)


_tokens = itertools.count(1)
_callbacks = {}  # token: (function, whether it is called once)


def _deliver(token, result):
    function, once = _callbacks[token]
    if once:
        del _callbacks[token]
    function(_read_result(result.contents))


_DELIVER = abi.DONE_FN(_deliver)


def _new_token(function, once):
    token = next(_tokens)
    _callbacks[token] = (function, once)
    return token


def _read_result(raw):
    return Result(Status(raw.status), raw.rank, raw.tag, raw.bytes)


def _encode(text):
    return None if text is None else text.encode()


def _timeout_ns(seconds):
    return abi.FOREVER if seconds is None else max(0, int(seconds * 1e9))


def _wait_in_slices(call, timeout):
    """call(ns) returns a status; what still runs after a slice is asked again, until the timeout."""
    end = None if timeout is None else time.monotonic_ns() + _timeout_ns(timeout)
    while True:
        left = SLICE_NS if end is None else max(0, end - time.monotonic_ns())
        status = call(min(left, SLICE_NS))
        if status != Status.TIMEOUT or left <= SLICE_NS and end is not None:
            return status


class Session:
    """A rank's place in a job: struct wring_session."""

    def __init__(self, *, provider=None, root=None, key=None, rank=0, size=0, root_fd=0, seed=0,
                 bootstrap=None, log=None, settings=None, codecs=()):
        """Join the job. What is left out comes from WRING_ variables and the launcher.

        bootstrap  a Bootstrap, in place of root, rank and size
        log        log(level, module, text); called from any thread
        settings   {"WRING_X": value, ...}, over the environment's
        codecs     addresses of struct wring_codec_ops, for the program's own codecs
        """
        self._lib = library()
        self._handle = None
        self._under_way, self._buckets, self._memory = set(), set(), {}
        self._log = _log_function(log or log_to_stderr)
        self._bootstrap = bootstrap
        texts = [f"{name}={value}".encode() for name, value in (settings or {}).items()]
        self._settings = (ctypes.c_char_p * (len(texts) + 1))(*texts, None)
        self._codecs = (c_void_p * (len(codecs) + 1))(*codecs, None)
        params = abi.WringSessionParams(
            provider=_encode(provider), root=_encode(root), key=_encode(key), rank=rank, size=size,
            root_fd=root_fd, seed=seed, log=self._log, settings=self._settings)
        if codecs:
            params.codecs = self._codecs
        if bootstrap is not None:
            params.bootstrap = ctypes.pointer(bootstrap.struct)
        out = c_void_p()
        _said.line = ""
        status = self._lib.wring_session_open(byref(params), byref(out))
        if status != Status.OK:
            cause = bootstrap.failure if bootstrap is not None else None
            raise self._error(status, "wring_session_open()") from cause
        self._take(out.value, owned=True)

    @classmethod
    def of_handle(cls, handle):
        """A session that somebody else opened in this process and closes, after this object's last
        call: the address of its struct wring_session."""
        session = cls.__new__(cls)
        session._lib = library()
        session._under_way, session._buckets, session._memory = set(), set(), {}
        session._take(handle, owned=False)
        return session

    def _take(self, handle, owned):
        self._handle, self._owned = handle, owned
        self.rank = self._lib.wring_session_rank(handle)
        self.size = self._lib.wring_session_size(handle)
        self.world = Group(self, self._lib.wring_session_world(handle), self.rank, self.size)
        if owned:
            _open_sessions.add(self)

    def release(self):
        """@return its handle, which somebody else closes from now on, as with of_handle()"""
        self._owned = False
        _open_sessions.discard(self)
        return self._alive()

    @property
    def handle(self):
        """The address of its struct wring_session."""
        return self._alive()

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.close()

    # ---- errors ------------------------------------------------------------------------------

    def _alive(self):
        if self._handle is None:
            raise WringError(Status.CLOSED, "the session is closed")
        return self._handle

    def _error(self, status, what, result=None):
        """@return the WringError of a call that failed"""
        status = Status(status)
        rank, text = -1, getattr(_said, "line", "")
        failure = self.error() if self._handle is not None else None
        if failure is not None:
            rank, text = failure.rank, failure.text
        if result is not None and result.rank >= 0:
            rank = result.rank
        if not text:
            text = f"{what}: {self._lib.wring_status_text(status).decode()}"
        kind = WringTimeout if status == Status.TIMEOUT else WringError
        return kind(status, text, rank)

    def _call(self, name, *arguments, accept=()):
        """Call a function of the library that returns a status; @return it"""
        _said.line = ""
        status = getattr(self._lib, name)(*arguments)
        if status != Status.OK and status not in accept:
            raise self._error(status, f"{name}()")
        return status

    def error(self):
        """@return why the session failed, as a WringError that is not raised; None: it has not"""
        detail = abi.WringErrorDetail()
        status = self._lib.wring_session_error(self._alive(), byref(detail))
        if status == Status.OK:
            return None
        return WringError(Status(status), detail.text.decode("utf-8", "replace"), detail.rank)

    # ---- life --------------------------------------------------------------------------------

    def close(self):
        """Leave the job. Other threads' calls end with CLOSED. Twice is fine."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        if self._owned:
            self._lib.wring_session_close(handle)
        _open_sessions.discard(self)
        for bucket in self._buckets:
            bucket._forget()
        self._under_way.clear()
        self._buckets.clear()
        self._memory.clear()

    def abort(self):
        """End all that is under way, on every rank."""
        self._call("wring_session_abort", self._alive())

    def _replace(self, name, timeout, change=None):
        """Another session takes this one's place. @return whether it is another one
        @param change  who does it: change(nanoseconds) returns (Status, the handle from then on)"""
        before, ns, out = self._alive(), 0 if timeout is None else _timeout_ns(timeout), c_void_p()
        if change is None:
            self._call(name, before, ns, byref(out))
        else:
            _said.line = ""
            status, out.value = change(ns)
            if status != Status.OK:
                raise self._error(status, f"{name}()")
        if out.value == before:
            return False
        for request in list(self._under_way):
            request._handle = None
            request.result = request.result or Result(Status.CLOSED, -1, 0, 0)
        self._under_way.clear()
        self._take(out.value, self._owned)
        return True

    def shrink(self, timeout=None):
        """After a call failed with PEER: go on without the ranks that are lost. Every rank that is
        left calls it. Buckets and memory stay; rank, size and world are others; groups, requests
        and descriptors of before are gone. Bucket.steps says with which step to go on.

        timeout  seconds for all of it; None: WRING_JOIN_TIMEOUT
        """
        self._replace("wring_session_shrink", timeout)

    def grow(self, timeout=None):
        """Let newcomers in. All ranks call it between the same steps. Then all call share().
        @return whether anybody came"""
        return self._replace("wring_session_grow", timeout)

    def share(self, data=None):
        """Give all ranks what rank 0 has there, and its buckets' steps. Collective, after commit()."""
        memory = memory_of(data, True)
        self._call("wring_session_share", self._alive(), memory.address, memory.bytes)

    def fileno(self):
        """A descriptor for an event loop, which calls progress() when it is readable."""
        fd = self._lib.wring_session_fd(self._alive())
        if fd < 0:
            raise WringError(Status.SYSTEM, "the system has no descriptor for wring_session_fd()")
        return fd

    def progress(self):
        self._call("wring_session_progress", self._alive())

    def next_seconds(self):
        """How long an event loop may sleep on fileno(); None: for ever."""
        ns = self._lib.wring_session_next_ns(self._alive())
        return None if ns == abi.FOREVER else ns / 1e9

    def stats(self):
        """@return a dict: the fields of struct wring_session_stats"""
        raw = abi.WringSessionStats()
        self._call("wring_session_stats", self._alive(), byref(raw))
        return _fields(raw)

    # ---- memory ------------------------------------------------------------------------------

    def alloc(self, n_bytes):
        """Memory that every provider moves without a copy: a writable buffer of bytes, zeroed, which
        lives until free() or the end of the session. torch.frombuffer() and numpy take it."""
        out = c_void_p()
        self._call("wring_buffer_alloc", self._alive(), max(1, n_bytes), byref(out))
        view = (ctypes.c_char * n_bytes).from_address(out.value)
        view.session = self
        return view

    def register_memory(self, thing):
        """Make foreign memory known, so that it moves without a copy."""
        memory = memory_of(thing)
        self._call("wring_buffer_register", self._alive(), memory.address, memory.bytes)
        self._memory[memory.address] = memory

    def free(self, thing):
        """Free what alloc() gave, or forget what was registered."""
        memory = memory_of(thing)
        self._lib.wring_buffer_free(self._alive(), memory.address)
        self._memory.pop(memory.address, None)

    # ---- buckets -----------------------------------------------------------------------------

    def register(self, name, data, *, elems=None, dtype=None, op=Op.SUM, codec=None,
                 scheme=Scheme.AUTO, priority=0, group=None, shape=None, done=None, executor=None,
                 out=None, factor=0.0):
        """Announce a bucket; it takes effect at the next commit().

        done   done(result), called after each step
        out    where results go; None: into data
        shape  (rows, columns)
        """
        return Bucket(self, name, data, elems, dtype, out, done, dict(
            op=op, codec=_encode(codec), scheme=scheme, priority=priority,
            group=None if group is None else group._alive(),
            shape=abi.Shape(*(shape or (0, 0))), executor=_encode(executor), factor=factor))

    def commit(self):
        """Agree on all buckets. Collective."""
        self._call("wring_session_commit", self._alive())
        for bucket in [bucket for bucket in self._buckets if bucket._dropped]:
            self._buckets.discard(bucket)
            bucket._forget()

    def save_state(self):
        """@return bytes: what a checkpoint needs besides the model, as this rank has it"""
        room = c_size_t()
        self._call("wring_session_save_state", self._alive(), None, byref(room))
        state = ctypes.create_string_buffer(max(1, room.value))
        self._call("wring_session_save_state", self._alive(), state, byref(room))
        return state.raw[:room.value]

    def load_state(self, state):
        """Take over a state that some rank saved, after commit() and before the next step."""
        self._call("wring_session_load_state", self._alive(), bytes(state), len(state))


_open_sessions = set()


@atexit.register
def _close_all():
    """Threads of the library must not call into an interpreter that is gone, and peers should hear
    a good-bye."""
    for session in list(_open_sessions):
        session.close()


def _fields(raw):
    values = {name: getattr(raw, name) for name, *_ in raw._fields_ if name != "struct_bytes"}
    return {name: value.decode() if isinstance(value, bytes) else value
            for name, value in values.items()}


class Request:
    """An immediate call or message that is under way: struct wring_request."""
    __slots__ = ("_session", "_handle", "_memories", "result", "__weakref__")

    def __init__(self, session, handle, memories):
        self._session, self._handle, self._memories = session, handle, memories
        self.result = None  # once it has ended
        session._under_way.add(self)

    def _ended(self, status, raw):
        self._handle = None
        self.result = _read_result(raw)._replace(status=Status(status))
        if status == Status.OK:  # else a peer may still write there: kept until close
            self._session._under_way.discard(self)
            self._memories = None
            return self.result
        raise self._session._error(status, "the request", self.result)

    def _again(self):
        if self.result.status != Status.OK:
            raise self._session._error(self.result.status, "the request", self.result)
        return self.result

    def test(self):
        """@return its Result, None while it is under way"""
        if self._handle is None:
            return self._again()
        self._session._alive()
        raw = abi.WringResult()
        status = self._session._lib.wring_request_test(self._handle, byref(raw))
        return None if status == Status.AGAIN else self._ended(status, raw)

    def wait(self, timeout=None):
        """@return its Result"""
        if self._handle is None:
            return self._again()
        self._session._alive()
        raw = abi.WringResult()
        wait, handle = self._session._lib.wring_request_wait, self._handle
        status = _wait_in_slices(lambda ns: wait(handle, ns, byref(raw)), timeout)
        if status == Status.TIMEOUT:
            raise self._session._error(status, "the request")
        return self._ended(status, raw)

    def cancel(self):
        """Give it up. @return whether its memory is the caller's again"""
        if self._handle is None:
            return True
        status = self._session._call("wring_request_cancel", self._handle, accept=(Status.BUSY,))
        return status == Status.OK


class Bucket:
    """Memory that is exchanged step by step: struct wring_bucket."""

    def __init__(self, session, name, data, elems, dtype, out, done, fields):
        self.session, self.name, self._dropped = session, name, False
        self._data = memory_of(data, True, elems, dtype)
        self._out = memory_of(out, True, elems, dtype)
        dtype = _need_dtype(dtype, self._data)
        elems = _need_elems(elems, dtype, self._data)
        if out is not None:
            _need_bytes("out", self._out, elems * BYTES[dtype])
        self._token = None
        params = abi.WringBucketParams(name=name.encode(), data=self._data.address, elems=elems,
                                       dtype=dtype, out=self._out.address, **fields)
        if done is not None:
            self._token = _new_token(done, once=False)
            params.done, params.done_arg = _DELIVER, self._token
        handle = c_void_p()
        try:
            session._call("wring_bucket_register", session._alive(), byref(params), byref(handle))
        except WringError:
            self._forget()
            raise
        self._handle = handle.value
        self._raw = abi.WringResult()
        session._buckets.add(self)

    def _forget(self):
        self._handle = self._data = self._out = None
        if self._token is not None:
            _callbacks.pop(self._token, None)

    def _alive(self):
        self.session._alive()
        if self._handle is None:
            raise WringError(Status.INVALID, f"bucket '{self.name}' was dropped")
        return self._handle

    def post(self):
        """Hand the filled bucket over."""
        self.session._call("wring_bucket_post", self._alive())

    def _ended(self, status):
        result = _read_result(self._raw)._replace(status=Status(status))
        if status != Status.OK:
            raise self.session._error(status, f"bucket '{self.name}'", result)
        return result

    def test(self):
        """@return the step's Result, None while it is under way"""
        _said.line = ""
        status = self.session._lib.wring_bucket_test(self._alive(), byref(self._raw))
        return None if status == Status.AGAIN else self._ended(status)

    def wait(self, timeout=None):
        """@return the step's Result"""
        _said.line = ""
        wait, handle = self.session._lib.wring_bucket_wait, self._alive()
        status = _wait_in_slices(lambda ns: wait(handle, ns, byref(self._raw)), timeout)
        if status == Status.TIMEOUT:
            raise self.session._error(status, f"bucket '{self.name}'")
        return self._ended(status)

    @property
    def steps(self):
        """How many steps it has made."""
        return self.session._lib.wring_bucket_steps(self._alive())

    def cancel(self):
        """Give up its step. @return whether its data is the caller's again"""
        status = self.session._call("wring_bucket_cancel", self._alive(), accept=(Status.BUSY,))
        return status == Status.OK

    def drop(self):
        """Take it back before the next commit(); its data may be freed after that one."""
        self.session._call("wring_bucket_drop", self._alive())
        self._dropped = True

    def stats(self):
        """@return a dict: the fields of struct wring_bucket_stats"""
        raw = abi.WringBucketStats()
        self.session._call("wring_bucket_stats", self._alive(), byref(raw))
        return _fields(raw)


def wait_any(entries, timeout=None):
    """Wait until one of several posted buckets and requests of one session has ended.

    @param entries  buckets, requests, and None, which is passed over
    @return (index, Result) of one; (None, None) where all entries are None
    """
    raw = abi.WringResult()
    waitables = (abi.WringWaitable * len(entries))()
    session = None
    for waitable, entry in zip(waitables, entries):
        if entry is None:
            continue
        if isinstance(entry, Bucket):
            session, waitable.bucket = entry.session, entry._alive()
        elif entry._handle is not None:
            session, waitable.request = entry._session, entry._handle
        else:
            raise WringError(Status.INVALID, "wait_any(): a request that has ended already")
    if session is None:
        return None, None
    index = c_size_t(len(entries))
    _said.line = ""
    wait = session._lib.wring_wait_any
    session._alive()
    status = _wait_in_slices(lambda ns: wait(waitables, len(entries), ns, byref(index), byref(raw)),
                             timeout)
    if status == Status.TIMEOUT or index.value >= len(entries):
        raise session._error(status, "wring_wait_any()")
    entry = entries[index.value]
    if isinstance(entry, Request):
        return index.value, entry._ended(status, raw)
    ctypes.memmove(byref(entry._raw), byref(raw), ctypes.sizeof(raw))
    return index.value, entry._ended(status)


def _need_dtype(dtype, *memories):
    for memory in memories:
        dtype = memory.dtype if dtype is None else dtype
    if dtype is None:
        raise TypeError("elements of unknown type: say dtype=api.Dtype.F32 or what they are")
    return Dtype(dtype)


def _need_elems(elems, dtype, memory):
    held, rest = divmod(memory.bytes, BYTES[dtype])
    if rest:
        raise ValueError(f"{memory.bytes} bytes are no whole number of {dtype.name}")
    if elems is not None and elems > held:
        raise ValueError(f"{elems} elements of {dtype.name} in memory for {held}")
    return held if elems is None else elems


def _need_bytes(what, memory, n_bytes):
    if memory.bytes < n_bytes:
        raise ValueError(f"{what} has {memory.bytes} bytes and needs {n_bytes}")


class Group:
    """Some of the ranks: struct wring_group. Session.world is the group of all."""

    def __init__(self, session, handle, rank, size):
        self.session, self._handle, self.rank, self.size = session, handle, rank, size

    def _alive(self):
        self.session._alive()
        if self._handle is None:
            raise WringError(Status.INVALID, "the group was destroyed")
        return self._handle

    def create(self, ranks, tag=0, timeout=None):
        """Make a group of members of this one; its members call this, and nobody else.

        @param ranks  members' numbers here, in the order of the new group; this member is among them
        """
        ranks = list(ranks)
        out = c_void_p()
        self.session._call("wring_group_create", self._alive(), (c_uint32 * len(ranks))(*ranks),
                           len(ranks), tag, _timeout_ns(timeout), byref(out))
        return Group(self.session, out.value, ranks.index(self.rank), len(ranks))

    def destroy(self):
        """Give it back; the other members need not. Twice is fine."""
        handle, self._handle = self._handle, None
        if handle is not None and self.session._handle is not None:
            self.session._lib.wring_group_destroy(handle)

    def where(self, timeout=1.0):
        """Ask where its members are. @return who is behind, in one line; rank 0 logs a table"""
        line = ctypes.create_string_buffer(abi.WHERE_TEXT)
        self.session._call("wring_group_where", self._alive(), _timeout_ns(timeout), line, len(line))
        return line.value.decode()

    def abort(self):
        """End all of its collective calls, on all members. @return whether their memory is free"""
        status = self.session._call("wring_group_abort", self._alive(), accept=(Status.BUSY,))
        return status == Status.OK

    # ---- immediate calls ---------------------------------------------------------------------
    #
    # Each takes also codec, factor, priority and done (done(result), called at its end). With
    # wait=False it returns a Request, else it waits for the end.

    def _start(self, function, arguments, memories, wait, codec=None, factor=0.0, priority=0,
               done=None, coded=0):
        how = token = None
        if codec is not None or factor or priority or done is not None:
            how = abi.WringCall(codec=_encode(codec), factor=factor, priority=priority, dtype=coded)
            if done is not None:
                token = _new_token(done, once=True)
                how.done, how.done_arg = _DELIVER, token
        handle = c_void_p()
        try:
            self.session._call(function, self._alive(), *arguments,
                               None if how is None else byref(how), byref(handle))
        except WringError:
            _callbacks.pop(token, None)
            raise
        request = Request(self.session, handle.value, memories)
        if not wait:
            return request
        request.wait()
        return None

    def allreduce(self, data, out=None, *, op=Op.SUM, elems=None, dtype=None, wait=True, **how):
        """out, or data where there is none, becomes the reduction of all members' data."""
        return self._reduce("wring_allreduce", data, out, op, elems, dtype, (), wait, how)

    def reduce(self, data, out=None, *, root, op=Op.SUM, elems=None, dtype=None, wait=True, **how):
        """The root ends with the reduction of all members' data, in out or in place."""
        return self._reduce("wring_reduce", data, out, op, elems, dtype, (root,), wait, how)

    def _reduce(self, function, data, out, op, elems, dtype, root, wait, how):
        source = memory_of(data, out is None, elems, dtype)
        target = source if out is None else memory_of(out, True, elems, dtype)
        dtype = _need_dtype(dtype, source)
        elems = _need_elems(elems, dtype, source)
        if root in ((), (self.rank,)):
            _need_bytes("out", target, elems * BYTES[dtype])
        return self._start(function, (source.address, target.address, elems, dtype, op, *root),
                           (source, target), wait, **how)

    def reduce_scatter(self, data, out, *, op=Op.SUM, elems=None, dtype=None, wait=True, **how):
        """Member m ends with the reduction of everyone's m-th run. elems may be a list: of the
        lengths of the runs, which are alike otherwise."""
        return self._runs("wring_reduce_scatter", data, out, elems, dtype, wait, how, (op,))

    def allgather(self, data, out, *, elems=None, dtype=None, wait=True, **how):
        """Everyone ends with all contributions, in the order of members. elems may be a list: of
        the lengths of contributions, which are alike otherwise."""
        return self._runs("wring_allgather", data, out, elems, dtype, wait, how, ())

    def _runs(self, function, data, out, elems, dtype, wait, how, op):
        scatter = bool(op)
        lengths = list(elems) if isinstance(elems, (list, tuple)) else None
        one = elems if lengths is None else lengths[self.rank]
        total = None if one is None else one * self.size if lengths is None else sum(lengths)
        source = memory_of(data, False, total if scatter else one, dtype)
        target = memory_of(out, True, one if scatter else total, dtype)
        dtype = _need_dtype(dtype, source, target)
        if one is None:
            one = _need_elems(None, dtype, target if scatter else source)
            total = one * self.size
        _need_bytes("data", source, (total if scatter else one) * BYTES[dtype])
        _need_bytes("out", target, (one if scatter else total) * BYTES[dtype])
        if lengths is not None:
            function, one = function + "v", (c_uint64 * self.size)(*lengths)
        return self._start(function, (source.address, target.address, one, dtype, *op),
                           (source, target, one), wait, **how)

    def gather(self, data, out=None, *, root, elems=None, dtype=None, wait=True, **how):
        """The root ends with all contributions in out, in the order of members."""
        source = memory_of(data, False, elems, dtype)
        dtype = _need_dtype(dtype, source)
        elems = _need_elems(elems, dtype, source)
        target = memory_of(out, True, elems * self.size, dtype)
        if self.rank == root:
            _need_bytes("out", target, elems * self.size * BYTES[dtype])
        return self._start("wring_gather", (source.address, target.address, elems, dtype, root),
                           (source, target), wait, **how)

    def scatter(self, data, out, *, root, elems=None, dtype=None, wait=True, **how):
        """Run m of the root's data goes to member m's out."""
        target = memory_of(out, True, elems, dtype)
        dtype = _need_dtype(dtype, target)
        elems = _need_elems(elems, dtype, target)
        source = memory_of(data, False, elems * self.size, dtype)
        if self.rank == root:
            _need_bytes("data", source, elems * self.size * BYTES[dtype])
        return self._start("wring_scatter", (source.address, target.address, elems, dtype, root),
                           (source, target), wait, **how)

    def alltoall(self, data, out, *, elems=None, out_elems=None, dtype=None, wait=True, **how):
        """Run m of a member's data goes to member m. elems and out_elems may be lists: of the
        lengths of runs in data and out, which are alike otherwise."""
        ragged = isinstance(elems, (list, tuple))
        sent = sum(elems) if ragged else None if elems is None else elems * self.size
        got = sum(out_elems) if ragged else sent
        source, target = memory_of(data, False, sent, dtype), memory_of(out, True, got, dtype)
        dtype = _need_dtype(dtype, source, target)
        if sent is None:
            elems, rest = divmod(_need_elems(None, dtype, source), self.size)
            sent = got = elems * self.size
            if rest:
                raise ValueError(f"data is no whole number of runs for {self.size} members")
        _need_bytes("data", source, sent * BYTES[dtype])
        _need_bytes("out", target, got * BYTES[dtype])
        if not ragged:
            return self._start("wring_alltoall", (source.address, target.address, elems, dtype),
                               (source, target), wait, **how)
        lengths = (c_uint64 * self.size)(*elems), (c_uint64 * self.size)(*out_elems)
        return self._start("wring_alltoallv", (source.address, lengths[0], target.address,
                                               lengths[1], dtype),
                           (source, target, lengths), wait, **how)

    def broadcast(self, data, *, root, elems=None, dtype=None, wait=True, **how):
        """Everyone's data becomes that of the root. With a codec its type is F32, F16 or BF16."""
        memory = memory_of(data, True, elems, dtype)
        n_bytes = memory.bytes
        if elems is not None or how.get("codec") is not None:
            dtype = _need_dtype(dtype, memory)
            n_bytes = _need_elems(elems, dtype, memory) * BYTES[dtype]
        coded = 0 if how.get("codec") is None else dtype
        return self._start("wring_broadcast", (memory.address, n_bytes, root), (memory,), wait,
                           coded=coded, **how)

    def barrier(self, *, wait=True, **how):
        """Done when all members have called it."""
        return self._start("wring_barrier", (), (), wait, **how)

    # ---- messages ----------------------------------------------------------------------------

    def send(self, data, to, tag=0, *, wait=True, **how):
        """Send a message of all of data's bytes to a member."""
        memory = memory_of(data, False)
        return self._start("wring_send", (memory.address, memory.bytes, to, tag), (memory,), wait,
                           **how)

    def recv(self, out, source=ANY_SOURCE, tag=ANY_TAG, *, wait=True, **how):
        """Receive a message into out. @return its Result, or a Request with wait=False"""
        memory = memory_of(out)
        request = self._start("wring_recv", (memory.address, memory.bytes, source, tag), (memory,),
                              False, **how)
        return request.wait() if wait else request
