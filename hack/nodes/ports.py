"""Ports of loopback for programs that are told theirs before they listen on it."""

from __future__ import annotations

import contextlib
import random
import socket

from nodes.shell import NodeError

# The kernel gives ports from 32768 on to whoever asks for any, and to every connection
# that is made: a port of those may be taken before its program listens.
PORTS = range(20_000, 30_000)


def free_ports(count: int) -> list[int]:
    """Return ports without a listener, which the kernel gives to no other program.

    Raises:
        NodeError: there are not so many.
    """
    free: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with contextlib.suppress(OSError):
            socket.create_server(("127.0.0.1", port)).close()
            free.append(port)
        if len(free) == count:
            return free
    raise NodeError(f"fewer than {count} ports of {PORTS} are free")
