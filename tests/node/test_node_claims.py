"""Direct writes: parts of sums that no cgroup shows yet, and concurrent writers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from node.writing import BURST, LOW, PAGE, kernel_with, part
from support.trees import POD, QOS

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.engine.decision import Level
from nriplugin.node.claims import PATIENCE_S, Promises
from nriplugin.node.direct_writes import DirectWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    from cgroup.kernels import Kernel

KUBEPODS = "/kubepods"
FIRST, SECOND = f"{POD}/{'a' * 64}", f"{POD}/crio-{'b' * 64}.scope"
MONITOR = f"{POD}/crio-conmon-{'b' * 64}.scope"
NAME = "b" * 64


class Clock:
    """A time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def kernel() -> Kernel:
    return kernel_with(KUBEPODS, QOS, POD, FIRST)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def hands(kernel: Kernel, clock: Clock, tmp_path: Path) -> Iterator[DirectWriter]:
    """A DirectWriter that has raised all above a first container of 4 pages."""
    with Journal(str(tmp_path)) as journal:
        tree = kernel.tree
        hands = DirectWriter(tree, Executor(tree, journal=journal, refresh_s=0))
        hands.promises = Promises(clock)
        hands.carry_out([low(4)], POD, FIRST)
        kernel.files[f"{FIRST}/{LOW}"] = str(4 * PAGE)
        yield hands


def low(pages: int) -> Any:
    return part(LOW, pages * PAGE, Level.ANCESTORS)


def raised(kernel: Kernel) -> list[int]:
    """Return the pages of all above, from the top."""
    paths = (KUBEPODS, QOS, POD)
    return [int(kernel.files.get(f"{one}/{LOW}", "0")) // PAGE for one in paths]


def test_a_promise_outlives_the_removal_of_a_sibling(
    hands: DirectWriter, kernel: Kernel
) -> None:
    """The new container has no cgroup yet, then one without a value, then its own."""
    hands.prepare([low(3)], POD, "c2", NAME)
    assert raised(kernel) == [7, 7, 7]
    kernel.remove(FIRST)
    hands.lower(POD)
    assert raised(kernel) == [3, 3, 3]
    kernel.add(MONITOR)
    kernel.add(SECOND)
    hands.lower(POD)
    assert raised(kernel) == [3, 3, 3]
    kernel.files[f"{SECOND}/{LOW}"] = str(3 * PAGE)
    hands.lower(POD)
    assert raised(kernel) == [3, 3, 3]  # and not counted twice
    hands.promises.end("c2")
    hands.lower(POD)
    assert raised(kernel) == [3, 3, 3]
    kernel.remove(SECOND)
    hands.lower(POD)
    assert raised(kernel) == [0, 0, 0]


def test_a_promise_that_is_not_kept_is_taken_back(
    hands: DirectWriter, kernel: Kernel
) -> None:
    """The runtime has refused the container, and says so."""
    hands.prepare([low(3)], POD, "c2", NAME)
    hands.promises.end("c2")
    hands.lower(POD)
    assert raised(kernel) == [4, 4, 4]


def test_a_promise_of_which_nothing_is_heard_ends_by_itself(
    hands: DirectWriter, kernel: Kernel, clock: Clock
) -> None:
    """And what was raised for it is taken back with the next container that goes."""
    hands.prepare([low(3)], POD, "c2", NAME)
    clock.now += PATIENCE_S
    hands.lower(f"{QOS}/podother")
    assert raised(kernel) == [4, 4, 4]


def test_containers_that_do_not_exist_were_promised_nothing(
    hands: DirectWriter,
) -> None:
    """A new connection tells all containers that there are."""
    for key in ("c2", "c3"):
        hands.prepare([low(3)], POD, key, "")
    assert hands.promises.end_all_but({"c3"}) == {POD}
    assert len(hands.promises.made_in(POD, LOW)) == 1
    assert hands.promises.end_in(f"{QOS}/podother") == set()
    assert hands.promises.end_in(POD) == {POD}
    assert hands.promises.made_in(POD, LOW) == []


def test_a_container_is_known_by_its_id_once_it_has_one(
    hands: DirectWriter, kernel: Kernel
) -> None:
    """Its cgroup is then recognised by it, and its part is not counted twice."""
    hands.prepare([low(3)], POD, "creation 1")
    kernel.add(SECOND)
    kernel.files[f"{SECOND}/{LOW}"] = str(3 * PAGE)
    hands.promises.rename("creation 1", NAME)
    hands.lower(POD)
    assert raised(kernel) == [7, 7, 7]


def test_an_update_of_a_container_replaces_its_promise(
    hands: DirectWriter, kernel: Kernel
) -> None:
    """It is created, not started, and gets another limit."""
    kernel.add(SECOND)
    hands.prepare([low(3)], POD, "c2", NAME)
    hands.carry_out([low(5)], POD, SECOND)
    assert raised(kernel) == [9, 9, 9]


def test_two_containers_that_are_made_before_either_starts(kernel: Kernel) -> None:
    """Both parts are in the pod's burst."""
    kernel.remove(FIRST)
    kernel.files[f"{POD}/cpu.max"] = "200000 100000"
    hands = DirectWriter(kernel.tree, Executor(kernel.tree, refresh_s=0))
    hands.prepare([part(BURST, 30000)], POD, "c1", "a" * 64)
    hands.prepare([part(BURST, 50000)], POD, "c2", NAME)
    assert kernel.files[f"{POD}/{BURST}"] == "80000"


def test_a_sum_is_written_before_another_thread_reads_it(
    hands: DirectWriter, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads raise the same pod, and no part is lost."""
    executor = hands._executor
    write: Callable[..., Any] = executor.update_batch
    other = threading.Thread(target=hands.prepare, args=([low(3)], POD, "c3", ""))

    def slow(*args: Any) -> Any:
        monkeypatch.setattr(executor, "update_batch", write)
        other.start()
        other.join(0.2)  # it must not get there, however long it has
        return write(*args)

    monkeypatch.setattr(executor, "update_batch", slow)
    hands.prepare([low(2)], POD, "c2", "")
    other.join()
    assert raised(kernel) == [9, 9, 9]


def test_what_is_lowered_does_not_undo_what_is_promised_meanwhile(
    hands: DirectWriter, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keeper lowers while a request raises."""
    executor = hands._executor
    write: Callable[..., Any] = executor.update_batch
    other = threading.Thread(target=hands.prepare, args=([low(3)], POD, "c2", NAME))

    def slow(*args: Any) -> Any:
        monkeypatch.setattr(executor, "update_batch", write)
        other.start()
        other.join(0.2)
        return write(*args)

    kernel.remove(FIRST)
    monkeypatch.setattr(executor, "update_batch", slow)
    hands.lower(POD)
    other.join()
    assert raised(kernel) == [3, 3, 3]
