"""Values that no kubelet sends: a container fares with the plugin as without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.bed import on_nodes
from support.odd import ODD, ODD_ON, SHARES, STARTS

from nriplugin.convert.curves import Curve, weight_of

if TYPE_CHECKING:
    from nodes.machine import Machine
    from support.observed import Observed

pytestmark = pytest.mark.timeout(1800)

# Before NRI 0.10 a runtime does not show a container's unified keys to plugins, so
# there a key that nriplugin sets replaces one of the same name.
HIDES_UNIFIED = {"containerd-2", "containerd-1.7"}
# Nodes whose runc and crun follow the KEP's curve. nriplugin follows the quadratic one
# as long as no container shows it the runtime's.
KEP_NODES = {"containerd-1.7", "containerd-1.6"}

each_container = pytest.mark.parametrize(
    ("node", "name"),
    [(node, name) for node, names in ODD_ON.items() for name in names],
    indirect=["node"],
)


@each_container
def test_a_container_fares_as_without_the_plugin(
    node: Machine, observed: Observed, name: str
) -> None:
    """A container that starts without the plugin starts with it, with the same values.

    Only cpu.weight may differ, where the runtime follows another curve.
    """
    control, ours = observed.odd_control[name], observed.odd_plugin[name]
    clamped = name in SHARES and node.node.name not in KEP_NODES
    assert isinstance(control, dict) == (name in STARTS or clamped), control
    if isinstance(control, str):
        assert isinstance(ours, str), f"started only with the plugin: {ours}"
        return
    assert isinstance(ours, dict), f"failed only with the plugin: {ours}"
    expected = dict(control)
    shares = ODD[name].get("cpu_shares")
    hidden = name == "unified" and node.node.name in HIDES_UNIFIED
    explicit = name == "unified" and not hidden
    other_curve = node.node.name in KEP_NODES and isinstance(shares, int)
    if hidden or (other_curve and not explicit):
        assert isinstance(shares, int)
        expected["cpu.weight"] = str(weight_of(shares, Curve.QUADRATIC))
        expected["cpu.weight.nice"] = ours["cpu.weight.nice"]
    assert ours == expected


@on_nodes(*ODD_ON)
def test_explicit_v2_values_win(node: Machine, observed: Observed) -> None:
    """A container that already has unified keys keeps them; the rest is converted."""
    settings = observed.odd_plugin["unified"]
    assert isinstance(settings, dict), settings
    held = {file: settings[file] for file in ("memory.high", "pids.max")}
    assert held == {"memory.high": "50331648", "pids.max": "99"}
    if node.node.name not in HIDES_UNIFIED:
        assert settings["cpu.weight"] == "77"
    assert settings["cpu.max"] == "50000 100000"
    assert settings["memory.max"] == str(2**26)
