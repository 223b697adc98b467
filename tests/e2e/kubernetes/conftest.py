"""A namespace of the cluster for each file. Its node is one that is booted for it.

To boot a node takes less time than to have kubelet end the pods of the file before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.cluster import Cluster, namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.control_plane import ControlPlane
    from nodes.machine import Machine


@pytest.fixture(scope="module")
def cluster(
    control_plane: ControlPlane, node: Machine, request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    """A namespace for the tests of one file on one node."""
    file = request.path.stem.removeprefix("test_kubernetes_").replace("_", "-")
    with namespace(control_plane, node, f"{node.node.name}-{file}") as cluster:
        yield cluster
