"""How the tests on nodes wait for what another process of the node brings about."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

# Far longer than anything takes on an emulated node of a busy machine; only a failure
# waits for it.
PATIENCE_S = 300
POLL_S = 0.5


def keep_looking(
    look: Callable[[], T],
    good: Callable[[T], object],
    patience_s: float = PATIENCE_S,
) -> T:
    """Return what is seen as soon as it is good, or as it stays."""
    deadline = time.monotonic() + patience_s
    while not good(seen := look()) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return seen
