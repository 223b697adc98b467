"""Which cgroup version the node has.

On a cgroup v1 or hybrid node a runtime fails every container that is given a v2 value,
so the version has to be known before nriplugin answers with values. The type of the
file system at /sys/fs/cgroup tells it: on a pure v2 node that is the unified hierarchy,
which has a type of its own. If the type cannot be read, the answer is v1, because then
no v2 value is sent and no container fails.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup import syscalls
from nriplugin.cgroup.files import CGROUP2_MAGIC
from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = "/sys/fs/cgroup"
ENV_VERSION = "NRIPLUGIN_CGROUP_VERSION"
# The Volcano agent's name for the same, for test set-ups that were made for the agent.
# If both are set, ENV_VERSION wins.
ENV_VOLCANO_VERSION = "VOLCANO_TEST_CGROUP_VERSION"


class Version(NamedTuple):
    """The version, and what it was concluded from.

    `hybrid` says where a v1 node has the unified hierarchy mounted as well, and is
    empty if it has not. On a hybrid node the controllers are v1's.
    """

    number: int
    evidence: str
    hybrid: str = ""


def detect_version(environ: Mapping[str, str], root: str = ROOT) -> Version:
    """Look at the node, unless the environment says which version to assume.

    Raises:
        ConfigError: the environment says something else than 1 or 2.
    """
    assumed = assumed_version(environ)
    if assumed is not None:
        return assumed
    try:
        magic = _magic(root)
    except OSError as exc:
        return Version(1, f"{root} cannot be asked for its type: {exc.strerror}")
    evidence = f"{root} is a file system of type {magic:#x}"
    if magic == CGROUP2_MAGIC:
        return Version(2, f"{evidence} (cgroup2)")
    unified = f"{root}/unified"
    try:
        hybrid = _magic(unified) == CGROUP2_MAGIC
    except OSError:
        hybrid = False
    return Version(
        1,
        f"{evidence}, not {CGROUP2_MAGIC:#x} (cgroup2)",
        f"{unified} is cgroup2" if hybrid else "",
    )


def assumed_version(environ: Mapping[str, str]) -> Version | None:
    """Return the version that the environment says to assume, if it does.

    Raises:
        ConfigError: it says something else than 1 or 2.
    """
    for name, allowed in (
        (ENV_VERSION, {"1": 1, "2": 2}),
        (ENV_VOLCANO_VERSION, {"1": 1, "2": 2, "v1": 1, "v2": 2}),
    ):
        value = environ.get(name)
        if value:
            if value not in allowed:
                raise ConfigError(f"{name}: {value!r}, expected {' or '.join(allowed)}")
            return Version(allowed[value], f"{name} is set")
    return None


def _magic(directory: str) -> int:
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return syscalls.filesystem_magic(fd)
    finally:
        os.close(fd)
