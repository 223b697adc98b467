"""The NRI plugin on a node with cgroup v1: its answers are empty, it writes itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from cgroup.kernels import Kernel
from doors.nri.messages import asking, container_at, pod_at
from doors.nri.nodes import FACTS, Node, configure, plugin_on
from support.harness import connected
from support.trees import CONTAINER, POD

from nriplugin.api import nri_pb2 as nri
from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.journal.restore import Action, restore
from nriplugin.node.ownership_records import OwnershipRecords

if TYPE_CHECKING:
    from pathlib import Path

BURST = "cpu.cfs_burst_us"
HALF = "cpuBurst: {enabled: true, percent: 50}"
LEVELS = """
cpuQoS: {enabled: true, level: BE}
memoryQoSLevel: {enabled: true, level: BE}
"""
V1 = FACTS._replace(
    cgroup_version=1,
    cgroup_evidence="tmpfs on /sys/fs/cgroup",
    files=frozenset({BURST, "cpu.qos_level", "memory.qos_level"}),
)
OF_POD = f"/cpu{POD}/{BURST}"
OF_CONTAINER = f"/cpu{CONTAINER}/{BURST}"


def kernel_v1() -> Kernel:
    """Return a node on which kubelet and the runtime have set the quota of APP."""
    kernel = Kernel(1)
    for cgroup in (POD, CONTAINER):
        kernel.files[f"/cpu{cgroup}/cpu.cfs_quota_us"] = "100000"
        for controller in ("cpu", "memory"):
            kernel.files[f"/{controller}{cgroup}/{controller}.qos_level"] = "0"
    return kernel


def node_v1(config: str = HALF, kernel: Kernel | None = None, **parts: Any) -> Node:
    """Return a node with cgroup v1; `parts` are further arguments of the node."""
    return Node(config, V1, kernel or kernel_v1(), **parts)


def resize(node: Node, quota_us: int) -> None:
    """Do what kubelet and a runtime do at a resize of the container and its pod."""

    def write(cgroup: str) -> None:  # raises an error if the kernel refuses it
        node.kernel.write(f"/cpu{cgroup}/cpu.cfs_quota_us", str(quota_us))

    if quota_us > 100_000:
        write(POD)
    assert node.update(asking(quota_us=quota_us)) is None
    write(CONTAINER)
    node.post_update()
    node.background.work()
    write(POD)


def test_the_answer_is_empty_and_the_burst_is_written() -> None:
    """The pod's before the runtime creates the container, its own at the start."""
    node = node_v1()
    assert node.create() is None
    assert node.kernel.writes == [(OF_POD, "50000")]
    node.start()
    assert node.file(OF_CONTAINER) == "50000"


def test_defaults_write_nothing() -> None:
    """No writer is opened, no record is made, and all containers stay as they are."""
    node = node_v1("")
    assert node.create() is None
    node.start()
    assert node.update(asking(shares=1024)) is None
    node.post_update()
    assert node.synchronize([container_at()]) == []
    node.background.work()
    node.verify()
    assert (node.kernel.writes, node.opened) == ([], 0)


def test_the_levels_are_written() -> None:
    """The container's and the pod's, at the start."""
    node = node_v1(LEVELS)
    assert node.create() is None
    assert node.kernel.writes == []
    node.start()
    for cgroup in (POD, CONTAINER):
        assert node.file(f"/cpu{cgroup}/cpu.qos_level") == "-1"
        assert node.file(f"/memory{cgroup}/memory.qos_level") == "-1"


