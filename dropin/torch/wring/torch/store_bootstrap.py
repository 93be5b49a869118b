# SPDX-License-Identifier: Apache-2.0
"""How the ranks of a job meet through torch's Store: wring/bootstrap.h's one operation, exchange.

Each rank puts its blob into the Store, rank 0 joins all of them, and everyone reads the joined one.
So the Store answers some four requests a rank, not one for each pair of ranks.

Nothing here waits inside the Store: torch logs a warning for each short wait that ends without a
result, and a wait holds the connection that other threads of the process use.
"""
import os
import socket
import struct
import time

from ..abi import Status

SHORTEST_PAUSE, LONGEST_PAUSE = 0.0002, 0.02  # seconds between two looks into the Store
ELSEWHERE = "192.0.2.1"  # an address that is nobody's (RFC 5737): it shows the default route


class Absent(TimeoutError):
    """A rank did not come in time."""

    def __init__(self, rank, text):
        super().__init__(text)
        self.rank = rank


class CalledOff(Exception):
    """The session has failed or is being closed while its ranks met."""
    status = Status.CLOSED


class StoreExchange:
    """Exchanges of one meeting of `size` ranks, all of whose keys begin with `prefix`."""

    def __init__(self, store, prefix, rank, size):
        self.store, self.prefix, self.rank, self.size = store, prefix, rank, size
        self.number = 0

    def _key(self, what, number):
        return f"{self.prefix}/{number}/{what}"

    def _there(self, keys, deadline, called_off):
        """@return whether all keys came before the deadline, a time of time.monotonic()"""
        pause = SHORTEST_PAUSE
        while not self.store.check(keys):
            if called_off is not None and called_off():
                raise CalledOff
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)
        return True

    def _gather(self, deadline, called_off):
        """Rank 0 joins all blobs, or says who is missing."""
        keys = [self._key(rank, self.number) for rank in range(self.size)]
        if not self._there(keys, deadline, called_off):
            missing = [rank for rank, key in enumerate(keys) if not self.store.check([key])]
            self.store.set(self._key("all", self.number), b"-" + struct.pack("<i", missing[0]))
            return
        blobs = [bytes(self.store.get(key)) for key in keys]
        lengths = struct.pack(f"<{self.size}Q", *map(len, blobs))
        self.store.set(self._key("all", self.number), b"+" + lengths + b"".join(blobs))
        if self.number > 0:  # everyone has come here, so has read what was before
            for what in [*range(self.size), "all"]:
                self._forget(self._key(what, self.number - 1))

    def _forget(self, key):
        try:
            self.store.delete_key(key)
        except RuntimeError:
            pass  # not every kind of Store can: then a few hundred bytes stay

    def exchange(self, blob, seconds, called_off=None):
        """Contribute a blob. @return all of them, in rank order. Raises Absent, CalledOff."""
        deadline = time.monotonic() + seconds
        self.store.set(self._key(self.rank, self.number), blob)
        if self.rank == 0:
            self._gather(deadline, called_off)
        patience = deadline + (0 if self.rank == 0 else 2)  # rank 0 knows better who is missing
        if not self._there([self._key("all", self.number)], patience, called_off):
            raise Absent(0, "rank 0 did not come to meet the others in time")
        joined = bytes(self.store.get(self._key("all", self.number)))
        self.number += 1
        if joined[:1] == b"-":
            missing, = struct.unpack("<i", joined[1:])
            raise Absent(missing, f"rank {missing} did not come to meet the others in time")
        lengths = struct.unpack_from(f"<{self.size}Q", joined, 1)
        at, blobs = 1 + 8 * self.size, []
        for length in lengths:
            blobs.append(joined[at:at + length])
            at += length
        return blobs

    def leave(self, seconds):
        """Say that this rank leaves, and wait so long for the others to say so."""
        try:
            self.store.set(f"{self.prefix}/left/{self.rank}", b"")
            self._there([f"{self.prefix}/left/{rank}" for rank in range(self.size)],
                        time.monotonic() + seconds, None)
        except (RuntimeError, OSError):
            pass  # the Store has gone: so has the rank that kept it


# ---- addresses ----------------------------------------------------------------------------------

def _towards(host):
    """The local address that reaches a host, as text; "" where none does. Sends nothing."""
    try:
        found = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)
    except OSError:
        return ""
    for family, kind, protocol, _name, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(address)
                return probe.getsockname()[0].split("%")[0]
        except OSError:
            continue
    return ""


def is_loopback(address):
    return address == "" or address.startswith("127.") or address == "::1"


def store_host(store):
    """Where the Store's server is; "" for Stores that have none."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return getattr(store, "host", "")


def host_name():
    """What tells this host apart from others, also those of the same name, and network
    namespaces of one host from each other."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
    except OSError:
        boot = socket.gethostname()
    try:
        return f"{boot}/{os.readlink('/proc/self/ns/net')}"
    except OSError:
        return boot


def first_address(store):
    """The local address towards the Store's server, before anybody is known."""
    host = store_host(store)
    return _towards(host) if host else ""


def default_address():
    """The local address of the default route; "" where there is none."""
    return _towards(ELSEWHERE)


def choose_address(own_host, own_address, others):
    """The local address that reaches the others.
    @param others  [(host name, address)] of all ranks, in rank order"""
    far = [address for host, address in others if host != own_host]
    if not far:
        return "127.0.0.1"
    if not is_loopback(own_address):
        return own_address
    for address in far:  # this is the Store's own host, whose name may mean its loopback here
        if not is_loopback(address):
            found = _towards(address)
            if not is_loopback(found):
                return found
    return _towards(ELSEWHERE)
