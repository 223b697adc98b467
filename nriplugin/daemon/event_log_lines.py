"""The decision log of `-v`: one line for each container that was decided about.

A line has the container's files with their values and the handlers behind them, and
what was skipped and why; in shadow mode also the values that were not set. It never has
a whole message of the runtime's: those hold the environment of containers, and so their
secrets.

Requests only append to a ring (state/events.py). A thread of its own, which exists only
with `-v`, looks at the ring a few times per second and makes lines of what is new. It
hands them to another thread, which writes them (cli/stderr_queue.py).
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from nriplugin.loglimit import LimitedLog
from nriplugin.stopping import StopFlag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from nriplugin.state.events import Event, EventLog
    from nriplugin.state.inventory import ContainerEntry

_log = logging.getLogger(__name__)

INTERVAL_S = 0.25

# A node may start a hundred containers at once; a loop that creates containers must not
# fill the disk.
LINES_AT_ONCE = 200
LINES_PER_SECOND = 20.0


class EventLogLines:
    """Logs the events of a ring that were not logged yet."""

    def __init__(
        self, events: EventLog, clock: Callable[[], float] = monotonic
    ) -> None:
        self._events = events
        self._last = events.last
        self._limited = LimitedLog(
            *(_log, clock), burst=LINES_AT_ONCE, per_second=LINES_PER_SECOND
        )

    def look(self) -> None:
        """Log what is new since the last call, and how many events were lost."""
        found, lost = self._events.since(self._last)
        if lost:
            _log.debug("decision log: %d events came too fast and were lost", lost)
        for event in found:
            self._last = event.number
            if event.entry is not None:
                extra = {"fields": fields_of(event, event.entry)}
                line = line_of(event, event.entry)
                self._limited.log(logging.DEBUG, "%s", line, extra=extra)


def line_of(event: Event, entry: ContainerEntry) -> str:
    """Return the line about an event of a container."""
    values = _values(entry, entry.ours)
    if entry.shadow:
        shown = f"shadow mode, not set: {_values(entry, entry.shadow)}"
        values = f"{values}; {shown}" if values else shown
    line = f"{event.kind.value} {entry.path}: {values or 'no values'}"
    if event.text:
        line += f"; {event.text}"
    skipped = _skipped(entry)
    return f"{line}; skipped: {'; '.join(skipped)}" if skipped else line


def fields_of(event: Event, entry: ContainerEntry) -> dict[str, Any]:
    """Return what the line says, for programs."""
    summary = entry.decision
    handlers = {}
    if summary is not None:
        pairs = zip(summary.files, summary.reasons, strict=True)
        handlers = {file: why.handler for file, why in pairs}
    return {
        "event": event.kind.value,
        "container_id": entry.id,
        "namespace": entry.pod.namespace,
        "pod": entry.pod.name,
        "container": entry.name,
        "files": dict(entry.ours),
        "shadow": dict(entry.shadow),
        "handlers": handlers,
        "rule": summary.matched if summary is not None else "",
        "skipped": _skipped(entry),
        "detail": event.text,
    }


def _values(entry: ContainerEntry, files: Mapping[str, str]) -> str:
    """Return files with their values, and after each the handler that decided it.

    A value that follows from the memory request also has the source of the request.
    """
    summary = entry.decision
    values = []
    for file, value in files.items():
        why = None if summary is None else summary.why(file)
        by = "earlier" if why is None else why.handler
        if why is not None and "memory request" in why.rule.fields:
            by = f"{by}: {why.source}"
        values.append(f"{file}={value} ({by})")
    return ", ".join(values)


def _skipped(entry: ContainerEntry) -> list[str]:
    return [] if entry.decision is None else list(entry.decision.skipped)


@contextmanager
def logging_decisions(events: EventLog, *, on: bool) -> Iterator[None]:
    """Log the events of the `with` block, if `on`; the last ones at its end."""
    if not on:
        yield
        return
    lines, stopping = EventLogLines(events), StopFlag()

    def run() -> None:
        while not stopping.wait(INTERVAL_S):
            lines.look()
        lines.look()

    thread = threading.Thread(target=run, name="decision-log", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(5.0)  # not for ever: another program may have another log
