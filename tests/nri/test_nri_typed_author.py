"""The type hints that an author's plugin and its tests see, checked by mypy strict.

mypy reads this file in hack/check: an unused `type: ignore` is an error, so each of
them shows that mypy finds that mistake of an author.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

from nriplugin.api import nri_pb2 as nri
from nriplugin.nri import FailurePolicy, Plugin
from nriplugin.nri.testing import (
    Created,
    PluginRuntime,
    RunningPlugin,
    Updated,
    make_container,
    make_pod,
    make_resources,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nriplugin.errors import NRIPluginError


class Typed(Plugin):
    """Uses every kind of handler, without a cast and without Any."""

    failure_policy = FailurePolicy.FAIL

    def __init__(self) -> None:
        self.outcomes: list[NRIPluginError | None] = []

    def configure(self, request: nri.ConfigureRequest) -> None:
        assert_type(request.runtime_name, str)

    def synchronize(
        self, pods: Sequence[nri.PodSandbox], containers: Sequence[nri.Container]
    ) -> Iterator[nri.ContainerUpdate]:
        for container in containers:
            yield nri.ContainerUpdate(container_id=container.id)

    def create_container(
        self, request: nri.CreateContainerRequest
    ) -> nri.CreateContainerResponse | None:
        assert_type(request.container.linux.resources.cpu.shares.value, int)
        if request.pod.namespace == "default":
            return None
        response = nri.CreateContainerResponse()
        response.adjust.linux.resources.unified["cpu.weight"] = "1"
        return response

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        update = nri.ContainerUpdate(container_id=container.id)
        update.linux.resources.cpu.shares.value = 2
        assert_type(self.enqueue_update(update, done=self.outcomes.append), bool)

    def other_event(
        self, event: str, pod: nri.PodSandbox, container: nri.Container | None
    ) -> None:
        if event == "remove_container":
            self.stop()


class Mistyped(Plugin):
    """Each mistake is one that mypy tells the author."""

    def create_container(  # type: ignore[override] # not a response
        self, request: nri.CreateContainerRequest
    ) -> nri.ContainerAdjustment:
        return nri.ContainerAdjustment()

    def start_container(  # type: ignore[override] # the container is missing
        self, pod: nri.PodSandbox
    ) -> None:
        pass

    def other_event(  # type: ignore[override] # a container may be None
        self, event: str, pod: nri.PodSandbox, container: nri.Container
    ) -> None:
        pass


def test_a_typed_plugin_is_tested_with_types(nri_runtime: PluginRuntime) -> None:
    """The fixture, the builders and the results have types, and they work."""
    plugin = Typed()
    running = nri_runtime.run_plugin(plugin, name="typed", idx="20")
    assert_type(running, RunningPlugin)
    pod = make_pod(namespace="batch")
    container = make_container(pod, resources=make_resources(cpu_shares=2))
    created = nri_runtime.create_container(pod, container)
    assert_type(created, Created)
    assert created.adjust.linux.resources.unified["cpu.weight"] == "1"
    updated = nri_runtime.update_container(pod, container, make_resources())
    assert_type(updated, Updated)
    nri_runtime.remove_container(pod, container)
    running.wait()
