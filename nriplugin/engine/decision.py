"""What the engine answers: files for the door, writes of nriplugin's own, and why.

The reasons are recorded by the code that decides, while it decides. So `explain`, which
shows them, cannot differ from the values that are sent.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.errors import RequestFails

if TYPE_CHECKING:
    from nriplugin.convert import Conversion
    from nriplugin.convert.result import Rule
    from nriplugin.engine.settings import Settings

RESOURCES = "resources"
# Named as the handler of values that every update needs, whichever handlers are on.
UPDATES = "updates"

# How certain the number is that a value was made of.
EXACT = "exact"
STATED = "stated"  # by an annotation, which cannot be checked
ESTIMATE = "estimate"


class Why(NamedTuple):
    """The handler that set a file, its rule, and where the rule's input came from."""

    handler: str
    rule: Rule
    source: str
    confidence: str = EXACT


class Level(StrEnum):
    """The cgroup that a write is for."""

    CONTAINER = "container"
    POD = "pod"
    ANCESTORS = "ancestors"  # the pod's cgroup and every cgroup above it


class When(StrEnum):
    """When a write has to be done."""

    BEFORE = "before"  # before the answer, so before the runtime acts
    AFTER = "after"  # when the runtime has acted


class Write(NamedTuple):
    """A value that nriplugin writes to a cgroup itself, as no door carries it."""

    file: str
    value: str
    level: Level
    when: When
    # Whether the cgroup gets the sum of such values of all its containers.
    part: bool
    why: Why


class Left(NamedTuple):
    """A file or a setting that has no effect on this container, and why.

    It is not a mistake: a mistake is a `Refusal`.
    """

    what: str
    why: str


class Reason(StrEnum):
    """Why something was refused; a small fixed set, as it labels a metric."""

    CONVERSION = "conversion"  # numbers that have no valid cgroup v2 value
    ANNOTATION = "annotation"  # an invalid value, or an unknown key
    NOT_ALLOWED = "not-allowed"  # an annotation that the configuration does not allow
    CONFLICT = "conflict"  # a value that is valid alone, but not beside the others
    ERROR = "error"  # a defect of nriplugin


class Refusal(NamedTuple):
    """A mistake in numbers or annotations, whose value is not sent."""

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
        "idle",
        "left",
        "refused",
        "settings",
        "shadow",
        "warnings",
        "writes",
    )

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # The files that leave through the door, as `unified`.
        self.files: dict[str, str] = {}
        # Per file a `Why`, or only the rule of a conversion: `why` makes a `Why` of it
        # when it is asked for, which is rarely.
        self._reasons: dict[str, Why | Rule] = {}
        self.writes: list[Write] = []
        # OCI fields that the door sends as 0, which means "not given": `cpu.shares`.
        self.cleared: tuple[str, ...] = ()
        self.left: list[Left] = []
        self.refused: list[Refusal] = []
        # What is done as asked, although it may do harm.
        self.warnings: list[str] = []
        self.conversion: Conversion | None = None
        # Whether the container is idle once this is done: then it must get no weight.
        self.idle = False
        # In shadow mode: the decision that is only shown. This one is carried out in
        # its place (see shadow.py).
        self.shadow: Decision | None = None

    def set(self, file: str, value: str, why: Why | Rule) -> None:
        """Send a file."""
        self.files[file] = value
        self._reasons[file] = why

    def unset(self, file: str) -> None:
        """Withdraw a file that was to be sent."""
        del self.files[file]
        del self._reasons[file]

    def leave(self, what: str, why: str) -> None:
        """Note that a file or a setting has no effect, and why."""
        self.left.append(Left(what, why))

    def refuse(self, handler: str, reason: Reason, text: str) -> None:
        """Note a mistake whose value is not sent."""
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
