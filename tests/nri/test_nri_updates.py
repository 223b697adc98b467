from __future__ import annotations

import pytest
from support.harness import RawPeer, Recorder, container, pod, raw_peer, update

from nriplugin.api import nri_pb2 as nri
from nriplugin.errors import (
    ConnectionClosed,
    LocalProtocolError,
    NRIPluginError,
    RPCError,
)
from nriplugin.nri.updates import MAX_PAYLOAD, UpdateQueue
from nriplugin.wire.ttrpc import MAX_MESSAGE, Call, Client, Code

CREATE = nri.CreateContainerRequest(pod=pod(), container=container())


def take_update(peer: RawPeer) -> tuple[int, list[str]]:
    """Receive an UpdateContainers call; return its stream and container ids."""
    call = peer.receive()
    assert isinstance(call, Call)
    assert call.method == "UpdateContainers"
    request = nri.UpdateContainersRequest.FromString(call.payload)
    return call.stream_id, [entry.container_id for entry in request.update]


class InHandler(Recorder):
    """A plugin that queues an update while it answers a request."""

    def create_container(
        self, request: nri.CreateContainerRequest
    ) -> nri.CreateContainerResponse | None:
        self.enqueue_update(update("other", cpu_weight="7"))
        return None


def test_an_update_from_another_thread_leaves_at_once_when_idle() -> None:
    """The queueing thread sends the update itself if no request is under way."""
    plugin = Recorder()
    with raw_peer(plugin) as peer:
        peer.begin()
        assert plugin.enqueue_update(update("a", cpu_weight="1"), update("b", x="2"))
        assert take_update(peer)[1] == ["a", "b"]


def test_an_update_from_a_handler_leaves_after_the_answer() -> None:
    """An update that a handler queues is sent after the handler's answer."""
    with raw_peer(InHandler()) as peer:
        peer.begin()
        stream_id = peer.send("CreateContainer", CREATE)
        assert peer.answer().stream_id == stream_id
        assert take_update(peer)[1] == ["other"]


def test_one_call_at_a_time_and_in_order() -> None:
    """The second call is sent after the answer to the first."""
    plugin = Recorder()
    outcomes: list[NRIPluginError | None] = []
    with raw_peer(plugin) as peer:
        peer.begin()
        for name in "ab":
            plugin.enqueue_update(update(name, cpu_weight="1"), done=outcomes.append)
        stream_id, ids = take_update(peer)
        assert ids == ["a"]
        # A request is served meanwhile, and the second update still waits.
        peer.ask("CreateContainer", CREATE, nri.CreateContainerResponse)
        peer.connection.send(peer.connection.failure(stream_id, 2, "no such container"))
        stream_id, ids = take_update(peer)
        assert ids == ["b"]
        peer.connection.send(peer.connection.reply(stream_id, b""))
        peer.ask("CreateContainer", CREATE, nri.CreateContainerResponse)
    assert isinstance(outcomes[0], RPCError)
    assert outcomes[0].message == "no such container"
    assert outcomes[0].code == Code.UNKNOWN
    assert outcomes[1:] == [None]


def test_a_failing_callback_does_not_disturb(caplog: pytest.LogCaptureFixture) -> None:
    """An exception in `done` does not end the session."""

    def done(error: NRIPluginError | None) -> None:
        raise RuntimeError("in the callback")

    plugin = Recorder()
    with raw_peer(plugin) as peer:
        peer.begin()
        plugin.enqueue_update(update("a", cpu_weight="1"), done=done)
        peer.connection.send(peer.connection.reply(take_update(peer)[0], b""))
        peer.ask("CreateContainer", CREATE, nri.CreateContainerResponse)
    assert "in the callback" in caplog.text


def test_an_update_too_long_to_send_is_refused() -> None:
    """An update over 4 MiB is refused, and the next one is sent."""
    plugin = Recorder()
    with raw_peer(plugin) as peer:
        peer.begin()
        with pytest.raises(LocalProtocolError, match="at most"):
            plugin.enqueue_update(update("a", x="y" * MAX_PAYLOAD))
        plugin.enqueue_update(update("b", cpu_weight="1"))
        assert take_update(peer)[1] == ["b"]


def test_the_longest_update_fits_one_message() -> None:
    """An update of the queue's maximum length fits one message of ttRPC."""
    queue = UpdateQueue(Client())
    overhead = nri.UpdateContainersRequest(update=[update("a", x="y")]).ByteSize() + 20
    queue.put([update("a", x="y" * (MAX_PAYLOAD - overhead))], None)
    _, body = queue.next_call()
    assert MAX_PAYLOAD < len(body) <= MAX_MESSAGE


def test_a_callback_may_queue_the_next_update() -> None:
    """`done` runs without a lock, so it may queue the next update."""
    plugin = Recorder()

    def done(error: NRIPluginError | None) -> None:
        plugin.enqueue_update(update("b", cpu_weight="1"))

    with raw_peer(plugin) as peer:
        peer.begin()
        plugin.enqueue_update(update("a", cpu_weight="1"), done=done)
        peer.connection.send(peer.connection.reply(take_update(peer)[0], b""))
        assert take_update(peer)[1] == ["b"]


def test_an_update_without_resources_is_refused() -> None:
    """An update without resources is a ValueError: CRI-O crashes on it."""
    with pytest.raises(ValueError, match=r"container 'a'.*linux\.resources"):
        Recorder().enqueue_update(nri.ContainerUpdate(container_id="a"))


def test_without_a_connection_nothing_is_queued() -> None:
    """Without a connection `enqueue_update` returns False."""
    plugin = Recorder()
    assert not plugin.enqueue_update(update("a", cpu_weight="1"))
    with raw_peer(plugin) as peer:
        peer.accept_registration()
        assert not plugin.enqueue_update(update("a", cpu_weight="1"))
    assert not plugin.enqueue_update(update("a", cpu_weight="1"))


def test_a_lost_connection_is_told_to_everybody_who_waits() -> None:
    """A lost connection is reported to the call under way and to those queued."""
    plugin = Recorder()
    outcomes: list[NRIPluginError | None] = []
    with raw_peer(plugin) as peer:
        peer.begin()
        for name in "ab":
            plugin.enqueue_update(update(name, cpu_weight="1"), done=outcomes.append)
        take_update(peer)
    assert [type(outcome) for outcome in outcomes] == [ConnectionClosed] * 2
    assert "unknown" in str(outcomes[0])
    assert "before" in str(outcomes[1])
