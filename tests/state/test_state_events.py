from __future__ import annotations

from threading import Event, Thread
from time import sleep

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


def test_a_number_is_seen_only_with_all_lower_ones() -> None:
    """A thread that is held up between number and ring is waited for."""
    log = EventLog()
    seen: list[int] = []
    skipped = []
    done = Event()

    def read() -> None:
        last = 0
        while not done.is_set() or last < log.last:
            events, lost = log.since(last)
            for event in events:
                if event.number != last + 1 + lost:
                    skipped.append(event.number)
                last, lost = event.number, 0
                seen.append(last)

    # The thread is held up exactly there, while another one notes an event and a reader
    # looks.
    class SlowNumbers:
        def __init__(self) -> None:
            self._next = 0

        def __next__(self) -> int:
            self._next += 1
            mine = self._next
            if mine == 1:
                sleep(0.5)
            return mine

    log._numbers = SlowNumbers()  # type: ignore[assignment]
    reader = Thread(target=read)
    writers = [Thread(target=log.note, args=(EventKind.RELOADED,)) for _ in range(2)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert seen == [1, 2]
    assert not skipped
