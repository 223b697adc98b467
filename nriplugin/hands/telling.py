"""Tells of writes that went wrong, for the doors that go on without them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nriplugin.cgroup.updates import Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nriplugin.cgroup.updates import Outcome

_log = logging.getLogger(__name__)


def tell(outcomes: Iterable[Outcome]) -> None:
    """Log what went wrong; a cgroup that is gone is nothing wrong."""
    for outcome in outcomes:
        if not outcome.ok and outcome.status is not Status.GONE:
            _log.warning(
                "%s: %s: %s: %s",
                *(outcome.path, outcome.content),
                *(outcome.status, outcome.reason or "refused"),
            )
