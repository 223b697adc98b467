"""Who the plugin is and how it reaches the runtime.

Either it dials the runtime's socket, under a name and index of its own, or the
runtime launched it, with one end of a socket pair as an inherited descriptor and
exactly three environment variables.
"""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_SOCKET = "/var/run/nri/nri.sock"
DEFAULT_NAME = "nriplugin"
# The last one: a plugin is shown what those before it have set. At a lower index
# our files would silently outweigh the shares or the quota that a later plugin sets,
# because an OCI runtime writes `unified` last.
DEFAULT_INDEX = "99"

ENV_NAME = "NRI_PLUGIN_NAME"
ENV_INDEX = "NRI_PLUGIN_IDX"
ENV_SOCKET = "NRI_PLUGIN_SOCKET"

# NRI 0.12 refuses other names; older runtimes take them, but why start there.
_NAME = re.compile(r"[A-Za-z0-9_.+-]+")
_INDEX = re.compile(r"[0-9]{2}")


class Launch(NamedTuple):
    """A checked identity, and the socket to dial or the descriptor inherited."""

    name: str
    idx: str
    socket_path: str
    inherited_fd: int | None

    def connect(self) -> socket.socket:
        """Return a connected blocking socket; raises OSError."""
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
    """Put together what was given, what the runtime set, and the defaults.

    Raises:
        ConfigError: a name, idx or descriptor that no runtime would accept.
    """
    name = name or environ.get(ENV_NAME) or DEFAULT_NAME
    idx = idx or environ.get(ENV_INDEX) or DEFAULT_INDEX
    if not _NAME.fullmatch(name):
        raise ConfigError(f"name: {name!r}, expected letters, digits or any of _ . + -")
    if not _INDEX.fullmatch(idx):
        raise ConfigError(f"idx: {idx!r}, expected two digits, such as 99")
    inherited = environ.get(ENV_SOCKET)
    if inherited is None or socket_path:
        return Launch(name, idx, socket_path or DEFAULT_SOCKET, None)
    if not inherited.isdecimal():
        raise ConfigError(f"{ENV_SOCKET}: {inherited!r}, expected a descriptor number")
    return Launch(name, idx, "", int(inherited))
