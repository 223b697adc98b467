"""How tests are shared between processes, and what holds for all properties."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from nodes.catalog import NODES

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

OF_NODE = re.compile(rf"^tests/e2e/.*[\[-]({'|'.join(map(re.escape, NODES))})[\]-]")

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: object, log: object) -> LoadScopeScheduling:
    """Keep the tests of a node in one process, so that it is booted once."""
    from xdist.scheduler import LoadScopeScheduling

    class ByNode(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            node = OF_NODE.match(nodeid)
            return node[1] if node else nodeid

    return ByNode(config, log)
