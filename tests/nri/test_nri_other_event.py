"""`Plugin.other_event` sees every event that has no handler of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.harness import PATIENT, connected, container, pod

from nriplugin.api import nri_pb2 as nri
from nriplugin.nri import FailurePolicy, Plugin
from nriplugin.nri.methods import METHODS
from nriplugin.nri.plugin import subscription
from nriplugin.nri.testing.runtime import EmbeddedRuntime, RequestRejected

if TYPE_CHECKING:
    from pathlib import Path


class Watcher(Plugin):
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str | None]] = []

    def other_event(
        self, event: str, pod: nri.PodSandbox, container: nri.Container | None
    ) -> None:
        self.seen.append((event, pod.id, container.id if container else None))


class WatcherWithHandlers(Watcher):
    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.seen.append(("its own start_container", pod.id, container.id))

    def create_container(
        self, request: nri.CreateContainerRequest
    ) -> nri.CreateContainerResponse:
        response = nri.CreateContainerResponse()
        response.adjust.annotations["seen"] = "yes"
        return response


def live(runtime: EmbeddedRuntime) -> None:
    """Take a pod with one container from the beginning to the end."""
    one, of_one = pod(), container()
    runtime.run_pod_sandbox(one)
    if runtime.behaviour.release >= (0, 10):
        runtime.update_pod_sandbox(one, nri.LinuxResources())
    runtime.create_container(one, of_one)
    runtime.start_container(one, of_one)
    runtime.update_container(one, of_one, nri.LinuxResources())
    runtime.stop_container(one, of_one)
    runtime.remove_container(one, of_one)
    runtime.stop_pod_sandbox(one)
    runtime.remove_pod_sandbox(one)


OF_POD = {
    *("run_pod_sandbox", "update_pod_sandbox", "post_update_pod_sandbox"),
    *("stop_pod_sandbox", "remove_pod_sandbox"),
}


@pytest.mark.parametrize(
    ("nri_version", "version"),
    [("0.8.0", "2.1.0"), ("0.11.0", "2.2.1"), ("0.12.5", "2.3.0")],
)
def test_it_sees_every_event_of_the_release(
    nri_version: str, version: str, tmp_path: Path
) -> None:
    """All events that the runtime knows arrive, with the container or with None."""
    watcher = Watcher()
    behaviour = replace(PATIENT, nri_version=nri_version, version=version)
    with connected(watcher, tmp_path, behaviour) as (runtime, _):
        live(runtime)
    known = {
        method.handler
        for method in METHODS
        if method.since <= behaviour.release and method.observable
    }
    assert {event for event, _, _ in watcher.seen} == known
    assert len(watcher.seen) == len(known)
    for event, pod_id, container_id in watcher.seen:
        assert (pod_id, container_id) == ("p1", None if event in OF_POD else "c1")


def test_events_with_a_handler_go_to_that_handler(tmp_path: Path) -> None:
    """A handler takes its event away from `other_event`, and its answer counts."""
    watcher = WatcherWithHandlers()
    with connected(watcher, tmp_path) as (runtime, _):
        created = runtime.create_container(pod(), container())
        runtime.start_container(pod(), container())
    assert created.adjust.annotations["seen"] == "yes"
    assert [event for event, _, _ in watcher.seen] == [
        *("post_create_container", "its own start_container", "post_start_container")
    ]


def test_an_observer_does_not_judge_adjustments() -> None:
    """The mask has all events but the one whose silence fails a container."""
    judged = next(method for method in METHODS if "validate" in method.handler)
    everything = sum(method.mask for method in METHODS)
    assert subscription(Watcher()) == everything - judged.mask


def test_a_failing_observer_harms_no_container(tmp_path: Path) -> None:
    """An exception in `other_event` leaves the answer empty, by the failure policy."""

    class Clumsy(Watcher):
        def other_event(self, event: str, pod: object, container: object) -> None:
            raise RuntimeError("clumsy")

    with connected(Clumsy(), tmp_path) as (runtime, _):
        live(runtime)
        assert runtime.plugins[0].connected
    strict = Clumsy()
    strict.failure_policy = FailurePolicy.FAIL
    with (
        connected(strict, tmp_path) as (runtime, _),
        pytest.raises(RequestRejected, match="clumsy"),
    ):
        runtime.create_container(pod(), container())
