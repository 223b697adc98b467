"""Remembers what was written, so that the same update again costs a look-up only.

An entry counts for `refresh_s` seconds. After that the file is read again, because
another program may have changed it. A write drops the entries of files that it changed
as a side effect, and of other types in the same file whose value it replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.writing.kernel_text import same
from nriplugin.cgroup.writing.quirks import SIDE_EFFECTS
from nriplugin.cgroup.writing.updates import Outcome, Status
from nriplugin.errors import CgroupError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.cgroup.types.registry import Registry
    from nriplugin.cgroup.writing.updates import Change, Update


class _CachedValue(NamedTuple):
    """A value that was written, until when it counts, and the outcome until then."""

    value: str | int
    expires: float
    skipped: Outcome


class Cache:
    """The values that were written, or read from a file, within `refresh_s`."""

    def __init__(
        self, registry: Registry, refresh_s: float, clock: Callable[[], float]
    ) -> None:
        self.refresh_s = refresh_s
        self._registry = registry
        self._clock = clock
        self._values: dict[str, _CachedValue] = {}
        self._keys: dict[str, set[str]] = {}  # cgroup -> its keys in _values

    def __len__(self) -> int:
        return len(self._values) + len(self._keys)

    def look_up(
        self, latest: dict[str, Update], cacheable: bool
    ) -> tuple[dict[str, Outcome], list[Update]]:
        """Return the outcomes of updates that are cached, and the other updates."""
        if not cacheable or self.refresh_s <= 0:
            return {}, list(latest.values())
        now, values = self._clock(), self._values
        outcomes: dict[str, Outcome] = {}
        rest: list[Update] = []
        for key, update in latest.items():
            entry = values.get(key)
            if (
                entry is not None
                and entry.value == update.value
                and now < entry.expires
            ):
                outcomes[key] = entry.skipped
            else:
                rest.append(update)
        return outcomes, rest

    def remember(self, change: Change, held: str) -> None:
        """Note that a file was given its content, and what it holds since."""
        if not change.updates or self.refresh_s <= 0:
            return
        expires = self._clock() + self.refresh_s
        keys = self._keys.setdefault(change.cgroup, set())
        for update in change.updates:
            skipped = Outcome(
                update,
                Status.SKIPPED,
                change.path,
                change.content,
                reason="written before",
            )
            self._values[update.key] = _CachedValue(update.value, expires, skipped)
            keys.add(update.key)
        if len(keys) > len(change.updates):
            self._recheck(change, held, keys)

    def _recheck(self, change: Change, held: str, keys: set[str]) -> None:
        """Drop values of other types in the same cgroup that a write has changed."""
        overwritten = SIDE_EFFECTS.get(change.resource.file, ())
        for key in [*keys]:
            skipped = self._values[key].skipped
            if skipped.path == change.path:
                valid = self._still_held(skipped, held)
            else:
                valid = skipped.path.rpartition("/")[2] not in overwritten
            if not valid:
                keys.discard(key)
                del self._values[key]

    def _still_held(self, skipped: Outcome, held: str) -> bool:
        """Whether a file still has this type's value after another type's write."""
        resource = self._registry.get(skipped.update.type)
        content = skipped.content
        if resource.content.partial:
            try:
                content = resource.format(skipped.update.value, held)
            except (CgroupError, ConfigError):
                return False
        return same(resource.file, content, held)

    def drop(self, change: Change) -> None:
        """Drop all values of one file."""
        self._drop_in(self._keys.get(change.cgroup, set()), change.path)

    def drop_path(self, path: str) -> None:
        """Drop all values of one file, whose cgroup is not known."""
        for keys in self._keys.values():
            self._drop_in(keys, path)

    def _drop_in(self, keys: set[str], path: str) -> None:
        for key in [*keys]:
            if self._values[key].skipped.path == path:
                keys.discard(key)
                del self._values[key]

    def forget(self, cgroup: str) -> None:
        """Drop all values of a cgroup and of the cgroups below it."""
        below = f"{cgroup.rstrip('/')}/"
        gone = [name for name in self._keys if name == cgroup or name.startswith(below)]
        for name in gone:
            for key in self._keys.pop(name):
                del self._values[key]
