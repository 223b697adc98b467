"""A handler that only a test knows, in the engine's table."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nriplugin.engine.handlers import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.engine.handler import Handler


@contextmanager
def registered_handler(handler: Handler[Any]) -> Iterator[None]:
    """Have the table list a handler while the block runs.

    It takes the place of the handler with its name; without one, it comes right before
    the conversion. Make configurations inside the block: settings that were made before
    do not have the handler.
    """
    before = table.HANDLERS
    names = [one.name for one in before]
    if handler.name in names:
        place = names.index(handler.name)
        table.HANDLERS = (*before[:place], handler, *before[place + 1 :])
    else:
        table.HANDLERS = (*before[:-1], handler, before[-1])
    try:
        yield
    finally:
        table.HANDLERS = before
