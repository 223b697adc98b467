"""The loop over the policies, with start-up boost on a model of a kernel."""

from __future__ import annotations

from errno import EIO, EMFILE
from typing import TYPE_CHECKING, Any

import pytest
from support.policies import PolicyNode
from support.trees import CONTAINER, POD

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.errors import CgroupError
from nriplugin.state.events import EventKind
from nriplugin.state.inventory import Inventory
from nriplugin.state.policy_starts import ContainerStarts

if TYPE_CHECKING:
    from pathlib import Path

ON = "startupBoost: {enabled: true, percent: 300, seconds: 60}"


@pytest.mark.parametrize("version", [1, 2])
def test_golden_trace_of_a_start(version: int) -> None:
    """Up at once, the pod before the container; down after the time, in reverse."""
    node = PolicyNode(ON, version)
    period = "" if version == 1 else " 100000"
    boosted, own = f"150000{period}", f"50000{period}"
    node.start()
    assert node.writes() == [("pod", boosted), ("container", boosted)]
    for _ in range(5):
        node.look(10)
    assert node.writes() == []
    node.look(10)
    assert node.writes() == [("container", own), ("pod", own)]
    node.look(10)
    assert node.writes() == []


def test_a_container_that_was_there_before_is_left_alone() -> None:
    """This process has not seen its start."""
    node = PolicyNode(ON)
    node.look()
    assert node.writes() == []


def test_a_resize_wins() -> None:
    """The new quota is in force at once, and there is no boost any more."""
    node = PolicyNode(ON)
    node.start()
    # kubelet writes the pod, the runtime the container.
    node.set_quota(POD, "80000 100000")
    node.set_quota(CONTAINER, "80000 100000")
    node.know(CONTAINER, "80000 100000")
    for _ in range(3):
        node.look(5)
    assert (node.quota(POD), node.quota()) == (80000, 80000)


def test_a_look_that_comes_first_is_not_forgotten() -> None:
    """What it has raised goes back at the deadline, too."""
    node = PolicyNode(ON)
    node.policies.started(CONTAINER.rpartition("/")[2], node.background)
    node.look(1)
    assert node.quota() == 150000
    node.background.work()
    node.look(60)
    assert (node.quota(POD), node.quota()) == (50000, 50000)


def test_a_start_costs_nothing_for_the_other_pods() -> None:
    """Where many containers start, a job looks at the files of the new one's pod."""
    node = PolicyNode(ON)
    node.start()
    other = f"{POD.replace('7b0f', '8b0f')}/{'fedcba9876543210' * 4}"
    pod = other.rpartition("/")[0]
    node.kernel.add(pod)
    node.pod = node.pod._replace(id="other", cgroup_parent=pod)
    node.add(other, "50000 100000")
    read: list[str] = []
    files_read = node.kernel.read

    def noted(path: str) -> str:
        read.append(path)
        return files_read(path)

    node.kernel.read = noted  # type: ignore[method-assign]
    node.start(other)
    assert node.quota(other) == 150000
    assert not [path for path in read if path.startswith(f"{POD}/")]


def test_a_container_that_has_just_ended_delays_nothing() -> None:
    """As an init container, or the one that crashed before this start."""
    node = PolicyNode(ON)
    other = f"{POD}/{'fedcba9876543210' * 4}"
    node.add(other, "20000 100000", "before")
    node.look()
    node.inventory.drop(other.rpartition("/")[2])
    node.start()
    assert (node.quota(POD), node.quota()) == (150000, 150000)


def test_a_pod_that_cannot_be_lowered_is_tried_again() -> None:
    """Also where no policy is on any more, and no container holds a value."""
    node = PolicyNode(ON)
    node.start()
    node.kernel.unwilling.add(f"{POD}/cpu.max")
    node.configure("{}")
    node.background.work()
    assert (node.quota(POD), node.quota()) == (150000, 50000)
    node.kernel.unwilling.clear()
    node.background.work_when_time_is_up()
    assert node.quota(POD) == 50000
    assert not node.background.timed


def test_a_pod_whose_limit_was_lifted_is_forgotten() -> None:
    """There is nothing to put back."""
    node = PolicyNode(ON)
    node.start()
    node.set_quota(POD, "max 100000")
    node.look(1)
    assert not node.policies.pod_held_by(POD)
    node.look(60)
    assert (node.quota(POD), node.quota()) == (-1, 50000)


def test_files_that_cannot_be_read_for_a_while_are_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when the process has too many open files: the values go back later."""
    node = PolicyNode(ON)
    node.start()

    def fail(path: str) -> Any:
        raise CgroupError("open", path, None, EMFILE)

    with monkeypatch.context() as few:
        for name in ("read", "exists"):
            few.setattr(node.kernel, name, fail)
        node.look(1)
    node.look(60)
    assert (node.quota(POD), node.quota()) == (50000, 50000)


def test_a_boost_ends_also_if_another_policy_cannot_measure() -> None:
    """Values of a container that cannot be measured go back after some looks."""
    node = PolicyNode(f"{ON}\nmemoryGuard: {{enabled: true}}")
    node.start()
    read = node.kernel.read

    def fail(path: str) -> str:
        if path.endswith("/memory.events"):
            raise CgroupError("read", path, None, EIO)
        return read(path)

    node.kernel.read = fail  # type: ignore[method-assign]
    node.look(5)
    assert (node.quota(POD), node.quota()) == (150000, 150000)
    for _ in range(2):
        node.look(5)
    assert (node.quota(POD), node.quota()) == (50000, 50000)
    released = node.events.since(0)[0][-1]
    assert (released.kind, released.text) == (
        EventKind.RELEASED,
        "startupBoost: cpu.max back after 1 changes: it cannot be measured",
    )


def test_a_reload_ends_it() -> None:
    """Switched off, the values go back at once."""
    node = PolicyNode(ON)
    node.start()
    node.configure("{}")
    node.background.work()
    assert (node.quota(POD), node.quota()) == (50000, 50000)


def test_after_a_crash_the_next_process_ends_it(tmp_path: Path) -> None:
    """It has not seen the start, so it puts the own values back first."""
    with Journal(str(tmp_path)) as journal:
        node = PolicyNode(ON, journal=journal, state=tmp_path)
        node.start()
        assert node.quota() == 150000
        after = PolicyNode(ON, kernel=node.killed(), journal=journal, state=tmp_path)
        after.look()
        assert (after.quota(POD), after.quota()) == (50000, 50000)


def test_a_process_that_waits_for_another_one_forgets_ended_containers(
    tmp_path: Path,
) -> None:
    """It may wait for as long as the other one runs."""
    node = PolicyNode(ON, state=tmp_path)
    node.start()
    beside = PolicyNode(ON, kernel=node.kernel, state=tmp_path)
    beside.start()
    beside.inventory.drop(CONTAINER.rpartition("/")[2])
    beside.look()
    beside.know(CONTAINER, "50000 100000")
    node.policies.end()
    beside.look()
    beside.look()
    assert beside.quota() == 50000


def test_ended_containers_are_forgotten() -> None:
    """A container of the same name that starts later has a start of its own."""
    inventory = Inventory()
    starts = ContainerStarts(inventory)
    starts.wanted = True
    starts.note("c1", 1.0)
    starts.forget_ended()
    assert starts.age_s("c1", 2.0) is None
    assert not [*starts.take_new()]
