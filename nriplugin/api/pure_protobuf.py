"""Keeps protobuf's pure Python implementation out of a process that uses upb.

protobuf imports `python_message` in any case, and with it decoders, encoders, the text
format and pickle: 1 MB of memory, on every node, that is never used where messages are
parsed by upb. In its place comes a module that is replaced by the real one as soon as
something is looked up in it. So the pure implementation works as well, where it is the
one that is used.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

_NAME = "google.protobuf.internal.python_message"


class _UnusedModule(ModuleType):
    """A module that is imported when it is used."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever it has
        if sys.modules.get(_NAME) is self:
            del sys.modules[_NAME]
        return getattr(importlib.import_module(_NAME), name)


def load_when_used() -> None:
    """Let the module be imported when it is used, unless it has been imported."""
    sys.modules.setdefault(_NAME, _UnusedModule(_NAME))
