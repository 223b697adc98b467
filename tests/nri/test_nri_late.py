"""A handler that is late: the node goes on, the plugin stays."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from support.harness import (
    HOUR_MS,
    PATIENCE_S,
    RawPeer,
    Recorder,
    be_late,
    container,
    pod,
    raw_peer,
    wait_until,
)

from nriplugin.api import nri_pb2 as nri
from nriplugin.nri import FailurePolicy, session
from nriplugin.nri.watchdog import SHARE, Watchdog
from nriplugin.wire.ttrpc import Answer, Code

if TYPE_CHECKING:
    from collections.abc import Iterator

CREATE = nri.CreateContainerRequest(pod=pod(), container=container())
START = nri.StartContainerRequest(pod=pod(2), container=container(2))


class Stuck(Recorder):
    """A plugin that hangs in the first CreateContainer until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.release = threading.Event()

    def be_late(self, peer: RawPeer) -> int:
        """Have CreateContainer called, and its time be over; return the stream id.

        All other requests have an hour, so that none of them is late by chance.
        """
        stream_id = peer.send("CreateContainer", CREATE)
        assert self.entered.wait(PATIENCE_S)
        be_late(peer.session)
        return stream_id

    def come_back(self, peer: RawPeer) -> None:
        """Release the handler and wait until requests reach the plugin again."""
        self.release.set()
        wait_until(lambda: peer.session._interim is None)

    def create_container(
        self, request: nri.CreateContainerRequest
    ) -> nri.CreateContainerResponse:
        self.entered.set()
        assert self.release.wait(PATIENCE_S)
        self.note("create_container", request.pod.id, request.container.id)
        adjust = nri.ContainerAdjustment(annotations={"late": "answer"})
        return nri.CreateContainerResponse(adjust=adjust)


@pytest.fixture
def stuck() -> Iterator[tuple[Stuck, RawPeer]]:
    """A plugin whose requests have an hour, and its peer."""
    plugin = Stuck()
    with raw_peer(plugin) as peer:
        peer.begin()
        yield plugin, peer
        plugin.release.set()


def test_a_late_request_is_answered_empty(stuck: tuple[Stuck, RawPeer]) -> None:
    """A late request is answered empty, and the handler's own answer is dropped."""
    plugin, peer = stuck
    stream_id = plugin.be_late(peer)
    assert peer.answer() == Answer(stream_id, 0, "", b"")
    assert peer.stats.late == 1
    plugin.come_back(peer)
    reply = peer.ask("CreateContainer", CREATE, nri.CreateContainerResponse)
    assert reply.adjust.annotations["late"] == "answer"


