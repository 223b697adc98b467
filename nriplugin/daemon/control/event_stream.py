"""The stream of events: one message for each, in order, with a count of those lost.

The threads that note events never wake a stream. Every stream looks at the newest
number a few times per second on its own thread, so a client that does not read holds
up nobody; when it reads again, it is told how many events it has missed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.api import control_pb2 as control
from nriplugin.daemon.plain import valid_text

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from nriplugin.state.events import Event, EventLog

POLL_S = 0.25
# So many events per look: each one that is sent takes the interpreter lock from the
# request thread several times. A burst of a few hundred pods still fits into the ring.
AT_ONCE = 100


def event_stream(
    events: EventLog,
    request: control.WatchRequest,
    is_active: Callable[[], bool],
    stopping: threading.Event,
) -> Iterator[control.Event]:
    """Return the events that a request asks for, until its client leaves.

    Events from the moment of the call on are in it.

    Args:
        events: the daemon's events.
        request: where to begin.
        is_active: whether the client is still there.
        stopping: set when the server stops.
    """
    newest = events.last
    number = newest
    told = True  # whether events that are no longer kept count as lost
    if request.all or request.after > newest:
        # A number that is not reached yet is one of an earlier process.
        number, told = 0, False
    elif request.after:
        number = request.after
    return _events_after(events, number, told, is_active, stopping)


def _events_after(
    events: EventLog,
    number: int,
    told: bool,
    is_active: Callable[[], bool],
    stopping: threading.Event,
) -> Iterator[control.Event]:
    while is_active() and not stopping.is_set():
        if events.last != number:
            found, lost = events.since(number)
            for event in found[:AT_ONCE]:
                yield message_of(event, lost if told else 0)
                number, lost, told = event.number, 0, True
        # Also after events: a look for each one that comes would compete with the
        # request thread for the interpreter lock.
        stopping.wait(POLL_S)


def message_of(event: Event, lost: int = 0) -> control.Event:
    """Return the message of an event."""
    message = control.Event(
        number=event.number,
        at=event.at,
        kind=event.kind.value,
        text=valid_text(event.text),
        lost=lost,
    )
    entry = event.entry
    if entry is not None:
        message.container_id = entry.id
        message.namespace = entry.pod.namespace
        message.pod = entry.pod.name
        message.container = entry.name
        message.files.update(entry.files)
        message.shadow.update(entry.shadow)
    return message
