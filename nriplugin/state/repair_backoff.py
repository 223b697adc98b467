"""When a file that has drifted may be written again, so that nobody fights in a loop.

Another program may write its own value again and again. So the first repair of a file
is done at once, and each further one only after a longer wait. When all attempts are
used, repair gives up on the file until there is a new decision about the container,
which an update or a correction leads to: values may have been written on that occasion
that nobody else insists on. A file that has kept the value for an hour after its last
repair counts as new.

The background thread alone calls this. Times are seconds of a monotonic clock.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

# How long each attempt waits after the one before it.
WAITS_S = (0.0, 60.0, 300.0, 1800.0, 1800.0)
# After this time with the right value, earlier attempts are forgotten.
CALM_S = 3600.0


class Way(Enum):
    """Who was asked to write a file."""

    RUNTIME = "runtime"
    DIRECT = "direct"  # nriplugin itself, on the thread that writes


class Attempt(NamedTuple):
    """An attempt whose result is not known yet."""

    way: Way
    held: str  # what the file held before


class Attempts:
    """The attempts to give one file of one container its value."""

    __slots__ = ("at", "count", "gave_up", "last", "wanted")

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted
        self.count = 0
        self.at = 0.0  # the time of the last attempt
        # The last attempt, until its result is known.
        self.last: Attempt | None = None
        self.gave_up = False


class RepairBackoff:
    """The attempts of all containers."""

    def __init__(self) -> None:
        self._attempts: dict[str, dict[str, Attempts]] = {}
        # When the decision was made that the attempts of a container belong to.
        self._decided_at: dict[str, float] = {}

    def begin(self, container_id: str, decided_at: float) -> None:
        """Count attempts from zero if the container has another decision than before.

        To be called before the other methods, with the moment of the decision.
        """
        if self._decided_at.get(container_id) == decided_at:
            return
        self._decided_at[container_id] = decided_at
        for attempts in self._attempts.get(container_id, {}).values():
            attempts.count, attempts.gave_up = 0, False

    def due(self, container_id: str, files: Mapping[str, str], now: float) -> list[str]:
        """Return the files, of those that have drifted, that may be written now."""
        return [
            file
            for file, wanted in files.items()
            if self._is_due(self._of(container_id, file, wanted), now)
        ]

    def gives_up(self, container_id: str, files: Mapping[str, str]) -> list[str]:
        """Return the files that are given up from now on; each is returned once.

        To be asked before `tried`, about files that have drifted since their last
        attempt: the last attempt, too, may have put a file right.
        """
        given_up = []
        for file, wanted in files.items():
            attempts = self._of(container_id, file, wanted)
            if attempts.count >= len(WAITS_S) and not attempts.gave_up:
                attempts.gave_up = True
                given_up.append(file)
        return given_up

    def gave_up(self, container_id: str, file: str) -> bool:
        """Whether a file was given up and still is; any thread may ask."""
        attempts = self._attempts.get(container_id, {}).get(file)
        return attempts is not None and attempts.gave_up

    def tried(
        self,
        container_id: str,
        files: Mapping[str, str],
        now: float,
        attempt: Mapping[str, Attempt],
        *,
        further: bool = True,
    ) -> None:
        """Note an attempt for each file; not `further` if it goes on with the last."""
        for file, wanted in files.items():
            attempts = self._of(container_id, file, wanted)
            attempts.last = attempt[file]
            if further:
                attempts.count += 1
                attempts.at = now

    def not_tried(self, container_id: str) -> None:
        """Take back the direct attempts whose result is not known."""
        for attempts in self._attempts.get(container_id, {}).values():
            if attempts.last is not None and attempts.last.way is Way.DIRECT:
                attempts.count = max(0, attempts.count - 1)

    def take_open(self, container_id: str, files: Iterable[str]) -> dict[str, Attempt]:
        """Return the attempts whose result was not known; each is returned once.

        The caller has compared the files meanwhile, and knows what became of them.
        """
        taken = {}
        of_container = self._attempts.get(container_id, {})
        for file in files:
            attempts = of_container.get(file)
            if attempts is not None and attempts.last is not None:
                taken[file], attempts.last = attempts.last, None
        return taken

    def held(self, container_id: str, files: Container[str], now: float) -> None:
        """Forget attempts that are long ago; `files` have drifted, all others hold."""
        of_container = self._attempts.get(container_id)
        if of_container is None:
            return
        for file, attempts in list(of_container.items()):
            if file not in files and now - attempts.at >= CALM_S:
                del of_container[file]
        if not of_container:
            del self._attempts[container_id]
            self._decided_at.pop(container_id, None)

    def keep_only(self, container_ids: Container[str]) -> None:
        """Forget containers that have ended."""
        for one in [one for one in self._attempts if one not in container_ids]:
            del self._attempts[one]
            self._decided_at.pop(one, None)

    def _of(self, container_id: str, file: str, wanted: str) -> Attempts:
        of_container = self._attempts.setdefault(container_id, {})
        attempts = of_container.get(file)
        if attempts is None or attempts.wanted != wanted:
            attempts = of_container[file] = Attempts(wanted)
        return attempts

    def _is_due(self, attempts: Attempts, now: float) -> bool:
        if attempts.count == 0:
            return True
        if attempts.count >= len(WAITS_S):
            return False
        return now - attempts.at >= WAITS_S[attempts.count]
