# SPDX-License-Identifier: Apache-2.0
"""The one wring session of a job, and the process groups that torch makes of it.

torch.distributed calls create() for each group with backend "wring". The default group's call opens
the session, through torch's own Store: the ranks meet there, and rank 0 makes up the job's key. Other
groups are groups of that session. Where the default group has another backend, a group of wring has a
session of its own.

Which of two classes a group is made of, all ranks agree on while they meet: the one in C++, or where
a rank cannot compile that, the one in Python.
"""
import atexit
import functools
import json
import os
import secrets
import sys
import threading
import warnings
import weakref

from .. import __version__, abi, api
from . import native, reconfigure, store_bootstrap

HELLO_SECONDS = 60  # for ranks to come, at least: some compile first
FAREWELL_SECONDS = 5  # for ranks to leave, where nothing has failed

_lock = threading.RLock()
_current = None  # the default group's session
_adopted = None  # an open session, for the next default group
_open = set()  # until they are closed
_homes = weakref.WeakValueDictionary()  # by the address of a struct wring_group: its session
_kept = []  # bootstraps, which sessions borrow


class TorchSession:
    """An open session.

    api      its api.Session, for everything that wring.api offers
    native   the module that was compiled; None: groups are made in Python
    address  by which other hosts reach this rank; "": that is unknown
    """
    name, timeout = "wring", None  # of the default group

    def __init__(self, opened, module, meeting, address=""):
        self.api, self.native, self.meeting, self.address = opened, module, meeting, address
        self.rank, self.size, self.handle = opened.rank, opened.size, opened.handle
        self.guard = None
        if module is not None:
            self.guard = module.Session(opened.release())
            module.set_hooks(_farewell, _forget)
            module.set_makers(_shrink, reconfigure.handle_of, _reopen_native)
        _open.add(self)

    @property
    def alive(self):
        if self.guard is not None:
            return not self.guard.closing
        return self.api._handle is not None

    def close(self):
        """Leave the job. Twice is fine."""
        if self.guard is not None:
            self.guard.close()
        self.api.close()
        _open.discard(self)

    def say_goodbye(self):
        """Wait a while for the other ranks to leave, too: before that they may want what was sent
        to them last."""
        if self.alive and self.meeting is not None and self.api.error() is None:
            self.meeting.leave(FAREWELL_SECONDS)

    def replace(self, name, timeout=None):
        """Become another session: wring_session_shrink() or wring_session_grow(). torch's groups of it
        end then. @return whether it is another one"""
        function = "wring_session_" + name
        if self.guard is not None:
            changed = self.api._replace(function, timeout, getattr(self.guard, name))
        else:
            from .python_group import PythonGroup
            groups = PythonGroup.await_idle(self)
            changed = self.api._replace(function, timeout)
            for group in groups if changed else ():
                group.end()
        self.rank, self.size, self.handle = self.api.rank, self.api.size, self.api.handle
        _homes[api.library().wring_session_world(self.handle)] = self
        return changed

    def shrink(self, timeout=None):
        """Go on without lost ranks, whether they are known to be lost or not."""
        if self.api.error() is None:
            self.api.abort()
        self.replace("shrink", timeout)


def _farewell(handle):
    for session in list(_open):
        if session.handle == handle:
            session.say_goodbye()


def _forget(handle):
    """The session is about to be closed by its last group: nobody may use it from here on."""
    for session in list(_open):
        if session.handle == handle:
            session.api.close()
            _open.discard(session)


def _shrink(handle):
    """What shrink_group() begins with."""
    for session in list(_open):
        if session.handle == handle:
            session.shrink()
            if session.meeting is not None:  # in which lost ranks would be waited for
                session.meeting = store_bootstrap.StoreExchange(
                    session.meeting.store, session.meeting.prefix + "/shrunk", session.rank,
                    session.size)


def reopen(group, handles, uuid, seconds, module):
    """What a group's reconfigure() begins with. @return a TorchSession"""
    global _current
    opened, address = reconfigure.open_session(group, list(handles), uuid, seconds)
    _kept.append(opened._bootstrap)
    session = TorchSession(opened, module, None, address)
    _homes[api.library().wring_session_world(session.handle)] = session
    _current = session
    return session


