"""A booted node for tests, or the reason why there is none."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nodes.accelerator import QEMU
from nodes.catalog import NODES
from nodes.machine import booted, build
from nodes.shell import NodeError

from support.needs import need

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nodes.control_plane import Endpoint
    from nodes.machine import Machine

# Longer than all tests of a node together, on a busy machine, too.
LIMIT_S = 4 * 3600


@contextmanager
def boot(name: str, endpoint: Callable[[], Endpoint]) -> Iterator[Machine]:
    """Build a node if need be, and boot it; one with a kubelet joins a cluster."""
    if os.geteuid() != 0:
        need("vm", "nodes are built by root")
    for program in (QEMU, "mmdebstrap", "go"):
        if shutil.which(program) is None:
            need("vm", f"{program} is not installed (hack/node build installs it)")
    node = NODES[name]
    try:
        build(node)
    except NodeError as exc:
        need("vm", f"{name} cannot be built: {exc}")
    joined = endpoint() if node.kubelet else None
    with booted(node, limit_s=LIMIT_S, endpoint=joined) as machine:
        yield machine
