"""Counters of a plugin's connections and requests, for logs, metrics and tests.

The request thread and, while a handler is late, the watchdog's thread count without a
lock: at any time only one of them serves. Other threads read the counters and may see
one request more or less.
"""

from __future__ import annotations

from nriplugin.request_stats import RequestStats


class Stats:
    """Counts since the process started, over all connections."""

    __slots__ = (
        *("by_operation", "connections", "deferred", "failed", "late", "lost"),
        *("requests",),
    )

    def __init__(self) -> None:
        self.connections = 0  # connections that were synchronized
        self.requests = 0  # requests that the plugin handled
        self.failed = 0  # of `requests`: the handler raised an exception
        self.late = 0  # of `requests`: answered by the watchdog's thread
        self.deferred = 0  # further requests that arrived while a handler was late
        self.lost = 0  # of `deferred`: the plugin never sees them
        # `requests` by the name of their RPC, with the time that they took.
        self.by_operation = RequestStats()
