"""Which unix sockets are listened on, and which processes are connected to one.

The kernel tells the peer of a connection over netlink (sock_diag(7)), and shows the
sockets of a process as links in /proc/PID/fd. Both are limited to the network namespace
and the processes that this process may see, so "nothing found" is no proof of absence.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import time
from contextlib import suppress
from typing import NamedTuple

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_DUMP_REQUEST = 0x301
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_ALL_STATES = 0xFFFFFFFF
_SHOW_NAME, _SHOW_PEER = 1, 4
_ATTRIBUTE_NAME, _ATTRIBUTE_PEER = 0, 2
_STATE_LISTENING = 10

_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBHIIIII")
_SOCKET = struct.Struct("=BBBBIII")
_ATTRIBUTE = struct.Struct("=HH")

_TIMEOUT_S = 0.5
_INODE = re.compile(r"socket:\[([0-9]+)\]")


class UnixSocket(NamedTuple):
    """A socket as the kernel shows it; `name` and `peer` are empty and 0 without."""

    inode: int
    state: int
    name: str
    peer: int


def listeners_in(text: str) -> set[str]:
    """Return the names of listening sockets in the text of /proc/net/unix."""
    found = set()
    for line in text.splitlines()[1:]:
        words = line.split(maxsplit=7)
        # Num RefCount Protocol Flags Type St Inode Path; the flag is __SO_ACCEPTCON.
        if len(words) == 8 and words[3] == "00010000":
            found.add(words[7])
    return found


def sockets_of_kernel() -> list[UnixSocket]:
    """Return the unix sockets of this network namespace.

    Raises:
        OSError: the kernel does not tell.
    """
    body = _REQUEST.pack(
        socket.AF_UNIX, 0, 0, _ALL_STATES, 0, _SHOW_NAME | _SHOW_PEER, 0, 0
    )
    header = _HEADER.pack(
        *(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_DUMP_REQUEST, 1, 0)
    )
    found: list[UnixSocket] = []
    with socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG
    ) as netlink:
        netlink.settimeout(_TIMEOUT_S)
        netlink.send(header + body)
        while True:
            messages, ended = parse_messages(netlink.recv(1 << 18))
            found += messages
            if ended:
                return found


def parse_messages(data: bytes) -> tuple[list[UnixSocket], bool]:
    """Read the messages of one datagram, and whether the list has ended.

    Raises:
        OSError: the kernel answered with an error.
    """
    found: list[UnixSocket] = []
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, _, _, _ = _HEADER.unpack_from(data, at)
        if kind == _NLMSG_ERROR:
            (code,) = struct.unpack_from("=i", data, at + _HEADER.size)
            raise OSError(-code, os.strerror(-code))
        if kind == _NLMSG_DONE:
            return found, True
        found.append(_socket_in(data[at + _HEADER.size : at + length]))
        at += max((length + 3) & ~3, _HEADER.size)
    return found, False


def _socket_in(data: bytes) -> UnixSocket:
    _, _, state, _, inode, _, _ = _SOCKET.unpack_from(data)
    name, peer = "", 0
    at = _SOCKET.size
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        value = data[at + _ATTRIBUTE.size : at + length]
        if kind == _ATTRIBUTE_NAME:
            name = os.fsdecode(value.rstrip(b"\0"))
        elif kind == _ATTRIBUTE_PEER:
            (peer,) = struct.unpack("=I", value)
        at += max((length + 3) & ~3, _ATTRIBUTE.size)
    return UnixSocket(inode, state, name, peer)


def clients_of(sockets: list[UnixSocket], names: set[str]) -> set[int] | None:
    """Return the inodes of the sockets that are connected to a listening socket.

    None if no socket listens under one of the names: then the kernel shows the sockets
    of another network namespace than that of the listening process.
    """
    if not any(one.state == _STATE_LISTENING and one.name in names for one in sockets):
        return None
    # The accepted end of a connection has the name of the listening socket.
    return {one.peer for one in sockets if one.name in names and one.peer}


def owners_of(proc: str, inodes: set[int], patience_s: float = 0.5) -> dict[int, int]:
    """Return inode -> PID for the sockets whose process can be seen."""
    owners: dict[int, int] = {}
    deadline = time.monotonic() + patience_s
    for name in os.listdir(proc):
        if len(owners) == len(inodes) or time.monotonic() > deadline:
            break
        if not name.isdecimal():
            continue
        for inode in _open_sockets(f"{proc}/{name}/fd"):
            if inode in inodes:
                owners.setdefault(inode, int(name))
    return owners


def _open_sockets(directory: str) -> list[int]:
    """Return the inodes of the sockets that a process has open."""
    found = []
    with suppress(OSError):  # the process has ended, or may not be looked at
        for fd in os.listdir(directory):
            with suppress(OSError):  # the file was closed meanwhile
                match = _INODE.fullmatch(os.readlink(f"{directory}/{fd}"))
                if match is not None:
                    found.append(int(match[1]))
    return found
