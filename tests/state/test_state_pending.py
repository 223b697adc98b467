"""Direct writes around the runtime's own, where calls overlap, fail or are late."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from doors.nri.messages import (
    asking,
    container_at,
    creation,
    existing,
    pod_at,
    updating,
)
from doors.nri.nodes import (
    FACTS,
    ByHand,
    Node,
    configure,
    plugin_on,
    repair_all,
)
from node.writing import BURST, kernel_with, part, write, writer_on
from support.trees import CONTAINER, POD

from nriplugin.api import nri_pb2 as nri
from nriplugin.api import view_pb2 as view
from nriplugin.convert import Curve
from nriplugin.doors.nri import dry_run, plugin
from nriplugin.errors import NRIPluginError
from nriplugin.node.ownership_records import OwnershipRecords
from nriplugin.state.events import EventLog
from nriplugin.state.inventory import ContainerEntry, Inventory, PodEntry
from nriplugin.state.pending import Cancellation, PendingWrites

if TYPE_CHECKING:
    from pathlib import Path

    from cgroup.kernels import Kernel

GIB = 1 << 30
BEFORE = ContainerEntry("c1", "app", PodEntry("p1", cgroup_parent=POD), CONTAINER)


def writing(kernel: Kernel) -> tuple[PendingWrites, Inventory]:
    """Return pending writes on a kernel, with one container in the inventory."""
    inventory = Inventory()
    inventory.put(BEFORE)
    pending = PendingWrites(inventory, ByHand(), None, EventLog())
    pending.writer = writer_on(kernel)
    return pending, inventory


def become(weight: str) -> ContainerEntry:
    return BEFORE._replace(files={"cpu.weight": weight})


# Calls that nobody waits for any more


@pytest.mark.parametrize("late", [True, False])
def test_a_cancelled_creation_writes_and_claims_nothing(late: bool) -> None:
    """A creation that is not cancelled does both."""
    kernel = kernel_with(files=[(f"{POD}/cpu.max", "100000 100000")])
    pending, _ = writing(kernel)
    cancellation = Cancellation()
    cancellation.cancelled = late
    pending.before_creation("k", [part(BURST, 5000)], POD, cancellation=cancellation)
    assert (kernel.writes == []) is late
    assert pending.writer is not None
    assert (pending.writer.claims.in_pod(POD, BURST) == []) is late


def test_a_cancelled_update_is_not_under_way() -> None:
    """Neither its first writes are done, nor does it hold up others."""
    kernel = kernel_with()
    pending, _ = writing(kernel)
    cancellation = Cancellation()
    cancellation.cancelled = True
    writes = [write("cpu.weight", "7")]
    assert (
        pending.updates.begin(BEFORE, become("7"), writes, BEFORE, cancellation) is None
    )
    assert kernel.writes == []
    assert not pending.is_changing(BEFORE)


def test_a_creation_that_is_cancelled_while_it_waits_for_the_lock_writes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Waiting for the lock may be what took too long."""
    kernel = kernel_with(files=[(f"{POD}/cpu.max", "100000 100000")])
    pending, _ = writing(kernel)
    writer, cancellation = pending.writer, Cancellation()
    assert writer is not None
    exclusive = writer.exclusive

    def cancelled_meanwhile() -> Any:
        cancellation.cancelled = True
        return exclusive()

    monkeypatch.setattr(writer, "exclusive", cancelled_meanwhile)
    pending.before_creation("k", [part(BURST, 5000)], POD, cancellation=cancellation)
    assert kernel.writes == []
    assert writer.claims.in_pod(POD, BURST) == []


# Two updates of one container


def test_each_of_two_updates_has_its_own_end() -> None:
    """The end of the first neither stores the second nor ends it."""
    pending, inventory = writing(kernel_with())
    first = pending.updates.begin(BEFORE, become("1"), (), BEFORE)
    second = pending.updates.begin(BEFORE, become("2"), (), BEFORE)
    assert first is not None
    assert second is not None
    pending.updates.finish(first)
    entry = inventory.get("c1")
    assert entry is not None
    assert entry.files == {"cpu.weight": "1"}
    assert "c1" in pending.updates.under_way
    pending.updates.failed(second)
    assert "c1" not in pending.updates.under_way
    assert inventory.get("c1") is entry


def test_a_refused_update_is_taken_back() -> None:
    """The values that were written before it are those of the entry again."""
    kernel = kernel_with()
    kernel.files[f"{CONTAINER}/cpu.weight"] = "5"
    pending, inventory = writing(kernel)
    inventory.put(became := become("5"))
    writes = [write("cpu.weight", "7")]
    update = pending.updates.begin(became, become("7"), writes, became)
    assert kernel.files[f"{CONTAINER}/cpu.weight"] == "7"
    assert update is not None
    pending.updates.failed(update)
    assert kernel.files[f"{CONTAINER}/cpu.weight"] == "5"


# Through the NRI door


def test_the_default_answers_with_what_an_update_touches() -> None:
    """Also where the runtime does not show the values that it keeps.

    Every key in the answer is owned by nriplugin, and another plugin that sets it fails
    the update.
    """
    plugin = plugin_on(FACTS)
    plugin.create_container(creation(pod_at(), container_at()))
    cpuset = nri.LinuxResources()
    cpuset.cpu.cpus = "0-1"
    assert plugin.update_container(updating(pod_at(), container_at(), cpuset)) is None
    memory = nri.LinuxResources()
    memory.memory.limit.value = 2 * GIB
    answer = plugin.update_container(updating(pod_at(), container_at(), memory))
    assert answer is not None
    unified = dict(answer.update[0].linux.resources.unified)
    assert unified == {"memory.max": str(2 * GIB)}


