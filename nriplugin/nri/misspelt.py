"""Finds names that an author has probably meant as the name of a handler.

A plugin with a misspelt handler runs, and never sees the event: the mistake has no
other symptom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.nri.methods import METHODS
from nriplugin.nri.plugin import Plugin

if TYPE_CHECKING:
    from collections.abc import Iterator

# Every method of a plugin that the SDK calls: those of the table, and five more.
HANDLERS = (
    *(method.handler for method in METHODS),
    *("configure", "synchronize", "disconnected", "fallback_update", "other_event"),
)

# From this similarity on (1 is equal, without underscores and in lower case) two names
# count as alike. "oncreatecontainer" is meant as "createcontainer"; a method
# "update_container_limits" is something of the author's own.
_ALIKE = 0.88


def misspelt_handlers(plugin: Plugin) -> list[str]:
    """Return a sentence for each name that is nearly that of a handler."""
    class_name = type(plugin).__name__
    found = [
        f"{class_name}.{name} is never called, because it is no handler; did you mean "
        f"{meant}? (The name of a method of your own may begin with an underscore.)"
        for name in _own_methods(type(plugin))
        if (meant := _nearest(name))
    ]
    found += [
        f"{class_name}.views: {name!r} is no handler"
        + (f"; did you mean {meant}?" if (meant := _nearest(name)) else "")
        for name in plugin.views
        if name not in HANDLERS
    ]
    return found


def _own_methods(cls: type[Plugin]) -> Iterator[str]:
    """Yield the public methods that a class and its bases add to those of `Plugin`."""
    for name in dir(cls):
        if name.startswith("_") or hasattr(Plugin, name):
            continue
        value = getattr(cls, name)
        if callable(value) and not isinstance(value, type):
            yield name


def _nearest(name: str) -> str | None:
    import difflib  # late: most plugins have no methods of their own

    folded = {_fold(handler): handler for handler in HANDLERS}
    found = difflib.get_close_matches(_fold(name), folded, 1, _ALIKE)
    return folded[found[0]] if found else None


def _fold(name: str) -> str:
    return name.replace("_", "").lower()
