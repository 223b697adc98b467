"""From updates to changes of files: read, checked and merged, with nothing written.

A plan is made before the first write of a batch. Types that share a file become one
change of that file. An update that cannot be carried out gets its outcome here.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from nriplugin.cgroup.writing.updates import Change, Outcome, Status
from nriplugin.cgroup.writing.write_order import unfilled_parents
from nriplugin.errors import CgroupError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nriplugin.cgroup.types.registry import Resource
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.cgroup.writing.file_writer import FileWriter
    from nriplugin.cgroup.writing.merging import Merge
    from nriplugin.cgroup.writing.updates import Update

# A write to one of these files moves a task. The file has no value that could be
# compared or put back, so they are refused.
_MOVING = ("cgroup.procs", "cgroup.threads", "tasks")


class UpdatePlan:
    """The changes of one batch, level by level, and the outcomes known so far."""

    def __init__(
        self,
        tree: Tree,
        file_writer: FileWriter,
        levels: Sequence[Sequence[Update]],
        merges: Mapping[str, Merge] = MappingProxyType({}),
    ) -> None:
        """Look every type up.

        Args:
            tree: where the files are.
            file_writer: says which values can be kept, and what an error means.
            levels: the updates, from the top of the tree down.
            merges: for types that need it, what a parent holds between two passes.

        Raises:
            ConfigError: a type is not in the registry.
        """
        self.outcomes: dict[str, Outcome] = {}
        self.levels: list[list[Change]] = []
        # Changes of other cgroups that have to be written before the levels.
        self.first: list[Change] = []
        self._tree = tree
        self._file_writer = file_writer
        self._merges = merges
        self._changes: dict[str, Change] = {}
        self._resolved = [
            [(update, tree.registry.get(update.type)) for update in level]
            for level in levels
        ]

    def read(self) -> None:
        """Read what the files hold, and work out what they are to hold."""
        for level in self._resolved:
            self.levels.append([])
            for update, resource in level:
                try:
                    if not self._is_unsupported(update, resource):
                        self._add(update, resource)
                except CgroupError as exc:
                    result = self._file_writer.failed(resource, update.cgroup, exc)
                    self._decide(update, resource, result.status, result.reason, exc)
                except (ConfigError, ValueError) as exc:
                    self._decide(update, resource, Status.FAILED, str(exc))
        for change in list(self._changes.values()):
            self._file_writer.settle(change)
            for parent in unfilled_parents(self._tree, change.resource, change.cgroup):
                if parent.path not in self._changes:
                    self._changes[parent.path] = parent
                    self.first.append(parent)

    def refuse(self, reason: str) -> None:
        """Refuse every update that has no outcome yet."""
        for level in self._resolved:
            for update, resource in level:
                if update.key not in self.outcomes:
                    self._decide(update, resource, Status.REFUSED, reason)

    def _is_unsupported(self, update: Update, resource: Resource) -> bool:
        """Give an update its outcome if its type was registered with a check."""
        if self._tree.registry.support_check(update.type) is None:
            return False
        support = self._tree.supported(update.type, update.cgroup)
        if support:
            return False
        self._decide(update, resource, Status.UNSUPPORTED, support.reason)
        return True

    def _add(self, update: Update, resource: Resource) -> None:
        path = resource.path(update.cgroup)
        if resource.file in _MOVING:
            raise ConfigError(
                f"{update.type}: {update.value!r}, expected a type with a value: "
                "this one moves tasks"
            )
        change = self._changes.get(path)
        if change is None:
            current = self._tree.files.read(path).strip()
            change = Change(
                resource=resource,
                cgroup=update.cgroup,
                path=path,
                current=current,
                content=current,
            )
        # `content` and `through` grow with every update of the same file: quota and
        # period of cpu.max end up in one text.
        wanted = self._joined(change, resource, update.value, change.content)
        through = None
        merge = self._merges.get(update.type)
        if merge is not None:
            present = str(resource.parse_at(path, change.current))
            merged = merge(present, str(update.value))
            base = change.content if change.through is None else change.through
            through = self._joined(change, resource, merged, base)
        elif change.through is not None:
            through = self._joined(change, resource, update.value, change.through)
        change.content, change.through = wanted, through
        change.updates += (update,)
        if path not in self._changes:
            self._changes[path] = change
            self.levels[-1].append(change)

    @staticmethod
    def _joined(change: Change, resource: Resource, value: str | int, base: str) -> str:
        text = resource.format(value, base).strip()
        if not change.updates or resource.content.partial:
            return text
        return f"{base}\n{text}"

    def _decide(
        self,
        update: Update,
        resource: Resource,
        status: Status,
        reason: str,
        exc: CgroupError | None = None,
    ) -> None:
        self.outcomes[update.key] = Outcome(
            update,
            status,
            resource.path(update.cgroup),
            str(update.value),
            "" if exc is None else exc.operation,
            None if exc is None else exc.errno,
            reason,
        )
