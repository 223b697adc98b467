"""The values that travel through a write: `Update` in, `Change` inside, `Outcome` out.

An `Update` names a resource type and a cgroup, and no file. `planning` resolves it
against a tree to a `Change` of one file; several updates may share a change, such as
quota and period of cpu.max. The executor returns one `Outcome` per update.

`Writer` is the interface of what is asked before a file is written: systemd, for the
cgroups that are its units. It is declared here so that this package does not import
`cgroup.systemd`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from nriplugin.cgroup.types.registry import Resource
    from nriplugin.cgroup.types.tree import Tree


# For how long a value that was written counts as held, unless a caller chooses another
# time. Koordlet takes the same.
REFRESH_S = 60.0


class Writer(Protocol):
    """Asked before a file is written: systemd, for the cgroups that are its units."""

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
            True if the value is set now. False if the writer has no part in it: the
            cgroup is no unit, or the file has no property. A text if the writer should
            have set it and failed: one line with the reason. Unless it is True, the
            executor writes the file itself; a text becomes part of the outcome.
        """
        ...

    def settled(
        self, tree: Tree, resource: Resource, cgroup: str, content: str
    ) -> tuple[str, str]:
        """Return the nearest content that the writer can keep, and why it differs.

        The arguments are those of `write`; if the writer can keep the content itself,
        it is returned unchanged and the reason is empty.
        """
        ...


class Update:
    """One value that one cgroup is to have; `origin` says what asked for it.

    `key` tells which value it is: two updates with the same key set the same thing.
    """

    __slots__ = ("cgroup", "key", "origin", "type", "value")

    def __init__(
        self, type: str, cgroup: str, value: str | int, origin: str = ""
    ) -> None:
        self.type = type
        self.cgroup = cgroup
        self.value = value
        self.origin = origin
        # `8:0 1000` is about one device, and the limit of another one is another value.
        device, _, rate = str(value).partition(" ")
        about = f" {device}" if rate and ":" in device else ""
        # Built once: the executor's cache looks it up for every update, and a str
        # remembers its hash, which an enum member does not.
        self.key = f"{type}:{cgroup}{about}"

    def _fields(self) -> tuple[str, str, str | int, str]:
        return self.type, self.cgroup, self.value, self.origin

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Update) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return f"Update{self._fields()!r}"


class Change:
    """What happens to one file: the updates of it, resolved against a tree."""

    __slots__ = (
        "cgroup",
        "content",
        "current",
        "note",
        "passing",
        "path",
        "resource",
        "through",
        "updates",
    )

    def __init__(
        self,
        *,
        resource: Resource,
        cgroup: str,
        path: str,
        current: str,
        content: str,
        updates: tuple[Update, ...] = (),
        note: str = "",
    ) -> None:
        """Describe the change of a file from one content to another.

        Args:
            resource: which file it is.
            cgroup: whose file it is.
            path: of the file, below the root.
            current: what the file holds.
            content: what the file is to hold.
            updates: those that ask for it.
            note: why the content is not exactly what was asked for.
        """
        self.resource = resource
        self.cgroup = cgroup
        self.path = path
        self.current = current
        self.content = content
        self.updates = updates
        self.note = note
        # What the file holds between the two passes of a leveled update, if that is
        # not the content.
        self.through: str | None = None
        # Whether the content is only held between the two passes.
        self.passing = False

    def step(self, current: str, content: str) -> Change:
        """Return one write of this change, from one content to another."""
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
    """What came of an update."""

    WRITTEN = "written"
    SKIPPED = "skipped"  # the file holds the value already
    GONE = "gone"  # the cgroup was removed, which is not an error
    UNSUPPORTED = "unsupported"  # this node has no such file
    REFUSED = "refused"  # the journal could not store the original value
    FAILED = "failed"
    SUPERSEDED = "superseded"  # a later value of the same file took its place
    DROPPED = "dropped"  # it waited in a queue, and is not to be written any more


class Outcome(NamedTuple):
    """What came of an update, with everything that a log line needs."""

    # If the update was skipped because of the cache: the one that wrote the value.
    update: Update
    status: Status
    path: str
    # What was, or would have been, written to the file.
    content: str = ""
    operation: str = ""
    errno: int | None = None
    reason: str = ""
    # What the file holds after the write, if it is not the content.
    actual: str | None = None
    # Whether systemd set the value, rather than a write to the file.
    by_writer: bool = False

    @property
    def ok(self) -> bool:
        """Whether the file holds the value now."""
        return self.status in (Status.WRITTEN, Status.SKIPPED)
