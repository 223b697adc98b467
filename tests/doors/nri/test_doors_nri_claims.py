"""Sums above a container that was created and has not started yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from doors.nri.messages import container_at, pod_at
from doors.nri.messages import unified_of as files_of
from doors.nri.nodes import Node
from support.trees import CONTAINER, POD, QOS

from nriplugin.cgroup.journal.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nriplugin.api import nri_pb2 as nri

PROTECT = "memoryQoS: {enabled: true, raiseAncestors: true}"
BURST = "cpuBurst: {enabled: true, percent: 50}"
OTHER = f"{POD}/{'d' * 64}"
PAGE = 4096


def first() -> nri.Container:
    return container_at(oom_score=998)


def second() -> nri.Container:
    return container_at(OTHER, 2, oom_score=998)


class Journalled(Node):
    """A node whose original values are journalled, so that sums can be lowered."""

    def __init__(self, config: str, journal: Journal) -> None:
        super().__init__(config, journal=journal)
        self.kernel.remove(CONTAINER)

    def make(self, app: nri.Container) -> int:
        """Create a container as a runtime does; its protection is given in pages."""
        files = files_of(self.create(app))
        cgroup = app.linux.cgroups_path
        self.kernel.add(cgroup)
        self.kernel.files[f"{cgroup}/memory.low"] = files["memory.low"]
        return int(files["memory.low"]) // PAGE

    @property
    def raised(self) -> list[int]:
        """Return the protection above the containers in pages, from the top."""
        paths = ("/kubepods", QOS, POD)
        return [int(self.file(f"{one}/memory.low")) // PAGE for one in paths]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Journalled]:
    with Journal(str(tmp_path)) as journal:
        yield Journalled(PROTECT, journal)


def test_a_new_container_keeps_its_protection_when_another_one_goes(
    node: Journalled,
) -> None:
    """A sibling is removed between the container's creation and its start."""
    pages = node.make(first())
    node.start(first())
    node.create(second())
    node.kernel.remove(CONTAINER)
    node.remove(first())
    node.background.work()
    assert node.raised == [pages] * 3
    node.kernel.add(OTHER)
    node.kernel.files[f"{OTHER}/memory.low"] = str(pages * PAGE)
    node.start(second())
    assert node.raised == [pages] * 3
    node.kernel.remove(OTHER)
    node.remove(second())
    node.background.work()
    assert node.raised == [0, 0, 0]


def test_a_creation_that_the_runtime_refuses_leaves_nothing_raised(
    node: Journalled,
) -> None:
    """The runtime reports the removal of a container that never had a cgroup."""
    node.create(first())
    node.remove(first())
    node.background.work()
    assert node.raised == [0, 0, 0]


def test_synchronize_ends_claims_of_containers_that_do_not_exist(
    node: Journalled,
) -> None:
    """Synchronize lists all containers that exist."""
    pages = node.make(first())
    node.start(first())
    node.create(second())
    assert node.raised == [2 * pages] * 3
    node.synchronize([first()])
    node.background.work()
    assert node.raised == [pages] * 3


def test_the_end_of_a_pod_ends_the_claims_in_it(
    node: Journalled,
) -> None:
    """The cgroups of the QoS class and of kubepods are lowered."""
    node.create(first())
    node.kernel.remove(POD)
    node.remove_pod(pod_at())
    node.background.work()
    assert [node.file(f"{one}/memory.low") for one in ("/kubepods", QOS)] == ["0", "0"]


def test_a_pods_burst_counts_all_containers_that_are_being_created() -> None:
    """Two containers are created before either starts."""
    node = Node(BURST)
    node.kernel.remove(CONTAINER)
    node.kernel.files[f"{POD}/cpu.max"] = "400000 100000"
    for app in (first(), second()):
        burst = int(files_of(node.create(app))["cpu.max.burst"])
    assert node.file(f"{POD}/cpu.max.burst") == str(2 * burst)
