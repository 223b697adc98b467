"""A network of its own for a cluster, where a node's address is not on loopback.

An API server refuses to forward requests to a node on loopback, where the nodes of the
test bed are, and Kubernetes' own tests ask kubelet for its configuration in that way.
In a network namespace of its own, an address for it disturbs nobody and is seen by
nobody.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import threading
from typing import TYPE_CHECKING

from nodes.shell import run

if TYPE_CHECKING:
    from collections.abc import Iterator

CLONE_NEWNET = 0x40000000
ADDRESS = "192.0.2.1"
_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def own_network() -> Iterator[None]:
    """Have this thread, and all that it starts, in a network of its own for a while."""
    before = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    _check(_libc.unshare(CLONE_NEWNET))
    try:
        run("ip", "link", "set", "lo", "up")
        run("ip", "address", "add", f"{ADDRESS}/32", "dev", "lo")
        yield
    finally:
        _check(_libc.setns(before, CLONE_NEWNET))
        os.close(before)


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"network namespace: {os.strerror(number)}")


@contextlib.contextmanager
def forwarded(port: int) -> Iterator[None]:
    """Pass connections to a port of the address on to the same port of loopback."""
    server = socket.create_server((ADDRESS, port))

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                threading.Thread(
                    target=_serve, args=(client, port), daemon=True
                ).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield
    finally:
        # A thread that waits in accept() does not notice that a socket was closed.
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def _serve(client: socket.socket, port: int) -> None:
    with (
        contextlib.suppress(OSError),
        client,
        socket.create_connection(("127.0.0.1", port)) as node,
    ):
        back = threading.Thread(target=_copy, args=(node, client), daemon=True)
        back.start()
        _copy(client, node)
        back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(1 << 16):
            target.sendall(chunk)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
