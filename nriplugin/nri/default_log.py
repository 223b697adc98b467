"""The log of a plugin whose program has not configured logging.

Without a configuration, Python shows warnings without time and level, and no line that
says that the plugin is connected.
"""

from __future__ import annotations

import logging
import sys


def log_unless_configured() -> None:
    """Send the log of the whole program to standard error, from level INFO on.

    Does nothing if a handler would get the SDK's lines already, or if the process has
    no standard error. A level that the program has set stays.
    """
    if logging.getLogger(__package__).hasHandlers() or sys.stderr is None:
        return
    level = logging.getLogger().level
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(message)s",
        level=logging.INFO if level == logging.WARNING else level,
    )
