"""The embedded runtime: as strict as the real one."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.harness import (
    PATIENCE_S,
    PATIENT,
    Recorder,
    connected,
    container,
    pod,
    running,
    update,
    wait_until,
)

from nriplugin.api import nri_pb2 as nri
from nriplugin.errors import NRIPluginError, RPCError
from nriplugin.nri import FailurePolicy, Plugin, Runner, session
from nriplugin.nri.launch import Launch
from nriplugin.nri.methods import METHODS
from nriplugin.nri.session import Session
from nriplugin.nri.stats import Stats
from nriplugin.nri.testing.runtime import Behaviour, EmbeddedRuntime, RequestRejected
from nriplugin.wire.mux import HEADER
from nriplugin.wire.ttrpc import Client, Code

if TYPE_CHECKING:
    from pathlib import Path

RELEASES = ("0.6.1", "0.8.0", "0.10.0", "0.11.0", "0.12.5")

# Runtime names and versions with these releases: before 0.12 they must be guessed.
VERSIONS = {
    "0.6.1": "1.7.24",
    "0.8.0": "2.1.0",
    "0.10.0": "2.2.0",
    "0.11.0": "2.2.1",
    "0.12.5": "2.3.0",
}


def behaviour(release: str, **more: object) -> Behaviour:
    return replace(PATIENT, nri_version=release, version=VERSIONS[release], **more)  # type: ignore[arg-type] # any field


def whole_life(runtime: EmbeddedRuntime) -> None:
    """Deliver everything that happens to a pod with one container."""
    one, app = pod(), container(shares=1024)
    runtime.run_pod_sandbox(one)
    runtime.create_container(one, app)
    runtime.start_container(one, app)
    runtime.update_container(one, app, nri.LinuxResources())
    if runtime.behaviour.release >= (0, 10):
        runtime.update_pod_sandbox(one, nri.LinuxResources())
    runtime.stop_container(one, app)
    runtime.remove_container(one, app)
    runtime.stop_pod_sandbox(one)
    runtime.remove_pod_sandbox(one)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("configure_first", [False, True])
def test_every_event_of_a_release_arrives_once(
    tmp_path: Path, release: str, configure_first: bool
) -> None:
    """Events are RPCs of their own since 0.12, and StateChange before."""
    plugin = Recorder()
    chosen = behaviour(release, configure_first=configure_first)
    with connected(plugin, tmp_path, chosen) as (runtime, _):
        whole_life(runtime)
    known = {m.handler for m in METHODS if m.since <= chosen.release}
    seen = [method for method, _, _ in plugin.seen]
    assert sorted(seen) == sorted(known)
    assert seen[0] == "run_pod_sandbox"
    assert seen[-1] == "remove_pod_sandbox"


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 100])
def test_synchronize_in_pieces(tmp_path: Path, piece: int) -> None:
    """The plugin sees each pod and container once, whatever the pieces."""
    plugin = Recorder()
    path = str(tmp_path / "nri.sock")
    runtime = EmbeddedRuntime(path, replace(PATIENT, sync_piece=piece))
    for number in range(7):
        runtime.pods[f"p{number}"] = pod(number)
        runtime.containers[f"c{number}"] = container(number)
    with runtime, running(plugin, path):
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
    ids = [str(number) for number in range(7)]
    assert plugin.synchronized == [([f"p{i}" for i in ids], [f"c{i}" for i in ids])]


def test_synchronize_too_long_for_one_message_is_cut(tmp_path: Path) -> None:
    """A Synchronize over 4 MiB is cut into pieces, as since NRI 0.7."""
    plugin = Recorder()
    path = str(tmp_path / "nri.sock")
    runtime = EmbeddedRuntime(path, PATIENT)
    for number in range(60):
        big = container(number)
        big.annotations["pad"] = "x" * 100_000
        runtime.containers[big.id] = big
    with runtime, running(plugin, path):
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
    assert plugin.synchronized == [([], [f"c{number}" for number in range(60)])]


def test_updates_of_synchronize_are_applied(tmp_path: Path) -> None:
    """Updates in the answer to Synchronize reach the runtime."""

    class Updater(Recorder):
        def synchronize(
            self, pods: object, containers: object
        ) -> list[nri.ContainerUpdate]:
            return [update("c1", cpu_weight="5"), nri.ContainerUpdate(container_id="x")]

    with connected(Updater(), tmp_path) as (runtime, _):
        assert [entry.container_id for entry in runtime.updates[0]] == ["c1"]


def test_a_plugin_that_is_late_is_dropped_and_the_request_goes_on(
    tmp_path: Path,
) -> None:
    """A plugin that does not answer is dropped, and the next one is asked."""
    path = str(tmp_path / "nri.sock")
    mute = Behaviour(request_timeout_s=0.1)
    with EmbeddedRuntime(path, mute) as runtime, register_by_hand(path):
        drop = wait_for_drop(runtime)
    assert "Configure: no answer within 0.1 s" in drop


def register_by_hand(path: str) -> socket.socket:
    """Register, and answer nothing afterwards."""
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    request = nri.RegisterPluginRequest(plugin_name="mute", plugin_idx="50")
    _, head, body = Client().call(
        "nri.pkg.api.v1alpha1.Runtime",
        "RegisterPlugin",
        request.SerializeToString(),
    )
    sock.sendall(HEADER.pack(2, len(head + body)) + head + body)
    return sock


def wait_for_drop(runtime: EmbeddedRuntime) -> str:
    wait_until(lambda: runtime.dropped)
    return runtime.dropped[0]


def test_a_client_that_never_registers_is_dropped(tmp_path: Path) -> None:
    """A client that does not register delays the next one until its timeout."""
    path = str(tmp_path / "nri.sock")
    plugin = Recorder()
    short = replace(PATIENT, registration_timeout_s=0.1)
    with EmbeddedRuntime(path, short) as runtime, socket.socket(socket.AF_UNIX) as mute:
        mute.connect(path)
        with running(plugin, path):
            runtime.wait_for_plugin(timeout_s=PATIENCE_S)
    assert "did not register in time" in runtime.dropped[0]


@pytest.mark.parametrize(
    ("name", "idx", "reason"),
    [("", "10", "name"), ("x", "1", "index"), ("x", "ab", "index")],
)
def test_bad_names_are_refused(
    tmp_path: Path, name: str, idx: str, reason: str
) -> None:
    """A registration with a bad name or index gets an error status."""
    path = str(tmp_path / "nri.sock")
    with EmbeddedRuntime(path, PATIENT):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)
        with pytest.raises(RPCError, match=f"invalid plugin {reason}"):
            Session(Recorder(), sock, Launch(name, idx, path, None), Stats()).run()


def test_an_event_the_release_does_not_know_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mask with an unknown event closes the connection."""
    monkeypatch.setattr(session, "release_of", lambda request: (0, 12, 0))
    path = str(tmp_path / "nri.sock")
    with (
        EmbeddedRuntime(path, behaviour("0.8.0")) as runtime,
        running(Recorder(), path),
    ):
        assert "invalid plugin events: 0x3800" in wait_for_drop(runtime)


