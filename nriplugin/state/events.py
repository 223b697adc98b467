"""The last events of the process: decisions, corrections, reloads, connections.

`nriplugin events` streams them and `-v` logs them. A request thread only appends to a
ring; it builds no text and wakes no thread, because either would cost more than the
decision itself. Readers look at the ring a few times per second (`since`), and are told
how many events they were too slow to see.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from itertools import count
from threading import Lock
from time import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nriplugin.state.inventory import ContainerEntry

# An event keeps the entry of its container alive, which is about 1 KB.
KEPT = 512
# How many events of one kind one listing of the runtime may cause.
MAX_AT_ONCE = 64


class EventKind(StrEnum):
    """What happened."""

    CREATED = "created"  # a decision about a new container
    UPDATED = "updated"  # a decision about an update
    STALE = "stale"  # values of a resize in nriplugin's absence are put right
    MISSED = "missed"  # a container was created without nriplugin
    ADOPTED = "adopted"  # such a container was given its values
    DRIFTED = "drifted"  # a file holds another value than the decided one
    REPAIRED = "repaired"  # ... and was written again
    HELD = "held"  # a policy gives a file of a running container another value
    RELEASED = "released"  # ... and the file has its own value again
    RELOADED = "reloaded"  # a configuration is in force
    REJECTED = "rejected"  # a configuration is not: the old one stays in force
    CONNECTED = "connected"  # to the runtime
    DISCONNECTED = "disconnected"
    WITHDRAWN = "withdrawn"  # direct writes were put back, nothing is decided any more
    STOPPING = "stopping"  # the process was told to end


class Event(NamedTuple):
    """One event."""

    number: int  # counts all events of the process, from 1
    at: float  # seconds since 1970
    kind: EventKind
    # The container, with its values and their reasons, for events that are about one.
    entry: ContainerEntry | None = None
    # What the entry does not say, such as the files that have drifted.
    text: str = ""


class EventLog:
    """The newest events. Any thread may call it."""

    def __init__(self, clock: Callable[[], float] = time) -> None:
        self._clock = clock
        self._ring: deque[Event] = deque(maxlen=KEPT)
        self._numbers = count(1)
        # Held while an event is numbered and appended, which takes half a microsecond:
        # a reader that has seen a number has then seen all lower ones.
        self._lock = Lock()

    def note(
        self, kind: EventKind, entry: ContainerEntry | None = None, text: str = ""
    ) -> None:
        """Add an event."""
        at = self._clock()
        with self._lock:
            self._ring.append(Event(next(self._numbers), at, kind, entry, text))

    def note_all(
        self, kind: EventKind, about: Sequence[tuple[ContainerEntry, str]]
    ) -> None:
        """Add an event with a text about each container, or one about many of them.

        The list of events is short, and one listing of the runtime must not fill it.
        """
        for entry, text in about[:MAX_AT_ONCE]:
            self.note(kind, entry, text)
        if len(about) > MAX_AT_ONCE:
            self.note(kind, text=f"{len(about) - MAX_AT_ONCE} more containers")

    def since(self, number: int) -> tuple[list[Event], int]:
        """Return the events after this number, and how many are no longer kept."""
        with self._lock:
            kept = list(self._ring)
        found = [event for event in kept if event.number > number]
        lost = found[0].number - number - 1 if found else 0
        return found, lost

    @property
    def last(self) -> int:
        """Return the number of the newest event; 0 if there is none."""
        try:
            return self._ring[-1].number
        except IndexError:
            return 0