def test_drift_that_repair_notes_during_an_update_does_not_lose_it() -> None:
    """An update is late only if `fallback_update` has answered in its place."""
    node = Node("repair: {enabled: true}\ncpuBurst: {enabled: true, percent: 50}")
    node.create()
    node.start()
    node.kernel.unwilling.add(f"{CONTAINER}/memory.max")
    node.kernel.files[f"{CONTAINER}/memory.max"] = "max"
    before = node.plugin.lifecycle.inventory.get("c1")
    repair_all(node.plugin)
    inventory = node.plugin.lifecycle.inventory
    assert inventory.drift_of("c1") == ("memory.max",)
    assert inventory.get("c1") is before


def test_two_pods_without_an_id_are_not_taken_for_one() -> None:
    """Direct writes for the second would go to the cgroup of the first."""
    plugin = plugin_on(FACTS)
    for number, parent in enumerate((POD, f"{POD}x"), 1):
        app = container_at(f"{parent}/{number}", number, pod_id="")
        plugin.create_container(creation(pod_at(parent, id=""), app))
        entry = plugin.lifecycle.inventory.get(app.id)
        assert entry is not None
        assert entry.pod_cgroup == parent


def test_an_update_of_a_container_whose_pod_was_not_listed_is_stored() -> None:
    """Synchronize may list a container without its pod."""
    plugin = plugin_on(FACTS)
    plugin.synchronize([], existing([], [container_at()])[1])
    asked = asking(limit_bytes=GIB * 2)
    plugin.update_container(updating(pod_at(), container_at(), asked))
    seen = view.Container.FromString(container_at().SerializeToString())
    plugin.post_update_container(b"", seen)
    entry = plugin.lifecycle.inventory.get("c1")
    assert entry is not None
    assert entry.files["memory.max"] == str(GIB * 2)


def test_where_only_numbers_count_a_pods_own_curve_does_not() -> None:
    """The decision cache's key has the numbers alone, so the first pod must not matter.

    Under systemd, crun needs a direct write for a weight of another curve than its own.
    """
    decisions = []
    for uid in ("odd", "plain"):
        plugin = plugin_on(FACTS._replace(driver="systemd"))
        configure(plugin, "curve: quadratic")
        plugin.lifecycle.plans.learn({}, {"odd": Curve.KEP})
        assert plugin.plan.numbers_only
        pod = pod_at(uid=uid, runtime_handler="crun")
        plugin.create_container(creation(pod, container_at()))
        entry = plugin.lifecycle.inventory.get("c1")
        assert entry is not None
        decisions.append(entry.decision)
    assert decisions[0] == decisions[1]


def test_a_removal_in_the_default_configuration_leaves_no_work() -> None:
    """Each job would wake the background thread beside the next request."""
    node = Node("cpuBurst: {enabled: true, percent: 50}")
    configure(node.plugin, "")
    node.create()
    node.start()
    node.remove()
    assert node.background.now == []


def test_a_record_that_is_stored_late_does_not_outlive_its_container(
    tmp_path: Path,
) -> None:
    """A removal prevents the store that an update has queued."""
    records = OwnershipRecords(str(tmp_path))
    background = ByHand()
    plugin = plugin_on(FACTS, background=background, records=records)
    plugin.create_container(creation(pod_at(), container_at()))
    plugin.update_container(
        updating(pod_at(), container_at(), asking(limit_bytes=GIB * 2))
    )
    seen = view.Container.FromString(container_at().SerializeToString())
    plugin.post_update_container(b"", seen)
    plugin.remove_container(b"", seen)
    background.work()
    assert records.load() == {}


def test_a_pod_is_decoded_at_most_once_per_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And not at all for a further container of a pod where only numbers count."""
    decoded: list[int] = []

    def decode(payload: bytes) -> object:
        decoded.append(len(payload))
        return view.PodSandbox.FromString(payload)

    for module in (plugin, dry_run):
        monkeypatch.setattr(module, "decode_pod", decode)
    impossible = asking(shares=512, quota_us=5)
    for config, expected in (
        ("", [1, 0, 1, 1, 1]),
        ("cpuBurst: {enabled: true, percent: 50}", [1, 1, 1, 1, 1]),
    ):
        live = plugin_on(FACTS)
        configure(live, config)
        requests: list[Any] = [
            lambda p=live: p.create_container(creation(pod_at(), container_at())),
            lambda p=live: p.create_container(
                creation(pod_at(), container_at(number=2))
            ),
            lambda p=live: p.update_container(
                updating(pod_at(), container_at(), asking(limit_bytes=GIB * 2))
            ),
            lambda p=live: p.fallback_update(
                updating(pod_at(), container_at(), asking(limit_bytes=GIB * 3))
            ),
            lambda p=live: p.update_container(
                updating(pod_at(), container_at(), impossible)
            ),
        ]
        counts = []
        for request in requests:
            decoded.clear()
            with suppress(NRIPluginError):
                request()
            counts.append(len(decoded))
        assert counts == expected
