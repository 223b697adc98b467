"""Values that no kubelet sends: a container fares with the plugin as without it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from support.bed import on_nodes
from support.kubelet import Container
from support.plugins import running

from nriplugin.convert.curves import Curve, weight_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nodes.machine import Machine
    from support.kubelet import Kubelet, Pod

pytestmark = pytest.mark.timeout(600)

# Before NRI 0.10 a runtime does not show a container's unified keys to plugins, so
# there a key that nriplugin sets replaces one of the same name.
HIDES_UNIFIED = {"containerd-2", "containerd-1.7"}
# Nodes whose runc and crun follow the KEP's curve. nriplugin follows the quadratic one
# as long as no container shows it the runtime's.
KEP_NODES = {"containerd-1.7", "containerd-1.6"}

# What CRI can carry and no kubelet sends, or only seldom. Fields that do not influence
# each other share a container.
ODD: dict[str, dict[str, object]] = {
    "largest": {
        "cpu_quota": -1,  # unlimited
        "cpu_period": 50_000,
        "memory_limit_in_bytes": 2**63 - 1,
    },
    "odd": {
        "cpu_shares": 512,
        "memory_limit_in_bytes": 2**26 + 1,  # no whole number of pages
        "cpuset_cpus": "0-1",
        "cpuset_mems": "0",
    },
    "unified": {
        "cpu_shares": 512,
        "cpu_quota": 50_000,
        "cpu_period": 100_000,
        "memory_limit_in_bytes": 2**26,
        "unified": {"cpu.weight": "77", "memory.high": "50331648", "pids.max": "99"},
    },
    "shares-below-the-least": {"cpu_shares": 1},
    "shares-above-the-most": {"cpu_shares": 1_000_000},
    "quota-below-the-least": {"cpu_quota": 10, "cpu_period": 100_000},
    "period-too-long": {"cpu_quota": 100_000, "cpu_period": 10_000_000},
    "unified-of-no-kernel": {"unified": {"cpu.nonsense": "1"}},
}
# Those that every runtime can start. Newer ones bring shares into their range, and the
# kernel refuses the values of the others.
STARTS = ("largest", "odd", "unified")
SHARES = ("shares-below-the-least", "shares-above-the-most")
# containerd-1.7 has no kernel or door that the others lack: only its curve and its
# hidden unified keys are looked at there.
NODES = {
    "containerd-2": tuple(ODD),
    "crio": tuple(ODD),
    "containerd-1.6": tuple(ODD),
    "containerd-1.7": STARTS,
}

SERIAL = itertools.count()
Outcome = dict[str, str] | str
each_container = pytest.mark.parametrize(
    ("node", "name"),
    [(node, name) for node, names in NODES.items() for name in names],
    indirect=["node"],
)


@pytest.fixture(scope="module")
def outcomes(node: Machine, kubelet: Kubelet) -> dict[bool, dict[str, Outcome]]:
    """What became of each container, without the plugin (False) and with it (True)."""
    names = NODES[node.node.name]
    with kubelet.sandbox() as pod:
        control = try_all(kubelet, pod, names)
        # Removed, because the plugin would learn the runtime's curve from them.
        kubelet.remove_containers(pod)
        with running(node):
            return {False: control, True: try_all(kubelet, pod, names)}


def try_all(kubelet: Kubelet, pod: Pod, names: Iterable[str]) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for name in names:
        # Names of their own: a container that failed to start keeps its name.
        unique = f"{name}-{next(SERIAL)}"
        result = kubelet.try_start(pod, unique, ODD[name])
        found[name] = (
            kubelet.settings(result) if isinstance(result, Container) else result
        )
    return found


@each_container
def test_a_container_fares_as_without_the_plugin(
    node: Machine, outcomes: dict[bool, dict[str, Outcome]], name: str
) -> None:
    """A container that starts without the plugin starts with it, with the same values.

    Only cpu.weight may differ, where the runtime follows another curve.
    """
    control, ours = outcomes[False][name], outcomes[True][name]
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


@on_nodes(*NODES)
def test_explicit_v2_values_win(
    node: Machine, outcomes: dict[bool, dict[str, Outcome]]
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
