"""Runs nriplugin with a wall clock that a test can set, without touching the machine's.

As a program (`jumping_clock.py FILE ARGUMENTS...`) it runs `nriplugin ARGUMENTS...` in
a process whose `time.time` is ahead of the machine's by the seconds in FILE, which are
read at every call. `time.monotonic` is not changed, as a real jump does not change it.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

DAY_S = 86400


def jumping_command(offset: Path, command: Sequence[str]) -> list[str]:
    """Return a command line of nriplugin (`python -m nriplugin …`) with such a clock.

    The file is made if it does not exist.
    """
    interpreter, _, _, *arguments = command
    if not offset.exists():
        set_ahead(offset, 0)
    return [interpreter, __file__, str(offset), *arguments]


def set_ahead(offset: Path, seconds: int) -> None:
    """Have the clock jump: it is ahead of the machine's by so many seconds now."""
    new = offset.with_suffix(".new")
    new.write_text(str(seconds))
    new.replace(offset)


def _ahead_by(path: str, real: Callable[[], float]) -> Callable[[], float]:
    def wall() -> float:
        with open(path) as file:
            return real() + int(file.read())

    return wall


if __name__ == "__main__":
    # Before nriplugin is imported: its modules take `time` from the module by name.
    time.time = _ahead_by(sys.argv[1], time.time)
    from nriplugin.cli.main import main

    del sys.argv[1]
    sys.exit(main())
