"""The log of `run` and `cri-proxy`: lines on standard error.

systemd, the container runtime or a person at a terminal reads them. A message may hold
names that a container chose, so control characters are escaped as in printing.py and
one message is always one line; only a traceback has more.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from nriplugin.cli.printing import printable

if TYPE_CHECKING:
    from types import TracebackType

    # The type of the parameter in logging.Formatter.
    ExceptionInfo = (
        tuple[type[BaseException], BaseException, TracebackType | None]
        | tuple[None, None, None]
    )


def log_to_stderr(*, verbose: bool) -> None:
    """Send the log to standard error; `verbose` includes debug messages."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_PrintableFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO, handlers=[handler]
    )


class _PrintableFormatter(logging.Formatter):
    """Escapes what is not printable, so that a message is one line of text."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return printable(super().formatMessage(record))

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802
        lines = super().formatException(ei).split("\n")
        return "\n".join(map(printable, lines))
