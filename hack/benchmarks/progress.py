"""A bar on a terminal that shows how far the sections are; elsewhere, plain lines."""

from __future__ import annotations

import re
import shutil
from time import monotonic
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping

CELLS = 24
# As benches say it on standard error.
TURN = re.compile(r"\bturn (\d+) of (\d+)\b")


class Progress:
    """The share of the work that is done, by the minutes that each section takes."""

    def __init__(self, minutes: Mapping[str, float], out: TextIO) -> None:
        self._minutes = minutes
        self._out = out
        self._bar = out.isatty()
        self._began = monotonic()
        self._done = 0.0
        self._section = ""
        self._part = 0.0

    def begin(self, section: str) -> None:
        """Show that a section begins."""
        self._section, self._part = section, 0.0
        self._show(f"about {self._minutes[section]:g} min")

    def tell(self, line: str) -> None:
        """Show a line that the bench of the section has printed."""
        if found := TURN.search(line):
            turn, turns = int(found[1]), int(found[2])
            # Some benches go on after their last turn.
            self._part = max(self._part, (turn - 1) / turns)
        self._show(line.removeprefix("bench: ").strip())

    def end(self, outcome: str) -> None:
        """Show how a section ended."""
        self._done += self._minutes[self._section]
        self._part = 0.0
        self._show(outcome, last=True)

    def share(self) -> float:
        """Return the share of the work that is done, from 0 to 1."""
        total = sum(self._minutes.values())
        now = self._minutes.get(self._section, 0.0) * self._part
        return min(1.0, (self._done + now) / total) if total else 1.0

    def _show(self, text: str, *, last: bool = False) -> None:
        if not self._bar:
            self._out.write(f"bench: {self._section}: {text}\n")
            self._out.flush()
            return
        full = round(CELLS * self.share())
        minutes = (monotonic() - self._began) / 60
        line = (
            f"[{'#' * full}{'.' * (CELLS - full)}] {100 * self.share():3.0f} % "
            f"{minutes:4.1f} min  {self._section}: {text}"
        )
        columns = shutil.get_terminal_size().columns
        self._out.write(f"\r\x1b[K{line[: columns - 1]}{chr(10) * last}")
        self._out.flush()
