"""Containers that were created without nriplugin are found at Synchronize."""

from __future__ import annotations

import pytest
from doors.nri.messages import FILES, GIB, asking, container_at
from doors.nri.messages import unified_of as files_of
from doors.nri.nodes import Node
from support.trees import CONTAINER, POD

from nriplugin.api import nri_pb2 as nri
from nriplugin.state.events import EventKind
from nriplugin.state.inventory import ContainerEntry, EntryState

BURST = "cpuBurst: {enabled: true, percent: 50}"
# The quick way through Synchronize, and the one that decides about every container.
CONFIGS = pytest.mark.parametrize("config", ["", BURST])


def entry_of(node: Node, container_id: str = "c1") -> ContainerEntry:
    entry = node.plugin.lifecycle.inventory.get(container_id)
    assert entry is not None
    return entry


def made_by_us(number: int = 1) -> nri.Container:
    """Return a container that an earlier process of nriplugin has decided about."""
    app = container_at(f"{POD}/{number:064x}", number)
    answer = Node("").create(app)
    assert answer is not None
    app.linux.resources.unified.update(files_of(answer))
    app.annotations.update(answer.adjust.annotations)
    return app


def missed_in_gaps(node: Node) -> list[int]:
    return [gap.missed for gap in node.plugin.lifecycle.connection.gaps]


def kinds(node: Node) -> list[EventKind]:
    events, _ = node.plugin.lifecycle.events.since(0)
    return [event.kind for event in events]


@CONFIGS
def test_a_container_without_a_record_was_missed(config: str) -> None:
    """By default it is only shown; it is not taken for one without values."""
    node = Node(config)
    node.synchronize([container_at(), made_by_us(2)])
    entry = entry_of(node)
    assert entry.state is EntryState.MISSED
    assert entry.reason.startswith("it was created without nriplugin, which connected")
    assert entry_of(node, "c2").state is EntryState.MANAGED
    assert missed_in_gaps(node) == [1]
    assert kinds(node) == [EventKind.CONNECTED, EventKind.MISSED]
    node.background.work()
    assert node.written() == {}


@CONFIGS
def test_a_container_that_would_have_no_values_was_not_missed(config: str) -> None:
    """It is skipped, as it would be with nriplugin."""
    node = Node(config)
    node.synchronize([container_at(shares=0)])
    assert entry_of(node).state is EntryState.SKIPPED
    assert missed_in_gaps(node) == [0]


@CONFIGS
def test_a_container_that_has_ended_was_not_missed(config: str) -> None:
    """Runtimes list it until it is removed."""
    app = container_at()
    app.state = nri.CONTAINER_STOPPED
    node = Node(config)
    node.synchronize([app])
    assert missed_in_gaps(node) == [0]
    assert EventKind.MISSED not in kinds(node)


@CONFIGS
def test_each_gap_counts_the_containers_that_are_new(config: str) -> None:
    """Those that were missed before stay missed, with the earlier reason."""
    node = Node(config)
    node.synchronize([container_at()])
    earlier = entry_of(node).reason
    node.plugin.disconnected("the runtime went away")
    ours, new = container_at(f"{POD}/{2:064x}", 2), container_at(f"{POD}/{3:064x}", 3)
    node.create(ours)
    node.synchronize([container_at(), ours, new])
    assert missed_in_gaps(node) == [1, 1]
    assert entry_of(node).reason == earlier
    assert entry_of(node, "c2").state is EntryState.MANAGED
    reason = entry_of(node, "c3").reason
    assert "was not connected, between" in reason
    assert reason.endswith(": the runtime went away")
    node.plugin.disconnected("again")
    node.synchronize([container_at(), ours, new])
    assert missed_in_gaps(node) == [1, 1, 0]
    assert entry_of(node, "c3").reason == reason


@CONFIGS
def test_an_update_ends_it(config: str) -> None:
    """The answer has values, so the container is managed from then on."""
    node = Node(config)
    node.synchronize([container_at()])
    node.update(asking(limit_bytes=2 * GIB))
    node.post_update()
    assert entry_of(node).state is EntryState.MANAGED
    assert entry_of(node).reason == ""


def test_a_missed_container_is_adopted_where_that_is_on() -> None:
    """Its values are written, and the event follows the one that it was missed."""
    node = Node("adopt: {enabled: true}")
    node.synchronize([container_at()])
    assert entry_of(node).state is EntryState.MISSED
    node.background.work()
    assert entry_of(node).state is EntryState.ADOPTED
    assert node.of_container("cpu.weight") == FILES["cpu.weight"]
    assert missed_in_gaps(node) == [1]
    assert kinds(node)[1:] == [EventKind.MISSED, EventKind.ADOPTED]


def test_a_missed_container_that_lacks_nothing_is_adopted_at_once() -> None:
    """The runtime has computed the same values by itself."""
    node = Node("adopt: {enabled: true}")
    for file, value in FILES.items():
        node.kernel.files[f"{CONTAINER}/{file}"] = value
    node.synchronize([container_at()])
    assert entry_of(node).state is EntryState.ADOPTED
    assert entry_of(node).reason == ""
    assert kinds(node)[1:] == [EventKind.MISSED, EventKind.ADOPTED]
    node.background.work()
    assert node.written() == {}


def test_many_missed_containers_do_not_fill_the_list_of_events() -> None:
    """The last event says how many more there were."""
    node = Node("")
    apps = [container_at(f"{POD}/{number:064x}", number) for number in range(1, 101)]
    node.synchronize(apps)
    events, _ = node.plugin.lifecycle.events.since(0)
    missed = [event for event in events if event.kind is EventKind.MISSED]
    assert len(missed) == 65
    assert missed[-1].text == "36 more containers"
    assert missed[0].text == entry_of(node).reason
    assert missed_in_gaps(node) == [100]


def test_a_stale_container_is_an_event() -> None:
    """Its values were corrected by the answer to Synchronize."""
    app = made_by_us()
    app.linux.resources.memory.limit.value = 2 * GIB
    node = Node("")
    updates = node.synchronize([app])
    assert updates is not None
    assert dict(updates[0].linux.resources.unified) == {"memory.max": str(2 * GIB)}
    assert kinds(node)[1:] == [EventKind.STALE]
    assert missed_in_gaps(node) == [0]
