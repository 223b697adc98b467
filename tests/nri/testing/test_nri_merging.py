"""Several plugins on the embedded runtime: who owns what, and who sees what."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest
from support.harness import PATIENCE_S, PATIENT, container, pod, running, update

from nriplugin.api import nri_pb2 as nri
from nriplugin.nri import Plugin
from nriplugin.nri.testing.runtime import (
    EmbeddedRuntime,
    RequestRejected,
    Updated,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Adjuster(Plugin):
    """A plugin that adjusts every container alike and keeps what it was shown."""

    def __init__(self, adjust: nri.ContainerAdjustment) -> None:
        self._adjust = adjust
        self.shown = nri.Container()

    def create_container(
        self, request: nri.CreateContainerRequest
    ) -> nri.CreateContainerResponse:
        self.shown = request.container
        return nri.CreateContainerResponse(adjust=self._adjust)


class Updater(Plugin):
    """A plugin that answers every update alike and keeps the requests."""

    def __init__(self, *updates: nri.ContainerUpdate) -> None:
        self._updates = updates
        self.asked = nri.LinuxResources()

    def update_container(
        self, request: nri.UpdateContainerRequest
    ) -> nri.UpdateContainerResponse:
        self.asked = request.linux_resources
        return nri.UpdateContainerResponse(update=self._updates)


@contextmanager
def beside_each_other(tmp_path: Path, *plugins: Plugin) -> Iterator[EmbeddedRuntime]:
    """Plugins a at index 10, b at 20 and so on, on one runtime."""
    path = str(tmp_path / "nri.sock")
    with EmbeddedRuntime(path, PATIENT) as runtime, ExitStack() as stack:
        for number, plugin in enumerate(plugins):
            name, idx = "abc"[number], f"{number + 1}0"
            stack.enter_context(running(plugin, path, name, idx))
        runtime.wait_for_plugin(len(plugins), timeout_s=PATIENCE_S)
        yield runtime


def adjusting(**unified: str) -> nri.ContainerAdjustment:
    """Return an adjustment of v2 files; cpu_weight="42" is cpu.weight."""
    adjust = nri.ContainerAdjustment()
    adjust.linux.resources.CopyFrom(update("", **unified).linux.resources)
    return adjust


def shares(number: int) -> nri.ContainerUpdate:
    entry = nri.ContainerUpdate(container_id="c1")
    entry.linux.resources.cpu.shares.SetInParent()
    entry.linux.resources.cpu.shares.value = number
    return entry


def resize(runtime: EmbeddedRuntime) -> Updated:
    """Ask for 1024 shares, a set of CPUs and a limit of huge pages."""
    asked = nri.LinuxResources()
    asked.cpu.shares.value = 1024
    asked.cpu.cpus = "0-1"
    asked.hugepage_limits.add(page_size="2MB", limit=1)
    return runtime.update_container(pod(), container(), asked)


def test_two_plugins_that_set_one_file_fail_the_creation(tmp_path: Path) -> None:
    """The error names both plugins, the field and the key."""
    first = Adjuster(adjusting(cpu_weight="1", memory_high="5"))
    second = Adjuster(adjusting(cpu_weight="1"))
    both = pytest.raises(
        RequestRejected,
        match=r"plugins 10-a and 20-b both set CgroupsUnified cpu\.weight",
    )
    with beside_each_other(tmp_path, first, second) as runtime, both:
        runtime.create_container(pod(), container())
    assert runtime.containers == {}


def test_a_later_plugin_sees_what_an_earlier_one_adjusted(tmp_path: Path) -> None:
    """The change is in the request for the next plugin, not in the test's container."""
    adjust = adjusting(memory_high="5")
    adjust.linux.resources.cpu.shares.value = 512
    adjust.annotations["by"] = "a"
    second = Adjuster(adjusting(cpu_weight="1"))
    app = container(shares=1024)
    with beside_each_other(tmp_path, Adjuster(adjust), second) as runtime:
        created = runtime.create_container(pod(), app)
    assert second.shown.annotations["by"] == "a"
    assert second.shown.linux.resources.cpu.shares.value == 512
    assert dict(second.shown.linux.resources.unified) == {"memory.high": "5"}
    unified = dict(created.adjust.linux.resources.unified)
    assert unified == {"memory.high": "5", "cpu.weight": "1"}
    assert app.linux.resources.cpu.shares.value == 1024


