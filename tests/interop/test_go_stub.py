"""The embedded runtime against plugins on the Go library: is it like a real one?"""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.gopeers import CONTAINERD, NEWEST, VERSIONS, Child, release_of, until
from support.harness import PATIENCE_S

from nriplugin.api import nri_pb2 as nri
from nriplugin.nri.testing.runtime import Behaviour, EmbeddedRuntime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.gopeers import CallLog, Release, Starter

    Embedder = Callable[..., EmbeddedRuntime]

pytestmark = pytest.mark.needs_go

BEFORE_RPCS = [version for version in VERSIONS if release_of(version) < (0, 12)]
SINCE_VALIDATION = [version for version in VERSIONS if release_of(version) >= (0, 10)]

# Known to the runtime before the plugin comes.
CONTAINERS = 30

# What the stub makes of the limits of `container`, and the annotation that it adds.
UNIFIED = {
    "cpu.weight": "39",
    "cpu.max": "20000 100000",
    "memory.max": "1073741824",
}
PADDING = "interop.nriplugin.test/padding"


def container(index: int, padding: int = 0) -> nri.Container:
    """Return a container with limits."""
    made = nri.Container(id=f"c{index}", pod_sandbox_id="p1", env=["x" * padding])
    resources = made.linux.resources
    resources.cpu.shares.value = 1024
    resources.cpu.quota.value = 20_000
    resources.cpu.period.value = 100_000
    resources.memory.limit.value = 1 << 30
    return made


def pod() -> nri.PodSandbox:
    """Return the pod of all containers."""
    return nri.PodSandbox(id="p1", name="web", namespace="default", uid="u1")


@pytest.fixture
def socket_path(tmp_path: Path) -> str:
    return str(tmp_path / "nri.sock")


@pytest.fixture
def said(tmp_path: Path) -> Path:
    """What the stub writes to standard error."""
    return tmp_path / "stderr"


@pytest.fixture
def stub(
    go_peers: Path, version: str, socket_path: str, log: CallLog, said: Path
) -> Iterator[Starter]:
    """Starts a plugin on the Go library, with the given options."""
    with said.open("w") as file:

        def start(*options: str) -> Child:
            return Child(
                go_peers / f"stubplugin-{version}",
                "-socket-path",
                socket_path,
                "-events-log",
                log.path,
                *options,
                log=file,
            )

        yield start


@pytest.fixture
def embedded(version: str, socket_path: str) -> Iterator[Embedder]:
    """Starts an embedded runtime, by default of the stub's version."""
    started: list[EmbeddedRuntime] = []

    def start(nri_version: str = version, **settings: Any) -> EmbeddedRuntime:
        # The library's own 2 s are too short for a busy machine.
        own = {"request_timeout_s": PATIENCE_S, "version": CONTAINERD[nri_version]}
        behaviour = Behaviour(nri_version=nri_version, **{**own, **settings})
        runtime = EmbeddedRuntime(socket_path, behaviour)
        runtime.pods["p1"] = pod()
        for index in range(1, CONTAINERS + 1):
            runtime.containers[f"c{index}"] = container(index)
        runtime.start()
        started.append(runtime)
        return runtime

    yield start
    for runtime in started:
        runtime.stop()


def live(runtime: EmbeddedRuntime) -> None:
    """Go through the life of a pod with one container."""
    its_pod, its_container = pod(), container(0)
    runtime.run_pod_sandbox(its_pod)
    if runtime.behaviour.release >= (0, 10):
        runtime.update_pod_sandbox(its_pod, nri.LinuxResources())
    runtime.create_container(its_pod, its_container)
    runtime.start_container(its_pod, its_container)
    runtime.update_container(its_pod, its_container, its_container.linux.resources)
    runtime.stop_container(its_pod, its_container)
    runtime.remove_container(its_pod, its_container)
    runtime.stop_pod_sandbox(its_pod)
    runtime.remove_pod_sandbox(its_pod)


