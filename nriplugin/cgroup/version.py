"""Whether the node has cgroup v2.

On a cgroup v1 or hybrid node a runtime fails every container that is given a v2 value,
so whoever answers with values has to know first. The unified hierarchy has a file that
no other layout has at that place.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = "/sys/fs/cgroup"
ENV_VERSION = "NRIPLUGIN_CGROUP_VERSION"


class Version(NamedTuple):
    """The version, and what it was concluded from."""

    number: int
    evidence: str


def detect_version(environ: Mapping[str, str], root: str = ROOT) -> Version:
    """Look at the node, unless the environment says which version to assume.

    Raises:
        ConfigError: the environment says something else than 1 or 2.
    """
    assumed = environ.get(ENV_VERSION)
    if assumed:
        if assumed not in ("1", "2"):
            raise ConfigError(f"{ENV_VERSION}: {assumed!r}, expected 1 or 2")
        return Version(int(assumed), f"{ENV_VERSION} is set")
    file = f"{root}/cgroup.controllers"
    if os.path.exists(file):
        return Version(2, f"{file} is there")
    return Version(1, f"{file} is not there")
