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
    from collections.abc import Iterator

    from nodes.control_plane import Endpoint
    from nodes.machine import Machine


@contextmanager
def boot(name: str, endpoint: Endpoint | None = None) -> Iterator[Machine]:
    """Build a node if need be, and boot it. A node with a kubelet needs an endpoint."""
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
    with booted(node, endpoint=endpoint) as machine:
        yield machine
