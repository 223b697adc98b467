"""Verification, repair, missed containers and shadow mode behind the CRI proxy."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from doors.cri.fakes import (
    Client,
    FakeRuntime,
    create_request,
    pod_config,
    rpc,
    serving,
)
from engine.cases import APP, GIB, NODE
from engine.cases import POD as ENGINE_POD
from support.harness import wait_until
from support.trees import POD, QOS, UID, add_v2, make_v2

from nriplugin.api import cri_pb2 as cri
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.config import parse_config
from nriplugin.convert import Resources
from nriplugin.daemon.background import BackgroundThread
from nriplugin.daemon.process import DaemonProcess
from nriplugin.daemon.usage_totals import UsageTotals
from nriplugin.daemon.why import why_of
from nriplugin.daemon.withdrawal import carried_files
from nriplugin.doors.cri.immediate import decide_immediately
from nriplugin.engine.model import NodeFacts
from nriplugin.node.direct_writes import DirectWriter
from nriplugin.node.facts import container_files
from nriplugin.state.events import EventKind
from nriplugin.state.inventory import ContainerEntry, EntryState, Inventory, PodEntry
from nriplugin.state.locating import CgroupLocator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nriplugin.doors.cri.door import CRIDoor

RESOURCES: dict[str, Any] = {"cpu_shares": 512, "memory_limit_in_bytes": 1 << 27}
FILES = {"cpu.weight": "59", "memory.max": "134217728"}


class Served:
    """A proxy that may write, on a cgroup tree of plain files, and its clients."""

    def __init__(self, root: Path, door: CRIDoor, kubelet: Client) -> None:
        self.root, self.door, self.kubelet = root, door, kubelet

    def start(self, *, written: bool = True) -> str:
        """Create and start a container; return its ID."""
        pod = self.kubelet.run_pod(uid=UID, cgroup_parent=POD)
        container_id = self.kubelet.create(pod, **RESOURCES)
        add_v2(self.root, f"{POD}/{container_id}")
        if written:
            for file, value in FILES.items():
                self.file(container_id, file).write_text(f"{value}\n")
        self.kubelet.of_container("StartContainer", container_id)
        wait_until(lambda: self.entry(container_id).started)
        return container_id

    def file(self, container_id: str, file: str) -> Path:
        return self.root / POD[1:] / container_id / file

    def entry(self, container_id: str) -> ContainerEntry:
        entry = self.door.lifecycle.inventory.get(container_id)
        assert entry is not None
        return entry

    def verify(self) -> None:
        """Have all containers compared, in place of the background thread."""
        verifier = self.door.lifecycle.verifier
        verifier.compare_all_soon()
        for _ in range(5):
            verifier.look()


@contextmanager
def served(fake: FakeRuntime, tmp_path: Path, config: str) -> Iterator[Served]:
    root = tmp_path / "cgroup"
    root.mkdir()
    tree = make_v2(root, ("/kubepods", QOS, POD))
    files = container_files(tree, "/kubepods") or frozenset()
    facts = NodeFacts(driver="cgroupfs", files=files, writable=True)
    writer = DirectWriter(tree, Executor(tree, refresh_s=0))
    path = str(tmp_path / "tree.sock")
    with (
        serving(fake, path, facts, tree=tree, writer=writer) as door,
        Client(path) as kubelet,
    ):
        door.apply(parse_config(config, "test"))
        # The test looks by hand, so that it need not wait.
        door.lifecycle.scheduler.every(1.0, None, "verify")
        yield Served(root, door, kubelet)


def test_drift_is_found_and_only_named(fake: FakeRuntime, tmp_path: Path) -> None:
    """The container's cgroup is looked for, because CRI does not name it."""
    with served(fake, tmp_path, "") as on:
        container_id = on.start()
        on.verify()
        inventory = on.door.lifecycle.inventory
        assert inventory.drift_of(container_id) == ()
        assert on.door.lifecycle.verification.checked > 0
        on.file(container_id, "memory.max").write_text("max\n")
        on.verify()
        assert inventory.drift_of(container_id) == ("memory.max",)
        assert on.file(container_id, "memory.max").read_text() == "max\n"


