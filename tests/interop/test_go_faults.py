"""Faults of plugin, runtime and disk under a stream of containers (hack/faults)."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from faulting.checks import FILES
from faulting.clients import Clients, status
from faulting.main import CONFIG
from faulting.played_node import PATIENT_MS, PlayedNode, Size
from support.gopeers import TOP
from support.needs import need

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PODS = 200


@pytest.mark.timeout(1800)
def test_each_disturbance_once(go_peers: Path) -> None:
    """No container fails, all are known, every file becomes right, clients are served.

    A longer run, with another seed each time, is `hack/faults`.
    """
    path = os.pathsep.join([str(TOP / "tests"), str(TOP / "hack")])
    command = ["-m", "faulting.main", "--seed=1", "--minutes=0", "--at-least=12"]
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": path},
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if "nothing can be mounted" in done.stdout:
        need("mount", "a full and a read-only disk were left out")


@pytest.fixture
def node(go_peers: Path) -> Iterator[PlayedNode]:
    """A node with everything on, synchronized."""
    with PlayedNode(go_peers, CONFIG) as node:
        node.start_runtime(PATIENT_MS)
        node.start_plugin()
        node.wait_sync()
        yield node


def test_many_pods_at_once(node: PlayedNode) -> None:
    """200 pods are made at the same time, while metrics are scraped and events watched.

    None fails, none is made without the plugin, and all have their values.
    """
    size = Size(2048, 100_000, 256 << 20)
    with Clients(node.control, node.http, 3):
        failed = node.play(
            "run", 1, count=PODS, parallel=PODS, resources=size.resources()
        )
        assert failed == []
        state = status(node.control)
        assert (state.containers.managed, state.runtime.gap_count) == (PODS, 1)
        specs = node.containers()
        assert len(specs) == PODS

        def burst(spec: dict[str, object]) -> str:
            return node.files(spec, FILES)["cpu.max.burst"]

        values = [
            node.files(spec, ("cpu.weight", "cpu.max")) for spec in specs.values()
        ]
        assert values == [{"cpu.weight": "200", "cpu.max": "100000 100000"}] * PODS
        node.wait_until(
            lambda: {burst(spec) for spec in specs.values()} == {"50000"}, "bursts"
        )
