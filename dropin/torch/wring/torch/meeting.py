# SPDX-License-Identifier: Apache-2.0
"""Sessions of wring for torch's process groups, whatever these groups' own backend is.

Ranks meet through the Store that the group itself met by. Each hook has a session of its own, so that
names of tensors of several models do not meet, and WRING_PLAN=auto sees one model's iterations.
"""
import json
import os
import secrets

import torch.distributed as dist
from torch.distributed import distributed_c10d

from .. import api
from . import session, store_bootstrap

MEET_SECONDS = 300


class _Meeting:
    """Exchanges by the Store of a process group, until wring's own session of it, if it is of wring's,
    has lost a rank: nobody waits for that one."""

    def __init__(self, group, store, prefix):
        self.home = session.of(group)
        self.by_store = store_bootstrap.StoreExchange(store, prefix, dist.get_rank(group),
                                                      dist.get_world_size(group))

    def _failure(self):
        return self.home.api.error() if self.home is not None and self.home.alive else None

    def exchange(self, blob, seconds, called_off=None):
        def is_over():
            return self._failure() is not None or (called_off is not None and called_off())
        try:
            return self.by_store.exchange(blob, seconds, is_over)
        except store_bootstrap.CalledOff:
            failure = self._failure()
            if failure is None:
                raise
            raise failure from None


def open_session(group=None, settings=None):
    """@return an api.Session of a process group's ranks, in its order. Collective.
    @param group     None: the default one
    @param settings  {"WRING_X": value}, over the environment's"""
    if not dist.is_initialized():
        raise RuntimeError("wring needs torch.distributed.init_process_group() first")
    group = group or dist.group.WORLD
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    if size == 1:
        return api.Session(settings=settings,
                           bootstrap=api.Bootstrap(0, 1, lambda blob, *_: [blob]))
    store = distributed_c10d._get_process_group_store(group)
    # a Store may outlive groups, and keep keys of one of the same name
    number = (store.add("wring/hooks/arrivals", 1) - 1) // size
    meeting = _Meeting(group, store, f"wring/hooks/{number}")
    own = {"host": store_bootstrap.host_name(), "address": store_bootstrap.first_address(store),
           "has key": any(map(os.environ.get, ("WRING_KEY", "WRING_KEY_FILE")))}
    if rank == 0:
        own["key"] = secrets.token_hex(32)  # who may read the Store may take part
    met = [json.loads(blob) for blob in meeting.exchange(json.dumps(own).encode(), MEET_SECONDS)]
    for other, says in enumerate(met):
        if says["has key"] != own["has key"]:
            raise RuntimeError(f"wring: WRING_KEY or WRING_KEY_FILE is set on one of the ranks {rank} "
                               f"and {other} only: set it on all ranks, or on none")
    address = store_bootstrap.choose_address(own["host"], own["address"],
                                             [(says["host"], says["address"]) for says in met])
    return api.Session(key=None if own["has key"] else met[0]["key"], settings=settings,
                       bootstrap=api.Bootstrap(rank, size, meeting.exchange, local_address=address,
                                               name="torch"))
