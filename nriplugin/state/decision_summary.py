"""A short form of a decision, which the inventory keeps while the container exists.

The engine's `Decision` holds everything that `explain` shows and needs about 2 KB. The
summary has only the reason of each file's value, and the settings that were refused or
had no effect. Reasons and texts that many containers share are stored once.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.engine.decision import Level

if TYPE_CHECKING:
    from nriplugin.engine.decision import Decision, Why


class DecisionSummary(NamedTuple):
    """The reasons of a container's values."""

    # The rule that matched the container; empty if none did.
    matched: str
    # The container's files, and for each of them the handler, its rule and the rule's
    # source, in the same order.
    files: tuple[str, ...]
    reasons: tuple[Why, ...]
    # One text for each setting that was refused or had no effect; refusals first.
    skipped: tuple[str, ...]
    # Those of `files` that only a direct write sets: the runtime does not know them.
    direct: tuple[str, ...] = ()
    # Whether a handler was on. If not, the decision only ended earlier values.
    handled: bool = True

    def why(self, file: str) -> Why | None:
        """Return the reason of a file's value; None if the summary lacks the file."""
        return self.reasons[self.files.index(file)] if file in self.files else None


def summarise(decision: Decision) -> DecisionSummary:
    """Return the summary of a decision; in shadow mode, of the one that is shown."""
    if decision.shadow is not None:
        decision = decision.shadow
    reasons = {file: decision.why(file) for file in decision.files}
    direct = []
    for write in decision.writes:
        if write.level is Level.CONTAINER:
            if write.file not in reasons:
                direct.append(intern(write.file))
            reasons[write.file] = write.why
    refused = [f"{one.handler}: {one.text}" for one in decision.refused]
    left = [f"{one.what}: {one.why}" for one in decision.left]
    return DecisionSummary(
        decision.settings.rule,
        tuple(reasons),
        tuple([_shared(why) for why in reasons.values()]),
        tuple([intern(text) for text in refused + left]),
        tuple(direct),
        bool(decision.settings.active),
    )


def with_earlier_reasons(
    summary: DecisionSummary | None, earlier: DecisionSummary | None
) -> DecisionSummary | None:
    """Return a summary that also has the reasons of files that only `earlier` has.

    For a decision that was about a few files, while the others stay as they are.
    """
    if summary is None or earlier is None:
        return summary or earlier
    kept = {
        file: why
        for file, why in zip(earlier.files, earlier.reasons, strict=True)
        if file not in summary.files
    }
    return summary._replace(
        files=(*kept, *summary.files),
        reasons=(*kept.values(), *summary.reasons),
        direct=tuple(
            dict.fromkeys((*(f for f in earlier.direct if f in kept), *summary.direct))
        ),
    )


@lru_cache(maxsize=1024)
def _shared(why: Why) -> Why:
    """Return one object for all equal reasons, so that the summaries share it."""
    return why  # `lru_cache` returns the object of the first call
