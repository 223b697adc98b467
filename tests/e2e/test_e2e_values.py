from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.bed import on_nodes
from support.observed import CASES, Key

from nriplugin.cgroup.locate.paths import (
    Driver,
    RuntimeName,
    container_path,
    pod_components,
)
from nriplugin.convert.curves import Curve, weight_of

if TYPE_CHECKING:
    from nodes.machine import Machine
    from support.observed import Observed, Seen

pytestmark = [
    on_nodes(
        *("containerd-2", "containerd-2.4", "containerd-1.7", "containerd-1.6"),
        *("crio", "systemd"),
    ),
    pytest.mark.timeout(1800),
]
each_case = pytest.mark.parametrize("case", CASES, ids="-".join)

# Which curve the node's OCI runtimes have: runc from 1.3.2 and crun from 1.23 on the
# quadratic one, before that the KEP's.
NATIVE = {
    "containerd-2": Curve.QUADRATIC,
    "containerd-2.4": Curve.QUADRATIC,
    "containerd-1.7": Curve.KEP,
    "crio": Curve.QUADRATIC,
    "systemd": Curve.QUADRATIC,
    "containerd-1.6": Curve.KEP,
}
RUNTIME = {"containerd": RuntimeName.CONTAINERD, "crio": RuntimeName.CRIO}

# Worked out by hand: what some containers of these pods must get.
LITERAL = {
    Key("guaranteed", "runc", "half"): ("59", "50000 100000", "134217728"),
    Key("burstable", "runc", "both"): ("35", "150000 100000", "100663296"),
    Key("burstable", "runc", "requests"): ("100", "max 100000", "max"),
    Key("mixed", "crun", "half"): ("59", "50000 100000", "134217728"),
    Key("mixed", "crun", "small"): ("1", "10000 100000", "67108864"),
    Key("besteffort", "runc", "one"): ("1", "max 100000", "max"),
}


def of_case(seen: dict[Key, Seen], case: tuple[str, str]) -> dict[Key, Seen]:
    return {key: value for key, value in seen.items() if key[:2] == case}


@each_case
def test_kernel_holds_what_explain_says(
    observed: Observed, case: tuple[str, str]
) -> None:
    """Every file that explain names has the value in the kernel that explain says."""
    for key, seen in of_case(observed.plugin, case).items():
        held = {file: seen.settings.get(file) for file in seen.files}
        assert held == seen.files, key


@each_case
def test_inspect_shows_the_same(observed: Observed, case: tuple[str, str]) -> None:
    """The runtime's record of the container has the plugin's values as unified keys."""
    for key, seen in of_case(observed.plugin, case).items():
        assert seen.spec["linux"]["resources"].get("unified") == seen.files, key


@pytest.mark.parametrize("key", LITERAL, ids="-".join)
def test_known_values(observed: Observed, key: Key) -> None:
    """Values that were worked out by hand."""
    settings = observed.plugin[key].settings
    held = tuple(settings[file] for file in ("cpu.weight", "cpu.max", "memory.max"))
    assert held == LITERAL[key]


@each_case
def test_the_node_behaves_as_without_the_plugin_up_to_the_curve(
    node: Machine, observed: Observed, case: tuple[str, str]
) -> None:
    """Every setting that the kernel has for a container is the one it had before."""
    for key, seen in of_case(observed.plugin, case).items():
        control = observed.control[key]
        expected = dict(control.settings)
        if NATIVE[node.node.name] is not Curve.QUADRATIC:
            for file in ("cpu.weight", "cpu.weight.nice"):
                expected[file] = seen.settings[file]
        assert seen.settings == expected, key


@each_case
def test_the_curves_are_those_of_the_runtimes(
    node: Machine, observed: Observed, case: tuple[str, str]
) -> None:
    """Alone, the runtime writes the weight that convert/ computes for its curve."""
    curve = NATIVE[node.node.name]
    for key, seen in of_case(observed.control, case).items():
        expected = str(weight_of(seen.sent["cpu.shares"], curve))
        assert seen.settings["cpu.weight"] == expected, key


@each_case
def test_cgroup_is_where_we_expect_it(
    node: Machine, observed: Observed, case: tuple[str, str]
) -> None:
    """A container's directory follows from QoS class, pod UID, ID, driver, runtime."""
    driver, runtime = Driver(node.node.driver), RUNTIME[node.node.runtime]
    for seen in of_case(observed.plugin, case).values():
        pod = pod_components(seen.qos_class, seen.uid)
        path = container_path(pod, seen.id, driver, runtime)
        assert seen.cgroups == [f"/sys/fs/cgroup{path}"]
