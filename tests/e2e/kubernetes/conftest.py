"""Nodes with a kubelet. Each file has a node of its own.

To boot a node takes less time than to have kubelet end the pods of the file before.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from nodes.control_plane import shared
from support.boot import boot
from support.cluster import Cluster, namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.control_plane import ControlPlane
    from nodes.machine import Machine


@pytest.fixture(scope="session")
def control_plane(testrun_uid: str) -> Iterator[ControlPlane]:
    """Kubernetes' control plane, one for all processes of this run."""
    home = Path(tempfile.gettempdir()) / f"nriplugin-cluster-{testrun_uid}"
    with shared(home) as plane:
        yield plane


@pytest.fixture(scope="module")
def node(
    control_plane: ControlPlane, request: pytest.FixtureRequest
) -> Iterator[Machine]:
    """A node that has joined the cluster, and is forgotten by it at the end."""
    with boot(request.param, control_plane.endpoint) as machine:
        yield machine
    control_plane.kubectl("delete", "node", request.param, "--ignore-not-found")


@pytest.fixture(scope="module")
def cluster(
    control_plane: ControlPlane, node: Machine, request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    """A namespace for the tests of one file on one node."""
    file = request.path.stem.removeprefix("test_kubernetes_").replace("_", "-")
    with namespace(control_plane, node, f"{node.node.name}-{file}") as cluster:
        yield cluster