def _reopen_native(group, handles, uuid, timeout_ms):
    return reopen(group, handles, uuid, timeout_ms / 1000, native.load()[0]).guard


@atexit.register
def _close_all():
    crashed = getattr(sys, "last_type", None) is not None  # then peers are to hear at once
    for session in list(_open):
        if session.native is not None:
            session.native.drain(2000)
        if not crashed:
            session.say_goodbye()
        session.close()


# ---- how ranks meet -----------------------------------------------------------------------------

def _meeting(store, rank, size):
    """@return a StoreExchange with keys that nobody has used: a job may make its default group
    several times, and be restarted, with one and the same Store"""
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    times = store.add(f"wring/{restart}/opened/{rank}", 1)
    return store_bootstrap.StoreExchange(store, f"wring/{restart}/{times}", rank, size)


def _has_own_key():
    return any(os.environ.get(name) for name in ("WRING_KEY", "WRING_KEY_FILE"))


def _greet(meeting, module, reason, seconds):
    """What ranks tell each other first. @return what all of them say"""
    address = store_bootstrap.first_address(meeting.store)
    hello = {"wring": __version__, "native": module is not None, "reason": reason,
             "host": store_bootstrap.host_name(), "address": address,
             "own key": _has_own_key()}
    if meeting.rank == 0:
        hello["key"] = secrets.token_hex(32)
    said = meeting.exchange(json.dumps(hello).encode(), seconds)
    return [json.loads(one) for one in said]


def _check_alike(all_say):
    for rank, says in enumerate(all_say):
        if says["wring"] != all_say[0]["wring"]:
            raise RuntimeError(f"wring: rank {rank} has wring {says['wring']}, and rank 0 "
                               f"{all_say[0]['wring']}: install the same version on all hosts")
        if says["own key"] != all_say[0]["own key"]:
            raise RuntimeError(f"wring: WRING_KEY or WRING_KEY_FILE is set on one of the ranks 0 and "
                               f"{rank} only: set it on all ranks, or on none")


def choose_class(all_say, module, rank):
    """@return the module, or None where a rank has none
    @param all_say  [{"native": has it the module, "reason": why not}] of all ranks"""
    without = [at for at, says in enumerate(all_say) if not says["native"]]
    if not without:
        return module
    reason = all_say[without[0]]["reason"]
    if rank == without[0] and reason != native.SWITCHED_OFF:
        warnings.warn(f"wring: process groups are made in Python, which takes longer for small "
                      f"tensors: {reason}", stacklevel=2)
    return None


def _open_session(store, rank, size, seconds):
    module, reason = native.load()
    meeting = _meeting(store, rank, size)
    all_say = _greet(meeting, module, reason, max(seconds, HELLO_SECONDS))
    _check_alike(all_say)
    own = all_say[rank]
    address = store_bootstrap.choose_address(
        own["host"], own["address"], [(says["host"], says["address"]) for says in all_say])
    bootstrap = api.Bootstrap(rank, size, meeting.exchange, local_address=address, name="torch")
    _kept.append(bootstrap)
    key = None if own["own key"] else all_say[0]["key"]
    opened = api.Session(bootstrap=bootstrap, key=key)
    return TorchSession(opened, choose_class(all_say, module, rank), meeting, address)


def _open_alone(options):
    """A session of this rank, in whose place reconfigure() puts another one."""
    reconfigure.make_door(options.group_id, options.store)
    alone = api.Session(bootstrap=api.Bootstrap(0, 1, lambda blob, *_: [blob]))
    _kept.append(alone._bootstrap)
    return TorchSession(alone, native.load()[0], None)


# ---- what torch calls ---------------------------------------------------------------------------

def _session_for(options):
    """@return (session, the group's ranks in it; empty: all)"""
    global _adopted, _current
    ranks = list(options.global_ranks_in_group)
    seconds = options.timeout.total_seconds()
    with _lock:
        if ranks and _current is not None and _current.alive:
            return _current, ranks
        session = None
        if not ranks:
            session, _adopted = _adopted, None
        if session is None and getattr(options, "enable_reconfigure", False):
            session = _open_alone(options)
        if session is None:
            session = _open_session(options.store, options.group_rank, options.group_size, seconds)
        if not ranks:
            _current = session
        return session, []


