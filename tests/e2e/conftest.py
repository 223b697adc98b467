from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from nodes.control_plane import shared
from support.bed import name_of
from support.boot import boot
from support.kubelet import Kubelet
from support.observed import Observed, observe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nodes.control_plane import ControlPlane, Endpoint
    from nodes.machine import Machine


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A booted node, one boot for all of its tests, or for those of a FreshNode.

    A node with a kubelet is forgotten by its cluster at the end.
    """

    def plane() -> ControlPlane:
        found: ControlPlane = request.getfixturevalue("control_plane")
        return found

    def endpoint() -> Endpoint:
        return plane().endpoint

    name = name_of(request.param)
    with boot(name, endpoint) as machine:
        yield machine
    if machine.node.kubelet:
        plane().kubectl("delete", "node", name, "--ignore-not-found")


@pytest.fixture(scope="session")
def control_plane(testrun_uid: str) -> Iterator[ControlPlane]:
    """Kubernetes' control plane, one for all processes of this run."""
    home = Path(tempfile.gettempdir()) / f"nriplugin-cluster-{testrun_uid}"
    with shared(home) as plane:
        yield plane


@pytest.fixture(autouse=True)
def boot_seconds(node: Machine, record_property: Callable[[str, object], None]) -> None:
    """Have the table at the end of the run show how long the boot took."""
    record_property("boot_s", node.boot_s)


@pytest.fixture(scope="session")
def kubelet(node: Machine) -> Kubelet:
    """Makes pods on the node, as the kubelet would."""
    return Kubelet(node)


@pytest.fixture(scope="session")
def observed(node: Machine, kubelet: Kubelet) -> Observed:
    """The pods of the three QoS classes, run without the plugin and with it."""
    return observe(node, kubelet)
