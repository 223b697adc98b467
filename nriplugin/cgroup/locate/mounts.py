"""Where the kernel's cgroup hierarchies are mounted, from the text of mountinfo.

Pure: `parse_mountinfo` takes the text of /proc/self/mountinfo. On cgroup v1 every
controller may be mounted at another place, and some are mounted together.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

MOUNTINFO = "/proc/self/mountinfo"

# Options of a v1 mount that are not controllers. Neither is an option with a `=`, such
# as the name of a hierarchy without controllers.
_OPTIONS = frozenset(
    {"rw", "ro", "none", "all", "xattr", "noprefix", "clone_children"}
    | {"favordynmods", "cpuset_v2_mode"}
)


class Mounts(NamedTuple):
    """v1 controller -> directory, and the directories of the unified hierarchy.

    Controllers that are mounted together, `cpu,cpuacct`, have the same directory.
    """

    hierarchies: Mapping[str, str]
    unified: tuple[str, ...]


NO_MOUNTS = Mounts({}, ())


def parse_mountinfo(text: str, below: str = "/") -> Mounts:
    """Return the cgroup mounts at or below a directory.

    A mount of a whole hierarchy is preferred to the mount of a part, such as a
    container's own. Among equals the last one counts, because it covers the others.
    """
    hierarchies: dict[str, tuple[bool, str]] = {}
    unified: list[str] = []
    prefix = below.rstrip("/")
    for line in text.splitlines():
        left, separator, right = line.partition(" - ")
        before, after = left.split(), right.split()
        if not separator or len(before) < 5 or len(after) < 3:
            continue
        whole, point = before[3] == "/", _unescape(before[4])
        if point != (prefix or "/") and not point.startswith(f"{prefix}/"):
            continue
        if after[0] == "cgroup2":
            unified.append(point)
        elif after[0] == "cgroup":
            for option in after[2].split(","):
                if option in _OPTIONS or "=" in option:
                    continue
                if whole or not hierarchies.get(option, (False, ""))[0]:
                    hierarchies[option] = (whole, point)
    found = {controller: point for controller, (_, point) in hierarchies.items()}
    return Mounts(found, tuple(unified))


def _unescape(field: str) -> str:
    """Turn the kernel's \\040 and the like back into characters."""
    if "\\" not in field:
        return field
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
