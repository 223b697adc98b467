"""How long to wait before dialling the runtime again.

The first wait is short: a runtime's restart takes a second, and containers started in
between go without us. It doubles with every attempt that fails. A connection that works
starts over, unless it keeps ending at once: each costs the runtime a Synchronize of
everything it has, so after some of those the waits grow as well.
"""

from __future__ import annotations

import random

FIRST_S = 0.1
# Bounds how long a node is without us after its runtime came back.
LAST_S = 3.0
# A connection that lived this long was a good one.
GOOD_S = 10.0
# So many in a row may end sooner before the waits grow.
SHORT_ONES = 25


class Backoff:
    """Remembers how the last attempts went."""

    def __init__(self) -> None:
        self._failures = 0
        self._short_ones = 0

    def next_delay_s(self, lived_s: float | None) -> float:
        """Return the wait after a connection of that length; None: it never worked."""
        if lived_s is None:
            self._failures += 1
        elif lived_s >= GOOD_S:
            self._failures = self._short_ones = 0
        else:
            self._short_ones += 1
            self._failures = max(0, self._short_ones - SHORT_ONES)
        # Half to all of it, so that the plugins of a node do not dial in step.
        longest = min(FIRST_S * 2.0 ** min(self._failures, 16), LAST_S)
        return longest * random.uniform(0.5, 1)
