"""What our own failure means for a container: every door has to know."""

from __future__ import annotations

from enum import StrEnum


class FailurePolicy(StrEnum):
    """What a handler's exception or lateness means for the request."""

    IGNORE = "ignore"  # an empty answer: the container starts as if we were not there
    FAIL = "fail"  # an error status: the request fails, and kubelet tries again
