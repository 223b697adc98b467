"""Counts of requests and of the time that they took, for `status` and for metrics.

The request path adds to plain integers and takes no lock. A reader on another thread
may see one request more or less. The buckets of the histogram are cumulative only when
they are shown (`OperationStats.cumulative`); the request path adds to a single one.
"""

from __future__ import annotations

from bisect import bisect_left

# The upper bounds of the buckets. Most requests take less than a millisecond, and a
# runtime gives a plugin two seconds.
BOUNDS_S = (
    *(0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005),
    *(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0),
)


class OperationStats:
    """The requests of one operation, such as CreateContainer."""

    __slots__ = ("buckets", "failed", "ok", "seconds")

    def __init__(self) -> None:
        self.ok = 0
        self.failed = 0
        self.seconds = 0.0  # the sum over all requests
        # One more than there are bounds: the last one is for everything above.
        self.buckets = [0] * (len(BOUNDS_S) + 1)

    @property
    def count(self) -> int:
        """Return how many requests there were."""
        return sum(self.buckets)

    def cumulative(self) -> list[int]:
        """Return how many requests took at most each of `BOUNDS_S`, and all of them."""
        total, result = 0, []
        for number in self.buckets:
            total += number
            result.append(total)
        return result

    def quantile_s(self, share: float) -> float | None:
        """Return the bound below which this share of the requests was answered.

        It is None without requests, and infinite above the last bound.
        """
        counts = self.cumulative()
        if not counts[-1]:
            return None
        index = bisect_left(counts, share * counts[-1])
        return BOUNDS_S[index] if index < len(BOUNDS_S) else float("inf")


class RequestStats:
    """The requests of all operations, by the operation's name."""

    __slots__ = ("operations",)

    def __init__(self) -> None:
        self.operations: dict[str, OperationStats] = {}

    def note(self, operation: str, seconds: float, *, failed: bool) -> None:
        """Count a request. The caller has made sure that the name is a known one."""
        found = self.operations.get(operation)
        if found is None:
            found = self.operations.setdefault(operation, OperationStats())
        if failed:
            found.failed += 1
        else:
            found.ok += 1
        found.seconds += seconds
        found.buckets[bisect_left(BOUNDS_S, seconds)] += 1

    def snapshot(self) -> dict[str, OperationStats]:
        """Return the operations so far; another thread may go on counting in them."""
        return dict(self.operations)
