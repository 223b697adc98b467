"""A decision in few bytes, for as long as its container lives.

The engine's `Decision` holds everything that `explain` may ask about, some 2 KB. The
inventory keeps a summary for each container instead: why each file has its value, and
which wishes led to nothing. Texts that many containers share are stored once.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.engine.decision import Level

if TYPE_CHECKING:
    from nriplugin.engine.decision import Decision, Why


class DecisionSummary(NamedTuple):
    """Why a container has its values."""

    # The rule that matched the container; empty if none did.
    matched: str
    # The container's files, and for each of them the handler, its rule and the rule's
    # source, in the same order.
    files: tuple[str, ...]
    reasons: tuple[Why, ...]
    # What was refused or led to nothing, and why; refusals first.
    skipped: tuple[str, ...]

    def why(self, file: str) -> Why | None:
        """Return why a file has its value."""
        return self.reasons[self.files.index(file)] if file in self.files else None


def summarise(decision: Decision) -> DecisionSummary:
    """Return the summary of a decision."""
    whys = {file: decision.why(file) for file in decision.files}
    for write in decision.writes:
        if write.level is Level.CONTAINER:
            whys[write.file] = write.why
    refused = [f"{one.handler}: {one.text}" for one in decision.refused]
    left = [f"{one.what}: {one.why}" for one in decision.left]
    return DecisionSummary(
        decision.settings.rule,
        tuple(whys),
        tuple([_shared(why) for why in whys.values()]),
        tuple([intern(text) for text in refused + left]),
    )


@lru_cache(maxsize=1024)
def _shared(why: Why) -> Why:
    """Return the first of all equal reasons, so that summaries share it."""
    return why
