"""What is to be written: one value of one resource type in one cgroup.

An `Update` says nothing about files; the tree resolves its type to the file of the
node's cgroup version. Merging is for values that a parent and its children share a rule
about: while a whole branch changes, a parent holds the merge of old and new, so that
its children fit below it before and after.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nriplugin.cgroup.types.registry import Type
from nriplugin.convert.cpu_list import parse_cpus, render_cpus

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from nriplugin.cgroup.types.registry import Resource
    from nriplugin.cgroup.types.tree import Tree

# (what the file holds, what is wanted) -> a value below which the children of both fit.
Merge = Callable[[str, str], str]


class Writer(Protocol):
    """Somebody who has to be asked before a file is written: systemd, for its units."""

    def write(
        self, tree: Tree, resource: Resource, cgroup: str, content: str
    ) -> bool | str:
        """Take a write over.

        Args:
            tree: where the file would be written otherwise.
            resource: which file it is; `resource.file` is its name.
            cgroup: below the root, such as `/kubepods.slice/x.scope`.
            content: what the file is to hold, as the kernel spells it.

        Returns:
            True if the value is set now. False if this is none of the writer's
            business: no unit, or no property for that file. A text if it should have
            worked and did not, one line that says why. Unless it is True the executor
            writes the file itself, and keeps the text in the outcome.
        """
        ...

    def settled(
        self, tree: Tree, resource: Resource, cgroup: str, content: str
    ) -> tuple[str, str]:
        """Return the nearest content that the writer can keep, and why it is another.

        The arguments are those of `write`; where there is no difference, the content
        is the same and the reason is empty.
        """
        ...


@dataclass(frozen=True, slots=True)
class Update:
    """One value that one cgroup is to have, and on whose behalf."""

    type: str
    cgroup: str
    value: str | int
    merge: Merge | None = None
    origin: str = ""
    # What the executor looks up. A str remembers its hash, an enum member does not.
    key: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # `8:0 1000` is about one device, and another one's limit is another value.
        device, _, rate = str(self.value).partition(" ")
        about = f" {device}" if rate and ":" in device else ""
        object.__setattr__(self, "key", f"{self.type}:{self.cgroup}{about}")

    @classmethod
    def merging(
        cls, type: str, cgroup: str, value: str | int, origin: str = ""
    ) -> Self:
        """Return one that merges the way its type does, for leveled updates."""
        return cls(type, cgroup, value, MERGES.get(type), origin)


@dataclass(slots=True, kw_only=True)
class Change:
    """What becomes of one file: the updates of it, resolved against a tree.

    Two types may live in one file, such as quota and period in `cpu.max`; they are
    written together.
    """

    resource: Resource
    cgroup: str
    path: str
    # What the file holds, what it is to hold, and what it holds on the way there, when
    # there is a merge.
    current: str
    content: str
    through: str | None = None
    updates: tuple[Update, ...] = ()
    # Whether the content is about to be replaced anyway.
    passing: bool = False
    # Why the content is not exactly what was asked for.
    note: str = ""

    def step(self, current: str, content: str) -> Change:
        """Return one write on the way: from what is there to what is to be there."""
        return Change(
            resource=self.resource,
            cgroup=self.cgroup,
            path=self.path,
            current=current,
            content=content,
            updates=self.updates,
            note=self.note,
        )


class Status(StrEnum):
    """What became of an update."""

    WRITTEN = "written"
    SKIPPED = "skipped"  # the file holds it already
    GONE = "gone"  # the cgroup went away; that is no error
    UNSUPPORTED = "unsupported"  # this node has no such file
    REFUSED = "refused"  # the journal could not take the original value
    FAILED = "failed"


class Outcome(NamedTuple):
    """What became of an update, with all that a log line needs."""

    # When it was skipped, the update that wrote the value.
    update: Update
    status: Status
    path: str
    # What was, or would have been, written to the file.
    content: str = ""
    operation: str = ""
    errno: int | None = None
    reason: str = ""
    # What the file holds after the write, if that is something else.
    actual: str | None = None
    # Whether the writer (systemd) took it, rather than the file itself.
    by_writer: bool = False

    @property
    def ok(self) -> bool:
        """Whether the file holds the value now."""
        return self.status in (Status.WRITTEN, Status.SKIPPED)


@lru_cache(maxsize=256)
def union(held: str, wanted: str) -> str:
    """Merge two lists of CPUs or memory nodes: all of both.

    An empty list holds nothing on v1, and follows the parent on v2, where a smaller
    one is no error: either way the wanted list is right.
    """
    return render_cpus(parse_cpus(held) | parse_cpus(wanted))


def larger(held: str, wanted: str) -> str:
    """Merge two amounts: the larger; no limit (`max`, `-1`) is above any number."""
    return held if amount(held) >= amount(wanted) else wanted


# The types whose values a parent and its children share a rule about. A quota is taken
# for its number; where the period changes as well, see `quirks.lift_quotas`.
MERGES: Mapping[str, Merge] = {
    Type.CPUSET_CPUS: union,
    Type.CPUSET_MEMS: union,
    Type.MEMORY_MIN: larger,
    Type.MEMORY_LOW: larger,
    Type.CPU_QUOTA: larger,
    Type.CPU_BURST: larger,
}


def amount(value: str) -> float:
    """Return a number to compare with; no limit is infinite.

    Raises:
        ValueError: not a number.
    """
    value = value.strip()
    if value == "max":
        return inf
    number = int(value)
    return inf if number < 0 else number
