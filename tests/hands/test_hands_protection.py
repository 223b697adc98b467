"""Hands: protection that counts for less than it says, and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hands.writing import LOW, PAGE, kernel_with, part
from support.trees import CONTAINER, POD, QOS

from nriplugin.cgroup.executor import Executor
from nriplugin.cgroup.journal import Journal
from nriplugin.engine.decision import Level
from nriplugin.hands.hands import Hands
from nriplugin.hands.protection import without_effect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cgroup.kernels import Kernel

KUBEPODS = "/kubepods"
SIDECAR = f"{POD}/{'a' * 64}"
ALL = (KUBEPODS, QOS, POD, CONTAINER, SIDECAR)


def low(**pages: int | str) -> dict[str, str]:
    """Return memory.low of some cgroups, by name, in pages."""
    names = {"kubepods": KUBEPODS, "qos": QOS, "pod": POD, "sidecar": SIDECAR}
    return {
        f"{names[name]}/{LOW}": n if isinstance(n, str) else str(n * PAGE)
        for name, n in pages.items()
    }


@pytest.mark.parametrize(
    ("held", "counts", "lacking"),
    [
        # Nobody above has any: the one at the top is named.
        ({}, 0, f"{KUBEPODS} has 0, expected {4 * PAGE}"),
        ({"kubepods": 4, "qos": 4}, 0, f"{POD} has 0, expected {4 * PAGE}"),
        ({"kubepods": 4, "qos": 4, "pod": 4}, None, ""),
        ({"kubepods": "max", "qos": "max", "pod": "max"}, None, ""),
        ({"kubepods": "max", "qos": "max", "pod": 1}, 1, f"{POD} has {PAGE}, "),
        # Siblings share what there is.
        (
            {"kubepods": 9, "qos": 9, "pod": 4, "sidecar": 4},
            2,
            f"{POD} has {4 * PAGE}, expected {8 * PAGE}",
        ),
    ],
)
def test_protection_without_effect_is_put_into_words(
    held: dict[str, int | str], counts: int | None, lacking: str
) -> None:
    """With the cgroup that has too little, and how much it takes."""
    kernel = kernel_with(*ALL, files=low(**held).items())
    found = without_effect(kernel.tree, POD, None, {LOW: str(4 * PAGE)})
    if counts is None:
        assert found == []
        return
    (text,) = found
    assert text.startswith(f"{LOW} {4 * PAGE}: counts for {counts * PAGE} bytes: ")
    assert lacking in text


@pytest.mark.parametrize("files", [{}, {LOW: "0"}, {LOW: "max"}, {"memory.high": "1"}])
def test_what_protects_nothing_needs_nothing(files: dict[str, str]) -> None:
    """Whatever is above."""
    assert without_effect(kernel_with(*ALL).tree, POD, None, files) == []


@pytest.fixture
def kernel() -> Kernel:
    return kernel_with(*ALL, files=low(kubepods=2).items())


@pytest.fixture
def hands(kernel: Kernel, tmp_path: Path) -> Iterator[Hands]:
    """Hands that have raised all above two containers, of 4 and of 3 pages."""
    with Journal(str(tmp_path)) as journal:
        tree = kernel.tree
        hands = Hands(tree, Executor(tree, journal=journal, refresh_s=0))
        for container, pages in ((CONTAINER, 4), (SIDECAR, 3)):
            wanted = part(LOW, pages * PAGE, Level.ANCESTORS)
            hands.carry_out([wanted], POD, container)
            kernel.files[f"{container}/{LOW}"] = str(pages * PAGE)
        assert held_by(kernel) == [7, 7, 7]
        kernel.writes.clear()
        yield hands


def held_by(kernel: Kernel) -> list[int]:
    """Return the pages of all above, from the top."""
    return [int(kernel.files[f"{one}/{LOW}"]) // PAGE for one in (KUBEPODS, QOS, POD)]


def test_what_was_raised_is_lowered_from_the_bottom(
    hands: Hands, kernel: Kernel
) -> None:
    """As far as the others need it, and in the end to what there was before us."""
    kernel.remove(CONTAINER)
    hands.lower(POD)
    assert held_by(kernel) == [3, 3, 3]
    assert [path.rpartition("/")[0] for path, _ in kernel.writes] == [
        POD,
        QOS,
        KUBEPODS,
    ]
    kernel.remove(SIDECAR)
    hands.lower(POD)
    assert held_by(kernel) == [2, 0, 0]


def test_what_somebody_else_set_since_is_theirs(hands: Hands, kernel: Kernel) -> None:
    """kubelet has an opinion of its own about these."""
    kernel.files[f"{QOS}/{LOW}"] = str(50 * PAGE)
    kernel.remove(CONTAINER)
    hands.lower(POD)
    assert held_by(kernel) == [7, 50, 3]


def test_without_a_journal_nothing_is_lowered(kernel: Kernel) -> None:
    """Nobody knows what there was before."""
    kernel.files.update(low(kubepods=9, qos=9, pod=9))
    tree = kernel.tree
    assert Hands(tree, Executor(tree, refresh_s=0)).lower(POD) == []
    assert held_by(kernel) == [9, 9, 9]


@pytest.mark.parametrize("cgroup", ["/", KUBEPODS, QOS, CONTAINER, "/system.slice"])
def test_only_from_a_pod_upwards(hands: Hands, kernel: Kernel, cgroup: str) -> None:
    """Anything else is a mistake, and nothing is written for it."""
    kernel.remove(CONTAINER)
    assert hands.lower(cgroup) == []


def test_cgroups_that_went_unseen_are_swept(hands: Hands, kernel: Kernel) -> None:
    """The journal would keep them until the next boot."""
    for one in (CONTAINER, SIDECAR, POD):
        kernel.remove(one)
    hands.sweep()
    executor = hands._executor
    assert executor.original(f"{POD}/{LOW}", str(7 * PAGE)) is None
    assert executor.original(f"{QOS}/{LOW}", str(7 * PAGE)) == "0"
