"""Which configuration is in force, since when, and what became of later ones.

The configuration watch writes it on its own thread; `status` and metrics read it.
"""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING

from nriplugin.state.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.state.events import EventLog

try:
    from _sha2 import sha256  # from Python 3.12 on
except ImportError:
    try:
        from _sha256 import sha256
    except ImportError:
        # What the two above are a part of; it loads OpenSSL, 3.5 MB on every node.
        from hashlib import sha256

# So many hexadecimal digits of the text's SHA-256 are shown.
DIGITS = 12


class ConfigStatus:
    """The state of one configuration file. Times are seconds since 1970."""

    def __init__(
        self,
        path: str = "",
        clock: Callable[[], float] = time,
        *,
        events: EventLog | None = None,
    ) -> None:
        """Begin with the defaults in force; `path` is empty without a file.

        `events` takes note of every later text.
        """
        self._clock = clock
        self._events = events
        self.path = path
        self.hash = ""  # of the text in force; empty for the defaults
        self.changes = ""  # what the newest text in force has changed
        self.since = clock()
        self.reloads = 0  # texts that came into force after the first one
        self.failures = 0
        self.error = ""  # of the newest text; empty if it is in force
        self.failed_at: float | None = None

    def applied(self, text: str, *, first: bool = False) -> None:
        """Note that a text is in force."""
        self.hash = sha256(text.encode()).hexdigest()[:DIGITS]
        self.since = self._clock()
        self.error = ""
        if not first:
            self.reloads += 1
            changes = f": {self.changes}" if self.changes else ""
            self._note(EventKind.RELOADED, f"{self.path}: {self.hash}{changes}")

    def refused(self, reason: str) -> None:
        """Note that the newest text is not in force."""
        self.error = reason
        self.failed_at = self._clock()
        self.failures += 1
        self._note(EventKind.REJECTED, reason)

    def _note(self, kind: EventKind, text: str) -> None:
        if self._events is not None:
            self._events.note(kind, text=text)
