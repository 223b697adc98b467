"""What happened since the process started, for logs, metrics and tests."""

from __future__ import annotations


class Stats:
    """Counters over all connections. Read them from any thread."""

    __slots__ = ("connections", "deferred", "failed", "late", "lost", "requests")

    def __init__(self) -> None:
        self.connections = 0  # that came to work
        self.requests = 0  # handled by the plugin
        self.failed = 0  # of these, ended in an exception
        self.late = 0  # of these, answered by the watchdog
        self.deferred = 0  # answered while a handler was late; events are handed on
        self.lost = 0  # of these, never seen by the plugin
