"""Which directory on this machine holds the journal and the ownership records.

The order is the same for every command: the option `--state-dir`, then the variable
NRIPLUGIN_STATE_DIR, then /var/lib/nriplugin.

A node that is a directory of ordinary files (`--cgroup-root` of a copy) has no state
directory unless the option names one: the values of a copy must not get into the
journal of the real node, from which `nriplugin restore` writes to real cgroups.

This module imports next to nothing, because the OCI hook reads it at every start.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nriplugin.cgroup.journal.journal import ENV_STATE_DIR, STATE_DIR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.cgroup.locate.detect import DetectedNode


def state_directory(node: DetectedNode, option: str | None = None) -> str | None:
    """Return the state directory of a node, or None if this node must not have one.

    Args:
        node: the node whose cgroups are written.
        option: the value of `--state-dir`, if it was given.
    """
    if node.plain and not option:
        return None
    return configured_state_directory(option)


def configured_state_directory(
    option: str | None = None, environ: Mapping[str, str] = os.environ
) -> str:
    """Return the directory that the option, the environment or the default names."""
    return option or environ.get(ENV_STATE_DIR) or STATE_DIR