def life(release: Release) -> list[tuple[str, str, str]]:
    """Return what a plugin hears of it that subscribes to all of a release."""
    new = release >= (0, 10)
    return [
        ("RunPodSandbox", "p1", ""),
        *[("UpdatePodSandbox", "p1", ""), ("PostUpdatePodSandbox", "p1", "")] * new,
        ("CreateContainer", "p1", "c0"),
        *[("ValidateContainerAdjustment", "p1", "c0")] * new,
        ("PostCreateContainer", "p1", "c0"),
        ("StartContainer", "p1", "c0"),
        ("PostStartContainer", "p1", "c0"),
        ("UpdateContainer", "p1", "c0"),
        ("PostUpdateContainer", "p1", "c0"),
        ("StopContainer", "p1", "c0"),
        ("RemoveContainer", "p1", "c0"),
        ("StopPodSandbox", "p1", ""),
        ("RemovePodSandbox", "p1", ""),
    ]


@pytest.mark.parametrize("configure_first", [False, True])
@pytest.mark.parametrize("nri_version", VERSIONS)
def test_any_stub_works_under_any_release(
    embedded: Embedder,
    stub: Starter,
    log: CallLog,
    nri_version: str,
    configure_first: bool,
) -> None:
    """A plugin registers, whichever reply comes first, and is asked its questions."""
    runtime = embedded(nri_version, configure_first=configure_first)
    with stub("-name", "gopher", "-idx", "42"):
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        assert runtime.registrations == ["42-gopher"]
        created = runtime.create_container(pod(), container(0))
        assert dict(created.adjust.linux.resources.unified) == UNIFIED

        asked = nri.LinuxResources()
        asked.cpu.shares.value = 2048
        asked.cpu.cpus = "0-1"
        updated = runtime.update_container(pod(), container(0), asked)
        assert updated.resources.cpu == asked.cpu
        assert dict(updated.resources.unified) == {"cpu.weight": "79"}

        assert runtime.stop_container(pod(), container(0)) == []
        runtime.remove_container(pod(), container(0))
        assert runtime.dropped == []
    assert [line["method"] for line in log.lines()] == [
        "Configure",
        "Synchronize",
        "CreateContainer",
        "UpdateContainer",
        "RemoveContainer",
    ]


def test_all_events_reach_the_stub(
    embedded: Embedder, stub: Starter, log: CallLog, version: str
) -> None:
    """Every event of the release is delivered once, in order, the way it expects."""
    runtime = embedded()
    with stub("-all-events"):
        link = runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        log.skip()
        live(runtime)
        assert runtime.dropped == []
        assert not link.uses_state_change
    assert log.calls() == life(release_of(version))


@pytest.mark.parametrize("version", BEFORE_RPCS, scope="module")
def test_a_new_runtime_falls_back_to_state_change(
    embedded: Embedder, stub: Starter, log: CallLog, version: str
) -> None:
    """A stub that lacks the methods of 0.12 gets its events the old way instead."""
    runtime = embedded(NEWEST)
    with stub("-all-events"):
        link = runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        log.skip()
        live(runtime)
        assert runtime.dropped == []
        assert link.uses_state_change
    assert log.calls() == life(release_of(version))


@pytest.mark.parametrize("version", SINCE_VALIDATION, scope="module")
def test_an_old_runtime_refuses_new_events(embedded: Embedder, stub: Starter) -> None:
    """A subscription to what a release does not know ends the connection."""
    runtime = embedded("0.8.0")
    with stub("-all-events") as child:
        until(lambda: runtime.dropped, "the stub was dropped")
        assert "invalid plugin events: 0x3800" in runtime.dropped[0]
        assert runtime.registrations == []
        child.process.wait(PATIENCE_S)


@pytest.mark.parametrize(
    ("version", "sync_piece"),
    [
        pytest.param(version, piece, id=f"{version}-{piece}")
        for version in VERSIONS
        for piece in (None, 7)
        if piece is None or release_of(version) >= (0, 7)
    ],
    scope="module",
)
def test_synchronize_and_its_updates(
    embedded: Embedder, stub: Starter, log: CallLog, sync_piece: int | None
) -> None:
    """In one message or in pieces, the stub learns of all containers, once."""
    runtime = embedded(sync_piece=sync_piece)
    with stub("-sync-updates"):
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
    assert len(log.lines("Synchronize")) == 1
    (updates,) = runtime.updates
    assert [update.container_id for update in updates] == list(runtime.containers)
    weights = {update.linux.resources.unified["cpu.weight"] for update in updates}
    assert weights == {"42"}


