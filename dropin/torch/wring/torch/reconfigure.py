# SPDX-License-Identifier: Apache-2.0
"""A group that becomes one of other processes: torch's experimental reconfigure().

    init_process_group("wring", enable_reconfigure=True)
    handle = dist._get_reconfigure_handle()             the program tells it to the others, anew each time
    dist._reconfigure(uuid, handles)                    all whose handles these are call it

A handle says where the others meet a process, should it be the first of them, and a part of the key
that they share: whoever knows all handles may take part. After reconfigure() each has another one.
"""
import hashlib
import json
import os
import secrets
import socket

from .. import __version__, api
from . import store_bootstrap

BACKLOG = 1024

_doors = {}  # by the name of a group: its _Door


class _Door:
    """Where others meet this process, once."""

    def __init__(self, address):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.socket = socket.create_server((address, 0), family=family, backlog=BACKLOG)
        port = self.socket.getsockname()[1]
        self.handle = json.dumps({"wring": __version__, "key": secrets.token_hex(16),
                                  "root": f"[{address}]:{port}" if ":" in address
                                  else f"{address}:{port}"})


def make_door(group, store):
    """For the first reconfigure() of a group."""
    address = store_bootstrap.first_address(store)
    if store_bootstrap.is_loopback(address):
        address = store_bootstrap.default_address() or "127.0.0.1"
    _doors[group] = _Door(address), address


def handle_of(group):
    if group not in _doors:
        raise RuntimeError("wring: this group cannot be reconfigured: make it by "
                           "init_process_group(\"wring\", enable_reconfigure=True)")
    return _doors[group][0].handle


def open_session(group, handles, uuid, seconds):
    """@return (an api.Session of those whose handles these are, the local address). Collective."""
    own = handle_of(group)
    if own not in handles:
        raise RuntimeError("wring: reconfigure: the handle of this process is not among the handles: "
                           "ask for it anew before each reconfigure()")
    first = json.loads(handles[0])
    if any(json.loads(handle)["wring"] != __version__ for handle in handles):
        raise RuntimeError("wring: reconfigure: the processes have different versions of wring: "
                           "install the same one on all hosts")
    door, address = _doors[group]
    _doors[group] = _Door(address), address
    rank, size = handles.index(own), len(handles)
    if size == 1:
        door.socket.close()
        return api.Session(bootstrap=api.Bootstrap(0, 1, lambda blob, *_: [blob])), address
    key = hashlib.sha256("\n".join([*handles, str(uuid)]).encode()).hexdigest()
    root_fd = os.dup(door.socket.fileno()) if rank == 0 else 0
    door.socket.close()
    settings = {"WRING_JOIN_TIMEOUT": f"{max(1, int(seconds * 1000))}ms"}
    return api.Session(root=first["root"], rank=rank, size=size, key=key, root_fd=root_fd,
                       settings=settings), address