def test_an_error_fails_the_request_and_keeps_the_plugin(tmp_path: Path) -> None:
    """An error status fails the request and does not drop the plugin."""

    class Failing(Recorder):
        failure_policy = FailurePolicy.FAIL

        def create_container(self, request: object) -> nri.CreateContainerResponse:
            raise RuntimeError("no")

    with connected(Failing(), tmp_path) as (runtime, _):
        with pytest.raises(RequestRejected, match="RuntimeError: no"):
            runtime.create_container(pod(), container())
        runtime.start_container(pod(), container())
        assert "c1" not in runtime.containers


class Validator(Plugin):
    def __init__(self) -> None:
        self.asked: list[str] = []

    def validate_container_adjustment(
        self, request: nri.ValidateContainerAdjustmentRequest
    ) -> nri.ValidateContainerAdjustmentResponse:
        self.asked.append(request.container.id)
        return nri.ValidateContainerAdjustmentResponse(reject=True, reason="not here")


def test_a_validator_rejects(tmp_path: Path) -> None:
    """Since 0.10, a validator rejects after all plugins have answered."""
    plugin = Validator()
    rejected = pytest.raises(RequestRejected, match="not here")
    with connected(plugin, tmp_path) as (runtime, _), rejected:
        runtime.create_container(pod(), container())
    assert plugin.asked == ["c1"]


