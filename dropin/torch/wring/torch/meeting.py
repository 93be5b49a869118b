# SPDX-License-Identifier: Apache-2.0
"""Sessions of wring for torch's process groups, whatever these groups' own backend is.

Ranks meet through the Store that the group itself met by. Each hook has a session of its own, so that
names of tensors of several models do not meet, and WRING_PLAN=auto sees one model's iterations.
"""
import torch.distributed as dist
from torch.distributed import distributed_c10d

from .. import api
from . import store_bootstrap

MEET_SECONDS = 300


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
    exchange = store_bootstrap.StoreExchange(store, f"wring/hooks/{number}", rank, size)
    host, address = store_bootstrap.host_name(), store_bootstrap.first_address(store)
    met = exchange.exchange(f"{host}\n{address}".encode(), MEET_SECONDS)
    everyone = [tuple(blob.decode().split("\n")) for blob in met]
    own = store_bootstrap.choose_address(host, address, everyone)
    return api.Session(settings=settings, bootstrap=api.Bootstrap(
        rank, size, exchange.exchange, local_address=own, name="torch"))
