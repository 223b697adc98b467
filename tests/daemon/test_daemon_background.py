"""The keeper's jobs: their order, their pace, their end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from support.harness import wait_until

from nriplugin.daemon.background import Keeper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Far longer than anything here takes; only a failure waits for so long.
PATIENCE_S = 60.0


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Driven(Keeper):
    """A keeper without a thread: a test sets the clock, and does what is due."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.done: list[str] = []
        super().__init__(self.clock)

    def _start(self) -> None:
        pass

    def job(self, name: str) -> Callable[[], None]:
        return lambda: self.done.append(name)

    def due(self) -> str:
        """Run what is due now, as the thread would; return its name."""
        self.done.clear()
        self._due()()
        return "".join(self.done)


def test_a_job_for_later_waits_for_its_time() -> None:
    """Those that are due are done in the order of their times."""
    keeper = Driven()
    keeper.after(10, keeper.job("b"))
    keeper.after(5, keeper.job("a"))
    keeper.after(10, keeper.job("c"))
    assert keeper.due() == ""
    keeper.clock.now += 5
    assert [keeper.due(), keeper.due()] == ["a", ""]
    keeper.clock.now += 5
    assert [keeper.due(), keeper.due(), keeper.due()] == ["b", "c", ""]
    keeper.stop()


def test_a_job_for_later_is_done_by_the_thread(keeper: Keeper) -> None:
    """Without anything else that would wake it."""
    done = threading.Event()
    keeper.after(0.01, done.set)
    assert done.wait(PATIENCE_S)


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    """A keeper that has a thread as soon as it has a job."""
    keeper = Keeper()
    yield keeper
    keeper.stop()


def wait_for(keeper: Keeper) -> None:
    """Wait until all jobs so far are done."""
    done = threading.Event()
    keeper.soon(done.set)
    assert done.wait(PATIENCE_S)


def keepers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "keeper"]


def test_jobs_are_done_in_their_order(keeper: Keeper) -> None:
    """One at a time, on one thread that is not the caller's."""
    done: list[tuple[int, str]] = []
    for number in range(100):
        keeper.soon(
            lambda number=number: done.append(  # type: ignore[misc]
                (number, threading.current_thread().name)
            )
        )
    wait_for(keeper)
    assert done == [(number, "keeper") for number in range(100)]


def test_a_job_that_fails_is_logged_and_the_next_one_done(
    keeper: Keeper, caplog: pytest.LogCaptureFixture
) -> None:
    """One job's failure is its own."""
    keeper.soon(lambda: print(1 / 0))
    wait_for(keeper)
    assert "a job of the keeper failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_without_a_job_there_is_no_thread() -> None:
    """A plugin that only answers is a process with one thread less."""
    before = len(keepers())
    keeper = Keeper()
    keeper.paced((), 1)
    keeper.every(1, None)
    assert len(keepers()) == before
    keeper.stop()


def test_the_end_comes_after_the_job_under_way() -> None:
    """And before all others: a node that shuts down does not wait for them."""
    keeper = Keeper()
    begun, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def first() -> None:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        done.append("first")

    keeper.soon(first)
    for _ in range(3):
        keeper.soon(lambda: done.append("second"))
    keeper.paced([lambda: done.append("later")], 1000)
    assert begun.wait(PATIENCE_S)
    stopping = threading.Thread(target=keeper.stop)
    stopping.start()
    wait_until(lambda: keeper._stopping)
    go_on.set()
    stopping.join(PATIENCE_S)
    assert not stopping.is_alive()
    assert done == ["first"]
    ended = keeper._thread
    keeper.soon(lambda: done.append("after"))
    assert keeper._thread is ended  # and no other is begun
    keeper.stop()
    assert done == ["first"]


def test_paced_jobs_come_one_by_one() -> None:
    """So many per second, however late the keeper is."""
    keeper = Driven()
    keeper.soon = lambda job: None  # type: ignore[method-assign] # no thread here
    keeper.paced([keeper.job("a"), keeper.job("b"), keeper.job("c")], 2)
    assert keeper.due() == ""
    assert keeper._patience_s() == 0.5
    keeper.clock.now += 0.5
    assert keeper.due() == "a"
    assert keeper.due() == ""
    keeper.clock.now += 10
    assert keeper.due() == "b"
    assert keeper.due() == ""  # what was missed is not made up for
    keeper.clock.now += 0.5
    assert keeper.due() == "c"
    assert keeper._patience_s() is None


def test_new_paced_jobs_take_the_place_of_old_ones() -> None:
    """Those of a connection that is gone are not done."""
    keeper = Driven()
    keeper.soon = lambda job: None  # type: ignore[method-assign] # no thread here
    keeper.paced([keeper.job("old")] * 3, 1)
    keeper.paced([keeper.job("new")], 1)
    keeper.clock.now += 1
    assert keeper.due() == "new"
    keeper.paced([keeper.job("old")], 1)
    keeper.paced((), 1)
    keeper.clock.now += 1
    assert keeper.due() == ""


def test_a_job_is_done_again_and_again() -> None:
    """At its interval, until there is another, or none."""
    keeper = Driven()
    keeper.soon = lambda job: None  # type: ignore[method-assign] # no thread here
    keeper.every(30, keeper.job("repair"))
    keeper.clock.now += 29
    assert keeper.due() == ""
    for _ in range(3):
        keeper.clock.now += 30
        assert keeper.due() == "repair"
        assert keeper.due() == ""
    keeper.every(5, keeper.job("another"))
    keeper.clock.now += 5
    assert keeper.due() == "another"
    keeper.every(5, None)
    keeper.clock.now += 100
    assert keeper.due() == ""
    assert keeper._patience_s() is None


def test_what_is_due_first_is_waited_for() -> None:
    """Of what is paced and what is repeated; something overdue is not waited for."""
    keeper = Driven()
    keeper.soon = lambda job: None  # type: ignore[method-assign] # no thread here
    keeper.every(10, keeper.job("again"))
    keeper.paced([keeper.job("later")] * 2, 1)
    assert keeper._patience_s() == 1
    keeper.clock.now += 20
    assert keeper._patience_s() == 0
    assert [keeper.due(), keeper.due(), keeper.due()] == ["later", "again", ""]


def test_the_thread_does_what_is_due(keeper: Keeper) -> None:
    """Both kinds, with a real clock, while others come in between."""
    paced, repeated = threading.Semaphore(0), threading.Semaphore(0)
    keeper.paced([paced.release] * 3, 1000)
    keeper.every(0.001, repeated.release)
    for waited in (paced, repeated):
        for _ in range(3):
            assert waited.acquire(timeout=PATIENCE_S)
    wait_for(keeper)
