from __future__ import annotations

from nriplugin.state.connection import KEPT, ConnectionGap, RuntimeConnection


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_time_without_a_connection_is_a_gap() -> None:
    """Each Synchronize ends a gap that began with the end of the last connection."""
    clock = _Clock()
    connection = RuntimeConnection(clock)
    clock.now = 2.0
    connection.synchronized(missed=3)
    assert connection.since == 2.0
    clock.now = 10.0
    connection.ended("the runtime closed it")
    clock.now = 11.0
    connection.ended("no socket")  # a failed attempt does not begin another gap
    clock.now = 15.0
    connection.synchronized(missed=1)
    first, second = connection.gaps
    assert first == ConnectionGap(0.0, 2.0, "not connected yet", 3)
    assert second == ConnectionGap(10.0, 15.0, "no socket", 1)


def test_the_number_of_gaps_outlives_the_gaps() -> None:
    """Only the newest gaps are kept, but all are counted."""
    connection = RuntimeConnection()
    for _ in range(KEPT + 2):
        connection.ended("gone")
        connection.synchronized(0)
    assert len(connection.gaps) == KEPT
    assert connection.gap_count == KEPT + 2
