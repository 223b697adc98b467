"""The journal's rows while pods and containers are created and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from doors.nri.messages import pod_at
from doors.nri.nodes import Node
from support.trees import CONTAINER, POD

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.journal.restore import restore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BURST = "cpuBurst: {enabled: true, percent: 50}"
POD_BURST = f"{POD}/cpu.max.burst"


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(str(tmp_path / "state")) as opened:
        yield opened


@pytest.fixture
def node(journal: Journal) -> Node:
    """A node with a container whose pod has the container's burst as well."""
    node = Node(BURST, journal=journal)
    node.kernel.files[f"{POD}/cpu.max"] = "200000 100000"
    node.create()
    node.start()
    assert node.file(POD_BURST) == "50000"
    return node


def finish(node: Node, journal: Journal) -> None:
    """Run the background jobs, and have the journal store delayed rows."""
    node.background.work()
    journal.drop([])


def test_the_next_sandbox_of_a_pod_is_in_the_same_cgroup(
    node: Node, journal: Journal
) -> None:
    """A late removal of the old sandbox drops no rows of the pod's cgroup."""
    node.remove_pod(pod_at(id="an earlier sandbox"))
    finish(node, journal)
    restore(node.kernel.tree, journal)
    assert node.file(POD_BURST) == "0"


def test_a_container_whose_cgroup_is_still_there(node: Node, journal: Journal) -> None:
    """Writes to a removed container's cgroup can be undone while the cgroup exists."""
    node.plugin.lifecycle.pending.writer.put({"cpu.weight": "59"}, CONTAINER)  # type: ignore[union-attr] # opened
    node.remove()
    finish(node, journal)
    restore(node.kernel.tree, journal)
    assert node.of_container("cpu.weight") == "100"


def test_a_pod_that_is_gone_leaves_nothing(node: Node, journal: Journal) -> None:
    """The rows are removed with the pod's cgroup."""
    node.kernel.remove(POD)
    node.remove_pod()
    finish(node, journal)
    assert journal.rows() == []
