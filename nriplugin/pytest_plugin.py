"""Fixtures for tests of NRI plugins, which pytest finds by the entry point `pytest11`.

pytest imports this module in every run on a machine that has nriplugin installed, so it
imports nothing of nriplugin before a fixture is used. For the same reason it is not in
`nriplugin.nri.testing`: the import of any module in `nriplugin.nri` imports protobuf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.nri.testing import Behaviour, PluginRuntime


@pytest.fixture
def nri_behaviour() -> Behaviour:
    """Which runtime the other fixtures imitate. Override it to imitate another one."""
    from nriplugin.nri.testing import DEFAULT_BEHAVIOUR

    return DEFAULT_BEHAVIOUR


@pytest.fixture
def nri_runtime(nri_behaviour: Behaviour) -> Iterator[PluginRuntime]:
    """An embedded NRI runtime that runs plugins; a mistake of a plugin fails the test.

    A mistake is, for instance, a misspelt handler, a wrong return type or an exception.
    The plugins are stopped at the end of the test.
    """
    from nriplugin.nri.testing import PluginRuntime

    with PluginRuntime(nri_behaviour) as runtime:
        yield runtime


@pytest.fixture
def lenient_nri_runtime(nri_behaviour: Behaviour) -> Iterator[PluginRuntime]:
    """An embedded NRI runtime that runs plugins; their mistakes are only logged."""
    from nriplugin.nri.testing import PluginRuntime

    with PluginRuntime(nri_behaviour, strict=False) as runtime:
        yield runtime
