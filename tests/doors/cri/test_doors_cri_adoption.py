"""Containers that are older than the proxy get their values where `adopt` is on."""

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
from support.harness import wait_until
from support.trees import POD, QOS, UID, add_v2, make_v2

from nriplugin.api import cri_pb2 as cri
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.config import parse_config
from nriplugin.engine.model import NodeFacts
from nriplugin.node.direct_writes import DirectWriter
from nriplugin.node.facts import container_files
from nriplugin.node.ownership_records import OwnershipRecords
from nriplugin.state.events import EventKind
from nriplugin.state.inventory import EntryState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nriplugin.doors.cri.door import CRIDoor

RESOURCES: dict[str, Any] = {"cpu_shares": 512, "memory_limit_in_bytes": 1 << 27}
FILES = {"cpu.weight": "59", "memory.max": "134217728"}
ADOPT = "adopt: {enabled: true}"


class Older:
    """A node with containers that nobody of nriplugin has seen."""

    def __init__(self, fake: FakeRuntime, directory: Path) -> None:
        self._fake, self._directory = fake, directory
        self.root = directory / "cgroup"
        self.root.mkdir()
        self._tree = make_v2(self.root, ("/kubepods", QOS, POD))
        config = pod_config(uid=UID, cgroup_parent=POD)
        fake.pods["pod1"] = cri.RunPodSandboxRequest(config=config)
        self.path = str(directory / "proxy.sock")

    def add(self, name: str, *, running: bool = True) -> None:
        """Add a container; one that does not run has no cgroup yet."""
        self._fake.containers[name] = create_request("pod1", **RESOURCES)
        if running:
            self._fake.running.add(name)
            add_v2(self.root, f"{POD}/{name}")

    def held(self, name: str) -> dict[str, str]:
        """Return what the container's files hold."""
        directory = self.root / POD[1:] / name
        return {file: (directory / file).read_text().strip() for file in FILES}

    @contextmanager
    def proxy(self, config: str, *, writable: bool = True) -> Iterator[CRIDoor]:
        """Serve a proxy that has synchronized with the runtime."""
        files = container_files(self._tree, "/kubepods") or frozenset()
        facts = NodeFacts(driver="cgroupfs", files=files, writable=writable)
        writer = DirectWriter(self._tree, Executor(self._tree, refresh_s=0))
        parts: dict[str, Any] = {"tree": self._tree, "config": config}
        parts["records"] = OwnershipRecords(str(self._directory / "state"))
        if writable:
            parts["writer"] = writer
        with serving(self._fake, self.path, facts, **parts) as door:
            wait_until(lambda: door.lifecycle.connection.since is not None)
            yield door


@pytest.fixture
def node(fake: FakeRuntime, tmp_path: Path) -> Older:
    return Older(fake, tmp_path)


def state(door: CRIDoor, name: str) -> EntryState | None:
    """Return what the proxy says that it has done to a container."""
    entry = door.lifecycle.inventory.get(name)
    return None if entry is None else entry.state


def test_an_older_container_is_adopted(node: Older, fake: FakeRuntime) -> None:
    """Its values are written directly, and follow the next update through the proxy."""
    node.add("ctr1")
    with node.proxy(ADOPT) as door, Client(node.path) as kubelet:
        wait_until(lambda: state(door, "ctr1") is EntryState.ADOPTED)
        assert node.held("ctr1") == FILES
        events, _ = door.lifecycle.events.since(0)
        kinds = [one.kind for one in events if one.entry is not None]
        assert kinds == [EventKind.MISSED, EventKind.ADOPTED]
        assert fake.requests(rpc("UpdateContainerResources"), cri.VersionRequest) == []
        kubelet.update("ctr1", cpu_shares=1024)
    kind = cri.UpdateContainerResourcesRequest
    (update,) = fake.requests(rpc("UpdateContainerResources"), kind)
    assert update.linux.unified["cpu.weight"] == "100"


def test_the_next_process_knows_an_adopted_container(node: Older) -> None:
    """By the record in the state directory, so that it is not missed again."""
    node.add("ctr1")
    with node.proxy(ADOPT) as door:
        wait_until(lambda: state(door, "ctr1") is EntryState.ADOPTED)
    with node.proxy(ADOPT) as door:
        entry = door.lifecycle.inventory.get("ctr1")
        assert entry is not None
        assert (entry.state, entry.ours) == (EntryState.MANAGED, FILES)


def test_some_are_adopted_at_once_and_the_others_later(node: Older) -> None:
    """All of them are in the end."""
    names = [f"ctr{number}" for number in range(5)]
    for name in names:
        node.add(name)
    config = "adopt: {enabled: true, atOnce: 2, perSecond: 100}"
    with node.proxy(config) as door:
        adopted = EntryState.ADOPTED
        wait_until(lambda: all(state(door, name) is adopted for name in names))
    assert all(node.held(name) == FILES for name in names)


def test_files_that_hold_every_value_are_left(node: Older) -> None:
    """The container counts as adopted without a write."""
    node.add("ctr1")
    for file, value in FILES.items():
        (node.root / POD[1:] / "ctr1" / file).write_text(f"{value}\n")
    with node.proxy(ADOPT) as door:
        wait_until(lambda: state(door, "ctr1") is EntryState.ADOPTED)
        writer = door.lifecycle.pending.writer
        assert writer is not None
        assert not writer.counts


def test_a_container_that_was_missed_is_adopted_at_the_next_listing(
    node: Older,
) -> None:
    """That is when `adopt` was turned on since."""
    node.add("ctr1")
    with node.proxy("") as door:
        assert state(door, "ctr1") is EntryState.MISSED
        assert node.held("ctr1") != FILES
        door.apply(parse_config(ADOPT, "test"))
        discovery: Any = door._discovery
        discovery.learn()
        wait_until(lambda: state(door, "ctr1") is EntryState.ADOPTED)
        assert node.held("ctr1") == FILES


@pytest.mark.parametrize("config", ["", f"{ADOPT}\nshadow: true"])
def test_without_adopt_and_in_shadow_mode_nothing_is_written(
    node: Older, config: str
) -> None:
    """The container is shown as missed, or with the values that it would get."""
    node.add("ctr1")
    before = node.held("ctr1")
    with node.proxy(config) as door:
        shown = EntryState.SHADOWED if config else EntryState.MISSED
        assert state(door, "ctr1") is shown
    assert node.held("ctr1") == before


def test_without_direct_writes_nothing_is_adopted(
    node: Older, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says so."""
    node.add("ctr1")
    with node.proxy(ADOPT, writable=False) as door:
        assert state(door, "ctr1") is EntryState.MISSED
    assert "direct writes are off: nothing is adopted" in caplog.text


def test_a_container_that_has_not_started_is_not_adopted(node: Older) -> None:
    """It has no cgroup yet."""
    node.add("ctr1", running=False)
    with node.proxy(ADOPT) as door:
        assert state(door, "ctr1") is EntryState.MISSED
