"""A small part of containerd's own tests; hack/conformance runs more of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from conformances.containerd import prepared, run_tests
from conformances.outcomes import PASSED
from conformances.ways import WITH, WITHOUT
from support.bed import on_nodes

if TYPE_CHECKING:
    from nodes.machine import Machine

pytestmark = [on_nodes("containerd-2.4"), pytest.mark.timeout(3600)]

# Updates of a container's memory and swap, before its start and after it, and an update
# by an NRI plugin of the tests while nriplugin is registered, too.
CHOSEN = (
    "TestUpdateContainerResources_MemorySwap",
    "TestUpdateContainerResources_MemoryLimit",
    "TestNriLinuxCpusetAdjustmentUpdate",
)


def test_containerds_own_tests_pass_with_nriplugin(node: Machine) -> None:
    """No test of containerd fails because of nriplugin.

    Those that fail with it are run again without it.
    """
    with prepared(node):
        with_it = run_tests(node, WITH, "|".join(CHOSEN))
        assert with_it.tests.keys() == set(CHOSEN)
        failed = {
            name: outcome.result
            for name, outcome in with_it.tests.items()
            if outcome.result != PASSED
        }
        if failed:
            again = run_tests(node, WITHOUT, "|".join(map(re.escape, failed)))
            without = {name: each.result for name, each in again.tests.items()}
            assert without == failed, with_it.tests
    assert len(failed) < len(CHOSEN), with_it.tests
