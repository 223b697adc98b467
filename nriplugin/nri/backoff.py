"""Computes how long the plugin waits before it dials the runtime again.

The first wait is short, because a runtime restarts within about a second, and
containers that are created while the plugin is not connected are not adjusted. The
wait doubles with every attempt that fails, up to `LAST_S`.

A connection that lasted starts the waits over. A connection that ends soon after it
was made costs the runtime a Synchronize of all its pods and containers, so after
`SHORT_CONNECTIONS` of those in a row the waits grow as well. This module neither
sleeps nor dials: the runner does.
"""

from __future__ import annotations

import random

FIRST_S = 0.1
# The longest that a node runs without the plugin after its runtime came back.
LAST_S = 3.0
# A connection that lasted this long starts the waits over.
GOOD_S = 10.0
# As many connections in a row may end sooner than that before the waits grow.
SHORT_CONNECTIONS = 25


class Backoff:
    """Remembers how the latest connections ended."""

    def __init__(self) -> None:
        self._failures = 0
        self._short_connections = 0

    def next_delay_s(self, lived_s: float | None) -> float:
        """Return the wait after a connection that lasted `lived_s` seconds.

        None stands for an attempt that did not become a working connection.
        """
        if lived_s is None:
            self._failures += 1
        elif lived_s >= GOOD_S:
            self._failures = self._short_connections = 0
        else:
            self._short_connections += 1
            self._failures = max(0, self._short_connections - SHORT_CONNECTIONS)
        # A random part of it, half at least, so that the plugins of a node do not all
        # dial at the same moment.
        longest = min(FIRST_S * 2.0 ** min(self._failures, 16), LAST_S)
        return longest * random.uniform(0.5, 1)
