"""The annotation that records which values nriplugin set on a container. Pure.

The plugin adds it to a container's OCI specification when the container is created, and
the runtime shows it again at every update and at every Synchronize. So after a reload,
a restart or an upgrade the plugin knows which cgroup v2 values it set, whatever the
configuration says by then.

The text is a list joined by semicolons: `FILE=VALUE` for each file that nriplugin set,
`FILE~VALUE` for each file that had a value of a user or of another plugin before, and
after an `@` the v1 numbers that the values were made of:
`cpu.max=50000 100000;cpu.weight=35;memory.high~8192;@256,50000,100000,`.

A runtime may copy a pod's annotations to its containers, so a user can have written the
text: `parse_managed` takes exactly what `render_managed` gives, and nothing else.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY = "managed.cgroup2.nri.io"

# Longer than all files that nriplugin can set, each with its longest value.
MAX_LENGTH = 2048

_ENTRY = re.compile(r"([a-z0-9_]+(?:\.[a-z0-9_]+)+)([=~])([a-z0-9. -]{0,64})")
_NUMBERS = re.compile(r"@[0-9max,]{0,90}")
_VALUE = re.compile(r"[a-z0-9. -]{0,64}")


class Managed(NamedTuple):
    """What nriplugin set on a container, and what users and other plugins had set."""

    files: Mapping[str, str]  # an unknown value is empty
    others: Mapping[str, str] = MappingProxyType({})
    numbers: str = ""  # shares, quota, period and limit; each is empty if unknown


def render_managed(
    files: Mapping[str, str],
    others: Mapping[str, str] = MappingProxyType({}),
    numbers: str = "",
) -> str:
    """Return the annotation's text."""
    parts = [f"{file}={value}" for file, value in sorted(files.items())]
    for file, value in sorted(others.items()):
        # A user may have set any text; one that the grammar cannot hold is left out.
        parts.append(f"{file}~{value if _VALUE.fullmatch(value) else ''}")
    return ";".join([*parts, f"@{numbers}"] if numbers else parts)


def parse_managed(text: str) -> Managed | None:
    """Return what the annotation says; None if nriplugin cannot have written it."""
    if len(text) > MAX_LENGTH:
        return None
    files: dict[str, str] = {}
    others: dict[str, str] = {}
    numbers = ""
    for part in text.split(";") if text else ():
        if _NUMBERS.fullmatch(part):
            numbers = part[1:]
            continue
        entry = _ENTRY.fullmatch(part)
        if entry is None or entry[1] in files or entry[1] in others:
            return None
        (files if entry[2] == "=" else others)[entry[1]] = entry[3]
    return Managed(files, others, numbers)
