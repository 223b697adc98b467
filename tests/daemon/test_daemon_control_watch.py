"""The stream of events, and clients that open streams and never read."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from daemon.control_clients import SERVICE, ControlClient, controlled, daemon_of
from doors.nri.messages import container_at
from doors.nri.nodes import Node, plugin_on
from support.harness import PATIENCE_S, wait_until

from nriplugin.api import control_pb2 as control
from nriplugin.daemon.control.event_stream import event_stream
from nriplugin.daemon.control.server import MAX_WATCHERS
from nriplugin.daemon.control.standard_services import MAX_REFLECTION_STREAMS
from nriplugin.state.events import KEPT, EventKind, EventLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_decisions_arrive_as_they_are_made(tmp_path: Path) -> None:
    """A stream begins with the next event, and has the container and its files."""
    node = Node("{}")
    node.create()
    with controlled(daemon_of(node.plugin.lifecycle), tmp_path) as client:
        stream = client.watch()
        node.create(container_at("/x/c2", 2))
        event = next(stream)
        stream.cancel()
    assert (event.kind, event.container_id) == ("created", "c2")
    assert (event.namespace, event.pod, event.container) == ("shop", "web", "app")
    assert event.files["cpu.weight"] == "59"
    assert (event.number, event.lost) == (2, 0)
    assert event.at > 0


def test_a_decision_of_shadow_mode_has_its_values() -> None:
    """Apart from those that are in force, of which a new container has none."""
    node = Node("shadow: true")
    node.create()
    stream = stream_of(node.plugin.lifecycle.events, all=True)
    event = next(one for one in stream if one.kind == "created")
    assert dict(event.files) == {}
    assert event.shadow["cpu.weight"] == "59"


def test_earlier_events(tmp_path: Path) -> None:
    """`all` begins with the oldest that is kept, `after` behind a number."""
    plugin = plugin_on()
    events = plugin.lifecycle.events
    for number in range(1, 5):
        events.note(EventKind.CONNECTED, text=str(number))
    with controlled(daemon_of(plugin.lifecycle), tmp_path) as client:
        everything = client.watch(all=True)
        assert [next(everything).number for _ in range(4)] == [1, 2, 3, 4]
        later = client.watch(after=2)
        assert [next(later).text for _ in range(2)] == ["3", "4"]
        # The number of an earlier process: all that this one has is new.
        new = client.watch(after=1000)
        assert next(new).number == 1
        for stream in (everything, later, new):
            stream.cancel()


def stream_of(events: EventLog, **request: Any) -> Iterator[control.Event]:
    asked = control.WatchRequest(**request)
    return event_stream(events, asked, lambda: True, threading.Event())


def test_a_slow_client_is_told_what_it_missed() -> None:
    """Events that are no longer kept are counted with the next one."""
    events = EventLog()
    events.note(EventKind.CONNECTED)
    stream = stream_of(events, all=True)
    assert next(stream).lost == 0
    for _ in range(KEPT + 10):
        events.note(EventKind.DISCONNECTED)
    event = next(stream)
    assert (event.number, event.lost) == (12, 10)
    assert next(stream).lost == 0


def test_what_was_lost_before_the_stream_counts_only_if_it_was_asked_for() -> None:
    """`all` is all that is kept; `after` names an event that the client has seen."""
    events = EventLog()
    for _ in range(KEPT + 10):
        events.note(EventKind.CONNECTED)
    assert next(stream_of(events, all=True)).lost == 0
    assert next(stream_of(events, after=4)).lost == 6


def exhausted(stream: Any) -> bool:
    try:
        next(stream)
    except grpc.RpcError as exc:
        return exc.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    return False


def test_clients_that_never_read_hold_up_nobody(tmp_path: Path) -> None:
    """As many streams as allowed are open and not read: all other calls go on.

    Further streams are refused at once, and a stream that ends makes room.
    """
    node = Node("{}")
    done = threading.Event()

    def silence() -> Iterator[bytes]:
        done.wait(PATIENCE_S)
        yield from ()

    events = node.plugin.lifecycle.events
    with controlled(daemon_of(node.plugin.lifecycle), tmp_path) as client:
        with ControlClient(client.path) as greedy:
            method = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            reflect: Any = greedy.channel.stream_stream(method)
            silent = [reflect(silence()) for _ in range(MAX_REFLECTION_STREAMS)]
            watching = [greedy.watch(all=True) for _ in range(MAX_WATCHERS)]
            wait_until(lambda: exhausted(reflect(silence())))
            # More than gRPC's buffers hold, so the server's threads are blocked.
            for _ in range(100):
                events.note(EventKind.REJECTED, text="x" * 10_000)
            assert exhausted(client.watch())
            for number in range(5):
                node.create(container_at(f"/x/c{number}", number))
                assert client.status().containers.managed == number + 1
                assert client.why(f"c{number}").containers
            watching.pop().cancel()
            wait_until(lambda: not _is_refused(client))
            done.set()
            for call in (*silent, *watching):
                call.cancel()
        assert client.status().version


def _is_refused(client: ControlClient) -> bool:
    watch: Any = client.channel.unary_stream(
        f"/{SERVICE}/Watch",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=control.Event.FromString,
    )
    return exhausted(watch(control.WatchRequest(all=True), timeout=PATIENCE_S))


def test_the_end_of_the_daemon_ends_streams(tmp_path: Path) -> None:
    """A watcher does not delay the end."""
    plugin = plugin_on()
    with controlled(daemon_of(plugin.lifecycle), tmp_path) as client:
        stream = client.watch()
    with pytest.raises((StopIteration, grpc.RpcError)):
        next(stream)
