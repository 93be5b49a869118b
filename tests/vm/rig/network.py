# SPDX-License-Identifier: Apache-2.0
"""
The segments that join machines: a UNIX socket between two, a hub inside the first for more.

Rail r is a segment of its own, with one network card of every machine on it.
"""
import os


def socket_path(run, rail, machine):
    return os.path.join(run, f"rail{rail}.{machine}")


def sockets_to_listen_on(run, machines, rails):
    """Must be there before the other machines start."""
    return [socket_path(run, rail, other) for rail in range(rails) for other in range(1, machines)]


def stream(name, listens, path):
    return ["-netdev", f"stream,id={name},server={'on' if listens else 'off'},addr.type=unix,"
                       f"addr.path={path}"]


def hub(run, rail, machines):
    """The first machine's: a port of its own, and one for each other machine."""
    arguments = ["-netdev", f"hubport,id=rail{rail},hubid={rail}"]
    for other in range(1, machines):
        name = f"way{rail}to{other}"
        arguments += stream(name, True, socket_path(run, rail, other))
        arguments += ["-netdev", f"hubport,id=port{name},hubid={rail},netdev={name}"]
    return arguments


def arguments_for(machine, run, machines, rails):
    """QEMU's, for the network cards of one machine; none when it is alone."""
    arguments = []
    for rail in range(rails if machines > 1 else 0):
        if machine > 0:
            arguments += stream(f"rail{rail}", False, socket_path(run, rail, machine))
        elif machines == 2:
            arguments += stream(f"rail{rail}", True, socket_path(run, rail, 1))
        else:
            arguments += hub(run, rail, machines)
        mac = f"52:54:00:77:{rail:02x}:{machine + 1:02x}"
        arguments += ["-device", f"virtio-net-pci,netdev=rail{rail},romfile=,mac={mac}"]
    return arguments
