"""The jobs of the background thread: their order, their rate and their end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from support.harness import wait_until

from nriplugin.daemon.background import BackgroundThread

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


class Driven(BackgroundThread):
    """A BackgroundThread without a thread: the test sets the clock and runs jobs."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.done: list[str] = []
        super().__init__(self.clock)

    def _start(self) -> None:
        pass

    def job(self, name: str) -> Callable[[], None]:
        return lambda: self.done.append(name)

    def due(self) -> str:
        """Run the job that is due now, as the thread would; return its name."""
        self.done.clear()
        self._due()()
        return "".join(self.done)


def test_a_job_for_later_waits_for_its_time() -> None:
    """Jobs that are due run in the order of their times."""
    background = Driven()
    background.after(10, background.job("b"))
    background.after(5, background.job("a"))
    background.after(10, background.job("c"))
    assert background.due() == ""
    background.clock.now += 5
    assert [background.due(), background.due()] == ["a", ""]
    background.clock.now += 5
    assert [background.due(), background.due(), background.due()] == ["b", "c", ""]
    background.stop()


def test_a_job_for_later_is_done_by_the_thread(background: BackgroundThread) -> None:
    """The thread wakes for it without any other job."""
    done = threading.Event()
    background.after(0.01, done.set)
    assert done.wait(PATIENCE_S)


@pytest.fixture
def background() -> Iterator[BackgroundThread]:
    """A BackgroundThread, which starts its thread with the first job."""
    background = BackgroundThread()
    yield background
    background.stop()


def wait_for(background: BackgroundThread) -> None:
    """Wait until all jobs handed over so far are done."""
    done = threading.Event()
    background.soon(done.set)
    assert done.wait(PATIENCE_S)


def background_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "background"]


def test_jobs_are_done_in_their_order(background: BackgroundThread) -> None:
    """They run one at a time, on one thread that is not the caller's."""
    done: list[tuple[int, str]] = []
    for number in range(100):
        background.soon(
            lambda number=number: done.append(  # type: ignore[misc]
                (number, threading.current_thread().name)
            )
        )
    wait_for(background)
    assert done == [(number, "background") for number in range(100)]


def test_a_job_that_fails_is_logged_and_the_next_one_done(
    background: BackgroundThread, caplog: pytest.LogCaptureFixture
) -> None:
    """The failure does not end the thread."""
    background.soon(lambda: print(1 / 0))
    wait_for(background)
    assert "a background job failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_without_a_job_there_is_no_thread() -> None:
    """The first job starts the thread."""
    before = background_threads()
    background = BackgroundThread()
    background.paced((), 1)
    background.every(1, None, "repair")
    # One of an earlier test may end meanwhile.
    assert set(background_threads()) <= set(before)
    background.stop()


def test_the_end_comes_after_the_jobs_that_run_soon() -> None:
    """They store what requests have left to store; jobs for later are dropped."""
    background = BackgroundThread()
    begun, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def first() -> None:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        done.append("first")

    background.soon(first)
    for _ in range(3):
        background.soon(lambda: done.append("second"))
    background.paced([lambda: done.append("later")], 1000)
    background.after(0, lambda: done.append("after"))
    background.every(0.001, lambda: done.append("again"), "again")
    assert begun.wait(PATIENCE_S)
    ends: list[bool] = []
    stopping = threading.Thread(target=lambda: ends.append(background.stop(PATIENCE_S)))
    stopping.start()
    wait_until(lambda: background._stopping)
    go_on.set()
    stopping.join(PATIENCE_S)
    assert not stopping.is_alive()
    assert done == ["first", "second", "second", "second"]
    assert ends == [True]
    ended = background._thread
    background.soon(lambda: done.append("after"))
    assert background._thread is ended  # and no other is begun
    background.stop()


