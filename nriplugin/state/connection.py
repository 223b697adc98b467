"""The connection to the runtime, and the times without one.

A container that is created while nriplugin is not connected gets no values from it. So
every such time is kept as a `ConnectionGap`, with the containers that the next
Synchronize found and no process of nriplugin had decided about.

Times are shown by the wall clock, and measured by a monotonic one: a gap is as long as
it was, also if the wall clock was set meanwhile.
"""

from __future__ import annotations

from collections import deque
from time import gmtime, monotonic, strftime, time
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


class EarlierProcess(NamedTuple):
    """The end of the process that served the runtime before this one."""

    last_seen: float  # when it was last known to be connected
    reason: str  # how it ended


def utc_text(seconds: float) -> str:
    """Return a time as text, such as 2026-01-31T08:15:00Z."""
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(seconds))


class RuntimeConnection:
    """The state of the connection. The door's thread changes it, others read it."""

    def __init__(
        self,
        clock: Callable[[], float] = time,
        steady: Callable[[], float] = monotonic,
    ) -> None:
        """Begin without a connection, as a process does.

        `clock` is for the times that are shown, `steady` measures.
        """
        self._clock = clock
        self._steady = steady
        self._began = steady()  # `began` below, on the monotonic clock
        self.earlier: EarlierProcess | None = None  # as far as it is known
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
            self.gaps.append(self._gap(now, missed))
            self.gap_count += 1
            self.missed_count += missed
        self.since = now

    def _gap(self, now: float, missed: int) -> ConnectionGap:
        """Return the gap that ends now; the first began with the earlier process."""
        began = now - (self._steady() - self._began)
        earlier = None if self.gap_count else self.earlier
        if earlier is None:
            return ConnectionGap(began, now, self.reason, missed)
        return ConnectionGap(min(began, earlier.last_seen), now, earlier.reason, missed)

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
            self.began, self._began = self._clock(), self._steady()
        self.since, self.reason = None, reason