def test_unsolicited_updates_are_applied_or_refused(tmp_path: Path) -> None:
    """An unsolicited update is recorded, or answered with the error that is set."""
    plugin = Recorder()
    outcomes: list[NRIPluginError | None] = []
    told = threading.Semaphore(0)

    def done(error: NRIPluginError | None) -> None:
        outcomes.append(error)
        told.release()

    with connected(plugin, tmp_path) as (runtime, _):
        plugin.enqueue_update(update("c1", cpu_weight="5"), done=done)
        assert told.acquire(timeout=PATIENCE_S)
        runtime.update_error = "no"
        plugin.enqueue_update(update("c2", cpu_weight="5"), done=done)
        assert told.acquire(timeout=PATIENCE_S)
        assert [entry.container_id for entry in runtime.updates[0]] == ["c1"]
    assert outcomes[0] is None
    assert isinstance(outcomes[1], RPCError)
    assert outcomes[1].code == Code.UNKNOWN


def test_an_update_inside_a_handler_waits_for_the_answer(tmp_path: Path) -> None:
    """An update from inside a handler is served after the request has ended."""

    class Impatient(Recorder):
        def create_container(self, request: nri.CreateContainerRequest) -> None:
            self.enqueue_update(update("other", cpu_weight="5"))

    with connected(Impatient(), tmp_path) as (runtime, _):
        for number in range(20):
            runtime.create_container(pod(number), container(number))
        assert runtime.plugins


def test_plugins_are_called_in_the_order_of_their_index(tmp_path: Path) -> None:
    """Plugins are asked by index, each with the request as updated so far."""
    path = str(tmp_path / "nri.sock")
    order: list[str] = []

    class Ordered(Plugin):
        def __init__(self, name: str) -> None:
            self._name = name

        def update_container(
            self, request: nri.UpdateContainerRequest
        ) -> nri.UpdateContainerResponse:
            order.append(self._name)
            entry = update("c1", **{self._name: "1"})
            return nri.UpdateContainerResponse(update=[entry])

    runners = [
        Runner(Ordered(name), Launch(name, idx, path, None))
        for name, idx in (("b", "50"), ("a", "10"))
    ]
    threads = [threading.Thread(target=runner.run) for runner in runners]
    with EmbeddedRuntime(path, PATIENT) as runtime:
        for thread in threads:
            thread.start()
        runtime.wait_for_plugin(2, timeout_s=PATIENCE_S)
        asked = nri.LinuxResources()
        asked.cpu.shares.value = 7
        result = runtime.update_container(pod(), container(), asked)
        for runner in runners:
            runner.stop()
        for thread in threads:
            thread.join()
    assert order == ["a", "b"]
    assert dict(result.resources.unified) == {"a": "1", "b": "1"}
    assert result.resources.cpu.shares.value == 7


def test_an_update_of_the_container_being_created_fails_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that updates the container in creation fails the creation."""
    monkeypatch.setattr(session, "drop_harmful", lambda *args: None)

    class Wrong(Plugin):
        def create_container(
            self, request: nri.CreateContainerRequest
        ) -> nri.CreateContainerResponse:
            return nri.CreateContainerResponse(update=[update("c1", cpu_weight="1")])

        def update_container(
            self, request: nri.UpdateContainerRequest
        ) -> nri.UpdateContainerResponse:
            wiping = nri.ContainerUpdate(container_id="c1")
            return nri.UpdateContainerResponse(update=[wiping])

    with connected(Wrong(), tmp_path) as (runtime, _):
        with pytest.raises(RequestRejected, match="in creation"):
            runtime.create_container(pod(), container())
        asked = nri.LinuxResources()
        asked.cpu.shares.value = 7
        result = runtime.update_container(pod(), container(), asked)
        assert result.resources == nri.LinuxResources()


def test_waiting_for_a_plugin_that_never_comes_says_what_happened(
    tmp_path: Path,
) -> None:
    """The timeout's message names the plugins that were dropped."""
    path = str(tmp_path / "nri.sock")
    nobody = pytest.raises(TimeoutError, match="0 of 1 registrations")
    with EmbeddedRuntime(path, PATIENT) as runtime, nobody:
        runtime.wait_for_plugin(timeout_s=0.01)
