from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from nodes.accelerator import QEMU
from nodes.catalog import NODES
from nodes.control_plane import shared
from nodes.machine import booted, build
from nodes.shell import NodeError
from support.cluster import Cluster, namespace
from support.kubelet import Kubelet
from support.needs import need
from support.observed import Observed, observe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nodes.control_plane import ControlPlane
    from nodes.machine import Machine


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A booted node, one boot for all of its tests."""
    if os.geteuid() != 0:
        need("vm", "nodes are built by root")
    for program in (QEMU, "mmdebstrap", "go"):
        if shutil.which(program) is None:
            need("vm", f"{program} is not installed (hack/node build installs it)")
    wanted = NODES[request.param]
    try:
        build(wanted)
    except NodeError as exc:
        need("vm", f"{wanted.name} cannot be built: {exc}")
    endpoint = None
    if wanted.kubelet:
        endpoint = request.getfixturevalue("control_plane").endpoint
    with booted(wanted, endpoint=endpoint) as machine:
        yield machine


@pytest.fixture(scope="session")
def control_plane(testrun_uid: str) -> Iterator[ControlPlane]:
    """Kubernetes' control plane, one for all processes of this run."""
    home = Path(tempfile.gettempdir()) / f"nriplugin-cluster-{testrun_uid}"
    with shared(home) as plane:
        yield plane


@pytest.fixture(scope="module")
def cluster(
    control_plane: ControlPlane, node: Machine, request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    """A namespace for the tests of one file on one node."""
    file = request.path.stem.removeprefix("test_e2e_").replace("_", "-")
    with namespace(control_plane, node, f"{node.node.name}-{file}") as cluster:
        yield cluster


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
