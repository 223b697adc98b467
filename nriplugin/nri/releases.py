"""Which NRI release a runtime speaks, and which events that release knows.

A subscription with one bit that the runtime does not know ends the connection, and
runtimes tell their NRI release only since 0.12. For older ones it follows from name
and version; where that fails, the oldest mask is the safe one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nriplugin.nri.methods import METHODS

if TYPE_CHECKING:
    from nriplugin.api.nri_pb2 import ConfigureRequest

Release = tuple[int, int, int]

# What our own messages follow; told to the runtime when we register.
NRI_VERSION = "0.12.5"

OLDEST: Release = (0, 2, 0)
# The first release that says which one it is.
TELLING: Release = (0, 12, 0)

# First runtime version with that NRI release, newest first.
_CONTAINERD = (
    ((2, 4, 0), (0, 12, 1)),
    ((2, 3, 0), (0, 12, 0)),
    ((2, 2, 1), (0, 11, 0)),
    ((2, 2, 0), (0, 10, 0)),
)
# CRI-O 1.33 has a snapshot between 0.9 and 0.10 that knows two of the three new
# events; treating it as 0.9 loses UpdatePodSandbox there and is safe.
_CRIO = (((1, 35, 0), (0, 11, 0)), ((1, 34, 0), (0, 10, 0)))
_TABLES = {
    "containerd": _CONTAINERD,
    "v2": _CONTAINERD,  # what containerd 2.0.0 to 2.0.3 call themselves
    "cri-o": _CRIO,
}

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(-)?")


def release_of(request: ConfigureRequest) -> Release:
    """Return the NRI release behind a Configure request."""
    if request.NRI_version:
        # "(devel)" and "0.0.0-unknown" are builds from source. Only a runtime
        # that has the field fills it, so they are as new as the field at least.
        return max(_release(request.NRI_version) or OLDEST, TELLING)
    found = _VERSION.match(request.runtime_version)
    if found:
        version = int(found[1]), int(found[2]), int(found[3] or 0)
        for first, release in _TABLES.get(request.runtime_name, ()):
            if version >= first:
                return release
    return OLDEST


def _release(text: str) -> Release | None:
    """Read an NRI version; "0.12.1-..." is a snapshot from before 0.12.1."""
    found = _VERSION.match(text)
    if found is None:
        return None
    patch = 0 if found[4] else int(found[3] or 0)
    return int(found[1]), int(found[2]), patch


def valid_mask(release: tuple[int, ...]) -> int:
    """Return the events that a runtime of that release accepts."""
    return sum(method.mask for method in METHODS if method.since <= release)
