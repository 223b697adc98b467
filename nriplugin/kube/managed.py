"""The record of what we set, which travels with the container as an annotation.

The plugin adds it to a container's OCI specification when the container is made, and
the runtime shows it again at every update and at every Synchronize. So after a reload,
a restart or an upgrade the plugin knows which cgroup v2 values are its own, whatever
the configuration says by then.

The text is `FILE=VALUE` for each file that we set, and the bare `FILE` for each one
that had a value of another plugin's or of a user's before us, joined by semicolons:
`cpu.max=50000 100000;cpu.weight=35;memory.high`.

A runtime may copy a pod's annotations to its containers, so the text can be a
stranger's: `parse_managed` takes exactly what `render_managed` gives, and nothing else.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

KEY = "managed.cgroup2.nri.io"

# More than every file that we can set, each with its longest value.
MAX_LENGTH = 2048

_FILE = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+")
# Empty where we set the file and do not know to what.
_VALUE = re.compile(r"[a-z0-9. -]{0,64}")


class Managed(NamedTuple):
    """What we set on a container when it was made, and what others had set before."""

    files: Mapping[str, str]
    others: frozenset[str] = frozenset()


def render_managed(files: Mapping[str, str], others: Iterable[str] = ()) -> str:
    """Return the annotation's text."""
    return ";".join([*(f"{f}={v}" for f, v in sorted(files.items())), *sorted(others)])


def parse_managed(text: str) -> Managed | None:
    """Return what the annotation says; None if it cannot be ours."""
    if len(text) > MAX_LENGTH:
        return None
    files: dict[str, str] = {}
    others: set[str] = set()
    for part in text.split(";") if text else ():
        file, is_set, value = part.partition("=")
        if not _FILE.fullmatch(file) or file in files or file in others:
            return None
        if not is_set:
            others.add(file)
        elif _VALUE.fullmatch(value):
            files[file] = value
        else:
            return None
    return Managed(files, frozenset(others))
