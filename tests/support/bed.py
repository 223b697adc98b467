"""On which nodes a test runs."""

from __future__ import annotations

from dataclasses import dataclass

import pytest


@dataclass(frozen=True, eq=False, slots=True)
class FreshNode:
    """A node that is booted for the tests that name this object, and not shared."""

    name: str


def on_nodes(
    *nodes: str | FreshNode, long: tuple[str | FreshNode, ...] = ()
) -> pytest.MarkDecorator:
    """Run a test on each of these nodes; on those in `long` by hack/conformance."""
    return pytest.mark.parametrize(
        "node",
        [
            *(pytest.param(node, id=name_of(node)) for node in nodes),
            *(
                pytest.param(node, id=name_of(node), marks=pytest.mark.long)
                for node in long
            ),
        ],
        indirect=True,
    )


def name_of(node: str | FreshNode) -> str:
    """Return the name of a node."""
    return node.name if isinstance(node, FreshNode) else node
