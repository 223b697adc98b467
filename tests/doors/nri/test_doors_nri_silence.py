"""A process that is silent knows the containers when its silence ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from doors.nri.messages import (
    asking,
    container_at,
    creation,
    existing,
    pod_at,
    seen,
    updating,
)
from doors.nri.nodes import background_of, plugin_on
from engine.cases import NODE

from nriplugin.api import view_pb2 as view
from nriplugin.convert.readers import core_from_nri
from nriplugin.engine.stale import numbers_of
from nriplugin.kube.managed import Managed
from nriplugin.node.ownership_records import OwnershipRecords
from nriplugin.state.events import EventKind

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.api import nri_pb2 as nri


def test_containers_are_known_when_the_silence_ends(tmp_path: Path) -> None:
    """Those of Synchronize, with the values that the other process has stored."""
    plugin = plugin_on(NODE, records=OwnershipRecords(str(tmp_path)))
    lifecycle = plugin.lifecycle
    lifecycle.plans.set_silent(True)
    there = existing([pod_at()], [container_at(number=1), container_at(number=2)])
    assert not plugin.synchronize(*there)
    # The other process updates one of them, and begins and ends others.
    other = OwnershipRecords(str(tmp_path))
    other.put("c1", Managed({"cpu.weight": "59"}))
    assert plugin.create_container(creation(pod_at(), container_at(number=3))) is None
    new = lifecycle.inventory.get("c3")
    assert new is not None
    assert not new.started
    plugin.start_container(b"", seen(view.Container, container_at(number=3)))
    plugin.remove_container(b"", seen(view.Container, container_at(number=2)))
    background_of(plugin).work()
    assert other.load().keys() == {"c1"}
    lifecycle.end_silence()
    entries = lifecycle.inventory.snapshot()
    assert entries.keys() == {"c1", "c3"}
    assert entries["c1"].files == {"cpu.weight": "59"}
    assert entries["c1"].path == "shop/web/app"
    assert all(entry.started for entry in entries.values())


def test_a_resize_after_the_silence_follows_the_stored_values(tmp_path: Path) -> None:
    """The record of the other process says that the weight is nriplugin's."""
    plugin = plugin_on(NODE, records=OwnershipRecords(str(tmp_path)))
    plugin.lifecycle.plans.set_silent(True)
    plugin.synchronize(*existing([pod_at()], [container_at()]))
    OwnershipRecords(str(tmp_path)).put("c1", Managed({"cpu.weight": "7"}))
    plugin.lifecycle.end_silence()
    entry = plugin.lifecycle.inventory.get("c1")
    assert entry is not None
    assert not entry.owned
    request = updating(pod_at(), container_at(), asking(shares=1024))
    answer = plugin.update_container(request)
    assert answer is not None
    assert answer.update[0].linux.resources.unified["cpu.weight"] == "100"
    plugin.post_update_container(b"", seen(view.Container, container_at()))
    entry = plugin.lifecycle.inventory.get("c1")
    assert entry is not None
    assert entry.owned


def resized_in_silence(tmp_path: Path, recorded: str) -> list[nri.ContainerUpdate]:
    """Resize a container that nobody answers for; return the updates afterwards.

    `recorded` are the numbers in the record of the other process.
    """
    plugin = plugin_on(NODE, records=OwnershipRecords(str(tmp_path)))
    sent: list[nri.ContainerUpdate] = []
    adoption: Any = plugin._adoption
    adoption._enqueue_update = sent.append
    adoption.release = (0, 12, 5)
    plugin.lifecycle.plans.set_silent(True)
    app = container_at(shares=512, unified={"cpu.weight": "59"})
    plugin.synchronize(*existing([pod_at()], [app]))
    request = updating(pod_at(), app, asking(shares=1024))
    assert plugin.update_container(request) is None
    managed = Managed({"cpu.weight": "59"}, {}, recorded)
    OwnershipRecords(str(tmp_path)).put("c1", managed)
    plugin.lifecycle.end_silence()
    background = background_of(plugin)
    background.work_when_time_is_up()
    background.work_later()
    events, _ = plugin.lifecycle.events.since(0)
    assert ([one.kind for one in events].count(EventKind.STALE) == 1) == bool(sent)
    return sent


def test_a_resize_that_nobody_answered_is_put_right(tmp_path: Path) -> None:
    """The other process had ended by then, so its record has the numbers of before."""
    before = numbers_of(core_from_nri(asking(shares=512)))
    (update,) = resized_in_silence(tmp_path, before)
    assert dict(update.linux.resources.unified) == {"cpu.weight": "100"}


def test_a_resize_that_the_other_process_answered_is_left(tmp_path: Path) -> None:
    """Its record has the numbers of the resize."""
    now = numbers_of(core_from_nri(asking(shares=1024)))
    assert resized_in_silence(tmp_path, now) == []


def test_on_cgroup_v1_what_exists_is_listed_and_what_comes_is_not() -> None:
    """With the defaults nothing is decided there, whoever decides."""
    plugin = plugin_on(NODE._replace(cgroup_version=1))
    plugin.synchronize(*existing([pod_at()], [container_at()]))
    assert plugin.create_container(creation(pod_at(), container_at(number=2))) is None
    assert len(plugin.lifecycle.inventory) == 1
