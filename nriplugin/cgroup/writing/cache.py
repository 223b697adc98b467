"""What was written, as long as it is taken for granted."""

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


class _Known(NamedTuple):
    """What a file was given, until when that counts, and what to say until then."""

    value: str | int
    expires: float
    skipped: Outcome


class Cache:
    """The values that were written, or seen in a file, not longer ago than allowed."""

    def __init__(
        self, registry: Registry, refresh_s: float, clock: Callable[[], float]
    ) -> None:
        self._registry = registry
        self._refresh_s = refresh_s
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._keys: dict[str, set[str]] = {}  # cgroup -> its keys in _known

    def __len__(self) -> int:
        return len(self._known) + len(self._keys)

    def look_up(
        self, latest: dict[str, Update], cacheable: bool
    ) -> tuple[dict[str, Outcome], list[Update]]:
        """Return the outcomes of what is known to be there, and the rest."""
        if not cacheable:
            return {}, list(latest.values())
        now, known = self._clock(), self._known
        outcomes: dict[str, Outcome] = {}
        rest: list[Update] = []
        for key, update in latest.items():
            entry = known.get(key)
            if (
                entry is not None
                and entry.value == update.value
                and now < entry.expires
            ):
                outcomes[key] = entry.skipped
            else:
                rest.append(update)
        return outcomes, rest

    def remember(self, change: Change, there: str) -> None:
        """Note that a file was given what it is to hold, and what it shows since."""
        if not change.updates or self._refresh_s <= 0:
            return
        expires = self._clock() + self._refresh_s
        keys = self._keys.setdefault(change.cgroup, set())
        for update in change.updates:
            skipped = Outcome(
                update,
                Status.SKIPPED,
                change.path,
                change.content,
                reason="written before",
            )
            self._known[update.key] = _Known(update.value, expires, skipped)
            keys.add(update.key)
        if len(keys) > len(change.updates):
            self._recheck(change, there, keys)

    def _recheck(self, change: Change, there: str, keys: set[str]) -> None:
        """Drop what a write of one type has changed of others in the same cgroup."""
        spoilt = SIDE_EFFECTS.get(change.resource.file, ())
        for key in [*keys]:
            skipped = self._known[key].skipped
            if skipped.path == change.path:
                valid = self._still_there(skipped, there)
            else:
                valid = skipped.path.rpartition("/")[2] not in spoilt
            if not valid:
                keys.discard(key)
                del self._known[key]

    def _still_there(self, skipped: Outcome, there: str) -> bool:
        """Whether a file that another type was written to has its own value still."""
        resource = self._registry.get(skipped.update.type)
        content = skipped.content
        if resource.content.partial:
            try:
                content = resource.format(skipped.update.value, there)
            except (CgroupError, ConfigError):
                return False
        return same(resource.file, content, there)

    def drop(self, change: Change) -> None:
        """Take nothing of a file for granted."""
        keys = self._keys.get(change.cgroup, set())
        for key in [*keys]:
            if self._known[key].skipped.path == change.path:
                keys.discard(key)
                del self._known[key]

    def forget(self, cgroup: str) -> None:
        """Drop everything of a cgroup, and of all below it."""
        below = f"{cgroup.rstrip('/')}/"
        gone = [name for name in self._keys if name == cgroup or name.startswith(below)]
        for name in gone:
            for key in self._keys.pop(name):
                del self._known[key]
