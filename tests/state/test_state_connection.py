from __future__ import annotations

from nriplugin.state.connection import (
    KEPT,
    ConnectionGap,
    EarlierProcess,
    RuntimeConnection,
)


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_time_without_a_connection_is_a_gap() -> None:
    """Each Synchronize ends a gap that began with the end of the last connection."""
    clock = _Clock()
    connection = RuntimeConnection(clock, clock)
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


def test_a_clock_that_is_set_during_a_gap_does_not_change_its_length() -> None:
    """A gap ends at the time that the clock shows, and is as long as it was."""
    for day in (86400.0, -86400.0):
        wall, steady = _Clock(), _Clock()
        wall.now = 1_000_000.0
        connection = RuntimeConnection(wall, steady)
        wall.now, steady.now = 1_000_003.0 + day, 3.0
        connection.synchronized(0)
        assert connection.gaps[0][:2] == (1_000_000.0 + day, 1_000_003.0 + day)


def test_the_first_gap_begins_with_the_end_of_the_earlier_process() -> None:
    """Only the first gap does, and it says how that process ended."""
    clock = _Clock()
    clock.now = 100.0
    connection = RuntimeConnection(clock, clock)
    connection.earlier = EarlierProcess(40.0, "killed")
    clock.now = 102.0
    connection.synchronized(1)
    connection.ended("gone")
    connection.synchronized(0)
    first, second = connection.gaps
    assert first == ConnectionGap(40.0, 102.0, "killed", 1)
    assert second == ConnectionGap(102.0, 102.0, "gone", 0)


def test_a_time_in_the_future_does_not_shorten_the_first_gap() -> None:
    """The first gap has at least the time since the start of this process."""
    clock = _Clock()
    connection = RuntimeConnection(clock, clock)
    connection.earlier = EarlierProcess(500.0, "killed")
    clock.now = 2.0
    connection.synchronized(0)
    assert connection.gaps[0][:2] == (0.0, 2.0)