def create(name, options, _backend_options=None):
    """Make a process group: what torch.distributed calls for init_process_group(), new_group().
    @param name  of the backend: "wring", or in whose place it stands"""
    session, ranks = _session_for(options)
    waits = getattr(options, "enable_reconfigure", False) and not ranks and session.meeting is None
    rank = 0 if waits else options.group_rank
    if not ranks:
        session.name, session.timeout = name, options.timeout
    timeout_ms = max(1, int(options.timeout.total_seconds() * 1000))
    if session.native is not None:
        group = session.native.make_backend(session.guard, ranks, rank, name,
                                            options.group_id, timeout_ms)
    else:
        from .python_group import PythonGroup
        group = PythonGroup(session, ranks, rank, name, options.group_id,
                            timeout_ms / 1000)
    _homes[_pointer_of(group)] = session
    if waits:
        if session.native is not None:
            session.native.await_reconfigure(group)
        else:
            group.end()
            session.close()
    return group


def register_backend(replace=None):
    """Make torch.distributed know the backend.
    @param replace  a backend in whose place wring stands: "gloo" or "mpi"; None: as
                    WRING_TORCH_REPLACE says"""
    from torch.distributed import Backend
    Backend.register_backend("wring", functools.partial(create, "wring"), extended_api=True,
                             devices=["cpu"])
    if replace is None:
        replace = os.environ.get("WRING_TORCH_REPLACE", "")
    for name in filter(None, replace.lower().split(",")):
        _replace(Backend, name)


def _replace(backends, name):
    if name not in ("gloo", "mpi"):
        raise ValueError(f"WRING_TORCH_REPLACE={name}: wring stands in the place of gloo or mpi, "
                         "which work on the CPU")
    if not hasattr(backends, "_ensure_backend_registered"):
        raise RuntimeError(f"WRING_TORCH_REPLACE={name}: this version of torch makes its own groups in "
                           "another way: install a newer one, or name the backend wring")
    backends._plugins.pop(name.upper(), None)
    # its type is no more that of the backend it replaces: torch takes memory of those for its own
    backends.register_backend(name, functools.partial(create, name), extended_api=True,
                              devices=["cpu"])


def adopt(session, store):
    """Make torch's default group of a TorchSession that is open.
    @param store  where all its ranks meet; nobody has used it so far"""
    global _adopted
    from torch import distributed
    session.meeting = store_bootstrap.StoreExchange(store, "wring/adopted", session.rank, session.size)
    more = {} if session.timeout is None else {"timeout": session.timeout}
    _adopted = session
    try:
        distributed.init_process_group(session.name, store=store, rank=session.rank,
                                       world_size=session.size, **more)
    finally:
        _adopted = None


# ---- what hooks ask ------------------------------------------------------------------------------

def current():
    """@return the TorchSession of the default group; None: there is none"""
    return _current if _current is not None and _current.alive else None


def _backend_of(group):
    import torch
    from torch import distributed
    group = group or distributed.group.WORLD
    try:
        return group._get_backend(torch.device("cpu"))
    except RuntimeError:  # no backend for tensors of the CPU
        return None


def group_of(group=None):
    """@return the address of the struct wring_group of a process group, or None: it is no group of
    wring's. None stands for the default group."""
    backend = _backend_of(group)
    pointer = _pointer_of(backend) if backend is not None else 0
    return pointer if _home_of(pointer) is not None else None


def of(group=None):
    """@return the TorchSession that a process group of wring's is a group of; None: it is none"""
    return _home_of(group_of(group))


def _pointer_of(backend):
    pointer = getattr(backend, "wring_group", None)  # a group in Python
    for session in list(_open):
        if not pointer and session.native is not None:
            pointer = session.native.group_pointer(backend)
    return pointer or 0


def _home_of(pointer):
    home = _homes.get(pointer)
    return home if home is not None and home.alive else None
