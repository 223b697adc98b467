from __future__ import annotations

from nriplugin.state.events import KEPT, EventKind, EventLog


def test_a_reader_gets_what_is_new_in_order() -> None:
    """`since` returns the events after a number, the oldest first."""
    log = EventLog(clock=lambda: 7.0)
    assert log.since(0) == ([], 0)
    assert log.last == 0
    log.note(EventKind.RELOADED, text="one")
    log.note(EventKind.REJECTED, text="two")
    events, lost = log.since(1)
    assert [(event.number, event.at, event.text) for event in events] == [
        (2, 7.0, "two")
    ]
    assert lost == 0
    assert log.last == 2


def test_a_slow_reader_is_told_how_many_it_lost() -> None:
    """The ring keeps the newest events, and a reader learns how many are gone."""
    log = EventLog()
    for _ in range(KEPT + 5):
        log.note(EventKind.RELOADED)
    events, lost = log.since(0)
    assert len(events) == KEPT
    assert lost == 5
    assert log.since(log.last) == ([], 0)
