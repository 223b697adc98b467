from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.boot import boot
from support.kubelet import Kubelet
from support.observed import Observed, observe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nodes.machine import Machine


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A booted node, one boot for all of its tests."""
    with boot(request.param) as machine:
        yield machine


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
