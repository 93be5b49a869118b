# SPDX-License-Identifier: Apache-2.0
"""Operations of the process group in Python, from their post to their end, as work.hpp has them."""
import queue
import threading
import time
import weakref
from ctypes import byref
from datetime import timedelta

import torch
import torch.distributed as dist

from .. import abi, api
from ..abi import Status

SLICE_NS = 100_000_000  # waits come back so often, for signals and deadlines
WATCH_SECONDS = 0.1
COMPLETERS_MAX = 32


def fail(text):
    raise dist.DistBackendError(f"wring: {text}")


class _Completers:
    """Futures are completed by threads that wait for their work: callbacks may wait in their turn,
    then the next future finds nobody idle and starts another thread."""

    def __init__(self):
        self.queue, self.lock = queue.SimpleQueue(), threading.Lock()
        self.free = self.threads = 0
        self.groups = weakref.WeakSet()
        self.watching = False

    def push(self, work):
        with self.lock:
            start = self.free <= 0 and self.threads < COMPLETERS_MAX
            self.threads += start
            self.free -= not start
        if start:
            threading.Thread(target=self._run, daemon=True, name="wring-futures").start()
        self.queue.put(work)

    def _run(self):
        while True:
            work = self.queue.get()
            work._complete_future()
            work = None
            with self.lock:
                self.free += 1

    def watch(self, group):
        with self.lock:
            self.groups.add(group)
            start, self.watching = not self.watching, True
        if start:
            threading.Thread(target=self._watch, daemon=True, name="wring-watch").start()

    def _watch(self):
        while True:
            time.sleep(WATCH_SECONDS)
            groups = list(self.groups)
            for group in groups:
                group._reap()
            groups = group = None


completers = _Completers()


