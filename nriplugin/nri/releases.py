"""Determines which NRI release a runtime has and which events that release knows.

A runtime closes the connection of a plugin that subscribes to an event which the
runtime does not know. Runtimes announce their NRI release only since 0.12, so for
older ones the release is looked up by the runtime's name and version. For an unknown
runtime the oldest release is assumed, because every runtime knows its events.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nriplugin.nri.methods import METHODS

if TYPE_CHECKING:
    from nriplugin.api.nri_pb2 import ConfigureRequest

Release = tuple[int, int, int]

# The release that proto/nriplugin/api/nri.proto follows; sent with RegisterPlugin.
NRI_VERSION = "0.12.5"

OLDEST: Release = (0, 2, 0)
# The first release in which Configure carries the runtime's NRI release.
FIRST_ANNOUNCED: Release = (0, 12, 0)

# The first version of the runtime with an NRI release, and that release; newest first.
_CONTAINERD = (
    ((2, 4, 0), (0, 12, 1)),
    ((2, 3, 0), (0, 12, 0)),
    ((2, 2, 1), (0, 11, 0)),
    ((2, 2, 0), (0, 10, 0)),
)
# CRI-O 1.33 was built from a snapshot between 0.9 and 0.10, which knows two of the
# three events of 0.10. It is treated as 0.9: safe, at the price of UpdatePodSandbox.
_CRIO = (((1, 35, 0), (0, 11, 0)), ((1, 34, 0), (0, 10, 0)))
_TABLES = {
    "containerd": _CONTAINERD,
    "v2": _CONTAINERD,  # the name that containerd 2.0.0 to 2.0.3 send
    "cri-o": _CRIO,
}

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(-)?")


def release_of(request: ConfigureRequest) -> Release:
    """Return the NRI release behind a Configure request."""
    if request.NRI_version:
        # Builds from source say "(devel)" or "0.0.0-unknown". Only a runtime of 0.12
        # or newer has this field to fill, so those count as 0.12.
        return max(_release(request.NRI_version) or OLDEST, FIRST_ANNOUNCED)
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
    """Return the mask of the events that a runtime of that release accepts."""
    return sum(method.mask for method in METHODS if method.since <= release)