@pytest.mark.parametrize("version", [NEWEST], scope="module")
def test_what_exceeds_a_message_is_cut(embedded: Embedder, stub: Starter) -> None:
    """More state than a message holds arrives as a whole nevertheless."""
    runtime = embedded()
    for index in range(3000):
        runtime.containers[f"c{index}"] = container(index, padding=3000)
    with stub("-sync-updates"):
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
    (updates,) = runtime.updates
    assert {update.container_id for update in updates} == set(runtime.containers)
    assert len(updates) == len(runtime.containers)


def test_an_unsolicited_update_of_the_stub(embedded: Embedder, stub: Starter) -> None:
    """The runtime takes updates that it did not ask for."""
    runtime = embedded()
    with stub("-update-after-sync"):
        until(lambda: runtime.updates, "an update came")
        ((update,),) = runtime.updates
        assert update.container_id == "c1"
        assert dict(update.linux.resources.unified) == {"cpu.weight": "42"}


def test_a_refused_update_of_the_stub(
    embedded: Embedder, stub: Starter, said: Path
) -> None:
    """The stub learns that an update failed, and stays."""
    runtime = embedded()
    runtime.update_error = "no such cgroup"
    with stub("-update-after-sync"):
        until(lambda: "no such cgroup" in said.read_text(), "the stub was told")
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        assert runtime.create_container(pod(), container(0)).adjust.HasField("linux")
        assert runtime.updates == []


def test_a_late_stub_is_dropped(embedded: Embedder, stub: Starter) -> None:
    """A plugin that does not answer in time is dropped, and the container created."""
    runtime = embedded()
    with stub("-sleep-ms", "60000"):
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        runtime.behaviour = replace(runtime.behaviour, request_timeout_s=1.0)
        created = runtime.create_container(pod(), container(0))
        assert created.adjust == nri.ContainerAdjustment()
        assert runtime.plugins == []
        (dropped,) = runtime.dropped
        assert "CreateContainer: no answer within 1 s" in dropped


@pytest.mark.parametrize("size", [4000, 4096, 5000, 1 << 20, 4_190_000])
def test_a_large_answer_of_the_stub(
    embedded: Embedder, stub: Starter, size: int
) -> None:
    """The runtime reads whatever frames Go makes of an answer."""
    runtime = embedded()
    with stub("-reply-bytes", str(size)):
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        adjust = runtime.create_container(pod(), container(0)).adjust
        assert size - 200 < len(adjust.annotations[PADDING]) <= size
        assert dict(adjust.linux.resources.unified) == UNIFIED
        assert runtime.dropped == []


@pytest.mark.parametrize("size", [4000, 4096, 5000, 1 << 20, 4_190_000])
def test_a_large_request_to_the_stub(
    embedded: Embedder, stub: Starter, size: int
) -> None:
    """The runtime's frames are such that Go reads them."""
    runtime = embedded()
    with stub():
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        created = runtime.create_container(pod(), container(0, padding=size))
        assert dict(created.adjust.linux.resources.unified) == UNIFIED
        assert runtime.dropped == []


def test_a_stub_that_is_killed(embedded: Embedder, stub: Starter) -> None:
    """The runtime notices a plugin's end, goes on, and takes the next one."""
    runtime = embedded()
    with stub() as child:
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        child.process.kill()
        child.process.wait()
        created = runtime.create_container(pod(), container(0))
        assert created.adjust == nri.ContainerAdjustment()
        assert runtime.plugins == []
    with stub():
        runtime.wait_for_plugin(2, timeout_s=PATIENCE_S)
        assert runtime.create_container(pod(), container(0)).adjust.HasField("linux")


def test_a_stub_is_launched(
    embedded: Embedder, go_peers: Path, version: str, log: CallLog
) -> None:
    """The runtime launches a plugin as its library expects, and ends it by hanging up.

    Go's stub takes name and index from the environment.
    """
    runtime = embedded()
    path = str(go_peers / f"stubplugin-{version}")
    pid = runtime.launch(path, "-events-log", str(log.path), name="gopher", idx="42")
    try:
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        assert runtime.registrations == ["42-gopher"]
        assert runtime.create_container(pod(), container(0)).adjust.HasField("linux")
        runtime.stop()
        until(lambda: os.waitpid(pid, os.WNOHANG)[0], "the stub ended")
        pid = 0
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
