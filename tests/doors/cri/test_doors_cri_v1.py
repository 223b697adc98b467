"""The CRI proxy on a node with cgroup v1: it forwards all calls as they came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from doors.cri.fakes import Client, FakeRuntime, rpc, serving
from support.harness import wait_until
from support.trees import POD, QOS, UID, add_v1, make_v1

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.journal.restore import Action, restore
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.engine.model import NodeFacts
from nriplugin.node.direct_writes import DirectWriter
from nriplugin.node.facts import container_files
from nriplugin.node.ownership_records import OwnershipRecords

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.doors.cri.door import CRIDoor

BURST = "cpu.cfs_burst_us"
BOOST = """
policies: {intervalSeconds: 60}
startupBoost: {enabled: true, percent: 300, seconds: 3600}
"""
HALF = "cpuBurst: {enabled: true, percent: 50}"
NUMBERS: dict[str, Any] = {
    "cpu_shares": 512,
    "cpu_quota": 100_000,
    "cpu_period": 100_000,
}


class NodeV1:
    """A tree of plain files; the runtime makes a container's cgroup at its start."""

    def __init__(self, top: Path) -> None:
        self.root = top / "cgroup"
        self.tree: Tree = make_v1(self.root, ("/kubepods", QOS, POD))
        self.write(POD, "cpu.cfs_quota_us", "100000")
        files = container_files(self.tree, "/kubepods") or frozenset()
        self.facts = NodeFacts(cgroup_version=1, cgroup_evidence="test", files=files)

    def write(self, cgroup: str, file: str, value: str) -> None:
        (self.root / f"cpu{cgroup}" / file).write_text(value)

    def read(self, cgroup: str, file: str = BURST) -> str:
        return (self.root / f"cpu{cgroup}" / file).read_text().strip()

    def start(self, kubelet: Client, container_id: str) -> str:
        """Start a container; return its cgroup."""
        cgroup = f"{POD}/{container_id}"
        add_v1(self.root, cgroup)
        self.write(cgroup, "cpu.cfs_quota_us", "100000")
        kubelet.of_container("StartContainer", container_id)
        return cgroup


def test_defaults_forward_all_calls(fake: FakeRuntime, tmp_path: Path) -> None:
    """A runtime on cgroup v1 fails on a v2 file, so the requests stay as they are."""
    node = NodeV1(tmp_path)
    path = str(tmp_path / "v1.sock")
    with (
        serving(fake, path, node.facts, tree=node.tree, config="{}") as door,
        Client(path) as kubelet,
    ):
        container_id = kubelet.create(kubelet.run_pod(uid=UID, cgroup_parent=POD))
        node.start(kubelet, container_id)
        kubelet.update(container_id, cpu_shares=1024)
        assert door.lifecycle.plan.inactive
    assert_unchanged(fake)
    assert node.read(POD) == "0"


def test_a_burst_is_written_and_put_back(
    fake: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """For the pod before the creation, for the container after its start."""
    node = NodeV1(tmp_path)
    path, state = str(tmp_path / "v1.sock"), str(tmp_path / "state")
    records = OwnershipRecords(state)
    with Journal(state) as journal:
        writer = DirectWriter(
            node.tree, Executor(node.tree, journal=journal, refresh_s=0.0)
        )
        with (
            serving(
                *(fake, path, node.facts),
                tree=node.tree,
                writer=writer,
                records=records,
                config=HALF,
            ) as door,
            Client(path) as kubelet,
        ):
            container_id = kubelet.create(
                kubelet.run_pod(uid=UID, cgroup_parent=POD), **NUMBERS
            )
            assert node.read(POD) == "50000"
            cgroup = node.start(kubelet, container_id)
            assert node.read(cgroup) == "50000"
            wait_until(lambda: container_id in records.load())
            assert records.load()[container_id].files == {BURST: "50000"}
            lower_quota(node, kubelet, container_id, cgroup)
            assert drift_of(door, container_id) == ()
    assert_unchanged(fake)
    assert "direct writes only: cgroup v1 (test)" in caplog.text
    with Journal(state) as journal:
        findings = restore(node.tree, journal)
    assert {found.action for found in findings} == {Action.RESTORED}
    assert (node.read(POD), node.read(cgroup)) == ("0", "0")


def test_a_resize_has_the_rest_of_the_pod_go_back(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """What a policy has raised, before kubelet lowers the pod: as the NRI door does."""
    node = NodeV1(tmp_path)
    node.write(POD, "cpu.cfs_quota_us", "200000")
    path = str(tmp_path / "v1.sock")

    def quotas() -> list[str]:
        return [node.read(one, "cpu.cfs_quota_us") for one in (POD, app, side)]

    with (
        serving(
            *(fake, path, node.facts),
            tree=node.tree,
            writer=DirectWriter(node.tree, Executor(node.tree, refresh_s=0.0)),
            config=BOOST,
        ),
        Client(path) as kubelet,
    ):
        pod = kubelet.run_pod(uid=UID, cgroup_parent=POD)
        ids = [kubelet.create(pod, name, **NUMBERS) for name in ("app", "side")]
        app, side = (node.start(kubelet, one) for one in ids)
        wait_until(lambda: quotas() == ["600000", "300000", "300000"])
        kubelet.update(ids[0], cpu_quota=20_000, cpu_period=100_000)
        wait_until(lambda: quotas()[2] == "100000")
    assert quotas()[0] == "200000"


def lower_quota(node: NodeV1, kubelet: Client, container_id: str, cgroup: str) -> None:
    """Resize the container to a quota that is below its burst."""
    kubelet.update(container_id, cpu_quota=20_000, cpu_period=100_000)
    assert (node.read(cgroup), node.read(POD)) == ("10000", "10000")


def drift_of(door: CRIDoor, container_id: str) -> tuple[str, ...]:
    """Return the drift after the files were compared."""
    verifier = door.lifecycle.verifier
    for _ in range(3):
        verifier.look()
    return door.lifecycle.inventory.drift_of(container_id)


def assert_unchanged(fake: FakeRuntime) -> None:
    """Check that no request to the runtime has anything of nriplugin's."""
    for one in fake.seen:
        if one.method in (rpc("CreateContainer"), rpc("UpdateContainerResources")):
            assert b"cgroup2" not in one.request
            assert b"cpu.cfs" not in one.request