def test_a_request_is_late_when_the_runtime_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The timeout that Configure announces is that of the requests after it."""
    monkeypatch.setattr(session, "DEFAULT_REQUEST_TIMEOUT_S", 3600.0)
    plugin = Stuck()
    with raw_peer(plugin) as peer:
        peer.accept_registration()
        request = nri.ConfigureRequest(request_timeout=100)
        peer.ask("Configure", request, nri.ConfigureResponse)
        stream_id = peer.send("CreateContainer", CREATE)
        assert peer.answer() == Answer(stream_id, 0, "", b"")
        plugin.release.set()


def test_a_request_that_began_meanwhile_is_not_the_late_one() -> None:
    """A request that began while the watchdog waited for the lock is not late."""
    plugin = Stuck()
    with raw_peer(plugin) as peer:
        peer.begin()
        stream_id = peer.send("CreateContainer", CREATE)
        assert plugin.entered.wait(PATIENCE_S)
        # What the watchdog calls when it found a deadline that has passed.
        late = threading.Thread(target=peer.session._handler_is_late)
        late.start()
        wait_until(lambda: not late.is_alive() or peer.stats.late > 0)
        plugin.release.set()
        answer = peer.answer()
        late.join(PATIENCE_S)
    assert answer.stream_id == stream_id
    response = nri.CreateContainerResponse.FromString(answer.payload)
    assert response.adjust.annotations["late"] == "answer"
    assert peer.stats.late == 0


def test_questions_while_a_handler_is_late_are_answered_at_once(
    stuck: tuple[Stuck, RawPeer],
) -> None:
    """Questions that arrive during a late handler are answered empty, at once."""
    plugin, peer = stuck
    plugin.be_late(peer)
    peer.answer()
    for _ in range(3):
        stream_id = peer.send("CreateContainer", CREATE)
        assert peer.answer() == Answer(stream_id, 0, "", b"")
    assert plugin.seen == []
    assert (peer.stats.deferred, peer.stats.lost) == (3, 3)


def test_events_while_a_handler_is_late_are_handed_on_later(
    stuck: tuple[Stuck, RawPeer],
) -> None:
    """Events that arrive during a late handler reach the plugin later, in order."""
    plugin, peer = stuck
    plugin.be_late(peer)
    peer.answer()
    peer.ask("StartContainer", START, nri.StartContainerResponse)
    change = nri.StateChangeEvent(event=nri.STOP_POD_SANDBOX, pod=pod(3))
    peer.ask("StateChange", change, nri.Empty)
    assert plugin.seen == []
    assert (peer.stats.deferred, peer.stats.lost) == (2, 0)
    plugin.come_back(peer)
    request = nri.RunPodSandboxRequest(pod=pod(4))
    peer.ask("RunPodSandbox", request, nri.RunPodSandboxResponse)
    assert plugin.seen == [
        ("create_container", "p1", "c1"),
        ("start_container", "p2", "c2"),
        ("stop_pod_sandbox", "p3", ""),
        ("run_pod_sandbox", "p4", ""),
    ]


def test_unknown_methods_stay_unimplemented(stuck: tuple[Stuck, RawPeer]) -> None:
    """Unknown methods get code 12 also while a handler is late."""
    plugin, peer = stuck
    plugin.be_late(peer)
    peer.answer()
    peer.send("Foo", b"")
    assert peer.answer()[1:3] == (Code.UNIMPLEMENTED, "method Foo")
    peer.send("CreateContainer", CREATE, service="other")
    assert peer.answer()[1:3] == (Code.UNIMPLEMENTED, "service other")


def test_policy_fail_fails_late_questions_but_not_events() -> None:
    """With the policy `fail`, late questions fail and events do not."""
    plugin = Stuck()
    plugin.failure_policy = FailurePolicy.FAIL
    with raw_peer(plugin) as peer:
        peer.begin()
        plugin.be_late(peer)
        assert peer.answer().code == Code.DEADLINE_EXCEEDED
        peer.send("CreateContainer", CREATE)
        assert peer.answer().code == Code.DEADLINE_EXCEEDED
        peer.ask("StartContainer", START, nri.StartContainerResponse)
        plugin.release.set()


def test_a_connection_lost_during_a_late_handler_ends_the_session() -> None:
    """A connection lost during a late handler ends the session when it returns."""
    plugin = Stuck()
    peer = RawPeer(plugin)
    peer.begin()
    plugin.be_late(peer)
    peer.answer()
    peer.sock.close()
    plugin.release.set()
    peer.join()
    assert "end of file" in str(peer.ended_with)


def test_a_connection_lost_before_the_late_answer_ends_the_session() -> None:
    """A connection lost before the watchdog's answer ends the session as well."""
    plugin = Stuck()
    peer = RawPeer(plugin)
    peer.begin()
    peer.send("CreateContainer", CREATE)
    assert plugin.entered.wait(PATIENCE_S)
    peer.sock.close()
    be_late(peer.session)
    wait_until(lambda: peer.stats.late == 1)
    plugin.release.set()
    peer.join()
    assert peer.ended_with is not None


def test_updates_wait_for_the_late_handler(stuck: tuple[Stuck, RawPeer]) -> None:
    """No update is sent while a late handler runs."""
    plugin, peer = stuck
    plugin.be_late(peer)
    peer.answer()
    sent = nri.ContainerUpdate(container_id="c9")
    sent.linux.resources.unified["cpu.weight"] = "9"
    assert plugin.enqueue_update(sent)
    peer.ask("StartContainer", START, nri.StartContainerResponse)
    plugin.release.set()
    call = peer.receive()
    assert getattr(call, "method", None) == "UpdateContainers"


class SlowConfigure(Recorder):
    """A plugin that hangs in Configure."""

    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()

    def configure(self, request: object) -> None:
        assert self.release.wait(PATIENCE_S)


def test_a_late_configure_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A late Configure gets an error: an empty answer subscribes to all events."""
    monkeypatch.setattr(session, "DEFAULT_REQUEST_TIMEOUT_S", 0.1)
    plugin = SlowConfigure()
    with raw_peer(plugin) as peer:
        peer.accept_registration()
        peer.send("Configure", nri.ConfigureRequest())
        assert peer.answer().code == Code.DEADLINE_EXCEEDED
        plugin.release.set()


class SlowSync(Recorder):
    """A plugin that hangs in Synchronize."""

    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()

    def synchronize(self, pods: object, containers: object) -> None:
        assert self.release.wait(PATIENCE_S)


def test_synchronize_heeds_what_is_left_of_its_timeout() -> None:
    """Each piece of a Synchronize has the timeout that its request carries."""
    plugin = SlowSync()
    with raw_peer(plugin) as peer:
        peer.accept_registration()
        request = nri.ConfigureRequest(request_timeout=HOUR_MS)
        peer.ask("Configure", request, nri.ConfigureResponse)
        last = nri.SynchronizeRequest()
        peer.ask("Synchronize", last, nri.SynchronizeResponse, timeout_ns=50_000_000)
        assert peer.stats.late == 1
        plugin.release.set()


def test_the_budget_is_three_quarters_of_the_timeout() -> None:
    """The watchdog acts at three quarters of the runtime's timeout."""
    watchdog = Watchdog(lambda: None, request_timeout_s=2)
    assert watchdog.budget_s == 2 * SHARE == 1.5
    watchdog.allow(4)
    assert watchdog.budget_s == 3
