"""What can go wrong when PodGroup objects are read; a bounded set, for a metric."""

from __future__ import annotations

from enum import StrEnum


class FailureReason(StrEnum):
    """Why a source, or one object of it, could not be read."""

    UNREADABLE = "unreadable"  # the file, the kubeconfig or the service account
    UNREACHABLE = "unreachable"  # no connection, or no answer in time
    TLS = "tls"
    REFUSED = "refused"  # HTTP 401 and 403
    NOT_THERE = "not there"  # HTTP 404: the cluster has no such objects
    GONE = "gone"  # HTTP 410: the list has to be read again
    ERROR = "error"  # another HTTP status
    MALFORMED = "malformed"  # an answer or an object
    TOO_LARGE = "too large"  # an answer or an object
    TOO_MANY = "too many"  # objects


class ReadFailed(Exception):
    """A source could not be read."""

    def __init__(self, reason: FailureReason, text: str) -> None:
        """Take the reason, and one sentence for people."""
        super().__init__(text)
        self.reason = reason
