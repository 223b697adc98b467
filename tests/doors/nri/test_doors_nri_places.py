"""Nodes on which nriplugin sends nothing, and nodes whose facts are learned later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cgroup.kernels import Kernel
from doors.nri.messages import (
    APP,
    FILES,
    container_at,
    creation,
    pod_at,
)
from doors.nri.messages import unified_of as files_of
from doors.nri.nodes import configure, plugin_on
from support.harness import connected
from support.trees import CONTAINER, CONTAINER_ID, POD, UID

from nriplugin.engine.model import CORE_FILES, NodeFacts

if TYPE_CHECKING:
    from pathlib import Path

BURST = "cpuBurst: {enabled: true, percent: 50}"
EVERYTHING = f"{BURST}\nadopt: {{enabled: true}}\nrepair: {{enabled: true}}"

# The facts at the start about a node without pods.
EMPTY = NodeFacts(kernel=(6, 1))


def test_a_node_whose_cgroups_cannot_be_read_is_served_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Decisions use facts that hold on every node, and the log has the reason."""
    plugin = plugin_on(unreadable_because="/sys/fs/cgroup: Permission denied")
    configure(plugin, BURST)
    with connected(plugin, tmp_path) as (runtime, _):
        created = runtime.create_container(pod_at(), container_at())
    assert dict(created.adjust.linux.resources.unified) == FILES
    assert "cgroups cannot be read: /sys/fs/cgroup: Permission denied" in caplog.text


# The first pod


def test_the_first_pod_shows_which_files_there_are() -> None:
    """On an empty node, files that may not exist are not sent."""
    plugin = plugin_on(EMPTY, Kernel(2).tree)
    configure(plugin, BURST)
    answer = plugin.create_container(creation(pod_at(), container_at()))
    assert files_of(answer) == {**FILES, "cpu.max.burst": "50000"}
    assert plugin.plan.facts.driver == "cgroupfs"


def test_files_of_controllers_that_children_lack_are_not_sent() -> None:
    """The container's cgroup will not have them, although the pod's has."""
    kernel = Kernel(2)
    kernel.files[f"{POD}/cgroup.subtree_control"] = "cpu pids"
    plugin = plugin_on(EMPTY, kernel.tree)
    configure(plugin, "memoryQoS: {enabled: true}")
    answer = plugin.create_container(creation(pod_at(), container_at()))
    assert files_of(answer) == {f: FILES[f] for f in ("cpu.weight", "cpu.max")}


def test_a_pod_that_has_nothing_below_it_yet_shows_nothing() -> None:
    """Each next pod is looked at until one shows the files; then none is."""
    kernel = Kernel(2)
    kernel.files[f"{POD}/cgroup.subtree_control"] = ""
    plugin = plugin_on(EMPTY, kernel.tree)
    configure(plugin, BURST)
    request = creation(pod_at(), container_at())
    assert files_of(plugin.create_container(request)) == FILES
    assert plugin.plan.facts.files == CORE_FILES
    kernel.files[f"{POD}/cgroup.subtree_control"] = "cpu memory"
    assert "cpu.max.burst" in files_of(plugin.create_container(request))
    reads = kernel.reads
    plugin.create_container(creation(pod_at(), container_at(shares=77)))
    assert kernel.reads == reads


@pytest.mark.parametrize(
    ("parent", "path"),
    [
        ("", "/k8s.io/c1"),
        ("", "system.slice:cri-containerd:c1"),
        ("/elsewhere", "/elsewhere/c1"),
        ("", ""),
    ],
)
def test_a_pod_that_is_not_kubelets_tells_nothing_about_the_others(
    parent: str, path: str
) -> None:
    """It may be anywhere, and its cgroup driver may not be the node's."""
    kernel = Kernel(2)
    for cgroup in ("/k8s.io", "/system.slice", "/elsewhere"):
        kernel.add(cgroup)
    plugin = plugin_on(EMPTY._replace(driver="systemd"), kernel.tree)
    configure(plugin, BURST)
    plugin.create_container(creation(pod_at(parent), container_at(path)))
    assert plugin.plan.facts.driver == "systemd"
    assert plugin.plan.facts.files == CORE_FILES


def test_the_first_pod_shows_the_driver() -> None:
    """A slice is systemd's, and its path is made of its name."""
    slice_ = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"
    cgroup = f"/kubepods.slice/kubepods-burstable.slice/{slice_}"
    plugin = plugin_on(EMPTY, Kernel(2, [cgroup]).tree)
    configure(plugin, BURST)
    path = f"{slice_}:cri-containerd:{CONTAINER_ID}"
    answer = plugin.create_container(creation(pod_at(slice_), container_at(path)))
    assert files_of(answer)["cpu.max.burst"] == "50000"
    assert plugin.plan.facts.driver == "systemd"


def test_the_default_configuration_needs_no_look_at_pods() -> None:
    """It sends only files that every node has."""
    kernel = Kernel(2)
    plugin = plugin_on(EMPTY, kernel.tree)
    plugin.create_container(creation(pod_at(), container_at(**APP)))
    assert kernel.reads == 0
    assert kernel.exists(CONTAINER)
