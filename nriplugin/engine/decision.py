"""What the engine answers: files for the door, writes for the executor, and why.

Collected while deciding, by the code that decides: what `explain` shows cannot differ
from what is sent.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.errors import RequestFails

if TYPE_CHECKING:
    from nriplugin.convert import Conversion
    from nriplugin.convert.result import Rule
    from nriplugin.engine.settings import Settings

RESOURCES = "resources"
# Not a handler: what an update has to say whoever is on.
UPDATES = "updates"

# How sure a value is.
EXACT = "exact"
STATED = "stated"  # by an annotation, which nobody checks
ESTIMATE = "estimate"


class Why(NamedTuple):
    """The handler that set a file, its rule, and where the rule's input came from."""

    handler: str
    rule: Rule
    source: str
    confidence: str = EXACT


class Level(StrEnum):
    """Whose cgroup a write is for."""

    CONTAINER = "container"
    POD = "pod"
    ANCESTORS = "ancestors"  # the pod's cgroup and all that are above it


class When(StrEnum):
    """Before the runtime acts, so before the answer, or when it is done."""

    BEFORE = "before"
    AFTER = "after"


class Write(NamedTuple):
    """A value that no door carries."""

    file: str
    value: str
    level: Level
    when: When
    # Whether the value is this container's part of a sum over its cgroup's containers.
    part: bool
    why: Why


class Left(NamedTuple):
    """A file or a wish that nothing came of, and why; no mistake of anybody's."""

    what: str
    why: str


class Reason(StrEnum):
    """Why something was refused: few and fixed, for a metric's label."""

    CONVERSION = "conversion"  # numbers that have no valid cgroup v2 value
    ANNOTATION = "annotation"  # a value that makes no sense, or an unknown key
    NOT_ALLOWED = "not-allowed"  # an annotation that the configuration does not allow
    CONFLICT = "conflict"  # valid on its own, but not beside the others
    ERROR = "error"  # a defect of ours


class Refusal(NamedTuple):
    """A mistake that was not passed on."""

    handler: str
    reason: Reason
    text: str


class HandlerFailed(RequestFails):
    """A handler whose failure policy is `fail` could not do its work."""

    def __init__(self, handler: str, text: str) -> None:
        super().__init__(f"{handler}: {text}")
        self.handler = handler


class Decision:
    """What is to be done for one container."""

    __slots__ = (
        "_reasons",
        "cleared",
        "conversion",
        "files",
        "left",
        "refused",
        "settings",
        "warnings",
        "writes",
    )

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # What leaves through the door, as `unified`.
        self.files: dict[str, str] = {}
        # Per file a `Why`, or the bare rule of a conversion, which is made one later.
        self._reasons: dict[str, Why | Rule] = {}
        self.writes: list[Write] = []
        # OCI fields to send as 0 ("not given") through the door: `cpu.shares`.
        self.cleared: tuple[str, ...] = ()
        self.left: list[Left] = []
        self.refused: list[Refusal] = []
        # What is done as asked, although it may hurt.
        self.warnings: list[str] = []
        self.conversion: Conversion | None = None

    def set(self, file: str, value: str, why: Why | Rule) -> None:
        """Send a file."""
        self.files[file] = value
        self._reasons[file] = why

    def unset(self, file: str) -> None:
        """Do not send a file after all."""
        del self.files[file]
        del self._reasons[file]

    def leave(self, what: str, why: str) -> None:
        """Say that nothing comes of something."""
        self.left.append(Left(what, why))

    def refuse(self, handler: str, reason: Reason, text: str) -> None:
        """Say that something is wrong and not passed on."""
        self.refused.append(Refusal(handler, reason, text))

    def expected(self) -> dict[str, str]:
        """Return what the container's files hold when all of this is done."""
        files = dict(self.files)
        for write in self.writes:
            if write.level is Level.CONTAINER:
                files[write.file] = write.value
        return files

    def why(self, file: str) -> Why:
        """Return why a file is sent."""
        reason = self._reasons[file]
        if isinstance(reason, Why):
            return reason
        return Why(RESOURCES, reason, "the container's resources")

    def refusals(self) -> Counter[tuple[str, str]]:
        """Return how many refusals there are by (handler, reason)."""
        return Counter((one.handler, one.reason.value) for one in self.refused)
