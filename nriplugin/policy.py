"""What a failure of nriplugin means for the request that it was working on.

It is a module of its own, below all packages, because the configuration sets the policy
and every door follows it.
"""

from __future__ import annotations

from enum import StrEnum


class FailurePolicy(StrEnum):
    """What a handler's exception or lateness means for the request."""

    IGNORE = "ignore"  # an empty answer: the container starts as without nriplugin
    FAIL = "fail"  # an error status: the request fails, and kubelet tries again
