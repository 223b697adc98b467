"""Determines the plugin's name and index and how it connects to the runtime.

There are two ways. An external plugin dials the runtime's socket and registers under
its own name and index. A plugin that the runtime launched finds three environment
variables (`ENV_NAME`, `ENV_INDEX`, `ENV_SOCKET`) and one end of a socket pair as an
inherited descriptor; that connection cannot be dialled again.

Arguments win over the environment, and the environment wins over the defaults.
"""

from __future__ import annotations

import os
import re
import socket
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.errors import ConfigError
from nriplugin.sockets import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_SOCKET = "/var/run/nri/nri.sock"
DEFAULT_NAME = "nriplugin"
# The runtime asks plugins in the order of their index and shows each one what the
# earlier ones have set, so the last plugin sees everything. At a lower index the files
# that nriplugin sets would silently win over the shares or the quota that a later
# plugin sets, because an OCI runtime writes `unified` last.
DEFAULT_INDEX = "99"

ENV_NAME = "NRI_PLUGIN_NAME"
ENV_INDEX = "NRI_PLUGIN_IDX"
ENV_SOCKET = "NRI_PLUGIN_SOCKET"

# NRI 0.12 refuses other names. Older releases accept them; the same rule is applied
# there, so that an upgrade of the runtime does not end the plugin.
_NAME = re.compile(r"[A-Za-z0-9_.+-]+")
_INDEX = re.compile(r"[0-9]{2}")


class Launch(NamedTuple):
    """A valid name and index, and the socket to dial or the inherited descriptor.

    `socket_path` is empty if `inherited_fd` is set.
    """

    name: str
    idx: str
    socket_path: str
    inherited_fd: int | None

    def connect(self) -> socket.socket:
        """Return a connected blocking socket, which the caller owns; raises OSError."""
        if self.inherited_fd is not None:
            return socket.socket(fileno=self.inherited_fd)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(self.socket_path)
        except OSError:
            sock.close()
            raise
        return sock


def launch_from(
    environ: Mapping[str, str],
    *,
    name: str | None = None,
    idx: str | None = None,
    socket_path: str | None = None,
) -> Launch:
    """Combine the arguments, the runtime's environment variables and the defaults.

    Raises:
        ConfigError: the name, the index, the path or the descriptor is not valid.
    """
    name = name or environ.get(ENV_NAME) or DEFAULT_NAME
    idx = idx or environ.get(ENV_INDEX) or DEFAULT_INDEX
    if not _NAME.fullmatch(name):
        raise ConfigError(f"name: {name!r}, expected letters, digits or any of _ . + -")
    if not _INDEX.fullmatch(idx):
        raise ConfigError(f"idx: {idx!r}, expected two digits, such as 99")
    if socket_path and len(os.fsencode(socket_path)) > MAX_BYTES:
        raise ConfigError(
            f"--nri-socket: {socket_path!r}, expected at most {MAX_BYTES} bytes"
        )
    inherited = environ.get(ENV_SOCKET)
    if inherited is None or socket_path:
        return Launch(name, idx, socket_path or DEFAULT_SOCKET, None)
    if not inherited.isdecimal():
        raise ConfigError(f"{ENV_SOCKET}: {inherited!r}, expected a descriptor number")
    return Launch(name, idx, "", int(inherited))