def test_drift_is_repaired_where_that_is_on(
    fake: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Directly, because CRI has no update that the runtime did not ask for."""
    with served(fake, tmp_path, "repair: {enabled: true}") as on:
        container_id = on.start()
        on.file(container_id, "memory.max").write_text("max\n")
        on.verify()
        assert on.file(container_id, "memory.max").read_text() == FILES["memory.max"]
        assert on.door.lifecycle.inventory.drift_of(container_id) == ()
        assert on.door.lifecycle.verification.repairs == {"memory.max": 1}
    assert "does not support" not in caplog.text


@pytest.mark.parametrize("shadow", [True, False])
def test_a_container_that_is_older_than_the_proxy_was_missed(
    fake: FakeRuntime, tmp_path: Path, shadow: bool
) -> None:
    """Unless its values are only shown."""
    pod = cri.RunPodSandboxRequest(config=pod_config(uid=UID, cgroup_parent=POD))
    fake.pods["pod1"] = pod
    fake.containers["ctr1"] = create_request("pod1", **RESOURCES)
    fake.running.add("ctr1")
    path = str(tmp_path / "proxy.sock")
    with serving(fake, path, shadow=shadow) as door:
        connection = door.lifecycle.connection
        wait_until(lambda: connection.since is not None)
        entry = door.lifecycle.inventory.get("ctr1")
        assert entry is not None
        assert [gap.missed for gap in connection.gaps] == [not shadow]
        events, _ = door.lifecycle.events.since(0)
        missed = [event for event in events if event.kind is EventKind.MISSED]
    if shadow:
        assert (entry.state, entry.shadow) == (EntryState.SHADOWED, FILES)
        assert missed == []
    else:
        assert (entry.state, entry.shadow) == (EntryState.MISSED, {})
        assert entry.reason.startswith("it was created without nriplugin")
        assert [event.entry for event in missed] == [entry]


def test_in_shadow_mode_requests_are_forwarded_unchanged(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """What would be changed is counted."""
    config = "shadow: true\ncpuBurst: {enabled: true, percent: 50}"
    with served(fake, tmp_path, config) as on:
        container_id = on.start(written=False)
        on.verify()
        entry = on.entry(container_id)
        assert (entry.state, entry.shadow) == (EntryState.SHADOWED, FILES)
        counts = on.door.lifecycle.shadow
        assert (counts.containers, counts.files) == (1, dict.fromkeys(FILES, 1))
        on.kubelet.update(container_id, memory_limit_in_bytes=1 << 28)
        wait_until(lambda: on.entry(container_id).shadow["memory.max"] == str(1 << 28))
        assert on.entry(container_id).shadow["cpu.weight"] == "59"
        assert on.file(container_id, "memory.max").read_text() == "max\n"
    (made,) = fake.requests(rpc("CreateContainer"), cri.CreateContainerRequest)
    (asked,) = fake.requests(
        rpc("UpdateContainerResources"), cri.UpdateContainerResourcesRequest
    )
    assert not made.config.annotations
    assert not made.config.linux.resources.unified
    assert not asked.linux.unified


def test_a_resize_of_a_container_with_earlier_values_is_not_lost(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """The runtime would write the earlier values over it."""
    with served(fake, tmp_path, "") as on:
        container_id = on.start()
        on.door.apply(parse_config("shadow: true", "test"))
        on.kubelet.update(container_id, memory_limit_in_bytes=1 << 28)
    (asked,) = fake.requests(
        rpc("UpdateContainerResources"), cri.UpdateContainerResourcesRequest
    )
    assert asked.linux.unified == {"memory.max": str(1 << 28)}


@pytest.mark.parametrize("shadow", [True, False])
def test_also_if_the_decision_is_late(shadow: bool) -> None:
    """Then it is made from memory, and has no files of handlers."""
    text = (
        f"shadow: {str(shadow).lower()}\nmemoryQoSLevel: {{enabled: true, level: BE}}"
    )
    config = parse_config(text, "test").engine
    numbers = Resources(memory_limit_bytes=GIB, unified={"memory.max": str(GIB)})
    app = APP._replace(resources=numbers, ours={"memory.max": str(GIB)})
    asked = Resources(memory_limit_bytes=2 * GIB)
    decision = decide_immediately(ENGINE_POD, app, asked, NODE, config)
    assert decision.files["memory.max"] == str(2 * GIB)
    assert ("memory.high" in decision.files) is not shadow


def test_the_cgroup_is_known_to_all_who_read_it(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """CRI names no cgroup: `why`, the sums of usage and `withdraw` find it themselves.

    That is so whether files are compared or not.
    """
    with served(fake, tmp_path, "verify: {enabled: false}") as node:
        container_id = node.start()
        node.file(container_id, "cpu.stat").write_text("nr_throttled 5\n")
        lifecycle = node.door.lifecycle
        process = DaemonProcess("cri", lifecycle, BackgroundThread())
        (why,) = why_of(process, container_id).containers
        assert why.cgroup == f"{POD}/{container_id}"
        assert {one.file: one.now for one in why.files} == FILES
        totals = UsageTotals(lifecycle)
        totals.refresh()
        assert "resources" in totals.by_handler
        entry = node.entry(container_id)._replace(
            files={"memory.high": "4096"}, decision=None
        )
        written = {f"{POD}/{container_id}/memory.high"}
        cgroup = lifecycle.locator.cgroup_of(entry)
        assert carried_files(entry, cgroup, written) == {}
        assert carried_files(entry, None, {"None/memory.high"}) == entry.files


def test_cgroups_of_ended_containers_are_forgotten(tmp_path: Path) -> None:
    """However many there were."""
    tree = make_v2(tmp_path, (POD,))
    inventory = Inventory()
    locator = CgroupLocator(inventory, tree)
    pod = PodEntry("p1", cgroup_parent=POD)
    add_v2(tmp_path, f"{POD}/kept")
    inventory.put(ContainerEntry("kept", pod=pod))
    assert locator.cgroup_of(ContainerEntry("kept", pod=pod)) == f"{POD}/kept"
    for number in range(1000):
        one = tmp_path / POD[1:] / f"ended-{number}"
        one.mkdir()
        ended = ContainerEntry(one.name, pod=pod)
        assert locator.cgroup_of(ended) == f"{POD}/{one.name}"
        one.rmdir()
    assert len(locator._found) < 1000
    assert locator._found["kept"] == f"{POD}/kept"
    assert locator.cgroup_of(ContainerEntry("other", pod=pod)) is None


def test_many_missed_containers_do_not_fill_the_events_of_the_proxy(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """The last event says how many more there were."""
    pod = cri.RunPodSandboxRequest(config=pod_config(uid=UID, cgroup_parent=POD))
    fake.pods["pod1"] = pod
    for number in range(70):
        fake.containers[f"ctr{number}"] = create_request("pod1", **RESOURCES)
        fake.running.add(f"ctr{number}")
    with serving(fake, str(tmp_path / "proxy.sock")) as door:
        wait_until(lambda: door.lifecycle.connection.since is not None)
        events, _ = door.lifecycle.events.since(0)
    missed = [event for event in events if event.kind is EventKind.MISSED]
    assert len(missed) == 65
    assert missed[-1].text == "6 more containers"
