"""The connection to the runtime, and the times without one.

A container that is created while nriplugin is not connected gets no values from it. So
every such time is kept as a `ConnectionGap`, with the containers that the next
Synchronize found and no process of nriplugin had decided about.
"""

from __future__ import annotations

from collections import deque
from time import gmtime, strftime, time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

# How many gaps are kept; the number of all gaps is kept beside them.
KEPT = 16


class ConnectionGap(NamedTuple):
    """A time without a connection, from the end of one to the Synchronize of the next.

    Times are seconds since 1970.
    """

    began: float
    ended: float
    reason: str  # why the connection ended
    missed: int  # containers that were created meanwhile


def utc_text(seconds: float) -> str:
    """Return a time as text, such as 2026-01-31T08:15:00Z."""
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(seconds))


class RuntimeConnection:
    """The state of the connection. The door's thread changes it, others read it."""

    def __init__(self, clock: Callable[[], float] = time) -> None:
        """Begin without a connection, as a process does."""
        self._clock = clock
        self.runtime = ""  # the runtime's name and version, as it gives them
        self.version = ""
        self.release = ""  # the NRI release of the runtime, as far as it is known
        self.since: float | None = None  # None while not connected and synchronized
        self.reason = "not connected yet"  # why there is no connection
        self.began = clock()  # since when there is none
        self.gaps: deque[ConnectionGap] = deque(maxlen=KEPT)
        self.gap_count = 0
        self.missed_count = 0  # the containers that were missed in all gaps

    def configured(self, runtime: str, version: str, release: str = "") -> None:
        """Note which runtime answers."""
        self.runtime, self.version, self.release = runtime, version, release

    def synchronized(self, missed: int) -> None:
        """Note that requests are answered from now on.

        `missed` is how many containers exist that were created without nriplugin.
        """
        now = self._clock()
        if self.since is None:
            self.gaps.append(ConnectionGap(self.began, now, self.reason, missed))
            self.gap_count += 1
            self.missed_count += missed
        self.since = now

    def missing_because(self) -> str:
        """Return one sentence for a container that was created without nriplugin.

        To be asked while Synchronize is answered, before `synchronized`.
        """
        now = utc_text(self._clock())
        if not self.gap_count:
            return f"it was created without nriplugin, which connected at {now}"
        began = utc_text(self.began)
        return (
            f"it was created while nriplugin was not connected, between {began} and "
            f"{now}: {self.reason}"
        )

    def ended(self, reason: str) -> None:
        """Note that the connection has ended."""
        if self.since is not None:
            self.began = self._clock()
        self.since, self.reason = None, reason