def test_the_end_does_not_wait_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    """A job that hangs is left alone after a while, and the log says so."""
    background = BackgroundThread()
    begun, go_on = threading.Event(), threading.Event()

    def hanging() -> None:
        begun.set()
        go_on.wait(PATIENCE_S)

    background.soon(hanging)
    background.soon(lambda: None)
    assert begun.wait(PATIENCE_S)
    assert not background.stop(limit_s=0.01)
    assert "a background job does not end" in caplog.text
    go_on.set()


def test_jobs_that_are_too_many_for_the_end_are_dropped_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No job begins when the time is over."""
    clock = Clock()
    background = BackgroundThread(clock)
    begun, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def slow() -> None:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        clock.now += PATIENCE_S + 1
        done.append("slow")

    background.soon(slow)
    background.soon(lambda: done.append("late"))
    assert begun.wait(PATIENCE_S)
    stopping = threading.Thread(target=background.stop, args=[PATIENCE_S])
    stopping.start()
    wait_until(lambda: background._stopping)
    go_on.set()
    stopping.join(PATIENCE_S)
    assert done == ["slow"]
    assert "1 background jobs were dropped" in caplog.text


def test_paced_jobs_come_one_by_one() -> None:
    """The rate is never exceeded, also after a delay."""
    background = Driven()
    background.soon = lambda job: None  # type: ignore[method-assign] # no thread here
    background.paced([background.job("a"), background.job("b"), background.job("c")], 2)
    assert background.due() == ""
    assert background._seconds_to_next() == 0.5
    background.clock.now += 0.5
    assert background.due() == "a"
    assert background.due() == ""
    background.clock.now += 10
    assert background.due() == "b"
    assert background.due() == ""  # what was missed is not made up for
    background.clock.now += 0.5
    assert background.due() == "c"
    assert background._seconds_to_next() is None


def test_new_paced_jobs_take_the_place_of_old_ones() -> None:
    """Jobs of a connection that has ended are not done."""
    background = Driven()
    background.soon = lambda job: None  # type: ignore[method-assign] # no thread here
    background.paced([background.job("old")] * 3, 1)
    background.paced([background.job("new")], 1)
    background.clock.now += 1
    assert background.due() == "new"
    background.paced([background.job("old")], 1)
    background.paced((), 1)
    background.clock.now += 1
    assert background.due() == ""


def test_a_periodic_job_runs_at_its_interval() -> None:
    """It runs until another job, or None, replaces it."""
    background = Driven()
    background.soon = lambda job: None  # type: ignore[method-assign] # no thread here
    background.every(30, background.job("repair"), "repair")
    background.clock.now += 29
    assert background.due() == ""
    for _ in range(3):
        background.clock.now += 30
        assert background.due() == "repair"
        assert background.due() == ""
    background.every(5, background.job("another"), "repair")
    background.clock.now += 5
    assert background.due() == "another"
    background.every(5, None, "repair")
    background.clock.now += 100
    assert background.due() == ""
    assert background._seconds_to_next() is None


def test_the_thread_waits_for_the_job_that_is_due_first() -> None:
    """Paced and periodic jobs count; an overdue job means no wait."""
    background = Driven()
    background.soon = lambda job: None  # type: ignore[method-assign] # no thread here
    background.every(10, background.job("again"), "repair")
    background.paced([background.job("later")] * 2, 1)
    assert background._seconds_to_next() == 1
    background.clock.now += 20
    assert background._seconds_to_next() == 0
    assert [background.due(), background.due(), background.due()] == [
        "later",
        "again",
        "",
    ]


def test_the_thread_runs_paced_and_periodic_jobs(background: BackgroundThread) -> None:
    """With a real clock, and with other jobs in between."""
    paced, repeated = threading.Semaphore(0), threading.Semaphore(0)
    background.paced([paced.release] * 3, 1000)
    background.every(0.001, repeated.release, "repair")
    for waited in (paced, repeated):
        for _ in range(3):
            assert waited.acquire(timeout=PATIENCE_S)
    wait_for(background)
