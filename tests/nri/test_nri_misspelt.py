"""Misspelt handlers are told with the name that was probably meant."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from support.harness import Recorder

from nriplugin.api import nri_pb2 as nri
from nriplugin.doors.nri.plugin import NodePlugin
from nriplugin.nri import Plugin, run
from nriplugin.nri.misspelt import HANDLERS, misspelt_handlers

if TYPE_CHECKING:
    from pathlib import Path


def plugin_with(*names: str) -> Plugin:
    """Return a plugin whose class has methods of these names."""

    def method(self: Plugin, *args: object) -> None:
        pass

    made: type[Plugin] = type("Mine", (Plugin,), dict.fromkeys(names, method))
    return made()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("creat_container", "create_container"),
        ("CreateContainer", "create_container"),
        ("createcontainer", "create_container"),
        ("on_create_container", "create_container"),
        ("run_podsandbox", "run_pod_sandbox"),
        ("start_containers", "start_container"),
        ("synchronise", "synchronize"),
        ("configured", "configure"),
        ("other_events", "other_event"),
        ("fallback_updates", "fallback_update"),
    ],
)
def test_a_name_that_is_nearly_a_handler_is_told(name: str, meant: str) -> None:
    """The sentence has the class, the name, and the nearest handler."""
    (sentence,) = misspelt_handlers(plugin_with(name))
    assert f"Mine.{name} is never called" in sentence
    assert f"did you mean {meant}?" in sentence


@pytest.mark.parametrize(
    "name", ["close", "apply", "update_container_limits", "_creat_container", "weights"]
)
def test_methods_of_the_authors_own_are_left_alone(name: str) -> None:
    """Helpers with other names, or with an underscore, are not suspected."""
    assert misspelt_handlers(plugin_with(name)) == []


def test_no_handler_is_suspected() -> None:
    """All real handlers are right, and so is this project's own plugin."""
    assert misspelt_handlers(plugin_with(*HANDLERS)) == []
    assert misspelt_handlers(Recorder()) == []
    assert misspelt_handlers(NodePlugin.__new__(NodePlugin)) == []


def test_a_view_for_no_handler_is_told() -> None:
    """`views` with a misspelt name would silently have no effect."""

    class Mine(Plugin):
        views = MappingProxyType({"create_contaner": nri.CreateContainerRequest})

    (sentence,) = misspelt_handlers(Mine())
    assert "'create_contaner' is no handler; did you mean create_container?" in sentence


def test_run_warns_and_serves(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In a normal run a misspelt handler is a warning and no error."""
    plugin = plugin_with("start_container", "stop_contaner")
    plugin.stop()
    run(plugin, socket_path=str(tmp_path / "absent"))
    warnings = [one.message for one in caplog.records if one.levelname == "WARNING"]
    assert any("did you mean stop_container?" in one for one in warnings)