def test_a_removal_marker_overrides_another_plugin(tmp_path: Path) -> None:
    """An annotation can be taken over by removing it first."""
    first = Adjuster(nri.ContainerAdjustment(annotations={"who": "a"}))
    second = Adjuster(nri.ContainerAdjustment(annotations={"who": "b", "-who": ""}))
    with beside_each_other(tmp_path, first, second) as runtime:
        created = runtime.create_container(pod(), container())
    assert created.adjust.annotations["who"] == "b"


def test_a_plugin_conflicts_with_itself(tmp_path: Path) -> None:
    """Two updates of one container must not set the same field."""
    twice = Updater(shares(5), shares(5))
    itself = pytest.raises(RequestRejected, match="10-a and 10-a both set CPUShares")
    with beside_each_other(tmp_path, twice) as runtime, itself:
        resize(runtime)


def test_an_answer_is_laid_over_the_request(tmp_path: Path) -> None:
    """Fields in an answer replace the request's, also by zero; others stay."""
    second = Updater(update("c1", cpu_weight="1"))
    with beside_each_other(tmp_path, Updater(shares(0)), second) as runtime:
        resources = resize(runtime).resources
    assert second.asked.cpu.shares.value == 0
    assert second.asked.cpu.HasField("shares")
    assert resources.cpu.HasField("shares")
    assert resources.cpu.shares.value == 0
    assert resources.cpu.cpus == "0-1"
    assert dict(resources.unified) == {"cpu.weight": "1"}
    assert [limit.page_size for limit in resources.hugepage_limits] == ["2MB"]


def test_a_request_that_is_echoed_is_owned(tmp_path: Path) -> None:
    """A plugin that repeats the request owns its fields and doubles huge pages."""

    class Echo(Plugin):
        def update_container(
            self, request: nri.UpdateContainerRequest
        ) -> nri.UpdateContainerResponse:
            entry = nri.ContainerUpdate(container_id=request.container.id)
            entry.linux.resources.CopyFrom(request.linux_resources)
            return nri.UpdateContainerResponse(update=[entry])

    with beside_each_other(tmp_path, Echo()) as runtime:
        assert len(resize(runtime).resources.hugepage_limits) == 2
    both = pytest.raises(RequestRejected, match="10-a and 20-b both set CPUShares")
    with beside_each_other(tmp_path, Echo(), Updater(shares(5))) as runtime, both:
        resize(runtime)


def test_a_conflict_over_another_container_can_be_ignored(tmp_path: Path) -> None:
    """An update with `ignore_failure` that meets a conflict is left out."""
    lenient = update("x", cpu_weight="2", memory_high="3")
    lenient.ignore_failure = True
    plugins = Updater(update("x", cpu_weight="1")), Updater(lenient, shares(5))
    with beside_each_other(tmp_path, *plugins) as runtime:
        updated = resize(runtime)
    (other,) = updated.updates
    assert dict(other.linux.resources.unified) == {"cpu.weight": "1"}
    assert not other.ignore_failure
    assert updated.resources.cpu.shares.value == 5


def test_a_validator_is_told_who_set_what(tmp_path: Path) -> None:
    """A validator gets the owner of each field, by index and name."""

    class Validator(Plugin):
        owners = nri.OwningPlugins()

        def validate_container_adjustment(
            self, request: nri.ValidateContainerAdjustmentRequest
        ) -> nri.ValidateContainerAdjustmentResponse:
            self.owners = request.owners
            return nri.ValidateContainerAdjustmentResponse()

    validator = Validator()
    adjuster = Adjuster(adjusting(cpu_weight="1"))
    with beside_each_other(tmp_path, adjuster, validator) as runtime:
        runtime.create_container(pod(), container())
    files = validator.owners.owners["c1"].compound[nri.CgroupsUnified].owners
    assert dict(files) == {"cpu.weight": "10-a"}
