"""What the kernel has counted for one container: throttling, OOM kills, pressure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.types.formats import parse_pressure
from nriplugin.node.observe import held

if TYPE_CHECKING:
    from nriplugin.cgroup.types.formats import Stall
    from nriplugin.cgroup.types.tree import Tree

# What tasks may wait for; each has a file FILE.pressure.
RESOURCES = ("cpu", "memory", "io")


class UsageTotal(NamedTuple):
    """What was counted for a container, or for several."""

    throttled_periods: int = 0
    throttled_us: int = 0
    oom_kills: int = 0
    # How long some task waited for a resource.
    cpu_stalled_us: int = 0
    memory_stalled_us: int = 0
    io_stalled_us: int = 0

    def plus(self, other: UsageTotal) -> UsageTotal:
        """Return the sum."""
        return UsageTotal(*(a + b for a, b in zip(self, other, strict=True)))

    def since(self, earlier: UsageTotal) -> UsageTotal:
        """Return what has been added; a figure that went down began again at zero."""
        pairs = zip(self, earlier, strict=True)
        return UsageTotal(*(new - old if new >= old else new for new, old in pairs))


NOTHING = UsageTotal()


def usage_of(
    tree: Tree, cgroup: str, *, with_pressure: bool = False
) -> UsageTotal | None:
    """Return what the kernel has counted for a cgroup; None if it cannot be read."""
    cpu = held(tree, cgroup, "cpu.stat")
    memory = held(tree, cgroup, "memory.events")
    if cpu is None and memory is None:
        return None
    found = dict(
        line.split(" ", 1) for line in f"{cpu}\n{memory}".splitlines() if " " in line
    )
    names = "nr_throttled", "throttled_usec", "oom_kill"
    figures = [found.get(name, "0") for name in names]
    stalls = pressure_of(tree, cgroup) if with_pressure else {}
    return UsageTotal(
        *(int(text) if text.isdecimal() else 0 for text in figures),
        *(stalls[one].total_us if one in stalls else 0 for one in RESOURCES),
    )


def pressure_of(tree: Tree, cgroup: str) -> dict[str, Stall]:
    """Return how some tasks of a cgroup waited, by resource, where it is measured."""
    found = {}
    for resource in RESOURCES:
        text = held(tree, cgroup, f"{resource}.pressure")
        if text is not None:
            try:
                found[resource] = parse_pressure(text).some
            except ValueError:
                continue  # the kernel has changed the format
    return found