@pytest.mark.parametrize("quota_us", [20_000, 60_000, 400_000])
def test_a_resize_takes_effect(quota_us: int) -> None:
    """No burst is above a quota at any moment, and the burst follows the quota."""
    node = node_v1()
    node.create()
    node.start()
    resize(node, quota_us)
    assert node.file(OF_CONTAINER) == str(quota_us // 2)
    assert node.file(OF_POD) == str(quota_us // 2)


def test_drift_is_found_and_repaired() -> None:
    """Another program's value is replaced, by a direct write: the runtime has none."""
    node = node_v1(f"{HALF}\nrepair: {{enabled: true}}")
    node.create()
    node.start()
    node.verify()
    node.kernel.files[OF_CONTAINER] = "7"
    node.verify()
    assert node.file(OF_CONTAINER) == "50000"
    counts = node.plugin.lifecycle.verification
    assert (counts.drift[BURST], counts.repairs[BURST]) == (1, 1)


def test_containers_that_exist_are_adopted() -> None:
    """With `adopt`, by direct writes; without it they are marked as missed."""
    node = node_v1()
    assert node.synchronize([container_at()]) == []
    (entry,) = node.plugin.lifecycle.inventory.snapshot().values()
    assert (entry.state, dict(entry.lacks)) == ("missed", {BURST: "50000"})
    assert node.kernel.writes == []
    node = node_v1(f"{HALF}\nadopt: {{enabled: true}}")
    assert node.synchronize([container_at()]) == []
    node.background.work()
    assert (node.file(OF_POD), node.file(OF_CONTAINER)) == ("50000", "50000")


def test_restore_puts_everything_back(tmp_path: Path) -> None:
    """Every write is in the journal, the pod's included."""
    kernel = kernel_v1()
    with Journal(str(tmp_path)) as journal:
        node = node_v1(f"{HALF}\n{LEVELS}", kernel=kernel, journal=journal)
        before = dict(kernel.files)
        node.create()
        node.start()
        assert kernel.files != before
        findings = restore(kernel.tree, journal)
        assert {found.action for found in findings} == {Action.RESTORED}
    assert kernel.files == before


def test_a_withdrawal_ends_the_burst(tmp_path: Path) -> None:
    """Nothing is written for new containers, and a resize is not stopped."""
    with Journal(str(tmp_path)) as journal:
        node = node_v1(journal=journal)
        node.create()
        node.start()
        node.plugin.lifecycle.withdraw()
        writer = node.plugin.lifecycle.pending.writer
        assert writer is not None
        assert {found.action for found in writer.put_back()} == {Action.RESTORED}
        assert (node.file(OF_POD), node.file(OF_CONTAINER)) == ("0", "0")
        resize(node, 20_000)
        assert node.file(OF_CONTAINER) == "0"


def test_after_a_restart_the_records_say_what_is_ours(tmp_path: Path) -> None:
    """The specification has no annotation, so the state directory has the record."""
    kernel, records = kernel_v1(), OwnershipRecords(str(tmp_path))
    node = node_v1(kernel=kernel, records=records)
    node.create()
    node.start()
    node.background.work()
    (record,) = records.load().values()
    assert record.files == {BURST: "50000"}
    records = OwnershipRecords(str(tmp_path))
    again = node_v1("cpuBurst: {enabled: false}", kernel=kernel, records=records)
    again.plugin.lifecycle.writer_opening.open()
    again.synchronize([container_at()])
    resize(again, 20_000)
    assert (again.file(OF_POD), again.file(OF_CONTAINER)) == ("0", "0")


def test_what_a_new_runtime_shows_proves_nothing(tmp_path: Path) -> None:
    """Its specification never has a value of nriplugin, so the files count."""
    kernel, records = kernel_v1(), OwnershipRecords(str(tmp_path))
    node = node_v1(kernel=kernel, records=records)
    node.create()
    node.start()
    node.background.work()
    config = f"{HALF}\nrepair: {{enabled: true}}"
    again = node_v1(config, kernel=kernel, records=OwnershipRecords(str(tmp_path)))
    again.plugin.configure(nri.ConfigureRequest(NRI_version="0.12.5"))
    again.synchronize([container_at()])
    (entry,) = again.plugin.lifecycle.inventory.snapshot().values()
    assert (dict(entry.files), dict(entry.outdated)) == ({BURST: "50000"}, {})
    kernel.files[OF_CONTAINER] = "7"
    again.verify()
    assert kernel.files[OF_CONTAINER] == "50000"


def test_over_the_wire_nothing_reaches_the_runtime(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The runtime's view: no adjustment, no annotation, and one line in the log."""
    plugin = plugin_on(V1, kernel_v1().tree)
    configure(plugin, f"{HALF}\n{LEVELS}")
    asked = asking(shares=1024)
    with connected(plugin, tmp_path) as (runtime, _):
        created = runtime.create_container(container=container_at(), pod=pod_at())
        updated = runtime.update_container(pod_at(), container_at(), asked)
        assert runtime.updates == []
    assert created.adjust.ListFields() == []
    assert updated.resources == asked
    node = "cgroup v1 (tmpfs on /sys/fs/cgroup)"
    assert f"inactive: {node}, and direct writes are off" in caplog.text