class PythonWork(dist.Work):
    """An operation that is under way."""

    def __init__(self, group, title, sequence, outputs, keep, timeout, finish, what):
        super().__init__()
        self._group, self._title, self._sequence = group, title, sequence
        self._outputs, self._keep, self._finish, self._what = outputs, keep, finish, what
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout if timeout > 0 else float("inf")
        self._lock = threading.Lock()  # of whoever waits for the request
        self._future_lock = threading.Lock()
        self._request = self._error = self._future = self._ended = None
        self._done = self._late = self._gave_up = self._blocks = False
        self._source = -1
        self._bytes = None  # of a receive
        self._message = False

    # ---- the request's end

    def _head(self):
        return f"{self._title} (operation {self._sequence}{self._what}) on rank {self._group._rank}"

    def _describe(self, status, result):
        session = self._group._session
        failure = session.api.error() if session.alive else None
        why = failure.text if failure is not None else ""
        if self._late:
            behind = "the other rank has not taken part" if self._message else \
                why or self._group._who_is_behind()
            return (f"{self._head()} has reached its timeout of {round(self._timeout * 1000)} ms: "
                    f"{behind}")
        if self._gave_up:
            return f"{self._head()} was aborted by the program"
        if status == Status.CANCELLED and not why:
            who = f"rank {result.rank}" if result.rank >= 0 else "another rank"
            return f"{self._head()}: {who} has aborted the group, as after a timeout there"
        if status == Status.CLOSED and not why:
            return f"{self._head()}: the process group was destroyed meanwhile"
        if not why and result.rank >= 0:
            why = f"rank {result.rank}"
        text = api.library().wring_status_text(status).decode()
        return f"{self._head()}: {why + ': ' if why else ''}{text}"

    def _end(self, status, result):
        """The request is no more. The lock is held."""
        self._request = None
        try:
            if self._bytes is not None and status in (Status.OK, Status.TRUNCATED):
                self._source = result.rank
                if status == Status.TRUNCATED or result.bytes != self._bytes:
                    fail(f"{self._head()}: rank {result.rank} has sent {result.bytes} bytes, and the "
                         f"tensor to receive into has {self._bytes}: both need the same shape and "
                         "type")
            elif status != Status.OK:
                fail(self._describe(status, result))
            if self._finish is not None:
                with torch.no_grad():
                    self._finish()
        except Exception as error:
            self._error = error
        self._finish = self._keep = None
        self._group._under_way.pop(self, None)
        self._done = True

    def _give_up(self, late):
        self._late, self._gave_up = late, not late
        if self._blocks:
            status = self._group._lib.wring_group_abort(self._group.wring_group)
        else:
            status = self._group._lib.wring_request_cancel(self._request)
        if status == Status.BUSY:
            self._group._session.kept.append((self._outputs, self._keep))

    def _step(self, ns):
        """Wait for so long. The lock is held. @return whether it is done"""
        if self._done:
            return True
        group, result = self._group, abi.WringResult()
        if not group._session.alive:
            result.rank = -1
            self._end(Status.CLOSED, result)
            return True
        if time.monotonic() >= self._deadline and not self._late:
            self._give_up(late=True)
        if self._blocks:  # its own thread says how it ends
            return False
        if ns == 0:
            status = group._lib.wring_request_test(self._request, byref(result))
        else:
            status = group._lib.wring_request_wait(self._request, ns, byref(result))
        if status in (Status.AGAIN, Status.TIMEOUT):
            return False
        self._end(status, result)
        return True

    def _await(self, until):
        """@return false: that time came first"""
        while not self._done:
            now = time.monotonic()
            if now >= until:
                return False
            left = min(until, self._deadline if not self._late else until) - now
            ns = max(1, min(SLICE_NS, int(left * 1e9))) if left < 1 else SLICE_NS
            if self._lock.acquire(timeout=ns / 1e9):
                try:
                    self._step(ns)
                finally:
                    self._lock.release()
        return True

    # ---- what torch asks

    def wait(self, timeout=timedelta(0)):
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        if not self._await(time.monotonic() + seconds if seconds > 0 else float("inf")):
            fail(f"{self._head()}: wait() has reached its timeout of {round(seconds * 1000)} ms; the "
                 "operation goes on")
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self):
        if not self._done and self._lock.acquire(blocking=False):
            try:
                self._step(0)
            finally:
                self._lock.release()
        return self._done

    def is_success(self):
        return self._done and self._error is None

    def exception(self):
        return self._error

    def synchronize(self):
        pass

    def result(self):
        return self._outputs

    def source_rank(self):
        return self._source

    _source_rank = source_rank

    def abort(self):
        if self._lock.acquire(timeout=1):
            try:
                if not self._done:
                    self._give_up(late=False)
            finally:
                self._lock.release()

    def get_future(self):
        with self._future_lock:
            if self._future is not None:
                return self._future
            ended = torch.futures.Future()
            if self.is_completed() and self._error is None:
                ended.set_result(self._outputs)
                self._future = ended
                return ended
            # Future.set_exception() is for Python alone: to C++, as in DDP, it is a value like any
            self._ended, self._future = ended, ended.then(self._outcome)
        completers.push(self)
        return self._future

    def _outcome(self, _ended):
        if self._error is not None:
            raise self._error
        return self._outputs

    def _complete_future(self):
        self._await(float("inf"))
        self._ended.set_result(None)


class PythonWorks(dist.Work):
    """Several operations that are waited for together."""

    def __init__(self, works):
        super().__init__()
        self._works = works

    def wait(self, timeout=timedelta(0)):
        first = None
        for work in self._works:
            try:
                work.wait(timeout)
            except dist.DistBackendError as error:
                first = first or error
        if first is not None:
            raise first
        return True

    def is_completed(self):
        return all(work.is_completed() for work in self._works)

    def is_success(self):
        return all(work.is_success() for work in self._works)

    def exception(self):
        return next((work.exception() for work in self._works if work.exception()), None)

    def result(self):
        return [tensor for work in self._works for tensor in work.result()]

    def get_future(self):
        tensors = self.result()
        return torch.futures.collect_all([work.get_future() for work in self._works]).then(
            lambda all_of_them: [tensors, [one.value() for one in all_of_them.value()]][0])
