"""Who is at the other end of a unix socket, and what they may ask of the daemon.

The kernel notes a process's user and groups when it connects. gRPC does not look at
that, so the listener does, before gRPC sees a byte of the connection.
"""

from __future__ import annotations

import grp
import os
import socket
import struct
from enum import Enum
from typing import NamedTuple

from nriplugin.errors import ConfigError

# Linux' numbers; not every Python has a name for the second.
_UCRED = struct.Struct("iII")
_SO_PEERGROUPS = 59
# As much as Python's getsockopt takes: 256 groups. A process in more of them is taken
# for a member of its own primary group alone.
_GROUPS_BYTES = 1024


class Access(Enum):
    """What a client may call."""

    NONE = "none"
    READING = "reading"  # what changes nothing
    ALL = "all"


class Peer(NamedTuple):
    """The process that has connected."""

    pid: int
    uid: int
    groups: frozenset[int]


def peer_of(connection: socket.socket) -> Peer:
    """Return who has connected, by the kernel's notes.

    Raises:
        OSError: the kernel does not say.
    """
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, gid = _UCRED.unpack(raw)
    try:
        listed = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _GROUPS_BYTES)
    except OSError:
        listed = b""
    groups = struct.unpack(f"{len(listed) // 4}I", listed)
    return Peer(pid, uid, frozenset((gid, *groups)))


def access_of(peer: Peer, group: int | None, own_uid: int | None = None) -> Access:
    """Return what a peer may call.

    Args:
        peer: who has connected.
        group: the group that may read; None if there is none.
        own_uid: the user of this process; None to ask for it.
    """
    own_uid = os.geteuid() if own_uid is None else own_uid
    if peer.uid in (0, own_uid):
        return Access.ALL
    if group is not None and group in peer.groups:
        return Access.READING
    return Access.NONE


def group_id(option: str, name: str) -> int:
    """Return the number of a group that is given by its name or number.

    Raises:
        ConfigError: this machine has no such group.
    """
    if name.isascii() and name.isdecimal() and int(name) < 2**32 - 1:
        return int(name)
    try:
        return grp.getgrnam(name).gr_gid
    except (KeyError, ValueError) as exc:
        expected = "the name or number of a group of this machine"
        raise ConfigError(f"{option}: {name!r:.80}, expected {expected}") from exc
