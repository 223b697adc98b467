"""The inventory: complete entries in few bytes, and no entry of an ended container."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest
from doors.nri.messages import OURS, container_at, creation, pod_at
from doors.nri.nodes import FACTS, configure, plugin_on
from support.trees import CONTAINER, POD, UID

from nriplugin.state.inventory import (
    REMEMBERED_ENDS,
    ContainerEntry,
    EntryState,
    Inventory,
    PodEntry,
)

ALL_ON = """
cpuBurst: {enabled: true, percent: 50}
cpuQoS: {enabled: true}
memoryQoS: {enabled: true}
memoryQoSLevel: {enabled: true}
unifiedAnnotations: {enabled: true, allowed: [io.weight]}
"""
GROUP = {
    "scheduling.k8s.io/group-name": "train",
    "volcano.sh/job-name": "resnet",
    "volcano.sh/queue-name": "gpu",
}


@pytest.mark.parametrize("config", ["", ALL_ON], ids=["default", "all on"])
def test_an_entry_says_whose_container_it_is_and_why_it_has_its_values(
    config: str,
) -> None:
    """Pod, PodGroup, container, cgroup, numbers, and the reason of each file."""
    plugin = plugin_on(FACTS)
    configure(plugin, config)
    plugin.create_container(creation(pod_at(annotations=GROUP), container_at()))
    entry = plugin.lifecycle.inventory.get("c1")
    assert entry is not None
    pod = entry.pod
    assert (pod.id, pod.namespace, pod.name, pod.uid) == ("p1", "shop", "web", UID)
    assert pod.qos_class == "Burstable"
    assert pod.group is not None
    assert (pod.group.group, pod.group.job, pod.group.queue) == (
        "train",
        "resnet",
        "gpu",
    )
    assert (entry.name, entry.path) == ("app", "shop/web/app")
    assert (entry.cgroup, entry.pod_cgroup) == (CONTAINER, POD)
    assert entry.numbers == "512,100000,100000,1073741824"
    assert entry.state is EntryState.MANAGED
    assert entry.decision is not None
    why = entry.decision.why("cpu.max")
    assert why is not None
    assert (why.handler, entry.files["cpu.max"]) == ("resources", "100000 100000")
    assert why.rule.text


def test_a_skipped_container_says_why() -> None:
    """A refused container, one with all handlers off, and one that was missed."""
    plugin = plugin_on(FACTS)
    plugin.create_container(creation(pod_at(), container_at(shares=512, quota_us=5)))
    refused = plugin.lifecycle.inventory.get("c1")
    assert refused is not None
    assert refused.state is EntryState.SKIPPED
    assert refused.reason.startswith("resources: cpu.quota: 5, expected")
    missed = ContainerEntry("c2")
    assert missed.state is EntryState.SKIPPED
    assert (
        missed.reason
        == "it is older than this process, or was created without nriplugin"
    )


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"files": {"cpu.weight": "59"}}, EntryState.MANAGED),
        ({"outdated": {"cpu.weight": "59"}}, EntryState.MANAGED),
        ({"files": {"cpu.weight": "59"}, "adopted": True}, EntryState.ADOPTED),
    ],
)
def test_the_state_of_a_container(changes: dict[str, Any], state: str) -> None:
    """Drift is what an operator has to see first, then adoption."""
    inventory = Inventory()
    entry = ContainerEntry("c1")._replace(**changes)
    inventory.put(entry)
    assert inventory.state_of(entry) is state
    assert entry.reason == ""
    inventory.note_drift("c1", ("cpu.max",))
    assert inventory.state_of(entry) is EntryState.DRIFTED
    assert inventory.drift_of("c1") == ("cpu.max",)
    inventory.note_drift("c1", ())
    assert inventory.state_of(entry) is state


def test_drift_ends_with_its_container() -> None:
    """And is not kept for a container that is not there."""
    inventory = Inventory()
    inventory.note_drift("c1", ("cpu.max",))
    assert inventory.drift_of("c1") == ()
    inventory.put(ContainerEntry("c1"))
    inventory.note_drift("c1", ("cpu.max",))
    inventory.drop("c1")
    assert inventory.drift_of("c1") == ()


def test_500_containers_take_less_than_a_megabyte() -> None:
    """All different, of 500 pods with three annotations each, with every handler on."""
    plugin = plugin_on(FACTS)
    configure(plugin, ALL_ON)
    requests = []
    for number in range(500):
        annotations = {
            f"cpu-burst{OURS}": "30%",
            f"memory-request{OURS}": "64Mi",
            f"io.weight{OURS}": str(number + 1),
            **GROUP,
        }
        name = f"web-7f9c-{number}"
        pod = pod_at(annotations=annotations, id=f"{number:064x}", name=name)
        app = container_at(shares=512 + number, limit_bytes=(1 << 30) + 4096 * number)
        app.id, app.pod_sandbox_id = f"{number + 500:064x}", pod.id
        requests.append(creation(pod, app).SerializeToString())
    request_type = type(creation(pod_at(), container_at()))
    gc.collect()
    tracemalloc.start()
    try:
        for request in requests:
            plugin.create_container(request_type.FromString(request))
        # The caches of decisions and of arithmetic are not part of the inventory, and
        # neither are the newest events, which refer to entries.
        plugin.lifecycle.events._ring.clear()
        plugin.lifecycle.plans.apply(plugin.plan.config)
        plugin.lifecycle.events._ring.clear()  # events keep entries alive, too
        assert len(plugin.lifecycle.inventory) == 500
        gc.collect()
        with_entries, _ = tracemalloc.get_traced_memory()
        plugin.lifecycle.inventory.replace({}, {})
        gc.collect()
        without, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 100_000 < with_entries - without < 1_000_000


def test_an_end_is_not_undone_by_an_answer_that_comes_later() -> None:
    """An ended container, or one of an ended pod, is not added again."""
    inventory = Inventory()
    inventory.drop("first")
    inventory.drop_pod("pod")
    inventory.put_late(ContainerEntry("first"))
    inventory.put_late(ContainerEntry("second", pod=PodEntry("pod")))
    inventory.put_pod_late(PodEntry("pod"))
    assert inventory.ids() == (set(), set())
    for number in range(REMEMBERED_ENDS):
        inventory.drop(str(number))
    inventory.put_late(ContainerEntry("first"))
    assert inventory.ids() == (set(), {"first"})


def test_a_change_needs_the_entry_that_it_was_made_from() -> None:
    """A change that was made from an older entry is refused."""
    inventory = Inventory()
    old, new = ContainerEntry("c", "old"), ContainerEntry("c", "new")
    inventory.put(old)
    assert inventory.change(old, new)
    assert not inventory.change(old, old)
    assert inventory.get("c") is new


def test_changes_during_a_listing_are_not_lost() -> None:
    """A listing is old when it arrives."""
    inventory = Inventory()
    pod = PodEntry("p")
    old, both, new = (ContainerEntry(one, pod=pod) for one in ("old", "both", "new"))
    inventory.put(old)
    inventory.put(both)
    before = inventory.ids()
    inventory.put(new)
    listed = ContainerEntry("both", "less is known", pod)
    other = ContainerEntry("other", pod=pod)
    inventory.merge(before, {"p": pod}, {"both": listed, "other": other})
    assert inventory.ids() == ({"p"}, {"both", "new", "other"})
    assert inventory.get("both") is both


def test_containers_that_end_during_a_listing_are_not_added_again() -> None:
    """The listing is from before their end."""
    inventory = Inventory()
    pod = PodEntry("p")
    container = ContainerEntry("c", pod=pod)
    inventory.put_pod(pod)
    inventory.put(container)
    before = inventory.ids()
    inventory.drop_pod("p")
    inventory.merge(before, {"p": pod}, {"c": container})
    assert inventory.ids() == (set(), set())


def test_a_listing_does_not_add_containers_that_ended_since() -> None:
    """Also not those that never had an entry."""
    inventory = Inventory()
    before = inventory.ids()
    inventory.drop("c1")
    inventory.drop_pod("p2")
    pods = {one: PodEntry(one) for one in ("p1", "p2")}
    listed = {
        one: ContainerEntry(one, pod=pods[pod])
        for one, pod in (("c1", "p1"), ("c2", "p2"), ("c3", "p1"))
    }
    inventory.merge(before, pods, listed)
    assert inventory.ids() == ({"p1"}, {"c3"})
