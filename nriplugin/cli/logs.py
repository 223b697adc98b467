"""The log of the commands that serve: on standard error, for whoever keeps it."""

from __future__ import annotations

import logging
import sys


def log_to_stderr(*, verbose: bool) -> None:
    """Write the log from now on; `verbose` is in detail."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )
