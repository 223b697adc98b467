"""The log of the commands that serve: on standard error, for whoever keeps it."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from nriplugin.cli.printing import printable

if TYPE_CHECKING:
    from types import TracebackType

    # As the base class has it.
    ExceptionInfo = (
        tuple[type[BaseException], BaseException, TracebackType | None]
        | tuple[None, None, None]
    )


def log_to_stderr(*, verbose: bool) -> None:
    """Write the log from now on; `verbose` is in detail."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_PrintableFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO, handlers=[handler]
    )


class _PrintableFormatter(logging.Formatter):
    """Makes one line of a message, whatever names are in it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return printable(super().formatMessage(record))

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802
        lines = super().formatException(ei).split("\n")
        return "\n".join(map(printable, lines))
