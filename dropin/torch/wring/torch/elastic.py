# SPDX-License-Identifier: Apache-2.0
"""torch's default process group goes on without lost ranks, and lets newcomers in.

    elastic.init()                          in place of init_process_group()
    net, state, steps = ..., DDPState(...), elastic.Steps()
    ...
    try:
        loss(model(x), y).backward()
        steps.arrive()                      all ranks have got this step's gradients
    except RuntimeError:
        if not elastic.has_lost(state):
            raise
        net = elastic.unwrap(model)
        elastic.shrink(state)               the others have a new default group
        if steps.settle():
            optimizer.step()                the gradients at hand are those of all ranks
        model = DistributedDataParallel(net)

Neither torch's Store nor any rank is needed for that: the ranks agree by their session of wring, and
the first one that is left keeps a new Store. All process groups of before are destroyed, and so is what
was made of them: DDP's models are to be wrapped anew. docs/pytorch.md has the loop.
"""
import array
import json
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from .. import api
from ..abi import Dtype, Status
from . import native, session, store_bootstrap

STORE_SECONDS = 60  # for the ranks that are left to reach their new Store
LOOK_SECONDS, LOSS_SECONDS = 0.005, 5  # a Store that has gone may be noticed before its rank has
LOST = (Status.PEER, Status.CANCELLED)  # of sessions that may shrink


# ---- a group of a session -----------------------------------------------------------------------

def _tell_all(opened, thing):
    """@return what each rank of a session says, in their order"""
    said = json.dumps(thing).encode()
    lengths = array.array("q", bytes(8 * opened.size))
    opened.world.allgather(array.array("q", [len(said)]), lengths)
    joined = bytearray(sum(lengths))
    opened.world.allgather(said, joined, elems=list(lengths), dtype=Dtype.BYTE)
    at, all_say = 0, []
    for length in lengths:
        all_say.append(json.loads(joined[at:at + length]))
        at += length
    return all_say


def _reach_store(home, address, port):
    """Rank 0 has made it already. TCPStore waits where nobody answers: here only until rank 0 is known
    to be lost."""
    end, seconds = time.monotonic() + STORE_SECONDS, 1
    while True:
        try:
            return dist.TCPStore(address, port, home.size, False, timedelta(seconds=seconds),
                                 wait_for_workers=False)
        except RuntimeError:
            if home.api.error() is not None or time.monotonic() > end:
                raise
        seconds *= 2


def _make_store(home):
    """A Store of a session's ranks, kept by rank 0."""
    own = {"host": store_bootstrap.host_name(), "address": home.address}
    if not own["address"]:
        own["address"] = store_bootstrap.default_address()
    all_say = _tell_all(home.api, own)
    address = store_bootstrap.choose_address(
        own["host"], own["address"], [(says["host"], says["address"]) for says in all_say])
    seconds, store = timedelta(seconds=STORE_SECONDS), None
    if home.rank == 0:
        store = dist.TCPStore(address, 0, home.size, True, seconds, wait_for_workers=False)
    where = _tell_all(home.api, {"address": address, "port": store.port if store else 0})[0]
    if store is None:
        store = _reach_store(home, where["address"], where["port"])
    store.set_timeout(seconds if home.timeout is None else home.timeout)
    return store


def _enter(home):
    """The default group becomes one of all ranks of a session."""
    if dist.is_initialized():
        dist.destroy_process_group()
    session.adopt(home, _make_store(home))


def _home():
    home = session.current()
    if home is None:
        raise RuntimeError("wring: there is no default process group of wring's: call "
                           "wring.torch.elastic.init(), or init_process_group(\"wring\")")
    return home


