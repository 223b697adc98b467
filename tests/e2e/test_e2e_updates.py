from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.bed import on_nodes
from support.plugins import running

if TYPE_CHECKING:
    from nodes.machine import Machine
    from support.kubelet import Container, Kubelet

# The node systemd has the containerd of the node containerd-2.
pytestmark = [
    on_nodes("containerd-2.4", "containerd-1.7", "crio", "systemd", "containerd-1.6"),
    pytest.mark.timeout(1800),
]

# Nodes whose runc and crun still follow the KEP's curve.
KEP_NODES = ("containerd-1.7", "containerd-1.6")
FILES = ("cpu.weight", "cpu.max", "memory.max", "memory.swap.max")
CREATED = {
    "cpu_shares": 512,
    "cpu_quota": 50_000,
    "cpu_period": 100_000,
    "memory_limit_in_bytes": 2**26,
}


class Step(NamedTuple):
    """An update, and what the kernel must hold then, worked out by hand."""

    name: str
    options: dict[str, int]
    weight: int
    kep: int  # the weight on a node whose runtime has the KEP's curve
    max: str
    memory: int


STEPS = [
    Step("shares", {"cpu_share": 2048}, 174, 79, "50000 100000", 2**26),
    Step(
        "quota",
        {"cpu_quota": 150_000, "cpu_period": 100_000},
        174,
        79,
        "150000 100000",
        2**26,
    ),
    Step("memory", {"memory": 2**27}, 174, 79, "150000 100000", 2**27),
    Step(
        "everything",
        {
            "cpu_share": 256,
            "cpu_quota": 1_000,  # the least that the kernel takes
            "cpu_period": 50_000,
            "memory": 2**26,
        },
        35,
        10,
        "1000 50000",
        2**26,
    ),
    Step(
        "unlimited",
        {"cpu_quota": -1, "cpu_period": 100_000},
        35,
        10,
        "max 100000",
        2**26,
    ),
]


class Seen(NamedTuple):
    """The kernel's values after each step, and its other settings before and after."""

    log: str
    steps: dict[str, dict[str, str]]
    before: dict[str, str]
    after: dict[str, str]


@pytest.fixture(scope="module")
def seen(node: Machine, kubelet: Kubelet) -> dict[bool, Seen]:
    """A container through all steps, without the plugin (False) and with it (True)."""
    with kubelet.sandbox("Burstable") as pod:
        control = through_all(kubelet, kubelet.start(pod, "control", CREATED))
        with running(node) as plugin:
            ours = through_all(kubelet, kubelet.start(pod, "ours", CREATED))
            log = plugin.log()
    return {False: control, True: ours._replace(log=log)}


def through_all(kubelet: Kubelet, container: Container) -> Seen:
    steps = {}
    before = settings = kubelet.settings(container)
    for step in STEPS:
        result = kubelet.update(container, **step.options)
        assert result.code == 0, f"{step.name}: {result.stderr}"
        settings = kubelet.settings(container)
        steps[step.name] = {file: settings[file] for file in FILES}
    return Seen("", steps, before, settings)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_an_update_is_derived_again(
    node: Machine, seen: dict[bool, Seen], step: Step
) -> None:
    """After each update the kernel has the values of the new numbers."""
    held = seen[True].steps[step.name]
    weight = step.kep if node.node.name in KEP_NODES else step.weight
    assert held["cpu.weight"] == str(weight)
    assert held["cpu.max"] == step.max
    assert held["memory.max"] == str(step.memory)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_an_update_does_what_it_does_without_the_plugin(
    seen: dict[bool, Seen], step: Step
) -> None:
    """Values after each update equal those of the runtime alone, the curve's too."""
    assert seen[True].steps[step.name] == seen[False].steps[step.name]


def test_the_curve_is_the_runtimes_own(node: Machine, seen: dict[bool, Seen]) -> None:
    """The plugin recognises it from the container that was there before."""
    curve = "kep" if node.node.name in KEP_NODES else "quadratic"
    told = rf"curve:? {curve}\W+1 of 1 containers of this node"
    assert re.search(told, seen[True].log)


def test_an_update_leaves_the_rest_alone(seen: dict[bool, Seen]) -> None:
    """Files that the update does not concern are unchanged."""
    derived = {*FILES, "cpu.weight.nice"}
    before, after = (
        {file: value for file, value in settings.items() if file not in derived}
        for settings in (seen[True].before, seen[True].after)
    )
    assert after == before
