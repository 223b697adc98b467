"""The journal on real files: a writer is killed in the middle, or two write at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.guestcases import run_script

if TYPE_CHECKING:
    from nodes.machine import Machine

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.parametrize("node", ["containerd-2", "v1"], indirect=True),
]

# Types that are updated, each in three cgroups.
TYPES = {"containerd-2": 12, "v1": 7}


def journal(node: Machine, what: str) -> dict[str, Any]:
    (seen,) = run_script(node, "guest_journal", what)
    found: dict[str, Any] = seen
    return found


@pytest.fixture(scope="session")
def crash(node: Machine) -> dict[str, Any]:
    """Updates of whole branches, killed after 20 batches, and restored."""
    return journal(node, "crash")


@pytest.fixture(scope="session")
def storm(node: Machine) -> dict[str, Any]:
    """Two processes with one journal, and restored."""
    return journal(node, "storm")


def test_every_update_before_the_kill_succeeded(
    node: Machine, crash: dict[str, Any]
) -> None:
    """No batch had a failure, and most files were changed."""
    assert all(line == {"done": 1} for line in crash["seen"])
    assert len(crash["seen"]) >= 20
    assert len(crash["changed"]) >= 3 * (TYPES[node.node.name] - 2)


def test_every_file_is_back_after_a_kill(node: Machine, crash: dict[str, Any]) -> None:
    """Restore puts back everything, reports it, and leaves nothing in the journal."""
    assert crash["not back"] == {}
    actions = {action for action, _ in crash["actions"].values()}
    assert actions <= {"restored", "already back"}
    assert (crash["code"], crash["again"]) == (0, [])


def test_a_storm_loses_nothing(node: Machine, storm: dict[str, Any]) -> None:
    """Each process finds its own values, and the last ones stay."""
    own, codes, said = storm["seen"]
    assert (own, codes, said) == ([1198, 1199], [0, 0], ["", ""])
    assert storm["shared"] in ("1198", "1199")


def test_every_file_is_back_after_a_storm(node: Machine, storm: dict[str, Any]) -> None:
    """Restore puts back the value from before both processes."""
    assert storm["not back"] == {}
    assert (storm["code"], storm["again"]) == (0, [])