def init(timeout=None):
    """Make the default process group: of the ranks that `wring run` started, or as a newcomer, with
    WRING_JOIN; else by init_process_group("wring").

    timeout  a timedelta, of operations of the group
    """
    if not any(map(os.environ.get, ("WRING_JOIN", "WRING_RANK"))):
        dist.init_process_group("wring", timeout=timeout)
        return
    module, reason = native.load()
    opened = api.Session()
    opened.commit()  # a newcomer's, of no buckets
    opened.share()
    all_say = _tell_all(opened, {"native": module is not None, "reason": reason})
    home = session.TorchSession(opened, session.choose_class(all_say, module, opened.rank), None)
    home.timeout = timeout
    _enter(home)


# ---- fewer ranks, and more ----------------------------------------------------------------------

def has_lost(*states, patience=LOSS_SECONDS):
    """Has an operation of the default group, or of DDPStates, failed as ranks were lost?

    patience  seconds to wait for that, where all is well so far
    """
    home, end = session.current(), time.monotonic() + patience
    sessions = [state.session for state in states if state.session is not None]
    sessions += [home.api] if home is not None else []
    while True:
        failures = [failure for failure in (one.error() for one in sessions) if failure is not None]
        if failures or time.monotonic() > end:
            return any(failure.status in LOST for failure in failures)
        time.sleep(LOOK_SECONDS)


def unwrap(model):
    """@return the module in a DistributedDataParallel, which is of no more use then"""
    model._remove_autograd_hooks()
    return model.module


def _take_along(state, timeout):
    """A DDPState's own session loses the same ranks. @return whether it has"""
    opened = torch.tensor([int(state.session is not None)])
    dist.all_reduce(opened, op=dist.ReduceOp.MIN)
    if not opened.item():  # it was being opened somewhere: nothing is held back yet
        state.forget()
        return True
    state.shrink(timeout)
    return state.session.size == dist.get_world_size()


def shrink(*states, timeout=None):
    """After ranks were lost: a new default group of the others, which all call this. They keep their
    order. Other groups are gone.

    states   DDPStates of the default group: DDPState.shrink() says what error feedback keeps
    timeout  seconds; None: WRING_JOIN_TIMEOUT
    """
    home = _home()
    for _ in range(home.size):  # more ranks may be lost meanwhile
        home.shrink(timeout)
        try:
            _enter(home)
            if all([_take_along(state, timeout) for state in states]):
                return
        except RuntimeError:
            if not has_lost(*states):
                raise
    raise RuntimeError("wring: ranks are lost faster than the others agree on who is left")


def grow(timeout=None):
    """Let newcomers in, between two steps; all ranks call it, and then what newcomers call after
    init(). @return whether there are any: then there is a new default group"""
    home = _home()
    if not home.replace("grow", timeout):
        return False
    home.api.share()
    # its own session tells newcomers what they are to make groups of
    _tell_all(home.api, {"native": home.native is not None, "reason": native.SWITCHED_OFF})
    _enter(home)
    return True


class Steps:
    """Which steps are made, and whether one that was cut off counts.

    done   steps whose gradients all ranks have got; -1: of a newcomer, or before all have met
    ready  those whose gradients this rank has got: `done`, or one more
    """

    def __init__(self):
        self.done = self.ready = -1

    def meet(self):
        """Ranks have come, or are lost: all call this, newcomers too. @return steps that are made"""
        made = torch.tensor([max(self.done, 0)])
        dist.broadcast(made, src=0)
        self.done = self.ready = int(made.item())
        return self.done

    def arrive(self):
        """Behind backward() and before optimizer.step()."""
        self.ready = self.done + 1
        dist.barrier()
        self.done = self.ready

    def settle(self):
        """After shrink(). A step counts if some rank has passed arrive(), or if all have its
        gradients. @return whether this rank has to call optimizer.step() for it"""
        # the most of one and the least of the other, in one operation
        numbers = torch.tensor([self.done, -self.ready])
        dist.all_reduce(numbers, op=dist.ReduceOp.MAX)
        made = max(int(numbers[0]), -int(numbers[1]))
        is_behind = 0 <= self.done < made
        self.done = self.ready = made if self.done >= 0 else -1
        return is_behind
