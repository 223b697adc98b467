from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.bed import on_nodes
from support.observed import CASES_V1

if TYPE_CHECKING:
    from support.observed import Observed

pytestmark = [
    on_nodes("v1"),
    pytest.mark.timeout(600),
]


@pytest.mark.parametrize("case", CASES_V1, ids="-".join)
def test_containers_start_exactly_as_without_the_plugin(
    observed: Observed, case: tuple[str, str]
) -> None:
    """On cgroup v1 every setting of every container is the runtime's own."""
    keys = [key for key in observed.plugin if key[:2] == case]
    assert keys
    for key in keys:
        ours, control = observed.plugin[key], observed.control[key]
        assert ours.settings == control.settings, key
        assert "unified" not in ours.spec["linux"]["resources"], key
        assert ours.settings["cpu.shares"] == str(ours.sent["cpu.shares"]), key


def test_the_plugin_says_why_it_is_inactive(observed: Observed) -> None:
    """Registered, and one line that names the reason."""
    assert "registered with containerd" in observed.log
    assert "inactive: cgroup v1" in observed.log
