"""Weights that changed because `cpu.idle` did: whose they are, and what they become."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cgroup.kernels import Kernel
from support.trees import POD

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.journal.restore import Action, restore
from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.updates import Update

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IDLE = Update(Type.CPU_IDLE, POD, 1)


class Cleared:
    """A pod with a weight of 250, whose idle was set by us and cleared by others.

    By that the kernel sets the default weight.
    """

    def __init__(self, version: int, journal: Journal) -> None:
        self.kernel = Kernel(version)
        directory = f"/cpu{POD}" if version == 1 else POD
        self.type = Type.CPU_SHARES if version == 1 else Type.CPU_WEIGHT
        self.weight = f"{directory}/{self.type}"
        self.idle = f"{directory}/cpu.idle"
        self.journal = journal
        self.executor = Executor(self.kernel.tree, journal=journal, refresh_s=0)
        self.kernel.files[self.idle] = "0"
        self.kernel.write(self.weight, "250")
        self.executor.update(IDLE)
        self.kernel.write(self.idle, "0")

    def restored(self) -> tuple[str, str]:
        """Restore, and return what idle and weight are then."""
        restore(self.kernel.tree, self.journal)
        return self.kernel.files[self.idle], self.kernel.files[self.weight]


@pytest.fixture(params=[1, 2])
def pod(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cleared]:
    with Journal(str(tmp_path)) as journal:
        yield Cleared(request.param, journal)


def test_the_default_is_what_our_idle_left(pod: Cleared) -> None:
    """A default weight is the kernel's, so the weight before idle is put back."""
    assert pod.restored() == ("0", "250")


def test_a_weight_written_since_is_left_alone(pod: Cleared) -> None:
    """A weight that another program wrote after it cleared idle is left alone."""
    pod.kernel.write(pod.weight, "500")
    found = {f.path: f for f in restore(pod.kernel.tree, pod.journal)}[pod.weight]
    reason = "another program has changed it since"
    assert (found.action, found.reason) == (Action.LEFT, reason)
    assert pod.kernel.files[pod.weight] == "500"


def test_the_next_idle_goes_back_to_the_weight_that_it_found(pod: Cleared) -> None:
    """The original is the weight before the second idle, not before the first."""
    pod.kernel.write(pod.weight, "500")
    pod.executor.update(IDLE)
    assert pod.restored() == ("0", "500")


def test_the_next_idle_goes_back_past_the_default(pod: Cleared) -> None:
    """A default weight is the kernel's, so the first weight stays the original."""
    pod.executor.update(IDLE)
    pod.executor.update(Update(Type.CPU_IDLE, POD, 0))
    pod.executor.update(IDLE)
    assert pod.restored() == ("0", "250")


def test_our_own_weight_goes_back_to_the_one_written_since(pod: Cleared) -> None:
    """The original is the weight that another program wrote before nriplugin's own."""
    pod.kernel.write(pod.weight, "500")
    pod.executor.update(Update(pod.type, POD, 700))
    assert pod.restored() == ("0", "500")


def test_our_own_weight_after_the_default(pod: Cleared) -> None:
    """If no other program wrote a weight since, the one before idle is the original."""
    pod.executor.update(Update(pod.type, POD, 700))
    assert pod.restored() == ("0", "250")


def test_a_weight_whose_idle_is_back_already(pod: Cleared) -> None:
    """A weight is put back by a second `restore`, when the row of idle is gone."""
    pod.journal.drop([pod.idle])
    assert pod.restored() == ("0", "250")
