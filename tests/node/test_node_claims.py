"""Direct writes: claims on sums, and several threads that write."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from node.writing import BURST, LOW, PAGE, kernel_with, part
from support.trees import POD, QOS

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.engine.decision import Level, When
from nriplugin.node.claims import CLAIM_LIFETIME_S, Claims
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
    """A clock that a test sets."""

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
def writer(kernel: Kernel, clock: Clock, tmp_path: Path) -> Iterator[DirectWriter]:
    """A DirectWriter that has raised the cgroups above a first container of 4 pages."""
    with Journal(str(tmp_path)) as journal:
        tree = kernel.tree
        writer = DirectWriter(tree, Executor(tree, journal=journal, refresh_s=0))
        writer.claims = Claims(clock)
        writer.carry_out([low(4)], When.BEFORE, POD, FIRST)
        kernel.files[f"{FIRST}/{LOW}"] = str(4 * PAGE)
        yield writer


def low(pages: int) -> Any:
    return part(LOW, pages * PAGE, Level.ANCESTORS)


def raised(kernel: Kernel) -> list[int]:
    """Return the protection of the cgroups above, in pages, from the top."""
    paths = (KUBEPODS, QOS, POD)
    return [int(kernel.files.get(f"{one}/{LOW}", "0")) // PAGE for one in paths]


def test_a_claim_outlives_the_removal_of_a_sibling(
    writer: DirectWriter, kernel: Kernel
) -> None:
    """The container has no cgroup, then one without a value, then its own value."""
    writer.prepare_creation([low(3)], POD, "c2", NAME)
    assert raised(kernel) == [7, 7, 7]
    kernel.remove(FIRST)
    writer.lower(POD)
    assert raised(kernel) == [3, 3, 3]
    kernel.add(MONITOR)
    kernel.add(SECOND)
    writer.lower(POD)
    assert raised(kernel) == [3, 3, 3]
    kernel.files[f"{SECOND}/{LOW}"] = str(3 * PAGE)
    writer.lower(POD)
    assert raised(kernel) == [3, 3, 3]  # and not counted twice
    writer.claims.end("c2")
    writer.lower(POD)
    assert raised(kernel) == [3, 3, 3]
    kernel.remove(SECOND)
    writer.lower(POD)
    assert raised(kernel) == [0, 0, 0]


def test_a_claim_of_a_refused_container_is_ended(
    writer: DirectWriter, kernel: Kernel
) -> None:
    """The sums are lowered again."""
    writer.prepare_creation([low(3)], POD, "c2", NAME)
    writer.claims.end("c2")
    writer.lower(POD)
    assert raised(kernel) == [4, 4, 4]


def test_a_claim_expires(writer: DirectWriter, kernel: Kernel, clock: Clock) -> None:
    """Its sums are lowered when the next container ends."""
    writer.prepare_creation([low(3)], POD, "c2", NAME)
    clock.now += CLAIM_LIFETIME_S
    writer.lower(f"{QOS}/podother")
    assert raised(kernel) == [4, 4, 4]


def test_claims_of_containers_that_do_not_exist_are_ended(
    writer: DirectWriter,
) -> None:
    """A new connection lists all containers that exist."""
    for key in ("c2", "c3"):
        writer.prepare_creation([low(3)], POD, key, "")
    assert writer.claims.end_all_but({"c3"}) == {POD}
    assert len(writer.claims.in_pod(POD, LOW)) == 1
    assert writer.claims.end_in(f"{QOS}/podother") == set()
    assert writer.claims.end_in(POD) == {POD}
    assert writer.claims.in_pod(POD, LOW) == []


def test_a_container_is_known_by_its_id_once_it_has_one(
    writer: DirectWriter, kernel: Kernel
) -> None:
    """Its cgroup is recognised by the ID, so its part is not counted twice."""
    writer.prepare_creation([low(3)], POD, "creation 1")
    kernel.add(SECOND)
    kernel.files[f"{SECOND}/{LOW}"] = str(3 * PAGE)
    writer.claims.rename("creation 1", NAME)
    writer.lower(POD)
    assert raised(kernel) == [7, 7, 7]


def test_an_update_before_the_start_replaces_the_claim(
    writer: DirectWriter, kernel: Kernel
) -> None:
    """The container was created and gets another limit before its start."""
    kernel.add(SECOND)
    writer.prepare_creation([low(3)], POD, "c2", NAME)
    writer.carry_out([low(5)], When.BEFORE, POD, SECOND)
    assert raised(kernel) == [9, 9, 9]


def test_two_containers_that_are_made_before_either_starts(kernel: Kernel) -> None:
    """Both parts are in the pod's burst."""
    kernel.remove(FIRST)
    kernel.files[f"{POD}/cpu.max"] = "200000 100000"
    writer = DirectWriter(kernel.tree, Executor(kernel.tree, refresh_s=0))
    writer.prepare_creation([part(BURST, 30000)], POD, "c1", "a" * 64)
    writer.prepare_creation([part(BURST, 50000)], POD, "c2", NAME)
    assert kernel.files[f"{POD}/{BURST}"] == "80000"


def test_a_sum_is_written_before_another_thread_reads_it(
    writer: DirectWriter, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads raise the same pod, and no part is lost."""
    executor = writer._executor
    write: Callable[..., Any] = executor.update_batch
    other = threading.Thread(
        target=writer.prepare_creation, args=([low(3)], POD, "c3", "")
    )

    def slow(*args: Any, **given: Any) -> Any:
        monkeypatch.setattr(executor, "update_batch", write)
        other.start()
        other.join(0.2)  # it must not get there, however long it has
        return write(*args, **given)

    monkeypatch.setattr(executor, "update_batch", slow)
    writer.prepare_creation([low(2)], POD, "c2", "")
    other.join()
    assert raised(kernel) == [9, 9, 9]


def test_lowering_does_not_undo_a_claim_that_is_made_meanwhile(
    writer: DirectWriter, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The background thread lowers while a request raises."""
    executor = writer._executor
    write: Callable[..., Any] = executor.update_batch
    other = threading.Thread(
        target=writer.prepare_creation, args=([low(3)], POD, "c2", NAME)
    )

    def slow(*args: Any, **given: Any) -> Any:
        monkeypatch.setattr(executor, "update_batch", write)
        other.start()
        other.join(0.2)
        return write(*args, **given)

    kernel.remove(FIRST)
    monkeypatch.setattr(executor, "update_batch", slow)
    writer.lower(POD)
    other.join()
    assert raised(kernel) == [3, 3, 3]
