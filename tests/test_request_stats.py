from __future__ import annotations

from nriplugin.request_stats import BOUNDS_S, RequestStats


def test_requests_are_counted_by_operation_and_outcome() -> None:
    """A request is counted once, under its operation, its outcome and its time."""
    stats = RequestStats()
    stats.note("CreateContainer", 0.0001, failed=False)
    stats.note("CreateContainer", 5.0, failed=True)
    stats.note("UpdateContainer", 0.0, failed=False)
    created = stats.snapshot()["CreateContainer"]
    assert (created.ok, created.failed, created.count) == (1, 1, 2)
    assert created.seconds == 5.0001
    # 0.0001 s is in the bucket of that bound; 5 s is above all bounds.
    below = BOUNDS_S.index(0.0001)
    assert created.cumulative() == [0] * below + [1] * (len(BOUNDS_S) - below) + [2]


def test_a_quantile_is_the_bound_of_its_bucket() -> None:
    """The quantile names the bound that so many requests did not exceed."""
    stats = RequestStats()
    for seconds in (0.0002, 0.0002, 0.0002, 9.0):
        stats.note("x", seconds, failed=False)
    found = stats.operations["x"]
    assert found.quantile_s(0.5) == 0.00025
    assert found.quantile_s(0.99) == float("inf")
