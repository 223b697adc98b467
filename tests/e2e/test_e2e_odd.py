from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.bed import on_nodes
from support.kubelet import Container
from support.plugins import running

from nriplugin.convert.curves import Curve, weight_of

if TYPE_CHECKING:
    from nodes.machine import Machine
    from support.kubelet import Kubelet

pytestmark = [
    on_nodes("containerd-2", "containerd-1.7", "crio", "containerd-1.6"),
    pytest.mark.timeout(600),
]

# Before NRI 0.10 a runtime does not tell plugins which unified keys a container has, so
# there a key of ours replaces one of the same name.
HIDES_UNIFIED = {"containerd-2", "containerd-1.7"}
# Whose runc and crun are from before they took to the quadratic curve, which is ours
# where no container shows the runtime's.
KEP_NODES = {"containerd-1.7", "containerd-1.6"}

# What CRI can carry and no kubelet sends, or only seldom.
ODD: dict[str, dict[str, object]] = {
    "shares-below-the-least": {"cpu_shares": 1},
    "shares-above-the-most": {"cpu_shares": 1_000_000},
    "quota-below-the-least": {"cpu_quota": 10, "cpu_period": 100_000},
    "quota-unlimited": {"cpu_quota": -1, "cpu_period": 50_000},
    "period-too-long": {"cpu_quota": 100_000, "cpu_period": 10_000_000},
    "memory-largest": {"memory_limit_in_bytes": 2**63 - 1},
    "memory-odd": {"memory_limit_in_bytes": 32 * 2**20 + 1},
    "cpuset": {"cpu_shares": 512, "cpuset_cpus": "0-1", "cpuset_mems": "0"},
    "unified": {
        "cpu_shares": 512,
        "cpu_quota": 50_000,
        "cpu_period": 100_000,
        "memory_limit_in_bytes": 2**26,
        "unified": {"cpu.weight": "77", "memory.high": "50331648", "pids.max": "99"},
    },
    "unified-of-no-kernel": {"unified": {"cpu.nonsense": "1"}},
}


@pytest.fixture(scope="module")
def outcomes(
    node: Machine, kubelet: Kubelet
) -> dict[bool, dict[str, dict[str, str] | str]]:
    """What became of each container, without the plugin (False) and with it (True)."""
    control = try_all(kubelet)
    with running(node):
        return {False: control, True: try_all(kubelet)}


def try_all(kubelet: Kubelet) -> dict[str, dict[str, str] | str]:
    found: dict[str, dict[str, str] | str] = {}
    with kubelet.sandbox() as pod:
        for name, resources in ODD.items():
            result = kubelet.try_start(pod, name, resources)
            found[name] = (
                kubelet.settings(result) if isinstance(result, Container) else result
            )
    return found


@pytest.mark.parametrize("name", ODD)
def test_a_container_fares_as_without_us(
    node: Machine,
    outcomes: dict[bool, dict[str, dict[str, str] | str]],
    name: str,
) -> None:
    """What starts without us starts with us, with the same values up to the curve."""
    control, ours = outcomes[False][name], outcomes[True][name]
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


def test_explicit_v2_values_win(
    node: Machine,
    outcomes: dict[bool, dict[str, dict[str, str] | str]],
) -> None:
    """A container that already has unified keys keeps them; the rest is converted."""
    settings = outcomes[True]["unified"]
    assert isinstance(settings, dict), settings
    held = {file: settings[file] for file in ("memory.high", "pids.max")}
    assert held == {"memory.high": "50331648", "pids.max": "99"}
    if node.node.name not in HIDES_UNIFIED:
        assert settings["cpu.weight"] == "77"
    assert settings["cpu.max"] == "50000 100000"
    assert settings["memory.max"] == str(2**26)
