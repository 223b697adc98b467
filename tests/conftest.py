"""How tests are shared between processes, if there are several."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from nodes.catalog import NODES

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

OF_NODE = re.compile(rf"^tests/node/.*[\[-]({'|'.join(map(re.escape, NODES))})[\]-]")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: object, log: object) -> LoadScopeScheduling:
    """Keep the tests of a node in one process, so that it is booted once."""
    from xdist.scheduler import LoadScopeScheduling

    class ByNode(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            node = OF_NODE.match(nodeid)
            return node[1] if node else nodeid

    return ByNode(config, log)
