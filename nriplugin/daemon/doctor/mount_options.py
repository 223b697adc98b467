"""The options with which a directory is mounted, from mountinfo."""

from __future__ import annotations

import re
from typing import NamedTuple


class MountOptions(NamedTuple):
    """The options of one mount, and those of its file system."""

    options: frozenset[str]
    super_options: frozenset[str]


def mount_of(directory: str, proc: str = "/proc") -> MountOptions | None:
    """Return the mount at exactly this directory; None if there is none."""
    path = f"{proc}/self/mountinfo"
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return parse_mount(file.read(), directory)
    except OSError:
        return None


def parse_mount(text: str, directory: str) -> MountOptions | None:
    """Find a directory in the text of mountinfo; the last mount covers the others."""
    found = None
    for line in text.splitlines():
        left, separator, right = line.partition(" - ")
        before, after = left.split(), right.split()
        if not separator or len(before) < 6 or len(after) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), before[4])
        if point == (directory.rstrip("/") or "/"):
            found = MountOptions(
                frozenset(before[5].split(",")), frozenset(after[2].split(","))
            )
    return found
