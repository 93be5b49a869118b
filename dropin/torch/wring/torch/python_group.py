# SPDX-License-Identifier: Apache-2.0
"""The process group in Python: for hosts without a compiler, and with WRING_TORCH_NATIVE=off.

It makes the same calls of wring as backend.cpp. Results are equal; a small operation takes longer.
"""
import ctypes
import time
from ctypes import byref, c_uint32, c_void_p
from datetime import timedelta

import torch
import torch.distributed as dist

from .. import abi, api
from ..abi import Status
from . import reconfigure
from .python_tensors import (DTYPES, address_of, array_of, check, join, moved_as, reduction_of, single,
                             split_lengths)
from .python_work import SLICE_NS, PythonWork, PythonWorks, completers, fail
from .session import reopen

IDLE_SECONDS = 5  # for operations of a session that is about to be another one
INTERNAL_TAGS = 1 << 40  # above all of torch's, which are ints
WHERE_NS = 1_000_000_000  # for ranks to say where they are when a collective has timed out


class _Nothing:
    """In the place of a profiler's record, where nobody profiles."""

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        return None


_NOTHING = _Nothing()
record_function = torch.autograd.profiler.record_function


def _is_profiled():
    return torch.autograd.profiler._is_profiler_enabled


class PythonGroup(dist.ProcessGroup):
    """A process group on CPU tensors."""

    def __init__(self, session, ranks, rank, name, group_name, timeout):
        size = len(ranks) or session.size
        super().__init__(rank, size)
        self._session, self._name, self._label = session, name, group_name
        self._rank, self._size, self._timeout = rank, size, timeout
        self._description = ""
        self._lib = api.library()
        self._sequence = self._barriers = 0
        self._under_way, self._coalesced = {}, None
        self._world = not ranks
        self._shut = False
        self.wring_group = self._lib.wring_session_world(session.handle)
        if ranks:
            self.wring_group = self._make_group(self.wring_group, ranks, group_name)
        session.groups = getattr(session, "groups", 0) + 1
        session.kept = getattr(session, "kept", [])
        completers.watch(self)

    def _make_group(self, parent, ranks, name):
        tag = 0xCBF29CE484222325  # FNV-1a, as in backend.cpp
        for byte in name.encode():
            tag = (tag ^ byte) * 0x100000001B3 % (1 << 64)
        made = c_void_p()
        status = self._lib.wring_group_create(parent, (c_uint32 * len(ranks))(*ranks), len(ranks), tag,
                                              int(self._timeout * 1e9), byref(made))
        if status != Status.OK:
            failure = self._session.api.error()
            why = f"{failure.text}: " if failure is not None else ""
            fail(f"new_group {name}: {why}{self._lib.wring_status_text(status).decode()}")
        return made.value

    # ---- what torch asks of a group

    def getBackendName(self):
        return self._name

    def rank(self):
        return self._rank

    def size(self):
        return self._size

    getRank, getSize = rank, size

    supports_coalescing = supports_splitting = supports_shrinking = False
    supports_reconfigure = True

    def _get_backend(self, _device):
        return self

    def setGroupName(self, name):
        self._label = name

    def getGroupName(self):
        return self._label

    def setGroupDesc(self, description):
        self._description = description

    def getGroupDesc(self):
        return self._description

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc

    @property
    def group_name(self):
        return self._label

    @property
    def group_desc(self):
        return self._description

    def _set_sequence_number_for_group(self):
        pass

    def _get_sequence_number_for_group(self):
        return self._sequence

    def _set_default_timeout(self, timeout):
        self._timeout = timeout.total_seconds()

    def abort(self):
        for work in list(self._under_way):
            work.abort()
        if self._shut:
            return
        if self._session.alive and self._world:
            self._lib.wring_session_abort(self._session.handle)
        elif self._session.alive:
            self._lib.wring_group_abort(self.wring_group)

    def shutdown(self):
        if self._shut:
            return
        self._shut = True
        if not self._world and self._session.alive:
            self._lib.wring_group_destroy(self.wring_group)
        self._session.groups -= 1
        if self._session.groups == 0:
            self._session.say_goodbye()
            self._session.close()

    @staticmethod
    def await_idle(session):
        """Until no operation of a session's groups is under way. @return these groups"""
        groups = [group for group in list(completers.groups) if group._session is session]
        end = time.monotonic() + IDLE_SECONDS
        while any(group._under_way for group in groups):
            if time.monotonic() > end:
                fail("operations are under way, and do not end: wait for them first")
            for group in groups:
                group._reap()
            time.sleep(0.0005)
        return groups

    def end(self):
        """Its session has gone; another one may have come."""
        if not self._shut:
            self._shut = True
            self._session.groups -= 1

    def get_reconfigure_handle(self):
        return reconfigure.handle_of(self._label)

    def reconfigure(self, opts):
        """The group becomes one of those whose handles these are. It is done when this returns."""
        handles = list(opts.handles) if isinstance(opts.handles, list) else sorted(opts.handles)
        seconds = self._timeout if opts.timeout is None else opts.timeout.total_seconds()
        former, session = self._session, reopen(self._label, handles, opts.uuid, seconds, None)
        self.end()
        if former.groups == 0:
            former.close()
        self._session, self._shut = session, False
        self._rank, self._size = session.rank, session.size
        self.wring_group = self._lib.wring_session_world(session.handle)
        session.groups, session.kept = 1, []
        return PythonWorks([])

    def _who_is_behind(self):
        """Once a collective has timed out."""
        line = ctypes.create_string_buffer(abi.WHERE_TEXT)
        status = self._lib.wring_group_where(self.wring_group, WHERE_NS, line, len(line))
        return line.value.decode() if status == Status.OK else "another rank has not taken part"

    # ---- operations

    def _reap(self):
        """Ends of operations that nobody waits for."""
        for work in list(self._under_way):
            work.is_completed()

    def _start(self, title, function, arguments, outputs, keep, opts=None, finish=None, what="",
               received=None, factor=0.0, message=False):
        if self._shut or not self._session.alive:
            fail(f"{title}: the process group was destroyed, or waits for reconfigure(): make another "
                 "one")
        if not message:
            self._sequence += 1
        timeout, seconds = getattr(opts, "timeout", None), self._timeout
        if isinstance(timeout, timedelta) and timeout >= timedelta(0):
            seconds = timeout.total_seconds()
        work = PythonWork(self, title, self._sequence, outputs, keep, seconds, finish, what)
        work._bytes, work._message = received, message
        how = byref(abi.WringCall(factor=factor)) if factor else None
        call = getattr(self._lib, function)
        # which the caller waits for in any case, and what ends at once, needs no request
        at_once = self._coalesced is None and not message and (
            self._size == 1 or not getattr(opts, "asyncOp", True))
        with record_function(f"{self._name}:{title}") if _is_profiled() else _NOTHING:
            if at_once:
                return self._run(work, call, (*arguments, how))
            request = c_void_p()
            status = call(self.wring_group, *arguments, how, byref(request))
        if status != Status.OK:
            fail(work._describe(status, abi.WringResult(rank=-1)))
        work._request = request
        self._under_way[work] = None
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _run(self, work, call, arguments):
        """Do it here and now."""
        work._blocks = True
        self._under_way[work] = None
        status = call(self.wring_group, *arguments, None)
        with work._lock:
            work._end(status, abi.WringResult(rank=-1))
        if work._error is not None:
            raise work._error
        return work

    def _check_rank(self, operation, rank):
        if not 0 <= rank < self._size:
            fail(f"{operation}: rank {rank} is not in the group of {self._size}")

    @staticmethod
    def _what(tensor):
        return f", {tensor.numel() * tensor.element_size()} bytes of {tensor.dtype}"

    def _writable(self, tensor, filled):
        """@return (memory to write to, what copies it back at the end)"""
        if tensor.is_contiguous():
            return tensor, None
        copy = tensor.contiguous() if filled else torch.empty(tensor.numel(), dtype=tensor.dtype)
        return copy, lambda: tensor.copy_(copy.view(tensor.shape))

    def _parts(self, tensors):
        """Memory for several tensors. @return (memory, what copies it to them at the end)"""
        flat = torch.empty(sum(tensor.numel() for tensor in tensors), dtype=tensors[0].dtype)

        def finish():
            at = 0
            for tensor in tensors:
                tensor.copy_(flat.narrow(0, at, tensor.numel()).view(tensor.shape))
                at += tensor.numel()
        return flat, finish

    def allreduce(self, tensors, opts=None):
        tensor = single("all_reduce", tensors)
        op, factor = reduction_of("all_reduce", opts.reduceOp if opts else dist.ReduceOp.SUM, tensor)
        data, finish = self._writable(tensor, True)
        address = address_of(data)
        return self._start("all_reduce", "wring_allreduce",
                           (address, address, data.numel(), DTYPES[tensor.dtype], op), tensors, data,
                           opts, finish, self._what(tensor), factor=factor)

    def allreduce_coalesced(self, tensors, opts=None):
        return PythonWorks([self.allreduce([tensor], opts) for tensor in tensors])

    def broadcast(self, tensors, opts):
        self._check_rank("broadcast", opts.rootRank)
        tensor = single("broadcast", tensors)
        data, finish = self._writable(tensor, opts.rootRank == self._rank)
        return self._start("broadcast", "wring_broadcast",
                           (address_of(data), data.numel() * data.element_size(), opts.rootRank),
                           tensors, data, opts, finish, self._what(tensor))

    def reduce(self, tensors, opts):
        self._check_rank("reduce", opts.rootRank)
        tensor = single("reduce", tensors)
        op, factor = reduction_of("reduce", opts.reduceOp, tensor)
        root = opts.rootRank == self._rank
        data, finish = self._writable(tensor, True) if root else (tensor.contiguous(), None)
        return self._start("reduce", "wring_reduce",
                           (address_of(data), address_of(data) if root else None, data.numel(),
                            DTYPES[tensor.dtype], op, opts.rootRank), tensors, data, opts,
                           finish, self._what(tensor), factor=factor)

    def allgather(self, outputs, inputs, opts=None):
        tensor, parts = single("all_gather", inputs).contiguous(), outputs[0]
        if len(outputs) != 1 or len(parts) != self._size:
            fail(f"all_gather: needs a list of one tensor for each of the {self._size} ranks")
        self._check_parts("all_gather", tensor, parts)
        dtype, scale = moved_as(tensor)
        flat, finish = self._parts(parts)
        even = all(part.numel() == tensor.numel() for part in parts)
        length = tensor.numel() * scale if even else array_of([part.numel() * scale for part in parts])
        return self._start("all_gather", "wring_allgather" if even else "wring_allgatherv",
                           (address_of(tensor), address_of(flat), length, dtype), parts,
                           (tensor, flat, length), opts, finish,
                           self._what(tensor))

    def _check_parts(self, operation, tensor, parts):
        for part in parts:
            check(operation, part)
            if part.dtype != tensor.dtype:
                fail(f"{operation}: tensors of {tensor.dtype} and {part.dtype}: give them the same "
                     "type")
        if len(parts) == self._size and parts[self._rank].numel() != tensor.numel():
            fail(f"{operation}: the tensor has {tensor.numel()} elements, and its place in the list "
                 f"{parts[self._rank].numel()}: give both the same shape")

    def all_gather_single(self, output, tensor, opts=None):
        check("all_gather_into_tensor", output)
        tensor = single("all_gather_into_tensor", [tensor]).contiguous()
        if output.numel() != tensor.numel() * self._size or output.dtype != tensor.dtype:
            fail(f"all_gather_into_tensor: the output has {output.numel()} elements of "
                 f"{output.dtype} and needs {tensor.numel() * self._size} of {tensor.dtype}")
        dtype, scale = moved_as(tensor)
        data, finish = self._writable(output.detach(), False)
        return self._start("_all_gather_base", "wring_allgather",
                           (address_of(tensor), address_of(data), tensor.numel() * scale, dtype),
                           [output], (tensor, data), opts, finish, self._what(tensor))

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        return PythonWorks([self.all_gather_single(output, tensor, opts)
                            for output, tensor in zip(outputs, inputs)])

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather_coalesced(self, outputs, inputs, opts=None):
        return PythonWorks([self.allgather([[each[i] for each in outputs]], [tensor], opts)
                            for i, tensor in enumerate(inputs)])

    def reduce_scatter(self, outputs, inputs, opts):
        output, parts = single("reduce_scatter", outputs), inputs[0]
        if len(inputs) != 1 or len(parts) != self._size:
            fail(f"reduce_scatter: needs a list of one tensor for each of the {self._size} ranks")
        self._check_parts("reduce_scatter", output, parts)
        op, factor = reduction_of("reduce_scatter", opts.reduceOp, output)
        flat = join(parts)
        data, finish = self._writable(output, False)
        even = all(part.numel() == output.numel() for part in parts)
        length = output.numel() if even else array_of([part.numel() for part in parts])
        return self._start("reduce_scatter",
                           "wring_reduce_scatter" if even else "wring_reduce_scatterv",
                           (address_of(flat), address_of(data), length, DTYPES[output.dtype], op),
                           outputs, (flat, data, length), opts, finish, self._what(output),
                           factor=factor)

    def reduce_scatter_single(self, output, tensor, opts):
        out = single("reduce_scatter_tensor", [output])
        tensor = single("reduce_scatter_tensor", [tensor]).contiguous()
        if out.numel() * self._size != tensor.numel() or out.dtype != tensor.dtype:
            fail(f"reduce_scatter_tensor: the input has {tensor.numel()} elements of {tensor.dtype} "
                 f"and needs {out.numel() * self._size} of {out.dtype}")
        op, factor = reduction_of("reduce_scatter_tensor", opts.reduceOp, out)
        data, finish = self._writable(out, False)
        return self._start("_reduce_scatter_base", "wring_reduce_scatter",
                           (address_of(tensor), address_of(data), out.numel(), DTYPES[out.dtype], op),
                           [output], (tensor, data), opts, finish, self._what(out),
                           factor=factor)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts):
        return PythonWorks([self.reduce_scatter_single(output, tensor, opts)
                            for output, tensor in zip(outputs, inputs)])

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def gather(self, outputs, inputs, opts):
        self._check_rank("gather", opts.rootRank)
        tensor, root = single("gather", inputs).contiguous(), opts.rootRank == self._rank
        flat = finish = None
        parts = outputs[0] if root else []
        if root:
            self._check_parts("gather", tensor, parts)
            if len(parts) != self._size or any(one.numel() != tensor.numel() for one in parts):
                fail(f"gather: the root needs a list of {self._size} tensors like what is gathered")
            flat, finish = self._parts(parts)
        dtype, scale = moved_as(tensor)
        return self._start("gather", "wring_gather",
                           (address_of(tensor), address_of(flat), tensor.numel() * scale, dtype,
                            opts.rootRank), parts, (tensor, flat), opts, finish,
                           self._what(tensor))

    def scatter(self, outputs, inputs, opts):
        self._check_rank("scatter", opts.rootRank)
        output, root = single("scatter", outputs), opts.rootRank == self._rank
        flat = None
        if root:
            parts = inputs[0]
            self._check_parts("scatter", output, parts)
            if len(parts) != self._size or any(one.numel() != output.numel() for one in parts):
                fail(f"scatter: the root needs a list of {self._size} tensors like the output")
            flat = join(parts)
        data, finish = self._writable(output, False)
        dtype, scale = moved_as(output)
        return self._start("scatter", "wring_scatter",
                           (address_of(flat), address_of(data), output.numel() * scale, dtype,
                            opts.rootRank), outputs, (flat, data), opts, finish,
                           self._what(output))

    def alltoall(self, outputs, inputs, opts=None):
        if len(outputs) != self._size or len(inputs) != self._size:
            fail(f"all_to_all: needs lists of one tensor for each of the {self._size} ranks")
        for tensor in [*outputs, *inputs]:
            check("all_to_all", tensor)
        dtype, scale = moved_as(inputs[0])
        flat, finish = self._parts(outputs)
        joined = join(inputs)
        lengths = (array_of([tensor.numel() * scale for tensor in inputs]),
                   array_of([tensor.numel() * scale for tensor in outputs]))
        return self._start("all_to_all", "wring_alltoallv",
                           (address_of(joined), lengths[0], address_of(flat), lengths[1], dtype),
                           outputs, (joined, flat, lengths), opts, finish, self._what(joined))

    def alltoall_base(self, output, tensor, output_splits, input_splits, opts=None):
        out = single("all_to_all_single", [output])
        tensor = single("all_to_all_single", [tensor]).contiguous()
        dtype, scale = moved_as(tensor)
        sent = split_lengths("input", tensor, input_splits, self._size, scale)
        got = split_lengths("output", out, output_splits, self._size, scale)
        even = not output_splits and not input_splits
        if sent[self._rank] != got[self._rank]:
            fail("all_to_all_single: this rank sends itself another number of elements than it "
                 "receives: check the split sizes")
        data, finish = self._writable(out, False)
        lengths = array_of(sent), array_of(got)
        arguments = ((address_of(tensor), address_of(data), sent[0], dtype) if even else
                     (address_of(tensor), lengths[0], address_of(data), lengths[1], dtype))
        return self._start("all_to_all", "wring_alltoall" if even else "wring_alltoallv", arguments,
                           [output], (tensor, data, lengths), opts, finish,
                           self._what(tensor))

    all_to_all_single = alltoall_base

    def barrier(self, opts=None):
        return self._start("barrier", "wring_barrier", (), [], None, opts)

    def send(self, tensors, to, tag):
        self._check_rank("send", to)
        data = single("send", tensors).contiguous()
        return self._start("send", "wring_send",
                           (address_of(data), data.numel() * data.element_size(), to,
                            tag % (1 << 32)), tensors, data, None, None,
                           f"{self._what(data)}, with rank {to}", message=True)

    def _receive(self, title, tensors, source, tag):
        tensor = single(title, tensors)
        data, finish = self._writable(tensor, False)
        n_bytes = data.numel() * data.element_size()
        return self._start(title, "wring_recv",
                           (address_of(data), n_bytes, source, tag % (1 << 32)), tensors, data, None,
                           finish, self._what(tensor), received=n_bytes, message=True)

    def recv(self, tensors, source, tag):
        self._check_rank("recv", source)
        return self._receive("recv", tensors, source, tag)

    def recv_anysource(self, tensors, tag):
        return self._receive("recvAnySource", tensors, api.ANY_SOURCE, tag)

    recvAnysource = recv_anysource

    # ---- monitored barrier

    def _pass_byte(self, function, peer, tag, deadline):
        """@return whether a byte went to or came from another rank before the deadline"""
        byte, request = ctypes.create_string_buffer(1), c_void_p()
        status = getattr(self._lib, function)(self.wring_group, byte, 1, peer, tag, None,
                                              byref(request))
        while status == Status.OK:
            left = deadline - time.monotonic()
            if left <= 0:
                self._lib.wring_request_cancel(request)
                self._lib.wring_request_wait(request, abi.FOREVER, None)
                return False
            status = self._lib.wring_request_wait(request, min(SLICE_NS, int(left * 1e9) + 1), None)
            if status == Status.OK:
                return True
            if status == Status.TIMEOUT:
                status = Status.OK
        return False

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        seconds = timeout.total_seconds() if timeout is not None else self._timeout
        deadline, tag = time.monotonic() + seconds, INTERNAL_TAGS | self._barriers
        self._barriers += 1
        if self._rank != 0:
            if not (self._pass_byte("wring_send", 0, tag, deadline) and
                    self._pass_byte("wring_recv", 0, tag, deadline)):
                fail(f"Rank {self._rank} successfully reached monitoredBarrier, but received errors "
                     "while waiting for send/recv from rank 0: what that one says names the rank at "
                     "fault")
            return
        if seconds <= 0:
            fail("Rank 0 timed out in monitoredBarrier after 0 ms: give it a longer timeout")
        missing = []
        for rank in range(1, self._size):
            if (not missing or wait_all_ranks) and \
                    not self._pass_byte("wring_recv", rank, tag, deadline):
                missing.append(rank)
        if not missing:
            missing = [rank for rank in range(1, self._size)
                       if not self._pass_byte("wring_send", rank, tag, deadline)]
        if missing:
            fail(f"{'Ranks' if len(missing) > 1 else 'Rank'} {', '.join(map(str, missing))} failed to "
                 f"pass monitoredBarrier in {round(seconds * 1000)} ms")

    # ---- coalescing

    def start_coalescing(self, _device=None):
        self._coalesced = []

    def end_coalescing(self, _device=None):
        works, self._coalesced = self._coalesced, None
        return PythonWorks(works or [])

    _start_coalescing, _end_coalescing = start_coalescing, end_coalescing
